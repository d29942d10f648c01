/* SPDX-License-Identifier: BSD-3-Clause */
/* Subsystems: their hosts, controllers and namespaces. */
#ifndef RDT_SUBSYS_H
#define RDT_SUBSYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cntlid.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"

struct rdt_ctrl;
struct rdt_ns;
struct rdt_qos_limiter;
struct rdt_target;

#define RDT_HOST_BUCKETS 64u

/* What a reactor has done for a subsystem. Written by the reactor, read by any (SMART log). */
struct rdt_counters {
	_Atomic uint64_t reads;
	_Atomic uint64_t writes;
	_Atomic uint64_t blocks_read; /* of 512 bytes */
	_Atomic uint64_t blocks_written;
	_Atomic uint64_t media_errors;
} __attribute__((aligned(64)));

struct rdt_host_list { /* of NQNs, sorted as given */
	bool any;
	unsigned int count;
	char **nqns;
};

struct rdt_subsys {
	struct rdt_target *target;
	const struct rdt_subsys_config *cfg; /* NULL: the discovery subsystem */
	struct rdt_config *cfg_of;           /* the configuration @cfg is in, with a reference */
	/* The configuration last applied, for the next reload; reactors use @cfg. */
	const struct rdt_subsys_config *now;
	struct rdt_config *now_of;
	atomic_bool
		gone; /* removed, or not there yet: set under @lock, for hosts it does not exist */
	const char *nqn;
	unsigned int index;
	struct rdt_counters *counters; /* [reactors], a cache line for each */
	/* Over all namespaces; written by the main thread as these come and go. */
	unsigned int lacking[32]; /* namespaces that lack this bit of ops_mask */
	unsigned int caching;     /* namespaces with a volatile cache */
	atomic_uint ns_count;
	_Atomic uint32_t ops_mask; /* what every namespace's backend can do */
	atomic_bool volatile_cache;
	atomic_bool sync_failed; /* a namespace's sync, at any time: see rdt_health_warning() */

	/* ctrls, host_ctrls, asking, asks, cntlids, next_cntlid, namespaces (changed by the main
	 * thread only), and the step of ctrl->refs from 1 to 0 */
	pthread_mutex_t lock;
	TAILQ_HEAD(rdt_ns_list, rdt_ns) namespaces; /* by NSID, leaving ones too */
	TAILQ_HEAD(, rdt_ctrl) ctrls;
	LIST_HEAD(rdt_host_ctrls, rdt_ctrl) host_ctrls[RDT_HOST_BUCKETS]; /* by their hosts */
	/* New controllers whose ctrl->unheard is not 0: stale_write.h. */
	LIST_HEAD(, rdt_ctrl) asking;
	struct rdt_ask *asks; /* [reactors] */
	struct rdt_cntlids cntlids;
	TAILQ_HEAD(, rdt_qos_limiter) limiters; /* of hosts, under @lock */
	uint16_t next_cntlid;
	unsigned int ctrls_count;
	struct rdt_host_list hosts; /* that may connect */
	uint8_t duplicate_host;     /* enum rdt_duplicate_host */
	uint16_t cntlid_min;
	uint16_t cntlid_max;
	_Atomic uint64_t ana_changes[RDT_ANA_GROUPS + 1]; /* a group's namespaces; 0: of them all */
};

static inline bool rdt_subsys_is_disc(const struct rdt_subsys *ss)
{
	return !ss->cfg;
}

int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, struct rdt_config *cfg_of,
		    unsigned int index);
void rdt_subsys_fini(struct rdt_subsys *ss);
/* Another one of the target's, of which there are fewer than RDT_SUBSYSTEMS, and none of that name.
 * Main thread. @gone: it is not there for hosts yet. */
int rdt_subsys_new(struct rdt_target *target, const struct rdt_subsys_config *cfg,
		   struct rdt_config *cfg_of, bool gone, struct rdt_subsys **out);
int rdt_subsys_open(struct rdt_subsys *ss); /* its namespaces, at the start */
struct rdt_subsys *rdt_subsys_slot(struct rdt_target *target, const char *nqn); /* a gone one too */
struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn);
/* Gives it a CNTLID. -EACCES: the host is not allowed; -EEXIST: it has one, and must not have two;
 * -EBUSY: no ID is free. */
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);
/* All others of @ctrl's host are in this one, with those of few other hosts. Under @lock. */
struct rdt_host_ctrls *rdt_subsys_host_ctrls(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl);
void rdt_subsys_remove_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl);    /* under @lock */
struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid); /* + reference */

#endif /* RDT_SUBSYS_H */
