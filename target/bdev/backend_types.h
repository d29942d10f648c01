/* SPDX-License-Identifier: BSD-3-Clause */
/* Constructors of the built-in backends, called by rdt_bdev_open(), with the same contract. */
#ifndef RDT_BACKEND_TYPES_H
#define RDT_BACKEND_TYPES_H

#include "backend.h"
#include "target/config/config.h"

/* backend_file.c: regular files and block devices */
int rdt_file_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size);
int rdt_file_open_on(const struct rdt_ns_config *cfg, const struct rdt_bdev_from *from,
		     struct rd_log *log, struct rdt_bdev **out, char *err, size_t err_size);
bool rdt_file_released(const struct rdt_ns_config *cfg); /* implements rdt_bdev_released() */
int rdt_file_probe(const struct rdt_ns_config *cfg, char *err, size_t err_size);
/* backend_memory.c */
int rdt_memory_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		    char *err, size_t err_size);
int rdt_memory_open_on(const struct rdt_ns_config *cfg, const struct rdt_bdev_from *from,
		       struct rd_log *log, struct rdt_bdev **out, char *err, size_t err_size);
/* backend_null.c */
int rdt_null_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size);

/* Layers: backends that are stacked on another one and delay or fail its bios. */

/* The channel of a layer on one reactor. */
struct rdt_layer_chan {
	struct rdt_chan chan;
	struct rdt_chan *lower; /* owned */
	struct rd_loop *loop;
};

static inline struct rdt_layer_chan *rdt_layer_chan_of(struct rdt_chan *chan)
{
	return rd_container_of(chan, struct rdt_layer_chan, chan);
}

/* Copy the properties of the lower bdev. */
void rdt_layer_init(struct rdt_bdev *layer, const struct rdt_bdev_ops *ops, struct rdt_bdev *lower);
/* The layer handles FLUSH: report a volatile cache, so that hosts send it. After
 * rdt_layer_init(). */
void rdt_layer_needs_flush(struct rdt_bdev *layer);
/* Submits @bio to the lower channel; a FLUSH that it does not support succeeds. */
enum rdt_bio_submit rdt_layer_submit(const struct rdt_layer_chan *lc, struct rdt_bio *bio);
/* For rdt_bdev_ops.opened: copies the final properties of the lower bdev. */
int rdt_layer_opened(struct rdt_bdev *bdev, char *err, size_t err_size);
/* For chan_open and chan_close. @size: bytes of the layer's own structure, zeroed, which begins
 * with struct rdt_layer_chan. */
int rdt_layer_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, size_t size,
			struct rdt_chan **out);
void rdt_layer_chan_close(struct rdt_chan *chan);
int rdt_layer_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);
/* forwards to the lower channel */
void rdt_layer_cancel(struct rdt_chan *chan, struct rdt_bio *bio);

/* Stack the layers of @cfg on *@bdev, which becomes the top one, even on failure. 0 or -ENOMEM. */
int rdt_layers_open(const struct rdt_ns_config *cfg, struct rdt_bdev **bdev);

/* backend_delay.c, backend_error.c: own @lower once they succeed */
int rdt_delay_open(const struct rdt_layer_config *cfg, struct rdt_bdev *lower,
		   struct rdt_bdev **out);
int rdt_error_open(const struct rdt_layer_config *cfg, struct rdt_bdev *lower,
		   struct rdt_bdev **out);

#endif /* RDT_BACKEND_TYPES_H */
