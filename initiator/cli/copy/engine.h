/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy engine of `rdinit cp`: it decides which bytes are read, written and zeroed, in which
 * order, and how far the copy is complete. It knows endpoints by their seam only; its caller waits
 * for them.
 */
#ifndef RDI_CLI_COPY_ENGINE_H
#define RDI_CLI_COPY_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint.h"

enum cli_cp_sparse {
	CLI_CP_AUTO,   /* holes of the source; zeroes that a source without holes has */
	CLI_CP_ALWAYS, /* zeroes of any source */
	CLI_CP_NEVER,  /* everything is written */
};

struct cli_cp_job {
	struct cli_cp_end *src, *dst;
	uint64_t start; /* the bytes before it have been copied; a multiple of both alignments */
	enum cli_cp_sparse sparse;
	bool compare;  /* read both and compare, write nothing */
	size_t memory; /* for buffers; at least one chunk is used */
	/* All bytes up to @upto are at the destination and flushed. May be NULL. */
	void (*stable)(void *user, uint64_t upto);
	void *user;
};

/* The progress of a copy. */
struct cli_cp_status {
	uint64_t size;     /* of the source; CLI_CP_UNKNOWN: its end has not come */
	uint64_t done;     /* bytes that are at the destination, holes and job.start included */
	uint64_t holes;    /* of these, bytes of holes */
	uint64_t complete; /* from the beginning, without a gap */
	uint64_t stable;   /* of complete, what a flush has covered */
	uint64_t commands; /* operations of both sides */
	int err;           /* the first error: -errno; -EBADMSG: a comparison found a difference */
	const char *text;  /* the first error in words */
};

struct cli_cp_engine;

/* Returns 0 or -errno; -EMSGSIZE: the alignment of one side is more than the other transfers. */
int cli_cp_engine_new(const struct cli_cp_job *job, struct cli_cp_engine **out);
/* Close the endpoints first: they may have abandoned operations in flight. Accepts NULL. */
void cli_cp_engine_free(struct cli_cp_engine *e);

/* Start all operations that can be started. Returns true if one was. */
bool cli_cp_engine_step(struct cli_cp_engine *e);
/* Start nothing more; operations in flight end. After an error of a piece, only the pieces before
 * it continue. */
void cli_cp_engine_stop(struct cli_cp_engine *e, int err, const char *text);
/* Flush the destination at the next step, also after an error; then job.stable is called. */
void cli_cp_engine_flush(struct cli_cp_engine *e);
/* Nothing is in flight and nothing can be started. After an error a stream is not waited for. */
bool cli_cp_engine_finished(const struct cli_cp_engine *e);
void cli_cp_engine_status(const struct cli_cp_engine *e, struct cli_cp_status *out);

/*
 * Returns the length of the first run of @buf that is either zeroes or data. Zeroes are searched in
 * units of @unit bytes and count from @least bytes on, or if @buf contains nothing else.
 */
uint64_t cli_cp_run(const unsigned char *buf, uint64_t len, uint32_t unit, uint32_t least,
		    bool *zero);

#endif /* RDI_CLI_COPY_ENGINE_H */
