/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine_io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "walker.h"
#include "workers.h"

/* After this number of retries, EAGAIN is treated as an error. */
#define RETRIES_MAX 16
/* Below the kernel's limit for one read or write, just under 2 GiB. */
#define PIECE_MAX (1u << 30)

static bool is_transfer(const struct rdt_bio *bio)
{
	return bio->op == RDT_BIO_READ || bio->op == RDT_BIO_WRITE;
}

/* ---- devices ---- */

static void free_device(struct rdt_device *d)
{
	if (d->ready)
		TAILQ_REMOVE(&d->engine->ready, d, link);
	rdt_workers_free(&d->workers);
	rdt_walker_free(&d->walker);
	if (d->bounce != MAP_FAILED)
		munmap(d->bounce, (size_t)RDT_BOUNCE_COUNT * RDT_BOUNCE_SIZE);
	free(d);
}

static int new_device(struct rdt_engine *engine, uint64_t key, struct rdt_device **out)
{
	struct rdt_device *d = calloc(1, sizeof(*d));
	int rc = -ENOMEM;

	if (!d)
		return rc;
	d->engine = engine;
	d->key = key;
	TAILQ_INIT(&d->waiting);
	d->bounce = mmap(NULL, (size_t)RDT_BOUNCE_COUNT * RDT_BOUNCE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d->bounce != MAP_FAILED)
		rc = rdt_workers_create(engine, &d->workers);
	if (!rc)
		rc = rdt_walker_create(engine, &d->walker);
	if (!rc)
		rc = rd_map_put(&engine->devices, key, d);
	if (rc) {
		free_device(d);
		return rc;
	}
	for (uint32_t i = 0; i < RDT_BOUNCE_COUNT; i++)
		d->bounce_free[i] = d->bounce + (size_t)i * RDT_BOUNCE_SIZE;
	d->bounce_free_count = RDT_BOUNCE_COUNT;
	*out = d;
	return 0;
}

/* Takes a reference to the device @key of @engine, creating it if needed. */
static int device_get(struct rdt_engine *engine, uint64_t key, struct rdt_device **out)
{
	int rc = 0;

	*out = rd_map_get(&engine->devices, key);
	if (!*out)
		rc = new_device(engine, key, out);
	if (!rc)
		(*out)->channels++;
	return rc;
}

/* Releases the device of a channel without bios. Accepts NULL. */
static void device_put(struct rdt_device *d)
{
	if (!d || --d->channels)
		return;
	rd_map_remove(&d->engine->devices, d->key);
	free_device(d);
}

/* ---- the queue of bios that wait ---- */

static void queue_tail(struct rdt_device *d, struct rdt_bio *bio)
{
	rdt_fio(bio)->state = RDT_FIO_WAITING;
	TAILQ_INSERT_TAIL(&d->waiting, bio, link);
}

/* The next rdt_engine_pump() processes @d. */
static void set_ready(struct rdt_device *d)
{
	if (d->ready)
		return;
	d->ready = true;
	TAILQ_INSERT_TAIL(&d->engine->ready, d, link);
}

/* A bio to be continued precedes those that have not started. */
static void queue_head(struct rdt_device *d, struct rdt_bio *bio)
{
	rdt_fio(bio)->state = RDT_FIO_WAITING;
	TAILQ_INSERT_HEAD(&d->waiting, bio, link);
	set_ready(d);
}

/* Completes @bio with @result after this call, in a deferred call. */
static void end_later(struct rdt_engine *e, struct rdt_bio *bio, int result)
{
	bio->result = result;
	rdt_fio(bio)->state = RDT_FIO_ENDED;
	TAILQ_INSERT_TAIL(&e->ended, bio, link);
	rd_defer(e->loop, &e->end_defer, RD_DEFER_WORK);
}

/* ---- bounce buffers ---- */

static bool needs_bounce(const struct rdt_bio *bio, const struct rdt_fchan *chan, uint64_t moved)
{
	return chan->direct && is_transfer(bio) &&
	       (((uintptr_t)bio->buf + moved) & (chan->mem_align - 1));
}

/* Chooses the next piece of a read or write. Returns false if it has to wait for a bounce
 * buffer. */
static bool prepare_piece(struct rdt_device *d, struct rdt_bio *bio)
{
	struct rdt_fio *fio = rdt_fio(bio);
	uint64_t left = bio->length - fio->moved;

	if (!is_transfer(bio) || fio->step != RDT_FIO_TRANSFER)
		return true;
	fio->piece = left < PIECE_MAX ? (uint32_t)left : PIECE_MAX;
	/* A blocking call would sync a block device twice: for RWF_DSYNC, and afterwards. */
	fio->dsync = rdt_fio_wants_dsync(bio, fio->chan) && !(fio->blocking && fio->chan->block);
	if (!needs_bounce(bio, fio->chan, fio->moved))
		return true;
	if (!fio->bounce) {
		if (!d->bounce_free_count)
			return false;
		fio->bounce = d->bounce_free[--d->bounce_free_count];
	}
	if (fio->piece > RDT_BOUNCE_SIZE)
		fio->piece = RDT_BOUNCE_SIZE;
	if (bio->op == RDT_BIO_WRITE)
		memcpy(fio->bounce, (char *)bio->buf + fio->moved, fio->piece);
	return true;
}

static void release_bounce(struct rdt_fio *fio)
{
	struct rdt_device *d = fio->chan->device;

	if (!fio->bounce)
		return;
	d->bounce_free[d->bounce_free_count++] = fio->bounce;
	fio->bounce = NULL;
}

/* ---- submission ---- */

/* Everything except reads and writes, and those that the kernel cannot execute without blocking. */
static bool is_for_threads(const struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio_const(bio);

	return fio->blocking || fio->step != RDT_FIO_TRANSFER || !is_transfer(bio);
}

static void give_to_threads(struct rdt_device *d, struct rdt_bio *bio)
{
	int rc;

	rdt_fio(bio)->state = RDT_FIO_THREAD;
	rc = bio->op == RDT_BIO_EXTENTS ? rdt_walker_submit(d->walker, bio)
					: rdt_workers_submit(d->workers, bio);
	if (rc)
		end_later(d->engine, bio, rc);
}

static bool try_start(struct rdt_device *d, struct rdt_bio *bio)
{
	struct rdt_engine *e = d->engine;

	if (is_for_threads(bio)) {
		if (!prepare_piece(d, bio))
			return false;
		give_to_threads(d, bio);
		return true;
	}
	if (d->in_kernel >= e->depth || !prepare_piece(d, bio))
		return false;
	if (!e->ops->start(e, bio)) {
		set_ready(d); /* any completion may free a place */
		return false;
	}
	rdt_fio(bio)->state = RDT_FIO_KERNEL;
	d->in_kernel++;
	e->in_kernel++;
	return true;
}

static void pump_device(struct rdt_device *d)
{
	struct rdt_bio *bio;

	while ((bio = TAILQ_FIRST(&d->waiting))) {
		TAILQ_REMOVE(&d->waiting, bio, link);
		if (try_start(d, bio))
			continue;
		TAILQ_INSERT_HEAD(&d->waiting, bio, link);
		return;
	}
}

void rdt_engine_pump(struct rdt_engine *e)
{
	struct rdt_device *d, *last = TAILQ_LAST(&e->ready, rdt_device_list);

	while (last && (d = TAILQ_FIRST(&e->ready))) {
		TAILQ_REMOVE(&e->ready, d, link);
		d->ready = false;
		pump_device(d);
		if (d == last)
			return;
	}
}

void rdt_engine_submit(struct rdt_fchan *chan, struct rdt_bio *bio)
{
	struct rdt_device *d = chan->device;
	unsigned int late = atomic_load_explicit(&chan->chan.bdev->late, memory_order_relaxed);

	*rdt_fio(bio) = (struct rdt_fio){
		.magic = RDT_FIO_MAGIC,
		.chan = chan,
		.step = bio->op == RDT_BIO_FLUSH ? RDT_FIO_SYNC : RDT_FIO_TRANSFER,
		/* RWF_NOWAIT has gaps: see docs/design/storage.md. */
		.blocking = chan->blocks[bio->op == RDT_BIO_WRITE] || late,
	};
	if (!TAILQ_EMPTY(&d->waiting) || !try_start(d, bio))
		queue_tail(d, bio);
}

/* ---- completion ---- */

static void finish_bio(struct rdt_engine *e, struct rdt_bio *bio, int result)
{
	struct rdt_fio *fio = rdt_fio(bio);

	if (fio->chan->versions && rdt_bio_op_writes(bio->op))
		rdt_extents_changed(fio->chan->versions, bio->offset, bio->offset + bio->length);
	release_bounce(fio);
	fio->magic = 0;
	bio->result = result;
	bio->done(bio);
}

static void report_io_error(struct rdt_engine *e, const struct rdt_bio *bio,
			    const struct rdt_fchan *chan, const char *what)
{
	rd_log_limited(&e->rl, rd_loop_now(e->loop), e->log, RD_LOG_BACKEND, RD_LOG_ERROR,
		       "%s: %s at byte %" PRIu64 ": %s", chan->path,
		       bio->op == RDT_BIO_READ ? "read" : "write", bio->offset, what);
}

/* A piece has failed. Returns whether another attempt may succeed. */
static bool may_retry(struct rdt_engine *e, struct rdt_bio *bio, int64_t res)
{
	struct rdt_fio *fio = rdt_fio(bio);

	if (fio->state == RDT_FIO_KERNEL && (res == -EAGAIN || res == -EOPNOTSUPP)) {
		/* A device that is busy, or a file system that has to look up blocks; or a file
		 * system that cannot do it at all. */
		fio->chan->blocks[bio->op == RDT_BIO_WRITE] |= res == -EOPNOTSUPP;
		fio->blocking = true;
		return true;
	}
	if (res == -EINTR || res == -EAGAIN)
		return fio->retries++ < RETRIES_MAX;
	if (res == -EOPNOTSUPP && fio->step == RDT_FIO_TRANSFER && fio->dsync) {
		rd_info(e->log, RD_LOG_BACKEND,
			"%s: the kernel does not support RWF_DSYNC here: FUA writes are followed "
			"by fdatasync",
			fio->chan->path);
		fio->chan->no_dsync = true;
		return true;
	}
	return false;
}

/* A piece of a read or write moved @res bytes. Returns 0, or -EIO if no progress is possible. */
static int advance_bio(struct rdt_engine *e, struct rdt_bio *bio, int64_t res)
{
	struct rdt_fio *fio = rdt_fio(bio);
	uint64_t moved = (uint64_t)res;

	if (moved > fio->piece)
		moved = fio->piece;
	/* O_DIRECT transfers start at a block boundary: repeat the partial block. */
	if (fio->chan->direct && moved < fio->piece)
		moved -= moved % fio->chan->chan.bdev->block_size;
	if (!moved) {
		report_io_error(e, bio, fio->chan,
				bio->op == RDT_BIO_READ
					? "the file ends before its size at start-up"
					: "nothing was written");
		if (bio->op == RDT_BIO_READ)
			rdt_bdev_ended_early(fio->chan->chan.bdev, e->log, fio->chan->path,
					     bio->offset + fio->moved);
		return -EIO;
	}
	if (fio->bounce && bio->op == RDT_BIO_READ)
		memcpy((char *)bio->buf + fio->moved, fio->bounce, moved);
	fio->moved += moved;
	fio->retries = 0;
	return 0;
}

/* The sync succeeded; fail it anyway if another sync of the same file has failed. */
static int sync_result(const struct rdt_fio *fio)
{
	return atomic_load_explicit(&fio->chan->chan.bdev->sync_err, memory_order_relaxed)
		       ? -ENOTRECOVERABLE
		       : 0;
}

/* The I/O has failed with @res. Returns the result for @bio. */
static int bio_error(struct rdt_engine *e, struct rdt_bio *bio, int res)
{
	const struct rdt_fio *fio = rdt_fio(bio);
	bool syncs = fio->step == RDT_FIO_SYNC;

	if (!syncs && !fio->dsync)
		return res;
	return rdt_bdev_sync_error(fio->chan->chan.bdev, e->log, fio->chan->path, res, !syncs);
}

void rdt_engine_complete(struct rdt_engine *e, struct rdt_bio *bio, int64_t res)
{
	struct rdt_fio *fio = rdt_fio(bio);
	struct rdt_device *d = fio->chan->device;
	bool durable;
	int rc = 0;

	if (fio->state == RDT_FIO_KERNEL) {
		d->in_kernel--;
		e->in_kernel--;
	}
	if (!TAILQ_EMPTY(&d->waiting))
		set_ready(d);
	if (res < 0) {
		if (!may_retry(e, bio, res))
			finish_bio(e, bio, bio_error(e, bio, (int)res));
		else if (fio->canceled)
			finish_bio(e, bio, -ECANCELED);
		else
			queue_head(d, bio);
		return;
	}
	if (fio->step == RDT_FIO_SYNC) {
		finish_bio(e, bio, sync_result(fio));
		return;
	}
	durable = fio->dsync;
	if (is_transfer(bio))
		rc = advance_bio(e, bio, res);
	else
		fio->moved = bio->length;
	if (!rc && fio->canceled && fio->moved < bio->length)
		rc = -ECANCELED;
	if (rc) {
		finish_bio(e, bio, rc);
	} else if (fio->moved < bio->length) {
		queue_head(d, bio);
	} else if ((bio->flags & RDT_BIO_FUA) && bio->op != RDT_BIO_READ && !durable) {
		fio->step = RDT_FIO_SYNC;
		queue_head(d, bio);
	} else {
		finish_bio(e, bio, 0);
	}
}

/* ---- cancelling ---- */

static void finish_ended(struct rd_defer *defer)
{
	struct rdt_engine *e = rd_container_of(defer, struct rdt_engine, end_defer);
	struct rdt_bio *bio;

	while ((bio = TAILQ_FIRST(&e->ended))) {
		struct rdt_device *d = rdt_fio(bio)->chan->device;

		TAILQ_REMOVE(&e->ended, bio, link);
		if (!TAILQ_EMPTY(&d->waiting))
			set_ready(d);
		finish_bio(e, bio, bio->result);
	}
	rdt_engine_pump(e);
}

void rdt_engine_cancel(struct rdt_fchan *chan, struct rdt_bio *bio)
{
	struct rdt_engine *e = chan->engine;
	struct rdt_fio *fio = rdt_fio(bio);

	assert(fio->magic == RDT_FIO_MAGIC);
	switch ((enum rdt_fio_state)fio->state) {
	case RDT_FIO_WAITING:
		TAILQ_REMOVE(&chan->device->waiting, bio, link);
		end_later(e, bio, -ECANCELED);
		break;
	case RDT_FIO_THREAD:
		if (bio->op == RDT_BIO_EXTENTS)
			rdt_walker_cancel(bio);
		else if (rdt_workers_cancel(chan->device->workers, bio))
			end_later(e, bio, -ECANCELED);
		else
			fio->canceled = true;
		break;
	case RDT_FIO_KERNEL:
		fio->canceled = true;
		if (e->ops->cancel)
			e->ops->cancel(e, bio);
		break;
	case RDT_FIO_ENDED:
		break;
	}
}

/* ---- construction ---- */

int rdt_engine_init(struct rdt_engine *e, const struct rdt_engine_ops *ops,
		    const struct rdt_engines_opts *opts)
{
	e->ops = ops;
	e->loop = opts->loop;
	e->log = rd_loop_log(opts->loop);
	e->depth = opts->depth;
	TAILQ_INIT(&e->ready);
	TAILQ_INIT(&e->ended);
	e->end_defer.fn = finish_ended;
	return rd_map_init(&e->devices);
}

void rdt_engine_fini(struct rdt_engine *e)
{
	if (e->loop)
		rd_defer_cancel(e->loop, &e->end_defer);
	rd_map_fini(&e->devices);
}

void rdt_fchan_fini(struct rdt_fchan *chan)
{
	device_put(chan->device);
}

int rdt_fchan_init(struct rdt_fchan *chan, struct rdt_engine *engine, uint64_t device)
{
	chan->engine = engine;
	TAILQ_INIT(&chan->serial);
	return device_get(engine, device, &chan->device);
}
