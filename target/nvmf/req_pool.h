/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pool of requests, shared by the queue pairs of a device on one reactor: of many queues few have
 * commands in progress at the same time, and a recently used request is still in the cache. A queue
 * pair never uses more requests than it has entries. Everything runs on the reactor.
 */
#ifndef RDT_REQ_POOL_H
#define RDT_REQ_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"

struct rdt_qpair;
struct rdt_req;
struct rdt_req_chunk;

/* The object of the transport that embeds a request. */
struct rdt_req_mem {
	size_t size;   /* size of that object, */
	size_t offset; /* and offset of the request in it */
	/* Prepare the memory of a new chunk for the transport. Returns 0 or -errno. NULL: nothing
	 * to do; also for close. */
	int (*open)(void *arg, struct rdt_req_chunk *chunk);
	void (*close)(void *arg, struct rdt_req_chunk *chunk);
	/* Called once for each object, which is zeroed, before the first use of its request. */
	void (*init)(const struct rdt_req_chunk *chunk, struct rdt_req *req);
	/* Free what the transport allocated for the object of @req. NULL: nothing. */
	void (*fini)(struct rdt_req *req);
};

struct rdt_req_chunk {
	uint8_t *mem; /* [count] objects */
	size_t len;
	uint32_t count;
	/* Number of objects used so far; the memory of the others was never touched */
	uint32_t made;
	void *priv; /* for the transport */
	SLIST_ENTRY(rdt_req_chunk) link;
};

/* Queue pairs with commands and free entries that have to wait, by rdt_qpair.starved_link. */
TAILQ_HEAD(rdt_starved, rdt_qpair);

/* @qp is in no such list; it gets to the end of @list. */
void rdt_starved_add(struct rdt_starved *list, struct rdt_qpair *qp);
void rdt_starved_leave(struct rdt_qpair *qp); /* its list, if it is in one */

struct rdt_req_pool {
	SLIST_HEAD(, rdt_req) free; /* LIFO */
	struct rdt_starved starved; /* I/O queues, and admin queues while there is no memory */
	bool dry;                   /* there was no memory when one more request was wanted last */
	uint32_t used;
	uint32_t total;
	/* The first chunk may have objects that were never used */
	SLIST_HEAD(, rdt_req_chunk) chunks;
	const struct rdt_req_mem *mem;
	void *arg; /* argument of the functions */
	struct rd_loop *loop;
	struct rd_defer serve;
	struct rd_defer serve_rest; /* what is left of the turn before */
};

/* Returns 0, or -errno without memory for the first chunk. */
int rdt_req_pool_init(struct rdt_req_pool *pool, struct rd_loop *loop,
		      const struct rdt_req_mem *mem, void *arg);
void rdt_req_pool_fini(struct rdt_req_pool *pool); /* no request is in use; may be repeated */
/* A queue pair has ended: if no request is in use, frees all chunks but the first. */
void rdt_req_pool_trim(struct rdt_req_pool *pool);
/* The list is empty. Takes a request from a chunk, or allocates one; NULL without memory. */
struct rdt_req *rdt_req_pool_more(struct rdt_req_pool *pool);
/* No request is free, and there is no memory for one more. */
static inline bool rdt_req_pool_empty(const struct rdt_req_pool *pool)
{
	return pool->dry && SLIST_EMPTY(&pool->free);
}
/* @qp got no request, or has to wait for a later turn: it is queued for rdt_qpair_retry(). */
void rdt_req_pool_wait(struct rdt_req_pool *pool, struct rdt_qpair *qp);

#endif /* RDT_REQ_POOL_H */
