/* SPDX-License-Identifier: BSD-3-Clause */
/* The device, and its memory regions: registration, checks, invalidation. */
#ifndef RD_IW_MR_H
#define RD_IW_MR_H

#include <sys/queue.h>
#include <sys/uio.h>

#include "fabric/fabric.h"
#include "util/loop.h"

struct rd_iw_mr {
	struct rd_fab_mr base;
	STAILQ_ENTRY(rd_iw_mr) free_link;
	int access;
	bool invalidated; /* by the peer: no remote access any more */
};

struct rd_iw_mr_chunk {
	SLIST_ENTRY(rd_iw_mr_chunk) link;
	struct rd_iw_mr mrs[];
};

/* A table of 2^n slots. The low n bits of a key are its slot, all others are random. */
struct rd_iw_mr_table {
	struct rd_iw_mr **slots; /* where nothing is registered: @none */
	uint32_t mask;
	struct rd_iw_mr none;   /* key 0, and of no use; slot 0 stays empty so that nobody has it */
	struct rd_iw_mr *first; /* the slots of a table without any */
	SLIST_HEAD(, rd_iw_mr_chunk) chunks;
	STAILQ_HEAD(, rd_iw_mr)
	free; /* oldest first: a slot rests before it is used again */
};

struct rd_iw_dev {
	struct rd_fab_dev base;
	struct rd_iw_mr_table mrs;
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

/* The region of @key, or NULL. */
static inline struct rd_iw_mr *rd_iw_mr_find(const struct rd_iw_dev *dev, uint32_t key)
{
	struct rd_iw_mr *mr = dev->mrs.slots[key & dev->mrs.mask];

	return mr->base.lkey == key ? mr : NULL;
}

static inline bool rd_iw_mr_covers(const struct rd_iw_mr *mr, uint64_t addr, uint64_t len)
{
	uint64_t off = addr - (uintptr_t)mr->base.addr; /* beyond its length when it is before it */

	return off <= mr->base.length && len <= mr->base.length - off;
}

/* May the owner use [@addr, @addr + @len) with @lkey (and write to it)? */
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

/* May a peer use it? @access is IBV_ACCESS_REMOTE_READ or _WRITE. *@out: where it is. */
enum rd_iw_mr_fault rd_iw_mr_remote(struct rd_iw_dev *dev, uint32_t stag, uint64_t to, uint32_t len,
				    int access, void **out);
/* What a peer knows as @sge's address. */
uint64_t rd_iw_mr_shown(const struct rd_iw_dev *dev, const struct ibv_sge *sge);
/* A peer's SEND with Invalidate. Returns 0 or -EACCES. */
int rd_iw_mr_invalidate(struct rd_iw_dev *dev, uint32_t stag);

/*
 * The memory of bytes [@off, @off + @len) of a gather list as @iov. Returns the number of entries,
 * or -EFAULT when a key does not cover it.
 */
int rd_iw_sge_iov(struct rd_iw_dev *dev, const struct ibv_sge *sge, int n, uint64_t off,
		  uint32_t len, bool write, struct iovec *iov);

#endif /* RD_IW_MR_H */
