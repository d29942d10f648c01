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

/* Find again in which namespaces the closed queue @qp may still write, and whether these are fewer
 * than before. On its reactor, under subsys->lock. */
static bool find_writes(struct rdt_qpair *qp)
{
	unsigned int before = qp->left_count;
	struct rdt_req *req;

	qp->left_count = 0;
	rdt_slots_clear_all(&qp->left_ns);
	RDT_FOREACH_REQ (req, qp)
		if (may_write(req))
			qp->left_count += !rdt_slots_set(&qp->left_ns, req->ns->slot);
	return qp->left_count < before;
}

/* Add the namespaces in which closed queues of @ctrl may still write. Under subsys->lock. */
static void add_lost_queues(const struct rdt_ctrl *ctrl, struct rdt_slots *kept)
{
	const struct rdt_qpair *qp;

	LIST_FOREACH (qp, &ctrl->lost_queues, lost_link)
		rdt_slots_add(kept, &qp->left_ns);
}

/* Add the namespaces in which @dead may have commands in flight. Under subsys->lock. */
static void add_left(const struct rdt_ctrl *dead, struct rdt_slots *kept)
{
	if (atomic_load(&dead->queues_unreported))
		rdt_slots_set_all(kept);
	else
		add_lost_queues(dead, kept);
}

/* Could @ctrl have commands in flight if it were dead? Under subsys->lock. */
static bool has_left(const struct rdt_ctrl *ctrl)
{
	return atomic_load(&ctrl->queues_unreported) || !LIST_EMPTY(&ctrl->lost_queues);
}

/* Under subsys->lock. */
static void set_fence_waits(struct rdt_ctrl *ctrl, bool waits)
{
	if (waits && !ctrl->fence_waits)
		LIST_INSERT_HEAD(rdt_subsys_host_waits(ctrl->subsys, ctrl), ctrl, waits_link);
	else if (!waits && ctrl->fence_waits)
		LIST_REMOVE(ctrl, waits_link);
	ctrl->fence_waits = waits;
}

/* Commands of the host of @gone wait for what this controller, or only its queue @lost, has in
 * flight. Under subsys->lock. */
static void raise_fence(struct rdt_ctrl *gone, const struct rdt_qpair *lost)
{
	struct rdt_ctrl *ctrl;

	LIST_FOREACH (ctrl, rdt_subsys_host_ctrls(gone->subsys, gone), host_link) {
		if (atomic_load(&ctrl->over) || !rdt_ctrl_same_host(gone, ctrl))
			continue;
		if (lost)
			rdt_slots_add(&ctrl->fenced_ns, &lost->left_ns);
		else
			add_left(gone, &ctrl->fenced_ns);
		set_fence_waits(ctrl, true);
		atomic_store(&ctrl->fenced, true);
	}
}

void rdt_fence_ctrl_ended(struct rdt_ctrl *ctrl)
{
	if (has_left(ctrl))
		raise_fence(ctrl, NULL);
}

void rdt_fence_queue_closed(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;

	if (!ctrl || qp->admin)
		return;
	pthread_mutex_lock(&ctrl->subsys->lock);
	find_writes(qp);
	if (qp->left_count) {
		LIST_INSERT_HEAD(&ctrl->lost_queues, qp, lost_link);
		if (!atomic_load(&ctrl->over)) /* all of a dead one counts as in flight already */
			raise_fence(ctrl, qp);
	}
	if (atomic_fetch_sub(&ctrl->queues_unreported, 1) == 1)
		rdt_ctrl_wake_host(ctrl);
	pthread_mutex_unlock(&ctrl->subsys->lock);
}

void rdt_fence_queue_check(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;

	if (!qp->left_count)
		return;
	pthread_mutex_lock(&ctrl->subsys->lock);
	if (find_writes(qp))
		rdt_ctrl_wake_host(ctrl);
	if (!qp->left_count)
		LIST_REMOVE(qp, lost_link);
	pthread_mutex_unlock(&ctrl->subsys->lock);
}

void rdt_fence_queue_attached(struct rdt_ctrl *ctrl, const struct rdt_reactor *r)
{
	if (ctrl->on[r->index].queues_count++ == 0)
		atomic_fetch_or(&ctrl->queue_reactors, reactor_bit(r));
	atomic_fetch_add(&ctrl->queues_unreported, 1);
}

void rdt_fence_queue_detached(struct rdt_ctrl *ctrl, const struct rdt_reactor *r)
{
	if (--ctrl->on[r->index].queues_count == 0)
		atomic_fetch_and(&ctrl->queue_reactors, ~reactor_bit(r));
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
static void fence_ask_reactors(struct rdt_ctrl *ctrl, uint64_t reactors)
{
	struct rdt_subsys *ss = ctrl->subsys;

	if (reactors && !ctrl->reactors_asked)
		LIST_INSERT_HEAD(&ss->asking, ctrl, asking_link);
	ctrl->reactors_asked |= reactors;
	ctrl->reactors_looked &= ~reactors;
	for (; reactors; reactors &= reactors - 1) {
		unsigned int i = (unsigned int)__builtin_ctzll(reactors);
		struct rdt_ask *question = &ss->asks[i];

		if (question->posted)
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
		fence_ask_reactors(ctrl, owners ? owners & reactor_bit(other->owner)
						: reactors_of(other));
	}
	pthread_mutex_unlock(&ss->lock);
}

void rdt_fence_leave(struct rdt_ctrl *ctrl)
{
	if (ctrl->reactors_asked)
		LIST_REMOVE(ctrl, asking_link);
	ctrl->reactors_asked = 0;
	ctrl->reactors_looked = 0;
	set_fence_waits(ctrl, false);
}

static unsigned int asked_reactor(const struct rdt_ask *question)
{
	return (unsigned int)(question - question->subsys->asks);
}

/* Queues that have to end, by rdt_qpair.over_link. */
LIST_HEAD(over_queues, rdt_qpair);

/* End the controllers of @ctrl's host on this reactor whose connections were closed, and find their
 * I/O queues on this reactor of which that is true. Each controller is looked at once for each
 * @question, whichever of its host's controllers have asked. */
static void look_at_host(const struct rdt_ctrl *ctrl, struct rdt_ask *question,
			 struct over_queues *found)
{
	unsigned int reactor = asked_reactor(question);
	struct rdt_ctrl *other;
	struct rdt_qpair *qp;

	LIST_FOREACH (other, rdt_subsys_host_ctrls(ctrl->subsys, ctrl), host_link) {
		if (!rdt_ctrl_same_host(other, ctrl))
			continue;
		other->on[reactor].looked = question->answers;
		if (!has_left(other))
			continue;
		if (other->owner->index == reactor && !atomic_load(&other->over) &&
		    rdt_qpair_over(other->admin))
			rdt_ctrl_end(other, "its host has closed the connection and reconnected");
		LIST_FOREACH (qp, &other->on[reactor].queues, ctrl_link)
			if (qp->state < RDT_QP_CLOSING && rdt_qpair_over(qp))
				LIST_INSERT_HEAD(found, qp, over_link);
	}
}

/* Look at the hosts whose controllers have asked. */
static void look_at_hosts(struct rdt_ask *question, struct over_queues *found)
{
	unsigned int reactor = asked_reactor(question);
	struct rdt_subsys *ss = question->subsys;
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	question->posted = false;
	question->answers++;
	LIST_FOREACH (ctrl, &ss->asking, asking_link) {
		if (!(ctrl->reactors_asked >> reactor & 1))
			continue;
		if (ctrl->on[reactor].looked != question->answers)
			look_at_host(ctrl, question, found);
		ctrl->reactors_looked |= UINT64_C(1) << reactor;
	}
	pthread_mutex_unlock(&ss->lock);
}

/* Answer the controllers for which this reactor has looked. Others may have asked since. */
static void answer_looked(const struct rdt_ask *question)
{
	unsigned int reactor = asked_reactor(question);
	struct rdt_subsys *ss = question->subsys;
	struct rdt_ctrl *ctrl, *next;

	pthread_mutex_lock(&ss->lock);
	for (ctrl = LIST_FIRST(&ss->asking); ctrl; ctrl = next) {
		next = LIST_NEXT(ctrl, asking_link);
		if (!(ctrl->reactors_looked >> reactor & 1))
			continue;
		ctrl->reactors_looked &= ~(UINT64_C(1) << reactor);
		ctrl->reactors_asked &= ~(UINT64_C(1) << reactor);
		if (!ctrl->reactors_asked)
			LIST_REMOVE(ctrl, asking_link);
		rdt_ctrl_wake_fenced(ctrl);
	}
	pthread_mutex_unlock(&ss->lock);
}

/* This reactor runs (again). */
static void ask_msg(struct rd_msg *msg)
{
	struct rdt_ask *question = rd_container_of(msg, struct rdt_ask, msg);
	struct over_queues found = LIST_HEAD_INITIALIZER(found);
	struct rdt_qpair *qp;

	look_at_hosts(question, &found);
	/* Without the lock, which a queue takes as it closes. One that has ended with another is
	 * freed in a later turn. */
	while ((qp = LIST_FIRST(&found))) {
		LIST_REMOVE(qp, over_link);
		rdt_qpair_end(qp, RDT_END_HOST, "its host has closed it and reconnected");
	}
	answer_looked(question);
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

uint16_t rdt_fence_find_dead(struct rdt_ctrl *ctrl)
{
	struct rdt_slots kept;
	struct rdt_ctrl *other;
	uint16_t cntlid = 0;
	bool waits = false;

	memset(&kept, 0, sizeof(kept));
	LIST_FOREACH (other, rdt_subsys_host_ctrls(ctrl->subsys, ctrl), host_link) {
		bool over = atomic_load(&other->over);

		if (!rdt_ctrl_same_host(other, ctrl))
			continue;
		if (other != ctrl && (over || may_be_dead(other, ctrl))) {
			waits = true;
			if (over)
				cntlid = other->cntlid;
			add_left(other, &kept);
		} else if (!LIST_EMPTY(&other->lost_queues)) { /* of one that lives */
			waits = true;
			add_lost_queues(other, &kept);
		}
	}
	set_fence_waits(ctrl, waits);
	rdt_slots_copy(&ctrl->fenced_ns, &kept);
	atomic_store(&ctrl->fenced, rdt_slots_any(&kept));
	rdt_slots_fini(&kept);
	return cntlid;
}

void rdt_fence_forget_ns(struct rdt_subsys *ss, unsigned int slot)
{
	struct rdt_ctrl *ctrl;
	struct rdt_qpair *qp;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		LIST_FOREACH (qp, &ctrl->lost_queues, lost_link)
			rdt_slots_clear(&qp->left_ns, slot);
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
