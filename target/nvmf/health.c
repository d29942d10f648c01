/* SPDX-License-Identifier: BSD-3-Clause */
#include "health.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "nvmf/wire.h"
#include "ctrl.h"
#include "events.h"
#include "host_access.h"
#include "ns.h"
#include "subsys.h"
#include "target/bdev/backend.h"

/* On the reactor whose I/O failed, once for each namespace. */
static void tell_sync_failed(void *arg)
{
	const struct rdt_ns *ns = arg;
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	/* Before the events are posted, because their handler reads it */
	atomic_store(&ss->sync_failed, true);
	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		if (!rdt_ns_visible(ctrl, ns))
			continue;
		rdt_event_error(ctrl, ns->nsid,
				nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_WRITE_FAULT));
		rdt_event_post(ctrl, RDT_EV_HEALTH, ns->nsid);
	}
	pthread_mutex_unlock(&ss->lock);
}

void rdt_health_watch(struct rdt_ns *ns)
{
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);

	base->on_sync_failed_arg = ns;
	base->on_sync_failed = tell_sync_failed;
}

uint8_t rdt_health_warning(const struct rdt_ctrl *ctrl)
{
	const struct rdt_subsys *ss = ctrl->subsys;
	bool failed = false, all = true;
	const struct rdt_ns *ns;

	if (!atomic_load(&ss->sync_failed))
		return 0;
	for (ns = rdt_ns_next(ctrl->owner, ss, 0); ns;
	     ns = rdt_ns_next(ctrl->owner, ss, ns->nsid)) {
		bool bad = atomic_load(&rdt_bdev_base(ns->bdev)->sync_err) != 0;

		if (!rdt_ns_visible(ctrl, ns))
			continue;
		failed |= bad;
		all &= bad;
	}
	if (!failed)
		return 0;
	return NVME_SMART_CRIT_DEGRADED | (all ? NVME_SMART_CRIT_MEDIA : 0);
}
