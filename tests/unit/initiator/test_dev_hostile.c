/* SPDX-License-Identifier: BSD-3-Clause */
/* A device whose controllers say what makes no sense: other paths must serve on. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#include "suites.h"
#include "t_dev.h"

/* The controller at 192.0.2.2 says that the namespace has one block. */
static bool second_is_small(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			    const void *data, size_t len)
{
	struct nvme_id_ns ns = {.nsze = htole64(1), .ncap = htole64(1)};

	if (conn != t_conn_to(f, 2, false) || sqe->opcode != nvme_admin_identify ||
	    (le32toh(sqe->cdw10) & 0xff) != NVME_IDENTIFY_CNS_NS)
		return false;
	ns.lbaf[0].ds = 9;
	return t_answer_data(f, conn, sqe, &ns, sizeof(ns));
}

static uint64_t dev_blocks(struct t_dev *d)
{
	struct rdinit_dev_info info;

	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL_FATAL(rdinit_dev_get_info(d->dev, &info), 0);
	return info.blocks;
}

static void a_lost_path_takes_its_size_along(void)
{
	T_DEV(d);

	t_fake.hook = second_is_small;
	t_dev_open(&d, 2);
	CU_ASSERT_EQUAL(dev_blocks(&d), 1);
	t_fake.down = 1u << 2;
	t_break(t_conn_to(&t_fake, 2, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, 2, false), -ECONNRESET);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 1), RDINIT_DEV_PATH_WAITING);
	CU_ASSERT_EQUAL(dev_blocks(&d), T_DISK_BLOCKS);
	CU_ASSERT_EQUAL(d.resized, 2);
}

static bool has_no_namespace(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			     const void *data, size_t len)
{
	if (conn != t_conn_to(f, 1, false) || sqe->opcode != nvme_admin_identify ||
	    (le32toh(sqe->cdw10) & 0xff) != NVME_IDENTIFY_CNS_NS_DESC_LIST)
		return false;
	t_answer(conn, sqe, 0, NVME_SC_INVALID_NS | NVME_STATUS_DNR);
	return true;
}

/* The namespace is added between two commands. Its identifiers must not be taken for missing. */
static void a_namespace_that_appears_is_read_from_the_beginning(void)
{
	T_DEV(d);

	t_dev_open(&d, 1);
	t_fake.down = 1u << 1;
	t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, 1, false), -ECONNRESET);
	t_dev_settle(&d);
	t_fake.down = 0;
	t_fake.hook = has_no_namespace;
	CU_ASSERT_EQUAL(rdinit_dev_reconnect(d.dev), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_WAITING);
	t_fake.hook = NULL;
	CU_ASSERT_EQUAL(rdinit_dev_reconnect(d.dev), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
}

static bool refuse_one_read(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			    const void *data, size_t len)
{
	if (conn != t_conn_to(f, 1, true) || sqe->opcode != nvme_cmd_read)
		return false;
	f->hook = NULL;
	t_answer(conn, sqe, 0, NVME_SC_NS_NOT_READY | NVME_STATUS_CRD1);
	return true;
}

/* CRDT1 is 6553.5 s. */
static void a_retry_is_delayed_for_as_long_as_a_command_may_take(void)
{
	T_DEV(d);
	struct t_done done = {0};
	uint8_t buf[512];

	d.opts.io_timeout_ms = 2000;
	t_fake.id.crdt1 = htole16(UINT16_MAX);
	t_dev_open(&d, 1);
	t_fake.hook = refuse_one_read;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &done), 0);
	t_dev_pass(&d, 1900);
	CU_ASSERT_EQUAL(done.calls, 0);
	t_dev_pass(&d, 200);
	T_ENDED(done, 0);
}

static unsigned int refusals; /* of the halves of a pair, with this status code of the path */
static uint16_t refusal;

static bool refuse_halves(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len)
{
	if (conn != t_conn_to(f, 1, true) || !(sqe->flags & NVME_CMD_FUSE_MASK))
		return false;
	t_answer(conn, sqe, 0, refusals ? NVME_SCT_PATH << 8 | refusal : 0);
	refusals -= refusals != 0;
	return true;
}

static void send_refused_pair(uint16_t status_code, struct t_done *done)
{
	T_DEV(d);
	struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_COMPARE_WRITE, 0, 1);
	uint8_t buf[512] = {0};

	t_fake.id.fuses = htole16(NVME_CTRL_FUSES_COMPARE_AND_WRITE);
	t_dev_open(&d, 1);
	t_fake.hook = refuse_halves;
	refusals = 2;
	refusal = status_code;
	io.buf = buf;
	io.write_buf = buf;
	CU_ASSERT_EQUAL(rdinit_dev_submit(d.chan, &io, t_done_fn, done, NULL), 0);
	t_dev_pass(&d, 50);
	CU_ASSERT_EQUAL(refusals, 0);
	CU_ASSERT_EQUAL(done->calls, 1);
}

static void a_pair_that_is_sent_again_has_no_earlier_status(void)
{
	struct t_done done = {0};

	send_refused_pair(NVME_SC_ANA_INACCESSIBLE, &done);
	CU_ASSERT_EQUAL(done.err, 0);
	CU_ASSERT_EQUAL(done.status, 0);
}

static void a_pair_that_may_have_been_executed_is_not_sent_again(void)
{
	struct t_done done = {0};

	send_refused_pair(NVME_SC_ANA_INTERNAL_PATH_ERROR, &done);
	CU_ASSERT_EQUAL(done.err, -EREMOTEIO);
}

static int open_with_kas(struct t_dev *d, uint16_t kas)
{
	t_dev_init(d);
	t_fake.id.kas = htole16(kas);
	t_dev_create(d, 1);
	return rdinit_dev_open(d->dev);
}

/* Writes that were lost would wait for hours. */
static void a_keep_alive_timer_of_hours_is_no_path(void)
{
	struct t_dev d;

	CU_ASSERT_EQUAL(open_with_kas(&d, 1200), 0);
	t_dev_free(&d);
	CU_ASSERT_EQUAL(open_with_kas(&d, UINT16_MAX), -ENOTSUP);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "5000 ms up to 6553500 ms (KAS 65535)"));
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_FAILED);
	t_dev_free(&d);
}

static unsigned int n_reads;   /* that arrived */
static uint64_t refuse_until;  /* on the fake's clock; the controller refuses reads until then */
static uint64_t changes_until; /* until then the log page says that a transition is under way */

/*
 * A controller with one ANA group refuses reads with the path related status @refusal. Its log page
 * says that the namespace is optimized, whatever it answers to reads.
 */
static bool refuse_reads_with_ana(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
				  const void *data, size_t len)
{
	unsigned char log[sizeof(struct nvme_ana_log) + sizeof(struct nvme_ana_group_desc)] = {0};
	struct nvme_ana_group_desc desc = {.grpid = htole32(1), .state = NVME_ANA_STATE_OPTIMIZED};
	struct nvme_ana_log head = {.ngrps = htole16(1)};

	if (conn == t_conn_to(f, 1, true) && sqe->opcode == nvme_cmd_read) {
		n_reads++;
		if (f->now >= refuse_until)
			return false;
		t_answer(conn, sqe, 0, NVME_SCT_PATH << 8 | refusal);
		return true;
	}
	if (conn != t_conn_to(f, 1, false) || sqe->opcode != nvme_admin_get_log_page ||
	    (le32toh(sqe->cdw10) & 0xff) != NVME_LOG_LID_ANA)
		return false;
	if (f->now < changes_until)
		desc.state = NVME_ANA_STATE_CHANGE;
	memcpy(log, &head, sizeof(head));
	memcpy(log + sizeof(head), &desc, sizeof(desc));
	return t_answer_data(f, conn, sqe, log, sizeof(log));
}

/* Commands have one second; ANATT is 4 s. */
static void open_with_ana(struct t_dev *d)
{
	t_dev_init(d);
	d->opts.io_timeout_ms = 1000;
	t_fake.id.cmic = NVME_CTRL_CMIC_MULTI_ANA_REPORTING;
	t_fake.id.nanagrpid = htole32(1);
	t_fake.id.anatt = 4;
	t_fake.anagrpid = 1;
	t_fake.hook = refuse_reads_with_ana;
	refuse_until = changes_until = 0;
	t_dev_open(d, 1);
	n_reads = 0;
}

static void refused_for_ever(uint16_t status_code)
{
	struct t_done done = {0};
	uint8_t buf[512];
	struct t_dev d T_ENDS(t_dev_free);

	open_with_ana(&d);
	refuse_until = UINT64_MAX;
	refusal = status_code;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &done), 0);
	t_dev_pass(&d, 8000);
	T_ENDED(done, -EIO);
	CU_ASSERT_EQUAL(done.status, NVME_SCT_PATH << 8 | status_code);
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, "refused repeatedly"));
	/* 1, 2, 4 to 512 ms, then 1 s each until the sum is 4 s */
	CU_ASSERT_EQUAL(n_reads, 14);
}

static void statuses_that_contradict_the_ana_log_have_an_end(void)
{
	refused_for_ever(NVME_SC_ANA_INACCESSIBLE);
	refused_for_ever(NVME_SC_ANA_TRANSITION);
	refused_for_ever(NVME_SC_ANA_PERSISTENT_LOSS);
}

/* The log page lags: for less than ANATT, but for longer than a command may take. */
static void an_ana_log_may_lag_for_as_long_as_a_transition(void)
{
	struct t_done done = {0};
	uint8_t buf[512];
	struct t_dev d T_ENDS(t_dev_free);

	open_with_ana(&d);
	refuse_until = t_fake.now + 3900 * RD_NSEC_PER_MSEC;
	refusal = NVME_SC_ANA_TRANSITION;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &done), 0);
	t_dev_pass(&d, 3800);
	CU_ASSERT_EQUAL(done.calls, 0);
	t_dev_pass(&d, 1300);
	T_ENDED(done, 0);
	CU_ASSERT_EQUAL(d.lost, 0);
}

/* The log page tells of the transition, and an event that it is over. */
static void time_in_transition_does_not_count(void)
{
	const uint32_t ana = NVME_LOG_LID_ANA << 16 | NVME_AER_NOTICE_ANA << 8 | NVME_AER_NOTICE;
	struct t_done done = {0};
	unsigned int i;
	uint8_t buf[512];
	struct t_dev d T_ENDS(t_dev_free);

	open_with_ana(&d);
	refusal = NVME_SC_ANA_TRANSITION;
	refuse_until = UINT64_MAX;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &done), 0);
	for (i = 0; i < 3; i++) {
		changes_until = UINT64_MAX;
		t_dev_pass(&d, 3500);
		CU_ASSERT_EQUAL(done.calls, 0);
		changes_until = 0;
		if (i == 2)
			refuse_until = 0;
		rdi_path_event(d.dev->paths[0], ana);
		t_dev_settle(&d);
	}
	t_dev_pass(&d, 100);
	/* two in each round: after the event, and once more while the log page says optimized */
	CU_ASSERT_EQUAL(n_reads, 6);
	T_ENDED(done, 0);
	CU_ASSERT_EQUAL(d.lost, 0);
}

/* The header of a log with one record; nothing can be registered after it. */
static bool log_before_memory_ends(struct t_fake *f, struct t_conn *conn,
				   const struct nvme_sqe *sqe, const void *data, size_t len)
{
	struct nvmf_discovery_log head = {.numrec = htole64(1)};

	if (sqe->opcode != nvme_admin_get_log_page)
		return false;
	f->reg_err = -ENOMEM;
	return t_answer_data(f, conn, sqe, &head, sizeof(head));
}

static void a_discovery_log_that_finds_no_memory_ends_the_attempt(void)
{
	T_DEV(d);
	struct t_done done = {0};

	t_fake.id.cntrltype = NVME_CTRL_CNTRLTYPE_DISCOVERY;
	t_fake.hook = log_before_memory_ends;
	t_dev_create_discovery(&d);
	CU_ASSERT_EQUAL(rdinit_dev_open_async(d.dev, t_done_fn, &done), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t_fake.reg_err, -ENOMEM);
	T_ENDED(done, -ENOMEM);
}

/* One record, with a name as its address. */
static bool log_has_a_name(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			   const void *data, size_t len)
{
	struct nvmf_discovery_log head = {.numrec = htole64(1)};
	struct nvmf_disc_log_entry record = {.trtype = NVMF_TRTYPE_RDMA,
					     .adrfam = NVMF_ADDR_FAMILY_IP4,
					     .subtype = NVME_NQN_NVME,
					     .trsvcid = "4420",
					     .subnqn = "nqn.2024-01.test:x",
					     .traddr = "localhost"};

	if (sqe->opcode != nvme_admin_get_log_page)
		return false;
	if (sqe->cdw12)
		return t_answer_data(f, conn, sqe, &record, sizeof(record));
	return t_answer_data(f, conn, sqe, &head, sizeof(head));
}

static void names_in_a_discovery_log_are_not_resolved(void)
{
	T_DEV(d);

	t_fake.id.cntrltype = NVME_CTRL_CNTRLTYPE_DISCOVERY;
	t_fake.hook = log_has_a_name;
	t_dev_create_discovery(&d);
	CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), -ENODEV);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(rdinit_get_error(), "has 1 records, and none is an RDMA path"));
	CU_ASSERT_EQUAL(d.dev->n_paths, 0);
}

static unsigned int reads_sent;
static bool reads_end; /* a Read is answered */

static bool leave_read(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		       const void *data, size_t len)
{
	if (conn != t_conn_to(f, 1, true) || sqe->opcode != nvme_cmd_read)
		return false;
	reads_sent++;
	return !reads_end;
}

/* The target closes the connection 1.1 s after each Read. Returns the number of connections that it
 * has closed when the Read ended, at most @most. */
static unsigned int close_at_reads(struct t_dev *d, struct t_done *done, unsigned int most)
{
	static uint8_t buf[512];
	unsigned int n;

	t_dev_open(d, 1);
	t_fake.hook = leave_read;
	reads_sent = 0;
	reads_end = false;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d->chan, 1, 1, buf, 0, t_done_fn, done), 0);
	for (n = 0; n < most && !done->calls; n++) {
		t_dev_pass(d, 1100);
		CU_ASSERT_EQUAL(reads_sent, n + 1);
		t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
		t_break(t_conn_to(&t_fake, 1, false), -ECONNRESET);
		t_dev_settle(d);
		/* It is connected again at once. */
		CU_ASSERT_EQUAL_FATAL(t_dev_path_state(d, 0), RDINIT_DEV_PATH_LIVE);
	}
	return n;
}

static void a_command_is_not_sent_for_ever(void)
{
	T_DEV(d);
	struct t_done done = {0};

	d.opts.ctrl_loss_tmo_ms = 30000;
	/* The time begins with the first loss. */
	CU_ASSERT_EQUAL(close_at_reads(&d, &done, 100), 1 + (30000 + 1099) / 1100);
	T_ENDED(done, -EREMOTEIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, "29 connections were lost"));
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, "ctrl_loss_tmo_ms (30000)"));
}

static void each_path_can_be_lost_before_a_command_ends(void)
{
	T_DEV(d);
	struct t_done done = {0};

	d.opts.ctrl_loss_tmo_ms = 1000;
	CU_ASSERT_EQUAL(close_at_reads(&d, &done, 100), RDINIT_DEV_PATHS_MAX + 1);
	CU_ASSERT_EQUAL(done.err, -EREMOTEIO);
}

static void without_a_limit_a_command_is_sent_for_ever(void)
{
	T_DEV(d);
	struct t_done done = {0};

	d.opts.ctrl_loss_tmo_ms = RDINIT_DEV_NEVER;
	CU_ASSERT_EQUAL(close_at_reads(&d, &done, 300), 300);
	CU_ASSERT_EQUAL(done.calls, 0);
	reads_end = true;
	t_dev_pass(&d, 1100);
	t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, 1, false), -ECONNRESET);
	t_dev_settle(&d);
	T_ENDED(done, 0);
}

const struct t_case t_dev_hostile_cases[] = {
	{"a command is not sent for ever to a target that closes at it",
	 a_command_is_not_sent_for_ever},
	{"each path can be lost before a command ends",
	 each_path_can_be_lost_before_a_command_ends},
	{"without a limit a command is sent for ever", without_a_limit_a_command_is_sent_for_ever},
	{"a lost path takes its size along", a_lost_path_takes_its_size_along},
	{"a namespace that appears is read from the beginning",
	 a_namespace_that_appears_is_read_from_the_beginning},
	{"a retry is delayed for as long as a command may take",
	 a_retry_is_delayed_for_as_long_as_a_command_may_take},
	{"a pair that is sent again has no earlier status",
	 a_pair_that_is_sent_again_has_no_earlier_status},
	{"a pair that may have been executed is not sent again",
	 a_pair_that_may_have_been_executed_is_not_sent_again},
	{"a keep-alive timer of hours is no path", a_keep_alive_timer_of_hours_is_no_path},
	{"statuses that contradict the ANA log have an end",
	 statuses_that_contradict_the_ana_log_have_an_end},
	{"an ANA log may lag for as long as a transition",
	 an_ana_log_may_lag_for_as_long_as_a_transition},
	{"time in transition does not count", time_in_transition_does_not_count},
	{"a discovery log that finds no memory ends the attempt",
	 a_discovery_log_that_finds_no_memory_ends_the_attempt},
	{"names in a discovery log are not resolved", names_in_a_discovery_log_are_not_resolved},
	{NULL, NULL},
};
