/* SPDX-License-Identifier: BSD-3-Clause */
/* A device whose paths lead to gateways of which one at a time can write. */
#include <CUnit/CUnit.h>
#include <errno.h>

#include "suites.h"
#include "t_dev.h"

#define PATHS    2u
#define STALE_MS 11000 /* twice the default keep-alive timeout and a second */

/* By n of 192.0.2.n */
static struct {
	uint64_t gateway; /* 0: it tells none */
	uint8_t ana;
	bool silent; /* it answers no I/O command, and does not tell its ANA states */
	unsigned int writes, asked;
} at[PATHS + 1];

/* With @io: the connection is that of an I/O queue; else of an admin queue. */
static unsigned int number_of(struct t_fake *f, const struct t_conn *conn, bool io)
{
	unsigned int n;

	for (n = 1; n <= PATHS; n++)
		if (t_conn_to(f, n, io) == conn)
			return n;
	return 0;
}

static bool answer_log(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		       unsigned int n)
{
	const struct nvme_ana_log head = {.ngrps = htole16(1)};
	const struct nvme_ana_group_desc desc = {.state = at[n].ana};
	unsigned char log[sizeof(head) + sizeof(desc)];

	memcpy(log, &head, sizeof(head));
	memcpy(log + sizeof(head), &desc, sizeof(desc));
	at[n].asked++;
	return at[n].silent || t_answer_data(f, conn, sqe, log, sizeof(log));
}

static bool answer_ns(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		      unsigned int n)
{
	struct nvme_id_ns ns = {.nsze = htole64(T_DISK_BLOCKS), .ncap = htole64(T_DISK_BLOCKS)};
	struct nvme_ns_gateway told = {.gateway = htole64(at[n].gateway)};

	ns.lbaf[0].ds = 9;
	if (at[n].gateway)
		memcpy(told.mark, NVME_NS_GATEWAY_MARK, sizeof(told.mark));
	memcpy(ns.vs, &told, sizeof(told));
	return t_answer_data(f, conn, sqe, &ns, sizeof(ns));
}

static bool gateway_hook(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			 const void *data, size_t len)
{
	unsigned int io = number_of(f, conn, true), n = number_of(f, conn, false);
	unsigned int what = le32toh(sqe->cdw10) & 0xff;

	(void)data;
	(void)len;
	if (sqe->opcode == NVMF_OPCODE)
		return false;
	if (io) {
		at[io].writes += sqe->opcode == nvme_cmd_write;
		return at[io].silent;
	}
	if (sqe->opcode == nvme_admin_get_log_page && what == NVME_LOG_LID_ANA)
		return answer_log(f, conn, sqe, n);
	if (sqe->opcode == nvme_admin_identify && what == NVME_IDENTIFY_CNS_NS)
		return answer_ns(f, conn, sqe, n);
	return false;
}

/* The first path is that of the holder. */
static void open_gateways(struct t_dev *d, uint64_t first, uint64_t second)
{
	memset(at, 0, sizeof(at));
	at[1].gateway = first;
	at[1].ana = NVME_ANA_STATE_OPTIMIZED;
	at[2].gateway = second;
	at[2].ana = NVME_ANA_STATE_INACCESSIBLE;
	t_fake.id.cmic = NVME_CTRL_CMIC_MULTI_ANA_REPORTING;
	t_fake.id.nanagrpid = htole32(1);
	t_fake.hook = gateway_hook;
	t_dev_open(d, PATHS);
}

static void set_ana(struct t_dev *d, unsigned int n, uint8_t state)
{
	at[n].ana = state;
	rdi_path_event(d->dev->paths[n - 1],
		       NVME_LOG_LID_ANA << 16 | NVME_AER_NOTICE_ANA << 8 | NVME_AER_NOTICE);
	t_dev_settle(d);
}

static void lose_path(struct t_dev *d, unsigned int n)
{
	t_fake.down |= 1u << n;
	t_break(t_conn_to(&t_fake, n, true), -ECONNRESET);
	t_break(t_conn_to(&t_fake, n, false), -ECONNRESET);
	t_dev_settle(d);
}

static void the_next_gateway_gets_a_lost_write_at_once(void)
{
	T_DEV(d);
	struct t_done lost = {0}, over = {0};
	unsigned char old[1024] = {1}, new[512] = {2};

	open_gateways(&d, 7, 8);
	at[1].silent = true;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 2, old, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	CU_ASSERT_EQUAL(at[1].writes, 1);
	lose_path(&d, 1);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 5, 1, new, 0, t_done_fn, &over), 0);
	t_dev_pass(&d, 1000);
	CU_ASSERT_EQUAL(at[2].writes, 0); /* it is inaccessible */
	set_ana(&d, 2, NVME_ANA_STATE_OPTIMIZED);
	t_dev_pass(&d, 100);
	CU_ASSERT_EQUAL(lost.calls, 1);
	CU_ASSERT_EQUAL(over.calls, 1);
	CU_ASSERT_EQUAL(lost.err | over.err, 0);
	CU_ASSERT_EQUAL(t_fake.disk[5 * T_DISK_BLOCK], 2); /* the newer write was last */
	CU_ASSERT_EQUAL(d.dev->guards.count, 0);
}

/* The caller knows that the write may have been executed; the blocks can be written. */
static void the_next_gateway_writes_where_a_write_was_lost(void)
{
	T_DEV(d);
	struct t_done lost = {0}, over = {0};
	unsigned char old[1024] = {1}, new[512] = {2};

	d.opts.no_resend_writes = true;
	open_gateways(&d, 7, 8);
	at[1].silent = true;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 2, old, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	lose_path(&d, 1);
	T_ENDED(lost, -EREMOTEIO);
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 5, 1, new, 0, t_done_fn, &over), 0);
	set_ana(&d, 2, NVME_ANA_STATE_OPTIMIZED);
	t_dev_pass(&d, 100);
	T_ENDED(over, 0);
	CU_ASSERT_EQUAL(at[2].writes, 1);
}

static void lose_a_write(struct t_dev *d, struct t_done *lost)
{
	static unsigned char buf[512] = {1};

	at[1].silent = true;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d->chan, 4, 1, buf, 0, t_done_fn, lost), 0);
	t_dev_settle(d);
	lose_path(d, 1);
	set_ana(d, 2, NVME_ANA_STATE_OPTIMIZED);
	t_dev_pass(d, STALE_MS - 1000);
	CU_ASSERT_EQUAL(at[2].writes, 0);
	t_dev_pass(d, 2300);
	T_ENDED(*lost, 0);
}

static void another_path_to_the_same_gateway_waits(void)
{
	T_DEV(d);
	struct t_done lost = {0};

	open_gateways(&d, 7, 7);
	lose_a_write(&d, &lost);
}

static void a_target_that_is_no_gateway_waits(void)
{
	T_DEV(d);
	struct t_done lost = {0};

	open_gateways(&d, 7, 0);
	lose_a_write(&d, &lost);
}

/* Its keep-alive timer has not expired yet. */
static void a_gateway_that_hangs_is_left_when_the_next_one_serves(void)
{
	T_DEV(d);
	struct t_done lost = {0};
	unsigned char buf[512] = {1};

	open_gateways(&d, 7, 8);
	at[1].silent = true;
	CU_ASSERT_EQUAL(rdinit_dev_write_async(d.chan, 4, 1, buf, 0, t_done_fn, &lost), 0);
	t_dev_settle(&d);
	set_ana(&d, 2, NVME_ANA_STATE_OPTIMIZED);
	CU_ASSERT_EQUAL(at[1].asked, 2);
	t_dev_pass(&d, 900);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	t_fake.down = 1u << 1;
	t_dev_pass(&d, 200);
	CU_ASSERT_NOT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	CU_ASSERT_EQUAL(at[2].writes, 1);
	T_ENDED(lost, 0);
}

static void a_gateway_that_answers_keeps_its_path(void)
{
	T_DEV(d);

	open_gateways(&d, 7, 8);
	at[1].ana = NVME_ANA_STATE_INACCESSIBLE; /* its event is late */
	set_ana(&d, 2, NVME_ANA_STATE_OPTIMIZED);
	CU_ASSERT_EQUAL(at[1].asked, 2);
	t_dev_pass(&d, 2000);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
	CU_ASSERT_FALSE(rdi_path_usable(d.dev->paths[0]));
}

static void a_target_that_is_no_gateway_is_not_doubted(void)
{
	T_DEV(d);

	open_gateways(&d, 0, 8);
	at[1].silent = true;
	set_ana(&d, 2, NVME_ANA_STATE_OPTIMIZED);
	t_dev_pass(&d, 2000);
	CU_ASSERT_EQUAL(at[1].asked, 1);
	CU_ASSERT_EQUAL(t_dev_path_state(&d, 0), RDINIT_DEV_PATH_LIVE);
}

const struct t_case t_dev_gateway_cases[] = {
	{"the next gateway gets a lost write at once", the_next_gateway_gets_a_lost_write_at_once},
	{"the next gateway writes where a write was lost",
	 the_next_gateway_writes_where_a_write_was_lost},
	{"another path to the same gateway waits", another_path_to_the_same_gateway_waits},
	{"a target that is no gateway waits", a_target_that_is_no_gateway_waits},
	{"a gateway that hangs is left when the next one serves",
	 a_gateway_that_hangs_is_left_when_the_next_one_serves},
	{"a gateway that answers keeps its path", a_gateway_that_answers_keeps_its_path},
	{"a target that is no gateway is not doubted", a_target_that_is_no_gateway_is_not_doubted},
	{NULL, NULL},
};
