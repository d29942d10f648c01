/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of a channel that are not sent yet because no path is usable, the queue is full, a retry
 * delay runs, or the blocks are guarded. They are checked after each change of these, and by a
 * timer for delays and guards.
 */
#include <errno.h>
#include <stdio.h>

#include "dev.h"

#define SILENT_NS     (60 * RD_NSEC_PER_SEC) /* then it is tried again */
#define TICK_NS       (5 * RD_NSEC_PER_MSEC)
#define TICK_ALONE_NS (50 * RD_NSEC_PER_MSEC) /* without a usable path; a message announces one */

void rdi_wait_add(struct rdi_io *io)
{
	struct rdinit_dev_chan *chan = io->chan;

	io->cp = NULL;
	TAILQ_INSERT_TAIL(&chan->waiting, io, link);
	rd_defer(chan->h.loop, &chan->pump, RD_DEFER_WORK);
}

static uint32_t cp_answered(const struct rdi_chan_path *cp)
{
	return atomic_load_explicit(&cp->n_answered, memory_order_relaxed);
}

static bool is_silent(const struct rdi_chan_path *cp)
{
	return cp->silent_until && cp_answered(cp) == cp->silent_answered &&
	       rd_loop_now(cp->chan->h.loop) < cp->silent_until;
}

/* Is there another path that can take commands, and has not been silent? */
static bool another_answers(const struct rdi_chan_path *cp)
{
	const struct rdinit_dev_chan *chan = cp->chan;
	unsigned int i;

	for (i = 0; i < chan->n_paths; i++) {
		const struct rdi_chan_path *other = &chan->paths[i];

		if (other != cp && other->up && rdi_path_usable(other->path) && !is_silent(other))
			return true;
	}
	return false;
}

bool rdi_wait_blame(struct rdi_io *io)
{
	struct rdi_chan_path *cp = io->cp;
	uint16_t path = (uint16_t)(1u << cp->path->index);
	/* It tells nothing of the command yet that a first attempt by this path has failed, too:
	 * its connection may have been lost long ago, while there was nothing to send. */
	bool first = io->limits && !(io->limited & path);

	io->limited = (io->limits ? io->limited : 0) | path;
	if (cp_answered(cp) != io->answered)
		return false;
	cp->silent_answered = io->answered;
	cp->silent_until = rd_loop_now_raw(cp->chan->h.loop) + SILENT_NS;
	return first || another_answers(cp);
}

static struct rdi_chan_path *choose_path(struct rdinit_dev_chan *chan)
{
	struct rdi_path_view views[RDINIT_DEV_PATHS_MAX];
	unsigned int i;
	int chosen;

	for (i = 0; i < chan->n_paths; i++) {
		const struct rdi_chan_path *cp = &chan->paths[i];

		views[i].live = cp->up && atomic_load(&cp->path->live_epoch) == cp->epoch;
		views[i].ana = atomic_load(&cp->path->ana);
		views[i].inflight = cp->up ? cp->qp->q.inflight : 0;
		views[i].silent = is_silent(cp);
		/* A full queue counts as an unusable path here; the policy chooses among the
		 * others. */
		if (views[i].live && rdi_queue_check(&cp->qp->q, 0, 1))
			views[i].live = false;
	}
	chosen = rdi_path_choose((enum rdi_policy)chan->dev->opts.policy, views, chan->n_paths,
				 chan->last);
	if (chosen < 0)
		return NULL;
	chan->last = chosen;
	return &chan->paths[chosen];
}

/* The path by which a lost write can be sent again; NULL: none yet. */
static struct rdi_chan_path *resend_path(struct rdi_io *io, uint64_t now)
{
	struct rdinit_dev_chan *chan = io->chan;
	const struct rdi_guard *guard = io->guard;
	struct rdi_chan_path *cp = choose_path(chan);

	if (now >= guard->safe_at || (cp && rdi_guard_is_over_at(guard, cp->gateway)))
		return cp;
	cp = &chan->paths[guard->path];
	if (is_silent(cp) && another_answers(cp))
		return NULL;
	/* After a reconnect the target's stale-write fence blocks the commands of the old
	 * association. */
	if (cp->up && cp->epoch > guard->epoch && cp->epoch == atomic_load(&cp->path->live_epoch) &&
	    atomic_load(&cp->path->fence_epoch) <= guard->epoch && rdi_path_usable(cp->path))
		return cp;
	return NULL;
}

struct rdi_chan_path *rdi_wait_path(struct rdi_io *io)
{
	struct rdinit_dev_chan *chan = io->chan;
	struct rdinit_dev *dev = chan->dev;
	struct rdi_chan_path *cp;
	uint64_t now;

	if (!io->not_before && !atomic_load_explicit(&dev->guards.count, memory_order_relaxed))
		return chan->only ? chan->only : choose_path(chan);
	now = rd_loop_now(chan->h.loop);
	if (now < io->not_before)
		return NULL;
	cp = io->guard ? resend_path(io, now) : choose_path(chan);
	if (cp && rdi_ops[io->op].changes_blocks &&
	    rdi_guards_block(&dev->guards, io->lba, io->nblocks, io->guard, cp->gateway, now))
		return NULL;
	return cp;
}

/* ---- looking at what waits ---- */

static void end_waiting(struct rdi_io *io, int err, const char *why)
{
	TAILQ_REMOVE(&io->chan->waiting, io, link);
	rdi_io_fail(io, err, "%s", why);
}

/* @why: why no path is usable; the text adds the reason of the first path. */
static void end_without_path(struct rdi_io *io, int err, const char *why)
{
	struct rdinit_dev *dev = io->chan->dev;
	char text[RDI_TEXT];

	snprintf(text, sizeof(text), "%s", why);
	if (rdi_dev_lock(dev, __func__) == 0) {
		const struct rdi_path *path = dev->paths[0];

		snprintf(text, sizeof(text), "%s: path 0 is %s: %.300s", why,
			 rdinit_dev_path_state_name(path->state), path->text);
		rdi_dev_unlock(dev);
	}
	end_waiting(io, err, text);
}

/* Ends @io if it may not wait any longer for a usable path. */
static void check_device(struct rdi_io *io)
{
	struct rdinit_dev *dev = io->chan->dev;
	int state = atomic_load(&dev->state);
	uint64_t since = atomic_load(&dev->unusable_since);
	uint64_t limit = dev->opts.fast_io_fail_tmo_ms * RD_NSEC_PER_MSEC;

	/* Reads the clock: the cached time of the channel's iteration may be earlier than
	 * @since. */
	if (state == RDINIT_DEV_FAILED || state == RDINIT_DEV_CLOSED)
		end_without_path(io, -ENODEV,
				 "the device has failed: no path to the namespace is left");
	else if (dev->opts.fast_io_fail_tmo_ms != RDINIT_DEV_NEVER && since &&
		 rd_loop_now_raw(io->chan->h.loop) - since >= limit)
		end_without_path(io, -ENOTCONN,
				 "no path to the namespace was usable for fast_io_fail_tmo_ms");
}

/* Returns false when the queue of the path is full. */
static bool look_at_waiting(struct rdi_io *io)
{
	struct rdinit_dev_chan *chan = io->chan;
	struct rdi_chan_path *cp = io->cancelled ? NULL : rdi_wait_path(io);
	int rc;

	if (io->cancelled) {
		end_waiting(io, -ECANCELED, "cancelled");
		return true;
	}
	if (!cp) {
		check_device(io);
		return true;
	}
	TAILQ_REMOVE(&chan->waiting, io, link);
	rc = rdi_io_send(cp, io);
	if (rc == -EAGAIN || rc == -ENOTCONN) {
		TAILQ_INSERT_HEAD(&chan->waiting, io, link);
		return false;
	}
	if (rc)
		rdi_io_fail(io, rc, "%s", rdi_queue_why(&cp->qp->q, rc));
	return true;
}

void rdi_wait_pump(struct rd_defer *defer)
{
	struct rdinit_dev_chan *chan = rd_container_of(defer, struct rdinit_dev_chan, pump);
	struct rdi_io *io, *last = TAILQ_LAST(&chan->waiting, rdi_io_list), *next;
	bool alone = atomic_load(&chan->dev->unusable_since);

	/* Stops at the command that was the last one at the start: callbacks append further
	 * ones. */
	for (io = TAILQ_FIRST(&chan->waiting); io; io = next) {
		next = io == last ? NULL : TAILQ_NEXT(io, link);
		if (!look_at_waiting(io))
			break;
	}
	if (!TAILQ_EMPTY(&chan->waiting) && !rd_timer_armed(&chan->tick))
		rd_timer_start(chan->h.loop, &chan->tick, alone ? TICK_ALONE_NS : TICK_NS);
}

void rdi_wait_tick(struct rd_timer *timer)
{
	struct rdinit_dev_chan *chan = rd_container_of(timer, struct rdinit_dev_chan, tick);

	rd_defer(chan->h.loop, &chan->pump, RD_DEFER_WORK);
}
