/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes another configuration the desired state. What cannot be had as a whole is refused before
 * anything is touched: new subsystems without a place, listeners without their address. From then
 * on it is applied: settings at once, and each namespace comes, goes or changes by itself
 * (control.h), so that one whose storage hangs delays no other and no later change.
 * docs/design/reconciler.md
 *
 * There may be thousands of changes, so each step is a walk that stops after STEP_NS and continues
 * in the next turn of the loop.
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
#include "target/config/backends.h"
#include "target/config/config.h"
#include "compare.h"
#include "control.h"
#include "http.h"
#include "opening.h"
#include "report.h"
#include "target/bdev/layer.h"
#include "target/cmd/admin.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/qos_queue.h"
#include "target/nvmf/subsys.h"
#include "target/resv/identity.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/config/tgt_limits.h"

/* Time per turn that a reload may take from the main loop. */
#define STEP_NS        (4 * RD_NSEC_PER_MSEC)
#define IN_FLIGHT      256u /* maximum of namespaces for which reactors have not answered */
#define IN_FLIGHT_LOOK RD_NSEC_PER_MSEC
/* How long whoever asked waits for objects that are in progress. */
#define SETTLE (15 * RD_NSEC_PER_SEC)

/* What a reload does with one namespace. */
enum part_kind {
	PART_ADD,
	PART_REPLACE,
	PART_CLEAR,
	PART_REMOVE,
	PART_RETRY,
	PART_WAIT,
	PART_SIZE,
	PARTS
};

struct part {
	LIST_ENTRY(part) link; /* rl->parts */
	struct rdt_reload *rl;
	struct rdt_subsys *ss; /* held */
	uint32_t nsid;
	enum part_kind kind;
};

/* It exists until all its parts have ended, and is told about at the end of @waiting at the latest.
 */
struct rdt_reload {
	struct rdt_target *t;
	LIST_ENTRY(rdt_reload) link; /* target->reloads */
	struct rdt_report *report;   /* of who asked; NULL after @how.done */
	struct rdt_reload_how how;
	struct rdt_config *next;                  /* the configuration being applied; a reference */
	const struct rdt_subsys_config **next_of; /* by subsys->index; NULL: removed */

	/* the running walk */
	struct rd_defer step;
	/* Processes one item; returns true after the last one */
	bool (*walk)(struct rdt_reload *rl);
	/* Runs after the walk; @err is 0 or the reason for its end */
	void (*then)(struct rdt_reload *rl);
	int err;
	unsigned int at; /* index of the subsystem, or slot of the namespace */
	uint32_t ns_at;  /* index of the namespace in the configuration of that subsystem */
	bool walked;     /* all walks have ended */

	LIST_HEAD(, part) parts; /* that have not ended */
	unsigned int waiting;    /* their number */
	struct rd_timer timer;   /* the walk waits for reactors; then the end of SETTLE */
	unsigned int ended[PARTS];
	unsigned int resized;
	unsigned int going_on;       /* parts that take long */
	struct rdt_identity_end end; /* of what is removed; counts in @waiting */
	unsigned int subsys_added;
	unsigned int subsys_removed;
	struct rdt_listeners_change listeners;
	unsigned int settings;
	unsigned int problems;
	unsigned int restarts;
};

static __attribute__((format(printf, 2, 3))) void reload_problem(struct rdt_reload *rl,
								 const char *fmt, ...)
{
	char text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rl->problems++;
	if (rl->report)
		rdt_report_add(rl->report, RD_LOG_ERROR, text);
	rd_err(rl->t->log, RD_LOG_CONFIG, "reload: %s", text);
}

void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT])
{
	snprintf(text, RDT_RESTART_TEXT, "%s %s: a change needs a restart; the old value stays",
		 where, key);
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

/* ---- what changes at once ---- */

static void start_part(struct rdt_reload *rl, struct rdt_subsys *ss, struct rdt_ns *ns,
		       const struct rdt_ns_config *cfg, enum part_kind kind);

static int set_size(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
		    const struct rdt_ns_config *next)
{
	bool asks = rdt_backend_kind(next)->disk;
	uint64_t before = ns->blocks;
	char text[512];
	int err;

	if (asks) {
		if (rl->how.looks || now->size_bytes != next->size_bytes)
			start_part(rl, ns->subsys, ns, next, PART_SIZE);
		return 0;
	}
	err = rdt_control_ns_resize(ns, next->size_bytes, text, sizeof(text));
	if (err)
		reload_problem(rl, "%s namespace %u: %s", ns->subsys->nqn, ns->nsid, text);
	else if (ns->blocks != before)
		rl->resized++;
	return err;
}

static int set_ana_group(struct rdt_ns *ns, const struct rdt_ns_config *now,
			 const struct rdt_ns_config *next)
{
	if (rdt_ns_ana_group(ns) == next->ana_group)
		return 0;
	rdt_ana_move(ns, next->ana_group);
	if (rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev))) /* this looks at all namespaces */
		rdt_opening_standby(ns->subsys->target);
	return 1;
}

/* The settings of namespaces and subsystems that change at once: each returns how many it has
 * changed, or -errno. */
static const struct {
	const char *what;
	int (*follow)(struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next);
} ns_settings[] = {
	{"hosts", rdt_ns_follow_hosts},
	{"qos", rdt_qos_follow_ns},
	{"read_only", rdt_ns_follow_read_only},
	{"ana_group", set_ana_group},
	{NULL, NULL},
};
static const struct {
	const char *what;
	int (*follow)(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
		      const struct rdt_subsys_config *next, struct rdt_config *next_of);
} subsys_settings[] = {
	{"hosts and host_auth", rdt_subsys_follow_hosts},
	{"shared_host_ids", rdt_subsys_follow_ctrls},
	{"host_qos", rdt_qos_follow_hosts},
	{NULL, NULL},
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
	/* What was opened for writing can be protected, and unprotected again. Gateways
	 * have a lock that depends on it. */
	return same_config(ns->now, next) &&
	       (next->read_only == ns->now->read_only ||
		(!ns->bdev->read_only && !rdt_backend_kind(next)->gateways));
}

static void apply_ns(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	bool ok = set_size(rl, ns, ns->now, next) >= 0, changed = false;

	for (unsigned int i = 0; ns_settings[i].what; i++) {
		int n = ns_settings[i].follow(ns, ns->now, next);

		count_settings(rl, n);
		changed |= n > 0;
		ok &= n >= 0;
		if (n < 0)
			reload_problem(rl, "%s namespace %u: %s: %s", ns->subsys->nqn, ns->nsid,
				       ns_settings[i].what, strerror(-n));
	}
	if (!ok)
		return; /* the next reload tries again */
	rdt_config_put(&ns->now_of);
	ns->now_of = rdt_config_get(rl->next);
	ns->now = next;
	if (changed && !rl->how.looks) /* PART_SIZE would do it */
		rdt_compare_now(ns);
}

static void apply_subsys(struct rdt_reload *rl, struct rdt_subsys *ss,
			 const struct rdt_subsys_config *next)
{
	bool ok = true;

	/* Compared with the value at the start, so the warning is repeated until the restart. */
	rdt_config_subsys_restarts(ss->cfg, next, needs_restart, rl);
	for (unsigned int i = 0; subsys_settings[i].what; i++) {
		int n = subsys_settings[i].follow(ss, ss->now, next, rl->next);

		if (rdt_subsys_live(ss))
			count_settings(rl, n);
		ok &= n >= 0;
		if (n < 0)
			reload_problem(rl, "%s: %s: %s", ss->nqn, subsys_settings[i].what,
				       strerror(-n));
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
		if (t->ns_moving >= IN_FLIGHT &&
		    !rd_timer_start(t->loop, &rl->timer, IN_FLIGHT_LOOK))
			return;
		if (rd_loop_now_raw(t->loop) < end)
			continue;
		rd_defer(t->loop, &rl->step, RD_DEFER_NEXT);
		return;
	}
	rl->then(rl);
}

static void step_again(struct rd_timer *timer)
{
	struct rdt_reload *rl = rd_container_of(timer, struct rdt_reload, timer);

	reload_step(&rl->step);
}

static void reload_walk(struct rdt_reload *rl, bool (*fn)(struct rdt_reload *rl),
			void (*then)(struct rdt_reload *rl))
{
	rl->walk = fn;
	rl->then = then;
	rl->at = 0;
	rl->ns_at = 0;
	reload_step(&rl->step);
}

/* ---- settings ---- */

static bool apply_next_subsys(struct rdt_reload *rl)
{
	struct rdt_subsys *ss;

	if (rl->at == rl->t->subsys_count)
		return true;
	ss = rl->t->subsys[rl->at];
	if (ss && rl->next_of[rl->at]) {
		apply_subsys(rl, ss, rl->next_of[rl->at]);
	} else if (ss && rdt_subsys_live(ss)) {
		rdt_control_subsys_remove(ss);
		rl->subsys_removed++;
	}
	rl->at++;
	return false;
}

/* ---- namespaces ---- */

/* The parts that nobody waits for any more still count for the end of @rl. */
static void reload_settled(struct rdt_reload *rl);

static void free_part(struct part *p)
{
	LIST_REMOVE(p, link);
	rdt_subsys_put(p->ss);
	free(p);
}

static void part_ended(void *arg, int err, const char *text)
{
	struct part *p = arg;
	struct rdt_reload *rl = p->rl;

	rl->waiting--;
	if (p->kind == PART_SIZE && err == 1) {
		rl->resized++;
	} else if (err == -EINPROGRESS) {
		rl->going_on++;
		if (rl->report)
			rdt_report_add(rl->report, RD_LOG_WARN, text);
	} else if (err < 0 && err != -ECANCELED) {
		reload_problem(rl, "%s namespace %u: %s", p->ss->nqn, p->nsid, text);
	} else if (!err) {
		rl->ended[p->kind]++;
	}
	free_part(p);
	reload_settled(rl);
}

static void start_part(struct rdt_reload *rl, struct rdt_subsys *ss, struct rdt_ns *ns,
		       const struct rdt_ns_config *cfg, enum part_kind kind)
{
	struct part *p = calloc(1, sizeof(*p));

	if (!p) {
		reload_problem(rl, "%s: out of memory; the next reload tries again", ss->nqn);
		return;
	}
	*p = (struct part){.rl = rl, .ss = ss, .nsid = ns ? ns->nsid : cfg->nsid, .kind = kind};
	rdt_subsys_hold(ss);
	LIST_INSERT_HEAD(&rl->parts, p, link);
	rl->waiting++;
	switch (kind) {
	case PART_ADD:
	case PART_REPLACE:
		rdt_control_ns_add(ss, cfg, rl->next, part_ended, p);
		break;
	case PART_CLEAR:
	case PART_REMOVE:
		rdt_control_ns_remove(ns, part_ended, p);
		break;
	case PART_RETRY:
		rdt_control_ns_retry(ns, part_ended, p);
		break;
	case PART_WAIT:
		rdt_control_ns_wait(ns, part_ended, p);
		break;
	default:
		rdt_control_ns_measure(ns, cfg->size_bytes, part_ended, p);
		break;
	}
}

/* What a namespace that is not LIVE will become. */
static bool same_when_opened(const struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	return same_config(ns->now, next) && ns->now->read_only == next->read_only &&
	       ns->now->ana_group == next->ana_group && rdt_config_same_ns_hosts(ns->now, next) &&
	       rdt_config_same_limits(ns->now->qos, next->qos) &&
	       ns->now->size_bytes == next->size_bytes;
}

static const struct rdt_ns_config *ns_config(const struct rdt_subsys_config *ss, uint32_t nsid)
{
	uint32_t lo = 0, hi = ss ? ss->namespaces_count : 0;

	while (lo < hi) { /* they are sorted */
		uint32_t mid = lo + (hi - lo) / 2;

		if (ss->namespaces[mid].nsid == nsid)
			return &ss->namespaces[mid];
		if (ss->namespaces[mid].nsid < nsid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* One that exists: it goes, is replaced, or takes its settings. */
static bool converge_next(struct rdt_reload *rl)
{
	const struct rdt_ns_config *cfg;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;

	if (rl->at == RDT_NS_SLOTS)
		return true;
	ns = rl->t->ns[rl->at++];
	if (!ns || !ns->listed || ns->now_of == rl->next) /* it has just come */
		return false;
	ss = ns->subsys;
	cfg = ns_config(rl->next_of[ss->index], ns->nsid);
	if (!cfg) {
		start_part(rl, ss, ns, NULL, PART_REMOVE);
	} else if (ns->state == RDT_NS_LIVE ? !same_namespace(ns, cfg)
					    : !same_when_opened(ns, cfg)) {
		start_part(rl, ss, ns, NULL, PART_CLEAR);
		start_part(rl, ss, NULL, cfg, PART_REPLACE);
	} else if (ns->state == RDT_NS_FAILED && rl->how.looks) {
		start_part(rl, ss, ns, cfg, PART_RETRY);
	} else if (rl->how.looks && rdt_control_ns_settling(ns)) {
		start_part(rl, ss, ns, cfg, PART_WAIT);
	} else if (ns->state == RDT_NS_LIVE) {
		apply_ns(rl, ns, cfg);
	}
	return false;
}

/* One of the configuration: it comes. */
static bool add_next(struct rdt_reload *rl)
{
	const struct rdt_subsys_config *next = NULL;
	const struct rdt_ns_config *cfg;

	for (; rl->at < rl->t->subsys_count; rl->at++, rl->ns_at = 0) {
		next = rl->next_of[rl->at];
		if (next && rl->ns_at < next->namespaces_count)
			break;
	}
	if (rl->at == rl->t->subsys_count || !next)
		return true;
	cfg = &next->namespaces[rl->ns_at++];
	if (!rdt_ns_with(rl->t->subsys[rl->at], cfg->nsid))
		start_part(rl, rl->t->subsys[rl->at], NULL, cfg, PART_ADD);
	return false;
}

/* ---- subsystems ---- */

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
		reload_problem(rl, "%s: %s", next->nqn, text);
	else
		rl->next_of[ss->index] = next;
	return false;
}

/* ---- the end ---- */

static void release_reload(struct rdt_reload *rl)
{
	struct part *p;

	while ((p = LIST_FIRST(&rl->parts))) /* at the end of the target */
		free_part(p);
	rd_defer_cancel(rl->t->loop, &rl->step);
	rd_timer_stop(rl->t->loop, &rl->timer);
	LIST_REMOVE(rl, link);
	rdt_config_put(&rl->next);
	free(rl->next_of);
	free(rl);
}

/* Tell who asked, who may start the next reload; @rl may exist longer. */
static void reload_over(struct rdt_reload *rl, bool applied, const char *text)
{
	const struct rdt_reload_result result = {
		.applied = applied,
		.problems = rl->problems,
		.restarts = rl->restarts,
		.going_on = rl->waiting + rl->going_on,
		.report = rl->report,
		.summary = text,
	};

	rd_timer_stop(rl->t->loop, &rl->timer);
	rl->report = NULL;
	rl->how.done(rl->how.arg, &result);
}

const char *rdt_reload_outcome(const struct rdt_reload_result *result)
{
	if (!result->applied)
		return "refused";
	if (result->problems)
		return "failed";
	return result->going_on ? "in progress" : "done";
}

static size_t append_count(char *buf, size_t size, size_t len, unsigned int n, const char *one,
			   const char *many)
{
	int more;

	if (!n)
		return len;
	more = snprintf(buf + len, size - len, "%s%u %s", len ? ", " : "", n, n == 1 ? one : many);
	return more < 0 || len + (size_t)more >= size ? len : len + (size_t)more;
}

static void summarize(const struct rdt_reload *rl, char *buf, size_t size)
{
	char text[320] = "";
	size_t len = 0;

	len = append_count(text, sizeof(text), len, rl->ended[PART_ADD] + rl->ended[PART_RETRY],
			   "namespace added", "namespaces added");
	len = append_count(text, sizeof(text), len, rl->ended[PART_REMOVE], "removed", "removed");
	len = append_count(text, sizeof(text), len, rl->ended[PART_REPLACE], "replaced",
			   "replaced");
	len = append_count(text, sizeof(text), len, rl->resized, "resized", "resized");
	len = append_count(text, sizeof(text), len, rl->subsys_added, "subsystem added",
			   "subsystems added");
	len = append_count(text, sizeof(text), len, rl->subsys_removed, "subsystem removed",
			   "subsystems removed");
	len = append_count(text, sizeof(text), len, rl->listeners.added, "listener added",
			   "listeners added");
	len = append_count(text, sizeof(text), len, rl->listeners.removed, "listener removed",
			   "listeners removed");
	len = append_count(text, sizeof(text), len, rl->settings + rl->listeners.settings,
			   "setting changed", "settings changed");
	len = append_count(text, sizeof(text), len, rl->restarts, "change that needs a restart",
			   "changes that need a restart");
	len = append_count(text, sizeof(text), len, rl->waiting + rl->going_on, "in progress",
			   "in progress");
	if (rl->problems)
		snprintf(buf, size,
			 "reloaded in part: %s%s%u problem%s, named above; what failed is tried "
			 "again",
			 text, len ? ", " : "", rl->problems, rl->problems == 1 ? "" : "s");
	else
		snprintf(buf, size, "reloaded: %s", len ? text : "nothing has changed");
}

static void tell_reload(struct rdt_reload *rl)
{
	char text[480];

	summarize(rl, text, sizeof(text));
	rd_log(rl->t->log, RD_LOG_MAIN, rl->problems ? RD_LOG_ERROR : RD_LOG_NOTICE, "%s", text);
	reload_over(rl, true, text);
}

static void settle_timed_out(struct rd_timer *timer)
{
	tell_reload(rd_container_of(timer, struct rdt_reload, timer));
}

static void reload_settled(struct rdt_reload *rl)
{
	if (!rl->walked || rl->waiting)
		return;
	if (rl->report && !rl->t->drained)
		tell_reload(rl);
	release_reload(rl);
}

/* It is stored that the state of what was removed has ended. */
static void identities_ended(struct rdt_identity_end *end, int err, const char *why)
{
	struct rdt_reload *rl = rd_container_of(end, struct rdt_reload, end);

	rl->waiting--;
	if (err)
		reload_problem(rl,
			       "the reservations and write protection of what was removed have "
			       "not ended: %s",
			       why);
	reload_settled(rl);
}

/* All is begun: the next reload may start. */
static void reload_walked(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;

	rl->end.done = identities_ended;
	rl->waiting += rdt_identities_settle(t->identities, rl->how.keep_state, &rl->end);
	for (unsigned int i = 0; i < t->subsys_count; i++) {
		struct rdt_subsys *ss = t->subsys[i];

		if (!ss || ss->state != RDT_SUBSYS_NEW)
			continue;
		rdt_control_subsys_show(ss);
		rl->subsys_added++;
	}
	rl->walked = true;
	if (rl->how.applied)
		rl->how.applied(rl->how.arg);
	rl->timer.fn = settle_timed_out;
	if (rl->waiting && rd_timer_start(t->loop, &rl->timer, SETTLE))
		tell_reload(rl);
	reload_settled(rl);
}

/* ---- step by step ---- */

static void begin_additions(struct rdt_reload *rl)
{
	reload_walk(rl, add_next, reload_walked);
}

static void converge_namespaces(struct rdt_reload *rl)
{
	reload_walk(rl, converge_next, begin_additions);
}

static void refuse_reload(struct rdt_reload *rl)
{
	struct rdt_subsys *ss;
	unsigned int at = 0;
	char text[160];

	while ((ss = rdt_subsys_next(rl->t, &at)))
		if (ss->state == RDT_SUBSYS_NEW)
			rdt_subsys_leave(ss, "it was refused");
	snprintf(text, sizeof(text), "not reloaded: %s; nothing was changed",
		 rl->problems ? "see above" : strerror(-rl->err));
	rd_err(rl->t->log, RD_LOG_MAIN, "%s", text);
	reload_over(rl, false, text);
	release_reload(rl);
}

/* The settings of the target, whose values do not depend on other objects. */
static void apply_target(struct rdt_reload *rl, struct rdt_target *t)
{
	char text[RDT_HTTP_TEXT];
	int n = rdt_referrals_set(t, rl->next->referrals, rl->next->referrals_count);

	count_settings(rl, n);
	if (n < 0)
		reload_problem(rl, "referrals: %s", strerror(-n));
	n = rdt_subsys_follow_hosts(&t->disc, &t->now->discovery, &rl->next->discovery, rl->next);
	count_settings(rl, n);
	if (n < 0)
		reload_problem(rl, "discovery: host_auth: %s", strerror(-n));
	n = t->http ? rdt_http_set(t->http, &rl->next->http, text, sizeof(text)) : 0;
	count_settings(rl, n);
	if (n < 0)
		reload_problem(rl, "%s", text);
	rdt_config_restarts(t->cfg, rl->next, needs_restart, rl);
}

static void listener_failed(void *arg, const char *text)
{
	reload_problem(arg, "%s", text);
}

static void listen_and_apply(struct rdt_reload *rl)
{
	struct rdt_target *t = rl->t;

	if (rl->err) {
		refuse_reload(rl);
		return;
	}
	rdt_listeners_set(t, rl->next, rl->how.looks, listener_failed, rl, &rl->listeners);
	apply_target(rl, t);
	/* The desired state, whatever becomes of its objects. */
	rdt_config_put(&t->now);
	t->now = rdt_config_get(rl->next);
	reload_walk(rl, apply_next_subsys, converge_namespaces);
}

void rdt_reload(struct rdt_target *t, struct rdt_config *next, struct rdt_report *report,
		const struct rdt_reload_how *how)
{
	const struct rdt_reload_result no_memory = {
		.summary = "not reloaded: out of memory; nothing was changed", .report = report};
	struct rdt_reload *rl = calloc(1, sizeof(*rl));

	if (rl)
		rl->next_of = calloc(RDT_SUBSYS_PLACES, sizeof(*rl->next_of));
	if (!rl || !rl->next_of) {
		free(rl);
		rd_err(t->log, RD_LOG_MAIN, "%s", no_memory.summary);
		how->done(how->arg, &no_memory);
		return;
	}
	rl->report = report;
	rl->how = *how;
	rl->t = t;
	rl->next = rdt_config_get(next);
	rl->step.fn = reload_step;
	rl->timer.fn = step_again;
	LIST_INSERT_HEAD(&t->reloads, rl, link);
	reload_walk(rl, plan_next_subsys, listen_and_apply);
}

void rdt_reload_fini(struct rdt_target *t)
{
	while (!LIST_EMPTY(&t->reloads))
		release_reload(LIST_FIRST(&t->reloads));
}
