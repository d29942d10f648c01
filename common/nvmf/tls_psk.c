/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/tls_psk.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "nvmf/auth_calc.h"

#define PREFIX_LEN 9 /* "NVMe1R01 " */

/* RFC 8446, 7.1: HkdfLabel, of which the length bytes are left out by the old derivation. */
struct hkdf_label {
	uint8_t bytes[2 + 1 + 6 + 12 + 1 + NVMF_TLS_IDENTITY_MAX + 1];
	size_t len;
};

static void label_add(struct hkdf_label *l, bool counted, const char *prefix, const char *text)
{
	size_t a = strlen(prefix), b = strlen(text);

	if (counted)
		l->bytes[l->len++] = (uint8_t)(a + b);
	memcpy(l->bytes + l->len, prefix, a);
	memcpy(l->bytes + l->len + a, text, b);
	l->len += a + b;
}

/*
 * HKDF-Expand-Label(HKDF-Extract(0, @in), @label, @context, length of the hash). One block of
 * HKDF-Expand is as long as the hash, so no second one is needed.
 */
static int derive(unsigned int hash, bool compat, const uint8_t *in, size_t in_len,
		  const char *label, const char *context, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	static const uint8_t zeros[NVMF_AUTH_HASH_MAX];
	size_t hl = nvmf_auth_hash_len(hash);
	struct hkdf_label l = {.len = 2};
	uint8_t prk[NVMF_AUTH_HASH_MAX];
	int rc;

	if (!compat && strlen(context) > UINT8_MAX)
		return -ENAMETOOLONG;
	l.bytes[compat ? 0 : 1] = (uint8_t)hl;
	label_add(&l, !compat, "tls13 ", label);
	label_add(&l, !compat, "", context);
	l.bytes[l.len++] = 1; /* the number of HKDF-Expand's block */
	rc = nvmf_auth_hmac(hash, zeros, hl, in, in_len, prk);
	if (!rc)
		rc = nvmf_auth_hmac(hash, prk, hl, l.bytes, l.len, out);
	OPENSSL_cleanse(prk, sizeof(prk));
	return rc;
}

/* The digest at the end of an identity of version 1. */
static int psk_digest(unsigned int hash, const uint8_t *retained, const char *hostnqn,
		      const char *subnqn, char text[64 + 1])
{
	char names[NVMF_NQN_MAX + NVMF_NQN_MAX + 20];
	size_t hl = nvmf_auth_hash_len(hash);
	uint8_t digest[NVMF_AUTH_HASH_MAX];
	int n, rc;

	n = snprintf(names, sizeof(names), "%s %s NVMe-over-Fabrics", hostnqn, subnqn);
	rc = nvmf_auth_hmac(hash, retained, hl, names, (size_t)n, digest);
	if (!rc)
		EVP_EncodeBlock((unsigned char *)text, digest, (int)hl);
	return rc;
}

static int make_from_retained(const uint8_t *retained, const struct nvmf_tls_form *form,
			      const char *hostnqn, const char *subnqn, struct nvmf_tls_psk *out)
{
	char digest[64 + 1] = "", context[3 + 64 + 1];
	uint8_t psk[NVMF_AUTH_HASH_MAX];
	int rc = 0;

	if (form->version)
		rc = psk_digest(out->hash, retained, hostnqn, subnqn, digest);
	if (rc)
		return rc;
	snprintf(out->identity, sizeof(out->identity), "NVMe%u%c%02u %s %s%s%s",
		 (unsigned int)form->version, form->type, (unsigned int)out->hash, hostnqn, subnqn,
		 digest[0] ? " " : "", digest);
	snprintf(context, sizeof(context), "%02u %s", (unsigned int)out->hash, digest);
	rc = derive(out->hash, form->compat, retained, out->len, "nvme-tls-psk",
		    form->version ? context : out->identity, psk);
	if (!rc)
		memcpy(out->psk, psk, out->len);
	OPENSSL_cleanse(psk, sizeof(psk));
	return rc;
}

int nvmf_tls_psk_make(const struct nvmf_auth_key *key, const struct nvmf_tls_form *form,
		      const char *hostnqn, const char *subnqn, struct nvmf_tls_psk *out)
{
	uint8_t retained[NVMF_AUTH_HASH_MAX];
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (key->kind != NVMF_KEY_TLS || form->version > 1 ||
	    (form->type != 'R' && form->type != 'G') || strlen(hostnqn) > NVMF_NQN_MAX ||
	    strlen(subnqn) > NVMF_NQN_MAX)
		return -EINVAL;
	out->hash = key->len == 32 ? NVMF_AUTH_SHA256 : NVMF_AUTH_SHA384;
	out->len = key->len;
	if (nvmf_auth_hash_len(out->hash) != key->len || (key->hash && key->hash != out->hash))
		return -EINVAL;
	memcpy(retained, key->secret, key->len);
	if (key->hash)
		rc = derive(out->hash, form->compat, key->secret, key->len, "HostNQN", hostnqn,
			    retained);
	if (!rc)
		rc = make_from_retained(retained, form, hostnqn, subnqn, out);
	OPENSSL_cleanse(retained, sizeof(retained));
	if (rc)
		OPENSSL_cleanse(out, sizeof(*out));
	return rc;
}

/* Copies what precedes the next blank, or the end. Returns what follows, or NULL. */
static const char *take_name(const char *at, const char *end, char *out, size_t size)
{
	const char *stop = memchr(at, ' ', (size_t)(end - at));
	size_t len = (size_t)((stop ? stop : end) - at);

	if (!len || len >= size || memchr(at, '\0', len))
		return NULL;
	memcpy(out, at, len);
	out[len] = '\0';
	return stop ? stop + 1 : end;
}

const char *nvmf_tls_identity_parse(const char *text, size_t len, struct nvmf_tls_identity *out)
{
	const char *end = text + len, *at = text + PREFIX_LEN;

	memset(out, 0, sizeof(*out));
	if (len <= PREFIX_LEN || memcmp(text, "NVMe", 4) != 0 || text[6] != '0' || text[8] != ' ')
		return "does not begin like NVMe1R01 or NVMe0R02";
	if (text[4] != '0' && text[4] != '1')
		return "has an unknown version (expected NVMe0 or NVMe1)";
	if (text[5] != 'R' && text[5] != 'G')
		return "has an unknown type of key (expected R or G after the version)";
	if (text[7] != '1' && text[7] != '2')
		return "has an unknown hash (expected 01, SHA-256, or 02, SHA-384)";
	out->version = (uint8_t)(text[4] - '0');
	out->type = text[5];
	out->hash = (uint8_t)(text[7] - '0');
	at = take_name(at, end, out->hostnqn, sizeof(out->hostnqn));
	if (!at || at == end)
		return "has no host NQN and subsystem NQN, with a space between them";
	at = take_name(at, end, out->subnqn, sizeof(out->subnqn));
	if (!at)
		return "has no subsystem NQN of 1 to 223 bytes";
	if ((at == end) == (out->version == 1))
		return out->version ? "has no digest after the subsystem NQN"
				    : "has more than two names";
	return NULL;
}
