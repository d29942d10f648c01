/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch memory, borrowed for one callback: receive staging and the batch of tx.c. scratch.c. */
#ifndef RD_IW_SCRATCH_H
#define RD_IW_SCRATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "fabric/fabric.h"

#include "caps.h"
#include "tx.h"

/* The FPDUs that are framed for one sendmsg(2). Empty between two callbacks. */
struct rd_iw_batch {
	struct rd_iw_fpdu fpdu[RD_IW_BATCH]; /* in order; a run is one entry */
	struct iovec iov[RD_IW_BATCH_IOV];
	uint8_t arena[RD_IW_BATCH * (RD_IW_MAX_HDR + RD_IW_BATCH_COPY + RD_MPA_MAX_TRAIL) +
		      RD_IW_RUN_ROOM + RD_IW_RUN_COPY + sizeof(uint64_t)];
	uint32_t entries; /* used entries of @fpdu */
	uint32_t nfpdu;   /* FPDUs, counting each of a run */
	uint32_t niov;
	uint32_t arena_used;
	size_t bytes;
};

#define RD_IW_STAGING_SIZE ((size_t)128 * 1024)

struct rd_iw_scratch {
	SLIST_ENTRY(rd_iw_scratch) link;
	struct rd_iw_batch batch;
	uint8_t staging[RD_IW_STAGING_SIZE]; /* received bytes; used up within the callback */
};

struct rd_fab_iwarp_scratch {
	_Atomic(struct rd_iw_scratch *) hot; /* the piece used last; NULL while it is in use */
	atomic_uint refs;
	pthread_mutex_t lock;
	SLIST_HEAD(, rd_iw_scratch) idle; /* under @lock: pieces that further threads have used */
};

struct rd_iw_scratch *rd_iw_scratch_more(struct rd_fab_iwarp_scratch *pool);
void rd_iw_scratch_keep(struct rd_fab_iwarp_scratch *pool, struct rd_iw_scratch *s);

/* Borrows a piece, or returns NULL without memory. rd_iw_scratch_put() in the same callback. */
static inline struct rd_iw_scratch *rd_iw_scratch_get(struct rd_fab_iwarp_scratch *pool)
{
	struct rd_iw_scratch *s = atomic_exchange_explicit(&pool->hot, NULL, memory_order_acquire);

	return s ? s : rd_iw_scratch_more(pool);
}

static inline void rd_iw_scratch_put(struct rd_fab_iwarp_scratch *pool, struct rd_iw_scratch *s)
{
	s = atomic_exchange_explicit(&pool->hot, s, memory_order_acq_rel);
	if (s)
		rd_iw_scratch_keep(pool, s);
}

#endif /* RD_IW_SCRATCH_H */
