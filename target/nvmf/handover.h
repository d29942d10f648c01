/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New connections on their way from the thread that accepted them to the reactor that adopts them:
 * a few in each turn of its loop, because a reactor that stood still has hundreds of them, and
 * connections that wait to be served. Addresses take turns: one with thousands of connections
 * delays another address by one connection for each turn.
 */
#ifndef RDT_HANDOVER_H
#define RDT_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

struct rdt_inbound;
struct rdt_reactor;
struct rdt_source;

struct rdt_handover { /* a member of what a transport hands over */
	struct rd_msg msg;
	STAILQ_ENTRY(rdt_handover) link; /* lane->queue */
	struct rdt_inbound *in;
	/* of the address of the connection, which counts there until take() has it */
	struct rdt_source *source;
};

/* Connections of one address and transport that wait. All zero: there was none so far. */
struct rdt_lane {
	STAILQ_HEAD(, rdt_handover) queue; /* valid while it is on a list */
	TAILQ_ENTRY(rdt_lane) link;        /* in->lanes or in->paused */
	uint64_t due;                      /* it pauses until then */
	unsigned int waiting;              /* on @queue */
	unsigned int crowded;              /* adopted since the pause, in place of older ones */
	bool listed;
};
TAILQ_HEAD(rdt_lanes, rdt_lane);

struct rdt_inbound { /* of a transport on a reactor */
	struct rdt_reactor *reactor;
	unsigned int kind;       /* of the transport */
	struct rdt_lanes lanes;  /* they take turns */
	struct rdt_lanes paused; /* in the order in which they began to */
	struct rd_timer pause;   /* for the first one of these */
	struct rd_defer adopt;
	/* Adopts the connection or, with @refuse, turns it away; frees it. */
	void (*take)(struct rdt_handover *h, bool refuse);
};

void rdt_inbound_init(struct rdt_inbound *in, struct rdt_reactor *r, unsigned int kind,
		      void (*take)(struct rdt_handover *h, bool refuse));
void rdt_inbound_fini(struct rdt_inbound *in);     /* turns away those that are left */
void rdt_inbound_catch_up(struct rdt_inbound *in); /* adopts all that have come */
/* Any thread. @source: rdt_peer_source_on(). */
void rdt_hand_over(struct rdt_inbound *in, struct rdt_handover *h, struct rdt_source *source);

#endif /* RDT_HANDOVER_H */
