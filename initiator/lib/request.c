/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of a queue: command identifiers, capsules, responses, time limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define WATCHDOG_MIN_NS (5 * RD_NSEC_PER_MSEC)
#define WATCHDOG_MAX_NS (500 * RD_NSEC_PER_MSEC)

static uint64_t watchdog_period(const struct rdi_queue *q)
{
	uint64_t ns = q->cfg.cmd_timeout_ns / 8;

	if (ns < WATCHDOG_MIN_NS)
		return WATCHDOG_MIN_NS;
	return ns > WATCHDOG_MAX_NS ? WATCHDOG_MAX_NS : ns;
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
	snprintf(text, sizeof(text), "%s failed: %s", nvme_cmd_text(!q->cfg.qid, req->sqe),
		 nvme_status_text(st, nvme_cmd_kind(!q->cfg.qid, req->sqe), status));
	c->text = text;
	complete_req(q, req, c);
}

void rdi_req_complete(struct rdi_queue *q, struct rdi_req *req)
{
	struct rdinit_completion c = {.result = le64toh(req->result), .text = ""};

	if (__builtin_expect(nvme_status_ok(nvme_status_from_wire(req->status)), 1))
		complete_req(q, req, &c);
	else if (!wait_for_proof(q, req))
		complete_failed(q, req, &c);
}

/* ---- submission ---- */

static inline void next_cid(struct rdi_req *req)
{
	req->cid = (uint16_t)(req->cid + RDI_CID_GEN_ONE);
	req->sqe->cid = htole16(req->cid);
}

void rdi_req_start_watchdog(struct rdi_queue *q)
{
	q->watchdog_last = rd_loop_now_raw(q->loop);
	if (rd_timer_start(q->loop, &q->watchdog, watchdog_period(q)))
		rd_warn(q->log, RD_LOG_INIT, "%s queue: no memory for a timer: no timeouts",
			q->cfg.label);
}

int rdi_queue_send(struct rdi_queue *q, struct rdi_req *req)
{
	next_cid(req);
	req->internal = false;
	req->deadline = 0;
	return q->ops->send(q, req, 0);
}

/* Fills in @req for @cmd. Returns the properties of the command. */
static unsigned int fill(struct rdi_queue *q, struct rdi_req *req, const struct rdi_cmd *cmd)
{
	*req->sqe = cmd->sqe;
	if (!(cmd->how & RDI_AS_IS))
		req->sqe->flags = (cmd->sqe.flags & ~NVME_CMD_PSDT_MASK) | NVME_CMD_PSDT_SGL;
	req->data = cmd->data;
	req->len = cmd->len;
	req->dir = cmd->dir;
	req->fn = cmd->fn;
	req->user = cmd->user;
	req->internal = cmd->how & RDI_INTERNAL;
	req->deadline = cmd->timeout_ns; /* 0 and UINT64_MAX mean the same there */
	/* Reads the clock: the cached time may be as old as the application's last call. */
	if (cmd->timeout_ns && cmd->timeout_ns != UINT64_MAX)
		req->deadline += rd_loop_now_raw(q->loop);
	next_cid(req);
	/* Zeroed, so that a target that returns less than a whole page does not leave old memory
	 * visible. */
	if (cmd->dir == RDI_IN && (q->cfg.qid == 0 || cmd->how & RDI_FABRICS))
		return cmd->how | RDI_ZERO;
	return cmd->how;
}

int rdi_queue_submit(struct rdi_queue *q, const struct rdi_cmd *cmd)
{
	int rc = rdi_queue_check(q, cmd->how, 1);
	struct rdi_req *req;

	if (rc)
		return rc;
	req = rdi_queue_next(q);
	return q->ops->send(q, req, fill(q, req, cmd));
}

int rdi_queue_submit_pair(struct rdi_queue *q, const struct rdi_cmd *first,
			  const struct rdi_cmd *second)
{
	struct rdi_req *r1, *r2;
	unsigned int how1, how2;
	int rc = rdi_queue_check(q, first->how, 2);

	if (rc)
		return rc;
	r1 = rdi_queue_next(q);
	r2 = SLIST_NEXT(r1, free_link);
	how1 = fill(q, r1, first);
	how2 = fill(q, r2, second);
	return q->ops->send_pair(q, r1, how1, r2, how2);
}

/* Sends the same command, with its identifier, again. */
static int send_again(struct rdi_queue *q, struct rdi_req *req)
{
	unsigned int how = req->internal ? RDI_INTERNAL : 0;

	if (req->dir == RDI_NONE)
		how |= RDI_AS_IS; /* the SGL may be the caller's */
	else if (req->sqe->sgl.data.type != NVME_SGL_IN_CAPSULE)
		how |= RDI_KEYED;
	rdi_unmap(q, req, false);
	return q->ops->send(q, req, how | RDI_AGAIN);
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

	q->ops->poll(q); /* a response that has arrived already is in time */
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
				       q->remote, nvme_cmd_text(!q->cfg.qid, req->sqe));
			return;
		}
	}
}

void rdi_req_abort_all(struct rdi_queue *q, int err, const char *text)
{
	struct rdinit_completion c = {.err = err, .text = text};
	struct rdi_req *req;

	while ((req = TAILQ_FIRST(&q->busy))) {
		req->due = 0;
		complete_req(q, req, &c);
	}
}

/* ---- memory ---- */

void *rdi_lines_alloc(size_t n, size_t size)
{
	size_t bytes = (n * size + RDI_CACHE_LINE - 1) / RDI_CACHE_LINE * RDI_CACHE_LINE;
	void *mem = aligned_alloc(RDI_CACHE_LINE, bytes);

	return mem ? memset(mem, 0, bytes) : NULL;
}

int rdi_req_alloc(struct rdi_queue *q)
{
	unsigned int i, n = q->cfg.depth;

	q->reqs = rdi_lines_alloc(n, sizeof(*q->reqs));
	q->sqes = rdi_lines_alloc(n, sizeof(*q->sqes));
	if (!q->reqs || !q->sqes) {
		rdi_req_release(q);
		return -ENOMEM;
	}
	for (i = n; i-- > 0;) { /* descending, so that the first one is on top of the list */
		struct rdi_req *req = &q->reqs[i];

		req->cid = (uint16_t)i;
		req->sqe = &q->sqes[i];
		SLIST_INSERT_HEAD(&q->free, req, free_link);
	}
	return 0;
}

void rdi_req_release(struct rdi_queue *q)
{
	SLIST_INIT(&q->free);
	TAILQ_INIT(&q->busy);
	free(q->reqs);
	free(q->sqes);
	q->reqs = NULL;
	q->sqes = NULL;
}
