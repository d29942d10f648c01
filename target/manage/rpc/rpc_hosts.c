/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods for hosts and their controllers. Reactors copy their connections and end controllers; a
 * thread makes the lists. */
#include "rpc_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"
#include "target/config/config.h"
#include "target/config/config_json.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/manage/show/connections.h"
#include "target/manage/show/show.h"

/* ---- lists ---- */

struct list_work {
	struct rdt_connections *connections;
	struct rdt_config *now; /* a reference, dropped by the main thread */
	char *text;
};

static void list_work_free(struct list_work *w)
{
	rdt_connections_free(w->connections);
	rdt_config_put(&w->now);
	free(w->text);
	free(w);
}

/* Takes ownership of @list. */
static void list_made(struct list_work *w, const char *name, json_t *list)
{
	json_t *result = json_pack("{s:o}", name, list);

	w->text = result ? json_dumps(result, JSON_COMPACT) : NULL;
	json_decref(result);
}

static void list_controllers(void *arg)
{
	struct list_work *w = arg;
	size_t total;

	list_made(w, "controllers", rdt_connections_controllers(w->connections, SIZE_MAX, &total));
}

#define HAS_DHCHAP 1
#define HAS_LIMITS 2

static void note(json_t *hosts, const char *host, int bit)
{
	const json_t *had = json_object_get(hosts, host);

	json_object_set_new(hosts, host, json_integer(json_integer_value(had) | bit));
}

/* The bits above of each host of a subsystem, by Host NQN. */
static json_t *settings_of(const struct rdt_subsys_config *ss)
{
	json_t *hosts = json_object();

	for (uint32_t i = 0; i < ss->host_auth_count; i++)
		if (ss->host_auth[i].dhchap_key_file)
			note(hosts, ss->host_auth[i].host, HAS_DHCHAP);
	for (uint32_t i = 0; i < ss->host_qos_count; i++)
		note(hosts, ss->host_qos[i].host, HAS_LIMITS);
	return hosts;
}

/* The same for all subsystems, by NQN, so that no lookup is linear in the number of hosts. */
static json_t *all_settings(const struct rdt_config *config)
{
	json_t *all = json_object();

	json_object_set_new(all, NVMF_DISC_NQN, settings_of(&config->discovery));
	for (uint32_t i = 0; i < config->subsystems_count; i++)
		json_object_set_new(all, config->subsystems[i].nqn,
				    settings_of(&config->subsystems[i]));
	return all;
}

/* Whether @bit is set for @host in none, some or all of the subsystems it is connected to. */
static const char *set_in(const json_t *host, const json_t *all, int bit)
{
	const char *name = json_string_value(json_object_get(host, "hostnqn"));
	const json_t *subsystems = json_object_get(host, "subsystems"), *nqn;
	size_t i, set = 0;

	json_array_foreach(subsystems, i, nqn)
	{
		const json_t *hosts = json_object_get(all, json_string_value(nqn));

		set += (json_integer_value(json_object_get(hosts, name)) & bit) != 0;
	}
	return !set ? "no" : set < json_array_size(subsystems) ? "partly" : "yes";
}

/* Adds to each host of @list whether it must authenticate and has QoS limits. Returns @list. */
static json_t *with_settings(json_t *list, const struct rdt_config *config)
{
	json_t *all = all_settings(config), *host;
	size_t i;

	json_array_foreach(list, i, host)
	{
		json_object_set_new(host, "auth", json_string(set_in(host, all, HAS_DHCHAP)));
		json_object_set_new(host, "qos", json_string(set_in(host, all, HAS_LIMITS)));
	}
	json_decref(all);
	return list;
}

static void list_hosts(void *arg)
{
	struct list_work *w = arg;

	list_made(w, "hosts", with_settings(rdt_connections_hosts(w->connections), w->now));
}

static void listed(struct rdt_rpc_call *call, void *arg)
{
	struct list_work *w = arg;

	if (call)
		rdt_rpc_result_text(call, w->text);
	list_work_free(w);
}

static void start_list(struct rdt_rpc_call *call, struct rdt_answer *answers, unsigned int n,
		       void (*make)(void *arg))
{
	struct list_work *w = calloc(1, sizeof(*w));

	if (w)
		w->connections = rdt_connections_take(call->rpc->target, answers, n);
	if (!w || !w->connections) {
		free(w);
		rdt_rpc_no_memory(call);
		return;
	}
	w->now = rdt_config_get(call->rpc->target->now);
	rdt_rpc_job(call, make, listed, w);
}

static void controllers_answered(struct rdt_rpc_call *call, struct rdt_answer *answers,
				 unsigned int n)
{
	start_list(call, answers, n, list_controllers);
}

static void hosts_answered(struct rdt_rpc_call *call, struct rdt_answer *answers, unsigned int n)
{
	start_list(call, answers, n, list_hosts);
}

/* Asks all reactors, up to a limit, because questions use memory even after their client has
 * disconnected. Takes ownership of @what. */
static void ask_walk(struct rdt_rpc_call *call, void *what, void (*fn)(struct rdt_answer *answer),
		     void (*done)(struct rdt_rpc_call *call, struct rdt_answer *answers,
				  unsigned int n))
{
	if (call->rpc->asks_count < RDT_RPC_CLIENTS) {
		rdt_rpc_ask(call, what, fn, done);
		return;
	}
	free(what);
	rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, "try again",
		      "%u requests to the reactors are in progress, which is the maximum",
		      RDT_RPC_CLIENTS);
}

static void controller_list(struct rdt_rpc_call *call)
{
	ask_walk(call, NULL, rdt_connections_collect, controllers_answered);
}

static void host_list(struct rdt_rpc_call *call)
{
	ask_walk(call, NULL, rdt_connections_collect, hosts_answered);
}

/* ---- disconnect ---- */

struct disconnect_what {            /* selects controllers */
	char nqn[NVMF_NQN_MAX + 1]; /* "": of all subsystems, including discovery */
	int cntlid;                 /* -1: any */
	bool by_host;
	char hostnqn[];
};

/* Called on the reactor that owns the controller. */
static void end_matching(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct rdt_answer *answer = rd_container_of(walk, struct rdt_answer, walk);
	const struct disconnect_what *what = answer->what;
	struct rdt_ctrl *ctrl = qp->ctrl;

	if (!qp->admin || !ctrl || atomic_load(&ctrl->ending) ||
	    (what->nqn[0] && strcmp(ctrl->subsys->nqn, what->nqn) != 0) ||
	    (what->cntlid >= 0 && ctrl->cntlid != what->cntlid) ||
	    (what->by_host && strcmp(ctrl->hostnqn, what->hostnqn) != 0))
		return;
	rdt_ctrl_end(ctrl, "the control socket disconnected it");
	answer->count++;
}

static void start_disconnect(struct rdt_answer *answer)
{
	rdt_answer_by_walk(answer, end_matching);
}

static void disconnect_done(struct rdt_rpc_call *call, struct rdt_answer *answers, unsigned int n)
{
	const char *hostnqn = rdt_rpc_text(call, "hostnqn"), *nqn = rdt_rpc_text(call, "nqn");
	const json_t *cntlid = json_object_get(call->params, "cntlid");
	char which[24] = "no controller";
	size_t ended = 0;

	for (unsigned int i = 0; i < n; i++)
		ended += answers[i].count;
	if (cntlid)
		snprintf(which, sizeof(which), "no controller %d", (int)json_integer_value(cntlid));
	if (ended)
		rdt_rpc_result(call, json_pack("{s:I}", "disconnected", (json_int_t)ended));
	else
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, hostnqn ? "hostnqn" : "cntlid", hostnqn,
			      "the method \"controller.list\" lists all",
			      "there is %s%s%.223s%s%s%.223s%s", which,
			      hostnqn ? " of host \"" : "", hostnqn ? hostnqn : "",
			      hostnqn ? "\"" : "", nqn ? " in subsystem \"" : "", nqn ? nqn : "",
			      nqn ? "\"" : "");
}

/* Each reactor ends its own controllers, in slices, so that no search holds the lock of a
 * subsystem, for which a Connect would wait. */
static void controller_disconnect(struct rdt_rpc_call *call)
{
	const char *hostnqn = rdt_rpc_text(call, "hostnqn");
	json_int_t cntlid = -1;
	struct disconnect_what *what;
	bool found;
	const struct rdt_subsys *one = rdt_rpc_subsys(call, "nqn", &found);

	if (!found || !rdt_rpc_number(call, "cntlid", 0, UINT16_MAX, &cntlid))
		return;
	if (!hostnqn && !(one && cntlid >= 0)) {
		rdt_rpc_error(call, RDT_RPC_INVALID, "hostnqn", NULL,
			      "the method \"controller.list\" lists all",
			      "expected hostnqn, or nqn and cntlid, or all of them");
		return;
	}
	what = calloc(1, sizeof(*what) + (hostnqn ? strlen(hostnqn) : 0) + 1);
	if (!what) {
		rdt_rpc_no_memory(call);
		return;
	}
	if (one)
		memccpy(what->nqn, one->nqn, 0, sizeof(what->nqn));
	what->cntlid = (int)cntlid;
	what->by_host = hostnqn;
	if (hostnqn)
		strcpy(what->hostnqn, hostnqn);
	ask_walk(call, what, start_disconnect, disconnect_done);
}

/* ---- the settings of one host ---- */

static json_t *limits_of(const struct rdt_subsys_config *ss, const char *hostnqn)
{
	for (uint32_t i = 0; i < ss->host_qos_count; i++)
		if (strcmp(ss->host_qos[i].host, hostnqn) == 0)
			return rdt_show_limits(ss->host_qos[i].limits.limits);
	return json_null();
}

/* The keys without "host", as the parameters of host.auth. */
static json_t *auth_of(const struct rdt_subsys_config *ss, const char *hostnqn)
{
	const struct rdt_host_auth_config *host = rdt_config_host_auth(ss, hostnqn);
	json_t *keys = host ? rdt_config_host_auth_json(host) : json_null();

	json_object_del(keys, "host");
	return keys;
}

static void host_get(struct rdt_rpc_call *call)
{
	const char *hostnqn = rdt_rpc_text(call, "hostnqn");
	bool found;
	struct rdt_subsys *ss = rdt_rpc_subsys(call, "nqn", &found);

	if (found)
		rdt_rpc_result(call,
			       json_pack("{s:s, s:s, s:b, s:o, s:o}", "nqn", ss->nqn, "hostnqn",
					 hostnqn, "allowed", rdt_subsys_allows(ss, hostnqn), "auth",
					 auth_of(ss->now, hostnqn), "qos",
					 limits_of(ss->now, hostnqn)));
}

const struct rdt_rpc_method rdt_rpc_host_methods[] = {
	{"host.list", "connected hosts", false, NULL, host_list},
	{"host.get", "key files and QoS limits of a host in a subsystem", false,
	 "nqn: string, hostnqn: string", host_get},
	{"controller.list", "controllers with their hosts and queues", false, NULL,
	 controller_list},
	{"controller.disconnect", "end controllers of a host, or one of a subsystem", true,
	 "[nqn: string], [cntlid: number], [hostnqn: string]", controller_disconnect},
	{NULL, NULL, false, NULL, NULL},
};
