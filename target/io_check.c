/* SPDX-License-Identifier: BSD-3-Clause */
/* What every I/O command is asked before anything of it is done: whose blocks, and may it? */
#include "nvmf/wire.h"
#include "ana.h"
#include "backend.h"
#include "io.h"
#include "mask.h"
#include "ns.h"
#include "request.h"
#include "resv.h"
#include "subsys.h"
#include "target.h"
#include "tgt_limits.h"

struct nvme_status rdt_io_admit(struct rdt_req *req, enum rdt_io_access access)
{
	struct nvme_status st;

	if (!rdt_ns_take(req, le32toh(req->sqe.nsid)) || !rdt_ns_visible(req->qp->ctrl, req->ns))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	st = rdt_ana_check(req);
	if (!nvme_status_ok(st))
		return st;
	if (access == RDT_IO_WRITES && rdt_ns_write_protected(req->ns))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_NS_WRITE_PROTECTED,
				    RDT_LOC(nsid));
	return rdt_resv_check(req);
}

/* Optional commands need every namespace of the subsystem: ONCS speaks for the controller. */
bool rdt_io_supported(const struct rdt_subsys *ss, unsigned int opcode)
{
	switch (opcode) {
	case nvme_cmd_flush:
	case nvme_cmd_read:
	case nvme_cmd_write:
	case nvme_cmd_compare:
	case nvme_cmd_verify:
	case nvme_cmd_copy:
	case nvme_cmd_resv_register:
	case nvme_cmd_resv_report:
	case nvme_cmd_resv_acquire:
	case nvme_cmd_resv_release:
		return true;
	case nvme_cmd_write_zeroes:
		return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_WRITE_ZEROES;
	case nvme_cmd_dsm:
		return ss->ns_count && ss->ops_mask & 1u << RDT_BIO_DEALLOCATE;
	case nvme_cmd_write_uncor:
		return ss->ns_count && ss->ops_mask & RDT_OPS_MARKS;
	default:
		return false;
	}
}

bool rdt_fused_supported(const struct rdt_subsys *ss)
{
	return !rdt_subsys_is_disc(ss) && RDT_ACWU(ss->target->cfg->target.max_data_bytes) > 0;
}
