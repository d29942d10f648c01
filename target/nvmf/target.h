/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target: everything that is built from the configuration.
 *
 * Threads: the main thread owns struct rdt_target, the listeners and signals. Each reactor is a
 * thread with an event loop; only this reactor uses its queue pairs and requests. A controller
 * belongs to the reactor of its admin queue (ctrl->owner); I/O queues on other reactors reach it by
 * messages. subsys->lock is the only lock between them: for Connect, the end of a queue or a
 * controller, host lists and namespace visibility.
 *
 * Lock order: subsys->lock, then a lock of a controller's lists (error log, changed namespaces,
 * notifications). All other locks are leaf locks.
 */
#ifndef RDT_TARGET_H
#define RDT_TARGET_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "announce.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/map.h"
#include "target/config/config.h"
#include "listener.h"
#include "target/nvmf/base/ns_marks.h"
#include "peers.h"
#include "subsys.h"
#include "target/config/tgt_limits.h"

struct rdt_auth_pool;
struct rdt_bdev;
struct rdt_change;
struct rdt_cmd_tables;
struct rdt_hold;
struct rdt_identities;
struct rdt_inherit;
struct rdt_job;
struct rdt_jobs;
struct rdt_mgmt_if;
struct rdt_modules;
struct rdt_move_in;
struct rdt_ns;
struct rdt_reactor;
struct rdt_state;
struct rdt_state_files;
struct rdt_timing_query;
struct rdt_transport;

struct rdt_referral {
	const struct rdt_transport *transport;
	struct sockaddr_storage addr;
};

/* The services that a target uses from its environment. A member that is NULL or 0 means the
 * service of the system. */
struct rdt_env {
	const struct rd_clock *clock; /* as rd_loop_opts.clock */
	uint64_t seed; /* seed of the random numbers of the reactors' loops, and of hashes */
	/* by kind of transport: its environment, such as struct rdt_rdma_env */
	const void *transport_env[RDT_TRANSPORTS];
	/* [RDT_TRANSPORTS], by kind; entries may be NULL. NULL: the transports of this program. */
	const struct rdt_transport *const *transports;
	/* Opens the backend of a namespace. NULL: rdt_bdev_open(). */
	int (*bdev_open)(struct rdt_target *target, const struct rdt_ns_config *cfg,
			 struct rdt_bdev **out);
	/* Runs a job that may block: rdt_jobs_new(). NULL: run by a thread. */
	bool (*run_job)(struct rdt_job *job);
	/* descriptors of the process from which this one takes over; NULL: none */
	const struct rdt_inherit *inherit;
	/* Replaces the files in target.state_dir, and the caller runs their loop. NULL: the
	 * directory. */
	struct rdt_state_files *state_files;
};

/* State of "drain" of the control socket. SIGTERM is reported by @drained of the target. */
enum rdt_serving { RDT_SERVING, RDT_DRAINING, RDT_DRAINED };

/* Namespaces whose backends have changed: opening.c */
struct rdt_bdev_changes {
	pthread_mutex_t lock; /* guards the fields below; any thread */
	TAILQ_HEAD(, rdt_ns) list;
	bool posted; /* @msg was posted */
	struct rd_msg msg;
};

struct rdt_target {
	struct rdt_config *cfg; /* the configuration at the start; a reference */
	/* the configuration last applied; a reference; main thread only */
	struct rdt_config *now;
	LIST_HEAD(, rdt_change) changes; /* those whose objects have not all settled */
	struct rdt_mgmt_if *http;        /* the HTTP listener; NULL: none was made */
	struct rdt_mgmt_if *rpc;         /* the control socket; likewise */
	const struct rdt_cmd_tables *cmds;
	/* [RDT_TRANSPORTS], by kind; NULL: none; likewise their state for this target */
	const struct rdt_transport *const *transports;
	void *transport_state[RDT_TRANSPORTS];
	struct rd_log *log;
	struct rdt_announcer announcer;
	struct rd_loop *loop; /* the main thread's loop */
	uint64_t gateway;     /* identifies this gateway to hosts; random, not 0 */
	const struct rdt_env *env;
	struct rdt_reactor *reactors;
	unsigned int reactors_count;
	struct rdt_subsys disc;
	/* By place; NULL: free. Changed by the main thread; reactors may use what they read here
	 * until their loop iteration ends. */
	_Atomic(struct rdt_subsys *) subsys[RDT_SUBSYS_PLACES];
	atomic_uint subsys_count; /* all places from this one on were never used */
	unsigned int subsys_free; /* no place below this is free; main thread */
	/* LIVE subsystems by the hash of their NQN, in lists; like @subsys */
	_Atomic(struct rdt_subsys *) by_nqn[2 * RDT_SUBSYSTEMS];
	LIST_HEAD(, rdt_subsys) unseen; /* no longer in @subsys; main thread */
	struct rdt_modules *modules;    /* NULL: only built-in backends */
	struct rdt_jobs *jobs;          /* calls that may block */
	struct rd_timer compare_timer;  /* compare.c; armed while @with_path has one */
	/* LIVE namespaces that have a path, examined round robin: compare.c */
	TAILQ_HEAD(, rdt_ns) with_path;
	unsigned int with_path_count;
	struct rdt_bdev_changes bdev_changes;
	struct rd_timer split_timer; /* split.c */
	bool opening; /* set until rdt_opening_wait() has returned: no reactor runs */
	/* ANA groups whose storage another gateway holds; see rdt_ana_standby() */
	atomic_bool ana_standby[RDT_ANA_GROUPS + 1];
	unsigned int standby_count[RDT_ANA_GROUPS + 1]; /* number of such namespaces; opening.c */
	struct rdt_ns *ns[RDT_NS_SLOTS];                /* by slot; main thread only */
	struct rdt_ns_marks ns_marks[RDT_NS_SLOTS];     /* by slot */
	unsigned int ns_free;                           /* no slot below this is free */
	unsigned int ns_opening; /* number of RDT_NS_OPENING ones; main thread only */
	unsigned int
		ns_moving; /* number of those for which reactors have messages; main thread only */
	/* rdt_ns_key() to namespace, without leaving ones; main thread only */
	struct rd_map ns_map;
	struct rd_map leaving; /* struct rdt_leaving by ns->storage; main thread only */
	/* shown in the discovery log; changed under disc.lock */
	TAILQ_HEAD(rdt_listener_list, rdt_listener) listeners;
	struct rdt_listener_list old_listeners; /* removed ones; freed when the target ends */
	bool listeners_held;                    /* rdt_listeners_hold() */
	struct rd_timer listen_timer; /* retries listeners that failed: rdt_listeners_open() */
	uint16_t portids;
	struct rdt_state *state;           /* NULL: no state_dir */
	struct rdt_identities *identities; /* UUIDs of namespaces */
	struct rdt_peers peers;
	/* Held by a thread that is not a reactor while it uses the result of rdt_subsys_find(). A
	 * subsystem that can no longer be found is freed only after that. A leaf lock except for
	 * subsys->lock */
	pthread_mutex_t find_lock;
	_Atomic uint64_t tls_handshakes, tls_refusals; /* any thread */
	struct rdt_auth_pool *auth_pool;
	struct rdt_referral *referrals; /* guarded by disc.lock */
	unsigned int referrals_count;
	const struct rdt_subsys_config *disc_cfg; /* rdma_only and tcp_only of this; likewise */
	struct rdt_config *disc_cfg_of;           /* a reference */
	_Atomic uint64_t genctr;                  /* generation counter of the discovery log */
	uint64_t started_ns;
	bool taken_over;                  /* from another process, whose connections paused for */
	uint64_t upgrade_pause_ns;        /* this time; main thread */
	struct rd_ratelimit reject_limit; /* log lines about rejected connections */
	struct rd_ratelimit fatal_limit;  /* log lines about controllers that end; any thread */
	/* log lines about controllers that connect and disconnect; any thread */
	struct rd_ratelimit connect_limit, disconnect_limit;
	struct rd_ratelimit refuse_limit; /* log lines about refused Connects; any thread */
	struct rd_ratelimit auth_limit;   /* log lines about authenticated queues; any thread */
	struct rd_ratelimit key_limit;    /* log lines about changed keys */
	atomic_bool nameless;        /* a host without Host NQN has connected, which was logged */
	struct rdt_hold *hold;       /* hold.c; NULL: none. Main thread */
	struct rdt_move_in *move_in; /* move_in.c; likewise */
	/* draining */
	unsigned int reactors_left;
	enum rdt_serving serving; /* state of "drain"; main thread */
	void (*drained)(struct rdt_target *target);
	void *drained_arg; /* for the owner */
	unsigned int status_left;
	struct rdt_timing_query *status_times;
};

#endif /* RDT_TARGET_H */
