/* SPDX-License-Identifier: BSD-3-Clause */
/* Guards: ranges of blocks that lost commands may still change. */
#include <CUnit/CUnit.h>

#include "dev_guard.h"
#include "suites.h"

static struct rdi_guard range(uint64_t lba, uint64_t nblocks, uint64_t safe_at, bool resend)
{
	return (struct rdi_guard){
		.lba = lba, .nblocks = nblocks, .safe_at = safe_at, .resend = resend};
}

static void overlapping_ranges_wait(void)
{
	struct rdi_guard what = range(10, 10, 100, true);
	struct rdi_guards g T_ENDS(rdi_guards_fini);

	rdi_guards_init(&g);
	CU_ASSERT_FALSE(rdi_guards_block(&g, 0, UINT64_MAX, NULL, 0, 0));
	CU_ASSERT_PTR_NOT_NULL(rdi_guards_add(&g, &what));
	CU_ASSERT_FALSE(rdi_guards_block(&g, 0, 10, NULL, 0, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 0, 11, NULL, 0, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 12, 1, NULL, 0, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 19, 50, NULL, 0, 0));
	CU_ASSERT_FALSE(rdi_guards_block(&g, 20, 50, NULL, 0, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 0, UINT64_MAX, NULL, 0, 0));
}

static void a_guard_ends_with_its_command(void)
{
	struct rdi_guard what = range(10, 10, 100, true);
	struct rdi_guard *guard;
	struct rdi_guards g T_ENDS(rdi_guards_fini);

	rdi_guards_init(&g);
	guard = rdi_guards_add(&g, &what);
	/* The command is to be sent again: the guard does not end by time alone. */
	CU_ASSERT_TRUE(rdi_guards_block(&g, 10, 1, NULL, 0, 1000));
	rdi_guards_end(&g, guard);
	CU_ASSERT_FALSE(rdi_guards_block(&g, 10, 1, NULL, 0, 0));
	CU_ASSERT_EQUAL(g.count, 0);
	rdi_guards_end(&g, NULL);
	rdi_guards_leave(&g, NULL);
}

static void a_guard_that_was_left_ends_with_its_time(void)
{
	struct rdi_guard what = range(10, 10, 100, true);
	struct rdi_guard *guard;
	struct rdi_guards g T_ENDS(rdi_guards_fini);

	rdi_guards_init(&g);
	guard = rdi_guards_add(&g, &what);
	rdi_guards_leave(&g, guard);
	CU_ASSERT_TRUE(rdi_guards_block(&g, 10, 1, NULL, 0, 99));
	CU_ASSERT_FALSE(rdi_guards_block(&g, 10, 1, NULL, 0, 100));
	CU_ASSERT_EQUAL(g.count, 0);
}

/* It cannot be executed any more once the next gateway writes; but one that is sent again could. */
static void the_next_gateway_does_not_wait_for_what_was_left(void)
{
	struct rdi_guard what = range(10, 10, 100, true);
	struct rdi_guard *guard;
	struct rdi_guards g T_ENDS(rdi_guards_fini);

	rdi_guards_init(&g);
	what.gateway = 7;
	guard = rdi_guards_add(&g, &what);
	CU_ASSERT_TRUE(rdi_guards_block(&g, 10, 1, NULL, 8, 0));
	rdi_guards_leave(&g, guard);
	CU_ASSERT_FALSE(rdi_guards_block(&g, 10, 1, NULL, 8, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 10, 1, NULL, 7, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 10, 1, NULL, 0, 0));
}

/* Two lost commands for the same blocks must not wait for each other. */
static void of_two_lost_ones_the_older_is_first(void)
{
	struct rdi_guard what = range(10, 10, 100, true), other = range(15, 10, 100, true);
	struct rdi_guard later = range(0, 1, 500, true);
	struct rdi_guard *first, *second;
	struct rdi_guards g T_ENDS(rdi_guards_fini);

	rdi_guards_init(&g);
	first = rdi_guards_add(&g, &what);
	second = rdi_guards_add(&g, &other);
	CU_ASSERT_FALSE(rdi_guards_block(&g, 10, 10, first, 0, 0));
	CU_ASSERT_TRUE(rdi_guards_block(&g, 15, 10, second, 0, 0));
	later.path = 3;
	later.epoch = 7;
	rdi_guards_renew(&g, first, &later); /* lost again: it stays the first */
	CU_ASSERT_EQUAL(first->safe_at, 500);
	CU_ASSERT_EQUAL(first->path, 3);
	CU_ASSERT_EQUAL(first->epoch, 7);
	CU_ASSERT_EQUAL(first->lba, 10);
	CU_ASSERT_TRUE(rdi_guards_block(&g, 15, 10, second, 0, 0));
	rdi_guards_end(&g, first);
	CU_ASSERT_FALSE(rdi_guards_block(&g, 15, 10, second, 0, 0));
}

const struct t_case t_dev_guard_cases[] = {
	{"overlapping ranges wait", overlapping_ranges_wait},
	{"a guard ends with its command", a_guard_ends_with_its_command},
	{"a guard that was left ends with its time", a_guard_that_was_left_ends_with_its_time},
	{"the next gateway does not wait for what was left",
	 the_next_gateway_does_not_wait_for_what_was_left},
	{"of two lost ones the older is first", of_two_lost_ones_the_older_is_first},
	{NULL, NULL},
};
