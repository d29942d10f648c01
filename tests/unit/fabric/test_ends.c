/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections end: by which side, and in which state. With every provider. */
#include "suites.h"
#include "t_fab.h"

static uint8_t mem[64];

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
	struct t_pair p;

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
	t_pair_close(&p);
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
	struct t_pair p;

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	p.cl.no_poll = true;
	p.cl.cq->fn = cq_destroys;
	p.cl.cq->arg = &p;
	CU_ASSERT_EQUAL(rd_fab_cq_arm(p.cl.cq), 0);
	t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, ma, 0, 0, 0, 0);
	T_UNTIL(&p, !p.cl.cq && p.sv.disconnected);
	rd_fab_dereg_mr(&ma);
	t_pair_close(&p);
}

const struct t_case t_ends_cases[] = {
	{"either side leaves at every state", leave_at_every_state},
	{"a connection destroyed in its event", destroyed_in_event},
	{"a connection and its CQ destroyed in the CQ's callback", destroyed_in_cq_callback},
	{NULL},
};
