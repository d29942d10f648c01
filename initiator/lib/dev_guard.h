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
	uint64_t safe_at;  /* ns; the lost command cannot be executed after this time */
	unsigned int path; /* path on which the command was lost */
	uint32_t epoch;    /* association in which it was lost */
	uint64_t gateway;  /* to which it was sent, if one at a time can write; else 0 */
	bool resend;       /* the command waits to be sent again, and ends the guard */
};

struct rdi_guards {
	pthread_mutex_t lock;
	TAILQ_HEAD(, rdi_guard) list; /* ordered by time of loss */
	/* Number of guards, plus one while @all_until is set. 0: nothing is guarded. */
	_Atomic unsigned int count;
	/* ns; all blocks are guarded until then because a guard could not be allocated; 0: not
	 * set */
	uint64_t all_until;
};

void rdi_guards_init(struct rdi_guards *g);
void rdi_guards_fini(struct rdi_guards *g);
/* Adds a copy of @what. Returns NULL without memory: all blocks are then guarded until its
 * safe_at. */
struct rdi_guard *rdi_guards_add(struct rdi_guards *g, const struct rdi_guard *what);
/* A command that was sent again was lost again: replaces its guard by @what. */
void rdi_guards_renew(struct rdi_guards *g, struct rdi_guard *guard, const struct rdi_guard *what);
/* The command has completed. NULL is allowed. */
void rdi_guards_end(struct rdi_guards *g, struct rdi_guard *guard);
/* The command has ended without a completion: the guard stays until its safe_at. NULL is
 * allowed. */
void rdi_guards_leave(struct rdi_guards *g, struct rdi_guard *guard);
/*
 * Does @gateway differ from the gateway to which the write of @guard was sent, and can only one of
 * them write? When it executes a command, the storage has refused the lost write permanently, or
 * has executed it before. @gateway 0: not known.
 */
bool rdi_guard_is_over_at(const struct rdi_guard *guard, uint64_t gateway);
/*
 * Whether a command for these blocks has to wait. @mine: the command's own guard or NULL; with a
 * guard, only older guards count, so that two lost commands do not wait for each other. @gateway:
 * to which the command is sent, if one at a time can write; else 0.
 */
bool rdi_guards_block(struct rdi_guards *g, uint64_t lba, uint64_t nblocks,
		      const struct rdi_guard *mine, uint64_t gateway, uint64_t now);

#endif /* RDI_DEV_GUARD_H */
