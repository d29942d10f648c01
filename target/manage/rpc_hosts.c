/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods for hosts and their controllers. Reactors copy their connections and end controllers, a
 * thread makes the lists. */
#include "rpc_priv.h"

#include <stdio.h>
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

/* Questions and their answers take memory, also for clients that have disconnected meanwhile.
 * Takes @what over. */
static void ask_walk(struct rdt_rpc_call *call, void *what,
		     void (*fn)(struct rdt_rpc_answer *answer),
		     void (*done)(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
				  unsigned int n))
{
	if (call->rpc->asks_count < RDT_RPC_CLIENTS) {
		rdt_rpc_ask(call, what, fn, done);
		return;
	}
	free(what);
	rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, "try again",
		      "reactors have %u questions to answer, which is the most", RDT_RPC_CLIENTS);
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

struct disconnect_what {            /* which controllers */
	char nqn[NVMF_NQN_MAX + 1]; /* "": of all subsystems, and discovery controllers */
	int cntlid;                 /* -1: any */
	bool by_host;
	char hostnqn[];
};

/* On the owner of the controller. */
static void end_matching(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct rdt_rpc_answer *answer = rd_container_of(walk, struct rdt_rpc_answer, walk);
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

static void start_disconnect(struct rdt_rpc_answer *answer)
{
	rdt_rpc_answer_by_walk(answer, end_matching);
}

static void disconnect_done(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
			    unsigned int n)
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

/* Each reactor ends its own, in slices of its turns, so that no controller is looked for under the
 * lock of a subsystem, for which a Connect would wait. */
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
