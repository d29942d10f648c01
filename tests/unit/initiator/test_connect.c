/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps to a ready controller and queue pair: every command, its bytes, and every failure. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>

#include "suites.h"
#include "t_fake.h"

static void assert_hex(const void *data, const char *hex)
{
	const unsigned char *p = data;
	char got[3];

	for (; *hex; hex += 2, p++) {
		snprintf(got, sizeof(got), "%02x", *p);
		CU_ASSERT_EQUAL_FATAL(memcmp(got, hex, 2), 0);
	}
}

static void assert_sqe(const struct nvme_sqe *sqe, const char *sparse)
{
	unsigned char want[sizeof(*sqe)] = {0};
	unsigned int at, byte;
	int n;

	while (sscanf(sparse, " %u:%n", &at, &n) == 1) {
		for (sparse += n; sscanf(sparse, "%2x", &byte) == 1 && *sparse != ' '; sparse += 2)
			want[at++] = (unsigned char)byte;
	}
	CU_ASSERT_EQUAL(memcmp(want, sqe, sizeof(want)), 0);
}

/* A command with its varying fields (CID, key, address) cleared. */
static struct nvme_sqe blank(const struct nvme_sqe *sqe)
{
	struct nvme_sqe s = *sqe;

	s.cid = 0;
	s.sgl.keyed.addr = 0;
	memset(s.sgl.keyed.key, 0, sizeof(s.sgl.keyed.key));
	return s;
}

static void sequence(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	/* The bytes of the kernel host (captured), as OFFSET:HEX; all others are 0. */
	static const char *const want[] = {
		"0:7f40000001 32:0004 44:1f00 48:88130000", /* Connect, 1024 bytes, kato 5000 */
		"0:7f40000004 39:40 40:01",                 /* Property Get CAP, 8 bytes */
		"0:7f40000004 39:40 44:08",                 /* VS */
		"0:7f40000004 39:40 44:14",                 /* CC */
		"0:7f40000000 39:40 44:14 48:01004600",     /* Property Set CC 00460001h */
		"0:7f40000004 39:40 44:1c",                 /* CSTS */
		"0:0640 32:0010 40:01",                     /* Identify controller, 4096 bytes */
		"0:0940 39:40 40:07",                       /* Set Features 07h: one queue each */
	};
	const uint8_t types[] = {0x4f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x4f, 0x40};
	struct rdinit_ctrl_info info;
	unsigned int i;

	CU_ASSERT_EQUAL_FATAL(t_fake.n_log, sizeof(want) / sizeof(want[0]));
	for (i = 0; i < t_fake.n_log; i++) {
		struct nvme_sqe s = blank(&t_fake.log[i]);

		CU_ASSERT_EQUAL(s.sgl.keyed.type, types[i]);
		if (types[i] == 0x4f)
			s.sgl.keyed.type = 0;
		assert_sqe(&s, want[i]);
	}
	/* request private data: recfmt 0, qid 0, hrqsize 32, hsqsize 31, cntlid 0 */
	assert_hex(t_fake.priv[0], "0000000020001f000000000000000000");
	CU_ASSERT_TRUE(t_fake.ird >= 1);
	rdinit_ctrl_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_ctrl_get_info(ctrl, &info), 0);
	CU_ASSERT_EQUAL(info.io_queues, 1);
	CU_ASSERT_EQUAL(info.max_transfer, 1u << 20);
	CU_ASSERT_EQUAL(info.in_capsule, 8192);
	CU_ASSERT_EQUAL(info.max_queue_size, 128);
	CU_ASSERT_STRING_EQUAL(info.address, "192.0.2.1:4420");
}

static void queue_pair(void)
{
	struct rdinit_ctrl *ctrl;
	struct rdinit_qpair *qp;
	const struct nvmf_connect_sqe *sqe;

	t_fake_reset();
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 128);
	assert_hex(t_fake.priv[1], "0000010080007f000000000000000000");
	sqe = (const void *)&t_fake.log[t_fake.n_log - 1];
	CU_ASSERT_EQUAL(le16toh(sqe->qid), 1);
	CU_ASSERT_EQUAL(le16toh(sqe->sqsize), 127);
	CU_ASSERT_EQUAL(le32toh(sqe->kato), 0);
	CU_ASSERT_EQUAL(sqe->sgl.data.type, NVME_SGL_IN_CAPSULE); /* it fits */
	CU_ASSERT_EQUAL(le32toh(sqe->sgl.data.length), 1024);
	CU_ASSERT_EQUAL(rdinit_qpair_depth(qp), 127);
	/* each queue ID is used once */
	{
		struct rdinit_qpair *more = (void *)1;

		CU_ASSERT_EQUAL(rdinit_qpair_create(ctrl, NULL, &more), -ENOSPC);
		CU_ASSERT_PTR_NULL(more);
	}
	CU_ASSERT_EQUAL(rdinit_qpair_connect(qp), -EINVAL); /* once only */
	/* a queue pair exists longer than its controller handle */
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), 0);
	rdinit_qpair_free(&qp);
	rdinit_qpair_free(&qp);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
}

static void wrong_options_of_a_queue_pair(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_qpair_opts opts;

#define QPAIR_REFUSED(setting, text)                                             \
	do {                                                                     \
		rdinit_qpair_opts_init(&opts);                                   \
		setting;                                                         \
		CU_ASSERT_EQUAL(rdinit_qpair_create(ctrl, &opts, &qp), -EINVAL); \
		CU_ASSERT_PTR_NULL(qp);                                          \
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), ": " text));   \
	} while (0)
	t_fake_reset();
	ctrl = t_ctrl(1);
	QPAIR_REFUSED(opts.queue_size = 1, "queue_size is 1, expected 2 to 1024");
	QPAIR_REFUSED(opts.queue_size = 1025, "queue_size is 1025, expected 2 to 1024");
	QPAIR_REFUSED(opts.io_timeout_ms = 0, "io_timeout_ms is 0, expected milliseconds");
	QPAIR_REFUSED(opts.qid = 2, "qid is 2, larger than the number of queues");
}

static void smaller_queue(void)
{
	struct rdinit_ctrl *ctrl;
	struct rdinit_qpair *qp;

	t_fake_reset();
	t_fake.crqsize = 8;
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 128);
	CU_ASSERT_EQUAL(rdinit_qpair_depth(qp), 7);
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);

	t_fake_reset();
	t_fake.id.maxcmd = htole16(16);
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 128);
	CU_ASSERT_EQUAL(rdinit_qpair_depth(qp), 15);
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);
}

static void enabled_before(void)
{
	T_CTRL(ctrl) = NULL;
	unsigned int i, sets = 0;

	t_fake_reset();
	t_fake.cc = 0x00460001;
	t_fake.csts = 1;
	ctrl = t_ctrl(1);
	for (i = 0; i < t_fake.n_log; i++)
		sets += t_fake.log[i].opcode == NVMF_OPCODE &&
			t_fake.log[i].fctype == nvme_fabrics_type_property_set;
	CU_ASSERT_EQUAL(sets, 2); /* disabled, then enabled */
}

/* ---- failures ---- */

/* Connect to the fake with its present settings; returns the error, with the text in
 * rdinit_get_error(). */
static int try_connect(const char *nqn)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	int rc;

	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "192.0.2.1";
	opts.subnqn = nqn;
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	rc = rdinit_ctrl_connect(ctrl);
	CU_ASSERT_EQUAL(rdinit_ctrl_connect(ctrl), -EINVAL); /* once only */
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
	return rc;
}

static void keep_text(char *buf, size_t len, int *rc)
{
	T_CTRL(ctrl) = NULL;
	struct rdinit_ctrl_opts opts;

	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "192.0.2.1";
	opts.subnqn = "nqn.2024-01.test:x";
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	*rc = rdinit_ctrl_connect(ctrl);
	snprintf(buf, len, "%s", rdinit_get_error());
}

static void refused(void)
{
	char text[RDI_TEXT];
	int rc;

	t_fake_reset();
	t_fake.connect_err = -ECONNREFUSED;
	keep_text(text, sizeof(text), &rc);
	CU_ASSERT_EQUAL(rc, -ECONNREFUSED);
	CU_ASSERT_STRING_EQUAL(text, "rdinit_ctrl_connect: 192.0.2.1:4420: connection refused (is "
				     "the target listening there?)");
	t_fake_reset();
	t_fake.connect_err = -ETIMEDOUT;
	keep_text(text, sizeof(text), &rc);
	CU_ASSERT_EQUAL(rc, -ETIMEDOUT);
	t_fake_reset();
	t_fake.reject_sts = NVMF_RDMA_CM_INVALID_HSQSIZE;
	keep_text(text, sizeof(text), &rc);
	CU_ASSERT_EQUAL(rc, -ECONNREFUSED);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, nvmf_rdma_cm_status_text(4)));
	CU_ASSERT_EQUAL(rdinit_last_status(), 0);
	CU_ASSERT_EQUAL(try_connect("nqn.2024-01.test:x"), -ECONNREFUSED);
}

static uint16_t want_status;
static uint64_t want_result;

static bool refuse_connect(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			   const void *data, size_t len)
{
	if (sqe->opcode != NVMF_OPCODE || sqe->fctype != nvme_fabrics_type_connect)
		return false;
	t_answer(conn, sqe, want_result, want_status);
	return true;
}

static void connect_statuses(void)
{
	static const struct {
		uint16_t status;
		uint32_t result;
		const char *word;
	} rows[] = {
		{0x4182, 0x00010100, "NQN \"nqn.2024-01.test:x\": it has no"},
		{0x4182, 0x00010200, "host NQN"},
		{0x4182, 0x00010010, "controller id"},
		{0x4182, 0x0000002a, "queue id"},
		{0x4182, 0x0000002c, "queue size"},
		{0x4182, 0x00000031, "offset 49"},
		{0x4184, 0x00010200, "not allowed"},
		{0x4181, 0, "free"},
		{0x4191, 0, "authentication"},
		{0x4002, 0, "Connect"},
	};
	char text[RDI_TEXT];
	size_t i;
	int rc;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		t_fake_reset();
		t_fake.hook = refuse_connect;
		want_status = rows[i].status;
		want_result = rows[i].result;
		keep_text(text, sizeof(text), &rc);
		CU_ASSERT_EQUAL(rc, -EIO);
		CU_ASSERT_EQUAL(rdinit_last_status(), rows[i].status);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, rows[i].word));
		if (!strstr(text, rows[i].word))
			printf("# %s: %s\n", rows[i].word, text);
		/* The texts of these values for other commands are not used. */
		CU_ASSERT_PTR_NULL(strstr(text, "Read Only Range"));
	}
	/* accepted, on condition of authentication */
	t_fake_reset();
	t_fake.hook = refuse_connect;
	want_status = 0;
	want_result = 1u << 17 | 1;
	CU_ASSERT_EQUAL(try_connect("nqn.2024-01.test:x"), -EACCES);
}

static void controllers_refused(void)
{
	t_fake_reset();
	t_fake.id.cntlid = htole16(2);
	CU_ASSERT_EQUAL(try_connect("nqn.2024-01.test:x"), -EPROTO);
	t_fake_reset();
	t_fake.id.sgls = htole32(1);
	CU_ASSERT_EQUAL(try_connect("nqn.2024-01.test:x"), -ENOTSUP);
	t_fake_reset();
	t_fake.id.icdoff = htole16(4);
	CU_ASSERT_EQUAL(try_connect("nqn.2024-01.test:x"), -ENOTSUP);
	t_fake_reset();
	t_fake.id.ioccsz = htole32(1);
	CU_ASSERT_EQUAL(try_connect("nqn.2024-01.test:x"), -EPROTO);
}

static bool connect_never_ready(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
				const void *data, size_t len)
{
	const struct nvmf_property_sqe *p = (const void *)sqe;

	if (sqe->opcode != NVMF_OPCODE || sqe->fctype != nvme_fabrics_type_property_get ||
	    le32toh(p->offset) != NVME_REG_CSTS)
		return false;
	t_answer(conn, sqe, 0, 0);
	return true;
}

static void not_ready(void)
{
	T_CTRL(ctrl) = NULL;
	struct rdinit_ctrl_opts opts;
	struct t_done done = {0};
	unsigned int ms;

	t_fake_reset();
	t_fake.hook = connect_never_ready;
	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "192.0.2.1";
	opts.subnqn = "nqn.2024-01.test:x";
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_connect_async(ctrl, t_done_fn, &done), 0);
	for (ms = 0; ms < 7400; ms += 10) {
		rdinit_ctrl_process(ctrl, 0);
		t_advance(&t_fake, 10);
	}
	CU_ASSERT_EQUAL(done.calls, 0); /* CAP.TO is 15 * 500 ms */
	for (; ms < 8000 && !done.calls; ms += 10) {
		rdinit_ctrl_process(ctrl, 0);
		t_advance(&t_fake, 10);
	}
	T_ENDED(done, -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, "ready"));
}

static void bad_options(void)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;

#define REFUSED(setting)                                                             \
	do {                                                                         \
		rdinit_ctrl_opts_init(&opts);                                        \
		opts.traddr = "192.0.2.1";                                           \
		setting;                                                             \
		CU_ASSERT_EQUAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), -EINVAL); \
		CU_ASSERT_PTR_NULL(ctrl);                                            \
	} while (0)
	t_fake_reset();
	REFUSED(opts.traddr = NULL);
	REFUSED(opts.subnqn = "nqn.2024-01.test:a disk");
	REFUSED(opts.subnqn = "");
	REFUSED(opts.hostnqn = "me");
	REFUSED(opts.hostid = "me");
#define REFUSED_WITH(setting, text)                                            \
	do {                                                                   \
		REFUSED(setting);                                              \
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), ": " text)); \
	} while (0)
	REFUSED_WITH(opts.host_traddr = "localhost",
		     "host_traddr \"localhost\" is not a numeric address");
	REFUSED_WITH(opts.provider = "tcp", "the provider \"tcp\" is unknown");
	REFUSED_WITH(opts.nr_io_queues = 0, "nr_io_queues is 0, expected 1 to 1024");
	REFUSED_WITH(opts.nr_io_queues = 1025, "nr_io_queues is 1025, expected 1 to 1024");
	REFUSED_WITH(opts.admin_queue_size = 1, "admin_queue_size is 1, expected 8 to 4096");
	REFUSED_WITH(opts.mpa_revision = 3, "mpa_revision is 3, expected 1 or 2");
	REFUSED_WITH(opts.hdr_digest = true, "hdr_digest is set, which is an option of NVMe/TCP");
	REFUSED_WITH(opts.data_digest = true, "data_digest is set, which is an option of NVMe/TCP");
	REFUSED_WITH((opts.tcp = true, opts.provider = "iwarp"), "provider is set, which is an");
	REFUSED_WITH((opts.tcp = opts.crc = true), "crc is set, which is an option of NVMe/RDMA");
	REFUSED_WITH((opts.tcp = opts.no_peer_to_peer = true), "no_peer_to_peer is set, which");
	REFUSED_WITH((opts.tcp = true, opts.mpa_revision = 1), "mpa_revision is set, which is an");
	REFUSED_WITH((opts.tcp = opts.no_remote_invalidate = true), "no_remote_invalidate is set");
	REFUSED_WITH(opts.connect_timeout_ms = 0, "connect_timeout_ms is 0, expected milliseconds");
	REFUSED_WITH(opts.admin_timeout_ms = 0, "admin_timeout_ms is 0, expected milliseconds");
	REFUSED_WITH(opts.send_buffer = (1u << 30) + 1, "send_buffer is 1073741825 and");
	REFUSED_WITH(opts.receive_buffer = (1u << 30) + 1,
		     "send_buffer is 0 and receive_buffer 1073");
	REFUSED_WITH(opts.keep_alive_tmo_ms = 99, "keep_alive_tmo_ms is 99, expected 0 (none), or");
	REFUSED(opts.size = 0);
	CU_ASSERT_EQUAL(rdi_ctrl_create_env(NULL, &t_env, &ctrl), -EINVAL);
}

static void connect_shutdown(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);

	CU_ASSERT_EQUAL(rdinit_ctrl_disconnect(ctrl), 0);
	CU_ASSERT_EQUAL(t_fake.cc, 0x00464001);
	CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), -ENOTCONN);
	CU_ASSERT_EQUAL(rdinit_ctrl_disconnect(ctrl), 0); /* nothing left to do */
}

static void free_while_connecting(void)
{
	struct rdinit_ctrl_opts opts;
	unsigned int turns;

	/* In every state of connecting: after each number of turns. */
	for (turns = 0; turns < 12; turns++) {
		struct t_done done = {0};
		struct rdinit_ctrl *ctrl;
		unsigned int i;

		t_fake_reset();
		t_fake.hold_sends =
			true; /* a command ends in our callback: one step for each turn */
		rdinit_ctrl_opts_init(&opts);
		opts.traddr = "192.0.2.1";
		CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
		CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_connect_async(ctrl, t_done_fn, &done), 0);
		for (i = 0; i < turns; i++) {
			rdinit_ctrl_process(ctrl, 0);
			if (t_fake.last_conn[0])
				t_release_sends(t_fake.last_conn[0]);
		}
		rdinit_ctrl_free(&ctrl);
		CU_ASSERT_EQUAL(done.calls, 1);
		CU_ASSERT_TRUE(done.err == -ECANCELED || (done.err == 0 && turns > 6));
		CU_ASSERT_EQUAL(t_fake.mrs, 0);
	}
}

const struct t_case t_connect_cases[] = {
	{"a controller is enabled with the kernel host's commands", sequence},
	{"a queue pair connects with its data in the capsule", queue_pair},
	{"wrong options of a queue pair are named with their values",
	 wrong_options_of_a_queue_pair},
	{"a queue is never deeper than the target accepted", smaller_queue},
	{"an enabled controller is disabled first", enabled_before},
	{"refusals of the transport are told in words", refused},
	{"refusals of Connect name the field", connect_statuses},
	{"controllers that cannot be used are refused", controllers_refused},
	{"a controller that never gets ready is given up after CAP.TO", not_ready},
	{"wrong options are refused", bad_options},
	{"disconnecting shuts the controller down", connect_shutdown},
	{"a handle can be freed in every state", free_while_connecting},
	{NULL, NULL},
};
