/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The computations of DH-HMAC-CHAP (NVMe Base 2.0, 8.13.5.4 to 8.13.5.7), for host and controller.
 * Any thread; no state is kept. Results are secrets; the caller wipes them.
 */
#ifndef RD_NVMF_AUTH_CALC_H
#define RD_NVMF_AUTH_CALC_H

#include <openssl/types.h>

#include "nvmf/auth_ids.h"

/* HMAC of @len bytes of @data. Returns 0; -EINVAL: unknown @hash; -EIO: libcrypto failed. */
int nvmf_auth_hmac(unsigned int hash, const uint8_t *key, size_t key_len, const void *data,
		   size_t len, uint8_t out[NVMF_AUTH_HASH_MAX]);

/* The inputs of a response: the key, and the values of the transaction. Pointers are borrowed. */
struct nvmf_auth_proof {
	uint8_t hash;       /* the negotiated one, enum nvmf_auth_hash */
	uint8_t sc_c;       /* secure channel concatenation, of the Negotiate */
	uint16_t t_id;      /* of the transaction */
	uint32_t seqnum;    /* of the challenge that is answered */
	const uint8_t *key; /* of nvmf_auth_key_transform() */
	size_t key_len;
	const uint8_t *challenge; /* as long as the hash */
	const uint8_t
		*session; /* of nvmf_auth_dh_session(), as long as the hash; NULL: null group */
	const char *hostnqn;
	const char *subnqn;
};

/*
 * The response of a host to the controller's challenge (R1), and of a controller to the host's
 * (R2), as long as the hash. Returns 0; -EINVAL: unknown hash, or an NQN that is too long; -EIO:
 * libcrypto failed. Compare responses with CRYPTO_memcmp().
 */
int nvmf_auth_host_response(const struct nvmf_auth_proof *p, uint8_t out[NVMF_AUTH_HASH_MAX]);
int nvmf_auth_ctrl_response(const struct nvmf_auth_proof *p, uint8_t out[NVMF_AUTH_HASH_MAX]);

/* ---- Diffie-Hellman. The large groups take tens of milliseconds: not on a loop's thread. ---- */

/*
 * Makes a key pair of @group; the caller frees it with EVP_PKEY_free(). Returns 0; -EINVAL: the
 * null group, or an unknown one; -EIO: libcrypto failed.
 */
int nvmf_auth_dh_create(unsigned int group, EVP_PKEY **out);

/* The public value of @own, nvmf_auth_group_len() bytes. Returns 0; -EINVAL; -EIO. */
int nvmf_auth_dh_public(const EVP_PKEY *own, unsigned int group, uint8_t *out);

/*
 * The hash of the secret that @own, of @group, shares with the owner of the public value @peer.
 * Returns 0; -EINVAL: unknown @group or @hash, or @len is not that of @group; -EBADMSG: @peer is
 * not a public value of that group (0, 1, p - 1, or not less than p); -EIO: libcrypto failed.
 */
int nvmf_auth_dh_session(EVP_PKEY *own, unsigned int group, unsigned int hash, const uint8_t *peer,
			 size_t len, uint8_t out[NVMF_AUTH_HASH_MAX]);

#endif /* RD_NVMF_AUTH_CALC_H */
