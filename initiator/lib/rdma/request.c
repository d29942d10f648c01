/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands as SENDs and keyed SGLs, responses as RECVs. */
#include <errno.h>

#include "rdma.h"

/* Removes the oldest SEND without a completion. Returns its request. */
static inline struct rdi_rdma_req *first_sent(struct rdi_rdma_conn *c)
{
	struct rdi_rdma_req *rr = STAILQ_FIRST(&c->sent);

	if (rr)
		STAILQ_REMOVE_HEAD(&c->sent, sent_link);
	return rr;
}

/* This SEND and all before it have completed; not every completion is reported. */
static void req_send_done(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc)
{
	struct rdi_rdma_conn *c = q->conn;
	struct rdi_rdma_req *rr;

	while ((rr = first_sent(c))) {
		struct rdi_req *req = rdi_rdma_req_of(rr);
		bool last = req->due == RDI_DUE_SEND;
		bool reported = &rr->send == wr;

		c->posted -= !reported;
		req->due &= (uint8_t)~RDI_DUE_SEND;
		if (last)
			rdi_req_complete(q, req);
		if (reported)
			break;
	}
}

void rdi_rdma_send_over(struct rdi_rdma_conn *c, const struct rdi_wr *wr)
{
	struct rdi_rdma_req *rr;

	if (wr->done != req_send_done)
		return;
	while ((rr = first_sent(c)) && &rr->send != wr)
		c->posted--;
}

int rdi_rdma_recv_post(struct rdi_rdma_conn *c, struct rdi_recv *recv)
{
	struct ibv_recv_wr *bad;
	int rc;

	c->recv_wr.wr_id = (uintptr_t)&recv->wr;
	c->recv_sge.addr = (uintptr_t)&recv->cqe;
	rc = rd_fab_post_recv(c->conn, &c->recv_wr, &bad);
	if (!rc)
		c->posted++;
	return rc;
}

void rdi_rdma_req_expect(const struct rdi_queue *q, const struct ibv_wc *wc)
{
	const struct rdi_wr *wr = (const struct rdi_wr *)(uintptr_t)wc->wr_id;

	/* The opcode of a failed completion is not valid. */
	if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV)
		return;
	if (!wr || wr->magic != RDI_WR_MAGIC)
		return;
	rdi_req_expect(q, le16toh(rd_container_of(wr, const struct rdi_recv, wr)->cqe.cid));
}

static void recv_done(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc)
{
	struct rdi_recv *recv = rd_container_of(wr, struct rdi_recv, wr);
	struct rdi_req *req;
	int rc;

	if (wc->byte_len != sizeof(recv->cqe)) {
		rdi_queue_fail(q, -EPROTO, "%s: a response of %u bytes instead of %zu", q->remote,
			       wc->byte_len, sizeof(recv->cqe));
		return;
	}
	req = rdi_req_find(q, le16toh(recv->cqe.cid));
	if (!req) {
		rdi_queue_fail(q, -EPROTO, RDI_UNKNOWN_CID, q->remote, le16toh(recv->cqe.cid));
		return;
	}
	if ((wc->wc_flags & IBV_WC_WITH_INV) &&
	    (!req->mark || wc->invalidated_rkey != rdi_rdma_req(req)->mr->rkey)) {
		rdi_queue_fail(q, -EPROTO,
			       "%s: the target invalidated key 0x%08x, which was not offered to it",
			       q->remote, wc->invalidated_rkey);
		return;
	}
	req->status = recv->cqe.status;
	req->result = recv->cqe.result64;
	/* Posted before the callback, which may send a command whose response needs this entry. */
	rc = rdi_rdma_recv_post(q->conn, recv);
	if (rc) {
		rdi_queue_fail(q, rc, "%s: cannot post a receive: %s", q->remote, strerror(-rc));
		return;
	}
	req->due &= (uint8_t)~RDI_DUE_ANSWER;
	if (!req->due)
		rdi_req_complete(q, req);
}

/* ---- submission ---- */

/* Data in the capsule, as the second scatter/gather element of the SEND. */
static inline int attach_in_capsule(struct rdi_queue *q, struct rdi_req *req, struct rdi_send *send)
{
	struct rdi_rdma_req *rr = rdi_rdma_req(req);
	int rc = rdi_rdma_map(q, req, 0);

	if (rc)
		return rc;
	/* Offset 0: ICDOFF is 0 wherever in-capsule data is used. */
	req->sqe->sgl.data =
		(struct nvme_data_sgl){.length = htole32(req->len), .type = NVME_SGL_IN_CAPSULE};
	send->sge[1].addr = (uintptr_t)rr->addr;
	send->sge[1].length = req->len;
	send->sge[1].lkey = rr->mr->lkey;
	send->wr.num_sge = 2;
	send->wr.send_flags = IBV_SEND_SIGNALED;
	return 0;
}

/* The target transfers the data by RDMA READ or WRITE. */
static inline int attach_keyed(struct rdi_queue *q, struct rdi_req *req, int access)
{
	struct rdi_rdma_conn *c = q->conn;
	struct rdi_rdma_req *rr = rdi_rdma_req(req);
	int rc = rdi_rdma_map(q, req, access);

	if (rc)
		return rc;
	req->mark = c->keyed_type == NVME_SGL_KEYED_INVALIDATE;
	nvme_sgl_set_keyed(&req->sqe->sgl, rd_fab_remote_addr(rr->mr, rr->addr), req->len,
			   rr->mr->rkey, c->keyed_type);
	return 0;
}

static inline int attach_data(struct rdi_queue *q, struct rdi_req *req, unsigned int how,
			      struct rdi_send *send)
{
	if (how & RDI_AS_IS)
		return 0;
	if (req->dir == RDI_NONE) {
		/* No data: a keyed descriptor of length 0, because targets refuse other forms. */
		nvme_sgl_set_keyed(&req->sqe->sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
		return 0;
	}
	if (req->len == 0 || req->len > NVME_SGL_KEYED_LEN_MAX)
		return -EINVAL;
	if (req->dir == RDI_IN)
		return attach_keyed(q, req, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (req->len <= q->cfg.in_capsule && !(how & RDI_KEYED))
		return attach_in_capsule(q, req, send);
	return attach_keyed(q, req, IBV_ACCESS_REMOTE_READ);
}

/* Prepares the SEND of the command. Maps the data; posts nothing. */
static inline int prepare(struct rdi_queue *q, struct rdi_req *req, unsigned int how,
			  struct rdi_send *send)
{
	struct rdi_rdma_conn *c = q->conn;
	int rc;

	req->mark = false;
	send->wr.wr_id = (uintptr_t)&rdi_rdma_req(req)->send;
	send->wr.num_sge = 1;
	send->wr.send_flags = c->bare_flags;
	send->sge[0].addr = (uintptr_t)req->sqe;
	rc = attach_data(q, req, how, send);
	if (__builtin_expect(how & RDI_ZERO, 0) && !rc)
		memset(rdi_rdma_req(req)->addr, 0, req->len);
	return rc;
}

static inline void posted(struct rdi_rdma_conn *c, struct rdi_req *req, unsigned int how)
{
	c->posted++;
	STAILQ_INSERT_TAIL(&c->sent, rdi_rdma_req(req), sent_link);
	rdi_req_started(c->q, req, how);
}

int rdi_rdma_send(struct rdi_queue *q, struct rdi_req *req, unsigned int how)
{
	struct rdi_rdma_conn *c = q->conn;
	struct ibv_send_wr *bad;
	int rc = prepare(q, req, how, &c->send[0]);

	if (rc)
		return rc;
	rc = rd_fab_post_send(c->conn, &c->send[0].wr, &bad);
	if (rc) {
		rdi_rdma_unmap(q, req, false);
		return rc;
	}
	posted(c, req, how);
	return 0;
}

int rdi_rdma_send_pair(struct rdi_queue *q, struct rdi_req *r1, unsigned int how1,
		       struct rdi_req *r2, unsigned int how2)
{
	struct rdi_rdma_conn *c = q->conn;
	struct ibv_send_wr *wr1 = &c->send[0].wr, *wr2 = &c->send[1].wr, *bad = NULL;
	int rc = prepare(q, r1, how1, &c->send[0]);

	if (rc)
		return rc;
	rc = prepare(q, r2, how2, &c->send[1]);
	if (rc) {
		rdi_rdma_unmap(q, r1, false);
		return rc;
	}
	wr1->next = wr2;
	rc = rd_fab_post_send(c->conn, wr1, &bad);
	wr1->next = NULL;
	if (rc && bad != wr2) {
		rdi_rdma_unmap(q, r1, false);
		rdi_rdma_unmap(q, r2, false);
		return rc;
	}
	posted(c, r1, how1);
	if (rc) {
		/* The first command of the pair has been posted and cannot be taken back. */
		rdi_req_started(q, r2, how2);
		r2->due &= (uint8_t)~RDI_DUE_SEND;
		rdi_queue_fail(q, rc, "%s: cannot send: %s", q->remote, strerror(-rc));
	} else {
		posted(c, r2, how2);
	}
	return 0;
}

/* ---- set up ---- */

void rdi_rdma_req_init(struct rdi_rdma_conn *c)
{
	unsigned int i;

	STAILQ_INIT(&c->sent);
	for (i = 0; i < c->q->cfg.depth; i++) {
		struct rdi_rdma_req *rr = rdi_rdma_req(&c->q->reqs[i]);

		rr->send.magic = RDI_WR_MAGIC;
		rr->send.done = req_send_done;
		c->recvs[i].wr.magic = RDI_WR_MAGIC;
		c->recvs[i].wr.done = recv_done;
	}
}

void rdi_rdma_req_prepare(struct rdi_rdma_conn *c)
{
	const struct rdi_rdma_handle *h = c->q->opened;
	const struct rd_fab_caps *caps = &c->dev->caps;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		c->send[i].wr = (struct ibv_send_wr){
			.sg_list = c->send[i].sge,
			.opcode = IBV_WR_SEND,
		};
		c->send[i].sge[0].length = sizeof(struct nvme_sqe);
		c->send[i].sge[0].lkey = c->sqe_mr->lkey;
	}
	c->recv_wr = (struct ibv_recv_wr){.sg_list = &c->recv_sge, .num_sge = 1};
	c->recv_sge.length = sizeof(struct nvme_cqe);
	c->recv_sge.lkey = c->recv_mr->lkey;
	/* Inline data saves nothing where the processor reads registered memory itself. */
	c->bare_flags = IBV_SEND_SIGNALED;
	if (!caps->cheap_mr && caps->max_inline >= sizeof(struct nvme_sqe))
		c->bare_flags |= IBV_SEND_INLINE;
	/*
	 * Requests remote invalidation only where the completion reports it, and for keys that only
	 * one command uses.
	 */
	c->keyed_type = NVME_SGL_KEYED_ADDRESS;
	if (caps->reports_inv && caps->cheap_mr && !h->no_remote_invalidate)
		c->keyed_type = NVME_SGL_KEYED_INVALIDATE;
}
