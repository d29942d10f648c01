/* SPDX-License-Identifier: BSD-3-Clause */
/* The server of the control socket: access control, input lines, output lines. Nothing is read
 * from a client that does not read its answers; after a timeout it is closed. */
#include "rpc_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/fd_bag.h"
#include "target/nvmf/target.h"

#define READ_AT_ONCE   (64u << 10)
#define SEND_AT_ONCE   (1u << 20)
#define ACCEPT_AT_ONCE 16
/* maximum of buffered bytes for a client that does not read its events */
#define EVENTS_OUT  (256u << 10)
#define STUCK_AFTER (30 * RD_NSEC_PER_SEC) /* time without progress of the output */
#define CHECK_EVERY (5 * RD_NSEC_PER_SEC)
/* A client without a request for so long may be closed for a new one. */
#define IDLE_AFTER (60 * RD_NSEC_PER_SEC)

struct rdt_rpc_client {
	struct rd_io io;
	struct rd_defer next; /* processes the next line, or closes */
	TAILQ_ENTRY(rdt_rpc_client) link;
	struct rdt_rpc *rpc;
	uid_t uid;
	pid_t pid;
	bool may_change;
	bool eof;     /* the client has shut down sending */
	bool closing; /* closes when the output has been sent */
	bool broken;
	struct rdt_rpc_call *call; /* the call in progress */
	char *in;
	size_t in_pos;  /* start of the next line */
	size_t in_seen; /* no newline before this position */
	size_t in_len;
	size_t in_room;
	char *out;
	size_t out_len;
	size_t out_pos;
	uint64_t progress_at; /* ns; last progress of the output */
	uint64_t asked_at;    /* ns; last input, or when it connected */
	int watch;            /* RDT_RPC_WATCH_...; 0: no events */
	uint64_t events_lost; /* number of lost events not reported to the client */
};

bool rdt_rpc_client_may_change(const struct rdt_rpc_client *c)
{
	return c->may_change;
}

uid_t rdt_rpc_client_uid(const struct rdt_rpc_client *c)
{
	return c->uid;
}

pid_t rdt_rpc_client_pid(const struct rdt_rpc_client *c)
{
	return c->pid;
}

bool rdt_rpc_client_owns(const struct rdt_rpc_client *c)
{
	return c->uid == 0 || c->uid == geteuid();
}

int rdt_rpc_client_give(struct rdt_rpc_client *c, int fd)
{
	struct rd_fd_bag bag;
	int err;

	if (c->out_len) /* events, possibly sent in part */
		return -EBUSY;
	rd_fd_bag_init(&bag, 1);
	err = rd_fd_bag_add_dup(&bag, fd);
	if (err >= 0)
		err = rd_fd_bag_send(&bag, c->io.fd, "\n", 1);
	rd_fd_bag_clear(&bag);
	return err < 0 ? err : 0;
}

static void client_interest(struct rdt_rpc_client *c)
{
	bool read = !c->call && !c->out_len && !c->eof && !c->closing;

	rd_io_mod(c->rpc->loop, &c->io, (read ? EPOLLIN : 0u) | (c->out_len ? EPOLLOUT : 0u));
}

static void close_rpc_client(struct rdt_rpc_client *c)
{
	struct rdt_rpc *rpc = c->rpc;

	if (c->call)
		c->call->client = NULL;
	if (c->watch)
		rdt_rpc_events_unwatch(rpc, c->watch);
	rd_defer_cancel(rpc->loop, &c->next);
	rd_io_del(rpc->loop, &c->io);
	close(c->io.fd);
	TAILQ_REMOVE(&rpc->clients, c, link);
	rpc->clients_count--;
	free(c->in);
	free(c->out);
	free(c);
}

/* Closes the client; deferred, because the caller may still use it. */
static void client_broken(struct rdt_rpc_client *c)
{
	c->broken = true;
	rd_defer(c->rpc->loop, &c->next, RD_DEFER_NEXT);
}

void rdt_rpc_client_busy(struct rdt_rpc_client *c, struct rdt_rpc_call *call)
{
	c->call = call;
	if (!call)
		rd_defer(c->rpc->loop, &c->next, RD_DEFER_NEXT);
	client_interest(c);
}

/* The timer runs only while a client has output: an idle target sleeps. */
static void start_client_check(struct rdt_rpc *rpc)
{
	if (!rd_timer_armed(&rpc->timer) && rd_timer_start(rpc->loop, &rpc->timer, CHECK_EVERY))
		rd_warn(rpc->log, RD_LOG_MAIN, "control: out of memory for a timer");
}

/* ---- out ---- */

static void client_flush(struct rdt_rpc_client *c)
{
	size_t end = c->out_pos + SEND_AT_ONCE;

	/* Bounded, so that a client that reads as fast as this sends does not occupy the loop. */
	while (c->out_pos < c->out_len && c->out_pos < end) {
		ssize_t n = send(c->io.fd, c->out + c->out_pos, c->out_len - c->out_pos,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0) {
			client_broken(c);
			return;
		}
		c->out_pos += (size_t)n;
		c->progress_at = rd_loop_now(c->rpc->loop);
	}
	if (c->out_pos == c->out_len) {
		free(c->out);
		c->out = NULL;
		c->out_len = c->out_pos = 0;
		rd_defer(c->rpc->loop, &c->next, RD_DEFER_NEXT);
	} else {
		start_client_check(c->rpc);
	}
	client_interest(c);
}

void rdt_rpc_send(struct rdt_rpc_client *c, const char *text, size_t len)
{
	char *out = realloc(c->out, c->out_len + len + 1);

	if (!out) {
		client_broken(c);
		return;
	}
	memcpy(out + c->out_len, text, len);
	out[c->out_len + len] = '\n';
	c->out = out;
	if (!c->out_len)
		c->progress_at = rd_loop_now(c->rpc->loop);
	c->out_len += len + 1;
	client_flush(c);
}

void rdt_rpc_send_whole(struct rdt_rpc_client *c, char *text, size_t len)
{
	if (c->out_len) { /* queued events must go out first */
		rdt_rpc_send(c, text, len);
		free(text);
		return;
	}
	free(c->out);
	text[len] = '\n';
	c->out = text;
	c->out_len = len + 1;
	c->progress_at = rd_loop_now(c->rpc->loop);
	client_flush(c);
}

/* ---- events ---- */

int rdt_rpc_client_watch(struct rdt_rpc_client *c, int watch)
{
	int before = c->watch;

	c->watch = watch;
	return before;
}

static void tell_lost(struct rdt_rpc_client *c)
{
	char text[128];
	int len = snprintf(text, sizeof(text),
			   "{\"jsonrpc\":\"2.0\",\"method\":\"lost\",\"params\":{\"count\":%llu}}",
			   (unsigned long long)c->events_lost);

	c->events_lost = 0;
	rdt_rpc_send(c, text, (size_t)len);
}

void rdt_rpc_event(struct rdt_rpc *rpc, int watch, const char *text, size_t len)
{
	struct rdt_rpc_client *c;

	TAILQ_FOREACH (c, &rpc->clients, link) {
		if (c->watch < watch || c->broken)
			continue;
		if (c->out_len - c->out_pos > EVENTS_OUT) {
			c->events_lost++;
			continue;
		}
		if (c->events_lost)
			tell_lost(c);
		rdt_rpc_send(c, text, len);
	}
}

void rdt_rpc_events_lost(struct rdt_rpc *rpc, uint64_t count)
{
	struct rdt_rpc_client *c;

	TAILQ_FOREACH (c, &rpc->clients, link)
		if (c->watch)
			c->events_lost += count;
}

/* ---- in ---- */

/* Returns the end of the first line in the input, or NULL while it is incomplete. Each byte is
 * examined once, however many pieces the line arrives in. */
static char *line_end(struct rdt_rpc_client *c)
{
	size_t from = c->in_seen > c->in_pos ? c->in_seen : c->in_pos;
	char *end = c->in ? memchr(c->in + from, '\n', c->in_len - from) : NULL;

	c->in_seen = end ? (size_t)(end - c->in) : c->in_len;
	return end;
}

static int client_room(struct rdt_rpc_client *c)
{
	size_t room = c->in_room ? 2 * c->in_room : READ_AT_ONCE;
	char *in;

	if (c->in_len < c->in_room)
		return 0;
	if (c->in_pos) {
		c->in_len -= c->in_pos;
		memmove(c->in, c->in + c->in_pos, c->in_len);
		c->in_seen -= c->in_seen > c->in_pos ? c->in_pos : c->in_seen;
		c->in_pos = 0;
		return 0;
	}
	in = realloc(c->in, room);
	if (!in)
		return -ENOMEM;
	c->in = in;
	c->in_room = room;
	return 0;
}

/* Processes one line, so that a client with many requests does not occupy the loop. */
static void client_next(struct rd_defer *defer)
{
	struct rdt_rpc_client *c = rd_container_of(defer, struct rdt_rpc_client, next);
	char *end;
	size_t len;

	if (c->broken ||
	    ((c->closing || (c->eof && !c->in_len && !c->watch)) && !c->call && !c->out_len)) {
		close_rpc_client(c);
		return;
	}
	if (c->call || c->out_len || !c->in_len)
		return;
	end = line_end(c);
	len = end ? (size_t)(end - c->in) - c->in_pos : c->in_len - c->in_pos;
	if (!end && len > RDT_RPC_LINE_MAX) {
		c->closing = true;
		rdt_rpc_reject(c, RDT_RPC_REQUEST, "a request is longer than 1 MiB");
		return;
	}
	if (!end && !c->eof)
		return;
	rdt_rpc_line(c->rpc, c, c->in + c->in_pos, len);
	c->in_pos += len + (end != NULL);
	if (c->in_pos == c->in_len) {
		free(c->in);
		c->in = NULL;
		c->in_pos = c->in_seen = c->in_len = c->in_room = 0;
	}
	rd_defer(c->rpc->loop, &c->next, RD_DEFER_NEXT);
}

static void client_read(struct rdt_rpc_client *c)
{
	ssize_t n;

	/* Only an incomplete line gets a larger buffer. */
	if (c->in_len == c->in_room && line_end(c))
		return;
	if (client_room(c)) {
		client_broken(c);
		return;
	}
	n = recv(c->io.fd, c->in + c->in_len, c->in_room - c->in_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	if (n < 0) {
		client_broken(c);
		return;
	}
	c->eof = n == 0;
	c->in_len += (size_t)n;
	c->asked_at = rd_loop_now(c->rpc->loop);
	TAILQ_REMOVE(&c->rpc->clients, c, link);
	TAILQ_INSERT_TAIL(&c->rpc->clients, c, link);
	rd_defer(c->rpc->loop, &c->next, RD_DEFER_NEXT);
	client_interest(c);
}

static void client_ready(struct rd_io *io, uint32_t events)
{
	struct rdt_rpc_client *c = rd_container_of(io, struct rdt_rpc_client, io);

	if (events & EPOLLOUT)
		client_flush(c);
	if (events & EPOLLIN)
		client_read(c);
	else if (events & (EPOLLHUP | EPOLLERR)) /* the client has disconnected */
		close_rpc_client(c);
}

/* ---- new clients ---- */

/* Whether @c may be closed for @come. A read-only client must not displace an administrator, nor
 * anyone root; an idle client must not keep others out. */
static bool gives_way(const struct rdt_rpc_client *c, const struct rdt_rpc_client *come)
{
	bool idle = !c->call && !c->out_len && !c->watch;

	return (come->may_change && !c->may_change) ||
	       (rdt_rpc_client_owns(come) && !rdt_rpc_client_owns(c)) ||
	       (idle && rd_loop_now(c->rpc->loop) - c->asked_at >= IDLE_AFTER);
}

/* The first client in the list has been idle for the longest time. */
static bool make_room_for(struct rdt_rpc *rpc, const struct rdt_rpc_client *come)
{
	struct rdt_rpc_client *c;

	if (rpc->clients_count < RDT_RPC_CLIENTS)
		return true;
	TAILQ_FOREACH (c, &rpc->clients, link) {
		if (gives_way(c, come)) {
			close_rpc_client(c);
			return true;
		}
	}
	return false;
}

static void client_new(struct rdt_rpc *rpc, int fd)
{
	struct rdt_rpc_client *c = calloc(1, sizeof(*c));

	if (!c || rdt_rpc_peer(fd, rpc->sock.admin_gid, &c->uid, &c->pid, &c->may_change))
		goto err_close;
	if (!make_room_for(rpc, c)) {
		static const char full[] =
			"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32003,\"message\":"
			"\"the control socket has as many clients as it takes\",\"data\":{\"name\":"
			"\"no_resources\"}}}\n";

		(void)send(fd, full, sizeof(full) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		goto err_close;
	}
	c->rpc = rpc;
	c->asked_at = rd_loop_now(rpc->loop);
	c->next.fn = client_next;
	if (rd_io_add(rpc->loop, &c->io, fd, EPOLLIN, client_ready))
		goto err_close;
	TAILQ_INSERT_TAIL(&rpc->clients, c, link);
	rpc->clients_count++;
	return;

err_close:
	close(fd);
	free(c);
}

static void accept_clients(struct rd_io *io, uint32_t events)
{
	struct rdt_rpc *rpc = rd_container_of(io, struct rdt_rpc, listen);
	int fd = 0;

	for (int i = 0; i < ACCEPT_AT_ONCE && fd >= 0; i++) {
		fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			client_new(rpc, fd);
	}
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		rd_warn(rpc->log, RD_LOG_MAIN,
			"control: cannot accept a client: %s; trying again in 5 s",
			strerror(errno));
		/* do not poll until then, or the loop would spin */
		rd_io_mod(rpc->loop, io, 0);
		start_client_check(rpc);
	}
}

static void check_clients(struct rd_timer *timer)
{
	struct rdt_rpc *rpc = rd_container_of(timer, struct rdt_rpc, timer);
	uint64_t now = rd_loop_now(rpc->loop);
	struct rdt_rpc_client *c, *next;

	for (c = TAILQ_FIRST(&rpc->clients); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (!c->out_len)
			continue;
		if (now - c->progress_at < STUCK_AFTER) {
			start_client_check(rpc);
			continue;
		}
		rd_notice(rpc->log, RD_LOG_MAIN,
			  "control: closing the connection of pid %d: it does not read its answers",
			  (int)c->pid);
		close_rpc_client(c);
	}
	if (rpc->phase == RDT_RPC_LISTENING)
		rd_io_mod(rpc->loop, &rpc->listen, EPOLLIN);
}

/* ---- the server ---- */

/* Handles the result of an attempt to listen. */
static int take_listening(struct rdt_rpc *rpc, int err, const char *why)
{
	if (!err) {
		err = rd_io_add(rpc->loop, &rpc->listen, rpc->sock.fd, EPOLLIN, accept_clients);
		if (err)
			rdt_rpc_unlisten(rpc->env->cfg, &rpc->sock);
		why = "control: out of memory";
	}
	if (!err) {
		rpc->phase = RDT_RPC_LISTENING;
		rd_notice(rpc->log, RD_LOG_MAIN, "control socket %s", rpc->env->cfg->socket);
		return 0;
	}
	if (strcmp(why, rpc->why_failed) != 0)
		rd_err(rpc->log, RD_LOG_MAIN, "%s; trying again every second", why);
	snprintf(rpc->why_failed, sizeof(rpc->why_failed), "%s", why);
	rpc->phase = RDT_RPC_FAILED;
	if (rd_timer_start(rpc->loop, &rpc->retry, RD_NSEC_PER_SEC))
		rd_err(rpc->log, RD_LOG_MAIN, "control: out of memory for a timer");
	return err;
}

static void attempt_to_listen(struct rdt_job *job)
{
	struct rdt_rpc *rpc = rd_container_of(job, struct rdt_rpc, attempt);

	rpc->attempt_err = rdt_rpc_listen(rpc->env->cfg, rpc->env->inherit, &rpc->sock,
					  rpc->attempt_why, sizeof(rpc->attempt_why));
}

static void listen_attempted(struct rdt_job *job)
{
	struct rdt_rpc *rpc = rd_container_of(job, struct rdt_rpc, attempt);

	if (rpc->phase == RDT_RPC_TRYING)
		take_listening(rpc, rpc->attempt_err, rpc->attempt_why);
	else if (!rpc->attempt_err) /* the server was closed meanwhile */
		rdt_rpc_unlisten(rpc->env->cfg, &rpc->sock);
}

/* A job, because group names may come from a service that hangs. */
static void rpc_retry(struct rd_timer *timer)
{
	struct rdt_rpc *rpc = rd_container_of(timer, struct rdt_rpc, retry);

	rpc->phase = RDT_RPC_TRYING;
	rpc->attempt_err = -ECANCELED; /* the result if the job is dropped */
	rdt_jobs_add(rpc->target->jobs, &rpc->attempt);
}

static const char *rpc_failed(const struct rdt_mgmt_if *mgmt)
{
	const struct rdt_rpc *rpc = rd_container_of(mgmt, struct rdt_rpc, mgmt);
	bool failed = rpc->phase == RDT_RPC_FAILED || rpc->phase == RDT_RPC_TRYING;

	return failed ? rpc->why_failed : NULL;
}

int rdt_rpc_open(struct rdt_rpc_env *env, struct rdt_rpc **out)
{
	struct rdt_rpc *rpc;

	*out = NULL;
	if (!env->cfg->socket)
		return 0;
	rpc = calloc(1, sizeof(*rpc));
	if (!rpc)
		return -ENOMEM;
	rpc->env = env;
	rpc->target = env->target;
	rpc->loop = env->target->loop;
	rpc->log = env->target->log;
	rpc->mgmt.failed = rpc_failed;
	env->target->rpc = &rpc->mgmt;
	rpc->timer.fn = check_clients;
	rpc->retry.fn = rpc_retry;
	rpc->attempt = (struct rdt_job){
		.what = "control.socket", .work = attempt_to_listen, .done = listen_attempted};
	TAILQ_INIT(&rpc->clients);
	TAILQ_INIT(&rpc->calls);
	TAILQ_INIT(&rpc->asks);
	attempt_to_listen(&rpc->attempt);
	/* Later attempts run on a thread, while the other process may end: do not use @inherit. */
	env->inherit = NULL;
	*out = rpc;
	return take_listening(rpc, rpc->attempt_err, rpc->attempt_why);
}

void rdt_rpc_share(const struct rdt_rpc *rpc, int *fd, int *lock)
{
	bool listens = rpc && rpc->phase == RDT_RPC_LISTENING;

	*fd = listens ? rpc->sock.fd : -1;
	*lock = listens ? rpc->sock.lock_fd : -1;
}

void rdt_rpc_handed_over(struct rdt_rpc *rpc)
{
	if (!rpc)
		return;
	rd_timer_stop(rpc->loop, &rpc->retry);
	if (rpc->phase == RDT_RPC_LISTENING) {
		rd_io_del(rpc->loop, &rpc->listen);
		close(rpc->sock.fd);
		close(rpc->sock.lock_fd);
	}
	if (rpc->phase != RDT_RPC_CLOSED)
		rpc->phase = RDT_RPC_HANDED_OVER;
}

void rdt_rpc_close(struct rdt_rpc *rpc)
{
	struct rdt_rpc_call *call;

	if (!rpc || rpc->phase == RDT_RPC_CLOSED)
		return;
	rd_timer_stop(rpc->loop, &rpc->timer);
	rd_timer_stop(rpc->loop, &rpc->retry);
	if (rpc->phase == RDT_RPC_LISTENING) {
		rd_io_del(rpc->loop, &rpc->listen);
		rdt_rpc_unlisten(rpc->env->cfg, &rpc->sock);
	}
	rpc->phase = RDT_RPC_CLOSED;
	while (!TAILQ_EMPTY(&rpc->clients))
		close_rpc_client(TAILQ_FIRST(&rpc->clients));
	while ((call = TAILQ_FIRST(&rpc->calls)))
		rdt_rpc_drop(call);
}

void rdt_rpc_free(struct rdt_rpc **out)
{
	if (!*out)
		return;
	rdt_rpc_events_free(*out);
	rdt_rpc_ask_free_all(*out);
	free(*out);
	*out = NULL;
}
