/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hold has two phases, so that a refusal changes nothing: first every reactor brings its queues
 * to a rest, then every reactor writes what can move. A queue that does not rest in time because of
 * its host, which sends half a command or takes no answer, is stopped where it is, and does not
 * move; one that waits for storage refuses the hold, because that I/O could end after the other
 * process has begun to write. When the hold is forced, such a queue does not move either, and the
 * namespace is told.
 */
#include "hold_part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "ctrl.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "subsys.h"
#include "target.h"

/* How often a reactor looks whether all rests, besides after each command that ends. */
#define LOOK_NS (500 * RD_NSEC_PER_USEC)

/* ---- on the reactors ---- */

static void answer_part(struct rdt_hold_part *part)
{
	part->asked = false;
	rd_loop_post(part->hold->target->loop, &part->msg);
}

static bool all_rest(const struct rdt_reactor *r)
{
	struct rdt_qpair *qp;

	TAILQ_FOREACH (qp, &r->qpairs, link)
		if (!rdt_qpair_rests(qp))
			return false;
	return true;
}

static void look_for_rest(struct rd_timer *timer)
{
	struct rdt_hold_part *part = rd_container_of(timer, struct rdt_hold_part, look);
	struct rdt_qpair *qp;

	TAILQ_FOREACH (qp, &part->reactor->qpairs, link)
		rdt_qpair_check(qp);
	if (part->asked && all_rest(part->reactor)) {
		answer_part(part);
		return;
	}
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	rd_timer_start(part->reactor->loop, timer, LOOK_NS);
}

static void hold_part_answered(struct rd_msg *msg);

static void hold_reactor(struct rd_msg *msg)
{
	struct rdt_hold_part *part = rd_container_of(msg, struct rdt_hold_part, msg);
	struct rdt_reactor *r = part->reactor;
	struct rdt_qpair *qp, *next;

	r->hold = part;
	msg->fn = hold_part_answered;
	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		next = TAILQ_NEXT(qp, link);
		rdt_qpair_hold(qp);
	}
	part->asked = true;
	part->look.fn = look_for_rest;
	if (!rd_timer_start(r->loop, &part->look, 0))
		return;
	snprintf(part->why, sizeof(part->why), "there is no memory for a timer");
	answer_part(part);
}

/* Does @req use storage, or could it begin to before its host sends anything? */
static bool is_unfinished(const struct rdt_req *req)
{
	const struct rdt_qpair *qp = req->qp;

	switch (req->state) {
	case RDT_REQ_FUSED:
	case RDT_REQ_RESPONDING:
		return false;
	case RDT_REQ_FETCHING:
	case RDT_REQ_FETCH_ENDING:
		return !qp->ops->hold; /* its data cannot be stopped */
	default:                       /* but an AER, or a command without storage */
		return !qp->admin || !req->cmd || !rdt_req_executing(req) || req->ns;
	}
}

/* Can the next process serve without its end, if not its namespace? A change that the main thread
 * makes, of reservations or of write protection, has to end. */
static bool may_be_left(const struct rdt_req *req)
{
	return req->ns && (!rdt_req_executing(req) || req->wait != RDT_WAIT_NONE ||
			   req->range.state == RDT_RANGE_WAITING);
}

/* Returns a command of @qp for which the hold is refused, or NULL. */
static const struct rdt_req *unfinished_req(struct rdt_hold_part *part, const struct rdt_qpair *qp)
{
	struct rdt_req *req;

	RDT_FOREACH_REQ (req, qp) {
		if (!is_unfinished(req))
			continue;
		if (!part->hold->force || !may_be_left(req))
			return req;
		part->left[req->ns->slot / 64] |= UINT64_C(1) << req->ns->slot % 64;
	}
	return NULL;
}

static void say_why(struct rdt_hold_part *part, const struct rdt_qpair *qp,
		    const struct rdt_req *req)
{
	const char *nqn = qp->ctrl ? qp->ctrl->subsys->nqn : "a connection without a Connect";

	if (req->ns)
		snprintf(part->why, sizeof(part->why),
			 "%s namespace %u: a command of queue %u does not end (%s); look at its "
			 "storage, and try again, or use --force",
			 nqn, req->ns->nsid, qp->qid, rdt_req_state_name(req->state));
	else
		snprintf(part->why, sizeof(part->why),
			 "%s: a command of queue %u does not end (%s); try again", nqn, qp->qid,
			 rdt_req_state_name(req->state));
}

/* The time is over. */
static void late_reactor(struct rd_msg *msg)
{
	struct rdt_hold_part *part = rd_container_of(msg, struct rdt_hold_part, late);
	const struct rdt_req *req;
	struct rdt_qpair *qp;

	rd_timer_stop(part->reactor->loop, &part->look);
	if (!part->asked) /* all rests; the answer is under way */
		return;
	TAILQ_FOREACH (qp, &part->reactor->qpairs, link) {
		if (rdt_qpair_rests(qp))
			continue;
		req = unfinished_req(part, qp);
		if (req && !part->why[0])
			say_why(part, qp, req);
		if (!req && qp->ops->hold && qp->state < RDT_QP_CLOSING)
			qp->ops->hold(qp, RDT_HOLD_STOP);
	}
	answer_part(part);
}

static void write_reactor(struct rd_msg *msg)
{
	struct rdt_hold_part *part = rd_container_of(msg, struct rdt_hold_part, msg);

	msg->fn = hold_part_answered;
	rdt_hold_write(part);
	rd_loop_post(part->hold->target->loop, msg);
}

static void part_left(struct rd_msg *msg);

static void leave_reactor(struct rd_msg *msg)
{
	struct rdt_hold_part *part = rd_container_of(msg, struct rdt_hold_part, leave);
	struct rdt_reactor *r = part->reactor;
	struct rdt_qpair *qp, *next;

	rd_timer_stop(r->loop, &part->look);
	part->asked = false;
	r->hold = NULL;
	for (qp = TAILQ_FIRST(&r->qpairs); qp; qp = next) {
		next = TAILQ_NEXT(qp, link);
		if (part->hold->moved)
			rdt_qpair_close(qp, qp->moved
						    ? "moved to another process"
						    : "the target is replaced by another process");
		else
			rdt_qpair_release(qp);
	}
	msg->fn = part_left;
	rd_loop_post(part->hold->target->loop, msg);
}

/* ---- on the main thread ---- */

static void post_parts(struct rdt_hold *hold, enum rdt_hold_state state,
		       void (*fn)(struct rd_msg *msg))
{
	struct rdt_target *t = hold->target;

	hold->state = state;
	hold->left = t->reactors_count;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		hold->parts[i].msg.fn = fn;
		rd_loop_post(t->reactors[i].loop, &hold->parts[i].msg);
	}
}

void rdt_hold_leave(struct rdt_hold *hold, bool moved)
{
	struct rdt_target *t = hold->target;

	hold->state = RDT_HOLD_LEAVING;
	hold->moved = moved;
	hold->left = t->reactors_count;
	rd_timer_stop(t->loop, &hold->limit);
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		hold->parts[i].leave.fn = leave_reactor;
		rd_loop_post(t->reactors[i].loop, &hold->parts[i].leave);
	}
}

static void free_hold(struct rdt_hold *hold)
{
	struct rdt_target *t = hold->target;

	for (unsigned int i = 0; i < t->reactors_count; i++)
		rdt_hold_unwrite(&hold->parts[i]);
	t->hold = NULL;
	free(hold);
}

static void part_left(struct rd_msg *msg)
{
	struct rdt_hold *hold = rd_container_of(msg, struct rdt_hold_part, leave)->hold;
	struct rdt_hold last = *hold;

	if (--hold->left)
		return;
	free_hold(hold);
	if (last.err && last.held)
		last.held(last.arg, last.err, last.why);
}

static void refuse_hold(struct rdt_hold *hold, int err, const char *why)
{
	hold->err = err;
	snprintf(hold->why, sizeof(hold->why), "%s", why);
	rdt_hold_leave(hold, false);
}

static void hold_rests(struct rdt_hold *hold)
{
	for (unsigned int i = 0; i < hold->target->reactors_count; i++)
		if (hold->parts[i].why[0]) {
			refuse_hold(hold, -ETIMEDOUT, hold->parts[i].why);
			return;
		}
	rd_timer_stop(hold->target->loop, &hold->limit);
	post_parts(hold, RDT_HOLD_WRITING, write_reactor);
}

static void hold_written(struct rdt_hold *hold)
{
	for (unsigned int i = 0; i < hold->target->reactors_count; i++)
		if (hold->parts[i].err) {
			refuse_hold(hold, hold->parts[i].err,
				    hold->parts[i].why[0]
					    ? hold->parts[i].why
					    : "the records of the connections could not be "
					      "written: out of memory");
			return;
		}
	hold->state = RDT_HOLD_REACHED;
	hold->held(hold->arg, 0, NULL);
}

static void hold_part_answered(struct rd_msg *msg)
{
	struct rdt_hold *hold = rd_container_of(msg, struct rdt_hold_part, msg)->hold;

	if (hold->state == RDT_HOLD_LEAVING || --hold->left)
		return;
	if (hold->state == RDT_HOLD_WRITING)
		hold_written(hold);
	else
		hold_rests(hold);
}

static void hold_is_late(struct rd_timer *timer)
{
	struct rdt_hold *hold = rd_container_of(timer, struct rdt_hold, limit);
	struct rdt_target *t = hold->target;

	hold->state = RDT_HOLD_LATE;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		hold->parts[i].late.fn = late_reactor;
		rd_loop_post(t->reactors[i].loop, &hold->parts[i].late);
	}
}

bool rdt_hold_left(const struct rdt_target *t, unsigned int slot)
{
	bool left = false;

	for (unsigned int i = 0; t->hold && i < t->reactors_count; i++)
		left |= t->hold->parts[i].left[slot / 64] >> slot % 64 & 1;
	return left;
}

int rdt_hold(struct rdt_target *t, uint64_t timeout_ns, bool force,
	     void (*held)(void *arg, int err, const char *why), void *arg)
{
	struct rdt_hold *hold;
	int err;

	if (t->hold || t->move_in)
		return -EBUSY;
	hold = calloc(1, sizeof(*hold) + t->reactors_count * sizeof(hold->parts[0]));
	if (!hold)
		return -ENOMEM;
	hold->target = t;
	hold->force = force;
	hold->held = held;
	hold->arg = arg;
	hold->limit.fn = hold_is_late;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		hold->parts[i].hold = hold;
		hold->parts[i].reactor = &t->reactors[i];
	}
	err = rd_timer_start(t->loop, &hold->limit, timeout_ns);
	if (err) {
		free(hold);
		return err;
	}
	t->hold = hold;
	post_parts(hold, RDT_HOLD_COMING, hold_reactor);
	return 0;
}

void rdt_hold_release(struct rdt_target *t)
{
	if (!t->hold)
		return;
	t->hold->held = NULL;
	if (t->hold->state != RDT_HOLD_LEAVING)
		rdt_hold_leave(t->hold, false);
}
