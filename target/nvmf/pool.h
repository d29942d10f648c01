/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of data buffers of a reactor, and the share that each host may use. */
#ifndef RDT_POOL_H
#define RDT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/buddy.h"
#include "util/loop.h"
#include "nvmf/text.h"
#include "admin_budget.h"
#include "slices.h"
#include "target/config/tgt_limits.h"
#include "handover.h"

struct rdt_device_use;
struct rdt_qpair;
struct rdt_reactor;
struct rdt_req;

#define RDT_BUFFER_UNIT   4096u
#define RDT_RESERVE_BYTES (4u << 20)   /* buffers of admin commands */
#define RDT_RESERVE_MAX   (64u << 10)  /* longer admin transfers use the I/O slab */
#define RDT_CONNECT_UNIT  1024u        /* block size for the data of Connect */
#define RDT_SCRATCH_BYTES (512u << 10) /* for Compare, Verify and Copy */
#define RDT_SCRATCH_PIECE (64u << 10)

enum rdt_pool_id {
	RDT_POOL_IO,      /* data of I/O commands: the slab */
	RDT_POOL_RESERVE, /* data of admin commands, which slow disks must not delay */
	RDT_POOL_CONNECT, /* data of Connect: one for each connection without a Connect */
	RDT_POOL_SCRATCH, /* pieces for Compare, Verify and Copy; in use during backend I/O only */
	RDT_POOLS,
};

#define RDT_ACCOUNTS 2u /* the first pools have a share for each host */

TAILQ_HEAD(rdt_account_list, rdt_account);

/* A host's use of one pool for one device, and its requests that wait. */
struct rdt_account {
	struct rdt_device_use *device; /* NULL: commands without a device */
	size_t used;
	size_t moved;     /* bytes transferred since its last late transfer */
	size_t *unproven; /* sum over the unproven accounts of its address, in rdt_source */
	/* number of its connections with a transfer beyond the deadline */
	unsigned int late;
	/* is unproven: its use is part of the @unproven sums */
	bool is_unproven;
	bool common;  /* shared by all hosts, without a limit for each */
	bool stalled; /* was late recently, possibly on connections that have ended: peers.h */
	uint64_t refused_at; /* pool->changes when it was last refused a block as unproven */
	uint64_t passed_at;  /* pool->returns when it was last refused a block as trusted */
	uint8_t prio;        /* enum rdt_prio; valid while a request waits */
	/* requests that wait for a buffer, in order; only the head advances */
	struct rdt_req_list waiting;
	/* pool->queues[prio], or device->confined, while a request waits */
	TAILQ_ENTRY(rdt_account) link;
};

enum rdt_prio {
	RDT_PRIO_TRUSTED,
	RDT_PRIO_FIRST, /* unproven, uses nothing, and requests the smallest block */
	RDT_PRIO_NEW,   /* unproven, uses nothing, and has not stalled recently */
	RDT_PRIO_UNPROVEN,
	RDT_PRIOS,
	/* waits until the device returns buffers: pool_device.h */
	RDT_PRIO_CONFINED = RDT_PRIOS,
};

struct rdt_pool {
	struct rdt_reactor *reactor;
	unsigned int index; /* enum rdt_pool_id */
	struct rd_buddy *buddy;
	size_t unit;
	size_t piece;    /* SCRATCH: size of every buffer; otherwise 0: req->pool_len is used */
	size_t unproven; /* in use by all unproven accounts, in bytes */
	struct rdt_account_list
		queues[RDT_PRIOS]; /* waiting accounts, served in order of the index */
	/* devices with confined accounts */
	TAILQ_HEAD(, rdt_device_use) confined;
	unsigned int waiting; /* number of waiting requests */
	/* an account that is entitled to a block finds none free, and must be served next */
	bool tight;
	/* the same for an unproven account, which others may overtake */
	bool no_block;
	/* counts changes after which an unproven account may get a block that it was refused */
	uint64_t changes;
	/* the same for accounts that are not unproven */
	uint64_t returns;
	/* bytes for unproven accounts beyond the budget of the loop iterations up to
	 * @paid_iteration */
	size_t owed;
	uint64_t paid_iteration;
	bool paced;                /* an unproven account waits because of @owed */
	struct rdt_account common; /* CONNECT, and SCRATCH without a device: shared by all hosts */
	struct rd_defer serve;
	struct rd_defer serve_rest; /* continues in the next loop iteration */
};

TAILQ_HEAD(rdt_unassoc_list, rdt_qpair);

/* What one reactor records of an address. */
struct rdt_source {
	size_t unproven[RDT_ACCOUNTS];   /* bytes used by its unproven accounts, by pool */
	struct rdt_unassoc_list unassoc; /* connections without a Connect, oldest first */
	unsigned int unassoc_count;
	struct rdt_lane lanes[RDT_TRANSPORTS]; /* connections that wait to be accepted */
};

/* A host at one address, on one reactor. */
struct rdt_share {
	LIST_ENTRY(rdt_share) link;
	unsigned int qpairs;
	uint32_t id; /* unique on its reactor */
	const struct rdt_source *source;
	struct rdt_admin_debt admin;
	struct rdt_extents_queue extents;
	struct rdt_account accounts[RDT_ACCOUNTS]; /* for commands without a device */
	LIST_HEAD(, rdt_device_accounts) devices;
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
void *rdt_pool_get(struct rdt_pool *pool, struct rdt_req *req); /* NULL: @req waits */
/* @payer: req->payer or, for SCRATCH, rdt_pool_scratch_payer(). @moved: the data was
 * transferred. */
void rdt_pool_put(struct rdt_pool *pool, struct rdt_account *payer, void *buf, size_t len,
		  bool moved);
struct rdt_account *rdt_pool_scratch_payer(const struct rdt_req *req);
void rdt_pool_unwait(struct rdt_pool *pool, struct rdt_req *req);
/* Returns whether a host waits that could continue if others returned buffers. */
bool rdt_pool_pressed(const struct rdt_pool *pool);
/* A namespace was closed: devices confined because of it may be the only ones now. */
void rdt_pools_revisit(struct rdt_reactor *r);
void rdt_account_init_common(struct rdt_account *acc);
int rdt_shares_init(struct rdt_reactor *r);
void rdt_shares_fini(struct rdt_reactor *r);
void rdt_share_join(struct rdt_qpair *qp, const char *hostnqn);
void rdt_share_leave(struct rdt_qpair *qp);
/* @late: a transfer of @qp missed its deadline; false: no transfer of @qp is overdue any more. */
void rdt_share_late(struct rdt_qpair *qp, bool late);

#endif /* RDT_POOL_H */
