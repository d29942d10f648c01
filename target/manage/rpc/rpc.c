/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON-RPC 2.0: parses a line, calls the method, and writes its answer as a line. */
#include "rpc_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/auth_key.h"
#include "target/nvmf/target.h"
#include "target/manage/show/show.h"

static const struct rdt_rpc_method *const method_lists[] = {
	rdt_rpc_show_methods,   rdt_rpc_host_methods,    rdt_rpc_stats_methods,
	rdt_rpc_config_methods, rdt_rpc_edit_methods,    rdt_rpc_change_methods,
	rdt_rpc_event_methods,  rdt_rpc_upgrade_methods,
};

static const struct {
	int code;
	const char *name;
} rpc_errors[RDT_RPC_ERRORS] = {
	[RDT_RPC_PARSE] = {-32700, "parse"},
	[RDT_RPC_REQUEST] = {-32600, "request"},
	[RDT_RPC_METHOD] = {-32601, "method"},
	[RDT_RPC_INVALID] = {-32602, "invalid"},
	[RDT_RPC_NOT_FOUND] = {-32001, "not_found"},
	[RDT_RPC_BUSY] = {-32002, "busy"},
	[RDT_RPC_NO_RESOURCES] = {-32003, "no_resources"},
	[RDT_RPC_DENIED] = {-32004, "denied"},
	[RDT_RPC_REFUSED] = {-32005, "refused"},
	[RDT_RPC_TIMEOUT] = {-32006, "timeout"},
	[RDT_RPC_EXISTS] = {-32007, "exists"},
};

/* ---- answers ---- */

static const char out_of_memory[] =
	"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32003,\"message\":\"out of memory\","
	"\"data\":{\"name\":\"no_resources\"}}}";

static void send_text(struct rdt_rpc_client *client, const char *text)
{
	if (text)
		rdt_rpc_send(client, text, strlen(text));
	else
		rdt_rpc_send(client, out_of_memory, sizeof(out_of_memory) - 1);
}

/* Takes ownership of @message. */
static void send_message(struct rdt_rpc_client *client, json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	json_decref(message);
	send_text(client, text);
	free(text);
}

static void call_free(struct rdt_rpc_call *call)
{
	TAILQ_REMOVE(&call->rpc->calls, call, link);
	json_decref(call->id);
	json_decref(call->params);
	free(call);
}

void rdt_rpc_drop(struct rdt_rpc_call *call)
{
	if (call->cancel)
		call->cancel(call);
	call_free(call);
}

/* Frees @call. Returns the client to answer, or NULL. */
static struct rdt_rpc_client *call_ended(struct rdt_rpc_call *call)
{
	struct rdt_rpc_client *client = call->client;
	bool wanted = call->id != NULL;

	call_free(call);
	if (client)
		rdt_rpc_client_busy(client, NULL);
	return wanted ? client : NULL;
}

/* @result: "done", or the reason of a refusal. */
static void announce_call(const struct rdt_rpc_call *call, const char *result)
{
	if (call->method->changes && call->client)
		rdt_announce(call->rpc->target, "call", "{s:s, s:I, s:i, s:o}", "method",
			     call->method->name, "uid",
			     (json_int_t)rdt_rpc_client_uid(call->client), "pid",
			     (int)rdt_rpc_client_pid(call->client), "result",
			     rdt_show_text(result));
}

void rdt_rpc_result_text(struct rdt_rpc_call *call, const char *result)
{
	char *id = call->id ? json_dumps(call->id, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	size_t len = result ? strlen(result) : 0, head = 0;
	struct rdt_rpc_client *client;
	char *text = NULL;

	if (call->method->changes && call->client)
		rd_info(call->rpc->log, RD_LOG_MAIN, "control: %s of pid %d: done",
			call->method->name, (int)rdt_rpc_client_pid(call->client));
	announce_call(call, "done");
	if (id && result) /* the result may have megabytes; room for "}" and a newline */
		text = malloc(strlen(id) + len + 64);
	if (text) {
		head = (size_t)sprintf(text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":", id);
		memcpy(text + head, result, len);
		text[head + len] = '}';
	}
	free(id);
	client = call_ended(call);
	if (client && text) {
		rdt_rpc_send_whole(client, text, head + len + 1);
		return;
	}
	if (client)
		send_text(client, NULL);
	free(text);
}

void rdt_rpc_result(struct rdt_rpc_call *call, json_t *result)
{
	char *text = result && call->id ? json_dumps(result, JSON_COMPACT) : NULL;

	json_decref(result);
	rdt_rpc_result_text(call, text);
	free(text);
}

/* @text may have been truncated within a character. */
static json_t *error_message(json_t *id, enum rdt_rpc_error error, const char *text,
			     const char *field, const char *value, const char *hint)
{
	json_t *data = json_pack("{s:s}", "name", rpc_errors[error].name);

	if (field)
		json_object_set_new(data, "field", rdt_show_text(field));
	if (value)
		json_object_set_new(data, "value", rdt_show_text(value));
	if (hint)
		json_object_set_new(data, "hint", json_string(hint));
	return json_pack("{s:s, s:o, s:{s:i, s:o, s:o}}", "jsonrpc", "2.0", "id",
			 id ? json_incref(id) : json_null(), "error", "code",
			 rpc_errors[error].code, "message", rdt_show_text(text), "data", data);
}

void rdt_rpc_error(struct rdt_rpc_call *call, enum rdt_rpc_error error, const char *field,
		   const char *value, const char *hint, const char *fmt, ...)
{
	struct rdt_rpc_client *client;
	json_t *message;
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (call->method->changes && call->client)
		rd_notice(call->rpc->log, RD_LOG_MAIN, "control: %s of pid %d: refused: %s",
			  call->method->name, (int)rdt_rpc_client_pid(call->client), text);
	announce_call(call, text);
	message = error_message(call->id, error, text, field, value, hint);
	client = call_ended(call);
	if (client)
		send_message(client, message);
	else
		json_decref(message);
}

void rdt_rpc_no_memory(struct rdt_rpc_call *call)
{
	rdt_rpc_error(call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL, "out of memory");
}

void rdt_rpc_reject(struct rdt_rpc_client *client, enum rdt_rpc_error error, const char *text)
{
	send_message(client, error_message(NULL, error, text, NULL, NULL, NULL));
}

/* ---- parameters ---- */

const char *rdt_rpc_text(const struct rdt_rpc_call *call, const char *name)
{
	return json_string_value(json_object_get(call->params, name));
}

bool rdt_rpc_number(struct rdt_rpc_call *call, const char *name, json_int_t min, json_int_t max,
		    json_int_t *value)
{
	const json_t *given = json_object_get(call->params, name);
	json_int_t number = json_integer_value(given);

	if (!given)
		return true;
	if (number < min || number > max) {
		rdt_rpc_error(call, RDT_RPC_INVALID, name, NULL, NULL,
			      "%s: found %" JSON_INTEGER_FORMAT ", expected %" JSON_INTEGER_FORMAT
			      " to %" JSON_INTEGER_FORMAT,
			      name, number, min, max);
		return false;
	}
	*value = number;
	return true;
}

static const struct param_type {
	const char *word, *says;
	json_type type; /* JSON_TRUE: any boolean */
} param_types[] = {
	{"string", "a string", JSON_STRING},     {"number", "a whole number", JSON_INTEGER},
	{"boolean", "true or false", JSON_TRUE}, {"list", "a list", JSON_ARRAY},
	{"object", "an object", JSON_OBJECT},
};

struct param {
	char name[24];
	bool required;
	const struct param_type *type;
};

/* Reads one parameter of a method's list, and advances @at. Returns false after the last one. */
static bool next_param(const char **at, struct param *p)
{
	const char *text = *at;
	char word[12];
	int len = 0;

	if (!text || !*text)
		return false;
	p->required = *text != '[';
	text += !p->required;
	sscanf(text, "%23[a-z_]: %11[a-z]%n", p->name, word, &len);
	for (p->type = param_types; strcmp(p->type->word, word) != 0; p->type++)
		;
	*at = text + len + strspn(text + len, "], ");
	return true;
}

static bool has_type(const json_t *value, json_type type)
{
	return type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == type;
}

static bool find_param(const struct rdt_rpc_method *m, const char *name, struct param *p)
{
	const char *at = m->params;

	while (next_param(&at, p))
		if (strcmp(p->name, name) == 0)
			return true;
	return false;
}

/* Checks the parameters against the method's list. Answers the call if they are invalid. */
static bool params_good(struct rdt_rpc_call *call)
{
	const struct rdt_rpc_method *m = call->method;
	const char *name, *at = m->params;
	struct param p;
	json_t *value;

	json_object_foreach(call->params, name, value)
	{
		if (!find_param(m, name, &p)) {
			rdt_rpc_error(call, RDT_RPC_INVALID, name, NULL,
				      "the method \"info\" lists the parameters",
				      "%s has no parameter \"%.100s\"", m->name, name);
			return false;
		}
		if (!has_type(value, p.type->type)) {
			rdt_rpc_error(call, RDT_RPC_INVALID, name, NULL, NULL,
				      "%s: %s: expected %s", m->name, name, p.type->says);
			return false;
		}
	}
	while (next_param(&at, &p)) {
		if (p.required && !json_object_get(call->params, p.name)) {
			rdt_rpc_error(call, RDT_RPC_INVALID, p.name, NULL, NULL,
				      "%s: %s is missing, expected %s", m->name, p.name,
				      p.type->says);
			return false;
		}
	}
	return true;
}

/* ---- requests ---- */

static const struct rdt_rpc_method *find_method(const char *name)
{
	for (size_t i = 0; i < sizeof(method_lists) / sizeof(method_lists[0]); i++)
		for (const struct rdt_rpc_method *m = method_lists[i]; m->name; m++)
			if (strcmp(m->name, name) == 0)
				return m;
	return NULL;
}

static json_t *describe(const struct rdt_rpc_method *m)
{
	json_t *params = json_object();
	const char *at = m->params;
	struct param p;

	while (next_param(&at, &p))
		json_object_set_new(
			params, p.name,
			json_pack("{s:s, s:b}", "type", p.type->says, "required", p.required));
	return json_pack("{s:s, s:s, s:b, s:o}", "name", m->name, "what", m->what, "changes",
			 m->changes, "params", params);
}

json_t *rdt_rpc_describe_methods(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(method_lists) / sizeof(method_lists[0]); i++)
		for (const struct rdt_rpc_method *m = method_lists[i]; m->name; m++)
			json_array_append_new(list, describe(m));
	return list;
}

/* Whether @value, or a part of it, contains a host's key. Then *@member is the member with that
 * value, or with an object that has the key as a member's name; NULL: the parameters. @name: the
 * member with the value @value, or NULL. */
static bool has_secret(const char *name, json_t *value, const char **member)
{
	const char *text = json_string_value(value), *key;
	json_t *one;
	size_t i;

	*member = name;
	if (text && nvmf_key_in(text))
		return true;
	json_object_foreach(value, key, one)
	{
		*member = name;
		if (nvmf_key_in(key) || has_secret(key, one, member))
			return true;
	}
	json_array_foreach(value, i, one) if (has_secret(name, one, member)) return true;
	return false;
}

/* Refuses a key given in the place of its file's name, because parameters are logged and appear in
 * events and error messages. The document of config.apply is exempt: errors about a configuration
 * do not show keys. Answers the call if it has a key. */
static bool refuse_secret(struct rdt_rpc_call *call)
{
	const char *name, *member;
	json_t *value;

	json_object_foreach(call->params, name, value)
	{
		member = NULL;
		if (!nvmf_key_in(name) &&
		    (strcmp(name, "document") == 0 || !has_secret(name, value, &member)))
			continue;
		rdt_rpc_error(call, RDT_RPC_INVALID, member, NULL,
			      "write the key to a file that only its owner can read, and give the "
			      "name of the file as dhchap_key_file or tls_key_file; "
			      "rdtarget.yaml(5) describes the "
			      "keys",
			      "%s: found a key, expected the name of a file with "
			      "the key",
			      member ? member : call->method->name);
		return true;
	}
	return false;
}

static void log_change(const struct rdt_rpc_call *call)
{
	json_t *shown = call->params ? json_copy(call->params) : json_object();
	char *params;

	if (json_object_get(shown, "document")) /* long, and may contain secrets */
		json_object_set_new(shown, "document", json_string("..."));
	params = shown ? json_dumps(shown, JSON_COMPACT) : NULL;
	json_decref(shown);
	rd_notice(call->rpc->log, RD_LOG_MAIN, "control: %s %.300s by uid %u, pid %d",
		  call->method->name, params ? params : "{}",
		  (unsigned int)rdt_rpc_client_uid(call->client),
		  (int)rdt_rpc_client_pid(call->client));
	free(params);
}

static void run_call(struct rdt_rpc_call *call)
{
	const struct rdt_rpc_method *m = call->method;

	if (m->changes && !rdt_rpc_client_may_change(call->client)) {
		rdt_rpc_error(call, RDT_RPC_DENIED, NULL, NULL,
			      "run it as root, as the user of rdtarget, or as a member of "
			      "control.admin_group",
			      "%s: uid %u may only read", m->name,
			      (unsigned int)rdt_rpc_client_uid(call->client));
		return;
	}
	if (refuse_secret(call) || !params_good(call))
		return;
	if (m->changes)
		log_change(call);
	m->fn(call);
}

/* Returns the error in the request object itself, or NULL. */
static const char *request_problem(const json_t *request)
{
	const char *version = json_string_value(json_object_get(request, "jsonrpc"));
	const json_t *id = json_object_get(request, "id");
	const json_t *params = json_object_get(request, "params");

	if (json_is_array(request))
		return "batches are not supported: send one object per line";
	if (!json_is_object(request))
		return "expected an object";
	if (!version || strcmp(version, "2.0") != 0)
		return "jsonrpc: expected \"2.0\"";
	if (!json_is_string(json_object_get(request, "method")))
		return "method: expected a string";
	if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
		return "id: expected a string or a number";
	if (params && !json_is_object(params))
		return "params: expected an object, with parameters by name";
	return NULL;
}

static void handle_request(struct rdt_rpc *rpc, struct rdt_rpc_client *client, json_t *request)
{
	const char *problem = request_problem(request);
	const struct rdt_rpc_method *method;
	struct rdt_rpc_call *call;
	json_t *id = json_object_get(request, "id");
	char text[192];

	if (problem) {
		rdt_rpc_reject(client, RDT_RPC_REQUEST, problem);
		return;
	}
	method = find_method(json_string_value(json_object_get(request, "method")));
	if (!method) {
		snprintf(text, sizeof(text), "unknown method \"%.100s\"",
			 json_string_value(json_object_get(request, "method")));
		if (id)
			send_message(client, error_message(id, RDT_RPC_METHOD, text, "method", NULL,
							   "the method \"info\" lists all"));
		return;
	}
	call = calloc(1, sizeof(*call));
	if (!call) {
		rdt_rpc_send(client, out_of_memory, sizeof(out_of_memory) - 1);
		return;
	}
	call->rpc = rpc;
	call->client = client;
	call->method = method;
	call->id = json_incref(id);
	call->params = json_incref(json_object_get(request, "params"));
	TAILQ_INSERT_TAIL(&rpc->calls, call, link);
	rdt_rpc_client_busy(client, call);
	run_call(call);
}

/* @line is not terminated. */
static bool line_is_blank(const char *line, size_t len)
{
	while (len && memchr(" \t\r", line[len - 1], 3))
		len--;
	return len == 0;
}

void rdt_rpc_line(struct rdt_rpc *rpc, struct rdt_rpc_client *client, const char *line, size_t len)
{
	json_error_t why;
	json_t *request;
	char text[256];

	if (line_is_blank(line, len))
		return;
	request = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!request) {
		snprintf(text, sizeof(text), "not JSON: %s, at byte %d", why.text, why.position);
		rdt_rpc_reject(client, RDT_RPC_PARSE, text);
		return;
	}
	handle_request(rpc, client, request);
	json_decref(request);
}
