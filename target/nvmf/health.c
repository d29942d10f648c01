/* SPDX-License-Identifier: BSD-3-Clause */
#include "health.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "nvmf/wire.h"
#include "admin_turn.h"
#include "ctrl.h"
#include "events.h"
#include "host_access.h"
#include "ns.h"
#include "reactor.h"
#include "target/nvmf/base/slots.h"
#include "subsys.h"
#include "target.h"
#include "target/bdev/backend.h"

/* On the thread that noticed it, once for each kind of failure of a namespace. */
static void tell_fault(void *arg)
{
	const struct rdt_ns *ns = arg;
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	/* Before the events are posted, because their handler reads it */
	atomic_store(&ns->marks->faulty, true);
	atomic_store(&ss->faulty, true);
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

	snprintf(base->owner, sizeof(base->owner), "%s namespace %u: ", ns->subsys->nqn, ns->nsid);
	base->on_fault_arg = ns;
	base->on_fault = tell_fault;
}

uint8_t rdt_health_warning(const struct rdt_ctrl *ctrl)
{
	const struct rdt_subsys *ss = ctrl->subsys;
	const struct rdt_ns_marks *marks = ss->target->ns_marks;
	const struct rdt_ns_place *end, *place;
	bool failed = false, all = true;

	if (!atomic_load(&ss->faulty))
		return 0;
	place = rdt_ns_places(ctrl->owner, ss, 0, &end);
	if (ctrl->admin)
		rdt_admin_charge(ctrl->admin, (size_t)(end - place) * RDT_ADMIN_LOOK);
	for (; place < end; place++) {
		bool bad = atomic_load_explicit(&marks[place->slot].faulty, memory_order_relaxed);

		if (rdt_slots_has(&ctrl->hidden, place->slot))
			continue;
		failed |= bad;
		all &= bad;
	}
	if (!failed)
		return 0;
	return NVME_SMART_CRIT_DEGRADED | (all ? NVME_SMART_CRIT_MEDIA : 0);
}
