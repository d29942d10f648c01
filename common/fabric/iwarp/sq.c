/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue: copies of posted work requests, completed in posting order. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "copy.h"

int rd_iw_sq_init(struct rd_iw_sq *sq, const struct rd_fab_qp_attr *attr)
{
	size_t tail = attr->max_send_sge * sizeof(struct ibv_sge);
	uint32_t size = 1;

	while (size < attr->max_send_wr)
		size *= 2;
	if (tail < attr->max_inline)
		tail = (attr->max_inline + 7u) & ~7u;
	sq->stride = sizeof(struct rd_iw_swr) + tail;
	sq->ring = calloc(size, sq->stride);
	if (!sq->ring)
		return -ENOMEM;
	sq->mask = size - 1;
	sq->depth = attr->max_send_wr;
	sq->max_sge = attr->max_send_sge;
	sq->max_inline = attr->max_inline;
	sq->coalesce = attr->coalesce;
	return 0;
}

void rd_iw_sq_fini(struct rd_iw_sq *sq)
{
	free(sq->ring);
	sq->ring = NULL;
}

static uint64_t wr_length(const struct ibv_send_wr *wr)
{
	uint64_t sum = 0;

	if (wr->num_sge == 1)
		return wr->sg_list->length;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	return sum;
}

/* Sets of opcodes, a bit for each. */
#define SENDS (1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_INV)
#define RDMAS (1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_READ)

static bool is_one_of(enum ibv_wr_opcode opcode, uint32_t kinds)
{
	return opcode < 32 && (kinds >> opcode & 1);
}

static int check_wr(const struct rd_iw_sq *sq, const struct ibv_send_wr *wr, uint32_t *total)
{
	uint64_t sum = wr_length(wr);

	if (!is_one_of(wr->opcode, SENDS | RDMAS))
		return -EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (wr->opcode == IBV_WR_RDMA_READ || wr->num_sge < 0 || sum > sq->max_inline)
			return -EINVAL;
	} else if ((uint32_t)wr->num_sge > sq->max_sge || sum > RD_IW_MAX_MSG) {
		return -EINVAL;
	}
	*total = (uint32_t)sum;
	return 0;
}

static void copy_inline(uint8_t *to, const struct ibv_send_wr *wr)
{
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

/* Copies @wr to @s without its scatter/gather list or inline data. */
static inline void copy_head(struct rd_iw_swr *s, const struct ibv_send_wr *wr, uint32_t total)
{
	s->wr_id = wr->wr_id;
	s->opcode = (uint8_t)wr->opcode;
	s->flags = wr->send_flags;
	s->state = RD_IW_SWR_QUEUED;
	s->total = total;
	s->num_sge = (int16_t)wr->num_sge;
	if (is_one_of(wr->opcode, RDMAS)) {
		s->rkey = wr->wr.rdma.rkey;
		s->remote_addr = wr->wr.rdma.remote_addr;
	} else {
		s->rkey = wr->invalidate_rkey;
	}
}

static __attribute__((noinline)) void copy_wr(struct rd_iw_swr *s, const struct ibv_send_wr *wr,
					      uint32_t total)
{
	copy_head(s, wr, total);
	if (wr->send_flags & IBV_SEND_INLINE) {
		s->num_sge = 0;
		copy_inline(s->data, wr);
	} else if (wr->num_sge) {
		memcpy(s->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(struct ibv_sge));
	}
}

/*
 * Whether @wr is of the common kind: valid, and with one scatter/gather entry. Other kinds need
 * more checks.
 */
static inline bool is_plain(const struct rd_iw_sq *sq, const struct ibv_send_wr *wr)
{
	return wr->num_sge == 1 && sq->max_sge && !(wr->send_flags & IBV_SEND_INLINE) &&
	       is_one_of(wr->opcode, SENDS | RDMAS) && wr->sg_list->length <= RD_IW_MAX_MSG;
}

static void push_wc(struct rd_iw_conn *c, uint64_t wr_id, uint8_t opcode, uint32_t len,
		    enum ibv_wc_status status)
{
	rd_iw_cq_push(c->scq, &c->base, wr_id, rd_wc_opcode(opcode), status, len, 0, 0);
}

/*
 * Queues the chain @wr up to the first invalid work request. Returns 0, or -errno with *@wr at that
 * one.
 */
static int post_open(struct rd_iw_sq *sq, struct ibv_send_wr **wr)
{
	uint32_t tail = sq->tail, end = sq->head + sq->depth, total;
	struct ibv_send_wr *w = *wr;
	int rc = 0;

	/* An empty queue starts at the slots used last: those are still in a cache. */
	if (sq->head == tail)
		sq->base = tail;
	for (; w; w = w->next) {
		struct rd_iw_swr *s = rd_iw_sq_at(sq, tail);

		if (is_plain(sq, w) && tail != end) {
			copy_head(s, w, w->sg_list->length);
			rd_iw_copy_sge(s->sge, w->sg_list);
			tail++;
			continue;
		}
		rc = check_wr(sq, w, &total);
		if (rc == 0 && tail == end)
			rc = -ENOMEM;
		if (rc)
			break;
		copy_wr(s, w, total);
		tail++;
	}
	sq->tail = tail;
	*wr = w;
	return rc;
}

/* As post_open() after the end of the connection: completes each as flushed. */
static int post_send_closed(struct rd_iw_conn *c, struct ibv_send_wr **wr)
{
	uint32_t total;
	int rc;

	for (; *wr; *wr = (*wr)->next) {
		rc = check_wr(&c->sq, *wr, &total);
		if (rc)
			return rc;
		push_wc(c, (*wr)->wr_id, (uint8_t)(*wr)->opcode, 0, IBV_WC_WR_FLUSH_ERR);
	}
	return 0;
}

int rd_iw_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	int rc = -ENOTCONN;

	if (c->has_qp && c->state == RD_IW_OPEN)
		rc = post_open(&c->sq, &wr);
	else if (c->has_qp && c->state == RD_IW_CLOSED)
		rc = post_send_closed(c, &wr);
	if (rc && bad)
		*bad = wr;
	rd_iw_tx_kick(c);
	return rc;
}

/* Removes the oldest work request; sq->read must not fall behind the head. */
static void retire_swr(struct rd_iw_sq *sq)
{
	if (sq->read == sq->head)
		sq->read++;
	sq->head++;
}

static void complete_swr(struct rd_iw_conn *c, const struct rd_iw_swr *s)
{
	if (s->flags & IBV_SEND_SIGNALED)
		push_wc(c, s->wr_id, s->opcode, s->total, IBV_WC_SUCCESS);
}

/* Completes @n SENDs and WRITEs from index @first on. */
static void complete_run(struct rd_iw_conn *c, uint32_t first, uint32_t n)
{
	const struct rd_iw_sq *sq = &c->sq;

	if (!sq->coalesce) {
		for (; n; n--)
			complete_swr(c, rd_iw_sq_at(sq, first++));
		return;
	}
	while (n--) {
		const struct rd_iw_swr *s = rd_iw_sq_at(sq, first + n);

		if (!(s->flags & IBV_SEND_SIGNALED))
			continue;
		complete_swr(c, s);
		break;
	}
}

void rd_iw_sq_reap(struct rd_iw_conn *c)
{
	struct rd_iw_sq *sq = &c->sq;
	uint32_t run = 0; /* SENDs and WRITEs before the head whose completions are still due */

	for (; sq->head != sq->tail; retire_swr(sq)) {
		const struct rd_iw_swr *s = rd_iw_sq_at(sq, sq->head);

		if (s->state != RD_IW_SWR_DONE)
			break;
		if (s->opcode != IBV_WR_RDMA_READ) {
			run++;
			continue;
		}
		complete_run(c, sq->head - run, run);
		complete_swr(c, s);
		run = 0;
	}
	complete_run(c, sq->head - run, run);
}

void rd_iw_sq_done(struct rd_iw_conn *c, uint32_t first, uint32_t n)
{
	struct rd_iw_sq *sq = &c->sq;
	uint32_t end = first + n;

	if (first != sq->head) { /* an older READ has not completed */
		for (; first != end; first++)
			rd_iw_sq_at(sq, first)->state = RD_IW_SWR_DONE;
		return;
	}
	complete_run(c, first, n);
	if (sq->read - sq->head < n)
		sq->read = end;
	sq->head = end;
}

void rd_iw_sq_flush(struct rd_iw_conn *c, const struct rd_iw_swr *bad, enum ibv_wc_status status)
{
	struct rd_iw_sq *sq = &c->sq;

	for (; sq->head != sq->tail; retire_swr(sq)) {
		const struct rd_iw_swr *s = rd_iw_sq_at(sq, sq->head);

		push_wc(c, s->wr_id, s->opcode, 0, s == bad ? status : IBV_WC_WR_FLUSH_ERR);
	}
}

struct rd_iw_swr *rd_iw_sq_reading(struct rd_iw_conn *c)
{
	struct rd_iw_sq *sq = &c->sq;

	/* Only a READ that has been framed can be answered; behind the cursor none is in WAIT. */
	for (; sq->read != c->tx.cur.sq; sq->read++) {
		struct rd_iw_swr *s = rd_iw_sq_at(sq, sq->read);

		if (s->state == RD_IW_SWR_WAIT)
			return s;
		if (s->state == RD_IW_SWR_QUEUED)
			break;
	}
	return NULL;
}
