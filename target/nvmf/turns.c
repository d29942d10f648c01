/* SPDX-License-Identifier: BSD-3-Clause */
#include "turns.h"

#include "util/loop.h"
#include "io.h"
#include "pool.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"

static void next_slice(struct rd_defer *defer)
{
	struct rdt_slices *slices = rd_container_of(defer, struct rdt_slices, next);
	struct rdt_req *req = TAILQ_FIRST(&slices->waiting);

	TAILQ_REMOVE(&slices->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
	if (!TAILQ_EMPTY(&slices->waiting))
		rd_defer(req->qp->reactor->loop, defer, RD_DEFER_NEXT);
	rdt_io_resume(req);
}

enum rdt_step rdt_slice_done(struct rdt_req *req)
{
	struct rdt_slices *slices = &req->qp->reactor->slices;

	if (rdt_io_stopped(req))
		return RDT_STEP_DONE;
	if (!slices->next.fn) {
		slices->next.fn = next_slice;
		TAILQ_INIT(&slices->waiting);
	}
	TAILQ_INSERT_TAIL(&slices->waiting, req, link);
	req->wait = RDT_WAIT_SLICE;
	rd_defer(req->qp->reactor->loop, &slices->next, RD_DEFER_NEXT);
	return RDT_STEP_WAIT;
}

void rdt_slice_unwait(struct rdt_req *req)
{
	struct rdt_slices *slices = &req->qp->reactor->slices;

	TAILQ_REMOVE(&slices->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
	if (TAILQ_EMPTY(&slices->waiting))
		rd_defer_cancel(req->qp->reactor->loop, &slices->next);
}

#define PAUSE 3u

static struct rdt_extents_turn *turn_of_host(const struct rdt_req *req)
{
	return &req->qp->share->extents;
}

static void take_extents_turn(struct rdt_extents_turn *turn, struct rdt_req *req)
{
	turn->now = req;
	turn->began = rd_loop_now(turn->reactor->loop);
	req->work.extents = true;
}

static void extents_pause_ended(struct rd_timer *timer)
{
	struct rdt_extents_turn *turn = rd_container_of(timer, struct rdt_extents_turn, timer);
	struct rdt_req *req = TAILQ_FIRST(&turn->waiting);

	if (!req || turn->now)
		return;
	TAILQ_REMOVE(&turn->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
	take_extents_turn(turn, req);
	rdt_io_resume(req);
}

/* Continue the first waiting command after the pause; without memory for the timer, now. */
static void await_pause(struct rdt_extents_turn *turn)
{
	uint64_t now = rd_loop_now(turn->reactor->loop);

	if (TAILQ_EMPTY(&turn->waiting) || turn->now || rd_timer_armed(&turn->timer))
		return;
	turn->timer.fn = extents_pause_ended;
	if (rd_timer_start(turn->reactor->loop, &turn->timer,
			   turn->free_at > now ? turn->free_at - now : 0))
		extents_pause_ended(&turn->timer);
}

bool rdt_extents_begin(struct rdt_req *req)
{
	struct rdt_extents_turn *turn = turn_of_host(req);

	if (!turn->reactor) {
		turn->reactor = req->qp->reactor;
		TAILQ_INIT(&turn->waiting);
	}
	if (!turn->now && TAILQ_EMPTY(&turn->waiting) &&
	    rd_loop_now(turn->reactor->loop) >= turn->free_at) {
		take_extents_turn(turn, req);
		return true;
	}
	TAILQ_INSERT_TAIL(&turn->waiting, req, link);
	req->wait = RDT_WAIT_EXTENTS;
	await_pause(turn);
	return false;
}

void rdt_extents_end(struct rdt_req *req)
{
	struct rdt_extents_turn *turn = turn_of_host(req);
	uint64_t now = rd_loop_now(turn->reactor->loop);
	uint64_t pause = PAUSE * (now - turn->began);

	req->work.extents = false;
	turn->now = NULL;
	turn->free_at = now + (pause < RDT_EXTENTS_PAUSE_MAX ? pause : RDT_EXTENTS_PAUSE_MAX);
	await_pause(turn);
}

void rdt_extents_unwait(struct rdt_req *req)
{
	struct rdt_extents_turn *turn = turn_of_host(req);

	TAILQ_REMOVE(&turn->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
}

void rdt_extents_turn_fini(struct rdt_extents_turn *turn)
{
	if (turn->reactor)
		rd_timer_stop(turn->reactor->loop, &turn->timer);
}
