/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of cancelling one of many waiting bios. Each bio has a page of its own whose accesses
 * are counted, so the number of bios that were examined is known.
 */
#include "base_suites.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/bdev/engine.h"
#include "target/bdev/engine_io.h"

#define PAGE  4096u
#define COUNT 1024u
/* A waiting bio has two neighbours in a queue, and a timer has a place in a heap: a timer that
 * moves to the top passes ten others. */
#define TOUCHED_MAX 24u

struct t_bio {
	struct rdt_bio bio;
	int done;
};

static char *pages;
static volatile unsigned int touched;

static struct t_bio *bio_at(unsigned int i)
{
	return (void *)(pages + (size_t)i * PAGE);
}

static void touch(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr, from = (uintptr_t)pages;

	if (at < from || at >= from + (uintptr_t)COUNT * PAGE ||
	    mprotect(pages + (at - from) / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE))
		abort();
	touched++;
}

static void cancel_bio_done(struct rdt_bio *bio)
{
	rd_container_of(bio, struct t_bio, bio)->done++;
}

static void map_bios(void)
{
	pages = mmap(NULL, (size_t)COUNT * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_PTR_NOT_EQUAL_FATAL(pages, MAP_FAILED);
	for (unsigned int i = 0; i < COUNT; i++)
		*bio_at(i) = (struct t_bio){.bio = {.op = RDT_BIO_WRITE,
						    .offset = (uint64_t)i * 512,
						    .length = 512,
						    .buf = (char *)bio_at(i) + PAGE / 2,
						    .done = cancel_bio_done}};
}

/* Cancel all from @first on, in an order in which each is far from both ends of the rest. */
static void cancel_many(struct rdt_chan *chan, unsigned int first,
			void (*cancel)(struct rdt_chan *chan, struct rdt_bio *bio))
{
	const struct sigaction count = {.sa_sigaction = touch, .sa_flags = SA_SIGINFO};
	struct sigaction old;
	unsigned int most = 0, n = COUNT - first;
	/* valgrind ends a program that touches such a page: under valgrind only the result is
	 * checked. */
	int untouched = getenv("RD_TEST_VALGRIND") ? PROT_READ | PROT_WRITE : PROT_NONE;

	CU_ASSERT_EQUAL_FATAL(sigaction(SIGSEGV, &count, &old), 0);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int mid = n / 2, half = i / 2;

		CU_ASSERT_EQUAL_FATAL(mprotect(pages, (size_t)COUNT * PAGE, untouched), 0);
		touched = 0;
		cancel(chan, &bio_at(first + (i & 1 ? mid - 1 - half : mid + half))->bio);
		if (touched > most)
			most = touched;
	}
	CU_ASSERT_EQUAL_FATAL(mprotect(pages, (size_t)COUNT * PAGE, PROT_READ | PROT_WRITE), 0);
	CU_ASSERT_EQUAL_FATAL(sigaction(SIGSEGV, &old, NULL), 0);
	CU_ASSERT_TRUE(most > 0 || untouched != PROT_NONE);
	CU_ASSERT_TRUE(most <= TOUCHED_MAX);
	if (most > TOUCHED_MAX)
		printf("# cancelling one of %u touched up to %u\n", n, most);
}

static void all_are_canceled(unsigned int first)
{
	for (unsigned int i = first; i < COUNT; i++) {
		CU_ASSERT_EQUAL(bio_at(i)->done, 1);
		CU_ASSERT_EQUAL(bio_at(i)->bio.result, -ECANCELED);
	}
}

/* ---- an engine without a kernel ---- */

static bool never_ready(struct rdt_engine *engine, struct rdt_bio *bio)
{
	return true;
}

static void cancel_in_engine(struct rdt_chan *chan, struct rdt_bio *bio)
{
	rdt_engine_cancel(rd_container_of(chan, struct rdt_fchan, chan), bio);
}

static const struct rdt_engine_ops fake_ops = {.name = "fake", .start = never_ready};

static void what_waits_for_an_engine(void)
{
	struct rdt_engine engine = {0};
	struct rdt_bdev bdev = {.block_size = 512};
	struct rdt_fchan chan = {.chan.bdev = &bdev};
	struct rdt_engines_opts opts = {.depth = 1};
	struct rd_loop_opts loop_opts = {.seed = 1};

	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &opts.loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_engine_init(&engine, &fake_ops, &opts), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_fchan_init(&chan, &engine, 0), 0);
	map_bios();
	for (unsigned int i = 0; i < COUNT; i++)
		rdt_engine_submit(&chan, &bio_at(i)->bio);
	CU_ASSERT_EQUAL(engine.in_kernel, 1);
	cancel_many(&chan.chan, 1, cancel_in_engine);
	CU_ASSERT_TRUE(rd_loop_turn(opts.loop, 0) >= 0);
	all_are_canceled(1);
	rdt_engine_complete(&engine, &bio_at(0)->bio, 512);
	CU_ASSERT_EQUAL(bio_at(0)->done, 1);
	CU_ASSERT_EQUAL(bio_at(0)->bio.result, 0);
	munmap(pages, (size_t)COUNT * PAGE);
	rdt_fchan_fini(&chan);
	rdt_engine_fini(&engine);
	rd_loop_destroy(&opts.loop);
}

/* ---- layers ---- */

static void what_layers_hold(void)
{
	struct rdt_layer_config layers[2] = {{.type = RDT_LAYER_DELAY}, {.type = RDT_LAYER_DELAY}};
	struct rdt_ns_config cfg = {.backend = RDT_BACKEND_MEMORY,
				    .block_size = 512,
				    .size_bytes = 1u << 20,
				    .layers = layers,
				    .layers_count = 2};
	struct rdt_engines_opts opts = {.depth = 1};
	struct rd_loop_opts loop_opts = {.seed = 1};
	struct rdt_engines *engines;
	struct rdt_bdev *bdev;
	struct rdt_chan *chan;
	char err[256];

	layers[1].delay_ns[RDT_BIO_WRITE] = 3600 * RD_NSEC_PER_SEC;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &opts.loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_engines_create(&opts, &engines, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_bdev_open(NULL, &cfg, NULL, &bdev, err, sizeof(err)), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_chan_open(bdev, engines, &chan), 0);
	map_bios();
	for (unsigned int i = 0; i < COUNT; i++)
		CU_ASSERT_EQUAL(rdt_chan_submit(chan, &bio_at(i)->bio), RDT_BIO_QUEUED);
	cancel_many(chan, 0, bdev->ops->cancel);
	for (unsigned int i = 0; i < COUNT; i++)
		CU_ASSERT_TRUE(rd_loop_turn(opts.loop, 0) >= 0);
	all_are_canceled(0);
	munmap(pages, (size_t)COUNT * PAGE);
	rdt_chan_close(&chan);
	rdt_bdev_close(&bdev);
	rdt_engines_destroy(&engines);
	rd_loop_destroy(&opts.loop);
}

const struct t_case t_cancel_cases[] = {
	{"looks at the neighbours of what waits for an engine", what_waits_for_an_engine},
	{"looks at the neighbours of what layers hold", what_layers_hold},
	{NULL, NULL},
};
