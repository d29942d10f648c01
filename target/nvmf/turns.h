/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that take turns, because their work grows or a thread does it. */
#ifndef RDT_TURNS_H
#define RDT_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

/*
 * Admin commands whose work grows with the configuration, in slices: after each one the command
 * waits, and of all that wait on a reactor one goes on in each turn of its loop. So all of them
 * together cost one slice in a turn.
 */

#define RDT_SLICE 1024u /* things that are looked at in a slice, such as namespaces */

enum rdt_step;
struct rdt_req;

TAILQ_HEAD(rdt_req_list, rdt_req);

struct rdt_slices { /* of a reactor; all zero: unused */
	struct rdt_req_list waiting;
	struct rd_defer next;
};

/* Of a step of @req (rdt_io_run()), when a slice is done and more is left: returns what the step
 * returns. The next step is in a later turn. */
enum rdt_step rdt_slice_done(struct rdt_req *req);
void rdt_slice_unwait(struct rdt_req *req); /* its wait is RDT_WAIT_SLICE */

/*
 * The budget of a host for questions about what is allocated, for each reactor: one at a time, and
 * then a pause of three times as long as it took. A small command keeps a helper thread busy for
 * tens of milliseconds where a file has many extents.
 */

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

#endif /* RDT_TURNS_H */
