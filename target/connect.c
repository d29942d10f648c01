/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabrics Connect. An admin queue makes a controller; an I/O queue asks the reactor that owns the
 * controller. A refusal names the parameter in dword 0: its offset, and whether that is in the data
 * (wire: 6.1).
 */
#include <errno.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "ctrl.h"
#include "mask.h"
#include "qpair.h"
#include "request.h"
#include "subsys.h"

static const struct nvmf_connect_sqe *connect_sqe(const struct rdt_req *req)
{
	return (const void *)&req->sqe;
}

/* Invalid Parameters; @ipo is dword 0. */
static struct nvme_status invalid_param(struct rdt_req *req, uint32_t ipo)
{
	req->cqe.result = htole32(ipo);
	return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_INVALID_PARAM,
			    ipo & NVMF_CONNECT_IATTR_DATA ? RDT_LOC(sgl) : ipo);
}

#define IN_SQE(field) ((uint32_t)offsetof(struct nvmf_connect_sqe, field))
#define IN_DATA(field) \
	(NVMF_CONNECT_IATTR_DATA | (uint32_t)offsetof(struct nvmf_connect_data, field))

struct nvme_status rdt_connect_check(struct rdt_req *req)
{
	const struct nvmf_connect_sqe *sqe = connect_sqe(req);
	struct rdt_qpair *qp = req->qp;
	uint32_t sqsize = le16toh(sqe->sqsize);

	/* Once, and one at a time: an I/O Connect may be on its way to the controller. */
	if (qp->ctrl || qp->attach.req)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
	if (sqe->recfmt)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_FORMAT,
				    IN_SQE(recfmt));
	/* The connection was sized for the QID in its private data. */
	if (le16toh(sqe->qid) != qp->cm_qid)
		return invalid_param(req, IN_SQE(qid));
	if (sqsize == 0 || sqsize + 1 > qp->depth)
		return invalid_param(req, IN_SQE(sqsize));
	req->data_len = sizeof(struct nvmf_connect_data);
	return NVME_OK;
}

static bool nqn_terminated(const char nqn[NVME_NQN_LENGTH])
{
	return nqn[0] && memchr(nqn, 0, NVMF_NQN_MAX + 1);
}

static struct nvme_status invalid_host(struct rdt_req *req, const struct rdt_subsys *ss,
				       const char *hostnqn)
{
	rd_info(req->qp->log, RD_LOG_CTRL, "%s: host %s is not in its list of hosts", ss->nqn,
		hostnqn);
	req->cqe.result = htole32(IN_DATA(hostnqn));
	return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_INVALID_HOST, RDT_LOC(sgl));
}

static struct nvme_status connect_admin(struct rdt_req *req, struct rdt_subsys *ss,
					const struct nvmf_connect_data *data)
{
	const struct nvmf_connect_sqe *sqe = connect_sqe(req);
	struct rdt_ctrl *ctrl;
	int err;

	if (le16toh(data->cntlid) != NVMF_CNTLID_DYNAMIC)
		return invalid_param(req, IN_DATA(cntlid));
	err = rdt_ctrl_create(ss, req->qp, data->hostnqn, data->hostid, le32toh(sqe->kato), &ctrl);
	if (err == -EACCES)
		return invalid_host(req, ss, data->hostnqn);
	if (err == -EEXIST)
		rd_info(req->qp->log, RD_LOG_CTRL,
			"%s: host %s has a controller by this listener already, and "
			"duplicate_host is refuse",
			ss->nqn, data->hostnqn);
	if (err)
		return nvme_status(NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_CTRL_BUSY);
	rdt_qpair_connected(req->qp, ctrl, 0, (uint16_t)(le16toh(sqe->sqsize) + 1),
			    sqe->cattr & NVMF_CATTR_DISABLE_SQFLOW);
	req->cqe.result = htole32(ctrl->cntlid);
	return NVME_OK;
}

static void attach_msg(struct rd_msg *msg)
{
	rdt_ctrl_attach(rd_container_of(msg, struct rdt_attach, msg));
}

static struct nvme_status connect_io(struct rdt_req *req, struct rdt_subsys *ss,
				     const struct nvmf_connect_data *data)
{
	struct rdt_qpair *qp = req->qp;
	struct rdt_attach *at = &qp->attach;

	if (rdt_subsys_is_disc(ss))
		return invalid_param(req, IN_SQE(qid));
	at->ctrl = rdt_subsys_get_ctrl(ss, le16toh(data->cntlid));
	if (!at->ctrl)
		return invalid_param(req, IN_DATA(cntlid));
	at->qp = qp;
	at->req = req;
	at->qid = qp->cm_qid;
	memcpy(at->hostid, data->hostid, sizeof(at->hostid));
	memccpy(at->hostnqn, data->hostnqn, 0, sizeof(at->hostnqn));
	at->msg.fn = attach_msg;
	rd_loop_post(at->ctrl->owner->loop, &at->msg);
	return NVME_OK;
}

void rdt_connect_attached(struct rdt_attach *at)
{
	const struct nvmf_connect_sqe *sqe = connect_sqe(at->req);
	struct rdt_req *req = at->req;
	struct rdt_ctrl *ctrl = at->ctrl;

	at->req = NULL;
	at->ctrl = NULL;
	req->status = at->status;
	req->cqe.result = htole32(at->result);
	if (nvme_status_ok(at->status))
		rdt_qpair_connected(at->qp, ctrl, at->qid, (uint16_t)(le16toh(sqe->sqsize) + 1),
				    sqe->cattr & NVMF_CATTR_DISABLE_SQFLOW);
	else
		rdt_ctrl_put(ctrl);
	rdt_req_complete(req);
}

enum rdt_exec rdt_connect_exec(struct rdt_req *req)
{
	const struct nvmf_connect_data *data = req->buf;
	struct rdt_target *target = rdt_req_target(req);
	struct rdt_subsys *ss = NULL;

	if (nqn_terminated(data->subsysnqn))
		ss = rdt_subsys_find(target, data->subsysnqn);
	if (!ss) {
		rd_info(req->qp->log, RD_LOG_CTRL, "Connect to an unknown subsystem \"%.*s\"",
			NVMF_NQN_MAX, data->subsysnqn);
		req->status = invalid_param(req, IN_DATA(subsysnqn));
	} else if (!nqn_terminated(data->hostnqn)) {
		req->status = invalid_param(req, IN_DATA(hostnqn));
	} else if (!rdt_subsys_allows(ss, data->hostnqn)) {
		req->status = invalid_host(req, ss, data->hostnqn);
	} else if (req->qp->admin) {
		req->status = connect_admin(req, ss, data);
	} else {
		req->status = connect_io(req, ss, data);
		if (nvme_status_ok(req->status))
			return RDT_EXEC_PENDING;
	}
	return RDT_EXEC_DONE;
}
