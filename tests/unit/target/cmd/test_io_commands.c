/* SPDX-License-Identifier: BSD-3-Clause */
/* The I/O commands other than Read and Write: effects, limits and errors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

#define INVALID_FIELD NVME_SC_INVALID_FIELD
#define SIZE_LIMIT    (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_CMD_SIZE_LIMIT_EXCEEDED)
#define OVERLAP       (NVME_SCT_CMD_SPECIFIC << 8 | NVME_SC_OVERLAPPING_IO)
#define READ_ERROR    (NVME_SCT_MEDIA << 8 | NVME_SC_READ_ERROR)
#define MISCOMPARE    (NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED)
#define FUA           (1u << 30)

static void blocks_sqe(struct t_conn *c, struct nvme_sqe *sqe, uint8_t opcode, uint64_t lba,
		       uint32_t blocks)
{
	t_sqe(c, sqe, opcode, NULL, 0);
	sqe->nsid = htole32(1);
	sqe->cdw10 = htole32((uint32_t)lba);
	sqe->cdw11 = htole32((uint32_t)(lba >> 32));
	sqe->cdw12 = htole32(blocks - 1);
}

static uint16_t run(struct t_pair *p, struct nvme_sqe *sqe)
{
	struct t_answer a;

	t_send(p->io, sqe, NULL, 0);
	t_turn(p->env);
	a = t_answer(p->io);
	return t_status(&a);
}

static void fill_disk(struct t_disk *d)
{
	for (size_t i = 0; i < (size_t)T_BLOCKS * 512; i++)
		d->data[i] = (uint8_t)(i * 13 + (i >> 9));
}

/* ---- Compare ---- */

static void compare_sqe(struct t_pair *p, struct nvme_sqe *sqe, uint64_t lba, uint32_t blocks,
			void *data)
{
	t_rw_sqe(p->io, sqe, true, lba, blocks, data);
	sqe->opcode = nvme_cmd_compare;
}

/* Each block, first and last byte, up to MDTS; and nothing is written. */
static void compares(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	uint8_t *buf = malloc(T_MDTS);
	struct nvme_sqe sqe;

	fill_disk(d);
	memcpy(buf, d->data + 7 * 512, T_MDTS);
	compare_sqe(&p, &sqe, 7, T_MDTS / 512, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	compare_sqe(&p, &sqe, 7, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	for (size_t at = 0; at < T_MDTS; at += T_MDTS - 1) {
		buf[at] ^= 1;
		compare_sqe(&p, &sqe, 7, T_MDTS / 512, buf);
		CU_ASSERT_EQUAL(run(&p, &sqe), MISCOMPARE);
		buf[at] ^= 1;
	}
	CU_ASSERT_EQUAL(d->last.op, RDT_BIO_READ);
	compare_sqe(&p, &sqe, T_BLOCKS - 1, 2, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_LBA_RANGE);
	compare_sqe(&p, &sqe, 0, T_MDTS / 512 + 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), INVALID_FIELD);
	d->fail = -EIO;
	compare_sqe(&p, &sqe, 0, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	t_pair_free(&p);
	free(buf);
}

/* Sixteen at once, with fewer scratch buffers: all of them get one. */
static void scratch_in_order(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[512];
	struct nvme_sqe sqe;

	d->hold = true;
	for (unsigned int i = 0; i < 15; i++) {
		blocks_sqe(p.io, &sqe, nvme_cmd_verify, i, 1);
		t_send(p.io, &sqe, NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, RDT_SCRATCH_BYTES / RDT_SCRATCH_PIECE);
	/* Plain I/O needs none. */
	t_rw_sqe(p.io, &sqe, false, 99, 1, buf);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->last.offset, 99 * 512);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 16);
	t_pair_free(&p);
}

/* A command that waits for a scratch buffer can be aborted; a command that has one stops after its
 * piece. */
static void abort_steps(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe[9], ab;
	struct t_answer a;

	d->hold = true;
	for (unsigned int i = 0; i < 9; i++) {
		blocks_sqe(p.io, &sqe[i], nvme_cmd_verify, 0, 1024);
		t_send(p.io, &sqe[i], NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 8);
	for (unsigned int i = 0; i < 9; i += 8) {
		t_sqe(p.admin, &ab, nvme_admin_abort_cmd, NULL, 0);
		ab.cdw10 = htole32(1 | (uint32_t)le16toh(sqe[i].cid) << 16);
		t_send(p.admin, &ab, NULL, 0);
		t_turn(p.env);
	}
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe[8].cid);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_ABORT_REQ);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(a.cqe.cid, sqe[0].cid);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_ABORT_REQ);
	for (unsigned int i = 0; i < 2; i++) {
		a = t_answer(p.admin);
		CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	}
	t_pair_free(&p);
}

/* No step is left: the command succeeds, and the Abort is too late. */
static void abort_behind_the_last_step(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe, ab;
	struct t_answer a;

	memset(d->data, 0x77, 4 * 512);
	d->hold = true;
	blocks_sqe(p.io, &sqe, nvme_cmd_write_zeroes, 0, 4);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 1);
	t_sqe(p.admin, &ab, nvme_admin_abort_cmd, NULL, 0);
	ab.cdw10 = htole32(1 | (uint32_t)le16toh(sqe.cid) << 16);
	t_send(p.admin, &ab, NULL, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	d->hold = false;
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->data[0] | d->data[4 * 512 - 1], 0);
	a = t_answer(p.admin);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
	t_pair_free(&p);
}

/* ---- Verify ---- */

static void verifies(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;

	blocks_sqe(p.io, &sqe, nvme_cmd_verify, 5, 300); /* three pieces of 64 KiB */
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(d->submitted, 3);
	CU_ASSERT_EQUAL(d->last.offset, (5 + 256) * 512);
	CU_ASSERT_EQUAL(d->last.length, 44 * 512);
	blocks_sqe(p.io, &sqe, nvme_cmd_verify, 0, (uint32_t)(RDT_POWER(RDT_VSL) / 512) + 1);
	CU_ASSERT_EQUAL(run(&p, &sqe), INVALID_FIELD);
	blocks_sqe(p.io, &sqe, nvme_cmd_verify, T_BLOCKS, 1);
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_LBA_RANGE);
	blocks_sqe(p.io, &sqe, nvme_cmd_verify, 0, 1);
	sqe.cdw12 |= htole32(1u << 29); /* PRACT */
	CU_ASSERT_EQUAL(run(&p, &sqe), INVALID_FIELD);
	d->fail = -EIO;
	blocks_sqe(p.io, &sqe, nvme_cmd_verify, 5, 300);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	CU_ASSERT_EQUAL(d->submitted, 4); /* the first failure ends it */
	t_pair_free(&p);
}

/* FUA of a command that reads: data in a volatile cache is committed. What a Read returns or
 * a Compare finds equal is committed after it was read, as another command may write it at any time
 * before. */
static void fua_reads(void)
{
	static const uint8_t ops[] = {nvme_cmd_read, nvme_cmd_compare, nvme_cmd_verify};
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[512];
	struct nvme_sqe sqe;

	for (size_t i = 0; i < sizeof(ops); i++) {
		bool verify = ops[i] == nvme_cmd_verify;

		d->hold = true;
		t_sqe(p.io, &sqe, ops[i], buf, verify ? 0 : 512);
		sqe.nsid = htole32(1);
		sqe.cdw12 = htole32(FUA);
		t_send(p.io, &sqe, NULL, 0);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 1);
		CU_ASSERT_EQUAL(d->last.op, verify ? RDT_BIO_FLUSH : RDT_BIO_READ);
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->last.op, verify ? RDT_BIO_READ : RDT_BIO_FLUSH);
		CU_ASSERT_EQUAL(d->submitted, 2 * (i + 1));
		CU_ASSERT_EQUAL(t_answers(p.io), 1);
		t_answer(p.io);
	}
	d->bdev.volatile_cache = false;
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	sqe.cdw12 |= htole32(FUA);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(d->submitted, 7);
	t_pair_free(&p);
}

/* ---- limits ---- */

static void directives(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_write_zeroes, nvme_cmd_write_uncor,
				      nvme_cmd_copy};
	struct t_pair p = t_pair_new();
	static uint8_t buf[512];
	struct nvme_sqe sqe;

	for (size_t i = 0; i < sizeof(ops); i++) {
		bool data = ops[i] == nvme_cmd_write || ops[i] == nvme_cmd_copy;

		t_sqe(p.io, &sqe, ops[i], buf, data ? (ops[i] == nvme_cmd_copy ? 32 : 512) : 0);
		sqe.nsid = htole32(1);
		sqe.cdw12 = htole32(1u << 20);
		CU_ASSERT_EQUAL(run(&p, &sqe), INVALID_FIELD);
	}
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 0);
	t_pair_free(&p);
}

static void zero_limits(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;

	blocks_sqe(p.io, &sqe, nvme_cmd_write_zeroes, 0, (uint32_t)(RDT_POWER(RDT_WZSL) / 512) + 1);
	CU_ASSERT_EQUAL(run(&p, &sqe), INVALID_FIELD);
	CU_ASSERT_EQUAL(d->submitted, 0);
	/* DEAC is a permission; FUA asks for more than deallocation promises. */
	d->bdev.deallocate_zeroes = true;
	blocks_sqe(p.io, &sqe, nvme_cmd_write_zeroes, 0, 8);
	sqe.cdw12 |= htole32(1u << 25);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(d->last.op, RDT_BIO_DEALLOCATE);
	sqe.cdw12 |= htole32(FUA);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(d->last.op, RDT_BIO_WRITE_ZEROES);
	CU_ASSERT_EQUAL(d->last.flags, RDT_BIO_FUA);
	t_pair_free(&p);
}

static void dsm_limits(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	static struct nvme_dsm_range r[256];
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < 256; i++)
		r[i] = (struct nvme_dsm_range){0, htole32(1), htole64(i)};
	t_sqe(p.io, &sqe, nvme_cmd_dsm, r, sizeof(r));
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(255);
	sqe.cdw11 = htole32(4);
	CU_ASSERT_EQUAL(run(&p, &sqe), SIZE_LIMIT);
	t_sqe(p.io, &sqe, nvme_cmd_dsm, r, 255 * sizeof(r[0]));
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(254);
	sqe.cdw11 = htole32(4);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(d->submitted, 255);
	r[3].nlb = htole32(RDT_DMRSL + 1);
	CU_ASSERT_EQUAL(run(&p, &sqe), SIZE_LIMIT);
	for (unsigned int i = 0; i < 17; i++)
		r[i].nlb = htole32(RDT_DMRSL); /* sixteen are DMSL */
	CU_ASSERT_EQUAL(run(&p, &sqe), SIZE_LIMIT);
	CU_ASSERT_EQUAL(d->submitted, 255);
	t_pair_free(&p);
}

/* ---- Copy ---- */

static void copy_sqe(struct t_pair *p, struct nvme_sqe *sqe, const void *ranges, unsigned int n,
		     unsigned int format, uint64_t dst)
{
	t_sqe(p->io, sqe, nvme_cmd_copy, (void *)(uintptr_t)ranges, n * (format ? 40 : 32));
	sqe->nsid = htole32(1);
	sqe->cdw10 = htole32((uint32_t)dst);
	sqe->cdw11 = htole32((uint32_t)(dst >> 32));
	sqe->cdw12 = htole32((n - 1) | format << 8);
}

static void copies(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_copy_range r[3] = {0};
	struct nvme_copy_range_f1 f1[2] = {0};
	struct nvme_sqe sqe;
	struct t_answer a;

	fill_disk(d);
	r[0].slba = htole64(1000);
	r[0].nlb = htole16(199); /* two pieces */
	r[1].slba = htole64(40);
	r[2].slba = htole64(1000); /* a source may come twice */
	r[2].nlb = htole16(1);
	copy_sqe(&p, &sqe, r, 3, 0, 2000);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(a.cqe.result, 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 2000 * 512, d->data + 1000 * 512, 200 * 512), 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 2200 * 512, d->data + 40 * 512, 512), 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 2201 * 512, d->data + 1000 * 512, 1024), 0);
	f1[0].slba = htole64(3);
	f1[1].slba = htole64(9);
	copy_sqe(&p, &sqe, f1, 2, 1, 100);
	sqe.cdw12 |= htole32(FUA);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(d->last.flags, RDT_BIO_FUA);
	CU_ASSERT_EQUAL(memcmp(d->data + 100 * 512, d->data + 3 * 512, 512), 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 101 * 512, d->data + 9 * 512, 512), 0);
	t_pair_free(&p);
}

static void copy_limits(void)
{
	struct t_pair p = t_pair_new();
	static struct nvme_copy_range r[256];
	struct nvme_sqe sqe;

	r[0].nlb = htole16(RDT_MSSRL);
	copy_sqe(&p, &sqe, r, 1, 0, 0);
	CU_ASSERT_EQUAL(run(&p, &sqe), SIZE_LIMIT);
	for (unsigned int i = 0; i < 3; i++)
		r[i].nlb = htole16(RDT_MSSRL - 1); /* two are MCL */
	copy_sqe(&p, &sqe, r, 3, 0, 0);
	CU_ASSERT_EQUAL(run(&p, &sqe), SIZE_LIMIT);
	memset(r, 0, sizeof(r));
	copy_sqe(&p, &sqe, r, RDT_MSRC + 2, 0, 500);
	CU_ASSERT_EQUAL(run(&p, &sqe), SIZE_LIMIT);
	copy_sqe(&p, &sqe, r, RDT_MSRC + 1, 0, 500);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	copy_sqe(&p, &sqe, r, 1, 2, 500);
	CU_ASSERT_EQUAL(run(&p, &sqe), INVALID_FIELD);
	r[0].slba = htole64(T_BLOCKS);
	copy_sqe(&p, &sqe, r, 1, 0, 0);
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_LBA_RANGE);
	r[0].slba = htole64(8);
	r[0].nlb = htole16(1);
	copy_sqe(&p, &sqe, r, 1, 0, T_BLOCKS - 1);
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_LBA_RANGE);
	copy_sqe(&p, &sqe, r, 1, 0, 9);
	CU_ASSERT_EQUAL(run(&p, &sqe), OVERLAP);
	copy_sqe(&p, &sqe, r, 1, 0, 7);
	CU_ASSERT_EQUAL(run(&p, &sqe), OVERLAP);
	copy_sqe(&p, &sqe, r, 1, 0, 10);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	p.env->disk[0].bdev.read_only = true;
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_NS_WRITE_PROTECTED);
	t_pair_free(&p);
}

/* Two ranges, of which another gateway has the storage: already for the first one, or after it. */
static unsigned int freed_elsewhere(bool after_first)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_dsm_range r[2] = {{0, htole32(1), htole64(3)}, {0, htole32(1), htole64(5)}};
	struct nvme_sqe sqe;
	struct t_answer a;

	d->hold = true;
	t_sqe(p.io, &sqe, nvme_cmd_dsm, r, sizeof(r));
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(1);
	sqe.cdw11 = htole32(4);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	if (after_first) {
		t_disk_finish(d, 0, 0);
		t_turn(p.env);
	}
	CU_ASSERT_EQUAL(d->held_count, 1);
	t_disk_finish(d, 0, -ESHUTDOWN);
	t_turn(p.env);
	a = t_answer(p.io);
	t_pair_free(&p);
	return t_status(&a);
}

/* A host that executes nothing twice sends a command again after an ANA status. */
static void partly_executed(void)
{
	CU_ASSERT_EQUAL(freed_elsewhere(false), NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE);
	CU_ASSERT_EQUAL(freed_elsewhere(true),
			NVME_SCT_PATH << 8 | NVME_SC_ANA_INTERNAL_PATH_ERROR);
}

/* The host learns the first range that was not copied. */
static void copy_fails(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_copy_range r[3] = {0};
	struct nvme_sqe sqe;
	struct t_answer a;

	fill_disk(d);
	for (unsigned int i = 0; i < 3; i++)
		r[i].slba = htole64(10 + i);
	d->hold = true;
	copy_sqe(&p, &sqe, r, 3, 0, 100);
	t_send(p.io, &sqe, NULL, 0);
	t_turn(p.env);
	for (unsigned int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(d->held_count, 1);
		t_disk_finish(d, 0, 0);
		t_turn(p.env);
	}
	CU_ASSERT_EQUAL(d->held[0]->op, RDT_BIO_WRITE);
	t_disk_finish(d, 0, -EIO);
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 1);
	CU_ASSERT_EQUAL(memcmp(d->data + 100 * 512, d->data + 10 * 512, 512), 0);
	t_pair_free(&p);
}

/* ---- Write Uncorrectable ---- */

static void uncorrectable(void)
{
	struct t_pair p = t_pair_new();
	static uint8_t buf[8 * 512];
	struct nvme_copy_range r = {.slba = htole64(21)};
	struct nvme_sqe sqe;

	blocks_sqe(p.io, &sqe, nvme_cmd_write_uncor, 20, 6); /* 20 to 25 */
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	t_rw_sqe(p.io, &sqe, false, 19, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	t_rw_sqe(p.io, &sqe, false, 26, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	t_rw_sqe(p.io, &sqe, false, 18, 8, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	compare_sqe(&p, &sqe, 25, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	blocks_sqe(p.io, &sqe, nvme_cmd_verify, 0, 100);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	copy_sqe(&p, &sqe, &r, 1, 0, 500);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	/* A block in the middle is written: only that block is readable again. */
	t_rw_sqe(p.io, &sqe, true, 22, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	for (unsigned int lba = 19; lba < 27; lba++) {
		t_rw_sqe(p.io, &sqe, false, lba, 1, buf);
		CU_ASSERT_EQUAL(run(&p, &sqe), lba < 20 || lba == 22 || lba > 25 ? 0 : READ_ERROR);
	}
	blocks_sqe(p.io, &sqe, nvme_cmd_write_zeroes, 20, 2);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	copy_sqe(&p, &sqe, &r, 1, 0, 23);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	t_rw_sqe(p.io, &sqe, false, 20, 4, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	t_rw_sqe(p.io, &sqe, false, 24, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	/* A write that fails removes no mark. */
	p.env->disk[0].fail = -EIO;
	t_rw_sqe(p.io, &sqe, true, 24, 2, buf);
	CU_ASSERT_NOT_EQUAL(run(&p, &sqe), 0);
	p.env->disk[0].fail = 0;
	t_rw_sqe(p.io, &sqe, false, 25, 1, buf);
	CU_ASSERT_EQUAL(run(&p, &sqe), READ_ERROR);
	t_pair_free(&p);
}

/* Compared with a plain array, for random marks and writes. */
static void uncorrectable_random(void)
{
	struct t_pair p = t_pair_new();
	static uint8_t buf[16 * 512];
	bool bad[64] = {false};
	struct nvme_sqe sqe;
	uint32_t x = 12345;

	for (unsigned int n = 0; n < 2000; n++) {
		unsigned int lba, len;
		bool want = false;

		x = x * 1664525 + 1013904223;
		lba = x >> 8 & 63;
		len = 1 + (x >> 16 & 15);
		if (lba + len > 64)
			len = 64 - lba;
		if (x >> 30 < 2) {
			if (x >> 30)
				t_rw_sqe(p.io, &sqe, true, lba, len, buf);
			else
				blocks_sqe(p.io, &sqe, nvme_cmd_write_uncor, lba, len);
			CU_ASSERT_EQUAL(run(&p, &sqe), 0);
			for (unsigned int i = lba; i < lba + len; i++)
				bad[i] = !(x >> 30);
			continue;
		}
		for (unsigned int i = lba; i < lba + len; i++)
			want |= bad[i];
		t_rw_sqe(p.io, &sqe, false, lba, len, buf);
		CU_ASSERT_EQUAL(run(&p, &sqe), want ? READ_ERROR : 0);
	}
	t_pair_free(&p);
}

/* Marks that would not exist as long as their blocks are not offered. */
static void uncorrectable_unsupported(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;

	p.env->t->subsys[0]->ops_mask &= ~RDT_OPS_MARKS;
	blocks_sqe(p.io, &sqe, nvme_cmd_write_uncor, 20, 6);
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_INVALID_OPCODE);
	t_pair_free(&p);
}

/* Flush of all namespaces, one after the other; a failure is reported. */
static void flush_all(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;

	t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(NVME_NSID_ALL);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 1);
	CU_ASSERT_EQUAL(p.env->disk[1].submitted, 1);
	CU_ASSERT_EQUAL(p.env->disk[2].submitted, 0); /* another subsystem's */
	p.env->disk[1].fail = -EIO;
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT);
	t_pair_free(&p);
}

/* The host writes to our buffer after its list has been checked, without effect. */
static void list_changes_after_the_check(void)
{
	static uint8_t list[2 * sizeof(struct nvme_copy_range)];
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];

	for (int copy = 0; copy < 2; copy++) {
		struct nvme_dsm_range dsm[2] = {{0, htole32(1), htole64(50)},
						{0, htole32(2), htole64(60)}};
		struct nvme_copy_range src[2] = {{.slba = htole64(50)}, {.slba = htole64(60)}};
		size_t len = copy ? sizeof(src) : sizeof(dsm);
		struct nvme_sqe sqe;
		struct t_answer a;
		unsigned int bios = 0;

		memcpy(list, copy ? (void *)src : (void *)dsm, len);
		t_sqe(p.io, &sqe, copy ? nvme_cmd_copy : nvme_cmd_dsm, list, (uint32_t)len);
		sqe.nsid = htole32(1);
		sqe.cdw10 = htole32(copy ? 200 : 1);
		if (copy)
			sqe.cdw12 = htole32(1);
		else
			sqe.cdw11 = htole32(4);
		d->hold = true;
		t_send(p.io, &sqe, NULL, 0);
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
		memset(p.io->qp.reqs[0]->buf, 0x7f, len);
		for (; d->held_count; bios++) {
			CU_ASSERT_TRUE(d->held[0]->offset <= 201 * 512);
			CU_ASSERT_TRUE(d->held[0]->length <= 2 * 512);
			t_disk_finish(d, 0, 0);
			t_turn(p.env);
		}
		CU_ASSERT_EQUAL(bios, copy ? 4 : 2);
		a = t_answer(p.io);
		CU_ASSERT_EQUAL(t_status(&a), 0);
	}
	d->hold = false;
	t_pair_free(&p);
}

const struct t_case t_io_commands_cases[] = {
	{"Compare finds each difference and writes nothing", compares},
	{"scratch buffers are handed out in order", scratch_in_order},
	{"Abort reaches commands of several steps", abort_steps},
	{"Abort of a command that does its last step is too late", abort_behind_the_last_step},
	{"Verify reads in pieces, within VSL", verifies},
	{"FUA of a command that reads flushes", fua_reads},
	{"directives are refused", directives},
	{"Write Zeroes: WZSL, DEAC and FUA", zero_limits},
	{"Dataset Management: DMRL, DMRSL, DMSL", dsm_limits},
	{"Copy, both formats", copies},
	{"Copy: limits, bounds and overlap", copy_limits},
	{"Copy tells which range failed", copy_fails},
	{"a command that was executed in part is not told as not executed", partly_executed},
	{"Write Uncorrectable until written again", uncorrectable},
	{"marks against a model", uncorrectable_random},
	{"Write Uncorrectable only where it can be kept", uncorrectable_unsupported},
	{"Flush of all namespaces", flush_all},
	{"a list that changes after its check is of no use", list_changes_after_the_check},
	{NULL, NULL},
};
