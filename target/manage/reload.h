/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies a new configuration to a running target. What can change is changed while hosts go on.
 * Other changes are logged as needing a restart, and the old value stays.
 *
 * Main thread only.
 */
#ifndef RDT_RELOAD_H
#define RDT_RELOAD_H

#include <stdbool.h>

#include "target/config/config.h"

struct rdt_change;
struct rdt_ns;
struct rdt_reload;
struct rdt_report;
struct rdt_subsys;
struct rdt_target;

struct rdt_reload_result {
	bool applied; /* false: nothing was changed */
	unsigned int problems;
	unsigned int restarts;           /* changes that need a restart */
	unsigned int going_on;           /* objects that have not settled */
	const struct rdt_report *report; /* the problems and those changes; as @summary */
	const char *summary;             /* the sentence that was logged; valid during the call */
	const struct rdt_change *change; /* what was applied, with its result; NULL: the file */
};
typedef void (*rdt_reload_done)(void *arg, const struct rdt_reload_result *result);
/* "refused": nothing was changed; else what has become of the objects: "failed", "in progress" or
 * "done". */
const char *rdt_reload_outcome(const struct rdt_reload_result *result);

struct rdt_reload_how {
	bool looks;      /* also at the sizes of files, and what is FAILED is tried at once */
	bool keep_state; /* of what is removed: reservations and write protection, and its UUID */
	/* Everything is begun, so the next reload may start; not when nothing was changed. May be
	 * NULL. */
	void (*applied)(void *arg);
	rdt_reload_done done; /* all objects have settled, or some take long */
	void *arg;
};

/*
 * Make @next the desired state; problems and what needs a restart are added to @report, which
 * exists until done(). The caller keeps its reference. Not before the one before was applied or is
 * done. Asynchronous: done() is called once, from the main loop or before the call returns, unless
 * the target is drained before. The log says the same.
 */
void rdt_reload(struct rdt_target *t, struct rdt_config *next, struct rdt_report *report,
		const struct rdt_reload_how *how);
/* The target is stopped, and rdt_jobs_end() was called; frees those that run. */
void rdt_reload_fini(struct rdt_target *t);

/* Says that the key needs a restart. @where: "target:", "control:" or an NQN */
#define RDT_RESTART_TEXT 512u
void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT]);

#endif /* RDT_RELOAD_H */
