/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data buffers and how the target accesses them. Where registration is cheap, each command
 * registers the caller's buffer until it completes, with only the access that its direction needs.
 * Elsewhere the buffer is part of a region that the application registered, or the data is copied
 * through bounce memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

#define BOUNCE_UNIT   4096
#define BOUNCE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* The region that holds all of [@data, @data + @len), by binary search. */
static struct rdi_region *find_region(struct rdi_queue *q, const void *data, size_t len)
{
	uintptr_t start = (uintptr_t)data;
	size_t lo = 0, hi = q->n_regions;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		struct rdi_region *r = q->regions[mid];
		uintptr_t base = (uintptr_t)r->addr;

		if (start < base)
			hi = mid;
		else if (start - base >= r->len)
			lo = mid + 1;
		else
			return r->len - (start - base) >= len ? r : NULL;
	}
	return NULL;
}

static int map_bounce(struct rdi_queue *q, struct rdi_req *req)
{
	void *p;

	if (!q->buddy || req->len > q->cfg.max_data)
		return -EMSGSIZE;
	p = rd_buddy_alloc(q->buddy, req->len);
	if (!p)
		return -EAGAIN;
	if (req->dir == RDI_OUT)
		memcpy(p, req->data, req->len);
	req->map = (struct rdi_map){.mr = q->bounce_mr, .addr = p};
	req->map_kind = RDI_MAP_BOUNCE;
	return 0;
}

int rdi_map_shared(struct rdi_queue *q, struct rdi_req *req)
{
	struct rdi_region *region = find_region(q, req->data, req->len);

	if (!region || !region->mr)
		return map_bounce(q, req);
	region->users++;
	req->map = (struct rdi_map){.mr = region->mr, .region = region, .addr = req->data};
	req->map_kind = RDI_MAP_REGION;
	return 0;
}

void rdi_unmap_shared(struct rdi_queue *q, struct rdi_req *req, bool done)
{
	switch ((enum rdi_map_kind)req->map_kind) {
	case RDI_MAP_NONE:
	case RDI_MAP_OWN:
		break;
	case RDI_MAP_REGION:
		req->map.region->users--;
		break;
	case RDI_MAP_BOUNCE:
		if (done && req->dir == RDI_IN)
			memcpy(req->data, req->map.addr, req->len);
		rd_buddy_free(q->buddy, req->map.addr, req->len);
		break;
	}
}

/* ---- bounce memory ---- */

int rdi_bounce_create(struct rdi_queue *q)
{
	size_t max = BOUNCE_UNIT, len;
	void *p;
	int rc;

	while (max < q->cfg.max_data)
		max *= 2;
	len = (q->cfg.bounce_bytes + max - 1) / max * max;
	if (len == 0)
		return 0; /* the application has promised to register all buffers */
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	rc = rd_buddy_create(p, len, BOUNCE_UNIT, max, &q->buddy);
	if (rc)
		goto err_unmap;
	rc = rd_fab_reg_mr(q->dev, p, len, BOUNCE_ACCESS, &q->bounce_mr);
	if (rc)
		goto err_buddy;
	q->bounce = p;
	return 0;

err_buddy:
	rd_buddy_destroy(&q->buddy);
err_unmap:
	munmap(p, len);
	return rc;
}

void rdi_bounce_destroy(struct rdi_queue *q)
{
	size_t len;

	if (!q->bounce)
		return;
	len = rd_buddy_total_bytes(q->buddy);
	rd_fab_dereg_mr(&q->bounce_mr);
	rd_buddy_destroy(&q->buddy);
	munmap(q->bounce, len);
	q->bounce = NULL;
}

/* ---- regions ---- */

int rdi_region_add(struct rdi_queue *q, void *addr, size_t len)
{
	uintptr_t start = (uintptr_t)addr;
	struct rdi_region **regions, *r;
	size_t i = 0;
	int rc;

	if (len == 0 || start + len < start)
		return -EINVAL;
	while (i < q->n_regions && (uintptr_t)q->regions[i]->addr < start)
		i++;
	if (i > 0 && start - (uintptr_t)q->regions[i - 1]->addr < q->regions[i - 1]->len)
		return -EINVAL;
	if (i < q->n_regions && (uintptr_t)q->regions[i]->addr - start < len)
		return -EINVAL;
	regions = reallocarray(q->regions, q->n_regions + 1, sizeof(*regions));
	if (!regions)
		return -ENOMEM;
	q->regions = regions;
	/* allocated apart from the array, because requests point at it */
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->addr = addr;
	r->len = len;
	if (!q->dev->caps.cheap_mr) {
		rc = rd_fab_reg_mr(q->dev, addr, len, BOUNCE_ACCESS, &r->mr);
		if (rc) {
			free(r);
			return rc;
		}
	}
	memmove(&regions[i + 1], &regions[i], (q->n_regions - i) * sizeof(*regions));
	regions[i] = r;
	q->n_regions++;
	return 0;
}

int rdi_region_del(struct rdi_queue *q, void *addr)
{
	size_t i = 0;

	while (i < q->n_regions && q->regions[i]->addr != addr)
		i++;
	if (i == q->n_regions)
		return -ENOENT;
	if (q->regions[i]->users)
		return -EBUSY;
	rd_fab_dereg_mr(&q->regions[i]->mr);
	free(q->regions[i]);
	q->n_regions--;
	memmove(&q->regions[i], &q->regions[i + 1], (q->n_regions - i) * sizeof(*q->regions));
	return 0;
}

void rdi_region_clear(struct rdi_queue *q)
{
	size_t i;

	for (i = 0; i < q->n_regions; i++) {
		rd_fab_dereg_mr(&q->regions[i]->mr);
		free(q->regions[i]);
	}
	free(q->regions);
	q->regions = NULL;
	q->n_regions = 0;
}
