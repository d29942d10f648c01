/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration files as YAML trees with line numbers: parsing, walking, and reporting problems. */
#include "config_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvmf/auth_key.h"

#define PROBLEM_TEXT 512

/* ---- problems ---- */

struct rdt_config_message {
	enum rd_log_level level;
	const struct rdt_config_file *file; /* NULL: the top file, which has not been read */
	unsigned long line;
	unsigned int number; /* in the order in which they were found */
	unsigned int place;  /* length of the place in @text */
	char text[];
};

bool rdt_config_full(const struct rdt_config_load *load)
{
	return load->problems >= RDT_CONFIG_PROBLEMS_MAX;
}

#define LATE_EVERY 64u /* calls */

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool rdt_config_late(struct rdt_config_load *load)
{
	if (!load->until)
		load->until = monotonic_ns() + RDT_CONFIG_LOAD_S * UINT64_C(1000000000);
	if (!load->late && load->time_checks++ % LATE_EVERY == 0)
		load->late = monotonic_ns() > load->until;
	return load->late;
}

/* Whether there is a problem at the place. @below: or below it. */
static bool is_bad(const struct rdt_config_load *load, const struct rdt_key *key, bool below)
{
	for (unsigned int i = 0; load->problems && i < load->messages_count; i++) {
		const struct rdt_config_message *m = load->messages[i];

		if (m->level == RD_LOG_ERROR && m->file == key->file && m->place >= key->len &&
		    strncmp(m->text, key->text, key->len) == 0 &&
		    (m->place == key->len || (below && strchr(".[", m->text[key->len]))))
			return true;
	}
	return false;
}

bool rdt_config_good(const struct rdt_config_load *load, const struct rdt_key *key)
{
	return !is_bad(load, key, true);
}

/* Removes the text after the prefix of a key: a key may be written in place of a name or a value,
 * and readers of the log must not know it. */
static void remove_secrets(char *text, const char *prefix)
{
	while ((text = strstr(text, prefix))) {
		char *end = text += strlen(prefix);

		while (isalnum((unsigned char)*end) || (*end && strchr("+/=:", *end)))
			end++;
		memmove(text, end, strlen(end) + 1);
	}
}

static void __attribute__((format(printf, 4, 0)))
keep_message(struct rdt_config_load *load, enum rd_log_level level, const struct rdt_key *key,
	     const char *fmt, va_list ap)
{
	char text[RDT_PLACE_TEXT + PROBLEM_TEXT];
	struct rdt_config_message **all, *m;
	int place = snprintf(text, sizeof(text), "%s%s", key->text, key->len ? ": " : "");

	vsnprintf(text + place, sizeof(text) - (size_t)place, fmt, ap);
	m = malloc(sizeof(*m) + strlen(text) + 1);
	all = realloc(load->messages, (load->messages_count + 1) * sizeof(m));
	if (all)
		load->messages = all;
	if (!all || !m) {
		load->out_of_memory = true;
		free(m);
		return;
	}
	*m = (struct rdt_config_message){level, key->file, key->line, load->messages_count,
					 key->len};
	memcpy(m->text, text, strlen(text) + 1);
	all[load->messages_count++] = m;
}

void rdt_config_problem(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...)
{
	va_list ap;

	if (rdt_config_full(load) || (load->tree_done && is_bad(load, key, false)))
		return;
	load->problems++;
	va_start(ap, fmt);
	keep_message(load, RD_LOG_ERROR, key, fmt, ap);
	va_end(ap);
}

/* Whether @text is a warning that was not logged before. */
static bool note_warning(struct rdt_config_load *load, const char *text)
{
	struct rdt_config *config = load->config;
	char **all = realloc(config->warnings, (config->warnings_count + 1) * sizeof(*all));
	char *copy = strdup(text);

	if (all)
		config->warnings = all;
	if (all && copy)
		all[config->warnings_count++] = copy;
	else
		free(copy);
	return !load->known || !rdt_config_listed((const char *const *)load->known->warnings,
						  load->known->warnings_count, text);
}

static void __attribute__((format(printf, 3, 4)))
tell_warning(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	keep_message(load, RD_LOG_WARN, key, fmt, ap);
	va_end(ap);
}

void rdt_config_warning(struct rdt_config_load *load, const struct rdt_key *key, const char *fmt,
			...)
{
	char text[PROBLEM_TEXT];
	va_list ap;

	if (++load->warnings > RDT_CONFIG_PROBLEMS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (note_warning(load, text))
		tell_warning(load, key, "%s", text);
}

static int by_line(const void *a, const void *b)
{
	const struct rdt_config_message *x = *(struct rdt_config_message *const *)a;
	const struct rdt_config_message *y = *(struct rdt_config_message *const *)b;
	unsigned int xf = x->file ? x->file->index : 0, yf = y->file ? y->file->index : 0;

	return xf != yf             ? (xf > yf) - (xf < yf)
	       : x->line != y->line ? (x->line > y->line) - (x->line < y->line)
				    : (x->number > y->number) - (x->number < y->number);
}

/* Logs all messages, file by file in the order of lines. */
static void log_messages(struct rdt_config_load *load)
{
	if (load->messages_count)
		qsort(load->messages, load->messages_count, sizeof(struct rdt_config_message *),
		      by_line);
	for (unsigned int i = 0; i < load->messages_count; i++) {
		struct rdt_config_message *m = load->messages[i];

		remove_secrets(m->text, NVMF_AUTH_KEY_PREFIX);
		remove_secrets(m->text, NVMF_TLS_KEY_PREFIX);
		if (m->file && m->file->edited)
			rd_log(load->log, RD_LOG_CONFIG, m->level, "%s: %s", m->file->path,
			       m->text);
		else
			rd_log(load->log, RD_LOG_CONFIG, m->level, "%s:%lu: %s",
			       m->file ? m->file->path : load->path, m->line, m->text);
		free(m);
	}
	if (rdt_config_full(load))
		rd_warn(load->log, RD_LOG_CONFIG,
			"%s: there may be more problems; these are the first %u that were found",
			load->path, RDT_CONFIG_PROBLEMS_MAX);
	if (load->warnings > RDT_CONFIG_PROBLEMS_MAX)
		rd_warn(load->log, RD_LOG_CONFIG, "%s: %u more warnings were left out", load->path,
			load->warnings - RDT_CONFIG_PROBLEMS_MAX);
	free(load->messages);
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

struct rdt_key rdt_config_at_pair(struct rdt_config_load *load, const struct rdt_key *parent,
				  const yaml_node_pair_t *pair)
{
	const yaml_node_t *name = rdt_config_node(parent->file, pair->key);
	const char *text =
		name->type == YAML_SCALAR_NODE ? (const char *)name->data.scalar.value : "?";
	struct rdt_key key = rdt_config_named(parent, text);

	if (parent->root)
		key.list = rdt_config_list(load, text);
	key.node = rdt_config_node(parent->file, pair->value);
	/* libyaml's mark of an empty value is the next token, which may be lines below. */
	key.line = name->start_mark.line + 1;
	return key;
}

struct rdt_key rdt_config_child(struct rdt_config_load *load, const struct rdt_key *parent,
				const char *name)
{
	const yaml_node_pair_t *pair = rdt_config_pair(parent->file, parent->node, name);
	struct rdt_key key;

	if (pair)
		return rdt_config_at_pair(load, parent, pair);
	key = rdt_config_named(parent, name);
	if (parent->root)
		key.list = rdt_config_list(load, name);
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

/* The place with the name @text; if the files do not have it, with the line of its parent. */
static struct rdt_key key_of_place(struct rdt_config_load *load, const char *text)
{
	struct rdt_key key = rdt_config_root(load);
	char name[64];
	size_t len;

	while (*text) {
		if (*text == '[') {
			key = rdt_config_item(load, &key,
					      (unsigned int)strtoul(text + 1, NULL, 10));
			text += strcspn(text, "]");
			text += *text == ']';
			continue;
		}
		text += *text == '.';
		len = strcspn(text, ".[");
		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		key = rdt_config_child(load, &key, name);
		text += len;
	}
	return key;
}

void rdt_config_report_at(struct rdt_config_load *load, enum rd_log_level level, const char *place,
			  const char *fmt, ...)
{
	struct rdt_key key = key_of_place(load, place);
	char text[PROBLEM_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (level == RD_LOG_ERROR)
		rdt_config_problem(load, &key, "%s", text);
	else
		rdt_config_warning(load, &key, "%s", text);
}

/* ---- parsing ---- */

static bool was_edited(const struct rdt_config_load *load, const char *path)
{
	for (unsigned int i = 0; load->edited && i < load->texts->count; i++)
		if (strcmp(load->texts->files[i].path, path) == 0)
			return load->texts->files[i].on_disk != NULL;
	return false;
}

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
	file->index = load->files_count;
	file->edited = was_edited(load, path);
	if (!files || !file->path) {
		free(file->path);
		free(file);
		return -ENOMEM;
	}
	load->files[load->files_count++] = file;
	*out = file;
	return 0;
}

/* Maximum depth, so that a broken or hostile file is rejected soon: libyaml's time grows with the
 * square of the depth. Configurations need much less. */
#define DEPTH_MAX 32u
#define NODES_MAX (2u << 20)

bool rdt_config_is_alias(const yaml_node_t *node)
{
	return node->tag[0] == '!';
}

/* The tree of one file, made from libyaml's events. */
struct builder {
	struct rdt_config_load *load;
	struct rdt_config_file *file;
	unsigned int depth;
	struct {
		int node;
		int key; /* a key of a mapping that has no value yet; 0: none */
	} open[DEPTH_MAX];
};

static int refuse_text(struct builder *b, const yaml_mark_t *mark, const char *why)
{
	struct rdt_key key = {.file = b->file, .line = mark->line + 1};

	rdt_config_problem(b->load, &key, "%s", why);
	return -EINVAL;
}

/* Returns the number of a new node, or 0 without memory. */
static int new_node(yaml_document_t *doc, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SEQUENCE_START_EVENT:
		return yaml_document_add_sequence(doc, NULL, e->data.sequence_start.style);
	case YAML_MAPPING_START_EVENT:
		return yaml_document_add_mapping(doc, NULL, e->data.mapping_start.style);
	case YAML_ALIAS_EVENT:
		return yaml_document_add_scalar(doc, (const yaml_char_t *)"!", e->data.alias.anchor,
						-1, YAML_PLAIN_SCALAR_STYLE);
	default:
		return yaml_document_add_scalar(doc, NULL, e->data.scalar.value,
						(int)e->data.scalar.length, e->data.scalar.style);
	}
}

static int add_node(struct builder *b, const yaml_event_t *e)
{
	yaml_document_t *doc = &b->file->doc;
	yaml_node_t *node, *parent;
	int n, ok = 1;

	if (++b->load->nodes > NODES_MAX)
		return refuse_text(b, &e->start_mark,
				   "the configuration has more values than the 2 million that are "
				   "allowed; remove some from here on");
	n = new_node(doc, e);
	if (!n)
		return -ENOMEM;
	node = yaml_document_get_node(doc, n);
	node->start_mark = e->start_mark;
	node->end_mark = e->end_mark;
	if (b->depth) {
		parent = yaml_document_get_node(doc, b->open[b->depth - 1].node);
		if (parent->type == YAML_SEQUENCE_NODE) {
			ok = yaml_document_append_sequence_item(doc, b->open[b->depth - 1].node, n);
		} else if (!b->open[b->depth - 1].key) {
			b->open[b->depth - 1].key = n;
		} else {
			ok = yaml_document_append_mapping_pair(doc, b->open[b->depth - 1].node,
							       b->open[b->depth - 1].key, n);
			b->open[b->depth - 1].key = 0;
		}
	}
	if (ok && node->type != YAML_SCALAR_NODE) {
		if (b->depth == DEPTH_MAX)
			return refuse_text(
				b, &e->start_mark,
				"values are nested more than 32 levels deep, which no key needs");
		b->open[b->depth].node = n;
		b->open[b->depth++].key = 0;
	}
	return ok ? 0 : -ENOMEM;
}

static int add_event(struct builder *b, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		b->depth--;
		yaml_document_get_node(&b->file->doc, b->open[b->depth].node)->end_mark =
			e->end_mark;
		return 0;
	case YAML_DOCUMENT_START_EVENT:
		if (yaml_document_get_root_node(&b->file->doc))
			return refuse_text(
				b, &e->start_mark,
				"a second YAML document begins here, expected one; remove "
				"\"---\", or put it into a file of its own");
		return 0;
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
	case YAML_SCALAR_EVENT:
	case YAML_ALIAS_EVENT:
		return add_node(b, e);
	default:
		return 0;
	}
}

static int not_yaml(struct builder *b, const yaml_parser_t *parser)
{
	char why[256];

	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	snprintf(why, sizeof(why), "not YAML: %s%s%s",
		 parser->problem ? parser->problem : "unreadable", parser->context ? " " : "",
		 parser->context ? parser->context : "");
	return refuse_text(b, &parser->problem_mark, why);
}

int rdt_config_doc_open(struct rdt_config_load *load, const char *path, const char *text,
			size_t len, struct rdt_config_file **out)
{
	struct builder b = {.load = load};
	yaml_parser_t parser;
	int rc = add_file(load, path, &b.file);
	bool end = false;

	if (rc)
		return rc;
	if (!yaml_document_initialize(&b.file->doc, NULL, NULL, NULL, 1, 1))
		return -ENOMEM;
	b.file->doc_ok = true;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (!rc && !end) {
		yaml_event_t e;

		if (!yaml_parser_parse(&parser, &e)) {
			rc = not_yaml(&b, &parser);
			break;
		}
		rc = rdt_config_late(load) ? -ETIMEDOUT : add_event(&b, &e);
		end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&parser);
	if (!rc)
		*out = b.file;
	return rc;
}

void rdt_config_doc_close_all(struct rdt_config_load *load)
{
	log_messages(load);
	for (unsigned int i = 0; i < load->files_count; i++) {
		struct rdt_config_file *file = load->files[i];

		if (file->doc_ok)
			yaml_document_delete(&file->doc);
		free(file->path);
		free(file);
	}
	for (unsigned int i = 0; i < RDT_CONFIG_LISTS; i++)
		free(load->lists[i].at);
	free(load->files);
}
