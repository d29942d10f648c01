/* SPDX-License-Identifier: BSD-3-Clause */
/* The Abort command. A message goes to the reactor of the queue that the command names, and a reply
 * comes back. A waiting command is aborted at once; a command in a backend only if the backend can
 * cancel it. The answer waits for the outcome, but at most RDT_ABORT_TIMEOUT. */
#include "nvmf/wire.h"
#include "request.h"
#include "ctrl.h"
#include "io_stats.h"
#include "qpair.h"
#include "target/config/tgt_limits.h"

static void abort_reply_msg(struct rd_msg *msg)
{
	struct rdt_abort *ab = rd_container_of(msg, struct rdt_abort, msg);
	struct rdt_req *req = ab->req;

	req->qp->ctrl->aborts--;
	req->cqe.result = htole32(ab->aborted ? 0 : 1);
	rdt_req_complete(req);
}

static void abort_reply(struct rdt_abort *ab, bool aborted)
{
	ab->aborted = aborted;
	ab->msg.fn = abort_reply_msg;
	rd_loop_post(ab->req->qp->reactor->loop, &ab->msg);
}

/* Called on the victim's reactor when its outcome is known, also when the victim was dropped. */
void rdt_abort_victim_done(struct rdt_req *victim)
{
	struct rdt_abort *ab = victim->aborter;

	victim->aborter = NULL;
	ab->victim = NULL;
	rd_timer_stop(victim->qp->reactor->loop, &ab->timer);
	abort_reply(ab, victim->state != RDT_REQ_DROPPED &&
				(victim->status.v & 0x7ff) == NVME_SC_ABORT_REQ);
}

/* It is too late to abort the victim, its queue cannot be reached, or RDT_ABORT_TIMEOUT has passed:
 * answer "not aborted". */
static void abort_timed_out(struct rd_timer *timer)
{
	struct rdt_abort *ab = rd_container_of(timer, struct rdt_abort, timer);

	ab->victim->aborter = NULL;
	ab->victim = NULL;
	rd_timer_stop(ab->qp->reactor->loop, timer);
	abort_reply(ab, false);
}

static void abort_look_msg(struct rd_msg *msg)
{
	struct rdt_abort *ab = rd_container_of(msg, struct rdt_abort, msg);
	struct rdt_req *victim = rdt_qpair_find(ab->qp, ab->cid);

	if (!victim || victim == ab->req || victim->aborter) {
		abort_reply(ab, false);
		return;
	}
	ab->timer.fn = abort_timed_out;
	if (rd_timer_start(ab->qp->reactor->loop, &ab->timer, RDT_ABORT_TIMEOUT)) {
		abort_reply(ab, false);
		return;
	}
	victim->aborter = ab;
	ab->victim = victim;
	/* The victim may end in this call. Then the reply was posted, and @ab belongs to another
	 * thread. */
	if (rdt_req_abort(victim) == RDT_ABORT_NO)
		abort_timed_out(&ab->timer);
}

struct nvme_status rdt_abort_check(struct rdt_req *req)
{
	if (req->qp->ctrl->aborts == RDT_ABORT_MAX)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_ABORT_LIMIT, RDT_LOC_NONE);
	return NVME_OK;
}

enum rdt_exec rdt_abort_exec(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct rdt_abort *ab = &req->abort;
	uint32_t cdw10 = le32toh(req->sqe.cdw10);
	uint16_t sqid = cdw10 & 0xffff;

	rdt_count_event(req->qp, RDT_COUNT_ABORTS);
	ab->req = req;
	ab->cid = (uint16_t)(cdw10 >> 16);
	ab->qp = sqid == 0 ? req->qp : sqid <= ctrl->queues_max ? ctrl->ioqs[sqid].qp : NULL;
	if (!ab->qp) {
		req->cqe.result = htole32(1);
		return RDT_EXEC_DONE;
	}
	ctrl->aborts++;
	ab->msg.fn = abort_look_msg;
	rd_loop_post(ab->qp->reactor->loop, &ab->msg);
	return RDT_EXEC_PENDING;
}
