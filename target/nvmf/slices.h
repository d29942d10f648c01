/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that are executed in slices or one at a time, because their work can be large. */
#ifndef RDT_SLICES_H
#define RDT_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

/* Admin commands whose work grows with the configuration, in slices: after each slice the command
 * waits, and one of the waiting commands of a reactor continues in each loop iteration. So all of
 * them together cost one slice per iteration. */

#define RDT_SLICE 1024u /* items examined in a slice, such as namespaces */

enum rdt_step;
struct rdt_req;

TAILQ_HEAD(rdt_req_list, rdt_req);

struct rdt_slices { /* one for each reactor; all zero: unused */
	struct rdt_req_list waiting;
	struct rd_defer next;
};

/* Called by a step of @req (rdt_io_run()) when a slice is done and work is left: returns the step's
 * return value. The next step is in a later loop iteration. */
enum rdt_step rdt_slice_done(struct rdt_req *req);
void rdt_slice_unwait(struct rdt_req *req); /* @req waits with RDT_WAIT_SLICE */

/* The budget of a host for queries which blocks are allocated, on each reactor: one query at a
 * time, then a pause of three times its duration. Even a small command keeps a helper thread busy
 * for tens of milliseconds if a file has many extents. */

struct rdt_reactor;

#define RDT_EXTENTS_PAUSE_MAX RD_NSEC_PER_SEC

struct rdt_extents_queue { /* all zero: unused */
	struct rdt_reactor *reactor;
	struct rdt_req *now;
	uint64_t began;                /* when @now began, in ns */
	uint64_t free_at;              /* end of the pause, in ns */
	TAILQ_HEAD(, rdt_req) waiting; /* by rdt_req.link */
	struct rd_timer timer;         /* armed while commands wait and none executes */
};

/* Returns whether @req may execute; otherwise it waits, and rdt_io_resume() follows. */
bool rdt_extents_begin(struct rdt_req *req);
void rdt_extents_end(struct rdt_req *req); /* @req was allowed to execute, and has ended */
void rdt_extents_unwait(struct rdt_req *req);
void rdt_extents_queue_fini(struct rdt_extents_queue *queue); /* no request may be left */

#endif /* RDT_SLICES_H */
