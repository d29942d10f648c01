/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a queue: command identifiers, capsules, responses, timeouts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* A command identifier is an index and, above it, a generation that a late response cannot match.
 */
#define CID_INDEX_BITS  12
#define CID_INDEX_MASK  ((1u << CID_INDEX_BITS) - 1)
#define CID_GEN_MASK    0xfu

#define WATCHDOG_MIN_NS (5 * RD_NSEC_PER_MSEC)
#define WATCHDOG_MAX_NS (500 * RD_NSEC_PER_MSEC)

static uint64_t watchdog_period(const struct rdi_queue *q)
{
	uint64_t ns = q->cfg.cmd_timeout_ns / 8;

	if (ns < WATCHDOG_MIN_NS)
		return WATCHDOG_MIN_NS;
	return ns > WATCHDOG_MAX_NS ? WATCHDOG_MAX_NS : ns;
}

static const char *opcode_text(const struct rdi_queue *q, const struct nvme_sqe *sqe)
{
	if (sqe->opcode == NVMF_OPCODE)
		return nvmf_fctype_text(sqe->fctype);
	return q->cfg.qid ? nvme_io_opcode_text(sqe->opcode) : nvme_admin_opcode_text(sqe->opcode);
}

/* Take @req out of service and call back. */
static void complete(struct rdi_queue *q, struct rdi_req *req, struct rdinit_completion *c)
{
	rdi_unmap(q, &req->map, req->data, req->len, req->dir == RDI_IN && c->err == 0);
	TAILQ_REMOVE(&q->busy, req, link);
	TAILQ_INSERT_HEAD(&q->free, req, link);
	req->busy = false;
	q->inflight--;
	if (!req->internal) {
		q->user_inflight--;
		q->callbacks++;
	}
	rd_trace(q->log, RD_LOG_INIT, "%s queue: cid %u done, err %d, status 0x%04x", q->cfg.label,
		 le16toh(req->sqe->cid), c->err, c->status);
	req->fn(req->user, c);
}

/* Both halves are in: the SEND's completion and the response. */
static void complete_answered(struct rdi_queue *q, struct rdi_req *req)
{
	struct nvme_status st = nvme_status_from_wire(req->cqe.status);
	struct rdinit_completion c = {.result = le64toh(req->cqe.result64), .text = ""};
	char status[NVME_STATUS_TEXT], text[RDI_TEXT];

	if (!nvme_status_ok(st)) {
		c.err = -EIO;
		c.status = st.v;
		snprintf(text, sizeof(text), "%s failed: %s", opcode_text(q, req->sqe),
			 nvme_status_text(st, status));
		c.text = text;
	}
	complete(q, req, &c);
}

static void send_done(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc)
{
	struct rdi_req *req = rd_container_of(wr, struct rdi_req, send);

	req->send_posted = false;
	if (req->busy && req->responded)
		complete_answered(q, req);
}

int rdi_recv_post(struct rdi_queue *q, struct rdi_recv *recv)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)recv->cqe,
		.length = sizeof(*recv->cqe),
		.lkey = q->cqe_mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = (uintptr_t)&recv->wr,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;
	int rc = rd_fab_post_recv(q->conn, &wr, &bad);

	if (!rc)
		q->posted++;
	return rc;
}

/* The request a response belongs to, or NULL when nothing in flight has that cid. */
static struct rdi_req *find_req(struct rdi_queue *q, uint16_t cid)
{
	unsigned int index = cid & CID_INDEX_MASK;
	struct rdi_req *req;

	if (index >= q->cfg.depth)
		return NULL;
	req = &q->reqs[index];
	if (!req->busy || req->responded || req->gen != cid >> CID_INDEX_BITS)
		return NULL;
	return req;
}

void rdi_recv_done(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc)
{
	struct rdi_recv *recv = rd_container_of(wr, struct rdi_recv, wr);
	struct nvme_cqe cqe = *recv->cqe;
	struct rdi_req *req;
	int rc;

	if (wc->byte_len != sizeof(cqe)) {
		rdi_queue_fail(q, -EPROTO, "%s: a response of %u bytes instead of %zu", q->remote,
			       wc->byte_len, sizeof(cqe));
		return;
	}
	/* Before the callback: it may send the next command, whose answer needs this entry. */
	rc = rdi_recv_post(q, recv);
	if (rc) {
		rdi_queue_fail(q, rc, "%s: cannot post a receive: %s", q->remote, strerror(-rc));
		return;
	}
	req = find_req(q, le16toh(cqe.cid));
	if (!req) {
		rdi_queue_fail(q, -EPROTO,
			       "%s: a response for command id 0x%04x, which is not in flight",
			       q->remote, le16toh(cqe.cid));
		return;
	}
	if ((wc->wc_flags & IBV_WC_WITH_INV) &&
	    (!req->inv_asked || wc->invalidated_rkey != req->map.rkey)) {
		rdi_queue_fail(q, -EPROTO,
			       "%s: the target invalidated key 0x%08x, which was not offered to it",
			       q->remote, wc->invalidated_rkey);
		return;
	}
	req->cqe = cqe;
	req->responded = true;
	if (!req->send_posted)
		complete_answered(q, req);
}

/* ---- submission ---- */

/* The data part of the command: descriptor in the capsule, and the SEND's second entry. */
static int attach_data(struct rdi_queue *q, struct rdi_req *req, const struct rdi_cmd *cmd,
		       struct ibv_sge *sge, int *n_sge)
{
	bool in_capsule = cmd->dir == RDI_OUT && !cmd->keyed && cmd->len <= q->cfg.in_capsule;
	union nvme_sgl *sgl = &req->sqe->sgl;
	uint8_t type = NVME_SGL_KEYED_ADDRESS;
	int rc;

	if (cmd->as_is)
		return 0;
	if (cmd->dir == RDI_NONE) {
		/* No data is a keyed descriptor with nothing in it; targets refuse other forms. */
		nvme_sgl_set_keyed(sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
		return 0;
	}
	if (cmd->len == 0 || cmd->len > NVME_SGL_KEYED_LEN_MAX)
		return -EINVAL;
	rc = rdi_map(q, cmd->data, cmd->len, cmd->dir, !in_capsule, &req->map);
	if (rc)
		return rc;
	/* A target that writes less of a page than was asked for leaves zeroes, not old memory. */
	if (cmd->dir == RDI_IN && q->cfg.qid == 0)
		memset(req->map.addr, 0, cmd->len);
	if (in_capsule) {
		memset(sgl, 0,
		       sizeof(*sgl)); /* offset 0: ICDOFF is 0 or nothing goes in capsules */
		sgl->data.length = htole32(cmd->len);
		sgl->data.type = NVME_SGL_IN_CAPSULE;
		sge->addr = (uintptr_t)req->map.addr;
		sge->length = cmd->len;
		sge->lkey = req->map.lkey;
		(*n_sge)++;
		return 0;
	}
	/*
	 * Ask for remote invalidation only where its report can be checked, and for keys that are
	 * this command's alone.
	 */
	if (q->dev->caps.reports_inv && req->map.kind == RDI_MAP_OWN) {
		req->inv_asked = true;
		type = NVME_SGL_KEYED_INVALIDATE;
	}
	nvme_sgl_set_keyed(sgl, (uintptr_t)req->map.addr, cmd->len, req->map.rkey, type);
	return 0;
}

static void start_watchdog(struct rdi_queue *q)
{
	uint64_t period = watchdog_period(q);

	if (rd_timer_armed(&q->watchdog))
		return;
	q->watchdog_last = rd_loop_now_raw(q->loop);
	if (rd_timer_start(q->loop, &q->watchdog, period))
		rd_warn(q->log, RD_LOG_INIT, "%s queue: no memory for a timer: no timeouts",
			q->cfg.label);
}

/* May @n commands like @cmd be sent now? */
static int check_submit(const struct rdi_queue *q, const struct rdi_cmd *cmd, unsigned int n)
{
	if (q->state != RDI_Q_LIVE && !(q->state == RDI_Q_ESTABLISHED && cmd->fabrics))
		return -ENOTCONN;
	if (q->inflight + n > q->limit)
		return -EAGAIN;
	if (!cmd->internal && q->inflight + q->cfg.reserved + n > q->limit)
		return -EAGAIN;
	return 0;
}

/* A SEND in the making: its work request and entries, of which the second is in-capsule data. */
struct send {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
};

/* Fill @req and @send for @cmd. Nothing is posted; only the data is mapped. */
static int prepare(struct rdi_queue *q, struct rdi_req *req, const struct rdi_cmd *cmd,
		   struct send *send)
{
	int rc;

	*req->sqe = cmd->sqe;
	if (!cmd->as_is)
		req->sqe->flags = (cmd->sqe.flags & ~NVME_CMD_PSDT_MASK) | NVME_CMD_PSDT_SGL;
	req->gen = (req->gen + 1) & CID_GEN_MASK;
	req->sqe->cid = htole16((uint16_t)(req->gen << CID_INDEX_BITS | req->index));
	req->map = (struct rdi_map){.kind = RDI_MAP_NONE};
	req->data = cmd->data;
	req->len = cmd->len;
	req->dir = cmd->dir;
	req->responded = false;
	req->inv_asked = false;
	req->internal = cmd->internal;
	req->fn = cmd->fn;
	req->user = cmd->user;
	send->wr = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&req->send,
		.sg_list = send->sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	rc = attach_data(q, req, cmd, &send->sge[1], &send->wr.num_sge);
	send->sge[0] = (struct ibv_sge){(uintptr_t)req->sqe, sizeof(*req->sqe), q->sqe_mr->lkey};
	if (q->inline_sqe && send->wr.num_sge == 1)
		send->wr.send_flags |= IBV_SEND_INLINE;
	return rc;
}

static void unprepare(struct rdi_queue *q, struct rdi_req *req)
{
	rdi_unmap(q, &req->map, req->data, req->len, false);
}

/* The command is in flight from here on. */
static void started(struct rdi_queue *q, struct rdi_req *req, uint64_t timeout)
{
	q->posted++;
	req->send_posted = true;
	req->busy = true;
	req->deadline = timeout; /* UINT64_MAX and 0 mean there what they mean here */
	TAILQ_REMOVE(&q->free, req, link);
	TAILQ_INSERT_TAIL(&q->busy, req, link);
	q->inflight++;
	if (!req->internal)
		q->user_inflight++;
	/* The cached time may be as old as the application's last call. */
	if (timeout && timeout != UINT64_MAX)
		req->deadline += rd_loop_now_raw(q->loop);
	if (timeout != UINT64_MAX)
		start_watchdog(q);
	rd_trace(q->log, RD_LOG_INIT, "%s queue: cid %u %s, %u bytes", q->cfg.label,
		 le16toh(req->sqe->cid), opcode_text(q, req->sqe), req->len);
}

int rdi_queue_submit(struct rdi_queue *q, const struct rdi_cmd *cmd)
{
	struct rdi_req *req = TAILQ_FIRST(&q->free);
	struct ibv_send_wr *bad;
	struct send send;
	int rc = check_submit(q, cmd, 1);

	if (rc)
		return rc;
	if (!req)
		return -EAGAIN;
	rc = prepare(q, req, cmd, &send);
	if (rc)
		return rc;
	rc = rd_fab_post_send(q->conn, &send.wr, &bad);
	if (rc) {
		unprepare(q, req);
		return rc;
	}
	started(q, req, cmd->timeout_ns);
	return 0;
}

int rdi_queue_submit_pair(struct rdi_queue *q, const struct rdi_cmd *first,
			  const struct rdi_cmd *second)
{
	struct rdi_req *r1 = TAILQ_FIRST(&q->free), *r2 = r1 ? TAILQ_NEXT(r1, link) : NULL;
	struct ibv_send_wr *bad = NULL;
	struct send s1, s2;
	int rc = check_submit(q, first, 2);

	if (rc)
		return rc;
	if (!r2)
		return -EAGAIN;
	rc = prepare(q, r1, first, &s1);
	if (rc)
		return rc;
	rc = prepare(q, r2, second, &s2);
	if (rc) {
		unprepare(q, r1);
		return rc;
	}
	s1.wr.next = &s2.wr;
	rc = rd_fab_post_send(q->conn, &s1.wr, &bad);
	if (rc && bad != &s2.wr) {
		unprepare(q, r1);
		unprepare(q, r2);
		return rc;
	}
	started(q, r1, first->timeout_ns);
	started(q, r2, second->timeout_ns);
	if (rc) {
		/* Half a pair is on its way and cannot be called back. */
		q->posted--;
		r2->send_posted = false;
		rdi_queue_fail(q, rc, "%s: cannot send: %s", q->remote, strerror(-rc));
	}
	return 0;
}

uint16_t rdi_queue_last_cid(const struct rdi_queue *q)
{
	const struct rdi_req *req = TAILQ_LAST(&q->busy, rdi_req_list);

	return req ? le16toh(req->sqe->cid) : 0;
}

/* ---- timeouts ---- */

/*
 * One timer for the whole queue instead of one for each request: submitting must neither touch a
 * heap nor, with the queue's own time limit, ask for the time. It runs while something is in
 * flight. That limit so begins at the first look at a request, and what is over is seen at the next
 * one: late by two periods at most.
 */
static bool too_late(const struct rdi_queue *q, struct rdi_req *req, uint64_t now)
{
	if (!req->deadline)
		req->deadline = now + q->cfg.cmd_timeout_ns;
	return req->deadline <= now;
}

void rdi_req_watchdog(struct rd_timer *timer)
{
	struct rdi_queue *q = rd_container_of(timer, struct rdi_queue, watchdog);
	uint64_t period = watchdog_period(q);
	uint64_t now, away;
	struct rdi_req *req;

	rdi_queue_poll(q); /* an answer that is here already is in time */
	now = rd_loop_now_raw(q->loop);
	away = now - q->watchdog_last;
	q->watchdog_last = now;
	if (TAILQ_EMPTY(&q->busy) || q->state >= RDI_Q_CLOSING)
		return;
	rd_timer_start(q->loop, timer, period); /* cannot fail: its slot was just freed */
	/*
	 * The application has not called process for a while: answers may wait in the socket.
	 * Look again in the next period, after they have been read.
	 */
	if (away > 2 * period)
		return;
	TAILQ_FOREACH (req, &q->busy, link) {
		if (too_late(q, req, now)) {
			rdi_queue_fail(q, -ETIMEDOUT,
				       "%s: no answer to %s in time (is the target still alive?)",
				       q->remote, opcode_text(q, req->sqe));
			return;
		}
	}
}

void rdi_req_abort_all(struct rdi_queue *q, int err, const char *text)
{
	struct rdinit_completion c = {.err = err, .text = text};
	struct rdi_req *req;

	while ((req = TAILQ_FIRST(&q->busy))) {
		req->send_posted = false;
		complete(q, req, &c);
	}
}

/* ---- memory ---- */

int rdi_req_alloc(struct rdi_queue *q)
{
	unsigned int i, n = q->cfg.depth;

	q->reqs = calloc(n, sizeof(*q->reqs));
	q->sqes = calloc(n, sizeof(*q->sqes));
	q->recvs = calloc(n, sizeof(*q->recvs));
	q->cqes = calloc(n, sizeof(*q->cqes));
	if (!q->reqs || !q->sqes || !q->recvs || !q->cqes) {
		rdi_req_release(q);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		struct rdi_req *req = &q->reqs[i];

		req->send.magic = RDI_WR_MAGIC;
		req->send.done = send_done;
		req->index = (uint16_t)i;
		req->sqe = &q->sqes[i];
		TAILQ_INSERT_TAIL(&q->free, req, link);
		q->recvs[i].wr.magic = RDI_WR_MAGIC;
		q->recvs[i].wr.done = rdi_recv_done;
		q->recvs[i].cqe = &q->cqes[i];
	}
	return 0;
}

void rdi_req_release(struct rdi_queue *q)
{
	TAILQ_INIT(&q->free);
	TAILQ_INIT(&q->busy);
	free(q->reqs);
	free(q->sqes);
	free(q->recvs);
	free(q->cqes);
	q->reqs = NULL;
	q->sqes = NULL;
	q->recvs = NULL;
	q->cqes = NULL;
}
