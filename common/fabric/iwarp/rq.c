/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive queues: the ring of posted RECVs, and the one that belongs to a queue pair. */
#include <errno.h>
#include <stdlib.h>

#include "caps.h"
#include "conn.h"
#include "copy.h"

int rd_iw_rq_init(struct rd_iw_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	uint32_t size = 1;

	while (size < max_wr)
		size *= 2;
	rq->stride = sizeof(struct rd_iw_rwr) + max_sge * sizeof(struct ibv_sge);
	rq->ring = calloc(size, rq->stride);
	if (!rq->ring)
		return -ENOMEM;
	rq->mask = size - 1;
	rq->depth = max_wr;
	rq->max_sge = max_sge;
	return 0;
}

void rd_iw_rq_fini(struct rd_iw_rq *rq)
{
	free(rq->ring);
	rq->ring = NULL;
}

/* Copies the scatter/gather list of @wr to @sge; *@total: its bytes. Returns 0 or -EINVAL. */
static int take_sges(const struct ibv_recv_wr *wr, uint32_t max_sge, struct ibv_sge *sge,
		     uint32_t *total)
{
	uint64_t sum = 0;

	if ((uint32_t)wr->num_sge > max_sge) /* negative numbers included */
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++) {
		rd_iw_copy_sge(&sge[i], &wr->sg_list[i]);
		sum += wr->sg_list[i].length;
	}
	if (sum > RD_IW_MAX_MSG)
		return -EINVAL;
	*total = (uint32_t)sum;
	return 0;
}

int rd_iw_rq_post(struct rd_iw_rq *rq, const struct ibv_recv_wr *wr)
{
	struct rd_iw_rwr *r;
	int rc;

	if (rd_iw_rq_count(rq) >= rq->depth)
		return -ENOMEM;
	r = rd_iw_rq_at(rq, rq->tail);
	rc = take_sges(wr, rq->max_sge, r->sge, &r->total);
	if (rc)
		return rc;
	r->wr_id = wr->wr_id;
	r->num_sge = wr->num_sge;
	if (r->total > rq->largest)
		rq->largest = r->total;
	rq->tail++;
	return 0;
}

const struct rd_iw_rwr *rd_iw_rq_pop(struct rd_iw_rq *rq)
{
	if (rq->head == rq->tail)
		return NULL;
	return rd_iw_rq_at(rq, rq->head++);
}

/* Posts after the end of the connection: completes as flushed. */
static int post_recv_closed(struct rd_iw_conn *c, const struct ibv_recv_wr *wr)
{
	struct ibv_sge sge[RD_IW_MAX_SGE];
	uint32_t total;
	int rc = take_sges(wr, c->rq.max_sge, sge, &total);

	if (rc == 0)
		rd_iw_cq_push_flushed(c->rcq, &c->base, wr->wr_id);
	return rc;
}

int rd_iw_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	int rc = c->has_qp && !c->srq ? 0 : -EINVAL;

	for (; wr && !rc; wr = rc ? wr : wr->next)
		rc = c->state == RD_IW_CLOSED ? post_recv_closed(c, wr) : rd_iw_rq_post(&c->rq, wr);
	if (rc && bad)
		*bad = wr;
	return rc;
}
