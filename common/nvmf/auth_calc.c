/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/auth_calc.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "nvmf/wire.h"

#define ROLE_MAX 10 /* bytes of "Controller" */
/* Challenge, sequence number, transaction, concatenation, role, two NQNs with a NUL between. */
#define PROOF_MAX (NVMF_AUTH_HASH_MAX + 4 + 2 + 1 + ROLE_MAX + NVMF_NQN_MAX + 1 + NVMF_NQN_MAX)

static const EVP_MD *hash_md(unsigned int hash)
{
	switch (hash) {
	case NVMF_AUTH_SHA256:
		return EVP_sha256();
	case NVMF_AUTH_SHA384:
		return EVP_sha384();
	case NVMF_AUTH_SHA512:
		return EVP_sha512();
	default:
		return NULL;
	}
}

int nvmf_auth_hmac(unsigned int hash, const uint8_t *key, size_t key_len, const void *data,
		   size_t len, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	const EVP_MD *md = hash_md(hash);

	if (!md)
		return -EINVAL;
	return HMAC(md, key, (int)key_len, data, len, out, NULL) ? 0 : -EIO;
}

struct proof_text {
	uint8_t bytes[PROOF_MAX];
	size_t len;
};

static void proof_add(struct proof_text *t, const void *bytes, size_t len)
{
	memcpy(t->bytes + t->len, bytes, len);
	t->len += len;
}

/* @first: the NQN of the side that computes the response. */
static int respond(const struct nvmf_auth_proof *p, const char *role, const char *first,
		   const char *second, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	size_t hl = nvmf_auth_hash_len(p->hash);
	struct proof_text t = {.len = 0};
	uint8_t augmented[NVMF_AUTH_HASH_MAX];
	__le32 seqnum = htole32(p->seqnum);
	__le16 t_id = htole16(p->t_id);
	int rc = 0;

	if (!hl || strlen(first) > NVMF_NQN_MAX || strlen(second) > NVMF_NQN_MAX)
		return -EINVAL;
	if (p->session)
		rc = nvmf_auth_hmac(p->hash, p->session, hl, p->challenge, hl, augmented);
	else
		memcpy(augmented, p->challenge, hl);
	if (rc)
		goto out_wipe;
	proof_add(&t, augmented, hl);
	proof_add(&t, &seqnum, sizeof(seqnum));
	proof_add(&t, &t_id, sizeof(t_id));
	proof_add(&t, &p->sc_c, sizeof(p->sc_c));
	proof_add(&t, role, strlen(role));
	proof_add(&t, first, strlen(first) + 1);
	proof_add(&t, second, strlen(second));
	rc = nvmf_auth_hmac(p->hash, p->key, p->key_len, t.bytes, t.len, out);
out_wipe:
	OPENSSL_cleanse(augmented, sizeof(augmented));
	OPENSSL_cleanse(&t, sizeof(t));
	return rc;
}

int nvmf_auth_host_response(const struct nvmf_auth_proof *p, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	return respond(p, "HostHost", p->hostnqn, p->subnqn, out);
}

int nvmf_auth_ctrl_response(const struct nvmf_auth_proof *p, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	return respond(p, "Controller", p->subnqn, p->hostnqn, out);
}
