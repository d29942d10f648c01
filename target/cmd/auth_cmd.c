/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication Send and Receive (NVMe Base 2.0, 6.1 and 6.2). */
#include <errno.h>
#include <string.h>

#include "nvmf/auth_msg.h"
#include "nvmf/wire.h"
#include "admin.h"
#include "target/nvmf/auth/auth.h"
#include "target/nvmf/request.h"

#define LOC(field) ((unsigned int)offsetof(struct nvmf_auth_sqe, field))

static const struct nvmf_auth_sqe *auth_sqe(const struct rdt_req *req)
{
	return (const void *)&req->sqe;
}

static struct nvme_status check_fields(struct rdt_req *req)
{
	const struct nvmf_auth_sqe *sqe = auth_sqe(req);
	unsigned int loc = 0;

	if (sqe->spsp0 != NVMF_AUTH_SPSP0)
		loc = LOC(spsp0);
	else if (sqe->spsp1 != NVMF_AUTH_SPSP1)
		loc = LOC(spsp1);
	else if (sqe->secp != NVMF_AUTH_SECP)
		loc = LOC(secp);
	else if (!sqe->len || le32toh(sqe->len) != req->sgl_len)
		loc = LOC(len);
	return loc ? rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, loc) : NVME_OK;
}

struct nvme_status rdt_auth_send_check(struct rdt_req *req)
{
	struct nvme_status st = check_fields(req);

	if (!nvme_status_ok(st))
		return st;
	req->data_len = req->sgl_len;
	/* Longer than any message: answered by Failure1, and not transferred. */
	if (req->sgl_len > NVMF_AUTH_TRANSFER)
		req->data_len = req->sgl_len = 0;
	return st;
}

enum rdt_exec rdt_auth_send_exec(struct rdt_req *req)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];

	/* Copied first, because on some devices the host can write to the buffer at any time. */
	if (req->data_len)
		memcpy(msg, req->buf, req->data_len);
	return rdt_auth_received(req, req->data_len ? msg : NULL, req->data_len);
}

struct nvme_status rdt_auth_receive_check(struct rdt_req *req)
{
	struct nvme_status st = check_fields(req);

	if (!nvme_status_ok(st))
		return st;
	if (req->sgl_len > NVMF_AUTH_TRANSFER)
		return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(len));
	req->data_len = req->sgl_len;
	return st;
}

enum rdt_exec rdt_auth_receive_exec(struct rdt_req *req)
{
	int err = rdt_auth_fetch(req->qp, req->buf, req->data_len);

	if (err == -EBUSY)
		req->status = rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR, 0);
	else if (err)
		req->status = rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_INVALID_FIELD, LOC(len));
	return RDT_EXEC_DONE;
}
