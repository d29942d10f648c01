/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admin commands whose work grows with the configuration, in slices: after each one the command
 * waits, and of all that wait on a reactor one goes on in each turn of its loop. So all of them
 * together cost one slice in a turn.
 */
#ifndef RDT_SLICE_H
#define RDT_SLICE_H

#include "util/loop.h"
#include "pool.h"

#define RDT_SLICE 1024u /* things that are looked at in a slice, such as namespaces */

enum rdt_step;
struct rdt_req;

struct rdt_slices { /* of a reactor; all zero: unused */
	struct rdt_req_list waiting;
	struct rd_defer next;
};

/* Of a step of @req (rdt_io_run()), when a slice is done and more is left: returns what the step
 * returns. The next step is in a later turn. */
enum rdt_step rdt_slice_done(struct rdt_req *req);
void rdt_slice_unwait(struct rdt_req *req); /* its wait is RDT_WAIT_SLICE */

#endif /* RDT_SLICE_H */
