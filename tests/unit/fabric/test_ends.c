/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections end: by which side, in which state, and on which fabric their request was
 * answered. With every provider. */
#include <pthread.h>

#include "suites.h"
#include "t_fab.h"

static uint8_t mem[128];

static bool reached(const struct t_pair *p, int step)
{
	switch (step) {
	case 0:
		return true; /* not even resolved */
	case 1:
		return p->cl.resolved;
	case 2:
		return p->requests > 0;
	case 3:
		return p->cl.established;
	default:
		return p->cl.established && p->sv.established;
	}
}

static void leave(int step, int how)
{
	struct t_opts o = {.no_accept = how >= 2 && step == 2};
	T_PAIR(p);

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, reached(&p, step));
	if (how == 0) {
		rd_fab_disconnect(p.cl.conn);
		rd_fab_disconnect(p.cl.conn);
		T_UNTIL(&p, p.cl.disconnected);
		T_UNTIL(&p, !p.sv.conn || p.sv.disconnected);
		CU_ASSERT_EQUAL(p.cl.failed, 0);
	} else if (how == 1) {
		rd_fab_conn_destroy(&p.cl.conn);
		T_UNTIL(&p, !p.sv.conn || p.sv.disconnected);
	} else if (how == 2 && p.sv.conn) {
		rd_fab_disconnect(p.sv.conn);
		T_UNTIL(&p, p.sv.disconnected);
		rd_fab_conn_destroy(&p.sv.conn);
		T_UNTIL(&p, p.cl.disconnected || p.cl.failed || p.cl.rejected);
	} else if (how == 3 && p.sv.conn) {
		rd_fab_conn_destroy(&p.sv.conn);
		T_UNTIL(&p, p.cl.disconnected || p.cl.failed || p.cl.rejected);
	}
	CU_ASSERT(p.cl.disconnected <= 1 && p.sv.disconnected <= 1);
}

static void leave_at_every_state(void)
{
	for (int step = 0; step < 5; step++)
		for (int how = 0; how < 4; how++)
			leave(step, how);
}

static void destroyed_in_event(void)
{
	static const enum rd_fab_event_type when[] = {RD_FAB_EV_RESOLVED, RD_FAB_EV_ESTABLISHED,
						      RD_FAB_EV_DISCONNECTED};

	for (int i = 0; i < 3; i++) {
		struct t_pair p;

		t_pair_open(&p, NULL);
		p.cl.destroy = true;
		p.cl.destroy_on = when[i];
		t_pair_start(&p);
		T_UNTIL(&p, i == 0 || p.sv.established);
		if (i == 2)
			rd_fab_disconnect(p.sv.conn);
		T_UNTIL(&p, !p.cl.conn);
		T_UNTIL(&p, i == 0 || p.sv.disconnected);
		t_pair_close(&p);
	}
}

static void cq_destroys(struct rd_fab_cq *cq, void *arg)
{
	struct t_pair *p = arg;

	rd_fab_conn_destroy(&p->cl.conn);
	rd_fab_cq_destroy(&p->cl.cq);
}

static void destroyed_in_cq_callback(void)
{
	struct rd_fab_mr *ma;
	T_PAIR(p);

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	p.cl.no_poll = true;
	p.cl.cq->fn = cq_destroys;
	p.cl.cq->arg = &p;
	CU_ASSERT_EQUAL(rd_fab_cq_arm(p.cl.cq), 0);
	t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, ma, 0, 0, 0, 0);
	T_UNTIL(&p, !p.cl.cq && p.sv.disconnected);
}

static void *reject_thread(void *arg)
{
	rd_fab_req_reject(arg, "abc", 3);
	return NULL;
}

static void rejected_elsewhere(void)
{
	struct t_opts o = {.manual = true};
	struct t_pair p;
	pthread_t t;

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.req);
	CU_ASSERT_FATAL(p.req != NULL);
	CU_ASSERT_EQUAL(pthread_create(&t, NULL, reject_thread, p.req), 0);
	pthread_join(t, NULL);
	T_UNTIL(&p, p.cl.rejected);
	CU_ASSERT_EQUAL(p.cl.pd[2], 'c');
	CU_ASSERT(t_verbs() || p.cl.pd_len == 3); /* devices pad private data */
	t_pair_close(&p);
	/* The fabric by which the request arrived is closed before the request is rejected. */
	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.req);
	CU_ASSERT_FATAL(p.req != NULL);
	rd_fab_unlisten(&p.lis);
	rd_fab_cq_destroy(&p.sv.cq);
	rd_fab_close(&p.sv.fab);
	rd_fab_req_reject(p.req, "abc", 3);
	T_UNTIL(&p, p.cl.rejected);
	CU_ASSERT(t_verbs() || p.cl.pd_len == 3);
	CU_ASSERT_EQUAL(t_fab_open(p.loop, NULL, &p.sv.fab), 0);
	t_pair_close(&p);
}

/* The request moves to another fabric, on another event channel. */
static void adopted_elsewhere(void)
{
	struct t_opts o = {.manual = true};
	struct rd_fab_mr *ma, *mb;
	struct rd_fab *other = NULL;
	T_PAIR(p);

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.req);
	CU_ASSERT_FATAL(p.req != NULL);
	CU_ASSERT_EQUAL_FATAL(t_fab_open(p.loop, NULL, &other), 0);
	rd_fab_unlisten(&p.lis);
	rd_fab_cq_destroy(&p.sv.cq);
	rd_fab_close(&p.sv.fab);
	p.sv.fab = other;
	t_open_cq(&p.sv);
	t_adopt(&p, p.req);
	T_UNTIL(&p, p.cl.established && p.sv.established);
	ma = t_reg(&p.cl, mem, 64, IBV_ACCESS_LOCAL_WRITE);
	mb = t_reg(&p.sv, mem + 64, 64, IBV_ACCESS_LOCAL_WRITE);
	t_recv(&p.sv, 1, mb, 0, 64);
	t_send(&p.cl, 1, ma, 0, 64);
	T_UNTIL(&p, p.sv.nwc == 1);
}

/* The last SEND before disconnect() arrives. */
static void last_words(void)
{
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	t_recv(&p.cl, 1, ma, 0, 64);
	t_recv(&p.sv, 1, mb, 0, 64);
	t_send(&p.cl, 2, ma, 0, 8);
	T_UNTIL(&p, p.sv.nwc == 1); /* the host has sent its first message */
	t_send(&p.sv, 3, mb, 0, 32);
	rd_fab_disconnect(p.sv.conn);
	CU_ASSERT_EQUAL(p.sv.disconnected, 0); /* events come from the loop only */
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	CU_ASSERT_EQUAL(p.sv.status, 0);
	CU_ASSERT(t_verbs() || p.cl.status == 0);
	CU_ASSERT_EQUAL(p.cl.nwc, 2);
	CU_ASSERT_EQUAL(p.cl.wc[1].opcode, IBV_WC_RECV);
	CU_ASSERT_EQUAL(p.cl.wc[1].byte_len, 32);
	CU_ASSERT_EQUAL(p.cl.wc[1].status, IBV_WC_SUCCESS);
}

const struct t_case t_ends_cases[] = {
	{"either side leaves at every state", leave_at_every_state},
	{"a connection destroyed in its event", destroyed_in_event},
	{"a connection and its CQ destroyed in the CQ's callback", destroyed_in_cq_callback},
	{"reject on another thread, and after the fabric is gone", rejected_elsewhere},
	{"a request adopted by another fabric", adopted_elsewhere},
	{"what was posted before a disconnect arrives", last_words},
	{NULL},
};
