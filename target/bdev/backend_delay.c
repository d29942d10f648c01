/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer that delays each I/O before it goes to the backend below, to simulate a slow disk. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend_types.h"

struct delay {
	struct rdt_bdev bdev;
	uint64_t ns[RDT_BIO_OPS];
};

/* In rdt_bio.priv until the bio is submitted to the channel below, which then uses that area
 * itself. */
struct delay_bio {
	struct rd_timer timer;
	struct rdt_layer_chan *lc;
};
_Static_assert(sizeof(struct delay_bio) <= sizeof(((struct rdt_bio *)0)->priv), "delay state");

static struct rdt_bio *delayed_bio_of(struct delay_bio *db)
{
	return rd_container_of(db, struct rdt_bio, priv);
}

static void delay_close(struct rdt_bdev *bdev)
{
	rdt_bdev_close(&bdev->lower);
	free(rd_container_of(bdev, struct delay, bdev));
}

static int delay_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines,
			   struct rdt_chan **out)
{
	return rdt_layer_chan_open(bdev, engines, sizeof(struct rdt_layer_chan), out);
}

static void delay_over(struct rd_timer *timer)
{
	struct delay_bio *db = rd_container_of(timer, struct delay_bio, timer);
	const struct rdt_layer_chan *lc = db->lc;
	struct rdt_bio *bio = delayed_bio_of(db);

	bio->queued_at = NULL;
	if (rdt_layer_submit(lc, bio) == RDT_BIO_DONE)
		bio->done(bio);
}

static void delay_canceled(struct rd_timer *timer)
{
	struct delay_bio *db = rd_container_of(timer, struct delay_bio, timer);
	struct rdt_bio *bio = delayed_bio_of(db);

	bio->queued_at = NULL;
	bio->result = -ECANCELED;
	bio->done(bio);
}

static enum rdt_bio_submit delay_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	const struct delay *d = rd_container_of(chan->bdev, struct delay, bdev);
	struct rdt_layer_chan *lc = rdt_layer_chan_of(chan);
	struct delay_bio *db = (void *)bio->priv;

	if (!d->ns[bio->op])
		return rdt_layer_submit(lc, bio);
	memset(db, 0, sizeof(*db));
	db->lc = lc;
	db->timer.fn = delay_over;
	if (rd_timer_start(lc->loop, &db->timer, d->ns[bio->op])) {
		bio->result = -ENOMEM;
		return RDT_BIO_DONE;
	}
	bio->queued_at = chan;
	return RDT_BIO_QUEUED;
}

static void delay_cancel(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct delay_bio *db = (void *)bio->priv;

	if (bio->queued_at != chan) {
		rdt_layer_cancel(chan, bio);
		return;
	}
	db->timer.fn = delay_canceled;
	/* The timer is armed, so restarting it cannot fail */
	rd_timer_start(db->lc->loop, &db->timer, 0);
}

static const struct rdt_bdev_ops delay_ops = {
	.name = "delay",
	.close = delay_close,
	.chan_open = delay_chan_open,
	.chan_close = rdt_layer_chan_close,
	.submit = delay_submit,
	.cancel = delay_cancel,
	.resize = rdt_layer_resize,
	.opened = rdt_layer_opened,
};

int rdt_delay_open(const struct rdt_layer_config *cfg, struct rdt_bdev *lower,
		   struct rdt_bdev **out)
{
	struct delay *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	memcpy(d->ns, cfg->delay_ns, sizeof(d->ns));
	rdt_layer_init(&d->bdev, &delay_ops, lower);
	if (d->ns[RDT_BIO_FLUSH])
		rdt_layer_needs_flush(&d->bdev);
	*out = &d->bdev;
	return 0;
}
