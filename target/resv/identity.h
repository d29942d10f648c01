/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which UUID a namespace has. It belongs to its volume (a path, an image, an export), and a file in
 * target.state_dir keeps it: docs/design/identity.md. What other files there keep of a UUID, its
 * reservations and write protection, ends when no namespace is wanted with it any more.
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
	RDT_IDENTITY_DERIVED, /* made of NQN and NSID */
	RDT_IDENTITY_RECORD,  /* kept in state_dir */
};

enum rdt_identity_state {
	RDT_IDENTITY_NEW,   /* to be written: -> KEPT, or ENDED when it is not wanted any more */
	RDT_IDENTITY_KEPT,  /* namespaces may have it. Not wanted any more -> ENDED */
	RDT_IDENTITY_ENDED, /* that it has ended is to be written: -> EMPTYING */
	/* No namespace that leaves has it any more: its files are removed. Then freed, or -> NEW
	 * when one is wanted with it again */
	RDT_IDENTITY_EMPTYING,
};

enum { RDT_BY_UUID, RDT_BY_VOLUME, RDT_BY };

struct rdt_identity {
	uint8_t uuid[16];
	char text[RDT_UUID_TEXT];
	bool nguid; /* the UUID is the NGUID too */

	/* private to identity.c and identity_file.c */
	enum rdt_identity_state state;
	char *volume; /* NULL: the file does not keep it */
	char *nqn;    /* of the last namespace; with @volume */
	uint32_t nsid;
	char *line;                        /* of the file; NULL: none */
	struct rdt_identity_user *user;    /* the namespace that is wanted with it, or NULL */
	unsigned int refs;                 /* namespaces that have it, also those that leave */
	bool left;                         /* in identities->left */
	bool due;                          /* in identities->due */
	bool removing;                     /* @job is on its way */
	uint64_t seq;                      /* due: the write that tells its state */
	unsigned int file;                 /* EMPTYING: which one @job removes */
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
	/* After rdt_identity_ask() has returned -EINPROGRESS, once: 0: ask again; or -errno and a
	 * sentence. */
	void (*done)(struct rdt_identity_user *user, int err, const char *why);

	struct rdt_identity *id; /* NULL: not known yet */
	enum rdt_identity_from from;

	/* private to identity.c */
	bool waits;
	bool settled; /* no other one that has its volume or its UUID is about to leave */
	TAILQ_ENTRY(rdt_identity_user) link;
};

/* A change that has ended identities. Embedded in the object of its owner. */
struct rdt_identity_end {
	/* It is on stable storage that they have ended; or -errno and a sentence */
	void (*done)(struct rdt_identity_end *end, int err, const char *why);

	/* private to identity.c */
	uint64_t seq;
	TAILQ_ENTRY(rdt_identity_end) link;
};

/* @state: NULL: nothing is kept. It begins to read the file. */
int rdt_identities_new(struct rdt_state *state, struct rd_log *log, struct rd_loop *loop,
		       struct rdt_identities **out);
/* After @state was closed, without users. Accepts NULL. */
void rdt_identities_free(struct rdt_identities **ids);

/*
 * May the namespace of @user be served, with user->id? 0: yes. -EINPROGRESS: user->done() is called
 * later. -errno: no, with a sentence in @why; may be asked again. From the first call on the
 * identity is the namespace's, until rdt_identity_leave().
 */
int rdt_identity_ask(struct rdt_identities *ids, struct rdt_identity_user *user, char *why,
		     size_t size);
/* The namespace is not wanted any more; another one may have its identity. */
void rdt_identity_leave(struct rdt_identities *ids, struct rdt_identity_user *user);
/* The namespace is freed. */
void rdt_identity_put(struct rdt_identities *ids, struct rdt_identity_user *user);
/* The namespace that @nqn and @cfg describe is wanted, but does not exist for want of memory. */
void rdt_identity_spare(struct rdt_identities *ids, const char *nqn,
			const struct rdt_ns_config *cfg);
/*
 * All that is wanted has asked, and the rest has left: what was left since the last call has ended,
 * and so have its reservations and write protection; or it is kept for a namespace that comes back
 * (@keep). Returns true when end->done() will be called.
 */
bool rdt_identities_settle(struct rdt_identities *ids, bool keep, struct rdt_identity_end *end);

const char *rdt_identity_from_name(enum rdt_identity_from from); /* as rdctl(1) shows it */

/* ---- identity_file.c ---- */

/* Makes id->line anew. Returns 0 or -ENOMEM. */
int rdt_identity_line(struct rdt_identity *id);
/* The file of @count lines in the order of @list. */
TAILQ_HEAD(rdt_identity_list, rdt_identity);
int rdt_identity_write(const struct rdt_identity_list *list, char **text, size_t *len);
/* Adds what the file has to @list: with uuid, nguid, volume, nqn, nsid, or ENDED. On failure
 * nothing, and a sentence in @why. */
int rdt_identity_read(const char *text, size_t len, struct rdt_identity_list *list, char *why,
		      size_t size);
/* The file in @dir, which may be missing. As rdt_identity_read(). Any thread. */
int rdt_identity_check(const char *dir, char *why, size_t size);
void rdt_identity_free(struct rdt_identity *id); /* which is in no list */
void rdt_identity_free_all(struct rdt_identity_list *list);

#endif /* RDT_IDENTITY_H */
