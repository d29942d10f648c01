/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties that admin commands read of many namespaces at once, in an array by slot: reading a
 * few bytes there avoids a cache miss for each namespace object. */
#ifndef RDT_NS_MARKS_H
#define RDT_NS_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rdt_ns_marks {
	_Atomic uint8_t ana_group;     /* changes under subsys->lock */
	atomic_bool faulty;            /* its storage has had a fault; stays set */
	_Atomic uint16_t err_recovery; /* feature 05h: stored for hosts, without any effect */
};

#endif /* RDT_NS_MARKS_H */
