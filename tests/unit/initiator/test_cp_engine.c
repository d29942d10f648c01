/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy engine of rdinit cp between two endpoints in memory, which complete in any order and
 * fail on request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "copy/copy.h"
#include "suites.h"

#define MIB     (1u << 20)
#define KIB     1024u
#define OPS_MAX 256u
#define NOWHERE UINT64_MAX
#define HOLES   8

struct fake {
	struct cli_cp_end end;
	unsigned char *data;
	uint64_t room; /* bytes of data */
	uint64_t hole_from[HOLES], hole_to[HOLES];
	unsigned int n_holes;
	unsigned int unknown; /* so many questions about holes are not answered at once */
	struct cli_cp_op *ops[OPS_MAX];
	unsigned int n_ops, depth;
	unsigned int
		order; /* order of completion. 0: as submitted; 1: last first; else alternating */
	uint64_t slow_at; /* the operation that begins there does not complete */
	uint64_t fail_at; /* an operation on this byte fails */
	enum cli_cp_kind fail_kind;
	uint64_t last_end;  /* for sequential endpoints: the end of the last operation */
	uint64_t unflushed; /* end of the last write */
	unsigned int reads, writes, zeroes, flushes, most;
	uint64_t ends_at; /* length of a stream, or of a file that was shortened */
	bool out_of_order, overlap, misaligned;
	bool parts; /* operations may begin inside a unit */
};

static void fake_extent(struct cli_cp_end *end, uint64_t at, uint64_t *len, bool *hole)
{
	struct fake *f = (struct fake *)end;
	unsigned int i;

	*hole = false;
	*len = end->size - at;
	if (f->unknown) {
		f->unknown--;
		*len = 0;
		return;
	}
	for (i = 0; i < f->n_holes; i++) {
		if (at >= f->hole_from[i] && at < f->hole_to[i]) {
			*hole = true;
			*len = f->hole_to[i] - at;
			return;
		}
		if (f->hole_from[i] > at && f->hole_from[i] - at < *len)
			*len = f->hole_from[i] - at;
	}
}

static int fake_submit(struct cli_cp_end *end, struct cli_cp_op *op)
{
	struct fake *f = (struct fake *)end;
	unsigned int i;

	if (f->n_ops == f->depth)
		return -EAGAIN;
	if (op->kind != CLI_CP_FLUSH) {
		if (end->sequential && (op->at != f->last_end || f->n_ops))
			f->out_of_order = true;
		f->last_end = op->at + op->len;
		/* An operation inside a unit ends with it. */
		f->misaligned |= op->at % end->align &&
				 (!f->parts || op->at % end->align + op->len > end->align);
		f->misaligned |=
			op->kind != CLI_CP_READ && op->len % end->align && op->len > end->align;
	}
	for (i = 0; i < f->n_ops; i++) {
		const struct cli_cp_op *o = f->ops[i];

		f->overlap |= op->kind != CLI_CP_FLUSH && o->kind != CLI_CP_FLUSH &&
			      op->at < o->at + o->len && o->at < op->at + op->len;
	}
	f->ops[f->n_ops++] = op;
	if (f->n_ops > f->most)
		f->most = f->n_ops;
	return 0;
}

static void fake_do(struct fake *f, struct cli_cp_op *op)
{
	uint64_t there = op->len;

	if (op->kind == f->fail_kind && f->fail_at >= op->at && f->fail_at < op->at + op->len) {
		op->done(op, -EIO, "the disk is on fire");
		return;
	}
	switch (op->kind) {
	case CLI_CP_READ:
		f->reads++;
		if (op->at + there > f->ends_at)
			there = op->at < f->ends_at ? f->ends_at - op->at : 0;
		memcpy(op->buf, f->data + op->at, there);
		op->got = there;
		break;
	case CLI_CP_WRITE:
		f->writes++;
		memcpy(f->data + op->at, op->buf, op->len);
		break;
	case CLI_CP_ZERO:
		f->zeroes++;
		memset(f->data + op->at, 0, op->len);
		break;
	case CLI_CP_FLUSH:
		f->flushes++;
		break;
	}
	op->done(op, 0, "");
}

/* Completes one operation at a time, so that the engine sees every order. */
static int fake_process(struct cli_cp_end *end, const char **text)
{
	struct fake *f = (struct fake *)end;
	struct cli_cp_op *op;
	unsigned int i = 0;

	*text = "";
	if (!f->n_ops)
		return 0;
	if (f->order == 1)
		i = f->n_ops - 1;
	else if (f->order > 1)
		i = f->order++ * 7919u % f->n_ops;
	if (f->ops[i]->at == f->slow_at && f->ops[i]->kind != CLI_CP_FLUSH) {
		if (f->n_ops == 1)
			return 0;
		i = i ? i - 1 : 1;
	}
	op = f->ops[i];
	f->n_ops--;
	memmove(&f->ops[i], &f->ops[i + 1], (f->n_ops - i) * sizeof(f->ops[0]));
	fake_do(f, op);
	return 1;
}

static const struct cli_cp_end_ops fake_ops = {
	.extent = fake_extent,
	.submit = fake_submit,
	.process = fake_process,
};

static void fake_make(struct fake *f, const char *name, uint64_t size, uint32_t align)
{
	memset(f, 0, sizeof(*f));
	f->room = size;
	f->data = calloc(1, size + MIB);
	f->depth = 32;
	f->order = 2;
	f->fail_at = f->slow_at = NOWHERE;
	f->ends_at = size;
	f->end = (struct cli_cp_end){
		.ops = &fake_ops,
		.name = name,
		.size = size,
		.align = align,
		.max_io = 128 * KIB,
		.max_zero = MIB,
	};
}

/* Non-zero bytes, different at each position. */
static void fake_fill(struct fake *f, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		f->data[from] = (unsigned char)(1 + (from * 2654435761u >> 13) % 255);
}

static struct fake src, dst;
static uint64_t stable_upto[64];
static unsigned int stable_n;

static void on_stable(void *user, uint64_t upto)
{
	if (stable_n < 64)
		stable_upto[stable_n++] = upto;
}

static struct cli_cp_engine *cp_engine_begin(enum cli_cp_sparse sparse, uint64_t start,
					     bool compare)
{
	struct cli_cp_job job = {
		.src = &src.end,
		.dst = &dst.end,
		.start = start,
		.sparse = sparse,
		.compare = compare,
		.memory = MIB,
		.stable = on_stable,
	};
	struct cli_cp_engine *e = NULL;

	stable_n = 0;
	CU_ASSERT_EQUAL_FATAL(cli_cp_engine_new(&job, &e), 0);
	return e;
}

/* Turns until the engine has finished: @each operations in each turn, and at most @turns. */
static bool run_turns(struct cli_cp_engine *e, unsigned int turns)
{
	const char *text;

	while (turns-- && !cli_cp_engine_finished(e)) {
		cli_cp_engine_step(e);
		src.end.ops->process(&src.end, &text);
		dst.end.ops->process(&dst.end, &text);
	}
	return cli_cp_engine_finished(e);
}

static struct cli_cp_status cp_engine_run(struct cli_cp_engine *e)
{
	struct cli_cp_status st;

	CU_ASSERT_TRUE(run_turns(e, 100000));
	cli_cp_engine_status(e, &st);
	return st;
}

/* Both ends of @bytes with blocks of 512 bytes; the source has data. */
static void both_make(uint64_t bytes)
{
	fake_make(&src, "src", bytes, 512);
	fake_make(&dst, "dst", bytes, 512);
	fake_fill(&src, 0, src.room);
}

static void end_of_case(struct cli_cp_engine **e)
{
	CU_ASSERT_FALSE(src.out_of_order || src.misaligned);
	CU_ASSERT_FALSE(dst.out_of_order || dst.overlap || dst.misaligned);
	cli_cp_engine_free(*e);
	free(src.data);
	free(dst.data);
}

static void copies_all(void)
{
	static const uint64_t sizes[] = {
		0, 1, 511, 512, 4096, 5 * MIB, 3 * MIB + 511, 128 * KIB + 1, 128 * KIB, 4097};
	static const uint32_t aligns[][2] = {{1, 1}, {512, 4096}, {4096, 512}, {1, 512}, {4096, 1}};
	struct cli_cp_engine *e;
	struct cli_cp_status st;
	unsigned int i, j, order;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (j = 0; j < sizeof(aligns) / sizeof(aligns[0]); j++) {
			order = (i + j) % 3;
			fake_make(&src, "src", sizes[i], aligns[j][0]);
			fake_make(&dst, "dst", sizes[i], aligns[j][1]);
			src.order = dst.order = order;
			fake_fill(&src, 0, sizes[i]);
			e = cp_engine_begin(CLI_CP_AUTO, 0, false);
			st = cp_engine_run(e);

			CU_ASSERT_EQUAL(st.err, 0);
			CU_ASSERT_EQUAL(st.done, sizes[i]);
			CU_ASSERT_EQUAL(st.complete, sizes[i]);
			CU_ASSERT_EQUAL(memcmp(src.data, dst.data, sizes[i]), 0);
			end_of_case(&e);
		}
	}
}

static void is_parallel_and_bounded(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;

	both_make(8 * MIB);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	CU_ASSERT_EQUAL(cp_engine_run(e).err, 0);
	/* A mebibyte of buffers is eight pieces of 128 KiB. */
	CU_ASSERT_EQUAL(src.most, 8);
	CU_ASSERT_TRUE(dst.most <= 8);
}

static void full_queues_are_waited_for(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;

	fake_make(&src, "src", 4 * MIB, 512);
	fake_make(&dst, "dst", 4 * MIB, 512);
	src.depth = 3;
	dst.depth = 1;
	fake_fill(&src, 0, src.room);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	CU_ASSERT_EQUAL(cp_engine_run(e).err, 0);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
}

/* A destination with other data, and a source with holes whose borders are not block borders. */
static void holes_are_not_read(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	fake_make(&src, "src", 8 * MIB + 100, 1);
	fake_make(&dst, "dst", 9 * MIB, 4096);
	src.end.tells_holes = true;
	src.n_holes = 2;
	src.hole_from[0] = MIB + 1;
	src.hole_to[0] = 4 * MIB + 7;
	src.hole_from[1] = 6 * MIB;
	src.hole_to[1] = 8 * MIB + 100; /* to the end, which is inside a block */
	fake_fill(&src, 0, MIB + 1);
	fake_fill(&src, 4 * MIB + 7, 6 * MIB);
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, 0);
	CU_ASSERT_EQUAL(st.done, src.room);
	CU_ASSERT_EQUAL(st.holes, 3 * MIB - 4096 + 2 * MIB);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
	CU_ASSERT_EQUAL(dst.data[src.room], 0xdd);
	CU_ASSERT_EQUAL(src.reads, 8 + 1 + 1 + 16 + 1); /* the data, and the ends of the holes */
}

/* Nothing is begun before it is known whether there is a hole. */
static void waits_for_what_is_not_known(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	fake_make(&src, "src", 4 * MIB, 512);
	fake_make(&dst, "dst", 4 * MIB, 512);
	src.end.tells_holes = true;
	src.n_holes = 1;
	src.hole_from[0] = 0;
	src.hole_to[0] = 3 * MIB;
	src.unknown = 2;
	fake_fill(&src, 3 * MIB, src.room);
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	CU_ASSERT_FALSE(cli_cp_engine_step(e));
	CU_ASSERT_FALSE(cli_cp_engine_finished(e));
	CU_ASSERT_FALSE(cli_cp_engine_step(e));
	CU_ASSERT_EQUAL(src.n_ops + dst.n_ops, 0);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, 0);
	CU_ASSERT_EQUAL(st.holes, 3 * MIB);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
}

static void zeroes_of(enum cli_cp_sparse sparse, bool tells, uint64_t holes, bool written)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	fake_make(&src, "src", 4 * MIB, 512);
	fake_make(&dst, "dst", 4 * MIB, 512);
	src.end.tells_holes = tells;
	fake_fill(&src, 0, src.room);
	memset(src.data + MIB + 64 * KIB, 0, MIB);  /* long, not at the borders of pieces */
	memset(src.data + 3 * MIB + 4096, 0, 4096); /* short */
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(sparse, 0, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, 0);
	CU_ASSERT_EQUAL(st.holes, holes);
	CU_ASSERT_EQUAL(dst.zeroes == 0, written);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
}

static void zeroes_become_holes(void)
{
	zeroes_of(CLI_CP_AUTO, false, MIB, false);
	zeroes_of(CLI_CP_AUTO, true, 0, true);
	zeroes_of(CLI_CP_ALWAYS, true, MIB + 4096, false);
	zeroes_of(CLI_CP_NEVER, false, 0, true);
}

static void never_reads_the_holes(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;

	fake_make(&src, "src", 4 * MIB, 512);
	fake_make(&dst, "dst", 4 * MIB, 512);
	src.end.tells_holes = true;
	src.n_holes = 1;
	src.hole_to[0] = 2 * MIB;
	fake_fill(&src, 2 * MIB, 4 * MIB);
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(CLI_CP_NEVER, 0, false);
	CU_ASSERT_EQUAL(cp_engine_run(e).holes, 0);
	CU_ASSERT_EQUAL(dst.zeroes, 0);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
}

/* Blocks of 16 KiB at the source; the destination zeroes units of 8 KiB. */
static void zeroes_too_long_for_one_command(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	fake_make(&src, "src", MIB, 16 * KIB);
	fake_make(&dst, "dst", MIB, 512);
	dst.end.max_zero = 8 * KIB;
	fake_fill(&src, 0, 128 * KIB);
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(CLI_CP_ALWAYS, 0, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, 0);
	CU_ASSERT_EQUAL(st.holes, 0);
	CU_ASSERT_EQUAL(dst.zeroes, 0);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
}

static void runs(void)
{
	unsigned char *buf = calloc(1, 256 * KIB);
	bool zero;

	CU_ASSERT_EQUAL(cli_cp_run(buf, 256 * KIB, 4096, 64 * KIB, &zero), 256 * KIB);
	CU_ASSERT_TRUE(zero);
	CU_ASSERT_EQUAL(cli_cp_run(buf, 700, 4096, 64 * KIB, &zero), 700);
	CU_ASSERT_TRUE(zero);
	buf[100 * KIB] = 1;
	CU_ASSERT_EQUAL(cli_cp_run(buf, 256 * KIB, 4096, 64 * KIB, &zero), 100 * KIB);
	CU_ASSERT_TRUE(zero);
	CU_ASSERT_EQUAL(cli_cp_run(buf + 100 * KIB, 156 * KIB, 4096, 64 * KIB, &zero), 4096);
	CU_ASSERT_FALSE(zero);
	/* Zeroes shorter than a unit belong to the data around them, also at the end. */
	CU_ASSERT_EQUAL(cli_cp_run(buf + 60 * KIB, 90 * KIB, 4096, 64 * KIB, &zero), 90 * KIB);
	CU_ASSERT_FALSE(zero);
	buf[256 * KIB - 1] = 1; /* the last byte of a unit counts */
	CU_ASSERT_EQUAL(cli_cp_run(buf + 104 * KIB, 152 * KIB, 4096, 64 * KIB, &zero), 148 * KIB);
	CU_ASSERT_TRUE(zero);
	free(buf);
}

static void stream_in(uint64_t size, uint64_t limit, int err)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	fake_make(&src, "standard input", size, 1);
	fake_make(&dst, "dst", limit, 512);
	src.end.size = CLI_CP_UNKNOWN;
	src.end.sequential = true;
	fake_fill(&src, 0, size);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, err);
	CU_ASSERT_EQUAL(st.complete, size < limit ? size : limit);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, size < limit ? size : limit), 0);
	if (!err)
		CU_ASSERT_EQUAL(st.size, size);
}

static void streams_end_where_they_end(void)
{
	stream_in(0, MIB, 0);
	stream_in(1, MIB, 0);
	stream_in(300 * KIB + 77, MIB, 0);
	stream_in(256 * KIB, MIB, 0);
	stream_in(MIB, MIB, 0); /* the end is that of the destination */
	stream_in(MIB + 1, MIB, -EFBIG);
}

static void a_stream_is_written_in_order(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;

	fake_make(&src, "src", 4 * MIB + 5, 512);
	fake_make(&dst, "standard output", 4 * MIB + 5, 1);
	dst.end.size = CLI_CP_UNKNOWN;
	dst.end.sequential = true;
	fake_fill(&src, 0, src.room);
	memset(src.data + MIB, 0, 2 * MIB);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	CU_ASSERT_EQUAL(cp_engine_run(e).err, 0);
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, src.room), 0);
	CU_ASSERT_TRUE(src.most > 1);
}

static void fails(enum cli_cp_kind kind, uint64_t at)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	both_make(8 * MIB);
	memset(src.data + 4 * MIB, 0, MIB);
	(kind == CLI_CP_READ ? &src : &dst)->fail_at = at;
	(kind == CLI_CP_READ ? &src : &dst)->fail_kind = kind;
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(st.text, "the disk is on fire"));
	CU_ASSERT_PTR_NOT_NULL(strstr(st.text, kind == CLI_CP_READ ? "src: " : "dst: "));
	CU_ASSERT_EQUAL(st.complete, at - at % (128 * KIB));
	CU_ASSERT_EQUAL(memcmp(src.data, dst.data, st.complete), 0);
	CU_ASSERT_EQUAL(src.n_ops + dst.n_ops, 0);
	/* The part that is complete can still be made stable. */
	cli_cp_engine_flush(e);
	CU_ASSERT_EQUAL(cp_engine_run(e).stable, st.complete);
	CU_ASSERT_EQUAL(stable_n, 1);
}

static void failures_say_what_is_complete(void)
{
	fails(CLI_CP_READ, 0);
	fails(CLI_CP_READ, 3 * MIB + 5);
	fails(CLI_CP_WRITE, 7 * MIB);
	fails(CLI_CP_ZERO, 4 * MIB + 4096);
}

static void an_unreadable_end(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	struct cli_cp_status st;

	fake_make(&src, "src", 2 * MIB, 512);
	fake_make(&dst, "dst", 2 * MIB, 512);
	src.ends_at = MIB + 700; /* the file was shortened */
	fake_fill(&src, 0, src.room);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.err, -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(st.text, "is missing: the file had 2097152 bytes"));
}

static void a_stream_that_waits_is_abandoned(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;

	fake_make(&src, "standard input", MIB, 1);
	fake_make(&dst, "dst", MIB, 512);
	src.end.size = CLI_CP_UNKNOWN;
	src.end.sequential = true;
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	cli_cp_engine_step(e);
	CU_ASSERT_EQUAL(src.n_ops, 1);
	CU_ASSERT_FALSE(cli_cp_engine_finished(e));
	cli_cp_engine_stop(e, -EINTR, "Interrupt");
	CU_ASSERT_TRUE(cli_cp_engine_finished(e));
}

static void who_does_not_answer_is_not_waited_for(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;

	both_make(4 * MIB);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	run_turns(e, 3);
	cli_cp_engine_step(e);
	CU_ASSERT_TRUE(src.n_ops && dst.n_ops);
	cli_cp_engine_stop(e, -EINTR, "Interrupt");
	CU_ASSERT_FALSE(cli_cp_engine_finished(e));
	dst.end.stuck = true;
	CU_ASSERT_FALSE(cli_cp_engine_finished(e)); /* the source still completes operations */
	src.end.stuck = true;
	CU_ASSERT_TRUE(cli_cp_engine_finished(e));
	CU_ASSERT_TRUE(run_turns(e, 1));
}

/* The journal asks for a flush each second, also while the one before is in flight. */
static void a_flush_that_waits_for_another_ends_with_a_stop(void)
{
	struct cli_cp_engine *e T_ENDS(end_of_case) = NULL;
	unsigned int i, flushes = 0;

	both_make(4 * MIB);
	e = cp_engine_begin(CLI_CP_AUTO, 0, false);
	run_turns(e, 3);
	cli_cp_engine_flush(e);
	cli_cp_engine_step(e);
	for (i = 0; i < dst.n_ops; i++)
		flushes += dst.ops[i]->kind == CLI_CP_FLUSH;
	CU_ASSERT_EQUAL(flushes, 1);
	cli_cp_engine_flush(e);
	src.end.stuck = dst.end.stuck = true;
	CU_ASSERT_FALSE(cli_cp_engine_finished(e));
	cli_cp_engine_stop(e, -EINTR, "Interrupt");
	CU_ASSERT_TRUE(cli_cp_engine_finished(e));
}

/* A flush makes stable what was written when it began, independent of later operations. */
static void flushes_cover_what_was_complete(void)
{
	struct cli_cp_engine *e;
	unsigned int i, j;
	unsigned char *then = malloc(8 * MIB);

	for (i = 1; i < 60; i += 3) {
		both_make(8 * MIB);
		e = cp_engine_begin(CLI_CP_AUTO, 0, false);
		run_turns(e, i);
		memcpy(then, dst.data, dst.room);
		cli_cp_engine_flush(e);
		dst.order = 1; /* the flush completes before older writes */
		cli_cp_engine_step(e);
		run_turns(e, 1);
		for (j = 0; j < stable_n; j++)
			CU_ASSERT_EQUAL(memcmp(src.data, then, stable_upto[j]), 0);
		CU_ASSERT_EQUAL(cp_engine_run(e).err, 0);
		CU_ASSERT_EQUAL(dst.flushes, 1);
		end_of_case(&e);
	}
	free(then);
}

static void resumes_where_it_is_told(void)
{
	struct cli_cp_engine *e;
	struct cli_cp_status st;

	both_make(8 * MIB);
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(CLI_CP_AUTO, 5 * MIB, false);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(st.done, 8 * MIB);
	CU_ASSERT_EQUAL(src.reads, 3 * 8);
	CU_ASSERT_EQUAL(dst.data[5 * MIB - 1], 0xdd);
	CU_ASSERT_EQUAL(memcmp(src.data + 5 * MIB, dst.data + 5 * MIB, 3 * MIB), 0);
	end_of_case(&e);

	fake_make(&src, "src", 8 * MIB, 512);
	fake_make(&dst, "dst", 8 * MIB, 512);
	e = cp_engine_begin(CLI_CP_AUTO, 8 * MIB, false); /* nothing is left */
	CU_ASSERT_EQUAL(cp_engine_run(e).done, 8 * MIB);
	CU_ASSERT_EQUAL(src.reads, 0);
	end_of_case(&e);
}

static struct cli_cp_status compare(uint64_t spoil, bool in_hole)
{
	struct cli_cp_engine *e;
	struct cli_cp_status st;

	fake_make(&src, "src", 4 * MIB + 100, 1);
	fake_make(&dst, "dst", 5 * MIB, 4096);
	src.end.tells_holes = dst.end.tells_holes = true;
	src.n_holes = 1;
	src.hole_from[0] = MIB;
	src.hole_to[0] = 3 * MIB;
	dst.n_holes = 1;
	dst.hole_from[0] = MIB;
	dst.hole_to[0] = 2 * MIB;
	fake_fill(&src, 0, MIB);
	fake_fill(&src, 3 * MIB, src.room);
	memcpy(dst.data, src.data, src.room);
	fake_fill(&dst, src.room, dst.room);
	if (spoil != NOWHERE)
		dst.data[spoil] ^= 0x10;
	e = cp_engine_begin(CLI_CP_AUTO, 0, true);
	st = cp_engine_run(e);
	CU_ASSERT_EQUAL(dst.writes + dst.zeroes, 0);
	if (spoil != NOWHERE) {
		char at[64];

		snprintf(at, sizeof(at),
			 "dst differs from src at byte %llu: ", (unsigned long long)spoil);
		CU_ASSERT_EQUAL(st.err, -EBADMSG);
		CU_ASSERT_PTR_NOT_NULL(strstr(st.text, at));
		if (in_hole)
			CU_ASSERT_PTR_NOT_NULL(strstr(st.text, "0x10 instead of 0x00"));
	}
	end_of_case(&e);
	return st;
}

/* As read and write do, with a range that begins and ends inside a block. */
static void begins_inside_a_block(void)
{
	const uint64_t start = 3 * 512 + 100, end = MIB - 7;
	struct cli_cp_engine *e;

	fake_make(&src, "src", end, 1);
	fake_make(&dst, "dst", MIB, 512);
	dst.parts = true;
	fake_fill(&src, 0, end);
	memset(dst.data, 0xdd, dst.room);
	e = cp_engine_begin(CLI_CP_NEVER, start, false);
	CU_ASSERT_EQUAL(cp_engine_run(e).done, end);
	CU_ASSERT_EQUAL(dst.data[start - 1], 0xdd);
	CU_ASSERT_EQUAL(dst.data[end], 0xdd);
	CU_ASSERT_EQUAL(memcmp(src.data + start, dst.data + start, end - start), 0);
	end_of_case(&e);
}

/* What is copied behind a gap is copied again by a copy that is resumed. */
static void one_slow_piece_is_not_left_far_behind(void)
{
	struct cli_cp_engine *e;
	struct cli_cp_status st;
	struct fake *slow;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		fake_make(&src, "src", 16 * MIB, 512);
		fake_make(&dst, "dst", 16 * MIB, 512);
		fake_fill(&src, 0, 16 * MIB);
		src.end.max_io = 4 * KIB;
		slow = i ? &dst : &src;
		slow->slow_at = MIB;
		e = cp_engine_begin(CLI_CP_AUTO, 0, false);
		CU_ASSERT_FALSE(run_turns(e, 20000));
		cli_cp_engine_status(e, &st);
		CU_ASSERT_EQUAL(st.complete, MIB);
		CU_ASSERT_TRUE(st.done > 2 * MIB);
		CU_ASSERT_TRUE(st.done <= MIB + 1024 * 4 * KIB);
		slow->slow_at = NOWHERE;
		st = cp_engine_run(e);
		CU_ASSERT_EQUAL(st.complete, 16 * MIB);
		CU_ASSERT_EQUAL(memcmp(src.data, dst.data, 16 * MIB), 0);
		end_of_case(&e);
	}
}

static void cp_engine_compares(void)
{
	CU_ASSERT_EQUAL(compare(NOWHERE, false).err, 0);
	compare(0, false);
	compare(MIB - 1, false);
	compare(2 * MIB + 12345, true); /* a hole of the source only */
	compare(4 * MIB + 99, false);
}

static void blocks_larger_than_transfers(void)
{
	struct cli_cp_job job = {.src = &src.end, .dst = &dst.end, .memory = MIB};
	struct cli_cp_engine *e = NULL;

	fake_make(&src, "src", MIB, 512);
	fake_make(&dst, "dst", MIB, 64 * KIB);
	src.end.max_io = 32 * KIB;
	CU_ASSERT_EQUAL(cli_cp_engine_new(&job, &e), -EMSGSIZE);
	CU_ASSERT_PTR_NULL(e);
	free(src.data);
	free(dst.data);
}

const struct t_case t_cp_engine_cases[] = {
	{"all bytes arrive, whatever the sizes, blocks and order", copies_all},
	{"pieces are in flight side by side, within the memory given", is_parallel_and_bounded},
	{"full queues are waited for", full_queues_are_waited_for},
	{"holes are not read and their borders keep the data", holes_are_not_read},
	{"zeroes become holes as --sparse says", zeroes_become_holes},
	{"what is not known yet is waited for", waits_for_what_is_not_known},
	{"--sparse=never reads and writes holes", never_reads_the_holes},
	{"zeroes are written if one unit is too long for a command",
	 zeroes_too_long_for_one_command},
	{"runs of zeroes and of data", runs},
	{"a stream ends where it ends, or is too long", streams_end_where_they_end},
	{"a stream is written in order, and read ahead for", a_stream_is_written_in_order},
	{"a failure names the side and says what is complete", failures_say_what_is_complete},
	{"a source that was shortened is an error", an_unreadable_end},
	{"a stream that waits is abandoned after a stop", a_stream_that_waits_is_abandoned},
	{"who does not answer is not waited for after an interrupt",
	 who_does_not_answer_is_not_waited_for},
	{"a flush that waits for another one does not start after a stop",
	 a_flush_that_waits_for_another_ends_with_a_stop},
	{"a flush covers what was complete when it began", flushes_cover_what_was_complete},
	{"a copy continues where it is told", resumes_where_it_is_told},
	{"a copy begins inside a block", begins_inside_a_block},
	{"one slow piece is not left far behind", one_slow_piece_is_not_left_far_behind},
	{"a comparison finds a byte that differs, also in a hole", cp_engine_compares},
	{"blocks that one side cannot transfer are refused", blocks_larger_than_transfers},
	{NULL, NULL},
};
