/* SPDX-License-Identifier: BSD-3-Clause */
#include "qpair_walk.h"

#include "qpair.h"
#include "reactor.h"

static void qpair_walk_slice(struct rd_defer *defer)
{
	struct rdt_qpair_walk *walk = rd_container_of(defer, struct rdt_qpair_walk, defer);
	struct rdt_reactor *r = walk->reactor;
	uint64_t end = rd_loop_now_raw(r->loop) + RDT_WALK_SLICE;

	while (walk->next) {
		walk->visit(walk, walk->next);
		walk->next = TAILQ_NEXT(walk->next, link);
		if (walk->next && rd_loop_now_raw(r->loop) >= end) {
			rd_defer(r->loop, &walk->defer, RD_DEFER_NEXT);
			return;
		}
	}
	TAILQ_REMOVE(&r->walks, walk, link);
	walk->end(walk);
}

void rdt_qpair_walk_begin(struct rdt_reactor *r, struct rdt_qpair_walk *walk)
{
	walk->reactor = r;
	walk->next = TAILQ_FIRST(&r->qpairs);
	walk->defer.fn = qpair_walk_slice;
	TAILQ_INSERT_TAIL(&r->walks, walk, link);
	qpair_walk_slice(&walk->defer);
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
	struct rdt_qpair_walk *walk;

	while ((walk = TAILQ_FIRST(&r->walks))) {
		rd_defer_cancel(r->loop, &walk->defer);
		TAILQ_REMOVE(&r->walks, walk, link);
	}
}
