/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement: which reactor gets a new connection. */
#ifndef RDT_PLACEMENT_H
#define RDT_PLACEMENT_H

#include <stdbool.h>

struct rdt_reactor;
struct rdt_target;

struct rdt_load {
	unsigned int busy;   /* per mille of the last window in which the reactor worked */
	unsigned int queues; /* I/O queues on it */
	unsigned int conns;  /* I/O queues and admin queues */
};

/* Returns the index of the best reactor of @count. The criteria, in order: fewest I/O queues
 * (counted when placed), lowest busy time in steps of 10 % (published about once a second, and
 * includes queues that have ended since), fewest connections. */
unsigned int rdt_place_choose(const struct rdt_load *loads, unsigned int count);
/* Returns whether @mine is saturated while @other, with fewer I/O queues, is busy less than half as
 * much. */
bool rdt_place_uneven(const struct rdt_load *mine, const struct rdt_load *other);

/* chooses a reactor and counts the connection there; main thread */
struct rdt_reactor *rdt_place(struct rdt_target *t, bool admin);
void rdt_place_on(struct rdt_reactor *r); /* the same, for a connection that moves in */
/* A connection on @r that was counted as an admin queue is an I/O queue. */
void rdt_place_io(struct rdt_reactor *r);
/* the connection has ended; any thread */
void rdt_unplace(struct rdt_reactor *r, bool admin);
/* Publish how busy @r is, and log imbalance. On the reactor's thread. */
void rdt_place_watch(struct rdt_reactor *r);
void rdt_place_unwatch(struct rdt_reactor *r);

#endif /* RDT_PLACEMENT_H */
