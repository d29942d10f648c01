/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP compared with vectors of an independent implementation in Python, which
 * authenticated as a host against Linux 6.12 and checked its controller's responses; and messages
 * captured between the Linux host and target.
 */
#include <errno.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <string.h>

#include "nvmf/auth_calc.h"
#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "suites.h"

#define HOSTNQN        "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
#define SUBNQN         "nqn.2024-01.io.rdnvme:vec"
#define T_ID           0x1234
#define S1             0x01020304
#define S2             0x0a0b0c0d

#define HOST_KEY       "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define HOST_KEY_PLAIN "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define CTRL_KEY       "DHHC-1:01:gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp9vmVbU:"

#define R1_SHA256      "7d1646cd2c702c4d8a760e12aa9a13a0f99ae29f2702a942e5d8e8b81ec16cc2"
#define R2_SHA256      "8276ca07d295816a304ad7df4b68b55c83dbc71b00573f168126297298fb040d"
#define C1_SHA256      "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f"
#define C2_SHA256      "d0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeef"
#define ZERO_8         "0000000000000000"
#define ZERO_24        ZERO_8 ZERO_8 ZERO_8
#define NEGOTIATE                 \
	"0000000034120001"        \
	"01000306"                \
	"010203" ZERO_24 "000000" \
	"000102030405" ZERO_24

/* Convert @hex, at most @room bytes, into @out. Returns the number of bytes. */
static size_t unhex(const char *hex, uint8_t *out, size_t room)
{
	size_t n = 0;
	unsigned int byte;

	for (; n < room && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
		out[n] = (uint8_t)byte;
	return n;
}

static bool equals_hex(const uint8_t *bytes, size_t len, const char *hex)
{
	uint8_t want[NVMF_AUTH_MSG_MAX];

	return unhex(hex, want, sizeof(want)) == len && memcmp(bytes, want, len) == 0;
}

static void count_up(uint8_t *out, uint8_t first)
{
	for (unsigned int i = 0; i < NVMF_AUTH_HASH_MAX; i++)
		out[i] = (uint8_t)(first + i);
}

/* The key made from @text and @nqn. Returns its length. */
static size_t key_of(const char *text, const char *nqn, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	struct nvmf_auth_key key;
	int n;

	CU_ASSERT_PTR_NULL_FATAL(nvmf_auth_key_parse(text, &key));
	n = nvmf_auth_key_transform(&key, nqn, out);
	CU_ASSERT_FATAL(n > 0);
	return (size_t)n;
}

static void transforms_keys(void)
{
	static const struct {
		const char *text, *nqn, *key;
	} vectors[] = {
		{HOST_KEY, HOSTNQN,
		 "8d688ad0d792c1e423185108f5ce1b8c757bf763711bf2901b59807c24008919"},
		{HOST_KEY_PLAIN, HOSTNQN,
		 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"},
		{"DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ="
		 "=:",
		 HOSTNQN,
		 "22a649ece7ea39c6c7d007fe6e6e105ab875f8b10457f169ef28e06542b017af3e55c3d1e94b3e651"
		 "c7"
		 "34a215384daf2"},
		{"DHHC-1:03:"
		 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1"
		 "Njc4OTo7PD0+P4zODhA=:",
		 HOSTNQN,
		 "759495bb5614f9450a84e46958faae7198071d01b5ca8f85cb732f9a862ad2b92b6836eb412b31751"
		 "9"
		 "177af0d8cddd774275a040ce7c0f762104297719c0277d"},
		{CTRL_KEY, SUBNQN,
		 "b440721b15b065766693d23148ee49e2c4576b5094d3208e3d246b5d68ee5266"},
	};
	uint8_t out[NVMF_AUTH_HASH_MAX];

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		size_t n = key_of(vectors[i].text, vectors[i].nqn, out);

		CU_ASSERT_TRUE(equals_hex(out, n, vectors[i].key));
	}
}

static void keys_survive_their_text(void)
{
	static const uint8_t lens[] = {32, 48, 64};
	struct nvmf_auth_key key, again;
	char text[NVMF_AUTH_KEY_TEXT];

	for (unsigned int i = 0; i < 12; i++) {
		CU_ASSERT_EQUAL(nvmf_key_generate(NVMF_KEY_DHCHAP, i / 3, lens[i % 3], &key), 0);
		CU_ASSERT_EQUAL(nvmf_auth_key_format(&key, text), 0);
		CU_ASSERT_PTR_NULL(nvmf_auth_key_parse(text, &again));
		CU_ASSERT_EQUAL(memcmp(&key, &again, sizeof(key)), 0);
		CU_ASSERT_EQUAL(nvmf_key_generate(NVMF_KEY_DHCHAP, i / 3, lens[i % 3], &again), 0);
		CU_ASSERT_NOT_EQUAL(memcmp(&key, &again, sizeof(key)), 0);
	}
	CU_ASSERT_EQUAL(nvmf_key_generate(NVMF_KEY_DHCHAP, 4, 32, &key), -EINVAL);
	CU_ASSERT_EQUAL(nvmf_key_generate(NVMF_KEY_DHCHAP, 1, 33, &key), -EINVAL);
	CU_ASSERT_EQUAL(nvmf_auth_key_format(&key, text), -EINVAL);
}

static void says_what_is_wrong_with_a_key(void)
{
	static const char base64[] = "is not valid base64 between the second and the last colon";
	static const char length[] =
		"does not contain a secret of 32, 48 or 64 bytes and its checksum";
	static const char hash[] =
		"has no hash identifier (00, 01, 02 or 03, and a colon) after \"DHHC-1:\"";
	static const char *const bad[][2] = {
		{"", "is empty"},
		{"NVMeTLSkey-1:01:AAAA:", "does not start with \"DHHC-1:\""},
		{"DHHC-1:", hash},
		{"DHHC-1:04:AAAA:", hash},
		{"DHHC-1:1:AAAA:", hash},
		{"DHHC-1:01", hash},
		{"DHHC-1:01:AAAA", "does not end with a colon"},
		{HOST_KEY "\n", "has characters after the colon at its end"},
		{HOST_KEY ":", "has characters after the colon at its end"},
		{"DHHC-1:01::", base64},
		{"DHHC-1:01:====:", base64},
		{"DHHC-1:01:AAA*:", base64},
		{"DHHC-1:01: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", base64},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR   :", base64},
		{"DHHC-1:01:AAA=:", length},
		/* the bits behind the last byte are not zero */
		{"DHHC-1:01:AAB=:", base64},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaRAAAA:", length},
		{"DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:",
		 "has a wrong checksum: a character was changed or left out when it was copied"},
		{"DHHC-1:01:"
		 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1"
		 "Njc4OTo7PD0+P4zODhAAAAAA:",
		 "is longer than a secret of 64 bytes"},
	};
	static const struct nvmf_auth_key zero;
	struct nvmf_auth_key key;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *error = nvmf_auth_key_parse(bad[i][0], &key);

		CU_ASSERT_PTR_NOT_NULL_FATAL(error);
		CU_ASSERT_STRING_EQUAL(error, bad[i][1]);
		CU_ASSERT_EQUAL(memcmp(&key, &zero, sizeof(key)), 0);
	}
}

/* Both sides of a transaction without Diffie-Hellman, for each hash. */
static void responds(void)
{
	static const struct {
		uint8_t hash;
		const char *key, *r1, *r2;
	} vectors[] = {
		{NVMF_AUTH_SHA256, HOST_KEY, R1_SHA256, R2_SHA256},
		{NVMF_AUTH_SHA256, HOST_KEY_PLAIN,
		 "64882e8eb9434527bc850d0844aa0d7ee03333043234b7e8091c7726620d6ea1", R2_SHA256},
		{NVMF_AUTH_SHA384, HOST_KEY,
		 "5d4f780eb0cf6fc819a5079783c207023dc2e9efdf350198cd2fe27ac7d14f6651af635d957b2d261"
		 "e1"
		 "3a7d3ca61cd21",
		 "dec81a2d9b540da90a2d9a60c983b559a97c0679c37b90cd07c56c623f7750c8699a4ac71e1ddf816"
		 "8"
		 "0148eb093b7f6e"},
		{NVMF_AUTH_SHA512, HOST_KEY,
		 "e691dac8d0820ef3619a07f80e672a8740ccbae620a5f83d106b50818fc6ba080242bb64c23c678b4"
		 "82"
		 "c0670093426dd6b03cbe03ae48027ba0fda908a189897",
		 "532961a647c0c8ee250061fee924d0cf9da40b7048b1a758255ca1114550c1c4c931dfe8629d3e0da"
		 "81"
		 "e95c80023db8340b7ebbfaf2a0e86562fc38eccfd2400"},
	};
	uint8_t key[NVMF_AUTH_HASH_MAX], challenge[NVMF_AUTH_HASH_MAX], out[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_proof p = {.t_id = T_ID,
				    .key = key,
				    .challenge = challenge,
				    .hostnqn = HOSTNQN,
				    .subnqn = SUBNQN};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		p.hash = vectors[i].hash;
		p.key_len = key_of(vectors[i].key, HOSTNQN, key);
		p.seqnum = S1;
		count_up(challenge, 0x10);
		CU_ASSERT_EQUAL(nvmf_auth_host_response(&p, out), 0);
		CU_ASSERT_TRUE(equals_hex(out, nvmf_auth_hash_len(p.hash), vectors[i].r1));
		p.key_len = key_of(CTRL_KEY, SUBNQN, key);
		p.seqnum = S2;
		count_up(challenge, 0xd0);
		CU_ASSERT_EQUAL(nvmf_auth_ctrl_response(&p, out), 0);
		CU_ASSERT_TRUE(equals_hex(out, nvmf_auth_hash_len(p.hash), vectors[i].r2));
	}
	p.hash = 4;
	CU_ASSERT_EQUAL(nvmf_auth_host_response(&p, out), -EINVAL);
}

/* ---- Diffie-Hellman ---- */

/* The key pair of @group with the private value @x, and g to the power of x. */
static EVP_PKEY *pair_of(unsigned int group, const BIGNUM *x)
{
	OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	BIGNUM *p = NULL, *g = BN_new(), *y = BN_new();
	BN_CTX *bn = BN_CTX_new();
	EVP_PKEY *any, *key = NULL;
	OSSL_PARAM *params;

	CU_ASSERT_EQUAL_FATAL(nvmf_auth_dh_create(group, &any), 0);
	CU_ASSERT_FATAL(EVP_PKEY_get_bn_param(any, OSSL_PKEY_PARAM_FFC_P, &p) == 1);
	BN_set_word(g, 2);
	CU_ASSERT_FATAL(BN_mod_exp(y, g, x, p, bn) == 1);
	OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME,
					nvmf_auth_group_text(group), 0);
	OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PRIV_KEY, x);
	OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PUB_KEY, y);
	params = OSSL_PARAM_BLD_to_param(bld);
	CU_ASSERT_FATAL(EVP_PKEY_fromdata_init(ctx) == 1 &&
			EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) == 1);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(bld);
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(any);
	BN_CTX_free(bn);
	BN_free(p);
	BN_free(g);
	BN_free(y);
	return key;
}

/* The private value of the vectors: the SHA-256 of @text as a big-endian number. */
static BIGNUM *private_of(const char *text)
{
	uint8_t digest[32];

	EVP_Q_digest(NULL, "SHA256", NULL, text, strlen(text), digest, NULL);
	return BN_bin2bn(digest, sizeof(digest), NULL);
}

static void session_of(EVP_PKEY *own, EVP_PKEY *peer, uint8_t out[NVMF_AUTH_HASH_MAX])
{
	uint8_t value[256];

	CU_ASSERT_EQUAL(nvmf_auth_dh_public(peer, NVMF_AUTH_FFDHE2048, value), 0);
	CU_ASSERT_EQUAL(nvmf_auth_dh_session(own, NVMF_AUTH_FFDHE2048, NVMF_AUTH_SHA256, value,
					     sizeof(value), out),
			0);
}

static void responds_after_an_exchange(void)
{
	uint8_t key[NVMF_AUTH_HASH_MAX], challenge[NVMF_AUTH_HASH_MAX], out[NVMF_AUTH_HASH_MAX];
	uint8_t session[NVMF_AUTH_HASH_MAX], value[256], digest[32];
	BIGNUM *x = private_of("ctrl"), *y = private_of("host");
	EVP_PKEY *ctrl = pair_of(NVMF_AUTH_FFDHE2048, x), *host = pair_of(NVMF_AUTH_FFDHE2048, y);
	struct nvmf_auth_proof p = {.hash = NVMF_AUTH_SHA256,
				    .t_id = T_ID,
				    .seqnum = S1,
				    .key = key,
				    .challenge = challenge,
				    .session = session,
				    .hostnqn = HOSTNQN,
				    .subnqn = SUBNQN};

	CU_ASSERT_EQUAL(nvmf_auth_dh_public(ctrl, NVMF_AUTH_FFDHE2048, value), 0);
	EVP_Q_digest(NULL, "SHA256", NULL, value, sizeof(value), digest, NULL);
	CU_ASSERT_TRUE(equals_hex(
		digest, 32, "3a24601b87bb2cc7a6cf2a986de71f65035af15cab21e1b7befec6a2ea8545de"));
	session_of(host, ctrl, session);
	CU_ASSERT_TRUE(equals_hex(
		session, 32, "232360000041a389231d7df9aa1077b2ace618496d4ae403eebdac1afcc9017e"));
	p.key_len = key_of(HOST_KEY, HOSTNQN, key);
	count_up(challenge, 0x10);
	CU_ASSERT_EQUAL(nvmf_auth_host_response(&p, out), 0);
	CU_ASSERT_TRUE(equals_hex(
		out, 32, "7763ff1ed4b51dce11d53ca1b1664fb52499dc65083f687ff167f7ad4d12a491"));
	session_of(ctrl, host, session);
	p.key_len = key_of(CTRL_KEY, SUBNQN, key);
	p.seqnum = S2;
	count_up(challenge, 0xd0);
	CU_ASSERT_EQUAL(nvmf_auth_ctrl_response(&p, out), 0);
	CU_ASSERT_TRUE(equals_hex(
		out, 32, "687d072e37c96edf453f15f58b46a410d9b1fb11a9d166afb1fb414d69b0db6f"));
	EVP_PKEY_free(ctrl);
	EVP_PKEY_free(host);
	BN_free(x);
	BN_free(y);
}

/* Without the padding, one exchange of 256 results in another hash than the peer's. */
static void keeps_leading_zeros_of_the_secret(void)
{
	uint8_t key[NVMF_AUTH_HASH_MAX], challenge[NVMF_AUTH_HASH_MAX], out[NVMF_AUTH_HASH_MAX];
	uint8_t session[NVMF_AUTH_HASH_MAX], other[NVMF_AUTH_HASH_MAX];
	BIGNUM *x = private_of("ctrl"), *y = BN_new();
	struct nvmf_auth_proof p = {.hash = NVMF_AUTH_SHA256,
				    .t_id = T_ID,
				    .seqnum = S1,
				    .key = key,
				    .challenge = challenge,
				    .session = session,
				    .hostnqn = HOSTNQN,
				    .subnqn = SUBNQN};
	EVP_PKEY *ctrl, *host;

	BN_set_word(y, 230);
	ctrl = pair_of(NVMF_AUTH_FFDHE2048, x);
	host = pair_of(NVMF_AUTH_FFDHE2048, y);
	session_of(host, ctrl, session);
	session_of(ctrl, host, other);
	CU_ASSERT_EQUAL(memcmp(session, other, 32), 0);
	p.key_len = key_of(HOST_KEY, HOSTNQN, key);
	count_up(challenge, 0x10);
	CU_ASSERT_EQUAL(nvmf_auth_host_response(&p, out), 0);
	CU_ASSERT_TRUE(equals_hex(
		out, 32, "fa6333cfb3f2848d8c980d1e6d390a5e5c6e74d66e0989c36c624a0825abfe34"));
	EVP_PKEY_free(ctrl);
	EVP_PKEY_free(host);
	BN_free(x);
	BN_free(y);
}

/* Computations for the groups that are fast also under valgrind, with each hash; for the others,
 * the prime. */
static void both_sides_get_the_same_session_key(void)
{
	uint8_t value[NVMF_AUTH_DHV_MAX], one[NVMF_AUTH_HASH_MAX], two[NVMF_AUTH_HASH_MAX];
	EVP_PKEY *host, *ctrl;

	for (unsigned int group = NVMF_AUTH_FFDHE2048; group <= NVMF_AUTH_FFDHE8192; group++) {
		unsigned int hash = 1 + group % 3;
		size_t len = (size_t)nvmf_auth_group_len(group);

		CU_ASSERT_EQUAL_FATAL(nvmf_auth_dh_create(group, &host), 0);
		CU_ASSERT_EQUAL_FATAL(nvmf_auth_dh_create(group, &ctrl), 0);
		CU_ASSERT_EQUAL(nvmf_auth_dh_public(ctrl, group, value), 0);
		CU_ASSERT_EQUAL(nvmf_auth_dh_session(host, group, hash, value, len, one), 0);
		CU_ASSERT_EQUAL(nvmf_auth_dh_public(host, group, value), 0);
		CU_ASSERT_EQUAL(nvmf_auth_dh_session(ctrl, group, hash, value, len, two), 0);
		CU_ASSERT_EQUAL(memcmp(one, two, nvmf_auth_hash_len(hash)), 0);
		EVP_PKEY_free(host);
		EVP_PKEY_free(ctrl);
	}
}

/* SHA-256 of the primes, computed from the formula of RFC 7919. */
static void groups_are_those_of_rfc_7919(void)
{
	static const char *const digests[] = {
		[NVMF_AUTH_FFDHE2048] = "9cd3b7f336", [NVMF_AUTH_FFDHE3072] = "0eaf67db3a",
		[NVMF_AUTH_FFDHE4096] = "4648414224", [NVMF_AUTH_FFDHE6144] = "227ac9066b",
		[NVMF_AUTH_FFDHE8192] = "770b14efaf",
	};
	uint8_t value[NVMF_AUTH_DHV_MAX], digest[32];

	for (unsigned int group = NVMF_AUTH_FFDHE2048; group <= NVMF_AUTH_FFDHE8192; group++) {
		int len = nvmf_auth_group_len(group);
		BIGNUM *p = NULL;
		EVP_PKEY *key;

		CU_ASSERT_EQUAL_FATAL(nvmf_auth_dh_create(group, &key), 0);
		CU_ASSERT_EQUAL(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_FFC_P, &p), 1);
		CU_ASSERT_EQUAL(BN_bn2binpad(p, value, len), len);
		EVP_Q_digest(NULL, "SHA256", NULL, value, (size_t)len, digest, NULL);
		CU_ASSERT_TRUE(equals_hex(digest, 5, digests[group]));
		BN_free(p);
		EVP_PKEY_free(key);
	}
}

/* ---- messages ---- */

static const struct nvmf_auth_negotiate offer = {.t_id = T_ID,
						 .n_hashes = 3,
						 .n_groups = 6,
						 .hashes = {1, 2, 3},
						 .groups = {0, 1, 2, 3, 4, 5}};

static struct nvmf_auth_challenge challenge_sha256(void)
{
	struct nvmf_auth_challenge c = {.t_id = T_ID, .hash = NVMF_AUTH_SHA256, .seqnum = S1};

	unhex(C1_SHA256, c.cval, sizeof(c.cval));
	return c;
}

static struct nvmf_auth_reply reply_sha256(void)
{
	struct nvmf_auth_reply r = {
		.t_id = T_ID, .hash = NVMF_AUTH_SHA256, .cvalid = true, .seqnum = S2};

	unhex(R1_SHA256, r.rval, sizeof(r.rval));
	unhex(C2_SHA256, r.cval, sizeof(r.cval));
	return r;
}

static void builds_messages(void)
{
	struct nvmf_auth_challenge c = challenge_sha256();
	struct nvmf_auth_reply r = reply_sha256();
	struct nvmf_auth_success1 s = {.t_id = T_ID, .hash = NVMF_AUTH_SHA256, .rvalid = true};
	uint8_t buf[NVMF_AUTH_MSG_MAX];

	CU_ASSERT_TRUE(equals_hex(buf, nvmf_auth_build_negotiate(&offer, buf), NEGOTIATE));
	CU_ASSERT_TRUE(equals_hex(buf, nvmf_auth_build_challenge(&c, buf),
				  "01010000341220000100000004030201" C1_SHA256));
	CU_ASSERT_TRUE(equals_hex(buf, nvmf_auth_build_reply(&r, buf),
				  "0102000034122000010000000d0c0b0a" R1_SHA256 C2_SHA256));
	unhex(R2_SHA256, s.rval, sizeof(s.rval));
	CU_ASSERT_TRUE(equals_hex(buf, nvmf_auth_build_success1(&s, buf),
				  "01030000341220000100000000000000" R2_SHA256));
	s.rvalid = false;
	CU_ASSERT_TRUE(equals_hex(buf, nvmf_auth_build_success1(&s, buf),
				  "01030000341220000000000000000000"));
	CU_ASSERT_TRUE(equals_hex(buf, nvmf_auth_build_success2(T_ID, buf),
				  "01040000341200000000000000000000"));
	CU_ASSERT_TRUE(equals_hex(
		buf, nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE1, T_ID, NVMF_AUTH_FAILED, buf),
		"00f1000034120101"));
	CU_ASSERT_TRUE(equals_hex(buf,
				  nvmf_auth_build_failure(NVMF_AUTH_MSG_FAILURE2, T_ID,
							  NVMF_AUTH_INCORRECT_PAYLOAD, buf),
				  "00f0000034120106"));
}

/* Parses a copy of exactly the message's size, so that a sanitizer sees a read beyond it. */
#define PARSE(parser, hex, ...)                                 \
	({                                                      \
		uint8_t bytes_[NVMF_AUTH_TRANSFER], *copy_;     \
		size_t n_ = unhex(hex, bytes_, sizeof(bytes_)); \
		enum nvmf_auth_expl why_;                       \
		copy_ = malloc(n_ + 1);                         \
		CU_ASSERT_PTR_NOT_NULL_FATAL(copy_);            \
		memcpy(copy_ + 1, bytes_, n_);                  \
		why_ = parser(copy_ + 1, n_, __VA_ARGS__);      \
		free(copy_);                                    \
		why_;                                           \
	})

static void parses_what_a_host_sends(void)
{
	struct nvmf_auth_challenge sent = challenge_sha256();
	struct nvmf_auth_negotiate n;
	struct nvmf_auth_reply r;
	struct nvmf_auth_head h;

	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_negotiate, NEGOTIATE, &n), NVMF_AUTH_OK);
	CU_ASSERT_EQUAL(memcmp(&n, &offer, sizeof(n)), 0);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_head, NEGOTIATE, &h), NVMF_AUTH_OK);
	CU_ASSERT_TRUE(h.msg == NVMF_AUTH_MSG_NEGOTIATE && h.t_id == T_ID);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_reply,
			      "0102000034122000010000000d0c0b0a" R1_SHA256 C2_SHA256, &sent, &r),
			NVMF_AUTH_OK);
	CU_ASSERT_TRUE(r.cvalid && r.seqnum == S2 && r.dhv.len == 0);
	CU_ASSERT_TRUE(equals_hex(r.rval, 32, R1_SHA256) && equals_hex(r.cval, 32, C2_SHA256));
	/* the reply of the Linux host on an I/O queue */
	sent.t_id = 1;
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_reply,
			      "0102000001002000010000007583b0f5e047425c067ad7d2e9c6ce46f7f8f1cadf2a"
			      "e8acc47448"
			      "d02d9033dffc26fb3242e3f029f9702c7201a09e3d1143bccff842c8f1d87510315d"
			      "4bee27d087"
			      "4c78",
			      &sent, &r),
			NVMF_AUTH_OK);
	CU_ASSERT_EQUAL(r.seqnum, 0xf5b08375);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_success2, "01040000341200000000000000000000", T_ID),
			NVMF_AUTH_OK);
}

static void parses_what_a_controller_sends(void)
{
	struct nvmf_auth_reply sent = reply_sha256();
	struct nvmf_auth_negotiate linux_host = offer;
	struct nvmf_auth_challenge c;
	struct nvmf_auth_success1 s;
	struct nvmf_auth_failure f;

	/* from the Linux target, with the padding behind it */
	linux_host.t_id = 0;
	CU_ASSERT_EQUAL(
		PARSE(nvmf_auth_parse_challenge,
		      "0101000000002000010000007283b0f581f2bfd19743619481e80adfe83676738b4f1125"
		      "ed76d465a1b5a6eb1ebca256" ZERO_24,
		      &linux_host, &c),
		NVMF_AUTH_OK);
	CU_ASSERT_TRUE(c.hash == NVMF_AUTH_SHA256 && c.group == 0 && c.dhv.len == 0);
	CU_ASSERT_EQUAL(c.seqnum, 0xf5b08372);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_success1,
			      "01030000341220000100000000000000" R2_SHA256 ZERO_8, &sent, &s),
			NVMF_AUTH_OK);
	CU_ASSERT_TRUE(s.rvalid && equals_hex(s.rval, 32, R2_SHA256));
	sent.cvalid = false;
	CU_ASSERT_EQUAL(
		PARSE(nvmf_auth_parse_success1, "01030000341220000000000000000000", &sent, &s),
		NVMF_AUTH_OK);
	CU_ASSERT_FALSE(s.rvalid);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_failure, "00f1000034120104" ZERO_8,
			      NVMF_AUTH_MSG_FAILURE1, T_ID, &f),
			NVMF_AUTH_OK);
	CU_ASSERT_STRING_EQUAL(nvmf_auth_expl_text(f.explanation),
			       "the hash function is not usable");
}

static void refuses_wrong_negotiations(void)
{
	static const struct {
		const char *hex;
		enum nvmf_auth_expl why;
	} bad[] = {
		{"", NVMF_AUTH_INCORRECT_PAYLOAD},
		{"00000000341200", NVMF_AUTH_INCORRECT_PAYLOAD},
		{"0000000034120000", NVMF_AUTH_INCORRECT_PAYLOAD},
		{"0000000034120001", NVMF_AUTH_INCORRECT_PAYLOAD},
		{"00000000341200ff", NVMF_AUTH_INCORRECT_PAYLOAD},
		{NEGOTIATE "00", NVMF_AUTH_INCORRECT_PAYLOAD},
		{"01040000341200000000000000000000", NVMF_AUTH_INCORRECT_MESSAGE},
		{"0000000034120001"
		 "0100001f"
		 "010203" ZERO_24 "000000"
		 "000102030405" ZERO_24,
		 NVMF_AUTH_INCORRECT_PAYLOAD}, /* no hash */
		{"0000000034120001"
		 "01001f01"
		 "010203" ZERO_24 "000000"
		 "000102030405" ZERO_24,
		 NVMF_AUTH_INCORRECT_PAYLOAD}, /* 31 hashes */
		{"0000000034120001"
		 "0100011f"
		 "010203" ZERO_24 "000000"
		 "000102030405" ZERO_24,
		 NVMF_AUTH_INCORRECT_PAYLOAD}, /* 31 groups */
		{"0000000034120001"
		 "02000306"
		 "010203" ZERO_24 "000000"
		 "000102030405" ZERO_24,
		 NVMF_AUTH_PROTOCOL_NOT_USABLE},
	};
	struct nvmf_auth_negotiate n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_negotiate, bad[i].hex, &n), bad[i].why);
	/* the second of two descriptors */
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_negotiate,
			      "0000000034120002"
			      "02000101" ZERO_24 ZERO_24 ZERO_8 "00000000"
			      "01000101"
			      "03" ZERO_24 "0000000000"
			      "05" ZERO_24 "0000000000",
			      &n),
			NVMF_AUTH_OK);
	CU_ASSERT_TRUE(n.n_hashes == 1 && n.hashes[0] == 3 && n.n_groups == 1 && n.groups[0] == 5);
}

static void replies_without_a_challenge(void)
{
	struct nvmf_auth_challenge sent = challenge_sha256();
	struct nvmf_auth_reply r;

	/* Hosts without a challenge of their own send 0 or any sequence number. */
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_reply,
			      "01020000341220000000000000000000" R1_SHA256 C2_SHA256, &sent, &r),
			NVMF_AUTH_OK);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_reply,
			      "01020000341220000000000000000001" R1_SHA256 C2_SHA256, &sent, &r),
			NVMF_AUTH_OK);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_success2, "01040000331200000000000000000000", T_ID),
			NVMF_AUTH_INCORRECT_PAYLOAD);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_success2, "0104000034120000000000000000000000", T_ID),
			NVMF_AUTH_INCORRECT_PAYLOAD);
	CU_ASSERT_EQUAL(PARSE(nvmf_auth_parse_success2, "0104000034120000", T_ID),
			NVMF_AUTH_INCORRECT_PAYLOAD);
}

static void host_refuses_what_it_did_not_offer(void)
{
	static const struct nvmf_auth_negotiate sha512_2048 = {
		.t_id = T_ID, .n_hashes = 1, .n_groups = 1, .hashes = {3}, .groups = {1}};
	static const struct nvmf_auth_negotiate sha256_2048 = {
		.t_id = T_ID, .n_hashes = 1, .n_groups = 1, .hashes = {1}, .groups = {1}};
	struct nvmf_auth_challenge c;

#define CHALLENGE(hex, offered) PARSE(nvmf_auth_parse_challenge, hex, offered, &c)
	CU_ASSERT_EQUAL(CHALLENGE("01010000341220000100000004030201" C1_SHA256, &sha512_2048),
			NVMF_AUTH_HASH_NOT_USABLE);
	CU_ASSERT_EQUAL(CHALLENGE("01010000341220000100000004030201" C1_SHA256, &sha256_2048),
			NVMF_AUTH_GROUP_NOT_USABLE);
	CU_ASSERT_EQUAL(CHALLENGE("01010000341220000400000004030201" C1_SHA256, &offer),
			NVMF_AUTH_HASH_NOT_USABLE);
	CU_ASSERT_EQUAL(CHALLENGE("01010000341220000106000004030201" C1_SHA256, &offer),
			NVMF_AUTH_GROUP_NOT_USABLE);
	CU_ASSERT_EQUAL(CHALLENGE("01010000341220000100000000000000" C1_SHA256, &offer),
			NVMF_AUTH_INCORRECT_PAYLOAD); /* sequence number 0 */
	CU_ASSERT_EQUAL(CHALLENGE("01010000341230000100000004030201" C1_SHA256 C1_SHA256, &offer),
			NVMF_AUTH_INCORRECT_PAYLOAD); /* the length of another hash */
	CU_ASSERT_EQUAL(CHALLENGE("01010000341220000101000104030201" C1_SHA256 C1_SHA256, &offer),
			NVMF_AUTH_INCORRECT_PAYLOAD); /* the value is cut */
	CU_ASSERT_EQUAL(CHALLENGE("01010000351220000100000004030201" C1_SHA256, &offer),
			NVMF_AUTH_INCORRECT_PAYLOAD); /* another transaction */
	CU_ASSERT_EQUAL(CHALLENGE("00f1000034120101", &offer), NVMF_AUTH_INCORRECT_MESSAGE);
#undef CHALLENGE
}

static void host_refuses_a_controller_without_proof(void)
{
	struct nvmf_auth_reply sent = reply_sha256();
	struct nvmf_auth_success1 s;

#define SUCCESS1(hex) PARSE(nvmf_auth_parse_success1, hex, &sent, &s)
	CU_ASSERT_EQUAL(SUCCESS1("01030000341220000000000000000000"), NVMF_AUTH_FAILED);
	CU_ASSERT_EQUAL(SUCCESS1("01030000341220000100000000000000"), NVMF_AUTH_INCORRECT_PAYLOAD);
	CU_ASSERT_EQUAL(SUCCESS1("01030000341200000100000000000000" R2_SHA256),
			NVMF_AUTH_INCORRECT_PAYLOAD);
	CU_ASSERT_EQUAL(SUCCESS1("01030000341220000200000000000000" R2_SHA256),
			NVMF_AUTH_INCORRECT_PAYLOAD);
	CU_ASSERT_EQUAL(SUCCESS1("01040000341200000000000000000000"), NVMF_AUTH_INCORRECT_MESSAGE);
#undef SUCCESS1
}

const struct t_case t_auth_cases[] = {
	{"keys are made from secrets and NQNs", transforms_keys},
	{"a secret survives its text", keys_survive_their_text},
	{"what is wrong with a secret is said", says_what_is_wrong_with_a_key},
	{"responses of host and controller, each hash", responds},
	{"responses after a Diffie-Hellman exchange", responds_after_an_exchange},
	{"leading zeros of the shared secret are kept", keeps_leading_zeros_of_the_secret},
	{"both sides get the same session key, each group", both_sides_get_the_same_session_key},
	{"the groups are those of RFC 7919", groups_are_those_of_rfc_7919},
	{"messages are built", builds_messages},
	{"messages of a host are parsed", parses_what_a_host_sends},
	{"messages of a controller are parsed", parses_what_a_controller_sends},
	{"wrong negotiations are refused", refuses_wrong_negotiations},
	{"a host need not challenge the controller", replies_without_a_challenge},
	{"a host refuses what it did not offer", host_refuses_what_it_did_not_offer},
	{"a host refuses a controller without proof", host_refuses_a_controller_without_proof},
	{NULL, NULL},
};
