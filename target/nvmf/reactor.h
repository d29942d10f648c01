/* SPDX-License-Identifier: BSD-3-Clause */
/* Reactors: threads with an event loop, and their resources. */
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
#include "io_stats.h"
#include "pool.h"
#include "qpair_walk.h"
#include "slices.h"
#include "stall.h"
#include "req_latency.h"
#include "peers.h"
#include "target/config/tgt_limits.h"

struct rdt_disc_order;
struct rdt_engines;
struct rdt_hold_part;
struct rdt_ns_channel;
struct rdt_qpair;
struct rdt_target;

struct rdt_status_line { /* a reactor's reply to SIGUSR1 */
	unsigned int admin_qpairs;
	unsigned int io_qpairs;
	unsigned int requests;
	unsigned int io_requests; /* of these, those on I/O queues */
	uint64_t buffer_bytes;
	uint64_t reserve_bytes;
	uint64_t scratch_bytes;
	unsigned int waiting;
	unsigned int limited;
	char transports[128]; /* text of the transports: " NAME=VALUE" for each value */
	uint64_t reads;       /* commands since the start; likewise @writes */
	uint64_t writes;
};

/* A namespace that commands can find. A walk over all of them reads only this structure. */
struct rdt_ns_place {
	uint64_t key; /* rdt_ns_key() */
	struct rdt_ns_channel *channel;
	unsigned int slot;
};

struct rdt_reactor {
	struct rdt_target *target;
	struct rd_log *log;
	struct rd_loop *loop;
	unsigned int index;
	pthread_t thread;
	bool running; /* the thread exists; main thread only */
	/* placement.c */
	atomic_uint load;         /* connections on this reactor */
	atomic_uint io_load;      /* I/O queues among them */
	atomic_uint busy;         /* busy time in the last window, in per mille */
	_Atomic uint64_t busy_at; /* the end of that window, in ns */
	struct rd_poller busy_poller;
	uint64_t window_start;
	uint64_t window_busy;
	struct rd_ratelimit uneven_limit;

	uint8_t *slab;   /* I/O slab, reserve, scratch, zeroes: one mapping and one memory region */
	uint8_t *zeroes; /* never written to: data of reads from backends without storage */
	size_t slab_len;
	size_t map_len;
	struct rdt_pool pools[RDT_POOLS];
	struct rd_map pool_devices;  /* struct rdt_pool_device by bdev->device */
	struct rd_map pool_accounts; /* struct rdt_device_accounts by the IDs of share and device */
	uint32_t pool_ids;           /* the next ID of a share or device */
	struct rdt_admin_budget admin;
	struct rdt_slices slices;
	struct rdt_share_bucket *shares; /* [RDT_SHARE_BUCKETS]: shares of connected hosts */
	struct rdt_share unassociated;   /* share of all unassociated connections */
	struct rdt_stallers stallers;
	struct rdt_source nowhere;       /* source of connections without an address */
	struct rdt_unassoc_list unassoc; /* unassociated connections, oldest first */
	unsigned int unassoc_count;
	struct rd_ratelimit unassoc_limit;
	struct rd_ratelimit
		stranger_limit; /* log lines about connections that end before a Connect */
	struct rdt_engines *engines;
	struct rd_map ns_map; /* rdt_ns_key() to channel, for commands */
	/* the same, sorted by key; ns_map.count entries are in use, ns_room are allocated */
	struct rdt_ns_place *ns_order;
	unsigned int ns_room;                  /* >= channels_count */
	uint64_t ns_changes;                   /* counts changes of @ns_order */
	TAILQ_HEAD(, rdt_ns_channel) channels; /* all open channels, leaving ones first */
	unsigned int channels_count;
	struct rd_defer ns_leave; /* checks whether a leaving namespace has no requests left */
	void *transport_state[RDT_TRANSPORTS]; /* by kind */
	struct rdt_disc_order *disc_order;     /* cmd/discovery.c */

	TAILQ_HEAD(, rdt_qpair) qpairs;
	unsigned int qpairs_count;
	void (*qpairs_gone)(struct rdt_reactor *r); /* called when the last queue pair was freed */
	unsigned int limited; /* requests that wait for a limit or are in @behind_fence */
	/* requests that wait for commands of dead controllers of their host */
	struct rdt_req_list behind_fence;
	struct rdt_req *fence_next; /* the next one, while @behind_fence is walked */
	struct rd_timer fence_timer;
	struct rd_timer heartbeat; /* heartbeat.h */
	uint64_t heartbeat_seen;   /* when the reactor last noticed that it runs, in ns */
	_Atomic uint64_t
		heartbeat_at; /* the same, for other reactors; UINT64_MAX: it has no heartbeat */
	atomic_bool heartbeat_asked; /* another reactor has noticed that this one is blocked */
	uint64_t heartbeat_blocked;  /* bit mask of the other reactors that are blocked */
	struct rdt_timing timing;
	struct rdt_counters_list counters_list; /* by host and listener */
	struct rdt_io_run run;
	struct rdt_totals totals;
	struct rd_poller counted; /* counts the commands of @run before a sleep */
	struct rdt_walk walk;
	struct rdt_qpair_walks walks; /* the first one runs, the others wait for it */
	struct rd_defer walk_slice;   /* the next slice, while there are walks */
	struct rdt_stall stall;
	struct rdt_cut_off cut_off;
	struct rdt_hold_part *hold; /* while the target is held: hold.c; otherwise NULL */
	bool draining;
	bool drained_sent;
	struct rd_msg drain_msg;   /* main -> reactor: finish commands, then close */
	struct rd_msg abandon_msg; /* main -> reactor: close now */
	struct rd_msg drained_msg; /* reactor -> main: no queue pair is left */
	/* I/O of subsystems that were removed; read by any thread */
	_Atomic uint64_t gone_reads;
	_Atomic uint64_t gone_writes;
	struct rd_msg status_msg; /* main -> reactor -> main */
	struct rdt_status_line status;
};

#endif /* RDT_REACTOR_H */
