/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods for hosts and their controllers. The state of a queue is read on its reactor. */
#include "rpc_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "util/utf8.h"
#include "nvmf/text.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "show.h"

struct connection { /* copied on its reactor */
	const struct rdt_subsys *ss;
	const struct rdt_listener *listener;
	unsigned int reactor;
	uint16_t cntlid;
	uint16_t qid; /* 0: the admin queue */
	uint16_t size;
	unsigned int in_flight;
	struct sockaddr_storage remote;
	/* of an admin queue */
	uint32_t kato_ms;
	uint8_t state; /* enum rdt_ctrl_state */
	bool authenticating;
	char hostnqn[NVMF_NQN_MAX + 1];
};

static void copy_connection(const struct rdt_reactor *r, const struct rdt_qpair *qp,
			    struct connection *c)
{
	const struct rdt_ctrl *ctrl = qp->ctrl;

	c->ss = ctrl->subsys;
	c->listener = qp->listener;
	c->reactor = r->index;
	c->cntlid = ctrl->cntlid;
	c->qid = qp->qid;
	c->size = qp->sqsize;
	c->in_flight = qp->used - qp->used_aer;
	c->remote = qp->remote;
	if (qp->admin) { /* its reactor owns the controller */
		c->kato_ms = ctrl->kato_ms;
		c->state = ctrl->state;
		c->authenticating = qp->state == RDT_QP_AUTH;
		memcpy(c->hostnqn, ctrl->hostnqn, sizeof(c->hostnqn));
	}
}

void rdt_show_collect_connections(struct rdt_reactor *r, struct rdt_rpc_answer *answer)
{
	struct connection *list = calloc(r->qpairs_count + 1, sizeof(*list));
	const struct rdt_qpair *qp;

	answer->data = list;
	answer->no_memory = !list;
	TAILQ_FOREACH (qp, &r->qpairs, link)
		if (list && qp->ctrl)
			copy_connection(r, qp, &list[answer->count++]);
}

/* By controller, its admin queue first. */
static int compare_connections(const void *a, const void *b)
{
	const struct connection *x = *(const struct connection *const *)a;
	const struct connection *y = *(const struct connection *const *)b;

	if (x->ss != y->ss)
		return x->ss->index < y->ss->index ? -1 : 1;
	if (x->cntlid != y->cntlid)
		return x->cntlid < y->cntlid ? -1 : 1;
	return (x->qid > y->qid) - (x->qid < y->qid);
}

/* All connections in that order; NULL without memory. */
static const struct connection **sorted(const struct rdt_rpc_answer *answers, unsigned int n,
					size_t *count)
{
	const struct connection **all;
	size_t at = 0;

	*count = 0;
	for (unsigned int i = 0; i < n; i++)
		*count += answers[i].count;
	all = calloc(*count + 1, sizeof(*all));
	for (unsigned int i = 0; i < n && all; i++)
		for (size_t j = 0; j < answers[i].count; j++)
			all[at++] = (const struct connection *)answers[i].data + j;
	if (all)
		qsort(all, *count, sizeof(*all), compare_connections);
	return all;
}

static json_t *address_json(const struct sockaddr_storage *addr)
{
	char text[RD_ADDR_TEXT];

	return addr->ss_family == AF_UNSPEC
		       ? json_null()
		       : json_string(rd_addr_format((const struct sockaddr *)addr, text));
}

json_t *rdt_show_text(const char *text)
{
	size_t len = strlen(text), n;
	char *copy = strdup(text);
	json_t *string;

	if (!copy)
		return NULL;
	for (size_t at = 0; at < len; at += n + !n) {
		n = rd_utf8_len(text + at, len - at);
		if (!n)
			copy[at] = '?';
	}
	string = json_string(copy);
	free(copy);
	return string;
}

/* @c: the queues of one controller, the admin queue first. */
static json_t *controller_json(const struct connection *const *c, size_t count)
{
	const struct connection *admin = c[0];
	json_t *queues = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(queues, json_pack("{s:i, s:i, s:i, s:i}", "qid",
							(int)c[i]->qid, "reactor",
							(int)c[i]->reactor, "size", (int)c[i]->size,
							"in_flight", (int)c[i]->in_flight));
	return json_pack(
		"{s:s, s:i, s:o, s:o, s:o, s:s, s:i, s:i, s:o}", "nqn", admin->ss->nqn, "cntlid",
		(int)admin->cntlid, "hostnqn", rdt_show_text(admin->hostnqn), "address",
		address_json(&admin->remote), "listener",
		admin->listener ? address_json(&admin->listener->addr) : json_null(), "state",
		admin->authenticating ? "authenticating" : rdt_ctrl_state_name(admin->state),
		"keep_alive_ms", (int)admin->kato_ms, "io_queues", (int)count - 1, "queues",
		queues);
}

/* I/O queues whose admin queue has ended are on their way out. */
json_t *rdt_show_controllers(const struct rdt_rpc_answer *answers, unsigned int n, size_t most,
			     size_t *total)
{
	json_t *list = json_array();
	const struct connection **all;
	size_t count, end;

	*total = 0;
	all = sorted(answers, n, &count);
	for (size_t at = 0; at < count && all; at = end) {
		for (end = at + 1; end < count && all[end]->ss == all[at]->ss &&
				   all[end]->cntlid == all[at]->cntlid;)
			end++;
		if (all[at]->qid == 0 && (*total)++ < most)
			json_array_append_new(list, controller_json(all + at, end - at));
	}
	free(all);
	return list;
}

static void controllers_answered(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
				 unsigned int n)
{
	size_t total;

	rdt_rpc_result(call, json_pack("{s:o}", "controllers",
				       rdt_show_controllers(answers, n, SIZE_MAX, &total)));
}

static void controller_list(struct rdt_rpc_call *call)
{
	rdt_rpc_ask(call, rdt_show_collect_connections, controllers_answered);
}

/* Names that several controllers of a host share are listed once. */
static void add_once(json_t *list, const json_t *text)
{
	json_t *element;
	size_t i;

	json_array_foreach(list, i, element) if (json_equal(element, text)) return;
	json_array_append(list, (json_t *)text);
}

static void hosts_answered(struct rdt_rpc_call *call, struct rdt_rpc_answer *answers,
			   unsigned int n)
{
	size_t i, total;
	json_t *controllers = rdt_show_controllers(answers, n, SIZE_MAX, &total);
	json_t *by_name = json_object(), *list = json_array();
	json_t *c, *host;

	json_array_foreach(controllers, i, c)
	{
		const char *nqn = json_string_value(json_object_get(c, "hostnqn"));
		json_int_t queues = json_integer_value(json_object_get(c, "io_queues"));

		host = json_object_get(by_name, nqn);
		if (!host) {
			host = json_pack("{s:s, s:i, s:i, s:[], s:[]}", "hostnqn", nqn,
					 "controllers", 0, "io_queues", 0, "subsystems",
					 "addresses");
			json_object_set_new(by_name, nqn, host);
			json_array_append(list, host);
		}
		json_object_set_new(
			host, "controllers",
			json_integer(1 + json_integer_value(json_object_get(host, "controllers"))));
		json_object_set_new(host, "io_queues",
				    json_integer(queues + json_integer_value(json_object_get(
								  host, "io_queues"))));
		add_once(json_object_get(host, "subsystems"), json_object_get(c, "nqn"));
		add_once(json_object_get(host, "addresses"), json_object_get(c, "address"));
	}
	json_decref(by_name);
	json_decref(controllers);
	rdt_rpc_result(call, json_pack("{s:o}", "hosts", list));
}

static void host_list(struct rdt_rpc_call *call)
{
	rdt_rpc_ask(call, rdt_show_collect_connections, hosts_answered);
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
	json_int_t cntlid = -1; /* of any ID */
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
