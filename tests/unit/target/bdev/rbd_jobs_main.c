/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of a pool of Ceph, with jobs that hang until the test lets them end, and a clock that
 * the test sets. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "t_main.h"
#include "target/bdev/rbd_priv.h"

#define JOBS  8u /* that hang */
#define LIMIT 30 /* seconds until a wait has failed */

static struct {
	_Atomic uint64_t now;
	atomic_uint threads;
	sem_t ended; /* a thread */
	sem_t began; /* a job */
	sem_t may_end;
} fake;

uint64_t rdt_module_now(void)
{
	return atomic_load(&fake.now);
}

/* Soon, so that waiting threads see when the test has set the clock. */
struct timespec rdt_module_timespec(uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += 1000000;
	ts.tv_sec += ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	return ts;
}

void rdt_module_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int rdt_module_thread_start(struct rdt_module_threads *threads, void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;

	atomic_fetch_add(&fake.threads, 1);
	if (pthread_create(&thread, NULL, fn, arg))
		abort();
	return -pthread_detach(thread);
}

void rdt_module_thread_ends(struct rdt_module_threads *threads)
{
	atomic_fetch_sub(&fake.threads, 1);
	sem_post(&fake.ended);
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

static void queue_left(void *arg, struct rbd_queue *q)
{
}

static void threads_of_a_hang_end(void)
{
	struct rbd_job jobs[JOBS], next = {.run = pass_over, .tell_late = not_told};
	struct rbd_queue *q = rbd_queue_new(NULL, queue_left, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(q);
	sem_init(&fake.ended, 0, 0);
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
	CU_ASSERT_TRUE(atomic_load(&fake.threads) > JOBS);
	for (unsigned int i = 0; i < JOBS; i++)
		sem_post(&fake.may_end);
	while (atomic_load(&fake.threads) > 5)
		CU_ASSERT_TRUE_FATAL(wait_for(&fake.ended));
	CU_ASSERT_FALSE(rbd_queue_idle(q)); /* the next job has its time */
	atomic_fetch_add(&fake.now, 3600 * RD_NSEC_PER_SEC);
	while (atomic_load(&fake.threads))
		CU_ASSERT_TRUE_FATAL(wait_for(&fake.ended));
	CU_ASSERT_TRUE(rbd_queue_idle(q));
	rbd_queue_free(q);
}

static const struct t_case rbd_jobs_cases[] = {
	{"the threads that a hang needs end after it", threads_of_a_hang_end},
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
