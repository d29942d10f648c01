/* SPDX-License-Identifier: BSD-3-Clause */
#include "walker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "bio_post.h"
#include "engine_io.h"
#include "extent_map.h"
#include "workers.h"

struct rdt_walker {
	struct rdt_engine *engine;
	pthread_t thread;
	bool started;
	struct rdt_bio_stack in, out; /* to the thread, to the reactor */
	sem_t work;                   /* one for each bio in @in */
	atomic_bool stop;
	struct rd_msg msg;           /* to the reactor: @out is not empty */
	struct rdt_extent_maps maps; /* the thread only */
};

/* The file of an EXTENTS. */
struct file_source {
	struct rdt_extents_source source;
	int fd;
	const struct rdt_fio *fio;
};

/* ---- the thread ---- */

static int ask_file(struct rdt_extents_source *source, struct rdt_extents *ex, uint64_t from,
		    uint64_t to)
{
	struct file_source *file = rd_container_of(source, struct file_source, source);
	off_t data, hole;

	while (from < to) {
		if (atomic_load_explicit(&file->fio->given_up, memory_order_relaxed))
			return -ECANCELED;
		data = lseek(file->fd, (off_t)from, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break; /* no data up to the end of the file */
		if (data < 0)
			return -errno;
		if ((uint64_t)data >= to)
			break;
		hole = lseek(file->fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if ((uint64_t)hole > to || hole <= data)
			hole = (off_t)to;
		if (!rdt_extents_add(ex, (uint64_t)data, (uint64_t)hole))
			return 0;
		from = (uint64_t)hole;
	}
	ex->upto = to;
	return 0;
}

static void walk(struct rdt_walker *w, struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio_const(bio);
	struct file_source file = {{ask_file}, fio->chan->fd, fio};

	bio->result = rdt_extent_maps_answer(&w->maps, fio->chan->versions, &file.source, bio);
	if (rdt_bio_push(&w->out, bio))
		rd_loop_post(w->engine->loop, &w->msg);
}

/* Not SCHED_IDLE: on a busy machine such a thread would rarely run while it holds the kernel's lock
 * of a file, for which writes to that file wait. */
static void lower_walker_priority(void)
{
	const struct sched_param none = {0};

	sched_setscheduler(0, SCHED_BATCH, &none); /* of this thread */
	if (nice(19) < 0)
		errno = 0; /* the thread then has the priority of the others */
}

static void *walker_thread(void *arg)
{
	struct rdt_walker *w = arg;
	struct rdt_bio_queue list;
	struct rdt_bio *bio;

	pthread_setname_np(pthread_self(), "extents");
	lower_walker_priority();
	for (;;) {
		while (sem_wait(&w->work) < 0)
			; /* a signal */
		if (atomic_load(&w->stop))
			return NULL;
		rdt_bio_take_all(&w->in, &list);
		while ((bio = TAILQ_FIRST(&list))) {
			TAILQ_REMOVE(&list, bio, link);
			walk(w, bio);
		}
	}
}

/* ---- the reactor ---- */

static void take_walked(struct rd_msg *msg)
{
	struct rdt_walker *w = rd_container_of(msg, struct rdt_walker, msg);
	struct rdt_engine *engine = w->engine;
	struct rdt_bio_queue list;
	struct rdt_bio *bio;

	rdt_bio_take_all(&w->out, &list);
	while ((bio = TAILQ_FIRST(&list))) {
		TAILQ_REMOVE(&list, bio, link);
		rdt_engine_complete(engine, bio, bio->result);
	}
	rdt_engine_pump(engine);
}

int rdt_walker_submit(struct rdt_walker *w, struct rdt_bio *bio)
{
	int rc = w->started ? 0 : rdt_storage_thread(&w->thread, walker_thread, w);

	if (rc)
		return rc;
	w->started = true;
	rdt_bio_push(&w->in, bio);
	sem_post(&w->work);
	return 0;
}

void rdt_walker_cancel(struct rdt_bio *bio)
{
	atomic_store(&rdt_fio(bio)->given_up, true);
}

int rdt_walker_create(struct rdt_engine *engine, struct rdt_walker **out)
{
	struct rdt_walker *w = calloc(1, sizeof(*w));

	*out = w;
	if (!w)
		return -ENOMEM;
	w->engine = engine;
	w->msg.fn = take_walked;
	rdt_extent_maps_init(&w->maps);
	sem_init(&w->work, 0, 0);
	return 0;
}

void rdt_walker_free(struct rdt_walker **walker)
{
	struct rdt_walker *w = *walker;

	if (!w)
		return;
	atomic_store(&w->stop, true);
	sem_post(&w->work);
	if (w->started)
		pthread_join(w->thread, NULL);
	rdt_extent_maps_fini(&w->maps);
	sem_destroy(&w->work);
	free(w);
	*walker = NULL;
}
