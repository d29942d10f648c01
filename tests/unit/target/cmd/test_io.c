/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O commands and the data pointers of all commands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

#define INVALID_FIELD NVME_SC_INVALID_FIELD

static void fill(uint8_t *buf, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(i * 7 + seed + (i >> 8));
}

static void write_and_read(void)
{
	struct t_pair p = t_pair_new();
	uint8_t *out = malloc(T_MDTS);
	uint8_t *in = malloc(T_MDTS);
	struct nvme_sqe sqe;
	struct t_answer a;

	for (uint32_t blocks = 1; blocks <= T_MDTS / 512; blocks *= 2) {
		fill(out, blocks * 512, blocks);
		memset(in, 0, T_MDTS);
		t_rw_sqe(p.io, &sqe, true, 17, blocks, out);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_FALSE(a.with_data);
		CU_ASSERT_TRUE(a.invalidate);
		CU_ASSERT_EQUAL(a.key, T_KEY);
		CU_ASSERT_EQUAL(memcmp(p.env->disk[0].data + 17 * 512, out, blocks * 512), 0);
		t_rw_sqe(p.io, &sqe, false, 17, blocks, in);
		sqe.sgl.keyed.type = NVME_SGL_KEYED_ADDRESS;
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_TRUE(a.with_data);
		CU_ASSERT_FALSE(a.invalidate); /* only when the host asked */
		CU_ASSERT_EQUAL(memcmp(in, out, blocks * 512), 0);
	}
	/* The other namespace is unchanged. */
	CU_ASSERT_EQUAL(p.env->disk[1].submitted, 0);
	t_pair_free(&p);
	free(out);
	free(in);
}

/* A backend without storage answers reads without a buffer. */
static void reads_of_nothing(void)
{
	struct t_pair p = t_pair_new();
	struct rdt_reactor *r = p.io->qp.reactor;
	struct t_disk *d = &p.env->disk[0];
	uint8_t *in = malloc(T_MDTS), *zero = calloc(1, T_MDTS);
	struct nvme_sqe sqe;
	struct t_answer a;

	d->bdev.reads_zeroes = true;
	for (uint32_t blocks = 1; blocks <= T_MDTS / 512; blocks *= 2) {
		memset(in, 0xff, T_MDTS);
		memset(r->slab, 0xff, T_MDTS);
		t_rw_sqe(p.io, &sqe, false, 17, blocks, in);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), 0);
		CU_ASSERT_TRUE(a.with_data);
		CU_ASSERT_EQUAL(d->last.flags, RDT_BIO_BLANK);
		CU_ASSERT_PTR_EQUAL(d->last.buf, r->zeroes);
		CU_ASSERT_EQUAL(memcmp(in, zero, blocks * 512), 0);
	}
	/* Writes still fetch their data. */
	memset(in, 0x5a, 512);
	t_rw_sqe(p.io, &sqe, true, 17, 1, in);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->last.flags, 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 17 * 512, in, 512), 0);
	t_pair_free(&p);
	free(in);
	free(zero);
}

static void send_in_capsule(struct t_pair *p, uint64_t offset, uint32_t len, const uint8_t *data,
			    uint32_t sent, uint16_t want)
{
	struct nvme_sqe sqe;
	struct t_answer a;

	t_rw_sqe(p->io, &sqe, true, 3, 2, NULL);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.offset = htole64(offset);
	sqe.sgl.data.length = htole32(len);
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	t_send(p->io, &sqe, data, sent);
	t_turn(p->env);
	a = t_answer(p->io);
	CU_ASSERT_EQUAL(t_status(&a), want);
	CU_ASSERT_FALSE(a.invalidate);
}

static void in_capsule_data(void)
{
	struct t_pair p = t_pair_new();
	uint8_t data[T_INCAPSULE];

	fill(data, sizeof(data), 3);
	send_in_capsule(&p, 0, 1024, data, 1024, 0);
	CU_ASSERT_EQUAL(memcmp(p.env->disk[0].data + 3 * 512, data, 1024), 0);
	send_in_capsule(&p, 512, 1024, data, 1536, 0);
	CU_ASSERT_EQUAL(memcmp(p.env->disk[0].data + 3 * 512, data + 512, 1024), 0);
	send_in_capsule(&p, T_INCAPSULE - 1024, 1024, data, T_INCAPSULE, 0);
	/* Fewer bytes than described; beyond the capsule; a wrap; not the length that the command
	 * needs. */
	send_in_capsule(&p, 0, 1024, data, 1023, NVME_SC_SGL_INVALID_DATA);
	send_in_capsule(&p, 0, 1024, data, 0, NVME_SC_SGL_INVALID_DATA);
	send_in_capsule(&p, T_INCAPSULE - 512, 1024, data, T_INCAPSULE, NVME_SC_SGL_INVALID_DATA);
	send_in_capsule(&p, T_INCAPSULE + 1, 1024, data, 1024, NVME_SC_SGL_INVALID_OFFSET);
	send_in_capsule(&p, UINT64_MAX - 511, 1024, data, 1024, NVME_SC_SGL_INVALID_OFFSET);
	send_in_capsule(&p, 0, 512, data, 1024, NVME_SC_SGL_INVALID_DATA);
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 3);
	t_pair_free(&p);
}

static void in_capsule_read(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	t_rw_sqe(p.io, &sqe, false, 0, 1, NULL);
	memset(&sqe.sgl, 0, sizeof(sqe.sgl));
	sqe.sgl.data.length = htole32(512);
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), INVALID_FIELD);
	t_pair_free(&p);
}

static void bad_descriptors(void)
{
	static const struct {
		uint8_t flags;
		uint8_t type;
		uint32_t len;
		uint16_t want;
	} cases[] = {
		{0x00, 0x4f, 512, INVALID_FIELD}, /* PRPs */
		{0x80, 0x4f, 512, INVALID_FIELD},
		{0x41, 0x4f, 512, INVALID_FIELD}, /* fused */
		{0x40, 0x00, 512, INVALID_FIELD}, /* an address without a key */
		{0x40, 0x42, 512, INVALID_FIELD},
		{0x40, 0x30, 512, NVME_SC_SGL_INVALID_TYPE}, /* a list in the host's memory */
		{0x40, 0xf0, 512, NVME_SC_SGL_INVALID_TYPE},
		{0x40, 0x4f, 511, NVME_SC_SGL_INVALID_DATA},
		{0x40, 0x4f, 1024, NVME_SC_SGL_INVALID_DATA},
		{0x40, 0x40, 0, NVME_SC_SGL_INVALID_DATA},
	};
	struct t_pair p = t_pair_new();
	uint8_t buf[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvme_sqe sqe;
		struct t_answer a;

		t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
		sqe.flags = cases[i].flags;
		nvme_sgl_set_keyed(&sqe.sgl, (uintptr_t)buf, cases[i].len, T_KEY, cases[i].type);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), cases[i].want);
		CU_ASSERT_TRUE(t_dnr(&a));
		CU_ASSERT_FALSE(a.with_data);
		CU_ASSERT_FALSE(p.io->closing);
	}
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 0);
	t_pair_free(&p);
}

/* The key is also invalidated when the command fails, because the host waits for that. */
static void failed_command_invalidates(void)
{
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];

	t_rw_sqe(p.io, &sqe, false, T_BLOCKS, 1, buf);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_LBA_RANGE);
	CU_ASSERT_TRUE(a.invalidate);
	CU_ASSERT_EQUAL(a.key, T_KEY);
	t_pair_free(&p);
}

static void ranges(void)
{
	static const struct {
		uint64_t lba;
		uint32_t blocks;
		uint16_t want;
	} cases[] = {
		{T_BLOCKS - 1, 1, 0},
		{T_BLOCKS - 1, 2, NVME_SC_LBA_RANGE},
		{T_BLOCKS, 1, NVME_SC_LBA_RANGE},
		{UINT64_MAX, 1, NVME_SC_LBA_RANGE},
		{UINT64_MAX - 1, 8, NVME_SC_LBA_RANGE},
		{UINT64_MAX / 512 + 1, 1, NVME_SC_LBA_RANGE},
		{0, T_MDTS / 512, 0},
		{0, T_MDTS / 512 + 1, INVALID_FIELD},
		{0, 65536, INVALID_FIELD},
	};
	struct t_pair p = t_pair_new();
	uint8_t *buf = calloc(1, 65536 * 512);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int write = 0; write < 2; write++) {
			struct nvme_sqe sqe;
			struct t_answer a;

			t_rw_sqe(p.io, &sqe, write, cases[i].lba, cases[i].blocks, buf);
			a = t_exec(p.io, &sqe);
			CU_ASSERT_EQUAL(t_status(&a), cases[i].want);
			CU_ASSERT_EQUAL(t_dnr(&a), cases[i].want != 0);
		}
	}
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 4);
	t_pair_free(&p);
	free(buf);
}

static void io_namespaces(void)
{
	static const uint32_t bad[] = {0, 2, 4, 6, UINT32_MAX};
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
		sqe.nsid = htole32(bad[i]);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_NS);
		t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
		sqe.nsid = htole32(bad[i]);
		a = t_exec(p.io, &sqe);
		/* Only Flush accepts the broadcast NSID. */
		CU_ASSERT_EQUAL(t_status(&a), bad[i] == UINT32_MAX ? 0 : NVME_SC_INVALID_NS);
	}
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	sqe.nsid = htole32(5);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(p.env->disk[1].submitted, 2);
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 1); /* the Flush to all */
	t_pair_free(&p);
}

static void read_only(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_write_zeroes};
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];

	p.env->disk[0].bdev.read_only = true;
	for (size_t i = 0; i < sizeof(ops); i++) {
		t_sqe(p.io, &sqe, ops[i], buf, ops[i] == nvme_cmd_write ? 512 : 0);
		sqe.nsid = htole32(1);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), NVME_SC_NS_WRITE_PROTECTED);
	}
	t_rw_sqe(p.io, &sqe, false, 0, 1, buf);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	t_pair_free(&p);
}

static void fua_and_flush(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512] = {0};

	t_rw_sqe(p.io, &sqe, true, 0, 1, buf);
	t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(d->last.flags, 0);
	t_rw_sqe(p.io, &sqe, true, 0, 1, buf);
	sqe.cdw12 |= htole32(1u << 30);
	t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(d->last.flags, RDT_BIO_FUA);
	t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(1);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->last.op, RDT_BIO_FLUSH);
	d->bdev.volatile_cache = false;
	t_sqe(p.io, &sqe, nvme_cmd_flush, NULL, 0);
	sqe.nsid = htole32(1);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->submitted, 3);
	t_pair_free(&p);
}

static void write_zeroes(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_sqe sqe;
	struct t_answer a;

	memset(d->data, 0xff, (size_t)T_BLOCKS * 512);
	t_sqe(p.io, &sqe, nvme_cmd_write_zeroes, NULL, 0);
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(10);
	sqe.cdw12 =
		htole32(T_MDTS / 512 + 99); /* MDTS limits transfers, and there is no transfer */
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->last.op, RDT_BIO_WRITE_ZEROES);
	CU_ASSERT_EQUAL(d->last.offset, 5120);
	CU_ASSERT_EQUAL(d->last.length, T_MDTS + 100 * 512);
	CU_ASSERT_EQUAL(d->data[5119], 0xff);
	CU_ASSERT_EQUAL(d->data[5120], 0);
	/* Without support the command does not exist. */
	p.env->t->subsys[0]->ops_mask &= ~(1u << RDT_BIO_WRITE_ZEROES);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_OPCODE);
	t_pair_free(&p);
}

static void deallocate(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_dsm_range r[3] = {
		{0, htole32(2), htole64(4)},
		{0, htole32(0), htole64(T_BLOCKS + 5)}, /* no blocks, so any start is valid */
		{0, htole32(1), htole64(8)},
	};
	struct nvme_sqe sqe;
	struct t_answer a;

	memset(d->data, 0xff, 8192);
	t_sqe(p.io, &sqe, nvme_cmd_dsm, r, sizeof(r));
	sqe.nsid = htole32(1);
	sqe.cdw10 = htole32(2);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->submitted, 0); /* hints only */
	sqe.cdw11 = htole32(4);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->submitted, 2);
	CU_ASSERT_EQUAL(d->data[4 * 512 - 1], 0xff);
	CU_ASSERT_EQUAL(d->data[4 * 512], 0);
	CU_ASSERT_EQUAL(d->data[6 * 512], 0xff);
	CU_ASSERT_EQUAL(d->data[8 * 512], 0);
	/* If one range is bad, no block is changed. */
	r[2].slba = htole64(T_BLOCKS);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_LBA_RANGE);
	CU_ASSERT_EQUAL(d->submitted, 2);
	t_pair_free(&p);
}

/* Linux describes a page whatever the number of ranges, by a key or in the capsule. */
static void deallocate_with_room(void)
{
	struct t_pair p = t_pair_new();
	struct t_disk *d = &p.env->disk[0];
	struct nvme_dsm_range r[256] = {{0, htole32(1), htole64(4)}, {0, htole32(1), htole64(6)}};
	struct nvme_sqe sqe;
	struct t_answer a;

	memset(d->data, 0xff, 8192);
	t_sqe(p.io, &sqe, nvme_cmd_dsm, r, sizeof(r));
	sqe.nsid = htole32(1);
	sqe.cdw11 = htole32(4);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), 0);
	CU_ASSERT_EQUAL(d->submitted, 1);
	CU_ASSERT_EQUAL(d->data[4 * 512], 0);
	CU_ASSERT_EQUAL(d->data[6 * 512], 0xff);
	/* Too little is still an error. */
	nvme_sgl_set_keyed(&sqe.sgl, (uintptr_t)r, 31, T_KEY, NVME_SGL_KEYED_INVALIDATE);
	sqe.cdw10 = htole32(1);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_SGL_INVALID_DATA);
	/* In-capsule data must be complete. */
	sqe.sgl.data.offset = 0;
	sqe.sgl.data.length = htole32(64);
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	for (uint32_t sent = 63; sent <= 64; sent++) {
		d->submitted = 0;
		t_send(p.io, &sqe, r, sent);
		t_turn(p.env);
		a = t_answer(p.io);
		CU_ASSERT_EQUAL(t_status(&a), sent < 64 ? NVME_SC_SGL_INVALID_DATA : 0);
		CU_ASSERT_EQUAL(d->submitted, sent < 64 ? 0 : 2);
	}
	CU_ASSERT_EQUAL(d->data[6 * 512], 0);
	t_pair_free(&p);
}

static void backend_errors(void)
{
	static const struct {
		int err;
		bool write;
		uint16_t want;
		bool dnr;
	} cases[] = {
		{-EIO, false, NVME_SCT_MEDIA << 8 | NVME_SC_READ_ERROR, false},
		{-EIO, true, NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT, false},
		{-ENOSPC, true, NVME_SC_CAP_EXCEEDED, true},
		{-EROFS, true, NVME_SC_NS_WRITE_PROTECTED, true},
		{-EAGAIN, false, NVME_SC_CMD_INTERRUPTED, false},
		{-ENODEV, false, NVME_SC_NS_NOT_READY, false},
		{-EOPNOTSUPP, true, NVME_SC_INVALID_OPCODE, true},
		{-EINVAL, true, NVME_SC_INTERNAL, false},
	};
	struct t_pair p = t_pair_new();
	uint8_t buf[512] = {0};

	for (int sync = 0; sync < 2; sync++) {
		p.env->disk[0].sync = sync;
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct nvme_sqe sqe;
			struct t_answer a;

			p.env->disk[0].fail = cases[i].err;
			t_rw_sqe(p.io, &sqe, cases[i].write, 0, 1, buf);
			a = t_exec(p.io, &sqe);
			CU_ASSERT_EQUAL(t_status(&a), cases[i].want);
			CU_ASSERT_EQUAL(t_dnr(&a), cases[i].dnr);
			CU_ASSERT_FALSE(a.with_data);
		}
	}
	t_pair_free(&p);
}

static void unknown_opcodes(void)
{
	static const uint8_t ops[] = {0x03, 0x06, 0x0a, 0x12, 0x1d, 0x7e, 0x80, 0xff};
	struct t_pair p = t_pair_new();
	struct nvme_sqe sqe;
	struct t_answer a;

	for (size_t i = 0; i < sizeof(ops); i++) {
		t_sqe(p.io, &sqe, ops[i], NULL, 0);
		sqe.nsid = htole32(1);
		a = t_exec(p.io, &sqe);
		CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_OPCODE);
		CU_ASSERT_TRUE(t_dnr(&a));
	}
	t_sqe(p.io, &sqe, NVMF_OPCODE, NULL, 0);
	sqe.fctype = 0x33;
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_INVALID_OPCODE);
	t_pair_free(&p);
}

const struct t_case t_io_cases[] = {
	{"what is written is read back, up to MDTS", write_and_read},
	{"what holds nothing is read without a buffer", reads_of_nothing},
	{"in-capsule data and its bounds", in_capsule_data},
	{"in-capsule data is for writes only", in_capsule_read},
	{"bad data pointers get the right status", bad_descriptors},
	{"a failed command still invalidates its key", failed_command_invalidates},
	{"ranges end at the namespace and at MDTS", ranges},
	{"namespaces are told apart, and unknown ones refused", io_namespaces},
	{"a read-only namespace refuses writes", read_only},
	{"FUA and Flush reach the backend", fua_and_flush},
	{"Write Zeroes", write_zeroes},
	{"Dataset Management deallocates range by range", deallocate},
	{"Dataset Management takes a descriptor of more than its ranges", deallocate_with_room},
	{"errors of a backend become status codes", backend_errors},
	{"unknown opcodes are answered", unknown_opcodes},
	{NULL, NULL},
};
