/* SPDX-License-Identifier: BSD-3-Clause */
/* In which order a reactor accepts connections that wait, and how many in a turn and in a time. */
#include "target/nvmf/peers.h"
#include "t_target.h"

#define MANY  3000u
#define ALL   (3 * MANY)
#define TURN  4u /* accepted in a turn; of a crowded address, in each PAUSE */
#define PAUSE (2 * RD_NSEC_PER_MSEC)

struct coming {
	struct rdt_handover over;
	unsigned int n;
};

static struct hand {
	struct t_env *env;
	struct rdt_reactor *r;
	struct rdt_inbound in;
	struct rdt_source sources[3];
	struct coming *coming;
	unsigned int came, taken, refused;
	unsigned int when[ALL]; /* the order in which they were accepted, from 1 on */
} hand;

static void take(struct rdt_handover *over, bool refuse)
{
	const struct coming *c = rd_container_of(over, struct coming, over);

	hand.when[c->n] = ++hand.taken;
	hand.refused += refuse;
}

static void begin(unsigned int kind)
{
	hand = (struct hand){.env = t_env_new()};
	hand.r = hand.env->t->reactors;
	hand.coming = calloc(ALL, sizeof(*hand.coming));
	CU_ASSERT_PTR_NOT_NULL_FATAL(hand.coming);
	for (unsigned int i = 0; i < 3; i++)
		TAILQ_INIT(&hand.sources[i].unassoc);
	hand.env->cfg.target.limits.unconnected = 4096;
	hand.env->cfg.target.limits.unconnected_per_address = 512;
	rdt_inbound_init(&hand.in, hand.r, kind, take);
}

static void end(void)
{
	unsigned int left = hand.came - hand.taken;

	rdt_inbound_fini(&hand.in);
	CU_ASSERT_EQUAL(hand.refused, left);
	CU_ASSERT_EQUAL(hand.taken, hand.came);
	free(hand.coming);
	t_env_free(hand.env);
}

/* Returns the number of the first one. */
static unsigned int come(unsigned int source, unsigned int count)
{
	unsigned int first = hand.came;

	for (; count; count--) {
		struct coming *c = &hand.coming[hand.came];

		c->n = hand.came++;
		rdt_hand_over(&hand.in, &c->over, &hand.sources[source]);
	}
	return first;
}

static void turn(void)
{
	rd_loop_turn(hand.r->loop, 0);
}

static void of_each_transport(void (*fn)(unsigned int kind))
{
	fn(RDT_TRANSPORT_RDMA);
	fn(RDT_TRANSPORT_TCP);
}

/* One address has thousands of connections that wait: one of another address is accepted second. */
static void one_address(unsigned int kind)
{
	unsigned int other, third;

	begin(kind);
	come(0, MANY);
	other = come(1, 2);
	third = come(2, 1);
	turn();
	turn();
	CU_ASSERT_EQUAL(hand.when[0], 1);
	CU_ASSERT_EQUAL(hand.when[other], 2);
	CU_ASSERT_EQUAL(hand.when[third], 3);
	CU_ASSERT_EQUAL(hand.when[1], 4);
	CU_ASSERT_EQUAL(hand.when[other + 1], 5);
	CU_ASSERT_EQUAL(hand.taken, 2 * TURN);
	/* Of one address the order stays. */
	CU_ASSERT_EQUAL(hand.when[4], 8);
	end();
}

static void addresses_take_turns(void)
{
	of_each_transport(one_address);
}

static void so_many_in_a_turn(unsigned int kind)
{
	begin(kind);
	come(0, MANY);
	for (unsigned int n = 1; hand.taken < MANY; n++) {
		turn();
		CU_ASSERT_EQUAL_FATAL(hand.taken, n * TURN);
	}
	end();
}

static void a_turn_has_a_limit(void)
{
	of_each_transport(so_many_in_a_turn);
}

/* The address has all its connections without a Connect, so each further one ends an older one. */
static void so_many_in_a_time(unsigned int kind)
{
	unsigned int other;

	begin(kind);
	hand.sources[0].unassoc_count = 512;
	come(0, 100);
	for (unsigned int n = 1; n <= 10; n++) {
		for (int i = 0; i < 50; i++)
			turn();
		CU_ASSERT_EQUAL_FATAL(hand.taken, n * TURN);
		hand.env->now += PAUSE;
	}
	hand.env->now -= PAUSE;
	/* Nobody else waits for that. */
	other = come(1, 1);
	turn();
	CU_ASSERT_EQUAL(hand.when[other], 10 * TURN + 1);
	/* One after the other, each when the one before was accepted: it is the same address. */
	hand.sources[2].unassoc_count = 512;
	for (unsigned int i = 0; i < TURN; i++) {
		come(2, 1);
		turn();
	}
	CU_ASSERT_EQUAL(hand.taken, 11 * TURN + 1);
	come(2, 1);
	turn();
	turn();
	CU_ASSERT_EQUAL(hand.taken, 11 * TURN + 1);
	/* As soon as it has places again there are no pauses. */
	hand.sources[0].unassoc_count = hand.sources[2].unassoc_count = 0;
	hand.env->now += PAUSE;
	for (int i = 0; i < 50; i++)
		turn();
	CU_ASSERT_EQUAL(hand.taken, hand.came);
	end();
}

static void a_crowded_address_pauses(void)
{
	of_each_transport(so_many_in_a_time);
}

/* Another host of the address is behind thousands that come again as soon as they are ended. */
static void behind_a_crowd(unsigned int kind)
{
	unsigned int pauses = 0, before, mine;

	begin(kind);
	hand.sources[0].unassoc_count = 512;
	mine = come(0, MANY) + MANY - 1;
	for (; !hand.when[mine]; pauses++) {
		CU_ASSERT_FATAL(pauses <= 200);
		before = hand.taken;
		for (int i = 0; i < 20; i++)
			turn();
		come(0, hand.taken - before);
		hand.env->now += PAUSE;
	}
	turn(); /* all are in the queue */
	end();
}

static void a_crowd_does_not_hide_others(void)
{
	of_each_transport(behind_a_crowd);
}

static void pauses_end_with_the_reactor(void)
{
	begin(RDT_TRANSPORT_TCP);
	hand.sources[0].unassoc_count = 512;
	come(0, 20);
	for (int i = 0; i < 9; i++)
		turn();
	CU_ASSERT_EQUAL(hand.taken, TURN);
	rdt_inbound_catch_up(&hand.in);
	CU_ASSERT_EQUAL(hand.taken, 20);
	CU_ASSERT_EQUAL(hand.refused, 0);
	come(0, 20);
	turn();
	end();
}

const struct t_case t_handover_cases[] = {
	{"addresses take turns", addresses_take_turns},
	{"a turn has a limit", a_turn_has_a_limit},
	{"an address without places for more pauses", a_crowded_address_pauses},
	{"a crowd does not hide another host of its address", a_crowd_does_not_hide_others},
	{"pauses end with the reactor", pauses_end_with_the_reactor},
	{NULL, NULL},
};
