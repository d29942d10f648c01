/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- positions ---- */

/* The byte offset of a libyaml mark, which counts characters after the byte order mark. */
static size_t byte_at(const struct rdt_yaml_text *y, const yaml_mark_t *mark)
{
	size_t at = y->len >= 3 && memcmp(y->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	for (size_t n = mark->index; n && at < y->len; n--) {
		at++;
		while (at < y->len && ((unsigned char)y->text[at] & 0xc0) == 0x80)
			at++;
	}
	return at;
}

static size_t line_begin(const struct rdt_yaml_text *y, size_t at)
{
	while (at && y->text[at - 1] != '\n')
		at--;
	return at;
}

/* The start of the line after @at; @at itself if a line starts there. */
static size_t line_after(const struct rdt_yaml_text *y, size_t at)
{
	const char *end;

	if (at && y->text[at - 1] == '\n')
		return at;
	end = memchr(y->text + at, '\n', y->len - at);
	return end ? (size_t)(end - y->text) + 1 : y->len;
}

static bool only_blanks(const struct rdt_yaml_text *y, size_t from, size_t to)
{
	while (from < to && (y->text[from] == ' ' || y->text[from] == '\t'))
		from++;
	return from == to;
}

static bool is_flow(const yaml_node_t *node)
{
	return node->type == YAML_SEQUENCE_NODE
		       ? node->data.sequence.style == YAML_FLOW_SEQUENCE_STYLE
		       : node->data.mapping.style == YAML_FLOW_MAPPING_STYLE;
}

static unsigned int seq_count(const yaml_node_t *seq)
{
	return (unsigned int)(seq->data.sequence.items.top - seq->data.sequence.items.start);
}

static unsigned int map_count(const yaml_node_t *map)
{
	return (unsigned int)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

static const yaml_node_t *seq_item(const struct rdt_yaml_text *y, const yaml_node_t *seq,
				   unsigned int i)
{
	return rdt_config_node(y->file, seq->data.sequence.items.start[i]);
}

static const yaml_node_t *map_key(const struct rdt_yaml_text *y, const yaml_node_t *map,
				  unsigned int i)
{
	return rdt_config_node(y->file, map->data.mapping.pairs.start[i].key);
}

static const yaml_node_t *map_value(const struct rdt_yaml_text *y, const yaml_node_t *map,
				    unsigned int i)
{
	return rdt_config_node(y->file, map->data.mapping.pairs.start[i].value);
}

/* The end of a node. libyaml reports that of a block collection at the next token, which may be
 * lines below, so use the end of the last leaf. */
static size_t node_end(const struct rdt_yaml_text *y, const yaml_node_t *node)
{
	while (node->type != YAML_SCALAR_NODE && !is_flow(node)) {
		unsigned int n =
			node->type == YAML_SEQUENCE_NODE ? seq_count(node) : map_count(node);

		if (!n)
			break;
		node = node->type == YAML_SEQUENCE_NODE ? seq_item(y, node, n - 1)
							: map_value(y, node, n - 1);
	}
	return byte_at(y, &node->end_mark);
}

/* Returns the index of the pair, or -1. */
static int find_pair(const struct rdt_yaml_text *y, const yaml_node_t *map, const char *key)
{
	const yaml_node_pair_t *pair = rdt_config_pair(y->file, map, key);

	return pair ? (int)(pair - map->data.mapping.pairs.start) : -1;
}

/* ---- values as YAML ---- */

/* Whether no YAML reader takes @text for a number or a keyword, and it has no indicators. */
static bool is_plain_scalar(const char *text)
{
	static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "null"};
	size_t len = strlen(text);
	char *end;

	if (!len || text[len - 1] == ':' ||
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:-") !=
		    len ||
	    strchr(".:-", text[0]))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(text, words[i]) == 0)
			return false;
	strtod(text, &end);
	return *end != '\0';
}

static void put_scalar(FILE *f, const json_t *value)
{
	if (json_is_string(value) && is_plain_scalar(json_string_value(value)))
		fputs(json_string_value(value), f);
	else
		json_dumpf(value, f, JSON_ENCODE_ANY);
}

/* Keys from clients may be any text, so they are quoted to be no YAML syntax. */
static void put_key(FILE *f, const char *key)
{
	json_t *text;

	if (is_plain_scalar(key)) {
		fputs(key, f);
		return;
	}
	text = json_string(key);
	json_dumpf(text, f, JSON_ENCODE_ANY);
	json_decref(text);
}

static void put_flow(FILE *f, const json_t *value)
{
	const char *key, *comma = "";
	json_t *part;
	size_t i;

	if (json_is_object(value)) {
		fputc('{', f);
		json_object_foreach((json_t *)value, key, part)
		{
			fputs(comma, f);
			put_key(f, key);
			fputs(": ", f);
			put_flow(f, part);
			comma = ", ";
		}
		fputc('}', f);
	} else if (json_is_array(value)) {
		fputc('[', f);
		json_array_foreach(value, i, part)
		{
			fputs(comma, f);
			put_flow(f, part);
			comma = ", ";
		}
		fputc(']', f);
	} else {
		put_scalar(f, value);
	}
}

/* Writes lines of "key: value"; the first one continues the current line. */
static void put_block(FILE *f, const json_t *object, int indent)
{
	const char *key;
	json_t *value, *element;
	bool first = true;
	size_t i;

	json_object_foreach((json_t *)object, key, value)
	{
		fprintf(f, "%*s", first ? 0 : indent, "");
		put_key(f, key);
		fputc(':', f);
		first = false;
		if (!json_is_object(json_array_get(value, 0))) {
			fputc(' ', f);
			put_flow(f, value);
			fputc('\n', f);
			continue;
		}
		fputc('\n', f);
		json_array_foreach(value, i, element)
		{
			fprintf(f, "%*s- ", indent + 2, "");
			put_block(f, element, indent + 4);
		}
	}
}

/* ---- the new text ---- */

/* A new text, made by replacing the bytes [from, to) of another one. */
struct splice {
	const struct rdt_yaml_text *y;
	FILE *f;
	size_t to;
};

static int splice_begin(struct splice *s, const struct rdt_yaml_text *y, size_t from, size_t to,
			char **out, size_t *out_len)
{
	*out = NULL;
	*s = (struct splice){.y = y, .f = open_memstream(out, out_len), .to = to};
	if (!s->f)
		return -ENOMEM;
	fwrite(y->text, 1, from, s->f);
	return 0;
}

static int splice_end(struct splice *s, char **out)
{
	bool bad;

	fwrite(s->y->text + s->to, 1, s->y->len - s->to, s->f);
	bad = ferror(s->f) != 0;
	if (!fclose(s->f) && !bad)
		return 0;
	free(*out);
	*out = NULL;
	return -ENOMEM;
}

static int cut(const struct rdt_yaml_text *y, size_t from, size_t to, char **out, size_t *out_len)
{
	struct splice s;
	int rc = splice_begin(&s, y, from, to, out, out_len);

	return rc ? rc : splice_end(&s, out);
}

/* Starts at the line after @at, adding a missing newline at the end of the text. */
static int splice_line(struct splice *s, const struct rdt_yaml_text *y, size_t at, char **out,
		       size_t *out_len)
{
	size_t next = line_after(y, at);
	int rc = splice_begin(s, y, next, next, out, out_len);

	if (!rc && next && y->text[next - 1] != '\n')
		fputc('\n', s->f);
	return rc;
}

/* Starts after @last, the last node of the flow collection @node; NULL: it is empty. */
static int splice_flow(struct splice *s, const struct rdt_yaml_text *y, const yaml_node_t *node,
		       const yaml_node_t *last, char **out, size_t *out_len)
{
	size_t at = last ? node_end(y, last) : byte_at(y, &node->start_mark) + 1;
	int rc = splice_begin(s, y, at, at, out, out_len);

	if (!rc && last)
		fputs(", ", s->f);
	return rc;
}

/* ---- sequences ---- */

int rdt_yaml_append(const struct rdt_yaml_text *y, const yaml_node_t *seq, const json_t *value,
		    char **out, size_t *out_len)
{
	unsigned int n = seq_count(seq);
	int indent = (int)seq->start_mark.column;
	struct splice s;
	int rc;

	if (is_flow(seq)) {
		rc = splice_flow(&s, y, seq, n ? seq_item(y, seq, n - 1) : NULL, out, out_len);
		if (rc)
			return rc;
		put_flow(s.f, value);
		return splice_end(&s, out);
	}
	rc = splice_line(&s, y, node_end(y, seq), out, out_len);
	if (rc)
		return rc;
	fprintf(s.f, "%*s- ", indent, "");
	if (json_object_size(value)) {
		put_block(s.f, value, indent + 2);
	} else {
		put_flow(s.f, value);
		fputc('\n', s.f);
	}
	return splice_end(&s, out);
}

/* The start of the line with the "-" of an element that starts at @at. */
static int find_dash(const struct rdt_yaml_text *y, size_t column, size_t at, size_t *line)
{
	for (*line = line_begin(y, at);; *line = line_begin(y, *line - 1)) {
		size_t dash = *line + column;

		if (dash < at && y->text[dash] == '-' && only_blanks(y, *line, dash))
			return 0;
		if (!*line)
			return -ENOTSUP;
	}
}

int rdt_yaml_remove(const struct rdt_yaml_text *y, const yaml_node_t *seq, unsigned int index,
		    char **out, size_t *out_len)
{
	const yaml_node_t *item = seq_item(y, seq, index);
	size_t from = byte_at(y, &item->start_mark), to = node_end(y, item), line;
	unsigned int n = seq_count(seq);

	if (n < 2)
		return -ENOTSUP;
	if (is_flow(seq)) {
		if (index + 1 < n)
			to = byte_at(y, &seq_item(y, seq, index + 1)->start_mark);
		else
			from = node_end(y, seq_item(y, seq, index - 1));
		return cut(y, from, to, out, out_len);
	}
	if (find_dash(y, seq->start_mark.column, from, &line))
		return -ENOTSUP;
	return cut(y, line, line_after(y, to), out, out_len);
}

/* ---- mappings ---- */

static int add_pair(const struct rdt_yaml_text *y, const yaml_node_t *map, const char *key,
		    const json_t *value, char **out, size_t *out_len)
{
	unsigned int n = map_count(map);
	int indent = (int)map->start_mark.column;
	struct splice s;
	json_t *pair;
	int rc;

	if (is_flow(map)) {
		rc = splice_flow(&s, y, map, n ? map_value(y, map, n - 1) : NULL, out, out_len);
		if (rc)
			return rc;
		put_key(s.f, key);
		fputs(": ", s.f);
		put_flow(s.f, value);
		return splice_end(&s, out);
	}
	pair = json_pack("{s:O}", key, value);
	rc = pair ? splice_line(&s, y, node_end(y, map), out, out_len) : -ENOMEM;
	if (!rc) {
		fprintf(s.f, "%*s", indent, "");
		put_block(s.f, pair, indent);
		rc = splice_end(&s, out);
	}
	json_decref(pair);
	return rc;
}

int rdt_yaml_set(const struct rdt_yaml_text *y, const yaml_node_t *map, const char *key,
		 const json_t *value, char **out, size_t *out_len)
{
	int i = find_pair(y, map, key);
	const yaml_node_t *old;
	struct splice s;
	size_t from;
	int rc;

	if (i < 0)
		return add_pair(y, map, key, value, out, out_len);
	old = map_value(y, map, (unsigned int)i);
	from = byte_at(y, &old->start_mark);
	if (old->type != YAML_SCALAR_NODE && !is_flow(old)) {
		/* The value may start at the indentation of the key, where a one-line value is not
		 * allowed: put it after the key. */
		const char *colon;

		from = byte_at(y, &map_key(y, map, (unsigned int)i)->end_mark);
		colon = memchr(y->text + from, ':', y->len - from);
		if (!colon)
			return -ENOTSUP;
		from = (size_t)(colon - y->text) + 1;
	}
	rc = splice_begin(&s, y, from, node_end(y, old), out, out_len);
	if (rc)
		return rc;
	if (y->text[from - 1] == ':')
		fputc(' ', s.f);
	put_flow(s.f, value);
	return splice_end(&s, out);
}

int rdt_yaml_unset(const struct rdt_yaml_text *y, const yaml_node_t *map, const char *key,
		   char **out, size_t *out_len)
{
	unsigned int i = (unsigned int)find_pair(y, map, key), n = map_count(map);
	size_t from = byte_at(y, &map_key(y, map, i)->start_mark);
	size_t to = node_end(y, map_value(y, map, i)), line = line_begin(y, from);

	if (is_flow(map)) {
		if (i + 1 < n)
			to = byte_at(y, &map_key(y, map, i + 1)->start_mark);
		else if (i)
			from = node_end(y, map_value(y, map, i - 1));
		return cut(y, from, to, out, out_len);
	}
	if (only_blanks(y, line, from))
		return cut(y, line, line_after(y, to), out, out_len);
	if (i + 1 == n) /* the only pair, after the "-" of a sequence */
		return -ENOTSUP;
	return cut(y, from, byte_at(y, &map_key(y, map, i + 1)->start_mark), out, out_len);
}
