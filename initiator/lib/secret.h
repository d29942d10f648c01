/* SPDX-License-Identifier: BSD-3-Clause */
/* Secrets that options give as text, by a file or by a descriptor; and memory for them. Any
 * thread. */
#ifndef RDI_SECRET_H
#define RDI_SECRET_H

#include <stdbool.h>

#include "nvmf/auth_key.h"

/* The sources of one secret, of which at most one may be given. */
struct rdi_secret {
	enum nvmf_key_kind kind;
	const char *what; /* the name of the option for @text; "_file" and "_fd" follow it */
	const char *text;
	const char *file;
	int fd; /* -1: none */
};

bool rdi_secret_given(const struct rdi_secret *s);
/* Reads @s, of which a source is given. Returns 0, -EINVAL or -errno of reading, with the thread's
 * error text. The owner wipes @key. */
int rdi_secret_take(const char *func, const struct rdi_secret *s, struct nvmf_auth_key *key);

/* Zeroed memory that core dumps omit; NULL: there is none. */
void *rdi_secret_alloc(size_t size);
/* Wipes and frees it. */
void rdi_secret_free(void *p, size_t size);

#endif /* RDI_SECRET_H */
