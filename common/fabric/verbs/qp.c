/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation, states, posting, completions, and the end of all that was posted. */
#include <errno.h>
#include <stdlib.h>

#include "fabric/conn_events.h"

#include "conn.h"

/* ---- what was posted ---- */

static int wq_init(struct rd_vb_wq *wq, uint32_t depth)
{
	uint32_t size = 1;

	while (size < depth)
		size *= 2;
	wq->ring = calloc(size, sizeof(*wq->ring));
	if (!wq->ring)
		return -ENOMEM;
	wq->mask = size - 1;
	wq->depth = depth;
	return 0;
}

static bool wq_full(const struct rd_vb_wq *wq)
{
	return wq->tail - wq->head >= wq->depth;
}

static struct rd_vb_wr *wq_at(const struct rd_vb_wq *wq, uint32_t i)
{
	return &wq->ring[i & wq->mask];
}

/* ---- completions ---- */

static void vb_push_wc(struct rd_vb_conn *c, struct rd_vb_cq *cq, const struct rd_vb_wr *w,
		       enum ibv_wc_status status, bool notify)
{
	struct ibv_wc wc = {
		.wr_id = w->wr_id,
		.status = status,
		.opcode = w->opcode,
		.byte_len = status == IBV_WC_SUCCESS ? w->len : 0,
		.qp_num = c->base.qp_num,
	};

	rd_vb_cq_push(cq, &wc, notify);
}

/*
 * Some devices claim to support SEND with Invalidate and do not. As long as none has succeeded, a
 * failure is taken for that: plain SENDs are used from then on, which every host accepts.
 */
static void judge_inv(struct rd_vb_dev *dev, enum ibv_wc_status status)
{
	if (status == IBV_WC_SUCCESS)
		dev->inv_worked = true;
	if (dev->inv_worked || dev->inv_broken ||
	    (status != IBV_WC_LOC_QP_OP_ERR && status != IBV_WC_REM_INV_REQ_ERR &&
	     status != IBV_WC_GENERAL_ERR))
		return;
	dev->inv_broken = true;
	rd_warn(rd_vb_log(dev->fab), RD_LOG_FABRIC,
		"%s: SEND with Invalidate failed (%s): using plain SENDs from now on", dev->name,
		ibv_wc_status_str(status));
}

/* @w leaves its queue: completes it to the user, unless it is hidden, or quiet and successful. */
static void retire_wr(struct rd_vb_conn *c, struct rd_vb_cq *cq, const struct rd_vb_wr *w,
		      enum ibv_wc_status status, bool notify)
{
	if (w->hidden)
		c->hidden_out = false;
	else if (!w->quiet || status != IBV_WC_SUCCESS)
		vb_push_wc(c, cq, w, status, notify);
}

/* Completes the work requests that are done, in posting order. */
static void complete_in_order(struct rd_vb_conn *c, struct rd_vb_wq *wq, struct rd_vb_cq *cq)
{
	for (; wq->head != wq->tail; wq->head++) {
		const struct rd_vb_wr *w = wq_at(wq, wq->head);

		if (w->done)
			retire_wr(c, cq, w, (enum ibv_wc_status)w->status, false);
		else if (w->signaled || (int32_t)(wq->known - wq->head) <= 0)
			break; /* an unsignaled one is done when a later one has succeeded */
	}
}

/* Marks entry @index as completed by the device. Returns it, or NULL if there is no such entry. */
static struct rd_vb_wr *wq_done(struct rd_vb_wq *wq, uint32_t index, enum ibv_wc_status status)
{
	uint32_t ahead = (index - wq->head) & wq->mask;
	struct rd_vb_wr *w = wq_at(wq, index);

	if (ahead >= wq->tail - wq->head || w->done)
		return NULL;
	w->done = true;
	w->status = (uint8_t)status;
	if (status == IBV_WC_SUCCESS && (int32_t)(wq->head + ahead + 1 - wq->known) > 0)
		wq->known = wq->head + ahead + 1;
	return w;
}

static void vb_send_done(struct rd_vb_conn *c, uint32_t index, const struct ibv_wc *wc)
{
	const struct rd_vb_wr *w = wq_done(&c->sq, index, wc->status);

	if (!w)
		return;
	if (w->with_inv)
		judge_inv(c->dev, wc->status);
	complete_in_order(c, &c->sq, c->scq);
	if (c->state == RD_VB_CLOSING && c->sq.head == c->sq_end)
		rd_vb_conn_sent_all(c);
}

/* A RECV has completed with a message. May be called while completions are being polled. */
static void message_heard(struct rd_vb_conn *c)
{
	if (c->heard)
		return;
	c->heard = true;
	if (c->dev->quirk->heard)
		c->dev->quirk->heard(c);
}

static void vb_recv_done(struct rd_vb_conn *c, uint32_t index, const struct ibv_wc *wc)
{
	struct rd_vb_wr *w = wq_done(&c->rq, index, wc->status);

	if (!w)
		return;
	w->len = wc->byte_len;
	complete_in_order(c, &c->rq, c->rcq);
	if (wc->status == IBV_WC_SUCCESS)
		message_heard(c);
}

static struct rd_vb_conn *by_qpn(struct rd_vb_dev *dev, uint32_t qpn)
{
	struct rd_vb_conn *c;

	LIST_FOREACH (c, &dev->by_qpn[qpn % RD_VB_QPN_BUCKETS], by_qpn)
		if (c->qp->qp_num == qpn)
			return c;
	return NULL;
}

static struct rd_vb_conn *srq_recv_done(struct rd_vb_dev *dev, struct rd_vb_cq *cq,
					struct rd_vb_srq *srq, uint32_t index, struct ibv_wc *wc)
{
	struct rd_vb_conn *c = by_qpn(dev, wc->qp_num);

	if (!rd_vb_srq_done(srq, index, wc) || !c)
		return NULL;
	wc->opcode = IBV_WC_RECV;
	wc->wc_flags = 0;
	wc->qp_num = c->base.qp_num;
	rd_vb_cq_push(cq, wc, false);
	if (wc->status == IBV_WC_SUCCESS)
		message_heard(c);
	return c;
}

void rd_vb_wc_done(struct rd_vb_dev *dev, struct rd_vb_cq *cq, struct ibv_wc *wc)
{
	enum rd_vb_wr_kind kind = (enum rd_vb_wr_kind)(wc->wr_id >> 62);
	uint32_t index = wc->wr_id & RD_VB_INDEX_MASK;
	uint32_t slot = wc->wr_id >> RD_VB_INDEX_BITS & RD_VB_SLOT_MASK;
	uint32_t gen = wc->wr_id >> (RD_VB_INDEX_BITS + RD_VB_SLOT_BITS) & RD_VB_GEN_MASK;
	struct rd_vb_conn *c;

	/* Completions of a destroyed queue pair may still come from the device. */
	if (slot >= dev->nslots || !dev->slots[slot].obj ||
	    (dev->slots[slot].gen & RD_VB_GEN_MASK) != gen)
		return;
	c = dev->slots[slot].obj;
	if (kind == RD_VB_WR_SRQ)
		c = srq_recv_done(dev, cq, dev->slots[slot].obj, index, wc);
	else if (kind == RD_VB_WR_SEND)
		vb_send_done(c, index, wc);
	else
		vb_recv_done(c, index, wc);
	if (c && wc->status != IBV_WC_SUCCESS)
		rd_vb_conn_wc_failed(c, wc->status);
}

/* ---- creation ---- */

/*
 * Returns a segment with @n free entries in which the shared queue has been counted already, or
 * NULL.
 */
static struct rd_vb_seg *counted_seg(const struct rd_vb_conn *c, uint32_t n)
{
	if (!c->srq || c->srq->counted != c->rcq)
		return NULL;
	for (uint32_t s = 0; s < c->rcq->nsegs; s++) {
		struct rd_vb_seg *seg = c->rcq->segs[s];

		if ((c->srq->counted_segs & 1u << s) && n <= seg->size - seg->reserved)
			return seg;
	}
	return NULL;
}

/*
 * Room for a shared queue is reserved once and never given back, since other queue pairs may use
 * it.
 */
static void count_srq(struct rd_vb_conn *c)
{
	struct rd_vb_srq *srq = c->srq;

	if (srq->counted && srq->counted != c->rcq)
		return; /* with a second CQ it is reserved, and given back, for each queue pair */
	srq->counted = c->rcq;
	for (uint32_t s = 0; s < c->rcq->nsegs; s++)
		if (c->rcq->segs[s] == c->rseg)
			srq->counted_segs |= 1u << s;
	c->rroom = 0;
}

static int reserve_recv(struct rd_vb_conn *c, uint32_t n)
{
	struct rd_vb_seg *seg = counted_seg(c, n);
	int rc;

	c->rroom = c->srq ? c->srq->depth : c->rq.depth;
	if (seg) {
		seg->reserved += n;
		c->rseg = seg;
		c->rroom = 0;
		return 0;
	}
	rc = rd_vb_cq_reserve(c->rcq, n + c->rroom, &c->rseg);
	if (rc == 0 && c->srq)
		count_srq(c);
	return rc;
}

/* If both queues use one CQ, they use one segment of it, so that completions keep their order. */
static int reserve_cqs(struct rd_vb_conn *c)
{
	int rc;

	if (c->scq == c->rcq) {
		rc = reserve_recv(c, c->sq.depth);
		c->sseg = c->rseg;
		return rc;
	}
	rc = rd_vb_cq_reserve(c->scq, c->sq.depth, &c->sseg);
	if (rc)
		return rc;
	rc = reserve_recv(c, 0);
	if (rc)
		c->sseg->reserved -= c->sq.depth;
	return rc;
}

static void unreserve_cqs(struct rd_vb_conn *c)
{
	c->sseg->reserved -= c->sq.depth;
	c->rseg->reserved -= c->rroom;
}

static int to_init(struct rd_vb_conn *c)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask = 0, rc;

	rc = rd_vb_err(rdma_init_qp_attr(c->id->cm, &attr, &mask));
	if (rc)
		return rc;
	return mask ? rd_vb_err(ibv_modify_qp(c->qp, &attr, mask)) : 0;
}

static int create_hw_qp(struct rd_vb_conn *c, const struct rd_fab_qp_attr *attr)
{
	struct ibv_qp_init_attr init = {
		.qp_context = c,
		.send_cq = c->sseg->hw,
		.recv_cq = c->rseg->hw,
		.srq = c->srq ? c->srq->hw : NULL,
		.cap = {.max_send_wr = c->sq.depth,
			.max_recv_wr = c->srq ? 0 : attr->max_recv_wr,
			.max_send_sge = attr->max_send_sge,
			.max_recv_sge = c->srq ? 0 : attr->max_recv_sge,
			.max_inline_data = attr->max_inline},
		.qp_type = IBV_QPT_RC,
	};
	int rc;

	errno = 0;
	c->qp = ibv_create_qp(c->dev->pd, &init);
	if (!c->qp)
		return rd_vb_errno();
	rc = to_init(c);
	if (rc == 0)
		return 0;
	ibv_destroy_qp(c->qp);
	c->qp = NULL;
	/* The kernel does not report that the peer of a request has left before it is accepted. */
	return c->state == RD_VB_ADOPTED && rc == -EINVAL ? -ECONNRESET : rc;
}

static void wq_fini(struct rd_vb_conn *c)
{
	free(c->sq.ring);
	free(c->rq.ring);
	c->sq = c->rq = (struct rd_vb_wq){0};
}

static int make_queues(struct rd_vb_conn *c, const struct rd_fab_qp_attr *attr)
{
	int rc;

	rc = wq_init(&c->sq, attr->max_send_wr + c->dev->quirk->hidden_wrs);
	if (rc == 0 && !c->srq)
		rc = wq_init(&c->rq, attr->max_recv_wr);
	return rc;
}

int rd_vb_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);
	struct rd_vb_dev *dev = c->dev;
	int rc;

	if (c->has_qp || (c->state != RD_VB_RESOLVED && c->state != RD_VB_ADOPTED))
		return -EINVAL;
	rc = rd_fab_check_qp_attr(&dev->base.caps, attr);
	if (rc)
		return rc;
	c->scq = rd_vb_cq(attr->send_cq);
	c->rcq = rd_vb_cq(attr->recv_cq);
	c->srq = attr->srq ? rd_container_of(attr->srq, struct rd_vb_srq, base) : NULL;
	c->max_send_sge = attr->max_send_sge;
	c->max_recv_sge = attr->max_recv_sge;
	c->max_inline = attr->max_inline;
	c->coalesce = attr->coalesce;
	rc = make_queues(c, attr);
	if (rc)
		goto err_free;
	rc = reserve_cqs(c);
	if (rc)
		goto err_free;
	rc = rd_vb_slot_get(dev, c, &c->slot);
	if (rc)
		goto err_unreserve;
	rc = create_hw_qp(c, attr);
	if (rc)
		goto err_slot;
	/* The device may reuse its number once the connection is over; this one is not reused. */
	c->base.qp_num = c->slot | dev->slots[c->slot].gen << RD_VB_SLOT_BITS;
	LIST_INSERT_HEAD(&dev->by_qpn[c->qp->qp_num % RD_VB_QPN_BUCKETS], c, by_qpn);
	c->has_qp = true;
	rd_debug(rd_vb_log(c->fab), RD_LOG_FABRIC, "qp %u: %s's queue pair %u", c->base.qp_num,
		 dev->name, c->qp->qp_num);
	return 0;

err_slot:
	rd_vb_slot_put(dev, c->slot);
err_unreserve:
	unreserve_cqs(c);
err_free:
	wq_fini(c);
	return rc;
}

/* ---- states ---- */

static int to_state(struct rd_vb_conn *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0, rc;

	rc = rd_vb_err(rdma_init_qp_attr(c->id->cm, &attr, &mask));
	if (rc)
		return rc;
	/*
	 * The device itself holds back READs beyond this depth, in order: all READs can be given to
	 * it at once.
	 */
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = (uint8_t)c->base.ird;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = (uint8_t)c->base.ord;
	return mask ? rd_vb_err(ibv_modify_qp(c->qp, &attr, mask)) : 0;
}

int rd_vb_qp_connect(struct rd_vb_conn *c)
{
	int rc;

	/* On iWARP the kernel's connection manager changes the state of the queue pair. */
	if (c->dev->iwarp)
		return 0;
	/* INIT again: only now the CM knows the access rights. */
	rc = to_init(c);
	if (rc == 0)
		rc = to_state(c, IBV_QPS_RTR);
	if (rc == 0)
		rc = to_state(c, IBV_QPS_RTS);
	return rc;
}

static void flush_wq(struct rd_vb_conn *c, struct rd_vb_wq *wq, struct rd_vb_cq *cq)
{
	for (; wq->head != wq->tail; wq->head++) {
		const struct rd_vb_wr *w = wq_at(wq, wq->head);

		retire_wr(c, cq, w, w->done ? (enum ibv_wc_status)w->status : IBV_WC_WR_FLUSH_ERR,
			  true);
	}
	wq->known = wq->tail;
}

void rd_vb_qp_down(struct rd_vb_conn *c)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int rc;

	rd_vb_batch_drop(c);
	if (!c->qp)
		return;
	/*
	 * Stops the queue pair, takes its completions (some devices remove those of a destroyed
	 * queue pair from the CQ) and destroys it. Afterwards the device does not access its
	 * memory.
	 */
	ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
	rd_vb_cq_sweep(c->scq);
	rd_vb_cq_sweep(c->rcq);
	rc = rd_vb_err(ibv_destroy_qp(c->qp));
	if (rc)
		rd_err(rd_vb_log(c->fab), RD_LOG_FABRIC,
		       "qp %u: the queue pair cannot be destroyed: %s", c->base.qp_num,
		       strerror(-rc));
	rd_vb_cq_sweep(c->scq);
	rd_vb_cq_sweep(c->rcq);
	LIST_REMOVE(c, by_qpn);
	c->qp = NULL;
	flush_wq(c, &c->sq, c->scq);
	flush_wq(c, &c->rq, c->rcq);
}

void rd_vb_qp_free(struct rd_vb_conn *c)
{
	if (!c->has_qp)
		return;
	rd_vb_qp_down(c);
	rd_vb_cq_purge(c->scq, c->base.qp_num);
	rd_vb_cq_purge(c->rcq, c->base.qp_num);
	rd_vb_slot_put(c->dev, c->slot);
	unreserve_cqs(c);
	wq_fini(c);
	c->has_qp = false;
}

/* ---- posting ---- */

uint32_t rd_vb_sends_out(const struct rd_vb_conn *c)
{
	return c->sq.tail - c->sq.head - c->hidden_out;
}

static bool sq_full(const struct rd_vb_conn *c)
{
	return rd_vb_sends_out(c) >= c->sq.depth - c->dev->quirk->hidden_wrs;
}

static int check_send(const struct rd_vb_conn *c, const struct ibv_send_wr *wr, uint32_t *total)
{
	const struct rd_fab_caps *caps = &c->dev->base.caps;
	uint32_t sges = c->max_send_sge;
	uint64_t sum = 0;

	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_INV:
		if (wr->send_flags & IBV_SEND_INLINE && !caps->inline_with_inv)
			return -EINVAL;
		break;
	case IBV_WR_SEND:
	case IBV_WR_RDMA_WRITE:
		break;
	case IBV_WR_RDMA_READ:
		if (wr->send_flags & IBV_SEND_INLINE)
			return -EINVAL;
		if (sges > caps->max_read_sge)
			sges = caps->max_read_sge;
		break;
	default:
		return -EINVAL;
	}
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sges)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	if (sum > ((wr->send_flags & IBV_SEND_INLINE) ? c->max_inline : caps->max_msg))
		return -EINVAL;
	*total = (uint32_t)sum;
	return 0;
}

/* Records @wr and sets @out to what the device gets. */
static void note_send(struct rd_vb_conn *c, const struct ibv_send_wr *wr, uint32_t total,
		      struct ibv_send_wr *out)
{
	struct rd_vb_wr *w = wq_at(&c->sq, c->sq.tail);

	*out = *wr;
	out->next = NULL;
	if (out->opcode == IBV_WR_SEND_WITH_INV) {
		if (c->dev->inv_broken)
			out->opcode = IBV_WR_SEND;
		else if (c->dev->quirk->inv_key_in_rdma)
			out->wr.rdma.rkey = out->invalidate_rkey;
	}
	out->wr_id = rd_vb_wr_id(RD_VB_WR_SEND, c->dev->slots[c->slot].gen, c->slot,
				 c->sq.tail & c->sq.mask);
	*w = (struct rd_vb_wr){
		.wr_id = wr->wr_id,
		.len = total,
		.opcode = (uint8_t)rd_wc_opcode(out->opcode),
		.signaled = wr->send_flags & IBV_SEND_SIGNALED,
		.with_inv = out->opcode == IBV_WR_SEND_WITH_INV,
	};
	if (c->dev->quirk->signal_writes && out->opcode == IBV_WR_RDMA_WRITE && !w->signaled) {
		out->send_flags |= IBV_SEND_SIGNALED;
		w->quiet = true;
	}
	c->sq.tail++;
}

void rd_vb_post_hidden(struct rd_vb_conn *c, enum ibv_wr_opcode opcode)
{
	/* One entry, of length 0: some drivers take a READ's length from its first, set or not. */
	struct ibv_sge none = {0};
	struct ibv_send_wr out, wr = {
					.sg_list = &none,
					.num_sge = 1,
					.opcode = opcode,
					.send_flags = IBV_SEND_SIGNALED,
				};
	struct rd_vb_wr *w = wq_at(&c->sq, c->sq.tail);

	if (c->hidden_out)
		return;
	rd_vb_batch_give(c); /* what was posted before leaves before it */
	note_send(c, &wr, 0, &out);
	w->hidden = true;
	c->hidden_out = true;
	c->fab->stats.hidden++;
	rd_debug(rd_vb_log(c->fab), RD_LOG_FABRIC, "qp %u: no message yet: an empty %s",
		 c->base.qp_num, wr.opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE");
	rd_vb_give(c, &out, 1);
}

static int post_one_send(struct rd_vb_conn *c, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr out;
	uint32_t total;
	int rc = check_send(c, wr, &total);

	if (rc)
		return rc;
	if (c->state == RD_VB_CLOSED) {
		vb_push_wc(c, c->scq,
			   &(struct rd_vb_wr){.wr_id = wr->wr_id,
					      .opcode = (uint8_t)rd_wc_opcode(wr->opcode)},
			   IBV_WC_WR_FLUSH_ERR, true);
		return 0;
	}
	if (sq_full(c))
		return -ENOMEM;
	note_send(c, wr, total, &out);
	if (!c->stalled)
		rd_vb_batch_add(c, &out, total);
	return 0;
}

int rd_vb_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);
	int rc = 0;

	if (!c->has_qp || c->state < RD_VB_OPEN)
		rc = -ENOTCONN;
	while (wr && rc == 0) {
		rc = post_one_send(c, wr);
		if (rc == 0)
			wr = wr->next;
	}
	if (rc && bad)
		*bad = wr;
	return rc;
}

static int post_one_recv(struct rd_vb_conn *c, const struct ibv_recv_wr *user)
{
	struct rd_vb_wr w = {.wr_id = user->wr_id, .opcode = IBV_WC_RECV, .signaled = true};
	struct ibv_recv_wr wr = *user, *bad;
	int rc;

	if (!c->has_qp || c->srq || wr.num_sge < 0 || (uint32_t)wr.num_sge > c->max_recv_sge)
		return -EINVAL;
	if (c->state == RD_VB_CLOSED) {
		vb_push_wc(c, c->rcq, &w, IBV_WC_WR_FLUSH_ERR, true);
		return 0;
	}
	if (wq_full(&c->rq))
		return -ENOMEM;
	*wq_at(&c->rq, c->rq.tail) = w;
	wr.next = NULL;
	wr.wr_id = rd_vb_wr_id(RD_VB_WR_RECV, c->dev->slots[c->slot].gen, c->slot,
			       c->rq.tail & c->rq.mask);
	c->rq.tail++;
	if (c->stalled)
		return 0;
	rc = rd_vb_err(ibv_post_recv(c->qp, &wr, &bad));
	if (rc && c->state != RD_VB_OPEN && c->state != RD_VB_ACCEPTED) {
		c->rq.tail--;
		return rc;
	}
	if (rc)
		rd_vb_conn_wc_failed(c, IBV_WC_WR_FLUSH_ERR);
	return 0;
}

int rd_vb_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);

	for (; wr; wr = wr->next) {
		int rc = post_one_recv(c, wr);

		if (rc) {
			if (bad)
				*bad = wr;
			return rc;
		}
	}
	return 0;
}
