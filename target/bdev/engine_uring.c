/* SPDX-License-Identifier: BSD-3-Clause */
/* The io_uring engine: one ring for each reactor. */
#include "engine_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include "ring.h"

#define REAP_BATCH   64
#define REAP_AT_ONCE 2u /* see flush_uring_deferred() */
#define RETRY_NS     RD_NSEC_PER_MSEC

/*
 * The second ring, for namespaces with "iopoll": the thread polls the device for its completions
 * instead of waiting for interrupts.
 */
struct iopoll {
	struct rdt_ring ring; /* created when the first namespace uses it */
	uint32_t out;         /* I/Os in flight on it */
};

struct uring {
	struct rdt_engine engine;
	struct rdt_ring ring;
	struct iopoll poll;
	struct rd_io io;
	struct rd_poller poller;
	struct rd_defer flush;
	struct rd_timer retry; /* armed when the kernel did not accept all entries */
};

static struct uring *uring_of(struct rdt_engine *engine)
{
	return rd_container_of(engine, struct uring, engine);
}

/* ---- submission ---- */

static void flush_ring(struct uring *u, struct rdt_ring *ring)
{
	int rc;

	if (!io_uring_sq_ready(&ring->io))
		return;
	rc = rdt_ring_submit(ring);
	if (rc == 0)
		return;
	/* Out of memory, or completions must be reaped first: retried after that. */
	if (rc != -EAGAIN && rc != -EBUSY)
		rd_log_limited(&u->engine.rl, rd_loop_now(u->engine.loop), u->engine.log,
			       RD_LOG_BACKEND, RD_LOG_ERROR,
			       "io_uring_enter: %s; retried every millisecond; I/O waits until it "
			       "succeeds",
			       strerror(-rc));
	rd_timer_start(u->engine.loop, &u->retry, RETRY_NS);
}

static void flush_uring(struct uring *u)
{
	flush_ring(u, &u->ring);
	if (u->poll.ring.made)
		flush_ring(u, &u->poll.ring);
}

static void flush_uring_again(struct rd_timer *timer)
{
	struct uring *u = rd_container_of(timer, struct uring, retry);

	flush_uring(u);
	rdt_engine_pump(&u->engine);
}

static struct io_uring_sqe *get_sqe(struct uring *u, struct rdt_ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->io);

	if (!sqe) {
		flush_ring(u, ring);
		sqe = io_uring_get_sqe(&ring->io);
	}
	if (sqe)
		rd_defer(u->engine.loop, &u->flush, RD_DEFER_FLUSH);
	return sqe;
}

/*
 * RWF_NOWAIT: I/O that would block ends with -EAGAIN, and goes to the threads of its device.
 * Without it, io_uring would use threads that all devices share, or block the reactor: a read from
 * a file waits for a free request of a disk that hangs.
 */
static void prep_transfer(const struct rdt_ring *ring, struct io_uring_sqe *sqe, int fd,
			  struct rdt_bio *bio)
{
	struct rdt_fio *fio = rdt_fio(bio);
	uint64_t offset = bio->offset + fio->moved;
	unsigned int len = fio->piece;
	void *buf = rdt_fio_buf(bio);
	int index = rdt_ring_buffer(ring, buf, len);

	if (bio->op == RDT_BIO_READ) {
		if (index >= 0)
			io_uring_prep_read_fixed(sqe, fd, buf, len, offset, index);
		else
			io_uring_prep_read(sqe, fd, buf, len, offset);
		sqe->rw_flags = RWF_NOWAIT;
		return;
	}
	if (index >= 0)
		io_uring_prep_write_fixed(sqe, fd, buf, len, offset, index);
	else
		io_uring_prep_write(sqe, fd, buf, len, offset);
	sqe->rw_flags = RWF_NOWAIT | (fio->dsync ? RWF_DSYNC : 0);
}

/*
 * Files are not registered with the ring: Linux 6.1 releases a registered file up to a second after
 * its removal, and only after all I/O in flight on the ring, of whatever file. A removed namespace
 * must release its file.
 */
static bool uring_start(struct rdt_engine *engine, struct rdt_bio *bio)
{
	struct uring *u = uring_of(engine);
	struct rdt_fio *fio = rdt_fio(bio);
	/* A durable write may need further work in the kernel, which is not polled for. */
	bool polled = fio->piece <= fio->chan->poll_max && !fio->dsync;
	struct rdt_ring *ring = polled ? &u->poll.ring : &u->ring;
	struct io_uring_sqe *sqe = get_sqe(u, ring);

	if (!sqe)
		return false;
	fio->polled = polled;
	u->poll.out += polled;
	prep_transfer(ring, sqe, fio->chan->fd, bio);
	io_uring_sqe_set_data(sqe, bio);
	/* With SQPOLL, submitting needs no system call: let the kernel start at once. */
	if (ring->sqpoll && !rd_timer_armed(&u->retry))
		flush_ring(u, ring);
	return true;
}

static void uring_cancel(struct rdt_engine *engine, struct rdt_bio *bio)
{
	struct uring *u = uring_of(engine);
	/* Polled I/O cannot be cancelled, and completes soon. */
	struct io_uring_sqe *sqe = rdt_fio(bio)->polled ? NULL : get_sqe(u, &u->ring);

	if (!sqe)
		return; /* the bio completes by itself */
	io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)bio, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

/* ---- completion ---- */

static bool has_completions(struct uring *u)
{
	return io_uring_cq_ready(&u->ring.io) || (IO_URING_READ_ONCE(*u->ring.io.sq.kflags) &
						  (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW));
}

/* An I/O on the IOPOLL ring has ended. Returns @res, or -EINTR to retry it on the other ring. */
static int polled_result(struct uring *u, struct rdt_fchan *chan, int res)
{
	u->poll.out--;
	if (res != -EOPNOTSUPP)
		return res;
	if (chan->poll_max)
		rd_warn(u->engine.log, RD_LOG_BACKEND,
			"%s: iopoll: its file system does not support polling: using interrupts",
			chan->path);
	chan->poll_max = 0;
	return -EINTR;
}

static void complete_cqe(struct uring *u, struct rdt_bio *bio, int res)
{
	const struct rdt_fio *fio = rdt_fio(bio);

	if (fio->polled)
		res = polled_result(u, fio->chan, res);
	rdt_engine_complete(&u->engine, bio, res);
}

static bool reap_ring(struct uring *u, struct rdt_ring *ring)
{
	struct io_uring_cqe *cqes[REAP_BATCH];
	bool found = false;
	unsigned int n;

	do {
		n = io_uring_peek_batch_cqe(&ring->io, cqes, REAP_BATCH);
		for (unsigned int i = 0; i < n; i++) {
			void *token = io_uring_cqe_get_data(cqes[i]);
			int res = cqes[i]->res;

			/* Callbacks may submit to the ring: return the entry first. */
			io_uring_cqe_seen(&ring->io, cqes[i]);
			if (token)
				complete_cqe(u, rdt_bio_of(token), res);
			found = true;
		}
	} while (n == REAP_BATCH);
	if (found)
		rdt_engine_pump(&u->engine);
	return found;
}

static bool reap_uring(struct uring *u)
{
	return reap_ring(u, &u->ring);
}

/*
 * Reads from the page cache complete during submission. If these few are all that is in flight,
 * complete them in this loop iteration. A larger batch completes in the next one, together with the
 * completions of capsules received meanwhile.
 */
static void flush_uring_deferred(struct rd_defer *defer)
{
	struct uring *u = rd_container_of(defer, struct uring, flush);
	unsigned int done;

	flush_uring(u);
	done = io_uring_cq_ready(&u->ring.io);
	if (done && done <= REAP_AT_ONCE && done >= u->engine.in_kernel)
		reap_uring(u);
}

/* ---- in each loop iteration ---- */

static bool poll_uring(struct rd_poller *poller)
{
	struct uring *u = rd_container_of(poller, struct uring, poller);
	bool found = false;

	if (u->poll.out) {
		rdt_ring_poll(&u->poll.ring);
		found = reap_ring(u, &u->poll.ring);
	}
	return (has_completions(u) && reap_uring(u)) || found;
}

/* Polled I/O raises no interrupt, so the loop must not sleep while some is in flight. */
static bool has_polled_io(struct rd_poller *poller)
{
	return rd_container_of(poller, struct uring, poller)->poll.out;
}

static void ring_readable(struct rd_io *io, uint32_t events)
{
	struct uring *u = rd_container_of(io, struct uring, io);

	reap_uring(u);
}

static int make_iopoll_ring(struct uring *u)
{
	const struct rdt_ring_opts opts = {.iopoll = true};
	unsigned int depth = u->engine.depth;
	int rc;

	if (u->poll.ring.made)
		return 0;
	rc = rdt_ring_init(&u->poll.ring, u->engine.log, &opts, &depth);
	if (!rc && u->ring.memory)
		rdt_ring_add_memory(&u->poll.ring, u->ring.memory, u->ring.memory_len);
	return rc;
}

/* Creates the second ring if the namespace of @chan has iopoll; without it, uses the first. */
static void uring_add_file(struct rdt_engine *engine, struct rdt_fchan *chan)
{
	int rc = chan->poll_max ? make_iopoll_ring(uring_of(engine)) : 0;

	if (!rc)
		return;
	rd_warn(engine->log, RD_LOG_BACKEND,
		"%s: iopoll: cannot create a ring to poll: %s: using interrupts", chan->path,
		strerror(-rc));
	chan->poll_max = 0;
}

/* ---- construction ---- */

static void uring_destroy(struct rdt_engine *engine)
{
	struct uring *u = uring_of(engine);

	rd_io_del(engine->loop, &u->io);
	rd_poller_del(engine->loop, &u->poller);
	rd_defer_cancel(engine->loop, &u->flush);
	rd_timer_stop(engine->loop, &u->retry);
	rdt_ring_fini(&u->ring);
	rdt_ring_fini(&u->poll.ring);
	rdt_engine_fini(engine);
	free(u);
}

static const struct rdt_engine_ops uring_ops = {
	.name = "io_uring",
	.start = uring_start,
	.cancel = uring_cancel,
	.add_file = uring_add_file,
	.destroy = uring_destroy,
};

static void explain_uring_setup(int rc, char *err, size_t err_size)
{
	if (rc == -EPERM || rc == -EACCES)
		snprintf(err, err_size,
			 "io_uring is forbidden here (%s; see /proc/sys/kernel/io_uring_disabled "
			 "and the container's seccomp profile); use \"engine: aio\" or \"auto\"",
			 strerror(-rc));
	else if (rc == -ENOSYS)
		snprintf(err, err_size,
			 "this kernel has no io_uring; use \"engine: aio\" or \"auto\"");
	else if (rc == -ENOMEM)
		snprintf(err, err_size,
			 "io_uring: out of memory or over the memlock limit (ulimit -l); lower "
			 "engine_depth, raise the limit, or use \"engine: aio\"");
	else
		snprintf(err, err_size, "io_uring: %s; use \"engine: aio\"", strerror(-rc));
}

int rdt_uring_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		     size_t err_size)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc = -ENOMEM;

	*out = NULL;
	if (!u)
		goto err_explain;
	u->flush.fn = flush_uring_deferred;
	u->retry.fn = flush_uring_again;
	u->poller.fn = poll_uring;
	u->poller.arm = has_polled_io;
	rc = rdt_engine_init(&u->engine, &uring_ops, opts);
	if (rc)
		goto err_free;
	rc = rdt_ring_init(&u->ring, u->engine.log, &opts->ring, &u->engine.depth);
	if (rc)
		goto err_free;
	rc = rd_io_add(opts->loop, &u->io, u->ring.io.ring_fd, EPOLLIN, ring_readable);
	if (rc)
		goto err_free;
	rd_poller_add(opts->loop, &u->poller);
	if (opts->slab && opts->slab_len)
		rdt_ring_add_memory(&u->ring, opts->slab, opts->slab_len);
	*out = &u->engine;
	return 0;

err_free:
	uring_destroy(&u->engine);
err_explain:
	explain_uring_setup(rc, err, err_size);
	return rc;
}
