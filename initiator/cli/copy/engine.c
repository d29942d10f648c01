/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of the source in flight, each in a slot with a buffer. A piece is read as a whole and
 * written to the destination run by run (data or zeroes), one operation of a slot at a time; the
 * number of slots is the parallelism. Pieces are begun in order, so that the complete part has few
 * gaps behind it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "util/iomem.h"

#define CHUNK_MAX  (256u << 10) /* larger buffers do not fit into the caches */
#define SLOTS_MAX  128u
#define ZERO_UNIT  4096u
#define ZERO_LEAST (64u << 10) /* zeroing a shorter hole costs more than writing it */
#define TEXT_MAX   512
/* Pieces begun since one that is incomplete: what a resumed copy repeats has a limit, also when an
 * operation takes long. */
#define AHEAD_MAX 1024u

enum cp_state {
	CP_FREE,
	CP_WAIT_SRC, /* cp_submit_src() moves it out */
	CP_AT_SRC,   /* a read is in flight; cp_read_done() moves it out */
	CP_WAIT_DST, /* cp_submit_dst() moves it out */
	CP_AT_DST,   /* an operation is in flight; cp_put_done() moves it out */
};

struct cp_slot {
	struct cli_cp_engine *e;
	enum cp_state state;
	bool hole; /* the source has no data there */
	/* beyond the end of the destination: tests whether the source has more data */
	bool probe;
	uint64_t number; /* of the piece; the next one has the next number */
	uint64_t at;     /* position of the piece */
	uint64_t len;    /* of the piece */
	uint64_t put;    /* bytes of it that the destination has */
	unsigned char *buf;
	unsigned char *other; /* compare: the content of the destination */
	struct cli_cp_op op;
};

struct cli_cp_engine {
	struct cli_cp_job job;
	uint32_t align, chunk;
	uint64_t max_zero;    /* limit of one ZERO, a multiple of align */
	uint32_t unit, least; /* granularity and minimum of zero detection; unit 0: no detection */
	struct cp_slot *slots;
	unsigned int n_slots, in_use;
	unsigned int at_src, at_dst; /* operations in flight */
	unsigned char *memory;
	size_t memory_len;
	uint64_t size;   /* of the source; CLI_CP_UNKNOWN until the stream has ended */
	uint64_t limit;  /* size of the destination */
	uint64_t issued; /* every piece before it is or was in a slot */
	uint64_t begun;  /* number of pieces */
	uint64_t done, holes, stable, commands;
	uint64_t broken; /* position where the first failed piece is incomplete */
	bool stopped;    /* no new pieces; those before broken are completed */
	bool aborted;    /* pieces before broken are dropped as well */
	bool flush_wanted, flushing;
	uint64_t flush_upto;
	struct cli_cp_op flush;
	int err;
	char text[TEXT_MAX];
};

/* ---- how far it is ---- */

static uint64_t cp_complete(const struct cli_cp_engine *e)
{
	uint64_t end = e->issued < e->broken ? e->issued : e->broken;
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		const struct cp_slot *s = &e->slots[i];

		if (s->state != CP_FREE && !s->probe && s->at + s->put < end)
			end = s->at + s->put;
	}
	return end;
}

void cli_cp_engine_status(const struct cli_cp_engine *e, struct cli_cp_status *out)
{
	*out = (struct cli_cp_status){
		.size = e->size,
		.done = e->done,
		.holes = e->holes,
		.complete = cp_complete(e),
		.stable = e->stable,
		.commands = e->commands,
		.err = e->err,
		.text = e->text,
	};
}

/* Whether any waiting operation can still be performed. */
static bool cp_waiting(const struct cli_cp_engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots && !e->aborted; i++) {
		if (e->slots[i].state == CP_WAIT_SRC || e->slots[i].state == CP_WAIT_DST)
			return true;
	}
	return false;
}

bool cli_cp_engine_finished(const struct cli_cp_engine *e)
{
	const struct cli_cp_end *src = e->job.src, *dst = e->job.dst;

	/* After an error, operations of a stream that may wait without end for its other side
	 * are abandoned. */
	if (e->at_src && !(e->stopped && src->sequential) && !(e->aborted && src->stuck))
		return false;
	if (e->at_dst && !(e->aborted && (dst->sequential || dst->stuck)))
		return false;
	if (e->flush_wanted)
		return false;
	if (e->stopped)
		return !cp_waiting(e);
	return e->size != CLI_CP_UNKNOWN && e->issued >= e->size && !e->in_use;
}

/* ---- errors ---- */

void cli_cp_engine_stop(struct cli_cp_engine *e, int err, const char *text)
{
	if (!e->stopped) {
		e->err = err;
		snprintf(e->text, sizeof(e->text), "%s", text);
	}
	e->stopped = e->aborted = true;
	/* A flush that has not started may never start, if the one before it does not end. */
	e->flush_wanted = false;
}

static void cp_free_slot(struct cp_slot *s)
{
	s->state = CP_FREE;
	s->e->in_use--;
}

static void cp_give_up(struct cp_slot *s, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Fails the piece of @s from @s->put on, and the copy. */
static void cp_give_up(struct cp_slot *s, int err, const char *fmt, ...)
{
	struct cli_cp_engine *e = s->e;
	va_list ap;

	/* Of several failures the one with the lowest position is reported, whichever came
	 * first. */
	if (!e->aborted && s->at + s->put < e->broken) {
		e->err = err;
		va_start(ap, fmt);
		vsnprintf(e->text, sizeof(e->text), fmt, ap);
		va_end(ap);
	}
	e->stopped = true;
	if (s->at + s->put < e->broken)
		e->broken = s->at + s->put;
	cp_free_slot(s);
}

/* ---- pieces ---- */

static struct cp_slot *cp_find_free(struct cli_cp_engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		if (e->slots[i].state == CP_FREE)
			return &e->slots[i];
	}
	return NULL;
}

/* Whether the next piece has to wait for the oldest one. */
static bool cp_too_far_ahead(const struct cli_cp_engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		const struct cp_slot *s = &e->slots[i];

		if (s->state != CP_FREE && e->begun - s->number >= AHEAD_MAX)
			return true;
	}
	return false;
}

/* A stream has at most one read in flight. */
static bool cp_src_busy(const struct cli_cp_engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		if (e->slots[i].state == CP_WAIT_SRC || e->slots[i].state == CP_AT_SRC)
			return true;
	}
	return false;
}

static uint64_t cp_round_up(const struct cli_cp_engine *e, uint64_t n)
{
	return (n + e->align - 1) & ~((uint64_t)e->align - 1);
}

/* The range at @at, in units of both sides: *@len bytes, a hole or data. Returns false if @end does
 * not know yet. */
static bool cp_extent(const struct cli_cp_engine *e, const struct cli_cp_end *end, uint64_t at,
		      uint64_t left, uint64_t *len, bool *hole)
{
	*hole = false;
	*len = left;
	if (!end->ops->extent || !end->tells_holes)
		return true;
	end->ops->extent((struct cli_cp_end *)end, at, len, hole);
	if (*len >= left) {
		*len = left;
		return true;
	}
	if (*hole && *len >= e->align) {
		*len &= ~((uint64_t)e->align - 1);
		return true;
	}
	/* A unit that is partly data counts as data. */
	*hole = false;
	*len = cp_round_up(e, *len) < left ? cp_round_up(e, *len) : left;
	return *len > 0;
}

/* Comparison: the parts of the piece of @s that are holes on both sides are equal without being
 * read. Returns false if the destination does not know yet. */
static bool cp_compare_holes(struct cp_slot *s, uint64_t len)
{
	const struct cli_cp_end *dst = s->e->job.dst;
	uint64_t other;
	bool hole;

	if (!cp_extent(s->e, dst, s->at, len, &other, &hole))
		return false;
	if (hole)
		s->len = s->put = other;
	else
		s->len = len < s->e->chunk ? len : s->e->chunk;
	return true;
}

/* Returns false if it is not known yet whether there is a hole. */
static bool cp_place(struct cp_slot *s, uint64_t left)
{
	struct cli_cp_engine *e = s->e;
	uint64_t len, skip = s->at & ((uint64_t)e->align - 1);

	/* A copy that begins inside a unit: the rest of that unit is a piece of its own. */
	if (skip && left > e->align - skip)
		left = e->align - skip;
	if (!cp_extent(e, e->job.src, s->at, left, &len, &s->hole))
		return false;
	if (e->job.sparse == CLI_CP_NEVER && !e->job.compare)
		s->hole = false;
	s->put = 0;
	if (s->hole && e->job.compare && !cp_compare_holes(s, len))
		return false;
	if (s->hole && e->job.compare)
		return true;
	if (s->hole)
		s->len = len < e->max_zero ? len : e->max_zero;
	else
		s->len = len < e->chunk ? len : e->chunk;
	/* The end of a hole that is less than a unit is written as data, so that the adjacent
	 * bytes are unchanged. */
	if (s->hole && s->len % e->align) {
		if (s->len > e->align)
			s->len &= ~((uint64_t)e->align - 1);
		else
			s->hole = false;
	}
	return true;
}

/* Begins the next piece. Returns false if there is none, or no room for it. */
static bool cp_next_piece(struct cli_cp_engine *e)
{
	uint64_t end = e->size < e->limit ? e->size : e->limit;
	struct cp_slot *s;

	if (e->stopped || e->issued >= e->size || (e->job.src->sequential && cp_src_busy(e)))
		return false;
	s = cp_find_free(e);
	if (!s || cp_too_far_ahead(e))
		return false;
	s->at = e->issued;
	s->hole = false;
	s->probe = e->issued >= end;
	if (s->probe) {
		if (e->in_use)
			return false; /* probed last, when everything else is done */
		s->len = 1;
		s->put = 0;
	} else {
		if (!cp_place(s, end - e->issued))
			return false;
		e->issued += s->len;
	}
	e->in_use++;
	s->number = e->begun++;
	s->state = s->hole ? CP_WAIT_DST : CP_WAIT_SRC;
	if (s->put == s->len) {
		e->done += s->len;
		e->holes += s->len;
		cp_free_slot(s);
	}
	return true;
}

/* Starts the operation of @s, which is in state @at, at @end; *@in_flight counts such
 * operations. Returns false if @end accepts no more now. */
static bool cp_submit_op(struct cp_slot *s, struct cli_cp_end *end, enum cp_state at,
			 unsigned int *in_flight)
{
	int rc = end->ops->submit(end, &s->op);

	if (rc == -EAGAIN)
		return false;
	if (rc) {
		cp_give_up(s, rc, "%s: byte %llu: %s", end->name, (unsigned long long)s->op.at,
			   end->why ? end->why : strerror(-rc));
		return true;
	}
	++*in_flight;
	s->e->commands++;
	s->state = at;
	return true;
}

/* ---- the destination ---- */

static void cp_difference(struct cp_slot *s)
{
	const struct cli_cp_job *job = &s->e->job;
	uint64_t i;

	for (i = 0; i < s->len; i++) {
		if (s->other[i] != (s->hole ? 0 : s->buf[i]))
			break;
	}
	s->put = i;
	cp_give_up(s, -EBADMSG, "%s differs from %s at byte %llu: it has 0x%02x instead of 0x%02x",
		   job->dst->name, job->src->name, (unsigned long long)(s->at + i), s->other[i],
		   s->hole ? 0 : s->buf[i]);
}

/* Whether the destination has the expected content. */
static bool cp_equal(const struct cp_slot *s)
{
	bool zero;

	if (!s->hole)
		return memcmp(s->buf, s->other, (size_t)s->len) == 0;
	return cli_cp_run(s->other, s->len, ZERO_UNIT, UINT32_MAX, &zero) == s->len && zero;
}

static void cp_put_done(struct cli_cp_op *op, int err, const char *text)
{
	struct cp_slot *s = op->user;
	struct cli_cp_engine *e = s->e;

	e->at_dst--;
	if (err) {
		cp_give_up(s, err, "%s: %s %llu bytes at byte %llu: %s", e->job.dst->name,
			   op->kind == CLI_CP_READ    ? "reading back"
			   : op->kind == CLI_CP_WRITE ? "writing"
						      : "zeroing",
			   (unsigned long long)op->len, (unsigned long long)op->at, text);
		return;
	}
	if (e->job.compare && op->got < op->len) {
		cp_give_up(s, -EBADMSG, "%s ends at byte %llu, before %s does", e->job.dst->name,
			   (unsigned long long)(op->at + op->got), e->job.src->name);
		return;
	}
	if (e->job.compare && !cp_equal(s)) {
		cp_difference(s);
		return;
	}
	s->put += op->len;
	e->done += op->len;
	if (op->kind == CLI_CP_ZERO || (e->job.compare && s->hole))
		e->holes += op->len;
	if (s->put == s->len)
		cp_free_slot(s);
	else
		s->state = CP_WAIT_DST;
}

/* Starts the next operation for @s at the destination. */
static void cp_put_next(struct cp_slot *s, struct cli_cp_op *op)
{
	struct cli_cp_engine *e = s->e;
	const struct cli_cp_end *dst = e->job.dst;
	uint64_t left = s->len - s->put, whole = left & ~((uint64_t)dst->align - 1);
	bool zero = s->hole;

	*op = (struct cli_cp_op){.at = s->at + s->put, .done = cp_put_done, .user = s};
	op->kind = CLI_CP_WRITE;
	op->len = whole ? whole : left;
	if (e->job.compare) {
		op->kind = CLI_CP_READ;
		op->len = left;
		op->buf = s->other;
		return;
	}
	if (!s->hole && e->unit && whole)
		op->len = cli_cp_run(s->buf + s->put, whole, e->unit, e->least, &zero);
	if (zero && op->len > e->max_zero)
		op->len = e->max_zero;
	if (zero)
		op->kind = CLI_CP_ZERO;
	else
		op->buf = s->buf + s->put;
}

/* Returns false if the destination accepts no more now. */
static bool cp_submit_dst(struct cp_slot *s)
{
	struct cli_cp_engine *e = s->e;
	struct cli_cp_end *dst = e->job.dst;

	if (dst->sequential && s->at + s->put != cp_complete(e))
		return true;
	cp_put_next(s, &s->op);
	return cp_submit_op(s, dst, CP_AT_DST, &e->at_dst);
}

/* ---- the source ---- */

static void cp_read_done(struct cli_cp_op *op, int err, const char *text)
{
	struct cp_slot *s = op->user;
	struct cli_cp_engine *e = s->e;

	e->at_src--;
	if (err) {
		cp_give_up(s, err, "%s: reading %llu bytes at byte %llu: %s", e->job.src->name,
			   (unsigned long long)op->len, (unsigned long long)op->at, text);
		return;
	}
	if (s->probe && op->got) {
		cp_give_up(s, -EFBIG,
			   "%s is longer than the %llu bytes of %s, which are all written",
			   e->job.src->name, (unsigned long long)(e->limit - e->job.start),
			   e->job.dst->name);
		return;
	}
	if (op->got < op->len) {
		if (e->size != CLI_CP_UNKNOWN) {
			cp_give_up(s, -EIO,
				   "%s: byte %llu is missing: the file had %llu bytes when the "
				   "copy began",
				   e->job.src->name, (unsigned long long)(s->at + op->got),
				   (unsigned long long)e->size);
			return;
		}
		s->len = op->got;
		e->size = e->issued = s->at + op->got;
	}
	s->state = CP_WAIT_DST;
	if (!op->got)
		cp_free_slot(s);
}

static bool cp_submit_src(struct cp_slot *s)
{
	struct cli_cp_engine *e = s->e;

	s->op = (struct cli_cp_op){.kind = CLI_CP_READ,
				   .at = s->at,
				   .len = s->len,
				   .buf = s->buf,
				   .done = cp_read_done,
				   .user = s};
	return cp_submit_op(s, e->job.src, CP_AT_SRC, &e->at_src);
}

/* ---- flush ---- */

static void cp_flush_done(struct cli_cp_op *op, int err, const char *text)
{
	struct cli_cp_engine *e = op->user;
	char why[TEXT_MAX];

	e->at_dst--;
	e->flushing = false;
	if (err) {
		snprintf(why, sizeof(why), "%s: flush: %s", e->job.dst->name, text);
		cli_cp_engine_stop(e, err, why);
		return;
	}
	e->stable = e->flush_upto;
	if (e->job.stable)
		e->job.stable(e->job.user, e->stable);
}

void cli_cp_engine_flush(struct cli_cp_engine *e)
{
	e->flush_wanted = true;
}

static bool cp_submit_flush(struct cli_cp_engine *e)
{
	struct cli_cp_end *dst = e->job.dst;
	int rc;

	if (!e->flush_wanted || e->flushing)
		return false;
	e->flush = (struct cli_cp_op){.kind = CLI_CP_FLUSH, .done = cp_flush_done, .user = e};
	/* The flush covers all operations that have completed by now. */
	e->flush_upto = cp_complete(e);
	rc = dst->ops->submit(dst, &e->flush);
	if (rc == -EAGAIN)
		return false;
	e->flush_wanted = false;
	if (rc) {
		cli_cp_engine_stop(e, rc, strerror(-rc));
		return true;
	}
	e->flushing = true;
	e->at_dst++;
	return true;
}

/* ---- all together ---- */

/* Tries all slots that wait for one side, until it accepts no more. */
static bool cp_submit_all(struct cli_cp_engine *e, enum cp_state wait,
			  bool (*submit_one)(struct cp_slot *s))
{
	bool moved = false;
	unsigned int i;

	for (i = 0; i < e->n_slots && !e->aborted; i++) {
		struct cp_slot *s = &e->slots[i];

		if (s->state != wait)
			continue;
		if (!submit_one(s))
			break;
		moved |= s->state != wait;
	}
	return moved;
}

/* After a failure: drops the pieces after it that wait. */
static void cp_drop_waiting(struct cli_cp_engine *e)
{
	unsigned int i;

	for (i = 0; i < e->n_slots; i++) {
		struct cp_slot *s = &e->slots[i];

		if (s->state != CP_WAIT_SRC && s->state != CP_WAIT_DST)
			continue;
		if (!e->aborted && s->at < e->broken)
			continue;
		if (s->at + s->put < e->broken)
			e->broken = s->at + s->put;
		cp_free_slot(s);
	}
}

bool cli_cp_engine_step(struct cli_cp_engine *e)
{
	bool moved = false;

	moved |= cp_submit_flush(e);
	if (e->stopped)
		cp_drop_waiting(e);
	/* Operations that free buffers come first. */
	moved |= cp_submit_all(e, CP_WAIT_DST, cp_submit_dst);
	while (cp_next_piece(e))
		moved = true;
	moved |= cp_submit_all(e, CP_WAIT_SRC, cp_submit_src);
	moved |= cp_submit_all(e, CP_WAIT_DST, cp_submit_dst);
	return moved;
}

/* ---- life ---- */

static void cp_begin_pass(struct cli_cp_end *end)
{
	if (end->ops->begin_pass)
		end->ops->begin_pass(end);
}

static int cp_geometry(struct cli_cp_engine *e)
{
	const struct cli_cp_end *src = e->job.src, *dst = e->job.dst;
	uint32_t max = CHUNK_MAX;

	e->align = src->align > dst->align ? src->align : dst->align;
	if (src->max_io < max)
		max = src->max_io;
	if (dst->max_io < max)
		max = dst->max_io;
	e->chunk = max & ~(e->align - 1);
	if (!e->chunk)
		return -EMSGSIZE;
	e->size = src->size;
	e->limit = dst->size;
	/* A destination whose limit for zeroing is less than a unit of the source gets data
	 * only. */
	e->max_zero = dst->max_zero & ~((uint64_t)e->align - 1);
	if (!e->max_zero)
		e->job.sparse = CLI_CP_NEVER;
	if (e->job.compare)
		return 0;
	if (e->job.sparse == CLI_CP_ALWAYS ||
	    (e->job.sparse == CLI_CP_AUTO && (!src->tells_holes || src->has_zeroes))) {
		e->unit = e->align > ZERO_UNIT ? e->align : ZERO_UNIT;
		e->least = e->job.sparse == CLI_CP_ALWAYS ? e->unit : ZERO_LEAST;
	}
	return 0;
}

static int cp_buffers(struct cli_cp_engine *e)
{
	size_t each = e->job.compare ? 2 * (size_t)e->chunk : e->chunk;
	unsigned int i;

	e->n_slots =
		(unsigned int)(e->job.memory / each < SLOTS_MAX ? e->job.memory / each : SLOTS_MAX);
	if (!e->n_slots)
		e->n_slots = 1;
	e->memory_len = each * e->n_slots;
	e->slots = calloc(e->n_slots, sizeof(*e->slots));
	e->memory = rd_iomem_map(e->memory_len);
	if (!e->slots || !e->memory)
		return -ENOMEM;
	for (i = 0; i < e->n_slots; i++) {
		e->slots[i].e = e;
		e->slots[i].buf = e->memory + i * each;
		e->slots[i].other = e->job.compare ? e->slots[i].buf + e->chunk : NULL;
	}
	return 0;
}

int cli_cp_engine_new(const struct cli_cp_job *job, struct cli_cp_engine **out)
{
	struct cli_cp_engine *e = calloc(1, sizeof(*e));
	int rc;

	*out = NULL;
	if (!e)
		return -ENOMEM;
	e->job = *job;
	e->issued = e->done = e->stable = job->start;
	e->broken = UINT64_MAX;
	rc = cp_geometry(e);
	if (!rc)
		rc = cp_buffers(e);
	if (rc) {
		cli_cp_engine_free(e);
		return rc;
	}
	cp_begin_pass(job->src);
	cp_begin_pass(job->dst);
	*out = e;
	return 0;
}

void cli_cp_engine_free(struct cli_cp_engine *e)
{
	if (!e)
		return;
	if (e->memory)
		rd_iomem_unmap(e->memory, e->memory_len);
	free(e->slots);
	free(e);
}

/* Finding zeroes in data. */

static bool run_is_zero(const unsigned char *buf, size_t len)
{
	static const unsigned char none[16];

	if (len <= sizeof(none))
		return memcmp(buf, none, len) == 0;
	/* If the first 16 bytes are zero and the data equals itself shifted by 16 bytes, all of
	 * it is zero. */
	return memcmp(buf, none, sizeof(none)) == 0 &&
	       memcmp(buf, buf + sizeof(none), len - sizeof(none)) == 0;
}

/* The number of zero bytes at the start of @buf in whole units, or its length if all of it is
 * zero. */
static uint64_t run_of_zeroes(const unsigned char *buf, uint64_t len, uint32_t unit)
{
	uint64_t at = 0;

	while (at < len) {
		uint64_t n = len - at < unit ? len - at : unit;

		if (!run_is_zero(buf + at, (size_t)n))
			break;
		at += n;
	}
	return at < len ? at - at % unit : len;
}

uint64_t cli_cp_run(const unsigned char *buf, uint64_t len, uint32_t unit, uint32_t least,
		    bool *zero)
{
	uint64_t at = 0, n;

	for (;;) {
		n = run_of_zeroes(buf + at, len - at, unit);
		if (n >= least || (at == 0 && n == len))
			break;
		at += n;
		if (at < len)
			at += len - at < unit ? len - at : unit; /* this unit has other content */
		if (at >= len) {
			*zero = false;
			return len;
		}
	}
	*zero = at == 0;
	return at ? at : n;
}
