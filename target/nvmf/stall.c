/* SPDX-License-Identifier: BSD-3-Clause */
#include "stall.h"

#include <stdatomic.h>

#include "util/log.h"
#include "target.h"
#include "target/bdev/backend.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"

static unsigned int whole_seconds(uint64_t now, uint64_t since)
{
	return now > since ? (unsigned int)((now - since) / RD_NSEC_PER_SEC) : 0;
}

static void stall_found(struct rdt_reactor *r, struct rdt_ns_channel *channel)
{
	const struct rdt_ns *ns = channel->ns;
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);

	channel->stall.stalled = true;
	if (!rdt_bdev_late(base, channel->stall.since))
		return;
	rd_warn(r->log, RD_LOG_TARGET,
		"%s namespace %u: its storage has not answered for %u s: %u commands wait for it "
		"on reactor %u",
		ns->subsys->nqn, ns->nsid,
		whole_seconds(rd_loop_now(r->loop), channel->stall.since), channel->stall.old,
		r->index);
}

static void stall_over(struct rdt_reactor *r, struct rdt_ns_channel *channel)
{
	const struct rdt_ns *ns = channel->ns;
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);

	TAILQ_REMOVE(&r->stall.channels, channel, stall.link);
	channel->stall.listed = false;
	if (!channel->stall.stalled)
		return;
	channel->stall.stalled = false;
	if (rdt_bdev_answers(base))
		rd_notice(r->log, RD_LOG_TARGET,
			  "%s namespace %u: its storage answers again, after %u s", ns->subsys->nqn,
			  ns->nsid,
			  whole_seconds(rd_loop_now(r->loop), atomic_load(&base->late_since)));
}

void rdt_stall_forget(struct rdt_reactor *r, struct rdt_ns_channel *channel)
{
	if (channel->stall.listed)
		stall_over(r, channel);
}

static void note_old(struct rdt_reactor *r, const struct rdt_req *req)
{
	struct rdt_ns_channel *channel = req->channel;
	struct rdt_stall_of *stall = &channel->stall;
	/* Admin commands have no arrival time. */
	uint64_t since = req->arrived ? req->arrived : rd_loop_now(r->loop) - RDT_STALL_NS;

	if (!stall->old++ || since < stall->since)
		stall->since = since;
	if (stall->listed)
		return;
	stall->listed = true;
	stall->before = 0;
	TAILQ_INSERT_TAIL(&r->stall.channels, channel, stall.link);
}

static void stall_visit(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct rdt_stall *s = rd_container_of(walk, struct rdt_stall, walk);
	struct rdt_req *req;

	RDT_FOREACH_REQ (req, qp) {
		s->in_flight |= req->ns != NULL;
		if (req->wait == RDT_WAIT_OLD_BIO)
			note_old(walk->reactor, req);
		else if (req->wait == RDT_WAIT_BIO && s->full)
			req->wait = RDT_WAIT_OLD_BIO;
	}
}

static void stall_arm(struct rdt_reactor *r)
{
	bool any = r->draining || !TAILQ_EMPTY(&r->stall.channels);

	/* Without memory the next I/O retries. */
	r->stall.watching = rd_timer_start(r->loop, &r->stall.timer,
					   any ? RDT_STALL_QUICK_NS : RDT_STALL_NS) == 0;
}

/* Returns whether the storage of a channel with old I/O is stalled. While the reactor drains, this
 * is decided sooner, if no I/O ends. */
static bool stalls(const struct rdt_reactor *r, const struct rdt_stall_of *stall)
{
	if (!r->draining)
		return r->stall.full;
	return stall->old == stall->before &&
	       rd_loop_now(r->loop) - stall->since >= RDT_STALL_DRAIN_NS;
}

static void stall_walked(struct rdt_qpair_walk *walk)
{
	struct rdt_stall *s = rd_container_of(walk, struct rdt_stall, walk);
	struct rdt_ns_channel *channel, *next;

	for (channel = TAILQ_FIRST(&s->channels); channel; channel = next) {
		next = TAILQ_NEXT(channel, stall.link);
		if (!channel->stall.old)
			stall_over(walk->reactor, channel);
		else if (!channel->stall.stalled && stalls(walk->reactor, &channel->stall))
			stall_found(walk->reactor, channel);
		channel->stall.before = channel->stall.old;
		channel->stall.old = 0;
	}
	s->watching = false;
	if (s->in_flight)
		stall_arm(walk->reactor);
}

static void stall_look(struct rd_timer *timer)
{
	struct rdt_reactor *r = rd_container_of(timer, struct rdt_reactor, stall.timer);
	struct rdt_stall *s = &r->stall;
	uint64_t now = rd_loop_now(r->loop);

	/* A quick check does not make any I/O old. */
	s->full = r->draining || now - s->full_ns >= RDT_STALL_NS;
	if (s->full)
		s->full_ns = now;
	s->in_flight = false;
	s->walk.visit = stall_visit;
	s->walk.end = stall_walked;
	rdt_qpair_walk_begin(r, &s->walk);
}

void rdt_stall_begin(struct rdt_reactor *r)
{
	stall_arm(r);
}

void rdt_stall_drain(struct rdt_reactor *r)
{
	if (!rd_timer_armed(&r->stall.timer)) /* otherwise a walk runs and arms it */
		return;
	rd_timer_stop(r->loop, &r->stall.timer);
	stall_look(&r->stall.timer);
}

void rdt_stall_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->stall.channels);
	r->stall.timer.fn = stall_look;
}

void rdt_stall_stop(struct rdt_reactor *r)
{
	rd_timer_stop(r->loop, &r->stall.timer);
}

/* Returns whether @req waits for the storage that is cut off, or behind another command that
 * does. */
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
