/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of a reactor share their requests: each gets at most as many as it has entries, and each
 * gets some. */
#include <errno.h>

#include "t_target.h"

#define QUEUES 4u /* the maximum that the target offers */
#define DEPTH  32u
#define FIRST  64u /* the initial size of a pool: enough for two queues */

/* A controller with several I/O queues on reactor 1. */
struct shared {
	struct t_env *env;
	struct t_disk *disk;
	struct t_conn *io[QUEUES];
	struct rdt_req_pool *pool; /* the host's */
};

static struct shared shared_new(void)
{
	struct shared s = {.env = t_env_new()};
	struct t_conn *admin = t_conn_new(s.env, 0, 0, 32);
	uint16_t cntlid = t_connect(admin, NVMF_CNTLID_DYNAMIC);

	t_enable(admin);
	for (unsigned int i = 0; i < QUEUES; i++) {
		s.io[i] = t_conn_new(s.env, 1, (uint16_t)(i + 1), DEPTH);
		t_connect(s.io[i], cntlid);
	}
	s.disk = &s.env->disk[0];
	s.pool = &s.env->reqs[1];
	return s;
}

/* With in-capsule data: only requests are scarce. */
static void send_writes(struct t_conn *c, unsigned int n, uint64_t lba)
{
	static uint8_t block[512];
	struct nvme_sqe sqe;

	for (unsigned int i = 0; i < n; i++) {
		t_rw_sqe(c, &sqe, true, lba + i, 1, NULL);
		sqe.sgl.data = (struct nvme_data_sgl){.length = htole32(sizeof(block)),
						      .type = NVME_SGL_IN_CAPSULE};
		t_send(c, &sqe, block, sizeof(block));
	}
}

/* Complete the oldest write that the disk holds. Returns the block of the newest write. */
static uint64_t one_done(struct shared *s)
{
	t_disk_finish(s->disk, 0, 0);
	t_turn(s->env);
	return s->disk->last.offset / 512;
}

/* Requests of one queue serve the next queue; memory grows with the commands in flight at once. */
static void one_serves_all(void)
{
	struct shared s = shared_new();

	s.disk->sync = true;
	for (unsigned int i = 0; i < QUEUES; i++) {
		send_writes(s.io[i], DEPTH / 2, 0);
		t_turn(s.env);
		CU_ASSERT_EQUAL(s.io[i]->qp.used, 0);
	}
	CU_ASSERT_EQUAL(s.pool->total, FIRST);
	CU_ASSERT_EQUAL(SLIST_FIRST(&s.pool->chunks)->made, DEPTH / 2);
	for (unsigned int i = 0; i < QUEUES; i++) {
		s.io[i]->hold_respond = true;
		send_writes(s.io[i], DEPTH, 0);
	}
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.pool->used, QUEUES * DEPTH);
	CU_ASSERT_EQUAL(s.pool->total, QUEUES * DEPTH);
	t_env_free(s.env);
}

/* A full queue waits for itself; other queues continue. */
static void entries_limit(void)
{
	struct shared s = shared_new();

	s.disk->hold = true;
	s.io[0]->hold_respond = true;
	send_writes(s.io[0], DEPTH, 0);
	t_turn(s.env);
	one_done(&s);
	send_writes(s.io[0], 1, 100); /* the host has an answer whose SEND is not complete here */
	send_writes(s.io[1], 2, 200);
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.io[0]->qp.used, DEPTH);
	CU_ASSERT_PTR_NULL(s.io[0]->qp.starved);
	CU_ASSERT_EQUAL(s.io[1]->qp.used, 2);
	CU_ASSERT_EQUAL(s.disk->last.offset, 201 * 512);
	s.io[0]->hold_respond = false;
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.disk->last.offset, 100 * 512);
	t_env_free(s.env);
}

/* Two queues have all requests, and there is no memory for more. */
static struct shared starved_new(void)
{
	struct shared s = shared_new();

	s.env->no_memory = true;
	s.disk->hold = true;
	send_writes(s.io[0], DEPTH, 0);
	send_writes(s.io[1], DEPTH, 100);
	t_turn(s.env);
	send_writes(s.io[2], 2, 200);
	send_writes(s.io[3], 2, 300);
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.pool->used, FIRST);
	CU_ASSERT_EQUAL_FATAL(s.disk->held_count, FIRST);
	CU_ASSERT_TRUE(s.io[2]->qp.starved && s.io[3]->qp.starved);
	return s;
}

/* They take turns, and each is served. */
static void no_memory(void)
{
	struct shared s = starved_new();

	CU_ASSERT_EQUAL(one_done(&s), 200);
	send_writes(s.io[0], 1, 400); /* it has room now, and comes last */
	t_turn(s.env);
	CU_ASSERT_EQUAL(one_done(&s), 300);
	CU_ASSERT_EQUAL(one_done(&s), 201);
	CU_ASSERT_EQUAL(one_done(&s), 400);
	CU_ASSERT_EQUAL(one_done(&s), 301);
	CU_ASSERT_TRUE(TAILQ_EMPTY(&s.pool->starved));
	s.disk->hold = false;
	t_turn(s.env);
	CU_ASSERT_EQUAL(t_answers(s.io[0]), DEPTH + 1);
	CU_ASSERT_EQUAL(t_answers(s.io[1]), DEPTH);
	CU_ASSERT_EQUAL(t_answers(s.io[2]), 2);
	CU_ASSERT_EQUAL(t_answers(s.io[3]), 2);
	CU_ASSERT_EQUAL(s.pool->total, FIRST);
	t_env_free(s.env);
}

/* A queue that waits for a request may end, and so may a queue that has requests that others wait
 * for. */
static void ends_while_waiting(void)
{
	struct shared s = starved_new();
	bool gone[2] = {false, false};

	s.disk->can_cancel = true;
	s.io[2]->gone = &gone[0];
	t_conn_cut(s.io[2]);
	t_turn(s.env);
	CU_ASSERT_TRUE(gone[0]);
	CU_ASSERT_PTR_NOT_NULL(s.io[3]->qp.starved);
	CU_ASSERT_EQUAL(s.pool->used, FIRST);
	s.io[0]->gone = &gone[1];
	t_conn_cut(s.io[0]);
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.disk->cancelled, DEPTH);
	CU_ASSERT_PTR_NOT_NULL(s.io[3]->qp.starved);
	for (unsigned int i = 0; i < DEPTH; i++)
		t_disk_finish(s.disk, 0, -ECANCELED);
	t_turn(s.env);
	CU_ASSERT_TRUE(gone[1]);
	CU_ASSERT_EQUAL(s.io[3]->qp.used, 2);
	CU_ASSERT_PTR_NULL(s.io[3]->qp.starved);
	t_env_free(s.env);
}

/* The memory of a burst is freed when a queue ends and no command is in flight. */
static void memory_goes_back(void)
{
	struct shared s = shared_new();

	s.disk->sync = true;
	for (unsigned int i = 0; i < QUEUES; i++) {
		s.io[i]->hold_respond = true;
		send_writes(s.io[i], DEPTH, 0);
	}
	t_turn(s.env);
	for (unsigned int i = 1; i < QUEUES; i++)
		s.io[i]->hold_respond = false;
	t_turn(s.env);
	t_conn_cut(s.io[3]);
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.pool->used, DEPTH);
	CU_ASSERT_EQUAL(s.pool->total, QUEUES * DEPTH); /* they may be anywhere in it */
	s.io[0]->hold_respond = false;
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.pool->total, QUEUES * DEPTH); /* the next burst needs no new memory */
	t_conn_cut(s.io[2]);
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.pool->total, FIRST);
	s.io[0]->hold_respond = s.io[1]->hold_respond = true;
	send_writes(s.io[0], DEPTH, 0);
	send_writes(s.io[1], DEPTH, 0);
	t_turn(s.env);
	CU_ASSERT_EQUAL(s.pool->used, FIRST);
	CU_ASSERT_EQUAL(s.pool->total, FIRST);
	t_env_free(s.env);
}

const struct t_case t_req_pool_cases[] = {
	{"queues share their requests", one_serves_all},
	{"a queue has no more requests than entries", entries_limit},
	{"without memory for requests queues take turns", no_memory},
	{"queues end while one waits for a request", ends_while_waiting},
	{"the memory of a burst goes back", memory_goes_back},
	{NULL, NULL},
};
