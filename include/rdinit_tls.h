/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rdinit_tls.h
 * @brief librdinit: TLS 1.3 with pre-shared keys for NVMe/TCP.
 *
 * A key is written "NVMeTLSkey-1:hh:BASE64:" (NVMe/TCP 1.0, 3.6.1.5): hh is the hash that derives
 * from it the key that TLS uses (01: SHA-256, 02: SHA-384; 00: the key is used as it is), BASE64
 * the key and its CRC-32. rdtarget, Linux and nvme-cli read the same text. The rules of rdinit.h
 * for ERRORS hold here; an error text contains nothing of a key. The functions wipe their own
 * copies; the caller wipes its buffers, for example with explicit_bzero(3).
 */
#ifndef RDINIT_TLS_H
#define RDINIT_TLS_H

#include "rdinit.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/** Size in bytes of a buffer that holds the text of any key including its terminating NUL. */
#define RDINIT_TLS_KEY_SIZE 104
/** Size in bytes of a buffer that holds any identity including its terminating NUL. */
#define RDINIT_TLS_IDENTITY_SIZE 522

/** Hash of a key; also that of the cipher suite. */
enum rdinit_tls_hash {
	RDINIT_TLS_NO_HASH = 0, /**< the key is not derived; its length says the cipher suite */
	RDINIT_TLS_SHA256 = 1,  /**< keys of 32 bytes */
	RDINIT_TLS_SHA384 = 2,  /**< keys of 48 bytes */
};

/**
 * @brief Make a random key.
 * @param hash  RDINIT_TLS_SHA256 or RDINIT_TLS_SHA384.
 * @param text  Output buffer of RDINIT_TLS_KEY_SIZE bytes, owned by the caller; not changed on
 *              failure.
 * @return 0; -EINVAL (another hash); -EIO (the system gives no random numbers). Any thread.
 */
int rdinit_tls_key_generate(unsigned int hash, char *text);

/**
 * @brief Check the text of a key: form, length and checksum.
 * @param text  The key, owned by the caller; without a newline at its end.
 * @param hash  Output: enum rdinit_tls_hash. May be NULL.
 * @param len   Output: bytes of the key, 32 or 48. May be NULL. Not changed on failure, as is @p
 *              hash.
 * @return 0; -EINVAL (rdinit_get_error() says what is wrong). Any thread.
 */
int rdinit_tls_key_check(const char *text, unsigned int *hash, size_t *len);

/**
 * @brief The identity by which a host names a key to a target.
 * @param text     The key, as for rdinit_tls_key_check().
 * @param hostnqn,subnqn Names of the host and of the subsystem, of at most 223 bytes.
 * @param version  0: NVMe/TCP 1.0, the names alone; 1: TP 8018, with a digest of the key.
 * @param compat   Derive as libnvme before 1.14 and `nvme --compat` do; only the digest of
 *                 version 1 shows it.
 * @param identity Output buffer of RDINIT_TLS_IDENTITY_SIZE bytes, owned by the caller; not changed
 *                 on failure.
 * @return 0; -EINVAL (the key is not valid, or another argument is not possible); -EIO (libcrypto
 *         failed). Any thread.
 */
int rdinit_tls_key_identity(const char *text, const char *hostnqn, const char *subnqn,
			    unsigned int version, bool compat, char *identity);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* RDINIT_TLS_H */
