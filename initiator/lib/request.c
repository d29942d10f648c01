/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a queue: command identifiers, capsules, responses, time limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* A command identifier has the request's index in its low bits and a generation above them, so
 * that a late response matches no newer command. */
#define CID_INDEX_BITS  12
#define CID_INDEX_MASK  ((1u << CID_INDEX_BITS) - 1)
#define CID_GEN_ONE     (1u << CID_INDEX_BITS)

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

/* Frees @req and calls its callback. */
static void complete_req(struct rdi_queue *q, struct rdi_req *req, struct rdinit_completion *c)
{
	rdi_unmap(q, req, c->err == 0);
	TAILQ_REMOVE(&q->busy, req, link);
	SLIST_INSERT_HEAD(&q->free, req, free_link);
	q->inflight--;
	if (__builtin_expect(req->internal, 0))
		q->internal_inflight--;
	else
		q->callbacks++;
	rd_trace(q->log, RD_LOG_INIT, "%s queue: cid %u done, err %d, status 0x%04x", q->cfg.label,
		 req->cid, c->err, c->status);
	req->fn(req->user, c);
}

/*
 * Whether @req was refused because the live queue lost its authentication, and has to be sent again
 * once that is renewed. Not possible for a fused pair.
 */
static bool wait_for_proof(struct rdi_queue *q, struct rdi_req *req)
{
	struct nvme_status st = nvme_status_from_wire(req->status);

	if ((st.v & (0x7ff | NVME_STATUS_DNR)) !=
	    (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_AUTH_REQUIRED))
		return false;
	if (q->state != RDI_Q_LIVE || !q->renew || req->sqe->opcode == NVMF_OPCODE ||
	    req->sqe->flags & NVME_CMD_FUSE_MASK || !q->renew(q))
		return false;
	req->due = RDI_DUE_PROOF;
	return true;
}

static __attribute__((noinline)) void complete_failed(struct rdi_queue *q, struct rdi_req *req,
						      struct rdinit_completion *c)
{
	struct nvme_status st = nvme_status_from_wire(req->status);
	char status[NVME_STATUS_TEXT], text[RDI_TEXT];

	c->err = -EIO;
	c->status = st.v;
	snprintf(text, sizeof(text), "%s failed: %s", opcode_text(q, req->sqe),
		 nvme_status_text(st, nvme_cmd_kind(!q->cfg.qid, req->sqe), status));
	c->text = text;
	complete_req(q, req, c);
}

/* Both the SEND's completion and the response have arrived. */
static void complete_answered(struct rdi_queue *q, struct rdi_req *req)
{
	struct rdinit_completion c = {.result = le64toh(req->result), .text = ""};

	if (__builtin_expect(nvme_status_ok(nvme_status_from_wire(req->status)), 1))
		complete_req(q, req, &c);
	else if (!wait_for_proof(q, req))
		complete_failed(q, req, &c);
}

/* Removes the oldest SEND without a completion. Returns its request. */
static inline struct rdi_req *first_sent(struct rdi_queue *q)
{
	struct rdi_req *req = STAILQ_FIRST(&q->sent);

	if (req)
		STAILQ_REMOVE_HEAD(&q->sent, sent_link);
	return req;
}

/* This SEND and all before it have completed; not every completion is reported. */
static void req_send_done(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc)
{
	struct rdi_req *req;

	while ((req = first_sent(q))) {
		bool last = req->due == RDI_DUE_SEND;
		bool reported = &req->send == wr;

		q->posted -= !reported;
		req->due &= (uint8_t)~RDI_DUE_SEND;
		if (last)
			complete_answered(q, req);
		if (reported)
			break;
	}
}

void rdi_send_over(struct rdi_queue *q, const struct rdi_wr *wr)
{
	struct rdi_req *req;

	if (wr->done != req_send_done)
		return;
	while ((req = first_sent(q)) && &req->send != wr)
		q->posted--;
}

int rdi_recv_post(struct rdi_queue *q, struct rdi_recv *recv)
{
	struct ibv_recv_wr *bad;
	int rc;

	q->recv_wr.wr_id = (uintptr_t)&recv->wr;
	q->recv_sge.addr = (uintptr_t)&recv->cqe;
	rc = rd_fab_post_recv(q->conn, &q->recv_wr, &bad);
	if (!rc)
		q->posted++;
	return rc;
}

/* The request at the index in @cid, whatever its present identifier, or NULL: there is none. */
static inline struct rdi_req *req_of(const struct rdi_queue *q, uint16_t cid)
{
	unsigned int index = cid & CID_INDEX_MASK;

	return index < q->cfg.depth ? &q->reqs[index] : NULL;
}

/* The request in flight with identifier @cid, or NULL. */
static struct rdi_req *find_req(struct rdi_queue *q, uint16_t cid)
{
	struct rdi_req *req = req_of(q, cid);

	return req && req->cid == cid && req->due & RDI_DUE_ANSWER ? req : NULL;
}

void rdi_req_expect(const struct rdi_queue *q, const struct ibv_wc *wc)
{
	const struct rdi_wr *wr = (const struct rdi_wr *)(uintptr_t)wc->wr_id;
	const char *req;

	/* The opcode of a failed completion is not valid. */
	if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV)
		return;
	if (!wr || wr->magic != RDI_WR_MAGIC)
		return;
	req = (const char *)req_of(
		q, le16toh(rd_container_of(wr, const struct rdi_recv, wr)->cqe.cid));
	if (!req)
		return;
	__builtin_prefetch(req, 1);
	__builtin_prefetch(req + RDI_CACHE_LINE, 1);
}

static void recv_done(struct rdi_queue *q, struct rdi_wr *wr, const struct ibv_wc *wc)
{
	struct rdi_recv *recv = rd_container_of(wr, struct rdi_recv, wr);
	struct rdi_req *req;
	int rc;

	if (wc->byte_len != sizeof(recv->cqe)) {
		rdi_queue_fail(q, -EPROTO, "%s: a response of %u bytes instead of %zu", q->remote,
			       wc->byte_len, sizeof(recv->cqe));
		return;
	}
	req = find_req(q, le16toh(recv->cqe.cid));
	if (!req) {
		rdi_queue_fail(q, -EPROTO,
			       "%s: a response for command id 0x%04x, which is not in flight",
			       q->remote, le16toh(recv->cqe.cid));
		return;
	}
	if ((wc->wc_flags & IBV_WC_WITH_INV) &&
	    (!req->inv_asked || wc->invalidated_rkey != req->map.mr->rkey)) {
		rdi_queue_fail(q, -EPROTO,
			       "%s: the target invalidated key 0x%08x, which was not offered to it",
			       q->remote, wc->invalidated_rkey);
		return;
	}
	req->status = recv->cqe.status;
	req->result = recv->cqe.result64;
	/* Posted before the callback, which may send a command whose response needs this entry. */
	rc = rdi_recv_post(q, recv);
	if (rc) {
		rdi_queue_fail(q, rc, "%s: cannot post a receive: %s", q->remote, strerror(-rc));
		return;
	}
	req->due &= (uint8_t)~RDI_DUE_ANSWER;
	if (!req->due)
		complete_answered(q, req);
}

/* ---- submission ---- */

/* Data in the capsule, as the second scatter/gather element of the SEND. */
static inline int attach_in_capsule(struct rdi_queue *q, struct rdi_req *req, struct rdi_send *send)
{
	int rc = rdi_map(q, req, 0);

	if (rc)
		return rc;
	/* Offset 0: ICDOFF is 0 wherever in-capsule data is used. */
	req->sqe->sgl.data =
		(struct nvme_data_sgl){.length = htole32(req->len), .type = NVME_SGL_IN_CAPSULE};
	send->sge[1].addr = (uintptr_t)req->map.addr;
	send->sge[1].length = req->len;
	send->sge[1].lkey = req->map.mr->lkey;
	send->wr.num_sge = 2;
	send->wr.send_flags = IBV_SEND_SIGNALED;
	return 0;
}

/* The target transfers the data by RDMA READ or WRITE. */
static inline int attach_keyed(struct rdi_queue *q, struct rdi_req *req, int access)
{
	int rc = rdi_map(q, req, access);

	if (rc)
		return rc;
	req->inv_asked = q->keyed_type == NVME_SGL_KEYED_INVALIDATE;
	nvme_sgl_set_keyed(&req->sqe->sgl, rd_fab_remote_addr(req->map.mr, req->map.addr), req->len,
			   req->map.mr->rkey, q->keyed_type);
	return 0;
}

static inline int attach_data(struct rdi_queue *q, struct rdi_req *req, unsigned int how,
			      struct rdi_send *send)
{
	if (how & RDI_AS_IS)
		return 0;
	if (req->dir == RDI_NONE) {
		/* No data: a keyed descriptor of length 0, because targets refuse other forms. */
		nvme_sgl_set_keyed(&req->sqe->sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
		return 0;
	}
	if (req->len == 0 || req->len > NVME_SGL_KEYED_LEN_MAX)
		return -EINVAL;
	if (req->dir == RDI_IN)
		return attach_keyed(q, req, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (req->len <= q->cfg.in_capsule && !(how & RDI_KEYED))
		return attach_in_capsule(q, req, send);
	return attach_keyed(q, req, IBV_ACCESS_REMOTE_READ);
}

static __attribute__((noinline)) void start_watchdog(struct rdi_queue *q)
{
	q->watchdog_last = rd_loop_now_raw(q->loop);
	if (rd_timer_start(q->loop, &q->watchdog, watchdog_period(q)))
		rd_warn(q->log, RD_LOG_INIT, "%s queue: no memory for a timer: no timeouts",
			q->cfg.label);
}

/* Gives @req its next identifier and prepares the SEND of @cmd. Maps the data; posts nothing. */
static inline int prepare_req(struct rdi_queue *q, struct rdi_req *req, unsigned int how,
			      struct rdi_send *send)
{
	req->cid = (uint16_t)(req->cid + CID_GEN_ONE);
	req->sqe->cid = htole16(req->cid);
	req->inv_asked = false;
	req->internal = how & RDI_INTERNAL;
	send->wr.wr_id = (uintptr_t)&req->send;
	send->wr.num_sge = 1;
	send->wr.send_flags = q->bare_flags;
	send->sge[0].addr = (uintptr_t)req->sqe;
	return attach_data(q, req, how, send);
}

/* The command is in flight: updates lists and counters. */
static inline void started(struct rdi_queue *q, struct rdi_req *req, uint64_t timeout)
{
	q->posted++;
	req->due = RDI_DUE_SEND | RDI_DUE_ANSWER;
	req->deadline = timeout; /* both values mean the same in req->deadline */
	SLIST_REMOVE_HEAD(&q->free, free_link);
	TAILQ_INSERT_TAIL(&q->busy, req, link);
	STAILQ_INSERT_TAIL(&q->sent, req, sent_link);
	q->inflight++;
	if (__builtin_expect(req->internal, 0))
		q->internal_inflight++;
	/* Reads the clock: the cached time may be as old as the application's last call. */
	if (timeout && timeout != UINT64_MAX)
		req->deadline += rd_loop_now_raw(q->loop);
	if (timeout != UINT64_MAX && !rd_timer_armed(&q->watchdog))
		start_watchdog(q);
	rd_trace(q->log, RD_LOG_INIT, "%s queue: cid %u %s, %u bytes", q->cfg.label, req->cid,
		 opcode_text(q, req->sqe), req->len);
}

static inline int post(struct rdi_queue *q, struct rdi_req *req, uint64_t timeout)
{
	struct ibv_send_wr *bad;
	int rc = rd_fab_post_send(q->conn, &q->send[0].wr, &bad);

	if (rc) {
		rdi_unmap(q, req, false);
		return rc;
	}
	started(q, req, timeout);
	return 0;
}

int rdi_queue_send(struct rdi_queue *q, struct rdi_req *req)
{
	int rc = prepare_req(q, req, 0, &q->send[0]);

	return rc ? rc : post(q, req, 0);
}

/* As prepare_req(), for a command that was not built in place. */
static int prepare_cmd(struct rdi_queue *q, struct rdi_req *req, const struct rdi_cmd *cmd,
		       struct rdi_send *send)
{
	*req->sqe = cmd->sqe;
	if (!(cmd->how & RDI_AS_IS))
		req->sqe->flags = (cmd->sqe.flags & ~NVME_CMD_PSDT_MASK) | NVME_CMD_PSDT_SGL;
	req->data = cmd->data;
	req->len = cmd->len;
	req->dir = cmd->dir;
	req->fn = cmd->fn;
	req->user = cmd->user;
	return prepare_req(q, req, cmd->how, send);
}

int rdi_queue_submit(struct rdi_queue *q, const struct rdi_cmd *cmd)
{
	int rc = rdi_queue_check(q, cmd->how, 1);
	struct rdi_req *req;

	if (rc)
		return rc;
	req = rdi_queue_next(q);
	rc = prepare_cmd(q, req, cmd, &q->send[0]);
	if (rc)
		return rc;
	/* Zeroed, so that a target that returns less than a whole page does not leave old memory
	 * visible. */
	if (cmd->dir == RDI_IN && (q->cfg.qid == 0 || cmd->how & RDI_FABRICS))
		memset(req->map.addr, 0, cmd->len);
	return post(q, req, cmd->timeout_ns);
}

int rdi_queue_submit_pair(struct rdi_queue *q, const struct rdi_cmd *first,
			  const struct rdi_cmd *second)
{
	struct ibv_send_wr *wr1 = &q->send[0].wr, *wr2 = &q->send[1].wr, *bad = NULL;
	struct rdi_req *r1, *r2;
	int rc = rdi_queue_check(q, first->how, 2);

	if (rc)
		return rc;
	r1 = rdi_queue_next(q);
	r2 = SLIST_NEXT(r1, free_link);
	rc = prepare_cmd(q, r1, first, &q->send[0]);
	if (rc)
		return rc;
	rc = prepare_cmd(q, r2, second, &q->send[1]);
	if (rc) {
		rdi_unmap(q, r1, false);
		return rc;
	}
	wr1->next = wr2;
	rc = rd_fab_post_send(q->conn, wr1, &bad);
	wr1->next = NULL;
	if (rc && bad != wr2) {
		rdi_unmap(q, r1, false);
		rdi_unmap(q, r2, false);
		return rc;
	}
	started(q, r1, first->timeout_ns);
	started(q, r2, second->timeout_ns);
	if (rc) {
		/* The first half of the pair has been posted and cannot be taken back. */
		q->posted--;
		r2->due &= (uint8_t)~RDI_DUE_SEND;
		rdi_queue_fail(q, rc, "%s: cannot send: %s", q->remote, strerror(-rc));
	}
	return 0;
}

/* Sends the same command, with its identifier, again. */
static int send_again(struct rdi_queue *q, struct rdi_req *req)
{
	unsigned int how = req->internal ? RDI_INTERNAL : 0;
	struct ibv_send_wr *bad;
	int rc;

	if (req->dir == RDI_NONE)
		how |= RDI_AS_IS; /* the SGL may be the caller's */
	else if (req->sqe->sgl.data.type != NVME_SGL_IN_CAPSULE)
		how |= RDI_KEYED;
	rdi_unmap(q, req, false);
	req->cid = (uint16_t)(req->cid - CID_GEN_ONE);
	rc = prepare_req(q, req, how, &q->send[0]);
	if (!rc)
		rc = rd_fab_post_send(q->conn, &q->send[0].wr, &bad);
	if (rc)
		return rc;
	q->posted++;
	req->due = RDI_DUE_SEND | RDI_DUE_ANSWER;
	STAILQ_INSERT_TAIL(&q->sent, req, sent_link);
	return 0;
}

/* The oldest request that waits for authentication, or NULL. */
static struct rdi_req *first_unproved(struct rdi_queue *q)
{
	struct rdi_req *req;

	TAILQ_FOREACH (req, &q->busy, link) {
		if (req->due == RDI_DUE_PROOF)
			return req;
	}
	return NULL;
}

void rdi_req_after_proof(struct rdi_queue *q, bool proved)
{
	struct rdinit_completion c;
	struct rdi_req *req;

	/* Starts from the head each time: a callback may change the list. */
	while (q->state == RDI_Q_LIVE && (req = first_unproved(q))) {
		if (proved && send_again(q, req) == 0)
			continue;
		req->due = 0;
		c = (struct rdinit_completion){.text = ""};
		complete_failed(q, req, &c);
	}
}

uint16_t rdi_queue_last_cid(const struct rdi_queue *q)
{
	const struct rdi_req *req = TAILQ_LAST(&q->busy, rdi_req_list);

	return req ? req->cid : 0;
}

/* ---- timeouts ---- */

/*
 * One timer for the whole queue instead of one for each request: submitting neither touches a heap
 * nor, with the queue's default limit, reads the clock. It runs while requests are in flight. The
 * default limit starts when a check first sees the request, and an exceeded limit is detected by
 * the next check: up to two periods late.
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

	rdi_queue_poll(q); /* a response that has arrived already is in time */
	now = rd_loop_now_raw(q->loop);
	away = now - q->watchdog_last;
	q->watchdog_last = now;
	if (TAILQ_EMPTY(&q->busy) || q->state >= RDI_Q_CLOSING)
		return;
	rd_timer_start(q->loop, timer, period); /* cannot fail: its slot was just freed */
	/*
	 * The application has not called a process function for a while, so responses may wait in
	 * the socket. Checks again after the next period, when they have been read.
	 */
	if (away > 2 * period)
		return;
	TAILQ_FOREACH (req, &q->busy, link) {
		if (too_late(q, req, now) && !(q->overdue && q->overdue(q, req))) {
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

	STAILQ_INIT(&q->sent);
	while ((req = TAILQ_FIRST(&q->busy))) {
		req->due = 0;
		complete_req(q, req, &c);
	}
}

/* ---- memory ---- */

/* As calloc(), aligned to a cache line. */
static void *lines_alloc(size_t n, size_t size)
{
	size_t bytes = (n * size + RDI_CACHE_LINE - 1) / RDI_CACHE_LINE * RDI_CACHE_LINE;
	void *mem = aligned_alloc(RDI_CACHE_LINE, bytes);

	return mem ? memset(mem, 0, bytes) : NULL;
}

int rdi_req_alloc(struct rdi_queue *q)
{
	unsigned int i, n = q->cfg.depth;

	q->reqs = lines_alloc(n, sizeof(*q->reqs));
	q->sqes = lines_alloc(n, sizeof(*q->sqes));
	q->recvs = lines_alloc(n, sizeof(*q->recvs));
	if (!q->reqs || !q->sqes || !q->recvs) {
		rdi_req_release(q);
		return -ENOMEM;
	}
	for (i = n; i-- > 0;) { /* descending, so that the first one is on top of the list */
		struct rdi_req *req = &q->reqs[i];

		req->send.magic = RDI_WR_MAGIC;
		req->send.done = req_send_done;
		req->cid = (uint16_t)i;
		req->sqe = &q->sqes[i];
		SLIST_INSERT_HEAD(&q->free, req, free_link);
		q->recvs[i].wr.magic = RDI_WR_MAGIC;
		q->recvs[i].wr.done = recv_done;
	}
	return 0;
}

void rdi_req_prepare(struct rdi_queue *q)
{
	const struct rd_fab_caps *caps = &q->dev->caps;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		q->send[i].wr = (struct ibv_send_wr){
			.sg_list = q->send[i].sge,
			.opcode = IBV_WR_SEND,
		};
		q->send[i].sge[0].length = sizeof(*q->sqes);
		q->send[i].sge[0].lkey = q->sqe_mr->lkey;
	}
	q->recv_wr = (struct ibv_recv_wr){.sg_list = &q->recv_sge, .num_sge = 1};
	q->recv_sge.length = sizeof(struct nvme_cqe);
	q->recv_sge.lkey = q->recv_mr->lkey;
	/* Inline data saves nothing where the processor reads registered memory itself. */
	q->bare_flags = IBV_SEND_SIGNALED;
	if (!caps->cheap_mr && caps->max_inline >= sizeof(*q->sqes))
		q->bare_flags |= IBV_SEND_INLINE;
	/*
	 * Requests remote invalidation only where the completion reports it, and for keys that only
	 * one command uses.
	 */
	q->keyed_type = NVME_SGL_KEYED_ADDRESS;
	if (caps->reports_inv && caps->cheap_mr && !q->cfg.no_remote_invalidate)
		q->keyed_type = NVME_SGL_KEYED_INVALIDATE;
}

void rdi_req_release(struct rdi_queue *q)
{
	SLIST_INIT(&q->free);
	TAILQ_INIT(&q->busy);
	free(q->reqs);
	free(q->sqes);
	free(q->recvs);
	q->reqs = NULL;
	q->sqes = NULL;
	q->recvs = NULL;
}
