/* SPDX-License-Identifier: BSD-3-Clause */
/* The active side: address, route, request, reply. */
#include <errno.h>

#include "util/sockaddr.h"

#include "internal.h"

#define CONNECT_TIMEOUT_NS (20 * RD_NSEC_PER_SEC)

/* What is left for the attempt, as rdma_cm takes it. */
static int ms_left(const struct rd_vb_conn *c)
{
	uint64_t now = rd_loop_now(c->fab->base.loop);
	uint64_t ms = c->deadline > now ? (c->deadline - now) / RD_NSEC_PER_MSEC : 0;

	return ms < 1 ? 1 : ms > 60000 ? 60000 : (int)ms;
}

int rd_vb_resolve(struct rd_fab *ffab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out)
{
	struct rd_vb_fab *fab = rd_vb_fab(ffab);
	uint64_t timeout = attr->timeout_ns ? attr->timeout_ns : CONNECT_TIMEOUT_NS;
	struct rd_vb_conn *c;
	int rc;

	if (attr->dst->sa_family != AF_INET && attr->dst->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	rc = rd_vb_conn_new(fab, attr->on_event, attr->arg, &c);
	if (rc)
		return rc;
	memcpy(&c->base.remote, attr->dst, rd_addr_len(attr->dst));
	if (attr->src)
		memcpy(&c->base.local, attr->src, rd_addr_len(attr->src));
	c->deadline = rd_loop_now(ffab->loop) + timeout;
	rc = rd_timer_start(ffab->loop, &c->timer, timeout);
	if (rc)
		goto err_destroy;
	rc = rd_vb_id_create(fab, RD_VB_ID_CONN, c, &c->id);
	if (rc)
		goto err_destroy;
	rc = rd_vb_err(rdma_resolve_addr(c->id->cm,
					 attr->src ? (struct sockaddr *)&c->base.local : NULL,
					 (struct sockaddr *)&c->base.remote, ms_left(c)));
	if (rc)
		rd_vb_conn_end(c, rc,
			       rc == -ENODEV ? "no RDMA device leads there"
					     : "resolving the address: %s",
			       strerror(-rc));
	*out = &c->base;
	return 0;

err_destroy:
	rd_vb_conn_destroy(&c->base);
	return rc;
}

static void addr_resolved(struct rd_vb_conn *c)
{
	int rc;

	rd_vb_copy_addrs(c);
	rc = rd_vb_dev_get(c->fab, c->id, &c->dev);
	if (rc == 0)
		rc = rd_vb_err(rdma_resolve_route(c->id->cm, ms_left(c)));
	if (rc)
		rd_vb_conn_end(c, rc, "resolving the route: %s", strerror(-rc));
}

static void rejected(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	bool by_peer;
	int status;
	const char *text = rd_vb_reject_text(c->dev->iwarp, ev, &status, &by_peer);

	if (by_peer) {
		memcpy(c->pd, ev->pd, ev->pd_len);
		c->pd_len = ev->pd_len;
		c->pending |= RD_VB_P_REJECTED;
		rd_defer(c->fab->base.loop, &c->events, RD_DEFER_WORK);
	}
	rd_vb_conn_end(c, status, "%s", text);
}

/* The reply is here. On iWARP the queue pair is connected already; elsewhere the last word is ours.
 */
static void replied(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	int rc = 0;

	/* Seen from here: what the peer may send us, and what it can hold of ours. */
	if (ev->peer_ird < c->base.ird)
		c->base.ird = ev->peer_ird;
	if (ev->peer_ord < c->base.ord)
		c->base.ord = ev->peer_ord;
	if (ev->type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		rc = rd_vb_qp_connect(c);
		if (rc == 0)
			rc = rd_vb_err(rdma_establish(c->id->cm));
	}
	if (rc) {
		rd_vb_conn_end(c, rc, "completing the handshake: %s", strerror(-rc));
		return;
	}
	memcpy(c->pd, ev->pd, ev->pd_len);
	c->pd_len = ev->pd_len;
	rd_timer_stop(c->fab->base.loop, &c->timer);
	rd_vb_set_state(c, RD_VB_OPEN);
	rd_vb_raise(c, RD_VB_P_ESTABLISHED);
}

/* rdma_cm reports some failures with the errno, some with a CM's code, some with nothing. */
static int failure(const struct rd_vb_cm_event *ev, int otherwise)
{
	return ev->status < 0 ? ev->status : otherwise;
}

void rd_vb_connect_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	int status;

	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		addr_resolved(c);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rd_vb_set_state(c, RD_VB_RESOLVED);
		rd_vb_raise(c, RD_VB_P_RESOLVED);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		status = failure(ev, -EHOSTUNREACH);
		rd_vb_conn_end(c, status,
			       status == -ENODEV ? "no RDMA device leads there"
						 : "no RDMA path to the address: %s",
			       strerror(-status));
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		if (c->state == RD_VB_CONNECTING)
			replied(c, ev);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(c, ev);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		status = failure(ev, -ETIMEDOUT);
		rd_vb_conn_end(c, status, "no answer: %s", strerror(-status));
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: /* before the device was known */
		rd_vb_conn_end(c, -ENODEV, "the RDMA device was removed");
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		rd_vb_conn_end(c, -ENETRESET, "the local address moved");
		break;
	default:
		status = failure(ev, -ECONNRESET);
		rd_vb_conn_end(c, status, "connect: %s (%s)", strerror(-status),
			       rdma_event_str(ev->type));
		break;
	}
}

/*
 * siw (Linux 6.1) connects its TCP socket within this call and so blocks it for as long as the
 * peer's host does not answer at all.
 */
int rd_vb_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);
	struct rdma_conn_param p;
	int rc;

	if (c->state != RD_VB_RESOLVED || !c->has_qp)
		return -EINVAL;
	rc = rd_vb_conn_param(c, param, &p);
	if (rc)
		return rc;
	rd_vb_set_state(c, RD_VB_CONNECTING);
	rc = rd_vb_err(rdma_connect(c->id->cm, &p));
	if (rc)
		rd_vb_conn_end(c, rc, "connect: %s", strerror(-rc));
	return 0;
}
