/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.watch: sends events of the target and log messages to clients as they happen. Any thread
 * may announce and log: entries are queued, up to a limit, for the main loop. Without a watching
 * client the cost is one load.
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
#include "target/nvmf/target.h"

#define EVENTS_MAX 512u
#define EVENT_TEXT 512

struct event {
	struct timespec at;
	const char *name; /* NULL: a log message */
	json_t *fields;
	uint64_t seq;
	enum rd_log_level level;
	enum rd_log_comp comp;
	char text[EVENT_TEXT];
};

struct rdt_rpc_events {
	struct rdt_rpc *rpc;
	struct rd_msg msg;
	atomic_uint log_watchers;
	unsigned int watchers; /* clients that watch events; main thread only */

	pthread_mutex_t lock; /* guards the members below */
	bool posted;          /* @msg is queued */
	uint64_t lost;        /* since the last entry that was sent */
	uint64_t seq;         /* sequence number of the last event */
	unsigned int start;
	unsigned int count;
	struct event ring[EVENTS_MAX];
};

/* Appends an event; the lock is held. Returns NULL if the queue is full: the event is lost. */
static struct event *queue_event(struct rdt_rpc_events *e)
{
	struct event *ev;

	if (e->count == EVENTS_MAX) {
		e->lost++;
		return NULL;
	}
	ev = &e->ring[(e->start + e->count++) % EVENTS_MAX];
	clock_gettime(CLOCK_REALTIME, &ev->at);
	ev->name = NULL;
	ev->fields = NULL;
	return ev;
}

/* The lock is held. Returns whether the caller has to post the message. */
static bool must_post(struct rdt_rpc_events *e)
{
	bool post = !e->posted;

	e->posted = true;
	return post;
}

/* Called on any thread. */
static void event_logged(void *arg, enum rd_log_comp comp, enum rd_log_level level,
			 const char *text)
{
	struct rdt_rpc_events *e = arg;
	struct event *ev;
	bool post = false;

	if (!atomic_load_explicit(&e->log_watchers, memory_order_relaxed))
		return;
	pthread_mutex_lock(&e->lock);
	ev = queue_event(e);
	if (ev) {
		ev->level = level;
		ev->comp = comp;
		snprintf(ev->text, sizeof(ev->text), "%s", text);
		post = must_post(e);
	}
	pthread_mutex_unlock(&e->lock);
	if (post)
		rd_loop_post(e->rpc->loop, &e->msg);
}

/* Called on any thread. */
static void event_announced(void *arg, const char *name, json_t *fields)
{
	struct rdt_rpc_events *e = arg;
	struct event *ev;
	bool post = false;

	pthread_mutex_lock(&e->lock);
	e->seq++;
	ev = queue_event(e);
	if (ev) {
		ev->name = name;
		ev->fields = fields;
		ev->seq = e->seq;
		post = must_post(e);
	}
	pthread_mutex_unlock(&e->lock);
	if (!ev)
		json_decref(fields);
	if (post)
		rd_loop_post(e->rpc->loop, &e->msg);
}

static json_t *log_params(struct event *ev, const char *when)
{
	rd_mask_control(ev->text, strlen(ev->text)); /* truncation may have split a character */
	return json_pack("{s:s, s:s, s:s, s:s}", "time", when, "level",
			 rd_log_level_name(ev->level), "component", rd_log_comp_name(ev->comp),
			 "message", ev->text);
}

static void send_event(struct rdt_rpc *rpc, struct event *ev)
{
	char when[RD_LOG_TIME_TEXT];
	json_t *params, *message;
	char *line;

	rd_log_time(&ev->at, when);
	if (ev->name)
		params = json_pack("{s:I, s:s, s:s, s:o}", "seq", (json_int_t)ev->seq, "time", when,
				   "name", ev->name, "fields", ev->fields);
	else
		params = log_params(ev, when);
	message = json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method",
			    ev->name ? "event" : "log", "params", params);
	line = message ? json_dumps(message, JSON_COMPACT) : NULL;
	if (line)
		rdt_rpc_event(rpc, ev->name ? RDT_RPC_WATCH_EVENTS : RDT_RPC_WATCH_LOG(ev->level),
			      line, strlen(line));
	free(line);
	json_decref(message);
}

/* Removes the oldest event. Returns false if there is none; then *@lost events did not fit in, and
 * the next event posts the message again. */
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

	if (e->rpc->phase == RDT_RPC_CLOSED)
		return;
	for (unsigned int i = 0; i < EVENTS_MAX; i++) {
		if (!pop_event(e, &ev, &lost)) {
			if (lost)
				rdt_rpc_events_lost(e->rpc, lost);
			return;
		}
		send_event(e->rpc, &ev);
	}
	rd_loop_post(e->rpc->loop, msg); /* continue after other work of the loop */
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
	rpc->target->announcer.arg = e; /* valid as long as any thread announces */
	rd_log_set_observer(rpc->log, event_logged, e);
	return 0;
}

static void count_watcher(struct rdt_rpc *rpc, int watch, bool more)
{
	struct rdt_rpc_events *e = rpc->events;

	if (watch)
		e->watchers += more ? 1 : -1u;
	if (watch > RDT_RPC_WATCH_EVENTS)
		atomic_fetch_add(&e->log_watchers, more ? 1 : -1u);
	atomic_store_explicit(&rpc->target->announcer.fn, e->watchers ? event_announced : NULL,
			      memory_order_release);
}

static void events_watch(struct rdt_rpc_call *call)
{
	const char *name = rdt_rpc_text(call, "level");
	int level = name ? watch_level(name) : 0;
	int watch = name ? RDT_RPC_WATCH_LOG(level) : RDT_RPC_WATCH_EVENTS;
	struct rdt_rpc *rpc = call->rpc;

	if (level < 0) {
		rdt_rpc_error(call, RDT_RPC_INVALID, "level", name, NULL,
			      "level: found \"%.60s\", expected one of %s", name,
			      rd_log_level_names());
		return;
	}
	if (!rpc->events && start_events(rpc)) {
		rdt_rpc_no_memory(call);
		return;
	}
	count_watcher(rpc, rdt_rpc_client_watch(call->client, watch), false);
	count_watcher(rpc, watch, true);
	rdt_rpc_result(call, name ? json_pack("{s:s}", "level",
					      rd_log_level_name((enum rd_log_level)level))
				  : json_object());
}

void rdt_rpc_events_unwatch(struct rdt_rpc *rpc, int watch)
{
	count_watcher(rpc, watch, false);
}

void rdt_rpc_events_free(struct rdt_rpc *rpc)
{
	struct rdt_rpc_events *e = rpc->events;

	if (!e)
		return;
	rd_log_set_observer(rpc->log, NULL, NULL);
	for (unsigned int i = 0; i < e->count; i++)
		json_decref(e->ring[(e->start + i) % EVENTS_MAX].fields);
	pthread_mutex_destroy(&e->lock);
	free(e);
	rpc->events = NULL;
}

const struct rdt_rpc_method rdt_rpc_event_methods[] = {
	{"events.watch", "send events from now on; with level also log messages", false,
	 "[level: string]", events_watch},
	{NULL, NULL, false, NULL, NULL},
};
