/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous calls while asynchronous ones fill the queue, and without a handle. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <string.h>

#include "suites.h"
#include "t_fake.h"

/* Reads that submit the next read when they end, so that the queue is always full. */
struct load {
	struct rdinit_qpair *qp;
	unsigned char buf[512];
	unsigned int ended, refused;
	bool stop;
};

static void load_next(void *user, const struct rdinit_completion *c)
{
	struct load *l = user;

	l->ended++;
	if (!l->stop && !c->err &&
	    rdinit_read_async(l->qp, &t_ns, 0, 1, l->buf, 0, load_next, l) == -EAGAIN)
		l->refused++;
}

static void full_io_queue(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	struct rdinit_passthru flush;
	unsigned char block[512] = {7}, back[512];
	struct load l = {0};
	unsigned int i;

	l.qp = t_qpair(ctrl, 4);
	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rdinit_read_async(l.qp, &t_ns, 0, 1, l.buf, 0, load_next, &l), 0);
	CU_ASSERT_EQUAL(rdinit_read_async(l.qp, &t_ns, 0, 1, l.buf, 0, load_next, &l), -EAGAIN);
	CU_ASSERT_EQUAL(rdinit_write(l.qp, &t_ns, 9, 1, block, 0), 0);
	CU_ASSERT_EQUAL(rdinit_read(l.qp, &t_ns, 9, 1, back, 0), 0);
	CU_ASSERT_EQUAL(memcmp(block, back, sizeof(back)), 0);
	CU_ASSERT_EQUAL(rdinit_flush(l.qp, &t_ns), 0);
	rdinit_passthru_init(&flush);
	flush.sqe[4] = 1; /* NSID */
	CU_ASSERT_EQUAL(rdinit_io_passthru(l.qp, &flush, NULL), 0);
	CU_ASSERT_TRUE(l.ended > 0);
	/* Each call took the slot of a command that had ended, before that command's callback
	 * could. */
	CU_ASSERT_TRUE(l.refused <= 5);
	l.stop = true;
	rdinit_qpair_free(&l.qp);
}

static void full_admin_queue(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	static unsigned char pages[64][RDINIT_IDENTIFY_SIZE], page[RDINIT_IDENTIFY_SIZE];
	struct t_done done[64] = {{0}};
	unsigned int i, n = 0;

	while (n < 64 && rdinit_identify_async(ctrl, NVME_IDENTIFY_CNS_CTRL, 0, pages[n], t_done_fn,
					       &done[n]) == 0)
		n++;
	CU_ASSERT_TRUE(n > 0 && n < 64);
	CU_ASSERT_EQUAL(rdinit_identify_ctrl(ctrl, page), 0);
	CU_ASSERT_EQUAL(memcmp(page, &t_fake.id, sizeof(page)), 0);
	for (i = 0; i < n; i++)
		CU_ASSERT_TRUE(done[i].calls <= 1);
}

/* A wait for events has no end, so it is refused. */
static void full_for_ever(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	static unsigned char page[RDINIT_IDENTIFY_SIZE];
	struct t_done done[64] = {{0}};
	struct rdinit_passthru aer;
	unsigned int n = 0;

	rdinit_passthru_init(&aer);
	aer.sqe[0] = nvme_admin_async_event;
	aer.timeout_ms = UINT32_MAX;
	while (n < 64 && rdinit_admin_passthru_async(ctrl, &aer, NULL, t_done_fn, &done[n]) == 0)
		n++;
	CU_ASSERT_TRUE(n > 0 && n < 64);
	CU_ASSERT_EQUAL(rdinit_identify_ctrl(ctrl, page), -EAGAIN);
}

static void broken_meanwhile(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	unsigned char back[512];
	struct load l = {0};
	unsigned int i;

	l.qp = t_qpair(ctrl, 4);
	t_fake.hold_sends = true;
	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rdinit_read_async(l.qp, &t_ns, 0, 1, l.buf, 0, load_next, &l), 0);
	t_break(t_fake.last_conn[1], -ECONNRESET);
	CU_ASSERT_EQUAL(rdinit_read(l.qp, &t_ns, 9, 1, back, 0), -ENOTCONN);
	CU_ASSERT_EQUAL(l.ended, 3);
	rdinit_qpair_free(&l.qp);
}

static void no_handle(void)
{
	static unsigned char page[RDINIT_IDENTIFY_SIZE];
	struct rdinit_discovery *log;
	struct rdinit_ctrl_info info;
	struct rdinit_passthru cmd;
	struct rdinit_qpair *qp;
	struct rdinit_ns ns;
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	unsigned int n;

	rdinit_passthru_init(&cmd);
	rdinit_ctrl_info_init(&info);
	rdinit_ns_init(&ns);
#define NULL_IS_EINVAL(call)                                                \
	do {                                                                \
		CU_ASSERT_EQUAL(call, -EINVAL);                             \
		CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "NULL")); \
	} while (0)
	NULL_IS_EINVAL(rdinit_ctrl_connect(NULL));
	NULL_IS_EINVAL(rdinit_ctrl_connect_async(NULL, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_ctrl_disconnect(NULL));
	NULL_IS_EINVAL(rdinit_ctrl_disconnect_async(NULL, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_ctrl_fd(NULL));
	NULL_IS_EINVAL(rdinit_ctrl_process(NULL, 0));
	NULL_IS_EINVAL(rdinit_ctrl_get_info(NULL, &info));
	NULL_IS_EINVAL(rdinit_identify(NULL, 1, 0, page));
	NULL_IS_EINVAL(rdinit_identify_async(NULL, 1, 0, page, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_list_ns(NULL, 0, nsids, &n));
	NULL_IS_EINVAL(rdinit_get_log(NULL, 2, 0, 0, page, 512));
	NULL_IS_EINVAL(rdinit_get_log_async(NULL, 2, 0, 0, page, 512, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_discover(NULL, &log));
	NULL_IS_EINVAL(rdinit_discover_async(NULL, &log, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_ns_open(NULL, 1, &ns));
	NULL_IS_EINVAL(rdinit_admin_passthru(NULL, &cmd, NULL));
	NULL_IS_EINVAL(rdinit_admin_passthru_async(NULL, &cmd, NULL, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_qpair_create(NULL, NULL, &qp));
	NULL_IS_EINVAL(rdinit_qpair_connect(NULL));
	NULL_IS_EINVAL(rdinit_qpair_connect_async(NULL, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_qpair_disconnect(NULL));
	NULL_IS_EINVAL(rdinit_qpair_fd(NULL));
	NULL_IS_EINVAL(rdinit_qpair_process(NULL, 0));
	NULL_IS_EINVAL(rdinit_read(NULL, &t_ns, 0, 1, page, 0));
	NULL_IS_EINVAL(rdinit_read_async(NULL, &t_ns, 0, 1, page, 0, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_write(NULL, &t_ns, 0, 1, page, 0));
	NULL_IS_EINVAL(rdinit_write_async(NULL, &t_ns, 0, 1, page, 0, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_flush(NULL, &t_ns));
	NULL_IS_EINVAL(rdinit_flush_async(NULL, &t_ns, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_io_passthru(NULL, &cmd, NULL));
	NULL_IS_EINVAL(rdinit_io_passthru_async(NULL, &cmd, NULL, t_done_fn, NULL));
	NULL_IS_EINVAL(rdinit_io_passthru_fused_async(NULL, &cmd, &cmd, t_done_fn, NULL, NULL));
	NULL_IS_EINVAL(rdinit_mem_register(NULL, page, 512));
	NULL_IS_EINVAL(rdinit_mem_unregister(NULL, page));
	CU_ASSERT_EQUAL(rdinit_qpair_depth(NULL), 0);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(NULL), 0);
	CU_ASSERT_EQUAL(rdinit_qpair_id(NULL), 0);
}

static void no_queue_is_left(void)
{
	T_CTRL(ctrl) = t_ctrl_new(3);
	struct rdinit_qpair *qp[5] = {NULL};
	unsigned int i;

	for (i = 0; i < 5 && rdinit_qpair_create(ctrl, NULL, &qp[i]) == 0; i++)
		;
	CU_ASSERT_EQUAL(i, 3);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "nr_io_queues asked for 3"));
	while (i > 0)
		rdinit_qpair_free(&qp[--i]);
}

const struct t_case t_sync_cases[] = {
	{"a full I/O queue makes them wait, not fail", full_io_queue},
	{"so does a full admin queue", full_admin_queue},
	{"unless nothing in it is sure to end", full_for_ever},
	{"a connection that is lost meanwhile ends the wait", broken_meanwhile},
	{"no handle is -EINVAL, everywhere", no_handle},
	{"who runs out of queues is told the option", no_queue_is_left},
	{NULL, NULL},
};
