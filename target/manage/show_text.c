/* SPDX-License-Identifier: BSD-3-Clause */
/* Names that hosts have chosen, as text. */
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"

json_t *rdt_show_text(const char *text)
{
	size_t len = strlen(text), n;
	char *copy = strdup(text);
	json_t *string;

	if (!copy)
		return NULL;
	for (size_t at = 0; at < len; at += n + !n) {
		n = rd_utf8_len(text + at, len - at);
		if (!n)
			copy[at] = '?';
	}
	string = json_string(copy);
	free(copy);
	return string;
}

size_t rdt_show_plain(const char *text, size_t len)
{
	size_t n = rd_utf8_len(text, len);
	char copy[8];

	if (!n || *text == '\\')
		return 0;
	memcpy(copy, text, n);
	rd_mask_control(copy, n);
	return memcmp(copy, text, n) == 0 ? n : 0;
}

json_t *rdt_show_name(const char *name)
{
	size_t left = strlen(name), n;
	char *text = malloc(4 * left + 1), *to = text;
	json_t *string;

	if (!text)
		return NULL;
	for (; left; name += n, left -= n) {
		n = rdt_show_plain(name, left);
		if (n) {
			memcpy(to, name, n);
			to += n;
		} else {
			n = 1;
			to += sprintf(to, "\\x%02x", (unsigned char)*name);
		}
	}
	string = json_stringn(text, (size_t)(to - text));
	free(text);
	return string;
}
