/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rdinit_auth.h
 * @brief librdinit: secrets of DH-HMAC-CHAP, the in-band authentication of NVMe over Fabrics.
 *
 * A secret is written "DHHC-1:hh:BASE64:" (Base 8.13.5.8): hh is the hash that makes a key from the
 * secret and an NQN (00: none, 01: SHA-256, 02: SHA-384, 03: SHA-512), BASE64 the secret and its
 * CRC-32. rdtarget, Linux, nvme-cli and SPDK read the same text. The rules of rdinit.h for ERRORS
 * hold here; an error text contains nothing of a secret. The functions wipe their own copies of a
 * secret; the caller wipes its buffers, for example with explicit_bzero(3).
 */
#ifndef RDINIT_AUTH_H
#define RDINIT_AUTH_H

#include "rdinit.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/** Size in bytes of a buffer that holds the text of any secret including its terminating NUL. */
#define RDINIT_DHCHAP_KEY_SIZE 104

/** Hash that makes a key from a secret and an NQN. */
enum rdinit_dhchap_hash {
	RDINIT_DHCHAP_NO_HASH = 0, /**< the secret is the key */
	RDINIT_DHCHAP_SHA256 = 1,
	RDINIT_DHCHAP_SHA384 = 2,
	RDINIT_DHCHAP_SHA512 = 3,
};

/**
 * @brief Make a random secret.
 * @param hash  enum rdinit_dhchap_hash.
 * @param len   Bytes of the secret: 32, 48 or 64. Linux before 6.7 and nvme-cli 2.3 want the length
 *              of the hash (32, 48, 64 for SHA-256, SHA-384, SHA-512); RDINIT_DHCHAP_NO_HASH goes
 *              with any of the three.
 * @param text  Output buffer of RDINIT_DHCHAP_KEY_SIZE bytes, owned by the caller; not changed on
 *              failure.
 * @return 0; -EINVAL (hash or length is not possible); -EIO (the system gives no random numbers).
 *         Any thread.
 */
int rdinit_dhchap_key_generate(unsigned int hash, size_t len, char *text);

/**
 * @brief Check the text of a secret: form, length and checksum.
 * @param text  The secret, owned by the caller; without a newline at its end.
 * @param hash  Output: enum rdinit_dhchap_hash. May be NULL.
 * @param len   Output: bytes of the secret. May be NULL. Not changed on failure, as is @p hash.
 * @return 0; -EINVAL (rdinit_get_error() says what is wrong). Any thread.
 */
int rdinit_dhchap_key_check(const char *text, unsigned int *hash, size_t *len);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* RDINIT_AUTH_H */
