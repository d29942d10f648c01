/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What admin commands ask of many namespaces at once, in an array by slot: they read a few bytes of
 * each namespace there, and not the namespaces themselves, each of which is a miss in the caches.
 */
#ifndef RDT_NS_MARKS_H
#define RDT_NS_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rdt_ns_marks {
	_Atomic uint8_t ana_group;     /* changes under subsys->lock */
	atomic_bool faulty;            /* a fault of its storage was noticed; stays set */
	_Atomic uint16_t err_recovery; /* feature 05h: stored for hosts, without effect */
};

#endif /* RDT_NS_MARKS_H */
