/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between the copy engine of `rdinit cp` and its source and destination: namespaces,
 * files, block devices, pipes. All calls and callbacks are on the thread that calls the engine. An
 * endpoint may have threads of its own, but completes operations only in its process function.
 */
#ifndef RDI_CLI_COPY_ENDPOINT_H
#define RDI_CLI_COPY_ENDPOINT_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "cli.h"
#include "rdinit_dev.h"

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
	 * @fresh: its present content need not be kept. NULL: nothing to do. Returns CLI_OK, or
	 * CLI_FAILED after printing why.
	 */
	int (*begin)(struct cli_cp_end *end, uint64_t size, bool fresh);
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

#endif /* RDI_CLI_COPY_ENDPOINT_H */
