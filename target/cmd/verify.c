/* SPDX-License-Identifier: BSD-3-Clause */
/* Verify: reads the blocks in pieces and discards the data. */
#include "nvmf/wire.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/request.h"
#include "target/config/tgt_limits.h"

#define PRACT (1u << 29)

struct nvme_status rdt_verify_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	if (!nvme_status_ok(st))
		return st;
	if (rdt_io_cdw12(req) & PRACT) /* no protection information to insert or strip */
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    (RDT_LOC(cdw12) + 3) | 5 << 8);
	return rdt_io_check_blocks(req, RDT_POWER(RDT_VSL));
}

static enum rdt_step verify_step(struct rdt_req *req)
{
	enum { SYNC, BUFFER, READ };
	struct rdt_work *w = &req->work;

	switch (w->phase) {
	case SYNC:
		w->phase = BUFFER;
		w->lba = rdt_io_slba(req);
		return rdt_io_step_sync(req);
	case BUFFER:
		w->phase = READ;
		if (!rdt_io_readable(req, w->lba, rdt_io_nlb(req)))
			return RDT_STEP_DONE;
		return rdt_io_step_scratch(req);
	default:
		w->lba += w->blocks; /* the previous piece; at first 0 */
		if (w->lba == rdt_io_slba(req) + rdt_io_nlb(req))
			return RDT_STEP_DONE;
		return rdt_io_step_read(req);
	}
}

enum rdt_exec rdt_verify_exec(struct rdt_req *req)
{
	return rdt_io_run(req, verify_step);
}
