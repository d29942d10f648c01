/* SPDX-License-Identifier: BSD-3-Clause */
/* The processing of a command: parse, get a buffer, fetch, execute, respond. req_state.h has the
 * states, req_state.c the table of transitions. */
#include "request.h"

#include <errno.h>

#include "util/cold.h"
#include "util/log.h"
#include "admin_budget.h"
#include "ctrl.h"
#include "events.h"
#include "qos_queue.h"
#include "stale_write.h"
#include "io.h"
#include "io_stats.h"
#include "ns.h"
#include "resv.h"
#include "req_latency.h"
#include "subsys.h"
#include "target.h"

#define RDT_REQ_MAGIC 0x71657274u

RD_COLD void rdt_req_report_state(struct rdt_req *req, enum rdt_req_state next)
{
	rd_trace(req->qp->log, RD_LOG_QPAIR, "qid %u cid %#x: %s -> %s", req->qp->qid,
		 rdt_sqe_cid(req), rdt_req_state_name(req->state), rdt_req_state_name(next));
	if (req->timed)
		rdt_timing_leave(req);
}

struct nvme_status rdt_req_fail(struct rdt_req *req, unsigned int sct, unsigned int sc,
				unsigned int loc)
{
	req->err_loc = (uint16_t)loc;
	return nvme_status_dnr(sct, sc);
}

void rdt_req_init(struct rdt_req *req)
{
	req->magic = RDT_REQ_MAGIC;
	req->state = RDT_REQ_FREE;
}

void rdt_req_fini(const struct rdt_req *req)
{
	assert(req->magic == RDT_REQ_MAGIC && req->state == RDT_REQ_FREE);
}

void rdt_req_release_capsule(struct rdt_req *req)
{
	struct rdt_capsule *cap = req->cap;

	if (!cap)
		return;
	req->cap = NULL;
	req->qp->ops->capsule_done(req->qp, cap);
}

/* Returns the status for a command that does not exist, or is not allowed on a queue that has to
 * authenticate. */
static RD_COLD struct nvme_status no_command(struct rdt_req *req, bool fabrics)
{
	if (req->qp->state == RDT_QP_AUTH)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVMF_SC_AUTH_REQUIRED, 0);
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_OPCODE, fabrics ? 4 : 0);
}

bool rdt_cmd_supported(const struct rdt_cmd *cmd, const struct rdt_subsys *ss)
{
	return cmd->exec && (!rdt_subsys_is_disc(ss) || cmd->flags & RDT_CMD_DISC) &&
	       (!cmd->supported || cmd->supported(ss));
}

/* Find the command in the tables, and check that it is allowed at present and on this queue. */
static struct nvme_status find_command(struct rdt_req *req)
{
	const struct rdt_qpair *qp = req->qp;
	const struct rdt_cmd *cmd;
	bool fabrics = req->sqe.opcode == NVMF_OPCODE;
	uint8_t code = fabrics ? req->sqe.fctype : req->sqe.opcode;

	req->dir = code & 3;
	if (!qp->ctrl && !(fabrics && code == nvme_fabrics_type_connect))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
	cmd = fabrics ? &qp->reactor->target->cmds->fabrics[code] : &qp->cmds[code];
	if (!cmd->exec)
		return no_command(req, fabrics);
	req->cmd = cmd;
	if (fabrics)
		return qp->state != RDT_QP_AUTH || cmd->flags & RDT_CMD_UNAUTHENTICATED
			       ? NVME_OK
			       : no_command(req, fabrics);
	if ((qp->admin || cmd->supported) && !rdt_cmd_supported(cmd, qp->ctrl->subsys))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_OPCODE, 0);
	if (!qp->admin)
		return NVME_OK;
	/* The controller's state belongs to its owner. I/O queues exist only while the controller
	 * is ready, and are closed afterwards. */
	if (qp->ctrl->state != RDT_CTRL_READY)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
	return NVME_OK;
}

/* The command was parsed and admitted. Its in-capsule data needs no other buffer. */
static void keep_capsule_data(struct rdt_req *req)
{
	if (req->data_len && req->data_at == RDT_DATA_IN_CAPSULE)
		req->buf = req->cap->data + req->offset;
	else
		rdt_req_release_capsule(req);
}

static struct nvme_status parse_req(struct rdt_req *req)
{
	struct nvme_status sgl = req->qp->ops->parse_sgl(req);
	struct nvme_status st = find_command(req);

	if (!nvme_status_ok(st))
		return st;
	if (!nvme_status_ok(sgl))
		return sgl;
	if (req->sqe.flags & NVME_CMD_FUSE_MASK)
		st = rdt_fused_check(req);
	if (nvme_status_ok(st) && req->cmd->check)
		st = req->cmd->check(req);
	return nvme_status_ok(st) ? rdt_sgl_match(req) : st;
}

/* Continue with one command of a fused pair. */
static RD_COLD void new_fused(struct rdt_req *req)
{
	/* Delaying one command of the pair would change the order of commands in its queue. */
	rdt_qos_charge(req);
	rdt_req_move(req, RDT_REQ_FUSED);
	if (req->partner)
		rdt_fused_parsed(req);
	else
		rdt_fused_waits(req);
}

static bool needs_buffer(const struct rdt_req *req)
{
	return req->data_len && !req->buf;
}

static void execute(struct rdt_req *req)
{
	rdt_req_move(req, RDT_REQ_EXECUTING);
	if (req->cmd->exec(req) == RDT_EXEC_DONE)
		rdt_req_move(req, RDT_REQ_EXECUTED);
}

/* req->pool_buf is for the data of @req or, in a fused pair, of both commands. */
static void got_buffer(struct rdt_req *req)
{
	if (req->partner) {
		rdt_fused_buffer(req);
		return;
	}
	req->buf = req->pool_buf;
	rdt_req_move(req, req->dir == RDT_DIR_H2C ? RDT_REQ_FETCH : RDT_REQ_READY);
}

void rdt_req_need_buffer(struct rdt_req *req)
{
	struct rdt_pool *pools = req->qp->reactor->pools;

	rdt_req_move(req, RDT_REQ_NEED_BUFFER);
	if (!req->partner)
		req->pool_len = req->data_len;
	req->pool = &pools[RDT_POOL_IO];
	if (!req->qp->ctrl)
		req->pool = &pools[RDT_POOL_CONNECT];
	else if (req->qp->admin && req->data_len <= RDT_RESERVE_MAX)
		req->pool = &pools[RDT_POOL_RESERVE];
	req->pool_buf = rdt_pool_get(req->pool, req);
	if (req->pool_buf)
		got_buffer(req);
}

/* Queue the command for the stale-write fence, then for the QoS limits, or continue. The fence
 * comes first, so that a command that waits there has not used its limits yet. */
static void throttle(struct rdt_req *req)
{
	if (rdt_fence_blocks(req)) {
		if (rdt_fence_wait(req))
			return;
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_NS_NOT_READY);
		rdt_req_move(req, RDT_REQ_EXECUTED);
		return;
	}
	if (!rdt_qos_admit(req))
		return;
	if (needs_buffer(req))
		rdt_req_need_buffer(req);
	else
		rdt_req_move(req, RDT_REQ_READY);
}

void rdt_req_resume(struct rdt_req *req)
{
	assert(req->state == RDT_REQ_FENCED || req->state == RDT_REQ_LIMITED);
	req->waited = true;
	throttle(req);
	rdt_req_process(req);
}

static void state_new(struct rdt_req *req)
{
	struct rdt_qpair *qp = req->qp;
	struct nvme_status st = parse_req(req);

	if (qp->admin)
		rdt_admin_charge(qp, RDT_ADMIN_COST + req->data_len);
	if (req->sqe.flags & NVME_CMD_FUSE_MASK || qp->fused || qp->fuse_failed)
		st = rdt_fused_arrived(req, st);
	if (nvme_status_ok(st) && qp->state < RDT_QP_CLOSING)
		keep_capsule_data(req);
	if (qp->state >= RDT_QP_CLOSING)
		return; /* posting has failed; @req has ended with its queue pair */
	if (!nvme_status_ok(st)) {
		req->status = st;
		rdt_req_move(req, RDT_REQ_EXECUTED);
		return;
	}
	if (req->sqe.flags & NVME_CMD_FUSE_MASK) {
		new_fused(req);
	} else if (req->ns && (rdt_qos_limited(req) || rdt_fence_blocks(req))) {
		throttle(req);
	} else if (needs_buffer(req)) {
		rdt_req_need_buffer(req);
	} else {
		rdt_req_move(req, RDT_REQ_READY);
		execute(req);
	}
}

void rdt_req_buffer(struct rdt_req *req, void *buf)
{
	assert(req->state == RDT_REQ_NEED_BUFFER);
	req->pool_buf = buf;
	req->waited = true;
	got_buffer(req);
	rdt_req_process(req);
}

static void state_fetch(struct rdt_req *req)
{
	rdt_req_move(req, RDT_REQ_FETCHING);
	req->qp->ops->fetch(req);
}

void rdt_req_fetched(struct rdt_req *req, int err)
{
	assert(req->magic == RDT_REQ_MAGIC && rdt_req_fetching(req));
	req->waited = true;
	if (err && nvme_status_ok(req->status))
		req->status =
			nvme_status(NVME_SCT_GENERIC, err == -EBADMSG ? NVME_SC_TRAN_TPORT_ERROR
								      : NVME_SC_DATA_XFER_ERROR);
	rdt_req_move(req, req->partner || nvme_status_ok(req->status) ? RDT_REQ_READY
								      : RDT_REQ_EXECUTED);
	rdt_req_process(req);
}

/* While the command waited (limit, buffer, data, range lock), a reservation may have been acquired,
 * the namespace may have been write protected, shrunk or hidden from the host, or the ANA state may
 * have changed. */
bool rdt_req_revalidate(struct rdt_req *req)
{
	if (req->ns && !req->qp->admin && nvme_status_ok(req->status))
		req->status = rdt_io_admit_again(req);
	return nvme_status_ok(req->status);
}

static void state_ready(struct rdt_req *req)
{
	if (req->partner)
		rdt_fused_ready(req);
	else if (!req->waited || rdt_req_revalidate(req))
		execute(req);
	else
		rdt_req_move(req, RDT_REQ_EXECUTED);
}

/* Returns the status of a command that ends early. @why: ABORTING, PREEMPTED or NS_GONE. */
static struct nvme_status early_status(struct rdt_req *req, enum rdt_req_state why)
{
	switch (why) {
	case RDT_REQ_PREEMPTED:
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_ABORTED_PREMEPT);
	case RDT_REQ_NS_GONE: /* the same status as for new commands */
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	default:
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_ABORT_REQ);
	}
}

/*
 * A command that was requested to end early has completed. If it was stopped, its status is Command
 * Abort Requested, which is replaced by the status for the reason; while its namespace is removed,
 * any other failure is replaced too. The status is kept if its host waits for an Abort of the
 * command.
 */
static RD_COLD void ended_early(struct rdt_req *req)
{
	bool was_stopped = (req->status.v & 0x7ff) == NVME_SC_ABORT_REQ;

	if (!nvme_status_ok(req->status) && !req->aborter &&
	    (was_stopped || req->state == RDT_REQ_NS_GONE))
		req->status = early_status(req, req->state);
	if (req->fence)
		rdt_resv_req_left(req);
}

void rdt_req_complete(struct rdt_req *req)
{
	assert(req->magic == RDT_REQ_MAGIC && rdt_req_executing(req));
	if (req->state != RDT_REQ_EXECUTING)
		ended_early(req);
	rdt_req_move(req, RDT_REQ_EXECUTED);
	rdt_req_process(req);
}

/* Log the failure; rate limited, because hosts can cause failures. */
static RD_COLD void report_failure(struct rdt_req *req)
{
	struct rdt_qpair *qp = req->qp;
	char text[NVME_STATUS_TEXT];

	if (qp->ctrl)
		rdt_ctrl_log_error(qp->ctrl, req);
	rd_log_limited(&qp->fail_limit, rd_loop_now(qp->reactor->loop), qp->log, RD_LOG_QPAIR,
		       RD_LOG_INFO, "qid %u cid %#x opcode %#x%s%s: %s", qp->qid, rdt_sqe_cid(req),
		       req->sqe.opcode, req->cmd ? " " : "",
		       req->cmd ? nvme_cmd_text(!qp->qid, &req->sqe) : "",
		       nvme_status_text(req->status, nvme_cmd_kind(!qp->qid, &req->sqe), text));
}

static void state_executed(struct rdt_req *req)
{
	struct rdt_qpair *qp = req->qp;
	bool with_data = req->dir == RDT_DIR_C2H && req->data_len;

	if (req->aborter)
		rdt_abort_victim_done(req);
	/* Before the answer, because that lets the host send the next command. */
	if (req->cap) {
		rdt_req_release_capsule(req);
		if (qp->state >= RDT_QP_CLOSING)
			return; /* like in state_new() */
	}
	if (!nvme_status_ok(req->status)) {
		with_data = false;
		report_failure(req);
		if (qp->ctrl)
			req->status = rdt_ctrl_retry_delay(qp->ctrl, req->status);
	}
	if (qp->sqflow_off) {
		req->cqe.sqhd = htole16(0xffff);
	} else {
		if (qp->sqsize && ++qp->sqhd >= qp->sqsize)
			qp->sqhd = 0;
		req->cqe.sqhd = htole16(qp->sqhd);
	}
	req->cqe.sqid = htole16(qp->qid);
	req->cqe.cid = req->sqe.cid;
	req->cqe.status = nvme_status_to_wire(req->status);
	rdt_req_move(req, RDT_REQ_RESPONDING);
	qp->ops->respond(req, with_data);
}

/* The command of a fused pair that ends last returns the buffer, because a READ may still fill the
 * other command's part. */
static RD_COLD void leave_pair(struct rdt_req *req)
{
	struct rdt_req *partner = req->partner;

	partner->partner = req->partner = NULL;
	if (!req->pool_buf)
		return;
	partner->pool = req->pool;
	partner->payer = req->payer;
	partner->pool_buf = req->pool_buf;
	partner->pool_len = req->pool_len;
	req->pool_buf = NULL;
}

/* Returns whether the transfer counts. The first bytes sent to a host may still be in buffers on
 * the way to it; data from a host counts at once. */
static RD_COLD bool prove(struct rdt_qpair *qp, uint32_t len)
{
	qp->unproven -= len < qp->unproven ? len : qp->unproven;
	return false;
}

static bool moved(const struct rdt_req *req)
{
	struct rdt_qpair *qp = req->qp;

	if (!nvme_status_ok(req->status) || qp->state >= RDT_QP_CLOSING)
		return false;
	return req->dir != RDT_DIR_C2H || !qp->unproven || prove(qp, req->data_len);
}

/* Release all resources. Afterwards the request may already be in use again. */
static void finish_req(struct rdt_req *req)
{
	struct rdt_qpair *qp = req->qp;

	if (req->partner)
		leave_pair(req);
	if (req->pool_buf)
		rdt_pool_put(req->pool, req->payer, req->pool_buf, req->pool_len, moved(req));
	if (req->ns)
		rdt_ns_release(req);
	rdt_req_move(req, RDT_REQ_FREE);
	rdt_qpair_put(qp, req);
	rdt_qpair_next(qp);
}

/* Remove @req from the queue of its state. The caller moves it to another state. */
static RD_COLD void unqueue(struct rdt_req *req)
{
	if (req->state == RDT_REQ_FENCED)
		rdt_fence_unwait(req);
	else if (req->state == RDT_REQ_LIMITED)
		rdt_qos_unwait(req);
	else if (req->state == RDT_REQ_NEED_BUFFER)
		rdt_pool_unwait(req->pool, req);
}

static RD_COLD void drop_req(struct rdt_req *req)
{
	unqueue(req);
	rdt_req_move(req, RDT_REQ_DROPPED);
	if (req->aborter)
		rdt_abort_victim_done(req);
	rdt_req_release_capsule(req);
	if (req->qp->fused == req)
		req->qp->fused = NULL;
	finish_req(req);
}

void rdt_req_drop(struct rdt_req *req)
{
	assert(req->magic == RDT_REQ_MAGIC);
	rdt_req_move(req, RDT_REQ_EXECUTED);
	drop_req(req);
}

/* Count an answered command. In a batch, most commands equal the one before. */
static void count_answered(struct rdt_req *req)
{
	struct rdt_io_run *run = &req->qp->reactor->run;

	if (run->match == req->arrived && run->qp == req->qp && run->ns == req->ns &&
	    run->len == req->data_len && run->opcode == req->sqe.opcode &&
	    nvme_status_ok(req->status))
		run->count++;
	else
		rdt_io_count(req);
}

void rdt_req_responded(struct rdt_req *req)
{
	assert(req->magic == RDT_REQ_MAGIC && req->state == RDT_REQ_RESPONDING);
	rdt_req_move(req, RDT_REQ_DONE);
	if (req->arrived)
		count_answered(req);
	finish_req(req);
}

void rdt_req_process(struct rdt_req *req)
{
	uint8_t before;

	do {
		if (req->qp->state >= RDT_QP_CLOSING &&
		    rdt_req_may_move(req->state, RDT_REQ_DROPPED)) {
			drop_req(req);
			return;
		}
		before = req->state;
		switch (before) {
		case RDT_REQ_FETCH:
			state_fetch(req);
			break;
		case RDT_REQ_READY:
			state_ready(req);
			break;
		case RDT_REQ_EXECUTED:
			state_executed(req);
			return;
		default: /* other code moves it to the next state */
			return;
		}
	} while (req->state != before);
}

void rdt_req_begin(struct rdt_qpair *qp, struct rdt_req *req, struct rdt_capsule *cap)
{
	req->qp = qp;
	req->cap = cap;
	req->sqe = *cap->sqe;
	memset(req, 0, offsetof(struct rdt_req, cqe.sqhd));
	req->err_loc = RDT_LOC_NONE;
	req->work.step = NULL;
	req->range.state = RDT_RANGE_NONE;
	req->watched = qp->traced;
	req->arrived = 0;
	rdt_req_move(req, RDT_REQ_NEW);
	if (qp->ctrl) {
		rdt_keep_alive_traffic(qp->ctrl);
		/* Only I/O commands after Connect, because an AER may wait for hours. */
		if (!qp->admin) {
			req->arrived = __builtin_expect(qp->unread_since != 0, 0)
					       ? rdt_qpair_arrived(qp)
					       : rd_loop_now(qp->reactor->loop);
			if (--qp->reactor->timing.left == 0)
				rdt_timing_begin(req);
		}
	}
	state_new(req);
	rdt_req_process(req);
}

/* ---- ending early ---- */

/* Answer @req, to which only the queue pair refers, with @st. Both commands of a fused pair end. */
static enum rdt_abort_result end_now(struct rdt_req *req, struct nvme_status st)
{
	bool pair = req->partner;

	req->status = st;
	rdt_req_move(req, pair ? RDT_REQ_READY : RDT_REQ_EXECUTED);
	rdt_req_process(req);
	return pair ? RDT_ABORT_LATER : RDT_ABORT_YES;
}

/* The transport, or the partner in a fused pair, holds @req. It is too late for an Abort; for the
 * other reasons the command fails as soon as it is returned. */
static enum rdt_abort_result end_when_back(struct rdt_req *req, enum rdt_req_state why)
{
	if (why == RDT_REQ_ABORTING)
		return RDT_ABORT_NO;
	if (nvme_status_ok(req->status))
		req->status = early_status(req, why);
	if (req->state == RDT_REQ_FETCHING)
		rdt_req_move(req, RDT_REQ_FETCH_ENDING);
	return RDT_ABORT_LATER;
}

/* The state is changed first, because the command may complete within rdt_io_cancel(). */
static enum rdt_abort_result end_executing(struct rdt_req *req, enum rdt_req_state why)
{
	bool cancel = rdt_io_can_cancel(req);

	if (req->state < why)
		rdt_req_move(req, why);
	if (cancel)
		rdt_io_cancel(req);
	return RDT_ABORT_LATER;
}

/* End @req early in any state. @why: ABORTING, PREEMPTED or NS_GONE. */
static enum rdt_abort_result end_early(struct rdt_req *req, enum rdt_req_state why)
{
	struct rdt_qpair *qp = req->qp;

	switch (req->state) {
	case RDT_REQ_FUSED:
		if (req->partner)
			return end_when_back(req, why);
		rdt_fused_abort(req, early_status(req, why));
		return RDT_ABORT_YES;
	case RDT_REQ_FENCED:
	case RDT_REQ_LIMITED:
	case RDT_REQ_NEED_BUFFER:
		unqueue(req);
		return end_now(req, early_status(req, why));
	case RDT_REQ_FETCHING:
		if (qp->ops->fetch_cancel(req))
			return end_now(req, early_status(req, why));
		return end_when_back(req, why);
	case RDT_REQ_FETCH_ENDING:
	case RDT_REQ_READY:
		return end_when_back(req, why);
	case RDT_REQ_EXECUTING:
	case RDT_REQ_ABORTING:
	case RDT_REQ_PREEMPTED:
	case RDT_REQ_NS_GONE:
		if (qp->admin && rdt_aer_remove(qp->ctrl, req))
			return end_now(req, early_status(req, why));
		if (why == RDT_REQ_ABORTING && !rdt_io_can_cancel(req))
			return RDT_ABORT_NO;
		return end_executing(req, why);
	default:
		return RDT_ABORT_NO;
	}
}

enum rdt_abort_result rdt_req_abort(struct rdt_req *req)
{
	return end_early(req, RDT_REQ_ABORTING);
}

void rdt_req_preempt(struct rdt_req *req)
{
	end_early(req, RDT_REQ_PREEMPTED);
}

void rdt_req_ns_gone(struct rdt_req *req)
{
	end_early(req, RDT_REQ_NS_GONE);
}

void rdt_req_hang_up(struct rdt_req *req)
{
	rdt_req_process(req);
	/* In a slow backend or a layer, I/O that has begun may take a long time although no host
	 * waits for its result. */
	if (rdt_req_executing(req) && (!req->qp->admin || req->wait == RDT_WAIT_EXTENTS ||
				       req->wait == RDT_WAIT_SLICE || req->wait == RDT_WAIT_GATE))
		end_executing(req, RDT_REQ_ABORTING);
}
