/* SPDX-License-Identifier: BSD-3-Clause */
/* ANA states, statuses of paths, path selection and the identity of namespaces. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "suites.h"
#include "util/loop.h"

#define OPT  NVME_ANA_STATE_OPTIMIZED
#define NON  NVME_ANA_STATE_NONOPTIMIZED
#define INAC NVME_ANA_STATE_INACCESSIBLE
#define LOSS NVME_ANA_STATE_PERSISTENT_LOSS
#define CHG  NVME_ANA_STATE_CHANGE

static const struct nvme_id_ctrl with_ana = {
	.cmic = NVME_CTRL_CMIC_MULTI_ANA_REPORTING,
	.anatt = 10,
};

static struct nvme_id_ctrl id_with(uint32_t groups)
{
	struct nvme_id_ctrl id = with_ana;

	id.nanagrpid = htole32(groups);
	return id;
}

/* A log page of groups 1 and 2, which lists @nsids namespaces of group 1. Returns its size. */
static size_t make_log(uint8_t *log, uint8_t one, uint8_t two, uint32_t nsids)
{
	size_t second = 16 + 32 + 4 * nsids;

	memset(log, 0, second + 32);
	log[0] = 7; /* change count */
	log[8] = 2; /* groups */
	log[16] = 1;
	log[20] = (uint8_t)nsids;
	log[32] = one;
	log[second] = 2;
	log[second + 16] = two;
	return second + 32;
}

/* rdi_ana_update() of a copy with the exact size of the log page, so that a sanitizer or valgrind
 * sees reads beyond it. */
static int update(struct rdi_ana *ana, const uint8_t *log, size_t len, uint32_t group, uint64_t now)
{
	uint8_t *copy = malloc(len ? len : 1);
	int rc;

	memcpy(copy, log, len);
	rc = rdi_ana_update(ana, copy, len, group, now);
	free(copy);
	return rc;
}

static void log_page(void)
{
	struct nvme_id_ctrl id = id_with(64);
	struct rdi_ana ana;
	uint8_t log[256];
	size_t len;

	rdi_ana_init(&ana, &id);
	CU_ASSERT_TRUE(ana.reported);
	CU_ASSERT_EQUAL(ana.state, OPT);
	len = make_log(log, OPT, NON, 0);
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 0), 0);
	CU_ASSERT_EQUAL(ana.state, NON);
	CU_ASSERT_EQUAL(ana.changes, 7);
	CU_ASSERT_EQUAL(update(&ana, log, len, 3, 0), -ENOENT);
	/* a controller that ignores RGO */
	len = make_log(log, LOSS, INAC, 5);
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 0), 0);
	CU_ASSERT_EQUAL(ana.state, INAC);
	CU_ASSERT_EQUAL(rdi_ana_log_size(&id), 16 + 64 * 32);
	id.nanagrpid = htole32(UINT32_MAX);
	CU_ASSERT_EQUAL(rdi_ana_log_size(&id), 16 + 65535 * 32);
	id.cmic = 0;
	CU_ASSERT_EQUAL(rdi_ana_log_size(&id), 0);
}

static void paths_malformed(void)
{
	struct nvme_id_ctrl id = id_with(2);
	struct rdi_ana ana;
	uint8_t log[256];
	size_t len, n;

	rdi_ana_init(&ana, &id);
	len = make_log(log, OPT, NON, 3);
	for (n = 0; n < len; n++)
		CU_ASSERT_EQUAL(update(&ana, log, n, 2, 0), -EPROTO);
	memset(log + 20, 0xff, 4); /* namespaces of group 1 */
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 0), -EPROTO);
	len = make_log(log, OPT, 5, 0);
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 0), -EPROTO);
	len = make_log(log, INAC, NON, 0);
	log[16] = 2; /* group 2 is there twice */
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 0), -EPROTO);
	CU_ASSERT_EQUAL(ana.state, OPT);
}

static void transition(void)
{
	const uint64_t s = RD_NSEC_PER_SEC;
	struct nvme_id_ctrl id = id_with(2);
	struct rdi_ana ana;
	uint8_t log[256];
	size_t len;

	rdi_ana_init(&ana, &id);
	rdi_ana_answered(&ana, nvme_status(NVME_SCT_PATH, NVME_SC_ANA_TRANSITION), 5 * s);
	CU_ASSERT_EQUAL(ana.state, CHG);
	len = make_log(log, OPT, CHG, 0);
	/* still changing: the time counts from the beginning */
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 9 * s), 0);
	CU_ASSERT_FALSE(rdi_ana_expired(&ana, 15 * s - 1));
	CU_ASSERT_TRUE(rdi_ana_expired(&ana, 15 * s));
	len = make_log(log, OPT, NON, 0);
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 12 * s), 0);
	CU_ASSERT_FALSE(rdi_ana_expired(&ana, 100 * s));
	/* another transition has a time of its own */
	len = make_log(log, OPT, CHG, 0);
	CU_ASSERT_EQUAL(update(&ana, log, len, 2, 200 * s), 0);
	CU_ASSERT_FALSE(rdi_ana_expired(&ana, 209 * s));
}

static void no_ana(void)
{
	struct nvme_id_ctrl id = {.cmic = 0};
	struct rdi_ana ana;

	rdi_ana_init(&ana, &id);
	CU_ASSERT_FALSE(ana.reported);
	rdi_ana_answered(&ana, nvme_status(NVME_SCT_PATH, NVME_SC_ANA_INACCESSIBLE), 0);
	CU_ASSERT_EQUAL(ana.state, OPT);
}

static void answers(void)
{
	struct nvme_id_ctrl id = id_with(2);
	struct rdi_ana ana;

	rdi_ana_init(&ana, &id);
	rdi_ana_answered(&ana, nvme_status(NVME_SCT_PATH, NVME_SC_ANA_INACCESSIBLE), 0);
	CU_ASSERT_EQUAL(ana.state, INAC);
	rdi_ana_answered(&ana, nvme_status(NVME_SCT_PATH, NVME_SC_ANA_PERSISTENT_LOSS), 0);
	CU_ASSERT_EQUAL(ana.state, LOSS);
	/* a status of the path but not of the namespace, and one that is not of the path */
	rdi_ana_answered(&ana, nvme_status(NVME_SCT_PATH, NVME_SC_CTRL_PATH_ERROR), 0);
	rdi_ana_answered(&ana, nvme_status(NVME_SCT_GENERIC, NVME_SC_ANA_INACCESSIBLE), 0);
	CU_ASSERT_EQUAL(ana.state, LOSS);
	CU_ASSERT_STRING_EQUAL(rdi_ana_state_name(LOSS), "persistent-loss");
	CU_ASSERT_STRING_EQUAL(rdi_ana_state_name(0), "reserved");
}

static void verdicts(void)
{
	static const uint8_t path[] = {0x00, 0x01, 0x02, 0x03, 0x60, 0x70, 0x71};
	struct nvme_id_ctrl id = {.crdt1 = htole16(1), .crdt3 = htole16(30)};
	struct nvme_status busy = nvme_status(NVME_SCT_GENERIC, NVME_SC_NS_NOT_READY);
	size_t i;

	for (i = 0; i < sizeof(path); i++) {
		CU_ASSERT_EQUAL(rdi_status_verdict(nvme_status(NVME_SCT_PATH, path[i]), 99),
				RDI_OTHER_PATH);
		CU_ASSERT_EQUAL(rdi_status_verdict(nvme_status_dnr(NVME_SCT_PATH, path[i]), 0),
				RDI_COMPLETE);
		CU_ASSERT_EQUAL(rdi_status_unexecuted(nvme_status(NVME_SCT_PATH, path[i])),
				path[i] >= 0x01 && path[i] <= 0x03);
	}
	CU_ASSERT_FALSE(rdi_status_unexecuted(nvme_status(NVME_SCT_GENERIC, 0x02)));
	CU_ASSERT_EQUAL(rdi_status_verdict(NVME_OK, 0), RDI_COMPLETE);
	CU_ASSERT_EQUAL(rdi_status_verdict(busy, RDI_RETRIES_MAX - 1), RDI_SAME_PATH);
	CU_ASSERT_EQUAL(rdi_status_verdict(busy, RDI_RETRIES_MAX), RDI_COMPLETE);
	CU_ASSERT_EQUAL(rdi_retry_delay_ns(busy, &id), 0);
	busy.v |= NVME_STATUS_CRD1;
	CU_ASSERT_EQUAL(rdi_retry_delay_ns(busy, &id), 100 * RD_NSEC_PER_MSEC);
	busy.v |= 3 * NVME_STATUS_CRD1;
	CU_ASSERT_EQUAL(rdi_retry_delay_ns(busy, &id), 3000 * RD_NSEC_PER_MSEC);
}

static void unusable(void)
{
	struct rdi_path_view p[] = {
		{true, INAC, 0}, {true, LOSS, 0}, {true, CHG, 0}, {false, OPT, 0}};
	int policy;

	for (policy = RDI_POLICY_ROUND_ROBIN; policy <= RDI_POLICY_FAILOVER; policy++) {
		CU_ASSERT_EQUAL(rdi_path_choose((enum rdi_policy)policy, p, 4, 0), -1);
		CU_ASSERT_EQUAL(rdi_path_choose((enum rdi_policy)policy, p, 0, -1), -1);
		p[2].ana = NON;
		CU_ASSERT_EQUAL(rdi_path_choose((enum rdi_policy)policy, p, 4, 0), 2);
		p[2].ana = CHG;
	}
}

static void round_robin(void)
{
	struct rdi_path_view p[] = {{true, OPT, 9}, {true, NON, 0}, {true, OPT, 0}};

	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_ROUND_ROBIN, p, 3, -1), 0);
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_ROUND_ROBIN, p, 3, 0), 2);
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_ROUND_ROBIN, p, 3, 2), 0);
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_ROUND_ROBIN, p, 3, 7), 0);
}

static void queue_depth(void)
{
	struct rdi_path_view p[] = {{true, OPT, 4}, {true, OPT, 3}, {true, NON, 0}, {true, OPT, 3}};

	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_QUEUE_DEPTH, p, 4, 0), 1);
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_QUEUE_DEPTH, p, 4, 1), 3);
	p[1].live = p[3].live = false;
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_QUEUE_DEPTH, p, 4, 1), 0);
}

/* A path that connects and answers no command. */
static void silent_paths(void)
{
	struct rdi_path_view p[] = {{true, OPT, 0, true}, {true, NON, 5}, {true, NON, 9, true}};
	int policy;

	for (policy = RDI_POLICY_ROUND_ROBIN; policy <= RDI_POLICY_FAILOVER; policy++) {
		p[1].live = true;
		CU_ASSERT_EQUAL(rdi_path_choose((enum rdi_policy)policy, p, 3, 0), 1);
		p[1].live = false; /* better than none */
		CU_ASSERT_EQUAL(rdi_path_choose((enum rdi_policy)policy, p, 3, 0), 0);
	}
}

static void failover(void)
{
	struct rdi_path_view p[] = {{true, OPT, 0}, {true, NON, 0}, {true, NON, 0}};

	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_FAILOVER, p, 3, -1), 0);
	p[0].live = false;
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_FAILOVER, p, 3, 0), 1);
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_FAILOVER, p, 3, 2), 2); /* unchanged */
	p[0].live = true;
	CU_ASSERT_EQUAL(rdi_path_choose(RDI_POLICY_FAILOVER, p, 3, 1), 0);
}

static void identity_list(void)
{
	uint8_t list[64] = {NVME_NIDT_NGUID, 16, 0, 0, 0xaa};
	struct rdi_ns_identity id = {.nsid = 1};

	list[20] = NVME_NIDT_EUI64;
	list[21] = 8;
	list[24] = 0xbb;
	list[32] = NVME_NIDT_CSI;
	list[33] = 1;
	list[37] = NVME_NIDT_UUID;
	list[38] = 16;
	list[41] = 0xcc;
	CU_ASSERT_EQUAL(rdi_identity_take(&id, list, sizeof(list)), 0);
	CU_ASSERT_EQUAL(id.nguid[0], 0xaa);
	CU_ASSERT_EQUAL(id.eui64[0], 0xbb);
	CU_ASSERT_EQUAL(id.uuid[0], 0xcc);
	CU_ASSERT_EQUAL(rdi_identity_take(&id, list, 56), -EPROTO); /* cut within the UUID */
	list[1] = 15;
	CU_ASSERT_EQUAL(rdi_identity_take(&id, list, sizeof(list)), -EPROTO);
}

static void identity(void)
{
	struct rdi_ns_identity a = {.subnqn = "nqn.2024-01.test:a", .nsid = 1}, b = a;

	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_ASSUMED);
	b.nsid = 2;
	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_DIFFERENT);
	a.uuid[15] = b.uuid[15] =
		1; /* the namespace ID of a private namespace may differ by controller */
	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_SAME);
	a.nguid[0] = 1; /* on one side only */
	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_SAME);
	b.nguid[0] = 2;
	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_DIFFERENT);
	b.nguid[0] = 1;
	b.subnqn = "nqn.2024-01.test:b";
	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_DIFFERENT);
	b = (struct rdi_ns_identity){.subnqn = a.subnqn, .nsid = 1, .eui64 = {1}};
	CU_ASSERT_EQUAL(rdi_identity_match(&a, &b), RDI_IDENTITY_DIFFERENT);
}

const struct t_case t_paths_cases[] = {
	{"the state of a group is found in the ANA log page", log_page},
	{"a malformed ANA log page changes nothing", paths_malformed},
	{"a transition fails after ANATT, counted from its beginning", transition},
	{"without ANA reporting a status does not make the path unusable", no_ana},
	{"an ANA status changes the state before the log page is read", answers},
	{"path related statuses go to another path, DNR to the caller", verdicts},
	{"a path that is down or in an unusable ANA state is not chosen", unusable},
	{"round robin goes round the optimized paths", round_robin},
	{"queue depth takes the path with the fewest commands in flight", queue_depth},
	{"failover stays, and returns to the optimized path", failover},
	{"a path that answers is preferred to one that is silent", silent_paths},
	{"identifiers are taken from a descriptor list", identity_list},
	{"identifiers decide whether two paths have the same namespace", identity},
	{NULL, NULL},
};
