/* SPDX-License-Identifier: BSD-3-Clause */
/* The active side: address, route, request, reply. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/sockaddr.h"
#include "util/thread.h"

#include "conn.h"
#include "cm.h"

#define CONNECT_TIMEOUT_NS (20 * RD_NSEC_PER_SEC)

/*
 * The kernel asks the neighbour for its address and checks again when an answer arrives, or at the
 * end of the timeout. An answer that comes before it listens is lost (Linux 6.1; with a neighbour
 * on the same machine every time). So the timeout is short, and the question is repeated.
 */
#define RESOLVE_STEP_MS 500

/* The rest of the time for the attempt, in ms. */
static int ms_left(const struct rd_vb_conn *c)
{
	uint64_t now = rd_loop_now(c->fab->base.loop);
	uint64_t ms = c->deadline > now ? (c->deadline - now) / RD_NSEC_PER_MSEC : 0;

	return ms < 1 ? 1 : ms > 60000 ? 60000 : (int)ms;
}

static int resolve_addr(struct rd_vb_conn *c)
{
	struct sockaddr *local = (struct sockaddr *)&c->base.local;
	int left = ms_left(c);

	return rd_vb_err(rdma_resolve_addr(c->id->cm, local->sa_family ? local : NULL,
					   (struct sockaddr *)&c->base.remote,
					   left < RESOLVE_STEP_MS ? left : RESOLVE_STEP_MS));
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
	rc = resolve_addr(c);
	if (rc)
		rd_vb_conn_end(c, rc,
			       rc == -ENODEV ? "no RDMA device has a route to the address"
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
	if (rc == 0) {
		c->events.dev = &c->dev->base;
		rc = rd_vb_err(rdma_resolve_route(c->id->cm, ms_left(c)));
	}
	if (rc)
		rd_vb_conn_end(c, rc, "resolving the route: %s", strerror(-rc));
}

static void connect_rejected(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	bool by_peer;
	int status;
	const char *text = rd_vb_reject_text(c->dev->iwarp, ev, &status, &by_peer);

	if (by_peer) {
		memcpy(c->pd, ev->pd, ev->pd_len);
		c->events.private_len = ev->pd_len;
		rd_conn_raise(&c->events, RD_CONN_REJECTED);
	}
	rd_vb_conn_end(c, status, "%s", text);
}

/*
 * InfiniBand's reply has the depths of the peer: what it sends, which this side must hold, and what
 * it holds, which limits what this side sends (Linux's target names only the first). The reply of
 * an iWARP device has the resulting depths of this side. If an iWARP adapter reported them as
 * InfiniBand does, they would come out too low, which only matters to a side that connects and
 * READs; no user of this interface does.
 */
static void take_depths(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	uint16_t ird = c->dev->iwarp ? ev->peer_ird : ev->peer_ord;
	uint16_t ord = c->dev->iwarp ? ev->peer_ord : ev->peer_ird;

	if (ird < c->base.ird)
		c->base.ird = ird;
	if (ord < c->base.ord)
		c->base.ord = ord;
}

/*
 * The reply has arrived. On iWARP the queue pair is connected already; on other networks this side
 * completes the handshake.
 */
static void connect_replied(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	int rc = 0;

	take_depths(c, ev);
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
	c->events.private_len = ev->pd_len;
	rd_timer_stop(c->fab->base.loop, &c->timer);
	rd_vb_set_state(c, RD_VB_OPEN);
	if (c->dev->quirk->established)
		c->dev->quirk->established(c, true);
	rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
}

/* rdma_cm reports some failures with an errno, some with a code of the CM, some with nothing. */
static int cm_failure(const struct rd_vb_cm_event *ev, int otherwise)
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
		rd_conn_raise(&c->events, RD_CONN_RESOLVED);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		/* The timer of the connection ends the attempts. */
		if (ev->status == -ETIMEDOUT && resolve_addr(c) == 0)
			break;
		__attribute__((fallthrough));
	case RDMA_CM_EVENT_ROUTE_ERROR:
		status = cm_failure(ev, -EHOSTUNREACH);
		rd_vb_conn_end(c, status,
			       status == -ENODEV ? "no RDMA device has a route to the address"
						 : "no RDMA path to the address: %s",
			       strerror(-status));
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		if (c->state == RD_VB_CONNECTING)
			connect_replied(c, ev);
		break;
	case RDMA_CM_EVENT_REJECTED:
		connect_rejected(c, ev);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		status = cm_failure(ev, -ETIMEDOUT);
		rd_vb_conn_end(c, status, "no answer from the peer: %s", strerror(-status));
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: /* before c->dev is known */
		rd_vb_conn_end(c, -ENODEV, "the RDMA device was removed");
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		rd_vb_conn_end(c, -ENETRESET, "the local address moved");
		break;
	default:
		status = cm_failure(ev, -ECONNRESET);
		rd_vb_conn_end(c, status, "connect: %s (%s)", strerror(-status),
			       rdma_event_str(ev->type));
		break;
	}
}

/* ---- a connect that may block ---- */

/*
 * An iWARP driver may connect its TCP socket inside rdma_connect(), which then takes as long as TCP
 * needs to give up when no answer comes: two minutes, in which neither the identifier nor the queue
 * pair can be destroyed. So a thread makes this call. It is cancelled when the attempt is over: the
 * signal of the cancellation makes the kernel end the call.
 */
struct rd_vb_attempt {
	struct rd_vb_conn *conn;
	struct rdma_cm_id *cm;
	struct rdma_conn_param param;
	pthread_t thread;
	struct rd_io done; /* an eventfd */
	int rc;
	uint8_t pd[RD_VB_MAX_PRIVATE];
};

static void *attempt_thread(void *arg)
{
	struct rd_vb_attempt *a = arg;
	uint64_t one = 1;

	a->rc = rd_vb_err(rdma_connect(a->cm, &a->param));
	/* Cannot fail: the counter is 0. */
	if (write(a->done.fd, &one, sizeof(one)) < 0)
		a->rc = rd_vb_errno();
	return NULL;
}

static void attempt_done(struct rd_io *io, uint32_t events)
{
	struct rd_vb_attempt *a = rd_container_of(io, struct rd_vb_attempt, done);
	struct rd_vb_conn *c = a->conn;
	int rc;

	/* Joined before a->rc is read. */
	pthread_join(a->thread, NULL);
	rc = a->rc;
	rd_io_del(c->fab->base.loop, &a->done);
	close(a->done.fd);
	free(a);
	c->attempt = NULL;
	if (rc)
		rd_vb_conn_end(c, rc, "connect: %s", strerror(-rc));
}

void rd_vb_attempt_stop(struct rd_vb_conn *c)
{
	struct rd_vb_attempt *a = c->attempt;

	if (!a)
		return;
	pthread_cancel(a->thread);
	pthread_join(a->thread, NULL);
	rd_io_del(c->fab->base.loop, &a->done);
	close(a->done.fd);
	free(a);
	c->attempt = NULL;
}

static int attempt_start(struct rd_vb_conn *c, const struct rdma_conn_param *param)
{
	struct rd_vb_attempt *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	a->conn = c;
	a->cm = c->id->cm;
	a->param = *param;
	if (param->private_data_len)
		memcpy(a->pd, param->private_data, param->private_data_len);
	a->param.private_data = param->private_data_len ? a->pd : NULL;
	a->done.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = a->done.fd < 0
		     ? -errno
		     : rd_io_add(c->fab->base.loop, &a->done, a->done.fd, EPOLLIN, attempt_done);
	if (rc == 0)
		rc = rd_thread_start(&a->thread, attempt_thread, a);
	if (rc == 0) {
		c->attempt = a;
		return 0;
	}
	rd_io_del(c->fab->base.loop, &a->done);
	if (a->done.fd >= 0)
		close(a->done.fd);
	free(a);
	return rc;
}

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
	rc = c->dev->iwarp ? attempt_start(c, &p) : rd_vb_err(rdma_connect(c->id->cm, &p));
	if (rc)
		rd_vb_conn_end(c, rc, "connect: %s", strerror(-rc));
	return 0;
}
