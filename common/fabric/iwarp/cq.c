/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: a ring that grows when queue pairs attach, never while work is done. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

#define CQ_MAX (1u << 22)

static struct rd_iw_cq *to_cq(struct rd_fab_cq *cq)
{
	return rd_container_of(cq, struct rd_iw_cq, base);
}

static int cq_resize(struct rd_iw_cq *cq, uint32_t want)
{
	uint32_t size = cq->size ? cq->size : 16;
	struct ibv_wc *ring;

	if (want > CQ_MAX)
		return -ENOSPC;
	while (size < want)
		size *= 2;
	if (size == cq->size)
		return 0;
	ring = calloc(size, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	for (uint32_t i = cq->head; i != cq->tail; i++)
		ring[i & (size - 1)] = cq->ring[i & (cq->size - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->size = size;
	return 0;
}

static void cq_notify(struct rd_defer *defer)
{
	struct rd_iw_cq *cq = rd_container_of(defer, struct rd_iw_cq, notify);

	cq->base.fn(&cq->base, cq->base.arg); /* may destroy the CQ */
}

int rd_iw_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out)
{
	struct rd_iw_cq *cq = calloc(1, sizeof(*cq));
	int rc;

	if (!cq)
		return -ENOMEM;
	rc = cq_resize(cq, depth);
	if (rc) {
		free(cq);
		return rc;
	}
	cq->base.dev = dev;
	cq->base.fn = fn;
	cq->base.arg = arg;
	cq->notify.fn = cq_notify;
	cq->fd = -1;
	rd_iw_dev_stats(rd_iw_dev(dev))->cqs++;
	*out = &cq->base;
	return 0;
}

void rd_iw_cq_destroy(struct rd_fab_cq *base)
{
	struct rd_iw_cq *cq = to_cq(base);

	rd_defer_cancel(base->dev->fab->loop, &cq->notify);
	if (cq->fd >= 0)
		close(cq->fd);
	rd_iw_dev_stats(rd_iw_dev(base->dev))->cqs--;
	free(cq->ring);
	free(cq);
}

int rd_iw_cq_poll(struct rd_fab_cq *base, int n, struct ibv_wc *wc)
{
	struct rd_iw_cq *cq = to_cq(base);
	int i = 0;

	while (i < n && cq->head != cq->tail)
		wc[i++] = cq->ring[cq->head++ & (cq->size - 1)];
	if (i == 0 && cq->broken)
		return -EOVERFLOW;
	return i;
}

int rd_iw_cq_arm(struct rd_fab_cq *base)
{
	struct rd_iw_cq *cq = to_cq(base);
	uint64_t n;

	cq->armed = true;
	if (cq->fd >= 0 && read(cq->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}

int rd_iw_cq_fd(struct rd_fab_cq *base)
{
	struct rd_iw_cq *cq = to_cq(base);

	if (cq->fd < 0)
		cq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return cq->fd >= 0 ? cq->fd : -errno;
}

int rd_iw_cq_reserve(struct rd_iw_cq *cq, uint32_t n)
{
	int rc;

	if (n > CQ_MAX - cq->reserved)
		return -ENOSPC;
	rc = cq_resize(cq, cq->reserved + n);
	if (rc == 0)
		cq->reserved += n;
	return rc;
}

void rd_iw_cq_unreserve(struct rd_iw_cq *cq, uint32_t n)
{
	cq->reserved -= n;
}

static void cq_wake(struct rd_iw_cq *cq)
{
	uint64_t one = 1;

	cq->armed = false;
	/* Can fail only when the counter is full: then it is readable already. */
	if (cq->fd >= 0 && write(cq->fd, &one, sizeof(one)) < 0)
		return;
	if (cq->base.fn)
		rd_defer(cq->base.dev->fab->loop, &cq->notify, RD_DEFER_WORK);
}

void rd_iw_cq_push(struct rd_iw_cq *cq, const struct ibv_wc *wc)
{
	/* Room is reserved for all that can be posted; only posting to a dead connection goes
	 * beyond. */
	if (cq->tail - cq->head >= cq->size && cq_resize(cq, cq->size * 2)) {
		cq->broken = true;
		return;
	}
	cq->ring[cq->tail++ & (cq->size - 1)] = *wc;
	if (cq->armed)
		cq_wake(cq);
}

void rd_iw_cq_purge(struct rd_iw_cq *cq, uint32_t qp_num)
{
	uint32_t to = cq->head;

	for (uint32_t i = cq->head; i != cq->tail; i++) {
		const struct ibv_wc *wc = &cq->ring[i & (cq->size - 1)];

		if (wc->qp_num != qp_num)
			cq->ring[to++ & (cq->size - 1)] = *wc;
	}
	cq->tail = to;
}
