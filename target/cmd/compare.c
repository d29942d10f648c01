/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare, and the fused pair Compare and Write. The host's data is in the request's buffer; the
 * blocks are read in pieces into a scratch buffer. */
#include <string.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "target/bdev/backend.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/request.h"

struct nvme_status rdt_compare_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	return nvme_status_ok(st) ? rdt_io_check_data(req) : st;
}

enum phase { LOCK, BUFFER, READ, COMPARE, SYNC, WRITE, END };

/* Returns whether the scratch buffer equals the host's data. */
static bool data_equal(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;
	uint64_t done = (w->lba - rdt_io_slba(req)) << req->ns->lbads;
	size_t len = (size_t)w->blocks << req->ns->lbads;

	if (memcmp((const uint8_t *)req->buf + done, w->scratch, len) != 0) {
		req->status = nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_COMPARE_FAILED);
		req->err_lba = w->lba;
		return false;
	}
	w->lba += w->blocks;
	return true;
}

/* The steps up to the end of the comparison; the next phase is WRITE. FUA commits the blocks after
 * they were found equal, because another command could write them between a flush and the read. */
static enum rdt_step compare_pieces(struct rdt_req *req, bool excl)
{
	struct rdt_work *w = &req->work;

	switch (w->phase++) {
	case LOCK:
		w->lba = rdt_io_slba(req);
		return rdt_io_step_lock_blocks(req, excl);
	case BUFFER:
		if (!rdt_io_readable(req, w->lba, rdt_io_nlb(req)))
			return RDT_STEP_DONE;
		return rdt_io_step_scratch(req);
	case READ:
		return rdt_io_step_read(req);
	case SYNC:
		rdt_io_put_scratch(req);
		return rdt_io_step_sync(req);
	default:
		if (!data_equal(req))
			return RDT_STEP_DONE;
		if (w->lba < rdt_io_slba(req) + rdt_io_nlb(req))
			w->phase = READ;
		return RDT_STEP_AGAIN;
	}
}

static enum rdt_step compare_step(struct rdt_req *req)
{
	return req->work.phase < WRITE ? compare_pieces(req, false) : RDT_STEP_DONE;
}

enum rdt_exec rdt_compare_exec(struct rdt_req *req)
{
	return rdt_io_run(req, compare_step);
}

static void compare_written(struct rdt_bio *bio)
{
	struct rdt_req *second = rd_container_of(bio, struct rdt_req, bio);

	rdt_io_result(second);
	rdt_io_resume(second->partner);
}

static enum rdt_step write_second(struct rdt_req *second)
{
	rdt_io_fill(second, RDT_BIO_WRITE, rdt_io_slba(second), rdt_io_nlb(second), second->buf);
	if (rdt_io_submit(second, compare_written) == RDT_BIO_QUEUED)
		return RDT_STEP_WAIT;
	rdt_io_result(second);
	return RDT_STEP_AGAIN;
}

static enum rdt_step compare_write_step(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;

	if (w->phase < WRITE)
		return compare_pieces(req, true);
	if (w->phase++ > WRITE)
		return RDT_STEP_DONE;
	rdt_io_put_scratch(req);
	if (rdt_io_stopped(req))
		return RDT_STEP_DONE;
	return write_second(req->partner);
}

enum rdt_exec rdt_compare_write_exec(struct rdt_req *first)
{
	return rdt_io_run(first, compare_write_step);
}
