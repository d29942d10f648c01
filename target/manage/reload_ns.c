/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of a namespace that change while hosts use it, without opening its storage again. */
#include "reload.h"

#include "util/log.h"
#include "opening.h"
#include "target/bdev/backend.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/events.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

/* What was opened for writing can be protected, and unprotected again. An image of Ceph has a lock
 * that depends on it. */
bool rdt_reload_can_protect(const struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	return next->read_only == ns->now->read_only ||
	       (!ns->bdev->read_only && next->backend != RDT_BACKEND_RBD);
}

int rdt_reload_ns_protect(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
			  const struct rdt_ns_config *next)
{
	if (atomic_exchange(&ns->read_only, next->read_only) == next->read_only)
		return 0;
	rd_notice(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s", ns->subsys->nqn,
		  ns->nsid, next->read_only ? "read-only now" : "writable now");
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	return 1;
}

int rdt_reload_ns_ana(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next)
{
	if (rdt_ns_ana_group(ns) == next->ana_group)
		return 0;
	rdt_ana_move(ns, next->ana_group);
	if (rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev))) /* this looks at all namespaces */
		rdt_opening_standby(ns->subsys->target);
	return 1;
}
