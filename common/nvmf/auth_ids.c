/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvmf/auth_ids.h"

#define LENGTH(table) (sizeof(table) / sizeof((table)[0]))

static const struct {
	uint8_t len;
	const char *text;
} hashes[] = {
	[NVMF_AUTH_SHA256] = {32, "SHA-256"},
	[NVMF_AUTH_SHA384] = {48, "SHA-384"},
	[NVMF_AUTH_SHA512] = {64, "SHA-512"},
};

static const struct {
	uint16_t len;
	const char *text;
} groups[] = {
	[NVMF_AUTH_GROUP_NULL] = {0, "null"},       [NVMF_AUTH_FFDHE2048] = {256, "ffdhe2048"},
	[NVMF_AUTH_FFDHE3072] = {384, "ffdhe3072"}, [NVMF_AUTH_FFDHE4096] = {512, "ffdhe4096"},
	[NVMF_AUTH_FFDHE6144] = {768, "ffdhe6144"}, [NVMF_AUTH_FFDHE8192] = {1024, "ffdhe8192"},
};

static const char *const explanations[] = {
	[NVMF_AUTH_FAILED] = "authentication failed",
	[NVMF_AUTH_PROTOCOL_NOT_USABLE] = "the authentication protocol is not usable",
	[NVMF_AUTH_CONCAT_MISMATCH] = "secure channel concatenation does not match",
	[NVMF_AUTH_HASH_NOT_USABLE] = "the hash function is not usable",
	[NVMF_AUTH_GROUP_NOT_USABLE] = "the Diffie-Hellman group is not usable",
	[NVMF_AUTH_INCORRECT_PAYLOAD] = "incorrect payload",
	[NVMF_AUTH_INCORRECT_MESSAGE] = "incorrect protocol message",
};

size_t nvmf_auth_hash_len(unsigned int hash)
{
	return hash < LENGTH(hashes) ? hashes[hash].len : 0;
}

int nvmf_auth_group_len(unsigned int group)
{
	return group < LENGTH(groups) ? groups[group].len : -1;
}

const char *nvmf_auth_hash_text(unsigned int hash)
{
	return nvmf_auth_hash_len(hash) ? hashes[hash].text : "unknown hash";
}

const char *nvmf_auth_group_text(unsigned int group)
{
	return group < LENGTH(groups) ? groups[group].text : "unknown group";
}

const char *nvmf_auth_expl_text(unsigned int explanation)
{
	if (explanation == NVMF_AUTH_OK || explanation >= LENGTH(explanations))
		return "unknown explanation";
	return explanations[explanation];
}
