/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and checks secrets of DH-HMAC-CHAP and keys of TLS. */
#include <errno.h>

#include "internal.h"
#include "nvmf/tls_psk.h"
#include "rdinit_auth.h"
#include "rdinit_tls.h"

_Static_assert(RDINIT_DHCHAP_KEY_SIZE == NVMF_AUTH_KEY_TEXT, "text of a secret");
_Static_assert((int)RDINIT_DHCHAP_SHA512 == NVMF_AUTH_SHA512, "hash identifiers");
_Static_assert(RDINIT_TLS_KEY_SIZE == NVMF_AUTH_KEY_TEXT, "text of a key");
_Static_assert((int)RDINIT_TLS_SHA384 == NVMF_AUTH_SHA384, "hash identifiers");
_Static_assert(RDINIT_TLS_IDENTITY_SIZE == NVMF_TLS_IDENTITY_MAX, "text of an identity");

/* @expected: the values of @hash and @len that are possible. */
static int key_generate(const char *func, enum nvmf_key_kind kind, unsigned int hash, size_t len,
			const char *expected, char *text)
{
	struct nvmf_auth_key key;
	int rc = nvmf_key_generate(kind, hash, len, &key);

	if (rc == -EINVAL)
		rc = rdi_fail(func, rc, "hash %u with a secret of %zu bytes: %s", hash, len,
			      expected);
	else if (rc)
		rc = rdi_fail(func, rc, "the system provides no random numbers");
	else
		nvmf_auth_key_format(&key, text);
	nvmf_auth_key_wipe(&key);
	return rc;
}

/* The caller wipes @key after success. */
static int key_parse(const char *func, enum nvmf_key_kind kind, const char *text,
		     struct nvmf_auth_key *key)
{
	const char *why = text ? nvmf_key_parse(kind, text, key) : "is NULL";

	return why ? rdi_fail(func, -EINVAL, "the key %s", why) : 0;
}

static int key_check(const char *func, enum nvmf_key_kind kind, const char *text,
		     unsigned int *hash, size_t *len)
{
	struct nvmf_auth_key key;
	int rc = key_parse(func, kind, text, &key);

	if (rc)
		return rc;
	if (hash)
		*hash = key.hash;
	if (len)
		*len = key.len;
	nvmf_auth_key_wipe(&key);
	return 0;
}

int rdinit_dhchap_key_generate(unsigned int hash, size_t len, char *text)
{
	return key_generate(__func__, NVMF_KEY_DHCHAP, hash, len,
			    "the hash is 0 to 3, the secret has 32, 48 or 64 bytes", text);
}

int rdinit_dhchap_key_check(const char *text, unsigned int *hash, size_t *len)
{
	return key_check(__func__, NVMF_KEY_DHCHAP, text, hash, len);
}

int rdinit_tls_key_generate(unsigned int hash, char *text)
{
	return key_generate(__func__, NVMF_KEY_TLS, hash, nvmf_auth_hash_len(hash),
			    "the hash is 1, SHA-256, or 2, SHA-384", text);
}

int rdinit_tls_key_check(const char *text, unsigned int *hash, size_t *len)
{
	return key_check(__func__, NVMF_KEY_TLS, text, hash, len);
}

/* A part of an identity, which blanks separate. */
static bool is_identity_name(const char *name)
{
	return name && name[0] && strlen(name) <= NVMF_NQN_MAX && !strchr(name, ' ');
}

int rdinit_tls_key_identity(const char *text, const char *hostnqn, const char *subnqn,
			    unsigned int version, bool compat, char *identity)
{
	struct nvmf_tls_form form = {(uint8_t)version, 'R', compat};
	struct nvmf_auth_key key;
	struct nvmf_tls_psk psk;
	int rc;

	if (!is_identity_name(hostnqn) || !is_identity_name(subnqn) || version > 1)
		return rdi_fail(__func__, -EINVAL,
				"hostnqn \"%.230s\", subnqn \"%.230s\", version %u: expected names "
				"of 1 to 223 bytes without blanks, and 0 or 1",
				hostnqn ? hostnqn : "", subnqn ? subnqn : "", version);
	rc = key_parse(__func__, NVMF_KEY_TLS, text, &key);
	if (rc)
		return rc;
	rc = nvmf_tls_psk_make(&key, &form, hostnqn, subnqn, &psk);
	nvmf_auth_key_wipe(&key);
	if (rc == -EIO)
		return rdi_fail(__func__, rc, "libcrypto failed");
	if (rc)
		return rdi_fail(__func__, -EINVAL,
				"hostnqn has %zu bytes and subnqn %zu: version 0 has room for %d "
				"together; use version 1",
				strlen(hostnqn), strlen(subnqn), UINT8_MAX - 10);
	memcpy(identity, psk.identity, sizeof(psk.identity));
	explicit_bzero(&psk, sizeof(psk));
	return 0;
}
