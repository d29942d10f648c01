/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection of a queue: from the first address until the last work request is flushed. Its
 * requests are in request.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "auth.h"

/*
 * Time limit for flushing the work requests of a broken connection before it is destroyed.
 * Destroying it is safe at any time; waiting only lets an orderly close reach the peer.
 */
#define DRAIN_NS (1 * RD_NSEC_PER_SEC)

/* Linux offers as much; a target never has more READs outstanding than commands in flight. */
#define OFFERED_IRD 128

const char *rdi_queue_state_name(enum rdi_queue_state state)
{
	switch (state) {
	case RDI_Q_NEW:
		return "new";
	case RDI_Q_RESOLVING:
		return "resolving";
	case RDI_Q_CONNECTING:
		return "connecting";
	case RDI_Q_ESTABLISHED:
		return "established";
	case RDI_Q_LIVE:
		return "live";
	case RDI_Q_CLOSING:
		return "closing";
	case RDI_Q_CLOSED:
		return "closed";
	}
	return "?";
}

static void set_queue_state(struct rdi_queue *q, enum rdi_queue_state state)
{
	if (q->state == state)
		return;
	rd_debug(q->log, RD_LOG_QPAIR, "%s queue: %s -> %s", q->cfg.label,
		 rdi_queue_state_name(q->state), rdi_queue_state_name(state));
	q->state = state;
}

const char *rdi_queue_why(const struct rdi_queue *q, int err)
{
	if (err == -EAGAIN)
		return "as many commands are in flight as the queue or its bounce memory allows";
	if (err == -ENOTCONN && q->state >= RDI_Q_CLOSING && q->text[0])
		return q->text;
	if (err == -ENOTCONN)
		return "not connected";
	if (err == -EMSGSIZE)
		return "more data than the bounce memory holds";
	return strerror(-err);
}

/* ---- the end ---- */

/* Frees all that belongs to a connection attempt. After this the peer can access none of our
 * memory. */
static void drop_connection(struct rdi_queue *q)
{
	rd_defer_cancel(q->loop, &q->again);
	rd_fab_conn_destroy(&q->conn);
	rd_fab_cq_destroy(&q->cq);
	rd_fab_dereg_mr(&q->sqe_mr);
	rd_fab_dereg_mr(&q->recv_mr);
	q->posted = 0;
}

static void finish_close(struct rdi_queue *q)
{
	rd_timer_stop(q->loop, &q->drain_timer);
	rd_timer_stop(q->loop, &q->watchdog);
	rd_defer_cancel(q->loop, &q->teardown);
	drop_connection(q);
	set_queue_state(q, RDI_Q_CLOSED);
	rdi_req_abort_all(q, q->err, q->text);
	rdi_auth_stop(q, q->err, q->text);
	rdi_bounce_destroy(q);
	if (q->closed)
		q->closed(q);
}

static void teardown_cb(struct rd_defer *defer)
{
	struct rdi_queue *q = rd_container_of(defer, struct rdi_queue, teardown);

	if (q->state != RDI_Q_CLOSING)
		return;
	rdi_queue_poll(q); /* count what has been flushed */
	if (!q->conn || (q->conn_over && q->posted == 0))
		finish_close(q);
}

static void drain_timeout(struct rd_timer *timer)
{
	struct rdi_queue *q = rd_container_of(timer, struct rdi_queue, drain_timer);

	rd_debug(q->log, RD_LOG_QPAIR, "%s queue: %u work requests not flushed, dropped",
		 q->cfg.label, q->posted);
	finish_close(q);
}

void rdi_queue_fail(struct rdi_queue *q, int err, const char *fmt, ...)
{
	va_list ap;

	if (q->state >= RDI_Q_CLOSING)
		return;
	q->err = err;
	va_start(ap, fmt);
	vsnprintf(q->text, sizeof(q->text), fmt, ap);
	va_end(ap);
	rdi_auth_explain_end(q);
	rd_info(q->log, RD_LOG_QPAIR, "%s queue: %s", q->cfg.label, q->text);
	set_queue_state(q, RDI_Q_CLOSING);
	if (q->conn && !q->conn_over)
		rd_fab_disconnect(q->conn);
	if (rd_timer_start(q->loop, &q->drain_timer, DRAIN_NS)) {
		q->conn_over = true; /* without memory for the timer: closes without draining */
		q->posted = 0;
	}
	rd_defer(q->loop, &q->teardown, RD_DEFER_WORK);
}

void rdi_queue_fini(struct rdi_queue *q)
{
	if (!q->loop)
		return;
	rd_timer_stop(q->loop, &q->drain_timer);
	rd_timer_stop(q->loop, &q->watchdog);
	rd_defer_cancel(q->loop, &q->teardown);
	drop_connection(q);
	q->closed = NULL;
	if (q->state != RDI_Q_CLOSED) {
		q->state = RDI_Q_CLOSED;
		q->err = -ECANCELED;
		snprintf(q->text, sizeof(q->text), "the handle was freed");
	}
	rdi_req_abort_all(q, -ECANCELED, "the handle was freed");
	rdi_auth_stop(q, -ECANCELED, "the handle was freed");
	rdi_region_clear(q);
	rdi_bounce_destroy(q);
	rdi_req_release(q);
}

/* ---- completions ---- */

/*
 * The text for a status that gives the cause of the end: an action of the peer or ours. NULL for
 * statuses such as a flush that only follow from a broken connection: DISCONNECTED comes later and
 * gives the cause.
 */
static const char *wc_text(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_LOC_LEN_ERR:
		return "a response longer than 16 bytes";
	case IBV_WC_REM_INV_REQ_ERR:
		return "the target invalidated a key that is not valid";
	case IBV_WC_LOC_PROT_ERR:
		return "local protection error";
	case IBV_WC_REM_ACCESS_ERR:
		return "remote access error";
	default:
		return NULL;
	}
}

/* Handles a work request that failed, or that no request waits for. */
static __attribute__((noinline)) void not_done(struct rdi_queue *q, const struct rdi_wr *wr,
					       const struct ibv_wc *wc)
{
	const char *what = wc_text(wc->status);

	rdi_send_over(q, wr);
	if (q->state == RDI_Q_CLOSING) {
		if (q->posted == 0)
			rd_defer(q->loop, &q->teardown, RD_DEFER_WORK);
		return;
	}
	if (what)
		rdi_queue_fail(q, -EPROTO, "%s: %s (work completion status %d)", q->remote, what,
			       wc->status);
}

static void dispatch_wc(struct rdi_queue *q, const struct ibv_wc *wc)
{
	struct rdi_wr *wr = (struct rdi_wr *)(uintptr_t)wc->wr_id;

	if (!wr || wr->magic != RDI_WR_MAGIC) {
		rdi_queue_fail(q, -EPROTO, "%s: completion for an unknown work request", q->remote);
		return;
	}
	q->posted--;
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
	struct ibv_wc wc[32];
	int i, n = 0;

	while (q->cq && (n = rd_fab_cq_poll(q->cq, 32, wc)) > 0) {
		for (i = 0; i < n; i++)
			rdi_req_expect(q, &wc[i]);
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

void rdi_queue_poll(struct rdi_queue *q)
{
	if (!poll_now(q))
		rd_defer(q->loop, &q->again, RD_DEFER_NEXT);
}

static void on_cq(struct rd_fab_cq *cq, void *arg)
{
	struct rdi_queue *q = arg;
	int rc;

	if (!poll_now(q)) {
		rd_defer(q->loop, &q->again, RD_DEFER_NEXT);
		return;
	}
	rc = rd_fab_cq_arm(cq);
	if (rc)
		rdi_queue_fail(q, rc, "%s: completion queue: %s", q->remote, strerror(-rc));
	rdi_queue_poll(q); /* completions from before arming do not raise an event */
}

static void poll_again(struct rd_defer *defer)
{
	struct rdi_queue *q = rd_container_of(defer, struct rdi_queue, again);

	on_cq(q->cq, q);
}

/* ---- the way up ---- */

static int try_next_addr(struct rdi_queue *q);

/* Creates the queue's resources on the device that its address was resolved to, and connects. */
static int on_resolved(struct rdi_queue *q)
{
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

	q->dev = q->conn->dev;
	rc = rd_fab_reg_mr(q->dev, q->sqes, q->cfg.depth * sizeof(*q->sqes), 0, &q->sqe_mr);
	if (!rc)
		rc = rd_fab_reg_mr(q->dev, q->recvs, q->cfg.depth * sizeof(*q->recvs),
				   IBV_ACCESS_LOCAL_WRITE, &q->recv_mr);
	if (!rc && !q->dev->caps.cheap_mr)
		rc = rdi_bounce_create(q);
	if (!rc)
		rc = rd_fab_cq_create(q->dev, 2u * q->cfg.depth, on_cq, q, &q->cq);
	if (!rc)
		rc = rd_fab_cq_arm(q->cq);
	if (rc)
		return rc;
	rdi_req_prepare(q);
	qp.max_inline = q->bare_flags & IBV_SEND_INLINE ? sizeof(*q->sqes) : 0;
	qp.send_cq = q->cq;
	qp.recv_cq = q->cq;
	rc = rd_fab_qp_create(q->conn, &qp);
	for (i = 0; !rc && i < q->cfg.depth; i++)
		rc = rdi_recv_post(q, &q->recvs[i]);
	if (!rc)
		rc = rd_fab_connect(q->conn, &param);
	if (!rc)
		set_queue_state(q, RDI_Q_CONNECTING);
	return rc;
}

static void queue_established(struct rdi_queue *q, const struct rd_fab_event *ev)
{
	const struct nvmf_rdma_cm_rep *rep = ev->private_data;
	uint16_t crqsize = 0;

	if (rep && ev->private_len >= offsetof(struct nvmf_rdma_cm_rep, rsvd4))
		crqsize = le16toh(rep->crqsize);
	/*
	 * CRQSIZE is the number of capsules the target accepts (RDMA 5.1). Some targets leave it 0
	 * and have accepted the number requested.
	 */
	q->depth = q->cfg.depth;
	if (crqsize && crqsize < q->depth)
		q->depth = crqsize;
	if (q->depth < 2)
		q->depth = 2;
	/* A submission queue is full when one entry is left (Base 3.3.1.5). */
	q->limit = q->depth - 1u;
	q->user_limit = q->limit > q->cfg.reserved ? q->limit - q->cfg.reserved : 0;
	if (q->cfg.qid && !q->user_limit)
		q->user_limit = q->limit; /* the queue is too small to reserve an entry */
	q->err = 0;                       /* from an earlier address */
	q->text[0] = '\0';
	set_queue_state(q, RDI_Q_ESTABLISHED);
	q->established(q);
}

/* An attempt failed: tries the next address, or fails the queue with the last reason. */
static void attempt_failed(struct rdi_queue *q, int err, const char *what)
{
	drop_connection(q);
	rdi_bounce_destroy(q);
	rd_info(q->log, RD_LOG_QPAIR, "%s queue: %s: %s", q->cfg.label, q->remote, what);
	q->err = err;
	snprintf(q->text, sizeof(q->text), "%s: %s", q->remote, what);
	if (try_next_addr(q)) {
		char last[RDI_TEXT];

		snprintf(last, sizeof(last), "%s", q->text);
		rdi_queue_fail(q, q->err, "%s", last);
	}
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
	attempt_failed(q, -ECONNREFUSED, what);
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
	attempt_failed(q, err, what);
}

/* The error of a lost connection in the API, whatever the provider reports: the API uses -EIO
 * for a status of the controller. */
static int lost_err(int status)
{
	return status == -ETIMEDOUT || status == -EPROTO ? status : -ECONNRESET;
}

static void on_disconnected(struct rdi_queue *q, const struct rd_fab_event *ev)
{
	rdi_queue_poll(q); /* responses that arrived before the end */
	q->conn_over = true;
	if (q->state < RDI_Q_CLOSING)
		rdi_queue_fail(q, lost_err(ev->status), "%s: connection lost: %s", q->remote,
			       ev->reason);
	rd_defer(q->loop, &q->teardown, RD_DEFER_WORK);
}

static void on_fab_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct rdi_queue *q = arg;
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
			q->conn_over = true;
			q->posted = 0; /* never connected: no work request will complete */
			rd_defer(q->loop, &q->teardown, RD_DEFER_WORK);
		}
		return;
	}
	switch (ev->type) {
	case RD_FAB_EV_RESOLVED:
		rc = on_resolved(q);
		if (rc)
			attempt_failed(q, rc, strerror(-rc));
		break;
	case RD_FAB_EV_ESTABLISHED:
		queue_established(q, ev);
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

/* Returns 0 when an attempt is in progress, else -errno with q->err and q->text set. */
static int try_next_addr(struct rdi_queue *q)
{
	struct rd_fab_resolve_attr attr = {
		.src = q->cfg.src,
		.timeout_ns = q->cfg.connect_timeout_ns,
		.on_event = on_fab_event,
		.arg = q,
	};
	int rc;

	while (q->addr_next < q->cfg.addrs.n) {
		attr.dst = (const struct sockaddr *)&q->cfg.addrs.ss[q->addr_next++];
		if (attr.src && attr.src->sa_family != attr.dst->sa_family) {
			q->err = -EADDRNOTAVAIL;
			snprintf(q->text, sizeof(q->text),
				 "host_traddr and the address of the target are of different "
				 "families");
			continue;
		}
		rd_addr_format(attr.dst, q->remote);
		set_queue_state(q, RDI_Q_RESOLVING);
		rc = rd_fab_resolve(q->fab, &attr, &q->conn);
		if (!rc)
			return 0;
		q->err = rc;
		snprintf(q->text, sizeof(q->text), "%s: %s", q->remote, strerror(-rc));
	}
	return q->err ? q->err : -EADDRNOTAVAIL;
}

void rdi_queue_init(struct rdi_queue *q, struct rd_loop *loop, struct rd_fab *fab,
		    const struct rdi_queue_cfg *cfg)
{
	memset(q, 0, sizeof(*q));
	q->cfg = *cfg;
	q->loop = loop;
	q->fab = fab;
	q->log = rd_loop_log(loop);
	q->drain_timer.fn = drain_timeout;
	q->watchdog.fn = rdi_req_watchdog;
	q->teardown.fn = teardown_cb;
	q->again.fn = poll_again;
	SLIST_INIT(&q->free);
	TAILQ_INIT(&q->busy);
	STAILQ_INIT(&q->sent);
}

int rdi_queue_connect(struct rdi_queue *q)
{
	int rc = rdi_req_alloc(q);

	if (rc) {
		snprintf(q->text, sizeof(q->text), "%s", strerror(-rc));
		return rc;
	}
	rc = try_next_addr(q);
	if (rc)
		set_queue_state(q, RDI_Q_CLOSED);
	return rc;
}

void rdi_queue_live(struct rdi_queue *q)
{
	if (q->state == RDI_Q_ESTABLISHED)
		set_queue_state(q, RDI_Q_LIVE);
}
