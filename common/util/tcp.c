/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/loop.h"
#include "util/sockaddr.h"

/*
 * Ends connections to a machine that is gone: by default TCP does not probe idle connections, and
 * retransmits for a quarter of an hour. An idle connection is probed after half of @ns, then every
 * quarter.
 */
static int set_peer_timeout(int fd, uint64_t ns)
{
	unsigned int ms = (unsigned int)(ns / RD_NSEC_PER_MSEC);
	int on = 1, idle = (int)(ms / 2000), every = (int)(ms / 4000), count = 2;

	if (!ns)
		return 0;
	if (idle < 1)
		idle = 1;
	if (every < 1)
		every = 1;
	if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)))
		return -errno;
	return 0;
}

static int set_congestion(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) ? -errno
											  : 0;
}

int rd_tcp_congestion(const char *name)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = set_congestion(fd, name);
	close(fd);
	return rc;
}

const char *rd_tcp_congestion_error(int err)
{
	return err == -ENOENT  ? "this kernel has no TCP congestion control of that name (see "
				 "/proc/sys/net/ipv4/tcp_available_congestion_control)"
	       : err == -EPERM ? "needs privileges on this machine (see "
				 "/proc/sys/net/ipv4/tcp_allowed_congestion_control)"
			       : NULL;
}

int rd_tcp_set_opts(int fd, const struct rd_tcp_opts *opts)
{
	int one = 1, rc;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		return -errno;
	if (opts->sndbuf &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &opts->sndbuf, sizeof(opts->sndbuf)))
		return -errno;
	if (opts->rcvbuf &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &opts->rcvbuf, sizeof(opts->rcvbuf)))
		return -errno;
	rc = opts->congestion ? set_congestion(fd, opts->congestion) : 0;
	return rc ? rc : set_peer_timeout(fd, opts->peer_timeout_ns);
}

int rd_tcp_listen(const struct sockaddr *addr, int backlog, const struct rd_tcp_opts *opts,
		  struct sockaddr_storage *bound)
{
	socklen_t len = sizeof(*bound);
	int one = 1, fd, rc;

	fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = rd_tcp_set_opts(fd, opts);
	if (rc)
		goto err_close;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    (addr->sa_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one))) ||
	    bind(fd, addr, rd_addr_len(addr)) || listen(fd, backlog > 0 ? backlog : SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)bound, &len)) {
		rc = -errno;
		goto err_close;
	}
	return fd;

err_close:
	close(fd);
	return rc;
}

int rd_tcp_listen_on(int fd, const struct rd_tcp_opts *opts, struct sockaddr_storage *bound)
{
	socklen_t len = sizeof(*bound), on_len = sizeof(int);
	int on = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &on_len) ||
	    getsockname(fd, (struct sockaddr *)bound, &len))
		return -errno;
	return on ? rd_tcp_set_opts(fd, opts) : -EINVAL;
}

bool rd_tcp_reports(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, 0) > 0;
}

int rd_tcp_broken(int fd, uint32_t events)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (!(events & (EPOLLERR | EPOLLHUP)))
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) || !err)
		err = ECONNRESET;
	return -err;
}

bool rd_tcp_abandon(int fd)
{
	struct linger now = {.l_onoff = 1};
	int left = 0;

	return ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0 &&
	       setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0;
}
