/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs that change the configuration. */
#include "rdctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

#define DOCUMENT_MAX (1u << 20) /* the limit of a request */

/* ---- answers ---- */

int rdctl_print_change(const json_t *result)
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
	if (args->given[RDCTL_SAVE])
		json_object_set_new(params, "save", json_true());
	if (args->given[RDCTL_DRY_RUN])
		json_object_set_new(params, "dry_run", json_true());
	if (args->given[RDCTL_NO_WAIT])
		json_object_set_new(params, "wait", json_false());
	return rdctl_show(ctl, method, params, rdctl_print_change);
}

/* ---- showing what can be set ---- */

/* A verb that can set a value, and is given none, shows it. Options of changes mean a mistake.
 * Takes ownership of @params. Returns NULL with *@code set. */
static json_t *ask_value(const struct rdctl *ctl, const struct rdctl_arguments *args,
			 const char *method, json_t *params, int *code)
{
	if (!args->given[RDCTL_SAVE] && !args->given[RDCTL_DRY_RUN] && !args->given[RDCTL_NO_WAIT])
		return rdctl_call(ctl, method, params, code);
	json_decref(params);
	*code = rdctl_usage_error("without a value this shows, and takes no option of changes, not",
				  args->given[RDCTL_SAVE]      ? "--save"
				  : args->given[RDCTL_DRY_RUN] ? "--dry-run"
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

static json_t *with_nsid(const json_t *namespaces, const char *text)
{
	uint64_t nsid = 0;
	json_t *ns;
	size_t i;

	rd_parse_u64(text, 1, UINT32_MAX, &nsid);
	json_array_foreach(namespaces, i, ns)
	{
		if (json_integer_value(json_object_get(ns, "nsid")) == (json_int_t)nsid)
			return ns;
	}
	return NULL;
}

int rdctl_show_ns_limits(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	int code;
	json_t *result = ask_value(ctl, args, "namespace.list",
				   json_pack("{s:s}", "nqn", args->values[0]), &code);
	json_t *ns = with_nsid(json_object_get(result, "namespaces"), args->values[1]);

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

int rdctl_show_host_keys(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	return show_of_host(ctl, args, "auth");
}

int rdctl_show_host_limits(const struct rdctl *ctl, const struct rdctl_arguments *args)
{
	return show_of_host(ctl, args, "qos");
}

/* ---- hosts of a subsystem ---- */

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
			"rdctl: %s: is larger than 1 MiB, the limit of a request; put it in place "
			"of the configuration file, and reload\n",
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
