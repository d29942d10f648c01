/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Methods that change the configuration. Each edits the texts that were loaded last; the result is
 * checked and applied as a reload is.
 */
#include "rpc_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sockaddr.h"
#include "util/utf8.h"
#include "target/config/config.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/manage/objects/control.h"
#include "target/manage/change/reloader.h"
#include "target/manage/change/report.h"
#include "target/manage/show/show.h"

#define WHAT_TEXT 300

struct reopen {
	struct rdt_rpc_call *call; /* NULL: the client has disconnected */
};

/* ---- answers ---- */

/* How messages name an element of a list: the noun, and the parameter. */
static const struct element_words {
	const char *list;
	const char *word;
	const char *param;
	const char *key;  /* NULL: the element is a string */
	const char *hint; /* if no element has that name; or NULL */
} element_words[] = {
	{"subsystems", "subsystem", "nqn", "nqn", "the method \"subsystem.list\" lists all"},
	{"namespaces", "namespace", "nsid", "nsid", "the method \"namespace.list\" lists all"},
	{"listeners", "listener", "address", "address", "the method \"listener.list\" lists all"},
	{"hosts", "host", "hostnqn", NULL, NULL},
	{"host_qos", "limit of host", "hostnqn", "host", NULL},
	{"host_auth", "key of host", "hostnqn", "host", NULL},
	{"ana", "group", "group", "group", NULL},
};

/* Returns the words for the element at step @at of @path, and copies its name into @value. */
static const struct element_words *name_element(const json_t *path, unsigned int at, char *value,
						size_t size)
{
	const char *list = json_string_value(json_array_get(path, at & ~1u));
	const json_t *name = json_array_get(path, at | 1u);

	for (size_t i = 0; i < sizeof(element_words) / sizeof(element_words[0]); i++) {
		const struct element_words *w = &element_words[i];

		if (!list || strcmp(w->list, list) != 0)
			continue;
		if (w->key)
			name = json_object_get(name, w->key);
		if (json_is_integer(name))
			snprintf(value, size, "%" JSON_INTEGER_FORMAT, json_integer_value(name));
		else
			snprintf(value, size, "%s", name ? json_string_value(name) : "");
		return w;
	}
	snprintf(value, size, "-");
	return &element_words[0];
}

/* Finds the key of a problem: "size" in "FILE:LINE: subsystems[0].namespaces[1].size: found ...".
 * Returns the text after the position, and the key or NULL. */
static const char *problem_key(const char *line, const char *path, char **key)
{
	const char *text = line, *end, *dot;
	size_t len = strlen(path);

	*key = NULL;
	if (strncmp(line, path, len) != 0 || line[len] != ':')
		return line;
	text = strstr(line + len, ": ");
	if (!text)
		return line;
	text += 2;
	end = strstr(text, ": ");
	if (!end)
		return text;
	for (dot = end; dot > text && dot[-1] != '.'; dot--)
		;
	*key = strndup(dot, (size_t)(end - dot));
	return text;
}

static void answer_problems(struct rdt_rpc_call *call, const struct rdt_change *ch)
{
	const struct rdt_report *report = &ch->report;
	const char *line = rdt_report_first_error(report, "out of memory");
	const char *path = call->rpc->env->config_path, *text = line;
	char *key = NULL;

	if (ch->kind == RDT_CHANGE_EDIT)
		text = problem_key(line, path, &key);
	rdt_rpc_error(call, RDT_RPC_INVALID, key, NULL,
		      "nothing was changed; rdtarget.yaml(5) describes the keys",
		      report->errors > 1 ? "%s (and %u more)" : "%s", text, report->errors - 1);
	free(key);
}

static void answer_edit_error(struct rdt_rpc_call *call, const struct rdt_change *ch)
{
	const struct element_words *words;
	char value[256];
	const json_t *path;

	if (ch->kind != RDT_CHANGE_EDIT || ch->at_edit >= ch->edits_count) {
		answer_problems(call, ch);
		return;
	}
	path = ch->edits[ch->at_edit].path;
	switch (ch->err) {
	case -ENOENT:
		words = name_element(path, ch->at_step, value, sizeof(value));
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, words->param, value, words->hint,
			      "no %s \"%s\"", words->word, value);
		break;
	case -EEXIST:
		words = name_element(path, (unsigned int)json_array_size(path) - 1, value,
				     sizeof(value));
		rdt_rpc_error(call, RDT_RPC_EXISTS, words->param, value,
			      "remove it first, or change it by another method",
			      "%s \"%s\" exists, with other values", words->word, value);
		break;
	case -ENOTSUP:
		rdt_rpc_error(call, RDT_RPC_REFUSED, NULL, NULL,
			      "edit the file by hand, and reload it",
			      "this part of the configuration cannot be edited without changing "
			      "other parts of it");
		break;
	default:
		rdt_rpc_error(call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL, "%s",
			      strerror(-ch->err));
		break;
	}
}

static void answer_changed(struct rdt_rpc_call *call, const struct rdt_change *ch)
{
	json_t *answer = json_pack("{s:b}", "changed", ch->changed);

	if (ch->differences)
		json_object_set(answer, "differences", ch->differences);
	if (ch->matched)
		json_object_set_new(answer, "listeners", json_integer(ch->matched));
	if (ch->changed && !ch->dry_run) {
		json_object_set_new(answer, "summary", json_string(ch->summary));
		json_object_set_new(answer, "outcome", json_string(rdt_change_outcome(ch)));
	}
	if (ch->restarts)
		json_object_set_new(answer, "restarts", json_integer(ch->restarts));
	if (ch->report.count)
		json_object_set_new(answer, "messages", rdt_rpc_report(&ch->report));
	if (ch->saved)
		json_object_set_new(answer, "saved", json_true());
	rdt_rpc_result(call, answer);
}

static void edit_done(void *arg, const struct rdt_change *ch)
{
	struct rdt_rpc_call *call = arg;

	call->cancel = NULL;
	if (ch->err == -EBUSY) /* it was queued when the drain began */
		rdt_rpc_error(call, RDT_RPC_BUSY, NULL, NULL, NULL, "%s", ch->summary);
	else if (ch->err)
		answer_edit_error(call, ch);
	else if (ch->save_err)
		rdt_rpc_error(call, RDT_RPC_REFUSED, NULL, NULL, NULL, "%s%s",
			      ch->changed ? "the change was made, but: " : "",
			      rdt_report_first_error(&ch->report, strerror(-ch->save_err)));
	else if (ch->changed && !ch->dry_run && !ch->applied)
		rdt_rpc_error(call, RDT_RPC_REFUSED, NULL, NULL, NULL, "%s",
			      rdt_report_first_error(&ch->report, ch->summary));
	else
		answer_changed(call, ch);
}

/* ---- requests ---- */

/* The method and its parameters as text for the log, without a document, which may be large. */
static char *describe_change(const struct rdt_rpc_call *call)
{
	json_t *params = json_copy(call->params);
	char *text = NULL, *all = NULL;

	json_object_del(params, "document");
	json_object_del(params, "save");
	json_object_del(params, "wait");
	text = json_dumps(params, JSON_COMPACT);
	json_decref(params);
	if (asprintf(&all, "%s %.*s", call->method->name, WHAT_TEXT, text ? text : "{}") < 0)
		all = NULL;
	else
		rd_mask_control(all, strlen(all)); /* truncation may have split a character */
	free(text);
	return all;
}

/* Creates a change. On failure, answers @call and returns NULL. */
static struct rdt_change *change_new(struct rdt_rpc_call *call, enum rdt_change_kind kind,
				     unsigned int edits)
{
	struct rdt_change *ch = NULL;
	char *what;

	if (rdt_rpc_refuse_drained(call))
		return NULL;
	what = describe_change(call);
	if (what)
		ch = rdt_change_new(kind, what, edits);
	if (!ch) {
		rdt_rpc_no_memory(call);
		return NULL;
	}
	ch->dry_run = json_is_true(json_object_get(call->params, "dry_run"));
	ch->save = json_is_true(json_object_get(call->params, "save"));
	ch->keep_state = json_is_true(json_object_get(call->params, "keep_state"));
	return ch;
}

static void change_start(struct rdt_rpc_call *call, struct rdt_change *ch)
{
	rdt_rpc_start_change(call, ch, edit_done);
}

/* The key of the object in parameter @param. Returns NULL after answering @call with an error. */
static json_t *needed_key(struct rdt_rpc_call *call, const char *param, const char *key,
			  json_type type)
{
	json_t *value = json_object_get(json_object_get(call->params, param), key);

	if (value && json_typeof(value) == type)
		return value;
	rdt_rpc_error(call, RDT_RPC_INVALID, key, NULL, "rdtarget.yaml(5) describes the keys",
		      "%s: %s: %s, expected %s", param, key, value ? "has another type" : "missing",
		      type == JSON_STRING ? "a string" : "a whole number");
	return NULL;
}

/* ---- methods that are edits only ---- */

/*
 * An edit made from the parameters of a call. @path: keys, each followed by an element in brackets:
 * [nsid] is the element whose key "nsid" equals the parameter of that name, or that key of the
 * added object; [host=hostnqn] the one whose key "host" equals the parameter "hostnqn"; [=hostnqn]
 * a string. @value: the parameter with the value, or "=true" and the like. If the parameter is
 * absent or an empty object, an addition is omitted and a key is set to null; a removal is omitted
 * if it is absent.
 */
struct edit_step {
	enum rdt_edit_op op;
	const char *path;
	const char *value;
	bool if_changed;
};

#define ADD(path, value)                         \
	{                                        \
		RDT_EDIT_ADD, path, value, false \
	}
#define REMOVE(path)                               \
	{                                          \
		RDT_EDIT_REMOVE, path, NULL, false \
	}
#define REMOVE_IF(path, value)                      \
	{                                           \
		RDT_EDIT_REMOVE, path, value, false \
	}
#define SET(path, value)                         \
	{                                        \
		RDT_EDIT_SET, path, value, false \
	}
#define STEPS          3u
#define SUBSYS         "subsystems[nqn]"
#define NAMESPACE      SUBSYS ".namespaces[nsid]"
#define KEY_OF_HOST    SUBSYS ".host_auth[host=hostnqn]"
#define LIMITS_OF_HOST SUBSYS ".host_qos[host=hostnqn]"

static const struct edit_row {
	const char *method;
	struct edit_step steps[STEPS];
} edit_rows[] = {
	{"namespace.add", {ADD(NAMESPACE, "namespace")}},
	{"namespace.remove", {REMOVE(NAMESPACE)}},
	{"namespace.resize", {SET(NAMESPACE ".size", "size")}},
	{"namespace.set_ana", {SET(NAMESPACE ".ana_group", "group")}},
	{"namespace.write_protect", {SET(NAMESPACE ".read_only", "on")}},
	{"namespace.qos", {SET(NAMESPACE ".qos", "limits")}},
	{"subsystem.add", {ADD(SUBSYS, "subsystem")}},
	{"subsystem.remove", {REMOVE(SUBSYS)}},
	{"subsystem.allow_any_host",
	 {SET(SUBSYS ".hosts", "=null"), SET(SUBSYS ".allow_any_host", "=true")}},
	{"subsystem.set_hosts",
	 {SET(SUBSYS ".hosts", "hosts"), SET(SUBSYS ".allow_any_host", "=false")}},
	/* A host and its keys are one change, because neither is valid without the other where
	 * authentication is required. */
	{"host.allow",
	 {ADD(SUBSYS ".hosts[=hostnqn]", "hostnqn"), REMOVE_IF(KEY_OF_HOST, "keys"),
	  ADD(KEY_OF_HOST, "keys")}},
	/* Also removes its keys: keys of a host that may not connect are an error. After the last
	 * host, "allow_any_host: false" means that no host may connect. */
	{"host.deny",
	 {REMOVE(SUBSYS ".hosts[=hostnqn]"),
	  REMOVE(KEY_OF_HOST),
	  {RDT_EDIT_SET, SUBSYS ".allow_any_host", "=false", true}}},
	{"host.auth", {REMOVE(KEY_OF_HOST), ADD(KEY_OF_HOST, "keys")}},
	{"host.qos", {REMOVE(LIMITS_OF_HOST), ADD(LIMITS_OF_HOST, "limits")}},
};

/* A borrowed reference from @params; NULL: absent, or an empty object. */
static json_t *given_value(const json_t *params, const struct edit_step *step)
{
	json_t *value = step->value ? json_object_get(params, step->value) : NULL;

	if (step->value && step->value[0] == '=') /* these are static, without reference counts */
		return strcmp(step->value, "=true") == 0    ? json_true()
		       : strcmp(step->value, "=false") == 0 ? json_false()
							    : json_null();
	return json_is_object(value) && !json_object_size(value) ? NULL : value;
}

/* The element in brackets, whose text is @text. @named: receives the key that identifies it if the
 * added object lacks that key. */
static json_t *path_element(const json_t *params, const struct edit_step *step, const char *text,
			    json_t **named)
{
	const char *equals = strchr(text, '=');
	const char *param = equals ? equals + 1 : text;
	json_t *value = json_object_get(params, param), *element;
	char key[32];

	if (!value)
		value = json_object_get(given_value(params, step), param);
	if (equals == text)
		return json_incref(value);
	snprintf(key, sizeof(key), "%.*s", equals ? (int)(equals - text) : 24, text);
	element = json_object();
	json_object_set(element, key, value);
	*named = equals ? element : NULL;
	return element;
}

/* Adds the edit of @step to @ch, if there is anything to do. */
static void add_edit(struct rdt_change *ch, const json_t *params, const struct edit_step *step)
{
	json_t *value = given_value(params, step), *path, *named = NULL;
	char part[32];
	size_t len;

	if (!value && step->value && step->op != RDT_EDIT_SET)
		return;
	path = json_array();
	for (const char *at = step->path; *at; at += len, at += strspn(at, ".[]")) {
		len = strcspn(at, ".[]");
		memcpy(part, at, len); /* paths are short constants */
		part[len] = '\0';
		if (at > step->path && at[-1] == '[')
			json_array_append_new(path, path_element(params, step, part, &named));
		else
			json_array_append_new(path, json_string(part));
	}
	if (step->op == RDT_EDIT_SET && !value)
		value = json_null();
	if (step->op == RDT_EDIT_ADD && named) {
		named = json_copy(named);
		json_object_update(named, value);
		value = named;
	} else {
		value = step->op == RDT_EDIT_REMOVE ? NULL : json_incref(value);
	}
	ch->edits[ch->edits_count++] = (struct rdt_config_edit){
		.op = step->op, .path = path, .value = value, .if_changed = step->if_changed};
}

static void edit_by_row(struct rdt_rpc_call *call)
{
	struct rdt_change *ch = change_new(call, RDT_CHANGE_EDIT, STEPS);
	const struct edit_row *row = edit_rows;

	if (!ch)
		return;
	while (strcmp(row->method, call->method->name) != 0)
		row++;
	for (unsigned int i = 0; i < STEPS && row->steps[i].path; i++)
		add_edit(ch, call->params, &row->steps[i]);
	change_start(call, ch);
}

static void namespace_add(struct rdt_rpc_call *call)
{
	if (needed_key(call, "namespace", "nsid", JSON_INTEGER))
		edit_by_row(call);
}

static void subsystem_add(struct rdt_rpc_call *call)
{
	if (needed_key(call, "subsystem", "nqn", JSON_STRING))
		edit_by_row(call);
}

static void subsystem_set_hosts(struct rdt_rpc_call *call)
{
	json_t *host;
	size_t i;

	json_array_foreach(json_object_get(call->params, "hosts"), i, host)
	{
		if (json_is_string(host))
			continue;
		rdt_rpc_error(call, RDT_RPC_INVALID, "hosts", NULL, NULL,
			      "hosts: expected a list of strings");
		return;
	}
	edit_by_row(call);
}

/* ---- checks of storage, without a change of the configuration ---- */

/* The namespace of parameters "nqn" and "nsid". Returns NULL after answering @call with an
 * error. */
static struct rdt_ns *named_ns(struct rdt_rpc_call *call)
{
	json_int_t nsid = 0;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;
	bool found;

	if (!rdt_rpc_number(call, "nsid", 1, UINT32_MAX - 1, &nsid))
		return NULL;
	ss = rdt_rpc_subsys(call, "nqn", &found);
	if (!found)
		return NULL;
	ns = ss ? rdt_ns_with(ss, (uint32_t)nsid) : NULL;
	if (!ns)
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, "nsid", NULL,
			      "the method \"namespace.list\" lists all", "no namespace \"%lld\"",
			      (long long)nsid);
	return ns;
}

static void reopen_done(void *arg, int err, const char *text)
{
	struct reopen *w = arg;

	if (w->call) {
		w->call->cancel = NULL;
		rdt_rpc_result(w->call, err ? json_pack("{s:s, s:o}", "outcome", "failed", "reason",
							rdt_show_text(text))
					    : json_pack("{s:s}", "outcome", "done"));
	}
	free(w);
}

static void reopen_cancel(struct rdt_rpc_call *call)
{
	struct reopen *w = call->work;

	w->call = NULL; /* the operation continues */
}

static void namespace_reopen(struct rdt_rpc_call *call)
{
	struct rdt_ns *ns = rdt_rpc_refuse_drained(call) ? NULL : named_ns(call);
	struct reopen *w = ns ? calloc(1, sizeof(*w)) : NULL;

	if (!ns)
		return;
	if (!w) {
		rdt_rpc_no_memory(call);
		return;
	}
	w->call = call;
	call->work = w;
	call->cancel = reopen_cancel;
	rdt_control_ns_reopen(ns, reopen_done, w);
}

/* Without a size, reads that of the file or device; there is nothing to edit. */
static void namespace_resize(struct rdt_rpc_call *call)
{
	const struct rdt_ns *ns;
	struct rdt_change *ch;

	if (json_object_get(call->params, "size")) {
		edit_by_row(call);
		return;
	}
	ns = named_ns(call);
	ch = ns ? change_new(call, RDT_CHANGE_EDIT, 0) : NULL;
	if (!ch)
		return;
	snprintf(ch->check_nqn, sizeof(ch->check_nqn), "%s", ns->subsys->nqn);
	ch->check_nsid = ns->nsid;
	change_start(call, ch);
}

/* ---- hosts ---- */

static bool any_host_may(const struct rdt_rpc_call *call)
{
	const struct rdt_subsys *ss = rdt_subsys_find(call->rpc->target, rdt_rpc_text(call, "nqn"));

	return ss && ss->now->allow_any_host;
}

/* An element of host_auth or host_qos is for the host in parameter "hostnqn". Another "host" among
 * its keys would change the settings of that host, so it is refused: answers the call and returns
 * true. */
static bool refuse_other_host(struct rdt_rpc_call *call, const char *param)
{
	const json_t *host = json_object_get(json_object_get(call->params, param), "host");
	const char *value = json_string_value(host);

	if (!host)
		return false;
	rdt_rpc_error(
		call, RDT_RPC_INVALID, "host", value,
		"leave \"host\" out; the parameter \"hostnqn\" names the host",
		"%s: found the key \"host\"%s%.256s, expected the other keys of an entry only",
		param, value ? " with the value " : "", value ? value : "");
	return true;
}

static void refuse_any_host(struct rdt_rpc_call *call)
{
	const char *nqn = rdt_rpc_text(call, "nqn");

	rdt_rpc_error(call, RDT_RPC_REFUSED, "nqn", nqn,
		      "the method \"subsystem.set_hosts\" names those that may",
		      "any host may use subsystem \"%s\"", nqn);
}

/* The first host in the list would exclude all others; only subsystem.set_hosts does that. */
static void host_allow(struct rdt_rpc_call *call)
{
	if (refuse_other_host(call, "keys"))
		return;
	if (!any_host_may(call))
		edit_by_row(call);
	else if (json_object_size(json_object_get(call->params, "keys")))
		refuse_any_host(call);
	else
		rdt_rpc_result(call, json_pack("{s:b}", "changed", 0));
}

static void host_deny(struct rdt_rpc_call *call)
{
	if (any_host_may(call))
		refuse_any_host(call);
	else
		edit_by_row(call);
}

static void host_qos(struct rdt_rpc_call *call)
{
	if (!refuse_other_host(call, "limits"))
		edit_by_row(call);
}

static void host_auth(struct rdt_rpc_call *call)
{
	if (!refuse_other_host(call, "keys"))
		edit_by_row(call);
}

/* ---- listeners ---- */

static json_t *listener_path(const json_t *of)
{
	const json_t *port = json_object_get(of, "port");

	return json_pack(
		"[s, {s:O, s:o}]", "listeners", "address", json_object_get(of, "address"), "port",
		port ? json_incref((json_t *)port) : json_integer(rdt_config_default_port()));
}

/* Takes ownership of @value. */
static void edit_listener(struct rdt_rpc_call *call, enum rdt_edit_op op, const json_t *of,
			  json_t *value)
{
	struct rdt_change *ch = change_new(call, RDT_CHANGE_EDIT, 1);

	if (!ch) {
		json_decref(value);
		return;
	}
	ch->edits[ch->edits_count++] =
		(struct rdt_config_edit){.op = op, .path = listener_path(of), .value = value};
	change_start(call, ch);
}

static void listener_add(struct rdt_rpc_call *call)
{
	json_t *listener = json_object_get(call->params, "listener");
	const json_t *port = json_object_get(listener, "port");

	if (!needed_key(call, "listener", "address", JSON_STRING) ||
	    (port && !needed_key(call, "listener", "port", JSON_INTEGER)))
		return;
	edit_listener(call, RDT_EDIT_ADD, listener, json_incref(listener));
}

static void listener_remove(struct rdt_rpc_call *call)
{
	edit_listener(call, RDT_EDIT_REMOVE, call->params, NULL);
}

/* ---- ana.set ---- */

static bool listener_matches(const struct rdt_listener *l, const char *address, json_int_t port)
{
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

	return (!address || strcmp(l->cfg->address, address) == 0) &&
	       (port < 0 || l->cfg->port == port || (l->listening && rd_addr_port(addr) == port));
}

/* A group that is not listed is optimized: removes the entry, then adds one if needed. */
static void edit_ana(struct rdt_change *ch, const struct rdt_listener *l, json_int_t group,
		     const char *state)
{
	json_t *path = json_pack("[s, {s:s, s:i}, s, {s:I}]", "listeners", "address",
				 l->cfg->address, "port", (int)l->cfg->port, "ana", "group", group);

	ch->edits[ch->edits_count++] =
		(struct rdt_config_edit){.op = RDT_EDIT_REMOVE, .path = path};
	if (strcmp(state, rdt_config_ana_name(RDT_ANA_OPTIMIZED)) == 0)
		return;
	ch->edits[ch->edits_count++] = (struct rdt_config_edit){
		.op = RDT_EDIT_ADD,
		.path = json_incref(path),
		.value = json_pack("{s:I, s:s}", "group", group, "state", state)};
}

static void ana_set(struct rdt_rpc_call *call)
{
	const char *state = rdt_rpc_text(call, "state"), *address = rdt_rpc_text(call, "address");
	json_int_t group = 0, port = -1; /* -1: any port */
	struct rdt_target *t = call->rpc->target;
	unsigned int matched = 0;
	struct rdt_listener *l;
	struct rdt_change *ch;

	if (!rdt_config_ana_state(state)) {
		rdt_rpc_error(
			call, RDT_RPC_INVALID, "state", state, NULL,
			"state: found \"%.60s\", expected optimized, non-optimized, inaccessible, "
			"persistent-loss or change",
			state);
		return;
	}
	if (!rdt_rpc_number(call, "group", 1, RDT_ANA_GROUPS, &group) ||
	    !rdt_rpc_number(call, "port", 0, UINT16_MAX, &port))
		return;
	TAILQ_FOREACH (l, &t->listeners, link)
		matched += listener_matches(l, address, port);
	if (!matched) {
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, address ? "address" : "port", address,
			      "the method \"listener.list\" lists all",
			      port < 0 ? "no listener matches %.60s"
				       : "no listener matches %.60s port %d",
			      address ? address : "any address", (int)port);
		return;
	}
	ch = change_new(call, RDT_CHANGE_EDIT, 2 * matched);
	if (!ch)
		return;
	TAILQ_FOREACH (l, &t->listeners, link)
		if (listener_matches(l, address, port))
			edit_ana(ch, l, group, state);
	ch->matched = matched;
	change_start(call, ch);
}

/* ---- the configuration as a whole ---- */

static void config_apply(struct rdt_rpc_call *call)
{
	const char *text = rdt_rpc_text(call, "document");
	struct rdt_change *ch = change_new(call, RDT_CHANGE_DOCUMENT, 0);

	if (!ch)
		return;
	ch->document = strdup(text);
	ch->document_len = strlen(text);
	if (ch->document) {
		change_start(call, ch);
		return;
	}
	rdt_change_free(ch);
	rdt_rpc_no_memory(call);
}

static void config_save(struct rdt_rpc_call *call)
{
	struct rdt_change *ch = change_new(call, RDT_CHANGE_SAVE, 0);

	if (ch)
		change_start(call, ch);
}

/* Parameters of every method that changes the configuration. */
#define CHANGE ", [save: boolean], [dry_run: boolean], [wait: boolean]"

const struct rdt_rpc_method rdt_rpc_edit_methods[] = {
	{"namespace.add", "add a namespace, with the keys of the configuration", true,
	 "nqn: string, namespace: object" CHANGE, namespace_add},
	{"namespace.remove", "remove a namespace, with its reservations unless keep_state", true,
	 "nqn: string, nsid: number, [keep_state: boolean]" CHANGE, edit_by_row},
	{"namespace.reopen", "reopen the file or device of a namespace by its path", true,
	 "nqn: string, nsid: number", namespace_reopen},
	{"namespace.resize", "set the size, or without one read it from the file or device", true,
	 "nqn: string, nsid: number, [size: string]" CHANGE, namespace_resize},
	{"namespace.set_ana", "move a namespace to another ANA group", true,
	 "nqn: string, nsid: number, group: number" CHANGE, edit_by_row},
	{"namespace.write_protect", "make a namespace read-only or writable", true,
	 "nqn: string, nsid: number, on: boolean" CHANGE, edit_by_row},
	{"namespace.qos", "set the limits of a namespace; none: remove them", true,
	 "nqn: string, nsid: number, limits: object" CHANGE, edit_by_row},
	{"subsystem.add", "add a subsystem, with the keys of the configuration", true,
	 "subsystem: object" CHANGE, subsystem_add},
	{"subsystem.remove", "remove a subsystem with its namespaces", true, "nqn: string" CHANGE,
	 edit_by_row},
	{"subsystem.allow_any_host", "allow every host to use a subsystem", true,
	 "nqn: string" CHANGE, edit_by_row},
	{"subsystem.set_hosts", "allow only these hosts to use a subsystem", true,
	 "nqn: string, hosts: list" CHANGE, subsystem_set_hosts},
	{"host.allow", "allow a host to use a subsystem, and set its key files", true,
	 "nqn: string, hostnqn: string, [keys: object]" CHANGE, host_allow},
	{"host.deny", "remove a host and its keys from the allowed hosts, and end its controllers",
	 true, "nqn: string, hostnqn: string" CHANGE, host_deny},
	{"host.auth", "set the key files of a host; none: remove them", true,
	 "nqn: string, hostnqn: string, keys: object" CHANGE, host_auth},
	{"host.qos", "set the limits of a host; none: remove them", true,
	 "nqn: string, hostnqn: string, limits: object" CHANGE, host_qos},
	{"listener.add", "listen on an address, with the keys of the configuration", true,
	 "listener: object" CHANGE, listener_add},
	{"listener.remove", "stop listening on an address, and end its connections", true,
	 "address: string, [port: number]" CHANGE, listener_remove},
	{"ana.set", "set the ANA state of a group on all or matching listeners", true,
	 "group: number, state: string, [address: string], [port: number]" CHANGE, ana_set},
	{"config.apply", "apply a document instead of the configuration file", true,
	 "document: string" CHANGE, config_apply},
	{"config.save", "write changes to the configuration files", true, NULL, config_save},
	{NULL, NULL, false, NULL, NULL},
};
