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
	struct t_answer a;

	memset(out, 0xee, sizeof(*out));
	ask_sqe(p->admin, &sqe, out, len);
	sqe.cdw10 = htole32((uint32_t)lba);
	sqe.cdw11 = htole32((uint32_t)(lba >> 32));
	sqe.cdw13 |= htole32(blocks);
	a = t_exec(p->admin, &sqe);
	return t_status(&a);
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
	struct t_pair p = t_pair_new();
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
	t_pair_free(&p);
}

/* A range begins and ends within what is allocated. */
static void of_a_range(void)
{
	struct t_pair p = t_pair_new();
	struct list l;

	write_blocks(&p, 100, 50);
	CU_ASSERT_EQUAL(ask(&p, 110, 20, &l, sizeof(l)), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 1);
	IS(l, 0, 110, 20);
	CU_ASSERT_EQUAL(ask(&p, 0, 100, &l, sizeof(l)), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 0);
	CU_ASSERT_EQUAL(ask(&p, T_BLOCKS, 0, &l, sizeof(l)), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(ask(&p, T_BLOCKS - 1, 2, &l, sizeof(l)), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(ask(&p, UINT64_MAX, 2, &l, sizeof(l)), NVME_SC_LBA_RANGE);
	t_pair_free(&p);
}

/* With room for @n descriptors the host asks again behind the last one. */
static void little_room(void)
{
	struct t_pair p = t_pair_new();
	struct list l;

	write_blocks(&p, 1, 1);
	write_blocks(&p, 3, 1);
	write_blocks(&p, 5, 1);
	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, 8 + 2 * 16), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 2);
	CU_ASSERT_EQUAL(l.cmpc, NVME_LBA_STATUS_INCOMPLETE);
	CU_ASSERT_EQUAL(ask(&p, 4, 0, &l, 8 + 2 * 16), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 1);
	CU_ASSERT_EQUAL(l.cmpc, NVME_LBA_STATUS_COMPLETE);
	IS(l, 0, 5, 1);
	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, 8), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 0);
	CU_ASSERT_EQUAL(l.cmpc, NVME_LBA_STATUS_INCOMPLETE);
	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, 4), 0);
	CU_ASSERT_EQUAL(l.nlsd, 0);
	CU_ASSERT_EQUAL(l.cmpc, 0xee); /* four bytes were asked for */
	t_pair_free(&p);
}

static void refusals(void)
{
	struct t_pair p = t_pair_new();
	static uint8_t big[2 * T_MDTS];
	struct nvme_sqe sqe;
	struct t_answer a;
	struct list l;

	for (unsigned int type = 0; type < 256; type++) {
		ask_sqe(p.admin, &sqe, &l, sizeof(l));
		sqe.cdw13 = htole32(type << 24);
		a = t_exec(p.admin, &sqe);
		CU_ASSERT_EQUAL(t_status(&a),
				type == NVME_LBA_STATUS_ALLOCATED ? 0 : NVME_SC_INVALID_FIELD);
	}
	ask_sqe(p.admin, &sqe, &l, sizeof(l));
	sqe.nsid = htole32(NVME_NSID_ALL);
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
	ask_sqe(p.admin, &sqe, big, sizeof(big));
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);
	ask_sqe(p.admin, &sqe, &l, sizeof(l));
	sqe.cdw12 = htole32(UINT32_MAX);
	a = t_exec(p.admin, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_FIELD);
	p.env->disk[0].fail = -EIO;
	CU_ASSERT_NOT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), 0);
	t_pair_free(&p);
}

/* A marked block would pass for zeroes where it is not allocated. */
static void marked_blocks(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;
	struct list l;

	t_sqe(p.io, &sqe, nvme_cmd_write_uncor, NULL, 0);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(7);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(ask(&p, 5, 10, &l, sizeof(l)), 0);
	CU_ASSERT_EQUAL(le32toh(l.nlsd), 1);
	IS(l, 0, 5, 10);
	t_pair_free(&p);
}

/* Only while every namespace tells what is allocated. */
static void unsupported(void)
{
	struct t_pair p = t_pair_new();
	uint8_t id[4096];
	struct nvme_sqe sqe;
	struct t_answer a;
	struct list l;

	for (int with = 1; with >= 0; with--) {
		if (!with)
			p.env->t->subsys[0]->ops_mask &= ~(1u << RDT_BIO_EXTENTS);
		t_sqe(p.admin, &sqe, nvme_admin_identify, id, sizeof(id));
		sqe.cdw10 = htole32(NVME_IDENTIFY_CNS_CSI_CTRL);
		a = t_exec(p.admin, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_EQUAL(id[NVME_NVM_CTRL_AOCS], with ? NVME_AOCS_RALBAS : 0);
		CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), with ? 0 : NVME_SC_INVALID_OPCODE);
	}
	t_pair_free(&p);
}

/* A read-only namespace that does not tell counts, although it takes no commands that write from
 * the others. */
static void unsupported_read_only(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_subsys *ss = p.env->t->subsys[0];
	struct rdt_ns *ns = t_ns_of(ss, 5);
	struct list l;

	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), 0);
	rdt_subsys_count(ns, false);
	ns->bdev->read_only = true;
	ns->bdev->ops_mask = 1u << RDT_BIO_READ | 1u << RDT_BIO_FLUSH;
	rdt_subsys_count(ns, true);
	CU_ASSERT_EQUAL(ask(&p, 0, 0, &l, sizeof(l)), NVME_SC_INVALID_OPCODE);
	CU_ASSERT_TRUE(rdt_io_supported(ss, nvme_cmd_write_zeroes));
	CU_ASSERT_TRUE(rdt_io_supported(ss, nvme_cmd_dsm));
	t_pair_free(&p);
}

/* The backend tells of one block, and then another gateway has the storage: nothing was changed. */
static void storage_is_lost(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;
	struct t_answer a;
	struct list l;

	d->hold = true;
	ask_sqe(p.admin, &sqe, &l, sizeof(l));
	t_send(p.admin, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	d->held[0]->length = 512;
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	CU_ASSERT_EQUAL(d->held[0]->offset, 512);
	t_disk_finish(d, 0, -ESHUTDOWN);
	t_turn(p.env);
	a = t_answer(p.admin);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE);
	t_pair_free(&p);
}

const struct t_case t_lba_status_cases[] = {
	{"allocated blocks, and no others", allocated},
	{"of a range", of_a_range},
	{"with little room the list goes on", little_room},
	{"other action types, namespaces and lengths are refused", refusals},
	{"blocks marked as uncorrectable count as allocated", marked_blocks},
	{"only where all namespaces tell", unsupported},
	{"only where read-only namespaces tell too", unsupported_read_only},
	{"storage that is lost between two parts", storage_is_lost},
	{NULL, NULL},
};
