/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory keys. lkey and rkey are the same number: the slot in a table, and random bits that change
 * with each registration, so that a peer can neither guess a key nor use an old one. The table
 * grows with the number of regions: 26 bits are random up to 63 regions, one less for each
 * doubling, and 14 at the limit of 262,143. The address that a peer sees is random as well: 32
 * random bits and the offset in a page.
 */
#include <errno.h>
#include <stdlib.h>

#include "fab.h"
#include "mr.h"

#define MR_SLOTS     64u
#define MR_MAX_SLOTS (1u << 18)
#define PAGE_BITS    12

void rd_iw_mr_table_init(struct rd_iw_mr_table *t)
{
	STAILQ_INIT(&t->free);
	SLIST_INIT(&t->chunks);
	t->none.invalidated = true;
	t->first = &t->none;
	t->slots = &t->first;
}

void rd_iw_mr_table_fini(struct rd_iw_mr_table *t)
{
	struct rd_iw_mr_chunk *chunk;

	while ((chunk = SLIST_FIRST(&t->chunks))) {
		SLIST_REMOVE_HEAD(&t->chunks, link);
		free(chunk);
	}
	if (t->slots != &t->first)
		free(t->slots);
	rd_iw_mr_table_init(t);
	t->mask = 0;
}

/*
 * Doubles a table without free slots. Keys do not change: one more of their random bits becomes a
 * part of the slot number.
 */
static int mr_grow(struct rd_iw_mr_table *t)
{
	uint32_t old = t->mask, size = old ? (old + 1) * 2 : MR_SLOTS;
	struct rd_iw_mr_chunk *chunk;
	struct rd_iw_mr **slots, *mr;

	if (size > MR_MAX_SLOTS)
		return -ENOMEM;
	slots = malloc(size * sizeof(struct rd_iw_mr *));
	chunk = calloc(1, sizeof(*chunk) + (size - 1 - old) * sizeof(chunk->mrs[0]));
	if (!slots || !chunk) {
		free(slots);
		free(chunk);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < size; i++)
		slots[i] = &t->none;
	for (uint32_t i = 1; i <= old; i++)
		slots[t->slots[i]->base.lkey & (size - 1)] = t->slots[i];
	mr = chunk->mrs;
	for (uint32_t i = 1; i < size; i++) {
		if (slots[i] != &t->none)
			continue;
		mr->base.lkey = i;
		STAILQ_INSERT_TAIL(&t->free, mr, free_link);
		mr++;
	}
	if (t->slots != &t->first)
		free(t->slots);
	SLIST_INSERT_HEAD(&t->chunks, chunk, link);
	t->slots = slots;
	t->mask = size - 1;
	return 0;
}

/*
 * Chooses the next key of @mr's slot, and the address that peers see. A region without remote
 * access needs no random bits.
 */
static void name_mr(struct rd_iw_dev *dev, struct rd_iw_mr *mr)
{
	uint32_t mask = dev->mrs.mask, old = mr->base.lkey;
	uintptr_t addr = (uintptr_t)mr->base.addr;
	uint64_t r;

	if (!mr->access) {
		mr->base.lkey = old + mask + 1;
		mr->base.iova = addr;
		return;
	}
	do {
		r = rd_loop_random64(dev->base.fab->loop);
		mr->base.lkey = ((uint32_t)(r >> 32) & ~mask) | (old & mask);
	} while (mr->base.lkey == old);
	mr->base.iova = (uint64_t)(uint32_t)r << PAGE_BITS | (addr & ((1u << PAGE_BITS) - 1));
}

int rd_iw_reg_mr(struct rd_fab_dev *fdev, void *addr, size_t len, int access,
		 struct rd_fab_mr **out)
{
	struct rd_iw_dev *dev = rd_iw_dev(fdev);
	struct rd_iw_mr_table *t = &dev->mrs;
	struct rd_iw_mr *mr;

	if (!addr || !len || (uintptr_t)addr + len < len)
		return -EINVAL;
	/* As in verbs, remote write access requires local write access. */
	if ((access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	if (STAILQ_EMPTY(&t->free) && mr_grow(t))
		return -ENOMEM;
	mr = STAILQ_FIRST(&t->free);
	STAILQ_REMOVE_HEAD(&t->free, free_link);
	mr->base.dev = fdev;
	mr->base.addr = addr;
	mr->base.length = len;
	mr->access = access;
	mr->invalidated = false;
	name_mr(dev, mr);
	mr->base.rkey = mr->base.lkey;
	t->slots[mr->base.lkey & t->mask] = mr;
	rd_iw_dev_stats(dev)->mrs++;
	*out = &mr->base;
	return 0;
}

void rd_iw_dereg_mr(struct rd_fab_mr *base)
{
	struct rd_iw_mr *mr = rd_container_of(base, struct rd_iw_mr, base);
	struct rd_iw_dev *dev = rd_iw_dev(base->dev);
	struct rd_iw_mr_table *t = &dev->mrs;

	t->slots[mr->base.lkey & t->mask] = &t->none;
	STAILQ_INSERT_TAIL(&t->free, mr, free_link);
	rd_iw_dev_stats(dev)->mrs--;
}

uint64_t rd_iw_mr_shown(const struct rd_iw_dev *dev, const struct ibv_sge *sge)
{
	const struct rd_iw_mr *mr = rd_iw_mr_find(dev, sge->lkey);

	return mr ? sge->addr - (uintptr_t)mr->base.addr + mr->base.iova : sge->addr;
}

enum rd_iw_mr_fault rd_iw_mr_remote(struct rd_iw_dev *dev, uint32_t stag, uint64_t to, uint32_t len,
				    int access, void **out)
{
	const struct rd_iw_mr *mr = rd_iw_mr_find(dev, stag);
	uint64_t off;

	if (!mr || mr->invalidated)
		return RD_IW_MR_STAG;
	if (!(mr->access & access))
		return RD_IW_MR_ACCESS;
	if (to + len < to)
		return RD_IW_MR_WRAP;
	off = to - mr->base.iova; /* @to below it: wraps to a large value */
	if (off > mr->base.length || len > mr->base.length - off)
		return RD_IW_MR_BOUNDS;
	*out = (uint8_t *)mr->base.addr + off;
	return RD_IW_MR_OK;
}

int rd_iw_mr_invalidate(struct rd_iw_dev *dev, uint32_t stag)
{
	struct rd_iw_mr *mr = rd_iw_mr_find(dev, stag);

	/* A peer can invalidate only a region with remote access. */
	if (!mr || !(mr->access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)))
		return -EACCES;
	mr->invalidated = true;
	return 0;
}

static __attribute__((noinline)) int gather(struct rd_iw_dev *dev, const struct ibv_sge *sge, int n,
					    uint64_t off, uint32_t len, bool write,
					    struct iovec *iov)
{
	int count = 0;

	for (int i = 0; i < n && len; i++) {
		uint32_t part;

		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		part = (uint32_t)(sge[i].length - off);
		if (part > len)
			part = len;
		if (!rd_iw_mr_local_ok(dev, sge[i].lkey, sge[i].addr + off, part, write))
			return -EFAULT;
		iov[count].iov_base = (void *)(uintptr_t)(sge[i].addr + off);
		iov[count++].iov_len = part;
		len -= part;
		off = 0;
	}
	return len ? -EFAULT : count;
}

int rd_iw_sge_iov(struct rd_iw_dev *dev, const struct ibv_sge *sge, int n, uint64_t off,
		  uint32_t len, bool write, struct iovec *iov)
{
	/* In most cases the first entry contains all of it. */
	if (n <= 0 || !len || off >= sge->length || len > sge->length - off)
		return gather(dev, sge, n, off, len, write, iov);
	if (!rd_iw_mr_local_ok(dev, sge->lkey, sge->addr + off, len, write))
		return -EFAULT;
	iov->iov_base = (void *)(uintptr_t)(sge->addr + off);
	iov->iov_len = len;
	return 1;
}
