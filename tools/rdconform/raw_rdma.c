/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw connections over RDMA, through the fabric interface only: private data, capsules and keys. */
#include "raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES 64 /* more than a response, so that a longer one is detected */
#define TAG_RECV     (UINT64_C(1) << 32)

/* ---- loop and provider ---- */

static void open_fabric(struct rdc *t, const struct sockaddr *to)
{
	struct rd_loop_opts opts = {.log = NULL};
	const char *name = t->cfg->provider;
	bool verbs = name && strcmp(name, "verbs") == 0;
	int rc;

	if (t->fab)
		return;
	if (!name || strcmp(name, "auto") == 0)
		verbs = rd_fab_verbs_has_addr(to);
	rc = rd_loop_create(&opts, &t->loop);
	if (!rc)
		rc = verbs ? rd_fab_verbs_open(t->loop, NULL, &t->fab)
			   : rd_fab_iwarp_open(t->loop, NULL, &t->fab);
	if (rc)
		RDC_FAIL(t, "cannot open the fabric of this machine: %s", strerror(-rc));
}

/* ---- events and completions ---- */

static void raw_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	const struct nvmf_rdma_cm_rej *rej = ev->private_data;
	const struct nvmf_rdma_cm_rep *rep = ev->private_data;
	struct rdc_raw *raw = arg;

	switch (ev->type) {
	case RD_FAB_EV_RESOLVED:
		raw->resolved = true;
		break;
	case RD_FAB_EV_ESTABLISHED:
		raw->up = true;
		if (rep && ev->private_len >= offsetof(struct nvmf_rdma_cm_rep, rsvd4))
			raw->crqsize = le16toh(rep->crqsize);
		break;
	case RD_FAB_EV_REJECTED:
		raw->rejected = raw->over = true;
		if (rej && ev->private_len >= sizeof(*rej))
			raw->reject_sts = le16toh(rej->sts);
		break;
	case RD_FAB_EV_CONNECT_ERROR:
	case RD_FAB_EV_DISCONNECTED:
		raw->over = true;
		raw->err = ev->status;
		break;
	case RD_FAB_EV_DEVICE_REMOVED:
		break;
	}
}

static int post_recv(struct rdc_raw *raw, unsigned int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->answers->p + i * ANSWER_BYTES,
		.length = ANSWER_BYTES,
		.lkey = raw->answers->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = TAG_RECV | i, .sg_list = &sge, .num_sge = 1}, *bad;

	return rd_fab_post_recv(raw->conn, &wr, &bad);
}

static void take_capsule(struct rdc_raw *raw, const struct ibv_wc *wc)
{
	unsigned int i = (unsigned int)(wc->wr_id & 0xffffffff);
	struct rdc_answer a = {
		.len = wc->byte_len,
		.inv = wc->wc_flags & IBV_WC_WITH_INV,
		.inv_key = wc->invalidated_rkey,
	};

	memcpy(&a.cqe, (char *)raw->answers->p + i * ANSWER_BYTES, sizeof(a.cqe));
	rdc_raw_got(raw, &a);
	post_recv(raw, i); /* an error means a lost connection, where it does not matter */
}

static void poll_cq(struct rdc_raw *raw)
{
	struct ibv_wc wc[16];
	int i, n;

	if (!raw->cq)
		return;
	while ((n = rd_fab_cq_poll(raw->cq, 16, wc)) > 0) {
		for (i = 0; i < n; i++) {
			if (wc[i].status == IBV_WC_SUCCESS && (wc[i].wr_id & TAG_RECV))
				take_capsule(raw, &wc[i]);
		}
	}
}

static void raw_cq_event(struct rd_fab_cq *cq, void *arg)
{
	struct rdc_raw *raw = arg;

	poll_cq(raw);
	rd_fab_cq_arm(cq);
	poll_cq(raw);
}

/* One iteration of the loop, of at most @ms. */
static void turn_rdma(struct rdc_raw *raw, uint64_t ms)
{
	poll_cq(raw);
	rd_loop_turn(raw->t->loop, ms * RD_NSEC_PER_MSEC);
	poll_cq(raw);
}

/* ---- life ---- */

static int reg_rdma(struct rdc_raw *raw, struct rdc_mem *mem, int access)
{
	return rd_fab_reg_mr(raw->conn->dev, mem->p, mem->len, access, &mem->mr);
}

void rdc_raw_mem_dereg(struct rdc_mem *mem)
{
	rd_fab_dereg_mr(&mem->mr);
}

static void make_qp(struct rdc_raw *raw)
{
	struct rd_fab_qp_attr qp = {
		.max_send_wr = raw->slots,
		.max_recv_wr = raw->depth,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	struct rd_fab_dev *dev = raw->conn->dev;
	unsigned int i;
	int rc;

	raw->capsules = rdc_raw_mem(raw, (size_t)raw->slots * RDC_CAPSULE, 0);
	raw->answers = rdc_raw_mem(raw, (size_t)raw->depth * ANSWER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	rc = rd_fab_cq_create(dev, raw->slots + raw->depth, raw_cq_event, raw, &raw->cq);
	if (!rc)
		rc = rd_fab_cq_arm(raw->cq);
	qp.send_cq = qp.recv_cq = raw->cq;
	if (!rc)
		rc = rd_fab_qp_create(raw->conn, &qp);
	for (i = 0; !rc && i < raw->depth; i++)
		rc = post_recv(raw, i);
	if (rc)
		RDC_FAIL(raw->t, "cannot create the queue pair of this machine: %s", strerror(-rc));
}

static void dial_rdma(struct rdc_raw *raw, const struct rdc_dial *d, const struct sockaddr *to)
{
	struct rdc *t = raw->t;
	struct nvmf_rdma_cm_req req = {
		.qid = htole16(d->qid),
		.hrqsize = htole16(raw->depth),
		.hsqsize = htole16((uint16_t)(raw->depth - 1)),
	};
	struct rd_fab_conn_param param = {
		.private_data = d->has_priv ? d->priv : &req,
		.private_len = d->has_priv ? d->priv_len : sizeof(req),
		.ird = d->ird ? d->ird : 32,
	};
	struct rd_fab_resolve_attr attr = {
		.dst = to,
		.timeout_ns = t->cfg->timeout_ms * RD_NSEC_PER_MSEC,
		.on_event = raw_conn_event,
		.arg = raw,
	};
	int rc;

	open_fabric(t, to);
	rc = rd_fab_resolve(t->fab, &attr, &raw->conn);
	if (rc)
		RDC_FAIL(t, "connect: %s", strerror(-rc));
	rdc_raw_until(raw, &raw->resolved, "connect");
	if (raw->over)
		return;
	make_qp(raw);
	if (d->no_ird)
		param.ird = 0;
	rc = rd_fab_connect(raw->conn, &param);
	if (rc)
		RDC_FAIL(t, "connect: %s", strerror(-rc));
	rdc_raw_until(raw, &raw->up, "connect");
}

static void hang_up_rdma(struct rdc_raw *raw)
{
	uint64_t end = rdc_now_ms() + 500;

	/* An orderly close where possible, so that what was sent last arrives. */
	if (raw->up && !raw->over) {
		rd_fab_disconnect(raw->conn);
		while (!raw->over && rdc_now_ms() < end)
			turn_rdma(raw, 10);
	}
	rd_fab_conn_destroy(&raw->conn);
	rd_fab_cq_destroy(&raw->cq);
}

/* ---- sending ---- */

void rdc_raw_post(struct rdc_raw *raw, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = rd_fab_post_send(raw->conn, wr, &bad);

	if (rc)
		RDC_FAIL(raw->t, "cannot send: %s", strerror(-rc));
}

static void send_rdma(struct rdc_raw *raw, const void *capsule, size_t len)
{
	unsigned int slot = raw->next_slot++ % raw->slots;
	char *p = (char *)raw->capsules->p + (size_t)slot * RDC_CAPSULE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)p,
		.length = (uint32_t)len,
		.lkey = raw->capsules->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (len)
		memcpy(p, capsule, len);
	else
		wr.num_sge = 0;
	rdc_raw_post(raw, &wr);
}

static void set_sgl_rdma(union nvme_sgl *sgl, const struct rdc_mem *mem, const void *at,
			 uint32_t len)
{
	if (mem)
		nvme_sgl_set_keyed(sgl, rd_fab_remote_addr(mem->mr, at), len, mem->mr->rkey,
				   NVME_SGL_KEYED_ADDRESS);
	else
		nvme_sgl_set_keyed(sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
}

const struct rdc_wire rdc_wire_rdma = {
	.dial = dial_rdma,
	.hang_up = hang_up_rdma,
	.turn = turn_rdma,
	.send = send_rdma,
	.reg = reg_rdma,
	.set_sgl = set_sgl_rdma,
};
