/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets as iWARP and NVMe/TCP use them: options, and listening. */
#ifndef RD_UTIL_TCP_H
#define RD_UTIL_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rd_tcp_opts {
	const char *congestion;   /* TCP congestion control; NULL: the system's */
	uint32_t sndbuf;          /* SO_SNDBUF; 0: the kernel's choice */
	uint32_t rcvbuf;          /* SO_RCVBUF; likewise */
	uint64_t peer_timeout_ns; /* the peer's machine is silent: the connection ends; 0: never */
};

/* Can connections use this congestion control? Returns 0, -ENOENT (the kernel has none of that
 * name), -EPERM (it needs privileges here) or another -errno. */
int rd_tcp_congestion(const char *name);
/* What @err of rd_tcp_congestion() or of setting the options says about the congestion control;
 * NULL: nothing. */
const char *rd_tcp_congestion_error(int err);
/*
 * Sets the options, and TCP_NODELAY. Before listen(2) and connect(2): accepted sockets inherit
 * them, and the sizes of the buffers determine the window scale. Returns 0 or -errno.
 */
int rd_tcp_set_opts(int fd, const struct rd_tcp_opts *opts);
/*
 * Returns a socket that listens on @addr and does not block, or -errno. @backlog 0: the system's
 * limit. @bound: its address, with the port that it got. An IPv6 address takes no IPv4 connections.
 */
int rd_tcp_listen(const struct sockaddr *addr, int backlog, const struct rd_tcp_opts *opts,
		  struct sockaddr_storage *bound);
/* As rd_tcp_listen(), for @fd, which listens: @opts are those of connections that come. Returns 0,
 * or -errno and @fd remains the caller's. */
int rd_tcp_listen_on(int fd, const struct rd_tcp_opts *opts, struct sockaddr_storage *bound);
/* Does poll(2) report one of @events (POLLIN, POLLRDHUP), or an error, now? */
bool rd_tcp_reports(int fd, short events);
/*
 * For a socket that is watched and not read: did it break, as the epoll @events of it say? Returns
 * 0, or the reason as -errno.
 */
int rd_tcp_broken(int fd, uint32_t events);
/*
 * The caller is about to close a connection whose requests it may send again by another one. If the
 * peer's kernel has not acknowledged all that was sent, close(2) will end the connection by an RST:
 * otherwise the kernel would go on to deliver the rest, possibly after what is sent later. Returns
 * whether that is so.
 */
bool rd_tcp_abandon(int fd);

#endif /* RD_UTIL_TCP_H */
