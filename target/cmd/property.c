/* SPDX-License-Identifier: BSD-3-Clause */
/* Property Get and Set: the registers of a controller. */
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/request.h"
#include "target/nvmf/subsys.h"
#include "target/config/tgt_limits.h"

#define CC_EN         0x1u
#define CC_CSS(cc)    (((cc) >> 4) & 7)
#define CSS_NVM       0u
#define CSS_ALL       6u /* all supported I/O command sets: NVM */
#define CC_MPS(cc)    (((cc) >> 7) & 0xf)
#define CC_AMS(cc)    (((cc) >> 11) & 7)
#define CC_IOSQES(cc) (((cc) >> 16) & 0xf)
#define CC_IOCQES(cc) (((cc) >> 20) & 0xf)
#define LOC(field)    ((unsigned int)offsetof(struct nvmf_property_sqe, field))

static const struct nvmf_property_sqe *property_sqe(const struct rdt_req *req)
{
	return (const void *)&req->sqe;
}

static struct nvme_status check_where(struct rdt_req *req)
{
	if (!req->qp->admin)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_OPCODE, 4);
	return NVME_OK;
}

struct nvme_status rdt_property_get_check(struct rdt_req *req)
{
	const struct nvmf_property_sqe *sqe = property_sqe(req);
	struct nvme_status st = check_where(req);
	unsigned int size = sqe->attrib & NVMF_PROP_SIZE_MASK;
	unsigned int want;

	if (!nvme_status_ok(st))
		return st;
	switch (le32toh(sqe->offset)) {
	case NVME_REG_CAP:
		want = NVMF_PROP_SIZE_8;
		break;
	case NVME_REG_VS:
	case NVME_REG_CC:
	case NVME_REG_CSTS:
	case NVME_REG_CRTO:
		want = NVMF_PROP_SIZE_4;
		break;
	default:
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(offset));
	}
	if (size != want)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(attrib));
	return NVME_OK;
}

enum rdt_exec rdt_property_get(struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint64_t value = 0;

	switch (le32toh(property_sqe(req)->offset)) {
	case NVME_REG_CAP:
		value = rdt_ctrl_cap(ctrl);
		break;
	case NVME_REG_VS:
		value = RDT_VS;
		break;
	case NVME_REG_CC:
		value = ctrl->cc;
		break;
	case NVME_REG_CSTS:
		value = rdt_ctrl_csts(ctrl);
		break;
	case NVME_REG_CRTO:
		value = RDT_READY_TIMEOUT; /* CRWMT */
		break;
	}
	req->cqe.result64 = htole64(value);
	return RDT_EXEC_DONE;
}

/* CC is validated only if it enables the controller. */
static bool cc_valid(const struct rdt_ctrl *ctrl, uint32_t cc)
{
	if (!(cc & CC_EN))
		return true;
	if ((CC_CSS(cc) != CSS_NVM && CC_CSS(cc) != CSS_ALL) || CC_MPS(cc) || CC_AMS(cc))
		return false;
	/* Discovery controllers have no I/O queues, so hosts may leave the entry sizes 0. */
	return rdt_subsys_is_disc(ctrl->subsys) || (CC_IOSQES(cc) == 6 && CC_IOCQES(cc) == 4);
}

struct nvme_status rdt_property_set_check(struct rdt_req *req)
{
	const struct nvmf_property_sqe *sqe = property_sqe(req);
	struct nvme_status st = check_where(req);

	if (!nvme_status_ok(st))
		return st;
	if (le32toh(sqe->offset) != NVME_REG_CC)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(offset));
	if ((sqe->attrib & NVMF_PROP_SIZE_MASK) != NVMF_PROP_SIZE_4)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(attrib));
	if (!cc_valid(req->qp->ctrl, (uint32_t)le64toh(sqe->value)))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(value));
	return NVME_OK;
}

enum rdt_exec rdt_property_set(struct rdt_req *req)
{
	rdt_ctrl_set_cc(req->qp->ctrl, (uint32_t)le64toh(property_sqe(req)->value));
	return RDT_EXEC_DONE;
}
