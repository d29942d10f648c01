/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills the structures from the YAML trees: validates each value by its row, and sets defaults. */
#include "config_priv.h"
#include "keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/text.h"

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

static const struct rdt_row *nearest_key(const struct rdt_section *s, const char *name)
{
	unsigned int best = (unsigned int)strlen(name) / 3 + 1;
	const struct rdt_row *found = NULL;

	for (RDT_EACH_ROW(row, s)) {
		unsigned int d = key_distance(name, row->name);

		if (best > 1 && strncmp(row->name, name, strlen(name)) == 0)
			d = 1; /* its begin */
		if (d <= best && (!found || d < best)) {
			best = d;
			found = row;
		}
	}
	return found;
}

/* Reports an unknown key. Returns the row that was probably meant, or NULL. */
static const struct rdt_row *unknown_key(struct rdt_config_load *load, const struct rdt_key *key,
					 const char *name, const struct rdt_section *s)
{
	const struct rdt_row *near = nearest_key(s, name);
	char list[400] = "";
	size_t len = 0;

	if (near) {
		rdt_config_problem(load, key, "unknown key; did you mean \"%s\"?", near->name);
		return near;
	}
	for (RDT_EACH_ROW(row, s))
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
						len ? ", " : "", row->name);
	rdt_config_problem(load, key, "unknown key; expected one of %s", list);
	return NULL;
}

/* ---- scalars ---- */

static void put_number(void *out, size_t width, uint64_t value)
{
	switch (width) {
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

static bool is_text(const struct rdt_row *row)
{
	return row->type == RDT_KEY_TEXT || row->type == RDT_KEY_NQN;
}

/* Whether the structure has the text as in the file. */
static bool has_text(const struct rdt_row *row)
{
	return is_text(row) || row->type == RDT_KEY_SIZE || row->type == RDT_KEY_DURATION;
}

static void put_value(struct rdt_config_load *load, const struct rdt_row *row, char *out,
		      const char *text, uint64_t value)
{
	if (has_text(row)) {
		char *copy = strdup(text);

		load->out_of_memory |= !copy;
		memcpy(out + row->at, &copy, sizeof(copy));
	} else {
		put_number(out + row->at, row->width, value);
	}
	if (row->number_width)
		put_number(out + row->number_at, row->number_width, value);
}

/* Returns whether the text is valid; if not, reports it. */
static bool text_is_good(struct rdt_config_load *load, const struct rdt_key *key,
			 const struct rdt_row *row, const char *text)
{
	bool nqn = row->type == RDT_KEY_NQN;
	const char *wrong = nqn ? nvmf_nqn_unusable(text) : row->wrong ? row->wrong(text) : NULL;
	const char *odd = nqn && !wrong ? nvmf_nqn_error(text) : NULL;
	char expected[RDT_EXPECTED_TEXT];

	if (!wrong && (strlen(text) < row->min || (row->max && strlen(text) > row->max)))
		wrong = "";
	if (wrong)
		rdt_config_problem(load, key, "found \"%.80s\", %s%s%sexpected %s", text,
				   wrong[0] ? "which " : "", wrong, wrong[0] ? "; " : "",
				   rdt_row_expected(row, expected));
	else if (odd)
		rdt_config_warning(load, key,
				   "found \"%.80s\", which %s: it is used unchanged, but some "
				   "hosts accept only names such as nqn.2026-01.org.example:disk1",
				   text, odd);
	return !wrong;
}

static void fill_scalar(struct rdt_config_load *load, const struct rdt_key *key,
			const struct rdt_row *row, char *out)
{
	const char *text = scalar_text(key->node);
	char expected[RDT_EXPECTED_TEXT];
	uint64_t value = 0;
	int rc = 0;

	if (strlen(text) != key->node->data.scalar.length) {
		rdt_config_problem(load, key, "contains a NUL character");
		return;
	}
	if (!text[0]) {
		rdt_config_problem(load, key, "found nothing, expected %s",
				   rdt_row_expected(row, expected));
		return;
	}
	if (!is_text(row))
		rc = rdt_row_parse(row, text, &value);
	else if (!text_is_good(load, key, row, text))
		return;
	if (rc)
		rdt_config_problem(load, key,
				   row->type == RDT_KEY_NUMBER && rc == -ERANGE
					   ? "found %.60s, expected %s"
					   : "found \"%.60s\", expected %s",
				   text,
				   rc == -ERANGE ? rdt_row_range(row, expected)
						 : rdt_row_expected(row, expected));
	else
		put_value(load, row, out, text, value);
}

/* Required texts are never NULL, so that later checks need not test for that. */
static void fill_blank(struct rdt_config_load *load, const struct rdt_row *row, char *out)
{
	if (is_text(row) && !rdt_row_pointer(row, out))
		put_value(load, row, out, "", 0);
}

static void fill_blanks(struct rdt_config_load *load, const struct rdt_section *s, char *out)
{
	for (RDT_EACH_ROW(row, s))
		if (row->needed == RDT_ALWAYS)
			fill_blank(load, row, out);
}

/* ---- lists ---- */

static void fill_value(struct rdt_config_load *load, const struct rdt_key *key,
		       const struct rdt_row *row, char *out);

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

/* Append @count zeroed elements to the @had ones. Returns the first of them. */
static char *grow_elements(const struct rdt_row *row, char *out, uint64_t had, uint32_t count)
{
	size_t size = rdt_row_element_size(row);
	char *p = realloc((void *)rdt_row_pointer(row, out), (had + count) * size);

	if (!p)
		return NULL;
	memcpy(out + row->at, &p, sizeof(p));
	memset(p + had * size, 0, count * size);
	put_number(out + row->number_at, row->number_width, had + count);
	return p + had * size;
}

static void fill_list(struct rdt_config_load *load, const struct rdt_key *key,
		      const struct rdt_row *row, char *out)
{
	uint64_t had = rdt_row_number_again(row, out);
	uint32_t count = (uint32_t)(key->node->data.sequence.items.top -
				    key->node->data.sequence.items.start);
	struct rdt_config_list *list = (struct rdt_config_list *)key->list;
	char *p;

	if (count < row->min)
		rdt_config_problem(load, key, "is empty, expected at least %u",
				   (unsigned int)row->min);
	else if (row->max && had + count > row->max)
		rdt_config_problem(load, key, "has %u elements, expected at most %u; remove some",
				   (unsigned int)had + count, (unsigned int)row->max);
	if (row->max && had + count > row->max) /* check as many as are allowed */
		count = (uint32_t)(row->max - had);
	if (!count)
		return;
	p = grow_elements(row, out, had, count);
	if (!p || (list && note_places(list, key, count))) {
		load->out_of_memory = true;
		return;
	}
	for (unsigned int i = 0; i < count; i++) {
		struct rdt_key item = rdt_config_item(load, key, (unsigned int)had + i);
		char *element = p + i * rdt_row_element_size(row);

		if (!rdt_config_full(load) && !rdt_config_late(load))
			fill_value(load, &item, row->element, element);
		fill_blank(load, row->element, element);
	}
}

/* ---- mappings ---- */

/* Whether @key may be only in the top file, which is reported. */
static bool is_misplaced(struct rdt_config_load *load, const struct rdt_key *key)
{
	if (key->file == load->files[0] || key->list)
		return false;
	rdt_config_problem(load, key,
			   "is in a file that %s includes; expected listeners, subsystems or "
			   "referrals here, and this in %s",
			   load->path, load->path);
	return true;
}

/* The bit of the selector's value; all bits without a selector, 0 if the value is invalid. */
static uint32_t selected(const struct rdt_key *key, const struct rdt_section *s)
{
	const struct rdt_row *row = s->selector ? rdt_row_find(s, s->selector) : NULL;
	const yaml_node_pair_t *pair =
		row ? rdt_config_pair(key->file, key->node, row->name) : NULL;
	const yaml_node_t *node = pair ? rdt_config_node(key->file, pair->value) : NULL;
	const char *text = row ? row->def : NULL;
	uint64_t value;

	if (!row)
		return RDT_ALWAYS;
	if (node)
		text = node->type == YAML_SCALAR_NODE ? scalar_text(node) : NULL;
	return text && rdt_row_parse(row, text, &value) == 0 ? 1u << value : 0;
}

static void fill_defaults(struct rdt_config_load *load, const struct rdt_section *s, char *out);

static void fill_default(struct rdt_config_load *load, const struct rdt_row *row, char *out)
{
	uint64_t value = 0;

	if (row->type == RDT_KEY_MAPPING && !row->pointer && !row->only_given)
		fill_defaults(load, row->section, out + row->at);
	else if (row->def && (is_text(row) || rdt_row_parse(row, row->def, &value) == 0))
		put_value(load, row, out, row->def, value);
}

static void fill_defaults(struct rdt_config_load *load, const struct rdt_section *s, char *out)
{
	for (RDT_EACH_ROW(row, s))
		fill_default(load, row, out);
}

/* Handles a key that the mapping @key lacks. */
static void fill_missing(struct rdt_config_load *load, const struct rdt_key *key,
			 const struct rdt_row *row, uint32_t sel, char *out)
{
	char expected[RDT_EXPECTED_TEXT];

	if (row->needed == RDT_ALWAYS || row->needed & sel) {
		struct rdt_key child = rdt_config_named(key, row->name);

		rdt_config_problem(load, &child, "missing, expected %s",
				   row->expected ? row->expected : rdt_row_expected(row, expected));
	} else if (!row->with || row->with & sel) {
		fill_default(load, row, out);
	}
}

static unsigned int row_index(const struct rdt_section *s, const struct rdt_row *row)
{
	unsigned int i = 0;

	for (RDT_EACH_ROW(r, s)) {
		if (r == row)
			break;
		i++;
	}
	return i;
}

/* Notes a key that an unknown key probably stands for, so that it is not reported as missing. */
static const yaml_node_pair_t meant;

/* One pair of a mapping; @given: by row, the pairs before it. */
static void fill_pair(struct rdt_config_load *load, const struct rdt_key *key,
		      const yaml_node_pair_t *pair, const struct rdt_section *s, uint32_t sel,
		      const yaml_node_pair_t **given, char *out)
{
	const yaml_node_t *name = rdt_config_node(key->file, pair->key);
	struct rdt_key child = rdt_config_at_pair(load, key, pair);
	const struct rdt_row *row;
	const yaml_node_pair_t **first;
	char with[RDT_EXPECTED_TEXT];

	if (name->type != YAML_SCALAR_NODE || rdt_config_is_alias(name)) {
		rdt_config_problem(load, &child, "a key must be a single word");
		return;
	}
	row = rdt_row_find(s, scalar_text(name));
	if (!row) {
		row = unknown_key(load, &child, scalar_text(name), s);
		if (row && !given[row_index(s, row)])
			given[row_index(s, row)] = &meant;
		return;
	}
	first = &given[row_index(s, row)];
	if (*first && *first != &meant) {
		rdt_config_problem(load, &child, "given twice (first in line %zu); remove one",
				   rdt_config_node(key->file, (*first)->key)->start_mark.line + 1);
		return;
	}
	*first = pair;
	if (key->root && is_misplaced(load, &child))
		return;
	if (row->with && sel && !(row->with & sel))
		rdt_config_problem(load, &child, "is valid only with %s; remove it",
				   rdt_section_with(s, row->with, with));
	else
		fill_value(load, &child, row, out);
}

#define ROWS_MAX 40 /* of a section */

static void fill_mapping(struct rdt_config_load *load, const struct rdt_key *key,
			 const struct rdt_section *s, char *out)
{
	uint32_t sel = selected(key, s);
	const yaml_node_pair_t *given[ROWS_MAX] = {0}; /* by row */
	unsigned int i = 0;

	for (yaml_node_pair_t *p = key->node->data.mapping.pairs.start;
	     p < key->node->data.mapping.pairs.top && !rdt_config_full(load) &&
	     !rdt_config_late(load);
	     p++)
		fill_pair(load, key, p, s, sel, given, out);
	for (RDT_EACH_ROW(row, s))
		/* an included file lacks most keys of the top file */
		if (!given[i++] && !(key->root && key->file != load->files[0]))
			fill_missing(load, key, row, sel, out);
}

/* Allocate a mapping that is behind a pointer. */
static char *mapping_at(struct rdt_config_load *load, const struct rdt_row *row, char *out)
{
	char *p;

	if (!row->pointer)
		return out + row->at;
	p = calloc(1, row->section->size);
	load->out_of_memory |= !p;
	memcpy(out + row->at, &p, sizeof(p));
	return p;
}

/* ---- all of them ---- */

/* Whether the node is of the row's kind; if not, that was reported. */
static bool is_of_kind(struct rdt_config_load *load, const struct rdt_key *key,
		       const struct rdt_row *row)
{
	yaml_node_type_t want = row->type == RDT_KEY_MAPPING ? YAML_MAPPING_NODE
				: row->type == RDT_KEY_LIST  ? YAML_SEQUENCE_NODE
							     : YAML_SCALAR_NODE;
	const yaml_node_t *node = key->node;
	char expected[RDT_EXPECTED_TEXT], found[80] = "nothing";

	if (rdt_config_is_alias(node)) {
		rdt_config_problem(load, key,
				   "is an alias of another value; expected the value itself");
		return false;
	}
	if (node->type == want)
		return true;
	if (node->type != YAML_SCALAR_NODE)
		snprintf(found, sizeof(found), "a %s",
			 node->type == YAML_MAPPING_NODE ? "mapping" : "sequence");
	else if (node->data.scalar.length)
		snprintf(found, sizeof(found), "\"%.60s\"", scalar_text(node));
	rdt_config_problem(load, key, "found %s, expected %s", found,
			   rdt_row_expected(row, expected));
	return false;
}

static void fill_value(struct rdt_config_load *load, const struct rdt_key *key,
		       const struct rdt_row *row, char *out)
{
	bool good = is_of_kind(load, key, row);

	if (row->type == RDT_KEY_LIST && good) {
		fill_list(load, key, row, out);
	} else if (row->type == RDT_KEY_MAPPING) {
		if (good || !row->pointer)
			out = mapping_at(load, row, out);
		if (good && out)
			fill_mapping(load, key, row->section, out);
		if (out && (good || !row->pointer))
			fill_blanks(load, row->section, out);
	} else if (good) {
		fill_scalar(load, key, row, out);
	}
}

void rdt_config_fill(struct rdt_config_load *load, const struct rdt_config_file *file,
		     struct rdt_config *config)
{
	static const struct rdt_row whole = {.type = RDT_KEY_MAPPING,
					     .section = &rdt_config_section};
	struct rdt_key root = rdt_config_root_of(file);

	fill_value(load, &root, &whole, (char *)config);
}

/* ---- the end ---- */

static void free_section(const struct rdt_section *s, char *object);

static void free_list(const struct rdt_row *row, char *object)
{
	char *element = (char *)rdt_row_pointer(row, object);

	for (uint64_t i = rdt_row_number_again(row, object); i; i--) {
		if (row->element->type == RDT_KEY_MAPPING)
			free_section(row->element->section, element);
		else if (is_text(row->element))
			free((void *)rdt_row_pointer(row->element, element));
		element += rdt_row_element_size(row);
	}
}

static void free_section(const struct rdt_section *s, char *object)
{
	for (RDT_EACH_ROW(row, s)) {
		if (row->type == RDT_KEY_LIST)
			free_list(row, object);
		else if (row->type == RDT_KEY_MAPPING && !row->pointer)
			free_section(row->section, object + row->at);
		else if (row->type == RDT_KEY_MAPPING && rdt_row_pointer(row, object))
			free_section(row->section, (char *)rdt_row_pointer(row, object));
		if (row->pointer || row->type == RDT_KEY_LIST || has_text(row))
			free((void *)rdt_row_pointer(row, object));
	}
}

void rdt_config_free(struct rdt_config *config)
{
	for (uint32_t i = 0; i < config->subsystems_count; i++) {
		free(config->subsystems[i].hosts_unset);
		free(config->subsystems[i].host_auth_order);
	}
	free(config->discovery.host_auth_order);
	for (uint32_t i = 0; i < config->warnings_count; i++)
		free(config->warnings[i]);
	free(config->warnings);
	free_section(&rdt_config_section, (char *)config);
	free(config);
}
