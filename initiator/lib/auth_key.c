/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and checks secrets of DH-HMAC-CHAP. */
#include <errno.h>

#include "internal.h"
#include "nvmf/auth_key.h"
#include "rdinit_auth.h"

_Static_assert(RDINIT_DHCHAP_KEY_SIZE == NVMF_AUTH_KEY_TEXT, "text of a secret");
_Static_assert((int)RDINIT_DHCHAP_SHA512 == NVMF_AUTH_SHA512, "hash identifiers");

int rdinit_dhchap_key_generate(unsigned int hash, size_t len, char *text)
{
	struct nvmf_auth_key key;
	int rc = nvmf_auth_key_generate(hash, len, &key);

	if (rc == -EINVAL)
		rc = rdi_fail(__func__, rc,
			      "hash %u with a secret of %zu bytes: the hash is 0 to 3, the secret "
			      "has 32, 48 or 64 bytes",
			      hash, len);
	else if (rc)
		rc = rdi_fail(__func__, rc, "the system gives no random numbers");
	else
		nvmf_auth_key_format(&key, text);
	nvmf_auth_key_wipe(&key);
	return rc;
}

int rdinit_dhchap_key_check(const char *text, unsigned int *hash, size_t *len)
{
	struct nvmf_auth_key key;
	const char *why = text ? nvmf_auth_key_parse(text, &key) : "is NULL";

	if (why)
		return rdi_fail(__func__, -EINVAL, "the key %s", why);
	if (hash)
		*hash = key.hash;
	if (len)
		*len = key.len;
	nvmf_auth_key_wipe(&key);
	return 0;
}
