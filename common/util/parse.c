/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"", 1},
	{"b", 1},
	{"k", UINT64_C(1) << 10},
	{"kib", UINT64_C(1) << 10},
	{"kb", UINT64_C(1000)},
	{"m", UINT64_C(1) << 20},
	{"mib", UINT64_C(1) << 20},
	{"mb", UINT64_C(1000000)},
	{"g", UINT64_C(1) << 30},
	{"gib", UINT64_C(1) << 30},
	{"gb", UINT64_C(1000000000)},
	{"t", UINT64_C(1) << 40},
	{"tib", UINT64_C(1) << 40},
	{"tb", UINT64_C(1000000000000)},
	{NULL, 0},
};

static const struct unit duration_units[] = {
	{"ns", 1},
	{"us", UINT64_C(1000)},
	{"ms", UINT64_C(1000000)},
	{"s", UINT64_C(1000000000)},
	{"m", UINT64_C(60) * 1000000000},
	{"h", UINT64_C(3600) * 1000000000},
	{NULL, 0},
};

/* Enough for a tenth of a nanosecond in an hour; further digits are ignored. */
#define FRACTION_DIGITS_MAX 9

/* Parses decimal digits at *@text and advances it. Returns 0, -EINVAL (none) or -ERANGE. */
static int take_digits(const char **text, uint64_t *value)
{
	const char *p = *text;
	uint64_t v = 0;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -ERANGE;
	}
	*text = p;
	*value = v;
	return 0;
}

/* Parses an optional ".digits" at *@text as @numerator / @denominator. */
static int take_fraction(const char **text, uint64_t *numerator, uint64_t *denominator)
{
	const char *start = *text + 1;
	int rc;

	*numerator = 0;
	*denominator = 1;
	if (**text != '.')
		return 0;
	*text = start;
	rc = take_digits(text, numerator);
	if (rc)
		return -EINVAL;
	if (*text - start > FRACTION_DIGITS_MAX)
		return -EINVAL;
	for (const char *p = start; p < *text; p++)
		*denominator *= 10;
	return 0;
}

static const struct unit *find_unit(const struct unit *units, const char *name)
{
	for (; units->name; units++) {
		if (strcasecmp(units->name, name) == 0)
			return units;
	}
	return NULL;
}

static int parse_with_unit(const char *text, const struct unit *units, uint64_t *value)
{
	uint64_t whole = 0, num, den, result;
	const struct unit *unit;
	const char *p = text;
	int rc;

	rc = take_digits(&p, &whole);
	if (rc == -EINVAL)
		return rc;
	if (rc == -ERANGE) /* 99999999999999999999x is -EINVAL, not -ERANGE */
		p += strspn(p, "0123456789");
	if (take_fraction(&p, &num, &den))
		return -EINVAL;
	unit = find_unit(units, p);
	if (!unit)
		return -EINVAL;
	if (rc)
		return rc;
	if (den > 1 && unit->factor == 1)
		return -EINVAL; /* a fraction of a byte or of a nanosecond */
	if (__builtin_mul_overflow(whole, unit->factor, &result) ||
	    __builtin_add_overflow(result, (uint64_t)((unsigned __int128)num * unit->factor / den),
				   &result))
		return -ERANGE;
	*value = result;
	return 0;
}

int rd_parse_size(const char *text, uint64_t *bytes)
{
	return parse_with_unit(text, size_units, bytes);
}

int rd_parse_duration(const char *text, uint64_t *ns)
{
	if (strcmp(text, "0") == 0) {
		*ns = 0;
		return 0;
	}
	return parse_with_unit(text, duration_units, ns);
}

static int take_hex(const char **text, uint64_t *value)
{
	const char *p = *text;
	uint64_t v = 0;

	if (!isxdigit((unsigned char)*p))
		return -EINVAL;
	for (; isxdigit((unsigned char)*p); p++) {
		int digit = isdigit((unsigned char)*p) ? *p - '0'
						       : tolower((unsigned char)*p) - 'a' + 10;

		if (v >> 60)
			return -ERANGE;
		v = v << 4 | (uint64_t)digit;
	}
	*text = p;
	*value = v;
	return 0;
}

int rd_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *p = hex ? text + 2 : text;
	const char *rest = p + strspn(p, hex ? "0123456789abcdefABCDEF" : "0123456789");
	uint64_t v = 0;
	int rc;

	if (rest == p || *rest != '\0')
		return -EINVAL;
	rc = hex ? take_hex(&p, &v) : take_digits(&p, &v);
	if (rc)
		return rc;
	if (v < min || v > max)
		return -ERANGE;
	*value = v;
	return 0;
}

int rd_parse_hex(const char *text, uint8_t *bytes, size_t n)
{
	if (strlen(text) != 2 * n || strspn(text, "0123456789abcdef") != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return 0;
}

void rd_format_hex(const uint8_t *bytes, size_t n, char *text)
{
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

const char *rd_format_size(uint64_t bytes, char buf[RD_SIZE_TEXT])
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned int unit = 0;
	double value = (double)bytes;

	if (bytes < 1024) {
		snprintf(buf, RD_SIZE_TEXT, "%u B", (unsigned int)bytes);
		return buf;
	}
	/* 1023.95 would print as "1024.0" of the smaller unit. */
	while (value >= 1023.95 && unit + 1 < sizeof(names) / sizeof(names[0])) {
		value /= 1024;
		unit++;
	}
	if (unit == 0) {
		value /= 1024;
		unit = 1;
	}
	snprintf(buf, RD_SIZE_TEXT, "%.1f %s", value, names[unit]);
	return buf;
}
