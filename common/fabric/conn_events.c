/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/conn_events.h"

#include <errno.h>
#include <stdio.h>

static void deliver_event(struct rd_conn_events *e, enum rd_conn_event event)
{
	struct rd_fab_event ev = {.status = e->status, .reason = e->reason};

	switch (event) {
	case RD_CONN_RESOLVED:
		e->conn->dev = e->dev;
		ev.type = RD_FAB_EV_RESOLVED;
		ev.reason = "resolved";
		break;
	case RD_CONN_ESTABLISHED:
		ev.type = RD_FAB_EV_ESTABLISHED;
		ev.reason = "established";
		break;
	case RD_CONN_REJECTED:
		ev.type = RD_FAB_EV_REJECTED;
		break;
	case RD_CONN_ERROR:
		ev.type = RD_FAB_EV_CONNECT_ERROR;
		ev.unanswered = e->unanswered;
		break;
	case RD_CONN_REMOVED:
		ev.type = RD_FAB_EV_DEVICE_REMOVED;
		break;
	case RD_CONN_DISCONNECTED:
		ev.type = RD_FAB_EV_DISCONNECTED;
		break;
	}
	if (event & (RD_CONN_RESOLVED | RD_CONN_ESTABLISHED))
		ev.status = 0;
	if ((event & (RD_CONN_ESTABLISHED | RD_CONN_REJECTED)) && e->private_len) {
		ev.private_data = e->private_data;
		ev.private_len = e->private_len;
	}
	e->conn->on_event(e->conn, &ev, e->conn->arg);
	if (event != RD_CONN_RESOLVED && e->delivered)
		e->delivered(e->conn);
}

static void deliver_pending(struct rd_defer *defer)
{
	struct rd_conn_events *e = rd_container_of(defer, struct rd_conn_events, defer);

	e->delivering = true;
	while (!e->destroyed && e->pending) {
		uint32_t event = e->pending & -e->pending;

		e->pending &= ~event;
		deliver_event(e, (enum rd_conn_event)event);
	}
	e->delivering = false;
	if (e->destroyed)
		e->free(e->conn);
}

void rd_conn_events_init(struct rd_conn_events *e, struct rd_fab_conn *conn, struct rd_loop *loop,
			 void (*free_conn)(struct rd_fab_conn *conn))
{
	*e = (struct rd_conn_events){
		.conn = conn, .loop = loop, .free = free_conn, .defer.fn = deliver_pending};
}

void rd_conn_vset_reason(struct rd_conn_events *e, int status, const char *fmt, va_list ap)
{
	e->status = status;
	vsnprintf(e->reason, sizeof(e->reason), fmt, ap);
}

void rd_conn_set_reason(struct rd_conn_events *e, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	rd_conn_vset_reason(e, status, fmt, ap);
	va_end(ap);
}

void rd_conn_raise(struct rd_conn_events *e, enum rd_conn_event event)
{
	e->pending |= event;
	rd_defer(e->loop, &e->defer, RD_DEFER_WORK);
}

void rd_conn_replace_events(struct rd_conn_events *e, uint32_t events)
{
	e->pending = events;
	if (events)
		rd_defer(e->loop, &e->defer, RD_DEFER_WORK);
}

void rd_conn_events_destroy(struct rd_conn_events *e)
{
	rd_defer_cancel(e->loop, &e->defer);
	e->destroyed = true;
	if (!e->delivering)
		e->free(e->conn);
}

int rd_fab_check_qp_attr(const struct rd_fab_caps *caps, const struct rd_fab_qp_attr *attr)
{
	if (!attr->send_cq || !attr->recv_cq || attr->max_send_wr > caps->max_send_wr ||
	    attr->max_send_sge > caps->max_send_sge || attr->max_inline > caps->max_inline)
		return -EINVAL;
	if (!attr->srq &&
	    (attr->max_recv_wr > caps->max_recv_wr || attr->max_recv_sge > caps->max_recv_sge))
		return -EINVAL;
	return 0;
}
