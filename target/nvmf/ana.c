/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric namespace access (ANA). A namespace is in one group; a listener has a state for
 * each group, set by the main thread. A controller has the states of the listener of its admin
 * queue.
 */
#include "ana.h"

#include <errno.h>
#include <string.h>

#include "util/sockaddr.h"
#include "nvmf/wire.h"
#include "ctrl.h"
#include "events.h"
#include "host_access.h"
#include "listener.h"
#include "ns.h"
#include "subsys.h"
#include "target.h"
#include "target/config/tgt_limits.h"

void rdt_ana_init(struct rdt_listener *l)
{
	for (unsigned int g = 0; g <= RDT_ANA_GROUPS; g++)
		atomic_store(&l->ana[g], NVME_ANA_STATE_OPTIMIZED);
	for (uint32_t i = 0; i < l->cfg->ana_count; i++)
		atomic_store(&l->ana[l->cfg->ana[i].group], (uint8_t)l->cfg->ana[i].state);
}

struct nvme_status rdt_ana_status(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns)
{
	/* Without DNR, so that the host tries another path. */
	switch (rdt_ana_state(ctrl, rdt_ns_ana_group(ns))) {
	case NVME_ANA_STATE_INACCESSIBLE:
		return nvme_status(NVME_SCT_PATH, NVME_SC_ANA_INACCESSIBLE);
	case NVME_ANA_STATE_PERSISTENT_LOSS:
		return nvme_status(NVME_SCT_PATH, NVME_SC_ANA_PERSISTENT_LOSS);
	case NVME_ANA_STATE_CHANGE:
		return nvme_status(NVME_SCT_PATH, NVME_SC_ANA_TRANSITION);
	default:
		return NVME_OK;
	}
}

/* ---- changes ---- */

static bool has_group(const struct rdt_subsys *ss, uint32_t group)
{
	const struct rdt_ns *ns;

	TAILQ_FOREACH (ns, &ss->namespaces, link)
		if (rdt_ns_ana_group(ns) == group)
			return true;
	return false;
}

/* Tells the controllers of @l, or all of them (NULL), that @group has another state. */
static void tell_ana_changed(struct rdt_target *t, const struct rdt_listener *l, uint32_t group)
{
	struct rdt_subsys *ss;
	struct rdt_ctrl *ctrl;
	unsigned int at = 0;

	while ((ss = rdt_subsys_next(t, &at))) {
		if (!has_group(ss, group))
			continue;
		pthread_mutex_lock(&ss->lock);
		if (!l) {
			atomic_fetch_add(&ss->ana_changes[group], 1);
			atomic_fetch_add(&ss->ana_changes[0], 1);
		}
		TAILQ_FOREACH (ctrl, &ss->ctrls, link)
			if (!l || ctrl->listener == l)
				rdt_event_post(ctrl, RDT_EV_ANA, 0);
		pthread_mutex_unlock(&ss->lock);
	}
}

void rdt_ana_standby(struct rdt_target *t, uint32_t group, bool standby)
{
	if (atomic_exchange(&t->ana_standby[group], standby) != standby)
		tell_ana_changed(t, NULL, group);
}

int rdt_ana_set(struct rdt_target *t, struct rdt_listener *l, uint32_t group,
		enum nvme_ana_state state)
{
	if (group < 1 || group > RDT_ANA_GROUPS)
		return -EINVAL;
	if (atomic_exchange(&l->ana[group], (uint8_t)state) == state)
		return 0;
	rdt_announce(t, "ana", "{s:s, s:i, s:i, s:s}", "address", l->cfg->address, "port",
		     (int)rd_addr_port((const struct sockaddr *)&l->addr), "group", (int)group,
		     "state", rdt_config_ana_name(state));
	atomic_fetch_add(&l->ana_changes[group], 1);
	atomic_fetch_add(&l->ana_changes[0], 1);
	tell_ana_changed(t, l, group);
	return 0;
}

void rdt_ana_move(struct rdt_ns *ns, uint32_t group)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	atomic_fetch_add(&ss->ana_changes[rdt_ns_ana_group(ns)], 1);
	atomic_fetch_add(&ss->ana_changes[group], 1);
	atomic_fetch_add(&ss->ana_changes[0], 1);
	atomic_store(&ns->marks->ana_group, (uint8_t)group);
	atomic_fetch_add(&ss->ana_moves, 1);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		rdt_event_post(ctrl, RDT_EV_ANA, 0);
	pthread_mutex_unlock(&ss->lock);
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
}
