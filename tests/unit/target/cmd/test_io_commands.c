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
#define WRITE_FAULT   (NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT)
#define INACCESSIBLE  (NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE)
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

	t_begin(p->io, sqe);
	a = t_answer(p->io);
	return t_status(&a);
}

static void fill_disk(struct t_disk *d)
{
	for (size_t i = 0; i < (size_t)T_BLOCKS * 512; i++)
		d->data[i] = (uint8_t)(i * 13 + (i >> 9));
}

/* ---- Compare ---- */

/* Sixteen at once, with fewer scratch buffers: all of them get one. */
static void scratch_in_order(void)
{
	T_PAIR(p);
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
	t_send_rw(p.io, false, 99, 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->last.offset, 99 * 512);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answers(p.io), 16);
}

/* A command that waits for a scratch buffer can be aborted; a command that has one stops after its
 * piece. */
static void abort_steps(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe[9];
	struct t_answer a;

	d->hold = true;
	for (unsigned int i = 0; i < 9; i++) {
		blocks_sqe(p.io, &sqe[i], nvme_cmd_verify, 0, 1024);
		t_send(p.io, &sqe[i], NULL, 0);
	}
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 8);
	for (unsigned int i = 0; i < 9; i += 8) {
		t_send_abort(p.admin, 1, sqe[i].cid);
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
}

/* No step is left: the command succeeds, and the Abort is too late. */
static void abort_behind_the_last_step(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;
	struct t_answer a;

	memset(d->data, 0x77, 4 * 512);
	d->hold = true;
	blocks_sqe(p.io, &sqe, nvme_cmd_write_zeroes, 0, 4);
	t_begin(p.io, &sqe);
	CU_ASSERT_EQUAL(d->held_count, 1);
	t_send_abort(p.admin, 1, sqe.cid);
	CU_ASSERT_EQUAL(t_answers(p.admin), 0);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	CU_ASSERT_EQUAL(d->data[0] | d->data[4 * 512 - 1], 0);
	a = t_answer(p.admin);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
}

/* ---- Verify ---- */

/* FUA of a command that reads: data in a volatile cache is committed. What a Read returns or
 * a Compare finds equal is committed after it was read, as another command may write it at any time
 * before. */
static void fua_reads(void)
{
	static const uint8_t ops[] = {nvme_cmd_read, nvme_cmd_compare, nvme_cmd_verify};
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t buf[512];
	struct nvme_sqe sqe;

	for (size_t i = 0; i < sizeof(ops); i++) {
		bool verify = ops[i] == nvme_cmd_verify;

		d->hold = true;
		t_sqe(p.io, &sqe, ops[i], buf, verify ? 0 : 512);
		sqe.nsid = htole32(1);
		sqe.cdw12 = htole32(FUA);
		t_begin(p.io, &sqe);
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
}

/* ---- limits ---- */

static void directives(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_write_zeroes, nvme_cmd_write_uncor,
				      nvme_cmd_copy};
	T_PAIR(p);
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
}

static void dsm_limits(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static struct nvme_dsm_range r[256];
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < 256; i++)
		r[i] = (struct nvme_dsm_range){0, htole32(1), htole64(i)};
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
	/* If one range is bad, no block is changed. */
	for (unsigned int i = 0; i < 17; i++)
		r[i].nlb = 0;
	r[254].slba = htole64(T_BLOCKS);
	CU_ASSERT_EQUAL(run(&p, &sqe), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(d->submitted, 255);
}

/* ---- Copy ---- */

static void copy_sqe(struct t_pair *p, struct nvme_sqe *sqe, struct nvme_copy_range *ranges,
		     unsigned int n, uint64_t dst)
{
	t_sqe(p->io, sqe, nvme_cmd_copy, ranges, n * 32);
	sqe->nsid = htole32(1);
	sqe->cdw10 = htole32((uint32_t)dst);
	sqe->cdw12 = htole32(n - 1);
}

static void copy_overlaps(void)
{
	static const struct {
		uint64_t dst;
		uint16_t want;
	} cases[] = {{9, OVERLAP}, {7, OVERLAP}, {10, 0}};
	T_PAIR(p);
	struct nvme_copy_range r = {.slba = htole64(8), .nlb = htole16(1)};
	struct nvme_sqe sqe;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		copy_sqe(&p, &sqe, &r, 1, cases[i].dst);
		CU_ASSERT_EQUAL(run(&p, &sqe), cases[i].want);
	}
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
	t_begin(p.io, &sqe);
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
	CU_ASSERT_EQUAL(freed_elsewhere(false), INACCESSIBLE);
	CU_ASSERT_EQUAL(freed_elsewhere(true),
			NVME_SCT_PATH << 8 | NVME_SC_ANA_INTERNAL_PATH_ERROR);
}

/* The host learns the first range that was not copied. */
static void copy_fails(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct nvme_copy_range r[3] = {0};
	struct nvme_sqe sqe;
	struct t_answer a;

	fill_disk(d);
	for (unsigned int i = 0; i < 3; i++)
		r[i].slba = htole64(10 + i);
	d->hold = true;
	copy_sqe(&p, &sqe, r, 3, 100);
	t_begin(p.io, &sqe);
	for (unsigned int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(d->held_count, 1);
		t_disk_finish(d, 0, 0);
		t_turn(p.env);
	}
	CU_ASSERT_EQUAL(d->held[0]->op, RDT_BIO_WRITE);
	t_disk_finish(d, 0, -EIO);
	t_turn(p.env);
	a = t_answer(p.io);
	CU_ASSERT_EQUAL(t_status(&a), WRITE_FAULT);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result), 1);
	CU_ASSERT_EQUAL(memcmp(d->data + 100 * 512, d->data + 10 * 512, 512), 0);
}

/* ---- Write Uncorrectable ---- */

/* Compared with a plain array: random marks, writes of every kind, and reads of every kind. */
static void uncorrectable_random(void)
{
	static const uint8_t ops[] = {nvme_cmd_write_uncor, nvme_cmd_write,  nvme_cmd_write_zeroes,
				      nvme_cmd_copy,        nvme_cmd_read,   nvme_cmd_read,
				      nvme_cmd_verify,      nvme_cmd_compare};
	struct nvme_copy_range r = {.slba = htole64(100)};
	T_PAIR(p);
	static uint8_t buf[16 * 512];
	bool bad[64] = {false};
	struct nvme_sqe sqe;
	uint32_t x = 12345;

	for (unsigned int n = 0; n < 2000; n++) {
		uint8_t op;
		unsigned int lba, len;
		bool fails, want = false;

		x = x * 1664525 + 1013904223;
		op = ops[x >> 29];
		fails = op == nvme_cmd_write && n % 4 == 0; /* removes no mark */
		lba = x >> 8 & 63;
		len = 1 + (x >> 16 & 15);
		if (lba + len > 64)
			len = 64 - lba;
		r.nlb = htole16((uint16_t)(len - 1));
		t_rw_sqe(p.io, &sqe, true, lba, len, buf);
		if (op == nvme_cmd_copy)
			copy_sqe(&p, &sqe, &r, 1, lba);
		else if (op != nvme_cmd_write && op != nvme_cmd_read && op != nvme_cmd_compare)
			blocks_sqe(p.io, &sqe, op, lba, len);
		sqe.opcode = op;
		for (unsigned int i = lba; i < lba + len; i++) {
			if (x >> 29 < 4 && !fails)
				bad[i] = op == nvme_cmd_write_uncor;
			want |= x >> 29 >= 4 && bad[i];
		}
		p.env->disk[0].fail = fails ? -EIO : 0;
		CU_ASSERT_EQUAL(run(&p, &sqe), want ? READ_ERROR : fails ? WRITE_FAULT : 0);
	}
}

/* Flush of all namespaces, one after the other; a failure is reported. */
static void flush_all(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;

	t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(NVME_NSID_ALL);
	CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 1);
	CU_ASSERT_EQUAL(p.env->disk[1].submitted, 1);
	CU_ASSERT_EQUAL(p.env->disk[2].submitted, 0); /* another subsystem's */
	p.env->disk[1].fail = -EIO;
	CU_ASSERT_EQUAL(run(&p, &sqe), WRITE_FAULT);
}

/* A gateway without the storage has executed nothing, and a Flush must not say otherwise: also not
 * where it needs nothing of the backend. */
static void flush_elsewhere(void)
{
	for (unsigned int cache = 0; cache < 2; cache++) {
		T_PAIR(p);
		struct rdt_bdev *disk = &p.env->disk[0].bdev;
		struct nvme_sqe sqe;

		disk->volatile_cache = cache;
		t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
		sqe.nsid = htole32(1);
		CU_ASSERT_EQUAL(run(&p, &sqe), 0);
		CU_ASSERT_EQUAL(p.env->disk[0].submitted, cache);
		atomic_store(&disk->standby, true);
		p.env->disk[0].fail = -ESHUTDOWN;
		CU_ASSERT_EQUAL(run(&p, &sqe), INACCESSIBLE);
		atomic_store(&disk->comes, true);
		p.env->disk[0].fail = 0;
		CU_ASSERT_EQUAL(run(&p, &sqe), 0);
	}
}

/* The host writes to our buffer after its list has been checked, without effect. */
static void list_changes_after_the_check(void)
{
	static uint8_t list[2 * sizeof(struct nvme_copy_range)];
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];

	for (int copy = 0; copy < 2; copy++) {
		struct nvme_dsm_range dsm[2] = {{0, htole32(1), htole64(50)},
						{0, htole32(2), htole64(60)}};
		struct nvme_copy_range src[2] = {{.slba = htole64(50)}, {.slba = htole64(60)}};
		size_t len = copy ? sizeof(src) : sizeof(dsm);
		struct nvme_sqe sqe;
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
		t_begin(p.io, &sqe);
		CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
		memset(p.io->qp.reqs[0]->buf, 0x7f, len);
		for (; d->held_count; bios++) {
			CU_ASSERT_TRUE(d->held[0]->offset <= 201 * 512);
			CU_ASSERT_TRUE(d->held[0]->length <= 2 * 512);
			t_disk_finish(d, 0, 0);
			t_turn(p.env);
		}
		CU_ASSERT_EQUAL(bios, copy ? 4 : 2);
		CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	}
	d->hold = false;
}

const struct t_case t_io_commands_cases[] = {
	{"scratch buffers are handed out in order", scratch_in_order},
	{"Abort reaches commands of several steps", abort_steps},
	{"Abort of a command that does its last step is too late", abort_behind_the_last_step},
	{"FUA of a command that reads flushes", fua_reads},
	{"directives are refused", directives},
	{"Dataset Management: DMRSL, DMSL, and all ranges or none", dsm_limits},
	{"Copy to blocks that it reads is refused", copy_overlaps},
	{"Copy tells which range failed", copy_fails},
	{"a command that was executed in part is not told as not executed", partly_executed},
	{"marks against a model", uncorrectable_random},
	{"Flush of all namespaces", flush_all},
	{"a Flush where another gateway has the storage", flush_elsewhere},
	{"a list that changes after its check is of no use", list_changes_after_the_check},
	{NULL, NULL},
};
