/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy engine of `rdinit cp`: decides which bytes are read, written and zeroed, in which order,
 * and tracks how far the copy is complete. It uses endpoints by their interface only; waiting is
 * its caller's part.
 */
#ifndef RDI_CLI_COPY_ENGINE_H
#define RDI_CLI_COPY_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint.h"

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

#endif /* RDI_CLI_COPY_ENGINE_H */
