/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that wait for the limits of their namespace and their host. */
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

#define MSEC RD_NSEC_PER_MSEC
/* Use up the burst: from here on every command waits. */
#define EAGER 4u

static struct rdt_qos_config limit(enum rdt_qos_limit which, uint64_t rate)
{
	struct rdt_qos_config cfg = {0};

	cfg.limits[which] = rate;
	return cfg;
}

static uint8_t data[T_MDTS];

static uint16_t limits_send_rw(struct t_conn *c, bool write, uint64_t lba, uint32_t blocks)
{
	struct nvme_sqe sqe;

	t_rw_sqe(c, &sqe, write, lba, blocks, data);
	t_send(c, &sqe, NULL, 0);
	return le16toh(sqe.cid);
}

/* Use up the credit at 100 commands a second; one more command starts at once. */
static void use_up(struct t_pair *p)
{
	for (unsigned int i = 0; i <= RDT_QOS_BURST / (10 * MSEC); i++) {
		limits_send_rw(p->io, false, 0, 1);
		t_turn(p->env);
		CU_ASSERT_EQUAL_FATAL(t_answers(p->io), 1);
		t_answer(p->io);
	}
}

static struct rdt_ns *ns_of(struct t_env *env, unsigned int slot)
{
	return env->t->ns[slot];
}

static void commands_go_in_order_as_time_allows(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 100);
	uint16_t cid[8];

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	use_up(&p);
	for (unsigned int i = 0; i < 8; i++)
		cid[i] = limits_send_rw(p.io, false, i, 1);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 0);
	CU_ASSERT_EQUAL(p.env->t->reactors[1].limited, 8);
	/* Waiting commands have no data buffer. */
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(p.env->t->reactors[1].pools[RDT_POOL_IO].buddy),
			rd_buddy_total_bytes(p.env->t->reactors[1].pools[RDT_POOL_IO].buddy));
	for (unsigned int i = 0; i < 8; i++) {
		struct t_answer a;

		t_advance(p.env, 10 * MSEC - 1);
		CU_ASSERT_EQUAL(t_answers(p.io), 0);
		t_advance(p.env, 1);
		CU_ASSERT_EQUAL_FATAL(t_answers(p.io), 1);
		a = t_answer(p.io);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_EQUAL(le16toh(a.cqe.cid), cid[i]);
	}
	CU_ASSERT_EQUAL(p.env->t->reactors[1].limited, 0);
}

static void others_are_not_held_up(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_READ_IOPS, 100);
	struct nvme_sqe sqe;

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	use_up(&p);
	limits_send_rw(p.io, false, 0, 1);
	/* A write, a Flush, and the other namespace. */
	CU_ASSERT_EQUAL(t_rw(p.io, true, 0, 1, data), 0);
	CU_ASSERT_EQUAL(t_flush(p.io), 0);
	t_rw_sqe(p.io, &sqe, false, 0, 1, data);
	sqe.nsid = htole32(5);
	CU_ASSERT_EQUAL(t_exec_status(p.io, &sqe), 0);
	CU_ASSERT_EQUAL(t_answers(p.io), 0);
	t_advance(p.env, 10 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), 1);
}

static void bandwidth_counts_what_moves(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_WRITE_BYTES, 640 << 10); /* 64 KiB in 100 ms */
	unsigned int went = 0;

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	for (unsigned int i = 0; i < 4; i++)
		limits_send_rw(p.io, true, 0, T_MDTS / 512);
	t_turn(p.env);
	went = t_answers(p.io);
	CU_ASSERT_EQUAL(went, 1);
	t_advance(p.env, 99 * MSEC - RDT_QOS_BURST); /* that much credit */
	CU_ASSERT_EQUAL(t_answers(p.io), 1);
	t_advance(p.env, 1 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), 2);
	t_advance(p.env, 200 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), 4);
}

/* Two queues on two reactors: both make progress, and together they get the limit. */
static void reactors_share_one_limit(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 100);
	struct t_conn *other = t_conn_new(p.env, 0, 2, 16);
	unsigned int one, two;

	t_connect(other, p.cntlid);
	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	use_up(&p);
	for (unsigned int i = 0; i < 12; i++) {
		limits_send_rw(p.io, false, 0, 1);
		limits_send_rw(other, false, 0, 1);
	}
	t_turn(p.env);
	for (unsigned int i = 0; i < 10; i++)
		t_advance(p.env, 10 * MSEC);
	one = t_answers(p.io);
	two = t_answers(other);
	CU_ASSERT_EQUAL(one + two, 10);
	CU_ASSERT_TRUE(one >= 4 && two >= 4);
	for (unsigned int i = 0; i < 14; i++)
		t_advance(p.env, 10 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io) + t_answers(other), 24);
}

static void a_hosts_limit_is_for_all_its_namespaces(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 100), slower = limit(RDT_QOS_IOPS, 50);
	struct nvme_sqe sqe;
	struct t_answer a;

	CU_ASSERT_EQUAL(rdt_qos_set_host(p.env->t->subsys[0], T_HOST, &cfg), 0);
	CU_ASSERT_EQUAL(rdt_qos_set_host(p.env->t->subsys[0], T_HOST2, &slower), 0);
	use_up(&p);
	t_rw_sqe(p.io, &sqe, false, 0, 1, data);
	sqe.nsid = htole32(5);
	t_send(p.io, &sqe, NULL, 0);
	limits_send_rw(p.io, false, 0, 1);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 0);
	t_advance(p.env, 10 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), 1);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe.cid);
	t_advance(p.env, 10 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), 1);
	t_answer(p.io);
	/* And the namespace's own limit after the host's. */
	rdt_qos_set_ns(ns_of(p.env, 0), &slower);
	for (unsigned int i = 0; i < EAGER; i++)
		limits_send_rw(p.io, false, 0, 1);
	for (unsigned int i = 0; i < 10; i++)
		t_advance(p.env, 10 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), EAGER);
	CU_ASSERT_EQUAL(rdt_qos_set_host(p.env->t->subsys[0], T_HOST2, NULL), 0);
	CU_ASSERT_EQUAL(rdt_qos_set_host(p.env->t->subsys[0], "nqn.2026-01.org.e:no", NULL), 0);
}

static void new_limits_reach_those_who_wait(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 1);

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	limits_send_rw(p.io, false, 0, 1);
	for (unsigned int i = 0; i < EAGER; i++)
		limits_send_rw(p.io, false, 0, 1);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 1);
	t_answer(p.io);
	rdt_qos_set_ns(ns_of(p.env, 0), NULL);
	t_advance(p.env, 100 * MSEC);
	CU_ASSERT_EQUAL(t_answers(p.io), EAGER);
}

static void what_waits_can_be_aborted(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 100);
	uint16_t cid, next;
	struct nvme_sqe sqe;
	struct t_answer a;

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	use_up(&p);
	cid = limits_send_rw(p.io, false, 0, 1);
	next = limits_send_rw(p.io, false, 0, 1);
	t_turn(p.env);
	t_sqe(p.admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
	sqe.cdw10 = htole32((uint32_t)cid << 16 | 1);
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	CU_ASSERT_EQUAL(t_answer_status(p.io), NVME_SC_ABORT_REQ);
	/* An unused turn passes to the next command. */
	t_advance(p.env, 10 * MSEC);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le16toh(a.cqe.cid), next);
}

/* When its time has come but the timer has not run, the head is still the first. */
static void newcomers_do_not_overtake(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 100);
	uint16_t cid[3];

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	use_up(&p);
	cid[0] = limits_send_rw(p.io, false, 0, 1);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 0);
	p.env->now += 10 * MSEC; /* no timer has run */
	cid[1] = limits_send_rw(p.io, false, 0, 1);
	cid[2] = limits_send_rw(p.io, false, 0, 1);
	for (unsigned int i = 0; i < 3; i++) {
		struct t_answer a;

		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(t_answers(p.io), 1);
		a = t_answer(p.io);
		CU_ASSERT_EQUAL(le16toh(a.cqe.cid), cid[i]);
		p.env->now += 10 * MSEC;
	}
}

/* No timer runs for a queue without waiting commands, because its limiter may have been freed by
 * then. */
static void an_empty_qos_queue_is_not_looked_at(void)
{
	for (int end = 0; end < 3; end++) {
		T_PAIR(p);
		struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 1);
		struct rd_loop *loop = p.env->t->reactors[1].loop;
		struct nvme_sqe sqe;
		uint16_t cid;

		rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
		limits_send_rw(p.io, false, 0, 1);
		cid = limits_send_rw(p.io, false, 0, 1);
		t_turn(p.env);
		CU_ASSERT_EQUAL(p.env->t->reactors[1].limited, 1);
		p.env->now += 50 * MSEC;
		CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
		switch (end) {
		case 0:
			t_conn_cut(p.io);
			break;
		case 1:
			t_sqe(p.admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
			sqe.cdw10 = htole32((uint32_t)cid << 16 | 1);
			t_send(p.admin, &sqe, NULL, 0);
			break;
		default:
			rdt_control_ns_remove(ns_of(p.env, 0), NULL, NULL);
			break;
		}
		t_turn(p.env);
		CU_ASSERT_EQUAL(p.env->t->reactors[1].limited, 0);
		p.env->now += 100 * MSEC;
		CU_ASSERT_EQUAL(rd_loop_turn(loop, 0), 0);
	}
}

static void a_connection_may_end_while_it_waits(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 1);
	struct t_conn *other = t_conn_new(p.env, 1, 2, 16);

	t_connect(other, p.cntlid);
	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	limits_send_rw(p.io, false, 0, 1);
	for (unsigned int i = 0; i < EAGER; i++)
		limits_send_rw(p.io, false, 0, 1);
	limits_send_rw(other, false, 0, 1);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.env->t->reactors[1].limited, EAGER + 1);
	t_conn_cut(p.io);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.env->t->reactors[1].limited, 1);
	for (unsigned int i = 0; i < 11; i++)
		t_advance(p.env, 100 * MSEC);
	CU_ASSERT_EQUAL(t_answers(other), 1); /* the turns of the dead queue were not used */
}

/* Limits are removed while hundreds of commands wait: those of a queue go on over several turns. */
static void they_go_on_over_several_turns(void)
{
	T_PAIR(p);
	struct rdt_qos_config cfg = limit(RDT_QOS_IOPS, 1);
	const struct rdt_reactor *r = &p.env->t->reactors[1];
	struct t_conn *more[3];
	unsigned int most = 0;

	rdt_qos_set_ns(ns_of(p.env, 0), &cfg);
	limits_send_rw(p.io, false, 0, 1);
	for (uint16_t i = 0; i < 3; i++) {
		more[i] = t_conn_new(p.env, 1, (uint16_t)(i + 2), 64);
		t_connect(more[i], p.cntlid);
		for (unsigned int n = 0; n < 60; n++)
			limits_send_rw(more[i], false, 0, 1);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(r->limited, 180);
	rdt_qos_set_ns(ns_of(p.env, 0), NULL);
	p.env->now += 100 * MSEC;
	for (unsigned int before = r->limited; before; before = r->limited) {
		t_pump(p.env);
		most = before - r->limited > most ? before - r->limited : most;
	}
	CU_ASSERT_EQUAL(most, 64);
	t_turn(p.env);
	for (unsigned int i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(t_answers(more[i]), 60);
}

const struct t_case t_limit_cases[] = {
	{"commands go in order as time allows", commands_go_in_order_as_time_allows},
	{"others are not held up", others_are_not_held_up},
	{"bandwidth counts what moves", bandwidth_counts_what_moves},
	{"reactors share one limit", reactors_share_one_limit},
	{"a host's limit is for all its namespaces", a_hosts_limit_is_for_all_its_namespaces},
	{"new limits reach those who wait", new_limits_reach_those_who_wait},
	{"what waits can be aborted", what_waits_can_be_aborted},
	{"newcomers do not overtake", newcomers_do_not_overtake},
	{"an empty QoS queue is not looked at", an_empty_qos_queue_is_not_looked_at},
	{"a connection may end while it waits", a_connection_may_end_while_it_waits},
	{"they go on over several turns", they_go_on_over_several_turns},
	{NULL, NULL},
};
