/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of structure fields, from which both text and JSON are made. */
#ifndef RDI_CLI_FIELDS_H
#define RDI_CLI_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cli_options;

enum cli_field_kind {
	KIND_DEC,    /* unsigned, 1 to 8 bytes */
	KIND_HEX,    /* the same, hexadecimal in text */
	KIND_PLAIN,  /* the same, without 0x */
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
	uint8_t shift, bits; /* the part of a number that the field is; bits 0: all of it */
	const char *label;   /* in text, where that differs from the JSON key; or NULL */
	const char *(*words)(uint64_t v); /* what the number means, for text; or NULL */
};

#define CLI_FIELD(type, member, label, k)                                                   \
	{                                                                                   \
		label, offsetof(struct type, member), sizeof(((struct type *)0)->member), k \
	}

/* A part of a number in bits. */
#define CLI_BITS(type, member, label, k, s, b)                                                    \
	{                                                                                         \
		label, offsetof(struct type, member), sizeof(((struct type *)0)->member), k, s, b \
	}

/* A little-endian number of 1 to 8 bytes. */
uint64_t cli_le(const unsigned char *p, size_t len);
/* @width: of the column of names. */
void cli_fields_print(const struct cli_field *f, size_t n, const void *data, int width);
/* Prints the page @data of @len bytes: as it is for --raw-binary, as JSON, or below @heading. */
int cli_fields_show(const struct cli_options *o, const struct cli_field *f, size_t n,
		    const void *data, size_t len, const char *heading, int width);
json_t *cli_fields_json(const struct cli_field *f, size_t n, const void *data);

#endif /* RDI_CLI_FIELDS_H */
