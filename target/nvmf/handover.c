/* SPDX-License-Identifier: BSD-3-Clause */
#include "handover.h"

#include "peers.h"
#include "pool.h"
#include "reactor.h"

/* Connections that a reactor accepts in one loop iteration. Setting one up, and ending the oldest
 * unassociated connection in return, takes as long as a few dozen reads. */
#define ACCEPT_BATCH 4u

/* An address that already has its maximum of unassociated connections may add this many in each
 * period. Each new one ends an older one, so a peer that reconnects all the time would keep the
 * reactor busy. If many of its connections wait, CROWDED_PART raises the number, so that another
 * host at the same address waits for at most 0.4 s. */
#define CROWDED_MIN  4u
#define CROWDED_PART 192u
#define PAUSE        (2 * RD_NSEC_PER_MSEC)

static void await_lanes(struct rdt_inbound *in)
{
	const struct rdt_lane *lane = TAILQ_FIRST(&in->paused);
	struct rd_loop *loop = in->reactor->loop;
	uint64_t now = rd_loop_now(loop);

	if (!lane || rd_timer_armed(&in->pause))
		return;
	/* Without memory for the timer, do not pause. */
	if (rd_timer_start(loop, &in->pause, lane->due > now ? lane->due - now : 0)) {
		TAILQ_CONCAT(&in->lanes, &in->paused, link);
		rd_defer(loop, &in->accept, RD_DEFER_WORK);
	}
}

static void lane_pauses_ended(struct rd_timer *timer)
{
	struct rdt_inbound *in = rd_container_of(timer, struct rdt_inbound, pause);
	struct rd_loop *loop = in->reactor->loop;
	struct rdt_lane *lane;

	while ((lane = TAILQ_FIRST(&in->paused)) && lane->due <= rd_loop_now(loop)) {
		TAILQ_REMOVE(&in->paused, lane, link);
		TAILQ_INSERT_TAIL(&in->lanes, lane, link);
		rd_defer(loop, &in->accept, RD_DEFER_WORK);
	}
	await_lanes(in);
}

/* Append the lane to its list. */
static void list_lane(struct rdt_inbound *in, struct rdt_lane *lane)
{
	lane->listed = true;
	if (lane->due > rd_loop_now(in->reactor->loop)) {
		TAILQ_INSERT_TAIL(&in->paused, lane, link);
		await_lanes(in);
	} else {
		TAILQ_INSERT_TAIL(&in->lanes, lane, link);
		rd_defer(in->reactor->loop, &in->accept, RD_DEFER_WORK);
	}
}

static void count_crowded(const struct rdt_inbound *in, const struct rdt_source *source,
			  struct rdt_lane *lane)
{
	unsigned int part = lane->waiting / CROWDED_PART;

	if (!rdt_unassoc_crowded(in->reactor, source) ||
	    ++lane->crowded < (part > CROWDED_MIN ? part : CROWDED_MIN))
		return;
	lane->crowded = 0;
	lane->due = rd_loop_now(in->reactor->loop) + PAUSE;
}

/* Take the first connection of the first lane in @lanes. */
static void take_first(struct rdt_inbound *in, struct rdt_lanes *lanes, bool refuse)
{
	struct rdt_lane *lane = TAILQ_FIRST(lanes);
	struct rdt_handover *h = STAILQ_FIRST(&lane->queue);

	STAILQ_REMOVE_HEAD(&lane->queue, link);
	TAILQ_REMOVE(lanes, lane, link);
	lane->waiting--;
	lane->listed = false;
	count_crowded(in, h->source, lane);
	if (!STAILQ_EMPTY(&lane->queue))
		list_lane(in, lane);
	in->take(h, refuse); /* may free the address and its lanes */
}

static void take_all(struct rdt_inbound *in, bool refuse)
{
	for (;;) {
		TAILQ_CONCAT(&in->lanes, &in->paused, link);
		if (TAILQ_EMPTY(&in->lanes))
			return;
		take_first(in, &in->lanes, refuse);
	}
}

static void accept_batch(struct rd_defer *defer)
{
	struct rdt_inbound *in = rd_container_of(defer, struct rdt_inbound, accept);

	for (unsigned int n = 0; n < ACCEPT_BATCH && !TAILQ_EMPTY(&in->lanes); n++)
		take_first(in, &in->lanes, false);
	rd_defer_cancel(in->reactor->loop, &in->accept);
	if (!TAILQ_EMPTY(&in->lanes))
		rd_defer(in->reactor->loop, &in->accept, RD_DEFER_NEXT);
}

static void handed_over(struct rd_msg *msg)
{
	struct rdt_handover *h = rd_container_of(msg, struct rdt_handover, msg);
	struct rdt_lane *lane = &h->source->lanes[h->in->kind];

	if (!lane->listed)
		STAILQ_INIT(&lane->queue);
	STAILQ_INSERT_TAIL(&lane->queue, h, link);
	lane->waiting++;
	if (!lane->listed)
		list_lane(h->in, lane);
}

void rdt_inbound_init(struct rdt_inbound *in, struct rdt_reactor *r, unsigned int kind,
		      void (*take)(struct rdt_handover *h, bool refuse))
{
	in->reactor = r;
	in->kind = kind;
	TAILQ_INIT(&in->lanes);
	TAILQ_INIT(&in->paused);
	in->pause.fn = lane_pauses_ended;
	in->accept.fn = accept_batch;
	in->take = take;
}

void rdt_inbound_fini(struct rdt_inbound *in)
{
	take_all(in, true);
	rd_defer_cancel(in->reactor->loop, &in->accept);
	rd_timer_stop(in->reactor->loop, &in->pause);
}

void rdt_inbound_catch_up(struct rdt_inbound *in)
{
	take_all(in, false);
}

void rdt_hand_over(struct rdt_inbound *in, struct rdt_handover *h, struct rdt_source *source)
{
	h->msg.fn = handed_over;
	h->in = in;
	h->source = source;
	rd_loop_post(in->reactor->loop, &h->msg);
}
