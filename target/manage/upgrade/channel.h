/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel between two processes during a hand-over: messages, each a JSON object with an "op",
 * on a Unix socket that keeps them apart (SOCK_SEQPACKET). A message may come with records and
 * descriptors, which go before it: the records as the text of a JSON array in memory of its own
 * (memfd_create(2)), the descriptors in batches. What arrives is bounded. docs/design/moves.md.
 *
 * Main thread only.
 */
#ifndef RDT_CHANNEL_H
#define RDT_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "util/fd_bag.h"
#include "util/loop.h"

#define RDT_CHANNEL_FDS     16384u       /* descriptors of a message */
#define RDT_CHANNEL_RECORDS (256u << 20) /* bytes of the records of a message */
#define RDT_CHANNEL_WHY     512u

/* The format of records: incremented when an older version would misunderstand them. */
#define RDT_UPGRADE_FORMAT 1
/* In "must" of an "ns": it has this instead of a descriptor, and its storage is not connected to
 * before the other process has left it. */
#define RDT_MUST_TOLD "told"
/* In "must" of an "ns-state": I/O of the other process goes on in its storage. */
#define RDT_MUST_UNFINISHED "unfinished"

struct rdt_channel {
	int fd;               /* -1: closed */
	struct rd_loop *loop; /* NULL: it is not watched */
	struct rd_io io;
	struct rd_fd_bag bag; /* received before the message that they belong to */
	/* A message has come; @records: NULL or an array, borrowed, as @bag is. It may close the
	 * channel. */
	void (*said)(struct rdt_channel *ch, const char *op, const json_t *msg,
		     const json_t *records, struct rd_fd_bag *bag);
	/* The other process has ended, or says what it must not: a sentence. The channel is
	 * closed. */
	void (*broken)(struct rdt_channel *ch, const char *why);
};

/* Takes @fd. @loop: NULL: rdt_channel_wait() reads. */
void rdt_channel_init(struct rdt_channel *ch, int fd);
/* Calls ch->said() and ch->broken() from now on. Returns 0 or -errno. */
int rdt_channel_watch(struct rdt_channel *ch, struct rd_loop *loop);
void rdt_channel_close(struct rdt_channel *ch); /* may be repeated */

/* Takes @msg, which becomes the message @op. @records and @bag: NULL: none; @bag keeps its
 * descriptors. Returns 0 or -errno: the message was not sent, and the channel is of no use. */
int rdt_channel_send(struct rdt_channel *ch, const char *op, json_t *msg, const json_t *records,
		     struct rd_fd_bag *bag);
/*
 * Waits at most @timeout_ms for one message, without a loop. *@msg and *@records belong to the
 * caller; *@records may be NULL. The descriptors are in ch->bag. Returns 0, or -errno with a
 * sentence in @why.
 */
int rdt_channel_wait(struct rdt_channel *ch, int timeout_ms, json_t **msg, json_t **records,
		     char *why, size_t size);

/*
 * Checks what the records begin with, {"kind": "header", "format": N}, and that this program knows
 * what each record says it must ("must": list of names of members). Returns 0, or -EPROTO with a
 * sentence in @why.
 */
int rdt_records_check(const json_t *records, char *why, size_t size);
json_t *rdt_records_new(void); /* an array with the header; NULL: no memory */
/* The text of @records in memory of its own. Returns its descriptor, or -errno. */
int rdt_records_to_memory(const json_t *records);
/* Likewise the other way. NULL: it is no JSON, too much of it, or there is no memory. */
json_t *rdt_records_from_memory(int fd);

#endif /* RDT_CHANNEL_H */
