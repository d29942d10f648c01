/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random and mutated messages of DH-HMAC-CHAP through the whole state machine of a controller, on a
 * queue that is in use and on one that has not authenticated. Only replies with the right proof may
 * be accepted, and never more often than one was sent.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/auth_calc.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "target/nvmf/auth/auth.h"
#include "t_mutate.h"
#include "t_target.h"

#define ROOM (NVMF_AUTH_TRANSFER + 64)

static const struct nvmf_auth_key host_key = {.len = 32,
					      .secret = "the first secret of thirty-two b"};
static const struct nvmf_auth_key ctrl_key = {.len = 32,
					      .secret = "another secret of thirty-two b. "};

struct walk {
	struct t_env *env;
	struct t_rng rng;
	struct rdt_host_auth_config entry;
	struct t_conn *live, *fresh;
	bool fresh_gone;
	uint8_t answer[NVMF_AUTH_TRANSFER]; /* the last message received */
	bool known;                         /* a reply fits the challenge of its queue */
	uint64_t rights;                    /* right replies that were sent, unchanged */
};

/* Authentication Send or Receive. Returns the status. */
static uint16_t auth_command(struct t_conn *c, uint8_t fctype, void *data, uint32_t len)
{
	struct nvmf_auth_sqe auth;
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, NVMF_OPCODE, data, len);
	memcpy(&auth, &sqe, sizeof(auth));
	auth.fctype = fctype;
	auth.spsp0 = NVMF_AUTH_SPSP0;
	auth.spsp1 = NVMF_AUTH_SPSP1;
	auth.secp = NVMF_AUTH_SECP;
	auth.len = htole32(len);
	memcpy(&sqe, &auth, sizeof(sqe));
	return t_exec_status(c, &sqe);
}

static size_t random_negotiate(struct walk *w, uint8_t *msg)
{
	const struct nvmf_auth_negotiate offer = {
		.t_id = (uint16_t)t_rand(&w->rng, 4),
		.n_hashes = 2,
		.n_groups = 1,
		.hashes = {(uint8_t)(1 + t_rand(&w->rng, 3)), NVMF_AUTH_SHA256},
	};

	return nvmf_auth_build_negotiate(&offer, msg);
}

/* A reply to the challenge that was received last, if it was one. */
static size_t random_reply(struct walk *w, const struct t_conn *c, bool right, uint8_t *msg)
{
	const struct rdt_auth *a = c->qp.auth;
	struct nvmf_auth_negotiate offer = {
		.n_hashes = 3, .n_groups = 1, .hashes = {1, 2, 3}, .t_id = (uint16_t)w->answer[4]};
	struct nvmf_auth_challenge challenge = {.hash = NVMF_AUTH_SHA256};
	bool parsed = !nvmf_auth_parse_challenge(w->answer, sizeof(w->answer), &offer, &challenge);
	struct nvmf_auth_reply reply = {.t_id = offer.t_id,
					.hash = challenge.hash,
					.cvalid = t_rand(&w->rng, 2),
					.seqnum = 1 + t_rand(&w->rng, 2)};
	const struct nvmf_auth_proof proof = {
		.hash = challenge.hash,
		.t_id = offer.t_id,
		.seqnum = challenge.seqnum,
		.key = right ? host_key.secret : ctrl_key.secret,
		.key_len = 32,
		.challenge = challenge.cval,
		.hostnqn = T_HOST,
		.subnqn = T_NQN,
	};

	CU_ASSERT_EQUAL(nvmf_auth_host_response(&proof, reply.rval), 0);
	w->known = right && parsed && a && a->state == RDT_AUTH_REPLY &&
		   memcmp(a->sent.cval, challenge.cval, nvmf_auth_hash_len(challenge.hash)) == 0;
	return nvmf_auth_build_reply(&reply, msg);
}

/* What the controller waits for on @c. Returns 0: to be received from. */
static size_t expected_message(struct walk *w, const struct t_conn *c, bool right, uint8_t *msg)
{
	switch (c->qp.auth ? c->qp.auth->state : RDT_AUTH_IDLE) {
	case RDT_AUTH_IDLE:
		return random_negotiate(w, msg);
	case RDT_AUTH_REPLY:
		return random_reply(w, c, right && t_rand(&w->rng, 2), msg);
	case RDT_AUTH_SUCCESS2:
		return nvmf_auth_build_success2(c->qp.auth->t_id, msg);
	default:
		return 0;
	}
}

static size_t any_message(struct walk *w, const struct t_conn *c, uint8_t *msg)
{
	struct t_rng *r = &w->rng;
	uint16_t t_id = (uint16_t)t_rand(r, 4);
	size_t len = 1 + t_rand(r, 200);

	switch (t_rand(r, 7)) {
	case 0:
		return random_negotiate(w, msg);
	case 1:
		return random_reply(w, c, false, msg);
	case 2:
		return nvmf_auth_build_success2(t_id, msg);
	case 3:
		return nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE2, t_id,
					       (enum nvmf_auth_expl)t_rand(r, 256), msg);
	case 4: /* what the controller has sent comes back */
		memcpy(msg, w->answer, len);
		return len;
	case 5:
		return 0;
	default:
		for (size_t i = 0; i < len; i++)
			msg[i] = (uint8_t)t_rand(r, i < 6 ? 6 : 256);
		return len;
	}
}

static void connect_fresh(struct walk *w)
{
	w->fresh = t_conn_new(w->env, 0, 0, 32);
	w->fresh->gone = &w->fresh_gone;
	w->fresh_gone = false;
	t_connect(w->fresh, NVMF_CNTLID_DYNAMIC);
	CU_ASSERT_EQUAL_FATAL(w->fresh->qp.state, RDT_QP_AUTH);
}

static void take_step(struct walk *w, struct t_conn *c)
{
	bool mutate = t_rand(&w->rng, 2);
	uint8_t msg[ROOM];
	size_t len;

	w->known = false;
	len = t_rand(&w->rng, 4) ? expected_message(w, c, !mutate, msg) : any_message(w, c, msg);
	if (!len) {
		auth_command(c, 6, w->answer, NVMF_AUTH_TRANSFER);
		return;
	}
	/* Half of them go as they are, so that all states are reached. */
	if (mutate)
		len = t_mutate(&w->rng, msg, len, sizeof(msg));
	w->rights += w->known;
	auth_command(c, 5, msg, (uint32_t)len);
}

static void walk_init(struct walk *w)
{
	memset(w, 0, sizeof(*w));
	t_rng_init(&w->rng, "messages for a controller");
	w->env = t_env_new();
	w->entry = (struct rdt_host_auth_config){.host = T_HOST,
						 .key = &host_key,
						 .ctrl_key = &ctrl_key,
						 .n_hashes = 3,
						 .n_groups = 1,
						 .hashes = {1, 2, 3}};
	w->live = t_conn_new(w->env, 0, 0, 32);
	t_connect(w->live, NVMF_CNTLID_DYNAMIC); /* before there is a key */
	CU_ASSERT_EQUAL_FATAL(w->live->qp.state, RDT_QP_LIVE);
	w->env->subsys[0].host_auth = &w->entry;
	w->env->subsys[0].host_auth_count = 1;
	connect_fresh(w);
}

/* A queue that has authenticated, or failed, makes room for the next one. */
static void replace_fresh(struct walk *w)
{
	if (w->fresh_gone) {
		connect_fresh(w);
	} else if (w->fresh->qp.state == RDT_QP_LIVE) {
		rdt_qpair_close(&w->fresh->qp, "test");
		t_turn(w->env);
		CU_ASSERT_FATAL(w->fresh_gone);
		connect_fresh(w);
	} else if (w->fresh->qp.auth && w->fresh->qp.auth->state == RDT_AUTH_DELAY) {
		t_advance(w->env, 101 * RD_NSEC_PER_MSEC);
		CU_ASSERT_FATAL(w->fresh_gone);
		connect_fresh(w);
	}
}

static void prove_nothing(void)
{
	unsigned int rounds = t_rounds(100000);
	uint64_t successes;
	struct walk w;

	walk_init(&w);
	for (unsigned int i = 0; i < rounds; i++) {
		bool live = i / 16 % 2; /* by turns, so that transactions come to their ends */

		take_step(&w, live ? w.live : w.fresh);
		replace_fresh(&w);
		CU_ASSERT_EQUAL_FATAL(w.live->qp.state, RDT_QP_LIVE);
		successes = atomic_load(&w.env->t->subsys[0]->auth_successes);
		CU_ASSERT_FATAL(successes <= w.rights);
	}
	printf("# %llu of %llu right proofs were accepted\n", (unsigned long long)successes,
	       (unsigned long long)w.rights);
	CU_ASSERT(successes > 0); /* the walk reaches the end, too */
	CU_ASSERT(atomic_load(&w.env->t->subsys[0]->auth_failures) > rounds / 20);
	t_env_free(w.env);
}

const struct t_case t_auth_message_cases[] = {
	{"random and mutated messages prove nothing", prove_nothing},
	{NULL, NULL},
};
