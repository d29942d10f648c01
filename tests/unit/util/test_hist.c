/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/hist.h"

static struct rd_hist *make(void)
{
	struct rd_hist *h = calloc(1, sizeof(*h));

	CU_ASSERT_PTR_NOT_NULL_FATAL(h);
	return h;
}

static void hist_fill(struct rd_hist *h, uint64_t from, uint64_t to)
{
	while (from <= to)
		rd_hist_add(h, from++);
}

static void an_empty_one_has_zeroes(void)
{
	struct rd_hist *h T_FREE = make();

	CU_ASSERT_EQUAL(rd_hist_min(h), 0);
	CU_ASSERT_EQUAL(h->max, 0);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 50), 0);
	CU_ASSERT_EQUAL(rd_hist_mean(h), 0);
	CU_ASSERT_EQUAL(rd_hist_variance(h), 0);
}

static void buckets_follow_each_other(void)
{
	unsigned int last = 0;

	for (uint64_t v = 1; v < 1 << 20; v++) {
		unsigned int index = rd_hist_index(v);

		if (index != last && index != last + 1)
			CU_FAIL("a bucket was left out");
		last = index;
	}
	CU_ASSERT_EQUAL(rd_hist_index(0), 0);
	CU_ASSERT_EQUAL(rd_hist_index((UINT64_C(1) << RD_HIST_VALUE_BITS) - 1),
			RD_HIST_BUCKETS - 1);
	CU_ASSERT_EQUAL(rd_hist_index(UINT64_C(1) << RD_HIST_VALUE_BITS), RD_HIST_BUCKETS - 1);
	CU_ASSERT_EQUAL(rd_hist_index(UINT64_MAX), RD_HIST_BUCKETS - 1);
}

/* A single value in a histogram with a far larger one: the median is the end of its bucket. */
static void a_value_is_known_to_one_part_in_64(void)
{
	for (uint64_t v = 1; v < UINT64_C(1) << 39; v += 1 + v / 37) {
		struct rd_hist *h = make();
		uint64_t found;

		rd_hist_add(h, v);
		rd_hist_add(h, UINT64_C(1) << 41);
		found = rd_hist_percentile(h, 50);
		if (found < v || found - v > v / RD_HIST_SUB)
			CU_FAIL("too far from the value");
		free(h);
	}
}

static void small_values_are_exact(void)
{
	struct rd_hist *h T_FREE = make();

	hist_fill(h, 1, 100);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 0), 1);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 1), 1);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 1.5), 2);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 50), 50);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 99), 99);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 99.9), 100);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 100), 100);
}

static void percentiles_of_many_values(void)
{
	static const double percent[] = {50, 90, 99, 99.9, 99.99};
	struct rd_hist *h T_FREE = make();

	hist_fill(h, 1, 1000000);
	for (size_t i = 0; i < sizeof(percent) / sizeof(percent[0]); i++) {
		double want = percent[i] * 1e4;
		double got = (double)rd_hist_percentile(h, percent[i]);

		CU_ASSERT_TRUE(got >= want && got <= want * (1 + 1.0 / RD_HIST_SUB));
	}
}

static void nothing_is_above_the_largest_value(void)
{
	struct rd_hist *h T_FREE = make();

	rd_hist_add(h, 1000000);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 50), 1000000);
	CU_ASSERT_EQUAL(rd_hist_min(h), 1000000);
	rd_hist_add(h, UINT64_MAX);
	CU_ASSERT_EQUAL(rd_hist_percentile(h, 100), UINT64_MAX);
	CU_ASSERT_EQUAL(h->max, UINT64_MAX);
}

static void mean_and_variance_are_of_the_values(void)
{
	struct rd_hist *h = make();

	hist_fill(h, 1000001, 1000100); /* all in few buckets */
	CU_ASSERT_DOUBLE_EQUAL(rd_hist_mean(h), 1000050.5, 1e-6);
	CU_ASSERT_DOUBLE_EQUAL(rd_hist_variance(h), (100.0 * 100 - 1) / 12, 1e-3);
	free(h);
	h = make();
	for (int i = 0; i < 1000; i++)
		rd_hist_add(h, 123456789);
	CU_ASSERT_DOUBLE_EQUAL(sqrt(rd_hist_variance(h)), 0, 1);
	free(h);
}

static void merging_is_counting_in_one(void)
{
	struct rd_hist *one = make(), *a = make(), *b = make(), *empty = make();

	hist_fill(one, 5, 5000);
	hist_fill(one, 100000, 101000);
	hist_fill(a, 100000, 101000);
	hist_fill(b, 5, 5000);
	rd_hist_merge(a, b);
	rd_hist_merge(a, empty);
	CU_ASSERT_EQUAL(memcmp(one, a, sizeof(*a)), 0);
	rd_hist_merge(empty, one);
	CU_ASSERT_EQUAL(memcmp(one, empty, sizeof(*a)), 0);
	CU_ASSERT_EQUAL(rd_hist_min(empty), 5);
	free(one);
	free(a);
	free(b);
	free(empty);
}

const struct t_case t_hist_cases[] = {
	{"an empty one has zeroes", an_empty_one_has_zeroes},
	{"buckets follow each other", buckets_follow_each_other},
	{"a value is known to one part in 64", a_value_is_known_to_one_part_in_64},
	{"small values are exact", small_values_are_exact},
	{"percentiles of many values", percentiles_of_many_values},
	{"nothing is above the largest value", nothing_is_above_the_largest_value},
	{"mean and variance are of the values", mean_and_variance_are_of_the_values},
	{"merging is counting in one", merging_is_counting_in_one},
	{NULL, NULL},
};
