/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the installed version of this program as a child: the file at the path with which this
 * process was started. Main thread only.
 */
#ifndef RDT_SELF_H
#define RDT_SELF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "util/loop.h"

struct rdt_self {
	char *path;
	pid_t pid;       /* the child; 0: none */
	struct rd_io io; /* on its pidfd */
	struct rd_loop *loop;
	void (*ended)(void *arg, int status); /* @status: as from waitpid(2); may be NULL */
	void *arg;
};

/* Call before the current directory changes. Returns 0 or -errno. */
int rdt_self_init(struct rdt_self *self);
/* A running child is not killed. */
void rdt_self_fini(struct rdt_self *self);
/* Starts the program with @argv, which ends with NULL; self->ended() follows. Returns 0, or -errno
 * with a message in @why. */
int rdt_self_start(struct rdt_self *self, struct rd_loop *loop, const char *const *argv, char *why,
		   size_t size);
void rdt_self_kill(const struct rdt_self *self); /* does nothing without a child */

#endif /* RDT_SELF_H */
