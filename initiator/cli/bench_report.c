/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the results of `rdinit bench` as text and JSON. */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "util/parse.h"

struct totals {
	struct rd_hist all, dir[2]; /* together; reads, writes */
	double elapsed; /* seconds, from the start of the first thread to the end of the last one */
	double user, system;
	long voluntary, involuntary;
	uint64_t batches;
};

static const struct {
	const char *name;
	double percent;
} percentiles[] = {{"50", 50}, {"90", 90}, {"99", 99}, {"99.9", 99.9}, {"99.99", 99.99}};

#define N_PERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

static double seconds(const struct timeval *from, const struct timeval *to)
{
	return (double)(to->tv_sec - from->tv_sec) + (double)(to->tv_usec - from->tv_usec) / 1e6;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void add_up(const struct bench *b, struct totals *sum)
{
	uint64_t first = UINT64_MAX, last = 0;
	unsigned int i;

	for (i = 0; i < b->n_threads; i++) {
		const struct bench_thread *t = &b->threads[i];
		const struct rusage *u = t->usage;

		rd_hist_merge(&sum->dir[0], &t->measured[0]);
		rd_hist_merge(&sum->dir[1], &t->measured[1]);
		first = t->started < first ? t->started : first;
		last = t->ended > last ? t->ended : last;
		sum->user += seconds(&u[0].ru_utime, &u[1].ru_utime);
		sum->system += seconds(&u[0].ru_stime, &u[1].ru_stime);
		sum->voluntary += u[1].ru_nvcsw - u[0].ru_nvcsw;
		sum->involuntary += u[1].ru_nivcsw - u[0].ru_nivcsw;
		sum->batches += t->batches;
	}
	rd_hist_merge(&sum->all, &sum->dir[0]);
	rd_hist_merge(&sum->all, &sum->dir[1]);
	sum->elapsed = last > first ? (double)(last - first) / 1e9 : 0;
}

/* ---- JSON ---- */

static json_t *json_latency(const struct rd_hist *h)
{
	json_t *points = json_object();
	size_t i;

	for (i = 0; i < N_PERCENTILES; i++)
		json_object_set_new(
			points, percentiles[i].name,
			json_integer((json_int_t)rd_hist_percentile(h, percentiles[i].percent)));
	return json_pack("{s:f, s:f, s:I, s:I, s:o}", "mean", rd_hist_mean(h), "stddev",
			 sqrt(rd_hist_variance(h)), "min", (json_int_t)rd_hist_min(h), "max",
			 (json_int_t)h->max, "percentiles", points);
}

static json_t *json_rates(const struct bench *b, const struct totals *sum, const struct rd_hist *h)
{
	uint64_t bytes = h->count * b->o->bench.block_size;

	return json_pack("{s:I, s:I, s:f, s:f, s:o}", "ios", (json_int_t)h->count, "bytes",
			 (json_int_t)bytes, "iops", ratio((double)h->count, sum->elapsed),
			 "bytes_per_second", ratio((double)bytes, sum->elapsed), "latency_ns",
			 json_latency(h));
}

static const char *poll_text(const struct cli_bench_options *o)
{
	return o->spin_ns == UINT64_MAX ? "always" : o->spin_ns ? "adaptive" : "never";
}

static json_t *json_options(const struct bench *b)
{
	const struct cli_bench_options *o = &b->o->bench;
	uint32_t bs = b->session.ns.block_size;

	return json_pack(
		"{s:s, s:i, s:I, s:i, s:b, s:i, s:i, s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:I}", "rw",
		o->rw, "read_percent", (int)o->read_percent, "block_size",
		(json_int_t)o->block_size, "depth", (int)o->depth, "device", (int)o->device,
		"queues", (int)b->n_queues, "threads", (int)b->n_threads, "poll", poll_text(o),
		"poll_ns", (json_int_t)(o->spin_ns == UINT64_MAX ? 0 : o->spin_ns), "run_seconds",
		o->run_ns == UINT64_MAX ? 0 : (double)o->run_ns / 1e9, "ramp_seconds",
		(double)o->ramp_ns / 1e9, "io_count", (json_int_t)o->io_count, "seed",
		(json_int_t)o->seed, "start", (json_int_t)(b->start * bs), "length",
		(json_int_t)(b->units * o->block_size));
}

static json_t *json_cpu(const struct totals *sum)
{
	double cpu = sum->user + sum->system;

	return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I}", "user_seconds", sum->user,
			 "system_seconds", sum->system, "ns_per_io",
			 ratio(cpu * 1e9, (double)sum->all.count), "utilization",
			 ratio(cpu, sum->elapsed), "voluntary_switches", (json_int_t)sum->voluntary,
			 "involuntary_switches", (json_int_t)sum->involuntary);
}

static json_t *json_report(const struct bench *b, const struct totals *sum)
{
	const struct cli_session *s = &b->session;
	json_t *json = json_pack("{s:s, s:s, s:s, s:I, s:o, s:b, s:f}", "operation", "bench",
				 "address", s->info.address, "provider", s->info.provider, "nsid",
				 (json_int_t)s->ns.nsid, "options", json_options(b), "interrupted",
				 b->interrupt.signo != 0, "elapsed_seconds", sum->elapsed);
	json_t *rates = json_rates(b, sum, &sum->all);

	if (!json || !rates || json_object_update(json, rates) ||
	    json_object_set_new(json, "read", json_rates(b, sum, &sum->dir[0])) ||
	    json_object_set_new(json, "write", json_rates(b, sum, &sum->dir[1])) ||
	    json_object_set_new(json, "cpu", json_cpu(sum)) ||
	    json_object_set_new(json, "batches", json_integer((json_int_t)sum->batches)) ||
	    json_object_set_new(json, "ios_per_batch",
				json_real(ratio((double)sum->all.count, (double)sum->batches)))) {
		json_decref(json);
		json = NULL;
	}
	json_decref(rates);
	return json;
}

/* ---- for people ---- */

static void print_direction(const struct bench *b, const struct totals *sum, const char *name,
			    const struct rd_hist *h)
{
	char rate[RD_SIZE_TEXT];
	double iops = ratio((double)h->count, sum->elapsed);
	size_t i;

	if (!h->count)
		return;
	rd_format_size((uint64_t)(iops * (double)b->o->bench.block_size), rate);
	printf("%-5s: %.0f IOPS, %s/s, %llu I/Os\n", name, iops, rate,
	       (unsigned long long)h->count);
	printf("       latency in us: mean %.1f, stddev %.1f, min %.1f, max %.1f\n",
	       rd_hist_mean(h) / 1e3, sqrt(rd_hist_variance(h)) / 1e3, (double)rd_hist_min(h) / 1e3,
	       (double)h->max / 1e3);
	printf("       percentiles:");
	for (i = 0; i < N_PERCENTILES; i++)
		printf(" %s%% %.1f%s", percentiles[i].name,
		       (double)rd_hist_percentile(h, percentiles[i].percent) / 1e3,
		       i + 1 < N_PERCENTILES ? "," : "\n");
}

static void print_report(const struct bench *b, const struct totals *sum)
{
	const struct cli_bench_options *o = &b->o->bench;
	double cpu = sum->user + sum->system;

	printf("%s, %llu bytes, depth %u, %u queue%s%s, %u thread%s: %s (%s), namespace %u, "
	       "%.3f s%s\n",
	       o->rw, (unsigned long long)o->block_size, o->depth, b->n_queues,
	       b->n_queues == 1 ? "" : "s", o->device ? " of a device" : "", b->n_threads,
	       b->n_threads == 1 ? "" : "s", b->session.info.address, b->session.info.provider,
	       b->session.ns.nsid, sum->elapsed, b->interrupt.signo ? ", interrupted" : "");
	if (!sum->all.count)
		printf("no I/O completed in that time\n");
	print_direction(b, sum, "read", &sum->dir[0]);
	print_direction(b, sum, "write", &sum->dir[1]);
	printf("cpu  : %.2f us per I/O (%.0f %% user, %.0f %% system), %.1f I/Os at a time\n",
	       ratio(cpu * 1e6, (double)sum->all.count), ratio(sum->user * 100, sum->elapsed),
	       ratio(sum->system * 100, sum->elapsed),
	       ratio((double)sum->all.count, (double)sum->batches));
}

int bench_report(const struct bench *b)
{
	struct totals *sum = calloc(1, sizeof(*sum));
	int rc;

	if (!sum)
		return cli_error("out of memory");
	add_up(b, sum);
	if (b->o->format == CLI_JSON) {
		rc = cli_print_json(json_report(b, sum), stdout);
	} else {
		print_report(b, sum);
		rc = cli_finish_output();
	}
	free(sum);
	return rc;
}
