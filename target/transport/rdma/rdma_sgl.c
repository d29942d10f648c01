/* SPDX-License-Identifier: BSD-3-Clause */
/* The data pointer of a command over RDMA: one descriptor, keyed or with in-capsule data, or a list
 * of keyed descriptors in the capsule (MSDBD); and the fields about it in Identify. */
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "nvmf/wire.h"
#include "target/config/config.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/request.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "rdma.h"

uint8_t rdt_rdma_msdbd(const struct rdt_target_config *cfg)
{
	uint32_t most = cfg->in_capsule_bytes / sizeof(union nvme_sgl);

	if (cfg->sgl_descriptors < most)
		most = cfg->sgl_descriptors;
	return most ? (uint8_t)most : 1;
}

void rdt_rdma_identify(const struct rdt_qpair *qp, struct nvme_id_ctrl *id)
{
	const struct rdt_target_config *cfg = &qp->reactor->target->cfg->target;

	id->sgls = htole32(1 | NVME_CTRL_SGLS_KEYED | NVME_CTRL_SGLS_OFFSET);
	id->msdbd = 1;
	if (rdt_subsys_is_disc(qp->ctrl->subsys))
		return;
	id->msdbd = rdt_rdma_msdbd(cfg);
	id->ioccsz = htole32((NVME_SQE_SIZE + cfg->in_capsule_bytes) / 16);
}

static RD_COLD struct nvme_status bad_type(struct rdt_req *req, uint8_t type)
{
	return rdt_sgl_bad_type(req,
				type >> 4 == NVME_SGL_KEYED || type >> 4 == NVME_SGL_DATA_BLOCK);
}

static struct nvme_status check_list(struct rdt_req *req, uint8_t msdbd, uint64_t offset,
				     uint32_t len)
{
	unsigned int sc = 0;

	if (msdbd == 1)
		return rdt_sgl_bad_type(req, false);
	if (offset > req->qp->in_capsule_max)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_OFFSET, RDT_LOC_SGL);
	if (!len || len % sizeof(union nvme_sgl))
		sc = NVME_SC_SGL_INVALID_LAST;
	else if (len / sizeof(union nvme_sgl) > msdbd)
		sc = NVME_SC_SGL_INVALID_COUNT;
	else if (offset + len > req->cap->data_len) /* the list is not within the capsule */
		sc = NVME_SC_SGL_INVALID_LAST;
	return sc ? rdt_req_fail(req, NVME_SCT_GENERIC, sc, RDT_LOC_SGL_LEN) : NVME_OK;
}

/* A SEND with Invalidate invalidates one key. If a list requests several different keys, none is
 * invalidated, and the host does it itself. */
static void ask_invalidate(struct rdt_rdma_req *rr, uint32_t key, bool *several)
{
	*several |= rr->invalidate && rr->rkey != key;
	rr->rkey = key;
	rr->invalidate = !*several;
}

/* Returns the list of the request, allocated on first use. */
static struct rdt_rdma_list *get_list(struct rdt_rdma_req *rr, uint8_t msdbd)
{
	if (!rr->list)
		rr->list = calloc(1, sizeof(*rr->list) + msdbd * sizeof(rr->list->desc[0]));
	return rr->list;
}

/* The descriptors are copied, because the next command may use the memory of the capsule before the
 * data is transferred. */
static RD_COLD struct nvme_status parse_list(struct rdt_rdma_req *rr,
					     const struct nvme_data_sgl *seg)
{
	struct rdt_req *req = &rr->req;
	uint8_t msdbd = rdt_rdma_msdbd(&rdt_req_target(req)->cfg->target);
	uint64_t offset = le64toh(seg->offset);
	uint32_t len = le32toh(seg->length);
	struct nvme_status st = check_list(req, msdbd, offset, len);
	struct rdt_rdma_desc *out;
	bool several = false;

	if (!nvme_status_ok(st))
		return st;
	if (!get_list(rr, msdbd))
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
	out = rr->list->desc;
	for (uint32_t i = 0; i < len / sizeof(union nvme_sgl); i++) {
		struct nvme_keyed_sgl d;

		memcpy(&d, req->cap->data + offset + i * sizeof(d), sizeof(d));
		if (d.type != NVME_SGL_KEYED_ADDRESS && d.type != NVME_SGL_KEYED_INVALIDATE) {
			rr->invalidate = false;
			return bad_type(req, d.type);
		}
		if (!nvme_sgl_keyed_len(&d))
			continue;
		*out = (struct rdt_rdma_desc){le64toh(d.addr), nvme_sgl_keyed_key(&d),
					      nvme_sgl_keyed_len(&d)};
		req->sgl_len += out->len;
		if (d.type == NVME_SGL_KEYED_INVALIDATE)
			ask_invalidate(rr, out->key, &several);
		out++;
		rr->descs++;
	}
	if (rr->descs > 1) {
		req->data_at = RDT_DATA_AT_HOST_WHOLE;
		return NVME_OK;
	}
	/* A list in which one descriptor has data is handled like a single descriptor. */
	if (rr->descs) {
		rr->raddr = out[-1].addr;
		rr->rkey = out[-1].key;
	}
	rr->descs = 0;
	return NVME_OK;
}

struct nvme_status rdt_rdma_parse_sgl(struct rdt_req *req)
{
	struct rdt_rdma_req *rr = rdt_rdma_req_of(req);
	const union nvme_sgl *sgl = &req->sqe.sgl;

	rr->descs = 0;
	rr->invalidate = false;
	if (!rdt_sgl_has_psdt(req))
		return rdt_sgl_no_psdt(req);
	switch (sgl->keyed.type) {
	case NVME_SGL_KEYED_ADDRESS:
	case NVME_SGL_KEYED_INVALIDATE:
		rr->raddr = le64toh(sgl->keyed.addr);
		req->sgl_len = nvme_sgl_keyed_len(&sgl->keyed);
		rr->rkey = nvme_sgl_keyed_key(&sgl->keyed);
		rr->invalidate = sgl->keyed.type == NVME_SGL_KEYED_INVALIDATE && req->sgl_len > 0;
		return NVME_OK;
	case NVME_SGL_IN_CAPSULE:
		return rdt_sgl_in_capsule(req);
	case NVME_SGL_LAST_IN_CAPSULE:
		return parse_list(rr, &sgl->data);
	default:
		return bad_type(req, sgl->keyed.type);
	}
}

void rdt_rdma_req_fini(struct rdt_req *req)
{
	free(rdt_rdma_req_of(req)->list);
}
