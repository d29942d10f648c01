/* SPDX-License-Identifier: BSD-3-Clause */
/* A few threads, a list of operations to do and a list of those done; see workers.h. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "workers.h"

#define WORKERS_MAX 16u

struct cp_list {
	struct cli_cp_op *first, **last;
};

struct cli_cp_workers {
	cli_cp_work_fn fn;
	void *arg;
	int fd; /* counts up when done was empty and is no more */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct cp_list todo, done; /* under lock, as is ending */
	bool ending;
	pthread_t threads[WORKERS_MAX];
	unsigned int n;
};

static void cp_list_init(struct cp_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void cp_list_add(struct cp_list *list, struct cli_cp_op *op)
{
	op->next = NULL;
	*list->last = op;
	list->last = &op->next;
}

static struct cli_cp_op *cp_list_take(struct cp_list *list)
{
	struct cli_cp_op *op = list->first;

	if (op) {
		list->first = op->next;
		if (!list->first)
			list->last = &list->first;
	}
	return op;
}

void cli_cp_workers_may_cancel(bool may)
{
	pthread_setcancelstate(may ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, NULL);
}

static void cp_wake_loop(struct cli_cp_workers *w)
{
	const uint64_t one = 1;
	ssize_t n;

	/* Fails only at a count of 2^64 - 1, when it is readable anyway. */
	n = write(w->fd, &one, sizeof(one));
	(void)n;
}

static void *cp_worker(void *arg)
{
	struct cli_cp_workers *w = arg;
	struct cli_cp_op *op;
	bool first;

	cli_cp_workers_may_cancel(false);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->ending && !w->todo.first)
			pthread_cond_wait(&w->more, &w->lock);
		if (w->ending)
			break;
		op = cp_list_take(&w->todo);
		pthread_mutex_unlock(&w->lock);
		w->fn(w->arg, op);
		pthread_mutex_lock(&w->lock);
		first = !w->done.first;
		cp_list_add(&w->done, op);
		if (first)
			cp_wake_loop(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int cli_cp_workers_start(unsigned int n, cli_cp_work_fn fn, void *arg, struct cli_cp_workers **out)
{
	struct cli_cp_workers *w = calloc(1, sizeof(*w));
	sigset_t all, old;
	int rc = 0;

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->fn = fn;
	w->arg = arg;
	cp_list_init(&w->todo);
	cp_list_init(&w->done);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		rc = -errno;
		free(w);
		return rc;
	}
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	/* Signals are the loop's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (!rc && w->n < n && w->n < WORKERS_MAX) {
		rc = -pthread_create(&w->threads[w->n], NULL, cp_worker, w);
		if (!rc)
			w->n++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc && !w->n) {
		cli_cp_workers_stop(w, false);
		return rc;
	}
	*out = w;
	return 0;
}

void cli_cp_workers_add(struct cli_cp_workers *w, struct cli_cp_op *op)
{
	pthread_mutex_lock(&w->lock);
	cp_list_add(&w->todo, op);
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

int cli_cp_workers_deliver(struct cli_cp_workers *w)
{
	struct cli_cp_op *op, *next;
	uint64_t count;
	int n = 0;

	if (read(w->fd, &count, sizeof(count)) != sizeof(count))
		return 0;
	pthread_mutex_lock(&w->lock);
	op = w->done.first;
	cp_list_init(&w->done);
	pthread_mutex_unlock(&w->lock);
	for (; op; op = next, n++) {
		next = op->next; /* done() may give it to somebody else */
		op->done(op, op->err, op->err ? strerror(-op->err) : "");
	}
	return n;
}

int cli_cp_workers_fd(const struct cli_cp_workers *w)
{
	return w->fd;
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
