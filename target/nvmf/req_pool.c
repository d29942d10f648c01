/* SPDX-License-Identifier: BSD-3-Clause */
#include "req_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "util/cold.h"
#include "qpair.h"
#include "request.h"

#define CHUNK_FIRST 64u   /* requests in the first chunk; doubled for each further one */
#define CHUNK_MAX   1024u /* up to this size */
#define ROUND       32u   /* queue pairs served in one loop iteration */

static struct rdt_req *request_at(const struct rdt_req_pool *pool,
				  const struct rdt_req_chunk *chunk, uint32_t i)
{
	return (void *)(chunk->mem + i * pool->mem->size + pool->mem->offset);
}

static void chunk_free(struct rdt_req_pool *pool, struct rdt_req_chunk *chunk)
{
	for (uint32_t i = 0; i < chunk->made; i++) {
		struct rdt_req *req = request_at(pool, chunk, i);

		rdt_req_fini(req);
		if (pool->mem->fini)
			pool->mem->fini(req);
	}
	if (pool->mem->close)
		pool->mem->close(pool->arg, chunk);
	munmap(chunk->mem, chunk->len);
	free(chunk);
}

static int chunk_create(struct rdt_req_pool *pool, uint32_t count, struct rdt_req_chunk **out)
{
	struct rdt_req_chunk *chunk = calloc(1, sizeof(*chunk));
	int err = -ENOMEM;

	if (!chunk)
		return err;
	chunk->count = count;
	chunk->len = count * pool->mem->size;
	chunk->mem =
		mmap(NULL, chunk->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chunk->mem == MAP_FAILED)
		goto err_free;
	err = pool->mem->open ? pool->mem->open(pool->arg, chunk) : 0;
	if (err)
		goto err_unmap;
	*out = chunk;
	return 0;

err_unmap:
	munmap(chunk->mem, chunk->len);
err_free:
	free(chunk);
	return err;
}

static int req_pool_grow(struct rdt_req_pool *pool)
{
	uint32_t n = pool->total < CHUNK_FIRST ? CHUNK_FIRST : pool->total;
	struct rdt_req_chunk *chunk;
	int err = chunk_create(pool, n < CHUNK_MAX ? n : CHUNK_MAX, &chunk);

	if (err)
		return err;
	SLIST_INSERT_HEAD(&pool->chunks, chunk, link);
	pool->total += chunk->count;
	return 0;
}

RD_COLD struct rdt_req *rdt_req_pool_more(struct rdt_req_pool *pool)
{
	struct rdt_req_chunk *chunk = SLIST_FIRST(&pool->chunks);
	struct rdt_req *req;

	pool->dry = chunk->made == chunk->count && req_pool_grow(pool);
	if (pool->dry)
		return NULL;
	chunk = SLIST_FIRST(&pool->chunks);
	req = request_at(pool, chunk, chunk->made++);
	rdt_req_init(req);
	req->home = pool;
	if (pool->mem->init)
		pool->mem->init(chunk, req);
	SLIST_INSERT_HEAD(&pool->free, req, next);
	return req;
}

void rdt_starved_add(struct rdt_starved *list, struct rdt_qpair *qp)
{
	qp->starved = list;
	TAILQ_INSERT_TAIL(list, qp, starved_link);
}

void rdt_starved_leave(struct rdt_qpair *qp)
{
	if (!qp->starved)
		return;
	TAILQ_REMOVE(qp->starved, qp, starved_link);
	qp->starved = NULL;
}

static bool may_serve(const struct rdt_req_pool *pool)
{
	return !TAILQ_EMPTY(&pool->starved) && !rdt_req_pool_empty(pool);
}

/* Serve the waiting queue pairs round robin; beyond ROUND, in the next loop iteration. */
static void serve_waiting(struct rdt_req_pool *pool)
{
	for (unsigned int i = 0; i < ROUND && may_serve(pool); i++) {
		struct rdt_qpair *qp = TAILQ_FIRST(&pool->starved);

		rdt_starved_leave(qp);
		rdt_qpair_retry(qp);
	}
	if (may_serve(pool))
		rd_defer(pool->loop, &pool->serve_rest, RD_DEFER_NEXT);
}

static void serve_waiting_queues(struct rd_defer *defer)
{
	serve_waiting(rd_container_of(defer, struct rdt_req_pool, serve));
}

static void serve_other_queues(struct rd_defer *defer)
{
	serve_waiting(rd_container_of(defer, struct rdt_req_pool, serve_rest));
}

void rdt_req_pool_wait(struct rdt_req_pool *pool, struct rdt_qpair *qp)
{
	if (qp->starved)
		return;
	rdt_starved_add(&pool->starved, qp);
	if (!pool->dry)
		rd_defer(pool->loop, &pool->serve_rest, RD_DEFER_NEXT);
}

int rdt_req_pool_init(struct rdt_req_pool *pool, struct rd_loop *loop,
		      const struct rdt_req_mem *mem, void *arg)
{
	SLIST_INIT(&pool->free);
	SLIST_INIT(&pool->chunks);
	TAILQ_INIT(&pool->starved);
	pool->mem = mem;
	pool->arg = arg;
	pool->loop = loop;
	pool->serve.fn = serve_waiting_queues;
	pool->serve_rest.fn = serve_other_queues;
	return req_pool_grow(pool);
}

/* Free all chunks but @but. No request is in use. The first chunk is the last one in the list. */
static void free_chunks(struct rdt_req_pool *pool, const struct rdt_req_chunk *but)
{
	struct rdt_req_chunk *chunk;

	SLIST_INIT(&pool->free);
	while ((chunk = SLIST_FIRST(&pool->chunks)) != but) {
		SLIST_REMOVE_HEAD(&pool->chunks, link);
		pool->total -= chunk->count;
		chunk_free(pool, chunk);
	}
}

void rdt_req_pool_trim(struct rdt_req_pool *pool)
{
	struct rdt_req_chunk *first = SLIST_FIRST(&pool->chunks);

	if (pool->used || pool->total == first->count)
		return;
	while (SLIST_NEXT(first, link))
		first = SLIST_NEXT(first, link);
	free_chunks(pool, first);
	for (uint32_t i = 0; i < first->made; i++)
		SLIST_INSERT_HEAD(&pool->free, request_at(pool, first, i), next);
}

void rdt_req_pool_fini(struct rdt_req_pool *pool)
{
	if (!pool->loop)
		return;
	assert(!pool->used);
	rd_defer_cancel(pool->loop, &pool->serve);
	rd_defer_cancel(pool->loop, &pool->serve_rest);
	free_chunks(pool, NULL);
	pool->loop = NULL;
}
