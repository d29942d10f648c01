/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long I/O commands stay in each state of their way (enum rdt_req_state). Each reactor times
 * one command of so many, chosen at random, from its beginning to its end, and counts in histograms
 * of its own, without locks or atomics; the others cost one decrement each. Whoever wants to see
 * the figures asks all reactors from the main thread, by messages.
 */
#ifndef RDT_REQ_LATENCY_H
#define RDT_REQ_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hist.h"
#include "util/log.h"
#include "util/loop.h"

struct rdt_reactor;
struct rdt_req;
struct rdt_target;
struct rdt_req_latencies; /* a histogram of ns for each state, and of the whole way */

struct rdt_timing {                      /* a reactor's */
	struct rdt_req_latencies *times; /* NULL: nothing is timed */
	uint32_t every;                  /* one command of so many, on average */
	uint32_t left;                   /* commands until the next one */
	uint32_t random;
};

int rdt_timing_init(struct rdt_reactor *r, uint32_t every);
void rdt_timing_fini(struct rdt_reactor *r);

/* The hot path is inline in request.[ch]; these are for commands that are timed. */
void rdt_timing_begin(struct rdt_req *req); /* it is NEW; also: when timing is off */
void rdt_timing_leave(struct rdt_req *req); /* it is about to leave its state */

/* ---- main thread ---- */

struct rdt_timing_query {
	struct rdt_target *target;
	unsigned int next; /* the reactor that has not been asked yet */
	struct rdt_req_latencies *sum;
	struct rd_msg msg;
	/* Called on the main thread with the sum of all reactors; valid until the next question. */
	void (*done)(struct rdt_timing_query *query);
	void *arg;
};

/* Returns NULL without memory. It may ask again and again, but has one question at a time. */
struct rdt_timing_query *rdt_timing_query_new(struct rdt_target *target);
/* Not while a question is on its way, unless the reactors have ended. NULL is fine. */
void rdt_timing_query_free(struct rdt_timing_query **query);
void rdt_timing_ask(struct rdt_timing_query *query);

/* By enum rdt_req_state; RDT_REQ_STATES: from NEW to the end. */
const struct rd_hist *rdt_timing_hist(const struct rdt_req_latencies *times, unsigned int state);
/* One line "status: state=..." for each state in which a command was. */
void rdt_timing_log(const struct rdt_req_latencies *times, struct rd_log *log);
/* At once: of a target that has been drained, whose reactors time nothing any more. */
void rdt_timing_log_drained(struct rdt_target *target);

#endif /* RDT_REQ_LATENCY_H */
