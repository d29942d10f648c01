/* SPDX-License-Identifier: BSD-3-Clause */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#include "rdinit_auth.h"
#include "suites.h"

static void made_secrets_are_valid(void)
{
	static const size_t lens[] = {32, 48, 64};
	char text[RDINIT_DHCHAP_KEY_SIZE];
	unsigned int hash;
	size_t len;

	for (unsigned int i = 0; i < 12; i++) {
		CU_ASSERT_EQUAL(rdinit_dhchap_key_generate(i / 3, lens[i % 3], text), 0);
		CU_ASSERT_EQUAL(rdinit_dhchap_key_check(text, &hash, &len), 0);
		CU_ASSERT_EQUAL(hash, i / 3);
		CU_ASSERT_EQUAL(len, lens[i % 3]);
		CU_ASSERT_EQUAL(rdinit_dhchap_key_check(text, NULL, NULL), 0);
	}
}

static void a_failure_changes_no_output(void)
{
	char text[RDINIT_DHCHAP_KEY_SIZE] = "kept";
	unsigned int hash = 77;
	size_t len = 88;

	CU_ASSERT_EQUAL(rdinit_dhchap_key_generate(4, 32, text), -EINVAL);
	CU_ASSERT_STRING_EQUAL(rdinit_get_error(),
			       "rdinit_dhchap_key_generate: hash 4 with a secret of 32 bytes: the "
			       "hash is 0 to 3, the secret has 32, 48 or 64 bytes");
	CU_ASSERT_EQUAL(rdinit_dhchap_key_generate(1, 0, text), -EINVAL);
	CU_ASSERT_STRING_EQUAL(text, "kept");
	CU_ASSERT_EQUAL(rdinit_dhchap_key_check("DHHC-1:01:AAAA:", &hash, &len), -EINVAL);
	CU_ASSERT_STRING_EQUAL(rdinit_get_error(),
			       "rdinit_dhchap_key_check: the key does not contain a secret of 32, "
			       "48 or 64 bytes and its checksum");
	CU_ASSERT_EQUAL(rdinit_dhchap_key_check(NULL, &hash, &len), -EINVAL);
	CU_ASSERT_STRING_EQUAL(rdinit_get_error(), "rdinit_dhchap_key_check: the key is NULL");
	CU_ASSERT_EQUAL(hash, 77);
	CU_ASSERT_EQUAL(len, 88);
}

const struct t_case t_auth_key_cases[] = {
	{"secrets that are made are valid", made_secrets_are_valid},
	{"a failure changes no output and says why", a_failure_changes_no_output},
	{NULL, NULL},
};
