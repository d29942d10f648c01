/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the YAML trees to the structures: checks each value against the schema and fills in the
 * valid ones. libcyaml's own loader stops at the first mistake, has no suggestions, accepts any
 * word as true and reads only one file.
 */
#include "config_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

static const char *scalar_text(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

/* ---- suggestions ---- */

#define WORD_MAX 32

/* Levenshtein distance of two short words; a large number if one is too long for a key. */
static unsigned int key_distance(const char *a, const char *b)
{
	unsigned int row[WORD_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > WORD_MAX || lb > WORD_MAX)
		return WORD_MAX;
	for (unsigned int j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned int i = 1; i <= la; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= lb; j++) {
			unsigned int best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[lb];
}

static const cyaml_schema_field_t *find_field(const cyaml_schema_field_t *fields, const char *name)
{
	for (; fields->key; fields++) {
		if (strcmp(fields->key, name) == 0)
			return fields;
	}
	return NULL;
}

static const char *nearest_key(const cyaml_schema_field_t *fields, const char *name)
{
	unsigned int best = (unsigned int)strlen(name) / 3 + 1;
	const char *found = NULL;

	for (; fields->key; fields++) {
		unsigned int d = key_distance(name, fields->key);

		if (d <= best && (!found || d < best)) {
			best = d;
			found = fields->key;
		}
	}
	return found;
}

static void unknown_key(struct rdt_config_load *load, const struct rdt_key *key, const char *name,
			const cyaml_schema_field_t *fields)
{
	const char *near = nearest_key(fields, name);
	char list[320] = "";
	size_t len = 0;

	if (near) {
		rdt_config_problem(load, key, "unknown key; did you mean \"%s\"?", near);
		return;
	}
	for (; fields->key && len < sizeof(list); fields++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "",
					fields->key);
	rdt_config_problem(load, key, "unknown key; expected one of %s", list);
}

/* ---- values ---- */

/* A text that describes the value found. */
static const char *found_text(const yaml_node_t *node, char *buf, size_t size)
{
	switch (node->type) {
	case YAML_MAPPING_NODE:
		return "found a mapping";
	case YAML_SEQUENCE_NODE:
		return "found a sequence";
	default:
		if (node->data.scalar.length == 0)
			return "found nothing";
		snprintf(buf, size, "found \"%.60s\"", scalar_text(node));
		return buf;
	}
}

static void put_number(void *out, uint32_t size, uint64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)out = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)out = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)out = (uint32_t)value;
		break;
	default:
		*(uint64_t *)out = value;
		break;
	}
}

static void fill_uint(struct rdt_config_load *load, const struct rdt_key *key,
		      const cyaml_schema_value_t *schema, void *out)
{
	uint64_t max =
		schema->data_size >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * schema->data_size)) - 1;
	const char *text = scalar_text(key->node);
	char buf[80];
	uint64_t value;

	/* Reject leading zeroes, which some parsers read as octal. */
	if (rd_parse_u64(text, 0, max, &value) == 0 &&
	    (text[0] != '0' || text[1] == '\0' || text[1] == 'x' || text[1] == 'X')) {
		put_number(out, schema->data_size, value);
		return;
	}
	rdt_config_problem(load, key, "%s, expected a whole number from 0 to %" PRIu64,
			   found_text(key->node, buf, sizeof(buf)), max);
}

static void fill_bool(struct rdt_config_load *load, const struct rdt_key *key,
		      const cyaml_schema_value_t *schema, void *out)
{
	static const char *const words[] = {"true", "yes", "false", "no"};
	char buf[80];

	for (unsigned int i = 0; i < 4; i++) {
		if (strcmp(scalar_text(key->node), words[i]) != 0)
			continue;
		put_number(out, schema->data_size, i < 2);
		return;
	}
	rdt_config_problem(load, key, "%s, expected true or false",
			   found_text(key->node, buf, sizeof(buf)));
}

static void fill_enum(struct rdt_config_load *load, const struct rdt_key *key,
		      const cyaml_schema_value_t *schema, void *out)
{
	const cyaml_strval_t *strings = schema->enumeration.strings;
	uint32_t count = schema->enumeration.count;
	char list[160] = "", buf[80];
	size_t len = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(scalar_text(key->node), strings[i].str) != 0)
			continue;
		put_number(out, schema->data_size, (uint64_t)strings[i].val);
		return;
	}
	for (uint32_t i = 0; i < count && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
					!i               ? ""
					: i + 1 == count ? " or "
							 : ", ",
					strings[i].str);
	rdt_config_problem(load, key, "%s, expected %s", found_text(key->node, buf, sizeof(buf)),
			   list);
}

static void fill_string(struct rdt_config_load *load, const struct rdt_key *key, char **out)
{
	const yaml_node_t *node = key->node;

	if (node->data.scalar.length == 0) {
		rdt_config_problem(load, key, "found nothing, expected text");
	} else if (strlen(scalar_text(node)) != node->data.scalar.length) {
		rdt_config_problem(load, key, "contains a NUL character");
	} else if (!*out) { /* otherwise the key is repeated, which was reported */
		*out = strdup(scalar_text(node));
		load->out_of_memory |= !*out;
	}
}

static const char *expected_text(const cyaml_schema_value_t *schema)
{
	switch (schema->type) {
	case CYAML_MAPPING:
		return "a mapping (lines of \"key: value\")";
	case CYAML_SEQUENCE:
		return "a sequence (lines starting with \"- \")";
	case CYAML_UINT:
		return "a whole number";
	case CYAML_BOOL:
		return "true or false";
	default:
		return "a single value";
	}
}

static void fill_value(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_value_t *schema, void *out);

/* ---- sequences ---- */

/* Required strings are never NULL, so that later checks need not test for that. */
static void fill_blank(struct rdt_config_load *load, char **text)
{
	if (!*text)
		*text = strdup("");
	load->out_of_memory |= !*text;
}

/* A node that is visited again was reached through an alias. Aliases are refused: a few lines could
 * expand to any number of elements. */
static bool is_alias(struct rdt_config_load *load, const struct rdt_key *key)
{
	bool *seen = &key->file->seen[key->node - key->file->doc.nodes.start];

	if (*seen)
		rdt_config_problem(load, key,
				   "is an alias of another value; expected the value itself");
	return *seen || (*seen = true, false);
}

/* For a top-level list: record which file each element came from. */
static int note_places(struct rdt_config_list *list, const struct rdt_key *key, unsigned int count)
{
	struct rdt_config_place *at =
		realloc(list->at, ((size_t)list->count + count) * sizeof(*at));

	if (!at)
		return -ENOMEM;
	list->at = at;
	for (unsigned int i = 0; i < count; i++)
		at[list->count + i] = (struct rdt_config_place){
			key->file,
			rdt_config_node(key->file, key->node->data.sequence.items.start[i]), i};
	list->count += count;
	return 0;
}

/* Append @count zeroed elements of @size bytes to the @had ones at *@data. */
static void *grow_elements(void **data, uint32_t had, uint32_t count, size_t size)
{
	char *p = realloc(*data, ((size_t)had + count) * size);

	if (!p)
		return NULL;
	*data = p;
	memset(p + had * size, 0, count * size);
	return p + had * size;
}

/* @data: pointer to the elements; @counter: their number, incremented for each one filled. */
static void fill_sequence(struct rdt_config_load *load, const struct rdt_key *key,
			  const cyaml_schema_value_t *schema, void **data, uint32_t *counter)
{
	const cyaml_schema_value_t *entry = schema->sequence.entry;
	size_t size = entry->flags & CYAML_FLAG_POINTER ? sizeof(void *) : entry->data_size;
	uint32_t count = (uint32_t)(key->node->data.sequence.items.top -
				    key->node->data.sequence.items.start);
	char *p;

	if (count < schema->sequence.min)
		rdt_config_problem(load, key, "is empty, expected at least %u",
				   schema->sequence.min);
	if (!count || is_alias(load, key) || (*counter && !key->list))
		return; /* not the first time: the key is repeated, which was reported */
	p = grow_elements(data, *counter, count, size);
	if (!p || (key->list && note_places((struct rdt_config_list *)key->list, key, count))) {
		load->out_of_memory = true;
		return;
	}
	*counter += count;
	for (unsigned int i = 0; i < count; i++) {
		struct rdt_key item =
			rdt_config_item(load, key, key->list ? key->list->count - count + i : i);

		fill_value(load, &item, entry, p + i * size);
		if (entry->type == CYAML_STRING)
			fill_blank(load, (char **)(p + i * size));
	}
}

/* ---- mappings ---- */

static void fill_blanks(struct rdt_config_load *load, const cyaml_schema_field_t *fields, char *out)
{
	for (const cyaml_schema_field_t *f = fields; f->key; f++) {
		if (f->value.type == CYAML_STRING && !(f->value.flags & CYAML_FLAG_OPTIONAL))
			fill_blank(load, (char **)(out + f->data_offset));
	}
}

/* Keys of the whole target belong to the top file. */
static void not_in_included(struct rdt_config_load *load, const struct rdt_key *key,
			    const char *name)
{
	if (key->file == load->files[0] || rdt_config_list(load, name))
		return;
	rdt_config_problem(load, key,
			   "is in a file that %s includes; expected listeners, subsystems or "
			   "referrals here, and this in %s",
			   load->path, load->path);
}

/* Each key must be known and not repeated. */
static void check_keys(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_field_t *fields)
{
	yaml_node_pair_t *start = key->node->data.mapping.pairs.start;

	for (yaml_node_pair_t *p = start; p < key->node->data.mapping.pairs.top; p++) {
		yaml_node_t *name = rdt_config_node(key->file, p->key);
		bool word = name->type == YAML_SCALAR_NODE;
		struct rdt_key at = rdt_config_named(key, word ? scalar_text(name) : "?");

		at.line = name->start_mark.line + 1;
		if (!word) {
			rdt_config_problem(load, &at, "a key must be a single word");
			continue;
		}
		if (!find_field(fields, scalar_text(name)))
			unknown_key(load, &at, scalar_text(name), fields);
		else if (key->root)
			not_in_included(load, &at, scalar_text(name));
		for (yaml_node_pair_t *q = start; q < p; q++) {
			yaml_node_t *first = rdt_config_node(key->file, q->key);

			if (first->type != YAML_SCALAR_NODE ||
			    strcmp(scalar_text(first), scalar_text(name)) != 0)
				continue;
			rdt_config_problem(load, &at, "given twice, first in line %zu; remove one",
					   first->start_mark.line + 1);
			break;
		}
	}
}

static void fill_field(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_field_t *f, char *out)
{
	void *data = out + f->data_offset;

	if (f->value.type == CYAML_SEQUENCE && key->node->type == YAML_SEQUENCE_NODE) {
		fill_sequence(load, key, &f->value, data, (uint32_t *)(out + f->count_offset));
		return;
	}
	fill_value(load, key, &f->value, data);
}

static void fill_mapping(struct rdt_config_load *load, const struct rdt_key *key,
			 const cyaml_schema_value_t *schema, char *out)
{
	check_keys(load, key, schema->mapping.fields);
	for (const cyaml_schema_field_t *f = schema->mapping.fields; f->key; f++) {
		struct rdt_key child = rdt_config_child(load, key, f->key);

		if (child.node)
			fill_field(load, &child, f, out);
		else if (!(f->value.flags & CYAML_FLAG_OPTIONAL))
			rdt_config_problem(load, &child, "missing, expected %s",
					   expected_text(&f->value));
	}
}

/* Allocate a mapping that the schema has behind a pointer; the root is not allocated. */
static void *mapping_at(struct rdt_config_load *load, const cyaml_schema_value_t *schema, void *out)
{
	void **p = out;

	if (!(schema->flags & CYAML_FLAG_POINTER) || schema == &rdt_config_schema)
		return out;
	if (!*p)
		*p = calloc(1, schema->data_size);
	load->out_of_memory |= !*p;
	return *p;
}

/* ---- all of them ---- */

static void fill_scalar(struct rdt_config_load *load, const struct rdt_key *key,
			const cyaml_schema_value_t *schema, void *out)
{
	switch (schema->type) {
	case CYAML_UINT:
		fill_uint(load, key, schema, out);
		break;
	case CYAML_BOOL:
		fill_bool(load, key, schema, out);
		break;
	case CYAML_ENUM:
		fill_enum(load, key, schema, out);
		break;
	default:
		fill_string(load, key, out);
		break;
	}
}

static void fill_value(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_value_t *schema, void *out)
{
	yaml_node_type_t want = schema->type == CYAML_MAPPING    ? YAML_MAPPING_NODE
				: schema->type == CYAML_SEQUENCE ? YAML_SEQUENCE_NODE
								 : YAML_SCALAR_NODE;
	bool good = key->node->type == want;
	char buf[80];

	if (!good)
		rdt_config_problem(load, key, "%s, expected %s",
				   found_text(key->node, buf, sizeof(buf)), expected_text(schema));
	good = good && !is_alias(load, key);
	if (schema->type == CYAML_MAPPING) {
		out = mapping_at(load, schema, out);
		if (good && out)
			fill_mapping(load, key, schema, out);
		if (out)
			fill_blanks(load, schema->mapping.fields, out);
	} else if (good) {
		fill_scalar(load, key, schema, out);
	}
}

void rdt_config_fill(struct rdt_config_load *load, const struct rdt_config_file *file,
		     struct rdt_config *config)
{
	struct rdt_key root = rdt_config_root_of(file);

	fill_value(load, &root, &rdt_config_schema, config);
}
