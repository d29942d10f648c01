/* SPDX-License-Identifier: BSD-3-Clause */
/* QoS: the limits of hosts and namespaces, and the queues of commands that wait for them. */
#ifndef RDT_QOS_QUEUE_H
#define RDT_QOS_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "nvmf/text.h"
#include "target/config/config.h"
#include "ctrl.h"
#include "ns.h"
#include "pool.h"
#include "target/nvmf/base/qos.h"
#include "request.h"

struct rdt_subsys;
struct rdt_target;

struct rdt_qos_queue {
	struct rdt_reactor *reactor;
	struct rdt_qos *qos;
	struct rdt_req_list waiting;
	struct rd_timer timer; /* armed while commands wait */
	/* valid if @taken: the start time reserved for the head of the queue */
	uint64_t start;
	unsigned int changes; /* qos->changes when it was reserved */
	bool taken;
};

struct rdt_qos_limiter {
	struct rdt_qos qos;
	/* the fields below: only for the limiter of a host */
	LIST_ENTRY(rdt_qos_limiter) link; /* in a bucket of subsys->limiters */
	/* number of controllers, plus one while limits are set; guarded by subsys->lock */
	unsigned int refs;
	bool set;
	char nqn[NVMF_NQN_MAX + 1];

	struct rdt_qos_queue queues[]; /* two for each reactor: reads, writes */
};

int rdt_qos_limiter_new(struct rdt_target *t, struct rdt_qos_limiter **out);
void rdt_qos_limiter_free(struct rdt_qos_limiter **limiter);
int rdt_qos_init(struct rdt_subsys *ss);
void rdt_qos_fini(struct rdt_subsys *ss);
int rdt_qos_join(struct rdt_ctrl *ctrl); /* any thread; also rdt_qos_leave() */
void rdt_qos_leave(struct rdt_ctrl *ctrl);
/* Change the limits of @ns at run time; NULL: no limits. Any thread. */
void rdt_qos_set_ns(struct rdt_ns *ns, const struct rdt_qos_config *limits);
int rdt_qos_set_host(struct rdt_subsys *ss, const char *nqn, const struct rdt_qos_config *limits);
/* Change the limits from configuration @now to @next; like rdt_subsys_follow_hosts(). */
int rdt_qos_follow_ns(struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next);
int rdt_qos_follow_hosts(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			 const struct rdt_subsys_config *next, struct rdt_config *next_of);

static inline bool rdt_qos_limiter_active(const struct rdt_qos_limiter *limiter)
{
	return limiter && atomic_load_explicit(&limiter->qos.active, memory_order_relaxed);
}

static inline bool rdt_qos_limited(const struct rdt_req *req) /* whether a limit applies */
{
	return rdt_qos_limiter_active(req->qp->ctrl->limiter) ||
	       rdt_qos_limiter_active(req->ns->limiter);
}

/* Returns false if the command is LIMITED now; rdt_req_resume() is called when it may run. */
bool rdt_qos_admit(struct rdt_req *req);
void rdt_qos_unwait(struct rdt_req *req); /* @req is LIMITED */
/* Charge a cost that was unknown when the command arrived, or that could not wait. */
void rdt_qos_debit(const struct rdt_req *req, bool write, uint32_t ops, uint64_t bytes);
void rdt_qos_charge(const struct rdt_req *req); /* charge the whole command */

#endif /* RDT_QOS_QUEUE_H */
