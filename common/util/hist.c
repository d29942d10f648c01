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

unsigned int rd_hist_find(const uint64_t *buckets, unsigned int n, uint64_t count, double percent)
{
	double want = (double)count * percent / 100;
	uint64_t seen = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		seen += buckets[i];
		/* 99.9 percent of 1000 is a little more than 999 in binary. */
		if (seen && (double)seen + 1e-6 >= want)
			break;
	}
	return i;
}

uint64_t rd_hist_percentile(const struct rd_hist *h, double percent)
{
	unsigned int i = rd_hist_find(h->bucket, RD_HIST_BUCKETS - 1, h->count, percent);
	/* The last bucket has no upper end. */
	uint64_t value = i == RD_HIST_BUCKETS - 1 ? h->max : rd_hist_end(i, RD_HIST_SUB_BITS) - 1;

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
