/* SPDX-License-Identifier: BSD-3-Clause */
/* Host access control: which hosts may connect to a subsystem, and which see a namespace. The main
 * thread changes the lists; everything is guarded by subsys->lock. ctrl->hidden has a bit, by slot,
 * for each namespace that the host does not see, so that a command tests one bit. */
#include "host_access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/config/config.h"
#include "admin_budget.h"
#include "auth_keys.h"
#include "host_ids.h"
#include "peers.h"
#include "stale_write.h"
#include "subsys.h"
#include "target.h"

static void list_fini(struct rdt_host_list *list)
{
	for (unsigned int i = 0; i < list->count; i++)
		free(list->nqns[i]);
	free(list->nqns);
	*list = (struct rdt_host_list){.any = true};
}

static int compare_nqns(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_init(struct rdt_host_list *list, bool any, const char *const *nqns,
		     unsigned int count)
{
	*list = (struct rdt_host_list){.any = any};
	if (any)
		return 0;
	list->nqns = calloc(count + 1, sizeof(*list->nqns));
	if (!list->nqns)
		return -ENOMEM;
	while (list->count < count) {
		list->nqns[list->count] = strdup(nqns[list->count]);
		if (!list->nqns[list->count]) {
			list_fini(list);
			return -ENOMEM;
		}
		list->count++;
	}
	if (list->count)
		qsort(list->nqns, list->count, sizeof(*list->nqns), compare_nqns);
	return 0;
}

static bool list_has(const struct rdt_host_list *list, const char *nqn)
{
	if (list->any || !list->count)
		return list->any;
	return bsearch(&nqn, list->nqns, list->count, sizeof(*list->nqns), compare_nqns);
}

static bool list_equal(const struct rdt_host_list *a, const struct rdt_host_list *b)
{
	return a->any == b->any && rdt_config_same_list((const char *const *)a->nqns, a->count,
							(const char *const *)b->nqns, b->count);
}

static void list_swap(struct rdt_host_list *a, struct rdt_host_list *b)
{
	struct rdt_host_list tmp = *a;

	*a = *b;
	*b = tmp;
}

/* Set the hosts of the discovery subsystem: all hosts or, with required authentication, those with
 * a key. @keys: as in rdt_subsys_set_hosts(). */
static int set_disc_hosts(struct rdt_subsys *disc, const struct rdt_subsys_config *cfg,
			  const struct rdt_auth_set *keys)
{
	const char **nqns = calloc(cfg->host_auth_count + 1, sizeof(*nqns));
	int err;

	if (!nqns)
		return -ENOMEM;
	for (uint32_t i = 0; i < cfg->host_auth_count; i++)
		nqns[i] = cfg->host_auth[i].host;
	err = rdt_subsys_set_hosts(disc, cfg->authentication == RDT_AUTH_OPTIONAL, nqns,
				   cfg->host_auth_count, keys);
	free(nqns);
	return err;
}

int rdt_host_access_init(struct rdt_subsys *ss)
{
	const struct rdt_subsys_config *cfg = ss->cfg;

	ss->hosts.any = true;
	if (!cfg)
		return set_disc_hosts(ss, ss->now, NULL);
	ss->duplicate_host = (uint8_t)cfg->duplicate_host;
	atomic_init(&ss->shown, cfg->discovery_transport);
	if (rdt_host_ids_share(ss, cfg) < 0)
		return -ENOMEM;
	return list_init(&ss->hosts, cfg->allow_any_host, cfg->hosts, cfg->hosts_count);
}

void rdt_host_access_fini(struct rdt_subsys *ss)
{
	list_fini(&ss->hosts);
	rdt_slots_fini(&ss->listed);
}

/* ---- subsystems ---- */

bool rdt_host_access_allows(const struct rdt_subsys *ss, const char *hostnqn)
{
	return rdt_subsys_live(ss) && list_has(&ss->hosts, hostnqn);
}

bool rdt_subsys_allows(struct rdt_subsys *ss, const char *hostnqn)
{
	bool allowed;

	pthread_mutex_lock(&ss->lock);
	allowed = rdt_host_access_allows(ss, hostnqn);
	pthread_mutex_unlock(&ss->lock);
	return allowed;
}

int rdt_subsys_set_hosts(struct rdt_subsys *ss, bool any, const char *const *nqns,
			 unsigned int count, const struct rdt_auth_set *keys)
{
	struct rdt_auth_set set = {NULL, NULL};
	struct rdt_host_list next;
	struct rdt_ctrl *ctrl;
	int err = list_init(&next, any, nqns, count);
	bool same;

	if (err)
		return err;
	if (keys)
		set = (struct rdt_auth_set){keys->cfg, rdt_config_get(keys->of)};
	pthread_mutex_lock(&ss->lock);
	same = list_equal(&ss->hosts, &next);
	list_swap(&ss->hosts, &next);
	if (keys)
		rdt_auth_swap_keys(ss, &set);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		if (!rdt_host_access_allows(ss, ctrl->hostnqn))
			rdt_ctrl_end(ctrl, "its host is no longer allowed");
	pthread_mutex_unlock(&ss->lock);
	list_fini(&next);
	rdt_config_put(&set.of);
	if (keys)
		rdt_auth_end_old_keys(ss);
	if (!same)
		rdt_discovery_changed(ss->target);
	return 0;
}

/* ---- namespaces ---- */

static bool set_hidden(struct rdt_ctrl *ctrl, unsigned int slot, bool hidden)
{
	return (hidden ? rdt_slots_set(&ctrl->hidden, slot)
		       : rdt_slots_clear(&ctrl->hidden, slot)) != hidden;
}

/* A host that is in the host lists of some namespaces. */
struct rdt_listed {
	LIST_ENTRY(rdt_listed) link;
	unsigned int count; /* number of these namespaces; freed with the last one */
	unsigned int room;
	uint16_t *slots; /* slots of the namespaces */
	char nqn[];
};

static struct rdt_listed_bucket *listed_bucket(struct rdt_subsys *ss, const char *nqn)
{
	return &ss->listed_hosts[rdt_peer_hash(ss->target, nqn, strlen(nqn)) % RDT_HOST_BUCKETS];
}

static struct rdt_listed *find_listed(struct rdt_subsys *ss, const char *nqn)
{
	struct rdt_listed *e;

	LIST_FOREACH (e, listed_bucket(ss, nqn), link)
		if (strcmp(e->nqn, nqn) == 0)
			break;
	return e;
}

static void free_listed(struct rdt_listed *e)
{
	if (e->count)
		return;
	LIST_REMOVE(e, link);
	free(e->slots);
	free(e);
}

/* Without memory, the namespace stays hidden from later controllers of this host, which is safe. */
static void add_listed(struct rdt_subsys *ss, const char *nqn, unsigned int slot)
{
	struct rdt_listed *e = find_listed(ss, nqn);
	uint16_t *slots;

	if (!e) {
		e = calloc(1, sizeof(*e) + strlen(nqn) + 1);
		if (!e)
			return;
		strcpy(e->nqn, nqn);
		LIST_INSERT_HEAD(listed_bucket(ss, nqn), e, link);
	}
	if (e->count == e->room) {
		slots = realloc(e->slots, (2 * (size_t)e->room + 4) * sizeof(*slots));
		if (!slots) {
			free_listed(e);
			return;
		}
		e->slots = slots;
		e->room = 2 * e->room + 4;
	}
	e->slots[e->count++] = (uint16_t)slot;
}

static void remove_listed(struct rdt_subsys *ss, const char *nqn, unsigned int slot)
{
	struct rdt_listed *e = find_listed(ss, nqn);

	for (unsigned int i = 0; e && i < e->count; i++) {
		if (e->slots[i] != slot)
			continue;
		e->slots[i] = e->slots[--e->count];
		free_listed(e);
		return;
	}
}

/* Add @ns to the entries of the hosts in its list (@on), or remove it. subsys->lock is held. */
static void index_ns_hosts(const struct rdt_ns *ns, bool on)
{
	struct rdt_subsys *ss = ns->subsys;

	if (ns->hosts.any)
		return;
	if (on)
		rdt_slots_set(&ss->listed, ns->slot);
	else
		rdt_slots_clear(&ss->listed, ns->slot);
	for (unsigned int i = 0; i < ns->hosts.count; i++) {
		if (on)
			add_listed(ss, ns->hosts.nqns[i], ns->slot);
		else
			remove_listed(ss, ns->hosts.nqns[i], ns->slot);
	}
}

/* Its cost depends on the number of namespaces that list the host, not on the number of
 * namespaces. */
void rdt_host_access_add_ctrl(struct rdt_ctrl *ctrl)
{
	const struct rdt_listed *e = find_listed(ctrl->subsys, ctrl->hostnqn);

	rdt_slots_copy(&ctrl->hidden, &ctrl->subsys->listed);
	if (e && ctrl->admin)
		rdt_admin_charge(ctrl->admin, e->count * (size_t)RDT_ADMIN_LOOK);
	for (unsigned int i = 0; e && i < e->count; i++)
		set_hidden(ctrl, e->slots[i], false);
}

/* subsys->lock is held. */
static void apply_ns_hosts(struct rdt_ns *ns, bool tell)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		bool hidden = !list_has(&ns->hosts, ctrl->hostnqn);

		if (set_hidden(ctrl, ns->slot, hidden) && tell)
			rdt_event_post(ctrl, RDT_EV_NS_ATTR, ns->nsid);
	}
}

static void count_change(struct rdt_ns *ns)
{
	atomic_fetch_add(&ns->subsys->ana_changes[rdt_ns_ana_group(ns)], 1);
	atomic_fetch_add(&ns->subsys->ana_changes[0], 1);
}

static int replace_ns_hosts(struct rdt_ns *ns, bool any, const char *const *nqns,
			    unsigned int count, bool tell)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_host_list next;
	int err = list_init(&next, any, nqns, count);

	if (err)
		return err;
	pthread_mutex_lock(&ss->lock);
	if (tell && !list_equal(&ns->hosts, &next))
		count_change(ns);
	index_ns_hosts(ns, false);
	list_swap(&ns->hosts, &next);
	index_ns_hosts(ns, true);
	apply_ns_hosts(ns, tell);
	pthread_mutex_unlock(&ss->lock);
	list_fini(&next);
	return 0;
}

int rdt_ns_set_hosts(struct rdt_ns *ns, bool any, const char *const *nqns, unsigned int count)
{
	return replace_ns_hosts(ns, any, nqns, count, true);
}

int rdt_host_access_add_ns(struct rdt_ns *ns)
{
	const struct rdt_ns_config *cfg = ns->cfg;

	return replace_ns_hosts(ns, rdt_config_all_see(cfg), cfg->hosts, cfg->hosts_count, false);
}

void rdt_host_access_remove_ns(struct rdt_ns *ns)
{
	struct rdt_subsys *ss = ns->subsys;

	pthread_mutex_lock(&ss->lock);
	index_ns_hosts(ns, false);
	list_fini(&ns->hosts);
	apply_ns_hosts(ns, false);
	rdt_fence_forget_ns(ss, ns->slot);
	pthread_mutex_unlock(&ss->lock);
}

void rdt_event_ns(struct rdt_ns *ns, enum rdt_event event)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	if (event == RDT_EV_NS_ATTR)
		count_change(ns);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		if (rdt_ns_visible(ctrl, ns))
			rdt_event_post(ctrl, event, ns->nsid);
	pthread_mutex_unlock(&ss->lock);
}

/* ---- from one configuration to the next ---- */

static void tell_key(struct rdt_subsys *ss, const char *host, const char *what)
{
	struct rdt_target *t = ss->target;

	rd_log_limited(&t->key_limit, rd_loop_now(t->loop), t->log, RD_LOG_CTRL, RD_LOG_NOTICE,
		       "%s: host %s: %s", ss->nqn, host, what);
}

/* @host has no key in @next. "discovery" has no list of hosts: where authentication is required,
 * the hosts with a key may connect. */
static bool may_still_connect(const struct rdt_subsys *ss, const struct rdt_subsys_config *next,
			      const char *host)
{
	if (ss == &ss->target->disc)
		return next->authentication == RDT_AUTH_OPTIONAL;
	return next->allow_any_host || rdt_config_listed(next->hosts, next->hosts_count, host);
}

/* Returns the number of hosts whose keys change. */
static unsigned int tell_keys(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			      const struct rdt_subsys_config *next)
{
	unsigned int changed = 0;

	for (uint32_t i = 0; i < now->host_auth_count; i++) {
		const char *host = now->host_auth[i].host;

		if (rdt_config_host_auth(next, host))
			continue;
		tell_key(ss, host,
			 may_still_connect(ss, next, host)
				 ? "its key was removed; new queues need not authenticate"
				 : "its key was removed; it may not connect any more");
		changed++;
	}
	for (uint32_t i = 0; i < next->host_auth_count; i++) {
		const struct rdt_host_auth_config *h = &next->host_auth[i];
		const struct rdt_host_auth_config *old = rdt_config_host_auth(now, h->host);

		if (rdt_config_same_host_auth(old, h))
			continue;
		tell_key(ss, h->host,
			 !old && h->key ? "a key was added; its new queues must authenticate"
			 : !old         ? "a TLS key was added"
				: "its keys or authentication methods have changed; the old keys "
				  "are accepted "
				  "for "
				  "5 more minutes, or until host_auth of this subsystem changes "
				  "again");
		changed++;
	}
	return changed;
}

/* A host and its key are added or removed at the same time. */
int rdt_subsys_follow_hosts(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			    const struct rdt_subsys_config *next, struct rdt_config *next_of)
{
	const struct rdt_auth_set keys = {next, next_of};
	bool disc = rdt_subsys_is_disc(ss);
	bool same = disc ? now->authentication == next->authentication
			 : now->allow_any_host == next->allow_any_host &&
				    rdt_config_same_list(now->hosts, now->hosts_count, next->hosts,
							 next->hosts_count);
	unsigned int changed = tell_keys(ss, now, next);
	const struct rdt_auth_set *set = changed ? &keys : NULL;
	int err;

	if (same && !changed)
		return 0;
	err = disc ? set_disc_hosts(ss, next, set)
		   : rdt_subsys_set_hosts(ss, next->allow_any_host, next->hosts, next->hosts_count,
					  set);
	return err ? err : (int)changed + !same;
}

int rdt_ns_follow_hosts(struct rdt_ns *ns, const struct rdt_ns_config *now,
			const struct rdt_ns_config *next)
{
	int err;

	if (rdt_config_same_ns_hosts(now, next))
		return 0;
	err = rdt_ns_set_hosts(ns, rdt_config_all_see(next), next->hosts, next->hosts_count);
	return err ? err : 1;
}
