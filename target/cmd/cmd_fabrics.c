/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of fabrics commands by fctype. */
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/request.h"

static struct nvme_status disconnect_check(struct rdt_req *req)
{
	if (req->qp->admin)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_DISCONNECT_INVALID_QTYPE,
				    0);
	if (le32toh(req->sqe.cdw10) & 0xffff)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_FORMAT,
				    RDT_LOC(cdw10));
	return NVME_OK;
}

/* Earlier commands are answered before this one; then the connection ends. */
static enum rdt_exec disconnect_exec(struct rdt_req *req)
{
	rdt_qpair_drain(req->qp);
	return RDT_EXEC_DONE;
}

const struct rdt_cmd rdt_fabrics_cmds[256] = {
	[nvme_fabrics_type_property_set] = {.check = rdt_property_set_check,
					    .exec = rdt_property_set},
	[nvme_fabrics_type_connect] = {.flags = RDT_CMD_UNAUTHENTICATED,
				       .check = rdt_connect_check,
				       .exec = rdt_connect_exec},
	[nvme_fabrics_type_property_get] = {.check = rdt_property_get_check,
					    .exec = rdt_property_get},
	[nvme_fabrics_type_disconnect] = {.flags = RDT_CMD_UNAUTHENTICATED,
					  .check = disconnect_check,
					  .exec = disconnect_exec},
	[nvme_fabrics_type_auth_send] = {.flags = RDT_CMD_UNAUTHENTICATED,
					 .check = rdt_auth_send_check,
					 .exec = rdt_auth_send_exec},
	[nvme_fabrics_type_auth_receive] = {.flags = RDT_CMD_UNAUTHENTICATED,
					    .check = rdt_auth_receive_check,
					    .exec = rdt_auth_receive_exec},
};
