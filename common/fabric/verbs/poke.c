/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siw (Linux 6.1: siw_accept()) sends its reply before it looks at the socket as one of FPDUs. A
 * first message that arrives in between wakes nobody: it is looked at when something else arrives
 * on the connection, and no call of a responder's makes siw look. So until a first message has come
 * in, more is made to arrive.
 *
 * The active side sends empty RDMA WRITEs. An empty WRITE would help a passive side nothing, since
 * only a TCP acknowledgement comes back; an empty RDMA READ is answered. That the passive side so
 * speaks first is against MPA, but siw does not mind, and where the wake-up was lost the peer has
 * spoken. It begins much later, for two reasons. The peer may be a siw that is just sending its
 * first message, and siw (6.1: siw_activate_tx()) answers an empty READ that it has to queue behind
 * another message with that message's length, which ends the connection. Or a siw that has not
 * looked at our reply yet, being busy, or the reply being lost and sent again by TCP, some 200 ms
 * later at the earliest: siw (6.1: siw_recv_mpa_rr()) takes a reply with anything behind it for a
 * broken one. A host that has anything to say has said it within milliseconds, and one that pokes
 * by itself is done.
 *
 * Only on siw: both ends of one are mostly siw, and no adapter is known to need it or to take it.
 */
#include "internal.h"

struct schedule {
	uint64_t first_ns; /* until the first poke */
	uint64_t factor;   /* by which each pause is longer than the one before */
	uint64_t last_ns;  /* no pause is longer: then it is left alone */
};

static const struct schedule active = {5 * RD_NSEC_PER_MSEC, 4, 1280 * RD_NSEC_PER_MSEC};
/* The last one is 7 s after the beginning, before a target gives up waiting. */
static const struct schedule passive = {RD_NSEC_PER_SEC, 2, 4 * RD_NSEC_PER_SEC};

static const struct schedule *schedule_of(const struct rd_vb_conn *c)
{
	return c->poke.opcode == IBV_WR_RDMA_READ ? &passive : &active;
}

static void poke(struct rd_timer *timer)
{
	struct rd_vb_conn *c = rd_container_of(timer, struct rd_vb_conn, poke.timer);

	/* The message may be there, and the loop late. */
	rd_vb_cq_sweep(c->rcq);
	if (c->poke.heard || c->state != RD_VB_OPEN || c->stalled)
		return;
	rd_vb_post_poke(c);
	c->poke.pause_ns *= schedule_of(c)->factor;
	if (c->poke.pause_ns <= schedule_of(c)->last_ns)
		/* Cannot fail: the place it has just left is free. */
		rd_timer_start(c->fab->base.loop, timer, c->poke.pause_ns);
}

void rd_vb_poke_start(struct rd_vb_conn *c, bool initiator)
{
	if (!c->poke.room || c->poke.heard || (!initiator && !c->base.ord))
		return;
	c->poke.opcode = initiator ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	c->poke.timer.fn = poke;
	c->poke.pause_ns = schedule_of(c)->first_ns;
	if (rd_timer_start(c->fab->base.loop, &c->poke.timer, c->poke.pause_ns))
		rd_debug(rd_vb_log(c->fab), RD_LOG_FABRIC, "qp %u: no memory for a timer",
			 c->base.qp_num);
}

void rd_vb_poke_heard(struct rd_vb_conn *c)
{
	c->poke.heard = true;
	rd_vb_poke_stop(c);
}

void rd_vb_poke_stop(struct rd_vb_conn *c)
{
	rd_timer_stop(c->fab->base.loop, &c->poke.timer);
}
