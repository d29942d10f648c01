/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O through every backend and engine, compared with a model in memory. */
#include "base_suites.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/bdev/engine_io.h"

#define DISK_SIZE (2u << 20)
#define SLAB_SIZE (1u << 20)
#define SLOT_SIZE 65536u
#define SLOTS     12u
#define DEPTH     4u /* far fewer than SLOTS: most bios wait */

struct bench {
	struct rdt_ns_config cfg;
	struct rd_loop *loop;
	struct rdt_engines *engines;
	struct rdt_bdev *bdev;
	struct rdt_chan *chan;
	char *slab;
	char dir[64];
	char path[128];
};

/* False, with a reason printed, when this machine cannot do it. */
static bool bench_open_with(struct bench *b, struct rdt_ns_config cfg, uint32_t depth,
			    struct rdt_ring_opts ring)
{
	struct rd_loop_opts loop_opts = {.seed = 11};
	bool on_disk = cfg.backend == RDT_BACKEND_FILE || cfg.backend == RDT_BACKEND_BLOCK;
	struct rdt_engines_opts opts = {
		.depth = depth,
		.slab_len = SLAB_SIZE,
		.ring = ring,
		.need_uring = on_disk && cfg.engine == RDT_ENGINE_IO_URING,
		.need_aio = on_disk && cfg.engine == RDT_ENGINE_AIO,
	};
	char err[512] = "";
	int rc;

	memset(b, 0, sizeof(*b));
	t_dir_make(b->dir);
	snprintf(b->path, sizeof(b->path), "%s/disk", b->dir);
	b->cfg = cfg;
	b->cfg.nsid = 1;
	b->cfg.size_bytes = DISK_SIZE;
	b->cfg.path = b->path;
	b->cfg.create = true;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &b->loop), 0);
	b->slab = mmap(NULL, SLAB_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_PTR_NOT_EQUAL_FATAL(b->slab, MAP_FAILED);
	opts.loop = b->loop;
	opts.slab = b->slab;
	rc = rdt_engines_create(&opts, &b->engines, err, sizeof(err));
	if (!rc)
		rc = rdt_bdev_open(NULL, &b->cfg, NULL, &b->bdev, err, sizeof(err));
	if (!rc)
		rc = rdt_chan_open(b->bdev, b->engines, &b->chan);
	if (rc)
		printf("# skipped: %s\n", err);
	return rc == 0;
}

static bool bench_open(struct bench *b, struct rdt_ns_config cfg, uint32_t depth)
{
	return bench_open_with(b, cfg, depth, (struct rdt_ring_opts){0});
}

static void bench_close(struct bench *b)
{
	rdt_chan_close(&b->chan);
	rdt_bdev_close(&b->bdev);
	rdt_engines_destroy(&b->engines);
	CU_ASSERT_EQUAL(rd_loop_turn(b->loop, 0), 0);
	rd_loop_destroy(&b->loop);
	munmap(b->slab, SLAB_SIZE);
	t_dir_remove(b->dir);
}

struct t_bio {
	struct rdt_bio bio;
	int done;
};

static void bio_done(struct rdt_bio *bio)
{
	rd_container_of(bio, struct t_bio, bio)->done++;
}

static void backend_start(struct bench *b, struct t_bio *t)
{
	t->done = 0;
	t->bio.done = bio_done;
	t->bio.result = 12345;
	memset(t->bio.priv, 0xa5, sizeof(t->bio.priv));
	if (rdt_chan_submit(b->chan, &t->bio) == RDT_BIO_DONE)
		t->done = 1;
}

static void wait_for(struct bench *b, struct t_bio *t)
{
	uint64_t end = rd_loop_now_raw(b->loop) + 30 * RD_NSEC_PER_SEC;

	while (!t->done && rd_loop_now_raw(b->loop) < end)
		CU_ASSERT_TRUE_FATAL(rd_loop_turn(b->loop, RD_NSEC_PER_SEC) >= 0);
	CU_ASSERT_EQUAL_FATAL(t->done, 1);
}

static int backend_run(struct bench *b, struct rdt_bio bio)
{
	struct t_bio t = {.bio = bio};

	backend_start(b, &t);
	wait_for(b, &t);
	return t.bio.result;
}

static int backend_io(struct bench *b, uint8_t op, uint64_t offset, uint64_t length, void *buf)
{
	return backend_run(
		b, (struct rdt_bio){.op = op, .offset = offset, .length = length, .buf = buf});
}

/* ---- random I/O against a model ---- */

struct slot {
	struct t_bio t;
	bool busy;
	char *buf;
	char *expect; /* of a read: the content of the model when the read started */
};

struct soak {
	struct bench b;
	struct slot slots[SLOTS];
	char *model;
	char *outside; /* memory that is not registered with the engine */
	unsigned int mismatches, failures, ran[RDT_BIO_OPS];
};

/* Two bios in flight may not touch the same blocks if one of them writes. */
static bool overlaps(const struct soak *s, uint64_t offset, uint64_t length)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		const struct rdt_bio *o = &s->slots[i].t.bio;

		if (s->slots[i].busy && offset < o->offset + o->length &&
		    o->offset < offset + length)
			return true;
	}
	return false;
}

static void apply_to_model(struct soak *s, const struct rdt_bio *bio)
{
	if (bio->op == RDT_BIO_WRITE)
		memcpy(s->model + bio->offset, bio->buf, bio->length);
	else if (bio->op == RDT_BIO_WRITE_ZEROES || bio->op == RDT_BIO_DEALLOCATE)
		memset(s->model + bio->offset, 0, bio->length);
}

static void begin_slot(struct soak *s, struct slot *slot)
{
	uint32_t block = s->b.bdev->block_size, r = rd_loop_random32(s->b.loop);
	uint64_t blocks = DISK_SIZE / block, max = (SLOT_SIZE - 64) / block;
	struct rdt_bio *bio = &slot->t.bio;
	unsigned int index = (unsigned int)(slot - s->slots);

	memset(bio, 0, sizeof(*bio));
	bio->op = (uint8_t)(r % 8 < 3 ? RDT_BIO_READ : r % 8 < 6 ? RDT_BIO_WRITE : r / 8 % 3 + 2);
	if (!(s->b.bdev->ops_mask & 1u << bio->op))
		bio->op = RDT_BIO_WRITE;
	bio->length = (1 + rd_loop_random32(s->b.loop) % max) * block;
	bio->offset = rd_loop_random32(s->b.loop) % (blocks - bio->length / block + 1) * block;
	if (bio->op == RDT_BIO_FLUSH)
		bio->offset = bio->length = 0;
	if (overlaps(s, bio->offset, bio->length))
		return;
	/* In the slab or outside; aligned, or aligned to 8 bytes only, as in-capsule data is. */
	slot->buf = (r & 0x100 ? s->b.slab : s->outside) + (size_t)index * SLOT_SIZE;
	if (r & 0x200)
		slot->buf += 8;
	bio->buf = slot->buf;
	if (bio->op == RDT_BIO_WRITE) {
		for (uint64_t i = 0; i < bio->length; i += 4)
			memcpy(slot->buf + i, &(uint32_t){rd_loop_random32(s->b.loop)}, 4);
	} else if (bio->op == RDT_BIO_READ) {
		memset(slot->buf, 0xee, bio->length);
	}
	if ((r & 0x3c00) == 0 && bio->op != RDT_BIO_READ && bio->op != RDT_BIO_DEALLOCATE)
		bio->flags = bio->op == RDT_BIO_FLUSH ? 0 : RDT_BIO_FUA;
	apply_to_model(s, bio);
	slot->busy = true;
	s->ran[bio->op]++;
	backend_start(&s->b, &slot->t);
}

static void end_slot(struct soak *s, struct slot *slot)
{
	const struct rdt_bio *bio = &slot->t.bio;

	slot->busy = false;
	s->failures += bio->result != 0;
	if (bio->op == RDT_BIO_READ)
		s->mismatches += memcmp(slot->buf, s->model + bio->offset, bio->length) != 0;
}

static void soak_run(struct soak *s, unsigned int rounds)
{
	uint64_t end = rd_loop_now_raw(s->b.loop) + 60 * RD_NSEC_PER_SEC;
	unsigned int busy;

	do {
		busy = 0;
		for (unsigned int i = 0; i < SLOTS; i++) {
			struct slot *slot = &s->slots[i];

			if (slot->busy && slot->t.done)
				end_slot(s, slot);
			if (!slot->busy && rounds) {
				begin_slot(s, slot);
				rounds--;
			}
			busy += slot->busy;
		}
		CU_ASSERT_TRUE_FATAL(rd_loop_turn(s->b.loop, busy ? RD_NSEC_PER_MSEC : 0) >= 0);
	} while ((busy || rounds) && rd_loop_now_raw(s->b.loop) < end);
	CU_ASSERT_EQUAL_FATAL(busy, 0);
}

/* The whole disk, and for a file the file itself, must equal the model. */
static void soak_compare(struct soak *s)
{
	char *all T_FREE = malloc(DISK_SIZE);
	int fd;

	for (uint64_t at = 0; at < DISK_SIZE; at += SLOT_SIZE) {
		CU_ASSERT_EQUAL(backend_io(&s->b, RDT_BIO_READ, at, SLOT_SIZE, s->b.slab), 0);
		s->mismatches += memcmp(s->b.slab, s->model + at, SLOT_SIZE) != 0;
	}
	if (s->b.cfg.backend == RDT_BACKEND_FILE) {
		fd = open(s->b.path, O_RDONLY);
		CU_ASSERT_EQUAL(pread(fd, all, DISK_SIZE, 0), (ssize_t)DISK_SIZE);
		close(fd);
		s->mismatches += memcmp(all, s->model, DISK_SIZE) != 0;
	}
}

/* What is outside the allocated parts must be zeroes in the model. The list is asked for in steps
 * of @room parts. */
static void soak_extents(struct soak *s, uint32_t room)
{
	struct rdt_extents *ex T_FREE = malloc(sizeof(*ex) + room * sizeof(ex->list[0]));
	uint64_t at = 0, wrong = 0;

	while (at < DISK_SIZE) {
		*ex = (struct rdt_extents){.room = room};
		CU_ASSERT_EQUAL_FATAL(backend_io(&s->b, RDT_BIO_EXTENTS, at, DISK_SIZE - at, ex),
				      0);
		CU_ASSERT_TRUE_FATAL(ex->upto > at && ex->upto <= DISK_SIZE && ex->count <= room);
		for (uint32_t i = 0; i <= ex->count; i++) {
			uint64_t to = i < ex->count ? ex->list[i].from : ex->upto;

			CU_ASSERT_TRUE_FATAL(at <= to && to <= ex->upto);
			while (at < to)
				wrong += s->model[at++] != 0;
			if (i < ex->count)
				at = ex->list[i].to;
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
}

/* With iopoll, whatever the device is: a device without queues to poll uses its interrupts. */
static void look_for_results(struct bench *b)
{
	struct rdt_fchan *chan = rd_container_of(b->chan, struct rdt_fchan, chan);

	chan->poll_max = SLOT_SIZE / 2;
	chan->engine->ops->add_file(chan->engine, chan);
}

static void soak_with(struct rdt_ns_config cfg, struct rdt_ring_opts ring, unsigned int rounds)
{
	struct soak *s T_FREE = calloc(1, sizeof(*s));

	if (bench_open_with(&s->b, cfg, DEPTH, ring)) {
		if (cfg.iopoll)
			look_for_results(&s->b);
		s->model = calloc(1, DISK_SIZE);
		s->outside = aligned_alloc(4096, (size_t)SLOTS * SLOT_SIZE);
		soak_run(s, rounds);
		soak_compare(s);
		soak_extents(s, 1000);
		soak_extents(s, 1);
		CU_ASSERT_EQUAL(s->mismatches, 0);
		CU_ASSERT_EQUAL(s->failures, 0);
		for (int op = 0; op < RDT_BIO_EXTENTS; op++)
			CU_ASSERT_EQUAL(s->ran[op] > 0, !!(s->b.bdev->ops_mask & 1u << op));
		free(s->model);
		free(s->outside);
	}
	bench_close(&s->b);
}

static void soak(struct rdt_ns_config cfg, unsigned int rounds)
{
	soak_with(cfg, (struct rdt_ring_opts){0}, rounds);
}

#define SOAK(name, rounds, ...)                                                             \
	static void name(void)                                                              \
	{                                                                                   \
		soak((struct rdt_ns_config){.backend = RDT_BACKEND_##__VA_ARGS__}, rounds); \
	}
SOAK(uring_direct_512, 150, FILE, .engine = RDT_ENGINE_IO_URING, .direct = RDT_DIRECT_ON,
     .block_size = 512)
SOAK(uring_direct_4096, 150, FILE, .engine = RDT_ENGINE_IO_URING, .direct = RDT_DIRECT_ON,
     .block_size = 4096)
SOAK(uring_buffered, 150, FILE, .engine = RDT_ENGINE_IO_URING, .direct = RDT_DIRECT_OFF,
     .block_size = 512)
SOAK(uring_polled, 150, FILE, .direct = RDT_DIRECT_ON, .iopoll = true, .block_size = 512)
SOAK(aio_direct_512, 150, FILE, .engine = RDT_ENGINE_AIO, .direct = RDT_DIRECT_ON,
     .block_size = 512)
SOAK(aio_direct_4096, 150, FILE, .engine = RDT_ENGINE_AIO, .direct = RDT_DIRECT_ON,
     .block_size = 4096)
SOAK(aio_buffered, 150, FILE, .engine = RDT_ENGINE_AIO, .direct = RDT_DIRECT_OFF,
     .block_size = 4096)
SOAK(memory_4096, 600, MEMORY, .block_size = 4096)
SOAK(memory_512, 600, MEMORY, .block_size = 512)

/* A kernel thread submits. It sleeps after a millisecond and must be woken. */
static void uring_sqpoll(void)
{
	struct rdt_ring_opts rings[] = {{.sqpoll_ms = 1, .sqpoll_cpu = -1}, {.sqpoll_ms = 50}};
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_FILE, .block_size = 512};

	rings[1].sqpoll_cpu = sched_getcpu();
	for (unsigned int i = 0; i < 2; i++)
		soak_with(cfg, rings[i], 150);
}

/* A CPU that does not exist: then there is no such thread. */
static void uring_sqpoll_nowhere(void)
{
	soak_with((struct rdt_ns_config){.backend = RDT_BACKEND_FILE, .block_size = 512},
		  (struct rdt_ring_opts){.sqpoll_ms = 1, .sqpoll_cpu = 1023}, 150);
}

/* Pages of the page cache cannot be polled for: each file detects that once. */
static void uring_polled_in_vain(void)
{
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_FILE,
				    .direct = RDT_DIRECT_OFF,
				    .iopoll = true,
				    .block_size = 512};
	struct bench b T_ENDS(bench_close);

	soak(cfg, 150);
	if (bench_open(&b, cfg, DEPTH)) {
		struct rdt_fchan *chan = rd_container_of(b.chan, struct rdt_fchan, chan);

		CU_ASSERT_EQUAL(chan->poll_max, 0);
		look_for_results(&b);
		CU_ASSERT_NOT_EQUAL(chan->poll_max, 0);
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_READ, 0, 4096, b.slab), 0);
		CU_ASSERT_EQUAL(chan->poll_max, 0);
	}
}

static void null_stores_nothing(void)
{
	struct bench b;
	char *zero T_FREE = calloc(1, 4096);

	CU_ASSERT_TRUE_FATAL(bench_open(
		&b, (struct rdt_ns_config){.backend = RDT_BACKEND_NULL, .block_size = 512}, 1));
	memset(b.slab, 0x55, 4096);
	CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_WRITE, 0, 4096, b.slab), 0);
	CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_READ, 0, 4096, b.slab), 0);
	CU_ASSERT_EQUAL(memcmp(b.slab, zero, 4096), 0);
	CU_ASSERT_TRUE(b.bdev->reads_zeroes);
	memset(b.slab, 0x55, 1);
	CU_ASSERT_EQUAL(backend_run(&b, (struct rdt_bio){.op = RDT_BIO_READ,
							 .flags = RDT_BIO_BLANK,
							 .length = 4096,
							 .buf = b.slab}),
			0);
	CU_ASSERT_EQUAL(*(uint8_t *)b.slab, 0x55);
	CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_FLUSH, 0, 0, NULL), 0);
	bench_close(&b);
}

/* ---- what goes wrong ---- */

static void shrunk_file(enum rdt_engine_type engine, enum rdt_direct direct)
{
	struct bench b T_ENDS(bench_close);

	if (bench_open(&b,
		       (struct rdt_ns_config){.backend = RDT_BACKEND_FILE,
					      .engine = engine,
					      .direct = direct,
					      .block_size = 512},
		       DEPTH)) {
		CU_ASSERT_EQUAL_FATAL(truncate(b.path, 8192 + 100), 0);
		/* Entirely beyond the end, across the end, and just within. */
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_READ, 65536, 4096, b.slab), -EIO);
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_READ, 4096, 16384, b.slab), -EIO);
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_READ, 4096, 4096, b.slab), 0);
	}
}

static void a_shrunk_file_is_an_error(void)
{
	for (int engine = RDT_ENGINE_IO_URING; engine <= RDT_ENGINE_AIO; engine++) {
		shrunk_file((enum rdt_engine_type)engine, RDT_DIRECT_OFF);
		shrunk_file((enum rdt_engine_type)engine, RDT_DIRECT_AUTO);
	}
}

static void unsupported_ops_are_refused(void)
{
	struct bench b T_ENDS(bench_close);

	if (bench_open(&b, (struct rdt_ns_config){.backend = RDT_BACKEND_NULL, .block_size = 512},
		       DEPTH)) {
		CU_ASSERT_FALSE(b.bdev->ops_mask & 1u << RDT_BIO_EXTENTS);
		CU_ASSERT_EQUAL(
			backend_run(&b, (struct rdt_bio){.op = RDT_BIO_EXTENTS, .length = 512}),
			-EOPNOTSUPP);
	}
}

/*
 * Cancel everything right after submitting. Waiting bios end with -ECANCELED, bios in the kernel
 * with either result, and each ends exactly once.
 */
static void cancel_all(enum rdt_engine_type engine)
{
	struct t_bio t[32];
	unsigned int canceled = 0;
	struct bench b T_ENDS(bench_close);

	if (bench_open(&b,
		       (struct rdt_ns_config){
			       .backend = RDT_BACKEND_FILE, .engine = engine, .block_size = 512},
		       DEPTH)) {
		for (unsigned int i = 0; i < 32; i++) {
			t[i] = (struct t_bio){.bio = {.op = RDT_BIO_READ,
						      .offset = (uint64_t)i * 4096,
						      .length = 4096,
						      .buf = b.slab + i * 4096}};
			backend_start(&b, &t[i]);
		}
		for (unsigned int i = 0; i < 32; i++)
			b.bdev->ops->cancel(b.chan, &t[i].bio);
		b.bdev->ops->cancel(b.chan, &t[31].bio);
		for (unsigned int i = 0; i < 32; i++)
			CU_ASSERT_EQUAL(t[i].done, 0); /* never from within the cancellation */
		for (unsigned int i = 0; i < 32; i++) {
			wait_for(&b, &t[i]);
			CU_ASSERT_TRUE(t[i].bio.result == 0 || t[i].bio.result == -ECANCELED);
			canceled += t[i].bio.result == -ECANCELED;
		}
		CU_ASSERT_TRUE(canceled >= 32 - DEPTH);
		/* The queue still works in order. */
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_READ, 0, 4096, b.slab), 0);
	}
}

static void cancelled_bios_complete_once(void)
{
	cancel_all(RDT_ENGINE_IO_URING);
	cancel_all(RDT_ENGINE_AIO);
}

/* More misaligned transfers than bounce buffers, each larger than a bounce buffer: they are
 * transferred in pieces, in order. */
static void large_misaligned_transfers(void)
{
	enum { COUNT = 24, LEN = 160 * 1024 };
	char *mem = aligned_alloc(4096, (size_t)COUNT * (LEN + 4096));
	char *back T_FREE = malloc(LEN);
	struct t_bio t[COUNT];
	struct bench b;

	if (bench_open(&b, (struct rdt_ns_config){.backend = RDT_BACKEND_FILE, .block_size = 4096},
		       64)) {
		for (unsigned int i = 0; i < COUNT; i++) {
			char *buf = mem + (size_t)i * (LEN + 4096) + 8;

			memset(buf, (int)i + 1, LEN);
			t[i] = (struct t_bio){.bio = {.op = RDT_BIO_WRITE,
						      .offset = (uint64_t)(i % 12) * LEN,
						      .length = LEN,
						      .buf = buf}};
			/* Twelve places: each is written again when its first write is done. */
			if (i >= 12)
				wait_for(&b, &t[i - 12]);
			backend_start(&b, &t[i]);
		}
		for (unsigned int i = 12; i < COUNT; i++) {
			wait_for(&b, &t[i]);
			CU_ASSERT_EQUAL(t[i].bio.result, 0);
		}
		for (unsigned int i = 0; i < 12; i++) {
			memset(mem, 0, LEN + 8);
			CU_ASSERT_EQUAL(
				backend_io(&b, RDT_BIO_READ, (uint64_t)i * LEN, LEN, mem + 8), 0);
			memset(back, (int)i + 13, LEN);
			CU_ASSERT_EQUAL(memcmp(mem + 8, back, LEN), 0);
		}
	}
	bench_close(&b);
	free(mem);
}

/* Resident pages of this process. */
static long resident_pages(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long size = 0, resident = 0;

	CU_ASSERT_EQUAL(f && fscanf(f, "%ld %ld", &size, &resident) == 2, true);
	if (f)
		fclose(f);
	return resident;
}

/* A large memory disk costs address space, and memory for what is written only. */
static void memory_is_sparse(void)
{
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_MEMORY,
				    .block_size = 4096,
				    .size_bytes = UINT64_C(16) << 30};
	struct rdt_bio bio = {.op = RDT_BIO_WRITE, .length = 4096};
	struct rdt_bdev *bdev T_ENDS(rdt_bdev_close) = NULL;
	struct rdt_chan *chan T_ENDS(rdt_chan_close) = NULL;
	char err[256], buf[4096];
	long before = resident_pages();

	if (getenv("RD_TEST_VALGRIND")) /* which goes through the whole range */
		cfg.size_bytes >>= 6;
	bio.offset = cfg.size_bytes - 4096;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_chan_open(bdev, NULL, &chan), 0);
	memset(buf, 0x5a, sizeof(buf));
	bio.buf = buf;
	CU_ASSERT_EQUAL(rdt_chan_submit(chan, &bio), RDT_BIO_DONE);
	memset(buf, 0, sizeof(buf));
	bio.op = RDT_BIO_READ;
	CU_ASSERT_EQUAL(rdt_chan_submit(chan, &bio), RDT_BIO_DONE);
	CU_ASSERT_EQUAL(bio.result, 0);
	CU_ASSERT_EQUAL(buf[0], 0x5a);
	CU_ASSERT_EQUAL(buf[4095], 0x5a);
	/* valgrind and qemu keep records of the address range, which are resident as well. */
	if (!getenv("RD_TEST_VALGRIND") && !getenv("RD_TEST_QEMU"))
		CU_ASSERT_TRUE(resident_pages() - before < 1024);
}

/* Two parts are written, then one of them is given back. @unit: what is tracked as a whole. */
static void allocated_parts(struct rdt_ns_config cfg, uint64_t unit)
{
	struct rdt_extents *ex T_FREE = calloc(1, sizeof(*ex) + 8 * sizeof(ex->list[0]));
	struct rdt_bio ask = {.op = RDT_BIO_EXTENTS, .length = DISK_SIZE, .buf = ex};
	struct rdt_bio change = {.op = RDT_BIO_WRITE, .length = unit};
	struct bench b T_ENDS(bench_close);

	if (bench_open(&b, cfg, DEPTH)) {
		memset(b.slab, 0x5a, unit);
		change.buf = b.slab;
		ex->room = 8;
		CU_ASSERT_EQUAL(backend_run(&b, ask), 0);
		CU_ASSERT_EQUAL(ex->count, 0);
		change.offset = 3 * unit;
		CU_ASSERT_EQUAL(backend_run(&b, change), 0);
		change.offset = 8 * unit;
		CU_ASSERT_EQUAL(backend_run(&b, change), 0);
		CU_ASSERT_EQUAL(backend_run(&b, ask), 0);
		CU_ASSERT_EQUAL_FATAL(ex->count, 2);
		CU_ASSERT_EQUAL(ex->list[0].from, 3 * unit);
		CU_ASSERT_EQUAL(ex->list[0].to, 4 * unit);
		CU_ASSERT_EQUAL(ex->list[1].from, 8 * unit);
		CU_ASSERT_EQUAL(ex->list[1].to, 9 * unit);
		CU_ASSERT_EQUAL(ex->upto, DISK_SIZE);
		change.op = RDT_BIO_DEALLOCATE;
		if (b.bdev->ops_mask & 1u << RDT_BIO_DEALLOCATE) {
			CU_ASSERT_EQUAL(backend_run(&b, change), 0);
			ask.offset = 4 * unit - 512;
			ask.length = 6 * unit;
			CU_ASSERT_EQUAL(backend_run(&b, ask), 0);
			CU_ASSERT_EQUAL_FATAL(ex->count, 1);
			CU_ASSERT_EQUAL(ex->list[0].from, 4 * unit - 512);
			CU_ASSERT_EQUAL(ex->list[0].to, 4 * unit);
		}
	}
}

static void file_tells_what_is_allocated(void)
{
	allocated_parts((struct rdt_ns_config){.backend = RDT_BACKEND_FILE, .block_size = 512},
			65536);
}

/* Through the whole backend, by how often the file was asked. */
static void allocated_parts_are_kept(void)
{
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_FILE, .block_size = 512};
	struct rdt_extents *ex T_FREE = calloc(1, sizeof(*ex) + 8 * sizeof(ex->list[0]));
	struct bench b T_ENDS(bench_close);
	struct rdt_extent_versions *versions;

	if (!bench_open(&b, cfg, DEPTH))
		return;
	versions = rd_container_of(b.chan, struct rdt_fchan, chan)->versions;
	ex->room = 8;
	for (int op = 0; op < RDT_BIO_EXTENTS; op++) {
		for (int i = 0; i < 3; i++)
			CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_EXTENTS, 0, DISK_SIZE, ex), 0);
		versions->walks = 0;
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_EXTENTS, 0, DISK_SIZE, ex), 0);
		CU_ASSERT_EQUAL(versions->walks, 0);
		if (!(b.bdev->ops_mask & 1u << op))
			continue;
		CU_ASSERT_EQUAL(backend_io(&b, (uint8_t)op, 0, 4096, b.slab), 0);
		CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_EXTENTS, 0, DISK_SIZE, ex), 0);
		CU_ASSERT_EQUAL(versions->walks, rdt_bio_op_writes(op));
	}
	CU_ASSERT_EQUAL(t_bdev_resize(b.bdev, DISK_SIZE, NULL, 0), 0);
	versions->walks = 0;
	CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_EXTENTS, 0, DISK_SIZE, ex), 0);
	CU_ASSERT_TRUE(versions->walks > 0);
}

static void memory_tells_what_is_allocated(void)
{
	allocated_parts((struct rdt_ns_config){.backend = RDT_BACKEND_MEMORY, .block_size = 512},
			65536);
}

/* A look at all of a namespace would keep a reactor's thread busy: each answer is about a part. */
static void memory_tells_of_a_part(void)
{
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_MEMORY, .block_size = 512};
	struct rdt_extents *ex T_FREE = calloc(1, sizeof(*ex) + 8 * sizeof(ex->list[0]));
	/* valgrind goes through the whole range; ThreadSanitizer has 1.5 TiB at a random place */
	const uint64_t size = UINT64_C(1) << (getenv("RD_TEST_VALGRIND") ? 28 : 38);
	const uint64_t part = CU_MIN(size, UINT64_C(1) << 34), last = size - 512;
	struct rdt_bio ask = {.op = RDT_BIO_EXTENTS, .length = size, .buf = ex};
	struct bench b T_ENDS(bench_close);
	unsigned int parts = 0;
	char err[512];

	CU_ASSERT_FATAL(bench_open(&b, cfg, DEPTH));
	rdt_chan_close(&b.chan);
	rdt_bdev_close(&b.bdev);
	b.cfg.size_bytes = size;
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &b.cfg, NULL, &b.bdev, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_chan_open(b.bdev, b.engines, &b.chan), 0);
	CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_WRITE, last, 512, b.slab), 0);
	ex->room = 8;
	for (; ask.length; parts++) {
		CU_ASSERT_EQUAL(backend_run(&b, ask), 0);
		CU_ASSERT_EQUAL_FATAL(ex->upto - ask.offset, part);
		CU_ASSERT_EQUAL(ex->count, ex->upto == size);
		ask.offset = ex->upto;
		ask.length = size - ex->upto;
	}
	CU_ASSERT_EQUAL(parts, size / part);
	CU_ASSERT_EQUAL(ex->list[0].to, size);
	CU_ASSERT_EQUAL(ex->list[0].from, size - 65536);
}

/* @n reads from the page cache. Returns how many are done after one turn. */
static int done_in_one_turn(struct bench *b, unsigned int n)
{
	struct t_bio t[3];
	int done = 0;

	for (unsigned int i = 0; i < n; i++) {
		t[i].bio = (struct rdt_bio){
			.op = RDT_BIO_READ, .length = 4096, .offset = i * 4096, .buf = b->slab};
		backend_start(b, &t[i]);
	}
	CU_ASSERT_TRUE_FATAL(rd_loop_turn(b->loop, 0) >= 0);
	for (unsigned int i = 0; i < n; i++)
		done += t[i].done;
	for (unsigned int i = 0; i < n; i++)
		wait_for(b, &t[i]);
	return done;
}

/* Does this file system serve nowait reads from the page cache? */
static bool reads_without_waiting(const struct bench *b)
{
	char buf[4096];
	struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
	int fd = open(b->path, O_RDONLY);
	ssize_t n = preadv2(fd, &iov, 1, 0, RWF_NOWAIT);

	close(fd);
	if (n != (ssize_t)sizeof(buf))
		printf("# skipped: no read from the page cache without waiting: %s\n",
		       strerror(errno));
	return n == (ssize_t)sizeof(buf);
}

/* Few reads are answered in the turn that submits them, a batch in the next turn. */
static void what_is_there_leaves_at_once(void)
{
	struct bench b T_ENDS(bench_close);

	if (!bench_open(&b,
			(struct rdt_ns_config){.backend = RDT_BACKEND_FILE,
					       .engine = RDT_ENGINE_IO_URING,
					       .direct = RDT_DIRECT_OFF,
					       .block_size = 4096},
			64))
		return;
	CU_ASSERT_EQUAL(backend_io(&b, RDT_BIO_WRITE, 0, 3 * 4096, b.slab), 0);
	if (!reads_without_waiting(&b))
		return;
	CU_ASSERT_EQUAL(done_in_one_turn(&b, 1), 1);
	CU_ASSERT_EQUAL(done_in_one_turn(&b, 2), 2);
	CU_ASSERT_EQUAL(done_in_one_turn(&b, 3), 0);
}

const struct t_case t_backend_cases[] = {
	{"io_uring, direct, 512", uring_direct_512},
	{"io_uring, direct, 4096", uring_direct_4096},
	{"io_uring, buffered, 512", uring_buffered},
	{"io_uring, sqpoll", uring_sqpoll},
	{"io_uring, sqpoll where it cannot be", uring_sqpoll_nowhere},
	{"io_uring, results looked for", uring_polled},
	{"io_uring, results that cannot be looked for", uring_polled_in_vain},
	{"io_uring, what is there leaves at once", what_is_there_leaves_at_once},
	{"aio, direct, 512", aio_direct_512},
	{"aio, direct, 4096", aio_direct_4096},
	{"aio, buffered, 4096", aio_buffered},
	{"memory, 512", memory_512},
	{"memory, 4096", memory_4096},
	{"memory is sparse", memory_is_sparse},
	{"a file tells what is allocated", file_tells_what_is_allocated},
	{"what a file tells is kept until it changes", allocated_parts_are_kept},
	{"memory tells what is allocated", memory_tells_what_is_allocated},
	{"memory tells of a part of a large namespace", memory_tells_of_a_part},
	{"null stores nothing", null_stores_nothing},
	{"a file that shrank gives errors, not old data", a_shrunk_file_is_an_error},
	{"what a backend cannot do is refused", unsupported_ops_are_refused},
	{"a cancelled bio completes exactly once", cancelled_bios_complete_once},
	{"large misaligned transfers share the bounce buffers", large_misaligned_transfers},
	{NULL, NULL},
};
