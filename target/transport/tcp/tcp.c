/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: data pointers, transfers of requests, and the end; and the transport's state on a
 * reactor. A connection transfers everything by PDUs over one socket: tcp_rx.c, tcp_tx.c. */
#include "tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "util/cold.h"
#include "util/sockaddr.h"
#include "util/tcp.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

/* ---- the stall watchdog ---- */

static bool tcp_in_flight(const struct rdt_tcp_conn *c)
{
	return c->fetched.posted != c->fetched.done || c->answers.posted != c->answers.done;
}

static void watch_tcp_conn(struct rdt_tcp_conn *c, bool pressed)
{
	/* While a command waits for a capsule, the data behind it is not read, which is not the
	 * host's fault, unless it sends more commands than the queue has entries. */
	bool unread = c->rx.held && c->qp.used < c->qp.depth;

	rdt_progress_check(&c->fetched);
	rdt_progress_check(&c->answers);
	rdt_share_late(&c->qp, rdt_progress_late(&c->fetched) || rdt_progress_late(&c->answers));
	if ((rdt_progress_too_slow(&c->fetched, pressed) && !unread) ||
	    rdt_progress_too_slow(&c->answers, pressed))
		rdt_qpair_lost(&c->qp, RDT_END_STALLED,
			       "the host has transferred too little data in the given time");
}

static const struct rdt_transport_ops tcp_ops;

static void watch_tcp_conns(struct rd_timer *timer)
{
	struct rdt_tcp *tcp = rd_container_of(timer, struct rdt_tcp, stall);
	struct rdt_reactor *r = tcp->reactor;
	bool pressed = rdt_progress_pressed(r), again = false;
	struct rdt_qpair *qp;

	TAILQ_FOREACH (qp, &r->qpairs, link) {
		struct rdt_tcp_conn *c = rdt_tcp_conn_of(qp);

		if (qp->ops != &tcp_ops || c->state == RDT_TCP_CLOSED)
			continue;
		watch_tcp_conn(c, pressed);
		again = again || qp->late || tcp_in_flight(c);
	}
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	if (again)
		rd_timer_start(r->loop, timer, RDT_PROGRESS_LOOK);
}

void rdt_tcp_posted(struct rdt_tcp_conn *c, struct rdt_progress *stream, uint32_t len)
{
	struct rdt_tcp *tcp = c->tcp;

	stream->posted += len;
	if (!rd_timer_armed(&tcp->stall) &&
	    rd_timer_start(tcp->reactor->loop, &tcp->stall, RDT_PROGRESS_LOOK))
		rd_err(c->qp.log, RD_LOG_QPAIR, "qid %u: out of memory for the stall watchdog",
		       c->qp.qid);
}

/* ---- data pointers, and what Identify says of them ---- */

static struct nvme_status tcp_parse_sgl(struct rdt_req *req)
{
	const struct rdt_tcp_capsule *k = rd_container_of(req->cap, struct rdt_tcp_capsule, cap);
	const struct nvme_data_sgl *sgl = &req->sqe.sgl.data;

	if (!rdt_sgl_has_psdt(req))
		return rdt_sgl_no_psdt(req);
	if (k->bad) /* the data digest was wrong: the host may retry */
		return nvme_status(NVME_SCT_GENERIC, NVME_SC_TRAN_TPORT_ERROR);
	if (sgl->type == NVME_SGL_IN_CAPSULE)
		return rdt_sgl_in_capsule(req);
	if (sgl->type != NVME_SGL_TCP_DATA)
		return rdt_sgl_bad_type(req, sgl->type >> 4 == NVME_SGL_TCP_DATA >> 4 ||
						     sgl->type >> 4 == NVME_SGL_DATA_BLOCK);
	req->sgl_len = le32toh(sgl->length);
	return NVME_OK;
}

static void tcp_identify(const struct rdt_qpair *qp, struct nvme_id_ctrl *id)
{
	const struct rdt_target_config *cfg = &qp->reactor->target->cfg->target;

	id->sgls = htole32(1 | NVME_CTRL_SGLS_OFFSET | NVME_CTRL_SGLS_TPORT);
	id->msdbd = 1;
	if (!rdt_subsys_is_disc(qp->ctrl->subsys))
		id->ioccsz = htole32((NVME_SQE_SIZE + cfg->in_capsule_bytes) / 16);
}

/* ---- transfers ---- */

static void tcp_fetch(struct rdt_req *req)
{
	struct rdt_tcp_conn *c = rdt_tcp_conn_of(req->qp);
	struct rdt_tcp_req *t = rdt_tcp_req_of(req);

	t->ttag = c->ttags[--c->ttags_free];
	c->asked[t->ttag] = t;
	t->got = 0;
	t->asked = t->bad = false;
	rdt_tcp_posted(c, &c->fetched, req->data_len);
	rdt_tcp_tx_r2t(c, t);
}

static void free_ttag(struct rdt_tcp_conn *c, const struct rdt_tcp_req *t)
{
	c->asked[t->ttag] = NULL;
	c->ttags[c->ttags_free++] = t->ttag;
}

static bool tcp_fetch_cancel(struct rdt_req *req)
{
	struct rdt_tcp_conn *c = rdt_tcp_conn_of(req->qp);
	struct rdt_tcp_req *t = rdt_tcp_req_of(req);

	if (!rdt_tcp_tx_cancel(c, t))
		return false;
	free_ttag(c, t);
	c->fetched.posted -= req->data_len;
	return true;
}

static void tcp_respond(struct rdt_req *req, bool with_data)
{
	rdt_tcp_tx_answer(rdt_tcp_conn_of(req->qp), rdt_tcp_req_of(req), with_data);
}

static void tcp_capsule_done(struct rdt_qpair *qp, struct rdt_capsule *cap)
{
	rdt_tcp_capsule_put(rd_container_of(cap, struct rdt_tcp_capsule, cap));
}

static void tcp_role(struct rdt_qpair *qp)
{
	rdt_qpair_use_pool(qp, &rdt_tcp_of(qp->reactor)->pools[!qp->admin]);
}

static void tcp_joined(struct rdt_qpair *qp)
{
}

/* ---- the end ---- */

RD_COLD void rdt_tcp_refuse(struct rdt_tcp_conn *c, const struct nvme_tcp_error *error)
{
	struct rdt_qpair *qp = &c->qp;
	char text[NVME_TCP_TERM_TEXT], addr[RD_ADDR_TEXT];
	const struct nvme_tcp_hdr *hdr = (const void *)c->rx.head;
	uint8_t buf[NVME_TCP_TERM_MAX];
	size_t len = nvme_tcp_build_term(buf, NVME_TCP_C2H_TERM, error, c->rx.head, c->rx.have);

	rd_log_limited(&c->tcp->refused_limit, rd_loop_now(qp->reactor->loop), qp->log,
		       RD_LOG_QPAIR, RD_LOG_NOTICE, "qid %u from %s: refused a PDU (%s): %s; %s",
		       qp->qid, rd_addr_format((const struct sockaddr *)&qp->remote, addr),
		       nvme_tcp_type_text(hdr->type), error->what,
		       nvme_tcp_term_text(error->fes, error->fei, text));
	/* In the middle of another PDU, the host would read it as data. */
	if (!c->tx_sent)
		c->term_sent = rdt_tcp_send_short(c, buf, len);
	rdt_qpair_lost(qp, RDT_END_FAULT, error->what);
}

static void drop_tcp_socket(struct rdt_tcp_conn *c, bool linger)
{
	rd_io_del(c->qp.reactor->loop, &c->io);
	if (linger)
		rdt_tcp_linger(c->tcp, c->io.fd);
	else
		close(c->io.fd);
	c->io.fd = -1;
}

static void tcp_close(struct rdt_qpair *qp)
{
	struct rdt_tcp_conn *c = rdt_tcp_conn_of(qp);
	struct rdt_tcp *tcp = c->tcp;
	struct rd_loop *loop = qp->reactor->loop;

	/* The last answers, such as the one to a Disconnect, were queued in this loop iteration. */
	if (c->state == RDT_TCP_RUNNING && !c->eof && !c->term_sent && !c->blocked && !qp->moved)
		rdt_tcp_tx_last(c);
	c->state = RDT_TCP_CLOSED;
	rdt_tcp_area_unwait(c);
	if (c->resume.queued)
		rdt_tcp_area_free(tcp); /* it may have been offered to this connection */
	rd_defer_cancel(loop, &c->flush);
	rd_defer_cancel(loop, &c->resume);
	rd_defer_cancel(loop, &c->again);
	rdt_tcp_stream_end(c);
	drop_tcp_socket(c, !qp->moved && (c->term_sent || (qp->ctrl && !c->eof)));
	rd_defer(loop, &c->finish, RD_DEFER_WORK);
}

static void finish_tcp_close(struct rd_defer *defer)
{
	struct rdt_tcp_conn *c = rd_container_of(defer, struct rdt_tcp_conn, finish);
	struct rdt_tcp_req *t;

	rdt_tcp_rx_drop(c);
	for (unsigned int i = 0; i < c->qp.depth; i++) {
		t = c->asked[i];
		if (!t)
			continue;
		rdt_tcp_tx_forget(c, t);
		free_ttag(c, t);
		rdt_req_fetched(&t->req, -ECANCELED);
	}
	while ((t = TAILQ_FIRST(&c->tx))) {
		rdt_tcp_tx_forget(c, t);
		rdt_req_responded(&t->req);
	}
	rdt_qpair_transport_closed(&c->qp);
}

static bool tcp_peer_closed(const struct rdt_qpair *qp)
{
	return rd_tcp_reports(rdt_tcp_conn_of(qp)->io.fd, POLLRDHUP);
}

static int tcp_unread(const struct rdt_qpair *qp)
{
	const struct rdt_tcp_conn *c = rdt_tcp_conn_of(qp);

	return c->rx.have || c->rx.state != RDT_TCP_RX_HEAD ||
	       (c->tls && nvmf_tls_pending(c->tls)) || rd_tcp_reports(c->io.fd, POLLIN);
}

void rdt_tcp_conn_free(struct rdt_tcp_conn *c)
{
	struct rd_loop *loop = c->qp.reactor->loop;
	struct rdt_tcp_capsule *k;

	rd_defer_cancel(loop, &c->flush);
	rd_defer_cancel(loop, &c->resume);
	rd_defer_cancel(loop, &c->again);
	rd_defer_cancel(loop, &c->finish);
	nvmf_tls_free(c->tls);
	if (c->io.fd >= 0)
		drop_tcp_socket(c, false);
	/* Capsules of commands that were dropped when the queue pair ended. */
	while ((k = LIST_FIRST(&c->capsules)))
		rdt_tcp_capsule_put(k);
	rdt_qpair_fini(&c->qp);
	if (c->qp.req_pool)
		rdt_req_pool_trim(c->qp.req_pool);
	free(c->asked);
	free(c->ttags);
	free(c);
}

static void tcp_destroy(struct rdt_qpair *qp)
{
	rdt_tcp_conn_free(rdt_tcp_conn_of(qp));
}

static const struct rdt_transport_ops tcp_ops = {
	.name = "tcp",
	.trtype = NVMF_TRTYPE_TCP,
	.parse_sgl = tcp_parse_sgl,
	.fetch = tcp_fetch,
	.fetch_cancel = tcp_fetch_cancel,
	.respond = tcp_respond,
	.identify = tcp_identify,
	.role = tcp_role,
	.joined = tcp_joined,
	.capsule_done = tcp_capsule_done,
	.close = tcp_close,
	.peer_closed = tcp_peer_closed,
	.unread = tcp_unread,
	.hold = rdt_tcp_hold,
	.rests = rdt_tcp_rests,
	.move_out = rdt_tcp_move_out,
	.destroy = tcp_destroy,
};

/* ---- the socket ---- */

void rdt_tcp_watch(struct rdt_tcp_conn *c)
{
	uint32_t want = (c->rx.held || c->stopped ? 0 : EPOLLIN) | (c->blocked ? EPOLLOUT : 0);

	if (c->state == RDT_TCP_CLOSED || c->io.events == want)
		return;
	if (rd_io_mod(c->qp.reactor->loop, &c->io, want))
		rdt_qpair_lost(&c->qp, RDT_END_FAULT, "the socket cannot be watched");
}

/* While a command waits for a capsule, nothing is read, so a broken socket must be noticed here. */
static void look_at_socket(struct rdt_tcp_conn *c, uint32_t events)
{
	int err = rd_tcp_broken(c->io.fd, events);

	if (err)
		rdt_qpair_lost(&c->qp, RDT_END_LOST, strerror(-err));
}

static void tcp_io(struct rd_io *io, uint32_t events)
{
	struct rdt_tcp_conn *c = rd_container_of(io, struct rdt_tcp_conn, io);

	/* Read first, and never wait for writing: otherwise both sides could block each other. */
	if (c->rx.held || c->stopped)
		look_at_socket(c, events);
	else if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		rdt_tcp_rx_run(c);
	if (c->state != RDT_TCP_CLOSED && events & EPOLLOUT) {
		c->blocked = false;
		rdt_tcp_watch(c);
		rd_defer(c->qp.reactor->loop, &c->flush, RD_DEFER_SEND);
	}
}

static bool tcp_try(struct rd_io *io)
{
	struct rdt_tcp_conn *c = rd_container_of(io, struct rdt_tcp_conn, io);

	return c->state != RDT_TCP_CLOSED && !c->rx.held && !c->stopped && rdt_tcp_rx_run(c);
}

static void flush_tcp(struct rd_defer *defer)
{
	struct rdt_tcp_conn *c = rd_container_of(defer, struct rdt_tcp_conn, flush);

	if (c->state == RDT_TCP_RUNNING && !c->blocked)
		rdt_tcp_tx_run(c);
}

static void resume_tcp(struct rd_defer *defer)
{
	rdt_tcp_rx_resume(rd_container_of(defer, struct rdt_tcp_conn, resume));
}

static void read_tcp_again(struct rd_defer *defer)
{
	struct rdt_tcp_conn *c = rd_container_of(defer, struct rdt_tcp_conn, again);

	if (c->state != RDT_TCP_CLOSED && !c->rx.held && !c->stopped)
		rdt_tcp_rx_run(c);
}

/* ---- creation ---- */

static uint16_t most_entries_of_a_queue(const struct rdt_reactor *r)
{
	uint32_t depth = r->target->cfg->target.queue_depth;

	return (uint16_t)(depth < RDT_ADMIN_DEPTH_MAX ? RDT_ADMIN_DEPTH_MAX : depth);
}

static int tcp_conn_tables(struct rdt_tcp_conn *c)
{
	unsigned int depth = c->qp.depth;

	c->asked = calloc(depth, sizeof(*c->asked));
	c->ttags = calloc(depth, sizeof(*c->ttags));
	if (!c->asked || !c->ttags)
		return -ENOMEM;
	for (unsigned int i = 0; i < depth; i++)
		c->ttags[c->ttags_free++] = (uint16_t)(depth - 1 - i);
	return 0;
}

int rdt_tcp_conn_make(struct rdt_tcp *tcp, const struct rdt_tcp_handoff *h,
		      struct rdt_tcp_conn **out)
{
	struct rdt_reactor *r = tcp->reactor;
	struct rdt_tcp_conn *c = calloc(1, sizeof(*c));
	socklen_t len = sizeof(c->qp.local);
	int err;

	if (!c) {
		nvmf_tls_free(h->tls);
		close(h->fd);
		rdt_peer_gone(r->target, h->peer);
		return -ENOMEM;
	}
	c->tcp = tcp;
	c->state = RDT_TCP_WAIT_ICREQ;
	c->rules.from_host = true;
	c->rx.turn.room = RDT_TCP_STAGING;
	c->io.fd = h->fd;
	c->tls = h->tls;
	c->io.try_read = tcp_try;
	c->flush.fn = flush_tcp;
	c->resume.fn = resume_tcp;
	c->again.fn = read_tcp_again;
	c->finish.fn = finish_tcp_close;
	TAILQ_INIT(&c->tx);
	LIST_INIT(&c->capsules);
	err = rdt_qpair_init(&c->qp, r, &tcp_ops, RDT_QID_ANY, most_entries_of_a_queue(r));
	c->qp.peer = h->peer;
	if (!err)
		err = tcp_conn_tables(c);
	if (err)
		goto err_free;
	rdt_qpair_use_pool(&c->qp, &tcp->pools[0]);
	c->qp.listener = h->listener;
	c->qp.unproven = rdt_listener_unproven(h->listener);
	if (c->qp.in_capsule_max < NVME_TCP_ADMIN_IN_CAPSULE)
		c->qp.in_capsule_max = NVME_TCP_ADMIN_IN_CAPSULE;
	c->qp.remote = h->remote;
	if (c->tls) {
		nvmf_tls_info(c->tls, &c->tls_info);
		c->qp.tls = &c->tls_info;
	}
	if (getsockname(h->fd, (struct sockaddr *)&c->qp.local, &len)) {
		err = -errno;
		goto err_free;
	}
	*out = c;
	return 0;

err_free:
	rdt_tcp_conn_free(c);
	return err;
}

int rdt_tcp_conn_begin(struct rdt_tcp_conn *c)
{
	struct rdt_reactor *r = c->tcp->reactor;
	int err = rd_io_add(r->loop, &c->io, c->io.fd, c->stopped ? 0 : EPOLLIN, tcp_io);

	if (err) {
		rdt_tcp_conn_free(c);
		return err;
	}
	rdt_qpair_start(&c->qp);
	/* The handshake may have read the first PDU too. */
	if (c->tls)
		rd_defer(r->loop, &c->again, RD_DEFER_NEXT);
	return 0;
}

int rdt_tcp_conn_new(struct rdt_tcp *tcp, const struct rdt_tcp_handoff *h)
{
	struct rdt_tcp_conn *c;
	int err = rdt_tcp_conn_make(tcp, h, &c);

	return err ? err : rdt_tcp_conn_begin(c);
}

/* ---- state of a reactor ---- */

int rdt_tcp_init(struct rdt_reactor *r)
{
	static const struct rdt_req_mem mem = {
		.size = sizeof(struct rdt_tcp_req),
		.offset = offsetof(struct rdt_tcp_req, req),
	};
	struct rdt_tcp *tcp = calloc(1, sizeof(*tcp));
	int err = 0;

	if (!tcp)
		return -ENOMEM;
	r->transport_state[RDT_TRANSPORT_TCP] = tcp;
	tcp->reactor = r;
	tcp->stall.fn = watch_tcp_conns;
	TAILQ_INIT(&tcp->lingers);
	tcp->pieces.pass = 1;
	rdt_inbound_init(&tcp->inbound, r, RDT_TRANSPORT_TCP, rdt_tcp_take);
	rdt_tcp_capsules_init(tcp);
	tcp->staging = malloc(RDT_TCP_STAGING);
	if (!tcp->staging)
		return -ENOMEM;
	for (int i = 0; i < 2 && !err; i++)
		err = rdt_req_pool_init(&tcp->pools[i], r->loop, &mem, NULL);
	return err;
}

void rdt_tcp_fini(struct rdt_reactor *r)
{
	struct rdt_tcp *tcp = rdt_tcp_of(r);

	if (!tcp)
		return;
	rdt_inbound_fini(&tcp->inbound);
	rdt_tcp_lingers_end(tcp);
	rd_timer_stop(r->loop, &tcp->stall);
	for (int i = 0; i < 2; i++)
		rdt_req_pool_fini(&tcp->pools[i]);
	rdt_tcp_capsules_fini(tcp);
	free(tcp->staging);
	free(tcp);
	r->transport_state[RDT_TRANSPORT_TCP] = NULL;
}
