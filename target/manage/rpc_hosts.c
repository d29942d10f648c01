/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods for hosts and their controllers. Reactors copy their connections, a thread makes the
 * list. */
#include "rpc_priv.h"

#include <stdlib.h>
#include <string.h>

#include "target/nvmf/ctrl.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "connections.h"

/* ---- lists ---- */

struct list_work {
	struct rdt_connections *connections;
	char *text;
};

static void list_work_free(struct list_work *w)
{
	rdt_connections_free(w->connections);
	free(w->text);
	free(w);
}

/* Takes @list over. */
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

static void list_hosts(void *arg)
{
	struct list_work *w = arg;

	list_made(w, "hosts", rdt_connections_hosts(w->connections));
}

static void listed(struct rdt_rpc_call *call, void *arg)
{
	struct list_work *w = arg;

	if (call)
		rdt_rpc_result_text(call, w->text);
	list_work_free(w);
}

static void start_list(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers, unsigned int n,
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
	rdt_rpc_job(call, make, listed, w);
}

static void controllers_answered(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
				 unsigned int n)
{
	start_list(call, answers, n, list_controllers);
}

static void hosts_answered(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
			   unsigned int n)
{
	start_list(call, answers, n, list_hosts);
}

/* Copies of connections take memory, also for clients that have disconnected meanwhile. */
static void ask_connections(struct rdt_rpc_call *call,
			    void (*done)(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
					 unsigned int n))
{
	if (call->rpc->asks_count < RDT_RPC_CLIENTS)
		rdt_rpc_ask(call, rdt_connections_collect, done);
	else
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, "try again",
			      "reactors have %u questions to answer, which is the most",
			      RDT_RPC_CLIENTS);
}

static void controller_list(struct rdt_rpc_call *call)
{
	ask_connections(call, controllers_answered);
}

static void host_list(struct rdt_rpc_call *call)
{
	ask_connections(call, hosts_answered);
}

/* ---- disconnect ---- */

static const char disconnect_why[] = "the control socket disconnected it";

static unsigned int end_matching(struct rdt_subsys *ss, json_int_t cntlid, const char *hostnqn)
{
	struct rdt_ctrl *ctrl;
	unsigned int ended = 0;

	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		if ((cntlid >= 0 && ctrl->cntlid != cntlid) ||
		    (hostnqn && strcmp(ctrl->hostnqn, hostnqn) != 0) || atomic_load(&ctrl->ending))
			continue;
		rdt_ctrl_end(ctrl, disconnect_why);
		ended++;
	}
	pthread_mutex_unlock(&ss->lock);
	return ended;
}

static void controller_disconnect(struct rdt_rpc_call *call)
{
	struct rdt_target *t = call->rpc->target;
	const char *hostnqn = rdt_rpc_text(call, "hostnqn");
	json_int_t cntlid = -1; /* -1: any */
	unsigned int ended = 0;
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
	for (unsigned int i = 0; i < t->subsys_count; i++)
		if (!one || t->subsys[i] == one)
			ended += end_matching(t->subsys[i], cntlid, hostnqn);
	if (!one)
		ended += end_matching(&t->disc, cntlid, hostnqn);
	if (ended)
		rdt_rpc_result(call, json_pack("{s:i}", "disconnected", (int)ended));
	else
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, hostnqn ? "hostnqn" : "cntlid", hostnqn,
			      "the method \"controller.list\" lists all",
			      "no controller matches that");
}

static const struct rdt_rpc_param disconnect_params[] = {
	{"nqn", JSON_STRING, false},
	{"cntlid", JSON_INTEGER, false},
	{"hostnqn", JSON_STRING, false},
	{NULL, JSON_NULL, false},
};

const struct rdt_rpc_method rdt_rpc_host_methods[] = {
	{"host.list", "hosts that are connected", false, NULL, host_list},
	{"controller.list", "controllers, with their host and queues", false, NULL,
	 controller_list},
	{"controller.disconnect", "end controllers of a host, or one of a subsystem", true,
	 disconnect_params, controller_disconnect},
	{NULL, NULL, false, NULL, NULL},
};
