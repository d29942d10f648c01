/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pre-shared keys of TLS, compared with libnvme's test vectors (SHA-256, version 0 and 1, and the
 * digest of its old derivation) and with those of an independent HKDF in Python.
 */
#include <errno.h>
#include <string.h>

#include "nvmf/tls_psk.h"
#include "suites.h"

#define HOSTNQN  "nqn.psk-test-host"
#define SUBNQN   "nqn.psk-test-subsys"
#define NAMES    HOSTNQN " " SUBNQN
#define KEY_32   "VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
#define KEY_48   "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:"
#define DIGEST_2 "ORMrJUCF3FaAk9vw0sFM0k7i5naVtBT9UiaRzpHm+YJm961Rsvdf3b6UNWfDOeqq"

static bool is_hex(const uint8_t *bytes, size_t len, const char *hex)
{
	unsigned int byte;

	if (strlen(hex) != 2 * len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1 || byte != bytes[i])
			return false;
	return true;
}

static void makes_what_peers_make(void)
{
	static const struct {
		const char *key;
		struct nvmf_tls_form form;
		const char *identity;
		const char *psk;
	} vectors[] = {
		{"NVMeTLSkey-1:01:" KEY_32,
		 {1, 'R', false},
		 "NVMe1R01 " NAMES " iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
		 "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca"},
		{"NVMeTLSkey-1:01:" KEY_32,
		 {0, 'R', false},
		 "NVMe0R01 " NAMES,
		 "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68"},
		{"NVMeTLSkey-1:01:" KEY_32,
		 {1, 'R', true},
		 "NVMe1R01 " NAMES " 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
		 "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2"},
		{"NVMeTLSkey-1:01:" KEY_32,
		 {0, 'R', true},
		 "NVMe0R01 " NAMES,
		 "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb"},
		{"NVMeTLSkey-1:00:" KEY_32,
		 {1, 'G', false},
		 "NVMe1G01 " NAMES " quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
		 "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b"},
		{"NVMeTLSkey-1:02:" KEY_48,
		 {1, 'R', false},
		 "NVMe1R02 " NAMES " " DIGEST_2,
		 "495b023edf69cabed473cc26ad102a0320e0e68343c3f17b494d5ca92b2efe75b9657c46f1726ca9"
		 "da492eea93eba083"},
		{"NVMeTLSkey-1:02:" KEY_48,
		 {0, 'G', true},
		 "NVMe0G02 " NAMES,
		 "c3e3156b3dc6a0316ea2ca4d6af2f9fdb49beb9b8eacac8cafe188f5b67a7c72f0d4bea216389fee"
		 "ca7e5fd4d7478457"},
	};
	struct nvmf_auth_key key;
	struct nvmf_tls_psk psk;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		CU_ASSERT_PTR_NULL_FATAL(nvmf_key_parse(NVMF_KEY_TLS, vectors[i].key, &key));
		CU_ASSERT_EQUAL_FATAL(
			nvmf_tls_psk_make(&key, &vectors[i].form, HOSTNQN, SUBNQN, &psk), 0);
		CU_ASSERT_STRING_EQUAL(psk.identity, vectors[i].identity);
		CU_ASSERT_TRUE(is_hex(psk.psk, psk.len, vectors[i].psk));
		CU_ASSERT_EQUAL(psk.hash, psk.len == 32 ? NVMF_AUTH_SHA256 : NVMF_AUTH_SHA384);
	}
}

static void keys_of_tls_have_their_own_rules(void)
{
	static const char *const bad[][2] = {
		{"DHHC-1:01:" KEY_32, "does not start with \"NVMeTLSkey-1:\""},
		{"NVMeTLSkey-1:03:" KEY_32, "has no hash identifier (00, 01 or 02, and a colon) "
					    "after \"NVMeTLSkey-1:\""},
		{"NVMeTLSkey-1:02:" KEY_32, "does not contain a key of 32 bytes (with hash 01), of "
					    "48 (with hash 02), or of one of both (with hash 00), "
					    "and its checksum"},
	};
	static const struct {
		unsigned int hash;
		size_t len;
		int rc;
	} made[] = {{0, 32, 0},       {0, 48, 0},       {1, 32, 0},       {2, 48, 0},
		    {0, 64, -EINVAL}, {1, 48, -EINVAL}, {2, 32, -EINVAL}, {3, 64, -EINVAL}};
	struct nvmf_auth_key key, again;
	char text[NVMF_AUTH_KEY_TEXT];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_STRING_EQUAL(nvmf_key_parse(NVMF_KEY_TLS, bad[i][0], &key), bad[i][1]);
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		CU_ASSERT_EQUAL(nvmf_key_generate(NVMF_KEY_TLS, made[i].hash, made[i].len, &key),
				made[i].rc);
		if (made[i].rc)
			continue;
		CU_ASSERT_EQUAL(nvmf_auth_key_format(&key, text), 0);
		CU_ASSERT_PTR_NULL(nvmf_key_parse(NVMF_KEY_TLS, text, &again));
		CU_ASSERT_EQUAL(memcmp(&key, &again, sizeof(key)), 0);
	}
}

static void refuses_what_cannot_be_made(void)
{
	const struct nvmf_tls_form v0 = {0, 'R', false}, v0_compat = {0, 'R', true};
	const struct nvmf_tls_form v1 = {1, 'R', false}, v2 = {2, 'R', false}, x = {1, 'X', false};
	char nqn[NVMF_NQN_MAX + 2];
	struct nvmf_auth_key key;
	struct nvmf_tls_psk psk;

	CU_ASSERT_EQUAL_FATAL(nvmf_key_generate(NVMF_KEY_TLS, 2, 48, &key), 0);
	memset(nqn, 'n', sizeof(nqn));
	nqn[NVMF_NQN_MAX] = '\0';
	/* the longest names go, but not into a label with a length byte */
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &v1, nqn, nqn, &psk), 0);
	CU_ASSERT_EQUAL(strlen(psk.identity) + 1, NVMF_TLS_IDENTITY_MAX);
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &v0, nqn, nqn, &psk), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &v0_compat, nqn, nqn, &psk), 0);
	nqn[NVMF_NQN_MAX] = 'n';
	nqn[NVMF_NQN_MAX + 1] = '\0';
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &v1, nqn, SUBNQN, &psk), -EINVAL);
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &v2, HOSTNQN, SUBNQN, &psk), -EINVAL);
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &x, HOSTNQN, SUBNQN, &psk), -EINVAL);
	key.kind = NVMF_KEY_DHCHAP;
	CU_ASSERT_EQUAL(nvmf_tls_psk_make(&key, &v1, HOSTNQN, SUBNQN, &psk), -EINVAL);
}

static void takes_identities_apart(void)
{
	static const char *const bad[] = {
		"",
		"NVMe1R01",
		"NVMe1R01 ",
		"nvme1R01 " NAMES " " DIGEST_2,
		"NVMe2R01 " NAMES " " DIGEST_2,
		"NVMe1X01 " NAMES " " DIGEST_2,
		"NVMe1R03 " NAMES " " DIGEST_2,
		"NVMe1R11 " NAMES " " DIGEST_2,
		"NVMe1R01-" NAMES " " DIGEST_2,
		"NVMe1R01 " NAMES,
		"NVMe0R01 " NAMES " " DIGEST_2,
		"NVMe0R01 " HOSTNQN,
		"NVMe0R01 " HOSTNQN " ",
		"NVMe0R01  " SUBNQN,
	};
	char text[1024] = "NVMe0R01 ";
	struct nvmf_tls_identity id;

	CU_ASSERT_PTR_NULL(
		nvmf_tls_identity_parse("NVMe0G02 " NAMES, strlen("NVMe0G02 " NAMES), &id));
	CU_ASSERT_TRUE(id.version == 0 && id.type == 'G' && id.hash == 2);
	CU_ASSERT_STRING_EQUAL(id.hostnqn, HOSTNQN);
	CU_ASSERT_STRING_EQUAL(id.subnqn, SUBNQN);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_PTR_NOT_NULL(nvmf_tls_identity_parse(bad[i], strlen(bad[i]), &id));
	/* a NUL, and a name that is one byte too long */
	CU_ASSERT_PTR_NOT_NULL(nvmf_tls_identity_parse("NVMe0R01 a\0b c", 14, &id));
	memset(text + 9, 'n', NVMF_NQN_MAX + 1);
	strcpy(text + 9 + NVMF_NQN_MAX + 1, " " SUBNQN);
	CU_ASSERT_PTR_NOT_NULL(nvmf_tls_identity_parse(text, strlen(text), &id));
}

const struct t_case t_tls_psk_cases[] = {
	{"PSKs and identities are those of peers", makes_what_peers_make},
	{"keys of TLS have their own hashes and lengths", keys_of_tls_have_their_own_rules},
	{"what cannot be made is refused", refuses_what_cannot_be_made},
	{"identities are taken apart", takes_identities_apart},
	{NULL, NULL},
};
