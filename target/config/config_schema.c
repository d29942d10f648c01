/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the rows of the keys as a JSON schema, for editors and tools/config-docs. */
#include "config_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

/* Size of the facts about a key in the manual page. */
#define FACTS_TEXT 600

static void add_fact(char *buf, const char *label, const char *fact)
{
	size_t len = strlen(buf);

	if (fact && fact[0])
		snprintf(buf + len, FACTS_TEXT - len, "%s%s%s", len ? "; " : "", label, fact);
}

static void add_elements(const struct rdt_row *row, char *facts)
{
	char list[64], range[RDT_EXPECTED_TEXT];

	if (row->type != RDT_KEY_LIST)
		return;
	snprintf(list, sizeof(list), "list");
	if (row->max)
		snprintf(list, sizeof(list), "list of at most %llu", (unsigned long long)row->max);
	add_fact(facts, "", list);
	if (row->element->type == RDT_KEY_NUMBER || row->element->choices)
		add_fact(facts, "each ", rdt_row_range(row->element, range));
}

/* "1 to 64; default 2; change: restart." */
static void facts_of(const struct rdt_section *s, const struct rdt_row *row, char *facts)
{
	static const char *const when[] = {"at once", "new connections", "anew", "restart"};
	char text[RDT_EXPECTED_TEXT];

	facts[0] = '\0';
	add_fact(facts, "", row->type == RDT_KEY_MAPPING ? "mapping" : "");
	add_fact(facts, "", row->type == RDT_KEY_BOOL ? "true or false" : rdt_row_range(row, text));
	add_elements(row, facts);
	if (row->with)
		add_fact(facts, row->needed == row->with ? "only and always with " : "only with ",
			 rdt_section_with(s, row->with, text));
	if (row->needed == RDT_ALWAYS)
		add_fact(facts, "", "required");
	else if (row->needed && row->needed != row->with)
		add_fact(facts, "required with ", rdt_section_with(s, row->needed, text));
	add_fact(facts, "default ", row->def);
	add_fact(facts, "default: ", row->unset);
	if (row->type != RDT_KEY_MAPPING &&
	    !(row->type == RDT_KEY_LIST && row->element->type == RDT_KEY_MAPPING))
		add_fact(facts, "change: ", when[row->when]);
}

static json_t *schema_of(const struct rdt_row *row);

static json_t *number_schema(const struct rdt_row *row)
{
	return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
			 (json_int_t)(row->or_zero ? 0 : row->min), "maximum",
			 (json_int_t)row->max);
}

static json_t *choice_schema(const struct rdt_row *row)
{
	json_t *list = json_array();

	for (const struct rdt_choice *c = row->choices; c->name; c++) {
		json_array_append_new(list, row->type == RDT_KEY_NUMBER
						    ? json_integer((json_int_t)c->value)
						    : json_string(c->name));
		if (strcmp(c->name, "null") == 0) /* without quotes */
			json_array_append_new(list, json_null());
	}
	return json_pack("{s:o}", "enum", list);
}

/* A text may look like a number in YAML. */
static json_t *text_schema(const struct rdt_row *row)
{
	json_t *schema = json_pack("{s:[s, s]}", "type", "string", "number");

	if (row->type == RDT_KEY_SIZE || row->type == RDT_KEY_DURATION) {
		json_object_set_new(schema, "pattern", json_string("^[0-9.]+[A-Za-z]*$"));
	} else {
		json_object_set_new(schema, "minLength",
				    json_integer(row->min ? (json_int_t)row->min : 1));
		if (row->max)
			json_object_set_new(schema, "maxLength",
					    json_integer((json_int_t)row->max));
	}
	return schema;
}

static json_t *list_schema(const struct rdt_row *row)
{
	json_t *schema = json_pack("{s:s, s:o}", "type", "array", "items", schema_of(row->element));

	if (row->min)
		json_object_set_new(schema, "minItems", json_integer((json_int_t)row->min));
	if (row->max)
		json_object_set_new(schema, "maxItems", json_integer((json_int_t)row->max));
	return schema;
}

/* The keys that a value of the selector requires and excludes. */
static json_t *selected_schema(const struct rdt_section *s, const struct rdt_choice *choice)
{
	json_t *properties = json_object(), *required = json_array();

	for (RDT_EACH_ROW(row, s)) {
		if (row->with && !(row->with >> choice->value & 1))
			json_object_set_new(properties, row->name, json_false());
		if (row->needed != RDT_ALWAYS && row->needed >> choice->value & 1)
			json_array_append_new(required, json_string(row->name));
	}
	return json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:o, s:o}}", "if", "properties", s->selector,
			 "const", choice->name, "required", s->selector, "then", "properties",
			 properties, "required", required);
}

static json_t *default_of(const struct rdt_row *row)
{
	if (row->type == RDT_KEY_NUMBER)
		return json_integer(strtoll(row->def, NULL, 10));
	if (row->type == RDT_KEY_BOOL)
		return json_boolean(strcmp(row->def, "true") == 0);
	return json_string(row->def);
}

static json_t *mapping_schema(const struct rdt_section *s)
{
	const struct rdt_row *selector = s->selector ? rdt_row_find(s, s->selector) : NULL;
	json_t *properties = json_object(), *required = json_array(), *all = json_array();
	char facts[FACTS_TEXT];

	for (RDT_EACH_ROW(row, s)) {
		json_t *schema = schema_of(row);

		facts_of(s, row, facts);
		json_object_set_new(schema, "description",
				    json_sprintf("%s\n%s", row->says, facts));
		if (row->def)
			json_object_set_new(schema, "default", default_of(row));
		if (row->example) /* as in a file, without additional quotes */
			json_object_set_new(schema, "x-example", json_string(row->example));
		json_object_set_new(properties, row->name, schema);
		if (row->needed == RDT_ALWAYS)
			json_array_append_new(required, json_string(row->name));
	}
	for (const struct rdt_choice *c = selector ? selector->choices : NULL; c && c->name; c++)
		json_array_append_new(all, selected_schema(s, c));
	properties = json_pack("{s:s, s:b, s:o, s:o}", "type", "object", "additionalProperties", 0,
			       "required", required, "properties", properties);
	if (json_array_size(all))
		json_object_set(properties, "allOf", all);
	json_decref(all);
	return properties;
}

static json_t *schema_of(const struct rdt_row *row)
{
	if (row->choices)
		return choice_schema(row);
	switch (row->type) {
	case RDT_KEY_NUMBER:
		return number_schema(row);
	case RDT_KEY_BOOL:
		return json_pack("{s:[b, b, s, s]}", "enum", 1, 0, "yes", "no");
	case RDT_KEY_LIST:
		return list_schema(row);
	case RDT_KEY_MAPPING:
		return mapping_schema(row->section);
	default:
		return text_schema(row);
	}
}

char *rdt_config_schema(void)
{
	json_t *schema = mapping_schema(&rdt_config_section);
	char *text;

	json_object_set_new(schema, "$schema",
			    json_string("https://json-schema.org/draft/2020-12/schema"));
	json_object_set_new(schema, "title", json_string("The configuration of rdtarget"));
	text = json_dumps(schema, JSON_INDENT(1));
	json_decref(schema);
	return text;
}
