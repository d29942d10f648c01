/* SPDX-License-Identifier: BSD-3-Clause */
/* The history of a target's totals, by a clock of the test's own. */
#include <stdlib.h>

#include "t_target.h"
#include "target/manage/figures/history.h"

#define MS RD_NSEC_PER_MSEC

struct t_history {
	struct t_pair p;
	struct rdt_history *h;
};

static void t_history_open(struct t_history *t)
{
	t->p = t_pair_new();
	t->h = rdt_history_new(t->p.env->t);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t->h);
	rdt_history_start(t->h);
}

static void t_history_close(struct t_history *t)
{
	rdt_history_free(&t->h);
	t_pair_free(&t->p);
}

/* As reactor @r does for @n commands of 4 KiB that took @ns each. */
static void count(struct t_history *t, unsigned int r, enum rdt_io_op op, unsigned int n,
		  uint64_t ns)
{
	struct rdt_op_stats *stats = &t->p.env->t->reactors[r].totals.op[op];

	rdt_count(&stats->bytes, (uint64_t)n * 4096);
	rdt_count(&stats->ns, n * ns);
	rdt_count(&stats->bucket[rdt_lat_index(ns)], n);
}

static json_t *history_now(const struct t_history *t)
{
	struct rdt_history_copy *copy = rdt_history_copy(t->h);
	json_t *o;

	CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
	o = rdt_history_json(copy);
	free(copy);
	return o;
}

/* @from_end: 0 is the newest second. -1: null. */
static long long value(const json_t *o, const char *list, size_t from_end)
{
	const json_t *l = json_object_get(o, list);

	CU_ASSERT_FATAL(from_end < json_array_size(l));
	l = json_array_get(l, json_array_size(l) - 1 - from_end);
	return json_is_null(l) ? -1 : json_integer_value(l);
}

static size_t seconds(const json_t *o)
{
	return json_array_size(json_object_get(o, "reads"));
}

static void each_second_has_what_ended_in_it(void)
{
	struct t_history t;
	json_t *o;

	t_history_open(&t);
	count(&t, 0, RDT_IO_READ, 30, MS);
	count(&t, 1, RDT_IO_READ, 10, MS);
	count(&t, 1, RDT_IO_WRITE, 5, 2 * MS);
	count(&t, 0, RDT_IO_FLUSH, 1, 10 * MS);
	rdt_count(&t.p.env->t->reactors[1].totals.failed, 3);
	t_advance(t.p.env, RD_NSEC_PER_SEC);
	t_advance(t.p.env, RD_NSEC_PER_SEC / 2); /* in the middle of the next one */
	o = history_now(&t);
	CU_ASSERT_EQUAL(seconds(o), 1);
	CU_ASSERT_EQUAL(value(o, "reads", 0), 40);
	CU_ASSERT_EQUAL(value(o, "writes", 0), 5);
	CU_ASSERT_EQUAL(value(o, "read_bytes", 0), 40 * 4096);
	CU_ASSERT_EQUAL(value(o, "written_bytes", 0), 5 * 4096);
	CU_ASSERT_EQUAL(value(o, "failed", 0), 3);
	CU_ASSERT_EQUAL(value(o, "latency_ns", 0), (long long)(60 * MS));
	CU_ASSERT_EQUAL(value(o, "p50_ns", 0), (long long)rdt_lat_end(rdt_lat_index(MS)));
	CU_ASSERT_EQUAL(value(o, "p99_ns", 0), (long long)rdt_lat_end(rdt_lat_index(2 * MS)));
	json_decref(o);
	count(&t, 0, RDT_IO_WRITE, 7, MS);
	t_advance(t.p.env, RD_NSEC_PER_SEC / 2);
	o = history_now(&t);
	CU_ASSERT_EQUAL(seconds(o), 2);
	CU_ASSERT_EQUAL(value(o, "reads", 0), 0);
	CU_ASSERT_EQUAL(value(o, "writes", 0), 7);
	CU_ASSERT_EQUAL(value(o, "reads", 1), 40);
	json_decref(o);
	t_history_close(&t);
}

static void percentiles_are_those_of_ten_seconds(void)
{
	struct t_history t;
	json_t *o;

	t_history_open(&t);
	count(&t, 0, RDT_IO_READ, 1, 4 * MS);
	for (unsigned int i = 0; i <= RDT_HISTORY_WINDOW; i++)
		t_advance(t.p.env, RD_NSEC_PER_SEC);
	o = history_now(&t);
	CU_ASSERT_EQUAL(value(o, "p50_ns", 0), -1); /* none: not 0 ns */
	for (size_t i = 1; i <= RDT_HISTORY_WINDOW; i++)
		CU_ASSERT_EQUAL(value(o, "p50_ns", i),
				(long long)rdt_lat_end(rdt_lat_index(4 * MS)));
	json_decref(o);
	t_history_close(&t);
}

/* The main loop came late: no command is lost, and none is invented. */
static void late_samples_share_what_ended(void)
{
	static const long long want[] = {3, 2, 2};
	struct t_history t;
	json_t *o;

	t_history_open(&t);
	count(&t, 0, RDT_IO_READ, 7, MS);
	t_advance(t.p.env, 3 * RD_NSEC_PER_SEC + 400 * MS);
	o = history_now(&t);
	CU_ASSERT_EQUAL_FATAL(seconds(o), 3);
	for (size_t i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(value(o, "reads", i), want[i]);
	json_decref(o);
	t_advance(t.p.env, 600 * MS); /* seconds end when they would have */
	o = history_now(&t);
	CU_ASSERT_EQUAL(seconds(o), 4);
	json_decref(o);
	t_advance(t.p.env, 3 * 86400 * RD_NSEC_PER_SEC);
	o = history_now(&t);
	CU_ASSERT_EQUAL(seconds(o), RDT_HISTORY_SECONDS);
	json_decref(o);
	t_history_close(&t);
}

static void ten_minutes_are_kept_the_oldest_first(void)
{
	struct t_history t;
	json_t *o;

	t_history_open(&t);
	for (unsigned int i = 1; i <= RDT_HISTORY_SECONDS + 10; i++) {
		count(&t, 0, RDT_IO_WRITE, i, MS);
		t_advance(t.p.env, RD_NSEC_PER_SEC);
	}
	o = history_now(&t);
	CU_ASSERT_EQUAL_FATAL(seconds(o), RDT_HISTORY_SECONDS);
	CU_ASSERT_EQUAL(value(o, "writes", 0), RDT_HISTORY_SECONDS + 10);
	CU_ASSERT_EQUAL(value(o, "writes", RDT_HISTORY_SECONDS - 1), 11);
	json_decref(o);
	rdt_history_stop(t.h);
	rdt_history_start(t.h);
	o = history_now(&t);
	CU_ASSERT_EQUAL(seconds(o), 0);
	json_decref(o);
	t_history_close(&t);
}

static void a_sample_wakes_no_reactor(void)
{
	struct t_history t;
	struct rdt_target *target;
	uint64_t at;

	t_history_open(&t);
	target = t.p.env->t;
	at = rd_loop_next(target->loop);
	CU_ASSERT_TRUE(at <= t.p.env->now + RD_NSEC_PER_SEC);
	t.p.env->still[0] = t.p.env->still[1] = true; /* a message would stay in its loop */
	t_advance(t.p.env, RD_NSEC_PER_SEC);
	for (unsigned int i = 0; i < target->reactors_count; i++)
		CU_ASSERT_TRUE(rd_loop_next(target->reactors[i].loop) > t.p.env->now);
	t.p.env->still[0] = t.p.env->still[1] = false;
	t_history_close(&t);
}

const struct t_case t_history_cases[] = {
	{"each second has what ended in it", each_second_has_what_ended_in_it},
	{"percentiles are those of ten seconds", percentiles_are_those_of_ten_seconds},
	{"late samples share what ended", late_samples_share_what_ended},
	{"ten minutes are kept, the oldest first", ten_minutes_are_kept_the_oldest_first},
	{"a sample wakes no reactor", a_sample_wakes_no_reactor},
	{NULL, NULL},
};
