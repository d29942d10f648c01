/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests: posting, what a message does on arrival, completion. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- completions ---- */

static void complete_wr(struct rd_sim_conn *c, uint64_t wr_id, enum ibv_wr_opcode opcode,
			uint32_t len, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.wr_id = wr_id,
		.status = status,
		.opcode = rd_wc_opcode(opcode),
		.byte_len = len,
		.qp_num = c->base.qp_num,
	};

	rd_sim_cq_push(c->attr.send_cq, &wc);
}

static void complete_recv(struct rd_sim_conn *c, uint64_t wr_id, uint32_t len,
			  enum ibv_wc_status status, uint32_t inv)
{
	struct ibv_wc wc = {
		.wr_id = wr_id,
		.status = status,
		.opcode = IBV_WC_RECV,
		.byte_len = len,
		.qp_num = c->base.qp_num,
		.wc_flags = inv ? IBV_WC_WITH_INV : 0,
		.invalidated_rkey = inv,
	};

	rd_sim_cq_push(c->attr.recv_cq, &wc);
}

static void free_sim_wr(struct rd_sim_conn *c, struct rd_sim_wr *wr)
{
	TAILQ_REMOVE(&c->sq, wr, link);
	c->sq_count--;
	free(wr->copy);
	free(wr);
}

/* Completes the work requests that are done, in posting order. */
static void reap_sq(struct rd_sim_conn *c)
{
	struct rd_sim_wr *wr;

	while ((wr = TAILQ_FIRST(&c->sq)) && wr->done) {
		if (wr->flags & IBV_SEND_SIGNALED)
			complete_wr(c, wr->wr_id, wr->opcode, wr->length, IBV_WC_SUCCESS);
		free_sim_wr(c, wr);
	}
}

void rd_sim_qp_flush(struct rd_sim_conn *c)
{
	struct rd_sim_rwr *recv;
	struct rd_sim_wr *wr;

	if (!c->has_qp)
		return;
	reap_sq(c);
	while ((wr = TAILQ_FIRST(&c->sq))) {
		complete_wr(c, wr->wr_id, wr->opcode, 0, IBV_WC_WR_FLUSH_ERR);
		free_sim_wr(c, wr);
	}
	while ((recv = STAILQ_FIRST(&c->rq))) {
		STAILQ_REMOVE_HEAD(&c->rq, link);
		complete_recv(c, recv->wr_id, 0, IBV_WC_WR_FLUSH_ERR, 0);
		free(recv);
	}
	c->rq_count = 0;
}

struct rd_sim_wr *rd_sim_wr_find(struct rd_sim_conn *c, uint64_t seq)
{
	struct rd_sim_wr *wr;

	if (!c)
		return NULL;
	TAILQ_FOREACH (wr, &c->sq, link)
		if (wr->seq == seq)
			return wr;
	return NULL;
}

static void fail_wr(struct rd_sim_conn *c, struct rd_sim_wr *wr, enum ibv_wc_status status)
{
	if (wr) {
		complete_wr(c, wr->wr_id, wr->opcode, 0, status);
		free_sim_wr(c, wr);
	}
	rd_sim_end(c, -EIO, true, "a work request failed");
}

/* ---- posting ---- */

uint8_t *rd_sim_wr_data(const struct rd_sim_wr *wr)
{
	uint8_t *data = malloc(wr->length ? wr->length : 1);
	size_t at = 0;

	if (data && wr->copy)
		memcpy(data, wr->copy, wr->length);
	for (int i = 0; data && !wr->copy && i < wr->num_sge; i++) {
		memcpy(data + at, (void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].length);
		at += wr->sge[i].length;
	}
	return data;
}

static bool valid_wr(const struct rd_sim_conn *c, const struct ibv_send_wr *wr, uint64_t len)
{
	bool in = wr->send_flags & IBV_SEND_INLINE;

	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
		break;
	case IBV_WR_RDMA_READ:
		if (in)
			return false;
		break;
	default:
		return false;
	}
	return wr->num_sge >= 0 && (uint32_t)wr->num_sge <= c->attr.max_send_sge &&
	       len <= (in ? c->attr.max_inline : c->fab->dev.caps.max_msg);
}

static enum rd_sim_msg_kind kind_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		return RD_SIM_MSG_WRITE;
	case IBV_WR_RDMA_READ:
		return RD_SIM_MSG_READ;
	default:
		return RD_SIM_MSG_SEND;
	}
}

static int queue_wr(struct rd_sim_conn *c, const struct ibv_send_wr *from, uint32_t len)
{
	struct rd_sim_wr *wr;
	bool rdma = from->opcode == IBV_WR_RDMA_WRITE || from->opcode == IBV_WR_RDMA_READ;

	if (c->sq_count >= c->attr.max_send_wr)
		return -ENOMEM;
	wr = calloc(1, sizeof(*wr));
	if (!wr)
		return -ENOMEM;
	wr->seq = ++c->wr_seq;
	wr->wr_id = from->wr_id;
	wr->opcode = from->opcode;
	wr->flags = from->send_flags;
	wr->length = len;
	wr->rkey = rdma ? from->wr.rdma.rkey : from->invalidate_rkey;
	wr->remote_addr = rdma ? from->wr.rdma.remote_addr : 0;
	wr->num_sge = from->num_sge;
	for (int i = 0; i < from->num_sge; i++)
		wr->sge[i] = from->sg_list[i];
	if (wr->flags & IBV_SEND_INLINE && !(wr->copy = rd_sim_wr_data(wr))) {
		free(wr);
		return -ENOMEM;
	}
	TAILQ_INSERT_TAIL(&c->sq, wr, link);
	c->sq_count++;
	rd_sim_link_send(c->end.link, !c->end.side,
			 (struct rd_sim_msg){
				 .kind = kind_of(wr->opcode),
				 .wr = wr->seq,
				 .length = len,
				 .rkey = wr->rkey,
				 .remote_addr = wr->remote_addr,
				 .opcode = wr->opcode,
			 });
	return 0;
}

int rd_sim_post_send(struct rd_fab_conn *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);
	int rc =
		c->has_qp && (c->state == RD_SIM_OPEN || c->state == RD_SIM_CLOSED) ? 0 : -ENOTCONN;

	for (; wr && !rc; wr = rc ? wr : wr->next) {
		uint64_t len = 0;

		for (int i = 0; i < wr->num_sge; i++)
			len += wr->sg_list[i].length;
		if (!valid_wr(c, wr, len))
			rc = -EINVAL;
		else if (c->state == RD_SIM_CLOSED)
			complete_wr(c, wr->wr_id, wr->opcode, 0, IBV_WC_WR_FLUSH_ERR);
		else
			rc = queue_wr(c, wr, (uint32_t)len);
	}
	if (rc && bad)
		*bad = wr;
	return rc;
}

static int queue_recv(struct rd_sim_conn *c, const struct ibv_recv_wr *from)
{
	struct rd_sim_rwr *recv;

	if (from->num_sge < 0 || (uint32_t)from->num_sge > c->attr.max_recv_sge)
		return -EINVAL;
	if (c->state == RD_SIM_CLOSED) {
		complete_recv(c, from->wr_id, 0, IBV_WC_WR_FLUSH_ERR, 0);
		return 0;
	}
	if (c->rq_count >= c->attr.max_recv_wr)
		return -ENOMEM;
	recv = calloc(1, sizeof(*recv));
	if (!recv)
		return -ENOMEM;
	recv->wr_id = from->wr_id;
	recv->num_sge = from->num_sge;
	for (int i = 0; i < from->num_sge; i++)
		recv->sge[i] = from->sg_list[i];
	STAILQ_INSERT_TAIL(&c->rq, recv, link);
	c->rq_count++;
	return 0;
}

int rd_sim_post_recv(struct rd_fab_conn *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rd_sim_conn *c = rd_sim_conn_of(base);
	int rc = c->has_qp ? 0 : -EINVAL;

	for (; wr && !rc; wr = rc ? wr : wr->next)
		rc = queue_recv(c, wr);
	if (rc && bad)
		*bad = wr;
	return rc;
}

/* ---- arrival ---- */

/* Copies @data into the memory of @sge. Returns the bytes that had no room. */
static uint32_t scatter(const struct rd_sim_conn *c, const struct ibv_sge *sge, int n,
			const uint8_t *data, uint32_t len)
{
	for (int i = 0; i < n && len; i++) {
		uint32_t part = len < sge[i].length ? len : sge[i].length;

		if (!rd_sim_mr_local(c->fab, &sge[i], true)) {
			c->fab->sim->errors.access++;
			return len;
		}
		memcpy((void *)(uintptr_t)sge[i].addr, data, part);
		data += part;
		len -= part;
	}
	return len;
}

static void acknowledge(struct rd_sim_conn *c, const struct rd_sim_msg *msg, bool ok)
{
	rd_sim_link_send(
		c->end.link, !c->end.side,
		(struct rd_sim_msg){.kind = ok ? RD_SIM_MSG_ACK : RD_SIM_MSG_NAK, .wr = msg->wr});
	if (!ok)
		rd_sim_end(c, -EPROTO, false, "the peer violated the protocol");
}

/* The data of @msg, taken from the sender's memory now if that has not been done; or NULL. */
static const uint8_t *msg_data(struct rd_sim_conn *from, struct rd_sim_msg *msg)
{
	const struct rd_sim_wr *wr = msg->data ? NULL : rd_sim_wr_find(from, msg->wr);

	for (int i = 0; wr && !wr->copy && i < wr->num_sge; i++)
		if (!rd_sim_mr_local(from->fab, &wr->sge[i], false)) {
			from->fab->sim->errors.access++;
			return NULL;
		}
	if (wr)
		msg->data = rd_sim_wr_data(wr);
	return msg->data;
}

static void send_arrived(struct rd_sim_conn *c, struct rd_sim_conn *from, struct rd_sim_msg *msg)
{
	const uint8_t *data = msg_data(from, msg);
	struct rd_sim_rwr *recv = STAILQ_FIRST(&c->rq);
	struct rd_sim_errors *errors = &c->fab->sim->errors;
	bool inv = msg->opcode == IBV_WR_SEND_WITH_INV;
	uint32_t left;

	if (!recv || !data) {
		errors->no_recv += !recv;
		acknowledge(c, msg, false);
		return;
	}
	STAILQ_REMOVE_HEAD(&c->rq, link);
	c->rq_count--;
	left = scatter(c, recv->sge, recv->num_sge, data, msg->length);
	errors->length += left != 0;
	if (!left && inv)
		rd_sim_mr_invalidate(c->fab, msg->rkey);
	complete_recv(c, recv->wr_id, msg->length, left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS,
		      left || !inv ? 0 : msg->rkey);
	free(recv);
	acknowledge(c, msg, !left);
}

static void write_arrived(struct rd_sim_conn *c, struct rd_sim_conn *from, struct rd_sim_msg *msg)
{
	const uint8_t *data = msg_data(from, msg);
	void *to = rd_sim_mr_remote(c->fab, msg->rkey, msg->remote_addr, msg->length,
				    IBV_ACCESS_REMOTE_WRITE);

	if (to && data)
		memcpy(to, data, msg->length);
	acknowledge(c, msg, to && data);
}

static void read_arrived(struct rd_sim_conn *c, const struct rd_sim_msg *msg)
{
	const void *from = rd_sim_mr_remote(c->fab, msg->rkey, msg->remote_addr, msg->length,
					    IBV_ACCESS_REMOTE_READ);
	struct rd_sim_msg answer;

	if (!from) {
		acknowledge(c, msg, false);
		return;
	}
	answer = rd_sim_answer(RD_SIM_MSG_ANSWER, from, msg->length);
	answer.wr = msg->wr;
	rd_sim_link_send(c->end.link, !c->end.side, answer);
}

static void answer_arrived(struct rd_sim_conn *c, const struct rd_sim_msg *msg)
{
	struct rd_sim_wr *wr = rd_sim_wr_find(c, msg->wr);

	if (!wr)
		return;
	if (scatter(c, wr->sge, wr->num_sge, msg->data, msg->length)) {
		fail_wr(c, wr, IBV_WC_LOC_PROT_ERR);
		return;
	}
	wr->done = true;
	reap_sq(c);
}

static void ack_arrived(struct rd_sim_conn *c, const struct rd_sim_msg *msg)
{
	struct rd_sim_wr *wr = rd_sim_wr_find(c, msg->wr);

	if (wr)
		wr->done = true;
	reap_sq(c);
}

static void accept_arrived(struct rd_sim_conn *c, const struct rd_sim_msg *msg)
{
	if (c->state != RD_SIM_CONNECTING)
		return;
	rd_sim_cancel(c->fab->sim, &c->end.timer);
	c->state = RD_SIM_OPEN;
	c->end.link->was_open = true;
	c->base.ird = msg->ird;
	c->base.ord = msg->ord;
	if (msg->length)
		memcpy(c->private_data, msg->data, msg->length);
	c->events.private_data = c->private_data;
	c->events.private_len = msg->length;
	rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
	rd_sim_link_send(c->end.link, 1, (struct rd_sim_msg){.kind = RD_SIM_MSG_READY});
}

static void reject_arrived(struct rd_sim_conn *c, const struct rd_sim_msg *msg)
{
	if (c->state != RD_SIM_CONNECTING)
		return;
	if (msg->length)
		memcpy(c->private_data, msg->data, msg->length);
	c->events.private_data = c->private_data;
	c->events.private_len = msg->length;
	rd_sim_rejected(c);
}

static struct rd_sim_conn *conn_at(struct rd_sim_end *end)
{
	return end ? rd_container_of(end, struct rd_sim_conn, end) : NULL;
}

static void qp_arrived(struct rd_sim_end *end, struct rd_sim_end *peer, struct rd_sim_msg *msg)
{
	struct rd_sim_conn *c = conn_at(end), *from = conn_at(peer);

	switch (msg->kind) {
	case RD_SIM_MSG_SEND:
		send_arrived(c, from, msg);
		break;
	case RD_SIM_MSG_WRITE:
		write_arrived(c, from, msg);
		break;
	case RD_SIM_MSG_READ:
		read_arrived(c, msg);
		break;
	case RD_SIM_MSG_ANSWER:
		answer_arrived(c, msg);
		break;
	case RD_SIM_MSG_ACK:
		ack_arrived(c, msg);
		break;
	case RD_SIM_MSG_NAK:
		fail_wr(c, rd_sim_wr_find(c, msg->wr), IBV_WC_REM_ACCESS_ERR);
		break;
	case RD_SIM_MSG_ACCEPT:
		accept_arrived(c, msg);
		break;
	case RD_SIM_MSG_REJECT:
		reject_arrived(c, msg);
		break;
	case RD_SIM_MSG_READY:
		if (c->state == RD_SIM_ACCEPTED) {
			c->state = RD_SIM_OPEN;
			rd_conn_raise(&c->events, RD_CONN_ESTABLISHED);
		}
		break;
	case RD_SIM_MSG_FIN:
		rd_sim_end(c, 0, false, "closed by the peer");
		break;
	default: /* of sockets */
		break;
	}
}

const struct rd_sim_end_ops rd_sim_qp_end = {.arrived = qp_arrived};
