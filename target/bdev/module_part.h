/* SPDX-License-Identifier: BSD-3-Clause */
/* Code common to all modules, compiled into each of them. */
#ifndef RDT_MODULE_PART_H
#define RDT_MODULE_PART_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "module.h"

uint64_t rdt_module_now(void); /* ns, CLOCK_MONOTONIC */
struct timespec rdt_module_timespec(uint64_t ns);
void rdt_module_cond_init(pthread_cond_t *cond); /* uses CLOCK_MONOTONIC */

/* The detached threads of a module, which end when they have nothing left to do. */
struct rdt_module_threads {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned int count; /* guarded by @lock */
};

void rdt_module_threads_init(struct rdt_module_threads *threads);
/* Returns 0 or -errno. @fn calls rdt_module_thread_ends() last. */
int rdt_module_thread_start(struct rdt_module_threads *threads, void *(*fn)(void *arg), void *arg);
void rdt_module_thread_ends(struct rdt_module_threads *threads);
/* Waits at most @timeout_ns for all threads to end. Returns true if they have; @threads is
 * destroyed. */
bool rdt_module_threads_finish(struct rdt_module_threads *threads, uint64_t timeout_ns);

/* A channel with only the loop of its reactor. */
struct rdt_module_chan {
	struct rdt_chan chan;
	struct rd_loop *loop;
};

/* For chan_open and chan_close. Returns 0 or -ENOMEM. */
int rdt_module_chan_open(struct rdt_bdev *bdev, struct rd_loop *loop, struct rdt_chan **out);
void rdt_module_chan_close(struct rdt_chan *chan);

static inline struct rd_loop *rdt_module_chan_loop(struct rdt_chan *chan)
{
	return rd_container_of(chan, struct rdt_module_chan, chan)->loop;
}

#endif /* RDT_MODULE_PART_H */
