/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection of a queue: from resolving an address until the last work request is flushed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rdma.h"

/* Linux offers as much; a target never has more READs outstanding than commands in flight. */
#define OFFERED_IRD 128

/* ---- completions ---- */

/*
 * The text for a status that gives the cause of the end: an action of the peer or ours. NULL for
 * statuses such as a flush that only follow from a broken connection: DISCONNECTED comes later and
 * gives the cause.
 */
static const char *const wc_texts[] = {
	[IBV_WC_LOC_LEN_ERR] = "a response longer than 16 bytes",
	[IBV_WC_REM_INV_REQ_ERR] = "the target invalidated a key that is not valid",
	[IBV_WC_LOC_PROT_ERR] = "local protection error",
	[IBV_WC_REM_ACCESS_ERR] = "remote access error",
};

/* Handles a work request that failed, or that no request waits for. */
static __attribute__((noinline)) void not_done(struct rdi_queue *q, const struct rdi_wr *wr,
					       const struct ibv_wc *wc)
{
	struct rdi_rdma_conn *c = q->conn;
	const char *what =
		wc->status < sizeof(wc_texts) / sizeof(wc_texts[0]) ? wc_texts[wc->status] : NULL;

	rdi_rdma_send_over(c, wr);
	if (q->state == RDI_Q_CLOSING) {
		if (c->posted == 0)
			rdi_queue_drained(q);
		return;
	}
	if (what)
		rdi_queue_fail(q, -EPROTO, "%s: %s (work completion status %d)", q->remote, what,
			       wc->status);
}

static void dispatch_wc(struct rdi_queue *q, const struct ibv_wc *wc)
{
	struct rdi_wr *wr = (struct rdi_wr *)(uintptr_t)wc->wr_id;
	struct rdi_rdma_conn *c = q->conn;

	if (!wr || wr->magic != RDI_WR_MAGIC) {
		rdi_queue_fail(q, -EPROTO, "%s: completion for an unknown work request", q->remote);
		return;
	}
	c->posted--;
	if (__builtin_expect(wc->status == IBV_WC_SUCCESS && q->state != RDI_Q_CLOSING, 1))
		wr->done(q, wr, wc);
	else
		not_done(q, wr, wc);
}

/*
 * Handles the completions that are available, up to a limit: if callbacks submit commands as fast
 * as they complete, the loop must still reach its timers. Returns false when there may be more.
 */
static bool poll_now(struct rdi_queue *q)
{
	/* for each command the SEND, and the RECV of its response */
	unsigned int left = 2u * q->cfg.depth;
	struct rdi_rdma_conn *c = q->conn;
	struct ibv_wc wc[32];
	int i, n = 0;

	while (c->cq && (n = rd_fab_cq_poll(c->cq, 32, wc)) > 0) {
		for (i = 0; i < n; i++)
			rdi_rdma_req_expect(q, &wc[i]);
		for (i = 0; i < n; i++)
			dispatch_wc(q, &wc[i]);
		if (left <= (unsigned int)n)
			return false;
		left -= (unsigned int)n;
	}
	if (n < 0)
		rdi_queue_fail(q, n, "%s: completion queue: %s", q->remote, strerror(-n));
	return true;
}

void rdi_rdma_poll(struct rdi_queue *q)
{
	struct rdi_rdma_conn *c = q->conn;

	if (!poll_now(q))
		rd_defer(q->loop, &c->again, RD_DEFER_NEXT);
}

static void on_cq(struct rd_fab_cq *cq, void *arg)
{
	struct rdi_queue *q = arg;
	struct rdi_rdma_conn *c = q->conn;
	int rc;

	if (!poll_now(q)) {
		rd_defer(q->loop, &c->again, RD_DEFER_NEXT);
		return;
	}
	rc = rd_fab_cq_arm(cq);
	if (rc)
		rdi_queue_fail(q, rc, "%s: completion queue: %s", q->remote, strerror(-rc));
	rdi_rdma_poll(q); /* completions from before arming do not raise an event */
}

static void poll_again(struct rd_defer *defer)
{
	struct rdi_rdma_conn *c = rd_container_of(defer, struct rdi_rdma_conn, again);

	on_cq(c->cq, c->q);
}

/* ---- the way up ---- */

/* Creates the queue's resources on the device that its address was resolved to, and connects. */
static int on_resolved(struct rdi_rdma_conn *c)
{
	struct rdi_queue *q = c->q;
	struct rd_fab_qp_attr qp = {
		.max_send_wr = q->cfg.depth,
		.max_recv_wr = q->cfg.depth,
		.max_send_sge = 2,
		.max_recv_sge = 1,
		.coalesce = true,
	};
	struct nvmf_rdma_cm_req req = {
		.recfmt = htole16(0),
		.qid = htole16(q->cfg.qid),
		.hrqsize = htole16(q->cfg.depth),
		.hsqsize = htole16((uint16_t)(q->cfg.depth - 1)),
	};
	struct rd_fab_conn_param param = {
		.private_data = &req,
		.private_len = sizeof(req),
		.ird = OFFERED_IRD,
	};
	unsigned int i;
	int rc;

	c->dev = c->conn->dev;
	rc = rd_fab_reg_mr(c->dev, q->sqes, q->cfg.depth * sizeof(*q->sqes), 0, &c->sqe_mr);
	if (!rc)
		rc = rd_fab_reg_mr(c->dev, c->recvs, q->cfg.depth * sizeof(*c->recvs),
				   IBV_ACCESS_LOCAL_WRITE, &c->recv_mr);
	if (!rc && !c->dev->caps.cheap_mr)
		rc = rdi_rdma_bounce_create(c);
	if (!rc)
		rc = rd_fab_cq_create(c->dev, 2u * q->cfg.depth, on_cq, q, &c->cq);
	if (!rc)
		rc = rd_fab_cq_arm(c->cq);
	if (rc)
		return rc;
	rdi_rdma_req_prepare(c);
	qp.max_inline = c->bare_flags & IBV_SEND_INLINE ? sizeof(*q->sqes) : 0;
	qp.send_cq = c->cq;
	qp.recv_cq = c->cq;
	rc = rd_fab_qp_create(c->conn, &qp);
	for (i = 0; !rc && i < q->cfg.depth; i++)
		rc = rdi_rdma_recv_post(c, &c->recvs[i]);
	if (!rc)
		rc = rd_fab_connect(c->conn, &param);
	if (!rc)
		rdi_queue_connecting(q);
	return rc;
}

static void on_established(struct rdi_queue *q, const struct rd_fab_event *ev)
{
	const struct nvmf_rdma_cm_rep *rep = ev->private_data;
	uint16_t crqsize = 0;

	if (rep && ev->private_len >= offsetof(struct nvmf_rdma_cm_rep, rsvd4))
		crqsize = le16toh(rep->crqsize);
	/*
	 * CRQSIZE is the number of capsules the target accepts (RDMA 5.1). Some targets leave it 0
	 * and have accepted the number requested.
	 */
	rdi_queue_established(q, crqsize);
}

static void on_rejected(struct rdi_queue *q, const struct rd_fab_event *ev)
{
	const struct nvmf_rdma_cm_rej *rej = ev->private_data;
	char what[RDI_TEXT / 2];

	if (rej && ev->private_len >= sizeof(*rej) && le16toh(rej->sts))
		snprintf(what, sizeof(what), "rejected by the target: %s",
			 nvmf_rdma_cm_status_text(le16toh(rej->sts)));
	else
		snprintf(what, sizeof(what), "rejected by the target: %s", ev->reason);
	rdi_queue_attempt_failed(q, -ECONNREFUSED, what);
}

static void on_connect_error(struct rdi_queue *q, const struct rd_fab_event *ev)
{
	char what[RDI_TEXT / 2];
	int err = ev->status ? ev->status : -ECONNRESET;

	if (err == -ECONNREFUSED)
		snprintf(what, sizeof(what), "connection refused (is the target listening there?)");
	else if (ev->unanswered)
		snprintf(what, sizeof(what), "not an NVMe/RDMA target over iWARP: %s", ev->reason);
	else
		snprintf(what, sizeof(what), "%s", ev->reason);
	rdi_queue_attempt_failed(q, err, what);
}

/* The error of a lost connection in the API, whatever the provider reports: the API uses -EIO
 * for a status of the controller. */
static int lost_err(int status)
{
	return status == -ETIMEDOUT || status == -EPROTO ? status : -ECONNRESET;
}

static void on_disconnected(struct rdi_queue *q, const struct rd_fab_event *ev)
{
	struct rdi_rdma_conn *c = q->conn;

	rdi_rdma_poll(q); /* responses that arrived before the end */
	c->over = true;
	rdi_queue_lost(q, lost_err(ev->status), ev->reason);
	rdi_queue_drained(q);
}

static void on_fab_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct rdi_queue *q = arg;
	struct rdi_rdma_conn *c = q->conn;
	int rc;

	rd_debug(q->log, RD_LOG_QPAIR, "%s queue: event %d, status %d (%s)", q->cfg.label, ev->type,
		 ev->status, ev->reason);
	if (ev->type == RD_FAB_EV_DISCONNECTED) {
		on_disconnected(q, ev);
		return;
	}
	if (q->state == RDI_Q_CLOSING) {
		/* The attempt ended by itself while it was being cancelled. */
		if (ev->type == RD_FAB_EV_REJECTED || ev->type == RD_FAB_EV_CONNECT_ERROR) {
			c->over = true;
			c->posted = 0; /* never connected: no work request will complete */
			rdi_queue_drained(q);
		}
		return;
	}
	switch (ev->type) {
	case RD_FAB_EV_RESOLVED:
		rc = on_resolved(c);
		if (rc)
			rdi_queue_attempt_failed(q, rc, strerror(-rc));
		break;
	case RD_FAB_EV_ESTABLISHED:
		on_established(q, ev);
		break;
	case RD_FAB_EV_REJECTED:
		on_rejected(q, ev);
		break;
	case RD_FAB_EV_CONNECT_ERROR:
		on_connect_error(q, ev);
		break;
	default:
		break; /* DEVICE_REMOVED: DISCONNECTED follows */
	}
}

int rdi_rdma_connect(struct rdi_queue *q, const struct sockaddr *addr)
{
	const struct rdi_rdma_handle *h = q->opened;
	struct rdi_rdma_conn *c = q->conn;
	struct rd_fab_resolve_attr attr = {
		.dst = addr,
		.src = q->cfg.src,
		.timeout_ns = q->cfg.connect_timeout_ns,
		.on_event = on_fab_event,
		.arg = q,
	};

	return rd_fab_resolve(h->fab, &attr, &c->conn);
}

/* ---- the end ---- */

void rdi_rdma_disconnect(struct rdi_queue *q)
{
	struct rdi_rdma_conn *c = q->conn;

	if (c->conn && !c->over)
		rd_fab_disconnect(c->conn);
}

bool rdi_rdma_drained(const struct rdi_queue *q)
{
	const struct rdi_rdma_conn *c = q->conn;

	return !c->conn || (c->over && c->posted == 0);
}

void rdi_rdma_drop(struct rdi_queue *q)
{
	struct rdi_rdma_conn *c = q->conn;

	if (c->posted)
		rd_debug(q->log, RD_LOG_QPAIR, "%s queue: %u work requests not flushed, dropped",
			 q->cfg.label, c->posted);
	rd_defer_cancel(q->loop, &c->again);
	rd_fab_conn_destroy(&c->conn);
	rd_fab_cq_destroy(&c->cq);
	rd_fab_dereg_mr(&c->sqe_mr);
	rd_fab_dereg_mr(&c->recv_mr);
	rdi_rdma_bounce_destroy(c);
	STAILQ_INIT(&c->sent);
	c->posted = 0;
}

int rdi_rdma_alloc(struct rdi_queue *q)
{
	struct rdi_rdma_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->q = q;
	c->again.fn = poll_again;
	c->recvs = rdi_lines_alloc(q->cfg.depth, sizeof(*c->recvs));
	if (!c->recvs) {
		free(c);
		return -ENOMEM;
	}
	q->conn = c;
	rdi_rdma_req_init(c);
	return 0;
}

void rdi_rdma_release(struct rdi_queue *q)
{
	struct rdi_rdma_conn *c = q->conn;

	if (c)
		free(c->recvs);
	free(c);
	q->conn = NULL;
}
