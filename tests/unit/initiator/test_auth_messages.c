/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random and mutated messages of a controller through the host's whole state machine of
 * DH-HMAC-CHAP. The host has a secret for the controller: it may be content only with the proof
 * that this secret gives.
 */
#include <CUnit/CUnit.h>
#include <errno.h>

#include "nvmf/auth_calc.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "rdinit_auth.h"
#include "suites.h"
#include "t_fake.h"
#include "t_mutate.h"

#define HOST_SECRET "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define CTRL_SECRET "DHHC-1:01:gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp9vmVbU:"

static struct {
	struct t_rng rng;
	bool honest; /* nothing is changed: to connect */
	uint16_t t_id;
	bool replied, proved; /* in this transaction: a reply came; the right proof was sent */
	uint8_t cval[32];     /* of the reply */
	uint32_t seqnum;
	uint8_t old[NVMF_AUTH_TRANSFER]; /* the last Success1 that was right */
} rude;

static void host_sent(const uint8_t *msg, size_t len)
{
	const struct nvmf_auth_challenge sent = {.t_id = rude.t_id, .hash = NVMF_AUTH_SHA256};
	struct nvmf_auth_negotiate n;
	struct nvmf_auth_reply reply;

	if (!nvmf_auth_parse_negotiate(msg, len, &n)) {
		rude.t_id = n.t_id;
		rude.replied = rude.proved = false;
	} else if (!nvmf_auth_parse_reply(msg, len, &sent, &reply)) {
		CU_ASSERT(reply.cvalid);
		memcpy(rude.cval, reply.cval, sizeof(rude.cval));
		rude.seqnum = reply.seqnum;
		rude.replied = true;
	}
}

static size_t right_challenge(uint8_t *msg)
{
	struct nvmf_auth_challenge c = {
		.t_id = rude.t_id, .hash = NVMF_AUTH_SHA256, .seqnum = 1 + t_rand(&rude.rng, 9)};

	for (size_t i = 0; i < 32; i++)
		c.cval[i] = (uint8_t)t_rand(&rude.rng, 256);
	return nvmf_auth_build_challenge(&c, msg);
}

static size_t right_success(uint8_t *msg)
{
	struct nvmf_auth_success1 s = {.t_id = rude.t_id, .hash = NVMF_AUTH_SHA256, .rvalid = true};
	struct nvmf_auth_proof p = {
		.hash = NVMF_AUTH_SHA256,
		.t_id = rude.t_id,
		.seqnum = rude.seqnum,
		.challenge = rude.cval,
		.hostnqn = "nqn.2024-01.test:host",
		.subnqn = "nqn.2024-01.test:x",
	};
	uint8_t key[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_key secret;

	CU_ASSERT_PTR_NULL_FATAL(nvmf_auth_key_parse(CTRL_SECRET, &secret));
	p.key = key;
	p.key_len = (size_t)nvmf_auth_key_transform(&secret, p.subnqn, key);
	CU_ASSERT_EQUAL(nvmf_auth_ctrl_response(&p, s.rval), 0);
	return nvmf_auth_build_success1(&s, msg);
}

/* Do they differ in reserved bytes and padding only? */
static bool same_success(const uint8_t *a, const uint8_t *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[4] == b[4] && a[5] == b[5] && a[6] == b[6] &&
	       a[8] == b[8] && memcmp(a + 16, b + 16, 32) == 0;
}

static size_t rude_message(uint8_t *msg)
{
	size_t len;

	switch (t_rand(&rude.rng, 10)) {
	case 0:
		return right_challenge(msg);
	case 1:
		return nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE1, rude.t_id,
					       (enum nvmf_auth_expl)t_rand(&rude.rng, 256), msg);
	case 2: /* of an earlier transaction, with the number of this one */
		memcpy(msg, rude.old, 64);
		msg[4] = (uint8_t)rude.t_id;
		msg[5] = (uint8_t)(rude.t_id >> 8);
		return 64;
	case 3:
		len = 1 + t_rand(&rude.rng, 200);
		for (size_t i = 0; i < len; i++)
			msg[i] = (uint8_t)t_rand(&rude.rng, i < 4 ? 5 : 256);
		return len;
	default:
		len = rude.replied ? right_success(msg) : right_challenge(msg);
		return t_rand(&rude.rng, 3) ? t_mutate(&rude.rng, msg, len, NVMF_AUTH_TRANSFER)
					    : len;
	}
}

static void answer_host(uint8_t msg[NVMF_AUTH_TRANSFER])
{
	uint8_t right[NVMF_AUTH_TRANSFER] = {0};

	if (rude.replied)
		right_success(right);
	if (!rude.honest)
		rude_message(msg);
	else if (rude.replied)
		memcpy(msg, right, sizeof(right));
	else
		right_challenge(msg);
	if (rude.replied && same_success(msg, right)) {
		rude.proved = true;
		memcpy(rude.old, right, sizeof(right));
	}
}

static bool rude_hook(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		      const void *data, size_t len)
{
	size_t size = le32toh(((const struct nvmf_auth_sqe *)(const void *)sqe)->len);
	uint8_t buf[NVMF_AUTH_TRANSFER] = {0};

	if (sqe->opcode != NVMF_OPCODE)
		return false;
	if (sqe->fctype == nvme_fabrics_type_auth_send) {
		if (data)
			memcpy(buf, data, len < size ? len : size);
		else
			CU_ASSERT_TRUE(t_read_host(f, sqe, buf, size));
		host_sent(buf, size);
	} else if (sqe->fctype == nvme_fabrics_type_auth_receive) {
		answer_host(buf);
		CU_ASSERT_TRUE(t_write_host(f, sqe, buf, size));
	} else {
		return false;
	}
	t_answer(conn, sqe, 0, 0);
	return true;
}

static struct rdinit_ctrl *mutual_ctrl(void)
{
	struct rdinit_auth_opts auth;
	struct rdinit_ctrl_opts opts;

	t_fake_reset();
	memset(&rude, 0, sizeof(rude));
	rude.honest = true;
	t_fake.hook = rude_hook;
	rdinit_auth_opts_init(&auth);
	auth.secret = HOST_SECRET;
	auth.ctrl_secret = CTRL_SECRET;
	CU_ASSERT_EQUAL(rdinit_auth_opts_offer(&auth, "sha256,sha512", "null"), 0);
	t_ctrl_opts(&opts, 1);
	opts.auth = &auth;
	return t_ctrl_by(&opts);
}

static void prove_nothing(void)
{
	unsigned int rounds = t_rounds(100000) / 2; /* two messages in most of them */
	struct rdinit_ctrl *ctrl = mutual_ctrl();
	unsigned int content = 0, refused = 0;
	int rc;

	t_rng_init(&rude.rng, "messages for a host");
	rude.honest = false;
	for (unsigned int i = 0; i < rounds; i++) {
		t_fake.n_log = 0;
		rude.proved = false;
		rc = rdinit_ctrl_authenticate(ctrl, NULL);
		CU_ASSERT_FATAL(rc == 0 || rc == -EKEYREJECTED);
		CU_ASSERT_EQUAL_FATAL(rc == 0, rude.proved);
		content += rc == 0;
		refused += rc != 0;
	}
	CU_ASSERT(content > 0 && refused > content);
	rude.honest = true;
	CU_ASSERT_EQUAL(rdinit_ctrl_authenticate(ctrl, NULL), 0);
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

const struct t_case t_auth_message_cases[] = {
	{"random and mutated messages prove nothing", prove_nothing},
	{NULL, NULL},
};
