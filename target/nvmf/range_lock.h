/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of a namespace: those that commands keep from each other, and those that are marked as
 * uncorrectable. What I/O commands call is in io.h.
 */
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

enum rdt_hold_state {
	RDT_HOLD_NONE,
	RDT_HOLD_COUNTED, /* in channel->unranged: nobody locks on this namespace */
	RDT_HOLD_WAITING, /* in the namespace's table. A message -> LOCKED */
	RDT_HOLD_LOCKED,
};

/* How an I/O command holds its blocks against others (range_lock.c). */
struct rdt_hold {
	uint8_t state; /* enum rdt_hold_state */
	uint8_t count; /* of spans */
	bool fused;
	bool granted; /* under the table's lock */
	struct rdt_span spans[2];
	struct rd_msg msg;
	TAILQ_ENTRY(rdt_hold) link;
};

/* A namespace's blocks in use, once a fused command was seen there. */
struct rdt_range_lock {
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdt_hold) held;
	TAILQ_HEAD(, rdt_hold) waiting;
	struct rdt_range_post *posts; /* to each reactor; NULL: nobody asked yet */
	unsigned int missing;         /* reactors that have not answered */
	bool on;
};

/* Blocks that Write Uncorrectable has marked, sorted. */
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
