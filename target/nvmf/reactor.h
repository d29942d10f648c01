/* SPDX-License-Identifier: BSD-3-Clause */
/* Reactors: threads with a loop, and what each has for itself. */
#ifndef RDT_REACTOR_H
#define RDT_REACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/map.h"
#include "pool.h"
#include "req_latency.h"

struct rdt_engines;
struct rdt_ns_channel;
struct rdt_qpair;
struct rdt_rdma;
struct rdt_target;

struct rdt_status_line { /* a reactor's answer to SIGUSR1 */
	unsigned int admin_qpairs;
	unsigned int io_qpairs;
	unsigned int requests;
	uint64_t slab_used;
	uint64_t reserve_used;
	uint64_t scratch_used;
	unsigned int waiting;
	unsigned int limited;
	unsigned int mrs;
	unsigned int capsules; /* RECVs of pools that hold commands */
	uint64_t reads;        /* served since the start, as writes */
	uint64_t writes;
};

struct rdt_reactor {
	struct rdt_target *target;
	struct rd_log *log;
	struct rd_loop *loop;
	unsigned int index;
	pthread_t thread;
	bool running; /* the thread exists; main thread only */
	/* placement.c */
	atomic_uint load;         /* connections handed to it */
	atomic_uint io_load;      /* of these, I/O queues */
	atomic_uint busy;         /* per mille of the last window in which it worked */
	_Atomic uint64_t busy_at; /* the end of that window */
	struct rd_poller busy_poller;
	uint64_t window_start;
	uint64_t window_busy;
	struct rd_ratelimit uneven_limit;

	uint8_t *slab;   /* I/O slab, reserve, scratch, zeroes: one mapping, one memory region */
	uint8_t *zeroes; /* never written to: the data of reads from what holds nothing */
	size_t slab_len;
	size_t map_len;
	struct rdt_pool pools[RDT_POOLS];
	struct rdt_share_bucket *shares; /* [RDT_SHARE_BUCKETS], of connected hosts */
	struct rdt_share unassociated;   /* before Connect; all together */
	struct rdt_site nowhere;         /* of connections without an address */
	struct rdt_fresh_list fresh;     /* connections without a Connect, the oldest first */
	unsigned int fresh_count;
	struct rd_ratelimit fresh_limit;
	struct rdt_engines *engines;
	struct rd_map ns_map;             /* rdt_ns_key() to channels: what commands find here */
	struct rdt_ns_channel **ns_order; /* the same by key: ns_map.count, room for ns_room */
	unsigned int ns_room;             /* >= channels_count */
	unsigned int ns_after;            /* behind the one that rdt_ns_next() found last */
	TAILQ_HEAD(, rdt_ns_channel) channels; /* open here; those that leave come first */
	unsigned int channels_count;
	struct rd_defer ns_leave; /* look whether a leaving namespace is let go */
	struct rdt_rdma *rdma;

	TAILQ_HEAD(, rdt_qpair) qpairs;
	unsigned int qpairs_count;
	void (*qpairs_gone)(struct rdt_reactor *r); /* the last queue pair is freed */
	unsigned int limited; /* requests that wait for a limit, or on @behind_fence */
	struct rdt_req_list
		behind_fence; /* that wait for commands of their host's dead controllers */
	struct rd_timer fence_timer;
	struct rdt_timing timing;
	bool draining;
	bool drained_sent;
	struct rd_msg drain_msg;   /* main -> reactor: finish what runs, close */
	struct rd_msg abandon_msg; /* main -> reactor: close now */
	struct rd_msg drained_msg; /* reactor -> main: no queue pair is left */
	struct rd_msg status_msg;  /* main -> reactor -> main */
	struct rdt_status_line status;
};

#endif /* RDT_REACTOR_H */
