/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests of one turn on their way to the device: each call that posts costs a system call on
 * a soft device and a doorbell on a NIC. A fabric has one batch, for one queue pair at a time: a
 * post to another queue pair, or the SEND phase, gives it to the device.
 */
#include <errno.h>

#include "conn.h"

/*
 * The device refused @bad, of a chain of valid requests for which there is room. Returns the
 * request to continue with if the device does not support its opcode, else NULL.
 */
static struct ibv_send_wr *wr_refused(struct rd_vb_conn *c, struct ibv_send_wr *bad, int rc)
{
	struct rd_vb_dev *dev = c->dev;

	if (bad && bad->opcode == IBV_WR_SEND_WITH_INV && !dev->inv_worked &&
	    (rc == -EINVAL || rc == -EOPNOTSUPP || rc == -ENOSYS)) {
		dev->inv_broken = true;
		rd_warn(rd_vb_log(dev->fab), RD_LOG_FABRIC,
			"%s refuses SEND with Invalidate (%s): using plain SENDs from now on",
			dev->name, strerror(-rc));
		for (struct ibv_send_wr *wr = bad; wr; wr = wr->next)
			if (wr->opcode == IBV_WR_SEND_WITH_INV)
				wr->opcode = IBV_WR_SEND;
		return bad;
	}
	rd_debug(rd_vb_log(dev->fab), RD_LOG_FABRIC, "qp %u: posting refused: %s", c->base.qp_num,
		 strerror(-rc));
	/* The queue pair has failed. Requests that it did not take are flushed with the others. */
	rd_vb_conn_wc_failed(c, IBV_WC_WR_FLUSH_ERR);
	return NULL;
}

void rd_vb_give(struct rd_vb_conn *c, struct ibv_send_wr *chain, uint32_t n)
{
	struct ibv_send_wr *wr = chain;
	struct rd_vb_sigpipe sigpipe;

	for (uint32_t i = 0; i + 1 < n; i++)
		chain[i].next = &chain[i + 1];
	rd_vb_call_begin(c->dev->quirk, &sigpipe);
	while (wr) {
		struct ibv_send_wr *bad = NULL;
		int rc = rd_vb_err(ibv_post_send(c->qp, wr, &bad));

		wr = rc ? wr_refused(c, bad, rc) : NULL;
	}
	rd_vb_call_end(c->dev->quirk, &sigpipe);
}

/* ---- the batch ---- */

/*
 * With rd_fab_qp_attr.coalesce only the last signaled SEND or WRITE of a batch stays signaled:
 * fewer completions for the device and for this provider. The buffers of the others are released
 * soon, since the device has all of them.
 */
static void signal_last(struct rd_vb_conn *c, struct ibv_send_wr *wrs, uint32_t n)
{
	bool told = false;

	while (n-- > 0) {
		struct ibv_send_wr *wr = &wrs[n];
		struct rd_vb_wr *w = &c->sq.ring[wr->wr_id & RD_VB_INDEX_MASK];

		if (wr->opcode == IBV_WR_RDMA_READ || !w->signaled)
			continue;
		if (told) {
			w->signaled = false;
			w->quiet = c->dev->quirk->signal_writes && wr->opcode == IBV_WR_RDMA_WRITE;
			if (!w->quiet)
				wr->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
		}
		told = true;
	}
}

static void give_all(struct rd_vb_batch *b)
{
	struct rd_vb_conn *c = b->conn;
	uint32_t n = b->n;

	b->conn = NULL;
	b->n = 0;
	if (!n || c->stalled)
		return;
	if (c->coalesce)
		signal_last(c, b->wrs, n);
	c->fab->stats.batches++;
	rd_vb_give(c, b->wrs, n);
}

static void flush_batch(struct rd_defer *defer)
{
	give_all(rd_container_of(defer, struct rd_vb_batch, flush));
}

void rd_vb_batch_init(struct rd_vb_batch *b)
{
	b->flush.fn = flush_batch;
}

/* The scatter/gather list of the caller, and inline data, are valid only during its call. */
static void batch_copy(struct rd_vb_batch *b, const struct ibv_send_wr *wr, uint32_t total)
{
	struct ibv_send_wr *own = &b->wrs[b->n];
	struct ibv_sge *sge = b->sges[b->n];
	uint8_t *to = b->data[b->n];

	*own = *wr;
	own->sg_list = sge;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		memcpy(sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*sge));
		return;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	own->num_sge = wr->num_sge > 0;
	*sge = (struct ibv_sge){.addr = (uintptr_t)b->data[b->n], .length = total};
}

void rd_vb_batch_add(struct rd_vb_conn *c, struct ibv_send_wr *wr, uint32_t total)
{
	struct rd_vb_batch *b = &c->fab->batch;
	bool fits = (wr->send_flags & IBV_SEND_INLINE) ? total <= sizeof(b->data[0])
						       : wr->num_sge <= RD_VB_BATCH_SGES;

	if (b->conn != c || b->n == RD_VB_BATCH || !fits)
		give_all(b);
	if (!fits) {
		rd_vb_give(c, wr, 1);
		return;
	}
	b->conn = c;
	batch_copy(b, wr, total);
	b->n++;
	rd_defer(c->fab->base.loop, &b->flush, RD_DEFER_SEND);
}

void rd_vb_batch_give(struct rd_vb_conn *c)
{
	if (c->fab->batch.conn == c)
		give_all(&c->fab->batch);
}

void rd_vb_batch_drop(struct rd_vb_conn *c)
{
	struct rd_vb_batch *b = &c->fab->batch;

	if (b->conn != c)
		return;
	b->conn = NULL;
	b->n = 0;
}
