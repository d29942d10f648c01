/* SPDX-License-Identifier: BSD-3-Clause */
#include "qos.h"

#include <stddef.h>

void rdt_qos_set(struct rdt_qos *q, const struct rdt_qos_config *cfg)
{
	bool any = false;

	for (int i = 0; i < RDT_QOS_LIMITS; i++) {
		uint64_t rate = cfg ? cfg->limits[i] : 0;

		any |= rate != 0;
		if (atomic_exchange(&q->buckets[i].rate, rate) != rate)
			/* The previous value was computed with another rate. */
			atomic_store(&q->buckets[i].paid, 0);
	}
	atomic_fetch_add(&q->changes, 1);
	atomic_store(&q->active, any);
}

static uint64_t bucket_take(struct rdt_qos_bucket *b, uint64_t units, uint64_t now)
{
	uint64_t rate = atomic_load_explicit(&b->rate, memory_order_relaxed);
	uint64_t paid = atomic_load_explicit(&b->paid, memory_order_relaxed);
	uint64_t oldest = now > RDT_QOS_BURST ? now - RDT_QOS_BURST : 0;
	uint64_t cost, start;

	if (!rate || !units)
		return 0;
	/* Fits into 64 bits: 8 MiB at 1 byte/s is 2^53 ns. */
	cost = (units * RD_NSEC_PER_SEC + rate - 1) / rate;
	do
		start = paid > oldest ? paid : oldest;
	while (!atomic_compare_exchange_weak_explicit(&b->paid, &paid, start + cost,
						      memory_order_relaxed, memory_order_relaxed));
	return start;
}

uint64_t rdt_qos_take(struct rdt_qos *q, const struct rdt_qos_price *price, uint64_t now)
{
	const struct {
		enum rdt_qos_limit all, own;
		uint64_t units;
	} rows[] = {
		{RDT_QOS_IOPS, price->write ? RDT_QOS_WRITE_IOPS : RDT_QOS_READ_IOPS, price->ops},
		{RDT_QOS_BYTES, price->write ? RDT_QOS_WRITE_BYTES : RDT_QOS_READ_BYTES,
		 price->bytes},
	};
	uint64_t start = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t a = bucket_take(&q->buckets[rows[i].all], rows[i].units, now);
		uint64_t b = bucket_take(&q->buckets[rows[i].own], rows[i].units, now);

		start = a > start ? a : start;
		start = b > start ? b : start;
	}
	return start;
}
