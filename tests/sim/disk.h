/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulated storage: a store survives the target, a disk is a backend that is open on it.
 *
 * A block holds the value of one write, repeated over its bytes. Writes go into a volatile cache
 * and are durable after a sync, or at once with FUA. A write takes effect block by block, at any
 * time between its submission and its completion.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "simfabric/sim.h"
#include "target/bdev/backend.h"

#define DISK_BLOCK 512u

struct store;

struct store_faults {
	uint64_t latency_ns; /* of an I/O, up to so much */
	uint32_t slow_in;    /* one of this many I/Os takes up to @slow_ns; 0: none */
	uint64_t slow_ns;
	/* One of this many reads, and of writes, fails with EIO; a write executed or not; 0: none.
	 */
	uint32_t fails_in;
	/* One of this many writes fails with ENOSPC, executed in part or not; 0: none. */
	uint32_t no_space_in;
	/* One of this many syncs fails with EIO, also that of a write with FUA; 0: none. */
	uint32_t sync_fails_in;
};

/* How an I/O has failed. */
enum store_failure {
	STORE_READ_FAILED,
	STORE_WRITE_FAILED,
	STORE_NO_SPACE,
	STORE_FAILURES,
};

/* Returns NULL without memory. */
struct store *store_new(struct rd_sim *sim, unsigned int blocks);
void store_free(struct store *store);
void store_set_faults(struct store *store, const struct store_faults *faults);
/*
 * The power fails: from now on no write reaches the store, and I/O ends with -EIO. store_restart()
 * makes the store usable again; each block then has its durable content, or the content of a later
 * write.
 */
void store_stop(struct store *store);
void store_restart(struct store *store);
/* While it hangs, no I/O takes effect or ends. */
void store_hang(struct store *store, bool hangs);
uint64_t store_value(const struct store *store, unsigned int block);
unsigned int store_ios(const struct store *store); /* in flight */
/* Whether an I/O of one of these blocks has failed in this way since @begin. */
bool store_has_failed(const struct store *store, enum store_failure failure, unsigned int block,
		      unsigned int count, uint64_t begin);
/*
 * When a sync fails, each write that is not durable may be lost, as when the kernel drops pages;
 * reads return it until the backend is closed. From then until the backend is closed no write and
 * no sync may succeed.
 * store_refuses(): whether that was so at some time since @begin; store_has_refused(): at all times
 * since then.
 */
bool store_refuses(const struct store *store, uint64_t begin);
bool store_has_refused(const struct store *store, uint64_t begin);

/* What the store tells of; each member may be NULL. */
struct store_watcher {
	void (*written)(void *arg, uint64_t value); /* a write takes effect on a block */
	void (*begins)(void *arg, const struct rdt_bio *bio);
	/*
	 * @bio is about to store @value in @block, and has read @block. Returns what is stored
	 * instead: zeroes are told apart by the commands that have stored them.
	 */
	uint64_t (*stores)(void *arg, const struct rdt_bio *bio, unsigned int block,
			   uint64_t value);
	void (*reads)(void *arg, const struct rdt_bio *bio, unsigned int block);
	void (*misused)(void *arg, const char *what); /* by its user */
	/* What a failed sync has lost is gone: the store was restarted as by store_restart(). */
	void (*dropped)(void *arg);
};
void store_watch(struct store *store, const struct store_watcher *watcher, void *arg);

/*
 * The next call that submits an I/O blocks for @ns, as a system call does on storage that hangs:
 * @fn has the others go on meanwhile. @loop: of the thread that is blocked.
 */
void store_on_block(struct store *store,
		    void (*fn)(void *arg, const struct rd_loop *loop, uint64_t ns));
void store_block_next(struct store *store, uint64_t ns);

/* Opens a backend on the first @size bytes of @store, which may be resized; @log: gets a line about
 * a failed sync. Returns 0 or -ENOMEM. */
int disk_open(struct store *store, uint64_t size, struct rd_log *log, struct rdt_bdev **out);

/* Fills a block with @value; and the value of a block, or UINT64_MAX if it is torn. */
void block_fill(void *block, uint64_t value);
uint64_t block_value(const void *block);

#endif /* SIM_DISK_H */
