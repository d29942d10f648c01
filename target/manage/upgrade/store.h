/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service manager's store of file descriptors (FDSTORE=1 of sd_notify(3)), in which a process
 * that ends leaves its connections and storage for the next one: what both have to know.
 * docs/design/restarts.md.
 *
 * The store keeps no order, and gives descriptors back by name only. So the records name each one
 * by its identity. What was sent is not answered either: a barrier tells that it was handled.
 *
 * Main thread only.
 */
#ifndef RDT_STORE_H
#define RDT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/fd_bag.h"
#include "util/loop.h"

struct rdt_notify;

#define RDT_STORE_NAME    "rdtarget"
#define RDT_STORE_RECORDS "rdtarget-records" /* the text of the records, in memory of its own */
/* All names together are one variable of the next process's environment, of at most 128 KiB. */
#define RDT_STORE_FDS 12288u
/* Connections rest meanwhile. */
#define RDT_STORE_WAIT     (5 * RD_NSEC_PER_SEC)

#define RDT_STORE_IDENTITY 64u
/* What tells an open file from others, in each process that has it. Returns 0 or -errno. */
int rdt_store_identity(int fd, char text[RDT_STORE_IDENTITY]);

/* Messages to the service manager, one after the other, and the wait until they were handled. */
struct rdt_store_talk {
	struct rdt_notify *notify;
	struct rd_loop *loop;
	struct {
		const char *text;
		struct rd_fd_bag *bag; /* NULL: it has no descriptors */
	} steps[6];
	unsigned int count, at;
	uint64_t end; /* ns of the system's clock */
	struct rd_timer timer;
	struct rd_io io; /* fd -1: no barrier was sent */
	void (*done)(struct rdt_store_talk *talk, int err);
};

void rdt_store_talk_init(struct rdt_store_talk *talk, struct rdt_notify *notify,
			 struct rd_loop *loop);
/* Adds a message, with the descriptors of @bag, which is borrowed. */
void rdt_store_say(struct rdt_store_talk *talk, const char *text, struct rd_fd_bag *bag);
/* Adds what takes everything of ours out of the store. */
void rdt_store_say_remove(struct rdt_store_talk *talk);
/* Sends what was added. @done follows, not from within this call: 0 when all was handled,
 * -ETIMEDOUT after RDT_STORE_WAIT, or another -errno. It may free @talk. */
int rdt_store_talk_begin(struct rdt_store_talk *talk,
			 void (*done)(struct rdt_store_talk *talk, int err));
void rdt_store_talk_stop(struct rdt_store_talk *talk); /* @done is not called; may be repeated */
/* A sentence about @err of @done; borrowed. */
const char *rdt_store_says(int err);

/* Takes everything of ours out of the store, and waits for that, without a loop. Returns 0 or
 * -errno as @done has it. */
int rdt_store_remove_now(struct rdt_notify *notify);

#endif /* RDT_STORE_H */
