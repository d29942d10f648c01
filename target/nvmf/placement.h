/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement of connections on reactors. */
#ifndef RDT_PLACEMENT_H
#define RDT_PLACEMENT_H

#include <stdbool.h>

struct rdt_reactor;
struct rdt_target;

struct rdt_load {
	unsigned int busy;   /* per mille of the last window in which the reactor worked */
	unsigned int queues; /* I/O queues on it */
	unsigned int conns;  /* these and admin queues */
};

/*
 * The best of @count: the one with the fewest I/O queues, which are counted as soon as they are
 * placed. Of equal ones the one that works the least share of its time, in tenths; shares are known
 * only a second later, and those of queues that have gone since are worth nothing. Of equal ones
 * still, the one with the fewest connections.
 */
unsigned int rdt_place_choose(const struct rdt_load *loads, unsigned int count);
/* Is @mine saturated, with queues that @other, not half as busy, could have served? */
bool rdt_place_uneven(const struct rdt_load *mine, const struct rdt_load *other);

struct rdt_reactor *rdt_place(struct rdt_target *t, bool admin); /* main thread; counts it there */
void rdt_unplace(struct rdt_reactor *r, bool admin);             /* it has gone. Any thread */
/* Publish how busy @r is, and report when that is uneven. On its thread. */
void rdt_place_watch(struct rdt_reactor *r);
void rdt_place_unwatch(struct rdt_reactor *r);

#endif /* RDT_PLACEMENT_H */
