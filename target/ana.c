/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric namespace access. A namespace is in one group for its life; a listener has a state for
 * each group, which the main thread sets. A controller's states are those of the listener that its
 * admin queue came by.
 */
#include "ana.h"

#include <errno.h>
#include <string.h>

#include "nvmf/wire.h"
#include "ctrl.h"
#include "events.h"
#include "listener.h"
#include "log_out.h"
#include "ns.h"
#include "request.h"
#include "subsys.h"
#include "target.h"
#include "tgt_limits.h"

void rdt_ana_init(struct rdt_listener *l)
{
	for (unsigned int g = 0; g <= RDT_ANA_GROUPS; g++)
		atomic_store(&l->ana[g], NVME_ANA_STATE_OPTIMIZED);
	for (uint32_t i = 0; i < l->cfg->ana_count; i++)
		atomic_store(&l->ana[l->cfg->ana[i].group], (uint8_t)l->cfg->ana[i].state);
}

struct nvme_status rdt_ana_status(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns)
{
	/* Without DNR: the host is to try another path. */
	switch (rdt_ana_state(ctrl, ns->cfg->ana_group)) {
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

static bool has_group(const struct rdt_target *t, const struct rdt_subsys *ss, uint32_t group)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->subsys == ss && t->ns[i]->cfg->ana_group == group)
			return true;
	return false;
}

int rdt_ana_set(struct rdt_target *t, struct rdt_listener *l, uint32_t group,
		enum nvme_ana_state state)
{
	struct rdt_ctrl *ctrl;

	if (group < 1 || group > RDT_ANA_GROUPS)
		return -EINVAL;
	if (atomic_exchange(&l->ana[group], (uint8_t)state) == state)
		return 0;
	atomic_fetch_add(&l->ana_changes[group], 1);
	atomic_fetch_add(&l->ana_changes[0], 1);
	for (unsigned int i = 0; i < t->subsys_count; i++) {
		struct rdt_subsys *ss = &t->subsys[i];

		if (!has_group(t, ss, group))
			continue;
		pthread_mutex_lock(&ss->lock);
		TAILQ_FOREACH (ctrl, &ss->ctrls, link)
			if (ctrl->listener == l)
				rdt_event_post(ctrl, RDT_EV_ANA, 0);
		pthread_mutex_unlock(&ss->lock);
	}
	return 0;
}

/* ---- the log page ---- */

/* A count of 0 would say that changes are not counted. */
static __le64 changes(const struct rdt_ctrl *ctrl, unsigned int group)
{
	uint64_t n = atomic_load(&ctrl->subsys->ana_changes[group]) + 1;

	if (ctrl->listener)
		n += atomic_load(&ctrl->listener->ana_changes[group]);
	return htole64(n);
}

/* The next namespace of @group after @nsid that the host sees. */
static const struct rdt_ns *next_of(const struct rdt_req *req, uint32_t group, uint32_t nsid)
{
	const struct rdt_ns *ns = rdt_ns_seen_next(req, nsid);

	while (ns && ns->cfg->ana_group != group)
		ns = rdt_ns_seen_next(req, ns->nsid);
	return ns;
}

static bool groups_only(const struct rdt_req *req)
{
	return le32toh(req->sqe.cdw10) >> 8 & NVME_LOG_ANA_LSP_RGO_GROUPS_ONLY;
}

/* Write one group to @out when there is one. Returns its length; 0: it has no namespace. */
static uint64_t put_group(const struct rdt_req *req, uint32_t group, uint64_t pos,
			  const struct rdt_log_out *out)
{
	const struct rdt_ns *ns = next_of(req, group, 0);
	struct nvme_ana_group_desc desc = {
		.grpid = htole32(group),
		.chgcnt = changes(req->qp->ctrl, group),
		.state = (uint8_t)rdt_ana_state(req->qp->ctrl, group),
	};
	uint64_t at = pos + sizeof(desc);
	uint32_t n = 0;

	if (!ns)
		return 0;
	for (; ns && !groups_only(req); ns = next_of(req, group, ns->nsid), n++, at += 4) {
		__le32 nsid = htole32(ns->nsid);

		if (out)
			rdt_log_put(out, at, &nsid, sizeof(nsid));
	}
	desc.nnsids = htole32(n);
	if (out)
		rdt_log_put(out, pos, &desc, sizeof(desc));
	return at - pos;
}

static uint64_t walk(const struct rdt_req *req, const struct rdt_log_out *out)
{
	struct nvme_ana_log head = {.chgcnt = changes(req->qp->ctrl, 0)};
	uint64_t pos = sizeof(head);
	uint16_t groups = 0;

	for (uint32_t g = 1; g <= RDT_ANA_GROUPS; g++) {
		uint64_t len = put_group(req, g, pos, out);

		groups += len > 0;
		pos += len;
	}
	head.ngrps = htole16(groups);
	if (out)
		rdt_log_put(out, 0, &head, sizeof(head));
	return pos;
}

uint64_t rdt_ana_log_size(const struct rdt_req *req)
{
	return walk(req, NULL);
}

void rdt_ana_log(const struct rdt_req *req, const struct rdt_log_out *out)
{
	walk(req, out);
}
