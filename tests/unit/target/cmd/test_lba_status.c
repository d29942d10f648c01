/* SPDX-License-Identifier: BSD-3-Clause */
/* Get LBA Status: which blocks of a namespace are allocated. */
#include <errno.h>
#include <string.h>

#include "target/nvmf/io.h"
#include "t_target.h"

#define DESCS 8

struct list {
	uint32_t nlsd;
	uint8_t cmpc;
	uint8_t rsvd[3];
	struct nvme_lba_status_desc desc[DESCS];
};

static void ask_sqe(struct t_conn *c, struct nvme_sqe *sqe, void *data, uint32_t len)
{
	t_sqe(c, sqe, nvme_admin_get_lba_status, data, len);
	sqe->nsid = htole32(1);
	sqe->cdw12 = htole32(len / 4 - 1);
	sqe->cdw13 = htole32(NVME_LBA_STATUS_ALLOCATED << 24);
}

static uint16_t ask(struct t_pair *p, uint64_t lba, uint16_t blocks, struct list *out, uint32_t len)
{
	struct nvme_sqe sqe;

	memset(out, 0xee, sizeof(*out));
	ask_sqe(p->admin, &sqe, out, len);
	sqe.cdw10 = htole32((uint32_t)lba);
	sqe.cdw11 = htole32((uint32_t)(lba >> 32));
	sqe.cdw13 |= htole32(blocks);
	return t_exec_status(p->admin, &sqe);
}

static void write_blocks(struct t_pair *p, unsigned int first, unsigned int n)
{
	memset(p->env->disk[0].data + (size_t)first * 512, 0x5a, (size_t)n * 512);
}

#define IS(l, i, first, n)                                              \
	do {                                                            \
		CU_ASSERT_EQUAL(le64toh((l).desc[i].dslba), (first));   \
		CU_ASSERT_EQUAL(le32toh((l).desc[i].nlb), (n)-1);       \
		CU_ASSERT_EQUAL((l).desc[i].status, 2 /* allocated */); \
	} while (0)

static void allocated(void)
{
	T_PAIR(p);
	struct list l;

	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), 0);
	CU_ASSERT_EQUAL(l.nlsd, 0);
	CU_ASSERT_EQUAL(l.cmpc, NVME_LBA_STATUS_COMPLETE);
	write_blocks(&p, 3, 2);
	write_blocks(&p, 100, 50);
	write_blocks(&p, T_BLOCKS - 1, 1);
	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 3);
	CU_ASSERT_EQUAL(l.cmpc, NVME_LBA_STATUS_COMPLETE);
	IS(l, 0, 3, 2);
	IS(l, 1, 100, 50);
	IS(l, 2, T_BLOCKS - 1, 1);
}

/* A marked block would pass for zeroes where it is not allocated. */
static void marked_blocks(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;
	struct list l;

	t_sqe(p.io, &sqe, nvme_cmd_write_uncor, NULL, 0);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(7);
	CU_ASSERT_EQUAL(t_exec_status(p.io, &sqe), 0);
	CU_ASSERT_EQUAL(ask(&p, 5, 10, &l, sizeof(l)), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 1);
	IS(l, 0, 5, 10);
}

/* Only while every namespace tells what is allocated. */
static void unsupported(void)
{
	T_PAIR(p);
	uint8_t id[4096];
	struct nvme_sqe sqe;
	struct list l;

	for (int with = 1; with >= 0; with--) {
		if (!with)
			p.env->t->subsys[0]->ops_mask &= ~(1u << RDT_BIO_EXTENTS);
		t_sqe(p.admin, &sqe, nvme_admin_identify, id, sizeof(id));
		sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CSI_CTRL);
		CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), 0);
		CU_ASSERT_EQUAL(id[NVME_NVM_CTRL_AOCS], with ? NVME_AOCS_RALBAS : 0);
		CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), with ? 0 : NVME_SC_INVALID_OPCODE);
	}
}

/* A read-only namespace that does not tell counts, although it takes no commands that write from
 * the others. */
static void unsupported_read_only(void)
{
	T_PAIR(p);
	struct rdt_subsys *ss = p.env->t->subsys[0];
	struct rdt_ns *ns = t_ns_of(ss, 5);
	struct list l;

	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), 0);
	rdt_subsys_count(ns, false);
	ns->bdev->read_only = true;
	ns->bdev->ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH;
	rdt_subsys_count(ns, true);
	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), NVME_SC_INVALID_OPCODE);
	CU_ASSERT_TRUE(rdt_cmd_supported(&ss->target->cmds->io[nvme_cmd_write_zeroes], ss));
	CU_ASSERT_TRUE(rdt_cmd_supported(&ss->target->cmds->io[nvme_cmd_dsm], ss));
}

/* The backend tells of one block, and then another gateway has the storage: nothing was changed. */
static void storage_is_lost(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;
	struct list l;

	d->hold = true;
	ask_sqe(p.admin, &sqe, &l, sizeof(l));
	t_begin(p.admin, &sqe);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	d->held[0]->length = 512;
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	CU_ASSERT_EQUAL(d->held[0]->offset, 512);
	t_disk_finish(d, 0, -ESHUTDOWN);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.admin), NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE);
}

/* A host has one question at a time, and then a pause of three times as long as it took; another
 * host does not wait for it. */
static void a_budget_of_a_host(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct t_conn *other = t_conn_new(p.env, 0, 0, 32);
	struct nvme_sqe sqe;
	struct list l;

	t_connect_as(other, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	t_enable(other);
	d->hold = true;
	for (unsigned int i = 0; i < 3; i++) {
		ask_sqe(p.admin, &sqe, &l, sizeof(l));
		t_send(p.admin, &sqe, NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 1);
	ask_sqe(other, &sqe, &l, sizeof(l));
	t_send(other, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 2);
	t_advance(p.env, 10 * RD_NSEC_PER_MSEC);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 1);
	t_advance(p.env, 30 * RD_NSEC_PER_MSEC - 1);
	CU_ASSERT_EQUAL(d->held_count, 1); /* the one of the other host */
	t_advance(p.env, 1);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 2);
	/* The pause is bounded, and one that waits ends with its queue. */
	t_advance(p.env, 100 * RD_NSEC_PER_SEC);
	t_disk_finish(d, 1, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 2);
	t_advance(p.env, RDT_EXTENTS_PAUSE_MAX - 1);
	CU_ASSERT_EQUAL(d->held_count, 1);
	t_conn_cut(p.admin);
	t_turn(p.env);
	d->hold = false;
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	t_env_free(p.env);
}

/* Storage that answers at once, such as memory, and has many parts to tell of: of all hosts that
 * ask, one looks at one part in each turn. */
static void a_part_in_each_turn(void)
{
	enum { PARTS = 16 };
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct t_conn *other = t_conn_new(p.env, 0, 0, 32);
	unsigned int turns = 0;
	struct nvme_sqe sqe;
	struct list l[2];

	t_connect_as(other, NVMF_CNTLID_DYNAMIC, T_HOST2, 2);
	t_enable(other);
	t_turn(p.env);
	write_blocks(&p, T_BLOCKS - 1, 1);
	d->sync = true;
	d->piece = T_BLOCKS * 512 / PARTS;
	d->submitted = 0;
	ask_sqe(p.admin, &sqe, &l[0], sizeof(l[0]));
	t_send(p.admin, &sqe, NULL, 0);
	ask_sqe(other, &sqe, &l[1], sizeof(l[1]));
	t_send(other, &sqe, NULL, 0);
	for (unsigned int before = 0; !t_answers(p.admin) || !t_answers(other); turns++) {
		before = d->submitted;
		CU_ASSERT_FATAL(turns < 4 * PARTS);
		t_pump(p.env);
		/* The first part of each, in the turn in which the command begins. */
		CU_ASSERT(d->submitted - before <= (turns < 2 ? 3 : 1));
	}
	CU_ASSERT_EQUAL(d->submitted, 2 * PARTS);
	CU_ASSERT(turns >= 2 * PARTS - 3);
	CU_ASSERT_EQUAL(t_answer_status(p.admin), 0);
	CU_ASSERT_EQUAL(t_answer_status(other), 0);
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL_FATAL(le32toh(l[i].nlsd), 1);
		IS(l[i], 0, T_BLOCKS - 1, 1);
	}
	/* It is ended while it waits for its next part. */
	t_advance(p.env, RDT_EXTENTS_PAUSE_MAX);
	ask_sqe(p.admin, &sqe, &l[0], sizeof(l[0]));
	t_send(p.admin, &sqe, NULL, 0);
	d->submitted = 0;
	while (d->submitted < 3)
		t_pump(p.env);
	t_conn_cut(p.admin);
	t_turn(p.env);
	CU_ASSERT(d->submitted < PARTS);
	t_env_free(p.env);
}

const struct t_case t_lba_status_cases[] = {
	{"memory is looked at a part in each turn", a_part_in_each_turn},
	{"a host has a budget", a_budget_of_a_host},
	{"allocated blocks, and no others", allocated},
	{"blocks marked as uncorrectable count as allocated", marked_blocks},
	{"only where all namespaces tell", unsupported},
	{"only where read-only namespaces tell too", unsupported_read_only},
	{"storage that is lost between two parts", storage_is_lost},
	{NULL, NULL},
};
