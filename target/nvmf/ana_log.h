/* SPDX-License-Identifier: BSD-3-Clause */
/* The ANA log page (0Ch). */
#ifndef RDT_ANA_LOG_H
#define RDT_ANA_LOG_H

#include <stdint.h>

#include "target/config/tgt_limits.h"

struct rdt_log_out;
struct rdt_req;
struct rdt_subsys;

struct rdt_ana_ns {
	uint32_t nsid;
	uint32_t slot;
};

/* The namespaces of a subsystem on one reactor, sorted by group, then NSID. Used on that reactor
 * only. */
struct rdt_ana_order {
	struct rdt_ana_ns *ns;              /* NULL: not ordered yet */
	uint64_t moves;                     /* subsys->ana_moves at the time of sorting */
	uint64_t changes;                   /* reactor->ns_changes at that time */
	uint32_t start[RDT_ANA_GROUPS + 2]; /* index of the first one of each group */
};

int rdt_ana_order_init(struct rdt_subsys *ss); /* 0 or -ENOMEM */
void rdt_ana_order_fini(struct rdt_subsys *ss);
/* Write the requested part of the page to @out. Returns 0, or -ENOMEM without writing anything. On
 * the reactor of @req. */
int rdt_ana_log(const struct rdt_req *req, const struct rdt_log_out *out);

#endif /* RDT_ANA_LOG_H */
