/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomicity among all hosts and reactors. As long as no fused command came to a namespace, each
 * reactor only counts its I/Os there. The first fused command asks every reactor to lock from now
 * on; when each has answered that what it had counted is over, all I/O is in one table, and the
 * fused commands go on. It stays so for as long as the namespace lives.
 *
 * The table is under a mutex that is held for short scans only: commands in progress, and those
 * that wait, in order. One that waits keeps off later ones that overlap it, so nobody starves.
 */
#include "range_lock.h"

#include <errno.h>
#include <stdlib.h>

#include "util/log.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "io.h"
#include "request.h"
#include "subsys.h"
#include "target.h"

struct rdt_range_post {
	struct rd_msg msg;
	struct rdt_ns *ns;
	struct rdt_reactor *reactor;
};

void rdt_range_init(struct rdt_ns *ns)
{
	struct rdt_range_lock *rl = &ns->range;

	pthread_mutex_init(&rl->lock, NULL);
	TAILQ_INIT(&rl->held);
	TAILQ_INIT(&rl->waiting);
}

void rdt_range_fini(struct rdt_ns *ns)
{
	free(ns->range.posts);
	pthread_mutex_destroy(&ns->range.lock);
}

static bool conflict(const struct rdt_hold *a, const struct rdt_hold *b)
{
	for (unsigned int i = 0; i < a->count; i++)
		for (unsigned int j = 0; j < b->count; j++) {
			const struct rdt_span *x = &a->spans[i];
			const struct rdt_span *y = &b->spans[j];

			if ((x->excl || y->excl) && x->from < y->to && y->from < x->to)
				return true;
		}
	return false;
}

/* Nothing in progress, and nobody who waits longer, is in the way of @h. */
static bool free_for(const struct rdt_range_lock *rl, const struct rdt_hold *h)
{
	const struct rdt_hold *other;

	if (h->fused && !rl->on)
		return false;
	TAILQ_FOREACH (other, &rl->held, link)
		if (conflict(h, other))
			return false;
	for (other = TAILQ_FIRST(&rl->waiting); other && other != h;
	     other = TAILQ_NEXT(other, link))
		if (conflict(h, other))
			return false;
	return true;
}

/* Under the lock. Whoever is granted learns it by message, on its own reactor. */
static void grant(struct rdt_range_lock *rl)
{
	struct rdt_hold *h, *next;

	for (h = TAILQ_FIRST(&rl->waiting); h; h = next) {
		struct rdt_req *req = rd_container_of(h, struct rdt_req, hold);

		next = TAILQ_NEXT(h, link);
		if (!free_for(rl, h))
			continue;
		TAILQ_REMOVE(&rl->waiting, h, link);
		TAILQ_INSERT_TAIL(&rl->held, h, link);
		h->granted = true;
		rd_loop_post(req->qp->reactor->loop, &h->msg);
	}
}

/* ---- from counting to locking ---- */

/* A reactor's counted I/Os have ended, or it never had the namespace. The last one opens it. */
static void answer(struct rdt_ns *ns)
{
	struct rdt_range_lock *rl = &ns->range;

	pthread_mutex_lock(&rl->lock);
	if (--rl->missing == 0) {
		rl->on = true;
		grant(rl);
	}
	pthread_mutex_unlock(&rl->lock);
}

void rdt_range_drained(struct rdt_ns_channel *channel)
{
	if (channel->range_due)
		answer(channel->ns);
	channel->range_due = false;
}

/* @ns is there: the fused command that asks holds it until every reactor has answered. */
static void arm_msg(struct rd_msg *msg)
{
	struct rdt_range_post *post = rd_container_of(msg, struct rdt_range_post, msg);
	struct rdt_ns_channel *channel = rdt_ns_channel_of(post->reactor, post->ns);

	if (channel->ns != post->ns) {
		answer(post->ns);
		return;
	}
	channel->ranged = true;
	channel->range_due = true;
	if (channel->unranged == 0)
		rdt_range_drained(channel);
}

/* Under the lock. */
static int arm(struct rdt_ns *ns, struct rdt_target *t)
{
	struct rdt_range_lock *rl = &ns->range;

	rl->posts = calloc(t->reactors_count, sizeof(*rl->posts));
	if (!rl->posts)
		return -ENOMEM;
	rl->missing = t->reactors_count;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		rl->posts[i].msg.fn = arm_msg;
		rl->posts[i].ns = ns;
		rl->posts[i].reactor = &t->reactors[i];
		rd_loop_post(t->reactors[i].loop, &rl->posts[i].msg);
	}
	rd_info(t->log, RD_LOG_TARGET,
		"%s namespace %u: a host uses compare-and-write; from now on its I/O is ordered "
		"by blocks",
		ns->subsys->nqn, ns->nsid);
	return 0;
}

/* ---- commands ---- */

static void granted_msg(struct rd_msg *msg)
{
	struct rdt_req *req = rd_container_of(msg, struct rdt_req, hold.msg);

	req->hold.state = RDT_HOLD_LOCKED;
	rdt_req_look_again(req);
	if (req->mate && !rdt_req_look_again(req->mate) && nvme_status_ok(req->status))
		req->status = nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_FUSED_FAIL);
	rdt_io_resume(req);
}

bool rdt_range_lock(struct rdt_req *req)
{
	struct rdt_range_lock *rl = &req->ns->range;
	struct rdt_hold *h = &req->hold;

	h->fused = req->mate != NULL;
	h->granted = false;
	h->msg.fn = granted_msg;
	pthread_mutex_lock(&rl->lock);
	if (h->fused && !rl->posts && arm(req->ns, rdt_req_target(req))) {
		pthread_mutex_unlock(&rl->lock);
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
		return true; /* and holds nothing: it ends with that */
	}
	h->granted = free_for(rl, h);
	if (h->granted)
		TAILQ_INSERT_TAIL(&rl->held, h, link);
	else
		TAILQ_INSERT_TAIL(&rl->waiting, h, link);
	h->state = h->granted ? RDT_HOLD_LOCKED : RDT_HOLD_WAITING;
	pthread_mutex_unlock(&rl->lock);
	return h->state == RDT_HOLD_LOCKED;
}

void rdt_range_unlock(struct rdt_req *req)
{
	struct rdt_range_lock *rl = &req->ns->range;

	pthread_mutex_lock(&rl->lock);
	TAILQ_REMOVE(&rl->held, &req->hold, link);
	grant(rl);
	pthread_mutex_unlock(&rl->lock);
	req->hold.state = RDT_HOLD_NONE;
}

bool rdt_range_unwait(struct rdt_req *req)
{
	struct rdt_range_lock *rl = &req->ns->range;
	bool waits;

	pthread_mutex_lock(&rl->lock);
	/* A pair that waits for the reactors' answers keeps the namespace until they are here. */
	waits = !req->hold.granted && (!req->hold.fused || rl->on);
	if (waits) {
		TAILQ_REMOVE(&rl->waiting, &req->hold, link);
		grant(rl);
	}
	pthread_mutex_unlock(&rl->lock);
	if (waits)
		req->hold.state = RDT_HOLD_NONE;
	return waits;
}
