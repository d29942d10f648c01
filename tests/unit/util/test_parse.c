/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <errno.h>
#include <string.h>

#include "util/parse.h"

struct sample {
	const char *text;
	int rc;
	uint64_t value;
};

static void check(const struct sample *samples, int (*fn)(const char *, uint64_t *))
{
	for (; samples->text; samples++) {
		uint64_t value = 12345;
		int rc = fn(samples->text, &value);

		if (rc != samples->rc || value != (rc ? 12345 : samples->value))
			printf("# \"%s\": rc %d value %llu\n", samples->text, rc,
			       (unsigned long long)value);
		CU_ASSERT_EQUAL(rc, samples->rc);
		CU_ASSERT_EQUAL(value, rc ? 12345 : samples->value);
	}
}

static void parse_sizes(void)
{
	static const struct sample samples[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"4k", 0, 4096},
		{"4K", 0, 4096},
		{"4KiB", 0, 4096},
		{"4kib", 0, 4096},
		{"4kB", 0, 4000},
		{"1M", 0, 1048576},
		{"1MB", 0, 1000000},
		{"1.5GiB", 0, UINT64_C(1610612736)},
		{"0.5k", 0, 512},
		{"2T", 0, UINT64_C(2) << 40},
		{"3tb", 0, UINT64_C(3000000000000)},
		{"512B", 0, 512},
		{"16777215T", 0, UINT64_C(16777215) << 40},
		{"16777216T", -ERANGE, 0},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999T", -ERANGE, 0},
		{"99999999999999999999999x", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"k", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1 k", -EINVAL, 0},
		{"1kk", -EINVAL, 0},
		{"1Ki", -EINVAL, 0},
		{"1.5", -EINVAL, 0},
		{"1.k", -EINVAL, 0},
		{".5k", -EINVAL, 0},
		{"1.0000000001k", -EINVAL, 0},
		{"0x1000", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{NULL, 0, 0},
	};

	check(samples, rd_parse_size);
}

static void durations(void)
{
	static const struct sample samples[] = {
		{"0", 0, 0},
		{"0s", 0, 0},
		{"5s", 0, UINT64_C(5000000000)},
		{"200ms", 0, 200000000},
		{"10us", 0, 10000},
		{"7ns", 0, 7},
		{"2m", 0, UINT64_C(120000000000)},
		{"1h", 0, UINT64_C(3600000000000)},
		{"1.5s", 0, UINT64_C(1500000000)},
		{"0.25us", 0, 250},
		{"5124095h", 0, UINT64_C(5124095) * 3600 * 1000000000},
		{"5124096h", -ERANGE, 0},
		{"5", -EINVAL, 0},
		{"00", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"5 s", -EINVAL, 0},
		{"5d", -EINVAL, 0},
		{"1.5ns", -EINVAL, 0},
		{"-5s", -EINVAL, 0},
		{NULL, 0, 0},
	};

	check(samples, rd_parse_duration);
}

static int u64_any(const char *text, uint64_t *value)
{
	return rd_parse_u64(text, 0, UINT64_MAX, value);
}

static int u64_1_to_100(const char *text, uint64_t *value)
{
	return rd_parse_u64(text, 1, 100, value);
}

static void numbers(void)
{
	static const struct sample any[] = {
		{"0", 0, 0},
		{"007", 0, 7},
		{"0x1F", 0, 31},
		{"0Xff", 0, 255},
		{"0xffffffffffffffff", 0, UINT64_MAX},
		{"0x10000000000000000", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999z", -EINVAL, 0},
		{"0x", -EINVAL, 0},
		{"0xg", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"1.0", -EINVAL, 0},
		{"1k", -EINVAL, 0},
		{NULL, 0, 0},
	};
	static const struct sample ranged[] = {
		{"0", -ERANGE, 0}, {"1", 0, 1}, {"100", 0, 100}, {"101", -ERANGE, 0}, {NULL, 0, 0},
	};

	check(any, u64_any);
	check(ranged, u64_1_to_100);
}

static void hex(void)
{
	static const char *const bad[] = {"", "00ff1", "00ff1ab", "00FF1A", "0x00ff", "00ff1g"};
	uint8_t bytes[3] = {0};
	char text[7];

	CU_ASSERT_EQUAL(rd_parse_hex("00ff1a", bytes, sizeof(bytes)), 0);
	CU_ASSERT(bytes[0] == 0 && bytes[1] == 0xff && bytes[2] == 0x1a);
	rd_format_hex(bytes, sizeof(bytes), text);
	CU_ASSERT_STRING_EQUAL(text, "00ff1a");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(rd_parse_hex(bad[i], bytes, sizeof(bytes)), -EINVAL);
}

static void sizes_as_text(void)
{
	char buf[RD_SIZE_TEXT];

	CU_ASSERT_STRING_EQUAL(rd_format_size(0, buf), "0 B");
	CU_ASSERT_STRING_EQUAL(rd_format_size(512, buf), "512 B");
	CU_ASSERT_STRING_EQUAL(rd_format_size(1023, buf), "1023 B");
	CU_ASSERT_STRING_EQUAL(rd_format_size(1024, buf), "1.0 KiB");
	CU_ASSERT_STRING_EQUAL(rd_format_size(1536, buf), "1.5 KiB");
	CU_ASSERT_STRING_EQUAL(rd_format_size(UINT64_C(1) << 30, buf), "1.0 GiB");
	CU_ASSERT_STRING_EQUAL(rd_format_size((UINT64_C(1) << 20) - 1, buf), "1.0 MiB");
	CU_ASSERT_STRING_EQUAL(rd_format_size(UINT64_MAX, buf), "16.0 EiB");
}

const struct t_case t_parse_cases[] = {
	{"reads sizes with units and nothing else", parse_sizes},
	{"reads durations with units and nothing else", durations},
	{"reads whole numbers in a range", numbers},
	{"reads and prints bytes", hex},
	{"prints sizes", sizes_as_text},
	{NULL, NULL},
};
