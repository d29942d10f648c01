/* SPDX-License-Identifier: BSD-3-Clause */
#include "req_latency.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"
#include "target.h"

struct rdt_req_latencies {
	/* the last one is for the whole time from NEW to the end */
	struct rd_hist hist[RDT_REQ_STATES + 1];
};

int rdt_timing_init(struct rdt_reactor *r, uint32_t every)
{
	struct rdt_timing *timing = &r->timing;

	*timing = (struct rdt_timing){.every = every, .left = 1, .random = 1 + r->index};
	if (!every)
		return 0;
	/* A calloc() of this size is zeroed lazily: memory is used only where values are
	 * counted. */
	timing->times = calloc(1, sizeof(*timing->times));
	return timing->times ? 0 : -ENOMEM;
}

void rdt_timing_fini(struct rdt_reactor *r)
{
	free(r->timing.times);
	r->timing.times = NULL;
}

/* Returns the number of commands until the next timed one: random, between 1 and twice the average.
 * With a fixed step, a host that always has 32 commands in flight would have the same position of
 * each batch timed. */
static uint32_t next_gap(struct rdt_timing *timing)
{
	uint32_t x = timing->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	timing->random = x;
	return 1 + (uint32_t)((uint64_t)x * (2 * (uint64_t)timing->every - 1) >> 32);
}

void rdt_timing_begin(struct rdt_req *req)
{
	struct rdt_timing *timing = &req->qp->reactor->timing;

	if (!timing->times)
		return; /* wraps after 2^32 commands */
	timing->left = next_gap(timing);
	req->timed = true;
	req->watched = true;
	req->began = req->since = rd_loop_now_raw(req->qp->reactor->loop);
}

void rdt_timing_leave(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;
	uint64_t now = rd_loop_now_raw(r->loop);

	rd_hist_add(&r->timing.times->hist[req->state], now - req->since);
	req->since = now;
	if (req->state != RDT_REQ_DONE && req->state != RDT_REQ_DROPPED)
		return;
	rd_hist_add(&r->timing.times->hist[RDT_REQ_STATES], now - req->began);
	req->timed = false;
}

struct rdt_timing_query *rdt_timing_query_new(struct rdt_target *target)
{
	struct rdt_timing_query *query = calloc(1, sizeof(*query));

	if (!query)
		return NULL;
	query->target = target;
	query->sum = calloc(1, sizeof(*query->sum));
	if (!query->sum)
		rdt_timing_query_free(&query);
	return query;
}

void rdt_timing_query_free(struct rdt_timing_query **query)
{
	if (!*query)
		return;
	free((*query)->sum);
	free(*query);
	*query = NULL;
}

static void merge_hists(struct rdt_timing_query *query, const struct rdt_reactor *r)
{
	if (!r->timing.times)
		return;
	for (unsigned int i = 0; i <= RDT_REQ_STATES; i++)
		rd_hist_merge(&query->sum->hist[i], &r->timing.times->hist[i]);
}

static void query_on_reactor(struct rd_msg *msg);

static void query_on_main(struct rd_msg *msg)
{
	struct rdt_timing_query *query = rd_container_of(msg, struct rdt_timing_query, msg);

	query->done(query);
}

/* Ask the reactors one after the other, so that the sum has one writer at a time. */
static void query_next_reactor(struct rdt_timing_query *query)
{
	struct rdt_target *t = query->target;
	bool left = query->next < t->reactors_count;

	query->msg.fn = left ? query_on_reactor : query_on_main;
	rd_loop_post(left ? t->reactors[query->next].loop : t->loop, &query->msg);
}

static void query_on_reactor(struct rd_msg *msg)
{
	struct rdt_timing_query *query = rd_container_of(msg, struct rdt_timing_query, msg);

	merge_hists(query, &query->target->reactors[query->next++]);
	query_next_reactor(query);
}

void rdt_timing_ask(struct rdt_timing_query *query)
{
	memset(query->sum, 0, sizeof(*query->sum));
	query->next = 0;
	query_next_reactor(query);
}

const struct rd_hist *rdt_timing_hist(const struct rdt_req_latencies *times, unsigned int state)
{
	return &times->hist[state];
}

void rdt_timing_log(const struct rdt_req_latencies *times, struct rd_log *log)
{
	for (unsigned int i = 0; i <= RDT_REQ_STATES; i++) {
		const struct rd_hist *h = &times->hist[i];

		if (!h->count)
			continue;
		rd_notice(log, RD_LOG_MAIN,
			  "status: state=%-12s count=%-8llu mean_seconds=%.7f p50_seconds=%.7f "
			  "p99_seconds=%.7f max_seconds=%.7f",
			  i < RDT_REQ_STATES ? rdt_req_state_name(i) : "total",
			  (unsigned long long)h->count, rd_hist_mean(h) / 1e9,
			  (double)rd_hist_percentile(h, 50) / 1e9,
			  (double)rd_hist_percentile(h, 99) / 1e9, (double)h->max / 1e9);
	}
}

void rdt_timing_log_drained(struct rdt_target *target)
{
	struct rdt_timing_query *query = rdt_timing_query_new(target);

	if (!query)
		return;
	for (unsigned int i = 0; i < target->reactors_count; i++)
		merge_hists(query, &target->reactors[i]);
	rdt_timing_log(query->sum, target->log);
	rdt_timing_query_free(&query);
}
