/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of the host: the key of a handle. Any thread; the connections are in tcp/tls.c. */
#ifndef RDI_TLS_H
#define RDI_TLS_H

#include <stdatomic.h>

#include "nvmf/tls.h"
#include "rdinit_tls.h"

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

#endif /* RDI_TLS_H */
