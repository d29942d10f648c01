/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data buffers and how the target accesses them. Where registration is cheap, each command
 * registers the caller's buffer until it completes, with only the access that its direction needs.
 * Elsewhere the buffer is part of a region that the application registered, or the data is copied
 * through bounce memory.
 */
#include <errno.h>
#include <sys/mman.h>

#include "rdma.h"

#define BOUNCE_UNIT   4096
#define BOUNCE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static int map_bounce(struct rdi_queue *q, struct rdi_req *req)
{
	struct rdi_rdma_conn *c = q->conn;
	struct rdi_rdma_req *rr = rdi_rdma_req(req);
	void *p;

	if (!c->buddy || req->len > q->cfg.max_data)
		return -EMSGSIZE;
	p = rd_buddy_alloc(c->buddy, req->len);
	if (!p)
		return -EAGAIN;
	if (req->dir == RDI_OUT)
		memcpy(p, req->data, req->len);
	rr->mr = c->bounce_mr;
	rr->region = NULL;
	rr->addr = p;
	req->mapped = RDI_MAP_BOUNCE;
	return 0;
}

int rdi_rdma_map_shared(struct rdi_queue *q, struct rdi_req *req)
{
	struct rdi_region *region = rdi_region_find(q, req->data, req->len);
	struct rdi_rdma_req *rr = rdi_rdma_req(req);

	if (!region || !region->mr)
		return map_bounce(q, req);
	region->users++;
	rr->mr = region->mr;
	rr->region = region;
	rr->addr = req->data;
	req->mapped = RDI_MAP_REGION;
	return 0;
}

static __attribute__((noinline)) void unmap_shared(struct rdi_queue *q, struct rdi_req *req,
						   bool done)
{
	struct rdi_rdma_conn *c = q->conn;
	struct rdi_rdma_req *rr = rdi_rdma_req(req);

	if (req->mapped == RDI_MAP_REGION) {
		rr->region->users--;
	} else if (req->mapped == RDI_MAP_BOUNCE && c->buddy) { /* else drop() has freed it */
		if (done && req->dir == RDI_IN)
			memcpy(req->data, rr->addr, req->len);
		rd_buddy_free(c->buddy, rr->addr, req->len);
	}
	req->mapped = RDI_MAP_NONE;
}

void rdi_rdma_unmap(struct rdi_queue *q, struct rdi_req *req, bool done)
{
	struct rd_fab_mr *mr = rdi_rdma_req(req)->mr;

	if (__builtin_expect(req->mapped != RDI_MAP_OWN, 0)) {
		unmap_shared(q, req, done);
		return;
	}
	req->mapped = RDI_MAP_NONE;
	mr->dev->ops->dereg_mr(mr);
}

/* ---- bounce memory ---- */

int rdi_rdma_bounce_create(struct rdi_rdma_conn *c)
{
	const struct rdi_queue_cfg *cfg = &c->q->cfg;
	size_t max = BOUNCE_UNIT, len;
	void *p;
	int rc;

	while (max < cfg->max_data)
		max *= 2;
	len = (cfg->bounce_bytes + max - 1) / max * max;
	if (len == 0)
		return 0; /* the application has promised to register all buffers */
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	rc = rd_buddy_create(p, len, BOUNCE_UNIT, max, &c->buddy);
	if (rc)
		goto err_unmap;
	rc = rd_fab_reg_mr(c->dev, p, len, BOUNCE_ACCESS, &c->bounce_mr);
	if (rc)
		goto err_buddy;
	c->bounce = p;
	return 0;

err_buddy:
	rd_buddy_destroy(&c->buddy);
err_unmap:
	munmap(p, len);
	return rc;
}

void rdi_rdma_bounce_destroy(struct rdi_rdma_conn *c)
{
	size_t len;

	if (!c->bounce)
		return;
	len = rd_buddy_total_bytes(c->buddy);
	rd_fab_dereg_mr(&c->bounce_mr);
	rd_buddy_destroy(&c->buddy);
	munmap(c->bounce, len);
	c->bounce = NULL;
}

/* ---- regions ---- */

int rdi_rdma_reg(struct rdi_queue *q, void *addr, size_t len, void **out)
{
	struct rdi_rdma_conn *c = q->conn;
	struct rd_fab_mr *mr = NULL;
	int rc = 0;

	if (!c->dev->caps.cheap_mr)
		rc = rd_fab_reg_mr(c->dev, addr, len, BOUNCE_ACCESS, &mr);
	*out = mr;
	return rc;
}

void rdi_rdma_dereg(struct rdi_queue *q, void *mr)
{
	struct rd_fab_mr *fab_mr = mr;

	(void)q;
	rd_fab_dereg_mr(&fab_mr);
}
