/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA transport: connecting, capsules, and transfers of data. */
#include "t_rdma.h"

#include <string.h>

#include "fabric/iwarp/testing.h"
#include "target/transport/rdma/rdma.h"

static void rejects(void)
{
	static const struct {
		uint16_t len;
		uint16_t recfmt;
		uint16_t qid;
		uint16_t hrqsize;
		uint16_t hsqsize;
		uint16_t ird;
		uint16_t sts;
	} cases[] = {
		{31, 0, 0, 32, 31, 16, NVMF_RDMA_CM_INVALID_LEN},
		{0, 0, 0, 32, 31, 16, NVMF_RDMA_CM_INVALID_LEN},
		{32, 1, 0, 32, 31, 16, NVMF_RDMA_CM_INVALID_RECFMT},
		{32, 0, 5, 32, 31, 16, NVMF_RDMA_CM_INVALID_QID},
		{32, 0, 0, 32, 0, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 0, 256, 128, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 1, 256, 64, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 1, 65535, 65535, 16, NVMF_RDMA_CM_INVALID_HSQSIZE},
		{32, 0, 0, 30, 31, 16, NVMF_RDMA_CM_INVALID_HRQSIZE},
		{32, 0, 0, 32, 31, 0, NVMF_RDMA_CM_INVALID_IRD},
	};
	struct t_rdma_server s;

	t_rdma_server_start(&s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvmf_rdma_cm_rej rej = {0};
		struct t_rdma_host h;

		t_rdma_host_init(&h, &s, cases[i].qid);
		h.cm_len = cases[i].len;
		h.cm.recfmt = htole16(cases[i].recfmt);
		h.cm.hrqsize = htole16(cases[i].hrqsize);
		h.cm.hsqsize = htole16(cases[i].hsqsize);
		h.ird = cases[i].ird;
		t_rdma_host_open(&h);
		CU_ASSERT_EQUAL(h.event, RD_FAB_EV_REJECTED);
		CU_ASSERT_TRUE(h.priv_len >= sizeof(rej));
		memcpy(&rej, h.priv, sizeof(rej));
		CU_ASSERT_EQUAL(le16toh(rej.recfmt), 0);
		CU_ASSERT_EQUAL(le16toh(rej.sts), cases[i].sts);
		t_rdma_host_close(&h);
	}
	t_rdma_server_stop(&s);
}

static void accepts(void)
{
	struct nvmf_rdma_cm_rep rep;
	struct t_rdma_server s;
	struct t_rdma_host h;

	t_rdma_server_start(&s);
	t_rdma_host_init(&h, &s, 1);
	h.cm.hsqsize = htole16(17);
	t_rdma_host_open(&h);
	CU_ASSERT_EQUAL(h.event, RD_FAB_EV_ESTABLISHED);
	CU_ASSERT_TRUE_FATAL(h.priv_len >= sizeof(rep));
	memcpy(&rep, h.priv, sizeof(rep));
	CU_ASSERT_EQUAL(le16toh(rep.recfmt), 0);
	CU_ASSERT_EQUAL(le16toh(rep.crqsize), 18);
	t_rdma_host_close(&h);
	t_rdma_server_stop(&s);
}

/* The target's device sends inline, but not a SEND with Invalidate: an iWARP device. */
static void like_iwarp_device(struct t_rdma_server *s)
{
	for (unsigned int i = 0; i < s->t->reactors_count; i++) {
		struct rd_fab *fab = rdt_rdma_of(&s->t->reactors[i])->fabs[RDT_FAB_IWARP];
		struct rd_fab_caps *caps = &rd_iw_test_dev(fab)->caps;

		CU_ASSERT_FATAL(caps->max_inline >= NVME_CQE_SIZE && caps->send_with_inv);
		caps->cheap_mr = false;
		caps->inline_with_inv = false;
	}
}

static void answers_with_inv(void)
{
	struct nvme_sqe sqe;
	struct t_rdma_server s;
	struct t_rdma_host h;
	uint16_t cntlid;

	t_rdma_server_start(&s);
	like_iwarp_device(&s);
	t_rdma_host_start(&h, &s, T_HOST, 0, &cntlid);
	for (int i = 0; i < 2; i++) { /* by a SEND, then by one that invalidates the key */
		memset(h.data, 0, sizeof(struct nvme_id_ctrl));
		t_rdma_command(&h, &sqe, nvme_admin_identify, h.data, sizeof(struct nvme_id_ctrl));
		if (i)
			sqe.sgl.keyed.type = NVME_SGL_KEYED_INVALIDATE;
		sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CTRL);
		CU_ASSERT_EQUAL_FATAL(t_rdma_answer(&h, &sqe), 0);
		CU_ASSERT_EQUAL(h.data[24], 'M'); /* the model */
	}
	t_rdma_host_close(&h);
	t_rdma_server_stop(&s);
}

/* A violation of the transport's rules ends the connection; others do not notice. */
static void bad_capsules(void)
{
	static const uint32_t lens[] = {1, 63, T_RDMA_CAPSULE + 1};
	struct t_rdma_server s;
	struct t_rdma_host good;
	struct nvme_sqe sqe;
	uint16_t cntlid;

	t_rdma_server_start(&s);
	t_rdma_host_start(&good, &s, T_HOST, 0, &cntlid);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct t_rdma_host h;

		t_rdma_host_init(&h, &s, 0);
		t_rdma_host_open(&h);
		CU_ASSERT_EQUAL(h.event, RD_FAB_EV_ESTABLISHED);
		t_rdma_command(&h, &sqe, nvme_admin_keep_alive, NULL, 0);
		t_rdma_host_send(&h, &sqe, lens[i]);
		t_rdma_wait_for(&s, h.event == RD_FAB_EV_DISCONNECTED);
		CU_ASSERT_EQUAL(h.answers, 0);
		t_rdma_host_close(&h);
		t_rdma_command(&good, &sqe, nvme_admin_keep_alive, NULL, 0);
		CU_ASSERT_EQUAL(t_rdma_answer(&good, &sqe), 0);
	}
	t_rdma_host_close(&good);
	t_rdma_server_stop(&s);
}

/* Sixteen writes of MDTS at once: more than the slab, and more than the host's READ depth. */
static void read_depth(void)
{
	static const uint16_t irds[] = {1, 2, 16};

	for (size_t k = 0; k < sizeof(irds) / sizeof(irds[0]); k++) {
		struct t_rdma_assoc a;
		unsigned int before;

		t_rdma_assoc_open(&a, irds[k]);
		before = a.io.answers;
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			a.io.data[i] = (uint8_t)(i * 31 + (i >> 9) + k);
		for (unsigned int i = 0; i < 16; i++)
			t_rdma_send_io(&a.io, nvme_cmd_write, i);
		t_rdma_wait_for(&a.s, a.io.answers == before + 16);
		CU_ASSERT_EQUAL(a.io.ok, a.io.answers);
		memset(a.io.data, 0, 16 * T_MDTS);
		for (unsigned int i = 0; i < 16; i++)
			t_rdma_send_io(&a.io, nvme_cmd_read, i);
		t_rdma_wait_for(&a.s, a.io.answers == before + 32);
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			if (a.io.data[i] != (uint8_t)(i * 31 + (i >> 9) + k))
				CU_FAIL_FATAL("the data differs");
		t_rdma_assoc_close(&a);
	}
}

/* A command of MDTS with sixteen descriptors, in reverse order of the host's memory. */
static void send_list(struct t_rdma_host *h, uint8_t opcode, unsigned int i, bool good)
{
	uint8_t *list = h->capsule + NVME_SQE_SIZE;
	uint32_t part = T_MDTS / 16;
	struct nvme_sqe sqe;

	t_rdma_command(h, &sqe, opcode, NULL, 0);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(i * (T_MDTS / 512));
	sqe.cdw12 = htole32(T_MDTS / 512 - 1);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.length = htole32(16 * 16);
	sqe.sgl.data.type = NVME_SGL_LAST_IN_CAPSULE;
	for (unsigned int k = 0; k < 16; k++) {
		union nvme_sgl d;

		nvme_sgl_set_keyed(
			&d, rd_fab_remote_addr(h->mr, h->data) + i * T_MDTS + (15 - k) * part, part,
			good || k < 9 ? h->mr->rkey : h->mr->rkey ^ 0x5a00, NVME_SGL_KEYED_ADDRESS);
		memcpy(list + k * sizeof(d), &d, sizeof(d));
	}
	t_rdma_host_send(h, &sqe, NVME_SQE_SIZE + 16 * 16);
}

/* More descriptors than the READ depth, several such commands at once, and plain ones between. */
static void lists(void)
{
	static const uint16_t irds[] = {1, 3, 32};

	for (size_t k = 0; k < sizeof(irds) / sizeof(irds[0]); k++) {
		struct nvme_sqe sqe;
		struct t_rdma_assoc a;
		unsigned int before;

		t_rdma_assoc_open(&a, irds[k]);
		before = a.io.answers;
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			a.io.data[i] = (uint8_t)(i * 29 + (i >> 11) + k);
		for (unsigned int pass = 0; pass < 2; pass++) {
			for (unsigned int i = 0; i < 16; i++)
				send_list(&a.io, pass ? nvme_cmd_read : nvme_cmd_write, i, true);
			t_rdma_command(&a.io, &sqe, nvme_cmd_flush, NULL, 0);
			sqe.nsid = htole32(1);
			t_rdma_host_send(&a.io, &sqe, NVME_SQE_SIZE);
			t_rdma_wait_for(&a.s, a.io.answers == before + (pass + 1) * 17);
			CU_ASSERT_EQUAL(a.io.ok, a.io.answers);
			if (!pass)
				memset(a.io.data, 0, 16 * T_MDTS);
		}
		for (size_t i = 0; i < 16 * T_MDTS; i++)
			if (a.io.data[i] != (uint8_t)(i * 29 + (i >> 11) + k))
				CU_FAIL_FATAL("the data differs");
		/* The parts are in their places on the disk; reading them back alone would not show
		 * that. */
		t_rdma_command(&a.io, &sqe, nvme_cmd_read, a.io.data + 16, 512);
		sqe.nsid = htole32(1);
		CU_ASSERT_EQUAL(t_rdma_answer(&a.io, &sqe), 0);
		CU_ASSERT_EQUAL(memcmp(a.io.data + 16, a.io.data + 15 * (T_MDTS / 16), 512), 0);
		t_rdma_assoc_close(&a);
	}
}

/* The tenth key of sixteen is wrong: the connection ends, and all resources are freed. */
static void list_wrong_key(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_read};
	static const uint16_t irds[] = {1, 4, 32};

	for (size_t i = 0; i < 6; i++) {
		struct nvme_sqe sqe;
		struct t_rdma_assoc a;

		t_rdma_assoc_open(&a, irds[i / 2]);
		send_list(&a.io, ops[i % 2], 0, true);
		send_list(&a.io, ops[i % 2], 1, false);
		send_list(&a.io, ops[i % 2], 2, true);
		t_rdma_wait_for(&a.s, a.io.event == RD_FAB_EV_DISCONNECTED);
		t_rdma_command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		CU_ASSERT_EQUAL(t_rdma_answer(&a.admin, &sqe), 0);
		t_rdma_assoc_close(&a);
	}
}

/* A key that is not the host's: its device ends the connection; the target frees everything. */
static void wrong_key(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_read};

	for (size_t i = 0; i < sizeof(ops); i++) {
		struct t_rdma_assoc a;
		struct nvme_sqe sqe;

		t_rdma_assoc_open(&a, 16);
		t_rdma_command(&a.io, &sqe, ops[i], a.io.data, 4096);
		nvme_sgl_set_keyed(&sqe.sgl, rd_fab_remote_addr(a.io.mr, a.io.data), 4096,
				   a.io.mr->rkey ^ 0x5a00, NVME_SGL_KEYED_ADDRESS);
		sqe.nsid = htole32(1);
		sqe.cdw12 = htole32(7);
		t_rdma_host_send(&a.io, &sqe, NVME_SQE_SIZE);
		t_rdma_wait_for(&a.s, a.io.event == RD_FAB_EV_DISCONNECTED);
		t_rdma_command(&a.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
		CU_ASSERT_EQUAL(t_rdma_answer(&a.admin, &sqe), 0);
		t_rdma_assoc_close(&a);
	}
}

const struct t_case t_rdma_cases[] = {
	{"bad private data is rejected with its code", rejects},
	{"the accept tells the size of our receive queue", accepts},
	{"answers that may not go inline are registered", answers_with_inv},
	{"capsules of impossible length end the connection", bad_capsules},
	{"READs beyond the host's depth and the slab wait", read_depth},
	{"lists of descriptors beyond the READ depth", lists},
	{"a wrong key in a list", list_wrong_key},
	{"a wrong key costs the host its connection only", wrong_key},
	{NULL, NULL},
};
