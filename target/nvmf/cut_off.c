/* SPDX-License-Identifier: BSD-3-Clause */
#include "cut_off.h"

#include "target/bdev/backend.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "target.h"

/* Does @req wait, for its storage or behind another command that does? */
static bool waits_in_vain(const struct rdt_req *req)
{
	return req->ns && req->state >= RDT_REQ_NEW && req->state < RDT_REQ_EXECUTED &&
	       atomic_load(&rdt_bdev_base(req->ns->bdev)->cut_off);
}

static void cut_off_visit(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct rdt_req *req;

	if (qp->admin)
		return;
	RDT_FOREACH_REQ (req, qp) {
		if (!waits_in_vain(req))
			continue;
		rdt_qpair_close(qp, "its storage is cut off, and may be served by another gateway");
		return;
	}
}

static void cut_off_walked(struct rdt_qpair_walk *walk)
{
	atomic_store(&walk->reactor->cut_off.posted, false);
}

static void cut_off_msg(struct rd_msg *msg)
{
	struct rdt_reactor *r = rd_container_of(msg, struct rdt_reactor, cut_off.msg);

	rdt_qpair_walk_begin(r, &r->cut_off.walk);
}

void rdt_cut_off_init(struct rdt_reactor *r)
{
	r->cut_off.msg.fn = cut_off_msg;
	r->cut_off.walk.visit = cut_off_visit;
	r->cut_off.walk.end = cut_off_walked;
}

void rdt_cut_off_look(struct rdt_target *t)
{
	for (unsigned int i = 0; i < t->reactors_count; i++)
		if (!atomic_exchange(&t->reactors[i].cut_off.posted, true))
			rd_loop_post(t->reactors[i].loop, &t->reactors[i].cut_off.msg);
}
