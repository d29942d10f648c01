/* SPDX-License-Identifier: BSD-3-Clause */
/* What received FPDUs do: checks, destinations, completions. */
#include <errno.h>

#include "conn.h"
#include "connect.h"

#define MAX_BLANKS 256u

static int refuse_fpdu(struct rd_iw_conn *c, uint32_t code)
{
	rd_iw_conn_term(c, code, true);
	return -1;
}

/* ---- Sends ---- */

/* Takes the RECV for a message. Returns 0, 1 (it waits for one) or -1 (the connection ended). */
static int take_recv(struct rd_iw_conn *c)
{
	const struct rd_iw_rwr *r = rd_iw_recv_next(c);

	if (!r && !c->srq)
		return refuse_fpdu(c, RD_TERM_DU_NO_BUFFER);
	if (!r) {
		rd_iw_srq_wait(c);
		return 1;
	}
	rd_iw_recv_use(c);
	memcpy(c->rx.recv, r, sizeof(*r) + (size_t)r->num_sge * sizeof(r->sge[0]));
	return 0;
}

/* A message begins. @whole: it has been received to its end. Returns as take_recv(). */
static int begin_rx_message(struct rd_iw_conn *c, bool whole)
{
	struct rd_iw_rx *rx = &c->rx;
	int rc;

	/* If no RECV was ever posted, the largest message is unknown. */
	if (!c->srq || (whole && !rd_iw_sets_aside(c)) || !c->srq->rq.largest) {
		rc = take_recv(c);
		if (rc)
			return rc;
	} else if (rd_iw_reasm_get(c, rx->h.plen, rx->h.last)) {
		rd_iw_conn_end(c, -ENOMEM, "out of memory");
		return -1;
	} else {
		rx->recv->total = rx->reasm_size;
	}
	rx->recv_active = true;
	rx->recv_off = 0;
	return 0;
}

static int begin_send(struct rd_iw_conn *c, bool whole)
{
	struct rd_iw_rx *rx = &c->rx;
	const struct rd_iw_hdr *h = &rx->h;
	int rc;

	if (h->qn != RD_DDP_QN_SEND)
		return refuse_fpdu(c, RD_TERM_DU_QN);
	if (h->msn != rx->send_msn)
		return refuse_fpdu(c, RD_TERM_DU_MSN);
	if (h->mo != (rx->recv_active ? rx->recv_off : 0))
		return refuse_fpdu(c, RD_TERM_DU_MO);
	rc = rx->recv_active ? 0 : begin_rx_message(c, whole && h->last);
	if (rc)
		return rc;
	if (h->plen > rx->recv->total - rx->recv_off) {
		rd_iw_recv_abort(c, IBV_WC_LOC_LEN_ERR);
		return refuse_fpdu(c, RD_TERM_DU_TOO_LONG);
	}
	return 0;
}

static void push_recv(struct rd_iw_conn *c, enum ibv_wc_status status, uint32_t len, uint32_t inv,
		      unsigned int flags)
{
	c->rx.recv_active = false;
	rd_iw_cq_push(c->rcq, &c->base, c->rx.recv->wr_id, IBV_WC_RECV, status, len, flags, inv);
}

void rd_iw_recv_abort(struct rd_iw_conn *c, enum ibv_wc_status status)
{
	if (c->rx.recv_active && !c->rx.reasm)
		push_recv(c, status, 0, 0, 0);
	c->rx.recv_active = false;
	rd_iw_reasm_put(c);
}

/* The message is complete in the memory of its RECV. */
static int deliver_send(struct rd_iw_conn *c)
{
	struct rd_iw_rx *rx = &c->rx;
	const struct rd_iw_hdr *h = &rx->h;
	bool inv = h->op == RD_RDMAP_SEND_INV || h->op == RD_RDMAP_SEND_SE_INV;

	if (inv && rd_iw_mr_invalidate(c->dev, h->inv_stag)) {
		rd_iw_recv_abort(c, IBV_WC_REM_INV_REQ_ERR);
		return refuse_fpdu(c, RD_TERM_RP_CANNOT_INV);
	}
	rx->send_msn++;
	push_recv(c, IBV_WC_SUCCESS, rx->recv_off, inv ? h->inv_stag : 0,
		  inv ? IBV_WC_WITH_INV : 0);
	return 0;
}

static int no_place(struct rd_iw_conn *c)
{
	rd_iw_recv_abort(c, IBV_WC_LOC_PROT_ERR);
	rd_iw_conn_term(c, RD_TERM_DDP_LOCAL, false);
	return -1;
}

/* The message is complete in rx.reasm: it takes a RECV now. Returns as take_recv(). */
static int place_send(struct rd_iw_conn *c)
{
	struct iovec iov[RD_IW_MAX_SGE];
	struct rd_iw_rx *rx = &c->rx;
	const uint8_t *from = rx->reasm;
	int rc, n = 0;
	bool fits;

	if (rd_iw_sets_aside(c))
		return rd_iw_set_aside(c);
	rc = take_recv(c);
	if (rc)
		return rc;
	fits = rx->recv_off <= rx->recv->total;
	if (fits)
		n = rd_iw_sge_iov(c->dev, rx->recv->sge, rx->recv->num_sge, 0, rx->recv_off, true,
				  iov);
	for (int i = 0; i < n; i++) {
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
	rd_iw_reasm_put(c);
	if (!fits) {
		rd_iw_recv_abort(c, IBV_WC_LOC_LEN_ERR);
		return refuse_fpdu(c, RD_TERM_DU_TOO_LONG);
	}
	return n < 0 ? no_place(c) : deliver_send(c);
}

static int end_send(struct rd_iw_conn *c)
{
	struct rd_iw_rx *rx = &c->rx;

	rx->recv_off += rx->h.plen;
	if (!rx->h.last)
		return 0;
	return rx->reasm ? place_send(c) : deliver_send(c);
}

/* ---- Writes ---- */

static int begin_write(struct rd_iw_conn *c)
{
	const struct rd_iw_hdr *h = &c->rx.h;
	void *at;

	if (h->plen == 0)
		return 0; /* no-op; its key must not be checked (RFC 5040 section 5.1) */
	switch (rd_iw_mr_remote(c->dev, h->stag, h->to, h->plen, IBV_ACCESS_REMOTE_WRITE, &at)) {
	case RD_IW_MR_OK:
		return 0;
	case RD_IW_MR_STAG:
		return refuse_fpdu(c, RD_TERM_DT_STAG);
	case RD_IW_MR_ACCESS:
		return refuse_fpdu(c, RD_TERM_RP_ACCESS);
	case RD_IW_MR_WRAP:
		return refuse_fpdu(c, RD_TERM_DT_WRAP);
	case RD_IW_MR_BOUNDS:
		break;
	}
	return refuse_fpdu(c, RD_TERM_DT_BOUNDS);
}

static int dest_write(struct rd_iw_conn *c, struct iovec *iov)
{
	const struct rd_iw_hdr *h = &c->rx.h;
	uint64_t to = h->to + (h->plen - c->rx.left);

	/* Checked again for each piece: the owner may deregister the region at any time. */
	if (rd_iw_mr_remote(c->dev, h->stag, to, c->rx.left, IBV_ACCESS_REMOTE_WRITE,
			    &iov->iov_base))
		return refuse_fpdu(c, RD_TERM_DT_STAG);
	iov->iov_len = c->rx.left;
	return 1;
}

/* ---- Read Responses ---- */

static int bad_response(struct rd_iw_conn *c, struct rd_iw_swr *s, uint32_t code)
{
	rd_iw_tx_term(c, code, c->rx.hdr, c->rx.hdr_len);
	rd_iw_conn_fail_swr(c, s, IBV_WC_BAD_RESP_ERR, "Read Response does not match the READ");
	return -1;
}

static int no_sink(struct rd_iw_conn *c, const struct rd_iw_swr *s)
{
	rd_iw_tx_term(c, RD_TERM_LOCAL_CATASTROPHIC, NULL, 0);
	rd_iw_conn_fail_swr(c, s, IBV_WC_LOC_PROT_ERR, "READ into memory not registered");
	return -1;
}

static int begin_rtr_response(struct rd_iw_conn *c)
{
	const struct rd_iw_hdr *h = &c->rx.h;

	return h->plen || !h->last ? refuse_fpdu(c, RD_TERM_DT_BOUNDS) : 0;
}

static int begin_response(struct rd_iw_conn *c)
{
	const struct rd_iw_hdr *h = &c->rx.h;
	struct rd_iw_rx *rx = &c->rx;
	uint32_t stag = 0, left;
	struct rd_iw_swr *s;
	uint64_t to = 0;

	if (c->rtr_read)
		return begin_rtr_response(c);
	s = rd_iw_sq_reading(c);
	if (!s)
		return refuse_fpdu(c, RD_TERM_RO_OPCODE);
	if (!rx->read_active) {
		rx->read_active = true;
		rx->read_off = 0;
	}
	if (s->num_sge) {
		stag = s->sge[0].lkey;
		if (!rd_iw_mr_find(c->dev, stag))
			return no_sink(c, s);
		to = rd_iw_mr_shown(c->dev, s->sge);
	}
	left = s->total - rx->read_off;
	if (h->stag != stag)
		return bad_response(c, s, RD_TERM_DT_STAG);
	if (h->to != to + rx->read_off || h->plen > left || h->last != (h->plen == left))
		return bad_response(c, s, RD_TERM_DT_BOUNDS);
	return 0;
}

static int dest_response(struct rd_iw_conn *c, struct iovec *iov)
{
	struct rd_iw_swr *s = rd_iw_sq_reading(c);
	struct rd_iw_rx *rx = &c->rx;
	int n;

	n = rd_iw_sge_iov(c->dev, s->sge, s->num_sge, rx->read_off + (rx->h.plen - rx->left),
			  rx->left, true, iov);
	return n < 0 ? no_sink(c, s) : n;
}

static void end_response(struct rd_iw_conn *c)
{
	struct rd_iw_rx *rx = &c->rx;

	if (c->rtr_read) {
		c->rtr_read = false;
	} else {
		rx->read_off += rx->h.plen;
		if (!rx->h.last)
			return;
		rx->read_active = false;
		rd_iw_sq_reading(c)->state = RD_IW_SWR_DONE;
		rd_iw_sq_reap(c);
	}
	c->tx.cur.reads_out--;
	rd_iw_tx_kick(c); /* a READ or a fenced work request may have waited for it */
}

/* ---- Read Requests ---- */

static int begin_read_req(struct rd_iw_conn *c)
{
	const struct rd_iw_hdr *h = &c->rx.h;
	/* With an IRD of 0 a peer may still send a zero-length READ as its first message. */
	uint32_t limit = c->base.ird || h->read.size ? c->base.ird : 1;

	if (h->qn != RD_DDP_QN_READ)
		return refuse_fpdu(c, RD_TERM_DU_QN);
	if (h->msn != c->rx.read_msn)
		return refuse_fpdu(c, RD_TERM_DU_MSN);
	if (h->mo != 0 || !h->last)
		return refuse_fpdu(c, RD_TERM_DU_MO);
	if (c->resp_tail - c->resp_head >= limit)
		return refuse_fpdu(c, RD_TERM_RO_STREAM);
	return 0;
}

static int end_read_req(struct rd_iw_conn *c)
{
	const struct rd_iw_read *r = &c->rx.h.read;
	void *at;

	if (r->size) {
		switch (rd_iw_mr_remote(c->dev, r->src_stag, r->src_to, r->size,
					IBV_ACCESS_REMOTE_READ, &at)) {
		case RD_IW_MR_OK:
			break;
		case RD_IW_MR_STAG:
			return refuse_fpdu(c, RD_TERM_RP_STAG);
		case RD_IW_MR_ACCESS:
			return refuse_fpdu(c, RD_TERM_RP_ACCESS);
		case RD_IW_MR_WRAP:
			return refuse_fpdu(c, RD_TERM_RP_WRAP);
		case RD_IW_MR_BOUNDS:
			return refuse_fpdu(c, RD_TERM_RP_BOUNDS);
		}
	}
	c->rx.read_msn++;
	c->resps[c->resp_tail++ & c->resp_mask] = *r;
	rd_iw_tx_kick(c);
	return 0;
}

/* ---- Terminate ---- */

static int end_terminate(struct rd_iw_conn *c)
{
	char text[RD_IW_TERM_TEXT];

	rd_iw_term_decode(c->rx.term, c->rx.term_len, text);
	c->fab->stats.terms_rx++;
	rd_iw_conn_end(c, -ECONNABORTED, "terminated by the peer: %s", text);
	return -1;
}

/* ---- all ---- */

int rd_iw_fpdu_begin(struct rd_iw_conn *c, bool whole)
{
	switch (c->rx.h.op) {
	case RD_RDMAP_WRITE:
		return begin_write(c);
	case RD_RDMAP_READ_REQ:
		return begin_read_req(c);
	case RD_RDMAP_READ_RESP:
		return begin_response(c);
	case RD_RDMAP_TERMINATE:
		c->rx.term_len = 0;
		return 0; /* ends the connection, whatever it contains */
	default:
		return begin_send(c, whole);
	}
}

int rd_iw_fpdu_dest(struct rd_iw_conn *c, struct iovec *iov)
{
	struct rd_iw_rx *rx = &c->rx;
	uint32_t off;
	int n;

	if (rx->h.op == RD_RDMAP_WRITE)
		return dest_write(c, iov);
	if (rx->h.op == RD_RDMAP_READ_RESP)
		return dest_response(c, iov);
	off = rx->recv_off + (rx->h.plen - rx->left);
	if (rx->reasm) {
		iov->iov_base = rx->reasm + off;
		iov->iov_len = rx->left;
		return 1;
	}
	n = rd_iw_sge_iov(c->dev, rx->recv->sge, rx->recv->num_sge, off, rx->left, true, iov);
	return n < 0 ? no_place(c) : n;
}

/*
 * The peer's first FPDU has arrived: the hold ends, ESTABLISHED is raised. A responder must wait
 * for it (RFC 5044 section 7.1.2, rule 4); an initiator waits because of siw.
 */
static void first_fpdu(struct rd_iw_conn *c)
{
	c->rx.got_first = true;
	rd_iw_hold_stop(c);
	rd_iw_tx_release(c);
	if (c->est_due) {
		c->est_due = false;
		rd_timer_stop(c->fab->base.loop, &c->timer);
		rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
	}
}

/*
 * Counts FPDUs without payload. The peer-to-peer model has one as its first message, and siw may
 * need a few empty WRITEs; more than MAX_BLANKS between two messages only cost processor time and
 * end the connection. Returns 0 or -1.
 */
static int look_for_blanks(struct rd_iw_conn *c)
{
	struct rd_iw_rx *rx = &c->rx;
	const struct rd_iw_hdr *h = &rx->h;

	if (h->plen || (h->op == RD_RDMAP_READ_REQ && h->read.size))
		return 0;
	if (rx->blank_msn != rx->send_msn)
		rx->blanks = 0;
	rx->blank_msn = rx->send_msn;
	if (++rx->blanks <= MAX_BLANKS)
		return 0;
	rd_iw_conn_end(c, -EPROTO, "the peer sent %u frames without payload and no message",
		       rx->blanks);
	return -1;
}

int rd_iw_fpdu_resume(struct rd_iw_conn *c)
{
	int rc = place_send(c);

	if (rc == 0 && !c->rx.got_first)
		first_fpdu(c);
	return rc;
}

int rd_iw_fpdu_end(struct rd_iw_conn *c)
{
	int rc = look_for_blanks(c);

	if (rc)
		return rc;
	switch (c->rx.h.op) {
	case RD_RDMAP_WRITE:
		break;
	case RD_RDMAP_READ_REQ:
		rc = end_read_req(c);
		break;
	case RD_RDMAP_READ_RESP:
		end_response(c);
		break;
	case RD_RDMAP_TERMINATE:
		return end_terminate(c);
	default:
		rc = end_send(c);
		break;
	}
	if (rc == 0 && !c->rx.got_first)
		first_fpdu(c);
	return rc;
}
