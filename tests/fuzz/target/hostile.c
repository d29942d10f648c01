/* SPDX-License-Identifier: BSD-3-Clause */
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/wire.h"
#include "util/sockaddr.h"

#include "../fuzz.h"
#include "../simulated.h"

#define RECVS     40u
#define SENDS     64u
#define SEND_SLOT 32u /* messages whose memory is not used again yet */

struct hostile_conn {
	struct hostile *host;
	unsigned int number;
	struct rd_fab_conn *conn; /* NULL: none */
	struct hostile_connect how;
	bool established;
	bool over;
	bool no_recvs;
	unsigned int answers;
	uint16_t cntlid;
	uint8_t recvs[RECVS][NVME_CQE_SIZE];
};

struct hostile {
	struct stage *stage;
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct rd_fab_dev *dev; /* NULL: before the first connection */
	struct rd_fab_cq *cq;
	struct rd_fab_mr *own; /* local use: this structure */
	struct rd_fab_mr *mr[HOSTILE_REGIONS];
	struct rd_fab_mr last[HOSTILE_REGIONS]; /* a copy */
	struct hostile_conn conns[HOSTILE_CONNS];
	unsigned int sends;
	uint8_t send_data[SEND_SLOT][HOSTILE_SEND];
	uint8_t region[HOSTILE_REGIONS][HOSTILE_REGION];
};

/* ---- memory ---- */

void hostile_set_region(struct hostile *h, unsigned int n, uint32_t len, int access)
{
	rd_fab_dereg_mr(&h->mr[n]);
	if (!h->dev || !len)
		return;
	if (access & IBV_ACCESS_REMOTE_WRITE)
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (len > HOSTILE_REGION)
		len = HOSTILE_REGION;
	FUZZ_CHECK(!rd_fab_reg_mr(h->dev, h->region[n], len, access, &h->mr[n]));
	h->last[n] = *h->mr[n];
}

void hostile_region(const struct hostile *h, unsigned int n, uint64_t *addr, uint32_t *key)
{
	*addr = h->last[n].iova;
	*key = h->last[n].rkey;
}

/* libFuzzer copies texts that are compared into inputs. */
static void hide_honest(uint8_t *data, size_t len)
{
	uint8_t *found = memmem(data, len, STAGE_HOST, strlen(STAGE_HOST));

	if (found)
		*found = 'x';
}

void hostile_write_region(struct hostile *h, unsigned int n, size_t off, const void *data,
			  size_t len)
{
	size_t before = off < NVME_NQN_LENGTH ? off : NVME_NQN_LENGTH;

	if (off >= HOSTILE_REGION || !len)
		return;
	if (len > HOSTILE_REGION - off)
		len = HOSTILE_REGION - off;
	memcpy(h->region[n] + off, data, len);
	len += before;
	off -= before;
	hide_honest(h->region[n] + off, HOSTILE_REGION - off < len + NVME_NQN_LENGTH
						? HOSTILE_REGION - off
						: len + NVME_NQN_LENGTH);
}

/* ---- receiving ---- */

static void post_answer_recv(struct hostile_conn *c, unsigned int slot)
{
	fuzz_post_recv(c->conn, c->host->own, c->recvs[slot], NVME_CQE_SIZE,
		       c->number * RECVS + slot);
}

static void take_answer(struct hostile *h, const struct ibv_wc *wc)
{
	struct hostile_conn *c = &h->conns[wc->wr_id / RECVS];
	struct nvme_cqe cqe;

	if (!c->conn || c->over || wc->qp_num != c->conn->qp_num)
		return;
	FUZZ_CHECK(wc->byte_len == NVME_CQE_SIZE);
	memcpy(&cqe, c->recvs[wc->wr_id % RECVS], sizeof(cqe));
	c->answers++;
	if (!c->cntlid && !cqe.status)
		c->cntlid = (uint16_t)le32toh(cqe.result); /* the first answer is a Connect's */
	if (!c->no_recvs)
		post_answer_recv(c, wc->wr_id % RECVS);
}

void hostile_turn(struct hostile *h)
{
	FUZZ_CHECK(rd_loop_turn(h->loop, 0) >= 0);
}

static void take_answers(struct rd_fab_cq *cq, void *arg)
{
	struct hostile *h = arg;
	struct ibv_wc wc[16];
	int n;

	FUZZ_CHECK(!rd_fab_cq_arm(cq));
	while ((n = rd_fab_cq_poll(cq, 16, wc)) > 0)
		for (int i = 0; i < n; i++)
			if (wc[i].opcode == IBV_WC_RECV && wc[i].status == IBV_WC_SUCCESS)
				take_answer(h, &wc[i]);
}

/* Needs a device, which the first connection brings. */
static void prepare_memory(struct hostile *h, struct rd_fab_dev *dev)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	h->dev = dev;
	FUZZ_CHECK(!rd_fab_cq_create(dev, 64, take_answers, h, &h->cq));
	FUZZ_CHECK(!rd_fab_cq_arm(h->cq));
	FUZZ_CHECK(!rd_fab_reg_mr(dev, h, sizeof(*h), IBV_ACCESS_LOCAL_WRITE, &h->own));
	for (unsigned int n = 0; n < HOSTILE_REGIONS; n++)
		hostile_set_region(h, n, HOSTILE_REGION, access);
}

unsigned int hostile_answers(const struct hostile *h, unsigned int n)
{
	return h->conns[n].answers;
}

uint16_t hostile_cntlid(const struct hostile *h, unsigned int n)
{
	return h->conns[n].cntlid;
}

void hostile_set_recvs(struct hostile *h, unsigned int n, bool posts)
{
	h->conns[n].no_recvs = !posts;
}

/* ---- connections ---- */

static void hostile_resolved(struct hostile_conn *c)
{
	struct hostile *h = c->host;
	struct rd_fab_conn_param param = {.private_data = c->how.private_data,
					  .private_len = c->how.private_len,
					  .ird = 16,
					  .ord = 16};
	struct rd_fab_qp_attr attr = {
		.max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1};

	if (!h->dev)
		prepare_memory(h, c->conn->dev);
	attr.send_cq = attr.recv_cq = h->cq;
	FUZZ_CHECK(!rd_fab_qp_create(c->conn, &attr));
	for (unsigned int i = 0; i < RECVS && !c->no_recvs; i++)
		post_answer_recv(c, i);
	FUZZ_CHECK(!rd_fab_connect(c->conn, &param));
}

static void hostile_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct hostile_conn *c = arg;

	(void)conn;
	/* hostile_disconnect() may have come before it. */
	if (ev->type == RD_FAB_EV_RESOLVED && !c->over)
		hostile_resolved(c);
	else if (ev->type == RD_FAB_EV_ESTABLISHED)
		c->established = true;
	else if (ev->type != RD_FAB_EV_RESOLVED)
		c->over = true;
}

void hostile_disconnect(struct hostile *h, unsigned int n, bool polite)
{
	struct hostile_conn *c = &h->conns[n];

	if (!c->conn)
		return;
	c->over = true;
	if (polite)
		rd_fab_disconnect(c->conn);
	else
		rd_fab_conn_destroy(&c->conn);
}

void hostile_connect(struct hostile *h, unsigned int n, const struct hostile_connect *how)
{
	struct hostile_conn *c = &h->conns[n];
	struct sockaddr_storage to, from;
	struct rd_fab_resolve_attr attr = {
		.dst = (struct sockaddr *)&to, .src = (struct sockaddr *)&from, .arg = c};
	char address[32];

	rd_fab_conn_destroy(&c->conn);
	memset(c, 0, sizeof(*c));
	c->host = h;
	c->number = n;
	c->how = *how;
	c->no_recvs = how->no_recvs;
	snprintf(address, sizeof(address), "10.2.0.%u", n + 1);
	FUZZ_CHECK(!rd_addr_parse(STAGE_ADDR, how->port, &to));
	FUZZ_CHECK(!rd_addr_parse(address, 0, &from));
	attr.on_event = hostile_conn_event;
	FUZZ_CHECK(!rd_fab_resolve(h->fab, &attr, &c->conn));
}

bool hostile_connecting(const struct hostile *h, unsigned int n)
{
	const struct hostile_conn *c = &h->conns[n];

	return c->conn && !c->established && !c->over;
}

void hostile_hold(struct hostile *h, unsigned int n, bool both, uint64_t ns)
{
	const struct hostile_conn *c = &h->conns[n];

	if (c->conn)
		rd_sim_hold_path(h->stage->sim, (struct sockaddr *)&c->conn->local, c->how.port,
				 both, ns);
}

/* ---- sending ---- */

static void hostile_post(struct hostile *h, unsigned int n, struct ibv_send_wr *wr)
{
	struct hostile_conn *c = &h->conns[n];
	struct ibv_send_wr *bad;

	if (c->conn && c->established && !c->over)
		(void)rd_fab_post_send(c->conn, wr, &bad);
}

void hostile_send(struct hostile *h, unsigned int n, const uint8_t *data, size_t len,
		  bool invalidate)
{
	uint8_t *copy = h->send_data[h->sends++ % SEND_SLOT];
	struct ibv_sge sge = {.addr = (uintptr_t)copy, .length = (uint32_t)len};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND};

	if (!h->own)
		return;
	memcpy(copy, data, len);
	hide_honest(copy, len);
	sge.lkey = h->own->lkey;
	wr.invalidate_rkey = wr.wr.rdma.rkey = h->last[0].rkey;
	hostile_post(h, n, &wr);
}

void hostile_rdma(struct hostile *h, unsigned int n, bool read, uint32_t key, uint64_t addr,
		  uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)h->send_data, .length = len % HOSTILE_SEND};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				 .wr.rdma = {.remote_addr = addr, .rkey = key}};

	if (!h->own)
		return;
	sge.lkey = h->own->lkey;
	hostile_post(h, n, &wr);
}

/* ---- life ---- */

void hostile_open(struct stage *s)
{
	struct hostile *h = calloc(1, sizeof(*h));
	struct rd_loop_opts opts = {.log = s->log, .clock = rd_sim_clock(s->sim), .seed = 4};

	FUZZ_CHECK(h);
	s->hostile = h;
	h->stage = s;
	FUZZ_CHECK(!rd_loop_create(&opts, &h->loop));
	FUZZ_CHECK(!rd_sim_open(h->loop, NULL, &h->fab));
	s->loop[STAGE_HOSTILE] = h->loop;
}

void hostile_leaves(struct hostile *h)
{
	for (unsigned int n = 0; n < HOSTILE_CONNS; n++)
		rd_fab_conn_destroy(&h->conns[n].conn);
	for (unsigned int n = 0; n < HOSTILE_REGIONS; n++)
		rd_fab_dereg_mr(&h->mr[n]);
}

void hostile_close(struct stage *s)
{
	struct hostile *h = s->hostile;

	rd_fab_dereg_mr(&h->own);
	rd_fab_cq_destroy(&h->cq);
	rd_fab_close(&h->fab);
	s->loop[STAGE_HOSTILE] = NULL;
	rd_loop_destroy(&h->loop);
	free(h);
	s->hostile = NULL;
}
