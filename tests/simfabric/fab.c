/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics, their device, memory regions and completion queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PAGE_BITS 12

/* ---- completion queues ---- */

static struct rd_sim_cq *sim_cq_of(struct rd_fab_cq *cq)
{
	return rd_container_of(cq, struct rd_sim_cq, base);
}

static void sim_cq_notify(struct rd_defer *defer)
{
	struct rd_sim_cq *cq = rd_container_of(defer, struct rd_sim_cq, notify);

	cq->base.fn(&cq->base, cq->base.arg); /* may destroy the CQ */
}

static int sim_cq_create(struct rd_fab_dev *dev, uint32_t depth, rd_fab_cq_fn fn, void *arg,
			 struct rd_fab_cq **out)
{
	struct rd_sim_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return -ENOMEM;
	if (rd_wc_ring_grow(&cq->ring, depth)) {
		free(cq);
		return -ENOMEM;
	}
	cq->base = (struct rd_fab_cq){.dev = dev, .fn = fn, .arg = arg};
	cq->notify.fn = sim_cq_notify;
	rd_sim_fab_of(dev->fab)->cqs++;
	*out = &cq->base;
	return 0;
}

static void sim_cq_destroy(struct rd_fab_cq *base)
{
	struct rd_sim_cq *cq = sim_cq_of(base);

	rd_defer_cancel(base->dev->fab->loop, &cq->notify);
	rd_sim_fab_of(base->dev->fab)->cqs--;
	rd_wc_ring_free(&cq->ring);
	free(cq);
}

static int sim_cq_poll(struct rd_fab_cq *base, int n, struct ibv_wc *wc)
{
	struct rd_sim_cq *cq = sim_cq_of(base);
	int i = rd_wc_ring_take(&cq->ring, n, wc);

	return i == 0 && cq->broken ? -EOVERFLOW : i;
}

static int sim_cq_arm(struct rd_fab_cq *base)
{
	sim_cq_of(base)->armed = true;
	return 0;
}

/* What arrives is in the completion queue at once. */
static bool sim_unread(const struct rd_fab_conn *base)
{
	const struct rd_sim_conn *c = rd_container_of(base, const struct rd_sim_conn, base);

	return !rd_wc_ring_empty(&sim_cq_of(c->attr.recv_cq)->ring);
}

void rd_sim_cq_push(struct rd_fab_cq *base, const struct ibv_wc *wc)
{
	struct rd_sim_cq *cq = sim_cq_of(base);

	if (rd_wc_ring_full(&cq->ring) && rd_wc_ring_grow(&cq->ring, cq->ring.size + 1)) {
		cq->broken = true;
		return;
	}
	*rd_wc_ring_add(&cq->ring) = *wc;
	if (!cq->armed || !cq->base.fn)
		return;
	cq->armed = false;
	rd_defer(base->dev->fab->loop, &cq->notify, RD_DEFER_WORK);
}

void rd_sim_cq_purge(struct rd_fab_cq *base, uint32_t qp_num)
{
	rd_wc_ring_purge(&sim_cq_of(base)->ring, qp_num, false);
}

/* ---- memory regions ---- */

static struct rd_sim_mr *find_sim_mr(const struct rd_sim_fab *fab, uint32_t key)
{
	uint32_t index = key & (RD_SIM_MRS - 1);
	struct rd_sim_mr *mr = index < fab->mrs_count ? fab->mrs[index] : NULL;

	return mr && mr->used && mr->base.rkey == key ? mr : NULL;
}

static struct rd_sim_mr *take_sim_mr(struct rd_sim_fab *fab, uint32_t *index)
{
	struct rd_sim_mr **mrs, *mr;

	if (fab->mrs_free) {
		*index = fab->mrs_free - 1;
		mr = fab->mrs[*index];
		fab->mrs_free = mr->next_free;
		return mr;
	}
	if (fab->mrs_count == RD_SIM_MRS)
		return NULL;
	mrs = reallocarray(fab->mrs, fab->mrs_count + 1, sizeof(struct rd_sim_mr *));
	if (!mrs)
		return NULL;
	fab->mrs = mrs;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	*index = fab->mrs_count;
	fab->mrs[fab->mrs_count++] = mr;
	return mr;
}

static int sim_reg_mr(struct rd_fab_dev *dev, void *addr, size_t len, int access,
		      struct rd_fab_mr **out)
{
	struct rd_sim_fab *fab = rd_sim_fab_of(dev->fab);
	struct rd_sim_mr *mr;
	uint64_t random;
	uint32_t index;

	if (!addr || !len ||
	    (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE)))
		return -EINVAL;
	mr = take_sim_mr(fab, &index);
	if (!mr)
		return -ENOMEM;
	random = rd_sim_random(fab->sim);
	mr->access = access;
	mr->used = true;
	mr->invalidated = false;
	mr->base = (struct rd_fab_mr){
		.dev = dev,
		.addr = addr,
		.length = len,
		.iova = (random & 0xffffffff) << PAGE_BITS |
			((uintptr_t)addr & ((1u << PAGE_BITS) - 1)),
		.rkey = (uint32_t)(random >> 32) << RD_SIM_KEY_BITS | index,
	};
	mr->base.lkey = mr->base.rkey;
	fab->regions++;
	*out = &mr->base;
	return 0;
}

static void sim_dereg_mr(struct rd_fab_mr *base)
{
	struct rd_sim_fab *fab = rd_sim_fab_of(base->dev->fab);
	struct rd_sim_mr *mr = rd_container_of(base, struct rd_sim_mr, base);

	mr->used = false;
	mr->next_free = fab->mrs_free;
	fab->mrs_free = (base->rkey & (RD_SIM_MRS - 1)) + 1;
	fab->regions--;
}

void *rd_sim_mr_remote(struct rd_sim_fab *fab, uint32_t key, uint64_t addr, uint64_t len,
		       int access)
{
	const struct rd_sim_mr *mr = find_sim_mr(fab, key);
	uint64_t off = mr ? addr - mr->base.iova : 0; /* @addr below it: a large value */

	if (!mr || mr->invalidated || !(mr->access & access) || off > mr->base.length ||
	    len > mr->base.length - off) {
		fab->sim->errors.access++;
		return NULL;
	}
	return (uint8_t *)mr->base.addr + off;
}

bool rd_sim_mr_local(const struct rd_sim_fab *fab, const struct ibv_sge *sge, bool write)
{
	const struct rd_sim_mr *mr = find_sim_mr(fab, sge->lkey);
	uint64_t off = mr ? sge->addr - (uintptr_t)mr->base.addr : 0;

	return mr && off <= mr->base.length && sge->length <= mr->base.length - off &&
	       (!write || mr->access & IBV_ACCESS_LOCAL_WRITE);
}

void rd_sim_mr_invalidate(struct rd_sim_fab *fab, uint32_t key)
{
	struct rd_sim_mr *mr = find_sim_mr(fab, key);

	if (mr)
		mr->invalidated = true;
	else
		fab->sim->errors.access++;
}

/* ---- the fabric ---- */

static void sim_close(struct rd_fab *base)
{
	struct rd_sim_fab *fab = rd_sim_fab_of(base);

	if (fab->conns || fab->cqs || fab->regions)
		rd_err(base->log, RD_LOG_FABRIC,
		       "sim closed with %u connections, %u completion queues and %u memory regions "
		       "in use",
		       fab->conns, fab->cqs, fab->regions);
	fab->sim->leaked += fab->conns + fab->cqs + fab->regions;
	for (uint32_t i = 0; i < fab->mrs_count; i++)
		free(fab->mrs[i]);
	free(fab->mrs);
	free(fab);
}

const struct rd_fab_ops rd_sim_ops = {
	.name = "sim",
	.close = sim_close,
	.listen = rd_sim_listen,
	.unlisten = rd_sim_unlisten,
	.req_adopt = rd_sim_req_adopt,
	.req_reject = rd_sim_req_reject,
	.resolve = rd_sim_resolve,
	.qp_create = rd_sim_qp_create,
	.connect = rd_sim_connect,
	.accept = rd_sim_accept,
	.reject = rd_sim_reject,
	.disconnect = rd_sim_disconnect,
	.peer_closed = rd_sim_peer_closed,
	.unread = sim_unread,
	.conn_destroy = rd_sim_conn_destroy,
	.reg_mr = sim_reg_mr,
	.dereg_mr = sim_dereg_mr,
	.cq_create = sim_cq_create,
	.cq_destroy = sim_cq_destroy,
	.cq_poll = sim_cq_poll,
	.cq_arm = sim_cq_arm,
	.post_send = rd_sim_post_send,
	.post_recv = rd_sim_post_recv,
};

int rd_sim_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts, struct rd_fab **out)
{
	struct rd_sim_fab *fab = calloc(1, sizeof(*fab));

	if (!fab)
		return -ENOMEM;
	fab->sim = rd_loop_clock(loop)->arg;
	fab->id = ++fab->sim->fabs;
	fab->base = (struct rd_fab){.ops = &rd_sim_ops, .loop = loop, .log = rd_loop_log(loop)};
	fab->dev = (struct rd_fab_dev){.ops = &rd_sim_ops, .fab = &fab->base, .name = "sim"};
	/* Without shared receive queues, as RDMA devices that cannot make their messages wait. */
	fab->dev.caps = (struct rd_fab_caps){
		.max_send_wr = RD_SIM_MAX_WR,
		.max_recv_wr = RD_SIM_MAX_WR,
		.max_send_sge = RD_SIM_MAX_SGE,
		.max_recv_sge = RD_SIM_MAX_SGE,
		.max_read_sge = RD_SIM_MAX_SGE,
		.max_inline = RD_SIM_MAX_INLINE,
		.max_msg = 1 << 30,
		.max_ird = 128,
		.max_ord = 128,
		.max_private_data = RD_SIM_MAX_PRIVATE,
		.send_with_inv = true,
		.inline_with_inv = true,
		.reports_inv = true,
		.cheap_mr = true,
		.prtype = "iwarp",
	};
	*out = &fab->base;
	return 0;
}
