/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs that make one call and print its answer. */
#include "rdctl.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

int rdctl_show(const struct rdctl *ctl, const char *method, json_t *params,
	       int (*print)(const json_t *result))
{
	int code = RDCTL_OK;
	json_t *result = rdctl_call(ctl, method, params, &code);

	if (!result)
		return code;
	if (ctl->json)
		rdctl_json(result);
	if (print && !ctl->json)
		code = print(result);
	else
		code = rdctl_outcome(result);
	json_decref(result);
	return code;
}

static int show_rows(const struct rdctl *ctl, const char *method, json_t *params, const char *list,
		     const struct rdctl_column *columns)
{
	int code = RDCTL_OK;
	json_t *result = rdctl_call(ctl, method, params, &code);

	if (result && ctl->json)
		rdctl_json(result);
	else if (result)
		rdctl_table(json_object_get(result, list), columns);
	json_decref(result);
	return code;
}

int rdctl_run(const struct rdctl *ctl, const struct rdctl_verb *v,
	      const struct rdctl_arguments *args)
{
	json_t *params;

	if (v->run)
		return v->run(ctl, args);
	params = rdctl_parameters(v, args);
	if (!params)
		return RDCTL_USAGE;
	if (v->show && args->count == v->least) {
		json_decref(params);
		return v->show(ctl, args);
	}
	if (v->changes)
		return rdctl_change(ctl, args, v->method, params);
	return v->list ? show_rows(ctl, v->method, params, v->list, v->columns)
		       : rdctl_show(ctl, v->method, params, v->print);
}

int rdctl_outcome(const json_t *result)
{
	const char *outcome = json_string_value(json_object_get(result, "outcome"));

	if (outcome && strcmp(outcome, "refused") == 0)
		return RDCTL_REFUSED;
	return outcome && strcmp(outcome, "failed") == 0 ? RDCTL_FAILED : RDCTL_OK;
}

/* ---- what is there ---- */

static int print_status(const json_t *result)
{
	static const struct rdctl_column columns[] = {
		{"state", "state", RDCTL_TEXT},
		{"version", "version", RDCTL_TEXT},
		{"configuration", "config", RDCTL_TEXT},
		{"PID", "pid", RDCTL_NUMBER},
		{"started", "started", RDCTL_TEXT},
		{"uptime (seconds)", "uptime", RDCTL_NUMBER},
		{"listeners", "listeners", RDCTL_NUMBER},
		{"listeners failed", "listeners_failed", RDCTL_NUMBER},
		{"status page failed", "http_failed", RDCTL_TEXT},
		{"subsystems", "subsystems", RDCTL_NUMBER},
		{"subsystems without a setting of hosts", "subsystems_unset", RDCTL_NUMBER},
		{"namespaces", "namespaces", RDCTL_NUMBER},
		{"controllers", "controllers", RDCTL_NUMBER},
		{"discovery controllers", "discovery_controllers", RDCTL_NUMBER},
		{"reactors", "reactors", RDCTL_NUMBER},
		{"log level", "log_level", RDCTL_TEXT},
		{"changes not saved", "unsaved", RDCTL_NUMBER},
		{NULL, NULL, RDCTL_TEXT},
	};
	static const struct rdctl_column reload[] = {
		{"last reload", "at", RDCTL_TEXT},
		{"", "summary", RDCTL_TEXT},
		{NULL, NULL, RDCTL_TEXT},
	};
	static const struct rdctl_column reason[] = {
		{"", "reason", RDCTL_TEXT},
		{NULL, NULL, RDCTL_TEXT},
	};
	const json_t *last = json_object_get(result, "last_reload");

	rdctl_record(result, columns);
	if (json_is_object(last))
		rdctl_record(last, reload);
	if (json_object_get(last, "reason"))
		rdctl_record(last, reason);
	return RDCTL_OK;
}

static const struct rdctl_column hosts_columns[] = {
	{"HOSTNQN", "host", RDCTL_TEXT},
	{"CONTROLLERS", "controllers", RDCTL_NUMBER},
	{"IO-QUEUES", "io_queues", RDCTL_NUMBER},
	{"AUTH", "auth", RDCTL_TEXT},
	{"QOS", "qos", RDCTL_TEXT},
	{"ADDRESSES", "addresses", RDCTL_TEXT},
	{"SUBSYSTEMS", "subsystems", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};

static const struct rdctl_column connections_columns[] = {
	{"CNTLID", "cntlid", RDCTL_NUMBER},
	{"SUBNQN", "nqn", RDCTL_TEXT},
	{"HOSTNQN", "host", RDCTL_TEXT},
	{"ADDRESS", "address", RDCTL_TEXT},
	{"LISTENER", "listener", RDCTL_TEXT},
	{"STATE", "state", RDCTL_TEXT},
	{"IO-QUEUES", "io_queues", RDCTL_NUMBER},
	{"TLS", "tls", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};

static const struct rdctl_column subsystems_columns[] = {
	{"SUBNQN", "nqn", RDCTL_TEXT},
	{"NAMESPACES", "namespaces", RDCTL_NUMBER},
	{"CONTROLLERS", "controllers", RDCTL_NUMBER},
	{"ADMITS", "admits", RDCTL_TEXT},
	{"AUTH", "auth", RDCTL_TEXT},
	{"QOS", "hosts_with_qos", RDCTL_NUMBER},
	{"HOSTS", "hosts", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};

static const struct rdctl_column ns_columns[] = {
	{"SUBNQN", "nqn", RDCTL_TEXT},
	{"NSID", "nsid", RDCTL_NUMBER},
	{"STATE", "state", RDCTL_TEXT},
	{"BACKEND", "backend", RDCTL_TEXT},
	{"SIZE", "size", RDCTL_BYTES},
	{"BLOCK", "block_size", RDCTL_NUMBER},
	{"ANA-GROUP", "ana_group", RDCTL_NUMBER},
	{"READ-ONLY", "read_only", RDCTL_TEXT},
	{"STANDBY", "standby", RDCTL_TEXT},
	{"STALLED", "stalled_seconds", RDCTL_TIME},
	{"FAULT", "fault", RDCTL_TEXT},
	{"AUTH", "auth", RDCTL_TEXT},
	{"QOS", "qos", RDCTL_TEXT},
	{"UUID", "uuid", RDCTL_TEXT},
	{"UUID-FROM", "uuid_from", RDCTL_TEXT},
	{"PATH", "path", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};

static const struct rdctl_column listeners_columns[] = {
	{"PORTID", "portid", RDCTL_NUMBER},
	{"ADDRESS", "address", RDCTL_TEXT},
	{"PORT", "port", RDCTL_NUMBER},
	{"TRANSPORT", "transport", RDCTL_TEXT},
	{"PROVIDER", "provider", RDCTL_TEXT},
	{"STATE", "state", RDCTL_TEXT},
	{"REASON", "reason", RDCTL_TEXT},
	{"ANA", "ana_states", RDCTL_TEXT},
	{NULL, NULL, RDCTL_TEXT},
};

/* Adds to @rows what is not 0; @prefix: of the names. */
static void add_figures(json_t *rows, const char *object, const char *prefix, json_t *figures)
{
	char name[128];
	const char *key;
	json_t *value;

	json_object_foreach(figures, key, value)
	{
		snprintf(name, sizeof(name), "%s%s", prefix, key);
		if (json_is_object(value)) {
			strncat(name, ".", sizeof(name) - strlen(name) - 1);
			add_figures(rows, object, name, value);
		} else if (json_number_value(value) != 0 || json_is_string(value) ||
			   json_is_boolean(value) || json_array_size(value)) {
			json_array_append_new(rows, json_pack("{s:s, s:s, s:O}", "object", object,
							      "figure", name, "value", value));
		}
	}
}

/* All figures, whichever there are: objects, and lists of objects whose first member names them. */
static int print_stats(const json_t *result)
{
	static const struct rdctl_column columns[] = {
		{"OBJECT", "object", RDCTL_TEXT},
		{"FIGURE", "figure", RDCTL_TEXT},
		{"VALUE", "value", RDCTL_TEXT},
		{NULL, NULL, RDCTL_TEXT},
	};
	json_t *rows = json_array(), *part, *entry;
	char name[512], object[600];
	const char *key;
	size_t i;

	json_object_foreach((json_t *)result, key, part)
	{
		if (json_is_object(part))
			add_figures(rows, key, "", part);
		json_array_foreach(part, i, entry)
		{
			void *first = json_object_iter(entry);

			rdctl_text(json_object_iter_value(first), RDCTL_TEXT, name, sizeof(name));
			snprintf(object, sizeof(object), "%.*s %s", (int)strlen(key) - 1, key,
				 name);
			json_object_del(entry, json_object_iter_key(first));
			add_figures(rows, object, "", entry);
		}
	}
	rdctl_table(rows, columns);
	json_decref(rows);
	return RDCTL_OK;
}

static int print_metrics(const json_t *result)
{
	fputs(json_string_value(json_object_get(result, "text")), stdout);
	return RDCTL_OK;
}

/* In quotes when it has spaces or such; quotes in it are escaped. */
static void print_value(const char *value)
{
	bool quoted = strpbrk(value, " \"=\\") || !value[0];

	if (quoted)
		putchar('"');
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putchar('\\');
		putchar(*value);
	}
	if (quoted)
		putchar('"');
}

/* Prints "TIME NAME key=value key="more words"". */
static void print_fields(const json_t *params)
{
	char text[1024];
	const char *key;
	json_t *value;

	printf("%s ", rdctl_text(json_object_get(params, "time"), RDCTL_TEXT, text, sizeof(text)));
	printf("%s", rdctl_text(json_object_get(params, "name"), RDCTL_TEXT, text, sizeof(text)));
	json_object_foreach(json_object_get(params, "fields"), key, value)
	{
		printf(" %s=", key);
		print_value(rdctl_text(value, RDCTL_TEXT, text, sizeof(text)));
	}
	putchar('\n');
}

/* Flushes each line, so that a reader of a pipe gets it at once. Returns false when the pipe is
 * closed. */
static bool print_rdctl_event(const struct rdctl *ctl, const json_t *notification)
{
	static const char *const keys[] = {"time", "level", "component", "message"};
	const json_t *params = json_object_get(notification, "params");
	const json_t *lost = json_object_get(params, "count");
	char text[1024];

	if (ctl->json) {
		json_dumpf(notification, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
	} else if (lost) {
		printf("... %lld lost ...\n", (long long)json_integer_value(lost));
	} else if (json_object_get(params, "name")) {
		print_fields(params);
	} else {
		for (int i = 0; i < 4; i++)
			printf("%s%s",
			       rdctl_text(json_object_get(params, keys[i]), RDCTL_TEXT, text,
					  sizeof(text)),
			       i == 0   ? " "
			       : i == 3 ? "\n"
					: ": ");
	}
	return fflush(stdout) == 0;
}

static int run_events(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *params = args->count ? json_pack("{s:s}", "level", args->values[0]) : NULL;

	return rdctl_watch(ctl, "events.watch", params, print_rdctl_event);
}

/* ---- configuration ---- */

static int print_config(const json_t *result)
{
	rdctl_json(json_object_get(result, "config"));
	return RDCTL_OK;
}

void rdctl_messages(const json_t *result)
{
	json_int_t left_out = json_integer_value(json_object_get(result, "left_out"));
	char text[1200];
	json_t *m;
	size_t i;

	json_array_foreach(json_object_get(result, "messages"), i, m)
	{
		fprintf(stderr, "%s: ", json_string_value(json_object_get(m, "level")));
		fprintf(stderr, "%s\n",
			rdctl_text(json_object_get(m, "text"), RDCTL_TEXT, text, sizeof(text)));
	}
	if (left_out)
		fprintf(stderr, "and %lld more\n", (long long)left_out);
}

static int print_check(const json_t *result)
{
	rdctl_messages(result);
	if (!json_is_true(json_object_get(result, "ok")))
		return RDCTL_REFUSED;
	printf("%s: OK\n", json_string_value(json_object_get(result, "path")));
	return RDCTL_OK;
}

/* Output as of diff(1): removed values, then added ones. */
int rdctl_differences(const json_t *result)
{
	json_t *d;
	size_t i;

	json_array_foreach(json_object_get(result, "differences"), i, d)
	{
		for (int to = 0; to < 2; to++) {
			const json_t *value = json_object_get(d, to ? "to" : "from");
			char *text = json_dumps(value,
						JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

			if (!json_is_null(value))
				printf("%c %s: %s\n", to ? '+' : '-',
				       json_string_value(json_object_get(d, "path")),
				       text ? text : "");
			free(text);
		}
	}
	return RDCTL_OK;
}

static int print_diff(const json_t *result)
{
	rdctl_messages(result);
	return rdctl_differences(result);
}

static int run_reload(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	int code = RDCTL_OK;
	json_t *result;

	if (args->given[RDCTL_DRY_RUN])
		return rdctl_show(ctl, "config.diff", NULL, print_diff);
	result = rdctl_call(ctl, "config.reload",
			    args->given[RDCTL_NO_WAIT] ? json_pack("{s:b}", "wait", 0) : NULL,
			    &code);
	if (!result)
		return code;
	if (ctl->json)
		rdctl_json(result);
	else
		rdctl_messages(result);
	code = rdctl_outcome(result);
	if (!ctl->json)
		fprintf(code ? stderr : stdout, "%s\n",
			json_string_value(json_object_get(result, "summary")));
	json_decref(result);
	return code;
}

/* ---- changes ---- */

static bool is_claim(const char *action)
{
	return strcmp(action, "take") == 0 || strcmp(action, "yield") == 0 ||
	       strcmp(action, "wait") == 0;
}

static int run_ana(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	bool claims = args->count == 2 && is_claim(args->values[1]);
	uint64_t group;
	json_t *params;

	/* The verbs above without the configuration take no options for changes. */
	if ((args->count == 0 || claims) && (args->given[RDCTL_SAVE] || args->given[RDCTL_DRY_RUN]))
		return rdctl_usage_error(
			"ana: only GROUP STATE [ADDRESS[:PORT]] takes an option of changes, not",
			args->given[RDCTL_SAVE] ? "--save" : "--dry-run");
	if (args->count == 0)
		return show_rows(ctl, "listener.list", NULL, "listeners", listeners_columns);
	if (args->count == 1)
		return rdctl_usage_error("ana takes no arguments, GROUP STATE [ADDRESS[:PORT]], or "
					 "GROUP take|yield|wait",
					 NULL);
	if (rd_parse_u64(args->values[0], 1, INT32_MAX, &group))
		return rdctl_usage_error("ana: expected the number of a group, not",
					 args->values[0]);
	if (claims)
		return rdctl_show(
			ctl, "ana.claim",
			json_pack("{s:i, s:s}", "group", (int)group, "action", args->values[1]),
			NULL);
	params = json_pack("{s:i, s:s}", "group", (int)group, "state", args->values[1]);
	if (args->count == 3 && !rdctl_split_address(args->values[2], params)) {
		json_decref(params);
		return rdctl_usage_error("ana: " RDCTL_ADDRESS_EXPECTED, args->values[2]);
	}
	return rdctl_change(ctl, args, "ana.set", params);
}

static int print_reopened(const json_t *result)
{
	const char *reason = json_string_value(json_object_get(result, "reason"));

	if (reason)
		fprintf(stderr, "error: %s\n", reason);
	else
		printf("opened again\n");
	return rdctl_outcome(result);
}

static int print_disconnected(const json_t *result)
{
	printf("disconnected: %" JSON_INTEGER_FORMAT "\n",
	       json_integer_value(json_object_get(result, "disconnected")));
	return RDCTL_OK;
}

static int run_disconnect(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	uint64_t cntlid;

	if (args->count == 1)
		return rdctl_show(ctl, "controller.disconnect",
				  json_pack("{s:s}", "hostnqn", args->values[0]),
				  print_disconnected);
	if (rd_parse_u64(args->values[1], 0, 65535, &cntlid))
		return rdctl_usage_error("disconnect: expected a controller ID, not",
					 args->values[1]);
	return rdctl_show(ctl, "controller.disconnect",
			  json_pack("{s:s, s:i}", "nqn", args->values[0], "cntlid", (int)cntlid),
			  print_disconnected);
}

static int run_drain(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	struct rdctl longer = *ctl;
	uint64_t seconds = 30;

	if (args->given[RDCTL_TIMEOUT] &&
	    rd_parse_u64(args->given[RDCTL_TIMEOUT], 1, 3600, &seconds))
		return rdctl_usage_error("--timeout takes 1 to 3600 seconds, not",
					 args->given[RDCTL_TIMEOUT]);
	longer.wait_seconds += (unsigned int)seconds;
	return rdctl_show(&longer, "drain", json_pack("{s:i}", "timeout", (int)seconds), NULL);
}

static int show_log_level(const struct rdctl *ctl)
{
	int code;
	json_t *status = rdctl_call(ctl, "status", NULL, &code);
	const char *level = json_string_value(json_object_get(status, "log_level"));

	if (!status)
		return code;
	if (!level) {
		fprintf(stderr, "rdctl: the status of rdtarget has no log_level\n");
		code = RDCTL_REFUSED;
	} else if (ctl->json) {
		json_t *shown = json_pack("{s:s}", "level", level);

		rdctl_json(shown);
		json_decref(shown);
	} else {
		puts(level);
	}
	json_decref(status);
	return code;
}

static int run_log(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	if (!args->count)
		return show_log_level(ctl);
	return rdctl_show(ctl, "log.level", json_pack("{s:s}", "level", args->values[0]), NULL);
}

static void print_unfinished(const json_t *result, const char *what)
{
	const json_t *ns;
	size_t i;

	json_array_foreach(json_object_get(result, "unfinished"), i, ns)
	{
		const char *nqn = json_string_value(json_object_get(ns, "nqn"));

		printf("%s namespace %" JSON_INTEGER_FORMAT " %s\n", nqn ? nqn : "?",
		       json_integer_value(json_object_get(ns, "nsid")), what);
	}
}

static int print_upgrade(const json_t *result)
{
	const char *version = json_string_value(json_object_get(result, "version"));

	printf("version %s, process %" JSON_INTEGER_FORMAT, version ? version : "?",
	       json_integer_value(json_object_get(result, "pid")));
	if (!json_object_get(result, "pause")) {
		puts(", can take over");
		print_unfinished(result,
				 "does not answer now, and would be served when its I/O has "
				 "ended");
		return RDCTL_OK;
	}
	printf(", has taken over: %" JSON_INTEGER_FORMAT " connections of %" JSON_INTEGER_FORMAT
	       " controllers rested for %.1f ms, %" JSON_INTEGER_FORMAT " connect again\n",
	       json_integer_value(json_object_get(result, "connections")),
	       json_integer_value(json_object_get(result, "controllers")),
	       1e3 * json_number_value(json_object_get(result, "pause")),
	       json_integer_value(json_object_get(result, "left")));
	print_unfinished(result, "is served when its I/O in the process before has ended");
	return RDCTL_OK;
}

static int print_stored(const json_t *result)
{
	printf("%" JSON_INTEGER_FORMAT " connections of %" JSON_INTEGER_FORMAT
	       " controllers are in the service manager's store, %" JSON_INTEGER_FORMAT
	       " connect again\n",
	       json_integer_value(json_object_get(result, "connections")),
	       json_integer_value(json_object_get(result, "controllers")),
	       json_integer_value(json_object_get(result, "left")));
	return RDCTL_OK;
}

static int run_upgrade(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	struct rdctl longer = *ctl;

	if (args->given[RDCTL_STORE] && (args->given[RDCTL_CHECK] || args->given[RDCTL_FORCE]))
		return rdctl_usage_error("upgrade: --store does not go with --check or --force",
					 NULL);
	if (args->given[RDCTL_STORE])
		return rdctl_show(ctl, "upgrade.store", NULL, print_stored);
	/* rdtarget gives up by itself, and says why. An older one refuses a parameter that it does
	 * not know. */
	longer.wait_seconds += 120;
	return rdctl_show(&longer, "upgrade",
			  json_pack("{s:b, s:o*}", "check", args->given[RDCTL_CHECK] != NULL,
				    "force", args->given[RDCTL_FORCE] ? json_true() : NULL),
			  print_upgrade);
}

static int run_raw(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	struct rdctl as_json = *ctl;
	json_error_t why;
	json_t *params = NULL;

	as_json.json = true;
	if (args->count == 2) {
		params = json_loads(args->values[1], 0, &why);
		if (!json_is_object(params)) {
			json_decref(params);
			return rdctl_usage_error("raw: the parameters are not a JSON object",
						 params ? args->values[1] : why.text);
		}
	}
	return rdctl_show(&as_json, args->values[0], params, NULL);
}

#define LIST(m, key, c) .method = (m), .list = (key), .columns = (c)
#define SHOW(m, fn)     .method = (m), .print = (fn)
#define CHANGE(m, ...)  .changes = true, .method = (m), .parameters = {__VA_ARGS__}
#define SUBSYSTEM     \
	{             \
		"nqn" \
	}
#define NAMESPACE                      \
	SUBSYSTEM,                     \
	{                              \
		"nsid", RDCTL_ARG_NSID \
	}
#define HOST              \
	SUBSYSTEM,        \
	{                 \
		"hostnqn" \
	}
#define ADDRESS                         \
	{                               \
		NULL, RDCTL_ARG_ADDRESS \
	}
#define VALUES(name)                   \
	{                              \
		name, RDCTL_ARG_VALUES \
	}
/* The last argument, at @from, and KEY=VALUE describe what is added. */
#define NEW(key, from) .object = (key), .outside = (from)

const struct rdctl_verb rdctl_verbs[] = {
	{"status", "", "state of the target, start time and last reload", 0, 0,
	 SHOW("status", print_status)},
	{"hosts", "", "connected hosts", 0, 0, LIST("host.list", "hosts", hosts_columns)},
	{"connections", "", "controllers, with their host and address", 0, 0,
	 LIST("controller.list", "controllers", connections_columns)},
	{"subsystems", "", "subsystems and their allowed hosts", 0, 0,
	 LIST("subsystem.list", "subsystems", subsystems_columns)},
	{"ns", "[SUBNQN]", "namespaces", 0, 1, LIST("namespace.list", "namespaces", ns_columns),
	 .parameters = {SUBSYSTEM}},
	{"ns add", "SUBNQN NSID KEY=VALUE...", "add a namespace", 2, RDCTL_ANY,
	 CHANGE("namespace.add", NAMESPACE, VALUES(NULL)), NEW("namespace", 1)},
	{"ns remove", "SUBNQN NSID [--keep-state]",
	 "remove a namespace, with its reservations unless they are kept", 2, 2,
	 CHANGE("namespace.remove", NAMESPACE)},
	{"ns reopen", "SUBNQN NSID", "reopen its path", 2, 2,
	 SHOW("namespace.reopen", print_reopened), .parameters = {NAMESPACE}},
	{"ns resize", "SUBNQN NSID [SIZE]", "set its size, or read the size of the file again", 2,
	 3, CHANGE("namespace.resize", NAMESPACE, {"size"})},
	{"ns protect", "SUBNQN NSID on|off", "make a namespace read-only or writable", 3, 3,
	 CHANGE("namespace.write_protect", NAMESPACE, {"on", RDCTL_ARG_SWITCH})},
	{"ns qos", "SUBNQN NSID [none | KEY=VALUE...]", "show, remove or set its limits", 2,
	 RDCTL_ANY, CHANGE("namespace.qos", NAMESPACE, VALUES("limits")),
	 .show = rdctl_show_ns_limits},
	{"ns ana", "SUBNQN NSID GROUP", "move a namespace to an ANA group", 3, 3,
	 CHANGE("namespace.set_ana", NAMESPACE, {"group", RDCTL_ARG_GROUP})},
	{"subsystem add", "SUBNQN [KEY=VALUE]...", "add a subsystem", 1, RDCTL_ANY,
	 CHANGE("subsystem.add", SUBSYSTEM, VALUES(NULL)), NEW("subsystem", 0)},
	{"subsystem remove", "SUBNQN", "remove a subsystem", 1, 1,
	 CHANGE("subsystem.remove", SUBSYSTEM)},
	{"subsystem hosts", "SUBNQN [any | none | HOSTNQN...]", "show or set its allowed hosts", 1,
	 RDCTL_ANY, rdctl_subsystem_hosts, true},
	{"host allow", "SUBNQN HOSTNQN [KEY=VALUE]...", "allow a host, with its key files", 2,
	 RDCTL_ANY, CHANGE("host.allow", HOST, VALUES("keys"))},
	{"host deny", "SUBNQN HOSTNQN", "stop allowing a host, and disconnect it", 2, 2,
	 CHANGE("host.deny", HOST)},
	{"host auth", "SUBNQN HOSTNQN [none | KEY=VALUE...]", "show, remove or set its key files",
	 2, RDCTL_ANY, CHANGE("host.auth", HOST, VALUES("keys")), .show = rdctl_show_host_keys},
	{"host qos", "SUBNQN HOSTNQN [none | KEY=VALUE...]", "show, remove or set its limits", 2,
	 RDCTL_ANY, CHANGE("host.qos", HOST, VALUES("limits")), .show = rdctl_show_host_limits},
	{"listener add", "ADDRESS[:PORT] [KEY=VALUE]...", "listen on an address", 1, RDCTL_ANY,
	 CHANGE("listener.add", ADDRESS, VALUES(NULL)), NEW("listener", 0)},
	{"listener remove", "ADDRESS[:PORT]", "stop listening on an address", 1, 1,
	 CHANGE("listener.remove", ADDRESS)},
	{"listeners", "", "addresses, and their ANA states", 0, 0,
	 LIST("listener.list", "listeners", listeners_columns)},
	{"stats", "", "counters since the start", 0, 0, SHOW("stats.get", print_stats)},
	{"top", "[SECONDS]", "rates, latencies and commands in flight, live", 0, 1, rdctl_run_top},
	{"latency", "[SUBNQN NSID]", "latency histogram since the start", 0, 2, rdctl_run_latency},
	{"metrics", "[FORMAT]", "metrics for prometheus (default) or openmetrics", 0, 1,
	 SHOW("metrics.get", print_metrics), .parameters = {{"format"}}},
	{"events", "[LEVEL]", "events such as connects and changes; with LEVEL also the log", 0, 1,
	 run_events},
	{"config", "", "the running configuration, in JSON", 0, 0,
	 SHOW("config.get", print_config)},
	{"check", "[--full]", "validate the configuration file", 0, 0,
	 SHOW("config.check", print_check)},
	{"diff", "", "what a reload would change", 0, 0, SHOW("config.diff", print_diff)},
	{"reload", "[--dry-run] [--no-wait]", "apply the configuration file", 0, 0, run_reload},
	{"apply", "FILE", "apply a document in place of the file; -: standard input", 1, 1,
	 rdctl_apply, true},
	{"save", "", "write changes to the configuration files", 0, 0,
	 SHOW("config.save", rdctl_print_change)},
	{"ana", "[GROUP STATE [ADDRESS[:PORT]] | GROUP take|yield|wait]",
	 "show or set ANA states; move a group between gateways", 0, 3, run_ana, true},
	{"disconnect", "HOSTNQN | SUBNQN CNTLID", "end controllers", 1, 2, run_disconnect},
	{"drain", "[--timeout SECONDS]", "move hosts to other paths, then refuse connections", 0, 0,
	 run_drain},
	{"log", "[LEVEL]", "show or set the log level", 0, 1, run_log},
	{"upgrade", "[--check] [--force] | --store",
	 "have the installed version take over, while hosts stay connected", 0, 0, run_upgrade},
	{"shutdown", "", "end rdtarget", 0, 0, .method = "shutdown"},
	{"raw", "METHOD [JSON]", "call a method; \"raw info\" lists them", 1, 2, run_raw},
	{NULL},
};
