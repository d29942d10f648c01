/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "conn.h"
#include "listen.h"
#include "scratch.h"

struct rd_iw_stats *rd_iw_test_stats(struct rd_fab *fab)
{
	return &rd_iw_fab(fab)->stats;
}

struct rd_fab_dev *rd_iw_test_dev(struct rd_fab *fab)
{
	return &rd_iw_fab(fab)->dev.base;
}

void rd_iw_test_set_poke_ns(struct rd_fab *fab, uint64_t ns)
{
	rd_iw_fab(fab)->opts.poke_ns = ns;
}

struct rd_iw_test_conn rd_iw_test_conn(struct rd_fab_conn *conn)
{
	const struct rd_iw_conn *c = rd_iw_conn(conn);

	return (struct rd_iw_test_conn){
		.fd = c->io.fd,
		.got_first = c->rx.got_first,
		.timer_armed = rd_timer_armed(&c->hold_timer),
		.poke_due = c->tx.cur.poke,
		.tx_blocked = c->tx.blocked,
		.tx_part = c->tx.part_sent,
		.sq_head = c->sq.head,
		.sq_read = c->sq.read,
		.send_msn = c->rx.send_msn,
	};
}

static struct rd_iw_cq *cq_of(struct rd_fab_cq *cq)
{
	return rd_container_of(cq, struct rd_iw_cq, base);
}

bool rd_iw_test_set_counters(struct rd_fab_conn *conn, struct rd_fab_cq *base, uint32_t value)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	struct rd_iw_cq *cq = cq_of(base);

	if (c->sq.head != c->sq.tail || c->rq.head != c->rq.tail || cq->ring.head != cq->ring.tail)
		return false;
	c->sq.head = c->sq.tail = c->sq.read = c->tx.cur.sq = value;
	c->rq.head = c->rq.tail = value;
	cq->ring.head = cq->ring.tail = value;
	c->resp_head = c->resp_tail = c->tx.cur.resp = value;
	c->tx.cur.send_msn = c->tx.cur.read_msn = value;
	c->rx.send_msn = c->rx.read_msn = value;
	return true;
}

int rd_iw_test_adopt(struct rd_fab *base, int fd, const struct rd_iw_mpa *mpa, rd_fab_event_fn fn,
		     void *arg, struct rd_fab_conn **out)
{
	struct rd_iw_fab *fab = rd_iw_fab(base);
	struct rd_iw_req *req = calloc(1, sizeof(*req));
	int rc = req ? 0 : -ENOMEM;

	if (rc == 0 && !fab->box)
		rc = rd_iw_mailbox_create(fab, &fab->box);
	if (rc) {
		close(fd);
		free(req);
		return rc;
	}
	rd_iw_mailbox_get(fab->box);
	req->base.ops = &rd_iw_ops;
	req->home = fab->box;
	req->fd = fd;
	req->mpa = *mpa;
	return rd_fab_req_adopt(base, &req->base, fn, arg, out);
}

struct rd_fab_mr *rd_iw_test_find_mr(struct rd_fab_dev *dev, uint32_t key)
{
	struct rd_iw_mr *mr = rd_iw_mr_find(rd_iw_dev(dev), key);

	return mr ? &mr->base : NULL;
}

uint32_t rd_iw_test_mr_slots(struct rd_fab_dev *dev)
{
	return rd_iw_dev(dev)->mrs.mask + 1;
}

void rd_iw_test_invalidate(struct rd_fab_dev *dev, uint32_t key)
{
	rd_iw_mr_invalidate(rd_iw_dev(dev), key);
}

void rd_iw_test_reuse_mr(struct rd_fab_dev *dev, struct rd_fab_mr *base)
{
	struct rd_iw_mr *mr = rd_container_of(base, struct rd_iw_mr, base);
	struct rd_iw_mr_table *t = &rd_iw_dev(dev)->mrs;

	STAILQ_REMOVE(&t->free, mr, rd_iw_mr, free_link);
	STAILQ_INSERT_HEAD(&t->free, mr, free_link);
}

void rd_iw_test_name_mr(struct rd_fab_mr *mr, uint32_t key, uint64_t iova)
{
	mr->lkey = mr->rkey = key;
	mr->iova = iova;
	rd_container_of(mr, struct rd_iw_mr, base)->invalidated = false;
}

uint32_t rd_iw_test_cq_reserved(struct rd_fab_cq *cq)
{
	return cq_of(cq)->reserved;
}

uint32_t rd_iw_test_cq_size(struct rd_fab_cq *cq)
{
	return cq_of(cq)->ring.size;
}

int rd_iw_test_cq_reserve(struct rd_fab_cq *cq, int n)
{
	if (n >= 0)
		return rd_iw_cq_reserve(cq_of(cq), (uint32_t)n);
	rd_iw_cq_unreserve(cq_of(cq), (uint32_t)-n);
	return 0;
}

void rd_iw_test_cq_push(struct rd_fab_cq *cq, struct rd_fab_conn *conn, uint64_t wr_id)
{
	rd_iw_cq_push(cq_of(cq), conn, wr_id, IBV_WC_SEND, IBV_WC_SUCCESS, 0, 0, 0);
}

uint32_t rd_iw_test_scratch_refs(const struct rd_fab_iwarp_scratch *pool)
{
	return atomic_load(&pool->refs);
}

void *rd_iw_test_scratch_get(struct rd_fab_iwarp_scratch *pool)
{
	return rd_iw_scratch_get(pool);
}

void rd_iw_test_scratch_put(struct rd_fab_iwarp_scratch *pool, void *piece)
{
	rd_iw_scratch_put(pool, piece);
}
