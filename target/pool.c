/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor's data buffers, and the requests that wait for one. What a host does not drain it keeps
 * for as long as it likes, so that each may have only a share: three times as much as is left free
 * for all others. Alone it gets three quarters, and the more hosts hold on to theirs, the less each
 * one gets; there is always something left for the next. Hosts that wait take turns, the requests
 * of one host go in order.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/buddy.h"
#include "util/loop.h"
#include "io.h"
#include "request.h"

#define SHARE 3u

/* The block that it needs, in bytes. */
static size_t need(const struct rdt_pool *pool, const struct rdt_req *req)
{
	return rd_buddy_block(pool->buddy, pool->piece ? pool->piece : req->pool_len);
}

/* Within its share? A host that has nothing gets what it needs as soon as that is there. */
static bool may_have(const struct rdt_pool *pool, const struct rdt_account *acc, size_t size)
{
	size_t left;

	if (acc == &pool->common || !acc->held)
		return true;
	left = rd_buddy_free_bytes(pool->buddy);
	return size <= left && acc->held + size <= SHARE * (left - size);
}

static void *take(struct rdt_pool *pool, struct rdt_account *acc, size_t size)
{
	void *buf = rd_buddy_alloc(pool->buddy, size);

	if (buf)
		acc->held += size;
	return buf;
}

static struct rdt_account *account_of(struct rdt_pool *pool, const struct rdt_req *req)
{
	return pool->piece ? &pool->common : req->payer;
}

static void leave_queue(struct rdt_pool *pool, struct rdt_req *req)
{
	struct rdt_account *acc = account_of(pool, req);

	TAILQ_REMOVE(&acc->waiting, req, link);
	req->waiting = false;
	pool->waiting--;
	if (TAILQ_EMPTY(&acc->waiting))
		TAILQ_REMOVE(&pool->turns, acc, link);
}

static struct rdt_account *next_turn(const struct rdt_pool *pool)
{
	struct rdt_account *acc;

	TAILQ_FOREACH (acc, &pool->turns, link)
		if (may_have(pool, acc, need(pool, TAILQ_FIRST(&acc->waiting))))
			return acc;
	return NULL;
}

/* A large request is not starved by small ones: who finds no block where it may have one is next.
 */
static void pool_serve(struct rd_defer *defer)
{
	struct rdt_pool *pool = rd_container_of(defer, struct rdt_pool, serve);
	struct rdt_account *acc;

	pool->tight = false;
	while ((acc = next_turn(pool))) {
		struct rdt_req *req = TAILQ_FIRST(&acc->waiting);
		void *buf = take(pool, acc, need(pool, req));

		pool->tight = !buf;
		if (!buf)
			break;
		leave_queue(pool, req);
		if (!TAILQ_EMPTY(&acc->waiting)) {
			TAILQ_REMOVE(&pool->turns, acc, link);
			TAILQ_INSERT_TAIL(&pool->turns, acc, link);
		}
		if (pool->piece)
			rdt_io_scratch(req, buf);
		else
			rdt_req_buffer(req, buf);
	}
}

int rdt_pool_init(struct rdt_pool *pool, struct rdt_reactor *r, void *base, size_t len, size_t max)
{
	pool->reactor = r;
	pool->index = (unsigned int)(pool - r->pools);
	TAILQ_INIT(&pool->turns);
	TAILQ_INIT(&pool->common.waiting);
	pool->serve.fn = pool_serve;
	return rd_buddy_create(base, len, RDT_BUFFER_UNIT, max, &pool->buddy);
}

void rdt_pool_fini(struct rdt_pool *pool)
{
	if (pool->reactor)
		rd_defer_cancel(pool->reactor->loop, &pool->serve);
	rd_buddy_destroy(&pool->buddy);
}

void *rdt_pool_get(struct rdt_pool *pool, struct rdt_req *req)
{
	size_t size = need(pool, req);
	struct rdt_account *acc;
	void *buf = NULL;

	if (!pool->piece)
		req->payer = &req->qp->share->accounts[pool->index];
	acc = account_of(pool, req);
	if (!pool->tight && TAILQ_EMPTY(&acc->waiting) && may_have(pool, acc, size)) {
		buf = take(pool, acc, size);
		pool->tight = !buf;
	}
	if (!buf) {
		if (TAILQ_EMPTY(&acc->waiting))
			TAILQ_INSERT_TAIL(&pool->turns, acc, link);
		TAILQ_INSERT_TAIL(&acc->waiting, req, link);
		req->waiting = true;
		pool->waiting++;
	}
	return buf;
}

static void look_again(struct rdt_pool *pool)
{
	if (pool->waiting)
		rd_defer(pool->reactor->loop, &pool->serve, RD_DEFER_WORK);
}

void rdt_pool_put(struct rdt_pool *pool, struct rdt_account *payer, void *buf, size_t len)
{
	rd_buddy_free(pool->buddy, buf, len);
	(payer ? payer : &pool->common)->held -= rd_buddy_block(pool->buddy, len);
	look_again(pool);
}

void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req)
{
	leave_queue(pool, req);
	pool->tight = pool->tight && pool->waiting;
	/* The next one may be small enough for what is free now. */
	look_again(pool);
}

/* ---- hosts ---- */

static void init_accounts(struct rdt_share *share)
{
	for (unsigned int i = 0; i < sizeof(share->accounts) / sizeof(share->accounts[0]); i++)
		TAILQ_INIT(&share->accounts[i].waiting);
}

void rdt_shares_init(struct rdt_reactor *r)
{
	TAILQ_INIT(&r->shares);
	init_accounts(&r->strangers);
}

void rdt_share_join(struct rdt_qpair *qp, const char *hostnqn)
{
	struct rdt_reactor *r = qp->reactor;
	struct rdt_share *share;

	TAILQ_FOREACH (share, &r->shares, link)
		if (strcmp(share->hostnqn, hostnqn) == 0)
			break;
	if (!share) {
		share = calloc(1, sizeof(*share));
		if (!share)
			return; /* with the strangers it is served as well */
		init_accounts(share);
		memccpy(share->hostnqn, hostnqn, 0, sizeof(share->hostnqn));
		TAILQ_INSERT_TAIL(&r->shares, share, link);
	}
	share->qpairs++;
	qp->share = share;
}

void rdt_share_leave(struct rdt_qpair *qp)
{
	struct rdt_share *share = qp->share;

	qp->share = NULL;
	if (!share || share == &qp->reactor->strangers || --share->qpairs)
		return;
	TAILQ_REMOVE(&qp->reactor->shares, share, link);
	free(share);
}
