/* SPDX-License-Identifier: BSD-3-Clause */
/* The data pointer of a command: one descriptor (MSDBD 1), keyed or in the capsule (wire: 5.2). */
#include "internal.h"

#define LOC_SGL      RDT_LOC(sgl)
#define LOC_SGL_TYPE (LOC_SGL + 15)

/* Read SGL1 without knowing the command yet, so that a failed one can also release the host's key.
 */
struct nvme_status rdt_sgl_parse(struct rdt_req *req)
{
	const union nvme_sgl *sgl = &req->sqe.sgl;
	unsigned int loc = offsetof(struct nvme_sqe, flags);

	req->invalidate = false;
	req->sgl_len = 0;
	if (req->sqe.flags & NVME_CMD_FUSE_MASK)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, loc);
	if ((req->sqe.flags & NVME_CMD_PSDT_MASK) != NVME_CMD_PSDT_SGL)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, loc | 6 << 8);

	req->sgl_type = sgl->keyed.type;
	switch (sgl->keyed.type) {
	case NVME_SGL_KEYED_ADDRESS:
	case NVME_SGL_KEYED_INVALIDATE:
		req->raddr = le64toh(sgl->keyed.addr);
		req->sgl_len = nvme_sgl_keyed_len(&sgl->keyed);
		req->rkey = nvme_sgl_keyed_key(&sgl->keyed);
		req->invalidate = sgl->keyed.type == NVME_SGL_KEYED_INVALIDATE && req->sgl_len > 0;
		return NVME_OK;
	case NVME_SGL_IN_CAPSULE:
		req->raddr = le64toh(sgl->data.offset);
		req->sgl_len = le32toh(sgl->data.length);
		return NVME_OK;
	}
	switch (sgl->keyed.type >> 4) {
	case NVME_SGL_KEYED:
	case NVME_SGL_DATA_BLOCK: /* a type we know, a subtype we do not */
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC_SGL_TYPE);
	default:
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_TYPE, LOC_SGL_TYPE);
	}
}

/* The command knows its length now: does the descriptor describe exactly that, or more where it
 * may? */
struct nvme_status rdt_sgl_match(struct rdt_req *req)
{
	bool longer = req->sgl_len > req->data_len && req->cmd->flags & RDT_CMD_LONGER_SGL;

	if (req->sgl_len != req->data_len && !longer)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_DATA, LOC_SGL + 8);
	if (req->sgl_type != NVME_SGL_IN_CAPSULE || req->data_len == 0)
		return NVME_OK;
	if (req->dir != RDT_DIR_H2C)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC_SGL_TYPE);
	if (req->raddr > req->qp->in_capsule_max)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_OFFSET, LOC_SGL);
	/* Both what a capsule may hold and what this one held. */
	if (req->sgl_len > req->qp->in_capsule_max - req->raddr ||
	    req->raddr + req->sgl_len > req->cap->data_len)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_DATA, LOC_SGL + 8);
	return NVME_OK;
}
