/* SPDX-License-Identifier: BSD-3-Clause */
/* Backend without storage, to measure everything else: reads return zeroes, writes do nothing. */
#include "backend_types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void null_close(struct rdt_bdev *bdev)
{
	free(bdev);
}

static int null_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->bdev = bdev;
	return 0;
}

static void null_chan_close(struct rdt_chan *chan)
{
	free(chan);
}

static enum rdt_bio_submit null_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	bio->result = chan->bdev->ops_mask & 1u << bio->op ? 0 : -EOPNOTSUPP;
	if (bio->op == RDT_BIO_READ && !(bio->flags & RDT_BIO_BLANK))
		memset(bio->buf, 0, bio->length);
	return RDT_BIO_DONE;
}

static int null_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	if (size)
		bdev->size = size;
	return 0;
}

static int null_share(const struct rdt_bdev *bdev)
{
	return -ENODATA;
}

static const struct rdt_bdev_ops null_ops = {
	.name = "null",
	.close = null_close,
	.chan_open = null_chan_open,
	.chan_close = null_chan_close,
	.submit = null_submit,
	.resize = null_resize,
	.share = null_share,
};

int rdt_null_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size)
{
	struct rdt_bdev *bdev = calloc(1, sizeof(*bdev));

	if (!bdev) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	bdev->ops = &null_ops;
	bdev->size = cfg->size_bytes;
	bdev->block_size = cfg->block_size;
	bdev->read_only = cfg->read_only;
	bdev->ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH;
	if (!cfg->read_only)
		bdev->ops_mask |= 1u << RDT_BIO_WRITE | 1u << RDT_BIO_WRITE_ZEROES |
				  1u << RDT_BIO_DEALLOCATE | RDT_OPS_MARKS;
	bdev->deallocate_zeroes = true;
	bdev->reads_zeroes = true;
	*out = bdev;
	return 0;
}
