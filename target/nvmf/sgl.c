/* SPDX-License-Identifier: BSD-3-Clause */
/* The data pointer of a command (NVMe over Fabrics: SGLs only): one descriptor, keyed or with
 * in-capsule data, or a list of keyed descriptors in the capsule (MSDBD). */
#include <stdlib.h>

#include "util/cold.h"
#include "nvmf/wire.h"
#include "target/config/config.h"
#include "request.h"

#define LOC_SGL      RDT_LOC(sgl)
#define LOC_SGL_TYPE (LOC_SGL + 15)
#define LOC_SGL_LEN  (LOC_SGL + 8)

uint8_t rdt_msdbd(const struct rdt_target_config *cfg)
{
	uint32_t most = cfg->in_capsule_bytes / sizeof(union nvme_sgl);

	if (cfg->sgl_descriptors < most)
		most = cfg->sgl_descriptors;
	return most ? (uint8_t)most : 1;
}

static RD_COLD struct nvme_status bad_type(struct rdt_req *req, uint8_t type)
{
	bool known = type >> 4 == NVME_SGL_KEYED || type >> 4 == NVME_SGL_DATA_BLOCK;

	/* A known type with an unknown subtype. */
	return rdt_req_fail(req, NVME_SCT_GENERIC,
			    known ? NVME_SC_INVALID_FIELD : NVME_SC_SGL_INVALID_TYPE, LOC_SGL_TYPE);
}

/* ---- lists ---- */

static struct nvme_status check_list(struct rdt_req *req, uint64_t offset, uint32_t len)
{
	const struct rdt_qpair *qp = req->qp;
	unsigned int sc = 0;

	if (qp->msdbd == 1)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_TYPE, LOC_SGL_TYPE);
	if (offset > qp->in_capsule_max)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_OFFSET, LOC_SGL);
	if (!len || len % sizeof(union nvme_sgl))
		sc = NVME_SC_SGL_INVALID_LAST;
	else if (len / sizeof(union nvme_sgl) > qp->msdbd)
		sc = NVME_SC_SGL_INVALID_COUNT;
	else if (offset + len > req->cap->data_len) /* the capsule was shorter */
		sc = NVME_SC_SGL_INVALID_LAST;
	return sc ? rdt_req_fail(req, NVME_SCT_GENERIC, sc, LOC_SGL_LEN) : NVME_OK;
}

/* SEND with Invalidate takes one key. When a list asks for several different keys, none is
 * invalidated, and the host does that itself. */
static void ask_invalidate(struct rdt_req *req, uint32_t key, bool *several)
{
	*several |= req->invalidate && req->rkey != key;
	req->rkey = key;
	req->invalidate = !*several;
}

/* Copied, because the next command may use the memory of the capsule before the data is
 * transferred. */
static RD_COLD struct nvme_status parse_list(struct rdt_req *req, const struct nvme_data_sgl *seg)
{
	uint64_t offset = le64toh(seg->offset);
	uint32_t len = le32toh(seg->length);
	struct nvme_status st = check_list(req, offset, len);
	struct rdt_sgl_desc *out;
	bool several = false;

	if (!nvme_status_ok(st))
		return st;
	if (!req->sgl)
		req->sgl = calloc(req->qp->msdbd, sizeof(*req->sgl));
	if (!req->sgl)
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_CMD_INTERRUPTED);
	out = req->sgl;
	for (uint32_t i = 0; i < len / sizeof(union nvme_sgl); i++) {
		struct nvme_keyed_sgl d;

		memcpy(&d, req->cap->data + offset + i * sizeof(d), sizeof(d));
		if (d.type != NVME_SGL_KEYED_ADDRESS && d.type != NVME_SGL_KEYED_INVALIDATE) {
			req->invalidate = false;
			return bad_type(req, d.type);
		}
		if (!nvme_sgl_keyed_len(&d))
			continue;
		*out = (struct rdt_sgl_desc){le64toh(d.addr), nvme_sgl_keyed_key(&d),
					     nvme_sgl_keyed_len(&d)};
		req->sgl_len += out->len;
		if (d.type == NVME_SGL_KEYED_INVALIDATE)
			ask_invalidate(req, out->key, &several);
		out++;
		req->descs++;
	}
	req->sgl_type = NVME_SGL_KEYED_ADDRESS;
	if (req->descs > 1)
		return NVME_OK;
	/* A list with one descriptor that has data is handled like a single descriptor */
	if (req->descs) {
		req->raddr = out[-1].addr;
		req->rkey = out[-1].key;
	}
	req->descs = 0;
	return NVME_OK;
}

/* ---- one descriptor ---- */

/* Parsed before the command is known, so that the answer to a failed command can also invalidate
 * the host's key. */
struct nvme_status rdt_sgl_parse(struct rdt_req *req)
{
	const union nvme_sgl *sgl = &req->sqe.sgl;
	unsigned int loc = offsetof(struct nvme_sqe, flags);

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
	case NVME_SGL_LAST_IN_CAPSULE:
		return parse_list(req, &sgl->data);
	default:
		return bad_type(req, sgl->keyed.type);
	}
}

struct nvme_status rdt_sgl_match_other(struct rdt_req *req)
{
	bool longer =
		req->sgl_len > req->data_len && !req->descs && req->cmd->flags & RDT_CMD_LONGER_SGL;

	if (req->sgl_len != req->data_len && !longer)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_DATA, LOC_SGL_LEN);
	if (req->sgl_type != NVME_SGL_IN_CAPSULE || req->data_len == 0)
		return NVME_OK;
	if (req->dir != RDT_DIR_H2C)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC_SGL_TYPE);
	if (req->raddr > req->qp->in_capsule_max)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_OFFSET, LOC_SGL);
	/* Within the maximum size of a capsule, and within the received capsule. */
	if (req->sgl_len > req->qp->in_capsule_max - req->raddr ||
	    req->raddr + req->sgl_len > req->cap->data_len)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_SGL_INVALID_DATA, LOC_SGL_LEN);
	return NVME_OK;
}
