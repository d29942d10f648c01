/* SPDX-License-Identifier: BSD-3-Clause */
#include "slices.h"

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

static struct rdt_extents_queue *extents_of_host(const struct rdt_req *req)
{
	return &req->qp->share->extents;
}

static void begin_extents(struct rdt_extents_queue *queue, struct rdt_req *req)
{
	queue->now = req;
	queue->began = rd_loop_now(queue->reactor->loop);
	req->work.extents = true;
}

static void extents_pause_ended(struct rd_timer *timer)
{
	struct rdt_extents_queue *queue = rd_container_of(timer, struct rdt_extents_queue, timer);
	struct rdt_req *req = TAILQ_FIRST(&queue->waiting);

	if (!req || queue->now)
		return;
	TAILQ_REMOVE(&queue->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
	begin_extents(queue, req);
	rdt_io_resume(req);
}

/* Continue the first waiting command after the pause; without memory for the timer, now. */
static void await_pause(struct rdt_extents_queue *queue)
{
	uint64_t now = rd_loop_now(queue->reactor->loop);

	if (TAILQ_EMPTY(&queue->waiting) || queue->now || rd_timer_armed(&queue->timer))
		return;
	queue->timer.fn = extents_pause_ended;
	if (rd_timer_start(queue->reactor->loop, &queue->timer,
			   queue->free_at > now ? queue->free_at - now : 0))
		extents_pause_ended(&queue->timer);
}

bool rdt_extents_begin(struct rdt_req *req)
{
	struct rdt_extents_queue *queue = extents_of_host(req);

	if (!queue->reactor) {
		queue->reactor = req->qp->reactor;
		TAILQ_INIT(&queue->waiting);
	}
	if (!queue->now && TAILQ_EMPTY(&queue->waiting) &&
	    rd_loop_now(queue->reactor->loop) >= queue->free_at) {
		begin_extents(queue, req);
		return true;
	}
	TAILQ_INSERT_TAIL(&queue->waiting, req, link);
	req->wait = RDT_WAIT_EXTENTS;
	await_pause(queue);
	return false;
}

void rdt_extents_end(struct rdt_req *req)
{
	struct rdt_extents_queue *queue = extents_of_host(req);
	uint64_t now = rd_loop_now(queue->reactor->loop);
	uint64_t pause = PAUSE * (now - queue->began);

	req->work.extents = false;
	queue->now = NULL;
	queue->free_at = now + (pause < RDT_EXTENTS_PAUSE_MAX ? pause : RDT_EXTENTS_PAUSE_MAX);
	await_pause(queue);
}

void rdt_extents_unwait(struct rdt_req *req)
{
	struct rdt_extents_queue *queue = extents_of_host(req);

	TAILQ_REMOVE(&queue->waiting, req, link);
	req->wait = RDT_WAIT_NONE;
}

void rdt_extents_queue_fini(struct rdt_extents_queue *queue)
{
	if (queue->reactor)
		rd_timer_stop(queue->reactor->loop, &queue->timer);
}
