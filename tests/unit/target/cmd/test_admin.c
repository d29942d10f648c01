/* SPDX-License-Identifier: BSD-3-Clause */
/* Identify, features, keep alive and asynchronous event requests. */
#include <errno.h>
#include <string.h>

#include "target/nvmf/abort.h"
#include "target/nvmf/heartbeat.h"
#include "t_target.h"

#define INVALID_FIELD  NVME_SC_INVALID_FIELD
#define SPACE_COMMANDS (NVME_CTRL_ONCS_DSM | NVME_CTRL_ONCS_WRITE_ZEROES)
#define CMD(sc)        (NVME_SCT_CMD_SPECIFIC << 8 | (sc))

static struct t_answer identify(struct t_conn *c, uint8_t cns, uint32_t nsid, void *buf)
{
	struct nvme_sqe sqe;

	memset(buf, 0xee, 4096);
	t_sqe(c, &sqe, nvme_admin_identify, buf, 4096);
	sqe.nsid = htole32(nsid);
	sqe.cdw10 = htole32(cns);
	return t_exec(c, &sqe);
}

static void identify_controller(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_id_ctrl id;
	struct t_answer a = identify(p.admin, NVME_IDENTIFY_CNS_CTRL, 0, &id);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	/* Fields that a Linux host requires. */
	CU_ASSERT_EQUAL(le16toh(id.cntlid), p.cntlid);
	CU_ASSERT_NOT_EQUAL(le16toh(id.kas), 0);
	CU_ASSERT_EQUAL(le16toh(id.icdoff), 0);
	CU_ASSERT_EQUAL(le32toh(id.sgls), 0x00100005);
	CU_ASSERT_STRING_EQUAL(id.subnqn, T_NQN);
	CU_ASSERT_TRUE(le16toh(id.maxcmd) >= 1);
	CU_ASSERT_EQUAL(id.cntrltype, NVME_CTRL_CNTRLTYPE_IO);
	CU_ASSERT_TRUE(id.cmic & NVME_CTRL_CMIC_MULTI_CTRL);
	CU_ASSERT_EQUAL(le32toh(id.ioccsz), (64 + T_INCAPSULE) / 16);
	CU_ASSERT_EQUAL(le32toh(id.iorcsz), 1);
	CU_ASSERT_EQUAL(4096u << id.mdts, T_MDTS);
	CU_ASSERT_EQUAL(le32toh(id.ver), 0x00020000);
	CU_ASSERT_EQUAL(memcmp(id.sn, "SERIAL0             ", 20), 0);
	CU_ASSERT_EQUAL(memcmp(id.mn, "model zero                              ", 40), 0);
	CU_ASSERT_EQUAL(le32toh(id.nn), RDT_NSID_MAX);
	/* Linux refuses ANA without these, or if the log page is longer than MDTS. */
	CU_ASSERT_TRUE(id.cmic & NVME_CTRL_CMIC_MULTI_ANA_REPORTING);
	CU_ASSERT_TRUE(le32toh(id.mnan) <= le32toh(id.nn));
	CU_ASSERT_EQUAL(le32toh(id.nanagrpid), le32toh(id.anagrpmax));
	CU_ASSERT_TRUE(le32toh(id.nanagrpid) * 32 + le32toh(id.mnan) * 4 + 16 <= T_MDTS);
	CU_ASSERT_NOT_EQUAL(id.anatt, 0);
	CU_ASSERT_EQUAL(le32toh(id.oaes), NVME_CTRL_OAES_NA | NVME_CTRL_OAES_ANA);
	CU_ASSERT_EQUAL(id.nwpc, 0); /* there is no state_dir */
	CU_ASSERT_EQUAL(id.sqes, 0x66);
	CU_ASSERT_EQUAL(id.cqes, 0x44);
	CU_ASSERT_EQUAL(id.aerl, RDT_AER_MAX - 1);
	CU_ASSERT_EQUAL(id.acl, RDT_ABORT_MAX - 1);
	CU_ASSERT_EQUAL(id.msdbd, rdt_msdbd(&p.env->cfg.target));
	CU_ASSERT_TRUE(id.vwc & 1);
	CU_ASSERT_TRUE(le32toh(id.ctratt) & NVME_CTRL_CTRATT_TBKAS);
	CU_ASSERT_EQUAL(le16toh(id.oncs) & SPACE_COMMANDS, SPACE_COMMANDS);
	/* Features that are missing are not reported. */
	p.env->t->subsys[0]->ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_WRITE;
	p.env->t->subsys[0]->volatile_cache = false;
	identify(p.admin, NVME_IDENTIFY_CNS_CTRL, 0, &id);
	CU_ASSERT_EQUAL(le16toh(id.oncs) & SPACE_COMMANDS, 0);
	CU_ASSERT_EQUAL(id.vwc & 1, 0);
	t_pair_free(&p);
}

static void identify_namespace(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_id_ns id;
	uint8_t zero[4096] = {0};
	struct t_answer a = identify(p.admin, NVME_IDENTIFY_CNS_NS, 1, &id);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le64toh(id.nsze), T_BLOCKS);
	CU_ASSERT_EQUAL(le64toh(id.ncap), T_BLOCKS);
	CU_ASSERT_EQUAL(id.nlbaf, 0);
	CU_ASSERT_EQUAL(id.flbas, 0);
	CU_ASSERT_EQUAL(id.lbaf[0].ds, 9);
	CU_ASSERT_EQUAL(id.nmic, 1);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS, 3, &id); /* inactive */
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(memcmp(&id, zero, 4096), 0);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS, RDT_NSID_MAX + 1, &id);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS, 0, &id);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS, NVME_NSID_ALL, &id);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	t_pair_free(&p);
}

static void identify_lists(void)
{
	struct t_pair p = t_pair_new();
	__le32 list[1024];
	uint8_t desc[4096];
	struct t_answer a = identify(p.admin, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, list);

	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(list[0]), 1);
	CU_ASSERT_EQUAL(le32toh(list[1]), 5);
	CU_ASSERT_EQUAL(list[2], 0);
	identify(p.admin, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 1, list);
	CU_ASSERT_EQUAL(le32toh(list[0]), 5);
	CU_ASSERT_EQUAL(list[1], 0);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0xfffffffe, list);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS_DESC_LIST, 1, desc);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(desc[0], NVME_NIDT_UUID);
	CU_ASSERT_EQUAL(desc[1], 16);
	CU_ASSERT_EQUAL(desc[4], 0x11);
	CU_ASSERT_EQUAL(desc[20], NVME_NIDT_CSI);
	CU_ASSERT_EQUAL(desc[24], NVME_CSI_NVM);
	CU_ASSERT_EQUAL(desc[25], 0); /* the end */
	a = identify(p.admin, NVME_IDENTIFY_CNS_NS_DESC_LIST, 3, desc);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	a = identify(p.admin, NVME_IDENTIFY_CNS_NVMSET_LIST, 0, desc);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	t_pair_free(&p);
}

static void number_of_queues(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct t_conn *io;
	uint16_t cntlid = t_connect(c, NVMF_CNTLID_DYNAMIC);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_enable(c);
	a = t_feature(c, true, NVME_FEAT_FID_NUM_QUEUES, 0x007f007f);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x00030003);
	a = t_feature(c, true, NVME_FEAT_FID_NUM_QUEUES, 0xffff0000);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	a = t_feature(c, true, NVME_FEAT_FID_NUM_QUEUES, 0x00010000);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0);
	a = t_feature(c, false, NVME_FEAT_FID_NUM_QUEUES, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0);
	/* One was granted; the second is refused. */
	io = t_conn_new(env, 1, 2, 16);
	t_connect_sqe(io, &sqe, &data, cntlid);
	a = t_exec(io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_CONNECT_INVALID_PARAM));
	io = t_conn_new(env, 1, 1, 16);
	t_connect(io, cntlid);
	a = t_feature(c, true, NVME_FEAT_FID_NUM_QUEUES, 0x00030003);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_CMD_SEQ_ERROR);
	t_env_free(env);
}

static void feature_rules(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	a = t_feature(p.admin, true, NVME_FEAT_FID_ASYNC_EVENT, 0x3);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	a = t_feature(p.admin, false, NVME_FEAT_FID_ASYNC_EVENT, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0x3);
	a = t_feature(p.admin, false, NVME_FEAT_FID_ASYNC_EVENT | 1 << 8, 0); /* default */
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0);
	a = t_feature(p.admin, false, NVME_FEAT_FID_ASYNC_EVENT | 3 << 8, 0); /* capabilities */
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 4);
	a = t_feature(p.admin, false, NVME_FEAT_FID_ASYNC_EVENT | 4 << 8, 0);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	a = t_feature(p.admin, true, NVME_FEAT_FID_ASYNC_EVENT, 0x200); /* not in OAES */
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	a = t_feature(p.admin, true, NVME_FEAT_FID_ASYNC_EVENT | 1u << 31, 0);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_FEATURE_NOT_SAVEABLE));
	t_sqe(p.admin, &sqe, nvme_admin_set_features, NULL, 0);
	sqe.cdw10 = htole32(NVME_FEAT_FID_ASYNC_EVENT);
	sqe.nsid = htole32(1);
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_FEATURE_NOT_PER_NS));
	a = t_feature(p.admin, false, NVME_FEAT_FID_VOLATILE_WC, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 1);
	a = t_feature(p.admin, true, NVME_FEAT_FID_VOLATILE_WC, 0);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_FEATURE_NOT_CHANGEABLE));
	a = t_feature(p.admin, false, NVME_FEAT_FID_TEMP_THRESH, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0xffff);
	a = t_feature(p.admin, true, NVME_FEAT_FID_TEMP_THRESH, 1 << 20 | 300);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	a = t_feature(p.admin, false, NVME_FEAT_FID_TEMP_THRESH, 1 << 20);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 300);
	a = t_feature(p.admin, true, NVME_FEAT_FID_POWER_MGMT, 1);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	/* A reset restores the defaults. */
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	t_enable(p.admin);
	a = t_feature(p.admin, false, NVME_FEAT_FID_ASYNC_EVENT, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 0);
	t_pair_free(&p);
}

/* Features for interrupts, which have no meaning over fabrics, and Error Recovery. NSID is 0. */
static void features_without_effect(void)
{
	struct t_pair p = t_pair_new();
	struct t_answer a;

	a = t_feature(p.admin, false, NVME_FEAT_FID_IRQ_COALESCE, 0);
	CU_ASSERT_EQUAL(t_status(&a) | le32toh(a.cqe.result), 0);
	a = t_feature(p.admin, false, NVME_FEAT_FID_IRQ_CONFIG, 7);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 7);
	a = t_feature(p.admin, true, NVME_FEAT_FID_IRQ_COALESCE, 0x0101);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_FEATURE_NOT_CHANGEABLE));
	a = t_feature(p.admin, true, NVME_FEAT_FID_IRQ_CONFIG, 1 << 16);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_FEATURE_NOT_CHANGEABLE));
	a = t_feature(p.admin, true, NVME_FEAT_FID_ERR_RECOVERY, 30);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	a = t_feature(p.admin, false, NVME_FEAT_FID_ERR_RECOVERY, 0);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 30);
	CU_ASSERT_EQUAL(t_ns_of(p.env->t->subsys[0], 1)->marks->err_recovery, 0);
	a = t_feature(p.admin, true, NVME_FEAT_FID_ERR_RECOVERY, 1 << 16);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	a = t_feature(p.admin, false, NVME_FEAT_FID_HOST_MEM_BUF, 0);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	t_pair_free(&p);
}

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
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
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
	struct t_pair p = with_kato(4000, &gone);
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
	t_pair_free(&p);
}

/* The host may have sent its writes again by another path: nothing that came before is executed. */
static void end_after_a_long_pause(void)
{
	bool gone = false;
	bool io_gone = false;
	struct t_pair p = with_kato(1000, &gone);

	p.io->gone = &io_gone;
	t_advance(p.env, 1600 * RD_NSEC_PER_MSEC);
	CU_ASSERT_TRUE(gone);
	CU_ASSERT_TRUE(io_gone);
	t_pair_free(&p);
}

static void reactors_are_named(void)
{
	char text[RDT_BEAT_NAMES], last[] = ", 62, 63";

	CU_ASSERT_STRING_EQUAL(rdt_beat_names(1, text), "reactor 0");
	CU_ASSERT_STRING_EQUAL(rdt_beat_names(UINT64_C(0x8000000000000012), text),
			       "reactors 1, 4, 63");
	rdt_beat_names(UINT64_MAX, text);
	CU_ASSERT_STRING_EQUAL(text + strlen(text) - strlen(last), last);
}

/* Reactors beat for hosts with keep alive only. One that has no beat to wake it may have slept. */
static void sleep_without_keep_alive(void)
{
	bool gone = false;
	struct t_pair p = t_pair_new();
	struct rdt_reactor *r = p.env->t->reactors;
	struct nvme_sqe sqe;

	CU_ASSERT_FALSE(rd_timer_armed(&r[0].beat) || rd_timer_armed(&r[1].beat));
	t_feature(p.admin, true, NVME_FEAT_FID_KATO, 2000);
	CU_ASSERT_TRUE(rd_timer_armed(&r[0].beat));
	p.io->gone = &gone;
	for (int i = 0; i < 3; i++) {
		t_advance(p.env, RD_NSEC_PER_SEC);
		t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		t_exec(p.admin, &sqe);
	}
	rdt_beat_look(&r[1]); /* as when it wakes */
	t_turn(p.env);
	CU_ASSERT_FALSE(gone);
	t_pair_free(&p);
}

/* Traffic on an I/O queue of another reactor keeps the association alive too (TBKAS). */
static void keep_alive_by_traffic(void)
{
	bool gone = false;
	struct t_pair p = with_kato(1000, &gone);
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
	t_pair_free(&p);
}

static void keep_alive_off(void)
{
	bool gone = false;
	struct t_pair p = with_kato(0, &gone);

	t_advance(p.env, 3600 * RD_NSEC_PER_SEC);
	CU_ASSERT_FALSE(gone);
	t_pair_free(&p);
}

static void discovery_kato(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_sqe sqe;
	struct t_answer a;
	bool gone = false;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	strcpy(data.subsysnqn, NVMF_DISC_NQN);
	a = t_exec(c, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	c->gone = &gone;
	t_advance(env, 120 * RD_NSEC_PER_SEC - 1);
	CU_ASSERT_FALSE(gone);
	t_advance(env, 1);
	CU_ASSERT_TRUE(gone);
	t_env_free(env);
}

static void aer_limit(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (unsigned int i = 0; i < RDT_AER_MAX; i++) {
		t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
		t_send(p.admin, &sqe, NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_ASYNC_LIMIT));
	/* A reset ends them without an answer, and frees their places. */
	CU_ASSERT_EQUAL(p.admin->qp.used, RDT_AER_MAX);
	t_set_property(p.admin, NVME_REG_CC, 0x00460000);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	CU_ASSERT_EQUAL(p.admin->qp.used, 0);
	t_enable(p.admin);
	t_sqe(p.admin, &sqe, nvme_admin_async_event, NULL, 0);
	t_send(p.admin, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	t_pair_free(&p);
}

static struct t_answer abort_cmd(struct t_conn *c, uint16_t sqid, __le16 cid)
{
	struct nvme_sqe sqe;

	t_sqe(c, &sqe, nvme_admin_abort_cmd, NULL, 0);
	sqe.cdw10 = htole32(sqid | (uint32_t)le16toh(cid) << 16);
	return t_exec(c, &sqe);
}

static void abort_aer(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe aer;
	struct nvme_sqe sqe;
	struct t_answer first, second;

	t_sqe(p.admin, &aer, nvme_admin_async_event, NULL, 0);
	t_send(p.admin, &aer, NULL, 0);
	t_sqe(p.admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
	sqe.cdw10 = htole32((uint32_t)le16toh(aer.cid) << 16);
	t_send(p.admin, &sqe, NULL, 0);
	t_turn(p.env);
	first = t_answer(p.admin);
	second = t_answer(p.admin);
	CU_ASSERT_EQUAL(first.cqe.cid, aer.cid);
	CU_ASSERT_EQUAL(t_status(&first), NVME_SC_ABORT_REQ);
	CU_ASSERT_EQUAL(t_status(&second), 0);
	CU_ASSERT_EQUAL(le32toh(second.cqe.result), 0); /* aborted */
	t_pair_free(&p);
}

static void abort_nothing(void)
{
	struct t_pair p = t_pair_new();
	struct t_answer a = abort_cmd(p.admin, 1, htole16(0x7777));

	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
	a = abort_cmd(p.admin, 3, 0); /* no such queue */
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
	a = abort_cmd(p.admin, 0xffff, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
	t_pair_free(&p);
}

/* In a backend that cannot cancel: it is not aborted and completes normally. */
static void abort_in_backend(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe rw;
	struct t_answer a;
	uint8_t buf[512];

	d->hold = true;
	t_rw_sqe(p.io, &rw, false, 0, 1, buf);
	t_send(p.io, &rw, NULL, 0);
	t_turn(p.env);
	a = abort_cmd(p.admin, 1, rw.cid);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_pair_free(&p);
}

static void abort_cancels(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe rw, sqe;
	struct t_answer a;
	uint8_t buf[512];

	d->hold = true;
	d->can_cancel = true;
	for (int round = 0; round < 3; round++) {
		unsigned int cancelled = d->cancelled;

		t_rw_sqe(p.io, &rw, false, 0, 1, buf);
		t_send(p.io, &rw, NULL, 0);
		t_turn(p.env);
		t_sqe(p.admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
		sqe.cdw10 = htole32(1 | (uint32_t)le16toh(rw.cid) << 16);
		t_send(p.admin, &sqe, NULL, 0);
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
		a = t_answer(p.io);
		CU_ASSERT_EQUAL(t_status(&a), round == 0 ? NVME_SC_ABORT_REQ : 0);
	}
	t_pair_free(&p);
}

static void abort_limit(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe rw[RDT_ABORT_MAX + 1], sqe;
	struct t_answer a;
	uint8_t buf[512];

	d->hold = true;
	d->can_cancel = true;
	for (unsigned int i = 0; i <= RDT_ABORT_MAX; i++) {
		t_rw_sqe(p.io, &rw[i], false, 0, 1, buf);
		t_send(p.io, &rw[i], NULL, 0);
		t_sqe(p.admin, &sqe, nvme_admin_abort_cmd, NULL, 0);
		sqe.cdw10 = htole32(1 | (uint32_t)le16toh(rw[i].cid) << 16);
		t_send(p.admin, &sqe, NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 1);
	a = t_answer(p.admin);
	CU_ASSERT_EQUAL(t_status(&a), CMD(NVME_SC_ABORT_LIMIT));
	t_pair_free(&p);
}

static void discovery_commands(void)
{
	struct t_env *env = t_env_new();
	struct t_conn *c = t_conn_new(env, 0, 0, 32);
	struct nvmf_connect_data data;
	struct nvme_id_ctrl id;
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect_sqe(c, &sqe, &data, NVMF_CNTLID_DYNAMIC);
	strcpy(data.subsysnqn, NVMF_DISC_NQN);
	t_exec(c, &sqe);
	a = t_set_property(c, NVME_REG_CC, 1); /* no entry sizes: there are no I/O queues */
	CU_ASSERT_EQUAL(t_status(&a), 0);
	a = identify(c, NVME_IDENTIFY_CNS_CTRL, 0, &id);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(id.cntrltype, NVME_CTRL_CNTRLTYPE_DISCOVERY);
	CU_ASSERT_STRING_EQUAL(id.subnqn, NVMF_DISC_NQN);
	CU_ASSERT_TRUE(le16toh(id.maxcmd) >= 1);
	CU_ASSERT_EQUAL(le32toh(id.sgls), 0x00100005);
	a = identify(c, NVME_IDENTIFY_CNS_NS_ACTIVE_LIST, 0, &id);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	a = t_feature(c, true, NVME_FEAT_FID_NUM_QUEUES, 0);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	a = t_feature(c, false, NVME_FEAT_FID_KATO, 0);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 120000);
	a = abort_cmd(c, 0, 0);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_OPCODE);
	t_env_free(env);
}

const struct t_case t_admin_cases[] = {
	{"Identify Controller tells what hosts insist on", identify_controller},
	{"Identify Namespace, active, inactive and invalid", identify_namespace},
	{"namespace lists and descriptors", identify_lists},
	{"the number of queues is granted and enforced", number_of_queues},
	{"features: selectors, defaults and errors", feature_rules},
	{"features of interrupts and error recovery", features_without_effect},
	{"keep alive expires after an interval of silence", keep_alive_expires},
	{"a target that was held up looks again, once", keep_alive_of_a_late_target},
	{"a pause longer than keep alive ends the controller", end_after_a_long_pause},
	{"without keep alive an idle reactor sleeps", sleep_without_keep_alive},
	{"all reactors that stand still are named", reactors_are_named},
	{"I/O on another reactor is traffic", keep_alive_by_traffic},
	{"KATO 0 turns keep alive off", keep_alive_off},
	{"a discovery controller lives 120 s without KATO", discovery_kato},
	{"AERs are limited and end with a reset", aer_limit},
	{"Abort answers a pending AER", abort_aer},
	{"Abort of nothing says so", abort_nothing},
	{"Abort in a backend that cannot cancel says so", abort_in_backend},
	{"Abort cancels in the backend and waits for the outcome", abort_cancels},
	{"Aborts are limited", abort_limit},
	{"a discovery controller has only its own commands", discovery_commands},
	{NULL, NULL},
};
