/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Unicode, table 3-7: no overlong forms, no surrogates. */
size_t rd_utf8_len(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char c = s[0], lo = 0x80, hi = 0xbf;
	size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	if (n < 2)
		return n;
	if (c == 0xe0)
		lo = 0xa0;
	else if (c == 0xed)
		hi = 0x9f;
	else if (c == 0xf0)
		lo = 0x90;
	else if (c == 0xf4)
		hi = 0x8f;
	if (len < n || s[1] < lo || s[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/*
 * The character of a well-formed sequence of two or three bytes; longer sequences never need
 * masking.
 */
static uint32_t utf8_char(const unsigned char *s, size_t n)
{
	if (n == 2)
		return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
	return n == 3 ? (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu) : 0xffff;
}

/*
 * Beyond ASCII: C1 controls act on terminals, the others change the direction of a line or end it.
 */
static bool is_control(uint32_t c)
{
	return (c >= 0x80 && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void rd_mask_control(char *text, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		unsigned char c = (unsigned char)text[i];

		n = rd_utf8_len(text + i, len - i);
		if (n == 1 && (c < 0x20 || c == 0x7f)) {
			text[i] = c == '\t' || c == '\n' ? ' ' : '?';
		} else if (n == 0) {
			text[i] = '?';
			n = 1;
		} else if (n > 1 && is_control(utf8_char((unsigned char *)text + i, n))) {
			memset(text + i, '?', n);
		}
	}
}
