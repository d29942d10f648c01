/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused operation: Compare and Write. Its two commands follow each other in a queue and are paired
 * before either begins. The pair takes one buffer for the data of both, so that no command waits
 * for a buffer while its partner holds one. Each command fetches its data; when both are READY, the
 * first one executes the pair. If one fails, the pair ends.
 *
 * Neither command keeps its capsule while it waits for data from the host, because the host may be
 * waiting for a capsule for another command.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"
#include "stale_write.h"
#include "io.h"
#include "request.h"
#include "target.h"
#include "target/config/tgt_limits.h"

#define FUSE(req)     ((req)->sqe.flags & NVME_CMD_FUSE_MASK)
#define LOC_FUSE      (offsetof(struct nvme_sqe, flags))
#define SC_GENERIC(c) nvme_status_dnr(NVME_SCT_GENERIC, c)

struct nvme_status rdt_fused_check(struct rdt_req *req)
{
	const struct rdt_qpair *qp = req->qp;
	uint8_t want = FUSE(req) == NVME_CMD_FUSE_FIRST ? nvme_cmd_compare : nvme_cmd_write;

	if (qp->admin || req->sqe.opcode != want || FUSE(req) == NVME_CMD_FUSE_MASK ||
	    !rdt_fused_supported(qp->ctrl->subsys))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC_FUSE);
	if (rdt_io_nlb(req) > RDT_ACWU(rdt_req_target(req)->cfg->target.max_data_bytes))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_AWU_EXCEEDED, RDT_LOC(cdw12));
	return NVME_OK;
}

/* Copy the in-capsule data of the first command to a buffer of which each queue has one. If it is
 * in use, the copy is made when it is free again. */
void rdt_fused_waits(struct rdt_req *first)
{
	struct rdt_qpair *qp = first->qp;

	if (!first->cap || qp->aside)
		return;
	if (!qp->aside_data)
		qp->aside_data = malloc(qp->in_capsule_max);
	if (!qp->aside_data)
		return;
	memcpy(qp->aside_data, first->buf, first->data_len);
	first->buf = qp->aside_data;
	qp->aside = first;
	rdt_req_release_capsule(first);
}

static void copy_aside(struct rdt_req *first)
{
	struct rdt_qpair *qp = first->qp;

	if (qp->aside != first)
		return;
	qp->aside = NULL;
	if (qp->fused)
		rdt_fused_waits(qp->fused);
}

static void end_pair(struct rdt_req *req, struct nvme_status st)
{
	copy_aside(req);
	req->status = st;
	rdt_req_move(req, RDT_REQ_EXECUTED);
	rdt_req_process(req);
}

static struct nvme_status same_blocks(struct rdt_req *second, const struct rdt_req *first)
{
	if (second->ns != first->ns)
		return rdt_req_fail(second, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(nsid));
	if (rdt_io_slba(second) != rdt_io_slba(first))
		return rdt_req_fail(second, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw10));
	if (rdt_io_nlb(second) != rdt_io_nlb(first))
		return rdt_req_fail(second, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw12));
	return NVME_OK;
}

struct nvme_status rdt_fused_arrived(struct rdt_req *req, struct nvme_status st)
{
	struct rdt_qpair *qp = req->qp;
	struct rdt_req *first = qp->fused;
	bool failed = qp->fuse_failed;

	qp->fused = NULL;
	qp->fuse_failed = false;
	/* Delaying one command of the pair would change the order of commands in its queue. */
	if (FUSE(req) && nvme_status_ok(st) && rdt_fence_blocks(req))
		st = nvme_status(NVME_SCT_GENERIC, NVME_SC_NS_NOT_READY);
	if (FUSE(req) != NVME_CMD_FUSE_SECOND) {
		if (first)
			end_pair(first, SC_GENERIC(NVME_SC_FUSED_MISSING));
		if (qp->state >= RDT_QP_CLOSING)
			return st; /* @req was ended together with its queue */
		if (FUSE(req) == NVME_CMD_FUSE_FIRST && nvme_status_ok(st))
			qp->fused = req;
		qp->fuse_failed = FUSE(req) == NVME_CMD_FUSE_FIRST && !nvme_status_ok(st);
		return st;
	}
	if (!first && !failed && !nvme_status_ok(st))
		return st;
	if (!first)
		return SC_GENERIC(failed ? NVME_SC_FUSED_FAIL : NVME_SC_FUSED_MISSING);
	if (nvme_status_ok(st))
		st = same_blocks(req, first);
	if (!nvme_status_ok(st)) {
		end_pair(first, SC_GENERIC(NVME_SC_FUSED_FAIL));
		return st;
	}
	first->partner = req;
	req->partner = first;
	return NVME_OK;
}

void rdt_fused_parsed(struct rdt_req *second)
{
	struct rdt_req *first = second->partner;

	if (first->buf && second->buf) {
		rdt_req_move(first, RDT_REQ_READY);
		rdt_req_move(second, RDT_REQ_READY);
		return;
	}
	first->pool_len = first->data_len + second->data_len;
	rdt_req_need_buffer(first);
	rdt_req_process(first);
}

/* Assign the command's part of the pair's buffer, and copy in-capsule data there. */
static void place_fused_data(struct rdt_req *req, uint8_t **next)
{
	rdt_req_move(req, req->buf ? RDT_REQ_READY : RDT_REQ_FETCH);
	if (req->buf)
		memcpy(*next, req->buf, req->data_len);
	req->buf = *next;
	*next += req->data_len;
}

void rdt_fused_buffer(struct rdt_req *first)
{
	struct rdt_req *second = first->partner;
	uint8_t *next = first->pool_buf;

	place_fused_data(first, &next);
	place_fused_data(second, &next);
	copy_aside(first);
	rdt_req_release_capsule(first);
	rdt_req_release_capsule(second);
	rdt_req_process(second);
}

void rdt_fused_ready(struct rdt_req *req)
{
	struct rdt_req *partner = req->partner;
	struct rdt_req *first = FUSE(req) == NVME_CMD_FUSE_FIRST ? req : partner;

	/* The first command failed before the pair had a buffer. */
	if (!nvme_status_ok(req->status) && partner->state == RDT_REQ_FUSED)
		rdt_req_move(partner, RDT_REQ_READY);
	if (partner->state != RDT_REQ_READY)
		return; /* the partner calls this function as well */
	rdt_req_revalidate(req);
	rdt_req_revalidate(partner); /* which may have been READY for a long time */
	rdt_req_move(first, RDT_REQ_EXECUTING);
	rdt_req_move(first->partner, RDT_REQ_EXECUTING);
	if (nvme_status_ok(first->status) && !nvme_status_ok(first->partner->status))
		first->status = SC_GENERIC(NVME_SC_FUSED_FAIL);
	if (!nvme_status_ok(first->status) || first->cmd->exec_fused(first) == RDT_EXEC_DONE)
		rdt_fused_complete(first);
}

void rdt_fused_complete(struct rdt_req *req)
{
	struct rdt_req *second = req->partner;

	if (second)
		copy_aside(req);
	if (second && !nvme_status_ok(req->status) && nvme_status_ok(second->status))
		second->status = SC_GENERIC(NVME_SC_FUSED_FAIL);
	rdt_req_complete(req);
	if (second)
		rdt_req_complete(second);
}

void rdt_fused_orphan(struct rdt_qpair *qp)
{
	struct rdt_req *first = qp->fused;

	qp->fused = NULL;
	if (first)
		end_pair(first, SC_GENERIC(NVME_SC_FUSED_MISSING));
}

void rdt_fused_abort(struct rdt_req *first, struct nvme_status st)
{
	first->qp->fused = NULL;
	first->qp->fuse_failed = true;
	end_pair(first, st);
}
