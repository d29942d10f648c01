/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A histogram of times, or other unsigned values, in fixed memory. Each power of two is divided
 * into RD_HIST_SUB buckets of equal width, so that every value is known to one part in RD_HIST_SUB
 * (1.6 %). Counting a value costs a dozen instructions. No locks: one writer, and readers on its
 * thread or after it has stopped; histograms of several threads are merged. Counters of other
 * widths, or that others read, have the same buckets, with other sub_bits.
 */
#ifndef RD_UTIL_HIST_H
#define RD_UTIL_HIST_H

#include <stdint.h>

#define RD_HIST_SUB_BITS   6
#define RD_HIST_SUB        (1u << RD_HIST_SUB_BITS)
#define RD_HIST_VALUE_BITS 40 /* 18 minutes in ns; larger values share the last bucket */
#define RD_HIST_BUCKETS    ((RD_HIST_VALUE_BITS - RD_HIST_SUB_BITS + 1) << RD_HIST_SUB_BITS)

/* Zero-initialized: an empty histogram. */
struct rd_hist {
	uint64_t count;
	uint64_t sum;           /* exact */
	unsigned __int128 sum2; /* sum of the squares, exact */
	uint64_t not_min;       /* the complement of the smallest value: 0 means no value */
	uint64_t max;
	uint64_t bucket[RD_HIST_BUCKETS];
};

/* The bucket of the value. Values below 2 << sub_bits have a bucket each. */
static inline unsigned int rd_hist_bucket(uint64_t value, unsigned int sub_bits)
{
	unsigned int shift =
		63u - sub_bits - (unsigned int)__builtin_clzll(value | (UINT64_C(1) << sub_bits));

	return (shift << sub_bits) + (unsigned int)(value >> shift);
}

/* The first value that is beyond the bucket. */
static inline uint64_t rd_hist_end(unsigned int bucket, unsigned int sub_bits)
{
	unsigned int shift = bucket >> sub_bits;

	if (shift < 2)
		return bucket + 1;
	return ((uint64_t)bucket - ((shift - 1) << sub_bits) + 1) << (shift - 1);
}

/* The bucket of the value that @percent of @count values do not exceed; @n if it has none. */
unsigned int rd_hist_find(const uint64_t *buckets, unsigned int n, uint64_t count, double percent);

static inline unsigned int rd_hist_index(uint64_t value)
{
	return value >> RD_HIST_VALUE_BITS ? RD_HIST_BUCKETS - 1
					   : rd_hist_bucket(value, RD_HIST_SUB_BITS);
}

static inline void rd_hist_add(struct rd_hist *h, uint64_t value)
{
	h->count++;
	h->sum += value;
	h->sum2 += (unsigned __int128)value * value;
	if (~value > h->not_min)
		h->not_min = ~value;
	if (value > h->max)
		h->max = value;
	h->bucket[rd_hist_index(value)]++;
}

/* Adds the counts of @from to @h. */
void rd_hist_merge(struct rd_hist *h, const struct rd_hist *from);

/*
 * The value that @percent of all values do not exceed: the upper end of a bucket, so at most one
 * part in RD_HIST_SUB too large, and never above the largest value. 0 if empty.
 */
uint64_t rd_hist_percentile(const struct rd_hist *h, double percent);

/* Of the exact values, not of their buckets. 0 if empty. */
double rd_hist_mean(const struct rd_hist *h);
double rd_hist_variance(const struct rd_hist *h);

static inline uint64_t rd_hist_min(const struct rd_hist *h)
{
	return h->count ? ~h->not_min : 0;
}

#endif /* RD_UTIL_HIST_H */
