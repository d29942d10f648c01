/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aio engine, for systems that forbid io_uring: threads of each device make the system calls.
 * Linux AIO is not used, because io_submit(2) blocks while it looks up or allocates blocks, while a
 * file system is frozen, and while a disk has no free request. The reactor itself reads only from
 * the page cache.
 */
#include "engine_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

struct aio {
	struct rdt_engine engine;
	struct rdt_bio_queue read; /* completed reads */
	struct rd_defer complete;
};

static struct aio *aio_of(struct rdt_engine *engine)
{
	return rd_container_of(engine, struct aio, engine);
}

/* Reads from the page cache: aio_add_file() assigns all other I/O to threads. */
static bool aio_start(struct rdt_engine *engine, struct rdt_bio *bio)
{
	const struct rdt_fio *fio = rdt_fio(bio);
	struct iovec iov = {.iov_base = rdt_fio_buf(bio), .iov_len = fio->piece};
	ssize_t n = preadv2(fio->chan->fd, &iov, 1, (off_t)(bio->offset + fio->moved), RWF_NOWAIT);

	bio->result = n < 0 ? -errno : (int)n;
	TAILQ_INSERT_TAIL(&aio_of(engine)->read, bio, link);
	rd_defer(engine->loop, &aio_of(engine)->complete, RD_DEFER_WORK);
	return true;
}

static void complete_read(struct rd_defer *defer)
{
	struct aio *a = rd_container_of(defer, struct aio, complete);
	struct rdt_bio_queue read = TAILQ_HEAD_INITIALIZER(read);
	struct rdt_bio *bio;

	TAILQ_CONCAT(&read, &a->read, link);
	while ((bio = TAILQ_FIRST(&read))) {
		TAILQ_REMOVE(&read, bio, link);
		rdt_engine_complete(&a->engine, bio, bio->result);
	}
	rdt_engine_pump(&a->engine);
}

static void aio_add_file(struct rdt_engine *engine, struct rdt_fchan *chan)
{
	chan->blocks[0] = chan->direct;
	chan->blocks[1] = true;
}

static void aio_destroy(struct rdt_engine *engine)
{
	rd_defer_cancel(engine->loop, &aio_of(engine)->complete);
	rdt_engine_fini(engine);
	free(aio_of(engine));
}

static const struct rdt_engine_ops aio_ops = {
	.name = "aio",
	.start = aio_start,
	.add_file = aio_add_file,
	.destroy = aio_destroy,
};

int rdt_aio_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		   size_t err_size)
{
	struct aio *a = calloc(1, sizeof(*a));
	int rc = a ? rdt_engine_init(&a->engine, &aio_ops, opts) : -ENOMEM;

	*out = NULL;
	if (rc) {
		snprintf(err, err_size, "aio: out of memory");
		free(a);
		return rc;
	}
	TAILQ_INIT(&a->read);
	a->complete.fn = complete_read;
	*out = &a->engine;
	return 0;
}
