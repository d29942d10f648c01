/* SPDX-License-Identifier: BSD-3-Clause */
/* Get and Set Features, for the features that apply over fabrics. No feature is saveable; write
 * protection and the persistence of reservations are stored separately. */
#include <string.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/admin_budget.h"
#include "target/nvmf/slices.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/io.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/request.h"
#include "target/nvmf/resv.h"
#include "io_cmds.h"
#include "target/nvmf/base/slots.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

#define FID(req)       (le32toh((req)->sqe.cdw10) & 0xff)
#define SEL(req)       (le32toh((req)->sqe.cdw10) >> 8 & 7)
#define SAVE(req)      (le32toh((req)->sqe.cdw10) >> 31)
#define CDW11(req)     le32toh((req)->sqe.cdw11)
#define NSID(req)      le32toh((req)->sqe.nsid)

#define CAP_NAMESPACE  0x2u
#define CAP_CHANGEABLE 0x4u
#define SLOT_NONE      (-1)
#define TMPSEL(v)      ((v) >> 16 & 0xf)
#define THSEL(v)       ((v) >> 20 & 3)
#define HOSTID_EXHID   0x1u
#define TIMESTAMP_SET  (1u << 1) /* timestamp origin: set by the host */

/* Namespace Write Protection (feature 84h). Not supported without state_dir or with "write_protect:
 * off". A namespace that was protected before such a change stays protected. */

#define WPS(req) (le32toh((req)->sqe.cdw11) & 7)

uint8_t rdt_write_protect_caps(const struct rdt_subsys *ss)
{
	if (!ss->target->state || !ss->cfg || ss->cfg->write_protect == RDT_WP_OFF)
		return 0;
	return NVME_CTRL_NWPC_WRITE_PROTECT | NVME_CTRL_NWPC_WRITE_PROTECT_POWER_CYCLE |
	       (ss->cfg->write_protect == RDT_WP_ALL ? NVME_CTRL_NWPC_WRITE_PROTECT_PERMANENT : 0);
}

static struct nvme_status write_protect_get(struct rdt_req *req, uint32_t *value)
{
	const struct rdt_ns *ns = rdt_ns_seen(req, le32toh(req->sqe.nsid));

	if (!ns)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	*value = atomic_load(&ns->wp);
	return NVME_OK;
}

static enum rdt_exec write_protect_set(struct rdt_req *req)
{
	if (WPS(req) > NVME_NS_WP_CFG_PROTECT_PERMANENT ||
	    (WPS(req) == NVME_NS_WP_CFG_PROTECT_PERMANENT &&
	     !(rdt_write_protect_caps(req->qp->ctrl->subsys) &
	       NVME_CTRL_NWPC_WRITE_PROTECT_PERMANENT))) {
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	if (!rdt_ns_take(req, le32toh(req->sqe.nsid))) {
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
		return RDT_EXEC_DONE;
	}
	return rdt_ns_protect(req, (uint8_t)WPS(req));
}

_Static_assert(sizeof(struct nvme_timestamp) == 8, "timestamp");
_Static_assert(sizeof(struct nvme_feat_host_behavior) == 512, "host behavior support");

/* The table of features. @slot: where a plain value is stored; other features have their own
 * functions. */
static const struct feature {
	uint8_t fid;
	bool disc; /* also for discovery controllers */
	int8_t slot;
	uint16_t data_len;
	uint32_t bits; /* bits that a host may set */
	uint32_t caps;
} features[] = {
	{NVME_FEAT_FID_ARBITRATION, false, RDT_FEAT_ARBITRATION, 0, 0xffffff07, CAP_CHANGEABLE},
	/* power state 0 only */
	{NVME_FEAT_FID_POWER_MGMT, false, RDT_FEAT_POWER, 0, 0xe0, CAP_CHANGEABLE},
	{NVME_FEAT_FID_TEMP_THRESH, false, SLOT_NONE, 0, 0x3fffff, CAP_CHANGEABLE},
	{NVME_FEAT_FID_ERR_RECOVERY, false, SLOT_NONE, 0, 0xffff, CAP_NAMESPACE | CAP_CHANGEABLE},
	{NVME_FEAT_FID_VOLATILE_WC, false, SLOT_NONE, 0, 1, 0},
	{NVME_FEAT_FID_NUM_QUEUES, false, SLOT_NONE, 0, UINT32_MAX, CAP_CHANGEABLE},
	/*
	 * Interrupt Coalescing and Interrupt Vector Configuration do not apply without interrupts;
	 * the specification does not define the answer over fabrics (Base 2.0, 5.27.1.6 and
	 * 5.27.1.7). Tools read all features that are mandatory over PCIe, and SPDK's target
	 * answers Get Features with no coalescing for any vector. They cannot be set.
	 */
	{NVME_FEAT_FID_IRQ_COALESCE, false, SLOT_NONE, 0, UINT32_MAX, 0},
	{NVME_FEAT_FID_IRQ_CONFIG, false, SLOT_NONE, 0, UINT32_MAX, 0},
	{NVME_FEAT_FID_WRITE_ATOMIC, false, RDT_FEAT_WRITE_ATOMIC, 0, 1, CAP_CHANGEABLE},
	/* plus the events of OAES */
	{NVME_FEAT_FID_ASYNC_EVENT, true, RDT_FEAT_ASYNC_EVENT, 0, 0xff, CAP_CHANGEABLE},
	{NVME_FEAT_FID_TIMESTAMP, false, SLOT_NONE, sizeof(struct nvme_timestamp), 0,
	 CAP_CHANGEABLE},
	{NVME_FEAT_FID_KATO, true, SLOT_NONE, 0, UINT32_MAX, CAP_CHANGEABLE},
	{NVME_FEAT_FID_HOST_BEHAVIOR, false, SLOT_NONE, sizeof(struct nvme_feat_host_behavior), 0,
	 CAP_CHANGEABLE},
	/* The only I/O command set combination is index 0. */
	{NVME_FEAT_FID_IOCS_PROFILE, false, SLOT_NONE, 0, 0x1ff, CAP_CHANGEABLE},
	{NVME_FEAT_FID_HOST_ID, false, SLOT_NONE, 16, HOSTID_EXHID, 0},
	{NVME_FEAT_FID_RESV_MASK, false, SLOT_NONE, 0, UINT32_MAX, CAP_NAMESPACE | CAP_CHANGEABLE},
	{NVME_FEAT_FID_RESV_PERSIST, false, SLOT_NONE, 0, UINT32_MAX,
	 CAP_NAMESPACE | CAP_CHANGEABLE},
	{NVME_FEAT_FID_WRITE_PROTECT, false, SLOT_NONE, 0, 7, CAP_NAMESPACE | CAP_CHANGEABLE},
};

static bool feature_available(const struct feature *f, const struct rdt_subsys *ss)
{
	switch (f->fid) {
	case NVME_FEAT_FID_VOLATILE_WC:
		return ss->volatile_cache;
	case NVME_FEAT_FID_WRITE_PROTECT:
		return rdt_write_protect_caps(ss) != 0;
	case NVME_FEAT_FID_RESV_MASK:
	case NVME_FEAT_FID_RESV_PERSIST:
		return rdt_resv_offered(ss);
	default:
		return true;
	}
}

static const struct feature *lookup(const struct rdt_subsys *ss, unsigned int fid)
{
	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		const struct feature *f = &features[i];

		if (f->fid == fid)
			return (f->disc || !rdt_subsys_is_disc(ss)) && feature_available(f, ss)
				       ? f
				       : NULL;
	}
	return NULL;
}

static const struct feature *find_feature(const struct rdt_req *req)
{
	return lookup(req->qp->ctrl->subsys, FID(req));
}

uint32_t rdt_feature_effects(const struct rdt_subsys *ss, unsigned int fid)
{
	const struct feature *f = lookup(ss, fid);
	uint32_t scope;

	if (!f)
		return 0;
	scope = f->caps & CAP_NAMESPACE ? NVME_FID_SUPPORTED_EFFECTS_SCOPE_NS
					: NVME_FID_SUPPORTED_EFFECTS_SCOPE_CTRL;
	return NVME_FID_SUPPORTED_EFFECTS_FSUPP |
	       (fid == NVME_FEAT_FID_WRITE_PROTECT ? NVME_FID_SUPPORTED_EFFECTS_NCC : 0) |
	       scope << NVME_FID_SUPPORTED_EFFECTS_SCOPE_SHIFT;
}

static struct nvme_status invalid_feature_field(struct rdt_req *req, unsigned int loc)
{
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, loc);
}

/* Error Recovery is per namespace (NVM Command Set 1.0, 4.1.3.2), which does not define NSID 0;
 * before NVMe 1.2 it was per controller. SPDK's target ignores the NSID, and its tools use 0. So
 * NSID 0 selects a value of the controller in addition to those of the namespaces. */
static bool is_ctrl_feature(const struct rdt_req *req, const struct feature *f)
{
	return f->fid == NVME_FEAT_FID_ERR_RECOVERY && NSID(req) == 0;
}

/* A feature of a namespace is inaccessible while the namespace is (ANA). */
static struct nvme_status check_path(struct rdt_req *req, const struct feature *f)
{
	const struct rdt_ns *ns;

	if (!(f->caps & CAP_NAMESPACE) || NSID(req) == NVME_NSID_ALL || is_ctrl_feature(req, f))
		return NVME_OK;
	ns = rdt_ns_seen(req, NSID(req));
	if (!ns)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	req->err_loc = RDT_LOC(nsid);
	return rdt_ana_status(req->qp->ctrl, ns);
}

struct nvme_status rdt_get_features_check(struct rdt_req *req)
{
	const struct feature *f = find_feature(req);

	if (!f || SEL(req) > NVME_GET_FEATURES_SEL_SUPPORTED)
		return invalid_feature_field(req, RDT_LOC(cdw10));
	if (SEL(req) == NVME_GET_FEATURES_SEL_SUPPORTED)
		return NVME_OK; /* reported without data and without a namespace */
	/* The 64-bit form cannot hold the 128-bit Host Identifier of fabrics. */
	if (f->fid == NVME_FEAT_FID_HOST_ID && !(CDW11(req) & HOSTID_EXHID))
		return invalid_feature_field(req, RDT_LOC(cdw11));
	req->data_len = f->data_len;
	return check_path(req, f);
}

struct nvme_status rdt_set_features_check(struct rdt_req *req)
{
	const struct feature *f = find_feature(req);

	if (!f)
		return invalid_feature_field(req, RDT_LOC(cdw10));
	if (SAVE(req))
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_SAVEABLE,
				    RDT_LOC(cdw10));
	if (!(f->caps & CAP_NAMESPACE) && NSID(req) && NSID(req) != NVME_NSID_ALL)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_PER_NS,
				    RDT_LOC(nsid));
	req->data_len = f->data_len;
	return check_path(req, f);
}

/* ---- Get Features ---- */

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
		return THSEL(CDW11(req)) == 0 ? RDT_TEMP_OVER_DEFAULT : 0;
	case NVME_FEAT_FID_IRQ_CONFIG:
		return CDW11(req) & 0xffff; /* the vector in CDW11 */
	default:
		return 0;
	}
}

static void get_timestamp(const struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct nvme_timestamp *ts = req->buf;
	uint64_t ms = ctrl->timestamp_ms +
		      (rd_loop_now(ctrl->owner->loop) - ctrl->timestamp_at) / RD_NSEC_PER_MSEC;
	__le64 le = htole64(ms);

	memcpy(ts->timestamp, &le, sizeof(ts->timestamp));
	ts->attr = ctrl->timestamp_set ? TIMESTAMP_SET : 0;
}

/* Fill in the data of features that have data; the buffer is zeroed. */
static void get_data(const struct rdt_req *req, const struct feature *f)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	struct nvme_feat_host_behavior *hb = req->buf;

	switch (f->fid) {
	case NVME_FEAT_FID_TIMESTAMP:
		get_timestamp(req);
		break;
	case NVME_FEAT_FID_HOST_BEHAVIOR:
		hb->acre = atomic_load(&ctrl->retry_delay) ? NVME_ENABLE_ACRE : 0;
		break;
	case NVME_FEAT_FID_HOST_ID:
		memcpy(req->buf, ctrl->hostid, sizeof(ctrl->hostid));
		break;
	}
}

/* The value is per namespace; NSID FFFFFFFFh has none. */
static struct nvme_status get_err_recovery(struct rdt_req *req, uint32_t *value)
{
	const struct rdt_ns *ns = rdt_ns_seen(req, NSID(req));

	if (NSID(req) == 0) {
		*value = req->qp->ctrl->features[RDT_FEAT_ERR_RECOVERY];
		return NVME_OK;
	}
	if (!ns)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
	*value = atomic_load_explicit(&ns->marks->err_recovery, memory_order_relaxed);
	return NVME_OK;
}

static struct nvme_status current_value(struct rdt_req *req, const struct feature *f,
					uint32_t *value)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;

	*value = 0;
	if (f->slot != SLOT_NONE) {
		*value = ctrl->features[f->slot];
		return NVME_OK;
	}
	if (f->data_len) {
		get_data(req, f);
		return NVME_OK;
	}
	switch (f->fid) {
	case NVME_FEAT_FID_VOLATILE_WC:
		*value = 1;
		return NVME_OK;
	case NVME_FEAT_FID_NUM_QUEUES:
		*value = queues_value(ctrl->queues_granted);
		return NVME_OK;
	case NVME_FEAT_FID_KATO:
		*value = ctrl->kato_ms;
		return NVME_OK;
	case NVME_FEAT_FID_TEMP_THRESH:
		*value = ctrl->features[THSEL(CDW11(req)) == 0 ? RDT_FEAT_TEMP_OVER
							       : RDT_FEAT_TEMP_UNDER];
		return NVME_OK;
	case NVME_FEAT_FID_IRQ_CONFIG:
		*value = default_value(req, f);
		return NVME_OK;
	case NVME_FEAT_FID_ERR_RECOVERY:
		return get_err_recovery(req, value);
	case NVME_FEAT_FID_RESV_MASK:
	case NVME_FEAT_FID_RESV_PERSIST:
		return rdt_resv_feature_get(req, value);
	case NVME_FEAT_FID_WRITE_PROTECT:
		return write_protect_get(req, value);
	default:
		return NVME_OK;
	}
}

enum rdt_exec rdt_get_features_exec(struct rdt_req *req)
{
	const struct feature *f = find_feature(req);
	uint32_t value;

	if (!f) { /* the last namespace with a volatile cache was removed meanwhile */
		req->status = invalid_feature_field(req, RDT_LOC(cdw10));
		return RDT_EXEC_DONE;
	}
	if (req->data_len)
		memset(req->buf, 0, req->data_len);
	/* Only the composite temperature has a threshold, over or under. */
	if (f->fid == NVME_FEAT_FID_TEMP_THRESH && (TMPSEL(CDW11(req)) || THSEL(CDW11(req)) > 1)) {
		req->status = invalid_feature_field(req, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	switch (SEL(req)) {
	case NVME_GET_FEATURES_SEL_CURRENT:
		req->status = current_value(req, f, &value);
		break;
	case NVME_GET_FEATURES_SEL_SUPPORTED:
		value = f->caps;
		break;
	default: /* default, or saved, which equals the default because nothing is saveable */
		value = default_value(req, f);
		break;
	}
	req->cqe.result = htole32(value);
	return RDT_EXEC_DONE;
}

/* ---- Set Features ---- */

static struct nvme_status set_queues(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint32_t nsq = (CDW11(req) & 0xffff) + 1;
	uint32_t ncq = (CDW11(req) >> 16) + 1;
	uint32_t n = nsq < ncq ? nsq : ncq;

	if (nsq == 0x10000 || ncq == 0x10000)
		return invalid_feature_field(req, RDT_LOC(cdw11));
	if (ctrl->ioqs_live > ctrl->guests_count)
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
		return invalid_feature_field(req, RDT_LOC(cdw11));
	ctrl->features[THSEL(value) ? RDT_FEAT_TEMP_UNDER : RDT_FEAT_TEMP_OVER] = value & 0xffff;
	return NVME_OK;
}

static struct nvme_status set_timestamp(struct rdt_req *req)
{
	const struct nvme_timestamp *ts = req->buf;
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	__le64 le = 0;

	memcpy(&le, ts->timestamp, sizeof(ts->timestamp));
	ctrl->timestamp_ms = le64toh(le);
	ctrl->timestamp_at = rd_loop_now(ctrl->owner->loop);
	ctrl->timestamp_set = true;
	return NVME_OK;
}

static struct nvme_status set_host_behavior(struct rdt_req *req)
{
	const uint8_t *hb = req->buf; /* bytes 0 to 2: ACRE, ETDAS, LBAFEE */

	/* The other bytes would enable unsupported features: telemetry data area 4, extended LBA
	 * formats and others. */
	if (hb[0] > NVME_ENABLE_ACRE || hb[1] || hb[2])
		return invalid_feature_field(req, RDT_LOC(sgl));
	atomic_store(&req->qp->ctrl->retry_delay, hb[0]);
	return NVME_OK;
}

/* Set the value of up to @count namespaces after NSID @after; returns the last NSID, or 0 when none
 * is left. */
static uint32_t set_some_err_recovery(struct rdt_req *req, uint32_t after, unsigned int count)
{
	struct rdt_ns_marks *marks = rdt_req_target(req)->ns_marks;
	const struct rdt_ctrl *ctrl = req->qp->ctrl;
	const struct rdt_ns_place *end, *place;

	place = rdt_ns_places(req->qp->reactor, ctrl->subsys, after, &end);
	for (; place < end && count; place++, count--) {
		after = rdt_ns_place_nsid(place);
		if (after <= NSID(req) && !rdt_slots_has(&ctrl->hidden, place->slot))
			atomic_store_explicit(&marks[place->slot].err_recovery,
					      (uint16_t)CDW11(req), memory_order_relaxed);
	}
	return place < end ? after : 0;
}

static struct nvme_status set_err_recovery(struct rdt_req *req)
{
	if (NSID(req) == 0)
		req->qp->ctrl->features[RDT_FEAT_ERR_RECOVERY] = CDW11(req);
	else
		set_some_err_recovery(req, NSID(req) - 1, 1);
	return NVME_OK;
}

static enum rdt_step recovery_of_all_step(struct rdt_req *req)
{
	req->work.nsid = set_some_err_recovery(req, req->work.nsid, RDT_SLICE);
	return req->work.nsid ? rdt_slice_done(req) : RDT_STEP_DONE;
}

static enum rdt_exec set_recovery_of_all(struct rdt_req *req)
{
	const struct rdt_ns_place *end, *place;

	place = rdt_ns_places(req->qp->reactor, req->qp->ctrl->subsys, 0, &end);
	rdt_admin_charge(req->qp, (size_t)(end - place) * RDT_ADMIN_LOOK);
	return rdt_io_run(req, recovery_of_all_step);
}

static struct nvme_status not_changeable(struct rdt_req *req)
{
	return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_FEATURE_NOT_CHANGEABLE,
			    RDT_LOC(cdw11));
}

static struct nvme_status set_feature_data(struct rdt_req *req, const struct feature *f)
{
	switch (f->fid) {
	case NVME_FEAT_FID_VOLATILE_WC:
		return CDW11(req) & 1 ? NVME_OK : not_changeable(req);
	case NVME_FEAT_FID_IRQ_COALESCE:
	case NVME_FEAT_FID_IRQ_CONFIG:
		return not_changeable(req);
	case NVME_FEAT_FID_ERR_RECOVERY:
		return set_err_recovery(req);
	case NVME_FEAT_FID_NUM_QUEUES:
		return set_queues(req);
	case NVME_FEAT_FID_TEMP_THRESH:
		return set_temp(req);
	case NVME_FEAT_FID_TIMESTAMP:
		return set_timestamp(req);
	case NVME_FEAT_FID_KATO:
		rdt_keep_alive_start(req->qp->ctrl, CDW11(req));
		return NVME_OK;
	case NVME_FEAT_FID_HOST_BEHAVIOR:
		return set_host_behavior(req);
	case NVME_FEAT_FID_IOCS_PROFILE:
		if (CDW11(req) == 0)
			return NVME_OK;
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_IOCS_COMBINATION_REJECTED,
				    RDT_LOC(cdw11));
	default: /* the Host Identifier is set by Connect */
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, RDT_LOC_NONE);
	}
}

enum rdt_exec rdt_set_features_exec(struct rdt_req *req)
{
	const struct feature *f = find_feature(req);
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint32_t bits;

	if (!f) {
		req->status = invalid_feature_field(req, RDT_LOC(cdw10));
		return RDT_EXEC_DONE;
	}
	bits = f->bits;
	if (f->fid == NVME_FEAT_FID_ASYNC_EVENT)
		bits |= rdt_event_oaes(ctrl->subsys);
	if (CDW11(req) & ~bits) {
		req->status = invalid_feature_field(req, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	switch (f->fid) {
	case NVME_FEAT_FID_RESV_MASK:
	case NVME_FEAT_FID_RESV_PERSIST:
		return rdt_resv_feature_set(req);
	case NVME_FEAT_FID_WRITE_PROTECT:
		return write_protect_set(req);
	case NVME_FEAT_FID_ERR_RECOVERY:
		if (NSID(req) == NVME_NSID_ALL)
			return set_recovery_of_all(req);
		break;
	}
	if (f->slot != SLOT_NONE) {
		bits = CDW11(req) & ~ctrl->features[f->slot];
		ctrl->features[f->slot] = CDW11(req);
		/* Report a warning that existed before the host enabled the event. */
		if (f->fid == NVME_FEAT_FID_ASYNC_EVENT && bits)
			rdt_event_post(ctrl, RDT_EV_HEALTH, 0);
	} else {
		req->status = set_feature_data(req, f);
	}
	return RDT_EXEC_DONE;
}
