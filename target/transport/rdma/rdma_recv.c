/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RECVs for capsules: each has a slot for the SQE and an area for in-capsule data. On devices where
 * messages wait for a RECV (caps.srq_waits), all I/O queues of a reactor use one pool of RECVs and
 * all admin queues another, so that I/O in slow backends does not delay admin commands. A pool
 * grows on demand up to its limit; beyond that, hosts wait. As for data buffers (pool.c), each host
 * has a share of the pool, so that a host whose commands keep RECVs for a long time leaves some for
 * others. On other devices each queue pair has its own RECVs.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "util/cold.h"
#include "util/log.h"
#include "nvmf/wire.h"
#include "fabric/fabric.h"
#include "target/nvmf/pool.h"
#include "rdma.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"

#define POOL_FIRST 64u   /* initial number of RECVs; doubled each time */
#define POOL_ADMIN 1024u /* maximum size of the admin queues' pool */
#define POOL_MIN   16u

static size_t data_stride(uint32_t in_capsule_max)
{
	/* Whole pages, so that data can be written with O_DIRECT. */
	return (in_capsule_max + (size_t)RDT_BUFFER_UNIT - 1) & ~((size_t)RDT_BUFFER_UNIT - 1);
}

/* ---- areas: memory, its registration, and RECVs on it ---- */

static void init_recv(struct rdt_rdma_area *area, uint32_t i, uint32_t in_capsule_max)
{
	struct rdt_rdma_recv *recv = &area->recvs[i];
	size_t stride = data_stride(in_capsule_max);
	uint8_t *sqes = area->mem + stride * area->count;

	rdt_rdma_wr_init(&recv->wr, RDT_WR_RECV);
	recv->cap.sqe = (void *)(sqes + (size_t)NVME_SQE_SIZE * i);
	recv->cap.data = area->mem + stride * i;
	recv->sge[0] = (struct ibv_sge){(uintptr_t)recv->cap.sqe, NVME_SQE_SIZE, area->mr->lkey};
	recv->sge[1] = (struct ibv_sge){(uintptr_t)recv->cap.data, in_capsule_max, area->mr->lkey};
	recv->rwr.wr_id = (uintptr_t)&recv->wr;
	recv->rwr.sg_list = recv->sge;
	recv->rwr.num_sge = in_capsule_max ? 2 : 1;
}

static void area_free(struct rdt_rdma_area **areap)
{
	struct rdt_rdma_area *area = *areap;

	if (!area)
		return;
	rd_fab_dereg_mr(&area->mr);
	if (area->mem)
		munmap(area->mem, area->len);
	free(area->recvs);
	free(area);
	*areap = NULL;
}

static int area_create(struct rd_fab_dev *dev, uint32_t count, uint32_t in_capsule_max,
		       struct rdt_rdma_area **out)
{
	size_t per_recv = data_stride(in_capsule_max) + NVME_SQE_SIZE;
	struct rdt_rdma_area *area = calloc(1, sizeof(*area));
	int err = -ENOMEM;

	if (!area)
		return err;
	area->count = count;
	area->len = per_recv * count;
	area->mem =
		mmap(NULL, area->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area->mem == MAP_FAILED) {
		area->mem = NULL;
		goto err_free;
	}
	area->recvs = calloc(count, sizeof(*area->recvs));
	if (!area->recvs)
		goto err_free;
	err = rd_fab_reg_mr(dev, area->mem, area->len, IBV_ACCESS_LOCAL_WRITE, &area->mr);
	if (err)
		goto err_free;
	for (uint32_t i = 0; i < count; i++)
		init_recv(area, i, in_capsule_max);
	*out = area;
	return 0;

err_free:
	area_free(&area);
	return err;
}

/* ---- pools ---- */

static void post_pool_recvs(struct rdt_recv_pool *pool, struct ibv_recv_wr *chain, uint32_t n)
{
	struct ibv_recv_wr *bad;
	/* Cannot fail: the shared receive queue has room for the whole pool. */
	int err = rd_fab_post_srq_recv(pool->srq, chain, &bad);

	assert(!err);
	(void)err;
	pool->posted += n;
}

static void post_again(struct rd_defer *defer)
{
	struct rdt_recv_pool *pool = rd_container_of(defer, struct rdt_recv_pool, post);

	post_pool_recvs(pool, pool->again, pool->again_count);
	pool->again = NULL;
	pool->again_count = 0;
}

/* RECVs that are returned during a loop iteration are posted together after its completions. */
static void pool_post(struct rdt_recv_pool *pool, struct rdt_rdma_recv *recv)
{
	if (!pool->again)
		rd_defer(pool->dev->fab->loop, &pool->post, RD_DEFER_WORK);
	recv->conn = NULL;
	recv->rwr.next = pool->again;
	pool->again = &recv->rwr;
	pool->again_count++;
}

static void pool_low(struct rd_fab_srq *srq, void *arg);

static int pool_grow(struct rdt_recv_pool *pool)
{
	uint32_t n = pool->total ? pool->total : POOL_FIRST;
	struct rdt_rdma_area *area;
	int err;

	if (n > pool->max - pool->total)
		n = pool->max - pool->total;
	err = area_create(pool->dev, n, pool->in_capsule_max, &area);
	if (err)
		return err;
	SLIST_INSERT_HEAD(&pool->areas, area, link);
	pool->total += n;
	/* Grow early: a host that is alone may use three quarters of the pool, and its connections
	 * read less at a time when close to that. */
	if (pool->total < pool->max)
		rd_fab_srq_limit(pool->srq, pool->total / 2 + 1, pool_low, pool);
	/* In the order of addresses. */
	for (uint32_t i = 0; i < n; i++) {
		area->recvs[i].pool = pool;
		area->recvs[i].rwr.next = i ? &area->recvs[i - 1].rwr : NULL;
	}
	post_pool_recvs(pool, &area->recvs[n - 1].rwr, n);
	return 0;
}

static RD_COLD void pool_low(struct rd_fab_srq *srq, void *arg)
{
	struct rdt_recv_pool *pool = arg;

	if (pool_grow(pool) == 0)
		return;
	/* Continue with the existing RECVs. */
	rd_warn(pool->log, RD_LOG_TARGET,
		"%s: no memory for more than %u command capsules; further commands wait",
		pool->dev->name, pool->total);
}

static uint32_t pool_limit(const struct rdt_reactor *r, const struct rd_fab_dev *dev, bool admin)
{
	const struct rdt_target_config *cfg = &r->target->cfg->target;
	uint64_t max = cfg->capsule_bytes / (data_stride(cfg->in_capsule_bytes) + NVME_SQE_SIZE);

	if (admin)
		max = POOL_ADMIN;
	if (max < POOL_MIN)
		max = POOL_MIN;
	return max < dev->caps.max_srq_wr ? (uint32_t)max : dev->caps.max_srq_wr;
}

/* Hashed, because thousands of hosts may have a share. Their addresses differ by the size of an
 * allocation. */
static struct rdt_recv_share_list *recv_share_bucket(struct rdt_recv_pool *pool,
						     const struct rdt_share *host)
{
	uintptr_t n = (uintptr_t)host >> 4;

	return &pool->shares[(n ^ n >> 10) % RDT_RECV_SHARES];
}

static int share_create(struct rdt_recv_pool *pool, const struct rdt_share *host,
			struct rdt_recv_share **out)
{
	struct rdt_recv_share *share = calloc(1, sizeof(*share));
	int err;

	if (!share)
		return -ENOMEM;
	err = rd_fab_share_create(pool->srq, &share->share);
	if (err) {
		free(share);
		return err;
	}
	share->host = host;
	LIST_INSERT_HEAD(recv_share_bucket(pool, host), share, link);
	*out = share;
	return 0;
}

static void share_free(struct rdt_recv_share **sharep)
{
	struct rdt_recv_share *share = *sharep;

	if (!share)
		return;
	LIST_REMOVE(share, link);
	rd_fab_share_destroy(&share->share);
	free(share);
	*sharep = NULL;
}

/* Returns the share of a host; without memory, the one of unassociated connections. */
static struct rdt_recv_share *share_of(struct rdt_recv_pool *pool, const struct rdt_share *host)
{
	struct rdt_recv_share *share;

	LIST_FOREACH (share, recv_share_bucket(pool, host), link)
		if (share->host == host)
			return share;
	return share_create(pool, host, &share) ? pool->unassociated : share;
}

static void pool_free(struct rdt_recv_pool **poolp)
{
	struct rdt_recv_pool *pool = *poolp;
	struct rdt_rdma_area *area;

	if (!pool)
		return;
	rd_defer_cancel(pool->dev->fab->loop, &pool->post);
	share_free(&pool->unassociated);
	rd_fab_srq_destroy(&pool->srq);
	while ((area = SLIST_FIRST(&pool->areas))) {
		SLIST_REMOVE_HEAD(&pool->areas, link);
		area_free(&area);
	}
	free(pool);
	*poolp = NULL;
}

static int pool_create(struct rdt_rdma_dev *rdev, bool admin, struct rdt_recv_pool **out)
{
	const struct rdt_reactor *r = rdev->reactor;
	struct rdt_recv_pool *pool = calloc(1, sizeof(*pool));
	int err;

	if (!pool)
		return -ENOMEM;
	SLIST_INIT(&pool->areas);
	pool->post.fn = post_again;
	pool->dev = rdev->dev;
	pool->log = r->log;
	pool->in_capsule_max = r->target->cfg->target.in_capsule_bytes;
	pool->max = pool_limit(r, rdev->dev, admin);
	err = rd_fab_srq_create(rdev->dev, pool->max, 2, &pool->srq);
	if (!err)
		err = share_create(pool, &r->unassociated, &pool->unassociated);
	if (!err)
		err = pool_grow(pool);
	if (err)
		pool_free(&pool);
	*out = pool;
	return err;
}

int rdt_rdma_pools_create(struct rdt_rdma_dev *rdev)
{
	int err = 0;

	if (!rdev->dev->caps.srq_waits)
		return 0;
	for (int admin = 0; admin < 2 && !err; admin++)
		err = pool_create(rdev, admin, &rdev->pools[admin]);
	if (err)
		rdt_rdma_pools_free(rdev);
	return err;
}

void rdt_rdma_pools_free(struct rdt_rdma_dev *rdev)
{
	for (int admin = 0; admin < 2; admin++)
		pool_free(&rdev->pools[admin]);
}

unsigned int rdt_rdma_capsules(const struct rdt_reactor *r)
{
	const struct rdt_rdma_dev *rdev;
	unsigned int n = 0;

	SLIST_FOREACH (rdev, &rdt_rdma_of(r)->devs, link)
		for (int admin = 0; admin < 2; admin++)
			if (rdev->pools[admin])
				n += rdev->pools[admin]->total - rdev->pools[admin]->posted;
	return n;
}

/* ---- connections ---- */

static struct rdt_rdma_conn_list *conn_bucket(struct rdt_rdma_dev *rdev, uint32_t qp_num)
{
	return &rdev->by_qpn[qp_num % RDT_QPN_BUCKETS];
}

static struct rdt_rdma_conn *find_conn(struct rdt_rdma_dev *rdev, uint32_t qp_num)
{
	struct rdt_rdma_conn *rc;

	LIST_FOREACH (rc, conn_bucket(rdev, qp_num), by_qpn)
		if (rc->conn->qp_num == qp_num)
			return rc;
	return NULL;
}

int rdt_rdma_recvs_create(struct rdt_rdma_conn *rc)
{
	int err;

	rc->pool = rc->rdev->pools[rc->qp.admin];
	if (rc->pool)
		return 0;
	err = area_create(rc->rdev->dev, rc->qp.depth, rc->qp.in_capsule_max, &rc->area);
	if (!err)
		rc->rdev->mrs++;
	return err;
}

static int post_own(struct rdt_rdma_conn *rc, struct rdt_rdma_recv *recv)
{
	struct ibv_recv_wr *bad;
	int err = rd_fab_post_recv(rc->conn, &recv->rwr, &bad);

	if (!err)
		rc->recvs_out++;
	return err;
}

static void leave_recv_share(struct rdt_rdma_conn *rc)
{
	struct rdt_recv_share *share = rc->share;

	rc->share = NULL;
	if (share && --share->conns == 0 && share != rc->pool->unassociated)
		share_free(&share);
}

static void join_recv_share(struct rdt_rdma_conn *rc, struct rdt_recv_share *share)
{
	rd_fab_share_join(rc->conn, share->share);
	share->conns++;
	leave_recv_share(rc);
	rc->share = share;
}

void rdt_rdma_recvs_joined(struct rdt_qpair *qp)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(qp);

	if (rc->pool)
		join_recv_share(rc, share_of(rc->pool, qp->share));
}

int rdt_rdma_recvs_start(struct rdt_rdma_conn *rc)
{
	int err = 0;

	if (rc->pool) {
		LIST_INSERT_HEAD(conn_bucket(rc->rdev, rc->conn->qp_num), rc, by_qpn);
		rc->listed = true;
		join_recv_share(rc, rc->pool->unassociated);
		return 0;
	}
	for (uint32_t i = 0; i < rc->area->count && !err; i++) {
		rc->area->recvs[i].conn = rc;
		err = post_own(rc, &rc->area->recvs[i]);
	}
	return err;
}

void rdt_rdma_capsule_done(struct rdt_qpair *qp, struct rdt_capsule *cap)
{
	struct rdt_rdma_recv *recv = rd_container_of(cap, struct rdt_rdma_recv, cap);
	struct rdt_rdma_conn *rc = recv->conn;

	if (!recv->pool) {
		if (!rc->closing && post_own(rc, recv))
			rdt_qpair_lost(qp, RDT_END_FAULT, "cannot post a RECV");
		return;
	}
	LIST_REMOVE(recv, link);
	rd_fab_share_give(rc->share->share, rc->conn, 1);
	pool_post(recv->pool, recv);
}

struct rdt_rdma_conn *rdt_rdma_recv_owner(struct rdt_rdma_dev *rdev, struct rdt_rdma_recv *recv,
					  const struct ibv_wc *wc)
{
	struct rdt_rdma_conn *rc = recv->conn;

	if (!recv->pool) {
		rc->recvs_out--;
		return rc;
	}
	recv->pool->posted--;
	rc = find_conn(rdev, wc->qp_num);
	if (!rc || rc->closing || wc->status != IBV_WC_SUCCESS) {
		if (rc)
			rd_fab_share_give(rc->share->share, rc->conn, 1);
		pool_post(recv->pool, recv);
		return rc;
	}
	recv->conn = rc;
	LIST_INSERT_HEAD(&rc->recvs_used, recv, link);
	return rc;
}

void rdt_rdma_recvs_stop(struct rdt_rdma_conn *rc)
{
	const struct rdt_rdma_recv *recv;
	uint32_t unseen;

	if (!rc->listed)
		return;
	LIST_REMOVE(rc, by_qpn);
	rc->listed = false;
	/* Later completions are not attributed to the connection. RECVs in use by requests remain
	 * counted. */
	unseen = rc->conn->recvs;
	LIST_FOREACH (recv, &rc->recvs_used, link)
		unseen--;
	rd_fab_share_give(rc->share->share, rc->conn, unseen);
}

/* The remaining RECVs hold capsules that were dropped; all others were returned with their
 * requests. */
void rdt_rdma_recvs_free(struct rdt_rdma_conn *rc)
{
	struct rdt_rdma_recv *recv;

	while ((recv = LIST_FIRST(&rc->recvs_used)))
		rdt_rdma_capsule_done(&rc->qp, &recv->cap);
	leave_recv_share(rc);
	if (rc->area)
		rc->rdev->mrs--;
	area_free(&rc->area);
}
