/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A change of the desired state: one object from the request until all objects of the target that
 * differ have settled. reloader.h queues and loads it, converge.c has the objects follow.
 *
 * Main thread only.
 */
#ifndef RDT_CHANGE_H
#define RDT_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include <jansson.h>

#include "nvmf/text.h"
#include "target/config/config.h"
#include "target/config/config_edit.h"
#include "target/reactor/lifecycle.h"
#include "target/resv/identity.h"
#include "report.h"

struct rdt_change;
struct rdt_change_part;
struct rdt_reloader;
struct rdt_target;

enum rdt_change_kind {
	RDT_CHANGE_FILE,     /* the file is read */
	RDT_CHANGE_EDIT,     /* edits of the texts that were loaded last */
	RDT_CHANGE_DOCUMENT, /* a document in the place of the top file */
	RDT_CHANGE_SAVE,     /* the texts are written; nothing else changes */
};

enum rdt_change_state {
	RDT_CHANGE_QUEUED,   /* its turn -> LOADING, SAVING; the target is drained -> TOLD */
	RDT_CHANGE_LOADING,  /* a thread reads and checks -> WALKING; refused, no change -> TOLD */
	RDT_CHANGE_WALKING,  /* what differs is begun -> SAVING, SETTLING; refused -> TOLD */
	RDT_CHANGE_SAVING,   /* a thread writes files -> SETTLING, TOLD */
	RDT_CHANGE_SETTLING, /* objects are in progress, the next change runs -> TOLD */
	RDT_CHANGE_TOLD,     /* whoever asked was told; freed when the last object has settled */
};

/* What converge.c does with one namespace. */
enum rdt_part_kind {
	RDT_PART_ADD,
	RDT_PART_REPLACE,
	RDT_PART_CLEAR,
	RDT_PART_REMOVE,
	RDT_PART_RETRY,
	RDT_PART_WAIT,
	RDT_PART_SIZE,
	RDT_PARTS
};

/* Who asked for a change. */
struct rdt_change_waiter {
	void (*done)(void *arg, const struct rdt_change *change);
	void *arg;
	bool early; /* told when it has begun, whatever its objects do */
	STAILQ_ENTRY(rdt_change_waiter) link;
};

struct rdt_change {
	enum rdt_change_kind kind;
	enum rdt_change_state state;

	/* What is asked for */
	char *what; /* for messages: the method and its parameters; NULL: the file */
	bool dry_run;
	bool save;                     /* when it was begun */
	bool keep_state;               /* of what is removed: reservations and the like, its UUID */
	struct rdt_config_edit *edits; /* EDIT; allocated with room */
	unsigned int edits_count;
	/* EDIT: the namespace whose storage is looked at, too; NSID 0: none */
	char look_nqn[NVMF_NQN_MAX + 1];
	uint32_t look_nsid;
	char *document; /* DOCUMENT */
	size_t document_len;
	unsigned int matched; /* for who asked */

	/* What has become of it */
	bool applied; /* false: nothing was changed */
	bool changed; /* the texts differ */
	bool saved;
	/* -errno: of rdt_config_edit() for edits[at_edit], -EINVAL when the configuration would
	 * have problems, -EBUSY: the target is drained */
	int err;
	int save_err; /* of rdt_config_save() */
	unsigned int at_edit;
	unsigned int at_step;
	unsigned int problems;
	unsigned int restarts;    /* changes that need a restart */
	unsigned int going_on;    /* objects that have not settled */
	json_t *differences;      /* of a dry run */
	struct rdt_report report; /* the problems, and what needs a restart */
	char summary[480];        /* the sentence that was logged */

	/* The reloader's; NULL: it is applied without one */
	struct rdt_reloader *reloader;
	TAILQ_ENTRY(rdt_change) queued; /* QUEUED */
	STAILQ_HEAD(, rdt_change_waiter) waiters;
	struct rdt_config *now;        /* LOADING: what runs; a reference of the main thread */
	struct rdt_config *next;       /* a reference; NULL: nothing is to be applied */
	struct rdt_config_texts texts; /* of @next, until they are the desired ones */

	/* Called by converge.c. @begun: everything is begun, and rdt_change_settle() follows; NULL:
	 * at once. @settled: all objects have settled, or some take long, or nothing was changed.
	 */
	void (*begun)(struct rdt_change *change);
	void (*settled)(struct rdt_change *change);
	void *arg;

	/* private to converge.c */
	struct rdt_target *t;
	LIST_ENTRY(rdt_change) converging;        /* target->changes */
	const struct rdt_subsys_config **next_of; /* by subsys->index; NULL: removed */
	struct rd_defer step;
	unsigned int walk;     /* which one runs */
	unsigned int at;       /* index of the subsystem, or slot of the namespace */
	uint32_t ns_at;        /* index of the namespace in the configuration of that subsystem */
	struct rd_timer timer; /* WALKING: it waits for reactors; SETTLING: the end of waiting */
	LIST_HEAD(, rdt_change_part) parts; /* that have not ended */
	unsigned int waiting;               /* their number, and @end */
	unsigned int ended[RDT_PARTS];
	unsigned int resized, settings, subsys_added, subsys_removed;
	struct rdt_identity_end end; /* of what is removed */
	struct rdt_listeners_change listeners;
};

/* NULL: no memory. @what: taken over. */
struct rdt_change *rdt_change_new(enum rdt_change_kind kind, char *what, unsigned int edits);
void rdt_change_free(struct rdt_change *change); /* accepts NULL; not while it converges */
/* "refused": nothing was changed; else what has become of the objects: "failed", "in progress" or
 * "done". */
const char *rdt_change_outcome(const struct rdt_change *change);

/*
 * Make change->next the desired state, and have all objects follow: what can change is changed
 * while hosts go on; problems and what needs a restart are added to the report, and the log says
 * the same. Also the sizes of files are looked at, and what is FAILED is tried at once, of an edit
 * only for the namespace that it names for that. Not before the one before has begun. Frees @change
 * in the end. Asynchronous: settled() is called once, from the main loop or before the call
 * returns, unless the target is drained before.
 */
void rdt_converge(struct rdt_target *t, struct rdt_change *change);
void rdt_change_settle(struct rdt_change *change);
/* The target is stopped, and rdt_jobs_end() was called; frees those that converge. */
void rdt_converge_fini(struct rdt_target *t);

/* Says that the key needs a restart. @where: "target:", "control:" or an NQN */
#define RDT_RESTART_TEXT 512u
void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT]);

#endif /* RDT_CHANGE_H */
