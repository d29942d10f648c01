/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous Event Requests: kept until the controller is reset or the connection ends, both of
 * which end them without an answer. This target reports no events yet (OAES 0).
 */
#include "internal.h"

struct nvme_status rdt_aer_check(struct rdt_req *req)
{
	if (req->qp->ctrl->aers_count == RDT_AER_MAX)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_ASYNC_LIMIT, RDT_LOC_NONE);
	return NVME_OK;
}

enum rdt_exec rdt_aer_exec(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;

	ctrl->aers[ctrl->aers_count++] = req;
	req->qp->used_aer++;
	rdt_qpair_look(req->qp);
	return RDT_EXEC_PENDING;
}

void rdt_aer_drop_all(struct rdt_ctrl *ctrl)
{
	while (ctrl->aers_count) {
		struct rdt_req *req = ctrl->aers[--ctrl->aers_count];

		req->qp->used_aer--;
		rdt_req_drop(req);
	}
}

/* Forget @req if it is a pending AER: Abort answers it. */
bool rdt_aer_remove(struct rdt_ctrl *ctrl, struct rdt_req *req)
{
	for (unsigned int i = 0; i < ctrl->aers_count; i++) {
		if (ctrl->aers[i] != req)
			continue;
		ctrl->aers[i] = ctrl->aers[--ctrl->aers_count];
		req->qp->used_aer--;
		return true;
	}
	return false;
}
