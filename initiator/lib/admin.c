/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands on behalf of the application. */
#include <errno.h>
#include <stdio.h>

#include "internal.h"

#define NS_BLOCK_SHIFT_MIN 9
#define NS_BLOCK_SHIFT_MAX 16

static int submit_admin_cmd(struct rdinit_ctrl *ctrl, const char *func, const struct rdi_cmd *cmd)
{
	int rc;

	if (ctrl->state != RDI_CTRL_READY)
		return rdi_fail(func, -ENOTCONN, "%s",
				ctrl->q.text[0] ? ctrl->q.text : "the controller is not connected");
	rc = rdi_submit(&ctrl->h, &ctrl->q, cmd);
	return rc ? rdi_fail(func, rc, "%s", rdi_queue_why(&ctrl->q, rc)) : 0;
}

static int identify_async(struct rdinit_ctrl *ctrl, const char *func, uint8_t cns, uint32_t nsid,
			  void *data, rdinit_complete_fn fn, void *user)
{
	struct rdi_cmd cmd = {
		.sqe =
			{
				.opcode = nvme_admin_identify,
				.nsid = htole32(nsid),
				.cdw10 = htole32(cns),
			},
		.data = data,
		.len = RDINIT_IDENTIFY_SIZE,
		.dir = RDI_IN,
		.fn = fn,
		.user = user,
	};

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), func);
	if (!data || !fn)
		return rdi_fail(func, -EINVAL, "data or fn is NULL");
	return submit_admin_cmd(ctrl, func, &cmd);
}

int rdinit_identify_async(struct rdinit_ctrl *ctrl, uint8_t cns, uint32_t nsid, void *data,
			  rdinit_complete_fn fn, void *user)
{
	return identify_async(ctrl, __func__, cns, nsid, data, fn, user);
}

static int identify_sync(struct rdinit_ctrl *ctrl, const char *func, uint8_t cns, uint32_t nsid,
			 void *data)
{
	return RDI_SYNC(ctrl, func,
			identify_async(ctrl, func, cns, nsid, data, rdi_sync_done, &sync));
}

int rdinit_identify(struct rdinit_ctrl *ctrl, uint8_t cns, uint32_t nsid, void *data)
{
	return identify_sync(ctrl, __func__, cns, nsid, data);
}

int rdinit_identify_ctrl(struct rdinit_ctrl *ctrl, void *data)
{
	return identify_sync(ctrl, __func__, NVME_IDENTIFY_CNS_CTRL, 0, data);
}

int rdinit_identify_ns(struct rdinit_ctrl *ctrl, uint32_t nsid, void *data)
{
	return identify_sync(ctrl, __func__, NVME_IDENTIFY_CNS_NS, nsid, data);
}

int rdinit_list_ns(struct rdinit_ctrl *ctrl, uint32_t after, uint32_t *nsids, unsigned int *count)
{
	__le32 list[RDINIT_NS_LIST_MAX];
	uint32_t last = after;
	unsigned int i;
	int rc;

	if (!nsids || !count)
		return rdi_fail(__func__, -EINVAL, "nsids or count is NULL");
	rc = identify_sync(ctrl, __func__, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, after, list);
	if (rc)
		return rc;
	for (i = 0; i < RDINIT_NS_LIST_MAX && list[i]; i++) {
		nsids[i] = le32toh(list[i]);
		/* Identifiers must ascend: an application that continues with the last one would
		 * otherwise never finish. */
		if (nsids[i] <= last)
			return rdi_fail(
				__func__, -EPROTO,
				"%s: the namespace list is not in ascending order: %u after %u",
				ctrl->q.remote, nsids[i], last);
		last = nsids[i];
	}
	*count = i;
	return 0;
}

/* ---- log pages ---- */

int rdi_get_log(struct rdinit_ctrl *ctrl, const char *func, uint16_t lid, uint32_t nsid,
		uint64_t offset, void *data, uint32_t len, rdinit_complete_fn fn, void *user)
{
	uint32_t numd = len / 4 - 1; /* 0's based dwords */
	struct rdi_cmd cmd = {
		.sqe =
			{
				.opcode = nvme_admin_get_log_page,
				.nsid = htole32(nsid),
				.cdw10 = htole32(lid | (numd & 0xffff) << 16),
				.cdw11 = htole32(numd >> 16),
				.cdw12 = htole32((uint32_t)offset),
				.cdw13 = htole32((uint32_t)(offset >> 32)),
			},
		.data = data,
		.len = len,
		.dir = RDI_IN,
		.fn = fn,
		.user = user,
	};

	if (rdi_is_foreign(RDI_HANDLE(ctrl)))
		return rdi_foreign(RDI_HANDLE(ctrl), func);
	if (!data || !fn)
		return rdi_fail(func, -EINVAL, "data or fn is NULL");
	if (len == 0 || len % 4 || offset % 4)
		return rdi_fail(func, -EINVAL, "offset or length is not a multiple of 4");
	if (ctrl->state == RDI_CTRL_READY && len > ctrl->max_transfer)
		return rdi_fail(func, -EINVAL,
				"more than the controller transfers in one command (%u)",
				ctrl->max_transfer);
	return submit_admin_cmd(ctrl, func, &cmd);
}

int rdinit_get_log_async(struct rdinit_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
			 void *data, uint32_t len, rdinit_complete_fn fn, void *user)
{
	return rdi_get_log(ctrl, __func__, lid, nsid, offset, data, len, fn, user);
}

int rdinit_get_log(struct rdinit_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint64_t offset,
		   void *data, uint32_t len)
{
	return RDI_SYNC(
		ctrl, __func__,
		rdi_get_log(ctrl, __func__, lid, nsid, offset, data, len, rdi_sync_done, &sync));
}

/* ---- namespaces ---- */

void rdinit_ns_init_size(struct rdinit_ns *ns, size_t size)
{
	rdi_zero_sized(ns, size);
}

/* The LBA format in use: FLBAS bits 3:0; with more than 16 formats, FLBAS bits 6:5 are the upper
 * bits of the index. */
static const struct nvme_lbaf *lba_format(const struct nvme_id_ns *id)
{
	unsigned int i = id->flbas & 0xf;

	if (id->nlbaf >= 16)
		i |= (id->flbas >> 5 & 3u) << 4;
	return &id->lbaf[i];
}

int rdi_ns_take(const struct nvme_id_ns *id, uint32_t nsid, struct rdinit_ns *ns, char *why,
		size_t why_len)
{
	const struct nvme_lbaf *fmt = lba_format(id);

	if (id->ncap == 0) {
		snprintf(why, why_len, "there is no namespace %u", nsid);
		return -ENODEV;
	}
	if (le16toh(fmt->ms) != 0) {
		snprintf(why, why_len, "namespace %u has %u bytes of metadata per block", nsid,
			 le16toh(fmt->ms));
		return -ENOTSUP;
	}
	if (fmt->ds < NS_BLOCK_SHIFT_MIN || fmt->ds > NS_BLOCK_SHIFT_MAX) {
		snprintf(why, why_len, "namespace %u has blocks of 2^%u bytes", nsid, fmt->ds);
		return -ENOTSUP;
	}
	ns->nsid = nsid;
	ns->block_size = 1u << fmt->ds;
	ns->blocks = le64toh(id->nsze);
	return 0;
}

int rdinit_ns_open(struct rdinit_ctrl *ctrl, uint32_t nsid, struct rdinit_ns *ns)
{
	struct nvme_id_ns id;
	char why[RDI_TEXT / 2];
	int rc;

	rc = RDI_CHECK_SIZE(__func__, ns, rdinit_ns, sizeof(*ns));
	if (rc)
		return rc;
	rc = identify_sync(ctrl, __func__, NVME_IDENTIFY_CNS_NS, nsid, &id);
	if (rc)
		return rc;
	rc = rdi_ns_take(&id, nsid, ns, why, sizeof(why));
	return rc ? rdi_fail(__func__, rc, "%s: %s", ctrl->q.remote, why) : 0;
}
