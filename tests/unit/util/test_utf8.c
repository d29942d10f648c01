/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <string.h>

#include "util/utf8.h"

static void finds_sequences(void)
{
	static const struct {
		const char *text;
		size_t len, want;
	} rows[] = {
		{"a", 1, 1},
		{"\xc3\xa9", 2, 2},
		{"\xe2\x82\xac", 3, 3},
		{"\xf0\x9f\x98\x80", 4, 4},
		{"\xc3\xa9", 1, 0},         /* cut */
		{"\x80", 1, 0},             /* a continuation without a start */
		{"\xc0\x80", 2, 0},         /* overlong */
		{"\xe0\x80\x80", 3, 0},     /* overlong */
		{"\xed\xa0\x80", 3, 0},     /* a surrogate */
		{"\xf4\x90\x80\x80", 4, 0}, /* beyond U+10FFFF */
		{"\xff", 1, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CU_ASSERT_EQUAL(rd_utf8_len(rows[i].text, rows[i].len), rows[i].want);
}

static void masks_what_drives_a_terminal(void)
{
	static const char *const rows[][2] = {
		{"plain, caf\xc3\xa9, \xe2\x82\xac \xf0\x9f\x98\x80",
		 "plain, caf\xc3\xa9, \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\tb\nc", "a b c"},
		{"\x1b[2J\x7f", "?[2J?"},
		{"\xc2\x9b"
		 "2J",
		 "??2J"}, /* CSI as U+009B */
		{"\x9b"
		 "2J\x80\x9f",
		 "?2J??"},                /* ... and as a byte */
		{"\xc2\xa0", "\xc2\xa0"}, /* U+00A0 is a space */
		{"a\xe2\x80\xae"
		 "b",
		 "a???b"},                                        /* right-to-left override */
		{"\xe2\x81\xa6\xe2\x81\xa9", "??????"},           /* isolates */
		{"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "????????"}, /* marks */
		{"\xe2\x80\xa8\xe2\x80\xa9", "??????"},           /* line, paragraph separator */
		{"\xc3", "?"},
		{"\xe2\x82", "??"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char buf[64];

		strcpy(buf, rows[i][0]);
		rd_mask_control(buf, strlen(buf));
		CU_ASSERT_STRING_EQUAL(buf, rows[i][1]);
	}
}

const struct t_case t_utf8_cases[] = {
	{"sequences are found as Unicode has them", finds_sequences},
	{"what drives a terminal or turns a line is masked", masks_what_drives_a_terminal},
	{NULL, NULL},
};
