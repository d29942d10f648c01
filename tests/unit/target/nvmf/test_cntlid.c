/* SPDX-License-Identifier: BSD-3-Clause */
/* Controller IDs: each is used once, none is reused soon, and the search does not grow with the
 * controllers. */
#include <errno.h>

#include "target/nvmf/base/cntlid.h"
#include "t_target.h"

#define MIN   1u
#define MAX   0xffefu
#define COUNT (MAX - MIN + 1)
#define MOST  32u /* words that a search looks at */

/* The pointer that belongs to an ID is never followed. */
static struct rdt_ctrl *ctrl_of(uint32_t n)
{
	return (void *)(uintptr_t)n;
}

static uint16_t give(struct rdt_cntlids *ids, uint16_t *next, uint32_t n)
{
	uint16_t cntlid = 0;

	CU_ASSERT_EQUAL_FATAL(rdt_cntlid_give(ids, MIN, MAX, next, ctrl_of(n), &cntlid), 0);
	CU_ASSERT(cntlid >= MIN && cntlid <= MAX);
	return cntlid;
}

/* Many holes, each of them before where the search begins. */
static void holes_cost_no_more(void)
{
	struct rdt_cntlids ids = {0};
	uint16_t next = MIN;
	uint64_t looks;

	for (uint32_t i = 0; i < COUNT; i++)
		give(&ids, &next, i + 1);
	/* The last ID of each page: a page is looked through to its end. */
	for (uint32_t at = RDT_CNTLID_PAGE - 1; at <= MAX; at += RDT_CNTLID_PAGE)
		rdt_cntlid_free(&ids, (uint16_t)at);
	next = MAX;
	for (uint32_t at = RDT_CNTLID_PAGE - 1; at <= MAX; at += RDT_CNTLID_PAGE) {
		looks = ids.looks;
		CU_ASSERT_EQUAL(give(&ids, &next, at), at);
		CU_ASSERT(ids.looks - looks <= MOST);
	}
	for (uint32_t i = MIN; i <= MAX; i++)
		rdt_cntlid_free(&ids, (uint16_t)i);
}

/* All IDs, then one at a time while all others are in use. */
static void all_are_given(void)
{
	struct rdt_cntlids ids = {0};
	uint16_t next = MIN, cntlid;
	uint64_t looks;

	for (uint32_t i = 0; i < COUNT; i++)
		CU_ASSERT_EQUAL(give(&ids, &next, i + 1), MIN + i);
	CU_ASSERT_EQUAL(rdt_cntlid_give(&ids, MIN, MAX, &next, ctrl_of(1), &cntlid), -EBUSY);
	for (uint32_t i = 0; i < 20000; i++) {
		uint16_t free = (uint16_t)(MIN + i * 40503u % COUNT);

		CU_ASSERT_PTR_NOT_NULL(rdt_cntlid_find(&ids, free));
		rdt_cntlid_free(&ids, free);
		CU_ASSERT_PTR_NULL(rdt_cntlid_find(&ids, free));
		looks = ids.looks;
		CU_ASSERT_EQUAL(give(&ids, &next, i + 1), free);
		CU_ASSERT(ids.looks - looks <= MOST);
		CU_ASSERT_PTR_EQUAL(rdt_cntlid_find(&ids, free), ctrl_of(i + 1));
	}
	for (uint32_t i = MIN; i <= MAX; i++)
		rdt_cntlid_free(&ids, (uint16_t)i);
	for (unsigned int i = 0; i < sizeof(ids.pages) / sizeof(ids.pages[0]); i++)
		CU_ASSERT_PTR_NULL(ids.pages[i]);
}

static void none_comes_again_soon(void)
{
	struct rdt_cntlids ids = {0};
	uint16_t next = MIN;

	for (uint32_t i = 0; i < 3 * COUNT; i++) {
		uint16_t cntlid = give(&ids, &next, 1);

		CU_ASSERT_EQUAL(cntlid, MIN + i % COUNT);
		rdt_cntlid_free(&ids, cntlid);
	}
}

/* A reload may have moved the range: IDs from before stay valid, and can be released. */
static void ranges_move(void)
{
	struct rdt_cntlids ids = {0};
	uint16_t next = 250, cntlid;

	for (uint16_t i = 250; i <= 260; i++)
		CU_ASSERT_EQUAL(rdt_cntlid_give(&ids, 250, 260, &next, ctrl_of(1), &cntlid), 0);
	CU_ASSERT_EQUAL(rdt_cntlid_give(&ids, 250, 260, &next, ctrl_of(1), &cntlid), -EBUSY);
	next = 255;
	CU_ASSERT_EQUAL(rdt_cntlid_give(&ids, 255, 261, &next, ctrl_of(2), &cntlid), 0);
	CU_ASSERT_EQUAL(cntlid, 261);
	CU_ASSERT_EQUAL(next, 255);
	for (uint16_t i = 250; i <= 261; i++)
		rdt_cntlid_free(&ids, i);
}

const struct t_case t_cntlid_cases[] = {
	{"all are given, each in the same time", all_are_given},
	{"holes cost no more", holes_cost_no_more},
	{"none comes again soon", none_comes_again_soon},
	{"ranges move", ranges_move},
	{NULL, NULL},
};
