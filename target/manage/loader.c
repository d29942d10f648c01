/* SPDX-License-Identifier: BSD-3-Clause */
#include "loader.h"

#include <string.h>

#include "util/log.h"
#include "change.h"

static void finish_loading(struct rdt_loader *l)
{
	pthread_join(l->thread, NULL);
	l->running = false;
}

static void loaded_msg(struct rd_msg *msg)
{
	struct rdt_loader *l = rd_container_of(msg, struct rdt_loader, msg);
	struct rdt_config *config = l->config;

	if (!l->running) /* it was stopped before the message arrived */
		return;
	finish_loading(l);
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

void rdt_loader_stop(struct rdt_loader *l)
{
	if (!l->running)
		return;
	finish_loading(l);
	rdt_config_put(&l->config);
	rdt_config_texts_free(&l->texts);
}
