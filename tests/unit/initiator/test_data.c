/* SPDX-License-Identifier: BSD-3-Clause */
/* Data: in capsules, by key, through regions and bounce memory; and the life of keys. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>

#include "suites.h"
#include "t_fake.h"

static unsigned char buf[1 << 20], back[1 << 20];

static void data_fill(unsigned int seed)
{
	size_t i;

	srand(seed);
	for (i = 0; i < sizeof(buf); i++)
		buf[i] = (unsigned char)rand();
	memset(back, 0, sizeof(back));
}

static const struct nvme_sqe *last(void)
{
	return &t_fake.log[t_fake.n_log - 1];
}

/* Write @n blocks, read them, and compare. */
static void round_trip(struct rdinit_qpair *qp, uint64_t lba, uint32_t n)
{
	CU_ASSERT_EQUAL(rdinit_write(qp, &t_ns, lba, n, buf, 0), 0);
	CU_ASSERT_EQUAL(memcmp(t_fake.disk + lba * 512, buf, n * 512u), 0);
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, lba, n, back, 0), 0);
	CU_ASSERT_EQUAL(memcmp(back, buf, n * 512u), 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

static void capsule_or_key(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	unsigned int idle;

	t_fake_reset();
	data_fill(1);
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 32);
	idle = t_fake.mrs;

	CU_ASSERT_EQUAL(rdinit_write(qp, &t_ns, 1, 16, buf, 0), 0); /* 8 KiB: the maximum */
	CU_ASSERT_EQUAL(last()->sgl.data.type, 0x01);
	CU_ASSERT_EQUAL(le32toh(last()->sgl.data.length), 8192);
	CU_ASSERT_EQUAL(le64toh(last()->sgl.data.offset), 0);
	CU_ASSERT_EQUAL(memcmp(t_fake.disk + 512, buf, 8192), 0);

	CU_ASSERT_EQUAL(rdinit_write(qp, &t_ns, 1, 17, buf, RDINIT_IO_FUA), 0);
	CU_ASSERT_EQUAL(last()->sgl.keyed.type, 0x4f);
	CU_ASSERT_EQUAL(nvme_sgl_keyed_len(&last()->sgl.keyed), 17 * 512);
	CU_ASSERT_EQUAL(le64toh(last()->sgl.keyed.addr), (uintptr_t)buf + T_SHOWN); /* no copy */
	CU_ASSERT_EQUAL(t_fake.last_access, IBV_ACCESS_REMOTE_READ);
	CU_ASSERT_EQUAL(le32toh(last()->cdw12), 1u << 30 | 16);

	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 1, 1, back, 0), 0); /* reads always use a key */
	CU_ASSERT_EQUAL(last()->sgl.keyed.type, 0x4f);
	CU_ASSERT_EQUAL(t_fake.last_access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CU_ASSERT_EQUAL(memcmp(back, buf, 512), 0);

	CU_ASSERT_EQUAL(rdinit_flush(qp, &t_ns), 0);
	CU_ASSERT_EQUAL(last()->flags, 0x40);
	CU_ASSERT_EQUAL(last()->sgl.keyed.type, 0x40);
	CU_ASSERT_EQUAL(le32toh(last()->nsid), 1);

	CU_ASSERT_EQUAL(t_fake.mrs, idle); /* keys exist as long as their command */
	round_trip(qp, 100, 2048);
	round_trip(qp, T_DISK_BLOCKS - 1, 1);
}

static void no_invalidation(void)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	struct rdinit_qpair *qp;
	unsigned int i;

	t_fake_reset();
	data_fill(2);
	t_fake.caps.reports_inv = false;
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 32);
	round_trip(qp, 5, 100);
	/* Remote invalidation is not requested if the device cannot report it. */
	CU_ASSERT_EQUAL(last()->sgl.keyed.type, 0x40);
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);

	t_fake_reset();
	t_fake.invalidate = false;   /* the target need not do it */
	t_fake.id.sgls = htole32(5); /* and no capsule data */
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 32);
	round_trip(qp, 5, 1);
	CU_ASSERT_EQUAL(last()->sgl.keyed.type, 0x4f);
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);

	/* The application can disable it, for all queues and commands. */
	t_fake_reset();
	t_fake.id.sgls = htole32(5);
	t_ctrl_opts(&opts, 1);
	opts.no_remote_invalidate = true;
	ctrl = t_ctrl_by(&opts);
	qp = t_qpair(ctrl, 32);
	round_trip(qp, 5, 1);
	for (i = 0; i < t_fake.n_log; i++)
		CU_ASSERT_NOT_EQUAL(t_fake.log[i].sgl.keyed.type, 0x4f);
	rdinit_qpair_free(&qp);
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
}

static void bounce_and_regions(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_qpair_opts opts;
	unsigned int made;

	t_fake_reset();
	data_fill(3);
	t_fake.caps.cheap_mr = false;
	ctrl = t_ctrl(1);
	rdinit_qpair_opts_init(&opts);
	opts.bounce_bytes = 2 << 20;
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_create(ctrl, &opts, &qp), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_connect(qp), 0);
	made = t_fake.mrs_made;
	round_trip(qp, 7, 1);    /* in the capsule, from bounce memory */
	round_trip(qp, 9, 1000); /* keyed */
	CU_ASSERT_NOT_EQUAL(le64toh(last()->sgl.keyed.addr), (uintptr_t)back + T_SHOWN);
	CU_ASSERT_EQUAL(t_fake.mrs_made, made); /* nothing is registered for a command */

	CU_ASSERT_EQUAL(rdinit_mem_register(qp, back, sizeof(back)), 0);
	CU_ASSERT_EQUAL(rdinit_mem_register(qp, back + 4096, 1), -EINVAL); /* overlaps */
	CU_ASSERT_EQUAL(rdinit_mem_register(qp, back, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_mem_register(qp, buf, sizeof(buf) / 2), 0);
	made = t_fake.mrs_made;
	round_trip(qp, 11, 1000);
	CU_ASSERT_EQUAL(le64toh(last()->sgl.keyed.addr), (uintptr_t)back + T_SHOWN);
	CU_ASSERT_EQUAL(last()->sgl.keyed.type, 0x40); /* other commands may use the key */
	CU_ASSERT_EQUAL(t_fake.mrs_made, made);
	round_trip(qp, 13, 2000); /* reaches beyond buf's region: bounces */
	CU_ASSERT_EQUAL(t_fake.mrs_made, made);
	CU_ASSERT_EQUAL(rdinit_mem_unregister(qp, buf), 0);
	CU_ASSERT_EQUAL(rdinit_mem_unregister(qp, buf), -ENOENT);
}

static bool silent(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		   const void *data, size_t len)
{
	return sqe->opcode != NVMF_OPCODE && f->hook_arg;
}

static void bounce_runs_out(void)
{
	T_CTRL(ctrl) = NULL;
	struct t_done done[3] = {0};
	struct rdinit_qpair_opts opts;
	struct rdinit_qpair *qp;

	t_fake_reset();
	t_fake.caps.cheap_mr = false;
	t_fake.hook = silent;
	ctrl = t_ctrl(1);
	rdinit_qpair_opts_init(&opts);
	opts.bounce_bytes = 1 << 20; /* one command of the maximum size */
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_create(ctrl, &opts, &qp), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_connect(qp), 0);
	t_fake.hook_arg = &t_fake;
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 2048, buf, 0, t_done_fn, &done[0]), 0);
	CU_ASSERT_EQUAL(rdinit_mem_register(qp, back, sizeof(back)), 0);
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 1, back, 0, t_done_fn, &done[1]), 0);
	CU_ASSERT_EQUAL(rdinit_mem_unregister(qp, back), -EBUSY);
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 1, buf, 0, t_done_fn, &done[2]), -EAGAIN);
	rdinit_qpair_free(&qp);
	CU_ASSERT_EQUAL(done[0].calls, 1);
	CU_ASSERT_EQUAL(done[1].calls, 1);
	CU_ASSERT_EQUAL(done[2].calls, 0);
}

static void misuse(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_ns big = t_ns, lax = t_ns;
	unsigned int before;

	t_fake_reset();
	t_fake.id.mdts = 1; /* 8 KiB */
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 32);
	before = t_fake.n_log;
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 0, 0, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 0, 17, buf, 0), -EINVAL); /* more than MDTS */
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, T_DISK_BLOCKS, 1, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, T_DISK_BLOCKS - 1, 2, buf, 0), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "end of namespace"));
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, UINT64_MAX, 2, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 0, 1, buf, 2), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 0, 1, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_write(qp, NULL, 0, 1, buf, 0), -EINVAL);
	big.size = 0;
	CU_ASSERT_EQUAL(rdinit_flush(qp, &big), -EINVAL);
	CU_ASSERT_EQUAL(t_fake.n_log, before); /* no command was sent */
	lax.unchecked = true;
	CU_ASSERT_EQUAL(rdinit_read(qp, &lax, T_DISK_BLOCKS, 1, buf, 0), -EIO);
	CU_ASSERT_EQUAL(rdinit_last_status(), NVME_SC_LBA_RANGE | NVME_STATUS_DNR);
}

static void deep(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	T_QPAIR(qp) = t_qpair(ctrl, 32);
	struct t_done done[64] = {0};
	unsigned int i, calls = 0;

	t_fake.hold_sends = true;
	for (i = 0; i < 31; i++)
		CU_ASSERT_EQUAL(
			rdinit_read_async(qp, &t_ns, i, 1, buf + 512 * i, 0, t_done_fn, &done[i]),
			0);
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 1, back, 0, t_done_fn, &done[31]), -EAGAIN);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 31);
	/* answered, but the device may still read the capsules: not complete */
	CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), 0);
	t_release_sends(t_fake.last_conn[1]);
	CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), 31);
	for (i = 0; i < 31; i++)
		calls += done[i].calls == 1 && done[i].err == 0;
	CU_ASSERT_EQUAL(calls, 31);
	CU_ASSERT_EQUAL(done[31].calls, 0);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

const struct t_case t_data_cases[] = {
	{"small writes go in the capsule, the rest by a key with one right", capsule_or_key},
	{"invalidation is asked for where it can be checked, and optional", no_invalidation},
	{"without cheap registration data bounces or lies in a region", bounce_and_regions},
	{"bounce memory that runs out is -EAGAIN, a region in use -EBUSY", bounce_runs_out},
	{"wrong use is refused before the wire", misuse},
	{"no more than the queue allows is in flight, and ends in both halves", deep},
	{NULL, NULL},
};
