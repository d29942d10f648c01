/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that the application builds itself, on admin and I/O queues. */
#include <errno.h>

#include "internal.h"

#define FLAGS_ALL   (RDINIT_PASSTHRU_WRITE | RDINIT_PASSTHRU_KEYED | RDINIT_PASSTHRU_AS_IS)
#define FUSE_FIRST  0x01
#define FUSE_SECOND 0x02

void rdinit_passthru_init_size(struct rdinit_passthru *cmd, size_t size)
{
	rdi_zero_sized(cmd, size);
}

/* Refuses only what the library cannot send. Returns 0 or -EINVAL. */
static int make_cmd(const struct rdi_handle *h, const char *func, const struct rdinit_passthru *pt,
		    rdinit_complete_fn fn, void *user, struct rdi_cmd *cmd)
{
	_Static_assert(sizeof(cmd->sqe) == sizeof(pt->sqe), "submission queue entry");
	int rc;

	rc = RDI_CHECK_SIZE(func, pt, rdinit_passthru, sizeof(*pt));
	if (rc)
		return rc;
	if (!fn)
		return rdi_fail(func, -EINVAL, "fn is NULL");
	if (pt->flags & ~FLAGS_ALL)
		return rdi_fail(func, -EINVAL, "unknown flag 0x%x", pt->flags & ~FLAGS_ALL);
	if (!pt->data != !pt->len || pt->len > h->ops->max_len)
		return rdi_fail(
			func, -EINVAL,
			"data and len (%u) do not match: expected NULL and 0, or 1 to %u bytes",
			pt->len, h->ops->max_len);
	if ((pt->flags & RDINIT_PASSTHRU_AS_IS) && pt->data)
		return rdi_fail(func, -EINVAL,
				"RDINIT_PASSTHRU_AS_IS and data are mutually exclusive");
	memset(cmd, 0, sizeof(*cmd));
	memcpy(&cmd->sqe, pt->sqe, sizeof(cmd->sqe));
	cmd->data = pt->data;
	cmd->len = pt->len;
	if (pt->data)
		cmd->dir = pt->flags & RDINIT_PASSTHRU_WRITE ? RDI_OUT : RDI_IN;
	if (pt->flags & RDINIT_PASSTHRU_KEYED)
		cmd->how |= RDI_KEYED;
	if (pt->flags & RDINIT_PASSTHRU_AS_IS)
		cmd->how |= RDI_AS_IS;
	cmd->timeout_ns = pt->timeout_ms * RD_NSEC_PER_MSEC;
	if (pt->timeout_ms == UINT32_MAX)
		cmd->timeout_ns = UINT64_MAX;
	cmd->fn = fn;
	cmd->user = user;
	return 0;
}

static int submit_passthru(struct rdi_handle *h, struct rdi_queue *q, const char *func,
			   const struct rdinit_passthru *pt, uint16_t *cid, rdinit_complete_fn fn,
			   void *user)
{
	struct rdi_cmd cmd;
	int rc = make_cmd(h, func, pt, fn, user, &cmd);

	if (rc)
		return rc;
	rc = rdi_submit(h, q, &cmd);
	if (rc)
		return rdi_fail(func, rc, "%s", rdi_queue_why(q, rc));
	if (cid)
		*cid = rdi_queue_last_cid(q);
	return 0;
}

/* ---- admin ---- */

static int admin(struct rdinit_ctrl *ctrl, const char *func, const struct rdinit_passthru *pt,
		 uint16_t *cid, rdinit_complete_fn fn, void *user)
{
	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), func);
	if (ctrl->state != RDI_CTRL_READY)
		return rdi_fail(func, -ENOTCONN, "%s",
				ctrl->q.text[0] ? ctrl->q.text : "the controller is not connected");
	return submit_passthru(&ctrl->h, &ctrl->q, func, pt, cid, fn, user);
}

int rdinit_admin_passthru_async(struct rdinit_ctrl *ctrl, const struct rdinit_passthru *cmd,
				uint16_t *cid, rdinit_complete_fn fn, void *user)
{
	return admin(ctrl, __func__, cmd, cid, fn, user);
}

int rdinit_admin_passthru(struct rdinit_ctrl *ctrl, const struct rdinit_passthru *cmd,
			  uint64_t *result)
{
	return RDI_SYNC_RESULT(ctrl, __func__, result,
			       admin(ctrl, __func__, cmd, NULL, rdi_sync_done, &sync));
}

/* ---- I/O ---- */

int rdinit_io_passthru_async(struct rdinit_qpair *qp, const struct rdinit_passthru *cmd,
			     uint16_t *cid, rdinit_complete_fn fn, void *user)
{
	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), __func__);
	return submit_passthru(&qp->h, &qp->q, __func__, cmd, cid, fn, user);
}

int rdinit_io_passthru(struct rdinit_qpair *qp, const struct rdinit_passthru *cmd, uint64_t *result)
{
	return RDI_SYNC_RESULT(
		qp, __func__, result,
		submit_passthru(&qp->h, &qp->q, __func__, cmd, NULL, rdi_sync_done, &sync));
}

int rdinit_io_passthru_fused_async(struct rdinit_qpair *qp, const struct rdinit_passthru *first,
				   const struct rdinit_passthru *second, rdinit_complete_fn fn,
				   void *user1, void *user2)
{
	struct rdi_cmd c1, c2;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(qp)))
		return rdi_foreign(RDI_HANDLE(qp), __func__);
	rc = make_cmd(RDI_HANDLE(qp), __func__, first, fn, user1, &c1);
	if (!rc)
		rc = make_cmd(RDI_HANDLE(qp), __func__, second, fn, user2, &c2);
	if (rc)
		return rc;
	c1.sqe.flags = (c1.sqe.flags & ~NVME_CMD_FUSE_MASK) | FUSE_FIRST;
	c2.sqe.flags = (c2.sqe.flags & ~NVME_CMD_FUSE_MASK) | FUSE_SECOND;
	rc = rdi_queue_submit_pair(&qp->q, &c1, &c2);
	return rc ? rdi_fail(__func__, rc, "%s", rdi_queue_why(&qp->q, rc)) : 0;
}
