/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: applies the difference between the running configuration and a new one, in this order:
 *
 *   1. open the backends of new namespaces, and the new listeners. If one fails, nothing is
 *      changed. Remove the listeners that are no longer configured
 *   2. apply settings: host lists, sizes, and those of other parts (target_fns and similar tables)
 *   3. remove namespaces, also those to be replaced, after their I/O in flight
 *   4. add namespaces
 *
 * There may be thousands of changes, so each step is a walk that stops after STEP_NS and continues
 * in the next turn of the loop. Nothing else adds or removes namespaces meanwhile.
 */
#include "reload.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "control.h"
#include "report.h"
#include "target/bdev/layer.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

/* A namespace to remove (@ns), to add (@cfg), or to replace (both). */
struct change {
	struct rdt_reload *rl;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;
	const struct rdt_ns_config *cfg;
	struct rdt_bdev *bdev; /* opened in step 1 */
	bool replaces;
	bool failed;
	struct rdt_file_id old_file; /* the file of @ns, if it has one */
};

/* Time per turn that a reload may take from the main loop. */
#define STEP_NS   (4 * RD_NSEC_PER_MSEC)
#define IN_FLIGHT 256u /* maximum of changes for which reactors have not answered */

struct rdt_reload {
	struct rdt_target *t;
	struct rdt_report *report;
	rdt_reload_done done;
	void *done_arg;
	struct rdt_config *next;                  /* the configuration being applied; a reference */
	const struct rdt_subsys_config **next_of; /* by subsys->index; NULL: removed */
	struct change *changes;
	unsigned int count;
	unsigned int room;
	struct change **by_file; /* changes that close a file, sorted by file */
	unsigned int files;

	/* the running walk */
	struct rd_defer step;
	/* Processes one item; returns true after the last one */
	bool (*walk)(struct rdt_reload *rl);
	/* Runs after the walk; @err is 0 or the reason for its end */
	void (*then)(struct rdt_reload *rl);
	int err;
	unsigned int at;      /* index of the subsystem or change */
	struct rdt_ns *ns;    /* next namespace of that subsystem */
	uint32_t ns_cfg;      /* and its index in the new configuration */
	bool inside;          /* @ns and @ns_cfg are valid */
	unsigned int waiting; /* control calls that have not completed */
	bool walked;          /* all control calls of the walk were made */
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
	rdt_report_add(rl->report, RD_LOG_ERROR, text);
	rd_err(rl->t->log, RD_LOG_CONFIG, "reload: %s", text);
}

struct rdt_config *rdt_reload_next(const struct rdt_reload *rl)
{
	return rl->next;
}

static void needs_restart(void *arg, const char *where, const char *key)
{
	struct rdt_reload *rl = arg;
	char text[RDT_RESTART_TEXT];

	rdt_restart_text(where, key, text);
	rl->restarts++;
	rdt_report_add(rl->report, RD_LOG_WARN, text);
	rd_warn(rl->t->log, RD_LOG_CONFIG, "reload: %s", text);
}

static int check_subsys(struct rdt_reload *rl, struct rdt_subsys *ss,
			const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	(void)now;
	rdt_restart_subsys_keys(ss, next, needs_restart, rl);
	return 0;
}

/* ---- what changes at once ---- */

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

/* The settings of other parts: see reload.h. */
static const rdt_reload_target_fn target_fns[] = {
	rdt_reload_referrals,
	rdt_reload_http,
	rdt_reload_discovery,
	NULL,
};
static const rdt_reload_subsys_fn subsys_fns[] = {
	check_subsys, rdt_reload_hosts, rdt_reload_ctrls, rdt_reload_host_qos, NULL,
};
static const rdt_reload_ns_fn ns_fns[] = {
	set_size, set_ns_hosts, rdt_reload_ns_qos, rdt_reload_ns_protect, rdt_reload_ns_ana, NULL,
};

static void count_settings(struct rdt_reload *rl, int n)
{
	if (n > 0)
		rl->settings += (unsigned int)n;
}

/* Without these, it is another namespace for hosts, or the backend must be reopened. */
static bool same_config(const struct rdt_ns_config *a, const struct rdt_ns_config *b)
{
	return a->backend == b->backend && a->block_size == b->block_size &&
	       a->engine == b->engine && a->direct == b->direct && a->deallocate == b->deallocate &&
	       a->iopoll == b->iopoll && rdt_layers_same(a, b) &&
	       rdt_config_same_text(a->path, b->path) && rdt_config_same_rbd(a->rbd, b->rbd) &&
	       rdt_config_same_text(a->uri, b->uri) && rdt_config_same_text(a->nguid, b->nguid) &&
	       rdt_config_same_text(a->eui64, b->eui64) &&
	       memcmp(a->uuid_bytes, b->uuid_bytes, sizeof(a->uuid_bytes)) == 0;
}

/* Can @ns become what @next says while hosts use it? */
static bool same_namespace(const struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	if (!same_config(ns->now, next))
		return false;
	if (ns->state != RDT_NS_LIVE) /* the settings of others are not applied */
		return ns->now->read_only == next->read_only &&
		       ns->now->ana_group == next->ana_group;
	return rdt_reload_can_protect(ns, next);
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

/* ---- walks ---- */

static void reload_step(struct rd_defer *defer)
{
	struct rdt_reload *rl = rd_container_of(defer, struct rdt_reload, step);
	struct rdt_target *t = rl->t;
	uint64_t end = rd_loop_now_raw(t->loop) + STEP_NS;

	if (t->drained) /* the target is stopping */
		return;
	while (!rl->err && !rl->walk(rl)) {
		/* Continue in the next turn, or when enough of the outstanding changes have
		 * completed. */
		if (rl->waiting >= IN_FLIGHT)
			return;
		if (rd_loop_now_raw(t->loop) < end)
			continue;
		rd_defer(t->loop, &rl->step, RD_DEFER_NEXT);
		return;
	}
	rl->walked = true;
	if (!rl->waiting)
		rl->then(rl);
}

static void reload_walk(struct rdt_reload *rl, bool (*fn)(struct rdt_reload *rl),
			void (*then)(struct rdt_reload *rl))
{
	rl->walk = fn;
	rl->then = then;
	rl->at = 0;
	rl->inside = false;
	rl->walked = false;
	reload_step(&rl->step);
}

/* A control call of the walk has completed. */
static void control_answered(struct rdt_reload *rl)
{
	rl->waiting--;
	if (rl->walked && !rl->waiting)
		rl->then(rl);
	else if (!rl->walked && rl->waiting < IN_FLIGHT)
		rd_defer(rl->t->loop, &rl->step, RD_DEFER_NEXT);
}

/* Merge the namespaces that exist with those of the new configuration, over all subsystems; both
 * are sorted by NSID. Returns false at the end. */
static bool next_pair(struct rdt_reload *rl, struct rdt_subsys **ss, struct rdt_ns **ns,
		      const struct rdt_ns_config **cfg)
{
	for (; rl->at < rl->t->subsys_count; rl->at++, rl->inside = false) {
		const struct rdt_subsys_config *next = rl->next_of[rl->at];
		const struct rdt_ns_config *c;

		*ss = rl->t->subsys[rl->at];
		if (!rl->inside) {
			rl->inside = true;
			rl->ns = TAILQ_FIRST(&(*ss)->namespaces);
			rl->ns_cfg = 0;
		}
		c = next && rl->ns_cfg < next->namespaces_count ? &next->namespaces[rl->ns_cfg]
								: NULL;
		if (!rl->ns && !c)
			continue;
		*ns = rl->ns && (!c || rl->ns->nsid <= c->nsid) ? rl->ns : NULL;
		*cfg = c && (!rl->ns || c->nsid <= rl->ns->nsid) ? c : NULL;
		if (*ns)
			rl->ns = TAILQ_NEXT(rl->ns, link);
		if (*cfg)
			rl->ns_cfg++;
		return true;
	}
	return false;
}

/* ---- settings ---- */

static bool apply_next_subsys(struct rdt_reload *rl)
{
	struct rdt_subsys *ss;

	if (rl->at == rl->t->subsys_count)
		return true;
	ss = rl->t->subsys[rl->at];
	if (rl->next_of[rl->at]) {
		apply_subsys(rl, ss, rl->next_of[rl->at]);
	} else if (!ss->gone) {
		rdt_control_subsys_remove(ss);
		rl->subsys_removed++;
	}
	rl->at++;
	return false;
}

static bool apply_next_ns(struct rdt_reload *rl)
{
	const struct rdt_ns_config *cfg;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;

	if (!next_pair(rl, &ss, &ns, &cfg))
		return true;
	if (ns && cfg && ns->state == RDT_NS_LIVE && !ns->planned)
		apply_ns(rl, ns, cfg);
	return false;
}

/* ---- the plan ---- */

static int plan_change(struct rdt_reload *rl, struct rdt_subsys *ss, struct rdt_ns *ns,
		       const struct rdt_ns_config *cfg)
{
	struct change *ch;

	if (rl->count == rl->room) {
		unsigned int room = rl->room ? 2 * rl->room : 64;
		struct change *changes = realloc(rl->changes, room * sizeof(*changes));

		if (!changes)
			return -ENOMEM;
		rl->changes = changes;
		rl->room = room;
	}
	ch = &rl->changes[rl->count++];
	*ch = (struct change){.rl = rl, .ss = ss, .ns = ns, .cfg = cfg, .replaces = ns && cfg};
	if (ns)
		ns->planned = true;
	if (ns && ns->cfg->path) {
		ch->old_file = rdt_file_identify(ns->cfg->path);
		rl->files++;
	}
	return 0;
}

static bool changeable(const struct rdt_ns *ns)
{
	return ns->state == RDT_NS_LIVE || ns->state == RDT_NS_OPENING;
}

static bool plan_next(struct rdt_reload *rl)
{
	const struct rdt_ns_config *cfg;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;

	if (!next_pair(rl, &ss, &ns, &cfg))
		return true;
	if (ns && changeable(ns) && (!cfg || !same_namespace(ns, cfg)))
		rl->err = plan_change(rl, ss, ns, cfg);
	else if (cfg && (!ns || ns->state == RDT_NS_LEAVING))
		rl->err = plan_change(rl, ss, NULL, cfg);
	return false;
}

/* Plan for one subsystem of the new configuration. */
static bool plan_next_subsys(struct rdt_reload *rl)
{
	const struct rdt_subsys_config *next;
	struct rdt_subsys *ss;
	char text[256];

	if (rl->at == rl->next->subsystems_count)
		return true;
	next = &rl->next->subsystems[rl->at++];
	ss = rdt_subsys_find(rl->t, next->nqn);
	if (!ss)
		rl->err = rdt_control_subsys_add(rl->t, next, rl->next, &ss, text, sizeof(text));
	if (rl->err)
		rdt_reload_problem(rl, "%s: %s", next->nqn, text);
	else
		rl->next_of[ss->index] = next;
	return false;
}

static int by_old_file(const void *a, const void *b)
{
	const struct change *x = *(const struct change *const *)a;
	const struct change *y = *(const struct change *const *)b;

	return rdt_file_compare(&x->old_file, x->ns->cfg->path, &y->old_file, y->ns->cfg->path);
}

static int sort_files(struct rdt_reload *rl)
{
	unsigned int n = 0;

	rl->by_file = calloc(rl->files + 1, sizeof(*rl->by_file));
	if (!rl->by_file)
		return -ENOMEM;
	for (unsigned int i = 0; i < rl->count; i++)
		if (rl->changes[i].ns && rl->changes[i].ns->cfg->path)
			rl->by_file[n++] = &rl->changes[i];
	qsort(rl->by_file, n, sizeof(*rl->by_file), by_old_file);
	return 0;
}

/* Does a namespace that is about to be removed use the file of @cfg, under any name? */
static bool waits_for_removal(const struct rdt_reload *rl, const struct rdt_ns_config *cfg)
{
	struct rdt_file_id file;
	unsigned int lo = 0, hi = rl->files;

	if (!cfg->path || !rl->files)
		return false;
	file = rdt_file_identify(cfg->path);
	while (lo < hi) {
		unsigned int mid = lo + (hi - lo) / 2;
		const struct change *ch = rl->by_file[mid];
		int order = rdt_file_compare(&file, cfg->path, &ch->old_file, ch->ns->cfg->path);

		if (order == 0)
			return true;
		if (order < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return false;
}

/* Step 1. An error here, or while listening, leaves everything unchanged. */
static bool open_next(struct rdt_reload *rl)
{
	struct change *ch;
	char text[512];

	if (rl->at == rl->count)
		return true;
	ch = &rl->changes[rl->at++];
	if (!ch->cfg || waits_for_removal(rl, ch->cfg))
		return false;
	rl->err = rdt_control_open(rl->t, ch->cfg, &ch->bdev, text, sizeof(text));
	if (rl->err)
		rdt_reload_problem(rl, "%s namespace %u: %s", ch->ss->nqn, ch->cfg->nsid, text);
	return false;
}

/* ---- the end ---- */

static void release_reload(struct rdt_reload *rl)
{
	for (unsigned int i = 0; i < rl->count; i++) {
		rdt_bdev_close(&rl->changes[i].bdev);
		if (rl->changes[i].ns)
			rl->changes[i].ns->planned = false;
	}
	rd_defer_cancel(rl->t->loop, &rl->step);
	rdt_config_put(&rl->next);
	free(rl->next_of);
	free(rl->by_file);
	free(rl->changes);
	free(rl);
}

/* @rl has ended; @done may start the next reload. */
static void reload_over(struct rdt_reload *rl, bool applied, const char *text)
{
	struct rdt_target *t = rl->t;
	rdt_reload_done done = rl->done;
	void *arg = rl->done_arg;
	const struct rdt_reload_result result = {
		.applied = applied,
		.problems = rl->problems,
		.restarts = rl->restarts,
		.report = rl->report,
		.summary = text,
	};

	t->reload = NULL;
	release_reload(rl);
	done(arg, &result);
}

static size_t append_count(char *buf, size_t size, size_t len, unsigned int n, const char *what)
{
	int more;

	if (!n)
		return len;
	more = snprintf(buf + len, size - len, "%s%u %s", len ? ", " : "", n, what);
	return more < 0 || len + (size_t)more >= size ? len : len + (size_t)more;
}

static void summarize(const struct rdt_reload *rl, char *buf, size_t size)
{
	char text[320] = "";
	size_t len = 0;

	len = append_count(text, sizeof(text), len, rl->added, "namespaces added");
	len = append_count(text, sizeof(text), len, rl->removed, "removed");
	len = append_count(text, sizeof(text), len, rl->replaced, "replaced");
	len = append_count(text, sizeof(text), len, rl->resized, "resized");
	len = append_count(text, sizeof(text), len, rl->subsys_added, "subsystems added");
	len = append_count(text, sizeof(text), len, rl->subsys_removed, "subsystems removed");
	len = append_count(text, sizeof(text), len, rl->listeners.added, "listeners added");
	len = append_count(text, sizeof(text), len, rl->listeners.removed, "listeners removed");
	len = append_count(text, sizeof(text), len, rl->settings + rl->listeners.settings,
			   "settings changed");
	len = append_count(text, sizeof(text), len, rl->restarts, "changes that need a restart");
	if (rl->problems)
		snprintf(buf, size,
			 "reloaded in part: %s%s%u problems, named above; the next reload tries "
			 "again",
			 text, len ? ", " : "", rl->problems);
	else
		snprintf(buf, size, "reloaded: %s", len ? text : "nothing has changed");
}

static void finish_reload(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;
	char text[480];

	for (unsigned int i = 0; i < t->subsys_count; i++) {
		if (!t->subsys[i]->gone || !rl->next_of[i])
			continue;
		rdt_control_subsys_show(t->subsys[i]); /* together with its namespaces */
		rl->subsys_added++;
	}
	summarize(rl, text, sizeof(text));
	rd_log(t->log, RD_LOG_MAIN, rl->problems ? RD_LOG_ERROR : RD_LOG_NOTICE, "%s", text);
	if (!rl->problems) {
		rdt_config_put(&t->now);
		t->now = rdt_config_get(rl->next);
	}
	reload_over(rl, true, text);
}

/* ---- step by step ---- */

static void ns_added(void *arg, int err, const char *text)
{
	struct change *ch = arg;
	struct rdt_reload *rl = ch->rl;

	if (err)
		rdt_reload_problem(rl, "%s namespace %u: %s", ch->ss->nqn, ch->cfg->nsid, text);
	else if (ch->replaces)
		rl->replaced++;
	else
		rl->added++;
	control_answered(rl);
}

static bool add_next(struct rdt_reload *rl)
{
	struct change *ch;
	struct rdt_bdev *bdev;

	if (rl->at == rl->count)
		return true;
	ch = &rl->changes[rl->at++];
	if (!ch->cfg || ch->failed)
		return false;
	bdev = ch->bdev;
	ch->bdev = NULL;
	rl->waiting++;
	rdt_control_ns_add(ch->ss, ch->cfg, rl->next, bdev, ns_added, ch);
	return false;
}

static void add_all(struct rdt_reload *rl)
{
	reload_walk(rl, add_next, finish_reload);
}

static void ns_removed(void *arg, int err, const char *text)
{
	struct change *ch = arg;
	struct rdt_reload *rl = ch->rl;

	if (err) {
		ch->failed = true;
		rdt_reload_problem(rl, "%s namespace %u: %s", ch->ss->nqn, ch->ns->nsid, text);
	} else {
		ch->ns = NULL; /* it was freed */
		rl->removed += !ch->cfg;
	}
	control_answered(rl);
}

static bool remove_next(struct rdt_reload *rl)
{
	struct change *ch;

	if (rl->at == rl->count)
		return true;
	ch = &rl->changes[rl->at++];
	if (!ch->ns)
		return false;
	rl->waiting++;
	rdt_control_ns_remove(ch->ns, ns_removed, ch);
	return false;
}

static void remove_all(struct rdt_reload *rl)
{
	reload_walk(rl, remove_next, add_all);
}

static void apply_namespaces(struct rdt_reload *rl)
{
	reload_walk(rl, apply_next_ns, remove_all);
}

static void refuse_reload(struct rdt_reload *rl)
{
	char text[160];

	snprintf(text, sizeof(text), "not reloaded: %s; nothing was changed",
		 rl->problems ? "see above" : strerror(-rl->err));
	rd_err(rl->t->log, RD_LOG_MAIN, "%s", text);
	reload_over(rl, false, text);
}

static void listen_and_apply(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;

	if (!rl->err)
		rl->err = rdt_reload_listen(rl, t, rl->next, &rl->listeners);
	if (rl->err) {
		refuse_reload(rl);
		return;
	}
	rdt_restart_keys(t->cfg, rl->next, needs_restart, rl);
	for (unsigned int i = 0; target_fns[i]; i++)
		count_settings(rl, target_fns[i](rl, t, t->now, rl->next));
	reload_walk(rl, apply_next_subsys, apply_namespaces);
}

static void open_all(struct rdt_reload *rl)
{
	if (!rl->err)
		rl->err = sort_files(rl);
	if (rl->err)
		refuse_reload(rl);
	else
		reload_walk(rl, open_next, listen_and_apply);
}

static void compare_configs(struct rdt_reload *rl)
{
	if (rl->err)
		refuse_reload(rl);
	else
		reload_walk(rl, plan_next, open_all);
}

void rdt_reload(struct rdt_target *t, struct rdt_config *next, struct rdt_report *report,
		rdt_reload_done done, void *arg)
{
	const struct rdt_reload_result no_memory = {
		.summary = "not reloaded: out of memory; nothing was changed", .report = report};
	struct rdt_reload *rl = calloc(1, sizeof(*rl));

	assert(!t->reload);
	if (rl)
		rl->next_of = calloc(RDT_SUBSYSTEMS, sizeof(*rl->next_of));
	if (!rl || !rl->next_of) {
		free(rl);
		rd_err(t->log, RD_LOG_MAIN, "%s", no_memory.summary);
		done(arg, &no_memory);
		return;
	}
	rl->report = report;
	rl->done = done;
	rl->done_arg = arg;
	rl->t = t;
	rl->next = rdt_config_get(next);
	rl->step.fn = reload_step;
	t->reload = rl;
	reload_walk(rl, plan_next_subsys, compare_configs);
}

void rdt_reload_fini(struct rdt_target *t)
{
	if (t->reload)
		release_reload(t->reload);
	t->reload = NULL;
}
