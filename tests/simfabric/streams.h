/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulated TCP: sockets of one process whose bytes travel on the network of a simulation. The
 * stream arrives in pieces and is read in pieces that random numbers choose. A socket takes as much
 * as its peer has room for.
 *
 * Included before the files of NVMe/TCP when the simulation links them: the system's calls for
 * sockets, and the loop's for descriptors, become these. They return and set errno as the
 * originals. A descriptor of a simulated socket is none of the system; those of the system may be
 * duplicated and closed by the same calls.
 */
#ifndef SIMFABRIC_STREAMS_H
#define SIMFABRIC_STREAMS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fabric/fabric.h" /* whose members have names of these calls */
#include "util/loop.h"
#include "util/tcp.h"

struct rd_sim;

/* The sockets that are made from now on belong to @sim. */
void rd_sim_streams(struct rd_sim *sim);
/* The descriptors that are made from now on are those of the process of this number. Returns that
 * of before; 0 is that of the hosts. */
unsigned int rd_sim_enter(unsigned int process);
void rd_sim_pass(int fd, unsigned int process); /* it has the descriptor from now on */
/* The process ends: its descriptors are closed, as by the system. To what is left of it each socket
 * is one that was reset. */
void rd_sim_end_process(struct rd_sim *sim, unsigned int process);

int sim_tcp_listen(const struct sockaddr *addr, int backlog, const struct rd_tcp_opts *opts,
		   struct sockaddr_storage *bound);
int sim_tcp_listen_on(int fd, const struct rd_tcp_opts *opts, struct sockaddr_storage *bound);
int sim_tcp_set_opts(int fd, const struct rd_tcp_opts *opts);
bool sim_tcp_reports(int fd, short events);
int sim_tcp_broken(int fd, uint32_t events);
bool sim_tcp_abandon(int fd);
int sim_socket(int domain, int type, int protocol);
int sim_bind(int fd, const struct sockaddr *addr, socklen_t len);
int sim_connect(int fd, const struct sockaddr *addr, socklen_t len);
int sim_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int sim_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int sim_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
int sim_getsockopt(int fd, int level, int name, void *value,
		   socklen_t *len); /* SO_ERROR, SO_TYPE */
ssize_t sim_readv(int fd, const struct iovec *iov, int count);
ssize_t sim_recv(int fd, void *buf, size_t len, int flags);
ssize_t sim_send(int fd, const void *buf, size_t len, int flags);
ssize_t sim_sendmsg(int fd, const struct msghdr *msg, int flags);
int sim_shutdown(int fd, int how); /* SHUT_WR */
int sim_close(int fd);
int sim_eventfd(unsigned int count, int flags);
ssize_t sim_read(int fd, void *buf, size_t len);        /* of an eventfd */
ssize_t sim_write(int fd, const void *buf, size_t len); /* likewise */
int sim_fcntl(int fd, int cmd, int arg);                /* F_DUPFD_CLOEXEC, F_GETFL */
int sim_io_add(struct rd_loop *loop, struct rd_io *io, int fd, uint32_t events,
	       void (*fn)(struct rd_io *io, uint32_t events));
int sim_io_mod(struct rd_loop *loop, struct rd_io *io, uint32_t events);
void sim_io_del(struct rd_loop *loop, struct rd_io *io);

#ifdef SIM_REPLACES_SOCKETS
#define rd_tcp_listen(addr, backlog, opts, bound) sim_tcp_listen(addr, backlog, opts, bound)
#define rd_tcp_listen_on(fd, opts, bound)         sim_tcp_listen_on(fd, opts, bound)
#define rd_tcp_set_opts(fd, opts)                 sim_tcp_set_opts(fd, opts)
#define rd_tcp_reports(fd, events)                sim_tcp_reports(fd, events)
#define rd_tcp_broken(fd, events)                 sim_tcp_broken(fd, events)
#define rd_tcp_abandon(fd)                        sim_tcp_abandon(fd)
#define socket(domain, type, protocol)            sim_socket(domain, type, protocol)
#define bind(fd, addr, len)                       sim_bind(fd, addr, len)
#define connect(fd, addr, len)                    sim_connect(fd, addr, len)
#define accept4(fd, addr, len, flags)             sim_accept4(fd, addr, len, flags)
#define getpeername(fd, addr, len)                sim_getpeername(fd, addr, len)
#define getsockname(fd, addr, len)                sim_getsockname(fd, addr, len)
#define getsockopt(fd, level, name, value, len)   sim_getsockopt(fd, level, name, value, len)
#define readv(fd, iov, count)                     sim_readv(fd, iov, count)
#define recv(fd, buf, len, flags)                 sim_recv(fd, buf, len, flags)
#define send(fd, buf, len, flags)                 sim_send(fd, buf, len, flags)
#define sendmsg(fd, msg, flags)                   sim_sendmsg(fd, msg, flags)
#define shutdown(fd, how)                         sim_shutdown(fd, how)
#define eventfd(count, flags)                     sim_eventfd(count, flags)
#define read(fd, buf, len)                        sim_read(fd, buf, len)
#define write(fd, buf, len)                       sim_write(fd, buf, len)
#define fcntl(fd, cmd, arg)                       sim_fcntl(fd, cmd, arg)
/* Not with its argument: members of structures that have this name are called in headers. */
#define close                               sim_close
#define rd_io_add(loop, io, fd, events, fn) sim_io_add(loop, io, fd, events, fn)
#define rd_io_mod(loop, io, events)         sim_io_mod(loop, io, events)
#define rd_io_del(loop, io)                 sim_io_del(loop, io)
#endif

#endif /* SIMFABRIC_STREAMS_H */
