/* SPDX-License-Identifier: BSD-3-Clause */
/* Hold and move of connections to another process (docs/design/moves.md). Between two PDUs, a plain
 * connection consists of its socket, the results of ICReq and ICResp, and the bytes that were read
 * and not used. Commands that have arrived and not begun are converted back to PDUs. */
#include "tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/nvmf/move_bytes.h"
#include "target/nvmf/peers.h"

void rdt_tcp_hold(struct rdt_qpair *qp, enum rdt_hold_how how)
{
	struct rdt_tcp_conn *c = rdt_tcp_conn_of(qp);

	c->hold = (uint8_t)how;
	if (how != RDT_HOLD_OFF) {
		if (rdt_tcp_rx_stop(c))
			rdt_tcp_watch(c);
		else if (c->rx.held)
			rd_defer(qp->reactor->loop, &c->resume, RD_DEFER_WORK);
		return;
	}
	if (!c->stopped)
		return;
	/* Bytes that were read are processed before the socket is read. */
	if (c->rx.held || c->rx.rest.bytes) {
		rd_defer(qp->reactor->loop, &c->resume, RD_DEFER_WORK);
		return;
	}
	c->stopped = false;
	rdt_tcp_watch(c);
	rdt_tcp_read_again(c);
}

/* In the middle of a PDU, a connection can be stopped but cannot move, because a part of the data
 * is in the buffer of a command. */
bool rdt_tcp_rests(struct rdt_qpair *qp)
{
	struct rdt_tcp_conn *c = rdt_tcp_conn_of(qp);

	if (!rdt_tcp_rx_stop(c))
		return false;
	rdt_tcp_watch(c);
	if (c->rx.state != RDT_TCP_RX_HEAD)
		return false;
	return TAILQ_EMPTY(&c->tx) && !rdt_tcp_unsent(c);
}

struct put_command {
	const struct rdt_tcp_conn *c;
	struct rdt_move_bytes *bytes;
};

static void put_tcp_command(void *arg, const struct nvme_sqe *sqe, const struct rdt_capsule *cap)
{
	_Alignas(8) uint8_t head[NVME_TCP_HEAD_MAX + NVME_TCP_PAD_MAX];
	const struct put_command *put = arg;
	const struct nvme_tcp_rules *rules = &put->c->rules;
	uint32_t len = cap ? cap->data_len : 0;
	struct nvme_tcp_cmd pdu = {.sqe = *sqe};
	uint8_t digest[RD_CRC32C_LEN];
	size_t n;

	memcpy(head, &pdu, sizeof(pdu));
	n = nvme_tcp_seal(head, NVME_TCP_CMD, 0, len, rules->pda, rules->hdgst, rules->ddgst);
	rdt_move_put(put->bytes, head, n);
	if (!len)
		return;
	rdt_move_put(put->bytes, cap->data, len);
	if (!rules->ddgst)
		return;
	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, cap->data, len), digest);
	/* The data digest was wrong, and has to be wrong again. */
	if (rd_container_of(cap, const struct rdt_tcp_capsule, cap)->bad)
		digest[0] ^= 0xff;
	rdt_move_put(put->bytes, digest, sizeof(digest));
}

int rdt_tcp_move_out(struct rdt_qpair *qp, json_t *rec)
{
	struct rdt_tcp_conn *c = rdt_tcp_conn_of(qp);
	const struct rd_rx_rest *rest = &c->rx.rest;
	struct rdt_move_bytes bytes = {0};
	struct put_command put = {c, &bytes};
	json_t *tcp;
	int err;

	/* The keys and the state of TLS cannot be extracted from libssl. */
	if (c->tls || c->state != RDT_TCP_RUNNING || c->eof || c->term_sent)
		return -EOPNOTSUPP;
	tcp = json_pack("{s:b, s:b, s:i}", "hdgst", c->rules.hdgst, "ddgst", c->rules.ddgst, "hpda",
			(int)c->hpda);
	if (json_object_set_new(rec, "tcp", tcp))
		return -ENOMEM;
	rdt_move_commands(qp, put_tcp_command, &put);
	rdt_move_put(&bytes, c->rx.head, c->rx.have);
	if (rest->bytes)
		rdt_move_put(&bytes, rest->bytes + rest->off, rest->len - rest->off);
	err = rdt_move_put_into(&bytes, rec);
	return err ? err : c->io.fd;
}

struct agreed {
	bool hdgst, ddgst;
	uint64_t hpda;
};

static bool read_agreed(const json_t *rec, struct agreed *a)
{
	const json_t *tcp = json_object_get(rec, "tcp");

	return rdt_move_bool(tcp, "hdgst", &a->hdgst) && rdt_move_bool(tcp, "ddgst", &a->ddgst) &&
	       rdt_move_uint(tcp, "hpda", 0, 31, &a->hpda);
}

int rdt_tcp_move_in(struct rdt_reactor *r, const struct rdt_moved_in *in, struct rdt_qpair **out)
{
	struct rdt_tcp_handoff h = {
		.listener = in->listener, .peer = in->peer, .remote = in->remote, .fd = in->fd};
	struct rdt_tcp_conn *c;
	struct agreed agreed;
	int err;

	if (!read_agreed(in->rec, &agreed)) {
		close(in->fd);
		rdt_peer_gone(r->target, in->peer);
		return -EPROTO;
	}
	err = rdt_tcp_conn_make(rdt_tcp_of(r), &h, &c);
	if (err)
		return err;
	c->state = RDT_TCP_RUNNING;
	c->rules.hdgst = agreed.hdgst;
	c->rules.ddgst = agreed.ddgst;
	c->hpda = (uint8_t)agreed.hpda;
	c->hold = RDT_HOLD_ENDS;
	c->stopped = true;
	c->qp.moved = true;
	if (!rd_rx_rest_keep(&c->rx.rest, in->bytes, in->len)) {
		rdt_tcp_conn_free(c);
		return -ENOMEM;
	}
	err = rdt_tcp_conn_begin(c);
	if (err)
		return err;
	rdt_qpair_role(&c->qp, in->qid);
	*out = &c->qp;
	return 0;
}
