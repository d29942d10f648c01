/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rate limits in commands and bytes per second, shared by all reactors without a lock.
 *
 * GCRA (virtual scheduling): each limit stores the theoretical arrival time of the next command. A
 * command advances it by its cost and may start at the previous value, so reactors get start times
 * in order and exactly at the rate. Unused time is credited up to RDT_QOS_BURST.
 */
#ifndef RDT_QOS_H
#define RDT_QOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/loop.h"
#include "target/config/config.h"

/* A busy machine may delay a reactor by up to this time without loss of throughput. */
#define RDT_QOS_BURST (50 * RD_NSEC_PER_MSEC)

struct rdt_qos_bucket {
	_Atomic uint64_t rate; /* per second; 0: no limit */
	_Atomic uint64_t paid; /* theoretical arrival time, in ns */
};

struct rdt_qos {
	atomic_bool active;  /* a limit is set; the only field read when there is none */
	atomic_uint changes; /* incremented when limits are set */
	struct rdt_qos_bucket buckets[RDT_QOS_LIMITS];
};

/* The cost of a command. */
struct rdt_qos_price {
	bool write; /* false: a read */
	uint32_t ops;
	uint64_t bytes;
};

/* Set the limits; NULL: none. Any thread. Commands in flight are not affected. */
void rdt_qos_set(struct rdt_qos *q, const struct rdt_qos_config *cfg);
/* Reserve a start time. Returns the time from which the command may run: at once if that is not
 * after @now. */
uint64_t rdt_qos_take(struct rdt_qos *q, const struct rdt_qos_price *price, uint64_t now);

#endif /* RDT_QOS_H */
