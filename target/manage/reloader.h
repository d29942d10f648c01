/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to change the desired state: the file, read again for all requests that arrived
 * meanwhile, and changes of what was loaded last (change.h). They are loaded and begun one after
 * the other; whoever asked is told when the objects have settled, which delays no later request.
 *
 * Main thread only.
 */
#ifndef RDT_RELOADER_H
#define RDT_RELOADER_H

#include <stdbool.h>
#include <sys/queue.h>
#include <time.h>

#include "loader.h"
#include "reload.h"
#include "report.h"

struct rdt_change;

#define RDT_UNSAVED_NAMED 32u

TAILQ_HEAD(rdt_reload_waiters, rdt_reload_waiter);

/* A request for the result of a reload. Embedded in the object of the requester. */
struct rdt_reload_waiter {
	/* result->change: its change, or NULL */
	void (*done)(struct rdt_reload_waiter *waiter, const struct rdt_reload_result *result);
	struct rdt_change *change; /* NULL: read the file. The reloader owns it from the start on */
	TAILQ_ENTRY(rdt_reload_waiter) link;
	bool early; /* done() when its change has begun, whatever its objects do */
	bool waits;
	struct rdt_reload_waiters *in; /* the list that it is in */
};

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
	void (*ended)(struct rdt_reloader *reloader, const struct rdt_reload_result *result);
	/* The texts of the running configuration; the reloader owns them from
	 * rdt_reloader_init() on. */
	struct rdt_config_texts wanted;

	/* private to the reloader */
	struct rdt_loader loader;
	struct reloader_run *run;           /* is loaded, begun or saved; or NULL */
	LIST_HEAD(, reloader_run) settling; /* have begun, and their objects settle */
	bool ready;                         /* rdt_reloader_init() was called */
	bool frozen;
	struct rdt_last_reload last;
	time_t good_at; /* when the file was last applied without a problem, or the start */
	struct rdt_reload_waiter by_signal;
	struct rdt_reload_waiters queue;
	unsigned int unsaved; /* changes that were applied and not saved */
	char *unsaved_names[RDT_UNSAVED_NAMED];
};

/* @target, @path, @begins and @ended are set. */
void rdt_reloader_init(struct rdt_reloader *reloader);
/* Was the file as it was last read applied without a problem? */
bool rdt_reloader_good(const struct rdt_reloader *reloader);
/* @waiter: called once on the main loop or before this returns, unless it is cancelled before; may
 * be NULL. */
void rdt_reloader_start(struct rdt_reloader *reloader, struct rdt_reload_waiter *waiter);
void rdt_reloader_cancel(struct rdt_reloader *reloader, struct rdt_reload_waiter *waiter);
/* From now on requests are refused; what runs goes on to its end. Or no longer. */
void rdt_reloader_freeze(struct rdt_reloader *reloader, bool frozen);
/* Joins the loading thread; afterwards nothing is read or called. May be repeated. Returns false,
 * and frees nothing, when the thread has not ended within @wait ns. */
bool rdt_reloader_stop(struct rdt_reloader *reloader, uint64_t wait);

#endif /* RDT_RELOADER_H */
