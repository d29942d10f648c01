/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending. One sendmsg sends everything that was queued in a loop iteration: R2Ts and answers in
 * order, data directly from its buffer. An answer is C2HData in one PDU and CapsuleResp, or C2HData
 * with SUCCESS. */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "target/nvmf/heartbeat.h"

#define TX_ENTRIES 128u /* entries in one sendmsg */
#define TX_BYTES   (512u << 10)
#define TX_COPY_MAX \
	(sizeof(((struct rdt_tcp_req *)0)->head) + sizeof(((struct rdt_tcp_req *)0)->tail))
#define TX_ROUNDS 4 /* sendmsg calls before other connections are served */

static void queue_tx(struct rdt_tcp_conn *c, struct rdt_tcp_req *t, bool is_r2t)
{
	t->is_r2t = is_r2t;
	t->queued = true;
	TAILQ_INSERT_TAIL(&c->tx, t, tx);
	if (!c->blocked)
		rd_defer(c->qp.reactor->loop, &c->flush, RD_DEFER_SEND);
}

void rdt_tcp_tx_r2t(struct rdt_tcp_conn *c, struct rdt_tcp_req *t)
{
	struct nvme_tcp_r2t *pdu = (void *)t->head;

	*pdu = (struct nvme_tcp_r2t){
		.cccid = t->req.sqe.cid,
		.ttag = htole16(t->ttag),
		.r2tl = htole32(t->req.data_len),
	};
	t->head_len = (uint8_t)nvme_tcp_seal(pdu, NVME_TCP_R2T, 0, 0, 0, c->rules.hdgst, false);
	t->data_len = 0;
	t->tail_len = 0;
	queue_tx(c, t, true);
}

/* Returns whether CapsuleResp can be omitted because its fields contain nothing (NVMe/TCP 1.0,
 * 3.6.2.7): without flow control there is no SQHD either. */
static bool needs_no_response(const struct rdt_req *req)
{
	return req->qp->sqflow_off && nvme_status_ok(req->status) && !req->cqe.result64;
}

static void put_data(struct rdt_tcp_conn *c, struct rdt_tcp_req *t, bool success)
{
	struct nvme_tcp_data *pdu = (void *)t->head;
	uint32_t len = t->req.data_len;

	*pdu = (struct nvme_tcp_data){.cccid = t->req.sqe.cid, .datal = htole32(len)};
	t->head_len = (uint8_t)nvme_tcp_seal(
		pdu, NVME_TCP_C2H_DATA,
		(uint8_t)(NVME_TCP_F_LAST | (success ? NVME_TCP_F_SUCCESS : 0)), len, c->hpda,
		c->rules.hdgst, c->rules.ddgst);
	t->data_len = len;
	if (!c->rules.ddgst)
		return;
	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, t->req.buf, len), t->tail);
	t->tail_len = RD_CRC32C_LEN;
}

static void put_response(struct rdt_tcp_conn *c, struct rdt_tcp_req *t)
{
	_Alignas(8) uint8_t buf[sizeof(struct nvme_tcp_rsp) + RD_CRC32C_LEN];
	struct nvme_tcp_rsp pdu = {.cqe = t->req.cqe};
	size_t len;

	memcpy(buf, &pdu, sizeof(pdu));
	len = nvme_tcp_seal(buf, NVME_TCP_RSP, 0, 0, 0, c->rules.hdgst, false);
	memcpy(t->tail + t->tail_len, buf, len);
	t->tail_len = (uint8_t)(t->tail_len + len);
}

static uint32_t entry_len(const struct rdt_tcp_req *t)
{
	return t->head_len + t->data_len + t->tail_len;
}

void rdt_tcp_tx_answer(struct rdt_tcp_conn *c, struct rdt_tcp_req *t, bool with_data)
{
	bool success = with_data && needs_no_response(&t->req);

	t->head_len = t->tail_len = 0;
	t->data_len = 0;
	if (with_data)
		put_data(c, t, success);
	if (!success)
		put_response(c, t);
	rdt_tcp_posted(c, &c->answers, entry_len(t));
	queue_tx(c, t, false);
}

bool rdt_tcp_tx_cancel(struct rdt_tcp_conn *c, struct rdt_tcp_req *t)
{
	if (!t->queued || !t->is_r2t || (TAILQ_FIRST(&c->tx) == t && c->tx_sent))
		return false;
	TAILQ_REMOVE(&c->tx, t, tx);
	t->queued = false;
	return true;
}

void rdt_tcp_tx_forget(struct rdt_tcp_conn *c, struct rdt_tcp_req *t)
{
	if (t->queued)
		TAILQ_REMOVE(&c->tx, t, tx);
	t->queued = false;
}

/*
 * What one sendmsg is given. Headers and responses are copied, so that those between the data of
 * two requests are one piece: the kernel's cost grows with the number of pieces.
 */
struct gathered {
	int count;
	uint32_t copied; /* bytes of @copies */
	size_t bytes;
	struct iovec iov[2 * TX_ENTRIES + 1];
	uint8_t copies[TX_ENTRIES * TX_COPY_MAX];
};

/* Of the @len bytes at *@p, those that were not sent yet. */
static uint32_t cut_sent(const uint8_t **p, uint32_t len, uint32_t *skip)
{
	uint32_t cut = *skip < len ? *skip : len;

	*skip -= cut;
	*p += cut;
	return len - cut;
}

static void add_piece(struct gathered *g, const uint8_t *p, uint32_t len)
{
	struct iovec *last = g->count ? &g->iov[g->count - 1] : NULL;

	if (!len)
		return;
	g->bytes += len;
	if (last && (uint8_t *)last->iov_base + last->iov_len == p)
		last->iov_len += len;
	else
		g->iov[g->count++] = (struct iovec){(void *)(uintptr_t)p, len};
}

static void add_copy(struct gathered *g, const uint8_t *p, uint32_t len, uint32_t *skip)
{
	uint8_t *to = g->copies + g->copied;

	len = cut_sent(&p, len, skip);
	memcpy(to, p, len);
	g->copied += len;
	add_piece(g, to, len);
}

static void gather_entries(const struct rdt_tcp_conn *c, struct gathered *g)
{
	uint32_t skip = c->tx_sent, entries = 0;
	const struct rdt_tcp_req *t;

	g->count = 0;
	g->copied = 0;
	g->bytes = 0;
	TAILQ_FOREACH (t, &c->tx, tx) {
		const uint8_t *data = t->req.buf;
		uint32_t len;

		if (entries++ == TX_ENTRIES || g->bytes >= TX_BYTES)
			break;
		add_copy(g, t->head, t->head_len, &skip);
		len = cut_sent(&data, t->data_len, &skip);
		add_piece(g, data, len);
		add_copy(g, t->tail, t->tail_len, &skip);
	}
}

/* Account for @sent bytes. Answers that were sent completely move to @done. */
static void settle_sent(struct rdt_tcp_conn *c, size_t sent, struct rdt_tcp_tx *done)
{
	struct rdt_tcp_req *t;

	while (sent && (t = TAILQ_FIRST(&c->tx))) {
		uint32_t left = entry_len(t) - c->tx_sent;
		uint32_t part = sent < left ? (uint32_t)sent : left;

		if (!t->is_r2t)
			c->answers.done += part;
		sent -= part;
		if (part < left) {
			c->tx_sent += part;
			return;
		}
		c->tx_sent = 0;
		TAILQ_REMOVE(&c->tx, t, tx);
		t->queued = false;
		if (t->is_r2t)
			t->asked = true;
		else
			TAILQ_INSERT_TAIL(done, t, tx);
	}
}

/* Complete the requests in @done. They may be in use again, and queued here, before this
 * returns. */
static void tell_answered(struct rdt_tcp_conn *c, struct rdt_tcp_tx *done)
{
	struct rdt_tcp_req *t;

	c->qp.reactor->run.match = 0;
	while ((t = TAILQ_FIRST(done))) {
		TAILQ_REMOVE(done, t, tx);
		rdt_heartbeat_check_again(c->qp.reactor);
		rdt_req_responded(&t->req);
	}
}

enum sent { SENT_ALL, SENT_PART, SENT_NONE };

static enum sent send_once(struct rdt_tcp_conn *c)
{
	struct rdt_tcp_tx done;
	struct gathered g;
	ssize_t n;

	TAILQ_INIT(&done);
	gather_entries(c, &g);
	if (!g.count && !rdt_tcp_unsent(c))
		return SENT_NONE;
	n = rdt_tcp_sendv(c, g.iov, g.count);
	if (n < 0 && errno == EINTR)
		return SENT_ALL;
	if (n < 0 && errno != EAGAIN) {
		rdt_qpair_lost(&c->qp, RDT_END_LOST, rdt_tcp_stream_error(c, errno));
		return SENT_NONE;
	}
	settle_sent(c, n < 0 ? 0 : (size_t)n, &done);
	tell_answered(c, &done);
	return n >= 0 && (size_t)n == g.bytes && !rdt_tcp_unsent(c) ? SENT_ALL : SENT_PART;
}

void rdt_tcp_tx_run(struct rdt_tcp_conn *c)
{
	for (int i = 0; i < TX_ROUNDS; i++) {
		enum sent sent = send_once(c);

		if (c->state == RDT_TCP_CLOSED || sent == SENT_NONE)
			return;
		if (sent == SENT_PART) {
			c->blocked = true;
			rdt_tcp_watch(c);
			return;
		}
	}
	if (!TAILQ_EMPTY(&c->tx))
		rd_defer(c->qp.reactor->loop, &c->flush, RD_DEFER_NEXT);
}

void rdt_tcp_tx_last(struct rdt_tcp_conn *c)
{
	struct gathered g;

	gather_entries(c, &g);
	/* If this fails, the host notices the end of the connection anyway. */
	if (g.count && rdt_tcp_sendv(c, g.iov, g.count) < 0)
		c->blocked = true;
}
