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
 *
 * WHEN. With the "tls" member of struct rdinit_ctrl_opts every connection of the controller, its
 * queue pairs and a device (rdinit_dev.h) begins with a TLS handshake, within the time limit of the
 * connection attempt, and none is ever made without TLS.
 *
 * IDENTITIES. A host names its key to the target by an identity. Targets differ in which ones they
 * take, so the library tries, each on a new connection, as long as the target refuses the key: an
 * identity of version 1, of version 0, and both again with the key derived as libnvme before 1.14
 * does it. The one that was taken is tried first the next time. The type of the key is always R.
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
 * @return 0; -EINVAL (another hash); -EIO (the system provides no random numbers). Any thread.
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

/**
 * @brief Key of a host. The caller owns strings and descriptors; the library copies what it needs,
 *        and does not use them after the call.
 *
 * One of the first three members is set. A file, or what the descriptor reads, contains the key in
 * its first line; a regular file must not be accessible by others than its owner and group.
 */
struct rdinit_tls_opts {
	size_t size; /**< set by rdinit_tls_opts_init() */

	const char *key;      /**< the key, as text; NULL: see the next two */
	const char *key_file; /**< name of a file that contains it; NULL: none */
	int key_fd;           /**< descriptor to read it from; -1 (default): none */
};

/** The function that rdinit_tls_opts_init() calls with the size of the caller's structure. */
void rdinit_tls_opts_init_size(struct rdinit_tls_opts *opts, size_t size);

/** @brief Initialise a struct rdinit_tls_opts: no key. Any thread. */
static inline void rdinit_tls_opts_init(struct rdinit_tls_opts *opts)
{
	rdinit_tls_opts_init_size(opts, sizeof(*opts));
}

/** @brief What the admin queue's connection of a controller uses. */
struct rdinit_tls_info {
	size_t size; /**< set by rdinit_tls_info_init() */

	char identity[RDINIT_TLS_IDENTITY_SIZE]; /**< the identity; "": the connection has no TLS */
	unsigned int hash;                       /**< enum rdinit_tls_hash of the cipher suite */
	bool compat;       /**< the key is derived as libnvme before 1.14 does it */
	char suite[32];    /**< cipher suite, such as "TLS_AES_128_GCM_SHA256" */
	bool ktls_send;    /**< the kernel encrypts; else OpenSSL */
	bool ktls_receive; /**< the kernel decrypts; else OpenSSL */
};

/** The function that rdinit_tls_info_init() calls with the size of the caller's structure. */
void rdinit_tls_info_init_size(struct rdinit_tls_info *info, size_t size);

/** @brief Initialise a struct rdinit_tls_info. Any thread. */
static inline void rdinit_tls_info_init(struct rdinit_tls_info *info)
{
	rdinit_tls_info_init_size(info, sizeof(*info));
}

/**
 * @brief What TLS of a connected controller uses.
 * @param ctrl A connected handle.
 * @param info Output, initialised by rdinit_tls_info_init().
 * @return 0; -EINVAL (@p info is not initialised); -ENOTCONN (not connected).
 */
int rdinit_ctrl_get_tls(const struct rdinit_ctrl *ctrl, struct rdinit_tls_info *info);

struct rdinit_dev; /* of rdinit_dev.h */

/**
 * @brief Give a device that uses TLS another key, for what it connects from now on.
 *
 * Connections that exist keep theirs, and so do the queues of a controller that is connected. A
 * path that was given up because of the old key is tried again by rdinit_dev_reconnect().
 *
 * @param dev  The handle, in any state.
 * @param opts The key; owned by the caller, not used after return.
 * @return 0; -EINVAL (the key is malformed or missing, or the device was made without TLS), -errno
 *         of reading the key, -EDEADLK (called from an event callback of the device), -EIO,
 *         -ENOMEM. Any thread.
 */
int rdinit_dev_set_tls(struct rdinit_dev *dev, const struct rdinit_tls_opts *opts);

/**
 * @brief Security of a transport address that a discovery record names (SECTYPE, NVMe/TCP 1.0).
 * @return 0: none, or the record is not one of NVMe/TCP; 2: TLS 1.3. Its @c treq says in the bits 0
 *         and 1 whether the target demands it: 1 required, 2 not required.
 */
static inline unsigned int rdinit_discovery_sectype(const struct rdinit_discovery_record *rec)
{
	return rec->trtype == 3 ? rec->rdma_qptype : 0; /* the first byte of TSAS */
}

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* RDINIT_TLS_H */
