/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs that change the configuration. */
#include "rdctl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

#define DOCUMENT_MAX (1u << 20) /* the limit of a request */

/* ---- answers ---- */

static int print_change(const json_t *result)
{
	const char *summary = json_string_value(json_object_get(result, "summary"));

	rdctl_messages(result);
	if (json_object_get(result, "differences"))
		rdctl_differences(result);
	else if (summary)
		fprintf(rdctl_outcome(result) ? stderr : stdout, "%s\n", summary);
	else if (!json_is_true(json_object_get(result, "saved")))
		printf("nothing to change\n");
	if (json_is_true(json_object_get(result, "saved")))
		printf("saved\n");
	return rdctl_outcome(result);
}

int rdctl_change(const struct rdctl *ctl, const struct rdctl_arguments *args, const char *method,
		 json_t *params)
{
	if (!params) {
		fprintf(stderr, "rdctl: out of memory\n");
		return RDCTL_REFUSED;
	}
	if (args->save)
		json_object_set_new(params, "save", json_true());
	if (args->dry_run)
		json_object_set_new(params, "dry_run", json_true());
	if (args->no_wait)
		json_object_set_new(params, "wait", json_false());
	return rdctl_show(ctl, method, params, print_change);
}

/* ---- arguments ---- */

static bool parse_nsid(const char *text, uint64_t *nsid)
{
	if (!rd_parse_u64(text, 1, UINT32_MAX - 1, nsid))
		return true;
	rdctl_usage_error("expected a namespace ID, not", text);
	return false;
}

/* Whether the value of @key is a list in the configuration. */
static bool is_list(const char *key)
{
	return strcmp(key, "hosts") == 0 || strcmp(key, "dhchap_hashes") == 0 ||
	       strcmp(key, "dhchap_dhgroups") == 0;
}

static json_t *split_list(const char *text)
{
	json_t *list = json_array();

	for (size_t len; *text; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		json_array_append_new(list, json_stringn(text, len));
	}
	return list;
}

static json_t *value_of(const char *key, const char *text)
{
	uint64_t number;
	char plain[24];

	if (is_list(key))
		return split_list(text);
	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		return json_boolean(text[0] == 't');
	if (rd_parse_u64(text, 0, INT64_MAX, &number))
		return json_string(text);
	/* Sent as text, because "007" and "0x10" may be names; the configuration's checks
	 * convert as the key needs. */
	snprintf(plain, sizeof(plain), "%" PRIu64, number);
	return strcmp(plain, text) == 0 ? json_integer((json_int_t)number) : json_string(text);
}

/* Adds arguments KEY=VALUE from number @first on to @object. Returns false after printing the
 * error. */
static bool add_values(const struct rdctl_arguments *args, int first, json_t *object)
{
	for (int i = first; i < args->count; i++) {
		const char *text = args->values[i], *sign = strchr(text, '=');
		char *key;

		if (strstr(text, "DHHC-1:") || strstr(text, "NVMeTLSkey-1:")) {
			rdctl_usage_error(
				"found a key, expected KEY=VALUE; write the key to a file, and "
				"give its name: dhchap_key_file=FILE or tls_key_file=FILE",
				NULL);
			return false;
		}
		key = sign && sign > text ? strndup(text, (size_t)(sign - text)) : NULL;
		if (!key) {
			rdctl_usage_error("expected KEY=VALUE, with a key of rdtarget.yaml(5), not",
					  text);
			return false;
		}
		json_object_set_new(object, key, value_of(key, sign + 1));
		free(key);
	}
	return true;
}

/* The third argument and those that follow: KEY=VALUE, or "none" alone, which is an empty object.
 * Returns NULL after printing the error. */
static json_t *values_or_none(const struct rdctl_arguments *args)
{
	json_t *values = json_object();

	if ((args->count == 3 && strcmp(args->values[2], "none") == 0) ||
	    add_values(args, 2, values))
		return values;
	json_decref(values);
	return NULL;
}

/* ---- showing what can be set ---- */

/* A verb that can set a value, and is given none, shows it. Options of changes mean a mistake.
 * Takes ownership of @params. Returns NULL with *@code set. */
static json_t *ask_value(const struct rdctl *ctl, const struct rdctl_arguments *args,
			 const char *method, json_t *params, int *code)
{
	if (!args->save && !args->dry_run && !args->no_wait)
		return rdctl_call(ctl, method, params, code);
	json_decref(params);
	*code = rdctl_usage_error("without a value this shows, and takes no option of changes, not",
				  args->save      ? "--save"
				  : args->dry_run ? "--dry-run"
						  : "--no-wait");
	return NULL;
}

/* Prints @values as the arguments that set them, and "none" if there are none. */
static void show_values(const struct rdctl *ctl, json_t *values)
{
	char text[1024];
	const char *key;
	json_t *value;

	if (ctl->json) {
		rdctl_json(values);
		return;
	}
	json_object_foreach(values, key, value)
		printf("%s=%s\n", key, rdctl_text(value, RDCTL_TEXT, text, sizeof(text)));
	if (!json_object_size(values))
		puts("none");
}

static json_t *with_nsid(const json_t *namespaces, json_int_t nsid)
{
	json_t *ns;
	size_t i;

	json_array_foreach(namespaces, i, ns) if (json_integer_value(json_object_get(ns, "nsid")) ==
						  nsid) return ns;
	return NULL;
}

static int show_ns_limits(const struct rdctl *ctl, const struct rdctl_arguments *args,
			  json_int_t nsid)
{
	int code;
	json_t *result = ask_value(ctl, args, "namespace.list",
				   json_pack("{s:s}", "nqn", args->values[0]), &code);
	json_t *ns = with_nsid(json_object_get(result, "namespaces"), nsid);

	if (ns) {
		show_values(ctl, json_object_get(ns, "qos"));
	} else if (result) {
		fprintf(stderr, "rdctl: no namespace \"%s\"\n  hint: rdctl ns lists all\n",
			args->values[1]);
		code = RDCTL_REFUSED;
	}
	json_decref(result);
	return code;
}

/* @name: "auth" or "qos". */
static int show_of_host(const struct rdctl *ctl, const struct rdctl_arguments *args,
			const char *name)
{
	int code;
	json_t *result = ask_value(
		ctl, args, "host.get",
		json_pack("{s:s, s:s}", "nqn", args->values[0], "hostnqn", args->values[1]), &code);

	if (result)
		show_values(ctl, json_object_get(result, name));
	json_decref(result);
	return code;
}

/* As the arguments that set them, one in a line. */
static int show_hosts(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	int code;
	json_t *result = ask_value(ctl, args, "subsystem.list",
				   json_pack("{s:s}", "nqn", args->values[0]), &code);
	const json_t *ss = json_array_get(json_object_get(result, "subsystems"), 0), *host;
	const char *admits = json_string_value(json_object_get(ss, "admits"));
	char text[1024];
	size_t i;

	if (ss && ctl->json)
		rdctl_json(ss);
	else if (admits && strcmp(admits, "listed") != 0)
		puts(admits);
	else
		json_array_foreach(json_object_get(ss, "hosts"), i, host)
			puts(rdctl_text(host, RDCTL_TEXT, text, sizeof(text)));
	json_decref(result);
	return code;
}

/* ---- namespaces ---- */

int rdctl_ns_add(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *ns;
	uint64_t nsid;

	if (!parse_nsid(args->values[1], &nsid))
		return RDCTL_USAGE;
	ns = json_pack("{s:I}", "nsid", (json_int_t)nsid);
	if (!add_values(args, 2, ns)) {
		json_decref(ns);
		return RDCTL_USAGE;
	}
	return rdctl_change(ctl, args, "namespace.add",
			    json_pack("{s:s, s:o}", "nqn", args->values[0], "namespace", ns));
}

/* Calls @method with the subsystem, the NSID and @value as @name, which may be NULL. */
static int change_ns(const struct rdctl *ctl, const struct rdctl_arguments *args,
		     const char *method, const char *name, json_t *value)
{
	json_t *params;
	uint64_t nsid;

	if (!parse_nsid(args->values[1], &nsid)) {
		json_decref(value);
		return RDCTL_USAGE;
	}
	params = json_pack("{s:s, s:I}", "nqn", args->values[0], "nsid", (json_int_t)nsid);
	if (name)
		json_object_set_new(params, name, value);
	return rdctl_change(ctl, args, method, params);
}

int rdctl_ns_remove(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	return change_ns(ctl, args, "namespace.remove", args->keep_state ? "keep_state" : NULL,
			 args->keep_state ? json_true() : NULL);
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

int rdctl_ns_reopen(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	uint64_t nsid;

	if (!parse_nsid(args->values[1], &nsid))
		return RDCTL_USAGE;
	return rdctl_show(ctl, "namespace.reopen",
			  json_pack("{s:s, s:I}", "nqn", args->values[0], "nsid", (json_int_t)nsid),
			  print_reopened);
}

int rdctl_ns_resize(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	if (args->count < 3)
		return change_ns(ctl, args, "namespace.resize", NULL, NULL);
	return change_ns(ctl, args, "namespace.resize", "size", json_string(args->values[2]));
}

int rdctl_ns_protect(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	bool on = strcmp(args->values[2], "on") == 0;

	if (!on && strcmp(args->values[2], "off") != 0)
		return rdctl_usage_error("ns protect: expected on or off, not", args->values[2]);
	return change_ns(ctl, args, "namespace.write_protect", "on", json_boolean(on));
}

int rdctl_ns_ana(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	uint64_t group;

	if (rd_parse_u64(args->values[2], 1, INT32_MAX, &group))
		return rdctl_usage_error("ns ana: expected the number of a group, not",
					 args->values[2]);
	return change_ns(ctl, args, "namespace.set_ana", "group", json_integer((json_int_t)group));
}

int rdctl_ns_qos(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *limits;
	uint64_t nsid;

	if (!parse_nsid(args->values[1], &nsid))
		return RDCTL_USAGE;
	if (args->count == 2)
		return show_ns_limits(ctl, args, (json_int_t)nsid);
	limits = values_or_none(args);
	return limits ? change_ns(ctl, args, "namespace.qos", "limits", limits) : RDCTL_USAGE;
}

/* ---- subsystems and hosts ---- */

int rdctl_subsystem_add(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *subsystem = json_pack("{s:s}", "nqn", args->values[0]);

	if (!add_values(args, 1, subsystem)) {
		json_decref(subsystem);
		return RDCTL_USAGE;
	}
	return rdctl_change(ctl, args, "subsystem.add", json_pack("{s:o}", "subsystem", subsystem));
}

int rdctl_subsystem_remove(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	return rdctl_change(ctl, args, "subsystem.remove",
			    json_pack("{s:s}", "nqn", args->values[0]));
}

int rdctl_subsystem_hosts(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	const char *word = args->count == 2 ? args->values[1] : "";
	json_t *hosts;

	if (args->count == 1)
		return show_hosts(ctl, args);
	if (strcmp(word, "any") == 0)
		return rdctl_change(ctl, args, "subsystem.allow_any_host",
				    json_pack("{s:s}", "nqn", args->values[0]));
	hosts = json_array();
	for (int i = 1; i < args->count && strcmp(word, "none") != 0; i++)
		json_array_append_new(hosts, json_string(args->values[i]));
	return rdctl_change(ctl, args, "subsystem.set_hosts",
			    json_pack("{s:s, s:o}", "nqn", args->values[0], "hosts", hosts));
}

/* The parameters for a host of a subsystem. */
static json_t *host_of(const struct rdctl_arguments *args)
{
	return json_pack("{s:s, s:s}", "nqn", args->values[0], "hostnqn", args->values[1]);
}

/* Calls @method with the subsystem, the host, and the arguments KEY=VALUE as @name. */
static int change_of_host(const struct rdctl *ctl, const struct rdctl_arguments *args,
			  const char *method, const char *name)
{
	json_t *values = values_or_none(args), *params;

	if (!values)
		return RDCTL_USAGE;
	params = host_of(args);
	json_object_set_new(params, name, values);
	return rdctl_change(ctl, args, method, params);
}

int rdctl_host_allow(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	if (args->count > 2)
		return change_of_host(ctl, args, "host.allow", "keys");
	return rdctl_change(ctl, args, "host.allow", host_of(args));
}

int rdctl_host_deny(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	return rdctl_change(ctl, args, "host.deny", host_of(args));
}

int rdctl_host_auth(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	if (args->count == 2)
		return show_of_host(ctl, args, "auth");
	return change_of_host(ctl, args, "host.auth", "keys");
}

int rdctl_host_qos(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	if (args->count == 2)
		return show_of_host(ctl, args, "qos");
	return change_of_host(ctl, args, "host.qos", "limits");
}

/* ---- listeners ---- */

int rdctl_listener_add(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *listener = json_object();

	if (!rdctl_split_address(args->values[0], listener)) {
		json_decref(listener);
		return rdctl_usage_error(RDCTL_ADDRESS_EXPECTED, args->values[0]);
	}
	if (!add_values(args, 1, listener)) {
		json_decref(listener);
		return RDCTL_USAGE;
	}
	return rdctl_change(ctl, args, "listener.add", json_pack("{s:o}", "listener", listener));
}

int rdctl_listener_remove(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	json_t *params = json_object();

	if (rdctl_split_address(args->values[0], params))
		return rdctl_change(ctl, args, "listener.remove", params);
	json_decref(params);
	return rdctl_usage_error(RDCTL_ADDRESS_EXPECTED, args->values[0]);
}

/* ---- the configuration ---- */

int rdctl_apply(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	const char *path = args->values[0];
	char *text = malloc(DOCUMENT_MAX);
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	json_t *document;
	size_t len = f && text ? fread(text, 1, DOCUMENT_MAX, f) : 0;
	bool bad = !f || !text || ferror(f);

	if (bad)
		fprintf(stderr, "rdctl: %s: %s\n", path, strerror(errno));
	else if (len == DOCUMENT_MAX)
		fprintf(stderr,
			"rdctl: %s: has more than 1 MiB, which is the most for a request; put it "
			"in "
			"the place of the configuration file, and reload\n",
			path);
	if (f && f != stdin)
		fclose(f);
	document = bad || len == DOCUMENT_MAX ? NULL : json_stringn(text, len);
	free(text);
	if (document)
		return rdctl_change(ctl, args, "config.apply",
				    json_pack("{s:o}", "document", document));
	if (!bad && len < DOCUMENT_MAX)
		fprintf(stderr, "rdctl: %s: is not UTF-8\n", path);
	return RDCTL_USAGE;
}

int rdctl_save(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	return rdctl_show(ctl, "config.save", NULL, print_change);
}
