/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets of ended connections, until the peer closes them too: see struct rdt_tcp_linger. Their
 * number, time and bytes are limited, because a peer may continue to send. */
#include "tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGERS      256u
#define LINGER_NS    (10 * RD_NSEC_PER_SEC)
#define LINGER_BYTES (16u << 20)
#define LINGER_BATCH 4u /* sockets that are read in one loop iteration, round robin */

static void end_linger(struct rdt_tcp_linger *lg)
{
	struct rdt_tcp *tcp = lg->tcp;

	rd_io_del(tcp->reactor->loop, &lg->io);
	rd_timer_stop(tcp->reactor->loop, &lg->timer);
	close(lg->io.fd);
	TAILQ_REMOVE(&tcp->lingers, lg, link);
	tcp->lingers_count--;
	free(lg);
}

static void linger_over(struct rd_timer *timer)
{
	end_linger(rd_container_of(timer, struct rdt_tcp_linger, timer));
}

static void linger_io(struct rd_io *io, uint32_t events)
{
	struct rdt_tcp_linger *lg = rd_container_of(io, struct rdt_tcp_linger, io);
	struct rdt_tcp *tcp = lg->tcp;
	uint64_t iteration = rd_loop_turns(tcp->reactor->loop);
	ssize_t n;

	if (tcp->linger_iteration != iteration)
		tcp->linger_reads = 0;
	tcp->linger_iteration = iteration;
	if (tcp->linger_reads++ >= LINGER_BATCH)
		return;
	/* MSG_TRUNC: the kernel discards the data without copying it. */
	n = recv(io->fd, tcp->staging, RDT_TCP_STAGING, MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	lg->bytes += n > 0 ? (uint32_t)n : 0;
	if (n <= 0 || lg->bytes > LINGER_BYTES)
		end_linger(lg);
}

void rdt_tcp_linger(struct rdt_tcp *tcp, int fd)
{
	struct rd_loop *loop = tcp->reactor->loop;
	struct rdt_tcp_linger *lg = calloc(1, sizeof(*lg));

	shutdown(fd, SHUT_WR);
	if (tcp->lingers_count >= LINGERS)
		end_linger(TAILQ_FIRST(&tcp->lingers));
	if (!lg || rd_io_add(loop, &lg->io, fd, EPOLLIN, linger_io)) {
		close(fd);
		free(lg);
		return;
	}
	lg->tcp = tcp;
	lg->timer.fn = linger_over;
	TAILQ_INSERT_TAIL(&tcp->lingers, lg, link);
	tcp->lingers_count++;
	if (rd_timer_start(loop, &lg->timer, LINGER_NS))
		end_linger(lg);
}

void rdt_tcp_lingers_end(struct rdt_tcp *tcp)
{
	struct rdt_tcp_linger *lg;

	while ((lg = TAILQ_FIRST(&tcp->lingers)))
		end_linger(lg);
}
