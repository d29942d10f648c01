/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_json.h"

#include <stdio.h>
#include <string.h>

#include "config_priv.h"

/* ---- from the structures ---- */

static uint64_t json_number(const void *data, uint32_t size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)data;
	case 2:
		return *(const uint16_t *)data;
	case 4:
		return *(const uint32_t *)data;
	default:
		return *(const uint64_t *)data;
	}
}

static json_t *json_choice(const cyaml_schema_value_t *schema, const void *data)
{
	int64_t value = (int64_t)json_number(data, schema->data_size);

	for (uint32_t i = 0; i < schema->enumeration.count; i++)
		if (schema->enumeration.strings[i].val == value)
			return json_string(schema->enumeration.strings[i].str);
	return json_integer(value);
}

static json_t *json_of(const cyaml_schema_value_t *schema, const char *data, uint64_t count);

static json_t *json_list(const cyaml_schema_value_t *schema, const char *data, uint64_t count)
{
	const cyaml_schema_value_t *entry = schema->sequence.entry;
	size_t size = entry->flags & CYAML_FLAG_POINTER ? sizeof(void *) : entry->data_size;
	json_t *list = json_array();

	for (uint64_t i = 0; i < count && list; i++)
		if (json_array_append_new(list, json_of(entry, data + i * size, 0)))
			json_decref(list), list = NULL;
	return list;
}

static bool is_secret(const char *key)
{
	size_t len = strlen(key);

	/* The name of a file is none. */
	if (len > 5 && strcmp(key + len - 5, "_file") == 0)
		return false;
	return strstr(key, "key") || strstr(key, "secret") || strstr(key, "psk");
}

/* Returns false without memory. */
static bool add_field(json_t *object, const cyaml_schema_field_t *f, const char *data)
{
	uint64_t count = 0;
	json_t *value;

	if (f->value.type == CYAML_IGNORE)
		return true;
	if (f->value.type == CYAML_SEQUENCE)
		count = json_number(data + f->count_offset, f->count_size);
	if (f->value.flags & CYAML_FLAG_POINTER) {
		const void *p;

		memcpy(&p, data + f->data_offset, sizeof(p));
		if (!p || (f->value.type == CYAML_SEQUENCE && !count))
			return true;
	}
	value = is_secret(f->key) ? json_string("(secret)")
				  : json_of(&f->value, data + f->data_offset, count);
	return json_object_set_new(object, f->key, value) == 0;
}

static json_t *json_mapping(const cyaml_schema_field_t *fields, const char *data)
{
	json_t *object = json_object();

	for (; fields->key && object; fields++)
		if (!add_field(object, fields, data))
			json_decref(object), object = NULL;
	return object;
}

/* @data: the value, or for a schema with a pointer the address of that pointer. */
static json_t *json_of(const cyaml_schema_value_t *schema, const char *data, uint64_t count)
{
	if (schema->flags & CYAML_FLAG_POINTER) {
		const void *p;

		memcpy(&p, data, sizeof(p));
		data = p;
	}
	switch (schema->type) {
	case CYAML_UINT:
		return json_integer((json_int_t)json_number(data, schema->data_size));
	case CYAML_BOOL:
		return json_boolean(json_number(data, schema->data_size));
	case CYAML_ENUM:
		return json_choice(schema, data);
	case CYAML_STRING:
		return json_string(data ? data : "");
	case CYAML_MAPPING:
		return json_mapping(schema->mapping.fields, data);
	case CYAML_SEQUENCE:
		return json_list(schema, data, count);
	default:
		return json_null();
	}
}

json_t *rdt_config_json(const struct rdt_config *config)
{
	return json_mapping(rdt_config_schema.mapping.fields, (const char *)config);
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

/* Add a part to the path: a key, or an element of a list. */
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
		/* A listener with port 0 may be repeated for one address: number the further
		 * ones. */
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
