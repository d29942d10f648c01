/* SPDX-License-Identifier: BSD-3-Clause */
#include "base_suites.h"

#include "target/nvmf/base/slots.h"

static unsigned int count(const struct rdt_slots *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		n += rdt_slots_has(s, i);
	return n;
}

static void set_and_clear(void)
{
	static const unsigned int some[] = {0, 1, 63, 64, 1023, 1024, 5000, RDT_NS_SLOTS - 1};
	const unsigned int n = sizeof(some) / sizeof(some[0]);
	struct rdt_slots s T_ENDS(rdt_slots_fini) = {{NULL}};

	CU_ASSERT_FALSE(rdt_slots_any(&s));
	CU_ASSERT_FALSE(rdt_slots_clear(&s, 77));
	for (unsigned int i = 0; i < n; i++) {
		CU_ASSERT_FALSE(rdt_slots_set(&s, some[i]));
		CU_ASSERT_TRUE(rdt_slots_set(&s, some[i]));
		CU_ASSERT_TRUE(rdt_slots_has(&s, some[i]));
	}
	CU_ASSERT_EQUAL(count(&s), n);
	for (unsigned int i = 0; i < n; i++) {
		CU_ASSERT_TRUE(rdt_slots_any(&s));
		CU_ASSERT_TRUE(rdt_slots_clear(&s, some[i]));
		CU_ASSERT_FALSE(rdt_slots_has(&s, some[i]));
	}
	CU_ASSERT_FALSE(rdt_slots_any(&s));
}

static void all_of_them(void)
{
	struct rdt_slots s T_ENDS(rdt_slots_fini) = {{NULL}};

	rdt_slots_set(&s, 2000);
	rdt_slots_set_all(&s);
	CU_ASSERT_EQUAL(count(&s), RDT_NS_SLOTS);
	CU_ASSERT_TRUE(rdt_slots_clear(&s, 5000));
	CU_ASSERT_FALSE(rdt_slots_has(&s, 5000));
	CU_ASSERT_EQUAL(count(&s), RDT_NS_SLOTS - 1);
	rdt_slots_set_all(&s);
	CU_ASSERT_EQUAL(count(&s), RDT_NS_SLOTS);
	rdt_slots_clear_all(&s);
	CU_ASSERT_EQUAL(count(&s), 0);
	CU_ASSERT_FALSE(rdt_slots_any(&s));
}

static void add_and_copy(void)
{
	struct rdt_slots a = {{NULL}}, b = {{NULL}};

	rdt_slots_set(&a, 1);
	rdt_slots_set(&a, 9000);
	rdt_slots_set(&b, 2);
	rdt_slots_add(&a, &b);
	CU_ASSERT_EQUAL(count(&a), 3);
	rdt_slots_set(&b, 9000);
	rdt_slots_copy(&a, &b);
	CU_ASSERT_EQUAL(count(&a), 2);
	CU_ASSERT_TRUE(rdt_slots_has(&a, 2) && rdt_slots_has(&a, 9000));
	rdt_slots_fini(&a);
	rdt_slots_fini(&b);
}

/* The fence does this for each controller of a host whenever one of them ends. */
static void copy_all_without_memory(void)
{
	struct rdt_slots all = {{NULL}}, none = {{NULL}}, one = {{NULL}}, to = {{NULL}};

	rdt_slots_set_all(&all);
	rdt_slots_set(&one, 70);
	rdt_slots_copy(&to, &all);
	CU_ASSERT_EQUAL(count(&to), RDT_NS_SLOTS);
	CU_ASSERT_PTR_EQUAL(atomic_load(&to.pieces[3]), atomic_load(&all.pieces[3]));
	rdt_slots_copy(&to, &none);
	CU_ASSERT_EQUAL(count(&to), 0);
	CU_ASSERT_PTR_NULL(atomic_load(&to.pieces[3]));
	rdt_slots_copy(&to, &all);
	rdt_slots_copy(&to, &one);
	CU_ASSERT_EQUAL(count(&to), 1);
	CU_ASSERT_TRUE(rdt_slots_has(&to, 70));
	CU_ASSERT_PTR_NULL(atomic_load(&to.pieces[3]));
	rdt_slots_add(&to, &all);
	CU_ASSERT_EQUAL(count(&to), RDT_NS_SLOTS);
	CU_ASSERT_EQUAL(count(&all), RDT_NS_SLOTS);
	rdt_slots_fini(&one);
	rdt_slots_fini(&to);
}

const struct t_case t_slots_cases[] = {
	{"set and clear", set_and_clear},
	{"all of them", all_of_them},
	{"add and copy", add_and_copy},
	{"all bits are copied without memory", copy_all_without_memory},
	{NULL, NULL},
};
