/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DH-HMAC-CHAP (NVMe Base 2.0, 8.13.5): the identifiers of hashes, Diffie-Hellman groups and
 * failures, their sizes and their names. Pure tables; any thread.
 */
#ifndef RD_NVMF_AUTH_IDS_H
#define RD_NVMF_AUTH_IDS_H

#include <stddef.h>
#include <stdint.h>

enum nvmf_auth_hash {
	NVMF_AUTH_SHA256 = 1,
	NVMF_AUTH_SHA384 = 2,
	NVMF_AUTH_SHA512 = 3,
};

enum nvmf_auth_group {
	NVMF_AUTH_GROUP_NULL = 0, /* no Diffie-Hellman exchange */
	NVMF_AUTH_FFDHE2048 = 1,  /* RFC 7919 */
	NVMF_AUTH_FFDHE3072 = 2,
	NVMF_AUTH_FFDHE4096 = 3,
	NVMF_AUTH_FFDHE6144 = 4,
	NVMF_AUTH_FFDHE8192 = 5,
};

/* Reason code explanations of Failure1 and Failure2; the reason code is always 1. */
enum nvmf_auth_expl {
	NVMF_AUTH_OK = 0, /* not on the wire: there is no failure */
	NVMF_AUTH_FAILED = 1,
	NVMF_AUTH_PROTOCOL_NOT_USABLE = 2,
	NVMF_AUTH_CONCAT_MISMATCH = 3,
	NVMF_AUTH_HASH_NOT_USABLE = 4,
	NVMF_AUTH_GROUP_NOT_USABLE = 5,
	NVMF_AUTH_INCORRECT_PAYLOAD = 6,
	NVMF_AUTH_INCORRECT_MESSAGE = 7,
};

#define NVMF_AUTH_HASH_MAX 64   /* bytes of the longest hash */
#define NVMF_AUTH_DHV_MAX  1024 /* bytes of the longest Diffie-Hellman value */
#define NVMF_AUTH_IDS_MAX  30   /* hashes, or groups, in one Negotiate */

/* Bytes of a hash. 0: there is no hash with that identifier. */
size_t nvmf_auth_hash_len(unsigned int hash);
/* Bytes of a Diffie-Hellman value of @group; 0 for the null group. -1: there is no such group. */
int nvmf_auth_group_len(unsigned int group);

/* "SHA-256"; "unknown hash". Never NULL. */
const char *nvmf_auth_hash_text(unsigned int hash);
/* "ffdhe2048", as OpenSSL names it; "null"; "unknown group". Never NULL. */
const char *nvmf_auth_group_text(unsigned int group);
/* "authentication failed", "the hash function is not usable"... Never NULL. */
const char *nvmf_auth_expl_text(unsigned int explanation);

#endif /* RD_NVMF_AUTH_IDS_H */
