/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a handle is given to prove who it is: secrets of DH-HMAC-CHAP, and the key of TLS, whose
 * connections are in tcp/tls.c. Any thread.
 */
#ifndef RDI_SECRET_H
#define RDI_SECRET_H

#include <stdatomic.h>

#include "nvmf/auth_key.h"
#include "nvmf/auth_msg.h"
#include "nvmf/tls.h"
#include "rdinit_auth.h"
#include "rdinit_tls.h"

/*
 * Secrets and offers, in a mapping that core dumps omit. Shared by a controller, its queue pairs
 * and a device, which may belong to different threads; only the counters change after creation.
 */
struct rdi_auth_keys {
	atomic_uint refs;
	_Atomic uint16_t t_id;   /* of the next transaction */
	_Atomic uint32_t seqnum; /* of the next challenge; 0 is skipped */
	struct nvmf_auth_key host;
	struct nvmf_auth_key ctrl; /* len 0: the controller need not authenticate itself */
	struct nvmf_auth_negotiate offer;
};

/* Returns 0, -EINVAL, -ENOMEM or -errno of reading a secret, with the thread's error text. */
int rdi_auth_keys_create(const char *func, const struct rdinit_auth_opts *opts,
			 struct rdi_auth_keys **out);
/* Returns @keys, with one more reference. NULL is allowed. */
struct rdi_auth_keys *rdi_auth_keys_ref(struct rdi_auth_keys *keys);
/* Drops a reference and sets *@keys to NULL. *@keys may be NULL. The last reference wipes and
 * frees the keys. */
void rdi_auth_keys_unref(struct rdi_auth_keys **keys);

/*
 * In memory that core dumps omit. Shared by a controller, its queue pairs and a device, which may
 * belong to different threads.
 */
struct rdi_tls {
	atomic_uint refs;
	atomic_uint form; /* which one a target took last: the next connection begins with it */
	struct nvmf_auth_key key;
	struct nvmf_tls_ctx *ctx;
};

/* Returns 0, -EINVAL, -ENOMEM, -EIO or -errno of reading the key, with the thread's error text. */
int rdi_tls_create(const char *func, const struct rdinit_tls_opts *opts, struct rdi_tls **out);
/* Returns @tls, with one more reference. NULL is allowed. */
struct rdi_tls *rdi_tls_ref(struct rdi_tls *tls);
/* Drops a reference and sets *@tls to NULL. *@tls may be NULL. */
void rdi_tls_unref(struct rdi_tls **tls);

#endif /* RDI_SECRET_H */
