/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of requests, shared by the queue pairs of a device on one reactor: few of many queues have
 * commands in progress at the same time, and a recently used request is still in the cache. A queue
 * pair never uses more requests than it has entries. Everything runs on the reactor. */
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

/* The transport's object that embeds a request. */
struct rdt_req_mem {
	size_t size;   /* size of that object */
	size_t offset; /* offset of the request in it */
	/* Prepare the memory of a new chunk for the transport. Returns 0 or -errno. NULL: nothing
	 * to do, also for @close. */
	int (*open)(void *arg, struct rdt_req_chunk *chunk);
	void (*close)(void *arg, struct rdt_req_chunk *chunk);
	/* Initialize an object, which is zeroed. Called once before the first use of its
	 * request. */
	void (*init)(const struct rdt_req_chunk *chunk, struct rdt_req *req);
	/* Free what the transport allocated for the object of @req. NULL: nothing. */
	void (*fini)(struct rdt_req *req);
};

struct rdt_req_chunk {
	uint8_t *mem; /* [count] objects */
	size_t len;
	uint32_t count;
	/* number of objects used so far; the memory of the others was never accessed */
	uint32_t made;
	void *priv; /* for the transport */
	SLIST_ENTRY(rdt_req_chunk) link;
};

/* Queue pairs that have commands and free entries and wait for a request, by
 * rdt_qpair.starved_link. */
TAILQ_HEAD(rdt_starved, rdt_qpair);

/* Append @qp, which is in no such list, to @list. */
void rdt_starved_add(struct rdt_starved *list, struct rdt_qpair *qp);
void rdt_starved_leave(struct rdt_qpair *qp); /* removes @qp from its list, if it is in one */

struct rdt_req_pool {
	SLIST_HEAD(, rdt_req) free; /* LIFO */
	struct rdt_starved starved; /* I/O queues; also admin queues while memory is short */
	bool dry; /* the last attempt to add a request failed for lack of memory */
	uint32_t used;
	uint32_t total;
	/* the first chunk may have objects that were never used */
	SLIST_HEAD(, rdt_req_chunk) chunks;
	const struct rdt_req_mem *mem;
	void *arg; /* argument of the functions */
	struct rd_loop *loop;
	struct rd_defer serve;
	struct rd_defer serve_rest; /* continues in the next loop iteration */
};

/* Returns 0, or -errno if there is no memory for the first chunk. */
int rdt_req_pool_init(struct rdt_req_pool *pool, struct rd_loop *loop,
		      const struct rdt_req_mem *mem, void *arg);
void rdt_req_pool_fini(struct rdt_req_pool *pool); /* no request may be in use; may be repeated */
/* A queue pair has ended: if no request is in use, free all chunks but the first. */
void rdt_req_pool_trim(struct rdt_req_pool *pool);
/* Called when the list of free requests is empty. Returns a request from a chunk, which may be a
 * new one, or NULL without memory. */
struct rdt_req *rdt_req_pool_more(struct rdt_req_pool *pool);
/* Returns whether no request is free and there is no memory for more. */
static inline bool rdt_req_pool_empty(const struct rdt_req_pool *pool)
{
	return pool->dry && SLIST_EMPTY(&pool->free);
}
/* @qp got no request, or has to wait for a later loop iteration: queue it for rdt_qpair_retry(). */
void rdt_req_pool_wait(struct rdt_req_pool *pool, struct rdt_qpair *qp);

#endif /* RDT_REQ_POOL_H */
