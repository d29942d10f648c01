/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify CNS 00h to 03h. What is told here comes from the constants the code itself obeys. */
#include <string.h>

#include "internal.h"

#define CNS(req)         (le32toh((req)->sqe.cdw10) & 0xff)
#define NSID(req)        le32toh((req)->sqe.nsid)
#define OFCS_DISCONNECT  0x1u
#define VWC_FLUSH_NO_ALL (2u << 1) /* Flush takes one namespace, not FFFFFFFFh */

/* Fields of ASCII text are padded with spaces and have no NUL. */
void rdt_put_ascii(char *dst, size_t len, const char *src)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = *src ? *src++ : ' ';
}

static uint32_t max_nsid(const struct rdt_subsys *ss)
{
	return ss->ns_count ? ss->ns[ss->ns_count - 1].cfg->nsid : 0;
}

static void fill_io_ctrl(struct nvme_id_ctrl *id, const struct rdt_subsys *ss)
{
	const struct rdt_target_config *cfg = &ss->target->cfg->target;

	rdt_put_ascii(id->sn, sizeof(id->sn), ss->cfg->serial);
	rdt_put_ascii(id->mn, sizeof(id->mn), ss->cfg->model);
	id->cntrltype = NVME_CTRL_CNTRLTYPE_IO;
	id->cmic = NVME_CTRL_CMIC_MULTI_PORT | NVME_CTRL_CMIC_MULTI_CTRL;
	id->ctratt = htole32(NVME_CTRL_CTRATT_128_ID | NVME_CTRL_CTRATT_TBKAS);
	id->acl = RDT_ABORT_MAX - 1;
	id->frmw = NVME_CTRL_FRMW_1ST_RO | 1 << 1; /* one slot */
	id->lpa = NVME_CTRL_LPA_CMD_EFFECTS | NVME_CTRL_LPA_EXTENDED;
	id->elpe = RDT_ERROR_LOG - 1;
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->maxcmd = htole16((uint16_t)cfg->queue_depth);
	id->nn = htole32(max_nsid(ss));
	id->mnan = htole32(ss->ns_count);
	if (rdt_io_supported(ss, nvme_cmd_write_zeroes))
		id->oncs |= htole16(NVME_CTRL_ONCS_WRITE_ZEROES);
	if (rdt_io_supported(ss, nvme_cmd_dsm))
		id->oncs |= htole16(NVME_CTRL_ONCS_DSM);
	id->vwc = VWC_FLUSH_NO_ALL | (ss->volatile_cache ? NVME_CTRL_VWC_PRESENT : 0);
	id->ioccsz = htole32((NVME_SQE_SIZE + cfg->in_capsule_bytes) / 16);
	id->iorcsz = htole32(NVME_CQE_SIZE / 16);
	id->ofcs = htole16(OFCS_DISCONNECT);
}

static void fill_disc_ctrl(struct nvme_id_ctrl *id)
{
	rdt_put_ascii(id->sn, sizeof(id->sn), "");
	rdt_put_ascii(id->mn, sizeof(id->mn), "rdnvme discovery");
	id->cntrltype = NVME_CTRL_CNTRLTYPE_DISCOVERY;
	id->ctratt = htole32(NVME_CTRL_CTRATT_128_ID | NVME_CTRL_CTRATT_TBKAS);
	id->lpa = NVME_CTRL_LPA_EXTENDED;
	id->maxcmd = htole16(RDT_ADMIN_DEPTH_MAX);
}

static enum rdt_exec identify_ctrl(struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_subsys *ss = ctrl->subsys;
	struct nvme_id_ctrl *id = req->buf;

	rdt_put_ascii(id->fr, sizeof(id->fr), RDT_VERSION);
	id->mdts = (uint8_t)__builtin_ctz(ss->target->cfg->target.max_data_bytes / NVME_MPS_MIN);
	id->cntlid = htole16(ctrl->cntlid);
	id->ver = htole32(RDT_VS);
	id->aerl = RDT_AER_MAX - 1;
	id->kas = htole16(RDT_KAS_MS / 100);
	/* Keyed, and an offset into the capsule. */
	id->sgls = htole32(1 | NVME_CTRL_SGLS_KEYED | NVME_CTRL_SGLS_OFFSET);
	id->msdbd = 1;
	memccpy(id->subnqn, ss->nqn, 0, sizeof(id->subnqn));
	if (rdt_subsys_is_disc(ss))
		fill_disc_ctrl(id);
	else
		fill_io_ctrl(id, ss);
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_ns(struct rdt_req *req)
{
	const struct rdt_ns *ns = rdt_ns_find(req->qp->ctrl->subsys, NSID(req));
	struct nvme_id_ns *id = req->buf;

	if (!ns)
		return RDT_EXEC_DONE; /* valid but inactive: all zero */
	id->nsze = id->ncap = id->nuse = htole64(ns->blocks);
	id->nmic = 1; /* several controllers may have it */
	id->lbaf[0].ds = ns->lbads;
	if (ns->bdev->deallocate_zeroes)
		id->dlfeat = 1;
	if (ns->bdev->read_only)
		id->nsattr = 1;
	if (ns->cfg->nguid)
		memcpy(id->nguid, ns->cfg->nguid_bytes, sizeof(id->nguid));
	if (ns->cfg->eui64)
		memcpy(id->eui64, ns->cfg->eui64_bytes, sizeof(id->eui64));
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_list(struct rdt_req *req)
{
	const struct rdt_subsys *ss = req->qp->ctrl->subsys;
	__le32 *list = req->buf;
	unsigned int n = 0;

	for (unsigned int i = 0; i < ss->ns_count && n < NVME_ID_NS_LIST_MAX; i++)
		if (ss->ns[i].cfg->nsid > NSID(req))
			list[n++] = htole32(ss->ns[i].cfg->nsid);
	return RDT_EXEC_DONE;
}

static uint8_t *put_desc(uint8_t *p, uint8_t nidt, const void *id, uint8_t len)
{
	struct nvme_ns_id_desc *desc = (void *)p;

	desc->nidt = nidt;
	desc->nidl = len;
	memcpy(desc->nid, id, len);
	return p + sizeof(*desc) + len;
}

static enum rdt_exec identify_desc(struct rdt_req *req)
{
	const struct rdt_ns *ns = rdt_ns_find(req->qp->ctrl->subsys, NSID(req));
	uint8_t *p = req->buf;

	if (ns->cfg->eui64)
		p = put_desc(p, NVME_NIDT_EUI64, ns->cfg->eui64_bytes, 8);
	if (ns->cfg->nguid)
		p = put_desc(p, NVME_NIDT_NGUID, ns->cfg->nguid_bytes, 16);
	put_desc(p, NVME_NIDT_UUID, ns->cfg->uuid_bytes, 16);
	return RDT_EXEC_DONE;
}

struct nvme_status rdt_identify_check(struct rdt_req *req)
{
	const struct rdt_subsys *ss = req->qp->ctrl->subsys;
	struct nvme_status bad_ns = nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_INVALID_NS);

	req->data_len = NVME_IDENTIFY_DATA_SIZE;
	if (CNS(req) == NVME_IDENTIFY_CNS_CTRL)
		return NVME_OK;
	if (!rdt_subsys_is_disc(ss)) {
		req->err_loc = RDT_LOC(nsid);
		switch (CNS(req)) {
		case NVME_IDENTIFY_CNS_NS: /* no namespace management: FFFFFFFFh has no meaning */
			return NSID(req) == 0 || NSID(req) > max_nsid(ss) ? bad_ns : NVME_OK;
		case NVME_IDENTIFY_CNS_NS_ACTIVE_LIST:
			return NSID(req) >= NVME_NSID_ALL - 1 ? bad_ns : NVME_OK;
		case NVME_IDENTIFY_CNS_NS_DESC_LIST:
			return rdt_ns_find(ss, NSID(req)) ? NVME_OK : bad_ns;
		}
	}
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw10));
}

enum rdt_exec rdt_identify_exec(struct rdt_req *req)
{
	memset(req->buf, 0, req->data_len);
	switch (CNS(req)) {
	case NVME_IDENTIFY_CNS_NS:
		return identify_ns(req);
	case NVME_IDENTIFY_CNS_CTRL:
		return identify_ctrl(req);
	case NVME_IDENTIFY_CNS_NS_ACTIVE_LIST:
		return identify_list(req);
	default:
		return identify_desc(req);
	}
}
