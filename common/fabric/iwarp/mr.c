/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory keys. lkey and rkey are the same number: a table index and random bits. These change with
 * each registration, so that a peer can neither guess a key nor use an old one.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define MR_GEN_MASK  ((1u << RD_IW_MR_GEN_BITS) - 1)
#define MR_MAX_SLOTS (1u << (32 - RD_IW_MR_GEN_BITS))
#define MR_INIT_SIZE 64

void rd_iw_mr_table_init(struct rd_iw_mr_table *t)
{
	STAILQ_INIT(&t->free);
	t->used = 1;
}

void rd_iw_mr_table_fini(struct rd_iw_mr_table *t)
{
	for (uint32_t i = 1; i < t->used; i++)
		free(t->slots[i]);
	free(t->slots);
	t->slots = NULL;
	t->used = t->size = 0;
}

static struct rd_iw_mr *mr_grow(struct rd_iw_mr_table *t)
{
	struct rd_iw_mr *mr;

	if (t->used >= t->size) {
		uint32_t size = t->size ? t->size * 2 : MR_INIT_SIZE;
		struct rd_iw_mr **slots;

		if (t->used >= MR_MAX_SLOTS)
			return NULL;
		slots = realloc(t->slots, size * sizeof(struct rd_iw_mr *));
		if (!slots)
			return NULL;
		slots[0] = NULL;
		t->slots = slots;
		t->size = size;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->base.lkey = t->used << RD_IW_MR_GEN_BITS;
	t->slots[t->used++] = mr;
	return mr;
}

/* The next key of the slot of @old. Only a peer could guess one. */
static uint32_t next_key(struct rd_loop *loop, uint32_t old, int access)
{
	uint32_t slot = old & ~MR_GEN_MASK, key;

	if (!(access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)))
		return slot | ((old + 1) & MR_GEN_MASK);
	do {
		key = slot | (rd_loop_random32(loop) & MR_GEN_MASK);
	} while (key == old);
	return key;
}

int rd_iw_reg_mr(struct rd_fab_dev *fdev, void *addr, size_t len, int access,
		 struct rd_fab_mr **out)
{
	struct rd_iw_dev *dev = rd_iw_dev(fdev);
	struct rd_iw_mr_table *t = &dev->mrs;
	struct rd_iw_mr *mr;

	if (!addr || !len || (uintptr_t)addr + len < len)
		return -EINVAL;
	/* As verbs: who lets a peer write must be able to write itself. */
	if ((access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	mr = STAILQ_FIRST(&t->free);
	if (mr)
		STAILQ_REMOVE_HEAD(&t->free, free_link);
	else
		mr = mr_grow(t);
	if (!mr)
		return -ENOMEM;
	mr->base.lkey = next_key(fdev->fab->loop, mr->base.lkey, access);
	mr->base.rkey = mr->base.lkey;
	mr->base.dev = fdev;
	mr->base.addr = addr;
	mr->base.length = len;
	mr->access = access;
	mr->live = true;
	mr->invalidated = false;
	rd_iw_dev_stats(dev)->mrs++;
	*out = &mr->base;
	return 0;
}

void rd_iw_dereg_mr(struct rd_fab_mr *base)
{
	struct rd_iw_mr *mr = rd_container_of(base, struct rd_iw_mr, base);
	struct rd_iw_dev *dev = rd_iw_dev(base->dev);

	mr->live = false;
	STAILQ_INSERT_TAIL(&dev->mrs.free, mr, free_link);
	rd_iw_dev_stats(dev)->mrs--;
}

enum rd_iw_mr_fault rd_iw_mr_remote(struct rd_iw_dev *dev, uint32_t stag, uint64_t to, uint32_t len,
				    int access)
{
	const struct rd_iw_mr *mr = rd_iw_mr_find(dev, stag);

	if (!mr || mr->invalidated)
		return RD_IW_MR_STAG;
	if (!(mr->access & access))
		return RD_IW_MR_ACCESS;
	if (to + len < to)
		return RD_IW_MR_WRAP;
	if (!rd_iw_mr_covers(mr, to, len))
		return RD_IW_MR_BOUNDS;
	return RD_IW_MR_OK;
}

int rd_iw_mr_invalidate(struct rd_iw_dev *dev, uint32_t stag)
{
	struct rd_iw_mr *mr = rd_iw_mr_find(dev, stag);

	/* What was never open to the peer is not the peer's to close. */
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
	/* Nearly always it is all in the first entry. */
	if (n <= 0 || !len || off >= sge->length || len > sge->length - off)
		return gather(dev, sge, n, off, len, write, iov);
	if (!rd_iw_mr_local_ok(dev, sge->lkey, sge->addr + off, len, write))
		return -EFAULT;
	iov->iov_base = (void *)(uintptr_t)(sge->addr + off);
	iov->iov_len = len;
	return 1;
}
