/* SPDX-License-Identifier: BSD-3-Clause */
/* Controller registers: which can be read and written; and what enable, reset and shutdown do. */
#include <string.h>

#include "t_target.h"

static void capabilities(void)
{
	struct t_pair p = t_pair_new();
	uint64_t cap = t_get_property(p.admin, NVME_REG_CAP, true);

	CU_ASSERT_EQUAL(cap & 0xffff, 63); /* MQES of queue_depth 64 */
	CU_ASSERT_EQUAL(cap >> 16 & 1, 1); /* CQR */
	CU_ASSERT_TRUE((cap >> 24 & 0xff) > 0);
	/* The NVM command set alone, and as one of those that Identify lists. */
	CU_ASSERT_EQUAL(cap >> 37 & 0xff, 0x41);
	CU_ASSERT_EQUAL(cap >> 59 & 3, 1); /* CRMS: ready with media */
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CRTO, false), cap >> 24 & 0xff);
	CU_ASSERT_EQUAL(cap >> 48 & 0xff, 0); /* 4 KiB pages */
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_VS, false), 0x00020000);
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CC, false), 0x00460001);
	t_pair_free(&p);
}

static void refuse(struct t_conn *c, uint8_t fctype, uint8_t attrib, uint32_t offset,
		   uint64_t value, uint16_t want)
{
	struct nvme_sqe sqe;
	struct nvmf_property_sqe *prop = (void *)&sqe;
	struct t_answer a;

	t_sqe(c, &sqe, NVMF_OPCODE, NULL, 0);
	prop->fctype = fctype;
	prop->attrib = attrib;
	prop->offset = htole32(offset);
	prop->value = htole64(value);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), want);
	CU_ASSERT_TRUE(t_dnr(&a));
}

static void bad_access(void)
{
	struct t_pair p = t_pair_new();
	const uint8_t get = nvme_fabrics_type_property_get;
	const uint8_t set = nvme_fabrics_type_property_set;

	refuse(p.admin, get, 0, NVME_REG_CAP, 0, NVME_SC_INVALID_FIELD); /* it has 8 bytes */
	refuse(p.admin, get, 1, NVME_REG_CSTS, 0, NVME_SC_INVALID_FIELD);
	refuse(p.admin, get, 0, NVME_REG_AQA, 0, NVME_SC_INVALID_FIELD);
	refuse(p.admin, get, 0, 2, 0, NVME_SC_INVALID_FIELD);
	refuse(p.admin, get, 1, NVME_REG_CRTO, 0, NVME_SC_INVALID_FIELD);
	refuse(p.admin, set, 0, NVME_REG_VS, 1, NVME_SC_INVALID_FIELD);
	refuse(p.admin, set, 1, NVME_REG_CC, 0x00460001, NVME_SC_INVALID_FIELD);
	refuse(p.io, get, 0, NVME_REG_VS, 0, NVME_SC_INVALID_OPCODE);
	t_pair_free(&p);
}

static void bad_configuration(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	const uint8_t set = nvme_fabrics_type_property_set;

	t_connect(c, NVMF_CNTLID_DYNAMIC);
	refuse(c, set, 0, NVME_REG_CC, 0x00460011, NVME_SC_INVALID_FIELD); /* CSS 1 */
	refuse(c, set, 0, NVME_REG_CC, 0x00460081, NVME_SC_INVALID_FIELD); /* 8 KiB pages */
	refuse(c, set, 0, NVME_REG_CC, 0x00460801, NVME_SC_INVALID_FIELD); /* AMS */
	refuse(c, set, 0, NVME_REG_CC, 0x00450001, NVME_SC_INVALID_FIELD); /* IOSQES */
	refuse(c, set, 0, NVME_REG_CC, 0x00000001, NVME_SC_INVALID_FIELD);
	CU_ASSERT_EQUAL(t_get_property(c, NVME_REG_CSTS, false), 0);
	t_enable(c);
	t_env_free(env);
}

/* Reset: I/O queues end, whatever they are doing; RDY becomes 0 when the last one has ended. */
static void reset(void)
{
	struct t_pair p = t_pair_new();
	struct t_answer a;
	struct nvme_sqe sqe;
	uint8_t buf[512];
	bool gone = false;

	p.io->gone = &gone;
	p.env->disk[0].hold = true;
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	a = t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_TRUE(p.io->closing);
	CU_ASSERT_FALSE(gone); /* the backend still has its buffer */
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CSTS, false), 1);
	t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_CMD_SEQ_ERROR);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CSTS, false), 0);
	/* Enabled again, with the same queue ID. */
	t_enable(p.admin);
	p.io = t_conn_new(p.env, 0, 1, 16);
	CU_ASSERT_EQUAL(t_connect(p.io, p.cntlid), p.cntlid);
	t_pair_free(&p);
}

/* A host that does not wait for RDY 0 gets the state that it requested last. */
static void enable_during_reset(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	uint8_t buf[512];

	p.env->disk[0].hold = true;
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	t_set_property(p.admin, NVME_REG_CC, 0x00460001);
	CU_ASSERT_EQUAL(p.admin->qp.ctrl->state, RDT_CTRL_RESETTING);
	p.env->disk[0].hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.admin->qp.ctrl->state, RDT_CTRL_READY);
	t_pair_free(&p);
}

static void shutdown_(void)
{
	struct t_pair p = t_pair_new();
	struct t_answer a;
	bool gone = false;

	p.io->gone = &gone;
	a = t_set_property(p.admin, NVME_REG_CC, 0x00464001);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CSTS, false) >> 2 & 3, 2);
	CU_ASSERT_TRUE(gone);
	/* Only a reset leaves this state. */
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	CU_ASSERT_EQUAL(t_get_property(p.admin, NVME_REG_CSTS, false), 0);
	t_enable(p.admin);
	t_pair_free(&p);
}

static void disconnect_command(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];
	bool gone = false;

	t_sqe(p.admin, &sqe, NVMF_OPCODE, NULL, 0);
	sqe.fctype = nvme_fabrics_type_disconnect;
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a),
			NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_DISCONNECT_INVALID_QTYPE);
	p.io->gone = &gone;
	p.io->hold_respond = true; /* so that the object still exists */
	p.env->disk[0].hold = true;
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	t_send(p.io, &sqe, NULL, 0);
	t_sqe(p.io, &sqe, NVMF_OPCODE, NULL, 0);
	sqe.fctype = nvme_fabrics_type_disconnect;
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_FALSE(p.io->closing); /* a Read is still to be answered */
	p.env->disk[0].hold = false;
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_FALSE(p.io->closing);
	p.io->hold_respond = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
	t_pair_free(&p);
}

const struct t_case t_property_cases[] = {
	{"capabilities and version", capabilities},
	{"wrong sizes, offsets and queues are refused", bad_access},
	{"a configuration we do not have is not enabled", bad_configuration},
	{"reset closes the I/O queues and waits for them", reset},
	{"enabling during a reset is remembered", enable_during_reset},
	{"shutdown closes the I/O queues and completes", shutdown_},
	{"Disconnect ends an I/O queue after its commands", disconnect_command},
	{NULL, NULL},
};
