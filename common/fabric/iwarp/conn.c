/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: states, events, queue pairs, and the one way a connection ends. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/conn_events.h"
#include "util/sockaddr.h"
#include "util/tcp.h"

#include "conn.h"
#include "connect.h"

#define ENDS_PER_SEC 20

static const char *iw_state_name(enum rd_iw_state s)
{
	static const char *const names[] = {
		[RD_IW_IDLE] = "idle",           [RD_IW_CONNECTING] = "connecting",
		[RD_IW_HANDSHAKE] = "handshake", [RD_IW_ADOPTED] = "adopted",
		[RD_IW_OPEN] = "open",           [RD_IW_CLOSED] = "closed",
	};

	return names[s];
}

void rd_iw_set_state(struct rd_iw_conn *c, enum rd_iw_state state)
{
	rd_debug(rd_iw_log(c->fab), RD_LOG_FABRIC, "qp %u: %s -> %s", c->base.qp_num,
		 iw_state_name(c->state), iw_state_name(state));
	c->state = state;
}

/* ---- events ---- */

/* An event has been delivered: its private data, in the handshake, is not needed any more. */
static void iw_conn_told(struct rd_fab_conn *conn)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);

	free(c->hs);
	c->hs = NULL;
	c->events.private_len = 0;
}

static void iw_conn_free(struct rd_fab_conn *conn)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);

	free(c->hs);
	free(c);
}

/* ---- creation ---- */

/* While a message waits for a RECV nothing is read, so a broken socket must be noticed here. */
static void look_for_error(struct rd_iw_conn *c, uint32_t events)
{
	int err = rd_tcp_broken(c->io.fd, events);

	if (err)
		rd_iw_conn_end(c, err, "receive: %s", strerror(-err));
}

static void conn_io(struct rd_io *io, uint32_t events)
{
	struct rd_iw_conn *c = rd_container_of(io, struct rd_iw_conn, io);

	if (c->state != RD_IW_OPEN) {
		rd_iw_handshake_io(c, events);
		return;
	}
	/* Reads first, and never waits for writing: otherwise both sides could block each other. */
	if (c->base.waits || c->stopped)
		look_for_error(c, events);
	else if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		rd_iw_rx_run(c);
	if (c->state == RD_IW_OPEN && (events & EPOLLOUT)) {
		c->tx.blocked = false;
		rd_iw_conn_watch(c);
		rd_iw_tx_kick(c);
	}
}

static bool conn_try(struct rd_io *io)
{
	struct rd_iw_conn *c = rd_container_of(io, struct rd_iw_conn, io);

	return c->state == RD_IW_OPEN && !c->base.waits && !c->stopped && rd_iw_rx_run(c);
}

int rd_iw_conn_mss(const struct rd_iw_conn *c)
{
	int mss = 0;
	socklen_t len = sizeof(mss);

	return getsockopt(c->io.fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) ? 0 : mss;
}

void rd_iw_conn_watch(struct rd_iw_conn *c)
{
	uint32_t want = c->base.waits || c->stopped ? 0 : EPOLLIN;
	int rc = 0;

	if (c->state == RD_IW_CONNECTING ||
	    (c->state == RD_IW_HANDSHAKE && c->hs->out_off < c->hs->out_len))
		want = EPOLLOUT;
	else if (c->tx.blocked)
		want |= EPOLLOUT;
	if (!c->io.added)
		rc = rd_io_add(c->fab->base.loop, &c->io, c->io.fd, want, conn_io);
	else if (c->io.events != want)
		rc = rd_io_mod(c->fab->base.loop, &c->io, want);
	if (rc)
		rd_iw_conn_end(c, rc, "epoll: %s", strerror(-rc));
}

static void conn_flush(struct rd_defer *defer)
{
	struct rd_iw_conn *c = rd_container_of(defer, struct rd_iw_conn, flush);

	if (c->state == RD_IW_OPEN && !c->tx.blocked)
		rd_iw_tx_run(c);
}

static void conn_timeout(struct rd_timer *timer)
{
	struct rd_iw_conn *c = rd_container_of(timer, struct rd_iw_conn, timer);
	const char *what = "connecting";

	if (c->state == RD_IW_HANDSHAKE)
		what = "waiting for the MPA reply";
	else if (c->state == RD_IW_OPEN)
		what = "waiting for the peer's first message";
	rd_iw_conn_end(c, -ETIMEDOUT, "timed out while %s", what);
}

int rd_iw_conn_new(struct rd_iw_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_iw_conn **out)
{
	struct rd_iw_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->hs = calloc(1, sizeof(*c->hs));
	if (!c->hs) {
		free(c);
		return -ENOMEM;
	}
	c->fab = fab;
	c->dev = &fab->dev;
	c->base.ops = &rd_iw_ops;
	c->base.on_event = fn;
	c->base.arg = arg;
	c->base.qp_num = fab->dev.next_qpn++;
	STAILQ_INIT(&c->rx.aside);
	c->io.fd = -1;
	c->io.try_read = conn_try;
	c->timer.fn = conn_timeout;
	c->flush.fn = conn_flush;
	rd_conn_events_init(&c->events, &c->base, fab->base.loop, iw_conn_free);
	c->events.delivered = iw_conn_told;
	c->events.dev = &fab->dev.base;
	fab->stats.conns++;
	*out = c;
	return 0;
}

/* ---- queue pair ---- */

/*
 * Reserves CQ entries for RECVs. Those of a shared queue are reserved once for all connections that
 * use the CQ of the first one, and again for each connection with another CQ.
 */
static int reserve_recvs(struct rd_iw_conn *c)
{
	struct rd_iw_srq *srq = c->srq;
	int rc = 0;

	if (!srq)
		return rd_iw_cq_reserve(c->rcq, c->rq.depth);
	c->own_room = srq->users && srq->cq != c->rcq;
	if (c->own_room || !srq->users)
		rc = rd_iw_cq_reserve(c->rcq, srq->rq.depth);
	if (rc || c->own_room)
		return rc;
	srq->cq = c->rcq;
	srq->users++;
	return 0;
}

static void unreserve_recvs(struct rd_iw_conn *c)
{
	struct rd_iw_srq *srq = c->srq;

	if (!srq)
		rd_iw_cq_unreserve(c->rcq, c->rq.depth);
	else if (c->own_room || --srq->users == 0)
		rd_iw_cq_unreserve(c->rcq, srq->rq.depth);
}

static int qp_queues(struct rd_iw_conn *c, const struct rd_fab_qp_attr *attr)
{
	uint32_t sges = c->srq ? c->srq->rq.max_sge : attr->max_recv_sge;
	int rc;

	rc = rd_iw_sq_init(&c->sq, attr);
	if (rc == 0 && !c->srq)
		rc = rd_iw_rq_init(&c->rq, attr->max_recv_wr, attr->max_recv_sge);
	if (rc == 0) {
		c->rx.recv = calloc(1, sizeof(*c->rx.recv) + sges * sizeof(struct ibv_sge));
		rc = c->rx.recv ? 0 : -ENOMEM;
	}
	return rc;
}

static void qp_free(struct rd_iw_conn *c)
{
	rd_iw_sq_fini(&c->sq);
	rd_iw_rq_fini(&c->rq);
	free(c->rx.recv);
	c->rx.recv = NULL;
	free(c->resps);
	c->resps = NULL;
}

int rd_iw_qp_create(struct rd_fab_conn *conn, const struct rd_fab_qp_attr *attr)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	int rc;

	if (c->has_qp || !c->base.dev || (c->state != RD_IW_IDLE && c->state != RD_IW_ADOPTED))
		return -EINVAL;
	rc = rd_fab_check_qp_attr(&c->dev->base.caps, attr);
	if (rc)
		return rc;
	c->scq = rd_container_of(attr->send_cq, struct rd_iw_cq, base);
	c->rcq = rd_container_of(attr->recv_cq, struct rd_iw_cq, base);
	c->srq = attr->srq ? rd_container_of(attr->srq, struct rd_iw_srq, base) : NULL;
	c->share = c->srq ? &c->srq->common : NULL;
	rc = qp_queues(c, attr);
	if (rc)
		goto err_free_queues;
	rc = rd_iw_cq_reserve(c->scq, c->sq.depth);
	if (rc)
		goto err_free_queues;
	rc = reserve_recvs(c);
	if (rc)
		goto err_unreserve;
	c->has_qp = true;
	return 0;

err_unreserve:
	rd_iw_cq_unreserve(c->scq, c->sq.depth);
err_free_queues:
	qp_free(c);
	return rc;
}

int rd_iw_conn_open(struct rd_iw_conn *c, const struct rd_iw_depths *eff)
{
	uint32_t size = 1;

	while (size < eff->ird)
		size *= 2;
	c->resps = calloc(size, sizeof(*c->resps));
	if (!c->resps)
		return -ENOMEM;
	c->resp_mask = size - 1;
	c->base.ird = eff->ird;
	c->base.ord = eff->ord;
	c->tx.cur.send_msn = c->tx.cur.read_msn = 1;
	rd_iw_rx_open(c);
	rd_timer_stop(c->fab->base.loop, &c->timer);
	rd_iw_set_state(c, RD_IW_OPEN);
	return 0;
}

/* ---- the end ---- */

static void flush_recvs(struct rd_iw_conn *c)
{
	const struct rd_iw_rwr *r;

	rd_iw_recv_abort(c, IBV_WC_WR_FLUSH_ERR);
	if (c->srq)
		return;
	while ((r = rd_iw_rq_pop(&c->rq)))
		rd_iw_cq_push_flushed(c->rcq, &c->base, r->wr_id);
}

/* Takes the socket from the connection; data in its send buffer is still delivered, unless it was
 * abandoned. */
static void drop_socket(struct rd_iw_conn *c, enum rd_iw_state was)
{
	struct rd_loop *loop = c->fab->base.loop;
	int fd = c->io.fd;

	rd_timer_stop(loop, &c->timer);
	rd_iw_hold_stop(c);
	rd_defer_cancel(loop, &c->flush);
	if (fd < 0)
		return;
	rd_io_del(loop, &c->io);
	c->io.fd = -1;
	if (!c->abandoned && !c->base.moved && (was == RD_IW_OPEN || was == RD_IW_HANDSHAKE))
		rd_iw_drain_start(c->fab, fd, true);
	else
		close(fd);
}

/* Returns the state before; CLOSED means that there was nothing to do. */
static enum rd_iw_state iw_close_conn(struct rd_iw_conn *c)
{
	enum rd_iw_state was = c->state;

	if (was != RD_IW_CLOSED) {
		rd_iw_set_state(c, RD_IW_CLOSED);
		rd_iw_rx_drop(c);
		rd_iw_aside_drop(c);
		drop_socket(c, was);
	}
	return was;
}

static void iw_report_end(struct rd_iw_conn *c, enum rd_iw_state was, const struct rd_iw_swr *bad,
			  enum ibv_wc_status status)
{
	char addr[RD_ADDR_TEXT];
	uint32_t held;

	if (c->has_qp) {
		rd_iw_sq_flush(c, bad, status);
		flush_recvs(c);
	}
	/* Limited: any peer can make connections fail as fast as it connects. */
	if (!c->events.status || rd_ratelimit_pass(&c->fab->ends, rd_loop_now(c->fab->base.loop),
						   RD_NSEC_PER_SEC, ENDS_PER_SEC, &held))
		rd_log(rd_iw_log(c->fab), RD_LOG_FABRIC,
		       c->events.status ? RD_LOG_INFO : RD_LOG_DEBUG, "qp %u: %s: %s",
		       c->base.qp_num,
		       rd_addr_format((const struct sockaddr *)&c->base.remote, addr),
		       c->events.reason);
	if (was == RD_IW_OPEN || was == RD_IW_ADOPTED)
		rd_conn_raise(&c->events, RD_CONN_DISCONNECTED);
	else
		rd_conn_raise(&c->events,
			      c->events.status == -ECONNREFUSED && c->hs && c->hs->in_len
				      ? RD_CONN_REJECTED
				      : RD_CONN_ERROR);
}

void rd_iw_conn_end(struct rd_iw_conn *c, int status, const char *fmt, ...)
{
	enum rd_iw_state was = iw_close_conn(c);
	va_list ap;

	if (was == RD_IW_CLOSED)
		return;
	va_start(ap, fmt);
	rd_conn_vset_reason(&c->events, status, fmt, ap);
	va_end(ap);
	iw_report_end(c, was, NULL, IBV_WC_WR_FLUSH_ERR);
}

void rd_iw_conn_fail_swr(struct rd_iw_conn *c, const struct rd_iw_swr *wr,
			 enum ibv_wc_status status, const char *what)
{
	enum rd_iw_state was = iw_close_conn(c);

	if (was == RD_IW_CLOSED)
		return;
	rd_conn_set_reason(&c->events, -EIO, "%s", what);
	iw_report_end(c, was, wr, status);
}

void rd_iw_conn_term(struct rd_iw_conn *c, uint32_t code, bool with_header)
{
	rd_iw_tx_term(c, code, with_header ? c->rx.hdr : NULL, c->rx.hdr_len);
	rd_iw_conn_end(c, -EPROTO, "peer violated the protocol: %s", rd_iw_term_name(code));
}

/* The kernel reports the close before the data in front of it has been read. */
bool rd_iw_peer_closed(const struct rd_fab_conn *conn)
{
	const struct rd_iw_conn *c = rd_container_of(conn, struct rd_iw_conn, base);

	return c->state == RD_IW_OPEN && rd_tcp_reports(c->io.fd, POLLRDHUP);
}

bool rd_iw_unread(const struct rd_fab_conn *conn)
{
	const struct rd_iw_conn *c = rd_container_of(conn, struct rd_iw_conn, base);
	const struct rd_iw_rx *rx = &c->rx;

	return !rd_wc_ring_empty(&c->rcq->ring) || rx->have || rx->state != RD_IW_RX_HEADER ||
	       rx->recv_active || rx->reasm || rx->rest.bytes || rx->aside_count ||
	       (c->state == RD_IW_OPEN && rd_tcp_reports(c->io.fd, POLLIN));
}

/* An RDMA device stops sending when its user ends the connection. What the passive side sends last,
 * as a response, is to arrive. */
static void abandon_unsent(struct rd_iw_conn *c)
{
	c->abandoned =
		c->state == RD_IW_OPEN && !c->passive && !c->base.moved && rd_tcp_abandon(c->io.fd);
}

void rd_iw_disconnect(struct rd_fab_conn *conn)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	enum rd_iw_state was = c->state;

	if (was == RD_IW_CLOSED)
		return;
	abandon_unsent(c);
	c->tx.turn_bytes = 0; /* there is no next iteration */
	if (was == RD_IW_OPEN && !c->abandoned && !c->base.moved && !c->tx.blocked)
		rd_iw_tx_run(c); /* can end the connection */
	rd_iw_conn_end(c, 0, "disconnected");
	/* The user ends the connection: no earlier event is news to it. */
	rd_conn_replace_events(&c->events, RD_CONN_DISCONNECTED);
}

void rd_iw_conn_destroy(struct rd_fab_conn *conn)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);

	abandon_unsent(c);
	iw_close_conn(c);
	if (c->has_qp) {
		/* A RECV of the shared queue must complete, since other connections use it. */
		if (c->srq)
			rd_iw_recv_abort(c, IBV_WC_WR_FLUSH_ERR);
		rd_iw_cq_purge(c->scq, c->base.qp_num, c->srq);
		if (c->rcq != c->scq)
			rd_iw_cq_purge(c->rcq, c->base.qp_num, c->srq);
		rd_iw_cq_unreserve(c->scq, c->sq.depth);
		unreserve_recvs(c);
	}
	c->fab->stats.conns--;
	qp_free(c);
	rd_conn_events_destroy(&c->events);
}
