/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads with a loop each: one listens; the other adopts, serves and ends connections. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "suites.h"
#include "t_fab.h"

static uint8_t mem[128];

struct worker {
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr;
	struct rd_fab_conn *conn;
	struct rd_msg msg; /* carries @req to the other thread */
	struct rd_fab_req *req;
	uint8_t buf[64];
	bool refuse;
	int recvs;         /* successful connections */
	atomic_int served; /* connections that have ended */
	int failures;
};

static void worker_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct worker *w = arg;

	if (ev->type != RD_FAB_EV_DISCONNECTED)
		return;
	rd_fab_conn_destroy(&w->conn);
	w->served++;
}

static void worker_cq(struct rd_fab_cq *cq, void *arg)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct worker *w = arg;
	struct ibv_wc wc;

	rd_fab_cq_arm(cq);
	while (rd_fab_cq_poll(cq, 1, &wc) > 0) {
		if (wc.opcode != IBV_WC_RECV || wc.status != IBV_WC_SUCCESS)
			continue;
		w->recvs++;
		sge = (struct ibv_sge){(uintptr_t)w->buf, wc.byte_len, w->mr->lkey};
		w->failures += rd_fab_post_send(w->conn, &wr, &bad) != 0;
	}
}

static void worker_adopt(struct rd_msg *msg)
{
	struct worker *w = rd_container_of(msg, struct worker, msg);
	struct rd_fab_qp_attr attr = {.send_cq = w->cq,
				      .recv_cq = w->cq,
				      .max_send_wr = 4,
				      .max_recv_wr = 4,
				      .max_send_sge = 1,
				      .max_recv_sge = 1};
	struct ibv_sge sge = {(uintptr_t)w->buf, sizeof(w->buf), w->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
	struct rd_fab_conn_param param = {.ird = 4, .ord = 4};

	if (w->refuse) {
		rd_fab_req_reject(w->req, "no", 2);
		w->served++;
		return;
	}
	w->failures += rd_fab_req_adopt(w->fab, w->req, worker_event, w, &w->conn) != 0 ||
		       rd_fab_qp_create(w->conn, &attr) != 0 ||
		       rd_fab_post_recv(w->conn, &wr, &bad) != 0 ||
		       rd_fab_accept(w->conn, &param) != 0;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	return (void *)(intptr_t)rd_loop_run(w->loop);
}

static void worker_open(struct worker *w, struct rd_fab_iwarp_scratch *scratch)
{
	struct rd_fab_iwarp_opts opts = {.scratch = scratch};
	struct rd_loop_opts lo = {0};

	CU_ASSERT_EQUAL_FATAL(rd_loop_create(&lo, &w->loop), 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_open(w->loop, &opts, &w->fab), 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_cq_create(rd_iw_test_dev(w->fab), 0, worker_cq, w, &w->cq), 0);
	rd_fab_cq_arm(w->cq);
	CU_ASSERT_EQUAL_FATAL(rd_fab_reg_mr(rd_iw_test_dev(w->fab), w->buf, sizeof(w->buf),
					    IBV_ACCESS_LOCAL_WRITE, &w->mr),
			      0);
	w->msg.fn = worker_adopt;
}

static void worker_close(struct worker *w)
{
	rd_fab_conn_destroy(&w->conn);
	rd_fab_dereg_mr(&w->mr);
	rd_fab_cq_destroy(&w->cq);
	rd_fab_close(&w->fab);
	rd_loop_destroy(&w->loop);
}

/* One connection, from request to end, served by the thread of @w. Every third request is refused.
 */
static void serve_one(struct t_pair *p, struct worker *w, struct rd_fab_mr *mr, int i)
{
	int nwc = p->cl.nwc, rejected = p->cl.rejected, established = p->cl.established;

	p->req = NULL;
	t_pair_start(p);
	T_UNTIL(p, p->req);
	w->req = p->req;
	w->refuse = i % 3 == 2;
	rd_loop_post(w->loop, &w->msg);
	if (i % 3 == 2) {
		T_UNTIL(p, p->cl.rejected == rejected + 1);
	} else {
		T_UNTIL(p, p->cl.established == established + 1);
		t_recv(&p->cl, 1, mr, 64, 64);
		memset(mem, i + 1, 64);
		t_send(&p->cl, 2, mr, 0, 64);
		T_UNTIL(p, p->cl.nwc == nwc + 2);
		CU_ASSERT_EQUAL(memcmp(mem, mem + 64, 64), 0);
	}
	rd_fab_conn_destroy(&p->cl.conn);
	T_UNTIL(p, atomic_load(&w->served) == i + 1); /* it has one at a time */
}

static void two_threads(struct rd_fab_iwarp_scratch *scratch)
{
	struct t_opts o = {.manual = true, .client.scratch = scratch, .server.scratch = scratch};
	struct worker w = {.loop = NULL};
	struct rd_fab_mr *mr;
	void *rc = NULL;
	struct t_pair p T_ENDS(t_pair_close);
	pthread_t t;

	t_pair_open(&p, &o);
	worker_open(&w, scratch);
	mr = t_reg(&p.cl, mem, 128, IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, worker_main, &w), 0);
	for (int i = 0; i < 12; i++)
		serve_one(&p, &w, mr, i);
	rd_loop_stop(w.loop);
	pthread_join(t, &rc);
	CU_ASSERT_PTR_NULL(rc);
	CU_ASSERT_EQUAL(w.recvs, 8);
	CU_ASSERT_EQUAL(w.failures, 0);
	worker_close(&w);
}

static void each_its_scratch(void)
{
	two_threads(NULL);
}

static void shared_scratch(void)
{
	struct rd_fab_iwarp_scratch *scratch = NULL;

	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_scratch_create(&scratch), 0);
	two_threads(scratch);
	CU_ASSERT_EQUAL(rd_iw_test_scratch_refs(scratch), 1);
	rd_fab_iwarp_scratch_unref(&scratch);
	CU_ASSERT_PTR_NULL(scratch);
	rd_fab_iwarp_scratch_unref(&scratch);
}

/* Two users at a time get two pieces; one user at a time gets the piece used last. */
static void scratch_is_used_again(void)
{
	struct rd_fab_iwarp_scratch *pool;
	void *a, *b, *c;

	CU_ASSERT_EQUAL_FATAL(rd_fab_iwarp_scratch_create(&pool), 0);
	a = rd_iw_test_scratch_get(pool);
	b = rd_iw_test_scratch_get(pool);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	CU_ASSERT_PTR_NOT_EQUAL(a, b);
	rd_iw_test_scratch_put(pool, a);
	rd_iw_test_scratch_put(pool, b);
	c = rd_iw_test_scratch_get(pool);
	CU_ASSERT_PTR_EQUAL(c, b);
	CU_ASSERT_PTR_EQUAL(rd_iw_test_scratch_get(pool), a);
	rd_iw_test_scratch_put(pool, a);
	rd_iw_test_scratch_put(pool, c);
	rd_fab_iwarp_scratch_unref(&pool);
}

const struct t_case t_threads_cases[] = {
	{"requests adopted and refused by another thread", each_its_scratch},
	{"threads share scratch memory", shared_scratch},
	{"scratch memory is used again", scratch_is_used_again},
	{NULL},
};
