/* SPDX-License-Identifier: BSD-3-Clause */
#include "workers.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bio_post.h"
#include "engine_io.h"

struct rdt_workers {
	struct rdt_engine *engine;
	/* the reactor only */
	pthread_t threads[RDT_WORKERS_MAX];
	unsigned int count;  /* of @threads */
	unsigned int jobs;   /* bios with the threads, counting one serialized bio per file */
	uint64_t progress;   /* bios that have come back */
	uint64_t started_at; /* @progress when a thread was started */
	bool said;           /* it was logged that no thread can be started */
	unsigned int begin;  /* bios of this loop iteration that can begin */
	struct rd_defer wake;

	struct rdt_bio_stack in, out; /* to the threads, to the reactor */
	sem_t work;                   /* counts at least the bios that can begin */
	struct rd_msg msg;            /* to the reactor: @out is not empty */
	atomic_bool stop;

	pthread_mutex_t lock;       /* of the threads; the reactor takes it to cancel */
	struct rdt_bio_queue queue; /* guarded by @lock; no thread has begun them */
};

/*
 * The file system lets one thread at a time change the size, the blocks or the cached pages of a
 * file. More threads would only wait for each other, and another file's I/O for them.
 */
static bool is_serial(const struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio_const(bio);

	if (fio->step != RDT_FIO_TRANSFER)
		return false;
	return bio->op == RDT_BIO_WRITE ? !fio->chan->direct : rdt_bio_op_writes(bio->op);
}

/* ---- with @w->lock ---- */

static void enqueue(struct rdt_workers *w, struct rdt_bio *bio)
{
	rdt_fio(bio)->job = RDT_JOB_QUEUED;
	TAILQ_INSERT_TAIL(&w->queue, bio, link);
}

/* Moves the bios from the reactor to their queues. */
static void take_in(struct rdt_workers *w)
{
	struct rdt_bio_queue list;
	struct rdt_bio *bio;

	rdt_bio_take_all(&w->in, &list);
	while ((bio = TAILQ_FIRST(&list))) {
		struct rdt_fchan *chan = rdt_fio(bio)->chan;

		TAILQ_REMOVE(&list, bio, link);
		if (is_serial(bio) && chan->serial_busy) {
			rdt_fio(bio)->job = RDT_JOB_SERIAL;
			TAILQ_INSERT_TAIL(&chan->serial, bio, link);
			continue;
		}
		chan->serial_busy |= is_serial(bio);
		enqueue(w, bio);
	}
}

/* A serialized bio has left @w->queue: the next one of its file may begin, after those of other
 * files. Returns whether there is one. */
static bool next_serial(struct rdt_workers *w, struct rdt_fchan *chan)
{
	struct rdt_bio *next;

	atomic_fetch_sub(&chan->serial_count, 1);
	take_in(w); /* a bio that was counted is now in a queue */
	next = TAILQ_FIRST(&chan->serial);
	chan->serial_busy = next != NULL;
	if (!next)
		return false;
	TAILQ_REMOVE(&chan->serial, next, link);
	enqueue(w, next);
	return true;
}

static struct rdt_bio *take_bio(struct rdt_workers *w)
{
	struct rdt_bio *bio;

	take_in(w);
	bio = TAILQ_FIRST(&w->queue);
	if (!bio)
		return NULL;
	TAILQ_REMOVE(&w->queue, bio, link);
	rdt_fio(bio)->job = RDT_JOB_RUNNING;
	return bio;
}

/* ---- a thread ---- */

/* Executes @bio. Returns the next one for this thread, or NULL. */
static struct rdt_bio *execute_bio(struct rdt_workers *w, struct rdt_bio *bio)
{
	struct rdt_fchan *chan = rdt_fio(bio)->chan;
	struct rdt_bio *next = NULL;

	bio->result = (int)rdt_blocking_io(bio);
	if (is_serial(bio)) {
		pthread_mutex_lock(&w->lock);
		if (next_serial(w, chan))
			next = take_bio(w);
		pthread_mutex_unlock(&w->lock);
	}
	if (rdt_bio_push(&w->out, bio))
		rd_loop_post(w->engine->loop, &w->msg);
	return next;
}

static void *worker(void *arg)
{
	struct rdt_workers *w = arg;
	struct rdt_bio *bio;

	pthread_setname_np(pthread_self(), "storage");
	for (;;) {
		while (sem_wait(&w->work) < 0)
			; /* a signal */
		if (atomic_load(&w->stop))
			return NULL;
		pthread_mutex_lock(&w->lock);
		bio = take_bio(w);
		pthread_mutex_unlock(&w->lock);
		while (bio)
			bio = execute_bio(w, bio);
	}
}

/* ---- the reactor ---- */

/* Accounts for a bio that has returned from the threads. */
static void count_out(struct rdt_workers *w, struct rdt_bio *bio)
{
	if (!is_serial(bio) || --rdt_fio(bio)->chan->serial_out == 0)
		w->jobs--;
}

static void take_out(struct rd_msg *msg)
{
	struct rdt_workers *w = rd_container_of(msg, struct rdt_workers, msg);
	struct rdt_engine *engine = w->engine;
	struct rdt_bio_queue list;
	struct rdt_bio *bio;

	rdt_bio_take_all(&w->out, &list);
	while ((bio = TAILQ_FIRST(&list))) {
		TAILQ_REMOVE(&list, bio, link);
		count_out(w, bio);
		w->progress++;
		rdt_engine_complete(engine, bio, bio->result);
	}
	rdt_engine_pump(engine);
}

/* Allows the thread all CPUs of the process, even if its reactor is bound to one. */
static void set_cpus(pthread_attr_t *attr)
{
	cpu_set_t cpus;

	if (sched_getaffinity(getpid(), sizeof(cpus), &cpus) == 0)
		pthread_attr_setaffinity_np(attr, sizeof(cpus), &cpus);
}

int rdt_storage_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int rc = pthread_attr_init(&attr);

	if (rc)
		return -rc;
	set_cpus(&attr);
	rc = pthread_create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -rc;
}

static int workers_grow(struct rdt_workers *w)
{
	int rc = rdt_storage_thread(&w->threads[w->count], worker, w);

	if (rc)
		return rc;
	w->count++;
	w->started_at = w->progress;
	return 0;
}

/* Whether @w may start another thread. */
static bool may_grow(const struct rdt_workers *w)
{
	if (w->count < RDT_WORKERS_MIN)
		return true;
	return w->count < RDT_WORKERS_MAX && w->progress != w->started_at;
}

static void complain(struct rdt_workers *w, int rc)
{
	if (!w->said)
		rd_err(w->engine->log, RD_LOG_BACKEND,
		       "cannot start a thread for storage: %s; %u are there; raise the limit of "
		       "threads (TasksMax, ulimit -u)",
		       strerror(-rc), w->count);
	w->said = true;
}

/* Wakes threads at the end of a loop iteration, so that a thread finds more than one bio. */
static void wake_threads(struct rd_defer *defer)
{
	struct rdt_workers *w = rd_container_of(defer, struct rdt_workers, wake);

	for (; w->begin; w->begin--)
		sem_post(&w->work);
}

int rdt_workers_submit(struct rdt_workers *w, struct rdt_bio *bio)
{
	struct rdt_fchan *chan = rdt_fio(bio)->chan;
	bool serial = is_serial(bio), begins = true;
	int rc = 0;

	if (w->jobs >= w->count && may_grow(w))
		rc = workers_grow(w);
	if (rc)
		complain(w, rc);
	if (rc && !w->count)
		return rc;
	if (!serial || chan->serial_out++ == 0)
		w->jobs++;
	rdt_bio_push(&w->in, bio);
	/* Behind another one of its file, the thread that ends that one finds it: the count is
	 * changed after @bio can be found. */
	if (serial)
		begins = atomic_fetch_add(&chan->serial_count, 1) == 0;
	w->begin += begins;
	rd_defer(w->engine->loop, &w->wake, RD_DEFER_FLUSH);
	return 0;
}

bool rdt_workers_cancel(struct rdt_workers *w, struct rdt_bio *bio)
{
	struct rdt_fio *fio = rdt_fio(bio);
	bool taken = true;

	pthread_mutex_lock(&w->lock);
	take_in(w);
	switch ((enum rdt_fio_job)fio->job) {
	case RDT_JOB_SERIAL:
		TAILQ_REMOVE(&fio->chan->serial, bio, link);
		atomic_fetch_sub(&fio->chan->serial_count, 1);
		break;
	case RDT_JOB_QUEUED:
		TAILQ_REMOVE(&w->queue, bio, link);
		if (is_serial(bio) && next_serial(w, fio->chan))
			sem_post(&w->work);
		break;
	case RDT_JOB_RUNNING:
		taken = false;
	}
	pthread_mutex_unlock(&w->lock);
	if (taken)
		count_out(w, bio);
	return taken;
}

int rdt_workers_create(struct rdt_engine *engine, struct rdt_workers **out)
{
	struct rdt_workers *w = calloc(1, sizeof(*w));

	*out = w;
	if (!w)
		return -ENOMEM;
	w->engine = engine;
	w->msg.fn = take_out;
	w->wake.fn = wake_threads;
	TAILQ_INIT(&w->queue);
	pthread_mutex_init(&w->lock, NULL);
	sem_init(&w->work, 0, 0);
	return 0;
}

void rdt_workers_free(struct rdt_workers **workers)
{
	struct rdt_workers *w = *workers;

	if (!w)
		return;
	rd_defer_cancel(w->engine->loop, &w->wake);
	atomic_store(&w->stop, true);
	for (unsigned int i = 0; i < w->count; i++)
		sem_post(&w->work);
	for (unsigned int i = 0; i < w->count; i++)
		pthread_join(w->threads[i], NULL);
	pthread_mutex_destroy(&w->lock);
	sem_destroy(&w->work);
	free(w);
	*workers = NULL;
}
