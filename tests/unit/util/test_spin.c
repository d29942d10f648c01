/* SPDX-License-Identifier: BSD-3-Clause */
/* When to poll for work and when to sleep. */
#include <CUnit/CUnit.h>

#include "suites.h"
#include "util/spin.h"

#define US    UINT64_C(1000)
#define LOOK  (50 * US)
#define NEVER UINT64_MAX

static void note_some(struct rd_spin *spin, uint64_t gap, int count)
{
	for (int i = 0; i < count; i++)
		rd_spin_note(spin, gap);
}

static void looks_for_its_time(void)
{
	struct rd_spin spin = {.ns = LOOK};

	CU_ASSERT(rd_spin_looks(&spin, 0));
	CU_ASSERT(rd_spin_looks(&spin, LOOK - 1));
	CU_ASSERT_FALSE(rd_spin_looks(&spin, LOOK));
	CU_ASSERT_FALSE(rd_spin_looks(&spin, NEVER));
}

static void not_at_all_without_any(void)
{
	struct rd_spin spin = {.ns = 0};

	note_some(&spin, 10 * US, 20);
	note_some(&spin, 300 * US, 20);
	CU_ASSERT_FALSE(rd_spin_looks(&spin, 0));
}

static void only_while_gaps_are_short(void)
{
	const uint64_t short_gap = LOOK + RD_SPIN_WAKE_NS, long_gap = 10000 * US;
	struct rd_spin spin = {.ns = LOOK};

	note_some(&spin, long_gap, RD_SPIN_MISSES - 1);
	CU_ASSERT(rd_spin_looks(&spin, 0));
	rd_spin_note(&spin, short_gap);
	note_some(&spin, long_gap, RD_SPIN_MISSES - 1);
	CU_ASSERT(rd_spin_looks(&spin, 0));
	rd_spin_note(&spin, NEVER);
	CU_ASSERT_FALSE(rd_spin_looks(&spin, 0));
	rd_spin_note(&spin, short_gap);
	CU_ASSERT(rd_spin_looks(&spin, 0));

	/* However regular they are. */
	spin = (struct rd_spin){.ns = LOOK};
	note_some(&spin, short_gap + 1, RD_SPIN_MISSES);
	CU_ASSERT_FALSE(rd_spin_looks(&spin, 0));
}

const struct t_case t_spin_cases[] = {
	{"looks for its time, then sleeps", looks_for_its_time},
	{"never looks where that was asked for", not_at_all_without_any},
	{"looks only while gaps are short", only_while_gaps_are_short},
	{NULL, NULL},
};
