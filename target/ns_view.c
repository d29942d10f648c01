/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's views of the namespaces: which ones commands find, the channels to their backends,
 * and how many requests hold each. All of it on the reactor's thread, so that no command takes a
 * lock to find its namespace.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "backend.h"
#include "mask.h"
#include "ns.h"
#include "reactor.h"
#include "request.h"
#include "resv.h"
#include "subsys.h"
#include "tgt_limits.h"

static uint64_t make_key(const struct rdt_subsys *ss, uint32_t nsid)
{
	return (uint64_t)ss->index << 32 | nsid;
}

/* Position of the first key that is not below @key. */
static unsigned int lower_bound(const struct rdt_reactor *r, uint64_t key)
{
	unsigned int lo = 0;
	unsigned int hi = r->ns_count;

	while (lo < hi) {
		unsigned int mid = lo + (hi - lo) / 2;

		if (r->ns_keys[mid].key < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Most commands are for the namespace that the one before was for: look there first. */
static struct rdt_ns_view *find(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid)
{
	uint64_t key = make_key(ss, nsid);

	if (r->ns_last >= r->ns_count || r->ns_keys[r->ns_last].key != key)
		r->ns_last = lower_bound(r, key);
	if (r->ns_last == r->ns_count || r->ns_keys[r->ns_last].key != key)
		return NULL;
	return r->ns_keys[r->ns_last].view;
}

struct rdt_ns *rdt_ns_find(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid)
{
	const struct rdt_ns_view *view = find(r, ss, nsid);

	return view ? view->ns : NULL;
}

struct rdt_ns *rdt_ns_next(struct rdt_reactor *r, const struct rdt_subsys *ss, uint32_t nsid)
{
	unsigned int pos = lower_bound(r, make_key(ss, nsid) + 1);

	if (pos == r->ns_count || r->ns_keys[pos].key >> 32 != ss->index)
		return NULL;
	return r->ns_keys[pos].view->ns;
}

struct rdt_ns *rdt_ns_seen(const struct rdt_req *req, uint32_t nsid)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct rdt_ns *ns = rdt_ns_find(req->qp->reactor, ctrl->subsys, nsid);

	return ns && rdt_ns_visible(ctrl, ns) ? ns : NULL;
}

struct rdt_ns *rdt_ns_seen_next(const struct rdt_req *req, uint32_t nsid)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct rdt_ns *ns = rdt_ns_next(req->qp->reactor, ctrl->subsys, nsid);

	while (ns && !rdt_ns_visible(ctrl, ns))
		ns = rdt_ns_next(req->qp->reactor, ctrl->subsys, ns->nsid);
	return ns;
}

bool rdt_ns_take(struct rdt_req *req, uint32_t nsid)
{
	struct rdt_ns_view *view = find(req->qp->reactor, req->qp->ctrl->subsys, nsid);

	assert(!req->ns);
	if (!view)
		return false;
	view->inflight++;
	req->ns = view->ns;
	req->view = view;
	return true;
}

/* ---- come and go ---- */

int rdt_view_open(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_view *view = &r->views[ns->slot];
	int err;

	assert(!view->ns);
	err = rdt_chan_open(ns->bdev, r->engines, &view->chan);
	if (err) {
		rd_err(r->log, RD_LOG_TARGET, "%s namespace %u on reactor %u: %s", ns->subsys->nqn,
		       ns->nsid, r->index, strerror(-err));
		return err;
	}
	view->ns = ns;
	view->counters = &r->counters[ns->subsys->index];
	view->resv = rdt_resv_first(ns);
	return 0;
}

void rdt_view_show(struct rdt_reactor *r, struct rdt_ns *ns)
{
	uint64_t key = make_key(ns->subsys, ns->nsid);
	unsigned int pos = lower_bound(r, key);

	assert(r->ns_count < RDT_NS_SLOTS);
	assert(pos == r->ns_count || r->ns_keys[pos].key != key);
	memmove(&r->ns_keys[pos + 1], &r->ns_keys[pos],
		(r->ns_count - pos) * sizeof(r->ns_keys[0]));
	r->ns_keys[pos] = (struct rdt_ns_key){key, &r->views[ns->slot]};
	r->ns_count++;
}

void rdt_view_hide(struct rdt_reactor *r, struct rdt_ns *ns)
{
	uint64_t key = make_key(ns->subsys, ns->nsid);
	unsigned int pos = lower_bound(r, key);

	/* One that never was shown may share its NSID with another that is. */
	if (pos == r->ns_count || r->ns_keys[pos].view != &r->views[ns->slot])
		return;
	r->ns_count--;
	memmove(&r->ns_keys[pos], &r->ns_keys[pos + 1],
		(r->ns_count - pos) * sizeof(r->ns_keys[0]));
}

void rdt_view_close(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_view *view = &r->views[ns->slot];

	if (view->ns != ns)
		return; /* it could not be opened here */
	assert(!view->inflight);
	rdt_view_hide(r, ns);
	rdt_chan_close(&view->chan);
	memset(view, 0, sizeof(*view));
}

static void leave_defer(struct rd_defer *defer)
{
	struct rdt_reactor *r = rd_container_of(defer, struct rdt_reactor, ns_leave);

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		struct rdt_ns *ns = r->views[i].ns;

		if (!ns || !r->views[i].leaving || r->views[i].inflight)
			continue;
		rdt_view_close(r, ns);
		rdt_ns_answer(&ns->posts[r->index], 0);
	}
}

/* Its commands end with the status that later ones get, unless they complete by themselves. */
static void end_requests(struct rdt_reactor *r, const struct rdt_ns *ns)
{
	struct rdt_qpair *qp;
	struct rdt_req *req;

	TAILQ_FOREACH (qp, &r->qpairs, link)
		RDT_FOREACH_REQ (req, qp)
			if (req->ns == ns)
				rdt_req_ns_gone(req);
}

void rdt_view_leave(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_view *view = &r->views[ns->slot];

	if (view->ns != ns) { /* it could not be opened here */
		rdt_ns_answer(&ns->posts[r->index], 0);
		return;
	}
	view->leaving = true;
	if (view->inflight)
		end_requests(r, ns);
	if (!view->inflight)
		rd_defer(r->loop, &r->ns_leave, RD_DEFER_WORK);
}

int rdt_view_init(struct rdt_reactor *r)
{
	r->views = calloc(RDT_NS_SLOTS, sizeof(*r->views));
	r->ns_keys = calloc(RDT_NS_SLOTS, sizeof(*r->ns_keys));
	r->ns_leave.fn = leave_defer;
	return r->views && r->ns_keys ? 0 : -ENOMEM;
}

void rdt_view_close_all(struct rdt_reactor *r)
{
	rd_defer_cancel(r->loop, &r->ns_leave);
	for (unsigned int i = 0; r->views && i < RDT_NS_SLOTS; i++)
		if (r->views[i].ns)
			rdt_view_close(r, r->views[i].ns);
}

void rdt_view_fini(struct rdt_reactor *r)
{
	free(r->views);
	free(r->ns_keys);
}
