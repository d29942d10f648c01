/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of a pool of Ceph, with jobs that hang until the test lets them end, and a clock that
 * the test sets. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "t_main.h"
#include "target/bdev/rbd_priv.h"

#define JOBS     8u /* that hang */
#define ENDINGS  2000u
#define LIMIT    30 /* seconds until a wait has failed */
#define LIMIT_NS (LIMIT * RD_NSEC_PER_SEC)

static struct {
	_Atomic uint64_t now;
	struct rdt_module_threads threads;
	sem_t began; /* a job */
	sem_t may_end;
	sem_t told; /* that a job is late */
} fake;

uint64_t __real_rdt_module_now(void);
uint64_t __wrap_rdt_module_now(void);
struct timespec __real_rdt_module_timespec(uint64_t ns);
struct timespec __wrap_rdt_module_timespec(uint64_t ns);

uint64_t __wrap_rdt_module_now(void)
{
	return atomic_load(&fake.now);
}

/* Soon, so that waiting threads see when the test has set the clock. */
struct timespec __wrap_rdt_module_timespec(uint64_t ns)
{
	return __real_rdt_module_timespec(__real_rdt_module_now() + 1000000);
}

static unsigned int count_threads(void)
{
	unsigned int count;

	pthread_mutex_lock(&fake.threads.lock);
	count = fake.threads.count;
	pthread_mutex_unlock(&fake.threads.lock);
	return count;
}

/* Waits until no more than @count threads run. */
static bool wait_for_threads(unsigned int count)
{
	struct timespec end = __real_rdt_module_timespec(__real_rdt_module_now() + LIMIT_NS);
	bool ended;
	int rc = 0;

	pthread_mutex_lock(&fake.threads.lock);
	while (fake.threads.count > count && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&fake.threads.ended, &fake.threads.lock, &end);
	ended = fake.threads.count <= count;
	pthread_mutex_unlock(&fake.threads.lock);
	return ended;
}

static bool wait_for(sem_t *sem)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += LIMIT;
	return sem_timedwait(sem, &ts) == 0;
}

static void hang(struct rbd_job *job)
{
	sem_post(&fake.began);
	sem_wait(&fake.may_end);
	rbd_job_ran(job, true);
}

static void pass_over(struct rbd_job *job)
{
	rbd_job_ran(job, true);
}

static void not_told(struct rbd_job *job)
{
}

static void told(struct rbd_job *job)
{
	sem_post(&fake.told);
}

static void queue_left(void *arg, struct rbd_queue *q)
{
}

static void threads_of_a_hang_end(void)
{
	struct rbd_job jobs[JOBS], next = {.run = pass_over, .tell_late = not_told};
	struct rbd_queue *q = rbd_queue_new(&fake.threads, queue_left, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(q);
	rdt_module_threads_init(&fake.threads);
	sem_init(&fake.began, 0, 0);
	sem_init(&fake.may_end, 0, 0);
	atomic_store(&fake.now, RD_NSEC_PER_SEC);
	next.queue = q;
	CU_ASSERT_EQUAL(rbd_job_kick(&next, 3600 * RD_NSEC_PER_SEC), 0);
	for (unsigned int i = 0; i < JOBS; i++) {
		jobs[i] = (struct rbd_job){.run = hang, .tell_late = not_told, .queue = q};
		CU_ASSERT_EQUAL(rbd_job_kick(&jobs[i], 0), 0);
		/* beyond the first ones a job begins when none has ended for a second */
		atomic_fetch_add(&fake.now, 2 * RD_NSEC_PER_SEC);
		CU_ASSERT_TRUE_FATAL(wait_for(&fake.began));
	}
	CU_ASSERT_TRUE(count_threads() > JOBS);
	for (unsigned int i = 0; i < JOBS; i++)
		sem_post(&fake.may_end);
	CU_ASSERT_TRUE_FATAL(wait_for_threads(5));
	CU_ASSERT_FALSE(rbd_queue_idle(q)); /* the next job has its time */
	atomic_fetch_add(&fake.now, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_TRUE_FATAL(rdt_module_threads_finish(&fake.threads, LIMIT_NS));
	CU_ASSERT_TRUE(rbd_queue_idle(q));
	rbd_queue_free(q);
}

/* Its image looks whether I/O hangs as well. */
static void job_is_late_after_a_second(void)
{
	struct rbd_job job = {.run = hang, .tell_late = told};
	struct rbd_queue *q = rbd_queue_new(&fake.threads, queue_left, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(q);
	rdt_module_threads_init(&fake.threads);
	sem_init(&fake.began, 0, 0);
	sem_init(&fake.may_end, 0, 0);
	sem_init(&fake.told, 0, 0);
	atomic_store(&fake.now, RD_NSEC_PER_SEC);
	job.queue = q;
	CU_ASSERT_EQUAL(rbd_job_kick(&job, 0), 0);
	CU_ASSERT_TRUE_FATAL(wait_for(&fake.began));
	for (unsigned int i = 0; i < 2; i++) {
		CU_ASSERT_NOT_EQUAL(sem_trywait(&fake.told), 0);
		atomic_fetch_add(&fake.now, RD_NSEC_PER_SEC);
		CU_ASSERT_TRUE(wait_for(&fake.told));
	}
	sem_post(&fake.may_end);
	CU_ASSERT_TRUE_FATAL(rdt_module_threads_finish(&fake.threads, LIMIT_NS));
	rbd_queue_free(q);
}

struct ending {
	struct rbd_job job;
	atomic_bool ends;
};

/* As an image does: a run that finds it is the last one frees the job. */
static void run_until_it_ends(struct rbd_job *job)
{
	struct ending *e = rd_container_of(job, struct ending, job);

	if (!atomic_load(&e->ends)) {
		rbd_job_kick(job, 0);
		rbd_job_ran(job, false);
		sched_yield(); /* valgrind runs one thread at a time, and is not fair */
		return;
	}
	rbd_job_ran(job, true);
	free(e);
	sem_post(&fake.may_end);
}

static void set_ends(struct rbd_job *job)
{
	atomic_store(&rd_container_of(job, struct ending, job)->ends, true);
	sched_yield(); /* a run sees it before this one is queued */
}

/* Runs follow each other without a pause when the job is told to end. */
static void last_run_frees_the_job(void)
{
	struct rbd_queue *q = rbd_queue_new(&fake.threads, queue_left, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(q);
	rdt_module_threads_init(&fake.threads);
	sem_init(&fake.may_end, 0, 0);
	for (unsigned int i = 0; i < ENDINGS; i++) {
		struct ending *e = calloc(1, sizeof(*e));

		CU_ASSERT_PTR_NOT_NULL_FATAL(e);
		e->job = (struct rbd_job){
			.run = run_until_it_ends, .tell_late = not_told, .queue = q};
		CU_ASSERT_EQUAL(rbd_job_kick(&e->job, 0), 0);
		CU_ASSERT_EQUAL(rbd_job_kick_last(&e->job, set_ends), 0);
		CU_ASSERT_TRUE_FATAL(wait_for(&fake.may_end));
	}
	CU_ASSERT_TRUE_FATAL(rdt_module_threads_finish(&fake.threads, LIMIT_NS));
	CU_ASSERT_TRUE(rbd_queue_idle(q));
	rbd_queue_free(q);
}

static const struct t_case rbd_jobs_cases[] = {
	{"the threads that a hang needs end after it", threads_of_a_hang_end},
	{"a job that hangs is late after a second, and each second", job_is_late_after_a_second},
	{"the last run frees the job", last_run_frees_the_job},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct t_suite suites[] = {
		{.name = "rbd jobs", .cases = rbd_jobs_cases},
		{.name = NULL},
	};

	return t_run(argc, argv, suites);
}
