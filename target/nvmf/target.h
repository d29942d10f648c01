/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target: everything built from the configuration.
 *
 * Threads. The main thread owns struct rdt_target, the listeners and signals. Each reactor is a
 * thread with a loop; a queue pair and its requests are touched by their reactor alone. A
 * controller belongs to the reactor of its admin queue (ctrl->owner): I/O queues on other reactors
 * reach it by messages. The only lock on the way is subsys->lock (Connect and the end of a
 * controller; host lists and who sees which namespace); an error log and a list of changed
 * namespaces have one each of their own.
 *
 * Lock order: none is ever taken inside another, but for those of a controller's lists (errors,
 * changed namespaces, notifications), inside subsys->lock.
 */
#ifndef RDT_TARGET_H
#define RDT_TARGET_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/map.h"
#include "target/config/config.h"
#include "listener.h"
#include "peers.h"
#include "subsys.h"
#include "target/config/tgt_limits.h"

struct rdt_bdev;
struct rdt_cmd_tables;
struct rdt_ns;
struct rdt_reactor;
struct rdt_reload;
struct rdt_state;
struct rdt_timing_query;
struct rdt_transport;

struct rdt_referral {
	struct sockaddr_storage addr;
};

struct rdt_target {
	struct rdt_config *cfg;    /* of the start, with a reference */
	struct rdt_config *now;    /* the last one applied, with a reference; main thread only */
	struct rdt_reload *reload; /* the one that runs, or NULL */
	const struct rdt_cmd_tables *cmds;
	const struct rdt_transport *transport;
	struct rd_log *log;
	struct rd_loop *loop;         /* the main thread's */
	const struct rd_clock *clock; /* NULL: the real one */
	struct rdt_reactor *reactors;
	unsigned int reactors_count;
	struct rdt_subsys disc;
	struct rdt_subsys *subsys[RDT_SUBSYSTEMS];
	atomic_uint subsys_count; /* only grows */
	/* All of @subsys by name: open addressing, half full at most; entries never change. */
	_Atomic(struct rdt_subsys *) by_nqn[2 * RDT_SUBSYSTEMS];
	struct rdt_ns *ns[RDT_NS_SLOTS]; /* by slot; main thread only, as is what makes them */
	unsigned int ns_free;            /* no slot below is free */
	struct rd_map ns_map; /* rdt_ns_key() to namespaces, leaving ones too; likewise */
	TAILQ_HEAD(rdt_listener_list, rdt_listener) listeners; /* shown: changed under disc.lock */
	struct rdt_listener_list old_listeners;                /* removed */
	uint16_t portids;
	struct rd_fab *fabs[RDT_FABS];          /* the listeners'; not iwarp */
	SLIST_HEAD(, rdt_iwarp_fab) iwarp_fabs; /* theirs of iwarp */
	struct rdt_state *state;                /* NULL: nothing persists */
	struct rdt_peers peers;
	struct rdt_referral *referrals; /* under disc.lock */
	unsigned int referrals_count;
	_Atomic uint64_t genctr; /* of the discovery log */
	uint64_t started_ns;
	struct rd_ratelimit reject_limit; /* connections that are rejected */
	struct rd_ratelimit fatal_limit;  /* controllers that end; any thread */
	struct rd_ratelimit refuse_limit; /* Connects that are refused; any thread */
	atomic_bool nameless; /* a host without a Host NQN was let in, and it was said */
	/* Opens the backends of namespaces that are added. NULL: rdt_bdev_open(). */
	int (*bdev_open)(struct rdt_target *target, const struct rdt_ns_config *cfg,
			 struct rdt_bdev **out);
	/* draining */
	unsigned int reactors_left;
	void (*drained)(struct rdt_target *target);
	unsigned int status_left;
	struct rdt_timing_query *status_times;
};

#endif /* RDT_TARGET_H */
