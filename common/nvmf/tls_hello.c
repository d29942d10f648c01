/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/tls_hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "nvmf/auth_calc.h"

#define CLIENT_HELLO       1
#define EXT_PRE_SHARED_KEY 41

/* What is left of a message. */
struct span {
	const uint8_t *at;
	size_t len;
};

static bool take_span(struct span *s, size_t len, struct span *out)
{
	if (s->len < len)
		return false;
	*out = (struct span){s->at, len};
	s->at += len;
	s->len -= len;
	return true;
}

static bool span_number(struct span *s, size_t bytes, size_t *out)
{
	struct span n;

	if (!take_span(s, bytes, &n))
		return false;
	*out = 0;
	for (size_t i = 0; i < bytes; i++)
		*out = *out << 8 | n.at[i];
	return true;
}

/* A vector: its length in @bytes bytes, and the rest. */
static bool take_vector(struct span *s, size_t bytes, struct span *out)
{
	size_t len;

	return span_number(s, bytes, &len) && take_span(s, len, out);
}

static bool parse_offers(struct span ext, struct nvmf_tls_hello *h)
{
	struct span ids, binders, id, age, binder;
	unsigned int n = 0, of_binders = 0;

	if (!take_vector(&ext, 2, &ids))
		return false;
	h->bound_len = (size_t)(ext.at - h->msg);
	for (; ids.len; n++) {
		if (!take_vector(&ids, 2, &id) || !take_span(&ids, 4, &age))
			return false;
		if (n < NVMF_TLS_OFFERS) {
			h->offer[n].identity = id.at;
			h->offer[n].identity_len = (uint16_t)id.len;
		}
	}
	if (!take_vector(&ext, 2, &binders) || ext.len)
		return false;
	for (; binders.len; of_binders++) {
		if (!take_vector(&binders, 1, &binder))
			return false;
		if (of_binders < NVMF_TLS_OFFERS) {
			h->offer[of_binders].binder = binder.at;
			h->offer[of_binders].binder_len = (uint8_t)binder.len;
		}
	}
	h->offers = n < NVMF_TLS_OFFERS ? n : NVMF_TLS_OFFERS;
	return n == of_binders;
}

bool nvmf_tls_hello_parse(const uint8_t *msg, size_t len, struct nvmf_tls_hello *h)
{
	struct span m = {msg, len}, body, part, exts, ext;
	size_t type;

	memset(h, 0, sizeof(*h));
	h->msg = msg;
	if (!span_number(&m, 1, &type) || type != CLIENT_HELLO || !take_vector(&m, 3, &body) ||
	    m.len)
		return false;
	/* version and random; session, cipher suites, compression methods */
	if (!take_span(&body, 2 + 32, &part) || !take_vector(&body, 1, &part) ||
	    !take_vector(&body, 2, &part) || !take_vector(&body, 1, &part))
		return false;
	if (!body.len)
		return true;
	if (!take_vector(&body, 2, &exts) || body.len)
		return false;
	while (exts.len) {
		if (!span_number(&exts, 2, &type) || !take_vector(&exts, 2, &ext))
			return false;
		if (type == EXT_PRE_SHARED_KEY) /* must be the last one */
			return !exts.len && parse_offers(ext, h);
	}
	return true;
}

/* HKDF-Expand-Label of one block. */
static int expand(unsigned int hash, const uint8_t *secret, const char *label,
		  const uint8_t *context, size_t context_len, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	uint8_t info[2 + 1 + 6 + 12 + 1 + NVMF_AUTH_HASH_MAX + 1];
	size_t hl = nvmf_auth_hash_len(hash), len = strlen(label), n = 0;

	info[n++] = 0;
	info[n++] = (uint8_t)hl;
	info[n++] = (uint8_t)(6 + len);
	memcpy(info + n, "tls13 ", 6);
	memcpy(info + n + 6, label, len);
	n += 6 + len;
	info[n++] = (uint8_t)context_len;
	if (context_len)
		memcpy(info + n, context, context_len);
	n += context_len;
	info[n++] = 1; /* the number of HKDF-Expand's block */
	return nvmf_auth_hmac(hash, secret, hl, info, n, out);
}

/* RFC 8446, 7.1 and 4.2.11.2. */
static int make_binder(const struct nvmf_tls_hello *h, const struct nvmf_tls_psk *psk,
		       uint8_t out[NVMF_AUTH_HASH_MAX])
{
	const EVP_MD *md = psk->hash == NVMF_AUTH_SHA256 ? EVP_sha256() : EVP_sha384();
	static const uint8_t zeros[NVMF_AUTH_HASH_MAX];
	uint8_t secret[NVMF_AUTH_HASH_MAX], hashed[EVP_MAX_MD_SIZE];
	size_t hl = nvmf_auth_hash_len(psk->hash);
	int rc;

	rc = nvmf_auth_hmac(psk->hash, zeros, hl, psk->psk, psk->len, secret);
	if (!rc && !EVP_Digest("", 0, hashed, NULL, md, NULL))
		rc = -1;
	if (!rc)
		rc = expand(psk->hash, secret, "ext binder", hashed, hl, secret);
	if (!rc)
		rc = expand(psk->hash, secret, "finished", NULL, 0, secret);
	if (!rc && !EVP_Digest(h->msg, h->bound_len, hashed, NULL, md, NULL))
		rc = -1;
	if (!rc)
		rc = nvmf_auth_hmac(psk->hash, secret, hl, hashed, hl, out);
	OPENSSL_cleanse(secret, sizeof(secret));
	return rc;
}

bool nvmf_tls_hello_bound(const struct nvmf_tls_hello *h, const struct nvmf_tls_offer *o,
			  const struct nvmf_tls_psk *psk)
{
	uint8_t binder[NVMF_AUTH_HASH_MAX];

	return o->binder_len == nvmf_auth_hash_len(psk->hash) && !make_binder(h, psk, binder) &&
	       CRYPTO_memcmp(binder, o->binder, o->binder_len) == 0;
}
