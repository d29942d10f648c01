/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New connections on their way from the thread that accepted them to the reactor that adopts them:
 * a few in each turn of its loop, because a reactor that stood still has hundreds of them, and
 * connections that wait to be served.
 */
#ifndef RDT_HANDOVER_H
#define RDT_HANDOVER_H

#include <stdbool.h>
#include <sys/queue.h>

#include "util/loop.h"

struct rdt_inbound;

struct rdt_handover { /* a member of what a transport hands over */
	struct rd_msg msg;
	STAILQ_ENTRY(rdt_handover) link; /* in->queue */
	struct rdt_inbound *in;
};

struct rdt_inbound { /* of a transport on a reactor */
	struct rd_loop *loop;
	STAILQ_HEAD(, rdt_handover) queue; /* in the order in which they came */
	struct rd_defer adopt;
	/* Adopts the connection or, with @refuse, turns it away; frees it. */
	void (*take)(struct rdt_handover *h, bool refuse);
};

void rdt_inbound_init(struct rdt_inbound *in, struct rd_loop *loop,
		      void (*take)(struct rdt_handover *h, bool refuse));
void rdt_inbound_fini(struct rdt_inbound *in);     /* turns away those that are left */
void rdt_inbound_catch_up(struct rdt_inbound *in); /* adopts all that have come */
void rdt_hand_over(struct rdt_inbound *in, struct rdt_handover *h); /* any thread */

#endif /* RDT_HANDOVER_H */
