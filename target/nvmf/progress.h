/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of the transfers of a connection, for the stall watchdogs of transports: a host that
 * neither sends nor receives its data keeps buffers in use that all connections of the reactor
 * share, and keep alive does not detect that.
 *
 * Each transfer has a deadline. The transfers of a stream complete in order, so it is sufficient to
 * remember how much was posted at one check, and to test at later checks whether that much is done.
 * If it is not done after some checks, the stream is late, and its host is unproven (pool.c).
 * Later, depending on the number of bytes in flight, the stream is too slow, and its connection is
 * closed; the same happens after a few checks without any progress while other hosts wait for
 * buffers.
 *
 * Counts checks instead of time, so that a host is not blamed when the target itself was blocked.
 */
#ifndef RDT_PROGRESS_H
#define RDT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/loop.h"

struct rdt_reactor;

#define RDT_PROGRESS_LOOK RD_NSEC_PER_SEC /* between two checks */

/* In bytes since the connection began, unless noted. */
struct rdt_progress {
	uint64_t posted;
	uint64_t done;
	uint64_t mark;   /* posted at the beginning of the measured interval */
	uint64_t seen;   /* done at the last check */
	uint32_t checks; /* checks since @mark was set */
	uint32_t still;  /* consecutive checks without progress */
	uint32_t grace;  /* further checks that are allowed before the stream counts as late */
};

void rdt_progress_check(struct rdt_progress *s);
bool rdt_progress_late(const struct rdt_progress *s);
/* @pressed: other hosts wait for buffers, rdt_progress_pressed() */
bool rdt_progress_too_slow(const struct rdt_progress *s, bool pressed);
bool rdt_progress_pressed(const struct rdt_reactor *r);

#endif /* RDT_PROGRESS_H */
