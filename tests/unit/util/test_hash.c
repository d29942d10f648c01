/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/hash.h"

#include <string.h>

#include "suites.h"

/* Input: the bytes 0, 1, 2, and so on. The values for 0 and 15 bytes are published with SipHash,
 * the others are those of an independent program. */
static void values_are_those_of_siphash(void)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} cases[] = {
		{0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
		{7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
		{15, UINT64_C(0xa129ca6149be45e5)}, {16, UINT64_C(0x3f2acc7f57c29bdb)},
	};
	struct rd_hash_key key;
	uint8_t data[16];

	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	memcpy(&key, data, sizeof(key));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_EQUAL(rd_hash(&key, data, cases[i].len), cases[i].hash);
}

static void keys_differ(void)
{
	struct rd_hash_key a, b;

	CU_ASSERT_EQUAL_FATAL(rd_hash_key_init(&a), 0);
	CU_ASSERT_EQUAL_FATAL(rd_hash_key_init(&b), 0);
	CU_ASSERT_NOT_EQUAL(rd_hash(&a, "name", 4), rd_hash(&b, "name", 4));
}

const struct t_case t_hash_cases[] = {
	{"values are those of SipHash-2-4", values_are_those_of_siphash},
	{"each key gives other values", keys_differ},
	{NULL, NULL},
};
