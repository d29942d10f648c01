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
#include "turns.h"
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

struct rdt_status_line { /* answer of a reactor to SIGUSR1 */
	unsigned int admin_qpairs;
	unsigned int io_qpairs;
	unsigned int requests;
	unsigned int io_requests; /* of these, on I/O queues */
	uint64_t buffer_bytes;
	uint64_t reserve_bytes;
	uint64_t scratch_bytes;
	unsigned int waiting;
	unsigned int limited;
	char transports[128]; /* what they say: " NAME=VALUE", and so on */
	uint64_t reads;       /* commands since the start; also @writes */
	uint64_t writes;
};

/* A namespace that commands find. Walks over all of them read only this. */
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
	atomic_uint busy;         /* per mille of the last window in which it worked */
	_Atomic uint64_t busy_at; /* the end of that window, in ns */
	struct rd_poller busy_poller;
	uint64_t window_start;
	uint64_t window_busy;
	struct rd_ratelimit uneven_limit;

	uint8_t *slab;   /* I/O slab, reserve, scratch, zeroes: one mapping, one memory region */
	uint8_t *zeroes; /* never written to: data of reads from backends without storage */
	size_t slab_len;
	size_t map_len;
	struct rdt_pool pools[RDT_POOLS];
	struct rd_map pool_devices;  /* struct rdt_pool_device by bdev->device */
	struct rd_map pool_accounts; /* struct rdt_device_accounts by the IDs of share and device */
	uint32_t pool_ids;           /* the next ID of a share or device */
	struct rdt_admin_turn admin;
	struct rdt_slices slices;
	struct rdt_share_bucket *shares; /* [RDT_SHARE_BUCKETS]: shares of connected hosts */
	struct rdt_share unassociated;   /* share of all connections without a Connect */
	struct rdt_stallers stallers;
	struct rdt_source nowhere;       /* source of connections without an address */
	struct rdt_unassoc_list unassoc; /* connections without a Connect, oldest first */
	unsigned int unassoc_count;
	struct rd_ratelimit unassoc_limit;
	struct rd_ratelimit stranger_limit; /* messages about ends before a Connect */
	struct rdt_engines *engines;
	struct rd_map ns_map; /* rdt_ns_key() to channel: the lookup of commands */
	/* the same sorted by key: ns_map.count used, ns_room allocated */
	struct rdt_ns_place *ns_order;
	unsigned int ns_room;                  /* >= channels_count */
	uint64_t ns_changes;                   /* of @ns_order */
	TAILQ_HEAD(, rdt_ns_channel) channels; /* all open channels; leaving ones first */
	unsigned int channels_count;
	struct rd_defer ns_leave; /* checks whether a leaving namespace has no requests left */
	void *transport_state[RDT_TRANSPORTS]; /* by kind */
	struct rdt_disc_order *disc_order;     /* cmd/discovery.c */

	TAILQ_HEAD(, rdt_qpair) qpairs;
	unsigned int qpairs_count;
	void (*qpairs_gone)(struct rdt_reactor *r); /* called when the last queue pair was freed */
	unsigned int limited; /* requests that wait for a limit or in @behind_fence */
	/* requests that wait for commands of dead controllers of their host */
	struct rdt_req_list behind_fence;
	struct rdt_req *fence_next; /* while @behind_fence is looked through: the next one */
	struct rd_timer fence_timer;
	struct rd_timer heartbeat;     /* heartbeat.h */
	uint64_t heartbeat_seen;       /* ns, when the reactor looked last */
	_Atomic uint64_t heartbeat_at; /* the same, for other reactors; UINT64_MAX: it is idle */
	atomic_bool heartbeat_asked;   /* another reactor has noticed that this one stands still */
	uint64_t heartbeat_standing;   /* a bit for each other reactor that stands still */
	struct rdt_timing timing;
	struct rdt_counters_list counters_list; /* counters, by host and listener */
	struct rdt_io_run run;
	struct rdt_totals totals;
	struct rd_poller counted; /* counts @run before a sleep */
	struct rdt_walk walk;
	struct rdt_qpair_walks walks; /* the first one runs, the others wait for it */
	struct rd_defer walk_slice;   /* its next slice, while there are walks */
	struct rdt_stall stall;
	struct rdt_cut_off cut_off;
	struct rdt_hold_part *hold; /* the target is held: hold.c; NULL: it is not */
	bool draining;
	bool drained_sent;
	struct rd_msg drain_msg;   /* main -> reactor: finish commands, then close */
	struct rd_msg abandon_msg; /* main -> reactor: close now */
	struct rd_msg drained_msg; /* reactor -> main: no queue pair is left */
	/* I/O of subsystems that are gone; read by any thread */
	_Atomic uint64_t gone_reads;
	_Atomic uint64_t gone_writes;
	struct rd_msg status_msg; /* main -> reactor -> main */
	struct rdt_status_line status;
};

#endif /* RDT_REACTOR_H */
