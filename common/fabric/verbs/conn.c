/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: states, events, and the one way a connection ends. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "util/sockaddr.h"

#include "conn.h"
#include "cm.h"

/*
 * How long to wait for the event of rdma_cm that says why a queue pair failed. On iWARP it always
 * comes, and at once; on InfiniBand only if the peer ended the connection.
 */
#define REASON_NS (1 * RD_NSEC_PER_SEC)
/* How long the last messages may take after rd_fab_disconnect(); the peer may be gone. */
#define LAST_NS (200 * RD_NSEC_PER_MSEC)

struct rd_vb_conn *rd_vb_conn(struct rd_fab_conn *conn)
{
	return rd_container_of(conn, struct rd_vb_conn, base);
}

static const char *vb_state_name(enum rd_vb_state s)
{
	static const char *const names[] = {
		[RD_VB_RESOLVING] = "resolving",   [RD_VB_RESOLVED] = "resolved",
		[RD_VB_CONNECTING] = "connecting", [RD_VB_ADOPTED] = "adopted",
		[RD_VB_ACCEPTED] = "accepted",     [RD_VB_OPEN] = "open",
		[RD_VB_CLOSING] = "closing",       [RD_VB_CLOSED] = "closed",
	};

	return names[s];
}

void rd_vb_set_state(struct rd_vb_conn *c, enum rd_vb_state state)
{
	rd_debug(rd_vb_log(c->fab), RD_LOG_FABRIC, "qp %u: %s -> %s", c->base.qp_num,
		 vb_state_name(c->state), vb_state_name(state));
	c->state = state;
}

/* ---- events ---- */

/* Handles an event of rdma_cm in the states ADOPTED, ACCEPTED and OPEN. */
static void open_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	switch (ev->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		if (c->state != RD_VB_ACCEPTED)
			break;
		rd_vb_set_state(c, RD_VB_OPEN);
		if (c->dev->quirk->established)
			c->dev->quirk->established(c, false);
		rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rd_vb_conn_end(c, c->state == RD_VB_OPEN ? 0 : -ECONNRESET,
			       "disconnected by the peer");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		/*
		 * The network interface has another hardware address now, as after a failover of a
		 * bond: the path of this connection does not exist any more.
		 */
		rd_vb_conn_end(c, -ENETRESET, "the local address moved");
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		rd_vb_conn_end(c, ev->status < 0 ? ev->status : -ECONNRESET,
			       "the handshake failed (%s, status %d)", rdma_event_str(ev->type),
			       ev->status);
		break;
	}
}

void rd_vb_conn_cm_event(struct rd_vb_conn *c, const struct rd_vb_cm_event *ev)
{
	struct rd_vb_dev *dev = c->dev;

	if (ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL && dev) {
		rd_vb_dev_removed(dev);
		if (c->state == RD_VB_CLOSED)
			return;
	}
	switch (c->state) {
	case RD_VB_RESOLVING:
	case RD_VB_RESOLVED:
	case RD_VB_CONNECTING:
		rd_vb_connect_event(c, ev);
		break;
	case RD_VB_ADOPTED:
	case RD_VB_ACCEPTED:
	case RD_VB_OPEN:
		open_event(c, ev);
		break;
	case RD_VB_CLOSING:
		if (ev->type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			rd_vb_conn_end(c, 0, "disconnected");
		break;
	case RD_VB_CLOSED:
		break;
	}
}

static void end_of_failed(struct rd_vb_conn *c)
{
	if (c->fail_status)
		rd_vb_conn_end(c, -EIO, "a work request failed: %s",
			       ibv_wc_status_str((enum ibv_wc_status)c->fail_status));
	else
		rd_vb_conn_end(c, -EIO, "the queue pair failed");
}

static void vb_conn_timeout(struct rd_timer *timer)
{
	struct rd_vb_conn *c = rd_container_of(timer, struct rd_vb_conn, timer);

	switch (c->state) {
	case RD_VB_RESOLVING:
		rd_vb_conn_end(c, -ETIMEDOUT, "timed out while resolving the address");
		break;
	case RD_VB_RESOLVED:
	case RD_VB_CONNECTING:
		rd_vb_conn_end(c, -ETIMEDOUT, "timed out while connecting");
		break;
	case RD_VB_CLOSING:
		rd_vb_conn_end(c, 0, "disconnected");
		break;
	default:
		end_of_failed(c);
		break;
	}
}

static void wr_failed(struct rd_defer *defer)
{
	struct rd_vb_conn *c = rd_container_of(defer, struct rd_vb_conn, failed);

	if (c->state == RD_VB_CLOSING)
		rd_vb_conn_end(c, 0, "disconnected");
	else
		end_of_failed(c);
}

void rd_vb_conn_sent_all(struct rd_vb_conn *c)
{
	rd_defer(c->fab->base.loop, &c->failed, RD_DEFER_WORK);
}

/*
 * The connection manager reports the cause soon. Drivers complete with "local QP operation error"
 * what they cannot send, mostly because the peer leaves.
 */
static bool is_consequence(enum ibv_wc_status status)
{
	return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_LOC_QP_OP_ERR;
}

void rd_vb_conn_wc_failed(struct rd_vb_conn *c, enum ibv_wc_status status)
{
	struct rd_loop *loop = c->fab->base.loop;

	if (c->state == RD_VB_CLOSING)
		rd_vb_conn_sent_all(c); /* or cannot send the rest */
	if (c->state != RD_VB_OPEN && c->state != RD_VB_ACCEPTED)
		return;
	/* After any error a reliable queue pair is in the error state. */
	c->stalled = true;
	if (status != IBV_WC_WR_FLUSH_ERR)
		c->fail_status = status;
	if (is_consequence(status) &&
	    (rd_timer_armed(&c->timer) || rd_timer_start(loop, &c->timer, REASON_NS) == 0))
		return;
	rd_defer(loop, &c->failed, RD_DEFER_WORK);
}

/* ---- creation ---- */

static void vb_conn_free(struct rd_fab_conn *conn)
{
	free(rd_vb_conn(conn));
}

int rd_vb_conn_new(struct rd_vb_fab *fab, rd_fab_event_fn fn, void *arg, struct rd_vb_conn **out)
{
	struct rd_vb_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->fab = fab;
	c->base.ops = &rd_vb_ops;
	c->base.on_event = fn;
	c->base.arg = arg;
	c->timer.fn = vb_conn_timeout;
	rd_conn_events_init(&c->events, &c->base, fab->base.loop, vb_conn_free);
	c->events.private_data = c->pd;
	c->failed.fn = wr_failed;
	LIST_INSERT_HEAD(&fab->conns, c, link);
	fab->stats.conns++;
	*out = c;
	return 0;
}

void rd_vb_copy_addrs(struct rd_vb_conn *c)
{
	const struct sockaddr *local = rdma_get_local_addr(c->id->cm);
	const struct sockaddr *remote = rdma_get_peer_addr(c->id->cm);

	memcpy(&c->base.local, local, rd_addr_len(local));
	memcpy(&c->base.remote, remote, rd_addr_len(remote));
}

int rd_vb_conn_param(struct rd_vb_conn *c, const struct rd_fab_conn_param *param,
		     struct rdma_conn_param *out)
{
	const struct rd_fab_caps *caps = &c->dev->base.caps;

	if (param->private_len > caps->max_private_data)
		return -EMSGSIZE;
	c->base.ird = param->ird < caps->max_ird ? param->ird : caps->max_ird;
	c->base.ord = param->ord < caps->max_ord ? param->ord : caps->max_ord;
	*out = (struct rdma_conn_param){
		.private_data = param->private_len ? param->private_data : NULL,
		.private_data_len = (uint8_t)param->private_len,
		.responder_resources = (uint8_t)c->base.ird,
		.initiator_depth = (uint8_t)c->base.ord,
		.retry_count = 7,
		.rnr_retry_count = 7, /* 7: retries without limit, since a RECV will be posted */
		.srq = c->srq != NULL,
		.qp_num = c->qp->qp_num,
	};
	return 0;
}

/* ---- the end ---- */

static void apply_closed_quirk(struct rd_vb_conn *c)
{
	if (c->dev && c->dev->quirk->closed)
		c->dev->quirk->closed(c);
}

/* Returns the state before; CLOSED means that there was nothing to do. */
static enum rd_vb_state vb_close_conn(struct rd_vb_conn *c)
{
	enum rd_vb_state was = c->state;
	struct rd_vb_sigpipe sigpipe;

	if (was == RD_VB_CLOSED)
		return was;
	rd_timer_stop(c->fab->base.loop, &c->timer);
	apply_closed_quirk(c);
	rd_defer_cancel(c->fab->base.loop, &c->failed);
	rd_vb_attempt_stop(c);
	rd_vb_set_state(c, RD_VB_CLOSED);
	if (c->dev)
		rd_vb_call_begin(c->dev->quirk, &sigpipe);
	/* Fails, without consequence, if the peer has disconnected or the queue pair has failed. */
	if ((was == RD_VB_OPEN || was == RD_VB_CLOSING || was == RD_VB_ACCEPTED ||
	     was == RD_VB_CONNECTING) &&
	    c->id)
		rdma_disconnect(c->id->cm);
	rd_vb_qp_down(c);
	/*
	 * Before the connection is established, the peer is told of its end only when the
	 * identifier is destroyed.
	 */
	if (was == RD_VB_CONNECTING || was == RD_VB_ADOPTED || was == RD_VB_ACCEPTED) {
		rd_vb_id_destroy(c->id);
		c->id = NULL;
	}
	if (c->dev)
		rd_vb_call_end(c->dev->quirk, &sigpipe);
	return was;
}

static void vb_report_end(struct rd_vb_conn *c, enum rd_vb_state was)
{
	char addr[RD_ADDR_TEXT];

	rd_log(rd_vb_log(c->fab), RD_LOG_FABRIC, c->events.status ? RD_LOG_INFO : RD_LOG_DEBUG,
	       "qp %u: %s: %s", c->base.qp_num,
	       rd_addr_format((const struct sockaddr *)&c->base.remote, addr), c->events.reason);
	if (was == RD_VB_OPEN || was == RD_VB_CLOSING || was == RD_VB_ADOPTED ||
	    was == RD_VB_ACCEPTED)
		rd_conn_raise(&c->events, RD_CONN_DISCONNECTED);
	else if (!(c->events.pending & RD_CONN_REJECTED))
		rd_conn_raise(&c->events, RD_CONN_ERROR);
}

void rd_vb_conn_end(struct rd_vb_conn *c, int status, const char *fmt, ...)
{
	enum rd_vb_state was = vb_close_conn(c);
	va_list ap;

	if (was == RD_VB_CLOSED)
		return;
	va_start(ap, fmt);
	rd_conn_vset_reason(&c->events, status, fmt, ap);
	va_end(ap);
	vb_report_end(c, was);
}

void rd_vb_disconnect(struct rd_fab_conn *conn)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);

	if (c->state == RD_VB_CLOSED || c->state == RD_VB_CLOSING)
		return;
	apply_closed_quirk(c);
	if (c->state == RD_VB_OPEN && !c->stalled && rd_vb_sends_out(c) &&
	    rd_timer_start(c->fab->base.loop, &c->timer, LAST_NS) == 0) {
		rd_vb_batch_give(c);
		c->stalled = true;
		c->sq_end = c->sq.tail;
		rd_vb_set_state(c, RD_VB_CLOSING);
		return;
	}
	rd_vb_conn_end(c, 0, "disconnected");
	/* The user ends the connection: no earlier event is news to it. */
	rd_conn_replace_events(&c->events, RD_CONN_DISCONNECTED);
}

/*
 * On iWARP this waits for the answer to a connection request that is out, 10 s at most: the
 * kernel's iWARP connection manager cannot cancel one.
 */
void rd_vb_conn_destroy(struct rd_fab_conn *conn)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);

	vb_close_conn(c);
	rd_vb_qp_free(c);
	rd_vb_id_destroy(c->id);
	LIST_REMOVE(c, link);
	c->fab->stats.conns--;
	rd_conn_events_destroy(&c->events);
}
