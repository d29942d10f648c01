/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods that show the target, its subsystems, namespaces and listeners. */
#include "rpc_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "target/bdev/backend.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/manage/change/mgmt_if.h"
#include "target/manage/change/reloader.h"
#include "target/manage/show/show.h"

/* ---- info, status ---- */

static void show_info(struct rdt_rpc_call *call)
{
	rdt_rpc_result(call,
		       json_pack("{s:s, s:i, s:s, s:i, s:s, s:o}", "interface", RDT_RPC_INTERFACE,
				 "interface_version", RDT_RPC_VERSION, "version", RDT_VERSION,
				 "pid", (int)getpid(), "config", call->rpc->env->config_path,
				 "methods", rdt_rpc_describe_methods()));
}

static unsigned int controllers_of(struct rdt_subsys *ss)
{
	unsigned int count;

	pthread_mutex_lock(&ss->lock);
	count = ss->ctrls_count;
	pthread_mutex_unlock(&ss->lock);
	return count;
}

static void show_status(struct rdt_rpc_call *call)
{
	struct rdt_target *t = call->rpc->target;
	struct rdt_served served = rdt_target_served(t);
	unsigned int controllers = 0, at = 0;
	struct rdt_subsys *ss;
	uint64_t uptime = (rd_loop_now_raw(t->loop) - t->started_ns) / RD_NSEC_PER_SEC;
	char spec[RD_LOG_SPEC_TEXT], started[RDT_SHOW_TIME];
	json_t *o;

	while ((ss = rdt_subsys_next(t, &at)))
		controllers += controllers_of(ss);
	o = json_pack("{s:s, s:s, s:s, s:i, s:s}", "state", rdt_show_state(t), "version",
		      RDT_VERSION, "config", call->rpc->env->config_path, "pid", (int)getpid(),
		      "started", rdt_show_time(time(NULL) - (time_t)uptime, started));
	json_object_update_new(
		o, json_pack("{s:I, s:i, s:i, s:i, s:s?, s:i, s:i, s:i, s:i, s:i, s:s, s:o, s:i}",
			     "uptime", (json_int_t)uptime, "reactors", (int)t->reactors_count,
			     "listeners", (int)served.listeners, "listeners_failed",
			     (int)served.listeners_failed, "http_failed",
			     t->http ? t->http->failed(t->http) : NULL, "subsystems",
			     (int)served.subsystems, "subsystems_unset",
			     (int)served.subsystems_unset, "namespaces", (int)served.namespaces,
			     "controllers", (int)controllers, "discovery_controllers",
			     (int)controllers_of(&t->disc), "log_level", rd_log_spec(t->log, spec),
			     "last_reload", rdt_show_last_reload(call->rpc->env->reloader),
			     "unsaved", (int)call->rpc->env->reloader->unsaved));
	rdt_rpc_result(call, o);
}

/* ---- subsystems and namespaces ---- */

static json_t *hosts_json(const struct rdt_host_list *hosts)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < hosts->count; i++)
		json_array_append_new(list, json_string(hosts->nqns[i]));
	return list;
}

struct rdt_subsys *rdt_rpc_subsys(struct rdt_rpc_call *call, const char *param, bool *found)
{
	const char *nqn = rdt_rpc_text(call, param);
	struct rdt_subsys *ss = nqn ? rdt_subsys_find(call->rpc->target, nqn) : NULL;

	*found = !nqn || ss;
	if (!*found)
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, param, nqn,
			      "the method \"subsystem.list\" lists all",
			      "there is no subsystem \"%.223s\"", nqn);
	return ss;
}

/* ---- long lists ---- */

/* A long list is produced in slices, one per loop iteration. */
#define LIST_SLICE (2 * RD_NSEC_PER_MSEC)

struct listing {
	struct rdt_rpc_call *call;
	struct rd_defer step;
	/* Moves to the next element. Returns false after the last one; *@o NULL: no memory. */
	bool (*next)(struct listing *w, json_t **o);
	struct rdt_subsys *one; /* held; NULL: all subsystems */
	unsigned int subsys;    /* index of the current one */
	uint32_t nsid;          /* the last namespace listed; 0: none yet */
	unsigned int
		shown; /* number listed with that NSID; at most one of them is not being removed */
	bool any;      /* at least one was listed */
	FILE *f;
	char *text;
	size_t len;
};

static void listing_free(struct listing *w)
{
	rd_defer_cancel(w->call->rpc->loop, &w->step);
	if (w->one)
		rdt_subsys_put(w->one);
	if (w->f)
		fclose(w->f);
	free(w->text);
	free(w);
}

static void listing_cancel(struct rdt_rpc_call *call)
{
	listing_free(call->work);
}

static void listing_end(struct listing *w)
{
	struct rdt_rpc_call *call = w->call;
	char *text;
	bool good;

	fputs("]}", w->f);
	good = !ferror(w->f);
	good &= !fclose(w->f);
	w->f = NULL;
	call->cancel = NULL;
	text = w->text;
	w->text = NULL;
	listing_free(w);
	rdt_rpc_result_text(call, good ? text : NULL);
	free(text);
}

static void listing_step(struct rd_defer *defer)
{
	struct listing *w = rd_container_of(defer, struct listing, step);
	struct rd_loop *loop = w->call->rpc->loop;
	uint64_t end = rd_loop_now_raw(loop) + LIST_SLICE;
	json_t *o;

	while (w->next(w, &o)) {
		if (w->any)
			fputc(',', w->f);
		w->any = true;
		if (!o || json_dumpf(o, w->f, JSON_COMPACT))
			fputs("null", w->f);
		json_decref(o);
		if (rd_loop_now_raw(loop) < end)
			continue;
		rd_defer(loop, &w->step, RD_DEFER_NEXT);
		return;
	}
	listing_end(w);
}

/* @name: the member of the answer with the list. */
static void start_listing(struct rdt_rpc_call *call, const char *name, struct rdt_subsys *one,
			  bool (*next)(struct listing *w, json_t **o))
{
	struct listing *w = calloc(1, sizeof(*w));

	if (w)
		w->f = open_memstream(&w->text, &w->len);
	if (!w || !w->f) {
		free(w);
		rdt_rpc_no_memory(call);
		return;
	}
	w->call = call;
	w->next = next;
	w->one = one;
	if (one)
		rdt_subsys_hold(one);
	w->step.fn = listing_step;
	call->work = w;
	call->cancel = listing_cancel;
	fprintf(w->f, "{\"%s\":[", name);
	listing_step(&w->step);
}

/* Which hosts may connect. */
static const char *admitted(const struct rdt_subsys *ss)
{
	if (ss->now->hosts_unset)
		return "unset";
	return ss->hosts.any ? "any" : ss->hosts.count ? "listed" : "none";
}

static json_t *subsys_json(struct rdt_subsys *ss)
{
	/* Without a lock, because only the main thread changes the list: a Connect on a reactor
	 * does not wait for this. */
	json_t *hosts = hosts_json(&ss->hosts);

	return json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:s, s:i, s:i, s:i}", "nqn", ss->nqn,
			 "serial", ss->cfg->serial, "model", ss->cfg->model, "allow_any_host",
			 ss->hosts.any, "admits", admitted(ss), "hosts", hosts, "auth",
			 rdt_show_auth(ss->now), "hosts_with_qos", (int)ss->now->host_qos_count,
			 "namespaces", (int)atomic_load(&ss->ns_count), "controllers",
			 (int)controllers_of(ss));
}

static bool next_subsystem(struct listing *w, json_t **o)
{
	const struct rdt_target *t = w->call->rpc->target;
	struct rdt_subsys *ss;

	while ((ss = rdt_subsys_next(t, &w->subsys)) &&
	       (!rdt_subsys_live(ss) || (w->one && ss != w->one)))
		;
	if (ss)
		*o = subsys_json(ss);
	return ss;
}

static void subsystem_list(struct rdt_rpc_call *call)
{
	bool found;
	struct rdt_subsys *one = rdt_rpc_subsys(call, "nqn", &found);

	if (found)
		start_listing(call, "subsystems", one, next_subsystem);
}

/* The namespace after the first @shown ones with @nsid, which may have been removed. Namespaces are
 * sorted by NSID; those that are being removed follow the one that has their NSID now. */
static const struct rdt_ns *ns_after(const struct rdt_subsys *ss, uint32_t nsid, unsigned int shown)
{
	const struct rdt_ns *ns = nsid ? rdt_ns_with(ss, nsid) : NULL;

	if (!ns)
		TAILQ_FOREACH (ns, &ss->namespaces, link)
			if (ns->nsid >= nsid)
				break;
	for (; ns && ns->nsid == nsid && shown; shown--)
		ns = TAILQ_NEXT(ns, link);
	return ns;
}

static bool next_namespace(struct listing *w, json_t **o)
{
	const struct rdt_target *t = w->call->rpc->target;

	for (; w->subsys < t->subsys_count; w->subsys++, w->nsid = 0) {
		const struct rdt_subsys *ss = t->subsys[w->subsys];
		const struct rdt_ns *ns = NULL;
		struct rdt_ns_shown shown;

		if (ss && (w->one ? ss == w->one : rdt_subsys_live(ss)))
			ns = ns_after(ss, w->nsid, w->shown);
		if (!ns)
			continue;
		shown = rdt_ns_shown(ns);
		*o = rdt_show_namespace(&shown);
		w->shown = ns->nsid == w->nsid ? w->shown + 1 : 1;
		w->nsid = ns->nsid;
		return true;
	}
	return false;
}

static void namespace_list(struct rdt_rpc_call *call)
{
	bool found;
	struct rdt_subsys *one = rdt_rpc_subsys(call, "nqn", &found);

	if (found)
		start_listing(call, "namespaces", one, next_namespace);
}

/* ---- listeners ---- */

static void listener_list(struct rdt_rpc_call *call)
{
	rdt_rpc_result(call,
		       json_pack("{s:o}", "listeners", rdt_show_listeners(call->rpc->target)));
}

const struct rdt_rpc_method rdt_rpc_show_methods[] = {
	{"info", "versions of program and interface, and all methods", false, NULL, show_info},
	{"status", "state of the target, start time and last reload", false, NULL, show_status},
	{"subsystem.list", "all subsystems and their hosts, or only nqn", false, "[nqn: string]",
	 subsystem_list},
	{"namespace.list", "namespaces of all subsystems, or only of nqn", false, "[nqn: string]",
	 namespace_list},
	{"listener.list", "addresses, with ANA states other than optimized", false, NULL,
	 listener_list},
	{NULL, NULL, false, NULL, NULL},
};
