/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that violate the protocol, stop answering or disappear: every command ends with a reason,
 * and nothing stays open. */
#include <CUnit/CUnit.h>
#include <errno.h>

#include "suites.h"
#include "t_fake.h"

static unsigned char buf[1 << 16];

/* What the target does with the next I/O commands. */
enum trick {
	SILENT,
	UNKNOWN_CID,
	OLD_GENERATION,
	DUPLICATE,
	SHORT,
	LONG,
	WRONG_INVALIDATE,
	UNASKED_INVALIDATE,
	INDEX_BEYOND,
};

static enum trick trick;

static bool play(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		 const void *data, size_t len)
{
	struct nvme_cqe cqe = {.cid = sqe->cid};
	uint16_t cid = le16toh(sqe->cid);

	if (sqe->opcode == NVMF_OPCODE || !f->hook_arg)
		return false;
	switch (trick) {
	case SILENT:
		break;
	case UNKNOWN_CID:
		cqe.cid = htole16(cid ^ 1);
		t_send(conn, &cqe, sizeof(cqe), 0);
		break;
	case INDEX_BEYOND:
		cqe.cid = htole16(cid | 0xfff);
		t_send(conn, &cqe, sizeof(cqe), 0);
		break;
	case OLD_GENERATION:
		cqe.cid = htole16((uint16_t)(cid - 0x1000));
		t_send(conn, &cqe, sizeof(cqe), 0);
		break;
	case DUPLICATE:
		t_send(conn, &cqe, sizeof(cqe), 0);
		t_send(conn, &cqe, sizeof(cqe), 0);
		break;
	case SHORT:
		t_send(conn, &cqe, 15, 0);
		break;
	case LONG: {
		unsigned char more[17] = {0};

		t_send(conn, more, sizeof(more), 0);
		break;
	}
	case WRONG_INVALIDATE:
		t_send(conn, &cqe, sizeof(cqe), 0xdeadbeef);
		break;
	case UNASKED_INVALIDATE:
		t_send(conn, &cqe, sizeof(cqe), 0x1234565a);
		break;
	}
	return true;
}

/* A queue pair whose target behaves as @t from now on. */
static struct rdinit_qpair *setup(struct rdinit_ctrl **ctrl, enum trick t)
{
	struct rdinit_qpair *qp;

	t_fake_reset();
	t_fake.hook = play;
	trick = t;
	*ctrl = t_ctrl(1);
	qp = t_qpair(*ctrl, 16);
	t_fake.hook_arg = &t_fake;
	return qp;
}

static void turns(struct rdinit_qpair *qp, unsigned int n)
{
	while (n--)
		rdinit_qpair_process(qp, 0);
}

static void liar(enum trick t, const char *word)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done read = {0}, flush = {0};

	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 4, buf, 0, t_done_fn, &read), 0);
	trick = t;
	CU_ASSERT_EQUAL(rdinit_flush_async(qp, &t_ns, t_done_fn, &flush), 0);
	turns(qp, 4);
	T_ENDED(read, -EPROTO);
	CU_ASSERT_EQUAL(flush.calls, 1);
	CU_ASSERT_TRUE(flush.err == -EPROTO || (t == DUPLICATE && flush.err == 0));
	CU_ASSERT_PTR_NOT_NULL(strstr(read.text, word));
	if (!strstr(read.text, word))
		printf("# %s: %s\n", word, read.text);
	CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), -EPROTO);
	CU_ASSERT_EQUAL(rdinit_qpair_process(qp, -1), -EPROTO); /* the wait ends */
	CU_ASSERT_EQUAL(rdinit_read(qp, &t_ns, 0, 1, buf, 0), -ENOTCONN);
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), word));
	CU_ASSERT_EQUAL(rdinit_qpair_depth(qp), 0);
}

static void liars(void)
{
	liar(UNKNOWN_CID, "not in flight");
	liar(INDEX_BEYOND, "not in flight");
	liar(OLD_GENERATION, "not in flight");
	liar(DUPLICATE, "not in flight");
	liar(SHORT, "15 bytes");
	liar(LONG, "longer than 16");
	liar(WRONG_INVALIDATE, "invalidated");
	liar(UNASKED_INVALIDATE, "invalidated");
}

static void silence(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done[2] = {0};
	unsigned int s;

	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 4, buf, 0, t_done_fn, &done[0]), 0);
	for (s = 0; s < 290; s++) {
		t_advance(&t_fake, 100);
		CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), 0);
	}
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 4, buf, 0, t_done_fn, &done[1]), 0);
	for (s = 0; s < 20 && !done[0].calls; s++) {
		t_advance(&t_fake, 100);
		rdinit_qpair_process(qp, 0);
	}
	CU_ASSERT_EQUAL(done[0].err, -ETIMEDOUT);
	T_ENDED(done[1], -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(done[0].text, "Read"));
}

/* If the application does not process for longer than the timeout, the target is not at fault. */
static void away(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done = {0};
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(rdinit_flush_async(qp, &t_ns, t_done_fn, &done), 0);
	sqe = t_fake.log[t_fake.n_log - 1];
	turns(qp, 1);
	t_advance(&t_fake, 100000);
	turns(qp, 1); /* the answer may be in the socket, unread */
	CU_ASSERT_EQUAL(done.calls, 0);
	t_answer(t_fake.last_conn[1], &sqe, 0, 0);
	turns(qp, 1);
	T_ENDED(done, 0);
}

static void death(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done[3] = {0};
	unsigned int i;

	for (i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, i, 1, buf, 0, t_done_fn, &done[i]), 0);
	/* an answer that came before the end counts, even if the end is processed first */
	turns(qp, 1);
	t_fake.mute = true;
	t_answer(t_fake.last_conn[1], &t_fake.log[t_fake.n_log - 1], 0, 0);
	t_break(t_fake.last_conn[1], -ECONNRESET);
	turns(qp, 4);
	t_fake.mute = false;
	CU_ASSERT_EQUAL(done[0].err, -ECONNRESET);
	CU_ASSERT_EQUAL(done[1].err, -ECONNRESET);
	CU_ASSERT_EQUAL(done[2].err, 0);
	CU_ASSERT_EQUAL(done[0].calls + done[1].calls + done[2].calls, 3);
	CU_ASSERT_PTR_NOT_NULL(strstr(done[0].text, "connection lost"));
	rdinit_qpair_free(&qp);
	/* the same with an orderly end, which an initiator did not ask for either */
	qp = NULL;
	t_break(t_fake.last_conn[0], 0);
	for (i = 0; i < 4; i++)
		rdinit_ctrl_process(ctrl, 0);
	CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, -1), -ECONNRESET);
	CU_ASSERT_EQUAL(rdinit_identify_ctrl(ctrl, buf), -ENOTCONN);
}

static void read_all(struct rdinit_qpair *qp, struct t_done *done, unsigned int n)
{
	t_fake.n_log = 0;
	t_fake.hold_sends = true;
	for (unsigned int i = 0; i < n; i++)
		CU_ASSERT_EQUAL(
			rdinit_read_async(qp, &t_ns, i, 1, buf + 512 * i, 0, t_done_fn, &done[i]),
			0);
}

/* A SEND that finds the connection ended fails with a status of the driver, before the end itself
 * is reported. */
static void failed_send(enum ibv_wc_status wc, int status, int err, const char *word)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done = {0};
	struct t_conn *conn = t_fake.last_conn[1];
	unsigned int i;

	read_all(qp, &done, 1);
	t_fail_send(conn, wc);
	turns(qp, 4);
	CU_ASSERT_EQUAL(done.calls, err == -EPROTO);
	if (err != -EPROTO) /* the end was not reported by itself */
		t_break(conn, status);
	turns(qp, 4);
	T_ENDED(done, err);
	CU_ASSERT_EQUAL(done.status, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(done.text, word));
	for (i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), err);
}

static void failed_sends(void)
{
	failed_send(IBV_WC_LOC_QP_OP_ERR, 0, -ECONNRESET, "connection lost");
	failed_send(IBV_WC_GENERAL_ERR, -ENOTCONN, -ECONNRESET, "connection lost");
	failed_send(IBV_WC_RETRY_EXC_ERR, -EIO, -ECONNRESET, "connection lost");
	failed_send(IBV_WC_RNR_RETRY_EXC_ERR, -EIO, -ECONNRESET, "connection lost");
	failed_send(IBV_WC_RESP_TIMEOUT_ERR, -ETIMEDOUT, -ETIMEDOUT, "connection lost");
	failed_send(IBV_WC_FATAL_ERR, -ENODEV, -ECONNRESET, "connection lost");
	failed_send(IBV_WC_REM_ACCESS_ERR, 0, -EPROTO, "remote access error");
	failed_send(IBV_WC_LOC_PROT_ERR, 0, -EPROTO, "local protection error");
}

struct nested {
	struct rdinit_qpair **qp;
	struct t_done done;
	int sync, process;
};

static void nested_fn(void *user, const struct rdinit_completion *c)
{
	struct nested *n = user;

	t_done_fn(&n->done, c);
	n->sync = rdinit_flush(*n->qp, &t_ns);
	n->process = rdinit_qpair_process(*n->qp, 0);
	rdinit_qpair_free(n->qp);
}

static void in_callbacks(void)
{
	T_CTRL(ctrl) = NULL;
	struct rdinit_qpair *qp = setup(&ctrl, SILENT), *moved = qp;
	struct nested n = {.qp = &moved};
	struct t_done other = {0};

	t_fake.hook_arg = NULL; /* behave */
	CU_ASSERT_EQUAL(rdinit_flush_async(qp, &t_ns, nested_fn, &n), 0);
	t_fake.hook_arg = &t_fake;
	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 1, buf, 0, t_done_fn, &other), 0);
	CU_ASSERT_EQUAL(rdinit_qpair_process(qp, 0), -ENOTCONN); /* freed on the way */
	CU_ASSERT_PTR_NULL(moved);
	T_ENDED(n.done, 0);
	CU_ASSERT_EQUAL(n.sync, -EDEADLK);
	CU_ASSERT_EQUAL(n.process, -EDEADLK);
	T_ENDED(other, -ECANCELED);
}

static void closing(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done = {0};

	CU_ASSERT_EQUAL(rdinit_read_async(qp, &t_ns, 0, 1, buf, 0, t_done_fn, &done), 0);
	CU_ASSERT_EQUAL(rdinit_qpair_disconnect(qp), 0);
	T_ENDED(done, -ENOTCONN);
	CU_ASSERT_EQUAL(rdinit_qpair_disconnect(qp), 0);
}

static void one_for_many(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done[5] = {0};
	struct t_conn *conn = t_fake.last_conn[1];

	read_all(qp, done, 5);
	for (unsigned int i = 0; i < 4; i++)
		t_answer(conn, &t_fake.log[i], 0, 0);
	turns(qp, 1);
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 5);
	t_release_as_one(conn, 3);
	turns(qp, 1);
	for (unsigned int i = 0; i < 3; i++) {
		T_ENDED(done[i], 0);
	}
	CU_ASSERT_EQUAL(rdinit_qpair_inflight(qp), 2);
	CU_ASSERT_EQUAL(done[3].calls, 0); /* answered, but the device may still read its capsule */
	t_break(conn, -ECONNRESET);
	turns(qp, 4);
	for (unsigned int i = 3; i < 5; i++) {
		T_ENDED(done[i], -ECONNRESET);
	}
}

/* One completion for several SENDs counts for commands that have already ended too; otherwise the
 * queue would end only after a time limit. */
static void one_for_many_at_the_end(void)
{
	T_CTRL(ctrl) = NULL;
	T_QPAIR(qp) = setup(&ctrl, SILENT);
	struct t_done done[3] = {0};
	struct nvme_cqe cqe = {0};

	read_all(qp, done, 3);
	t_send(t_fake.last_conn[1], &cqe, 15, 0); /* ends the connection */
	t_release_as_one(t_fake.last_conn[1], 3);
	turns(qp, 4);
	for (unsigned int i = 0; i < 3; i++) {
		T_ENDED(done[i], -EPROTO);
	}
}

const struct t_case t_fault_cases[] = {
	{"a target that breaks the protocol loses the connection", liars},
	{"a target that falls silent times out", silence},
	{"an application that was away gets its answers first", away},
	{"a target that dies ends every command once", death},
	{"a SEND that fails because the connection is lost", failed_sends},
	{"callbacks may free the handle and must not wait on it", in_callbacks},
	{"disconnecting ends what is in flight", closing},
	{"one completion for many SENDs", one_for_many},
	{"one for many on a queue that ends", one_for_many_at_the_end},
	{NULL, NULL},
};
