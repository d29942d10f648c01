/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening on the main loop, and the hand-over of accepted sockets to reactors. A connection that
 * sends nothing is unassociated, and these are limited in number and time: nvmf/peers.h. */
#include "tcp_tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/acceptor.h"
#include "util/sockaddr.h"
#include "util/tcp.h"
#include "target/config/config.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/placement.h"
#include "target/nvmf/target.h"

#define TCP_BACKLOG 4096 /* hosts connect all their queues at once */

struct tcp_listener {
	struct rdt_listener *l;
	struct rd_acceptor acceptor;
	bool open;
	struct rdt_tcp_tls *tls; /* NULL: connections are plain */
};

/* ---- on the reactor ---- */

void rdt_tcp_hand_back(struct rdt_tcp_handoff *h)
{
	struct rdt_reactor *r = h->reactor;

	nvmf_tls_free(h->tls);
	rdt_peer_gone(r->target, h->peer);
	close(h->fd);
	rdt_unplace(r, true);
	free(h);
}

static void accept_socket(struct rdt_tcp_handoff *h)
{
	struct rdt_reactor *r = h->reactor;
	int err;

	if (r->draining) {
		rdt_tcp_hand_back(h);
		return;
	}
	err = rdt_tcp_conn_new(rdt_tcp_of(r), h);
	free(h);
	if (!err)
		return;
	rd_err(r->log, RD_LOG_QPAIR, "cannot set up a connection: %s", strerror(-err));
	rdt_unplace(r, true);
}

void rdt_tcp_take(struct rdt_handover *over, bool refuse)
{
	struct rdt_tcp_handoff *h = rd_container_of(over, struct rdt_tcp_handoff, over);

	if (refuse)
		rdt_tcp_hand_back(h);
	else
		accept_socket(h);
}

static void tcp_catch_up(struct rdt_reactor *r)
{
	rdt_inbound_catch_up(&rdt_tcp_of(r)->inbound);
}

void rdt_tcp_hand_over(struct rdt_tcp_handoff *h)
{
	rdt_hand_over(&rdt_tcp_of(h->reactor)->inbound, &h->over,
		      rdt_peer_source_on(h->peer, h->reactor));
}

/* ---- on the main loop ---- */

static void report_limit(struct rdt_target *t, const struct sockaddr_storage *remote,
			 const struct rdt_peer_limit *limit)
{
	char addr[RD_ADDR_TEXT], why[RDT_PEER_LIMIT_TEXT];

	rd_log_limited(&t->reject_limit, rd_loop_now(t->loop), t->log, RD_LOG_QPAIR, RD_LOG_WARN,
		       "rejected a connection from %s: %s",
		       rd_addr_format((const struct sockaddr *)remote, addr),
		       rdt_peer_limit_text(limit, why));
}

static int take_socket(struct rd_acceptor *a, int fd, const struct sockaddr_storage *remote)
{
	struct tcp_listener *tl = rd_container_of(a, struct tcp_listener, acceptor);
	struct rdt_listener *l = tl->l;
	struct rdt_target *t = l->target;
	struct rdt_peer_limit limit = {0};
	struct rdt_peer *peer = NULL;
	struct rdt_tcp_handoff *h = NULL;

	if (!rdt_peer_come(t, (const struct sockaddr *)remote, &peer, &limit))
		h = calloc(1, sizeof(*h));
	if (!h) {
		rdt_peer_gone(t, peer);
		report_limit(t, remote, &limit);
		close(fd);
		return 0;
	}
	h->peer = peer;
	h->listener = l;
	h->remote = *remote;
	h->fd = fd;
	/* Connect tells later whether it is an I/O queue. */
	h->reactor = rdt_place(t, true);
	if (!tl->tls)
		rdt_tcp_hand_over(h);
	else if (rdt_tcp_tls_take(tl->tls, h))
		rdt_tcp_hand_back(h);
	return 0;
}

static int tcp_prepare(struct rdt_listener *l)
{
	struct tcp_listener *tl = l->state ? l->state : calloc(1, sizeof(*tl));

	if (!tl)
		return -ENOMEM;
	l->state = tl;
	tl->l = l;
	return 0;
}

static void tcp_forget(struct rdt_listener *l)
{
	free(l->state);
	l->state = NULL;
}

/* Returns a listening socket, or -errno. */
static int open_tcp_socket(const struct rdt_listener *l, const struct sockaddr *at,
			   const struct rd_tcp_opts *opts, struct sockaddr_storage *bound)
{
	int err;

	if (l->inherited_fd < 0)
		return rd_tcp_listen(at, TCP_BACKLOG, opts, bound);
	err = rd_tcp_listen_on(l->inherited_fd, opts, bound);
	return err ? err : l->inherited_fd;
}

static int tcp_listen(struct rdt_listener *l, const struct sockaddr *addr, char *text, size_t size)
{
	struct rd_tcp_opts opts = {
		.congestion = rdt_listener_congestion(l),
		.sndbuf = l->cfg->send_buffer_bytes,
		.rcvbuf = l->cfg->receive_buffer_bytes,
		.peer_timeout_ns = l->target->cfg->target.peer_timeout_ns,
	};
	struct tcp_listener *tl = l->state;
	struct sockaddr_storage at, bound;
	struct rdt_tcp_tls *tls = NULL;
	int fd, err = rdt_listener_address(l, addr, &at, text, size);

	if (err)
		return err;
	if (l->cfg->tls != RDT_TLS_OFF) {
		tls = rdt_tcp_tls_new(l);
		if (!tls) {
			snprintf(text, size,
				 "TLS cannot be set up: out of memory, or libssl "
				 "does not work on this machine");
			return -ENOMEM;
		}
	}
	fd = open_tcp_socket(l, (struct sockaddr *)&at, &opts, &bound);
	tl->acceptor = (struct rd_acceptor){.loop = l->target->loop,
					    .log = l->target->log,
					    .comp = RD_LOG_QPAIR,
					    .held = l->target->listeners_held,
					    .take = take_socket};
	err = fd < 0 ? fd : rd_acceptor_begin(&tl->acceptor, fd);
	if (err) {
		rdt_tcp_tls_free(tls);
		if (fd >= 0 && fd != l->inherited_fd)
			close(fd);
		if (!rdt_listener_bad_congestion(opts.congestion, err, text, size))
			rdt_listener_cannot(l, err, text, size);
		return err;
	}
	tl->open = true;
	tl->tls = tls;
	rdt_listener_bound(l, &bound);
	return 0;
}

static int tcp_listen_fd(const struct rdt_listener *l)
{
	const struct tcp_listener *tl = l->state;

	return tl->acceptor.io.fd;
}

static void tcp_listen_hold(struct rdt_listener *l, bool held)
{
	struct tcp_listener *tl = l->state;

	rd_acceptor_hold(&tl->acceptor, held);
}

static const char *tcp_provider(const struct rdt_listener *l)
{
	return "tcp";
}

static void tcp_describe(const struct rdt_listener *l, struct nvmf_disc_log_entry *e)
{
	static const uint8_t channel[] = {[RDT_TLS_OFF] = NVMF_TREQ_NOT_SPECIFIED,
					  [RDT_TLS_ALLOWED] = NVMF_TREQ_NOT_REQUIRED,
					  [RDT_TLS_REQUIRED] = NVMF_TREQ_REQUIRED};
	uint8_t tls = l ? atomic_load(&l->tls) : RDT_TLS_OFF;

	e->trtype = NVMF_TRTYPE_TCP;
	e->tsas.tcp.sectype = tls == RDT_TLS_OFF ? NVMF_TCP_SECTYPE_NONE : NVMF_TCP_SECTYPE_TLS13;
	e->treq = channel[tls];
}

static void tcp_unlisten(struct rdt_listener *l)
{
	struct tcp_listener *tl = l->state;

	l->listening = false;
	if (!tl || !tl->open)
		return;
	tl->open = false;
	rd_acceptor_end(&tl->acceptor);
	rdt_tcp_tls_free(tl->tls);
	tl->tls = NULL;
}

static int tcp_open(struct rdt_target *t)
{
	return 0;
}

static void tcp_close_target(struct rdt_target *t)
{
}

static void tcp_reactor_status(const struct rdt_reactor *r, char *line, size_t size)
{
	const struct rdt_tcp *tcp = rdt_tcp_of(r);
	size_t len = strlen(line);

	snprintf(line + len, size - len, " tcp_areas=%u tcp_lingers=%u", tcp->areas_used,
		 tcp->lingers_count);
}

const struct rdt_transport rdt_tcp_transport = {
	.name = "TCP",
	.kind = RDT_TRANSPORT_TCP,
	.open = tcp_open,
	.close = tcp_close_target,
	.prepare = tcp_prepare,
	.forget = tcp_forget,
	.listen = tcp_listen,
	.listen_fd = tcp_listen_fd,
	.listen_hold = tcp_listen_hold,
	.provider = tcp_provider,
	.describe = tcp_describe,
	.unlisten = tcp_unlisten,
	.reactor_init = rdt_tcp_init,
	.reactor_fini = rdt_tcp_fini,
	.reactor_catch_up = tcp_catch_up,
	.reactor_move_in = rdt_tcp_move_in,
	.reactor_status = tcp_reactor_status,
};
