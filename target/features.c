/* SPDX-License-Identifier: BSD-3-Clause */
/* Get and Set Features: those that NVMe 1.4 requires of a fabrics controller. Nothing is saveable.
 */
#include <string.h>

#include "internal.h"

#define FID(req)          (le32toh((req)->sqe.cdw10) & 0xff)
#define SEL(req)          (le32toh((req)->sqe.cdw10) >> 8 & 7)
#define SAVE(req)         (le32toh((req)->sqe.cdw10) >> 31)
#define CDW11(req)        le32toh((req)->sqe.cdw11)

#define CAP_CHANGEABLE    0x4u
#define SLOT_NONE         (-1)
#define TMPSEL(v)         ((v) >> 16 & 0xf)
#define THSEL(v)          ((v) >> 20 & 3)
#define TEMP_OVER_DEFAULT 0xffffu /* never: there is no sensor */

/* One line for each feature. @slot: where its plain value is kept; without one it has code of its
 * own. */
static const struct feature {
	uint8_t fid;
	bool disc; /* a discovery controller has it too */
	int8_t slot;
	uint32_t bits; /* that a host may set */
	uint32_t caps;
} features[] = {
	{NVME_FEAT_FID_ARBITRATION, false, RDT_FEAT_ARBITRATION, 0xffffff07, CAP_CHANGEABLE},
	{NVME_FEAT_FID_POWER_MGMT, false, RDT_FEAT_POWER, 0xe0, CAP_CHANGEABLE}, /* PS 0 only */
	{NVME_FEAT_FID_TEMP_THRESH, false, SLOT_NONE, 0x3fffff, CAP_CHANGEABLE},
	{NVME_FEAT_FID_ERR_RECOVERY, false, RDT_FEAT_ERR_RECOVERY, 0xffff, CAP_CHANGEABLE},
	{NVME_FEAT_FID_VOLATILE_WC, false, SLOT_NONE, 1, 0},
	{NVME_FEAT_FID_NUM_QUEUES, false, SLOT_NONE, UINT32_MAX, CAP_CHANGEABLE},
	{NVME_FEAT_FID_WRITE_ATOMIC, false, RDT_FEAT_WRITE_ATOMIC, 1, CAP_CHANGEABLE},
	{NVME_FEAT_FID_ASYNC_EVENT, true, RDT_FEAT_ASYNC_EVENT, 0xff, CAP_CHANGEABLE},
	{NVME_FEAT_FID_KATO, true, SLOT_NONE, UINT32_MAX, CAP_CHANGEABLE},
};

static const struct feature *find_feature(const struct rdt_req *req)
{
	const struct rdt_subsys *ss = req->qp->ctrl->subsys;

	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		const struct feature *f = &features[i];

		if (f->fid != FID(req) || (rdt_subsys_is_disc(ss) && !f->disc))
			continue;
		if (f->fid == NVME_FEAT_FID_VOLATILE_WC && !ss->volatile_cache)
			return NULL;
		return f;
	}
	return NULL;
}

void rdt_features_reset(struct rdt_ctrl *ctrl)
{
	memset(ctrl->features, 0, sizeof(ctrl->features));
	ctrl->features[RDT_FEAT_TEMP_OVER] = TEMP_OVER_DEFAULT;
}

/* For both commands. None of our features has data. */
struct nvme_status rdt_features_check(struct rdt_req *req)
{
	if (!find_feature(req))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw10));
	return NVME_OK;
}

static uint32_t queues_value(unsigned int n)
{
	return n ? (n - 1) << 16 | (n - 1) : 0;
}

static uint32_t default_value(const struct rdt_req *req, const struct feature *f)
{
	switch (f->fid) {
	case NVME_FEAT_FID_VOLATILE_WC:
		return 1;
	case NVME_FEAT_FID_NUM_QUEUES:
		return queues_value(req->qp->ctrl->queues_max);
	case NVME_FEAT_FID_TEMP_THRESH:
		return THSEL(CDW11(req)) == 0 ? TEMP_OVER_DEFAULT : 0;
	default:
		return 0;
	}
}

static uint32_t current_value(const struct rdt_req *req, const struct feature *f)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;

	switch (f->fid) {
	case NVME_FEAT_FID_VOLATILE_WC:
		return 1;
	case NVME_FEAT_FID_NUM_QUEUES:
		return queues_value(ctrl->queues_granted);
	case NVME_FEAT_FID_KATO:
		return ctrl->kato_ms;
	case NVME_FEAT_FID_TEMP_THRESH:
		return ctrl->features[THSEL(CDW11(req)) == 0 ? RDT_FEAT_TEMP_OVER
							     : RDT_FEAT_TEMP_UNDER];
	default:
		return ctrl->features[f->slot];
	}
}

enum rdt_exec rdt_get_features_exec(struct rdt_req *req)
{
	const struct feature *f = find_feature(req);
	uint32_t value;

	/* Composite temperature is all there is; a threshold is either over or under. */
	if (f->fid == NVME_FEAT_FID_TEMP_THRESH && (TMPSEL(CDW11(req)) || THSEL(CDW11(req)) > 1)) {
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	switch (SEL(req)) {
	case NVME_GET_FEATURES_SEL_CURRENT:
		value = current_value(req, f);
		break;
	case NVME_GET_FEATURES_SEL_DEFAULT:
	case NVME_GET_FEATURES_SEL_SAVED: /* not saveable: the default */
		value = default_value(req, f);
		break;
	case NVME_GET_FEATURES_SEL_SUPPORTED:
		value = f->caps;
		break;
	default:
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw10));
		return RDT_EXEC_DONE;
	}
	req->cqe.result = htole32(value);
	return RDT_EXEC_DONE;
}

static struct nvme_status set_queues(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint32_t nsq = (CDW11(req) & 0xffff) + 1;
	uint32_t ncq = (CDW11(req) >> 16) + 1;
	uint32_t n = nsq < ncq ? nsq : ncq;

	if (nsq == 0x10000 || ncq == 0x10000)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
	if (ctrl->ioqs_live)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, RDT_LOC_NONE);
	ctrl->queues_granted = (uint16_t)(n < ctrl->queues_max ? n : ctrl->queues_max);
	req->cqe.result = htole32(queues_value(ctrl->queues_granted));
	return NVME_OK;
}

static struct nvme_status set_temp(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint32_t value = CDW11(req);

	if ((TMPSEL(value) && TMPSEL(value) != 0xf) || THSEL(value) > 1)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
	ctrl->features[THSEL(value) ? RDT_FEAT_TEMP_UNDER : RDT_FEAT_TEMP_OVER] = value & 0xffff;
	return NVME_OK;
}

static struct nvme_status set_feature(struct rdt_req *req)
{
	const struct feature *f = find_feature(req);
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint32_t nsid = le32toh(req->sqe.nsid);

	if (SAVE(req))
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_SAVEABLE,
				    RDT_LOC(cdw10));
	if (nsid && nsid != NVME_NSID_ALL)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_PER_NS,
				    RDT_LOC(nsid));
	if (CDW11(req) & ~f->bits)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
	switch (f->fid) {
	case NVME_FEAT_FID_VOLATILE_WC:
		if (CDW11(req) & 1)
			return NVME_OK;
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_CHANGEABLE,
				    RDT_LOC(cdw11));
	case NVME_FEAT_FID_NUM_QUEUES:
		return set_queues(req);
	case NVME_FEAT_FID_TEMP_THRESH:
		return set_temp(req);
	case NVME_FEAT_FID_KATO:
		rdt_keep_alive_start(ctrl, CDW11(req));
		return NVME_OK;
	default:
		ctrl->features[f->slot] = CDW11(req);
		return NVME_OK;
	}
}

enum rdt_exec rdt_set_features_exec(struct rdt_req *req)
{
	req->status = set_feature(req);
	return RDT_EXEC_DONE;
}
