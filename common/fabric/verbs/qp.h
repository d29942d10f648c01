/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: posted work requests and their completions. qp.c. */
#ifndef RD_VB_QP_H
#define RD_VB_QP_H

#include "fabric/fabric.h"

struct rd_vb_conn;
struct rd_vb_cq;
struct rd_vb_dev;

/* wr_id as given to the device: kind, generation, slot, index in the queue. */
enum rd_vb_wr_kind { RD_VB_WR_SEND, RD_VB_WR_RECV, RD_VB_WR_SRQ };

#define RD_VB_GEN_BITS   22
#define RD_VB_SLOT_BITS  20
#define RD_VB_INDEX_BITS 20
#define RD_VB_GEN_MASK   ((1u << RD_VB_GEN_BITS) - 1)
#define RD_VB_SLOT_MASK  ((1u << RD_VB_SLOT_BITS) - 1)
#define RD_VB_INDEX_MASK ((1u << RD_VB_INDEX_BITS) - 1)

static inline uint64_t rd_vb_wr_id(enum rd_vb_wr_kind kind, uint32_t gen, uint32_t slot,
				   uint32_t index)
{
	return (uint64_t)kind << 62 |
	       (uint64_t)(gen & RD_VB_GEN_MASK) << (RD_VB_SLOT_BITS + RD_VB_INDEX_BITS) |
	       (uint64_t)slot << RD_VB_INDEX_BITS | index;
}

/*
 * A work request that has not completed to the user. Some drivers complete work requests behind a
 * READ before the READ; the interface promises posting order, so a completion waits here for older
 * ones.
 */
struct rd_vb_wr {
	uint64_t wr_id; /* wr_id of the user */
	uint32_t len;
	uint8_t opcode; /* enum ibv_wc_opcode */
	uint8_t status; /* with done: enum ibv_wc_status */
	bool signaled;  /* has a completion of its own */
	bool with_inv;  /* a SEND with Invalidate */
	bool hidden;    /* not the user's: its completion is dropped */
	bool quiet;     /* signaled for the driver only: its success is dropped */
	bool done;      /* completed by the device */
};

/* The work requests of a send or receive queue, in posting order. */
struct rd_vb_wq {
	struct rd_vb_wr *ring;
	uint32_t depth;
	uint32_t mask;
	uint32_t head; /* the oldest one that has not completed */
	uint32_t tail;
	uint32_t known; /* one past the newest one that the device has completed with success */
};

/*
 * Handles a completion of the device: adds it, and those that waited for it, to the ring of @cq in
 * posting order.
 */
void rd_vb_wc_done(struct rd_vb_dev *dev, struct rd_vb_cq *cq, struct ibv_wc *wc);

int rd_vb_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr);
int rd_vb_post_send(struct rd_fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rd_vb_post_recv(struct rd_fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Moves the queue pair to RTS, with the depths in conn->base. Returns 0 or -errno. */
int rd_vb_qp_connect(struct rd_vb_conn *c);
/*
 * Posts an empty READ or WRITE whose completion the user does not see, in the entry that
 * quirk->hidden_wrs keeps. No-op while the one before has not completed.
 */
void rd_vb_post_hidden(struct rd_vb_conn *c, enum ibv_wr_opcode opcode);
/* Work requests of the user that have not completed. */
uint32_t rd_vb_sends_out(const struct rd_vb_conn *c);
/*
 * Destroys the queue pair and completes everything that was posted. The queues stay for WRs that
 * are posted later.
 */
void rd_vb_qp_down(struct rd_vb_conn *c);
/* Frees the queues and gives back the room in the CQs. */
void rd_vb_qp_free(struct rd_vb_conn *c);

#endif /* RD_VB_QP_H */
