/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics Connect: what it creates, how long it waits, and what is said of a refusal. */
#include <string.h>

#include "nvmf/tls.h"
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
	T_ENV(env);
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
	t_begin(c, &sqe);
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
}

/* Both passed their check before the data of either arrived. */
static void two_at_once(void)
{
	for (uint16_t qid = 0; qid < 2; qid++) {
		T_ENV(env);
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
	}
}

static void qid_in_use(void)
{
	T_PAIR(p);
	struct t_conn *c = t_conn_new(p.env, 0, 1, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, p.cntlid);
	t_begin(c, &sqe);
	CU_ASSERT_EQUAL(t_answers(c), 0); /* the old queue has a moment to end */
	t_advance(p.env, RDT_QID_WAIT);
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x0000002a);
}

/* The Connect of the new connection overtakes the end of the old one, which a slow backend
 * delays. */
static void qid_of_a_dying_queue(void)
{
	T_PAIR(p);
	struct t_conn *c = t_conn_new(p.env, 0, 1, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	uint8_t buf[512];

	p.env->disk[0].hold = true;
	t_send_rw(p.io, false, 0, 1, buf);
	t_turn(p.env);
	t_conn_cut(p.io);
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	t_begin(c, &sqe);
	CU_ASSERT_EQUAL(t_answers(c), 0);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(c), 0);
}

static void sqhd_wraps(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;
	struct t_answer a;

	for (unsigned int i = 0; i < 40; i++) {
		t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
		sqe.nsid = htole32(1);
		a = t_exec(p.io, &sqe);
		/* Connect was the first of 16 entries. */
		CU_ASSERT_EQUAL(le16toh(a.cqe.sqhd), (i + 2) % 16);
	}
}

static void silent_connection(void)
{
	T_ENV(env);
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	bool gone = false;

	c->gone = &gone;
	t_advance(env, RDT_CONNECT_TIMEOUT - 1);
	CU_ASSERT_FALSE(gone);
	t_advance(env, 1);
	CU_ASSERT_TRUE(gone);
}

struct lines {
	unsigned int count;
	char last[1100];
	/* those about controllers that came and went */
	unsigned int present;
	unsigned int gone;
	char presence[1100]; /* the last one */
};

static void take_line(void *arg, enum rd_log_level level, const char *line)
{
	struct lines *l = arg;

	if (level != RD_LOG_NOTICE)
		return;
	if (strstr(line, ": connected") || strstr(line, ": disconnected: ")) {
		l->present += strstr(line, ": connected") != NULL;
		l->gone += strstr(line, ": disconnected: ") != NULL;
		snprintf(l->presence, sizeof(l->presence), "%s", line);
		return;
	}
	l->count++;
	snprintf(l->last, sizeof(l->last), "%s", line);
}

/* Whoever connects and disconnects is told once each, but not without limit. */
static void controllers_are_told_when_they_come_and_go(void)
{
	struct lines lines = {0};
	struct t_env *env = t_env_new();
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;
	struct t_conn *c[30];

	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_NOTICE, take_line, &lines, &log), 0);
	for (unsigned int i = 0; i < 30; i++) {
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;

		c[i] = t_conn_new(env, 0, 0, 32);
		c[i]->qp.log = log;
		t_connect_sqe(c[i], &sqe, &data, NVMF_CNTLID_DYNAMIC);
		data.hostid[0] = (uint8_t)i;
		snprintf((char *)data.hostnqn, sizeof(data.hostnqn), "nqn.x:host-%u", i);
		CU_ASSERT_EQUAL(t_exec_status(c[i], &sqe), 0);
		if (i == 0)
			CU_ASSERT_PTR_NOT_NULL(strstr(lines.presence,
						      T_NQN ": controller 1 for nqn.x:host-0 from "
							    "192.0.2.2:"));
	}
	CU_ASSERT_EQUAL(lines.present, RD_LOG_BURST);
	for (unsigned int i = 0; i < 30; i++)
		t_conn_cut(c[i]);
	t_turn(env);
	CU_ASSERT_EQUAL(lines.gone, RD_LOG_BURST);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.presence, " for nqn.x:host-9 from 192.0.2.2:"));
	env->now += RD_LOG_BURST_NS;
	t_turn(env);
	c[0] = t_conn_new(env, 0, 0, 32);
	c[0]->qp.log = log;
	t_connect_as(c[0], NVMF_CNTLID_DYNAMIC, T_HOST, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.presence, ": connected (20 more like it)"));
	t_env_free(env);
}

/* If any host is allowed. Two hosts without a name are not the same host. */
static void host_without_a_name(void)
{
	struct lines lines = {0};
	struct t_env *env = t_env_new();
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;

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
		CU_ASSERT_EQUAL(t_exec_status(admin, &sqe), 0);
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
	CU_ASSERT_EQUAL(lines.present, 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.presence, " for a host without a name from 192.0.2.2"));
	t_env_free(env);
}

static uint16_t connect_by(struct t_env *env, struct rdt_listener *l, struct t_conn **out)
{
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;

	*out = t_conn_new(env, 0, 0, 32);
	(*out)->qp.listener = l;
	t_connect_sqe(*out, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	return t_exec_status(*out, &sqe);
}

/* However many controllers a host has by other listeners, or had: a Connect looks at those by its
 * own listener that are over, and a look at one of these is the last. */
static void duplicates_are_found_at_once(void)
{
	enum { OTHERS = 40, AGAIN = 40 };
	static struct rdt_listener by[2];
	struct t_env *env = t_env_new();
	struct rdt_subsys *ss = env->t->subsys[0];
	struct rdt_ctrl_host *host;
	struct t_conn *c, *last;
	uint64_t looks;

	for (unsigned int i = 0; i < OTHERS; i++)
		CU_ASSERT_EQUAL(connect_by(env, &by[0], &c), 0);
	host = c->qp.ctrl->host;
	ss->duplicate_host = RDT_DUPLICATE_REFUSE;
	CU_ASSERT_EQUAL(connect_by(env, &by[1], &last), 0);
	looks = host->twin_looks;
	for (unsigned int i = 0; i < AGAIN; i++)
		CU_ASSERT_NOT_EQUAL(connect_by(env, &by[1], &c), 0);
	CU_ASSERT_EQUAL(host->twin_looks - looks, AGAIN);
	looks = host->twin_looks;
	ss->duplicate_host = RDT_DUPLICATE_REPLACE;
	for (unsigned int i = 0; i < AGAIN; i++)
		CU_ASSERT_EQUAL(connect_by(env, &by[1], &c), 0);
	CU_ASSERT(host->twin_looks - looks <= 2 * AGAIN);
	t_turn(env);
	CU_ASSERT_EQUAL(t_ctrls_staying(ss), OTHERS + 1);
	/* Those of before the setting, once. */
	looks = host->twin_looks;
	CU_ASSERT_EQUAL(connect_by(env, &by[0], &c), 0);
	CU_ASSERT_EQUAL(connect_by(env, &by[0], &c), 0);
	CU_ASSERT(host->twin_looks - looks <= 2 * OTHERS + 2);
	t_turn(env);
	CU_ASSERT_EQUAL(t_ctrls_staying(ss), 2);
	t_env_free(env);
}

static void refusals_are_said(void)
{
	static const struct {
		const char *subnqn, *hostnqn, *says;
	} cases[] = {
		{"nqn.2026-11.io.rdnvme:none", T_HOST, "unknown subsystem"},
		{T_NQN2, T_HOST, "not in the subsystem's list of hosts"},
		{T_NQN2, "", "the host sent no Host NQN"},
		{T_NQN2, "a\" b\x1b[2J\\", "host \"a??b?[2J?\", subsystem \"" T_NQN2 "\": "},
	};
	struct lines lines = {0};
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;
	struct rd_log *log T_ENDS(rd_log_destroy) = NULL;

	CU_ASSERT_EQUAL_FATAL(rd_log_create("t", -1, RD_LOG_NOTICE, take_line, &lines, &log), 0);
	c->qp.log = log;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
		memset(data.subsysnqn, 0, sizeof(data.subsysnqn));
		memset(data.hostnqn, 0, sizeof(data.hostnqn));
		strcpy(data.subsysnqn, cases[i].subnqn);
		strcpy(data.hostnqn, cases[i].hostnqn);
		a = t_exec(c, &sqe);
		/* A subsystem that the host may not use is answered as one that does not exist. */
		CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
		CU_ASSERT_TRUE(t_dnr(&a));
		CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00010100);
		CU_ASSERT_EQUAL(lines.count, i + 1);
		CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "from 192.0.2.2"));
		CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, cases[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, cases[i].subnqn));
	}
	t_connect_sqe(c, &sqe, &data, 7);
	t_exec(c, &sqe);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "requests a specific controller"));
	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	((struct nvmf_connect_sqe *)&sqe)->sqsize = htole16(32); /* one more than the RECVs */
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x0000002c);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines.last, "SQSIZE"));
	/* A host cannot cause log lines at any rate. */
	for (unsigned int i = 0; i < 2 * RD_LOG_BURST; i++)
		t_exec(c, &sqe);
	CU_ASSERT_EQUAL(lines.count, RD_LOG_BURST);
	c->qp.log = NULL;
	t_env_free(env);
}

static struct t_answer connect_queue(struct t_conn *c, uint16_t cntlid, uint16_t qid)
{
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;

	t_connect_sqe(c, &sqe, &data, cntlid);
	((struct nvmf_connect_sqe *)&sqe)->qid = htole16(qid);
	return t_exec(c, &sqe);
}

/* Over some transports only the Connect tells which queue a connection is. */
static void role_by_connect(void)
{
	T_ENV(env);
	struct t_conn *admin = t_conn_new(env, 0, RDT_QID_ANY, 32);
	struct t_conn *io = t_conn_new(env, 1, RDT_QID_ANY, 32);
	struct t_answer a = connect_queue(admin, NVMF_CNTLID_DYNAMIC, 5);
	uint8_t data[512];
	uint16_t cntlid;

	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM); /* of four queues */
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), offsetof(struct nvmf_connect_sqe, qid));
	a = connect_queue(admin, NVMF_CNTLID_DYNAMIC, 0);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	cntlid = (uint16_t)le32toh(a.cqe.result);
	CU_ASSERT_TRUE(admin->qp.admin);
	t_enable(admin);
	/* A placed connection counts as an I/O queue when it is one. */
	CU_ASSERT_EQUAL(atomic_load(&env->t->reactors[1].io_load), 0);
	a = connect_queue(io, cntlid, 3);
	CU_ASSERT_EQUAL_FATAL(t_status(&a), 0);
	CU_ASSERT_FALSE(io->qp.admin);
	CU_ASSERT_EQUAL(io->qp.qid, 3);
	CU_ASSERT_EQUAL(admin->roles, 1);
	CU_ASSERT_EQUAL(io->roles, 1);
	CU_ASSERT_EQUAL(atomic_load(&env->t->reactors[1].io_load), 1);
	CU_ASSERT_EQUAL(t_rw(io, false, 0, 1, data), 0);
}

/* A Connect that was refused has told the role. The next one must keep it, also if it was checked
 * before that. */
static void role_is_told_once(void)
{
	T_ENV(env);
	struct t_conn *c = t_conn_new(env, 0, RDT_QID_ANY, 64);
	struct nvmf_connect_data data[2];
	struct nvme_sqe sqe[2];
	struct t_answer a;

	for (uint16_t i = 0; i < 2; i++) {
		t_connect_sqe(c, &sqe[i], &data[i], i ? NVMF_CNTLID_DYNAMIC : 7);
		((struct nvmf_connect_sqe *)&sqe[i])->qid = htole16(i ? 0 : 1);
		t_send(c, &sqe[i], NULL, 0);
	}
	t_turn(env);
	a = t_answer(c);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result),
			1u << 16 | offsetof(struct nvmf_connect_data, cntlid));
	a = t_answer(c);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), offsetof(struct nvmf_connect_sqe, qid));
	CU_ASSERT_EQUAL(c->roles, 1);
	CU_ASSERT_EQUAL(c->qp.want_qid, 1);
}

/* Also where any host may connect, and on each queue. */
static void names_of_a_tls_key(void)
{
	static const struct {
		const char *hostnqn, *subnqn;
		bool good;
	} keys[] = {{T_HOST2, T_NQN, false}, {T_HOST, T_NQN2, false}, {T_HOST, T_NQN, true}};
	struct t_env *env T_ENDS(t_env_cleanup) = t_env_new();

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct t_conn *c = t_conn_new(env, 0, 0, 32);
		struct nvmf_tls_info info = {.complete = true};
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;
		struct t_answer a;

		strcpy(info.identity.hostnqn, keys[i].hostnqn);
		strcpy(info.identity.subnqn, keys[i].subnqn);
		c->qp.tls = &info;
		t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
		a = t_exec(c, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), keys[i].good ? 0 : INVALID_PARAM);
		c->qp.tls = NULL;
	}
}

const struct t_case t_connect_cases[] = {
	{"a queue learns its role from Connect", role_by_connect},
	{"a queue learns its role once", role_is_told_once},
	{"duplicates of a host are found at once", duplicates_are_found_at_once},
	{"the captured Connect of a Linux host is answered as captured", golden_connect},
	{"of two Connects at once the second one is refused", two_at_once},
	{"a QID in use is refused", qid_in_use},
	{"a QID whose old queue is going is given to the new one", qid_of_a_dying_queue},
	{"SQHD counts modulo the queue size", sqhd_wraps},
	{"a connection without Connect is closed", silent_connection},
	{"a host without a name is let in where any host is", host_without_a_name},
	{"controllers are told when they come and go", controllers_are_told_when_they_come_and_go},
	{"a key of TLS is for its host and its subsystem", names_of_a_tls_key},
	{"each refusal is said, with who and why", refusals_are_said},
	{NULL, NULL},
};
