/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `rdinit cp`, and the data of `rdinit read` and `write`: endpoints, the engine that copies between
 * two of them, the journal of a copy, and a run of all that in one loop.
 */
#ifndef RDI_CLI_COPY_H
#define RDI_CLI_COPY_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cli.h"
#include "rdinit_dev.h"

/*
 * ---- endpoint_*.c: the interface between the engine and its source and destination ----
 *
 * Namespaces, files, block devices, pipes. All calls and callbacks are on the thread that calls the
 * engine. An endpoint may have threads of its own, but completes operations only in its process
 * function.
 */

#define CLI_CP_UNKNOWN UINT64_MAX /* a size that is unknown until a stream ends */

enum cli_cp_kind {
	CLI_CP_READ,
	CLI_CP_WRITE,
	CLI_CP_ZERO,  /* make the range read as zeroes, without allocated blocks if possible */
	CLI_CP_FLUSH, /* commit all writes whose operations are done */
};

/* One operation. The endpoint owns it from an accepted submit until it calls done(). */
struct cli_cp_op {
	enum cli_cp_kind kind;
	uint64_t at; /* bytes */
	uint64_t len;
	void *buf; /* READ and WRITE. READ may fill it up to the next multiple of the alignment */
	/* @err: 0 or -errno; @text: the reason in words, valid during the call. */
	void (*done)(struct cli_cp_op *op, int err, const char *text);
	void *user;   /* of the caller */
	uint64_t got; /* READ: bytes read, less than len only at the end of a stream */

	/* Owned by the endpoint while the operation is in flight. */
	void *end;
	int err;
	STAILQ_ENTRY(cli_cp_op) link;
};

struct cli_cp_end {
	const struct cli_cp_end_ops *ops;
	const char *name; /* for messages; owned by the caller */
	uint64_t size;    /* CLI_CP_UNKNOWN for a stream, and for a file that will grow */
	/*
	 * A power of two. Positions and lengths of operations are multiples of it, except the last
	 * length: such a READ is completed to the next multiple; such a WRITE is shorter than
	 * align.
	 */
	uint32_t align;
	uint32_t max_io;     /* limit of one READ or WRITE in bytes; at least align */
	uint64_t max_zero;   /* limit of one ZERO in bytes */
	bool sequential;     /* accepts one operation at a time, in order and without gaps */
	bool tells_holes;    /* extent() reports ranges that are not allocated */
	bool has_zeroes;     /* zeroes outside of these holes may be made holes as well */
	bool can_read_again; /* data that was read or written can be read again */
	/* Of the last submit that failed, its error in words; NULL: that of the error code. */
	const char *why;
	/* the peer does not answer at present: an interrupt does not wait for operations */
	bool stuck;
};

struct cli_cp_end_ops {
	/*
	 * The range at @at: *@len bytes of data, or a hole; 0: it is not known yet, ask again after
	 * process(). NULL: everything is data. Does not block.
	 */
	void (*extent)(struct cli_cp_end *end, uint64_t at, uint64_t *len, bool *hole);
	/* A pass over the endpoint begins: extent() finds out anew. NULL: it remembers nothing. */
	void (*begin_pass)(struct cli_cp_end *end);
	/*
	 * Starts @op. Returns 0, -EAGAIN (too many operations in flight: try again after process),
	 * or -errno; never calls done().
	 */
	int (*submit)(struct cli_cp_end *end, struct cli_cp_op *op);
	/*
	 * Calls done() of operations that have completed. Returns their number, or -errno when
	 * nothing further can succeed, with a text in *@text that is valid until the next call.
	 */
	int (*process)(struct cli_cp_end *end, const char **text);
	/* Fills in descriptors for poll(2), at most @room. Returns their number. */
	unsigned int (*fds)(struct cli_cp_end *end, struct pollfd *fds, unsigned int room);
	/*
	 * Destination, before the first write: it will have @size bytes (or CLI_CP_UNKNOWN).
	 * @discard: its content need not be kept. NULL: nothing to do. Returns CLI_OK, or
	 * CLI_FAILED after printing why.
	 */
	int (*begin)(struct cli_cp_end *end, uint64_t size, bool discard);
	/* Destination, after the last write. Parameters and result as of begin. */
	int (*finish)(struct cli_cp_end *end, uint64_t size);
	/* An identity that is the same in another run of the program. NULL: there is none. */
	json_t *(*identity)(const struct cli_cp_end *end);
	/* Frees @end. Operations in flight are abandoned. */
	void (*close)(struct cli_cp_end *end);
};

struct cli_cp_open {
	const struct cli_options *o;
	/* for namespaces; ctrl and events are set for each endpoint */
	const struct rdinit_dev_opts *dev;
	bool write;                    /* open as the destination */
	bool again;                    /* it will be read again for verification */
	struct cli_progress *progress; /* to be cleared before a message during the copy */
};

/*
 * Opens the source or destination @name: URIs (each a path to one namespace, separated by commas),
 * "-", or a file path. Changes nothing, except that a missing file is created. @o has the
 * connection options. Returns CLI_OK, or CLI_FAILED or CLI_USAGE after printing why.
 */
int cli_cp_ns_open(const struct cli_cp_open *how, const char *name, struct cli_cp_end **out);
/*
 * The options of devices, for cli_cp_open.dev. Returns CLI_OK, or CLI_USAGE after printing which
 * value is wrong.
 */
int cli_cp_ns_options(const struct cli_options *o, struct rdinit_dev_opts *out);
int cli_cp_file_open(const struct cli_cp_open *how, const char *name, struct cli_cp_end **out);
/* An open regular file or block device; byte N of the copy is byte N + @shift, modulo 2^64, of the
 * file. The caller closes @fd, and may set the size. */
int cli_cp_fd_open(const char *name, int fd, uint64_t shift, struct cli_cp_end **out);
/* @fd is closed with the endpoint if it is above standard error. @limit: of the bytes to read. */
int cli_cp_pipe_open(const char *name, int fd, uint64_t limit, struct cli_cp_end **out);
/* The namespace of a session, by its queue pairs: a lost connection is an error. @flags:
 * RDINIT_IO_* of all commands, whose number is counted in *@ios. */
int cli_cp_session_open(struct cli_session *s, unsigned int flags, uint64_t *ios,
			struct cli_cp_end **out);

/* ---- workers.c: threads for system calls that block; completion on the thread of the loop ---- */

struct cli_cp_workers;

/* An endpoint whose operations are done by workers: the first member of its structure. */
struct cli_cp_worked {
	struct cli_cp_end end;
	struct cli_cp_workers *workers; /* of cli_cp_workers_start() and cli_cp_workers_stop() */
};

/* Runs on a worker: performs @op and sets op->err (0 or -errno) and op->got. */
typedef void (*cli_cp_work_fn)(void *arg, struct cli_cp_op *op);

/* Starts @n threads. Returns 0 or -errno. */
int cli_cp_workers_start(unsigned int n, cli_cp_work_fn fn, void *arg, struct cli_cp_workers **out);
/*
 * Ends the threads, without calling done() of remaining operations. @cancel: also ends a thread
 * that is blocked in a system call between cli_cp_workers_may_cancel(true) and (false). NULL is
 * allowed.
 */
void cli_cp_workers_stop(struct cli_cp_workers *w, bool cancel);
/* Called on a worker. */
void cli_cp_workers_may_cancel(bool may);
/* Size of the buffer of zeroes for files and streams that cannot have a hole. */
#define CLI_CP_ZEROES (64u << 10)
extern const unsigned char cli_cp_zeroes[CLI_CP_ZEROES];

/* For struct cli_cp_end_ops; @end is the first member of a struct cli_cp_worked. */
int cli_cp_workers_submit(struct cli_cp_end *end, struct cli_cp_op *op);
int cli_cp_workers_process(struct cli_cp_end *end, const char **text);
unsigned int cli_cp_workers_fds(struct cli_cp_end *end, struct pollfd *fds, unsigned int room);

/*
 * ---- engine.c: decides which bytes are read, written and zeroed, in which order ----
 *
 * It tracks how far the copy is complete. It uses endpoints by their interface only; waiting is its
 * caller's part.
 */

enum cli_cp_sparse {
	CLI_CP_AUTO,   /* holes of the source; zeroes found in a source without holes */
	CLI_CP_ALWAYS, /* zeroes of any source */
	CLI_CP_NEVER,  /* everything is written */
};

struct cli_cp_job {
	struct cli_cp_end *src, *dst;
	/* Bytes before it are not copied. A multiple of both alignments, unless sparse is
	 * CLI_CP_NEVER. */
	uint64_t start;
	enum cli_cp_sparse sparse;
	bool compare;  /* read both sides and compare; write nothing */
	size_t memory; /* bytes for buffers; at least one chunk is used */
	/* Called when all bytes up to @upto are at the destination and flushed. May be NULL. */
	void (*stable)(void *user, uint64_t upto);
	void *user;
};

/* The progress of a copy. */
struct cli_cp_status {
	uint64_t size;     /* of the source; CLI_CP_UNKNOWN until its end is reached */
	uint64_t done;     /* bytes that the destination has, including holes and job.start */
	uint64_t holes;    /* bytes of holes among them */
	uint64_t complete; /* bytes from the beginning without a gap */
	uint64_t stable;   /* the part of complete that a flush has covered */
	uint64_t commands; /* operations on both sides */
	int err;           /* the first error: -errno; -EBADMSG: a comparison found a difference */
	const char *text;  /* the first error in words */
};

struct cli_cp_engine;

/* Returns 0 or -errno; -EMSGSIZE: the alignment of one side exceeds the transfer limit of the
 * other. */
int cli_cp_engine_new(const struct cli_cp_job *job, struct cli_cp_engine **out);
/* Close the endpoints first, because they may have abandoned operations. NULL is allowed. */
void cli_cp_engine_free(struct cli_cp_engine *e);

/* Starts all operations that can start. Returns whether one did. */
bool cli_cp_engine_step(struct cli_cp_engine *e);
/* Starts nothing more; operations in flight complete. After the error of a piece only the pieces
 * before it continue. */
void cli_cp_engine_stop(struct cli_cp_engine *e, int err, const char *text);
/* Flushes the destination at the next step, also after an error; then job.stable is called. */
void cli_cp_engine_flush(struct cli_cp_engine *e);
/* Whether nothing is in flight and nothing can start. After an error a stream is not waited for. */
bool cli_cp_engine_finished(const struct cli_cp_engine *e);
void cli_cp_engine_status(const struct cli_cp_engine *e, struct cli_cp_status *out);

/*
 * The length of the first run of @buf that is either zeroes or data. Zeroes are searched in units
 * of @unit bytes, and reported if there are at least @least bytes or nothing else in @buf.
 */
uint64_t cli_cp_run(const unsigned char *buf, uint64_t len, uint32_t unit, uint32_t least,
		    bool *zero);

/*
 * ---- journal.c: the journal of `rdinit cp --resume` ----
 *
 * A small JSON file with the identities of source and destination, and the number of bytes from the
 * beginning that are on stable storage. It is replaced atomically, so that a kill at any moment
 * leaves the old or the new one.
 */

#define CLI_CP_JOURNAL_WHY 256

/* Makes a journal for a copy from @src to @dst (identities, not consumed). NULL: no memory. */
json_t *cli_cp_journal_make(json_t *src, json_t *dst, uint64_t complete);
/*
 * Whether @journal belongs to this copy, of @size bytes of source. Returns 0 and *@complete; or
 * -EINVAL (it is not a journal) or -ESTALE (of another copy), with the reason in @why.
 */
int cli_cp_journal_check(const json_t *journal, const json_t *src, const json_t *dst, uint64_t size,
			 uint64_t *complete, char why[CLI_CP_JOURNAL_WHY]);

/* Reads the file @path. Returns 0, -ENOENT (missing: *@out is NULL), or -errno after printing
 * why. */
int cli_cp_journal_load(const char *path, json_t **out);
/* Replaces @path by @journal on stable storage. Returns 0, or -errno after printing why. */
int cli_cp_journal_save(const char *path, const json_t *journal);

/* ---- run.c: the engine, its two endpoints, progress, journal and signals in one loop ---- */

struct cli_cp_run {
	struct cli_cp_end *src, *dst;
	struct cli_cp_engine *engine;
	json_t *src_id, *dst_id; /* for the journal */
	const char *journal;     /* path, or NULL */
	bool journal_failed;     /* it could not be replaced: it has an earlier state */
	int progress_fd;         /* -1: none */
	const char *phase;       /* for the lines on progress_fd */
	uint64_t origin;         /* where the progress begins */
	const char *lost;        /* what an interrupt says of the bytes; NULL: nothing */
	struct cli_progress progress;
	struct cli_signals interrupt;
	uint64_t last_flush, last_line; /* ns */
};

/* Runs the engine until it has finished. Errors are in its status; the text of one that has been
 * printed is empty. */
void cli_cp_run_engine(struct cli_cp_run *r, const char *phase);
/* For cli_cp_job.stable: updates the journal. */
void cli_cp_run_stable(void *user, uint64_t upto);

#endif /* RDI_CLI_COPY_H */
