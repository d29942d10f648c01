/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draining closed sockets. close(2) with unread data sends an RST, which can destroy what the peer
 * has not read yet: a reject, a Terminate, a last response. So the socket of a connection that is
 * over is read until the peer closes it as well, for DRAIN_NS at most.
 *
 * A peer may go on sending, and reconnect. So sockets are not watched, but read by a timer: in each
 * DRAIN_TICK_NS at most DRAIN_READS of them, in turn, DRAIN_BYTES of each.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drain.h"
#include "fab.h"
#include "listen.h"
#include "scratch.h"

#define DRAIN_NS      RD_NSEC_PER_SEC
#define DRAIN_TICK_NS RD_NSEC_PER_MSEC
#define DRAIN_READS   8u
#define DRAIN_BYTES   ((size_t)64 * 1024)

_Static_assert(DRAIN_BYTES <= RD_IW_STAGING_SIZE, "the staging buffer gives the length");

static void drain_end(struct rd_iw_drain *d)
{
	close(d->fd);
	TAILQ_REMOVE(&d->fab->drains, d, link);
	d->fab->stats.drains--;
	free(d);
}

/* Returns whether the peer has closed the socket. */
static bool drain_read(const struct rd_iw_drain *d)
{
	struct rd_fab_iwarp_scratch *pool = d->fab->dev.scratch;
	struct rd_iw_scratch *s = rd_iw_scratch_get(pool);
	ssize_t n;

	if (!s)
		return false;
	/* MSG_TRUNC: the kernel discards the data without copying it. */
	n = recv(d->fd, s->staging, DRAIN_BYTES, MSG_DONTWAIT | MSG_TRUNC);
	rd_iw_scratch_put(pool, s);
	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void drain_tick(struct rd_timer *timer)
{
	struct rd_iw_fab *fab = rd_container_of(timer, struct rd_iw_fab, drain_timer);
	uint32_t reads = fab->stats.drains < DRAIN_READS ? fab->stats.drains : DRAIN_READS;
	uint64_t now = rd_loop_now(fab->base.loop);

	while (reads--) {
		struct rd_iw_drain *d = TAILQ_FIRST(&fab->drains);

		TAILQ_REMOVE(&fab->drains, d, link);
		TAILQ_INSERT_TAIL(&fab->drains, d, link);
		if (drain_read(d) || now >= d->deadline)
			drain_end(d);
	}
	/* Restarting cannot fail: the loop keeps the memory of a timer that fires. */
	if (!TAILQ_EMPTY(&fab->drains))
		rd_timer_start(fab->base.loop, timer, DRAIN_TICK_NS);
}

void rd_iw_drain_init(struct rd_iw_fab *fab)
{
	TAILQ_INIT(&fab->drains);
	fab->drain_timer.fn = drain_tick;
}

void rd_iw_drain_start(struct rd_iw_fab *fab, int fd, bool fin)
{
	struct rd_iw_drain *d;

	if (fin)
		shutdown(fd, SHUT_WR);
	d = calloc(1, sizeof(*d));
	if (!d)
		goto err_close;
	if (!rd_timer_armed(&fab->drain_timer) &&
	    rd_timer_start(fab->base.loop, &fab->drain_timer, DRAIN_TICK_NS))
		goto err_free;
	d->fab = fab;
	d->fd = fd;
	d->deadline = rd_loop_now(fab->base.loop) + DRAIN_NS;
	TAILQ_INSERT_TAIL(&fab->drains, d, link);
	/* A peer that connects again and again to be rejected must not use up the descriptors. */
	if (++fab->stats.drains > RD_IW_MAX_DRAINS)
		drain_end(TAILQ_FIRST(&fab->drains));
	return;

err_free:
	free(d);
err_close:
	close(fd);
}

void rd_iw_drain_fini(struct rd_iw_fab *fab)
{
	rd_timer_stop(fab->base.loop, &fab->drain_timer);
	while (!TAILQ_EMPTY(&fab->drains))
		drain_end(TAILQ_FIRST(&fab->drains));
}

/* ---- mailbox ---- */

struct rd_iw_mailbox {
	pthread_mutex_t lock; /* a leaf: no other lock is taken while it is held */
	atomic_uint refs;     /* held by the fabric and by each request that has not ended */
	STAILQ_HEAD(, rd_iw_req) reqs;
	int fd; /* eventfd that wakes the fabric's loop */
	bool closed;
	struct rd_io io;
	struct rd_iw_fab *fab; /* used only on its thread */
};

static void mailbox_io(struct rd_io *io, uint32_t events)
{
	struct rd_iw_mailbox *box = rd_container_of(io, struct rd_iw_mailbox, io);
	STAILQ_HEAD(, rd_iw_req) reqs = STAILQ_HEAD_INITIALIZER(reqs);
	struct rd_iw_req *req;
	uint64_t n;

	if (read(box->fd, &n, sizeof(n)) < 0)
		return;
	pthread_mutex_lock(&box->lock);
	STAILQ_CONCAT(&reqs, &box->reqs);
	pthread_mutex_unlock(&box->lock);
	while ((req = STAILQ_FIRST(&reqs))) {
		STAILQ_REMOVE_HEAD(&reqs, link);
		rd_iw_drain_start(box->fab, req->fd, false);
		rd_iw_mailbox_put(req->home);
		free(req);
	}
}

int rd_iw_mailbox_create(struct rd_iw_fab *fab, struct rd_iw_mailbox **out)
{
	struct rd_iw_mailbox *box = calloc(1, sizeof(*box));
	int rc;

	if (!box)
		return -ENOMEM;
	box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (box->fd < 0) {
		rc = -errno;
		goto err_free;
	}
	rc = rd_io_add(fab->base.loop, &box->io, box->fd, EPOLLIN, mailbox_io);
	if (rc)
		goto err_close;
	pthread_mutex_init(&box->lock, NULL);
	STAILQ_INIT(&box->reqs);
	atomic_init(&box->refs, 1);
	box->fab = fab;
	*out = box;
	return 0;

err_close:
	close(box->fd);
err_free:
	free(box);
	return rc;
}

void rd_iw_mailbox_get(struct rd_iw_mailbox *box)
{
	atomic_fetch_add(&box->refs, 1);
}

void rd_iw_mailbox_put(struct rd_iw_mailbox *box)
{
	if (atomic_fetch_sub(&box->refs, 1) != 1)
		return;
	close(box->fd);
	pthread_mutex_destroy(&box->lock);
	free(box);
}

void rd_iw_mailbox_close(struct rd_iw_mailbox *box)
{
	struct rd_iw_req *req;

	rd_io_del(box->fab->base.loop, &box->io);
	pthread_mutex_lock(&box->lock);
	box->closed = true;
	pthread_mutex_unlock(&box->lock);
	/* box->closed is set: no request is added any more. */
	while ((req = STAILQ_FIRST(&box->reqs))) {
		STAILQ_REMOVE_HEAD(&box->reqs, link);
		close(req->fd);
		rd_iw_mailbox_put(req->home);
		free(req);
	}
	rd_iw_mailbox_put(box);
}

void rd_iw_mailbox_send(struct rd_iw_mailbox *box, struct rd_iw_req *req)
{
	uint64_t one = 1;
	bool closed;
	ssize_t n = 0;

	pthread_mutex_lock(&box->lock);
	closed = box->closed;
	if (!closed) {
		STAILQ_INSERT_TAIL(&box->reqs, req, link);
		n = write(box->fd, &one, sizeof(one)); /* fails only if the counter is full: then it
							  is readable already */
	}
	pthread_mutex_unlock(&box->lock);
	(void)n;
	if (closed) {
		/* The fabric that would drain the socket is gone; the reject has been sent. */
		close(req->fd);
		rd_iw_mailbox_put(box);
		free(req);
	}
}
