/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider seen from above: opening, closing, the table of operations. */
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "cm.h"
#include "dev.h"

struct rd_vb_fab *rd_vb_fab(struct rd_fab *fab)
{
	return rd_container_of(fab, struct rd_vb_fab, base);
}

static void vb_close(struct rd_fab *base)
{
	struct rd_vb_fab *fab = rd_vb_fab(base);
	struct rd_vb_dev *dev;

	if (fab->stats.conns || fab->stats.listeners || fab->stats.mrs)
		rd_err(base->log, RD_LOG_FABRIC,
		       "verbs closed with %u connections, %u listeners, %u memory regions in use",
		       fab->stats.conns, fab->stats.listeners, fab->stats.mrs);
	rd_defer_cancel(base->loop, &fab->batch.flush);
	while ((dev = LIST_FIRST(&fab->devs)))
		rd_vb_dev_free(dev);
	rd_vb_hotplug_stop(fab);
	rd_vb_cm_stop(fab);
	free(fab);
}

const struct rd_fab_ops rd_vb_ops = {
	.name = "verbs",
	.close = vb_close,
	.listen = rd_vb_listen,
	.unlisten = rd_vb_unlisten,
	.req_adopt = rd_vb_req_adopt,
	.req_reject = rd_vb_req_reject,
	.resolve = rd_vb_resolve,
	.qp_create = rd_vb_qp_create,
	.connect = rd_vb_connect,
	.accept = rd_vb_accept,
	.reject = rd_vb_reject,
	.disconnect = rd_vb_disconnect,
	.conn_destroy = rd_vb_conn_destroy,
	.reg_mr = rd_vb_reg_mr,
	.dereg_mr = rd_vb_dereg_mr,
	.cq_create = rd_vb_cq_create,
	.cq_destroy = rd_vb_cq_destroy,
	.cq_poll = rd_vb_cq_poll,
	.cq_arm = rd_vb_cq_arm,
	.srq_create = rd_vb_srq_create,
	.srq_destroy = rd_vb_srq_destroy,
	.post_send = rd_vb_post_send,
	.post_recv = rd_vb_post_recv,
	.post_srq_recv = rd_vb_post_srq_recv,
};

int rd_fab_verbs_open(struct rd_loop *loop, const struct rd_fab_verbs_opts *opts,
		      struct rd_fab **out)
{
	struct rd_vb_fab *fab = calloc(1, sizeof(*fab));
	int rc;

	if (!fab)
		return -ENOMEM;
	fab->base.ops = &rd_vb_ops;
	fab->base.loop = loop;
	fab->base.log = rd_loop_log(loop);
	if (opts)
		fab->opts = *opts;
	LIST_INIT(&fab->devs);
	LIST_INIT(&fab->conns);
	LIST_INIT(&fab->anchors);
	rd_vb_batch_init(&fab->batch);
	rc = rd_vb_chan_create(&fab->chan);
	if (rc) {
		rd_err(fab->base.log, RD_LOG_FABRIC,
		       rc == -ENODEV ? "no RDMA device, or no rdma_ucm module: the verbs provider "
				       "cannot be used on this machine"
				     : "cannot open the RDMA connection manager: %s",
		       strerror(-rc));
		goto err_free;
	}
	rc = rd_vb_cm_start(fab);
	if (rc)
		goto err_chan;
	rd_vb_hotplug_start(fab);
	*out = &fab->base;
	return 0;

err_chan:
	rd_vb_chan_put(fab->chan);
err_free:
	free(fab);
	return rc;
}
