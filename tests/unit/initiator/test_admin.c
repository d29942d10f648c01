/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands, the discovery log, keep-alive and events. */
#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "suites.h"
#include "t_fake.h"

static void admin_namespaces(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	struct rdinit_ns ns;
	unsigned int count;

	CU_ASSERT_EQUAL(rdinit_list_ns(ctrl, 0, nsids, &count), 0);
	CU_ASSERT_EQUAL(count, 1);
	CU_ASSERT_EQUAL(nsids[0], 1);
	rdinit_ns_init(&ns);
	CU_ASSERT_EQUAL(rdinit_ns_open(ctrl, 1, &ns), 0);
	CU_ASSERT_EQUAL(ns.block_size, 512);
	CU_ASSERT_EQUAL(ns.blocks, T_DISK_BLOCKS);
	CU_ASSERT_EQUAL(rdinit_ns_open(ctrl, 2, &ns), -ENODEV);
}

static bool says_success_only(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			      const void *data, size_t len)
{
	if (sqe->opcode != nvme_admin_identify)
		return false;
	t_answer(conn, sqe, 0, 0);
	return true;
}

/* Bytes that were in our memory before must not be taken for the controller's answer. */
static void unwritten_pages(void)
{
	unsigned char page[RDINIT_IDENTIFY_SIZE], zero[RDINIT_IDENTIFY_SIZE] = {0};
	uint32_t nsids[RDINIT_NS_LIST_MAX];
	struct rdinit_ctrl *ctrl;
	unsigned int count = 1;

	for (int i = 0; i < 2; i++) {
		t_fake_reset();
		t_fake.caps.cheap_mr = i == 0;
		ctrl = t_ctrl(1);
		t_fake.hook = says_success_only;
		memset(page, 0xaa, sizeof(page));
		CU_ASSERT_EQUAL(rdinit_identify_ctrl(ctrl, page), 0);
		CU_ASSERT_EQUAL(memcmp(page, zero, sizeof(page)), 0);
		CU_ASSERT_EQUAL(rdinit_list_ns(ctrl, 0, nsids, &count), 0);
		CU_ASSERT_EQUAL(count, 0);
		rdinit_ctrl_free(&ctrl);
	}
}

static unsigned int count_opcode(uint8_t opcode)
{
	unsigned int i, n = 0;

	for (i = 0; i < t_fake.n_log; i++)
		n += t_fake.log[i].opcode == opcode;
	return n;
}

static void keep_alive(void)
{
	T_CTRL(ctrl) = t_ctrl_new(1);
	unsigned int i;

	for (i = 0; i < 101; i++) {
		t_advance(&t_fake, 100);
		CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 0); /* not commands of the caller */
	}
	/* kato 5 s: one every 2.5 s */
	CU_ASSERT_EQUAL(count_opcode(nvme_admin_keep_alive), 4);
	CU_ASSERT_EQUAL(t_fake.log[t_fake.n_log - 1].sgl.keyed.type, 0x40);
	CU_ASSERT_EQUAL(t_fake.log[t_fake.n_log - 1].flags, 0x40);
}

static bool no_keep_alive(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			  const void *data, size_t len)
{
	return sqe->opcode == nvme_admin_keep_alive;
}

static void keep_alive_lost(void)
{
	T_CTRL(ctrl) = NULL;
	unsigned int i;
	int rc = 0;

	t_fake_reset();
	t_fake.hook = no_keep_alive;
	ctrl = t_ctrl(1);
	for (i = 0; i < 200 && rc == 0; i++) {
		t_advance(&t_fake, 100);
		rc = rdinit_ctrl_process(ctrl, 0);
	}
	CU_ASSERT_EQUAL(rc, -ETIMEDOUT);
	CU_ASSERT_EQUAL(i, 75); /* 1.5 times kato */
	CU_ASSERT_PTR_NOT_NULL(strstr(rdinit_get_error(), "Keep Alive"));
}

static uint32_t events[4];
static unsigned int n_events;

static void admin_on_event(void *user, uint32_t event)
{
	events[n_events++ % 4] = event;
}

static void asynchronous_events(void)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	const struct nvme_sqe *aer;
	unsigned int i;

	t_fake_reset();
	n_events = 0;
	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "192.0.2.1";
	opts.subnqn = "nqn.2024-01.test:x";
	opts.event_fn = admin_on_event;
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_connect(ctrl), 0);
	CU_ASSERT_EQUAL(count_opcode(nvme_admin_async_event), 1);
	aer = &t_fake.log[t_fake.n_log - 1];
	CU_ASSERT_EQUAL(le32toh(aer[-1].cdw10), NVME_FEAT_FID_ASYNC_EVENT);
	CU_ASSERT_EQUAL(le32toh(aer[-1].cdw11), 1u << 8 | 1u << 9); /* all that OAES offers */
	/* it has no timeout */
	for (i = 0; i < 1000; i++) {
		t_advance(&t_fake, 100);
		CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 0);
	}
	t_answer(t_fake.last_conn[0], aer, 0x00040002, 0);
	CU_ASSERT_EQUAL(rdinit_ctrl_process(ctrl, 0), 1);
	CU_ASSERT_EQUAL(n_events, 1);
	CU_ASSERT_EQUAL(events[0], 0x00040002);
	CU_ASSERT_EQUAL(count_opcode(nvme_admin_async_event), 2); /* the next may come */
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(n_events, 1);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
}

/* ---- discovery ---- */

static struct {
	unsigned int records;
	uint64_t genctr;
	unsigned int changes; /* the generation changes this many times after a header was read */
	unsigned int reads;
	uint32_t longest;
} disc;

static unsigned char log_page[1024 * 200];

static bool admin_discovery(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
			    const void *data, size_t len)
{
	struct nvmf_discovery_log *log = (void *)log_page;
	uint32_t bytes, off;
	unsigned int i;

	if (sqe->opcode != nvme_admin_get_log_page)
		return false;
	CU_ASSERT_EQUAL(le32toh(sqe->cdw10) & 0xff, 0x70);
	bytes = ((le32toh(sqe->cdw10) >> 16 | le32toh(sqe->cdw11) << 16) + 1) * 4;
	off = le32toh(sqe->cdw12);
	disc.reads++;
	if (bytes > disc.longest)
		disc.longest = bytes;
	memset(log_page, 0, sizeof(log_page));
	log->genctr = htole64(disc.genctr);
	log->numrec = htole64(disc.records);
	for (i = 0; i < disc.records; i++) {
		struct nvmf_disc_log_entry *e = &log->entries[i];

		e->trtype = 1;
		e->adrfam = 1;
		e->subtype = 2;
		e->portid = htole16((uint16_t)i);
		/* nvmet pads with NULs, SPDK with spaces */
		memset(e->traddr, i % 2 ? ' ' : 0, sizeof(e->traddr));
		memcpy(e->traddr, "192.0.2.1", 9);
		memset(e->trsvcid, i % 2 ? ' ' : 0, sizeof(e->trsvcid));
		memcpy(e->trsvcid, "4420", 4);
		snprintf(e->subnqn, sizeof(e->subnqn), "nqn.2024-01.test:g%u",
			 (unsigned int)disc.genctr);
		e->tsas.rdma.prtype = 5;
	}
	if (off == 0 && disc.changes) {
		disc.changes--;
		disc.genctr++;
	}
	CU_ASSERT_TRUE_FATAL(off + bytes <= sizeof(log_page));
	return t_answer_data(f, conn, sqe, log_page + off, bytes);
}

static int discover(struct rdinit_discovery **log)
{
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	int rc;

	t_fake_reset();
	t_fake.hook = admin_discovery;
	t_fake.id.cntrltype = NVME_CTRL_CNTRLTYPE_DISCOVERY;
	t_fake.id.ioccsz = 0; /* as nvmet's */
	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "192.0.2.1";
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_connect(ctrl), 0);
	CU_ASSERT_EQUAL(count_opcode(nvme_admin_set_features), 0); /* no I/O queues */
	rc = rdinit_discover(ctrl, log);
	rdinit_ctrl_free(&ctrl);
	CU_ASSERT_EQUAL(t_fake.mrs, 0);
	CU_ASSERT_EQUAL(t_fake.violations, 0);
	return rc;
}

static void admin_discovery_log(void)
{
	struct rdinit_discovery *log;
	size_t i;

	memset(&disc, 0, sizeof(disc));
	CU_ASSERT_EQUAL_FATAL(discover(&log), 0);
	CU_ASSERT_EQUAL(log->count, 0);
	rdinit_discovery_free(&log);

	disc.records = 150; /* three pieces of at most 64 KiB */
	disc.reads = 0;
	CU_ASSERT_EQUAL_FATAL(discover(&log), 0);
	CU_ASSERT_EQUAL_FATAL(log->count, 150);
	CU_ASSERT_EQUAL(disc.reads, 1 + 3 + 1);
	CU_ASSERT_EQUAL(disc.longest, 64 << 10);
	for (i = 0; i < log->count; i++) {
		CU_ASSERT_EQUAL(log->records[i].portid, i);
		CU_ASSERT_STRING_EQUAL(log->records[i].traddr, "192.0.2.1");
		CU_ASSERT_STRING_EQUAL(log->records[i].trsvcid, "4420");
		CU_ASSERT_EQUAL(log->records[i].rdma_prtype, 5);
	}
	rdinit_discovery_free(&log);

	/* records of one generation only */
	disc.records = 3;
	disc.changes = 4;
	CU_ASSERT_EQUAL_FATAL(discover(&log), 0);
	CU_ASSERT_EQUAL(log->genctr, 4);
	for (i = 0; i < log->count; i++)
		CU_ASSERT_STRING_EQUAL(log->records[i].subnqn, "nqn.2024-01.test:g4");
	rdinit_discovery_free(&log);

	disc.changes = 1000;
	CU_ASSERT_EQUAL(discover(&log), -EAGAIN);
	CU_ASSERT_PTR_NULL(log);
	disc.changes = 0;
}

static bool huge_log(struct t_fake *f, struct t_conn *conn, const struct nvme_sqe *sqe,
		     const void *data, size_t len)
{
	struct nvmf_discovery_log log = {.numrec = htole64(UINT64_MAX / 1024)};

	if (sqe->opcode != nvme_admin_get_log_page)
		return false;
	return t_answer_data(f, conn, sqe, &log, sizeof(log));
}

static void log_errors(void)
{
	struct rdinit_discovery *log;
	struct rdinit_ctrl_opts opts;
	struct rdinit_ctrl *ctrl;
	char buf[16];

	t_fake_reset();
	ctrl = t_ctrl(1);
	CU_ASSERT_EQUAL(rdinit_discover(ctrl, &log), -EINVAL); /* not a discovery controller */
	CU_ASSERT_EQUAL(rdinit_get_log(ctrl, 2, 0xffffffff, 0, buf, 6), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_get_log(ctrl, 2, 0xffffffff, 2, buf, 8), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_get_log(ctrl, 2, 0xffffffff, 0, buf, 0), -EINVAL);
	CU_ASSERT_EQUAL(rdinit_get_log(ctrl, 2, 0xffffffff, 0, NULL, 8), -EINVAL);
	rdinit_ctrl_free(&ctrl);

	t_fake_reset();
	t_fake.hook = huge_log;
	rdinit_ctrl_opts_init(&opts);
	opts.traddr = "192.0.2.1";
	CU_ASSERT_EQUAL_FATAL(rdi_ctrl_create_env(&opts, &t_env, &ctrl), 0);
	CU_ASSERT_EQUAL_FATAL(rdinit_ctrl_connect(ctrl), 0);
	CU_ASSERT_EQUAL(rdinit_discover(ctrl, &log), -EPROTO);
	rdinit_ctrl_free(&ctrl);
}

const struct t_case t_admin_cases[] = {
	{"namespaces are listed and opened", admin_namespaces},
	{"a page the target did not write reads as zeroes", unwritten_pages},
	{"keep-alives go out every half of the timeout", keep_alive},
	{"a target that does not answer keep-alives is given up", keep_alive_lost},
	{"events are passed on, and asked for again", asynchronous_events},
	{"a long discovery log is read in pieces of one generation", admin_discovery_log},
	{"logs that cannot be are refused", log_errors},
	{NULL, NULL},
};
