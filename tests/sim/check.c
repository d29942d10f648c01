/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linearizability of registers whose writes have unique values (Gibbons and Korach, "Testing shared
 * memories", 1997). A write and the reads that returned its value are a cluster. Its zone lies
 * between the earliest end and the latest begin of its operations. If the earliest end is before
 * the latest begin (forward zone), the block had the value during the whole zone, so two forward
 * zones must not overlap. Otherwise (backward zone) the block had the value at some time of the
 * zone, so a backward zone must not lie within a forward zone of another value.
 *
 * After a loss of power a new epoch begins, with the value that the storage has then.
 */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct write {
	uint64_t value;
	uint64_t begin;
	uint64_t end;     /* CHECK_NEVER: not acknowledged */
	uint64_t unknown; /* when the outcome became unknown; CHECK_NEVER: it did not */
	uint64_t first_end, last_begin; /* of the cluster */
	uint64_t replaced_by;           /* by Compare and Write; 0: none */
	uint64_t expected;              /* of Compare and Write: what it is to replace */
	uint64_t after;   /* the end of a later write of the same host; see order_writes() */
	uint64_t settled; /* since when it takes no effect; CHECK_NEVER: it may do so yet */
	unsigned int host;
	unsigned int stored; /* so many times */
	bool refused;
	bool seen; /* by a read */
	bool durable;
};

struct block {
	struct write *writes;
	unsigned int count, room;
	unsigned int epoch; /* index of the first write of the epoch, */
	uint64_t since;     /* which began then */
};

struct check {
	unsigned int blocks;
	uint64_t next;
	uint64_t ops;
	bool no_memory;
	char failed[256]; /* a violation that was found before the end */
	struct block block[];
};

struct check *check_new(unsigned int blocks)
{
	struct check *ck = calloc(1, sizeof(*ck) + blocks * sizeof(ck->block[0]));

	if (!ck)
		return NULL;
	ck->blocks = blocks;
	for (unsigned int i = 0; i < blocks; i++) {
		/* The content at the beginning, the value 0. */
		check_write_begins(ck, 0, i, 0);
		check_write_done(ck, i, 0, true);
	}
	return ck;
}

void check_free(struct check *ck)
{
	if (!ck)
		return;
	for (unsigned int i = 0; i < ck->blocks; i++)
		free(ck->block[i].writes);
	free(ck);
}

uint64_t check_value(struct check *ck, unsigned int block)
{
	return ++ck->next << CHECK_BLOCK_BITS | block;
}

unsigned int check_block_of(uint64_t value)
{
	return (unsigned int)(value & ((1u << CHECK_BLOCK_BITS) - 1));
}

static void violation(struct check *ck, const char *what, uint64_t value, uint64_t other)
{
	if (ck->failed[0])
		return;
	snprintf(ck->failed, sizeof(ck->failed),
		 "block %u: %s (values %" PRIu64 " and %" PRIu64 ")", check_block_of(value), what,
		 value >> CHECK_BLOCK_BITS, other >> CHECK_BLOCK_BITS);
}

static struct write *find_write(struct check *ck, uint64_t value)
{
	struct block *b = &ck->block[check_block_of(value) % ck->blocks];

	for (unsigned int i = b->count; i > 0; i--)
		if (b->writes[i - 1].value == value)
			return &b->writes[i - 1];
	return NULL;
}

unsigned int check_host_of(struct check *ck, uint64_t value, uint64_t *begin)
{
	const struct write *w = find_write(ck, value);

	*begin = w ? w->begin : 0;
	return w ? w->host : 0;
}

unsigned int check_stored(struct check *ck, uint64_t value)
{
	struct write *w = find_write(ck, value);

	return w ? ++w->stored : 0;
}

void check_write_begins(struct check *ck, unsigned int host, uint64_t value, uint64_t now)
{
	struct block *b = &ck->block[check_block_of(value)];

	if (b->count == b->room) {
		unsigned int room = b->room ? 2 * b->room : 16;
		struct write *writes = reallocarray(b->writes, room, sizeof(*writes));

		if (!writes) {
			ck->no_memory = true;
			return;
		}
		b->writes = writes;
		b->room = room;
	}
	b->writes[b->count++] = (struct write){
		.value = value,
		.begin = now,
		.end = CHECK_NEVER,
		.unknown = CHECK_NEVER,
		.after = CHECK_NEVER,
		.settled = CHECK_NEVER,
		.host = host,
	};
	ck->ops++;
}

/*
 * A host that learned that a write may have been executed, and wrote the block again: the old write
 * must not appear once the new one is acknowledged.
 */
static void order_writes(struct block *b, const struct write *later)
{
	for (unsigned int i = b->epoch; i < b->count; i++) {
		struct write *w = &b->writes[i];

		if (w->host == later->host && w->unknown < later->begin && later->end < w->after)
			w->after = later->end;
	}
}

void check_write_done(struct check *ck, uint64_t value, uint64_t now, bool durable)
{
	struct write *w = find_write(ck, value);

	if (!w)
		return;
	w->end = now;
	w->durable = durable;
	order_writes(&ck->block[check_block_of(value)], w);
}

void check_write_refused(struct check *ck, uint64_t value)
{
	struct write *w = find_write(ck, value);

	if (w)
		w->refused = true;
}

void check_write_unknown(struct check *ck, uint64_t value, uint64_t now)
{
	struct write *w = find_write(ck, value);

	if (w)
		w->unknown = now;
}

void check_write_settled(struct check *ck, uint64_t value, uint64_t now)
{
	struct write *w = find_write(ck, value);

	if (w)
		w->settled = now;
}

static void extend_cluster(struct write *w, uint64_t begin, uint64_t end)
{
	if (!w->seen) {
		w->first_end = w->end < end ? w->end : end;
		w->last_begin = w->begin > begin ? w->begin : begin;
		w->seen = true;
		return;
	}
	w->first_end = end < w->first_end ? end : w->first_end;
	w->last_begin = begin > w->last_begin ? begin : w->last_begin;
}

void check_read(struct check *ck, unsigned int block, uint64_t value, uint64_t begin, uint64_t now)
{
	struct write *w = check_block_of(value) == block ? find_write(ck, value) : NULL;

	ck->ops++;
	if (begin < ck->block[block].since)
		return; /* the read may have returned the value from before the loss of power */
	if (!w) {
		violation(ck, "a read has returned what nobody wrote there", block, value);
		return;
	}
	if (w->refused)
		violation(ck, "a read has returned a write that was refused", value, value);
	if (now < w->begin)
		violation(ck, "a read has returned a later write", value, value);
	if (begin > w->after)
		violation(ck, "a write of unknown result has overwritten a newer one of its host",
			  value, value);
	extend_cluster(w, begin, now);
}

void check_write_expects(struct check *ck, uint64_t value, uint64_t old)
{
	struct write *w = find_write(ck, value);

	if (w)
		w->expected = old;
}

uint64_t check_expected(struct check *ck, uint64_t value)
{
	const struct write *w = find_write(ck, value);

	return w ? w->expected : 0;
}

void check_replaced(struct check *ck, uint64_t old, uint64_t value, uint64_t begin)
{
	struct write *w = find_write(ck, old);

	/* A loss of power may have undone what was answered after it. */
	if (!w || begin < ck->block[check_block_of(old)].since)
		return;
	if (w->replaced_by)
		violation(ck, "two Compare and Write commands have replaced the same value",
			  w->replaced_by, value);
	w->replaced_by = value;
}

void check_flushed_block(struct check *ck, unsigned int block, uint64_t begin)
{
	struct block *b = &ck->block[block];

	for (unsigned int i = b->epoch; i < b->count; i++)
		if (b->writes[i].end <= begin)
			b->writes[i].durable = true;
}

void check_flushed(struct check *ck, uint64_t begin)
{
	for (unsigned int i = 0; i < ck->blocks; i++)
		check_flushed_block(ck, i, begin);
}

void check_read_durable(struct check *ck, uint64_t value, uint64_t begin)
{
	struct write *w = find_write(ck, value);

	if (w && begin >= ck->block[check_block_of(value)].since)
		w->durable = true;
}

/* When the write takes effect at the latest. */
static uint64_t latest_effect(const struct write *w)
{
	uint64_t until = w->end < w->after ? w->end : w->after;

	if (w->refused)
		return 0;
	return until < w->settled ? until : w->settled;
}

bool check_surely(struct check *ck, uint64_t value, uint64_t begin)
{
	const struct block *b = &ck->block[check_block_of(value) % ck->blocks];
	const struct write *w = find_write(ck, value);

	if (!w || w < b->writes + b->epoch || w->end >= begin || b->since > begin)
		return false;
	for (unsigned int i = b->epoch; i < b->count; i++)
		if (&b->writes[i] != w && latest_effect(&b->writes[i]) >= w->begin)
			return false;
	return true;
}

uint64_t check_written_until(struct check *ck, unsigned int block)
{
	const struct block *b = &ck->block[block];
	uint64_t until = 0;

	for (unsigned int i = b->epoch; i < b->count; i++)
		if (latest_effect(&b->writes[i]) > until)
			until = latest_effect(&b->writes[i]);
	return until;
}

uint64_t check_written_since(struct check *ck, unsigned int block, uint64_t before)
{
	const struct block *b = &ck->block[block];
	uint64_t since = 0;

	for (unsigned int i = b->epoch; i < b->count; i++)
		if (b->writes[i].end < before && b->writes[i].begin > since)
			since = b->writes[i].begin;
	return since;
}

/* ---- the judgement ---- */

/* The latest begin of a durable write of the epoch: writes that ended before it must not be the
 * content. */
static uint64_t durable_since(const struct block *b)
{
	uint64_t since = 0;

	for (unsigned int i = b->epoch; i < b->count; i++)
		if (b->writes[i].durable && b->writes[i].begin > since)
			since = b->writes[i].begin;
	return since;
}

static int by_first_end(const void *a, const void *b)
{
	const struct write *x = *(const struct write *const *)a;
	const struct write *y = *(const struct write *const *)b;

	return x->first_end < y->first_end ? -1 : x->first_end > y->first_end;
}

static bool is_forward(const struct write *w)
{
	return w->first_end < w->last_begin;
}

static void judge_zones(struct check *ck, struct write **zones, unsigned int count)
{
	uint64_t open_until = 0;
	const struct write *open = NULL;

	qsort(zones, count, sizeof(struct write *), by_first_end);
	for (unsigned int i = 0; i < count; i++) {
		const struct write *w = zones[i];

		if (!is_forward(w))
			continue;
		if (open && w->first_end < open_until)
			violation(ck, "an older value has come back", open->value, w->value);
		if (w->last_begin > open_until) {
			open_until = w->last_begin;
			open = w;
		}
	}
	for (unsigned int i = 0; i < count; i++) {
		const struct write *w = zones[i];

		for (unsigned int j = 0; !is_forward(w) && j < count; j++) {
			const struct write *f = zones[j];

			if (f->first_end >= w->last_begin)
				break; /* this operation and all later ones begin too late */
			if (is_forward(f) && f->last_begin > w->first_end)
				violation(ck, "a write was lost, or an older value has come back",
					  w->value, f->value);
		}
	}
}

/* The writes from @from to @to of one epoch. */
static void judge_epoch(struct check *ck, struct block *b, unsigned int from, unsigned int to)
{
	struct write **zones = malloc((to - from + 1) * sizeof(struct write *));
	unsigned int count = 0;

	if (!zones) {
		ck->no_memory = true;
		return;
	}
	for (unsigned int i = from; i < to; i++) {
		struct write *w = &b->writes[i];

		/* A write that was neither acknowledged nor seen may never have been executed. */
		if (!w->seen && w->end == CHECK_NEVER)
			continue;
		if (!w->seen) {
			w->first_end = w->end;
			w->last_begin = w->begin;
		} else if (w->end < w->first_end) {
			w->first_end = w->end;
		}
		zones[count++] = w;
	}
	judge_zones(ck, zones, count);
	free(zones);
}

/*
 * The block has @value from now on. Writes that have not ended stay in progress: their host may not
 * have sent them yet, or repeats them.
 */
static void new_epoch(struct check *ck, unsigned int block, uint64_t value, uint64_t now)
{
	struct block *b = &ck->block[block];
	unsigned int from = b->epoch, to = b->count;

	b->epoch = to;
	b->since = now;
	check_write_begins(ck, find_write(ck, value)->host, value, now);
	check_write_done(ck, value, now, true);
	for (unsigned int i = from; i < to; i++) {
		const struct write w = b->writes[i];

		if (w.value == value || w.end != CHECK_NEVER || w.unknown != CHECK_NEVER ||
		    w.refused)
			continue;
		check_write_begins(ck, w.host, w.value, w.begin);
		check_write_expects(ck, w.value, w.expected);
	}
}

bool check_survived(struct check *ck, unsigned int block, uint64_t value, uint64_t now, char *why,
		    unsigned int size)
{
	struct block *b = &ck->block[block];
	const struct write *w = find_write(ck, value);

	if (!w || w->refused || w < b->writes + b->epoch)
		violation(ck, "after the loss of power it has what was not written", block, value);
	else if (w->end < durable_since(b))
		violation(ck, "what was acknowledged as durable is gone after the loss of power",
			  value, value);
	judge_epoch(ck, b, b->epoch, b->count);
	if (w && w >= b->writes + b->epoch)
		new_epoch(ck, block, value, now);
	snprintf(why, size, "%s", ck->failed);
	return !ck->failed[0];
}

bool check_history(struct check *ck, char *why, unsigned int size)
{
	for (unsigned int i = 0; i < ck->blocks; i++)
		judge_epoch(ck, &ck->block[i], ck->block[i].epoch, ck->block[i].count);
	if (ck->no_memory)
		snprintf(ck->failed, sizeof(ck->failed), "out of memory");
	snprintf(why, size, "%s", ck->failed);
	return !ck->failed[0];
}

uint64_t check_ops(const struct check *ck)
{
	return ck->ops;
}
