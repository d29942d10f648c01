/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection that moves to another process has received and not used: it is passed on as
 * bytes, as they came from the host, so that the other process needs no other way to take them in.
 * AERs that wait for an event are such commands too. And the fields of records: each getter checks.
 */
#ifndef RDT_MOVE_BYTES_H
#define RDT_MOVE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct nvme_sqe;
struct rdt_capsule;
struct rdt_qpair;

/* A connection with more refuses the hand-over. */
#define RDT_MOVE_BYTES_MAX (4u << 20)

#define RDT_MOVE_HEX_MAX   32u

struct rdt_move_bytes { /* all zero: empty */
	uint8_t *at;
	size_t len, room;
	int err; /* the first error: -ENOMEM or -EFBIG */
};

void rdt_move_put(struct rdt_move_bytes *b, const void *p, size_t n);
/* The member "bytes" of @rec, unless there are none; frees @b. Returns 0 or -errno. */
int rdt_move_put_into(struct rdt_move_bytes *b, json_t *rec);
/* Calls @put for each command that @qp has received and that has no answer, in order, while @qp is
 * HELD. @cap: NULL for an AER that waits for an event. */
void rdt_move_commands(const struct rdt_qpair *qp,
		       void (*put)(void *arg, const struct nvme_sqe *sqe,
				   const struct rdt_capsule *cap),
		       void *arg);
/* Bytes from text in base64. Returns 0, with memory that the caller frees, or -EPROTO or -ENOMEM.
 */
int rdt_move_decode(const json_t *text, size_t max, uint8_t **out, size_t *len);
json_t *rdt_move_encode(const void *p, size_t n); /* NULL: no memory */

/* Is @rec a record of this kind? */
bool rdt_move_is(const json_t *rec, const char *kind);

/* ---- fields: false if it is absent, of another type or out of its bounds ---- */

bool rdt_move_uint(const json_t *rec, const char *name, uint64_t min, uint64_t max, uint64_t *out);
bool rdt_move_bool(const json_t *rec, const char *name, bool *out);
/* A text of at most @max bytes, valid as long as @rec. */
bool rdt_move_text(const json_t *rec, const char *name, size_t max, const char **out);
bool rdt_move_hex(const json_t *rec, const char *name, uint8_t *out, size_t len);
/* Of at most RDT_MOVE_HEX_MAX bytes. NULL: no memory. */
json_t *rdt_move_hex_text(const uint8_t *p, size_t n);

#endif /* RDT_MOVE_BYTES_H */
