/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the I/O commands: admission checks, bios and their results, commands of several
 * steps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "util/log.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "ana.h"
#include "gate.h"
#include "slices.h"
#include "io.h"
#include "host_access.h"
#include "pool.h"
#include "resv.h"
#include "target/nvmf/base/status.h"
#include "subsys.h"
#include "target.h"
#include "target/config/tgt_limits.h"

/* ---- admission ---- */

/* Dataset Management without Deallocate is only a hint, so it does not count as a write. */
static bool is_write_cmd(const struct rdt_req *req)
{
	return req->cmd->flags & RDT_CMD_WRITES &&
	       (req->sqe.opcode != nvme_cmd_dsm || le32toh(req->sqe.cdw11) & RDT_DSM_AD);
}

/* Check what other threads or hosts may change at any time. */
static inline struct nvme_status check_now(struct rdt_req *req)
{
	struct nvme_status st;

	if (!rdt_ns_visible(req->qp->ctrl, req->ns))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	st = rdt_ana_check(req);
	if (!nvme_status_ok(st))
		return st;
	if (rdt_ns_write_protected(req->ns) && is_write_cmd(req))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_NS_WRITE_PROTECTED,
				    RDT_LOC(nsid));
	return rdt_resv_check(req);
}

struct nvme_status rdt_io_admit(struct rdt_req *req)
{
	if (!rdt_ns_take(req, le32toh(req->sqe.nsid)))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	return check_now(req);
}

/* The ranges of a list (Copy, Dataset Management) are not checked here, but during execution. */
struct nvme_status rdt_io_admit_again(struct rdt_req *req)
{
	struct nvme_status st = check_now(req);

	if (nvme_status_ok(st) && req->cmd->flags & RDT_CMD_BLOCKS)
		st = rdt_io_check_range(req, rdt_io_slba(req), rdt_io_nlb(req));
	return st;
}

bool rdt_fused_supported(const struct rdt_subsys *ss)
{
	return !rdt_subsys_is_disc(ss) && RDT_ACWU(ss->target->cfg->target.max_data_bytes) > 0;
}

/* ---- bios ---- */

static void add_to_counter(_Atomic uint64_t *counter, uint64_t n)
{
	/* This reactor is the only writer, so no locked instruction is needed. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* Log details of the failure that the status code cannot express. */
static void log_io_failure(struct rdt_req *req)
{
	const struct rdt_bio *bio = &req->bio;
	struct rdt_qpair *qp = req->qp;

	rd_log_limited(&qp->fail_limit, rd_loop_now(qp->reactor->loop), qp->log, RD_LOG_BACKEND,
		       RD_LOG_ERROR, "%s namespace %u: %s of %llu bytes at %llu failed: %s",
		       req->ns->subsys->nqn, req->ns->nsid, nvme_cmd_text(false, &req->sqe),
		       (unsigned long long)bio->length, (unsigned long long)bio->offset,
		       bio->result == -ENOTRECOVERABLE ? "refused, because its storage has failed"
						       : strerror(-bio->result));
}

static RD_COLD void bio_failed(struct rdt_req *req)
{
	const struct rdt_bio *bio = &req->bio;

	req->status = bio->status ? nvme_status(bio->status >> 8, bio->status & 0xff)
				  : rdt_status_from_errno(bio->result, bio->op);
	/* Not failures of the storage: the I/O was aborted, or another gateway holds the
	 * storage. */
	if (bio->result == -ECANCELED || bio->result == -ESHUTDOWN)
		return;
	req->err_lba = bio->offset >> req->ns->lbads;
	add_to_counter(&req->channel->counters->media_errors, 1);
	log_io_failure(req);
}

void rdt_io_result(struct rdt_req *req)
{
	const struct rdt_bio *bio = &req->bio;
	struct rdt_counters *c = req->channel->counters;

	req->wait = RDT_WAIT_NONE;
	if (bio->result) {
		bio_failed(req);
		return;
	}
	switch (bio->op) {
	case RDT_BIO_READ:
		add_to_counter(&c->reads, 1);
		add_to_counter(&c->blocks_read, bio->length >> 9);
		return;
	case RDT_BIO_FLUSH:
	case RDT_BIO_EXTENTS:
		return;
	case RDT_BIO_WRITE:
		add_to_counter(&c->writes, 1);
		add_to_counter(&c->blocks_written, bio->length >> 9);
		break;
	}
	if (atomic_load_explicit(&req->ns->uncor.count, memory_order_acquire))
		rdt_uncor_clear(req->ns, bio->offset >> req->ns->lbads,
				bio->length >> req->ns->lbads);
}

bool rdt_io_unmarked(struct rdt_req *req, uint64_t lba, uint64_t blocks)
{
	uint64_t bad;

	if (!rdt_uncor_find(req->ns, lba, blocks, &bad))
		return true;
	req->status = nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_READ_ERROR);
	req->err_lba = bad;
	return false;
}

/* ---- steps ---- */

/* The ANA statuses say that nothing was executed, so they must not end a command that was partly
 * executed. */
static void step_result(struct rdt_req *req)
{
	const struct rdt_bio *bio = &req->bio;

	rdt_io_result(req);
	if (bio->result == -ESHUTDOWN && !bio->status && req->work.changed)
		req->status = nvme_status(NVME_SCT_PATH, NVME_SC_ANA_INTERNAL_PATH_ERROR);
	req->work.changed |= !bio->result && rdt_bio_op_writes(bio->op);
}

static void step_bio_done(struct rdt_bio *bio)
{
	struct rdt_req *req = rd_container_of(bio, struct rdt_req, bio);

	step_result(req);
	rdt_io_resume(req);
}

enum rdt_step rdt_io_step_bio(struct rdt_req *req)
{
	if (rdt_io_stopped(req))
		return RDT_STEP_DONE;
	if (rdt_io_submit(req, step_bio_done) == RDT_BIO_QUEUED)
		return RDT_STEP_WAIT;
	step_result(req);
	return RDT_STEP_AGAIN;
}

enum rdt_step rdt_io_step_flush(struct rdt_req *req)
{
	if (!rdt_bdev_has_cache(req->ns->bdev)) {
		/* There is no bio that the backend would refuse. */
		if (rdt_bdev_elsewhere(rdt_bdev_base(req->ns->bdev)))
			req->status = rdt_status_from_errno(-ESHUTDOWN, RDT_BIO_FLUSH);
		return RDT_STEP_AGAIN;
	}
	rdt_io_fill(req, RDT_BIO_FLUSH, 0, 0, NULL);
	return rdt_io_step_bio(req);
}

enum rdt_step rdt_io_step_sync(struct rdt_req *req)
{
	return rdt_io_fua_read(req) ? rdt_io_step_flush(req) : RDT_STEP_AGAIN;
}

enum rdt_step rdt_io_step_read(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;
	uint64_t left = rdt_io_slba(req) + rdt_io_nlb(req) - w->lba;
	uint32_t most = RDT_SCRATCH_PIECE >> req->ns->lbads;

	w->blocks = left < most ? (uint32_t)left : most;
	rdt_io_fill(req, RDT_BIO_READ, w->lba, w->blocks, w->scratch);
	return rdt_io_step_bio(req);
}

enum rdt_step rdt_io_step_scratch(struct rdt_req *req)
{
	if (rdt_io_stopped(req))
		return RDT_STEP_DONE;
	req->work.scratch = rdt_pool_get(&req->qp->reactor->pools[RDT_POOL_SCRATCH], req);
	if (req->work.scratch)
		return RDT_STEP_AGAIN;
	req->wait = RDT_WAIT_SCRATCH;
	return RDT_STEP_WAIT;
}

void rdt_io_scratch(struct rdt_req *req, void *buf)
{
	req->work.scratch = buf;
	req->wait = RDT_WAIT_NONE;
	rdt_io_resume(req);
}

void rdt_io_put_scratch(struct rdt_req *req)
{
	if (req->work.scratch)
		rdt_pool_put(&req->qp->reactor->pools[RDT_POOL_SCRATCH],
			     rdt_pool_scratch_payer(req), req->work.scratch, RDT_SCRATCH_PIECE,
			     false);
	req->work.scratch = NULL;
}

enum rdt_step rdt_io_step_lock(struct rdt_req *req, const struct rdt_span *spans, unsigned int n)
{
	if (rdt_io_stopped(req))
		return RDT_STEP_DONE;
	if (!req->partner && rdt_range_count(req))
		return RDT_STEP_AGAIN;
	memcpy(req->range.spans, spans, n * sizeof(*spans));
	req->range.count = (uint8_t)n;
	return rdt_range_lock(req) ? RDT_STEP_AGAIN : RDT_STEP_WAIT;
}

enum rdt_step rdt_io_step_lock_blocks(struct rdt_req *req, bool excl)
{
	struct rdt_span span = {rdt_io_slba(req), rdt_io_slba(req) + rdt_io_nlb(req), excl};

	return rdt_io_step_lock(req, &span, 1);
}

bool rdt_io_ranges(struct rdt_req *req, unsigned int count)
{
	req->work.ranges = calloc(count, sizeof(*req->work.ranges));
	if (!req->work.ranges)
		req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
	return req->work.ranges;
}

static enum rdt_exec run_steps(struct rdt_req *req)
{
	enum rdt_step s;

	do
		s = nvme_status_ok(req->status) ? req->work.step(req) : RDT_STEP_DONE;
	while (s == RDT_STEP_AGAIN);
	if (s == RDT_STEP_WAIT)
		return RDT_EXEC_PENDING;
	rdt_io_put_scratch(req);
	if (req->work.extents)
		rdt_extents_end(req);
	rdt_range_end(req);
	free(req->work.ranges);
	req->work.ranges = NULL;
	return RDT_EXEC_DONE;
}

enum rdt_exec rdt_io_run(struct rdt_req *req, enum rdt_step (*step)(struct rdt_req *req))
{
	memset(&req->work, 0, sizeof(req->work));
	req->work.step = step;
	return run_steps(req);
}

void rdt_io_resume(struct rdt_req *req)
{
	if (run_steps(req) == RDT_EXEC_DONE)
		rdt_fused_complete(req);
}

bool rdt_io_stopped(struct rdt_req *req)
{
	if (req->state == RDT_REQ_EXECUTING)
		return false;
	req->status = nvme_status(NVME_SCT_GENERIC, NVME_SC_ABORT_REQ);
	return true;
}

bool rdt_io_can_cancel(const struct rdt_req *req)
{
	switch (req->wait) {
	case RDT_WAIT_BIO:
	case RDT_WAIT_OLD_BIO:
		return req->channel->chan->bdev->ops->cancel || req->work.step;
	case RDT_WAIT_SCRATCH:
	case RDT_WAIT_EXTENTS:
	case RDT_WAIT_SLICE:
	case RDT_WAIT_GATE:
		return true;
	default:
		return req->range.state == RDT_RANGE_WAITING;
	}
}

/* End @req, which was removed from the queue on which it waited. */
static void stop_waiting(struct rdt_req *req)
{
	rdt_io_stopped(req);
	rdt_io_resume(req);
}

void rdt_io_cancel(struct rdt_req *req)
{
	struct rdt_chan *chan;

	switch (req->wait) {
	case RDT_WAIT_BIO:
	case RDT_WAIT_OLD_BIO:
		chan = req->channel->chan;
		if (chan->bdev->ops->cancel)
			chan->bdev->ops->cancel(chan, &req->bio);
		break;
	case RDT_WAIT_SCRATCH:
		rdt_pool_unwait(&req->qp->reactor->pools[RDT_POOL_SCRATCH], req);
		req->wait = RDT_WAIT_NONE;
		stop_waiting(req);
		break;
	case RDT_WAIT_EXTENTS:
		rdt_extents_unwait(req);
		stop_waiting(req);
		break;
	case RDT_WAIT_SLICE:
		rdt_slice_unwait(req);
		stop_waiting(req);
		break;
	case RDT_WAIT_GATE:
		rdt_gate_unwait(req);
		break;
	default:
		/* Otherwise the message that grants the lock was already posted; its handler ends
		 * the command. */
		if (rdt_range_unwait(req))
			stop_waiting(req);
	}
}
