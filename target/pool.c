/* SPDX-License-Identifier: BSD-3-Clause */
/* A reactor's data buffers, and the requests that wait for one, in order. */
#include <errno.h>

#include "io.h"

static size_t need(const struct rdt_pool *pool, const struct rdt_req *req)
{
	return pool->piece ? pool->piece : req->pool_len;
}

/* Only the head advances: a large request is not starved by small ones behind it. */
static void pool_serve(struct rd_defer *defer)
{
	struct rdt_pool *pool = rd_container_of(defer, struct rdt_pool, serve);
	struct rdt_req *req;

	while ((req = TAILQ_FIRST(&pool->waiting))) {
		void *buf = rd_buddy_alloc(pool->buddy, need(pool, req));

		if (!buf)
			break;
		TAILQ_REMOVE(&pool->waiting, req, link);
		req->waiting = false;
		if (pool->piece)
			rdt_io_scratch(req, buf);
		else
			rdt_req_buffer(req, buf);
	}
}

int rdt_pool_init(struct rdt_pool *pool, struct rdt_reactor *r, void *base, size_t len, size_t max)
{
	pool->reactor = r;
	TAILQ_INIT(&pool->waiting);
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
	void *buf = NULL;

	if (TAILQ_EMPTY(&pool->waiting))
		buf = rd_buddy_alloc(pool->buddy, need(pool, req));
	if (!buf) {
		TAILQ_INSERT_TAIL(&pool->waiting, req, link);
		req->waiting = true;
	}
	return buf;
}

void rdt_pool_put(struct rdt_pool *pool, void *buf, size_t len)
{
	rd_buddy_free(pool->buddy, buf, len);
	if (!TAILQ_EMPTY(&pool->waiting))
		rd_defer(pool->reactor->loop, &pool->serve, RD_DEFER_WORK);
}

void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req)
{
	TAILQ_REMOVE(&pool->waiting, req, link);
	req->waiting = false;
	/* The next one may be small enough for what is free now. */
	if (!TAILQ_EMPTY(&pool->waiting))
		rd_defer(pool->reactor->loop, &pool->serve, RD_DEFER_WORK);
}
