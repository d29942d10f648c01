/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The budget of a host for questions about what is allocated, for each reactor: one at a time, and
 * then a pause of three times as long as it took. A small command keeps a helper thread busy for
 * tens of milliseconds where a file has many extents.
 */
#ifndef RDT_EXTENTS_TURN_H
#define RDT_EXTENTS_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

struct rdt_req;
struct rdt_reactor;

#define RDT_EXTENTS_PAUSE_MAX RD_NSEC_PER_SEC

struct rdt_extents_turn { /* all zero: unused */
	struct rdt_reactor *reactor;
	struct rdt_req *now;
	uint64_t began;                /* @now, in ns */
	uint64_t free_at;              /* ns; the end of the pause */
	TAILQ_HEAD(, rdt_req) waiting; /* by rdt_req.link */
	struct rd_timer timer;         /* while some wait and none has the turn */
};

/* Is it the turn of @req? false: it waits, and rdt_io_resume() follows. */
bool rdt_extents_begin(struct rdt_req *req);
void rdt_extents_end(struct rdt_req *req); /* it had the turn, and has ended */
void rdt_extents_unwait(struct rdt_req *req);
void rdt_extents_turn_fini(struct rdt_extents_turn *turn); /* no request is left */

#endif /* RDT_EXTENTS_TURN_H */
