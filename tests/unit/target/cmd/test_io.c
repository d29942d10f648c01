/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O commands: what reaches the backend, and what its errors become. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "t_target.h"

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
	CU_ASSERT_EQUAL(t_rw(p.io, true, 17, 1, in), 0);
	CU_ASSERT_EQUAL(d->last.flags, 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 17 * 512, in, 512), 0);
	t_pair_free(&p);
	free(in);
	free(zero);
}

/* The key is also invalidated when the command fails, because the host waits for that. */
static void failed_command_invalidates(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;
	struct t_answer a;
	uint8_t buf[512];

	t_rw_sqe(p.io, &sqe, false, T_BLOCKS, 1, buf);
	a = t_exec(p.io, &sqe);
	CU_ASSERT_EQUAL(t_status(&a), NVME_SC_LBA_RANGE);
	CU_ASSERT_TRUE(t_dnr(&a));
	CU_ASSERT_TRUE(a.invalidate);
	CU_ASSERT_EQUAL(a.key, T_KEY);
}

/* Linux describes a page whatever the number of ranges, by a key or in the capsule. */
static void deallocate_with_room(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct nvme_dsm_range r[256] = {{0, htole32(1), htole64(4)}, {0, htole32(1), htole64(6)}};
	struct nvme_sqe sqe;

	memset(d->data, 0xff, 8192);
	t_sqe(p.io, &sqe, nvme_cmd_dsm, r, sizeof(r));
	sqe.nsid = htole32(1);
	sqe.cdw11 = htole32(4);
	CU_ASSERT_EQUAL(t_exec_status(p.io, &sqe), 0);
	CU_ASSERT_EQUAL(d->submitted, 1);
	CU_ASSERT_EQUAL(d->data[4 * 512], 0);
	CU_ASSERT_EQUAL(d->data[6 * 512], 0xff);
	/* Too little is still an error. */
	nvme_sgl_set_keyed(&sqe.sgl, (uintptr_t)r, 31, T_KEY, NVME_SGL_KEYED_INVALIDATE);
	sqe.cdw10 = htole32(1);
	CU_ASSERT_EQUAL(t_exec_status(p.io, &sqe), NVME_SC_SGL_INVALID_DATA);
	/* In-capsule data must be complete. */
	sqe.sgl.data.offset = 0;
	sqe.sgl.data.length = htole32(64);
	sqe.sgl.data.type = NVME_SGL_IN_CAPSULE;
	for (uint32_t sent = 63; sent <= 64; sent++) {
		d->submitted = 0;
		t_send(p.io, &sqe, r, sent);
		t_turn(p.env);
		CU_ASSERT_EQUAL(t_answer_status(p.io), sent < 64 ? NVME_SC_SGL_INVALID_DATA : 0);
		CU_ASSERT_EQUAL(d->submitted, sent < 64 ? 0 : 2);
	}
	CU_ASSERT_EQUAL(d->data[6 * 512], 0);
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
	T_PAIR(p);
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
}

const struct t_case t_io_cases[] = {
	{"what holds nothing is read without a buffer", reads_of_nothing},
	{"a failed command still invalidates its key", failed_command_invalidates},
	{"Dataset Management takes a descriptor of more than its ranges", deallocate_with_room},
	{"errors of a backend become status codes", backend_errors},
	{NULL, NULL},
};
