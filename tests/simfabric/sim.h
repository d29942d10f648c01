/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider "sim": a simulated RDMA network in one thread, under one virtual clock. The same
 * seed and the same calls give the same run.
 *
 * A simulation is a clock, a source of random numbers and a queue of events. Loops that were
 * created with its clock belong to it, and fabrics that are opened on these loops see each other.
 * Time passes only by rd_sim_advance() and rd_sim_run().
 *
 * Data is placed and completions are added when a message arrives, whether or not the receiver's
 * loop turns: as with an adapter, a reactor that stands still does not stop the placement of data.
 *
 * Thread rule: one thread makes all calls.
 */
#ifndef SIMFABRIC_SIM_H
#define SIMFABRIC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "util/loop.h"

struct rd_sim;

struct rd_sim_opts {
	uint64_t seed;
	uint64_t start_ns;   /* the time at the beginning */
	uint64_t latency_ns; /* a message takes at least this long, */
	uint64_t jitter_ns;  /* and up to so much more */
	/* May be NULL. Called for each message of the network that arrives, with a line of text
	 * that has no addresses in it, so that runs can be compared. */
	void (*trace)(void *arg, const char *line);
	void *trace_arg;
};

/* Returns 0 or -ENOMEM. */
int rd_sim_create(const struct rd_sim_opts *opts, struct rd_sim **out);
/* The fabrics must be closed. Events that are armed are dropped. NULL is allowed. */
void rd_sim_destroy(struct rd_sim **sim);

/* The clock for rd_loop_opts.clock of the loops. Lives as long as the simulation. */
const struct rd_clock *rd_sim_clock(const struct rd_sim *sim);
uint64_t rd_sim_now(const struct rd_sim *sim);
uint64_t rd_sim_random(struct rd_sim *sim);
/* A random number below @n, or 0 if @n is 0. */
uint64_t rd_sim_below(struct rd_sim *sim, uint64_t n);
/* True in @num of @den cases. */
bool rd_sim_chance(struct rd_sim *sim, uint64_t num, uint64_t den);

/* Calls opts.trace with a line of text. */
void rd_sim_tell(struct rd_sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- events ---- */

/* Zero-initialized except for @fn: not armed. Embedded in the caller's object, which must exist
 * while the event is armed. */
struct rd_sim_event {
	void (*fn)(struct rd_sim_event *event);
	uint64_t when; /* ns */
	uint64_t seq;  /* events of the same time run in the order in which they were armed */
	size_t slot;   /* 1-based position in the heap; 0: not armed */
};

/* Runs the event once, @delay_ns from now; instead of before if it is armed. Returns 0 or -ENOMEM.
 */
int rd_sim_at(struct rd_sim *sim, struct rd_sim_event *event, uint64_t delay_ns);
void rd_sim_cancel(struct rd_sim *sim, struct rd_sim_event *event); /* idempotent */
uint64_t rd_sim_next(const struct rd_sim *sim); /* time of the next event; UINT64_MAX: none */
void rd_sim_advance(struct rd_sim *sim, uint64_t to_ns); /* no-op if that time is over */
/* Runs the events that are due. Returns how many. */
unsigned int rd_sim_run(struct rd_sim *sim);

/* ---- the fabric ---- */

/*
 * Opens a fabric on @loop, whose clock is that of a simulation; has the type of
 * rd_fab_iwarp_open(), in whose place it is used. @opts is ignored. Returns 0 or -ENOMEM.
 */
int rd_sim_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts, struct rd_fab **out);

/* ---- faults ---- */

/* What happens to a connection that was chosen by rd_sim_links(). */
enum rd_sim_fault {
	/* Both ends learn soon, but not at the same time, that the connection is lost. */
	RD_SIM_CUT,
	/* One end learns it soon, the other one only when its peer timeout is over. */
	RD_SIM_HALF_OPEN,
	/* Messages of one direction, or of both, wait for the given time. */
	RD_SIM_HOLD_TO_ACTIVE,
	RD_SIM_HOLD_TO_PASSIVE,
	RD_SIM_HOLD,
	/* One bit of the next bytes of one direction is wrong when they arrive. Only for a stream
	 * behind its first PDU; others are cut. */
	RD_SIM_CORRUPT,
};

/* Connections that exist, of which both ends are, or were, established. */
unsigned int rd_sim_links(const struct rd_sim *sim);
/* @n: below rd_sim_links(). @ns: how long the fault lasts. */
void rd_sim_break(struct rd_sim *sim, unsigned int n, enum rd_sim_fault fault, uint64_t ns);
/* All connections to @port of a host with the address @from are lost, of which only the host learns
 * soon. */
void rd_sim_lose_path(struct rd_sim *sim, const struct sockaddr *from, uint16_t port);
/*
 * All messages wait for @ns that a host with the address @from sends by connections to @port, and
 * (@both) those that it receives.
 */
void rd_sim_hold_path(struct rd_sim *sim, const struct sockaddr *from, uint16_t port, bool both,
		      uint64_t ns);
/* Connection requests to @port are lost (@down), or arrive again. */
void rd_sim_port_down(struct rd_sim *sim, uint16_t port, bool down);
/* The passive ends of all connections to @port (0: of all connections) vanish: the active ends
 * learn it soon. */
void rd_sim_kill(struct rd_sim *sim, uint16_t port);
/* When the last active end learns that its connection is lost, of those that do not know it yet. 0:
 * all know it. */
uint64_t rd_sim_learns(const struct rd_sim *sim);
/* Ends all holds, and has every port answer. */
void rd_sim_heal(struct rd_sim *sim);

/* What went wrong on the network although both ends are ours. Counted since the beginning. */
struct rd_sim_errors {
	uint64_t access;  /* a peer used a key or an address that was not valid */
	uint64_t no_recv; /* a message found no RECV */
	uint64_t length;  /* a message was longer than its RECV */
};
const struct rd_sim_errors *rd_sim_errors(const struct rd_sim *sim);
/* Connections, completion queues and memory regions that existed when their fabric was closed, and
 * sockets that are open. */
unsigned int rd_sim_leaked(const struct rd_sim *sim);

#endif /* SIMFABRIC_SIM_H */
