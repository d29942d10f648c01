/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that reads, for one reactor, the extents of files of one device, one file after the
 * other. It has the lowest scheduling weight, so that I/O goes first.
 */
#ifndef RDT_WALKER_H
#define RDT_WALKER_H

#include "backend.h"

struct rdt_engine;
struct rdt_walker;

/* Call this, and all functions here, on the thread of @engine. Returns 0 or -ENOMEM. */
int rdt_walker_create(struct rdt_engine *engine, struct rdt_walker **out);
/* Ends the thread, which has no bio. Accepts NULL. */
void rdt_walker_free(struct rdt_walker **walker);
/* Execute @bio, an EXTENTS; rdt_engine_complete() follows. Returns 0, or -errno if no thread can be
 * started; then @bio remains the caller's. */
int rdt_walker_submit(struct rdt_walker *walker, struct rdt_bio *bio);
/* @bio was submitted: end it soon. rdt_engine_complete() is called in any case. */
void rdt_walker_cancel(struct rdt_bio *bio);

#endif /* RDT_WALKER_H */
