/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider seen from above: opening, closing, the table of operations. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "conn.h"
#include "connect.h"
#include "listen.h"

struct rd_iw_fab *rd_iw_fab(struct rd_fab *fab)
{
	return rd_container_of(fab, struct rd_iw_fab, base);
}

static void iw_close(struct rd_fab *base)
{
	struct rd_iw_fab *fab = rd_iw_fab(base);

	if (fab->stats.conns || fab->stats.listeners || fab->stats.mrs)
		rd_err(base->log, RD_LOG_FABRIC,
		       "iwarp closed with %u connections, %u listeners, %u memory regions in use",
		       fab->stats.conns, fab->stats.listeners, fab->stats.mrs);
	if (fab->box)
		rd_iw_mailbox_close(fab->box);
	rd_iw_drain_fini(fab);
	rd_iw_mr_table_fini(&fab->dev.mrs);
	rd_fab_iwarp_scratch_unref(&fab->dev.scratch);
	free(fab->congestion);
	free(fab);
}

const struct rd_fab_ops rd_iw_ops = {
	.name = "iwarp",
	.close = iw_close,
	.listen = rd_iw_listen,
	.unlisten = rd_iw_unlisten,
	.listen_on = rd_iw_listen_on,
	.listen_fd = rd_iw_listen_fd,
	.listen_hold = rd_iw_listen_hold,
	.req_adopt = rd_iw_req_adopt,
	.req_reject = rd_iw_req_reject,
	.resolve = rd_iw_resolve,
	.qp_create = rd_iw_qp_create,
	.connect = rd_iw_connect,
	.accept = rd_iw_accept,
	.reject = rd_iw_reject,
	.disconnect = rd_iw_disconnect,
	.peer_closed = rd_iw_peer_closed,
	.unread = rd_iw_unread,
	.hold = rd_iw_hold,
	.rests = rd_iw_rests,
	.move_out = rd_iw_move_out,
	.move_in = rd_iw_move_in,
	.move_open = rd_iw_move_open,
	.conn_destroy = rd_iw_conn_destroy,
	.reg_mr = rd_iw_reg_mr,
	.dereg_mr = rd_iw_dereg_mr,
	.cq_create = rd_iw_cq_create,
	.cq_destroy = rd_iw_cq_destroy,
	.cq_poll = rd_iw_cq_poll,
	.cq_arm = rd_iw_cq_arm,
	.srq_create = rd_iw_srq_create,
	.srq_destroy = rd_iw_srq_destroy,
	.srq_limit = rd_iw_srq_limit,
	.share_create = rd_iw_share_create,
	.share_destroy = rd_iw_share_destroy,
	.share_join = rd_iw_share_join,
	.post_send = rd_iw_post_send,
	.post_recv = rd_iw_post_recv,
	.post_srq_recv = rd_iw_post_srq_recv,
};

static void init_device(struct rd_iw_fab *fab)
{
	struct rd_iw_dev *dev = &fab->dev;

	dev->base.ops = &rd_iw_ops;
	dev->base.fab = &fab->base;
	dev->base.name = "iwarp";
	dev->base.caps = (struct rd_fab_caps){
		.max_send_wr = RD_IW_MAX_WR,
		.max_recv_wr = RD_IW_MAX_WR,
		.max_srq_wr = RD_IW_MAX_WR,
		.max_send_sge = RD_IW_MAX_SGE,
		.max_recv_sge = RD_IW_MAX_SGE,
		.max_read_sge = RD_IW_MAX_SGE,
		.max_inline = RD_IW_MAX_INLINE,
		.max_msg = RD_IW_MAX_MSG,
		.max_ird = RD_IW_MAX_DEPTH,
		.max_ord = RD_IW_MAX_DEPTH,
		.max_private_data = RD_IW_MAX_PRIVATE,
		.send_with_inv = true,
		.inline_with_inv = true,
		.reports_inv = true,
		.read_sink_remote_write = false,
		.srq_waits = true,
		.cheap_mr = true,
		.prtype = "iwarp",
	};
	dev->next_qpn = 1;
	dev->pieces.pass = 1;
	rd_iw_mr_table_init(&dev->mrs);
}

int rd_fab_iwarp_open(struct rd_loop *loop, const struct rd_fab_iwarp_opts *opts,
		      struct rd_fab **out)
{
	struct rd_iw_fab *fab = calloc(1, sizeof(*fab));
	int rc = -ENOMEM;

	if (!fab)
		return -ENOMEM;
	if (opts)
		fab->opts = *opts;
	fab->dev.scratch = rd_fab_iwarp_scratch_ref(fab->opts.scratch);
	if (!fab->dev.scratch && rd_fab_iwarp_scratch_create(&fab->dev.scratch))
		goto err_free;
	if (fab->opts.congestion) {
		fab->congestion = strdup(fab->opts.congestion);
		if (!fab->congestion)
			goto err_free;
		fab->opts.congestion = fab->congestion;
		/* otherwise every connection would fail later */
		rc = rd_tcp_congestion(fab->congestion);
		if (rc)
			goto err_free;
	}
	fab->base.ops = &rd_iw_ops;
	fab->base.loop = loop;
	fab->base.log = rd_loop_log(loop);
	rd_iw_drain_init(fab);
	init_device(fab);
	*out = &fab->base;
	return 0;

err_free:
	free(fab->congestion);
	rd_fab_iwarp_scratch_unref(&fab->dev.scratch);
	free(fab);
	return rc;
}
