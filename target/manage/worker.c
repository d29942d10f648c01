/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include <time.h>

static void worker_ended(struct rd_msg *msg)
{
	struct rdt_worker *w = rd_container_of(msg, struct rdt_worker, msg);

	if (!w->running) /* it was joined before the message arrived */
		return;
	pthread_join(w->thread, NULL); /* this message was the last that it did */
	w->running = false;
	w->done(w);
}

static void *worker_thread(void *arg)
{
	struct rdt_worker *w = arg;

	pthread_setname_np(pthread_self(), w->name);
	w->work(w);
	rd_loop_post(w->loop, &w->msg);
	return NULL;
}

int rdt_worker_start(struct rdt_worker *w)
{
	int err;

	w->msg.fn = worker_ended;
	err = pthread_create(&w->thread, NULL, worker_thread, w);
	w->running = !err;
	return -err;
}

bool rdt_worker_join(struct rdt_worker *w, uint64_t wait)
{
	struct timespec until;

	if (!w->running)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	wait += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(wait / RD_NSEC_PER_SEC);
	until.tv_nsec = (long)(wait % RD_NSEC_PER_SEC);
	w->running = pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) != 0;
	return !w->running;
}
