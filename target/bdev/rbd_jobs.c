/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of jobs, and the threads that run them: one queue for each pool of a cluster, so that a
 * pool that hangs does not use up the threads of another one. */
#include "rbd_priv.h"

#include <stdlib.h>

/* Number of jobs of a queue that run at the same time. It is exceeded when none of them has ended
 * for some time: a part of the pool may answer although another part does not. */
#define WORKERS     4u
#define WORKERS_MAX 16u
#define STUCK_NS    UINT64_C(1000000000)
#define LATE_NS     UINT64_C(1000000000) /* between two looks at a job that has not ended */

TAILQ_HEAD(rbd_job_list, rbd_job);

struct rbd_queue {
	struct rdt_module_threads *all; /* those of the module */
	void (*ended)(void *arg, struct rbd_queue *q);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t work; /* CLOCK_MONOTONIC */
	/* guarded by @lock */
	struct rbd_job_list jobs;
	struct rbd_job_list running;
	unsigned int threads;
	unsigned int count; /* of @running */
	uint64_t moved_ns;  /* when a job last began or ended */
};

/* The job to run now. NULL: none; *@due is when the next one is, or UINT64_MAX. */
static struct rbd_job *next_job(struct rbd_queue *q, uint64_t *due)
{
	uint64_t now = rdt_module_now();
	struct rbd_job *job;

	*due = UINT64_MAX;
	TAILQ_FOREACH (job, &q->jobs, link) {
		if (job->running)
			continue;
		if (job->due <= now)
			return job;
		if (job->due < *due)
			*due = job->due;
	}
	return NULL;
}

static int start_worker(struct rbd_queue *q);

/* With @q locked, which it is again afterwards. @job may be freed by its run. */
static void run_rbd_job(struct rbd_queue *q, struct rbd_job *job)
{
	TAILQ_REMOVE(&q->jobs, job, link);
	TAILQ_INSERT_TAIL(&q->running, job, running_link);
	job->queued = false;
	job->running = true;
	job->began_ns = q->moved_ns = rdt_module_now();
	job->late_ns = job->began_ns + LATE_NS;
	q->count++;
	start_worker(q); /* without another thread the jobs only run more slowly */
	pthread_mutex_unlock(&q->lock);
	job->run(job);
	pthread_mutex_lock(&q->lock);
	q->moved_ns = rdt_module_now();
	pthread_cond_broadcast(&q->work);
}

static void *rbd_worker(void *arg);

/* With @q locked. There is one thread more than running jobs; it notices when they are stuck. */
static int start_worker(struct rbd_queue *q)
{
	int rc;

	if (q->count < q->threads || q->threads >= WORKERS_MAX)
		return 0;
	rc = rdt_module_thread_start(q->all, rbd_worker, q);
	if (!rc)
		q->threads++;
	return q->threads ? 0 : rc;
}

/* With @q locked. May one job more run? Otherwise *@due is when to look again. */
static bool worker_may_run(const struct rbd_queue *q, uint64_t *due)
{
	*due = q->moved_ns + STUCK_NS;
	return q->count < WORKERS || rdt_module_now() >= *due;
}

/* With @q locked. Tells each running job that it is late; *@due becomes earlier for the next one.
 */
static void tell_late_jobs(struct rbd_queue *q, uint64_t *due)
{
	uint64_t now = rdt_module_now();
	struct rbd_job *job;

	TAILQ_FOREACH (job, &q->running, running_link) {
		if (now >= job->late_ns) {
			job->late_ns = now + LATE_NS;
			job->tell_late(job);
		}
		if (job->late_ns < *due)
			*due = job->late_ns;
	}
}

/* With @q locked. Does the calling thread, which runs no job, have to stay? Those that were started
 * while jobs hung end after that. */
static bool worker_stays(const struct rbd_queue *q)
{
	if (q->threads > WORKERS + 1 && q->threads > q->count + 1)
		return false;
	return q->count || !TAILQ_EMPTY(&q->jobs);
}

static void *rbd_worker(void *arg)
{
	struct rbd_queue *q = arg;
	struct rdt_module_threads *all = q->all;
	void (*ended)(void *, struct rbd_queue *) = q->ended;
	void *ended_arg = q->arg;

	pthread_mutex_lock(&q->lock);
	while (worker_stays(q)) {
		uint64_t due;
		struct rbd_job *job = next_job(q, &due);

		if (job && worker_may_run(q, &due)) {
			run_rbd_job(q, job);
			continue;
		}
		tell_late_jobs(q, &due);
		if (due == UINT64_MAX) {
			pthread_cond_wait(&q->work, &q->lock);
		} else {
			struct timespec ts = rdt_module_timespec(due);

			pthread_cond_timedwait(&q->work, &q->lock, &ts);
		}
	}
	q->threads--;
	pthread_cond_broadcast(&q->work);
	pthread_mutex_unlock(&q->lock);
	ended(ended_arg, q); /* the last thread to come here may have freed @q already */
	rdt_module_thread_ends(all);
	return NULL;
}

/* With the queue locked. */
static int kick(struct rbd_job *job, uint64_t due)
{
	struct rbd_queue *q = job->queue;
	int rc = 0;

	if (!job->queued) {
		job->queued = true;
		job->due = due;
		TAILQ_INSERT_TAIL(&q->jobs, job, link);
		rc = start_worker(q);
		if (rc) {
			TAILQ_REMOVE(&q->jobs, job, link);
			job->queued = false;
		}
	} else if (due < job->due) {
		job->due = due;
	}
	pthread_cond_broadcast(&q->work);
	return rc;
}

int rbd_job_kick(struct rbd_job *job, uint64_t delay_ns)
{
	struct rbd_queue *q = job->queue;
	int rc;

	pthread_mutex_lock(&q->lock);
	rc = kick(job, rdt_module_now() + delay_ns);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int rbd_job_kick_last(struct rbd_job *job, void (*end)(struct rbd_job *job))
{
	struct rbd_queue *q = job->queue;
	int rc;

	pthread_mutex_lock(&q->lock);
	end(job);
	rc = kick(job, rdt_module_now());
	pthread_mutex_unlock(&q->lock);
	return rc;
}

void rbd_job_ran(struct rbd_job *job, bool last)
{
	struct rbd_queue *q = job->queue;

	pthread_mutex_lock(&q->lock);
	job->running = false;
	q->count--;
	TAILQ_REMOVE(&q->running, job, running_link);
	if (last && job->queued) {
		TAILQ_REMOVE(&q->jobs, job, link);
		job->queued = false;
	}
	pthread_cond_broadcast(&q->work);
	pthread_mutex_unlock(&q->lock);
}

bool rbd_queue_idle(struct rbd_queue *q)
{
	bool idle;

	pthread_mutex_lock(&q->lock);
	idle = !q->threads;
	pthread_mutex_unlock(&q->lock);
	return idle;
}

struct rbd_queue *rbd_queue_new(struct rdt_module_threads *all,
				void (*ended)(void *arg, struct rbd_queue *q), void *arg)
{
	struct rbd_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->all = all;
	q->ended = ended;
	q->arg = arg;
	TAILQ_INIT(&q->jobs);
	TAILQ_INIT(&q->running);
	pthread_mutex_init(&q->lock, NULL);
	rdt_module_cond_init(&q->work);
	return q;
}

void rbd_queue_free(struct rbd_queue *q)
{
	if (!q)
		return;
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->work);
	free(q);
}
