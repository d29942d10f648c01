/* SPDX-License-Identifier: BSD-3-Clause */
#include "discard.h"
#include "bio_post.h"

#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

struct rdt_discard {
	int fd;
	struct rd_log *log;
	struct rd_loop *loop; /* of the discard thread */
	pthread_t thread;
};

/* In rdt_bio.priv. */
struct discard_bio {
	struct rdt_bio_post post;
	struct rdt_discard *discard;
	atomic_bool canceled;
};
_Static_assert(sizeof(struct discard_bio) <= sizeof(((struct rdt_bio *)0)->priv), "discard");

static void discard_msg(struct rd_msg *msg)
{
	struct rdt_bio *bio = rdt_bio_of_post(msg);
	struct discard_bio *db = (void *)bio->priv;
	uint64_t range[2] = {bio->offset, bio->length};

	bio->result = 0;
	if (atomic_load(&db->canceled))
		bio->result = -ECANCELED;
	else if (ioctl(db->discard->fd, BLKDISCARD, range) < 0)
		bio->result = -errno;
	rdt_bio_post_done(bio);
}

void rdt_discard_submit(struct rdt_discard *d, struct rd_loop *loop, struct rdt_bio *bio)
{
	struct discard_bio *db = (void *)bio->priv;

	db->post.msg.fn = discard_msg;
	db->discard = d;
	db->post.home = loop;
	atomic_init(&db->canceled, false);
	rd_loop_post(d->loop, &db->post.msg);
}

void rdt_discard_cancel(struct rdt_bio *bio)
{
	struct discard_bio *db = (void *)bio->priv;

	atomic_store(&db->canceled, true);
}

static void *discard_thread(void *arg)
{
	struct rdt_discard *d = arg;
	int err = rd_loop_run(d->loop);

	if (err)
		rd_err(d->log, RD_LOG_BACKEND, "the thread for discards stopped: %s",
		       strerror(-err));
	return NULL;
}

int rdt_discard_start(int fd, struct rd_log *log, struct rdt_discard **out)
{
	const struct rd_loop_opts opts = {.log = log};
	struct rdt_discard *d = calloc(1, sizeof(*d));
	int rc;

	*out = NULL;
	if (!d)
		return -ENOMEM;
	d->fd = fd;
	d->log = log;
	rc = rd_loop_create(&opts, &d->loop);
	if (rc)
		goto err_free;
	rc = -pthread_create(&d->thread, NULL, discard_thread, d);
	if (rc)
		goto err_loop;
	pthread_setname_np(d->thread, "discard");
	*out = d;
	return 0;

err_loop:
	rd_loop_destroy(&d->loop);
err_free:
	free(d);
	return rc;
}

void rdt_discard_stop(struct rdt_discard **discard)
{
	struct rdt_discard *d = *discard;

	if (!d)
		return;
	rd_loop_stop(d->loop);
	pthread_join(d->thread, NULL);
	rd_loop_destroy(&d->loop);
	free(d);
	*discard = NULL;
}
