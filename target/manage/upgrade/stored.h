/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the service manager passes to a process that it starts (LISTEN_FDS= of
 * sd_listen_fds(3)): connections and storage of the process before it, with their records, if that
 * one has left them there. They stay in the store, and can be taken by a later process, until
 * rdt_stored_empty(). docs/design/restarts.md.
 *
 * Main thread only.
 */
#ifndef RDT_STORED_H
#define RDT_STORED_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "util/fd_bag.h"
#include "store.h"

struct rd_log;
struct rdt_notify;

/* Hosts have given their connections up after their keep-alive timeout. */
#define RDT_STORED_AGE 60 /* s */

struct rdt_stored {
	struct rd_fd_bag kept; /* ours, without the records */
	int records;           /* -1: none */
	unsigned int many;     /* records; more than one are of no use */
	unsigned int strangers;
	struct rdt_store_talk talk;
	void (*emptied)(void *arg, int err, const char *why);
	void *arg;
};

/* What rdt_stored_read() finds: each a list of records, and their descriptors. */
struct rdt_stored_part {
	json_t *records;
	struct rd_fd_bag bag;
};

/* Collects what has come, before anything is opened, and closes what has another name. The
 * variables of the environment are removed: children have no such descriptors. */
void rdt_stored_collect(struct rdt_stored *stored);
void rdt_stored_free(struct rdt_stored *stored); /* closes what is left; may be repeated */
bool rdt_stored_any(const struct rdt_stored *stored);

/* Returns 0 with duplicates in the bags; or -errno, with a sentence in @why. Both parts are the
 * caller's in any case. */
int rdt_stored_read(const struct rdt_stored *stored, struct rdt_stored_part *open,
		    struct rdt_stored_part *move, char *why, size_t size);
/* They are not taken: nobody can take them any more, and hosts connect again. Closes them, and
 * those that listen too unless @used. */
void rdt_stored_refuse(struct rdt_stored *stored, bool used);
/* Takes everything out of the store. @emptied follows, not from within this call, with a sentence
 * in @why upon failure. Returns 0 or -errno. */
int rdt_stored_empty(struct rdt_stored *stored, struct rdt_notify *notify, struct rd_loop *loop,
		     void (*emptied)(void *arg, int err, const char *why), void *arg);
/* It is empty, and this process alone uses what was in it: a later one that is passed the records
 * all the same cannot read them. */
void rdt_stored_used(struct rdt_stored *stored);

#endif /* RDT_STORED_H */
