/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, and where the RECV for a message comes from. */
#ifndef RD_IW_SRQ_H
#define RD_IW_SRQ_H

#include <sys/queue.h>

#include "fabric/fabric.h"
#include "util/loop.h"

#include "rq.h"

struct rd_iw_conn;

/* Memory for a message that is not complete yet: see rd_iw_aside_get(). */
struct rd_iw_aside {
	SLIST_ENTRY(rd_iw_aside) link; /* srq->asides */
	uint32_t size;
	uint8_t data[];
};

struct rd_iw_share {
	struct rd_fab_share base;
	TAILQ_HEAD(, rd_iw_conn) waiting; /* those whose next message has no RECV, in order */
	TAILQ_ENTRY(rd_iw_share) link;    /* srq->turns, while one waits */
};

struct rd_iw_srq {
	struct rd_fab_srq base;
	struct rd_iw_rq rq;        /* used as a stack: what was used last is still in the cache */
	struct rd_iw_share common; /* of connections that have joined none: without a limit */
	TAILQ_HEAD(, rd_iw_share) turns;
	SLIST_HEAD(, rd_iw_aside) asides; /* not in use, the one used last first */
	uint32_t nasides;
	uint32_t nwaiting; /* connections */
	bool tight;        /* one that may have a RECV finds none: nobody overtakes it */
	struct rd_defer feed;
	uint32_t limit; /* 0: none. Fewer left: @low */
	rd_fab_srq_fn low_fn;
	void *low_arg;
	struct rd_defer low;
};

/*
 * The RECV that @c's next message gets, of its own queue or the shared one, or NULL: none is left,
 * or, of the shared one, its share has its part or others have waited for longer. Valid until the
 * next post. rd_iw_recv_use() takes it.
 */
const struct rd_iw_rwr *rd_iw_recv_next(const struct rd_iw_conn *c);
void rd_iw_recv_use(struct rd_iw_conn *c);
void rd_iw_srq_wait(struct rd_iw_conn *c); /* there is none now; rd_iw_rx_resume() follows */
bool rd_iw_srq_scarce(const struct rd_iw_conn *c); /* few are left that it may take */
void rd_iw_srq_unwait(struct rd_iw_conn *c);       /* idempotent */
/*
 * A message takes a RECV of a shared queue with its last byte, so that what never ends holds none.
 * Until then it is in memory that its connection has for itself: RD_IW_SMALL bytes of its own, or
 * as much as the largest RECV. Sets rx.aside and rx.aside_size; @plen: of the message's first FPDU,
 * @last: it is the only one. Returns 0 or -ENOMEM.
 */
int rd_iw_aside_get(struct rd_iw_conn *c, uint32_t plen, bool last);
void rd_iw_aside_put(struct rd_iw_conn *c); /* idempotent */
int rd_iw_srq_create(struct rd_fab_dev *dev, uint32_t max_wr, uint32_t max_sge,
		     struct rd_fab_srq **out);
void rd_iw_srq_destroy(struct rd_fab_srq *base);
void rd_iw_srq_limit(struct rd_fab_srq *srq, uint32_t limit, rd_fab_srq_fn fn, void *arg);
int rd_iw_share_create(struct rd_fab_srq *srq, struct rd_fab_share **out);
void rd_iw_share_destroy(struct rd_fab_share *share);
void rd_iw_share_join(struct rd_fab_conn *conn, struct rd_fab_share *share);
int rd_iw_post_srq_recv(struct rd_fab_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif /* RD_IW_SRQ_H */
