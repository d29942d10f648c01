/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One change of the desired state, from the request until every affected object has settled.
 * reloader.h queues and loads changes; converge.c applies them.
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
	RDT_CHANGE_FILE,     /* read the configuration file again */
	RDT_CHANGE_EDIT,     /* edit the texts that were loaded last */
	RDT_CHANGE_DOCUMENT, /* replace the top file by a document */
	RDT_CHANGE_SAVE,     /* write the texts to their files, and change nothing else */
};

enum rdt_change_state {
	RDT_CHANGE_QUEUED,   /* first in the queue -> LOADING, SAVING; target drained -> ANSWERED */
	RDT_CHANGE_LOADING,  /* a thread reads it -> WALKING; refused or no change -> ANSWERED */
	RDT_CHANGE_WALKING,  /* operations are started -> SAVING, SETTLING; refused -> ANSWERED */
	RDT_CHANGE_SAVING,   /* a thread writes files -> SETTLING, ANSWERED */
	RDT_CHANGE_SETTLING, /* operations are in progress, the next change runs -> ANSWERED */
	RDT_CHANGE_ANSWERED, /* all requesters have their answer; freed when every object has
				settled */
};

/* The operation of converge.c on one namespace. */
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

/* A requester of a change. */
struct rdt_change_waiter {
	void (*done)(void *arg, const struct rdt_change *change);
	void *arg;
	bool early; /* answered once the operations are started */
	STAILQ_ENTRY(rdt_change_waiter) link;
};

struct rdt_change {
	enum rdt_change_kind kind;
	enum rdt_change_state state;

	/* The request */
	char *what; /* for messages: the method and its parameters; NULL: a reload */
	bool dry_run;
	bool save;                     /* write the files once the operations are started */
	bool keep_state;               /* keep reservations, UUID etc. of removed objects */
	struct rdt_config_edit *edits; /* EDIT; room for those announced to rdt_change_new() */
	unsigned int edits_count;
	/* EDIT: also check the storage of this namespace; NSID 0: none */
	char check_nqn[NVMF_NQN_MAX + 1];
	uint32_t check_nsid;
	char *document; /* DOCUMENT */
	size_t document_len;
	unsigned int matched; /* for the requester: number of matching objects */

	/* The result */
	bool applied; /* false: nothing was changed */
	bool changed; /* the texts differ */
	bool saved;
	/* -errno: of rdt_config_edit() for edits[at_edit]; -EINVAL: the new configuration is
	 * invalid; -EBUSY: the target is drained */
	int err;
	int save_err; /* of rdt_config_save() */
	unsigned int at_edit;
	unsigned int at_step;
	unsigned int problems;
	unsigned int restarts;    /* changes that need a restart */
	unsigned int in_progress; /* objects that have not settled */
	json_t *differences;      /* the result of a dry run */
	struct rdt_report report; /* problems, and keys that need a restart */
	char summary[480];        /* the result as logged */

	/* For the reloader; NULL: applied without a reloader */
	struct rdt_reloader *reloader;
	TAILQ_ENTRY(rdt_change) queued; /* QUEUED */
	STAILQ_HEAD(, rdt_change_waiter) waiters;
	struct rdt_config
		*now; /* LOADING: the running configuration; a reference of the main thread */
	struct rdt_config *next;       /* a reference; NULL: there is nothing to apply */
	struct rdt_config_texts texts; /* of @next, until they become reloader->wanted */

	/* Called by converge.c. @begun: all operations are started; calls rdt_change_settle() now
	 * or later. NULL: converge.c calls it at once. @settled: all objects have settled, or
	 * SETTLE has passed, or the change was refused. */
	void (*begun)(struct rdt_change *change);
	void (*settled)(struct rdt_change *change);
	void *arg;

	/* private to converge.c */
	struct rdt_target *t;
	LIST_ENTRY(rdt_change) converging;        /* target->changes */
	const struct rdt_subsys_config **next_of; /* [subsys->index]; NULL: remove the subsystem */
	struct rd_defer step;
	unsigned int walk;     /* index of the current walk */
	unsigned int at;       /* subsystem index, or namespace slot */
	uint32_t ns_at;        /* index of the namespace in that subsystem's configuration */
	struct rd_timer timer; /* WALKING: wait for reactors; SETTLING: timeout */
	LIST_HEAD(, rdt_change_part) parts; /* operations in progress */
	unsigned int waiting;               /* number of @parts, plus 1 while @end is in progress */
	unsigned int ended[RDT_PARTS];
	unsigned int resized, settings, subsys_added, subsys_removed;
	struct rdt_identity_end end; /* stored state of removed objects */
	struct rdt_listeners_change listeners;
};

/* Takes ownership of @what. Returns NULL without memory. */
struct rdt_change *rdt_change_new(enum rdt_change_kind kind, char *what, unsigned int edits);
void rdt_change_free(struct rdt_change *change); /* accepts NULL; not while it converges */
/* "refused" (nothing was changed), "failed", "in progress" or "done". */
const char *rdt_change_outcome(const struct rdt_change *change);

/*
 * Make change->next the desired state and start what brings all objects to it, while hosts keep
 * their connections. Problems, and keys that need a restart, go to the report and the log. Sizes of
 * files are read again and FAILED namespaces are retried; by an edit only those of the namespace
 * check_nqn, check_nsid. Call it only after the previous change has reached begun(). Frees @change
 * in the end. Asynchronous: settled() is called once, from the main loop or before this returns,
 * but not if the target is drained first.
 */
void rdt_converge(struct rdt_target *t, struct rdt_change *change);
void rdt_change_settle(struct rdt_change *change);
/* Frees unfinished changes, after the target has stopped and rdt_jobs_end() has returned. */
void rdt_converge_fini(struct rdt_target *t);

/* Writes that @key needs a restart into @text. @where: "target:", "control:" or an NQN. */
#define RDT_RESTART_TEXT 512u
void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT]);

#endif /* RDT_CHANGE_H */
