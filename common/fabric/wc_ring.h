/* SPDX-License-Identifier: BSD-3-Clause */
/* For the providers' completion queues: a ring of completions that have not been polled, and the
 * opcodes of completions. */
#ifndef RD_FABRIC_WC_RING_H
#define RD_FABRIC_WC_RING_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define RD_WC_RING_MAX (1u << 26)

/* Zero-initialized: an empty ring without room. */
struct rd_wc_ring {
	struct ibv_wc *wc;
	uint32_t size; /* 0 or a power of two */
	uint32_t head;
	uint32_t tail;
};

/* Grows the ring to at least @want entries. Returns 0, -ENOSPC (more than RD_WC_RING_MAX) or
 * -ENOMEM. */
int rd_wc_ring_grow(struct rd_wc_ring *ring, uint32_t want);
void rd_wc_ring_free(struct rd_wc_ring *ring);
/* Drops the completions with this qp_num; with @keep_recvs, completions of RECVs stay. */
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
 * Adds a completion to a ring that is not full and returns it; the caller fills it at once. It is
 * filled in place because a copy of fields that were just written waits for the store buffer.
 */
static inline struct ibv_wc *rd_wc_ring_add(struct rd_wc_ring *ring)
{
	return &ring->wc[ring->tail++ & (ring->size - 1)];
}

/* Moves up to @n completions to @wc. Returns how many. */
static inline int rd_wc_ring_take(struct rd_wc_ring *ring, int n, struct ibv_wc *wc)
{
	uint32_t head = ring->head, tail = ring->tail, mask = ring->size - 1;
	const struct ibv_wc *from = ring->wc;
	int i = 0;

	for (; i < n && head != tail; head++)
		wc[i++] = from[head & mask];
	ring->head = head;
	/* The ring has room for the worst case. Starting again at its first entries keeps those few
	 * in the cache, and the rest of its memory untouched. */
	if (rd_wc_ring_empty(ring))
		ring->head = ring->tail = 0;
	return i;
}

/* The opcode in the completion of a send work request with the opcode @wr_opcode. */
static inline enum ibv_wc_opcode rd_wc_opcode(unsigned int wr_opcode)
{
	switch (wr_opcode) {
	case IBV_WR_RDMA_WRITE:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

#endif /* RD_FABRIC_WC_RING_H */
