/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection that is lost in every state of its commands: all resources are returned, and none
 * too early. */
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

/* t_env_free() checks that buffers, controllers and connections are all gone. */

static void in_every_state(void)
{
	/* The place of the command when the connection is lost. */
	enum { NEW, NO_REQUEST, BUFFER, FETCH, BACKEND, ANSWERED, PLACES };
	static uint8_t buf[T_MDTS];

	for (int place = 0; place < PLACES; place++) {
		T_PAIR(p);
		struct t_disk *d = &p.env->disk[0];
		bool gone = false;
		struct nvme_sqe sqe;

		p.io->gone = &gone;
		d->hold = place == BACKEND || place == BUFFER || place == NO_REQUEST;
		p.io->hold_fetch = place == FETCH;
		p.io->hold_respond = place == ANSWERED;
		for (unsigned int i = 0; i < 16; i++) {
			bool write = place == FETCH;
			uint32_t blocks = place == BUFFER ? T_MDTS / 512 : 1;

			t_rw_sqe(p.io, &sqe, write, i, blocks, buf);
			t_send(p.io, &sqe, NULL, 0);
		}
		t_turn(p.env);
		if (place == NO_REQUEST)
			t_send(p.io, &sqe, NULL, 0);
		if (place == NEW) /* nothing in flight: all was answered */
			CU_ASSERT_EQUAL(t_answers(p.io), 16);
		t_conn_cut(p.io);
		t_turn(p.env);
		CU_ASSERT_EQUAL(gone, !d->hold);
		if (d->hold) {
			/* The backend reads into the buffers, so they stay until it is done. */
			CU_ASSERT_TRUE(d->held_count > 0);
			d->hold = false;
			t_turn(p.env);
			CU_ASSERT_TRUE(gone);
		}
		/* The association continues, and the queue can be connected again. */
		p.io = t_conn_new(p.env, 0, 1, 16);
		CU_ASSERT_EQUAL(t_connect(p.io, p.cntlid), p.cntlid);
	}
}

/* The connection is lost while its command is parsed, or when a failed one is answered. */
static void when_a_capsule_comes_back(void)
{
	static uint8_t buf[512];

	for (int failed = 0; failed < 2; failed++) {
		T_PAIR(p);
		bool gone = false;

		p.io->gone = &gone;
		p.io->no_recv = true;
		t_send_rw(p.io, false, failed ? T_BLOCKS : 0, 1, buf);
		CU_ASSERT_EQUAL(p.io->qp.used, 0);
		t_turn(p.env);
		CU_ASSERT_TRUE(gone);
		CU_ASSERT_EQUAL(p.env->disk[0].submitted, 0);
		p.io = t_conn_new(p.env, 0, 1, 16);
		CU_ASSERT_EQUAL(t_connect(p.io, p.cntlid), p.cntlid);
	}
}

/* A backend that can cancel is asked to cancel, however the connection ends. */
static void backend_io_is_cancelled(void)
{
	for (int admin = 0; admin < 2; admin++) {
		T_PAIR(p);
		struct t_disk *d = &p.env->disk[0];
		static uint8_t buf[3][512];
		bool gone = false;

		p.io->gone = &gone;
		d->hold = true;
		d->can_cancel = true;
		for (unsigned int i = 0; i < 3; i++) {
			t_send_rw(p.io, i & 1, i, 1, buf[i]);
		}
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(d->held_count, 3);
		t_conn_cut(admin ? p.admin : p.io);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->cancelled, 3);
		CU_ASSERT_FALSE(gone); /* a backend completes its bios after some time */
		while (d->held_count)
			t_disk_finish(d, 0, -ECANCELED);
		t_turn(p.env);
		CU_ASSERT_TRUE(gone);
	}
}

static void admin_connection(void)
{
	T_PAIR(p);
	bool io_gone = false;
	bool admin_gone = false;
	struct nvme_sqe sqe;
	uint8_t buf[512];

	p.io->gone = &io_gone;
	p.admin->gone = &admin_gone;
	p.env->disk[0].hold = true;
	t_send_rw(p.io, false, 0, 1, buf);
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	t_begin(p.admin, &sqe);
	t_conn_cut(p.admin);
	t_turn(p.env);
	CU_ASSERT_TRUE(p.io->closing); /* the end of the association is the end of its queues */
	CU_ASSERT_FALSE(io_gone);
	CU_ASSERT_FALSE(admin_gone);
	CU_ASSERT_EQUAL(p.env->t->subsys[0]->ctrls_count, 1);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(io_gone);
	CU_ASSERT_TRUE(admin_gone);
	CU_ASSERT_EQUAL(p.env->t->subsys[0]->ctrls_count, 0);
}

static void both_at_once(void)
{
	for (int admin_first = 0; admin_first < 2; admin_first++) {
		T_PAIR(p);

		t_conn_cut(admin_first ? p.admin : p.io);
		t_conn_cut(admin_first ? p.io : p.admin);
		t_turn(p.env);
		CU_ASSERT_EQUAL(p.env->t->subsys[0]->ctrls_count, 0);
	}
}

/* Connect: the connection may be lost at each of its steps. */
static void during_connect(void)
{
	for (int step = 0; step < 4; step++) {
		T_PAIR(p);
		struct t_conn *c = t_conn_new(p.env, 1, step == 3 ? 1 : 2, 16);
		struct nvmf_connect_data data;
		struct nvme_sqe sqe;
		bool gone = false;

		c->gone = &gone;
		c->hold_fetch = step == 0;
		c->hold_respond = step == 1;
		t_connect_sqe(c, &sqe, &data, p.cntlid);
		t_send(c, &sqe, NULL, 0);
		if (step == 2) /* the controller ends while the request is on its way to it */
			t_conn_cut(p.admin);
		else if (step < 2)
			t_turn(p.env);
		/* step 3: it waits for a QID that is in use */
		if (step == 3)
			t_turn(p.env);
		t_conn_cut(c);
		t_turn(p.env);
		t_advance(p.env, RDT_QID_WAIT);
		CU_ASSERT_TRUE(gone);
	}
}

static void controller_gone_before_attach(void)
{
	T_PAIR(p);
	struct t_conn *c = t_conn_new(p.env, 1, 2, 16);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	p.env->disk[0].hold = true; /* keeps the dead controller in the list */
	t_send_rw(p.io, false, 0, 1, &data);
	t_turn(p.env);
	t_conn_cut(p.admin);
	t_turn(p.env);
	t_connect_sqe(c, &sqe, &data, p.cntlid);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CONNECT_INVALID_PARAM);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00010010);
}

static void victim_of_an_abort(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct t_answer a;
	uint8_t buf[512];

	d->hold = true;
	d->can_cancel = true;
	t_send_abort(p.admin, 1, t_send_rw(p.io, false, 0, 1, buf));
	t_conn_cut(p.io);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	d->hold = false;
	t_turn(p.env);
	a = t_answer(p.admin); /* the Abort is answered in any case */
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
}

static void admin_with_abort_pending(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	bool gone = false;
	uint8_t buf[512];

	p.admin->gone = &gone;
	d->hold = true;
	d->can_cancel = true;
	t_send_abort(p.admin, 1, t_send_rw(p.io, false, 0, 1, buf));
	t_conn_cut(p.admin);
	t_turn(p.env);
	CU_ASSERT_FALSE(gone);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
}

/* Like a host that is killed and restarted, again and again. */
static void many_times(void)
{
	T_ENV(env);
	static uint8_t buf[8192];

	for (unsigned int i = 0; i < 200; i++) {
		struct t_conn *admin = t_conn_new(env, i & 1, 0, 32);
		uint16_t cntlid = t_connect(admin, NVMF_CNTLID_DYNAMIC);
		struct t_conn *io[3];

		t_enable(admin);
		for (unsigned int q = 0; q < 3; q++) {
			io[q] = t_conn_new(env, (i + q) & 1, (uint16_t)(q + 1), 16);
			t_connect(io[q], cntlid);
			for (unsigned int k = 0; k < 10; k++) {
				t_send_rw(io[q], k & 1, k * 16, 16, buf);
			}
		}
		for (unsigned int q = 0; q < 3; q++)
			t_conn_cut(io[(q + i) % 3]);
		t_conn_cut(admin);
		t_turn(env);
		CU_ASSERT_EQUAL(env->t->subsys[0]->ctrls_count, 0);
		CU_ASSERT_EQUAL(env->t->reactors[0].qpairs_count, 0);
		CU_ASSERT_EQUAL(env->t->reactors[1].qpairs_count, 0);
	}
}

const struct t_case t_teardown_cases[] = {
	{"an I/O connection lost in every state", in_every_state},
	{"a connection lost when a capsule comes back", when_a_capsule_comes_back},
	{"I/O in a backend is cancelled when its connection ends", backend_io_is_cancelled},
	{"the admin connection takes the association down", admin_connection},
	{"admin and I/O connection lost at once", both_at_once},
	{"a connection lost during Connect", during_connect},
	{"a dead controller takes no new queue", controller_gone_before_attach},
	{"the queue of an Abort's victim is lost", victim_of_an_abort},
	{"the admin queue is lost with an Abort on its way", admin_with_abort_pending},
	{"hosts that come and go leave nothing behind", many_times},
	{NULL, NULL},
};
