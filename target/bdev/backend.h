/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend seam: what stores a namespace's blocks.
 *
 * A struct rdt_bdev is opened once and shared by all reactors; a struct rdt_chan is its face on one
 * reactor, and the only thing the I/O path touches. Everything is asynchronous: a networked
 * backend, or one that delays or fails on purpose and stacks on another, fits the same table.
 *
 * Threads: bdev calls are made from the main thread, also while reactors run, chan calls on the
 * reactor that owns it. A backend locks whatever its channels share.
 */
#ifndef RDT_BACKEND_H
#define RDT_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "target/config/bio_op.h"

struct rdt_bdev;
struct rdt_chan;
struct rdt_engines; /* a reactor's io_uring and aio contexts, engine.h */
struct rdt_ns_config;

/* In ops_mask: contents end with the daemon, so blocks may be marked as bad beside them. */
#define RDT_OPS_MARKS (1u << 31)

#define RDT_BIO_FUA   0x1u /* WRITE, WRITE_ZEROES: on stable storage before completion */
#define RDT_BIO_BLANK 0x2u /* READ: the buffer is all zero, and may not be written to */

enum rdt_bio_submit {
	RDT_BIO_DONE,   /* finished inside submit: bio->result is set, bio->done is not called */
	RDT_BIO_QUEUED, /* bio->done will be called from the loop, exactly once */
};

/*
 * One block I/O. Embedded in the request; owned by the backend from submit until done. offset and
 * length are multiples of bdev->block_size: the caller has checked them. rdt_chan_submit() refuses
 * what is not within bdev->size.
 */
struct rdt_bio {
	uint8_t op;      /* enum rdt_bio_op */
	uint8_t flags;   /* RDT_BIO_* */
	uint16_t status; /* of a failure: SCT << 8 | SC to be told instead of what result means */
	int result;      /* 0 or -errno */
	uint64_t offset; /* bytes */
	uint64_t length; /* bytes */
	void *buf; /* READ, WRITE: length bytes. May be aligned to 8 bytes only (in-capsule data) */
	void (*done)(struct rdt_bio *bio);
	uint64_t priv[6];           /* the backend's, valid from submit to done */
	TAILQ_ENTRY(rdt_bio) link;  /* the backend's, for a queue of its own */
	struct rdt_chan *queued_at; /* the layer that has not passed it on yet, or NULL */
};

struct rdt_bdev_ops {
	const char *name;
	void (*close)(struct rdt_bdev *bdev);
	int (*chan_open)(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out);
	/* No bio may be in flight. */
	void (*chan_close)(struct rdt_chan *chan);
	enum rdt_bio_submit (*submit)(struct rdt_chan *chan, struct rdt_bio *bio);
	/*
	 * Try to cancel a queued bio. It completes through bio->done in any case, with -ECANCELED
	 * when cancelling worked. Constant time: hosts decide how many bios wait. NULL: the backend
	 * cannot.
	 */
	void (*cancel)(struct rdt_chan *chan, struct rdt_bio *bio);
	/*
	 * While channels are in use: @size is what the configuration says, 0 for nothing. Files and
	 * devices look what they have now. Sets bdev->size; bios that were submitted before, for
	 * blocks that are no more, do no harm. NULL: the size is fixed.
	 */
	int (*resize)(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);
};

struct rdt_bdev {
	const struct rdt_bdev_ops *ops;
	struct rdt_bdev *lower; /* of a layer: what is below it, owned. NULL: a backend */
	/* bytes; a multiple of block_size. Written by the main thread */
	_Atomic uint64_t size;
	/*
	 * Of a backend: why a sync failed, as -errno; 0: none has. It stays until the namespace is
	 * opened again, see rdt_bdev_sync_failed().
	 */
	_Atomic int sync_err;
	/* Who is told when @sync_err is set: once, on the thread that met the failure. NULL:
	 * nobody. Set before the first channel is opened. */
	void (*on_sync_failed)(void *arg);
	void *on_sync_failed_arg;
	_Atomic uint64_t sync_refused; /* bios, because of that */
	uint32_t block_size;           /* bytes: 512 or 4096 */
	uint32_t ops_mask;             /* 1u << enum rdt_bio_op, what submit() supports */
	bool volatile_cache;           /* FLUSH means something */
	bool read_only;
	bool deallocate_zeroes; /* deallocated blocks read as zeroes */
	bool reads_zeroes;      /* all blocks do, always: reads may come with RDT_BIO_BLANK */
};

struct rdt_chan {
	struct rdt_bdev *bdev;
};

/*
 * Open the backend that @cfg describes. @err receives a sentence for people: what, which value,
 * what was expected, what to do. Returns 0 or -errno; -EAGAIN: the file or device is in use, but
 * perhaps not for long: the kernel finishes what a process that was killed has in flight.
 */
int rdt_bdev_open(const struct rdt_ns_config *cfg, struct rd_log *log, struct rdt_bdev **out,
		  char *err, size_t err_size);

static inline void rdt_bdev_close(struct rdt_bdev **bdev)
{
	if (*bdev)
		(*bdev)->ops->close(*bdev);
	*bdev = NULL;
}

/*
 * After rdt_bdev_close(): may others have what @cfg names? A worker of io_uring's holds a file for
 * a moment longer than its last I/O takes. Known of what is open for writing.
 */
bool rdt_bdev_released(const struct rdt_ns_config *cfg);

/* Returns 0 or -errno with a sentence; the size is unchanged then. */
int rdt_bdev_resize(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);

/* Else what was completed is where it belongs already. */
static inline bool rdt_bdev_has_cache(const struct rdt_bdev *bdev)
{
	return bdev->volatile_cache && bdev->ops_mask & 1u << RDT_BIO_FLUSH;
}

static inline int rdt_chan_open(struct rdt_bdev *bdev, struct rdt_engines *engines,
				struct rdt_chan **out)
{
	return bdev->ops->chan_open(bdev, engines, out);
}

static inline void rdt_chan_close(struct rdt_chan **chan)
{
	if (*chan)
		(*chan)->bdev->ops->chan_close(*chan);
	*chan = NULL;
}

/* The backend below all layers. */
static inline struct rdt_bdev *rdt_bdev_base(struct rdt_bdev *bdev)
{
	while (bdev->lower)
		bdev = bdev->lower;
	return bdev;
}

/*
 * A sync failed with @err (-errno). The kernel tells that once for each open file, and has given up
 * the data: of what any host was told is stored, some may be lost. So nothing on @bdev is answered
 * with success any more but reads: what is submitted ends with -ENOTRECOVERABLE, until the
 * namespace is opened again. Said once. Any thread; @bdev may be a layer.
 */
void rdt_bdev_sync_failed(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err);
/*
 * Does a failure with @err (-errno) of a sync leave it open whether data is lost? Not, when it was
 * never begun. @after_write: it was a write that also syncs, which fails before it syncs when it
 * has no room or no permission.
 */
bool rdt_sync_in_doubt(int err, bool after_write);

enum rdt_bio_submit rdt_chan_refuse(struct rdt_chan *chan, struct rdt_bio *bio);

/*
 * The one way into every backend and every layer. Refused is what is out of bounds, -ERANGE,
 * whatever was checked when its command arrived: layers hold bios, and namespaces shrink; and
 * what writes or syncs after a sync has failed.
 */
static inline enum rdt_bio_submit rdt_chan_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rdt_bdev *bdev = chan->bdev;
	uint64_t size = atomic_load_explicit(&bdev->size, memory_order_relaxed);

	if (bio->offset > size || bio->length > size - bio->offset ||
	    (bio->op != RDT_BIO_READ &&
	     atomic_load_explicit(&bdev->sync_err, memory_order_relaxed)))
		return rdt_chan_refuse(chan, bio);
	return bdev->ops->submit(chan, bio);
}

#endif /* RDT_BACKEND_H */
