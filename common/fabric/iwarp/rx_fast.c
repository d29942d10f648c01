/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive fast path: FPDUs of a WRITE, and SENDs of one FPDU, that have been received
 * completely and need no CRC check. Every other FPDU, and every violation of the protocol, is left
 * to the state machine (rx.c, fpdu.c), which also chooses the Terminate. An FPDU that is left has
 * changed nothing, except perhaps the content of the next RECV's memory.
 */
#include "conn.h"
#include "copy.h"

/* Copies @len bytes to @r's memory. False: a part of that memory is not registered. */
static bool fast_place(struct rd_iw_conn *c, const struct rd_iw_rwr *r, const uint8_t *p,
		       uint32_t len)
{
	for (const struct ibv_sge *sge = r->sge; len; sge++) {
		uint32_t part = len < sge->length ? len : sge->length;

		if (part && !rd_iw_mr_local_ok(c->dev, sge->lkey, sge->addr, part, true))
			return false;
		rd_iw_copy((void *)(uintptr_t)sge->addr, p, part);
		p += part;
		len -= part;
	}
	return true;
}

/* Handles the FPDU at @p, of @ulpdu bytes behind its length field. False: it is left to rx.c. */
static bool fast_send(struct rd_iw_conn *c, const uint8_t *p, uint32_t ulpdu)
{
	struct rd_iw_rx *rx = &c->rx;
	const struct rd_iw_rwr *r;
	struct rd_ddp_untagged h;
	uint32_t len, stag = 0;
	uint8_t op;
	bool inv;

	if (ulpdu < sizeof(h))
		return false;
	memcpy(&h, p, sizeof(h));
	op = h.ctrl.rdmap ^ RD_RDMAP_VERSION;
	if (h.ctrl.ddp != (RD_DDP_LAST | RD_DDP_VERSION) || op < RD_RDMAP_SEND ||
	    op > RD_RDMAP_SEND_SE_INV || rd_get_be32(h.qn) != RD_DDP_QN_SEND ||
	    rd_get_be32(h.msn) != rx->send_msn || rd_get_be32(h.mo) || rx->recv_active)
		return false;
	len = ulpdu - (uint32_t)sizeof(h);
	r = rd_iw_recv_next(c);
	if (!r || len > r->total || !fast_place(c, r, p + sizeof(h), len))
		return false;
	inv = op == RD_RDMAP_SEND_INV || op == RD_RDMAP_SEND_SE_INV;
	if (inv) {
		stag = rd_get_be32(h.inv_stag);
		if (rd_iw_mr_invalidate(c->dev, stag))
			return false;
	}
	rx->send_msn++;
	rd_iw_recv_use(c);
	rd_iw_cq_push(c->rcq, &c->base, r->wr_id, IBV_WC_RECV, IBV_WC_SUCCESS, len,
		      inv ? IBV_WC_WITH_INV : 0, stag);
	return true;
}

static bool fast_write(struct rd_iw_conn *c, const uint8_t *p, uint32_t ulpdu)
{
	struct rd_ddp_tagged h;
	uint32_t len;
	void *to;

	if (ulpdu <= sizeof(h))
		return false;
	memcpy(&h, p, sizeof(h));
	if (h.ctrl.rdmap != (RD_RDMAP_VERSION | RD_RDMAP_WRITE) ||
	    (h.ctrl.ddp | RD_DDP_LAST) != (RD_DDP_TAGGED | RD_DDP_LAST | RD_DDP_VERSION))
		return false;
	len = ulpdu - (uint32_t)sizeof(h);
	if (rd_iw_mr_remote(c->dev, rd_get_be32(h.stag), rd_get_be64(h.to), len,
			    IBV_ACCESS_REMOTE_WRITE, &to))
		return false;
	memcpy(to, p + sizeof(h), len);
	return true;
}

size_t rd_iw_rx_fast(struct rd_iw_conn *c, const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n, *at = p;
	struct rd_ddp_ctrl ctrl;

	if (!c->rx.got_first || c->crc || rd_iw_sets_aside(c))
		return 0;
	while ((size_t)(end - at) >= sizeof(ctrl)) {
		uint32_t ulpdu, total;

		memcpy(&ctrl, at, sizeof(ctrl));
		total = rd_iw_fpdu_length(&ctrl, &ulpdu);
		if (total > (size_t)(end - at))
			break;
		if (!(ctrl.ddp & RD_DDP_TAGGED ? fast_write(c, at, ulpdu)
					       : fast_send(c, at, ulpdu)))
			break;
		at += total;
		c->fab->stats.fpdus_rx++;
	}
	return (size_t)(at - p);
}
