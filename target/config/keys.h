/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of the configuration: one row for each. Reading a file, its checks and messages,
 * defaults, JSON, what a reload leaves alone, the JSON schema, the lines of the manual page and the
 * example all come from these rows. What spans several keys is a function beside them.
 */
#ifndef RDT_KEYS_H
#define RDT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

enum rdt_key_type {
	RDT_KEY_NUMBER, /* whole; with choices: one of these */
	RDT_KEY_BOOL,
	RDT_KEY_CHOICE,
	RDT_KEY_TEXT,
	RDT_KEY_NQN,
	RDT_KEY_SIZE,
	RDT_KEY_DURATION,
	RDT_KEY_MAPPING,
	RDT_KEY_LIST,
};

/* When a change of the key takes effect. */
enum rdt_key_when {
	RDT_WHEN_AT_ONCE,
	RDT_WHEN_CONNECTIONS, /* for connections from then on */
	RDT_WHEN_ANEW,        /* the listener or namespace is removed and added */
	RDT_WHEN_RESTART,
};

struct rdt_choice {
	const char *name; /* NULL: the end */
	int64_t value;
};

struct rdt_section;

struct rdt_row {
	const char *name; /* NULL: an element of a list */
	enum rdt_key_type type;
	enum rdt_key_when when;
	/* Where it is in the structure: a number, a pointer to a text, elements or (@pointer) a
	 * mapping, or the mapping itself. */
	uint16_t at;
	uint16_t width; /* bytes of a number */
	bool pointer;
	/* NUMBER, SIZE, DURATION: where the number is (again); LIST: the count of elements. */
	uint16_t number_at;
	uint8_t number_width; /* 0: nowhere */
	bool only_given;      /* MAPPING: without it, its keys have no defaults */
	bool power_of_2;
	/* Of a number, of bytes, ns, elements, or the bytes of a text. @max 0: no limit. */
	uint64_t min;
	uint64_t max;
	uint64_t step;       /* the value is a multiple of it; 0: any */
	const char *or_zero; /* 0 is allowed below @min, and means this */
	const char *unit;
	const char *def;      /* as in a file; NULL: none */
	const char *unset;    /* what holds without the key, where @def is NULL */
	const char *expected; /* TEXT: what messages say is expected; NULL: text */
	/* TEXT: returns NULL for a good one, else what is wrong after "which", or "". */
	const char *(*wrong)(const char *text);
	const struct rdt_choice *choices;
	const struct rdt_section *section; /* MAPPING */
	const struct rdt_row *element;     /* LIST */
	/* Bits of the values of the section's selector. */
	uint32_t with;       /* the key is valid with these only; 0: with all */
	uint32_t transports; /* Of a listener: bits of the transports that have the key; 0: all */
	uint32_t needed;     /* the key must be given with these; RDT_ALWAYS */
	const char *example; /* for a key without a default */
	const char *says;    /* one sentence */
};

#define RDT_ALWAYS          UINT32_MAX

#define RDT_AT(type, field) .at = offsetof(type, field), .width = sizeof(((type *)0)->field)
#define RDT_NUMBER_AT(type, field) \
	.number_at = offsetof(type, field), .number_width = sizeof(((type *)0)->field)
#define RDT_LIST_AT(type, field) .at = offsetof(type, field), RDT_NUMBER_AT(type, field##_count)

/* Rows that stand together, ended by one without a name; a section has one or more such groups. */
#define RDT_GROUPS 7

struct rdt_section {
	const struct rdt_row *groups[RDT_GROUPS];
	size_t size;
	const char *selector; /* a CHOICE on which it depends which keys are valid; NULL: none */
};

/* The next row of @s after @row, or the first one (NULL); NULL at the end. */
const struct rdt_row *rdt_row_next(const struct rdt_section *s, const struct rdt_row *row);
#define RDT_EACH_ROW(row, s)                               \
	const struct rdt_row *row = rdt_row_next(s, NULL); \
	(row);                                             \
	(row) = rdt_row_next(s, row)
const struct rdt_row *rdt_row_find(const struct rdt_section *s, const char *name);

/* The number at @row in @object: of an element, @object is its address. */
uint64_t rdt_row_number(const struct rdt_row *row, const void *object);
/* The number of elements, or the value of a SIZE or DURATION. */
uint64_t rdt_row_number_again(const struct rdt_row *row, const void *object);
const void *rdt_row_pointer(const struct rdt_row *row, const void *object);
size_t rdt_row_element_size(const struct rdt_row *list);

/* Parse what a file has for a number, a choice, a size or a duration. Returns 0, -EINVAL (something
 * else) or -ERANGE (out of range). */
int rdt_row_parse(const struct rdt_row *row, const char *text, uint64_t *value);

/* Writes what is expected, such as "a size from 4KiB to 8MiB", to @buf and returns it. */
#define RDT_EXPECTED_TEXT 320
const char *rdt_row_expected(const struct rdt_row *row, char buf[RDT_EXPECTED_TEXT]);
/* "1 to 64" and the like; "" without limits. */
const char *rdt_row_range(const struct rdt_row *row, char buf[RDT_EXPECTED_TEXT]);
/* "backend file or block": the values of the selector of @s in @mask. */
const char *rdt_section_with(const struct rdt_section *s, uint32_t mask,
			     char buf[RDT_EXPECTED_TEXT]);

/* NULL, or the name of the choice that has @value. */
const char *rdt_choice_name(const struct rdt_choice *choices, int64_t value);

/* ---- the rows ---- */

extern const struct rdt_section rdt_config_section;    /* keys_target.c: the file */
extern const struct rdt_section rdt_listener_section;  /* keys_subsys.c */
extern const struct rdt_section rdt_subsys_section;    /* keys_subsys.c */
extern const struct rdt_section rdt_host_auth_section; /* keys_subsys.c */
extern const struct rdt_section rdt_discovery_section; /* keys_subsys.c */
extern const struct rdt_section rdt_referral_section;  /* keys_subsys.c */
extern const struct rdt_section rdt_ns_section;        /* keys_ns.c */
extern const struct rdt_section rdt_host_qos_section;  /* keys_ns.c */
extern const struct rdt_section rdt_ceph_section;      /* keys_rbd.c */

extern const struct rdt_row rdt_nqn_element; /* of a list of NQNs */

/* What layers add to the keys of a layer. */
extern const struct rdt_row rdt_delay_rows[];
extern const struct rdt_row rdt_error_rows[];

#define RDT_EXAMPLE_HOST  "nqn.2014-08.org.nvmexpress:uuid:6f0c2b4e-6d0f-4a4e-9a56-0e9b7a3d5c11"
#define RDT_EXAMPLE_HOSTS "[" RDT_EXAMPLE_HOST "]"

#define RDT_WITH(backend) (1u << RDT_BACKEND_##backend)

/* "wrong" functions that several files use */
const char *rdt_wrong_address(const char *text);
const char *rdt_wrong_congestion(const char *text);
const char *rdt_wrong_uuid(const char *text);

#endif /* RDT_KEYS_H */
