/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#include "config_priv.h"
#include "config_text.h"
#include "keys.h"

/* ---- values, which are compared as the text in YAML ---- */

/* Returns @buf, or the text of @value itself. */
static const char *value_text(const json_t *value, char *buf, size_t size)
{
	size_t len;

	if (json_is_string(value))
		return json_string_value(value);
	len = json_dumpb(value, buf, size, JSON_ENCODE_ANY);
	buf[len < size ? len : 0] = '\0';
	return buf;
}

/* Copies @value with numbers and booleans as text, as in a tree. */
static json_t *value_as_text(const json_t *value)
{
	json_t *copy, *part;
	const char *key;
	char buf[32];
	size_t i;

	if (json_is_object(value)) {
		copy = json_object();
		json_object_foreach((json_t *)value, key, part)
			json_object_set_new(copy, key, value_as_text(part));
	} else if (json_is_array(value)) {
		copy = json_array();
		json_array_foreach(value, i, part) json_array_append_new(copy, value_as_text(part));
	} else {
		copy = json_string(value_text(value, buf, sizeof(buf)));
	}
	return copy;
}

/* The tree below @node. */
static json_t *tree_as_text(const struct rdt_config_file *file, const yaml_node_t *node)
{
	json_t *all;

	if (!node)
		return json_object();
	if (node->type == YAML_SCALAR_NODE)
		return json_stringn((const char *)node->data.scalar.value,
				    node->data.scalar.length);
	if (node->type == YAML_SEQUENCE_NODE) {
		all = json_array();
		for (const yaml_node_item_t *i = node->data.sequence.items.start;
		     i < node->data.sequence.items.top; i++)
			json_array_append_new(all, tree_as_text(file, rdt_config_node(file, *i)));
		return all;
	}
	all = json_object();
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = rdt_config_node(file, p->key);

		if (key->type == YAML_SCALAR_NODE)
			json_object_set_new(all, (const char *)key->data.scalar.value,
					    tree_as_text(file, rdt_config_node(file, p->value)));
	}
	return all;
}

/* Whether @found, a part of a tree as text, contains all values of @wanted. */
static bool has_values(const json_t *found, const json_t *wanted)
{
	const char *key;
	json_t *part, *text;
	bool same;

	if (!json_is_object(wanted)) {
		text = value_as_text(wanted);
		same = json_equal(found, text);
		json_decref(text);
		return same;
	}
	json_object_foreach((json_t *)wanted, key, part)
	{
		if (!has_values(json_object_get(found, key), part))
			return false;
	}
	return true;
}

/* ---- the place ---- */

struct edit_place {
	unsigned int file;
	const yaml_node_t *parent; /* of @node; NULL: the root is @node */
	const yaml_node_t *node;
	unsigned int index; /* of @node in a sequence */
	json_t *steps;      /* keys and numbers that lead to @node */
};

static const yaml_node_t *child_node(const struct rdt_config_file *file, const yaml_node_t *map,
				     const char *key)
{
	const yaml_node_pair_t *pair = rdt_config_pair(file, map, key);

	return pair ? rdt_config_node(file, pair->value) : NULL;
}

static bool node_is(const yaml_node_t *node, const char *text)
{
	return node && node->type == YAML_SCALAR_NODE &&
	       strcmp((const char *)node->data.scalar.value, text) == 0;
}

uint16_t rdt_config_default_port(void)
{
	const struct rdt_row *row = rdt_row_find(&rdt_listener_section, "port");
	uint64_t port = 0;

	rdt_row_parse(row, row->def, &port);
	return (uint16_t)port;
}

/* Whether @node is the element that @step describes. */
static bool is_element(const struct rdt_config_file *file, const yaml_node_t *node,
		       const json_t *step)
{
	const char *key;
	char buf[32];
	json_t *value;

	if (json_is_string(step))
		return node_is(node, json_string_value(step));
	json_object_foreach((json_t *)step, key, value)
	{
		const yaml_node_t *child = child_node(file, node, key);

		if (!child && strcmp(key, "port") == 0 &&
		    json_integer_value(value) == rdt_config_default_port())
			continue;
		if (!node_is(child, value_text(value, buf, sizeof(buf))))
			return false;
	}
	return true;
}

static const yaml_node_t *find_element(const struct rdt_config_file *file, const yaml_node_t *seq,
				       const json_t *step, unsigned int *index)
{
	if (seq->type != YAML_SEQUENCE_NODE)
		return NULL;
	*index = 0;
	for (const yaml_node_item_t *i = seq->data.sequence.items.start;
	     i < seq->data.sequence.items.top; i++, (*index)++) {
		const yaml_node_t *node = rdt_config_node(file, *i);

		if (is_element(file, node, step))
			return node;
	}
	return NULL;
}

/* Follows @path in one file. Returns how many steps exist; @place is the last one of them. */
static unsigned int follow(const struct rdt_config_load *load, unsigned int n, const json_t *path,
			   unsigned int count, struct edit_place *place)
{
	const struct rdt_config_file *file = load->files[n];
	unsigned int i;

	json_array_clear(place->steps);
	place->file = n;
	place->parent = NULL;
	place->node = yaml_document_get_root_node((yaml_document_t *)&file->doc);
	for (i = 0; i < count; i++) {
		const json_t *step = json_array_get(path, i);
		const yaml_node_t *next =
			i % 2 == 0 ? child_node(file, place->node, json_string_value(step))
				   : find_element(file, place->node, step, &place->index);

		if (!next)
			break;
		json_array_append_new(place->steps, i % 2 == 0 ? json_incref((json_t *)step)
							       : json_integer(place->index));
		place->parent = place->node;
		place->node = next;
	}
	return i;
}

/* The same in all files, because any of them may have elements of the top-level lists. */
static unsigned int follow_all(const struct rdt_config_load *load, const json_t *path,
			       unsigned int count, struct edit_place *place)
{
	unsigned int most = 0;

	for (unsigned int n = 0; n < load->files_count; n++) {
		unsigned int got = follow(load, n, path, count, place);

		if (got == count || got > 1)
			return got;
		most = got > most ? got : most;
	}
	return most;
}

/* ---- the change ---- */

struct edit_work {
	const struct rdt_config_edit *edit;
	struct rdt_config_load *load;
	struct rdt_yaml_text y;
	struct edit_place place;
	json_t *expected; /* the changed file, as text */
	char *out;
	size_t out_len;
};

static json_t *expected_at(const struct edit_work *w, size_t steps)
{
	json_t *at = w->expected;

	for (size_t i = 0; i < steps; i++) {
		const json_t *step = json_array_get(w->place.steps, i);

		at = json_is_string(step) ? json_object_get(at, json_string_value(step))
					  : json_array_get(at, (size_t)json_integer_value(step));
	}
	return at;
}

/* Selects the file of the place. The caller changes @expected to what the result should be. */
static void edit_file(struct edit_work *w, const struct rdt_config_texts *texts)
{
	const struct rdt_config_file *file = w->load->files[w->place.file];
	const struct rdt_config_text *t = &texts->files[w->place.file];

	w->y = (struct rdt_yaml_text){.text = t->text, .len = t->len, .file = file};
	w->expected =
		tree_as_text(file, yaml_document_get_root_node((yaml_document_t *)&file->doc));
}

static int set_key(struct edit_work *w, const yaml_node_t *map, const char *key,
		   const json_t *value)
{
	json_object_set_new(expected_at(w, json_array_size(w->place.steps)), key,
			    value_as_text(value));
	return rdt_yaml_set(&w->y, map, key, value, &w->out, &w->out_len);
}

static int unset_key(struct edit_work *w, const yaml_node_t *map, const char *key)
{
	json_object_del(expected_at(w, json_array_size(w->place.steps)), key);
	return rdt_yaml_unset(&w->y, map, key, &w->out, &w->out_len);
}

/* Returns 1 if there is a new text, 0 if there is nothing to do, or -errno. */
static int edit_set(struct edit_work *w, const struct rdt_config_texts *texts, unsigned int *at)
{
	const json_t *path = w->edit->path, *value = w->edit->value;
	unsigned int count = (unsigned int)json_array_size(path);
	const char *key = json_string_value(json_array_get(path, count - 1));
	const yaml_node_t *old;
	int rc;

	*at = follow_all(w->load, path, count - 1, &w->place);
	if (*at < count - 1)
		return -ENOENT;
	edit_file(w, texts);
	old = child_node(w->y.file, w->place.node, key);
	if (json_is_null(value)) {
		rc = old ? unset_key(w, w->place.node, key) : 1;
	} else {
		json_t *now = old ? tree_as_text(w->y.file, old) : NULL;
		json_t *wanted = value_as_text(value);
		bool same = now && json_equal(now, wanted);

		json_decref(now);
		json_decref(wanted);
		rc = same ? 1 : set_key(w, w->place.node, key, value);
	}
	return rc == 1 ? 0 : rc ? rc : 1;
}

static int edit_add(struct edit_work *w, const struct rdt_config_texts *texts, unsigned int *at)
{
	const json_t *path = w->edit->path, *value = w->edit->value;
	unsigned int count = (unsigned int)json_array_size(path);
	const char *key = json_string_value(json_array_get(path, count - 2));
	const yaml_node_t *seq;
	json_t *list;
	int rc;

	*at = follow_all(w->load, path, count, &w->place);
	if (*at == count) {
		json_t *now = tree_as_text(w->load->files[w->place.file], w->place.node);
		bool same = has_values(now, value);

		json_decref(now);
		return same ? 0 : -EEXIST;
	}
	/* New elements of top-level lists go to the top file. */
	*at = count == 2 ? follow(w->load, 0, path, 0, &w->place)
			 : follow_all(w->load, path, count - 2, &w->place);
	if (*at < count - 2)
		return -ENOENT;
	edit_file(w, texts);
	seq = child_node(w->y.file, w->place.node, key);
	if (seq) {
		json_array_append_new(
			json_object_get(expected_at(w, json_array_size(w->place.steps)), key),
			value_as_text(value));
		rc = rdt_yaml_append(&w->y, seq, value, &w->out, &w->out_len);
	} else {
		list = json_pack("[O]", value);
		rc = list && w->place.node ? set_key(w, w->place.node, key, list) : -ENOTSUP;
		json_decref(list);
	}
	return rc ? rc : 1;
}

static int edit_remove(struct edit_work *w, const struct rdt_config_texts *texts, unsigned int *at)
{
	const json_t *path = w->edit->path;
	unsigned int count = (unsigned int)json_array_size(path);
	const char *key = json_string_value(json_array_get(path, count - 2));
	const yaml_node_t *seq;
	unsigned int index;
	int rc;

	*at = follow_all(w->load, path, count, &w->place);
	if (*at < count)
		return *at < count - 2 ? -ENOENT : 0;
	edit_file(w, texts);
	seq = w->place.parent;
	index = w->place.index;
	if (seq->data.sequence.items.top - seq->data.sequence.items.start > 1) {
		json_array_remove(expected_at(w, count - 1), index);
		rc = rdt_yaml_remove(&w->y, seq, index, &w->out, &w->out_len);
	} else {
		follow(w->load, w->place.file, path, count - 2, &w->place);
		rc = unset_key(w, w->place.node, key);
	}
	return rc ? rc : 1;
}

/* Checks that the new text differs from the old one only by this change. */
static bool edit_is_right(struct edit_work *w, struct rd_log *log)
{
	struct rdt_config_load load = {.path = "", .log = log};
	struct rdt_config_file *file = NULL;
	json_t *got = NULL;
	bool right = false;

	if (!rdt_config_doc_open(&load, "", w->out, w->out_len, &file)) {
		got = tree_as_text(file, yaml_document_get_root_node(&file->doc));
		right = json_equal(got, w->expected);
	}
	json_decref(got);
	rdt_config_doc_close_all(&load);
	return right;
}

static int run_edit(struct edit_work *w, struct rdt_config_texts *texts, struct rd_log *log,
		    unsigned int *at)
{
	struct rdt_config_text *t;
	int rc;

	switch (w->edit->op) {
	case RDT_EDIT_ADD:
		rc = edit_add(w, texts, at);
		break;
	case RDT_EDIT_REMOVE:
		rc = edit_remove(w, texts, at);
		break;
	default:
		rc = edit_set(w, texts, at);
		break;
	}
	if (rc != 1)
		return rc;
	if (!edit_is_right(w, log))
		return -ENOTSUP;
	t = &texts->files[w->place.file];
	if (t->on_disk) {
		free(t->text);
	} else {
		t->on_disk = t->text;
		t->on_disk_len = t->len;
	}
	t->text = w->out;
	t->len = w->out_len;
	w->out = NULL;
	return 1;
}

int rdt_config_edit(struct rdt_config_texts *texts, const struct rdt_config_edit *edit,
		    struct rd_log *log, unsigned int *at)
{
	struct rdt_config_load load = {.path = texts->files[0].path, .log = log};
	struct edit_work w = {.edit = edit, .load = &load, .place.steps = json_array()};
	int rc = w.place.steps ? 0 : -ENOMEM;

	*at = 0;
	for (unsigned int i = 0; i < texts->count && !rc; i++) {
		const struct rdt_config_text *t = &texts->files[i];
		struct rdt_config_file *file;

		rc = rdt_config_doc_open(&load, t->path, t->text, t->len, &file);
	}
	if (!rc)
		rc = run_edit(&w, texts, log, at);
	free(w.out);
	json_decref(w.expected);
	json_decref(w.place.steps);
	rdt_config_doc_close_all(&load);
	return rc;
}

/* Earlier versions let every host use a subsystem with neither "allow_any_host" nor "hosts". */
static int admit_any_host(struct rdt_config_texts *texts, const struct rdt_subsys_config *ss,
			  struct rd_log *log)
{
	struct rdt_config_edit edit = {
		.op = RDT_EDIT_SET,
		.path = json_pack("[s, {s:s}, s]", "subsystems", "nqn", ss->nqn, "allow_any_host"),
		.value = json_true(),
	};
	unsigned int at;
	int rc = edit.path ? rdt_config_edit(texts, &edit, log, &at) : -ENOMEM;

	json_decref(edit.path);
	if (rc < 0)
		rd_err(log, RD_LOG_CONFIG, "%s: %s: cannot add \"allow_any_host: true\" (%s); %s",
		       ss->hosts_unset, ss->nqn,
		       rc == -ENOTSUP ? "the file has a layout that cannot be edited safely"
				      : strerror(-rc),
		       "nothing was written; add it by hand");
	else
		rd_notice(log, RD_LOG_CONFIG, "%s: %s: added \"allow_any_host: true\"",
			  ss->hosts_unset, ss->nqn);
	return rc;
}

int rdt_config_migrate(const struct rdt_config *config, struct rdt_config_texts *texts,
		       struct rd_log *log)
{
	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &config->subsystems[i];
		int rc = ss->hosts_unset ? admit_any_host(texts, ss, log) : 0;

		if (rc < 0)
			return rc;
	}
	return rdt_config_save(texts, log);
}
