/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations that the specification leaves open, what reset does while commands are under way,
 * and Disconnect. */
#include <string.h>

#include "t_target.h"

/* CSS 1, pages of 8 KiB, AMS 1, SQ entries of 32 bytes, no entry sizes. */
static void bad_configuration(void)
{
	static const uint32_t cc[] = {0x00460011, 0x00460081, 0x00460801, 0x00450001, 0x00000001};
	T_ENV(env);
	struct t_conn *c = t_conn_new(env, 0, 0, 32);

	t_connect(c, NVMF_CNTLID_DYNAMIC);
	for (size_t i = 0; i < sizeof(cc) / sizeof(cc[0]); i++) {
		struct t_answer a = t_set_property(c, NVME_REG_CC, cc[i]);

		CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);
	}
	CU_ASSERT_EQUAL(t_get_property(c, NVME_REG_CSTS, false), 0);
}

/* Reset: I/O queues end, whatever they are doing; RDY becomes 0 when the last one has ended. */
static void reset(void)
{
	T_PAIR(p);
	struct t_answer a;
	struct nvme_sqe sqe;
	uint8_t buf[512];
	bool gone = false;

	p.io->gone = &gone;
	p.env->disk[0].hold = true;
	t_send_rw(p.io, false, 0, 1, buf);
	t_turn(p.env);
	a = t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_TRUE(p.io->closing);
	CU_ASSERT_FALSE(gone); /* the backend still has its buffer */
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CSTS, false), 1);
	t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), NVME_SC_CMD_SEQ_ERROR);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CSTS, false), 0);
	/* Enabled again, with the same queue ID. */
	t_enable(p.admin);
	p.io = t_conn_new(p.env, 0, 1, 16);
	CU_ASSERT_EQUAL(t_connect(p.io, p.cntlid), p.cntlid);
}

/* A host that does not wait for RDY 0 gets the state that it requested last. */
static void enable_during_reset(void)
{
	T_PAIR(p);
	uint8_t buf[512];

	p.env->disk[0].hold = true;
	t_send_rw(p.io, false, 0, 1, buf);
	t_turn(p.env);
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	t_set_property(p.admin, NVME_REG_CC, 0x00460001);
	CU_ASSERT_EQUAL(p.admin->qp.ctrl->state, RDT_CTRL_RESETTING);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.admin->qp.ctrl->state, RDT_CTRL_READY);
}

static void disconnect_command(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];
	bool gone = false;

	p.io->gone = &gone;
	p.io->hold_respond = true; /* so that the object still exists */
	p.env->disk[0].hold = true;
	t_send_rw(p.io, false, 0, 1, buf);
	t_sqe(p.io, &sqe, NVMF_OPCODE, NULL, 0);
	sqe.fctype = nvme_fabrics_type_disconnect;
	t_begin(p.io, &sqe);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_FALSE(p.io->closing); /* a Read is still to be answered */
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	CU_ASSERT_FALSE(p.io->closing);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
}

const struct t_case t_property_cases[] = {
	{"a configuration without support is refused", bad_configuration},
	{"reset closes the I/O queues and waits for them", reset},
	{"enabling during a reset is remembered", enable_during_reset},
	{"Disconnect ends an I/O queue after its commands", disconnect_command},
	{NULL, NULL},
};
