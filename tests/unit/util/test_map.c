/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <stdbool.h>
#include <stdlib.h>

#include "util/map.h"

#define KEYS 5000u

static int values[KEYS];

/* Neighbours, and keys that differ in their upper half only, as NSIDs of several subsystems do. */
static uint64_t map_key_of(unsigned int i)
{
	return (uint64_t)(i % 7) << 32 | (i / 7);
}

static void finds_what_was_put(void)
{
	struct rd_map map;

	CU_ASSERT_EQUAL_FATAL(rd_map_init(&map), 0);
	CU_ASSERT_PTR_NULL(rd_map_get(&map, 0));
	for (unsigned int i = 0; i < KEYS; i++)
		CU_ASSERT_EQUAL(rd_map_put(&map, map_key_of(i), &values[i]), 0);
	CU_ASSERT_EQUAL(map.count, KEYS);
	CU_ASSERT_TRUE((size_t)map.count * 2 <= (size_t)1 << map.bits);
	for (unsigned int i = 0; i < KEYS; i++)
		CU_ASSERT_PTR_EQUAL(rd_map_get(&map, map_key_of(i)), &values[i]);
	CU_ASSERT_PTR_NULL(rd_map_get(&map, map_key_of(KEYS)));
	rd_map_fini(&map);
	rd_map_fini(&map);
}

/* After removals in any order, the others are found. */
static void removing_hides_nothing(void)
{
	bool there[KEYS] = {false};
	unsigned int count = 0;
	struct rd_map map T_ENDS(rd_map_fini);

	srandom(1);
	CU_ASSERT_EQUAL_FATAL(rd_map_init(&map), 0);
	CU_ASSERT_EQUAL(rd_map_reserve(&map, 600), 0);
	for (unsigned int n = 0; n < 40000; n++) {
		unsigned int i = (unsigned int)random() % 1000;

		if (there[i])
			rd_map_remove(&map, map_key_of(i));
		else
			CU_ASSERT_EQUAL(rd_map_put(&map, map_key_of(i), &values[i]), 0);
		there[i] = !there[i];
		count += there[i] ? 1 : -1u;
		i = (unsigned int)random() % 1000;
		CU_ASSERT_PTR_EQUAL(rd_map_get(&map, map_key_of(i)), there[i] ? &values[i] : NULL);
	}
	CU_ASSERT_EQUAL(map.count, count);
	for (unsigned int i = 0; i < 1000; i++)
		CU_ASSERT_PTR_EQUAL(rd_map_get(&map, map_key_of(i)), there[i] ? &values[i] : NULL);
	rd_map_remove(&map, map_key_of(4000)); /* never there */
	CU_ASSERT_EQUAL(map.count, count);
}

const struct t_case t_map_cases[] = {
	{"finds what was put", finds_what_was_put},
	{"removing hides nothing", removing_hides_nothing},
	{NULL, NULL},
};
