/* SPDX-License-Identifier: BSD-3-Clause */
#include "history.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/nvmf/target.h"
#include "stats.h"

#define EVERY RD_NSEC_PER_SEC

/* One second: increments of counters, and percentiles over RDT_HISTORY_WINDOW seconds. */
struct history_sample {
	uint64_t reads;
	uint64_t writes;
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t failed;
	uint64_t latency_ns; /* sum over all completed commands */
	uint64_t p50_ns;     /* of reads and writes, also the fields below; 0: none completed */
	uint64_t p99_ns;
	uint64_t p999_ns;
};

struct rdt_history_copy {
	unsigned int count;
	struct history_sample samples[]; /* oldest first */
};

/* Totals of all reactors since the start. */
struct history_counters {
	struct history_sample sum;        /* without percentiles */
	uint64_t bucket[RDT_LAT_BUCKETS]; /* of reads and writes */
};

struct rdt_history {
	struct rdt_target *target;
	struct rd_timer timer;
	bool running;
	uint64_t due;       /* ns: end of the current second */
	unsigned int count; /* samples, up to RDT_HISTORY_SECONDS */
	unsigned int next; /* index of the next sample; once the array is full, of the oldest one */
	struct history_sample samples[RDT_HISTORY_SECONDS];
	/* The counters at the end of each second of the window; @before is the index of the last
	 * one. */
	struct history_counters window[RDT_HISTORY_WINDOW + 1];
	unsigned int before;
};

/* ---- counters ---- */

static void add_op(struct history_counters *c, const struct rdt_op_stats *from, bool timed)
{
	c->sum.latency_ns += rdt_counted(&from->ns);
	for (unsigned int i = 0; timed && i < RDT_LAT_BUCKETS; i++)
		c->bucket[i] += rdt_counted(&from->bucket[i]);
}

static uint64_t op_count(const struct rdt_op_stats *from)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		n += rdt_counted(&from->bucket[i]);
	return n;
}

static void read_counters(const struct rdt_target *t, struct history_counters *c)
{
	memset(c, 0, sizeof(*c));
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		const struct rdt_totals *from = &t->reactors[i].totals;

		for (unsigned int op = 0; op < RDT_IO_OPS; op++)
			add_op(c, &from->op[op], op == RDT_IO_READ || op == RDT_IO_WRITE);
		c->sum.reads += op_count(&from->op[RDT_IO_READ]);
		c->sum.writes += op_count(&from->op[RDT_IO_WRITE]);
		c->sum.read_bytes += rdt_counted(&from->op[RDT_IO_READ].bytes);
		c->sum.written_bytes += rdt_counted(&from->op[RDT_IO_WRITE].bytes);
		c->sum.failed += rdt_counted(&from->failed);
	}
}

/* ---- samples ---- */

static void set_percentiles(struct history_sample *s, const struct history_counters *now,
			    const struct history_counters *then)
{
	struct rdt_stats_op op = {0};

	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++) {
		op.bucket[i] = now->bucket[i] - then->bucket[i];
		op.count += op.bucket[i];
	}
	s->p50_ns = rdt_stats_percentile(&op, 50);
	s->p99_ns = rdt_stats_percentile(&op, 99);
	s->p999_ns = rdt_stats_percentile(&op, 99.9);
}

/* Returns one of @seconds shares of the increment and adds it to @then, so that the shares of a
 * late sample add up to the whole. */
static uint64_t history_share(uint64_t now, uint64_t *then, uint64_t seconds)
{
	uint64_t part = (now - *then) / seconds;

	*then += part;
	return part;
}

static struct history_sample difference(const struct history_sample *now,
					struct history_sample *then, uint64_t seconds)
{
	return (struct history_sample){
		.reads = history_share(now->reads, &then->reads, seconds),
		.writes = history_share(now->writes, &then->writes, seconds),
		.read_bytes = history_share(now->read_bytes, &then->read_bytes, seconds),
		.written_bytes = history_share(now->written_bytes, &then->written_bytes, seconds),
		.failed = history_share(now->failed, &then->failed, seconds),
		.latency_ns = history_share(now->latency_ns, &then->latency_ns, seconds),
	};
}

static void history_put(struct rdt_history *h, const struct history_sample *s)
{
	h->samples[h->next] = *s;
	h->next = (h->next + 1) % RDT_HISTORY_SECONDS;
	if (h->count < RDT_HISTORY_SECONDS)
		h->count++;
}

/* If the main loop was late or the machine slept, @seconds is more than 1: each gets the mean. */
static void take_sample(struct rdt_history *h, uint64_t seconds)
{
	struct history_sample then = h->window[h->before].sum, s;
	unsigned int next = (h->before + 1) % (RDT_HISTORY_WINDOW + 1);
	/* The oldest entry that remains in the window. */
	unsigned int oldest = (next + 1) % (RDT_HISTORY_WINDOW + 1);
	struct history_counters *now = &h->window[next];

	read_counters(h->target, now);
	for (; seconds; seconds--) {
		s = difference(&now->sum, &then, seconds);
		set_percentiles(&s, now, &h->window[oldest]);
		history_put(h, &s);
	}
	h->before = next;
}

static void next_sample(struct rdt_history *h)
{
	uint64_t now = rd_loop_now(h->target->loop);

	if (rd_timer_start(h->target->loop, &h->timer, h->due > now ? h->due - now : 1))
		rd_warn(h->target->log, RD_LOG_MAIN,
			"http: out of memory for a timer: the history stops here");
}

static void sample_due(struct rd_timer *timer)
{
	struct rdt_history *h = rd_container_of(timer, struct rdt_history, timer);
	uint64_t now = rd_loop_now(h->target->loop);
	uint64_t seconds = 1 + (now > h->due ? (now - h->due) / EVERY : 0);

	h->due += seconds * EVERY;
	take_sample(h, seconds < RDT_HISTORY_SECONDS ? seconds : RDT_HISTORY_SECONDS);
	next_sample(h);
}

/* ---- beginning and end ---- */

struct rdt_history *rdt_history_new(struct rdt_target *target)
{
	struct rdt_history *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->target = target;
	h->timer.fn = sample_due;
	return h;
}

void rdt_history_start(struct rdt_history *h)
{
	if (h->running)
		return;
	h->running = true;
	h->count = h->next = h->before = 0;
	read_counters(h->target, &h->window[0]);
	for (unsigned int i = 1; i <= RDT_HISTORY_WINDOW; i++)
		h->window[i] = h->window[0];
	h->due = rd_loop_now(h->target->loop) + EVERY;
	next_sample(h);
}

void rdt_history_stop(struct rdt_history *h)
{
	if (!h || !h->running)
		return;
	h->running = false;
	h->count = 0;
	rd_timer_stop(h->target->loop, &h->timer);
}

void rdt_history_free(struct rdt_history **h)
{
	rdt_history_stop(*h);
	free(*h);
	*h = NULL;
}

/* ---- for readers ---- */

struct rdt_history_copy *rdt_history_copy(const struct rdt_history *h)
{
	unsigned int oldest = h->count < RDT_HISTORY_SECONDS ? 0 : h->next;
	unsigned int behind =
		h->count - oldest; /* samples from the oldest one to the end of the array */
	struct rdt_history_copy *copy =
		malloc(sizeof(*copy) + h->count * sizeof(struct history_sample));

	if (!copy)
		return NULL;
	copy->count = h->count;
	memcpy(copy->samples, h->samples + oldest, behind * sizeof(struct history_sample));
	memcpy(copy->samples + behind, h->samples, oldest * sizeof(struct history_sample));
	return copy;
}

json_t *rdt_history_json(const struct rdt_history_copy *copy)
{
	static const struct {
		const char *name;
		size_t offset;
		bool unknown; /* 0 means that no command completed */
	} lists[] = {
		{"reads", offsetof(struct history_sample, reads), false},
		{"writes", offsetof(struct history_sample, writes), false},
		{"read_bytes", offsetof(struct history_sample, read_bytes), false},
		{"written_bytes", offsetof(struct history_sample, written_bytes), false},
		{"failed", offsetof(struct history_sample, failed), false},
		{"latency_ns", offsetof(struct history_sample, latency_ns), false},
		{"p50_ns", offsetof(struct history_sample, p50_ns), true},
		{"p99_ns", offsetof(struct history_sample, p99_ns), true},
		{"p999_ns", offsetof(struct history_sample, p999_ns), true},
	};
	json_t *o = json_object();

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		json_t *list = json_array();

		for (unsigned int j = 0; j < copy->count; j++) {
			const char *sample = (const char *)&copy->samples[j];
			uint64_t n;

			memcpy(&n, sample + lists[i].offset, sizeof(n));
			json_array_append_new(list, lists[i].unknown && !n
							    ? json_null()
							    : json_integer((json_int_t)n));
		}
		json_object_set_new(o, lists[i].name, list);
	}
	return o;
}
