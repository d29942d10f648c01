/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards: ranges of blocks that a lost command may still change. The target may execute a command
 * after its connection was lost; a newer command for the same blocks has to wait until that cannot
 * happen any more. One list for each device, for all its channels.
 *
 * A guard ends with its command, if that is sent again; else when its time is over.
 */
#ifndef RDI_DEV_GUARD_H
#define RDI_DEV_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct rdi_guard {
	TAILQ_ENTRY(rdi_guard) link;
	uint64_t lba;
	uint64_t nblocks;
	uint64_t safe_at;  /* ns: from then on the lost command cannot be executed */
	unsigned int path; /* that it was lost on, */
	uint32_t epoch;    /* in this association */
	bool resend;       /* the command waits to be sent again: the guard ends with it */
};

struct rdi_guards {
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdi_guard) list; /* in the order of losses */
	/* Guards in the list, and one while @all_until is set. 0: nothing to look at. */
	_Atomic unsigned int count;
	uint64_t all_until; /* ns: all blocks are guarded until then, for lack of memory; 0: no */
};

void rdi_guards_init(struct rdi_guards *g);
void rdi_guards_fini(struct rdi_guards *g);
/* Add a copy of @what. NULL: no memory; then all blocks are guarded until its safe_at. */
struct rdi_guard *rdi_guards_add(struct rdi_guards *g, const struct rdi_guard *what);
/* A command that was sent again is lost again: @what it is guarded by now. */
void rdi_guards_renew(struct rdi_guards *g, struct rdi_guard *guard, const struct rdi_guard *what);
/* The command has ended with an answer. Accepts NULL. */
void rdi_guards_end(struct rdi_guards *g, struct rdi_guard *guard);
/* The command has ended without an answer: the guard stays for its time. Accepts NULL. */
void rdi_guards_leave(struct rdi_guards *g, struct rdi_guard *guard);
/*
 * Has a command for these blocks to wait? @mine: its own guard or NULL; then only older guards
 * count, so that two lost commands do not wait for each other.
 */
bool rdi_guards_block(struct rdi_guards *g, uint64_t lba, uint64_t nblocks,
		      const struct rdi_guard *mine, uint64_t now);

#endif /* RDI_DEV_GUARD_H */
