/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection through the fabric interface only: private data, capsules and keys as a test
 * specifies them. Queues and commands are in rawconn.c.
 */
#include "rdconform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <netdb.h>

#include "util/sockaddr.h"

#define DEPTH_DEFAULT 32
#define SLOTS_MIN     8
#define ANSWER_BYTES  64 /* more than a response, so that a longer one is detected */
#define TAG_RECV      (UINT64_C(1) << 32)

/* ---- loop and provider ---- */

static const char *resolve(const struct rdc_config *cfg, struct sockaddr_storage *ss)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *ai = NULL;
	int rc = getaddrinfo(cfg->uri.traddr, cfg->uri.trsvcid, &hints, &ai);

	if (rc)
		return gai_strerror(rc);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return NULL;
}

static void open_fabric(struct rdc *t, const struct sockaddr_storage *to)
{
	struct rd_loop_opts opts = {.log = NULL};
	const char *name = t->cfg->provider;
	bool verbs = name && strcmp(name, "verbs") == 0;
	int rc;

	if (t->fab)
		return;
	if (!name || strcmp(name, "auto") == 0)
		verbs = rd_fab_verbs_has_addr((const struct sockaddr *)to);
	rc = rd_loop_create(&opts, &t->loop);
	if (!rc)
		rc = verbs ? rd_fab_verbs_open(t->loop, NULL, &t->fab)
			   : rd_fab_iwarp_open(t->loop, NULL, &t->fab);
	if (rc)
		RDC_FAIL(t, "cannot open the fabric of this machine: %s", strerror(-rc));
}

/* ---- events and completions ---- */

static void raw_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	const struct nvmf_rdma_cm_rej *rej = ev->private_data;
	const struct nvmf_rdma_cm_rep *rep = ev->private_data;
	struct rdc_raw *raw = arg;

	switch (ev->type) {
	case RD_FAB_EV_RESOLVED:
		raw->resolved = true;
		break;
	case RD_FAB_EV_ESTABLISHED:
		raw->up = true;
		if (rep && ev->private_len >= offsetof(struct nvmf_rdma_cm_rep, rsvd4))
			raw->crqsize = le16toh(rep->crqsize);
		break;
	case RD_FAB_EV_REJECTED:
		raw->rejected = raw->over = true;
		if (rej && ev->private_len >= sizeof(*rej))
			raw->reject_sts = le16toh(rej->sts);
		break;
	case RD_FAB_EV_CONNECT_ERROR:
	case RD_FAB_EV_DISCONNECTED:
		raw->over = true;
		raw->err = ev->status;
		break;
	case RD_FAB_EV_DEVICE_REMOVED:
		break;
	}
}

static int post_recv(struct rdc_raw *raw, unsigned int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->answers->p + i * ANSWER_BYTES,
		.length = ANSWER_BYTES,
		.lkey = raw->answers->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = TAG_RECV | i, .sg_list = &sge, .num_sge = 1}, *bad;

	return rd_fab_post_recv(raw->conn, &wr, &bad);
}

static void take_capsule(struct rdc_raw *raw, const struct ibv_wc *wc)
{
	unsigned int i = (unsigned int)(wc->wr_id & 0xffffffff);
	struct rdc_answer *a;

	if (raw->n_got == raw->max_got)
		return; /* more responses than commands: a test that counts them detects it */
	a = &raw->got[raw->n_got++];
	memset(a, 0, sizeof(*a));
	memcpy(&a->cqe, (char *)raw->answers->p + i * ANSWER_BYTES, sizeof(a->cqe));
	a->len = wc->byte_len;
	a->inv = wc->wc_flags & IBV_WC_WITH_INV;
	a->inv_key = wc->invalidated_rkey;
	post_recv(raw, i); /* an error means a lost connection, where it does not matter */
}

static void poll_cq(struct rdc_raw *raw)
{
	struct ibv_wc wc[16];
	int i, n;

	if (!raw->cq)
		return;
	while ((n = rd_fab_cq_poll(raw->cq, 16, wc)) > 0) {
		for (i = 0; i < n; i++) {
			if (wc[i].status == IBV_WC_SUCCESS && (wc[i].wr_id & TAG_RECV))
				take_capsule(raw, &wc[i]);
		}
	}
}

static void raw_cq_event(struct rd_fab_cq *cq, void *arg)
{
	struct rdc_raw *raw = arg;

	poll_cq(raw);
	rd_fab_cq_arm(cq);
	poll_cq(raw);
}

/* One turn of the loop, of at most @ms. */
static void turn_raw(struct rdc_raw *raw, uint64_t ms)
{
	poll_cq(raw);
	rd_loop_turn(raw->t->loop, ms * RD_NSEC_PER_MSEC);
	poll_cq(raw);
}

/* ---- life ---- */

static struct rdc_mem *new_mem(struct rdc *t, struct rd_fab_dev *dev, size_t len, int access)
{
	struct rdc_mem *m = calloc(1, sizeof(*m));
	int rc = -ENOMEM;

	if (m)
		m->p = calloc(1, len);
	if (m && m->p)
		rc = rd_fab_reg_mr(dev, m->p, len, access, &m->mr);
	if (rc) {
		if (m)
			free(m->p);
		free(m);
		RDC_FAIL(t, "cannot register %zu bytes on this machine: %s", len, strerror(-rc));
	}
	m->len = len;
	LIST_INSERT_HEAD(&t->mems, m, link);
	return m;
}

struct rdc_mem *rdc_raw_mem(struct rdc_raw *raw, size_t len, int access)
{
	return new_mem(raw->t, raw->conn->dev, len, access);
}

void rdc_raw_mem_dereg(struct rdc_mem *mem)
{
	rd_fab_dereg_mr(&mem->mr);
}

static void make_qp(struct rdc_raw *raw)
{
	struct rd_fab_qp_attr qp = {
		.max_send_wr = raw->slots,
		.max_recv_wr = raw->depth,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	struct rd_fab_dev *dev = raw->conn->dev;
	unsigned int i;
	int rc;

	raw->capsules = new_mem(raw->t, dev, (size_t)raw->slots * RDC_CAPSULE, 0);
	raw->answers =
		new_mem(raw->t, dev, (size_t)raw->depth * ANSWER_BYTES, IBV_ACCESS_LOCAL_WRITE);
	rc = rd_fab_cq_create(dev, raw->slots + raw->depth, raw_cq_event, raw, &raw->cq);
	if (!rc)
		rc = rd_fab_cq_arm(raw->cq);
	qp.send_cq = qp.recv_cq = raw->cq;
	if (!rc)
		rc = rd_fab_qp_create(raw->conn, &qp);
	for (i = 0; !rc && i < raw->depth; i++)
		rc = post_recv(raw, i);
	if (rc)
		RDC_FAIL(raw->t, "cannot create the queue pair of this machine: %s", strerror(-rc));
}

static void wait_until(struct rdc_raw *raw, const bool *flag, const char *what)
{
	uint64_t end = rdc_now_ms() + 2 * raw->t->cfg->timeout_ms;

	while (!*flag && !raw->over) {
		if (rdc_now_ms() >= end)
			RDC_FAIL(raw->t, "%s: no outcome in time", what);
		turn_raw(raw, 50);
	}
}

struct rdc_raw *rdc_raw_dial(struct rdc *t, const struct rdc_dial *d)
{
	uint16_t depth = d->depth ? d->depth : DEPTH_DEFAULT;
	struct nvmf_rdma_cm_req req = {
		.qid = htole16(d->qid),
		.hrqsize = htole16(depth),
		.hsqsize = htole16((uint16_t)(depth - 1)),
	};
	struct rd_fab_conn_param param = {
		.private_data = d->has_priv ? d->priv : &req,
		.private_len = d->has_priv ? d->priv_len : sizeof(req),
		.ird = d->ird ? d->ird : 32,
	};
	struct rd_fab_resolve_attr attr = {.on_event = raw_conn_event};
	struct sockaddr_storage ss;
	struct rdc_raw *raw;
	const char *why = resolve(t->cfg, &ss);
	int rc;

	if (why)
		RDC_FAIL(t, "%s: %s", t->cfg->uri.traddr, why);
	open_fabric(t, &ss);
	raw = calloc(1, sizeof(*raw));
	if (!raw)
		RDC_FAIL(t, "no memory on this machine");
	raw->t = t;
	raw->qid = d->qid;
	raw->depth = depth;
	/* Tests send more commands at once than a queue allows. */
	raw->slots = depth < SLOTS_MIN ? 4 * SLOTS_MIN : 4u * depth;
	raw->max_got = raw->slots;
	LIST_INSERT_HEAD(&t->raws, raw, link);
	raw->got = calloc(raw->max_got, sizeof(*raw->got));
	attr.dst = (struct sockaddr *)&ss;
	attr.timeout_ns = t->cfg->timeout_ms * RD_NSEC_PER_MSEC;
	attr.arg = raw;
	rc = raw->got ? rd_fab_resolve(t->fab, &attr, &raw->conn) : -ENOMEM;
	if (rc)
		RDC_FAIL(t, "connect: %s", strerror(-rc));
	wait_until(raw, &raw->resolved, "connect");
	if (raw->over)
		return raw;
	make_qp(raw);
	if (d->no_ird)
		param.ird = 0;
	rc = rd_fab_connect(raw->conn, &param);
	if (rc)
		RDC_FAIL(t, "connect: %s", strerror(-rc));
	wait_until(raw, &raw->up, "connect");
	return raw;
}

struct rdc_raw *rdc_raw_must_dial(struct rdc *t, const struct rdc_dial *d)
{
	struct rdc_raw *raw = rdc_raw_dial(t, d);

	if (raw->rejected)
		RDC_FAIL(t, "the connection for queue %u was rejected: %s", d->qid,
			 nvmf_rdma_cm_status_text(raw->reject_sts));
	if (!raw->up || raw->over)
		RDC_FAIL(t, "no connection for queue %u: %s", d->qid,
			 strerror(raw->err < 0 ? -raw->err : ECONNRESET));
	return raw;
}

void rdc_raw_close(struct rdc_raw *raw)
{
	uint64_t end = rdc_now_ms() + 500;

	LIST_REMOVE(raw, link);
	/* An orderly close where possible, so that what was sent last arrives. */
	if (raw->up && !raw->over) {
		rd_fab_disconnect(raw->conn);
		while (!raw->over && rdc_now_ms() < end)
			turn_raw(raw, 10);
	}
	rd_fab_conn_destroy(&raw->conn);
	rd_fab_cq_destroy(&raw->cq);
	free(raw->got);
	free(raw);
}

/* ---- sending and receiving ---- */

void rdc_raw_post(struct rdc_raw *raw, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = rd_fab_post_send(raw->conn, wr, &bad);

	if (rc)
		RDC_FAIL(raw->t, "cannot send: %s", strerror(-rc));
}

void rdc_raw_send(struct rdc_raw *raw, const void *capsule, size_t len)
{
	unsigned int slot = raw->next_slot++ % raw->slots;
	char *p = (char *)raw->capsules->p + (size_t)slot * RDC_CAPSULE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)p,
		.length = (uint32_t)len,
		.lkey = raw->capsules->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (len > RDC_CAPSULE)
		RDC_FAIL(raw->t, "a capsule of %zu bytes is more than this program can send", len);
	if (len)
		memcpy(p, capsule, len);
	else
		wr.num_sge = 0;
	rdc_raw_post(raw, &wr);
}

int rdc_raw_answer(struct rdc_raw *raw, struct rdc_answer *out, unsigned int ms)
{
	uint64_t end = rdc_now_ms() + ms, now;

	for (;;) {
		if (raw->n_got) {
			*out = raw->got[0];
			raw->n_got--;
			memmove(raw->got, raw->got + 1, raw->n_got * sizeof(*raw->got));
			return 1;
		}
		now = rdc_now_ms();
		if (raw->over)
			return 0;
		if (now >= end)
			return -1;
		turn_raw(raw, end - now > 50 ? 50 : end - now);
	}
}

bool rdc_raw_ended(struct rdc_raw *raw, unsigned int ms)
{
	uint64_t end = rdc_now_ms() + ms;

	while (!raw->over && rdc_now_ms() < end)
		turn_raw(raw, 20);
	return raw->over;
}
