/* SPDX-License-Identifier: BSD-3-Clause */
/* A walk over the queue pairs of a reactor, on its thread, in slices of about RDT_WALK_SLICE: other
 * work of the reactor runs between two slices. Walks run one after the other, and all of them
 * together have one slice in a loop iteration. */
#ifndef RDT_QPAIR_WALK_H
#define RDT_QPAIR_WALK_H

#include <sys/queue.h>

#include "util/loop.h"

struct rdt_qpair;
struct rdt_reactor;

#define RDT_WALK_SLICE (50 * RD_NSEC_PER_USEC)

struct rdt_qpair_walk {
	/* Set by the owner. @visit: called for each queue pair that still exists when the walk
	 * reaches it; must not free other ones. @end: called after the last one; may free the
	 * walk. */
	void (*visit)(struct rdt_qpair_walk *walk, struct rdt_qpair *qp);
	void (*end)(struct rdt_qpair_walk *walk);
	/* used by the walk */
	struct rdt_reactor *reactor;
	struct rdt_qpair *next;           /* the next queue pair to visit */
	TAILQ_ENTRY(rdt_qpair_walk) link; /* reactor->walks, until it has ended */
};

TAILQ_HEAD(rdt_qpair_walks, rdt_qpair_walk);

void rdt_qpair_walk_init(struct rdt_reactor *r);
/* The walk begins in the next loop iteration, or when the walks before it have ended. */
void rdt_qpair_walk_begin(struct rdt_reactor *r, struct rdt_qpair_walk *walk);
void rdt_qpair_walk_skip(struct rdt_qpair *qp); /* @qp leaves the list of its reactor */
/* The reactor ends: walks in progress end without a call of @end. */
void rdt_qpair_walk_cancel_all(struct rdt_reactor *r);

#endif /* RDT_QPAIR_WALK_H */
