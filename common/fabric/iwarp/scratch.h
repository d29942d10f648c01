/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch memory: what is read from sockets, and transmissions in the making. scratch.c. */
#ifndef RD_IW_SCRATCH_H
#define RD_IW_SCRATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "fabric/fabric.h"

#include "tx_batch.h"

#define RD_IW_STAGING_SIZE ((size_t)128 * 1024)

struct rd_iw_scratch {
	SLIST_ENTRY(rd_iw_scratch) link;
	struct rd_iw_batch batch;
	uint8_t staging[RD_IW_STAGING_SIZE]; /* what is read into it is consumed in the same
						callback */
};

struct rd_fab_iwarp_scratch {
	_Atomic(struct rd_iw_scratch *) hot; /* what was used last; NULL while it is in use */
	atomic_uint refs;
	pthread_mutex_t lock;
	SLIST_HEAD(, rd_iw_scratch) idle; /* what more threads have used at the same time */
};

struct rd_iw_scratch *rd_iw_scratch_more(struct rd_fab_iwarp_scratch *pool);
void rd_iw_scratch_keep(struct rd_fab_iwarp_scratch *pool, struct rd_iw_scratch *s);

/* A piece for this callback, or NULL without memory. rd_iw_scratch_put() gives it back. */
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
