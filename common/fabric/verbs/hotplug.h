/* SPDX-License-Identifier: BSD-3-Clause */
/* Removal of devices. hotplug.c. */
#ifndef RD_VB_HOTPLUG_H
#define RD_VB_HOTPLUG_H

#include <rdma/rdma_cma.h>
#include <sys/queue.h>

struct rd_vb_fab;
struct rd_vb_id;

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

#endif /* RD_VB_HOTPLUG_H */
