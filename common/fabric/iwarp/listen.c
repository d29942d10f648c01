/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive side: listening sockets, MPA requests, adoption, accept and reject. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/acceptor.h"
#include "util/tcp.h"

#include "conn.h"
#include "connect.h"
#include "listen.h"

/*
 * An evicted peer may reconnect at once, without end, and keep a processor busy. So after an
 * eviction the listener pauses; a new connection waits no longer than that.
 */
#define EVICT_PAUSE_NS (20 * RD_NSEC_PER_MSEC)

struct listener {
	struct rd_fab_listener base;
	struct rd_iw_fab *fab;
	struct rd_acceptor acceptor;
	struct rd_iw_halves *halves;
	struct rd_ratelimit rl; /* limits messages about peers */
};

/* ---- listeners ---- */

static struct listener *to_listener(struct rd_fab_listener *lis)
{
	return rd_container_of(lis, struct listener, base);
}

static void on_request(struct rd_iw_req *req, void *arg)
{
	struct listener *lis = arg;
	const struct rd_iw_mpa *m = &req->mpa;

	req->base.private_data = m->pd_len ? m->pd : NULL;
	req->base.private_len = m->pd_len;
	/* Without depths in the request, or with "do not negotiate", the peer accepts any. */
	req->base.peer_ird = req->base.peer_ord = RD_IW_MAX_DEPTH;
	if (m->enhanced && m->ird != RD_MPA_ENH_NO_NEGO)
		req->base.peer_ird = m->ird;
	if (m->enhanced && m->ord != RD_MPA_ENH_NO_NEGO)
		req->base.peer_ord = m->ord;
	if (m->markers) {
		rd_log_limited(&lis->rl, rd_loop_now(lis->fab->base.loop), rd_iw_log(lis->fab),
			       RD_LOG_FABRIC, RD_LOG_INFO,
			       "connection refused: peer requires MPA markers");
		rd_iw_req_reject(&req->base, NULL, 0);
		return;
	}
	lis->base.fn(&lis->base, &req->base, lis->base.arg); /* may unlisten */
}

static struct rd_iw_halves *halves_of(struct rd_acceptor *a)
{
	return rd_container_of(a, struct listener, acceptor)->halves;
}

static int take_half(struct rd_acceptor *a, int fd, const struct sockaddr_storage *remote)
{
	if (rd_iw_halves_full(halves_of(a)))
		a->rest_ns = EVICT_PAUSE_NS;
	return rd_iw_half_start(halves_of(a), fd, remote) == -ENOMEM ? -ENOMEM : 0;
}

static bool evict_for_accept(struct rd_acceptor *a)
{
	a->rest_ns = EVICT_PAUSE_NS;
	return rd_iw_halves_evict(halves_of(a));
}

static void free_listener(struct listener *lis)
{
	rd_iw_halves_destroy(lis->halves);
	free(lis);
}

/* It does not accept yet. */
static int new_iw_listener(struct rd_fab *ffab, rd_fab_listen_fn fn, void *arg,
			   struct listener **out)
{
	struct rd_iw_fab *fab = rd_iw_fab(ffab);
	struct listener *lis;
	int rc;

	if (!fab->box) {
		rc = rd_iw_mailbox_create(fab, &fab->box);
		if (rc)
			return rc;
	}
	lis = calloc(1, sizeof(*lis));
	if (!lis)
		return -ENOMEM;
	lis->base.ops = &rd_iw_ops;
	lis->base.fab = ffab;
	lis->base.fn = fn;
	lis->base.arg = arg;
	lis->base.prtype = "iwarp";
	lis->fab = fab;
	rc = rd_iw_halves_create(fab, on_request, lis, &lis->halves);
	if (rc) {
		free(lis);
		return rc;
	}
	*out = lis;
	return 0;
}

/* On a new socket at @addr; NULL: on @own, which listens already. */
static int start_listener(struct rd_fab *ffab, const struct sockaddr *addr, int backlog, int own,
			  rd_fab_listen_fn fn, void *arg, struct rd_fab_listener **out)
{
	struct rd_tcp_opts opts;
	struct listener *lis;
	int fd = own, rc = new_iw_listener(ffab, fn, arg, &lis);

	if (rc)
		return rc;
	rd_iw_socket_opts(&lis->fab->opts, &opts);
	lis->acceptor = (struct rd_acceptor){
		.loop = ffab->loop,
		.log = rd_iw_log(lis->fab),
		.comp = RD_LOG_FABRIC,
		.take = take_half,
		.make_room = evict_for_accept,
	};
	if (addr)
		fd = rd_tcp_listen(addr, backlog, &opts, &lis->base.addr);
	else
		rc = rd_tcp_listen_on(own, &opts, &lis->base.addr);
	if (!rc)
		rc = fd < 0 ? fd : rd_acceptor_begin(&lis->acceptor, fd);
	if (rc) {
		if (addr && fd >= 0)
			close(fd);
		free_listener(lis);
		return rc;
	}
	lis->fab->stats.listeners++;
	*out = &lis->base;
	return 0;
}

int rd_iw_listen(struct rd_fab *ffab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		 void *arg, struct rd_fab_listener **out)
{
	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	return start_listener(ffab, addr, backlog, -1, fn, arg, out);
}

int rd_iw_listen_on(struct rd_fab *ffab, int fd, rd_fab_listen_fn fn, void *arg,
		    struct rd_fab_listener **out)
{
	return start_listener(ffab, NULL, 0, fd, fn, arg, out);
}

int rd_iw_listen_fd(const struct rd_fab_listener *base)
{
	return rd_container_of(base, const struct listener, base)->acceptor.io.fd;
}

void rd_iw_listen_hold(struct rd_fab_listener *base, bool held)
{
	rd_acceptor_hold(&to_listener(base)->acceptor, held);
}

void rd_iw_unlisten(struct rd_fab_listener *base)
{
	struct listener *lis = to_listener(base);

	rd_acceptor_end(&lis->acceptor);
	lis->fab->stats.listeners--;
	free_listener(lis);
}

/* ---- requests ---- */

static struct rd_iw_req *to_iw_req(struct rd_fab_req *req)
{
	return rd_container_of(req, struct rd_iw_req, base);
}

static int build_reject(const struct rd_iw_mpa *req, const void *priv, size_t len, uint8_t *buf)
{
	struct rd_iw_depths none = {0}, eff;
	struct rd_iw_mpa reply = {.reject = true, .pd = priv, .pd_len = len};

	rd_iw_mpa_answer(req, &none, false, &reply, &eff);
	return rd_iw_mpa_build(&reply, buf);
}

/*
 * Sends an MPA reply with the reject bit. It always fits the empty send buffer of a new socket. The
 * caller then drains the socket until the peer closes it: siw may miss a reject that arrives
 * together with a FIN.
 */
static void send_reject(int fd, const struct rd_iw_mpa *req, const void *priv, size_t len)
{
	uint8_t buf[RD_MPA_MAX_LEN];
	int n;

	if (len > RD_IW_MAX_PRIVATE)
		len = 0;
	n = build_reject(req, priv, len, buf);
	if (n > 0 && send(fd, buf, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* the peer has closed the connection */
}

void rd_iw_req_reject(struct rd_fab_req *base, const void *priv, size_t len)
{
	struct rd_iw_req *req = to_iw_req(base);

	send_reject(req->fd, &req->mpa, priv, len);
	rd_iw_mailbox_send(req->home, req);
}

int rd_iw_req_adopt(struct rd_fab *ffab, struct rd_fab_req *base, rd_fab_event_fn on_event,
		    void *arg, struct rd_fab_conn **out)
{
	struct rd_iw_fab *fab = rd_iw_fab(ffab);
	struct rd_iw_req *req = to_iw_req(base);
	struct rd_iw_conn *c;
	int rc;

	rc = rd_iw_conn_new(fab, on_event, arg, &c);
	if (rc) {
		close(req->fd);
		rd_iw_req_free(req);
		return rc;
	}
	c->passive = true;
	c->io.fd = req->fd;
	c->base.dev = &c->dev->base;
	c->base.local = req->base.local;
	c->base.remote = req->base.remote;
	c->crc = req->crc;
	c->hs->req = req->mpa;
	c->hs->req.pd = NULL;
	c->hs->req.pd_len = 0;
	rd_iw_set_state(c, RD_IW_ADOPTED);
	rd_iw_req_free(req);
	*out = &c->base;
	return 0;
}

/* ---- answers ---- */

/* No data may follow the request: a peer that reads whole frames would lose it. */
static int check_quiet(const struct rd_iw_conn *c)
{
	uint8_t byte;
	ssize_t n = recv(c->io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n > 0)
		return -EPROTO;
	if (n == 0)
		return -ECONNRESET;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static void open_passive(struct rd_iw_conn *c, const struct rd_iw_depths *eff)
{
	int rc;

	rc = check_quiet(c);
	if (rc) {
		rd_iw_conn_end(
			c, rc, "%s",
			rc == -EPROTO
				? "the peer sent data behind its MPA request, before the reply"
				: "peer left during the handshake");
		return;
	}
	rc = rd_iw_handshake_send(c);
	if (rc == 0)
		rc = rd_iw_conn_open(c, eff);
	if (rc) {
		rd_iw_conn_end(c, rc, "sending the MPA reply: %s", strerror(-rc));
		return;
	}
	c->tx.hold = true;
	c->est_due = c->hs->req.p2p;
	/*
	 * The user learns of the connection with its first message, so this file must limit the
	 * time until then.
	 */
	if (c->est_due)
		rc = rd_timer_start(c->fab->base.loop, &c->timer, rd_iw_request_timeout(c->fab));
	if (rc) {
		rd_iw_conn_end(c, rc, "out of memory");
		return;
	}
	rd_iw_conn_watch(c);
	if (c->state == RD_IW_OPEN && !c->est_due)
		rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
}

int rd_iw_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	struct rd_iw_mpa reply = {.pd = param->private_data, .pd_len = param->private_len};
	struct rd_iw_depths eff, want = {.ird = param->ird, .ord = param->ord};
	int rc;

	if (c->state != RD_IW_ADOPTED || !c->has_qp)
		return -EINVAL;
	if (param->private_len > RD_IW_MAX_PRIVATE)
		return -EMSGSIZE;
	if (want.ird > RD_IW_MAX_DEPTH)
		want.ird = RD_IW_MAX_DEPTH;
	if (want.ord > RD_IW_MAX_DEPTH)
		want.ord = RD_IW_MAX_DEPTH;
	rd_iw_mpa_answer(&c->hs->req, &want, c->crc, &reply, &eff);
	rc = rd_iw_mpa_build(&reply, c->hs->out);
	if (rc < 0)
		return rc;
	c->hs->out_len = (uint32_t)rc;
	c->crc = reply.crc;
	open_passive(c, &eff);
	return 0;
}

int rd_iw_reject(struct rd_fab_conn *conn, const void *priv, size_t len)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	int fd = c->io.fd;

	if (c->state != RD_IW_ADOPTED)
		return -EINVAL;
	if (len > RD_IW_MAX_PRIVATE)
		return -EMSGSIZE;
	send_reject(fd, &c->hs->req, priv, len);
	c->io.fd = -1;
	rd_iw_drain_start(c->fab, fd, false);
	rd_iw_conn_end(c, -ECONNREFUSED, "rejected");
	rd_conn_replace_events(&c->events, 0);
	return 0;
}
