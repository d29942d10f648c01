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

/* Of the main thread, which changes it under @lock; reactors read it. */
enum rdt_subsys_state {
	RDT_SUBSYS_NEW,  /* no host can use it yet. rdt_subsys_show() -> LIVE; leaves -> LEAVING */
	RDT_SUBSYS_LIVE, /* rdt_subsys_leave() -> LEAVING */
	/* Its NQN is free. No controller, no namespace, and nobody holds it -> UNSEEN */
	RDT_SUBSYS_LEAVING,
	RDT_SUBSYS_UNSEEN, /* its place is empty. All reactors have ended what they did -> freed */
};

/* Counted, because copies of it outlive the subsystem. */
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
	/* The configuration last applied, for the next reload; never NULL. Reactors use @cfg. */
	const struct rdt_subsys_config *now;
	struct rdt_config *now_of;
	_Atomic enum rdt_subsys_state state;
	const char *nqn;                     /* @name->text */
	struct rdt_nqn *name;                /* a reference */
	_Atomic(struct rdt_subsys *) by_nqn; /* the next one in target->by_nqn */
	unsigned int index;                  /* its place in target->subsys */
	/* Main thread: those that use it for longer than a turn, and one for its controllers */
	unsigned int holds;
	unsigned int passed; /* UNSEEN: reactors that have ended what they did */
	struct rd_msg msg;   /* LEAVING: the last controller has gone; UNSEEN: to each reactor */
	LIST_ENTRY(rdt_subsys) unseen; /* target->unseen */
	struct rdt_counters *counters; /* [reactors], each on its own cache line */
	/* Summaries over all namespaces, updated by the main thread. */
	unsigned int lacking[32]; /* by bit of ops_mask: namespaces without it */
	unsigned int caching;     /* namespaces with a volatile cache */
	atomic_uint ns_count;
	_Atomic uint32_t ops_mask; /* operations that the backends of all namespaces support */
	atomic_bool volatile_cache;
	/* storage of a namespace has failed at some time: rdt_health_warning() */
	atomic_bool faulty;

	/* Guards ctrls, ctrl_hosts, asking, asks, cntlids, next_cntlid, namespaces (changed by the
	 * main thread only), the stale-write fence, and the release of the last reference to a
	 * controller. */
	pthread_mutex_t lock;
	/* sorted by NSID, including those that leave */
	TAILQ_HEAD(rdt_ns_list, rdt_ns) namespaces;
	TAILQ_HEAD(, rdt_ctrl) ctrls;
	/* the hosts of @ctrls, hashed */
	LIST_HEAD(rdt_ctrl_host_bucket, rdt_ctrl_host) ctrl_hosts[RDT_HOST_BUCKETS];
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
	uint8_t duplicate_host;            /* enum rdt_duplicate_host */
	_Atomic enum rdt_disc_shown shown; /* in the discovery log */
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
/* Create a subsystem, whose state is NEW. -ENOSPC: no place is free. Main thread. */
int rdt_subsys_new(struct rdt_target *target, const struct rdt_subsys_config *cfg,
		   struct rdt_config *cfg_of, struct rdt_subsys **out);
void rdt_subsys_show(struct rdt_subsys *ss); /* NEW -> LIVE; no other has its NQN. Main thread */
/* Hide it from hosts, end its controllers for the reason @why, and free it when they, its
 * namespaces, which the caller removes, and those that hold it have gone. Main thread. */
void rdt_subsys_leave(struct rdt_subsys *ss, const char *why);
/* Use it for longer than a turn of the main loop. Main thread. */
void rdt_subsys_hold(struct rdt_subsys *ss);
void rdt_subsys_put(struct rdt_subsys *ss);
/* A namespace was freed. Main thread. */
void rdt_subsys_ns_gone(struct rdt_subsys *ss);
void rdt_subsys_free(struct rdt_subsys **ss); /* at the end of the target; accepts NULL */
/* The first one from place *@at on, which becomes the place after it; NULL: there is no more. Any
 * thread: it is valid until the turn of the loop ends. */
struct rdt_subsys *rdt_subsys_next(const struct rdt_target *target, unsigned int *at);
static inline bool rdt_subsys_live(const struct rdt_subsys *ss)
{
	return atomic_load(&ss->state) == RDT_SUBSYS_LIVE;
}
/* Any thread. */
struct rdt_nqn *rdt_nqn_get(struct rdt_nqn *name);
void rdt_nqn_put(struct rdt_nqn *name);
/* rdt_bdev_open_on() for a namespace of @t, by the target's environment. Any thread. */
int rdt_open_backend(struct rdt_target *t, const struct rdt_ns_config *cfg, int fd,
		     struct rdt_bdev **out, char *text, size_t text_size);
/* One that is LIVE, or the discovery subsystem. Any thread: it is valid until the turn of the loop
 * ends. */
struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn);
/* Register @ctrl and assign a controller ID. -EACCES: the host is not allowed; -EEXIST: the host
 * already has a controller and may not have two; -EBUSY: no ID is free; -EPERM: its Host Identifier
 * belongs to another host; -ENOMEM. */
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
/* The host of @ctrl has proven itself: applies duplicate_host, once. Returns 0, -EEXIST as
 * rdt_subsys_add_ctrl(), or as rdt_host_id_claim(). */
int rdt_subsys_ctrl_proven(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
void rdt_subsys_remove_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl); /* under @lock */
/* Bring the range of controller IDs and the rules for identifiers of hosts from configuration @now
 * to
 * @next. As rdt_subsys_follow_hosts(). */
int rdt_subsys_follow_ctrls(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			    const struct rdt_subsys_config *next, struct rdt_config *next_of);
/* takes a reference */
struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid);

#endif /* RDT_SUBSYS_H */
