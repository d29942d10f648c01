/* SPDX-License-Identifier: BSD-3-Clause */
#include "stale_write.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "ctrl.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "target/resv/reservation.h"
#include "subsys.h"
#include "target.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"

_Static_assert(RDT_REACTORS_MAX <= 64, "each has a bit in ctrl->reactors_asked");

/* Poll interval for requests blocked by the stale-write fence. */
#define FENCE_POLL_NS (20 * RD_NSEC_PER_MSEC)
/* Requests that go on in one turn of the loop. */
#define FENCE_TURN 64u

static uint64_t reactor_bit(const struct rdt_reactor *r)
{
	return UINT64_C(1) << r->index;
}

/* Can a command of a closing queue still write? A Compare may be the first half of a fused pair. */
static bool may_write(const struct rdt_req *req)
{
	return req->ns && rdt_req_executing(req) &&
	       rdt_resv_group(req->sqe.opcode) != RDT_RESV_FREE &&
	       req->sqe.opcode != nvme_cmd_read && req->sqe.opcode != nvme_cmd_verify;
}

/* Record what may still be written by @qp, which closes. Under subsys->lock. */
static void report_writes(struct rdt_qpair *qp)
{
	struct rdt_req *req;

	RDT_FOREACH_REQ (req, qp) {
		if (!may_write(req))
			continue;
		rdt_slots_set(&qp->ctrl->busy_ns, req->ns->slot);
		qp->left_writes = true;
	}
	qp->ctrl->queues_busy += qp->left_writes;
}

void rdt_fence_queue_closed(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;
	bool last;

	if (!ctrl || qp->admin)
		return;
	pthread_mutex_lock(&ctrl->subsys->lock);
	report_writes(qp);
	/* After the bits: controllers that counted the queue as in flight everywhere check
	 * again. */
	last = atomic_fetch_sub(&ctrl->queues_unreported, 1) == 1;
	/* The host may repeat the writes by any controller. Of a dead one it was told already. */
	if (qp->left_writes && !atomic_load(&ctrl->over))
		rdt_ctrl_wake_host(ctrl, true);
	else if (last)
		rdt_ctrl_wake_host(ctrl, false);
	pthread_mutex_unlock(&ctrl->subsys->lock);
}

void rdt_fence_queue_ended(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;

	if (!qp->left_writes)
		return;
	pthread_mutex_lock(&ctrl->subsys->lock);
	if (--ctrl->queues_busy == 0) {
		rdt_slots_clear_all(&ctrl->busy_ns);
		rdt_ctrl_wake_host(ctrl, false);
	}
	pthread_mutex_unlock(&ctrl->subsys->lock);
}

void rdt_fence_queue_attached(struct rdt_ctrl *ctrl, const struct rdt_reactor *r)
{
	atomic_fetch_or(&ctrl->queue_reactors, reactor_bit(r));
	atomic_fetch_add(&ctrl->queues_unreported, 1);
}

/* Add the namespaces in which @dead may have commands in flight. */
static void add_left(const struct rdt_ctrl *dead, struct rdt_slots *kept)
{
	if (atomic_load(&dead->queues_unreported)) /* read before the bits */
		rdt_slots_set_all(kept);
	else
		rdt_slots_add(kept, &dead->busy_ns);
}

/* Could @ctrl have commands in flight if it were dead? */
static bool has_left(const struct rdt_ctrl *ctrl)
{
	return atomic_load(&ctrl->queues_unreported) || rdt_slots_any(&ctrl->busy_ns);
}

/* ---- controllers whose end may not have been noticed yet ---- */

/* The reactors that may know that @other is dead, or may still execute its commands. */
static uint64_t reactors_of(const struct rdt_ctrl *other)
{
	return reactor_bit(other->owner) | atomic_load(&other->queue_reactors);
}

/* One of its reactors has not answered, or its owner has not processed its end yet. */
static bool may_be_dead(const struct rdt_ctrl *other, const struct rdt_ctrl *ctrl)
{
	return atomic_load(&other->ending) || ctrl->reactors_asked & reactors_of(other);
}

/* @ctrl waits for the answers of @reactors. Under subsys->lock. */
static void ask(struct rdt_ctrl *ctrl, uint64_t reactors)
{
	struct rdt_subsys *ss = ctrl->subsys;

	if (reactors && !ctrl->reactors_asked)
		LIST_INSERT_HEAD(&ss->asking, ctrl, asking_link);
	ctrl->reactors_asked |= reactors;
	for (unsigned int i = 0; reactors >> i; i++) {
		struct rdt_ask *question = &ss->asks[i];

		if (!(reactors >> i & 1) || question->posted)
			continue;
		question->posted = true;
		rd_loop_post(ss->target->reactors[i].loop, &question->msg);
	}
}

void rdt_fence_ask(struct rdt_ctrl *ctrl, uint64_t owners)
{
	struct rdt_subsys *ss = ctrl->subsys;
	struct rdt_ctrl *other;

	pthread_mutex_lock(&ss->lock);
	LIST_FOREACH (other, rdt_subsys_host_ctrls(ss, ctrl), host_link) {
		if (other == ctrl || atomic_load(&other->over) ||
		    !rdt_ctrl_same_host(other, ctrl) || !has_left(other))
			continue;
		ask(ctrl, owners ? owners & reactor_bit(other->owner) : reactors_of(other));
	}
	pthread_mutex_unlock(&ss->lock);
}

void rdt_fence_leave(struct rdt_ctrl *ctrl)
{
	if (ctrl->reactors_asked)
		LIST_REMOVE(ctrl, asking_link);
	ctrl->reactors_asked = 0;
}

/* An I/O queue of @ctrl on this reactor whose connection the peer has closed, or NULL. */
static struct rdt_qpair *closed_queue(const struct rdt_ctrl *ctrl, unsigned int reactor)
{
	struct rdt_qpair *qp;

	LIST_FOREACH (qp, &ctrl->queues_on[reactor], ctrl_link)
		if (qp->state < RDT_QP_CLOSING && rdt_qpair_over(qp))
			return qp;
	return NULL;
}

/* End the controllers of @ctrl's host on this reactor whose connections were closed. Returns an I/O
 * queue of the host on this reactor that has to end as well, or NULL. */
static struct rdt_qpair *end_closed(const struct rdt_ctrl *ctrl, unsigned int reactor)
{
	struct rdt_qpair *qp = NULL;
	struct rdt_ctrl *other;

	LIST_FOREACH (other, rdt_subsys_host_ctrls(ctrl->subsys, ctrl), host_link) {
		if (other == ctrl || !rdt_ctrl_same_host(other, ctrl) || !has_left(other))
			continue;
		if (other->owner->index == reactor && !atomic_load(&other->over) &&
		    rdt_qpair_over(other->admin))
			rdt_ctrl_end(other, "its host has closed the connection and reconnected");
		qp = qp ? qp : closed_queue(other, reactor);
	}
	return qp;
}

/* Answer the new controllers that have asked, until one finds that a queue has to end. Returns that
 * queue, or NULL when all were answered. */
static struct rdt_qpair *answer(struct rdt_ask *question)
{
	struct rdt_subsys *ss = question->subsys;
	unsigned int reactor = (unsigned int)(question - ss->asks);
	struct rdt_qpair *closed = NULL;
	struct rdt_ctrl *ctrl, *next;

	pthread_mutex_lock(&ss->lock);
	question->posted = false;
	for (ctrl = LIST_FIRST(&ss->asking); ctrl; ctrl = next) {
		next = LIST_NEXT(ctrl, asking_link);
		if (!(ctrl->reactors_asked >> reactor & 1))
			continue;
		closed = end_closed(ctrl, reactor);
		if (closed)
			break;
		ctrl->reactors_asked &= ~(UINT64_C(1) << reactor);
		if (!ctrl->reactors_asked)
			LIST_REMOVE(ctrl, asking_link);
		rdt_ctrl_wake_fenced(ctrl);
	}
	pthread_mutex_unlock(&ss->lock);
	return closed;
}

/* This reactor runs (again). */
static void ask_msg(struct rd_msg *msg)
{
	struct rdt_ask *question = rd_container_of(msg, struct rdt_ask, msg);
	struct rdt_qpair *closed;

	while ((closed = answer(question))) /* each is found once */
		rdt_qpair_end(closed, RDT_END_HOST, "its host has closed it and reconnected");
}

int rdt_fence_open(struct rdt_subsys *ss)
{
	unsigned int reactors = ss->target->cfg->target.reactors;

	LIST_INIT(&ss->asking);
	ss->asks = calloc(reactors, sizeof(*ss->asks));
	if (!ss->asks)
		return -ENOMEM;
	for (unsigned int i = 0; i < reactors; i++) {
		ss->asks[i].subsys = ss;
		ss->asks[i].msg.fn = ask_msg;
	}
	return 0;
}

/* ---- namespaces that are fenced for a new controller ---- */

uint16_t rdt_fence_find_dead(struct rdt_ctrl *ctrl, bool keep)
{
	struct rdt_slots kept;
	struct rdt_ctrl *other;
	uint16_t cntlid = 0;

	memset(&kept, 0, sizeof(kept));
	ctrl->fence_waits = false;
	LIST_FOREACH (other, rdt_subsys_host_ctrls(ctrl->subsys, ctrl), host_link) {
		bool over = atomic_load(&other->over);

		if (!rdt_ctrl_same_host(other, ctrl))
			continue;
		if (other != ctrl && (over || may_be_dead(other, ctrl))) {
			ctrl->fence_waits = true;
			if (over)
				cntlid = other->cntlid;
			if (keep || !over)
				add_left(other, &kept);
		} else if (other->queues_busy) { /* lost queues of one that lives */
			ctrl->fence_waits = true;
			rdt_slots_add(&kept, &other->busy_ns);
		}
	}
	rdt_slots_copy(&ctrl->fenced_ns, &kept);
	atomic_store(&ctrl->fenced, rdt_slots_any(&kept));
	rdt_slots_fini(&kept);
	return cntlid;
}

void rdt_fence_forget_ns(struct rdt_subsys *ss, unsigned int slot)
{
	struct rdt_ctrl *ctrl;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		rdt_slots_clear(&ctrl->busy_ns, slot);
		rdt_slots_clear(&ctrl->fenced_ns, slot);
	}
}

/* ---- commands that wait ---- */

/* Commands that access no blocks are not fenced, so that a host can still use reservations to
 * exclude others. */
RD_COLD bool rdt_fence_blocks_slow(const struct rdt_req *req)
{
	unsigned int slot = req->ns->slot;

	if (req->qp->admin || rdt_resv_group(req->sqe.opcode) == RDT_RESV_FREE)
		return false;
	return rdt_slots_has(&req->qp->ctrl->fenced_ns, slot);
}

static void leave_fence(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;

	if (r->fence_next == req)
		r->fence_next = TAILQ_NEXT(req, link);
	r->limited--;
	TAILQ_REMOVE(&r->behind_fence, req, link);
}

static void fence_poll(struct rd_timer *timer)
{
	struct rdt_reactor *r = rd_container_of(timer, struct rdt_reactor, fence_timer);
	unsigned int resumed = 0;
	struct rdt_req *req;

	/* One pass. Each one leaves the list first; processing it may end others. */
	r->fence_next = TAILQ_FIRST(&r->behind_fence);
	while (resumed < FENCE_TURN && (req = r->fence_next)) {
		r->fence_next = TAILQ_NEXT(req, link);
		if (rdt_fence_blocks(req))
			continue;
		leave_fence(req);
		rdt_req_resume(req);
		resumed++;
	}
	r->fence_next = NULL;
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	if (!TAILQ_EMPTY(&r->behind_fence))
		rd_timer_start(r->loop, timer, resumed == FENCE_TURN ? 0 : FENCE_POLL_NS);
}

void rdt_fence_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->behind_fence);
	r->fence_timer.fn = fence_poll;
}

bool rdt_fence_wait(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;

	if (TAILQ_EMPTY(&r->behind_fence) &&
	    rd_timer_start(r->loop, &r->fence_timer, FENCE_POLL_NS))
		return false;
	r->limited++;
	TAILQ_INSERT_TAIL(&r->behind_fence, req, link);
	rdt_req_move(req, RDT_REQ_FENCED);
	return true;
}

void rdt_fence_unwait(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;

	leave_fence(req);
	if (TAILQ_EMPTY(&r->behind_fence))
		rd_timer_stop(r->loop, &r->fence_timer);
}
