/* SPDX-License-Identifier: BSD-3-Clause */
#include "t_rdma.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "t_target.h"
#include "target/manage/objects/opening.h"
#include "target/reactor/lifecycle.h"
#include "target/transport/rdma/rdma.h"

_Atomic uint64_t t_rdma_skipped_ns;

static uint64_t skipping_now(void *arg)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec + t_rdma_skipped_ns;
}

static const struct rd_clock skipping_clock = {skipping_now, NULL};
static const struct rdt_env skipping_env = {.clock = &skipping_clock};

static void rdma_on_drained(struct rdt_target *t)
{
	rd_loop_stop(t->loop);
}

static void namespaces(struct t_rdma_server *s)
{
	s->layer = (struct rdt_layer_config){.type = RDT_LAYER_DELAY};
	s->layer.delay_ns[RDT_BIO_WRITE] = 3600 * RD_NSEC_PER_SEC;
	for (uint32_t i = 0; i < 2; i++)
		s->ns[i] = (struct rdt_ns_config){
			.nsid = i + 1,
			.backend = RDT_BACKEND_MEMORY,
			.block_size = 512,
			.size_bytes = (uint64_t)T_BLOCKS * 512,
			.uuid = "u",
			.uuid_bytes = {(uint8_t)(i + 1)},
			.layers = &s->layer,
			.layers_count = i,
		};
}

void t_rdma_server_start_with(struct t_rdma_server *s, uint32_t reactors, uint32_t recvs)
{
	struct rd_loop_opts opts = {.seed = 1};

	memset(s, 0, sizeof(*s));
	namespaces(s);
	s->cfg.target = (struct rdt_target_config){
		.reactors = reactors,
		.queue_depth = 64,
		.io_queues = 4,
		.engine_depth = 16,
		.sgl_descriptors = 16,
		.max_data_bytes = T_MDTS,
		.in_capsule_bytes = T_INCAPSULE,
		.capsule_bytes = (uint64_t)recvs * T_RDMA_CAPSULE,
		.buffer_bytes = 4 * T_MDTS,
		.limits = T_LIMITS,
	};
	s->listener = (struct rdt_listener_config){.address = "127.0.0.1"};
	s->subsys = (struct rdt_subsys_config){
		.nqn = T_NQN,
		.serial = "S",
		.model = "M",
		.allow_any_host = true,
		.cntlid_min = 1,
		.cntlid_max = 8,
		.namespaces = s->ns,
		.namespaces_count = 2,
	};
	s->cfg.listeners = &s->listener;
	s->cfg.listeners_count = 1;
	s->cfg.subsystems = &s->subsys;
	s->cfg.subsystems_count = 1;
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &s->loop), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_target_create(&s->cfg, NULL, s->loop, &skipping_env, NULL, &s->t),
			      0);
	rdt_opening_begin(s->t);
	CU_ASSERT_EQUAL_FATAL(rdt_opening_wait(s->t, 0), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_target_start(s->t), 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_open(s->loop, NULL, &s->fab), 0);
}

void t_rdma_server_start(struct t_rdma_server *s)
{
	t_rdma_server_start_with(s, 2, 0);
}

void t_rdma_server_stop(struct t_rdma_server *s)
{
	rdt_target_drain(s->t, rdma_on_drained);
	CU_ASSERT_EQUAL(rd_loop_run(s->loop), 0);
	rdt_target_destroy(&s->t);
	rd_fab_close(&s->fab);
	rd_loop_destroy(&s->loop);
}

void t_rdma_turn(struct t_rdma_server *s)
{
	if (s->host_loop)
		rd_loop_turn(s->host_loop, RD_NSEC_PER_MSEC);
	rd_loop_turn(s->loop, s->host_loop ? 0 : 10 * RD_NSEC_PER_MSEC);
}

static void post_answer_recv(struct t_rdma_host *h, unsigned int i)
{
	struct ibv_sge sge = {(uintptr_t)h->mem + i * NVME_CQE_SIZE, NVME_CQE_SIZE, h->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	CU_ASSERT_EQUAL(rd_fab_post_recv(h->conn, &wr, &bad), 0);
}

static void poll_answers(struct t_rdma_host *h)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = rd_fab_cq_poll(h->cq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >= T_RDMA_DEPTH || wc[i].status != IBV_WC_SUCCESS)
				continue; /* a SEND, or flushed */
			CU_ASSERT_EQUAL(wc[i].byte_len, NVME_CQE_SIZE);
			memcpy(&h->last, h->mem + wc[i].wr_id * NVME_CQE_SIZE, sizeof(h->last));
			h->answers++;
			h->ok += nvme_status_ok(nvme_status_from_wire(h->last.status));
			post_answer_recv(h, (unsigned int)wc[i].wr_id);
		}
	}
}

static void on_cq(struct rd_fab_cq *cq, void *arg)
{
	rd_fab_cq_arm(cq);
	poll_answers(arg);
}

static void rdma_on_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct t_rdma_host *h = arg;
	struct rd_fab_conn_param param = {&h->cm, h->cm_len, h->ird, 0};
	struct rd_fab_qp_attr attr = {
		.max_send_wr = T_RDMA_DEPTH,
		.max_recv_wr = T_RDMA_DEPTH,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};

	if (ev->type == RD_FAB_EV_RESOLVED) {
		CU_ASSERT_EQUAL_FATAL(
			rd_fab_cq_create(conn->dev, 4 * T_RDMA_DEPTH, on_cq, h, &h->cq), 0);
		CU_ASSERT_EQUAL_FATAL(rd_fab_reg_mr(conn->dev, h->mem, h->len,
						    IBV_ACCESS_LOCAL_WRITE |
							    IBV_ACCESS_REMOTE_READ |
							    IBV_ACCESS_REMOTE_WRITE,
						    &h->mr),
				      0);
		attr.send_cq = attr.recv_cq = h->cq;
		CU_ASSERT_EQUAL_FATAL(rd_fab_qp_create(conn, &attr), 0);
		for (unsigned int i = 0; i < T_RDMA_DEPTH; i++)
			post_answer_recv(h, i);
		rd_fab_cq_arm(h->cq);
		CU_ASSERT_EQUAL_FATAL(rd_fab_connect(conn, &param), 0);
		return;
	}
	h->event = (int)ev->type;
	if (!ev->private_data)
		return;
	h->priv_len = ev->private_len < sizeof(h->priv) ? ev->private_len : sizeof(h->priv);
	memcpy(h->priv, ev->private_data, h->priv_len);
}

void t_rdma_host_init(struct t_rdma_host *h, struct t_rdma_server *s, uint16_t qid)
{
	memset(h, 0, sizeof(*h));
	h->srv = s;
	h->event = -1;
	h->nqn = T_HOST;
	h->ird = 16;
	h->cm.qid = htole16(qid);
	h->cm.hrqsize = htole16(T_RDMA_DEPTH);
	h->cm.hsqsize = htole16(T_RDMA_DEPTH - 1);
	h->cm_len = sizeof(h->cm);
	h->len = T_RDMA_DEPTH * NVME_CQE_SIZE + 2 * T_RDMA_CAPSULE + 16 * T_MDTS;
	h->mem = calloc(1, h->len);
	CU_ASSERT_FATAL(h->mem != NULL);
	h->capsule = h->mem + T_RDMA_DEPTH * NVME_CQE_SIZE;
	h->data = h->capsule + 2 * T_RDMA_CAPSULE;
}

void t_rdma_host_reach(struct t_rdma_host *h)
{
	struct rd_fab_resolve_attr attr = {
		.dst = (struct sockaddr *)&TAILQ_FIRST(&h->srv->t->listeners)->addr,
		.on_event = rdma_on_event,
		.arg = h,
	};

	CU_ASSERT_EQUAL_FATAL(rd_fab_resolve(h->srv->fab, &attr, &h->conn), 0);
}

void t_rdma_host_open(struct t_rdma_host *h)
{
	t_rdma_host_reach(h);
	t_rdma_wait_for(h->srv, h->event >= 0);
}

void t_rdma_host_close(struct t_rdma_host *h)
{
	rd_fab_conn_destroy(&h->conn);
	rd_fab_dereg_mr(&h->mr);
	rd_fab_cq_destroy(&h->cq);
	free(h->mem);
}

void t_rdma_host_send(struct t_rdma_host *h, const struct nvme_sqe *sqe, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)h->capsule, len, h->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = T_RDMA_DEPTH,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	memcpy(h->capsule, sqe, sizeof(*sqe));
	CU_ASSERT_EQUAL(rd_fab_post_send(h->conn, &wr, &bad), 0);
	/* The next command uses the memory of the capsule: let this one leave first. */
	rd_loop_turn(h->srv->loop, 0);
}

void t_rdma_command(struct t_rdma_host *h, struct nvme_sqe *sqe, uint8_t opcode, uint8_t *data,
		    uint32_t len)
{
	static uint16_t cid;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->flags = NVME_CMD_PSDT_SGL;
	sqe->cid = htole16(cid++);
	nvme_sgl_set_keyed(&sqe->sgl, len ? rd_fab_remote_addr(h->mr, data) : 0, len,
			   len ? h->mr->rkey : 0, NVME_SGL_KEYED_ADDRESS);
}

void t_rdma_send_io(struct t_rdma_host *h, uint8_t opcode, unsigned int index)
{
	struct nvme_sqe sqe;

	t_rdma_command(h, &sqe, opcode, h->data + index * T_MDTS, T_MDTS);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(index * (T_MDTS / 512));
	sqe.cdw12 = htole32(T_MDTS / 512 - 1);
	t_rdma_host_send(h, &sqe, NVME_SQE_SIZE);
}

uint16_t t_rdma_answer(struct t_rdma_host *h, const struct nvme_sqe *sqe)
{
	unsigned int before = h->answers;

	t_rdma_host_send(h, sqe, NVME_SQE_SIZE);
	t_rdma_wait_for(h->srv, h->answers > before);
	CU_ASSERT_EQUAL_FATAL(h->last.cid, sqe->cid);
	return nvme_status_from_wire(h->last.status).v & 0x7ff;
}

uint16_t t_rdma_connect_queue(struct t_rdma_host *h, uint16_t cntlid)
{
	struct nvmf_connect_data *data = (void *)h->data;
	struct nvme_sqe sqe;
	struct nvmf_connect_sqe *con = (void *)&sqe;

	memset(data, 0, sizeof(*data));
	data->cntlid = htole16(cntlid);
	memset(data->hostid, 0x11, sizeof(data->hostid));
	strcpy(data->subsysnqn, T_NQN);
	strcpy(data->hostnqn, h->nqn);
	t_rdma_command(h, &sqe, NVMF_OPCODE, h->data, sizeof(*data));
	con->fctype = nvme_fabrics_type_connect;
	con->qid = h->cm.qid;
	con->sqsize = h->cm.hsqsize;
	CU_ASSERT_EQUAL_FATAL(t_rdma_answer(h, &sqe), 0);
	return (uint16_t)le32toh(h->last.result);
}

void t_rdma_enable(struct t_rdma_host *h)
{
	struct nvme_sqe sqe;
	struct nvmf_property_sqe *p = (void *)&sqe;

	t_rdma_command(h, &sqe, NVMF_OPCODE, NULL, 0);
	p->fctype = nvme_fabrics_type_property_set;
	p->offset = htole32(NVME_REG_CC);
	p->value = htole64(0x00460001);
	CU_ASSERT_EQUAL_FATAL(t_rdma_answer(h, &sqe), 0);
}

void t_rdma_host_start(struct t_rdma_host *h, struct t_rdma_server *s, const char *nqn,
		       uint16_t qid, uint16_t *cntlid)
{
	t_rdma_host_init(h, s, qid);
	h->nqn = nqn;
	t_rdma_host_open(h);
	if (qid) {
		t_rdma_connect_queue(h, *cntlid);
		return;
	}
	*cntlid = t_rdma_connect_queue(h, NVMF_CNTLID_DYNAMIC);
	t_rdma_enable(h);
}

void t_rdma_assoc_open(struct t_rdma_assoc *a, uint16_t ird)
{
	uint16_t cntlid;

	t_rdma_server_start(&a->s);
	t_rdma_host_start(&a->admin, &a->s, T_HOST, 0, &cntlid);
	t_rdma_host_init(&a->io, &a->s, 1);
	a->io.ird = ird;
	t_rdma_host_open(&a->io);
	t_rdma_connect_queue(&a->io, cntlid);
}

void t_rdma_assoc_close(struct t_rdma_assoc *a)
{
	t_rdma_host_close(&a->io);
	t_rdma_host_close(&a->admin);
	t_rdma_server_stop(&a->s);
}
