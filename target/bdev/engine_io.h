/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the file backend and the engines: how a struct rdt_bio on a descriptor gets through the
 * kernel.
 *
 * engine_io.c owns what both engines share: the queue of bios that wait for room, bounce buffers
 * for O_DIRECT, continuation of short transfers, FUA where the kernel has none. An engine only
 * starts one kernel I/O for a bio and reports its result with rdt_engine_complete().
 */
#ifndef RDT_ENGINE_IO_H
#define RDT_ENGINE_IO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/log.h"
#include "util/loop.h"

#include "backend.h"
#include "target/config/config.h"
#include "engine.h"

struct rdt_engine;

/* How a range is zeroed; which ones a file can do is found out when it is opened. */
enum rdt_zero_how {
	RDT_ZERO_NONE,
	RDT_ZERO_RANGE, /* fallocate(FALLOC_FL_ZERO_RANGE): stays allocated */
	RDT_ZERO_PUNCH, /* fallocate(FALLOC_FL_PUNCH_HOLE) */
};

/* A file's or block device's face on one reactor. */
struct rdt_fchan {
	struct rdt_chan chan;
	struct rdt_engine *engine;
	const char *path;   /* for messages; the bdev's */
	int fd;             /* the bdev's */
	uint32_t poll_max;  /* transfers up to so many bytes go to the ring that is looked at */
	bool direct;        /* O_DIRECT: buffers must be aligned to mem_align, others bounce */
	uint32_t mem_align; /* power of two */
	bool no_dsync;      /* RWF_DSYNC was refused: FUA is write, then fdatasync */
	enum rdt_zero_how zero_how;
};

/* Where a bio is between submit and done. */
enum rdt_fio_state {
	RDT_FIO_WAITING,  /* in engine->waiting, for room or a bounce buffer: engine_pump() */
	RDT_FIO_KERNEL,   /* handed over: rdt_engine_complete() */
	RDT_FIO_CANCELED, /* in engine->canceled, never reached the kernel: its defer */
};

/* Which kernel I/O a bio needs next. */
enum rdt_fio_step {
	RDT_FIO_TRANSFER, /* what bio->op says, from `moved` on */
	RDT_FIO_SYNC,     /* the data is written, make it durable */
};

#define RDT_FIO_MAGIC 0x6f69662au

/* Lives in rdt_bio.priv. */
struct rdt_fio {
	uint32_t magic;
	uint8_t state; /* enum rdt_fio_state */
	uint8_t step;  /* enum rdt_fio_step */
	uint8_t retries;
	bool canceled; /* asked for while in the kernel */
	struct rdt_fchan *chan;
	void *bounce;   /* aligned stand-in for the current piece of bio->buf, or NULL */
	uint64_t moved; /* bytes transferred so far */
	uint64_t piece; /* bytes asked of the kernel now */
	uint32_t slot;  /* the engine's */
};
_Static_assert(sizeof(struct rdt_fio) <= sizeof(((struct rdt_bio *)0)->priv), "fio state");

static inline struct rdt_fio *rdt_fio(struct rdt_bio *bio)
{
	return (struct rdt_fio *)(void *)bio->priv;
}

/* The bio a kernel completion names. */
static inline struct rdt_bio *rdt_bio_of(void *token)
{
	struct rdt_bio *bio = token;

	assert(rdt_fio(bio)->magic == RDT_FIO_MAGIC && rdt_fio(bio)->state == RDT_FIO_KERNEL);
	return bio;
}

/* Memory of the current piece. */
static inline void *rdt_fio_buf(struct rdt_bio *bio)
{
	struct rdt_fio *fio = rdt_fio(bio);

	return fio->bounce ? fio->bounce : (char *)bio->buf + fio->moved;
}

/*
 * Only of direct I/O, where it may be one command of the device. Through the page cache, write and
 * sync are two steps, so that it is known which of them failed: rdt_sync_in_doubt().
 */
static inline bool rdt_fio_wants_dsync(const struct rdt_bio *bio, const struct rdt_fchan *chan)
{
	return bio->op == RDT_BIO_WRITE && (bio->flags & RDT_BIO_FUA) && chan->direct &&
	       !chan->no_dsync;
}

struct rdt_engine_ops {
	const char *name;
	/*
	 * Hand the next piece of @bio to the kernel, or batch it for the end of the turn. False
	 * when there is no room: it is tried again after the next completion.
	 */
	bool (*start)(struct rdt_engine *engine, struct rdt_bio *bio);
	/* Ask the kernel to give up on @bio. It completes in any case. NULL: cannot. */
	void (*cancel)(struct rdt_engine *engine, struct rdt_bio *bio);
	/* @chan is new: make what its I/O needs beside the engine itself. NULL: nothing. */
	void (*add_file)(struct rdt_engine *engine, struct rdt_fchan *chan);
	void (*destroy)(struct rdt_engine *engine);
};

#define RDT_BOUNCE_COUNT 16
#define RDT_BOUNCE_SIZE  65536u
#define RDT_BOUNCE_ALIGN 4096u

struct rdt_engine {
	const struct rdt_engine_ops *ops;
	struct rd_loop *loop;
	struct rd_log *log;
	uint32_t depth;
	uint32_t in_kernel;
	TAILQ_HEAD(rdt_bio_queue, rdt_bio) waiting; /* in order; the head goes first */
	struct rdt_bio_queue canceled;
	struct rd_defer cancel_defer;
	char *bounce;
	void *bounce_free[RDT_BOUNCE_COUNT];
	uint32_t bounce_free_count;
	struct rd_ratelimit rl;
};

int rdt_engine_init(struct rdt_engine *engine, const struct rdt_engine_ops *ops,
		    const struct rdt_engines_opts *opts);
void rdt_engine_fini(struct rdt_engine *engine);

void rdt_engine_submit(struct rdt_fchan *chan, struct rdt_bio *bio);
void rdt_engine_cancel(struct rdt_fchan *chan, struct rdt_bio *bio);
/* The kernel finished the current piece of @bio: bytes moved, or -errno. May call bio->done. */
void rdt_engine_complete(struct rdt_engine *engine, struct rdt_bio *bio, int64_t res);
/* Start what waits and fits. After a batch of completions. */
void rdt_engine_pump(struct rdt_engine *engine);

/* engine.c */
struct rdt_engine *rdt_engines_get(struct rdt_engines *engines, enum rdt_engine_type type);

/* engine_uring.c */
int rdt_uring_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		     size_t err_size);

/* engine_aio.c, or no-aio.c where libaio was left out: -ENOTSUP */
int rdt_aio_create(const struct rdt_engines_opts *opts, struct rdt_engine **out, char *err,
		   size_t err_size);

#endif /* RDT_ENGINE_IO_H */
