/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions waiting for their user: the inside of the providers' completion queues. */
#ifndef RD_FABRIC_WC_RING_H
#define RD_FABRIC_WC_RING_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_WC_RING_MAX (1u << 26)

/* All zero is an empty ring without room. */
struct rd_wc_ring {
	struct ibv_wc *wc;
	uint32_t size; /* 0 or a power of two */
	uint32_t head;
	uint32_t tail;
};

/* Room for @want in all. Returns 0, -ENOSPC (more than RD_WC_RING_MAX) or -ENOMEM. */
int rd_wc_ring_grow(struct rd_wc_ring *ring, uint32_t want);
void rd_wc_ring_free(struct rd_wc_ring *ring);
/* Drop those with this qp_num; with @keep_recvs not those of RECVs. */
void rd_wc_ring_purge(struct rd_wc_ring *ring, uint32_t qp_num, bool keep_recvs);

static inline bool rd_wc_ring_empty(const struct rd_wc_ring *ring)
{
	return ring->head == ring->tail;
}

static inline bool rd_wc_ring_full(const struct rd_wc_ring *ring)
{
	return ring->tail - ring->head >= ring->size;
}

/*
 * The place of one more completion in a ring that is not full, which the caller fills at once.
 * Filled where it stays: copying what was just written, field by field, waits for the store buffer.
 */
static inline struct ibv_wc *rd_wc_ring_add(struct rd_wc_ring *ring)
{
	return &ring->wc[ring->tail++ & (ring->size - 1)];
}

/* Move up to @n to @wc. Returns how many. */
static inline int rd_wc_ring_take(struct rd_wc_ring *ring, int n, struct ibv_wc *wc)
{
	uint32_t head = ring->head, tail = ring->tail, mask = ring->size - 1;
	const struct ibv_wc *from = ring->wc;
	int i = 0;

	for (; i < n && head != tail; head++)
		wc[i++] = from[head & mask];
	ring->head = head;
	/* There is room for the worst case of each queue pair: the same few entries again and again
	 * use no more memory than is needed, and stay in the cache. */
	if (rd_wc_ring_empty(ring))
		ring->head = ring->tail = 0;
	return i;
}

#endif /* RD_FABRIC_WC_RING_H */
