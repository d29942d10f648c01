/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. srq.c. */
#ifndef RD_VB_SRQ_H
#define RD_VB_SRQ_H

#include <stdbool.h>
#include <sys/queue.h>

#include "fabric/fabric.h"

struct rd_vb_cq;
struct rd_vb_dev;

struct rd_vb_srq {
	struct rd_fab_srq base;
	struct rd_vb_dev *dev;
	LIST_ENTRY(rd_vb_srq) link;
	struct ibv_srq *hw;
	uint64_t *wr_ids; /* by index */
	uint32_t *free;   /* stack of indices */
	uint32_t nfree;
	uint32_t depth;
	uint32_t max_sge;
	uint32_t slot;
	struct rd_vb_cq *counted; /* the CQ in which room for all RECVs is reserved, in the segments
				     of this bit mask */
	uint32_t counted_segs;
};

int rd_vb_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out);
void rd_vb_srq_destroy(struct rd_fab_srq *srq);
int rd_vb_post_srq_recv(struct rd_fab_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void rd_vb_srq_removed(struct rd_vb_srq *srq);
/* RECV @index has completed: sets wc->wr_id to the user's. False: there is no such RECV. */
bool rd_vb_srq_done(struct rd_vb_srq *srq, uint32_t index, struct ibv_wc *wc);

#endif /* RD_VB_SRQ_H */
