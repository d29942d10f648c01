/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine_io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* After this number of retries, EAGAIN is treated as an error. */
#define RETRIES_MAX 16
/* Below the kernel's limit for one read or write, just under 2 GiB. */
#define PIECE_MAX (UINT64_C(1) << 30)

static bool is_transfer(const struct rdt_bio *bio)
{
	return bio->op == RDT_BIO_READ || bio->op == RDT_BIO_WRITE;
}

/* ---- the queue of bios that wait ---- */

static void queue_tail(struct rdt_engine *e, struct rdt_bio *bio)
{
	rdt_fio(bio)->state = RDT_FIO_WAITING;
	TAILQ_INSERT_TAIL(&e->waiting, bio, link);
}

/* A bio that was in the kernel already precedes those that were not. */
static void queue_head(struct rdt_engine *e, struct rdt_bio *bio)
{
	rdt_fio(bio)->state = RDT_FIO_WAITING;
	TAILQ_INSERT_HEAD(&e->waiting, bio, link);
}

/* ---- bounce buffers ---- */

static bool needs_bounce(const struct rdt_bio *bio, const struct rdt_fchan *chan, uint64_t moved)
{
	return chan->direct && is_transfer(bio) &&
	       (((uintptr_t)bio->buf + moved) & (chan->mem_align - 1));
}

/* Choose the next piece of a read or write. Returns false when it has to wait for a bounce
 * buffer. */
static bool prepare_piece(struct rdt_engine *e, struct rdt_bio *bio)
{
	struct rdt_fio *fio = rdt_fio(bio);

	fio->piece = bio->length - fio->moved;
	if (!is_transfer(bio) || fio->step != RDT_FIO_TRANSFER)
		return true;
	if (fio->piece > PIECE_MAX)
		fio->piece = PIECE_MAX;
	if (!needs_bounce(bio, fio->chan, fio->moved))
		return true;
	if (!fio->bounce) {
		if (!e->bounce_free_count)
			return false;
		fio->bounce = e->bounce_free[--e->bounce_free_count];
	}
	if (fio->piece > RDT_BOUNCE_SIZE)
		fio->piece = RDT_BOUNCE_SIZE;
	if (bio->op == RDT_BIO_WRITE)
		memcpy(fio->bounce, (char *)bio->buf + fio->moved, fio->piece);
	return true;
}

static void release_bounce(struct rdt_engine *e, struct rdt_fio *fio)
{
	if (!fio->bounce)
		return;
	e->bounce_free[e->bounce_free_count++] = fio->bounce;
	fio->bounce = NULL;
}

/* ---- submission ---- */

static bool try_start(struct rdt_engine *e, struct rdt_bio *bio)
{
	if (e->in_kernel >= e->depth || !prepare_piece(e, bio) || !e->ops->start(e, bio))
		return false;
	rdt_fio(bio)->state = RDT_FIO_KERNEL;
	e->in_kernel++;
	return true;
}

void rdt_engine_pump(struct rdt_engine *e)
{
	struct rdt_bio *bio;

	while ((bio = TAILQ_FIRST(&e->waiting))) {
		if (!try_start(e, bio))
			return;
		TAILQ_REMOVE(&e->waiting, bio, link);
	}
}

void rdt_engine_submit(struct rdt_fchan *chan, struct rdt_bio *bio)
{
	struct rdt_engine *e = chan->engine;

	*rdt_fio(bio) = (struct rdt_fio){
		.magic = RDT_FIO_MAGIC,
		.chan = chan,
		.step = bio->op == RDT_BIO_FLUSH ? RDT_FIO_SYNC : RDT_FIO_TRANSFER,
	};
	if (!TAILQ_EMPTY(&e->waiting) || !try_start(e, bio))
		queue_tail(e, bio);
}

/* ---- completion ---- */

static void finish_bio(struct rdt_engine *e, struct rdt_bio *bio, int result)
{
	struct rdt_fio *fio = rdt_fio(bio);

	release_bounce(e, fio);
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

/* A piece has failed. Returns true when it should be retried. */
static bool retry_failed(struct rdt_engine *e, struct rdt_bio *bio, int64_t res)
{
	struct rdt_fio *fio = rdt_fio(bio);

	if (fio->canceled)
		return false;
	if (res == -EINTR || res == -EAGAIN)
		return fio->retries++ < RETRIES_MAX;
	if (res == -EOPNOTSUPP && fio->step == RDT_FIO_TRANSFER &&
	    rdt_fio_wants_dsync(bio, fio->chan)) {
		rd_info(e->log, RD_LOG_BACKEND,
			"%s: the kernel does not support RWF_DSYNC here: FUA writes are followed "
			"by fdatasync",
			fio->chan->path);
		fio->chan->no_dsync = true;
		return true;
	}
	return false;
}

/* A piece of a read or write moved @res bytes. Returns 0, or -EIO when it cannot go on. */
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
	bool syncs = fio->step == RDT_FIO_SYNC, writes = rdt_fio_wants_dsync(bio, fio->chan);

	if (fio->canceled && res == -EINTR)
		return -ECANCELED;
	if (!(syncs || writes))
		return res;
	return rdt_bdev_sync_error(fio->chan->chan.bdev, e->log, fio->chan->path, res, !syncs);
}

void rdt_engine_complete(struct rdt_engine *e, struct rdt_bio *bio, int64_t res)
{
	struct rdt_fio *fio = rdt_fio(bio);
	bool durable;
	int rc = 0;

	e->in_kernel--;
	if (res < 0) {
		if (retry_failed(e, bio, res))
			queue_head(e, bio);
		else
			finish_bio(e, bio, bio_error(e, bio, (int)res));
		return;
	}
	if (fio->step == RDT_FIO_SYNC) {
		finish_bio(e, bio, sync_result(fio));
		return;
	}
	durable = rdt_fio_wants_dsync(bio, fio->chan);
	if (is_transfer(bio))
		rc = advance_bio(e, bio, res);
	else
		fio->moved = bio->length;
	if (!rc && fio->canceled && fio->moved < bio->length)
		rc = -ECANCELED;
	if (rc) {
		finish_bio(e, bio, rc);
	} else if (fio->moved < bio->length) {
		queue_head(e, bio);
	} else if ((bio->flags & RDT_BIO_FUA) && bio->op != RDT_BIO_READ && !durable) {
		fio->step = RDT_FIO_SYNC;
		queue_head(e, bio);
	} else {
		finish_bio(e, bio, 0);
	}
}

/* ---- cancelling ---- */

static void finish_canceled(struct rd_defer *defer)
{
	struct rdt_engine *e = rd_container_of(defer, struct rdt_engine, cancel_defer);
	struct rdt_bio *bio;

	while ((bio = TAILQ_FIRST(&e->canceled))) {
		TAILQ_REMOVE(&e->canceled, bio, link);
		finish_bio(e, bio, -ECANCELED);
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
		TAILQ_REMOVE(&e->waiting, bio, link);
		fio->state = RDT_FIO_CANCELED;
		TAILQ_INSERT_TAIL(&e->canceled, bio, link);
		rd_defer(e->loop, &e->cancel_defer, RD_DEFER_WORK);
		break;
	case RDT_FIO_KERNEL:
		fio->canceled = true;
		if (e->ops->cancel)
			e->ops->cancel(e, bio);
		break;
	case RDT_FIO_CANCELED:
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
	TAILQ_INIT(&e->waiting);
	TAILQ_INIT(&e->canceled);
	e->cancel_defer.fn = finish_canceled;
	e->bounce = aligned_alloc(RDT_BOUNCE_ALIGN, (size_t)RDT_BOUNCE_COUNT * RDT_BOUNCE_SIZE);
	if (!e->bounce)
		return -ENOMEM;
	/* Zeroed, so that stale heap contents cannot leak, and for memory checkers, which do not
	 * see the kernel fill it. */
	memset(e->bounce, 0, (size_t)RDT_BOUNCE_COUNT * RDT_BOUNCE_SIZE);
	for (uint32_t i = 0; i < RDT_BOUNCE_COUNT; i++)
		e->bounce_free[i] = e->bounce + (size_t)i * RDT_BOUNCE_SIZE;
	e->bounce_free_count = RDT_BOUNCE_COUNT;
	return 0;
}

void rdt_engine_fini(struct rdt_engine *e)
{
	if (e->loop)
		rd_defer_cancel(e->loop, &e->cancel_defer);
	free(e->bounce);
	e->bounce = NULL;
}
