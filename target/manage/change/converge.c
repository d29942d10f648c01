/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes another configuration the desired state. A change that cannot be applied, because the
 * target has no room for its new subsystems, is refused before anything is modified. Otherwise
 * settings are set at once, and each listener and namespace is added, removed or changed
 * independently (control.h), so that hanging storage delays neither other objects nor later
 * changes. docs/design/reconciler.md
 *
 * There may be thousands of objects, so each step is a walk that stops after STEP_NS and continues
 * in the next loop iteration.
 */
#include "change.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "target/bdev/backend.h"
#include "target/cmd/admin.h"
#include "target/config/backends.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/qos_queue.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/resv/identity.h"
#include "target/manage/objects/compare.h"
#include "target/manage/objects/control.h"
#include "mgmt_if.h"
#include "target/manage/objects/opening.h"

/* Maximum time of a change in one iteration of the main loop. */
#define STEP_NS         (4 * RD_NSEC_PER_MSEC)
#define IN_FLIGHT       256u /* maximum of namespaces for which reactors have not answered */
#define IN_FLIGHT_CHECK RD_NSEC_PER_MSEC
/* Maximum time that a requester waits for operations in progress. */
#define SETTLE (15 * RD_NSEC_PER_SEC)

struct rdt_change_part {                  /* an operation on a namespace */
	LIST_ENTRY(rdt_change_part) link; /* change->parts */
	struct rdt_change *ch;
	struct rdt_subsys *ss; /* held */
	uint32_t nsid;
	enum rdt_part_kind kind;
};

static __attribute__((format(printf, 2, 3))) void change_problem(struct rdt_change *ch,
								 const char *fmt, ...)
{
	char text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ch->problems++;
	rdt_report_add(&ch->report, RD_LOG_ERROR, text);
	rd_err(ch->t->log, RD_LOG_CONFIG, "reload: %s", text);
}

void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT])
{
	snprintf(text, RDT_RESTART_TEXT, "%s %s: a change needs a restart; the old value stays",
		 where, key);
}

static void needs_restart(void *arg, const char *where, const char *key)
{
	struct rdt_change *ch = arg;
	char text[RDT_RESTART_TEXT];

	rdt_restart_text(where, key, text);
	ch->restarts++;
	rdt_report_add(&ch->report, RD_LOG_WARN, text);
	rd_warn(ch->t->log, RD_LOG_CONFIG, "reload: %s", text);
}

/* Whether to check also storage: of @ns, or (NULL) of listeners. An edit names one namespace for
 * it. */
static bool checks_storage(const struct rdt_change *ch, const struct rdt_ns *ns)
{
	return ch->kind != RDT_CHANGE_EDIT ||
	       (ns && ns->nsid == ch->check_nsid && strcmp(ns->subsys->nqn, ch->check_nqn) == 0);
}

/* ---- settings that take effect at once ---- */

static void start_part(struct rdt_change *ch, struct rdt_subsys *ss, struct rdt_ns *ns,
		       const struct rdt_ns_config *cfg, enum rdt_part_kind kind);

static int set_size(struct rdt_change *ch, struct rdt_ns *ns, const struct rdt_ns_config *now,
		    const struct rdt_ns_config *next)
{
	bool asks = rdt_backend_kind(next)->disk;
	uint64_t before = ns->blocks;
	char text[512];
	int err;

	if (asks) {
		if (checks_storage(ch, ns) || now->size_bytes != next->size_bytes)
			start_part(ch, ns->subsys, ns, next, RDT_PART_SIZE);
		return 0;
	}
	err = rdt_control_ns_resize(ns, next->size_bytes, text, sizeof(text));
	if (err)
		change_problem(ch, "%s namespace %u: %s", ns->subsys->nqn, ns->nsid, text);
	else if (ns->blocks != before)
		ch->resized++;
	return err;
}

static int set_ana_group(struct rdt_ns *ns, const struct rdt_ns_config *now,
			 const struct rdt_ns_config *next)
{
	if (rdt_ns_ana_group(ns) == next->ana_group)
		return 0;
	rdt_ana_move(ns, next->ana_group);
	rdt_opening_standby(ns);
	return 1;
}

/* Settings of namespaces and subsystems that take effect at once. Each function returns how many
 * settings it changed, or -errno. */
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
	{"discovery_transport", rdt_disc_follow_subsys},
	{NULL, NULL},
};

/* @n: the result of a setting's function. Returns false and reports a problem if it is an error. */
static __attribute__((format(printf, 3, 4))) bool followed(struct rdt_change *ch, int n,
							   const char *fmt, ...)
{
	char text[640];
	va_list ap;

	if (n >= 0) {
		ch->settings += (unsigned int)n;
		return true;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	change_problem(ch, "%s: %s", text, strerror(-n));
	return false;
}

/* Whether @ns can follow @next without being replaced. */
static bool same_namespace(const struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	/* Storage opened for writing can be made read-only and writable again; opened read-only, it
	 * cannot be written to. An RBD image shared by gateways has a lock that depends on
	 * read_only. */
	return rdt_config_same_ns(ns->now, next, true) &&
	       (next->read_only == ns->now->read_only ||
		(!ns->bdev->read_only && !rdt_backend_kind(next)->gateways));
}

static void apply_ns(struct rdt_change *ch, struct rdt_ns *ns, const struct rdt_ns_config *next)
{
	bool ok = set_size(ch, ns, ns->now, next) >= 0, changed = false;

	for (unsigned int i = 0; ns_settings[i].what; i++) {
		int n = ns_settings[i].follow(ns, ns->now, next);

		changed |= n > 0;
		ok &= followed(ch, n, "%s namespace %u: %s", ns->subsys->nqn, ns->nsid,
			       ns_settings[i].what);
	}
	if (!ok)
		return; /* the next reload tries again */
	rdt_config_put(&ns->now_of);
	ns->now_of = rdt_config_get(ch->next);
	ns->now = next;
	if (changed && !checks_storage(ch, ns)) /* RDT_PART_SIZE does that */
		rdt_compare_now(ns);
}

static void apply_subsys(struct rdt_change *ch, struct rdt_subsys *ss,
			 const struct rdt_subsys_config *next)
{
	bool ok = true;

	/* Compared with the value at the start, so the warning is repeated until the restart. */
	rdt_config_subsys_restarts(ss->cfg, next, needs_restart, ch);
	for (unsigned int i = 0; subsys_settings[i].what; i++) {
		int n = subsys_settings[i].follow(ss, ss->now, next, ch->next);

		ok &= followed(ch, n > 0 && !rdt_subsys_live(ss) ? 0 : n, "%s: %s", ss->nqn,
			       subsys_settings[i].what);
	}
	if (!ok)
		return;
	rdt_config_put(&ss->now_of);
	ss->now_of = rdt_config_get(ch->next);
	ss->now = next;
}

/* ---- settings ---- */

static bool apply_next_subsys(struct rdt_change *ch)
{
	struct rdt_subsys *ss;

	if (ch->at == ch->t->subsys_count)
		return true;
	ss = ch->t->subsys[ch->at];
	if (ss && ch->next_of[ch->at]) {
		apply_subsys(ch, ss, ch->next_of[ch->at]);
	} else if (ss && rdt_subsys_live(ss)) {
		rdt_control_subsys_remove(ss);
		ch->subsys_removed++;
	}
	ch->at++;
	return false;
}

/* ---- namespaces ---- */

static void check_settled(struct rdt_change *ch);

static void free_part(struct rdt_change_part *p)
{
	LIST_REMOVE(p, link);
	rdt_subsys_put(p->ss);
	free(p);
}

static void part_ended(void *arg, int err, const char *text)
{
	struct rdt_change_part *p = arg;
	struct rdt_change *ch = p->ch;

	ch->waiting--;
	if (p->kind == RDT_PART_SIZE && err == 1) {
		ch->resized++;
	} else if (err == -EINPROGRESS) {
		ch->in_progress++;
		rdt_report_add(&ch->report, RD_LOG_WARN, text);
	} else if (err < 0 && err != -ECANCELED) {
		change_problem(ch, "%s namespace %u: %s", p->ss->nqn, p->nsid, text);
	} else if (!err) {
		ch->ended[p->kind]++;
	}
	free_part(p);
	check_settled(ch);
}

static void start_part(struct rdt_change *ch, struct rdt_subsys *ss, struct rdt_ns *ns,
		       const struct rdt_ns_config *cfg, enum rdt_part_kind kind)
{
	struct rdt_change_part *p = calloc(1, sizeof(*p));

	if (!p) {
		change_problem(ch, "%s: out of memory; the next reload tries again", ss->nqn);
		return;
	}
	*p = (struct rdt_change_part){
		.ch = ch, .ss = ss, .nsid = ns ? ns->nsid : cfg->nsid, .kind = kind};
	rdt_subsys_hold(ss);
	LIST_INSERT_HEAD(&ch->parts, p, link);
	ch->waiting++;
	switch (kind) {
	case RDT_PART_ADD:
	case RDT_PART_REPLACE:
		rdt_control_ns_add(ss, cfg, ch->next, part_ended, p);
		break;
	case RDT_PART_CLEAR:
	case RDT_PART_REMOVE:
		rdt_control_ns_remove(ns, part_ended, p);
		break;
	case RDT_PART_RETRY:
		rdt_control_ns_retry(ns, part_ended, p);
		break;
	case RDT_PART_WAIT:
		rdt_control_ns_wait(ns, part_ended, p);
		break;
	default:
		rdt_control_ns_measure(ns, cfg->size_bytes, part_ended, p);
		break;
	}
}

static const struct rdt_ns_config *ns_config(const struct rdt_subsys_config *ss, uint32_t nsid)
{
	uint32_t lo = 0, hi = ss ? ss->namespaces_count : 0;

	while (lo < hi) {
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

/* Removes or replaces an existing namespace, or changes its settings. */
static bool converge_next(struct rdt_change *ch)
{
	const struct rdt_ns_config *cfg;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;

	if (ch->at == RDT_NS_SLOTS)
		return true;
	ns = ch->t->ns[ch->at++];
	if (!ns || !ns->listed || ns->now_of == ch->next) /* it was added by this change */
		return false;
	ss = ns->subsys;
	cfg = ns_config(ch->next_of[ss->index], ns->nsid);
	if (!cfg) {
		start_part(ch, ss, ns, NULL, RDT_PART_REMOVE);
	} else if (ns->state == RDT_NS_LIVE ? !same_namespace(ns, cfg)
					    : !rdt_config_same_ns(ns->now, cfg, false)) {
		start_part(ch, ss, ns, NULL, RDT_PART_CLEAR);
		start_part(ch, ss, NULL, cfg, RDT_PART_REPLACE);
	} else if (ns->state == RDT_NS_FAILED && checks_storage(ch, ns)) {
		start_part(ch, ss, ns, cfg, RDT_PART_RETRY);
	} else if (checks_storage(ch, ns) && rdt_control_ns_settling(ns)) {
		start_part(ch, ss, ns, cfg, RDT_PART_WAIT);
	} else if (ns->state == RDT_NS_LIVE) {
		apply_ns(ch, ns, cfg);
	}
	return false;
}

/* Adds a namespace of the configuration. */
static bool add_next(struct rdt_change *ch)
{
	const struct rdt_subsys_config *next = NULL;
	const struct rdt_ns_config *cfg;

	for (; ch->at < ch->t->subsys_count; ch->at++, ch->ns_at = 0) {
		next = ch->next_of[ch->at];
		if (next && ch->ns_at < next->namespaces_count)
			break;
	}
	if (ch->at == ch->t->subsys_count || !next)
		return true;
	cfg = &next->namespaces[ch->ns_at++];
	if (!rdt_ns_with(ch->t->subsys[ch->at], cfg->nsid))
		start_part(ch, ch->t->subsys[ch->at], NULL, cfg, RDT_PART_ADD);
	return false;
}

/* ---- subsystems ---- */

/* Finds the next subsystem of the new configuration, or adds it. */
static bool plan_next_subsys(struct rdt_change *ch)
{
	const struct rdt_subsys_config *next;
	struct rdt_subsys *ss;
	char text[256];

	if (ch->at == ch->next->subsystems_count)
		return true;
	next = &ch->next->subsystems[ch->at++];
	ss = rdt_subsys_find(ch->t, next->nqn);
	if (!ss && rdt_control_subsys_add(ch->t, next, ch->next, &ss, text, sizeof(text))) {
		change_problem(ch, "%s: %s", next->nqn, text);
		return true;
	}
	ch->next_of[ss->index] = next;
	return false;
}

/* ---- the end ---- */

static void release_change(struct rdt_change *ch)
{
	struct rdt_change_part *p;

	while ((p = LIST_FIRST(&ch->parts))) /* when the target stops */
		free_part(p);
	rd_defer_cancel(ch->t->loop, &ch->step);
	rd_timer_stop(ch->t->loop, &ch->timer);
	LIST_REMOVE(ch, converging);
	free(ch->next_of);
	rdt_change_free(ch);
}

static void summarize(struct rdt_change *ch)
{
	const struct {
		unsigned int n;
		const char *one, *many;
	} rows[] = {
		{ch->ended[RDT_PART_ADD] + ch->ended[RDT_PART_RETRY], "namespace added",
		 "namespaces added"},
		{ch->ended[RDT_PART_REMOVE], "removed", "removed"},
		{ch->ended[RDT_PART_REPLACE], "replaced", "replaced"},
		{ch->resized, "resized", "resized"},
		{ch->subsys_added, "subsystem added", "subsystems added"},
		{ch->subsys_removed, "subsystem removed", "subsystems removed"},
		{ch->listeners.added, "listener added", "listeners added"},
		{ch->listeners.removed, "listener removed", "listeners removed"},
		{ch->settings + ch->listeners.settings, "setting changed", "settings changed"},
		{ch->restarts, "change that needs a restart", "changes that need a restart"},
		{ch->in_progress, "in progress", "in progress"},
	};
	char text[400] = "";
	size_t len = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].n) /* there is room for all eleven */
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u %s",
						len ? ", " : "", rows[i].n,
						rows[i].n == 1 ? rows[i].one : rows[i].many);
	if (ch->problems)
		snprintf(ch->summary, sizeof(ch->summary),
			 "reloaded in part: %s%s%u problem%s, named above; what failed is tried "
			 "again",
			 text, len ? ", " : "", ch->problems, ch->problems == 1 ? "" : "s");
	else
		snprintf(ch->summary, sizeof(ch->summary), "reloaded: %s",
			 len ? text : "nothing has changed");
}

/* Answers the requesters; operations that take long continue. */
static void tell_change(struct rdt_change *ch)
{
	rd_timer_stop(ch->t->loop, &ch->timer);
	ch->in_progress += ch->waiting;
	summarize(ch);
	rd_log(ch->t->log, RD_LOG_MAIN, ch->problems ? RD_LOG_ERROR : RD_LOG_NOTICE, "%s",
	       ch->summary);
	ch->state = RDT_CHANGE_ANSWERED;
	if (ch->settled)
		ch->settled(ch);
}

static void settle_timed_out(struct rd_timer *timer)
{
	tell_change(rd_container_of(timer, struct rdt_change, timer));
}

static void check_settled(struct rdt_change *ch)
{
	if (ch->waiting || ch->state < RDT_CHANGE_SETTLING)
		return;
	if (ch->state == RDT_CHANGE_SETTLING && !ch->t->drained)
		tell_change(ch);
	release_change(ch);
}

void rdt_change_settle(struct rdt_change *ch)
{
	ch->state = RDT_CHANGE_SETTLING;
	ch->timer.fn = settle_timed_out;
	if (ch->waiting && rd_timer_start(ch->t->loop, &ch->timer, SETTLE))
		tell_change(ch);
	check_settled(ch);
}

/* The stored state of removed objects was deleted, or that failed. */
static void identities_ended(struct rdt_identity_end *end, int err, const char *why)
{
	struct rdt_change *ch = rd_container_of(end, struct rdt_change, end);

	ch->waiting--;
	if (err)
		change_problem(ch,
			       "the reservations and write protection of what was removed have "
			       "not ended: %s",
			       why);
	check_settled(ch);
}

/* ---- step by step ---- */

static void refuse_change(struct rdt_change *ch)
{
	struct rdt_subsys *ss;
	unsigned int at = 0;

	while ((ss = rdt_subsys_next(ch->t, &at)))
		if (ss->state == RDT_SUBSYS_NEW)
			rdt_subsys_leave(ss, "it was refused");
	snprintf(ch->summary, sizeof(ch->summary), "not reloaded: %s; nothing was changed",
		 ch->problems ? "see above" : "out of memory");
	rd_err(ch->t->log, RD_LOG_MAIN, "%s", ch->summary);
	ch->state = RDT_CHANGE_ANSWERED;
	if (ch->settled)
		ch->settled(ch);
	release_change(ch);
}

/* Settings of the target that do not depend on other objects. */
static void apply_target(struct rdt_change *ch, struct rdt_target *t)
{
	char text[RDT_MGMT_TEXT];
	int n = rdt_referrals_set(t, ch->next->referrals, ch->next->referrals_count);

	followed(ch, n, "referrals");
	n = rdt_subsys_follow_hosts(&t->disc, &t->now->discovery, &ch->next->discovery, ch->next);
	followed(ch, n, "discovery: host_auth");
	ch->settings +=
		rdt_disc_follow_hosts(t, &t->now->discovery, &ch->next->discovery, ch->next);
	n = t->http ? t->http->set(t->http, ch->next, text, sizeof(text)) : 0;
	if (n < 0)
		change_problem(ch, "%s", text);
	else
		ch->settings += (unsigned int)n;
	rdt_config_restarts(t->cfg, ch->next, needs_restart, ch);
}

static void listener_failed(void *arg, const char *text)
{
	change_problem(arg, "%s", text);
}

/* Returns false when the change is refused. */
static bool listen_and_apply(struct rdt_change *ch)
{
	struct rdt_target *t = ch->t;

	if (ch->problems)
		return false;
	ch->applied = true;
	rdt_listeners_set(t, ch->next, checks_storage(ch, NULL), listener_failed, ch,
			  &ch->listeners);
	apply_target(ch, t);
	/* From now on this is the desired state, even if operations fail. */
	rdt_config_put(&t->now);
	t->now = rdt_config_get(ch->next);
	return true;
}

/* All operations are started: the next change may begin. */
static void all_begun(struct rdt_change *ch)
{
	struct rdt_target *t = ch->t;

	ch->end.done = identities_ended;
	ch->waiting += rdt_identities_settle(t->identities, ch->keep_state, &ch->end);
	for (unsigned int i = 0; i < t->subsys_count; i++) {
		struct rdt_subsys *ss = t->subsys[i];

		if (!ss || ss->state != RDT_SUBSYS_NEW)
			continue;
		rdt_control_subsys_show(ss);
		ch->subsys_added++;
	}
	if (ch->begun)
		ch->begun(ch);
	else
		rdt_change_settle(ch);
}

static void converge_step(struct rd_defer *defer)
{
	/* Each call processes one item; returns true after the last one. */
	static bool (*const walks[])(struct rdt_change * ch) = {plan_next_subsys, apply_next_subsys,
								converge_next, add_next};
	struct rdt_change *ch = rd_container_of(defer, struct rdt_change, step);
	struct rdt_target *t = ch->t;
	uint64_t end = rd_loop_now_raw(t->loop) + STEP_NS;

	if (t->drained) /* the target is stopping */
		return;
	while (ch->walk < sizeof(walks) / sizeof(walks[0])) {
		if (walks[ch->walk](ch)) {
			ch->at = ch->ns_at = 0;
			if (ch->walk++ == 0 && !listen_and_apply(ch)) {
				refuse_change(ch);
				return;
			}
			continue;
		}
		if (t->ns_moving >= IN_FLIGHT &&
		    !rd_timer_start(t->loop, &ch->timer, IN_FLIGHT_CHECK))
			return;
		if (rd_loop_now_raw(t->loop) < end)
			continue;
		rd_defer(t->loop, &ch->step, RD_DEFER_NEXT);
		return;
	}
	all_begun(ch);
}

static void step_again(struct rd_timer *timer)
{
	converge_step(&rd_container_of(timer, struct rdt_change, timer)->step);
}

void rdt_converge(struct rdt_target *t, struct rdt_change *ch)
{
	ch->state = RDT_CHANGE_WALKING;
	ch->t = t;
	ch->step.fn = converge_step;
	ch->timer.fn = step_again;
	LIST_INSERT_HEAD(&t->changes, ch, converging);
	ch->next_of = calloc(RDT_SUBSYS_PLACES, sizeof(*ch->next_of));
	if (ch->next_of)
		converge_step(&ch->step);
	else
		refuse_change(ch);
}

void rdt_converge_fini(struct rdt_target *t)
{
	while (!LIST_EMPTY(&t->changes))
		release_change(LIST_FIRST(&t->changes));
}
