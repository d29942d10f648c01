/* SPDX-License-Identifier: BSD-3-Clause */
/* What hosts are told of a namespace whose sync has failed (rdt_bdev_sync_failed()). */
#ifndef RDT_HEALTH_H
#define RDT_HEALTH_H

#include <stdint.h>

struct rdt_ctrl;
struct rdt_ns;

/* When a sync of @ns fails, tell each controller that sees it. Before any channel is opened. */
void rdt_health_watch(struct rdt_ns *ns);

/*
 * The Critical Warning field of the SMART log as @ctrl shows it now (enum nvme_smart_crit): the
 * reliability is degraded while a sync of a namespace that it sees has failed; the media is read
 * only while that is so for all of them. A namespace that is opened again is a new one, so that its
 * warning ends. On the controller's owner.
 */
uint8_t rdt_health_warning(const struct rdt_ctrl *ctrl);

#endif /* RDT_HEALTH_H */
