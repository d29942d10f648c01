/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration files as YAML trees with line numbers: parsing, walking, and reporting problems. */
#include "config_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/auth_key.h"

#define PROBLEM_TEXT 512

/* ---- problems ---- */

/* FNV-1a. */
static uint64_t place_hash(const struct rdt_key *key)
{
	uint64_t h = UINT64_C(14695981039346656037) ^ (uintptr_t)key->file;

	for (const char *c = key->text; *c; c++)
		h = (h ^ (unsigned char)*c) * UINT64_C(1099511628211);
	return h;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

bool rdt_config_is_bad(struct rdt_config_load *load, const struct rdt_key *key)
{
	uint64_t hash = place_hash(key);

	return load->bad_count &&
	       bsearch(&hash, load->bad, load->bad_count, sizeof(*load->bad), by_value);
}

void rdt_config_tree_done(struct rdt_config_load *load)
{
	if (load->bad_count)
		qsort(load->bad, load->bad_count, sizeof(*load->bad), by_value);
	load->tree_done = true;
}

static void note_bad(struct rdt_config_load *load, const struct rdt_key *key)
{
	/* Grown by doubling: the array is full when the count is a power of two. */
	if ((load->bad_count & (load->bad_count - 1)) == 0) {
		size_t room = load->bad_count ? 2 * (size_t)load->bad_count : 1;
		uint64_t *bad = realloc(load->bad, room * sizeof(*bad));

		if (!bad)
			return; /* without memory, the same place may be reported twice */
		load->bad = bad;
	}
	load->bad[load->bad_count++] = place_hash(key);
}

/* Removes what follows the prefix of a key for DH-HMAC-CHAP: a key may be given in the place of a
 * name or a value, and the log is read by people who must not know it. */
static void remove_secrets(char *text)
{
	while ((text = strstr(text, NVMF_AUTH_KEY_PREFIX))) {
		char *end = text += strlen(NVMF_AUTH_KEY_PREFIX);

		while (isalnum((unsigned char)*end) || (*end && strchr("+/=:", *end)))
			end++;
		memmove(text, end, strlen(end) + 1);
	}
}

static void say_at_key(struct rdt_config_load *load, enum rd_log_level level,
		       const struct rdt_key *key, const char *text)
{
	const char *path = key->file ? key->file->path : load->path;
	char said[RDT_KEY_TEXT + PROBLEM_TEXT];

	snprintf(said, sizeof(said), "%s%s%s", key->text, key->text[0] ? ": " : "", text);
	remove_secrets(said);
	rd_log(load->log, RD_LOG_CONFIG, level, "%s:%lu: %s", path, key->line, said);
}

void rdt_config_problem(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...)
{
	char text[PROBLEM_TEXT];
	va_list ap;

	if (load->tree_done && rdt_config_is_bad(load, key))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	load->problems++;
	say_at_key(load, RD_LOG_ERROR, key, text);
	if (!load->tree_done)
		note_bad(load, key);
}

void rdt_config_warning(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...)
{
	char text[PROBLEM_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say_at_key(load, RD_LOG_WARN, key, text);
}

/* ---- walking ---- */

yaml_node_t *rdt_config_node(const struct rdt_config_file *file, int index)
{
	return yaml_document_get_node((yaml_document_t *)&file->doc, index);
}

static void set_position(struct rdt_key *key, yaml_node_t *node)
{
	key->node = node;
	if (node)
		key->line = node->start_mark.line + 1;
}

/* Faster than snprintf(): a large file calls this a million times. */
static void append_key_text(struct rdt_key *key, const char *text, size_t len)
{
	if (key->len + len >= sizeof(key->text)) {
		memcpy(key->text + sizeof(key->text) - 4, "...", 4);
		key->len = sizeof(key->text) - 1;
		return;
	}
	memcpy(key->text + key->len, text, len);
	key->len += (unsigned int)len;
	key->text[key->len] = '\0';
}

static void append_index(struct rdt_key *key, unsigned int index)
{
	char digits[16];
	size_t at = sizeof(digits);

	digits[--at] = ']';
	do
		digits[--at] = (char)('0' + index % 10);
	while (index /= 10);
	digits[--at] = '[';
	append_key_text(key, digits + at, sizeof(digits) - at);
}

/* A place below @parent, without a node yet. */
static struct rdt_key key_below(const struct rdt_key *parent)
{
	struct rdt_key key;

	key.file = parent->file;
	key.list = NULL;
	key.node = NULL;
	key.line = parent->line;
	key.root = false;
	key.len = parent->len;
	memcpy(key.text, parent->text, parent->len + 1);
	return key;
}

struct rdt_key rdt_config_named(const struct rdt_key *parent, const char *name)
{
	struct rdt_key key = key_below(parent);

	if (key.len)
		append_key_text(&key, ".", 1);
	append_key_text(&key, name, strlen(name));
	return key;
}

struct rdt_key rdt_config_root_of(const struct rdt_config_file *file)
{
	struct rdt_key key = {.file = file, .line = 1, .root = true};

	set_position(&key, yaml_document_get_root_node((yaml_document_t *)&file->doc));
	return key;
}

struct rdt_key rdt_config_root(struct rdt_config_load *load)
{
	return rdt_config_root_of(load->files[0]);
}

struct rdt_config_list *rdt_config_list(struct rdt_config_load *load, const char *name)
{
	static const char *const names[RDT_CONFIG_LISTS] = {"listeners", "subsystems", "referrals"};

	for (unsigned int i = 0; i < RDT_CONFIG_LISTS; i++)
		if (strcmp(names[i], name) == 0)
			return &load->lists[i];
	return NULL;
}

const yaml_node_pair_t *rdt_config_pair(const struct rdt_config_file *file, const yaml_node_t *map,
					const char *name)
{
	if (!map || map->type != YAML_MAPPING_NODE)
		return NULL;
	for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = rdt_config_node(file, p->key);

		if (k->type == YAML_SCALAR_NODE &&
		    strcmp((const char *)k->data.scalar.value, name) == 0)
			return p;
	}
	return NULL;
}

struct rdt_key rdt_config_child(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name)
{
	const yaml_node_pair_t *pair = rdt_config_pair(parent->file, parent->node, name);
	struct rdt_key key = rdt_config_named(parent, name);

	if (parent->root)
		key.list = rdt_config_list(load, name);
	if (pair) {
		set_position(&key, rdt_config_node(parent->file, pair->value));
		/* libyaml's mark of an empty value is the next token, which may be lines below. */
		key.line = rdt_config_node(parent->file, pair->key)->start_mark.line + 1;
	}
	return key;
}

struct rdt_key rdt_config_item(struct rdt_config_load *load, const struct rdt_key *parent,
			       unsigned int index)
{
	struct rdt_key key = key_below(parent);
	yaml_node_item_t *start;

	(void)load;
	if (parent->list && index < parent->list->count) {
		const struct rdt_config_place *at = &parent->list->at[index];

		append_index(&key, at->index);
		key.file = at->file;
		set_position(&key, at->node);
		return key;
	}
	append_index(&key, index);
	if (!parent->node || parent->node->type != YAML_SEQUENCE_NODE)
		return key;
	start = parent->node->data.sequence.items.start;
	if (index < parent->node->data.sequence.items.top - start)
		set_position(&key, rdt_config_node(parent->file, start[index]));
	return key;
}

/* ---- parsing ---- */

static int add_file(struct rdt_config_load *load, const char *path, struct rdt_config_file **out)
{
	struct rdt_config_file **files;
	struct rdt_config_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	files = realloc(load->files, (load->files_count + 1) * sizeof(struct rdt_config_file *));
	if (files)
		load->files = files;
	file->path = strdup(path);
	if (!files || !file->path) {
		free(file->path);
		free(file);
		return -ENOMEM;
	}
	load->files[load->files_count++] = file;
	*out = file;
	return 0;
}

int rdt_config_doc_open(struct rdt_config_load *load, const char *path, const char *text,
			size_t len, struct rdt_config_file **out)
{
	struct rdt_config_file *file;
	yaml_parser_t parser;
	int rc = add_file(load, path, &file);

	if (rc)
		return rc;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &file->doc)) {
		struct rdt_key key = {.file = file, .line = parser.problem_mark.line + 1};

		rc = parser.error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL;
		if (rc == -EINVAL)
			rdt_config_problem(load, &key, "not YAML: %s%s%s",
					   parser.problem ? parser.problem : "unreadable",
					   parser.context ? " " : "",
					   parser.context ? parser.context : "");
		yaml_parser_delete(&parser);
		return rc;
	}
	yaml_parser_delete(&parser);
	file->doc_ok = true;
	file->seen = calloc((size_t)(file->doc.nodes.top - file->doc.nodes.start) + 1, 1);
	if (!file->seen)
		return -ENOMEM;
	*out = file;
	return 0;
}

void rdt_config_doc_close_all(struct rdt_config_load *load)
{
	for (unsigned int i = 0; i < load->files_count; i++) {
		struct rdt_config_file *file = load->files[i];

		if (file->doc_ok)
			yaml_document_delete(&file->doc);
		free(file->seen);
		free(file->path);
		free(file);
	}
	for (unsigned int i = 0; i < RDT_CONFIG_LISTS; i++)
		free(load->lists[i].at);
	free(load->files);
	free(load->bad);
}
