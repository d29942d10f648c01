/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing.h"

#include "conn.h"

const struct rd_vb_stats *rd_vb_test_stats(struct rd_fab *fab)
{
	return &rd_vb_fab(fab)->stats;
}

bool rd_vb_test_is_iwarp(struct rd_fab_dev *dev)
{
	return rd_vb_dev(dev)->iwarp;
}

bool rd_vb_test_is_siw(struct rd_fab_dev *dev)
{
	return rd_vb_dev(dev)->quirk == &rd_vb_quirk_siw;
}

uint32_t rd_vb_test_cq_segments(struct rd_fab_cq *cq)
{
	return rd_vb_cq(cq)->nsegs;
}

struct rd_vb_test_conn rd_vb_test_conn(struct rd_fab_conn *conn)
{
	const struct rd_vb_conn *c = rd_vb_conn(conn);

	return (struct rd_vb_test_conn){
		.closed = c->state == RD_VB_CLOSED,
		.poke_armed = rd_timer_armed(&c->poke.timer),
		.hidden_out = c->hidden_out,
		.sends = rd_vb_sends_out(c),
		.max_inline = c->max_inline,
	};
}

void rd_vb_test_post_hidden(struct rd_fab_conn *conn, enum ibv_wr_opcode opcode)
{
	struct rd_vb_conn *c = rd_vb_conn(conn);

	if (c->dev->quirk->hidden_wrs)
		rd_vb_post_hidden(c, opcode);
}
