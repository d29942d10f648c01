/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics Connect: what it creates, and the answer to each wrong parameter. */
#include <string.h>

#include "t_target.h"

#define INVALID_PARAM (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM)
#define SEQ_ERROR     NVME_SC_CMD_SEQ_ERROR

static void hex(const char *text, uint8_t *out, size_t len)
{
	unsigned int byte;

	CU_ASSERT_EQUAL_FATAL(strlen(text), 2 * len);
	for (size_t i = 0; i < len; i++) {
		sscanf(text + 2 * i, "%2x", &byte);
		out[i] = (uint8_t)byte;
	}
}

/* The Connect capsule of a Linux host (captured), with our address. */
static void golden_connect(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct nvme_sqe ignored;
	struct t_answer a;

	t_connect_sqe(c, &ignored, &data, NVMF_CNTLID_DYNAMIC);
	hex("7f4000000100000000000000000000000000000000000000001808068088ffff000400016c23414f"
	    "000000001f00000088130000000000000000000000000000",
	    (uint8_t *)&sqe, sizeof(sqe));
	CU_ASSERT_EQUAL(nvme_sgl_keyed_len(&sqe.sgl.keyed), 1024);
	sqe.sgl.keyed.addr = htole64((uintptr_t)&data);
	t_send(c, &sqe, NULL, 0);
	t_turn(env);
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	/* As in the captured answer: CNTLID 1, SQHD 1, SQID 0, the CID echoed. */
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 1);
	CU_ASSERT_EQUAL(le16toh(a.cqe.sqhd), 1);
	CU_ASSERT_EQUAL(le16toh(a.cqe.sqid), 0);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe.cid);
	CU_ASSERT_TRUE(a.invalidate);
	CU_ASSERT_EQUAL(a.key, 0x41236c01);
	CU_ASSERT_EQUAL(c->qp.ctrl->kato_ms, 5000);
	t_env_free(env);
}

struct wrong {
	const char *name;
	uint16_t qid; /* of the connection */
	uint16_t sqe_qid;
	uint16_t recfmt;
	uint16_t sqsize;
	uint16_t cntlid;
	const char *subnqn;
	const char *hostnqn;
	uint16_t status;
	uint32_t dword0;
};

static const struct wrong wrongs[] = {
	{"record format", 0, 0, 1, 31, 0xffff, T_NQN, T_HOST,
	 NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_FORMAT, 0},
	{"subsystem", 0, 0, 0, 31, 0xffff, "nqn.2026-11.io.rdnvme:none", T_HOST, INVALID_PARAM,
	 0x00010100},
	{"empty subsystem", 0, 0, 0, 31, 0xffff, "", T_HOST, INVALID_PARAM, 0x00010100},
	/* The answers must equal that for an unknown subsystem. */
	{"host without a name, and a list", 0, 0, 0, 31, 0xffff, T_NQN2, "", INVALID_PARAM,
	 0x00010100},
	{"host not allowed", 0, 0, 0, 31, 0xffff, T_NQN2, T_HOST, INVALID_PARAM, 0x00010100},
	{"static cntlid", 0, 0, 0, 31, 7, T_NQN, T_HOST, INVALID_PARAM, 0x00010010},
	{"queue size 0", 0, 0, 0, 0, 0xffff, T_NQN, T_HOST, INVALID_PARAM, 0x0000002c},
	{"queue size above the RECVs", 0, 0, 0, 32, 0xffff, T_NQN, T_HOST, INVALID_PARAM,
	 0x0000002c},
	{"qid unlike the connection's", 0, 1, 0, 31, 0xffff, T_NQN, T_HOST, INVALID_PARAM,
	 0x0000002a},
	{"I/O queue of no controller", 1, 1, 0, 31, 77, T_NQN, T_HOST, INVALID_PARAM, 0x00010010},
	{"I/O queue of a discovery controller", 1, 1, 0, 31, 1, NVMF_DISC_NQN, T_HOST,
	 INVALID_PARAM, 0x0000002a},
};

static void wrong_parameters(void)
{
	struct t_env *env = t_env_new();

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		const struct wrong *w = &wrongs[i];
		struct t_conn *c = t_conn_new(env, i % 2, w->qid, 32);
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;
		struct nvmf_connect_sqe *con = (void *)&sqe;
		struct t_answer a;

		t_connect_sqe(c, &sqe, &data, w->cntlid);
		con->qid = htole16(w->sqe_qid);
		con->recfmt = htole16(w->recfmt);
		con->sqsize = htole16(w->sqsize);
		memset(data.subsysnqn, 0, sizeof(data.subsysnqn));
		memset(data.hostnqn, 0, sizeof(data.hostnqn));
		strcpy(data.subsysnqn, w->subnqn);
		strcpy(data.hostnqn, w->hostnqn);
		a = t_exec(c, &sqe);
		if (t_status(&a) != w->status || le32toh(a.cqe.result) != w->dword0)
			fprintf(stderr, "# %s: status %#x, dword 0 %#x\n", w->name, t_status(&a),
				le32toh(a.cqe.result));
		CU_ASSERT_EQUAL(t_status(&a), w->status);
		CU_ASSERT_TRUE(t_dnr(&a));
		CU_ASSERT_EQUAL(le32toh(a.cqe.result), w->dword0);
		/* A bad Connect does not end the connection: a correct one still works. */
		CU_ASSERT_FALSE(c->closing);
		if (w->qid == 0)
			CU_ASSERT_NOT_EQUAL(t_connect(c, NVMF_CNTLID_DYNAMIC), 0);
	}
	t_env_free(env);
}

static void unterminated_nqn(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	memset(data.hostnqn, 'n', sizeof(data.hostnqn));
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00010200);
	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	memset(data.subsysnqn, 'n', sizeof(data.subsysnqn));
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00010100);
	t_env_free(env);
}

static void allowed_host(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	strcpy(data.subsysnqn, T_NQN2);
	strcpy(data.hostnqn, T_HOST2);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_env_free(env);
}

static void order_of_commands(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	/* Other commands before Connect. */
	t_sqe(c, &sqe, nvme_admin_keep_alive, NULL, 0);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), SEQ_ERROR);
	t_sqe(c, &sqe, NVMF_OPCODE, NULL, 0);
	sqe.fctype = nvme_fabrics_type_property_get;
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), SEQ_ERROR);
	/* Admin commands before the controller is enabled. */
	t_connect(c, NVMF_CNTLID_DYNAMIC);
	t_sqe(c, &sqe, nvme_admin_keep_alive, NULL, 0);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), SEQ_ERROR);
	CU_ASSERT_TRUE(t_dnr(&a));
	/* A second Connect. */
	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), SEQ_ERROR);
	t_enable(c);
	t_sqe(c, &sqe, nvme_admin_keep_alive, NULL, 0);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_env_free(env);
}

/* Both passed their check before the data of either arrived. */
static void two_at_once(void)
{
	for (uint16_t qid = 0; qid < 2; qid++) {
		struct t_env *env = t_env_new();
		struct t_conn *admin = t_conn_new(env, 0, 0, 32), *c = admin;
		uint16_t cntlid = NVMF_CNTLID_DYNAMIC;
		struct nvmf_connect_data data;
		struct nvme_sqe sqe[2];
		struct t_answer a;

		if (qid) {
			cntlid = t_connect(admin, cntlid);
			t_enable(admin);
			c = t_conn_new(env, 1, 1, 32);
		}
		c->hold_fetch = true;
		for (int i = 0; i < 2; i++) {
			t_connect_sqe(c, &sqe[i], &data, cntlid);
			t_send(c, &sqe[i], NULL, 0);
		}
		t_turn(env);
		CU_ASSERT_EQUAL_FATAL(c->fetches_count, 2);
		c->hold_fetch = false;
		t_turn(env);
		CU_ASSERT_EQUAL_FATAL(t_answers(c), 2);
		for (int i = 0; i < 2; i++) {
			a = t_answer(c);
			CU_ASSERT_EQUAL(t_status(&a), a.cqe.cid == sqe[0].cid ? 0 : SEQ_ERROR);
		}
		CU_ASSERT_EQUAL(admin->qp.ctrl->subsys->ctrls_count, 1);
		t_env_free(env);
	}
}

static void in_capsule(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *c = t_conn_new(p.env, 0, 2, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, p.cntlid);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.length = htole32(sizeof(data));
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	t_send(c, &sqe, &data, sizeof(data));
	t_turn(p.env);
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), p.cntlid);
	CU_ASSERT_EQUAL(le16toh(a.cqe.sqid), 2);
	CU_ASSERT_FALSE(a.invalidate);
	t_pair_free(&p);
}

/* An I/O queue must come from the controller's own host, and be one of those granted. */
static void io_queue_of_another(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *c = t_conn_new(p.env, 1, 2, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a = t_connect_as(c, p.cntlid, T_HOST2, 0x11);

	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00010200);
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	data.hostid[3] ^= 1;
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00010000);
	c = t_conn_new(p.env, 1, 5, 16); /* io_queues is 4 */
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x0000002a);
	t_pair_free(&p);
}

static void io_queue_before_enable(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *admin = t_conn_new(env, 0, 0, 32);
	struct t_conn *io = t_conn_new(env, 1, 1, 16);
	uint16_t cntlid = t_connect(admin, NVMF_CNTLID_DYNAMIC);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(io, &sqe, &data, cntlid);
	a = t_exec(io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), SEQ_ERROR);
	t_enable(admin);
	CU_ASSERT_EQUAL(t_connect(io, cntlid), cntlid);
	t_env_free(env);
}

static void qid_in_use(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *c = t_conn_new(p.env, 0, 1, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, p.cntlid);
	t_send(c, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(c), 0); /* the old queue has a moment to end */
	t_advance(p.env, RDT_QID_WAIT);
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x0000002a);
	t_pair_free(&p);
}

/* The Connect of the new connection overtakes the end of the old one, which a slow backend
 * delays. */
static void qid_of_a_dying_queue(void)
{
	struct t_pair p = t_pair_new();
	struct t_conn *c = t_conn_new(p.env, 0, 1, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	uint8_t buf[512];
	struct t_answer a;

	p.env->disk[0].hold = true;
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	t_conn_cut(p.io);
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	t_send(c, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(c), 0);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_pair_free(&p);
}

static void sq_flow_control_off(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	((struct nvmf_connect_sqe *)&sqe)->cattr = NVMF_CATTR_DISABLE_SQFLOW;
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le16toh(a.cqe.sqhd), 0xffff);
	t_env_free(env);
}

static void sqhd_wraps(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (unsigned int i = 0; i < 40; i++) {
		t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
		sqe.nsid = htole32(1);
		a = t_exec(p.io, &sqe);
		/* Connect was the first of 16 entries. */
		CU_ASSERT_EQUAL(le16toh(a.cqe.sqhd), (i + 2) % 16);
	}
	t_pair_free(&p);
}

static void silent_connection(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	bool gone = false;

	c->gone = &gone;
	t_advance(env, RDT_CONNECT_TIMEOUT - 1);
	CU_ASSERT_FALSE(gone);
	t_advance(env, 1);
	CU_ASSERT_TRUE(gone);
	t_env_free(env);
}

static void unique_cntlids(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *a = t_conn_new(env, 0, 0, 32);
	struct t_conn *b = t_conn_new(env, 1, 0, 32);
	uint16_t first = t_connect(a, NVMF_CNTLID_DYNAMIC);
	uint16_t second = t_connect(b, NVMF_CNTLID_DYNAMIC);

	CU_ASSERT_NOT_EQUAL(first, second);
	t_conn_cut(a);
	t_turn(env);
	/* Nor is the ID of an ended controller used again at once. */
	a = t_conn_new(env, 0, 0, 32);
	CU_ASSERT_NOT_EQUAL(t_connect(a, NVMF_CNTLID_DYNAMIC), first);
	t_env_free(env);
}

struct lines {
	unsigned int count;
	char last[1100];
};

static void take_line(void *arg, enum rd_log_level level, const char *line)
{
	struct lines *l = arg;

	if (level != RD_LOG_NOTICE)
		return;
	l->count++;
	snprintf(l->last, sizeof(l->last), "%s", line);
}

/* If any host is allowed. Two hosts without a name are not the same host. */
static void host_without_a_name(void)
{
	struct lines lines = {0};
	struct t_env *env = t_env_new();
	struct rd_log *log;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_NOTICE, take_line, &lines, &log), 0);
	env->t->subsys[0]->duplicate_host = RDT_DUPLICATE_REFUSE;
	for (unsigned int i = 0; i < 2; i++) {
		struct t_conn *admin = t_conn_new(env, 0, 0, 32), *io;
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;
		struct t_answer a;

		admin->qp.log = log;
		t_connect_sqe(admin, &sqe, &data, NVMF_CNTLID_DYNAMIC);
		memset(data.hostnqn, 0, sizeof(data.hostnqn));
		a = t_exec(admin, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		t_enable(admin);
		io = t_conn_new(env, 1, 1, 16);
		t_connect_sqe(io, &sqe, &data, admin->qp.ctrl->cntlid);
		memset(data.hostnqn, 0, sizeof(data.hostnqn));
		a = t_exec(io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
	CU_ASSERT_EQUAL(lines.count, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "192.0.2.2"));
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "without a Host NQN"));
	t_env_free(env);
	rd_log_destroy(&log);
}

static void refusals_are_said(void)
{
	static const struct {
		const char *subnqn, *hostnqn, *says;
	} cases[] = {
		{"nqn.2026-11.io.rdnvme:none", T_HOST, "there is no such subsystem"},
		{T_NQN2, T_HOST, "not in the subsystem's list of hosts"},
		{T_NQN2, "", "the host gives no name"},
		{T_NQN2, "a\" b\x1b[2J\\", "host \"a??b?[2J?\", subsystem \"" T_NQN2 "\": "},
	};
	struct lines lines = {0};
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct rd_log *log;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_NOTICE, take_line, &lines, &log), 0);
	c->qp.log = log;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
		memset(data.subsysnqn, 0, sizeof(data.subsysnqn));
		memset(data.hostnqn, 0, sizeof(data.hostnqn));
		strcpy(data.subsysnqn, cases[i].subnqn);
		strcpy(data.hostnqn, cases[i].hostnqn);
		t_exec(c, &sqe);
		CU_ASSERT_EQUAL(lines.count, i + 1);
		CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "from 192.0.2.2"));
		CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, cases[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, cases[i].subnqn));
	}
	t_connect_sqe(c, &sqe, &data, 7);
	t_exec(c, &sqe);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "asks for a certain controller"));
	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	((struct nvmf_connect_sqe *)&sqe)->sqsize = 0;
	t_exec(c, &sqe);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "SQSIZE"));
	/* A host cannot cause log lines at any rate. */
	for (unsigned int i = 0; i < 2 * RD_LOG_BURST; i++)
		t_exec(c, &sqe);
	CU_ASSERT_EQUAL(lines.count, RD_LOG_BURST);
	c->qp.log = NULL;
	t_env_free(env);
	rd_log_destroy(&log);
}

const struct t_case t_connect_cases[] = {
	{"the captured Connect of a Linux host is answered as captured", golden_connect},
	{"each wrong parameter is named in dword 0", wrong_parameters},
	{"NQNs without an end are refused", unterminated_nqn},
	{"a listed host may connect", allowed_host},
	{"Connect comes first, then enable, then the rest", order_of_commands},
	{"of two Connects at once the second one is refused", two_at_once},
	{"Connect data may be in the capsule", in_capsule},
	{"an I/O queue must match its controller", io_queue_of_another},
	{"an I/O queue needs an enabled controller", io_queue_before_enable},
	{"a QID in use is refused", qid_in_use},
	{"a QID whose old queue is going is given to the new one", qid_of_a_dying_queue},
	{"SQHD is FFFFh without SQ flow control", sq_flow_control_off},
	{"SQHD counts modulo the queue size", sqhd_wraps},
	{"a connection without Connect is closed", silent_connection},
	{"controller IDs are unique and not reused soon", unique_cntlids},
	{"a host without a name is let in where any host is", host_without_a_name},
	{"each refusal is said, with who and why", refusals_are_said},
	{NULL, NULL},
};
