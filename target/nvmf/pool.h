/* SPDX-License-Identifier: BSD-3-Clause */
/* A reactor's data buffers, and what each host may have of them. */
#ifndef RDT_POOL_H
#define RDT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/buddy.h"
#include "util/loop.h"
#include "nvmf/text.h"

struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;

#define RDT_BUFFER_UNIT   4096u
#define RDT_RESERVE_BYTES (4u << 20)   /* buffers of admin commands */
#define RDT_RESERVE_MAX   (64u << 10)  /* longer admin transfers use the I/O slab */
#define RDT_CONNECT_UNIT  1024u        /* data of a Connect */
#define RDT_SCRATCH_BYTES (512u << 10) /* for Compare, Verify and Copy */
#define RDT_SCRATCH_PIECE (64u << 10)

enum rdt_pool_id {
	RDT_POOL_IO,      /* the slab: data of I/O commands */
	RDT_POOL_RESERVE, /* admin commands: a slow disk cannot block them */
	RDT_POOL_CONNECT, /* Connect: one for each connection that may be without it */
	RDT_POOL_SCRATCH, /* pieces for commands that read by themselves; held during backend I/O */
	RDT_POOLS,
};

#define RDT_ACCOUNTS 2u /* pools of which each host has its part: the first ones */

TAILQ_HEAD(rdt_req_list, rdt_req);
TAILQ_HEAD(rdt_turns, rdt_account);

/* Who holds buffers of a pool, and waits for them. */
struct rdt_account {
	size_t used;
	size_t moved;                  /* bytes for which it had a buffer since it was last late */
	size_t *in_doubt;              /* of its address: rdt_site */
	unsigned int late;             /* its connections with a transfer beyond its deadline */
	bool doubt;                    /* what it holds counts as held in doubt */
	uint8_t turn;                  /* enum rdt_turn, while somebody waits */
	struct rdt_req_list waiting;   /* without a buffer, in order; only the head advances */
	TAILQ_ENTRY(rdt_account) link; /* pool->turns[turn], while somebody waits */
};

enum rdt_turn {
	RDT_TURN_GOOD,
	RDT_TURN_FIRST, /* in doubt, holds nothing, and asks for the smallest block */
	RDT_TURN_DOUBT,
	RDT_TURNS,
};

struct rdt_pool {
	struct rdt_reactor *reactor;
	unsigned int index; /* enum rdt_pool_id */
	struct rd_buddy *buddy;
	size_t unit;
	size_t piece;    /* SCRATCH: the size of every buffer; else 0, and req->pool_len counts */
	size_t in_doubt; /* held by all accounts in doubt */
	struct rdt_turns turns[RDT_TURNS]; /* each served before the next one */
	unsigned int waiting;              /* requests */
	bool tight;                /* one that may have a block finds none: nobody overtakes it */
	struct rdt_account common; /* CONNECT, SCRATCH: of all hosts, and without a limit */
	struct rd_defer serve;
};

TAILQ_HEAD(rdt_fresh_list, rdt_qpair);

/* An address on one reactor. */
struct rdt_site {
	size_t in_doubt[RDT_ACCOUNTS]; /* held by its accounts in doubt, in each pool */
	struct rdt_fresh_list fresh;   /* connections without a Connect, the oldest first */
	unsigned int fresh_count;
};

/* A host, by one address, on one reactor. */
struct rdt_share {
	LIST_ENTRY(rdt_share) link;
	unsigned int qpairs;
	const struct rdt_site *site;
	struct rdt_account accounts[RDT_ACCOUNTS];
	char hostnqn[NVMF_NQN_MAX + 1];
};

LIST_HEAD(rdt_share_bucket, rdt_share);
#define RDT_SHARE_BUCKETS 1024u

struct rdt_pool_opts {
	void *base;
	size_t len;
	size_t unit;
	size_t max;   /* the largest block */
	size_t piece; /* as in struct rdt_pool */
};

int rdt_pool_init(struct rdt_pool *pool, struct rdt_reactor *r, const struct rdt_pool_opts *opts);
void rdt_pool_fini(struct rdt_pool *pool);
void *rdt_pool_get(struct rdt_pool *pool, struct rdt_req *req); /* NULL: it waits now */
/* @payer: req->payer; NULL for a pool of pieces. @moved: the host's data was moved. */
void rdt_pool_put(struct rdt_pool *pool, struct rdt_account *payer, void *buf, size_t len,
		  bool moved);
void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req);
/* A host that could go on waits for what others hold. */
bool rdt_pool_pressed(const struct rdt_pool *pool);
int rdt_shares_init(struct rdt_reactor *r);
void rdt_shares_fini(struct rdt_reactor *r);
void rdt_share_join(struct rdt_qpair *qp, const char *hostnqn);
void rdt_share_leave(struct rdt_qpair *qp);
/* A transfer of @qp is beyond its deadline, or none is any more. */
void rdt_share_late(struct rdt_qpair *qp, bool late);

#endif /* RDT_POOL_H */
