/* SPDX-License-Identifier: BSD-3-Clause */
/* Subsystems: host list, namespaces, and the registry of controllers. */
#include "subsys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvmf/wire.h"
#include "target/bdev/backend.h"
#include "ana_log.h"
#include "auth_keys.h"
#include "ctrl.h"
#include "qos_queue.h"
#include "stale_write.h"
#include "host_access.h"
#include "ns.h"
#include "reactor.h"
#include "target.h"

/* ---- names ---- */

static struct rdt_nqn *new_nqn(const char *text)
{
	size_t len = strlen(text) + 1;
	struct rdt_nqn *name = malloc(sizeof(*name) + len);

	if (!name)
		return NULL;
	atomic_init(&name->refs, 1);
	memcpy(name->text, text, len);
	return name;
}

struct rdt_nqn *rdt_nqn_get(struct rdt_nqn *name)
{
	atomic_fetch_add(&name->refs, 1);
	return name;
}

void rdt_nqn_put(struct rdt_nqn *name)
{
	if (name && atomic_fetch_sub(&name->refs, 1) == 1)
		free(name);
}

/* ---- creation ---- */

int rdt_open_backend(struct rdt_target *t, const struct rdt_ns_config *cfg,
		     const struct rdt_bdev_from *from, struct rdt_bdev **out, char *text,
		     size_t text_size)
{
	if (t->env->bdev_open) {
		if (from->fd >= 0)
			close(from->fd);
		return t->env->bdev_open(t, cfg, out);
	}
	return rdt_bdev_open_on(t->modules, cfg, from, t->log, out, text, text_size);
}

int rdt_subsys_init(struct rdt_subsys *ss, struct rdt_target *target,
		    const struct rdt_subsys_config *cfg, struct rdt_config *cfg_of,
		    unsigned int index)
{
	unsigned int reactors = target->cfg->target.reactors;
	int err;

	ss->target = target;
	atomic_init(&ss->state, cfg ? RDT_SUBSYS_NEW : RDT_SUBSYS_LIVE);
	ss->cfg = cfg;
	ss->cfg_of = rdt_config_get(cfg_of);
	ss->now = cfg ? cfg : &cfg_of->discovery;
	ss->now_of = rdt_config_get(cfg_of);
	ss->name = new_nqn(cfg ? cfg->nqn : NVMF_DISC_NQN);
	ss->nqn = ss->name ? ss->name->text : "";
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
	if (!ss->counters || !ss->name)
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
	atomic_store(&ss->state, RDT_SUBSYS_UNSEEN); /* its namespaces do not end it */
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
	rdt_nqn_put(ss->name);
	rdt_config_put(&ss->now_of);
	pthread_mutex_destroy(&ss->lock);
}

/* ---- places ---- */

/* Returns the list of subsystems whose NQNs have the hash of @nqn. Only the main thread changes it;
 * a reactor that is at an entry being removed can continue from there. */
static _Atomic(struct rdt_subsys *) *list_of(struct rdt_target *t, const char *nqn)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (const char *c = nqn; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619u;
	return &t->by_nqn[hash % (sizeof(t->by_nqn) / sizeof(t->by_nqn[0]))];
}

static void link_nqn(struct rdt_subsys *ss)
{
	_Atomic(struct rdt_subsys *) *list = list_of(ss->target, ss->nqn);

	atomic_store(&ss->by_nqn, atomic_load(list));
	atomic_store(list, ss);
}

static void unlink_nqn(struct rdt_subsys *ss)
{
	_Atomic(struct rdt_subsys *) *at = list_of(ss->target, ss->nqn);

	while (atomic_load(at) != ss)
		at = &atomic_load(at)->by_nqn;
	atomic_store(at, atomic_load(&ss->by_nqn));
}

static unsigned int free_place(struct rdt_target *t)
{
	while (t->subsys_free < RDT_SUBSYS_PLACES && atomic_load(&t->subsys[t->subsys_free]))
		t->subsys_free++;
	return t->subsys_free;
}

int rdt_subsys_new(struct rdt_target *t, const struct rdt_subsys_config *cfg,
		   struct rdt_config *cfg_of, struct rdt_subsys **out)
{
	unsigned int place = free_place(t);
	struct rdt_subsys *ss;
	int err;

	*out = NULL;
	if (place == RDT_SUBSYS_PLACES)
		return -ENOSPC;
	ss = calloc(1, sizeof(*ss));
	if (!ss)
		return -ENOMEM;
	err = rdt_subsys_init(ss, t, cfg, cfg_of, place);
	if (err) {
		rdt_subsys_free(&ss);
		return err;
	}
	/* Published last: reactors may use it from now on. */
	atomic_store(&t->subsys[place], ss);
	if (place >= atomic_load(&t->subsys_count))
		atomic_store(&t->subsys_count, place + 1);
	*out = ss;
	return 0;
}

struct rdt_subsys *rdt_subsys_next(const struct rdt_target *t, unsigned int *at)
{
	struct rdt_subsys *ss = NULL;

	while (!ss && *at < atomic_load(&t->subsys_count))
		ss = atomic_load(&t->subsys[(*at)++]);
	return ss;
}

struct rdt_subsys *rdt_subsys_find(struct rdt_target *target, const char *nqn)
{
	struct rdt_subsys *ss;

	if (strcmp(nqn, NVMF_DISC_NQN) == 0)
		return &target->disc;
	for (ss = atomic_load(list_of(target, nqn)); ss; ss = atomic_load(&ss->by_nqn))
		if (strcmp(ss->nqn, nqn) == 0)
			break;
	return ss && rdt_subsys_live(ss) ? ss : NULL;
}

/* ---- from NEW to the end ---- */

static void set_subsys_state(struct rdt_subsys *ss, enum rdt_subsys_state state)
{
	pthread_mutex_lock(&ss->lock);
	atomic_store(&ss->state, state);
	pthread_mutex_unlock(&ss->lock);
}

void rdt_subsys_show(struct rdt_subsys *ss)
{
	set_subsys_state(ss, RDT_SUBSYS_LIVE);
	link_nqn(ss);
}

void rdt_subsys_free(struct rdt_subsys **ss)
{
	if (!*ss)
		return;
	pthread_mutex_lock(&(*ss)->target->find_lock);
	pthread_mutex_unlock(&(*ss)->target->find_lock);
	rdt_subsys_fini(*ss);
	free(*ss);
	*ss = NULL;
}

static void all_passed(struct rd_msg *msg)
{
	struct rdt_subsys *ss = rd_container_of(msg, struct rdt_subsys, msg);

	LIST_REMOVE(ss, unseen);
	rdt_subsys_free(&ss);
}

/* Passed from one reactor to the next: each has then ended the function in which it may have found
 * @ss. */
static void reactor_passes(struct rd_msg *msg)
{
	struct rdt_subsys *ss = rd_container_of(msg, struct rdt_subsys, msg);
	struct rdt_target *t = ss->target;

	struct rdt_reactor *r = &t->reactors[ss->passed];
	const struct rdt_counters *c = &ss->counters[ss->passed++];
	bool last = ss->passed == t->reactors_count;

	rdt_count(&r->gone_reads, atomic_load(&c->reads));
	rdt_count(&r->gone_writes, atomic_load(&c->writes));
	if (last)
		ss->msg.fn = all_passed;
	rd_loop_post(last ? t->loop : t->reactors[ss->passed].loop, &ss->msg);
}

/* Free @ss if it leaves and nothing uses it any more. */
static void look_left(struct rdt_subsys *ss)
{
	struct rdt_target *t = ss->target;

	if (ss->state != RDT_SUBSYS_LEAVING || ss->holds || !TAILQ_EMPTY(&ss->namespaces))
		return;
	set_subsys_state(ss, RDT_SUBSYS_UNSEEN);
	LIST_INSERT_HEAD(&t->unseen, ss, unseen);
	atomic_store(&t->subsys[ss->index], NULL);
	if (ss->index < t->subsys_free)
		t->subsys_free = ss->index;
	ss->msg.fn = reactor_passes;
	rd_loop_post(t->reactors[0].loop, &ss->msg);
}

void rdt_subsys_hold(struct rdt_subsys *ss)
{
	ss->holds++;
}

void rdt_subsys_put(struct rdt_subsys *ss)
{
	ss->holds--;
	look_left(ss);
}

void rdt_subsys_ns_gone(struct rdt_subsys *ss)
{
	look_left(ss);
}

static void ctrls_gone(struct rd_msg *msg)
{
	rdt_subsys_put(rd_container_of(msg, struct rdt_subsys, msg));
}

void rdt_subsys_leave(struct rdt_subsys *ss, const char *why)
{
	bool live = rdt_subsys_live(ss);
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	atomic_store(&ss->state, RDT_SUBSYS_LEAVING); /* no new controllers */
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		rdt_ctrl_end(ctrl, why);
	ss->msg.fn = ctrls_gone;
	if (ss->ctrls_count)
		ss->holds++;
	pthread_mutex_unlock(&ss->lock);
	if (live)
		unlink_nqn(ss);
	look_left(ss);
}

/* @ctrl is authenticated: apply duplicate_host to controllers of the same host through the same
 * listener. A controller through another listener is another path, which is always allowed. One
 * that has lost its connection is no duplicate: it may exist for as long as storage holds one of
 * its commands. */
static int check_duplicate_host(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl *other;

	/* Hosts without a name may be different ones. */
	if (!ctrl->hostnqn[0])
		return 0;
	while (ss->duplicate_host != RDT_DUPLICATE_ALLOW && (other = rdt_ctrl_duplicate(ctrl))) {
		if (ss->duplicate_host == RDT_DUPLICATE_REFUSE)
			return -EEXIST;
		rdt_ctrl_end(other, "its host has created a new controller");
	}
	return rdt_ctrl_path_join(ctrl);
}

/* The host of @ctrl need not authenticate, or its TLS key has authenticated its name. */
static int check_authenticated(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	bool claims = ctrl->admin && ctrl->admin->tls && !rdt_subsys_is_disc(ss);
	int err = claims ? rdt_host_id_claim(ss, ctrl) : rdt_host_id_check(ss, ctrl);

	return err ? err : check_duplicate_host(ss, ctrl);
}

/* Assign a controller ID; a controller that moves in keeps its own. */
static int give_cntlid(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	uint16_t cntlid = ctrl->cntlid, next = cntlid;
	int err;

	if (!cntlid)
		return rdt_cntlid_give(&ss->cntlids, ss->cntlid_min, ss->cntlid_max,
				       &ss->next_cntlid, ctrl, &ctrl->cntlid);
	err = rdt_cntlid_give(&ss->cntlids, cntlid, cntlid, &next, ctrl, &ctrl->cntlid);
	if (!err && cntlid >= ss->next_cntlid && cntlid < ss->cntlid_max)
		ss->next_cntlid = (uint16_t)(cntlid + 1);
	return err;
}

int rdt_subsys_add_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	int err = -EACCES;

	pthread_mutex_lock(&ss->lock);
	ctrl->authenticated = ctrl->cntlid || !rdt_auth_has_key(ss, ctrl->hostnqn);
	if (rdt_host_access_allows(ss, ctrl->hostnqn))
		err = rdt_ctrl_host_join(ss, ctrl);
	if (!err && ctrl->authenticated)
		err = check_authenticated(ss, ctrl);
	if (!err)
		err = give_cntlid(ss, ctrl);
	if (!err) {
		rdt_host_access_add_ctrl(ctrl);
		TAILQ_INSERT_TAIL(&ss->ctrls, ctrl, link);
		ss->ctrls_count++;
	} else {
		rdt_ctrl_host_leave(ctrl);
	}
	pthread_mutex_unlock(&ss->lock);
	return err;
}

int rdt_subsys_ctrl_authenticated(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	int err = 0;

	pthread_mutex_lock(&ss->lock);
	if (!ctrl->authenticated && !rdt_subsys_is_disc(ss))
		err = rdt_host_id_claim(ss, ctrl);
	if (!ctrl->authenticated && !err)
		err = check_duplicate_host(ss, ctrl);
	if (!err)
		ctrl->authenticated = true;
	pthread_mutex_unlock(&ss->lock);
	return err;
}

void rdt_subsys_remove_ctrl(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	rdt_fence_leave(ctrl);
	rdt_ctrl_host_leave(ctrl);
	TAILQ_REMOVE(&ss->ctrls, ctrl, link);
	rdt_cntlid_free(&ss->cntlids, ctrl->cntlid);
	ss->ctrls_count--;
	if (!ss->ctrls_count && atomic_load(&ss->state) == RDT_SUBSYS_LEAVING)
		rd_loop_post(ss->target->loop, &ss->msg);
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

int rdt_subsys_follow_ctrls(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			    const struct rdt_subsys_config *next, struct rdt_config *next_of)
{
	int changed = rdt_host_ids_share(ss, next);

	if (changed < 0)
		return changed;
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
