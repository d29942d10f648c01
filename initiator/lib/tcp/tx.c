/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: many PDUs in one sendmsg(2), data from the caller's buffer. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "tcp.h"

int rdi_tcp_batch_init(struct rdi_tcp_batch *b, unsigned int entries)
{
	b->max = entries < RDI_TCP_BATCH ? entries : RDI_TCP_BATCH;
	b->room = b->max * RDI_TCP_HEAD + RDI_TCP_HEAD_MAX;
	b->pdu = calloc(b->max, sizeof(*b->pdu));
	b->iov = calloc(b->max, 3 * sizeof(*b->iov));
	b->arena = malloc(b->room);
	return b->pdu && b->iov && b->arena ? 0 : -ENOMEM;
}

void rdi_tcp_batch_fini(struct rdi_tcp_batch *b)
{
	free(b->pdu);
	free(b->iov);
	free(b->arena);
}

static void empty_batch(struct rdi_tcp_batch *b)
{
	b->first = b->n_pdus = b->iov_at = b->n_iov = 0;
	b->used = 0;
	b->bytes = b->sent = 0;
}

void rdi_tcp_tx_reset(struct rdi_tcp_conn *c)
{
	STAILQ_INIT(&c->tx);
	rd_defer_cancel(c->q->loop, &c->flush);
	c->blocked = false;
	empty_batch(&c->batch);
}

static void add_tx(struct rdi_tcp_conn *c, struct rdi_tcp_req *tr)
{
	tr->queued = true;
	STAILQ_INSERT_TAIL(&c->tx, tr, tx);
	if (!c->blocked)
		rd_defer(c->q->loop, &c->flush, RD_DEFER_SEND);
}

/* ---- building ---- */

static void add_part(struct rdi_tcp_batch *b, const void *base, size_t len)
{
	b->bytes += len;
	b->iov[b->n_iov++] = (struct iovec){(void *)(uintptr_t)base, len};
}

/* Where the next header is built. */
static void *next_head(struct rdi_tcp_batch *b)
{
	b->used = (b->used + 7) & ~7u;
	return b->arena + b->used;
}

/* The bytes that were built last. They follow those before them when no data is in between. */
static void add_built(struct rdi_tcp_batch *b, size_t len)
{
	struct iovec *last = b->n_iov ? &b->iov[b->n_iov - 1] : NULL;
	uint8_t *built = b->arena + b->used;

	b->used += (uint32_t)len;
	if (last && (uint8_t *)last->iov_base + last->iov_len == built) {
		last->iov_len += len;
		b->bytes += len;
	} else {
		add_part(b, built, len);
	}
}

/* Completes the PDU at next_head(), of @type with @len bytes of @data, and adds its parts. */
static void add_pdu(struct rdi_tcp_conn *c, struct rdi_tcp_req *tr, enum nvme_tcp_type type,
		    uint8_t flags, const uint8_t *data, uint32_t len)
{
	struct rdi_tcp_batch *b = &c->batch;

	add_built(b, nvme_tcp_seal(b->arena + b->used, type, flags, len, c->cpda, c->rules.hdgst,
				   c->rules.ddgst));
	if (len)
		add_part(b, data, len);
	if (len && c->rules.ddgst) {
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, data, len), b->arena + b->used);
		add_built(b, RD_CRC32C_LEN);
	}
	b->pdu[b->n_pdus++] = (struct rdi_tcp_pdu){.tr = tr, .end = b->bytes};
}

static void add_cmd(struct rdi_tcp_conn *c, struct rdi_tcp_req *tr)
{
	const struct rdi_req *req = rdi_tcp_req_of(tr);
	struct nvme_tcp_cmd *cmd = next_head(&c->batch);
	bool in_capsule = req->sqe->sgl.data.type == NVME_SGL_IN_CAPSULE && req->dir == RDI_OUT;

	cmd->sqe = *req->sqe;
	add_pdu(c, tr, NVME_TCP_CMD, 0, req->data, in_capsule ? req->len : 0);
}

static void add_data(struct rdi_tcp_conn *c, struct rdi_tcp_req *tr)
{
	const struct rdi_req *req = rdi_tcp_req_of(tr);
	struct nvme_tcp_data *data = next_head(&c->batch);
	uint32_t len = tr->want - tr->sent;

	if (len > c->maxh2cdata)
		len = c->maxh2cdata;
	*data = (struct nvme_tcp_data){.cccid = htole16(req->cid),
				       .ttag = tr->ttag,
				       .datao = htole32(tr->sent),
				       .datal = htole32(len)};
	add_pdu(c, tr, NVME_TCP_H2C_DATA, tr->sent + len == tr->want ? NVME_TCP_F_LAST : 0,
		(const uint8_t *)req->data + tr->sent, len);
	tr->sent += len;
}

static void take_tx(struct rdi_tcp_conn *c)
{
	struct rdi_tcp_batch *b = &c->batch;
	struct rdi_tcp_req *tr;

	empty_batch(b);
	while (b->n_pdus < b->max && b->room - b->used >= RDI_TCP_HEAD_MAX &&
	       (tr = STAILQ_FIRST(&c->tx))) {
		STAILQ_REMOVE_HEAD(&c->tx, tx);
		tr->queued = false;
		tr->batched = true;
		if (tr->data)
			add_data(c, tr);
		else
			add_cmd(c, tr);
	}
}

/* ---- sending ---- */

/* All of a PDU of @tr has been sent. */
static void pdu_sent(struct rdi_tcp_conn *c, struct rdi_tcp_req *tr)
{
	struct rdi_req *req = rdi_tcp_req_of(tr);

	tr->batched = false;
	if (req->due & RDI_DUE_ANSWER && tr->data && tr->sent < tr->want) {
		add_tx(c, tr);
		return;
	}
	req->due &= (uint8_t)~RDI_DUE_SEND;
	if (!req->due)
		rdi_req_complete(c->q, req);
}

/* @n bytes of the batch have been sent. */
static void batch_sent(struct rdi_tcp_conn *c, size_t n)
{
	struct rdi_tcp_batch *b = &c->batch;

	b->sent += n;
	while (b->iov_at < b->n_iov && n >= b->iov[b->iov_at].iov_len)
		n -= b->iov[b->iov_at++].iov_len;
	if (n) {
		b->iov[b->iov_at].iov_base = (char *)b->iov[b->iov_at].iov_base + n;
		b->iov[b->iov_at].iov_len -= n;
	}
	while (b->first < b->n_pdus && b->pdu[b->first].end <= b->sent) {
		struct rdi_tcp_req *tr = b->pdu[b->first++].tr;

		if (tr)
			pdu_sent(c, tr);
	}
}

static void watch_writable(struct rdi_tcp_conn *c, bool wait)
{
	if (c->blocked == wait)
		return;
	c->blocked = wait;
	rd_io_mod(c->q->loop, &c->io, wait ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* There are no more PDUs. Encrypted bytes of earlier ones may wait for the socket. */
static void flush_stream(struct rdi_tcp_conn *c)
{
	ssize_t rc = c->tls.stream ? nvmf_tls_writev(c->tls.stream, NULL, 0) : 0;

	if (rc < 0 && rc != -EAGAIN)
		rdi_tcp_end(c, (int)rc, rdi_tcp_io_text(c, (int)rc));
	else
		watch_writable(c, c->tls.stream && nvmf_tls_unsent(c->tls.stream));
}

void rdi_tcp_tx_run(struct rdi_tcp_conn *c)
{
	struct rdi_tcp_batch *b = &c->batch;

	while (c->state == RDI_TCP_IC || c->state == RDI_TCP_RUNNING) {
		ssize_t n;

		if (b->iov_at == b->n_iov)
			take_tx(c);
		if (b->iov_at == b->n_iov) {
			flush_stream(c);
			return;
		}
		n = rdi_tcp_writev(c, &b->iov[b->iov_at], b->n_iov - b->iov_at);
		if (n >= 0) {
			batch_sent(c, (size_t)n);
		} else if (n == -EAGAIN) {
			watch_writable(c, true);
			return;
		} else if (n != -EINTR) {
			rdi_tcp_end(c, (int)n, rdi_tcp_io_text(c, (int)n));
			return;
		}
	}
}

void rdi_tcp_flush(struct rd_defer *defer)
{
	rdi_tcp_tx_run(rd_container_of(defer, struct rdi_tcp_conn, flush));
}

void rdi_tcp_send_icreq(struct rdi_tcp_conn *c, uint8_t dgst)
{
	struct rdi_tcp_batch *b = &c->batch;

	nvme_tcp_build_icreq(next_head(b), dgst);
	add_built(b, sizeof(struct nvme_tcp_icreq));
	b->pdu[b->n_pdus++] = (struct rdi_tcp_pdu){.end = b->bytes};
	rdi_tcp_tx_run(c);
}

/* ---- commands ---- */

static int set_sgl(const struct rdi_queue *q, struct rdi_req *req, unsigned int how)
{
	uint32_t room = q->cfg.in_capsule;

	if (how & RDI_AS_IS)
		return 0;
	if (q->cfg.qid == 0 || how & RDI_FABRICS)
		room = NVME_TCP_ADMIN_IN_CAPSULE;
	if (req->dir == RDI_NONE) {
		req->sqe->sgl.data = (struct nvme_data_sgl){.type = NVME_SGL_TCP_DATA};
		return 0;
	}
	if (req->len == 0)
		return -EINVAL;
	req->sqe->sgl.data =
		(struct nvme_data_sgl){.length = htole32(req->len), .type = NVME_SGL_TCP_DATA};
	if (req->dir == RDI_OUT && req->len <= room && !(how & RDI_KEYED))
		req->sqe->sgl.data.type = NVME_SGL_IN_CAPSULE;
	return 0;
}

int rdi_tcp_send(struct rdi_queue *q, struct rdi_req *req, unsigned int how)
{
	struct rdi_tcp_req *tr = rdi_tcp_req(req);
	int rc = set_sgl(q, req, how);

	if (rc)
		return rc;
	if (how & RDI_ZERO)
		memset(req->data, 0, req->len);
	*tr = (struct rdi_tcp_req){.data = false};
	rdi_req_started(q, req, how);
	add_tx(q->conn, tr);
	return 0;
}

int rdi_tcp_send_pair(struct rdi_queue *q, struct rdi_req *r1, unsigned int how1,
		      struct rdi_req *r2, unsigned int how2)
{
	int rc = set_sgl(q, r2, how2); /* the only thing that can fail */

	if (!rc)
		rc = rdi_tcp_send(q, r1, how1);
	return rc ? rc : rdi_tcp_send(q, r2, how2);
}

void rdi_tcp_send_data(struct rdi_tcp_conn *c, struct rdi_req *req)
{
	struct rdi_tcp_req *tr = rdi_tcp_req(req);

	tr->data = true;
	req->due |= RDI_DUE_SEND;
	add_tx(c, tr);
}

void rdi_tcp_answered(struct rdi_tcp_conn *c, struct rdi_req *req)
{
	struct rdi_tcp_req *tr = rdi_tcp_req(req);

	req->due &= (uint8_t)~RDI_DUE_ANSWER;
	if (tr->queued) {
		STAILQ_REMOVE(&c->tx, tr, rdi_tcp_req, tx);
		tr->queued = false;
	}
	if (!tr->batched)
		req->due &= (uint8_t)~RDI_DUE_SEND;
	if (!req->due)
		rdi_req_complete(c->q, req);
}
