/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue: copies of posted work requests, completed in posting order. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

int rd_iw_sq_init(struct rd_iw_sq *sq, uint32_t max_wr, uint32_t max_sge, uint32_t max_inline)
{
	size_t tail = max_sge * sizeof(struct ibv_sge);
	uint32_t size = 1;

	while (size < max_wr)
		size *= 2;
	if (tail < max_inline)
		tail = (max_inline + 7u) & ~7u;
	sq->stride = sizeof(struct rd_iw_swr) + tail;
	sq->ring = calloc(size, sq->stride);
	if (!sq->ring)
		return -ENOMEM;
	sq->mask = size - 1;
	sq->depth = max_wr;
	sq->max_sge = max_sge;
	sq->max_inline = max_inline;
	return 0;
}

void rd_iw_sq_fini(struct rd_iw_sq *sq)
{
	free(sq->ring);
	sq->ring = NULL;
}

static int check_wr(const struct rd_iw_conn *c, const struct ibv_send_wr *wr, uint32_t *total)
{
	uint64_t sum = 0;

	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
		break;
	case IBV_WR_RDMA_READ:
		if (wr->send_flags & IBV_SEND_INLINE)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	if (wr->num_sge < 0)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (sum > c->sq.max_inline)
			return -EINVAL;
	} else if ((uint32_t)wr->num_sge > c->sq.max_sge || sum > RD_IW_MAX_MSG) {
		return -EINVAL;
	}
	*total = (uint32_t)sum;
	return 0;
}

static void copy_wr(struct rd_iw_swr *s, const struct ibv_send_wr *wr, uint32_t total)
{
	s->wr_id = wr->wr_id;
	s->opcode = (uint8_t)wr->opcode;
	s->flags = wr->send_flags;
	s->state = RD_IW_SWR_QUEUED;
	s->total = total;
	s->num_sge = 0;
	if (wr->opcode == IBV_WR_SEND_WITH_INV) {
		s->rkey = wr->invalidate_rkey;
	} else if (wr->opcode != IBV_WR_SEND) {
		s->rkey = wr->wr.rdma.rkey;
		s->remote_addr = wr->wr.rdma.remote_addr;
	}
	if (wr->send_flags & IBV_SEND_INLINE) {
		uint8_t *to = s->data;

		for (int i = 0; i < wr->num_sge; i++) {
			memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
			to += wr->sg_list[i].length;
		}
	} else if (wr->num_sge == 1) {
		s->num_sge = 1;
		s->sge[0] = wr->sg_list[0];
	} else if (wr->num_sge) {
		s->num_sge = (int16_t)wr->num_sge;
		memcpy(s->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(struct ibv_sge));
	}
}

static enum ibv_wc_opcode wc_opcode(uint8_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

static void push_wc(struct rd_iw_conn *c, uint64_t wr_id, uint8_t opcode, uint32_t len,
		    enum ibv_wc_status status)
{
	rd_iw_cq_push(c->scq, &c->base, wr_id, wc_opcode(opcode), status, len, 0, 0);
}

static int post_one(struct rd_iw_conn *c, const struct ibv_send_wr *wr)
{
	uint32_t total;
	int rc;

	rc = check_wr(c, wr, &total);
	if (rc)
		return rc;
	if (c->state == RD_IW_CLOSED) {
		push_wc(c, wr->wr_id, (uint8_t)wr->opcode, 0, IBV_WC_WR_FLUSH_ERR);
		return 0;
	}
	if (c->sq.tail - c->sq.head >= c->sq.depth)
		return -ENOMEM;
	copy_wr(rd_iw_sq_at(&c->sq, c->sq.tail), wr, total);
	c->sq.tail++;
	return 0;
}

int rd_iw_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	int rc = 0;

	if (!c->has_qp || (c->state != RD_IW_OPEN && c->state != RD_IW_CLOSED))
		rc = -ENOTCONN;
	while (rc == 0 && wr) {
		rc = post_one(c, wr);
		if (rc == 0)
			wr = wr->next;
	}
	if (rc && bad)
		*bad = wr;
	rd_iw_tx_kick(c);
	return rc;
}

/* The oldest work request is completed; the search for READs must not fall behind it. */
static void retire(struct rd_iw_sq *sq)
{
	if (sq->read == sq->head)
		sq->read++;
	sq->head++;
}

void rd_iw_sq_reap(struct rd_iw_conn *c)
{
	struct rd_iw_sq *sq = &c->sq;

	while (sq->head != sq->tail) {
		const struct rd_iw_swr *s = rd_iw_sq_at(sq, sq->head);

		if (s->state != RD_IW_SWR_DONE)
			break;
		if (s->flags & IBV_SEND_SIGNALED)
			push_wc(c, s->wr_id, s->opcode, s->total, IBV_WC_SUCCESS);
		retire(sq);
	}
}

void rd_iw_sq_flush(struct rd_iw_conn *c, const struct rd_iw_swr *bad, enum ibv_wc_status status)
{
	struct rd_iw_sq *sq = &c->sq;

	for (; sq->head != sq->tail; retire(sq)) {
		const struct rd_iw_swr *s = rd_iw_sq_at(sq, sq->head);

		push_wc(c, s->wr_id, s->opcode, 0, s == bad ? status : IBV_WC_WR_FLUSH_ERR);
	}
}

struct rd_iw_swr *rd_iw_sq_reading(struct rd_iw_conn *c)
{
	struct rd_iw_sq *sq = &c->sq;

	/* Only what was handed to the socket can be answered; beyond it nothing is in WAIT. */
	for (; sq->read != c->tx.cur.sq; sq->read++) {
		struct rd_iw_swr *s = rd_iw_sq_at(sq, sq->read);

		if (s->state == RD_IW_SWR_WAIT)
			return s;
		if (s->state == RD_IW_SWR_QUEUED)
			break;
	}
	return NULL;
}
