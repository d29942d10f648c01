/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Secrets of DH-HMAC-CHAP and pre-shared keys of TLS, and their text forms "DHHC-1:hh:BASE64:"
 * (NVMe Base 2.0, 8.13.5.8) and "NVMeTLSkey-1:hh:BASE64:" (NVMe/TCP 1.0, 3.6.1.5): base64 of the
 * secret and its CRC-32. Every function may be called from any thread. The owner of a
 * key wipes it with nvmf_auth_key_wipe(); the functions wipe their own copies.
 */
#ifndef RD_NVMF_AUTH_KEY_H
#define RD_NVMF_AUTH_KEY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "nvmf/auth_ids.h"

#define NVMF_AUTH_KEY_PREFIX "DHHC-1:" /* of the text of each secret */
#define NVMF_TLS_KEY_PREFIX  "NVMeTLSkey-1:"
#define NVMF_AUTH_SECRET_MAX 64
/* Bytes of the longest text of a secret, with the NUL. */
#define NVMF_AUTH_KEY_TEXT 104

/* Where @text contains a key, which is in the wrong place there; or NULL. */
static inline const char *nvmf_key_in(const char *text)
{
	const char *at = strstr(text, NVMF_AUTH_KEY_PREFIX);

	return at ? at : strstr(text, NVMF_TLS_KEY_PREFIX);
}

enum nvmf_key_kind {
	NVMF_KEY_DHCHAP, /* hash 0 to 3; 32, 48 or 64 bytes */
	NVMF_KEY_TLS,    /* hash 0 with 32 or 48 bytes, 1 with 32, 2 with 48 */
};

struct nvmf_auth_key {
	uint8_t kind; /* enum nvmf_key_kind */
	uint8_t hash; /* enum nvmf_auth_hash for the transformation; 0: there is none */
	uint8_t len;  /* bytes of the secret, by the kind */
	uint8_t secret[NVMF_AUTH_SECRET_MAX];
};

/*
 * Reads a secret. Returns NULL, or a static text that says what is wrong, to follow the name of the
 * key ("the key does not end with a colon"); it contains no part of the key, and @key is zeroed.
 */
const char *nvmf_key_parse(enum nvmf_key_kind kind, const char *text, struct nvmf_auth_key *key);

static inline const char *nvmf_auth_key_parse(const char *text, struct nvmf_auth_key *key)
{
	return nvmf_key_parse(NVMF_KEY_DHCHAP, text, key);
}

/* Writes the text of @key. Returns 0; -EINVAL: @key has an unknown hash or length. */
int nvmf_auth_key_format(const struct nvmf_auth_key *key, char text[NVMF_AUTH_KEY_TEXT]);

/*
 * Makes a random secret of @len bytes. Returns 0; -EINVAL: @hash or @len is not possible; -EIO:
 * there are no random numbers.
 */
int nvmf_key_generate(enum nvmf_key_kind kind, unsigned int hash, size_t len,
		      struct nvmf_auth_key *key);

/*
 * The key of the computations: @key itself if it has no hash, else its HMAC over @nqn and a
 * constant. @nqn: the host NQN for the key of a host, the subsystem NQN for that of a controller.
 * Returns the length; -EINVAL: @key has an unknown hash or length; -EIO: libcrypto failed.
 */
int nvmf_auth_key_transform(const struct nvmf_auth_key *key, const char *nqn,
			    uint8_t out[NVMF_AUTH_HASH_MAX]);

void nvmf_auth_key_wipe(struct nvmf_auth_key *key);

#endif /* RD_NVMF_AUTH_KEY_H */
