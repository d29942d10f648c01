/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the configuration again and applying it, once for everybody who asks meanwhile. One that
 * is asked for while another runs begins after that: the file may have changed since it was read.
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

/* Somebody who wants to know how a reload ended. Embedded in the object of the one who asks. */
struct rdt_reload_waiter {
	void (*done)(struct rdt_reload_waiter *waiter, const struct rdt_reload_result *result);
	TAILQ_ENTRY(rdt_reload_waiter) link;
	bool waits;
};

struct rdt_reloader {
	/* set by its owner */
	struct rdt_target *target;
	const char *path;
	void (*begins)(struct rdt_reloader *reloader);
	void (*ended)(struct rdt_reloader *reloader, const struct rdt_reload_result *result);

	/* the reloader's */
	struct rdt_loader loader;
	struct rdt_report report; /* of the one that runs */
	bool running;
	bool again;
	time_t last_at; /* the end of the last one; 0: there was none */
	bool last_applied;
	char last_summary[480];
	TAILQ_HEAD(rdt_reload_waiters, rdt_reload_waiter) waiters; /* for the one that runs */
	struct rdt_reload_waiters later;                           /* for the next one */
};

/* With @target, @path, @begins and @ended set. Returns 0 or -ENOMEM. */
int rdt_reloader_init(struct rdt_reloader *reloader);
/* @waiter: called once, on the main loop, unless it is cancelled before; or NULL. */
void rdt_reloader_start(struct rdt_reloader *reloader, struct rdt_reload_waiter *waiter);
void rdt_reloader_cancel(struct rdt_reloader *reloader, struct rdt_reload_waiter *waiter);
/* Nothing more is read or called; waits for the thread that reads. To repeat it does no harm. */
void rdt_reloader_stop(struct rdt_reloader *reloader);

#endif /* RDT_RELOADER_H */
