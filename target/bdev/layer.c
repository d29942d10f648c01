/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend_types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

void rdt_layer_init(struct rdt_bdev *layer, const struct rdt_bdev_ops *ops, struct rdt_bdev *lower)
{
	*layer = *lower;
	layer->ops = ops;
	layer->lower = lower;
}

void rdt_layer_needs_flush(struct rdt_bdev *layer)
{
	layer->volatile_cache = true;
	layer->ops_mask |= 1u << RDT_BIO_FLUSH;
}

enum rdt_bio_submit rdt_layer_submit(const struct rdt_layer_chan *lc, struct rdt_bio *bio)
{
	if (bio->op != RDT_BIO_FLUSH || lc->lower->bdev->ops_mask & 1u << RDT_BIO_FLUSH)
		return rdt_chan_submit(lc->lower, bio);
	bio->result = 0;
	return RDT_BIO_DONE;
}

int rdt_layer_opened(struct rdt_bdev *bdev, char *err, size_t err_size)
{
	int rc = rdt_bdev_opened(bdev->lower, err, err_size);
	bool cached = rdt_bdev_has_cache(bdev);

	if (!rc)
		rdt_layer_init(bdev, bdev->ops, bdev->lower);
	if (!rc && cached)
		rdt_layer_needs_flush(bdev);
	return rc;
}

int rdt_layer_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, size_t size,
			struct rdt_chan **out)
{
	struct rdt_layer_chan *lc = calloc(1, size);
	int rc;

	*out = NULL;
	if (!lc)
		return -ENOMEM;
	lc->chan.bdev = bdev;
	lc->loop = rdt_engines_loop(engines);
	rc = rdt_chan_open(bdev->lower, engines, &lc->lower);
	if (rc)
		free(lc);
	else
		*out = &lc->chan;
	return rc;
}

void rdt_layer_chan_close(struct rdt_chan *chan)
{
	struct rdt_layer_chan *lc = rdt_layer_chan_of(chan);

	rdt_chan_close(&lc->lower);
	free(lc);
}

int rdt_layer_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	int rc = rdt_bdev_take_size(bdev->lower, size, err, err_size);

	bdev->size = bdev->lower->size;
	return rc;
}

void rdt_layer_cancel(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rdt_chan *lower = rdt_layer_chan_of(chan)->lower;

	if (lower->bdev->ops->cancel)
		lower->bdev->ops->cancel(lower, bio);
}

/* The first layer in the list becomes the top, so it is stacked last. */
int rdt_layers_open(const struct rdt_ns_config *cfg, struct rdt_bdev **bdev)
{
	struct rdt_bdev *top = *bdev;
	int rc = 0;

	for (uint32_t i = cfg->layers_count; i-- > 0 && !rc;) {
		const struct rdt_layer_config *layer = &cfg->layers[i];

		if (layer->type == RDT_LAYER_DELAY)
			rc = rdt_delay_open(layer, top, &top);
		else
			rc = rdt_error_open(layer, top, &top);
	}
	*bdev = top; /* on failure, closing the top closes everything below */
	return rc;
}
