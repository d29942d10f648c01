/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_json.h"

#include <stdio.h>
#include <string.h>

#include "keys.h"

/* ---- from the structures ---- */

static bool is_secret(const char *key)
{
	size_t len = strlen(key);

	/* A file name is no secret. */
	if (len > 5 && strcmp(key + len - 5, "_file") == 0)
		return false;
	return strstr(key, "key") || strstr(key, "secret") || strstr(key, "psk");
}

static json_t *json_of(const struct rdt_row *row, const void *object);

static json_t *json_list(const struct rdt_row *row, const void *object)
{
	const char *data = rdt_row_pointer(row, object);
	uint64_t count = rdt_row_number_again(row, object);
	json_t *list = json_array();

	for (uint64_t i = 0; i < count && list; i++)
		if (json_array_append_new(
			    list, json_of(row->element, data + i * rdt_row_element_size(row))))
			json_decref(list), list = NULL;
	return list;
}

/* Whether the key is omitted, as in a file. Keys with a default are shown. */
static bool key_is_absent(const struct rdt_row *row, const void *object)
{
	if (row->type == RDT_KEY_LIST)
		return !rdt_row_number_again(row, object);
	if (row->type == RDT_KEY_NUMBER)
		return !row->def && !rdt_row_number(row, object);
	if (row->type == RDT_KEY_BOOL || row->type == RDT_KEY_CHOICE ||
	    (row->type == RDT_KEY_MAPPING && !row->pointer))
		return false;
	return !rdt_row_pointer(row, object);
}

static json_t *json_mapping(const struct rdt_section *s, const void *object)
{
	const struct rdt_row *selector = s->selector ? rdt_row_find(s, s->selector) : NULL;
	uint32_t sel = selector ? 1u << rdt_row_number(selector, object) : RDT_ALWAYS;
	json_t *all = json_object();

	for (RDT_EACH_ROW(row, s)) {
		if (key_is_absent(row, object) || (row->with && !(row->with & sel)))
			continue;
		if (json_object_set_new(all, row->name,
					is_secret(row->name) ? json_string("(secret)")
							     : json_of(row, object))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *json_of(const struct rdt_row *row, const void *object)
{
	switch (row->type) {
	case RDT_KEY_NUMBER:
		return json_integer((json_int_t)rdt_row_number(row, object));
	case RDT_KEY_BOOL:
		return json_boolean(rdt_row_number(row, object));
	case RDT_KEY_CHOICE:
		return json_string(
			rdt_choice_name(row->choices, (int64_t)rdt_row_number(row, object)));
	case RDT_KEY_LIST:
		return json_list(row, object);
	case RDT_KEY_MAPPING:
		return json_mapping(row->section, row->pointer ? rdt_row_pointer(row, object)
							       : (const char *)object + row->at);
	default:
		return json_string(rdt_row_pointer(row, object));
	}
}

json_t *rdt_config_json(const struct rdt_config *config)
{
	return json_mapping(&rdt_config_section, config);
}

json_t *rdt_config_host_auth_json(const struct rdt_host_auth_config *host)
{
	return json_mapping(&rdt_host_auth_section, host);
}

/* ---- differences ---- */

#define PATH_TEXT 768

struct json_diff {
	json_t *list;
	unsigned int max;
	bool no_memory;
	char path[PATH_TEXT];
};

/* The name of an element of a list, such as its NQN; "": elements without a name are compared by
 * index. */
static void element_name(const json_t *element, char *buf, size_t size)
{
	static const char *const names[] = {"nqn", "host", "address"};
	const json_t *port = json_object_get(element, "port");

	buf[0] = '\0';
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]) && !buf[0]; i++) {
		const char *text = json_string_value(json_object_get(element, names[i]));

		if (text && port)
			snprintf(buf, size, "%s:%lld", text, (long long)json_integer_value(port));
		else if (text)
			snprintf(buf, size, "%s", text);
	}
	for (unsigned int i = 0; i < 2 && !buf[0]; i++) {
		const json_t *number = json_object_get(element, i ? "group" : "nsid");

		if (json_is_integer(number))
			snprintf(buf, size, "%lld", (long long)json_integer_value(number));
	}
	if (!buf[0] && json_is_string(element))
		snprintf(buf, size, "%s", json_string_value(element));
}

static void add_difference(struct json_diff *d, const json_t *from, const json_t *to)
{
	if (json_array_size(d->list) >= d->max)
		return;
	if (json_array_append_new(d->list, json_pack("{s:s, s:O?, s:O?}", "path", d->path, "from",
						     from, "to", to)))
		d->no_memory = true;
}

static void diff_values(struct json_diff *d, const json_t *from, const json_t *to);

/* Compares a part and adds it to the path: a key, or an element of a list. */
static void diff_part(struct json_diff *d, bool element, const char *name, const json_t *from,
		      const json_t *to)
{
	size_t len = strlen(d->path);

	if (element)
		snprintf(d->path + len, sizeof(d->path) - len, "[%s]", name);
	else
		snprintf(d->path + len, sizeof(d->path) - len, "%s%s", len ? "." : "", name);
	diff_values(d, from, to);
	d->path[len] = '\0';
}

static void diff_objects(struct json_diff *d, json_t *from, json_t *to)
{
	const char *key;
	json_t *value;

	json_object_foreach(from, key, value)
		diff_part(d, false, key, value, json_object_get(to, key));
	json_object_foreach(to, key, value) if (!json_object_get(from, key))
		diff_part(d, false, key, NULL, value);
}

/* An object with the elements of a list by name, in their order. */
static json_t *by_name(const json_t *list)
{
	json_t *object = json_object();
	char name[288], again[320];
	json_t *element;
	size_t i;

	json_array_foreach(list, i, element)
	{
		element_name(element, name, sizeof(name));
		snprintf(again, sizeof(again), "%s", name);
		/* Listeners with port 0 may repeat an address: number the second and later ones. */
		for (size_t n = name[0] ? 2 : i; !again[0] || json_object_get(object, again); n++)
			snprintf(again, sizeof(again), "%s%s%zu", name, name[0] ? "#" : "", n);
		json_object_set(object, again, element);
	}
	return object;
}

static void diff_lists(struct json_diff *d, const json_t *from, const json_t *to)
{
	json_t *a = by_name(from), *b = by_name(to);
	const char *key;
	json_t *value;

	json_object_foreach(a, key, value) diff_part(d, true, key, value, json_object_get(b, key));
	json_object_foreach(b, key, value) if (!json_object_get(a, key))
		diff_part(d, true, key, NULL, value);
	d->no_memory |= !a || !b;
	json_decref(a);
	json_decref(b);
}

static void diff_values(struct json_diff *d, const json_t *from, const json_t *to)
{
	if (json_is_object(from) && json_is_object(to))
		diff_objects(d, (json_t *)from, (json_t *)to);
	else if (json_is_array(from) && json_is_array(to))
		diff_lists(d, from, to);
	else if (!from || !to || !json_equal(from, to))
		add_difference(d, from, to);
}

json_t *rdt_config_json_diff(const json_t *from, const json_t *to, unsigned int max)
{
	struct json_diff d = {.list = json_array(), .max = max};

	if (d.list)
		diff_values(&d, from, to);
	if (d.no_memory) {
		json_decref(d.list);
		return NULL;
	}
	return d.list;
}
