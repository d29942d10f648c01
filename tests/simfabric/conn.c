/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: listeners, requests, accept and reject, and the end. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/conn_events.h"
#include "util/sockaddr.h"

#include "internal.h"

#define CONNECT_TIMEOUT (20 * RD_NSEC_PER_SEC)
#define FIRST_PORT      50000u

static uint16_t smaller(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

/* ---- listeners ---- */

static void deliver_requests(struct rd_defer *defer)
{
	struct rd_sim_listener *lis = rd_container_of(defer, struct rd_sim_listener, deliver);
	struct rd_sim_req *req = STAILQ_FIRST(&lis->reqs);

	if (!req)
		return;
	STAILQ_REMOVE_HEAD(&lis->reqs, entry);
	if (!STAILQ_EMPTY(&lis->reqs))
		rd_defer(lis->base.fab->loop, &lis->deliver, RD_DEFER_WORK);
	lis->base.fn(&lis->base, &req->base, lis->base.arg); /* may end the listener */
}

int rd_sim_listen(struct rd_fab *base, const struct sockaddr *addr, int backlog,
		  rd_fab_listen_fn fn, void *arg, struct rd_fab_listener **out)
{
	struct rd_sim *sim = rd_sim_fab_of(base)->sim;
	struct rd_sim_listener *lis;

	LIST_FOREACH (lis, &sim->listeners, entry)
		if (rd_addr_equal((struct sockaddr *)&lis->base.addr, addr))
			return -EADDRINUSE;
	lis = calloc(1, sizeof(*lis));
	if (!lis)
		return -ENOMEM;
	lis->base = (struct rd_fab_listener){
		.ops = &rd_sim_ops, .fab = base, .prtype = "iwarp", .fn = fn, .arg = arg};
	memcpy(&lis->base.addr, addr, rd_addr_len(addr));
	if (!rd_addr_port(addr))
		rd_addr_set_port((struct sockaddr *)&lis->base.addr,
				 (uint16_t)(FIRST_PORT + sim->ports++));
	STAILQ_INIT(&lis->reqs);
	lis->deliver.fn = deliver_requests;
	LIST_INSERT_HEAD(&sim->listeners, lis, entry);
	*out = &lis->base;
	return 0;
}

void rd_sim_unlisten(struct rd_fab_listener *base)
{
	struct rd_sim_listener *lis = rd_container_of(base, struct rd_sim_listener, base);
	struct rd_sim_req *req;

	while ((req = STAILQ_FIRST(&lis->reqs))) {
		STAILQ_REMOVE_HEAD(&lis->reqs, entry);
		rd_sim_req_reject(&req->base, NULL, 0);
	}
	rd_defer_cancel(base->fab->loop, &lis->deliver);
	LIST_REMOVE(lis, entry);
	free(lis);
}

static struct rd_sim_listener *find_sim_listener(const struct rd_sim *sim,
						 const struct sockaddr *addr)
{
	struct rd_sim_listener *lis;

	LIST_FOREACH (lis, &sim->listeners, entry) {
		const struct sockaddr *own = (struct sockaddr *)&lis->base.addr;

		if (rd_addr_equal(own, addr) ||
		    (rd_addr_is_any(own) && rd_addr_port(own) == rd_addr_port(addr)))
			return lis;
	}
	return NULL;
}

/* ---- both sides ---- */

static void free_sim_conn(struct rd_fab_conn *base)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);

	c->fab->conns--;
	free(c);
}

static int new_sim_conn(struct rd_sim_fab *fab, enum rd_sim_state state, rd_fab_event_fn fn,
			void *arg, struct rd_sim_conn **out)
{
	struct rd_sim_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->base = (struct rd_fab_conn){
		.ops = &rd_sim_ops, .on_event = fn, .arg = arg, .qp_num = ++fab->next_qpn};
	c->fab = fab;
	c->end = (struct rd_sim_end){.ops = &rd_sim_qp_end,
				     .sim = fab->sim,
				     .local = &c->base.local,
				     .remote = &c->base.remote};
	c->state = state;
	TAILQ_INIT(&c->sq);
	STAILQ_INIT(&c->rq);
	rd_conn_events_init(&c->events, &c->base, fab->base.loop, free_sim_conn);
	c->events.dev = &fab->dev;
	fab->conns++;
	*out = c;
	return 0;
}

int rd_sim_qp_create(struct rd_fab_conn *base, const struct rd_fab_qp_attr *attr)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);
	int rc = rd_fab_check_qp_attr(&c->fab->dev.caps, attr);

	if (rc || c->has_qp || attr->srq)
		return -EINVAL;
	c->attr = *attr;
	c->has_qp = true;
	return 0;
}

/* The connection leaves its link; its work requests are flushed. */
static void close_sim_conn(struct rd_sim_conn *c, bool tell)
{
	struct rd_sim_link *link = c->end.link;

	c->state = RD_SIM_CLOSED;
	rd_sim_cancel(c->fab->sim, &c->end.timer);
	c->end.link = NULL;
	if (link) {
		rd_sim_link_detach(link, !c->end.side, c);
		if (c->end.side == 0)
			rd_sim_link_drop_held(link, 1);
		if (tell)
			rd_sim_link_send(link, !c->end.side,
					 (struct rd_sim_msg){.kind = RD_SIM_MSG_FIN});
	}
	rd_sim_qp_flush(c);
	if (link)
		rd_sim_link_leave(link, c->end.side);
}

void rd_sim_end(struct rd_sim_conn *c, int status, bool tell, const char *reason)
{
	if (c->state == RD_SIM_CLOSED)
		return;
	close_sim_conn(c, tell);
	rd_conn_set_reason(&c->events, status, "%s", reason);
	rd_conn_raise(&c->events, RD_CONN_DISCONNECTED);
}

void rd_sim_disconnect(struct rd_fab_conn *base)
{
	rd_sim_end(rd_sim_conn_of(base), 0, true, "closed by this side");
}

bool rd_sim_peer_closed(const struct rd_fab_conn *base)
{
	const struct rd_sim_conn *c = rd_container_of(base, const struct rd_sim_conn, base);

	return c->state == RD_SIM_CLOSED;
}

void rd_sim_conn_destroy(struct rd_fab_conn *base)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);

	if (c->state != RD_SIM_CLOSED)
		close_sim_conn(c, true);
	if (c->has_qp) {
		rd_sim_cq_purge(c->attr.send_cq, base->qp_num);
		rd_sim_cq_purge(c->attr.recv_cq, base->qp_num);
	}
	rd_conn_events_destroy(&c->events);
}

static void sim_attempt_failed(struct rd_sim_conn *c, int status, const char *reason)
{
	close_sim_conn(c, true);
	rd_conn_set_reason(&c->events, status, "%s", reason);
	rd_conn_raise(&c->events, RD_CONN_ERROR);
}

static void sim_timer(struct rd_sim_event *event)
{
	struct rd_sim_conn *c = rd_container_of(event, struct rd_sim_conn, end.timer);

	if (c->state == RD_SIM_CONNECTING)
		sim_attempt_failed(c, -ETIMEDOUT, "no answer");
	else
		rd_sim_end(c, c->end.timer_status, false, "the connection was lost");
}

/* ---- active side ---- */

int rd_sim_resolve(struct rd_fab *base, const struct rd_fab_resolve_attr *attr,
		   struct rd_fab_conn **out)
{
	struct rd_sim_fab *fab = rd_sim_fab_of(base);
	struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(FIRST_PORT + fab->next_port++ % 10000)),
		.sin_addr.s_addr = htonl(0x0a000000 + fab->id),
	};
	struct rd_sim_conn *c;
	int rc;

	if (attr->dst->sa_family != AF_INET && attr->dst->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	rc = new_sim_conn(fab, RD_SIM_IDLE, attr->on_event, attr->arg, &c);
	if (rc)
		return rc;
	c->timeout_ns = attr->timeout_ns ? attr->timeout_ns : CONNECT_TIMEOUT;
	c->end.timer.fn = sim_timer;
	memcpy(&c->base.remote, attr->dst, rd_addr_len(attr->dst));
	if (attr->src)
		memcpy(&c->base.local, attr->src, rd_addr_len(attr->src));
	else
		memcpy(&c->base.local, &own, sizeof(own));
	rd_conn_raise(&c->events, RD_CONN_RESOLVED);
	*out = &c->base;
	return 0;
}

void rd_sim_rejected(struct rd_sim_conn *c)
{
	close_sim_conn(c, false);
	rd_conn_set_reason(&c->events, -ECONNREFUSED, "rejected by the peer");
	rd_conn_raise(&c->events, RD_CONN_REJECTED);
}

/* The request has arrived where its address leads to. */
static void request_arrived(struct rd_sim_event *event)
{
	struct rd_sim_link *link = rd_container_of(event, struct rd_sim_link, request);
	struct rd_sim_conn *c =
		link->end[0] ? rd_container_of(link->end[0], struct rd_sim_conn, end) : NULL;
	struct rd_sim_listener *lis;
	struct rd_sim_req *req;

	if (!c || rd_sim_port_is_down(link->sim, rd_addr_port((struct sockaddr *)&c->base.remote)))
		goto out;
	lis = find_sim_listener(link->sim, (struct sockaddr *)&c->base.remote);
	if (!lis) {
		sim_attempt_failed(c, -ECONNREFUSED, "nobody listens there");
		return;
	}
	req = calloc(1, sizeof(*req));
	if (!req)
		goto out;
	rd_sim_tell(link->sim, "link %llu: request", (unsigned long long)link->id);
	memcpy(req->private_data, link->private_data, link->private_len);
	req->link = link;
	req->base = (struct rd_fab_req){
		.ops = &rd_sim_ops,
		.local = c->base.remote,
		.remote = c->base.local,
		.private_data = req->private_data,
		.private_len = link->private_len,
		.peer_ird = link->ird,
		.peer_ord = link->ord,
	};
	link->req = req;
	STAILQ_INSERT_TAIL(&lis->reqs, req, entry);
	rd_defer(lis->base.fab->loop, &lis->deliver, RD_DEFER_WORK);
	return;

out:
	rd_sim_link_settle(link);
}

int rd_sim_connect(struct rd_fab_conn *base, const struct rd_fab_conn_param *param)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);
	struct rd_sim *sim = c->fab->sim;
	struct rd_sim_link *link;
	int rc;

	if (param->private_len > RD_SIM_MAX_PRIVATE)
		return -EMSGSIZE;
	if (c->state != RD_SIM_IDLE || !c->has_qp)
		return -EINVAL;
	rc = rd_sim_link_create(&c->end, &link);
	if (rc)
		return rc;
	link->port = rd_addr_port((struct sockaddr *)&c->base.remote);
	link->ird = smaller(param->ird, c->fab->dev.caps.max_ird);
	link->ord = smaller(param->ord, c->fab->dev.caps.max_ord);
	if (param->private_len)
		memcpy(link->private_data, param->private_data, param->private_len);
	link->private_len = param->private_len;
	link->request.fn = request_arrived;
	c->state = RD_SIM_CONNECTING;
	rc = rd_sim_at(sim, &link->request, rd_sim_latency(sim));
	return rc ? rc : rd_sim_at(sim, &c->end.timer, c->timeout_ns);
}

/* ---- passive side ---- */

int rd_sim_req_adopt(struct rd_fab *base, struct rd_fab_req *breq, rd_fab_event_fn on_event,
		     void *arg, struct rd_fab_conn **out)
{
	struct rd_sim_req *req = rd_container_of(breq, struct rd_sim_req, base);
	struct rd_sim_fab *fab = rd_sim_fab_of(base);
	struct rd_sim_link *link = req->link;
	struct rd_sim_conn *c;

	if (new_sim_conn(fab, RD_SIM_ADOPTED, on_event, arg, &c)) {
		rd_sim_req_reject(breq, NULL, 0);
		return -ENOMEM;
	}
	c->end.timer.fn = sim_timer;
	c->base.dev = &fab->dev;
	c->base.local = req->base.local;
	c->base.remote = req->base.remote;
	c->end.link = link;
	c->end.side = 1;
	link->req = NULL;
	link->end[1] = &c->end;
	/* The active side has given up before. */
	if (!link->end[0])
		rd_sim_link_send(link, 1, (struct rd_sim_msg){.kind = RD_SIM_MSG_FIN});
	free(req);
	*out = &c->base;
	return 0;
}

void rd_sim_req_reject(struct rd_fab_req *breq, const void *priv, size_t len)
{
	struct rd_sim_req *req = rd_container_of(breq, struct rd_sim_req, base);
	struct rd_sim_link *link = req->link;

	link->req = NULL;
	rd_sim_link_send(link, 0, rd_sim_answer(RD_SIM_MSG_REJECT, priv, len));
	rd_sim_link_settle(link);
	free(req);
}

int rd_sim_accept(struct rd_fab_conn *base, const struct rd_fab_conn_param *param)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);
	struct rd_sim_msg msg;

	if (param->private_len > RD_SIM_MAX_PRIVATE)
		return -EMSGSIZE;
	if (c->state != RD_SIM_ADOPTED || !c->has_qp)
		return -EINVAL;
	base->ird = smaller(smaller(param->ird, c->fab->dev.caps.max_ird), c->end.link->ord);
	base->ord = smaller(smaller(param->ord, c->fab->dev.caps.max_ord), c->end.link->ird);
	c->state = RD_SIM_ACCEPTED;
	msg = rd_sim_answer(RD_SIM_MSG_ACCEPT, param->private_data, param->private_len);
	msg.ird = base->ord;
	msg.ord = base->ird;
	rd_sim_link_send(c->end.link, 0, msg);
	return 0;
}

int rd_sim_reject(struct rd_fab_conn *base, const void *priv, size_t len)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);

	if (len > RD_SIM_MAX_PRIVATE)
		return -EMSGSIZE;
	if (c->state == RD_SIM_CLOSED) /* the active side has given up before */
		return 0;
	if (c->state != RD_SIM_ADOPTED)
		return -EINVAL;
	rd_sim_link_send(c->end.link, 0, rd_sim_answer(RD_SIM_MSG_REJECT, priv, len));
	close_sim_conn(c, false);
	return 0;
}
