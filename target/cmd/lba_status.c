/* SPDX-License-Identifier: BSD-3-Clause */
/* Get LBA Status with action type 02h: which blocks are allocated (NVM Command Set 1.2, 4.2.1). All
 * other blocks read as zeroes (DLFEAT). The lists of potentially unrecoverable blocks, action types
 * 10h and 11h, which OACS would announce, are not supported. */
#include <string.h>

#include "nvmf/wire.h"
#include "target/bdev/backend.h"
#include "admin.h"
#include "target/nvmf/slices.h"
#include "target/nvmf/io.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/request.h"
#include "target/nvmf/subsys.h"

#define ATYPE(req)   (le32toh((req)->sqe.cdw13) >> 24)
#define RL(req)      (le32toh((req)->sqe.cdw13) & 0xffff)
#define LIST_MAX     ((RDT_SCRATCH_PIECE - sizeof(struct rdt_extents)) / sizeof(struct rdt_extent))
#define NLB_MAX      (UINT64_C(1) << 32) /* blocks of a descriptor; the field is 0's based */
#define HEAD_SIZE    sizeof(struct nvme_lba_status)
#define DESC_SIZE    sizeof(struct nvme_lba_status_desc)
#define DESC(req, i) ((uint8_t *)(req)->buf + HEAD_SIZE + (size_t)(i)*DESC_SIZE)

bool rdt_lba_status_supported(const struct rdt_subsys *ss)
{
	return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_EXTENTS;
}

struct nvme_status rdt_lba_status_check(struct rdt_req *req)
{
	uint64_t len = ((uint64_t)rdt_io_cdw12(req) + 1) * sizeof(uint32_t); /* MNDW, 0's based */

	if (!rdt_ns_seen(req, le32toh(req->sqe.nsid)))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	if (ATYPE(req) != NVME_LBA_STATUS_ALLOCATED)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw13) + 3);
	if (len > req->qp->data_max)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw12));
	req->data_len = (uint32_t)len;
	return NVME_OK;
}

static uint32_t descs_room(const struct rdt_req *req)
{
	return req->data_len < HEAD_SIZE ? 0 : (uint32_t)((req->data_len - HEAD_SIZE) / DESC_SIZE);
}

/* End the list: write the header, up to the length that the host has requested. */
static enum rdt_step end_desc_list(struct rdt_req *req, uint8_t cmpc)
{
	struct nvme_lba_status head = {.nlsd = htole32(req->work.left), .cmpc = cmpc};

	memcpy(req->buf, &head, req->data_len < sizeof(head) ? req->data_len : sizeof(head));
	return RDT_STEP_DONE;
}

/* Add blocks that begin at or after the end of the last descriptor, or in its last block. Returns
 * false when the list is full. */
static bool add_blocks(struct rdt_req *req, uint64_t from, uint64_t to)
{
	struct rdt_work *w = &req->work;
	struct nvme_lba_status_desc d;

	if (from < w->lba) /* @lba: end of the last descriptor */
		from = w->lba;
	if (w->left && from == w->lba && from < to) {
		memcpy(&d, DESC(req, w->left - 1), DESC_SIZE);
		if (to - le64toh(d.dslba) <= NLB_MAX) {
			d.nlb = htole32((uint32_t)(to - le64toh(d.dslba) - 1));
			memcpy(DESC(req, w->left - 1), &d, DESC_SIZE);
			w->lba = from = to;
		}
	}
	while (from < to) {
		uint64_t n = to - from < NLB_MAX ? to - from : NLB_MAX;

		if (w->left == descs_room(req))
			return false;
		d = (struct nvme_lba_status_desc){.dslba = htole64(from),
						  .nlb = htole32((uint32_t)(n - 1)),
						  .status = NVME_LBA_RANGE_ALLOCATED};
		memcpy(DESC(req, w->left++), &d, DESC_SIZE);
		w->lba = from += n;
	}
	return true;
}

/* Query the backend about the blocks from @next on. Uncorrectable blocks must not be reported as
 * zeroes, so while there are any, all blocks count as allocated. */
static enum rdt_step ask_extents(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;
	struct rdt_extents *ex = w->scratch;

	ex->count = 0;
	ex->room = LIST_MAX;
	if (atomic_load(&req->ns->uncor.count)) {
		ex->list[ex->count++] =
			(struct rdt_extent){w->next << req->ns->lbads, w->end << req->ns->lbads};
		ex->upto = w->end << req->ns->lbads;
		return RDT_STEP_AGAIN;
	}
	rdt_io_fill(req, RDT_BIO_EXTENTS, w->next, w->end - w->next, ex);
	return rdt_io_step_bio(req);
}

/* A block is allocated if a part of it is. */
static enum rdt_step take_extents(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;
	const struct rdt_extents *ex = w->scratch;
	uint64_t part = (UINT64_C(1) << req->ns->lbads) - 1;

	for (uint32_t i = 0; i < ex->count; i++)
		if (!add_blocks(req, ex->list[i].from >> req->ns->lbads,
				(ex->list[i].to + part) >> req->ns->lbads))
			return end_desc_list(req, NVME_LBA_STATUS_INCOMPLETE);
	w->next = ex->upto >> req->ns->lbads;
	return w->next < w->end ? RDT_STEP_AGAIN : end_desc_list(req, NVME_LBA_STATUS_COMPLETE);
}

static enum rdt_step lba_status_step(struct rdt_req *req)
{
	enum { QUEUE, SCRATCH, ASK, TAKE, LATER };
	enum rdt_step next;

	switch (req->work.phase) {
	case QUEUE:
		req->work.phase = SCRATCH;
		return rdt_extents_begin(req) ? RDT_STEP_AGAIN : RDT_STEP_WAIT;
	case SCRATCH:
		req->work.phase = ASK;
		req->work.lba = req->work.next = rdt_io_slba(req);
		req->work.end = RL(req) ? req->work.next + RL(req) : req->ns->blocks;
		return rdt_io_step_scratch(req);
	case ASK:
		req->work.phase = TAKE;
		return ask_extents(req);
	case TAKE:
		next = take_extents(req);
		req->work.phase = LATER;
		return next;
	default: /* storage in memory answers immediately */
		req->work.phase = ASK;
		return rdt_slice_done(req);
	}
}

enum rdt_exec rdt_lba_status_exec(struct rdt_req *req)
{
	memset(req->buf, 0, req->data_len);
	req->status = rdt_io_admit(req);
	if (nvme_status_ok(req->status))
		req->status = rdt_io_check_range(req, rdt_io_slba(req), RL(req) ? RL(req) : 1);
	return nvme_status_ok(req->status) ? rdt_io_run(req, lba_status_step) : RDT_EXEC_DONE;
}
