/* SPDX-License-Identifier: BSD-3-Clause */
/* The puppet's connections. */
#include "puppet.h"

#include <stdlib.h>
#include <string.h>

#include "../fuzz.h"
#include "../simulated.h"
#include "parts.h"
#include "util/sockaddr.h"

#define SENDS      256u
#define CQ_DEPTH   256u
#define WR_ID_SEND UINT64_MAX

/* ---- receiving ---- */

static void post_capsule_recv(struct puppet_conn *c, unsigned int slot)
{
	fuzz_post_recv(c->conn, c->puppet->own, c->recvs[slot], PUPPET_SLOT,
		       c->number * PUPPET_RECVS + slot);
}

static void take_capsule(struct puppet *p, const struct ibv_wc *wc)
{
	struct puppet_conn *c = &p->conns[wc->wr_id / PUPPET_RECVS];
	unsigned int slot = wc->wr_id % PUPPET_RECVS;
	uint8_t capsule[PUPPET_SLOT];

	if (!c->conn || c->over || wc->qp_num != c->conn->qp_num)
		return;
	memcpy(capsule, c->recvs[slot], wc->byte_len);
	if (!c->no_recvs)
		post_capsule_recv(c, slot);
	puppet_command(c, capsule, wc->byte_len);
}

static void puppet_completions(struct rd_fab_cq *cq, void *arg)
{
	struct puppet *p = arg;
	struct ibv_wc wc[16];
	int n;

	FUZZ_CHECK(!rd_fab_cq_arm(cq));
	while ((n = rd_fab_cq_poll(cq, 16, wc)) > 0)
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				continue;
			if (wc[i].opcode == IBV_WC_RECV)
				take_capsule(p, &wc[i]);
			else if (wc[i].opcode == IBV_WC_RDMA_READ && wc[i].wr_id != WR_ID_SEND)
				puppet_fetched(p, (unsigned int)wc[i].wr_id);
		}
}

void puppet_turn(struct puppet *p)
{
	FUZZ_CHECK(rd_loop_turn(p->loop, 0) >= 0);
}

/* ---- sending ---- */

void puppet_post(struct puppet_conn *c, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (c->conn && !c->over)
		(void)rd_fab_post_send(c->conn, wr, &bad);
}

void puppet_post_rdma(struct puppet_conn *c, bool read, const void *local, uint32_t len,
		      uint64_t addr, uint32_t key, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)local, .length = len, .lkey = c->puppet->own->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = read ? IBV_SEND_SIGNALED : 0,
				 .opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				 .wr.rdma = {.remote_addr = addr, .rkey = key}};

	puppet_post(c, &wr);
}

static struct puppet_conn *hostile_conn(struct puppet *p, unsigned int n)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < PUPPET_CONNS; i++)
		count += p->conns[i].conn && p->conns[i].hostile && !p->conns[i].over;
	if (!count)
		return NULL;
	n %= count;
	for (unsigned int i = 0; i < PUPPET_CONNS; i++)
		if (p->conns[i].conn && p->conns[i].hostile && !p->conns[i].over && !n--)
			return &p->conns[i];
	return NULL;
}

void puppet_send(struct puppet *p, unsigned int n, const uint8_t *data, size_t len)
{
	struct puppet_conn *c = hostile_conn(p, n);
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = (uint32_t)len};
	struct ibv_send_wr wr = {.wr_id = WR_ID_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_INLINE,
				 .opcode = IBV_WR_SEND};

	if (!c)
		return;
	/* Anything may be a success. */
	memset(p->said_success, 1, sizeof(p->said_success));
	puppet_post(c, &wr);
}

void puppet_complete(struct puppet *p, unsigned int n, uint16_t cid, uint16_t status,
		     uint64_t result)
{
	struct puppet_conn *c = hostile_conn(p, n);
	struct nvme_cqe cqe = {
		.result64 = htole64(result),
		.status = nvme_status_to_wire((struct nvme_status){status}),
	};

	if (!c)
		return;
	cqe.cid = htole16((uint16_t)(le16toh(c->last.cid) ^ cid));
	puppet_send(p, n, (const uint8_t *)&cqe, sizeof(cqe));
}

void puppet_rdma(struct puppet *p, unsigned int n, bool read, uint32_t key, uint16_t off,
		 uint16_t len)
{
	struct puppet_conn *c = hostile_conn(p, n);
	const struct nvme_keyed_sgl *sgl;

	if (!c || !p->own)
		return;
	sgl = &c->last.sgl.keyed;
	puppet_post_rdma(c, read, p->scratch, len % sizeof(p->scratch),
			 le64toh(sgl->addr) + (uint64_t)(int64_t)(int16_t)off,
			 nvme_sgl_keyed_key(sgl) ^ key, WR_ID_SEND);
}

/* ---- connections ---- */

void puppet_end_conn(struct puppet_conn *c, bool polite)
{
	if (!c->conn)
		return;
	if (polite)
		rd_fab_disconnect(c->conn);
	else
		rd_fab_conn_destroy(&c->conn);
}

void puppet_break(struct puppet *p, unsigned int n, bool polite)
{
	struct puppet_conn *c = hostile_conn(p, n);

	if (c)
		puppet_end_conn(c, polite);
}

void puppet_hold(struct puppet *p, unsigned int n, bool both, uint64_t ns)
{
	struct puppet_conn *c = hostile_conn(p, n);

	if (c)
		rd_sim_hold_path(p->scene->sim, (struct sockaddr *)&c->conn->remote,
				 rd_addr_port((struct sockaddr *)&c->conn->local), both, ns);
}

static void puppet_conn_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct puppet_conn *c = arg;

	(void)conn;
	if (ev->type != RD_FAB_EV_ESTABLISHED)
		c->over = true;
}

/* Needs a device, which the first connection brings. */
static void prepare_puppet(struct puppet *p, struct rd_fab_dev *dev)
{
	p->dev = dev;
	FUZZ_CHECK(!rd_fab_cq_create(dev, CQ_DEPTH, puppet_completions, p, &p->cq));
	FUZZ_CHECK(!rd_fab_cq_arm(p->cq));
	FUZZ_CHECK(!rd_fab_reg_mr(dev, p, sizeof(*p), IBV_ACCESS_LOCAL_WRITE, &p->own));
}

static struct puppet_conn *free_conn(struct puppet *p)
{
	for (unsigned int i = 0; i < PUPPET_CONNS; i++) {
		struct puppet_conn *c = &p->conns[i];

		if (c->over)
			rd_fab_conn_destroy(&c->conn);
		if (!c->conn)
			return c;
	}
	return NULL;
}

/* The next thing that was planned for the hostile ports, or NULL. */
static const struct puppet_plan *next_plan(struct puppet *p, struct puppet_plan *plan)
{
	if (!p->plans_count)
		return NULL;
	*plan = p->plans[0];
	p->plans_count--;
	memmove(p->plans, p->plans + 1, p->plans_count * sizeof(p->plans[0]));
	return plan;
}

static void accept_conn(struct puppet_conn *c, const struct puppet_plan *plan)
{
	struct puppet *p = c->puppet;
	struct nvmf_rdma_cm_rep rep = {.crqsize = htole16(PUPPET_RECVS - 2)};
	struct rd_fab_conn_param param = {
		.private_data = &rep, .private_len = sizeof(rep), .ird = 16, .ord = 16};
	struct rd_fab_qp_attr attr = {.max_send_wr = SENDS,
				      .max_recv_wr = PUPPET_RECVS,
				      .max_send_sge = 1,
				      .max_recv_sge = 1,
				      .max_inline = PUPPET_BYTES};

	if (!p->dev)
		prepare_puppet(p, c->conn->dev);
	attr.send_cq = attr.recv_cq = p->cq;
	FUZZ_CHECK(!rd_fab_qp_create(c->conn, &attr));
	c->no_recvs = plan && plan->what == PLAN_NO_RECVS;
	for (unsigned int i = 0; i < PUPPET_RECVS && !c->no_recvs; i++)
		post_capsule_recv(c, i);
	if (plan && plan->len) {
		param.private_data = plan->data;
		param.private_len = plan->len;
	}
	FUZZ_CHECK(!rd_fab_accept(c->conn, &param));
}

static void conn_requested(struct rd_fab_listener *lis, struct rd_fab_req *req, void *arg)
{
	const struct nvmf_rdma_cm_req *cm = req->private_data;
	struct puppet *p = arg;
	bool hostile = lis != p->listeners[0];
	struct puppet_plan plan;
	const struct puppet_plan *how = hostile ? next_plan(p, &plan) : NULL;
	struct puppet_conn *c = free_conn(p);

	if (!c || (how && how->what == PLAN_REJECT)) {
		rd_fab_req_reject(req, how ? how->data : NULL, how ? how->len : 0);
		return;
	}
	c->over = false;
	c->hostile = hostile;
	c->qid = req->private_len >= sizeof(*cm) ? le16toh(cm->qid) : 0;
	memset(&c->last, 0, sizeof(c->last));
	FUZZ_CHECK(!rd_fab_req_adopt(p->fab, req, puppet_conn_event, c, &c->conn));
	if (!how || how->what != PLAN_IGNORE)
		accept_conn(c, how);
}

/* ---- life ---- */

void puppet_add_rule(struct puppet *p, const struct puppet_rule *rule)
{
	for (unsigned int i = 0; i < PUPPET_RULES; i++)
		if (!p->rules[i].times) {
			p->rules[i] = *rule;
			return;
		}
}

void puppet_add_plan(struct puppet *p, const struct puppet_plan *plan)
{
	if (p->plans_count < PUPPET_PLANS)
		p->plans[p->plans_count++] = *plan;
}

void puppet_write_page(struct puppet *p, enum puppet_page page, size_t off, const uint8_t *data,
		       size_t len)
{
	if (off < PUPPET_PAGE)
		memcpy(p->pages[1][page] + off, data,
		       len < PUPPET_PAGE - off ? len : PUPPET_PAGE - off);
}

void puppet_fill_page(struct puppet *p, enum puppet_page page, size_t off, uint8_t value,
		      size_t len)
{
	if (off < PUPPET_PAGE)
		memset(p->pages[1][page] + off, value,
		       len < PUPPET_PAGE - off ? len : PUPPET_PAGE - off);
}

bool puppet_said_success(const struct puppet *p, unsigned int n)
{
	return p->said_success[n];
}

void puppet_forget(struct puppet *p, unsigned int n)
{
	p->said_success[n] = false;
}

void puppet_open(struct scene *s)
{
	struct puppet *p = calloc(1, sizeof(*p));
	struct rd_loop_opts opts = {.log = s->log, .clock = rd_sim_clock(s->sim), .seed = 4};
	struct sockaddr_storage addr;

	FUZZ_CHECK(p);
	s->puppet = p;
	p->scene = s;
	FUZZ_CHECK(!rd_loop_create(&opts, &p->loop));
	FUZZ_CHECK(!rd_sim_open(p->loop, NULL, &p->fab));
	for (unsigned int i = 0; i < PUPPET_PORTS; i++) {
		FUZZ_CHECK(!rd_addr_parse(PUPPET_ADDR, (uint16_t)(PUPPET_PORT + i), &addr));
		FUZZ_CHECK(!rd_fab_listen(p->fab, (struct sockaddr *)&addr, 16, conn_requested, p,
					  &p->listeners[i]));
	}
	for (unsigned int i = 0; i < PUPPET_CONNS; i++)
		p->conns[i] = (struct puppet_conn){.puppet = p, .number = i};
	puppet_init_pages(p);
	s->loop[SCENE_TARGET] = p->loop;
}

void puppet_vanishes(struct puppet *p)
{
	for (unsigned int i = 1; i < PUPPET_PORTS; i++)
		rd_fab_unlisten(&p->listeners[i]);
	for (unsigned int i = 0; i < PUPPET_CONNS; i++)
		if (p->conns[i].hostile)
			puppet_end_conn(&p->conns[i], false);
	puppet_stop_late(p);
}

void puppet_close(struct scene *s)
{
	struct puppet *p = s->puppet;

	puppet_vanishes(p);
	rd_fab_unlisten(&p->listeners[0]);
	for (unsigned int i = 0; i < PUPPET_CONNS; i++)
		rd_fab_conn_destroy(&p->conns[i].conn);
	rd_fab_dereg_mr(&p->own);
	rd_fab_cq_destroy(&p->cq);
	rd_fab_close(&p->fab);
	s->loop[SCENE_TARGET] = NULL;
	rd_loop_destroy(&p->loop);
	free(p);
	s->puppet = NULL;
}
