/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path of NVMe/RDMA below the queue pair: capsules by SEND, host data by READ and WRITE.
 * Everything runs on the reactor of the connection.
 *
 * Teardown is by counting: each posted RECV, READ and SEND completes exactly once (a SEND possibly
 * through a later one), and the connection is destroyed when all have completed. WRITEs are
 * unsignalled; the SEND of the same answer follows.
 */
#include "rdma.h"
#include "target/nvmf/heartbeat.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/cold.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

#define CQ_DEPTH   4096u
#define POLL_BATCH 32
#define POLL_ROUND 512u /* completions handled before other work of the loop */

static void finish_later(struct rdt_rdma_conn *rc)
{
	if (rc->closing)
		rd_defer(rc->qp.reactor->loop, &rc->finish, RD_DEFER_WORK);
}

static struct rdt_rdma_conn *conn_of_req(const struct rdt_rdma_req *rr)
{
	return rdt_rdma_conn_of(rr->req.qp);
}

/* Report a failed work request. Flushed ones are ignored, because the connection is already ending,
 * for the reason in DISCONNECTED. */
static RD_COLD void rdma_wr_failed(struct rdt_rdma_conn *rc, const struct ibv_wc *wc,
				   const char *what)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		rdt_qpair_lost(&rc->qp, RDT_END_FAULT, what);
}

/* ---- transfers in flight ---- */

/* Start the stall watchdog. Its timer runs only while transfers are in flight, so that an idle
 * reactor does not wake up. */
static void transfer_posted(struct rdt_rdma_conn *rc, struct rdt_progress *stream, uint32_t len)
{
	struct rdt_rdma *rdma = rc->rdma;

	stream->posted += len;
	rdma->out++;
	if (!rd_timer_armed(&rdma->stall))
		rdt_rdma_watch(rc);
}

static void transfer_done(struct rdt_rdma_conn *rc, struct rdt_progress *stream, unsigned int n,
			  uint64_t len)
{
	stream->done += len;
	rc->rdma->out -= n;
}

/* ---- receiving ---- */

static void got_capsule(struct rdt_rdma_conn *rc, struct rdt_rdma_recv *recv, uint32_t len)
{
	/* Impossible if the connection has its own RECVs, which are @depth ones. */
	if (rc->conn->recvs > rc->qp.depth) {
		rdt_qpair_lost(&rc->qp, RDT_END_FAULT,
			       "the host sent more commands than its queue has entries");
		return;
	}
	if (len < NVME_SQE_SIZE) {
		rdt_qpair_lost(&rc->qp, RDT_END_FAULT, "a capsule was shorter than 64 bytes");
		return;
	}
	recv->cap.data_len = len - NVME_SQE_SIZE;
	if (!rc->established)
		STAILQ_INSERT_TAIL(&rc->early, &recv->cap, link);
	else
		rdt_qpair_capsule(&rc->qp, &recv->cap);
}

/* Returns the connection, or NULL if it has ended. */
static struct rdt_rdma_conn *rdma_recv_done(struct rdt_rdma_dev *rdev, struct rdt_rdma_recv *recv,
					    const struct ibv_wc *wc)
{
	struct rdt_rdma_conn *rc = rdt_rdma_recv_owner(rdev, recv, wc);

	if (!rc)
		return NULL;
	if (wc->status != IBV_WC_SUCCESS)
		rdma_wr_failed(rc, wc,
			       wc->status == IBV_WC_LOC_LEN_ERR ? "a capsule was longer than IOCCSZ"
								: "a RECV failed");
	else if (!rc->closing)
		got_capsule(rc, recv, wc->byte_len);
	return rc;
}

/* ---- data from the host ---- */

static void fail_post(struct rdt_rdma_req *rr, const char *what)
{
	rr->lost = true;
	rdt_qpair_lost(rr->req.qp, RDT_END_FAULT, what);
}

static bool post_read(struct rdt_rdma_req *rr, uint32_t pos, const struct rdt_rdma_desc *from)
{
	struct rdt_rdma_conn *rc = conn_of_req(rr);
	struct ibv_sge sge = {
		.addr = (uintptr_t)rr->req.buf + pos,
		.length = from->len,
		.lkey = rc->rdev->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)&rr->read,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = from->addr, .rkey = from->key},
	};
	struct ibv_send_wr *bad;

	if (rd_fab_post_send(rc->conn, &wr, &bad)) {
		fail_post(rr, "cannot post a READ");
		return false;
	}
	rc->reads_out++;
	transfer_posted(rc, &rc->reads, from->len);
	return true;
}

/* Post READs of an SGL list while READ slots are free. Returns false if some are left. */
static bool post_list(struct rdt_rdma_req *rr)
{
	struct rdt_rdma_conn *rc = conn_of_req(rr);
	struct rdt_rdma_list *list = rr->list;

	while (list->read_next < rr->descs) {
		const struct rdt_rdma_desc *d = &list->desc[list->read_next];

		if (rc->reads_out >= rc->conn->ord)
			return false;
		if (!post_read(rr, list->read_pos, d))
			return true;
		list->read_next++;
		list->reads_out++;
		list->read_pos += d->len;
	}
	return true;
}

/* Post the READs of a request; at least one READ slot is free. Returns false if some are left. */
static bool post_reads(struct rdt_rdma_req *rr)
{
	struct rdt_rdma_desc one = {rr->raddr, rr->rkey, rr->req.data_len};

	if (rr->descs)
		return post_list(rr);
	post_read(rr, 0, &one);
	return true;
}

/* Requests wait here instead of in the provider, so that they can be aborted. A list with more
 * READs than slots stays at the head of the queue until its last READ is posted. */
static void rdma_fetch(struct rdt_req *req)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(req->qp);
	struct rdt_rdma_req *rr = rdt_rdma_req_of(req);

	if (rr->descs) {
		rr->list->read_pos = rr->list->read_counted = 0;
		rr->list->read_next = rr->list->reads_out = 0;
		rr->list->read_bad = false;
	}
	if (rc->reads_out >= rc->conn->ord || !TAILQ_EMPTY(&rc->read_wait) || !post_reads(rr))
		TAILQ_INSERT_TAIL(&rc->read_wait, req, link);
}

static bool rdma_fetch_cancel(struct rdt_req *req)
{
	const struct rdt_rdma_req *rr = rdt_rdma_req_of(req);
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(req->qp);
	struct rdt_req *r;

	TAILQ_FOREACH (r, &rc->read_wait, link) {
		if (r != req)
			continue;
		if (rr->descs && rr->list->read_next)
			return false;
		TAILQ_REMOVE(&rc->read_wait, req, link);
		return true;
	}
	return false;
}

static void serve_reads(struct rdt_rdma_conn *rc)
{
	struct rdt_req *next;

	while (!rc->closing && rc->reads_out < rc->conn->ord &&
	       (next = TAILQ_FIRST(&rc->read_wait))) {
		if (!post_reads(rdt_rdma_req_of(next)))
			return;
		TAILQ_REMOVE(&rc->read_wait, next, link);
	}
}

/* A READ of a list has completed. Returns true if it was the last one. */
static bool list_done(struct rdt_rdma_req *rr, bool ok)
{
	struct rdt_rdma_list *list = rr->list;

	list->reads_out--;
	list->read_bad |= !ok;
	if (list->reads_out || rr->lost)
		return false;
	/* Otherwise more READs will be posted later or, if the connection ends, finish_conn_close()
	 * ends the request. */
	return list->read_next == rr->descs;
}

/* Returns the number of bytes that have arrived with this READ; for a list, those of all READs,
 * with the last one. */
static uint32_t read_len(const struct rdt_rdma_req *rr)
{
	struct rdt_rdma_list *list = rr->list;
	uint32_t len = rr->req.data_len;

	if (rr->descs) {
		len = list->reads_out == 1 ? list->read_pos - list->read_counted : 0;
		list->read_counted += len;
	}
	return len;
}

/* Returns the connection, which outlives the request. */
static struct rdt_rdma_conn *read_done(struct rdt_rdma_req *rr, const struct ibv_wc *wc)
{
	struct rdt_rdma_conn *rc = conn_of_req(rr);
	bool ok = wc->status == IBV_WC_SUCCESS;

	rc->reads_out--;
	transfer_done(rc, &rc->reads, 1, read_len(rr));
	if (!ok)
		rdma_wr_failed(rc, wc, "a READ of the host's memory failed");
	serve_reads(rc);
	if (rr->descs) {
		if (!list_done(rr, ok))
			return rc;
		ok = !rr->list->read_bad;
	}
	rdt_req_fetched(&rr->req, ok ? 0 : -EIO);
	return rc;
}

/* ---- answers ---- */

static void init_answer(struct rdt_rdma_conn *rc, bool inline_cqe)
{
	const struct rd_fab_caps *caps = &rc->rdev->dev->caps;
	unsigned int in_line = inline_cqe ? IBV_SEND_INLINE : 0;

	rc->answer = (struct rdt_rdma_answer){
		.write = {.next = &rc->answer.send,
			  .sg_list = &rc->answer.data,
			  .num_sge = 1,
			  .opcode = IBV_WR_RDMA_WRITE},
		.data = {.lkey = rc->rdev->mr->lkey},
		.send = {.sg_list = &rc->answer.cqe, .num_sge = 1},
		.cqe = {.length = NVME_CQE_SIZE},
		.send_flags = IBV_SEND_SIGNALED | in_line,
		.inv_flags = IBV_SEND_SIGNALED | (caps->inline_with_inv ? in_line : 0),
		.can_inv = caps->send_with_inv,
	};
}

/* Prepare the SEND of the CQE. */
static struct ibv_send_wr *fill_send(struct rdt_rdma_conn *rc, struct rdt_rdma_req *rr)
{
	struct rdt_rdma_answer *answer = &rc->answer;
	struct ibv_send_wr *send = &answer->send;

	answer->cqe.addr = (uintptr_t)&rr->req.cqe;
	answer->cqe.lkey = rr->lkey;
	send->wr_id = (uintptr_t)&rr->send;
	send->opcode = IBV_WR_SEND;
	send->send_flags = answer->send_flags;
	/* Invalidate only the key of the command, and only on request: otherwise hosts reset the
	 * connection. */
	if (rr->invalidate && answer->can_inv) {
		send->opcode = IBV_WR_SEND_WITH_INV;
		send->send_flags = answer->inv_flags;
		send->invalidate_rkey = rr->rkey;
		send->wr.rdma.rkey = rr->rkey;
	}
	return send;
}

/* Prepare the WRITE of all data, followed by the SEND. */
static struct ibv_send_wr *fill_rdma_write(struct rdt_rdma_conn *rc, struct rdt_rdma_req *rr)
{
	struct rdt_rdma_answer *answer = &rc->answer;
	const struct rdt_req *req = &rr->req;

	fill_send(rc, rr);
	answer->data.addr = (uintptr_t)req->buf;
	answer->data.length = req->data_len;
	answer->write.wr_id = (uintptr_t)&rr->write;
	answer->write.wr.rdma.remote_addr = rr->raddr;
	answer->write.wr.rdma.rkey = rr->rkey;
	return &answer->write;
}

static void post_answer(struct rdt_rdma_conn *rc, struct rdt_rdma_req *rr,
			struct ibv_send_wr *first, uint32_t data_len)
{
	struct ibv_send_wr *bad;

	if (rd_fab_post_send(rc->conn, first, &bad)) {
		fail_post(rr, "cannot post a response");
		return;
	}
	STAILQ_INSERT_TAIL(&rc->sent, rr, sent);
	rc->sends_out++;
	rr->answer_len = NVME_CQE_SIZE + data_len;
	transfer_posted(rc, &rc->answers, rr->answer_len);
}

/* Post a WRITE for each descriptor, followed by the SEND. The caller has checked for room in the
 * SQ. */
static void respond_list(struct rdt_rdma_req *rr)
{
	struct rdt_rdma_conn *rc = conn_of_req(rr);
	const struct rdt_req *req = &rr->req;
	const struct rdt_rdma_desc *list = rr->list->desc;
	struct ibv_send_wr wr[RDT_MSDBD_MAX];
	struct ibv_sge sge[RDT_MSDBD_MAX];
	uint32_t pos = 0;

	for (unsigned int i = 0; i < rr->descs; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)req->buf + pos, list[i].len,
					  rc->rdev->mr->lkey};
		wr[i] = (struct ibv_send_wr){
			.wr_id = (uintptr_t)&rr->write,
			.next = &wr[i + 1],
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {.remote_addr = list[i].addr, .rkey = list[i].key},
		};
		pos += list[i].len;
	}
	wr[rr->descs - 1u].next = fill_send(rc, rr);
	rr->extra = (uint8_t)(rr->descs - 1u);
	rc->extra_free -= rr->extra;
	post_answer(rc, rr, wr, req->data_len);
}

static void serve_writes(struct rdt_rdma_conn *rc)
{
	struct rdt_req *req;

	while (!rc->closing && (req = TAILQ_FIRST(&rc->write_wait)) &&
	       rc->extra_free >= rdt_rdma_req_of(req)->descs - 1u) {
		TAILQ_REMOVE(&rc->write_wait, req, link);
		respond_list(rdt_rdma_req_of(req));
	}
}

static void rdma_respond(struct rdt_req *req, bool with_data)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(req->qp);
	struct rdt_rdma_req *rr = rdt_rdma_req_of(req);

	if (with_data && rr->descs) {
		TAILQ_INSERT_TAIL(&rc->write_wait, req, link);
		serve_writes(rc);
		return;
	}
	if (with_data)
		post_answer(rc, rr, fill_rdma_write(rc, rr), req->data_len);
	else
		post_answer(rc, rr, fill_send(rc, rr), 0);
}

static void answer_sent(struct rdt_rdma_conn *rc, struct rdt_rdma_req *rr)
{
	if (rr->extra) {
		rc->extra_free += rr->extra;
		rr->extra = 0;
		serve_writes(rc);
	}
	rdt_req_responded(&rr->req);
}

/* The SEND of @rr has completed, and so have all earlier ones, which may be unsignalled. */
static struct rdt_rdma_conn *rdma_send_done(struct rdt_rdma_req *rr, const struct ibv_wc *wc)
{
	struct rdt_rdma_conn *rc = conn_of_req(rr);
	struct rdt_rdma_req *first;
	unsigned int n = 0;
	uint64_t len = 0;

	if (wc->status != IBV_WC_SUCCESS)
		rdma_wr_failed(rc, wc, "a response could not be sent");
	while ((first = STAILQ_FIRST(&rc->sent))) {
		STAILQ_REMOVE_HEAD(&rc->sent, sent);
		n++;
		len += first->answer_len;
		answer_sent(rc, first);
		if (first == rr)
			break;
	}
	rc->sends_out -= n;
	transfer_done(rc, &rc->answers, n, len);
	return rc;
}

/* ---- completions ---- */

static RD_COLD void unknown_wc(struct rdt_rdma_dev *rdev, const struct ibv_wc *wc)
{
	rd_err(rdev->reactor->log, RD_LOG_QPAIR, "a completion carries the unknown wr_id %#llx",
	       (unsigned long long)wc->wr_id);
}

static void handle_wc(struct rdt_rdma_dev *rdev, const struct ibv_wc *wc)
{
	struct rdt_rdma_wr *wr = (void *)(uintptr_t)wc->wr_id;
	struct rdt_rdma_conn *rc;

	if (wr->magic != RDT_WR_MAGIC) {
		unknown_wc(rdev, wc);
		return;
	}
	/* Sorted by frequency. */
	if (wr->kind == RDT_WR_RECV) {
		rc = rdma_recv_done(rdev, rd_container_of(wr, struct rdt_rdma_recv, wr), wc);
	} else if (wr->kind == RDT_WR_SEND) {
		rc = rdma_send_done(rd_container_of(wr, struct rdt_rdma_req, send), wc);
	} else if (wr->kind == RDT_WR_READ) {
		rc = read_done(rd_container_of(wr, struct rdt_rdma_req, read), wc);
	} else { /* an unsignalled WRITE has failed; its SEND completes too */
		rc = conn_of_req(rd_container_of(wr, struct rdt_rdma_req, write));
		rdma_wr_failed(rc, wc, "a WRITE to the host's memory failed");
	}
	if (rc)
		finish_later(rc);
}

/* Prefetch what handling a batch of completions needs. */
static void prefetch_wc(const struct ibv_wc *wc)
{
	const struct rdt_rdma_wr *wr = (void *)(uintptr_t)wc->wr_id;

	__builtin_prefetch(wr);
	__builtin_prefetch((const char *)wr + 64);
}

static void poll_rdma_cq(struct rdt_rdma_dev *rdev)
{
	struct ibv_wc wc[POLL_BATCH];
	unsigned int total = 0;
	bool armed = false;

	while (total < POLL_ROUND) {
		int n = rd_fab_cq_poll(rdev->cq, POLL_BATCH, wc);

		if (n < 0 || (n == 0 && armed)) {
			if (n < 0)
				rd_err(rdev->reactor->log, RD_LOG_QPAIR,
				       "%s: the completion queue is broken: %s", rdev->dev->name,
				       strerror(-n));
			return;
		}
		if (n == 0) {
			rd_fab_cq_arm(rdev->cq);
			armed = true;
		}
		for (int i = 0; i < n; i++)
			prefetch_wc(&wc[i]);
		rdev->reactor->run.match = 0;
		for (int i = 0; i < n; i++) {
			rdt_heartbeat_check_again(rdev->reactor);
			handle_wc(rdev, &wc[i]);
		}
		total += (unsigned int)n;
	}
	rd_defer(rdev->reactor->loop, &rdev->again, RD_DEFER_NEXT);
}

static void cq_event(struct rd_fab_cq *cq, void *arg)
{
	poll_rdma_cq(arg);
}

static void cq_again(struct rd_defer *defer)
{
	poll_rdma_cq(rd_container_of(defer, struct rdt_rdma_dev, again));
}

/* ---- requests ---- */

/* Returns whether to send the CQE inline, which has no advantage if the CPU reads registered memory
 * (software providers). */
static bool inlines_cqe(const struct rd_fab_dev *dev)
{
	return !dev->caps.cheap_mr && dev->caps.max_inline >= NVME_CQE_SIZE;
}

/* iWARP devices cannot send inline data with Invalidate. */
static bool inlines_all_cqes(const struct rd_fab_dev *dev)
{
	return inlines_cqe(dev) && (dev->caps.inline_with_inv || !dev->caps.send_with_inv);
}

static int chunk_open(void *arg, struct rdt_req_chunk *chunk)
{
	const struct rdt_rdma_dev *rdev = arg;
	struct rd_fab_mr *mr;
	int err;

	if (inlines_all_cqes(rdev->dev))
		return 0;
	err = rd_fab_reg_mr(rdev->dev, chunk->mem, chunk->len, IBV_ACCESS_LOCAL_WRITE, &mr);
	if (err)
		return err;
	chunk->priv = mr;
	return 0;
}

static void chunk_close(void *arg, struct rdt_req_chunk *chunk)
{
	struct rd_fab_mr *mr = chunk->priv;

	rd_fab_dereg_mr(&mr);
}

static void init_rreq(const struct rdt_req_chunk *chunk, struct rdt_req *req)
{
	struct rdt_rdma_req *rr = rdt_rdma_req_of(req);
	const struct rd_fab_mr *mr = chunk->priv;

	rdt_rdma_wr_init(&rr->read, RDT_WR_READ);
	rdt_rdma_wr_init(&rr->write, RDT_WR_WRITE);
	rdt_rdma_wr_init(&rr->send, RDT_WR_SEND);
	rr->lkey = mr ? mr->lkey : 0;
}

static void reqs_free(struct rdt_rdma_dev *rdev)
{
	for (int admin = 0; admin < 2; admin++)
		rdt_req_pool_fini(&rdev->reqs[admin]);
}

static int reqs_create(struct rdt_rdma_dev *rdev)
{
	static const struct rdt_req_mem mem = {
		.size = sizeof(struct rdt_rdma_req),
		.offset = offsetof(struct rdt_rdma_req, req),
		.open = chunk_open,
		.close = chunk_close,
		.init = init_rreq,
		.fini = rdt_rdma_req_fini,
	};
	int err = 0;

	for (int admin = 0; admin < 2 && !err; admin++)
		err = rdt_req_pool_init(&rdev->reqs[admin], rdev->reactor->loop, &mem, rdev);
	return err;
}

/* ---- devices ---- */

static void dev_free(struct rdt_rdma_dev *rdev)
{
	struct rdt_reactor *r = rdev->reactor;

	SLIST_REMOVE(&rdt_rdma_of(r)->devs, rdev, rdt_rdma_dev, link);
	rd_defer_cancel(r->loop, &rdev->again);
	reqs_free(rdev);
	rdt_rdma_pools_free(rdev);
	rd_fab_dereg_mr(&rdev->mr);
	rd_fab_cq_destroy(&rdev->cq);
	rdev->dev->user = NULL;
	free(rdev);
}

/* Free the objects of removed devices. */
static void free_gone(struct rdt_rdma *rdma)
{
	struct rdt_rdma_dev *rdev, *next;

	for (rdev = SLIST_FIRST(&rdma->devs); rdev; rdev = next) {
		next = SLIST_NEXT(rdev, link);
		if (rdev->dev->gone && !rdev->conns)
			dev_free(rdev);
	}
}

static struct rdt_rdma_dev *get_rdma_dev(struct rdt_reactor *r, struct rd_fab_dev *dev)
{
	struct rdt_rdma_dev *rdev = dev->user;
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (rdev)
		return rdev;
	free_gone(rdt_rdma_of(r));
	rdev = calloc(1, sizeof(*rdev));
	if (!rdev)
		return NULL;
	rdev->reactor = r;
	rdev->dev = dev;
	rdev->mrs = 1;
	rdev->again.fn = cq_again;
	if (dev->caps.read_sink_remote_write) {
		access |= IBV_ACCESS_REMOTE_WRITE;
		rd_info(r->log, RD_LOG_TARGET,
			"%s: reactor %u: READs need buffers that hosts can write to (iWARP): a "
			"malicious host could change data of other hosts",
			dev->name, r->index);
	}
	if (rd_fab_cq_create(dev, CQ_DEPTH, cq_event, rdev, &rdev->cq))
		goto err_free;
	if (rd_fab_reg_mr(dev, r->slab, r->map_len, access, &rdev->mr))
		goto err_cq;
	if (rdt_rdma_pools_create(rdev))
		goto err_mr;
	if (reqs_create(rdev))
		goto err_reqs;
	if (rd_fab_cq_arm(rdev->cq))
		goto err_reqs;
	dev->user = rdev;
	SLIST_INSERT_HEAD(&rdt_rdma_of(r)->devs, rdev, link);
	return rdev;

err_reqs:
	reqs_free(rdev);
	rdt_rdma_pools_free(rdev);
err_mr:
	rd_fab_dereg_mr(&rdev->mr);
err_cq:
	rd_fab_cq_destroy(&rdev->cq);
err_free:
	free(rdev);
	return NULL;
}

/* ---- the end of a connection ---- */

static void close_rdma_conn(struct rdt_qpair *qp)
{
	struct rdt_rdma_conn *rc = rdt_rdma_conn_of(qp);

	rc->closing = true;
	rc->conn->moved = qp->moved;
	rd_fab_disconnect(rc->conn);
	finish_later(rc);
}

static void finish_conn_close(struct rd_defer *defer)
{
	struct rdt_rdma_conn *rc = rd_container_of(defer, struct rdt_rdma_conn, finish);
	struct rdt_req *req;

	while ((req = TAILQ_FIRST(&rc->read_wait))) {
		const struct rdt_rdma_req *rr = rdt_rdma_req_of(req);

		if (rr->descs && rr->list->reads_out)
			break; /* continues when these requests have been returned */
		TAILQ_REMOVE(&rc->read_wait, req, link);
		rdt_req_fetched(req, -ECANCELED);
	}
	while ((req = TAILQ_FIRST(&rc->write_wait))) {
		TAILQ_REMOVE(&rc->write_wait, req, link);
		rdt_req_responded(req);
	}
	if (!rc->conn || !rc->disconnected || rc->recvs_out || rc->sends_out || rc->reads_out)
		return;
	rdt_rdma_recvs_stop(rc);
	rd_fab_conn_destroy(&rc->conn);
	/* After a WRITE without SEND (which could not be posted), the buffer was in use until
	 * now. */
	RDT_FOREACH_REQ (req, &rc->qp) {
		struct rdt_rdma_req *rr = rdt_rdma_req_of(req);

		if (!rr->lost)
			continue;
		rr->lost = false;
		if (rdt_req_fetching(req))
			rdt_req_fetched(req, -EIO);
		else
			rdt_req_responded(req);
	}
	rdt_qpair_transport_closed(&rc->qp);
}

void rdt_rdma_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct rdt_rdma_conn *rc = arg;
	struct rdt_capsule *cap;

	switch (ev->type) {
	case RD_FAB_EV_ESTABLISHED:
		rc->established = true;
		while ((cap = STAILQ_FIRST(&rc->early))) {
			STAILQ_REMOVE_HEAD(&rc->early, link);
			rdt_qpair_capsule(&rc->qp, cap);
		}
		break;
	case RD_FAB_EV_DISCONNECTED:
		rc->disconnected = true;
		rdt_qpair_lost(&rc->qp, ev->status ? RDT_END_LOST : RDT_END_HOST, ev->reason);
		finish_later(rc);
		break;
	case RD_FAB_EV_DEVICE_REMOVED:
		rdt_qpair_lost(&rc->qp, RDT_END_LOST, "the RDMA device was removed");
		break;
	default:
		break;
	}
}

static bool rdma_peer_closed(const struct rdt_qpair *qp)
{
	const struct rdt_rdma_conn *rc = rd_container_of(qp, const struct rdt_rdma_conn, qp);

	return rd_fab_peer_closed(rc->conn);
}

static int rdma_unread(const struct rdt_qpair *qp)
{
	const struct rdt_rdma_conn *rc = rd_container_of(qp, const struct rdt_rdma_conn, qp);
	int told = rd_fab_unread(rc->conn);

	return told == 0 && !STAILQ_EMPTY(&rc->early) ? 1 : told;
}

static void destroy_rdma_conn(struct rdt_qpair *qp)
{
	rdt_rdma_conn_free(rdt_rdma_conn_of(qp));
}

const struct rdt_transport_ops rdt_rdma_ops = {
	.name = "rdma",
	.trtype = NVMF_TRTYPE_RDMA,
	.parse_sgl = rdt_rdma_parse_sgl,
	.fetch = rdma_fetch,
	.fetch_cancel = rdma_fetch_cancel,
	.respond = rdma_respond,
	.identify = rdt_rdma_identify,
	.joined = rdt_rdma_recvs_joined,
	.capsule_done = rdt_rdma_capsule_done,
	.close = close_rdma_conn,
	.peer_closed = rdma_peer_closed,
	.unread = rdma_unread,
	.hold = rdt_rdma_hold,
	.rests = rdt_rdma_rests,
	.move_out = rdt_rdma_move_out,
	.destroy = destroy_rdma_conn,
};

/* ---- memory and queue pair of a connection ---- */

int rdt_rdma_conn_init(struct rdt_rdma_conn *rc, struct rdt_reactor *r, uint16_t qid,
		       uint16_t depth)
{
	int err = rdt_qpair_init(&rc->qp, r, &rdt_rdma_ops, qid, depth);

	rc->rdma = rdt_rdma_of(r);
	TAILQ_INIT(&rc->read_wait);
	TAILQ_INIT(&rc->write_wait);
	STAILQ_INIT(&rc->early);
	STAILQ_INIT(&rc->sent);
	LIST_INIT(&rc->recvs_used);
	rc->finish.fn = finish_conn_close;
	return err;
}

int rdt_rdma_conn_setup(struct rdt_rdma_conn *rc)
{
	/* READ, WRITE and SEND for each request, and up to four complete lists. */
	uint32_t extra = 4u * (rdt_rdma_msdbd(&rc->qp.reactor->target->cfg->target) - 1u);
	struct rd_fab_qp_attr attr = {
		.max_send_wr = 3u * rc->qp.depth + extra,
		.max_recv_wr = rc->qp.depth,
		.max_send_sge = 1,
		.max_recv_sge = 2,
		.coalesce = true,
	};
	bool inline_cqe;
	int err;

	rc->rdev = get_rdma_dev(rc->qp.reactor, rc->conn->dev);
	if (!rc->rdev)
		return -ENOMEM;
	rc->rdev->conns++;
	rdt_qpair_use_pool(&rc->qp, &rc->rdev->reqs[rc->qp.admin]);
	err = rdt_rdma_recvs_create(rc);
	if (err)
		return err;
	inline_cqe = inlines_cqe(rc->rdev->dev);
	attr.max_inline = inline_cqe ? NVME_CQE_SIZE : 0;
	init_answer(rc, inline_cqe);
	rc->extra_free = extra;
	attr.send_cq = rc->rdev->cq;
	attr.recv_cq = rc->rdev->cq;
	attr.srq = rc->pool ? rc->pool->srq : NULL;
	err = rd_fab_qp_create(rc->conn, &attr);
	return err ? err : rdt_rdma_recvs_start(rc);
}

void rdt_rdma_conn_free(struct rdt_rdma_conn *rc)
{
	rd_defer_cancel(rc->qp.reactor->loop, &rc->finish);
	rdt_rdma_recvs_stop(rc);
	rd_fab_conn_destroy(&rc->conn);
	rdt_rdma_recvs_free(rc); /* before its host is removed, by which the share is found */
	rdt_qpair_fini(&rc->qp);
	if (rc->rdev) {
		rc->rdev->conns--;
		rdt_req_pool_trim(rc->qp.req_pool);
	}
	free(rc);
}

/* ---- RDMA of a reactor ---- */

int rdt_rdma_init(struct rdt_reactor *r)
{
	struct rdt_rdma *rdma = calloc(1, sizeof(*rdma));

	if (!rdma)
		return -ENOMEM;
	r->transport_state[RDT_TRANSPORT_RDMA] = rdma;
	rdma->reactor = r;
	rdt_rdma_watch_init(rdma);
	rdt_inbound_init(&rdma->inbound, r, RDT_TRANSPORT_RDMA, rdt_rdma_take);
	SLIST_INIT(&rdma->devs);
	return rdt_rdma_open_fabs(r);
}

void rdt_rdma_fini(struct rdt_reactor *r)
{
	struct rdt_rdma *rdma = rdt_rdma_of(r);
	struct rdt_rdma_dev *rdev;

	if (!rdma)
		return;
	rdt_inbound_fini(&rdma->inbound);
	while ((rdev = SLIST_FIRST(&rdma->devs))) {
		assert(!rdev->conns);
		dev_free(rdev);
	}
	rd_timer_stop(r->loop, &rdma->stall);
	for (int i = 0; i < RDT_FABS; i++)
		rd_fab_close(&rdma->fabs[i]);
	free(rdma);
	r->transport_state[RDT_TRANSPORT_RDMA] = NULL;
}

unsigned int rdt_rdma_mrs(const struct rdt_reactor *r)
{
	const struct rdt_rdma_dev *rdev;
	unsigned int n = 0;

	SLIST_FOREACH (rdev, &rdt_rdma_of(r)->devs, link)
		n += rdev->mrs;
	return n;
}
