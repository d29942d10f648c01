/* SPDX-License-Identifier: BSD-3-Clause */
#include "heartbeat.h"

#include <stdio.h>

#include "util/cold.h"
#include "util/log.h"
#include "ctrl.h"
#include "qpair.h"
#include "subsys.h"
#include "target.h"
#include "target/config/tgt_limits.h"

#define IDLE UINT64_MAX /* it does not beat */
/* A reactor whose last beat is older stands still. */
#define STANDS_STILL (2 * RDT_HEARTBEAT_NS)

_Static_assert(RDT_REACTORS_MAX <= 64, "each has a bit in heartbeat_standing");

/* The reactor has not looked for @gap_ns, more than two periods. */
static RD_COLD void heartbeat_missed(struct rdt_reactor *r, uint64_t gap_ns)
{
	struct rdt_qpair *qp, *next;
	unsigned int ended = 0;

	if (atomic_load(&r->heartbeat_at) == IDLE)
		return; /* it may have slept */
	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		uint64_t kato = qp->ctrl ? qp->ctrl->kato_ms * RD_NSEC_PER_MSEC : 0;

		next = TAILQ_NEXT(qp, link);
		if (!kato || gap_ns <= kato + RDT_HEARTBEAT_NS || qp->state >= RDT_QP_CLOSING)
			continue;
		rdt_qpair_end(qp, RDT_END_KEEP_ALIVE,
			      "its reactor stood still for longer than keep alive");
		ended++;
	}
	if (ended)
		rd_warn(r->log, RD_LOG_TARGET,
			"reactor %u stood still for %llu ms: %u queues whose hosts may have gone "
			"on by another path were ended",
			r->index, (unsigned long long)(gap_ns / RD_NSEC_PER_MSEC), ended);
}

const char *rdt_beat_names(uint64_t reactors, char text[RDT_BEAT_NAMES])
{
	size_t len = (size_t)snprintf(text, RDT_BEAT_NAMES, "reactor%s",
				      reactors & (reactors - 1) ? "s" : "");

	for (unsigned int i = 0; i < 64; i++) {
		if (!(reactors >> i & 1))
			continue;
		len += (size_t)snprintf(text + len, RDT_BEAT_NAMES - len, "%s%u",
					reactors & ((UINT64_C(1) << i) - 1) ? ", " : " ", i);
	}
	return text;
}

static inline void look_at(struct rdt_reactor *r, uint64_t now)
{
	uint64_t gap = now - r->heartbeat_seen;

	r->heartbeat_seen = now;
	if (__builtin_expect(gap > 2 * RDT_HEARTBEAT_NS, 0))
		heartbeat_missed(r, gap);
}

void rdt_beat_look(void *reactor)
{
	struct rdt_reactor *r = reactor;

	look_at(r, rd_loop_now(r->loop));
}

RD_COLD void rdt_beat_look_now(struct rdt_reactor *r)
{
	atomic_store(&r->heartbeat_asked, false);
	look_at(r, rd_loop_now_raw(r->loop));
}

/* Does @qp stand for its controller here? The admin queue does; if its reactor stands still itself,
 * one of the I/O queues. */
static bool may_distrust(const struct rdt_qpair *qp, uint64_t standing)
{
	const struct rdt_ctrl *ctrl = qp->ctrl;

	if (qp->admin)
		return qp->state < RDT_QP_CLOSING;
	return standing >> ctrl->owner->index & 1 &&
	       qp == LIST_FIRST(&ctrl->on[qp->reactor->index].queues);
}

/* Fence the controllers of this reactor from the commands that the reactors in @standing have in
 * flight: all that stand still, because one of them may have the admin queue of a controller here.
 */
static void fence_own(struct rdt_reactor *r, uint64_t standing)
{
	char names[RDT_BEAT_NAMES];
	unsigned int fenced = 0;
	struct rdt_qpair *qp;

	TAILQ_FOREACH (qp, &r->qpairs, link)
		if (qp->ctrl && may_distrust(qp, standing))
			fenced += rdt_ctrl_distrust(qp->ctrl, standing);
	if (fenced)
		rd_warn(r->log, RD_LOG_TARGET,
			"%s stood still for more than %llu ms so far, as when storage hangs in a "
			"system call: commands of %u controllers on reactor %u wait until that has "
			"run again, because their hosts may have writes in flight there",
			rdt_beat_names(standing, names),
			(unsigned long long)(STANDS_STILL / RD_NSEC_PER_MSEC), fenced, r->index);
}

/* A bit for each other reactor whose last beat is too old. They look for themselves before they
 * take another command, even within a turn. */
static uint64_t find_standing(const struct rdt_reactor *r, uint64_t now)
{
	struct rdt_target *t = r->target;
	uint64_t standing = 0;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		uint64_t at = atomic_load(&t->reactors[i].heartbeat_at);

		if (i == r->index || at == IDLE || now <= at || now - at <= STANDS_STILL)
			continue;
		standing |= UINT64_C(1) << i;
		atomic_store(&t->reactors[i].heartbeat_asked, true);
	}
	return standing;
}

static void heartbeat(struct rd_timer *timer)
{
	struct rdt_reactor *r = rd_container_of(timer, struct rdt_reactor, heartbeat);
	uint64_t standing;

	if (!r->qpairs_count) {
		atomic_store(&r->heartbeat_at, IDLE);
		r->heartbeat_standing = 0;
		return;
	}
	atomic_store(&r->heartbeat_at, r->heartbeat_seen);
	standing = find_standing(r, r->heartbeat_seen);
	if (standing & ~r->heartbeat_standing)
		fence_own(r, standing);
	r->heartbeat_standing = standing;
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	rd_timer_start(r->loop, timer, RDT_HEARTBEAT_NS);
}

void rdt_beat_init(struct rdt_reactor *r)
{
	r->heartbeat.fn = heartbeat;
	atomic_init(&r->heartbeat_at, IDLE);
	atomic_init(&r->heartbeat_asked, false);
}

void rdt_beat_start(struct rdt_reactor *r, const struct rdt_ctrl *ctrl)
{
	if (atomic_load(&r->heartbeat_at) != IDLE || !ctrl->kato_ms ||
	    rdt_subsys_is_disc(ctrl->subsys))
		return;
	if (rd_timer_start(r->loop, &r->heartbeat, RDT_HEARTBEAT_NS)) {
		rd_err(r->log, RD_LOG_TARGET,
		       "reactor %u: no memory for the timer of its heartbeat", r->index);
		return;
	}
	r->heartbeat_seen = rd_loop_now(r->loop);
	atomic_store(&r->heartbeat_at, r->heartbeat_seen);
}

void rdt_beat_stop(struct rdt_reactor *r)
{
	rd_timer_stop(r->loop, &r->heartbeat);
	atomic_store(&r->heartbeat_at, IDLE);
}
