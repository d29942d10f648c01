/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/log_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct rd_log_out {
	int fd;    /* written without blocking */
	bool ours; /* opened here */
	bool socket;
	rd_log_out_dropped_fn dropped_fn;
	void *dropped_arg;
	pthread_t thread;
	int wake; /* eventfd: the buffer has lines, or the log ends */

	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t empty;
	bool stop;
	uint64_t dropped; /* since the last line that said so */
	size_t start;
	size_t used;
	char buf[RD_LOG_OUT_BYTES];
};

/*
 * O_NONBLOCK belongs to the open file, which a shell or the parent process may share: a pipe or a
 * terminal is opened once more. If that is refused, poll() is called before each write.
 */
static int log_open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void log_choose_fd(struct rd_log_out *o, int fd)
{
	struct stat st;

	o->fd = fd;
	if (fstat(fd, &st))
		return;
	o->socket = S_ISSOCK(st.st_mode);
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	fd = log_open_again(fd);
	o->ours = fd >= 0;
	if (o->ours)
		o->fd = fd;
}

/* Returns the bytes written, 0 (the descriptor takes none now) or -errno. */
static ssize_t log_try_write(const struct rd_log_out *o, const char *data, size_t len)
{
	struct pollfd pfd = {.fd = o->fd, .events = POLLOUT};
	ssize_t n;

	if (o->socket)
		n = send(o->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	else if (!o->ours && poll(&pfd, 1, 0) == 0)
		return 0;
	else
		n = write(o->fd, data, len);
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

static bool log_put(struct rd_log_out *o, const char *data, size_t len)
{
	size_t end = (o->start + o->used) % sizeof(o->buf);
	size_t first = sizeof(o->buf) - end;

	if (len > sizeof(o->buf) - o->used)
		return false;
	if (first > len)
		first = len;
	memcpy(o->buf + end, data, first);
	memcpy(o->buf, data + first, len - first);
	o->used += len;
	return true;
}

static void log_wake(const struct rd_log_out *o)
{
	const uint64_t one = 1;

	if (write(o->wake, &one, sizeof(one)) < 0)
		return; /* the thread is awake already */
}

static void log_say_dropped(struct rd_log_out *o)
{
	char line[RD_LOG_OUT_LINE];

	if (sizeof(o->buf) - o->used < sizeof(line))
		return;
	log_put(o, line, o->dropped_fn(o->dropped_arg, o->dropped, line, sizeof(line)));
	o->dropped = 0;
}

void rd_log_out_write(struct rd_log_out *o, const char *line, size_t len)
{
	ssize_t n = 0;

	pthread_mutex_lock(&o->lock);
	if (o->dropped)
		log_say_dropped(o);
	if (!o->used)
		n = log_try_write(o, line, len);
	/* An error cannot be reported. */
	if (n >= 0 && (size_t)n < len) {
		bool sleeping = !o->used;

		if (o->dropped || !log_put(o, line + n, len - (size_t)n))
			o->dropped++;
		else if (sleeping)
			log_wake(o);
	}
	pthread_mutex_unlock(&o->lock);
}

/* Returns false if the descriptor takes nothing now. */
static bool log_drain(struct rd_log_out *o)
{
	while (o->used) {
		size_t len = sizeof(o->buf) - o->start;
		ssize_t n;

		if (len > o->used)
			len = o->used;
		/* A shared pipe takes so much at once, or poll() says that it is full. */
		if (!o->ours && !o->socket && len > RD_LOG_OUT_LINE)
			len = RD_LOG_OUT_LINE;
		n = log_try_write(o, o->buf + o->start, len);
		if (n == 0)
			return false;
		len = n < 0 ? o->used : (size_t)n; /* broken: all lines are lost */
		o->start = (o->start + len) % sizeof(o->buf);
		o->used -= len;
		if (o->dropped)
			log_say_dropped(o);
	}
	pthread_cond_broadcast(&o->empty);
	return true;
}

static void *log_thread(void *arg)
{
	struct rd_log_out *o = arg;
	struct pollfd pfd[2] = {{.fd = o->wake, .events = POLLIN}, {.fd = -1, .events = POLLOUT}};
	uint64_t count;

	pthread_setname_np(pthread_self(), "log");
	for (;;) {
		bool stop;

		if (poll(pfd, 2, -1) < 0 && errno != EINTR)
			break;
		if (read(o->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
			break;
		pthread_mutex_lock(&o->lock);
		pfd[1].fd = log_drain(o) ? -1 : o->fd;
		stop = o->stop;
		pthread_mutex_unlock(&o->lock);
		if (stop)
			break;
	}
	return NULL;
}

static int log_init_sync(struct rd_log_out *o)
{
	pthread_condattr_t attr;
	int err = pthread_mutex_init(&o->lock, NULL);

	if (err)
		return -err;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	err = pthread_cond_init(&o->empty, &attr);
	pthread_condattr_destroy(&attr);
	if (err)
		pthread_mutex_destroy(&o->lock);
	return -err;
}

int rd_log_out_create(int fd, rd_log_out_dropped_fn dropped, void *arg, struct rd_log_out **out)
{
	struct rd_log_out *o =
		malloc(sizeof(*o)); /* large, but its memory is used only when lines are buffered */
	int err;

	*out = NULL;
	if (!o)
		return -ENOMEM;
	memset(o, 0, offsetof(struct rd_log_out, buf));
	o->dropped_fn = dropped;
	o->dropped_arg = arg;
	err = log_init_sync(o);
	if (err)
		goto err_free;
	o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->wake < 0) {
		err = -errno;
		goto err_sync;
	}
	log_choose_fd(o, fd);
	err = -pthread_create(&o->thread, NULL, log_thread, o);
	if (err)
		goto err_fd;
	*out = o;
	return 0;

err_fd:
	if (o->ours)
		close(o->fd);
	close(o->wake);
err_sync:
	pthread_cond_destroy(&o->empty);
	pthread_mutex_destroy(&o->lock);
err_free:
	free(o);
	return err;
}

void rd_log_out_flush(struct rd_log_out *o, int timeout_ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&o->lock);
	while (o->used && !pthread_cond_timedwait(&o->empty, &o->lock, &end))
		;
	pthread_mutex_unlock(&o->lock);
}

void rd_log_out_destroy(struct rd_log_out **out)
{
	struct rd_log_out *o = *out;

	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->stop = true;
	pthread_mutex_unlock(&o->lock);
	log_wake(o);
	pthread_join(o->thread, NULL);
	if (o->ours)
		close(o->fd);
	close(o->wake);
	pthread_cond_destroy(&o->empty);
	pthread_mutex_destroy(&o->lock);
	free(o);
	*out = NULL;
}
