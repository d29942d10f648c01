/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of locked block ranges, with ranges that come and leave at random: which of them are
 * locked is compared with the definition. */
#include <stdlib.h>

#include "target/nvmf/range_lock.h"
#include "target/nvmf/io.h"
#include "t_target.h"

#define RANGES 8001u /* room for them */
#define RANDOM 600u

struct table {
	struct rdt_target target;
	struct rdt_reactor reactor;
	struct rdt_qpair qp;
	struct rdt_req req[RANGES]; /* in order of arrival */
	bool in[RANGES];
	unsigned int came;
	struct rdt_ns ns;
};

static bool is_locked(const struct table *t, unsigned int i)
{
	return t->req[i].range.granted;
}

static bool overlap(const struct table *t, unsigned int a, unsigned int b)
{
	const struct rdt_span *x = &t->req[a].range.spans[0], *y = &t->req[b].range.spans[0];

	return (x->excl || y->excl) && x->from < y->to && y->from < x->to;
}

/* Is each range in the table locked if, and only if, none that came before it overlaps it? */
static bool is_right(const struct table *t)
{
	for (unsigned int i = 0; i < t->came; i++) {
		bool free = true;

		for (unsigned int j = 0; j < i; j++)
			free = free && !(t->in[j] && overlap(t, i, j));
		if (t->in[i] && is_locked(t, i) != free)
			return false;
	}
	return true;
}

static void come(struct table *t, uint64_t from, uint64_t blocks, bool excl)
{
	unsigned int i = t->came++;
	struct rdt_req *req = &t->req[i];

	req->qp = &t->qp;
	req->ns = &t->ns;
	req->range.count = 1;
	req->range.spans[0] = (struct rdt_span){from, from + blocks, excl};
	t->in[i] = true;
	CU_ASSERT_EQUAL(rdt_range_lock(req), is_locked(t, i));
}

/* One that waits gives up, or one that is locked is unlocked. */
static void leave(struct table *t, unsigned int i)
{
	if (!t->in[i])
		return;
	if (is_locked(t, i))
		rdt_range_unlock(&t->req[i]);
	else
		CU_ASSERT_TRUE(rdt_range_unwait(&t->req[i]));
	t->in[i] = false;
}

static struct table *table_new(void)
{
	struct table *t = calloc(1, sizeof(*t));
	struct rd_loop_opts opts = {.seed = 1};

	CU_ASSERT_FATAL(t != NULL);
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &t->reactor.loop), 0);
	t->qp.reactor = &t->reactor;
	t->reactor.target = &t->target;
	rdt_range_init(&t->ns);
	t->ns.range_table.on = true;
	return t;
}

static void table_free(struct table *t)
{
	CU_ASSERT_TRUE(TAILQ_EMPTY(&t->ns.range_table.locked));
	CU_ASSERT_TRUE(TAILQ_EMPTY(&t->ns.range_table.waiting));
	rdt_range_fini(&t->ns);
	rd_loop_destroy(&t->reactor.loop);
	free(t);
}

static void locked_as_defined(void)
{
	struct table *t = table_new();
	unsigned int waited = 0;

	srand(7);
	while (t->came < RANDOM) {
		come(t, (uint64_t)rand() % 64, 1 + (uint64_t)rand() % 16, rand() % 2);
		waited += !is_locked(t, t->came - 1);
		for (unsigned int n = (unsigned int)rand() % 4; n; n--)
			leave(t,
			      t->came - 1 - (unsigned int)rand() % (t->came < 40 ? t->came : 40));
		CU_ASSERT_TRUE_FATAL(is_right(t));
	}
	CU_ASSERT_TRUE(waited > RANDOM / 4 && waited < RANDOM);
	for (unsigned int i = 0; i < RANDOM; i++) {
		leave(t, i);
		CU_ASSERT_TRUE(is_right(t));
	}
	table_free(t);
}

/* Thousands of small ranges that end, while thousands wait for a large one that came after them: if
 * each end compared all that wait with all that are locked, this would take minutes. */
static void many_wait_for_one(void)
{
	struct table *t = table_new();
	unsigned int small = RANGES / 2;

	for (unsigned int i = 0; i < small; i++)
		come(t, i, 1, true);
	come(t, RANGES, RANGES, true);
	while (t->came < RANGES)
		come(t, RANGES + t->came, 1, false);
	CU_ASSERT_TRUE(is_locked(t, small) && !is_locked(t, small + 1));
	for (unsigned int i = 0; i < small; i++)
		leave(t, i);
	CU_ASSERT_FALSE(is_locked(t, small + 1) || is_locked(t, RANGES - 1));
	leave(t, small);
	CU_ASSERT_TRUE(is_locked(t, small + 1) && is_locked(t, RANGES - 1));
	for (unsigned int i = small + 1; i < RANGES; i++)
		leave(t, i);
	table_free(t);
}

const struct t_case t_range_lock_cases[] = {
	{"they are locked when nothing before them overlaps", locked_as_defined},
	{"many that wait cost those that end little", many_wait_for_one},
	{NULL, NULL},
};
