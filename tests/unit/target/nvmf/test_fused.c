/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare and Write as a fused operation: pairing, failures, and atomicity. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/manage/objects/control.h"
#include "t_target.h"

#define FAILED     NVME_SC_FUSED_FAIL
#define MISSING    NVME_SC_FUSED_MISSING
#define MISCOMPARE (NVME_SCT_MEDIA << 8 | NVME_SC_COMPARE_FAILED)
#define ACWU       (RDT_ACWU(T_MDTS))

static void half(struct t_conn *c, struct nvme_sqe *sqe, bool second, uint64_t lba, uint32_t blocks,
		 void *data)
{
	t_rw_sqe(c, sqe, true, lba, blocks, data);
	sqe->opcode = second ? nvme_cmd_write : nvme_cmd_compare;
	sqe->flags |= second ? NVME_CMD_FUSE_SECOND : NVME_CMD_FUSE_FIRST;
}

static uint16_t next(struct t_conn *c, const struct nvme_sqe *sqe)
{
	struct t_answer a = t_answer(c);

	CU_ASSERT_EQUAL(a.cqe.cid, sqe->cid);
	return t_status(&a);
}

static void send_pair(struct t_conn *c, struct nvme_sqe sqe[2], uint64_t lba, uint32_t blocks,
		      void *old, void *new)
{
	half(c, &sqe[0], false, lba, blocks, old);
	half(c, &sqe[1], true, lba, blocks, new);
	t_send(c, &sqe[0], NULL, 0);
	t_send(c, &sqe[1], NULL, 0);
}

static void check_pair(struct t_conn *c, const struct nvme_sqe sqe[2], uint16_t first,
		       uint16_t second)
{
	CU_ASSERT_EQUAL(next(c, &sqe[0]), first);
	CU_ASSERT_EQUAL(next(c, &sqe[1]), second);
}

static void swaps(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t old[T_MDTS], new[T_MDTS];
	struct nvme_sqe sqe[2];

	memset(new, 0x5a, T_MDTS);
	send_pair(p.io, sqe, 9, ACWU, old, new);
	t_turn(p.env);
	check_pair(p.io, sqe, 0, 0);
	CU_ASSERT_EQUAL(memcmp(d->data + 9 * 512, new, ACWU * 512), 0);
	/* More than ACWU. */
	send_pair(p.io, sqe, 9, ACWU + 1, new, old);
	t_turn(p.env);
	check_pair(p.io, sqe, NVME_SC_AWU_EXCEEDED, FAILED);
}

/* Of block 0. */
static void send_half(struct t_conn *c, struct nvme_sqe *sqe, bool second, uint8_t data[512],
		      bool in_capsule)
{
	half(c, sqe, second, 0, 1, data);
	if (in_capsule) {
		memset(&sqe->sgl, 0, sizeof(sqe->sgl));
		sqe->sgl.data.length = htole32(512);
		sqe->sgl.data.type = NVME_SGL_IN_CAPSULE;
	}
	t_send(c, sqe, data, in_capsule ? 512 : 0);
}

/* Data of one half or both in the capsule. */
static void fused_in_capsule(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	uint8_t data[2][512];
	struct nvme_sqe sqe[2];

	for (unsigned int bits = 0; bits < 4; bits++) {
		memcpy(data[0], d->data, 512);
		memset(data[1], 0x40 + (int)bits, 512);
		for (unsigned int i = 0; i < 2; i++)
			send_half(p.io, &sqe[i], i, data[i], bits >> i & 1);
		t_turn(p.env);
		check_pair(p.io, sqe, 0, 0);
		CU_ASSERT_EQUAL(memcmp(d->data, data[1], 512), 0);
	}
}

/* A half that waits for its other half, or for data, keeps no capsule that other commands need. */
static void waits_without_capsule(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	uint8_t old[512], new[2][512];
	struct nvme_sqe sqe[4];

	memcpy(old, d->data, 512);
	memset(new[0], 0x61, 512);
	memset(new[1], 0x62, 512);
	d->hold = true;
	send_half(p.io, &sqe[0], false, old, true);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->caps_out, 0);
	send_half(p.io, &sqe[1], true, new[0], true);
	/* A command behind a pair that executes waits for the block. */
	send_half(p.io, &sqe[2], false, new[0], true);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->caps_out, 2);
	d->hold = false;
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	check_pair(p.io, sqe, 0, 0);
	CU_ASSERT_EQUAL(p.io->caps_out, 0);
	p.io->hold_fetch = true;
	send_half(p.io, &sqe[3], true, new[1], false);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->fetches_count, 1);
	/* The buffer is free again: its data is in the pair's buffer. */
	send_half(p.io, &sqe[0], false, new[1], true);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->caps_out, 0);
	p.io->hold_fetch = false;
	t_turn(p.env);
	check_pair(p.io, &sqe[2], 0, 0);
	CU_ASSERT_EQUAL(memcmp(d->data, new[1], 512), 0);
	/* A half that stays alone releases it too. */
	send_half(p.io, &sqe[2], false, new[1], false);
	t_turn(p.env);
	CU_ASSERT_EQUAL(next(p.io, &sqe[0]), MISSING);
	p.io->hold_fetch = true;
	send_half(p.io, &sqe[3], true, old, true);
	send_half(p.io, &sqe[0], false, old, true);
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.io->fetches_count, 1);
	CU_ASSERT_EQUAL(p.io->caps_out, 0);
	p.io->hold_fetch = false;
	t_turn(p.env);
	check_pair(p.io, &sqe[2], 0, 0);
	CU_ASSERT_EQUAL(memcmp(d->data, old, 512), 0);
}

static void two_first_halves(void)
{
	T_PAIR(p);
	static uint8_t buf[512];
	struct nvme_sqe a, b, c;

	half(p.io, &a, false, 0, 1, buf);
	t_send(p.io, &a, NULL, 0);
	half(p.io, &b, false, 0, 1, buf);
	t_send(p.io, &b, NULL, 0);
	half(p.io, &c, true, 0, 1, buf);
	t_begin(p.io, &c);
	CU_ASSERT_EQUAL(next(p.io, &a), MISSING);
	CU_ASSERT_EQUAL(next(p.io, &b), 0);
	CU_ASSERT_EQUAL(next(p.io, &c), 0);
}

/* An error in one half ends the other half. */
static void bad_halves(void)
{
	static const struct {
		uint8_t which; /* the half with the error */
		uint8_t opcode;
		uint8_t flags;
		uint32_t nsid;
		uint32_t lba;
		uint32_t blocks;
		uint16_t first;
		uint16_t second;
	} cases[] = {
		{0, nvme_cmd_compare, 0x41, 1, 4, 1, 0, 0},
		{0, nvme_cmd_compare, 0x41, 9, 4, 1, NVME_SC_INVALID_NS, FAILED},
		{0, nvme_cmd_read, 0x41, 1, 4, 1, NVME_SC_INVALID_FIELD, FAILED},
		{0, nvme_cmd_compare, 0x43, 1, 4, 1, NVME_SC_INVALID_FIELD, MISSING},
		{0, nvme_cmd_compare, 0x41, 1, T_BLOCKS, 1, NVME_SC_LBA_RANGE, FAILED},
		{1, nvme_cmd_write, 0x42, 5, 4, 1, FAILED, NVME_SC_INVALID_FIELD},
		{1, nvme_cmd_write, 0x42, 1, 5, 1, FAILED, NVME_SC_INVALID_FIELD},
		{1, nvme_cmd_write, 0x42, 1, 4, 2, FAILED, NVME_SC_INVALID_FIELD},
		{1, nvme_cmd_write_zeroes, 0x42, 1, 4, 1, FAILED, NVME_SC_INVALID_FIELD},
		{1, nvme_cmd_write, 0x42, 1, T_BLOCKS, 1, FAILED, NVME_SC_LBA_RANGE},
		{1, nvme_cmd_write, 0x02, 1, 4, 1, FAILED, NVME_SC_INVALID_FIELD}, /* PRPs */
	};
	T_PAIR(p);
	static uint8_t buf[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nvme_sqe sqe[2], *s = &sqe[cases[i].which];

		half(p.io, &sqe[0], false, 4, 1, buf);
		half(p.io, &sqe[1], true, 4, 1, buf);
		t_rw_sqe(p.io, s, true, cases[i].lba, cases[i].blocks, buf);
		s->opcode = cases[i].opcode;
		s->flags = cases[i].flags;
		s->nsid = htole32(cases[i].nsid);
		t_send(p.io, &sqe[0], NULL, 0);
		t_begin(p.io, &sqe[1]);
		check_pair(p.io, sqe, cases[i].first, cases[i].second);
	}
	CU_ASSERT_EQUAL(p.env->disk[0].submitted, 2);
	CU_ASSERT_EQUAL(p.env->disk[1].submitted, 0);
}

static void not_on_admin(void)
{
	T_PAIR(p);
	struct nvme_sqe sqe;

	t_sqe(p.admin, &sqe, nvme_admin_keep_alive, NULL, 0);
	sqe.flags |= NVME_CMD_FUSE_FIRST;
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), NVME_SC_INVALID_FIELD);
	sqe.flags = NVME_CMD_PSDT_SGL;
	CU_ASSERT_EQUAL(t_exec_status(p.admin, &sqe), 0);
}

/*
 * Pairs with more data than the slab holds, from several queues: each takes its whole buffer at
 * once, so all of them end.
 */
static void no_deadlock(void)
{
	T_PAIR(p);
	struct t_conn *io[3] = {p.io};
	static uint8_t old[T_MDTS], new[T_MDTS];
	struct nvme_sqe sqe[2];
	unsigned int ok = 0;

	for (unsigned int i = 1; i < 3; i++) {
		io[i] = t_conn_new(p.env, 1, (uint16_t)(i + 1), 16);
		t_connect(io[i], p.cntlid);
	}
	/* First all first halves, then all second halves. */
	for (unsigned int i = 0; i < 3; i++) {
		half(io[i], &sqe[0], false, 100 * i, ACWU, old);
		t_begin(io[i], &sqe[0]);
	}
	for (unsigned int i = 0; i < 3; i++) {
		half(io[i], &sqe[1], true, 100 * i, ACWU, new);
		t_send(io[i], &sqe[1], NULL, 0);
		for (unsigned int k = 0; k < 6; k++)
			send_pair(io[i], sqe, 100 * i, ACWU, old, new);
	}
	t_turn(p.env);
	for (unsigned int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL(t_answers(io[i]), 14);
		while (t_answers(io[i])) {
			struct t_answer a = t_answer(io[i]);

			ok += t_status(&a) == 0;
		}
	}
	CU_ASSERT_EQUAL(ok, 42);
}

static void find_held(struct t_disk *d, unsigned int *i, uint8_t op)
{
	for (*i = 0; *i < d->held_count && d->held[*i]->op != op;)
		(*i)++;
	CU_ASSERT_TRUE_FATAL(*i < d->held_count);
}

/* Between comparison and write no other command accesses the blocks, on any reactor. */
static void atomic_pair(void)
{
	static const uint8_t ops[] = {nvme_cmd_write, nvme_cmd_write_zeroes, nvme_cmd_dsm,
				      nvme_cmd_read};
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct t_conn *other = t_conn_new(p.env, 0, 2, 16);
	static uint8_t old[512], new[512], buf[512];
	struct nvme_dsm_range r = {0, htole32(1), htole64(50)};
	struct nvme_sqe sqe[2], sqe2;

	t_connect(other, p.cntlid);
	memset(new, 1, 512);
	for (size_t i = 0; i < sizeof(ops); i++) {
		d->hold = true;
		memcpy(old, d->data + 50 * 512, 512);
		new[0]++;
		send_pair(p.io, sqe, 50, 1, old, new);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 1); /* the comparison reads */
		if (ops[i] == nvme_cmd_dsm) {
			t_sqe(other, &sqe2, nvme_cmd_dsm, &r, sizeof(r));
			sqe2.nsid = htole32(1);
			sqe2.cdw11 = htole32(4);
		} else {
			t_rw_sqe(other, &sqe2, ops[i] != nvme_cmd_read, 50, 1, buf);
			sqe2.opcode = ops[i];
			if (ops[i] == nvme_cmd_write_zeroes)
				memset(&sqe2.sgl.keyed, 0, 15);
		}
		t_send(other, &sqe2, NULL, 0);
		t_rw_sqe(other, &sqe2, true, 51, 1, buf); /* neighbours are free */
		t_begin(other, &sqe2);
		CU_ASSERT_EQUAL(d->held_count, 2);
		CU_ASSERT_EQUAL(d->held[1]->offset, 51 * 512);
		t_disk_finish(d, 0, 0);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 2);
		CU_ASSERT_EQUAL(d->held[1]->op, RDT_BIO_WRITE);
		CU_ASSERT_EQUAL(d->held[1]->offset, 50 * 512);
		t_disk_finish(d, 1, 0);
		t_turn(p.env);
		CU_ASSERT_EQUAL(d->held_count, 2); /* now the other command continues */
		CU_ASSERT_EQUAL(d->held[1]->offset, 50 * 512);
		check_pair(p.io, sqe, 0, 0);
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL(t_answers(other), 2);
		t_answer(other);
		t_answer(other);
	}
}

/* A write that was in progress, and in no table, when the first pair arrived: the pair waits for
 * it. */
static void drains_first(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct t_conn *other = t_conn_new(p.env, 0, 2, 16);
	static uint8_t old[512], new[512], buf[512];
	struct nvme_sqe sqe[2];
	unsigned int i;

	t_connect(other, p.cntlid);
	memset(buf, 7, 512);
	d->hold = true;
	t_send_rw(other, true, 50, 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 1);
	send_pair(p.io, sqe, 50, 1, buf, new);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 1);
	/* Meanwhile new commands for other blocks continue. */
	t_send_rw(other, true, 70, 1, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 2);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	find_held(d, &i, RDT_BIO_READ);
	CU_ASSERT_EQUAL(d->held_count, 2);
	d->hold = false;
	t_turn(p.env);
	check_pair(p.io, sqe, 0, 0);
	(void)old;
}

/* The queue closes under a pair, in each state of the pair. */
static void dies_anywhere(void)
{
	static uint8_t old[T_MDTS], new[T_MDTS];

	for (unsigned int stage = 0; stage < 6; stage++) {
		T_PAIR(p);
		struct t_disk *d = &p.env->disk[0];
		struct nvme_sqe sqe[2];

		d->hold = true;
		if (stage == 1) { /* no buffer */
			for (unsigned int i = 0; i < 4; i++) {
				t_send_rw(p.io, false, 0, T_MDTS / 512, old);
			}
		}
		p.io->hold_fetch = stage == 2 || stage == 3;
		half(p.io, &sqe[0], false, 50, ACWU, old);
		half(p.io, &sqe[1], true, 50, ACWU, new);
		t_send(p.io, &sqe[0], NULL, 0);
		if (stage > 0)
			t_send(p.io, &sqe[1], NULL, 0);
		t_turn(p.env);
		if (stage == 3) { /* the data of the second half has not arrived */
			struct rdt_req *req = p.io->fetches[0];

			CU_ASSERT_EQUAL_FATAL(p.io->fetches_count, 2);
			p.io->fetches[0] = p.io->fetches[--p.io->fetches_count];
			rdt_req_fetched(req, 0);
		}
		if (stage == 5) { /* writing */
			t_disk_finish(d, 0, 0);
			t_turn(p.env);
			CU_ASSERT_EQUAL(d->held[0]->op, RDT_BIO_WRITE);
		}
		t_conn_cut(p.io);
		t_turn(p.env);
		d->hold = false;
		t_turn(p.env);
	}
}

/* The first half that remains alone cannot release its capsule. */
static void dies_of_the_next_command(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	uint8_t old[512] = {0}, new[512] = {1};
	struct nvme_sqe sqe[4];
	bool gone = false;

	d->hold = true;
	send_half(p.io, &sqe[0], false, old, true);
	send_half(p.io, &sqe[1], true, new, true);
	send_half(p.io, &sqe[2], false, old, true); /* the buffer for data is in use */
	t_turn(p.env);
	p.io->no_recv = true;
	t_rw_sqe(p.io, &sqe[3], true, 0, 1, NULL);
	t_in_capsule(&sqe[3], 512);
	t_send(p.io, &sqe[3], new, 512);
	CU_ASSERT_TRUE(p.io->closing);
	CU_ASSERT_EQUAL(t_answers(p.io), 0);
	p.io->gone = &gone;
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
}

/* Both halves have their parts of the buffer, and the READ of the second half's data fails. */
static void dies_as_it_fetches(void)
{
	T_PAIR(p);
	uint8_t old[512] = {0}, new[512] = {1};
	struct nvme_sqe sqe[2];
	bool gone = false;

	p.io->no_read = true;
	send_pair(p.io, sqe, 0, 1, old, new);
	CU_ASSERT_TRUE(p.io->closing);
	CU_ASSERT_EQUAL(p.io->qp.used, 1);
	p.io->gone = &gone;
	t_turn(p.env);
	CU_ASSERT_TRUE(gone);
}

static void fused_on_removed(void *arg, int err, const char *text)
{
	CU_ASSERT_EQUAL(err, 0);
	++*(unsigned int *)arg;
}

/* The namespace is removed under pairs, in each state: all of them are answered. */
static void namespace_leaves(void)
{
	enum { ALONE, FETCHING, DRAIN, COMPARING, BLOCKS, STAGES };
	static uint8_t old[512], new[512], buf[512];

	for (int stage = ALONE; stage < STAGES; stage++) {
		T_PAIR(p);
		struct t_disk *d = &p.env->disk[0];
		struct t_conn *other = t_conn_new(p.env, 0, 2, 16);
		struct nvme_sqe sqe[2];
		unsigned int removed = 0;
		uint16_t second;

		t_connect(other, p.cntlid);
		d->hold = true;
		if (stage == DRAIN) {
			t_send_rw(other, true, 50, 1, buf);
			t_turn(p.env);
		}
		if (stage == BLOCKS) {
			send_pair(other, sqe, 50, 1, old, new);
			t_turn(p.env);
		}
		p.io->hold_fetch = stage == FETCHING;
		half(p.io, &sqe[0], false, 50, 1, old);
		half(p.io, &sqe[1], true, 50, 1, new);
		t_send(p.io, &sqe[0], NULL, 0);
		if (stage != ALONE)
			t_send(p.io, &sqe[1], NULL, 0);
		t_turn(p.env);
		rdt_control_ns_remove(t_ns_of(p.env->t->subsys[0], 1), fused_on_removed, &removed);
		t_turn(p.env);
		CU_ASSERT_EQUAL(removed, stage == ALONE);
		p.io->hold_fetch = false;
		d->hold = false;
		t_turn(p.env);
		CU_ASSERT_EQUAL(removed, 1);
		CU_ASSERT_TRUE(d->closed);
		CU_ASSERT_EQUAL(next(p.io, &sqe[0]), NVME_SC_INVALID_NS);
		if (stage == ALONE)
			t_send(p.io, &sqe[1], NULL, 0);
		t_turn(p.env);
		/* Either the second half's own reason, or that the first half failed: both are
		 * correct. */
		second = next(p.io, &sqe[1]);
		CU_ASSERT_TRUE(second == FAILED || (second == NVME_SC_INVALID_NS && stage));
	}
}

/* The write has begun and is completed: both halves succeed. */
static void namespace_leaves_while_it_writes(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t old[512], new[512];
	struct nvme_sqe sqe[2];
	unsigned int removed = 0;

	d->hold = true;
	send_pair(p.io, sqe, 50, 1, old, new);
	t_turn(p.env);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	CU_ASSERT_EQUAL(d->held[0]->op, RDT_BIO_WRITE);
	rdt_control_ns_remove(t_ns_of(p.env->t->subsys[0], 1), fused_on_removed, &removed);
	t_turn(p.env);
	CU_ASSERT_EQUAL(removed, 0);
	d->hold = false;
	t_turn(p.env);
	CU_ASSERT_EQUAL(removed, 1);
	check_pair(p.io, sqe, 0, 0);
}

/* A first half alone does not delay the end of the target. */
static void drain_alone(void)
{
	T_PAIR(p);
	static uint8_t buf[512];
	struct nvme_sqe sqe;

	half(p.io, &sqe, false, 0, 1, buf);
	t_begin(p.io, &sqe);
	rdt_qpair_drain(&p.io->qp);
	CU_ASSERT_EQUAL(next(p.io, &sqe), MISSING);
}

static void aborts(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t old[512], new[512];
	struct nvme_sqe sqe[2];
	struct t_answer a;

	/* Alone; the second half is answered accordingly. */
	half(p.io, &sqe[0], false, 0, 1, old);
	half(p.io, &sqe[1], true, 0, 1, new);
	t_begin(p.io, &sqe[0]);
	a = t_abort(p.admin, 1, sqe[0].cid);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	t_begin(p.io, &sqe[1]);
	check_pair(p.io, sqe, NVME_SC_ABORT_REQ, FAILED);
	/* During the comparison: the pair stops after the read, and nothing is written. */
	d->hold = true;
	send_pair(p.io, sqe, 0, 1, old, new);
	t_turn(p.env);
	t_send_abort(p.admin, 1, sqe[0].cid);
	t_turn(p.env);
	d->hold = false;
	t_turn(p.env);
	check_pair(p.io, sqe, NVME_SC_ABORT_REQ, FAILED);
	CU_ASSERT_EQUAL(d->last.op, RDT_BIO_READ);
	a = t_answer(p.admin);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	/* A pair that waits for blocks of another pair. */
	d->hold = true;
	send_pair(p.io, sqe, 0, 1, old, new);
	t_turn(p.env);
	send_pair(p.io, sqe, 0, 1, old, new);
	t_turn(p.env);
	a = t_abort(p.admin, 1, sqe[0].cid);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	check_pair(p.io, sqe, NVME_SC_ABORT_REQ, FAILED);
}

/* The write has begun, so the pair completes: the answers to it and to the Abort agree. */
static void abort_while_it_writes(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t old[512], new[512];
	struct nvme_sqe sqe[2];
	struct t_answer a;

	for (unsigned int i = 0; i < 2; i++) {
		d->can_cancel = i;
		d->hold = true;
		memset(new, (int)i + 1, 512);
		send_pair(p.io, sqe, 0, 1, old, new);
		t_turn(p.env);
		t_disk_finish(d, 0, 0);
		t_turn(p.env);
		CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
		CU_ASSERT_EQUAL(d->held[0]->op, RDT_BIO_WRITE);
		a = t_abort(p.admin, 1, sqe[0].cid);
		CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 1);
		d->hold = false;
		t_turn(p.env);
		check_pair(p.io, sqe, 0, 0);
		CU_ASSERT_EQUAL(memcmp(d->data, new, 512), 0);
		memcpy(old, new, 512);
	}
}

static void second_fails(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t old[512], new[512];
	struct nvme_sqe sqe[2];

	d->hold = true;
	send_pair(p.io, sqe, 0, 1, old, new);
	t_turn(p.env);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	t_disk_finish(d, 0, -EIO);
	t_turn(p.env);
	check_pair(p.io, sqe, 0, NVME_SCT_MEDIA << 8 | NVME_SC_WRITE_FAULT);
}

/* The other reactor may be fast: when the reply has been sent, it has the Abort. */
static bool abort_was_ready;
static const struct rdt_abort *watched_abort;

static void look_at_abort(struct t_conn *c, struct rdt_req *req)
{
	abort_was_ready &= watched_abort->timer.fn != NULL;
	watched_abort = NULL; /* the first half's: the second half has no Abort */
	c->on_respond = NULL;
}

static void abort_ends_a_pair_at_once(void)
{
	struct t_pair p = t_pair_new();
	uint8_t *buf T_FREE = calloc(2, T_MDTS);
	struct nvme_sqe sqe[2], abort;
	struct t_answer a;

	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 4; i++) { /* the last one exceeds its share */
		t_send_rw(p.io, false, 0, i == 2 ? 1 : T_MDTS / 512, buf);
	}
	send_pair(p.io, sqe, 9, ACWU, buf, buf); /* waits behind it for a buffer */
	t_turn(p.env);
	CU_ASSERT_EQUAL(p.env->disk[0].held_count, 3);
	CU_ASSERT_EQUAL(p.io->fetches_count, 0);
	t_sqe(p.admin, &abort, nvme_admin_abort_cmd, NULL, 0);
	abort.cdw10 = htole32(1 | (uint32_t)le16toh(sqe[0].cid) << 16);
	t_send(p.admin, &abort, NULL, 0);
	watched_abort = &p.admin->qp.reqs[p.admin->qp.used - 1]->abort;
	abort_was_ready = true;
	p.io->on_respond = look_at_abort;
	t_turn(p.env);
	CU_ASSERT_TRUE(abort_was_ready && !watched_abort);
	a = t_answer(p.admin);
	CU_ASSERT_EQUAL(le32toh(a.cqe.result) & 1, 0);
	check_pair(p.io, sqe, NVME_SC_ABORT_REQ, FAILED);
	t_pair_free(&p);
}

/* One command waits for blocks of a pair; the pair waits for blocks of the first command. */
static void protected_while_it_waits(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	struct rdt_ns *ns = t_ns_of(p.env->t->subsys[0], 1);
	static uint8_t buf[512], new[512];
	struct nvme_sqe sqe[2], write, later[2];

	send_pair(p.io, sqe, 50, 1, buf, buf); /* from now on blocks are locked */
	t_turn(p.env);
	check_pair(p.io, sqe, 0, 0);
	memset(new, 1, sizeof(new));
	d->hold = true;
	send_pair(p.io, sqe, 50, 1, buf, buf);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 1); /* the comparison */
	t_rw_sqe(p.io, &write, true, 50, 1, new);
	t_send(p.io, &write, NULL, 0);
	send_pair(p.io, later, 50, 1, buf, new);
	t_turn(p.env);
	CU_ASSERT_EQUAL(d->held_count, 1);
	atomic_store(&ns->wp, NVME_NS_WP_CFG_PROTECT);
	d->hold = false;
	t_turn(p.env);
	check_pair(p.io, sqe, 0, 0); /* it had begun */
	CU_ASSERT_EQUAL(next(p.io, &write), NVME_SC_NS_WRITE_PROTECTED);
	check_pair(p.io, later, FAILED, NVME_SC_NS_WRITE_PROTECTED);
	CU_ASSERT_EQUAL(d->data[50 * 512], 0);
}

/* The write half is READY at once; the data of the comparison arrives later. */
static void protected_between_the_halves(void)
{
	T_PAIR(p);
	struct rdt_ns *ns = t_ns_of(p.env->t->subsys[0], 1);
	static uint8_t buf[512], new[512];
	struct nvme_sqe sqe[2];

	memset(new, 1, sizeof(new));
	p.io->hold_fetch = true;
	half(p.io, &sqe[0], false, 50, 1, buf);
	half(p.io, &sqe[1], true, 50, 1, new);
	t_in_capsule(&sqe[1], 512);
	t_send(p.io, &sqe[0], NULL, 0);
	t_send(p.io, &sqe[1], new, 512);
	t_turn(p.env);
	atomic_store(&ns->wp, NVME_NS_WP_CFG_PROTECT);
	p.io->hold_fetch = false;
	t_turn(p.env);
	check_pair(p.io, sqe, FAILED, NVME_SC_NS_WRITE_PROTECTED);
}

static void send_write(struct t_pair *p, uint64_t lba, uint8_t opcode)
{
	static uint8_t data[512];
	struct nvme_sqe sqe;

	if (opcode == nvme_cmd_write) {
		t_rw_sqe(p->io, &sqe, true, lba, 1, data);
	} else {
		t_sqe(p->io, &sqe, opcode, NULL, 0);
		sqe.nsid = htole32(1);
		sqe.cdw10 = htole32((uint32_t)lba);
	}
	t_begin(p->io, &sqe);
}

/* Each of the next requests was a Write Zeroes before, and has changed blocks. */
static void use_requests(struct t_pair *p, unsigned int n)
{

	for (unsigned int i = 0; i < n; i++)
		send_write(p, 10 + i, nvme_cmd_write_zeroes);
	CU_ASSERT_EQUAL_FATAL(p->env->disk[0].held_count, n);
	for (unsigned int i = 0; i < n; i++)
		t_disk_finish(&p->env->disk[0], 0, 0);
	t_turn(p->env);
	for (unsigned int i = 0; i < n; i++) {
		CU_ASSERT_EQUAL(t_answer_status(p->io), 0);
	}
}

/* Another gateway has the storage before any part of the write is executed. */
static void a_write_that_waited_is_lost(void)
{
	T_PAIR(p);
	struct t_disk *d = &p.env->disk[0];
	static uint8_t old[512], new[512];
	struct nvme_sqe sqe[2];

	send_pair(p.io, sqe, 0, 1, old, new); /* from now on commands lock ranges */
	t_turn(p.env);
	check_pair(p.io, sqe, 0, 0);
	d->hold = true;
	use_requests(&p, 4);
	send_write(&p, 0, nvme_cmd_write);
	send_write(&p, 0, nvme_cmd_write);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	t_disk_finish(d, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), 0);
	CU_ASSERT_EQUAL_FATAL(d->held_count, 1);
	t_disk_finish(d, 0, -ESHUTDOWN);
	t_turn(p.env);
	CU_ASSERT_EQUAL(t_answer_status(p.io), NVME_SCT_PATH << 8 | NVME_SC_ANA_INACCESSIBLE);
}

const struct t_case t_fused_cases[] = {
	{"Compare and Write, up to ACWU", swaps},
	{"its data may come in capsules", fused_in_capsule},
	{"a half that waits keeps no capsule", waits_without_capsule},
	{"a first half after a first half", two_first_halves},
	{"a bad half ends the other", bad_halves},
	{"fused bits are for I/O queues", not_on_admin},
	{"pairs beyond the slab all end", no_deadlock},
	{"nobody comes between comparison and write", atomic_pair},
	{"what was under way is waited for", drains_first},
	{"a pair ends with its queue at any stage", dies_anywhere},
	{"the queue ends when a pair's data cannot be fetched", dies_as_it_fetches},
	{"the queue ends when the next command leaves a half alone", dies_of_the_next_command},
	{"a namespace leaves under a pair at any stage", namespace_leaves},
	{"a namespace leaves while the second half writes", namespace_leaves_while_it_writes},
	{"a first half alone lets the target end", drain_alone},
	{"Abort", aborts},
	{"Abort of the first half while the second one writes", abort_while_it_writes},
	{"a write that fails", second_fails},
	{"Abort of a pair is set up before the pair can end", abort_ends_a_pair_at_once},
	{"a command that waits for blocks is asked again", protected_while_it_waits},
	{"both halves are asked when the last one is ready", protected_between_the_halves},
	{"a write that waited for blocks and was not executed is told so",
	 a_write_that_waited_is_lost},
	{NULL, NULL},
};
