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
#include "log_out.h"
#include "ns.h"
#include "request.h"
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
	struct rdt_ctrl *ctrl;

	for (unsigned int i = 0; i < t->subsys_count; i++) {
		struct rdt_subsys *ss = t->subsys[i];

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
	atomic_store(&ns->ana_group, group);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		rdt_event_post(ctrl, RDT_EV_ANA, 0);
	pthread_mutex_unlock(&ss->lock);
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
}

/* ---- the log page ---- */

/* A change count of 0 would mean that changes are not counted. */
static __le64 ana_change_count(const struct rdt_ctrl *ctrl, unsigned int group)
{
	uint64_t n = atomic_load(&ctrl->subsys->ana_changes[group]) + 1;

	if (ctrl->listener)
		n += atomic_load(&ctrl->listener->ana_changes[group]);
	return htole64(n);
}

static bool groups_only(const struct rdt_req *req)
{
	return le32toh(req->sqe.cdw10) >> 8 & NVME_LOG_ANA_LSP_RGO_GROUPS_ONLY;
}

/* Count the namespaces of each group that the host sees. */
static void count_groups(const struct rdt_req *req, uint32_t counts[RDT_ANA_GROUPS + 1])
{
	const struct rdt_ns *ns = rdt_ns_seen_next(req, 0);

	for (; ns; ns = rdt_ns_seen_next(req, ns->nsid))
		counts[rdt_ns_ana_group(ns)]++;
}

/* Put the NSIDs of each group, from position places[group] on. */
static void put_nsids(const struct rdt_req *req, uint64_t places[RDT_ANA_GROUPS + 1],
		      const struct rdt_log_out *out)
{
	const struct rdt_ns *ns = rdt_ns_seen_next(req, 0);

	for (; ns; ns = rdt_ns_seen_next(req, ns->nsid)) {
		__le32 nsid = htole32(ns->nsid);

		rdt_log_put(out, places[rdt_ns_ana_group(ns)], &nsid, sizeof(nsid));
		places[rdt_ns_ana_group(ns)] += sizeof(nsid);
	}
}

/* Put the page to @out. subsys->lock is held: namespaces stay in their groups. */
static void put_ana_groups(const struct rdt_req *req, const struct rdt_log_out *out)
{
	struct nvme_ana_log head = {.chgcnt = ana_change_count(req->qp->ctrl, 0)};
	uint32_t counts[RDT_ANA_GROUPS + 1] = {0};
	uint64_t places[RDT_ANA_GROUPS + 1] = {0};
	uint64_t pos = sizeof(head);
	uint16_t groups = 0;

	count_groups(req, counts);
	for (uint32_t g = 1; g <= RDT_ANA_GROUPS; g++) {
		struct nvme_ana_group_desc desc = {
			.grpid = htole32(g),
			.nnsids = htole32(groups_only(req) ? 0 : counts[g]),
			.chgcnt = ana_change_count(req->qp->ctrl, g),
			.state = (uint8_t)rdt_ana_told(req->qp->ctrl, g),
		};

		if (!counts[g])
			continue;
		groups++;
		rdt_log_put(out, pos, &desc, sizeof(desc));
		places[g] = pos + sizeof(desc);
		pos = places[g] + (groups_only(req) ? 0 : counts[g] * sizeof(uint32_t));
	}
	head.ngrps = htole16(groups);
	rdt_log_put(out, 0, &head, sizeof(head));
	if (!groups_only(req))
		put_nsids(req, places, out);
}

void rdt_ana_log(const struct rdt_req *req, const struct rdt_log_out *out)
{
	struct rdt_subsys *ss = req->qp->ctrl->subsys;

	pthread_mutex_lock(&ss->lock);
	put_ana_groups(req, out);
	pthread_mutex_unlock(&ss->lock);
}
