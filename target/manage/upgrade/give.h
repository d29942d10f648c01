/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that hands over: what it has open and its connections go to the next process, which
 * it starts, or which somebody has started with --take-over; or into the service manager's store,
 * and this process ends. Until the commit is written, each
 * failure leaves this process as it was; from then on it only closes. docs/design/moves.md.
 *
 * Main thread only.
 */
#ifndef RDT_GIVE_H
#define RDT_GIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

struct rdt_give;
struct rdt_notify;
struct rdt_reloader;
struct rdt_self;
struct rdt_target;

/* What else is open; -1: it is not. They remain open here. */
struct rdt_give_fds {
	int control, control_lock, http;
};

#define RDT_GIVE_ARGS   32u /* arguments of the next process, at most */
#define RDT_GIVE_STORED (-1)

struct rdt_give_env {
	struct rdt_target *target;
	struct rdt_reloader *reloader;
	struct rdt_self *self;
	const char *const *argv;   /* of the next process, without --take-over; NULL ends it */
	const char *socket;        /* the control socket; NULL: there is none */
	bool tied;                 /* --exit-with-parent: the next process cannot be a child */
	bool never;                /* --no-hand-over */
	struct rdt_notify *notify; /* the way to the store */
	unsigned long files_max;   /* open files that the service manager allows; 0: not known */
	void (*fds)(struct rdt_give_env *env, struct rdt_give_fds *fds);
	/* The commit was written: process @pid serves from now on; RDT_GIVE_STORED: all is in the
	 * store. It begins to drain what is left, and rdt_give_drained() follows. In the end the
	 * main loop is stopped. */
	void (*committed)(struct rdt_give_env *env, pid_t pid);
};

int rdt_give_new(struct rdt_give_env *env, struct rdt_give **out);
void rdt_give_free(struct rdt_give **give); /* accepts NULL */

/* Whoever asked is told once: 0 with what was handed over, or would be (@check), which belongs to
 * the caller; or -errno with a sentence. -EOWNERDEAD: it was handed over, and is not served. */
typedef void (*rdt_give_done)(void *arg, int err, const char *why, json_t *result);

/* Starts the installed program, which takes over. @force: a namespace whose I/O does not end
 * refuses nothing, and the next process serves it when that has ended. Returns 0, and @done
 * follows; or -errno with a sentence in @why. */
int rdt_give_start(struct rdt_give *give, bool check, bool force, rdt_give_done done, void *arg,
		   char *why, size_t size);
/* Leaves all in the service manager's store, for the next process that it starts, and ends. Returns
 * likewise. */
int rdt_give_store(struct rdt_give *give, rdt_give_done done, void *arg, char *why, size_t size);
void rdt_give_forget(struct rdt_give *give, const void *arg); /* @done is not called */
/* Is I/O in flight that the next process waits for? */
bool rdt_give_waits(const struct rdt_give *give); /* accepts NULL */
/* Process @pid asks to take over. Returns its end of the channel, or -errno with a sentence. */
int rdt_give_begin(struct rdt_give *give, pid_t pid, bool check, bool force, char *why,
		   size_t size);
/* Is it being handed over, or was it? */
bool rdt_give_runs(const struct rdt_give *give);
/* Before the commit: no hand-over any more, because of @why. After it: nothing. */
void rdt_give_cancel(struct rdt_give *give, const char *why);
void rdt_give_drained(struct rdt_give *give); /* no queue pair is left */

#endif /* RDT_GIVE_H */
