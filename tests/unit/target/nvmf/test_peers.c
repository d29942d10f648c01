/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of connections and controllers: in total, per host and per address. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/sockaddr.h"
#include "target/nvmf/peers.h"
#include "t_target.h"

#define BUSY (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_CTRL_BUSY)

/* One more connection from @text. NULL: the limit @limit was reached. */
static struct rdt_peer *come(struct t_env *env, const char *text, struct rdt_peer_limit *limit)
{
	struct sockaddr_storage ss;
	struct rdt_peer *peer = NULL;
	int err;

	CU_ASSERT_EQUAL_FATAL(rd_addr_parse(text, 1234, &ss), 0);
	err = rdt_peer_come(env->t, (struct sockaddr *)&ss, &peer, limit);
	CU_ASSERT_EQUAL(err, peer ? 0 : -EBUSY);
	return peer;
}

static void addresses(void)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"2001:db8::1", "2001:db8::2", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%lo", "fe80::2%lo", true},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"::1", "0.0.0.1", false},
	};
	T_ENV(env);
	struct rdt_peer_limit limit;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdt_peer *a = come(env, cases[i].a, &limit);
		struct rdt_peer *b = come(env, cases[i].b, &limit);

		CU_ASSERT_EQUAL(a == b, cases[i].same);
		rdt_peer_gone(env->t, a);
		rdt_peer_gone(env->t, b);
	}
	CU_ASSERT_EQUAL(env->t->peers.conns, 0);
}

static void connections(void)
{
	T_ENV(env);
	struct rdt_peer *one[2], *other;
	struct rdt_peer_limit limit;

	env->cfg.target.limits.connections = 3;
	env->cfg.target.limits.connections_per_address = 2;
	one[0] = come(env, "10.0.0.1", &limit);
	one[1] = come(env, "10.0.0.1", &limit);
	CU_ASSERT_PTR_NULL(come(env, "10.0.0.1", &limit));
	CU_ASSERT_STRING_EQUAL(limit.name, "connections_per_address");
	CU_ASSERT_EQUAL(limit.value, 2);
	other = come(env, "10.0.0.2", &limit);
	CU_ASSERT_PTR_NOT_NULL(other);
	CU_ASSERT_PTR_NULL(come(env, "10.0.0.3", &limit));
	CU_ASSERT_STRING_EQUAL(limit.name, "connections");
	rdt_peer_gone(env->t, other);
	rdt_peer_gone(env->t, one[0]);
	one[0] = come(env, "10.0.0.1", &limit);
	CU_ASSERT_PTR_NOT_NULL(one[0]);
	rdt_peer_gone(env->t, one[0]);
	rdt_peer_gone(env->t, one[1]);
}

/* An admin queue's Connect of T_HOST2 or another host. Returns the status. */
static uint16_t peers_connect_as(struct t_conn *c, const char *hostnqn, uint16_t cntlid)
{
	struct t_answer a = t_connect_as(c, cntlid, hostnqn, 0x11);

	CU_ASSERT(t_status(&a) == 0 || !t_dnr(&a));
	return (uint16_t)t_status(&a);
}

/* Refused connections are not counted, and ended ones make room. */
static void controllers(void)
{
	T_ENV(env);
	struct t_conn *c[4];

	env->cfg.target.limits.controllers = 3;
	env->cfg.target.limits.controllers_per_host = 2;
	for (unsigned int i = 0; i < 4; i++)
		c[i] = t_conn_new(env, i % 2, 0, 32);
	CU_ASSERT_EQUAL(peers_connect_as(c[0], T_HOST, NVMF_CNTLID_DYNAMIC), 0);
	CU_ASSERT_EQUAL(peers_connect_as(c[1], T_HOST, NVMF_CNTLID_DYNAMIC), 0);
	CU_ASSERT_EQUAL(peers_connect_as(c[2], T_HOST, NVMF_CNTLID_DYNAMIC), BUSY);
	CU_ASSERT_EQUAL(peers_connect_as(c[2], T_HOST2, NVMF_CNTLID_DYNAMIC), 0);
	CU_ASSERT_EQUAL(peers_connect_as(c[3], T_HOST2, NVMF_CNTLID_DYNAMIC), BUSY);
	CU_ASSERT_EQUAL(env->t->peers.ctrls, 3);
	rdt_qpair_close(&c[0]->qp, "test");
	t_turn(env);
	CU_ASSERT_EQUAL(env->t->peers.ctrls, 2);
	CU_ASSERT_EQUAL(peers_connect_as(c[3], T_HOST, NVMF_CNTLID_DYNAMIC), 0);
}

static void queues_of_a_host(void)
{
	T_PAIR(p);
	struct t_conn *io[2] = {t_conn_new(p.env, 0, 2, 16), t_conn_new(p.env, 1, 3, 16)};

	p.env->cfg.target.limits.connections_per_host = 3;
	/* A Connect that fails later is not counted any more. */
	CU_ASSERT_EQUAL(peers_connect_as(io[0], T_HOST, p.cntlid), 0);
	CU_ASSERT_EQUAL(peers_connect_as(io[1], T_HOST, p.cntlid), BUSY);
	rdt_qpair_close(&p.io->qp, "test");
	t_turn(p.env);
	CU_ASSERT_EQUAL(peers_connect_as(io[1], T_HOST, p.cntlid), 0);
}

/* Too many connections without a Connect: the oldest one is closed. */
static void fresh_ones(void)
{
	T_ENV(env);
	struct t_conn *c[20], *live;

	env->cfg.target.limits.unconnected = 1; /* each reactor may have at least 16 */
	live = t_conn_new(env, 0, 0, 32);
	t_connect(live, NVMF_CNTLID_DYNAMIC);
	for (unsigned int i = 0; i < 16; i++)
		c[i] = t_conn_new(env, 0, 0, 32);
	CU_ASSERT_EQUAL(env->t->reactors[0].unassoc_count, 16);
	CU_ASSERT_EQUAL(c[0]->qp.state, RDT_QP_NEW);
	c[16] = t_conn_new(env, 0, 0, 32);
	CU_ASSERT_EQUAL(env->t->reactors[0].unassoc_count, 16);
	CU_ASSERT(c[0]->closing);
	t_connect(c[1], NVMF_CNTLID_DYNAMIC);
	c[17] = t_conn_new(env, 0, 0, 32);
	CU_ASSERT_EQUAL(c[2]->qp.state, RDT_QP_NEW);
	CU_ASSERT_EQUAL(live->qp.state, RDT_QP_LIVE);
}

#define ALIKE 200u

static uint32_t fnv1a(const char *text)
{
	uint32_t hash = 2166136261u;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash;
}

/* Names that are in one list of a table whose hash has no secret are in many lists here. */
static void chosen_names_are_spread(void)
{
	T_ENV(env);
	bool used[RDT_PEER_BUCKETS] = {false};
	unsigned int lists = 0, found = 0;
	char name[64];

	for (unsigned int n = 0; found < ALIKE; n++) {
		uint32_t at;

		snprintf(name, sizeof(name), "nqn.2024-01.test:%u", n);
		if (fnv1a(name) % RDT_PEER_BUCKETS)
			continue;
		at = rdt_peer_hash(env->t, name, strlen(name)) % RDT_PEER_BUCKETS;
		lists += !used[at];
		used[at] = true;
		found++;
	}
	CU_ASSERT(lists > ALIKE / 2);
}

const struct t_case t_peers_cases[] = {
	{"what an address is", addresses},
	{"connections of all and of an address", connections},
	{"controllers of all and of a host", controllers},
	{"connections of a host", queues_of_a_host},
	{"connections without a Connect", fresh_ones},
	{"names that a peer has chosen are spread", chosen_names_are_spread},
	{NULL, NULL},
};
