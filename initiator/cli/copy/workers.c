/* SPDX-License-Identifier: BSD-3-Clause */
/* A few threads, a list of operations to do and a list of those done. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "copy.h"
#include "util/thread.h"

#define WORKERS_MAX 16u
/* Operations that may wait for each thread that is awake before another one is woken. A copy of
 * cached data needs one thread only, and waking costs as much as a fifth of an operation. */
#define WAITING_MAX 2u

const unsigned char cli_cp_zeroes[CLI_CP_ZEROES];

STAILQ_HEAD(cp_op_list, cli_cp_op);

struct cli_cp_workers {
	cli_cp_work_fn fn;
	void *arg;
	int fd; /* incremented when done becomes non-empty */
	pthread_mutex_t lock;
	pthread_cond_t more;
	/* The following members are guarded by @lock. */
	struct cp_op_list todo, done;
	unsigned int n_todo;
	unsigned int idle;   /* threads that wait */
	unsigned int called; /* threads among them that have been woken */
	bool ending;
	pthread_t threads[WORKERS_MAX];
	unsigned int n;
};

void cli_cp_workers_may_cancel(bool may)
{
	pthread_setcancelstate(may ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, NULL);
}

static void cp_wake_loop(struct cli_cp_workers *w)
{
	const uint64_t one = 1;
	ssize_t n;

	/* Can fail only at a count of 2^64 - 1, and then the descriptor is readable already. */
	n = write(w->fd, &one, sizeof(one));
	(void)n;
}

static void cp_worker_wait(struct cli_cp_workers *w)
{
	w->idle++;
	while (!w->ending && !w->called)
		pthread_cond_wait(&w->more, &w->lock);
	if (w->called)
		w->called--;
	w->idle--;
}

/* Waits for the next operation. NULL: the thread is to end. */
static struct cli_cp_op *cp_worker_next(struct cli_cp_workers *w)
{
	struct cli_cp_op *op;

	while (!w->ending && STAILQ_EMPTY(&w->todo))
		cp_worker_wait(w);
	if (w->ending)
		return NULL;
	op = STAILQ_FIRST(&w->todo);
	STAILQ_REMOVE_HEAD(&w->todo, link);
	w->n_todo--;
	return op;
}

static void *cp_worker(void *arg)
{
	struct cli_cp_workers *w = arg;
	struct cli_cp_op *op;
	bool first;

	cli_cp_workers_may_cancel(false);
	pthread_mutex_lock(&w->lock);
	while ((op = cp_worker_next(w))) {
		pthread_mutex_unlock(&w->lock);
		w->fn(w->arg, op);
		pthread_mutex_lock(&w->lock);
		first = STAILQ_EMPTY(&w->done);
		STAILQ_INSERT_TAIL(&w->done, op, link);
		if (!first)
			continue;
		/* Without the lock, for which the thread of the loop would wait next. */
		pthread_mutex_unlock(&w->lock);
		cp_wake_loop(w);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int cli_cp_workers_start(unsigned int n, cli_cp_work_fn fn, void *arg, struct cli_cp_workers **out)
{
	struct cli_cp_workers *w = calloc(1, sizeof(*w));
	int rc = 0;

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->fn = fn;
	w->arg = arg;
	STAILQ_INIT(&w->todo);
	STAILQ_INIT(&w->done);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		rc = -errno;
		free(w);
		return rc;
	}
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	while (!rc && w->n < n && w->n < WORKERS_MAX) {
		rc = rd_thread_start(&w->threads[w->n], cp_worker, w);
		if (!rc)
			w->n++;
	}
	if (rc && !w->n) {
		cli_cp_workers_stop(w, false);
		return rc;
	}
	*out = w;
	return 0;
}

void cli_cp_workers_stop(struct cli_cp_workers *w, bool cancel)
{
	unsigned int i;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	for (i = 0; i < w->n; i++) {
		if (cancel)
			pthread_cancel(w->threads[i]);
		pthread_join(w->threads[i], NULL);
	}
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	close(w->fd);
	free(w);
}

/* ---- the interface of endpoints ---- */

static struct cli_cp_workers *cp_workers_of(struct cli_cp_end *end)
{
	return ((struct cli_cp_worked *)end)->workers;
}

int cli_cp_workers_submit(struct cli_cp_end *end, struct cli_cp_op *op)
{
	struct cli_cp_workers *w = cp_workers_of(end);
	unsigned int asleep;
	bool wake;

	pthread_mutex_lock(&w->lock);
	STAILQ_INSERT_TAIL(&w->todo, op, link);
	w->n_todo++;
	asleep = w->idle - w->called;
	wake = asleep && w->n_todo > (w->n - asleep) * WAITING_MAX;
	w->called += wake;
	pthread_mutex_unlock(&w->lock);
	if (wake)
		pthread_cond_signal(&w->more);
	return 0;
}

int cli_cp_workers_process(struct cli_cp_end *end, const char **text)
{
	struct cp_op_list list = STAILQ_HEAD_INITIALIZER(list);
	struct cli_cp_workers *w = cp_workers_of(end);
	struct cli_cp_op *op;
	uint64_t count;
	int n = 0;

	*text = "";
	if (read(w->fd, &count, sizeof(count)) != sizeof(count))
		return 0;
	pthread_mutex_lock(&w->lock);
	STAILQ_CONCAT(&list, &w->done);
	pthread_mutex_unlock(&w->lock);
	while ((op = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, link); /* done() may submit it again */
		op->done(op, op->err, op->err ? strerror(-op->err) : "");
		n++;
	}
	return n;
}

unsigned int cli_cp_workers_fds(struct cli_cp_end *end, struct pollfd *fds, unsigned int room)
{
	if (!room)
		return 0;
	fds[0] = (struct pollfd){.fd = cp_workers_of(end)->fd, .events = POLLIN};
	return 1;
}
