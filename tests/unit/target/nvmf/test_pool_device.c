/* SPDX-License-Identifier: BSD-3-Clause */
/* A disk that does not answer keeps its share of buffers, and no more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/nvmf/ns.h"
#include "target/nvmf/pool_device.h"
#include "t_target.h"

#define NSIDS 2u

static const uint32_t nsids[NSIDS] = {1, 5}; /* on disk 0 and disk 1 */
static uint8_t big_buf[T_MDTS];

/* A pair whose disks 0 and 1 are the devices @first and @second; all others are @second. */
static struct t_pair pair_of(uint64_t first, uint64_t second)
{
	struct t_pair p;

	for (unsigned int i = 0; i < T_DISKS; i++)
		t_disk_devices[i] = i ? second : first;
	p = t_pair_new();
	memset(t_disk_devices, 0, sizeof(t_disk_devices));
	return p;
}

static struct rdt_reactor *reactor_of(const struct t_pair *p)
{
	return &p->env->t->reactors[1];
}

static struct rdt_account *account_on(struct t_conn *c, unsigned int disk)
{
	struct rdt_reactor *r = c->qp.reactor;
	const struct rdt_ns_place *end;

	return rdt_pool_device_account(
		rdt_ns_places(r, c->qp.ctrl->subsys, nsids[disk] - 1, &end)->channel->device,
		c->qp.share, RDT_POOL_IO);
}

/* A queue of the pair's host that has transferred much. */
static struct t_conn *queue_of(struct t_pair *p, uint16_t qid)
{
	struct t_conn *c = t_conn_new(p->env, 1, qid, 128);

	t_connect(c, p->cntlid);
	for (unsigned int i = 0; i < NSIDS; i++)
		account_on(c, i)->moved = 64 * T_MDTS;
	return c;
}

static void send_to(struct t_conn *c, uint8_t opcode, unsigned int disk, uint64_t lba,
		    uint32_t bytes)
{
	struct nvme_sqe sqe;

	if (opcode == nvme_cmd_read) {
		t_rw_sqe(c, &sqe, false, lba, bytes / 512, big_buf);
	} else {
		t_sqe(c, &sqe, opcode, NULL, 0);
		sqe.cdw10 = htole32((uint32_t)lba);
		sqe.cdw12 = htole32(bytes / 512 - 1);
	}
	sqe.nsid = htole32(nsids[disk]);
	t_send(c, &sqe, NULL, 0);
	t_turn(c->env);
}

static void answer_all(struct t_pair *p, const struct rdt_pool *pool)
{
	struct t_disk *hung = &p->env->disk[0];

	while (pool->waiting || hung->held_count) {
		CU_ASSERT_FATAL(hung->held_count > 0);
		t_disk_finish(hung, 0, 0);
		t_turn(p->env);
	}
	CU_ASSERT(TAILQ_EMPTY(&pool->confined));
	CU_ASSERT_EQUAL(rd_buddy_free_bytes(pool->buddy), rd_buddy_total_bytes(pool->buddy));
}

/* Requests of the same host and queue for another disk get the largest block at once, however small
 * the blocks are that the disk holds, and again after that. */
static void hung_beside_healthy(void)
{
	static const uint32_t sizes[] = {T_MDTS, RDT_BUFFER_UNIT};

	for (unsigned int s = 0; s < 2; s++) {
		struct t_pair p = pair_of(7, 8);
		struct t_conn *io = queue_of(&p, 2);
		struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_IO];
		struct t_disk *hung = &p.env->disk[0];
		unsigned int n = s ? 60 : 8;

		hung->hold = true;
		for (unsigned int i = 0; i < n; i++)
			send_to(io, nvme_cmd_read, 0, i, sizes[s]);
		CU_ASSERT_EQUAL(hung->held_count, 3 * (size_t)T_MDTS / sizes[s]);
		CU_ASSERT_EQUAL(pool->waiting, n - hung->held_count);
		CU_ASSERT_FALSE(TAILQ_EMPTY(&pool->confined));
		for (unsigned int i = 0; i < 3; i++) {
			send_to(io, nvme_cmd_read, 1, i, T_MDTS);
			CU_ASSERT_EQUAL(t_answers(io), i + 1);
		}
		answer_all(&p, pool);
		CU_ASSERT_EQUAL(t_answers(io), n + 3);
		t_pair_free(&p);
	}
}

/* A request that would take the last of the largest blocks apart waits, although little is used. */
static void fragmented(void)
{
	struct t_pair p = pair_of(7, 8);
	struct t_conn *io = queue_of(&p, 2);
	struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_IO];
	void *pins[3], *half;

	half = rd_buddy_alloc(pool->buddy, T_MDTS / 2);
	for (unsigned int i = 0; i < 3; i++)
		pins[i] = rd_buddy_alloc(pool->buddy, T_MDTS);
	p.env->disk[0].hold = true;
	send_to(io, nvme_cmd_read, 0, 0, T_MDTS / 2);
	CU_ASSERT_EQUAL(p.env->disk[0].held_count, 1);
	rd_buddy_free(pool->buddy, pins[0], T_MDTS);
	send_to(io, nvme_cmd_read, 0, 1, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(pool->waiting, 1);
	send_to(io, nvme_cmd_read, 1, 0, T_MDTS);
	CU_ASSERT_EQUAL(t_answers(io), 1);
	rd_buddy_free(pool->buddy, pins[1], T_MDTS);
	rd_buddy_free(pool->buddy, pins[2], T_MDTS);
	rd_buddy_free(pool->buddy, half, T_MDTS / 2);
	answer_all(&p, pool);
	CU_ASSERT_EQUAL(t_answers(io), 3);
	t_pair_free(&p);
}

/* A device alone has the share of its host only, which another host does not have. */
static void alone(void)
{
	struct t_pair p = pair_of(7, 7);
	struct t_conn *io = queue_of(&p, 2);
	struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_IO];
	void *rest;

	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 3; i++)
		send_to(io, nvme_cmd_read, 0, i, T_MDTS);
	CU_ASSERT_EQUAL(account_on(io, 1)->used, 3 * T_MDTS); /* one account for both disks */
	rest = rd_buddy_alloc(pool->buddy, T_MDTS);
	CU_ASSERT_PTR_NOT_NULL(rest);
	send_to(io, nvme_cmd_read, 0, 3, T_MDTS);
	CU_ASSERT(TAILQ_EMPTY(&pool->confined));
	rd_buddy_free(pool->buddy, rest, T_MDTS);
	answer_all(&p, pool);
	t_pair_free(&p);
}

/* Another host, with an I/O queue on the reactor. */
static struct t_conn *host_named(struct t_pair *p, const char *nqn)
{
	struct t_conn *c = t_conn_new(p->env, 0, 0, 32);
	struct t_answer a = t_connect_as(c, NVMF_CNTLID_DYNAMIC, nqn, 2);

	t_enable(c);
	c = t_conn_new(p->env, 1, 1, 16);
	t_connect_as(c, (uint16_t)le32toh(a.cqe.result), nqn, 2);
	return c;
}

/* Those that wait for the disk are served in turn, and nobody who comes later overtakes them. */
static void confined_in_turn(void)
{
	struct t_pair p = pair_of(7, 8);
	struct t_conn *io = queue_of(&p, 2), *other = host_named(&p, T_HOST2);
	struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_IO];
	struct t_disk *hung = &p.env->disk[0];
	void *pin;

	account_on(other, 0)->moved = 64 * T_MDTS;
	hung->hold = true;
	for (unsigned int i = 0; i < 6; i++)
		send_to(io, nvme_cmd_read, 0, i, T_MDTS);
	send_to(other, nvme_cmd_read, 0, 100, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(pool->waiting, 4);
	CU_ASSERT_EQUAL(account_on(other, 0)->prio, RDT_PRIO_CONFINED);
	t_disk_finish(hung, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(hung->held_count, 3);
	CU_ASSERT_EQUAL(hung->held[2]->offset, 3 * 512);
	t_disk_finish(hung, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL_FATAL(hung->held_count, 3);
	CU_ASSERT_EQUAL(hung->held[2]->offset, 100 * 512); /* before 4 and 5 */
	/* Also one with a small request that may be had. */
	t_disk_finish(hung, 0, 0);
	t_turn(p.env);
	CU_ASSERT_EQUAL(hung->held_count, 3);
	pin = rd_buddy_alloc(pool->buddy, T_MDTS / 2);
	CU_ASSERT_PTR_NOT_NULL(pin);
	send_to(other, nvme_cmd_read, 0, 101, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(hung->held_count, 3);
	CU_ASSERT_EQUAL(pool->waiting, 2);
	rd_buddy_free(pool->buddy, pin, T_MDTS / 2);
	/* One that waits leaves, and so does the last one. */
	rdt_qpair_close(&io->qp, "test");
	t_turn(p.env);
	CU_ASSERT_EQUAL(pool->waiting, 0);
	answer_all(&p, pool);
	t_pair_free(&p);
}

/* The same for the pieces that Compare, Verify and Copy read into. */
static void scratch(void)
{
	struct t_pair p = pair_of(7, 8);
	struct t_conn *io = queue_of(&p, 2);
	struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_SCRATCH];

	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 12; i++)
		send_to(io, nvme_cmd_verify, 0, i, 512);
	CU_ASSERT_EQUAL(p.env->disk[0].held_count, 6); /* of 8 */
	CU_ASSERT_EQUAL(pool->waiting, 6);
	send_to(io, nvme_cmd_verify, 1, 0, 512);
	CU_ASSERT_EQUAL(t_answers(io), 1);
	answer_all(&p, pool);
	CU_ASSERT_EQUAL(t_answers(io), 13);
	t_pair_free(&p);
}

/* What unproven hosts hold because of one disk leaves the first block of a host for another one. */
static void hung_unproven(void)
{
	struct t_pair p = pair_of(7, 8);
	struct t_conn *io = queue_of(&p, 2);
	struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_IO];

	account_on(io, 0)->moved = account_on(io, 1)->moved = 0;
	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 30; i++)
		send_to(io, nvme_cmd_read, 0, i, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(pool->unproven, p.env->disk[0].held_count * RDT_BUFFER_UNIT);
	CU_ASSERT(pool->waiting > 0);
	for (unsigned int i = 0; i < 3; i++) {
		send_to(io, nvme_cmd_read, 1, i, RDT_BUFFER_UNIT);
		CU_ASSERT_EQUAL(t_answers(io), i + 1);
	}
	answer_all(&p, pool);
	CU_ASSERT_EQUAL(pool->unproven, 0);
	t_pair_free(&p);
}

/* The first blocks of many hosts as well. */
static void first_blocks(void)
{
	struct t_pair p = pair_of(7, 8);
	struct rdt_pool *pool = &reactor_of(&p)->pools[RDT_POOL_IO];
	struct t_conn *c = NULL;
	char nqn[64];

	p.env->disk[0].hold = true;
	for (unsigned int i = 0; i < 40; i++) {
		snprintf(nqn, sizeof(nqn), "nqn.2026-11.io.rdnvme:host%u", i);
		c = host_named(&p, nqn);
		send_to(c, nvme_cmd_read, 0, i, RDT_BUFFER_UNIT);
	}
	CU_ASSERT_EQUAL(p.env->disk[0].held_count, 24); /* of 32 */
	send_to(c, nvme_cmd_read, 1, 0, RDT_BUFFER_UNIT);
	CU_ASSERT_EQUAL(t_answers(c), 1);
	answer_all(&p, pool);
	t_pair_free(&p);
}

const struct t_case t_pool_device_cases[] = {
	{"a disk that hangs leaves buffers for other disks of the same queue", hung_beside_healthy},
	{"a disk that hangs leaves one of the largest blocks", fragmented},
	{"a disk alone has no share", alone},
	{"hosts that wait for a disk beyond its share are served in turn", confined_in_turn},
	{"a disk that hangs leaves scratch buffers", scratch},
	{"a disk that hangs leaves a first block for unproven hosts", hung_unproven},
	{"the first blocks of many hosts for one disk leave some for others", first_blocks},
	{NULL, NULL},
};
