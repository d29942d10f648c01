/* SPDX-License-Identifier: BSD-3-Clause */
#include "connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "nvmf/tls.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/qpair.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "answer.h"
#include "show.h"

struct connection {          /* copied on its reactor */
	struct rdt_nqn *nqn; /* a reference */
	unsigned int subsys; /* index of its subsystem */
	const struct rdt_listener *listener;
	unsigned int reactor;
	uint16_t cntlid;
	uint16_t qid; /* 0: the admin queue */
	uint16_t size;
	unsigned int in_flight;
	struct sockaddr_storage remote;
	/* for an admin queue only */
	uint32_t kato_ms;
	uint8_t state; /* enum rdt_ctrl_state */
	bool authenticating;
	char tls[96]; /* "": none */
	char hostnqn[NVMF_NQN_MAX + 1];
};

struct place { /* copy of a listener's address, which only the main thread may read */
	const struct rdt_listener *listener;
	char address[RD_ADDR_TEXT];
};

struct part { /* the connections of one reactor */
	struct connection *list;
	size_t count;
};

/* A controller: its queues in the sorted array, the admin queue first. */
struct group {
	const struct connection **queues;
	size_t count;
};

struct rdt_connections {
	struct place *places;
	unsigned int places_count;
	const struct connection **sorted; /* made with the first list; NULL: not yet */
	struct group *groups;
	size_t groups_count;
	unsigned int parts_count;
	struct part parts[];
};

/* ---- copies ---- */

/* Describes the TLS session without the secret. */
static void copy_tls(const struct nvmf_tls_info *tls, char *out, size_t size)
{
	out[0] = '\0';
	if (tls)
		snprintf(out, size, "NVMe%u%c%02u, %s, %s key%s%s", tls->identity.version,
			 tls->identity.type, tls->identity.hash, tls->suite,
			 tls->key ? "previous" : "present",
			 tls->compat ? ", derived as by libnvme before 1.14" : "",
			 tls->ktls_send ? ", by the kernel" : "");
}

static void copy_connection(const struct rdt_reactor *r, const struct rdt_qpair *qp,
			    struct connection *c)
{
	const struct rdt_ctrl *ctrl = qp->ctrl;

	c->nqn = rdt_nqn_get(ctrl->subsys->name);
	c->subsys = ctrl->subsys->index;
	c->listener = qp->listener;
	c->reactor = r->index;
	c->cntlid = ctrl->cntlid;
	c->qid = qp->qid;
	c->size = qp->sqsize;
	c->in_flight = qp->used - qp->used_aer;
	c->remote = qp->remote;
	if (qp->admin) { /* only the admin queue's reactor may read the controller */
		c->kato_ms = ctrl->kato_ms;
		c->state = ctrl->state;
		c->authenticating = qp->state == RDT_QP_AUTH;
		copy_tls(qp->tls, c->tls, sizeof(c->tls));
		memcpy(c->hostnqn, ctrl->hostnqn, sizeof(c->hostnqn));
	}
}

/* New connections during the walk may not fit, as if they had been made after it. */
static void collect_connection(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct rdt_answer *answer = rd_container_of(walk, struct rdt_answer, walk);
	struct connection *list = answer->data;

	if (qp->ctrl && answer->count < answer->room)
		copy_connection(walk->reactor, qp, &list[answer->count++]);
}

void rdt_connections_collect(struct rdt_answer *answer)
{
	answer->count = 0;
	answer->room = answer->reactor->qpairs_count;
	/* Not calloc(3), which may take long to zero all of it. */
	answer->data = malloc((answer->room + 1) * sizeof(struct connection));
	answer->no_memory = !answer->data;
	if (answer->no_memory) {
		rdt_answer_ready(answer);
		return;
	}
	rdt_answer_by_walk(answer, collect_connection);
}

static void free_connections(struct connection *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		rdt_nqn_put(list[i].nqn);
	free(list);
}

void rdt_connections_drop(struct rdt_answer *answer)
{
	free_connections(answer->data, answer->count);
	answer->data = NULL;
}

static bool copy_places(struct rdt_connections *c, const struct rdt_target *t)
{
	const struct rdt_listener *l;
	unsigned int count = 0;

	TAILQ_FOREACH (l, &t->listeners, link)
		count++;
	c->places = calloc(count + 1, sizeof(*c->places));
	if (!c->places)
		return false;
	TAILQ_FOREACH (l, &t->listeners, link) {
		struct place *place = &c->places[c->places_count];

		if (l->addr.ss_family == AF_UNSPEC) /* it has no bound address yet */
			continue;
		place->listener = l;
		rd_addr_format((const struct sockaddr *)&l->addr, place->address);
		c->places_count++;
	}
	return true;
}

struct rdt_connections *rdt_connections_take(const struct rdt_target *t, struct rdt_answer *answers,
					     unsigned int n)
{
	struct rdt_connections *c = calloc(1, sizeof(*c) + n * sizeof(c->parts[0]));

	if (!c || !copy_places(c, t)) {
		free(c);
		return NULL;
	}
	for (unsigned int i = 0; i < n; i++) {
		if (!answers[i].data)
			continue;
		c->parts[c->parts_count++] =
			(struct part){.list = answers[i].data, .count = answers[i].count};
		answers[i].data = NULL;
	}
	return c;
}

void rdt_connections_free(struct rdt_connections *c)
{
	if (!c)
		return;
	for (unsigned int i = 0; i < c->parts_count; i++)
		free_connections(c->parts[i].list, c->parts[i].count);
	free(c->sorted);
	free(c->groups);
	free(c->places);
	free(c);
}

/* ---- order ---- */

/* Sorts by controller, its admin queue first. */
static int compare_connections(const void *a, const void *b)
{
	const struct connection *x = *(const struct connection *const *)a;
	const struct connection *y = *(const struct connection *const *)b;

	if (x->subsys != y->subsys)
		return x->subsys < y->subsys ? -1 : 1;
	if (x->nqn != y->nqn) /* a removed subsystem had the same index */
		return x->nqn < y->nqn ? -1 : 1;
	if (x->cntlid != y->cntlid)
		return x->cntlid < y->cntlid ? -1 : 1;
	return (x->qid > y->qid) - (x->qid < y->qid);
}

/* Makes the groups, in the order of controllers. I/O queues whose admin queue has ended are about
 * to be closed, and are in no group. */
static bool group_connections(struct rdt_connections *c)
{
	size_t count = 0, at = 0, end;

	for (unsigned int i = 0; i < c->parts_count; i++)
		count += c->parts[i].count;
	c->sorted = calloc(count + 1, sizeof(*c->sorted));
	c->groups = calloc(count + 1, sizeof(*c->groups));
	if (!c->sorted || !c->groups)
		return false;
	for (unsigned int i = 0; i < c->parts_count; i++)
		for (size_t j = 0; j < c->parts[i].count; j++)
			c->sorted[at++] = &c->parts[i].list[j];
	qsort(c->sorted, count, sizeof(*c->sorted), compare_connections);
	for (at = 0; at < count; at = end) {
		for (end = at + 1; end < count && c->sorted[end]->nqn == c->sorted[at]->nqn &&
				   c->sorted[end]->cntlid == c->sorted[at]->cntlid;)
			end++;
		if (c->sorted[at]->qid == 0)
			c->groups[c->groups_count++] =
				(struct group){.queues = c->sorted + at, .count = end - at};
	}
	return true;
}

/* Sorts by Host NQN, then in the order of controllers. */
static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	int order = strcmp(x->queues[0]->hostnqn, y->queues[0]->hostnqn);

	return order ? order : compare_connections(x->queues, y->queues);
}

/* ---- lists ---- */

static json_t *address_json(const struct sockaddr_storage *addr)
{
	char text[RD_ADDR_TEXT];

	return addr->ss_family == AF_UNSPEC
		       ? json_null()
		       : json_string(rd_addr_format((const struct sockaddr *)addr, text));
}

static json_t *place_json(const struct rdt_connections *c, const struct rdt_listener *l)
{
	for (unsigned int i = 0; i < c->places_count; i++)
		if (c->places[i].listener == l)
			return json_string(c->places[i].address);
	return json_null();
}

static json_t *controller_json(const struct rdt_connections *c, const struct group *group)
{
	const struct connection *admin = group->queues[0];
	json_t *queues = json_array();

	for (size_t i = 0; i < group->count; i++) {
		const struct connection *q = group->queues[i];

		json_array_append_new(queues,
				      json_pack("{s:i, s:i, s:i, s:i}", "qid", (int)q->qid,
						"reactor", (int)q->reactor, "size", (int)q->size,
						"in_flight", (int)q->in_flight));
	}
	return json_pack(
		"{s:s, s:i, s:o, s:o, s:o, s:o, s:s, s:s*, s:I, s:i, s:o}", "nqn", admin->nqn->text,
		"cntlid", (int)admin->cntlid, "hostnqn", rdt_show_text(admin->hostnqn), "host",
		rdt_show_name(admin->hostnqn), "address", address_json(&admin->remote), "listener",
		place_json(c, admin->listener), "state",
		admin->authenticating ? "authenticating" : rdt_ctrl_state_name(admin->state), "tls",
		admin->tls[0] ? admin->tls : NULL, "keep_alive_ms", (json_int_t)admin->kato_ms,
		"io_queues", (int)group->count - 1, "queues", queues);
}

json_t *rdt_connections_controllers(struct rdt_connections *c, size_t most, size_t *total)
{
	json_t *list;

	*total = 0;
	if (!c->groups && !group_connections(c))
		return NULL;
	list = json_array();
	*total = c->groups_count;
	for (size_t i = 0; i < c->groups_count && i < most; i++)
		json_array_append_new(list, controller_json(c, &c->groups[i]));
	return list;
}

/* @groups: the @count controllers of one host. */
static json_t *host_json(const struct group *groups, size_t count)
{
	const char *name = groups[0].queues[0]->hostnqn;
	json_t *subsystems = json_array(), *addresses = json_array(), *seen = json_object();
	size_t io_queues = 0;

	for (size_t i = 0; i < count; i++) {
		const struct connection *admin = groups[i].queues[0];
		char text[RD_ADDR_TEXT];

		io_queues += groups[i].count - 1;
		if (i == 0 || admin->nqn != groups[i - 1].queues[0]->nqn)
			json_array_append_new(subsystems, json_string(admin->nqn->text));
		if (admin->remote.ss_family == AF_UNSPEC)
			continue;
		rd_addr_format((const struct sockaddr *)&admin->remote, text);
		if (json_object_get(seen, text))
			continue;
		json_object_set_new(seen, text, json_true());
		json_array_append_new(addresses, json_string(text));
	}
	json_decref(seen);
	return json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "hostnqn", rdt_show_text(name), "host",
			 rdt_show_name(name), "controllers", (int)count, "io_queues",
			 (int)io_queues, "subsystems", subsystems, "addresses", addresses);
}

json_t *rdt_connections_hosts(struct rdt_connections *c)
{
	json_t *list;
	size_t end;

	if (!c->groups && !group_connections(c))
		return NULL;
	qsort(c->groups, c->groups_count, sizeof(*c->groups), compare_groups);
	list = json_array();
	for (size_t at = 0; at < c->groups_count; at = end) {
		for (end = at + 1;
		     end < c->groups_count && strcmp(c->groups[end].queues[0]->hostnqn,
						     c->groups[at].queues[0]->hostnqn) == 0;)
			end++;
		json_array_append_new(list, host_json(&c->groups[at], end - at));
	}
	return list;
}
