/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods that show, check, compare and reload the configuration. */
#include "rpc_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/config/config.h"
#include "target/config/config_json.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/manage/change/preflight.h"
#include "target/manage/change/reloader.h"
#include "target/manage/change/report.h"
#include "target/manage/show/show.h"

#define DIFFERENCES_MAX 1000u

/* ---- work on a thread ---- */

struct config_work {
	const char *path;
	struct rdt_config *now;  /* a reference, dropped by the main thread */
	struct rdt_config *next; /* config.diff: the file's configuration; a reference */
	struct rdt_modules *modules;
	bool machine; /* config.check: also check devices and addresses of this machine */
	struct rdt_report report;
	bool good; /* the file has no errors */
	json_t *result;
	char *text;                  /* config.get: the result as JSON text */
	struct rdt_ns_identity *ids; /* config.get: of the namespaces in @now, in the same order */
};

static void config_work_free(struct config_work *w)
{
	json_decref(w->result);
	free(w->text);
	free(w->ids);
	rdt_config_put(&w->now);
	rdt_config_put(&w->next);
	rdt_report_fini(&w->report);
	free(w);
}

/* Removes optimized groups, which need not be listed, before a comparison. */
static void drop_optimized(json_t *listener)
{
	json_t *ana = json_object_get(listener, "ana");

	for (size_t i = json_array_size(ana); i-- > 0;) {
		const char *state =
			json_string_value(json_object_get(json_array_get(ana, i), "state"));

		if (state && strcmp(state, rdt_config_ana_name(RDT_ANA_OPTIMIZED)) == 0)
			json_array_remove(ana, i);
	}
	if (!json_array_size(ana))
		json_object_del(listener, "ana");
}

static json_t *comparable(const struct rdt_config *config)
{
	json_t *all = rdt_config_json(config);
	json_t *listener;
	size_t i;

	json_array_foreach(json_object_get(all, "listeners"), i, listener) drop_optimized(listener);
	return all;
}

static struct config_work *config_work_new(struct rdt_rpc_call *call)
{
	struct config_work *w = calloc(1, sizeof(*w));

	if (w && rdt_report_init(&w->report, NULL)) {
		free(w);
		w = NULL;
	}
	if (!w) {
		rdt_rpc_no_memory(call);
		return NULL;
	}
	w->path = call->rpc->env->config_path;
	w->now = rdt_config_get(call->rpc->target->now);
	w->modules = call->rpc->target->modules;
	return w;
}

json_t *rdt_rpc_report(const struct rdt_report *report)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < report->count; i++)
		json_array_append_new(
			list,
			json_pack("{s:s, s:s}", "level",
				  report->lines[i].level == RD_LOG_ERROR ? "error" : "warning",
				  "text", report->lines[i].text));
	return list;
}

/* ---- config.get ---- */

static unsigned int namespaces_in(const struct rdt_config *config)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < config->subsystems_count; i++)
		count += config->subsystems[i].namespaces_count;
	return count;
}

/* Copies the identities that hosts see for a job, because they are not in the configuration. */
static int copy_identities(struct rdt_target *t, struct config_work *w)
{
	struct rdt_ns_identity *at = calloc(namespaces_in(w->now) + 1, sizeof(*at));

	w->ids = at;
	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->now->subsystems_count; i++) {
		const struct rdt_subsys_config *cfg = &w->now->subsystems[i];
		const struct rdt_subsys *ss = rdt_subsys_find(t, cfg->nqn);

		for (uint32_t k = 0; k < cfg->namespaces_count; k++, at++) {
			const struct rdt_ns *ns =
				ss ? rdt_ns_with(ss, cfg->namespaces[k].nsid) : NULL;

			if (ns)
				*at = rdt_ns_identity_shown(ns);
		}
	}
	return 0;
}

static json_t *identities_json(const struct config_work *w)
{
	const struct rdt_ns_identity *at = w->ids;
	json_t *list = json_array();

	for (uint32_t i = 0; i < w->now->subsystems_count; i++) {
		const struct rdt_subsys_config *cfg = &w->now->subsystems[i];

		for (uint32_t k = 0; k < cfg->namespaces_count; k++, at++) {
			json_t *o;

			if (!at->uuid[0])
				continue;
			o = json_pack("{s:s, s:i}", "nqn", cfg->nqn, "nsid",
				      (int)cfg->namespaces[k].nsid);
			rdt_show_identity(o, at);
			json_array_append_new(list, o);
		}
	}
	return list;
}

static void get_running(void *arg)
{
	struct config_work *w = arg;
	json_t *result = json_pack("{s:s, s:o, s:o}", "path", w->path, "config", comparable(w->now),
				   "identities", identities_json(w));

	/* On the job's thread, because ten thousand namespaces take too long for the main loop. */
	w->text = result ? json_dumps(result, JSON_COMPACT) : NULL;
	json_decref(result);
}

static void got_running(struct rdt_rpc_call *call, void *arg)
{
	struct config_work *w = arg;

	if (call)
		rdt_rpc_result_text(call, w->text);
	config_work_free(w);
}

static void config_get(struct rdt_rpc_call *call)
{
	struct config_work *w = config_work_new(call);

	if (w && copy_identities(call->rpc->target, w)) {
		config_work_free(w);
		rdt_rpc_no_memory(call);
	} else if (w) {
		rdt_rpc_job(call, get_running, got_running, w);
	}
}

/* ---- config.check and config.diff ---- */

static void check_file(void *arg)
{
	struct config_work *w = arg;
	struct rdt_config *next = NULL;

	if (w->machine)
		w->good = !rdt_preflight(w->path, w->modules, w->report.log, &next);
	else
		w->good = !rdt_config_load(w->path, w->report.log, &next);
	if (w->good)
		w->good = !rdt_preflight_hosts(next, NULL, w->report.log);
	rdt_config_put(&next);
}

static void checked_file(struct rdt_rpc_call *call, void *arg)
{
	struct config_work *w = arg;

	if (call)
		rdt_rpc_result(call, json_pack("{s:s, s:b, s:o, s:i}", "path", w->path, "ok",
					       w->good, "messages", rdt_rpc_report(&w->report),
					       "left_out", (int)w->report.left_out));
	config_work_free(w);
}

static void config_check(struct rdt_rpc_call *call)
{
	struct config_work *w = config_work_new(call);

	if (!w)
		return;
	w->machine = json_is_true(json_object_get(call->params, "full"));
	rdt_rpc_job(call, check_file, checked_file, w);
}

static void compare_file(void *arg)
{
	struct config_work *w = arg;
	json_t *running, *file;

	if (rdt_config_load(w->path, w->report.log, &w->next))
		return;
	running = comparable(w->now);
	file = comparable(w->next);
	w->result = rdt_config_json_diff(running, file, DIFFERENCES_MAX);
	json_decref(running);
	json_decref(file);
}

static void add_restart(void *arg, const char *where, const char *key)
{
	char text[RDT_RESTART_TEXT];

	rdt_restart_text(where, key, text);
	rdt_report_add(arg, RD_LOG_WARN, text);
}

/* Adds to the report the differences that need a restart. */
static void report_restarts(struct rdt_target *t, struct config_work *w)
{
	rdt_report_clear(&w->report);
	rdt_config_restarts(t->cfg, w->next, add_restart, &w->report);
	for (uint32_t i = 0; i < w->next->subsystems_count; i++) {
		const struct rdt_subsys_config *cfg = &w->next->subsystems[i];
		const struct rdt_subsys *ss = rdt_subsys_find(t, cfg->nqn);

		if (ss)
			rdt_config_subsys_restarts(ss->cfg, cfg, add_restart, &w->report);
	}
}

static void compared_file(struct rdt_rpc_call *call, void *arg)
{
	struct config_work *w = arg;

	if (call && !w->next) {
		rdt_rpc_error(call, RDT_RPC_INVALID, NULL, w->path,
			      "the method \"config.check\" lists all problems",
			      "the configuration has problems; the first one: %s",
			      rdt_report_first_error(&w->report, "out of memory"));
	} else if (call) {
		report_restarts(call->rpc->target, w);
		rdt_rpc_result(call, json_pack("{s:s, s:O, s:o}", "path", w->path, "differences",
					       w->result, "messages", rdt_rpc_report(&w->report)));
	}
	config_work_free(w);
}

static void config_diff(struct rdt_rpc_call *call)
{
	struct config_work *w = config_work_new(call);

	if (w)
		rdt_rpc_job(call, compare_file, compared_file, w);
}

/* ---- config.reload ---- */

static void reload_done(void *arg, const struct rdt_change *ch)
{
	rdt_rpc_result(arg, json_pack("{s:b, s:s, s:s, s:i, s:i, s:o, s:i}", "applied", ch->applied,
				      "outcome", rdt_change_outcome(ch), "summary", ch->summary,
				      "problems", (int)ch->problems, "restarts", (int)ch->restarts,
				      "messages", rdt_rpc_report(&ch->report), "left_out",
				      (int)ch->report.left_out));
}

static void change_cancel(struct rdt_rpc_call *call)
{
	rdt_reloader_forget(call->rpc->env->reloader, call);
}

void rdt_rpc_start_change(struct rdt_rpc_call *call, struct rdt_change *ch,
			  void (*done)(void *arg, const struct rdt_change *change))
{
	bool early = json_is_false(json_object_get(call->params, "wait"));

	call->cancel = change_cancel;
	if (!rdt_reloader_start(call->rpc->env->reloader, ch, early, done, call))
		return;
	call->cancel = NULL;
	rdt_rpc_no_memory(call);
}

bool rdt_rpc_refuse_drained(struct rdt_rpc_call *call)
{
	struct rdt_rpc *rpc = call->rpc;

	if (!rpc->target->drained && rpc->target->serving == RDT_SERVING)
		return false;
	rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, NULL,
		      "the target is %s and accepts no changes until it is restarted",
		      rpc->target->serving == RDT_DRAINED && !rpc->target->drained
			      ? "drained"
			      : "being stopped");
	return true;
}

static void config_reload(struct rdt_rpc_call *call)
{
	if (!rdt_rpc_refuse_drained(call))
		rdt_rpc_start_change(call, NULL, reload_done);
}

const struct rdt_rpc_method rdt_rpc_config_methods[] = {
	{"config.get", "the running configuration", false, NULL, config_get},
	{"config.check", "validate the file; full: also that files, devices and addresses exist",
	 false, "[full: boolean]", config_check},
	{"config.diff", "the changes a reload would make to the running configuration", false, NULL,
	 config_diff},
	{"config.reload", "read the file again and apply it, as SIGHUP does", true,
	 "[wait: boolean]", config_reload},
	{NULL, NULL, false, NULL, NULL},
};
