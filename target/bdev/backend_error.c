/* SPDX-License-Identifier: BSD-3-Clause */
/* Layer that injects errors: the configuration selects operations, blocks, rate and count. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend_types.h"

struct error {
	struct rdt_bdev bdev;
	uint32_t ops;  /* 1u << enum rdt_bio_op */
	uint64_t from; /* bytes; [from, to) */
	uint64_t to;
	bool everywhere; /* also operations without a block range */
	uint64_t rate;   /* probability as a fraction of 2^32 */
	uint32_t skip;
	uint32_t count; /* 0: no limit */
	int err;
	uint16_t status;
	char *trigger;
	/* counts matching I/Os of all reactors */
	atomic_uint met;
	atomic_uint failed;
};

static struct error *error_of(struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, struct error, bdev);
}

static void error_close(struct rdt_bdev *bdev)
{
	struct error *e = error_of(bdev);

	rdt_bdev_close(&bdev->lower);
	free(e->trigger);
	free(e);
}

static int error_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines,
			   struct rdt_chan **out)
{
	return rdt_layer_chan_open(bdev, engines, sizeof(struct rdt_layer_chan), out);
}

/* Increment unless it is @max. Returns the previous value. */
static unsigned int increment_below(atomic_uint *counter, unsigned int max)
{
	unsigned int n = atomic_load(counter);

	while (n < max && !atomic_compare_exchange_weak(counter, &n, n + 1))
		;
	return n;
}

static bool bio_matches(const struct error *e, const struct rdt_bio *bio)
{
	if (!(e->ops & 1u << bio->op))
		return false;
	if (e->everywhere)
		return true;
	return bio->length && bio->offset < e->to && bio->offset + bio->length > e->from;
}

static bool should_fail(struct error *e, struct rd_loop *loop, const struct rdt_bio *bio)
{
	if (!bio_matches(e, bio) || (e->trigger && access(e->trigger, F_OK)))
		return false;
	if (e->rate <= UINT32_MAX && rd_loop_random32(loop) >= e->rate)
		return false;
	if (increment_below(&e->met, e->skip) < e->skip)
		return false;
	return !e->count || increment_below(&e->failed, e->count) < e->count;
}

static enum rdt_bio_submit error_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rdt_layer_chan *lc = rdt_layer_chan_of(chan);
	struct error *e = error_of(chan->bdev);

	if (!should_fail(e, lc->loop, bio))
		return rdt_layer_submit(lc, bio);
	bio->result = -e->err;
	bio->status = e->status;
	if (bio->op == RDT_BIO_FLUSH || bio->flags & RDT_BIO_FUA)
		bio->result = rdt_bdev_sync_error(chan->bdev, rd_loop_log(lc->loop),
						  "layer of type error", bio->result,
						  bio->op != RDT_BIO_FLUSH);
	return RDT_BIO_DONE;
}

static const struct rdt_bdev_ops error_ops = {
	.name = "error",
	.close = error_close,
	.chan_open = error_chan_open,
	.chan_close = rdt_layer_chan_close,
	.submit = error_submit,
	.cancel = rdt_layer_cancel,
	.resize = rdt_layer_resize,
	.opened = rdt_layer_opened,
};

int rdt_error_open(const struct rdt_layer_config *cfg, struct rdt_bdev *lower,
		   struct rdt_bdev **out)
{
	struct error *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	if (cfg->trigger) {
		e->trigger = strdup(cfg->trigger);
		if (!e->trigger) {
			free(e);
			return -ENOMEM;
		}
	}
	e->ops = cfg->ops_mask;
	e->everywhere = !cfg->blocks;
	e->from = cfg->first_block * lower->block_size;
	e->to = e->from + cfg->blocks * lower->block_size;
	e->rate = cfg->rate_of_2_32;
	e->skip = cfg->skip;
	e->count = cfg->count;
	e->err = cfg->errno_value;
	e->status = (uint16_t)cfg->status;
	rdt_layer_init(&e->bdev, &error_ops, lower);
	/* Make hosts send Flush only if it is listed, not if all operations fail by default,
	 * because a failed Flush is permanent. */
	if (cfg->ops_count && e->ops & 1u << RDT_BIO_FLUSH)
		rdt_layer_needs_flush(&e->bdev);
	*out = &e->bdev;
	return 0;
}
