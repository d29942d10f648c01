/* SPDX-License-Identifier: BSD-3-Clause */
#include "suites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/buddy.h"

#define UNIT   512u
#define MAX    8192u
#define REGION (4 * MAX)

/* The allocator never touches it, so it need not be memory. */
static char *const fake_base = (char *)UINT64_C(0x7000000000);

static void refuses_bad_geometry(void)
{
	struct rd_buddy *b T_ENDS(rd_buddy_destroy) = NULL;

	CU_ASSERT_EQUAL(rd_buddy_create(fake_base, REGION + UNIT, UNIT, MAX, &b), -EINVAL);
	CU_ASSERT_EQUAL(rd_buddy_create(fake_base, REGION, 500, MAX, &b), -EINVAL);
	CU_ASSERT_EQUAL(rd_buddy_create(fake_base, REGION, UNIT, MAX + UNIT, &b), -EINVAL);
	CU_ASSERT_EQUAL(rd_buddy_create(fake_base, REGION, MAX, UNIT, &b), -EINVAL);
	CU_ASSERT_EQUAL(rd_buddy_create(fake_base, 0, UNIT, MAX, &b), -EINVAL);
	CU_ASSERT_EQUAL(rd_buddy_create(NULL, REGION, UNIT, MAX, &b), -EINVAL);
	CU_ASSERT_PTR_NULL(b);
}

static void sizes_are_rounded_and_bounded(void)
{
	struct rd_buddy *b;
	void *p;

	CU_ASSERT_EQUAL_FATAL(rd_buddy_create(fake_base, REGION, UNIT, MAX, &b), 0);
	CU_ASSERT_EQUAL(rd_buddy_total_bytes(b), REGION);
	CU_ASSERT_PTR_NULL(rd_buddy_alloc(b, 0));
	CU_ASSERT_PTR_NULL(rd_buddy_alloc(b, MAX + 1));
	CU_ASSERT_PTR_NULL(rd_buddy_alloc(b, SIZE_MAX));
	p = rd_buddy_alloc(b, 1);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(b), REGION - UNIT);
	rd_buddy_free(b, p, 1);
	p = rd_buddy_alloc(b, UNIT + 1);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(b), REGION - 2 * UNIT);
	rd_buddy_free(b, p, UNIT + 1);
	rd_buddy_free(b, NULL, UNIT);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(b), REGION);
	CU_ASSERT_EQUAL(rd_buddy_block(b, 1), UNIT);
	CU_ASSERT_EQUAL(rd_buddy_block(b, UNIT), UNIT);
	CU_ASSERT_EQUAL(rd_buddy_block(b, UNIT + 1), 2 * UNIT);
	CU_ASSERT_EQUAL(rd_buddy_block(b, MAX), MAX);
	CU_ASSERT_TRUE(rd_buddy_owns(b, fake_base));
	CU_ASSERT_TRUE(rd_buddy_owns(b, fake_base + REGION - 1));
	CU_ASSERT_FALSE(rd_buddy_owns(b, fake_base + REGION));
	CU_ASSERT_FALSE(rd_buddy_owns(b, fake_base - 1));
	rd_buddy_destroy(&b);
	CU_ASSERT_PTR_NULL(b);
}

static void all_is_usable_and_merges_again(void)
{
	void *units[REGION / UNIT], *big[REGION / MAX];
	struct rd_buddy *b T_ENDS(rd_buddy_destroy) = NULL;

	CU_ASSERT_EQUAL_FATAL(rd_buddy_create(fake_base, REGION, UNIT, MAX, &b), 0);
	for (size_t i = 0; i < REGION / UNIT; i++) {
		units[i] = rd_buddy_alloc(b, UNIT);
		CU_ASSERT_PTR_NOT_NULL(units[i]);
	}
	CU_ASSERT_PTR_NULL(rd_buddy_alloc(b, 1));
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(b), 0);
	/* Free every second one: half is free, without two free neighbours. */
	for (size_t i = 0; i < REGION / UNIT; i += 2)
		rd_buddy_free(b, units[i], UNIT);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(b), REGION / 2);
	CU_ASSERT_PTR_NULL(rd_buddy_alloc(b, UNIT + 1));
	for (size_t i = 1; i < REGION / UNIT; i += 2)
		rd_buddy_free(b, units[i], UNIT);
	for (size_t i = 0; i < REGION / MAX; i++) {
		big[i] = rd_buddy_alloc(b, MAX);
		CU_ASSERT_PTR_NOT_NULL(big[i]);
	}
	CU_ASSERT_PTR_NULL(rd_buddy_alloc(b, 1));
	for (size_t i = 0; i < REGION / MAX; i++)
		rd_buddy_free(b, big[i], MAX);
}

struct held {
	char *ptr;
	size_t len;
	size_t rounded;
};

static size_t round_up(size_t len)
{
	size_t r = UNIT;

	while (r < len)
		r *= 2;
	return r;
}

/* Mark or unmark a block in the shadow map. Returns false if a unit was not in the expected
 * state. */
static bool shadow_set(bool *shadow, const struct held *h, bool value)
{
	size_t first = (size_t)(h->ptr - fake_base) / UNIT;
	bool ok = true;

	for (size_t i = first; i < first + h->rounded / UNIT; i++) {
		ok &= shadow[i] != value;
		shadow[i] = value;
	}
	return ok;
}

static void random_use_never_overlaps(void)
{
	bool shadow[REGION / UNIT] = {false}, ok = true;
	struct held held[REGION / UNIT];
	struct rd_buddy *b T_ENDS(rd_buddy_destroy) = NULL;
	size_t n = 0, used = 0;
	unsigned int seed = 7;

	CU_ASSERT_EQUAL_FATAL(rd_buddy_create(fake_base, REGION, UNIT, MAX, &b), 0);
	for (int round = 0; round < 20000; round++) {
		if (n && rand_r(&seed) % 2) {
			size_t i = (size_t)rand_r(&seed) % n;

			ok &= shadow_set(shadow, &held[i], false);
			used -= held[i].rounded;
			rd_buddy_free(b, held[i].ptr, held[i].len);
			held[i] = held[--n];
		} else {
			struct held h = {.len = 1 + (size_t)rand_r(&seed) % MAX};

			h.rounded = round_up(h.len);
			h.ptr = rd_buddy_alloc(b, h.len);
			if (!h.ptr)
				continue;
			ok &= (size_t)(h.ptr - fake_base) % h.rounded == 0;
			ok &= shadow_set(shadow, &h, true);
			used += h.rounded;
			held[n++] = h;
		}
		ok &= rd_buddy_free_bytes(b) == REGION - used;
	}
	CU_ASSERT_TRUE(ok);
	while (n--)
		rd_buddy_free(b, held[n].ptr, held[n].len);
	for (size_t i = 0; i < REGION / MAX; i++)
		CU_ASSERT_PTR_NOT_NULL(rd_buddy_alloc(b, MAX));
}

const struct t_case t_buddy_cases[] = {
	{"refuses a geometry it cannot manage", refuses_bad_geometry},
	{"rounds sizes up to a power of two of units", sizes_are_rounded_and_bounded},
	{"hands out everything and merges what comes back", all_is_usable_and_merges_again},
	{"random use never overlaps and keeps alignment", random_use_never_overlaps},
	{NULL, NULL},
};
