/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues. A notification is requested from the device only before the loop sleeps; then
 * the device is polled once more, so that the loop does not sleep through a completion that came in
 * between. A loop that spins pays neither for the request nor for the event.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "conn.h"

#define SEG_MIN   256u
#define SWEEP     32
#define ACK_BATCH 64u

struct rd_vb_cq *rd_vb_cq(struct rd_fab_cq *cq)
{
	return rd_container_of(cq, struct rd_vb_cq, base);
}

/* ---- what waits for the user ---- */

/* Notifies a user that has requested it. */
static void wake_cq_user(struct rd_vb_cq *cq)
{
	if (!cq->armed)
		return;
	cq->armed = false;
	if (cq->base.fn)
		rd_defer(cq->dev->fab->base.loop, &cq->notify, RD_DEFER_WORK);
}

void rd_vb_cq_push(struct rd_vb_cq *cq, const struct ibv_wc *wc, bool notify)
{
	if (rd_wc_ring_full(&cq->ring) && rd_wc_ring_grow(&cq->ring, cq->ring.size + 1))
		cq->broken = true;
	else
		*rd_wc_ring_add(&cq->ring) = *wc;
	if (notify)
		wake_cq_user(cq);
}

/* Takes a batch of completions from one segment. Returns whether there may be more. */
static bool seg_take(struct rd_vb_seg *seg)
{
	struct ibv_wc wc[SWEEP];
	int n = seg->hw ? ibv_poll_cq(seg->hw, SWEEP, wc) : 0;

	if (n < 0)
		rd_vb_cq_failed(seg->cq);
	for (int i = 0; i < n; i++)
		rd_vb_wc_done(seg->cq->dev, seg->cq, &wc[i]);
	return n == SWEEP;
}

/* Takes a batch from each segment. Returns whether the ring has completions. */
static bool sweep_some(struct rd_vb_cq *cq)
{
	for (uint32_t s = 0; s < cq->nsegs; s++)
		seg_take(cq->segs[s]);
	return !rd_wc_ring_empty(&cq->ring);
}

void rd_vb_cq_sweep(struct rd_vb_cq *cq)
{
	for (uint32_t s = 0; s < cq->nsegs; s++)
		while (seg_take(cq->segs[s]))
			;
	if (!rd_wc_ring_empty(&cq->ring))
		wake_cq_user(cq);
}

void rd_vb_cq_purge(struct rd_vb_cq *cq, uint32_t qp_num)
{
	rd_wc_ring_purge(&cq->ring, qp_num, false);
}

int rd_vb_cq_poll(struct rd_fab_cq *base, int n, struct ibv_wc *wc)
{
	struct rd_vb_cq *cq = rd_vb_cq(base);
	int i = 0;

	do
		i += rd_wc_ring_take(&cq->ring, n - i, wc + i);
	while (i < n && sweep_some(cq));
	if (i == 0 && cq->broken)
		return -EIO;
	return i;
}

/* ---- notification ---- */

static void vb_cq_notify(struct rd_defer *defer)
{
	struct rd_vb_cq *cq = rd_container_of(defer, struct rd_vb_cq, notify);

	cq->base.fn(&cq->base, cq->base.arg); /* may destroy the CQ */
}

/* While the loop spins, completions are found without an interrupt. */
static bool poll_device(struct rd_poller *poller)
{
	struct rd_vb_cq *cq = rd_container_of(poller, struct rd_vb_cq, poller);

	if (!cq->armed || !sweep_some(cq))
		return false;
	wake_cq_user(cq);
	return true;
}

/* The loop is about to sleep. */
static bool arm_device(struct rd_poller *poller)
{
	struct rd_vb_cq *cq = rd_container_of(poller, struct rd_vb_cq, poller);

	if (!cq->armed)
		return false;
	for (uint32_t s = 0; s < cq->nsegs; s++) {
		struct rd_vb_seg *seg = cq->segs[s];

		if (seg->armed || !seg->hw)
			continue;
		if (ibv_req_notify_cq(seg->hw, 0))
			rd_vb_cq_failed(cq);
		seg->armed = true;
		cq->dev->fab->stats.arms++;
	}
	return poll_device(poller) || !cq->armed;
}

static void take_a_turn(struct rd_defer *defer)
{
}

int rd_vb_cq_arm(struct rd_fab_cq *base)
{
	struct rd_vb_cq *cq = rd_vb_cq(base);

	cq->armed = true;
	/* Schedules an iteration: the owner of a pollable loop may be about to sleep. */
	rd_defer(cq->dev->fab->base.loop, &cq->turn, RD_DEFER_FLUSH);
	return 0;
}

static void channel_io(struct rd_io *io, uint32_t events)
{
	struct rd_vb_cq *cq = rd_container_of(io, struct rd_vb_cq, io);
	struct ibv_cq *hw;
	void *ctx;

	while (ibv_get_cq_event(cq->ch, &hw, &ctx) == 0) {
		struct rd_vb_seg *seg = ctx;

		seg->armed = false;
		if (++seg->unacked >= ACK_BATCH) {
			ibv_ack_cq_events(hw, seg->unacked);
			seg->unacked = 0;
		}
	}
	/*
	 * The poller looks for the completions that this event announced; they may have been taken
	 * already.
	 */
}

void rd_vb_cq_failed(struct rd_vb_cq *cq)
{
	if (!cq->broken)
		rd_err(rd_vb_log(cq->dev->fab), RD_LOG_FABRIC,
		       "%s: a completion queue failed: its connections get no more completions",
		       cq->dev->name);
	cq->broken = true;
	wake_cq_user(cq);
}

/* ---- segments ---- */

static int seg_add(struct rd_vb_cq *cq, uint32_t size)
{
	struct rd_vb_seg *seg;
	int rc;

	if (!cq->dev->ctx)
		return -ENODEV;
	if (cq->nsegs == RD_VB_SEGS || size > cq->dev->max_cqe)
		return -ENOSPC;
	seg = calloc(1, sizeof(*seg));
	if (!seg)
		return -ENOMEM;
	errno = 0;
	seg->hw = ibv_create_cq(cq->dev->ctx, (int)size, seg, cq->ch, 0);
	if (!seg->hw) {
		rc = rd_vb_errno();
		free(seg);
		return rc;
	}
	seg->cq = cq;
	seg->size = (uint32_t)seg->hw->cqe;
	cq->segs[cq->nsegs++] = seg;
	if (cq->armed)
		rd_defer(cq->dev->fab->base.loop, &cq->turn, RD_DEFER_FLUSH);
	return 0;
}

int rd_vb_cq_reserve(struct rd_vb_cq *cq, uint32_t n, struct rd_vb_seg **out)
{
	uint32_t want;
	int rc;

	for (uint32_t s = 0; s < cq->nsegs; s++) {
		struct rd_vb_seg *seg = cq->segs[s];

		if (n > seg->size - seg->reserved)
			continue;
		seg->reserved += n;
		*out = seg;
		return 0;
	}
	/* Each segment is as large as all before it together. */
	want = cq->nsegs ? cq->segs[cq->nsegs - 1]->size * 2 : SEG_MIN;
	if (want > cq->dev->max_cqe)
		want = cq->dev->max_cqe;
	rc = seg_add(cq, want > n ? want : n);
	if (rc)
		return rc == -EINVAL ? -ENOSPC : rc;
	*out = cq->segs[cq->nsegs - 1];
	(*out)->reserved = n;
	return 0;
}

static void seg_close(struct rd_vb_seg *seg)
{
	int rc;

	if (!seg->hw)
		return;
	/* Events must be acknowledged, or the destruction waits for ever. */
	if (seg->unacked)
		ibv_ack_cq_events(seg->hw, seg->unacked);
	seg->unacked = 0;
	rc = rd_vb_err(ibv_destroy_cq(seg->hw));
	if (rc)
		rd_err(rd_vb_log(seg->cq->dev->fab), RD_LOG_FABRIC,
		       "%s: a completion queue cannot be destroyed: %s", seg->cq->dev->name,
		       strerror(-rc));
	seg->hw = NULL;
}

static void cq_close(struct rd_vb_cq *cq)
{
	struct rd_loop *loop = cq->dev->fab->base.loop;

	rd_poller_del(loop, &cq->poller);
	rd_io_del(loop, &cq->io);
	rd_defer_cancel(loop, &cq->turn);
	for (uint32_t s = 0; s < cq->nsegs; s++)
		seg_close(cq->segs[s]);
	if (cq->ch)
		ibv_destroy_comp_channel(cq->ch);
	cq->ch = NULL;
}

void rd_vb_cq_removed(struct rd_vb_cq *cq)
{
	rd_vb_cq_sweep(cq);
	cq_close(cq);
}

/* ---- coming and going ---- */

static int open_channel(struct rd_vb_cq *cq)
{
	int flags;

	errno = 0;
	cq->ch = ibv_create_comp_channel(cq->dev->ctx);
	if (!cq->ch)
		return rd_vb_errno();
	flags = fcntl(cq->ch->fd, F_GETFL);
	if (flags < 0 || fcntl(cq->ch->fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	return rd_io_add(cq->dev->fab->base.loop, &cq->io, cq->ch->fd, EPOLLIN, channel_io);
}

int rd_vb_cq_create(struct rd_fab_dev *base, uint32_t depth, rd_fab_cq_fn fn, void *arg,
		    struct rd_fab_cq **out)
{
	struct rd_vb_dev *dev = rd_vb_dev(base);
	struct rd_vb_cq *cq;
	int rc;

	if (!dev->ctx)
		return -ENODEV;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->dev = dev;
	cq->base.dev = base;
	cq->base.fn = fn;
	cq->base.arg = arg;
	cq->notify.fn = vb_cq_notify;
	cq->turn.fn = take_a_turn;
	cq->poller.fn = poll_device;
	cq->poller.arm = arm_device;
	rc = open_channel(cq);
	if (rc == 0 && depth)
		rc = seg_add(cq, depth);
	if (rc) {
		cq_close(cq);
		free(cq);
		return rc;
	}
	rd_poller_add(dev->fab->base.loop, &cq->poller);
	LIST_INSERT_HEAD(&dev->cqs, cq, link);
	dev->fab->stats.cqs++;
	*out = &cq->base;
	return 0;
}

void rd_vb_cq_destroy(struct rd_fab_cq *base)
{
	struct rd_vb_cq *cq = rd_vb_cq(base);

	rd_defer_cancel(cq->dev->fab->base.loop, &cq->notify);
	cq_close(cq);
	for (uint32_t s = 0; s < cq->nsegs; s++)
		free(cq->segs[s]);
	LIST_REMOVE(cq, link);
	cq->dev->fab->stats.cqs--;
	rd_wc_ring_free(&cq->ring);
	free(cq);
}
