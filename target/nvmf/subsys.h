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
#include "cntlid.h"
#include "host_ids.h"
#include "slots.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"

struct rdt_ana_order;
struct rdt_ctrl;
struct rdt_listed;
struct rdt_ns;
struct rdt_qos_limiter;
struct rdt_bdev;
struct rdt_target;

#define RDT_HOST_BUCKETS 64u

/* Counters of a reactor for a subsystem, for the SMART log. Written by the reactor, read by any
 * thread. */
struct rdt_counters {
	_Atomic uint64_t reads;
	_Atomic uint64_t writes;
	_Atomic uint64_t blocks_read; /* in units of 512 bytes */
	_Atomic uint64_t blocks_written;
	_Atomic uint64_t media_errors;
} __attribute__((aligned(64)));

struct rdt_host_list { /* sorted host NQNs */
	bool any;
	unsigned int count;
	char **nqns;
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
	/* The configuration last applied, for the next reload; never NULL. Reactors use @cfg. */
	const struct rdt_subsys_config *now;
	struct rdt_config *now_of;
	atomic_bool gone; /* removed or not shown yet; set under @lock. Hosts cannot use it */
	bool shown;       /* hosts could use it at some time; main thread only */
	const char *nqn;
	struct rdt_config *nqn_of; /* the configuration that contains @nqn; a reference */
	unsigned int index;
	struct rdt_counters *counters; /* [reactors], each on its own cache line */
	/* Summaries over all namespaces, updated by the main thread. */
	unsigned int lacking[32]; /* by bit of ops_mask: namespaces without it */
	unsigned int caching;     /* namespaces with a volatile cache */
	atomic_uint ns_count;
	_Atomic uint32_t ops_mask; /* operations that the backends of all namespaces support */
	atomic_bool volatile_cache;
	/* storage of a namespace has failed at some time: rdt_health_warning() */
	atomic_bool faulty;

	/* Guards ctrls, host_ctrls, asking, asks, cntlids, next_cntlid, namespaces (changed by the
	 * main thread only), the stale-write fence, and the release of the last reference to a
	 * controller. */
	pthread_mutex_t lock;
	/* sorted by NSID, including those that leave */
	TAILQ_HEAD(rdt_ns_list, rdt_ns) namespaces;
	TAILQ_HEAD(, rdt_ctrl) ctrls;
	LIST_HEAD(rdt_host_ctrls, rdt_ctrl) host_ctrls[RDT_HOST_BUCKETS]; /* hashed by host */
	/* new controllers whose ctrl->reactors_asked is not 0: stale_write.h */
	LIST_HEAD(, rdt_ctrl) asking;
	struct rdt_ask *asks; /* [reactors]: questions to reactors, see stale_write.h */
	struct rdt_cntlids cntlids;
	/* limiters of hosts, hashed by NQN; guarded by @lock */
	LIST_HEAD(rdt_qos_limiters, rdt_qos_limiter) limiters[RDT_HOST_BUCKETS];
	uint16_t next_cntlid;
	unsigned int ctrls_count;
	struct rdt_auth_set auth;     /* the keys of hosts; guarded by @lock */
	struct rdt_auth_set auth_old; /* the keys before, accepted until @auth_timer; likewise */
	struct rd_timer auth_timer;   /* main thread */
	struct rdt_host_id_bucket host_ids[RDT_HOST_ID_BUCKETS]; /* host_ids.h; under @lock */
	struct rdt_id_owner_bucket id_owners[RDT_HOST_ID_BUCKETS];
	uint8_t (*shared_ids)[16]; /* identifiers of several names; under @lock */
	unsigned int shared_ids_count;
	atomic_uint auth_seqnum;
	_Atomic uint64_t auth_successes; /* queues that were authenticated */
	_Atomic uint64_t auth_failures;
	struct rdt_host_list hosts; /* hosts that may connect */
	struct rdt_slots listed;    /* namespaces with a list of hosts; under @lock */
	/* which of these list a host, by name: host_access.c; under @lock */
	LIST_HEAD(rdt_listed_bucket, rdt_listed) listed_hosts[RDT_HOST_BUCKETS];
	uint8_t duplicate_host; /* enum rdt_duplicate_host */
	uint16_t cntlid_min;
	uint16_t cntlid_max;
	_Atomic uint64_t ana_moves;      /* namespaces that have moved to another group */
	struct rdt_ana_order *ana_order; /* [reactors]: ana_log.c */
	/* namespaces of a group that changed; [0]: all groups */
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
/* Create a subsystem. The caller has checked that there are fewer than RDT_SUBSYSTEMS and none with
 * this NQN. @gone: hosts cannot use it yet. Main thread. */
int rdt_subsys_new(struct rdt_target *target, const struct rdt_subsys_config *cfg,
		   struct rdt_config *cfg_of, bool gone, struct rdt_subsys **out);
/* Make a subsystem that no host could use so far one of @cfg, which has the same NQN. Its other
 * settings follow in the reload that shows it. Main thread. */
void rdt_subsys_renew(struct rdt_subsys *ss, const struct rdt_subsys_config *cfg,
		      struct rdt_config *cfg_of);
/* rdt_bdev_open() for a namespace of @t, by the target's environment. Any thread. */
int rdt_open_backend(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out,
		     char *text, size_t text_size);
/* also a gone one */
struct rdt_subsys *rdt_subsys_slot(struct rdt_target *target, const char *nqn);
struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn);
/* Register @ctrl and assign a controller ID. -EACCES: the host is not allowed; -EEXIST: the host
 * already has a controller and may not have two; -EBUSY: no ID is free; -EPERM: its Host Identifier
 * belongs to another host. */
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
/* The host of @ctrl has proven itself: applies duplicate_host, once. Returns 0, -EEXIST as
 * rdt_subsys_add_ctrl(), or as rdt_host_id_claim(). */
int rdt_subsys_ctrl_proven(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
/* The list with all controllers of the host of @ctrl, and those of a few other hosts. Under
 * @lock. */
struct rdt_host_ctrls *rdt_subsys_host_ctrls(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
void rdt_subsys_remove_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl); /* under @lock */
/* takes a reference */
struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid);

#endif /* RDT_SUBSYS_H */
