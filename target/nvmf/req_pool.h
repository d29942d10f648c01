/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where requests come from: the queue pairs of a device on one reactor share a pool of them, since
 * with many queues few commands are in progress at the same time, and what was used last is still
 * in the processor's cache. A queue never has more than it has entries. Everything here runs on the
 * reactor.
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

/* What a transport has beside each request, in one object with it. */
struct rdt_req_mem {
	size_t size;   /* of that object, */
	size_t offset; /* and of the request in it */
	/* Make a new chunk's memory usable for the transport. Returns 0 or -errno. NULL: nothing to
	 * do, as for close. */
	int (*open)(void *arg, struct rdt_req_chunk *chunk);
	void (*close)(void *arg, struct rdt_req_chunk *chunk);
	/* Called once for each object, which is zero, before its request is used first. */
	void (*init)(const struct rdt_req_chunk *chunk, struct rdt_req *req);
};

struct rdt_req_chunk {
	uint8_t *mem; /* objects, [count] */
	size_t len;
	uint32_t count;
	uint32_t made; /* have ever been used: the others' memory was never touched */
	void *priv;    /* the transport's */
	SLIST_ENTRY(rdt_req_chunk) link;
};

struct rdt_req_pool {
	SLIST_HEAD(, rdt_req) free;      /* the one used last is the first */
	TAILQ_HEAD(, rdt_qpair) starved; /* have commands and room for them, but got no request */
	uint32_t used;
	uint32_t total;
	SLIST_HEAD(, rdt_req_chunk) chunks; /* the first one may have some that were never used */
	const struct rdt_req_mem *mem;
	void *arg; /* of its functions */
	struct rd_loop *loop;
	struct rd_defer serve;
};

/* Returns 0 or -errno: there is no memory for the first ones. */
int rdt_req_pool_init(struct rdt_req_pool *pool, struct rd_loop *loop,
		      const struct rdt_req_mem *mem, void *arg);
void rdt_req_pool_fini(struct rdt_req_pool *pool); /* no request is in use. Idempotent */
/* A queue has ended: when no other one has a command, memory goes back, but for the first ones. */
void rdt_req_pool_trim(struct rdt_req_pool *pool);
/* None is free. Makes one, or returns NULL: no memory. */
struct rdt_req *rdt_req_pool_more(struct rdt_req_pool *pool);
/* @qp got no request. It is retried (rdt_qpair_retry()) as soon as there is one, in turn. */
void rdt_req_pool_wait(struct rdt_req_pool *pool, struct rdt_qpair *qp);
void rdt_req_pool_unwait(struct rdt_req_pool *pool, struct rdt_qpair *qp); /* idempotent */

#endif /* RDT_REQ_POOL_H */
