/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues: which connection may take a RECV, which ones wait, and memory for
 * incomplete messages.
 */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"

/* A share may hold SHARE times as many RECVs as are left: see rd_fab_share_create(). */
#define SHARE 3u
/* With fewer RECVs left, connections read less at once. */
#define SCARCE 16u
/* Pieces of memory for incomplete messages that are kept for reuse. */
#define REASMS 16u

static struct rd_iw_srq *to_iw_srq(struct rd_fab_srq *srq)
{
	return rd_container_of(srq, struct rd_iw_srq, base);
}

static struct rd_iw_share *to_share(struct rd_fab_share *share)
{
	return rd_container_of(share, struct rd_iw_share, base);
}

/*
 * Whether @s, with @posted RECVs left, is below its limit for one more. A share that holds none
 * always is.
 */
static bool may_take(const struct rd_iw_share *s, uint32_t posted)
{
	return s->base.recvs + 1 + SHARE <= SHARE * posted || !s->base.recvs;
}

void rd_iw_srq_wait(struct rd_iw_conn *c)
{
	struct rd_iw_srq *srq = c->srq;
	struct rd_iw_share *s = c->share;
	uint32_t posted = rd_iw_rq_count(&srq->rq);

	if (TAILQ_EMPTY(&s->waiting))
		TAILQ_INSERT_TAIL(&srq->turns, s, link);
	TAILQ_INSERT_TAIL(&s->waiting, c, rx.wait_link);
	c->base.waits = true;
	srq->nwaiting++;
	if (!posted && may_take(s, posted))
		srq->tight = true;
	/* The peer has sent its first message, although it has not been received yet. */
	if (c->est_due)
		rd_timer_stop(c->fab->base.loop, &c->timer);
}

/* Whether other connections must be served before @c. */
static bool queue_up(const struct rd_iw_conn *c)
{
	return !c->rx.grant && (c->srq->tight || !TAILQ_EMPTY(&c->share->waiting));
}

/* Returns the RECV of the shared queue that @c may take now, or NULL. */
static const struct rd_iw_rwr *srq_next(const struct rd_iw_conn *c)
{
	const struct rd_iw_srq *srq = c->srq;
	uint32_t posted = rd_iw_rq_count(&srq->rq);

	if (!posted || !may_take(c->share, posted) || (srq->nwaiting && queue_up(c)))
		return NULL;
	return rd_iw_rq_at(&srq->rq, srq->rq.tail - 1);
}

static void look_at_limit(struct rd_iw_srq *srq)
{
	if (rd_iw_rq_count(&srq->rq) < srq->limit)
		rd_defer(srq->base.dev->fab->loop, &srq->low, RD_DEFER_WORK);
}

static void srq_use(struct rd_iw_conn *c)
{
	if (c->rx.grant)
		c->rx.grant--;
	if (c->share != &c->srq->common) { /* its count is always 0 */
		c->share->base.recvs++;
		c->base.recvs++;
	}
	c->srq->rq.tail--;
	look_at_limit(c->srq);
}

const struct rd_iw_rwr *rd_iw_recv_next(const struct rd_iw_conn *c)
{
	if (c->srq)
		return srq_next(c);
	return rd_iw_rq_count(&c->rq) ? rd_iw_rq_at(&c->rq, c->rq.head) : NULL;
}

void rd_iw_recv_use(struct rd_iw_conn *c)
{
	if (c->srq)
		srq_use(c);
	else
		c->rq.head++;
}

bool rd_iw_srq_scarce(const struct rd_iw_conn *c)
{
	const struct rd_iw_srq *srq = c->srq;
	uint32_t posted = rd_iw_rq_count(&srq->rq);

	return srq->tight || posted < SCARCE ||
	       c->share->base.recvs + SCARCE > SHARE * (posted - SCARCE);
}

void rd_iw_srq_unwait(struct rd_iw_conn *c)
{
	struct rd_iw_srq *srq = c->srq;
	struct rd_iw_share *s = c->share;

	if (!c->base.waits)
		return;
	c->base.waits = false;
	TAILQ_REMOVE(&s->waiting, c, rx.wait_link);
	if (--srq->nwaiting == 0)
		srq->tight = false;
	if (TAILQ_EMPTY(&s->waiting))
		TAILQ_REMOVE(&srq->turns, s, link);
}

/* Returns the first share with waiting connections that is below its limit, or NULL. */
static struct rd_iw_share *next_turn(const struct rd_iw_srq *srq)
{
	uint32_t posted = rd_iw_rq_count(&srq->rq);
	struct rd_iw_share *s;

	TAILQ_FOREACH (s, &srq->turns, link)
		if (may_take(s, posted))
			return s;
	return NULL;
}

/*
 * Lets the first waiting connection of @s take up to @part RECVs. If it needs more it waits again,
 * behind the others.
 */
static void feed_share(struct rd_iw_srq *srq, struct rd_iw_share *s, uint32_t part)
{
	struct rd_iw_conn *c = TAILQ_FIRST(&s->waiting);

	rd_iw_srq_unwait(c);
	if (!TAILQ_EMPTY(&s->waiting)) {
		TAILQ_REMOVE(&srq->turns, s, link);
		TAILQ_INSERT_TAIL(&srq->turns, s, link);
	}
	c->rx.grant = part;
	rd_iw_rx_resume(c);
	c->rx.grant = 0;
}

/* One round: a turn for each waiting connection, each for an equal part of the RECVs. */
static void feed_round(struct rd_iw_srq *srq)
{
	uint32_t n = srq->nwaiting, part = rd_iw_rq_count(&srq->rq) / n;
	struct rd_iw_share *s;

	for (; n && rd_iw_rq_count(&srq->rq) && (s = next_turn(srq)); n--)
		feed_share(srq, s, part ? part : 1);
}

static void srq_feed(struct rd_defer *defer)
{
	struct rd_iw_srq *srq = rd_container_of(defer, struct rd_iw_srq, feed);

	srq->tight = true; /* no connection takes more than its part */
	/* Ends: each connection takes at least one RECV. */
	while (rd_iw_rq_count(&srq->rq) && next_turn(srq))
		feed_round(srq);
	srq->tight = next_turn(srq);
}

/* ---- messages that are not complete ---- */

int rd_iw_reasm_get(struct rd_iw_conn *c, uint32_t plen, bool last)
{
	struct rd_iw_srq *srq = c->srq;
	struct rd_iw_reasm *a = SLIST_FIRST(&srq->reasms);

	if (last && plen <= sizeof(c->rx.small)) {
		c->rx.reasm = c->rx.small;
		c->rx.reasm_size = sizeof(c->rx.small);
		return 0;
	}
	if (a) {
		SLIST_REMOVE_HEAD(&srq->reasms, link);
		srq->nreasms--;
	} else {
		a = malloc(sizeof(*a) + srq->rq.largest);
		if (!a)
			return -ENOMEM;
		a->size = srq->rq.largest;
	}
	c->rx.reasm = a->data;
	c->rx.reasm_size = a->size;
	return 0;
}

void rd_iw_reasm_put(struct rd_iw_conn *c)
{
	struct rd_iw_srq *srq = c->srq;
	struct rd_iw_reasm *a;

	if (c->rx.reasm && c->rx.reasm != c->rx.small) {
		a = rd_container_of(c->rx.reasm, struct rd_iw_reasm, data);
		if (srq->nreasms < REASMS && a->size == srq->rq.largest) {
			SLIST_INSERT_HEAD(&srq->reasms, a, link);
			srq->nreasms++;
		} else {
			free(a);
		}
	}
	c->rx.reasm = NULL;
}

static void reasms_free(struct rd_iw_srq *srq)
{
	struct rd_iw_reasm *a;

	while ((a = SLIST_FIRST(&srq->reasms))) {
		SLIST_REMOVE_HEAD(&srq->reasms, link);
		free(a);
	}
}

/* ---- shared queues ---- */

static void srq_low(struct rd_defer *defer)
{
	struct rd_iw_srq *srq = rd_container_of(defer, struct rd_iw_srq, low);

	if (!srq->limit)
		return; /* set to 0 by the user meanwhile */
	srq->limit = 0;
	srq->low_fn(&srq->base, srq->low_arg);
}

void rd_iw_srq_limit(struct rd_fab_srq *base, uint32_t limit, rd_fab_srq_fn fn, void *arg)
{
	struct rd_iw_srq *srq = to_iw_srq(base);

	srq->limit = limit;
	srq->low_fn = fn;
	srq->low_arg = arg;
}

static void feed_later(struct rd_iw_srq *srq)
{
	if (srq->nwaiting)
		rd_defer(srq->base.dev->fab->loop, &srq->feed, RD_DEFER_WORK);
}

static void share_init(struct rd_iw_share *s, struct rd_fab_srq *srq)
{
	s->base.srq = srq;
	TAILQ_INIT(&s->waiting);
}

int rd_iw_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out)
{
	struct rd_iw_srq *srq;
	int rc;

	if (!max_wr || max_wr > dev->caps.max_srq_wr || max_sge > dev->caps.max_recv_sge)
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	rc = rd_iw_rq_init(&srq->rq, max_wr, max_sge);
	if (rc) {
		free(srq);
		return rc;
	}
	TAILQ_INIT(&srq->turns);
	SLIST_INIT(&srq->reasms);
	srq->feed.fn = srq_feed;
	srq->low.fn = srq_low;
	srq->base.dev = dev;
	share_init(&srq->common, &srq->base);
	rd_iw_dev_stats(rd_iw_dev(dev))->srqs++;
	*out = &srq->base;
	return 0;
}

void rd_iw_srq_destroy(struct rd_fab_srq *base)
{
	struct rd_iw_srq *srq = to_iw_srq(base);

	rd_defer_cancel(base->dev->fab->loop, &srq->feed);
	rd_defer_cancel(base->dev->fab->loop, &srq->low);
	rd_iw_dev_stats(rd_iw_dev(base->dev))->srqs--;
	reasms_free(srq);
	rd_iw_rq_fini(&srq->rq);
	free(srq);
}

int rd_iw_share_create(struct rd_fab_srq *srq, struct rd_fab_share **out)
{
	struct rd_iw_share *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	share_init(s, srq);
	*out = &s->base;
	return 0;
}

void rd_iw_share_destroy(struct rd_fab_share *share)
{
	free(to_share(share));
}

void rd_iw_share_join(struct rd_fab_conn *conn, struct rd_fab_share *share)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	bool waits = c->base.waits;

	rd_iw_srq_unwait(c);
	c->share->base.recvs -= conn->recvs;
	c->share = to_share(share);
	c->share->base.recvs += conn->recvs;
	if (waits)
		rd_iw_srq_wait(c);
	/* Connections of either share may be below the limit now. */
	feed_later(c->srq);
}

int rd_iw_post_srq_recv(struct rd_fab_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_iw_srq *srq = to_iw_srq(base);
	int rc = 0;

	for (; wr && !rc; wr = rc ? wr : wr->next)
		rc = rd_iw_rq_post(&srq->rq, wr);
	if (rc && bad)
		*bad = wr;
	feed_later(srq);
	return rc;
}
