/* SPDX-License-Identifier: BSD-3-Clause */
/* Send queues. */
#ifndef RD_IW_SQ_H
#define RD_IW_SQ_H

#include "fabric/fabric.h"

struct rd_iw_conn;

enum rd_iw_swr_state {
	RD_IW_SWR_QUEUED, /* not sent completely; moved on by the transmit path */
	RD_IW_SWR_WAIT,   /* a READ that has been sent; moved on by its response */
	RD_IW_SWR_DONE,   /* completes when all older ones have: completions come in order */
};

struct rd_iw_swr {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey; /* of the peer's memory; SEND with Invalidate: the key to invalidate */
	uint32_t total;
	uint32_t flags; /* IBV_SEND_* */
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t state;  /* enum rd_iw_swr_state */
	int16_t num_sge;
	union {
		struct ibv_sge sge[0];
		uint8_t data[0]; /* with IBV_SEND_INLINE */
	};
};

struct rd_iw_sq {
	uint8_t *ring;
	size_t stride;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t depth;
	uint32_t mask;
	uint32_t head; /* oldest not completed */
	uint32_t tail;
	uint32_t read; /* no READ before this index waits for its response; never below head */
	uint32_t base; /* index of the ring's first slot; changes only while the queue is empty */
	bool coalesce; /* rd_fab_qp_attr.coalesce */
};

static inline struct rd_iw_swr *rd_iw_sq_at(const struct rd_iw_sq *sq, uint32_t i)
{
	return (struct rd_iw_swr *)(void *)(sq->ring +
					    (size_t)((i - sq->base) & sq->mask) * sq->stride);
}

int rd_iw_sq_init(struct rd_iw_sq *sq, const struct rd_fab_qp_attr *attr);
void rd_iw_sq_fini(struct rd_iw_sq *sq);
int rd_iw_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Completes the work requests that are done, in posting order. */
void rd_iw_sq_reap(struct rd_iw_conn *c);
/* @n work requests from index @first on, none of them a READ, have been sent completely. */
void rd_iw_sq_done(struct rd_iw_conn *c, uint32_t first, uint32_t n);
/* Completes all work requests: @bad (may be NULL) with @status, the others as flushed. */
void rd_iw_sq_flush(struct rd_iw_conn *c, const struct rd_iw_swr *bad, enum ibv_wc_status status);
/* Returns the oldest READ that waits for its response, or NULL. */
struct rd_iw_swr *rd_iw_sq_reading(struct rd_iw_conn *c);

#endif /* RD_IW_SQ_H */
