/* SPDX-License-Identifier: BSD-3-Clause */
/* Asymmetric Namespace Access (ANA). Each namespace is in one group. Each listener has a state for
 * each group, which the main thread sets. A controller has the states of its admin queue's
 * listener. */
#include "ana.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "events.h"
#include "host_access.h"
#include "target/config/tgt_limits.h"

struct rdt_ana_states rdt_ana_all(enum nvme_ana_state state)
{
	struct rdt_ana_states states;

	memset(&states, state, sizeof(states));
	return states;
}

struct rdt_ana_states rdt_ana_configured(const struct rdt_listener_config *cfg)
{
	struct rdt_ana_states states = rdt_ana_all(NVME_ANA_STATE_OPTIMIZED);

	for (uint32_t i = 0; i < cfg->ana_count; i++)
		states.of[cfg->ana[i].group] = (uint8_t)cfg->ana[i].state;
	return states;
}

void rdt_ana_init(struct rdt_listener *l)
{
	struct rdt_ana_states states = rdt_ana_configured(l->cfg);

	for (unsigned int g = 0; g <= RDT_ANA_GROUPS; g++)
		atomic_store(&l->ana[g], states.of[g]);
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

/* Returns whether @ss has a namespace in a group that is set in @changed. */
static bool has_changed(const struct rdt_subsys *ss, const struct rdt_ana_states *changed)
{
	const struct rdt_ns *ns;

	TAILQ_FOREACH (ns, &ss->namespaces, link)
		if (changed->of[rdt_ns_ana_group(ns)])
			return true;
	return false;
}

/* Notifies the controllers of @l, or all controllers if @l is NULL, that the states of the groups
 * in @changed are different now. Examines each subsystem once, however many groups have changed. */
static void tell_ana_changed(struct rdt_target *t, const struct rdt_listener *l,
			     const struct rdt_ana_states *changed)
{
	struct rdt_subsys *ss;
	struct rdt_ctrl *ctrl;
	unsigned int at = 0;

	while ((ss = rdt_subsys_next(t, &at))) {
		if (!has_changed(ss, changed))
			continue;
		pthread_mutex_lock(&ss->lock);
		for (unsigned int g = 1; !l && g <= RDT_ANA_GROUPS; g++) {
			atomic_fetch_add(&ss->ana_changes[g], changed->of[g] != 0);
			atomic_fetch_add(&ss->ana_changes[0], changed->of[g] != 0);
		}
		TAILQ_FOREACH (ctrl, &ss->ctrls, link)
			if (!l || ctrl->listener == l)
				rdt_event_post(ctrl, RDT_EV_ANA, 0);
		pthread_mutex_unlock(&ss->lock);
	}
}

void rdt_ana_standby(struct rdt_target *t, uint32_t group, bool standby)
{
	struct rdt_ana_states changed = {0};

	changed.of[group] = NVME_ANA_STATE_CHANGE; /* any but 0 */
	if (atomic_exchange(&t->ana_standby[group], standby) != standby)
		tell_ana_changed(t, NULL, &changed);
}

/* Appends the groups of @set to @text, such as "1-3, 7". Returns their number. */
static unsigned int groups_text(const bool set[RDT_ANA_GROUPS + 2], char *text, size_t size)
{
	size_t len = strlen(text);
	unsigned int count = 0, end;

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g = end + 1) {
		for (end = g; set[end]; end++)
			count++;
		if (end == g)
			continue;
		len += (size_t)snprintf(text + len, size - len, "%s%u", count > end - g ? ", " : "",
					g);
		if (end > g + 1)
			len += (size_t)snprintf(text + len, size - len, "-%u", end - 1);
	}
	return count;
}

static bool find_groups(const struct rdt_ana_states *states, enum nvme_ana_state state,
			bool set[RDT_ANA_GROUPS + 2])
{
	bool any = false;

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++) {
		set[g] = states->of[g] == state;
		any |= set[g];
	}
	return any;
}

const char *rdt_ana_text(const struct rdt_listener *l, char text[RDT_ANA_TEXT])
{
	struct rdt_ana_states states = {0};
	bool set[RDT_ANA_GROUPS + 2] = {false};

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++)
		states.of[g] = (uint8_t)rdt_ana_state_by(l, g);
	text[0] = '\0';
	for (unsigned int state = NVME_ANA_STATE_OPTIMIZED; state <= NVME_ANA_STATE_CHANGE;
	     state++) {
		size_t len = strlen(text);

		if (!find_groups(&states, (enum nvme_ana_state)state, set))
			continue;
		snprintf(text + len, RDT_ANA_TEXT - len, "%s", len ? "; " : "");
		if (groups_text(set, text, RDT_ANA_TEXT) == RDT_ANA_GROUPS)
			snprintf(text, RDT_ANA_TEXT, "all");
		else if (state == NVME_ANA_STATE_OPTIMIZED)
			text[0] = '\0'; /* most groups are optimized, so these are not listed */
		len = strlen(text);
		if (len)
			snprintf(text + len, RDT_ANA_TEXT - len, " %s", rdt_config_ana_name(state));
	}
	return text;
}

/* Announce all groups that changed to @state as one event: a drain changes all of them together. */
static void announce_ana(struct rdt_target *t, const struct rdt_listener *l,
			 const struct rdt_ana_states *changed, enum nvme_ana_state state)
{
	bool set[RDT_ANA_GROUPS + 2] = {false};
	int port = (int)rd_addr_port((const struct sockaddr *)&l->addr);
	char text[RDT_ANA_TEXT] = "";

	if (!find_groups(changed, state, set))
		return;
	if (groups_text(set, text, sizeof(text)) > 1)
		rdt_announce(t, "ana", "{s:s, s:i, s:s, s:s}", "address", l->cfg->address, "port",
			     port, "groups", text, "state", rdt_config_ana_name(state));
	else
		rdt_announce(t, "ana", "{s:s, s:i, s:i, s:s}", "address", l->cfg->address, "port",
			     port, "group", atoi(text), "state", rdt_config_ana_name(state));
}

int rdt_ana_set(struct rdt_target *t, struct rdt_listener *l, struct rdt_ana_states states)
{
	struct rdt_ana_states changed = {0}; /* 0 is no state */
	int count = 0;

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++) {
		if (atomic_exchange(&l->ana[g], states.of[g]) == states.of[g])
			continue;
		changed.of[g] = states.of[g];
		atomic_fetch_add(&l->ana_changes[g], 1);
		atomic_fetch_add(&l->ana_changes[0], 1);
		count++;
	}
	if (count)
		tell_ana_changed(t, l, &changed);
	for (unsigned int state = NVME_ANA_STATE_OPTIMIZED; count && state <= NVME_ANA_STATE_CHANGE;
	     state++)
		announce_ana(t, l, &changed, (enum nvme_ana_state)state);
	return count;
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
