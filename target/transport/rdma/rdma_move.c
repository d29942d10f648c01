/* SPDX-License-Identifier: BSD-3-Clause */
/* Hold and move of connections to another process; only the iwarp provider supports it. */
#include "rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "target/nvmf/ctrl.h"
#include "target/nvmf/move_bytes.h"
#include "target/nvmf/peers.h"
#include "target/nvmf/placement.h"

/* Returns whether receiving may stop. READ Responses of the host arrive between its commands, so it
 * continues until none is outstanding. */
static bool may_stop(const struct rdt_rdma_conn *rc)
{
	return !rc->reads_out && TAILQ_EMPTY(&rc->read_wait) && !rdt_qpair_awaits_host(&rc->qp);
}

/* Returns the hold that the fabric needs now. The second command of a fused pair has to be
 * delivered before the connection can be at rest. */
static enum rd_fab_hold hold_due(const struct rdt_rdma_conn *rc)
{
	if (rc->qp.fused)
		return RD_FAB_HOLD_OFF;
	return may_stop(rc) ? RD_FAB_HOLD_ENDS : RD_FAB_HOLD_ASIDE;
}

void rdt_rdma_hold(struct rdt_qpair *qp, enum rdt_hold_how how)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(qp);

	rc->conn->moved = qp->moved;
	if (how == RDT_HOLD_OFF)
		rd_fab_hold(rc->conn, RD_FAB_HOLD_OFF);
	else if (how == RDT_HOLD_STOP)
		rd_fab_hold(rc->conn, RD_FAB_HOLD_STOP);
	else if (rc->established)
		rd_fab_hold(rc->conn, hold_due(rc));
}

bool rdt_rdma_rests(struct rdt_qpair *qp)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(qp);
	enum rd_fab_hold how = hold_due(rc);

	rd_fab_hold(rc->conn, how);
	return how == RD_FAB_HOLD_ENDS && rd_fab_rests(rc->conn);
}

struct given_back { /* commands that have arrived and not begun */
	struct rd_fab_message *msgs;
	uint32_t count;
};

static void give_back(void *arg, const struct nvme_sqe *sqe, const struct rdt_capsule *cap)
{
	struct given_back *back = arg;

	back->msgs[back->count++] = (struct rd_fab_message){
		.part = {sqe, cap ? cap->data : (const void *)""},
		.len = {NVME_SQE_SIZE, cap ? cap->data_len : 0},
	};
}

static void put_move_bytes(void *arg, const void *p, size_t n)
{
	rdt_move_put(arg, p, n);
}

static int put_moved(json_t *rec, const struct rd_fab_moved *m)
{
	json_t *iw =
		json_pack("{s:b, s:i, s:i, s:I, s:I, s:I, s:I}", "crc", m->crc, "ird", (int)m->ird,
			  "ord", (int)m->ord, "tx_send_msn", (json_int_t)m->tx_send_msn,
			  "tx_read_msn", (json_int_t)m->tx_read_msn, "rx_send_msn",
			  (json_int_t)m->rx_send_msn, "rx_read_msn", (json_int_t)m->rx_read_msn);

	return json_object_set_new(rec, "iwarp", iw) ? -ENOMEM : 0;
}

int rdt_rdma_move_out(struct rdt_qpair *qp, json_t *rec)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(qp);
	struct given_back back = {0};
	struct rdt_move_bytes bytes = {0};
	struct rd_fab_moved moved;
	int fd, err;

	if (!rc->established || !rd_fab_can_move(rc->conn))
		return -EOPNOTSUPP;
	back.msgs = calloc(RDT_AER_MAX + (size_t)qp->depth + 1, sizeof(*back.msgs));
	if (!back.msgs)
		return -ENOMEM;
	rdt_move_commands(qp, give_back, &back);
	fd = rd_fab_move_out(rc->conn, back.msgs, back.count, put_move_bytes, &bytes, &moved);
	free(back.msgs);
	err = rdt_move_put_into(&bytes, rec);
	if (fd >= 0 && !err)
		err = put_moved(rec, &moved);
	return err ? err : fd;
}

static bool read_moved(const json_t *rec, struct rd_fab_moved *m)
{
	static const char *const names[] = {"tx_send_msn", "tx_read_msn", "rx_send_msn",
					    "rx_read_msn"};
	uint32_t *const to[] = {&m->tx_send_msn, &m->tx_read_msn, &m->rx_send_msn, &m->rx_read_msn};
	const json_t *iw = json_object_get(rec, "iwarp");
	uint64_t ird, ord, msn;

	if (!rdt_move_bool(iw, "crc", &m->crc) || !rdt_move_uint(iw, "ird", 0, UINT16_MAX, &ird) ||
	    !rdt_move_uint(iw, "ord", 1, UINT16_MAX, &ord))
		return false;
	m->ird = (uint16_t)ird;
	m->ord = (uint16_t)ord;
	for (unsigned int i = 0; i < 4; i++) {
		if (!rdt_move_uint(iw, names[i], 0, UINT32_MAX, &msn))
			return false;
		*to[i] = (uint32_t)msn;
	}
	return true;
}

/* @fd: the socket, until the fabric owns it. */
static int build_moved(struct rdt_rdma_conn *rc, const struct rdt_moved_in *in, int *fd)
{
	const struct rdt_rdma_listener *rl = in->listener->state;
	struct rdt_reactor *r = rc->qp.reactor;
	struct rd_fab_moved moved;
	int err;

	if (rl->fab != RDT_FAB_IWARP)
		return -EOPNOTSUPP;
	if (!read_moved(in->rec, &moved))
		return -EPROTO;
	err = rdt_rdma_fab(r, RDT_FAB_IWARP);
	if (err)
		return err;
	err = rd_fab_move_in(rdt_rdma_of(r)->fabs[RDT_FAB_IWARP], *fd, &moved, rdt_rdma_conn_event,
			     rc, &rc->conn);
	*fd = -1;
	if (!err)
		err = rdt_rdma_conn_setup(rc);
	return err ? err : rd_fab_move_open(rc->conn, in->bytes, in->len);
}

int rdt_rdma_move_in(struct rdt_reactor *r, const struct rdt_moved_in *in, struct rdt_qpair **out)
{
	struct rdt_rdma_conn *rc = calloc(1, sizeof(*rc));
	int fd = in->fd, err;

	if (!rc) {
		close(fd);
		rdt_peer_gone(r->target, in->peer);
		return -ENOMEM;
	}
	err = rdt_rdma_conn_init(rc, r, in->qid, in->depth);
	rc->qp.peer = in->peer;
	rc->qp.listener = in->listener;
	rc->qp.local = in->local;
	rc->qp.remote = in->remote;
	rc->qp.moved = true;
	if (!err)
		err = build_moved(rc, in, &fd);
	if (err) {
		rdt_rdma_conn_free(rc);
		if (fd >= 0)
			close(fd);
		return err;
	}
	rc->established = true;
	if (in->qid)
		rdt_place_io(r);
	rdt_qpair_start(&rc->qp);
	*out = &rc->qp;
	return 0;
}
