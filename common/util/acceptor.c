/* SPDX-License-Identifier: BSD-3-Clause */
#include "acceptor.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define BURST      256u /* connections accepted in one iteration */
#define FULL_PAUSE (100 * RD_NSEC_PER_MSEC)
#define FULL_LIMIT (10 * RD_NSEC_PER_SEC) /* one message in this time */

static void watch_backlog(struct rd_acceptor *a)
{
	uint32_t events = a->held || rd_timer_armed(&a->pause) ? 0 : EPOLLIN;

	if (a->io.events != events)
		rd_io_mod(a->loop, &a->io, events);
}

static void start_pause(struct rd_acceptor *a, uint64_t ns)
{
	/* Without a timer the socket is still watched. */
	rd_timer_start(a->loop, &a->pause, ns);
	watch_backlog(a);
}

static void pause_over(struct rd_timer *timer)
{
	watch_backlog(rd_container_of(timer, struct rd_acceptor, pause));
}

static void say_full(struct rd_acceptor *a, int err)
{
	struct rlimit files = {0};
	uint32_t held;

	if (!rd_ratelimit_pass(&a->full_limit, rd_loop_now(a->loop), FULL_LIMIT, 1, &held))
		return;
	if (err == EMFILE && !getrlimit(RLIMIT_NOFILE, &files))
		rd_warn(a->log, a->comp,
			"accept: all %llu file descriptors are in use, and each connection takes "
			"one: new ones wait; raise the limit (ulimit -n, or LimitNOFILE= of a "
			"service)",
			(unsigned long long)files.rlim_cur);
	else
		rd_warn(a->log, a->comp, "accept: %s: new connections wait", strerror(err));
}

/* True: accept(2) should be tried again. */
static bool accept_failed(struct rd_acceptor *a, int err)
{
	if (err == EINTR || err == ECONNABORTED)
		return true; /* the connection has been closed already */
	if (err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM) {
		say_full(a, err);
		if (a->make_room && a->make_room(a))
			return true;
		start_pause(a, FULL_PAUSE);
	} else if (a->rest_ns) {
		start_pause(a, a->rest_ns);
	}
	return false;
}

static void accept_some(struct rd_io *io, uint32_t events)
{
	struct rd_acceptor *a = rd_container_of(io, struct rd_acceptor, io);
	bool gone = false;

	a->gone = &gone;
	a->rest_ns = 0;
	for (unsigned int i = 0; i < BURST; i++) {
		struct sockaddr_storage remote = {0};
		socklen_t len = sizeof(remote);
		int err, fd = accept4(io->fd, (struct sockaddr *)&remote, &len,
				      SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (accept_failed(a, errno))
				continue;
			break;
		}
		err = a->take(a, fd, &remote);
		if (gone)
			return;
		if (err) {
			say_full(a, -err);
			start_pause(a, FULL_PAUSE);
			break;
		}
	}
	a->gone = NULL;
}

int rd_acceptor_begin(struct rd_acceptor *a, int fd)
{
	a->pause.fn = pause_over;
	return rd_io_add(a->loop, &a->io, fd, a->held ? 0 : EPOLLIN, accept_some);
}

void rd_acceptor_hold(struct rd_acceptor *a, bool held)
{
	a->held = held;
	watch_backlog(a);
}

void rd_acceptor_end(struct rd_acceptor *a)
{
	if (a->gone)
		*a->gone = true;
	a->gone = NULL;
	rd_timer_stop(a->loop, &a->pause);
	rd_io_del(a->loop, &a->io);
	close(a->io.fd);
}
