/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of commands and bytes per second, shared by all reactors without a lock.
 *
 * Each limit keeps one number: the time at which everything that was let go so far is paid for. A
 * command that takes its turn moves it on by its own price, and may go when it has come: so turns
 * are handed out in order, by whichever reactor, and exactly as many as the rate allows. Unused
 * time is worth at most RDT_QOS_BURST.
 */
#ifndef RDT_QOS_H
#define RDT_QOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/loop.h"
#include "target/config/config.h"

/* Longer than a busy machine lets a reactor wait for a processor: such time must not be lost. */
#define RDT_QOS_BURST (50 * RD_NSEC_PER_MSEC)

struct rdt_qos_bucket {
	_Atomic uint64_t rate; /* per second; 0: no limit */
	_Atomic uint64_t paid; /* ns */
};

struct rdt_qos {
	atomic_bool active;  /* any limit is set: the only look when there is none */
	atomic_uint changes; /* how often limits were set */
	struct rdt_qos_bucket buckets[RDT_QOS_LIMITS];
};

/* What a command costs. */
struct rdt_qos_price {
	bool write; /* else a read */
	uint32_t ops;
	uint64_t bytes;
};

/* NULL: no limits. Any thread; commands in flight are not affected. */
void rdt_qos_set(struct rdt_qos *q, const struct rdt_qos_config *cfg);
/* Take a turn. Returns from when on the command may go: at once when that is not after @now. */
uint64_t rdt_qos_take(struct rdt_qos *q, const struct rdt_qos_price *price, uint64_t now);

#endif /* RDT_QOS_H */
