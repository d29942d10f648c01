/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of data pointers that do not depend on the transport: error statuses, in-capsule data,
 * and whether the data fits the command. */
#include "util/cold.h"
#include "nvmf/wire.h"
#include "request.h"

/* NVMe over Fabrics has SGLs only. */
RD_COLD struct nvme_status rdt_sgl_no_psdt(struct rdt_req *req)
{
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
			    (unsigned int)offsetof(struct nvme_sqe, flags) | 6 << 8);
}

/* @known: the transport supports the type, but not the subtype. */
RD_COLD struct nvme_status rdt_sgl_bad_type(struct rdt_req *req, bool known)
{
	return rdt_req_fail(req, NVME_SCT_GENERIC,
			    known ? NVME_SC_INVALID_FIELD : NVME_SC_SGL_INVALID_TYPE,
			    RDT_LOC_SGL_TYPE);
}

static bool may_be_longer(const struct rdt_req *req)
{
	return req->data_at != RDT_DATA_AT_HOST_WHOLE && req->cmd->flags & RDT_CMD_LONGER_SGL;
}

struct nvme_status rdt_sgl_match_other(struct rdt_req *req)
{
	if (req->sgl_len < req->data_len || (req->sgl_len > req->data_len && !may_be_longer(req)))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_DATA,
				    RDT_LOC_SGL_LEN);
	if (req->data_at != RDT_DATA_IN_CAPSULE || req->data_len == 0)
		return NVME_OK;
	if (req->dir != RDT_DIR_H2C)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC_SGL_TYPE);
	if (req->offset > req->qp->in_capsule_max)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_OFFSET, RDT_LOC_SGL);
	/* It must be within the maximum size of a capsule, and within the received capsule. */
	if (req->sgl_len > req->qp->in_capsule_max - req->offset ||
	    req->offset + req->sgl_len > req->cap->data_len)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_DATA,
				    RDT_LOC_SGL_LEN);
	return NVME_OK;
}
