/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks on block ranges make fused commands atomic with respect to all hosts and reactors. Until
 * the first fused command reaches a namespace, each reactor only counts its I/Os there. That
 * command sends every reactor a message to lock ranges from now on. When every reactor has replied
 * that its counted I/Os have ended, all I/O of the namespace is in one table, and the fused
 * commands continue. The namespace keeps the table until it is removed.
 *
 * The table has two lists, in order of arrival: locked ranges and waiting ones. A waiting range
 * blocks later ones that overlap it, so none starves. Each waiting range counts the earlier ranges
 * for which it has to wait. So the mutex is held for one scan of both lists when a range is added,
 * and one scan of the waiting ranges when one is removed, however many overlap.
 */
#include "range_lock.h"

#include <errno.h>
#include <stdlib.h>

#include "util/log.h"
#include "nvmf/wire.h"
#include "io.h"
#include "request.h"
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

/* Returns the number of ranges for which the new range @lock has to wait; one more if the table is
 * not in use yet. */
static uint32_t count_ahead(const struct rdt_range_table *table, const struct rdt_range_lock *lock)
{
	uint32_t n = lock->fused && !table->on;
	const struct rdt_range_lock *other;

	TAILQ_FOREACH (other, &table->locked, link)
		n += ranges_conflict(lock, other);
	TAILQ_FOREACH (other, &table->waiting, link)
		n += ranges_conflict(lock, other);
	return n;
}

/* @lock has to wait for one range fewer. table->lock is held. Its request continues by a
 * message. */
static void one_less_ahead(struct rdt_range_table *table, struct rdt_range_lock *lock)
{
	struct rdt_req *req = rd_container_of(lock, struct rdt_req, range);

	if (--lock->ahead)
		return;
	TAILQ_REMOVE(&table->waiting, lock, link);
	TAILQ_INSERT_TAIL(&table->locked, lock, link);
	lock->granted = true;
	rd_loop_post(req->qp->reactor->loop, &lock->msg);
}

/* @gone was removed from the table; @lock is the first waiting range that arrived after it. A
 * locked range arrived before all waiting ranges that conflict with it; otherwise it would wait for
 * them. */
static void range_left(struct rdt_range_table *table, const struct rdt_range_lock *gone,
		       struct rdt_range_lock *lock)
{
	struct rdt_range_lock *next;

	for (; lock; lock = next) {
		next = TAILQ_NEXT(lock, link);
		if (ranges_conflict(lock, gone))
			one_less_ahead(table, lock);
	}
}

/* A reactor has no counted I/O left on @ns. The last reactor to report this puts the table into
 * use. */
static void range_reactor_ready(struct rdt_ns *ns)
{
	struct rdt_range_table *table = &ns->range_table;
	struct rdt_range_lock *lock, *next;

	pthread_mutex_lock(&table->lock);
	table->on = --table->missing == 0;
	for (lock = TAILQ_FIRST(&table->waiting); table->on && lock; lock = next) {
		next = TAILQ_NEXT(lock, link);
		if (lock->fused)
			one_less_ahead(table, lock);
	}
	pthread_mutex_unlock(&table->lock);
}

void rdt_range_drained(struct rdt_ns_channel *channel)
{
	if (channel->range_due)
		range_reactor_ready(channel->ns);
	channel->range_due = false;
}

/* post->ns is valid, because the fused command that asked refers to it until every reactor has
 * replied. */
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

static void range_granted_msg(struct rd_msg *msg)
{
	struct rdt_req *req = rd_container_of(msg, struct rdt_req, range.msg);

	req->range.state = RDT_RANGE_LOCKED;
	if (!rdt_io_stopped(req))
		rdt_req_revalidate(req);
	if (req->partner && !rdt_req_revalidate(req->partner) && nvme_status_ok(req->status))
		req->status = nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_FUSED_FAIL);
	rdt_io_resume(req);
}

bool rdt_range_lock(struct rdt_req *req)
{
	struct rdt_range_table *table = &req->ns->range_table;
	struct rdt_range_lock *lock = &req->range;

	lock->fused = req->partner != NULL;
	lock->granted = false;
	lock->msg.fn = range_granted_msg;
	pthread_mutex_lock(&table->lock);
	if (lock->fused && !table->posts && range_start(req->ns, rdt_req_target(req))) {
		pthread_mutex_unlock(&table->lock);
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
		return true; /* no lock is needed: the command ends with this status */
	}
	lock->ahead = count_ahead(table, lock);
	lock->granted = !lock->ahead;
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
	range_left(table, &req->range, TAILQ_FIRST(&table->waiting));
	pthread_mutex_unlock(&table->lock);
	req->range.state = RDT_RANGE_NONE;
}

bool rdt_range_unwait(struct rdt_req *req)
{
	struct rdt_range_table *table = &req->ns->range_table;
	struct rdt_range_lock *lock = &req->range, *later;
	bool waits;

	pthread_mutex_lock(&table->lock);
	/* Until every reactor has replied, a fused pair must keep its reference to the
	 * namespace. */
	waits = !lock->granted && (!lock->fused || table->on);
	if (waits) {
		later = TAILQ_NEXT(lock, link);
		TAILQ_REMOVE(&table->waiting, lock, link);
		range_left(table, lock, later);
	}
	pthread_mutex_unlock(&table->lock);
	if (waits)
		lock->state = RDT_RANGE_NONE;
	return waits;
}
