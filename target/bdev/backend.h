/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend interface: the storage of a namespace's blocks.
 *
 * A struct rdt_bdev is opened once and shared by all reactors. A struct rdt_chan is the part of it
 * on one reactor; the I/O path uses nothing else. All operations are asynchronous, so networked
 * backends and layers (delay, error) fit the same table.
 *
 * Threads: the main thread makes the bdev calls, also while reactors run, except those that may
 * wait as long as the storage does: rdt_bdev_open(), rdt_bdev_measure(), rdt_bdev_close(),
 * rdt_bdev_released() and rdt_bdev_probe() run on any thread, and never on the main loop or a
 * reactor of a running target. The reactor that owns a channel makes the chan calls, which do not
 * wait. A backend locks what its channels share.
 *
 * The life of a bdev, for a target that must not wait:
 *
 *   worker thread   rdt_bdev_open()
 *   main thread     rdt_bdev_opened(), rdt_bdev_watch(); the reactors open channels and close them
 *   main thread     rdt_bdev_detach(): afterwards the bdev does not use the target
 *   worker thread   rdt_bdev_close()
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
#include "path_id.h"

struct rdt_bdev;
struct rdt_chan;
struct rdt_engines; /* the I/O engines of a reactor: engine.h */
struct rdt_modules;
struct rdt_ns_config;

/* In ops_mask: the contents do not survive the daemon, so Write Uncorrectable can use memory. */
#define RDT_OPS_MARKS (1u << 31)

#define RDT_BIO_FUA   0x1u /* WRITE, WRITE_ZEROES: on stable storage before completion */
#define RDT_BIO_BLANK 0x2u /* READ: @buf already holds zeroes and must not be written to */

enum rdt_bio_submit {
	RDT_BIO_DONE,   /* finished inside submit: bio->result is set, bio->done is not called */
	RDT_BIO_QUEUED, /* bio->done is called from the loop, exactly once */
};

/*
 * One block I/O, embedded in the request. The backend owns it from submit until done. @offset and
 * @length are multiples of bdev->block_size, which the caller has checked. rdt_chan_submit()
 * refuses a bio that is not within bdev->size.
 */
struct rdt_bio {
	uint8_t op;    /* enum rdt_bio_op */
	uint8_t flags; /* RDT_BIO_* */
	/* on failure: SCT << 8 | SC that replaces the status derived from @result; 0: none */
	uint16_t status;
	int result;      /* 0 or -errno */
	uint64_t offset; /* bytes */
	uint64_t length; /* bytes */
	/* READ, WRITE: @length bytes, aligned to at least 8 bytes (in-capsule data); EXTENTS: a
	 * struct rdt_extents */
	void *buf;
	void (*done)(struct rdt_bio *bio);
	uint64_t priv[6];          /* private area of the backend, valid from submit to done */
	TAILQ_ENTRY(rdt_bio) link; /* for a queue of the backend */
	/* the layer that queues it, not yet submitted to the one below; or NULL */
	struct rdt_chan *queued_at;
};
TAILQ_HEAD(rdt_bio_queue, rdt_bio);

/* Replace the text that gateways share, or check that it has not changed. Backend's until
 * done(). */
struct rdt_bdev_state_job {
	struct rd_msg msg;
	struct rd_loop *home; /* done() runs there, exactly once */
	const char *text;     /* valid until done(); NULL: only check that it did not change */
	size_t len;
	uint32_t seq; /* bdev->state_seq of the text to replace or to compare with */
	/* 0: stored, every gateway will read it; -ESHUTDOWN: not stored, another gateway holds the
	 * storage; -ENOTCONN: connection lost, it may or may not be stored; another -errno: failed
	 * for now, it may or may not be stored */
	int err;
	void (*done)(struct rdt_bdev_state_job *job); /* may free the job */
	STAILQ_ENTRY(rdt_bdev_state_job) link;
};

/* A range of bytes: [from, to). */
struct rdt_extent {
	uint64_t from, to;
};

/*
 * The result of EXTENTS, in the caller's memory: the allocated parts of [offset, upto), ascending,
 * disjoint, not empty. The rest of that range reads as zeroes and uses no storage. @upto is less
 * than the end of the bio if the list is full, or if the backend examines one part at a time; it is
 * always greater than bio->offset if @room is not 0.
 */
struct rdt_extents {
	uint64_t upto;
	uint32_t room, count;
	struct rdt_extent list[]; /* @room of them */
};

/* What hosts were told of storage that each process reaches by a connection of its own. The next
 * process promises the same before it has a connection. */
struct rdt_bdev_told {
	uint64_t size; /* bytes */
	bool cache;    /* there is a volatile write cache: a Flush has an effect */
	bool stores;   /* there is none, because each write is stored before it is answered */
	bool deallocates;
	char what[160]; /* the storage, for people; "": its name in the configuration says it */
};

/* What becomes of such a connection in a hand-over. */
enum rdt_hand {
	/* The process that hands over; no bio is in flight: what was acknowledged leaves caches
	 * that may end with the connection. Nothing else changes. */
	RDT_HAND_SETTLE,
	RDT_HAND_LEAVE, /* it has handed over: the connection ends */
	RDT_HAND_BEGIN, /* the process that took over: bios come from now on */
	RDT_HAND_TAKE,  /* the process that took over: the other one's connection has ended */
};

/* How a range of a file or block device is zeroed. Determined when the file is opened. */
enum rdt_zero_how {
	RDT_ZERO_NONE,
	RDT_ZERO_RANGE, /* fallocate(FALLOC_FL_ZERO_RANGE): blocks stay allocated */
	RDT_ZERO_PUNCH, /* fallocate(FALLOC_FL_PUNCH_HOLE) */
};

/* What a backend has found out by trying, which waits for the storage. */
struct rdt_bdev_found {
	uint32_t mem_align; /* of direct I/O: bytes */
	uint8_t zeroes;     /* enum rdt_zero_how */
};

/* What another process has of the storage that is opened. */
struct rdt_bdev_from {
	int fd; /* what it has open; -1: nothing */
	/* NULL: nothing. Else it is that process's before RDT_HAND_BEGIN or RDT_HAND_TAKE */
	const struct rdt_bdev_told *told;
	const struct rdt_bdev_found *found; /* with @fd; NULL: it is tried */
};

/* A claim on storage that only one gateway at a time may serve. */
enum rdt_claim {
	RDT_CLAIM_WAIT,  /* take the storage when it is free; the initial claim */
	RDT_CLAIM_TAKE,  /* take the storage, also from another gateway; then WAIT */
	RDT_CLAIM_YIELD, /* release the storage, and do not take it */
	RDT_CLAIM_PASS,  /* release the storage, let another gateway take it; then WAIT. Only a
			  * change of WAIT */
};

struct rdt_bdev_ops {
	const char *name;
	void (*close)(struct rdt_bdev *bdev);
	int (*chan_open)(struct rdt_bdev *bdev, struct rdt_engines *engines, struct rdt_chan **out);
	/* The caller has no bio in flight. */
	void (*chan_close)(struct rdt_chan *chan);
	enum rdt_bio_submit (*submit)(struct rdt_chan *chan, struct rdt_bio *bio);
	/*
	 * Try to cancel a bio for which submit returned RDT_BIO_QUEUED. It completes through
	 * bio->done in any case, with -ECANCELED if it was cancelled. Runs in constant time,
	 * because hosts determine how many bios are queued. NULL: the backend cannot cancel.
	 */
	void (*cancel)(struct rdt_chan *chan, struct rdt_bio *bio);
	/* As rdt_bdev_measure(). NULL: the size comes from the configuration or the backend. */
	int (*measure)(const struct rdt_bdev *bdev, uint64_t size, uint64_t *found, char *err,
		       size_t err_size);
	/*
	 * Change the size while channels are in use. @size: the configured or measured size in
	 * bytes; 0: the backend's own size. Sets bdev->size. Bios beyond the new size that were
	 * submitted before must do no harm. Does not wait. NULL: the size is fixed.
	 */
	int (*resize)(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);
	/* As rdt_bdev_claim(). NULL: not shared, or served by all gateways at the same time. */
	bool (*claim)(struct rdt_bdev *bdev, enum rdt_claim claim);
	/*
	 * With bdev->shares_state: read the text that gateways share, as it was when
	 * bdev->state_seq became *@seq; @len 0: there is none. @text: not terminated; the caller
	 * frees it with free(3). Returns 0 or -ENOMEM. Main thread.
	 */
	int (*state_read)(struct rdt_bdev *bdev, char **text, size_t *len, uint32_t *seq);
	/* With bdev->shares_state: start @job. Main thread. */
	void (*state_write)(struct rdt_bdev *bdev, struct rdt_bdev_state_job *job);
	/* As rdt_bdev_opened(). NULL: the constructor has opened it. */
	int (*opened)(struct rdt_bdev *bdev, char *err, size_t err_size);
	/* As rdt_bdev_drain(). NULL: bios wait for the storage without a limit. */
	void (*drain)(struct rdt_bdev *bdev);
	/* As rdt_bdev_share(). NULL: another process cannot take it over, unless there is @told. */
	int (*share)(const struct rdt_bdev *bdev);
	/* Another process takes over with a connection of its own. It is open. NULL: it does not.
	 */
	void (*told)(struct rdt_bdev *bdev, struct rdt_bdev_told *out);
	/* With @told: as rdt_bdev_hand() and rdt_bdev_handed(). */
	void (*hand)(struct rdt_bdev *bdev, enum rdt_hand step);
	int (*handed)(const struct rdt_bdev *bdev);
	/* As rdt_bdev_give() and rdt_bdev_take(). NULL: there is nothing to say. */
	int (*give)(struct rdt_bdev *bdev, char *text, size_t size);
	int (*take)(struct rdt_bdev *bdev, const char *text);
	/* As rdt_bdev_found(). NULL: nothing. */
	void (*found)(const struct rdt_bdev *bdev, struct rdt_bdev_found *out);
	/* As rdt_bdev_own(). NULL: nothing of another process is in progress in it. */
	int (*own)(struct rdt_bdev *bdev, const struct rdt_ns_config *cfg, char *err,
		   size_t err_size);
	/* As rdt_bdev_name_user(). NULL: the storage does not show its user. */
	void (*name_user)(const struct rdt_bdev *bdev, bool us);
};

/* Faults that may lose data which hosts believe to be stored; kept until the namespace is
 * reopened. */
enum rdt_fault {
	RDT_FAULT_SYNC,  /* a sync failed: everything except reads fails */
	RDT_FAULT_SHORT, /* the file or device is smaller than the namespace: also reads beyond its
			    end fail, because blocks that reappear there are zeroes */
	RDT_FAULTS,
};

struct rdt_bdev {
	const struct rdt_bdev_ops *ops;
	struct rdt_bdev *lower; /* a layer owns the next lower bdev; NULL: this is a backend */
	/* bytes, a multiple of block_size; written by the main thread only */
	_Atomic uint64_t size;
	/* Backend: faults, 1u << enum rdt_fault. */
	_Atomic uint32_t faults;
	_Atomic int sync_err;        /* RDT_FAULT_SYNC: -errno of the first failure; 0: none */
	_Atomic uint64_t data_end;   /* RDT_FAULT_SHORT: bytes; data beyond it is lost */
	_Atomic int64_t fault_since; /* time(2) of the first fault */
	/* Called on the thread that detects a fault; may be NULL. Set before channels are
	 * opened. */
	void (*on_fault)(void *arg);
	void *on_fault_arg;
	char owner[256];          /* its namespace, for the log; "": none yet */
	_Atomic uint64_t refused; /* bios refused because of @faults */
	/* Backend: see rdt_bdev_watch() and rdt_bdev_changed(). */
	void (*_Atomic on_changed)(void *arg);
	void *on_changed_arg; /* set before @on_changed */
	atomic_uint calling;  /* threads that call @on_changed now */
	atomic_bool changed;
	/* Backend: the storage belongs to another gateway for now; I/O ends with -ESHUTDOWN. */
	atomic_bool standby;
	/* Backend: the storage is unreachable, and another gateway may take it over. As @standby,
	 * but bios in flight may end at any time or never. */
	atomic_bool cut_off;
	_Atomic int64_t cut_off_since; /* time(2) */
	/*
	 * Backend: gateways share a text about the namespace, for example its reservations. It is
	 * read, and @state_seq incremented, whenever this gateway gets the storage. I/O ends with
	 * -ESHUTDOWN until the main thread enforces the text and sets @state_taken to @state_seq.
	 */
	bool shares_state;
	/* Backend: once another gateway has executed a command, the storage executes no more of
	 * this one's until it gets the storage again. Never changes. */
	bool one_gateway;
	_Atomic uint32_t state_seq, state_taken;
	/* Backend: the process before this one gives the storage up, and this one gets it: I/O
	 * waits for that. */
	atomic_bool comes;
	/* Backend: see rdt_bdev_late(). */
	atomic_uint late;
	_Atomic uint64_t late_since;
	/* Backend: the open file or device, for rdt_bdev_path_check(). Never changes. */
	struct rdt_path_id path_id;
	/* Backend: number of the storage device (block device, file system, NBD server or cluster),
	 * whose users hang together. 0: it cannot hang. Never changes. */
	uint64_t device;
	uint32_t block_size; /* bytes: 512 or 4096 */
	uint32_t ops_mask;   /* 1u << enum rdt_bio_op, what submit() supports */
	/* the backend has a volatile write cache: FLUSH has an effect */
	bool volatile_cache;
	bool read_only;
	bool deallocate_zeroes; /* deallocated blocks read as zeroes */
	bool reads_zeroes;      /* all blocks always read as zeroes: reads may use RDT_BIO_BLANK */
	uint32_t io_boundary;   /* I/O across a multiple of it is slower; bytes; 0: no such limit */
	bool has_nguid;         /* the storage has its own identity, @nguid */
	uint8_t nguid[16];      /* in the byte order of Identify; final once it is opened */
};

struct rdt_chan {
	struct rdt_bdev *bdev;
};

/*
 * Open the backend that @cfg describes. @modules: loads and keeps modules; NULL: only built-in
 * backends. A backend with remote storage returns before it is open: see rdt_bdev_opened(). On
 * failure @err receives a message that names the object, its value, what was expected and what to
 * do. Returns 0 or -errno. -EAGAIN: the file or device is still in use, for example because the
 * kernel finishes the I/O of a killed process; try again later.
 *
 * Any thread, also several at once. It uses no loop and nothing of a target, and may wait as long
 * as the storage does. @modules, @cfg and @log must exist until it has returned, @log until
 * rdt_bdev_close() has.
 */
int rdt_bdev_open(struct rdt_modules *modules, const struct rdt_ns_config *cfg, struct rd_log *log,
		  struct rdt_bdev **out, char *err, size_t err_size);

/*
 * As rdt_bdev_open(), with what another process has: its descriptor, which shares the open file
 * description and its locks, and is always taken over; or what it has told hosts. NULL: as
 * rdt_bdev_open().
 */
int rdt_bdev_open_on(struct rdt_modules *modules, const struct rdt_ns_config *cfg,
		     const struct rdt_bdev_from *from, struct rd_log *log, struct rdt_bdev **out,
		     char *err, size_t err_size);
/*
 * The descriptor with which another process can open the same storage by rdt_bdev_open_on(); it
 * remains the backend's. -ENODATA: the other process needs none; -EOPNOTSUPP: two processes cannot
 * use this kind of storage one after the other. Main thread.
 */
int rdt_bdev_share(const struct rdt_bdev *bdev);
/* What another process need not try with that descriptor. False: nothing. Main thread. */
bool rdt_bdev_found(const struct rdt_bdev *bdev, struct rdt_bdev_found *out);
/* What hosts were told, where the next process reaches the storage by a connection of its own.
 * False: it does not. @bdev is open. Main thread. */
bool rdt_bdev_told(struct rdt_bdev *bdev, struct rdt_bdev_told *out);
/* Begin a step of the hand-over of such a connection; nothing for other storage. Main thread; does
 * not wait. */
void rdt_bdev_hand(struct rdt_bdev *bdev, enum rdt_hand step);
/* Has the step that was begun last ended? Returns 0: yes, or there is nothing to do; -EINPROGRESS;
 * another -errno: it failed. Main thread. */
int rdt_bdev_handed(const struct rdt_bdev *bdev);
/*
 * What the next process has to know of the storage when all commands have ended, as a text of the
 * backend of at most RDT_BDEV_GIVEN bytes: "": nothing. Returns 0, or -EBUSY: the storage changes
 * just now. Main thread.
 */
#define RDT_BDEV_GIVEN 128u
int rdt_bdev_give(struct rdt_bdev *bdev, char text[RDT_BDEV_GIVEN]);
/* The process that takes over, before RDT_HAND_BEGIN. Returns 0, or -EPROTO: it is no such text. */
int rdt_bdev_take(struct rdt_bdev *bdev, const char *text);
/*
 * The process that @bdev was handed over by was killed, and the kernel may still execute its I/O:
 * that holds the open file description which @bdev has in common with it, and so its lock. So that
 * is given up, and @bdev gets one of its own with a lock of its own. No bio is in flight, and none
 * is submitted before it has succeeded. Returns 0, or -errno with a sentence in @err: try again.
 * Any thread; may wait.
 */
int rdt_bdev_own(struct rdt_bdev *bdev, const struct rdt_ns_config *cfg, char *err,
		 size_t err_size);
/*
 * Show other programs that this process (@us) or none uses the storage, which does not affect its
 * lock. To be repeated after this process has closed a duplicate of the descriptor. Main thread.
 */
void rdt_bdev_name_user(const struct rdt_bdev *bdev, bool us);

/*
 * Whether the backend is open. Returns 0: yes, its properties are final, and channels can be
 * opened; -EINPROGRESS: not yet, and the function of rdt_bdev_watch() is called when that may have
 * changed; another -errno: it failed, with a message in @err, and the backend tries again. Main
 * thread.
 */
int rdt_bdev_opened(struct rdt_bdev *bdev, char *err, size_t err_size);

/*
 * Call @fn(@arg), on any thread, whenever the result of rdt_bdev_opened() may have changed, or the
 * size of the storage, which rdt_bdev_measure() with 0 returns. Called at once if that has happened
 * before. Main thread, once; @arg must exist until rdt_bdev_detach() or rdt_bdev_close() has
 * returned.
 */
void rdt_bdev_watch(struct rdt_bdev *bdev, void (*fn)(void *arg), void *arg);
/*
 * Start to take or to release the storage. When that has happened, bdev->standby changes and the
 * function of rdt_bdev_watch() is called. Returns false if gateways do not claim this storage. Main
 * thread.
 */
bool rdt_bdev_claim(struct rdt_bdev *bdev, enum rdt_claim claim);

/* For backends: call the function of rdt_bdev_watch(). Any thread, never after close() began. */
static inline void rdt_bdev_changed(struct rdt_bdev *base)
{
	void (*fn)(void *arg);

	atomic_store(&base->changed, true);
	atomic_fetch_add(&base->calling, 1);
	fn = atomic_load(&base->on_changed);
	if (fn)
		fn(base->on_changed_arg);
	atomic_fetch_sub(&base->calling, 1);
}
/* Whether another gateway serves the storage, or this one is not ready. Any thread, for
 * backends. */
static inline bool rdt_bdev_elsewhere(struct rdt_bdev *base)
{
	return !atomic_load(&base->comes) &&
	       (atomic_load(&base->standby) || atomic_load(&base->cut_off) ||
		atomic_load(&base->state_seq) != atomic_load(&base->state_taken));
}
/* Whether rdt_bdev_changed() was called since the last call of this. Main thread. */
bool rdt_bdev_take_changed(struct rdt_bdev *bdev);

/*
 * The target no longer uses @bdev: no channel is open, and none will be. Afterwards the functions
 * of rdt_bdev_watch() and on_fault are not called, so that rdt_bdev_close() can run on a worker
 * thread even if the target ends first. Main thread; does not wait for storage. Accepts NULL.
 */
void rdt_bdev_detach(struct rdt_bdev *bdev);

/* The target is stopping: bios that the storage does not answer soon end with -ESHUTDOWN, although
 * it may still execute them. Main thread, once; does not wait. */
static inline void rdt_bdev_drain(struct rdt_bdev *bdev)
{
	while (bdev->lower)
		bdev = bdev->lower;
	if (bdev->ops->drain)
		bdev->ops->drain(bdev);
}

/* Call with all channels closed. May wait as long as the storage does, except for backends with
 * rdt_bdev_ops.opened, which close in the background. Any thread; the last call for *@bdev. */
static inline void rdt_bdev_close(struct rdt_bdev **bdev)
{
	if (*bdev)
		(*bdev)->ops->close(*bdev);
	*bdev = NULL;
}

/*
 * After rdt_bdev_close(): whether another process can open the file, device or image of @cfg for
 * writing. A worker thread of io_uring may keep the file open shortly after its last I/O, and an
 * image is closed in the background. Always true for backends without storage, and for read-only
 * ones. Any thread; it opens the path, so it may wait.
 */
bool rdt_bdev_released(struct rdt_modules *modules, const struct rdt_ns_config *cfg);

/*
 * Checks the file, device or image of @cfg as rdt_bdev_open() does, but opens it read-only, creates
 * nothing, and does not check whether another program uses it. Network storage has 10 s to answer.
 * Returns 0, also for backends without storage, or -errno with a message in @err. Any thread.
 */
int rdt_bdev_probe(struct rdt_modules *modules, const struct rdt_ns_config *cfg, char *err,
		   size_t err_size);

/*
 * Measure the size of @bdev without changing it. *@found is @size (the configured bytes; 0: none)
 * if the storage has no size of its own, else the current size of the open file or device, which
 * must be @size unless that is 0. Any thread; may wait; @bdev must not be closed meanwhile. Returns
 * 0, or -errno with a message in @err.
 */
int rdt_bdev_measure(struct rdt_bdev *bdev, uint64_t size, uint64_t *found, char *err,
		     size_t err_size);
/* Apply a size that rdt_bdev_measure() has found. Main thread; does not wait. Returns 0, or -errno
 * with a message in @err; then the size is unchanged. */
int rdt_bdev_take_size(struct rdt_bdev *bdev, uint64_t size, char *err, size_t err_size);

/* Without a volatile cache, data is on stable storage when its write completes. */
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

/* The backend at the bottom, below all layers. */
static inline struct rdt_bdev *rdt_bdev_base(struct rdt_bdev *bdev)
{
	while (bdev->lower)
		bdev = bdev->lower;
	return bdev;
}

/*
 * Adds a waiter to storage that does not answer, which makes its namespace stalled: a reactor with
 * old I/O (target/nvmf/stall.c), or the backend itself, which has lost its connection or waits for
 * a request of its own. @since: ns of the monotonic clock; the first waiter's is kept. Returns
 * whether it is the first one, which logs it. Any thread; @base is a backend.
 */
static inline bool rdt_bdev_late(struct rdt_bdev *base, uint64_t since)
{
	if (!atomic_load(&base->late))
		atomic_store(&base->late_since, since);
	return !atomic_fetch_add(&base->late, 1);
}

/* Removes a waiter. Returns whether it was the last one, which logs it. */
static inline bool rdt_bdev_answers(struct rdt_bdev *base)
{
	return atomic_fetch_sub(&base->late, 1) == 1;
}

/* Whether the storage is stalled. Any thread; @base is a backend. */
static inline bool rdt_bdev_stalled(const struct rdt_bdev *base)
{
	return atomic_load(&base->late);
}

/*
 * Remember that a sync failed with @err (-errno). The kernel reports such a failure once for each
 * open file and drops the dirty pages, so data that hosts believe to be stored may be lost. From
 * now on everything except reads ends with -ENOTRECOVERABLE, until the namespace is reopened. Logs
 * the first failure only. Any thread; @bdev may be a layer.
 */
void rdt_bdev_sync_failed(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err);
/*
 * Remember that the file or device ends at byte @end, before its size, which a read or
 * rdt_bdev_path_check() has found. From now on everything except reads ends with -ENOTRECOVERABLE,
 * because a write would turn the lost blocks into zeroes, and reads beyond @end with -EIO, until
 * the namespace is reopened, or rdt_bdev_take_size() gets a size of at most @end. Logs the first
 * failure only. Any thread; @bdev may be a layer.
 */
void rdt_bdev_ended_early(struct rdt_bdev *bdev, struct rd_log *log, const char *what,
			  uint64_t end);

/* A fault of the storage of a namespace, for messages. */
struct rdt_noticed {
	/* "ended-early", "sync-failed", "cut-off", or, of its path, "mismatch" */
	const char *kind;
	int64_t since;  /* time(2) */
	char text[512]; /* a message without the name of the namespace */
};
/* Copies the fault into @out. Returns false if there is none. Any thread; @bdev may be a layer. */
bool rdt_bdev_noticed(struct rdt_bdev *bdev, struct rdt_noticed *out);
/*
 * Handles a sync that ended with @err (-errno): either data may be lost, which is remembered as by
 * rdt_bdev_sync_failed(), or the sync was never started. @after_write: a write that includes the
 * sync (RWF_DSYNC, or FUA of a device) failed; it fails before the sync if space or permission is
 * missing. Returns the result for the bio: -ENOTRECOVERABLE in the first case, else @err. Any
 * thread; @bdev may be a layer.
 */
int rdt_bdev_sync_error(struct rdt_bdev *bdev, struct rd_log *log, const char *what, int err,
			bool after_write);

/*
 * Add the allocated range [from, to), which follows the last one. If the list is full, sets @upto
 * to @from and returns false.
 */
bool rdt_extents_add(struct rdt_extents *ex, uint64_t from, uint64_t to);

/* The slow path of rdt_chan_submit(): fails a bio, or submits it. */
enum rdt_bio_submit rdt_chan_check(struct rdt_chan *chan, struct rdt_bio *bio);

/*
 * The only entry into backends and layers. Fails a bio beyond bdev->size with -ERANGE, although the
 * command was checked on arrival, because layers queue bios and namespaces shrink. Fails what
 * bdev->faults does not allow.
 */
static inline enum rdt_bio_submit rdt_chan_submit(struct rdt_chan *chan, struct rdt_bio *bio)
{
	struct rdt_bdev *bdev = chan->bdev;
	uint64_t size = atomic_load_explicit(&bdev->size, memory_order_relaxed);

	if (bio->offset > size || bio->length > size - bio->offset ||
	    atomic_load_explicit(&bdev->faults, memory_order_relaxed))
		return rdt_chan_check(chan, bio);
	return bdev->ops->submit(chan, bio);
}

#endif /* RDT_BACKEND_H */
