/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that finds out for one reactor what is allocated in the files of one device, one file
 * after the other. It has the smallest share of a processor that the scheduler gives, so that I/O
 * goes first.
 */
#ifndef RDT_WALKER_H
#define RDT_WALKER_H

#include "backend.h"

struct rdt_engine;
struct rdt_walker;

/* On the thread of @engine, as all calls here. Returns 0 or -ENOMEM. */
int rdt_walker_create(struct rdt_engine *engine, struct rdt_walker **out);
/* It has no bio; its thread ends now. NULL is allowed. */
void rdt_walker_free(struct rdt_walker **walker);
/* Execute @bio, an EXTENTS; rdt_engine_complete() follows. Returns 0, or -errno when no thread can
 * be started; @bio is the caller's again then. */
int rdt_walker_submit(struct rdt_walker *walker, struct rdt_bio *bio);
/* @bio was submitted: end it soon. rdt_engine_complete() is called in any case. */
void rdt_walker_cancel(struct rdt_bio *bio);

#endif /* RDT_WALKER_H */
