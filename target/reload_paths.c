/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reload changes of paths: ANA states, referrals, controller IDs and duplicate hosts. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "reload.h"

static enum nvme_ana_state state_of(const struct rdt_listener_config *l, uint32_t group)
{
	for (uint32_t i = 0; i < l->ana_count; i++)
		if (l->ana[i].group == group)
			return (enum nvme_ana_state)l->ana[i].state;
	return NVME_ANA_STATE_OPTIMIZED;
}

/* A port of 0 may stand more than once for one address: the order tells those apart. */
static const struct rdt_listener_config *find(const struct rdt_config *cfg, unsigned int index,
					      const struct rdt_listener_config *like)
{
	if (index < cfg->listeners_count && cfg->listeners[index].port == like->port &&
	    strcmp(cfg->listeners[index].address, like->address) == 0)
		return &cfg->listeners[index];
	for (unsigned int i = 0; i < cfg->listeners_count; i++)
		if (like->port && cfg->listeners[i].port == like->port &&
		    strcmp(cfg->listeners[i].address, like->address) == 0)
			return &cfg->listeners[i];
	return NULL;
}

int rdt_reload_ana(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
		   const struct rdt_config *next)
{
	int changed = 0;

	for (unsigned int i = 0; i < t->listeners_count; i++) {
		struct rdt_listener *l = &t->listeners[i];
		const struct rdt_listener_config *cfg = find(next, i, l->cfg);

		for (uint32_t g = 1; cfg && g <= RDT_ANA_GROUPS; g++) {
			enum nvme_ana_state state = state_of(cfg, g);

			if (atomic_load(&l->ana[g]) == state)
				continue;
			rdt_ana_set(t, l, g, state);
			changed++;
		}
	}
	return changed;
}

int rdt_reload_referrals(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
			 const struct rdt_config *next)
{
	bool same = now->referrals_count == next->referrals_count;
	int err;

	for (uint32_t i = 0; i < now->referrals_count && same; i++)
		same = now->referrals[i].port == next->referrals[i].port &&
		       strcmp(now->referrals[i].address, next->referrals[i].address) == 0;
	if (same)
		return 0;
	err = rdt_referrals_set(t, next->referrals, next->referrals_count);
	if (err)
		rdt_reload_problem(rl, "referrals: %s", strerror(-err));
	return err ? err : 1;
}

int rdt_reload_ctrls(struct rdt_reload *rl, struct rdt_subsys *ss,
		     const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	int changed = 0;

	changed += now->cntlid_min != next->cntlid_min || now->cntlid_max != next->cntlid_max;
	changed += now->duplicate_host != next->duplicate_host;
	/* Controllers that there are keep their IDs. */
	pthread_mutex_lock(&ss->lock);
	ss->duplicate_host = (uint8_t)next->duplicate_host;
	ss->cntlid_min = (uint16_t)next->cntlid_min;
	ss->cntlid_max = (uint16_t)next->cntlid_max;
	if (ss->next_cntlid < ss->cntlid_min || ss->next_cntlid > ss->cntlid_max)
		ss->next_cntlid = ss->cntlid_min;
	pthread_mutex_unlock(&ss->lock);
	return changed;
}
