/* SPDX-License-Identifier: BSD-3-Clause */
#include "qpair_walk.h"

#include "qpair.h"
#include "reactor.h"

/* The oldest walk continues until it ends, then the next one begins: all walks together have one
 * slice in a loop iteration, however many clients of the control socket request one. */
static void qpair_walk_slice(struct rd_defer *defer)
{
	struct rdt_reactor *r = rd_container_of(defer, struct rdt_reactor, walk_slice);
	uint64_t end = rd_loop_now_raw(r->loop) + RDT_WALK_SLICE;
	struct rdt_qpair_walk *walk;

	while ((walk = TAILQ_FIRST(&r->walks))) {
		struct rdt_qpair *qp = walk->next;

		if (qp) {
			walk->next = TAILQ_NEXT(qp, link);
			walk->visit(walk, qp);
		}
		if (!walk->next) {
			TAILQ_REMOVE(&r->walks, walk, link);
			walk->end(walk);
		}
		if (!TAILQ_EMPTY(&r->walks) && rd_loop_now_raw(r->loop) >= end) {
			rd_defer(r->loop, &r->walk_slice, RD_DEFER_NEXT);
			return;
		}
	}
}

void rdt_qpair_walk_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->walks);
	r->walk_slice.fn = qpair_walk_slice;
}

void rdt_qpair_walk_begin(struct rdt_reactor *r, struct rdt_qpair_walk *walk)
{
	walk->reactor = r;
	walk->next = TAILQ_FIRST(&r->qpairs);
	TAILQ_INSERT_TAIL(&r->walks, walk, link);
	rd_defer(r->loop, &r->walk_slice, RD_DEFER_NEXT);
}

void rdt_qpair_walk_skip(struct rdt_qpair *qp)
{
	struct rdt_qpair_walk *walk;

	TAILQ_FOREACH (walk, &qp->reactor->walks, link)
		if (walk->next == qp)
			walk->next = TAILQ_NEXT(qp, link);
}

void rdt_qpair_walk_cancel_all(struct rdt_reactor *r)
{
	rd_defer_cancel(r->loop, &r->walk_slice);
	TAILQ_INIT(&r->walks);
}
