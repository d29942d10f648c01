/* SPDX-License-Identifier: BSD-3-Clause */
/* The active side: resolve, TCP connect, MPA request, MPA reply. */
#include <errno.h>

#include "util/sockaddr.h"

#include "conn.h"
#include "connect.h"

#define CONNECT_TIMEOUT_NS (20 * RD_NSEC_PER_SEC)
#define PEER_TIMEOUT_NS    (60 * RD_NSEC_PER_SEC)
#define REPLY_TIMEOUT_NS   (10 * RD_NSEC_PER_SEC)

void rd_iw_socket_opts(const struct rd_fab_iwarp_opts *opts, struct rd_tcp_opts *out)
{
	uint64_t ns = opts->peer_timeout_ns ? opts->peer_timeout_ns : PEER_TIMEOUT_NS;

	*out = (struct rd_tcp_opts){
		.congestion = opts->congestion,
		.sndbuf = opts->sndbuf,
		.rcvbuf = opts->rcvbuf,
		.peer_timeout_ns = ns == RD_FAB_IWARP_NEVER ? 0 : ns,
	};
}

int rd_iw_resolve(struct rd_fab *ffab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out)
{
	struct rd_iw_fab *fab = rd_iw_fab(ffab);
	uint64_t timeout = attr->timeout_ns ? attr->timeout_ns : CONNECT_TIMEOUT_NS;
	struct rd_iw_conn *c;
	int rc;

	if (attr->dst->sa_family != AF_INET && attr->dst->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	rc = rd_iw_conn_new(fab, attr->on_event, attr->arg, &c);
	if (rc)
		return rc;
	memcpy(&c->base.remote, attr->dst, rd_addr_len(attr->dst));
	if (attr->src)
		memcpy(&c->base.local, attr->src, rd_addr_len(attr->src));
	c->deadline = rd_loop_now(ffab->loop) + timeout;
	rc = rd_timer_start(ffab->loop, &c->timer, timeout);
	if (rc) {
		rd_iw_conn_destroy(&c->base);
		return rc;
	}
	rd_conn_raise(&c->events, RD_CONN_RESOLVED);
	*out = &c->base;
	return 0;
}

static uint16_t clamp_depth(uint16_t depth)
{
	return depth < RD_IW_MAX_DEPTH ? depth : RD_IW_MAX_DEPTH;
}

static void fill_request(struct rd_iw_conn *c, const struct rd_fab_conn_param *param)
{
	const struct rd_fab_iwarp_opts *opts = &c->fab->opts;
	struct rd_iw_mpa *m = &c->hs->req;

	m->revision = opts->mpa_revision ? opts->mpa_revision : RD_MPA_REVISION;
	m->crc = opts->crc;
	m->enhanced = m->revision >= 2;
	m->p2p = m->enhanced && !opts->no_peer_to_peer;
	m->rtr_write = m->rtr_read = m->p2p;
	m->ird = clamp_depth(param->ird);
	m->ord = clamp_depth(param->ord);
	/* Offering a READ as the first message needs an ORD of at least 1. */
	if (m->rtr_read && m->ord == 0)
		m->ord = 1;
	m->pd = param->private_data;
	m->pd_len = param->private_len;
}

static int start_tcp(struct rd_iw_conn *c)
{
	const struct sockaddr *dst = (const struct sockaddr *)&c->base.remote;
	const struct sockaddr *src = (const struct sockaddr *)&c->base.local;
	struct rd_tcp_opts opts;
	int rc;

	c->io.fd = socket(dst->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->io.fd < 0)
		return -errno;
	rd_iw_socket_opts(&c->fab->opts, &opts);
	rc = rd_tcp_set_opts(c->io.fd, &opts);
	if (rc)
		return rc;
	if (src->sa_family != AF_UNSPEC && bind(c->io.fd, src, rd_addr_len(src)))
		return -errno;
	if (connect(c->io.fd, dst, rd_addr_len(dst)) && errno != EINPROGRESS)
		return -errno;
	return 0;
}

int rd_iw_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	int rc;

	if (c->state != RD_IW_IDLE || !c->has_qp)
		return -EINVAL;
	if (param->private_len > RD_IW_MAX_PRIVATE)
		return -EMSGSIZE;
	fill_request(c, param);
	rc = rd_iw_mpa_build(&c->hs->req, c->hs->out);
	if (rc < 0)
		return rc;
	c->hs->out_len = (uint32_t)rc;
	c->hs->req.pd = NULL;
	c->hs->req.pd_len = 0;
	/* The depth that the user wants, without the place for a READ as first message. */
	c->base.ord = clamp_depth(param->ord);
	rc = start_tcp(c);
	if (rc) {
		rd_iw_conn_end(c, rc, "connect: %s", strerror(-rc));
		return 0;
	}
	rd_iw_set_state(c, RD_IW_CONNECTING);
	rd_iw_conn_watch(c);
	return 0;
}

int rd_iw_handshake_send(struct rd_iw_conn *c)
{
	struct rd_iw_handshake *hs = c->hs;

	while (hs->out_off < hs->out_len) {
		ssize_t n = send(c->io.fd, hs->out + hs->out_off, hs->out_len - hs->out_off,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		hs->out_off += (uint32_t)n;
	}
	return 0;
}

static void request_out(struct rd_iw_conn *c)
{
	int rc = rd_iw_handshake_send(c);

	if (rc && rc != -EAGAIN)
		rd_iw_conn_end(c, rc, "sending the MPA request: %s", strerror(-rc));
	else
		rd_iw_conn_watch(c);
}

static void tcp_connected(struct rd_iw_conn *c)
{
	struct rd_loop *loop = c->fab->base.loop;
	uint64_t now = rd_loop_now(loop), wait = c->fab->opts.reply_timeout_ns;
	socklen_t len = sizeof(c->base.local);
	int err = 0;
	socklen_t err_len = sizeof(err);

	if (getsockopt(c->io.fd, SOL_SOCKET, SO_ERROR, &err, &err_len))
		err = errno;
	if (err) {
		rd_iw_conn_end(c, -err, "connect: %s", strerror(err));
		return;
	}
	if (getsockname(c->io.fd, (struct sockaddr *)&c->base.local, &len)) {
		rd_iw_conn_end(c, -errno, "getsockname: %s", strerror(errno));
		return;
	}
	if (!wait)
		wait = REPLY_TIMEOUT_NS;
	/* Re-arming cannot fail. The earlier of the two deadlines applies. */
	if (now + wait < c->deadline)
		rd_timer_start(loop, &c->timer, wait);
	rd_iw_set_state(c, RD_IW_HANDSHAKE);
	c->events.unanswered = true;
	request_out(c);
}

/* Sends a Terminate with the reason (RFC 6581 section 8) and ends the connection. */
static void refuse_reply(struct rd_iw_conn *c, uint32_t term, const char *why)
{
	rd_iw_tx_term(c, term, NULL, 0);
	rd_iw_conn_end(c, -EPROTO, "%s", why);
}

static void establish_active(struct rd_iw_conn *c, const struct rd_iw_depths *eff,
			     enum rd_iw_rtr rtr)
{
	int rc = rd_iw_hold_start(c);

	if (rc == 0)
		rc = rd_iw_conn_open(c, eff);
	if (rc) {
		rd_iw_conn_end(c, rc, "out of memory");
		return;
	}
	if (rtr != RD_IW_RTR_NONE) {
		c->tx.rtr = (uint8_t)rtr;
		c->tx.cur.src = RD_IW_SRC_RTR;
	}
	rd_iw_conn_watch(c);
	if (c->state == RD_IW_OPEN)
		rd_iw_tx_run(c);
	rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
}

static void reply_done(struct rd_iw_conn *c)
{
	struct rd_iw_handshake *hs = c->hs;
	struct rd_iw_depths eff;
	enum rd_iw_rtr rtr;
	struct rd_iw_mpa reply;
	uint16_t wanted = c->base.ord;
	const char *why;
	uint32_t term;

	if (rd_iw_mpa_parse(hs->in, hs->in_len, true, &reply, &why)) {
		refuse_reply(c, RD_TERM_MPA_STARTUP, why);
		return;
	}
	c->events.unanswered = false;
	c->events.private_data = reply.pd;
	c->events.private_len = reply.pd_len;
	if (reply.reject) {
		rd_iw_conn_end(c, -ECONNREFUSED, "rejected by the peer");
		return;
	}
	c->crc = hs->req.crc || reply.crc;
	if (rd_iw_mpa_check(&hs->req, &reply, &eff, &rtr, &term, &why)) {
		refuse_reply(c, term, why);
		return;
	}
	if (eff.ord > wanted)
		eff.ord = wanted;
	establish_active(c, &eff, rtr);
}

/*
 * Reads the reply and nothing behind it: FPDUs are left to rx.c. Returns 1 (the reply is complete),
 * 0 (more is needed) or -1 (the connection ended).
 */
static int read_reply(struct rd_iw_conn *c)
{
	struct rd_iw_handshake *hs = c->hs;

	for (;;) {
		const char *why;
		int need = rd_iw_mpa_length(hs->in, hs->in_len, true, &why);
		ssize_t n;

		if (need < 0) {
			refuse_reply(c, RD_TERM_MPA_STARTUP, why);
			return -1;
		}
		if ((uint32_t)need == hs->in_len)
			return 1;
		n = recv(c->io.fd, hs->in + hs->in_len, (size_t)need - hs->in_len, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			rd_iw_conn_end(c, n ? -errno : -ECONNRESET,
				       "peer closed the connection without an MPA reply "
				       "(it may not know MPA revision %u)",
				       hs->req.revision);
			return -1;
		}
		hs->in_len += (uint32_t)n;
	}
}

void rd_iw_handshake_io(struct rd_iw_conn *c, uint32_t events)
{
	if (c->state == RD_IW_CONNECTING) {
		tcp_connected(c);
		return;
	}
	if (c->hs->out_off < c->hs->out_len) {
		request_out(c);
		return;
	}
	if (read_reply(c) > 0)
		reply_done(c);
}
