/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where commands wait for their limits: first for those of their host, then for those of their
 * namespace. They hold no data buffer yet. Each reactor has two lanes at every gate, reads and
 * writes, in order; only the head of a lane takes a turn, so that lanes and reactors share a limit
 * fairly and what is aborted has used up nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "target/config/config.h"
#include "ctrl.h"
#include "gate.h"
#include "io.h"
#include "pool.h"
#include "qos.h"
#include "request.h"
#include "target/resv/reservation.h"
#include "subsys.h"
#include "target.h"

/* A change of limits is seen by those who wait after this time at the latest. */
#define LOOK_AGAIN (100 * RD_NSEC_PER_MSEC)

static void serve(struct rd_timer *timer);

int rdt_qos_gate_new(struct rdt_target *t, struct rdt_qos_gate **out)
{
	unsigned int lanes = 2 * t->cfg->target.reactors;
	struct rdt_qos_gate *gate = calloc(1, sizeof(*gate) + lanes * sizeof(gate->lanes[0]));

	*out = gate;
	if (!gate)
		return -ENOMEM;
	for (unsigned int i = 0; i < lanes; i++) {
		struct rdt_qos_lane *lane = &gate->lanes[i];

		lane->reactor = &t->reactors[i / 2];
		lane->qos = &gate->qos;
		TAILQ_INIT(&lane->waiting);
		lane->timer.fn = serve;
	}
	return 0;
}

/* Nobody waits there any more. */
void rdt_qos_gate_free(struct rdt_qos_gate **gate)
{
	free(*gate);
	*gate = NULL;
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
		p.ops = 0; /* whoever wants to be safe is not made to wait */
		break;
	}
	return p;
}

/* ---- lanes ---- */

static void watch(struct rdt_qos_lane *lane, uint64_t now)
{
	uint64_t delay = lane->start > now ? lane->start - now : 0;

	if (delay > LOOK_AGAIN)
		delay = LOOK_AGAIN;
	/* Without memory for a timer nobody would be woken: look at it in this turn. */
	if (rd_timer_start(lane->reactor->loop, &lane->timer, delay))
		rd_timer_start(lane->reactor->loop, &lane->timer, 0);
}

/* May @req, the first of its lane, go? */
static bool its_turn(struct rdt_qos_lane *lane, const struct rdt_req *req, uint64_t now)
{
	unsigned int changes = atomic_load(&lane->qos->changes);
	struct rdt_qos_price price;

	if (lane->taken && lane->changes != changes)
		lane->taken = false;
	if (!lane->taken) {
		price = price_of(req);
		lane->start = rdt_qos_take(lane->qos, &price, now);
		lane->changes = changes;
		lane->taken = true;
	}
	if (lane->start > now)
		return false;
	lane->taken = false;
	return true;
}

static void serve(struct rd_timer *timer)
{
	struct rdt_qos_lane *lane = rd_container_of(timer, struct rdt_qos_lane, timer);
	uint64_t now = rd_loop_now(lane->reactor->loop);
	struct rdt_req *req;

	while ((req = TAILQ_FIRST(&lane->waiting))) {
		if (!its_turn(lane, req, now)) {
			watch(lane, now);
			return;
		}
		TAILQ_REMOVE(&lane->waiting, req, link);
		lane->reactor->limited--;
		req->lane = NULL;
		req->gates_passed++;
		rdt_req_process(req);
	}
}

static struct rdt_qos_gate *gate_of(const struct rdt_req *req, unsigned int number)
{
	return number ? req->ns->gate : req->qp->ctrl->gate;
}

bool rdt_qos_admit(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;
	uint64_t now = rd_loop_now(r->loop);

	for (; !req->lane && req->gates_passed < 2; req->gates_passed++) {
		struct rdt_qos_gate *gate = gate_of(req, req->gates_passed);
		struct rdt_qos_lane *lane;

		if (!rdt_qos_gate_active(gate))
			continue;
		lane = &gate->lanes[2 * r->index + price_of(req).write];
		if (TAILQ_EMPTY(&lane->waiting) && its_turn(lane, req, now))
			continue;
		if (TAILQ_EMPTY(&lane->waiting))
			watch(lane, now);
		TAILQ_INSERT_TAIL(&lane->waiting, req, link);
		r->limited++;
		req->lane = lane;
		return false;
	}
	return !req->lane;
}

void rdt_qos_unwait(struct rdt_req *req)
{
	struct rdt_qos_lane *lane = req->lane;

	TAILQ_REMOVE(&lane->waiting, req, link);
	lane->reactor->limited--;
	req->lane = NULL;
	/* Its turn, if it had one, is the next one's. */
	if (TAILQ_EMPTY(&lane->waiting))
		rd_timer_stop(lane->reactor->loop, &lane->timer);
}

void rdt_qos_debit(const struct rdt_req *req, bool write, uint32_t ops, uint64_t bytes)
{
	const struct rdt_qos_price price = {write, ops, bytes};
	uint64_t now = rd_loop_now(req->qp->reactor->loop);

	for (unsigned int i = 0; i < 2; i++) {
		struct rdt_qos_gate *gate = gate_of(req, i);

		if (rdt_qos_gate_active(gate))
			rdt_qos_take(&gate->qos, &price, now);
	}
}

void rdt_qos_charge(const struct rdt_req *req)
{
	struct rdt_qos_price p = price_of(req);

	rdt_qos_debit(req, p.write, p.ops, p.bytes);
}

/* ---- hosts ---- */

static struct rdt_qos_gate *find_host(const struct rdt_subsys *ss, const char *nqn)
{
	struct rdt_qos_gate *gate;

	TAILQ_FOREACH (gate, &ss->gates, link)
		if (strcmp(gate->nqn, nqn) == 0)
			return gate;
	return NULL;
}

/* With a reference. NULL without memory. Under subsys->lock. */
static struct rdt_qos_gate *get_host(struct rdt_subsys *ss, const char *nqn)
{
	struct rdt_qos_gate *gate = find_host(ss, nqn);

	if (!gate) {
		if (rdt_qos_gate_new(ss->target, &gate))
			return NULL;
		memccpy(gate->nqn, nqn, 0, sizeof(gate->nqn));
		TAILQ_INSERT_TAIL(&ss->gates, gate, link);
	}
	gate->refs++;
	return gate;
}

static void put_host(struct rdt_subsys *ss, struct rdt_qos_gate *gate)
{
	if (--gate->refs)
		return;
	TAILQ_REMOVE(&ss->gates, gate, link);
	free(gate);
}

int rdt_qos_join(struct rdt_ctrl *ctrl)
{
	struct rdt_subsys *ss = ctrl->subsys;

	pthread_mutex_lock(&ss->lock);
	ctrl->gate = get_host(ss, ctrl->hostnqn);
	pthread_mutex_unlock(&ss->lock);
	return ctrl->gate ? 0 : -ENOMEM;
}

void rdt_qos_leave(struct rdt_ctrl *ctrl)
{
	struct rdt_subsys *ss = ctrl->subsys;

	if (!ctrl->gate)
		return;
	pthread_mutex_lock(&ss->lock);
	put_host(ss, ctrl->gate);
	pthread_mutex_unlock(&ss->lock);
	ctrl->gate = NULL;
}

/* Under subsys->lock. @limits NULL: none. */
static int set_host(struct rdt_subsys *ss, const char *nqn, const struct rdt_qos_config *limits)
{
	struct rdt_qos_gate *gate = limits ? get_host(ss, nqn) : find_host(ss, nqn);
	bool had;

	if (!gate)
		return limits ? -ENOMEM : 0;
	rdt_qos_set(&gate->qos, limits);
	had = gate->set;
	gate->set = limits != NULL;
	if (had)
		put_host(ss, gate); /* the reference of the limits before; perhaps the last one */
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
	struct rdt_qos_gate *gate;

	while ((gate = TAILQ_FIRST(&ss->gates))) {
		TAILQ_REMOVE(&ss->gates, gate, link);
		free(gate);
	}
}

void rdt_qos_set_ns(struct rdt_ns *ns, const struct rdt_qos_config *limits)
{
	rdt_qos_set(&ns->gate->qos, limits);
}
