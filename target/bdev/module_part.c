/* SPDX-License-Identifier: BSD-3-Clause */
#include "module_part.h"

#include <errno.h>
#include <stdlib.h>

uint64_t rdt_module_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

struct timespec rdt_module_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / RD_NSEC_PER_SEC),
				 .tv_nsec = (long)(ns % RD_NSEC_PER_SEC)};
}

void rdt_module_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* ---- threads ---- */

void rdt_module_threads_init(struct rdt_module_threads *threads)
{
	pthread_mutex_init(&threads->lock, NULL);
	rdt_module_cond_init(&threads->ended);
	threads->count = 0;
}

int rdt_module_thread_start(struct rdt_module_threads *threads, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&threads->lock);
	rc = -pthread_create(&thread, &attr, fn, arg);
	if (!rc)
		threads->count++;
	pthread_mutex_unlock(&threads->lock);
	pthread_attr_destroy(&attr);
	return rc;
}

void rdt_module_thread_ends(struct rdt_module_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	threads->count--;
	pthread_cond_broadcast(&threads->ended);
	pthread_mutex_unlock(&threads->lock);
}

bool rdt_module_threads_finish(struct rdt_module_threads *threads, uint64_t timeout_ns)
{
	struct timespec end = rdt_module_timespec(rdt_module_now() + timeout_ns);
	bool finished;
	int rc = 0;

	pthread_mutex_lock(&threads->lock);
	while (threads->count && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&threads->ended, &threads->lock, &end);
	finished = !threads->count;
	pthread_mutex_unlock(&threads->lock);
	if (finished) {
		pthread_mutex_destroy(&threads->lock);
		pthread_cond_destroy(&threads->ended);
	}
	return finished;
}

/* ---- channels ---- */

int rdt_module_chan_open(struct rdt_bdev *bdev, struct rd_loop *loop, struct rdt_chan **out)
{
	struct rdt_module_chan *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->chan.bdev = bdev;
	c->loop = loop;
	*out = &c->chan;
	return 0;
}

void rdt_module_chan_close(struct rdt_chan *chan)
{
	free(rd_container_of(chan, struct rdt_module_chan, chan));
}
