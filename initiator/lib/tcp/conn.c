/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection of a queue: connect(2), ICReq and ICResp, the end; and the table of operations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tcp.h"

#define MAXH2CDATA_MIN 4096u
#define CPDA_MAX       31u

/* ---- the end ---- */

/* Stops sending and receiving commands, and lets the peer see the end of the stream. */
static void stop_stream(struct rdi_tcp_conn *c, bool over)
{
	rd_timer_stop(c->q->loop, &c->timer);
	rdi_tcp_tx_reset(c);
	rdi_tcp_rx_reset(c);
	if (over) {
		rd_io_del(c->q->loop, &c->io);
		c->state = RDI_TCP_OVER;
	} else {
		rdi_tcp_tls_close(c);
		shutdown(c->io.fd, SHUT_WR);
		rd_io_mod(c->q->loop, &c->io, EPOLLIN);
		c->state = RDI_TCP_ENDING;
	}
}

static bool comes_up(const struct rdi_tcp_conn *c)
{
	return c->state >= RDI_TCP_CONNECTING && c->state <= RDI_TCP_IC;
}

void rdi_tcp_end(struct rdi_tcp_conn *c, int err, const char *why)
{
	enum rdi_tcp_state state = c->state;

	if (state == RDI_TCP_ENDING) {
		stop_stream(c, true);
		rdi_queue_drained(c->q);
	} else if (comes_up(c)) {
		stop_stream(c, true);
		rdi_queue_attempt_failed(c->q, err, why);
	} else if (state == RDI_TCP_RUNNING) {
		/* A peer that broke the protocol may still read an H2CTermReq. */
		stop_stream(c, err != -EPROTO);
		rdi_queue_lost(c->q, err, why);
	}
}

void rdi_tcp_disconnect(struct rdi_queue *q)
{
	struct rdi_tcp_conn *c = q->conn;

	/* Commands that have not arrived may be sent again by another connection. */
	if (c->state == RDI_TCP_RUNNING)
		stop_stream(c, rd_tcp_abandon(c->io.fd));
	else if (comes_up(c))
		stop_stream(c, true);
}

static void close_socket(struct rdi_tcp_conn *c)
{
	rdi_tcp_tls_drop(c);
	rd_io_del(c->q->loop, &c->io);
	rd_tcp_abandon(c->io.fd);
	close(c->io.fd);
}

bool rdi_tcp_drained(const struct rdi_queue *q)
{
	const struct rdi_tcp_conn *c = q->conn;

	return c->state == RDI_TCP_NONE || c->state == RDI_TCP_OVER;
}

void rdi_tcp_drop(struct rdi_queue *q)
{
	struct rdi_tcp_conn *c = q->conn;

	if (c->state == RDI_TCP_NONE)
		return;
	rd_timer_stop(q->loop, &c->timer);
	rdi_tcp_tx_reset(c);
	rdi_tcp_rx_reset(c);
	close_socket(c);
	c->state = RDI_TCP_NONE;
}

/* ---- the way up ---- */

static void ic_timeout(struct rd_timer *timer)
{
	static const char *const late[] = {
		[RDI_TCP_CONNECTING] = "no answer from the address",
		[RDI_TCP_TLS] = "connected, but the TLS handshake did not complete (does the "
				"target expect TLS there?)",
		[RDI_TCP_IC] = "not an NVMe/TCP target: connected, but no answer to ICReq",
	};
	struct rdi_tcp_conn *c = rd_container_of(timer, struct rdi_tcp_conn, timer);

	rdi_tcp_end(c, -ETIMEDOUT, late[c->state]);
}

void rdi_tcp_icresp(struct rdi_tcp_conn *c, const struct nvme_tcp_icresp *pdu)
{
	const struct rdi_tcp_handle *h = c->q->opened;
	char why[RDI_TEXT / 2];

	c->maxh2cdata = le32toh(pdu->maxh2cdata);
	c->cpda = pdu->cpda;
	if (pdu->pfv || pdu->cpda > CPDA_MAX || c->maxh2cdata < MAXH2CDATA_MIN ||
	    c->maxh2cdata % 4) {
		snprintf(why, sizeof(why),
			 "ICResp has PFV %u, CPDA %u, MAXH2CDATA %u; expected 0, at most %u, and a "
			 "multiple of 4 from %u",
			 le16toh(pdu->pfv), pdu->cpda, c->maxh2cdata, CPDA_MAX, MAXH2CDATA_MIN);
		rdi_tcp_end(c, -EPROTO, why);
		return;
	}
	if (pdu->dgst != h->cfg->dgst) {
		snprintf(why, sizeof(why),
			 "ICResp has digests 0x%x, requested were 0x%x (1: header, 2: data)",
			 pdu->dgst, h->cfg->dgst);
		rdi_tcp_end(c, -EPROTO, why);
		return;
	}
	rd_timer_stop(c->q->loop, &c->timer);
	c->rules.hdgst = pdu->dgst & NVME_TCP_HDGST;
	c->rules.ddgst = pdu->dgst & NVME_TCP_DDGST;
	c->state = RDI_TCP_RUNNING;
	rdi_queue_established(c->q, 0);
}

void rdi_tcp_ready(struct rdi_tcp_conn *c)
{
	const struct rdi_tcp_handle *h = c->q->opened;

	c->state = RDI_TCP_IC;
	rd_io_mod(c->q->loop, &c->io, EPOLLIN);
	rdi_tcp_send_icreq(c, h->cfg->dgst);
}

static void connected(struct rdi_tcp_conn *c)
{
	socklen_t len = sizeof(int);
	int err = 0;

	getsockopt(c->io.fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		rdi_tcp_end(c, -err,
			    err == ECONNREFUSED
				    ? "connection refused (is the target listening there?)"
				    : strerror(err));
		return;
	}
	rdi_queue_connecting(c->q);
	if (c->q->cfg.tls)
		rdi_tcp_tls_start(c);
	else
		rdi_tcp_ready(c);
}

static void on_socket(struct rd_io *io, uint32_t events)
{
	struct rdi_tcp_conn *c = rd_container_of(io, struct rdi_tcp_conn, io);

	if (c->state == RDI_TCP_CONNECTING) {
		connected(c);
		return;
	}
	if (c->state == RDI_TCP_TLS) {
		rdi_tcp_tls_run(c);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		rdi_tcp_rx_run(c);
	if (events & EPOLLOUT)
		rdi_tcp_tx_run(c);
}

static bool try_socket(struct rd_io *io)
{
	struct rdi_tcp_conn *c = rd_container_of(io, struct rdi_tcp_conn, io);

	return c->state == RDI_TCP_RUNNING && rdi_tcp_rx_run(c);
}

/* Returns 0: the socket is connecting, and on_socket() is called; or -errno. */
static int connect_socket(struct rdi_tcp_conn *c, const struct sockaddr *addr)
{
	const struct rdi_tcp_handle *h = c->q->opened;
	const struct sockaddr *src = c->q->cfg.src;
	int rc, fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	rc = rd_tcp_set_opts(fd, &h->cfg->socket);
	if (!rc && src && bind(fd, src, rd_addr_len(src)))
		rc = -errno;
	if (!rc && connect(fd, addr, rd_addr_len(addr)) && errno != EINPROGRESS)
		rc = -errno;
	if (!rc)
		rc = rd_io_add(c->q->loop, &c->io, fd, EPOLLIN | EPOLLOUT, on_socket);
	if (rc) {
		close(fd);
		return rc;
	}
	c->state = RDI_TCP_CONNECTING;
	return 0;
}

int rdi_tcp_connect(struct rdi_queue *q, const struct sockaddr *addr)
{
	struct rdi_tcp_conn *c = q->conn;
	int rc = rd_timer_start(q->loop, &c->timer, q->cfg.connect_timeout_ns);

	if (rc)
		return rc;
	rdi_tcp_tls_init(c);
	rc = connect_socket(c, addr);
	if (rc) {
		rd_timer_stop(q->loop, &c->timer);
		return rc;
	}
	memcpy(&c->remote, addr, rd_addr_len(addr));
	c->rules = (struct nvme_tcp_rules){.from_host = false};
	c->cpda = 0;
	rdi_tcp_tx_reset(c);
	rdi_tcp_rx_reset(c);
	return 0;
}

void rdi_tcp_again(struct rdi_tcp_conn *c)
{
	struct sockaddr_storage addr = c->remote;
	int rc;

	close_socket(c);
	rc = connect_socket(c, (const struct sockaddr *)&addr);
	if (rc) {
		rd_timer_stop(c->q->loop, &c->timer);
		c->state = RDI_TCP_NONE;
		rdi_queue_attempt_failed(c->q, rc, strerror(-rc));
	}
}

static void free_conn(struct rdi_tcp_conn *c)
{
	if (c)
		rdi_tcp_batch_fini(&c->batch);
	free(c);
}

int rdi_tcp_alloc(struct rdi_queue *q)
{
	struct rdi_tcp_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	if (rdi_tcp_batch_init(&c->batch, q->cfg.depth)) {
		free_conn(c);
		return -ENOMEM;
	}
	c->q = q;
	c->timer.fn = ic_timeout;
	c->io.try_read = try_socket;
	c->flush.fn = rdi_tcp_flush;
	STAILQ_INIT(&c->tx);
	q->conn = c;
	return 0;
}

void rdi_tcp_release(struct rdi_queue *q)
{
	free_conn(q->conn);
	q->conn = NULL;
}
