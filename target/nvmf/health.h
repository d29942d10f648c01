/* SPDX-License-Identifier: BSD-3-Clause */
/* SMART log and events for namespaces whose storage has lost data, or may have (enum rdt_fault). */
#ifndef RDT_HEALTH_H
#define RDT_HEALTH_H

#include <stdint.h>

struct rdt_ctrl;
struct rdt_ns;

/* From now on such a failure of @ns is reported to each controller that sees @ns. Called before a
 * channel is opened. */
void rdt_health_watch(struct rdt_ns *ns);

/*
 * The Critical Warning field of the SMART log of @ctrl (enum nvme_smart_crit). "Reliability
 * degraded": the storage of a namespace that @ctrl sees has failed so. "Media read only": that is
 * so for all of them. A reopened namespace is a new object, without the warning. On the
 * controller's owner.
 */
uint8_t rdt_health_warning(const struct rdt_ctrl *ctrl);

#endif /* RDT_HEALTH_H */
