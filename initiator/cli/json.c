/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON on standard output. All integers of the output are unsigned, as those of the protocol are,
 * and jansson's are signed: a json_t holds the 64 bits of a number, and what is printed is their
 * unsigned value. Longer numbers are in an object with the one key BIG, which no verb has.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define BIG ""

const char *cli_u128_text(unsigned __int128 v, char buf[CLI_U128_TEXT])
{
	char *q = buf + CLI_U128_TEXT - 1;

	*q = '\0';
	do {
		*--q = (char)('0' + (int)(v % 10));
		v /= 10;
	} while (v);
	return q;
}

json_t *cli_json_u128(unsigned __int128 v)
{
	char buf[CLI_U128_TEXT];

	if (v <= UINT64_MAX)
		return json_integer((json_int_t)(uint64_t)v);
	return json_pack("{s:s}", BIG, cli_u128_text(v, buf));
}

struct json_out {
	FILE *f;
	bool lines; /* indented, a line for each value */
	int rc;
};

static void new_line(struct json_out *out, unsigned int depth)
{
	if (out->lines)
		fprintf(out->f, "\n%*s", (int)(2 * depth), "");
}

/* Strings, reals, true, false and null, as jansson writes them. */
static void write_scalar(struct json_out *out, const json_t *v)
{
	char *text = json_dumps(v, JSON_ENCODE_ANY);

	if (!text)
		out->rc = -ENOMEM;
	else
		fputs(text, out->f);
	free(text);
}

static void write_value(struct json_out *out, const json_t *v, unsigned int depth);

static void write_members(struct json_out *out, const json_t *v, unsigned int depth)
{
	void *it = json_object_iter((json_t *)v);
	json_t *key;

	fputc('{', out->f);
	for (; it; it = json_object_iter_next((json_t *)v, it)) {
		new_line(out, depth + 1);
		key = json_string(json_object_iter_key(it));
		write_scalar(out, key);
		json_decref(key);
		fputs(out->lines ? ": " : ":", out->f);
		write_value(out, json_object_iter_value(it), depth + 1);
		if (json_object_iter_next((json_t *)v, it))
			fputc(',', out->f);
	}
	if (json_object_size(v))
		new_line(out, depth);
	fputc('}', out->f);
}

static void write_items(struct json_out *out, const json_t *v, unsigned int depth)
{
	size_t i, n = json_array_size(v);

	fputc('[', out->f);
	for (i = 0; i < n; i++) {
		new_line(out, depth + 1);
		write_value(out, json_array_get(v, i), depth + 1);
		if (i + 1 < n)
			fputc(',', out->f);
	}
	if (n)
		new_line(out, depth);
	fputc(']', out->f);
}

static void write_value(struct json_out *out, const json_t *v, unsigned int depth)
{
	const json_t *big = json_object_get(v, BIG);

	if (json_is_integer(v))
		fprintf(out->f, "%" PRIu64, (uint64_t)json_integer_value(v));
	else if (big)
		fputs(json_string_value(big), out->f);
	else if (json_is_object(v))
		write_members(out, v, depth);
	else if (json_is_array(v))
		write_items(out, v, depth);
	else
		write_scalar(out, v);
}

static int write_document(json_t *json, FILE *f, bool lines)
{
	struct json_out out = {.f = f, .lines = lines, .rc = json ? 0 : -ENOMEM};

	if (json)
		write_value(&out, json, 0);
	json_decref(json);
	if (out.rc || fputc('\n', f) == EOF || fflush(f) || ferror(f))
		return cli_error("cannot write the output: %s", strerror(errno ? errno : ENOMEM));
	return CLI_OK;
}

int cli_print_json(json_t *json, FILE *out)
{
	return write_document(json, out, true);
}

int cli_print_json_line(json_t *json)
{
	return write_document(json, stdout, false);
}
