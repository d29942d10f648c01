/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of the structures of the specification, as text in nvme-cli's form and as JSON. */
#include <inttypes.h>
#include <string.h>
#include <uuid/uuid.h>

#include "command.h"
#include "fields.h"
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

/* A 128-bit number in decimal, into @buf of 40 bytes. */
static const char *u128_text(const unsigned char *p, char *buf)
{
	unsigned __int128 v = u128_of(p);
	char *q = buf + 39;

	*q = '\0';
	do {
		*--q = (char)('0' + (int)(v % 10));
		v /= 10;
	} while (v);
	return q;
}

/* The text of a field that is not a number; into @buf of 300 bytes. */
static const char *field_text(const struct cli_field *f, const unsigned char *p, char *buf)
{
	size_t i, n = strnlen((const char *)p, f->len);

	switch (f->kind) {
	case KIND_STR:
		memcpy(buf, p, n);
		buf[n] = '\0';
		rd_mask_control(buf, n); /* strings of a controller are printed on a terminal */
		return buf;
	case KIND_U128:
	case KIND_U128N:
		return u128_text(p, buf);
	case KIND_UUID:
		uuid_unparse_lower(p, buf);
		return buf;
	default:
		for (i = 0; i < f->len; i++)
			snprintf(buf + 2 * i, 3, "%02x", p[i]);
		return buf;
	}
}

static uint64_t field_number(const struct cli_field *f, const unsigned char *p)
{
	uint64_t v = cli_le(p, f->len) >> f->shift;

	return f->bits ? v & ((1ull << f->bits) - 1) : v;
}

static void number_text(char *buf, enum cli_field_kind kind, uint64_t v)
{
	if (kind == KIND_DEC)
		sprintf(buf, "%" PRIu64, v);
	else
		sprintf(buf,
			kind == KIND_HEX   ? "%#" PRIx64
			: kind == KIND_OUI ? "%06" PRIx64
					   : "%" PRIx64,
			v);
}

void cli_fields_print(const struct cli_field *f, size_t n, const void *data, int width)
{
	char buf[300];

	for (; n--; f++) {
		const unsigned char *p = (const unsigned char *)data + f->offset;
		const char *text = buf, *words = NULL;

		if (f->kind <= KIND_OUI) {
			number_text(buf, f->kind, field_number(f, p));
			words = f->words ? f->words(field_number(f, p)) : NULL;
		} else {
			text = field_text(f, p, buf);
		}
		printf("%-*s : %s%s%s%s\n", width, f->label ? f->label : f->name, text,
		       words ? " (" : "", words ? words : "", words ? ")" : "");
	}
}

json_t *cli_fields_json(const struct cli_field *f, size_t n, const void *data)
{
	json_t *obj = json_object();
	char buf[300];

	for (; n--; f++) {
		const unsigned char *p = (const unsigned char *)data + f->offset;
		json_t *v;

		if (f->kind <= KIND_OUI)
			v = json_integer((json_int_t)field_number(f, p));
		else if (f->kind == KIND_U128N)
			v = cli_json_u128(u128_of(p));
		else
			v = json_string(field_text(f, p, buf));
		json_object_set_new(obj, f->name, v);
	}
	return obj;
}

int cli_fields_show(const struct cli_options *o, const struct cli_field *f, size_t n,
		    const void *data, size_t len, const char *heading, int width)
{
	if (cli_given(o, CLI_ARG_RAW))
		return cli_raw(data, len);
	if (o->format == CLI_JSON)
		return cli_print_json(cli_fields_json(f, n, data), stdout);
	printf("%s\n", heading);
	cli_fields_print(f, n, data, width);
	return cli_finish_output();
}
