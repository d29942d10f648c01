/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UUIDs of namespaces. A UUID belongs to a volume (a path, an image, an export), and a file in
 * target.state_dir stores it: docs/design/identity.md. The other files of a UUID there, for
 * reservations and write protection, are removed when no namespace uses it any more.
 *
 * Threads: main thread only. A struct rdt_identity does not change while a namespace that reactors
 * know refers to it, so they read it without a lock.
 */
#ifndef RDT_IDENTITY_H
#define RDT_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "target/config/config.h"
#include "state.h"

#define RDT_IDENTITY_FILE  "identities.json"
#define RDT_IDENTITIES_MAX 65536u /* volumes in the file */
#define RDT_UUID_TEXT      37

struct rdt_identities;

enum rdt_identity_from {
	RDT_IDENTITY_CONFIG,  /* "uuid" of the configuration */
	RDT_IDENTITY_DERIVED, /* derived from NQN and NSID */
	RDT_IDENTITY_RECORD,  /* kept in state_dir */
};

enum rdt_identity_state {
	RDT_IDENTITY_NEW,   /* to be written -> KEPT, or ENDED if it is no longer used */
	RDT_IDENTITY_KEPT,  /* namespaces may use it. No longer used -> ENDED */
	RDT_IDENTITY_ENDED, /* its end has to be written -> EMPTYING */
	/* No leaving namespace uses it any more: its files are removed. Then freed, or -> NEW if it
	 * is used again */
	RDT_IDENTITY_EMPTYING,
};

enum { RDT_BY_UUID, RDT_BY_VOLUME, RDT_BY };

struct rdt_identity {
	uint8_t uuid[16];
	char text[RDT_UUID_TEXT];
	bool nguid; /* the UUID is also the NGUID */

	/* private to identity.c and identity_file.c */
	enum rdt_identity_state state;
	char *volume; /* NULL: not in the file */
	char *nqn;    /* NQN of the last namespace; valid with @volume */
	uint32_t nsid;
	char *line;                     /* its line in the file; NULL: none */
	struct rdt_identity_user *user; /* the namespace that uses it, or NULL */
	unsigned int refs; /* number of namespaces that refer to it, including leaving ones */
	bool left;         /* in identities->left */
	bool due;          /* in identities->due */
	bool removing;     /* @job is in progress */
	uint64_t seq;      /* with @due: the number of the write with its state */
	unsigned int file; /* EMPTYING: the index of the file that @job removes */
	struct rdt_identity *next[RDT_BY]; /* with the same hash */
	struct rdt_identities *of;
	TAILQ_ENTRY(rdt_identity) link, left_link, due_link;
	struct rdt_state_job job;
};

/* Embedded in a namespace. */
struct rdt_identity_user {
	/* set by the owner */
	const char *nqn;
	const struct rdt_ns_config *cfg;
	bool several; /* several targets serve it: rdt_config_several() */
	/* Called once after rdt_identity_ask() has returned -EINPROGRESS. @err: 0: ask again; or
	 * -errno with a sentence in @why. */
	void (*done)(struct rdt_identity_user *user, int err, const char *why);

	struct rdt_identity *id; /* NULL: not known yet */
	enum rdt_identity_from from;

	/* private to identity.c */
	bool waits;
	bool settled; /* no namespace with its volume or UUID is about to leave */
	TAILQ_ENTRY(rdt_identity_user) link;
};

/* A change that has ended identities. Embedded in an object of its owner. */
struct rdt_identity_end {
	/* Called when their end is on stable storage; otherwise with -errno and a sentence in
	 * @why. */
	void (*done)(struct rdt_identity_end *end, int err, const char *why);

	/* private to identity.c */
	uint64_t seq;
	TAILQ_ENTRY(rdt_identity_end) link;
};

/* Create the identities and begin to read the file. @state: NULL: nothing is stored. */
int rdt_identities_new(struct rdt_state *state, struct rd_log *log, struct rd_loop *loop,
		       struct rdt_identities **out);
/* Called after @state was closed, without users. Accepts NULL. */
void rdt_identities_free(struct rdt_identities **ids);

/* Ask whether the namespace of @user may be served, with user->id. Returns 0: yes; -EINPROGRESS:
 * user->done() is called later; or -errno with a sentence in @why, after which the caller may ask
 * again. From the first call until rdt_identity_leave(), the identity belongs to the namespace. */
int rdt_identity_ask(struct rdt_identities *ids, struct rdt_identity_user *user, char *why,
		     size_t size);
/* The namespace is being removed; another one may have its identity. */
void rdt_identity_leave(struct rdt_identities *ids, struct rdt_identity_user *user);
/* The namespace is freed. */
void rdt_identity_put(struct rdt_identities *ids, struct rdt_identity_user *user);
/* The namespace that @nqn and @cfg describe is configured, but does not exist because memory was
 * short. */
void rdt_identity_spare(struct rdt_identities *ids, const char *nqn,
			const struct rdt_ns_config *cfg);
/* All configured namespaces have asked, and the others have left: end the identities that were left
 * since the last call, with their reservations and write protection, or keep them for namespaces
 * that may return (@keep). Returns true if end->done() will be called. */
bool rdt_identities_settle(struct rdt_identities *ids, bool keep, struct rdt_identity_end *end);

const char *rdt_identity_from_name(enum rdt_identity_from from); /* as in rdctl(1) */

/* ---- identity_file.c ---- */

/* Generates id->line. Returns 0 or -ENOMEM. */
int rdt_identity_line(struct rdt_identity *id);
/* Returns the text of the file, with the lines in the order of @list. */
TAILQ_HEAD(rdt_identity_list, rdt_identity);
int rdt_identity_write(const struct rdt_identity_list *list, char **text, size_t *len);
/* Append the entries of the file to @list, with uuid, nguid, volume, nqn and nsid, or as ENDED. On
 * failure nothing is added, and @why has a sentence. */
int rdt_identity_read(const char *text, size_t len, struct rdt_identity_list *list, char *why,
		      size_t size);
/* Check the file in @dir, which may be missing. Returns like rdt_identity_read(). Any thread. */
int rdt_identity_check(const char *dir, char *why, size_t size);
void rdt_identity_free(struct rdt_identity *id); /* @id must be in no list */
void rdt_identity_free_all(struct rdt_identity_list *list);

#endif /* RDT_IDENTITY_H */
