/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/hist.h"

void rd_hist_merge(struct rd_hist *h, const struct rd_hist *from)
{
	unsigned int i;

	if (!from->count)
		return;
	h->count += from->count;
	h->sum += from->sum;
	h->sum2 += from->sum2;
	if (from->not_min > h->not_min)
		h->not_min = from->not_min;
	if (from->max > h->max)
		h->max = from->max;
	for (i = 0; i < RD_HIST_BUCKETS; i++)
		h->bucket[i] += from->bucket[i];
}

/* The largest value that falls into bucket @index. */
static uint64_t upper_end(unsigned int index)
{
	unsigned int shift = index >> RD_HIST_SUB_BITS;

	if (shift < 2) /* one value each */
		return index;
	shift--;
	return (((uint64_t)(index - (shift << RD_HIST_SUB_BITS)) + 1) << shift) - 1;
}

uint64_t rd_hist_percentile(const struct rd_hist *h, double percent)
{
	double want = (double)h->count * percent / 100;
	uint64_t seen = 0, value;
	unsigned int i;

	if (!h->count)
		return 0;
	for (i = 0; i < RD_HIST_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		/* 99.9 percent of 1000 is a little more than 999 in binary. */
		if (seen && (double)seen + 1e-6 >= want)
			break;
	}
	/* The last bucket has no upper end. */
	value = i == RD_HIST_BUCKETS - 1 ? h->max : upper_end(i);
	return value < h->max ? value : h->max;
}

double rd_hist_mean(const struct rd_hist *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0;
}

double rd_hist_variance(const struct rd_hist *h)
{
	long double mean, variance;

	if (!h->count)
		return 0;
	mean = (long double)h->sum / (long double)h->count;
	variance = (long double)h->sum2 / (long double)h->count - mean * mean;
	return variance > 0 ? (double)variance : 0; /* rounding, when all values are equal */
}
