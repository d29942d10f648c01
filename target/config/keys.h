/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of the configuration, one row each. Parsing, checks and messages, defaults, JSON, the
 * comparison by a reload, the JSON schema, the manual page and the example all come from these
 * rows. Checks that involve several keys are separate functions.
 */
#ifndef RDT_KEYS_H
#define RDT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

enum rdt_key_type {
	RDT_KEY_NUMBER, /* whole number; with choices: one of these */
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
	RDT_WHEN_CONNECTIONS, /* for new connections */
	RDT_WHEN_ANEW,        /* the listener or namespace is removed and added again */
	RDT_WHEN_RESTART,
};

struct rdt_choice {
	const char *name; /* NULL: end of the list */
	int64_t value;
};

struct rdt_section;

struct rdt_row {
	const char *name; /* NULL: an element of a list */
	enum rdt_key_type type;
	enum rdt_key_when when;
	/* Offset in the structure: a number, a pointer to a text, elements or (@pointer) a mapping,
	 * or the mapping itself. */
	uint16_t at;
	uint16_t width; /* bytes of a number */
	bool pointer;
	/* NUMBER, SIZE, DURATION: offset of the number (again); LIST: of the number of elements. */
	uint16_t number_at;
	uint8_t number_width; /* 0: none */
	bool only_given;      /* MAPPING: if absent, its keys have no defaults */
	bool power_of_2;
	/* Range of a number, of bytes, ns, elements, or the length of a text in bytes. @max 0: no
	 * limit. */
	uint64_t min;
	uint64_t max;
	uint64_t step;       /* the value is a multiple of it; 0: any */
	const char *or_zero; /* the meaning of 0, which is then allowed below @min */
	const char *unit;
	const char *def;      /* as in a file; NULL: none */
	const char *unset;    /* the effect of an absent key without @def */
	const char *expected; /* TEXT: what messages call a valid value; NULL: "text" */
	/* TEXT: returns NULL for a valid text, else the error as it follows "which", or "". */
	const char *(*wrong)(const char *text);
	const struct rdt_choice *choices;
	const struct rdt_section *section; /* MAPPING */
	const struct rdt_row *element;     /* LIST */
	/* Bits of values of the section's selector: */
	uint32_t with;       /* the key is valid with these only; 0: with all */
	uint32_t transports; /* of a listener: bits of the transports that have the key; 0: all */
	uint32_t needed;     /* the key must be given with these; RDT_ALWAYS */
	const char *example; /* for a key without a default */
	const char *says;    /* one sentence */
};

#define RDT_ALWAYS          UINT32_MAX

#define RDT_AT(type, field) .at = offsetof(type, field), .width = sizeof(((type *)0)->field)
#define RDT_NUMBER_AT(type, field) \
	.number_at = offsetof(type, field), .number_width = sizeof(((type *)0)->field)
#define RDT_LIST_AT(type, field) .at = offsetof(type, field), RDT_NUMBER_AT(type, field##_count)

/* Groups of rows, each ended by a row without a name, that a section may have. */
#define RDT_GROUPS 7

struct rdt_section {
	const struct rdt_row *groups[RDT_GROUPS];
	size_t size;
	const char *selector; /* a CHOICE that determines which keys are valid; NULL: none */
};

/* The next row of @s after @row, or the first one (NULL); NULL at the end. */
const struct rdt_row *rdt_row_next(const struct rdt_section *s, const struct rdt_row *row);
#define RDT_EACH_ROW(row, s)                               \
	const struct rdt_row *row = rdt_row_next(s, NULL); \
	(row);                                             \
	(row) = rdt_row_next(s, row)
const struct rdt_row *rdt_row_find(const struct rdt_section *s, const char *name);

/* The number at @row in @object; for an element, @object is its address. */
uint64_t rdt_row_number(const struct rdt_row *row, const void *object);
/* The number of elements, or the value of a SIZE or DURATION. */
uint64_t rdt_row_number_again(const struct rdt_row *row, const void *object);
const void *rdt_row_pointer(const struct rdt_row *row, const void *object);
size_t rdt_row_element_size(const struct rdt_row *list);

/* Parses a number, choice, size or duration. Returns 0, -EINVAL (no such value) or -ERANGE. */
int rdt_row_parse(const struct rdt_row *row, const char *text, uint64_t *value);

/* Writes the expected values, such as "a size from 4KiB to 8MiB", to @buf and returns it. */
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

/* Keys that a type of layer adds to those of a layer. */
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
