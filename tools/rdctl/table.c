/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/parse.h"
#include "util/utf8.h"

#define CELL_TEXT 512

static void list_text(const json_t *list, char *buf, size_t size)
{
	char part[CELL_TEXT];
	size_t len = 0, i;
	json_t *element;

	json_array_foreach(list, i, element)
	{
		rdctl_text(element, RDCTL_TEXT, part, sizeof(part));
		if (len < size)
			len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? "," : "", part);
	}
}

static void object_text(json_t *object, char *buf, size_t size)
{
	char part[CELL_TEXT];
	const char *key;
	size_t len = 0;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		rdctl_text(value, RDCTL_TEXT, part, sizeof(part));
		if (len < size)
			len += (size_t)snprintf(buf + len, size - len, "%s%s=%s", len ? "," : "",
						key, part);
	}
}

const char *rdctl_time(double seconds, char *buf, size_t size)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};

	snprintf(buf, size, seconds > 0 ? "<1us" : "-");
	for (int i = 0; i < 3; i++) {
		double value = seconds / units[i].unit;

		if (value < 1)
			continue;
		snprintf(buf, size, value < 10 ? "%.1f%s" : "%.0f%s", value, units[i].name);
		break;
	}
	return buf;
}

const char *rdctl_text(const json_t *value, enum rdctl_kind kind, char *buf, size_t size)
{
	char bytes[RD_SIZE_TEXT];

	snprintf(buf, size, "-");
	if (json_is_string(value) && json_string_value(value)[0])
		snprintf(buf, size, "%s", json_string_value(value));
	else if (json_is_integer(value) && kind == RDCTL_BYTES)
		snprintf(buf, size, "%s",
			 rd_format_size((uint64_t)json_integer_value(value), bytes));
	else if (json_is_integer(value))
		snprintf(buf, size, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value) && kind == RDCTL_TIME)
		rdctl_time(json_real_value(value), buf, size);
	else if (json_is_real(value))
		snprintf(buf, size, "%.3f", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, size, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_array_size(value))
		list_text(value, buf, size);
	else if (json_object_size(value))
		object_text((json_t *)value, buf, size);
	rd_mask_control(buf, strlen(buf));
	return buf;
}

static int width_of(const json_t *list, const struct rdctl_column *c)
{
	size_t width = strlen(c->title), i;
	char text[CELL_TEXT];
	json_t *row;

	json_array_foreach(list, i, row)
	{
		size_t len = strlen(
			rdctl_text(json_object_get(row, c->key), c->kind, text, sizeof(text)));

		if (len > width)
			width = len;
	}
	return (int)width;
}

#define COLUMNS      16
#define IDENTITY_MIN 20 /* a shorter one is not cut further */
#define COLUMN_GAP   2

struct layout {
	int widths[COLUMNS]; /* 0: the column is left out */
	int last;            /* the last column that is shown */
};

/* The width of all that is shown. */
static int width_of_all(const struct layout *l)
{
	int sum = 0;

	for (int n = 0; n <= l->last; n++)
		if (l->widths[n])
			sum += l->widths[n] + (sum ? COLUMN_GAP : 0);
	return sum;
}

/* Leaves out columns from the end, while @width is not enough even for identities that are cut. */
static void leave_out(struct layout *l, const struct rdctl_column *columns, int width)
{
	for (int n = l->last; n >= 0; n--) {
		struct layout cut = *l;

		for (int i = 0; i <= l->last; i++)
			if (columns[i].identity && cut.widths[i] > IDENTITY_MIN)
				cut.widths[i] = IDENTITY_MIN;
		if (width_of_all(&cut) <= width)
			break;
		if (!columns[n].identity)
			l->widths[n] = 0;
	}
	while (l->last > 0 && !l->widths[l->last])
		l->last--;
}

static void lay_out(struct layout *l, const json_t *list, const struct rdctl_column *columns,
		    unsigned int width)
{
	*l = (struct layout){.last = -1};
	while (l->last + 1 < COLUMNS && columns[l->last + 1].title) {
		l->last++;
		l->widths[l->last] = width_of(list, &columns[l->last]);
	}
	if (!width || width_of_all(l) <= (int)width)
		return;
	leave_out(l, columns, (int)width);
	for (int n = 0; n <= l->last; n++) {
		int over = width_of_all(l) - (int)width;

		if (columns[n].identity && over > 0 && l->widths[n] > IDENTITY_MIN)
			l->widths[n] -= over < l->widths[n] - IDENTITY_MIN
						? over
						: l->widths[n] - IDENTITY_MIN;
	}
}

/* No blanks after the last column. */
static void print_cell(const struct layout *l, const struct rdctl_column *columns, int n,
		       const char *text)
{
	int width = l->widths[n];
	size_t len = strlen(text);
	bool cut = len > (size_t)width;

	if (!width)
		return;
	if (cut)
		printf("\u2026%s", text + len - (size_t)width + 1);
	else if (columns[n].kind == RDCTL_TEXT)
		printf("%-*s", n == l->last ? 0 : width, text);
	else
		printf("%*s", width, text);
	printf("%*s", n == l->last ? 0 : COLUMN_GAP, "");
}

void rdctl_table_within(const json_t *list, const struct rdctl_column *columns, unsigned int width)
{
	struct layout l;
	char text[CELL_TEXT];
	json_t *row;
	size_t i;

	lay_out(&l, list, columns, width);
	for (int n = 0; n <= l.last; n++)
		print_cell(&l, columns, n, columns[n].title);
	putchar('\n');
	json_array_foreach(list, i, row)
	{
		for (int n = 0; n <= l.last; n++)
			print_cell(&l, columns, n,
				   rdctl_text(json_object_get(row, columns[n].key), columns[n].kind,
					      text, sizeof(text)));
		putchar('\n');
	}
}

void rdctl_table(const json_t *list, const struct rdctl_column *columns)
{
	rdctl_table_within(list, columns, 0);
}

void rdctl_record(const json_t *object, const struct rdctl_column *columns)
{
	char text[CELL_TEXT];

	for (const struct rdctl_column *c = columns; c->title; c++)
		printf("%-22s %s\n", c->title,
		       rdctl_text(json_object_get(object, c->key), c->kind, text, sizeof(text)));
}

void rdctl_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	putchar('\n');
}
