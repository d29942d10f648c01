/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify. Its values come from the constants that the code itself uses. A namespace that the host
 * does not see is reported as inactive and unallocated. */
#include <string.h>

#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/admin_budget.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/io.h"
#include "io_cmds.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/request.h"
#include "target/nvmf/base/slots.h"
#include "target/nvmf/subsys.h"
#include "target/config/tgt_limits.h"

#define CNS(req)        (le32toh((req)->sqe.cdw10) & 0xff)
#define CNTID(req)      (le32toh((req)->sqe.cdw10) >> 16)
#define CSI(req)        (le32toh((req)->sqe.cdw11) >> 24)
#define NSID(req)       le32toh((req)->sqe.nsid)
#define OFCS_DISCONNECT 0x1u
#define VWC_FLUSH_ALL   (3u << 1) /* Flush supports NSID FFFFFFFFh */
#define NSTAT_READY     0x1u
#define IOCSC_NVM       UINT64_C(1) /* I/O command set combination: NVM command set only */
#define THIS_CTRL       0xffffu
#define CTRL_COST       64u /* cost of examining a controller: admin_budget.h */

/* ASCII fields are padded with spaces and not terminated. */
void rdt_put_ascii(char *dst, size_t len, const char *src)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = *src ? *src++ : ' ';
}

/* ---- controllers ---- */

static uint16_t optional_commands(const struct rdt_subsys *ss)
{
	uint16_t oncs = NVME_CTRL_ONCS_SAVE_FEATURES | NVME_CTRL_ONCS_TIMESTAMP;

	for (unsigned int op = 0; op < 256; op++)
		if (rdt_cmd_supported(&rdt_io_cmds[op], ss))
			oncs |= rdt_io_cmds[op].oncs;
	return oncs;
}

/* The ANA log page without NSIDs, with all groups. */
#define ANA_LOG_HEAD \
	(sizeof(struct nvme_ana_log) + RDT_ANA_GROUPS * sizeof(struct nvme_ana_group_desc))

/* Returns MNAN. Linux disables ANA if an ANA log page for MNAN namespaces would exceed MDTS: report
 * what fits, or the current number if that is higher. */
static uint32_t allowed_namespaces(const struct rdt_subsys *ss)
{
	uint32_t mdts = ss->target->cfg->target.max_data_bytes;
	uint32_t head = ANA_LOG_HEAD;
	uint32_t fit = mdts > head ? (mdts - head) / sizeof(uint32_t) : 0;
	uint32_t count = atomic_load(&ss->ns_count);

	if (fit < count)
		fit = count;
	return fit < RDT_NS_SLOTS ? fit : RDT_NS_SLOTS;
}

uint64_t rdt_ana_log_max(const struct rdt_req *req)
{
	return ANA_LOG_HEAD + allowed_namespaces(req->qp->ctrl->subsys) * sizeof(uint32_t);
}

static void fill_ana(struct nvme_id_ctrl *id)
{
	id->anatt = RDT_ANATT_S;
	id->anacap = NVME_CTRL_ANACAP_OPT | NVME_CTRL_ANACAP_NON_OPT |
		     NVME_CTRL_ANACAP_INACCESSIBLE | NVME_CTRL_ANACAP_PERSISTENT_LOSS |
		     NVME_CTRL_ANACAP_CHANGE;
	id->anagrpmax = htole32(RDT_ANA_GROUPS);
	id->nanagrpid = htole32(RDT_ANA_GROUPS);
}

static void fill_io_ctrl(struct nvme_id_ctrl *id, const struct rdt_subsys *ss)
{
	const struct rdt_target_config *cfg = &ss->target->cfg->target;

	rdt_put_ascii(id->sn, sizeof(id->sn), ss->cfg->serial);
	rdt_put_ascii(id->mn, sizeof(id->mn), ss->cfg->model);
	id->cntrltype = NVME_CTRL_CNTRLTYPE_IO;
	id->cmic = NVME_CTRL_CMIC_MULTI_PORT | NVME_CTRL_CMIC_MULTI_CTRL |
		   NVME_CTRL_CMIC_MULTI_ANA_REPORTING;
	id->crdt1 = htole16(RDT_CRDT1);
	id->acl = RDT_ABORT_MAX - 1;
	id->frmw = NVME_CTRL_FRMW_1ST_RO | 1 << 1; /* one firmware slot */
	id->elpe = RDT_ERROR_LOG - 1;
	fill_ana(id);
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->maxcmd = htole16((uint16_t)cfg->queue_depth);
	id->nn = htole32(RDT_NSID_MAX);
	id->mnan = htole32(allowed_namespaces(ss));
	id->oncs = htole16(optional_commands(ss));
	id->vwc = VWC_FLUSH_ALL | (ss->volatile_cache ? NVME_CTRL_VWC_PRESENT : 0);
	id->awun = htole16(RDT_AWUN);
	id->awupf = htole16(RDT_AWUPF);
	if (rdt_fused_supported(ss)) {
		id->fuses = htole16(NVME_CTRL_FUSES_COMPARE_AND_WRITE);
		id->acwu = htole16((uint16_t)(RDT_ACWU(cfg->max_data_bytes) - 1));
	}
	if (rdt_cmd_supported(&rdt_io_cmds[nvme_cmd_copy], ss))
		id->ocfs = htole16(RDT_OCFS);
	id->nwpc = rdt_write_protect_caps(ss);
	id->iorcsz = htole32(NVME_CQE_SIZE / 16);
	id->ofcs = htole16(OFCS_DISCONNECT);
}

static void fill_disc_ctrl(struct nvme_id_ctrl *id)
{
	rdt_put_ascii(id->sn, sizeof(id->sn), "");
	rdt_put_ascii(id->mn, sizeof(id->mn), "rdnvme discovery");
	id->cntrltype = NVME_CTRL_CNTRLTYPE_DISCOVERY;
	id->dctype = NVME_CTRL_DCTYPE_DDC;
	id->elpe = RDT_ERROR_LOG - 1;
	id->maxcmd = htole16(RDT_ADMIN_DEPTH_MAX);
}

static enum rdt_exec identify_ctrl(struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_subsys *ss = ctrl->subsys;
	const struct rdt_target_config *cfg = &ss->target->cfg->target;
	struct nvme_id_ctrl *id = req->buf;

	rdt_put_ascii(id->fr, sizeof(id->fr), RDT_VERSION);
	id->mdts = (uint8_t)__builtin_ctz(cfg->max_data_bytes / NVME_MPS_MIN);
	id->cntlid = htole16(ctrl->cntlid);
	id->ver = htole32(RDT_VS);
	id->oaes = htole32(rdt_event_oaes(ss));
	id->ctratt = htole32(NVME_CTRL_CTRATT_128_ID | NVME_CTRL_CTRATT_TBKAS);
	id->aerl = RDT_AER_MAX - 1;
	id->lpa = NVME_CTRL_LPA_CMD_EFFECTS | NVME_CTRL_LPA_EXTENDED |
		  NVME_CTRL_LPA_LI0_LI5_LI12_LI13;
	id->kas = htole16(RDT_KAS_MS / 100);
	memccpy(id->subnqn, ss->nqn, 0, sizeof(id->subnqn));
	if (rdt_subsys_is_disc(ss))
		fill_disc_ctrl(id);
	else
		fill_io_ctrl(id, ss);
	req->qp->ops->identify(req->qp, id);
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_nvm_ctrl(struct rdt_req *req)
{
	const struct rdt_subsys *ss = req->qp->ctrl->subsys;
	struct nvme_id_ctrl_nvm *id = req->buf;

	id->vsl = RDT_VSL;
	id->wzsl = RDT_WZSL;
	id->wusl = RDT_WUSL;
	if (rdt_cmd_supported(&rdt_io_cmds[nvme_cmd_dsm], ss)) {
		id->dmrl = RDT_DMRL;
		id->dmrsl = htole32(RDT_DMRSL);
		id->dmsl = htole64(RDT_DMSL);
	}
	if (rdt_lba_status_supported(ss))
		((uint8_t *)req->buf)[NVME_NVM_CTRL_AOCS] = NVME_AOCS_RALBAS;
	return RDT_EXEC_DONE;
}

/* Controller list from CNTID on, ascending: of the whole subsystem, or of the controllers that see
 * @ns. */
static void put_ctrls(struct rdt_req *req, const struct rdt_ns *ns)
{
	struct rdt_subsys *ss = req->qp->ctrl->subsys;
	struct nvme_ctrl_list *list = req->buf;
	unsigned int n = 0, looked = 0;
	uint32_t id;

	pthread_mutex_lock(&ss->lock);
	if (ns && ns->hosts.any)
		ns = NULL; /* all see it */
	for (id = rdt_cntlid_next(&ss->cntlids, CNTID(req));
	     id <= UINT16_MAX && n < NVME_ID_CTRL_LIST_MAX;
	     id = rdt_cntlid_next(&ss->cntlids, id + 1), looked++)
		if (!ns || rdt_ns_visible(rdt_cntlid_find(&ss->cntlids, (uint16_t)id), ns))
			list->identifier[n++] = htole16((uint16_t)id);
	pthread_mutex_unlock(&ss->lock);
	list->num = htole16((uint16_t)n);
	rdt_admin_charge(req->qp, looked * (ns ? CTRL_COST : RDT_ADMIN_LOOK));
}

static enum rdt_exec identify_ctrls(struct rdt_req *req)
{
	put_ctrls(req, NULL);
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_ns_ctrls(struct rdt_req *req)
{
	const struct rdt_ns *ns = rdt_ns_seen(req, NSID(req));

	if (ns)
		put_ctrls(req, ns);
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_iocs(struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct nvme_id_iocs *id = req->buf;
	struct rdt_ctrl *other = NULL;

	/* The structure is the same for all controllers, but the requested one must exist. ID 0 is
	 * never assigned; hosts use it to request none. */
	if (CNTID(req) && CNTID(req) != THIS_CTRL && CNTID(req) != ctrl->cntlid) {
		other = rdt_subsys_get_ctrl(ctrl->subsys, (uint16_t)CNTID(req));
		if (!other) {
			req->status = rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
						   RDT_LOC(cdw10) + 2);
			return RDT_EXEC_DONE;
		}
		rdt_ctrl_put(other);
	}
	id->iocsc[0] = htole64(IOCSC_NVM);
	return RDT_EXEC_DONE;
}

/* ---- namespaces ---- */

/* Returns attributes common to all command sets. */
static uint8_t ns_attributes(const struct rdt_ns *ns)
{
	return rdt_ns_write_protected(ns) ? 1 : 0;
}

static void fill_copy_limits(struct nvme_id_ns *id, const struct rdt_subsys *ss)
{
	if (!rdt_cmd_supported(&rdt_io_cmds[nvme_cmd_copy], ss))
		return;
	id->mssrl = htole16(RDT_MSSRL);
	id->mcl = htole32(RDT_MCL);
	id->msrc = RDT_MSRC;
}

/* Tells hosts that they need not wait before they repeat a lost write through another gateway. Not
 * if the write could be held in a layer, or in a transport that does not report unread commands,
 * when this gateway acquires the storage. */
static void fill_gateway(struct nvme_id_ns *id, const struct rdt_req *req, const struct rdt_ns *ns)
{
	struct nvme_ns_gateway own = {.gateway = htole64(ns->subsys->target->gateway)};

	_Static_assert(sizeof(own) <= sizeof(id->vs), "vendor specific data");
	if (!ns->bdev->one_gateway || req->qp->ops->unread(req->qp) < 0)
		return;
	memcpy(own.mark, NVME_NS_GATEWAY_MARK, sizeof(own.mark));
	memcpy(id->vs, &own, sizeof(own));
}

static enum rdt_exec identify_ns(struct rdt_req *req)
{
	const struct rdt_ns *ns = rdt_ns_seen(req, NSID(req));
	struct nvme_id_ns *id = req->buf;
	enum nvme_ana_state state;
	const uint8_t *nguid;
	uint64_t blocks;

	if (!ns)
		return RDT_EXEC_DONE; /* valid, but inactive: all zeroes */
	blocks = atomic_load(&ns->blocks);
	state = rdt_ana_told(req->qp->ctrl, rdt_ns_ana_group(ns));
	id->nsze = id->ncap = htole64(blocks);
	/* Not reported in ANA states in which it cannot be read. */
	if (state != NVME_ANA_STATE_INACCESSIBLE && state != NVME_ANA_STATE_PERSISTENT_LOSS)
		id->nuse = htole64(blocks);
	id->nmic = NVME_NS_NMIC_SHARED;
	id->rescap = rdt_resv_rescap(ns);
	id->lbaf[0].ds = ns->lbads;
	if (ns->bdev->deallocate_zeroes)
		id->dlfeat = NVME_NS_DLFEAT_RB_ALL_0S | NVME_NS_DLFEAT_WRITE_ZEROES;
	if (ns->bdev->io_boundary >> ns->lbads <= UINT16_MAX)
		id->noiob = htole16((uint16_t)(ns->bdev->io_boundary >> ns->lbads));
	fill_copy_limits(id, ns->subsys);
	id->anagrpid = htole32(rdt_ns_ana_group(ns));
	id->nsattr = ns_attributes(ns);
	nguid = rdt_ns_nguid(ns);
	if (nguid)
		memcpy(id->nguid, nguid, sizeof(id->nguid));
	if (ns->cfg->eui64)
		memcpy(id->eui64, ns->cfg->eui64_bytes, sizeof(id->eui64));
	fill_gateway(id, req, ns);
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_independent_ns(struct rdt_req *req)
{
	struct nvme_id_independent_id_ns *id = req->buf;
	const struct rdt_ns *ns = rdt_ns_seen(req, NSID(req));

	if (!ns)
		return RDT_EXEC_DONE;
	id->nmic = NVME_NS_NMIC_SHARED;
	id->rescap = rdt_resv_rescap(ns);
	id->anagrpid = htole32(rdt_ns_ana_group(ns));
	id->nsattr = ns_attributes(ns);
	id->nstat = NSTAT_READY;
	return RDT_EXEC_DONE;
}

static enum rdt_exec identify_list(struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_ns_place *end, *first,
		*place = rdt_ns_places(req->qp->reactor, ctrl->subsys, NSID(req), &end);
	struct nvme_ns_list *list = req->buf;
	unsigned int n = 0;

	for (first = place; place < end && n < NVME_ID_NS_LIST_MAX; place++)
		if (!rdt_slots_has(&ctrl->hidden, place->slot))
			list->ns[n++] = htole32(rdt_ns_place_nsid(place));
	rdt_admin_charge(req->qp, (size_t)(place - first) * RDT_ADMIN_LOOK);
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
	static const uint8_t csi = NVME_CSI_NVM;
	const struct rdt_ns *ns = rdt_ns_seen(req, NSID(req));
	uint8_t *p = req->buf;

	if (!ns) { /* removed while the command waited for a buffer */
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
		return RDT_EXEC_DONE;
	}
	if (ns->cfg->eui64)
		p = put_desc(p, NVME_NIDT_EUI64, ns->cfg->eui64_bytes, 8);
	if (rdt_ns_nguid(ns))
		p = put_desc(p, NVME_NIDT_NGUID, rdt_ns_nguid(ns), 16);
	p = put_desc(p, NVME_NIDT_UUID, rdt_ns_uuid(ns), 16);
	put_desc(p, NVME_NIDT_CSI, &csi, sizeof(csi));
	return RDT_EXEC_DONE;
}

/* No protection information and no extended LBA formats: all fields are 0. */
static enum rdt_exec identify_zeroes(struct rdt_req *req)
{
	return RDT_EXEC_DONE;
}

/* ---- the command ---- */

enum nsid_rule {
	NSID_NONE,   /* ignored */
	NSID_VALID,  /* 1 to NN; all zeroes for an inactive namespace */
	NSID_ACTIVE, /* a namespace that the host sees */
	NSID_AFTER,  /* the list begins after this NSID */
};

/* The structures by CNS. Without namespace management, all allocated namespaces are active. */
static const struct cns {
	uint8_t cns;
	bool disc; /* also for discovery controllers */
	bool csi;  /* command set specific: CSI must be NVM */
	uint8_t nsid;
	enum rdt_exec (*exec)(struct rdt_req *req);
} structures[] = {
	{NVME_IDENTIFY_CNS_NS, false, false, NSID_VALID, identify_ns},
	{NVME_IDENTIFY_CNS_CTRL, true, false, NSID_NONE, identify_ctrl},
	{NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, false, false, NSID_AFTER, identify_list},
	{NVME_IDENTIFY_CNS_NS_DESC_LIST, false, false, NSID_ACTIVE, identify_desc},
	{NVME_IDENTIFY_CNS_CSI_NS, false, true, NSID_VALID, identify_zeroes},
	{NVME_IDENTIFY_CNS_CSI_CTRL, false, true, NSID_NONE, identify_nvm_ctrl},
	{NVME_IDENTIFY_CNS_CSI_NS_ACTIVE_LIST, false, true, NSID_AFTER, identify_list},
	{NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS, false, false, NSID_VALID,
	 identify_independent_ns},
	{NVME_IDENTIFY_CNS_ALLOCATED_NS_LIST, false, false, NSID_AFTER, identify_list},
	{NVME_IDENTIFY_CNS_ALLOCATED_NS, false, false, NSID_VALID, identify_ns},
	{NVME_IDENTIFY_CNS_NS_CTRL_LIST, false, false, NSID_VALID, identify_ns_ctrls},
	{NVME_IDENTIFY_CNS_CTRL_LIST, false, false, NSID_NONE, identify_ctrls},
	{NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE, false, false, NSID_NONE, identify_iocs},
};

static const struct cns *find_structure(const struct rdt_req *req)
{
	bool disc = rdt_subsys_is_disc(req->qp->ctrl->subsys);

	for (size_t i = 0; i < sizeof(structures) / sizeof(structures[0]); i++)
		if (structures[i].cns == CNS(req) && (structures[i].disc || !disc))
			return &structures[i];
	return NULL;
}

static bool nsid_valid(const struct rdt_req *req, enum nsid_rule rule)
{
	switch (rule) {
	case NSID_VALID: /* FFFFFFFFh is valid only with namespace management */
		return NSID(req) >= 1 && NSID(req) <= RDT_NSID_MAX;
	case NSID_ACTIVE:
		return rdt_ns_seen(req, NSID(req)) != NULL;
	case NSID_AFTER:
		return NSID(req) < NVME_NSID_ALL - 1;
	default:
		return true;
	}
}

struct nvme_status rdt_identify_check(struct rdt_req *req)
{
	const struct cns *s = find_structure(req);

	if (!s)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw10));
	if (s->csi && CSI(req) != NVME_CSI_NVM)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD,
				    RDT_LOC(cdw11) + 3);
	if (!nsid_valid(req, (enum nsid_rule)s->nsid))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	req->data_len = NVME_IDENTIFY_DATA_SIZE;
	return NVME_OK;
}

enum rdt_exec rdt_identify_exec(struct rdt_req *req)
{
	memset(req->buf, 0, req->data_len);
	return find_structure(req)->exec(req);
}
