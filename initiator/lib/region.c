/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the application registered with a queue. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* By binary search. */
struct rdi_region *rdi_region_find(struct rdi_queue *q, const void *data, size_t len)
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
	rc = q->ops->reg(q, addr, len, &r->mr);
	if (rc) {
		free(r);
		return rc;
	}
	memmove(&regions[i + 1], &regions[i], (q->n_regions - i) * sizeof(*regions));
	regions[i] = r;
	q->n_regions++;
	return 0;
}

static void free_region(struct rdi_queue *q, struct rdi_region *r)
{
	if (r->mr)
		q->ops->dereg(q, r->mr);
	free(r);
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
	free_region(q, q->regions[i]);
	q->n_regions--;
	memmove(&q->regions[i], &q->regions[i + 1], (q->n_regions - i) * sizeof(*q->regions));
	return 0;
}

void rdi_region_clear(struct rdi_queue *q)
{
	size_t i;

	for (i = 0; i < q->n_regions; i++)
		free_region(q, q->regions[i]);
	free(q->regions);
	q->regions = NULL;
	q->n_regions = 0;
}
