/* SPDX-License-Identifier: BSD-3-Clause */
/* DH-HMAC-CHAP on raw connections: messages of the host, which tests can change before sending. */
#include "auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

/* ---- commands ---- */

struct rdc_raw_reply rdc_auth_cmd(struct rdc_raw *raw, uint8_t fctype, const struct rdc_mem *mem,
				  uint32_t len, const struct rdc_auth_fields *f)
{
	struct nvmf_auth_sqe sqe = {
		.opcode = NVMF_OPCODE,
		.fctype = fctype,
		.spsp0 = NVMF_AUTH_SPSP0 ^ f->spsp0,
		.spsp1 = NVMF_AUTH_SPSP1 ^ f->spsp1,
		.secp = NVMF_AUTH_SECP ^ f->secp,
		.len = htole32(f->other_len ? f->len : len),
	};
	struct nvme_sqe s;

	memcpy(&s, &sqe, sizeof(s));
	if (mem)
		rdc_sgl(&s, mem, len);
	else
		rdc_sgl_none(raw, &s);
	return rdc_raw_cmd(raw, &s);
}

struct rdc_raw_reply rdc_auth_send(struct rdc_auth *a, const void *msg, size_t len)
{
	const struct rdc_auth_fields right = {.spsp0 = 0};
	struct rdc_mem *mem = rdc_raw_mem(a->raw, len, IBV_ACCESS_REMOTE_READ);

	memcpy(mem->p, msg, len);
	return rdc_auth_cmd(a->raw, nvme_fabrics_type_auth_send, mem, (uint32_t)len, &right);
}

void rdc_auth_must_send(struct rdc_auth *a, const void *msg, size_t len)
{
	RDC_OK(a->raw->t, rdc_auth_send(a, msg, len).r, "Authentication Send");
}

struct rdc_raw_reply rdc_auth_receive(struct rdc_auth *a)
{
	const struct rdc_auth_fields right = {.spsp0 = 0};
	struct rdc_mem *mem = rdc_raw_mem(a->raw, sizeof(a->got),
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct rdc_raw_reply rr =
		rdc_auth_cmd(a->raw, nvme_fabrics_type_auth_receive, mem, sizeof(a->got), &right);

	memcpy(a->got, mem->p, sizeof(a->got));
	return rr;
}

void rdc_auth_must_receive(struct rdc_auth *a)
{
	RDC_OK(a->raw->t, rdc_auth_receive(a).r, "Authentication Receive");
}

/* ---- messages ---- */

void rdc_auth_init(struct rdc_auth *a, struct rdc_raw *raw, unsigned int who)
{
	struct rdc *t = raw->t;

	memset(a, 0, sizeof(*a));
	a->raw = raw;
	a->who = who;
	RDC_CHECK(t,
		  RAND_bytes((unsigned char *)&a->offer.t_id, 2) == 1 &&
			  RAND_bytes(a->c2, sizeof(a->c2)) == 1,
		  "this machine has no random numbers");
	for (uint8_t id = NVMF_AUTH_SHA256; id <= NVMF_AUTH_SHA512; id++)
		a->offer.hashes[a->offer.n_hashes++] = id;
	for (uint8_t id = NVMF_AUTH_GROUP_NULL; id <= NVMF_AUTH_FFDHE8192; id++)
		a->offer.groups[a->offer.n_groups++] = id;
}

void rdc_auth_negotiate(struct rdc_auth *a)
{
	uint8_t msg[NVMF_AUTH_MSG_MAX];

	rdc_auth_must_send(a, msg, nvmf_auth_build_negotiate(&a->offer, msg));
}

void rdc_auth_challenge(struct rdc_auth *a)
{
	enum nvmf_auth_expl why;

	rdc_auth_must_receive(a);
	why = nvmf_auth_parse_challenge(a->got, sizeof(a->got), &a->offer, &a->challenge);
	RDC_CHECK(a->raw->t, !why, "the challenge is not usable: %s (message 0x%02x%02x)",
		  nvmf_auth_expl_text(why), a->got[0], a->got[1]);
	a->dhv_len = a->challenge.dhv.len;
	memcpy(a->dhv, a->challenge.dhv.value, a->dhv_len);
}

static void raw_auth_key(struct rdc_auth *a, bool ctrl, uint8_t out[NVMF_AUTH_HASH_MAX],
			 size_t *len)
{
	struct rdc *t = a->raw->t;
	const struct nvmf_auth_key *key = ctrl ? &t->cfg->ctrl_key : &t->cfg->key;
	int n = nvmf_auth_key_transform(key, ctrl ? t->cfg->uri.subnqn : t->cfg->hostnqn[a->who],
					out);

	RDC_CHECK(t, n > 0, "the secret cannot be used");
	*len = (size_t)n;
}

static void raw_auth_proof(struct rdc_auth *a, bool ctrl, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	struct rdc *t = a->raw->t;
	uint8_t key[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_proof p = {
		.hash = a->challenge.hash,
		.t_id = a->offer.t_id,
		.seqnum = ctrl ? a->seqnum : a->challenge.seqnum,
		.key = key,
		.challenge = ctrl ? a->c2 : a->challenge.cval,
		.session = a->challenge.group ? a->session : NULL,
		.hostnqn = t->cfg->hostnqn[a->who],
		.subnqn = t->cfg->uri.subnqn,
	};

	raw_auth_key(a, ctrl, key, &p.key_len);
	RDC_CHECK(t,
		  (ctrl ? nvmf_auth_ctrl_response(&p, out) : nvmf_auth_host_response(&p, out)) == 0,
		  "libcrypto cannot compute the response");
}

void rdc_auth_session_of(struct rdc_auth *a, const uint8_t *shared)
{
	RDC_CHECK(a->raw->t,
		  EVP_Q_digest(NULL, nvmf_auth_hash_text(a->challenge.hash), NULL, shared,
			       a->dhv_len, a->session, NULL) == 1,
		  "libcrypto cannot compute the hash");
}

static void raw_auth_dh(struct rdc_auth *a)
{
	struct rdc *t = a->raw->t;
	EVP_PKEY *own = NULL;
	int rc = nvmf_auth_dh_create(a->challenge.group, &own);

	if (!rc)
		rc = nvmf_auth_dh_public(own, a->challenge.group, a->value);
	if (!rc)
		rc = nvmf_auth_dh_session(own, a->challenge.group, a->challenge.hash, a->dhv,
					  a->dhv_len, a->session);
	EVP_PKEY_free(own);
	RDC_CHECK(t, !rc, "the target's Diffie-Hellman value is not usable: %s", strerror(-rc));
}

size_t rdc_auth_make_reply(struct rdc_auth *a, bool mutual, uint8_t msg[NVMF_AUTH_MSG_MAX])
{
	struct nvmf_auth_reply r = {
		.t_id = a->offer.t_id, .hash = a->challenge.hash, .cvalid = mutual};

	if (a->dhv_len && !a->has_value)
		raw_auth_dh(a);
	a->seqnum = mutual ? 0x0a0b0c0d : 0;
	r.seqnum = a->seqnum;
	memcpy(r.cval, a->c2, sizeof(r.cval));
	r.dhv = (struct nvmf_auth_dhv){a->value, a->dhv_len};
	raw_auth_proof(a, false, r.rval);
	return nvmf_auth_build_reply(&r, msg);
}

void rdc_auth_success(struct rdc_auth *a, bool mutual)
{
	struct rdc *t = a->raw->t;
	const struct nvmf_auth_reply sent = {
		.t_id = a->offer.t_id, .hash = a->challenge.hash, .cvalid = mutual};
	uint8_t want[NVMF_AUTH_HASH_MAX], msg[NVMF_AUTH_MSG_MAX];
	struct nvmf_auth_success1 s;
	enum nvmf_auth_expl why;

	rdc_auth_must_receive(a);
	why = nvmf_auth_parse_success1(a->got, sizeof(a->got), &sent, &s);
	RDC_CHECK(t, !why, "a correct reply is not answered with Success1: message 0x%02x%02x, %s",
		  a->got[0], a->got[1],
		  a->got[1] == 0xf1 ? nvmf_auth_expl_text(a->got[7]) : nvmf_auth_expl_text(why));
	if (!mutual)
		return;
	raw_auth_proof(a, true, want);
	RDC_CHECK(t, memcmp(want, s.rval, nvmf_auth_hash_len(s.hash)) == 0,
		  "the controller's response is wrong");
	rdc_auth_must_send(a, msg, nvmf_auth_build_success2(a->offer.t_id, msg));
}

size_t rdc_auth_until_reply(struct rdc_auth *a, bool mutual, uint8_t msg[NVMF_AUTH_MSG_MAX])
{
	rdc_auth_negotiate(a);
	rdc_auth_challenge(a);
	return rdc_auth_make_reply(a, mutual, msg);
}

void rdc_auth_run(struct rdc_auth *a, bool mutual)
{
	uint8_t msg[NVMF_AUTH_MSG_MAX];
	size_t len = rdc_auth_until_reply(a, mutual, msg);

	rdc_auth_must_send(a, msg, len);
	rdc_auth_success(a, mutual);
}

void rdc_raw_authenticate(struct rdc_raw *raw, unsigned int who)
{
	struct rdc_auth *a;

	if (!raw->must_authenticate || !raw->t->cfg->key.len)
		return;
	a = rdc_buf(raw->t, sizeof(*a));
	rdc_auth_init(a, raw, who);
	rdc_auth_run(a, false);
	raw->must_authenticate = false;
}
