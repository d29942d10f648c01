/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport with real reactor threads and sockets, and a host made of the fabric seam. */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/sockaddr.h"
#include "fabric/fabric.h"
#include "fabric/iwarp/testing.h"
#include "target/transport/rdma/rdma.h"
#include "target/reactor/lifecycle.h"
#include "t_target.h"

#define DEPTH    64u
#define PATIENCE (10 * RD_NSEC_PER_SEC)
#define CAPSULE  (NVME_SQE_SIZE + T_INCAPSULE)

struct server {
	struct rd_loop *loop;
	struct rdt_config cfg;
	struct rdt_listener_config listener;
	struct rdt_subsys_config subsys;
	struct rdt_ns_config ns[2]; /* the second one delays writes for an hour */
	struct rdt_layer_config layer;
	struct rdt_target *t;
	struct rd_fab *fab;        /* the host's */
	struct rd_loop *host_loop; /* its loop, if it is not `loop` */
	bool drained;
};

/* The reactors' clock: the real one plus the time that a test skips. */
static _Atomic uint64_t skipped_ns;

static uint64_t skipping_now(void *arg)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RD_NSEC_PER_SEC + (uint64_t)ts.tv_nsec + skipped_ns;
}

static const struct rd_clock skipping_clock = {skipping_now, NULL};
static const struct rdt_env skipping_env = {.clock = &skipping_clock};

struct host {
	struct server *srv;
	struct rd_fab_conn *conn;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr; /* of mem */
	uint8_t *mem;         /* DEPTH answers, two capsules, then data */
	uint8_t *capsule;     /* the capsule for the next command */
	uint8_t *data;
	size_t len;
	struct nvmf_rdma_cm_req cm;
	size_t cm_len;
	const char *nqn;
	uint16_t ird;
	int event; /* the last one's type; -1: none yet */
	uint8_t priv[64];
	size_t priv_len;
	unsigned int answers;
	struct nvme_cqe last;
	unsigned int ok; /* of the answers */
};

static void rdma_on_drained(struct rdt_target *t)
{
	rd_loop_stop(t->loop);
}

static void namespaces(struct server *s)
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
			.layers = &s->layer,
			.layers_count = i,
		};
}

/* @recvs: maximum of RECVs that the I/O queues of a reactor share; 0: the minimum */
static void server_start_with(struct server *s, uint32_t reactors, uint32_t recvs)
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
		.capsule_bytes = (uint64_t)recvs * CAPSULE,
		.buffer_bytes = 4 * T_MDTS,
		.limits = RDT_LIMITS_DEFAULT,
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
	CU_ASSERT_EQUAL_FATAL(rdt_target_start(s->t), 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_open(s->loop, NULL, &s->fab), 0);
}

static void server_start(struct server *s)
{
	server_start_with(s, 2, 0);
}

static void server_stop(struct server *s)
{
	rdt_target_drain(s->t, rdma_on_drained);
	CU_ASSERT_EQUAL(rd_loop_run(s->loop), 0);
	rdt_target_destroy(&s->t);
	rd_fab_close(&s->fab);
	rd_loop_destroy(&s->loop);
}

static void turn(struct server *s)
{
	if (s->host_loop)
		rd_loop_turn(s->host_loop, RD_NSEC_PER_MSEC);
	rd_loop_turn(s->loop, s->host_loop ? 0 : 10 * RD_NSEC_PER_MSEC);
}

/* Turn the loop until @cond, or until the timeout. */
#define wait_for(s, cond)                                              \
	do {                                                           \
		uint64_t end_ = rd_loop_now_raw((s)->loop) + PATIENCE; \
		while (!(cond) && rd_loop_now_raw((s)->loop) < end_)   \
			turn(s);                                       \
		CU_ASSERT_TRUE(cond);                                  \
	} while (0)

static void post_answer_recv(struct host *h, unsigned int i)
{
	struct ibv_sge sge = {(uintptr_t)h->mem + i * NVME_CQE_SIZE, NVME_CQE_SIZE, h->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	CU_ASSERT_EQUAL(rd_fab_post_recv(h->conn, &wr, &bad), 0);
}

static void poll_answers(struct host *h)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = rd_fab_cq_poll(h->cq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >= DEPTH || wc[i].status != IBV_WC_SUCCESS)
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
	struct host *h = arg;
	struct rd_fab_conn_param param = {&h->cm, h->cm_len, h->ird, 0};
	struct rd_fab_qp_attr attr = {
		.max_send_wr = DEPTH,
		.max_recv_wr = DEPTH,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};

	if (ev->type == RD_FAB_EV_RESOLVED) {
		CU_ASSERT_EQUAL_FATAL(rd_fab_cq_create(conn->dev, 4 * DEPTH, on_cq, h, &h->cq), 0);
		CU_ASSERT_EQUAL_FATAL(rd_fab_reg_mr(conn->dev, h->mem, h->len,
						    IBV_ACCESS_LOCAL_WRITE |
							    IBV_ACCESS_REMOTE_READ |
							    IBV_ACCESS_REMOTE_WRITE,
						    &h->mr),
				      0);
		attr.send_cq = attr.recv_cq = h->cq;
		CU_ASSERT_EQUAL_FATAL(rd_fab_qp_create(conn, &attr), 0);
		for (unsigned int i = 0; i < DEPTH; i++)
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

static void host_init(struct host *h, struct server *s, uint16_t qid)
{
	memset(h, 0, sizeof(*h));
	h->srv = s;
	h->event = -1;
	h->nqn = T_HOST;
	h->ird = 16;
	h->cm.qid = htole16(qid);
	h->cm.hrqsize = htole16(DEPTH);
	h->cm.hsqsize = htole16(DEPTH - 1);
	h->cm_len = sizeof(h->cm);
	h->len = DEPTH * NVME_CQE_SIZE + 2 * CAPSULE + 16 * T_MDTS;
	h->mem = calloc(1, h->len);
	CU_ASSERT_FATAL(h->mem != NULL);
	h->capsule = h->mem + DEPTH * NVME_CQE_SIZE;
	h->data = h->capsule + 2 * CAPSULE;
}

static void host_reach(struct host *h)
{
	struct rd_fab_resolve_attr attr = {
		.dst = (struct sockaddr *)&TAILQ_FIRST(&h->srv->t->listeners)->addr,
		.on_event = rdma_on_event,
		.arg = h,
	};

	CU_ASSERT_EQUAL_FATAL(rd_fab_resolve(h->srv->fab, &attr, &h->conn), 0);
}

static void host_open(struct host *h)
{
	host_reach(h);
	wait_for(h->srv, h->event >= 0);
}

static void host_close(struct host *h)
{
	rd_fab_conn_destroy(&h->conn);
	rd_fab_dereg_mr(&h->mr);
	rd_fab_cq_destroy(&h->cq);
	free(h->mem);
}

static void host_send(struct host *h, const struct nvme_sqe *sqe, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)h->capsule, len, h->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = DEPTH,
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

static void command(struct host *h, struct nvme_sqe *sqe, uint8_t opcode, uint8_t *data,
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

static uint16_t answer(struct host *h, const struct nvme_sqe *sqe)
{
	unsigned int before = h->answers;

	host_send(h, sqe, NVME_SQE_SIZE);
	wait_for(h->srv, h->answers > before);
	CU_ASSERT_EQUAL_FATAL(h->last.cid, sqe->cid);
	return nvme_status_from_wire(h->last.status).v & 0x7ff;
}

static uint16_t connect_queue(struct host *h, uint16_t cntlid)
{
	struct nvmf_connect_data *data = (void *)h->data;
	struct nvme_sqe sqe;
	struct nvmf_connect_sqe *con = (void *)&sqe;

	memset(data, 0, sizeof(*data));
	data->cntlid = htole16(cntlid);
	strcpy(data->subsysnqn, T_NQN);
	strcpy(data->hostnqn, h->nqn);
	command(h, &sqe, NVMF_OPCODE, h->data, sizeof(*data));
	con->fctype = nvme_fabrics_type_connect;
	con->qid = h->cm.qid;
	con->sqsize = h->cm.hsqsize;
	CU_ASSERT_EQUAL_FATAL(answer(h, &sqe), 0);
	return (uint16_t)le32toh(h->last.result);
}

static void enable(struct host *h)
{
	struct nvme_sqe sqe;
	struct nvmf_property_sqe *p = (void *)&sqe;

	command(h, &sqe, NVMF_OPCODE, NULL, 0);
	p->fctype = nvme_fabrics_type_property_set;
	p->offset = htole32(NVME_REG_CC);
	p->value = htole64(0x00460001);
	CU_ASSERT_EQUAL_FATAL(answer(h, &sqe), 0);
}

static void rejects(void)
{
	static const struct {
		uint16_t len;
		uint16_t recfmt;
		uint16_t qid;
		uint16_t hrqsize;
		uint16_t hsqsize;
		uint16_t ird;
		uint16_t sts;
	} cases[] = {
		{31, 0, 0, 32, 31, 16, NVMF_RDMA_CM_INVALID_LEN},
		{0, 0, 0, 32, 31, 16, NVMF_RDMA_CM_INVALID_LEN},
		{32, 1, 0, 32, 31, 16, NVMF_RDMA_CM_INVALID_RECFMT},
		{32, 0, 5, 32, 31, 16, NVMF_RDMA_CM_INVALID_QID},
		{32, 0, 0, 32, 0, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 0, 256, 128, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 1, 256, 64, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 1, 65535, 65535, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 0, 30, 31, 16, NVMF_RDMA_CM_INVALID_HRQSIZE},
		{32, 0, 0, 32, 31, 0, NVMF_RDMA_CM_INVALID_IRD},
	};
	struct server s;

	server_start(&s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvmf_rdma_cm_rej rej = {0};
		struct host h;

		host_init(&h, &s, cases[i].qid);
		h.cm_len = cases[i].len;
		h.cm.recfmt = htole16(cases[i].recfmt);
		h.cm.hrqsize = htole16(cases[i].hrqsize);
		h.cm.hsqsize = htole16(cases[i].hsqsize);
		h.ird = cases[i].ird;
		host_open(&h);
		CU_ASSERT_EQUAL(h.event, RD_FAB_EV_REJECTED);
		CU_ASSERT_TRUE(h.priv_len >= sizeof(rej));
		memcpy(&rej, h.priv, sizeof(rej));
		CU_ASSERT_EQUAL(le16toh(rej.recfmt), 0);
		CU_ASSERT_EQUAL(le16toh(rej.sts), cases[i].sts);
		host_close(&h);
	}
	server_stop(&s);
}

static void accepts(void)
{
	struct nvmf_rdma_cm_rep rep;
	struct server s;
	struct host h;

	server_start(&s);
	host_init(&h, &s, 1);
	h.cm.hsqsize = htole16(17);
	host_open(&h);
	CU_ASSERT_EQUAL(h.event, RD_FAB_EV_ESTABLISHED);
	CU_ASSERT_TRUE_FATAL(h.priv_len >= sizeof(rep));
	memcpy(&rep, h.priv, sizeof(rep));
	CU_ASSERT_EQUAL(le16toh(rep.recfmt), 0);
	CU_ASSERT_EQUAL(le16toh(rep.crqsize), 18);
	host_close(&h);
	server_stop(&s);
}

/* The target's device sends inline, but not a SEND with Invalidate: an iWARP device. */
static void like_iwarp_device(struct server *s)
{
	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		struct rd_fab *fab = s->t->reactors[i].rdma->fabs[RDT_FAB_IWARP];
		struct rd_fab_caps *caps = &rd_iw_test_dev(fab)->caps;

		CU_ASSERT_FATAL(caps->max_inline >= NVME_CQE_SIZE && caps->send_with_inv);
		caps->cheap_mr = false;
		caps->inline_with_inv = false;
	}
}

static void answers_with_inv(void)
{
	struct nvme_sqe sqe;
	struct server s;
	struct host h;

	server_start(&s);
	like_iwarp_device(&s);
	host_init(&h, &s, 0);
	host_open(&h);
	connect_queue(&h, NVMF_CNTLID_DYNAMIC);
	enable(&h);
	for (int i = 0; i < 2; i++) { /* by a SEND, then by one that invalidates the key */
		memset(h.data, 0, sizeof(struct nvme_id_ctrl));
		command(&h, &sqe, nvme_admin_identify, h.data, sizeof(struct nvme_id_ctrl));
		if (i)
			sqe.sgl.keyed.type = NVME_SGL_KEYED_INVALIDATE;
		sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL);
		CU_ASSERT_EQUAL_FATAL(answer(&h, &sqe), 0);
		CU_ASSERT_EQUAL(h.data[24], 'M'); /* the model */
	}
	host_close(&h);
	server_stop(&s);
}

/* A violation of the transport's rules ends the connection; others do not notice. */
static void bad_capsules(void)
{
	static const uint32_t lens[] = {1, 63, CAPSULE + 1};
	struct server s;
	struct host good;
	struct nvme_sqe sqe;

	server_start(&s);
	host_init(&good, &s, 0);
	host_open(&good);
	connect_queue(&good, NVMF_CNTLID_DYNAMIC);
	enable(&good);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct host h;

		host_init(&h, &s, 0);
		host_open(&h);
		CU_ASSERT_EQUAL(h.event, RD_FAB_EV_ESTABLISHED);
		command(&h, &sqe, nvme_admin_keep_alive, NULL, 0);
		host_send(&h, &sqe, lens[i]);
		wait_for(&s, h.event == RD_FAB_EV_DISCONNECTED);
		CU_ASSERT_EQUAL(h.answers, 0);
		host_close(&h);
		command(&good, &sqe, nvme_admin_keep_alive, NULL, 0);
		CU_ASSERT_EQUAL(answer(&good, &sqe), 0);
	}
	host_close(&good);
	server_stop(&s);
}

struct assoc {
	struct server s;
	struct host admin;
	struct host io;
};

static void assoc_open(struct assoc *a, uint16_t ird)
{
	uint16_t cntlid;

	server_start(&a->s);
	host_init(&a->admin, &a->s, 0);
	host_open(&a->admin);
	cntlid = connect_queue(&a->admin, NVMF_CNTLID_DYNAMIC);
	enable(&a->admin);
	host_init(&a->io, &a->s, 1);
	a->io.ird = ird;
	host_open(&a->io);
	connect_queue(&a->io, cntlid);
}

static void assoc_close(struct assoc *a)
{
	host_close(&a->io);
	host_close(&a->admin);
	server_stop(&a->s);
}

/* Sixteen writes of MDTS at once: more than the slab, and more than the host's READ depth. */
static void read_depth(void)
{
	static const uint16_t irds[] = {1, 2, 16};

	for (size_t k = 0; k < sizeof(irds) / sizeof(irds[0]); k++) {
		struct assoc a;
		struct nvme_sqe sqe;
		unsigned int before;

		assoc_open(&a, irds[k]);
		before = a.io.answers;
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			a.io.data[i] = (uint8_t)(i * 31 + (i >> 9) + k);
		for (unsigned int i = 0; i < 16; i++) {
			command(&a.io, &sqe, nvme_cmd_write, a.io.data + i * T_MDTS, T_MDTS);
			sqe.nsid = htole32(1);
			sqe.cdw10 = htole32(i * (T_MDTS / 512));
			sqe.cdw12 = htole32(T_MDTS / 512 - 1);
			host_send(&a.io, &sqe, NVME_SQE_SIZE);
		}
		wait_for(&a.s, a.io.answers == before + 16);
		CU_ASSERT_EQUAL(a.io.ok, a.io.answers);
		memset(a.io.data, 0, 16 * T_MDTS);
		for (unsigned int i = 0; i < 16; i++) {
			command(&a.io, &sqe, nvme_cmd_read, a.io.data + i * T_MDTS, T_MDTS);
			sqe.nsid = htole32(1);
			sqe.cdw10 = htole32(i * (T_MDTS / 512));
			sqe.cdw12 = htole32(T_MDTS / 512 - 1);
			host_send(&a.io, &sqe, NVME_SQE_SIZE);
		}
		wait_for(&a.s, a.io.answers == before + 32);
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			if (a.io.data[i] != (uint8_t)(i * 31 + (i >> 9) + k))
				CU_FAIL_FATAL("the data differs");
		assoc_close(&a);
	}
}

/* A command of MDTS with sixteen descriptors, in reverse order of the host's memory. */
static void send_list(struct host *h, uint8_t opcode, unsigned int i, bool good)
{
	uint8_t *list = h->capsule + NVME_SQE_SIZE;
	uint32_t part = T_MDTS / 16;
	struct nvme_sqe sqe;

	command(h, &sqe, opcode, NULL, 0);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(i * (T_MDTS / 512));
	sqe.cdw12 = htole32(T_MDTS / 512 - 1);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.length = htole32(16 * 16);
	sqe.sgl.data.type = NVME_SGL_LAST_IN_CAPSULE;
	for (unsigned int k = 0; k < 16; k++) {
		union nvme_sgl d;

		nvme_sgl_set_keyed(
			&d, rd_fab_remote_addr(h->mr, h->data) + i * T_MDTS + (15 - k) * part, part,
			good || k < 9 ? h->mr->rkey : h->mr->rkey ^ 0x5a00, NVME_SGL_KEYED_ADDRESS);
		memcpy(list + k * sizeof(d), &d, sizeof(d));
	}
	host_send(h, &sqe, NVME_SQE_SIZE + 16 * 16);
}

/* More descriptors than the READ depth, several such commands at once, and plain ones between. */
static void lists(void)
{
	static const uint16_t irds[] = {1, 3, 32};

	for (size_t k = 0; k < sizeof(irds) / sizeof(irds[0]); k++) {
		struct nvme_sqe sqe;
		struct assoc a;
		unsigned int before;

		assoc_open(&a, irds[k]);
		before = a.io.answers;
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			a.io.data[i] = (uint8_t)(i * 29 + (i >> 11) + k);
		for (unsigned int pass = 0; pass < 2; pass++) {
			for (unsigned int i = 0; i < 16; i++)
				send_list(&a.io, pass ? nvme_cmd_read : nvme_cmd_write, i, true);
			command(&a.io, &sqe, nvme_cmd_flush, NULL, 0);
			sqe.nsid = htole32(1);
			host_send(&a.io, &sqe, NVME_SQE_SIZE);
			wait_for(&a.s, a.io.answers == before + (pass + 1) * 17);
			CU_ASSERT_EQUAL(a.io.ok, a.io.answers);
			if (!pass)
				memset(a.io.data, 0, 16 * T_MDTS);
		}
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			if (a.io.data[i] != (uint8_t)(i * 29 + (i >> 11) + k))
				CU_FAIL_FATAL("the data differs");
		/* The parts are in their places on the disk; reading them back alone would not show
		 * that. */
		command(&a.io, &sqe, nvme_cmd_read, a.io.data + 16, 512);
		sqe.nsid = htole32(1);
		CU_ASSERT_EQUAL(answer(&a.io, &sqe), 0);
		CU_ASSERT_EQUAL(memcmp(a.io.data + 16, a.io.data + 15 * (T_MDTS / 16), 512), 0);
		assoc_close(&a);
	}
}

/* The tenth key of sixteen is wrong: the connection ends, and all resources are freed. */
static void list_wrong_key(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_read};
	static const uint16_t irds[] = {1, 4, 32};

	for (size_t i = 0; i < 6; i++) {
		struct nvme_sqe sqe;
		struct assoc a;

		assoc_open(&a, irds[i / 2]);
		send_list(&a.io, ops[i % 2], 0, true);
		send_list(&a.io, ops[i % 2], 1, false);
		send_list(&a.io, ops[i % 2], 2, true);
		wait_for(&a.s, a.io.event == RD_FAB_EV_DISCONNECTED);
		command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		CU_ASSERT_EQUAL(answer(&a.admin, &sqe), 0);
		assoc_close(&a);
	}
}

/* ---- capsules that wait ---- */

#define POOL 16u /* RECVs of I/O queues: the minimum */

static void host_start(struct host *h, struct server *s, const char *nqn, uint16_t qid,
		       uint16_t *cntlid)
{
	host_init(h, s, qid);
	h->nqn = nqn;
	host_open(h);
	if (qid) {
		connect_queue(h, *cntlid);
		return;
	}
	*cntlid = connect_queue(h, NVMF_CNTLID_DYNAMIC);
	enable(h);
}

/* A write with its data, which will wait. */
static void send_slow_write(struct host *h)
{
	struct nvme_sqe sqe;

	command(h, &sqe, nvme_cmd_write, NULL, 0);
	sqe.nsid = htole32(2);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.length = htole32(512);
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	host_send(h, &sqe, NVME_SQE_SIZE + 512);
}

struct in_use {
	unsigned int io_qpairs;
	unsigned int capsules;
	uint64_t slab_used;
};

/* Ask the reactors; the host's loop does not turn meanwhile. */
static struct in_use look(struct server *s)
{
	struct in_use sum = {0};

	rdt_target_status(s->t);
	while (s->t->status_left)
		rd_loop_turn(s->loop, RD_NSEC_PER_MSEC);
	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		sum.io_qpairs += s->t->reactors[i].status.io_qpairs;
		sum.capsules += s->t->reactors[i].status.capsules;
		sum.slab_used += s->t->reactors[i].status.slab_used;
	}
	return sum;
}

#define look_until(s, cond)                                                         \
	do {                                                                        \
		uint64_t end_ = rd_loop_now_raw((s)->loop) + PATIENCE;              \
		struct in_use now;                                                  \
		while (now = look(s), !(cond) && rd_loop_now_raw((s)->loop) < end_) \
			;                                                           \
		CU_ASSERT_TRUE(cond);                                               \
	} while (0)

/* As assoc_open(), but the host's loop turns only when the test turns it. */
static void assoc_open_apart(struct assoc *a, uint32_t recvs)
{
	struct rd_loop_opts opts = {.seed = 2};
	struct server *s = &a->s;
	uint16_t cntlid;

	server_start_with(s, 2, recvs);
	rd_fab_close(&s->fab);
	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&opts, &s->host_loop), 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_open(s->host_loop, NULL, &s->fab), 0);
	host_start(&a->admin, s, T_HOST, 0, &cntlid);
	host_start(&a->io, s, T_HOST, 1, &cntlid);
}

static void assoc_close_apart(struct assoc *a)
{
	struct server *s = &a->s;

	host_close(&a->io);
	host_close(&a->admin);
	look_until(s, now.io_qpairs == 0); /* otherwise a drain would wait for its slow writes */
	rd_fab_close(&s->fab);
	rd_loop_destroy(&s->host_loop);
	server_stop(s);
}

/* A write of MDTS to namespace 1; its capsule leaves with the next turn of the host's loop. */
static void send_write(struct host *h)
{
	struct nvme_sqe sqe;

	command(h, &sqe, nvme_cmd_write, h->data, T_MDTS);
	sqe.nsid = htole32(1);
	sqe.cdw12 = htole32(T_MDTS / 512 - 1);
	host_send(h, &sqe, NVME_SQE_SIZE);
}

/* One check by the stall watchdog. */
static void later(struct server *s)
{
	skipped_ns += 2 * RD_NSEC_PER_SEC;
	/* A reactor answers before it runs its timers: when it answers again, it has run them. */
	look(s);
	look(s);
}

/* So long that a host that moves no data loses its connection. */
static void stall(struct server *s)
{
	for (int i = 0; i < 13; i++)
		later(s);
}

/* A host that answers no READ holds buffers that others need, but not without limit. */
static void stalled_host(void)
{
	struct nvme_sqe sqe;
	struct assoc a;
	struct server *s = &a.s;
	unsigned int before;

	assoc_open_apart(&a, 0);
	send_write(&a.io);
	rd_loop_turn(s->host_loop, 0); /* the answers are not processed */
	look_until(s, now.slab_used == T_MDTS);
	/* The watchdog counts checks, not time; and no other host waits here. */
	skipped_ns += 60 * RD_NSEC_PER_SEC;
	for (int i = 0; i < 5; i++)
		later(s);
	look_until(s, now.slab_used == T_MDTS && now.io_qpairs == 1);
	stall(s);
	look_until(s, now.slab_used == 0 && now.io_qpairs == 0);
	/* The admin queue has nothing outstanding: it stays. */
	command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	before = a.admin.answers;
	host_send(&a.admin, &sqe, NVME_SQE_SIZE);
	wait_for(s, a.admin.answers == before + 1);
	assoc_close_apart(&a);
}

/* The number of reactors whose watchdog runs. */
static unsigned int watching(const struct server *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		const struct rdt_rdma *rdma = s->t->reactors[i].rdma;

		CU_ASSERT(!rdma->out || rd_timer_armed(&rdma->stall));
		n += rd_timer_armed(&rdma->stall);
	}
	return n;
}

/* Without transfers in flight the watchdog does not run: an idle reactor is not woken for it. */
static void idle_is_not_watched(void)
{
	struct assoc a;
	struct server *s = &a.s;
	unsigned int before;

	assoc_open_apart(&a, 0);
	later(s);
	before = a.io.answers;
	send_write(&a.io);
	rd_loop_turn(s->host_loop, 0);
	look_until(s, now.slab_used == T_MDTS);
	CU_ASSERT_EQUAL(watching(s), 1);
	wait_for(s, a.io.answers == before + 1);
	look_until(s, now.slab_used == 0);
	later(s);
	CU_ASSERT_EQUAL(watching(s), 0);
	assoc_close_apart(&a);
}

/* The host has answered, but behind commands that the target does not take yet. */
static void held_back_host(void)
{
	struct assoc a;
	struct server *s = &a.s;

	assoc_open_apart(&a, 0);
	send_write(&a.io);
	a.io.capsule += CAPSULE;
	for (unsigned int i = 0; i <= POOL; i++)
		send_slow_write(&a.io); /* all alike */
	rd_loop_turn(s->host_loop, 0);
	look_until(s, now.capsules == POOL * 3 / 4 && now.slab_used == T_MDTS);
	for (unsigned int i = 0; i < 10; i++)
		rd_loop_turn(s->host_loop, RD_NSEC_PER_MSEC);
	stall(s);
	CU_ASSERT_EQUAL(look(s).io_qpairs, 1);
	CU_ASSERT_EQUAL(look(s).slab_used, T_MDTS);
	assoc_close_apart(&a);
}

static uint16_t read_block(struct host *h)
{
	struct nvme_sqe sqe;

	command(h, &sqe, nvme_cmd_read, h->data, 512);
	sqe.nsid = htole32(1);
	return answer(h, &sqe);
}

/* The commands of one host wait with their data, on two queues, and are more than there are RECVs:
 * other hosts make progress. Twice, since nothing may be left counted of a host that
 * disconnected. */
static void capsules_are_shared(void)
{
	struct host slow[3], other[2];
	struct server s;
	uint16_t cntlid;

	server_start_with(&s, 1, 0);
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (uint16_t i = 0; i < 3; i++)
			host_start(&slow[i], &s, T_HOST, i, &cntlid);
		for (unsigned int i = 0; i < POOL; i++) {
			send_slow_write(&slow[1]);
			send_slow_write(&slow[2]);
		}
		look_until(&s, now.capsules >= POOL * 3 / 4);
		for (uint16_t i = 0; i < 2; i++)
			host_start(&other[i], &s, T_HOST2, i, &cntlid);
		for (unsigned int i = 0; i < 2 * POOL; i++)
			CU_ASSERT_EQUAL_FATAL(read_block(&other[1]), 0);
		CU_ASSERT_EQUAL(look(&s).capsules, POOL * 3 / 4);
		for (unsigned int i = 0; i < 2; i++)
			host_close(&other[i]);
		for (unsigned int i = 0; i < 3; i++)
			host_close(&slow[i]);
		look_until(&s, now.io_qpairs == 0 && now.capsules == 0);
	}
	server_stop(&s);
}

/* The RECVs that I/O queues share: on the reactor that has the one I/O queue. */
static uint32_t io_recvs(const struct server *s)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		const struct rdt_rdma_dev *rdev = SLIST_FIRST(&s->t->reactors[i].rdma->devs);

		if (rdev && rdev->pools[0]->total > n)
			n = rdev->pools[0]->total;
	}
	return n;
}

/* As many commands at once as the queue has entries, each of which completes soon: there are enough
 * RECVs for all of them from the next time on. */
static void capsules_of_a_burst(void)
{
	struct nvme_sqe sqe;
	struct assoc a;
	struct server *s = &a.s;
	unsigned int before;

	assoc_open_apart(&a, 2 * DEPTH);
	CU_ASSERT_EQUAL(io_recvs(s), DEPTH);
	before = a.io.answers;
	command(&a.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(1);
	for (unsigned int i = 0; i < DEPTH - 1; i++)
		host_send(&a.io, &sqe, NVME_SQE_SIZE); /* all alike; they leave together */
	wait_for(s, a.io.answers == before + DEPTH - 1);
	look(s);
	CU_ASSERT_EQUAL(io_recvs(s), 2 * DEPTH);
	assoc_close_apart(&a);
}

/* A key that is not the host's: its device ends the connection; the target frees everything. */
static void wrong_key(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_read};

	for (size_t i = 0; i < sizeof(ops); i++) {
		struct assoc a;
		struct nvme_sqe sqe;

		assoc_open(&a, 16);
		command(&a.io, &sqe, ops[i], a.io.data, 4096);
		nvme_sgl_set_keyed(&sqe.sgl, rd_fab_remote_addr(a.io.mr, a.io.data), 4096,
				   a.io.mr->rkey ^ 0x5a00, NVME_SGL_KEYED_ADDRESS);
		sqe.nsid = htole32(1);
		sqe.cdw12 = htole32(7);
		host_send(&a.io, &sqe, NVME_SQE_SIZE);
		wait_for(&a.s, a.io.event == RD_FAB_EV_DISCONNECTED);
		command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		CU_ASSERT_EQUAL(answer(&a.admin, &sqe), 0);
		assoc_close(&a);
	}
}

/* A reactor stands still while hosts connect. @adopted: by the turn of its loop after that. */
struct still {
	struct rdt_reactor *r;
	struct rd_msg stop, probe;
	sem_t go;
	unsigned int turns, adopted; /* the reactor's until it has been stopped */
};

static void stand_still(struct rd_msg *msg)
{
	sem_wait(&rd_container_of(msg, struct still, stop)->go);
}

static void count_adopted(struct rd_msg *msg)
{
	struct still *still = rd_container_of(msg, struct still, probe);

	if (still->turns++ == 0)
		rd_loop_post(still->r->loop, msg); /* again in the next turn */
	else
		still->adopted = still->r->qpairs_count;
}

/* When the listener goes, connections that wait for their turn end as well. */
static void adopted_in_turns(bool leave)
{
	enum { HOSTS = 60 };
	struct host h[HOSTS];
	struct still still = {.stop.fn = stand_still, .probe.fn = count_adopted};
	struct server s;

	server_start_with(&s, 1, 0);
	still.r = s.t->reactors;
	sem_init(&still.go, 0, 0);
	rd_loop_post(still.r->loop, &still.stop);
	for (unsigned int i = 0; i < HOSTS; host_reach(&h[i++]))
		host_init(&h[i], &s, 1);
	wait_for(&s, atomic_load(&still.r->load) == HOSTS);
	rd_loop_post(still.r->loop, &still.probe);
	if (leave && !rdt_listener_prepare_leave(TAILQ_FIRST(&s.t->listeners)))
		rdt_listener_leave(TAILQ_FIRST(&s.t->listeners));
	sem_post(&still.go);
	for (unsigned int i = 0; i < HOSTS; i++)
		wait_for(&s,
			 h[i].event == (leave ? RD_FAB_EV_DISCONNECTED : RD_FAB_EV_ESTABLISHED));
	for (unsigned int i = 0; i < HOSTS; i++)
		host_close(&h[i]);
	server_stop(&s);
	CU_ASSERT_EQUAL(still.adopted > 0 && still.adopted <= 16, !leave);
	sem_destroy(&still.go);
}

static void adopts_in_turns(void)
{
	adopted_in_turns(false);
	adopted_in_turns(true);
}

const struct t_case t_rdma_cases[] = {
	{"bad private data is rejected with its code", rejects},
	{"the accept tells the size of our receive queue", accepts},
	{"answers that may not go inline are registered", answers_with_inv},
	{"capsules of impossible length end the connection", bad_capsules},
	{"READs beyond the host's depth and the slab wait", read_depth},
	{"a host that moves no data loses its connection", stalled_host},
	{"who has nothing outstanding is not watched", idle_is_not_watched},
	{"a host that is held back does not lose its connection", held_back_host},
	{"lists of descriptors beyond the READ depth", lists},
	{"a wrong key in a list", list_wrong_key},
	{"a wrong key costs the host its connection only", wrong_key},
	{"commands that wait leave capsules for other hosts", capsules_are_shared},
	{"a queue full of commands at once gets RECVs for all", capsules_of_a_burst},
	{"many connections at once are adopted over many turns", adopts_in_turns},
	{NULL, NULL},
};
