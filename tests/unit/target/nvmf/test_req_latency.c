/* SPDX-License-Identifier: BSD-3-Clause */
/* The times that commands spend in each state, with a clock that the test sets. */
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

#define US RD_NSEC_PER_USEC

static void time_every(struct t_env *env, uint32_t every)
{
	for (unsigned int i = 0; i < env->t->reactors_count; i++) {
		rdt_timing_fini(&env->t->reactors[i]);
		CU_ASSERT_EQUAL_FATAL(rdt_timing_init(&env->t->reactors[i], every), 0);
	}
}

static void answered(struct rdt_timing_query *query)
{
	*(bool *)query->arg = true;
}

/* Asks as SIGUSR1 does; the caller frees the query. */
static struct rdt_timing_query *req_latency_ask(struct t_env *env)
{
	struct rdt_timing_query *query = rdt_timing_query_new(env->t);
	bool done = false;

	CU_ASSERT_PTR_NOT_NULL_FATAL(query);
	query->done = answered;
	query->arg = &done;
	rdt_timing_ask(query);
	t_turn(env);
	CU_ASSERT_TRUE(done);
	return query;
}

/* One command was in @state, for @ns. */
static void was_in(const struct rdt_timing_query *query, unsigned int state, uint64_t ns)
{
	const struct rd_hist *h = rdt_timing_hist(query->sum, state);

	CU_ASSERT_EQUAL(h->count, 1);
	CU_ASSERT_EQUAL(h->sum, ns);
}

static void never_in(const struct rdt_timing_query *query, unsigned int state)
{
	CU_ASSERT_EQUAL(rdt_timing_hist(query->sum, state)->count, 0);
}

static void a_write_is_timed_in_each_state(void)
{
	T_PAIR(p);
	struct rdt_timing_query *query;
	static uint8_t buf[T_MDTS];

	time_every(p.env, 1);
	p.env->disk[0].hold = true;
	p.io->hold_fetch = p.io->hold_respond = true;
	t_send_rw(p.io, true, 0, 32, buf);
	t_turn(p.env);
	t_advance(p.env, 10 * US);
	p.io->hold_fetch = false;
	t_turn(p.env);
	t_advance(p.env, 20 * US);
	t_disk_finish(&p.env->disk[0], 0, 0);
	t_turn(p.env);
	t_advance(p.env, 30 * US);
	query = req_latency_ask(p.env);
	never_in(query, RDT_REQ_RESPONDING); /* it still is */
	rdt_timing_query_free(&query);
	p.io->hold_respond = false;
	t_turn(p.env);
	query = req_latency_ask(p.env);
	was_in(query, RDT_REQ_NEW, 0);
	was_in(query, RDT_REQ_NEED_BUFFER, 0);
	was_in(query, RDT_REQ_FETCH, 0);
	was_in(query, RDT_REQ_FETCHING, 10 * US);
	was_in(query, RDT_REQ_READY, 0);
	was_in(query, RDT_REQ_EXECUTING, 20 * US);
	was_in(query, RDT_REQ_EXECUTED, 0);
	was_in(query, RDT_REQ_RESPONDING, 30 * US);
	was_in(query, RDT_REQ_DONE, 0);
	was_in(query, RDT_REQ_STATES, 60 * US);
	never_in(query, RDT_REQ_FREE);
	never_in(query, RDT_REQ_LIMITED);
	never_in(query, RDT_REQ_FUSED);
	rdt_timing_query_free(&query);
}

static void waiting_for_a_buffer_is_seen(void)
{
	T_PAIR(p);
	static uint8_t buf[T_MDTS];
	struct rdt_timing_query *query T_ENDS(rdt_timing_query_free) = NULL;
	const struct rd_hist *h;

	time_every(p.env, 1);
	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 4; i++) { /* one more than a host's share of the slab */
		t_send_rw(p.io, false, i, T_MDTS / 512, buf);
	}
	t_turn(p.env);
	t_advance(p.env, 70 * US);
	p.env->disk[0].hold = false;
	while (p.env->disk[0].held_count)
		t_disk_finish(&p.env->disk[0], 0, 0);
	t_turn(p.env);
	query = req_latency_ask(p.env);
	h = rdt_timing_hist(query->sum, RDT_REQ_NEED_BUFFER);
	CU_ASSERT_EQUAL(h->count, 4);
	CU_ASSERT_EQUAL(h->sum, 70 * US);
	CU_ASSERT_EQUAL(h->max, 70 * US);
}

/* One command of @every on average, and not periodically. */
static void some_commands_are_timed(void)
{
	T_PAIR(p);
	struct rdt_timing_query *query;
	unsigned int together = 0;
	uint64_t last = 0, count;
	uint8_t buf[512];

	time_every(p.env, 8);
	for (unsigned int i = 0; i < 4000; i++) {
		t_rw(p.io, false, 0, 1, buf);
		if (i % 8 != 7)
			continue;
		query = req_latency_ask(p.env);
		count = rdt_timing_hist(query->sum, RDT_REQ_STATES)->count;
		together += count - last != 1;
		last = count;
		rdt_timing_query_free(&query);
	}
	CU_ASSERT_TRUE(last > 450 && last < 550);
	CU_ASSERT_TRUE(together > 100); /* periodically, each eight would contain one */
}

static void nothing_is_timed_when_it_is_off(void)
{
	T_PAIR(p);
	struct rdt_timing_query *query T_ENDS(rdt_timing_query_free) = NULL;
	uint8_t buf[512];

	time_every(p.env, 0);
	CU_ASSERT_PTR_NULL(p.env->t->reactors[1].timing.times);
	for (unsigned int i = 0; i < 10; i++) {
		p.env->t->reactors[1].timing.left = 1 + i % 2; /* as after 2^32 commands */
		t_rw(p.io, false, 0, 1, buf);
	}
	query = req_latency_ask(p.env);
	never_in(query, RDT_REQ_STATES);
}

static void admin_commands_are_not_timed(void)
{
	T_PAIR(p);
	struct rdt_timing_query *query T_ENDS(rdt_timing_query_free) = NULL;

	time_every(p.env, 1);
	t_get_property(p.admin, 0, true);
	query = req_latency_ask(p.env);
	never_in(query, RDT_REQ_STATES);
}

static void reactors_are_added_up(void)
{
	T_PAIR(p);
	struct t_conn *other = t_conn_new(p.env, 0, 2, 16);
	struct rdt_timing_query *query T_ENDS(rdt_timing_query_free) = NULL;
	struct nvme_sqe sqe;
	uint8_t buf[512];
	bool done = false;

	t_connect(other, p.cntlid);
	time_every(p.env, 1);
	for (unsigned int i = 0; i < 7; i++) {
		t_rw_sqe(i < 3 ? p.io : other, &sqe, false, 0, 1, buf);
		t_exec(i < 3 ? p.io : other, &sqe);
	}
	query = req_latency_ask(p.env);
	CU_ASSERT_EQUAL(rdt_timing_hist(query->sum, RDT_REQ_STATES)->count, 7);
	query->arg = &done;    /* the query of ask() is freed */
	rdt_timing_ask(query); /* a repeated query starts with empty histograms */
	t_turn(p.env);
	CU_ASSERT_TRUE(done);
	CU_ASSERT_EQUAL(rdt_timing_hist(query->sum, RDT_REQ_STATES)->count, 7);
}

/* Without an answer: it is never RESPONDING. */
static void a_lost_connection_ends_what_is_timed(void)
{
	T_PAIR(p);
	struct rdt_timing_query *query;
	static uint8_t buf[512];

	time_every(p.env, 1);
	p.env->disk[0].hold = true;
	t_send_rw(p.io, false, 0, 1, buf);
	t_turn(p.env);
	t_conn_cut(p.io);
	t_turn(p.env);
	t_advance(p.env, 5 * US);
	t_disk_finish(&p.env->disk[0], 0, 0);
	t_turn(p.env);
	query = req_latency_ask(p.env);
	was_in(query, RDT_REQ_EXECUTING, 0);
	was_in(query, RDT_REQ_ABORTING, 5 * US);
	was_in(query, RDT_REQ_DROPPED, 0);
	was_in(query, RDT_REQ_STATES, 5 * US);
	never_in(query, RDT_REQ_RESPONDING);
	never_in(query, RDT_REQ_DONE);
	rdt_timing_query_free(&query);
	p.io = NULL;
}

const struct t_case t_req_latency_cases[] = {
	{"a write is timed in each state", a_write_is_timed_in_each_state},
	{"waiting for a buffer is seen", waiting_for_a_buffer_is_seen},
	{"some commands are timed", some_commands_are_timed},
	{"nothing is timed when it is off", nothing_is_timed_when_it_is_off},
	{"admin commands are not timed", admin_commands_are_not_timed},
	{"reactors are added up", reactors_are_added_up},
	{"a lost connection ends what is timed", a_lost_connection_ends_what_is_timed},
	{NULL, NULL},
};
