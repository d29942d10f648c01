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

#define IDLE UINT64_MAX /* the reactor has no heartbeat */
/* A reactor whose last heartbeat is older than this is blocked. */
#define BLOCKED_NS (2 * RDT_HEARTBEAT_NS)

_Static_assert(RDT_REACTORS_MAX <= 64, "each has a bit in heartbeat_blocked");

/* The reactor was blocked for @gap_ns, more than two periods. */
static RD_COLD void heartbeat_missed(struct rdt_reactor *r, uint64_t gap_ns)
{
	struct rdt_qpair *qp, *next;
	unsigned int ended = 0;

	if (atomic_load(&r->heartbeat_at) == IDLE)
		return; /* without a heartbeat it may just have slept */
	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		uint64_t kato = qp->ctrl ? qp->ctrl->kato_ms * RD_NSEC_PER_MSEC : 0;

		next = TAILQ_NEXT(qp, link);
		if (!kato || gap_ns <= kato + RDT_HEARTBEAT_NS || qp->state >= RDT_QP_CLOSING)
			continue;
		rdt_qpair_end(qp, RDT_END_KEEP_ALIVE,
			      "its reactor was blocked for longer than the keep-alive timeout");
		ended++;
	}
	if (ended)
		rd_warn(r->log, RD_LOG_TARGET,
			"reactor %u was blocked for %llu ms: ended %u queues whose hosts may have "
			"switched to another path",
			r->index, (unsigned long long)(gap_ns / RD_NSEC_PER_MSEC), ended);
}

const char *rdt_heartbeat_names(uint64_t reactors, char text[RDT_HEARTBEAT_NAMES])
{
	size_t len = (size_t)snprintf(text, RDT_HEARTBEAT_NAMES, "reactor%s",
				      reactors & (reactors - 1) ? "s" : "");

	for (unsigned int i = 0; i < 64; i++) {
		if (!(reactors >> i & 1))
			continue;
		len += (size_t)snprintf(text + len, RDT_HEARTBEAT_NAMES - len, "%s%u",
					reactors & ((UINT64_C(1) << i) - 1) ? ", " : " ", i);
	}
	return text;
}

static inline void check_gap(struct rdt_reactor *r, uint64_t now)
{
	uint64_t gap = now - r->heartbeat_seen;

	r->heartbeat_seen = now;
	if (__builtin_expect(gap > 2 * RDT_HEARTBEAT_NS, 0))
		heartbeat_missed(r, gap);
}

void rdt_heartbeat_check(void *reactor)
{
	struct rdt_reactor *r = reactor;

	check_gap(r, rd_loop_now(r->loop));
}

RD_COLD void rdt_heartbeat_check_now(struct rdt_reactor *r)
{
	atomic_store(&r->heartbeat_asked, false);
	check_gap(r, rd_loop_now_raw(r->loop));
}

/* Returns whether to fence the controller of @qp because of this queue, so that each controller is
 * fenced once: the queue is the admin queue or, if the reactor of that is blocked itself, the first
 * I/O queue here. */
static bool may_distrust(const struct rdt_qpair *qp, uint64_t blocked)
{
	const struct rdt_ctrl *ctrl = qp->ctrl;

	if (qp->admin)
		return qp->state < RDT_QP_CLOSING;
	return blocked >> ctrl->owner->index & 1 &&
	       qp == LIST_FIRST(&ctrl->on[qp->reactor->index].queues);
}

/* Fence the controllers of this reactor from commands in flight on the reactors in @blocked, which
 * has all blocked ones, because each may have the admin queue of a controller here. */
static void fence_own(struct rdt_reactor *r, uint64_t blocked)
{
	char names[RDT_HEARTBEAT_NAMES];
	unsigned int fenced = 0;
	struct rdt_qpair *qp;

	TAILQ_FOREACH (qp, &r->qpairs, link)
		if (qp->ctrl && may_distrust(qp, blocked))
			fenced += rdt_ctrl_distrust(qp->ctrl, blocked);
	if (fenced)
		rd_warn(r->log, RD_LOG_TARGET,
			"%s blocked for more than %llu ms, for example by storage that hangs in a "
			"system call: commands of %u controllers on reactor %u wait until it runs "
			"again, because their hosts may have writes in flight there",
			rdt_heartbeat_names(blocked, names),
			(unsigned long long)(BLOCKED_NS / RD_NSEC_PER_MSEC), fenced, r->index);
}

/* Returns a bit mask of the other reactors whose last heartbeat is too old. Each of them checks
 * this itself before it takes another command, even within a loop iteration. */
static uint64_t find_blocked(const struct rdt_reactor *r, uint64_t now)
{
	struct rdt_target *t = r->target;
	uint64_t blocked = 0;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		uint64_t at = atomic_load(&t->reactors[i].heartbeat_at);

		if (i == r->index || at == IDLE || now <= at || now - at <= BLOCKED_NS)
			continue;
		blocked |= UINT64_C(1) << i;
		atomic_store(&t->reactors[i].heartbeat_asked, true);
	}
	return blocked;
}

static void heartbeat(struct rd_timer *timer)
{
	struct rdt_reactor *r = rd_container_of(timer, struct rdt_reactor, heartbeat);
	uint64_t blocked;

	if (!r->qpairs_count) {
		atomic_store(&r->heartbeat_at, IDLE);
		r->heartbeat_blocked = 0;
		return;
	}
	atomic_store(&r->heartbeat_at, r->heartbeat_seen);
	blocked = find_blocked(r, r->heartbeat_seen);
	if (blocked & ~r->heartbeat_blocked)
		fence_own(r, blocked);
	r->heartbeat_blocked = blocked;
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	rd_timer_start(r->loop, timer, RDT_HEARTBEAT_NS);
}

void rdt_heartbeat_init(struct rdt_reactor *r)
{
	r->heartbeat.fn = heartbeat;
	atomic_init(&r->heartbeat_at, IDLE);
	atomic_init(&r->heartbeat_asked, false);
}

void rdt_heartbeat_start(struct rdt_reactor *r, const struct rdt_ctrl *ctrl)
{
	if (atomic_load(&r->heartbeat_at) != IDLE || !ctrl->kato_ms ||
	    rdt_subsys_is_disc(ctrl->subsys))
		return;
	if (rd_timer_start(r->loop, &r->heartbeat, RDT_HEARTBEAT_NS)) {
		rd_err(r->log, RD_LOG_TARGET, "reactor %u: out of memory for its heartbeat timer",
		       r->index);
		return;
	}
	r->heartbeat_seen = rd_loop_now(r->loop);
	atomic_store(&r->heartbeat_at, r->heartbeat_seen);
}

void rdt_heartbeat_stop(struct rdt_reactor *r)
{
	rd_timer_stop(r->loop, &r->heartbeat);
	atomic_store(&r->heartbeat_at, IDLE);
}
