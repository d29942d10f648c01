/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a queue, from the first address to its end. Its requests are in request.c. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "auth.h"

/*
 * Time limit for an orderly end of a connection before it is destroyed.
 * Destroying it is safe at any time; waiting only lets an orderly close reach the peer.
 */
#define DRAIN_NS (1 * RD_NSEC_PER_SEC)

const char *rdi_queue_state_name(enum rdi_queue_state state)
{
	static const char *const names[] = {
		[RDI_Q_NEW] = "new",
		[RDI_Q_RESOLVING] = "resolving",
		[RDI_Q_CONNECTING] = "connecting",
		[RDI_Q_ESTABLISHED] = "established",
		[RDI_Q_LIVE] = "live",
		[RDI_Q_CLOSING] = "closing",
		[RDI_Q_CLOSED] = "closed",
	};

	return names[state];
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

static void finish_close(struct rdi_queue *q)
{
	rd_timer_stop(q->loop, &q->drain_timer);
	rd_timer_stop(q->loop, &q->watchdog);
	rd_defer_cancel(q->loop, &q->teardown);
	q->ops->drop(q); /* the peer can access none of our memory any more */
	set_queue_state(q, RDI_Q_CLOSED);
	rdi_req_abort_all(q, q->err, q->text);
	rdi_auth_stop(q, q->err, q->text);
	if (q->closed)
		q->closed(q);
}

static void teardown_cb(struct rd_defer *defer)
{
	struct rdi_queue *q = rd_container_of(defer, struct rdi_queue, teardown);

	if (q->state != RDI_Q_CLOSING)
		return;
	q->ops->poll(q); /* count what has been flushed */
	if (q->no_drain || q->ops->drained(q))
		finish_close(q);
}

static void drain_timeout(struct rd_timer *timer)
{
	struct rdi_queue *q = rd_container_of(timer, struct rdi_queue, drain_timer);

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
	q->ops->disconnect(q);
	if (rd_timer_start(q->loop, &q->drain_timer, DRAIN_NS))
		q->no_drain = true; /* without memory for the timer */
	rd_defer(q->loop, &q->teardown, RD_DEFER_WORK);
}

void rdi_queue_fini(struct rdi_queue *q)
{
	if (!q->loop)
		return;
	rd_timer_stop(q->loop, &q->drain_timer);
	rd_timer_stop(q->loop, &q->watchdog);
	rd_defer_cancel(q->loop, &q->teardown);
	if (q->conn)
		q->ops->drop(q);
	q->closed = NULL;
	if (q->state != RDI_Q_CLOSED) {
		q->state = RDI_Q_CLOSED;
		q->err = -ECANCELED;
		snprintf(q->text, sizeof(q->text), "the handle was freed");
	}
	rdi_req_abort_all(q, -ECANCELED, "the handle was freed");
	rdi_auth_stop(q, -ECANCELED, "the handle was freed");
	rdi_region_clear(q);
	q->ops->release(q);
	rdi_req_release(q);
}

/* ---- the way up ---- */

static int try_next_addr(struct rdi_queue *q);

void rdi_queue_connecting(struct rdi_queue *q)
{
	set_queue_state(q, RDI_Q_CONNECTING);
}

void rdi_queue_established(struct rdi_queue *q, uint16_t depth)
{
	q->depth = q->cfg.depth;
	if (depth && depth < q->depth)
		q->depth = depth;
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

void rdi_queue_attempt_failed(struct rdi_queue *q, int err, const char *what)
{
	q->err = err;
	snprintf(q->text, sizeof(q->text), "%s: %s", q->remote, what);
	rd_info(q->log, RD_LOG_QPAIR, "%s queue: %s", q->cfg.label, q->text);
	q->ops->drop(q); /* may end the life of @what */
	if (try_next_addr(q)) {
		char last[RDI_TEXT];

		snprintf(last, sizeof(last), "%s", q->text);
		rdi_queue_fail(q, q->err, "%s", last);
	}
}

void rdi_queue_lost(struct rdi_queue *q, int err, const char *why)
{
	rdi_queue_fail(q, err, "%s: connection lost: %s", q->remote, why);
}

void rdi_queue_drained(struct rdi_queue *q)
{
	rd_defer(q->loop, &q->teardown, RD_DEFER_WORK);
}

/* Returns 0 when an attempt is in progress, else -errno with q->err and q->text set. */
static int try_next_addr(struct rdi_queue *q)
{
	const struct sockaddr *src = q->cfg.src, *dst;
	int rc;

	while (q->addr_next < q->cfg.addrs.n) {
		if (q->cfg.at_own_port && q->addr_next == q->cfg.at_own_port &&
		    q->err != -ECONNREFUSED)
			break;
		dst = (const struct sockaddr *)&q->cfg.addrs.ss[q->addr_next++];
		if (src && src->sa_family != dst->sa_family) {
			q->err = -EADDRNOTAVAIL;
			snprintf(q->text, sizeof(q->text),
				 "host_traddr and the address of the target are of different "
				 "families");
			continue;
		}
		rd_addr_format(dst, q->remote);
		set_queue_state(q, RDI_Q_RESOLVING);
		rc = q->ops->connect(q, dst);
		if (!rc)
			return 0;
		q->err = rc;
		snprintf(q->text, sizeof(q->text), "%s: %s", q->remote, strerror(-rc));
	}
	return q->err ? q->err : -EADDRNOTAVAIL;
}

void rdi_queue_init(struct rdi_queue *q, const struct rdi_handle *h,
		    const struct rdi_queue_cfg *cfg)
{
	memset(q, 0, sizeof(*q));
	q->cfg = *cfg;
	q->ops = h->ops;
	q->opened = h->opened;
	q->loop = h->loop;
	q->log = rd_loop_log(h->loop);
	q->drain_timer.fn = drain_timeout;
	q->watchdog.fn = rdi_req_watchdog;
	q->teardown.fn = teardown_cb;
	SLIST_INIT(&q->free);
	TAILQ_INIT(&q->busy);
}

int rdi_queue_connect(struct rdi_queue *q)
{
	int rc = rdi_req_alloc(q);

	if (!rc)
		rc = q->ops->alloc(q);
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
