/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Diffie-Hellman of DH-HMAC-CHAP by libcrypto, which checks a peer's public value as well. Errors
 * that a failed call adds to libcrypto's error queue are removed: the program that uses librdinit
 * may use libcrypto itself.
 */
#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>

#include "nvmf/auth_calc.h"

#define ALGORITHM "DH"

static int dh_make(EVP_PKEY_CTX *ctx, unsigned int group, EVP_PKEY **out)
{
	if (!ctx || EVP_PKEY_keygen_init(ctx) != 1 ||
	    EVP_PKEY_CTX_set_group_name(ctx, nvmf_auth_group_text(group)) != 1)
		return -EIO;
	return EVP_PKEY_generate(ctx, out) == 1 ? 0 : -EIO;
}

int nvmf_auth_dh_create(unsigned int group, EVP_PKEY **out)
{
	EVP_PKEY_CTX *ctx;
	int rc;

	*out = NULL;
	if (nvmf_auth_group_len(group) <= 0)
		return -EINVAL;
	ERR_set_mark();
	ctx = EVP_PKEY_CTX_new_from_name(NULL, ALGORITHM, NULL);
	rc = dh_make(ctx, group, out);
	EVP_PKEY_CTX_free(ctx);
	ERR_pop_to_mark();
	return rc;
}

int nvmf_auth_dh_public(const EVP_PKEY *own, unsigned int group, uint8_t *out)
{
	int len = nvmf_auth_group_len(group), rc = -EIO;
	BIGNUM *value = NULL;

	if (len <= 0)
		return -EINVAL;
	ERR_set_mark();
	if (EVP_PKEY_get_bn_param(own, OSSL_PKEY_PARAM_PUB_KEY, &value) == 1 &&
	    BN_bn2binpad(value, out, len) == len)
		rc = 0;
	BN_free(value);
	ERR_pop_to_mark();
	return rc;
}

/* The peer's public value as a key of libcrypto, for the caller to free. NULL: failed. */
static EVP_PKEY *dh_peer(unsigned int group, const uint8_t *value, size_t len)
{
	uint8_t native[NVMF_AUTH_DHV_MAX];
	char name[16];
	OSSL_PARAM params[3];
	EVP_PKEY *key = NULL;
	EVP_PKEY_CTX *ctx;

	/* OSSL_PARAM has integers in the byte order of the machine. */
	for (size_t i = 0; i < len; i++)
		native[i] =
			__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? value[len - 1 - i] : value[i];
	strncpy(name, nvmf_auth_group_text(group), sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	params[0] = OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, name, 0);
	params[1] = OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PUB_KEY, native, len);
	params[2] = OSSL_PARAM_construct_end();
	ctx = EVP_PKEY_CTX_new_from_name(NULL, ALGORITHM, NULL);
	if (ctx && EVP_PKEY_fromdata_init(ctx) == 1)
		EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* Padded: the hash is over all bytes of the group's size, leading zeros included. */
static int dh_derive(EVP_PKEY *own, EVP_PKEY *peer, uint8_t *out, size_t len)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, own, NULL);
	unsigned int pad = 1;
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_uint(OSSL_EXCHANGE_PARAM_PAD, &pad),
		OSSL_PARAM_construct_end(),
	};
	size_t n = len;
	int rc = -EIO;

	if (ctx && EVP_PKEY_derive_init_ex(ctx, params) == 1) {
		if (EVP_PKEY_derive_set_peer(ctx, peer) != 1)
			rc = -EBADMSG;
		else if (EVP_PKEY_derive(ctx, out, &n) == 1 && n == len)
			rc = 0;
	}
	EVP_PKEY_CTX_free(ctx);
	return rc;
}

int nvmf_auth_dh_session(EVP_PKEY *own, unsigned int group, unsigned int hash, const uint8_t *peer,
			 size_t len, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	uint8_t shared[NVMF_AUTH_DHV_MAX];
	EVP_PKEY *peer_key;
	int rc;

	if (nvmf_auth_group_len(group) <= 0 || len != (size_t)nvmf_auth_group_len(group) ||
	    !nvmf_auth_hash_len(hash))
		return -EINVAL;
	ERR_set_mark();
	peer_key = dh_peer(group, peer, len);
	rc = peer_key ? dh_derive(own, peer_key, shared, len) : -EBADMSG;
	if (!rc && EVP_Q_digest(NULL, nvmf_auth_hash_text(hash), NULL, shared, len, out, NULL) != 1)
		rc = -EIO;
	EVP_PKEY_free(peer_key);
	OPENSSL_cleanse(shared, sizeof(shared));
	ERR_pop_to_mark();
	return rc;
}
