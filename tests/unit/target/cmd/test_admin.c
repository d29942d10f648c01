/* SPDX-License-Identifier: BSD-3-Clause */
/* Keep alive, asynchronous event requests, and Abort. */
#include <errno.h>
#include <string.h>

#include "target/nvmf/request.h"
#include "target/nvmf/heartbeat.h"
#include "t_target.h"

#define CMD(sc) (NVME_SCT_CMD_SPECIFIC << 8 | (sc))

static struct t_pair with_kato(uint32_t kato, bool *gone)
{
	struct t_pair p = t_pair_new();
	struct t_answer a = t_feature(p.admin, true, NVME_FEAT_FID_KATO, kato);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	p.admin->gone = gone;
	return p;
}

static void keep_alive_expires(void)
{
	bool gone = false;
	bool io_gone = false;
	struct t_pair p = with_kato(1950, &gone); /* rounded up to 2 s */
	struct t_answer a = t_feature(p.admin, false, NVME_FEAT_FID_KATO, 0);
	struct nvme_sqe sqe;

	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 2000);
	p.io->gone = &io_gone;
	/* That Get Features was traffic in the first interval. */
	t_advance(p.env, 2 * RD_NSEC_PER_SEC);
	t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), 0);
	t_advance(p.env, 2 * RD_NSEC_PER_SEC);
	CU_ASSERT_FALSE(gone);
	t_advance(p.env, 2 * RD_NSEC_PER_SEC - 1);
	CU_ASSERT_FALSE(gone);
	t_advance(p.env, 1);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_TRUE(io_gone);
	CU_ASSERT_EQUAL(p.env->t->subsys[0]->ctrls_count, 0);
	t_pair_free(&p);
}

/* After a pause of the reactor the timer cannot tell whether commands came, so it allows one more
 * interval, but not two. */
static void keep_alive_of_a_late_target(void)
{
	const uint64_t pause = 4400 * RD_NSEC_PER_MSEC;
	bool gone = false;
	struct t_pair p T_ENDS(t_pair_free) = with_kato(4000, &gone);
	struct nvme_sqe sqe;

	for (int i = 0; i < 2; i++) {
		t_advance(p.env, pause);
		CU_ASSERT_FALSE_FATAL(gone);
		t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		t_exec(p.admin, &sqe);
		t_advance(p.env, 4 * RD_NSEC_PER_SEC);
		CU_ASSERT_FALSE_FATAL(gone);
	}
	t_advance(p.env, pause);
	CU_ASSERT_FALSE(gone);
	t_advance(p.env, pause);
	CU_ASSERT_TRUE(gone);
}

/* The host may have sent its writes again by another path: nothing that came before is executed. */
static void end_after_a_long_pause(void)
{
	bool gone = false;
	bool io_gone = false;
	struct t_pair p T_ENDS(t_pair_free) = with_kato(1000, &gone);

	p.io->gone = &io_gone;
	t_advance(p.env, 1600 * RD_NSEC_PER_MSEC);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_TRUE(io_gone);
}

static void reactors_are_named(void)
{
	char text[RDT_HEARTBEAT_NAMES], last[] = ", 62, 63";

	CU_ASSERT_STRING_EQUAL(rdt_heartbeat_names(1, text), "reactor 0");
	CU_ASSERT_STRING_EQUAL(rdt_heartbeat_names(UINT64_C(0x8000000000000012), text),
			       "reactors 1, 4, 63");
	rdt_heartbeat_names(UINT64_MAX, text);
	CU_ASSERT_STRING_EQUAL(text + strlen(text) - strlen(last), last);
}

/* Reactors beat for hosts with keep alive only. One that has no beat to wake it may have slept. */
static void sleep_without_keep_alive(void)
{
	bool gone = false;
	T_PAIR(p);
	struct rdt_reactor *r = p.env->t->reactors;
	struct nvme_sqe sqe;

	CU_ASSERT_FALSE(rd_timer_armed(&r[0].heartbeat) || rd_timer_armed(&r[1].heartbeat));
	t_feature(p.admin, true, NVME_FEAT_FID_KATO, 2000);
	CU_ASSERT_TRUE(rd_timer_armed(&r[0].heartbeat));
	p.io->gone = &gone;
	for (int i = 0; i < 3; i++) {
		t_advance(p.env, RD_NSEC_PER_SEC);
		t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		t_exec(p.admin, &sqe);
	}
	rdt_heartbeat_check(&r[1]); /* as when it wakes */
	t_turn(p.env);
	CU_ASSERT_FALSE(gone);
}

/* Traffic on an I/O queue of another reactor keeps the association alive too (TBKAS). */
static void keep_alive_by_traffic(void)
{
	bool gone = false;
	struct t_pair p T_ENDS(t_pair_free) = with_kato(1000, &gone);
	struct nvme_sqe sqe;

	for (int i = 0; i < 5; i++) {
		t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
		sqe.nsid = htole32(1);
		t_exec(p.io, &sqe);
		t_advance(p.env, RD_NSEC_PER_SEC);
		CU_ASSERT_FALSE(gone);
	}
	t_advance(p.env, RD_NSEC_PER_SEC);
	CU_ASSERT_TRUE(gone);
}

static void keep_alive_off(void)
{
	bool gone = false;
	struct t_pair p T_ENDS(t_pair_free) = with_kato(0, &gone);

	t_advance(p.env, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_FALSE(gone);
}

static void discovery_kato(void)
{
	T_ENV(env);
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	bool gone = false;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	strcpy(data.subsysnqn, NVMF_DISC_NQN);
	CU_ASSERT_EQUAL(t_exec_status(c, &sqe), 0);
	c->gone = &gone;
	t_advance(env, 120 * RD_NSEC_PER_SEC - 1);
	CU_ASSERT_FALSE(gone);
	t_advance(env, 1);
	CU_ASSERT_TRUE(gone);
}

static void aer_limit(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < RDT_AER_MAX; i++) {
		t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
		t_send(p.admin, &sqe, NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), CMD(NVME_SC_ASYNC_LIMIT));
	/* A reset ends them without an answer, and frees their places. */
	CU_ASSERT_EQUAL(p.admin->qp.used, RDT_AER_MAX);
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	CU_ASSERT_EQUAL(p.admin->qp.used, 0);
	t_enable(p.admin);
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	t_begin(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
}

static struct t_answer abort_cmd(struct t_conn *c, uint16_t sqid, __le16 cid)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, nvme_admin_abort_cmd, NULL, 0);
	sqe.cdw10 = htole32(sqid | (uint32_t)le16toh(cid) << 16);
	return t_exec(c, &sqe);
}

/* In a backend that cannot cancel: it is not aborted and completes normally. */
static void abort_in_backend(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe rw;
	struct t_answer a;
	uint8_t buf[512];

	d->hold = true;
	t_rw_sqe(p.io, &rw, false, 0, 1, buf);
	t_begin(p.io, &rw);
	a = abort_cmd(p.admin, 1, rw.cid);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
}

static void abort_cancels(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct t_answer a;
	uint8_t buf[512];

	d->hold = true;
	d->can_cancel = true;
	for (int round = 0; round < 3; round++) {
		unsigned int cancelled = d->cancelled;

		t_send_abort(p.admin, 1, t_send_rw(p.io, false, 0, 1, buf));
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->cancelled, cancelled + 1);
		CU_ASSERT_EQUAL(t_answers(p.admin), 0); /* the result is not known yet */
		if (round == 2) {
			t_advance(p.env, RDT_ABORT_TIMEOUT); /* and is never known */
			a = t_answer(p.admin);
			CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
		}
		t_disk_finish(d, 0, round == 0 ? -ECANCELED : 0);
		t_turn(p.env);
		if (round < 2) {
			a = t_answer(p.admin);
			CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, round);
		}
		CU_ASSERT_EQUAL(t_answer_status(p.io), round == 0 ? NVME_SC_ABORT_REQ : 0);
	}
}

/* Where the specification leaves the answer open: interrupts, which have no meaning over fabrics,
 * Error Recovery of NSID 0, and bits that OAES does not announce. */
static void features_of_choice(void)
{
	static const struct {
		bool set;
		uint32_t cdw10, cdw11, want, value;
	} rows[] = {
		{false, NVME_FEAT_FID_IRQ_COALESCE, 0, 0, 0},
		{true, NVME_FEAT_FID_IRQ_COALESCE, 0x101, CMD(NVME_SC_FEATURE_NOT_CHANGEABLE), 0},
		{false, NVME_FEAT_FID_IRQ_CONFIG, 7, 0, 7},
		{true, NVME_FEAT_FID_IRQ_CONFIG, 1 << 16, CMD(NVME_SC_FEATURE_NOT_CHANGEABLE), 0},
		{true, NVME_FEAT_FID_VOLATILE_WC, 0, CMD(NVME_SC_FEATURE_NOT_CHANGEABLE), 0},
		{true, NVME_FEAT_FID_ERR_RECOVERY, 30, 0, 0},
		{false, NVME_FEAT_FID_ERR_RECOVERY, 0, 0, 30},
		{true, NVME_FEAT_FID_ERR_RECOVERY, 1 << 16, NVME_SC_INVALID_FIELD, 0},
		{true, NVME_FEAT_FID_ASYNC_EVENT, 0x200, NVME_SC_INVALID_FIELD, 0},
		{false, NVME_FEAT_FID_TEMP_THRESH, 0, 0, 0xffff},
	};
	T_PAIR(p);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct t_answer a = t_feature(p.admin, rows[i].set, rows[i].cdw10, rows[i].cdw11);

		CU_ASSERT_EQUAL(t_status(&a), rows[i].want);
		CU_ASSERT_EQUAL(le32toh(a.cqe.result), rows[i].value);
	}
	CU_ASSERT_EQUAL(t_ns_of(p.env->t->subsys[0], 1)->marks->err_recovery, 0);
}

static void abort_limit(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	uint8_t buf[512];

	d->hold = true;
	d->can_cancel = true;
	for (unsigned int i = 0; i <= RDT_ABORT_MAX; i++)
		t_send_abort(p.admin, 1, t_send_rw(p.io, false, 0, 1, buf));
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 1);
	CU_ASSERT_EQUAL(t_answer_status(p.admin), CMD(NVME_SC_ABORT_LIMIT));
}

const struct t_case t_admin_cases[] = {
	{"keep alive expires after an interval of silence", keep_alive_expires},
	{"a target that was held up looks again, once", keep_alive_of_a_late_target},
	{"a pause longer than keep alive ends the controller", end_after_a_long_pause},
	{"without keep alive an idle reactor sleeps", sleep_without_keep_alive},
	{"all reactors that stand still are named", reactors_are_named},
	{"I/O on another reactor is traffic", keep_alive_by_traffic},
	{"KATO 0 turns keep alive off", keep_alive_off},
	{"a discovery controller lives 120 s without KATO", discovery_kato},
	{"AERs are limited and end with a reset", aer_limit},
	{"Abort in a backend that cannot cancel says so", abort_in_backend},
	{"Abort cancels in the backend and waits for the outcome", abort_cancels},
	{"Aborts are limited", abort_limit},
	{"features whose answer is a choice", features_of_choice},
	{NULL, NULL},
};
