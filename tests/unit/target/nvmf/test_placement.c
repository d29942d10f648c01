/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of a reactor for a new connection. */
#include "target/nvmf/placement.h"
#include "t_target.h"

static unsigned int choose3(struct rdt_load a, struct rdt_load b, struct rdt_load c)
{
	const struct rdt_load loads[] = {a, b, c};

	return rdt_place_choose(loads, 3);
}

#define L(busy, queues, conns) ((struct rdt_load){busy, queues, conns})

static void queues_are_spread(void)
{
	CU_ASSERT_EQUAL(choose3(L(0, 0, 0), L(0, 0, 0), L(0, 0, 0)), 0);
	CU_ASSERT_EQUAL(choose3(L(0, 0, 1), L(0, 0, 0), L(0, 0, 1)), 1);
	CU_ASSERT_EQUAL(choose3(L(0, 1, 1), L(0, 1, 2), L(0, 0, 9)), 2);
	CU_ASSERT_EQUAL(choose3(L(0, 1, 2), L(0, 1, 1), L(0, 1, 2)), 1);
	CU_ASSERT_EQUAL(choose3(L(0, 8, 8), L(900, 7, 7), L(0, 8, 8)), 1);
}

static void busy_ones_are_spared(void)
{
	CU_ASSERT_EQUAL(choose3(L(900, 1, 1), L(0, 1, 1), L(500, 1, 1)), 1);
	/* 4 % and 9 % count as equal. */
	CU_ASSERT_EQUAL(choose3(L(40, 8, 8), L(90, 8, 7), L(0, 8, 8)), 1);
}

static void a_burst_spreads(void)
{
	struct rdt_load loads[4] = {L(500, 2, 3), L(0, 0, 0), L(0, 0, 0), L(0, 0, 0)};

	for (int i = 0; i < 62; i++) {
		struct rdt_load *l = &loads[rdt_place_choose(loads, 4)];

		l->queues++;
		l->conns++;
	}
	for (int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(loads[i].queues, 16);
}

/* A host reconnects while the busy time of its old queues is still known. */
static void a_burst_after_load_spreads(void)
{
	struct rdt_load loads[2] = {L(1000, 0, 0), L(0, 0, 0)};

	for (int i = 0; i < 80; i++)
		loads[rdt_place_choose(loads, 2)].queues++;
	CU_ASSERT_EQUAL(loads[0].queues, 40);
	CU_ASSERT_EQUAL(loads[1].queues, 40);
}

static void uneven(void)
{
	static const struct {
		struct rdt_load mine, other;
		bool uneven;
	} cases[] = {
		{{950, 4, 4}, {20, 2, 2}, true},    {{950, 4, 4}, {20, 4, 4}, false},
		{{950, 1, 4}, {20, 0, 0}, false},   {{950, 2, 2}, {0, 0, 1}, true},
		{{890, 4, 4}, {0, 0, 0}, false},    {{950, 4, 4}, {449, 0, 0}, true},
		{{1000, 2, 2}, {450, 1, 1}, false}, {{950, 79, 79}, {300, 1, 1}, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_EQUAL(rdt_place_uneven(&cases[i].mine, &cases[i].other), cases[i].uneven);
}

const struct t_case t_placement_cases[] = {
	{"queues are spread", queues_are_spread},
	{"busy reactors are spared", busy_ones_are_spared},
	{"a burst spreads although nobody is busy yet", a_burst_spreads},
	{"a burst behind load spreads", a_burst_after_load_spreads},
	{"a saturated reactor beside one with room is reported", uneven},
	{NULL},
};
