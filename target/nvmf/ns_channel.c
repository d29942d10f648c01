/* SPDX-License-Identifier: BSD-3-Clause */
/* The namespace channels of a reactor: the namespaces that commands can find, the backend's I/O
 * channel of each, and the number of requests that use it. Used on the reactor's thread only, so
 * that the lookup takes no lock. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/bdev/backend.h"
#include "host_access.h"
#include "io_stats.h"
#include "ns.h"
#include "pool_device.h"
#include "reactor.h"
#include "request.h"
#include "resv.h"
#include "subsys.h"

static uint64_t channel_key(const struct rdt_ns_channel *channel)
{
	return rdt_ns_key(channel->ns->subsys, channel->ns->nsid);
}

/* Returns the index in @r->ns_order of the first namespace whose key is not below @key. */
static unsigned int lower_bound(const struct rdt_reactor *r, uint64_t key)
{
	unsigned int lo = 0;
	unsigned int hi = r->ns_map.count;

	while (lo < hi) {
		unsigned int mid = lo + (hi - lo) / 2;

		if (r->ns_order[mid].key < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct rdt_ns_channel *find_channel(struct rdt_reactor *r, const struct rdt_subsys *ss,
					   uint32_t nsid)
{
	return rd_map_get(&r->ns_map, rdt_ns_key(ss, nsid));
}

const struct rdt_ns_place *rdt_ns_places(const struct rdt_reactor *r, const struct rdt_subsys *ss,
					 uint32_t nsid, const struct rdt_ns_place **end)
{
	*end = r->ns_order + lower_bound(r, rdt_ns_key(ss, UINT32_MAX));
	return r->ns_order + lower_bound(r, rdt_ns_key(ss, nsid) + 1);
}

struct rdt_ns *rdt_ns_seen(const struct rdt_req *req, uint32_t nsid)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_ns_channel *channel = find_channel(req->qp->reactor, ctrl->subsys, nsid);

	return channel && rdt_ns_visible(ctrl, channel->ns) ? channel->ns : NULL;
}

struct rdt_ns *rdt_ns_seen_next(const struct rdt_req *req, uint32_t nsid)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_ns_place *end,
		*place = rdt_ns_places(req->qp->reactor, ctrl->subsys, nsid, &end);

	while (place < end && rdt_slots_has(&ctrl->hidden, place->slot))
		place++;
	return place == end ? NULL : place->channel->ns;
}

bool rdt_ns_take(struct rdt_req *req, uint32_t nsid)
{
	struct rdt_ns_channel *channel =
		find_channel(req->qp->reactor, req->qp->ctrl->subsys, nsid);

	assert(!req->ns);
	if (!channel)
		return false;
	channel->inflight++;
	req->ns = channel->ns;
	req->channel = channel;
	/* Called last, so that other commands do not save registers for this call. */
	if (!req->qp->reactor->stall.watching)
		rdt_stall_begin(req->qp->reactor);
	return true;
}

/* Reserve memory, so that showing the channel cannot fail. */
static int grow_ns_order(struct rdt_reactor *r)
{
	unsigned int need = r->channels_count + 1;
	struct rdt_ns_place *order;
	int err = rd_map_reserve(&r->ns_map, need);

	if (err || need <= r->ns_room)
		return err;
	order = realloc(r->ns_order, 2 * (size_t)need * sizeof(*order));
	if (!order)
		return -ENOMEM;
	r->ns_order = order;
	r->ns_room = 2 * need;
	return 0;
}

int rdt_ns_channel_open(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_channel *channel = rdt_ns_channel_of(r, ns);
	int err = grow_ns_order(r);

	uint64_t device = rdt_bdev_base(ns->bdev)->device;

	assert(!channel->ns);
	if (!err && device)
		err = rdt_pool_device_get(r, device, &channel->device);
	if (!err)
		err = rdt_chan_open(ns->bdev, r->engines, &channel->chan);
	if (err) {
		rdt_pool_device_put(channel->device);
		channel->device = NULL;
		rd_err(r->log, RD_LOG_TARGET, "%s namespace %u on reactor %u: %s", ns->subsys->nqn,
		       ns->nsid, r->index, strerror(-err));
		return err;
	}
	channel->ns = ns;
	channel->counters = &ns->subsys->counters[r->index];
	channel->resv = rdt_resv_first(ns);
	TAILQ_INSERT_TAIL(&r->channels, channel, link);
	r->channels_count++;
	return 0;
}

void rdt_ns_channel_show(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_channel *channel = rdt_ns_channel_of(r, ns);
	unsigned int pos = lower_bound(r, channel_key(channel));

	assert(r->ns_map.count < r->ns_room);
	memmove(&r->ns_order[pos + 1], &r->ns_order[pos],
		(r->ns_map.count - pos) * sizeof(r->ns_order[0]));
	r->ns_order[pos] = (struct rdt_ns_place){channel_key(channel), channel, ns->slot};
	r->ns_changes++;
	/* Cannot fail, because memory was reserved. */
	rd_map_put(&r->ns_map, channel_key(channel), channel);
}

void rdt_ns_channel_hide(struct rdt_reactor *r, struct rdt_ns *ns)
{
	uint64_t key = rdt_ns_key(ns->subsys, ns->nsid);
	unsigned int pos = lower_bound(r, key);

	/* A channel that was never shown to hosts may have the same NSID as a visible one. */
	if (pos == r->ns_map.count || r->ns_order[pos].channel != rdt_ns_channel_of(r, ns))
		return;
	rd_map_remove(&r->ns_map, key);
	memmove(&r->ns_order[pos], &r->ns_order[pos + 1],
		(r->ns_map.count - pos) * sizeof(r->ns_order[0]));
	r->ns_changes++;
}

void rdt_ns_channel_close(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_channel *channel = rdt_ns_channel_of(r, ns);

	if (channel->ns != ns)
		return; /* the channel could not be opened on this reactor */
	assert(!channel->inflight);
	rdt_io_count_run(r);
	rdt_ns_channel_hide(r, ns);
	rdt_stall_forget(r, channel);
	rdt_chan_close(&channel->chan);
	rdt_pool_device_put(channel->device);
	TAILQ_REMOVE(&r->channels, channel, link);
	r->channels_count--;
	rdt_pools_revisit(r);
	memset(channel, 0, sizeof(*channel));
}

static void leave_defer(struct rd_defer *defer)
{
	struct rdt_reactor *r = rd_container_of(defer, struct rdt_reactor, ns_leave);
	struct rdt_ns_channel *channel, *next;

	for (channel = TAILQ_FIRST(&r->channels); channel && channel->leaving; channel = next) {
		struct rdt_ns *ns = channel->ns;

		next = TAILQ_NEXT(channel, link);
		if (channel->inflight)
			continue;
		rdt_ns_channel_close(r, ns);
		rdt_ns_answer(&ns->posts[r->index], 0);
	}
}

/* End the commands of @ns with the status that new commands get, unless they complete by
 * themselves. */
static void end_requests(struct rdt_reactor *r, const struct rdt_ns *ns)
{
	struct rdt_qpair *qp;
	struct rdt_req *req;

	TAILQ_FOREACH (qp, &r->qpairs, link)
		RDT_FOREACH_REQ (req, qp)
			if (req->ns == ns)
				rdt_req_ns_gone(req);
}

void rdt_ns_channel_leave(struct rdt_reactor *r, struct rdt_ns *ns)
{
	struct rdt_ns_channel *channel = rdt_ns_channel_of(r, ns);

	if (channel->ns != ns) { /* the channel could not be opened on this reactor */
		rdt_ns_answer(&ns->posts[r->index], 0);
		return;
	}
	channel->leaving = true;
	TAILQ_REMOVE(&r->channels, channel, link);
	TAILQ_INSERT_HEAD(&r->channels, channel, link);
	if (channel->inflight)
		end_requests(r, ns);
	if (!channel->inflight)
		rd_defer(r->loop, &r->ns_leave, RD_DEFER_WORK);
}

int rdt_ns_channel_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->channels);
	r->ns_leave.fn = leave_defer;
	return rd_map_init(&r->ns_map);
}

void rdt_ns_channel_close_all(struct rdt_reactor *r)
{
	struct rdt_ns_channel *channel;

	rd_defer_cancel(r->loop, &r->ns_leave);
	while ((channel = TAILQ_FIRST(&r->channels)))
		rdt_ns_channel_close(r, channel->ns);
}

void rdt_ns_channel_fini(struct rdt_reactor *r)
{
	rd_map_fini(&r->ns_map);
	free(r->ns_order);
}
