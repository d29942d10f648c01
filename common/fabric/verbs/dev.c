/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: what they can do, their memory regions, their asynchronous events, and their removal. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "fab.h"
#include "conn.h"
#include "dev.h"

#define MAX_INLINE_TRY 512
#define MAX_MSG        (UINT64_C(1) << 30)
#define SLOTS_MIN      64

struct rd_vb_dev *rd_vb_dev(struct rd_fab_dev *dev)
{
	return rd_container_of(dev, struct rd_vb_dev, base);
}

/* ---- slots ---- */

static int slots_grow(struct rd_vb_dev *dev)
{
	uint32_t n = dev->nslots ? dev->nslots * 2 : SLOTS_MIN;
	struct rd_vb_slot *slots;

	if (n > RD_VB_SLOT_MASK)
		return -ENOSPC;
	slots = reallocarray(dev->slots, n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = dev->nslots; i < n; i++)
		slots[i] = (struct rd_vb_slot){.next_free = i + 1 < n ? i + 1 : 0};
	dev->free_slot = dev->nslots ? dev->nslots : 1;
	dev->slots = slots;
	dev->nslots = n;
	return 0;
}

int rd_vb_slot_get(struct rd_vb_dev *dev, void *obj, uint32_t *slot)
{
	int rc;

	if (!dev->free_slot) {
		rc = slots_grow(dev);
		if (rc)
			return rc;
	}
	*slot = dev->free_slot;
	dev->free_slot = dev->slots[*slot].next_free;
	dev->slots[*slot].obj = obj;
	return 0;
}

void rd_vb_slot_put(struct rd_vb_dev *dev, uint32_t slot)
{
	struct rd_vb_slot *s = &dev->slots[slot];

	s->obj = NULL;
	s->gen++;
	s->next_free = dev->free_slot;
	dev->free_slot = slot;
}

/* ---- capabilities ---- */

static uint32_t min_u32(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* No attribute of a device has this limit; only creating a queue pair shows it. */
static uint32_t probe_inline(struct rd_vb_dev *dev)
{
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, 2, NULL, NULL, 0);
	uint32_t n = 0;

	if (!cq)
		return 0;
	for (uint32_t want = MAX_INLINE_TRY; want >= 16 && n == 0; want /= 2) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 1,
				.max_recv_wr = 1,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = want},
		};
		struct ibv_qp *qp = ibv_create_qp(dev->pd, &attr);

		if (!qp)
			continue;
		n = min_u32(attr.cap.max_inline_data, want);
		ibv_destroy_qp(qp);
	}
	ibv_destroy_cq(cq);
	return n;
}

const char *rd_vb_prtype(const struct rdma_cm_id *cm)
{
	struct ibv_port_attr port;

	if (!cm->verbs)
		return NULL;
	if (cm->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return "iwarp";
	if (ibv_query_port(cm->verbs, cm->port_num ? cm->port_num : 1, &port))
		return NULL;
	return port.link_layer == IBV_LINK_LAYER_ETHERNET ? "roce" : "ib";
}

static int query_caps(struct rd_vb_dev *dev, const char *kind)
{
	struct rd_fab_caps *caps = &dev->base.caps;
	struct ibv_device_attr a;
	struct ibv_port_attr port;
	int rc;

	rc = rd_vb_err(ibv_query_device(dev->ctx, &a));
	if (rc == 0)
		rc = rd_vb_err(ibv_query_port(dev->ctx, dev->port, &port));
	if (rc)
		return rc;
	dev->iwarp = dev->ibdev->transport_type == IBV_TRANSPORT_IWARP;
	dev->quirk = rd_vb_quirk_match(dev->ibdev, &a);
	dev->max_cqe = (uint32_t)a.max_cqe;
	*caps = (struct rd_fab_caps){
		.max_send_wr =
			min_u32((uint32_t)a.max_qp_wr - dev->quirk->hidden_wrs, RD_VB_MAX_WR),
		.max_recv_wr = min_u32((uint32_t)a.max_qp_wr, RD_VB_MAX_WR),
		.max_srq_wr = min_u32((uint32_t)a.max_srq_wr, RD_VB_MAX_WR),
		.max_send_sge = (uint32_t)a.max_sge,
		.max_recv_sge = (uint32_t)a.max_sge,
		/* An iWARP Read Request has one sink; some drivers leave the field 0. */
		.max_read_sge = dev->iwarp ? 1 : (uint32_t)(a.max_sge_rd ? a.max_sge_rd : 1),
		.max_msg = port.max_msg_sz < MAX_MSG ? port.max_msg_sz : MAX_MSG,
		.max_ird = (uint16_t)min_u32((uint32_t)a.max_qp_rd_atom, RD_VB_MAX_DEPTH),
		.max_ord = (uint16_t)min_u32((uint32_t)a.max_qp_init_rd_atom, RD_VB_MAX_DEPTH),
		.max_private_data = dev->iwarp ? RD_VB_IWARP_PRIVATE : RD_VB_IB_PRIVATE,
		.send_with_inv = !dev->fab->opts.no_send_with_inv &&
				 (a.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS),
		/* An iWARP driver may fail an inline SEND with Invalidate without a completion. */
		.inline_with_inv = !dev->iwarp,
		/*
		 * Peers can invalidate only fast-registered memory and memory windows; this
		 * provider registers neither.
		 */
		.reports_inv = false,
		.read_sink_remote_write = dev->iwarp,
		.cheap_mr = false,
		.prtype = kind,
	};
	if (!dev->fab->opts.no_inline)
		caps->max_inline = probe_inline(dev);
	return 0;
}

/* ---- asynchronous events ---- */

static void qp_event(struct rd_vb_conn *c, enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_COMM_EST:
		/*
		 * A message arrived before the last message of the handshake: it completes the
		 * handshake.
		 */
		if (c->state == RD_VB_ACCEPTED && c->id)
			rdma_notify(c->id->cm, IBV_EVENT_COMM_EST);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		/* A completion or an event of rdma_cm may follow with a better reason. */
		rd_vb_conn_wc_failed(c, IBV_WC_WR_FLUSH_ERR);
		break;
	default: /* SQ_DRAINED, PATH_MIG and LAST_WQE_REACHED need no action */
		break;
	}
}

/* Returns false if the device has been removed. */
static bool async_event(struct rd_vb_dev *dev, struct ibv_async_event *ev)
{
	enum ibv_event_type type = ev->event_type;
	void *obj = NULL;

	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		obj = ev->element.qp->qp_context;
		ibv_ack_async_event(ev); /* only this thread destroys queue pairs, so it cannot be
					    destroyed now */
		qp_event(obj, type);
		return true;
	case IBV_EVENT_CQ_ERR:
		obj = ((struct rd_vb_seg *)ev->element.cq->cq_context)->cq;
		ibv_ack_async_event(ev);
		rd_vb_cq_failed(obj);
		return true;
	default:
		break;
	}
	ibv_ack_async_event(ev);
	rd_log(rd_vb_log(dev->fab), RD_LOG_FABRIC,
	       type == IBV_EVENT_DEVICE_FATAL ? RD_LOG_ERROR : RD_LOG_INFO, "%s: %s", dev->name,
	       ibv_event_type_str(type));
	if (type != IBV_EVENT_DEVICE_FATAL)
		return true;
	rd_vb_dev_removed(dev);
	return false;
}

static void async_io(struct rd_io *io, uint32_t events)
{
	struct rd_vb_dev *dev = rd_container_of(io, struct rd_vb_dev, async);
	struct ibv_async_event ev;

	while (dev->ctx && ibv_get_async_event(dev->ctx, &ev) == 0)
		if (!async_event(dev, &ev))
			return;
	if (dev->ctx && errno != EAGAIN && errno != EINTR)
		rd_vb_dev_removed(
			dev); /* EIO: the kernel has disconnected the file from the device */
}

static int watch_async(struct rd_vb_dev *dev)
{
	int fd = dev->ctx->async_fd, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	return rd_io_add(dev->fab->base.loop, &dev->async, fd, EPOLLIN, async_io);
}

/* ---- coming and going ---- */

/* Closes the kernel objects of the device. Everything created from it has been destroyed. */
static void close_device(struct rd_vb_dev *dev)
{
	if (!dev->ctx)
		return;
	rd_io_del(dev->fab->base.loop, &dev->async);
	if (dev->quirk && dev->quirk->close)
		dev->quirk->close(dev);
	if (dev->pd)
		ibv_dealloc_pd(dev->pd);
	dev->pd = NULL;
	ibv_close_device(dev->ctx);
	dev->ctx = NULL;
}

static int dev_open(struct rd_vb_fab *fab, struct rd_vb_id *id, struct rd_vb_dev **out)
{
	struct rd_vb_dev *dev = calloc(1, sizeof(*dev));
	const struct rd_fab_caps *caps;
	int rc;

	if (!dev)
		return -ENOMEM;
	dev->fab = fab;
	dev->ibdev = id->cm->verbs->device;
	dev->port = id->cm->port_num ? id->cm->port_num : 1;
	snprintf(dev->name, sizeof(dev->name), "%s", ibv_get_device_name(dev->ibdev));
	dev->base.ops = &rd_vb_ops;
	dev->base.fab = &fab->base;
	dev->base.name = dev->name;
	errno = 0;
	dev->ctx = ibv_open_device(dev->ibdev);
	if (!dev->ctx) {
		rc = rd_vb_errno();
		goto err_free;
	}
	dev->pd = ibv_alloc_pd(dev->ctx);
	rc = dev->pd ? query_caps(dev, rd_vb_prtype(id->cm)) : rd_vb_errno();
	if (rc == 0 && dev->quirk->open)
		rc = dev->quirk->open(dev);
	if (rc == 0)
		rc = watch_async(dev);
	if (rc)
		goto err_close;
	rd_vb_meet(fab, id->cm);
	LIST_INSERT_HEAD(&fab->devs, dev, link);
	fab->stats.devs++;
	caps = &dev->base.caps;
	rd_info(rd_vb_log(fab), RD_LOG_FABRIC,
		"%s (%s): READ depth %u in, %u out; %u work requests, %u scatter/gather entries, "
		"%u bytes inline; SEND with Invalidate %s",
		dev->name, caps->prtype, caps->max_ird, caps->max_ord, caps->max_send_wr,
		caps->max_send_sge, caps->max_inline, caps->send_with_inv ? "used" : "not used");
	*out = dev;
	return 0;

err_close:
	close_device(dev);
err_free:
	rd_err(rd_vb_log(fab), RD_LOG_FABRIC, "%s: cannot open the RDMA device: %s", dev->name,
	       strerror(-rc));
	free(dev);
	return rc;
}

static bool dev_in_use(const struct rd_vb_dev *dev)
{
	const struct rd_vb_conn *c;

	LIST_FOREACH (c, &dev->fab->conns, link)
		if (c->dev == dev)
			return true;
	return dev->base.user || !LIST_EMPTY(&dev->cqs) || !LIST_EMPTY(&dev->srqs) ||
	       !LIST_EMPTY(&dev->mrs);
}

/* Frees the objects of removed devices that are not used any more. */
static void free_gone_devs(struct rd_vb_fab *fab)
{
	struct rd_vb_dev *dev, *next;

	for (dev = LIST_FIRST(&fab->devs); dev; dev = next) {
		next = LIST_NEXT(dev, link);
		if (dev->base.gone && !dev_in_use(dev))
			rd_vb_dev_free(dev);
	}
}

int rd_vb_dev_get(struct rd_vb_fab *fab, struct rd_vb_id *id, struct rd_vb_dev **out)
{
	struct rd_vb_dev *dev;

	if (!id->cm->verbs)
		return -ENODEV;
	/*
	 * The open context holds a reference to the ibv_device: no other one can have its address.
	 */
	LIST_FOREACH (dev, &fab->devs, link) {
		if (dev->ctx && dev->ibdev == id->cm->verbs->device) {
			*out = dev;
			return 0;
		}
	}
	free_gone_devs(fab);
	return dev_open(fab, id, out);
}

void rd_vb_dev_removed(struct rd_vb_dev *dev)
{
	struct rd_vb_conn *c;
	struct rd_vb_cq *cq;
	struct rd_vb_srq *srq;
	struct rd_vb_mr *mr;
	const struct ibv_device *ibdev = dev->ibdev;

	if (!dev->ctx)
		return;
	dev->base.gone = true;
	rd_warn(rd_vb_log(dev->fab), RD_LOG_FABRIC, "%s: the RDMA device was removed", dev->name);
	/* The kernel completes the removal only when nothing is left, identifiers included. */
	LIST_FOREACH (c, &dev->fab->conns, link) {
		if (c->dev != dev)
			continue;
		if (c->state != RD_VB_CLOSED)
			rd_conn_raise(&c->events, RD_CONN_REMOVED);
		rd_vb_conn_end(c, -ENODEV, "the RDMA device was removed");
		rd_vb_id_destroy(c->id);
		c->id = NULL;
	}
	LIST_FOREACH (srq, &dev->srqs, link)
		rd_vb_srq_removed(srq);
	LIST_FOREACH (cq, &dev->cqs, link)
		rd_vb_cq_removed(cq);
	LIST_FOREACH (mr, &dev->mrs, link) {
		if (mr->mr)
			ibv_dereg_mr(mr->mr);
		mr->mr = NULL;
	}
	close_device(dev);
	rd_vb_forget(dev->fab, ibdev);
}

void rd_vb_dev_free(struct rd_vb_dev *dev)
{
	close_device(dev);
	LIST_REMOVE(dev, link);
	dev->fab->stats.devs--;
	free(dev->slots);
	free(dev);
}

/* ---- memory regions ---- */

static void say_memlock(struct rd_vb_dev *dev, size_t len)
{
	struct rlimit rl = {0};

	if (dev->memlock_said || getrlimit(RLIMIT_MEMLOCK, &rl))
		return;
	dev->memlock_said = true;
	rd_err(rd_vb_log(dev->fab), RD_LOG_FABRIC,
	       "%s: cannot register %zu bytes: out of memory, or the limit of locked memory (%llu "
	       "bytes) is too low (ulimit -l, or LimitMEMLOCK= of a systemd service)",
	       dev->name, len, (unsigned long long)rl.rlim_cur);
}

int rd_vb_reg_mr(struct rd_fab_dev *base, void *addr, size_t len, int access,
		 struct rd_fab_mr **out)
{
	struct rd_vb_dev *dev = rd_vb_dev(base);
	struct rd_vb_mr *mr;
	int rc;

	if (!dev->ctx)
		return -ENODEV;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	errno = 0;
	mr->mr = ibv_reg_mr(dev->pd, addr, len, access);
	if (!mr->mr) {
		rc = rd_vb_errno();
		if (rc == -ENOMEM)
			say_memlock(dev, len);
		free(mr);
		return rc;
	}
	mr->base = (struct rd_fab_mr){
		.dev = base,
		.addr = addr,
		.length = len,
		.lkey = mr->mr->lkey,
		.iova = (uintptr_t)addr,
		.rkey = mr->mr->rkey,
	};
	LIST_INSERT_HEAD(&dev->mrs, mr, link);
	dev->fab->stats.mrs++;
	*out = &mr->base;
	return 0;
}

void rd_vb_dereg_mr(struct rd_fab_mr *base)
{
	struct rd_vb_mr *mr = rd_container_of(base, struct rd_vb_mr, base);
	struct rd_vb_dev *dev = rd_vb_dev(base->dev);
	int rc = mr->mr ? rd_vb_err(ibv_dereg_mr(mr->mr)) : 0;

	if (rc)
		rd_err(rd_vb_log(dev->fab), RD_LOG_FABRIC,
		       "%s: a memory region stays registered: %s", dev->name, strerror(-rc));
	LIST_REMOVE(mr, link);
	dev->fab->stats.mrs--;
	free(mr);
}
