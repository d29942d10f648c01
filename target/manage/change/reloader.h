/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The desired state, as texts, and the queue of its changes (change.h): reloads of the file, of
 * which those that have not begun are merged, and requests of the control socket. Changes are
 * loaded and started one after the other; a change whose objects have not settled delays no later
 * one.
 *
 * Main thread only.
 */
#ifndef RDT_RELOADER_H
#define RDT_RELOADER_H

#include <stdbool.h>
#include <sys/queue.h>
#include <time.h>

#include "change.h"
#include "target/bdev/jobs.h"

#define RDT_UNSAVED_NAMED 32u

/* The result of the last reload of the file, without changes by the control socket. */
struct rdt_last_reload {
	time_t at; /* 0: none yet */
	bool applied;
	unsigned int problems;
	char summary[480];
	char reason[512]; /* its first problem, or "" */
};

struct rdt_reloader {
	/* set by the owner */
	struct rdt_target *target;
	const char *path;
	void (*begins)(struct rdt_reloader *reloader); /* a reload of the file begins */
	void (*ended)(struct rdt_reloader *reloader, const struct rdt_change *change);
	/* The texts of the desired state; owned by the reloader after rdt_reloader_init(). */
	struct rdt_config_texts wanted;

	/* private to the reloader */
	TAILQ_HEAD(rdt_changes, rdt_change) queue;
	struct rdt_change *current; /* LOADING, WALKING or SAVING; NULL: none */
	struct rdt_job job;         /* loads or saves @current */
	bool working;               /* @job runs */
	bool stopped;
	bool ready;         /* rdt_reloader_init() was called */
	const char *frozen; /* why requests are refused; NULL: they are not */
	struct rdt_last_reload last;
	time_t good_at;       /* when the file was last applied without a problem, or the start */
	unsigned int unsaved; /* changes that were applied and not saved */
	char *unsaved_names[RDT_UNSAVED_NAMED];
};

/* The caller has set @target, @path, @begins and @ended. */
void rdt_reloader_init(struct rdt_reloader *reloader);
/* Whether the last reload of the file, or the start, had no problem. */
bool rdt_reloader_good(const struct rdt_reloader *reloader);
/*
 * Queue @change, which the reloader owns from now on; NULL: reload the file. Calls @done once, from
 * the main loop or before this returns, unless rdt_reloader_forget() is called first; with @early,
 * when the operations are started. NULL: no answer is needed. Returns 0 or -ENOMEM; then nothing is
 * done.
 */
int rdt_reloader_start(struct rdt_reloader *reloader, struct rdt_change *change, bool early,
		       void (*done)(void *arg, const struct rdt_change *change), void *arg);
void rdt_reloader_forget(struct rdt_reloader *reloader, const void *arg);
/* Refuse new requests with the reason @why, a constant; NULL: accept them. Running changes
 * continue. */
void rdt_reloader_freeze(struct rdt_reloader *reloader, const char *why);
/* Makes no further call. Frees everything, now or at the end of a job: rdt_jobs_end(). */
void rdt_reloader_stop(struct rdt_reloader *reloader);

#endif /* RDT_RELOADER_H */
