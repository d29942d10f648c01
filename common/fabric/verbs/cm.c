/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA connection manager: event channels, identifiers, and whom an event is for. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "conn.h"
#include "dev.h"
#include "cm.h"
#include "cm_event.h"

#define EVENT_BURST 64

/* ---- channels ---- */

int rd_vb_chan_create(struct rd_vb_chan **out)
{
	struct rd_vb_chan *chan = calloc(1, sizeof(*chan));
	int rc, flags;

	if (!chan)
		return -ENOMEM;
	atomic_init(&chan->refs, 1);
	errno = 0;
	chan->ch = rdma_create_event_channel();
	if (!chan->ch) {
		rc = rd_vb_errno();
		goto err_free;
	}
	flags = fcntl(chan->ch->fd, F_GETFL);
	if (flags < 0 || fcntl(chan->ch->fd, F_SETFL, flags | O_NONBLOCK)) {
		rc = -errno;
		goto err_destroy;
	}
	*out = chan;
	return 0;

err_destroy:
	rdma_destroy_event_channel(chan->ch);
err_free:
	free(chan);
	return rc == -ENOENT || rc == -ENXIO ? -ENODEV : rc;
}

static struct rd_vb_chan *chan_get(struct rd_vb_chan *chan)
{
	atomic_fetch_add_explicit(&chan->refs, 1, memory_order_relaxed);
	return chan;
}

void rd_vb_chan_put(struct rd_vb_chan *chan)
{
	if (atomic_fetch_sub_explicit(&chan->refs, 1, memory_order_acq_rel) != 1)
		return;
	rdma_destroy_event_channel(chan->ch);
	free(chan);
}

/* ---- identifiers ---- */

int rd_vb_id_create(struct rd_vb_fab *fab, enum rd_vb_id_kind kind, void *obj,
		    struct rd_vb_id **out)
{
	struct rd_vb_id *id = calloc(1, sizeof(*id));
	int rc;

	if (!id)
		return -ENOMEM;
	rc = rd_vb_err(rdma_create_id(fab->chan->ch, &id->cm, id, RDMA_PS_TCP));
	if (rc) {
		free(id);
		return rc;
	}
	id->kind = kind;
	id->obj = obj;
	id->chan = chan_get(fab->chan);
	atomic_init(&id->owner, fab);
	*out = id;
	return 0;
}

void rd_vb_id_destroy(struct rd_vb_id *id)
{
	if (!id)
		return;
	/*
	 * Waits until another thread has acknowledged the events that it read for this identifier,
	 * which it does at once.
	 */
	rdma_destroy_id(id->cm);
	rd_vb_chan_put(id->chan);
	free(id);
}

/* Wraps the identifier that rdma_cm created for a connection request. It has no owner. */
static struct rd_vb_id *wrap_request(struct rd_vb_fab *fab, struct rdma_cm_id *cm)
{
	struct rd_vb_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->cm = cm;
	id->kind = RD_VB_ID_REQUEST;
	id->chan = chan_get(fab->chan);
	cm->context = id;
	return id;
}

/* ---- events ---- */

static void copy_event(const struct rdma_cm_event *from, struct rd_vb_cm_event *to)
{
	const struct rdma_conn_param *p = &from->param.conn;

	to->type = from->event;
	to->status = from->status;
	to->pd_len = 0;
	to->peer_ird = p->initiator_depth;
	to->peer_ord = p->responder_resources;
	if (p->private_data && p->private_data_len) {
		to->pd_len = p->private_data_len;
		memcpy(to->pd, p->private_data, to->pd_len);
	}
}

static void dispatch_cm_event(struct rd_vb_fab *fab, struct rd_vb_id *id,
			      const struct rd_vb_cm_event *ev)
{
	switch (id->kind) {
	case RD_VB_ID_CONN:
		rd_vb_conn_cm_event(id->obj, ev);
		break;
	case RD_VB_ID_LISTENER:
		rd_vb_listener_event(id->obj, ev);
		break;
	case RD_VB_ID_ANCHOR:
		if (ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			rd_vb_anchor_lost(fab, id->obj);
		break;
	case RD_VB_ID_REQUEST: /* has no owner: see handle_cm_event() */
		break;
	}
}

static void handle_cm_event(struct rd_vb_fab *fab, struct rdma_cm_event *cev)
{
	struct rd_vb_cm_event ev;
	struct rd_vb_id *id;

	copy_event(cev, &ev);
	if (ev.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct rdma_cm_id *cm = cev->id;
		struct rd_vb_id *lis = cev->listen_id->context;

		id = wrap_request(fab, cm);
		rdma_ack_cm_event(cev);
		/* Also for requests that are rejected, or adopted on another loop. */
		rd_vb_meet(fab, cm);
		if (id)
			rd_vb_listener_request(lis->obj, id, &ev);
		else
			rdma_destroy_id(cm);
		return;
	}
	id = cev->id->context;
	if (atomic_load_explicit(&id->owner, memory_order_acquire) != fab) {
		/*
		 * The request is being passed to another loop. Its only possible event is its end.
		 */
		if (ev.type != RDMA_CM_EVENT_TIMEWAIT_EXIT && ev.type != RDMA_CM_EVENT_ADDR_CHANGE)
			atomic_store(&id->early, true);
		rdma_ack_cm_event(cev);
		return;
	}
	/* Acknowledged first, since destroying an identifier waits for that. */
	rdma_ack_cm_event(cev);
	dispatch_cm_event(fab, id, &ev);
}

static void chan_io(struct rd_io *io, uint32_t events)
{
	struct rd_vb_fab *fab = rd_container_of(io, struct rd_vb_fab, io);
	struct rdma_cm_event *ev;

	for (int i = 0; i < EVENT_BURST; i++) {
		if (rdma_get_cm_event(fab->chan->ch, &ev)) {
			if (errno != EAGAIN && errno != EINTR)
				rd_err(rd_vb_log(fab), RD_LOG_FABRIC,
				       "reading an event of the connection manager: %s",
				       strerror(errno));
			return;
		}
		rd_debug(rd_vb_log(fab), RD_LOG_FABRIC, "%s, status %d", rdma_event_str(ev->event),
			 ev->status);
		handle_cm_event(fab, ev);
	}
}

int rd_vb_cm_start(struct rd_vb_fab *fab)
{
	return rd_io_add(fab->base.loop, &fab->io, fab->chan->ch->fd, EPOLLIN, chan_io);
}

void rd_vb_cm_stop(struct rd_vb_fab *fab)
{
	rd_io_del(fab->base.loop, &fab->io);
	rd_vb_chan_put(fab->chan);
}

/* Why a connection was refused: the codes of the connection managers as an errno and a text. */

/* InfiniBand specification, table "REJ reasons": the codes that a host or its operator can meet. */
static const struct {
	int code;
	int status;
	const char *text;
} ib_reasons[] = {
	{1, -ENOBUFS, "the peer has no queue pair left"},
	{3, -ENOBUFS, "the peer is out of resources"},
	{4, -ETIMEDOUT, "the peer gave up waiting for our answer"},
	{5, -EOPNOTSUPP, "the peer does not support the request"},
	{8, -ECONNREFUSED, "nobody listens at this address and port (invalid service ID)"},
	{9, -EOPNOTSUPP, "the peer does not support reliable connections"},
	{10, -ECONNRESET, "the peer still holds an earlier connection of ours (stale connection)"},
	{12, -EHOSTUNREACH, "the peer rejects its own GID"},
	{13, -EHOSTUNREACH, "the peer rejects its own LID"},
	{14, -EPROTO, "the peer rejects the service level"},
	{15, -EPROTO, "the peer rejects the traffic class"},
	{16, -EPROTO, "the peer rejects the hop limit"},
	{17, -EPROTO, "the peer rejects the packet rate"},
	{24, -EHOSTUNREACH, "the peer wants the connection at another port"},
	{26, -EPROTO, "the peer rejects the path MTU"},
	{27, -ENOBUFS, "the peer has too few resources for the READ depth"},
	{33, -EPROTO, "the peer rejects the RNR retry count"},
};

const char *rd_vb_reject_text(bool iwarp, const struct rd_vb_cm_event *ev, int *status,
			      bool *by_peer)
{
	*status = -ECONNREFUSED;
	*by_peer = false;
	if (iwarp) {
		/* A reject by the peer can be reported as a reset; it comes with private data. */
		*by_peer = ev->pd_len > 0;
		if (*by_peer)
			return "rejected by the peer";
		*status = ev->status < 0 ? ev->status : -ECONNREFUSED;
		return *status == -ECONNRESET
			       ? "rejected or closed by the peer during the handshake"
			       : "connection refused";
	}
	if (ev->status == 28) {
		*by_peer = true;
		return "rejected by the peer";
	}
	for (size_t i = 0; i < sizeof(ib_reasons) / sizeof(ib_reasons[0]); i++) {
		if (ib_reasons[i].code != ev->status)
			continue;
		*status = ib_reasons[i].status;
		return ib_reasons[i].text;
	}
	return "refused by the peer's connection manager";
}
