/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that outlives the daemon: small files in target.state_dir. A file is replaced as a whole:
 * its new text is written beside it, made durable and renamed over it, so that whatever ends the
 * process or the machine leaves the old text or the new one. Writing waits for the disk and is
 * therefore done by a thread of its own.
 *
 * Threads: all calls are the main thread's; a job is the writer's from rdt_state_write() to done().
 */
#ifndef RDT_STATE_H
#define RDT_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "util/loop.h"

struct rdt_state;

struct rdt_state_job {
	struct rd_msg msg;
	struct rdt_state *state;
	char name[80];
	char *text; /* freed when written; NULL: remove the file */
	size_t len;
	/* 0 or -errno: the file is as it was, unless syncing the folder failed */
	int err;
	void (*done)(struct rdt_state_job *job); /* on the main loop; may free the job */
};

/*
 * Use @dir, which is made when it is missing (its parent is not). One daemon at a time: it is
 * locked.
 * @main: where jobs are answered. Returns 0, or -errno with the reason logged.
 */
int rdt_state_open(const char *dir, struct rd_log *log, struct rd_loop *main,
		   struct rdt_state **out);
/* Run the writer. Before that nobody writes, unless a test turns rdt_state_loop() itself. */
int rdt_state_start(struct rdt_state *state);
/* No job may be under way. NULL is fine. */
void rdt_state_close(struct rdt_state **state);
struct rd_loop *rdt_state_loop(struct rdt_state *state);
const char *rdt_state_dir(const struct rdt_state *state);

/* Queue @job, with name, text, len and done set. Jobs are done in order. */
void rdt_state_write(struct rdt_state *state, struct rdt_state_job *job);
/* Read a file at once. @text: free(3) it. Returns 0, -ENOENT when there is none, or -errno. */
int rdt_state_read(const struct rdt_state *state, const char *name, char **text, size_t *len);

#endif /* RDT_STATE_H */
