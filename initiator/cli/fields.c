/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of the structures of the specification, as text in nvme-cli's form and as JSON. */
#include <inttypes.h>
#include <string.h>
#include <uuid/uuid.h>

#include "cli.h"
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

void cli_fields_print(const struct cli_field *f, size_t n, const void *data, int width)
{
	char buf[300];

	for (; n--; f++) {
		const unsigned char *p = (const unsigned char *)data + f->offset;

		if (f->kind == KIND_DEC)
			printf("%-*s : %" PRIu64 "\n", width, f->name, cli_le(p, f->len));
		else if (f->kind == KIND_HEX)
			printf("%-*s : %#" PRIx64 "\n", width, f->name, cli_le(p, f->len));
		else if (f->kind == KIND_OUI)
			printf("%-*s : %06" PRIx64 "\n", width, f->name, cli_le(p, f->len));
		else
			printf("%-*s : %s\n", width, f->name, field_text(f, p, buf));
	}
}

json_t *cli_fields_json(const struct cli_field *f, size_t n, const void *data)
{
	json_t *obj = json_object();
	char buf[300];

	for (; n--; f++) {
		const unsigned char *p = (const unsigned char *)data + f->offset;
		json_t *v;

		if (f->kind == KIND_DEC || f->kind == KIND_HEX || f->kind == KIND_OUI)
			v = json_integer((json_int_t)cli_le(p, f->len));
		else if (f->kind == KIND_U128N)
			v = cli_json_u128(u128_of(p));
		else
			v = json_string(field_text(f, p, buf));
		json_object_set_new(obj, f->name, v);
	}
	return obj;
}
