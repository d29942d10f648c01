/* SPDX-License-Identifier: BSD-3-Clause */
/* Subsystems: who may connect, which namespaces there are, and the registry of controllers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int by_nsid(const void *a, const void *b)
{
	const struct rdt_ns_config *const *x = a;
	const struct rdt_ns_config *const *y = b;

	return ((*x)->nsid > (*y)->nsid) - ((*x)->nsid < (*y)->nsid);
}

static int open_namespaces(struct rdt_subsys *ss)
{
	const struct rdt_subsys_config *cfg = ss->cfg;
	const struct rdt_ns_config **order;
	int err = 0;

	ss->ops_mask = UINT32_MAX;
	ss->ns = calloc(cfg->namespaces_count + 1, sizeof(*ss->ns));
	order = calloc(cfg->namespaces_count + 1, sizeof(*order));
	if (!ss->ns || !order) {
		free(order);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < cfg->namespaces_count; i++)
		order[i] = &cfg->namespaces[i];
	qsort(order, cfg->namespaces_count, sizeof(*order), by_nsid);
	for (unsigned int i = 0; i < cfg->namespaces_count && !err; i++) {
		err = rdt_ns_open(&ss->ns[i], ss, order[i], ss->target->ns_count);
		if (err)
			break;
		ss->target->ns_count++;
		ss->ns_count++;
		ss->ops_mask &= ss->ns[i].bdev->ops_mask;
		ss->volatile_cache |= ss->ns[i].bdev->volatile_cache;
	}
	free(order);
	return err;
}

int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, unsigned int index)
{
	ss->target = target;
	ss->cfg = cfg;
	ss->nqn = cfg ? cfg->nqn : NVMF_DISC_NQN;
	ss->index = index;
	ss->next_cntlid = NVMF_CNTLID_MIN;
	TAILQ_INIT(&ss->ctrls);
	pthread_mutex_init(&ss->lock, NULL);
	return cfg ? open_namespaces(ss) : 0;
}

void rdt_subsys_fini(struct rdt_subsys *ss)
{
	if (!ss->target)
		return;
	for (unsigned int i = 0; i < ss->ns_count; i++)
		rdt_ns_close(&ss->ns[i]);
	free(ss->ns);
	pthread_mutex_destroy(&ss->lock);
}

struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn)
{
	if (strcmp(nqn, NVMF_DISC_NQN) == 0)
		return &target->disc;
	for (unsigned int i = 0; i < target->subsys_count; i++)
		if (strcmp(target->subsys[i].nqn, nqn) == 0)
			return &target->subsys[i];
	return NULL;
}

bool rdt_subsys_allows(const struct rdt_subsys *ss, const char *hostnqn)
{
	if (rdt_subsys_is_disc(ss) || ss->cfg->allow_any_host)
		return true;
	for (uint32_t i = 0; i < ss->cfg->hosts_count; i++)
		if (strcmp(ss->cfg->hosts[i], hostnqn) == 0)
			return true;
	return false;
}

static struct rdt_ctrl *find_locked(struct rdt_subsys *ss, uint16_t cntlid)
{
	struct rdt_ctrl *ctrl;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		if (ctrl->cntlid == cntlid)
			return ctrl;
	return NULL;
}

/* An ID is not used again soon: a host that still believes in an old one must not find a new
 * controller. */
int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	int err = -EBUSY;

	pthread_mutex_lock(&ss->lock);
	for (unsigned int i = 0; i < NVMF_CNTLID_MAX; i++) {
		uint16_t cntlid = ss->next_cntlid;

		ss->next_cntlid = cntlid == NVMF_CNTLID_MAX ? NVMF_CNTLID_MIN : cntlid + 1;
		if (find_locked(ss, cntlid))
			continue;
		ctrl->cntlid = cntlid;
		TAILQ_INSERT_TAIL(&ss->ctrls, ctrl, link);
		ss->ctrls_count++;
		err = 0;
		break;
	}
	pthread_mutex_unlock(&ss->lock);
	return err;
}

struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid)
{
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	ctrl = find_locked(ss, cntlid);
	if (ctrl)
		atomic_fetch_add(&ctrl->refs, 1);
	pthread_mutex_unlock(&ss->lock);
	return ctrl;
}
