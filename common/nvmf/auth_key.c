/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/auth_key.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>

#include "nvmf/auth_calc.h"
#include "nvmf/wire.h"

#define CRC_LEN 4
#define ENCODED 92 /* base64 characters of the longest secret and its CRC */
#define DECODED 69 /* bytes that EVP_DecodeBlock() writes for them, padding included */

/* What the two kinds of keys do not have in common. */
struct key_form {
	const char *prefix;
	uint8_t max_hash;
	uint8_t max_len;
	const char *wrong_prefix;
	const char *wrong_hash;
	const char *wrong_len;
};

static const struct key_form key_forms[] = {
	[NVMF_KEY_DHCHAP] = {NVMF_AUTH_KEY_PREFIX, NVMF_AUTH_SHA512, 64,
			     "does not start with \"DHHC-1:\"",
			     "has no hash identifier (00, 01, 02 or 03, and a colon) after "
			     "\"DHHC-1:\"",
			     "does not contain a secret of 32, 48 or 64 bytes and its checksum"},
	[NVMF_KEY_TLS] =
		{NVMF_TLS_KEY_PREFIX, NVMF_AUTH_SHA384, 48, "does not start with \"NVMeTLSkey-1:\"",
		 "has no hash identifier (00, 01 or 02, and a colon) after "
		 "\"NVMeTLSkey-1:\"",
		 "does not contain a key of 32 bytes (with hash 01), of 48 (with hash 02), "
		 "or of one of both (with hash 00), and its checksum"},
};

_Static_assert(NVMF_AUTH_KEY_TEXT >= sizeof(NVMF_AUTH_KEY_PREFIX) + 3 + ENCODED + 1,
	       "longest text of a secret");
_Static_assert(NVMF_AUTH_KEY_TEXT >= sizeof(NVMF_TLS_KEY_PREFIX) + 3 + 72 + 1,
	       "longest text of a TLS key");

/* Peers take a TLS key with a hash only if it is as long as the hash. */
static bool key_possible(enum nvmf_key_kind kind, unsigned int hash, size_t len)
{
	const struct key_form *form = &key_forms[kind];

	if (kind == NVMF_KEY_TLS && hash && len != nvmf_auth_hash_len(hash))
		return false;
	return (len == 32 || len == 48 || len == 64) && len <= form->max_len &&
	       hash <= form->max_hash;
}

static uint32_t secret_crc(const uint8_t *secret, size_t len)
{
	return crc32_gzip_refl(0, secret, len);
}

/*
 * Strict, unlike EVP_DecodeBlock(), which skips white space and takes any bits behind the last
 * byte: the text must be equal to the encoding of its bytes. Returns the number of bytes, or
 * -EINVAL.
 */
static int decode_base64(const char *text, size_t len, uint8_t out[DECODED])
{
	unsigned char again[ENCODED + 1];
	int n, pad = 0;

	if (len == 0 || len % 4 || len > ENCODED)
		return -EINVAL;
	while (pad < 2 && text[len - 1 - (size_t)pad] == '=')
		pad++;
	n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
	if (n < 0)
		return -EINVAL;
	n -= pad;
	EVP_EncodeBlock(again, out, n);
	if (CRYPTO_memcmp(again, text, len) != 0)
		n = -EINVAL;
	OPENSSL_cleanse(again, sizeof(again));
	return n;
}

/* @text: the @len bytes between the second colon and the third. */
static const char *parse_secret(const char *text, size_t len, struct nvmf_auth_key *key)
{
	uint8_t bytes[DECODED];
	const char *error = NULL;
	int n = decode_base64(text, len, bytes);
	__le32 crc;

	if (n < 0)
		error = len > ENCODED ? "is longer than a secret of 64 bytes"
				      : "is not valid base64 between the second and the last colon";
	else if (n < CRC_LEN || !key_possible(key->kind, key->hash, (size_t)n - CRC_LEN))
		error = key_forms[key->kind].wrong_len;
	if (!error) {
		key->len = (uint8_t)(n - CRC_LEN);
		memcpy(key->secret, bytes, key->len);
		memcpy(&crc, bytes + key->len, CRC_LEN);
		if (le32toh(crc) != secret_crc(key->secret, key->len))
			error = "has a wrong checksum: a character was changed or left out when it "
				"was copied";
	}
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return error;
}

const char *nvmf_key_parse(enum nvmf_key_kind kind, const char *text, struct nvmf_auth_key *key)
{
	const struct key_form *form = &key_forms[kind];
	const char *error, *end;

	memset(key, 0, sizeof(*key));
	key->kind = (uint8_t)kind;
	if (!text[0])
		return "is empty";
	if (strncmp(text, form->prefix, strlen(form->prefix)) != 0)
		return form->wrong_prefix;
	text += strlen(form->prefix);
	if (text[0] != '0' || text[1] < '0' || text[1] > '0' + form->max_hash || text[2] != ':')
		return form->wrong_hash;
	key->hash = (uint8_t)(text[1] - '0');
	text += 3;
	end = strchr(text, ':');
	if (!end)
		error = "does not end with a colon";
	else if (end[1])
		error = "has characters after the colon at its end";
	else
		error = parse_secret(text, (size_t)(end - text), key);
	if (error)
		nvmf_auth_key_wipe(key);
	return error;
}

int nvmf_auth_key_format(const struct nvmf_auth_key *key, char text[NVMF_AUTH_KEY_TEXT])
{
	uint8_t bytes[NVMF_AUTH_SECRET_MAX + CRC_LEN];
	__le32 crc;

	if (!key_possible(key->kind, key->hash, key->len))
		return -EINVAL;
	crc = htole32(secret_crc(key->secret, key->len));
	memcpy(bytes, key->secret, key->len);
	memcpy(bytes + key->len, &crc, CRC_LEN);
	text += snprintf(text, NVMF_AUTH_KEY_TEXT, "%s%02u:", key_forms[key->kind].prefix,
			 (unsigned int)key->hash);
	text += EVP_EncodeBlock((unsigned char *)text, bytes, key->len + CRC_LEN);
	memcpy(text, ":", 2);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return 0;
}

int nvmf_key_generate(enum nvmf_key_kind kind, unsigned int hash, size_t len,
		      struct nvmf_auth_key *key)
{
	memset(key, 0, sizeof(*key));
	key->kind = (uint8_t)kind;
	if (!key_possible(kind, hash, len))
		return -EINVAL;
	if (RAND_priv_bytes(key->secret, (int)len) != 1)
		return -EIO;
	key->hash = (uint8_t)hash;
	key->len = (uint8_t)len;
	return 0;
}

int nvmf_auth_key_transform(const struct nvmf_auth_key *key, const char *nqn,
			    uint8_t out[NVMF_AUTH_HASH_MAX])
{
	static const char suffix[] = "NVMe-over-Fabrics";
	char text[NVMF_NQN_MAX + sizeof(suffix)];
	int n, rc;

	if (!key_possible(key->kind, key->hash, key->len) || strlen(nqn) > NVMF_NQN_MAX)
		return -EINVAL;
	if (!key->hash) {
		memcpy(out, key->secret, key->len);
		return key->len;
	}
	n = snprintf(text, sizeof(text), "%s%s", nqn, suffix);
	rc = nvmf_auth_hmac(key->hash, key->secret, key->len, text, (size_t)n, out);
	return rc ? rc : (int)nvmf_auth_hash_len(key->hash);
}

void nvmf_auth_key_wipe(struct nvmf_auth_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}
