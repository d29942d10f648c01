/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of a verb as parameters of the method that it calls. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdctl.h"
#include "util/parse.h"

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

/* Adds arguments KEY=VALUE from number @first on to @object. */
static int add_values(const struct rdctl_arguments *args, int first, json_t *object)
{
	for (int i = first; i < args->count; i++) {
		const char *text = args->values[i], *sign = strchr(text, '=');
		char *key;

		if (strstr(text, "DHHC-1:") || strstr(text, "NVMeTLSkey-1:"))
			return rdctl_usage_error(
				"found a key, expected KEY=VALUE; write the key to a file, and "
				"give its name: dhchap_key_file=FILE or tls_key_file=FILE",
				NULL);
		key = sign && sign > text ? strndup(text, (size_t)(sign - text)) : NULL;
		if (!key)
			return rdctl_usage_error(
				"expected KEY=VALUE, with a key of rdtarget.yaml(5), not", text);
		json_object_set_new(object, key, value_of(key, sign + 1));
		free(key);
	}
	return RDCTL_OK;
}

bool rdctl_split_address(const char *text, json_t *params)
{
	const char *colon = strrchr(text, ':');
	bool bracket = text[0] == '[';
	size_t len = strlen(text);
	uint64_t port;

	if (colon && (bracket ? colon[-1] == ']' : strchr(text, ':') == colon)) {
		if (rd_parse_u64(colon + 1, 0, 65535, &port))
			return false;
		json_object_set_new(params, "port", json_integer((json_int_t)port));
		len = (size_t)(colon - text);
	}
	if (bracket && (len < 2 || text[len - 1] != ']'))
		return false;
	return json_object_set_new(params, "address",
				   bracket ? json_stringn(text + 1, len - 2)
					   : json_stringn(text, len)) == 0;
}

static int add_number(const char *text, uint64_t most, const char *expected, const char *name,
		      json_t *to)
{
	uint64_t number;

	if (rd_parse_u64(text, 1, most, &number))
		return rdctl_usage_error(expected, text);
	return json_object_set_new(to, name, json_integer((json_int_t)number));
}

static int add_switch(const char *text, const char *name, json_t *to)
{
	bool on = strcmp(text, "on") == 0;

	if (!on && strcmp(text, "off") != 0)
		return rdctl_usage_error("expected on or off, not", text);
	return json_object_set_new(to, name, json_boolean(on));
}

/* Adds argument @i, which is @p. Returns RDCTL_OK, or RDCTL_USAGE after printing the error. */
static int add_argument(const struct rdctl_parameter *p, const struct rdctl_arguments *args, int i,
			json_t *to)
{
	const char *text = args->values[i];

	switch (p->kind) {
	case RDCTL_ARG_NSID:
		return add_number(text, UINT32_MAX - 1, "expected a namespace ID, not", p->name,
				  to);
	case RDCTL_ARG_GROUP:
		return add_number(text, INT32_MAX, "expected the number of a group, not", p->name,
				  to);
	case RDCTL_ARG_SWITCH:
		return add_switch(text, p->name, to);
	case RDCTL_ARG_ADDRESS:
		return rdctl_split_address(text, to)
			       ? RDCTL_OK
			       : rdctl_usage_error(RDCTL_ADDRESS_EXPECTED, text);
	case RDCTL_ARG_VALUES:
		if (!p->name)
			return add_values(args, i, to);
		json_object_set_new(to, p->name, json_object());
		if (args->count == i + 1 && strcmp(text, "none") == 0)
			return RDCTL_OK;
		return add_values(args, i, json_object_get(to, p->name));
	case RDCTL_ARG_TEXT:
		break;
	}
	return json_object_set_new(to, p->name, json_string(text));
}

json_t *rdctl_parameters(const struct rdctl_verb *v, const struct rdctl_arguments *args)
{
	json_t *params = json_object(), *to = params;
	int code = RDCTL_OK;

	for (int i = 0; i < args->count && !code; i++) {
		if (v->object && i == v->outside) {
			to = json_object();
			json_object_set_new(params, v->object, to);
		}
		code = add_argument(&v->parameters[i], args, i, to);
		if (v->parameters[i].kind == RDCTL_ARG_VALUES)
			break;
	}
	if (args->given[RDCTL_FULL])
		json_object_set_new(params, "full", json_true());
	if (args->given[RDCTL_KEEP_STATE])
		json_object_set_new(params, "keep_state", json_true());
	if (!code)
		return params;
	json_decref(params);
	return NULL;
}
