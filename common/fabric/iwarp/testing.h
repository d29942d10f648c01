/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests see of the provider's inside, and may do to it. Built into a library of its own, which
 * only tests link.
 */
#ifndef RD_IW_TESTING_H
#define RD_IW_TESTING_H

#include "fabric/fabric.h"

#include "mpa.h"
#include "stats.h"

/* ---- the fabric ---- */

/* Valid until @fab is closed. */
struct rd_iw_stats *rd_iw_test_stats(struct rd_fab *fab);
/* The device of @fab, without a connection. */
struct rd_fab_dev *rd_iw_test_dev(struct rd_fab *fab);
/* ns until the first empty WRITE to a peer that says nothing; for connections made from now on. */
void rd_iw_test_set_poke_ns(struct rd_fab *fab, uint64_t ns);

/* ---- connections ---- */

struct rd_iw_test_conn {
	int fd;
	bool got_first;    /* the peer's first FPDU has arrived */
	bool timer_armed;  /* which ends the hold and then sends empty WRITEs */
	bool poke_due;     /* an empty WRITE is to be sent */
	bool tx_blocked;   /* the socket is full */
	uint32_t tx_part;  /* bytes that have left of the FPDU that is partly sent */
	uint32_t sq_head;  /* work requests completed */
	uint32_t sq_read;  /* work requests before which no READ waits for its response */
	uint32_t send_msn; /* expected from the peer */
};

struct rd_iw_test_conn rd_iw_test_conn(struct rd_fab_conn *conn);
/* Set all counters of an idle connection, and of its CQ, to @value. False: it is not idle. */
bool rd_iw_test_set_counters(struct rd_fab_conn *conn, struct rd_fab_cq *cq, uint32_t value);
/*
 * As a listener does with a request that was received on @fd (taken): adopt it into a connection.
 * Returns 0 or -errno.
 */
int rd_iw_test_adopt(struct rd_fab *fab, int fd, const struct rd_iw_mpa *mpa, rd_fab_event_fn fn,
		     void *arg, struct rd_fab_conn **out);

/* ---- memory regions ---- */

/* The region of @key, or NULL. */
struct rd_fab_mr *rd_iw_test_find_mr(struct rd_fab_dev *dev, uint32_t key);
/* The slots of the table of keys: a power of two. */
uint32_t rd_iw_test_mr_slots(struct rd_fab_dev *dev);
/* As by a peer's SEND with Invalidate. */
void rd_iw_test_invalidate(struct rd_fab_dev *dev, uint32_t key);
/* The next registration gets the slot of @mr, which has been deregistered and not been used again.
 */
void rd_iw_test_reuse_mr(struct rd_fab_dev *dev, struct rd_fab_mr *mr);
/* Peers know @mr by this key, which is of its slot, and this address; it is not invalidated. */
void rd_iw_test_name_mr(struct rd_fab_mr *mr, uint32_t key, uint64_t iova);

/* ---- completion queues ---- */

/* Entries that queue pairs have reserved; entries that there is memory for. */
uint32_t rd_iw_test_cq_reserved(struct rd_fab_cq *cq);
uint32_t rd_iw_test_cq_size(struct rd_fab_cq *cq);
/* As by @n more entries of queue pairs, or fewer when @n is negative. Returns 0 or -errno. */
int rd_iw_test_cq_reserve(struct rd_fab_cq *cq, int n);
/* Add a completion of a SEND. */
void rd_iw_test_cq_push(struct rd_fab_cq *cq, struct rd_fab_conn *conn, uint64_t wr_id);

/* ---- scratch memory ---- */

uint32_t rd_iw_test_scratch_refs(const struct rd_fab_iwarp_scratch *pool);
/* A piece of @pool, or NULL without memory; and back. */
void *rd_iw_test_scratch_get(struct rd_fab_iwarp_scratch *pool);
void rd_iw_test_scratch_put(struct rd_fab_iwarp_scratch *pool, void *piece);

#endif /* RD_IW_TESTING_H */
