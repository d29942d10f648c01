/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: the state machine over the byte stream, and what each PDU must be. */
#include <errno.h>
#include <stdio.h>

#include "tcp.h"

#define RX_BYTES (1u << 20) /* read by one event at most, so that the loop reaches its timers */

/* Status of a command whose data had a wrong digest (Base 4.2.3): Transient Transport Error */
#define TRANSIENT_TRANSPORT_ERROR 0x22

void rdi_tcp_rx_reset(struct rdi_tcp_conn *c)
{
	c->rx.state = RDI_TCP_RX_HEAD;
	c->rx.have = 0;
	c->rx.sized = false;
	c->rx.dst = NULL;
	c->rx.req = NULL;
}

/* ---- errors ---- */

/* The controller has broken the protocol: tells it why, and ends the queue. */
static __attribute__((cold)) void send_h2c_term(struct rdi_tcp_conn *c,
						const struct nvme_tcp_error *error)
{
	const struct nvme_tcp_hdr *hdr = (const struct nvme_tcp_hdr *)c->rx.head;
	uint8_t term[NVME_TCP_TERM_MAX];
	char why[RDI_TEXT / 2];
	size_t len = nvme_tcp_build_term(term, NVME_TCP_H2C_TERM, error, c->rx.head, c->rx.have);

	/* In the middle of a PDU it would be data of that. */
	if (c->batch.iov_at == c->batch.n_iov)
		(void)!rdi_tcp_writev(c, &(struct iovec){term, len}, 1);
	snprintf(why, sizeof(why), "the controller sent a wrong %s: %s",
		 nvme_tcp_type_text(hdr->type), error->what);
	rdi_tcp_end(c, -EPROTO, why);
}

static __attribute__((cold)) void send_h2c_term_for(struct rdi_tcp_conn *c, enum nvme_tcp_fes fes,
						    const char *what)
{
	const struct nvme_tcp_error error = {.fes = fes, .what = what};

	send_h2c_term(c, &error);
}

/* ---- PDUs ---- */

/* The command that the controller names, or NULL after the queue was failed. */
static struct rdi_req *named_req(struct rdi_tcp_conn *c, uint16_t cid, enum rdi_dir dir)
{
	struct rdi_req *req = rdi_req_find(c->q, cid);

	if (!req)
		send_h2c_term_for(c, NVME_TCP_FES_SEQUENCE, "its command id is not in flight");
	else if (dir != RDI_NONE && req->dir != dir)
		send_h2c_term_for(c, NVME_TCP_FES_SEQUENCE,
				  "the command transfers no data this way");
	else
		return req;
	return NULL;
}

/* Which transfer a command that succeeded still lacks, or NULL. Other commands than Read and Write
 * may have transferred less than they have room for. */
static const char *missing_data(const struct rdi_tcp_conn *c, struct rdi_req *req)
{
	const struct rdi_tcp_req *tr = rdi_tcp_req(req);

	if (!c->q->cfg.qid)
		return NULL;
	if (req->sqe->opcode == nvme_cmd_read && req->dir == RDI_IN && tr->got != req->len)
		return "a Read succeeded without all of its data";
	if (req->sqe->opcode == nvme_cmd_write && req->dir == RDI_OUT &&
	    (tr->queued || tr->batched ||
	     (req->sqe->sgl.data.type == NVME_SGL_TCP_DATA && tr->sent != req->len)))
		return "a Write succeeded before all of its data was sent";
	return NULL;
}

/* Status and result are those of the answer. */
static void answer_req(struct rdi_tcp_conn *c, struct rdi_req *req)
{
	const struct rdi_tcp_req *tr = rdi_tcp_req(req);
	bool ok = nvme_status_ok(nvme_status_from_wire(req->status));
	const char *missing = ok ? missing_data(c, req) : NULL;

	if (ok && tr->bad) {
		req->status = nvme_status_to_wire(
			nvme_status(NVME_SCT_GENERIC, TRANSIENT_TRANSPORT_ERROR));
	} else if (missing) {
		send_h2c_term_for(c, NVME_TCP_FES_SEQUENCE, missing);
		return;
	}
	rdi_tcp_answered(c, req);
}

static void got_rsp(struct rdi_tcp_conn *c, const struct nvme_tcp_rsp *pdu)
{
	struct rdi_req *req = rdi_req_find(c->q, le16toh(pdu->cqe.cid));

	if (!req) {
		rdi_queue_fail(c->q, -EPROTO, RDI_UNKNOWN_CID, c->q->remote, le16toh(pdu->cqe.cid));
		return;
	}
	req->status = pdu->cqe.status;
	req->result = pdu->cqe.result64;
	answer_req(c, req);
}

static void got_r2t(struct rdi_tcp_conn *c, const struct nvme_tcp_r2t *pdu)
{
	struct rdi_req *req = named_req(c, le16toh(pdu->cccid), RDI_OUT);
	uint32_t at = le32toh(pdu->r2to), len = le32toh(pdu->r2tl);
	struct rdi_tcp_req *tr;

	if (!req)
		return;
	tr = rdi_tcp_req(req);
	if (tr->queued || tr->batched) {
		send_h2c_term_for(c, NVME_TCP_FES_LIMIT,
				  "the data of the last R2T is not sent yet");
	} else if (req->sqe->sgl.data.type != NVME_SGL_TCP_DATA) {
		send_h2c_term_for(c, NVME_TCP_FES_SEQUENCE, "the data was in the capsule");
	} else if (!len || at < tr->sent || at > req->len || len > req->len - at) {
		send_h2c_term_for(c, NVME_TCP_FES_RANGE,
				  "R2TO or R2TL is outside the command's data");
	} else {
		tr->ttag = pdu->ttag;
		tr->sent = at;
		tr->want = at + len;
		rdi_tcp_send_data(c, req);
	}
}

/* The header of C2HData is complete: where its data goes. */
static void begin_data(struct rdi_tcp_conn *c, const struct nvme_tcp_data *pdu)
{
	struct rdi_req *req = named_req(c, le16toh(pdu->cccid), RDI_IN);
	struct nvme_tcp_error error;

	if (!req)
		return;
	if (!nvme_tcp_check_data(pdu, &c->rx.parts, &error)) {
		send_h2c_term(c, &error);
	} else if (le32toh(pdu->datao) != rdi_tcp_req(req)->got ||
		   c->rx.parts.data > req->len - rdi_tcp_req(req)->got) {
		send_h2c_term_for(c, NVME_TCP_FES_RANGE, "DATAO or DATAL is not the next part");
	} else {
		c->rx.req = req;
		c->rx.dst = (uint8_t *)req->data + rdi_tcp_req(req)->got;
	}
}

static void end_data(struct rdi_tcp_conn *c, const struct nvme_tcp_data *pdu)
{
	struct rdi_req *req = c->rx.req;

	rdi_tcp_req(req)->got += c->rx.parts.data;
	if (!(pdu->hdr.flags & NVME_TCP_F_SUCCESS))
		return;
	req->status = 0;
	req->result = 0;
	answer_req(c, req);
}

static void got_c2h_term(struct rdi_tcp_conn *c, const struct nvme_tcp_term *pdu)
{
	char text[NVME_TCP_TERM_TEXT], why[RDI_TEXT / 2];

	snprintf(why, sizeof(why), "the controller ended the connection by C2HTermReq: %s",
		 nvme_tcp_term_text(le16toh(pdu->fes), nvme_tcp_term_fei(pdu), text));
	rdi_tcp_end(c, -EPROTO, why);
}

/* The header is complete: its digest is checked, and its data has a place. */
static void header_complete(struct rdi_tcp_conn *c)
{
	const struct nvme_tcp_hdr *hdr = (const struct nvme_tcp_hdr *)c->rx.head;
	struct nvme_tcp_error error;

	c->rx.crc = RD_CRC32C_SEED;
	if (!nvme_tcp_check_hdgst(c->rx.head, &error))
		send_h2c_term(c, &error);
	else if (hdr->type == NVME_TCP_C2H_TERM)
		got_c2h_term(c, (const struct nvme_tcp_term *)c->rx.head);
	else if ((hdr->type == NVME_TCP_ICRESP) != (c->state == RDI_TCP_IC))
		send_h2c_term_for(c, NVME_TCP_FES_SEQUENCE, "it does not come at this time");
	else if (hdr->type == NVME_TCP_C2H_DATA)
		begin_data(c, (const struct nvme_tcp_data *)c->rx.head);
}

/* All of the PDU has arrived. */
static void pdu_complete(struct rdi_tcp_conn *c)
{
	const struct nvme_tcp_hdr *hdr = (const struct nvme_tcp_hdr *)c->rx.head;

	switch (hdr->type) {
	case NVME_TCP_ICRESP:
		rdi_tcp_icresp(c, (const struct nvme_tcp_icresp *)c->rx.head);
		break;
	case NVME_TCP_RSP:
		got_rsp(c, (const struct nvme_tcp_rsp *)c->rx.head);
		break;
	case NVME_TCP_R2T:
		got_r2t(c, (const struct nvme_tcp_r2t *)c->rx.head);
		break;
	case NVME_TCP_C2H_DATA:
		end_data(c, (const struct nvme_tcp_data *)c->rx.head);
		break;
	}
}

/* ---- the stream ---- */

static bool receives(const struct rdi_tcp_conn *c)
{
	return c->state == RDI_TCP_IC || c->state == RDI_TCP_RUNNING;
}

/* Collects up to @want bytes at @to. Returns the bytes taken. */
static size_t collect(uint8_t *to, uint32_t *have, uint32_t want, const uint8_t *p, size_t n)
{
	if (n > want - *have)
		n = want - *have;
	memcpy(to + *have, p, n);
	*have += (uint32_t)n;
	return n;
}

/* Goes on to the next part of the PDU that is not empty, or to the next PDU. */
static void next_pdu_part(struct rdi_tcp_conn *c)
{
	struct rdi_tcp_rx *rx = &c->rx;

	if (rx->state == RDI_TCP_RX_HEAD && rx->parts.pad) {
		rx->state = RDI_TCP_RX_PAD;
		rx->left = rx->parts.pad;
	} else if (rx->state <= RDI_TCP_RX_PAD && rx->parts.data) {
		rx->state = RDI_TCP_RX_DATA;
		rx->left = rx->parts.data;
	} else if (rx->state == RDI_TCP_RX_DATA && rx->parts.ddgst) {
		rx->state = RDI_TCP_RX_DDGST;
		rx->have = 0;
	} else {
		pdu_complete(c);
		rdi_tcp_rx_reset(c);
	}
}

static size_t take_head(struct rdi_tcp_conn *c, const uint8_t *p, size_t n)
{
	struct rdi_tcp_rx *rx = &c->rx;
	struct nvme_tcp_error error;
	uint32_t want = rx->sized ? rx->parts.head : (uint32_t)sizeof(struct nvme_tcp_hdr);
	size_t took = collect(rx->head, &rx->have, want, p, n);

	if (rx->have < want)
		return took;
	if (!rx->sized) {
		rx->sized = nvme_tcp_check((const struct nvme_tcp_hdr *)rx->head, &c->rules,
					   &rx->parts, &error);
		if (!rx->sized)
			send_h2c_term(c, &error);
		return took;
	}
	header_complete(c);
	if (receives(c))
		next_pdu_part(c);
	return took;
}

/* @n bytes of data are at rx->dst. */
static void placed(struct rdi_tcp_conn *c, size_t n)
{
	struct rdi_tcp_rx *rx = &c->rx;

	if (rx->parts.ddgst)
		rx->crc = rd_crc32c(rx->crc, rx->dst, n);
	rx->dst += n;
	rx->left -= (uint32_t)n;
	if (!rx->left)
		next_pdu_part(c);
}

static size_t take_ddgst(struct rdi_tcp_conn *c, const uint8_t *p, size_t n)
{
	struct rdi_tcp_rx *rx = &c->rx;
	uint8_t want[RD_CRC32C_LEN];
	size_t took = collect(rx->ddgst, &rx->have, RD_CRC32C_LEN, p, n);

	if (rx->have < RD_CRC32C_LEN)
		return took;
	rd_crc32c_put(rx->crc, want);
	if (memcmp(want, rx->ddgst, sizeof(want)) != 0)
		rdi_tcp_req(rx->req)->bad = true;
	next_pdu_part(c);
	return took;
}

static void consume_bytes(struct rdi_tcp_conn *c, const uint8_t *p, size_t n)
{
	struct rdi_tcp_rx *rx = &c->rx;

	while (n && receives(c)) {
		size_t took = n;

		switch (rx->state) {
		case RDI_TCP_RX_HEAD:
			took = take_head(c, p, n);
			break;
		case RDI_TCP_RX_PAD:
			if (took > rx->left)
				took = rx->left;
			rx->left -= (uint32_t)took;
			if (!rx->left)
				next_pdu_part(c);
			break;
		case RDI_TCP_RX_DATA:
			if (took > rx->left)
				took = rx->left;
			memcpy(rx->dst, p, took);
			placed(c, took);
			break;
		case RDI_TCP_RX_DDGST:
			took = take_ddgst(c, p, n);
			break;
		}
		p += took;
		n -= took;
	}
}

/* Why reading has ended: @err, or 0 at the end of the stream. */
static const char *end_text(const struct rdi_tcp_conn *c, int err)
{
	if (c->state == RDI_TCP_IC && !c->tls.stream && (!err || err == -ECONNRESET))
		return "the target closed the connection instead of answering ICReq (a port that "
		       "demands TLS does so: see rdinit's --tls-key-file)";
	return rdi_tcp_io_text(c, err);
}

/* Reads once, and adds the number of bytes to *@total. Returns whether there may be more now. */
static bool read_from_target(struct rdi_tcp_conn *c, size_t *total)
{
	const struct rdi_tcp_handle *h = c->q->opened;
	size_t placing = receives(c) && c->rx.state == RDI_TCP_RX_DATA ? c->rx.left : 0;
	struct iovec iov[2] = {{c->rx.dst, placing}, {h->staging, RDI_TCP_STAGING}};
	ssize_t n = placing ? rdi_tcp_readv(c, iov, 2) : rdi_tcp_readv(c, &iov[1], 1);
	size_t direct;

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n <= 0) {
		rdi_tcp_end(c, n ? (int)n : -ECONNRESET, end_text(c, (int)n));
		return false;
	}
	*total += (size_t)n;
	direct = (size_t)n < placing ? (size_t)n : placing;
	if (direct)
		placed(c, direct);
	consume_bytes(c, h->staging, (size_t)n - direct);
	return (size_t)n == placing + RDI_TCP_STAGING;
}

bool rdi_tcp_rx_run(struct rdi_tcp_conn *c)
{
	size_t total = 0;
	bool more = true;

	while (more && c->state >= RDI_TCP_IC && c->state <= RDI_TCP_ENDING && total < RX_BYTES)
		more = read_from_target(c, &total);
	/* For what is decrypted already, the socket reports nothing. */
	if (c->tls.stream && total >= RX_BYTES && nvmf_tls_pending(c->tls.stream))
		rd_defer(c->q->loop, &c->tls.more, RD_DEFER_NEXT);
	return total;
}

void rdi_tcp_poll(struct rdi_queue *q)
{
	rdi_tcp_rx_run(q->conn);
}
