/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks on block ranges: they make fused commands atomic among all hosts and reactors. Until the
 * first fused command reaches a namespace, each reactor only counts its I/Os there. That command
 * sends every reactor the message to lock from now on. When every reactor has answered that its
 * counted I/Os have ended, all I/O of the namespace is in one table and the fused commands go on.
 * The namespace keeps the table until it is removed.
 *
 * The table has two lists, in order of arrival: locked ranges and waiting ones. Its mutex is taken
 * for short scans only. A waiting range blocks later ones that overlap it, so none starves.
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
	struct rdt_range_table *table = &ns->range_table;

	pthread_mutex_init(&table->lock, NULL);
	TAILQ_INIT(&table->locked);
	TAILQ_INIT(&table->waiting);
}

void rdt_range_fini(struct rdt_ns *ns)
{
	free(ns->range_table.posts);
	pthread_mutex_destroy(&ns->range_table.lock);
}

static bool ranges_conflict(const struct rdt_range_lock *a, const struct rdt_range_lock *b)
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

/* Does no locked range, and no range that has waited longer, conflict with @lock? */
static bool range_is_free(const struct rdt_range_table *table, const struct rdt_range_lock *lock)
{
	const struct rdt_range_lock *other;

	if (lock->fused && !table->on)
		return false;
	TAILQ_FOREACH (other, &table->locked, link)
		if (ranges_conflict(lock, other))
			return false;
	for (other = TAILQ_FIRST(&table->waiting); other && other != lock;
	     other = TAILQ_NEXT(other, link))
		if (ranges_conflict(lock, other))
			return false;
	return true;
}

/* Lock what can be locked now. table->lock is held. Each request goes on by message. */
static void grant_ranges(struct rdt_range_table *table)
{
	struct rdt_range_lock *lock, *next;

	for (lock = TAILQ_FIRST(&table->waiting); lock; lock = next) {
		struct rdt_req *req = rd_container_of(lock, struct rdt_req, range);

		next = TAILQ_NEXT(lock, link);
		if (!range_is_free(table, lock))
			continue;
		TAILQ_REMOVE(&table->waiting, lock, link);
		TAILQ_INSERT_TAIL(&table->locked, lock, link);
		lock->granted = true;
		rd_loop_post(req->qp->reactor->loop, &lock->msg);
	}
}

/* ---- from counting to locking ---- */

/* A reactor has no counted I/O left on @ns. The last reactor to say so switches the table on. */
static void range_reactor_ready(struct rdt_ns *ns)
{
	struct rdt_range_table *table = &ns->range_table;

	pthread_mutex_lock(&table->lock);
	if (--table->missing == 0) {
		table->on = true;
		grant_ranges(table);
	}
	pthread_mutex_unlock(&table->lock);
}

void rdt_range_drained(struct rdt_ns_channel *channel)
{
	if (channel->range_due)
		range_reactor_ready(channel->ns);
	channel->range_due = false;
}

/* post->ns is valid: the fused command that asked refers to it until every reactor has answered. */
static void range_start_msg(struct rd_msg *msg)
{
	struct rdt_range_post *post = rd_container_of(msg, struct rdt_range_post, msg);
	struct rdt_ns_channel *channel = rdt_ns_channel_of(post->reactor, post->ns);

	if (channel->ns != post->ns) {
		range_reactor_ready(post->ns);
		return;
	}
	channel->ranged = true;
	channel->range_due = true;
	if (channel->unranged == 0)
		rdt_range_drained(channel);
}

/* Ask every reactor to lock ranges of @ns from now on. table->lock is held. */
static int range_start(struct rdt_ns *ns, struct rdt_target *t)
{
	struct rdt_range_table *table = &ns->range_table;

	table->posts = calloc(t->reactors_count, sizeof(*table->posts));
	if (!table->posts)
		return -ENOMEM;
	table->missing = t->reactors_count;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		table->posts[i].msg.fn = range_start_msg;
		table->posts[i].ns = ns;
		table->posts[i].reactor = &t->reactors[i];
		rd_loop_post(t->reactors[i].loop, &table->posts[i].msg);
	}
	rd_info(t->log, RD_LOG_TARGET,
		"%s namespace %u: a host uses Compare and Write; from now on commands lock their "
		"block ranges",
		ns->subsys->nqn, ns->nsid);
	return 0;
}

/* ---- commands ---- */

static void range_granted_msg(struct rd_msg *msg)
{
	struct rdt_req *req = rd_container_of(msg, struct rdt_req, range.msg);

	req->range.state = RDT_RANGE_LOCKED;
	if (!rdt_io_stopped(req))
		rdt_req_revalidate(req);
	if (req->mate && !rdt_req_revalidate(req->mate) && nvme_status_ok(req->status))
		req->status = nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_FUSED_FAIL);
	rdt_io_resume(req);
}

bool rdt_range_lock(struct rdt_req *req)
{
	struct rdt_range_table *table = &req->ns->range_table;
	struct rdt_range_lock *lock = &req->range;

	lock->fused = req->mate != NULL;
	lock->granted = false;
	lock->msg.fn = range_granted_msg;
	pthread_mutex_lock(&table->lock);
	if (lock->fused && !table->posts && range_start(req->ns, rdt_req_target(req))) {
		pthread_mutex_unlock(&table->lock);
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
		return true; /* without a lock: the command ends with this status */
	}
	lock->granted = range_is_free(table, lock);
	if (lock->granted)
		TAILQ_INSERT_TAIL(&table->locked, lock, link);
	else
		TAILQ_INSERT_TAIL(&table->waiting, lock, link);
	lock->state = lock->granted ? RDT_RANGE_LOCKED : RDT_RANGE_WAITING;
	pthread_mutex_unlock(&table->lock);
	return lock->state == RDT_RANGE_LOCKED;
}

void rdt_range_unlock(struct rdt_req *req)
{
	struct rdt_range_table *table = &req->ns->range_table;

	pthread_mutex_lock(&table->lock);
	TAILQ_REMOVE(&table->locked, &req->range, link);
	grant_ranges(table);
	pthread_mutex_unlock(&table->lock);
	req->range.state = RDT_RANGE_NONE;
}

bool rdt_range_unwait(struct rdt_req *req)
{
	struct rdt_range_table *table = &req->ns->range_table;
	bool waits;

	pthread_mutex_lock(&table->lock);
	/* Until every reactor has answered, a fused pair must keep the namespace referenced. */
	waits = !req->range.granted && (!req->range.fused || table->on);
	if (waits) {
		TAILQ_REMOVE(&table->waiting, &req->range, link);
		grant_ranges(table);
	}
	pthread_mutex_unlock(&table->lock);
	if (waits)
		req->range.state = RDT_RANGE_NONE;
	return waits;
}
