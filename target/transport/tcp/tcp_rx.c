/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reception: a state machine over a byte stream, independent of how TCP segments it. One readv(2)
 * reads the rest of the current data directly to its place (the buffer of a request or the area of
 * a capsule), and what follows into the staging buffer. That is processed before the callback
 * returns; only bytes behind a command that waits for a capsule are kept.
 */
#include "tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "util/cold.h"
#include "util/sockaddr.h"
#include "target/nvmf/heartbeat.h"
#include "target/nvmf/target.h"

#define RX_ROUNDS 4 /* readv calls before other connections are served */
/* While at least this much data is in progress or was requested, most bytes have a known place. A
 * short staging part then leaves bytes in the socket until their place is known. */
#define RX_LARGE 16384u
#define RX_SHORT 4096u

/* The result of processing bytes. */
enum rx {
	RX_ON,   /* all bytes were processed */
	RX_HELD, /* a command waits for a capsule, or the connection is held: the rest is kept */
	RX_END,  /* the connection has ended */
};

static void begin_pdu(struct rdt_tcp_rx *rx)
{
	rx->state = RDT_TCP_RX_HEAD;
	rx->have = 0;
	rx->sized = false;
	rx->capsule = NULL;
	rx->filled = NULL;
	rx->dst = NULL;
}

static RD_COLD enum rx refuse_with(struct rdt_tcp_conn *c, enum nvme_tcp_fes fes, size_t fei,
				   const char *what)
{
	const struct nvme_tcp_error error = {fes, (uint32_t)fei, what};

	rdt_tcp_refuse(c, &error);
	return RX_END;
}

/* ---- the first PDU ---- */

/* Other protocols are recognized by their first byte. They would not understand a C2HTermReq. */
static RD_COLD enum rx not_icreq(struct rdt_tcp_conn *c)
{
	const char *why = "the first bytes are not those of NVMe/TCP";

	if (c->rx.head[0] == 0x16)
		why = "the host begins with TLS, which is not enabled for this listener";
	else if (c->rx.head[0] == 'M')
		why = "the host begins with iWARP (MPA), but this is an NVMe/TCP listener";
	rdt_qpair_lost(&c->qp, RDT_END_FAULT, why);
	return RX_END;
}

static enum rx got_icreq(struct rdt_tcp_conn *c)
{
	const struct nvme_tcp_icreq *req = (const void *)c->rx.head;
	uint8_t dgst = req->dgst & (NVME_TCP_HDGST | NVME_TCP_DDGST);
	struct nvme_tcp_icresp resp;

	if (req->pfv)
		return refuse_with(c, NVME_TCP_FES_UNSUPPORTED,
				   offsetof(struct nvme_tcp_icreq, pfv),
				   "the PDU format version is not 0");
	if (req->hpda > 31)
		return refuse_with(c, NVME_TCP_FES_HEADER, offsetof(struct nvme_tcp_icreq, hpda),
				   "HPDA is more than 31");
	c->rules.hdgst = dgst & NVME_TCP_HDGST;
	c->rules.ddgst = dgst & NVME_TCP_DDGST;
	c->hpda = req->hpda;
	/* CPDA is 0, because Linux refuses other values. */
	nvme_tcp_build_icresp(&resp, dgst, c->qp.data_max);
	/* These are the first bytes, so they fit into the send buffer. */
	if (!rdt_tcp_send_short(c, &resp, sizeof(resp))) {
		rdt_qpair_lost(&c->qp, RDT_END_LOST, "the ICResp could not be sent");
		return RX_END;
	}
	c->state = RDT_TCP_RUNNING;
	return RX_ON;
}

/* ---- commands ---- */

/* Returns the maximum in-capsule data of a command. Before Connect tells the queue, it counts as an
 * admin queue. */
static uint32_t most_in_capsule(const struct rdt_tcp_conn *c, const struct nvme_sqe *sqe)
{
	const struct rdt_target_config *cfg = &c->qp.reactor->target->cfg->target;

	return sqe->opcode == NVMF_OPCODE || c->qp.admin ? NVME_TCP_ADMIN_IN_CAPSULE
							 : cfg->in_capsule_bytes;
}

static enum rx begin_command(struct rdt_tcp_conn *c)
{
	const struct nvme_tcp_cmd *pdu = (const void *)c->rx.head;
	struct rdt_tcp_rx *rx = &c->rx;
	uint32_t len = rx->parts.data;

	if (len > most_in_capsule(c, &pdu->sqe))
		return refuse_with(c, NVME_TCP_FES_LIMIT, 0,
				   "more data in a capsule than IOCCSZ allows");
	rx->capsule = rdt_tcp_capsule_get(c, len);
	if (!rx->capsule)
		return c->state == RDT_TCP_CLOSED ? RX_END : RX_HELD;
	rx->capsule->sqe = pdu->sqe;
	rx->dst = rx->capsule->area;
	if (len)
		rdt_tcp_posted(c, &c->fetched, len);
	return RX_ON;
}

static enum rx end_command(struct rdt_tcp_conn *c, bool bad)
{
	struct rdt_tcp_capsule *k = c->rx.capsule;

	c->rx.capsule = NULL;
	k->bad = bad;
	rdt_qpair_capsule(&c->qp, &k->cap);
	return c->state == RDT_TCP_CLOSED ? RX_END : RX_ON;
}

/* ---- H2CData ---- */

static bool flags_fit(const struct nvme_tcp_data *pdu, bool last)
{
	return !(pdu->hdr.flags & NVME_TCP_F_LAST) == !last;
}

#define DATA_AT(field) offsetof(struct nvme_tcp_data, field)

static enum rx begin_h2c(struct rdt_tcp_conn *c)
{
	const struct nvme_tcp_data *pdu = (const void *)c->rx.head;
	uint16_t ttag = le16toh(pdu->ttag);
	uint32_t len = c->rx.parts.data;
	struct nvme_tcp_error error;
	struct rdt_tcp_req *t;

	if (!(pdu->hdr.flags & NVME_TCP_F_LAST) && len < RD_RX_PIECE_MAX)
		c->rx.turn.pieces++;
	if (!nvme_tcp_check_data(pdu, &c->rx.parts, &error))
		return refuse_with(c, error.fes, error.fei, error.what);
	if (len > c->qp.data_max)
		return refuse_with(c, NVME_TCP_FES_LIMIT, 0, "H2CData is longer than MAXH2CDATA");
	if (c->ttags_free == c->qp.depth)
		return refuse_with(c, NVME_TCP_FES_SEQUENCE, 0, "H2CData without an R2T");
	t = ttag < c->qp.depth ? c->asked[ttag] : NULL;
	if (!t || !t->asked)
		return refuse_with(c, NVME_TCP_FES_HEADER, DATA_AT(ttag),
				   "the TTAG of H2CData matches no R2T");
	if (pdu->cccid != t->req.sqe.cid)
		return refuse_with(c, NVME_TCP_FES_HEADER, DATA_AT(cccid),
				   "the CCCID of H2CData is not that of its R2T");
	if (le32toh(pdu->datao) != t->got)
		return refuse_with(c, NVME_TCP_FES_RANGE, 0,
				   "H2CData does not continue where the data before it ended");
	if (len > t->req.data_len - t->got)
		return refuse_with(c, NVME_TCP_FES_RANGE, 0,
				   "H2CData exceeds what its R2T asked for");
	if (!flags_fit(pdu, len == t->req.data_len - t->got))
		return refuse_with(c, NVME_TCP_FES_HEADER, offsetof(struct nvme_tcp_hdr, flags),
				   "LAST_PDU is not set exactly at the end of the data");
	c->rx.filled = t;
	c->rx.dst = (uint8_t *)t->req.buf + t->got;
	return RX_ON;
}

static enum rx end_h2c(struct rdt_tcp_conn *c, bool bad)
{
	struct rdt_tcp_req *t = c->rx.filled;

	c->rx.filled = NULL;
	t->got += c->rx.parts.data;
	t->bad |= bad;
	if (t->got < t->req.data_len)
		return RX_ON;
	c->asked[t->ttag] = NULL;
	c->ttags[c->ttags_free++] = t->ttag;
	rdt_req_fetched(&t->req, t->bad ? -EBADMSG : 0);
	return c->state == RDT_TCP_CLOSED ? RX_END : RX_ON;
}

/* ---- H2CTermReq ---- */

static RD_COLD enum rx got_term(struct rdt_tcp_conn *c)
{
	const struct nvme_tcp_term *pdu = (const void *)c->rx.head;
	const struct rdt_qpair *qp = &c->qp;
	char text[NVME_TCP_TERM_TEXT], addr[RD_ADDR_TEXT];

	rd_log_limited(&c->tcp->refused_limit, rd_loop_now(qp->reactor->loop), qp->log,
		       RD_LOG_QPAIR, RD_LOG_NOTICE,
		       "qid %u from %s: the host ends the connection: %s", qp->qid,
		       rd_addr_format((const struct sockaddr *)&qp->remote, addr),
		       nvme_tcp_term_text(le16toh(pdu->fes), nvme_tcp_term_fei(pdu), text));
	rdt_qpair_lost(&c->qp, RDT_END_FAULT, "the host sent an H2CTermReq");
	return RX_END;
}

/* ---- any PDU ---- */

/* The header is complete: begin the rest of the PDU. */
static enum rx begin_body(struct rdt_tcp_conn *c)
{
	const struct nvme_tcp_hdr *hdr = (const void *)c->rx.head;

	switch (hdr->type) {
	case NVME_TCP_CMD:
		return begin_command(c);
	case NVME_TCP_H2C_DATA:
		return begin_h2c(c);
	case NVME_TCP_H2C_TERM: /* its data is a header of ours, which nobody needs */
		return got_term(c);
	default:
		return RX_ON;
	}
}

bool rdt_tcp_rx_stop(struct rdt_tcp_conn *c)
{
	const struct rdt_tcp_rx *rx = &c->rx;

	if (c->hold == RDT_HOLD_OFF || c->state == RDT_TCP_CLOSED)
		return false;
	if (c->hold == RDT_HOLD_ENDS &&
	    (rx->state != RDT_TCP_RX_HEAD || rdt_qpair_awaits_host(&c->qp)))
		return false;
	c->stopped = true;
	return true;
}

static enum rx pdu_done(struct rdt_tcp_conn *c, bool bad)
{
	const struct nvme_tcp_hdr *hdr = (const void *)c->rx.head;
	enum rx rc;

	c->rx.pdus++;
	c->fetched.done += c->rx.parts.data != 0; /* see data_placed() */
	rdt_heartbeat_check_again(c->qp.reactor);
	switch (hdr->type) {
	case NVME_TCP_CMD:
		rc = end_command(c, bad);
		break;
	case NVME_TCP_H2C_DATA:
		rc = end_h2c(c, bad);
		break;
	default: /* begin_body() and may_come() leave no other type */
		rc = got_icreq(c);
		break;
	}
	if (rc != RX_ON)
		return rc;
	begin_pdu(&c->rx);
	return __builtin_expect(c->hold, 0) && rdt_tcp_rx_stop(c) ? RX_HELD : RX_ON;
}

static enum rx data_done(struct rdt_tcp_conn *c)
{
	if (!c->rx.parts.ddgst)
		return pdu_done(c, false);
	c->rx.state = RDT_TCP_RX_DDGST;
	c->rx.have = 0;
	return RX_ON;
}

static enum rx pad_done(struct rdt_tcp_conn *c)
{
	struct rdt_tcp_rx *rx = &c->rx;

	rx->left = rx->parts.data;
	rx->crc = RD_CRC32C_SEED;
	rx->state = RDT_TCP_RX_DATA;
	return rx->left ? RX_ON : data_done(c);
}

static enum rx head_done(struct rdt_tcp_conn *c)
{
	struct rdt_tcp_rx *rx = &c->rx;
	enum rx rc = begin_body(c);

	rx->held = rc == RX_HELD;
	if (rc != RX_ON)
		return rc;
	rx->left = rx->parts.pad;
	rx->state = RDT_TCP_RX_PAD;
	return rx->left ? RX_ON : pad_done(c);
}

/* Check that a PDU of this type is allowed now. */
static enum rx may_come(struct rdt_tcp_conn *c, unsigned int type)
{
	if (c->state == RDT_TCP_WAIT_ICREQ && type != NVME_TCP_ICREQ)
		return refuse_with(c, NVME_TCP_FES_SEQUENCE, 0, "a PDU arrived before ICReq");
	if (c->state != RDT_TCP_WAIT_ICREQ && type == NVME_TCP_ICREQ)
		return refuse_with(c, NVME_TCP_FES_SEQUENCE, 0, "a second ICReq");
	return RX_ON;
}

/* The common header is complete: determine the size of the PDU. */
static enum rx size_pdu(struct rdt_tcp_conn *c)
{
	const struct nvme_tcp_hdr *hdr = (const void *)c->rx.head;
	struct nvme_tcp_error error;

	c->rx.sized = true;
	if (!nvme_tcp_check(hdr, &c->rules, &c->rx.parts, &error))
		return refuse_with(c, error.fes, error.fei, error.what);
	return may_come(c, hdr->type);
}

static uint32_t head_need(const struct rdt_tcp_rx *rx)
{
	return rx->sized ? rx->parts.head : (uint32_t)sizeof(struct nvme_tcp_hdr);
}

static enum rx head_bytes(struct rdt_tcp_conn *c)
{
	struct rdt_tcp_rx *rx = &c->rx;
	struct nvme_tcp_error error;

	if (c->state == RDT_TCP_WAIT_ICREQ && rx->head[0] > NVME_TCP_R2T)
		return not_icreq(c);
	if (rx->have < head_need(rx))
		return RX_ON;
	if (!rx->sized)
		return size_pdu(c);
	if (!nvme_tcp_check_hdgst(rx->head, &error))
		return refuse_with(c, error.fes, error.fei, error.what);
	return head_done(c);
}

/* ---- bytes ---- */

static uint32_t least_of(size_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* @n bytes of data have arrived at rx->dst. The last byte of a PDU counts when the PDU is complete:
 * a host that withholds the data digest keeps the buffer in use, as one does that withholds data.
 */
static enum rx data_placed(struct rdt_tcp_conn *c, uint32_t n)
{
	struct rdt_tcp_rx *rx = &c->rx;

	if (rx->parts.ddgst)
		rx->crc = rd_crc32c(rx->crc, rx->dst, n);
	rx->dst += n;
	rx->left -= n;
	c->fetched.done += n - !rx->left;
	return rx->left ? RX_ON : data_done(c);
}

static enum rx ddgst_bytes(struct rdt_tcp_conn *c)
{
	uint8_t want[RD_CRC32C_LEN];

	if (c->rx.have < sizeof(want))
		return RX_ON;
	rd_crc32c_put(c->rx.crc, want);
	return pdu_done(c, memcmp(want, c->rx.ddgst, sizeof(want)) != 0);
}

/* Process received bytes. Returns how many of the @n bytes at @p were used. */
static uint32_t rx_step(struct rdt_tcp_conn *c, const uint8_t *p, size_t n, enum rx *rc)
{
	struct rdt_tcp_rx *rx = &c->rx;
	uint32_t part;

	switch (rx->state) {
	case RDT_TCP_RX_HEAD:
		part = least_of(n, head_need(rx) - rx->have);
		memcpy(rx->head + rx->have, p, part);
		rx->have += part;
		*rc = head_bytes(c);
		break;
	case RDT_TCP_RX_PAD:
		part = least_of(n, rx->left);
		rx->left -= part;
		*rc = rx->left ? RX_ON : pad_done(c);
		break;
	case RDT_TCP_RX_DATA:
		part = least_of(n, rx->left);
		memcpy(rx->dst, p, part);
		*rc = data_placed(c, part);
		break;
	default:
		part = least_of(n, RD_CRC32C_LEN - rx->have);
		memcpy(rx->ddgst + rx->have, p, part);
		rx->have += part;
		*rc = ddgst_bytes(c);
		break;
	}
	return part;
}

/* Keep the @n bytes at @p, which follow a command that waits for a capsule, or arrive during a
 * hold. */
static enum rx keep_behind(struct rdt_tcp_conn *c, const uint8_t *p, size_t n)
{
	if (!rd_rx_rest_keep(&c->rx.rest, p, n)) {
		rdt_qpair_lost(&c->qp, RDT_END_FAULT, "out of memory");
		return RX_END;
	}
	rdt_tcp_watch(c);
	return RX_HELD;
}

static enum rx use_bytes(struct rdt_tcp_conn *c, const uint8_t *p, size_t n)
{
	enum rx rc = RX_ON;

	while (n && rc == RX_ON) {
		uint32_t used = rx_step(c, p, n, &rc);

		p += used;
		n -= used;
	}
	return rc == RX_HELD ? keep_behind(c, p, n) : rc;
}

static bool in_large_transfer(const struct rdt_tcp_conn *c)
{
	return c->rx.left >= RX_LARGE || c->fetched.posted - c->fetched.done >= RX_LARGE;
}

static void end_of_file(struct rdt_tcp_conn *c)
{
	bool between = c->rx.state == RDT_TCP_RX_HEAD && !c->rx.have;

	c->eof = true;
	rdt_qpair_lost(&c->qp, between ? RDT_END_HOST : RDT_END_LOST,
		       !between             ? "closed by the host in the middle of a PDU"
		       : rdt_tcp_cut_off(c) ? "closed by the host without a TLS close_notify"
					    : "closed by the host");
}

static size_t staging_part(const struct rdt_tcp_conn *c)
{
	uint32_t room = c->rx.turn.room;

	return room > RX_SHORT && in_large_transfer(c) ? RX_SHORT : room;
}

/* Call readv once. Returns whether the socket may have more. Sets *@any if it had data. */
static bool read_once(struct rdt_tcp_conn *c, bool *any)
{
	struct rdt_tcp_rx *rx = &c->rx;
	size_t tail = staging_part(c), direct = 0, got;
	uint32_t before = rx->pdus;
	struct iovec iov[2];
	enum rx rc = RX_ON;
	int count = 0;
	ssize_t n;

	if (rx->state == RDT_TCP_RX_DATA) {
		direct = rx->left;
		iov[count++] = (struct iovec){rx->dst, direct};
	}
	iov[count++] = (struct iovec){c->tcp->staging, tail};
	n = rdt_tcp_readv(c, iov, count);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	*any = true;
	if (n <= 0) {
		if (n < 0 && !rdt_tcp_cut_off(c))
			rdt_qpair_lost(&c->qp, RDT_END_LOST, rdt_tcp_stream_error(c, errno));
		else
			end_of_file(c);
		return false;
	}
	got = (size_t)n;
	if (direct) {
		uint32_t part = least_of(got, (uint32_t)direct);

		rc = data_placed(c, part);
		got -= part;
	}
	if (rc == RX_ON)
		rc = use_bytes(c, c->tcp->staging, got);
	else if (rc == RX_HELD)
		rc = keep_behind(c, c->tcp->staging, got);
	rd_rx_turn_size(&rx->turn, (size_t)n, rx->pdus - before, RDT_TCP_STAGING);
	return rc == RX_ON && (size_t)n == direct + tail;
}

bool rdt_tcp_rx_run(struct rdt_tcp_conn *c)
{
	struct rd_rx_pieces *pieces = &c->tcp->pieces;
	struct rdt_tcp_rx *rx = &c->rx;
	bool any = false, more;

	if (rd_rx_turn_waits(pieces, &rx->turn, rd_loop_turns(c->qp.reactor->loop))) {
		rdt_tcp_read_again(c);
		return true;
	}
	c->qp.reactor->run.match = 0;
	more = read_once(c, &any);
	for (int i = 1; more && i < RX_ROUNDS && rd_rx_turn_more(&rx->turn, rx->pdus); i++)
		more = read_once(c, &any);
	rd_rx_turn_charge(pieces, &rx->turn, rx->pdus);
	rx->pdus = 0;
	rdt_tcp_read_again(c);
	return any;
}

void rdt_tcp_rx_resume(struct rdt_tcp_conn *c)
{
	struct rdt_tcp_rx *rx = &c->rx;
	const struct rd_rx_rest *rest = &rx->rest;
	enum rx rc;

	if ((!rx->held && !rest->bytes) || (c->stopped && c->hold) || c->state == RDT_TCP_CLOSED)
		return;
	c->stopped = false;
	c->qp.reactor->run.match = 0;
	rc = rx->held ? head_done(c) : RX_ON;
	if (rc == RX_ON && rest->bytes)
		rc = use_bytes(c, rest->bytes + rest->off, rest->len - rest->off);
	rd_rx_turn_late(&c->tcp->pieces, &rx->turn, rx->pdus);
	rx->pdus = 0;
	if (rc != RX_ON)
		return;
	rd_rx_rest_drop(&rx->rest);
	rdt_tcp_watch(c);
	rdt_tcp_read_again(c);
}

void rdt_tcp_rx_drop(struct rdt_tcp_conn *c)
{
	struct rdt_tcp_rx *rx = &c->rx;

	if (rx->capsule)
		rdt_tcp_capsule_put(rx->capsule);
	begin_pdu(rx);
	rx->held = false;
	rd_rx_rest_drop(&rx->rest);
}
