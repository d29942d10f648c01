/* SPDX-License-Identifier: BSD-3-Clause */
/* What every I/O command is asked before anything of it is done: whose blocks, and may it? */
#include "nvmf/wire.h"
#include "ana.h"
#include "target/bdev/backend.h"
#include "io.h"
#include "host_access.h"
#include "ns.h"
#include "request.h"
#include "resv.h"
#include "subsys.h"
#include "target.h"
#include "target/config/tgt_limits.h"

/* Dataset Management without deallocation is a hint. */
static bool writes(const struct rdt_req *req)
{
	return req->cmd->flags & RDT_CMD_WRITES &&
	       (req->sqe.opcode != nvme_cmd_dsm || le32toh(req->sqe.cdw11) & RDT_DSM_AD);
}

/* All that other threads, and other hosts' commands, change. */
static inline struct nvme_status check_now(struct rdt_req *req)
{
	struct nvme_status st;

	if (!rdt_ns_visible(req->qp->ctrl, req->ns))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	st = rdt_ana_check(req);
	if (!nvme_status_ok(st))
		return st;
	if (rdt_ns_write_protected(req->ns) && writes(req))
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

/* Lists of ranges (Copy, Dataset Management) are looked at when the command has begun. */
struct nvme_status rdt_io_admit_again(struct rdt_req *req)
{
	struct nvme_status st = check_now(req);

	if (nvme_status_ok(st) && req->cmd->flags & RDT_CMD_BLOCKS)
		st = rdt_io_check_range(req, rdt_io_slba(req), rdt_io_nlb(req));
	return st;
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
		return true;
	case nvme_cmd_resv_register:
	case nvme_cmd_resv_report:
	case nvme_cmd_resv_acquire:
	case nvme_cmd_resv_release:
		return rdt_resv_offered(ss);
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
