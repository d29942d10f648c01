/* SPDX-License-Identifier: BSD-3-Clause */
/* Subsystems: host lists, controllers and namespaces. */
#ifndef RDT_SUBSYS_H
#define RDT_SUBSYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "target/nvmf/base/cntlid.h"
#include "host_ids.h"
#include "target/nvmf/base/slots.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"

struct rdt_ana_order;
struct rdt_ctrl;
struct rdt_listed;
struct rdt_ns;
struct rdt_qos_limiter;
struct rdt_bdev;
struct rdt_bdev_from;
struct rdt_target;

#define RDT_HOST_BUCKETS 64u

/* A reactor's counters for a subsystem, for the SMART log. Written by the reactor, read by any
 * thread. */
struct rdt_counters {
	_Atomic uint64_t reads;
	_Atomic uint64_t writes;
	_Atomic uint64_t blocks_read; /* in units of 512 bytes */
	_Atomic uint64_t blocks_written;
	_Atomic uint64_t media_errors;
} __attribute__((aligned(64)));

struct rdt_host_list { /* sorted by host NQN */
	bool any;
	unsigned int count;
	char **nqns;
};

/* Changed by the main thread under @lock; read by reactors. */
enum rdt_subsys_state {
	RDT_SUBSYS_NEW, /* not usable by hosts yet. rdt_subsys_show() -> LIVE; removed -> LEAVING */
	RDT_SUBSYS_LIVE, /* rdt_subsys_leave() -> LEAVING */
	/* Its NQN is free. No controller, namespace or hold left -> UNSEEN */
	RDT_SUBSYS_LEAVING,
	RDT_SUBSYS_UNSEEN, /* its place is free. All reactors have replied -> freed */
};

/* Reference counted, because copies outlive the subsystem. */
struct rdt_nqn {
	atomic_uint refs;
	char text[];
};

struct rdt_auth_set {
	const struct rdt_subsys_config *cfg; /* NULL: none */
	struct rdt_config *of;               /* a reference; main thread */
};

struct rdt_subsys {
	struct rdt_target *target;
	const struct rdt_subsys_config *cfg; /* NULL: the discovery subsystem */
	/* the configuration that contains @cfg; a reference */
	struct rdt_config *cfg_of;
	/* The configuration that was applied last, for the next reload; never NULL. Reactors use
	 * @cfg. */
	const struct rdt_subsys_config *now;
	struct rdt_config *now_of;
	_Atomic enum rdt_subsys_state state;
	const char *nqn;                     /* @name->text */
	struct rdt_nqn *name;                /* a reference */
	_Atomic(struct rdt_subsys *) by_nqn; /* next in target->by_nqn */
	unsigned int index;                  /* its place in target->subsys */
	/* users for longer than a loop iteration, and one for its controllers; main thread */
	unsigned int holds;
	unsigned int passed; /* UNSEEN: number of reactors that have replied */
	struct rd_msg msg;   /* LEAVING: the last controller has ended; UNSEEN: to each reactor */
	LIST_ENTRY(rdt_subsys) unseen; /* target->unseen */
	struct rdt_counters *counters; /* [reactors], each on its own cache line */
	/* Summaries over all namespaces, updated by the main thread. */
	unsigned int lacking[32]; /* by bit of ops_mask: number of namespaces without it */
	unsigned int caching;     /* number of namespaces with a volatile cache */
	atomic_uint ns_count;
	_Atomic uint32_t ops_mask; /* operations that the backends of all namespaces support */
	atomic_bool volatile_cache;
	/* the storage of a namespace has failed at some time: rdt_health_warning() */
	atomic_bool faulty;

	/* guards ctrls, ctrl_hosts, asking, asks, cntlids, next_cntlid, namespaces (changed by the
	 * main thread only), the stale-write fence, and the release of the last reference to a
	 * controller */
	pthread_mutex_t lock;
	/* sorted by NSID, including leaving ones */
	TAILQ_HEAD(rdt_ns_list, rdt_ns) namespaces;
	TAILQ_HEAD(, rdt_ctrl) ctrls;
	/* the hosts of @ctrls, hashed */
	LIST_HEAD(rdt_ctrl_host_bucket, rdt_ctrl_host) ctrl_hosts[RDT_HOST_BUCKETS];
	/* new controllers whose ctrl->reactors_asked is not 0: stale_write.h */
	LIST_HEAD(, rdt_ctrl) asking;
	struct rdt_ask *asks; /* [reactors]: questions to reactors: stale_write.h */
	struct rdt_cntlids cntlids;
	/* limiters of hosts, hashed by NQN; guarded by @lock */
	LIST_HEAD(rdt_qos_limiters, rdt_qos_limiter) limiters[RDT_HOST_BUCKETS];
	uint16_t next_cntlid;
	unsigned int ctrls_count;
	struct rdt_auth_set auth;     /* the keys of hosts; guarded by @lock */
	struct rdt_auth_set auth_old; /* the previous keys, accepted until @auth_timer; likewise */
	struct rd_timer auth_timer;   /* main thread */
	struct rdt_host_id_bucket host_ids[RDT_HOST_ID_BUCKETS]; /* host_ids.h; under @lock */
	struct rdt_id_owner_bucket id_owners[RDT_HOST_ID_BUCKETS];
	uint8_t (*shared_ids)[16]; /* identifiers that several names may use; under @lock */
	unsigned int shared_ids_count;
	atomic_uint auth_seqnum;
	_Atomic uint64_t auth_successes; /* number of queues that have authenticated */
	_Atomic uint64_t auth_failures;
	struct rdt_host_list hosts; /* hosts that may connect */
	struct rdt_slots listed;    /* namespaces with a list of hosts; under @lock */
	/* the hosts in their lists, by name: host_access.c; under @lock */
	LIST_HEAD(rdt_listed_bucket, rdt_listed) listed_hosts[RDT_HOST_BUCKETS];
	uint8_t duplicate_host;            /* enum rdt_duplicate_host */
	_Atomic enum rdt_disc_shown shown; /* where the discovery log shows it */
	uint16_t cntlid_min;
	uint16_t cntlid_max;
	_Atomic uint64_t ana_moves;      /* counts moves of namespaces to another group */
	struct rdt_ana_order *ana_order; /* [reactors]: ana_log.c */
	/* change counts by group; [0]: of all groups */
	_Atomic uint64_t ana_changes[RDT_ANA_GROUPS + 1];
};

static inline bool rdt_subsys_is_disc(const struct rdt_subsys *ss)
{
	return !ss->cfg;
}

int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, struct rdt_config *cfg_of,
		    unsigned int index);
void rdt_subsys_fini(struct rdt_subsys *ss);
/* Create a subsystem in state NEW. Returns 0 or -errno; -ENOSPC: no place is free. Main thread. */
int rdt_subsys_new(struct rdt_target *target, const struct rdt_subsys_config *cfg,
		   struct rdt_config *cfg_of, struct rdt_subsys **out);
void rdt_subsys_show(struct rdt_subsys *ss); /* NEW -> LIVE; its NQN is unique. Main thread */
/* Hide it from hosts and end its controllers for the reason @why. It is freed when its controllers,
 * its namespaces (which the caller removes) and its holds are gone. Main thread. */
void rdt_subsys_leave(struct rdt_subsys *ss, const char *why);
/* Prevent that it is freed, for use beyond an iteration of the main loop. Main thread. */
void rdt_subsys_hold(struct rdt_subsys *ss);
void rdt_subsys_put(struct rdt_subsys *ss);
/* A namespace was freed. Main thread. */
void rdt_subsys_ns_gone(struct rdt_subsys *ss);
void rdt_subsys_free(struct rdt_subsys **ss); /* when the target ends; accepts NULL */
/* Returns the first subsystem from place *@at on, and sets *@at to the place after it; NULL: there
 * are no more. Any thread; valid until the loop iteration ends. */
struct rdt_subsys *rdt_subsys_next(const struct rdt_target *target, unsigned int *at);
static inline bool rdt_subsys_live(const struct rdt_subsys *ss)
{
	return atomic_load(&ss->state) == RDT_SUBSYS_LIVE;
}
/* Any thread. */
struct rdt_nqn *rdt_nqn_get(struct rdt_nqn *name);
void rdt_nqn_put(struct rdt_nqn *name);
/* Like rdt_bdev_open_on(), for a namespace of @t, by the target's environment. Any thread. */
int rdt_open_backend(struct rdt_target *t, const struct rdt_ns_config *cfg,
		     const struct rdt_bdev_from *from, struct rdt_bdev **out, char *text,
		     size_t text_size);
/* Returns the subsystem with this NQN that is LIVE, the discovery subsystem, or NULL. Any thread;
 * valid until the loop iteration ends. */
struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn);
/* Register @ctrl and assign a controller ID. Returns 0; -EACCES: the host is not allowed; -EEXIST:
 * the host already has a controller and may not have two; -EBUSY: no ID is free; -EPERM: its Host
 * Identifier belongs to another host; or -ENOMEM. */
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
/* The host of @ctrl has authenticated: apply duplicate_host, once. Returns 0, -EEXIST like
 * rdt_subsys_add_ctrl(), or an error of rdt_host_id_claim(). */
int rdt_subsys_ctrl_authenticated(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
void rdt_subsys_remove_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl); /* under @lock */
/* Change the range of controller IDs and the rules for Host Identifiers from configuration @now to
 * @next; like rdt_subsys_follow_hosts(). */
int rdt_subsys_follow_ctrls(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			    const struct rdt_subsys_config *next, struct rdt_config *next_of);
/* returns a reference, or NULL */
struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid);

#endif /* RDT_SUBSYS_H */
