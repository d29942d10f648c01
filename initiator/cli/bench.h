/* SPDX-License-Identifier: BSD-3-Clause */
/* The load generator of `rdinit bench`: its threads, their shared state, their results. */
#ifndef RDI_CLI_BENCH_H
#define RDI_CLI_BENCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "cli.h"
#include "rdinit_dev.h"
#include "util/hist.h"
#include "util/random.h"

struct bench_queue;

struct bench_slot {
	struct bench_queue *q;
	unsigned char *buf;
	uint64_t start; /* ns; time of submission */
	uint64_t lba;
	bool write;
};

/* One queue pair or, with --device, one channel, used by one thread. Positions count I/Os from
 * the start of the region. */
struct bench_queue {
	struct bench_thread *t;
	struct rdinit_qpair *qp;
	struct rdinit_dev_chan *chan; /* NULL without --device */
	uint64_t left;                /* I/Os it may still submit */
	struct rd_random random;
	uint64_t first, next, end; /* sequential modes: its part of the region */
	struct bench_slot *slots;
	bool broken; /* its connection is lost and all its callbacks have run */
};

struct bench_thread {
	struct bench *b;
	pthread_t id;
	unsigned int number;
	unsigned int n_queues;
	struct bench_queue *queues;
	/* One block that every write sends, then one for each slot of a queue as the buffer of
	 * reads. The thread's queues share them, because the data read is not used. */
	unsigned char *data;
	int epoll_fd; /* watches its queues and stop_fd */
	uint64_t busy;
	uint64_t now;  /* ns; the clock of this batch of completions; 0: not read yet */
	uint64_t last; /* ns; of the last batch */
	uint64_t batches;
	struct rd_hist *hist[2]; /* histograms in use: measured or discard */
	_Atomic uint64_t done;   /* I/Os so far, for the progress bar */
	char error[384];         /* "": no error */

	/* results */
	struct rd_hist measured[2]; /* reads, writes */
	struct rd_hist discard;     /* I/Os of the ramp, and those in flight at the end */
	uint64_t started, ended;
	struct rusage usage[2]; /* of this thread, at the start and at the end */
};

/* A barrier: all threads start together when each is prepared. */
struct bench_gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned int ready;
	enum {
		BENCH_WAIT,
		BENCH_GO,
		BENCH_CANCEL,
	} state;
};

struct bench {
	const struct cli_options *o;
	struct cli_session session; /* with --device it has no queue pairs */
	struct rdinit_dev *dev;     /* NULL without --device */
	unsigned int n_queues;
	uint32_t nlb;   /* blocks of one I/O */
	uint64_t start; /* first block of the region */
	uint64_t units; /* I/Os that fit into it */
	unsigned int n_threads;
	struct bench_thread *threads;
	struct bench_queue *queues; /* of all threads; those of one thread are adjacent */
	struct bench_slot *slots;
	unsigned char *data;
	size_t data_len;
	struct bench_gate gate;
	atomic_bool stop;
	int stop_fd; /* readable when @stop is set */
	int over_fd; /* an eventfd that each thread increments when it ends */
	atomic_uint running;
	struct cli_signals interrupt;
};

/* Bytes of the buffers of one thread. */
static inline size_t bench_data_len(const struct cli_bench_options *o)
{
	return ((size_t)o->depth + 1) * o->block_size;
}

/* ---- bench_run.c: what a thread does ---- */

void *bench_thread_main(void *arg);
void bench_stop(struct bench *b);

#endif /* RDI_CLI_BENCH_H */
