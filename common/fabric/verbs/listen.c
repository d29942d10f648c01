/* SPDX-License-Identifier: BSD-3-Clause */
/* The passive side: listeners, requests, adoption, accept and reject. */
#include <errno.h>
#include <stdlib.h>

#include "util/sockaddr.h"

#include "fab.h"
#include "conn.h"
#include "dev.h"
#include "cm.h"

#define DEFAULT_BACKLOG 128
/* How often a listener whose device or address is gone tries to listen again. */
#define RELISTEN_NS (1 * RD_NSEC_PER_SEC)

struct rd_vb_listener {
	struct rd_fab_listener base;
	struct rd_vb_fab *fab;
	struct rd_vb_id *id; /* NULL while its device or address is gone */
	int backlog;
	struct rd_timer relisten;
};

/* ---- listeners ---- */

static int vb_open_listener(struct rd_vb_listener *lis)
{
	struct sockaddr *addr = (struct sockaddr *)&lis->base.addr;
	struct rdma_cm_id *cm;
	int one = 1, rc;

	rc = rd_vb_id_create(lis->fab, RD_VB_ID_LISTENER, lis, &lis->id);
	if (rc)
		return rc;
	cm = lis->id->cm;
	if (addr->sa_family == AF_INET6)
		rc = rd_vb_err(rdma_set_option(cm, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one,
					       sizeof(one)));
	if (rc == 0)
		rc = rd_vb_err(rdma_bind_addr(cm, addr));
	/* The kernel treats a loopback address as a wildcard, and then no request matches it. */
	if (rc == 0 && !cm->verbs && !rd_addr_is_any(addr))
		rc = -ENODEV;
	if (rc == 0)
		rc = rd_vb_err(rdma_listen(cm, lis->backlog));
	if (rc == 0) {
		rd_addr_set_port(addr, be16toh(rdma_get_src_port(cm)));
		lis->base.prtype = rd_vb_prtype(cm);
		rd_vb_meet(lis->fab, cm);
		return 0;
	}
	rd_vb_id_destroy(lis->id);
	lis->id = NULL;
	return rc;
}

static void listen_again(struct rd_timer *timer)
{
	struct rd_vb_listener *lis = rd_container_of(timer, struct rd_vb_listener, relisten);
	char text[RD_ADDR_TEXT];

	if (vb_open_listener(lis))
		/* Cannot fail: the heap has the place that the timer has just left. */
		rd_timer_start(lis->fab->base.loop, &lis->relisten, RELISTEN_NS);
	else
		rd_notice(rd_vb_log(lis->fab), RD_LOG_FABRIC, "listening on %s again",
			  rd_addr_format((struct sockaddr *)&lis->base.addr, text));
}

/* A listener on a wildcard address has no device. */
static void apply_listener_quirk(const struct rd_vb_listener *lis)
{
	struct ibv_context *ctx = lis->id->cm->verbs;
	const struct rd_vb_quirk *quirk = rd_vb_quirk_of(ctx);

	if (quirk->listening)
		quirk->listening(rd_vb_log(lis->fab), (const struct sockaddr *)&lis->base.addr,
				 ctx);
}

int rd_vb_listen(struct rd_fab *ffab, const struct sockaddr *addr, int backlog, rd_fab_listen_fn fn,
		 void *arg, struct rd_fab_listener **out)
{
	struct rd_vb_fab *fab = rd_vb_fab(ffab);
	struct rd_vb_listener *lis;
	int rc;

	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	lis = calloc(1, sizeof(*lis));
	if (!lis)
		return -ENOMEM;
	lis->base.ops = &rd_vb_ops;
	lis->base.fab = ffab;
	lis->base.fn = fn;
	lis->base.arg = arg;
	memcpy(&lis->base.addr, addr, rd_addr_len(addr));
	lis->fab = fab;
	lis->backlog = backlog > 0 ? backlog : DEFAULT_BACKLOG;
	lis->relisten.fn = listen_again;
	rc = vb_open_listener(lis);
	if (rc) {
		free(lis);
		return rc;
	}
	apply_listener_quirk(lis);
	fab->stats.listeners++;
	*out = &lis->base;
	return 0;
}

void rd_vb_unlisten(struct rd_fab_listener *base)
{
	struct rd_vb_listener *lis = rd_container_of(base, struct rd_vb_listener, base);

	rd_timer_stop(lis->fab->base.loop, &lis->relisten);
	rd_vb_id_destroy(lis->id);
	lis->fab->stats.listeners--;
	free(lis);
}

void rd_vb_listener_event(struct rd_vb_listener *lis, const struct rd_vb_cm_event *ev)
{
	char text[RD_ADDR_TEXT];

	if (ev->type != RDMA_CM_EVENT_DEVICE_REMOVAL && ev->type != RDMA_CM_EVENT_ADDR_CHANGE)
		return;
	rd_warn(rd_vb_log(lis->fab), RD_LOG_FABRIC, "no longer listening on %s: %s",
		rd_addr_format((struct sockaddr *)&lis->base.addr, text),
		ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL ? "the RDMA device was removed"
							 : "the address moved");
	rd_vb_id_destroy(lis->id);
	lis->id = NULL;
	if (rd_timer_start(lis->fab->base.loop, &lis->relisten, RELISTEN_NS))
		rd_err(rd_vb_log(lis->fab), RD_LOG_FABRIC,
		       "out of memory: the listener on %s stays closed until the program is "
		       "restarted",
		       rd_addr_format((struct sockaddr *)&lis->base.addr, text));
}

/* ---- requests ---- */

static void reject_id(struct rd_vb_id *id, const void *priv, size_t len)
{
	const struct rd_vb_quirk *quirk = rd_vb_quirk_of(id->cm->verbs);
	struct rd_vb_sigpipe sigpipe;

	rd_vb_call_begin(quirk, &sigpipe);
	/* Fails if the peer has left; then there is nobody to tell. */
	rdma_reject(id->cm, priv, (uint8_t)len);
	rd_vb_call_end(quirk, &sigpipe);
}

static struct rd_vb_req *to_vb_req(struct rd_fab_req *req)
{
	return rd_container_of(req, struct rd_vb_req, base);
}

void rd_vb_listener_request(struct rd_vb_listener *lis, struct rd_vb_id *id,
			    const struct rd_vb_cm_event *ev)
{
	struct rd_vb_req *req = calloc(1, sizeof(*req));
	const struct sockaddr *local = rdma_get_local_addr(id->cm);
	const struct sockaddr *remote = rdma_get_peer_addr(id->cm);

	if (!req) {
		reject_id(id, NULL, 0);
		rd_vb_id_destroy(id);
		return;
	}
	req->id = id;
	req->base.ops = &rd_vb_ops;
	memcpy(&req->base.local, local, rd_addr_len(local));
	memcpy(&req->base.remote, remote, rd_addr_len(remote));
	memcpy(req->pd, ev->pd, ev->pd_len);
	req->base.private_data = ev->pd_len ? req->pd : NULL;
	req->base.private_len = ev->pd_len;
	req->base.peer_ird = ev->peer_ird;
	req->base.peer_ord = ev->peer_ord;
	lis->base.fn(&lis->base, &req->base, lis->base.arg); /* may unlisten */
}

void rd_vb_req_reject(struct rd_fab_req *base, const void *priv, size_t len)
{
	struct rd_vb_req *req = to_vb_req(base);

	if (len > RD_VB_IB_PRIVATE)
		len = 0;
	reject_id(req->id, priv, len);
	rd_vb_id_destroy(req->id);
	free(req);
}

/* Moves the identifier to the event channel of @fab. Returns 0 or -errno. */
static int take_id(struct rd_vb_fab *fab, struct rd_vb_id *id, struct rd_vb_conn *c)
{
	struct rd_vb_chan *from = id->chan;
	int rc;

	if (from != fab->chan) {
		rc = rd_vb_err(rdma_migrate_id(id->cm, fab->chan->ch));
		if (rc)
			return rc;
		atomic_fetch_add_explicit(&fab->chan->refs, 1, memory_order_relaxed);
		id->chan = fab->chan;
		rd_vb_chan_put(from);
	}
	id->kind = RD_VB_ID_CONN;
	id->obj = c;
	atomic_store_explicit(&id->owner, fab, memory_order_release);
	return rd_vb_dev_get(fab, id, &c->dev);
}

int rd_vb_req_adopt(struct rd_fab *ffab, struct rd_fab_req *base, rd_fab_event_fn on_event,
		    void *arg, struct rd_fab_conn **out)
{
	struct rd_vb_fab *fab = rd_vb_fab(ffab);
	struct rd_vb_req *req = to_vb_req(base);
	struct rd_vb_conn *c;
	int rc;

	rc = rd_vb_conn_new(fab, on_event, arg, &c);
	if (rc)
		goto err_reject;
	rc = take_id(fab, req->id, c);
	if (rc)
		goto err_conn;
	c->id = req->id;
	c->base.dev = &c->dev->base;
	c->base.local = req->base.local;
	c->base.remote = req->base.remote;
	c->peer_ird = req->base.peer_ird;
	rd_vb_set_state(c, RD_VB_ADOPTED);
	if (atomic_load(&req->id->early))
		rd_vb_conn_end(c, -ECONNRESET, "peer left during the handshake");
	free(req);
	*out = &c->base;
	return 0;

err_conn:
	rd_vb_set_state(c, RD_VB_CLOSED);
	rd_vb_conn_destroy(&c->base);
err_reject:
	rd_vb_req_reject(base, NULL, 0);
	return rc;
}

/* ---- answers ---- */

int rd_vb_accept(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);
	struct rd_vb_sigpipe sigpipe;
	struct rdma_conn_param p;
	int rc;

	if (c->state != RD_VB_ADOPTED || !c->has_qp)
		return -EINVAL;
	rc = rd_vb_conn_param(c, param, &p);
	if (rc)
		return rc;
	if (c->base.ord > c->peer_ird)
		c->base.ord = c->peer_ird;
	p.initiator_depth = (uint8_t)c->base.ord;
	rd_vb_set_state(c, RD_VB_ACCEPTED);
	rc = rd_vb_qp_connect(c);
	if (rc == 0) {
		rd_vb_call_begin(c->dev->quirk, &sigpipe);
		rc = rd_vb_err(rdma_accept(c->id->cm, &p));
		rd_vb_call_end(c->dev->quirk, &sigpipe);
	}
	if (rc)
		rd_vb_conn_end(c, rc, "accept: %s", strerror(-rc));
	return 0;
}

int rd_vb_reject(struct rd_fab_conn *conn, const void *priv, size_t len)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);

	if (c->state != RD_VB_ADOPTED)
		return -EINVAL;
	if (len > c->dev->base.caps.max_private_data)
		return -EMSGSIZE;
	reject_id(c->id, priv, len);
	rd_vb_conn_end(c, -ECONNREFUSED, "rejected");
	rd_conn_replace_events(&c->events, 0);
	return 0;
}
