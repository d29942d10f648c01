/* SPDX-License-Identifier: BSD-3-Clause */
/* Backend rbd: the table of operations, and I/O. */
#include "rbd_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bio_post.h"
#include "nvmf/wire.h"
#include "util/loop.h"

/* In rdt_bio.priv. */
struct rbd_bio {
	struct rdt_bio_post post;
	struct rbd_image *img;
	uint32_t changes; /* of the image, when it was submitted */
	bool flushing;    /* FUA: it was written, and is being flushed */
};
_Static_assert(sizeof(struct rbd_bio) <= sizeof(((struct rdt_bio *)0)->priv), "rbd");

static struct rbd_image *rbd_image_of(struct rdt_bdev *bdev)
{
	return rd_container_of(bdev, struct rbd_image, bdev);
}

static struct rbd_bio *rbd_bio_of(struct rdt_bio *bio)
{
	return (struct rbd_bio *)(void *)bio->priv;
}

/* ---- completion ---- */

void rbd_bio_finish(struct rdt_bio *bio)
{
	/* Before the reactor can close the channel, and then the image */
	rbd_image_put_io(rbd_bio_of(bio)->img);
	rdt_bio_post_done(bio);
}

/* Unlike the ANA statuses, Internal Path Error does not say that the command was not executed. A
 * host tries another path in both cases, unless it must not execute the command twice. */
void rbd_bio_unknown(struct rdt_bio *bio)
{
	bio->result = -ESHUTDOWN;
	if (rdt_bio_op_writes(bio->op))
		bio->status = NVME_SCT_PATH << 8 | NVME_SC_ANA_INTERNAL_PATH_ERROR;
}

bool rbd_bio_in_doubt(struct rdt_bio *bio)
{
	const struct rbd_bio *rb = rbd_bio_of(bio);

	return rdt_bio_op_writes(bio->op) && atomic_load(&rb->img->changes) - rb->changes >= 2;
}

/* librbd reports success for a write that it has clipped. If the image may have been resized, the
 * write waits until its size is known. Returns true if it waits. */
static bool hold_write(struct rbd_image *img, struct rdt_bio *bio)
{
	bool stale, held;

	if (!rbd_size_stale(img))
		return false;
	pthread_mutex_lock(&img->lock);
	stale = rbd_size_stale(img);
	held = stale && img->state == RBD_OPEN;
	if (held)
		TAILQ_INSERT_TAIL(&img->held, bio, link);
	else if (stale)
		rbd_bio_unknown(bio); /* nobody will read the size */
	pthread_mutex_unlock(&img->lock);
	return held;
}

/* The result for hosts. While another client holds the lock, another path may work. */
static int result_of(const struct rbd_image *img, const struct rdt_bio *bio, ssize_t ret)
{
	if (ret == -EROFS && !img->bdev.read_only)
		return -ESHUTDOWN;
	if (ret < 0)
		return (int)ret;
	if (bio->op == RDT_BIO_READ && (uint64_t)ret != bio->length)
		return -ERANGE; /* the image has shrunk */
	return 0;
}

/* Another client holds the lock: let the job check it. */
static void doubt_lock(struct rbd_image *img)
{
	atomic_store(&img->lock_doubted, true);
	rbd_job_kick(&img->job, 0);
}

static void rbd_completed(rbd_completion_t completion, void *arg);

/* With a cache, a write with FUA is followed by a flush. Returns whether @bio, which may already be
 * completed again, continues. */
static bool flush_written(struct rbd_image *img, struct rdt_bio *bio)
{
	struct rbd_bio *rb = rbd_bio_of(bio);
	rbd_completion_t c;
	int rc;

	if (!img->cache || bio->result || rb->flushing || !(bio->flags & RDT_BIO_FUA) ||
	    !rdt_bio_op_writes(bio->op))
		return false;
	rc = rbd_aio_create_completion(bio, rbd_completed, &c);
	if (!rc) {
		rb->flushing = true;
		rc = rbd_aio_flush(img->image, c);
		if (rc)
			rbd_aio_release(c);
	}
	if (rc)
		bio->result = rc;
	return !rc;
}

/* On a thread of librbd. */
static void rbd_completed(rbd_completion_t completion, void *arg)
{
	struct rdt_bio *bio = arg;
	const struct rbd_bio *rb = rbd_bio_of(bio);
	struct rbd_image *img = rb->img;
	ssize_t ret = rbd_aio_get_return_value(completion);

	bio->result = result_of(img, bio, ret);
	rbd_aio_release(completion);
	atomic_fetch_add(&img->completed, 1);
	if (ret == -ESHUTDOWN) {
		rbd_bio_unknown(bio);
		rbd_image_lost(img);
	} else if (ret == -EROFS) {
		doubt_lock(img);
	} else if (ret < 0 && (bio->op == RDT_BIO_FLUSH || rb->flushing)) {
		bio->result = rbd_cache_failed(img, (int)ret);
	}
	if (flush_written(img, bio))
		return;
	if (!rdt_bio_op_writes(bio->op) || bio->result || !hold_write(img, bio)) {
		if (!bio->result && rbd_bio_in_doubt(bio))
			rbd_bio_unknown(bio);
		rbd_bio_finish(bio);
	}
}

/* ---- submission ---- */

static int start_io(struct rbd_image *img, struct rdt_bio *bio, rbd_completion_t c)
{
	switch ((enum rdt_bio_op)bio->op) {
	case RDT_BIO_READ:
		return rbd_aio_read(img->image, bio->offset, bio->length, bio->buf, c);
	case RDT_BIO_WRITE: /* without a cache stored when it completes, so FUA needs no more */
		return rbd_aio_write(img->image, bio->offset, bio->length, bio->buf, c);
	case RDT_BIO_WRITE_ZEROES:
		return rbd_aio_write_zeroes(img->image, bio->offset, bio->length, c, 0, 0);
	case RDT_BIO_DEALLOCATE:
		return rbd_aio_discard(img->image, bio->offset, bio->length, c);
	case RDT_BIO_FLUSH:
		return rbd_aio_flush(img->image, c);
	default:
		return -EOPNOTSUPP;
	}
}

static int submit_open(struct rbd_image *img, struct rdt_bio *bio)
{
	rbd_completion_t c;
	int rc = rbd_aio_create_completion(bio, rbd_completed, &c);

	if (rc)
		return rc;
	rc = start_io(img, bio, c);
	if (rc)
		rbd_aio_release(c);
	return rc;
}

/* Returns whether librbd has it, which may have completed it already; else bio->result is set. */
static bool begin_rbd_bio(struct rbd_image *img, struct rdt_bio *bio)
{
	int rc = -ESHUTDOWN;

	rbd_bio_of(bio)->changes = atomic_load(&img->changes);
	/* Counted before the look at the state: leave_connection() changes that, then waits. */
	atomic_fetch_add(&img->inflight, 1);
	if (atomic_load(&img->state) == RBD_OPEN && !rdt_bdev_elsewhere(&img->bdev))
		rc = submit_open(img, bio);
	if (!rc)
		return true;
	bio->result = result_of(img, bio, rc);
	rbd_image_put_io(img);
	return false;
}

static enum rdt_bio_submit rbd_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rbd_image *img = rbd_image_of(chan->bdev);
	struct rbd_bio *rb = rbd_bio_of(bio);

	if (!(img->bdev.ops_mask & 1u << bio->op)) {
		bio->result = -EOPNOTSUPP;
		return RDT_BIO_DONE;
	}
	rb->img = img;
	rb->flushing = false;
	rb->post.home = rdt_module_chan_loop(chan);
	if (atomic_load(&img->bdev.comes) && rbd_handover_wait(img, bio))
		return RDT_BIO_QUEUED;
	return begin_rbd_bio(img, bio) ? RDT_BIO_QUEUED : RDT_BIO_DONE;
}

void rbd_bio_again(struct rdt_bio *bio)
{
	if (!begin_rbd_bio(rbd_bio_of(bio)->img, bio))
		rdt_bio_post_done(bio);
}

static int rbd_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out)
{
	return rdt_module_chan_open(bdev, rbd_image_of(bdev)->engines_loop(engines), out);
}

/* ---- the image ---- */

static void rbd_bdev_close(struct rdt_bdev *bdev)
{
	rbd_image_close(rbd_image_of(bdev));
}

static uint64_t whole_blocks(const struct rbd_image *img)
{
	return img->image_size - img->image_size % img->bdev.block_size;
}

static int rbd_bdev_opened(struct rdt_bdev *bdev, char *err, size_t err_size)
{
	struct rbd_image *img = rbd_image_of(bdev);
	int rc = -EINPROGRESS;

	pthread_mutex_lock(&img->lock);
	if (img->opened) {
		rc = 0;
		bdev->size = whole_blocks(img);
		bdev->io_boundary = img->object_size;
		bdev->has_nguid = true;
		memcpy(bdev->nguid, img->identity, sizeof(bdev->nguid));
	} else if (img->open_err) {
		rc = img->open_err;
		snprintf(err, err_size, "%s", img->open_text);
	}
	pthread_mutex_unlock(&img->lock);
	return rc;
}

static int rbd_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size)
{
	struct rbd_image *img = rbd_image_of(bdev);

	if (size && size != bdev->size) {
		snprintf(err, err_size,
			 "the size of an image is changed by \"rbd resize\", which hosts then see");
		return -EOPNOTSUPP;
	}
	pthread_mutex_lock(&img->lock);
	bdev->size = whole_blocks(img);
	pthread_mutex_unlock(&img->lock);
	return 0;
}

static bool rbd_bdev_claim(struct rdt_bdev *bdev, enum rdt_claim claim)
{
	struct rbd_image *img = rbd_image_of(bdev);
	enum rdt_claim wait = RDT_CLAIM_WAIT;

	if (img->lock_mode != RDT_RBD_LOCK_EXCLUSIVE)
		return false; /* no claims: the client that writes holds the image */
	if (claim == RDT_CLAIM_PASS) {
		if (!atomic_compare_exchange_strong(&img->claim, &wait, claim))
			return false; /* the operator has decided otherwise */
	} else {
		atomic_store(&img->claimed_ns, rdt_module_now());
		atomic_store(&img->claim, claim);
	}
	rbd_job_kick(&img->job, 0);
	return true;
}

static int rbd_bdev_state_read(struct rdt_bdev *bdev, char **text, size_t *len, uint32_t *seq)
{
	return rbd_shared_read(rbd_image_of(bdev), text, len, seq);
}

static void rbd_bdev_state_write(struct rdt_bdev *bdev, struct rdt_bdev_state_job *job)
{
	rbd_shared_write(rbd_image_of(bdev), job);
}

static void rbd_bdev_told(struct rdt_bdev *bdev, struct rdt_bdev_told *out)
{
	rbd_handover_told(rbd_image_of(bdev), out);
}

static void rbd_bdev_hand(struct rdt_bdev *bdev, enum rdt_hand step)
{
	rbd_handover_step(rbd_image_of(bdev), step);
}

static int rbd_bdev_handed(const struct rdt_bdev *bdev)
{
	return rbd_handover_settled(rd_container_of(bdev, const struct rbd_image, bdev));
}

static int rbd_bdev_give(struct rdt_bdev *bdev, char *text, size_t size)
{
	return rbd_handover_give(rbd_image_of(bdev), text, size);
}

static int rbd_bdev_take(struct rdt_bdev *bdev, const char *text)
{
	return rbd_handover_take(rbd_image_of(bdev), text);
}

static const struct rdt_bdev_ops rbd_ops = {
	.name = "rbd",
	.close = rbd_bdev_close,
	.chan_open = rbd_chan_open,
	.chan_close = rdt_module_chan_close,
	.submit = rbd_submit,
	.resize = rbd_bdev_resize,
	.opened = rbd_bdev_opened,
	.claim = rbd_bdev_claim,
	.state_read = rbd_bdev_state_read,
	.state_write = rbd_bdev_state_write,
	.told = rbd_bdev_told,
	.hand = rbd_bdev_hand,
	.handed = rbd_bdev_handed,
	.give = rbd_bdev_give,
	.take = rbd_bdev_take,
};

/* ---- the module ---- */

struct rbd_module {
	struct rbd_clusters *clusters;
	struct rd_loop *(*engines_loop)(const struct rdt_engines *engines);
	int (*sync_error)(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err,
			  bool after_write);
};

static int rbd_module_open(void *ctx, const struct rdt_ns_config *cfg,
			   const struct rdt_bdev_told *told, struct rd_log *log,
			   struct rdt_bdev **out, char *err, size_t err_size)
{
	struct rbd_image *img;
	const struct rbd_module *module = ctx;
	int rc = rbd_image_new(module->clusters, cfg, told != NULL, log, &img);

	if (rc) {
		snprintf(err, err_size, "rbd: %s", strerror(-rc));
		return rc;
	}
	img->engines_loop = module->engines_loop;
	img->sync_error = module->sync_error;
	*out = &img->bdev;
	return 0;
}

static int rbd_module_probe(void *ctx, const struct rdt_ns_config *cfg, char *err, size_t err_size)
{
	const struct rbd_module *module = ctx;

	return rbd_image_probe(module->clusters, cfg, err, err_size);
}

static bool rbd_module_released(void *ctx, const struct rdt_ns_config *cfg)
{
	const struct rbd_module *module = ctx;

	return rbd_image_released(module->clusters, cfg);
}

static bool rbd_module_finish(void *ctx, uint64_t timeout_ns)
{
	struct rbd_module *module = ctx;

	if (!rbd_clusters_finish(module->clusters, timeout_ns))
		return false;
	free(module);
	return true;
}

void rbd_bdev_init(struct rdt_bdev *bdev)
{
	bdev->ops = &rbd_ops;
	bdev->ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH;
	if (!bdev->read_only)
		bdev->ops_mask |=
			1u << RDT_BIO_WRITE | 1u << RDT_BIO_WRITE_ZEROES | 1u << RDT_BIO_DEALLOCATE;
}

__attribute__((visibility("default"))) int rdt_module_init(const struct rdt_module_abi *abi,
							   struct rdt_module *out)
{
	const struct rdt_module_abi mine = RDT_MODULE_ABI;
	struct rbd_module *module;
	int rc;

	if (!rdt_module_abi_same(abi, &mine))
		return -EPROTO;
	module = calloc(1, sizeof(*module));
	rc = module ? rbd_clusters_create(&module->clusters) : -ENOMEM;
	if (rc) {
		free(module);
		return rc;
	}
	module->engines_loop = abi->engines_loop;
	module->sync_error = abi->sync_error;
	*out = (struct rdt_module){
		.ctx = module,
		.open = rbd_module_open,
		.probe = rbd_module_probe,
		.released = rbd_module_released,
		.finish = rbd_module_finish,
	};
	return 0;
}
