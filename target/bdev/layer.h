/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers: backends that stack on another one and delay or fail what passes. */
#ifndef RDT_LAYER_H
#define RDT_LAYER_H

#include "backend.h"
#include "target/config/config.h"

/* A layer's face on one reactor. */
struct rdt_layer_chan {
	struct rdt_chan chan;
	struct rdt_chan *lower; /* owned */
	struct rd_loop *loop;
};

static inline struct rdt_layer_chan *rdt_layer_chan_of(struct rdt_chan *chan)
{
	return rd_container_of(chan, struct rdt_layer_chan, chan);
}

/* Look like what is below. */
void rdt_layer_init(struct rdt_bdev *layer, const struct rdt_bdev_ops *ops, struct rdt_bdev *lower);
/* As chan_open and chan_close: @size bytes, zeroed, with a struct rdt_layer_chan at their start. */
int rdt_layer_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, size_t size,
			struct rdt_chan **out);
void rdt_layer_chan_close(struct rdt_chan *chan);
int rdt_layer_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);
void rdt_layer_cancel(struct rdt_chan *chan, struct rdt_bio *bio); /* passes it down */

/* Put the layers of @cfg on *@bdev, which is the top one afterwards, also on failure: -ENOMEM. */
int rdt_layers_open(const struct rdt_ns_config *cfg, struct rdt_bdev **bdev);

bool rdt_layers_same(const struct rdt_ns_config *a, const struct rdt_ns_config *b);

/* backend_delay.c, backend_error.c: take @lower over when they succeed */
int rdt_delay_open(const struct rdt_layer_config *cfg, struct rdt_bdev *lower,
		   struct rdt_bdev **out);
int rdt_error_open(const struct rdt_layer_config *cfg, struct rdt_bdev *lower,
		   struct rdt_bdev **out);

#endif /* RDT_LAYER_H */
