/* SPDX-License-Identifier: BSD-3-Clause */
/* The device, and its memory regions: registration, checks, invalidation. */
#ifndef RD_IW_MR_H
#define RD_IW_MR_H

#include <sys/queue.h>
#include <sys/uio.h>

#include "fabric/fabric.h"
#include "util/loop.h"
#include "util/rx_turn.h"

struct rd_iw_mr {
	struct rd_fab_mr base;
	STAILQ_ENTRY(rd_iw_mr) free_link;
	int access;
	bool invalidated; /* by a peer: every remote access fails */
};

struct rd_iw_mr_chunk {
	SLIST_ENTRY(rd_iw_mr_chunk) link;
	struct rd_iw_mr mrs[];
};

/* A table of 2^n slots. The low n bits of a key are its slot, the others are random. */
struct rd_iw_mr_table {
	struct rd_iw_mr **slots; /* an empty slot points to @none */
	uint32_t mask;
	struct rd_iw_mr none;   /* has key 0, which is never valid: slot 0 stays empty */
	struct rd_iw_mr *first; /* the one slot of a table that has not grown */
	SLIST_HEAD(, rd_iw_mr_chunk) chunks;
	STAILQ_HEAD(, rd_iw_mr)
	free; /* the one freed first is first: a slot is not reused at once */
};

struct rd_iw_dev {
	struct rd_fab_dev base;
	struct rd_iw_mr_table mrs;
	struct rd_rx_pieces pieces;
	uint32_t next_qpn;
	struct rd_fab_iwarp_scratch *scratch; /* a reference */
};

static inline struct rd_iw_dev *rd_iw_dev(struct rd_fab_dev *dev)
{
	return rd_container_of(dev, struct rd_iw_dev, base);
}

void rd_iw_mr_table_init(struct rd_iw_mr_table *t);
void rd_iw_mr_table_fini(struct rd_iw_mr_table *t);
int rd_iw_reg_mr(struct rd_fab_dev *fdev, void *addr, size_t len, int access,
		 struct rd_fab_mr **out);
void rd_iw_dereg_mr(struct rd_fab_mr *base);

/* Returns the region of @key, or NULL. */
static inline struct rd_iw_mr *rd_iw_mr_find(const struct rd_iw_dev *dev, uint32_t key)
{
	struct rd_iw_mr *mr = dev->mrs.slots[key & dev->mrs.mask];

	return mr->base.lkey == key ? mr : NULL;
}

static inline bool rd_iw_mr_covers(const struct rd_iw_mr *mr, uint64_t addr, uint64_t len)
{
	uint64_t off = addr - (uintptr_t)mr->base.addr; /* @addr below it: wraps to a large value */

	return off <= mr->base.length && len <= mr->base.length - off;
}

/* Whether the owner may use [@addr, @addr + @len) with @lkey, and with @write write to it. */
static inline bool rd_iw_mr_local_ok(const struct rd_iw_dev *dev, uint32_t lkey, uint64_t addr,
				     uint64_t len, bool write)
{
	const struct rd_iw_mr *mr = rd_iw_mr_find(dev, lkey);

	return mr && rd_iw_mr_covers(mr, addr, len) &&
	       (!write || (mr->access & IBV_ACCESS_LOCAL_WRITE));
}

enum rd_iw_mr_fault {
	RD_IW_MR_OK,
	RD_IW_MR_STAG, /* unknown, deregistered or invalidated */
	RD_IW_MR_ACCESS,
	RD_IW_MR_BOUNDS,
	RD_IW_MR_WRAP,
};

/*
 * Whether a peer may access @len bytes at its address @to with @stag. @access:
 * IBV_ACCESS_REMOTE_READ or IBV_ACCESS_REMOTE_WRITE. *@out: their virtual address.
 */
enum rd_iw_mr_fault rd_iw_mr_remote(struct rd_iw_dev *dev, uint32_t stag, uint64_t to, uint32_t len,
				    int access, void **out);
/* Returns the address by which a peer reaches the memory of @sge, whose key is valid. */
uint64_t rd_iw_mr_shown(const struct rd_iw_dev *dev, const struct ibv_sge *sge);
/* A peer invalidates @stag. Returns 0 or -EACCES. */
int rd_iw_mr_invalidate(struct rd_iw_dev *dev, uint32_t stag);

/*
 * Fills @iov with the memory of bytes [@off, @off + @len) of the scatter/gather list @sge. @write:
 * the memory will be written. Returns the number of entries, or -EFAULT if a key does not allow
 * that.
 */
int rd_iw_sge_iov(struct rd_iw_dev *dev, const struct ibv_sge *sge, int n, uint64_t off,
		  uint32_t len, bool write, struct iovec *iov);

#endif /* RD_IW_MR_H */
