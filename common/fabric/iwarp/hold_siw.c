/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siw (Linux 6.1) as a responder sends its reply before its socket receives FPDUs; what arrives in
 * between is noticed only when more data arrives. So the first message must be followed by another
 * one soon. With the peer-to-peer model the ready-to-receive message leaves at once, and the first
 * work request FIRST_WR_NS later. Without it the pause gives siw time to switch. If siw takes
 * longer, empty WRITEs follow ("pokes") until the peer sends its first FPDU.
 *
 * What else the iwarp provider does for siw, each where it belongs: tx.c (with CRC, one FPDU in a
 * segment), mpa.c (the value that means "do not negotiate"), ddp.c (bits of a Terminate), listen.c
 * (a FIN after a reject), caps.h (private data of 251 bytes), fpdu.c (the first FPDU).
 */
#include "connect.h"

#include "conn.h"

#define FIRST_WR_NS RD_NSEC_PER_MSEC
#define POKE_NS     (5 * RD_NSEC_PER_MSEC)
#define POKE_MAX_NS (500 * RD_NSEC_PER_MSEC)

static void hold_expired(struct rd_timer *timer)
{
	struct rd_iw_conn *c = rd_container_of(timer, struct rd_iw_conn, hold_timer);

	if (c->tx.hold) {
		rd_iw_tx_release(c);
		c->tx.poke_ns = c->fab->opts.poke_ns ? c->fab->opts.poke_ns : POKE_NS;
	} else {
		rd_iw_tx_poke(c);
		if (c->tx.poke_ns < POKE_MAX_NS)
			c->tx.poke_ns *= 2;
	}
	/* Cannot fail: the heap has the place that the timer has just left. */
	rd_timer_start(c->fab->base.loop, timer, c->tx.poke_ns);
}

int rd_iw_hold_start(struct rd_iw_conn *c)
{
	c->tx.hold = true;
	c->hold_timer.fn = hold_expired;
	return rd_timer_start(c->fab->base.loop, &c->hold_timer, FIRST_WR_NS);
}

void rd_iw_hold_stop(struct rd_iw_conn *c)
{
	rd_timer_stop(c->fab->base.loop, &c->hold_timer);
}
