/* SPDX-License-Identifier: BSD-3-Clause */
#include "give.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/fd_bag.h"
#include "util/log.h"
#include "util/loop.h"
#include "channel.h"
#include "ns_hand.h"
#include "ns_record.h"
#include "store_put.h"
#include "target/bdev/inherit.h"
#include "target/manage/change/reloader.h"
#include "target/manage/service/notify.h"
#include "target/manage/service/options.h"
#include "target/manage/service/self.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/move.h"
#include "target/nvmf/target.h"
#include "target/nvmf/transport.h"
#include "target/reactor/lifecycle.h"
#include "target/resv/state.h"

/* Nothing rests during these. */
#define START_WAIT   (30 * RD_NSEC_PER_SEC) /* until the process that was started asks */
#define PREPARE_WAIT (60 * RD_NSEC_PER_SEC)
/* Connections rest during these. */
#define HOLD_WAIT  RD_NSEC_PER_SEC
#define HOLD_AGAIN (2 * RD_NSEC_PER_MSEC)
#define HOLD_TRIES 500u
/* Storage with a connection of its own flushes. */
#define SETTLE_WAIT RD_NSEC_PER_SEC
#define TOOK_WAIT   (3 * RD_NSEC_PER_SEC)
#define HAND_LOOK   RD_NSEC_PER_MSEC
/* After the commit: until the next process says that it serves. */
#define SERVES_WAIT (10 * RD_NSEC_PER_SEC)

enum give_state {
	GIVE_IDLE,    /* -> STARTED or PREPARING */
	GIVE_STARTED, /* the next process was started, and has not asked -> PREPARING, IDLE */
	/* It opens what is open, or the store takes that -> HOLDING, CHECKED, IDLE */
	GIVE_PREPARING,
	GIVE_CHECKED,   /* it was a check, and the process that was started ends -> IDLE */
	GIVE_HOLDING,   /* connections come to a rest -> SETTLING, IDLE */
	GIVE_SETTLING,  /* what was acknowledged leaves caches of connections -> MOVING, IDLE */
	GIVE_MOVING,    /* it builds the connections, or they are stored -> COMMITTED, IDLE */
	GIVE_COMMITTED, /* only closes */
};

struct rdt_give {
	struct rdt_give_env *env;
	struct rdt_target *t;
	enum give_state state;
	bool check, force;
	unsigned int behind; /* namespaces that are left behind */
	pid_t pid;           /* of the next process */
	struct rdt_channel channel;
	struct rdt_store_put *put; /* it goes into the store; NULL: to a process */
	struct rd_timer timer;
	unsigned int tries;    /* HOLDING */
	uint64_t held_at;      /* ns of the system's clock: CLOCK_MONOTONIC */
	uint64_t settle_by;    /* SETTLING: likewise */
	struct rd_timer leave; /* COMMITTED: a look at connections to storage */
	bool left;             /* COMMITTED: there is none */
	bool later;            /* the next process takes counters after the commit */
	bool closed;           /* COMMITTED: no connection of hosts is left */
	bool serves;           /* COMMITTED: the next process has said so, or has ended */
	bool told;             /* COMMITTED: whoever asked was told the end */
	json_t *ready;         /* what the next process has said */
	json_t *result;
	rdt_give_done done;
	void *arg;
};

static void tell_done(struct rdt_give *g, int err, const char *why, json_t *result)
{
	rdt_give_done done = g->done;

	g->done = NULL;
	if (done)
		done(g->arg, err, why, result);
	else
		json_decref(result);
}

static void give_idle(struct rdt_give *g)
{
	rd_timer_stop(g->t->loop, &g->timer);
	rdt_channel_close(&g->channel);
	if (g->put) {
		rdt_store_put_free(&g->put);
		rdt_ns_records_name_user(g->t, true); /* was lost with the duplicates */
	}
	json_decref(g->ready);
	g->ready = NULL;
	g->state = GIVE_IDLE;
	rdt_reloader_freeze(g->env->reloader, NULL);
}

static void tell_failed(struct rdt_give *g, const char *why)
{
	if (g->put) {
		rd_warn(g->t->log, RD_LOG_MAIN,
			"not left in the service manager's store: %s; this process goes on", why);
		rdt_announce(g->t, "upgrade-failed", "{s:s}", "reason", why);
		return;
	}
	rd_warn(g->t->log, RD_LOG_MAIN, "not handed over to process %d: %s; this process goes on",
		(int)g->pid, why);
	rdt_announce(g->t, "upgrade-failed", "{s:i, s:s}", "to_pid", (int)g->pid, "reason", why);
}

/* Everything is as it was before. */
static void give_fails(struct rdt_give *g, int err, const char *why)
{
	enum give_state was = g->state;

	if (was == GIVE_IDLE || was == GIVE_COMMITTED)
		return;
	if (was == GIVE_CHECKED) {
		give_idle(g);
		tell_done(g, err, why, NULL);
		return;
	}
	if (g->put) /* before anything continues here */
		rdt_store_withdraw(g->put);
	if (was >= GIVE_HOLDING) {
		rdt_ns_leave_none(g->t);
		rdt_hold_release(g->t);
		rdt_listeners_hold(g->t, false);
	}
	if (err == -ETIMEDOUT && g->env->self->pid == g->pid)
		rdt_self_kill(g->env->self);
	tell_failed(g, why);
	give_idle(g);
	tell_done(g, err, why, NULL);
}

static void give_timed_out(struct rd_timer *timer)
{
	struct rdt_give *g = rd_container_of(timer, struct rdt_give, timer);

	give_fails(g, -ETIMEDOUT,
		   g->state == GIVE_STARTED     ? "it has not asked for anything in 30 s"
		   : g->state == GIVE_PREPARING ? "it was not ready in 60 s"
						: "it has not taken the connections in 3 s");
}

static void give_wait(struct rdt_give *g, uint64_t limit)
{
	if (rd_timer_start(g->t->loop, &g->timer, limit))
		give_fails(g, -ENOMEM, "out of memory for a timer");
}

/* ---- what is open ---- */

static int add_process(struct rdt_give *g, json_t *records, struct rd_fd_bag *bag)
{
	struct rdt_give_fds fds = {-1, -1, -1};
	struct {
		const char *name;
		int fd;
	} * one, all[] = {
			 {RDT_INHERIT_STATE, g->t->state ? rdt_state_fd(g->t->state) : -1},
			 {RDT_INHERIT_CONTROL, -1},
			 {RDT_INHERIT_CONTROL_LOCK, -1},
			 {RDT_INHERIT_HTTP, -1},
			 {NULL, -1},
		 };
	json_t *record = json_pack("{s:s, s:i, s:s*, s:I}", "kind", "process", "pid", (int)getpid(),
				   "control_socket", g->env->socket, "files_max",
				   (json_int_t)g->env->files_max);
	json_t *open = json_object();

	g->env->fds(g->env, &fds);
	/* The control socket goes with this process: its directory may, too. */
	all[1].fd = g->put ? -1 : fds.control;
	all[2].fd = g->put ? -1 : fds.control_lock;
	all[3].fd = fds.http;
	for (one = all; one->name; one++) {
		int at = one->fd < 0 ? -1 : rd_fd_bag_add_dup(bag, one->fd);

		if (one->fd >= 0 &&
		    (at < 0 || json_object_set_new(open, one->name, json_integer(at)))) {
			json_decref(open);
			json_decref(record);
			return at < 0 ? at : -ENOMEM;
		}
	}
	if (json_object_set_new(record, "open", open) || json_array_append_new(records, record))
		return -ENOMEM;
	return 0;
}

static int add_listener(const struct rdt_listener *l, json_t *records, struct rd_fd_bag *bag)
{
	int fd = l->phase == RDT_LISTENER_LISTENING && l->transport->listen_fd
			 ? l->transport->listen_fd(l)
			 : -1;
	int at = fd < 0 ? fd : rd_fd_bag_add_dup(bag, fd);

	if (fd < 0)
		return 0;
	if (at < 0)
		return at;
	return json_array_append_new(records, json_pack("{s:s, s:s, s:s, s:i, s:i}", "kind",
							"listener", "transport", l->transport->name,
							"address", l->cfg->address, "port",
							(int)l->cfg->port, "fd", at))
		       ? -ENOMEM
		       : 0;
}

static int collect_open(struct rdt_give *g, json_t *records, struct rd_fd_bag *bag, char *why,
			size_t size)
{
	const struct rdt_listener *l;
	int err = records ? add_process(g, records, bag) : -ENOMEM;

	TAILQ_FOREACH (l, &g->t->listeners, link)
		if (!err)
			err = add_listener(l, records, bag);
	if (err) {
		snprintf(why, size, "what is open cannot be passed on: %s", strerror(-err));
		return err;
	}
	return rdt_ns_records_open(g->t, records, bag, why, size);
}

static int give_open(struct rdt_give *g, char *why, size_t size)
{
	json_t *records = rdt_records_new();
	struct rd_fd_bag bag;
	int err;

	rd_fd_bag_init(&bag, RDT_CHANNEL_FDS);
	err = collect_open(g, records, &bag, why, size);
	if (!err && g->put) {
		err = rdt_store_put_open(g->put, records, &bag, why, size);
	} else if (!err) {
		err = rdt_channel_send(&g->channel, "prepare",
				       json_pack("{s:b}", "check", g->check), records, &bag);
		if (err)
			snprintf(why, size, "cannot pass on what is open: %s", strerror(-err));
	}
	rd_fd_bag_clear(&bag);
	rdt_ns_records_name_user(g->t, true); /* was lost with the duplicates */
	json_decref(records);
	return err;
}

/* ---- connections ---- */

static int add_rest(struct rdt_give *g, json_t *records)
{
	return json_array_append_new(records, json_pack("{s:s, s:I}", "kind", "process", "held_at",
							(json_int_t)g->held_at))
		       ? -ENOMEM
		       : 0;
}

static double ms_of_rest(const struct rdt_give *g)
{
	return (double)(rd_loop_now_raw(g->t->loop) - g->held_at) / RD_NSEC_PER_MSEC;
}

static int give_state(struct rdt_give *g, char *why, size_t size)
{
	enum rdt_move_part part = g->later ? RDT_MOVE_STATE : RDT_MOVE_ALL;
	json_t *records = rdt_records_new();
	struct rd_fd_bag bag;
	int err = records ? 0 : -ENOMEM;

	rd_fd_bag_init(&bag, RDT_CHANNEL_FDS);
	snprintf(why, size, "out of memory");
	if (!err)
		err = add_rest(g, records);
	if (!err)
		err = rdt_ns_records_state(g->t, part, records, why, size);
	if (!err) {
		err = rdt_move_out(g->t, part, records, &bag);
		if (!err && !g->put)
			err = rdt_channel_send(&g->channel, "move", json_object(), records, &bag);
		if (err)
			snprintf(why, size, "the connections cannot be passed on: %s%s",
				 strerror(-err),
				 err == -ENFILE || err == -EMFILE
					 ? "; raise the limit of open files (LimitNOFILE= of a "
					   "service)"
					 : "");
	}
	if (!err && g->put)
		err = rdt_store_put_moves(g->put, records, &bag, why, size);
	rd_fd_bag_clear(&bag);
	json_decref(records);
	return err;
}

static void give_settled(struct rdt_give *g)
{
	char why[RDT_CHANNEL_WHY];
	int err = give_state(g, why, sizeof(why));

	if (err) {
		give_fails(g, err, why);
		return;
	}
	rd_debug(g->t->log, RD_LOG_MAIN, "they are passed on after %.3f ms", ms_of_rest(g));
	g->state = GIVE_MOVING;
	g->timer.fn = give_timed_out;
	if (!g->put) /* which has a limit of its own */
		give_wait(g, TOOK_WAIT);
}

static void give_look_settled(struct rd_timer *timer)
{
	struct rdt_give *g = rd_container_of(timer, struct rdt_give, timer);
	char why[RDT_CHANNEL_WHY];
	int err = rdt_ns_handed(g->t, why, sizeof(why));

	if (!err)
		give_settled(g);
	else if (err == -EINPROGRESS && rd_loop_now_raw(g->t->loop) < g->settle_by)
		give_wait(g, HAND_LOOK);
	else
		give_fails(g, err == -EINPROGRESS ? -ETIMEDOUT : err, why);
}

static void give_held(void *arg, int err, const char *why)
{
	struct rdt_give *g = arg;

	if (g->state != GIVE_HOLDING)
		return;
	if (err) {
		give_fails(g, err, why);
		return;
	}
	rd_debug(g->t->log, RD_LOG_MAIN, "all connections rest after %.3f ms", ms_of_rest(g));
	g->state = GIVE_SETTLING;
	g->behind = rdt_ns_leave_behind(g->t);
	g->timer.fn = give_look_settled;
	g->settle_by = rd_loop_now_raw(g->t->loop) + SETTLE_WAIT;
	rdt_ns_hand(g->t, RDT_HAND_SETTLE);
	give_look_settled(&g->timer);
}

static void give_hold_again(struct rd_timer *timer);

static void try_to_hold(struct rdt_give *g)
{
	int err = rdt_hold(g->t, HOLD_WAIT, g->force, give_held, g);

	/* Reactors still release the hold of a hand-over that has failed just now. */
	g->timer.fn = give_hold_again;
	if (err == -EBUSY && g->tries++ < HOLD_TRIES)
		give_wait(g, HOLD_AGAIN);
	else if (err)
		give_fails(g, err, strerror(-err));
	else
		g->timer.fn = give_timed_out;
}

static void give_hold_again(struct rd_timer *timer)
{
	try_to_hold(rd_container_of(timer, struct rdt_give, timer));
}

static void give_hold(struct rdt_give *g)
{
	rd_timer_stop(g->t->loop, &g->timer);
	g->state = GIVE_HOLDING;
	g->tries = 0;
	g->held_at = rd_loop_now_raw(g->t->loop);
	rdt_listeners_hold(g->t, true);
	try_to_hold(g);
}

/* ---- the commit ---- */

static void tell_committed(struct rdt_give *g)
{
	char why[RDT_CHANNEL_WHY];

	if (g->result) {
		tell_done(g, 0, "", json_incref(g->result));
		return;
	}
	snprintf(why, sizeof(why), "the target was handed over to process %d, which %s",
		 (int)g->pid,
		 g->channel.fd < 0 ? "has ended before it served; start rdtarget again, and hosts "
				     "connect again"
				   : "has not said in 10 s that it serves; the log may say why");
	rd_err(g->t->log, RD_LOG_MAIN, "%s", why);
	tell_done(g, -EOWNERDEAD, why, NULL);
}

static void give_look_gone(struct rdt_give *g)
{
	if (!g->serves || !g->left || (!g->closed && !g->behind))
		return;
	rd_timer_stop(g->t->loop, &g->timer);
	if (!g->told)
		tell_committed(g);
	g->told = true;
	if (g->closed)
		rd_loop_stop(g->t->loop);
}

/* Nothing is in flight any more: the next process may serve what was left behind. */
static void send_end(struct rdt_give *g)
{
	json_t *records = rdt_records_new();
	char why[RDT_CHANNEL_WHY] = "out of memory";
	int err = records ? rdt_ns_records_state(g->t, RDT_MOVE_STATE, records, why, sizeof(why))
			  : -ENOMEM;

	rdt_ns_left_end(g->t);
	if (!err)
		err = rdt_channel_send(&g->channel, "ended", json_object(), records, NULL);
	if (err) /* it takes the end of this process for that of one that was killed */
		rd_warn(g->t->log, RD_LOG_MAIN, "the next process is not told the end: %s",
			strerror(-err));
	json_decref(records);
}

void rdt_give_drained(struct rdt_give *g)
{
	g->closed = true;
	if (g->behind)
		send_end(g);
	give_look_gone(g);
}

static void give_waited(struct rd_timer *timer)
{
	struct rdt_give *g = rd_container_of(timer, struct rdt_give, timer);

	g->serves = true;
	g->left = true;
	give_look_gone(g);
}

static void give_look_left(struct rd_timer *timer)
{
	struct rdt_give *g = rd_container_of(timer, struct rdt_give, leave);
	char why[RDT_CHANNEL_WHY];

	if (rdt_ns_handed(g->t, why, sizeof(why)) == -EINPROGRESS &&
	    !rd_timer_start(g->t->loop, timer, HAND_LOOK))
		return;
	if (!g->put)
		rdt_channel_send(&g->channel, "left", json_object(), NULL, NULL);
	g->left = true;
	give_look_gone(g);
}

/* Hosts are served meanwhile. Without them the next process counts from 0. */
static void give_counters(struct rdt_give *g)
{
	json_t *records = rdt_records_new();
	char why[RDT_CHANNEL_WHY] = "out of memory";
	int err = records ? 0 : -ENOMEM;

	if (!err)
		err = rdt_ns_records_state(g->t, RDT_MOVE_COUNTERS, records, why, sizeof(why));
	if (!err) {
		err = rdt_move_out(g->t, RDT_MOVE_COUNTERS, records, NULL);
		if (!err)
			err = rdt_channel_send(&g->channel, "counters", json_object(), records,
					       NULL);
		snprintf(why, sizeof(why), "%s", strerror(-err));
	}
	json_decref(records);
	if (!err)
		return;
	rd_warn(g->t->log, RD_LOG_MAIN, "the counters are not passed on: %s", why);
	rdt_channel_send(&g->channel, "counters", json_object(), NULL, NULL);
}

static void tell_behind(const struct rdt_give *g)
{
	char text[1024];

	if (!g->behind)
		return;
	rdt_ns_left_text(g->t, text, sizeof(text));
	rd_warn(g->t->log, RD_LOG_MAIN,
		"this process ends when its I/O has ended in %s; until then process %d has "
		"commands for that wait",
		text, (int)g->pid);
}

/* Connections of hosts and to storage end here. */
static void give_leaves(struct rdt_give *g)
{
	rdt_move_done(g->t);
	g->timer.fn = give_waited;
	rd_timer_start(g->t->loop, &g->timer, SERVES_WAIT);
	rdt_ns_hand(g->t, RDT_HAND_LEAVE);
	g->leave.fn = give_look_left;
	give_look_left(&g->leave);
}

/* Before anything else is done, so that a failure still changes nothing. */
static void give_commit(struct rdt_give *g)
{
	struct rdt_move_count count = rdt_move_counted(g->t);
	int err = rdt_channel_send(&g->channel, "commit", json_pack("{s:b}", "counters", g->later),
				   NULL, NULL);

	if (err) {
		give_fails(g, err, "it has ended");
		return;
	}
	g->state = GIVE_COMMITTED;
	rdt_ns_records_name_user(g->t, false);
	rd_notice(g->t->log, RD_LOG_MAIN,
		  "handed over to process %d: %u connections of %u controllers; %u others connect "
		  "again",
		  (int)g->pid, count.queues, count.ctrls, count.left);
	if (g->later)
		give_counters(g);
	tell_behind(g);
	give_leaves(g);
	g->env->committed(g->env, g->pid);
}

/* ---- the service manager's store ---- */

/* Before anything is closed here. From now on the records in the store are what is true. */
static void store_commit(struct rdt_give *g)
{
	struct rdt_move_count count = rdt_move_counted(g->t);

	g->result = json_pack("{s:i, s:i, s:i}", "connections", (int)count.queues, "controllers",
			      (int)count.ctrls, "left", (int)count.left);
	if (!g->result) {
		give_fails(g, -ENOMEM, "out of memory");
		return;
	}
	g->state = GIVE_COMMITTED;
	rdt_ns_records_name_user(g->t, false);
	rd_notice(g->t->log, RD_LOG_MAIN,
		  "left in the service manager's store: %u connections of %u controllers; %u "
		  "others connect again",
		  count.queues, count.ctrls, count.left);
	g->serves = true;
	give_leaves(g);
	g->env->committed(g->env, RDT_GIVE_STORED);
}

static void give_put(void *arg, int err, const char *why)
{
	struct rdt_give *g = arg;

	if (err)
		give_fails(g, err, why);
	else if (g->state == GIVE_MOVING)
		store_commit(g);
	else
		give_hold(g);
	/* The duplicates are closed. */
	if (g->state == GIVE_HOLDING)
		rdt_ns_records_name_user(g->t, true);
}

/* ---- what the next process says ---- */

static void give_check_ends(struct rdt_give *g)
{
	json_t *result = json_incref(g->ready);
	json_t *list = g->force ? rdt_ns_left_list(g->t, true) : NULL;

	if (list)
		json_object_set_new(result, "unfinished", list);
	give_idle(g);
	tell_done(g, 0, "", result);
}

/* What was started has ended when whoever asked is told: it may ask again at once. */
static void give_checked(struct rdt_give *g)
{
	rd_notice(g->t->log, RD_LOG_MAIN, "process %d could take over", (int)g->pid);
	rdt_channel_send(&g->channel, "checked", json_object(), NULL, NULL);
	g->state = GIVE_CHECKED;
	if (!g->env->self->pid || g->env->self->pid != g->pid)
		give_check_ends(g);
}

static void give_ready(struct rdt_give *g, const json_t *msg)
{
	g->ready = json_deep_copy(msg);
	g->later = json_is_true(json_object_get(msg, "counters_later"));
	json_object_del(g->ready, "op");
	json_object_del(g->ready, "counters_later");
	if (!g->ready)
		give_fails(g, -ENOMEM, "out of memory");
	else if (g->check)
		give_checked(g);
	else
		give_hold(g);
}

static void give_serves(struct rdt_give *g, const json_t *msg)
{
	if (g->result) /* it has said so before */
		return;
	g->result = json_deep_copy(msg);
	json_object_del(g->result, "op");
	g->serves = true;
	give_look_gone(g);
}

static void give_said(struct rdt_channel *ch, const char *op, const json_t *msg,
		      const json_t *records, struct rd_fd_bag *bag)
{
	struct rdt_give *g = rd_container_of(ch, struct rdt_give, channel);
	const char *why = json_string_value(json_object_get(msg, "why"));

	if (strcmp(op, "refused") == 0)
		give_fails(g, -EINVAL, why ? why : "it refuses");
	else if (strcmp(op, "ready") == 0 && g->state == GIVE_PREPARING)
		give_ready(g, msg);
	else if (strcmp(op, "took") == 0 && g->state == GIVE_MOVING)
		give_commit(g);
	else if (strcmp(op, "serves") == 0 && g->state == GIVE_COMMITTED)
		give_serves(g, msg);
	else
		give_fails(g, -EPROTO, "it says what it must not");
}

static void give_broken(struct rdt_channel *ch, const char *why)
{
	struct rdt_give *g = rd_container_of(ch, struct rdt_give, channel);

	if (g->state == GIVE_CHECKED) /* as it should; what was started is waited for */
		return;
	if (g->state != GIVE_COMMITTED) {
		give_fails(g, -EPIPE, why);
		return;
	}
	g->serves = true;
	give_look_gone(g);
}

/* ---- the beginning ---- */

static int give_refuses(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return -EBUSY;
}

static bool any_left_behind(const struct rdt_target *t)
{
	char text[2];

	rdt_ns_left_text(t, text, sizeof(text));
	return text[0];
}

static int may_begin(const struct rdt_give *g, char *why, size_t size)
{
	const struct rdt_reloader *r = g->env->reloader;

	if (g->env->never) {
		give_refuses(why, size,
			     "it was started with --no-hand-over; restart it, and hosts connect "
			     "again");
		return -EPERM;
	}
	if (g->state == GIVE_COMMITTED)
		return give_refuses(why, size, "the target has been handed over already");
	if (g->state != GIVE_IDLE && g->state != GIVE_STARTED)
		return give_refuses(why, size, "the target is being handed over already");
	if (g->t->drained || g->t->serving != RDT_SERVING)
		return give_refuses(why, size, "the target is being drained");
	if (any_left_behind(g->t))
		return give_refuses(why, size,
				    "the process before this one still waits for I/O, as its log "
				    "says; try again when it has ended");
	if (r->current || !TAILQ_EMPTY(&r->queue))
		return give_refuses(why, size,
				    "the configuration is being changed; try again when that has "
				    "ended");
	if (r->unsaved)
		return give_refuses(why, size,
				    "changes of the configuration were not saved, and the next "
				    "process reads the file; save them (rdctl save), or reload the "
				    "file (rdctl reload)");
	return 0;
}

int rdt_give_begin(struct rdt_give *g, pid_t pid, bool check, bool force, char *why, size_t size)
{
	int socks[2], err = may_begin(g, why, size);

	if (!err && g->state == GIVE_STARTED && pid != g->pid)
		err = give_refuses(why, size, "another process was started to take over");
	if (err)
		return err;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks)) {
		snprintf(why, size, "no socket: %s", strerror(errno));
		return -errno;
	}
	g->pid = pid;
	g->check = check;
	if (g->state == GIVE_IDLE)
		g->force = force;
	rdt_channel_init(&g->channel, socks[0]);
	g->channel.said = give_said;
	g->channel.broken = give_broken;
	g->state = GIVE_PREPARING;
	rdt_reloader_freeze(g->env->reloader, "the target is being handed over to another process");
	err = rdt_channel_watch(&g->channel, g->t->loop);
	snprintf(why, size, "out of memory");
	if (!err)
		err = give_open(g, why, size);
	if (err) {
		close(socks[1]);
		give_fails(g, err, why);
		return err;
	}
	rd_notice(g->t->log, RD_LOG_MAIN, "process %d takes over%s", (int)pid,
		  check ? ", as a check" : "");
	g->timer.fn = give_timed_out;
	give_wait(g, PREPARE_WAIT);
	return socks[1];
}

/* The process that was started ends without having asked, or after it was asked to end. */
static void started_ended(void *arg, int status)
{
	struct rdt_give *g = arg;
	char why[RDT_CHANNEL_WHY];

	if (g->state == GIVE_CHECKED)
		give_check_ends(g);
	if (g->state != GIVE_STARTED)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == RDT_EXIT_CONFIG)
		snprintf(why, sizeof(why),
			 "it refuses the configuration; the log says why, as \"%s --check\" does",
			 g->env->self->path);
	else if (WIFEXITED(status))
		snprintf(why, sizeof(why), "it has exited with status %d; the log says why",
			 WEXITSTATUS(status));
	else
		snprintf(why, sizeof(why), "it was ended by signal %d", WTERMSIG(status));
	give_fails(g, -EINVAL, why);
}

static int start_next(struct rdt_give *g, char *why, size_t size)
{
	const char *argv[RDT_GIVE_ARGS];
	size_t n = 0;

	while (g->env->argv[n] && n < RDT_GIVE_ARGS - 4) {
		argv[n] = g->env->argv[n];
		n++;
	}
	argv[n++] = "--take-over";
	argv[n++] = g->env->socket;
	if (g->check)
		argv[n++] = "--check";
	argv[n] = NULL;
	g->env->self->ended = started_ended;
	g->env->self->arg = g;
	return rdt_self_start(g->env->self, g->t->loop, argv, why, size);
}

int rdt_give_start(struct rdt_give *g, bool check, bool force, rdt_give_done done, void *arg,
		   char *why, size_t size)
{
	int err = may_begin(g, why, size);

	if (!err && g->state != GIVE_IDLE)
		err = give_refuses(why, size, "the target is being handed over already");
	if (!err && g->env->tied && !check)
		err = give_refuses(why, size,
				   "it was started with --exit-with-parent, and the next process "
				   "would end with this one; start rdtarget --take-over from the "
				   "parent");
	if (!err && getpid() == 1 && !check)
		err = give_refuses(why, size,
				   "it is the first process of a container, which ends with it; "
				   "start rdtarget --take-over in another container");
	g->check = check;
	g->force = force;
	if (!err)
		err = start_next(g, why, size);
	if (err)
		return err;
	g->pid = g->env->self->pid;
	g->done = done;
	g->arg = arg;
	g->state = GIVE_STARTED;
	rd_notice(g->t->log, RD_LOG_MAIN, "started %s as process %d to take over%s",
		  g->env->self->path, (int)g->pid, check ? ", as a check" : "");
	g->timer.fn = give_timed_out;
	give_wait(g, START_WAIT);
	return 0;
}

int rdt_give_store(struct rdt_give *g, rdt_give_done done, void *arg, char *why, size_t size)
{
	int err = may_begin(g, why, size);

	if (!err && g->state != GIVE_IDLE)
		err = give_refuses(why, size, "the target is being handed over already");
	if (!err)
		err = rdt_ns_may_store(g->t, why, size);
	if (!err && g->env->notify->fd < 0) {
		snprintf(why, size,
			 "no service manager has started it with a store for descriptors: "
			 "NOTIFY_SOCKET is not in its environment");
		err = -EOPNOTSUPP;
	}
	if (!err) {
		snprintf(why, size, "out of memory");
		err = rdt_store_put_new(g->env->notify, g->t->loop, g->env->files_max, give_put, g,
					&g->put);
	}
	if (err)
		return err;
	g->pid = 0;
	g->check = g->force = g->later = false;
	g->state = GIVE_PREPARING;
	rdt_reloader_freeze(g->env->reloader, "the target is being handed over to another process");
	err = give_open(g, why, size);
	if (err) {
		give_fails(g, err, why);
		return err;
	}
	g->done = done;
	g->arg = arg;
	return 0;
}

void rdt_give_forget(struct rdt_give *g, const void *arg)
{
	if (g->arg == arg)
		g->done = NULL;
}

bool rdt_give_waits(const struct rdt_give *g)
{
	return g && g->state == GIVE_COMMITTED && g->behind && !g->closed;
}

bool rdt_give_runs(const struct rdt_give *g)
{
	return g && g->state != GIVE_IDLE;
}

void rdt_give_cancel(struct rdt_give *g, const char *why)
{
	if (g)
		give_fails(g, -ECANCELED, why);
}

int rdt_give_new(struct rdt_give_env *env, struct rdt_give **out)
{
	struct rdt_give *g = calloc(1, sizeof(*g));

	*out = g;
	if (!g)
		return -ENOMEM;
	g->env = env;
	g->t = env->target;
	g->channel.fd = -1;
	return 0;
}

void rdt_give_free(struct rdt_give **out)
{
	struct rdt_give *g = *out;

	if (!g)
		return;
	rd_timer_stop(g->t->loop, &g->timer);
	rd_timer_stop(g->t->loop, &g->leave);
	rdt_channel_close(&g->channel);
	rdt_store_put_free(&g->put);
	json_decref(g->ready);
	json_decref(g->result);
	free(g);
	*out = NULL;
}
