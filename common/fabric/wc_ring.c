/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/wc_ring.h"

#include <errno.h>
#include <stdlib.h>

#define RING_MIN 16u

int rd_wc_ring_grow(struct rd_wc_ring *ring, uint32_t want)
{
	uint32_t size = ring->size ? ring->size : RING_MIN;
	struct ibv_wc *wc;

	if (want > RD_WC_RING_MAX)
		return -ENOSPC;
	while (size < want)
		size *= 2;
	if (size == ring->size)
		return 0;
	wc = calloc(size, sizeof(*wc));
	if (!wc)
		return -ENOMEM;
	for (uint32_t i = ring->head; i != ring->tail; i++)
		wc[i & (size - 1)] = ring->wc[i & (ring->size - 1)];
	free(ring->wc);
	ring->wc = wc;
	ring->size = size;
	return 0;
}

void rd_wc_ring_free(struct rd_wc_ring *ring)
{
	free(ring->wc);
	*ring = (struct rd_wc_ring){0};
}

void rd_wc_ring_purge(struct rd_wc_ring *ring, uint32_t qp_num, bool keep_recvs)
{
	uint32_t to = ring->head;

	for (uint32_t i = ring->head; i != ring->tail; i++) {
		const struct ibv_wc *wc = &ring->wc[i & (ring->size - 1)];

		if (wc->qp_num != qp_num || (keep_recvs && wc->opcode == IBV_WC_RECV))
			ring->wc[to++ & (ring->size - 1)] = *wc;
	}
	ring->tail = to;
}
