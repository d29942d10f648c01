/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of a channel, which are registered with each of its queues, and the pool of such
 * buffers. */
#include <errno.h>
#include <sys/mman.h>

#include "dev.h"
#include "util/buddy.h"

#define POOL_UNIT 4096

int rdi_chan_mem_attach(const struct rdinit_dev_chan *chan, struct rdi_queue *q)
{
	unsigned int i;
	int rc = 0;

	for (i = 0; !rc && i < chan->n_regions; i++)
		rc = rdi_region_add(q, chan->regions[i].iov_base, chan->regions[i].iov_len);
	return rc;
}

static bool regions_overlap(const struct iovec *a, const struct iovec *b)
{
	uintptr_t x = (uintptr_t)a->iov_base, y = (uintptr_t)b->iov_base;

	return x < y ? y - x < a->iov_len : x - y < b->iov_len;
}

/* Registers the newest region with all queues that are up, or with none. */
static int attach_last(struct rdinit_dev_chan *chan)
{
	const struct iovec *r = &chan->regions[chan->n_regions - 1];
	unsigned int i;
	int rc = 0;

	for (i = 0; !rc && i < RDINIT_DEV_PATHS_MAX; i++)
		if (chan->paths[i].up)
			rc = rdi_region_add(&chan->paths[i].qp->q, r->iov_base, r->iov_len);
	if (!rc)
		return 0;
	while (i-- > 0)
		if (chan->paths[i].up)
			rdi_region_del(&chan->paths[i].qp->q, r->iov_base);
	return rc;
}

int rdinit_dev_mem_register(struct rdinit_dev_chan *chan, void *addr, size_t len)
{
	struct iovec region = {addr, len};
	unsigned int i;
	int rc;

	if (rdi_is_foreign(RDI_HANDLE(chan)))
		return rdi_foreign(RDI_HANDLE(chan), __func__);
	if (!addr || !len || (uintptr_t)addr + len < (uintptr_t)addr)
		return rdi_fail(__func__, -EINVAL, "the buffer is NULL, or its size is wrong (%zu)",
				len);
	for (i = 0; i < chan->n_regions; i++)
		if (regions_overlap(&chan->regions[i], &region))
			return rdi_fail(__func__, -EINVAL,
					"the buffer overlaps one that is registered");
	if (chan->n_regions == RDINIT_DEV_REGIONS_MAX)
		return rdi_fail(__func__, -ENOSPC, "%u buffers are registered, as many as possible",
				chan->n_regions);
	chan->regions[chan->n_regions++] = region;
	rc = attach_last(chan);
	if (!rc)
		return 0;
	chan->n_regions--;
	return rdi_fail(__func__, rc, "%s", strerror(-rc));
}

/* Whether a command that has not completed uses memory of @region. */
static bool region_is_used(const struct rdinit_dev_chan *chan, const struct iovec *region)
{
	unsigned int i;

	for (i = 0; i <= chan->depth; i++) {
		const struct rdi_io *io = &chan->ios[i];
		struct iovec data = {io->buf,
				     ((size_t)io->nblocks + io->rest) * chan->dev->block_size};

		if (io->busy && io->buf && regions_overlap(region, &data))
			return true;
		data.iov_base = (void *)(uintptr_t)io->write_buf;
		if (io->busy && io->write_buf && regions_overlap(region, &data))
			return true;
	}
	return false;
}

int rdinit_dev_mem_unregister(struct rdinit_dev_chan *chan, void *addr)
{
	unsigned int i, at = 0;

	if (rdi_is_foreign(RDI_HANDLE(chan)))
		return rdi_foreign(RDI_HANDLE(chan), __func__);
	while (at < chan->n_regions && chan->regions[at].iov_base != addr)
		at++;
	if (at == chan->n_regions || addr == chan->pool)
		return rdi_fail(__func__, -ENOENT, "no buffer at that address is registered");
	if (region_is_used(chan, &chan->regions[at]))
		return rdi_fail(__func__, -EBUSY, "a command in flight uses the buffer");
	for (i = 0; i < RDINIT_DEV_PATHS_MAX; i++)
		if (chan->paths[i].up)
			rdi_region_del(&chan->paths[i].qp->q, addr);
	chan->regions[at] = chan->regions[--chan->n_regions];
	return 0;
}

/* ---- the pool ---- */

int rdi_chan_pool_create(struct rdinit_dev_chan *chan, size_t bytes)
{
	size_t max = POOL_UNIT;
	void *p;
	int rc;

	if (bytes == 0)
		return 0;
	while (max < bytes)
		max *= 2;
	p = mmap(NULL, max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	rc = rd_buddy_create(p, max, POOL_UNIT, max, &chan->buddy);
	if (rc) {
		munmap(p, max);
		return rc;
	}
	chan->pool = p;
	chan->regions[chan->n_regions++] = (struct iovec){p, max};
	return 0;
}

void rdi_chan_pool_destroy(struct rdinit_dev_chan *chan)
{
	if (!chan->pool)
		return;
	munmap(chan->pool, rd_buddy_total_bytes(chan->buddy));
	rd_buddy_destroy(&chan->buddy);
}

void *rdinit_dev_buf_alloc(struct rdinit_dev_chan *chan, size_t len)
{
	void *buf = NULL;

	if (!chan) {
		rdi_no_handle(__func__);
		return NULL;
	}
	if (chan->pool)
		buf = rd_buddy_alloc(chan->buddy, len);
	if (!buf)
		rdi_fail(__func__, -ENOMEM,
			 "the pool (%zu bytes, see pool_bytes) has no room for %zu bytes",
			 chan->pool ? rd_buddy_total_bytes(chan->buddy) : 0, len);
	return buf;
}

void rdinit_dev_buf_free(struct rdinit_dev_chan *chan, void *buf, size_t len)
{
	if (chan && buf && chan->pool && rd_buddy_owns(chan->buddy, buf))
		rd_buddy_free(chan->buddy, buf, len);
}
