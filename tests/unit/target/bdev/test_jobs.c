/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that may block: shares of devices, calls that hang, and the end. Most cases hold the jobs
 * in place of threads, on a clock of their own, so that the order is certain. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_suites.h"
#include "target/bdev/jobs.h"
#include "target/config/config.h"

#define MANY 64u

struct held {
	struct rdt_job job;
	int pipe[2];
	bool begun;
	bool late;
	bool dropped;
	unsigned int done;
};

static struct stage {
	struct rd_clock clock;
	uint64_t now;
	struct rd_loop *loop;
	struct rdt_jobs *jobs;
	bool threads;
	struct held held[MANY];
	unsigned int count;
} stage;

static uint64_t stage_now(void *arg)
{
	return stage.now;
}

static bool hold(struct rdt_job *job)
{
	rd_container_of(job, struct held, job)->begun = true;
	return false;
}

static void held_done(struct rdt_job *job)
{
	struct held *h = rd_container_of(job, struct held, job);

	h->dropped = job->dropped;
	h->done++;
}

static void held_late(struct rdt_job *job)
{
	rd_container_of(job, struct held, job)->late = true;
}

static void stage_open(bool (*run)(struct rdt_job *job))
{
	struct rd_loop_opts opts = {.seed = 1};

	memset(&stage, 0, sizeof(stage));
	stage.now = RD_NSEC_PER_SEC;
	stage.clock = (struct rd_clock){.now = stage_now, .manual = true};
	stage.threads = !run;
	if (run)
		opts.clock = &stage.clock;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &stage.loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_jobs_new(stage.loop, NULL, run, &stage.jobs), 0);
}

static void stage_close(void)
{
	/* A thread ends after its last job. */
	CU_ASSERT_TRUE_FATAL(rdt_jobs_end(stage.jobs, stage.threads ? 60 * RD_NSEC_PER_SEC : 0));
	rdt_jobs_free(&stage.jobs);
	rd_loop_destroy(&stage.loop);
}

static struct held *add(uint64_t device, void (*work)(struct rdt_job *job))
{
	struct held *h = &stage.held[stage.count++];

	h->job = (struct rdt_job){.device = device,
				  .what = "a job",
				  .work = work,
				  .done = held_done,
				  .late = held_late};
	rdt_jobs_add(stage.jobs, &h->job);
	return h;
}

static void turn(uint64_t later)
{
	stage.now += later;
	while (rd_loop_turn(stage.loop, 0) > 0)
		;
}

static void finish(struct held *h)
{
	CU_ASSERT_TRUE_FATAL(h->begun && !h->done);
	rdt_job_finish(&h->job);
	turn(0);
	CU_ASSERT_EQUAL(h->done, 1);
}

static unsigned int begun_from(unsigned int first, unsigned int count)
{
	unsigned int n = 0;

	for (unsigned int i = first; i < first + count; i++)
		n += stage.held[i].begun;
	return n;
}

static void a_device_has_a_share(void)
{
	stage_open(hold);
	for (int i = 0; i < 5; i++)
		add(1, NULL);
	for (int i = 0; i < 5; i++)
		add(2, NULL);
	CU_ASSERT_EQUAL(begun_from(0, 5), RDT_JOBS_SHARE);
	CU_ASSERT_EQUAL(begun_from(5, 5), RDT_JOBS_SHARE);
	/* Device 1 hangs; the jobs of device 2 follow each other in their order. */
	for (unsigned int i = 5; i < 10; i++) {
		finish(&stage.held[i]);
		CU_ASSERT_EQUAL(begun_from(0, 5), RDT_JOBS_SHARE);
	}
	for (unsigned int i = 0; i < 5; i++)
		finish(&stage.held[i]);
	stage_close();
}

/* As many devices hang as there are places: others have to wait for a second, not for them. */
static void hanging_devices_do_not_take_all_places(void)
{
	struct held *healthy;

	stage_open(hold);
	for (unsigned int i = 0; i < RDT_JOBS_TOTAL; i++)
		add(1 + i / RDT_JOBS_SHARE, NULL);
	healthy = add(100, NULL);
	CU_ASSERT_EQUAL(begun_from(0, RDT_JOBS_TOTAL), RDT_JOBS_TOTAL);
	CU_ASSERT_FALSE(healthy->begun);
	turn(RD_NSEC_PER_SEC);
	CU_ASSERT_TRUE(healthy->begun);
	finish(healthy);
	/* They keep their own share: this one waits although there are places. */
	healthy = add(1, NULL);
	CU_ASSERT_FALSE(healthy->begun);
	CU_ASSERT_FALSE(stage.held[0].late);
	turn(RDT_JOBS_LIMIT);
	for (unsigned int i = 0; i < RDT_JOBS_TOTAL; i++) {
		CU_ASSERT_TRUE(stage.held[i].late);
		CU_ASSERT_FALSE(stage.held[i].done);
	}
	for (unsigned int i = 0; i < RDT_JOBS_TOTAL; i++)
		finish(&stage.held[i]);
	CU_ASSERT_FALSE(healthy->late); /* it has begun only now */
	finish(healthy);
	stage_close();
}

static void the_end_drops_what_has_not_begun(void)
{
	stage_open(hold);
	for (int i = 0; i < 3; i++)
		add(1, NULL);
	CU_ASSERT_FALSE(rdt_jobs_end(stage.jobs, 0)); /* two hang */
	CU_ASSERT_EQUAL(stage.held[2].done, 1);
	CU_ASSERT_TRUE(stage.held[2].dropped);
	add(2, NULL);
	CU_ASSERT_TRUE(stage.held[3].dropped);
	finish(&stage.held[0]);
	finish(&stage.held[1]);
	CU_ASSERT_FALSE(stage.held[0].dropped);
	stage_close();
}

static void wait_for_byte(struct rdt_job *job)
{
	struct held *h = rd_container_of(job, struct held, job);
	char c;

	CU_ASSERT_EQUAL(read(h->pipe[0], &c, 1), 1);
}

static void do_nothing(struct rdt_job *job)
{
}

static void turn_until_done(const struct held *h)
{
	while (!h->done)
		CU_ASSERT_TRUE_FATAL(rd_loop_turn(stage.loop, UINT64_MAX) >= 0);
}

static void threads_wait_for_the_storage(void)
{
	struct held *hung[RDT_JOBS_SHARE], *last = NULL;

	stage_open(NULL);
	for (unsigned int i = 0; i < RDT_JOBS_SHARE; i++) {
		CU_ASSERT_EQUAL_FATAL(pipe(stage.held[i].pipe), 0);
		hung[i] = &stage.held[i];
		stage.count++;
		hung[i]->job = (struct rdt_job){
			.device = 1, .what = "a job", .work = wait_for_byte, .done = held_done};
		rdt_jobs_add(stage.jobs, &hung[i]->job);
	}
	for (unsigned int i = RDT_JOBS_SHARE; i < MANY; i++)
		last = add(2 + i % 3, do_nothing);
	turn_until_done(last);
	for (unsigned int i = RDT_JOBS_SHARE; i < MANY; i++)
		turn_until_done(&stage.held[i]);
	for (unsigned int i = 0; i < RDT_JOBS_SHARE; i++)
		CU_ASSERT_FALSE(hung[i]->done);
	CU_ASSERT_FALSE(rdt_jobs_end(stage.jobs, 0));
	for (unsigned int i = 0; i < RDT_JOBS_SHARE; i++) {
		CU_ASSERT_EQUAL(write(hung[i]->pipe[1], "x", 1), 1);
		turn_until_done(hung[i]);
		close(hung[i]->pipe[0]);
		close(hung[i]->pipe[1]);
	}
	stage_close();
}

static struct held *add_hung(uint64_t device)
{
	struct held *h = &stage.held[stage.count];

	CU_ASSERT_EQUAL_FATAL(pipe(h->pipe), 0);
	return add(device, wait_for_byte);
}

static void let_go(struct held *h)
{
	CU_ASSERT_EQUAL(write(h->pipe[1], "x", 1), 1);
	turn_until_done(h);
	close(h->pipe[0]);
	close(h->pipe[1]);
}

/* Jobs of a device follow each other on one thread; those behind one that hangs do not wait for
 * it. */
static void what_is_behind_a_job_that_hangs_goes_on(void)
{
	struct held *first, *second, *hung;

	stage_open(NULL);
	first = add_hung(1);
	second = add_hung(1);
	hung = add_hung(1);
	while (stage.count < MANY)
		add(1, do_nothing);
	let_go(first); /* the next thread has @hung, and others behind it */
	let_go(second);
	for (unsigned int i = 3; i < MANY; i++)
		turn_until_done(&stage.held[i]);
	CU_ASSERT_FALSE(hung->done);
	let_go(hung);
	stage_close();
}

static uint64_t device_of(enum rdt_backend_type backend, const char *path)
{
	const struct rdt_ns_config cfg = {.backend = backend, .path = path};

	return rdt_jobs_device(stage.jobs, &cfg);
}

/* Nothing looks at the paths, which do not exist. */
static void what_a_device_is(void)
{
	stage_open(hold);
	CU_ASSERT_EQUAL(device_of(RDT_BACKEND_FILE, "/proc/none/a"),
			device_of(RDT_BACKEND_FILE, "/proc/none/b"));
	CU_ASSERT_NOT_EQUAL(device_of(RDT_BACKEND_FILE, "/proc/none/a"),
			    device_of(RDT_BACKEND_FILE, "/none/a"));
	CU_ASSERT_EQUAL(device_of(RDT_BACKEND_FILE, "/none/a"),
			device_of(RDT_BACKEND_FILE, "/procnone/a"));
	CU_ASSERT_NOT_EQUAL(device_of(RDT_BACKEND_BLOCK, "/dev/none/a"),
			    device_of(RDT_BACKEND_BLOCK, "/dev/none/b"));
	stage_close();
}

const struct t_case t_jobs_cases[] = {
	{"a device has a share", a_device_has_a_share},
	{"hanging devices do not take all places", hanging_devices_do_not_take_all_places},
	{"the end drops what has not begun", the_end_drops_what_has_not_begun},
	{"threads wait for the storage", threads_wait_for_the_storage},
	{"what is behind a job that hangs goes on", what_is_behind_a_job_that_hangs_goes_on},
	{"what a device is", what_a_device_is},
	{NULL, NULL},
};
