/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests of one turn on their way to the device. batch.c. */
#ifndef RD_VB_BATCH_H
#define RD_VB_BATCH_H

#include "fabric/fabric.h"
#include "util/loop.h"

struct rd_vb_conn;

#define RD_VB_BATCH        64
#define RD_VB_BATCH_SGES   4  /* entries of one WR; larger WRs are given to the device at once */
#define RD_VB_BATCH_INLINE 64 /* inline bytes of one WR; likewise */

struct rd_vb_batch {
	struct rd_vb_conn *conn; /* the connection of all WRs in the batch, or NULL */
	uint32_t n;
	struct rd_defer flush;
	struct ibv_send_wr wrs[RD_VB_BATCH];
	struct ibv_sge sges[RD_VB_BATCH][RD_VB_BATCH_SGES];
	uint8_t data[RD_VB_BATCH][RD_VB_BATCH_INLINE];
};

void rd_vb_batch_init(struct rd_vb_batch *b);
/*
 * Adds @wr, which is recorded in c->sq. It is given to the device in the SEND phase of this
 * iteration at the latest. @total: its bytes.
 */
void rd_vb_batch_add(struct rd_vb_conn *c, struct ibv_send_wr *wr, uint32_t total);
void rd_vb_batch_give(struct rd_vb_conn *c); /* gives what the batch has of @c to the device now */
void rd_vb_batch_drop(
	struct rd_vb_conn *c); /* drops what the batch has of @c: it has no queue pair any more */
/*
 * Chains @n requests and gives them to the device. If the device refuses one the connection ends.
 */
void rd_vb_give(struct rd_vb_conn *c, struct ibv_send_wr *chain, uint32_t n);

#endif /* RD_VB_BATCH_H */
