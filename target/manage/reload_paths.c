/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths in a reload: referrals, controller IDs and duplicate hosts. */
#include <errno.h>
#include <string.h>

#include "target/cmd/admin.h"
#include "reload.h"
#include "target/nvmf/host_ids.h"
#include "target/nvmf/subsys.h"

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
	int changed = rdt_host_ids_share(ss, next);

	if (changed < 0) {
		rdt_reload_problem(rl, "%s shared_host_ids: %s", ss->nqn, strerror(-changed));
		changed = 0;
	}
	changed += now->cntlid_min != next->cntlid_min || now->cntlid_max != next->cntlid_max;
	changed += now->duplicate_host != next->duplicate_host;
	/* Existing controllers keep their IDs. */
	pthread_mutex_lock(&ss->lock);
	ss->duplicate_host = (uint8_t)next->duplicate_host;
	ss->cntlid_min = (uint16_t)next->cntlid_min;
	ss->cntlid_max = (uint16_t)next->cntlid_max;
	if (ss->next_cntlid < ss->cntlid_min || ss->next_cntlid > ss->cntlid_max)
		ss->next_cntlid = ss->cntlid_min;
	pthread_mutex_unlock(&ss->lock);
	return changed;
}
