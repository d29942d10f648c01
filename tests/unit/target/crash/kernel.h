/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel for the engines: it takes what they submit to io_uring and to threads, keeps the file in
 * memory as a page cache does, and completes I/Os in an order that comes from a seed, some of them
 * short, or not without blocking. It records for each sector what can be on the disk (versions.h).
 * Only submitting and reaping are replaced, so that the entries and flags are those that the real
 * kernel would get.
 *
 * Linked with --wrap of io_uring_submit, rdt_workers_submit, preadv2 and rdt_engine_complete.
 */
#ifndef T_KERNEL_H
#define T_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "util/random.h"
#include "versions.h"

/* What a wrong target would do, as the kernel sees it. */
enum t_mistake {
	T_NO_MISTAKE,
	T_SYNC_DROPPED,       /* fdatasync is not called */
	T_DSYNC_DROPPED,      /* RWF_DSYNC is not set */
	T_SYNC_EARLY,         /* fdatasync begins before the write has ended */
	T_SYNC_ELSEWHERE,     /* fdatasync of another range */
	T_ANSWER_BEFORE_SYNC, /* a write with FUA is answered, then the sync is started */
};

#define T_KERNEL_OPS 256u

struct t_kernel_op; /* private */

struct t_kernel {
	uint64_t size;
	uint8_t *cache;
	struct t_versions disk;
	uint64_t now; /* the clock of all events; t_kernel_tick() */
	struct rd_random random;
	enum t_mistake mistake;
	unsigned int fail_sync; /* one of so many syncs fails with EIO; 0: none */
	struct t_kernel_op *ops[T_KERNEL_OPS];
	unsigned int count;
	unsigned int syncs, dsyncs, shorts; /* how many there were */
};

/* One at a time. Sector s of the file contains @content(s), durably. */
void t_kernel_init(struct t_kernel *k, uint64_t size, uint64_t seed,
		   uint64_t (*content)(uint64_t sector));
void t_kernel_fini(struct t_kernel *k);
/* The next moment: no two events have the same. */
uint64_t t_kernel_tick(struct t_kernel *k);
uint64_t t_kernel_random(struct t_kernel *k, uint64_t below);
/* Complete one I/O, if there is any. */
bool t_kernel_step(struct t_kernel *k);

void t_sector_fill(void *sector, uint64_t content);
/* The content; the test fails when the sector is not uniform. */
uint64_t t_sector_content(const void *sector);

#endif /* T_KERNEL_H */
