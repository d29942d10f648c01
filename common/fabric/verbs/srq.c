/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. Their RECVs complete in any order: a stack has the free numbers. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"

static struct rd_vb_srq *to_vb_srq(struct rd_fab_srq *srq)
{
	return rd_container_of(srq, struct rd_vb_srq, base);
}

static void srq_free(struct rd_vb_srq *srq)
{
	free(srq->wr_ids);
	free(srq->free);
	free(srq);
}

static int srq_open(struct rd_vb_srq *srq)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = srq,
		.attr = {.max_wr = srq->depth, .max_sge = srq->max_sge},
	};
	int rc;

	srq->wr_ids = calloc(srq->depth, sizeof(*srq->wr_ids));
	srq->free = calloc(srq->depth, sizeof(*srq->free));
	if (!srq->wr_ids || !srq->free)
		return -ENOMEM;
	for (uint32_t i = 0; i < srq->depth; i++)
		srq->free[srq->nfree++] = srq->depth - 1 - i;
	rc = rd_vb_slot_get(srq->dev, srq, &srq->slot);
	if (rc)
		return rc;
	errno = 0;
	srq->hw = ibv_create_srq(srq->dev->pd, &attr);
	if (srq->hw)
		return 0;
	rc = rd_vb_errno();
	rd_vb_slot_put(srq->dev, srq->slot);
	return rc;
}

int rd_vb_srq_create(struct rd_fab_dev *base, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out)
{
	struct rd_vb_dev *dev = rd_vb_dev(base);
	struct rd_vb_srq *srq;
	int rc;

	if (!dev->ctx)
		return -ENODEV;
	if (!max_wr || max_wr > base->caps.max_srq_wr || max_sge > base->caps.max_recv_sge)
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->base.dev = base;
	srq->dev = dev;
	srq->depth = max_wr;
	srq->max_sge = max_sge;
	rc = srq_open(srq);
	if (rc) {
		srq_free(srq);
		return rc;
	}
	LIST_INSERT_HEAD(&dev->srqs, srq, link);
	dev->fab->stats.srqs++;
	*out = &srq->base;
	return 0;
}

void rd_vb_srq_removed(struct rd_vb_srq *srq)
{
	int rc = srq->hw ? rd_vb_err(ibv_destroy_srq(srq->hw)) : 0;

	if (rc)
		rd_err(rd_vb_log(srq->dev->fab), RD_LOG_FABRIC,
		       "%s: a shared receive queue cannot be destroyed: %s", srq->dev->name,
		       strerror(-rc));
	srq->hw = NULL;
}

void rd_vb_srq_destroy(struct rd_fab_srq *base)
{
	struct rd_vb_srq *srq = to_vb_srq(base);

	rd_vb_srq_removed(srq);
	rd_vb_slot_put(srq->dev, srq->slot);
	LIST_REMOVE(srq, link);
	srq->dev->fab->stats.srqs--;
	srq_free(srq);
}

bool rd_vb_srq_done(struct rd_vb_srq *srq, uint32_t index, struct ibv_wc *wc)
{
	if (index >= srq->depth || srq->nfree == srq->depth)
		return false;
	wc->wr_id = srq->wr_ids[index];
	srq->free[srq->nfree++] = index;
	return true;
}

static int post_one_srq_recv(struct rd_vb_srq *srq, const struct ibv_recv_wr *user)
{
	struct ibv_recv_wr wr = *user, *bad;
	uint32_t index;
	int rc;

	if (wr.num_sge < 0 || (uint32_t)wr.num_sge > srq->max_sge)
		return -EINVAL;
	if (!srq->nfree)
		return -ENOMEM;
	if (!srq->hw)
		return -ENODEV;
	index = srq->free[srq->nfree - 1];
	wr.next = NULL;
	wr.wr_id = rd_vb_wr_id(RD_VB_WR_SRQ, srq->dev->slots[srq->slot].gen, srq->slot, index);
	rc = rd_vb_err(ibv_post_srq_recv(srq->hw, &wr, &bad));
	if (rc)
		return rc;
	srq->nfree--;
	srq->wr_ids[index] = user->wr_id;
	return 0;
}

int rd_vb_post_srq_recv(struct rd_fab_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_vb_srq *srq = to_vb_srq(base);

	for (; wr; wr = wr->next) {
		int rc = post_one_srq_recv(srq, wr);

		if (rc) {
			if (bad)
				*bad = wr;
			return rc;
		}
	}
	return 0;
}
