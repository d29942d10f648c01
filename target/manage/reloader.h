/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the configuration file again and applies it, once for all requests that arrive meanwhile. A
 * request during a reload starts another one after it, because the file may have changed since it
 * was read.
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

/* A request for the result of a reload. Embedded in the object of the requester. */
struct rdt_reload_waiter {
	void (*done)(struct rdt_reload_waiter *waiter, const struct rdt_reload_result *result);
	TAILQ_ENTRY(rdt_reload_waiter) link;
	bool waits;
};

struct rdt_reloader {
	/* set by the owner */
	struct rdt_target *target;
	const char *path;
	void (*begins)(struct rdt_reloader *reloader);
	void (*ended)(struct rdt_reloader *reloader, const struct rdt_reload_result *result);

	/* private to the reloader */
	struct rdt_loader loader;
	struct rdt_report report; /* of the running reload */
	bool running;
	bool again;
	time_t last_at; /* end of the last reload; 0: none yet */
	bool last_applied;
	char last_summary[480];
	/* Requests for the running reload */
	TAILQ_HEAD(rdt_reload_waiters, rdt_reload_waiter) waiters;
	struct rdt_reload_waiters later; /* requests for the next one */
};

/* @target, @path, @begins and @ended are set. Returns 0 or -ENOMEM. */
int rdt_reloader_init(struct rdt_reloader *reloader);
/* @waiter: called once on the main loop, unless it is cancelled before; may be NULL. */
void rdt_reloader_start(struct rdt_reloader *reloader, struct rdt_reload_waiter *waiter);
void rdt_reloader_cancel(struct rdt_reloader *reloader, struct rdt_reload_waiter *waiter);
/* Joins the loading thread; afterwards nothing is read or called. May be repeated. */
void rdt_reloader_stop(struct rdt_reloader *reloader);

#endif /* RDT_RELOADER_H */
