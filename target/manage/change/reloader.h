/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The desired state, as texts, and the changes of it (change.h): the file, read again once for all
 * who asked before that began, and what the control socket asks for. They are loaded and begun one
 * after the other; whoever asked is told when the objects have settled, which delays no later one.
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

/* How the last reload of the file has ended; changes by the control socket are none. */
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
	void (*begins)(struct rdt_reloader *reloader); /* the file is read */
	void (*ended)(struct rdt_reloader *reloader, const struct rdt_change *change);
	/* The texts of the desired state; the reloader owns them from rdt_reloader_init() on. */
	struct rdt_config_texts wanted;

	/* private to the reloader */
	TAILQ_HEAD(rdt_changes, rdt_change) queue;
	struct rdt_change *current; /* LOADING, WALKING or SAVING; NULL: none */
	struct rdt_job job;         /* loads or saves @current */
	bool working;               /* @job runs */
	bool stopped;
	bool ready;         /* rdt_reloader_init() was called */
	const char *frozen; /* why; NULL: it is not */
	struct rdt_last_reload last;
	time_t good_at;       /* when the file was last applied without a problem, or the start */
	unsigned int unsaved; /* changes that were applied and not saved */
	char *unsaved_names[RDT_UNSAVED_NAMED];
};

/* @target, @path, @begins and @ended are set. */
void rdt_reloader_init(struct rdt_reloader *reloader);
/* Was the file as it was last read applied without a problem? */
bool rdt_reloader_good(const struct rdt_reloader *reloader);
/*
 * Queue @change, which the reloader owns from now on; NULL: read the file. @done is called once, on
 * the main loop or before this returns, unless rdt_reloader_forget() is called before; @early: when
 * the change has begun. NULL: nobody waits. Returns 0 or -ENOMEM; then nothing is done.
 */
int rdt_reloader_start(struct rdt_reloader *reloader, struct rdt_change *change, bool early,
		       void (*done)(void *arg, const struct rdt_change *change), void *arg);
void rdt_reloader_forget(struct rdt_reloader *reloader, const void *arg);
/* From now on requests are refused, with @why, a constant; what runs goes on to its end. NULL: no
 * longer. */
void rdt_reloader_freeze(struct rdt_reloader *reloader, const char *why);
/* Nothing is called any more. Frees all, or does so when the job ends that runs: rdt_jobs_end(). */
void rdt_reloader_stop(struct rdt_reloader *reloader);

#endif /* RDT_RELOADER_H */
