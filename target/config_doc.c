/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file as a tree of nodes with line numbers, and its check against the schema.
 * libcyaml would find the same mistakes, but stops at the first, knows no suggestions, and takes
 * any word for true.
 */
#include "config_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"

void rdt_config_problem(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	load->problems++;
	if (key->text[0])
		rd_err(load->log, RD_LOG_CONFIG, "%s:%lu: %s: %s", load->path, key->line, key->text,
		       text);
	else
		rd_err(load->log, RD_LOG_CONFIG, "%s:%lu: %s", load->path, key->line, text);
}

/* ---- walking ---- */

static yaml_node_t *node_at(struct rdt_config_load *load, int index)
{
	return yaml_document_get_node(&load->doc, index);
}

static const char *scalar_text(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

static bool is_key(const yaml_node_t *node, const char *name)
{
	return node->type == YAML_SCALAR_NODE && strcmp(scalar_text(node), name) == 0;
}

static void place(struct rdt_key *key, yaml_node_t *node)
{
	key->node = node;
	if (node)
		key->line = node->start_mark.line + 1;
}

static void name_child(struct rdt_key *key, const struct rdt_key *parent, const char *name)
{
	int n = snprintf(key->text, sizeof(key->text), "%s%s%s", parent->text,
			 parent->text[0] ? "." : "", name);

	if (n >= (int)sizeof(key->text))
		memcpy(key->text + sizeof(key->text) - 4, "...", 4);
}

struct rdt_key rdt_config_root(struct rdt_config_load *load)
{
	struct rdt_key key = {.line = 1};

	place(&key, yaml_document_get_root_node(&load->doc));
	return key;
}

struct rdt_key rdt_config_child(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name)
{
	struct rdt_key key = {.line = parent->line};

	name_child(&key, parent, name);
	if (!parent->node || parent->node->type != YAML_MAPPING_NODE)
		return key;
	for (yaml_node_pair_t *p = parent->node->data.mapping.pairs.start;
	     p < parent->node->data.mapping.pairs.top; p++) {
		if (is_key(node_at(load, p->key), name)) {
			place(&key, node_at(load, p->value));
			/* An empty value begins at the next token, maybe lines below. */
			key.line = node_at(load, p->key)->start_mark.line + 1;
			break;
		}
	}
	return key;
}

struct rdt_key rdt_config_item(struct rdt_config_load *load, const struct rdt_key *parent,
			       unsigned int index)
{
	struct rdt_key key = {.line = parent->line};
	yaml_node_item_t *start;
	int n = snprintf(key.text, sizeof(key.text), "%s[%u]", parent->text, index);

	if (n >= (int)sizeof(key.text))
		memcpy(key.text + sizeof(key.text) - 4, "...", 4);
	if (!parent->node || parent->node->type != YAML_SEQUENCE_NODE)
		return key;
	start = parent->node->data.sequence.items.start;
	if (index < parent->node->data.sequence.items.top - start)
		place(&key, node_at(load, start[index]));
	return key;
}

/* ---- suggestions ---- */

#define WORD_MAX 32

/* Levenshtein distance of two short words; large when one is too long for a key. */
static unsigned int distance(const char *a, const char *b)
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
		unsigned int d = distance(name, fields->key);

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

/* ---- checking values ---- */

/* What is there, for people. */
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

static void check_uint(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_value_t *schema)
{
	uint64_t max =
		schema->data_size >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * schema->data_size)) - 1;
	const char *text = scalar_text(key->node);
	char buf[80];
	uint64_t value;

	/* libcyaml would read a leading zero as octal. */
	if (rd_parse_u64(text, 0, max, &value) == 0 &&
	    (text[0] != '0' || text[1] == '\0' || text[1] == 'x' || text[1] == 'X'))
		return;
	rdt_config_problem(load, key, "%s, expected a whole number from 0 to %" PRIu64,
			   found_text(key->node, buf, sizeof(buf)), max);
}

static void check_bool(struct rdt_config_load *load, const struct rdt_key *key)
{
	static const char *const words[] = {"true", "false", "yes", "no"};
	char buf[80];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(scalar_text(key->node), words[i]) == 0)
			return;
	}
	rdt_config_problem(load, key, "%s, expected true or false",
			   found_text(key->node, buf, sizeof(buf)));
}

static void check_enum(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_value_t *schema)
{
	const cyaml_strval_t *strings = schema->enumeration.strings;
	uint32_t count = schema->enumeration.count;
	char list[160] = "", buf[80];
	size_t len = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(scalar_text(key->node), strings[i].str) == 0)
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

static void check_string(struct rdt_config_load *load, const struct rdt_key *key)
{
	const yaml_node_t *node = key->node;

	if (node->data.scalar.length == 0)
		rdt_config_problem(load, key, "found nothing, expected text");
	else if (strlen(scalar_text(node)) != node->data.scalar.length)
		rdt_config_problem(load, key, "contains a NUL character");
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

static void check_scalar(struct rdt_config_load *load, const struct rdt_key *key,
			 const cyaml_schema_value_t *schema)
{
	switch (schema->type) {
	case CYAML_UINT:
		check_uint(load, key, schema);
		break;
	case CYAML_BOOL:
		check_bool(load, key);
		break;
	case CYAML_ENUM:
		check_enum(load, key, schema);
		break;
	default:
		check_string(load, key);
		break;
	}
}

static void check_value(struct rdt_config_load *load, const struct rdt_key *key,
			const cyaml_schema_value_t *schema);

static void check_sequence(struct rdt_config_load *load, const struct rdt_key *key,
			   const cyaml_schema_value_t *schema)
{
	yaml_node_t *node = key->node;
	unsigned int count =
		(unsigned int)(node->data.sequence.items.top - node->data.sequence.items.start);

	if (count < schema->sequence.min)
		rdt_config_problem(load, key, "is empty, expected at least %u",
				   schema->sequence.min);
	for (unsigned int i = 0; i < count; i++) {
		struct rdt_key item = rdt_config_item(load, key, i);

		check_value(load, &item, schema->sequence.entry);
	}
}

/* The keys that are there: known, and each only once. */
static void check_keys(struct rdt_config_load *load, const struct rdt_key *key,
		       const cyaml_schema_field_t *fields)
{
	yaml_node_pair_t *start = key->node->data.mapping.pairs.start;

	for (yaml_node_pair_t *p = start; p < key->node->data.mapping.pairs.top; p++) {
		yaml_node_t *name = node_at(load, p->key);
		struct rdt_key at = {.line = name->start_mark.line + 1};

		if (name->type != YAML_SCALAR_NODE) {
			name_child(&at, key, "?");
			rdt_config_problem(load, &at, "a key must be a single word");
			continue;
		}
		name_child(&at, key, scalar_text(name));
		if (!find_field(fields, scalar_text(name)))
			unknown_key(load, &at, scalar_text(name), fields);
		for (yaml_node_pair_t *q = start; q < p; q++) {
			yaml_node_t *first = node_at(load, q->key);

			if (!is_key(first, scalar_text(name)))
				continue;
			rdt_config_problem(load, &at, "given twice, first in line %zu; remove one",
					   first->start_mark.line + 1);
			break;
		}
	}
}

static void check_mapping(struct rdt_config_load *load, const struct rdt_key *key,
			  const cyaml_schema_value_t *schema)
{
	check_keys(load, key, schema->mapping.fields);
	for (const cyaml_schema_field_t *f = schema->mapping.fields; f->key; f++) {
		struct rdt_key child = rdt_config_child(load, key, f->key);

		if (child.node)
			check_value(load, &child, &f->value);
		else if (!(f->value.flags & CYAML_FLAG_OPTIONAL))
			rdt_config_problem(load, &child, "missing, expected %s",
					   expected_text(&f->value));
	}
}

static void check_value(struct rdt_config_load *load, const struct rdt_key *key,
			const cyaml_schema_value_t *schema)
{
	yaml_node_type_t want = schema->type == CYAML_MAPPING    ? YAML_MAPPING_NODE
				: schema->type == CYAML_SEQUENCE ? YAML_SEQUENCE_NODE
								 : YAML_SCALAR_NODE;
	char buf[80];

	if (key->node->type != want) {
		rdt_config_problem(load, key, "%s, expected %s",
				   found_text(key->node, buf, sizeof(buf)), expected_text(schema));
		return;
	}
	if (want == YAML_MAPPING_NODE)
		check_mapping(load, key, schema);
	else if (want == YAML_SEQUENCE_NODE)
		check_sequence(load, key, schema);
	else
		check_scalar(load, key, schema);
}

void rdt_config_doc_check(struct rdt_config_load *load, const cyaml_schema_value_t *schema)
{
	struct rdt_key root = rdt_config_root(load);

	check_value(load, &root, schema);
}

/* ---- parsing ---- */

int rdt_config_doc_open(struct rdt_config_load *load, const char *text, size_t len)
{
	struct rdt_key key = {.line = 1};
	yaml_parser_t parser;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &load->doc)) {
		key.line = parser.problem_mark.line + 1;
		rdt_config_problem(load, &key, "not YAML: %s%s%s",
				   parser.problem ? parser.problem : "unreadable",
				   parser.context ? " " : "", parser.context ? parser.context : "");
		yaml_parser_delete(&parser);
		return -EINVAL;
	}
	yaml_parser_delete(&parser);
	load->doc_ok = true;
	if (yaml_document_get_root_node(&load->doc))
		return 0;
	rdt_config_problem(load, &key, "is empty, expected \"listeners:\" and \"subsystems:\"");
	return -EINVAL;
}

void rdt_config_doc_close(struct rdt_config_load *load)
{
	if (load->doc_ok)
		yaml_document_delete(&load->doc);
	load->doc_ok = false;
}
