/* SPDX-License-Identifier: BSD-3-Clause */
/* Log pages: contents, windows, and the discovery log. */
#include <string.h>

#include "util/sockaddr.h"
#include "t_target.h"
#include "target/transport/rdma/rdma.h"

static struct t_answer get_log(struct t_conn *c, uint8_t lid, uint64_t offset, void *buf,
			       uint32_t len)
{
	struct nvme_sqe sqe;
	uint32_t numd = len / 4 - 1;

	memset(buf, 0xee, len);
	t_sqe(c, &sqe, nvme_admin_get_log_page, buf, len);
	sqe.nsid = htole32(NVME_NSID_ALL);
	sqe.cdw10 = htole32(lid | numd << 16);
	sqe.cdw11 = htole32(numd >> 16);
	sqe.cdw12 = htole32((uint32_t)offset);
	sqe.cdw13 = htole32((uint32_t)(offset >> 32));
	return t_exec(c, &sqe);
}

static uint64_t low64(const __u8 *v)
{
	__le64 le;

	memcpy(&le, v, sizeof(le));
	return le64toh(le);
}

static void smart_log(void)
{
	T_PAIR(p);
	struct t_conn *io2 = t_conn_new(p.env, 0, 2, 16); /* on the other reactor */
	struct nvme_smart_log log;
	static uint8_t buf[T_MDTS];
	struct nvme_sqe sqe;
	struct t_answer a;

	t_connect(io2, p.cntlid);
	for (int i = 0; i < 10; i++) {
		t_rw_sqe(i & 1 ? p.io : io2, &sqe, true, 0, 128, buf);
		t_exec(i & 1 ? p.io : io2, &sqe);
	}
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	t_exec(p.io, &sqe);
	p.env->disk[0].fail = -5;
	t_exec(p.io, &sqe);
	t_advance(p.env, 2 * 3600 * RD_NSEC_PER_SEC);
	a = get_log(p.admin, NVME_LOG_LID_SMART, 0, &log, sizeof(log));
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(low64(log.host_writes), 10);
	CU_ASSERT_EQUAL(low64(log.data_units_written),
			2); /* 1280 blocks, in thousands, rounded up */
	CU_ASSERT_EQUAL(low64(log.host_reads), 1);
	CU_ASSERT_EQUAL(low64(log.data_units_read), 1);
	CU_ASSERT_EQUAL(low64(log.media_errors), 1);
	CU_ASSERT_EQUAL(low64(log.num_err_log_entries), 1);
	CU_ASSERT_EQUAL(low64(log.power_on_hours), 2);
	CU_ASSERT_EQUAL(log.avail_spare, 100);
	t_sqe(p.admin, &sqe, nvme_admin_get_log_page, &log, 512);
	sqe.nsid = htole32(1); /* LPA reports no log page for single namespaces */
	sqe.cdw10 = htole32(NVME_LOG_LID_SMART | 127 << 16);
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), NVME_SC_INVALID_FIELD);
}

static void effects_log(void)
{
	T_PAIR(p);
	struct nvme_cmd_effects_log log;
	struct t_answer a = get_log(p.admin, NVME_LOG_LID_CMD_EFFECTS, 0, &log, sizeof(log));

	CU_ASSERT_EQUAL(t_status(&a), 0);
	for (unsigned int op = 0; op < 256; op++) {
		struct nvme_sqe sqe;
		bool shown = le32toh(log.iocs[op]) & NVME_CMD_EFFECTS_CSUPP;

		if (op == NVMF_OPCODE)
			continue;
		/* Each command reported as supported is known to the queue, and each known command
		 * is reported. */
		t_sqe(p.io, &sqe, (uint8_t)op, NULL, 0);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a) != NVME_SC_INVALID_OPCODE, shown);
	}
	CU_ASSERT_TRUE(le32toh(log.acs[nvme_admin_identify]) & NVME_CMD_EFFECTS_CSUPP);
	CU_ASSERT_TRUE(le32toh(log.acs[nvme_admin_get_lba_status]) & NVME_CMD_EFFECTS_CSUPP);
	CU_ASSERT_EQUAL(log.acs[nvme_admin_format_nvm], 0);
	CU_ASSERT_TRUE(le32toh(log.iocs[nvme_cmd_write]) & NVME_CMD_EFFECTS_LBCC);
	CU_ASSERT_FALSE(le32toh(log.iocs[nvme_cmd_read]) & NVME_CMD_EFFECTS_LBCC);
}

static void bad_windows(void)
{
	T_PAIR(p);
	static uint8_t buf[2 * T_MDTS];
	struct t_answer a = get_log(p.admin, NVME_LOG_LID_DISCOVER, 0, buf, 512);

	CU_ASSERT_EQUAL(t_status(&a), NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_INVALID_LOG_PAGE);
	a = get_log(p.admin, NVME_LOG_LID_SMART, 2, buf, 512);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);
	a = get_log(p.admin, NVME_LOG_LID_SMART, UINT64_MAX - 3, buf, 512);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);
	a = get_log(p.admin, NVME_LOG_LID_SMART, 0, buf, T_MDTS + 4);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);
	/* Longer than the page: zeroes behind it. Larger than the reserve's buffers: from the
	 * slab. */
	a = get_log(p.admin, NVME_LOG_LID_FW_SLOT, 0, buf, T_MDTS);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(buf[0], 1);
	CU_ASSERT_EQUAL(buf[512], 0);
	CU_ASSERT_EQUAL(buf[T_MDTS - 1], 0);
}

/* The records for T_HOST, which may use one subsystem: the discovery subsystem by two listeners,
 * then T_NQN by both. */
static void check_records(const struct nvmf_discovery_log *log)
{
	for (unsigned int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(log->entries[i].subtype, NVME_NQN_CURR);
		CU_ASSERT_STRING_EQUAL(log->entries[i].subnqn, NVMF_DISC_NQN);
		/* With a wildcard, the log differs by listener. */
		CU_ASSERT_EQUAL(le16toh(log->entries[i].eflags), NVMF_DISC_EFLAGS_EPCSD);
		CU_ASSERT_EQUAL(le16toh(log->entries[i].portid), i + 1);
	}
	CU_ASSERT_STRING_EQUAL(log->entries[2].subnqn, T_NQN);
	CU_ASSERT_STRING_EQUAL(log->entries[2].traddr, "198.51.100.7");
	CU_ASSERT_STRING_EQUAL(log->entries[2].trsvcid, "4420");
	CU_ASSERT_STRING_EQUAL(log->entries[3].traddr, "192.0.2.1"); /* as the host reached it */
	CU_ASSERT_STRING_EQUAL(log->entries[3].trsvcid, "4421");
	CU_ASSERT_EQUAL(log->entries[3].trtype, NVMF_TRTYPE_RDMA);
	CU_ASSERT_EQUAL(log->entries[3].adrfam, NVMF_ADDR_FAMILY_IP4);
	CU_ASSERT_EQUAL(log->entries[3].subtype, NVME_NQN_NVME);
	CU_ASSERT_EQUAL(log->entries[3].eflags, 0);
	CU_ASSERT_EQUAL(le16toh(log->entries[3].cntlid), 0xffff);
	CU_ASSERT_EQUAL(log->entries[3].tsas.rdma.prtype, NVMF_RDMA_PRTYPE_IWARP);
	CU_ASSERT_EQUAL(log->entries[3].tsas.rdma.cms, NVMF_RDMA_CMS_RDMA_CM);
}

static void discovery_log(void)
{
	T_ENV(env);
	struct rdt_rdma_listener rdma = {.fab = RDT_FAB_IWARP};
	struct rdt_listener listeners[3] = {0};
	static uint8_t page[8 * 1024];
	struct nvmf_discovery_log *log = (void *)page;
	uint8_t part[8];
	struct t_conn *c;
	struct t_answer a;

	rd_addr_parse("198.51.100.7", 4420, &listeners[0].addr);
	rd_addr_parse("0.0.0.0", 4421, &listeners[1].addr);
	rd_addr_parse("::", 4422, &listeners[2].addr);
	for (unsigned int i = 0; i < 3; i++) {
		listeners[i].transport = &rdt_rdma_transport;
		listeners[i].state = &rdma;
		listeners[i].portid = (uint16_t)(i + 1);
		TAILQ_INSERT_TAIL(&env->t->listeners, &listeners[i], link);
	}

	/* T_HOST may use one of the two subsystems. It came by IPv4, so the IPv6 wildcard has no
	 * address for it. */
	c = t_discovery_new(env, T_HOST);
	a = get_log(c, NVME_LOG_LID_DISCOVER, 0, page, sizeof(page));
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(le64toh(log->numrec), 4);
	CU_ASSERT_EQUAL(le16toh(log->recfmt), 0);
	CU_ASSERT_NOT_EQUAL(log->genctr, 0);
	check_records(log);
	/* In pieces, as nvme-cli reads it. */
	a = get_log(c, NVME_LOG_LID_DISCOVER, 4096 + 256, part, sizeof(part));
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(memcmp(part, T_NQN, sizeof(part)), 0);
	a = get_log(c, NVME_LOG_LID_DISCOVER, 5 * 1024 + 4, part, sizeof(part));
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);

	c = t_discovery_new(env, T_HOST2);
	a = get_log(c, NVME_LOG_LID_DISCOVER, 0, page, sizeof(page));
	CU_ASSERT_EQUAL(le64toh(log->numrec), 6);
	CU_ASSERT_STRING_EQUAL(log->entries[4].subnqn, T_NQN2);
	TAILQ_REMOVE(&env->t->listeners, &listeners[1], link);
	TAILQ_REMOVE(&env->t->listeners, &listeners[2], link);
	rdt_discovery_changed(env->t);
	a = get_log(c, NVME_LOG_LID_DISCOVER, 0, page, sizeof(page));
	CU_ASSERT_EQUAL(le64toh(log->numrec), 3);
	CU_ASSERT_EQUAL(le16toh(log->entries[0].eflags), NVMF_DISC_EFLAGS_BOTH);
	TAILQ_INIT(&env->t->listeners); /* the target does not own them */
}

/* The error log names the byte of the field in its dword, and its bit in bits 10:8. */
static void wrong_fields_are_located(void)
{
	static const struct {
		uint32_t cdw[6]; /* from dword 10 on */
		uint16_t location;
	} rows[] = {
		{{5, 0xff}, 42},                   /* NUMDU */
		{{5, [2] = 2}, 48},                /* LPOL */
		{{5, [4] = 1 << 23}, 58 | 7 << 8}, /* OT */
		{{5, [4] = 2 << 24}, 59},          /* CSI */
		{{0xee}, 40},                      /* LID */
	};
	T_PAIR(p);
	struct nvme_error_log_page e;
	uint32_t data;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nvme_sqe sqe;
		struct t_answer a;

		t_sqe(p.admin, &sqe, nvme_admin_get_log_page, &data, sizeof(data));
		sqe.nsid = htole32(NVME_NSID_ALL);
		sqe.cdw10 = htole32(rows[i].cdw[0]);
		sqe.cdw11 = htole32(rows[i].cdw[1]);
		sqe.cdw12 = htole32(rows[i].cdw[2]);
		sqe.cdw14 = htole32(rows[i].cdw[4]);
		a = t_exec(p.admin, &sqe);
		CU_ASSERT_NOT_EQUAL(t_status(&a), 0);
		get_log(p.admin, NVME_LOG_LID_ERROR, 0, &e, sizeof(e));
		CU_ASSERT_EQUAL(le16toh(e.parm_error_location), rows[i].location);
	}
}

const struct t_case t_log_page_cases[] = {
	{"the SMART log counts on all reactors", smart_log},
	{"the effects log agrees with the commands", effects_log},
	{"unknown pages and bad windows", bad_windows},
	{"the error log locates the wrong field", wrong_fields_are_located},
	{"the discovery log, whole and in pieces", discovery_log},
	{NULL, NULL},
};
