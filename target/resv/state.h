/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that survives the daemon: small files in target.state_dir. A file is replaced as a whole:
 * the new text is written to a temporary file, synced and renamed, so that a crash at any time
 * leaves the old text or the new one. A thread writes, because writing blocks on the disk.
 *
 * Threads: all functions except those that read are called by the main thread. A job belongs to the
 * writer thread from rdt_state_write() to done().
 */
#ifndef RDT_STATE_H
#define RDT_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "util/loop.h"

struct rdt_state;

/* Files of a namespace: their names are its UUID and one of these suffixes. */
#define RDT_STATE_RESV    ".resv.json"
#define RDT_STATE_PROTECT ".wp"

/* Replaces the directory, for tests with simulated time. */
struct rdt_state_files {
	/* Executes a job of rdt_state_write(): replaces the file @name as a whole, or removes it if
	 * @text is NULL. Data is on stable storage when this returns 0. Called on rdt_state_loop().
	 * Returns 0, or -errno with the file unchanged. */
	int (*replace)(struct rdt_state_files *files, const char *name, const char *text,
		       size_t len);
	int (*read)(struct rdt_state_files *files, const char *name, char **text,
		    size_t *len); /* like rdt_state_read() */
};

struct rdt_state_job {
	struct rd_msg msg;
	struct rdt_state *state;
	char name[80];
	char *text; /* freed after writing; NULL: remove the file. When read: the owner frees it */
	size_t len;
	size_t max; /* if not 0: read the file instead, of at most this many bytes */
	int err;    /* 0, or -errno; the file is unchanged unless the directory's sync failed */
	void (*done)(struct rdt_state_job *job); /* runs on the main loop; may free the job */
};

/*
 * Use the directory @dir, which is created if it is missing (but not its parent). A lock keeps out
 * a second daemon. @files: NULL, or what replaces the directory; must outlive the state. @clock:
 * the clock of the writer's loop, like rd_loop_opts.clock. @lock: -1, or the descriptor of a
 * directory with the lock of another process; it is always taken over, and used if it is that of
 * @dir. @main: the loop on which jobs are completed. Returns 0, or -errno with the reason logged.
 */
int rdt_state_open(struct rdt_state_files *files, const struct rd_clock *clock, const char *dir,
		   int lock, struct rd_log *log, struct rd_loop *main, struct rdt_state **out);
int rdt_state_fd(const struct rdt_state *state); /* of the directory, which holds the lock; or -1 */
/* Start the writer thread. Without it nothing is written, unless a test runs rdt_state_loop()
 * itself. */
int rdt_state_start(struct rdt_state *state);
/* Let another daemon use the directory, although this one has not closed it. Nothing may be written
 * any more. Returns false, with the lock kept, while a job is in progress. */
bool rdt_state_unlock(struct rdt_state *state);
/* No job may be in flight. Accepts NULL. */
void rdt_state_close(struct rdt_state **state);
struct rd_loop *rdt_state_loop(struct rdt_state *state);
const char *rdt_state_dir(const struct rdt_state *state);

/* Writes to @why, of @size bytes, what is wrong with the content of a file. Returns -EINVAL. Any
 * thread. */
__attribute__((format(printf, 3, 4))) int rdt_state_bad(char *why, size_t size, const char *fmt,
							...);

bool rdt_state_made(const struct rdt_state *
			    state); /* returns whether rdt_state_open() has created the directory */

/* Queue @job, whose name, text, len, max and done are set. Jobs run in order. */
void rdt_state_write(struct rdt_state *state, struct rdt_state_job *job);
/* Read a file; may block. The caller frees @text with free(3). Returns 0, -ENOENT if there is no
 * such file, or -errno. Any thread. */
int rdt_state_read(const struct rdt_state *state, const char *name, char **text, size_t *len);

/* The stored state of a namespace. */
struct rdt_state_ns {
	struct rdt_state_text {
		int err; /* 0, -ENOENT: nothing is stored, or -errno */
		char *text;
		size_t len;
	} resv, protect;
};

/* Like rdt_state_read(), for both files of the namespace with this UUID. @state may be NULL. */
void rdt_state_read_ns(const struct rdt_state *state, const char *uuid, struct rdt_state_ns *out);
void rdt_state_ns_fini(struct rdt_state_ns *stored);

#endif /* RDT_STATE_H */
