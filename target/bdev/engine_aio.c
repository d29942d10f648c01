/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aio engine: Linux AIO, for systems that forbid io_uring. It is asynchronous for O_DIRECT on
 * common local file systems. For buffered I/O, and where a file system looks up or allocates
 * blocks, io_submit(2) itself blocks. There is no cancellation and no fallocate.
 */
#include "engine_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <libaio.h>

#define REAP_BATCH 64
#define RETRY_NS   RD_NSEC_PER_MSEC

struct aio {
	struct rdt_engine engine;
	io_context_t ctx;
	bool ctx_ok;
	int event_fd;
	struct rd_io io;
	struct rd_poller poller;
	struct rd_defer flush;
	struct rd_timer retry; /* armed when the kernel accepted only a part of the batch */
	struct iocb *iocbs;    /* [depth] */
	uint32_t *free_slots;
	uint32_t free_count;
	struct iocb **batch; /* prepared in this turn, in order */
	uint32_t batch_count;
};

static struct aio *aio_of(struct rdt_engine *engine)
{
	return rd_container_of(engine, struct aio, engine);
}

/* ---- submission ---- */

static void complete_iocb(struct aio *a, struct iocb *iocb, int64_t res)
{
	a->free_slots[a->free_count++] = (uint32_t)(iocb - a->iocbs);
	rdt_engine_complete(&a->engine, rdt_bio_of(iocb->data), res);
}

static void drop_from_batch(struct aio *a, uint32_t count)
{
	a->batch_count -= count;
	memmove(a->batch, a->batch + count, a->batch_count * sizeof(*a->batch));
}

static void flush_aio(struct aio *a)
{
	bool failed = false;
	struct iocb *first;
	int rc;

	while (a->batch_count) {
		rc = io_submit(a->ctx, (long)a->batch_count, a->batch);
		if (rc > 0) {
			drop_from_batch(a, (uint32_t)rc);
		} else if (rc == -EINTR) {
			continue;
		} else if (rc == 0 || rc == -EAGAIN) {
			rd_timer_start(a->engine.loop, &a->retry, RETRY_NS);
			break;
		} else {
			/* The kernel refused the first one; the following ones may be valid. */
			first = a->batch[0];
			drop_from_batch(a, 1);
			complete_iocb(a, first, rc);
			failed = true;
		}
	}
	if (failed)
		rdt_engine_pump(&a->engine);
}

static void flush_aio_deferred(struct rd_defer *defer)
{
	flush_aio(rd_container_of(defer, struct aio, flush));
}

static void flush_aio_again(struct rd_timer *timer)
{
	flush_aio(rd_container_of(timer, struct aio, retry));
}

static bool aio_start(struct rdt_engine *engine, struct rdt_bio *bio)
{
	struct aio *a = aio_of(engine);
	struct rdt_fio *fio = rdt_fio(bio);
	long long offset = (long long)(bio->offset + fio->moved);
	struct iocb *iocb;

	if (!a->free_count)
		return false;
	fio->slot = a->free_slots[--a->free_count];
	iocb = &a->iocbs[fio->slot];
	if (fio->step == RDT_FIO_SYNC) {
		io_prep_fdsync(iocb, fio->chan->fd);
	} else if (bio->op == RDT_BIO_READ) {
		io_prep_pread(iocb, fio->chan->fd, rdt_fio_buf(bio), fio->piece, offset);
	} else {
		io_prep_pwrite(iocb, fio->chan->fd, rdt_fio_buf(bio), fio->piece, offset);
		if (rdt_fio_wants_dsync(bio, fio->chan))
			iocb->aio_rw_flags = RWF_DSYNC;
	}
	io_set_eventfd(iocb, a->event_fd);
	iocb->data = bio;
	a->batch[a->batch_count++] = iocb;
	rd_defer(engine->loop, &a->flush, RD_DEFER_FLUSH);
	return true;
}

/* ---- completion ---- */

static bool reap_aio(struct aio *a)
{
	struct io_event events[REAP_BATCH];
	struct timespec zero = {0};
	bool found = false;
	int n;

	do {
		/* libaio checks the shared ring first, so an empty one costs no system call. */
		n = io_getevents(a->ctx, 0, REAP_BATCH, events, &zero);
		for (int i = 0; i < n; i++) {
			complete_iocb(a, events[i].obj, (int64_t)events[i].res);
			found = true;
		}
	} while (n == REAP_BATCH);
	if (found)
		rdt_engine_pump(&a->engine);
	return found;
}

static bool poll_aio_ring(struct rd_poller *poller)
{
	struct aio *a = rd_container_of(poller, struct aio, poller);

	return a->engine.in_kernel > a->batch_count && reap_aio(a);
}

static void event_readable(struct rd_io *io, uint32_t events)
{
	struct aio *a = rd_container_of(io, struct aio, io);
	uint64_t count;

	/* EAGAIN is impossible: the loop has just reported it readable, and nobody else reads
	 * it. */
	if (read(a->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		rd_err(a->engine.log, RD_LOG_BACKEND, "aio: eventfd: %s", strerror(errno));
	reap_aio(a);
}

/* ---- construction ---- */

static void aio_destroy(struct rdt_engine *engine)
{
	struct aio *a = aio_of(engine);

	rd_io_del(engine->loop, &a->io);
	rd_poller_del(engine->loop, &a->poller);
	rd_defer_cancel(engine->loop, &a->flush);
	rd_timer_stop(engine->loop, &a->retry);
	if (a->ctx_ok)
		io_destroy(a->ctx);
	if (a->event_fd >= 0)
		close(a->event_fd);
	free(a->iocbs);
	free(a->free_slots);
	free(a->batch);
	rdt_engine_fini(engine);
	free(a);
}

static const struct rdt_engine_ops aio_ops = {
	.name = "aio",
	.start = aio_start,
	.destroy = aio_destroy,
};

static int alloc_slots(struct aio *a)
{
	uint32_t depth = a->engine.depth;

	a->iocbs = calloc(depth, sizeof(*a->iocbs));
	a->free_slots = calloc(depth, sizeof(*a->free_slots));
	a->batch = calloc(depth, sizeof(struct iocb *));
	if (!a->iocbs || !a->free_slots || !a->batch)
		return -ENOMEM;
	for (uint32_t i = 0; i < depth; i++)
		a->free_slots[a->free_count++] = depth - 1 - i;
	return 0;
}

static void explain_aio_setup(int rc, char *err, size_t err_size)
{
	if (rc == -EAGAIN)
		snprintf(err, err_size,
			 "aio: the system's limit of asynchronous I/Os is used up; raise "
			 "/proc/sys/fs/aio-max-nr or lower engine_depth");
	else
		snprintf(err, err_size, "aio: %s", strerror(-rc));
}

int rdt_aio_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		   size_t err_size)
{
	struct aio *a = calloc(1, sizeof(*a));
	int rc = -ENOMEM;

	*out = NULL;
	if (!a)
		goto err_explain;
	a->event_fd = -1;
	a->flush.fn = flush_aio_deferred;
	a->retry.fn = flush_aio_again;
	a->poller.fn = poll_aio_ring;
	rc = rdt_engine_init(&a->engine, &aio_ops, opts);
	if (!rc)
		rc = alloc_slots(a);
	if (rc)
		goto err_free;
	rc = io_setup((int)opts->depth, &a->ctx);
	if (rc)
		goto err_free;
	a->ctx_ok = true;
	a->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->event_fd < 0) {
		rc = -errno;
		goto err_free;
	}
	rc = rd_io_add(opts->loop, &a->io, a->event_fd, EPOLLIN, event_readable);
	if (rc)
		goto err_free;
	rd_poller_add(opts->loop, &a->poller);
	*out = &a->engine;
	return 0;

err_free:
	aio_destroy(&a->engine);
err_explain:
	explain_aio_setup(rc, err, err_size);
	return rc;
}
