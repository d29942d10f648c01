/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Request latency: how long I/O commands stay in each state (enum rdt_req_state). A reactor times a
 * random sample of its commands from beginning to end, in its own histograms, without locks or
 * atomics. A command that is not timed costs one decrement. The main thread requests the histograms
 * of all reactors by messages.
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
struct rdt_req_latencies; /* a histogram in ns for each state, and for the whole command */

struct rdt_timing {                      /* of one reactor */
	struct rdt_req_latencies *times; /* NULL: timing is off */
	uint32_t every;                  /* one command in this many is timed, on average */
	uint32_t left;                   /* commands until the next one that is timed */
	uint32_t random;
};

int rdt_timing_init(struct rdt_reactor *r, uint32_t every);
void rdt_timing_fini(struct rdt_reactor *r);

/* For timed commands only; the inline parts are in request.[ch]. */
void rdt_timing_begin(struct rdt_req *req); /* in state NEW; also called when timing is off */
void rdt_timing_leave(struct rdt_req *req); /* about to leave its state */

/* ---- main thread ---- */

struct rdt_timing_query {
	struct rdt_target *target;
	unsigned int next; /* the next reactor to ask */
	struct rdt_req_latencies *sum;
	struct rd_msg msg;
	/* Called on the main thread with the sum over all reactors, which is valid until the next
	 * query. */
	void (*done)(struct rdt_timing_query *query);
	void *arg;
};

/* Returns NULL without memory. A query can be repeated, but not before its previous answer. */
struct rdt_timing_query *rdt_timing_query_new(struct rdt_target *target);
/* No query may be in progress, unless the reactors have ended. Accepts NULL. */
void rdt_timing_query_free(struct rdt_timing_query **query);
void rdt_timing_ask(struct rdt_timing_query *query);

/* Returns the histogram of a state (enum rdt_req_state); RDT_REQ_STATES: of the whole time from NEW
 * to the end. */
const struct rd_hist *rdt_timing_hist(const struct rdt_req_latencies *times, unsigned int state);
/* Logs a line "status: state=..." for each state that was measured. */
void rdt_timing_log(const struct rdt_req_latencies *times, struct rd_log *log);
/* Logs the sum without messages, for a drained target whose reactors measure nothing any more. */
void rdt_timing_log_drained(struct rdt_target *target);

#endif /* RDT_REQ_LATENCY_H */
