/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels: lifetime, and their I/O queues on the paths of the device. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "dev.h"

/* ---- queues on paths ---- */

/* Sets chan->only, the path that every command takes where there is no choice. */
static void set_only_path(struct rdinit_dev_chan *chan)
{
	struct rdi_chan_path *cp = &chan->paths[0];

	chan->only = NULL;
	if (chan->n_paths == 1 && cp->up && rdi_path_usable(cp->path))
		chan->only = cp;
}

/* Tells the device that the association of @cp is broken. */
static void chan_report_loss(struct rdi_chan_path *cp, int err, const char *text)
{
	struct rdinit_dev *dev = cp->chan->dev;

	if (cp->chan->dying || rdi_dev_lock(dev, __func__))
		return;
	rdi_path_lost(cp->path, cp->epoch, err, text);
	rdi_dev_unlock(dev);
}

/* All commands of the queue have completed with its error. */
static void chan_queue_closed(struct rdi_queue *q)
{
	struct rdi_chan_path *cp = q->owner;
	struct rdinit_dev_chan *chan = cp->chan;

	cp->up = false;
	set_only_path(chan);
	chan_report_loss(cp, q->err, q->text);
	rd_defer(chan->h.loop, &cp->sweep, RD_DEFER_NEXT);
}

static void chan_queue_connected(void *user, const struct rdinit_completion *c)
{
	struct rdi_chan_path *cp = user;
	struct rdinit_dev_chan *chan = cp->chan;
	int rc;

	if (c->err)
		return; /* chan_queue_closed() follows */
	rc = rdi_chan_mem_attach(chan, &cp->qp->q);
	if (rc) {
		rdi_queue_fail(&cp->qp->q, rc, "%s: cannot register buffers: %s", cp->qp->q.remote,
			       strerror(-rc));
		return;
	}
	cp->up = true;
	set_only_path(chan);
	rd_defer(chan->h.loop, &chan->pump, RD_DEFER_WORK);
}

/* Creates the queue on the live association, if there is one. */
static void chan_attach(struct rdi_chan_path *cp)
{
	struct rdinit_dev_chan *chan = cp->chan;
	struct rdinit_dev *dev = chan->dev;
	struct rdinit_qpair_opts opts;
	int rc;

	rdinit_qpair_opts_init(&opts);
	opts.qid = (uint16_t)(chan->slot + 1);
	opts.queue_size = dev->opts.queue_size;
	opts.io_timeout_ms = dev->opts.io_timeout_ms;
	if (rdi_dev_lock(dev, __func__))
		return;
	cp->epoch = atomic_load(&cp->path->live_epoch);
	cp->gateway = cp->path->gateway;
	if (!cp->epoch) {
		rdi_dev_unlock(dev);
		return;
	}
	rc = rdi_qpair_create_on(cp->path->ctrl, &opts, &chan->h, &cp->qp);
	if (!rc) {
		cp->qp->q.owner = cp;
		cp->qp->q.closed = chan_queue_closed;
		cp->qp->q.overdue = rdi_io_overdue;
		rc = rdinit_qpair_connect_async(cp->qp, chan_queue_connected, cp);
	}
	if (rc)
		rdi_path_lost(cp->path, cp->epoch, rc, rdinit_get_error());
	rdi_dev_unlock(dev);
	if (rc)
		rdinit_qpair_free(&cp->qp);
}

static void chan_sweep(struct rd_defer *defer)
{
	struct rdi_chan_path *cp = rd_container_of(defer, struct rdi_chan_path, sweep);

	rdinit_qpair_free(&cp->qp);
	chan_attach(cp);
	rd_defer(cp->chan->h.loop, &cp->chan->pump, RD_DEFER_WORK);
}

/* The device has changed. */
static void chan_kicked(struct rd_msg *msg)
{
	struct rdinit_dev_chan *chan = rd_container_of(msg, struct rdinit_dev_chan, kick);
	struct rdinit_dev *dev = chan->dev;
	unsigned int i, n = atomic_load(&dev->n_paths);

	/* cleared first: a later change must send another message */
	atomic_store(&chan->kicked, false);
	for (; chan->n_paths < n; chan->n_paths++)
		chan->paths[chan->n_paths].path = dev->paths[chan->n_paths];
	for (i = 0; i < n; i++) {
		struct rdi_chan_path *cp = &chan->paths[i];
		uint32_t live = atomic_load(&cp->path->live_epoch);

		if (!cp->qp && live)
			chan_attach(cp);
		else if (cp->qp && cp->epoch != live)
			rdi_queue_fail(&cp->qp->q, -ECONNRESET, "%s: the path was reset",
				       cp->qp->q.remote);
	}
	set_only_path(chan);
	rd_defer(chan->h.loop, &chan->pump, RD_DEFER_WORK);
}

void rdi_chan_kick(struct rdinit_dev_chan *chan)
{
	if (!atomic_exchange(&chan->kicked, true))
		rd_loop_post(chan->h.loop, &chan->kick);
}

/* ---- processing ---- */

static void chan_dev_io(struct rd_io *io, uint32_t events)
{
	struct rdinit_dev_chan *chan = rd_container_of(io, struct rdinit_dev_chan, dev_io);

	(void)events;
	rdi_dev_try_turn(chan->dev);
}

int rdinit_dev_chan_fd(const struct rdinit_dev_chan *chan)
{
	return chan ? rd_loop_fd(chan->h.loop) : rdi_no_handle(__func__);
}

static void chan_destroy(struct rdinit_dev_chan *chan);

int rdinit_dev_chan_process(struct rdinit_dev_chan *chan, int timeout_ms)
{
	int rc = rdi_may_wait(RDI_HANDLE(chan), __func__);

	if (rc)
		return rc;
	chan->callbacks = 0;
	rc = rdi_handle_turn(&chan->h, timeout_ms);
	if (chan->h.free_later) {
		chan_destroy(chan);
		return rdi_fail(__func__, -ENOTCONN, "the channel was freed in a callback");
	}
	return rc ? rdi_fail(__func__, rc, "%s", strerror(-rc)) : (int)chan->callbacks;
}

unsigned int rdinit_dev_chan_depth(const struct rdinit_dev_chan *chan)
{
	return chan ? chan->depth : 0;
}

unsigned int rdinit_dev_chan_inflight(const struct rdinit_dev_chan *chan)
{
	return chan ? chan->inflight : 0;
}

/* ---- life ---- */

/* Of the connected paths, the one whose controller grants the fewest I/O queues, or NULL. */
static const struct rdi_path *chan_least_granted(const struct rdinit_dev *dev)
{
	const struct rdi_path *least = NULL;
	unsigned int i;

	for (i = 0; i < atomic_load(&dev->n_paths); i++) {
		const struct rdi_path *path = dev->paths[i];

		if (path->state == RDINIT_DEV_PATH_LIVE &&
		    (!least || path->ctrl->io_queues < least->ctrl->io_queues))
			least = path;
	}
	return least;
}

static bool chan_slot_is_free(const struct rdinit_dev *dev, unsigned int slot)
{
	const struct rdinit_dev_chan *other;

	LIST_FOREACH (other, &dev->chans, link)
		if (other->slot == slot)
			return false;
	return true;
}

/* Takes a queue identifier that all controllers grant; round robin, so that the most recently
 * freed one is not reused at once. */
static int chan_take_slot(struct rdinit_dev_chan *chan, const char *func)
{
	struct rdinit_dev *dev = chan->dev;
	const struct rdi_path *least = chan_least_granted(dev);
	unsigned int i, n = dev->opts.channels;

	if (least && least->ctrl->io_queues < n)
		n = least->ctrl->io_queues;
	for (i = 0; i < n; i++) {
		unsigned int slot = (dev->next_slot + i) % n;

		if (!chan_slot_is_free(dev, slot))
			continue;
		chan->slot = slot;
		dev->next_slot = slot + 1;
		return 0;
	}
	if (n == dev->opts.channels)
		return rdi_fail(func, -ENOSPC,
				"%u channels exist, as many as the option channels allows",
				dev->n_chans);
	return rdi_fail(func, -ENOSPC, "%s grants %u I/O queues, too few for %u channels",
			least->address, n, dev->n_chans + 1);
}

/* Adds the channel to the device. */
static int chan_join(struct rdinit_dev_chan *chan, const char *func)
{
	struct rdinit_dev *dev = chan->dev;
	int rc = rdi_dev_lock(dev, func);

	if (rc)
		return rc;
	if (!dev->known || atomic_load(&dev->state) == RDINIT_DEV_CLOSED)
		rc = rdi_fail(func, -ENOTCONN, "the device is not open");
	else
		rc = chan_take_slot(chan, func);
	if (!rc) {
		LIST_INSERT_HEAD(&dev->chans, chan, link);
		dev->n_chans++;
		rdi_chan_kick(chan);
	}
	rdi_dev_unlock(dev);
	return rc;
}

static int chan_alloc_ios(struct rdinit_dev_chan *chan)
{
	unsigned int i;

	chan->ios = calloc(chan->depth + 1u, sizeof(*chan->ios));
	if (!chan->ios)
		return -ENOMEM;
	for (i = 0; i <= chan->depth; i++) {
		chan->ios[i].chan = chan;
		chan->ios[i].index = (uint16_t)i;
		TAILQ_INSERT_TAIL(&chan->free, &chan->ios[i], link);
	}
	return 0;
}

/* Initialization that cannot fail. */
static void chan_init(struct rdinit_dev_chan *chan, struct rdinit_dev *dev)
{
	unsigned int i;

	chan->dev = dev;
	chan->last = -1;
	chan->depth = dev->opts.queue_size - 1u;
	TAILQ_INIT(&chan->free);
	TAILQ_INIT(&chan->waiting);
	chan->pump.fn = rdi_wait_pump;
	chan->tick.fn = rdi_wait_tick;
	chan->kick.fn = chan_kicked;
	for (i = 0; i < RDINIT_DEV_PATHS_MAX; i++) {
		chan->paths[i].chan = chan;
		chan->paths[i].sweep.fn = chan_sweep;
	}
}

int rdinit_dev_chan_create(struct rdinit_dev *dev, struct rdinit_dev_chan **out)
{
	struct rdinit_dev_chan *chan;
	const char *why = NULL;
	int rc;

	if (!out)
		return rdi_fail(__func__, -EINVAL, "out is NULL");
	*out = NULL;
	if (rdi_is_foreign(RDI_HANDLE(dev)))
		return rdi_foreign(RDI_HANDLE(dev), __func__);
	chan = calloc(1, sizeof(*chan));
	if (!chan)
		return rdi_fail(__func__, -ENOMEM, "out of memory");
	chan_init(chan, dev);
	rc = rdi_handle_open_loop(&chan->h, dev->env, &dev->log_cfg, NULL, &why);
	if (rc)
		goto err_free;
	chan->h.spin.ns = dev->env->clock ? 0 : dev->ctrl_opts.spin_us * RD_NSEC_PER_USEC;
	rc = chan_alloc_ios(chan);
	if (!rc)
		rc = rdi_chan_pool_create(chan, dev->opts.pool_bytes);
	if (!rc)
		rc = rd_io_add(chan->h.loop, &chan->dev_io, rd_loop_fd(dev->h.loop), EPOLLIN,
			       chan_dev_io);
	if (rc)
		goto err_close;
	rc = chan_join(chan, __func__);
	if (rc)
		goto err_joined;
	*out = chan;
	return 0;

err_close:
	rdi_fail(__func__, rc, "%s", strerror(-rc));
err_joined:
	rd_io_del(chan->h.loop, &chan->dev_io);
	rdi_chan_pool_destroy(chan);
	free(chan->ios);
	rdi_handle_close(&chan->h);
	free(chan);
	return rc;
err_free:
	rdi_fail(__func__, rc, "%s", why ? why : strerror(-rc));
	free(chan);
	return rc;
}

static void chan_destroy(struct rdinit_dev_chan *chan)
{
	struct rdinit_dev *dev = chan->dev;
	struct rdi_io *io;
	unsigned int i;

	pthread_mutex_lock(&dev->lock);
	LIST_REMOVE(chan, link); /* after this no thread sends a kick */
	pthread_mutex_unlock(&dev->lock);
	chan->dying = true;
	chan->h.in_turn = true; /* callbacks from here must not wait */
	rd_timer_stop(chan->h.loop, &chan->tick);
	for (i = 0; i < RDINIT_DEV_PATHS_MAX; i++) {
		rd_defer_cancel(chan->h.loop, &chan->paths[i].sweep);
		rdinit_qpair_free(&chan->paths[i].qp);
	}
	while ((io = TAILQ_FIRST(&chan->waiting))) {
		TAILQ_REMOVE(&chan->waiting, io, link);
		rdi_io_fail(io, -ECANCELED, "the channel was freed");
	}
	rd_defer_cancel(chan->h.loop, &chan->pump);
	rd_io_del(chan->h.loop, &chan->dev_io);
	rdi_chan_pool_destroy(chan);
	rdi_handle_close(&chan->h);
	free(chan->zeroes);
	free(chan->ios);
	free(chan);
	rdi_dev_let_go(dev, true);
}

void rdinit_dev_chan_free(struct rdinit_dev_chan **chan)
{
	struct rdinit_dev_chan *c = chan ? *chan : NULL;

	if (!c)
		return;
	*chan = NULL;
	if (rdi_handle_ends(&c->h))
		chan_destroy(c);
}
