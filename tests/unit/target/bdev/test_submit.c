/* SPDX-License-Identifier: BSD-3-Clause */
/* What rdt_chan_submit() refuses for every backend: blocks that do not exist, and writes and syncs
 * after a sync has failed. */
#include "base_suites.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/bdev/engine.h"
#include "target/bdev/engine_io.h"

#define SIZE (1u << 20)

struct bench {
	struct rdt_layer_config layers[2];
	struct rdt_ns_config cfg;
	struct rd_loop *loop;
	struct rdt_engines *engines;
	struct rdt_bdev *bdev;
	struct rdt_chan *chan;
	char dir[64], path[96];
	bool done;
};

static char data[4096];

/* False, with a reason printed, when this machine has no engine for @backend. */
static bool submit_bench_open(struct bench *b, enum rdt_backend_type backend, unsigned int layers)
{
	struct rd_loop_opts loop_opts = {.seed = 3};
	struct rdt_engines_opts opts = {.depth = 4};
	char err[256] = "";
	int rc;

	t_dir_make(b->dir);
	snprintf(b->path, sizeof(b->path), "%s/disk", b->dir);
	b->cfg = (struct rdt_ns_config){.backend = backend,
					.engine = RDT_ENGINE_AIO,
					.block_size = 512,
					.size_bytes = SIZE,
					.path = b->path,
					.create = true,
					.layers = b->layers,
					.layers_count = layers};
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &b->loop), 0);
	opts.loop = b->loop;
	CU_ASSERT_EQUAL_FATAL(rdt_engines_create(&opts, &b->engines, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &b->cfg, NULL, &b->bdev, err, sizeof(err)), 0);
	rc = rdt_chan_open(b->bdev, b->engines, &b->chan);
	if (backend == RDT_BACKEND_FILE && rc == -ENODEV) {
		puts("# skipped: this machine has no aio");
		return false;
	}
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	return true;
}

static void submit_bench_close(struct bench *b)
{
	rdt_chan_close(&b->chan);
	rdt_bdev_close(&b->bdev);
	rdt_engines_destroy(&b->engines);
	rd_loop_destroy(&b->loop);
	t_dir_remove(b->dir);
}

static int done_count;

static void submit_bio_done(struct rdt_bio *bio)
{
	done_count++;
}

static int submit_run(struct bench *b, enum rdt_bio_op op, uint64_t offset, uint64_t length,
		      unsigned int flags)
{
	struct rdt_bio bio = {.op = (uint8_t)op,
			      .flags = (uint8_t)flags,
			      .offset = offset,
			      .length = length,
			      .buf = data,
			      .done = submit_bio_done};

	done_count = 0;
	if (rdt_chan_submit(b->chan, &bio) == RDT_BIO_QUEUED)
		while (!done_count)
			CU_ASSERT_TRUE_FATAL(rd_loop_turn(b->loop, RD_NSEC_PER_SEC) >= 0);
	return bio.result;
}

/* ---- bounds ---- */

static void check_bounds(struct bench *b, uint64_t size)
{
	const struct {
		uint64_t offset, length;
	} bad[] = {
		{size, 512},           {size - 512, 1024},     {UINT64_C(1) << 49, 512},
		{-UINT64_C(512), 512}, {-UINT64_C(512), 1024}, {512, -UINT64_C(512)},
		{0, size + 512},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (int op = 0; op < RDT_BIO_OPS; op++)
			CU_ASSERT_EQUAL(
				submit_run(b, (enum rdt_bio_op)op, bad[i].offset, bad[i].length, 0),
				-ERANGE);
	CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_WRITE, size - 512, 512, 0), 0);
	CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_READ, size - 4096, 4096, 0), 0);
	CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_FLUSH, 0, 0, 0), 0);
}

static void out_of_bounds(void)
{
	for (int backend = RDT_BACKEND_FILE; backend <= RDT_BACKEND_NULL; backend++) {
		if (backend == RDT_BACKEND_BLOCK)
			continue; /* as a file, which does not exist here */
		for (unsigned int layers = 0; layers <= 2; layers++) {
			struct bench b = {
				.layers = {{.type = RDT_LAYER_DELAY}, {.type = RDT_LAYER_DELAY}}};

			if (submit_bench_open(&b, (enum rdt_backend_type)backend, layers))
				check_bounds(&b, SIZE);
			submit_bench_close(&b);
		}
	}
}

/* Including bios that a layer queued before. */
static void out_of_bounds_after_a_shrink(void)
{
	struct bench b T_ENDS(submit_bench_close) = {
		.layers = {{.type = RDT_LAYER_DELAY}, {.type = RDT_LAYER_DELAY}}};
	struct rdt_bio bio = {.op = RDT_BIO_WRITE,
			      .offset = SIZE - 512,
			      .length = 512,
			      .buf = data,
			      .done = submit_bio_done};
	char err[256];

	b.layers[1].delay_ns[RDT_BIO_WRITE] = RD_NSEC_PER_MSEC;
	CU_ASSERT_TRUE_FATAL(submit_bench_open(&b, RDT_BACKEND_MEMORY, 2));
	done_count = 0;
	CU_ASSERT_EQUAL(rdt_chan_submit(b.chan, &bio), RDT_BIO_QUEUED);
	CU_ASSERT_EQUAL(t_bdev_resize(b.bdev, SIZE / 2, err, sizeof(err)), 0);
	while (!done_count)
		CU_ASSERT_TRUE_FATAL(rd_loop_turn(b.loop, RD_NSEC_PER_SEC) >= 0);
	CU_ASSERT_EQUAL(bio.result, -ERANGE);
	check_bounds(&b, SIZE / 2);
	CU_ASSERT_EQUAL(t_bdev_resize(b.bdev, SIZE * 2, err, sizeof(err)), 0);
	check_bounds(&b, SIZE * 2);
}

/* ---- syncs that fail ---- */

static void all_is_refused(struct bench *b)
{
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_FLUSH, 0, 0, 0), -ENOTRECOVERABLE);
		CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_WRITE, 0, 512, 0), -ENOTRECOVERABLE);
		CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_WRITE, 0, 512, RDT_BIO_FUA),
				-ENOTRECOVERABLE);
		CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_WRITE_ZEROES, 0, 512, 0), -ENOTRECOVERABLE);
		CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_DEALLOCATE, 0, 512, 0), -ENOTRECOVERABLE);
		CU_ASSERT_EQUAL(submit_run(b, RDT_BIO_READ, 0, 512, 0), 0);
	}
	CU_ASSERT_EQUAL(atomic_load(&rdt_bdev_base(b->bdev)->refused), 10);
}

static void a_failed_flush_stays(void)
{
	for (int layers = 0; layers <= 2; layers += 2) {
		struct bench b = {.layers = {{.type = RDT_LAYER_DELAY}, {.type = RDT_LAYER_DELAY}}};
		struct bench again = {{{0}}};

		if (!submit_bench_open(&b, RDT_BACKEND_FILE, (unsigned int)layers)) {
			submit_bench_close(&b);
			return;
		}
		CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_FLUSH, 0, 0, 0), 0);
		rdt_bdev_sync_failed(b.bdev, NULL, "disk", -EIO);
		rdt_bdev_sync_failed(b.bdev, NULL, "disk", -ENOSPC);
		CU_ASSERT_EQUAL(atomic_load(&rdt_bdev_base(b.bdev)->sync_err), -EIO);
		all_is_refused(&b);
		submit_bench_close(&b);
		CU_ASSERT_TRUE_FATAL(submit_bench_open(&again, RDT_BACKEND_FILE, 0));
		CU_ASSERT_EQUAL(submit_run(&again, RDT_BIO_FLUSH, 0, 0, 0), 0);
		submit_bench_close(&again);
	}
}

/* A layer that fails a Flush counts as a disk that does. */
static void a_layer_that_fails_a_flush(void)
{
	struct bench b T_ENDS(submit_bench_close) = {.layers = {{.type = RDT_LAYER_ERROR,
								 .ops_mask = 1u << RDT_BIO_FLUSH,
								 .count = 1,
								 .rate_of_2_32 = UINT64_C(1) << 32,
								 .errno_value = EIO},
								{.type = RDT_LAYER_DELAY}}};

	CU_ASSERT_TRUE_FATAL(submit_bench_open(&b, RDT_BACKEND_MEMORY, 2));
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_WRITE, 0, 512, 0), 0);
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_FLUSH, 0, 0, 0), -ENOTRECOVERABLE);
	all_is_refused(&b);
}

/* ---- files that end early ---- */

static int told;

static void fault_told(void *arg)
{
	told++;
}

static void a_file_that_ended_early(void)
{
	struct bench b = {.layers = {{.type = RDT_LAYER_DELAY}}};
	struct rdt_noticed noticed;
	struct rdt_bdev *base;
	char err[256];

	if (!submit_bench_open(&b, RDT_BACKEND_FILE, 1)) {
		submit_bench_close(&b);
		return;
	}
	base = rdt_bdev_base(b.bdev);
	base->on_fault = fault_told;
	told = 0;
	CU_ASSERT_FALSE(rdt_bdev_noticed(b.bdev, &noticed));
	CU_ASSERT_EQUAL_FATAL(truncate(b.path, SIZE / 2), 0);
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_READ, SIZE / 2 + 8192, 512, 0), -EIO);
	CU_ASSERT_TRUE(rdt_bdev_noticed(b.bdev, &noticed));
	CU_ASSERT_PTR_NOT_NULL(strstr(noticed.text, "its storage ends at or before byte 532480"));
	CU_ASSERT_TRUE(noticed.since > 0);
	/* A smaller end may be noticed later, and a greater one says nothing new. */
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_READ, SIZE / 2, 512, 0), -EIO);
	rdt_bdev_ended_early(b.bdev, NULL, "disk", SIZE - 512);
	CU_ASSERT_EQUAL(told, 1);
	/* A write would make the file long again, with zeroes for what is lost. */
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_WRITE, SIZE - 512, 512, 0), -ENOTRECOVERABLE);
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_FLUSH, 0, 0, 0), -ENOTRECOVERABLE);
	CU_ASSERT_EQUAL(truncate(b.path, SIZE), 0); /* another program does */
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_READ, SIZE / 2, 512, 0), -EIO);
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_READ, SIZE / 2 - 512, 1024, 0), -EIO);
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_READ, SIZE / 2 - 512, 512, 0), 0);
	CU_ASSERT_EQUAL(atomic_load(&base->refused), 4);
	/* To be as long as before does not help; to be without the lost part does. */
	CU_ASSERT_EQUAL(t_bdev_resize(b.bdev, 0, err, sizeof(err)), 0);
	CU_ASSERT_TRUE(rdt_bdev_noticed(b.bdev, &noticed));
	CU_ASSERT_EQUAL(truncate(b.path, SIZE / 2), 0);
	CU_ASSERT_EQUAL(t_bdev_resize(b.bdev, 0, err, sizeof(err)), 0);
	CU_ASSERT_FALSE(rdt_bdev_noticed(b.bdev, &noticed));
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_WRITE, 0, 512, 0), 0);
	/* Two kinds at once: the size is taken over, and the other one stays. */
	rdt_bdev_ended_early(b.bdev, NULL, "disk", 0);
	rdt_bdev_sync_failed(b.bdev, NULL, "disk", -EIO);
	CU_ASSERT_EQUAL(told, 3);
	CU_ASSERT_EQUAL(submit_run(&b, RDT_BIO_READ, 0, 512, 0), -EIO);
	rdt_bdev_noticed(b.bdev, &noticed);
	CU_ASSERT_PTR_NOT_NULL(strstr(noticed.text, "ends at or before byte"));
	submit_bench_close(&b);
}

/* ---- of an engine ---- */

static bool started(struct rdt_engine *engine, struct rdt_bio *bio)
{
	return true;
}

static const struct rdt_engine_ops fake_ops = {.name = "fake", .start = started};

struct fake {
	struct rdt_engine engine;
	struct rdt_bdev bdev;
	struct rdt_fchan chan;
	struct rdt_engines_opts opts;
	struct rdt_bio bio[2];
	sem_t go[2]; /* a thread may end with @res */
	int res[2];
};

static struct fake *the_fake;

static int64_t fake_thread(const struct rdt_bio *bio)
{
	struct fake *f = the_fake;
	ptrdiff_t i = bio - f->bio;

	while (sem_wait(&f->go[i]) < 0)
		;
	return f->res[i];
}

static void fake_open(struct fake *f, bool direct)
{
	struct rd_loop_opts loop_opts = {.seed = 1};

	*f = (struct fake){.opts.depth = 4, .bdev.block_size = 512};
	f->chan = (struct rdt_fchan){
		.chan.bdev = &f->bdev, .path = "/disk", .direct = direct, .mem_align = 1};
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &f->opts.loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_engine_init(&f->engine, &fake_ops, &f->opts), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_fchan_init(&f->chan, &f->engine, 0), 0);
	sem_init(&f->go[0], 0, 0);
	sem_init(&f->go[1], 0, 0);
	the_fake = f;
	t_blocking_io = fake_thread;
}

static void fake_close(struct fake *f)
{
	rdt_fchan_fini(&f->chan);
	t_blocking_io = NULL;
	sem_destroy(&f->go[0]);
	sem_destroy(&f->go[1]);
	rdt_engine_fini(&f->engine);
	rd_loop_destroy(&f->opts.loop);
}

static void fake_start(struct fake *f, unsigned int i, enum rdt_bio_op op, unsigned int flags)
{
	f->bio[i] = (struct rdt_bio){.op = (uint8_t)op,
				     .flags = (uint8_t)flags,
				     .length = op == RDT_BIO_FLUSH ? 0 : 512,
				     .buf = data,
				     .done = submit_bio_done};
	rdt_engine_submit(&f->chan, &f->bio[i]);
}

/* Results of the kernel until the bio is done. */
static int fake_answer(struct fake *f, unsigned int i, int res)
{
	int before = done_count;

	if (rdt_fio(&f->bio[i])->state == RDT_FIO_KERNEL) {
		rdt_engine_complete(&f->engine, &f->bio[i], res);
		rdt_engine_pump(&f->engine); /* its next step begins */
	} else {
		f->res[i] = res;
		sem_post(&f->go[i]);
		while (done_count == before)
			CU_ASSERT_TRUE_FATAL(rd_loop_turn(f->opts.loop, RD_NSEC_PER_SEC) >= 0);
	}
	return done_count == before ? 1 : f->bio[i].result;
}

static int stuck(const struct fake *f)
{
	return atomic_load(&f->bdev.sync_err);
}

static void which_failures_stay(void)
{
	const struct {
		bool direct;
		enum rdt_bio_op op;
		int res;
		bool stays;
	} rows[] = {
		{false, RDT_BIO_FLUSH, -EIO, true},    {true, RDT_BIO_FLUSH, -EIO, true},
		{false, RDT_BIO_FLUSH, -ENOSPC, true}, {false, RDT_BIO_FLUSH, -ECANCELED, false},
		{true, RDT_BIO_WRITE, -EIO, true},     {true, RDT_BIO_WRITE, -ENOSPC, false},
		{false, RDT_BIO_WRITE, -EIO, false},   {false, RDT_BIO_WRITE, -ENOSPC, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fake f;
		int got;

		fake_open(&f, rows[i].direct);
		fake_start(&f, 0, rows[i].op, rows[i].op == RDT_BIO_WRITE ? RDT_BIO_FUA : 0);
		got = fake_answer(&f, 0, rows[i].res);
		CU_ASSERT_EQUAL(got, rows[i].stays ? -ENOTRECOVERABLE : rows[i].res);
		CU_ASSERT_EQUAL(stuck(&f), rows[i].stays ? rows[i].res : 0);
		fake_close(&f);
	}
}

/* Through the page cache, FUA is a write and then a sync: a failure of either is remembered. */
static void the_second_step_of_fua(void)
{
	struct fake f T_ENDS(fake_close);

	fake_open(&f, false);
	fake_start(&f, 0, RDT_BIO_WRITE, RDT_BIO_FUA);
	CU_ASSERT_EQUAL(fake_answer(&f, 0, 512), 1);
	CU_ASSERT_EQUAL(rdt_fio(&f.bio[0])->step, RDT_FIO_SYNC);
	CU_ASSERT_EQUAL(fake_answer(&f, 0, -ENOSPC), -ENOTRECOVERABLE);
	CU_ASSERT_EQUAL(stuck(&f), -ENOSPC);
}

/* Two syncs at a time: the kernel reports the failure to one of them, and the other one
 * succeeds. */
static void a_sync_beside_one_that_failed(void)
{
	struct fake f T_ENDS(fake_close);

	fake_open(&f, true);
	fake_start(&f, 0, RDT_BIO_FLUSH, 0);
	fake_start(&f, 1, RDT_BIO_FLUSH, 0);
	CU_ASSERT_EQUAL(fake_answer(&f, 0, -EIO), -ENOTRECOVERABLE);
	CU_ASSERT_EQUAL(fake_answer(&f, 1, 0), -ENOTRECOVERABLE);
}

const struct t_case t_submit_cases[] = {
	{"out of bounds is refused", out_of_bounds},
	{"out of bounds after a shrink is refused", out_of_bounds_after_a_shrink},
	{"a failed Flush stays", a_failed_flush_stays},
	{"a layer that fails a Flush", a_layer_that_fails_a_flush},
	{"a file that ended early stays so", a_file_that_ended_early},
	{"which failures of the kernel stay", which_failures_stay},
	{"the second step of FUA", the_second_step_of_fua},
	{"a sync beside one that failed", a_sync_beside_one_that_failed},
	{NULL, NULL},
};
