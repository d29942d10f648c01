/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. */
#ifndef RD_IW_CQ_H
#define RD_IW_CQ_H

#include "fabric/fabric.h"
#include "fabric/wc_ring.h"
#include "util/loop.h"

struct rd_iw_cq {
	struct rd_fab_cq base;
	struct rd_defer notify;
	struct rd_wc_ring ring;
	uint32_t reserved; /* entries promised to queue pairs */
	bool armed;
	bool broken; /* a completion was lost for want of memory */
};

int rd_iw_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out);
void rd_iw_cq_destroy(struct rd_fab_cq *base);
int rd_iw_cq_poll(struct rd_fab_cq *base, int n, struct ibv_wc *wc);
int rd_iw_cq_arm(struct rd_fab_cq *base);
int rd_iw_cq_reserve(struct rd_iw_cq *cq, uint32_t n);
void rd_iw_cq_unreserve(struct rd_iw_cq *cq, uint32_t n);
void rd_iw_cq_wake(struct rd_iw_cq *cq);
void rd_iw_cq_purge(struct rd_iw_cq *cq, uint32_t qp_num, bool keep_recvs);

/* Cold path of rd_iw_cq_push(): grows the ring first. */
void rd_iw_cq_push_full(struct rd_iw_cq *cq, const struct rd_fab_conn *conn, uint64_t wr_id,
			enum ibv_wc_opcode opcode, enum ibv_wc_status status, uint32_t len,
			unsigned int flags, uint32_t inv);

/* Adds a completion. @inv: with IBV_WC_WITH_INV in @flags, the key that the SEND has invalidated.
 */
static inline void rd_iw_cq_push(struct rd_iw_cq *cq, const struct rd_fab_conn *conn,
				 uint64_t wr_id, enum ibv_wc_opcode opcode,
				 enum ibv_wc_status status, uint32_t len, unsigned int flags,
				 uint32_t inv)
{
	struct ibv_wc *wc;

	if (rd_wc_ring_full(&cq->ring)) {
		rd_iw_cq_push_full(cq, conn, wr_id, opcode, status, len, flags, inv);
		return;
	}
	wc = rd_wc_ring_add(&cq->ring);
	*wc = (struct ibv_wc){
		.wr_id = wr_id,
		.status = status,
		.opcode = opcode,
		.byte_len = len,
		.invalidated_rkey = inv,
		.qp_num = conn->qp_num,
		.wc_flags = flags,
	};
	if (cq->armed)
		rd_iw_cq_wake(cq);
}

/* Completes a RECV that no message has used. */
static inline void rd_iw_cq_push_flushed(struct rd_iw_cq *cq, const struct rd_fab_conn *conn,
					 uint64_t wr_id)
{
	rd_iw_cq_push(cq, conn, wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0, 0, 0);
}

#endif /* RD_IW_CQ_H */
