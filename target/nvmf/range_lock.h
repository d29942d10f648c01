/* SPDX-License-Identifier: BSD-3-Clause */
/* Per-block state of a namespace: ranges locked by commands, and uncorrectable blocks. The
 * functions for I/O commands are declared in io.h. */
#ifndef RDT_RANGE_LOCK_H
#define RDT_RANGE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

struct rdt_ns;
struct rdt_range_post;

/* Blocks [from, to) of a namespace. */
struct rdt_span {
	uint64_t from;
	uint64_t to;
	bool excl;
};

enum rdt_range_state {
	RDT_RANGE_NONE,
	RDT_RANGE_COUNTED, /* in channel->unranged: this namespace has no table yet */
	RDT_RANGE_WAITING, /* in table->waiting. range_granted_msg() -> LOCKED */
	RDT_RANGE_LOCKED,  /* in table->locked */
};

/* An I/O command's lock on block ranges, embedded in the request. */
struct rdt_range_lock {
	uint8_t state; /* enum rdt_range_state */
	uint8_t count; /* of @spans; 2: Copy, whose ranges are the source and the destination */
	bool fused;
	bool granted;   /* it is in table->locked; guarded by table->lock */
	uint32_t ahead; /* for how many ranges it waits in table->waiting; guarded likewise */
	struct rdt_span spans[2];
	struct rd_msg msg; /* posted to the request's reactor when granted */
	TAILQ_ENTRY(rdt_range_lock) link;
};

/* The range locks of a namespace; in use after the first fused command. */
struct rdt_range_table {
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdt_range_lock) locked;
	TAILQ_HEAD(, rdt_range_lock) waiting;
	struct rdt_range_post *posts; /* [reactors_count]; NULL until the first fused command */
	unsigned int missing;         /* number of reactors that have not replied */
	bool on;                      /* in use: every reactor has replied */
};

/* The blocks of Write Uncorrectable commands: disjoint spans, sorted. */
struct rdt_uncor {
	pthread_mutex_t lock;
	atomic_uint count; /* read without the lock */
	unsigned int size;
	struct rdt_span *spans;
};

/* range_lock.c, uncorrectable.c */
void rdt_range_init(struct rdt_ns *ns);
void rdt_range_fini(struct rdt_ns *ns);
void rdt_uncor_init(struct rdt_ns *ns);
void rdt_uncor_fini(struct rdt_ns *ns);

#endif /* RDT_RANGE_LOCK_H */
