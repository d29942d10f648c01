/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Methods that change the configuration. Each edits the document that was loaded last; the result
 * passes the same checks and the same reload as after SIGHUP.
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
#include "control.h"
#include "reloader.h"
#include "report.h"
#include "show.h"

#define WHAT_TEXT 300

struct reopen {
	struct rdt_rpc_call *call; /* NULL: nobody waits any more */
};

/* ---- answers ---- */

/* Names of the elements of a list: in a sentence, and as a parameter. */
static const struct element_words {
	const char *list;
	const char *word;
	const char *param;
	const char *key;  /* NULL: the element is text */
	const char *hint; /* when there is none of that name; or NULL */
} element_words[] = {
	{"subsystems", "subsystem", "nqn", "nqn", "the method \"subsystem.list\" lists all"},
	{"namespaces", "namespace", "nsid", "nsid", "the method \"namespace.list\" lists all"},
	{"listeners", "listener", "address", "address", "the method \"listener.list\" lists all"},
	{"hosts", "host", "hostnqn", NULL, NULL},
	{"host_qos", "limit of host", "hostnqn", "host", NULL},
	{"host_auth", "key of host", "hostnqn", "host", NULL},
	{"ana", "group", "group", "group", NULL},
};

/* The kind of element at step @at of @path. Sets @value to its name. */
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

/* Finds the key that a problem concerns: in "FILE:LINE: subsystems[0].namespaces[1].size: found
 * ..." it is "size". Returns the text behind the position, and the key or NULL. */
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
	if (ch->err == -EBUSY) /* it was waiting when the drain began */
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

/* The method and its parameters as text for the log; a document is left out, because it may be
 * large. */
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

/* Creates a change. Returns NULL after answering @call with an error. */
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

/* Starts a change with a single edit. Takes ownership of @path and @value. */
static void edit_one(struct rdt_rpc_call *call, enum rdt_edit_op op, json_t *path, json_t *value)
{
	struct rdt_change *ch = path ? change_new(call, RDT_CHANGE_EDIT, 1) : NULL;

	if (!ch) {
		if (!path)
			rdt_rpc_error(call, RDT_RPC_INVALID, NULL, NULL, NULL,
				      "a parameter is not valid text");
		json_decref(path);
		json_decref(value);
		return;
	}
	ch->edits[ch->edits_count++] =
		(struct rdt_config_edit){.op = op, .path = path, .value = value};
	change_start(call, ch);
}

/* A new reference to the parameter @name. */
static json_t *take_param(const struct rdt_rpc_call *call, const char *name)
{
	return json_incref(json_object_get(call->params, name));
}

/* The key that identifies the object in parameter @param. Returns NULL after answering @call
 * with an error. */
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

/* The path ["subsystems", {"nqn": NQN}, ...] for parameter "nqn". */
static json_t *subsys_path(const struct rdt_rpc_call *call)
{
	return json_pack("[s, {s:O}]", "subsystems", "nqn", json_object_get(call->params, "nqn"));
}

/* ---- namespaces ---- */

/* The path [..., "namespaces", {"nsid": NSID}] for the parameters; @key: a further step, or NULL.
 */
static json_t *ns_path(const struct rdt_rpc_call *call, const json_t *nsid, const char *key)
{
	json_t *path = subsys_path(call);

	json_array_append_new(path, json_string("namespaces"));
	json_array_append_new(path, json_pack("{s:O}", "nsid",
					      nsid ? nsid : json_object_get(call->params, "nsid")));
	if (key)
		json_array_append_new(path, json_string(key));
	return path;
}

static void namespace_add(struct rdt_rpc_call *call)
{
	json_t *nsid = needed_key(call, "namespace", "nsid", JSON_INTEGER);

	if (nsid)
		edit_one(call, RDT_EDIT_ADD, ns_path(call, nsid, NULL),
			 take_param(call, "namespace"));
}

static void namespace_remove(struct rdt_rpc_call *call)
{
	edit_one(call, RDT_EDIT_REMOVE, ns_path(call, NULL, NULL), NULL);
}

/* ---- namespace.reopen: the configuration stays ---- */

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

	w->call = NULL; /* it goes on */
}

static void namespace_reopen(struct rdt_rpc_call *call)
{
	json_int_t nsid = 0;
	struct rdt_subsys *ss;
	struct rdt_ns *ns;
	struct reopen *w;
	bool found;

	if (rdt_rpc_refuse_drained(call) || !rdt_rpc_number(call, "nsid", 1, UINT32_MAX - 1, &nsid))
		return;
	ss = rdt_rpc_subsys(call, "nqn", &found);
	if (!found)
		return;
	ns = ss ? rdt_ns_with(ss, (uint32_t)nsid) : NULL;
	if (!ns) {
		rdt_rpc_error(call, RDT_RPC_NOT_FOUND, "nsid", NULL,
			      "the method \"namespace.list\" lists all", "no namespace \"%lld\"",
			      (long long)nsid);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		rdt_rpc_no_memory(call);
		return;
	}
	w->call = call;
	call->work = w;
	call->cancel = reopen_cancel;
	rdt_control_ns_reopen(ns, reopen_done, w);
}

static void namespace_resize(struct rdt_rpc_call *call)
{
	struct rdt_change *ch;

	if (json_object_get(call->params, "size")) {
		edit_one(call, RDT_EDIT_SET, ns_path(call, NULL, "size"), take_param(call, "size"));
		return;
	}
	/* No edit is needed: every reload reads the sizes of files and devices. */
	ch = change_new(call, RDT_CHANGE_EDIT, 0);
	if (ch)
		change_start(call, ch);
}

static void namespace_set_ana(struct rdt_rpc_call *call)
{
	edit_one(call, RDT_EDIT_SET, ns_path(call, NULL, "ana_group"), take_param(call, "group"));
}

static void namespace_write_protect(struct rdt_rpc_call *call)
{
	edit_one(call, RDT_EDIT_SET, ns_path(call, NULL, "read_only"), take_param(call, "on"));
}

/* The parameter "limits"; none given: an empty object. */
static json_t *limits_param(const struct rdt_rpc_call *call)
{
	json_t *limits = json_object_get(call->params, "limits");

	return json_object_size(limits) ? json_copy(limits) : json_null();
}

static void namespace_qos(struct rdt_rpc_call *call)
{
	edit_one(call, RDT_EDIT_SET, ns_path(call, NULL, "qos"), limits_param(call));
}

/* ---- subsystems and hosts ---- */

static void subsystem_add(struct rdt_rpc_call *call)
{
	json_t *nqn = needed_key(call, "subsystem", "nqn", JSON_STRING);

	if (nqn)
		edit_one(call, RDT_EDIT_ADD, json_pack("[s, {s:O}]", "subsystems", "nqn", nqn),
			 take_param(call, "subsystem"));
}

static void subsystem_remove(struct rdt_rpc_call *call)
{
	edit_one(call, RDT_EDIT_REMOVE, subsys_path(call), NULL);
}

/* Adds an edit of a subsystem's key to @ch. Takes ownership of @value. */
static void edit_subsys_key(struct rdt_change *ch, const struct rdt_rpc_call *call, const char *key,
			    json_t *value, bool if_changed)
{
	json_t *path = subsys_path(call);

	json_array_append_new(path, json_string(key));
	ch->edits[ch->edits_count++] = (struct rdt_config_edit){
		.op = RDT_EDIT_SET, .path = path, .value = value, .if_changed = if_changed};
}

static void subsystem_allow_any_host(struct rdt_rpc_call *call)
{
	struct rdt_change *ch = change_new(call, RDT_CHANGE_EDIT, 2);

	if (!ch)
		return;
	edit_subsys_key(ch, call, "hosts", json_null(), false);
	edit_subsys_key(ch, call, "allow_any_host", json_true(), false);
	change_start(call, ch);
}

static void subsystem_set_hosts(struct rdt_rpc_call *call)
{
	struct rdt_change *ch;
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
	ch = change_new(call, RDT_CHANGE_EDIT, 2);
	if (!ch)
		return;
	edit_subsys_key(ch, call, "hosts", take_param(call, "hosts"), false);
	edit_subsys_key(ch, call, "allow_any_host", json_false(), false);
	change_start(call, ch);
}

static json_t *host_path(const struct rdt_rpc_call *call)
{
	json_t *path = subsys_path(call);

	json_array_append_new(path, json_string("hosts"));
	json_array_append(path, json_object_get(call->params, "hostnqn"));
	return path;
}

static bool any_host_may(const struct rdt_rpc_call *call)
{
	const struct rdt_subsys *ss = rdt_subsys_find(call->rpc->target, rdt_rpc_text(call, "nqn"));

	return ss && ss->now->allow_any_host;
}

/* @list has an element for each host: removes that of parameter "hostnqn", and adds one with the
 * keys of parameter @param, unless it has none. */
static void edit_of_host(struct rdt_change *ch, const struct rdt_rpc_call *call, const char *list,
			 const char *param)
{
	json_t *host = json_object_get(call->params, "hostnqn"), *path = subsys_path(call);
	json_t *keys = json_object_get(call->params, param), *value;

	json_array_append_new(path, json_string(list));
	json_array_append_new(path, json_pack("{s:O}", "host", host));
	ch->edits[ch->edits_count++] =
		(struct rdt_config_edit){.op = RDT_EDIT_REMOVE, .path = path};
	if (!json_object_size(keys))
		return;
	value = json_pack("{s:O}", "host", host);
	json_object_update(value, keys);
	ch->edits[ch->edits_count++] = (struct rdt_config_edit){
		.op = RDT_EDIT_ADD, .path = json_incref(path), .value = value};
}

/* The element of a list that edit_of_host() adds has the host of parameter "hostnqn". Another one
 * among its keys would set what belongs to that other host, and remove what this one has. Answers
 * the call when there is one. */
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

/* Adding the first host would exclude all others; subsystem.set_hosts does that explicitly. A host
 * with its keys is one change, because neither is accepted without the other where authentication
 * is required. */
static void host_allow(struct rdt_rpc_call *call)
{
	const json_t *keys = json_object_get(call->params, "keys");
	struct rdt_change *ch;

	if (refuse_other_host(call, "keys"))
		return;
	if (any_host_may(call)) {
		if (json_object_size(keys))
			refuse_any_host(call);
		else
			rdt_rpc_result(call, json_pack("{s:b}", "changed", 0));
		return;
	}
	ch = change_new(call, RDT_CHANGE_EDIT, 3);
	if (!ch)
		return;
	ch->edits[ch->edits_count++] = (struct rdt_config_edit){
		.op = RDT_EDIT_ADD, .path = host_path(call), .value = take_param(call, "hostnqn")};
	if (keys)
		edit_of_host(ch, call, "host_auth", "keys");
	change_start(call, ch);
}

/* Its keys go, too: a host with keys that may not connect is a mistake in a configuration. After
 * the last host "allow_any_host: false" says that nobody may connect. */
static void host_deny(struct rdt_rpc_call *call)
{
	struct rdt_change *ch;

	if (any_host_may(call)) {
		refuse_any_host(call);
		return;
	}
	ch = change_new(call, RDT_CHANGE_EDIT, 3);
	if (!ch)
		return;
	ch->edits[ch->edits_count++] =
		(struct rdt_config_edit){.op = RDT_EDIT_REMOVE, .path = host_path(call)};
	edit_of_host(ch, call, "host_auth", "");
	edit_subsys_key(ch, call, "allow_any_host", json_false(), true);
	change_start(call, ch);
}

/* See edit_of_host(). */
static void set_of_host(struct rdt_rpc_call *call, const char *list, const char *param)
{
	struct rdt_change *ch;

	if (refuse_other_host(call, param))
		return;
	ch = change_new(call, RDT_CHANGE_EDIT, 2);
	if (!ch)
		return;
	edit_of_host(ch, call, list, param);
	change_start(call, ch);
}

static void host_qos(struct rdt_rpc_call *call)
{
	set_of_host(call, "host_qos", "limits");
}

static void host_auth(struct rdt_rpc_call *call)
{
	set_of_host(call, "host_auth", "keys");
}

/* ---- listeners ---- */

static json_t *listener_path(const json_t *of)
{
	const json_t *port = json_object_get(of, "port");

	return json_pack(
		"[s, {s:O, s:o}]", "listeners", "address", json_object_get(of, "address"), "port",
		port ? json_incref((json_t *)port) : json_integer(rdt_config_default_port()));
}

static void listener_add(struct rdt_rpc_call *call)
{
	json_t *listener = json_object_get(call->params, "listener");
	const json_t *port = json_object_get(listener, "port");

	if (!needed_key(call, "listener", "address", JSON_STRING) ||
	    (port && !needed_key(call, "listener", "port", JSON_INTEGER)))
		return;
	edit_one(call, RDT_EDIT_ADD, listener_path(listener), json_incref(listener));
}

static void listener_remove(struct rdt_rpc_call *call)
{
	edit_one(call, RDT_EDIT_REMOVE, listener_path(call->params), NULL);
}

/* ---- ana.set ---- */

static bool listener_matches(const struct rdt_listener *l, const char *address, json_int_t port)
{
	const struct sockaddr *addr = (const struct sockaddr *)&l->addr;

	return (!address || strcmp(l->cfg->address, address) == 0) &&
	       (port < 0 || l->cfg->port == port || (l->listening && rd_addr_port(addr) == port));
}

/* A state that is not listed is optimized: removes the entry, then adds one if needed. */
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
		rdt_rpc_error(call, RDT_RPC_INVALID, "state", state, NULL,
			      "state: \"%.60s\" is none of optimized, non-optimized, inaccessible, "
			      "persistent-loss, change",
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

#define SAVED_OR_DRY                                                                           \
	{"save", JSON_TRUE, false}, {"dry_run", JSON_TRUE, false}, {"wait", JSON_TRUE, false}, \
	{                                                                                      \
		NULL, JSON_NULL, false                                                         \
	}

static const struct rdt_rpc_param ns_add_params[] = {
	{"nqn", JSON_STRING, true}, {"namespace", JSON_OBJECT, true}, SAVED_OR_DRY};
static const struct rdt_rpc_param ns_remove_params[] = {{"nqn", JSON_STRING, true},
							{"nsid", JSON_INTEGER, true},
							{"keep_state", JSON_TRUE, false},
							SAVED_OR_DRY};
static const struct rdt_rpc_param reopen_params[] = {
	{"nqn", JSON_STRING, true}, {"nsid", JSON_INTEGER, true}, {NULL, JSON_NULL, false}};
static const struct rdt_rpc_param ns_resize_params[] = {{"nqn", JSON_STRING, true},
							{"nsid", JSON_INTEGER, true},
							{"size", JSON_STRING, false},
							SAVED_OR_DRY};
static const struct rdt_rpc_param ns_ana_params[] = {{"nqn", JSON_STRING, true},
						     {"nsid", JSON_INTEGER, true},
						     {"group", JSON_INTEGER, true},
						     SAVED_OR_DRY};
static const struct rdt_rpc_param ns_on_params[] = {{"nqn", JSON_STRING, true},
						    {"nsid", JSON_INTEGER, true},
						    {"on", JSON_TRUE, true},
						    SAVED_OR_DRY};
static const struct rdt_rpc_param ns_qos_params[] = {{"nqn", JSON_STRING, true},
						     {"nsid", JSON_INTEGER, true},
						     {"limits", JSON_OBJECT, true},
						     SAVED_OR_DRY};
static const struct rdt_rpc_param subsys_add_params[] = {{"subsystem", JSON_OBJECT, true},
							 SAVED_OR_DRY};
static const struct rdt_rpc_param subsys_params[] = {{"nqn", JSON_STRING, true}, SAVED_OR_DRY};
static const struct rdt_rpc_param subsys_hosts_params[] = {
	{"nqn", JSON_STRING, true}, {"hosts", JSON_ARRAY, true}, SAVED_OR_DRY};
static const struct rdt_rpc_param host_params[] = {
	{"nqn", JSON_STRING, true}, {"hostnqn", JSON_STRING, true}, SAVED_OR_DRY};
static const struct rdt_rpc_param host_allow_params[] = {{"nqn", JSON_STRING, true},
							 {"hostnqn", JSON_STRING, true},
							 {"keys", JSON_OBJECT, false},
							 SAVED_OR_DRY};
static const struct rdt_rpc_param host_auth_params[] = {{"nqn", JSON_STRING, true},
							{"hostnqn", JSON_STRING, true},
							{"keys", JSON_OBJECT, true},
							SAVED_OR_DRY};
static const struct rdt_rpc_param host_qos_params[] = {{"nqn", JSON_STRING, true},
						       {"hostnqn", JSON_STRING, true},
						       {"limits", JSON_OBJECT, true},
						       SAVED_OR_DRY};
static const struct rdt_rpc_param listener_add_params[] = {{"listener", JSON_OBJECT, true},
							   SAVED_OR_DRY};
static const struct rdt_rpc_param listener_params[] = {
	{"address", JSON_STRING, true}, {"port", JSON_INTEGER, false}, SAVED_OR_DRY};
static const struct rdt_rpc_param ana_params[] = {{"group", JSON_INTEGER, true},
						  {"state", JSON_STRING, true},
						  {"address", JSON_STRING, false},
						  {"port", JSON_INTEGER, false},
						  SAVED_OR_DRY};
static const struct rdt_rpc_param apply_params[] = {{"document", JSON_STRING, true}, SAVED_OR_DRY};

const struct rdt_rpc_method rdt_rpc_edit_methods[] = {
	{"namespace.add", "add a namespace, with the keys of the configuration", true,
	 ns_add_params, namespace_add},
	{"namespace.remove", "remove a namespace, with its reservations unless keep_state", true,
	 ns_remove_params, namespace_remove},
	{"namespace.reopen", "open what the path of a namespace names now", true, reopen_params,
	 namespace_reopen},
	{"namespace.resize", "set the size; without one, look at the file or device again", true,
	 ns_resize_params, namespace_resize},
	{"namespace.set_ana", "put a namespace into another ANA group", true, ns_ana_params,
	 namespace_set_ana},
	{"namespace.write_protect", "make a namespace read-only, or not", true, ns_on_params,
	 namespace_write_protect},
	{"namespace.qos", "set the limits of a namespace; none: remove them", true, ns_qos_params,
	 namespace_qos},
	{"subsystem.add", "add a subsystem, with the keys of the configuration", true,
	 subsys_add_params, subsystem_add},
	{"subsystem.remove", "remove a subsystem with its namespaces", true, subsys_params,
	 subsystem_remove},
	{"subsystem.allow_any_host", "let any host use a subsystem", true, subsys_params,
	 subsystem_allow_any_host},
	{"subsystem.set_hosts", "let only these hosts use a subsystem", true, subsys_hosts_params,
	 subsystem_set_hosts},
	{"host.allow", "allow a host to use a subsystem, with the files of its keys", true,
	 host_allow_params, host_allow},
	{"host.deny", "remove a host from them, with its keys, and end its controllers", true,
	 host_params, host_deny},
	{"host.auth", "set the files of the keys of a host; none: remove them", true,
	 host_auth_params, host_auth},
	{"host.qos", "set the limits of a host; none: remove them", true, host_qos_params,
	 host_qos},
	{"listener.add", "listen on an address, with the keys of the configuration", true,
	 listener_add_params, listener_add},
	{"listener.remove", "stop listening on an address, and end its connections", true,
	 listener_params, listener_remove},
	{"ana.set", "set the ANA state of a group, on all listeners or those that match", true,
	 ana_params, ana_set},
	{"config.apply", "apply a document in the place of the configuration file", true,
	 apply_params, config_apply},
	{"config.save", "write changes to the configuration files", true, NULL, config_save},
	{NULL, NULL, false, NULL, NULL},
};
