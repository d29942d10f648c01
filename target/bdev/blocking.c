/* SPDX-License-Identifier: BSD-3-Clause */
#include "blocking.h"
#include "bio_post.h"

#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct rdt_blocking {
	int fd;
	struct rd_log *log;
	struct rd_loop *loop; /* of the thread */
	pthread_t thread;
};

/* In rdt_bio.priv. */
struct blocking_bio {
	struct rdt_bio_post post;
	struct rdt_blocking *blocking;
	atomic_bool canceled;
};
_Static_assert(sizeof(struct blocking_bio) <= sizeof(((struct rdt_bio *)0)->priv), "blocking");

static int find_extents(int fd, const struct rdt_bio *bio)
{
	struct rdt_extents *ex = bio->buf;
	uint64_t end = bio->offset + bio->length, at = bio->offset;
	off_t data, hole;

	ex->count = 0;
	ex->upto = end;
	while (at < end) {
		data = lseek(fd, (off_t)at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			return 0; /* no data up to the end of the file */
		if (data < 0)
			return -errno;
		if ((uint64_t)data >= end)
			return 0;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if ((uint64_t)hole > end || hole <= data)
			hole = (off_t)end;
		if (!rdt_extents_add(ex, (uint64_t)data, (uint64_t)hole))
			return 0;
		at = (uint64_t)hole;
	}
	return 0;
}

static void blocking_msg(struct rd_msg *msg)
{
	struct rdt_bio *bio = rdt_bio_of_post(msg);
	struct blocking_bio *db = (void *)bio->priv;
	uint64_t range[2] = {bio->offset, bio->length};

	bio->result = 0;
	if (atomic_load(&db->canceled))
		bio->result = -ECANCELED;
	else if (bio->op == RDT_BIO_EXTENTS)
		bio->result = find_extents(db->blocking->fd, bio);
	else if (ioctl(db->blocking->fd, BLKDISCARD, range) < 0)
		bio->result = -errno;
	rdt_bio_post_done(bio);
}

void rdt_blocking_submit(struct rdt_blocking *d, struct rd_loop *loop, struct rdt_bio *bio)
{
	struct blocking_bio *db = (void *)bio->priv;

	db->post.msg.fn = blocking_msg;
	db->blocking = d;
	db->post.home = loop;
	atomic_init(&db->canceled, false);
	rd_loop_post(d->loop, &db->post.msg);
}

void rdt_blocking_cancel(struct rdt_bio *bio)
{
	struct blocking_bio *db = (void *)bio->priv;

	atomic_store(&db->canceled, true);
}

static void *blocking_thread(void *arg)
{
	struct rdt_blocking *d = arg;
	int err;

	pthread_setname_np(pthread_self(), "blocking");
	err = rd_loop_run(d->loop);
	if (err)
		rd_err(d->log, RD_LOG_BACKEND, "the thread for blocking calls stopped: %s",
		       strerror(-err));
	return NULL;
}

int rdt_blocking_start(int fd, struct rd_log *log, struct rdt_blocking **out)
{
	const struct rd_loop_opts opts = {.log = log};
	struct rdt_blocking *d = calloc(1, sizeof(*d));
	int rc;

	*out = NULL;
	if (!d)
		return -ENOMEM;
	d->fd = fd;
	d->log = log;
	rc = rd_loop_create(&opts, &d->loop);
	if (rc)
		goto err_free;
	rc = -pthread_create(&d->thread, NULL, blocking_thread, d);
	if (rc)
		goto err_loop;
	*out = d;
	return 0;

err_loop:
	rd_loop_destroy(&d->loop);
err_free:
	free(d);
	return rc;
}

void rdt_blocking_stop(struct rdt_blocking **blocking)
{
	struct rdt_blocking *d = *blocking;

	if (!d)
		return;
	rd_loop_stop(d->loop);
	pthread_join(d->thread, NULL);
	rd_loop_destroy(&d->loop);
	free(d);
	*blocking = NULL;
}
