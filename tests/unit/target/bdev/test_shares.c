/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that answer nothing: what other devices of the same reactor can still do. */
#include "base_suites.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "target/bdev/backend.h"
#include "target/bdev/engine.h"
#include "target/bdev/engine_io.h"
#include "target/bdev/workers.h"

#define SICK   70u /* more than the hashes by which the kernel orders writes of files */
#define READS  12u /* of each; more than DEPTH */
#define WRITES 20u
#define FLUSH  WRITES
#define DEPTH  4u

static char data[512];

struct one {
	struct rdt_fchan chan;
	struct rdt_bio read[READS];
	struct rdt_bio write[WRITES + 1]; /* the last one is a Flush */
	atomic_uint entered;              /* threads that execute something of it */
	atomic_uint together;             /* the most at once */
	unsigned int started;             /* in the kernel */
	unsigned int done, failed;
	bool sick;
};

struct shares {
	struct rdt_engines_opts opts;
	struct rdt_engine engine;
	struct rdt_bdev bdev;
	struct one *all; /* the last one is well */
	sem_t cure;      /* a thread goes on for each count */
	atomic_uint hang;
};

static struct shares *the_shares;

static struct one *one_of(const struct rdt_bio *bio)
{
	return rd_container_of(rdt_fio_const(bio)->chan, struct one, chan);
}

static bool shares_start(struct rdt_engine *engine, struct rdt_bio *bio)
{
	one_of(bio)->started++;
	return true;
}

static const struct rdt_engine_ops ops = {.name = "fake", .start = shares_start};

static int64_t shares_thread(const struct rdt_bio *bio)
{
	struct one *o = one_of(bio);
	unsigned int now = atomic_fetch_add(&o->entered, 1) + 1, most = atomic_load(&o->together);

	while (now > most && !atomic_compare_exchange_weak(&o->together, &most, now))
		;
	if (o->sick) {
		atomic_fetch_add(&the_shares->hang, 1);
		while (sem_wait(&the_shares->cure) < 0)
			;
	}
	atomic_fetch_sub(&o->entered, 1);
	return bio->op == RDT_BIO_WRITE ? (int64_t)bio->length : 0;
}

static struct one *owner_of(struct rdt_bio *bio)
{
	for (unsigned int i = 0; i <= SICK; i++) {
		char *first = (char *)&the_shares->all[i];

		if ((char *)bio >= first && (char *)bio < first + sizeof(struct one))
			return &the_shares->all[i];
	}
	return NULL;
}

static void shares_done(struct rdt_bio *bio)
{
	struct one *o = owner_of(bio);

	o->done++;
	o->failed += bio->result != 0;
}

static void shares_submit(struct one *o, struct rdt_bio *bio, enum rdt_bio_op op)
{
	*bio = (struct rdt_bio){.op = (uint8_t)op,
				.length = op == RDT_BIO_FLUSH ? 0 : 512,
				.buf = data,
				.done = shares_done};
	rdt_engine_submit(&o->chan, bio);
}

/* Every kind of I/O, more than a device can have in progress. */
static void submit_all(struct one *o)
{
	for (unsigned int i = 0; i < WRITES; i++)
		shares_submit(o, &o->write[i], RDT_BIO_WRITE);
	shares_submit(o, &o->write[FLUSH], RDT_BIO_FLUSH);
	for (unsigned int i = 0; i < READS; i++)
		shares_submit(o, &o->read[i], RDT_BIO_READ);
}

static void shares_turn(struct shares *s)
{
	CU_ASSERT_TRUE_FATAL(rd_loop_turn(s->opts.loop, RD_NSEC_PER_MSEC) >= 0);
}

/* The kernel has ended all reads of @o that were started. */
static void end_reads(struct shares *s, struct one *o)
{
	for (unsigned int i = 0; i < READS; i++)
		if (rdt_fio(&o->read[i])->magic == RDT_FIO_MAGIC &&
		    rdt_fio(&o->read[i])->state == RDT_FIO_KERNEL)
			rdt_engine_complete(&s->engine, &o->read[i], 512);
	rdt_engine_pump(&s->engine);
}

/* @same: all files are of one device. */
static void shares_open(struct shares *s, bool same)
{
	struct rd_loop_opts loop_opts = {.seed = 1};

	*s = (struct shares){.opts.depth = DEPTH, .bdev.block_size = 512};
	the_shares = s;
	sem_init(&s->cure, 0, 0);
	t_blocking_io = shares_thread;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&loop_opts, &s->opts.loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_engine_init(&s->engine, &ops, &s->opts), 0);
	s->all = calloc(SICK + 1, sizeof(*s->all));
	for (unsigned int i = 0; i <= SICK; i++) {
		struct one *o = &s->all[i];

		o->sick = i < SICK;
		o->chan.chan.bdev = &s->bdev;
		o->chan.path = "/disk";
		CU_ASSERT_EQUAL_FATAL(rdt_fchan_init(&o->chan, &s->engine, same ? 0 : i), 0);
		o->chan.blocks[1] = true; /* writes may block */
	}
}

static void shares_close(struct shares *s)
{
	for (unsigned int i = 0; i <= SICK; i++)
		rdt_fchan_fini(&s->all[i].chan);
	t_blocking_io = NULL;
	rdt_engine_fini(&s->engine);
	rd_loop_destroy(&s->opts.loop);
	sem_destroy(&s->cure);
	free(s->all);
}

/* The storage of all answers again. */
static void cure(struct shares *s)
{
	unsigned int all = READS + WRITES + 1;

	for (unsigned int i = 0; i < SICK; i++)
		for (unsigned int n = 0; n < all; n++)
			sem_post(&s->cure);
	for (unsigned int i = 0; i < SICK; i++)
		while (s->all[i].done < all) {
			end_reads(s, &s->all[i]);
			shares_turn(s);
		}
}

static void any_number_of_sick_devices(void)
{
	struct shares s;
	struct one *well;

	shares_open(&s, false);
	well = &s.all[SICK];
	for (unsigned int i = 0; i < SICK; i++)
		submit_all(&s.all[i]);
	/* A write and the Flush of each have begun. */
	while (atomic_load(&s.hang) < 2 * SICK)
		shares_turn(&s);
	for (unsigned int round = 1; round <= 3; round++) {
		submit_all(well);
		CU_ASSERT_TRUE(well->started > (round - 1) * READS);
		while (well->done < round * (READS + WRITES + 1)) {
			end_reads(&s, well);
			shares_turn(&s);
		}
	}
	CU_ASSERT_EQUAL(well->failed, 0);
	for (unsigned int i = 0; i < SICK; i++) {
		CU_ASSERT_EQUAL(s.all[i].done, 0);
		CU_ASSERT_EQUAL(s.all[i].started, DEPTH); /* its share, and not more */
		CU_ASSERT_TRUE(atomic_load(&s.all[i].together) <= RDT_WORKERS_MIN);
	}
	cure(&s);
	for (unsigned int i = 0; i < SICK; i++) {
		CU_ASSERT_EQUAL(s.all[i].done, READS + WRITES + 1);
		CU_ASSERT_EQUAL(s.all[i].failed, 0);
	}
	shares_close(&s);
}

/* Alone, a device may use all threads; those that must be in order use one. */
static void alone_it_uses_all(void)
{
	struct shares s;
	struct one *o;

	shares_open(&s, true);
	o = &s.all[0];
	o->chan.direct = true;
	o->chan.mem_align = 1;
	for (unsigned int i = 0; i < WRITES; i++)
		shares_submit(o, &o->write[i], RDT_BIO_WRITE);
	while (atomic_load(&o->together) < RDT_WORKERS_MIN)
		shares_turn(&s);
	/* Each one that ends allows one thread more. */
	for (unsigned int n = 0; atomic_load(&o->together) < RDT_WORKERS_MAX && n < 1000; n++) {
		unsigned int done = o->done;

		sem_post(&s.cure);
		while (o->done == done)
			shares_turn(&s);
		for (unsigned int i = 0; i < WRITES; i++)
			if (!rdt_fio(&o->write[i])->magic)
				shares_submit(o, &o->write[i], RDT_BIO_WRITE);
		shares_turn(&s);
	}
	CU_ASSERT_EQUAL(atomic_load(&o->together), RDT_WORKERS_MAX);
	for (unsigned int i = 0; i < WRITES; i++)
		sem_post(&s.cure);
	for (unsigned int i = 0; i < WRITES; i++)
		while (rdt_fio(&o->write[i])->magic == RDT_FIO_MAGIC)
			shares_turn(&s);
	CU_ASSERT_EQUAL(o->failed, 0);
	shares_close(&s);
}

/* Writes through the page cache of one file, and another file of its device. */
static void one_at_a_time_for_each_file(void)
{
	struct shares s;
	struct one *sick, *well;

	shares_open(&s, true);
	sick = &s.all[0];
	well = &s.all[SICK];
	for (unsigned int i = 0; i < WRITES; i++)
		shares_submit(sick, &sick->write[i], RDT_BIO_WRITE);
	while (atomic_load(&s.hang) < 1)
		shares_turn(&s);
	for (unsigned int i = 0; i < WRITES; i++)
		shares_submit(well, &well->write[i], RDT_BIO_WRITE);
	while (well->done < WRITES)
		shares_turn(&s);
	CU_ASSERT_EQUAL(atomic_load(&s.hang), 1);
	CU_ASSERT_EQUAL(atomic_load(&well->together), 1);
	/* The second half is cancelled, in an order that is not that of the queue. */
	for (unsigned int i = WRITES; i-- > WRITES / 2;)
		rdt_engine_cancel(&sick->chan, &sick->write[i]);
	rdt_engine_cancel(&sick->chan, &sick->write[0]); /* a thread has it */
	while (sick->done < WRITES / 2)
		shares_turn(&s);
	CU_ASSERT_EQUAL(sick->failed, WRITES / 2);
	CU_ASSERT_EQUAL(sick->write[WRITES / 2].result, -ECANCELED);
	for (unsigned int i = 0; i < WRITES / 2; i++)
		sem_post(&s.cure);
	while (sick->done < WRITES)
		shares_turn(&s);
	CU_ASSERT_EQUAL(sick->failed, WRITES / 2);
	CU_ASSERT_EQUAL(atomic_load(&sick->together), 1);
	shares_close(&s);
}

/*
 * The kernel refuses to wait for what has been cancelled meanwhile: the bio ends as cancelled. It
 * is no error of the storage, and a write that would have been durable is no sync that has failed.
 */
static void cancelled_while_the_kernel_refuses_to_wait(void)
{
	static const int refusals[] = {-EAGAIN, -EOPNOTSUPP, -EINTR};
	struct shares s;
	struct one *o;

	shares_open(&s, false);
	o = &s.all[SICK];
	for (unsigned int i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct rdt_bio *bio = &o->write[i];

		o->chan.blocks[true] = false;
		shares_submit(o, bio, RDT_BIO_WRITE);
		CU_ASSERT_EQUAL_FATAL(rdt_fio(bio)->state, RDT_FIO_KERNEL);
		rdt_fio(bio)->dsync = true;
		rdt_engine_cancel(&o->chan, bio);
		rdt_engine_complete(&s.engine, bio, refusals[i]);
		CU_ASSERT_EQUAL(bio->result, -ECANCELED);
		CU_ASSERT_EQUAL(o->done, i + 1);
	}
	CU_ASSERT_EQUAL(atomic_load(&s.bdev.sync_err), 0);
	shares_close(&s);
}

const struct t_case t_shares_cases[] = {
	{"any number of sick devices", any_number_of_sick_devices},
	{"alone, a device uses all threads", alone_it_uses_all},
	{"one write at a time for each file", one_at_a_time_for_each_file},
	{"cancelled while the kernel refuses to wait", cancelled_while_the_kernel_refuses_to_wait},
	{NULL, NULL},
};
