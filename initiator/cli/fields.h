/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of structure fields, from which text, JSON and the JSON schema are made. */
#ifndef RDI_CLI_FIELDS_H
#define RDI_CLI_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_options;

enum cli_field_kind {
	KIND_DEC,    /* unsigned, 1 to 8 bytes */
	KIND_HEX,    /* the same, hexadecimal in text */
	KIND_PLAIN,  /* the same, without 0x */
	KIND_OUI,    /* the same, six digits */
	KIND_HEX4,   /* the same, at least four digits */
	KIND_MEANT,  /* the same, and text has only what it means */
	KIND_WORD,   /* the same, and JSON too has only what it means */
	KIND_STR,    /* fixed-length, padded */
	KIND_U128,   /* 16 bytes; text in JSON */
	KIND_U128N,  /* 16 bytes; a number in JSON as long as it fits */
	KIND_HEXSTR, /* bytes, hexadecimal, most significant first as stored */
	KIND_UUID,
	KIND_REST, /* JSON alone: what follows in the structure, if anything does, hexadecimal */
};

/* What the values from 0 mean. */
struct cli_words {
	const char *other; /* what a value without a text means */
	unsigned int n;
	const char *const *text; /* NULL: none */
};

/* An initializer of a static object from the texts, which may be designated: [0x7f] = "Fabrics
 * Commands". */
#define CLI_WORDS(unknown, ...)                                                        \
	{                                                                              \
		.other = (unknown), .text = (const char *const[]){__VA_ARGS__},        \
		.n = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *) \
	}

/* The same where a pointer to a static object is initialized. */
#define CLI_MEANS(...) (&(const struct cli_words)CLI_WORDS("Reserved", __VA_ARGS__))

extern const struct cli_words cli_true_false, cli_enabled;

const char *cli_word(const struct cli_words *words, uint64_t v);

#define CLI_FIELD_TEXT 300

/* Explains a number that is one less than what it means. */
void cli_zeroes_based(uint64_t v, const void *data, char *buf);
/* Explains a temperature in Kelvin. */
void cli_kelvin(uint64_t v, const void *data, char *buf);

struct cli_field {
	const char *name;
	size_t offset;
	size_t len;
	enum cli_field_kind kind;
	uint8_t shift, bits; /* the part of a number that the field is; bits 0: all of it */
	const char *label;   /* in text, where that differs from the JSON key; or NULL */
	const struct cli_words *words; /* what the number means, for text; or NULL */
	/* Writes what the number in @data means into a buffer of CLI_FIELD_TEXT bytes; or NULL. */
	void (*explain)(uint64_t v, const void *data, char *buf);
	/* Fields of the number itself, for --human-readable; or NULL. */
	const struct cli_field *parts;
	size_t n_parts;
	bool (*there)(const void *data); /* whether @data has the field; NULL: it always has */
	bool if_set;                     /* the field is there unless it is 0 */
};

#define CLI_FIELD(type, member, label, k, ...)                                               \
	{                                                                                    \
		label, offsetof(struct type, member), sizeof(((struct type *)0)->member), k, \
			__VA_ARGS__                                                          \
	}

/* A part of a number in bits. */
#define CLI_BITS(type, member, label, k, s, b)                                                    \
	{                                                                                         \
		label, offsetof(struct type, member), sizeof(((struct type *)0)->member), k, s, b \
	}

#define CLI_COUNT(a) (sizeof(a) / sizeof((a)[0]))
/* The members of struct cli_field for parts. */
#define CLI_PARTS(a) .parts = (a), .n_parts = CLI_COUNT(a)

/* A part of a number. */
#define CLI_PART(label, k, s, b, ...)                                  \
	{                                                              \
		label, 0, 8, k, .shift = (s), .bits = (b), __VA_ARGS__ \
	}
#define CLI_WORD_PART(label, at, n, w)          CLI_PART(label, KIND_DEC, at, n, .words = &(w))
#define CLI_EXPLAINED_PART(label, at, n, means) CLI_PART(label, KIND_DEC, at, n, .explain = (means))

struct cli_shape;

/* Things of one kind in a structure. */
struct cli_list {
	const char *name; /* in JSON, an array; NULL: numbers that are members of the structure */
	const char *heading;                 /* in text; NULL: none */
	const struct cli_shape *item;        /* NULL: they are numbers */
	size_t first, size;                  /* offset of the first, size of each */
	size_t (*size_of)(const void *item); /* if sizes differ; else NULL */
	/* How many: @n, else the number at @n_at of @n_len bytes, else as many as there is room
	 * for. In any case no more than the structure has room for. */
	unsigned int n;
	size_t n_at, n_len;
	unsigned int (*count)(const void *data); /* or this number; or NULL */
	/* Prints @item, the one of index @i, in text; NULL: its fields are printed. */
	void (*print)(const struct cli_options *o, const void *data, unsigned int i,
		      const void *item);
	/* Of numbers: those of which a bit of @mask is set are members of the name @key, which
	 * @pattern matches. */
	uint64_t mask;
	void (*key)(unsigned int i, char *key);
	const char *pattern;
	void (*value)(const void *item, char *text); /* makes text of it; NULL: it is a number */
	bool object; /* JSON has one object of numbers, not an array of objects */
};

#define CLI_LIST(json, shape, at, each, ...)                                                \
	{                                                                                   \
		.name = (json), .item = (shape), .first = (at), .size = (each), __VA_ARGS__ \
	}

/* The members of struct cli_list for a number of items that the structure has. */
#define CLI_COUNTED(type, member) \
	.n_at = offsetof(struct type, member), .n_len = sizeof(((struct type *)0)->member)

/* A structure: an object in JSON. */
struct cli_shape {
	const struct cli_field *fields;
	size_t n;
	int width;           /* of the column of names in text; 0: only JSON has the fields */
	const char *sep;     /* between name and value in text; NULL: " : " */
	const char *address; /* JSON member that has the address of the device; or NULL */
	bool below_address;  /* in JSON all else is in a member that the address names */
	bool bit_numbers; /* in text, parts of numbers are shown with the numbers of their bits */
	bool in_array;    /* JSON has an array of this one */
	const struct cli_list *lists;
	size_t n_lists;
};

#define CLI_SHAPE(table, column, ...)                                                    \
	{                                                                                \
		.fields = (table), .n = CLI_COUNT(table), .width = (column), __VA_ARGS__ \
	}
/* The members of struct cli_shape for lists. */
#define CLI_LISTS(a) .lists = (a), .n_lists = CLI_COUNT(a)

/* A little-endian number of 1 to 8 bytes. */
uint64_t cli_le(const unsigned char *p, size_t len);
/*
 * Prints the parts of the number @v, each with what it means, and an empty line. @width: the number
 * of bits of @v; the parts, from the highest, are shown with the numbers of their bits, and so are
 * bits between them that are set. 0: without these numbers.
 */
void cli_parts_print(const struct cli_field *parts, size_t n, uint64_t v, unsigned int width);

/* Prints fields and lists, with the meaning of bits for --human-readable. */
void cli_shape_print(const struct cli_options *o, const struct cli_shape *s, const void *data,
		     size_t len);
json_t *cli_shape_schema(const struct cli_shape *s);
/* Prints the structure @data of @len bytes: as it is for --raw-binary, as JSON, or below the
 * heading. */
int cli_shape_show(const struct cli_options *o, const struct cli_shape *s, const void *data,
		   size_t len, const char *address, const char *heading, ...)
	__attribute__((format(printf, 6, 7)));

/* The structures that verbs show. */
extern const struct cli_shape cli_shape_ana, cli_shape_changed_ns, cli_shape_discovery,
	cli_shape_effects, cli_shape_endurance, cli_shape_errors, cli_shape_feature,
	cli_shape_feature_set, cli_shape_fids, cli_shape_fw, cli_shape_id_ctrl, cli_shape_id_ns,
	cli_shape_ind_ns, cli_shape_lba_status, cli_shape_list_ctrl, cli_shape_list_ns,
	cli_shape_mis, cli_shape_ns_descs, cli_shape_nvm_ctrl, cli_shape_nvm_ns,
	cli_shape_properties, cli_shape_property, cli_shape_resv_notif, cli_shape_resv_report,
	cli_shape_smart, cli_shape_supported_logs;

#endif /* RDI_CLI_FIELDS_H */
