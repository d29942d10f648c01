/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow of commands: waiting requests are served in order, and resources are returned in time. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "target/reactor/lifecycle.h"
#include "t_target.h"

/* With more commands than requests, the others wait in their capsules and are served in order. */
static void requests_in_order(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[32][512];

	d->hold = true;
	p.io->hold_respond =
		true; /* answered, but the test holds the completion of the SEND back */
	for (unsigned int i = 0; i < 16; i++) {
		t_send_rw(p.io, false, i, 1, buf[i]);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 16);
	t_send_rw(p.io, false, 16, 1, buf[16]);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 16);
	t_disk_finish(d, 3, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 15); /* its SEND is not complete yet */
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 16);
	CU_ASSERT_EQUAL(d->last.offset, 16 * 512);
}

/* Small commands, on any queue, do not overtake a large one that waits for a buffer. */
static void buffers_in_order(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *io2 = t_conn_new(p.env, 1, 2, 16);
	struct t_disk *d = &p.env->disk[0];
	uint8_t *buf T_FREE = malloc(T_MDTS);
	uint64_t want[] = {100, 200, 300};

	t_connect(io2, p.cntlid);
	d->hold = true;
	/* The slab holds four transfers of MDTS, and one host gets three. */
	for (unsigned int i = 0; i < 3; i++) {
		t_send_rw(p.io, false, i, T_MDTS / 512, buf);
	}
	t_send_rw(p.io, false, want[0], T_MDTS / 512, buf);
	t_send_rw(io2, false, want[1], 1, buf);
	t_send_rw(p.io, false, want[2], 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 3);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 3);
	CU_ASSERT_EQUAL(d->held[2]->offset, want[0] * 512);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 4); /* both small ones */
	CU_ASSERT_EQUAL(d->held[2]->offset, want[1] * 512);
	CU_ASSERT_EQUAL(d->held[3]->offset, want[2] * 512);
	t_pair_free(&p);
}

/* Another host, with an I/O queue of its own on reactor 1. */
static struct t_conn *host_named(struct t_env *env, const char *nqn)
{
	struct t_conn *c[2] = {t_conn_new(env, 0, 0, 32), t_conn_new(env, 1, 1, 16)};
	uint16_t cntlid = NVMF_CNTLID_DYNAMIC;

	for (unsigned int i = 0; i < 2; i++) {
		struct t_answer a = t_connect_as(c[i], cntlid, nqn, 2);

		CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
		cntlid = (uint16_t)le32toh(a.cqe.result);
		if (i == 0)
			t_enable(c[0]);
	}
	t_trust(c[1]);
	return c[1];
}

static struct t_conn *second_host(struct t_env *env)
{
	return host_named(env, T_HOST2);
}

/* A host that receives no data uses at most its share; other hosts go on. */
static void one_host_has_a_share(void)
{
	struct t_pair p = t_pair_new();
	struct rd_buddy *slab = p.env->t->reactors[1].pools[RDT_POOL_IO].buddy;
	struct t_conn *other = second_host(p.env);
	uint8_t *buf T_FREE = malloc(T_MDTS);

	p.io->hold_respond = true;
	for (unsigned int i = 0; i < 6; i++) {
		t_send_rw(p.io, false, i, T_MDTS / 512, buf);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->responds_count, 3);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(slab), T_MDTS);
	for (unsigned int i = 0; i < 20; i++) {

		CU_ASSERT_EQUAL(t_rw(other, i & 1, i, i & 2 ? T_MDTS / 512 : 40, buf), 0);
	}
	CU_ASSERT_EQUAL(p.io->responds_count, 3);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 6);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(slab), rd_buddy_total_bytes(slab));
	t_pair_free(&p);
}

static unsigned int held(const struct t_conn *c)
{
	return (unsigned int)(c->qp.share->accounts[RDT_POOL_IO].used / RDT_BUFFER_UNIT);
}

static unsigned int moved(const struct t_conn *c)
{
	return (unsigned int)(c->qp.share->accounts[RDT_POOL_IO].moved / RDT_BUFFER_UNIT);
}

static void ask(struct t_conn *c, uint32_t bytes)
{
	static uint8_t buf[T_MDTS];

	t_send_rw(c, false, 0, bytes / 512, buf);
	t_turn(c->env);
}

#define MDTS_UNITS (T_MDTS / RDT_BUFFER_UNIT)

static void forget(struct t_conn *c)
{
	c->qp.share->accounts[RDT_POOL_IO].moved = 0;
}

/* Half of the buffers is for hosts that have transferred nothing yet; one address gets at most as
 * many of these as it leaves to others. */
static void half_is_a_reserve(void)
{
	T_PAIR(p);
	struct t_conn *other = second_host(p.env);
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];

	forget(p.io);
	forget(other);
	p.io->hold_respond = other->hold_respond = true;
	for (unsigned int i = 0; i < 4; i++)
		ask(p.io, T_MDTS);
	CU_ASSERT_EQUAL(held(p.io), MDTS_UNITS);
	/* Another host at the same address gets no large block, but a small one. */
	ask(other, T_MDTS);
	CU_ASSERT_EQUAL(held(other), 0);
	CU_ASSERT(rdt_pool_pressed(pool));
	rdt_qpair_close(&other->qp, "test");
	t_turn(p.env);
	other = second_host(p.env);
	other->hold_respond = true;
	forget(other);
	ask(other, RDT_BUFFER_UNIT);
	ask(other, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(other), 1);
	CU_ASSERT_EQUAL(pool->unproven, (MDTS_UNITS + 1) * RDT_BUFFER_UNIT);
	/* With that it has transferred data, and may use the reserve as far as it transfers. */
	other->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(held(other), 0);
	CU_ASSERT_EQUAL(pool->unproven, T_MDTS);
	/* Data that may be in socket buffers only does not count. */
	other->qp.unproven = 4 * RDT_BUFFER_UNIT;
	CU_ASSERT_EQUAL(moved(other), 2);
	for (unsigned int i = 0; i < 4; i++)
		ask(other, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(moved(other), 2);
	CU_ASSERT_EQUAL(other->qp.unproven, 0);
	for (unsigned int i = 0; i < 8; i++)
		ask(other, RDT_BUFFER_UNIT << (i < 4 ? i : 4));
	CU_ASSERT_EQUAL(held(other), 0);
	CU_ASSERT_EQUAL(t_answers(other), 14);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 4);
	CU_ASSERT_EQUAL(pool->unproven, 0);
}

/* Beside a host of its address that holds what one address may, a new host gets its first block,
 * whatever its size, as long as half of the room is left; one that has stalled gets none. */
static void room_for_new_hosts(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];
	struct t_conn *other = second_host(p.env), *third;

	forget(p.io);
	forget(other);
	p.io->hold_respond = other->hold_respond = true;
	for (unsigned int i = 0; i < 16; i++)
		ask(p.io, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(p.io), 12); /* of 24 */
	ask(other, 4 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(other), 0);
	CU_ASSERT(rdt_pool_pressed(pool));
	rdt_qpair_close(&other->qp, "test");
	t_turn(p.env);
	other = second_host(p.env);
	other->hold_respond = true;
	forget(other);
	ask(other, 2 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(other), 2);
	/* It stalls, and comes again. */
	rdt_share_late(&other->qp, true);
	rdt_qpair_close(&other->qp, "test");
	other->hold_respond = false;
	t_turn(p.env);
	other = second_host(p.env);
	forget(other);
	ask(other, 2 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(other), 0);
	CU_ASSERT_EQUAL(t_answers(other), 0);
	third = host_named(p.env, "nqn.2026-11.io.rdnvme:third");
	forget(third);
	ask(third, 2 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(t_answers(third), 1);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(other), 1);
	/* Later it is a new host again. */
	t_advance(p.env, RDT_STALLER_NS);
	CU_ASSERT_FALSE(rdt_staller_known(&other->qp, other->qp.share->hostnqn));
	t_pair_free(&p);
}

/* A late host has lost its right to the reserve. */
static void late_hosts(void)
{
	T_PAIR(p);
	struct t_conn *other = second_host(p.env);
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];

	p.io->hold_respond = true;
	for (unsigned int i = 0; i < 4; i++)
		ask(p.io, T_MDTS);
	CU_ASSERT_EQUAL(held(p.io), 3 * MDTS_UNITS);
	CU_ASSERT_EQUAL(pool->unproven, 0);
	rdt_share_late(&p.io->qp, true);
	CU_ASSERT_EQUAL(pool->unproven, 3 * T_MDTS);
	for (unsigned int i = 0; i < 4; i++)
		ask(other, T_MDTS);
	CU_ASSERT_EQUAL(t_answers(other), 4);
	CU_ASSERT_EQUAL(held(p.io), 3 * MDTS_UNITS);
	/* It catches up. */
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 4);
	rdt_share_late(&p.io->qp, false);
	CU_ASSERT_EQUAL(pool->unproven, 0);
	CU_ASSERT(!p.io->qp.share->accounts[RDT_POOL_IO].is_unproven);
}

/* Hosts that have used their share are passed over; an entitled host that finds no block is
 * next. */
static void hosts_that_wait(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *other = second_host(p.env);
	struct t_disk *d = &p.env->disk[0];
	uint8_t *buf T_FREE = malloc(T_MDTS);

	d->hold = true;
	for (unsigned int i = 0; i < 5; i++) { /* 3 begin */
		t_send_rw(p.io, false, i, T_MDTS / 512, buf);
	}
	for (unsigned int i = 0; i < 2; i++) { /* one begins */
		t_send_rw(other, false, 100 + i, T_MDTS / 512, buf);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 4);
	CU_ASSERT_EQUAL(d->held[3]->offset, 100 * 512);
	t_disk_finish(d, 3, 0); /* the first host has waited longer, but has three already */
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 4);
	CU_ASSERT_EQUAL(d->held[3]->offset, 101 * 512);
	for (unsigned int i = 0; i < 3; i++)
		t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 3);
	CU_ASSERT_EQUAL(d->held[1]->offset, 3 * 512);
	CU_ASSERT_EQUAL(d->held[2]->offset, 4 * 512);
	t_pair_free(&p);
}

#define HOST3 "nqn.2026-11.io.rdnvme:third"
#define HOST4 "nqn.2026-11.io.rdnvme:fourth"

/* Many waiting unproven hosts cost a well-behaved host nothing: they are examined only after a
 * change for them. */
static void refused_until_a_change(void)
{
	T_PAIR(p);
	struct t_conn *stuck = second_host(p.env);
	struct t_conn *third = host_named(p.env, HOST3), *fourth = host_named(p.env, HOST4);
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];
	const struct rdt_account *first;

	forget(stuck);
	forget(third);
	forget(fourth);
	stuck->hold_respond = true;
	ask(stuck, T_MDTS);
	ask(stuck, T_MDTS);
	ask(third, T_MDTS);
	ask(fourth, T_MDTS);
	CU_ASSERT_EQUAL(held(stuck), MDTS_UNITS);
	CU_ASSERT_EQUAL(held(third) + held(fourth), 0);
	CU_ASSERT_EQUAL(pool->waiting, 3);
	CU_ASSERT(TAILQ_EMPTY(&pool->queues[RDT_PRIO_TRUSTED]));
	ask(p.io, T_MDTS); /* examines each of them */
	first = TAILQ_FIRST(&pool->queues[RDT_PRIO_UNPROVEN]);
	for (unsigned int i = 0; i < 4; i++)
		ask(p.io, T_MDTS);
	CU_ASSERT_EQUAL(t_answers(p.io), 5);
	/* An account that was examined goes to the end. */
	CU_ASSERT_PTR_EQUAL(first, TAILQ_FIRST(&pool->queues[RDT_PRIO_UNPROVEN]));
	rdt_share_late(&stuck->qp, true); /* it stays unproven, whatever it moves */
	t_turn(p.env);
	stuck->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(stuck), 2);
	CU_ASSERT_EQUAL(t_answers(third) + t_answers(fourth), 2);
}

/* A unproven host that got a block is examined again, also when one that waited longer was
 * refused. */
static void more_unproven(void)
{
	T_PAIR(p);
	struct t_conn *stuck = second_host(p.env);
	struct t_conn *third = host_named(p.env, HOST3), *fourth = host_named(p.env, HOST4);

	forget(stuck);
	forget(third);
	forget(fourth);
	stuck->hold_respond = third->hold_respond = fourth->hold_respond = true;
	ask(stuck, 8 * RDT_BUFFER_UNIT);
	ask(fourth, T_MDTS);
	ask(third, RDT_BUFFER_UNIT);
	ask(third, 4 * RDT_BUFFER_UNIT);
	ask(third, 4 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(third), 1);
	stuck->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(held(third), 9);
	CU_ASSERT_EQUAL(held(fourth), 0);
	third->hold_respond = fourth->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(third), 3);
	CU_ASSERT_EQUAL(t_answers(fourth), 1);
}

/* Of very many unproven hosts the last one is examined too, although no other buffer is
 * returned. */
static void last_of_many_unproven(void)
{
	enum { MANY = 40 };
	T_PAIR(p);
	struct t_conn *c[MANY];
	char nqn[64];

	for (int i = 0; i < MANY; i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.rdnvme:host%d", i);
		c[i] = host_named(p.env, nqn);
		forget(c[i]);
	}
	c[0]->hold_respond = c[1]->hold_respond = true;
	ask(c[0], 8 * RDT_BUFFER_UNIT);
	ask(c[1], RDT_BUFFER_UNIT);
	for (int i = 2; i < MANY; i++)
		ask(c[i], i < MANY - 1 ? T_MDTS : 4 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(c[MANY - 1]), 0);
	c[1]->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(c[MANY - 1]), 1);
	CU_ASSERT_EQUAL(t_answers(c[2]), 0);
	c[0]->hold_respond = false;
	t_turn(p.env);
	for (int i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(t_answers(c[i]), 1);
}

static void send_read(struct t_conn *c, uint32_t bytes)
{
	static uint8_t buf[T_MDTS];

	t_send_rw(c, false, 0, bytes / 512, buf);
}

/* What unproven hosts got beyond the limit of a turn is paid for with the turns that follow. Other
 * hosts, and the first block of a host, do not wait for that. */
static void turns_unproven(void)
{
	enum { TURNS = 5, BYTES = 128 << 10 };
	T_PAIR(p);
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];
	struct rd_loop *loop = p.env->t->reactors[1].loop;
	struct t_conn *large = second_host(p.env), *small = host_named(p.env, HOST3);

	forget(large);
	forget(small);
	large->hold_respond = small->hold_respond = p.io->hold_respond = true;
	pool->owed = TURNS * BYTES - RDT_BUFFER_UNIT; /* and the small block */
	pool->paid_iteration = rd_loop_turns(loop);
	send_read(large, 2 * RDT_BUFFER_UNIT);
	send_read(small, RDT_BUFFER_UNIT);
	send_read(p.io, 2 * RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(held(small), 1);
	CU_ASSERT_EQUAL(held(p.io), 2);
	for (int i = 1; i < TURNS; i++) {
		rd_loop_turn(loop, 0);
		CU_ASSERT_EQUAL(held(large), 0);
	}
	rd_loop_turn(loop, 0);
	CU_ASSERT_EQUAL(held(large), 2);
	CU_ASSERT_EQUAL(pool->owed, 2 * RDT_BUFFER_UNIT);
	large->hold_respond = small->hold_respond = p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(large) + t_answers(small) + t_answers(p.io), 3);
}

/* Of very many hosts that wait for a block of the reserve, a turn serves 32. */
static void turns_of_the_reserve(void)
{
	enum { MANY = 40, ROUND = 32 };
	T_PAIR(p);
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];
	struct t_conn *c[MANY];
	char nqn[64];
	void *rest;

	for (int i = 0; i < MANY; i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.rdnvme:host%d", i);
		c[i] = host_named(p.env, nqn);
	}
	p.io->hold_respond = true;
	for (int i = 0; i < 3; i++)
		ask(p.io, T_MDTS);
	rest = rd_buddy_alloc(pool->buddy, T_MDTS);
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(pool->buddy), 0);
	for (int i = 0; i < MANY; i++)
		send_read(c[i], RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(pool->waiting, MANY);
	p.env->disk[0].hold = true;
	rd_buddy_free(pool->buddy, rest, T_MDTS);
	p.io->hold_respond = false;
	t_pump(p.env);
	CU_ASSERT_EQUAL(pool->waiting, MANY - ROUND);
	t_pump(p.env);
	CU_ASSERT_EQUAL(pool->waiting, 0);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	for (int i = 0; i < MANY; i++)
		CU_ASSERT_EQUAL(t_answers(c[i]), 1);
}

/* A host that waits for more than it has transferred is not unproven with what it uses. When it has
 * transferred enough, it gets a block of the reserve, although nothing else has changed. */
static void trusted_while_it_waits(void)
{
	T_PAIR(p);
	struct t_conn *stuck = second_host(p.env), *third = host_named(p.env, HOST3);
	struct rdt_pool *pool = &p.env->t->reactors[1].pools[RDT_POOL_IO];
	struct rdt_account *acc = &third->qp.share->accounts[RDT_POOL_IO];

	forget(stuck);
	stuck->hold_respond = third->hold_respond = true;
	acc->moved = 4 * RDT_BUFFER_UNIT;
	ask(stuck, T_MDTS);
	ask(third, 2 * RDT_BUFFER_UNIT);
	ask(third, T_MDTS);
	CU_ASSERT_EQUAL(held(third), 2);
	CU_ASSERT(!acc->is_unproven);
	CU_ASSERT_EQUAL(pool->waiting, 1);
	ask(p.io, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(acc->refused_at, pool->changes);
	acc->moved = (MDTS_UNITS - 1) * RDT_BUFFER_UNIT;
	third->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(third), 2);
	CU_ASSERT_EQUAL(held(stuck), MDTS_UNITS);
	stuck->hold_respond = false;
	t_turn(p.env);
}

/* When a slow disk uses the whole slab, Connect and admin commands still work. */
static void reserve(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *other;
	struct rd_buddy *slab = p.env->t->reactors[1].pools[RDT_POOL_IO].buddy;
	uint8_t *buf T_FREE = malloc(T_MDTS);
	struct nvme_sqe sqe;
	void *rest;

	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 8; i++) {
		t_send_rw(p.io, false, i, T_MDTS / 512, buf);
	}
	t_turn(p.env);
	rest = rd_buddy_alloc(slab, T_MDTS); /* beyond the host's share */
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(slab), 0);
	other = t_conn_new(p.env, 1, 2, 16);
	CU_ASSERT_EQUAL(t_connect(other, p.cntlid), p.cntlid);
	other = t_conn_new(p.env, 1, 0, 32);
	t_connect(other, NVMF_CNTLID_DYNAMIC);
	t_enable(other);
	t_sqe(other, &sqe, nvme_admin_identify, buf, 4096);
	sqe.cdw10 = htole32(1);
	CU_ASSERT_EQUAL(t_exec_status(other, &sqe), 0);
	rd_buddy_free(slab, rest, T_MDTS);
	t_pair_free(&p);
}

static void abort_waiting(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	uint8_t *buf T_FREE = malloc(T_MDTS);
	struct nvme_sqe big, sqe;
	struct t_answer a;

	d->hold = true;
	for (unsigned int i = 0; i < 2; i++) {
		t_send_rw(p.io, false, i, T_MDTS / 512, buf);
	}
	t_rw_sqe(p.io, &sqe, false, 9, 1, buf); /* a third large one is more than its share now */
	t_send(p.io, &sqe, NULL, 0);
	t_rw_sqe(p.io, &big, false, 10, T_MDTS / 512, buf);
	t_send(p.io, &big, NULL, 0);
	t_send_rw(p.io, false, 11, 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 3);
	a = t_abort(p.admin, 1, big.cid);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(a.cqe.cid, big.cid);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_ABORT_REQ);
	/* The one behind it continues at once. */
	CU_ASSERT_EQUAL_FATAL(d->held_count, 4);
	CU_ASSERT_EQUAL(d->held[3]->offset, 11 * 512);
	t_pair_free(&p);
}

static void abort_fetching(void)
{
	T_PAIR(p);
	static uint8_t buf[2][16384];
	struct t_answer a;
	__le16 w[2];

	p.io->hold_fetch = true;
	for (unsigned int i = 0; i < 2; i++)
		w[i] = t_send_rw(p.io, true, i * 32, 32, buf[i]);
	t_turn(p.env);
	for (unsigned int i = 0; i < 2; i++) {
		a = t_abort(p.admin, 1, w[i]);
		/* The first READ was posted and cannot be cancelled; the second one waits. */
		CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1 - i);
	}
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(a.cqe.cid, w[1]);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_ABORT_REQ);
	p.io->hold_fetch = false;
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(a.cqe.cid, w[0]);
	CU_ASSERT_EQUAL(t_status(&a), 0);
}

/* iWARP has no RNR: the RECV is posted again before the host can know that its command is done. */
static void recv_before_answer(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	uint8_t data[1024] = {1, 2, 3};
	struct nvme_sqe sqe;

	d->hold = true;
	t_send_rw(p.io, true, 0, 2, data);
	CU_ASSERT_EQUAL(p.io->caps_out, 0); /* keyed data: the capsule is not needed any more */
	t_rw_sqe(p.io, &sqe, true, 8, 2, NULL);
	t_in_capsule(&sqe, 1024);
	t_send(p.io, &sqe, data, 1024);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 2);
	CU_ASSERT_EQUAL(p.io->caps_out, 1); /* the backend is still reading from it */
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 2);
	CU_ASSERT_EQUAL(p.io->caps_out_at_answer, 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 8 * 512, data, 1024), 0);
}

/* SIGTERM: no new commands, but commands in progress are completed and answered. Then the admin
 * queue is closed, and the host gets a moment to disconnect its I/O queues. */
static void drain(void)
{
	T_PAIR(p);
	struct rdt_target *t = p.env->t;
	struct t_disk *d = &p.env->disk[0];
	bool io_gone = false;
	bool admin_gone = false;
	uint8_t data[512] = {42};
	struct nvme_sqe sqe;

	p.io->gone = &io_gone;
	p.admin->gone = &admin_gone;
	d->hold = true;
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	t_send(p.admin, &sqe, NULL, 0);
	t_rw_sqe(p.io, &sqe, true, 7, 1, data);
	t_begin(p.io, &sqe);
	rdt_target_drain(t, NULL);
	t_turn(p.env);
	/* The admin queue stays open while an I/O queue has commands to answer. */
	CU_ASSERT_FALSE(io_gone);
	CU_ASSERT_FALSE(p.admin->closing);
	t_send(p.io, &sqe, NULL, 0); /* too late */
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->submitted, 1);
	p.io->hold_respond = true;
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_FALSE(io_gone);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	CU_ASSERT_EQUAL(d->data[7 * 512], 42);
	CU_ASSERT_FALSE(p.admin->closing);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(p.admin->closing);
	CU_ASSERT_FALSE(p.io->closing);
	t_advance(p.env, RDT_LEAVE_WAIT);
	CU_ASSERT_TRUE(io_gone);
	CU_ASSERT_TRUE(admin_gone);
	CU_ASSERT_EQUAL(t->reactors_left, 0);
	for (unsigned int i = 0; i < 2; i++)
		t->reactors[i].drained_sent = false; /* t_env_free() drains as well */
}

/* The same with a host that disconnects when its admin queue ends: no timeout is waited for. */
static void drain_host_leaves(void)
{
	T_PAIR(p);
	struct rdt_target *t = p.env->t;
	bool io_gone = false;

	p.io->gone = &io_gone;
	rdt_target_drain(t, NULL);
	t_turn(p.env);
	CU_ASSERT_TRUE(p.admin->closing);
	CU_ASSERT_FALSE(p.io->closing);
	rdt_qpair_lost(&p.io->qp, RDT_END_HOST, "the host has left");
	t_turn(p.env);
	CU_ASSERT_TRUE(io_gone);
	CU_ASSERT_EQUAL(t->reactors_left, 0);
	for (unsigned int i = 0; i < 2; i++)
		t->reactors[i].drained_sent = false; /* t_env_free() drains as well */
}

/* Conditions that held when the command was parsed, but not when its data arrived. */
enum change { PROTECTED, SMALLER, HIDDEN, INACCESSIBLE, CHANGES };

static struct rdt_listener path;

static void make_change(struct t_pair *p, enum change change)
{
	static const char *const others[] = {T_HOST2};
	struct rdt_ns *ns = t_ns_of(p->env->t->subsys[0], 1);
	char text[160];

	switch (change) {
	case PROTECTED:
		atomic_store(&ns->wp, NVME_NS_WP_CFG_PROTECT);
		break;
	case SMALLER:
		CU_ASSERT_EQUAL(rdt_control_ns_resize(ns, 512, text, sizeof(text)), 0);
		break;
	case HIDDEN:
		CU_ASSERT_EQUAL(rdt_ns_set_hosts(ns, false, others, 1), 0);
		break;
	default:
		atomic_store(&path.ana[ns->cfg->ana_group], NVME_ANA_STATE_INACCESSIBLE);
	}
}

static void changed_while_it_waited(void)
{
	static const uint16_t status[CHANGES] = {NVME_SC_NS_WRITE_PROTECTED, NVME_SC_LBA_RANGE,
						 NVME_SC_INVALID_NS,
						 NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE};
	struct rdt_listener_config cfg = {0};
	static uint8_t buf[2 * T_MDTS];

	for (int write = 0; write < 2; write++) {
		for (unsigned int change = PROTECTED; change < CHANGES; change++) {
			T_PAIR(p);
			struct t_disk *d = &p.env->disk[0];
			struct nvme_sqe sqe;
			struct t_answer a;

			path.cfg = &cfg;
			rdt_ana_init(&path);
			p.admin->qp.ctrl->listener = &path;
			d->hold = true;
			for (unsigned int i = 0; i < 4; i++) { /* the last one waits for a buffer */
				t_send_rw(p.io, false, 0, i == 2 ? 1 : T_MDTS / 512, buf);
			}
			t_turn(p.env);
			t_rw_sqe(p.io, &sqe, write, 100, 1, buf); /* and so does this, behind it */
			t_begin(p.io, &sqe);
			CU_ASSERT_EQUAL(d->held_count, 3);
			make_change(&p, (enum change)change);
			d->hold = false;
			t_turn(p.env);
			for (unsigned int i = 0; i < 5; i++) {
				a = t_answer(p.io);
				if (a.cqe.cid == sqe.cid)
					break;
			}
			CU_ASSERT_EQUAL(a.cqe.cid, sqe.cid);
			CU_ASSERT_EQUAL(t_status(&a),
					change == PROTECTED && !write ? 0 : status[change]);
		}
	}
}

const struct t_case t_flow_cases[] = {
	{"commands beyond the requests wait in order", requests_in_order},
	{"commands without a buffer wait in order", buffers_in_order},
	{"a host has its share of the buffers, and others go on", one_host_has_a_share},
	{"half of the buffers is for hosts that move their data", half_is_a_reserve},
	{"there is room for the first block of a new host", room_for_new_hosts},
	{"a host that is late loses the reserve", late_hosts},
	{"who has its share is passed by others that wait", hosts_that_wait},
	{"who was refused unproven is looked at after a change", refused_until_a_change},
	{"a host that gets a block unproven may get more", more_unproven},
	{"the last of very many unproven is looked at", last_of_many_unproven},
	{"unproven hosts have a limited part of each turn", turns_unproven},
	{"a turn serves a limited number of hosts", turns_of_the_reserve},
	{"a host gets the reserve when it has moved enough, while it waits",
	 trusted_while_it_waits},
	{"a slow disk does not block Connect and admin commands", reserve},
	{"Abort takes a command out of the wait for a buffer", abort_waiting},
	{"Abort takes back a READ that has not started", abort_fetching},
	{"the RECV is posted before the answer", recv_before_answer},
	{"draining finishes and answers what was begun, and ends the admin queue first", drain},
	{"draining is over when the host has left", drain_host_leaves},
	{"what changed while a command waited is looked at again", changed_while_it_waited},
	{NULL, NULL},
};
