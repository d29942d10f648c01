/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: the difference between the running configuration and a new one, applied in this order:
 *
 *   1. backends of new namespaces are opened, and new listeners listen; if one cannot, nothing at
 *      all is changed. Listeners that are gone are removed
 *   2. settings that change at once: host lists, sizes, and what the other parts have hooked in
 *   3. namespaces are removed, and those to be replaced; waits for their I/O in flight
 *   4. namespaces are added
 */
#include "reload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "backend.h"
#include "config.h"
#include "control.h"
#include "layer.h"
#include "mask.h"
#include "ns.h"
#include "subsys.h"
#include "target.h"
#include "tgt_limits.h"

/* A namespace to remove (@ns), to add (@cfg), or to replace (both). */
struct change {
	struct rdt_reload *rl;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;
	const struct rdt_ns_config *cfg;
	struct rdt_bdev *bdev; /* opened in step 1 */
	bool failed;
};

struct rdt_reload {
	struct rdt_target *t;
	struct rdt_config *next;  /* being applied, with a reference */
	struct rdt_config *after; /* asked for meanwhile, with a reference */
	struct change *changes;
	unsigned int count;
	unsigned int waiting; /* for control calls to be done; one for ourselves */
	unsigned int added;
	unsigned int removed;
	unsigned int replaced;
	unsigned int resized;
	unsigned int subsys_added;
	unsigned int subsys_removed;
	struct rdt_reload_listeners listeners;
	unsigned int settings;
	unsigned int problems;
	unsigned int restarts;
};

void rdt_reload_problem(struct rdt_reload *rl, const char *fmt, ...)
{
	char text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rl->problems++;
	rd_err(rl->t->log, RD_LOG_CONFIG, "reload: %s", text);
}

void rdt_reload_restart(struct rdt_reload *rl, const char *where, const char *key)
{
	rl->restarts++;
	rd_warn(rl->t->log, RD_LOG_CONFIG,
		"reload: %s%s%s: a change needs a restart; the old value stays", where,
		where[0] ? " " : "", key);
}

/* ---- what needs a restart ---- */

static bool same_cpus(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count)
{
	return a_count == b_count && (!a_count || memcmp(a, b, a_count * sizeof(*a)) == 0);
}

static void check_target(struct rdt_reload *rl, const struct rdt_target_config *now,
			 const struct rdt_target_config *next)
{
	const struct {
		const char *key;
		uint64_t now;
		uint64_t next;
	} numbers[] = {
		{"reactors", now->reactors, next->reactors},
		{"queue_depth", now->queue_depth, next->queue_depth},
		{"io_queues", now->io_queues, next->io_queues},
		{"max_data_size", now->max_data_bytes, next->max_data_bytes},
		{"in_capsule_size", now->in_capsule_bytes, next->in_capsule_bytes},
		{"buffer_memory", now->buffer_bytes, next->buffer_bytes},
		{"capsule_memory", now->capsule_bytes, next->capsule_bytes},
		{"spin", now->spin_ns, next->spin_ns},
		{"peer_timeout", now->peer_timeout_ns, next->peer_timeout_ns},
		{"drain_timeout", now->drain_timeout_ns, next->drain_timeout_ns},
		{"sgl_descriptors", now->sgl_descriptors, next->sgl_descriptors},
		{"engine_depth", now->engine_depth, next->engine_depth},
		{"sqpoll", now->sqpoll_ns, next->sqpoll_ns},
		{"state_times", now->state_times, next->state_times},
		{"state_times_at_exit", now->state_times_at_exit, next->state_times_at_exit},
		{"limits", 0, memcmp(&now->limits, &next->limits, sizeof(now->limits)) != 0},
	};

	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].now != numbers[i].next)
			rdt_reload_restart(rl, "target:", numbers[i].key);
	if (!same_cpus(now->cpus, now->cpus_count, next->cpus, next->cpus_count))
		rdt_reload_restart(rl, "target:", "cpus");
	if (!same_cpus(now->sqpoll_cpus, now->sqpoll_cpus_count, next->sqpoll_cpus,
		       next->sqpoll_cpus_count))
		rdt_reload_restart(rl, "target:", "sqpoll_cpus");
	if (!rdt_config_same_text(now->congestion, next->congestion))
		rdt_reload_restart(rl, "target:", "congestion");
	if (!rdt_config_same_text(now->state_dir, next->state_dir))
		rdt_reload_restart(rl, "target:", "state_dir");
}

static int check_subsys(struct rdt_reload *rl, struct rdt_subsys *ss,
			const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	/* Not @now: the warning comes until the restart. */
	if (!rdt_config_same_text(ss->cfg->serial, next->serial))
		rdt_reload_restart(rl, ss->nqn, "serial");
	if (!rdt_config_same_text(ss->cfg->model, next->model))
		rdt_reload_restart(rl, ss->nqn, "model");
	/* Hosts have been told, and may hold reservations. */
	if (ss->cfg->reservations != next->reservations)
		rdt_reload_restart(rl, ss->nqn, "reservations");
	if (ss->cfg->write_protect != next->write_protect)
		rdt_reload_restart(rl, ss->nqn, "write_protect");
	return 0;
}

/* ---- what changes at once ---- */

static int set_hosts(struct rdt_reload *rl, struct rdt_subsys *ss,
		     const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	int err;

	if (now->allow_any_host == next->allow_any_host &&
	    rdt_config_same_list(now->hosts, now->hosts_count, next->hosts, next->hosts_count))
		return 0;
	err = rdt_subsys_set_hosts(ss, next->allow_any_host, next->hosts, next->hosts_count);
	if (err)
		rdt_reload_problem(rl, "%s: hosts: %s", ss->nqn, strerror(-err));
	return err ? err : 1;
}

static int set_size(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
		    const struct rdt_ns_config *next)
{
	uint64_t before = ns->blocks;
	char text[512];
	int err = rdt_control_ns_resize(ns, next->size_bytes, text, sizeof(text));

	if (err)
		rdt_reload_problem(rl, "%s namespace %u: %s", ns->subsys->nqn, ns->nsid, text);
	else if (ns->blocks != before)
		rl->resized++;
	return err;
}

static int set_ns_hosts(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
			const struct rdt_ns_config *next)
{
	int err;

	if (rdt_config_same_list(now->hosts, now->hosts_count, next->hosts, next->hosts_count))
		return 0;
	err = rdt_ns_set_hosts(ns, next->hosts, next->hosts_count);
	if (err)
		rdt_reload_problem(rl, "%s namespace %u: hosts: %s", ns->subsys->nqn, ns->nsid,
				   strerror(-err));
	return err ? err : 1;
}

/* The lines of the other parts: see reload.h. */
static const rdt_reload_target_fn target_fns[] = {
	rdt_reload_referrals,
	NULL,
};
static const rdt_reload_subsys_fn subsys_fns[] = {
	check_subsys, set_hosts, rdt_reload_ctrls, rdt_reload_host_qos, NULL,
};
static const rdt_reload_ns_fn ns_fns[] = {
	set_size,
	set_ns_hosts,
	rdt_reload_ns_qos,
	NULL,
};

static void count_settings(struct rdt_reload *rl, int n)
{
	if (n > 0)
		rl->settings += (unsigned int)n;
}

static const struct rdt_subsys_config *find_subsys(const struct rdt_config *cfg, const char *nqn)
{
	for (unsigned int i = 0; i < cfg->subsystems_count; i++)
		if (strcmp(cfg->subsystems[i].nqn, nqn) == 0)
			return &cfg->subsystems[i];
	return NULL;
}

static const struct rdt_ns_config *find_ns(const struct rdt_subsys_config *ss, uint32_t nsid)
{
	for (unsigned int i = 0; i < ss->namespaces_count; i++)
		if (ss->namespaces[i].nsid == nsid)
			return &ss->namespaces[i];
	return NULL;
}

/* Hosts identify a namespace by these, or the backend was opened with them. */
static bool same_namespace(const struct rdt_ns_config *a, const struct rdt_ns_config *b)
{
	return a->backend == b->backend && a->block_size == b->block_size &&
	       a->engine == b->engine && a->direct == b->direct && a->deallocate == b->deallocate &&
	       a->iopoll == b->iopoll && a->read_only == b->read_only &&
	       a->ana_group == b->ana_group && rdt_layers_same(a, b) &&
	       rdt_config_same_text(a->path, b->path) && rdt_config_same_text(a->nguid, b->nguid) &&
	       rdt_config_same_text(a->eui64, b->eui64) &&
	       memcmp(a->uuid_bytes, b->uuid_bytes, sizeof(a->uuid_bytes)) == 0;
}

static bool stays(const struct rdt_reload *rl, const struct rdt_ns *ns)
{
	for (unsigned int i = 0; i < rl->count; i++)
		if (rl->changes[i].ns == ns)
			return false;
	return true;
}

static void apply_ns(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	bool ok = true;

	for (unsigned int i = 0; ns_fns[i]; i++) {
		int n = ns_fns[i](rl, ns, ns->now, next);

		count_settings(rl, n);
		ok &= n >= 0;
	}
	if (!ok)
		return; /* the next reload tries again */
	rdt_config_put(&ns->now_of);
	ns->now_of = rdt_config_get(rl->next);
	ns->now = next;
}

static void apply_subsys(struct rdt_reload *rl, struct rdt_subsys *ss,
			 const struct rdt_subsys_config *next)
{
	bool ok = true;

	for (unsigned int i = 0; subsys_fns[i]; i++) {
		int n = subsys_fns[i](rl, ss, ss->now, next);

		if (!ss->gone)
			count_settings(rl, n);
		ok &= n >= 0;
	}
	if (!ok)
		return;
	rdt_config_put(&ss->now_of);
	ss->now_of = rdt_config_get(rl->next);
	ss->now = next;
}

static void apply_settings(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;

	for (unsigned int i = 0; target_fns[i]; i++)
		count_settings(rl, target_fns[i](rl, t, t->now, rl->next));
	for (unsigned int i = 0; i < t->subsys_count; i++) {
		struct rdt_subsys *ss = &t->subsys[i];
		const struct rdt_subsys_config *next = find_subsys(rl->next, ss->nqn);
		struct rdt_ns *ns;

		if (!next && !ss->gone) {
			rdt_control_subsys_remove(ss);
			rl->subsys_removed++;
		}
		if (!next)
			continue;
		apply_subsys(rl, ss, next);
		TAILQ_FOREACH (ns, &ss->namespaces, link)
			if (ns->state == RDT_NS_LIVE && stays(rl, ns))
				apply_ns(rl, ns, find_ns(next, ns->nsid));
	}
}

/* ---- the plan ---- */

static void plan(struct rdt_reload *rl, struct rdt_subsys *ss, struct rdt_ns *ns,
		 const struct rdt_ns_config *cfg)
{
	rl->changes[rl->count++] = (struct change){.rl = rl, .ss = ss, .ns = ns, .cfg = cfg};
}

static void plan_subsys(struct rdt_reload *rl, struct rdt_subsys *ss,
			const struct rdt_subsys_config *next)
{
	struct rdt_ns *ns;

	TAILQ_FOREACH (ns, &ss->namespaces, link) {
		const struct rdt_ns_config *cfg = next ? find_ns(next, ns->nsid) : NULL;

		if (ns->state == RDT_NS_LIVE && (!cfg || !same_namespace(ns->now, cfg)))
			plan(rl, ss, ns, cfg);
	}
	for (unsigned int i = 0; next && i < next->namespaces_count; i++)
		if (!rdt_ns_of(ss, next->namespaces[i].nsid))
			plan(rl, ss, NULL, &next->namespaces[i]);
}

static int make_plan(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;
	unsigned int max = RDT_NS_SLOTS;

	for (unsigned int i = 0; i < rl->next->subsystems_count; i++)
		max += rl->next->subsystems[i].namespaces_count;
	rl->changes = calloc(max, sizeof(*rl->changes));
	if (!rl->changes)
		return -ENOMEM;
	for (unsigned int i = 0; i < rl->next->subsystems_count; i++) {
		const struct rdt_subsys_config *next = &rl->next->subsystems[i];
		struct rdt_subsys *ss = rdt_subsys_find(t, next->nqn);
		char text[256];
		int err = 0;

		if (!ss)
			err = rdt_control_subsys_add(t, next, rl->next, &ss, text, sizeof(text));
		if (err) {
			rdt_reload_problem(rl, "%s: %s", next->nqn, text);
			return err;
		}
	}
	for (unsigned int i = 0; i < t->subsys_count; i++)
		plan_subsys(rl, &t->subsys[i], find_subsys(rl->next, t->subsys[i].nqn));
	return 0;
}

/* Is the file of @cfg, or a name for it, still in use by a namespace that is about to go? */
static bool waits_for_removal(const struct rdt_reload *rl, const struct rdt_ns_config *cfg)
{
	for (unsigned int i = 0; cfg->path && i < rl->count; i++) {
		const struct rdt_ns *old = rl->changes[i].ns;

		if (old && old->cfg->path && rdt_config_same_file(old->cfg->path, cfg->path))
			return true;
	}
	return false;
}

/* Step 1. An error here is the last chance to change nothing. */
static int open_backends(struct rdt_reload *rl)
{
	char text[512];

	for (unsigned int i = 0; i < rl->count; i++) {
		struct change *ch = &rl->changes[i];
		int err;

		if (!ch->cfg || waits_for_removal(rl, ch->cfg))
			continue;
		err = rdt_control_open(rl->t, ch->cfg, &ch->bdev, text, sizeof(text));
		if (err) {
			rdt_reload_problem(rl, "%s namespace %u: %s", ch->ss->nqn, ch->cfg->nsid,
					   text);
			return err;
		}
	}
	return 0;
}

/* ---- step by step ---- */

static void release(struct rdt_reload *rl)
{
	for (unsigned int i = 0; i < rl->count; i++)
		rdt_bdev_close(&rl->changes[i].bdev);
	rdt_config_put(&rl->next);
	rdt_config_put(&rl->after);
	free(rl->changes);
	free(rl);
}

/* The end of @rl; starts the one that waits. */
static void over(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;
	struct rdt_config *after = rl->after;

	rl->after = NULL;
	t->reload = NULL;
	release(rl);
	if (after && !t->drained)
		rdt_reload(t, after);
	rdt_config_put(&after);
}

static size_t part(char *buf, size_t size, size_t len, unsigned int n, const char *what)
{
	int more;

	if (!n)
		return len;
	more = snprintf(buf + len, size - len, "%s%u %s", len ? ", " : "", n, what);
	return more < 0 || len + (size_t)more >= size ? len : len + (size_t)more;
}

static void summary(struct rdt_reload *rl)
{
	char text[320] = "";
	size_t len = 0;

	len = part(text, sizeof(text), len, rl->added, "namespaces added");
	len = part(text, sizeof(text), len, rl->removed, "removed");
	len = part(text, sizeof(text), len, rl->replaced, "replaced");
	len = part(text, sizeof(text), len, rl->resized, "resized");
	len = part(text, sizeof(text), len, rl->subsys_added, "subsystems added");
	len = part(text, sizeof(text), len, rl->subsys_removed, "subsystems removed");
	len = part(text, sizeof(text), len, rl->listeners.added, "listeners added");
	len = part(text, sizeof(text), len, rl->listeners.removed, "listeners removed");
	len = part(text, sizeof(text), len, rl->settings + rl->listeners.settings,
		   "settings changed");
	len = part(text, sizeof(text), len, rl->restarts, "changes that need a restart");
	if (rl->problems)
		rd_err(rl->t->log, RD_LOG_MAIN,
		       "reloaded in part: %s%s%u problems, named above; the next reload tries "
		       "again",
		       text, len ? ", " : "", rl->problems);
	else
		rd_notice(rl->t->log, RD_LOG_MAIN, "reloaded: %s",
			  len ? text : "nothing has changed");
}

static void finish(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;

	for (unsigned int i = 0; i < t->subsys_count; i++) {
		struct rdt_subsys *ss = &t->subsys[i];

		if (!ss->gone || !find_subsys(rl->next, ss->nqn))
			continue;
		rdt_control_subsys_show(ss); /* with the namespaces it came with */
		rl->subsys_added++;
	}
	summary(rl);
	if (!rl->problems) {
		rdt_config_put(&t->now);
		t->now = rdt_config_get(rl->next);
	}
	over(rl);
}

static void added(void *arg, int err, const char *text)
{
	struct change *ch = arg;
	struct rdt_reload *rl = ch->rl;

	if (err)
		rdt_reload_problem(rl, "%s namespace %u: %s", ch->ss->nqn, ch->cfg->nsid, text);
	else if (ch->ns)
		rl->replaced++;
	else
		rl->added++;
	if (--rl->waiting == 0)
		finish(rl);
}

static void add_all(struct rdt_reload *rl)
{
	rl->waiting = 1;
	for (unsigned int i = 0; i < rl->count; i++) {
		struct change *ch = &rl->changes[i];
		struct rdt_bdev *bdev = ch->bdev;

		if (!ch->cfg || ch->failed)
			continue;
		ch->bdev = NULL;
		rl->waiting++;
		rdt_control_ns_add(ch->ss, ch->cfg, rl->next, bdev, added, ch);
	}
	if (--rl->waiting == 0)
		finish(rl);
}

static void removed(void *arg, int err, const char *text)
{
	struct change *ch = arg;
	struct rdt_reload *rl = ch->rl;

	if (err) {
		ch->failed = true;
		rdt_reload_problem(rl, "%s namespace %u: %s", ch->ss->nqn, ch->ns->nsid, text);
	} else if (!ch->cfg) {
		rl->removed++;
	}
	if (--rl->waiting == 0)
		add_all(rl);
}

static void remove_all(struct rdt_reload *rl)
{
	rl->waiting = 1;
	for (unsigned int i = 0; i < rl->count; i++) {
		if (!rl->changes[i].ns)
			continue;
		rl->waiting++;
		rdt_control_ns_remove(rl->changes[i].ns, removed, &rl->changes[i]);
	}
	if (--rl->waiting == 0)
		add_all(rl);
}

void rdt_reload(struct rdt_target *t, struct rdt_config *next)
{
	struct rdt_reload *rl = t->reload;
	int err;

	if (rl) {
		rdt_config_put(&rl->after);
		rl->after = rdt_config_get(next);
		return;
	}
	rl = calloc(1, sizeof(*rl));
	if (!rl) {
		rd_err(t->log, RD_LOG_MAIN, "reload: out of memory; nothing was changed");
		return;
	}
	rl->t = t;
	rl->next = rdt_config_get(next);
	t->reload = rl;
	err = make_plan(rl);
	if (!err)
		err = open_backends(rl);
	if (!err)
		err = rdt_reload_listen(rl, t, rl->next, &rl->listeners);
	if (err) {
		rd_err(t->log, RD_LOG_MAIN, "not reloaded: %s; nothing was changed",
		       rl->problems ? "see above" : strerror(-err));
		over(rl);
		return;
	}
	check_target(rl, &t->cfg->target, &next->target);
	apply_settings(rl);
	remove_all(rl);
}

void rdt_reload_fini(struct rdt_target *t)
{
	if (t->reload)
		release(t->reload);
	t->reload = NULL;
}
