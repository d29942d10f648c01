/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive queues: the ring of posted RECVs, and those of a queue pair of its own. */
#ifndef RD_IW_RQ_H
#define RD_IW_RQ_H

#include "fabric/fabric.h"

struct rd_iw_rwr {
	uint64_t wr_id;
	uint32_t total; /* bytes */
	int num_sge;
	struct ibv_sge sge[];
};

struct rd_iw_rq {
	uint8_t *ring;
	size_t stride;
	uint32_t max_sge;
	uint32_t depth;
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
	uint32_t largest; /* bytes: the largest RECV that was ever posted */
};

static inline struct rd_iw_rwr *rd_iw_rq_at(const struct rd_iw_rq *rq, uint32_t i)
{
	return (struct rd_iw_rwr *)(void *)(rq->ring + (size_t)(i & rq->mask) * rq->stride);
}

int rd_iw_rq_init(struct rd_iw_rq *rq, uint32_t max_wr, uint32_t max_sge);
void rd_iw_rq_fini(struct rd_iw_rq *rq);
int rd_iw_rq_post(struct rd_iw_rq *rq, const struct ibv_recv_wr *wr);
/* The oldest entry, or NULL. Valid until the next post. */
const struct rd_iw_rwr *rd_iw_rq_pop(struct rd_iw_rq *rq);
static inline uint32_t rd_iw_rq_count(const struct rd_iw_rq *rq)
{
	return rq->tail - rq->head;
}

int rd_iw_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif /* RD_IW_RQ_H */
