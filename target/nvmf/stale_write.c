/* SPDX-License-Identifier: BSD-3-Clause */
#include "stale_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "ns.h"
#include "reactor.h"
#include "target/resv/reservation.h"
#include "subsys.h"
#include "target.h"
#include "target/config/tgt_limits.h"

_Static_assert(RDT_REACTORS_MAX <= 64, "each has a bit in ctrl->reactors_asked");

/* Poll interval for requests blocked by the stale-write fence. */
#define FENCE_POLL_NS (20 * RD_NSEC_PER_MSEC)
/* Requests that continue in one loop iteration. */
#define FENCE_BATCH 64u

static uint64_t reactor_bit(const struct rdt_reactor *r)
{
	return UINT64_C(1) << r->index;
}

/* Returns whether a command of a closing queue can still write. A Compare can be the first command
 * of a fused pair. */
static bool may_write(const struct rdt_req *req)
{
	return req->ns && rdt_req_executing(req) &&
	       rdt_resv_group(req->sqe.opcode) != RDT_RESV_FREE &&
	       req->sqe.opcode != nvme_cmd_read && req->sqe.opcode != nvme_cmd_verify;
}

/* Find the namespaces in which the closed queue @qp may still write. On its reactor, under
 * subsys->lock. */
static void find_writes(struct rdt_qpair *qp)
{
	struct rdt_req *req;

	qp->left_count = 0;
	rdt_slots_clear_all(&qp->left_ns);
	RDT_FOREACH_REQ (req, qp)
		if (may_write(req))
			qp->left_count += !rdt_slots_set(&qp->left_ns, req->ns->slot);
}

/* Returns whether @ctrl could have commands in flight if it were dead. Under subsys->lock. */
static bool has_left(const struct rdt_ctrl *ctrl)
{
	return atomic_load(&ctrl->queues_unreported) || !LIST_EMPTY(&ctrl->lost_queues);
}

/* Under subsys->lock. */
static void set_fence_waits(struct rdt_ctrl *ctrl, bool waits)
{
	if (waits && !ctrl->fence_waits)
		LIST_INSERT_HEAD(&ctrl->host->waits, ctrl, waits_link);
	else if (!waits && ctrl->fence_waits)
		LIST_REMOVE(ctrl, waits_link);
	ctrl->fence_waits = waits;
}

/* Under subsys->lock. */
static void set_fenced(struct rdt_ctrl *ctrl, bool fenced)
{
	if (fenced && !atomic_load(&ctrl->fenced))
		ctrl->host->fenced++;
	else if (!fenced && atomic_load(&ctrl->fenced))
		ctrl->host->fenced--;
	atomic_store(&ctrl->fenced, fenced);
}

/* Let the waiting controllers of @host check again. Under subsys->lock. */
static void wake_waits(const struct rdt_ctrl_host *host)
{
	struct rdt_ctrl *ctrl;

	LIST_FOREACH (ctrl, &host->waits, waits_link)
		rdt_ctrl_wake_fenced(ctrl);
}

/* ---- what a host has left in flight ---- */

static void unknown_begins(struct rdt_ctrl_host *host)
{
	atomic_fetch_add(&host->fences, 1);
	atomic_fetch_add(&host->unknown, 1);
}

static void unknown_ends(struct rdt_ctrl_host *host)
{
	atomic_fetch_sub(&host->unknown, 1);
	atomic_fetch_sub(&host->fences, 1);
}

/* The count applies until the controller is over, which its owner has to find out. */
void rdt_fence_ctrl_ending(struct rdt_ctrl *ctrl, bool begins)
{
	if (begins && atomic_load(&ctrl->queues_unreported)) {
		ctrl->ending_unknown = true;
		unknown_begins(ctrl->host);
	} else if (!begins && ctrl->ending_unknown) {
		ctrl->ending_unknown = false;
		unknown_ends(ctrl->host);
	}
}

void rdt_fence_ctrl_ended(struct rdt_ctrl *ctrl)
{
	if (ctrl->dead)
		return;
	ctrl->dead = true;
	LIST_INSERT_HEAD(&ctrl->host->dead, ctrl, dead_link);
	ctrl->unknown = atomic_load(&ctrl->queues_unreported) > 0;
	if (ctrl->unknown)
		unknown_begins(ctrl->host);
}

/* Under subsys->lock. */
static void ctrl_is_known(struct rdt_ctrl *ctrl)
{
	if (ctrl->unknown)
		unknown_ends(ctrl->host);
	ctrl->unknown = false;
}

/* Count a closed queue of @host that writes to the namespace in @slot (@by 1), or that no longer
 * does (-1). Returns whether others do. */
static bool count_lost_ns(struct rdt_ctrl_host *host, unsigned int slot, int by)
{
	intptr_t n = (intptr_t)rd_map_get(&host->lost_in, slot);

	host->looks++;
	rd_map_remove(&host->lost_in, slot);
	if (n + by > 0 && rd_map_put(&host->lost_in, slot, (void *)(n + by)))
		host->lost_uncounted = true;
	return n + by > 0 || host->lost_uncounted;
}

static void lose_queue(struct rdt_qpair *qp)
{
	struct rdt_ctrl_host *host = qp->ctrl->host;

	rdt_slots_add(&host->lost_ns, &qp->left_ns);
	for (unsigned int slot = rdt_slots_next(&qp->left_ns, 0); slot < RDT_NS_SLOTS;
	     slot = rdt_slots_next(&qp->left_ns, slot + 1))
		count_lost_ns(host, slot, 1);
	LIST_INSERT_HEAD(&qp->ctrl->lost_queues, qp, lost_link);
	LIST_INSERT_HEAD(&host->lost, qp, host_lost);
	atomic_fetch_add(&host->fences, 1);
}

void rdt_fence_queue_closed(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;

	if (!ctrl || qp->admin)
		return;
	pthread_mutex_lock(&ctrl->subsys->lock);
	find_writes(qp);
	if (qp->left_count)
		lose_queue(qp);
	if (atomic_fetch_sub(&ctrl->queues_unreported, 1) == 1) {
		ctrl_is_known(ctrl);
		if (ctrl->host->fenced)
			wake_waits(ctrl->host);
	}
	pthread_mutex_unlock(&ctrl->subsys->lock);
}

/* Update the host's lost namespaces after those of @qp have changed from @before. */
static void find_lost_ns(struct rdt_qpair *qp, const struct rdt_slots *before)
{
	struct rdt_ctrl_host *host = qp->ctrl->host;
	const struct rdt_slots *now = &qp->left_ns;
	unsigned int slot;

	/* New bits appear only if memory was short. */
	for (slot = rdt_slots_next(now, 0); slot < RDT_NS_SLOTS;
	     slot = rdt_slots_next(now, slot + 1))
		if (!rdt_slots_has(before, slot)) {
			rdt_slots_set(&host->lost_ns, slot);
			count_lost_ns(host, slot, 1);
		}
	for (slot = rdt_slots_next(before, 0); slot < RDT_NS_SLOTS;
	     slot = rdt_slots_next(before, slot + 1))
		if (!rdt_slots_has(now, slot) && !count_lost_ns(host, slot, -1))
			rdt_slots_clear(&host->lost_ns, slot);
	if (LIST_EMPTY(&host->lost)) {
		rdt_slots_clear_all(&host->lost_ns);
		host->lost_uncounted = false;
	}
}

void rdt_fence_queue_check(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;
	struct rdt_slots before;

	if (!qp->left_count)
		return;
	pthread_mutex_lock(&ctrl->subsys->lock);
	memcpy(&before, &qp->left_ns, sizeof(before));
	memset(&qp->left_ns, 0, sizeof(qp->left_ns));
	find_writes(qp);
	if (!qp->left_count) {
		LIST_REMOVE(qp, lost_link);
		LIST_REMOVE(qp, host_lost);
	}
	find_lost_ns(qp, &before);
	if (!qp->left_count)
		atomic_fetch_sub(&ctrl->host->fences, 1);
	pthread_mutex_unlock(&ctrl->subsys->lock);
	rdt_slots_fini(&before);
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

/* Returns a bit mask of the reactors that may know that @other is dead, or may still execute its
 * commands. */
static uint64_t reactors_of(const struct rdt_ctrl *other)
{
	return reactor_bit(other->owner) | atomic_load(&other->queue_reactors);
}

/* Ask @reactors; @ctrl waits for their answers. Under subsys->lock. */
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
	uint64_t all = UINT64_MAX >> (64 - ss->target->cfg->target.reactors), ask = 0;
	unsigned int left = RDT_FENCE_LOOKS;
	struct rdt_ctrl *other;

	pthread_mutex_lock(&ss->lock);
	LIST_FOREACH (other, &ctrl->host->ctrls, host_link) {
		ctrl->host->looks++;
		if (!left--) {
			ask = owners ? owners : all;
			break;
		}
		if (other == ctrl || atomic_load(&other->over) || !has_left(other))
			continue;
		ask |= owners ? owners & reactor_bit(other->owner) : reactors_of(other);
		if (ask == (owners ? owners : all))
			break;
	}
	fence_ask_reactors(ctrl, ask);
	pthread_mutex_unlock(&ss->lock);
}

void rdt_fence_leave(struct rdt_ctrl *ctrl)
{
	if (ctrl->reactors_asked)
		LIST_REMOVE(ctrl, asking_link);
	ctrl->reactors_asked = 0;
	ctrl->reactors_looked = 0;
	set_fence_waits(ctrl, false);
	set_fenced(ctrl, false);
	ctrl_is_known(ctrl);
	if (ctrl->dead)
		LIST_REMOVE(ctrl, dead_link);
	ctrl->dead = false;
	if (LIST_EMPTY(&ctrl->host->dead) || ctrl->host->fenced)
		wake_waits(ctrl->host);
}

static unsigned int asked_reactor(const struct rdt_ask *question)
{
	return (unsigned int)(question - question->subsys->asks);
}

/* Queues that have to end, by rdt_qpair.over_link. */
LIST_HEAD(over_queues, rdt_qpair);

/* End the controllers of @ctrl's host whose admin connections to this reactor were closed, and find
 * their I/O queues here whose connections were closed. Each controller is examined once for each
 * @question, however many controllers of its host have asked. */
static void look_at_host(const struct rdt_ctrl *ctrl, struct rdt_ask *question,
			 struct over_queues *found)
{
	unsigned int reactor = asked_reactor(question);
	struct rdt_ctrl *other;
	struct rdt_qpair *qp;

	LIST_FOREACH (other, &ctrl->host->ctrls, host_link) {
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

/* Examine the hosts whose controllers have asked. */
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

/* Answer the controllers for which this reactor has finished. Others may have asked since. */
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

/* Executed when this reactor runs (again). */
static void ask_msg(struct rd_msg *msg)
{
	struct rdt_ask *question = rd_container_of(msg, struct rdt_ask, msg);
	struct over_queues found = LIST_HEAD_INITIALIZER(found);
	struct rdt_qpair *qp;

	look_at_hosts(question, &found);
	/* Without the lock, which a queue takes as it closes. A queue that ended together with
	 * another one is freed in a later loop iteration. */
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

/* Returns whether another controller of the host, whose end its reactors may not have noticed, may
 * have commands in flight that are in no list yet. Under subsys->lock. */
static bool may_have_left(const struct rdt_ctrl *ctrl)
{
	unsigned int left = RDT_FENCE_LOOKS;
	const struct rdt_ctrl *other;

	if (!ctrl->reactors_asked)
		return false;
	LIST_FOREACH (other, &ctrl->host->ctrls, host_link) {
		ctrl->host->looks++;
		if (!left--)
			return true;
		if (other != ctrl && !other->dead && atomic_load(&other->queues_unreported) &&
		    ctrl->reactors_asked & reactors_of(other))
			return true;
	}
	return false;
}

uint16_t rdt_fence_find_dead(struct rdt_ctrl *ctrl)
{
	const struct rdt_ctrl *dead = LIST_FIRST(&ctrl->host->dead);

	set_fenced(ctrl, may_have_left(ctrl));
	set_fence_waits(ctrl, dead || atomic_load(&ctrl->fenced));
	return dead ? dead->cntlid : 0;
}

void rdt_fence_forget_ns(struct rdt_subsys *ss, unsigned int slot)
{
	struct rdt_ctrl *ctrl;
	struct rdt_qpair *qp;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		LIST_FOREACH (qp, &ctrl->lost_queues, lost_link)
			if (rdt_slots_clear(&qp->left_ns, slot) &&
			    !rdt_slots_has(&qp->left_ns, slot))
				count_lost_ns(ctrl->host, slot, -1);
		rdt_slots_clear(&ctrl->host->lost_ns, slot);
	}
}

/* ---- commands that wait ---- */

/* Commands that access no blocks are not fenced, so that a host can still use reservations to
 * exclude others. */
RD_COLD bool rdt_fence_blocks_slow(const struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;

	if (req->qp->admin || rdt_resv_group(req->sqe.opcode) == RDT_RESV_FREE)
		return false;
	if (atomic_load(&ctrl->fenced) || atomic_load(&ctrl->host->unknown))
		return true;
	return rdt_slots_has(&ctrl->host->lost_ns, req->ns->slot);
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

	/* One pass over the list. Each request leaves the list before it is processed, which may
	 * end others. */
	r->fence_next = TAILQ_FIRST(&r->behind_fence);
	while (resumed < FENCE_BATCH && (req = r->fence_next)) {
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
		rd_timer_start(r->loop, timer, resumed == FENCE_BATCH ? 0 : FENCE_POLL_NS);
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
