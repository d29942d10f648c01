/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures of the specification, as text in nvme-cli's form, as JSON and as a JSON schema. */
#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <uuid/uuid.h>

#include "command.h"
#include "fields.h"
#include "util/parse.h"
#include "util/utf8.h"

uint64_t cli_le(const unsigned char *p, size_t len)
{
	uint64_t v = 0;

	while (len--)
		v = v << 8 | p[len];
	return v;
}

static unsigned __int128 u128_of(const unsigned char *p)
{
	return (unsigned __int128)cli_le(p + 8, 8) << 64 | cli_le(p, 8);
}

/* The text of a field that is not a number; into @buf of CLI_FIELD_TEXT bytes. */
static const char *field_text(const struct cli_field *f, const unsigned char *p, char *buf)
{
	size_t n = strnlen((const char *)p, f->len);

	switch (f->kind) {
	case KIND_STR:
		memcpy(buf, p, n);
		buf[n] = '\0';
		rd_mask_control(buf, n); /* strings of a controller are printed on a terminal */
		return buf;
	case KIND_U128:
	case KIND_U128N:
		return cli_u128_text(u128_of(p), buf);
	case KIND_UUID:
		uuid_unparse_lower(p, buf);
		return buf;
	default:
		rd_format_hex(p, f->len, buf);
		return buf;
	}
}

/* The bits of @v from @shift; @n 0: all from there. */
static uint64_t bits_of(uint64_t v, unsigned int shift, unsigned int n)
{
	v >>= shift;
	return n && n < 64 ? v & ((1ull << n) - 1) : v;
}

static uint64_t field_number(const struct cli_field *f, const unsigned char *p)
{
	return bits_of(cli_le(p, f->len), f->shift, f->bits);
}

const char *cli_word(const struct cli_words *words, uint64_t v)
{
	return v < words->n && words->text[v] ? words->text[v] : words->other;
}

const struct cli_words cli_true_false = CLI_WORDS("", "False", "True");
const struct cli_words cli_enabled = CLI_WORDS("", "Disabled", "Enabled");

void cli_zeroes_based(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%" PRIu64, v + 1);
}

void cli_kelvin(uint64_t v, const void *data, char *buf)
{
	sprintf(buf, "%d \302\260C (%u K)", (int)v - 273, (unsigned int)v);
}

static void number_text(char *buf, enum cli_field_kind kind, uint64_t v)
{
	if (kind == KIND_DEC)
		sprintf(buf, "%" PRIu64, v);
	else if (kind == KIND_OUI)
		sprintf(buf, "%06" PRIx64, v);
	else if (kind == KIND_HEX4)
		sprintf(buf, "0x%04" PRIx64, v);
	else
		sprintf(buf, kind == KIND_HEX ? "%#" PRIx64 : "%" PRIx64, v);
}

static bool has_number(const struct cli_field *f)
{
	return f->kind <= KIND_WORD;
}

static bool field_is_there(const struct cli_field *f, const void *data)
{
	const unsigned char *p = (const unsigned char *)data + f->offset;
	size_t i = 0;

	while (f->if_set && i < f->len && !p[i])
		i++;
	return (!f->if_set || i < f->len) && (!f->there || f->there(data));
}

/* What the number means; NULL: nothing else than the number. */
static const char *meaning(const struct cli_field *f, uint64_t v, const void *data, char *buf)
{
	if (f->words)
		return cli_word(f->words, v);
	if (!f->explain)
		return NULL;
	f->explain(v, data, buf);
	return buf;
}

/* The bits of @v below @above and from @from, if one is set: they are in no part. */
static void print_reserved(uint64_t v, unsigned int above, unsigned int from)
{
	if (above > from && bits_of(v, from, above - from))
		printf("  [%u:%u] : %#" PRIx64 "\tReserved\n", above - 1, from,
		       bits_of(v, from, above - from));
}

/* A part with the numbers of its bits: its value, and what it means behind its name or as its
 * value. */
static void print_bits(const struct cli_field *f, const char *value, const char *means)
{
	bool is_value = f->kind == KIND_MEANT;

	printf("  [%u:%u] : %s\t%s", f->shift + f->bits - 1u, f->shift, is_value ? means : value,
	       f->name);
	if (means && !is_value)
		printf("%s%s", *f->name ? " " : "", means);
	putchar('\n');
}

void cli_parts_print(const struct cli_field *parts, size_t n, uint64_t v, unsigned int width)
{
	char buf[CLI_FIELD_TEXT], means[CLI_FIELD_TEXT];
	unsigned int above = width;
	const char *text;
	uint64_t part;

	for (; n--; parts++) {
		part = bits_of(v, parts->shift, parts->bits);
		text = meaning(parts, part, &v, means);
		number_text(buf, parts->kind, part);
		print_reserved(v, above, parts->shift + parts->bits);
		above = width ? parts->shift : 0;
		if (!field_is_there(parts, &v))
			continue;
		if (width)
			print_bits(parts, buf, text);
		else if (parts->kind == KIND_PLAIN && text)
			printf("\t%s: %" PRIu64 " - %s\n", parts->name, part, text);
		else
			printf("\t%s%s %s\n", parts->name, parts->kind == KIND_MEANT ? "" : ":",
			       text ? text : buf);
	}
	print_reserved(v, above, 0);
	putchar('\n');
}

static void print_field_lines(const struct cli_options *o, const struct cli_shape *s,
			      const void *data)
{
	char buf[CLI_FIELD_TEXT], means[CLI_FIELD_TEXT];
	const struct cli_field *f;

	for (f = s->fields; f < s->fields + s->n; f++) {
		const unsigned char *p = (const unsigned char *)data + f->offset;
		const char *text = buf, *words = NULL;

		if (!field_is_there(f, data))
			continue;
		if (has_number(f))
			number_text(buf, f->kind, field_number(f, p));
		else
			text = field_text(f, p, buf);
		words = meaning(f, has_number(f) ? field_number(f, p) : 0, data, means);
		printf("%-*s%s", s->width, f->label ? f->label : f->name, s->sep ? s->sep : " : ");
		if (f->kind == KIND_WORD || f->kind == KIND_MEANT)
			printf("%s\n", words);
		else
			printf("%s%s%s%s\n", text, words ? " (" : "", words ? words : "",
			       words ? ")" : "");
		if (f->parts && cli_given(o, CLI_ARG_HUMAN))
			cli_parts_print(f->parts, f->n_parts, field_number(f, p),
					s->bit_numbers ? 8 * (unsigned int)f->len : 0);
	}
}

static json_t *field_json(const struct cli_field *f, const void *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data + f->offset;
	char buf[CLI_FIELD_TEXT];

	if (f->kind == KIND_REST)
		return cli_hex(p, len - f->offset);
	if (f->kind == KIND_WORD)
		return json_string(meaning(f, field_number(f, p), data, buf));
	if (has_number(f))
		return json_integer((json_int_t)field_number(f, p));
	if (f->kind == KIND_U128N)
		return cli_json_u128(u128_of(p));
	return json_string(field_text(f, p, buf));
}

/* ---- lists ---- */

/* The item after @item, which is of index @i; of the one before the first, NULL. */
static const void *next_item(const struct cli_list *l, const void *data, const void *item)
{
	if (!item)
		return (const unsigned char *)data + l->first;
	return (const unsigned char *)item + (l->size_of ? l->size_of(item) : l->size);
}

static uint64_t count_items(const struct cli_list *l, const void *data, size_t len)
{
	uint64_t n = l->n, room = l->size && len > l->first ? (len - l->first) / l->size : 0;

	if (l->count)
		n = l->count(data);
	else if (l->n_len)
		n = cli_le((const unsigned char *)data + l->n_at, l->n_len);
	else if (!n)
		return room;
	return l->size && n > room ? room : n;
}

static void print_list(const struct cli_options *o, const struct cli_list *l, const void *data,
		       size_t len)
{
	uint64_t n = count_items(l, data, len);
	unsigned int i;
	const void *item = NULL;

	if (l->heading)
		printf("%s\n", l->heading);
	for (i = 0; i < n; i++) {
		item = next_item(l, data, item);
		if (l->mask && !(cli_le(item, l->size) & l->mask))
			continue;
		if (l->print)
			l->print(o, data, i, item);
		else if (l->item && l->item->width)
			cli_shape_print(o, l->item, item, SIZE_MAX);
	}
}

static json_t *shape_json(const struct cli_shape *s, const void *data, size_t len,
			  const char *address);

static json_t *number_json(const struct cli_list *l, const void *item)
{
	char text[CLI_FIELD_TEXT];

	if (!l->value)
		return json_integer((json_int_t)cli_le(item, l->size));
	l->value(item, text);
	return json_string(text);
}

/* Adds the items to @obj, the object of the structure. */
static void add_list(json_t *obj, const struct cli_list *l, const void *data, size_t len)
{
	json_t *array = l->name && !l->object ? json_array() : NULL, *to = obj;
	uint64_t n = count_items(l, data, len);
	unsigned int i;
	const void *item = NULL;
	char key[CLI_FIELD_TEXT];

	if (l->name) {
		to = array ? array : json_object();
		json_object_set_new(obj, l->name, to);
	}
	for (i = 0; i < n; i++) {
		item = next_item(l, data, item);
		if (l->item) {
			json_array_append_new(array, shape_json(l->item, item, SIZE_MAX, NULL));
			continue;
		}
		if (!(cli_le(item, l->size) & l->mask))
			continue;
		if (array) {
			to = json_object();
			json_array_append_new(array, to);
		}
		l->key(i, key);
		json_object_set_new(to, key, number_json(l, item));
	}
}

/* ---- structures ---- */

void cli_shape_print(const struct cli_options *o, const struct cli_shape *s, const void *data,
		     size_t len)
{
	size_t i;

	if (s->width)
		print_field_lines(o, s, data);
	for (i = 0; i < s->n_lists; i++)
		print_list(o, &s->lists[i], data, len);
}

static json_t *shape_json(const struct cli_shape *s, const void *data, size_t len,
			  const char *address)
{
	json_t *obj = json_object(), *below = s->below_address ? json_object() : obj;
	size_t i;

	if (s->address)
		json_object_set_new(obj, s->address, json_string(address));
	if (s->below_address)
		json_object_set_new(obj, address, below);
	for (i = 0; i < s->n; i++) {
		const struct cli_field *f = &s->fields[i];

		if (field_is_there(f, data) && (f->kind != KIND_REST || len > f->offset))
			json_object_set_new(below, f->name, field_json(f, data, len));
	}
	for (i = 0; i < s->n_lists; i++)
		add_list(below, &s->lists[i], data, len);
	return s->in_array ? json_pack("[o]", obj) : obj;
}

int cli_shape_show(const struct cli_options *o, const struct cli_shape *s, const void *data,
		   size_t len, const char *address, const char *heading, ...)
{
	va_list args;

	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(data, len);
	if (o->format == CLI_JSON)
		return cli_print_json(shape_json(s, data, len, address), stdout);
	va_start(args, heading);
	if (heading)
		vprintf(heading, args);
	va_end(args);
	cli_shape_print(o, s, data, len);
	return cli_finish_output();
}

/* ---- schemas ---- */

static json_t *schema_of_number(void)
{
	return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0);
}

static json_t *schema_of_array(json_t *items)
{
	return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

/* An object: @required NULL or empty: without members that are always there. */
static json_t *schema_of_object(json_t *properties, json_t *required, json_t *patterns,
				json_t *other)
{
	json_t *obj = json_pack("{s:s}", "type", "object");

	if (json_object_size(properties))
		json_object_set(obj, "properties", properties);
	if (json_array_size(required))
		json_object_set(obj, "required", required);
	if (json_object_size(patterns))
		json_object_set(obj, "patternProperties", patterns);
	json_object_set_new(obj, "additionalProperties", other ? other : json_false());
	json_decref(properties);
	json_decref(required);
	json_decref(patterns);
	return obj;
}

static json_t *schema_of_list(const struct cli_list *l)
{
	json_t *numbers;

	if (l->item)
		return schema_of_array(cli_shape_schema(l->item));
	numbers = json_pack("{s:o}", l->pattern,
			    l->value ? json_pack("{s:s}", "type", "string") : schema_of_number());
	if (!l->name)
		return numbers;
	numbers = schema_of_object(NULL, NULL, numbers, NULL);
	return l->object ? numbers : schema_of_array(numbers);
}

static void add_schema(json_t *properties, json_t *required, const char *name, json_t *schema)
{
	json_object_set_new(properties, name, schema);
	json_array_append_new(required, json_string(name));
}

json_t *cli_shape_schema(const struct cli_shape *s)
{
	json_t *properties = json_object(), *required = json_array(), *patterns = json_object();
	json_t *outer = json_object(), *needed = json_array(), *obj;
	size_t i;

	if (s->address)
		add_schema(s->below_address ? outer : properties,
			   s->below_address ? needed : required, s->address,
			   json_pack("{s:s}", "type", "string"));
	for (i = 0; i < s->n; i++) {
		const struct cli_field *f = &s->fields[i];
		bool text = f->kind == KIND_WORD || (!has_number(f) && f->kind != KIND_U128N);

		json_object_set_new(properties, f->name,
				    text ? json_pack("{s:s}", "type", "string")
					 : schema_of_number());
		if (!f->there && !f->if_set && f->kind != KIND_REST)
			json_array_append_new(required, json_string(f->name));
	}
	for (i = 0; i < s->n_lists; i++) {
		if (s->lists[i].name)
			add_schema(properties, required, s->lists[i].name,
				   schema_of_list(&s->lists[i]));
		else
			json_object_update_missing_new(patterns, schema_of_list(&s->lists[i]));
	}
	obj = schema_of_object(properties, required, patterns, NULL);
	if (s->below_address)
		return schema_of_object(outer, needed, NULL, obj);
	json_decref(outer);
	json_decref(needed);
	return s->in_array ? schema_of_array(obj) : obj;
}
