/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: a ring that grows when queue pairs attach, up to READY_MAX entries. Beyond
 * that it grows when it is full. That is rare: what completes at one time must have been posted
 * first, which needs more memory than the entries here.
 */
#include <errno.h>
#include <stdlib.h>

#include "cq.h"
#include "fab.h"

/* Entries that are allocated when queue pairs attach, at most; 48 MiB once they are used. */
#define READY_MAX (1u << 20)

static struct rd_iw_cq *to_cq(struct rd_fab_cq *cq)
{
	return rd_container_of(cq, struct rd_iw_cq, base);
}

static void iw_cq_notify(struct rd_defer *defer)
{
	struct rd_iw_cq *cq = rd_container_of(defer, struct rd_iw_cq, notify);

	cq->base.fn(&cq->base, cq->base.arg); /* may destroy the CQ */
}

int rd_iw_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out)
{
	struct rd_iw_cq *cq = calloc(1, sizeof(*cq));
	int rc;

	if (!cq)
		return -ENOMEM;
	rc = rd_wc_ring_grow(&cq->ring, depth);
	if (rc) {
		free(cq);
		return rc;
	}
	cq->base.dev = dev;
	cq->base.fn = fn;
	cq->base.arg = arg;
	cq->notify.fn = iw_cq_notify;
	rd_iw_dev_stats(rd_iw_dev(dev))->cqs++;
	*out = &cq->base;
	return 0;
}

void rd_iw_cq_destroy(struct rd_fab_cq *base)
{
	struct rd_iw_cq *cq = to_cq(base);

	rd_defer_cancel(base->dev->fab->loop, &cq->notify);
	rd_iw_dev_stats(rd_iw_dev(base->dev))->cqs--;
	rd_wc_ring_free(&cq->ring);
	free(cq);
}

int rd_iw_cq_poll(struct rd_fab_cq *base, int n, struct ibv_wc *wc)
{
	struct rd_iw_cq *cq = to_cq(base);
	int i = rd_wc_ring_take(&cq->ring, n, wc);

	if (i == 0 && cq->broken)
		return -EOVERFLOW;
	return i;
}

int rd_iw_cq_arm(struct rd_fab_cq *base)
{
	struct rd_iw_cq *cq = to_cq(base);

	cq->armed = true;
	return 0;
}

int rd_iw_cq_reserve(struct rd_iw_cq *cq, uint32_t n)
{
	uint32_t want = cq->reserved + n;
	int rc;

	if (n > RD_WC_RING_MAX - cq->reserved)
		return -ENOSPC;
	rc = rd_wc_ring_grow(&cq->ring, want < READY_MAX ? want : READY_MAX);
	if (rc == 0)
		cq->reserved += n;
	return rc;
}

void rd_iw_cq_unreserve(struct rd_iw_cq *cq, uint32_t n)
{
	cq->reserved -= n;
}

void rd_iw_cq_wake(struct rd_iw_cq *cq)
{
	cq->armed = false;
	if (cq->base.fn)
		rd_defer(cq->base.dev->fab->loop, &cq->notify, RD_DEFER_WORK);
}

void rd_iw_cq_push_full(struct rd_iw_cq *cq, const struct rd_fab_conn *conn, uint64_t wr_id,
			enum ibv_wc_opcode opcode, enum ibv_wc_status status, uint32_t len,
			unsigned int flags, uint32_t inv)
{
	/*
	 * Up to READY_MAX there is room for all that queue pairs can post. RECVs of a shared queue,
	 * and WRs posted after the end of a connection, may need more.
	 */
	if (rd_wc_ring_grow(&cq->ring, cq->ring.size + 1))
		cq->broken = true;
	else
		rd_iw_cq_push(cq, conn, wr_id, opcode, status, len, flags, inv);
}

void rd_iw_cq_purge(struct rd_iw_cq *cq, uint32_t qp_num, bool keep_recvs)
{
	rd_wc_ring_purge(&cq->ring, qp_num, keep_recvs);
}
