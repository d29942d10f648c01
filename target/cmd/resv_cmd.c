/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservation commands, and features 82h and 83h: checks, and sending the command to the main
 * thread. */
#include <string.h>

#include "nvmf/wire.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/io.h"
#include "target/resv/reservation.h"
#include "target/nvmf/resv.h"
#include "io_cmds.h"
#include "target/nvmf/target.h"

#define ACTION(req) (le32toh((req)->sqe.cdw10) & 7)
#define IEKEY(req)  (le32toh((req)->sqe.cdw10) >> 3 & 1)
#define RTYPE(req)  (le32toh((req)->sqe.cdw10) >> 8 & 0xff)
#define CPTPL(req)  (le32toh((req)->sqe.cdw10) >> 30)
#define EDS(req)    (le32toh((req)->sqe.cdw11) & 1)
#define NUMD(req)   le32toh((req)->sqe.cdw10)
#define CDW11(req)  le32toh((req)->sqe.cdw11)
#define MASK_BITS \
	(NVME_FEAT_RESV_NOTIFY_REGPRE | NVME_FEAT_RESV_NOTIFY_RESREL | NVME_FEAT_RESV_NOTIFY_RESPRE)

static struct nvme_status bad_field(struct rdt_req *req, unsigned int loc)
{
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, loc);
}

static uint64_t data_key(const struct rdt_req *req, unsigned int index)
{
	__le64 key;

	memcpy(&key, (const char *)req->buf + index * sizeof(key), sizeof(key));
	return le64toh(key);
}

struct nvme_status rdt_resv_register_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	req->data_len = 2 * sizeof(uint64_t);
	if (!nvme_status_ok(st))
		return st;
	if (ACTION(req) > NVME_RESERVATION_RREGA_REPLACE_KEY || CPTPL(req) == 1 ||
	    (CPTPL(req) == NVME_RESERVATION_CPTPL_PERSIST && !rdt_resv_durable(req->ns)))
		return bad_field(req, RDT_LOC(cdw10));
	return NVME_OK;
}

enum rdt_exec rdt_resv_register_exec(struct rdt_req *req)
{
	static const uint8_t actions[] = {RDT_RESV_REGISTER, RDT_RESV_UNREGISTER, RDT_RESV_REPLACE};

	req->resv = (struct rdt_resv_cmd){
		.op = {.iekey = IEKEY(req),
		       .cptpl = (uint8_t)CPTPL(req),
		       .crkey = data_key(req, 0),
		       .other_key = data_key(req, 1)},
	};
	return rdt_resv_send(req, actions[ACTION(req)]);
}

/* Both commands require the key: IEKEY is not allowed since NVMe 1.3. */
struct nvme_status rdt_resv_acquire_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	req->data_len = 2 * sizeof(uint64_t);
	if (!nvme_status_ok(st))
		return st;
	if (ACTION(req) > NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT || IEKEY(req) ||
	    !rdt_resv_type_valid(RTYPE(req)))
		return bad_field(req, RDT_LOC(cdw10));
	return NVME_OK;
}

enum rdt_exec rdt_resv_acquire_exec(struct rdt_req *req)
{
	static const uint8_t actions[] = {RDT_RESV_ACQUIRE, RDT_RESV_PREEMPT,
					  RDT_RESV_PREEMPT_ABORT};

	req->resv = (struct rdt_resv_cmd){
		.op = {.rtype = (uint8_t)RTYPE(req),
		       .crkey = data_key(req, 0),
		       .other_key = data_key(req, 1)},
	};
	return rdt_resv_send(req, actions[ACTION(req)]);
}

struct nvme_status rdt_resv_release_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);

	req->data_len = sizeof(uint64_t);
	if (!nvme_status_ok(st))
		return st;
	if (ACTION(req) > NVME_RESERVATION_RRELA_CLEAR || IEKEY(req))
		return bad_field(req, RDT_LOC(cdw10));
	return NVME_OK;
}

enum rdt_exec rdt_resv_release_exec(struct rdt_req *req)
{
	req->resv = (struct rdt_resv_cmd){
		.op = {.rtype = (uint8_t)RTYPE(req), .crkey = data_key(req, 0)},
	};
	return rdt_resv_send(req, ACTION(req) == NVME_RESERVATION_RRELA_CLEAR ? RDT_RESV_CLEAR
									      : RDT_RESV_RELEASE);
}

/* The 128-bit Host Identifiers of fabrics need the extended data structure. */
struct nvme_status rdt_resv_report_check(struct rdt_req *req)
{
	struct nvme_status st = rdt_io_admit(req);
	uint64_t len = ((uint64_t)NUMD(req) + 1) * 4;

	if (!nvme_status_ok(st))
		return st;
	if (!EDS(req))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_HOSTID_FORMAT, RDT_LOC(cdw11));
	if (len > rdt_req_target(req)->cfg->target.max_data_bytes)
		return bad_field(req, RDT_LOC(cdw10));
	req->data_len = (uint32_t)len;
	return NVME_OK;
}

enum rdt_exec rdt_resv_report_exec(struct rdt_req *req)
{
	req->resv = (struct rdt_resv_cmd){.report = true};
	return rdt_resv_send(req, RDT_RESV_PERSIST);
}

uint8_t rdt_resv_rescap(const struct rdt_ns *ns)
{
	if (!rdt_resv_offered(ns->subsys))
		return 0;
	return NVME_NS_RESCAP_WE | NVME_NS_RESCAP_EA | NVME_NS_RESCAP_WERO | NVME_NS_RESCAP_EARO |
	       NVME_NS_RESCAP_WEAR | NVME_NS_RESCAP_EAAR | NVME_NS_RESCAP_IEK_13 |
	       (rdt_resv_durable(ns) ? NVME_NS_RESCAP_PTPL : 0);
}

static enum rdt_exec ptpl_set(struct rdt_req *req, bool on)
{
	if (on && !rdt_resv_durable(req->ns)) {
		req->status = bad_field(req, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	req->resv = (struct rdt_resv_cmd){
		.op.cptpl = on ? NVME_RESERVATION_CPTPL_PERSIST : NVME_RESERVATION_CPTPL_CLEAR,
	};
	return rdt_resv_send(req, RDT_RESV_PERSIST);
}

static struct nvme_status no_ns(struct rdt_req *req)
{
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_NS, RDT_LOC(nsid));
}

struct nvme_status rdt_resv_feature_get(struct rdt_req *req, uint32_t *value)
{
	const struct rdt_ns *ns = rdt_ns_seen(req, le32toh(req->sqe.nsid));

	if (!ns)
		return no_ns(req);
	if ((le32toh(req->sqe.cdw10) & 0xff) == NVME_FEAT_FID_RESV_PERSIST) {
		*value = rdt_resv_ptpl(ns);
		return NVME_OK;
	}
	*value = rdt_resv_mask_get(req->qp->ctrl, ns);
	return NVME_OK;
}

static struct nvme_status set_mask(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	uint32_t nsid = le32toh(req->sqe.nsid);
	bool all = nsid == NVME_NSID_ALL;
	const struct rdt_ns *ns = all ? NULL : rdt_ns_seen(req, nsid);

	if (!all && !ns)
		return no_ns(req);
	if (CDW11(req) & ~(uint32_t)MASK_BITS)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
	rdt_resv_mask_set(ctrl, ns, CDW11(req));
	return NVME_OK;
}

enum rdt_exec rdt_resv_feature_set(struct rdt_req *req)
{
	uint32_t nsid = le32toh(req->sqe.nsid);

	if ((le32toh(req->sqe.cdw10) & 0xff) == NVME_FEAT_FID_RESV_MASK) {
		req->status = set_mask(req);
		return RDT_EXEC_DONE;
	}
	if (!rdt_ns_seen(req, nsid) || !rdt_ns_take(req, nsid)) {
		req->status = no_ns(req);
		return RDT_EXEC_DONE;
	}
	if (CDW11(req) & ~1u) {
		req->status =
			rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, RDT_LOC(cdw11));
		return RDT_EXEC_DONE;
	}
	return ptpl_set(req, CDW11(req));
}
