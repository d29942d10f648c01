/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of I/O commands by opcode, and Read, Write and Flush. */
#include <errno.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "target/nvmf/ana.h"
#include "target/bdev/backend.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/request.h"
#include "target/nvmf/resv.h"

static struct nvme_status read_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (nvme_status_ok(st))
		st = rdt_io_check_data(req);
	if (nvme_status_ok(st) && req->ns->bdev->reads_zeroes)
		req->buf = req->qp->reactor->zeroes;
	return st;
}

static struct nvme_status write_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (nvme_status_ok(st))
		st = rdt_io_check_dtype(req);
	return nvme_status_ok(st) ? rdt_io_check_data(req) : st;
}

static void fill_read(struct rdt_req *req)
{
	rdt_io_fill(req, RDT_BIO_READ, rdt_io_slba(req), rdt_io_nlb(req), req->buf);
	if (req->buf == req->qp->reactor->zeroes)
		req->bio.flags |= RDT_BIO_BLANK;
}

static void fill_write_bio(struct rdt_req *req)
{
	rdt_io_fill(req, RDT_BIO_WRITE, rdt_io_slba(req), rdt_io_nlb(req), req->buf);
}

/* For commands that waited for a range lock, and those with FUA. FUA commits the returned data, so
 * the flush comes last: otherwise a write that ends between the flush and the read would be
 * returned although a power failure can undo it. */
static enum rdt_step read_step(struct rdt_req *req)
{
	enum { MOVE, SYNC, END };

	switch (req->work.phase) {
	case MOVE:
		req->work.phase = SYNC;
		if (!rdt_io_readable(req, rdt_io_slba(req), rdt_io_nlb(req)))
			return RDT_STEP_DONE;
		fill_read(req);
		return rdt_io_step_bio(req);
	case SYNC:
		req->work.phase = END;
		return rdt_io_step_sync(req);
	default:
		return RDT_STEP_DONE;
	}
}

static enum rdt_step write_step(struct rdt_req *req)
{
	if (req->work.phase++)
		return RDT_STEP_DONE;
	fill_write_bio(req);
	return rdt_io_step_bio(req);
}

static enum rdt_exec rw_wait(struct rdt_req *req, enum rdt_step (*step)(struct rdt_req *req))
{
	req->work = (struct rdt_work){.step = step};
	return RDT_EXEC_PENDING;
}

static void rw_done(struct rdt_bio *bio)
{
	struct rdt_req *req = rd_container_of(bio, struct rdt_req, bio);

	rdt_io_result(req);
	rdt_range_end(req);
	rdt_req_complete(req);
}

static enum rdt_exec rw_submit(struct rdt_req *req)
{
	if (rdt_io_submit(req, rw_done) == RDT_BIO_QUEUED)
		return RDT_EXEC_PENDING;
	rdt_io_result(req);
	rdt_range_end(req);
	return RDT_EXEC_DONE;
}

static enum rdt_exec read_exec(struct rdt_req *req)
{
	if (!rdt_range_begin(req, rdt_io_slba(req), rdt_io_nlb(req), false))
		return rw_wait(req, read_step);
	if (rdt_io_fua_read(req))
		return rdt_io_run(req, read_step);
	if (!rdt_io_readable(req, rdt_io_slba(req), rdt_io_nlb(req))) {
		rdt_range_end(req);
		return RDT_EXEC_DONE;
	}
	fill_read(req);
	return rw_submit(req);
}

static enum rdt_exec write_exec(struct rdt_req *req)
{
	if (!rdt_range_begin(req, rdt_io_slba(req), rdt_io_nlb(req), true))
		return rw_wait(req, write_step);
	fill_write_bio(req);
	return rw_submit(req);
}

/* Flush of all namespaces (FFFFFFFFh) that the host sees: proceeds by NSID, so that namespaces may
 * be added and removed meanwhile. */
static struct nvme_status flush_check(struct rdt_req *req)
{
	if (le32toh(req->sqe.nsid) != NVME_NSID_ALL)
		return rdt_io_admit(req);
	return NVME_OK;
}

static bool next_ns(struct rdt_req *req, uint32_t nsid)
{
	const struct rdt_ns *ns = rdt_ns_seen_next(req, nsid);

	if (req->ns)
		rdt_ns_release(req);
	return ns && rdt_ns_take(req, ns->nsid);
}

static enum rdt_step flush_step(struct rdt_req *req)
{
	bool all = le32toh(req->sqe.nsid) == NVME_NSID_ALL;

	if (all ? !next_ns(req, req->work.nsid) : req->work.nsid)
		return RDT_STEP_DONE;
	req->work.nsid = req->ns->nsid;
	if (all) {
		req->status = rdt_ana_check(req);
		if (nvme_status_ok(req->status))
			req->status = rdt_resv_check(req);
		if (!nvme_status_ok(req->status))
			return RDT_STEP_DONE;
	}
	return rdt_io_step_flush(req);
}

static enum rdt_exec flush_exec(struct rdt_req *req)
{
	return rdt_io_run(req, flush_step);
}

static bool can_write_zeroes(const struct rdt_subsys *ss)
{
	return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_WRITE_ZEROES;
}

static bool can_deallocate(const struct rdt_subsys *ss)
{
	return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_DEALLOCATE;
}

static bool can_mark(const struct rdt_subsys *ss)
{
	return ss->ns_count && ss->ops_mask & RDT_OPS_MARKS;
}

const struct rdt_cmd rdt_io_cmds[256] = {
	[nvme_cmd_flush] = {.check = flush_check, .exec = flush_exec},
	[nvme_cmd_write] = {.flags = RDT_CMD_WRITES | RDT_CMD_BLOCKS,
			    .effects = RDT_EFFECTS_WRITES,
			    .check = write_check,
			    .exec = write_exec},
	[nvme_cmd_read] = {.flags = RDT_CMD_BLOCKS, .check = read_check, .exec = read_exec},
	[nvme_cmd_write_uncor] = {.flags = RDT_CMD_WRITES | RDT_CMD_BLOCKS,
				  .oncs = NVME_CTRL_ONCS_WRITE_UNCORRECTABLE,
				  .effects = RDT_EFFECTS_WRITES,
				  .supported = can_mark,
				  .check = rdt_write_uncor_check,
				  .exec = rdt_write_uncor_exec},
	[nvme_cmd_compare] = {.flags = RDT_CMD_BLOCKS,
			      .oncs = NVME_CTRL_ONCS_COMPARE,
			      .check = rdt_compare_check,
			      .exec = rdt_compare_exec,
			      .exec_fused = rdt_compare_write_exec},
	[nvme_cmd_write_zeroes] = {.flags = RDT_CMD_WRITES | RDT_CMD_BLOCKS,
				   .oncs = NVME_CTRL_ONCS_WRITE_ZEROES,
				   .effects = RDT_EFFECTS_WRITES,
				   .supported = can_write_zeroes,
				   .check = rdt_write_zeroes_check,
				   .exec = rdt_write_zeroes_exec},
	/* Linux (nvme_setup_discard(), 6.1) always sends an SGL with room for 256 ranges. */
	[nvme_cmd_dsm] = {.flags = RDT_CMD_LONGER_SGL | RDT_CMD_WRITES,
			  .oncs = NVME_CTRL_ONCS_DSM,
			  .effects = RDT_EFFECTS_WRITES,
			  .supported = can_deallocate,
			  .check = rdt_dsm_check,
			  .exec = rdt_dsm_exec},
	[nvme_cmd_verify] = {.flags = RDT_CMD_BLOCKS,
			     .oncs = NVME_CTRL_ONCS_VERIFY,
			     .check = rdt_verify_check,
			     .exec = rdt_verify_exec},
	[nvme_cmd_resv_register] = {.oncs = NVME_CTRL_ONCS_RESERVATIONS,
				    .supported = rdt_resv_offered,
				    .check = rdt_resv_register_check,
				    .exec = rdt_resv_register_exec},
	[nvme_cmd_resv_report] = {.oncs = NVME_CTRL_ONCS_RESERVATIONS,
				  .supported = rdt_resv_offered,
				  .check = rdt_resv_report_check,
				  .exec = rdt_resv_report_exec},
	[nvme_cmd_resv_acquire] = {.oncs = NVME_CTRL_ONCS_RESERVATIONS,
				   .supported = rdt_resv_offered,
				   .check = rdt_resv_acquire_check,
				   .exec = rdt_resv_acquire_exec},
	[nvme_cmd_resv_release] = {.oncs = NVME_CTRL_ONCS_RESERVATIONS,
				   .supported = rdt_resv_offered,
				   .check = rdt_resv_release_check,
				   .exec = rdt_resv_release_exec},
	[nvme_cmd_copy] = {.flags = RDT_CMD_WRITES,
			   .oncs = NVME_CTRL_ONCS_COPY,
			   .effects = RDT_EFFECTS_WRITES,
			   .check = rdt_copy_check,
			   .exec = rdt_copy_exec},
};
