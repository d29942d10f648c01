/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that change blocks without data: Write Zeroes, and Dataset Management with
 * Deallocate. */
#include <string.h>

#include "nvmf/wire.h"
#include "target/bdev/backend.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/range_lock.h"
#include "target/nvmf/request.h"
#include "target/config/tgt_limits.h"

#define CDW12_DEAC      (1u << 25)
#define DSM_RANGES(req) ((le32toh((req)->sqe.cdw10) & 0xff) + 1)

/* CDW12 bits 23:20: directive type, and Namespace Zeroes. Neither is supported. */
struct nvme_status rdt_write_zeroes_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (nvme_status_ok(st))
		st = rdt_io_check_dtype(req);
	return nvme_status_ok(st) ? rdt_io_check_blocks(req, RDT_POWER(RDT_WZSL)) : st;
}

static enum rdt_step zero_step(struct rdt_req *req)
{
	enum { LOCK, ZERO, END };
	const struct rdt_bdev *bdev = req->ns->bdev;
	bool dealloc;

	switch (req->work.phase++) {
	case LOCK:
		return rdt_io_step_lock_blocks(req, true);
	case ZERO:
		/* DEAC permits deallocation, but the blocks must read as zeroes in any case. */
		dealloc = rdt_io_cdw12(req) & CDW12_DEAC && bdev->deallocate_zeroes &&
			  bdev->ops_mask & 1u << RDT_BIO_DEALLOCATE &&
			  !(rdt_io_cdw12(req) & RDT_IO_FUA);
		rdt_io_fill(req, dealloc ? RDT_BIO_DEALLOCATE : RDT_BIO_WRITE_ZEROES,
			    rdt_io_slba(req), rdt_io_nlb(req), NULL);
		return rdt_io_step_bio(req);
	default:
		return RDT_STEP_DONE;
	}
}

enum rdt_exec rdt_write_zeroes_exec(struct rdt_req *req)
{
	return rdt_io_run(req, zero_step);
}

struct nvme_status rdt_dsm_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (!nvme_status_ok(st))
		return st;
	if (DSM_RANGES(req) > RDT_DMRL)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CMD_SIZE_LIMIT_EXCEEDED,
				    RDT_LOC(cdw10));
	req->data_len = DSM_RANGES(req) * (uint32_t)sizeof(struct nvme_dsm_range);
	return st;
}

static bool get_dsm_ranges(struct rdt_req *req)
{
	if (!rdt_io_ranges(req, DSM_RANGES(req)))
		return false;
	for (unsigned int i = 0; i < DSM_RANGES(req); i++) {
		struct nvme_dsm_range r;

		memcpy(&r, (const uint8_t *)req->buf + i * sizeof(r), sizeof(r));
		req->work.ranges[i] = (struct rdt_io_range){le64toh(r.slba), le32toh(r.nlb)};
	}
	return true;
}

/* All ranges are checked before the first one is deallocated. */
static struct nvme_status check_dsm_ranges(struct rdt_req *req)
{
	const struct rdt_io_range *r = req->work.ranges;
	struct nvme_status st = NVME_OK;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < DSM_RANGES(req); i++) {
		sum += r[i].blocks;
		if (r[i].blocks > RDT_DMRSL || sum > RDT_DMSL)
			return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC,
					    NVME_SC_CMD_SIZE_LIMIT_EXCEEDED, RDT_LOC_NONE);
	}
	for (unsigned int i = 0; i < DSM_RANGES(req) && nvme_status_ok(st); i++)
		if (r[i].blocks)
			st = rdt_io_check_range(req, r[i].lba, r[i].blocks);
	return st;
}

/* Without Deallocate, the ranges are hints and are ignored. */
static enum rdt_step take_dsm_list(struct rdt_req *req)
{
	if (!get_dsm_ranges(req))
		return RDT_STEP_DONE;
	req->status = check_dsm_ranges(req);
	return nvme_status_ok(req->status) && le32toh(req->sqe.cdw11) & RDT_DSM_AD ? RDT_STEP_AGAIN
										   : RDT_STEP_DONE;
}

/* Deallocate one range after the other; the first failure ends the command. */
static enum rdt_step dsm_step(struct rdt_req *req)
{
	enum { LIST, LOCK, FREE };
	struct rdt_work *w = &req->work;
	const struct rdt_io_range *r;
	struct rdt_span span;

	switch (w->phase) {
	case LIST:
		w->phase = LOCK;
		return take_dsm_list(req);
	case FREE:
		w->phase = LOCK;
		r = &w->ranges[w->index++];
		rdt_io_fill(req, RDT_BIO_DEALLOCATE, r->lba, r->blocks, NULL);
		return rdt_io_step_bio(req);
	default:
		break;
	}
	rdt_range_end(req);
	while (w->index < DSM_RANGES(req) && !w->ranges[w->index].blocks)
		w->index++;
	if (w->index == DSM_RANGES(req))
		return RDT_STEP_DONE;
	w->phase = FREE;
	r = &w->ranges[w->index];
	span = (struct rdt_span){r->lba, r->lba + r->blocks, true};
	return rdt_io_step_lock(req, &span, 1);
}

enum rdt_exec rdt_dsm_exec(struct rdt_req *req)
{
	return rdt_io_run(req, dsm_step);
}
