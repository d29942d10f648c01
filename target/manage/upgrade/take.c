/* SPDX-License-Identifier: BSD-3-Clause */
#include "take.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/loop.h"
#include "ns_hand.h"
#include "ns_record.h"
#include "store.h"
#include "stored.h"
#include "target/bdev/inherit.h"
#include "target/config/config.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/move.h"
#include "target/nvmf/move_bytes.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"

#define ASK_WAIT   10 /* s */
#define ANSWER_MAX (64u << 10)
/* Hosts are served meanwhile, but nobody sees the target. */
#define COUNTERS_WAIT (5 * RD_NSEC_PER_SEC)
#define NSEC_PER_MS   1000000u
/* The other process leaves its connections to storage at once, unless it stands still. */
#define LEAVE_WAIT (5 * RD_NSEC_PER_SEC)

static int take_refused(struct rdt_take *take, int err, const char *why)
{
	rdt_channel_send(&take->channel, "refused", json_pack("{s:s}", "why", why), NULL, NULL);
	rd_err(take->log, RD_LOG_MAIN, "not taking over: %s", why);
	return err;
}

/* ---- asking ---- */

static int reach_control(const char *path, char *why, size_t size)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = ASK_WAIT};
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		snprintf(why, size, "the path %.60s... of the control socket is too long", path);
		return -ENAMETOOLONG;
	}
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	snprintf(why, size, "cannot reach a target by its control socket %s: %s", path,
		 strerror(errno));
	if (fd >= 0)
		close(fd);
	return -errno;
}

/* Reads a line, behind an empty one whose descriptor goes into @bag. */
static int read_take_answer(int fd, struct rd_fd_bag *bag, char *text, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = 0;

	while (len < 2 || (len < size - 1 && !memchr(text + 1, '\n', len - 1))) {
		long n = -EAGAIN;

		if (poll(&p, 1, ASK_WAIT * 1000) > 0)
			n = rd_fd_bag_receive(bag, fd, text + len, size - 1 - len);
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		len += (size_t)n;
	}
	text[len] = '\0';
	return 0;
}

static int answer_says(const char *text, char *why, size_t size)
{
	json_t *answer = json_loads(text, 0, NULL);
	const json_t *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	int err = json_object_get(answer, "result") ? 0 : -EPERM;

	if (err)
		snprintf(why, size, "the running target refuses: %s",
			 message ? message : "its answer is no JSON-RPC");
	json_decref(answer);
	return err;
}

/* Returns the channel, or -errno with a sentence in @why. */
static int ask_for_channel(const struct rdt_take *take, const char *socket, char *why, size_t size)
{
	rd_autoclose int fd = reach_control(socket, why, size);
	rd_autofree char *text = malloc(ANSWER_MAX);
	struct rd_fd_bag bag;
	int len, err;

	if (fd < 0)
		return fd;
	if (!text)
		return -ENOMEM;
	/* An older version refuses a parameter that it does not know. */
	len = snprintf(text, ANSWER_MAX,
		       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"upgrade.take\",\"params\":"
		       "{\"format\":%d,\"version\":\"" RDT_VERSION "\",\"check\":%s%s}}\n",
		       RDT_UPGRADE_FORMAT, take->check ? "true" : "false",
		       take->force ? ",\"force\":true" : "");
	rd_fd_bag_init(&bag, 1);
	err = send(fd, text, (size_t)len, MSG_NOSIGNAL) == len
		      ? read_take_answer(fd, &bag, text, ANSWER_MAX)
		      : -EPIPE;
	if (err)
		snprintf(why, size, "the running target does not answer at %s: %s", socket,
			 strerror(-err));
	else
		err = answer_says(text, why, size);
	if (!err) {
		err = rd_fd_bag_take(&bag, 0);
		if (err < 0)
			snprintf(why, size, "the running target gave no channel");
	}
	rd_fd_bag_clear(&bag);
	return err;
}

/* ---- what is open ---- */

static int inherit_one(struct rdt_take *take, const char *name, const json_t *at)
{
	int fd = rd_fd_bag_take(&take->channel.bag,
				json_is_integer(at) ? json_integer_value(at) : -1);

	return fd < 0 ? fd : rdt_inherit_add(take->inherit, name, fd);
}

static int inherit_process(struct rdt_take *take, const json_t *record)
{
	const char *socket = json_string_value(json_object_get(record, "control_socket"));
	const json_t *at;
	const char *name;
	int err = 0;

	take->pid = (int)json_integer_value(json_object_get(record, "pid"));
	take->files_max = (unsigned long)json_integer_value(json_object_get(record, "files_max"));
	if (socket && !take->control_socket)
		take->control_socket = strdup(socket);
	json_object_foreach(json_object_get(record, "open"), name, at) err =
		err ? err : inherit_one(take, name, at);
	return err;
}

static int inherit_listener(struct rdt_take *take, const json_t *record)
{
	const char *transport = json_string_value(json_object_get(record, "transport"));
	const char *address = json_string_value(json_object_get(record, "address"));
	json_int_t port = json_integer_value(json_object_get(record, "port"));
	rd_autofree char *name = NULL;

	if (!transport || !address || port < 0 || port > UINT16_MAX)
		return -EPROTO;
	if (rdt_inherit_listener(transport, address, (uint16_t)port, &name))
		return -ENOMEM;
	return inherit_one(take, name, json_object_get(record, "fd"));
}

static int inherit_open(struct rdt_take *take, const struct rdt_config *cfg, char *why, size_t size)
{
	const json_t *record;
	int err = rdt_records_check(take->open, why, size);
	size_t i;

	if (err)
		return err;
	json_array_foreach(take->open, i, record)
	{
		const char *kind = json_string_value(json_object_get(record, "kind"));

		if (strcmp(kind, "process") == 0)
			err = inherit_process(take, record);
		else if (strcmp(kind, "listener") == 0)
			err = inherit_listener(take, record);
		if (err) {
			snprintf(why, size, "the record of a %s: %s", kind, strerror(-err));
			return err;
		}
	}
	return rdt_ns_records_inherit(take->open, cfg, &take->channel.bag, take->inherit, why,
				      size);
}

int rdt_take_begin(struct rdt_take *take, const char *socket, const struct rdt_config *cfg)
{
	char why[RDT_CHANNEL_WHY] = "out of memory";
	int fd = ask_for_channel(take, socket, why, sizeof(why)), err;
	json_t *msg = NULL;

	if (fd < 0) {
		rd_err(take->log, RD_LOG_MAIN, "not taking over: %s", why);
		return fd;
	}
	rdt_channel_init(&take->channel, fd);
	take->state = RDT_TAKE_OPENING;
	err = rdt_inherit_new(&take->inherit);
	if (!err)
		err = rdt_channel_wait(&take->channel, ASK_WAIT * 1000, &msg, &take->open, why,
				       sizeof(why));
	if (!err && !take->open) {
		err = -EPROTO;
		snprintf(why, sizeof(why), "the running target says nothing of what is open");
	}
	if (!err)
		err = inherit_open(take, cfg, why, sizeof(why));
	json_decref(msg);
	rd_fd_bag_clear(&take->channel.bag);
	return err ? take_refused(take, err, why) : 0;
}

int rdt_take_begin_stored(struct rdt_take *take, struct rdt_stored *stored,
			  const struct rdt_config *cfg, char *why, size_t size)
{
	struct rdt_stored_part open, move;
	int err = rdt_stored_read(stored, &open, &move, why, size);

	take->stored = stored;
	take->state = RDT_TAKE_OPENING;
	take->channel.bag = open.bag;
	take->open = open.records;
	take->bag = move.bag;
	take->records = move.records;
	if (!err) {
		err = rdt_inherit_new(&take->inherit);
		snprintf(why, size, "out of memory");
	}
	if (!err)
		err = inherit_open(take, cfg, why, size);
	rd_fd_bag_clear(&take->channel.bag);
	if (err)
		rdt_take_free(take);
	return err;
}

/* ---- connections ---- */

/* Since when connections rest. Now, when the other process does not say that, or what cannot be. */
static void take_rest(struct rdt_take *take, const json_t *records)
{
	uint64_t now = rd_loop_now_raw(take->target->loop);
	const json_t *record;
	size_t i;

	take->held_at = now;
	json_array_foreach(records, i, record)
	{
		json_int_t at = json_integer_value(json_object_get(record, "held_at"));

		if (rdt_move_is(record, "process") && at > 0 && (uint64_t)at < now)
			take->held_at = (uint64_t)at;
	}
}

static void store_emptied_late(void *arg, int err, const char *why)
{
	struct rdt_take *take = arg;

	if (err)
		rd_warn(take->log, RD_LOG_MAIN, "the service manager's store is not emptied: %s",
			why);
}

/* There is no other process, and storage is open already: this one continues without the rest. */
static void leave_stored(struct rdt_take *take, const char *why)
{
	struct rdt_target *t = take->target;

	rdt_stored_refuse(take->stored, true);
	rdt_stored_empty(take->stored, take->notify, t->loop, store_emptied_late, take);
	rdt_move_forget(t);
	rdt_listeners_hold(t, false);
	rd_fd_bag_clear(&take->bag);
	take->state = RDT_TAKE_DONE;
	take->fails(take, why);
	/* What was opened before this is used; nobody else has a connection to it. */
	rdt_inherit_told_all(take->inherit);
	rdt_ns_left_forget(t, take->inherit);
	rdt_ns_hand(t, RDT_HAND_TAKE);
	rdt_inherit_free(&take->inherit);
	rdt_ns_records_name_user(t, true);
	rdt_ns_left_serve(t, false);
}

static void take_fails(struct rdt_take *take, const char *why)
{
	if (take->stored) {
		leave_stored(take, why);
		return;
	}
	take_refused(take, 0, why);
	take->fails(take, why);
}

static void tell_rest(const struct rdt_take *take, const char *what)
{
	rd_debug(take->log, RD_LOG_MAIN, "%s after %.3f ms", what,
		 (double)(rd_loop_now_raw(take->target->loop) - take->held_at) / NSEC_PER_MS);
}

static void take_commit(struct rdt_take *take, const json_t *msg);

static void store_emptied(void *arg, int err, const char *why)
{
	struct rdt_take *take = arg;

	if (err) {
		take_fails(take, why);
		return;
	}
	rdt_stored_used(take->stored);
	take_commit(take, NULL);
}

static void connections_in(void *arg, int err, const char *why)
{
	struct rdt_take *take = arg;

	if (take->state != RDT_TAKE_TAKING)
		return;
	tell_rest(take, "connections are built");
	if (err) {
		take_fails(take, why && why[0] ? why : strerror(-err));
		return;
	}
	take->state = RDT_TAKE_TOOK;
	if (!take->stored) {
		if (rdt_channel_send(&take->channel, "took", json_object(), NULL, NULL))
			take_fails(take, "the other process does not listen");
		return;
	}
	err = rdt_stored_empty(take->stored, take->notify, take->target->loop, store_emptied, take);
	if (err)
		take_fails(take, rdt_store_says(err));
}

static void take_records(struct rdt_take *take, const json_t *records, struct rd_fd_bag *bag)
{
	char why[RDT_CHANNEL_WHY] = "out of memory";
	int err = rdt_records_check(records, why, sizeof(why));

	take->state = RDT_TAKE_TAKING;
	take->records = json_incref((json_t *)records);
	take->bag = *bag;
	*bag = (struct rd_fd_bag){.max = bag->max};
	if (!err) {
		take_rest(take, records);
		tell_rest(take, "records of connections have come");
		err = rdt_ns_records_take(take->target, records, why, sizeof(why));
	}
	if (!err) {
		err = rdt_move_in(take->target, records, &take->bag, connections_in, take);
		snprintf(why, sizeof(why), "%s", strerror(-err));
	}
	if (err)
		take_fails(take, why);
}

/* ---- after the commit ---- */

/* The other process has left storage that is reached by connections. */
static void take_storage(struct rdt_take *take)
{
	if (!rd_timer_armed(&take->leaves))
		return;
	rd_timer_stop(take->target->loop, &take->leaves);
	rdt_ns_hand(take->target, RDT_HAND_TAKE);
}

static void leaves_late(struct rd_timer *timer)
{
	struct rdt_take *take = rd_container_of(timer, struct rdt_take, leaves);

	rdt_ns_hand(take->target, RDT_HAND_TAKE);
}

static void await_storage(struct rdt_take *take)
{
	rdt_inherit_told_all(take->inherit);
	rdt_ns_left_forget(take->target, take->inherit);
	take->leaves.fn = leaves_late;
	if (rd_timer_start(take->target->loop, &take->leaves, LEAVE_WAIT))
		leaves_late(&take->leaves);
}

static void take_ends(struct rdt_take *take)
{
	take->state = RDT_TAKE_DONE;
	take_storage(take);
	take->alone(take);
	rdt_inherit_free(&take->inherit);
	rdt_ns_records_name_user(take->target, true);
	rdt_ns_left_serve(take->target, take->sure);
}

static void take_shows(struct rdt_take *take)
{
	rd_timer_stop(take->target->loop, &take->late);
	take->state = RDT_TAKE_SHOWN;
	take->show(take);
	if (take->channel.fd < 0)
		take_ends(take);
}

static void counters_taken(struct rdt_move_counters *mc)
{
	struct rdt_take *take = rd_container_of(mc, struct rdt_take, counters);

	if (mc->bad)
		rd_warn(take->log, RD_LOG_MAIN,
			"%u records of counters have one that cannot be, and count from 0",
			mc->bad);
	rdt_move_counters_free(mc);
	take_shows(take);
}

static void take_without_counters(struct rdt_take *take, const char *why)
{
	rd_warn(take->log, RD_LOG_MAIN, "counting from 0, because no counters have come: %s", why);
	take_shows(take);
}

static void counters_are_late(struct rd_timer *timer)
{
	take_without_counters(rd_container_of(timer, struct rdt_take, late),
			      "the other process has not sent them in 5 s");
}

static void await_counters(struct rdt_take *take)
{
	take->late.fn = counters_are_late;
	if (rd_timer_start(take->target->loop, &take->late, COUNTERS_WAIT))
		take_without_counters(take, "there is no memory for a timer");
}

static void take_counters_in(struct rdt_take *take, const json_t *records)
{
	char why[RDT_CHANNEL_WHY] = "the other process could not write them";

	if (!records || rdt_records_check(records, why, sizeof(why))) {
		take_without_counters(take, why);
		return;
	}
	rd_timer_stop(take->target->loop, &take->late);
	take->state = RDT_TAKE_COUNTING;
	json_decref(take->records);
	take->records = json_incref((json_t *)(uintptr_t)records);
	take->counters.done = counters_taken;
	rdt_move_counters_late(take->target, &take->counters, records);
}

static void take_commit(struct rdt_take *take, const json_t *msg)
{
	struct rdt_move_count count = rdt_move_in_counted(take->target);

	take->state = RDT_TAKE_SERVING;
	take->ctrls = count.ctrls;
	take->queues = count.queues;
	take->left = count.left;
	rdt_ns_hand(take->target, RDT_HAND_BEGIN);
	rdt_move_start(take->target);
	rdt_listeners_hold(take->target, false);
	await_storage(take);
	take->pause_ns = rd_loop_now_raw(take->target->loop) - take->held_at;
	take->target->taken_over = true;
	take->target->upgrade_pause_ns = take->pause_ns;
	rd_notice(take->log, RD_LOG_MAIN,
		  "took over from process %d%s: %u connections of %u controllers rested for "
		  "%llu.%03llu "
		  "ms",
		  take->pid, take->stored ? " by the service manager's store" : "", take->queues,
		  take->ctrls, (unsigned long long)(take->pause_ns / NSEC_PER_MS),
		  (unsigned long long)(take->pause_ns / 1000 % 1000));
	rdt_announce(take->target, "upgrade", "{s:i, s:i, s:i, s:f}", "from_pid", take->pid,
		     "connections", (int)take->queues, "controllers", (int)take->ctrls, "pause",
		     (double)take->pause_ns / 1e9);
	rdt_ns_records_tell(take->target, take->open);
	rd_fd_bag_clear(&take->bag);
	if (json_is_true(json_object_get(msg, "counters")))
		await_counters(take);
	else
		take_shows(take);
}

/* Nothing of the other process is in flight any more. */
static void take_ended(struct rdt_take *take, const json_t *records)
{
	char why[RDT_CHANNEL_WHY] = "";
	int err = rdt_records_check(records, why, sizeof(why));

	if (!err)
		err = rdt_ns_records_end(take->target, records, why, sizeof(why));
	if (err)
		rd_err(take->log, RD_LOG_MAIN,
		       "what process %d says at its end is not taken over: %s", take->pid, why);
	take->sure = true;
	rdt_ns_left_serve(take->target, true);
}

static void take_said(struct rdt_channel *ch, const char *op, const json_t *msg,
		      const json_t *records, struct rd_fd_bag *bag)
{
	struct rdt_take *take = rd_container_of(ch, struct rdt_take, channel);

	if (strcmp(op, "move") == 0 && take->state == RDT_TAKE_READY && records)
		take_records(take, records, bag);
	else if (strcmp(op, "commit") == 0 && take->state == RDT_TAKE_TOOK)
		take_commit(take, msg);
	else if (strcmp(op, "counters") == 0 && take->state == RDT_TAKE_SERVING)
		take_counters_in(take, records);
	else if (strcmp(op, "left") == 0 && take->state >= RDT_TAKE_SERVING)
		take_storage(take);
	else if (strcmp(op, "ended") == 0 && take->state >= RDT_TAKE_SERVING && records)
		take_ended(take, records);
	else if (strcmp(op, "checked") == 0 && take->state == RDT_TAKE_READY)
		take->checked(take);
	else if (take->state < RDT_TAKE_SERVING)
		take_fails(take, "the other process says what it must not");
}

static void take_broken(struct rdt_channel *ch, const char *why)
{
	struct rdt_take *take = rd_container_of(ch, struct rdt_take, channel);

	if (take->state < RDT_TAKE_SERVING) {
		rd_err(take->log, RD_LOG_MAIN, "not taking over: %s", why);
		take->fails(take, why);
		return;
	}
	if (take->state == RDT_TAKE_SERVING)
		take_without_counters(take, why);
	else if (take->state == RDT_TAKE_SHOWN)
		take_ends(take);
}

static void take_from_store(struct rd_msg *msg)
{
	struct rdt_take *take = rd_container_of(msg, struct rdt_take, msg);
	char why[RDT_CHANNEL_WHY] = "out of memory";
	json_t *records = take->records;
	struct rd_fd_bag bag = take->bag;

	take->records = NULL;
	take->bag = (struct rd_fd_bag){0};
	if (rdt_ns_records_check(take->target, take->open, why, sizeof(why)))
		take_fails(take, why);
	else
		take_records(take, records, &bag);
	json_decref(records);
	rd_fd_bag_clear(&bag);
}

/* Listeners that have no socket, of RDMA devices, listen when the other process has ended. */
int rdt_take_ready(struct rdt_take *take, struct rdt_target *t)
{
	char why[RDT_CHANNEL_WHY] = "out of memory";
	int err;

	take->target = t;
	if (take->stored) {
		take->state = RDT_TAKE_READY;
		take->msg.fn = take_from_store;
		rd_loop_post(t->loop, &take->msg);
		return 0;
	}
	take->channel.said = take_said;
	take->channel.broken = take_broken;
	err = rdt_ns_records_check(t, take->open, why, sizeof(why));
	if (!err)
		err = rdt_channel_watch(&take->channel, t->loop);
	if (err)
		return take_refused(take, err, why);
	take->state = RDT_TAKE_READY;
	return rdt_channel_send(&take->channel, "ready",
				json_pack("{s:s, s:i, s:b}", "version", RDT_VERSION, "pid",
					  (int)getpid(), "counters_later", true),
				NULL, NULL);
}

void rdt_take_serves(struct rdt_take *take)
{
	rdt_channel_send(&take->channel, "serves",
			 json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:o*}", "version", RDT_VERSION,
				   "pid", (int)getpid(), "connections", (int)take->queues,
				   "controllers", (int)take->ctrls, "left", (int)take->left,
				   "pause", (double)take->pause_ns / 1e9, "unfinished",
				   rdt_ns_left_list(take->target, false)),
			 NULL, NULL);
}

void rdt_take_free(struct rdt_take *take)
{
	if (take->state == RDT_TAKE_NONE)
		return;
	if (take->target) {
		rd_timer_stop(take->target->loop, &take->late);
		rd_timer_stop(take->target->loop, &take->leaves);
	}
	rdt_channel_close(&take->channel);
	rdt_inherit_free(&take->inherit);
	rd_fd_bag_clear(&take->bag);
	rdt_move_counters_free(&take->counters);
	json_decref(take->open);
	json_decref(take->records);
	free(take->control_socket);
	take->open = take->records = NULL;
	take->control_socket = NULL;
	take->stored = NULL;
	take->state = RDT_TAKE_NONE;
}
