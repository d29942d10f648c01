/* SPDX-License-Identifier: BSD-3-Clause */
/* The secrets with which hosts and target authenticate. */
#ifndef SIM_SECRETS_H
#define SIM_SECRETS_H

#include <stdbool.h>

#include "nvmf/auth_key.h"
#include "rdinit_auth.h"

/* What a host has, or what the target has for a host. */
enum secret_kind {
	SECRET_NONE,
	SECRET_HOST,   /* only the host proves itself */
	SECRET_BOTH,   /* another secret of the host, and one of the controller */
	SECRET_BOTH_2, /* the same secret of the host, and another one of the controller */
	SECRET_KINDS,
};

#define SECRET_TEXTS 4u

struct secrets {
	char text[SECRET_TEXTS][NVMF_AUTH_KEY_TEXT];
	int fd[SECRET_TEXTS]; /* files in memory that contain them */
	const char *group;    /* of Diffie-Hellman, as in the configuration */
};

/* Returns 0 or -errno. */
int secrets_new(struct secrets **out);
void secrets_free(struct secrets *s);
/* Of @kind, which is not SECRET_NONE: the index of the host's secret, and of the controller's, or
 * -1. */
int secret_of_host(enum secret_kind kind);
int secret_of_ctrl(enum secret_kind kind);
/* Returns false, and @opts is not set: SECRET_NONE. */
bool secrets_opts(const struct secrets *s, enum secret_kind kind, struct rdinit_auth_opts *opts);
/* Whether a host with @host and a target that has @target for it authenticate, or need not. */
bool secrets_match(enum secret_kind host, enum secret_kind target);
/* Whether @text contains a part of a secret. */
bool secrets_shown(const char *text);

#endif /* SIM_SECRETS_H */
