/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interface between the file backend and the engines, which execute a struct rdt_bio on a file
 * descriptor.
 *
 * engine_io.c contains what the engines have in common: queues of bios that wait for a free place,
 * bounce buffers for O_DIRECT, continuation of short transfers, FUA without kernel support. An
 * engine starts one kernel I/O for a bio and reports the result to rdt_engine_complete(). I/O that
 * may block goes to threads of its device instead (workers.h).
 */
#ifndef RDT_ENGINE_IO_H
#define RDT_ENGINE_IO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/map.h"

#include "backend.h"
#include "target/config/config.h"
#include "engine.h"
#include "extent_map.h"

/*
 * A storage device on one reactor: a file system with all its files, or a block device. Resources
 * that I/O can exhaust belong to it: places in the kernel, threads and bounce buffers. So devices
 * that do not answer take nothing from the others, however many there are.
 */

#define RDT_BOUNCE_COUNT 16
#define RDT_BOUNCE_SIZE  65536u

struct rdt_walker;
struct rdt_workers;

struct rdt_device {
	struct rdt_engine *engine;
	uint64_t key;          /* its number */
	unsigned int channels; /* channels that use it */
	uint32_t in_kernel;    /* I/Os that the engine has started */
	/* in order; only the head may start */
	struct rdt_bio_queue waiting;
	struct rdt_workers *workers;
	struct rdt_walker *walker;
	/* aligned for O_DIRECT; memory is allocated on first use */
	char *bounce;
	uint32_t bounce_free_count;
	void *bounce_free[RDT_BOUNCE_COUNT];
	bool ready; /* in engine->ready: its queue can make progress */
	TAILQ_ENTRY(rdt_device) link;
};

struct rdt_engine;

/* The channel of a file or block device on one reactor. */
struct rdt_fchan {
	struct rdt_chan chan;
	struct rdt_engine *engine;
	struct rdt_device *device;
	const char *path; /* for log lines; belongs to the bdev */
	int fd;           /* belongs to the bdev */
	/* belongs to the bdev; NULL: others may write to the file */
	struct rdt_extent_versions *versions;
	uint32_t poll_max;  /* largest transfer in bytes for the IOPOLL ring; 0: never */
	bool block;         /* a block device */
	bool direct;        /* O_DIRECT: buffers that are not aligned to mem_align are bounced */
	uint32_t mem_align; /* power of two */
	bool no_dsync;      /* the kernel refused RWF_DSYNC: FUA is write, then fdatasync */
	enum rdt_zero_how zero_how;
	bool discards; /* DEALLOCATE is a BLKDISCARD */
	/* reads, writes: the kernel cannot execute them without blocking, so threads do */
	bool blocks[2];
	/* I/O that is serialized per file: see workers.c. */
	unsigned int serial_out;     /* with the threads, according to the reactor */
	atomic_uint serial_count;    /* with the threads, and not ended */
	bool serial_busy;            /* the first one began or is in the threads' queue */
	struct rdt_bio_queue serial; /* the others; guarded by the lock of the threads */
};

/* Where a bio is between submit and done. */
enum rdt_fio_state {
	/* in device->waiting for a place or a bounce buffer; rdt_engine_pump() -> KERNEL, THREAD */
	RDT_FIO_WAITING,
	RDT_FIO_KERNEL, /* in the kernel; rdt_engine_complete() changes the state */
	RDT_FIO_THREAD, /* with the device's threads; rdt_engine_complete() changes the state */
	RDT_FIO_ENDED,  /* in engine->ended with its result; a deferred call completes it */
};

/* State of a bio with the threads, guarded by their lock. */
enum rdt_fio_job {
	RDT_JOB_QUEUED,
	RDT_JOB_SERIAL, /* in chan->serial, behind another one of the same file */
	RDT_JOB_RUNNING,
};

/* The kernel I/O that a bio needs next. */
enum rdt_fio_step {
	RDT_FIO_TRANSFER, /* the operation bio->op from offset @moved */
	RDT_FIO_SYNC,     /* fdatasync after the data was written */
};

#define RDT_FIO_MAGIC 0x6f69662au

/* State of a bio in this backend, in rdt_bio.priv. */
struct rdt_fio {
	uint32_t magic;
	uint8_t state; /* enum rdt_fio_state */
	uint8_t step;  /* enum rdt_fio_step */
	uint8_t retries;
	bool canceled; /* cancelled while in the kernel */
	struct rdt_fchan *chan;
	void *bounce;         /* aligned buffer for the current piece of bio->buf, or NULL */
	uint64_t moved;       /* bytes transferred so far */
	uint32_t piece;       /* bytes of the current kernel I/O of a transfer */
	uint8_t job;          /* enum rdt_fio_job */
	bool blocking;        /* to be executed by the threads */
	bool dsync;           /* with RWF_DSYNC */
	bool polled;          /* on the IOPOLL ring: engine_uring.c */
	atomic_bool given_up; /* EXTENTS: completed without the thread, which is blocked */
};
_Static_assert(sizeof(struct rdt_fio) <= sizeof(((struct rdt_bio *)0)->priv), "fio state");

static inline struct rdt_fio *rdt_fio(struct rdt_bio *bio)
{
	return (struct rdt_fio *)(void *)bio->priv;
}

static inline const struct rdt_fio *rdt_fio_const(const struct rdt_bio *bio)
{
	return (const struct rdt_fio *)(const void *)bio->priv;
}

/* The bio of a kernel completion. */
static inline struct rdt_bio *rdt_bio_of(void *token)
{
	struct rdt_bio *bio = token;

	assert(rdt_fio(bio)->magic == RDT_FIO_MAGIC && rdt_fio(bio)->state == RDT_FIO_KERNEL);
	return bio;
}

/* The buffer of the current piece. */
static inline void *rdt_fio_buf(struct rdt_bio *bio)
{
	struct rdt_fio *fio = rdt_fio(bio);

	return fio->bounce ? fio->bounce : (char *)bio->buf + fio->moved;
}

/* RWF_DSYNC only for O_DIRECT, where it may become one device command. Through the page cache,
 * write and sync are separate steps, so that a failure can be attributed: rdt_bdev_sync_error(). */
static inline bool rdt_fio_wants_dsync(const struct rdt_bio *bio, const struct rdt_fchan *chan)
{
	return bio->op == RDT_BIO_WRITE && (bio->flags & RDT_BIO_FUA) && chan->direct &&
	       !chan->no_dsync;
}

struct rdt_engine_ops {
	const char *name;
	/* Start the next piece of @bio, a read or write, or add it to the batch submitted at the
	 * end of the loop iteration. The kernel must not block: on the results -EAGAIN and
	 * -EOPNOTSUPP it goes to threads. Returns false if there is no place: it is retried after
	 * the next completion. */
	bool (*start)(struct rdt_engine *engine, struct rdt_bio *bio);
	/* Ask the kernel to cancel @bio, which completes in any case. NULL: not possible. */
	void (*cancel)(struct rdt_engine *engine, struct rdt_bio *bio);
	/* Prepare the engine for I/O on the new @chan. NULL: nothing to do. */
	void (*add_file)(struct rdt_engine *engine, struct rdt_fchan *chan);
	void (*destroy)(struct rdt_engine *engine);
};

struct rdt_engine {
	const struct rdt_engine_ops *ops;
	struct rd_loop *loop;
	struct rd_log *log;
	uint32_t depth; /* per device */
	uint32_t in_kernel;
	struct rd_map devices; /* struct rdt_device by number */
	TAILQ_HEAD(rdt_device_list, rdt_device) ready;
	struct rdt_bio_queue ended;
	struct rd_defer end_defer;
	struct rd_ratelimit rl;
};

int rdt_engine_init(struct rdt_engine *engine, const struct rdt_engine_ops *ops,
		    const struct rdt_engines_opts *opts);
void rdt_engine_fini(struct rdt_engine *engine);

/* Initialize the engine's part of a zeroed @chan. @device: its number. Returns 0 or -ENOMEM. */
int rdt_fchan_init(struct rdt_fchan *chan, struct rdt_engine *engine, uint64_t device);
void rdt_fchan_fini(struct rdt_fchan *chan); /* it has no bio */

void rdt_engine_submit(struct rdt_fchan *chan, struct rdt_bio *bio);
void rdt_engine_cancel(struct rdt_fchan *chan, struct rdt_bio *bio);
/* The kernel has finished the current piece of @bio. @res: bytes moved, or -errno. May call
 * bio->done. */
void rdt_engine_complete(struct rdt_engine *engine, struct rdt_bio *bio, int64_t res);
/* Start waiting bios for which there are places. Called after a batch of completions. */
void rdt_engine_pump(struct rdt_engine *engine);

/* engine.c */
struct rdt_engine *rdt_engines_get(struct rdt_engines *engines, enum rdt_engine_type type);

/* engine_uring.c */
int rdt_uring_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		     size_t err_size);

/* engine_aio.c */
int rdt_aio_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		   size_t err_size);

#endif /* RDT_ENGINE_IO_H */
