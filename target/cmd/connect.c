/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics Connect. An admin queue creates a controller; an I/O queue asks the reactor that owns its
 * controller. If a parameter is invalid, dword 0 of the answer has the offset of the parameter, and
 * whether it is an offset in the data or in the SQE (Base 2.0, 6.3). */
#include <errno.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "nvmf/tls.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/auth/auth.h"
#include "target/nvmf/auth_keys.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/io_stats.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/request.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

static const struct nvmf_connect_sqe *connect_sqe(const struct rdt_req *req)
{
	return (const void *)&req->sqe;
}

/* Connect Invalid Parameters; @ipo: dword 0. */
static struct nvme_status invalid_param(struct rdt_req *req, uint32_t ipo)
{
	req->cqe.result = htole32(ipo);
	return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_INVALID_PARAM,
			    ipo & NVMF_CONNECT_IATTR_DATA ? RDT_LOC(sgl) : ipo);
}

#define IN_SQE(field) ((uint32_t)offsetof(struct nvmf_connect_sqe, field))
#define IN_DATA(field) \
	(NVMF_CONNECT_IATTR_DATA | (uint32_t)offsetof(struct nvmf_connect_data, field))

/* ---- texts for refusals ---- */

/* Puts a text from a host in quotes, and replaces characters that could end the quotes or break the
 * log line. */
static const char *quoted(const char nqn[NVME_NQN_LENGTH], char buf[NVMF_NQN_MAX + 3])
{
	size_t n = 0;

	buf[n++] = '"';
	for (unsigned int i = 0; i < NVMF_NQN_MAX && nqn[i]; i++)
		buf[n++] = nqn[i] == '"' || nqn[i] == '\\' || nqn[i] == ' ' ? '?' : nqn[i];
	buf[n++] = '"';
	buf[n] = 0;
	return buf;
}

/* Returns the ID of the queue that a Connect is for, as far as it is known. */
static uint16_t queue_of(const struct rdt_req *req)
{
	const struct rdt_qpair *qp = req->qp;

	return qp->want_qid == RDT_QID_ANY ? le16toh(connect_sqe(req)->qid) : qp->want_qid;
}

/* Log why the Connect is refused, because the status does not tell, and kernel hosts show little.
 * @data: NULL if it was not transferred. */
static void report_refusal(const struct rdt_req *req, const struct nvmf_connect_data *data,
			   const char *why)
{
	char host[NVMF_NQN_MAX + 3], subsys[NVMF_NQN_MAX + 3], addr[RD_ADDR_TEXT];
	const struct rdt_qpair *qp = req->qp;

	rdt_count_event(qp, RDT_COUNT_REFUSALS);
	rd_log_limited(
		&rdt_req_target(req)->refuse_limit, rd_loop_now(qp->reactor->loop), qp->log,
		RD_LOG_CTRL, RD_LOG_NOTICE, "refused a Connect from %s, queue %u%s%s%s%s: %s",
		rd_addr_format((const struct sockaddr *)&qp->remote, addr), queue_of(req),
		data ? ", host " : "", data ? quoted(data->hostnqn, host) : "",
		data ? ", subsystem " : "", data ? quoted(data->subsysnqn, subsys) : "", why);
	rdt_announce(rdt_req_target(req), "refused", "{s:s, s:s, s:s, s:s}", "address", addr,
		     "hostnqn", data ? quoted(data->hostnqn, host) : "", "nqn",
		     data ? quoted(data->subsysnqn, subsys) : "", "reason", why);
}

/* Returns why the controller's owner refuses an I/O queue. */
static const char *attach_reason(const struct rdt_attach *at)
{
	if ((at->status.v & 0x7ff) == NVME_SC_CMD_SEQ_ERROR)
		return "the controller is not enabled";
	switch (at->result) {
	case IN_DATA(cntlid):
		return "the controller no longer exists";
	case IN_DATA(hostnqn):
	case IN_DATA(hostid):
		return "the controller belongs to another host";
	default:
		return "the queue ID is in use, or above the number of queues granted";
	}
}

static const char *ctrl_reason(int err)
{
	switch (err) {
	case -EEXIST:
		return "the host already has a controller through this listener, and "
		       "duplicate_host is \"refuse\"";
	case -EBUSY:
		return "all controller IDs of the subsystem (cntlid_min to cntlid_max) are in use";
	default:
		return strerror(-err);
	}
}

/* True also while a Connect waits for the controller's owner: a second one is refused. */
static bool is_connected(const struct rdt_qpair *qp)
{
	return qp->ctrl || qp->attach.req;
}

/* Check that the queue ID is the one of the connection request, if that had one, because the
 * resources of the connection fit that queue. */
static bool check_qid(struct rdt_req *req)
{
	const struct rdt_qpair *qp = req->qp;
	uint16_t qid = le16toh(connect_sqe(req)->qid);

	if (qp->want_qid != RDT_QID_ANY ? qid == qp->want_qid
					: qid <= rdt_req_target(req)->cfg->target.io_queues)
		return true;
	report_refusal(req, NULL,
		       qp->want_qid != RDT_QID_ANY
			       ? "the queue ID is not that of the connection request"
			       : "the queue ID is more than target.io_queues");
	return false;
}

static uint32_t most_entries(const struct rdt_req *req)
{
	const struct rdt_qpair *qp = req->qp;

	return qp->want_qid == RDT_QID_ANY && queue_of(req) == 0 && qp->depth > RDT_ADMIN_DEPTH_MAX
		       ? RDT_ADMIN_DEPTH_MAX
		       : qp->depth;
}

struct nvme_status rdt_connect_check(struct rdt_req *req)
{
	const struct nvmf_connect_sqe *sqe = connect_sqe(req);
	struct rdt_qpair *qp = req->qp;
	uint32_t sqsize = le16toh(sqe->sqsize);

	if (is_connected(qp))
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
	if (sqe->recfmt) {
		report_refusal(req, NULL, "the record format is not 0");
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_FORMAT,
				    IN_SQE(recfmt));
	}
	if (!check_qid(req))
		return invalid_param(req, IN_SQE(qid));
	if (sqsize == 0 || sqsize + 1 > most_entries(req)) {
		report_refusal(req, NULL,
			       qp->want_qid != RDT_QID_ANY
				       ? "the queue size (SQSIZE) is 0, or more than that of the "
					 "connection request"
				       : "the queue size (SQSIZE) is 0, or more than "
					 "target.queue_depth allows");
		return invalid_param(req, IN_SQE(sqsize));
	}
	req->data_len = sizeof(struct nvmf_connect_data);
	return NVME_OK;
}

/* ---- access to the subsystem ---- */

static bool has_end(const char nqn[NVME_NQN_LENGTH])
{
	return memchr(nqn, 0, NVMF_NQN_MAX + 1);
}

/* A host that may not use a subsystem gets the same answer as for one that does not exist, so that
 * names cannot be found by trying. The discovery log does not show it the subsystem either. */
static struct nvme_status no_subsys(struct rdt_req *req, const struct nvmf_connect_data *data,
				    const char *why)
{
	report_refusal(req, data, why);
	return invalid_param(req, IN_DATA(subsysnqn));
}

static const char *not_allowed_reason(const struct rdt_subsys *ss,
				      const struct nvmf_connect_data *data)
{
	if (rdt_subsys_is_disc(ss))
		return "the host has no key in \"discovery\", which requires one";
	return data->hostnqn[0]
		       ? "the host is not in the subsystem's list of hosts"
		       : "the host sent no Host NQN, and the subsystem has a list of hosts";
}

/* The specification requires a Host NQN (Base 2.0, 4.5), but SPDK's tools connect without one by
 * default. All such hosts count as one host in shares, limits and lists. */
static void accept_nameless(const struct rdt_req *req, const struct rdt_subsys *ss)
{
	char addr[RD_ADDR_TEXT];

	if (atomic_exchange(&rdt_req_target(req)->nameless, true))
		return;
	rd_notice(
		req->qp->log, RD_LOG_CTRL,
		"%s: a host at %s connects without a Host NQN, which is accepted because any host "
		"may connect; limits and buffer shares treat all such hosts as one (logged once)",
		ss->nqn, rd_addr_format((const struct sockaddr *)&req->qp->remote, addr));
}

/* A TLS key belongs to one host and one subsystem. Returns NULL if @data agrees with it. */
static const char *wrong_tls_name(const struct rdt_qpair *qp, const struct nvmf_connect_data *data)
{
	if (!qp->tls)
		return NULL;
	if (strcmp(qp->tls->identity.hostnqn, data->hostnqn) != 0)
		return "its TLS key belongs to another host";
	if (strcmp(qp->tls->identity.subnqn, data->subsysnqn) != 0)
		return "its TLS key belongs to another subsystem";
	return NULL;
}

static const char *no_subsys_reason(const struct rdt_qpair *qp,
				    const struct nvmf_connect_data *data)
{
	const char *why = has_end(data->subsysnqn) ? wrong_tls_name(qp, data) : NULL;

	return why ? why : "unknown subsystem";
}

/* Count the queue for its host, or refuse the Connect. */
static struct nvme_status count_host(struct rdt_req *req, const struct nvmf_connect_data *data,
				     bool asks)
{
	struct rdt_peer_limit limit;
	char why[RDT_PEER_LIMIT_TEXT];

	if (!rdt_peer_join(req->qp, data->hostnqn, !asks, &limit))
		return NVME_OK;
	report_refusal(req, data, rdt_peer_limit_text(&limit, why));
	return nvme_status(NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_CTRL_BUSY);
}

/* Returns AUTHREQ of the answer. */
static uint32_t authreq(const struct rdt_qpair *qp)
{
	return qp->state == RDT_QP_AUTH ? RDT_AUTH_ATR : 0;
}

static struct nvme_status connect_admin(struct rdt_req *req, struct rdt_subsys *ss,
					const struct nvmf_connect_data *data)
{
	const struct nvmf_connect_sqe *sqe = connect_sqe(req);
	struct rdt_ctrl *ctrl;
	int err;

	if (le16toh(data->cntlid) != NVMF_CNTLID_DYNAMIC) {
		report_refusal(
			req, data,
			"it requests a specific controller, but the target assigns controller IDs");
		return invalid_param(req, IN_DATA(cntlid));
	}
	err = rdt_ctrl_create(ss, req->qp, data->hostnqn, data->hostid, le32toh(sqe->kato), &ctrl);
	if (err == -EPERM) {
		report_refusal(req, data, rdt_host_id_reason(err));
		return invalid_param(req, IN_DATA(hostid));
	}
	if (err == -EACCES) /* the host list has changed since the check */
		return no_subsys(req, data, not_allowed_reason(ss, data));
	if (err) {
		report_refusal(req, data, ctrl_reason(err));
		return nvme_status(NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_CTRL_BUSY);
	}
	rdt_qpair_connected(req->qp, ctrl, 0, (uint16_t)(le16toh(sqe->sqsize) + 1),
			    sqe->cattr & NVMF_CATTR_DISABLE_SQFLOW);
	req->cqe.result = htole32(ctrl->cntlid | authreq(req->qp));
	return NVME_OK;
}

static void attach_refused(const struct rdt_req *req, const struct rdt_attach *at,
			   struct rdt_ctrl *ctrl)
{
	struct nvmf_connect_data data;

	memcpy(data.hostnqn, at->hostnqn, sizeof(at->hostnqn));
	memset(data.subsysnqn, 0, sizeof(data.subsysnqn));
	memccpy(data.subsysnqn, ctrl->subsys->nqn, 0, sizeof(data.subsysnqn) - 1);
	report_refusal(req, &data, attach_reason(at));
	rdt_peer_leave(at->qp);
	rdt_ctrl_put(ctrl);
}

static void queue_attached(struct rdt_attach *at)
{
	const struct nvmf_connect_sqe *sqe = connect_sqe(at->req);
	struct rdt_req *req = at->req;
	struct rdt_ctrl *ctrl = at->ctrl;

	at->req = NULL;
	at->ctrl = NULL;
	req->status = at->status;
	req->cqe.result = htole32(at->result);
	if (nvme_status_ok(at->status)) {
		rdt_qpair_connected(at->qp, ctrl, at->qid, (uint16_t)(le16toh(sqe->sqsize) + 1),
				    sqe->cattr & NVMF_CATTR_DISABLE_SQFLOW);
		req->cqe.result |= htole32(authreq(at->qp));
	} else {
		attach_refused(req, at, ctrl);
	}
	rdt_req_complete(req);
}

static void attach_msg(struct rd_msg *msg)
{
	rdt_ctrl_attach(rd_container_of(msg, struct rdt_attach, msg));
}

static struct nvme_status connect_io(struct rdt_req *req, struct rdt_subsys *ss,
				     const struct nvmf_connect_data *data, bool asks)
{
	struct rdt_qpair *qp = req->qp;
	struct rdt_attach *at = &qp->attach;

	if (rdt_subsys_is_disc(ss)) {
		report_refusal(req, data, "discovery controllers have no I/O queues");
		return invalid_param(req, IN_SQE(qid));
	}
	at->ctrl = rdt_subsys_get_ctrl(ss, le16toh(data->cntlid));
	if (!at->ctrl) {
		report_refusal(req, data, "there is no controller with this ID");
		return invalid_param(req, IN_DATA(cntlid));
	}
	at->qp = qp;
	at->req = req;
	at->qid = qp->want_qid;
	at->guest = asks;
	memcpy(at->hostid, data->hostid, sizeof(at->hostid));
	memccpy(at->hostnqn, data->hostnqn, 0, sizeof(at->hostnqn));
	at->attached = queue_attached;
	at->msg.fn = attach_msg;
	rd_loop_post(at->ctrl->owner->loop, &at->msg);
	return NVME_OK;
}

static struct nvme_status process_connect(struct rdt_req *req, const struct nvmf_connect_data *data,
					  bool *pending)
{
	static const uint8_t no_id[sizeof(data->hostid)];
	struct rdt_subsys *ss = NULL;
	struct nvme_status st;
	bool asks;

	if (!has_end(data->hostnqn)) {
		report_refusal(req, data, "its Host NQN is not terminated within 223 bytes");
		return invalid_param(req, IN_DATA(hostnqn));
	}
	/* Not allowed (Base 2.0, 5.27.1.25), because reservations would treat all such hosts as
	 * one. */
	if (memcmp(data->hostid, no_id, sizeof(no_id)) == 0) {
		report_refusal(req, data, "its Host Identifier is 0, which identifies no host");
		return invalid_param(req, IN_DATA(hostid));
	}
	if (has_end(data->subsysnqn) && !wrong_tls_name(req->qp, data))
		ss = rdt_subsys_find(rdt_req_target(req), data->subsysnqn);
	if (!ss)
		return no_subsys(req, data, no_subsys_reason(req->qp, data));
	if (!rdt_subsys_allows(ss, data->hostnqn))
		return no_subsys(req, data, not_allowed_reason(ss, data));
	if (!data->hostnqn[0])
		accept_nameless(req, ss);
	asks = rdt_auth_asks(ss, data->hostnqn);
	st = count_host(req, data, asks);
	if (!nvme_status_ok(st))
		return st;
	st = req->qp->admin ? connect_admin(req, ss, data) : connect_io(req, ss, data, asks);
	if (!nvme_status_ok(st))
		rdt_peer_leave(req->qp);
	*pending = nvme_status_ok(st) && !req->qp->admin;
	return st;
}

enum rdt_exec rdt_connect_exec(struct rdt_req *req)
{
	struct nvmf_connect_data data;
	bool pending = false;

	/* Several Connects can be in progress at once, because each waits for its data after its
	 * check. */
	if (is_connected(req->qp)) {
		req->status = rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
		return RDT_EXEC_DONE;
	}
	/* Likewise, another one may have told the queue ID since. */
	if (req->qp->want_qid == RDT_QID_ANY)
		rdt_qpair_role(req->qp, queue_of(req));
	if (!check_qid(req)) {
		req->status = invalid_param(req, IN_SQE(qid));
		return RDT_EXEC_DONE;
	}
	/* Copied first, because on some devices the host can write to the buffer at any time. */
	memcpy(&data, req->buf, sizeof(data));
	req->status = process_connect(req, &data, &pending);
	return pending ? RDT_EXEC_PENDING : RDT_EXEC_DONE;
}
