/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. cq.c. */
#ifndef RD_VB_CQ_H
#define RD_VB_CQ_H

#include <sys/queue.h>

#include "fabric/fabric.h"
#include "fabric/wc_ring.h"
#include "util/loop.h"

struct rd_vb_dev;
struct rd_vb_cq;

/*
 * A CQ of the device. A CQ of the interface consists of several after it has grown: no iWARP device
 * can resize a CQ, but every device can create another one.
 */
struct rd_vb_seg {
	struct rd_vb_cq *cq;
	struct ibv_cq *hw;
	uint32_t size;
	uint32_t reserved; /* entries reserved by queue pairs */
	uint32_t unacked; /* events read and not acknowledged yet: acknowledging takes a lock, so it
			     is done for many at once */
	bool armed;       /* a notification has been requested from the device */
};

#define RD_VB_SEGS 16

struct rd_vb_cq {
	struct rd_fab_cq base;
	struct rd_vb_dev *dev;
	LIST_ENTRY(rd_vb_cq) link;
	struct ibv_comp_channel *ch;
	struct rd_io io;
	struct rd_poller poller;
	struct rd_defer notify;
	struct rd_defer turn;
	struct rd_vb_seg *segs[RD_VB_SEGS];
	uint32_t nsegs;
	/*
	 * Completions that were taken from the device, or made by this provider, and not polled
	 * yet.
	 */
	struct rd_wc_ring ring;
	bool armed; /* the user has requested a notification */
	bool broken;
};

int rd_vb_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out);
void rd_vb_cq_destroy(struct rd_fab_cq *cq);
int rd_vb_cq_poll(struct rd_fab_cq *cq, int n, struct ibv_wc *wc);
int rd_vb_cq_arm(struct rd_fab_cq *cq);
struct rd_vb_cq *rd_vb_cq(struct rd_fab_cq *cq);
/* Reserves @n entries in one segment. Returns 0, -ENOSPC or -ENOMEM. */
int rd_vb_cq_reserve(struct rd_vb_cq *cq, uint32_t n, struct rd_vb_seg **out);
/*
 * Adds a completion. @wake: notify the user; a caller that takes completions from the device does
 * so at the end.
 */
void rd_vb_cq_push(struct rd_vb_cq *cq, const struct ibv_wc *wc, bool wake);
/* Takes all completions that the device has at the time of the call. */
void rd_vb_cq_sweep(struct rd_vb_cq *cq);
/* Drops the completions of the connection with this qp_num (of the interface). */
void rd_vb_cq_purge(struct rd_vb_cq *cq, uint32_t qp_num);
void rd_vb_cq_removed(struct rd_vb_cq *cq);
void rd_vb_cq_failed(struct rd_vb_cq *cq);

#endif /* RD_VB_CQ_H */
