/* SPDX-License-Identifier: BSD-3-Clause */
/* When to look for work and when to sleep. */
#include <CUnit/CUnit.h>
#include <stdlib.h>

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

	CU_ASSERT(rd_spin_looks(&spin));
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), 0);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, LOOK - 1), 0);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, LOOK), NEVER);
}

static void not_at_all_without_any(void)
{
	struct rd_spin spin = {.ns = 0};

	note_some(&spin, 10 * US, 20);
	note_some(&spin, 300 * US, 20);
	CU_ASSERT_FALSE(rd_spin_looks(&spin));
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), NEVER);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 300 * US), NEVER);
}

static void only_while_gaps_are_short(void)
{
	const uint64_t short_gap = LOOK + RD_SPIN_WAKE_NS, long_gap = 10000 * US;
	struct rd_spin spin = {.ns = LOOK};

	note_some(&spin, long_gap, RD_SPIN_MISSES - 1);
	CU_ASSERT(rd_spin_looks(&spin));
	rd_spin_note(&spin, short_gap);
	note_some(&spin, long_gap, RD_SPIN_MISSES - 1);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), 0);
	rd_spin_note(&spin, NEVER);
	CU_ASSERT_FALSE(rd_spin_looks(&spin));
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), NEVER);
	rd_spin_note(&spin, short_gap);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), 0);

	spin = (struct rd_spin){.ns = LOOK};
	note_some(&spin, short_gap + 1, RD_SPIN_MISSES);
	CU_ASSERT_FALSE(rd_spin_looks(&spin));
}

static void naps_until_work_is_due(void)
{
	const uint64_t due = 300 * US, from = due - LOOK - RD_SPIN_TIMER_NS;
	struct rd_spin spin = {.ns = LOOK};

	note_some(&spin, due, RD_SPIN_TRUST); /* the first one said when */
	CU_ASSERT_FALSE(rd_spin_looks(&spin));
	rd_spin_note(&spin, due);
	CU_ASSERT(rd_spin_looks(&spin));
	CU_ASSERT_EQUAL(spin.due, due);
	/* Nothing comes soon, so not even a look before the nap. */
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), from);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 100 * US), from - 100 * US);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, from - RD_SPIN_NAP_MIN_NS), 0);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, due + LOOK - 1), 0);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, due + LOOK), NEVER);

	/* With bursts in between there is one. */
	for (int i = 0; i < 100; i++) {
		note_some(&spin, 5 * US, 10);
		rd_spin_note(&spin, due);
	}
	note_some(&spin, 5 * US, 10);
	CU_ASSERT_EQUAL(spin.due, due);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, LOOK - 1), 0);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, LOOK), from - LOOK);
}

/* What is due just after a look is looked for in one piece. */
static void looks_on_where_a_nap_is_too_short(void)
{
	struct rd_spin spin = {.ns = LOOK};

	note_some(&spin, 140 * US, 20);
	for (uint64_t since = 0; since < 140 * US + LOOK; since += US)
		CU_ASSERT_EQUAL(rd_spin_wait(&spin, since), 0);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 140 * US + LOOK), NEVER);
}

static void naps_follow_what_they_wait_for(void)
{
	struct rd_spin spin = {.ns = LOOK};

	note_some(&spin, 300 * US, 100);
	/* It takes longer now: soon no nap is long enough to be taken, then one is again. */
	note_some(&spin, 900 * US, RD_SPIN_TRUST);
	CU_ASSERT_FALSE(rd_spin_looks(&spin));
	note_some(&spin, 900 * US, 100);
	CU_ASSERT(rd_spin_wait(&spin, 0) > 700 * US && rd_spin_wait(&spin, 0) < 900 * US);
	/* And shorter: within few of them. */
	note_some(&spin, 300 * US, 25);
	CU_ASSERT(rd_spin_wait(&spin, 0) > 200 * US && rd_spin_wait(&spin, 0) < 300 * US);
	/* One that is late among many does not matter, nor does one that is early. */
	rd_spin_note(&spin, 5000 * US);
	CU_ASSERT(rd_spin_looks(&spin));
	note_some(&spin, 300 * US, 2);
	rd_spin_note(&spin, 60 * US);
	note_some(&spin, 300 * US, 10);
	CU_ASSERT(rd_spin_wait(&spin, LOOK) > 100 * US);
	/* The end of it is not waited for: a few times, then no more. */
	note_some(&spin, NEVER, 2 * RD_SPIN_TRUST);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), NEVER);
}

/* Of @count gaps that are anywhere up to @most, how many found us ready to nap? */
static int naps_of(uint64_t most, int count)
{
	struct rd_spin spin = {.ns = LOOK};
	unsigned int seed = 1;
	int naps = 0;

	for (int i = 0; i < count; i++) {
		rd_spin_note(&spin, (uint64_t)rand_r(&seed) % most);
		naps += spin.trust >= RD_SPIN_TRUST;
	}
	return naps;
}

static void does_not_nap_for_what_comes_at_any_time(void)
{
	struct rd_spin spin = {.ns = LOOK};

	CU_ASSERT(naps_of(1000 * US, 10000) < 100);
	CU_ASSERT(naps_of(3000 * US, 10000) < 100);
	CU_ASSERT(naps_of(200 * US, 10000) > 5000); /* most of these come while one looks */
	/* Nor for what takes so long that being woken does not matter. */
	note_some(&spin, RD_SPIN_NAP_MAX_NS + 1, 100);
	CU_ASSERT_EQUAL(rd_spin_wait(&spin, 0), NEVER);
}

const struct t_case t_spin_cases[] = {
	{"looks for its time, then sleeps", looks_for_its_time},
	{"never looks where that was asked for", not_at_all_without_any},
	{"looks only while gaps are short", only_while_gaps_are_short},
	{"naps until work is due", naps_until_work_is_due},
	{"looks on where a nap would be too short", looks_on_where_a_nap_is_too_short},
	{"naps follow what they wait for", naps_follow_what_they_wait_for},
	{"does not nap for what comes at any time", does_not_nap_for_what_comes_at_any_time},
	{NULL, NULL},
};
