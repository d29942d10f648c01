/* SPDX-License-Identifier: BSD-3-Clause */
#include "loader.h"

#include <string.h>
#include <time.h>

#include "util/log.h"
#include "change.h"

bool rdt_thread_join(pthread_t thread, uint64_t wait)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	wait += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(wait / RD_NSEC_PER_SEC);
	until.tv_nsec = (long)(wait % RD_NSEC_PER_SEC);
	return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

static void loaded_msg(struct rd_msg *msg)
{
	struct rdt_loader *l = rd_container_of(msg, struct rdt_loader, msg);
	struct rdt_config *config = l->config;

	if (!l->running) /* it was stopped before the message arrived */
		return;
	pthread_join(l->thread, NULL); /* this message was the last that it did */
	l->running = false;
	l->config = NULL;
	l->done(l, config);
}

static void *load_thread(void *arg)
{
	struct rdt_loader *l = arg;

	pthread_setname_np(pthread_self(), "config");
	if (l->change)
		l->config = rdt_change_run(l->change, l->path, l->wanted, &l->texts, l->log);
	else if (rdt_config_load_texts(l->path, &l->texts, false, l->log, &l->config))
		l->config = NULL;
	rd_loop_post(l->loop, &l->msg);
	return NULL;
}

void rdt_loader_start(struct rdt_loader *l, struct rdt_change *change,
		      struct rdt_config_texts *wanted)
{
	int err;

	l->change = change;
	l->wanted = wanted;
	l->texts = (struct rdt_config_texts){0};
	l->msg.fn = loaded_msg;
	err = pthread_create(&l->thread, NULL, load_thread, l);
	if (err) {
		rd_err(l->log, RD_LOG_CONFIG, "cannot start the thread that reads %s: %s", l->path,
		       strerror(err));
		l->done(l, NULL);
		return;
	}
	l->running = true;
}

bool rdt_loader_stop(struct rdt_loader *l, uint64_t wait)
{
	if (!l->running)
		return true;
	if (!rdt_thread_join(l->thread, wait))
		return false;
	l->running = false;
	rdt_config_put(&l->config);
	rdt_config_texts_free(&l->texts);
	return true;
}
