/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that the caller builds. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>

#include "suites.h"
#include "t_fake.h"

static unsigned char buf[65536], back[1 << 20];

static const struct nvme_sqe *logged(unsigned int from_end)
{
	return &t_fake.log[t_fake.n_log - 1 - from_end];
}

static struct nvme_sqe *sqe_of(struct rdinit_passthru *pt)
{
	return (struct nvme_sqe *)(void *)pt->sqe;
}

/* Every byte of the entry except those that the library sets. */
static void entry_as_made(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	struct rdinit_passthru pt;
	struct nvme_sqe want;
	uint64_t result = 1;

	rdinit_passthru_init(&pt);
	memset(pt.sqe, 0xa5, sizeof(pt.sqe));
	sqe_of(&pt)->opcode = 0xc1; /* an unknown command is sent as it is */
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, &result), 0);
	CU_ASSERT_EQUAL(result, 0);
	want = *sqe_of(&pt);
	want.flags = 0x65; /* the caller's FUSE and reserved bits, PSDT 01b */
	want.cid = logged(0)->cid;
	nvme_sgl_set_keyed(&want.sgl, 0, 0, 0, NVME_SGL_KEYED_ADDRESS);
	CU_ASSERT_EQUAL(memcmp(&want, logged(0), sizeof(want)), 0);

	pt.flags = RDINIT_PASSTHRU_AS_IS;
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, NULL), 0);
	want = *sqe_of(&pt);
	want.cid = logged(0)->cid;
	CU_ASSERT_EQUAL(memcmp(&want, logged(0), sizeof(want)), 0);
}

static void data_both_ways(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_passthru pt;
	size_t i;

	t_fake_reset();
	srand(5);
	for (i = 0; i < sizeof(buf); i++)
		buf[i] = (unsigned char)rand();
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 32);
	rdinit_passthru_init(&pt);
	sqe_of(&pt)->opcode = nvme_cmd_write;
	sqe_of(&pt)->cdw10 = htole32(7);
	pt.data = buf;
	pt.len = 512;
	pt.flags = RDINIT_PASSTHRU_WRITE;
	CU_ASSERT_EQUAL(rdinit_io_passthru(qp, &pt, NULL), 0);
	CU_ASSERT_EQUAL(logged(0)->sgl.data.type, NVME_SGL_IN_CAPSULE);
	CU_ASSERT_EQUAL(memcmp(t_fake.disk + 7 * 512, buf, 512), 0);

	pt.data = buf + 512;
	pt.flags |= RDINIT_PASSTHRU_KEYED;
	CU_ASSERT_EQUAL(rdinit_io_passthru(qp, &pt, NULL), 0);
	CU_ASSERT_EQUAL(logged(0)->sgl.keyed.type, NVME_SGL_KEYED_INVALIDATE);
	CU_ASSERT_EQUAL(t_fake.last_access, IBV_ACCESS_REMOTE_READ);
	CU_ASSERT_EQUAL(memcmp(t_fake.disk + 7 * 512, buf + 512, 512), 0);

	sqe_of(&pt)->opcode = nvme_cmd_read;
	pt.data = back;
	pt.flags = 0;
	CU_ASSERT_EQUAL(rdinit_io_passthru(qp, &pt, NULL), 0);
	CU_ASSERT_EQUAL(t_fake.last_access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CU_ASSERT_EQUAL(memcmp(back, buf + 512, 512), 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
}

static bool refuses(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		    const void *data, size_t len)
{
	if (sqe->opcode != 0xc1)
		return false;
	t_answer(conn, sqe, 0x1122334455667788, NVME_SC_INVALID_OPCODE | NVME_STATUS_DNR);
	return true;
}

static void status_and_result(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_passthru pt;
	uint64_t result = 0;

	t_fake_reset();
	t_fake.hook = refuses;
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 32);
	rdinit_passthru_init(&pt);
	pt.sqe[0] = 0xc1;
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, &result), -EIO);
	CU_ASSERT_EQUAL(rdinit_last_status(), NVME_SC_INVALID_OPCODE | NVME_STATUS_DNR);
	CU_ASSERT_EQUAL(result, 0x1122334455667788);
	result = 0;
	CU_ASSERT_EQUAL(rdinit_io_passthru(qp, &pt, &result), -EIO);
	CU_ASSERT_EQUAL(rdinit_last_status(), NVME_SC_INVALID_OPCODE | NVME_STATUS_DNR);
	CU_ASSERT_EQUAL(result, 0x1122334455667788);
}

static struct nvme_sqe event_request;
static struct t_conn *event_conn;

static bool keeps_event(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			const void *data, size_t len)
{
	if (sqe->opcode == nvme_admin_async_event) {
		event_request = *sqe;
		event_conn = conn;
		return true;
	}
	if (sqe->opcode != nvme_admin_abort_cmd || !event_conn)
		return false;
	CU_ASSERT_EQUAL(le32toh(sqe->cdw10) >> 16, le16toh(event_request.cid));
	t_answer(event_conn, &event_request, 0, NVME_SC_ABORT_REQ);
	t_answer(conn, sqe, 0, 0);
	return true;
}

/* An event request has no time limit, and an Abort with its ID ends it. */
static void outstanding(void)
{
	T_CTRL(ctrl) = NULL;
	struct t_done event = {0}, abort = {0};
	struct rdinit_passthru pt;
	uint16_t cid = 0;
	unsigned int i;

	t_fake_reset();
	event_conn = NULL;
	t_fake.hook = keeps_event;
	ctrl = t_ctrl(1);
	rdinit_passthru_init(&pt);
	pt.sqe[0] = nvme_admin_async_event;
	pt.timeout_ms = UINT32_MAX;
	CU_ASSERT_EQUAL(rdinit_admin_passthru_async(ctrl, &pt, &cid, t_done_fn, &event), 0);
	for (i = 0; i < 1300; i++) {
		t_advance(&t_fake, 100);
		CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 0);
	}
	CU_ASSERT_EQUAL(event.calls, 0);
	CU_ASSERT_EQUAL(cid, le16toh(event_request.cid));
	rdinit_passthru_init(&pt);
	pt.sqe[0] = nvme_admin_abort_cmd;
	sqe_of(&pt)->cdw10 = htole32((uint32_t)cid << 16);
	CU_ASSERT_EQUAL(rdinit_admin_passthru_async(ctrl, &pt, NULL, t_done_fn, &abort), 0);
	CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 2);
	CU_ASSERT_EQUAL(event.calls, 1);
	CU_ASSERT_EQUAL(event.status, NVME_SC_ABORT_REQ);
	T_ENDED(abort, 0);
}

static bool ignores(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		    const void *data, size_t len)
{
	return sqe->opcode == 0xc1;
}

static void own_timeout(void)
{
	T_CTRL(ctrl) = NULL;
	struct rdinit_passthru pt;
	struct t_done done = {0};
	unsigned int i;

	t_fake_reset();
	t_fake.hook = ignores;
	ctrl = t_ctrl(1);
	rdinit_passthru_init(&pt);
	pt.sqe[0] = 0xc1;
	pt.timeout_ms = 1000;
	CU_ASSERT_EQUAL(rdinit_admin_passthru_async(ctrl, &pt, NULL, t_done_fn, &done), 0);
	for (i = 0; i < 100 && !done.calls; i++) {
		t_advance(&t_fake, 100);
		rdinit_ctrl_process(ctrl, 0);
	}
	CU_ASSERT_EQUAL(done.err, -ETIMEDOUT);
	CU_ASSERT_TRUE(i >= 9 && i <= 20);
}

static void pair(struct rdinit_passthru *cmp, struct rdinit_passthru *wr)
{
	rdinit_passthru_init(cmp);
	rdinit_passthru_init(wr);
	cmp->sqe[0] = nvme_cmd_compare;
	wr->sqe[0] = nvme_cmd_write;
	cmp->sqe[1] = 0x02; /* whatever was there is replaced */
	cmp->data = buf;
	wr->data = buf + 512;
	cmp->len = wr->len = 512;
	cmp->flags = wr->flags = RDINIT_PASSTHRU_WRITE;
}

static bool fails_compare(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len)
{
	if (sqe->opcode == nvme_cmd_compare) {
		t_answer(conn, sqe, 0, NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED);
		return true;
	}
	return false;
}

static void fused(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct t_done done[8] = {0};
	struct rdinit_passthru cmp, wr;

	t_fake_reset();
	t_fake.hook = fails_compare;
	ctrl = t_ctrl(1);
	qp = t_qpair(ctrl, 4); /* three in flight */
	pair(&cmp, &wr);
	CU_ASSERT_EQUAL(
		rdinit_io_passthru_fused_async(qp, &cmp, &wr, t_done_fn, &done[0], &done[1]), 0);
	CU_ASSERT_EQUAL(logged(1)->opcode, nvme_cmd_compare);
	CU_ASSERT_EQUAL(logged(1)->flags, 0x41);
	CU_ASSERT_EQUAL(logged(0)->opcode, nvme_cmd_write);
	CU_ASSERT_EQUAL(logged(0)->flags, 0x42);
	/* no room for both: neither is sent */
	CU_ASSERT_EQUAL(
		rdinit_io_passthru_fused_async(qp, &cmp, &wr, t_done_fn, &done[2], &done[3]),
		-EAGAIN);
	CU_ASSERT_EQUAL(logged(0)->flags, 0x42);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 2);
	CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), 2);
	CU_ASSERT_EQUAL(done[0].calls, 1);
	CU_ASSERT_EQUAL(done[0].status, NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED);
	T_ENDED(done[1], 0);
	/* the second half cannot be described: the first must not be sent alone */
	wr.len = 0;
	CU_ASSERT_EQUAL(
		rdinit_io_passthru_fused_async(qp, &cmp, &wr, t_done_fn, &done[4], &done[5]),
		-EINVAL);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 0);
	/* the device refuses the second half: both end with the connection */
	pair(&cmp, &wr);
	t_fake.full_after = 2;
	CU_ASSERT_EQUAL(
		rdinit_io_passthru_fused_async(qp, &cmp, &wr, t_done_fn, &done[6], &done[7]), 0);
	while (rdinit_qpair_process(qp, 0) >= 0 && !done[7].calls)
		t_advance(&t_fake, 100);
	T_ENDED(done[6], -ENOMEM);
	T_ENDED(done[7], -ENOMEM);
	CU_ASSERT_EQUAL(done[2].calls + done[3].calls + done[4].calls + done[5].calls, 0);
}

static void pair_without_memory(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = NULL;
	struct rdinit_passthru cmp, wr;
	struct rdinit_qpair_opts opts;
	struct t_done done[2] = {0};

	t_fake_reset();
	t_fake.caps.cheap_mr = false;
	ctrl = t_ctrl(1);
	rdinit_qpair_opts_init(&opts);
	opts.bounce_bytes = 1 << 20;
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_create(ctrl, &opts, &qp), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_qpair_connect(qp), 0);
	pair(&cmp, &wr);
	wr.len = 2 << 20; /* more than bounce memory can hold: refused before it is used */
	CU_ASSERT_EQUAL(
		rdinit_io_passthru_fused_async(qp, &cmp, &wr, t_done_fn, &done[0], &done[1]),
		-EMSGSIZE);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 0);
	/* the memory of the first half is free again: all of it can be used */
	rdinit_passthru_init(&cmp);
	cmp.sqe[0] = nvme_cmd_read;
	cmp.data = back;
	cmp.len = sizeof(back);
	CU_ASSERT_EQUAL(rdinit_io_passthru(qp, &cmp, NULL), 0);
}

static void passthru_misuse(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	struct rdinit_passthru pt;
	struct t_done done = {0};
	unsigned int before;

	before = t_fake.n_log;
	memset(&pt, 0, sizeof(pt));
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, NULL), -EINVAL);
	rdinit_passthru_init(&pt);
	pt.flags = 0x80;
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, NULL), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "rdinit_admin_passthru: unknown flag"));
	pt.flags = 0;
	pt.data = buf;
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, NULL), -EINVAL);
	pt.len = 0x1000000;
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, NULL), -EINVAL);
	pt.len = 512;
	pt.flags = RDINIT_PASSTHRU_AS_IS;
	CU_ASSERT_EQUAL(rdinit_admin_passthru(ctrl, &pt, NULL), -EINVAL);
	pt.flags = 0;
	CU_ASSERT_EQUAL(rdinit_admin_passthru_async(ctrl, &pt, NULL, NULL, NULL), -EINVAL);
	CU_ASSERT_EQUAL(t_fake.n_log, before);
	rdinit_ctrl_disconnect(ctrl);
	CU_ASSERT_EQUAL(rdinit_admin_passthru_async(ctrl, &pt, NULL, t_done_fn, &done), -ENOTCONN);
	CU_ASSERT_EQUAL(done.calls, 0);
}

const struct t_case t_passthru_cases[] = {
	{"an entry goes out as it was made, but for id, PSDT and SGL", entry_as_made},
	{"data goes in the capsule or by key, in both directions", data_both_ways},
	{"status and result of a refused command reach the caller", status_and_result},
	{"an event request stays out, and Abort names it by its id", outstanding},
	{"a command's own time limit", own_timeout},
	{"a fused pair goes out in a row or not at all", fused},
	{"a pair that finds no bounce memory leaves none behind", pair_without_memory},
	{"what the library cannot describe is refused", passthru_misuse},
	{NULL, NULL},
};
