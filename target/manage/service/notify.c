/* SPDX-License-Identifier: BSD-3-Clause */
#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "util/fd_bag.h"
#include "util/log.h"
#include "util/parse.h"

#define MESSAGE_SIZE 1024

/* Returns the length of the address, or 0 if @path is not valid. */
static socklen_t notify_address(const char *path, struct sockaddr_un *addr)
{
	size_t len = strlen(path);

	if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(addr->sun_path))
		return 0;
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path, path, len);
	if (path[0] == '/')
		return sizeof(*addr);
	addr->sun_path[0] = '\0'; /* abstract socket: the length is part of its name */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

/* Children inherit the variables, which apply only to the process with this PID. */
static uint64_t watchdog_time(struct rd_log *log)
{
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t value;

	if (!usec)
		return 0;
	if (pid && (rd_parse_u64(pid, 1, INT32_MAX, &value) || value != (uint64_t)getpid()))
		return 0;
	if (rd_parse_u64(usec, 1, UINT64_MAX / 1000, &value)) {
		rd_warn(log, RD_LOG_MAIN,
			"WATCHDOG_USEC is \"%s\", expected a number of microseconds: the watchdog "
			"will not be fed",
			usec);
		return 0;
	}
	return value * 1000;
}

void rdt_notify_open(struct rdt_notify *n, struct rd_log *log)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr;
	socklen_t len;

	*n = (struct rdt_notify){.log = log, .fd = -1};
	if (!path || !path[0])
		return;
	len = notify_address(path, &addr);
	if (!len) {
		rd_warn(log, RD_LOG_MAIN,
			"NOTIFY_SOCKET is \"%s\", expected an absolute path or @NAME of at most "
			"%zu "
			"bytes: the service manager is not notified",
			path, sizeof(addr.sun_path) - 1);
		return;
	}
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (n->fd < 0 || connect(n->fd, (const struct sockaddr *)&addr, len)) {
		rd_warn(log, RD_LOG_MAIN,
			"cannot reach NOTIFY_SOCKET %s: %s; the service manager will be told "
			"nothing",
			path, strerror(errno));
		rdt_notify_close(n);
		return;
	}
	n->watchdog_ns = watchdog_time(log);
}

void rdt_notify_close(struct rdt_notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	n->watchdog_ns = 0;
}

void rdt_notify(struct rdt_notify *n, const char *fmt, ...)
{
	char text[MESSAGE_SIZE];
	va_list ap;

	if (n->fd < 0)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (send(n->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		rd_warn(n->log, RD_LOG_MAIN, "cannot tell the service manager \"%.*s\": %s",
			(int)strcspn(text, "\n"), text, strerror(errno));
}

void rdt_notify_reloading(struct rdt_notify *n, const char *status)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	rdt_notify(n, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=%s",
		   (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000, status);
}

int rdt_notify_barrier(struct rdt_notify *n)
{
	static const char text[] = "BARRIER=1";
	struct rd_fd_bag bag;
	int ends[2], err;

	if (n->fd < 0)
		return -ENOTCONN;
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	rd_fd_bag_init(&bag, 1);
	err = rd_fd_bag_add(&bag, ends[1]);
	if (err >= 0)
		err = rd_fd_bag_send(&bag, n->fd, text, sizeof(text) - 1);
	rd_fd_bag_clear(&bag);
	if (err >= 0)
		return ends[0];
	close(ends[0]);
	return err;
}

bool rdt_notify_to_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char ours[48];
	struct stat st;

	/* Standard error may have been redirected after the service manager set the variable. */
	if (!stream || fstat(STDERR_FILENO, &st))
		return false;
	snprintf(ours, sizeof(ours), "%" PRIu64 ":%" PRIu64, (uint64_t)st.st_dev,
		 (uint64_t)st.st_ino);
	return strcmp(stream, ours) == 0;
}
