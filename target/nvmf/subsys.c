/* SPDX-License-Identifier: BSD-3-Clause */
/* Subsystems: host list, namespaces, and the registry of controllers. */
#include "subsys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "nvmf/wire.h"
#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "ana_log.h"
#include "auth.h"
#include "ctrl.h"
#include "qos_queue.h"
#include "stale_write.h"
#include "host_access.h"
#include "ns.h"
#include "target.h"
#include "target/config/tgt_limits.h"

int rdt_open_backend(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out,
		     char *text, size_t text_size)
{
	return t->env->bdev_open ? t->env->bdev_open(t, cfg, out)
				 : rdt_bdev_open(t->modules, cfg, t->log, out, text, text_size);
}

int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, struct rdt_config *cfg_of,
		    unsigned int index)
{
	unsigned int reactors = target->cfg->target.reactors;
	int err;

	ss->target = target;
	ss->cfg = cfg;
	ss->cfg_of = rdt_config_get(cfg_of);
	ss->now = cfg ? cfg : &cfg_of->discovery;
	ss->now_of = rdt_config_get(cfg_of);
	ss->nqn = cfg ? cfg->nqn : NVMF_DISC_NQN;
	ss->nqn_of = rdt_config_get(cfg_of);
	ss->index = index;
	ss->cntlid_min = cfg ? (uint16_t)cfg->cntlid_min : NVMF_CNTLID_MIN;
	ss->cntlid_max = cfg ? (uint16_t)cfg->cntlid_max : NVMF_CNTLID_MAX;
	ss->next_cntlid = ss->cntlid_min;
	TAILQ_INIT(&ss->ctrls);
	TAILQ_INIT(&ss->namespaces);
	pthread_mutex_init(&ss->lock, NULL);
	atomic_init(&ss->ops_mask, UINT32_MAX);
	ss->counters =
		aligned_alloc(__alignof__(struct rdt_counters), reactors * sizeof(*ss->counters));
	if (!ss->counters)
		return -ENOMEM;
	memset(ss->counters, 0, reactors * sizeof(*ss->counters));
	err = rdt_ana_order_init(ss);
	if (!err)
		err = rdt_fence_open(ss);
	if (!err)
		err = rdt_auth_keys_init(ss);
	if (!err)
		err = rdt_host_access_init(ss);
	if (!err)
		err = rdt_qos_init(ss);
	return err;
}

void rdt_subsys_fini(struct rdt_subsys *ss)
{
	struct rdt_ns *ns;

	if (!ss->target)
		return;
	while ((ns = TAILQ_FIRST(&ss->namespaces))) {
		ns->posts_left = 0; /* the reactors have ended and will not answer */
		rdt_ns_free(ns);
	}
	rdt_ana_order_fini(ss);
	rdt_host_ids_fini(ss);
	rdt_qos_fini(ss);
	rdt_host_access_fini(ss);
	free(ss->asks);
	free(ss->counters);
	rdt_auth_keys_fini(ss);
	rdt_config_put(&ss->cfg_of);
	rdt_config_put(&ss->nqn_of);
	rdt_config_put(&ss->now_of);
	pthread_mutex_destroy(&ss->lock);
}

/* Position of @nqn in @t->by_nqn, present or not. At least half of the entries are free. */
static unsigned int place_of(const struct rdt_target *t, const char *nqn)
{
	unsigned int places = 2 * RDT_SUBSYSTEMS;
	uint32_t hash = 2166136261u; /* FNV-1a */
	const struct rdt_subsys *ss;
	unsigned int i;

	for (const char *c = nqn; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619u;
	for (i = hash % places; (ss = atomic_load(&t->by_nqn[i])); i = (i + 1) % places)
		if (strcmp(ss->nqn, nqn) == 0)
			break;
	return i;
}

int rdt_subsys_new(struct rdt_target *t, const struct rdt_subsys_config *cfg,
		   struct rdt_config *cfg_of, bool gone, struct rdt_subsys **out)
{
	struct rdt_subsys *ss = calloc(1, sizeof(*ss));
	int err = -ENOMEM;

	*out = NULL;
	if (!ss)
		return err;
	err = rdt_subsys_init(ss, t, cfg, cfg_of, t->subsys_count);
	if (err) {
		rdt_subsys_fini(ss);
		free(ss);
		return err;
	}
	atomic_store(&ss->gone, gone);
	ss->shown = !gone;
	/* Publish: reactors may use it from now on. */
	t->subsys[ss->index] = ss;
	atomic_store(&t->by_nqn[place_of(t, ss->nqn)], ss);
	atomic_store(&t->subsys_count, ss->index + 1);
	*out = ss;
	return 0;
}

void rdt_subsys_renew(struct rdt_subsys *ss, const struct rdt_subsys_config *cfg,
		      struct rdt_config *cfg_of)
{
	/* Reactors that look for an NQN compare @nqn of all: it stays where it is. */
	rdt_config_put(&ss->cfg_of);
	ss->cfg_of = rdt_config_get(cfg_of);
	ss->cfg = cfg;
}

struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn)
{
	struct rdt_subsys *ss;

	if (strcmp(nqn, NVMF_DISC_NQN) == 0)
		return &target->disc;
	ss = rdt_subsys_slot(target, nqn);
	return ss && !atomic_load(&ss->gone) ? ss : NULL;
}

struct rdt_subsys *rdt_subsys_slot(struct rdt_target *target, const char *nqn)
{
	return atomic_load(&target->by_nqn[place_of(target, nqn)]);
}

struct rdt_host_ctrls *rdt_subsys_host_ctrls(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (unsigned int i = 0; i < sizeof(ctrl->hostid); i++)
		hash = (hash ^ ctrl->hostid[i]) * 16777619u;
	for (const char *c = ctrl->hostnqn; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619u;
	return &ss->host_ctrls[hash % RDT_HOST_BUCKETS];
}

/* Apply duplicate_host to controllers of the same host through the same listener. Through another
 * listener a controller is another path, and always allowed. */
static int check_duplicate_host(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl *other;

	/* Hosts without a name may be different hosts. */
	if (ss->duplicate_host == RDT_DUPLICATE_ALLOW || !ctrl->hostnqn[0])
		return 0;
	LIST_FOREACH (other, rdt_subsys_host_ctrls(ss, ctrl), host_link) {
		if (other == ctrl || !other->proven || other->listener != ctrl->listener ||
		    atomic_load(&other->ending) || !rdt_ctrl_same_host(other, ctrl))
			continue;
		if (ss->duplicate_host == RDT_DUPLICATE_REFUSE)
			return -EEXIST;
		rdt_ctrl_end(other, "its host has created a new controller");
	}
	return 0;
}

/* The host of @ctrl need not authenticate. */
static int check_proven(struct rdt_subsys *ss, const struct rdt_ctrl *ctrl)
{
	int err = rdt_host_id_check(ss, ctrl);

	return err ? err : check_duplicate_host(ss, ctrl);
}

int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	int err = -EACCES;

	pthread_mutex_lock(&ss->lock);
	ctrl->proven = !rdt_auth_has_key(ss, ctrl->hostnqn);
	if (rdt_host_access_allows(ss, ctrl->hostnqn))
		err = ctrl->proven ? check_proven(ss, ctrl) : 0;
	if (!err)
		err = rdt_cntlid_give(&ss->cntlids, ss->cntlid_min, ss->cntlid_max,
				      &ss->next_cntlid, ctrl, &ctrl->cntlid);
	if (!err) {
		rdt_host_access_add_ctrl(ctrl);
		TAILQ_INSERT_TAIL(&ss->ctrls, ctrl, link);
		LIST_INSERT_HEAD(rdt_subsys_host_ctrls(ss, ctrl), ctrl, host_link);
		ss->ctrls_count++;
	}
	pthread_mutex_unlock(&ss->lock);
	return err;
}

int rdt_subsys_ctrl_proven(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	int err = 0;

	pthread_mutex_lock(&ss->lock);
	if (!ctrl->proven && !rdt_subsys_is_disc(ss))
		err = rdt_host_id_claim(ss, ctrl);
	if (!ctrl->proven && !err)
		err = check_duplicate_host(ss, ctrl);
	if (!err)
		ctrl->proven = true;
	pthread_mutex_unlock(&ss->lock);
	return err;
}

void rdt_subsys_remove_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	rdt_fence_leave(ctrl);
	TAILQ_REMOVE(&ss->ctrls, ctrl, link);
	LIST_REMOVE(ctrl, host_link);
	rdt_cntlid_free(&ss->cntlids, ctrl->cntlid);
	ss->ctrls_count--;
}

struct rdt_ctrl *rdt_subsys_get_ctrl(struct rdt_subsys *ss, uint16_t cntlid)
{
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	ctrl = rdt_cntlid_find(&ss->cntlids, cntlid);
	if (ctrl)
		atomic_fetch_add(&ctrl->refs, 1);
	pthread_mutex_unlock(&ss->lock);
	return ctrl;
}
