/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of structure fields, from which both text and JSON are made. */
#ifndef RDI_CLI_FIELDS_H
#define RDI_CLI_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum cli_field_kind {
	KIND_DEC,    /* unsigned, 1 to 8 bytes */
	KIND_HEX,    /* the same, hexadecimal in text */
	KIND_OUI,    /* the same, six digits */
	KIND_STR,    /* fixed-length, padded */
	KIND_U128,   /* 16 bytes; text in JSON */
	KIND_U128N,  /* 16 bytes; a number in JSON as long as it fits */
	KIND_HEXSTR, /* bytes, hexadecimal, most significant first as stored */
	KIND_UUID,
};

struct cli_field {
	const char *name;
	size_t offset;
	size_t len;
	enum cli_field_kind kind;
};

#define CLI_FIELD(type, member, label, k)                                                   \
	{                                                                                   \
		label, offsetof(struct type, member), sizeof(((struct type *)0)->member), k \
	}

/* A little-endian number of 1 to 8 bytes. */
uint64_t cli_le(const unsigned char *p, size_t len);
/* @width: of the column of names. */
void cli_fields_print(const struct cli_field *f, size_t n, const void *data, int width);
json_t *cli_fields_json(const struct cli_field *f, size_t n, const void *data);

#endif /* RDI_CLI_FIELDS_H */
