/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication of queue pairs: time, limits, keys that were replaced. What is on the wire is
 * tested with an independent host (tests/loop/test_auth_target.py). */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "util/loop.h"
#include "util/sockaddr.h"
#include "nvmf/auth_calc.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "target/nvmf/auth/auth.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/peers.h"
#include "target/reactor/lifecycle.h"
#include "t_target.h"

#define REQUIRED (NVME_SCT_CMD_SPECIFIC << 8 | NVMF_SC_AUTH_REQUIRED)
#define T_ID     0x1234

static const struct nvmf_auth_key keys[] = {
	{.len = 32, .secret = "the first secret of thirty-two b"},
	{.len = 32, .secret = "another secret of thirty-two b. "},
};

/* A host that has @key for the target, of which the target knows entry[0]. */
struct auth_env {
	struct t_env *env;
	struct rdt_host_auth_config entry[2];
	struct rdt_host_auth_config both[2]; /* T_HOST and T_HOST2, by name */
	struct rdt_subsys_config changed;
};

static void auth_env_new(struct auth_env *e)
{
	e->env = t_env_new();
	for (int i = 0; i < 2; i++)
		e->entry[i] = (struct rdt_host_auth_config){
			.host = T_HOST,
			.key = &keys[i],
			.n_hashes = 1,
			.n_groups = 1,
			.hashes = {NVMF_AUTH_SHA256},
			.groups = {NVMF_AUTH_GROUP_NULL},
		};
	e->env->subsys[0].host_auth = &e->entry[0];
	e->env->subsys[0].host_auth_count = 1;
	e->changed = e->env->subsys[0];
	e->changed.host_auth = &e->entry[1];
}

/* Authentication Send (@fctype 5) or Receive (6). */
static void fill_auth_sqe(struct t_conn *c, struct nvme_sqe *sqe, uint8_t fctype, void *data,
			  uint32_t len)
{
	struct nvmf_auth_sqe auth;

	t_sqe(c, sqe, NVMF_OPCODE, data, len);
	memcpy(&auth, sqe, sizeof(auth));
	auth.fctype = fctype;
	auth.spsp0 = NVMF_AUTH_SPSP0;
	auth.spsp1 = NVMF_AUTH_SPSP1;
	auth.secp = NVMF_AUTH_SECP;
	auth.len = htole32(len);
	memcpy(sqe, &auth, sizeof(*sqe));
}

/* Returns the status. */
#define PACE (400 * RD_NSEC_PER_MSEC) /* of a host that has failed often, twice */

static uint16_t auth_cmd(struct t_conn *c, uint8_t fctype, void *data, uint32_t len)
{
	struct nvme_sqe sqe;

	fill_auth_sqe(c, &sqe, fctype, data, len);
	t_begin(c, &sqe);
	if (!t_answers(c))
		t_advance(c->env, PACE);
	return t_answer_status(c);
}

static const struct nvmf_auth_negotiate offer = {
	.t_id = T_ID,
	.n_hashes = 1,
	.n_groups = 1,
	.hashes = {NVMF_AUTH_SHA256},
	.groups = {NVMF_AUTH_GROUP_NULL},
};

/* Returns the explanation of Failure1, or 0. */
static unsigned int receive(struct t_conn *c, uint8_t msg[NVMF_AUTH_TRANSFER])
{
	struct nvmf_auth_failure f = {0};

	memset(msg, 0xaa, NVMF_AUTH_TRANSFER);
	CU_ASSERT_EQUAL_FATAL(auth_cmd(c, 6, msg, NVMF_AUTH_TRANSFER), 0);
	if (nvmf_auth_parse_failure(msg, NVMF_AUTH_TRANSFER, NVMF_AUTH_MSG_FAILURE1, T_ID, &f))
		return 0;
	return f.explanation;
}

/* Returns 0, or the explanation of the failure. */
static unsigned int authenticate(struct t_conn *c, const struct nvmf_auth_key *key)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];
	struct nvmf_auth_challenge challenge;
	struct nvmf_auth_reply reply = {.t_id = T_ID, .hash = NVMF_AUTH_SHA256};
	struct nvmf_auth_proof proof = {
		.hash = NVMF_AUTH_SHA256,
		.t_id = T_ID,
		.key = key->secret,
		.key_len = key->len,
		.challenge = challenge.cval,
		.hostnqn = c->qp.ctrl->hostnqn,
		.subnqn = T_NQN,
	};
	unsigned int why;

	CU_ASSERT_EQUAL(auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&offer, msg)), 0);
	why = receive(c, msg);
	if (why)
		return why;
	CU_ASSERT_EQUAL_FATAL(nvmf_auth_parse_challenge(msg, sizeof(msg), &offer, &challenge), 0);
	proof.seqnum = challenge.seqnum;
	CU_ASSERT_EQUAL(nvmf_auth_host_response(&proof, reply.rval), 0);
	CU_ASSERT_EQUAL(auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_reply(&reply, msg)), 0);
	return receive(c, msg);
}

/* From address @text; NULL: from none. */
static struct t_conn *connected_from(struct auth_env *e, const char *text)
{
	struct t_conn *c = t_conn_new(e->env, 0, 0, 32);
	struct rdt_peer_limit limit;
	struct sockaddr_storage ss;

	if (text) {
		rdt_unassoc_remove(&c->qp); /* it is listed by its address */
		CU_ASSERT_EQUAL_FATAL(rd_addr_parse(text, 1234, &ss), 0);
		CU_ASSERT_EQUAL_FATAL(
			rdt_peer_come(e->env->t, (struct sockaddr *)&ss, &c->qp.peer, &limit), 0);
		rdt_unassoc_add(&c->qp);
	}
	t_connect(c, NVMF_CNTLID_DYNAMIC);
	CU_ASSERT_EQUAL_FATAL(c->qp.state, RDT_QP_AUTH);
	return c;
}

static struct t_conn *connected(struct auth_env *e)
{
	return connected_from(e, NULL);
}

static void lives_after_it(void)
{
	struct auth_env e;
	struct t_conn *admin, *io;
	struct nvme_sqe sqe;
	struct t_answer a;

	auth_env_new(&e);
	admin = connected(&e);
	CU_ASSERT_PTR_NOT_EQUAL(admin->qp.cmds, e.env->t->cmds->admin);
	CU_ASSERT_EQUAL(e.env->t->reactors[0].unassoc_count, 1);
	CU_ASSERT_EQUAL(authenticate(admin, &keys[0]), 0);
	CU_ASSERT_EQUAL(admin->qp.state, RDT_QP_LIVE);
	CU_ASSERT_PTR_EQUAL(admin->qp.cmds, e.env->t->cmds->admin);
	CU_ASSERT_PTR_NULL(admin->qp.auth);
	CU_ASSERT_EQUAL(e.env->t->reactors[0].unassoc_count, 0);
	t_enable(admin);
	io = t_conn_new(e.env, 1, 1, 32);
	t_connect(io, admin->qp.ctrl->cntlid);
	t_sqe(io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(1);
	a = t_exec(io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), REQUIRED);
	CU_ASSERT(t_dnr(&a));
	CU_ASSERT_EQUAL(authenticate(io, &keys[0]), 0);
	CU_ASSERT_EQUAL(t_flush(io), 0);
	t_env_free(e.env);
}

static void closes_after_a_failure(void)
{
	struct auth_env e;
	struct t_conn *c;
	bool gone = false;

	auth_env_new(&e);
	c = connected(&e);
	c->gone = &gone;
	CU_ASSERT_EQUAL(authenticate(c, &keys[1]), NVMF_AUTH_FAILED);
	t_advance(e.env, 90 * RD_NSEC_PER_MSEC);
	CU_ASSERT(!gone);
	t_advance(e.env, 20 * RD_NSEC_PER_MSEC);
	CU_ASSERT(gone);
	t_env_free(e.env);
}

static void closes_without_it(void)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];
	bool gone[2] = {false, false};
	struct auth_env e;
	struct t_conn *c[2];

	auth_env_new(&e);
	for (int i = 0; i < 2; i++) {
		c[i] = connected(&e);
		c[i]->gone = &gone[i];
	}
	t_advance(e.env, 119 * RD_NSEC_PER_SEC);
	/* A step gives time for the next one. */
	auth_cmd(c[1], 5, msg, (uint32_t)nvmf_auth_build_negotiate(&offer, msg));
	CU_ASSERT(!gone[0]);
	t_advance(e.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT(gone[0]);
	CU_ASSERT(!gone[1]);
	t_advance(e.env, 119 * RD_NSEC_PER_SEC);
	CU_ASSERT(gone[1]);
	t_env_free(e.env);
}

/* They do not give it more time, and are no more failures. */
static void messages_after_a_failure(void)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];
	struct nvmf_auth_negotiate unusable = offer;
	struct auth_env e;
	struct t_conn *c;
	bool gone = false;

	auth_env_new(&e);
	c = connected(&e);
	c->gone = &gone;
	unusable.hashes[0] = NVMF_AUTH_SHA512;
	auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&unusable, msg));
	for (int i = 0; i < 2; i++) {
		t_advance(e.env, 50 * RD_NSEC_PER_SEC);
		CU_ASSERT_FATAL(!gone);
		auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&offer, msg));
	}
	CU_ASSERT_EQUAL(atomic_load(&e.env->t->subsys[0]->auth_failures), 1);
	t_advance(e.env, 21 * RD_NSEC_PER_SEC);
	CU_ASSERT(gone);
	gone = false;
	c = connected(&e);
	auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&unusable, msg));
	auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&offer, msg));
	CU_ASSERT_EQUAL(receive(c, msg), NVMF_AUTH_HASH_NOT_USABLE);
	t_env_free(e.env);
}

static void unfinished_again(void)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];
	struct auth_env e;
	struct t_conn *c;

	auth_env_new(&e);
	c = connected(&e);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	auth_cmd(c, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&offer, msg));
	CU_ASSERT_PTR_NOT_NULL(c->qp.auth);
	t_advance(e.env, 121 * RD_NSEC_PER_SEC);
	CU_ASSERT_PTR_NULL(c->qp.auth);
	CU_ASSERT_EQUAL(c->qp.state, RDT_QP_LIVE);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	t_env_free(e.env);
}

static void set_keys(struct auth_env *e, const struct rdt_subsys_config *cfg)
{
	const struct rdt_auth_set set = {cfg, NULL};

	CU_ASSERT_EQUAL(rdt_subsys_set_hosts(e->env->t->subsys[0], true, NULL, 0, &set), 0);
}

static void replaced_keys(void)
{
	struct auth_env e;
	struct t_conn *c;

	auth_env_new(&e);
	c = connected(&e);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	set_keys(&e, &e.changed);
	t_advance(e.env, 299 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(c, &keys[1]), 0);
	t_advance(e.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), NVMF_AUTH_FAILED);
	CU_ASSERT_EQUAL(authenticate(c, &keys[1]), 0);
	/* A host that has no entry any more has no old key either. */
	e.env->subsys[0].host_auth_count = 0;
	set_keys(&e, &e.env->subsys[0]);
	CU_ASSERT_EQUAL(authenticate(c, &keys[1]), NVMF_AUTH_FAILED);
	t_env_free(e.env);
}

/* A connection whose computation with @group waits for threads that do not run. */
static struct t_conn *waiting_from(struct auth_env *e, const char *text, uint8_t group, bool *gone)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];
	struct nvmf_auth_negotiate dh = offer;
	struct nvme_sqe sqe;
	struct t_conn *c;

	dh.groups[0] = e->entry[0].groups[0] = group;
	c = connected_from(e, text);
	c->gone = gone;
	fill_auth_sqe(c, &sqe, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&dh, msg));
	t_begin(c, &sqe);
	return c;
}

static struct t_conn *waiting_for_threads(struct auth_env *e, uint8_t group, bool *gone)
{
	e->env->t->auth_pool->threads_count = RDT_AUTH_THREADS;
	return waiting_from(e, NULL, group, gone);
}

/* In the order of their ends; the first place is 1. */
static struct ends {
	void (*fn)(struct rd_msg *msg);
	const struct rdt_qpair *whose;
	unsigned int count, place;
} ends;

static void note_end(struct rd_msg *msg)
{
	ends.count++;
	if (rd_container_of(msg, struct rdt_auth_job, msg)->qp == ends.whose)
		ends.place = ends.count;
	ends.fn(msg);
}

/* The computation for one address does not wait for all those of another that came before it. */
static void addresses_take_turns(void)
{
	enum { MANY = 20 };
	struct auth_env e;
	struct rdt_auth_pool *pool;
	struct t_conn *c[MANY + 1], *starter;

	auth_env_new(&e);
	pool = e.env->t->auth_pool;
	pool->threads_count = RDT_AUTH_THREADS; /* they do not run yet */
	for (unsigned int i = 0; i <= MANY; i++)
		c[i] = waiting_from(&e, i < MANY ? "10.0.0.1" : "10.0.0.2", NVMF_AUTH_FFDHE2048,
				    NULL);
	ends = (struct ends){.fn = c[0]->qp.auth->job.msg.fn, .whose = &c[MANY]->qp};
	for (unsigned int i = 0; i <= MANY; i++)
		c[i]->qp.auth->job.msg.fn = note_end;
	/* Now one runs, so that they end in the order of their beginnings, with the higher priority
	 * of the two. */
	pool->threads_lowered = 1;
	pool->threads_count = RDT_AUTH_THREADS - 1;
	starter = waiting_from(&e, "10.0.0.3", NVMF_AUTH_FFDHE2048, NULL); /* starts it */
	pool->threads[0] = pool->threads[RDT_AUTH_THREADS - 1];
	pool->threads_count = 1;
	while (ends.count <= MANY || starter->qp.auth->state == RDT_AUTH_PAIR)
		t_turn(e.env);
	CU_ASSERT(ends.place >= 1 && ends.place <= 5);
	t_env_free(e.env);
}

static void closes_while_computation_waits(void)
{
	struct auth_env e;
	struct t_conn *c[2];
	bool gone[2] = {false, false};

	auth_env_new(&e);
	for (int i = 0; i < 2; i++)
		c[i] = waiting_for_threads(&e, NVMF_AUTH_FFDHE8192, &gone[i]);
	CU_ASSERT_EQUAL(e.env->t->auth_pool->waiting, 2);
	rdt_qpair_close(&c[0]->qp, "test");
	t_turn(e.env);
	CU_ASSERT(gone[0]);
	CU_ASSERT(!gone[1]);
	CU_ASSERT_EQUAL(e.env->t->auth_pool->waiting, 1);
	rdt_qpair_close(&c[1]->qp, "test");
	t_turn(e.env);
	CU_ASSERT_FATAL(gone[1]);
	e.env->t->auth_pool->threads_count = 0;
	t_env_free(e.env);
}

/* The drain does not wait for the threads. */
static void closes_when_the_target_drains(void)
{
	struct auth_env e;
	bool gone = false;

	auth_env_new(&e);
	waiting_for_threads(&e, NVMF_AUTH_FFDHE2048, &gone);
	CU_ASSERT_EQUAL(e.env->t->auth_pool->waiting, 1);
	rdt_target_drain(e.env->t, NULL);
	t_turn(e.env);
	CU_ASSERT_FATAL(gone);
	e.env->t->auth_pool->threads_count = 0;
	for (unsigned int i = 0; i < 2; i++)
		e.env->t->reactors[i].drained_sent = false; /* t_env_free() drains as well */
	t_env_free(e.env);
}

static void replaced_again(void)
{
	struct auth_env e;
	struct t_conn *c;

	auth_env_new(&e);
	c = connected(&e);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	set_keys(&e, &e.changed);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	set_keys(&e, &e.changed);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), NVMF_AUTH_FAILED);
	CU_ASSERT_EQUAL(authenticate(c, &keys[1]), 0);
	t_env_free(e.env);
}

/* How long an authentication with @key takes; it has the outcome @why. */
static uint64_t time_of(struct auth_env *e, struct t_conn *c, const struct nvmf_auth_key *key,
			unsigned int why)
{
	uint64_t begin = rd_loop_now(e->env->t->reactors[0].loop);

	CU_ASSERT_EQUAL(authenticate(c, key), why);
	return rd_loop_now(e->env->t->reactors[0].loop) - begin;
}

/* One failure; true: it was slowed down. */
static bool guess_from(struct auth_env *e, const char *text)
{
	struct t_conn *c = connected_from(e, text);
	uint64_t took = time_of(e, c, &keys[1], NVMF_AUTH_FAILED);

	CU_ASSERT(took == 0 || took == 2 * PACE);
	rdt_qpair_close(&c->qp, "test");
	t_turn(e->env);
	return took;
}

static void guesses_are_slowed_down(void)
{
	struct auth_env e;
	struct t_conn *c;

	auth_env_new(&e);
	for (int i = 0; i < 10; i++)
		CU_ASSERT(!guess_from(&e, "10.0.0.1"));
	CU_ASSERT(guess_from(&e, "10.0.0.1"));
	c = connected_from(&e, "10.0.0.2"); /* another address is not affected */
	CU_ASSERT(!rdt_guess_over(&c->qp));
	/* One failure is forgotten after 6 s. */
	t_advance(e.env, 6 * RD_NSEC_PER_SEC);
	CU_ASSERT(!guess_from(&e, "10.0.0.1"));
	CU_ASSERT(guess_from(&e, "10.0.0.1"));
	/* The right key takes as long, and forgets all. */
	c = connected_from(&e, "10.0.0.1");
	CU_ASSERT_EQUAL(time_of(&e, c, &keys[0], 0), 2 * PACE);
	for (int i = 0; i < 10; i++)
		CU_ASSERT(!guess_from(&e, "10.0.0.1"));
	t_env_free(e.env);
}

/* However many failures come at once and by whichever way, they are forgotten one by one. */
static void failures_do_not_add_up(void)
{
	struct auth_env e;
	struct t_conn *c;

	auth_env_new(&e);
	c = connected_from(&e, "10.0.0.1");
	for (unsigned int i = 0; i < 480; i++)
		rdt_guess_count(&c->qp);
	CU_ASSERT(rdt_guess_over(&c->qp));
	t_advance(e.env, 6 * RD_NSEC_PER_SEC);
	CU_ASSERT(!rdt_guess_over(&c->qp));
	c = connected_from(&e, "10.0.0.1");
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	t_env_free(e.env);
}

/* Failures of other names at its address do not slow a host down that has not failed itself. */
static void failures_of_others(void)
{
	struct auth_env e;
	struct t_conn *bad, *good;

	auth_env_new(&e);
	bad = connected_from(&e, "10.0.0.1");
	good = connected_from(&e, "10.0.0.1");
	for (unsigned int i = 0; i < 200; i++) {
		snprintf(bad->qp.ctrl->hostnqn, sizeof(bad->qp.ctrl->hostnqn),
			 "nqn.2024-01.test:%u", i);
		rdt_guess_count(&bad->qp);
	}
	CU_ASSERT(rdt_guess_over(&bad->qp));
	CU_ASSERT(!rdt_guess_over(&good->qp));
	CU_ASSERT_EQUAL(authenticate(good, &keys[0]), 0);
	/* A failure of its own ends that for a minute. */
	good = connected_from(&e, "10.0.0.1");
	rdt_guess_count(&good->qp);
	CU_ASSERT(rdt_guess_over(&good->qp));
	t_env_free(e.env);
}

/* Keys of TLS have failures of their own, by the same rule. */
static void guesses_of_tls(void)
{
	struct auth_env e;
	struct rdt_guesses *g;
	struct rdt_guess_keys bad, good, far;
	struct t_conn *c, *other;
	uint64_t now;

	auth_env_new(&e);
	g = &e.env->t->auth_pool->guesses;
	now = rd_loop_now(e.env->t->reactors[0].loop) + 100 * RD_NSEC_PER_SEC;
	c = connected_from(&e, "10.0.0.1");
	other = connected_from(&e, "10.0.0.2");
	rdt_guess_of_tls(g, c->qp.peer, "nqn.2024-01.test:bad", &bad);
	rdt_guess_of_tls(g, c->qp.peer, T_HOST, &good);
	rdt_guess_of_tls(g, other->qp.peer, "nqn.2024-01.test:bad", &far);
	for (int i = 0; i < 10; i++) {
		CU_ASSERT(!rdt_guess_keys_over(g, &bad, now));
		rdt_guess_keys_count(g, &bad, now);
	}
	CU_ASSERT(rdt_guess_keys_over(g, &bad, now));
	CU_ASSERT(!rdt_guess_keys_over(g, &far, now));
	CU_ASSERT(!rdt_guess_keys_over(g, &good, now));
	CU_ASSERT(!rdt_guess_over(&c->qp));
	/* However many they are. */
	for (int i = 0; i < 500; i++)
		rdt_guess_keys_count(g, &bad, now);
	CU_ASSERT(!rdt_guess_keys_over(g, &good, now));
	CU_ASSERT(!rdt_guess_keys_over(g, &bad, now + 6 * RD_NSEC_PER_SEC));
	/* A failure of its own makes those of its address count for a minute. */
	rdt_guess_keys_count(g, &good, now);
	CU_ASSERT(rdt_guess_keys_over(g, &good, now));
	rdt_guess_keys_right(g, &good, true);
	CU_ASSERT(!rdt_guess_keys_over(g, &good, now));
	/* The right key is taken back, and with it what the name has failed. */
	rdt_guess_keys_count(g, &bad, now);
	rdt_guess_keys_right(g, &bad, true);
	CU_ASSERT(!rdt_guess_keys_over(g, &bad, now));
	t_env_free(e.env);
}

/* Many names at many addresses fail once or twice each, far more than the table has places: what
 * has failed often is not forgotten for them, and a host at another address is not slowed down. */
static void a_full_table_keeps_the_worst(void)
{
	enum { OTHERS = 50 * RDT_GUESS_SETS * RDT_GUESS_WAYS };
	struct rdt_guess_keys bad = {.of = {1001, 2002}}, others, far;
	struct rdt_guess_keys more = {.of = {3003, bad.of[RDT_GUESS_OF_ADDRESS]}};
	uint64_t now = 100 * RD_NSEC_PER_SEC;
	struct rdt_guesses g = {.table = NULL};

	CU_ASSERT_EQUAL_FATAL(rdt_guesses_init(&g), 0);
	for (unsigned int i = 0; i < 100; i++)
		rdt_guess_keys_count(&g, &bad, now);
	for (uint64_t i = 1; i <= OTHERS; i++) {
		others.of[RDT_GUESS_OF_HOST] = i * 0x9e3779b97f4a7c15;
		others.of[RDT_GUESS_OF_ADDRESS] = i * 0xc2b2ae3d27d4eb4f;
		rdt_guess_keys_count(&g, &others, now);
	}
	CU_ASSERT_TRUE(rdt_guess_keys_over(&g, &bad, now));
	rdt_guess_keys_count(&g, &more, now); /* a name without a minute's rest at that address */
	CU_ASSERT_TRUE(rdt_guess_keys_over(&g, &more, now));
	far = (struct rdt_guess_keys){.of = {4004, 5005}};
	for (unsigned int i = 0; i < 10; i++) {
		CU_ASSERT_FALSE(rdt_guess_keys_over(&g, &far, now));
		rdt_guess_keys_count(&g, &far, now);
	}
	CU_ASSERT_TRUE(rdt_guess_keys_over(&g, &far, now));
	rdt_guesses_fini(&g);
}

/*
 * Others fail without a pause at its address, under its very name and with its Host Identifier: a
 * host that comes for the first time with the right secret gets in, in less than a second. So it
 * does after failures of its own.
 */
static void the_first_time_among_guesses(void)
{
	struct t_conn *bad, *good;
	struct auth_env e;

	auth_env_new(&e);
	bad = connected_from(&e, "10.0.0.1");
	rd_timer_stop(bad->qp.reactor->loop, &bad->qp.timer); /* it stays */
	for (unsigned int i = 0; i < 600; i++) {
		for (unsigned int n = 0; n < 100; n++)
			rdt_guess_count(&bad->qp);
		t_advance(e.env, RD_NSEC_PER_SEC / 10);
		if (i % 100 == 0) {
			CU_ASSERT(guess_from(&e, "10.0.0.1") || i == 0);
			good = connected_from(&e, "10.0.0.1");
			CU_ASSERT(time_of(&e, good, &keys[0], 0) <= 2 * PACE);
			rdt_qpair_close(&good->qp, "test");
			t_turn(e.env);
		}
	}
	t_env_free(e.env);
}

/* The connection ends while it is slowed down, before its challenge and before its proof. */
static void ends_while_slowed_down(void)
{
	uint8_t msg[NVMF_AUTH_TRANSFER];
	struct nvme_sqe sqe;
	struct auth_env e;
	struct t_conn *c;
	bool gone = false;

	auth_env_new(&e);
	c = connected_from(&e, "10.0.0.1");
	c->gone = &gone;
	for (unsigned int i = 0; i < 10; i++)
		rdt_guess_count(&c->qp);
	fill_auth_sqe(c, &sqe, 5, msg, (uint32_t)nvmf_auth_build_negotiate(&offer, msg));
	t_begin(c, &sqe);
	CU_ASSERT_EQUAL(c->qp.auth->state, RDT_AUTH_PACED);
	/* It is asked for nothing meanwhile. */
	fill_auth_sqe(c, &sqe, 6, msg, sizeof(msg));
	CU_ASSERT_EQUAL(t_exec_status(c, &sqe), NVME_SC_CMD_SEQ_ERROR);
	rdt_qpair_close(&c->qp, "test");
	t_turn(e.env);
	CU_ASSERT(gone);
	t_env_free(e.env);
}

/* Others at its address fail under their own names, and under its name from theirs, ten times a
 * second for ten minutes: a host that comes every ten seconds is not slowed down. After a failure
 * of its own it is for less than a minute, though they go on. */
static void a_right_secret_is_not_kept_waiting(void)
{
	struct t_conn *near, *far, *good;
	struct auth_env e;
	unsigned int slow = 0;

	auth_env_new(&e);
	near = connected_from(&e, "10.0.0.1");
	far = connected_from(&e, "10.0.0.2");
	/* They stay for the ten minutes, without a step of an authentication. */
	rd_timer_stop(near->qp.reactor->loop, &near->qp.timer);
	rd_timer_stop(far->qp.reactor->loop, &far->qp.timer);
	for (unsigned int i = 0; i < 6000; i++) {
		snprintf(near->qp.ctrl->hostnqn, sizeof(near->qp.ctrl->hostnqn),
			 "nqn.2024-01.test:%u", i % 200);
		rdt_guess_count(&near->qp);
		rdt_guess_count(&far->qp);
		t_advance(e.env, 100 * RD_NSEC_PER_MSEC);
		if (i % 100)
			continue;
		good = connected_from(&e, "10.0.0.1");
		if (i == 3000)
			rdt_guess_count(&good->qp);
		slow += rdt_guess_over(&good->qp);
		if (!rdt_guess_over(&good->qp))
			CU_ASSERT_EQUAL(authenticate(good, &keys[0]), 0);
		rdt_qpair_close(&good->qp, "test");
		t_turn(e.env);
	}
	CU_ASSERT(slow <= 6);
	t_env_free(e.env);
}

/* Others fail at its address under its very name without a pause. A host that has authenticated
 * before, with a Host Identifier that they do not know, is never slowed down. */
static void one_name_at_one_address(void)
{
	struct t_conn *bad, *good;
	struct auth_env e;

	auth_env_new(&e);
	good = connected_from(&e, "10.0.0.1");
	CU_ASSERT_EQUAL(authenticate(good, &keys[0]), 0);
	bad = connected_from(&e, "10.0.0.1");
	memset(bad->qp.ctrl->hostid, 0x99, sizeof(bad->qp.ctrl->hostid));
	rd_timer_stop(bad->qp.reactor->loop, &bad->qp.timer);
	for (unsigned int i = 0; i < 1200; i++) {
		rdt_guess_count(&bad->qp);
		t_advance(e.env, 100 * RD_NSEC_PER_MSEC);
		if (i % 100)
			continue;
		good = connected_from(&e, "10.0.0.1");
		CU_ASSERT_EQUAL(time_of(&e, good, &keys[0], 0), 0);
	}
	CU_ASSERT(rdt_guess_over(&bad->qp));
	t_env_free(e.env);
}

/* Others that do not authenticate use its name, from another address, as often as a host may: a
 * host is not refused. */
static void others_with_its_name(void)
{
	struct rdt_peer_limit limit;
	struct t_conn *c[4];
	struct auth_env e;

	auth_env_new(&e);
	e.env->cfg.target.limits.controllers_per_host = 2;
	for (unsigned int i = 0; i < 2; i++)
		c[i] = connected_from(&e, "10.0.0.1");
	c[2] = connected_from(&e, "10.0.0.2");
	CU_ASSERT_EQUAL(authenticate(c[2], &keys[0]), 0);
	CU_ASSERT_EQUAL(rdt_peer_join(&c[0]->qp, c[0]->qp.ctrl->hostnqn, false, &limit), -EBUSY);
	t_env_free(e.env);
}

/* All places for computations are taken: there is one in the list of another address. */
static void computations_of_others(void)
{
	struct rdt_auth_pool *pool;
	struct t_conn *c[2];
	struct auth_env e;
	uint8_t lane;

	auth_env_new(&e);
	pool = e.env->t->auth_pool;
	pool->threads_count = RDT_AUTH_THREADS; /* they do not run */
	pool->waiting = RDT_AUTH_JOBS;
	c[0] = waiting_from(&e, "10.0.0.1", NVMF_AUTH_FFDHE2048, NULL);
	CU_ASSERT_EQUAL(c[0]->qp.auth->state, RDT_AUTH_PAIR);
	lane = c[0]->qp.auth->job.lane;
	pool->lengths[lane] = RDT_AUTH_LANE;
	c[1] = waiting_from(&e, "10.0.0.1", NVMF_AUTH_FFDHE2048, NULL);
	CU_ASSERT_EQUAL(c[1]->qp.auth->state, RDT_AUTH_FAILURE);
	pool->lengths[lane] = 1;
	pool->waiting -= RDT_AUTH_JOBS;
	rdt_qpair_close(&c[0]->qp, "test");
	t_turn(e.env);
	CU_ASSERT_EQUAL(pool->waiting, 0);
	pool->threads_count = 0;
	t_env_free(e.env);
}

static struct t_conn *connected_as(struct auth_env *e, const char *nqn, uint8_t hostid)
{
	struct t_conn *c = t_conn_new(e->env, 0, 0, 32);
	struct t_answer a = t_connect_as(c, NVMF_CNTLID_DYNAMIC, nqn, hostid);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	return c;
}

/* T_HOST and T_HOST2 have a key each. */
static void auth_env_of_two(struct auth_env *e)
{
	auth_env_new(e);
	e->both[0] = e->entry[0];
	e->both[1] = e->entry[1];
	e->both[1].host = T_HOST2;
	e->env->subsys[0].host_auth = e->both;
	e->env->subsys[0].host_auth_count = 2;
}

static void identifiers_are_shared_on_purpose(void)
{
	static const char *ids[] = {"01010101-0101-0101-0101-010101010101"};
	struct rdt_subsys_config changed;
	struct rdt_subsys *ss;
	struct auth_env e;

	auth_env_of_two(&e);
	changed = e.env->subsys[0];
	changed.shared_host_ids = ids;
	changed.shared_host_ids_count = 1;
	ss = e.env->t->subsys[0];
	CU_ASSERT_EQUAL(rdt_host_ids_share(ss, &changed), 1);
	CU_ASSERT_EQUAL(rdt_host_ids_share(ss, &changed), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST, 1), &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 1), &keys[1]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST, 2), &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 2), &keys[1]), NVMF_AUTH_FAILED);
	changed.shared_host_ids_count = 0;
	CU_ASSERT_EQUAL(rdt_host_ids_share(ss, &changed), 1);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST, 1), &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 1), &keys[1]), NVMF_AUTH_FAILED);
	t_env_free(e.env);
}

/* A name without a key was there first: nobody had proven itself with the identifier. */
static void others_with_an_identifier_end(void)
{
	struct rdt_subsys *ss;
	struct t_conn *other;
	struct auth_env e;

	auth_env_new(&e);
	ss = e.env->t->subsys[0];
	connected_as(&e, T_HOST2, 1);
	other = connected_as(&e, T_HOST2, 2);
	CU_ASSERT_EQUAL(ss->ctrls_count, 2);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST, 1), &keys[0]), 0);
	t_turn(e.env);
	CU_ASSERT_EQUAL(ss->ctrls_count, 2);
	CU_ASSERT_PTR_NOT_NULL(other->qp.ctrl);
	t_env_free(e.env);
}

/* An identifier belongs to the name that was the first to prove itself with it, as long as that has
 * a key, and to others it is refused. */
static void identifiers_belong_to_names(void)
{
	const uint16_t refused = NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM;
	struct auth_env e;
	struct t_conn *c;
	struct t_answer a;

	auth_env_of_two(&e);
	c = connected_as(&e, T_HOST, 1);
	CU_ASSERT_EQUAL(authenticate(c, &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 1), &keys[1]), NVMF_AUTH_FAILED);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 2), &keys[1]), 0);
	/* Nor may a name without a key use it. */
	a = t_connect_as(t_conn_new(e.env, 0, 0, 32), NVMF_CNTLID_DYNAMIC, "nqn.2024-01.test:c", 1);
	CU_ASSERT_EQUAL(t_status(&a), refused);
	a = t_connect_as(t_conn_new(e.env, 0, 0, 32), NVMF_CNTLID_DYNAMIC, "nqn.2024-01.test:c", 3);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	/* It stays when its host has left, and also after some more. */
	rdt_qpair_close(&c->qp, "test");
	t_turn(e.env);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 1), &keys[1]), NVMF_AUTH_FAILED);
	for (uint8_t id = 11; id < 11 + RDT_HOST_IDS - 1; id++)
		CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST, id), &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 1), &keys[1]), NVMF_AUTH_FAILED);
	/* With one more than a name can have, the oldest one is free. */
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST, 100), &keys[0]), 0);
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 1), &keys[1]), 0);
	/* And those of a name that has no key any more. */
	e.env->subsys[0].host_auth = &e.both[1];
	e.env->subsys[0].host_auth_count = 1;
	CU_ASSERT_EQUAL(authenticate(connected_as(&e, T_HOST2, 100), &keys[1]), 0);
	t_env_free(e.env);
}

const struct t_case t_auth_cases[] = {
	{"a queue pair lives after it", lives_after_it},
	{"a queue pair closes 100 ms after a failure", closes_after_a_failure},
	{"a queue pair that does not authenticate closes", closes_without_it},
	{"messages after a failure do not prolong it", messages_after_a_failure},
	{"a queue pair closes while its computation waits", closes_while_computation_waits},
	{"computations of all addresses take turns", addresses_take_turns},
	{"a queue pair that is not authenticated closes when the target drains",
	 closes_when_the_target_drains},
	{"a live queue pair stays when it is not finished", unfinished_again},
	{"replaced keys are accepted for 300 s", replaced_keys},
	{"replaced keys end when keys are replaced again", replaced_again},
	{"guesses are slowed down", guesses_are_slowed_down},
	{"the first authentication of a host among guesses", the_first_time_among_guesses},
	{"a connection that ends while it is slowed down", ends_while_slowed_down},
	{"others that use its name", others_with_its_name},
	{"computations of others", computations_of_others},
	{"a right secret is not kept waiting", a_right_secret_is_not_kept_waiting},
	{"failures under one name at one address", one_name_at_one_address},
	{"failures do not add up beyond the limit", failures_do_not_add_up},
	{"a Host Identifier belongs to one name", identifiers_belong_to_names},
	{"others that use the Host Identifier of a proven name end", others_with_an_identifier_end},
	{"a Host Identifier is shared on purpose", identifiers_are_shared_on_purpose},
	{"failures of others do not hold a host back", failures_of_others},
	{"guesses at keys of TLS", guesses_of_tls},
	{"a full table of failures keeps the worst", a_full_table_keeps_the_worst},
	{NULL, NULL},
};
