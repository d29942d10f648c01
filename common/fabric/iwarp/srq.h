/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, and where the RECV for a message comes from. */
#ifndef RD_IW_SRQ_H
#define RD_IW_SRQ_H

#include <sys/queue.h>

#include "fabric/fabric.h"
#include "util/loop.h"

#include "rq.h"

struct rd_iw_conn;

/* Memory for an incomplete message: see rd_iw_reasm_get(). */
struct rd_iw_reasm {
	SLIST_ENTRY(rd_iw_reasm) link; /* srq->reasms */
	uint32_t size;
	uint8_t data[];
};

struct rd_iw_share {
	struct rd_fab_share base;
	TAILQ_HEAD(, rd_iw_conn) waiting; /* connections that wait for a RECV, the first first */
	TAILQ_ENTRY(rd_iw_share) link;    /* in srq->turns, while a connection waits */
};

struct rd_iw_srq {
	struct rd_fab_srq base;
	struct rd_iw_rq rq;        /* used as a stack: the RECV used last is still in the cache */
	struct rd_iw_share common; /* connections without a share of their own; it has no limit */
	TAILQ_HEAD(, rd_iw_share) turns;  /* shares with waiting connections; the next turn first */
	SLIST_HEAD(, rd_iw_reasm) reasms; /* free ones, the one used last first */
	uint32_t nreasms;
	/* Connections for which room for all RECVs is reserved in @cq, once. */
	struct rd_iw_cq *cq;
	uint32_t users;
	uint32_t nwaiting; /* connections that wait */
	bool tight; /* a connection waits although its share is below its limit: messages that
		       arrive later must wait behind it */
	struct rd_defer feed;
	uint32_t limit; /* with fewer RECVs left @low runs; 0: no limit */
	rd_fab_srq_fn low_fn;
	void *low_arg;
	struct rd_defer low;
};

/*
 * Returns the RECV for the next message of @c, from its own or the shared queue, without taking it.
 * NULL: none is posted or, for a shared queue, the share is at its limit or others wait already.
 * Valid until the next post.
 */
const struct rd_iw_rwr *rd_iw_recv_next(const struct rd_iw_conn *c);
/* Takes the RECV that rd_iw_recv_next() has returned. */
void rd_iw_recv_use(struct rd_iw_conn *c);
/* @c stops receiving until it can take a RECV; then rd_iw_rx_resume() is called. */
void rd_iw_srq_wait(struct rd_iw_conn *c);
/* Whether @c may take only a few more RECVs. */
bool rd_iw_srq_scarce(const struct rd_iw_conn *c);
void rd_iw_srq_unwait(struct rd_iw_conn *c); /* idempotent */
/*
 * A message takes a RECV of a shared queue with its last byte, so that an unfinished message holds
 * none. Until then it is collected in memory of its connection: rx.small if it fits, or a piece as
 * large as the largest RECV. Sets rx.reasm and rx.reasm_size. @plen: payload of the message's first
 * FPDU, @last: that FPDU is the only one. Returns 0 or -ENOMEM.
 */
int rd_iw_reasm_get(struct rd_iw_conn *c, uint32_t plen, bool last);
void rd_iw_reasm_put(struct rd_iw_conn *c); /* idempotent */
int rd_iw_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out);
void rd_iw_srq_destroy(struct rd_fab_srq *base);
void rd_iw_srq_limit(struct rd_fab_srq *srq, uint32_t limit, rd_fab_srq_fn fn, void *arg);
int rd_iw_share_create(struct rd_fab_srq *srq, struct rd_fab_share **out);
void rd_iw_share_destroy(struct rd_fab_share *share);
void rd_iw_share_join(struct rd_fab_conn *conn, struct rd_fab_share *share);
int rd_iw_post_srq_recv(struct rd_fab_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif /* RD_IW_SRQ_H */
