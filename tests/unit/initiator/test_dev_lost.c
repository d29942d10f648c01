/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that loses paths: which commands are sent again, when, and by which path. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>

#include "suites.h"
#include "t_dev.h"

/* With the default keep-alive timeout of 5 s: twice that time plus one second. */
#define STALE_MS 11000

/* The number of I/O commands that arrived at 192.0.2.n. */
struct arrived {
	struct t_conn *conn;
	struct nvme_sqe sqe;
	unsigned int path;
};

static struct arrived arrived[64];
static unsigned int n_arrived;
static unsigned int silent; /* bit n: 192.0.2.n answers no I/O command */
static uint32_t silent_lba; /* no command for the blocks from there on is answered; 0: none */
static unsigned int aborts;
static struct nvme_sqe last_abort;

static unsigned int path_of(struct t_fake *f, const struct t_conn *conn)
{
	unsigned int n;

	for (n = 1; n < 4; n++)
		if (t_conn_to(f, n, true) == conn)
			return n;
	return 0;
}

static bool note_command(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			 const void *data, size_t len)
{
	unsigned int path = path_of(f, conn);

	if (sqe->opcode == NVMF_OPCODE)
		return false;
	if (!path) {
		if (sqe->opcode == nvme_admin_abort_cmd) {
			aborts++;
			last_abort = *sqe;
		}
		return false;
	}
	arrived[n_arrived].conn = conn;
	arrived[n_arrived].sqe = *sqe;
	arrived[n_arrived++].path = path;
	if (silent & 1u << path || (silent_lba && le32toh(sqe->cdw10) == silent_lba))
		return true;
	if (sqe->opcode == nvme_cmd_compare || sqe->opcode == nvme_cmd_write_zeroes ||
	    sqe->opcode == nvme_cmd_verify || sqe->opcode == nvme_cmd_copy) {
		t_answer(conn, sqe, 0, 0);
		return true;
	}
	return false;
}

static void open_paths(struct t_dev *d, unsigned int paths)
{
	t_fake.hook = note_command;
	n_arrived = aborts = 0;
	silent = silent_lba = 0;
	t_fake.id.oncs = htole16(NVME_CTRL_ONCS_COMPARE | NVME_CTRL_ONCS_WRITE_ZEROES |
				 NVME_CTRL_ONCS_VERIFY | NVME_CTRL_ONCS_COPY);
	t_dev_open(d, paths);
}

/* The path is lost, and the target does not listen there until path_up(). */
static void path_down(struct t_dev *d, unsigned int n)
{
	t_fake.down |= 1u << n;
	t_break(t_conn_to(&t_fake, n, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, n, false), -ECONNRESET);
	t_dev_settle(d);
}

static void path_up(struct t_dev *d, unsigned int n)
{
	t_fake.down &= ~(1u << n);
	CU_ASSERT_EQUAL(rdinit_dev_reconnect(d->dev), 0);
	t_dev_settle(d);
	CU_ASSERT_EQUAL(t_dev_path_state(d, n - 1), RDINIT_DEV_PATH_LIVE);
}

static void reads_and_writes_are_sent_again_by_the_same_path(void)
{
	T_DEV(d);
	struct t_done rd = {0}, wr = {0}, fl = {0};
	unsigned char in[512], out[512] = {9};

	open_paths(&d, 1);
	silent = 1u << 1;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, in, 0, t_done_fn, &rd), 0);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 2, 1, out, 0, t_done_fn, &wr), 0);
	CU_ASSERT_EQUAL(rdinit_dev_flush_async(d.chan, t_done_fn, &fl), 0);
	t_dev_settle(&d);
	path_down(&d, 1);
	CU_ASSERT_EQUAL(rd.calls + wr.calls + fl.calls, 0);
	silent = 0;
	path_up(&d, 1);
	/* No time has passed: the target's fence protects this path. */
	CU_ASSERT_EQUAL(rd.calls, 1);
	CU_ASSERT_EQUAL(wr.calls, 1);
	CU_ASSERT_EQUAL(fl.calls, 1);
	CU_ASSERT_EQUAL(rd.err | wr.err | fl.err, 0);
	CU_ASSERT_EQUAL(n_arrived, 6);
	CU_ASSERT_EQUAL(t_fake.disk[2 * T_DISK_BLOCK], 9);
	CU_ASSERT_EQUAL(d.dev->guards.count, 0);
}

#define LARGE   64u /* blocks */
#define AT_ONCE 16u /* of them in one command, with an MDTS of 1 */

static unsigned char from[LARGE * T_DISK_BLOCK], to[LARGE * T_DISK_BLOCK];

static bool disk_has(const unsigned char *data, uint64_t lba)
{
	return memcmp(data, t_fake.disk + lba * T_DISK_BLOCK, sizeof(from)) == 0;
}

/* The largest command that arrived since the one of number @n. */
static unsigned int most_blocks(unsigned int n)
{
	unsigned int most = 0;

	for (; n < n_arrived; n++) {
		unsigned int blocks = (le32toh(arrived[n].sqe.cdw12) & 0xffff) + 1;

		most = blocks > most ? blocks : most;
	}
	return most;
}

/* The controller comes back and transfers less at once. */
static void shrink_transfers(struct t_dev *d)
{
	path_down(d, 1);
	silent = silent_lba = 0;
	t_fake.id.mdts = 1;
	path_up(d, 1);
}

static void open_large(struct t_dev *d)
{
	unsigned int i;

	t_dev_init(d);
	t_fake.mssrl = LARGE;
	open_paths(d, 1);
	for (i = 0; i < sizeof(from); i++)
		t_fake.disk[i] = from[i] = (unsigned char)(1 + i % 251);
	memset(to, 0, sizeof(to));
}

static void a_path_that_transfers_less_than_before_gets_parts(void)
{
	struct iovec iov[2] = {{to + sizeof(to) / 2, sizeof(to) / 2}, {to, sizeof(to) / 2}};
	struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_READ, 0, LARGE);
	struct t_done rd = {0}, wr = {0};
	struct rdinit_dev_info info;
	struct t_dev d T_ENDS(t_dev_free);

	open_large(&d);
	silent = 1u << 1;
	io.buf = NULL;
	io.iov = iov;
	io.iovcnt = 2;
	CU_ASSERT_EQUAL(rdinit_dev_submit(d.chan, &io, t_done_fn, &rd, NULL), 0);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 500, LARGE, from, 0, t_done_fn, &wr), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(n_arrived, 2);
	shrink_transfers(&d);
	CU_ASSERT_EQUAL(most_blocks(2), AT_ONCE);
	CU_ASSERT_EQUAL(rd.calls, 1);
	CU_ASSERT_EQUAL(wr.calls, 1);
	CU_ASSERT_EQUAL(rd.err | wr.err, 0);
	CU_ASSERT_EQUAL(memcmp(to + sizeof(to) / 2, from, sizeof(to) / 2), 0);
	CU_ASSERT_EQUAL(memcmp(to, from + sizeof(to) / 2, sizeof(to) / 2), 0);
	CU_ASSERT_TRUE(disk_has(from, 500));
	CU_ASSERT_EQUAL(d.dev->guards.count, 0);
	/* The limit that the program was told first stays good, for reads and writes. */
	rdinit_dev_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_dev_get_info(d.dev, &info), 0);
	CU_ASSERT_EQUAL(info.max_transfer, AT_ONCE * T_DISK_BLOCK);
	CU_ASSERT_EQUAL(rdinit_dev_write(d.chan, 600, LARGE, from, 0), 0);
	CU_ASSERT_TRUE(disk_has(from, 600));
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 600, LARGE, to, 0), 0);
	CU_ASSERT_EQUAL(memcmp(to, from, sizeof(to)), 0);
	io = t_dev_io(RDINIT_DEV_COMPARE, 0, LARGE);
	io.buf = from;
	CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "in one command (8192 bytes)"));
}

/* Whether the commands from number @n on concern blocks @lba to @end, one behind the other. */
static bool cover_blocks(unsigned int n, uint8_t opcode, uint32_t lba, uint32_t end)
{
	for (; n < n_arrived; n++) {
		if (arrived[n].sqe.opcode != opcode || le32toh(arrived[n].sqe.cdw10) != lba)
			return false;
		lba += (le32toh(arrived[n].sqe.cdw12) & 0xffff) + 1;
	}
	return lba == end;
}

static void commands_without_data_are_sent_in_parts_too(void)
{
	static const struct {
		enum rdinit_dev_op op;
		uint8_t opcode;
	} cases[] = {{RDINIT_DEV_WRITE_ZEROES, nvme_cmd_write_zeroes},
		     {RDINIT_DEV_VERIFY, nvme_cmd_verify}};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct rdinit_dev_io io = t_dev_io(cases[i].op, 500, LARGE);
		struct rdinit_dev_info info;
		struct t_done lost = {0};
		struct t_dev d;

		open_large(&d);
		silent = 1u << 1;
		CU_ASSERT_EQUAL(rdinit_dev_submit(d.chan, &io, t_done_fn, &lost, NULL), 0);
		t_dev_settle(&d);
		CU_ASSERT_EQUAL(n_arrived, 1);
		t_fake.id_nvm.wzsl = t_fake.id_nvm.vsl = 1;
		shrink_transfers(&d);
		T_ENDED(lost, 0);
		CU_ASSERT_EQUAL(most_blocks(1), AT_ONCE);
		CU_ASSERT_TRUE(cover_blocks(1, cases[i].opcode, 500, 500 + LARGE));
		CU_ASSERT_EQUAL(d.dev->guards.count, 0);
		n_arrived = 0;
		io.lba = 7;
		CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
		CU_ASSERT_EQUAL(n_arrived, LARGE / AT_ONCE);
		CU_ASSERT_TRUE(cover_blocks(0, cases[i].opcode, 7, 7 + LARGE));
		rdinit_dev_info_init(&info);
		CU_ASSERT_EQUAL(rdinit_dev_get_info(d.dev, &info), 0);
		CU_ASSERT_EQUAL(info.max_write_zeroes, 65536);
		CU_ASSERT_EQUAL(info.max_verify, 65536);
		t_dev_free(&d);
	}
}

/* The second part would read what the first one wrote. */
static void a_copy_to_itself_is_not_sent_in_parts(void)
{
	static const struct {
		uint64_t source, lba;
		unsigned int commands;
	} cases[] = {
		{100, 100 + LARGE / 2, 1},
		{100 + LARGE / 2, 100, 1},
		{100, 100 + LARGE, LARGE / AT_ONCE},
		{100 + LARGE, 100, LARGE / AT_ONCE},
	};
	struct t_dev d T_ENDS(t_dev_free);

	open_large(&d);
	t_fake.mssrl = AT_ONCE;
	shrink_transfers(&d);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdinit_dev_io io = t_dev_io(RDINIT_DEV_COPY, cases[i].lba, LARGE);

		io.source = cases[i].source;
		n_arrived = 0;
		CU_ASSERT_EQUAL(rdinit_dev_run(d.chan, &io), 0);
		CU_ASSERT_EQUAL(n_arrived, cases[i].commands);
	}
}

static void a_part_is_lost_and_sent_again(void)
{
	struct t_done wr = {0};
	struct t_dev d T_ENDS(t_dev_free);

	open_large(&d);
	shrink_transfers(&d);
	silent_lba = 500 + AT_ONCE; /* the second part */
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 500, LARGE, from, 0, t_done_fn, &wr), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(n_arrived, 2);
	CU_ASSERT_EQUAL(rdinit_dev_mem_register(d.chan, to, sizeof(to)), 0);
	CU_ASSERT_EQUAL(rdinit_dev_mem_register(d.chan, from + 48 * T_DISK_BLOCK, 4096), 0);
	CU_ASSERT_EQUAL(rdinit_dev_mem_unregister(d.chan, to), 0);
	CU_ASSERT_EQUAL(rdinit_dev_mem_unregister(d.chan, from + 48 * T_DISK_BLOCK), -EBUSY);
	shrink_transfers(&d);
	T_ENDED(wr, 0);
	CU_ASSERT_EQUAL(n_arrived, 1 + 1 + LARGE / AT_ONCE - 1);
	CU_ASSERT_TRUE(disk_has(from, 500));
	CU_ASSERT_EQUAL(d.dev->guards.count, 0);
}

static void a_write_waits_before_it_takes_another_path(void)
{
	T_DEV(d);
	struct t_done lost = {0}, over = {0}, beside = {0}, rd = {0};
	unsigned char old[1024] = {1}, new[512] = {2}, in[512];

	d.opts.policy = RDINIT_DEV_FAILOVER;
	open_paths(&d, 2);
	silent = 1u << 1;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 2, old, 0, t_done_fn, &lost), 0);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 9, 1, in, 0, t_done_fn, &rd), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(arrived[0].path, 1);
	path_down(&d, 1);
	CU_ASSERT_EQUAL(rd.calls, 1); /* by the other path, at once */
	CU_ASSERT_EQUAL(lost.calls, 0);
	/* The lost write must not overtake a newer write of the same blocks. */
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 5, 1, new, 0, t_done_fn, &over), 0);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 6, 1, new, 0, t_done_fn, &beside), 0);
	t_dev_pass(&d, STALE_MS - 100);
	CU_ASSERT_EQUAL(beside.calls, 1);
	CU_ASSERT_EQUAL(over.calls, 0);
	CU_ASSERT_EQUAL(lost.calls, 0);
	t_dev_pass(&d, 1300); /* the loss was noticed up to a second after the connection broke */
	CU_ASSERT_EQUAL(lost.calls, 1);
	CU_ASSERT_EQUAL(over.calls, 1);
	CU_ASSERT_EQUAL(lost.err | over.err, 0);
	CU_ASSERT_EQUAL(t_fake.disk[4 * T_DISK_BLOCK], 1);
	CU_ASSERT_EQUAL(t_fake.disk[5 * T_DISK_BLOCK], 2); /* the newer write was last */
	CU_ASSERT_EQUAL(d.dev->guards.count, 0);
}

/* 5 s in units of 10 s: the target notices the loss after 10 s, or after 20 s. */
static void a_write_waits_as_long_as_the_controllers_keep_alive_timer(void)
{
	T_DEV(d);
	unsigned char buf[512] = {1};
	struct t_done lost = {0};

	d.opts.policy = RDINIT_DEV_FAILOVER;
	t_fake.id.kas = htole16(100);
	open_paths(&d, 2);
	silent = 1u << 1;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 1, buf, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	path_down(&d, 1);
	t_dev_pass(&d, 20900);
	CU_ASSERT_EQUAL(lost.calls, 0);
	t_dev_pass(&d, 1300);
	T_ENDED(lost, 0);
}

static uint8_t first_path_ana;

/* note_command() of controllers with ANA: only the state of 192.0.2.1 changes. */
static bool note_with_ana(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len)
{
	unsigned char log[sizeof(struct nvme_ana_log) + sizeof(struct nvme_ana_group_desc)] = {0};
	struct nvme_ana_group_desc desc = {.state = NVME_ANA_STATE_OPTIMIZED};
	struct nvme_ana_log head = {.ngrps = htole16(1)};

	if (path_of(f, conn) || sqe->opcode != nvme_admin_get_log_page ||
	    (le32toh(sqe->cdw10) & 0xff) != NVME_LOG_LID_ANA)
		return note_command(f, conn, sqe, data, len);
	if (t_conn_to(f, 1, false) == conn)
		desc.state = first_path_ana;
	memcpy(log, &head, sizeof(head));
	memcpy(log + sizeof(head), &desc, sizeof(desc));
	return t_answer_data(f, conn, sqe, log, sizeof(log));
}

static void a_lost_write_is_not_sent_to_a_path_that_is_inaccessible(void)
{
	T_DEV(d);
	unsigned char buf[512] = {1};
	struct t_done lost = {0};

	d.opts.policy = RDINIT_DEV_FAILOVER;
	t_fake.id.cmic = NVME_CTRL_CMIC_MULTI_ANA_REPORTING;
	t_fake.id.nanagrpid = htole32(1);
	t_fake.hook = note_with_ana;
	first_path_ana = NVME_ANA_STATE_OPTIMIZED;
	n_arrived = 0;
	silent = 1u << 1;
	t_dev_open(&d, 2);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 1, buf, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(n_arrived, 1);
	first_path_ana = NVME_ANA_STATE_INACCESSIBLE;
	path_down(&d, 1);
	path_up(&d, 1);
	t_dev_pass(&d, 1000);
	CU_ASSERT_EQUAL(n_arrived, 1);
	t_dev_pass(&d, STALE_MS);
	CU_ASSERT_EQUAL(n_arrived, 2);
	CU_ASSERT_EQUAL(arrived[1].path, 2);
	T_ENDED(lost, 0);
}

/* Group 1 is optimized, group 2 is inaccessible. */
static bool answer_two_groups(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			      const void *data, size_t len)
{
	const struct nvme_ana_log head = {.ngrps = htole16(2)};
	const struct nvme_ana_group_desc desc[] = {
		{.grpid = htole32(1), .state = NVME_ANA_STATE_OPTIMIZED},
		{.grpid = htole32(2), .state = NVME_ANA_STATE_INACCESSIBLE},
	};
	unsigned char log[sizeof(head) + sizeof(desc)];

	if (path_of(f, conn) || sqe->opcode != nvme_admin_get_log_page ||
	    (le32toh(sqe->cdw10) & 0xff) != NVME_LOG_LID_ANA)
		return note_command(f, conn, sqe, data, len);
	memcpy(log, &head, sizeof(head));
	memcpy(log + sizeof(head), desc, sizeof(desc));
	return t_answer_data(f, conn, sqe, log, sizeof(log));
}

/* The event of the ANA change comes first: the log is read before the new group is known. */
static void a_namespace_that_moves_has_the_state_of_its_new_group(void)
{
	T_DEV(d);
	const uint32_t ana = NVME_LOG_LID_ANA << 16 | NVME_AER_NOTICE_ANA << 8 | NVME_AER_NOTICE;
	const uint32_t changed =
		NVME_LOG_LID_CHANGED_NS << 16 | NVME_AER_NOTICE_NS_CHANGED << 8 | NVME_AER_NOTICE;
	struct rdinit_dev_path_info info;

	t_fake.id.cmic = NVME_CTRL_CMIC_MULTI_ANA_REPORTING;
	t_fake.id.nanagrpid = htole32(2);
	t_fake.id.anagrpmax = htole32(2);
	t_fake.anagrpid = 1;
	t_fake.hook = answer_two_groups;
	t_dev_open(&d, 1);
	t_fake.anagrpid = 2;
	rdi_path_event(d.dev->paths[0], ana);
	rdi_path_event(d.dev->paths[0], changed);
	t_dev_settle(&d);
	rdinit_dev_path_info_init(&info);
	CU_ASSERT_EQUAL(rdinit_dev_get_path(d.dev, 0, &info), 0);
	CU_ASSERT_EQUAL(info.ana_state, NVME_ANA_STATE_INACCESSIBLE);
}

static void a_lost_write_can_end_as_unknown(void)
{
	T_DEV(d);
	struct t_done lost = {0}, over = {0};
	unsigned char buf[512] = {1};

	d.opts.no_resend_writes = true;
	open_paths(&d, 2);
	silent = 6;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 1, buf, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	path_down(&d, arrived[0].path);
	silent = 0;
	T_ENDED(lost, -EREMOTEIO);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 1, buf, 0, t_done_fn, &over), 0);
	t_dev_pass(&d, STALE_MS - 100);
	CU_ASSERT_EQUAL(over.calls, 0);
	t_dev_pass(&d, 1300);
	T_ENDED(over, 0);
}

static void compare_is_not_sent_again(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];

	open_paths(&d, 1);
	silent = 1u << 1;
	t_dev_submit(&d, RDINIT_DEV_COMPARE, buf, &done);
	path_down(&d, 1);
	T_ENDED(done, -EREMOTEIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, "unknown"));
	/* A command that was not sent needs no guard. */
	memset(&done, 0, sizeof(done));
	t_dev_submit(&d, RDINIT_DEV_COMPARE, buf, &done);
	silent = 0;
	path_up(&d, 1);
	T_ENDED(done, 0);
}

/* If the name now has another address, it may be another target without this fence. */
static void another_address_has_no_fence(void)
{
	T_DEV(d);
	struct t_done lost = {0};
	unsigned char buf[512] = {1};

	open_paths(&d, 1);
	silent = 1u << 1;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 1, buf, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	snprintf(d.dev->paths[0]->uri.traddr, sizeof(d.dev->paths[0]->uri.traddr), "192.0.2.2");
	path_down(&d, 1);
	t_dev_pass(&d, STALE_MS - 100);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	CU_ASSERT_EQUAL(lost.calls, 0);
	t_dev_pass(&d, 1300);
	T_ENDED(lost, 0);
}

/* ---- time limits ---- */

static void a_late_command_is_aborted_then_its_path_is_reset(void)
{
	T_DEV(d);
	struct t_done late = {0}, other = {0};
	unsigned char buf[512];
	unsigned int i;

	d.opts.io_timeout_ms = 2000;
	open_paths(&d, 2);
	silent = 1u << 1;
	for (i = 0; n_arrived == 0 || arrived[n_arrived - 1].path != 1; i++) {
		CU_ASSERT_EQUAL_FATAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &late),
				      0);
		t_dev_settle(&d);
	}
	t_dev_pass(&d, 1900);
	CU_ASSERT_EQUAL(aborts, 0);
	t_dev_pass(&d, 800);
	CU_ASSERT_EQUAL(aborts, 1);
	CU_ASSERT_EQUAL(le32toh(last_abort.cdw10),
			1u | (uint32_t)le16toh(arrived[n_arrived - 1].sqe.cid) << 16);
	CU_ASSERT_EQUAL(d.lost, 0);
	/* Not answered either: the path is reset, and the command takes the other path. */
	t_dev_pass(&d, 3000);
	CU_ASSERT_EQUAL(d.lost, 1);
	CU_ASSERT_EQUAL(late.calls, i);
	CU_ASSERT_EQUAL(late.err, 0);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 1), RDINIT_DEV_PATH_LIVE);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &other), 0);
}

static void three_time_limits_are_enough(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];

	d.opts.io_timeout_ms = 1000;
	open_paths(&d, 1);
	silent = 1u << 1;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &done), 0);
	t_dev_pass(&d, 12000);
	T_ENDED(done, -ETIMEDOUT);
	CU_ASSERT_EQUAL(n_arrived, 3);
	CU_ASSERT_EQUAL(d.lost, 3);
}

/* The command goes to another path each time its own one is silent, and no limit counts. */
static void a_limit_on_a_silent_path_counts_against_the_path(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];
	unsigned int i, before;

	d.opts.io_timeout_ms = 1000;
	open_paths(&d, 2);
	silent = 1u << 1;
	for (i = 0; n_arrived == 0 || arrived[n_arrived - 1].path != 1; i++) {
		CU_ASSERT_EQUAL_FATAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &done),
				      0);
		t_dev_settle(&d);
	}
	t_dev_pass(&d, 4000);
	CU_ASSERT_EQUAL(done.calls, i);
	CU_ASSERT_EQUAL(done.err, 0);
	/* It is live again, and not used. */
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	before = n_arrived;
	for (i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &done), 0);
		t_dev_settle(&d);
	}
	CU_ASSERT_EQUAL_FATAL(n_arrived, before + 4);
	for (i = before; i < n_arrived; i++)
		CU_ASSERT_EQUAL(arrived[i].path, 2);
	/* A minute later it gets commands again, and answers. */
	silent = 0;
	t_dev_pass(&d, 61000);
	before = n_arrived;
	for (i = 0; i < 4; i++) {
		CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &done), 0);
		t_dev_settle(&d);
	}
	CU_ASSERT_TRUE(arrived[before].path == 1 || arrived[before + 1].path == 1);
}

/* A lost write goes by the path that answers, although the other one is connected again. */
static void a_lost_write_is_not_sent_by_a_silent_path(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512] = {9};
	unsigned int i;

	d.opts.io_timeout_ms = 1000;
	open_paths(&d, 2);
	silent = 1u << 1;
	for (i = 0; n_arrived == 0 || arrived[n_arrived - 1].path != 1; i++) {
		CU_ASSERT_EQUAL_FATAL(
			rdinit_dev_write_async(d.chan, 1, 1, buf, 0, t_done_fn, &done), 0);
		t_dev_settle(&d);
	}
	t_dev_pass(&d, 30000);
	CU_ASSERT_EQUAL(done.calls, i);
	CU_ASSERT_EQUAL(done.err, 0);
	CU_ASSERT_EQUAL(arrived[n_arrived - 1].path, 2);
	CU_ASSERT_EQUAL(d.lost, 1);
}

static void the_first_limit_on_another_path_counts_against_that_path(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];

	d.opts.io_timeout_ms = 1000;
	open_paths(&d, 2);
	path_down(&d, 2);
	silent = 1u << 1 | 1u << 2;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 1, 1, buf, 0, t_done_fn, &done), 0);
	t_dev_pass(&d, 3500);
	CU_ASSERT_EQUAL(aborts, 2);
	path_down(&d, 1);
	path_up(&d, 2);
	CU_ASSERT_EQUAL(arrived[n_arrived - 1].path, 2);
	t_dev_pass(&d, 1300);
	CU_ASSERT_EQUAL(aborts, 3);
	silent = 0;
	t_dev_pass(&d, 2000);
	T_ENDED(done, 0);
}

static void a_command_has_a_time_limit_of_its_own(void)
{
	T_DEV(d);
	struct t_done done = {0};
	struct rdinit_dev_io io;
	unsigned char buf[512];

	open_paths(&d, 1);
	silent = 1u << 1;
	io = t_dev_io(RDINIT_DEV_READ, 0, 1);
	io.buf = buf;
	io.timeout_ms = 100;
	CU_ASSERT_EQUAL(rdinit_dev_submit(d.chan, &io, t_done_fn, &done, NULL), 0);
	t_dev_pass(&d, 1200);
	CU_ASSERT_EQUAL(aborts, 1);
	CU_ASSERT_EQUAL(d.lost, 0);
}

/* Such as Authentication Send: its user is no command of the caller. */
static void a_late_command_of_the_library_itself_ends_the_queue(void)
{
	struct rdi_io none = {.index = 0};
	struct rdi_req req = {.internal = true, .user = &none};
	struct rdi_queue q = {.state = RDI_Q_LIVE};

	CU_ASSERT_FALSE(rdi_io_overdue(&q, &req));
	CU_ASSERT_EQUAL(none.limits, 0);
	CU_ASSERT_EQUAL(none.aborts, 0);
}

static void both_halves_of_a_pair_are_aborted(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];

	t_fake.id.fuses = htole16(NVME_CTRL_FUSES_COMPARE_AND_WRITE);
	d.opts.io_timeout_ms = 2000;
	open_paths(&d, 1);
	silent = 1u << 1;
	t_dev_submit(&d, RDINIT_DEV_COMPARE_WRITE, buf, &done);
	t_dev_pass(&d, 2700);
	CU_ASSERT_EQUAL(n_arrived, 2);
	CU_ASSERT_EQUAL(aborts, 2);
	CU_ASSERT_EQUAL(d.lost, 0);
	t_answer(arrived[0].conn, &arrived[0].sqe, 0, NVME_SC_ABORT_REQ);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(done.calls, 0);
	t_answer(arrived[1].conn, &arrived[1].sqe, 0, NVME_SC_FUSED_FAIL);
	t_dev_settle(&d);
	T_ENDED(done, -ETIMEDOUT);
}

/* The halves of a pair are answered with @status, the half @early first. */
static void answer_pair(unsigned int early, const uint16_t *status, uint16_t reported)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];

	t_fake.id.fuses = htole16(NVME_CTRL_FUSES_COMPARE_AND_WRITE);
	open_paths(&d, 1);
	silent = 1u << 1;
	t_dev_submit(&d, RDINIT_DEV_COMPARE_WRITE, buf, &done);
	t_answer(arrived[early].conn, &arrived[early].sqe, 0, status[early]);
	t_answer(arrived[!early].conn, &arrived[!early].sqe, 0, status[!early]);
	t_dev_settle(&d);
	T_ENDED(done, -EIO);
	CU_ASSERT_EQUAL(done.status, reported);
}

static void a_pair_reports_why_it_failed(void)
{
	static const uint16_t differ[] = {NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED,
					  NVME_SC_FUSED_FAIL};
	static const uint16_t conflict[] = {NVME_STATUS_DNR | NVME_SC_FUSED_FAIL,
					    NVME_SC_RESERVATION_CONFLICT};

	for (unsigned int early = 0; early < 2; early++) {
		answer_pair(early, differ, differ[0]);
		answer_pair(early, conflict, conflict[1]);
	}
}

/* ---- cancelling ---- */

static void a_command_that_waits_is_cancelled(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];
	uint64_t id;

	open_paths(&d, 1);
	path_down(&d, 1);
	id = t_dev_submit(&d, RDINIT_DEV_READ, buf, &done);
	CU_ASSERT_EQUAL(rdinit_dev_cancel(d.chan, id), 0);
	CU_ASSERT_EQUAL(done.calls, 0); /* not from this callback */
	t_dev_settle(&d);
	T_ENDED(done, -ECANCELED);
	CU_ASSERT_EQUAL(rdinit_dev_cancel(d.chan, id), -ENOENT);
}

static void a_command_that_was_sent_is_aborted(void)
{
	T_DEV(d);
	struct t_done done = {0};
	unsigned char buf[512];
	uint64_t id;

	open_paths(&d, 1);
	silent = 1u << 1;
	id = t_dev_submit(&d, RDINIT_DEV_WRITE, buf, &done);
	CU_ASSERT_EQUAL(rdinit_dev_cancel(d.chan, id), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(aborts, 1);
	CU_ASSERT_EQUAL(done.calls, 0);
	t_answer(arrived[0].conn, &arrived[0].sqe, 0, NVME_SC_ABORT_REQ);
	t_dev_settle(&d);
	T_ENDED(done, -ECANCELED);
	CU_ASSERT_EQUAL(d.dev->guards.count, 0); /* the controller has answered */
}

/* ---- statuses ---- */

static uint16_t next_status;
static unsigned int statuses; /* this number of commands is answered with it */

static bool dev_lost_refuse(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			    const void *data, size_t len)
{
	if (!path_of(f, conn) || sqe->opcode == NVMF_OPCODE || statuses == 0)
		return note_command(f, conn, sqe, data, len);
	statuses--;
	n_arrived++;
	t_answer(conn, sqe, 0, next_status);
	return true;
}

static void statuses_say_whether_to_try_again(void)
{
	T_DEV(d);
	struct t_done once = {0}, always = {0}, dnr = {0};
	unsigned char buf[512];

	open_paths(&d, 1);
	t_fake.hook = dev_lost_refuse;
	next_status = NVME_SC_NS_NOT_READY;
	statuses = 1;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 1, 1, buf, 0, t_done_fn, &once), 0);
	t_dev_pass(&d, 300);
	T_ENDED(once, 0);
	statuses = 100;
	n_arrived = 0;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 1, 1, buf, 0, t_done_fn, &always), 0);
	t_dev_pass(&d, 2000);
	CU_ASSERT_EQUAL(always.err, -EIO);
	CU_ASSERT_EQUAL(always.status, NVME_SC_NS_NOT_READY);
	CU_ASSERT_EQUAL(n_arrived, 6);
	n_arrived = 0;
	next_status |= NVME_STATUS_DNR;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 1, 1, buf, 0, t_done_fn, &dnr), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(dnr.err, -EIO);
	CU_ASSERT_EQUAL(n_arrived, 1);
}

/* ---- paths ---- */

static void without_a_path_the_options_decide(void)
{
	T_DEV(d);
	struct t_done waits = {0}, fast = {0}, late = {0};
	unsigned char buf[512];

	d.opts.fast_io_fail_tmo_ms = 3000;
	d.opts.ctrl_loss_tmo_ms = 20000;
	open_paths(&d, 1);
	path_down(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &waits), 0);
	t_dev_pass(&d, 1900);
	CU_ASSERT_EQUAL(waits.calls, 0);
	t_dev_pass(&d, 1200);
	CU_ASSERT_EQUAL(waits.err, -ENOTCONN);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &fast), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(fast.err, -ENOTCONN);
	CU_ASSERT_EQUAL(d.failed, 0);
	t_dev_pass(&d, 18000);
	CU_ASSERT_EQUAL(d.failed, 1);
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &late), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(late.err, -ENODEV);
	/* The path is not given up if the application disables that. */
	path_up(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_read(d.chan, 0, 1, buf, 0), 0);
}

/* The loss is noted at a later time than that of the turn in which the command waits again. */
static void a_loss_is_not_the_end_of_the_time_without_a_path(void)
{
	T_DEV(d);
	struct t_done rd = {0};
	unsigned char buf[512];
	unsigned int i;

	d.opts.fast_io_fail_tmo_ms = 3000;
	open_paths(&d, 1);
	silent = 1u << 1;
	CU_ASSERT_EQUAL(rdinit_dev_read_async(d.chan, 0, 1, buf, 0, t_done_fn, &rd), 0);
	t_dev_settle(&d);
	t_fake.step = 1;
	t_fake.down = 1u << 1;
	t_break(t_conn_to(&t_fake, 1, true), -ECONNRESET);
	for (i = 0; i < 10; i++) /* the channel learns of it first */
		CU_ASSERT_TRUE(rdinit_dev_chan_process(d.chan, 0) >= 0);
	t_dev_pass(&d, 1900);
	CU_ASSERT_EQUAL(rd.calls, 0);
	t_dev_pass(&d, 1200);
	CU_ASSERT_EQUAL(rd.err, -ENOTCONN);
}

static void opening_fails_when_each_path_has_failed(void)
{
	T_DEV(d);
	struct rdinit_uri uri;

	t_fake.down = 1u << 1 | 1u << 2;
	CU_ASSERT_EQUAL_FATAL(rdi_dev_create_env(&d.opts, &t_env, &d.dev), 0);
	CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), -EINVAL); /* no path */
	rdinit_uri_init(&uri);
	rdinit_uri_parse("nvme+rdma://192.0.2.1/nqn.2024-01.test:x", &uri);
	CU_ASSERT_EQUAL(rdinit_dev_add_path(d.dev, &uri, NULL), 0);
	rdinit_uri_parse("nvme+rdma://192.0.2.2/nqn.2024-01.test:y", &uri);
	CU_ASSERT_EQUAL(rdinit_dev_add_path(d.dev, &uri, NULL), -EINVAL); /* another subsystem */
	rdinit_uri_parse("nvme+rdma://192.0.2.2/nqn.2024-01.test:x", &uri);
	CU_ASSERT_EQUAL(rdinit_dev_add_path(d.dev, &uri, NULL), 1);
	CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), -ECONNREFUSED);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "192.0.2.1:4420"));
	CU_ASSERT_EQUAL(rdinit_dev_chan_create(d.dev, &d.chan), -ENOTCONN);
	CU_ASSERT_EQUAL(rdinit_dev_open(d.dev), -EINVAL);
}

/* The device fails while the name of its discovery controller is resolved again. */
static void discovery_that_was_stopped_connects_to_nothing(void)
{
	T_DEV(d);

	t_dev_create_discovery(&d);
	rdi_discovery_start(d.dev->discovery);
	rdi_discovery_stop(d.dev->discovery);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(t_fake.conns_made, 0);
	/* Retries are limited. */
	rdi_discovery_start(d.dev->discovery);
	t_dev_settle(&d);
	CU_ASSERT_PTR_NOT_NULL(t_conn_to(&t_fake, 1, false));
}

static void fewer_queues_than_channels_are_no_path(void)
{
	T_DEV(d);
	struct rdinit_dev_chan *second T_ENDS(rdinit_dev_chan_free) = NULL;

	d.opts.channels = 2;
	open_paths(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_chan_create(d.dev, &second), 0);
	path_down(&d, 1);
	t_fake.granted = 0;
	t_fake.down = 0;
	t_dev_pass(&d, 2000);
	CU_ASSERT_NOT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	t_fake.granted = 1;
	path_up(&d, 1);
}

static void a_path_that_is_lost_again_and_again_is_not_connected_all_the_time(void)
{
	T_DEV(d);
	unsigned int i;

	open_paths(&d, 1);
	t_dev_pass(&d, 2000);
	for (i = 0; i < 100; i++) {
		struct t_conn *conn = t_conn_to(&t_fake, 1, false);

		if (conn)
			t_break(conn, -ECONNRESET);
		t_dev_pass(&d, 10);
	}
	/* Within one second, with 625 ms after each loss but the first. */
	CU_ASSERT_TRUE(d.lost >= 2);
	CU_ASSERT_TRUE(d.lost <= 4);
}

static void delays_grow_up_to_the_option(void)
{
	const uint64_t max = 16000;
	unsigned int n;

	CU_ASSERT_EQUAL(rdi_backoff_ns(0, max, 0), 0);
	CU_ASSERT_EQUAL(rdi_backoff_ns(1, max, 0), 1000);
	CU_ASSERT_EQUAL(rdi_backoff_ns(2, max, 0), 2000);
	CU_ASSERT_EQUAL(rdi_backoff_ns(5, max, 0), max);
	CU_ASSERT_EQUAL(rdi_backoff_ns(UINT32_MAX, max, 0), max);
	for (n = 1; n < 10; n++) {
		CU_ASSERT_TRUE(rdi_backoff_ns(n, max, UINT32_MAX) < rdi_backoff_ns(n, max, 0));
		CU_ASSERT_TRUE(rdi_backoff_ns(n, max, UINT32_MAX) >=
			       rdi_backoff_ns(n, max, 0) * 3 / 4);
	}
	CU_ASSERT_EQUAL(rdi_backoff_ns(3, 1, UINT32_MAX), 0);
}

const struct t_case t_dev_lost_cases[] = {
	{"reads and writes are sent again by the same path",
	 reads_and_writes_are_sent_again_by_the_same_path},
	{"a path that transfers less than before gets parts",
	 a_path_that_transfers_less_than_before_gets_parts},
	{"commands without data are sent in parts too",
	 commands_without_data_are_sent_in_parts_too},
	{"a copy to itself is not sent in parts", a_copy_to_itself_is_not_sent_in_parts},
	{"a part is lost and sent again", a_part_is_lost_and_sent_again},
	{"a write waits before it takes another path", a_write_waits_before_it_takes_another_path},
	{"a write waits as long as the controller's keep-alive timer",
	 a_write_waits_as_long_as_the_controllers_keep_alive_timer},
	{"a lost write is not sent to a path that is inaccessible",
	 a_lost_write_is_not_sent_to_a_path_that_is_inaccessible},
	{"a lost write can end as unknown", a_lost_write_can_end_as_unknown},
	{"compare is not sent again", compare_is_not_sent_again},
	{"another address has no fence", another_address_has_no_fence},
	{"a late command is aborted, then its path is reset",
	 a_late_command_is_aborted_then_its_path_is_reset},
	{"three time limits are enough", three_time_limits_are_enough},
	{"a limit on a silent path counts against the path",
	 a_limit_on_a_silent_path_counts_against_the_path},
	{"the first limit on another path counts against that path",
	 the_first_limit_on_another_path_counts_against_that_path},
	{"a lost write is not sent by a silent path", a_lost_write_is_not_sent_by_a_silent_path},
	{"a command has a time limit of its own", a_command_has_a_time_limit_of_its_own},
	{"a late command of the library itself ends the queue",
	 a_late_command_of_the_library_itself_ends_the_queue},
	{"a namespace that moves has the state of its new group",
	 a_namespace_that_moves_has_the_state_of_its_new_group},
	{"both halves of a pair are aborted", both_halves_of_a_pair_are_aborted},
	{"a pair reports why it failed", a_pair_reports_why_it_failed},
	{"a command that waits is cancelled", a_command_that_waits_is_cancelled},
	{"a command that was sent is aborted", a_command_that_was_sent_is_aborted},
	{"statuses say whether to try again", statuses_say_whether_to_try_again},
	{"without a path the options decide", without_a_path_the_options_decide},
	{"a loss is not the end of the time without a path",
	 a_loss_is_not_the_end_of_the_time_without_a_path},
	{"opening fails when each path has failed", opening_fails_when_each_path_has_failed},
	{"discovery that was stopped connects to nothing",
	 discovery_that_was_stopped_connects_to_nothing},
	{"fewer queues than channels are no path", fewer_queues_than_channels_are_no_path},
	{"a path that is lost again and again is not connected all the time",
	 a_path_that_is_lost_again_and_again_is_not_connected_all_the_time},
	{"delays grow up to the option", delays_grow_up_to_the_option},
	{NULL, NULL},
};
