/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rdinit_auth.h
 * @brief librdinit: DH-HMAC-CHAP, the in-band authentication of NVMe over Fabrics: secrets, and
 *        what a host proves and demands.
 *
 * WHEN. A host authenticates each queue right after Connect, when the controller demands it
 * (AUTHREQ, Fabrics 3.3), or when the host has a secret for the controller. In the second case the
 * controller must authenticate itself on every queue; one that does not is refused. Only
 * discovery controllers need not: most targets leave discovery without authentication. The "auth"
 * member of struct rdinit_ctrl_opts holds the secrets. Queue pairs and a device (rdinit_dev.h) use
 * those of their controller, also when they connect again.
 *
 * WHAT IS REFUSED. A controller that skips its proof, chooses a hash or a group that was not
 * offered, sends a Diffie-Hellman value that is not one of the group (0, 1, p - 1, p or more), or
 * answers out of order.
 *
 * THREADS. Diffie-Hellman takes 2 ms of processor time with ffdhe2048 and 120 ms with ffdhe8192 for
 * each queue. A helper thread computes it, one for each queue that authenticates; it has all
 * signals blocked and ends with the computation. The handle's thread does not wait for it, but the
 * _free functions do.
 *
 * AGAIN. A controller may withdraw the authentication of a queue that is in use: it refuses
 * commands with Authentication Required, without Do Not Retry. The library then authenticates the
 * queue with the secrets that it has and sends these commands again, unless they are fused, or the
 * last authentication ended less than a second before. rdinit_ctrl_authenticate() and
 * rdinit_qpair_authenticate() do it whenever the application wants it.
 *
 * MEMORY. The library keeps the secrets as long as a handle uses them, in memory that is not part
 * of core dumps (MADV_DONTDUMP), and wipes it afterwards.
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
 * @return 0; -EINVAL (hash or length is not possible); -EIO (the system provides no random
 * numbers). Any thread.
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

/** Diffie-Hellman groups (RFC 7919), as bits of struct rdinit_auth_opts. */
enum rdinit_dhchap_group {
	RDINIT_DHCHAP_GROUP_NULL = 0, /**< no Diffie-Hellman exchange */
	RDINIT_DHCHAP_FFDHE2048 = 1,
	RDINIT_DHCHAP_FFDHE3072 = 2,
	RDINIT_DHCHAP_FFDHE4096 = 3,
	RDINIT_DHCHAP_FFDHE6144 = 4,
	RDINIT_DHCHAP_FFDHE8192 = 5,
};

/**
 * @brief Secrets of a host, and what it offers to controllers. The caller owns strings and
 *        descriptors; the library copies what it needs, and does not use them after the call.
 *
 * Of the three members of each secret at most one may be set. A file, or what the descriptor reads,
 * contains the secret in its first line; a regular file must not be accessible by others than its
 * owner and group.
 */
struct rdinit_auth_opts {
	size_t size; /**< set by rdinit_auth_opts_init() */

	const char *secret;      /**< the host's secret, as text; NULL: see the next two */
	const char *secret_file; /**< name of a file that contains it; NULL: none */
	int secret_fd;           /**< descriptor to read it from; -1 (default): none */

	/**
	 * The controller's secret, for which the host's is needed as well. With it every controller
	 * has to prove that it knows it (mutual authentication).
	 */
	const char *ctrl_secret;
	const char *ctrl_secret_file;
	int ctrl_secret_fd;

	/** Hashes to offer: bits 1 << enum rdinit_dhchap_hash; 0 (default): SHA-256 to SHA-512. */
	unsigned int hashes;
	/** Groups to offer: bits 1 << enum rdinit_dhchap_group; 0 (default): all, null included. */
	unsigned int groups;
};

/** The function that rdinit_auth_opts_init() calls with the size of the caller's structure. */
void rdinit_auth_opts_init_size(struct rdinit_auth_opts *opts, size_t size);

/** @brief Initialise a struct rdinit_auth_opts: no secrets, everything offered. Any thread. */
static inline void rdinit_auth_opts_init(struct rdinit_auth_opts *opts)
{
	rdinit_auth_opts_init_size(opts, sizeof(*opts));
}

/**
 * @brief Choose what is offered by names, as users write them.
 * @param opts   The options, of which this sets @c hashes and @c groups.
 * @param hashes Names with commas between: sha256, sha384, sha512; NULL: not changed.
 * @param groups Names with commas between: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144,
 *               ffdhe8192; NULL: not changed. Nothing is kept of either text.
 * @return 0; -EINVAL (a name is unknown or missing, and rdinit_get_error() says which; nothing is
 *         changed). Any thread.
 */
int rdinit_auth_opts_offer(struct rdinit_auth_opts *opts, const char *hashes, const char *groups);

/**
 * @brief Authenticate a connected controller's admin queue again; other commands continue
 * meanwhile.
 *
 * A failure ends the connection only if the controller ends it: until then the former
 * authentication is valid (Base 8.13.5.9).
 *
 * @param ctrl A connected handle.
 * @param opts The secrets to use from now on, also for queue pairs that are created later; NULL:
 *             the ones that the handle has.
 * @return 0; -EINVAL (an option is not possible, a secret is malformed, or there is none), -errno
 * of reading a secret, -ENOTCONN (not connected), -EDEADLK (called from a callback), -EBUSY (an
 * authentication of this queue is in progress), -EKEYREJECTED (the controller refused the host, or
 * did not authenticate itself), -EIO (the controller returned an NVMe status), -ETIMEDOUT,
 * -ECONNRESET, -EPROTO (as for other commands), -ENOMEM, -EAGAIN (no thread for Diffie-Hellman can
 * be started).
 */
int rdinit_ctrl_authenticate(struct rdinit_ctrl *ctrl, const struct rdinit_auth_opts *opts);

/**
 * @brief Start rdinit_ctrl_authenticate() asynchronously.
 * @param ctrl,opts As for rdinit_ctrl_authenticate().
 * @param fn,user The callback, not NULL, and its argument. Its error -EKEYREJECTED does not mean
 *                that the connection is closed.
 * @return 0; -EINVAL, -errno of reading a secret, -ENOTCONN, -EBUSY, -ENOMEM, as above; -EAGAIN
 * (the queue is full: process the handle and try again).
 */
int rdinit_ctrl_authenticate_async(struct rdinit_ctrl *ctrl, const struct rdinit_auth_opts *opts,
				   rdinit_complete_fn fn, void *user);

/**
 * @brief Authenticate an I/O queue again, as rdinit_ctrl_authenticate(); I/O continues meanwhile.
 * @param qpair A connected handle.
 * @param opts As for rdinit_ctrl_authenticate(), for this queue.
 * @return As rdinit_ctrl_authenticate().
 */
int rdinit_qpair_authenticate(struct rdinit_qpair *qpair, const struct rdinit_auth_opts *opts);

/**
 * @brief Start rdinit_qpair_authenticate() asynchronously.
 * @param qpair,opts,fn,user As for rdinit_ctrl_authenticate_async().
 * @return As rdinit_ctrl_authenticate_async().
 */
int rdinit_qpair_authenticate_async(struct rdinit_qpair *qpair, const struct rdinit_auth_opts *opts,
				    rdinit_complete_fn fn, void *user);

struct rdinit_dev; /* of rdinit_dev.h */

/**
 * @brief Give a device other secrets, for what it connects from now on.
 *
 * Queues that are connected keep the secrets that they have. A path that was given up because of
 * the old secrets is tried again by rdinit_dev_reconnect().
 *
 * @param dev  The handle, in any state.
 * @param opts The secrets; owned by the caller, not used after return.
 * @return 0; -EINVAL (an option is not possible, or a secret is malformed or missing), -errno of
 *         reading a secret, -EDEADLK (called from an event callback of the device), -ENOMEM. Any
 *         thread.
 */
int rdinit_dev_set_auth(struct rdinit_dev *dev, const struct rdinit_auth_opts *opts);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* RDINIT_AUTH_H */
