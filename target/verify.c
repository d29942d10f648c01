/* SPDX-License-Identifier: BSD-3-Clause */
/* Verify: read the blocks, piece by piece, and keep nothing but whether that worked. */
#include "io.h"

#define PRACT (1u << 29)

struct nvme_status rdt_verify_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req, RDT_IO_READS);

	if (!nvme_status_ok(st))
		return st;
	if (rdt_io_cdw12(req) & PRACT) /* there is nothing it could insert or strip */
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    (RDT_LOC(cdw12) + 3) | 5 << 8);
	return rdt_io_check_blocks(req, RDT_POWER(RDT_VSL));
}

static enum rdt_step verify_step(struct rdt_req *req)
{
	enum { SYNC, BUFFER, READ };
	struct rdt_work *w = &req->work;
	uint64_t end = rdt_io_slba(req) + rdt_io_nlb(req);
	uint32_t most = RDT_SCRATCH_PIECE >> req->ns->lbads;

	switch (w->phase) {
	case SYNC:
		w->phase = BUFFER;
		w->lba = rdt_io_slba(req);
		if (!rdt_io_fua_read(req))
			return RDT_STEP_AGAIN;
		rdt_io_fill(req, RDT_BIO_FLUSH, 0, 0, NULL);
		return rdt_io_step_bio(req);
	case BUFFER:
		w->phase = READ;
		if (!rdt_io_readable(req, w->lba, rdt_io_nlb(req)))
			return RDT_STEP_DONE;
		return rdt_io_step_scratch(req);
	default:
		if (w->lba == end)
			return RDT_STEP_DONE;
		w->blocks = end - w->lba < most ? (uint32_t)(end - w->lba) : most;
		rdt_io_fill(req, RDT_BIO_READ, w->lba, w->blocks, w->scratch);
		w->lba += w->blocks;
		return rdt_io_step_bio(req);
	}
}

enum rdt_exec rdt_verify_exec(struct rdt_req *req)
{
	return rdt_io_run(req, verify_step);
}
