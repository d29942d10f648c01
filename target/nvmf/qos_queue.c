/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands wait for the limits of their host, then for those of their namespace, before they take a
 * data buffer. Each limiter has two queues per reactor, reads and writes, in order. Only the head
 * of a queue reserves a start time, so that queues and reactors share a limit fairly, and a command
 * that is aborted while it waits has used nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "qos_queue.h"
#include "io.h"
#include "io_stats.h"
#include "peers.h"
#include "target/resv/reservation.h"
#include "subsys.h"
#include "target.h"

/* Maximum time after which waiting commands notice a change of limits. */
#define RECHECK_NS (100 * RD_NSEC_PER_MSEC)
/* Commands of a queue that continue in one loop iteration, for example when limits are removed. */
#define BATCH 64u

static void serve_qos_queue(struct rd_timer *timer);

int rdt_qos_limiter_new(struct rdt_target *t, struct rdt_qos_limiter **out)
{
	unsigned int queues = 2 * t->cfg->target.reactors;
	struct rdt_qos_limiter *limiter =
		calloc(1, sizeof(*limiter) + queues * sizeof(limiter->queues[0]));

	*out = limiter;
	if (!limiter)
		return -ENOMEM;
	for (unsigned int i = 0; i < queues; i++) {
		struct rdt_qos_queue *queue = &limiter->queues[i];

		queue->reactor = &t->reactors[i / 2];
		queue->qos = &limiter->qos;
		TAILQ_INIT(&queue->waiting);
		queue->timer.fn = serve_qos_queue;
	}
	return 0;
}

/* No command may wait in its queues. */
void rdt_qos_limiter_free(struct rdt_qos_limiter **limiter)
{
	free(*limiter);
	*limiter = NULL;
}

/* ---- what commands cost ---- */

static struct rdt_qos_price price_of(const struct rdt_req *req)
{
	struct rdt_qos_price p = {.ops = 1};

	p.write = rdt_resv_group(req->sqe.opcode) == RDT_RESV_WRITES;
	switch (req->sqe.opcode) {
	case nvme_cmd_read:
	case nvme_cmd_compare:
	case nvme_cmd_write:
	case nvme_cmd_verify:
		p.bytes = (uint64_t)rdt_io_nlb(req) << req->ns->lbads;
		break;
	case nvme_cmd_flush:
	case nvme_cmd_resv_register:
	case nvme_cmd_resv_report:
	case nvme_cmd_resv_acquire:
	case nvme_cmd_resv_release:
		p.ops = 0; /* Flush and reservation commands are not limited */
		break;
	}
	return p;
}

/* ---- queues ---- */

static void arm_qos_timer(struct rdt_qos_queue *queue, uint64_t now)
{
	uint64_t delay = queue->start > now ? queue->start - now : 0;

	if (delay > RECHECK_NS)
		delay = RECHECK_NS;
	/* Without memory for a timer the queue would hang: check it in this loop iteration. */
	if (rd_timer_start(queue->reactor->loop, &queue->timer, delay))
		rd_timer_start(queue->reactor->loop, &queue->timer, 0);
}

/* Returns whether @req, the head of its queue, may run. */
static bool may_start(struct rdt_qos_queue *queue, const struct rdt_req *req, uint64_t now)
{
	unsigned int changes = atomic_load(&queue->qos->changes);
	struct rdt_qos_price price;

	if (queue->taken && queue->changes != changes)
		queue->taken = false;
	if (!queue->taken) {
		price = price_of(req);
		queue->start = rdt_qos_take(queue->qos, &price, now);
		queue->changes = changes;
		queue->taken = true;
	}
	if (queue->start > now)
		return false;
	queue->taken = false;
	return true;
}

static void serve_qos_queue(struct rd_timer *timer)
{
	struct rdt_qos_queue *queue = rd_container_of(timer, struct rdt_qos_queue, timer);
	uint64_t now = rd_loop_now(queue->reactor->loop);
	struct rdt_req *req;

	for (unsigned int n = 0; (req = TAILQ_FIRST(&queue->waiting)); n++) {
		if (n == BATCH || !may_start(queue, req, now)) {
			arm_qos_timer(queue, now);
			return;
		}
		TAILQ_REMOVE(&queue->waiting, req, link);
		queue->reactor->limited--;
		req->limiters_passed++;
		rdt_req_resume(req);
	}
}

static struct rdt_qos_limiter *limiter_of(const struct rdt_req *req, unsigned int number)
{
	return number ? req->ns->limiter : req->qp->ctrl->limiter;
}

bool rdt_qos_admit(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;
	uint64_t now = rd_loop_now(r->loop);

	for (; req->limiters_passed < 2; req->limiters_passed++) {
		struct rdt_qos_limiter *limiter = limiter_of(req, req->limiters_passed);
		struct rdt_qos_queue *queue;

		if (!rdt_qos_limiter_active(limiter))
			continue;
		queue = &limiter->queues[2 * r->index + price_of(req).write];
		if (TAILQ_EMPTY(&queue->waiting) && may_start(queue, req, now))
			continue;
		if (TAILQ_EMPTY(&queue->waiting))
			arm_qos_timer(queue, now);
		TAILQ_INSERT_TAIL(&queue->waiting, req, link);
		r->limited++;
		req->queue = queue;
		if (req->state != RDT_REQ_LIMITED) {
			rdt_io_count_wait(req, RDT_COUNT_QOS_WAITS, 1);
			req->limited_at = now;
			rdt_req_move(req, RDT_REQ_LIMITED);
		}
		return false;
	}
	if (req->state == RDT_REQ_LIMITED)
		rdt_io_count_wait(req, RDT_COUNT_QOS_NS, now - req->limited_at);
	return true;
}

void rdt_qos_unwait(struct rdt_req *req)
{
	struct rdt_qos_queue *queue = req->queue;

	TAILQ_REMOVE(&queue->waiting, req, link);
	queue->reactor->limited--;
	rdt_io_count_wait(req, RDT_COUNT_QOS_NS,
			  rd_loop_now(queue->reactor->loop) - req->limited_at);
	/* A reserved start time passes to the next command. */
	if (TAILQ_EMPTY(&queue->waiting))
		rd_timer_stop(queue->reactor->loop, &queue->timer);
}

void rdt_qos_debit(const struct rdt_req *req, bool write, uint32_t ops, uint64_t bytes)
{
	const struct rdt_qos_price price = {write, ops, bytes};
	uint64_t now = rd_loop_now(req->qp->reactor->loop);

	for (unsigned int i = 0; i < 2; i++) {
		struct rdt_qos_limiter *limiter = limiter_of(req, i);

		if (rdt_qos_limiter_active(limiter))
			rdt_qos_take(&limiter->qos, &price, now);
	}
}

void rdt_qos_charge(const struct rdt_req *req)
{
	struct rdt_qos_price p = price_of(req);

	rdt_qos_debit(req, p.write, p.ops, p.bytes);
}

/* ---- hosts ---- */

static struct rdt_qos_limiters *limiter_bucket(struct rdt_subsys *ss, const char *nqn)
{
	return &ss->limiters[rdt_peer_hash(ss->target, nqn, strlen(nqn)) % RDT_HOST_BUCKETS];
}

static struct rdt_qos_limiter *find_host(struct rdt_subsys *ss, const char *nqn)
{
	struct rdt_qos_limiter *limiter;

	LIST_FOREACH (limiter, limiter_bucket(ss, nqn), link)
		if (strcmp(limiter->nqn, nqn) == 0)
			return limiter;
	return NULL;
}

/* Returns the limiter of a host with a reference, or NULL without memory. subsys->lock is held. */
static struct rdt_qos_limiter *get_host(struct rdt_subsys *ss, const char *nqn)
{
	struct rdt_qos_limiter *limiter = find_host(ss, nqn);

	if (!limiter) {
		if (rdt_qos_limiter_new(ss->target, &limiter))
			return NULL;
		memccpy(limiter->nqn, nqn, 0, sizeof(limiter->nqn));
		LIST_INSERT_HEAD(limiter_bucket(ss, nqn), limiter, link);
	}
	limiter->refs++;
	return limiter;
}

static void put_host(struct rdt_qos_limiter *limiter)
{
	if (--limiter->refs)
		return;
	LIST_REMOVE(limiter, link);
	free(limiter);
}

int rdt_qos_join(struct rdt_ctrl *ctrl)
{
	struct rdt_subsys *ss = ctrl->subsys;

	pthread_mutex_lock(&ss->lock);
	ctrl->limiter = get_host(ss, ctrl->hostnqn);
	pthread_mutex_unlock(&ss->lock);
	return ctrl->limiter ? 0 : -ENOMEM;
}

void rdt_qos_leave(struct rdt_ctrl *ctrl)
{
	struct rdt_subsys *ss = ctrl->subsys;

	if (!ctrl->limiter)
		return;
	pthread_mutex_lock(&ss->lock);
	put_host(ctrl->limiter);
	pthread_mutex_unlock(&ss->lock);
	ctrl->limiter = NULL;
}

/* Sets the limits of a host; NULL: none. subsys->lock is held. */
static int set_host(struct rdt_subsys *ss, const char *nqn, const struct rdt_qos_config *limits)
{
	struct rdt_qos_limiter *limiter = limits ? get_host(ss, nqn) : find_host(ss, nqn);
	bool had;

	if (!limiter)
		return limits ? -ENOMEM : 0;
	rdt_qos_set(&limiter->qos, limits);
	had = limiter->set;
	limiter->set = limits != NULL;
	if (had)
		put_host(limiter); /* the previous limits' reference, maybe the last */
	return 0;
}

int rdt_qos_set_host(struct rdt_subsys *ss, const char *nqn, const struct rdt_qos_config *limits)
{
	int err;

	pthread_mutex_lock(&ss->lock);
	err = set_host(ss, nqn, limits);
	pthread_mutex_unlock(&ss->lock);
	return err;
}

int rdt_qos_init(struct rdt_subsys *ss)
{
	int err = 0;

	for (uint32_t i = 0; ss->cfg && i < ss->cfg->host_qos_count && !err; i++)
		err = rdt_qos_set_host(ss, ss->cfg->host_qos[i].host, &ss->cfg->host_qos[i].limits);
	return err;
}

void rdt_qos_fini(struct rdt_subsys *ss)
{
	struct rdt_qos_limiter *limiter;

	for (unsigned int i = 0; i < RDT_HOST_BUCKETS; i++) {
		while ((limiter = LIST_FIRST(&ss->limiters[i]))) {
			LIST_REMOVE(limiter, link);
			free(limiter);
		}
	}
}

void rdt_qos_set_ns(struct rdt_ns *ns, const struct rdt_qos_config *limits)
{
	rdt_qos_set(&ns->limiter->qos, limits);
}

/* ---- from one configuration to the next ---- */

int rdt_qos_follow_ns(struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next)
{
	if (rdt_config_same_limits(now->qos, next->qos))
		return 0;
	rdt_qos_set_ns(ns, next->qos);
	return 1;
}

static const struct rdt_qos_config *host_limits(const struct rdt_subsys_config *ss, const char *nqn)
{
	for (uint32_t i = 0; i < ss->host_qos_count; i++)
		if (strcmp(ss->host_qos[i].host, nqn) == 0)
			return &ss->host_qos[i].limits;
	return NULL;
}

int rdt_qos_follow_hosts(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			 const struct rdt_subsys_config *next, struct rdt_config *next_of)
{
	int changed = 0, err = 0;

	for (uint32_t i = 0; i < now->host_qos_count && !err; i++) {
		if (host_limits(next, now->host_qos[i].host))
			continue;
		err = rdt_qos_set_host(ss, now->host_qos[i].host, NULL);
		changed++;
	}
	for (uint32_t i = 0; i < next->host_qos_count && !err; i++) {
		const struct rdt_host_qos_config *h = &next->host_qos[i];

		if (rdt_config_same_limits(host_limits(now, h->host), &h->limits))
			continue;
		err = rdt_qos_set_host(ss, h->host, &h->limits);
		changed++;
	}
	return err ? err : changed;
}
