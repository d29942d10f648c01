/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New connections on their way from the thread that accepted them to their reactor. A reactor
 * accepts only a few in each loop iteration, because after it was blocked hundreds may wait, and
 * existing connections have to be served too. Addresses are served round robin: one with thousands
 * of connections delays another address by one connection per iteration.
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

struct rdt_handover { /* embedded in the object that a transport hands over */
	struct rd_msg msg;
	STAILQ_ENTRY(rdt_handover) link; /* lane->queue */
	struct rdt_inbound *in;
	/* the source of the connection's address, which counts the connection until take() does */
	struct rdt_source *source;
};

/* The waiting connections of one address and transport. All zero: initial state. */
struct rdt_lane {
	STAILQ_HEAD(, rdt_handover) queue; /* valid while it is on a list */
	TAILQ_ENTRY(rdt_lane) link;        /* in->lanes or in->paused */
	uint64_t due;                      /* end of its pause, in ns */
	unsigned int waiting;              /* on @queue */
	unsigned int crowded;              /* accepted since its pause by ending older ones */
	bool listed;
};
TAILQ_HEAD(rdt_lanes, rdt_lane);

struct rdt_inbound { /* one for each transport on each reactor */
	struct rdt_reactor *reactor;
	unsigned int kind;       /* of the transport */
	struct rdt_lanes lanes;  /* served round robin */
	struct rdt_lanes paused; /* in the order of @due */
	struct rd_timer pause;   /* expires with the first pause */
	struct rd_defer accept;
	/* Accepts the connection, or rejects it with @refuse, and frees @h. */
	void (*take)(struct rdt_handover *h, bool refuse);
};

void rdt_inbound_init(struct rdt_inbound *in, struct rdt_reactor *r, unsigned int kind,
		      void (*take)(struct rdt_handover *h, bool refuse));
void rdt_inbound_fini(struct rdt_inbound *in);     /* rejects all waiting connections */
void rdt_inbound_catch_up(struct rdt_inbound *in); /* accepts all waiting connections */
/* Hand @h over to the reactor of @in. @source: rdt_peer_source_on(). Any thread. */
void rdt_hand_over(struct rdt_inbound *in, struct rdt_handover *h, struct rdt_source *source);

#endif /* RDT_HANDOVER_H */
