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

/*
 * Settings that a part of the target can change while it runs. A function is called with the values
 * last applied and the new ones, and makes the change through control functions of that part. It
 * returns the number of settings changed, or -errno after it has logged the reason by
 * rdt_reload_problem(). A new one needs a line in reload.c.
 */
typedef int (*rdt_reload_target_fn)(struct rdt_reload *rl, struct rdt_target *t,
				    const struct rdt_config *now, const struct rdt_config *next);
typedef int (*rdt_reload_subsys_fn)(struct rdt_reload *rl, struct rdt_subsys *ss,
				    const struct rdt_subsys_config *now,
				    const struct rdt_subsys_config *next);
typedef int (*rdt_reload_ns_fn)(struct rdt_reload *rl, struct rdt_ns *ns,
				const struct rdt_ns_config *now, const struct rdt_ns_config *next);

/* Logs "reload: " and the sentence. */
__attribute__((format(printf, 2, 3))) void rdt_reload_problem(struct rdt_reload *rl,
							      const char *fmt, ...);
/* The configuration that is being applied, for those that take a reference. */
struct rdt_config *rdt_reload_next(const struct rdt_reload *rl);

/* reload_restart.c; @where: "target:", "control:" or an NQN */
typedef void (*rdt_restart_fn)(void *arg, const char *where, const char *key);
/* Tells @fn each key, but those of subsystems, that differs from @now, the configuration of the
 * start, and stays as it is in a reload. */
void rdt_restart_keys(const struct rdt_config *now, const struct rdt_config *next,
		      rdt_restart_fn fn, void *arg);
void rdt_restart_subsys_keys(const struct rdt_subsys *ss, const struct rdt_subsys_config *next,
			     rdt_restart_fn fn, void *arg);
#define RDT_RESTART_TEXT 512u
void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT]);

/* reload_paths.c */
int rdt_reload_referrals(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
			 const struct rdt_config *next);
int rdt_reload_ctrls(struct rdt_reload *rl, struct rdt_subsys *ss,
		     const struct rdt_subsys_config *now, const struct rdt_subsys_config *next);

/* reload_ns.c */
/* Can "read_only" of @ns change to that of @next without opening the storage again? */
bool rdt_reload_can_protect(const struct rdt_ns *ns, const struct rdt_ns_config *next);
int rdt_reload_ns_protect(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
			  const struct rdt_ns_config *next);
int rdt_reload_ns_ana(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next);

/* reload_auth.c */
int rdt_reload_hosts(struct rdt_reload *rl, struct rdt_subsys *ss,
		     const struct rdt_subsys_config *now, const struct rdt_subsys_config *next);
int rdt_reload_discovery(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
			 const struct rdt_config *next);

/* reload_http.c */
int rdt_reload_http(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
		    const struct rdt_config *next);

/* reload_qos.c */
bool rdt_reload_same_limits(const struct rdt_qos_config *a, const struct rdt_qos_config *b);
int rdt_reload_ns_qos(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next);
int rdt_reload_host_qos(struct rdt_reload *rl, struct rdt_subsys *ss,
			const struct rdt_subsys_config *now, const struct rdt_subsys_config *next);

#endif /* RDT_RELOAD_H */
