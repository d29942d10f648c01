/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespace Write Protection (feature 84h). Not supported without state_dir or with "write_protect:
 * off". A namespace that was protected before such a change stays protected. */
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/request.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

#define WPS(req) (le32toh((req)->sqe.cdw11) & 7)

uint8_t rdt_write_protect_caps(const struct rdt_subsys *ss)
{
	if (!ss->target->state || !ss->cfg || ss->cfg->write_protect == RDT_WP_OFF)
		return 0;
	return NVME_CTRL_NWPC_WRITE_PROTECT | NVME_CTRL_NWPC_WRITE_PROTECT_POWER_CYCLE |
	       (ss->cfg->write_protect == RDT_WP_ALL ? NVME_CTRL_NWPC_WRITE_PROTECT_PERMANENT : 0);
}

struct nvme_status rdt_write_protect_get(struct rdt_req *req, uint32_t *value)
{
	const struct rdt_ns *ns = rdt_ns_seen(req, le32toh(req->sqe.nsid));

	if (!ns)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	*value = atomic_load(&ns->wp);
	return NVME_OK;
}

enum rdt_exec rdt_write_protect_set(struct rdt_req *req)
{
	if (WPS(req) > NVME_NS_WP_CFG_PROTECT_PERMANENT ||
	    (WPS(req) == NVME_NS_WP_CFG_PROTECT_PERMANENT &&
	     !(rdt_write_protect_caps(req->qp->ctrl->subsys) &
	       NVME_CTRL_NWPC_WRITE_PROTECT_PERMANENT))) {
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	if (!rdt_ns_take(req, le32toh(req->sqe.nsid))) {
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
		return RDT_EXEC_DONE;
	}
	return rdt_ns_protect(req, (uint8_t)WPS(req));
}
