/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are held, and go on in another process (fabric.h). Between two messages, with
 * nothing to send, a connection is its socket, the negotiated parameters, four sequence numbers and
 * the bytes that were read and not used. Messages that the user has not begun to handle are framed
 * again, so that they are such bytes too.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "conn.h"

#define SEGMENT 32768u /* payload of an FPDU of a message that is framed again */

/* ---- messages that are set aside ---- */

void rd_iw_aside_drop(struct rd_iw_conn *c)
{
	struct rd_iw_aside *a;

	while ((a = STAILQ_FIRST(&c->rx.aside))) {
		STAILQ_REMOVE_HEAD(&c->rx.aside, link);
		free(a);
	}
	c->rx.aside_count = 0;
}

int rd_iw_set_aside(struct rd_iw_conn *c)
{
	struct rd_iw_rx *rx = &c->rx;
	struct rd_iw_aside *a = NULL;

	/* A peer has no more messages on their way than there may be answers. */
	if (rx->aside_count < c->sq.depth)
		a = malloc(sizeof(*a) + rx->recv_off);
	if (!a) {
		rd_iw_conn_end(c, -ENOMEM, "out of memory for messages that come in a hold");
		return -1;
	}
	a->len = rx->recv_off;
	a->op = (uint8_t)rx->h.op;
	a->inv = rx->h.inv_stag;
	memcpy(a->data, rx->reasm, rx->recv_off);
	STAILQ_INSERT_TAIL(&rx->aside, a, link);
	rx->aside_count++;
	rx->send_msn++;
	rx->recv_active = false;
	rd_iw_reasm_put(c);
	return 0;
}

/* Returns whether it was delivered. False: it waits for a RECV, or the connection ended. */
static bool deliver_aside(struct rd_iw_conn *c, struct rd_iw_aside *a)
{
	bool inv = a->op == RD_RDMAP_SEND_INV || a->op == RD_RDMAP_SEND_SE_INV;
	const struct rd_iw_rwr *r = rd_iw_recv_next(c);
	struct iovec iov[RD_IW_MAX_SGE];
	const uint8_t *from = a->data;
	int n;

	if (!r) {
		rd_iw_srq_wait(c);
		rd_iw_conn_watch(c);
		return false;
	}
	n = a->len <= r->total ? rd_iw_sge_iov(c->dev, r->sge, r->num_sge, 0, a->len, true, iov)
			       : -1;
	if (n < 0 || (inv && rd_iw_mr_invalidate(c->dev, a->inv))) {
		rd_iw_conn_end(c, -EPROTO, "a message does not fit its RECV, or its key");
		return false;
	}
	for (int i = 0; i < n; i++) {
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
	rd_iw_recv_use(c);
	rd_iw_cq_push(c->rcq, &c->base, r->wr_id, IBV_WC_RECV, IBV_WC_SUCCESS, a->len,
		      inv ? IBV_WC_WITH_INV : 0, inv ? a->inv : 0);
	STAILQ_REMOVE_HEAD(&c->rx.aside, link);
	c->rx.aside_count--;
	free(a);
	return true;
}

/* ---- the hold ---- */

bool rd_iw_rx_stop(struct rd_iw_conn *c)
{
	const struct rd_iw_rx *rx = &c->rx;
	bool waits = c->stalled || (c->base.waits && !rx->aside_count);

	if (c->hold < RD_FAB_HOLD_ENDS || c->state != RD_IW_OPEN)
		return false;
	if (c->hold == RD_FAB_HOLD_ENDS && !waits &&
	    (rx->state != RD_IW_RX_HEADER || rx->recv_active || rx->read_active))
		return false;
	rd_iw_srq_unwait(c); /* out of the list of those that wait */
	c->stalled = waits;
	c->stopped = true;
	return true;
}

void rd_iw_hold_over(struct rd_iw_conn *c)
{
	struct rd_iw_aside *a;
	bool stalled = c->stalled;

	while ((a = STAILQ_FIRST(&c->rx.aside)))
		if (!deliver_aside(c, a))
			return;
	c->stalled = false;
	if (stalled)
		rd_iw_rx_resume(c);
	else
		rd_iw_rx_go_on(c);
}

/* A message that waits for a RECV is set aside, and what is behind it is received. */
static void begin_aside(struct rd_iw_conn *c)
{
	if (!c->base.waits)
		return;
	rd_iw_srq_unwait(c);
	if (c->rx.aside_count)
		rd_iw_rx_go_on(c);
	else
		rd_iw_rx_resume(c);
}

void rd_iw_hold(struct rd_fab_conn *conn, enum rd_fab_hold how)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);

	/* Without a hold there is nothing to go on with: a message may wait for a RECV. */
	if (how == RD_FAB_HOLD_OFF && c->hold == RD_FAB_HOLD_OFF)
		return;
	c->hold = (uint8_t)how;
	if (c->state != RD_IW_OPEN)
		return;
	if (how == RD_FAB_HOLD_ASIDE) {
		begin_aside(c);
	} else if (how == RD_FAB_HOLD_OFF) {
		c->stopped = false;
		rd_iw_hold_over(c);
	} else if (rd_iw_rx_stop(c)) {
		rd_iw_conn_watch(c);
	}
}

bool rd_iw_rests(struct rd_fab_conn *conn)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	const struct rd_iw_cursor *cur = &c->tx.cur;

	if (!rd_iw_rx_stop(c))
		return false;
	rd_iw_conn_watch(c);
	return c->state == RD_IW_OPEN && c->rx.got_first && !c->est_due && !c->tx.hold &&
	       c->sq.head == c->sq.tail && c->resp_head == c->resp_tail && !c->tx.part_sent &&
	       !cur->reads_out && !cur->poke && cur->src == RD_IW_SRC_NONE && !c->rtr_read &&
	       rd_wc_ring_empty(&c->rcq->ring);
}

/* ---- out ---- */

struct framer {
	bool crc;
	void (*put)(void *arg, const void *p, size_t n);
	void *arg;
};

/* Puts an FPDU with the bytes from @mo on of the message @m. */
static void put_fpdu(const struct framer *f, const uint8_t *hdr, size_t hdr_len,
		     const struct rd_fab_message *m, uint32_t mo, uint32_t plen)
{
	uint32_t crc = rd_crc32c(RD_CRC32C_SEED, hdr, hdr_len);
	uint32_t pad = rd_iw_pad((uint32_t)hdr_len + plen);
	uint8_t trail[RD_MPA_MAX_TRAIL + 1] = {0};

	f->put(f->arg, hdr, hdr_len);
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t first = mo < m->len[i] ? mo : m->len[i];
		uint32_t part = m->len[i] - first < plen ? m->len[i] - first : plen;
		const uint8_t *p = (const uint8_t *)m->part[i] + first;

		mo -= first;
		plen -= part;
		if (!part)
			continue;
		f->put(f->arg, p, part);
		crc = rd_crc32c(crc, p, part);
	}
	if (f->crc)
		rd_crc32c_put(rd_crc32c(crc, trail, pad), trail + pad);
	f->put(f->arg, trail, pad + RD_MPA_CRC_LEN);
}

static void put_message(const struct framer *f, enum rd_rdmap_op op, uint32_t inv_stag,
			uint32_t msn, const struct rd_fab_message *m)
{
	uint32_t len = m->len[0] + m->len[1], mo = 0;

	do {
		uint32_t plen = len - mo < SEGMENT ? len - mo : SEGMENT;
		uint8_t hdr[RD_IW_MAX_HDR];
		size_t hdr_len = rd_iw_put_untagged(hdr, op, mo + plen == len, inv_stag,
						    RD_DDP_QN_SEND, msn, mo, plen);

		put_fpdu(f, hdr, hdr_len, m, mo, plen);
		mo += plen;
	} while (mo < len);
}

/* What was read and not delivered. */
static void put_unused(const struct framer *f, const struct rd_iw_rx *rx)
{
	const struct rd_fab_message m = {.part = {rx->reasm, ""}, .len = {rx->recv_off, 0}};
	uint32_t msn = rx->send_msn - rx->aside_count;
	const struct rd_iw_aside *a;

	STAILQ_FOREACH (a, &rx->aside, link) {
		const struct rd_fab_message am = {.part = {a->data, ""}, .len = {a->len, 0}};

		put_message(f, (enum rd_rdmap_op)a->op, a->inv, msn++, &am);
	}
	if (rx->recv_active)
		put_message(f, rx->h.op, rx->h.inv_stag, rx->send_msn, &m);
	f->put(f->arg, rx->hdr, rx->have);
	if (rx->rest.bytes)
		f->put(f->arg, rx->rest.bytes + rx->rest.off, rx->rest.len - rx->rest.off);
}

int rd_iw_move_out(struct rd_fab_conn *conn, const struct rd_fab_message *msgs, uint32_t count,
		   void (*put)(void *arg, const void *p, size_t n), void *arg,
		   struct rd_fab_moved *out)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	const struct framer f = {c->crc, put, arg};

	if (!c->passive || c->events.pending || !rd_iw_rests(conn))
		return -EOPNOTSUPP;
	*out = (struct rd_fab_moved){
		.crc = c->crc,
		.ird = c->base.ird,
		.ord = c->base.ord,
		.tx_send_msn = c->tx.cur.send_msn,
		.tx_read_msn = c->tx.cur.read_msn,
		.rx_send_msn = c->rx.send_msn - c->rx.aside_count - count,
		.rx_read_msn = c->rx.read_msn,
	};
	for (uint32_t i = 0; i < count; i++)
		put_message(&f, RD_RDMAP_SEND, 0, out->rx_send_msn + i, &msgs[i]);
	put_unused(&f, &c->rx);
	return c->io.fd;
}

/* ---- in ---- */

int rd_iw_move_in(struct rd_fab *ffab, int fd, const struct rd_fab_moved *moved,
		  rd_fab_event_fn on_event, void *arg, struct rd_fab_conn **out)
{
	struct rd_iw_fab *fab = rd_iw_fab(ffab);
	struct rd_iw_conn *c;
	int rc = -EPROTO;

	if (moved->ird > RD_IW_MAX_DEPTH || moved->ord > RD_IW_MAX_DEPTH || !moved->ord)
		goto err_close;
	rc = rd_iw_conn_new(fab, on_event, arg, &c);
	if (rc)
		goto err_close;
	c->passive = true;
	c->io.fd = fd;
	c->crc = moved->crc;
	c->base.dev = &c->dev->base;
	c->base.ird = moved->ird;
	c->base.ord = moved->ord;
	c->base.moved = true;
	c->tx.cur.send_msn = moved->tx_send_msn;
	c->tx.cur.read_msn = moved->tx_read_msn;
	c->rx.send_msn = moved->rx_send_msn;
	c->rx.read_msn = moved->rx_read_msn;
	rd_iw_set_state(c, RD_IW_ADOPTED);
	*out = &c->base;
	return 0;

err_close:
	close(fd);
	return rc;
}

int rd_iw_move_open(struct rd_fab_conn *conn, const void *bytes, size_t len)
{
	struct rd_iw_conn *c = rd_iw_conn(conn);
	struct rd_iw_depths depths = {.ird = c->base.ird, .ord = c->base.ord};
	const struct rd_iw_cursor tx = c->tx.cur;
	uint32_t send_msn = c->rx.send_msn, read_msn = c->rx.read_msn;
	int rc;

	if (c->state != RD_IW_ADOPTED || !c->has_qp)
		return -EINVAL;
	if (!rd_rx_rest_keep(&c->rx.rest, bytes, len))
		return -ENOMEM;
	rc = rd_iw_conn_open(c, &depths);
	if (rc)
		return rc;
	c->tx.cur = tx;
	c->rx.send_msn = send_msn;
	c->rx.read_msn = read_msn;
	c->rx.got_first = true;
	c->hold = RD_FAB_HOLD_ENDS;
	c->stopped = true;
	rd_iw_conn_watch(c);
	return c->state == RD_IW_OPEN ? 0 : -ENOMEM;
}
