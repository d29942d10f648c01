/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.watch: messages of the log, sent to clients as they are written. Any thread logs: messages
 * wait in a bounded queue for the main loop. Without a client that watches this costs a message one
 * load.
 */
#include "rpc_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "util/utf8.h"

#define EVENTS_MAX 512u
#define EVENT_TEXT 512

struct event {
	struct timespec at;
	enum rd_log_level level;
	enum rd_log_comp comp;
	char text[EVENT_TEXT];
};

struct rdt_rpc_events {
	struct rdt_rpc *rpc;
	struct rd_msg msg;
	atomic_uint watchers;

	pthread_mutex_t lock; /* all below */
	bool posted;          /* @msg is on its way */
	uint64_t lost;        /* since the last one that was sent */
	unsigned int start;
	unsigned int count;
	struct event ring[EVENTS_MAX];
};

/* Any thread. */
static void event_logged(void *arg, enum rd_log_comp comp, enum rd_log_level level,
			 const char *text)
{
	struct rdt_rpc_events *e = arg;
	bool post = false;

	if (!atomic_load_explicit(&e->watchers, memory_order_relaxed))
		return;
	pthread_mutex_lock(&e->lock);
	if (e->count == EVENTS_MAX) {
		e->lost++;
	} else {
		struct event *ev = &e->ring[(e->start + e->count++) % EVENTS_MAX];

		clock_gettime(CLOCK_REALTIME, &ev->at);
		ev->level = level;
		ev->comp = comp;
		snprintf(ev->text, sizeof(ev->text), "%s", text);
		post = !e->posted;
		e->posted = true;
	}
	pthread_mutex_unlock(&e->lock);
	if (post)
		rd_loop_post(e->rpc->loop, &e->msg);
}

static void send_event(struct rdt_rpc *rpc, struct event *ev)
{
	char when[RD_LOG_TIME_TEXT];
	json_t *message;
	char *line;

	rd_mask_control(ev->text, strlen(ev->text)); /* a character may have been cut */
	message = json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:s}}", "jsonrpc", "2.0", "method",
			    "event", "params", "time", rd_log_time(&ev->at, when), "level",
			    rd_log_level_name(ev->level), "component", rd_log_comp_name(ev->comp),
			    "message", ev->text);
	line = message ? json_dumps(message, JSON_COMPACT) : NULL;
	if (line)
		rdt_rpc_event(rpc, ev->level, line, strlen(line));
	free(line);
	json_decref(message);
}

/* The next one. False: there is none, *@lost did not fit in, and a new one posts the message. */
static bool pop_event(struct rdt_rpc_events *e, struct event *ev, uint64_t *lost)
{
	bool more;

	pthread_mutex_lock(&e->lock);
	more = e->count > 0;
	if (more) {
		*ev = e->ring[e->start];
		e->start = (e->start + 1) % EVENTS_MAX;
		e->count--;
	} else {
		e->posted = false;
		*lost = e->lost;
		e->lost = 0;
	}
	pthread_mutex_unlock(&e->lock);
	return more;
}

static void events_arrived(struct rd_msg *msg)
{
	struct rdt_rpc_events *e = rd_container_of(msg, struct rdt_rpc_events, msg);
	struct event ev;
	uint64_t lost;

	if (e->rpc->closed)
		return;
	for (unsigned int i = 0; i < EVENTS_MAX; i++) {
		if (!pop_event(e, &ev, &lost)) {
			if (lost)
				rdt_rpc_events_lost(e->rpc, lost);
			return;
		}
		send_event(e->rpc, &ev);
	}
	rd_loop_post(e->rpc->loop, msg); /* others have their turn */
}

/* ---- the method ---- */

static int watch_level(const char *name)
{
	for (int level = 0; level < RD_LOG_LEVELS; level++)
		if (strcasecmp(rd_log_level_name((enum rd_log_level)level), name) == 0)
			return level;
	return -1;
}

static int start_events(struct rdt_rpc *rpc)
{
	struct rdt_rpc_events *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->rpc = rpc;
	e->msg.fn = events_arrived;
	pthread_mutex_init(&e->lock, NULL);
	rpc->events = e;
	rd_log_set_observer(rpc->log, event_logged, e);
	return 0;
}

static void events_watch(struct rdt_rpc_call *call)
{
	const char *name = rdt_rpc_text(call, "level");
	int level = watch_level(name ? name : "notice");
	struct rdt_rpc *rpc = call->rpc;

	if (level < 0) {
		rdt_rpc_error(call, RDT_RPC_INVALID, "level", name, NULL,
			      "level: \"%.60s\" is none of %s", name, rd_log_level_names());
		return;
	}
	if (!rpc->events && start_events(rpc)) {
		rdt_rpc_error(call, RDT_RPC_NO_RESOURCES, NULL, NULL, NULL, "out of memory");
		return;
	}
	if (rdt_rpc_client_watch(call->client, level))
		atomic_fetch_add(&rpc->events->watchers, 1);
	rdt_rpc_result(call,
		       json_pack("{s:s}", "level", rd_log_level_name((enum rd_log_level)level)));
}

void rdt_rpc_events_unwatch(struct rdt_rpc *rpc)
{
	atomic_fetch_sub(&rpc->events->watchers, 1);
}

void rdt_rpc_events_free(struct rdt_rpc *rpc)
{
	if (!rpc->events)
		return;
	rd_log_set_observer(rpc->log, NULL, NULL);
	pthread_mutex_destroy(&rpc->events->lock);
	free(rpc->events);
	rpc->events = NULL;
}

static const struct rdt_rpc_param watch_params[] = {
	{"level", JSON_STRING, false},
	{NULL, JSON_NULL, false},
};

const struct rdt_rpc_method rdt_rpc_event_methods[] = {
	{"events.watch", "from now on, messages of the log of this level or worse", false,
	 watch_params, events_watch},
	{NULL, NULL, false, NULL, NULL},
};
