/* SPDX-License-Identifier: BSD-3-Clause */
/* A reactor's data buffers, and the share that each host has of them. */
#ifndef RDT_POOL_H
#define RDT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "util/buddy.h"
#include "util/loop.h"
#include "nvmf/text.h"

struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;

#define RDT_BUFFER_UNIT   4096u
#define RDT_RESERVE_BYTES (512u << 10) /* buffers of fabrics and admin commands */
#define RDT_RESERVE_MAX   (64u << 10)  /* longer admin transfers use the I/O slab */
#define RDT_SCRATCH_BYTES (512u << 10) /* for Compare, Verify and Copy */
#define RDT_SCRATCH_PIECE (64u << 10)

enum rdt_pool_id {
	RDT_POOL_IO,      /* the slab: data of I/O commands */
	RDT_POOL_RESERVE, /* fabrics and admin commands: a slow disk cannot block a Connect */
	RDT_POOL_SCRATCH, /* pieces for commands that read by themselves; held during backend I/O */
	RDT_POOLS,
};

TAILQ_HEAD(rdt_req_list, rdt_req);

/* Who holds buffers of a pool, and waits for them. */
struct rdt_account {
	size_t held;
	struct rdt_req_list waiting;   /* without a buffer, in order; only the head advances */
	TAILQ_ENTRY(rdt_account) link; /* pool->turns, while somebody waits */
};

struct rdt_pool {
	struct rdt_reactor *reactor;
	unsigned int index; /* enum rdt_pool_id */
	struct rd_buddy *buddy;
	size_t piece; /* SCRATCH: the size of every buffer; else 0, and req->pool_len counts */
	TAILQ_HEAD(, rdt_account) turns;
	unsigned int waiting;      /* requests */
	bool tight;                /* one that may have a block finds none: nobody overtakes it */
	struct rdt_account common; /* SCRATCH: of all hosts, and without a limit */
	struct rd_defer serve;
};

/* A host on one reactor. */
struct rdt_share {
	TAILQ_ENTRY(rdt_share) link;
	unsigned int qpairs;
	struct rdt_account accounts[RDT_POOL_SCRATCH]; /* of the pools before it */
	char hostnqn[NVMF_NQN_MAX + 1];
};

int rdt_pool_init(struct rdt_pool *pool, struct rdt_reactor *r, void *base, size_t len, size_t max);
void rdt_pool_fini(struct rdt_pool *pool);
void *rdt_pool_get(struct rdt_pool *pool, struct rdt_req *req); /* NULL: it waits now */
/* @payer: req->payer; NULL for a pool of pieces. */
void rdt_pool_put(struct rdt_pool *pool, struct rdt_account *payer, void *buf, size_t len);
void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req);
void rdt_shares_init(struct rdt_reactor *r);
void rdt_share_join(struct rdt_qpair *qp, const char *hostnqn);
void rdt_share_leave(struct rdt_qpair *qp);

#endif /* RDT_POOL_H */
