/* SPDX-License-Identifier: BSD-3-Clause */
#include "keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/parse.h"

/* ---- rows ---- */

const struct rdt_row *rdt_row_next(const struct rdt_section *s, const struct rdt_row *row)
{
	unsigned int group = 0;

	if (row && row[1].name)
		return row + 1;
	/* A row without a name ends a group. */
	while (row && group < RDT_GROUPS && s->groups[group]) {
		const struct rdt_row *last = s->groups[group++];

		while (last[1].name)
			last++;
		if (last == row)
			break;
	}
	return group < RDT_GROUPS && s->groups[group] ? s->groups[group] : NULL;
}

const struct rdt_row *rdt_row_find(const struct rdt_section *s, const char *name)
{
	for (unsigned int i = 0; i < RDT_GROUPS && s->groups[i]; i++)
		for (const struct rdt_row *row = s->groups[i]; row->name; row++)
			if (strcmp(row->name, name) == 0)
				return row;
	return NULL;
}

const char *rdt_choice_name(const struct rdt_choice *choices, int64_t value)
{
	for (; choices->name; choices++)
		if (choices->value == value)
			return choices->name;
	return NULL;
}

/* ---- values in structures ---- */

static uint64_t number_of(const void *data, size_t width)
{
	switch (width) {
	case 1:
		return *(const uint8_t *)data;
	case 2:
		return *(const uint16_t *)data;
	case 4:
		return *(const uint32_t *)data;
	default:
		return *(const uint64_t *)data;
	}
}

uint64_t rdt_row_number(const struct rdt_row *row, const void *object)
{
	return number_of((const char *)object + row->at, row->width);
}

uint64_t rdt_row_number_again(const struct rdt_row *row, const void *object)
{
	return number_of((const char *)object + row->number_at, row->number_width);
}

const void *rdt_row_pointer(const struct rdt_row *row, const void *object)
{
	const void *p;

	memcpy(&p, (const char *)object + row->at, sizeof(p));
	return p;
}

size_t rdt_row_element_size(const struct rdt_row *list)
{
	const struct rdt_row *e = list->element;

	return e->type == RDT_KEY_MAPPING ? e->section->size : e->width ? e->width : sizeof(char *);
}

static bool row_same(const struct rdt_row *row, const void *a, const void *b);

static bool same_list(const struct rdt_row *row, const void *a, const void *b)
{
	uint64_t count = rdt_row_number_again(row, a);
	const char *x = rdt_row_pointer(row, a), *y = rdt_row_pointer(row, b);
	size_t size = rdt_row_element_size(row);

	if (count != rdt_row_number_again(row, b))
		return false;
	for (uint64_t i = 0; i < count; i++)
		if (!row_same(row->element, x + i * size, y + i * size))
			return false;
	return true;
}

static bool row_same(const struct rdt_row *row, const void *a, const void *b)
{
	switch (row->type) {
	case RDT_KEY_TEXT:
	case RDT_KEY_NQN:
		return rdt_config_same_text(rdt_row_pointer(row, a), rdt_row_pointer(row, b));
	case RDT_KEY_SIZE:
	case RDT_KEY_DURATION:
		return rdt_row_number_again(row, a) == rdt_row_number_again(row, b);
	case RDT_KEY_LIST:
		return same_list(row, a, b);
	case RDT_KEY_MAPPING:
		a = row->pointer ? rdt_row_pointer(row, a) : (const char *)a + row->at;
		b = row->pointer ? rdt_row_pointer(row, b) : (const char *)b + row->at;
		if (!a || !b)
			return a == b;
		for (RDT_EACH_ROW(r, row->section))
			if (!row_same(r, a, b))
				return false;
		return true;
	default:
		return rdt_row_number(row, a) == rdt_row_number(row, b);
	}
}

static void section_restarts(const struct rdt_section *s, const void *now, const void *next,
			     const char *where, rdt_config_restart_fn fn, void *arg)
{
	for (RDT_EACH_ROW(row, s))
		if (row->when == RDT_WHEN_RESTART && !row_same(row, now, next))
			fn(arg, where, row->name);
}

void rdt_config_restarts(const struct rdt_config *now, const struct rdt_config *next,
			 rdt_config_restart_fn fn, void *arg)
{
	section_restarts(rdt_row_find(&rdt_config_section, "target")->section, &now->target,
			 &next->target, "target:", fn, arg);
	section_restarts(rdt_row_find(&rdt_config_section, "control")->section, &now->control,
			 &next->control, "control:", fn, arg);
}

void rdt_config_subsys_restarts(const struct rdt_subsys_config *now,
				const struct rdt_subsys_config *next, rdt_config_restart_fn fn,
				void *arg)
{
	section_restarts(&rdt_subsys_section, now, next, next->nqn, fn, arg);
}

bool rdt_config_same_ns(const struct rdt_ns_config *a, const struct rdt_ns_config *b, bool served)
{
	for (RDT_EACH_ROW(row, &rdt_ns_section))
		if ((!served || row->when == RDT_WHEN_ANEW) && strcmp(row->name, "uuid") != 0 &&
		    !row_same(row, a, b))
			return false;
	/* Compare the effective UUID, even if the key is absent, and the keys of a cluster. */
	return memcmp(a->uuid_bytes, b->uuid_bytes, sizeof(a->uuid_bytes)) == 0 &&
	       (served || a->no_hosts == b->no_hosts) &&
	       rdt_config_same_ceph(a->rbd ? a->rbd->of : NULL, b->rbd ? b->rbd->of : NULL);
}

bool rdt_config_same_listener(const struct rdt_listener_config *a,
			      const struct rdt_listener_config *b)
{
	for (RDT_EACH_ROW(row, &rdt_listener_section))
		if (row->when == RDT_WHEN_ANEW && !row_same(row, a, b))
			return false;
	return true;
}

/* ---- values in files ---- */

static int parse_choice(const struct rdt_row *row, const char *text, uint64_t *value)
{
	for (const struct rdt_choice *c = row->choices; c->name; c++) {
		if (strcmp(c->name, text) != 0)
			continue;
		*value = (uint64_t)c->value;
		return 0;
	}
	return -EINVAL;
}

static int parse_bool(const char *text, uint64_t *value)
{
	*value = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
	return *value || strcmp(text, "false") == 0 || strcmp(text, "no") == 0 ? 0 : -EINVAL;
}

/* Leading zeroes, which some parsers read as octal, are refused. */
static int parse_number(const char *text, uint64_t *value)
{
	if (text[0] == '0' && text[1] && text[1] != 'x' && text[1] != 'X')
		return -EINVAL;
	return rd_parse_u64(text, 0, UINT64_MAX, value);
}

int rdt_row_parse(const struct rdt_row *row, const char *text, uint64_t *value)
{
	int rc;

	switch (row->type) {
	case RDT_KEY_NUMBER:
		rc = parse_number(text, value);
		break;
	case RDT_KEY_BOOL:
		return parse_bool(text, value);
	case RDT_KEY_CHOICE:
		return parse_choice(row, text, value);
	case RDT_KEY_SIZE:
		rc = rd_parse_size(text, value);
		break;
	default:
		rc = rd_parse_duration(text, value);
		break;
	}
	if (rc || (row->or_zero && *value == 0))
		return rc;
	if (row->choices)
		return rdt_choice_name(row->choices, (int64_t)*value) ? 0 : -ERANGE;
	if (*value < row->min || (row->max && *value > row->max) ||
	    (row->step && *value % row->step) || (row->power_of_2 && *value & (*value - 1)))
		return -ERANGE;
	return 0;
}

/* ---- texts ---- */

/* @value in the largest unit of @units that divides it. */
static const char *in_unit(uint64_t value, const struct rdt_choice *units, char buf[32])
{
	while (units[1].name && (value == 0 || value % (uint64_t)units->value))
		units++;
	snprintf(buf, 32, "%" PRIu64 "%s", value / (uint64_t)units->value,
		 value ? units->name : "");
	return buf;
}

static const char *value_with_unit(const struct rdt_row *row, uint64_t value, char buf[32])
{
	static const struct rdt_choice none[] = {{"", 1}, {NULL, 0}};
	static const struct rdt_choice sizes[] = {{"EiB", INT64_C(1) << 60},
						  {"TiB", INT64_C(1) << 40},
						  {"GiB", 1 << 30},
						  {"MiB", 1 << 20},
						  {"KiB", 1 << 10},
						  {"", 1},
						  {NULL, 0}};
	static const struct rdt_choice times[] = {{"h", INT64_C(3600000000000)},
						  {"s", 1000000000},
						  {"ms", 1000000},
						  {"us", 1000},
						  {NULL, 0}};

	return in_unit(value,
		       row->type == RDT_KEY_SIZE       ? sizes
		       : row->type == RDT_KEY_DURATION ? times
						       : none,
		       buf);
}

static void add_choices(const struct rdt_choice *choices, uint32_t mask, char *buf, size_t size)
{
	size_t len = strlen(buf);
	unsigned int left = 0, n = 0;

	for (const struct rdt_choice *c = choices; c->name; c++)
		left += mask == UINT32_MAX || mask >> c->value & 1;
	for (const struct rdt_choice *c = choices; c->name && len < size; c++) {
		if (mask != UINT32_MAX && !(mask >> c->value & 1))
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%s",
					!n++       ? ""
					: left > 1 ? ", "
						   : " or ",
					c->name);
		left--;
	}
}

const char *rdt_section_with(const struct rdt_section *s, uint32_t mask,
			     char buf[RDT_EXPECTED_TEXT])
{
	snprintf(buf, RDT_EXPECTED_TEXT, "%s ", s->selector);
	add_choices(rdt_row_find(s, s->selector)->choices, mask, buf, RDT_EXPECTED_TEXT);
	return buf;
}

const char *rdt_row_range(const struct rdt_row *row, char buf[RDT_EXPECTED_TEXT])
{
	char lo[32], hi[32], step[32], multiple[64] = "", zero[64] = "";
	const char *unit = row->unit ? row->unit : "";

	buf[0] = '\0';
	if (row->choices) {
		add_choices(row->choices, UINT32_MAX, buf, RDT_EXPECTED_TEXT);
	} else if (row->type == RDT_KEY_NUMBER || row->type == RDT_KEY_SIZE ||
		   row->type == RDT_KEY_DURATION) {
		if (row->step)
			snprintf(multiple, sizeof(multiple), "a multiple of %s, ",
				 value_with_unit(row, row->step, step));
		if (row->or_zero)
			snprintf(zero, sizeof(zero), "0 (%s) or ", row->or_zero);
		snprintf(buf, RDT_EXPECTED_TEXT, "%s%s%s%s to %s%s%s", zero,
			 row->power_of_2 ? "a power of two, " : "", multiple,
			 value_with_unit(row, row->min, lo), value_with_unit(row, row->max, hi),
			 unit[0] ? " " : "", unit);
	}
	return buf;
}

const char *rdt_row_expected(const struct rdt_row *row, char buf[RDT_EXPECTED_TEXT])
{
	char range[RDT_EXPECTED_TEXT];

	rdt_row_range(row, range);
	switch (row->type) {
	case RDT_KEY_NUMBER:
		snprintf(buf, RDT_EXPECTED_TEXT, "a whole number, %.280s", range);
		break;
	case RDT_KEY_BOOL:
		snprintf(buf, RDT_EXPECTED_TEXT, "true or false");
		break;
	case RDT_KEY_CHOICE:
		memcpy(buf, range, RDT_EXPECTED_TEXT);
		break;
	case RDT_KEY_SIZE:
		snprintf(buf, RDT_EXPECTED_TEXT, "a size such as 64KiB, %.280s", range);
		break;
	case RDT_KEY_DURATION:
		snprintf(buf, RDT_EXPECTED_TEXT, "a duration such as 20us, 200ms or 5s, %.250s",
			 range);
		break;
	case RDT_KEY_NQN:
		snprintf(buf, RDT_EXPECTED_TEXT, "a name such as nqn.2026-01.org.example:disk1");
		break;
	case RDT_KEY_LIST:
		snprintf(buf, RDT_EXPECTED_TEXT, "a sequence (lines starting with \"- \")");
		break;
	case RDT_KEY_MAPPING:
		snprintf(buf, RDT_EXPECTED_TEXT, "a mapping (lines of \"key: value\")");
		break;
	default:
		snprintf(buf, RDT_EXPECTED_TEXT, "%s", row->expected ? row->expected : "text");
		break;
	}
	return buf;
}
