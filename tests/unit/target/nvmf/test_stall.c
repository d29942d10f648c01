/* SPDX-License-Identifier: BSD-3-Clause */
/* When storage counts as stalled, by a clock of the test's own. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "t_target.h"
#include "target/nvmf/stall.h"

static uint8_t stall_buf[T_MDTS];

static void start_stalled(struct t_pair *p, unsigned int count)
{
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < count; i++) {
		t_rw_sqe(p->io, &sqe, i & 1, i, 1, stall_buf);
		t_send(p->io, &sqe, NULL, 0);
	}
	t_turn(p->env);
}

static void pass(struct t_pair *p, uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += RDT_STALL_QUICK_NS)
		t_advance(p->env, RDT_STALL_QUICK_NS);
}

static bool armed(const struct t_pair *p)
{
	return rd_timer_armed(&p->io->qp.reactor->stall.timer);
}

static void finish_held(struct t_pair *p)
{
	struct t_disk *d = &p->env->disk[0];

	while (d->held_count)
		t_disk_finish(d, 0, 0);
	t_turn(p->env);
	while (t_answers(p->io))
		t_answer(p->io);
}

static void old_io_is_a_stall(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];

	CU_ASSERT_FALSE(armed(&p)); /* idle costs nothing */
	d->hold = true;
	start_stalled(&p, 2);
	CU_ASSERT_TRUE(armed(&p));
	pass(&p, RDT_STALL_NS);
	CU_ASSERT_FALSE(rdt_bdev_stalled(&d->bdev)); /* seen once */
	pass(&p, RDT_STALL_NS);
	CU_ASSERT_TRUE(rdt_bdev_stalled(&d->bdev));
	CU_ASSERT_EQUAL(atomic_load(&d->bdev.late), 1);
	pass(&p, 5 * RDT_STALL_NS);
	CU_ASSERT_EQUAL(atomic_load(&d->bdev.late), 1);
	/* One of two is answered. */
	t_disk_finish(d, 0, 0);
	pass(&p, RDT_STALL_NS);
	CU_ASSERT_TRUE(rdt_bdev_stalled(&d->bdev));
	finish_held(&p);
	pass(&p, RDT_STALL_QUICK_NS);
	CU_ASSERT_FALSE(rdt_bdev_stalled(&d->bdev));
	pass(&p, RDT_STALL_NS);
	CU_ASSERT_FALSE(armed(&p));
	t_pair_free(&p);
}

/* Every I/O ends within three seconds, and there is always some. */
static void slow_is_no_stall(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];

	d->hold = true;
	for (unsigned int i = 0; i < 20; i++) {
		start_stalled(&p, 1);
		pass(&p, 3 * RDT_STALL_QUICK_NS);
		CU_ASSERT_FALSE(rdt_bdev_stalled(&d->bdev));
		finish_held(&p);
	}
	/* Steps of one command count by themselves: Compare and its Flush, for example. */
	pass(&p, 2 * RDT_STALL_NS);
	CU_ASSERT_FALSE(armed(&p));
	t_pair_free(&p);
}

/* What a drain waits for counts as stalled earlier, unless some of it ends. */
static void a_drain_finds_stalls_soon(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct rdt_reactor *r = p.io->qp.reactor;

	d->hold = true;
	start_stalled(&p, 4);
	t_advance(p.env, RDT_STALL_QUICK_NS);
	r->draining = true;
	rdt_stall_drain(r);
	for (unsigned int i = 0; i < 3; i++) {
		t_disk_finish(d, 0, 0);
		pass(&p, RDT_STALL_QUICK_NS);
		CU_ASSERT_FALSE(rdt_bdev_stalled(&d->bdev));
	}
	pass(&p, RDT_STALL_QUICK_NS);
	CU_ASSERT_TRUE(rdt_bdev_stalled(&d->bdev));
	finish_held(&p);
	pass(&p, RDT_STALL_QUICK_NS);
	CU_ASSERT_FALSE(rdt_bdev_stalled(&d->bdev));
	start_stalled(&p, 1);
	pass(&p, RDT_STALL_DRAIN_NS); /* the first look is one second later */
	CU_ASSERT_FALSE(rdt_bdev_stalled(&d->bdev));
	pass(&p, RDT_STALL_QUICK_NS);
	CU_ASSERT_TRUE(rdt_bdev_stalled(&d->bdev));
	finish_held(&p);
	r->draining = false;
	t_pair_free(&p);
}

/* A namespace that is removed while its I/O is old. */
static void a_stall_ends_with_the_channel(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct rdt_ns *ns = t_ns_of(p.env->t->subsys[0], 1);

	d->hold = true;
	start_stalled(&p, 1);
	pass(&p, 2 * RDT_STALL_NS);
	CU_ASSERT_EQUAL(atomic_load(&d->bdev.late), 1);
	finish_held(&p);
	rdt_stall_forget(p.io->qp.reactor, rdt_ns_channel_of(p.io->qp.reactor, ns));
	CU_ASSERT_EQUAL(atomic_load(&d->bdev.late), 0);
	pass(&p, 2 * RDT_STALL_NS);
	CU_ASSERT_EQUAL(atomic_load(&d->bdev.late), 0);
	t_pair_free(&p);
}

const struct t_case t_stall_cases[] = {
	{"old I/O is a stall, and its end is noticed", old_io_is_a_stall},
	{"slow storage is not stalled", slow_is_no_stall},
	{"a drain finds stalls soon", a_drain_finds_stalls_soon},
	{"a stall ends with the channel", a_stall_ends_with_the_channel},
	{NULL, NULL},
};
