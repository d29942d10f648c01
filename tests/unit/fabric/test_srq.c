/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues that are empty: which connections wait, which get RECVs, and what is
 * returned at the end. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "suites.h"
#include "t_raw.h"

#define LEN   100u
#define CONNS 3
#define CHURN 6

static uint8_t a[1 << 20], b[1 << 20];

/* Several connections between the two ends; p.cl.conn and p.sv.conn are not used. */
struct many {
	struct t_pair p;
	struct rd_fab_conn *cl[CHURN], *sv[CHURN];
	int n;
	struct rd_fab_mr *ma, *mb;
};

static void srq_more(struct many *m)
{
	struct t_pair *p = &m->p;

	p->cl.established = p->sv.established = 0;
	t_pair_start(p);
	T_UNTIL(p, p->cl.established && p->sv.established);
	m->cl[m->n] = p->cl.conn;
	m->sv[m->n++] = p->sv.conn;
	p->cl.conn = p->sv.conn = NULL;
}

static void many_open(struct many *m, int n, uint32_t depth)
{
	struct t_opts o = {.srq = true, .depth = depth, .client.poke_ns = T_NO_POKES};

	memset(m, 0, sizeof(*m));
	t_pair_open(&m->p, &o);
	m->ma = t_reg(&m->p.cl, a, sizeof(a), T_ACCESS_ALL);
	m->mb = t_reg(&m->p.sv, b, sizeof(b), T_ACCESS_ALL);
	t_fill(a, sizeof(a), 7);
	memset(b, 0, sizeof(b));
	while (m->n < n)
		srq_more(m);
}

static void many_close(struct many *m)
{
	for (int i = 0; i < m->n; i++) {
		rd_fab_conn_destroy(&m->cl[i]);
		rd_fab_conn_destroy(&m->sv[i]);
	}
	t_pair_close(&m->p);
}

/* Message @msg of connection @i: LEN bytes of a. */
static void say(struct many *m, int i, unsigned int msg)
{
	m->p.cl.conn = m->cl[i];
	CU_ASSERT_EQUAL(t_send(&m->p.cl, msg, m->ma, LEN * (1000u * (unsigned int)i + msg), LEN),
			0);
	m->p.cl.conn = NULL;
}

/* RECV @id has an area of its own in b. */
static void srq_hear(struct many *m, uint64_t id)
{
	CU_ASSERT_EQUAL(t_recv(&m->p.sv, id, m->mb, LEN * id, LEN), 0);
}

/* Run the loop long enough for anything wrong to happen. */
static void srq_settle(struct t_pair *p)
{
	for (int quiet = 0; quiet < 10;)
		quiet = rd_loop_turn(p->loop, RD_NSEC_PER_MSEC) ? 0 : quiet + 1;
	t_turn(p, 0);
}

/* The number of messages received from connection @i. Each must be the next one, and intact. */
static unsigned int srq_heard(struct many *m, int i)
{
	const struct t_end *e = &m->p.sv;
	unsigned int n = 0;

	for (int k = 0; k < e->nwc; k++) {
		const struct ibv_wc *wc = &e->wc[k];

		if (wc->qp_num != m->sv[i]->qp_num || wc->opcode != IBV_WC_RECV)
			continue;
		CU_ASSERT_EQUAL(wc->status, IBV_WC_SUCCESS);
		CU_ASSERT_EQUAL(wc->byte_len, LEN);
		CU_ASSERT_EQUAL(
			memcmp(b + LEN * wc->wr_id, a + LEN * (1000u * (unsigned int)i + n), LEN),
			0);
		n++;
	}
	return n;
}

static void dry_queue_waits(void)
{
	struct many m T_ENDS(many_close);

	many_open(&m, 1, 64);
	for (uint64_t id = 0; id < 4; id++)
		srq_hear(&m, id);
	for (unsigned int i = 0; i < 40; i++)
		say(&m, 0, i);
	T_UNTIL(&m.p, m.p.cl.nwc == 40); /* the socket takes them */
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 4);
	srq_hear(&m, 4);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 5);
	for (uint64_t id = 5; id < 64; id++)
		srq_hear(&m, id);
	T_UNTIL(&m.p, srq_heard(&m, 0) == 40);
	CU_ASSERT_EQUAL(m.p.sv.disconnected, 0);
	for (unsigned int i = 40; i < 60; i++) /* the connection works as before */
		say(&m, 0, i);
	T_UNTIL(&m.p, srq_heard(&m, 0) == 60);
}

/* One message without a RECV holds up all later ones of its connection, but not what the connection
 * sends. */
static void one_message_holds_up_its_connection(void)
{
	struct many m T_ENDS(many_close);

	many_open(&m, 2, 64);
	say(&m, 0, 0);
	m.p.cl.conn = m.cl[0];
	CU_ASSERT_EQUAL(t_rdma(&m.p.cl, IBV_WR_RDMA_WRITE, 90, m.ma, 0, 8,
			       rd_fab_remote_addr(m.mb, b + 80000), m.mb->rkey),
			0);
	m.p.cl.conn = NULL;
	T_UNTIL(&m.p, m.p.cl.nwc == 2);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(b[80000] | b[80003] | b[80007], 0);
	/* A READ and a WRITE of the waiting side: the WRITE arrives, the response of the READ
	 * waits. */
	m.p.sv.conn = m.sv[0];
	CU_ASSERT_EQUAL(t_rdma(&m.p.sv, IBV_WR_RDMA_READ, 91, m.mb, 81000, 64,
			       rd_fab_remote_addr(m.ma, a + 512), m.ma->rkey),
			0);
	CU_ASSERT_EQUAL(t_rdma(&m.p.sv, IBV_WR_RDMA_WRITE, 92, m.mb, 0, 0, 0, 0), 0);
	m.p.sv.conn = NULL;
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(m.p.sv.nwc, 0); /* completions wait for the READ */
	m.p.cl.conn = m.cl[1];          /* another connection is not affected */
	CU_ASSERT_EQUAL(t_rdma(&m.p.cl, IBV_WR_RDMA_WRITE, 93, m.ma, 0, 8,
			       rd_fab_remote_addr(m.mb, b + 82000), m.mb->rkey),
			0);
	m.p.cl.conn = NULL;
	T_UNTIL(&m.p, memcmp(b + 82000, a, 8) == 0);
	srq_hear(&m, 0);
	T_UNTIL(&m.p, m.p.sv.nwc == 3);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 1);
	CU_ASSERT_EQUAL(memcmp(b + 80000, a, 8), 0);
	CU_ASSERT_EQUAL(memcmp(b + 81000, a + 512, 64), 0);
}

static void served_in_turn(void)
{
	struct many m T_ENDS(many_close);

	many_open(&m, CONNS, 64);
	for (int i = 0; i < CONNS; i++) {
		for (unsigned int k = 0; k < 20; k++)
			say(&m, i, k);
		srq_settle(&m.p); /* so that they wait in this order */
	}
	CU_ASSERT_EQUAL(m.p.sv.nwc, 0);
	srq_hear(&m, 0);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 1);
	srq_hear(&m, 1);
	srq_hear(&m, 2);
	srq_settle(&m.p);
	for (int i = 0; i < CONNS; i++)
		CU_ASSERT_EQUAL(srq_heard(&m, i), 1);
	for (uint64_t id = 3; id < 9; id++)
		srq_hear(&m, id);
	srq_settle(&m.p);
	for (int i = 0; i < CONNS; i++)
		CU_ASSERT_EQUAL(srq_heard(&m, i), 3);
}

/* A posted RECV goes to a waiting connection, even if another connection's message arrives first.
 */
static void newcomers_queue_up(void)
{
	struct many m T_ENDS(many_close);

	many_open(&m, 2, 64);
	say(&m, 0, 0);
	say(&m, 0, 1);
	srq_settle(&m.p);
	say(&m, 1, 0);
	T_UNTIL(&m.p, m.p.cl.nwc == 3);
	srq_hear(&m, 0); /* before the message of the second was looked at */
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 1);
	CU_ASSERT_EQUAL(srq_heard(&m, 1), 0);
	srq_hear(&m, 1); /* the first one moved to the end of the queue */
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 1);
	CU_ASSERT_EQUAL(srq_heard(&m, 1), 1);
}

static void srq_ends_while_waiting(void)
{
	struct linger now = {.l_onoff = 1};
	uint8_t out[256];
	struct t_raw r;
	struct many m T_ENDS(many_close);
	size_t n;

	many_open(&m, 2, 64);
	for (int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < 30; k++)
			say(&m, i, k);
	T_UNTIL(&m.p, m.p.cl.nwc == 60);
	srq_settle(&m.p);
	rd_fab_disconnect(m.sv[0]); /* by us */
	T_UNTIL(&m.p, m.p.sv.disconnected == 1);
	rd_fab_conn_destroy(&m.sv[1]); /* without a Terminate */
	t_raw_open(&r, &m.p, 0);
	n = t_fpdu_send(out, 1, 0, true, a, LEN);
	t_raw_send(&r, out, n);
	t_raw_send(&r, out, 7); /* a message behind it */
	srq_settle(&m.p);
	setsockopt(r.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	t_raw_close(&r); /* a reset is noticed although the connection is not read */
	T_UNTIL(&m.p, m.p.sv.disconnected == 2);
	CU_ASSERT_NOT_EQUAL(m.p.sv.status, 0);
	CU_ASSERT_EQUAL(m.p.sv.nwc, 0);
	/* None of them has taken a RECV. */
	rd_fab_conn_destroy(&m.p.sv.conn);
	m.n = 1;
	rd_fab_conn_destroy(&m.cl[1]);
	srq_more(&m);
	for (uint64_t id = 0; id < 64; id++)
		srq_hear(&m, id);
	for (unsigned int k = 0; k < 60; k++)
		say(&m, 1, k);
	T_UNTIL(&m.p, srq_heard(&m, 1) == 60);
}

/* The peer disconnects after its messages: all of them are received first. */
static void goodbye_waits_too(void)
{
	struct many m T_ENDS(many_close);

	many_open(&m, 1, 64);
	for (unsigned int k = 0; k < 10; k++)
		say(&m, 0, k);
	T_UNTIL(&m.p, m.p.cl.nwc == 10);
	rd_fab_disconnect(m.cl[0]);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(m.p.sv.disconnected, 0);
	for (uint64_t id = 0; id < 10; id++)
		srq_hear(&m, id);
	T_UNTIL(&m.p, m.p.sv.disconnected == 1);
	CU_ASSERT_EQUAL(srq_heard(&m, 0), 10);
	CU_ASSERT_EQUAL(m.p.sv.status, 0);
}

/* RECVs that a connection has taken from the shared queue are returned when it has ended. */
static void recvs_outlive_connections(void)
{
	uint8_t out[256];
	struct t_raw r;
	struct many m T_ENDS(many_close);
	uint32_t qpn;

	many_open(&m, 1, 64);
	srq_hear(&m, 5);
	srq_hear(&m, 6);
	m.p.sv.no_poll = true;
	say(&m, 0, 0);
	T_UNTIL(&m.p, m.p.cl.nwc == 1);
	srq_settle(&m.p);
	qpn = m.sv[0]->qp_num;
	rd_fab_conn_destroy(&m.sv[0]); /* with an unpolled completion */
	t_raw_open(&r, &m.p, 0);
	t_fpdu_send(out, 1, 0, true, a, LEN);
	t_raw_send(&r, out, 60); /* and with half a message, which has taken no RECV */
	srq_settle(&m.p);
	rd_fab_conn_destroy(&m.p.sv.conn);
	m.p.sv.no_poll = false;
	t_turn(&m.p, 0);
	CU_ASSERT_EQUAL_FATAL(m.p.sv.nwc, 1);
	CU_ASSERT_EQUAL(m.p.sv.wc[0].status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(m.p.sv.wc[0].qp_num, qpn);
	srq_more(&m);
	m.p.cl.conn = m.cl[1];
	CU_ASSERT_EQUAL(t_send(&m.p.cl, 1, m.ma, 0, LEN), 0);
	m.p.cl.conn = NULL;
	T_UNTIL(&m.p, m.p.sv.nwc == 2);
	CU_ASSERT_EQUAL(m.p.sv.wc[1].status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(m.p.sv.wc[0].wr_id + m.p.sv.wc[1].wr_id, 11);
	t_raw_close(&r);
}

static void count_low(struct rd_fab_srq *srq, void *arg)
{
	unsigned int *low = arg;

	CU_ASSERT_PTR_NOT_NULL(srq);
	(*low)++;
}

/* The limit event comes once; incomplete messages do not count. */
static void limit_is_told(void)
{
	unsigned int low = 0;
	uint8_t out[256];
	struct t_raw r;
	struct many m;
	size_t n;

	many_open(&m, 1, 64);
	for (uint64_t id = 0; id < 8; id++)
		srq_hear(&m, id);
	rd_fab_srq_limit(m.p.sv.srq, 5, count_low, &low);
	for (unsigned int i = 0; i < 3; i++)
		say(&m, 0, i);
	T_UNTIL(&m.p, srq_heard(&m, 0) == 3);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(low, 0); /* five are left */
	say(&m, 0, 3);
	T_UNTIL(&m.p, low == 1);
	say(&m, 0, 4);
	T_UNTIL(&m.p, srq_heard(&m, 0) == 5);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(low, 1);
	rd_fab_srq_limit(m.p.sv.srq, 3, count_low, &low);
	t_raw_open(&r, &m.p, 0);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(low, 1);
	n = t_fpdu_send(out, 1, 0, true, a, LEN);
	t_raw_send(&r, out, 60);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(low, 1);
	t_raw_send(&r, out + 60, n - 60);
	T_UNTIL(&m.p, low == 2);
	CU_ASSERT_EQUAL(m.p.sv.nwc, 6);
	rd_fab_srq_limit(m.p.sv.srq, 64, count_low, &low);
	say(&m, 0, 5);
	rd_fab_srq_limit(m.p.sv.srq, 0, NULL, NULL);
	T_UNTIL(&m.p, srq_heard(&m, 0) == 6);
	srq_settle(&m.p);
	CU_ASSERT_EQUAL(low, 2); /* returned */
	rd_fab_conn_destroy(&m.p.sv.conn);
	t_raw_close(&r);
	many_close(&m);
}

/* ---- shares ---- */

#define SHARED CHURN

/* Connections with shares, 16 RECVs, and the messages sent. */
struct shared {
	struct many m;
	struct rd_fab_share *of[SHARED];
	unsigned int said[SHARED];
	uint64_t next; /* posted RECVs */
};

static void srq_post(struct shared *s, uint32_t n)
{
	while (n--)
		srq_hear(&s->m, s->next++);
}

/* Connection i belongs to share @of[i]. */
static void shared_open(struct shared *s, const int of[SHARED])
{
	memset(s, 0, sizeof(*s));
	many_open(&s->m, SHARED, 64);
	for (int i = 0; i < SHARED; i++)
		CU_ASSERT_EQUAL_FATAL(rd_fab_share_create(s->m.p.sv.srq, &s->of[i]), 0);
	for (int i = 0; i < SHARED; i++)
		rd_fab_share_join(s->m.sv[i], s->of[of[i]]);
	srq_post(s, 16);
}

static void shared_close(struct shared *s)
{
	for (int i = 0; i < SHARED; i++)
		rd_fab_conn_destroy(&s->m.sv[i]);
	for (int i = 0; i < SHARED; i++)
		rd_fab_share_destroy(&s->of[i]);
	many_close(&s->m);
}

static void talk(struct shared *s, int i, unsigned int n)
{
	while (n--)
		say(&s->m, i, s->said[i]++);
	srq_settle(&s->m.p);
}

/* @n RECVs that connection @i of share @of has taken are returned. */
static void srq_give(struct shared *s, int of, int i, uint32_t n)
{
	rd_fab_share_give(s->of[of], s->m.sv[i], n);
	srq_post(s, n);
	srq_settle(&s->m.p);
}

static void a_share_leaves_a_quarter(void)
{
	struct shared s;

	shared_open(&s, (const int[SHARED]){0, 0, 1, 2});
	talk(&s, 0, 20);
	talk(&s, 1, 20);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 0), 12);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 1), 0);
	CU_ASSERT_EQUAL(s.of[0]->recvs, 12);
	/* A share that returns what it takes can go on without limit, */
	for (unsigned int k = 1; k <= 10; k++) {
		talk(&s, 2, 1);
		CU_ASSERT_EQUAL(srq_heard(&s.m, 2), k);
		srq_give(&s, 1, 2, 1);
	}
	/* and may hold a part of what is left. */
	talk(&s, 2, 10);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 2), 13);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 0), 12);
	srq_give(&s, 1, 2, 3);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 2), 16);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 0), 12);
	srq_give(&s, 0, 0, 12);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 2), 20);
	CU_ASSERT_TRUE(srq_heard(&s.m, 0) > 12 && srq_heard(&s.m, 1) > 0);
	CU_ASSERT_EQUAL(s.of[0]->recvs, srq_heard(&s.m, 0) + srq_heard(&s.m, 1) - 12);
	CU_ASSERT_EQUAL(s.of[1]->recvs, 20 - 13);
	shared_close(&s);
}

static void turns_within_a_share(void)
{
	struct shared s T_ENDS(shared_close);

	shared_open(&s, (const int[SHARED]){0, 0, 1, 2});
	talk(&s, 0, 20);
	talk(&s, 1, 20);
	for (unsigned int k = 1; k <= 6; k++) {
		srq_give(&s, 0, 0, 1);
		CU_ASSERT_EQUAL(srq_heard(&s.m, 0), 12 + (k + 1) / 2);
		CU_ASSERT_EQUAL(srq_heard(&s.m, 1), k / 2);
	}
}

/* The last RECV is taken. Returned RECVs go first to shares that hold none, in order, even if
 * others waited before them. */
static void nothing_held_comes_first(void)
{
	static const unsigned int want[SHARED] = {12, 3, 1, 1, 1, 0};
	struct shared s T_ENDS(shared_close);
	int acked;

	shared_open(&s, (const int[SHARED]){0, 1, 2, 3, 4, 5});
	for (int i = 0; i < 5; i++)
		talk(&s, i, i < 3 ? 20 : 1);
	for (int i = 0; i < 5; i++)
		CU_ASSERT_EQUAL(srq_heard(&s.m, i), i < 3 ? want[i] : 0);
	srq_give(&s, 0, 0, 1);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 3), 1);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 4), 0);
	acked = s.m.p.cl.nwc;
	say(&s.m, 5, 0);
	T_UNTIL(&s.m.p, s.m.p.cl.nwc > acked);
	srq_give(&s, 0, 0, 1); /* before its message was looked at */
	for (int i = 0; i < SHARED; i++)
		CU_ASSERT_EQUAL(srq_heard(&s.m, i), want[i]);
}

static void a_connection_changes_its_share(void)
{
	struct shared s T_ENDS(shared_close);

	shared_open(&s, (const int[SHARED]){0, 0, 1, 2});
	talk(&s, 0, 20);
	talk(&s, 1, 20);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 1), 0);
	rd_fab_share_join(s.m.sv[1], s.of[1]); /* waiting */
	srq_settle(&s.m.p);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 1), 3);
	CU_ASSERT_EQUAL(s.of[0]->recvs, 12);
	CU_ASSERT_EQUAL(s.of[1]->recvs, 3);
	rd_fab_share_join(s.m.sv[0], s.of[2]); /* with what it holds */
	srq_settle(&s.m.p);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 0), 12);
	CU_ASSERT_EQUAL(s.of[0]->recvs, 0);
	CU_ASSERT_EQUAL(s.of[2]->recvs, 12);
	srq_give(&s, 2, 0, 12);
	CU_ASSERT_TRUE(srq_heard(&s.m, 0) > 12);
}

/* RECVs of a connection count until they are returned, even after its end. */
static void a_share_outlives_a_connection(void)
{
	struct shared s T_ENDS(shared_close);

	shared_open(&s, (const int[SHARED]){0, 0, 1, 2});
	talk(&s, 0, 20);
	talk(&s, 1, 20);
	rd_fab_conn_destroy(&s.m.sv[0]);
	srq_settle(&s.m.p);
	CU_ASSERT_EQUAL(s.of[0]->recvs, 12);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 1), 0);
	rd_fab_share_give(s.of[0], NULL, 12);
	srq_post(&s, 12);
	srq_settle(&s.m.p);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 1), 12);
}

/* Its claim to the next RECV ends with it. */
static void nothing_held_and_gone(void)
{
	struct shared s T_ENDS(shared_close);

	shared_open(&s, (const int[SHARED]){0, 1, 2, 3});
	talk(&s, 0, 12);
	talk(&s, 1, 3);
	talk(&s, 2, 1);
	CU_ASSERT_EQUAL(s.of[0]->recvs + s.of[1]->recvs + s.of[2]->recvs, 16);
	talk(&s, 3, 1);
	rd_fab_conn_destroy(&s.m.sv[3]);
	srq_give(&s, 1, 1, 3);
	srq_give(&s, 2, 2, 1);
	talk(&s, 0, 1); /* beyond its share: it waits */
	CU_ASSERT_EQUAL(srq_heard(&s.m, 0), 12);
	talk(&s, 1, 1);
	CU_ASSERT_EQUAL(srq_heard(&s.m, 1), 4);
}

/* Messages of all sizes, with few RECVs posted at random: each connection gets its own messages, in
 * order. */
static void churn(void)
{
	enum { MSGS = 400, RECVS = 24, MAX = 6000 };
	static uint8_t in[RECVS][MAX];
	unsigned int sent[CHURN] = {0}, got[CHURN] = {0}, total = 0;
	struct rd_fab_mr *mr;
	struct many m T_ENDS(many_close);
	int seen = 0, acked = 0, out = 0;

	many_open(&m, CHURN, 64);
	mr = t_reg(&m.p.sv, in, sizeof(in), IBV_ACCESS_LOCAL_WRITE);
	for (uint64_t id = 0; id < RECVS; id++)
		CU_ASSERT_EQUAL(t_recv(&m.p.sv, id, mr, id * MAX, MAX), 0);
	while (total < CHURN * MSGS) {
		for (int i = 0; i < CHURN; i++) {
			m.p.cl.conn = m.cl[i];
			while (sent[i] < MSGS && out < 60) {
				uint32_t len = 1 + (sent[i] * 2654435761u >> 16) % (MAX - 1);

				if (t_send(&m.p.cl, 0, m.ma, 13u * sent[i] + (unsigned int)i, len))
					break;
				sent[i]++;
				out++;
			}
		}
		m.p.cl.conn = NULL;
		t_turn(&m.p, T_WAIT);
		out -= m.p.cl.nwc - acked;
		acked = m.p.cl.nwc;
		for (; seen < m.p.sv.nwc; seen++, total++) {
			const struct ibv_wc *wc = &m.p.sv.wc[seen];
			int i = 0;

			while (i < CHURN - 1 && m.sv[i]->qp_num != wc->qp_num)
				i++;
			CU_ASSERT_EQUAL_FATAL(wc->status, IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(wc->byte_len, 1 + (got[i] * 2654435761u >> 16) % (MAX - 1));
			CU_ASSERT_EQUAL_FATAL(memcmp(in[wc->wr_id],
						     a + 13u * got[i] + (unsigned int)i,
						     wc->byte_len),
					      0);
			got[i]++;
			CU_ASSERT_EQUAL(t_recv(&m.p.sv, wc->wr_id, mr, wc->wr_id * MAX, MAX), 0);
		}
		if (m.p.sv.nwc > T_MAX_WC / 2) {
			m.p.sv.nwc = seen = 0;
			m.p.cl.nwc = acked = 0;
		}
	}
	for (int i = 0; i < CHURN; i++)
		CU_ASSERT_EQUAL(got[i], MSGS);
}

/* Room for the RECVs is reserved once in the CQ of the first connection, in whatever order its
 * connections end, and for each connection with another CQ. */
static void room_is_reserved_once(void)
{
	struct rd_fab_cq *first, *other;
	struct many m T_ENDS(many_close);
	uint32_t sends;

	many_open(&m, 1, 64);
	first = m.p.sv.cq;
	sends = rd_iw_test_cq_reserved(first) - 64;
	srq_more(&m);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(first), 2 * sends + 64);
	CU_ASSERT_EQUAL_FATAL(rd_fab_cq_create(m.p.sv.dev, 0, NULL, NULL, &other), 0);
	m.p.sv.cq = other;
	srq_more(&m);
	srq_more(&m);
	m.p.sv.cq = first;
	srq_more(&m);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(first), 3 * sends + 64);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(other), 2 * sends + 2 * 64);
	rd_fab_conn_destroy(&m.sv[0]); /* the one that came first */
	rd_fab_conn_destroy(&m.sv[2]);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(first), 2 * sends + 64);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(other), sends + 64);
	rd_fab_conn_destroy(&m.sv[1]);
	rd_fab_conn_destroy(&m.sv[4]);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(first), 0);
	srq_more(&m);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(first), sends + 64);
	rd_fab_conn_destroy(&m.sv[3]);
	CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(other), 0);
	rd_fab_cq_destroy(&other);
}

const struct t_case t_srq_cases[] = {
	{"a message that finds the shared queue empty waits", dry_queue_waits},
	{"what came behind it waits, other connections do not",
	 one_message_holds_up_its_connection},
	{"connections that wait share what is posted", served_in_turn},
	{"newcomers queue up behind those who wait", newcomers_queue_up},
	{"a connection may end while it waits", srq_ends_while_waiting},
	{"an orderly end comes after what was said before it", goodbye_waits_too},
	{"shared RECVs outlive the connections that took them", recvs_outlive_connections},
	{"a limit is told once", limit_is_told},
	{"a share leaves a quarter for others", a_share_leaves_a_quarter},
	{"connections of a share take turns", turns_within_a_share},
	{"a share that holds nothing comes first", nothing_held_comes_first},
	{"a share that held nothing has gone", nothing_held_and_gone},
	{"a connection changes its share", a_connection_changes_its_share},
	{"a share outlives a connection", a_share_outlives_a_connection},
	{"many connections, few RECVs", churn},
	{"room for shared RECVs is reserved once for a completion queue", room_is_reserved_once},
	{NULL},
};
