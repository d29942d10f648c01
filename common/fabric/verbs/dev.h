/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and their memory regions. dev.c. */
#ifndef RD_VB_DEV_H
#define RD_VB_DEV_H

#include <rdma/rdma_cma.h>
#include <sys/queue.h>

#include "fabric/fabric.h"
#include "util/loop.h"

#include "quirk.h"

struct rd_vb_fab;
struct rd_vb_id;

/* An entry of the table that a completion's wr_id refers to. */
struct rd_vb_slot {
	uint32_t gen; /* generation: completions of an earlier one are dropped */
	uint32_t next_free;
	void *obj; /* struct rd_vb_conn, or struct rd_vb_srq */
};

#define RD_VB_QPN_BUCKETS 256

struct rd_vb_dev {
	struct rd_fab_dev base;
	struct rd_vb_fab *fab;
	LIST_ENTRY(rd_vb_dev) link;
	struct ibv_context *ctx; /* NULL after the removal of the device */
	struct ibv_device *ibdev;
	struct ibv_pd *pd;
	const struct rd_vb_quirk *quirk; /* never NULL once the device is open */
	struct ibv_cq *quirk_cq;         /* used by quirk->open() */
	struct rd_io async;
	uint8_t port;
	bool iwarp;
	bool inv_worked; /* a SEND with Invalidate has completed with success */
	bool inv_broken; /* SEND with Invalidate has failed: plain SENDs are used instead */
	bool memlock_said;
	uint32_t max_cqe;
	struct rd_vb_slot *slots;
	uint32_t nslots;
	uint32_t free_slot; /* 0: none; slot 0 is never used */
	LIST_HEAD(, rd_vb_conn)
	by_qpn[RD_VB_QPN_BUCKETS]; /* hashed by the device's queue pair number */
	LIST_HEAD(, rd_vb_cq) cqs;
	LIST_HEAD(, rd_vb_srq) srqs;
	LIST_HEAD(, rd_vb_mr) mrs;
	char name[64];
};

struct rd_vb_mr {
	struct rd_fab_mr base;
	LIST_ENTRY(rd_vb_mr) link;
	struct ibv_mr *mr; /* NULL once the device was removed */
};

struct rd_vb_dev *rd_vb_dev(struct rd_fab_dev *dev);
/*
 * Returns "iwarp", "roce" or "ib" for the device of @cm, or NULL if @cm is not bound to a device.
 */
const char *rd_vb_prtype(const struct rdma_cm_id *cm);
/* Finds or creates the device object for the device of @id. Returns 0 or -errno. */
int rd_vb_dev_get(struct rd_vb_fab *fab, struct rd_vb_id *id, struct rd_vb_dev **out);
/*
 * The device was removed: ends its connections and closes all kernel objects. The objects of the
 * interface stay until their users destroy them.
 */
void rd_vb_dev_removed(struct rd_vb_dev *dev);
void rd_vb_dev_free(struct rd_vb_dev *dev);
int rd_vb_slot_get(struct rd_vb_dev *dev, void *obj, uint32_t *slot);
void rd_vb_slot_put(struct rd_vb_dev *dev, uint32_t slot);
int rd_vb_reg_mr(struct rd_fab_dev *dev, void *addr, size_t len, int access,
		 struct rd_fab_mr **out);
void rd_vb_dereg_mr(struct rd_fab_mr *mr);

/* Removal of devices. hotplug.c. */

struct rd_vb_anchor {
	LIST_ENTRY(rd_vb_anchor) link;
	struct rd_vb_id *id; /* bound to the device */
};

void rd_vb_hotplug_start(struct rd_vb_fab *fab);
void rd_vb_hotplug_stop(struct rd_vb_fab *fab);
/* Creates an anchor for the device of @cm, if there is none and @cm has a device. */
void rd_vb_meet(struct rd_vb_fab *fab, struct rdma_cm_id *cm);
/*
 * The device was removed and its kernel objects are closed: makes librdmacm close its files too,
 * and frees the anchor.
 */
void rd_vb_forget(struct rd_vb_fab *fab, const struct ibv_device *ibdev);
/* The device of @anchor was removed. Frees @anchor. */
void rd_vb_anchor_lost(struct rd_vb_fab *fab, struct rd_vb_anchor *anchor);

#endif /* RD_VB_DEV_H */
