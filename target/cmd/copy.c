/* SPDX-License-Identifier: BSD-3-Clause */
/* Copy: copies source ranges to consecutive destination blocks in the same namespace, in pieces
 * through a scratch buffer. While a piece is copied, its source and destination are locked. A
 * destination that overlaps a source is refused, because the result would be undefined. */
#include <string.h>

#include "nvmf/wire.h"
#include "target/nvmf/qos_queue.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/range_lock.h"
#include "target/nvmf/request.h"
#include "target/config/tgt_limits.h"

#define RANGES(req) ((rdt_io_cdw12(req) & 0xff) + 1)
#define FORMAT(req) (rdt_io_cdw12(req) >> 8 & 0xf)

_Static_assert(sizeof(struct nvme_copy_range) == 32, "Copy, source range format 0");
_Static_assert(sizeof(struct nvme_copy_range_f1) == 40, "Copy, source range format 1");

_Static_assert(offsetof(struct nvme_copy_range, nlb) == offsetof(struct nvme_copy_range_f1, nlb),
	       "one layout");

/* The formats differ only in fields for protection information, which follow these. */
static bool get_copy_ranges(struct rdt_req *req)
{
	size_t each =
		FORMAT(req) ? sizeof(struct nvme_copy_range_f1) : sizeof(struct nvme_copy_range);

	if (!rdt_io_ranges(req, RANGES(req)))
		return false;
	for (unsigned int i = 0; i < RANGES(req); i++) {
		struct nvme_copy_range r;

		memcpy(&r, (const uint8_t *)req->buf + i * each, sizeof(r));
		req->work.ranges[i] =
			(struct rdt_io_range){le64toh(r.slba), (uint32_t)le16toh(r.nlb) + 1};
	}
	return true;
}

static struct nvme_status too_large(struct rdt_req *req, unsigned int loc)
{
	return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CMD_SIZE_LIMIT_EXCEEDED, loc);
}

struct nvme_status rdt_copy_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (nvme_status_ok(st))
		st = rdt_io_check_dtype(req);
	if (!nvme_status_ok(st))
		return st;
	if (!(RDT_OCFS & 1u << FORMAT(req)))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw12) + 1);
	if (RANGES(req) > RDT_MSRC + 1)
		return too_large(req, RDT_LOC(cdw12));
	req->data_len = (uint32_t)(RANGES(req) * (FORMAT(req) ? sizeof(struct nvme_copy_range_f1)
							      : sizeof(struct nvme_copy_range)));
	return NVME_OK;
}

/* All ranges are checked before the first block is copied. */
static struct nvme_status check_copy_ranges(struct rdt_req *req)
{
	const struct rdt_io_range *r = req->work.ranges;
	uint64_t dst = rdt_io_slba(req);
	struct nvme_status st = NVME_OK;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < RANGES(req); i++) {
		sum += r[i].blocks;
		if (r[i].blocks > RDT_MSSRL || sum > RDT_MCL)
			return too_large(req, RDT_LOC_NONE);
		st = rdt_io_check_range(req, r[i].lba, r[i].blocks);
		if (!nvme_status_ok(st))
			return st;
	}
	st = rdt_io_check_range(req, dst, sum);
	for (unsigned int i = 0; i < RANGES(req) && nvme_status_ok(st); i++)
		if (r[i].lba < dst + sum && dst < r[i].lba + r[i].blocks)
			st = rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_OVERLAPPING_IO,
					  RDT_LOC(cdw10));
	return st;
}

/* The amount is known only now, so the cost is charged to later commands. */
static void charge_copy(const struct rdt_req *req)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < RANGES(req); i++)
		bytes += (uint64_t)req->work.ranges[i].blocks << req->ns->lbads;
	rdt_qos_debit(req, false, 0, bytes);
	rdt_qos_debit(req, true, 0, bytes);
}

enum phase { LIST, RANGE, PIECE, BUFFER, READ, WRITE };

static enum rdt_step take_copy_list(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;

	if (!get_copy_ranges(req))
		return RDT_STEP_DONE;
	req->status = check_copy_ranges(req);
	if (!nvme_status_ok(req->status))
		return RDT_STEP_DONE;
	charge_copy(req);
	w->dst = rdt_io_slba(req);
	w->phase = RANGE;
	return RDT_STEP_AGAIN;
}

/* Begin the next range. w->lba: next source block; w->dst: next destination block; w->left: rest of
 * the range. */
static enum rdt_step next_range(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;

	if (w->index == RANGES(req)) {
		req->cqe.result = 0;
		return RDT_STEP_DONE;
	}
	w->lba = w->ranges[w->index].lba;
	w->left = w->ranges[w->index].blocks;
	w->phase = PIECE;
	return rdt_io_readable(req, w->lba, w->left) ? RDT_STEP_AGAIN : RDT_STEP_DONE;
}

static enum rdt_step next_piece(struct rdt_req *req)
{
	uint32_t most = RDT_SCRATCH_PIECE >> req->ns->lbads;
	struct rdt_work *w = &req->work;
	struct rdt_span spans[2];

	w->blocks = w->left < most ? w->left : most;
	w->phase = BUFFER;
	spans[0] = (struct rdt_span){w->lba, w->lba + w->blocks, false};
	spans[1] = (struct rdt_span){w->dst, w->dst + w->blocks, true};
	return rdt_io_step_lock(req, spans, 2);
}

/* A piece was written. Release the lock and the buffer before the next piece waits for its
 * locks. */
static enum rdt_step copy_piece_done(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;

	rdt_io_put_scratch(req);
	rdt_range_end(req);
	w->lba += w->blocks;
	w->dst += w->blocks;
	w->left -= w->blocks;
	w->phase = PIECE;
	if (!w->left) {
		/* The result of a failed Copy is the index of the first range not copied. */
		req->cqe.result = htole32(++w->index);
		w->phase = RANGE;
	}
	return RDT_STEP_AGAIN;
}

static enum rdt_step copy_step(struct rdt_req *req)
{
	struct rdt_work *w = &req->work;

	switch (w->phase) {
	case LIST:
		return take_copy_list(req);
	case RANGE:
		return next_range(req);
	case PIECE:
		return next_piece(req);
	case BUFFER:
		w->phase = READ;
		return rdt_io_step_scratch(req);
	case READ:
		w->phase = WRITE;
		rdt_io_fill(req, RDT_BIO_READ, w->lba, w->blocks, w->scratch);
		return rdt_io_step_bio(req);
	case WRITE:
		w->phase = WRITE + 1;
		rdt_io_fill(req, RDT_BIO_WRITE, w->dst, w->blocks, w->scratch);
		return rdt_io_step_bio(req);
	default:
		return copy_piece_done(req);
	}
}

enum rdt_exec rdt_copy_exec(struct rdt_req *req)
{
	return rdt_io_run(req, copy_step);
}
