/* SPDX-License-Identifier: BSD-3-Clause */
#include "handover.h"

#include <limits.h>

/* Connections that a reactor adopts in one turn of its loop: setting one up, and ending the oldest
 * one that is without a Connect for it, is the work of some dozen reads. */
#define ADOPT_TURN 4u

static void inbound_take(struct rdt_inbound *in, unsigned int count, bool refuse)
{
	struct rdt_handover *h;

	for (; count && (h = STAILQ_FIRST(&in->queue)); count--) {
		STAILQ_REMOVE_HEAD(&in->queue, link);
		in->take(h, refuse);
	}
}

static void adopt_in_turns(struct rd_defer *defer)
{
	struct rdt_inbound *in = rd_container_of(defer, struct rdt_inbound, adopt);

	inbound_take(in, ADOPT_TURN, false);
	if (!STAILQ_EMPTY(&in->queue))
		rd_defer(in->loop, &in->adopt, RD_DEFER_NEXT);
}

static void handed_over(struct rd_msg *msg)
{
	struct rdt_handover *h = rd_container_of(msg, struct rdt_handover, msg);

	STAILQ_INSERT_TAIL(&h->in->queue, h, link);
	rd_defer(h->in->loop, &h->in->adopt, RD_DEFER_WORK);
}

void rdt_inbound_init(struct rdt_inbound *in, struct rd_loop *loop,
		      void (*take)(struct rdt_handover *h, bool refuse))
{
	in->loop = loop;
	STAILQ_INIT(&in->queue);
	in->adopt.fn = adopt_in_turns;
	in->take = take;
}

void rdt_inbound_fini(struct rdt_inbound *in)
{
	rd_defer_cancel(in->loop, &in->adopt);
	inbound_take(in, UINT_MAX, true);
}

void rdt_inbound_catch_up(struct rdt_inbound *in)
{
	inbound_take(in, UINT_MAX, false);
}

void rdt_hand_over(struct rdt_inbound *in, struct rdt_handover *h)
{
	h->msg.fn = handed_over;
	h->in = in;
	rd_loop_post(in->loop, &h->msg);
}
