/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport seam, with a transport that is not like RDMA: whole controllers over it. */
#include <string.h>

#include "t_stream.h"
#include "target/reactor/lifecycle.h"

#define CUTS          6u /* ways in which the streams are cut */
#define INVALID_PARAM (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM)

/* A target with a listener of each transport, and a host with an admin queue and an I/O queue. */
struct world {
	struct t_env *env;
	struct rdt_listener *rdma, *stream;
	struct t_stream_host *admin, *io;
	uint16_t cntlid;
};

static struct t_stream_host *connect_to(struct t_env *env, struct rdt_listener *l)
{
	struct t_stream_host *h = t_stream_connect(env, l);

	t_stream_turn(env);
	return h;
}

static uint16_t connect_queue(struct t_stream_host *h, const char *subnqn, uint16_t qid,
			      uint16_t cntlid, uint32_t *result)
{
	struct nvmf_connect_data data = {.cntlid = htole16(cntlid)};
	struct nvme_sqe sqe;
	struct nvmf_connect_sqe *con = (void *)&sqe;

	memset(data.hostid, 0x11, sizeof(data.hostid));
	strcpy(data.subsysnqn, subnqn);
	strcpy(data.hostnqn, T_HOST);
	t_stream_sqe(&sqe, NVMF_OPCODE, sizeof(data), true);
	con->fctype = nvme_fabrics_type_connect;
	con->qid = htole16(qid);
	con->sqsize = htole16(31);
	return t_stream_exec(h, &sqe, &data, sizeof(data), result);
}

static void property_sqe(struct nvme_sqe *sqe, bool set, uint32_t offset, uint64_t value)
{
	struct nvmf_property_sqe *p = (void *)sqe;

	t_stream_sqe(sqe, NVMF_OPCODE, 0, false);
	p->fctype = set ? nvme_fabrics_type_property_set : nvme_fabrics_type_property_get;
	p->offset = htole32(offset);
	p->value = htole64(value);
}

static struct t_stream_host *admin_queue(struct t_env *env, struct rdt_listener *l,
					 const char *subnqn, uint16_t *cntlid)
{
	struct t_stream_host *h = connect_to(env, l);
	struct nvme_sqe sqe;
	uint32_t result;

	CU_ASSERT_EQUAL_FATAL(connect_queue(h, subnqn, 0, NVMF_CNTLID_DYNAMIC, &result), 0);
	*cntlid = (uint16_t)result;
	property_sqe(&sqe, true, NVME_REG_CC, 0x00460001);
	CU_ASSERT_EQUAL_FATAL(t_stream_exec(h, &sqe, NULL, 0, NULL), 0);
	property_sqe(&sqe, false, NVME_REG_CSTS, 0);
	CU_ASSERT_EQUAL_FATAL(t_stream_exec(h, &sqe, NULL, 0, &result), 0);
	CU_ASSERT_EQUAL(result, 1);
	return h;
}

static struct world world_new(void)
{
	struct world w = {0};

	t_transports = t_stream_transports;
	w.env = t_env_new();
	t_transports = NULL;
	w.env->listeners[0] = (struct rdt_listener_config){.address = "127.0.0.1",
							   .provider = RDT_PROVIDER_IWARP};
	w.env->listeners[1] =
		(struct rdt_listener_config){.transport = (enum rdt_transport_kind)T_STREAM,
					     .address = "192.0.2.1",
					     .port = 4420};
	w.env->cfg.listeners_count = 2;
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_start(w.env->t), 0);
	CU_ASSERT_EQUAL_FATAL(rdt_listeners_open(w.env->t), 0);
	w.rdma = TAILQ_FIRST(&w.env->t->listeners);
	w.stream = TAILQ_NEXT(w.rdma, link);
	w.admin = admin_queue(w.env, w.stream, T_NQN, &w.cntlid);
	w.io = connect_to(w.env, w.stream);
	CU_ASSERT_EQUAL_FATAL(connect_queue(w.io, T_NQN, 1, w.cntlid, NULL), 0);
	return w;
}

static void world_free(struct world *w)
{
	if (w->admin->conn)
		t_stream_cut(w->admin);
	t_stream_turn(w->env);
	CU_ASSERT_PTR_NULL(w->io->conn); /* its controller has ended */
	t_stream_host_free(w->admin);
	t_stream_host_free(w->io);
	t_env_free(w->env);
}

#define WORLD(w) struct world w __attribute__((cleanup(world_free))) = world_new()

static void rw_sqe(struct nvme_sqe *sqe, bool write, uint64_t lba, uint32_t len, bool in_capsule)
{
	t_stream_sqe(sqe, write ? nvme_cmd_write : nvme_cmd_read, len, in_capsule);
	sqe->nsid = htole32(1);
	sqe->cdw10 = htole32((uint32_t)lba);
	sqe->cdw12 = htole32(len / 512 - 1);
}

static void fill(uint8_t *data, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
}

/* What Identify says of the transport. */
static void check_identify(struct world *w)
{
	struct nvme_id_ctrl id;
	struct nvme_sqe sqe;

	t_stream_sqe(&sqe, nvme_admin_identify, sizeof(id), false);
	sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL);
	CU_ASSERT_EQUAL(t_stream_exec(w->admin, &sqe, &id, sizeof(id), NULL), 0);
	CU_ASSERT_STRING_EQUAL(id.subnqn, T_NQN);
	CU_ASSERT_EQUAL(le32toh(id.sgls) & NVME_CTRL_SGLS_KEYED, 0);
	CU_ASSERT_EQUAL(le32toh(id.ioccsz), (NVME_SQE_SIZE + T_INCAPSULE) / 16);
	CU_ASSERT_EQUAL(id.msdbd, 0);
}

static void check_io(struct world *w, unsigned int seed)
{
	static const uint32_t lens[] = {512, 4096, T_INCAPSULE, T_MDTS};
	static uint8_t out[T_MDTS], in[T_MDTS];
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
		uint32_t len = lens[i / 2];
		bool in_capsule = i % 2 && len <= T_INCAPSULE;

		fill(out, len, seed + i);
		rw_sqe(&sqe, true, 100 + i, len, in_capsule);
		CU_ASSERT_EQUAL(t_stream_exec(w->io, &sqe, out, len, NULL), 0);
		memset(in, 0, len);
		rw_sqe(&sqe, false, 100 + i, len, false);
		CU_ASSERT_EQUAL(t_stream_exec(w->io, &sqe, in, len, NULL), 0);
		CU_ASSERT_EQUAL(memcmp(in, out, len), 0);
	}
}

/* Connect, properties, Identify, Read, Write with data in the capsule and not, however the streams
 * are cut; then the host goes away. */
static void serves_a_controller(void)
{
	for (unsigned int i = 0; i < CUTS; i++) {
		t_stream_cuts = i;
		{
			WORLD(w);

			check_identify(&w);
			check_io(&w, i);
			CU_ASSERT_FALSE(t_stream_qpair(w.io)->admin);
			CU_ASSERT_TRUE(t_stream_qpair(w.admin)->admin);
		}
	}
}

/* Of commands whose data is asked for, two at a time: an Abort ends one that waits. */
static void aborts(void)
{
	static uint8_t data[4][4096];
	struct t_stream_cmd *cmd[4];
	struct nvme_sqe sqe;
	uint32_t result;
	WORLD(w);

	w.io->hold = true;
	for (unsigned int i = 0; i < 4; i++) {
		fill(data[i], sizeof(data[i]), i);
		rw_sqe(&sqe, true, 8 * i, sizeof(data[i]), false);
		cmd[i] = t_stream_send(w.io, &sqe, data[i], sizeof(data[i]));
	}
	t_stream_turn(w.env);
	CU_ASSERT_TRUE(cmd[0]->asked && cmd[1]->asked && !cmd[2]->asked);
	for (unsigned int i = 0; i < 3; i += 2) {
		t_stream_sqe(&sqe, nvme_admin_abort_cmd, 0, false);
		sqe.cdw10 = htole32(1 | (uint32_t)(cmd[i] - w.io->cmds) << 16);
		CU_ASSERT_EQUAL(t_stream_exec(w.admin, &sqe, NULL, 0, &result), 0);
		CU_ASSERT_EQUAL(result, i ? 0 : 1); /* the first one is not aborted */
	}
	CU_ASSERT_EQUAL(t_stream_status(cmd[2]), NVME_SC_ABORT_REQ);
	w.io->hold = false;
	for (unsigned int i = 0; i < 2; i++)
		t_stream_put(w.io, T_STREAM_DATA_OUT, (uint16_t)(cmd[i] - w.io->cmds), 0, data[i],
			     sizeof(data[i]));
	t_stream_turn(w.env);
	for (unsigned int i = 0; i < 4; i++) {
		if (i != 2)
			CU_ASSERT_EQUAL(t_stream_status(cmd[i]), 0);
		CU_ASSERT_EQUAL(memcmp(w.env->disk[0].data + i * 4096, data[i], 4096) == 0, i != 2);
	}
}

/* The queue pair ends by itself, and the admin queue goes on. */
static void disconnects(void)
{
	uint8_t block[512];
	struct nvme_sqe sqe;
	WORLD(w);

	t_stream_sqe(&sqe, NVMF_OPCODE, 0, false);
	((struct nvmf_connect_sqe *)&sqe)->fctype = nvme_fabrics_type_disconnect;
	CU_ASSERT_EQUAL(t_stream_exec(w.io, &sqe, NULL, 0, NULL), 0);
	CU_ASSERT_PTR_NULL(w.io->conn);
	t_stream_host_free(w.io);
	w.io = connect_to(w.env, w.stream);
	CU_ASSERT_EQUAL(connect_queue(w.io, T_NQN, 1, w.cntlid, NULL), 0);
	rw_sqe(&sqe, false, 0, 512, false);
	CU_ASSERT_EQUAL(t_stream_exec(w.io, &sqe, block, 512, NULL), 0);
}

/* The host is lost after any number of steps: capsules, data and answers are on their way, commands
 * wait for data or to be asked for it. */
static void lost_in_flight(void)
{
	static uint8_t data[8][4096];
	struct nvme_sqe sqe;
	WORLD(w);

	for (unsigned int steps = 0; steps < 80; steps++) {
		w.io->hold = steps % 2;
		for (unsigned int i = 0; i < 8; i++) {
			rw_sqe(&sqe, i % 2, 8 * i, sizeof(data[i]), i % 4 == 1);
			t_stream_send(w.io, &sqe, data[i], sizeof(data[i]));
		}
		for (unsigned int i = 0; i < steps; i++)
			t_stream_step(w.env);
		t_stream_cut(w.io);
		t_stream_turn(w.env);
		t_stream_host_free(w.io);
		w.io = connect_to(w.env, w.stream);
		CU_ASSERT_EQUAL(connect_queue(w.io, T_NQN, 1, w.cntlid, NULL), 0);
	}
}

static uint16_t write_status(struct world *w, uint8_t sgl_type, uint64_t offset, uint32_t len,
			     uint32_t sent)
{
	static uint8_t data[T_INCAPSULE];
	struct nvme_sqe sqe;
	uint16_t status;

	fill(data, sizeof(data), 1);
	rw_sqe(&sqe, true, 0, 4096, true);
	sqe.sgl.data.length = htole32(len);
	sqe.sgl.data.offset = htole64(offset);
	sqe.sgl.data.type = sgl_type;
	status = t_stream_exec(w->io, &sqe, data, sent, NULL);
	CU_ASSERT_EQUAL(memcmp(w->env->disk[0].data, data + offset % 4096, 4096) == 0, status == 0);
	return status;
}

/* There are no keys and no lists here; the errors are those of any transport. */
static void wrong_data_pointers(void)
{
	WORLD(w);

	CU_ASSERT_EQUAL(write_status(&w, NVME_SGL_KEYED_ADDRESS, 0, 4096, 4096),
			NVME_SC_SGL_INVALID_TYPE);
	CU_ASSERT_EQUAL(write_status(&w, NVME_SGL_LAST_IN_CAPSULE, 0, 32, 32),
			NVME_SC_SGL_INVALID_TYPE);
	CU_ASSERT_EQUAL(write_status(&w, T_STREAM_SGL + 1, 0, 4096, 4096), NVME_SC_INVALID_FIELD);
	CU_ASSERT_EQUAL(write_status(&w, T_STREAM_SGL, 0, 4095, 4095), NVME_SC_SGL_INVALID_DATA);
	CU_ASSERT_EQUAL(write_status(&w, NVME_SGL_IN_CAPSULE, 0, 4096, 4095),
			NVME_SC_SGL_INVALID_DATA);
	CU_ASSERT_EQUAL(write_status(&w, NVME_SGL_IN_CAPSULE, T_INCAPSULE + 1, 4096, 4096),
			NVME_SC_SGL_INVALID_OFFSET);
	CU_ASSERT_EQUAL(write_status(&w, NVME_SGL_IN_CAPSULE, 512, 4096, 4608), 0);
}

/* Data that was not asked for ends the connection, which has a reason. */
static void violations(void)
{
	struct rdt_ctrl *ctrl;
	uint8_t data[512] = {0};
	WORLD(w);

	ctrl = t_stream_qpair(w.io)->ctrl;
	t_stream_put(w.io, T_STREAM_DATA_OUT, 7, 0, data, sizeof(data));
	t_stream_turn(w.env);
	CU_ASSERT_PTR_NULL(w.io->conn);
	CU_ASSERT_EQUAL(ctrl->state, RDT_CTRL_READY);
}

/* What Connect is refused for tells the same as over RDMA. */
static void refusals(void)
{
	struct t_stream_host *h;
	uint32_t result;
	WORLD(w);

	h = connect_to(w.env, w.stream);
	CU_ASSERT_EQUAL(connect_queue(h, T_NQN, 99, w.cntlid, &result), INVALID_PARAM);
	CU_ASSERT_EQUAL(result, offsetof(struct nvmf_connect_sqe, qid));
	CU_ASSERT_EQUAL(connect_queue(h, T_NQN2, 0, NVMF_CNTLID_DYNAMIC, &result), INVALID_PARAM);
	CU_ASSERT_EQUAL(result, 1u << 16 | offsetof(struct nvmf_connect_data, subsysnqn));
	CU_ASSERT_EQUAL(connect_queue(h, T_NQN, 1, w.cntlid, &result), INVALID_PARAM);
	CU_ASSERT_EQUAL(result, offsetof(struct nvmf_connect_sqe, qid)); /* it was queue 0 */
	t_stream_cut(h);
	t_stream_turn(w.env);
	t_stream_host_free(h);
}

/* Each listener describes itself, and each queue pair is served by its own transport. */
static void beside_rdma(void)
{
	static uint8_t page[8 * 1024];
	struct nvmf_discovery_log *log = (void *)page;
	struct t_stream_host *h;
	struct rdt_status_line line;
	struct nvme_sqe sqe;
	struct t_pair p;
	uint8_t block[512], back[512];
	uint16_t cntlid;
	WORLD(w);

	h = admin_queue(w.env, w.stream, NVMF_DISC_NQN, &cntlid);
	t_stream_sqe(&sqe, nvme_admin_get_log_page, sizeof(page), false);
	sqe.cdw10 = htole32(NVME_LOG_LID_DISCOVER | (sizeof(page) / 4 - 1) << 16);
	CU_ASSERT_EQUAL(t_stream_exec(h, &sqe, page, sizeof(page), NULL), 0);
	CU_ASSERT_EQUAL(le64toh(log->numrec), 4);
	for (unsigned int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(log->entries[i].trtype, i % 2 ? NVMF_TRTYPE_TCP : NVMF_TRTYPE_RDMA);
	CU_ASSERT_STRING_EQUAL(log->entries[3].traddr, "192.0.2.1");
	CU_ASSERT_EQUAL(log->entries[3].tsas.rdma.qptype, 0);
	t_stream_cut(h);
	t_stream_turn(w.env);
	t_stream_host_free(h);

	p = t_pair_new_in(w.env);
	fill(block, sizeof(block), 5);
	CU_ASSERT_EQUAL(t_rw(p.io, true, 9, 1, block), 0);
	rw_sqe(&sqe, false, 9, sizeof(back), false);
	CU_ASSERT_EQUAL(t_stream_exec(w.io, &sqe, back, sizeof(back), NULL), 0);
	CU_ASSERT_EQUAL(memcmp(back, block, sizeof(back)), 0);
	rdt_reactor_collect(p.io->qp.reactor, &line);
	CU_ASSERT_PTR_NOT_NULL(strstr(line.transports, " capsules=0"));
	CU_ASSERT_PTR_NOT_NULL(strstr(line.transports, " streams="));
}

/* Its connections end, those that a reactor has not accepted yet included; no others do. */
static void listener_is_removed(void)
{
	struct rdt_listeners_change done = {0};
	struct rdt_config rest;
	struct t_stream_host *late;
	struct t_pair p;
	uint8_t block[512];
	WORLD(w);

	p = t_pair_new_in(w.env);
	late = t_stream_connect(w.env, w.stream);
	rest = w.env->cfg;
	rest.listeners_count = 1;
	rdt_listeners_set(w.env->t, &rest, false, NULL, NULL, &done);
	CU_ASSERT_EQUAL(done.removed, 1);
	t_stream_turn(w.env);
	CU_ASSERT_PTR_NULL(late->conn);
	CU_ASSERT_PTR_NULL(w.io->conn);
	CU_ASSERT_PTR_NULL(w.admin->conn);
	t_stream_host_free(late);
	CU_ASSERT_EQUAL(t_rw(p.io, false, 9, 1, block), 0);
}

const struct t_case t_stream_cases[] = {
	{"a whole controller, however the streams are cut", serves_a_controller},
	{"Abort takes back data that was not asked for yet", aborts},
	{"an I/O queue disconnects, and its ID is used again", disconnects},
	{"a host is lost with commands in every state", lost_in_flight},
	{"a data pointer of another transport is refused", wrong_data_pointers},
	{"data that was not asked for ends the connection", violations},
	{"a Connect is refused by its queue ID", refusals},
	{"listeners of two transports serve one target", beside_rdma},
	{"a listener is removed with its connections", listener_is_removed},
	{NULL, NULL},
};
