/* SPDX-License-Identifier: BSD-3-Clause */
/* What admin commands cost: logs are cut from what was made for a generation, and the commands of a
 * host, and of all hosts, have a part of each turn of the loop. */
#include <string.h>

#include "target/nvmf/admin_budget.h"
#include "target/nvmf/slices.h"
#include "target/nvmf/ana_log.h"
#include "t_target.h"
#include "target/transport/rdma/rdma.h"

static void log_sqe(struct t_conn *c, struct nvme_sqe *sqe, uint8_t lid, uint64_t offset, void *buf,
		    uint32_t len)
{
	t_sqe(c, sqe, nvme_admin_get_log_page, buf, len);
	sqe->cdw10 = htole32(lid | (len / 4 - 1) << 16);
	sqe->cdw12 = htole32((uint32_t)offset);
}

static void read_log(struct t_conn *c, uint8_t lid, uint64_t offset, void *buf, uint32_t len)
{
	struct nvme_sqe sqe;
	struct t_answer a;

	memset(buf, 0xee, len);
	log_sqe(c, &sqe, lid, offset, buf, len);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
}

/* The NSID at the place of the @n-th one of the first group. */
static uint32_t ana_nsid(struct t_conn *c, unsigned int n)
{
	__le32 nsid;

	read_log(c, NVME_LOG_LID_ANA,
		 sizeof(struct nvme_ana_log) + sizeof(struct nvme_ana_group_desc) + n * 4, &nsid,
		 sizeof(nsid));
	return le32toh(nsid);
}

/* Marked in the order that the reactor keeps: the mark is read until a namespace has changed. */
static void ana_log_is_kept(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_subsys *ss = p.env->t->subsys[0];
	struct rdt_ana_order *order = &ss->ana_order[0];

	CU_ASSERT_EQUAL(ana_nsid(p.admin, 0), 1);
	CU_ASSERT_EQUAL(ana_nsid(p.admin, 1), 5);
	order->ns[0].nsid = 77;
	CU_ASSERT_EQUAL(ana_nsid(p.admin, 0), 77);
	rdt_ana_move(t_ns_of(ss, 5), 3);
	t_turn(p.env);
	CU_ASSERT_EQUAL(ana_nsid(p.admin, 0), 1);
	CU_ASSERT_EQUAL(ana_nsid(p.admin, 1), 3); /* the next group */
	order->ns[0].nsid = 77;
	rdt_ns_channel_hide(&p.env->t->reactors[0], t_ns_of(ss, 5));
	CU_ASSERT_EQUAL(ana_nsid(p.admin, 0), 1);
	rdt_ns_channel_show(&p.env->t->reactors[0], t_ns_of(ss, 5));
	t_pair_free(&p);
}

/* Its own order is the one of all hosts, without what it does not see. */
static void ana_log_of_some(void)
{
	struct t_pair p = t_pair_new();
	const char *two[] = {T_HOST2};

	CU_ASSERT_EQUAL(rdt_ns_set_hosts(t_ns_of(p.env->t->subsys[0], 1), false, two, 1), 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(ana_nsid(p.admin, 0), 5);
	t_pair_free(&p);
}

static uint64_t records(struct t_conn *c)
{
	uint8_t page[64];
	__le64 n;

	read_log(c, NVME_LOG_LID_DISCOVER, 0, page, sizeof(page));
	memcpy(&n, page + offsetof(struct nvmf_discovery_log, numrec), sizeof(n));
	return le64toh(n);
}

/* Which subsystems a host may use, and the listeners, are looked up again in the next generation,
 * which every change of them begins, and not before. */
static void discovery_log_is_kept(void)
{
	struct t_env *env = t_env_new();
	struct rdt_subsys *ss = env->t->subsys[0];
	struct rdt_rdma_listener rdma = {.fab = RDT_FAB_IWARP};
	struct rdt_listener listener = {
		.transport = &rdt_rdma_transport,
		.state = &rdma,
		.portid = 1,
		.addr.ss_family = AF_INET,
	};
	struct t_conn *c = t_discovery_new(env, T_HOST);

	TAILQ_INSERT_TAIL(&env->t->listeners, &listener, link);
	CU_ASSERT_EQUAL(records(c), 2);
	ss->hosts.any = false;
	CU_ASSERT_EQUAL(records(c), 2);
	TAILQ_REMOVE(&env->t->listeners, &listener, link);
	CU_ASSERT_EQUAL(records(c), 2);
	rdt_discovery_changed(env->t);
	CU_ASSERT_EQUAL(records(c), 0);
	ss->hosts.any = true;
	TAILQ_INSERT_TAIL(&env->t->listeners, &listener, link);
	rdt_discovery_changed(env->t);
	CU_ASSERT_EQUAL(records(c), 2);
	TAILQ_REMOVE(&env->t->listeners, &listener, link);
	t_env_free(env);
}

/* A new controller looks at the namespaces that list its host, and at no other. */
static void a_controller_costs_its_lists(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_ns *ns = t_ns_of(p.env->t->subsys[0], 5);
	const char *two[] = {T_HOST2};
	struct t_conn *c = t_conn_new(p.env, 0, 0, 32), *d = t_conn_new(p.env, 0, 0, 32);

	CU_ASSERT_EQUAL(rdt_ns_set_hosts(ns, false, two, 1), 0);
	ns->hosts.any = true; /* nobody asks the namespace itself */
	t_connect_as(c, NVMF_CNTLID_DYNAMIC, T_HOST, 1);
	CU_ASSERT_FALSE(rdt_ns_visible(c->qp.ctrl, ns));
	t_connect_as(d, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	CU_ASSERT_TRUE(rdt_ns_visible(d->qp.ctrl, ns));
	ns->hosts.any = false;
	CU_ASSERT_EQUAL(rdt_ns_set_hosts(ns, true, NULL, 0), 0);
	CU_ASSERT_TRUE(rdt_ns_visible(c->qp.ctrl, ns));
	t_turn(p.env);
	t_pair_free(&p);
}

#define HOST_PART (RDT_ADMIN_HOST_BUDGET / RDT_ADMIN_COST) /* commands without data in a turn */

static void send_many(struct t_conn *c, unsigned int count)
{
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < count; i++) {
		t_sqe(c, &sqe, nvme_admin_keep_alive, NULL, 0);
		t_send(c, &sqe, NULL, 0);
	}
}

static void read_answers(struct t_conn *c)
{
	while (t_answers(c)) {
		struct t_answer a = t_answer(c);

		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
}

/* A host that sends many commands at once is served in many turns, and one that sends a command
 * meanwhile is not behind them. */
static void a_turn_of_a_host(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *other = t_conn_new(p.env, 0, 0, 32);

	t_connect_as(other, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	t_enable(other);
	t_turn(p.env);
	read_answers(p.admin);
	send_many(p.admin, 24);
	t_pump(p.env);
	CU_ASSERT_TRUE(t_answers(p.admin) <= 2 * HOST_PART);
	send_many(other, 1);
	t_pump(p.env);
	t_pump(p.env);
	CU_ASSERT_EQUAL(t_answers(other), 1);
	CU_ASSERT_TRUE(t_answers(p.admin) <= 5 * HOST_PART);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 24);
	read_answers(p.admin);
	read_answers(other);
	t_pair_free(&p);
}

/* A host for each of @n connections. */
static void open_hosts(struct t_env *env, struct t_conn **c, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		char nqn[64];

		snprintf(nqn, sizeof(nqn), "nqn.2014-08.org.test:host-%u", i);
		c[i] = t_conn_new(env, 0, 0, 32);
		t_connect_as(c[i], NVMF_CNTLID_DYNAMIC, nqn, (uint8_t)(i + 1));
		t_enable(c[i]);
	}
	t_turn(env);
}

/* All together have a part, too, and take turns. */
static void a_turn_of_all(void)
{
	enum { HOSTS = 12, EACH = 4 };
	struct t_env *env = t_env_new();
	struct t_conn *c[HOSTS];
	unsigned int done = 0, least = EACH;

	open_hosts(env, c, HOSTS);
	for (unsigned int i = 0; i < HOSTS; i++) {
		read_answers(c[i]);
		send_many(c[i], EACH);
	}
	t_pump(env);
	for (unsigned int i = 0; i < HOSTS; i++)
		done += t_answers(c[i]);
	CU_ASSERT_TRUE(done > 0 && done <= 2 * RDT_ADMIN_BUDGET / RDT_ADMIN_COST);
	for (unsigned int i = 0; i < HOSTS / 2; i++)
		t_pump(env);
	for (unsigned int i = 0; i < HOSTS; i++)
		least = t_answers(c[i]) < least ? t_answers(c[i]) : least;
	CU_ASSERT_TRUE(least > 0);
	t_turn(env);
	for (unsigned int i = 0; i < HOSTS; i++)
		CU_ASSERT_EQUAL(t_answers(c[i]), EACH);
	t_env_free(env);
}

/* Queues of another device have requests of their own, and share what is paid in a turn: they are
 * not behind a flood by the first one. */
static void devices_take_turns(void)
{
	enum { HOSTS = 10, EACH = 24 };
	struct t_env *env = t_env_new();
	struct t_conn *c[HOSTS + 1], *other;
	struct rdt_req_pool pool = {.dry = false};
	unsigned int turns = 0;

	open_hosts(env, c, HOSTS + 1);
	for (unsigned int i = 0; i <= HOSTS; i++)
		read_answers(c[i]);
	other = c[HOSTS];
	CU_ASSERT_EQUAL_FATAL(rdt_req_pool_init(&pool, env->t->reactors[0].loop, env->reqs[0].mem,
						env->reqs[0].arg),
			      0);
	rdt_qpair_use_pool(&other->qp, &pool);
	for (unsigned int i = 0; i < HOSTS; i++)
		send_many(c[i], EACH);
	t_pump(env);
	send_many(other, 1);
	for (; !t_answers(other) && turns < HOSTS * EACH; turns++)
		t_pump(env);
	CU_ASSERT_TRUE(turns < HOSTS);
	read_answers(other);
	t_turn(env);
	t_conn_cut(other);
	t_turn(env);
	rdt_req_pool_fini(&pool);
	t_env_free(env);
}

/* A queue of which all entries were in use does not overtake others when one of its commands ends
 * at the begin of a turn. */
static void a_full_queue_waits(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_admin_budget *turn = &p.admin->qp.reactor->admin;
	struct t_conn *full = t_conn_new(p.env, 0, 0, 32);
	unsigned int used;

	t_connect_as(full, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	t_enable(full);
	t_turn(p.env);
	send_many(full, 24);
	send_many(p.admin, 24);
	t_pump(p.env);
	rdt_starved_leave(&full->qp); /* as if it were full */
	turn->all.owed = 0;
	full->qp.share->admin.owed = 0;
	CU_ASSERT_TRUE(rdt_admin_may(&full->qp));
	used = full->qp.used;
	rdt_qpair_next(&full->qp);
	CU_ASSERT_EQUAL(full->qp.used, used);
	CU_ASSERT_PTR_EQUAL(TAILQ_LAST(&turn->waiting, rdt_starved), &full->qp);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(full), 24);
	read_answers(full);
	read_answers(p.admin);
	t_pair_free(&p);
}

/* Large pages cost more: the next command of the host waits until they are paid for. */
static void a_page_is_paid_for(void)
{
	struct t_pair p = t_pair_new();
	static uint8_t page[T_MDTS];
	struct nvme_sqe sqe;
	unsigned int turns = 0;

	t_turn(p.env);
	log_sqe(p.admin, &sqe, NVME_LOG_LID_ERROR, 0, page, sizeof(page));
	t_send(p.admin, &sqe, NULL, 0);
	send_many(p.admin, 1);
	for (; t_answers(p.admin) < 2 && turns < 100; turns++)
		t_pump(p.env);
	CU_ASSERT_TRUE(turns >= sizeof(page) / RDT_ADMIN_HOST_BUDGET);
	CU_ASSERT_EQUAL(t_answers(p.admin), 2);
	read_answers(p.admin);
	t_pair_free(&p);
}

/* Where storage has failed, the SMART log looks at each namespace: that is paid for. */
static void health_is_paid_for(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_subsys *ss = p.env->t->subsys[0];
	struct rdt_admin_debt *debt = &p.admin->qp.reactor->admin.all;
	struct nvme_smart_log smart;
	struct nvme_sqe sqe;
	size_t owed[2];

	for (int faulty = 0; faulty < 2; faulty++) {
		t_turn(p.env);
		atomic_store(&ss->faulty, faulty);
		debt->owed = 0;
		log_sqe(p.admin, &sqe, NVME_LOG_LID_SMART, 0, &smart, sizeof(smart));
		t_send(p.admin, &sqe, NULL, 0);
		owed[faulty] = debt->owed;
		t_turn(p.env);
		read_answers(p.admin);
	}
	CU_ASSERT_TRUE(owed[1] > owed[0]);
	t_pair_free(&p);
}

/* A queue that waits for its turn can end. */
static void a_waiting_queue_ends(void)
{
	struct t_pair p = t_pair_new();

	t_turn(p.env);
	send_many(p.admin, 24);
	t_pump(p.env);
	CU_ASSERT_FALSE(TAILQ_EMPTY(&p.env->t->reactors[0].admin.waiting));
	t_conn_cut(p.admin);
	t_turn(p.env);
	CU_ASSERT_TRUE(TAILQ_EMPTY(&p.env->t->reactors[0].admin.waiting));
	t_env_free(p.env);
}

/* Set Features for all namespaces, of two hosts: one of them looks at RDT_SLICE namespaces in each
 * turn, and another host's command is not behind that. */
static void a_feature_of_all_namespaces(void)
{
	enum { SLICES = 8, COUNT = SLICES * RDT_SLICE };
	struct t_pair p = t_pair_new();
	struct rdt_reactor *r = &p.env->t->reactors[0];
	struct rdt_subsys *ss = p.env->t->subsys[0];
	struct rdt_ns_place *places = calloc(COUNT, sizeof(*places)), *order = r->ns_order;
	unsigned int count = r->ns_map.count, turns = 0;
	struct t_conn *other = t_conn_new(p.env, 0, 0, 32);
	struct nvme_sqe sqe;

	CU_ASSERT_PTR_NOT_NULL_FATAL(places);
	t_connect_as(other, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	t_enable(other);
	t_turn(p.env);
	read_answers(p.admin);
	read_answers(other);
	for (uint32_t i = 0; i < COUNT; i++)
		places[i] = (struct rdt_ns_place){rdt_ns_key(ss, i + 1), NULL,
						  t_ns_of(ss, i + 1 < COUNT ? 1 : 5)->slot};
	r->ns_order = places;
	r->ns_map.count = COUNT;
	t_sqe(p.admin, &sqe, nvme_admin_set_features, NULL, 0);
	sqe.nsid = htole32(NVME_NSID_ALL);
	sqe.cdw10 = htole32(NVME_FEAT_FID_ERR_RECOVERY);
	sqe.cdw11 = htole32(77);
	t_send(p.admin, &sqe, NULL, 0);
	t_pump(p.env);
	send_many(other, 1);
	for (; !t_answers(p.admin); turns++) {
		t_pump(p.env);
		CU_ASSERT_EQUAL(t_ns_of(ss, 1)->marks->err_recovery, 77);
		CU_ASSERT_EQUAL(t_ns_of(ss, 5)->marks->err_recovery, t_answers(p.admin) ? 77 : 0);
		CU_ASSERT(turns < 3 || t_answers(other));
		CU_ASSERT_FATAL(turns < 2 * SLICES);
	}
	CU_ASSERT(turns >= SLICES - 2);
	read_answers(p.admin);
	read_answers(other);
	/* One that waits for its next slice ends with its queue. */
	t_turn(p.env);
	t_sqe(p.admin, &sqe, nvme_admin_set_features, NULL, 0);
	sqe.nsid = htole32(NVME_NSID_ALL);
	sqe.cdw10 = htole32(NVME_FEAT_FID_ERR_RECOVERY);
	sqe.cdw11 = htole32(78);
	t_send(p.admin, &sqe, NULL, 0);
	while (t_ns_of(ss, 1)->marks->err_recovery != 78)
		t_pump(p.env);
	t_conn_cut(p.admin);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_ns_of(ss, 5)->marks->err_recovery, 77);
	r->ns_order = order;
	r->ns_map.count = count;
	free(places);
	t_env_free(p.env);
}

const struct t_case t_admin_load_cases[] = {
	{"a feature of all namespaces is set in slices", a_feature_of_all_namespaces},
	{"the ANA log is made once", ana_log_is_kept},
	{"the ANA log of a host that does not see all", ana_log_of_some},
	{"the discovery log is made once for a generation", discovery_log_is_kept},
	{"a new controller costs what lists its host", a_controller_costs_its_lists},
	{"a host has a part of a turn", a_turn_of_a_host},
	{"all hosts have a part of a turn", a_turn_of_all},
	{"queues of several devices take turns", devices_take_turns},
	{"a full queue waits behind others", a_full_queue_waits},
	{"a page is paid for", a_page_is_paid_for},
	{"the health of all namespaces is paid for", health_is_paid_for},
	{"a queue ends while it waits for its turn", a_waiting_queue_ends},
	{NULL, NULL},
};
