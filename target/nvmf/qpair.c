/* SPDX-License-Identifier: BSD-3-Clause */
/* The life cycle of a queue pair, on its reactor. The teardown is the same for every cause:
 * rdt_qpair_close(); the transport ends the connection and releases its resources; requests return
 * from backends and other threads; the controller's owner removes the queue; then it is freed. */
#include "qpair.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "util/cold.h"
#include "util/sockaddr.h"
#include "admin_budget.h"
#include "ctrl.h"
#include "events.h"
#include "peers.h"
#include "heartbeat.h"
#include "stale_write.h"
#include "io.h"
#include "placement.h"
#include "reactor.h"
#include "req_pool.h"
#include "request.h"
#include "target.h"

#define RDT_QPAIR_MAGIC 0x72717074u

static const char *qpair_state_name(unsigned int state)
{
	static const char *const names[] = {
		[RDT_QP_NEW] = "new",
		[RDT_QP_LIVE] = "live",
		[RDT_QP_HOLDING] = "holding",
		[RDT_QP_HELD] = "held",
		[RDT_QP_AUTH] = "authenticating",
		[RDT_QP_DRAINING] = "draining",
		[RDT_QP_DRAINED] = "drained",
		[RDT_QP_CLOSING] = "closing",
		[RDT_QP_DETACHING] = "detaching",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

/* The command table of a queue that has not authenticated: it has neither admin nor I/O commands,
 * so commands of other queues need no check of the authentication. */
static const struct rdt_cmd no_cmds[256];

static void set_qpair_state(struct rdt_qpair *qp, enum rdt_qp_state state)
{
	rd_debug(qp->log, RD_LOG_QPAIR, "qid %u: %s -> %s", qp->qid, qpair_state_name(qp->state),
		 qpair_state_name(state));
	qp->state = (uint8_t)state;
}

static void detach_msg(struct rd_msg *msg)
{
	struct rdt_qpair *qp = rd_container_of(msg, struct rdt_qpair, detach_msg);

	rdt_ctrl_detach(qp);
}

static void qpair_close_msg(struct rd_msg *msg)
{
	struct rdt_qpair *qp = rd_container_of(msg, struct rdt_qpair, close_msg);

	rdt_qpair_end(qp, RDT_END_CONTROLLER, "controller reset, shut down or lost");
}

static void free_qpair(struct rdt_qpair *qp)
{
	struct rdt_reactor *r = qp->reactor;

	rdt_qpair_walk_skip(qp);
	TAILQ_REMOVE(&r->qpairs, qp, link);
	r->qpairs_count--;
	rdt_unplace(r, qp->admin);
	qp->ops->destroy(qp);
	if (!r->qpairs_count)
		r->qpairs_gone(r);
}

/*
 * Returns whether all commands but AERs are answered. The admin queue closes first, when the I/O
 * queues have no commands left, because a host that loses its admin queue stops its I/O queues
 * first. Linux 6.1 fails an I/O permanently if it submits it at the moment when the I/O queue's own
 * connection ends.
 */
static bool qpair_is_drained(const struct rdt_qpair *qp)
{
	if (qp->used != qp->used_aer || !STAILQ_EMPTY(&qp->capsules))
		return false;
	return !qp->admin || qp->ctrl->ioqs_live == qp->ctrl->ioqs_drained;
}

static void qpair_drained_msg(struct rd_msg *msg)
{
	rdt_ctrl_drained(rd_container_of(msg, struct rdt_qpair, drained_msg));
}

static void leave_timeout(struct rd_timer *timer)
{
	rdt_qpair_close(rd_container_of(timer, struct rdt_qpair, timer), "drained");
}

static void leave_draining(struct rdt_qpair *qp)
{
	if (qp->admin || !qp->reactor->draining) { /* otherwise the host sent Disconnect */
		rdt_qpair_close(qp, "drained");
		return;
	}
	set_qpair_state(qp, RDT_QP_DRAINED);
	qp->timer.fn = leave_timeout;
	if (rd_timer_start(qp->reactor->loop, &qp->timer, RDT_LEAVE_WAIT))
		rdt_qpair_close(qp, "drained");
	rd_loop_post(qp->ctrl->owner->loop, &qp->drained_msg);
}

/* Returns whether commands have arrived for which no request has begun. */
static bool has_unread(const struct rdt_qpair *qp)
{
	if (qp->state >= RDT_QP_CLOSING)
		return false;
	return !STAILQ_EMPTY(&qp->capsules) || qp->ops->unread(qp) > 0;
}

/* Returns whether the queue can enter HELD. Commands that have arrived and not begun may wait. */
static bool can_be_held(struct rdt_qpair *qp)
{
	/* Called first, because the transport may now have to receive more, or less. */
	bool rests = !qp->ops->rests || qp->ops->rests(qp);

	return rests && qp->used == qp->used_aer && !qp->fused && !qp->auth;
}

static void qpair_check(struct rd_defer *defer)
{
	struct rdt_qpair *qp = rd_container_of(defer, struct rdt_qpair, check);

	assert(qp->magic == RDT_QPAIR_MAGIC);
	if (qp->unread_since && !has_unread(qp))
		qp->unread_since = 0;
	if (qp->state == RDT_QP_HOLDING && can_be_held(qp))
		set_qpair_state(qp, RDT_QP_HELD);
	if (qp->state == RDT_QP_DRAINING && qpair_is_drained(qp))
		leave_draining(qp);
	rdt_fence_queue_check(qp);
	if (qp->state != RDT_QP_CLOSING || !qp->transport_closed || qp->used || qp->attach.moves)
		return;
	set_qpair_state(qp, RDT_QP_DETACHING);
	if (!qp->ctrl)
		free_qpair(qp);
	else if (qp->admin)
		rdt_ctrl_detach(qp);
	else /* also by message if the owner is this reactor, to keep the order of messages */
		rd_loop_post(qp->ctrl->owner->loop, &qp->detach_msg);
}

void rdt_qpair_detached(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;

	assert(qp->state == RDT_QP_DETACHING);
	if (!qp->admin)
		LIST_REMOVE(qp, ctrl_link);
	qp->ctrl = NULL;
	rdt_ctrl_put(ctrl);
	free_qpair(qp);
}

void rdt_qpair_check(struct rdt_qpair *qp)
{
	if (qp->state >= RDT_QP_HOLDING)
		rd_defer(qp->reactor->loop, &qp->check, RD_DEFER_WORK);
}

static void connect_timeout(struct rd_timer *timer)
{
	struct rdt_qpair *qp = rd_container_of(timer, struct rdt_qpair, timer);

	rdt_qpair_end(qp, RDT_END_NO_CONNECT, "no Connect within 10 s");
}

static void set_qid(struct rdt_qpair *qp, uint16_t qid)
{
	const struct rdt_cmd_tables *tables = qp->reactor->target->cmds;

	qp->want_qid = qp->qid = qid;
	qp->admin = qid == 0;
	qp->cmds = qp->admin ? tables->admin : tables->io;
}

int rdt_qpair_init(struct rdt_qpair *qp, struct rdt_reactor *r, const struct rdt_transport_ops *ops,
		   uint16_t want_qid, uint16_t depth)
{
	qp->magic = RDT_QPAIR_MAGIC;
	qp->state = RDT_QP_NEW;
	qp->reactor = r;
	qp->log = r->log;
	qp->traced = rd_log_enabled(r->log, RD_LOG_QPAIR, RD_LOG_TRACE);
	qp->ops = ops;
	qp->share = &r->unassociated;
	rdt_host_counters_init(qp);
	set_qid(qp, want_qid == RDT_QID_ANY ? 0 : want_qid);
	qp->want_qid = want_qid;
	qp->depth = depth;
	qp->in_capsule_max = r->target->cfg->target.in_capsule_bytes;
	qp->data_max = r->target->cfg->target.max_data_bytes;
	qp->check.fn = qpair_check;
	qp->timer.fn = connect_timeout;
	qp->close_msg.fn = qpair_close_msg;
	qp->drained_msg.fn = qpair_drained_msg;
	qp->detach_msg.fn = detach_msg;
	STAILQ_INIT(&qp->capsules);
	qp->reqs = calloc(depth, sizeof(*qp->reqs));
	if (!qp->reqs)
		return -ENOMEM;
	return 0;
}

void rdt_qpair_fini(struct rdt_qpair *qp)
{
	if (!qp->reactor)
		return;
	rd_timer_stop(qp->reactor->loop, &qp->timer);
	rd_defer_cancel(qp->reactor->loop, &qp->check);
	rdt_host_counters_leave(qp);
	rdt_share_leave(qp);
	rdt_peer_leave(qp);
	rdt_peer_gone(qp->reactor->target, qp->peer);
	qp->peer = NULL;
	qp->reactor->target->cmds->auth->fini(qp);
	rdt_slots_fini(&qp->left_ns);
	free(qp->aside_data);
	qp->aside_data = NULL;
	rdt_starved_leave(qp);
	free(qp->reqs);
	qp->reqs = NULL;
}

void rdt_qpair_start(struct rdt_qpair *qp)
{
	struct rdt_reactor *r = qp->reactor;

	TAILQ_INSERT_TAIL(&r->qpairs, qp, link);
	r->qpairs_count++;
	rdt_host_counters_join(qp, NULL);
	rdt_unassoc_add(qp);
	if (rd_timer_start(r->loop, &qp->timer, RDT_CONNECT_TIMEOUT))
		rdt_qpair_close(qp, "out of memory");
}

void rdt_qpair_mark_unread(struct rdt_qpair *qp)
{
	if (!qp->unread_since && has_unread(qp))
		qp->unread_since = rd_loop_now(qp->reactor->loop);
}

uint64_t rdt_qpair_arrived(struct rdt_qpair *qp)
{
	/* When the transport has reported all that it has read, it is asked whether there is
	 * more. */
	rd_defer(qp->reactor->loop, &qp->check, RD_DEFER_WORK);
	return qp->unread_since;
}

/* Returns whether new commands wait because of a hold. The second command of a fused pair begins
 * even then, because the first one can only end with it. */
static bool is_on_hold(const struct rdt_qpair *qp)
{
	return (qp->state == RDT_QP_HOLDING && !qp->fused) || qp->state == RDT_QP_HELD;
}

/* Wait for a free request, unless all entries of the queue are in use: then the next request that
 * ends serves it. */
static void wait_for_req(struct rdt_qpair *qp)
{
	if (STAILQ_EMPTY(&qp->capsules) || qp->used == qp->depth || is_on_hold(qp))
		return;
	if (qp->admin && !rdt_req_pool_empty(qp->req_pool))
		rdt_admin_wait(qp);
	else
		rdt_req_pool_wait(qp->req_pool, qp);
}

/* Returns whether other queues wait for what the next command of @qp needs. */
static bool others_wait(const struct rdt_qpair *qp)
{
	return !TAILQ_EMPTY(&qp->req_pool->starved) ||
	       (qp->admin && !TAILQ_EMPTY(&qp->reactor->admin.waiting));
}

void rdt_qpair_use_pool(struct rdt_qpair *qp, struct rdt_req_pool *pool)
{
	bool waits = qp->starved != NULL;

	rdt_starved_leave(qp);
	qp->req_pool = pool;
	if (waits)
		wait_for_req(qp);
}

void rdt_qpair_role(struct rdt_qpair *qp, uint16_t qid)
{
	assert(qp->want_qid == RDT_QID_ANY);
	set_qid(qp, qid);
	if (!qp->admin)
		rdt_place_io(qp->reactor);
	qp->ops->role(qp);
}

/* Returns false if the queue was already closing and had no controller to report to; the reference
 * is then released during the teardown. */
static bool qpair_joins(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			bool sqflow_off)
{
	qp->ctrl = ctrl;
	if (!qp->admin)
		LIST_INSERT_HEAD(&ctrl->on[qp->reactor->index].queues, qp, ctrl_link);
	qp->qid = qid;
	qp->sqsize = sqsize;
	qp->sqflow_off = sqflow_off;
	if (qp->state == RDT_QP_NEW)
		return true;
	rdt_fence_queue_closed(qp);
	return false;
}

void rdt_qpair_connected(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			 bool sqflow_off)
{
	if (!qpair_joins(qp, ctrl, qid, sqsize, sqflow_off))
		return;
	if (!qp->reactor->target->cmds->auth->required(qp)) {
		rdt_qpair_live(qp);
		return;
	}
	/* The queue remains an unassociated connection. */
	qp->cmds = no_cmds;
	set_qpair_state(qp, RDT_QP_AUTH);
	if (qp->admin) /* keep alive starts with the authentication */
		rdt_keep_alive_stop(ctrl);
	qp->reactor->target->cmds->auth->await(qp);
}

void rdt_qpair_live(struct rdt_qpair *qp)
{
	const struct rdt_cmd_tables *tables = qp->reactor->target->cmds;
	const struct rdt_ctrl *ctrl = qp->ctrl;
	char addr[RD_ADDR_TEXT];

	rd_timer_stop(qp->reactor->loop, &qp->timer);
	rdt_unassoc_remove(qp);
	qp->cmds = qp->admin ? tables->admin : tables->io;
	rdt_share_join(qp, ctrl->hostnqn);
	rdt_host_counters_join(qp, ctrl->hostnqn);
	qp->ops->joined(qp);
	rdt_heartbeat_start(qp->reactor, ctrl);
	set_qpair_state(qp, RDT_QP_LIVE);
	if (qp->reactor->hold)
		rdt_qpair_hold(qp);
	rd_info(qp->log, RD_LOG_QPAIR, "%s qid %u cntlid %u: connected from %s, %u entries",
		ctrl->subsys->nqn, qp->qid, ctrl->cntlid,
		rd_addr_format((struct sockaddr *)&qp->remote, addr), qp->sqsize);
}

static struct rdt_req *take_req(struct rdt_qpair *qp)
{
	struct rdt_req_pool *pool = qp->req_pool;
	struct rdt_req *req = SLIST_FIRST(&pool->free);

	if (qp->used == qp->depth || (qp->admin && !rdt_admin_may(qp)))
		return NULL;
	if (!req && !(req = rdt_req_pool_more(pool)))
		return NULL;
	SLIST_REMOVE_HEAD(&pool->free, next);
	pool->used++;
	req->index = (uint16_t)qp->used;
	qp->reqs[qp->used++] = req;
	return req;
}

void rdt_qpair_put(struct rdt_qpair *qp, struct rdt_req *req)
{
	struct rdt_req_pool *pool = req->home;
	struct rdt_req *last = qp->reqs[--qp->used];

	qp->reqs[req->index] = last;
	last->index = req->index;
	/* LIFO, because the request used last is still in the cache. */
	SLIST_INSERT_HEAD(&pool->free, req, next);
	pool->used--;
	if (!TAILQ_EMPTY(&pool->starved))
		rd_defer(pool->loop, &pool->serve, RD_DEFER_WORK);
}

/* A queue that ends drops the command; one that is held keeps it. Returns false if the command
 * begins. */
static RD_COLD bool take_no_command(struct rdt_qpair *qp, struct rdt_capsule *cap)
{
	if (qp->state >= RDT_QP_DRAINING)
		return true;
	if (!is_on_hold(qp))
		return false;
	STAILQ_INSERT_TAIL(&qp->capsules, cap, link);
	return true;
}

void rdt_qpair_capsule(struct rdt_qpair *qp, struct rdt_capsule *cap)
{
	struct rdt_req *req = NULL;

	if (qp->state >= RDT_QP_HOLDING && take_no_command(qp, cap))
		return;
	if (STAILQ_EMPTY(&qp->capsules) && !others_wait(qp))
		req = take_req(qp);
	if (!req) {
		STAILQ_INSERT_TAIL(&qp->capsules, cap, link);
		wait_for_req(qp);
		return;
	}
	rdt_req_begin(qp, req, cap);
}

void rdt_qpair_retry(struct rdt_qpair *qp)
{
	struct rdt_capsule *cap = STAILQ_FIRST(&qp->capsules);
	struct rdt_req *req;

	if (!cap || qp->state >= RDT_QP_CLOSING || is_on_hold(qp))
		return;
	req = take_req(qp);
	if (req) {
		STAILQ_REMOVE_HEAD(&qp->capsules, link);
		rdt_req_begin(qp, req, cap);
	}
	wait_for_req(qp);
}

void rdt_qpair_continue(struct rdt_qpair *qp)
{
	if (others_wait(qp) && qp->state < RDT_QP_CLOSING)
		wait_for_req(qp);
	else
		rdt_qpair_retry(qp);
}

/* Rate limited, because anybody can make connections that end without a Connect. */
static void report_queue_end(const struct rdt_qpair *qp, const char *reason)
{
	struct rdt_reactor *r = qp->reactor;
	char addr[RD_ADDR_TEXT];

	rd_addr_format((const struct sockaddr *)&qp->remote, addr);
	if (qp->state == RDT_QP_NEW)
		rd_log_limited(&r->stranger_limit, rd_loop_now(r->loop), qp->log, RD_LOG_QPAIR,
			       RD_LOG_INFO, "a connection from %s: closing: %s", addr, reason);
	else
		rd_info(qp->log, RD_LOG_QPAIR, "qid %u from %s: closing: %s", qp->qid, addr,
			reason);
}

void rdt_qpair_end(struct rdt_qpair *qp, enum rdt_end end, const char *reason)
{
	struct rdt_req *req;

	if (qp->state >= RDT_QP_CLOSING)
		return;
	report_queue_end(qp, reason);
	rdt_count_event(qp, (enum rdt_count_of)(RDT_COUNT_ENDS + (unsigned int)end));
	if (qp->ctrl && qp->admin)
		rdt_ctrl_ends(qp->ctrl, reason);
	set_qpair_state(qp, RDT_QP_CLOSING);
	rdt_unassoc_remove(qp);
	rd_timer_stop(qp->reactor->loop, &qp->timer);
	STAILQ_INIT(&qp->capsules);
	rdt_starved_leave(qp);
	qp->ops->close(qp);
	if (qp->ctrl && qp->admin)
		rdt_aer_drop_all(qp->ctrl);
	/* Requests that only this queue pair refers to end now; the others when they return. */
	RDT_FOREACH_REQ (req, qp)
		rdt_req_hang_up(req);
	qp->reactor->target->cmds->auth->hang_up(qp);
	rdt_fence_queue_closed(qp);
	rdt_qpair_check(qp);
}

bool rdt_qpair_over(const struct rdt_qpair *qp)
{
	return qp->state >= RDT_QP_CLOSING || qp->ops->peer_closed(qp);
}

void rdt_qpair_lost(struct rdt_qpair *qp, enum rdt_end end, const char *reason)
{
	rdt_qpair_end(qp, end, reason);
}

void rdt_qpair_transport_closed(struct rdt_qpair *qp)
{
	assert(qp->magic == RDT_QPAIR_MAGIC && qp->state >= RDT_QP_CLOSING);
	qp->transport_closed = true;
	rdt_qpair_check(qp);
}

void rdt_qpair_drain(struct rdt_qpair *qp)
{
	if (qp->state >= RDT_QP_DRAINING)
		return;
	/* Before the authentication no commands are worth waiting for. */
	if (qp->state == RDT_QP_NEW || (qp->state == RDT_QP_AUTH && qp->reactor->draining)) {
		rdt_qpair_close(qp, "the target is shutting down");
		return;
	}
	set_qpair_state(qp, RDT_QP_DRAINING);
	rd_timer_stop(qp->reactor->loop, &qp->timer);
	rdt_fused_orphan(qp);
	rdt_qpair_check(qp);
}

/* ---- the hold (hold.h) ---- */

void rdt_qpair_hold(struct rdt_qpair *qp)
{
	if (qp->state >= RDT_QP_HOLDING)
		return;
	if (qp->ops->hold)
		qp->ops->hold(qp, RDT_HOLD_ENDS);
	if (qp->state != RDT_QP_LIVE)
		return;
	set_qpair_state(qp, RDT_QP_HOLDING);
	rdt_starved_leave(qp);
	rdt_qpair_check(qp);
}

void rdt_qpair_release(struct rdt_qpair *qp)
{
	if (qp->state >= RDT_QP_DRAINING)
		return;
	qp->moved = false;
	if (qp->state >= RDT_QP_HOLDING)
		set_qpair_state(qp, RDT_QP_LIVE);
	if (qp->state == RDT_QP_LIVE && qp->admin)
		rdt_events_resume(qp->ctrl);
	wait_for_req(qp);
	if (qp->ops->hold)
		qp->ops->hold(qp, RDT_HOLD_OFF);
}

bool rdt_qpair_awaits_host(const struct rdt_qpair *qp)
{
	struct rdt_req *req;

	if (qp->fused)
		return true;
	RDT_FOREACH_REQ (req, qp)
		if (req->state <= RDT_REQ_FETCH_ENDING && req->dir == RDT_DIR_H2C && req->data_len)
			return true;
	return false;
}

/* A queue without a Connect or its authentication cannot use storage. It does not move, so its
 * state does not matter. */
bool rdt_qpair_rests(const struct rdt_qpair *qp)
{
	if (qp->state < RDT_QP_LIVE || qp->state == RDT_QP_HELD)
		return true;
	return qp->state >= RDT_QP_DRAINING && qp->used == qp->used_aer;
}

void rdt_qpair_moved_in(struct rdt_qpair *qp, struct rdt_ctrl *ctrl, uint16_t qid, uint16_t sqsize,
			bool sqflow_off)
{
	assert(qp->moved);
	if (!qpair_joins(qp, ctrl, qid, sqsize, sqflow_off)) {
		rdt_qpair_check(qp);
		return;
	}
	rdt_qpair_live(qp);
	set_qpair_state(qp, RDT_QP_HELD);
}

/* Linear search, only for Abort. */
struct rdt_req *rdt_qpair_find(struct rdt_qpair *qp, uint16_t cid)
{
	for (unsigned int i = 0; i < qp->used; i++)
		if (rdt_sqe_cid(qp->reqs[i]) == cid)
			return qp->reqs[i];
	return NULL;
}
