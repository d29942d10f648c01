/* SPDX-License-Identifier: BSD-3-Clause */
#include "heir.h"

#include <assert.h>
#include <string.h>

#include "util/cold.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "ctrl.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "target/resv/reservation.h"
#include "subsys.h"
#include "target/config/tgt_limits.h"

/* Those who wait look again after this time: storage has hung for seconds. */
#define LOOK_AGAIN (20 * RD_NSEC_PER_MSEC)

/* A command of a closing queue: may it still write? A Compare may be half of a fused pair. */
static bool may_write(const struct rdt_req *req)
{
	return req->ns && req->state == RDT_REQ_EXECUTING &&
	       rdt_resv_group(req->sqe.opcode) != RDT_RESV_FREE &&
	       req->sqe.opcode != nvme_cmd_read && req->sqe.opcode != nvme_cmd_verify;
}

void rdt_heir_left(struct rdt_qpair *qp)
{
	struct rdt_req *req;

	if (!qp->ctrl || qp->admin)
		return;
	RDT_FOREACH_REQ (req, qp) {
		if (may_write(req))
			rdt_slots_set(&qp->ctrl->left, req->ns->slot);
	}
	/* After the bits. Whoever counted it as everywhere may look again. */
	if (atomic_fetch_sub(&qp->ctrl->untold, 1) == 1 && atomic_load(&qp->ctrl->over))
		rdt_ctrl_call_heirs(qp->ctrl);
}

void rdt_heir_owes(struct rdt_ctrl *ctrl)
{
	atomic_fetch_add(&ctrl->untold, 1);
}

void rdt_heir_settled(struct rdt_ctrl *ctrl)
{
	rdt_slots_clear_all(&ctrl->left);
}

/* Where @dead may have commands in flight. */
static void add_left(const struct rdt_ctrl *dead, struct rdt_slots *kept)
{
	if (atomic_load(&dead->untold)) /* before the bits */
		rdt_slots_set_all(kept);
	else
		rdt_slots_add(kept, &dead->left);
}

uint16_t rdt_heir_look_back(struct rdt_ctrl *ctrl, bool keep)
{
	struct rdt_slots kept;
	struct rdt_ctrl *other;
	uint16_t cntlid = 0;

	memset(&kept, 0, sizeof(kept));
	LIST_FOREACH (other, rdt_subsys_host_ctrls(ctrl->subsys, ctrl), host_link) {
		if (other == ctrl || !atomic_load(&other->over) || !rdt_ctrl_same_host(other, ctrl))
			continue;
		cntlid = other->cntlid;
		if (keep)
			add_left(other, &kept);
	}
	rdt_slots_copy(&ctrl->kept, &kept);
	atomic_store(&ctrl->behind, rdt_slots_any(&kept));
	rdt_slots_fini(&kept);
	return cntlid;
}

void rdt_heir_forget(struct rdt_subsys *ss, unsigned int slot)
{
	struct rdt_ctrl *ctrl;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		rdt_slots_clear(&ctrl->left, slot);
		rdt_slots_clear(&ctrl->kept, slot);
	}
}

/* ---- commands that wait ---- */

/* What moves no blocks waits for none: a host may still say who else may. */
RD_COLD bool rdt_heir_behind(const struct rdt_req *req)
{
	unsigned int slot = req->ns->slot;

	if (req->qp->admin || rdt_resv_group(req->sqe.opcode) == RDT_RESV_FREE)
		return false;
	return rdt_slots_has(&req->qp->ctrl->kept, slot);
}

static struct rdt_req *first_free(const struct rdt_reactor *r)
{
	struct rdt_req *req;

	TAILQ_FOREACH (req, &r->heirs, link)
		if (!rdt_heir_waits(req))
			return req;
	return NULL;
}

static void look_again(struct rd_timer *timer)
{
	struct rdt_reactor *r = rd_container_of(timer, struct rdt_reactor, heir_timer);
	struct rdt_req *req;

	/* Each leaves the list, and what it does may end others. */
	while ((req = first_free(r)))
		rdt_req_process(req);
	/* Cannot fail: the place it has just left is free. */
	if (!TAILQ_EMPTY(&r->heirs))
		rd_timer_start(r->loop, timer, LOOK_AGAIN);
}

void rdt_heir_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->heirs);
	r->heir_timer.fn = look_again;
}

bool rdt_heir_wait(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;

	assert(req->state == RDT_REQ_LIMITED);
	if (req->heir)
		return true;
	if (TAILQ_EMPTY(&r->heirs) && rd_timer_start(r->loop, &r->heir_timer, LOOK_AGAIN))
		return false;
	req->heir = true;
	r->limited++;
	TAILQ_INSERT_TAIL(&r->heirs, req, link);
	return true;
}

void rdt_heir_unwait(struct rdt_req *req)
{
	struct rdt_reactor *r = req->qp->reactor;

	req->heir = false;
	r->limited--;
	TAILQ_REMOVE(&r->heirs, req, link);
	if (TAILQ_EMPTY(&r->heirs))
		rd_timer_stop(r->loop, &r->heir_timer);
}
