/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues, limits, ordering, backpressure, memory keys. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/iwarp/caps.h"
#include "suites.h"
#include "t_raw.h"

static uint8_t a[1 << 20], b[1 << 20];

static void pair_with_keys(struct t_pair *p, const struct t_opts *o, struct rd_fab_mr **ma,
			   struct rd_fab_mr **mb)
{
	struct t_opts quiet = o ? *o : (struct t_opts){0};

	quiet.client.poke_ns = T_NO_POKES;
	t_pair_connect(p, &quiet);
	*ma = t_reg(&p->cl, a, sizeof(a), T_ACCESS_ALL);
	*mb = t_reg(&p->sv, b, sizeof(b), T_ACCESS_ALL);
}

static int all_ok(const struct t_end *e, int from, int n)
{
	int ok = 0;

	for (int i = from; i < from + n; i++)
		ok += e->wc[i].status == IBV_WC_SUCCESS;
	return ok == n;
}

static void many_per_sendmsg(void)
{
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);
	uint64_t calls;

	pair_with_keys(&p, NULL, &ma, &mb);
	/* Wait for the end of the pause after the handshake. */
	t_recv(&p.sv, 0, mb, 0, 16);
	t_send(&p.cl, 0, ma, 0, 16);
	T_UNTIL(&p, p.sv.nwc == 1 && p.cl.nwc == 1);
	calls = t_stats(&p.cl)->sendmsg_calls;
	for (uint64_t i = 0; i < 60; i++)
		CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_WRITE, i, ma, 64 * i, 33,
				       rd_fab_remote_addr(mb, b + 64 * i), mb->rkey),
				0);
	CU_ASSERT_EQUAL(t_stats(&p.cl)->sendmsg_calls, calls); /* posting alone sends nothing */
	T_UNTIL(&p, p.cl.nwc == 61);
	CU_ASSERT_EQUAL(t_stats(&p.cl)->sendmsg_calls, calls + 1);
	/* READs: all requests in one segment, all responses in one. */
	calls = t_stats(&p.sv)->sendmsg_calls;
	for (uint64_t i = 0; i < 16; i++)
		t_rdma(&p.cl, IBV_WR_RDMA_READ, i, ma, 64 * i, 33,
		       rd_fab_remote_addr(mb, b + 64 * i), mb->rkey);
	T_UNTIL(&p, p.cl.nwc == 77);
	CU_ASSERT(t_stats(&p.sv)->sendmsg_calls - calls <= 2);
	CU_ASSERT(all_ok(&p.cl, 0, 77));
}

static void gather_scatter(void)
{
	struct ibv_sge s[16], d[16];
	struct ibv_send_wr *bad,
		wr = {.wr_id = 1, .sg_list = s, .num_sge = 16, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr *rbad, rwr = {.wr_id = 2, .sg_list = d, .num_sge = 16};
	struct rd_fab_mr *ma, *mb;
	struct t_pair p;
	uint32_t total = 0;
	uint8_t *flat T_FREE = malloc(sizeof(a));

	pair_with_keys(&p, NULL, &ma, &mb);
	t_fill(a, sizeof(a), 1);
	for (int i = 0; i < 16; i++) {
		uint32_t len = i == 3 ? 0 : i == 5 ? 60001 : (uint32_t)(i * 1111 + 1);

		s[i] = (struct ibv_sge){(uintptr_t)a + 65000 * (unsigned)i + 3, len, ma->lkey};
		memcpy(flat + total, a + 65000 * (unsigned)i + 3, len);
		d[15 - i] = (struct ibv_sge){(uintptr_t)b + 65000 * (unsigned)i, len, mb->lkey};
		total += len;
	}
	/* SEND of 16 SGEs into 16 SGEs of other lengths */
	wr.opcode = IBV_WR_SEND;
	CU_ASSERT_EQUAL(rd_fab_post_recv(p.sv.conn, &rwr, &rbad), 0);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	T_UNTIL(&p, p.sv.nwc == 1);
	CU_ASSERT_EQUAL(p.sv.wc[0].byte_len, total);
	for (int i = 0, at = 0; i < 16; at += (int)d[i++].length)
		CU_ASSERT_EQUAL(memcmp((void *)(uintptr_t)d[i].addr, flat + at, d[i].length), 0);
	/* WRITE of several SGEs */
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = rd_fab_remote_addr(mb, b);
	wr.wr.rdma.rkey = mb->rkey;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	T_UNTIL(&p, p.cl.nwc == 2);
	/* READ into several SGEs, which are cleared first */
	for (int i = 0; i < 16; i++)
		memset((void *)(uintptr_t)s[i].addr, 0, s[i].length);
	wr.opcode = IBV_WR_RDMA_READ;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	T_UNTIL(&p, p.cl.nwc == 3);
	CU_ASSERT_EQUAL(p.cl.wc[2].byte_len, total);
	CU_ASSERT_EQUAL(memcmp(b, flat, total), 0);
	for (int i = 0, at = 0; i < 16; at += (int)s[i++].length)
		CU_ASSERT_EQUAL(memcmp((void *)(uintptr_t)s[i].addr, flat + at, s[i].length), 0);
	t_pair_close(&p);
}

static void inline_sends(void)
{
	char text[] = "first";
	struct ibv_sge s = {.addr = (uintptr_t)text, .length = 5}; /* no key needed */
	struct ibv_send_wr *bad, wr = {.sg_list = &s,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_INLINE};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, NULL, &ma, &mb);
	t_recv(&p.sv, 1, mb, 0, 64);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	memcpy(text, "later", 5); /* copied when posted */
	T_UNTIL(&p, p.sv.nwc == 1);
	CU_ASSERT_EQUAL(memcmp(b, "first", 5), 0);
	t_turn(&p, 0);
	CU_ASSERT_EQUAL(p.cl.nwc, 0); /* unsignaled */
	s.addr = (uintptr_t)a;
	s.length = 257;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), -EINVAL);
	CU_ASSERT_PTR_EQUAL(bad, &wr);
	wr.opcode = IBV_WR_RDMA_READ;
	s.length = 5;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), -EINVAL);
}

static void post_limits(void)
{
	struct ibv_send_wr wr[70] = {{0}}, *bad;
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, NULL, &ma, &mb);
	for (int i = 0; i < 70; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .next = i < 69 ? &wr[i + 1] : NULL};
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, wr, &bad), -ENOMEM);
	CU_ASSERT_PTR_EQUAL(bad, &wr[64]);
	T_UNTIL(&p, t_stats(&p.sv)->fpdus_rx == 65);
	wr[0].opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, wr, &bad), -EINVAL);
	for (int i = 0; i < 64; i++)
		CU_ASSERT_EQUAL(t_recv(&p.sv, 1, mb, 0, 8), 0);
	CU_ASSERT_EQUAL(t_recv(&p.sv, 1, mb, 0, 8), -ENOMEM);
}

static void not_connected(void)
{
	struct t_opts o = {.no_accept = true};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;
	T_PAIR(p);

	t_pair_open(&p, &o);
	t_pair_start(&p);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), -ENOTCONN);
	T_UNTIL(&p, p.sv.conn);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), -ENOTCONN);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.sv.conn, &wr, &bad), -ENOTCONN);
}

/* READs beyond the ORD wait in order, as do the work requests behind them. */
static void ord_stalls(void)
{
	struct t_opts o = {.cparam.ord = 2, .sparam.ird = 2};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	CU_ASSERT_EQUAL(p.cl.conn->ord, 2);
	t_fill(b, sizeof(b), 3);
	memset(a, 0, sizeof(a));
	t_recv(&p.sv, 500, mb, sizeof(b) - 64, 64);
	for (uint64_t i = 0; i < 20; i++)
		t_rdma(&p.cl, IBV_WR_RDMA_READ, i, ma, 10000 * i, 10000,
		       rd_fab_remote_addr(mb, b + 10000 * i), mb->rkey);
	t_send(&p.cl, 20, ma, 0, 8);
	T_UNTIL(&p, p.cl.nwc == 21 && p.sv.nwc == 1);
	for (uint64_t i = 0; i < 21; i++)
		CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, i);
	CU_ASSERT(all_ok(&p.cl, 0, 21));
	CU_ASSERT(t_filled(a, 200000, 3));
	CU_ASSERT_EQUAL(p.sv.disconnected, 0); /* its IRD was never exceeded */
}

/* Of work requests that leave together, only the last one is reported. READs, and work requests
 * that do not leave, are reported one by one. */
static void coalesced(void)
{
	/* The verbs provider signals only the last work request of a batch. */
	static const uint64_t expected[2][5] = {{1, 2, 3, 4, 5}, {2, 4, 5}};
	struct t_opts o = {.coalesce = true};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	t_fill(b, sizeof(b), 4);
	for (uint64_t i = 0; i < 20; i++)
		t_recv(&p.sv, 500 + i, mb, sizeof(b) - 64 * (i + 1), 64);
	for (uint64_t i = 0; i < 8; i++)
		t_send(&p.cl, i, ma, 0, 8);
	t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 8, ma, 0, 5000, rd_fab_remote_addr(mb, b), mb->rkey);
	T_UNTIL(&p, p.cl.nwc && p.cl.wc[p.cl.nwc - 1].wr_id == 8 && p.sv.nwc == 8);
	CU_ASSERT_EQUAL(p.cl.nwc, 1);
	p.cl.nwc = 0;
	/* The SENDs leave with the READs between them, which complete later. */
	for (uint64_t i = 0; i < 6; i++)
		if (i == 2 || i == 4)
			t_rdma(&p.cl, IBV_WR_RDMA_READ, i, ma, 10000 * i, 10000,
			       rd_fab_remote_addr(mb, b + 10000 * i), mb->rkey);
		else
			t_send(&p.cl, i, ma, 0, 8);
	T_UNTIL(&p, p.cl.nwc && p.cl.wc[p.cl.nwc - 1].wr_id == 5 && p.sv.nwc == 12);
	CU_ASSERT(all_ok(&p.cl, 0, p.cl.nwc));
	CU_ASSERT_EQUAL_FATAL(p.cl.nwc, t_verbs() ? 3 : 5);
	for (int i = 0; i < p.cl.nwc; i++)
		CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, expected[t_verbs()][i]);
	p.cl.nwc = 0;
	rd_fab_disconnect(p.cl.conn);
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	p.cl.nwc = 0;
	for (uint64_t i = 0; i < 4; i++)
		t_send(&p.cl, i, ma, 0, 8);
	T_UNTIL(&p, p.cl.nwc == 4);
	for (int i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(p.cl.wc[i].status, IBV_WC_WR_FLUSH_ERR);
}

static void no_ord(void)
{
	struct t_opts o = {.sparam.ird = 0xffff, .client.no_peer_to_peer = true};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	CU_ASSERT_EQUAL(p.cl.conn->ord, 0);
	t_rdma(&p.cl, IBV_WR_RDMA_READ, 1, ma, 0, 8, rd_fab_remote_addr(mb, b), mb->rkey);
	T_UNTIL(&p, p.cl.disconnected);
	CU_ASSERT_EQUAL(p.cl.wc[0].status, IBV_WC_LOC_QP_OP_ERR);
	T_UNTIL(&p, p.sv.disconnected);
}

static void fence(void)
{
	struct ibv_sge s;
	struct ibv_send_wr *bad, wr = {.sg_list = &s,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE};
	uint8_t buf[128];
	struct rd_fab_mr *mr;
	T_PAIR(p);
	struct t_raw r;

	t_pair_open(&p, NULL);
	t_raw_serve(&r, &p);
	mr = t_reg(&p.cl, a, sizeof(a), IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT(t_raw_recv(&r, buf, 24));
	t_raw_hex(&r, "4d504120494420526570204672616d65 10 02 0004 00040004");
	T_UNTIL(&p, p.cl.established);
	s = (struct ibv_sge){(uintptr_t)a, 4, mr->lkey};
	t_rdma(&p.cl, IBV_WR_RDMA_READ, 1, mr, 0, 4, 0x10, 0x99);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	CU_ASSERT(t_raw_recv(&r, buf, 52));
	CU_ASSERT(t_raw_quiet(&r, 3 * RD_NSEC_PER_MSEC));
	t_raw_send(&r, buf,
		   t_fpdu_tagged(buf, RD_RDMAP_READ_RESP, mr->lkey, rd_fab_remote_addr(mr, a), true,
				 "wxyz", 4));
	CU_ASSERT(t_raw_recv(&r, buf, 24));
	/* The data read is the data written. */
	CU_ASSERT_EQUAL(memcmp(buf + 16, "wxyz", 4), 0);
	t_raw_close(&r);
	T_UNTIL(&p, p.cl.disconnected);
}

static void shared_receive(void)
{
	struct t_opts o = {.srq = true};
	struct rd_fab_mr *ma, *mb;
	bool taken[64] = {false};
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	for (uint64_t i = 0; i < 64; i++)
		CU_ASSERT_EQUAL(t_recv(&p.sv, 1000 + i, mb, 100 * i, 100), 0);
	CU_ASSERT_EQUAL(t_recv(&p.sv, 0, mb, 0, 8), -ENOMEM);
	t_fill(a, 6400, 9);
	for (uint64_t i = 0; i < 60; i++)
		t_send(&p.cl, i, ma, 100 * i, 100);
	T_UNTIL(&p, p.sv.nwc == 60);
	/* Each message is in another RECV; the order of RECVs is not specified. */
	for (uint64_t i = 0; i < 60; i++) {
		uint64_t at = p.sv.wc[i].wr_id - 1000;

		CU_ASSERT_EQUAL_FATAL(at < 64 && !taken[at], true);
		taken[at] = true;
		CU_ASSERT_EQUAL(memcmp(b + 100 * at, a + 100 * i, 100), 0);
	}
	/* RECVs that no message took stay in the shared queue when the connection ends. */
	rd_fab_disconnect(p.cl.conn);
	T_UNTIL(&p, p.sv.disconnected);
	CU_ASSERT_EQUAL(p.sv.nwc, 60);
}

struct notes {
	int n;
};

static void flow_on_cq(struct rd_fab_cq *cq, void *arg)
{
	((struct notes *)arg)->n++;
}

static void notification(void)
{
	struct notes n = {0};
	struct rd_fab_mr *ma, *mb;
	struct ibv_wc wc[8];
	T_PAIR(p);
	int got = 0;

	pair_with_keys(&p, NULL, &ma, &mb);
	p.sv.no_poll = true;
	p.sv.cq->fn = flow_on_cq;
	p.sv.cq->arg = &n;
	for (int i = 0; i < 5; i++)
		t_recv(&p.sv, 1, mb, 0, 64);
	t_send(&p.cl, 1, ma, 0, 8);
	T_UNTIL(&p, t_stats(&p.sv)->fpdus_rx == 2);
	CU_ASSERT_EQUAL(n.n, 0); /* not armed */
	CU_ASSERT_EQUAL(rd_fab_cq_arm(p.sv.cq), 0);
	t_turn(&p, 0);
	CU_ASSERT_EQUAL(n.n, 0); /* completions from before arming do not count */
	t_send(&p.cl, 1, ma, 0, 8);
	t_send(&p.cl, 1, ma, 0, 8);
	T_UNTIL(&p, t_stats(&p.sv)->fpdus_rx == 4);
	t_turn(&p, 0);
	CU_ASSERT_EQUAL(n.n, 1); /* one notification per arming */
	t_send(&p.cl, 1, ma, 0, 8);
	T_UNTIL(&p, t_stats(&p.sv)->fpdus_rx == 5);
	t_turn(&p, 0);
	CU_ASSERT_EQUAL(n.n, 1); /* none without arming again */
	got = rd_fab_cq_poll(p.sv.cq, 8, wc);
	CU_ASSERT_EQUAL(got, 4);
	CU_ASSERT_EQUAL(rd_fab_cq_arm(p.sv.cq), 0);
	t_send(&p.cl, 1, ma, 0, 8);
	T_UNTIL(&p, n.n == 2);
}

static void flow_invalidation(void)
{
	struct ibv_sge s;
	struct ibv_send_wr *bad, wr = {.sg_list = &s,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND_WITH_INV,
				       .send_flags = IBV_SEND_SOLICITED};
	struct rd_fab_mr *ma, *mb, *key;
	T_PAIR(p);

	pair_with_keys(&p, NULL, &ma, &mb);
	key = t_reg(&p.cl, a, 4096, T_ACCESS_ALL);
	t_recv(&p.cl, 5, ma, 0, 64);
	t_recv(&p.sv, 6, mb, 0, 64);
	t_send(&p.cl, 1, ma, 0, 8);
	T_UNTIL(&p, p.sv.nwc == 1);
	s = (struct ibv_sge){(uintptr_t)b, 16, mb->lkey};
	wr.invalidate_rkey = wr.wr.rdma.rkey = key->rkey;
	CU_ASSERT_EQUAL(rd_fab_post_send(p.sv.conn, &wr, &bad), 0);
	T_UNTIL(&p, p.cl.nwc == 2);
	CU_ASSERT_EQUAL(p.cl.wc[1].wc_flags, IBV_WC_WITH_INV);
	CU_ASSERT_EQUAL(p.cl.wc[1].invalidated_rkey, key->rkey);
	/* Local access still works, remote access does not. */
	t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 2, key, 0, 8, rd_fab_remote_addr(mb, b), mb->rkey);
	T_UNTIL(&p, p.cl.nwc == 3);
	CU_ASSERT_EQUAL(p.cl.wc[2].status, IBV_WC_SUCCESS);
	t_rdma(&p.sv, IBV_WR_RDMA_WRITE, 3, mb, 0, 8, rd_fab_remote_addr(key, a), key->rkey);
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	CU_ASSERT_PTR_NOT_NULL(strstr(p.sv.reason, "terminated by the peer: invalid key"));
}

static void keys(void)
{
	struct rd_fab_mr *mr[300], *one;
	T_PAIR(p);
	uint32_t old, mask;
	int fresh = 0;

	t_pair_open(&p, NULL);
	CU_ASSERT_EQUAL(rd_fab_reg_mr(p.cl.dev, NULL, 1, 0, &one), -EINVAL);
	CU_ASSERT_EQUAL(rd_fab_reg_mr(p.cl.dev, a, 0, 0, &one), -EINVAL);
	CU_ASSERT_EQUAL(rd_fab_reg_mr(p.cl.dev, a, SIZE_MAX, 0, &one), -EINVAL);
	CU_ASSERT_EQUAL(rd_fab_reg_mr(p.cl.dev, a, 1, IBV_ACCESS_REMOTE_WRITE, &one), -EINVAL);
	for (int i = 0; i < 300; i++) {
		mr[i] = t_reg(&p.cl, a, 16, T_ACCESS_ALL);
		CU_ASSERT(mr[i]->rkey != 0 && mr[i]->lkey == mr[i]->rkey);
		for (int j = 0; j < i; j++)
			CU_ASSERT_NOT_EQUAL(mr[j]->rkey, mr[i]->rkey);
	}
	/* The table has grown; all keys are still found. */
	mask = rd_iw_test_mr_slots(p.cl.dev) - 1;
	CU_ASSERT_EQUAL(mask, 511);
	for (int i = 0; i < 300; i++)
		CU_ASSERT_PTR_EQUAL(rd_iw_test_find_mr(p.cl.dev, mr[i]->rkey), mr[i]);
	/* An old key does not become valid again soon: its slot is not reused at once. */
	old = mr[0]->rkey;
	t_dereg(&p.cl, mr[0]);
	mr[0] = t_reg(&p.cl, a, 16, T_ACCESS_ALL);
	CU_ASSERT_NOT_EQUAL(mr[0]->rkey & mask, old & mask);
	CU_ASSERT_PTR_NULL(rd_iw_test_find_mr(p.cl.dev, old));
	for (int i = 0; i < 64; i++) {
		old = mr[0]->rkey;
		t_dereg(&p.cl, mr[0]);
		mr[0] = t_reg(&p.cl, a, 16, T_ACCESS_ALL);
		fresh += mr[0]->rkey != old;
	}
	CU_ASSERT_EQUAL(fresh, 64);
}

/* What peers see of memory without remote access: the sink of a READ has a key and an address as
 * well. */
static void keys_and_addresses_are_random(void)
{
	uint64_t set = 0, clear = 0, keys_set = 0, keys_clear = 0;
	struct rd_fab_mr *mr;
	T_PAIR(p);

	t_pair_open(&p, NULL);
	for (int i = 0; i < 200; i++) {
		mr = t_reg(&p.cl, a + 100, 16, IBV_ACCESS_LOCAL_WRITE);
		CU_ASSERT_NOT_EQUAL(mr->iova, (uintptr_t)mr->addr);
		CU_ASSERT_EQUAL((mr->iova ^ (uintptr_t)mr->addr) & 0xfff, 0);
		CU_ASSERT_EQUAL(rd_fab_remote_addr(mr, a + 103), mr->iova + 3);
		set |= mr->iova;
		clear |= ~mr->iova;
		keys_set |= mr->rkey;
		keys_clear |= ~mr->rkey;
		t_dereg(&p.cl, mr);
	}
	CU_ASSERT_EQUAL(set & clear & 0xffffffff000, 0xffffffff000);
	CU_ASSERT_EQUAL(keys_set & keys_clear & 0xffffffc0, 0xffffffc0);
}

/* The peer reads much data slowly; the key is invalidated while the response is being sent. */
static void revoked_while_read(void)
{
	struct t_opts o = {.server.sndbuf = 8192};
	uint8_t *heap = malloc(4 << 20), out[64], *sink = malloc(4 << 20);
	struct rd_fab_mr *mr;
	struct t_pair p;
	struct t_raw r;
	ssize_t n;

	t_pair_open(&p, &o);
	memset(heap, 7, 4 << 20);
	mr = t_reg(&p.sv, heap, 4 << 20, T_ACCESS_ALL);
	t_raw_open(&r, &p, 0);
	t_raw_send(&r, out, t_fpdu_read(out, 1, mr->rkey, rd_fab_remote_addr(mr, heap), 4 << 20));
	T_UNTIL(&p,
		rd_iw_test_conn(p.sv.conn).tx_part > 0 && rd_iw_test_conn(p.sv.conn).tx_blocked);
	t_dereg(&p.sv, mr);
	free(heap); /* under ASan a further access would end the program */
	do {
		n = recv(r.fd, sink, 4 << 20, 0);
		t_turn(&p, RD_NSEC_PER_MSEC);
	} while (!p.sv.disconnected && (n > 0 || (n < 0 && errno == EAGAIN)));
	T_UNTIL(&p, p.sv.disconnected);
	CU_ASSERT_EQUAL(p.sv.status, -EACCES);
	CU_ASSERT_EQUAL(t_stats(&p.sv)->terms_tx, 0); /* not in the middle of a frame */
	t_raw_close(&r);
	t_pair_close(&p);
	free(sink);
}

/* The counters of a connection start just before they wrap around; work continues across the wrap.
 */
static void wrap_conn(struct t_end *e)
{
	CU_ASSERT_FATAL(rd_iw_test_set_counters(e->conn, e->cq, UINT32_MAX - 20));
}

static void counters_wrap(void)
{
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);
	uint64_t done = 0;

	pair_with_keys(&p, NULL, &ma, &mb);
	wrap_conn(&p.cl);
	wrap_conn(&p.sv);
	t_fill(a, 4096, 21);
	t_fill(b + 65536, 4096, 22);
	for (uint64_t i = 0; i < 60; i++) {
		uint64_t off = 64 * i;

		t_recv(&p.sv, i, mb, off, 64);
		t_recv(&p.cl, i, ma, 8192, 64);
		t_send(&p.cl, 1000 + i, ma, off, 64);
		t_rdma(&p.cl, IBV_WR_RDMA_READ, 2000 + i, ma, 65536 + off, 64,
		       rd_fab_remote_addr(mb, b + 65536 + off), mb->rkey);
		t_send(&p.sv, 3000 + i, mb, 0, 8);
		done += 3;
		if (i % 4 == 3) /* the send queue holds 64 */
			T_UNTIL(&p, p.cl.nwc == (int)done);
	}
	T_UNTIL(&p, p.cl.nwc == 180 && p.sv.nwc == 120);
	CU_ASSERT(all_ok(&p.cl, 0, 180));
	CU_ASSERT(all_ok(&p.sv, 0, 120));
	CU_ASSERT(t_filled(b, 60 * 64, 21));
	CU_ASSERT(t_filled(a + 65536, 60 * 64, 22));
	CU_ASSERT(rd_iw_test_conn(p.cl.conn).sq_head < 1000);
	CU_ASSERT(rd_iw_test_conn(p.sv.conn).send_msn < 1000);
}

/*
 * A connection without READs: the index that searches for a READ to answer must keep up with the
 * queue. Otherwise, after 2^31 work requests, a stray response of the peer would start a search
 * through all of them.
 */
static void reads_keep_up(void)
{
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, NULL, &ma, &mb);
	for (uint64_t i = 0; i < 40; i++)
		t_rdma(&p.cl, IBV_WR_RDMA_WRITE, i, ma, 0, 8, rd_fab_remote_addr(mb, b), mb->rkey);
	T_UNTIL(&p, p.cl.nwc == 40);
	CU_ASSERT_EQUAL(rd_iw_test_conn(p.cl.conn).sq_head, 40);
	CU_ASSERT_EQUAL(rd_iw_test_conn(p.cl.conn).sq_read, 40);
}

/* A shared receive queue reserves its room in a CQ once, and releases it with its last user. */
static void shared_room(void)
{
	struct t_opts o = {.srq = true};
	T_PAIR(p);
	uint32_t with;

	t_pair_connect(&p, &o);
	with = rd_iw_test_cq_reserved(p.sv.cq);
	CU_ASSERT_EQUAL(with, 64 + 64);
	for (int i = 0; i < 5; i++) {
		rd_fab_conn_destroy(&p.sv.conn);
		CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(p.sv.cq), 0);
		rd_fab_conn_destroy(&p.cl.conn);
		p.cl.established = p.sv.established = 0;
		t_pair_start(&p);
		T_UNTIL(&p, p.cl.established && p.sv.established);
		CU_ASSERT_EQUAL(rd_iw_test_cq_reserved(p.sv.cq), with);
	}
}

/* Ten thousand of the deepest queues attach to one CQ; memory is allocated for a part of them only.
 */
static void room_for_many(void)
{
	enum { QUEUES = 10000, DEPTH = 3 * 1024 + 60, READY = 1 << 20 };
	T_PAIR(p);
	struct ibv_wc wc;

	t_pair_connect(&p, NULL);
	for (int i = 0; i < QUEUES; i++)
		CU_ASSERT_EQUAL_FATAL(rd_iw_test_cq_reserve(p.cl.cq, DEPTH), 0);
	CU_ASSERT_EQUAL(rd_iw_test_cq_size(p.cl.cq), READY);
	/* As many completions at one time, and more: none is lost. */
	for (uint32_t i = 0; i < READY + 100; i++)
		rd_iw_test_cq_push(p.cl.cq, p.cl.conn, i);
	for (uint32_t i = 0; i < READY + 100; i++) {
		CU_ASSERT_EQUAL_FATAL(rd_fab_cq_poll(p.cl.cq, 1, &wc), 1);
		CU_ASSERT_EQUAL(wc.wr_id, i);
	}
	CU_ASSERT_EQUAL(rd_fab_cq_poll(p.cl.cq, 1, &wc), 0);
	for (int i = 0; i < QUEUES; i++)
		rd_iw_test_cq_reserve(p.cl.cq, -DEPTH);
}

/*
 * A key is invalidated and its slot is given to other memory while a WRITE to it is in progress:
 * the rest of the WRITE is dropped.
 */
static void key_reused_midway(void)
{
	enum { OTHERS = 62 }; /* all slots but one that exist without a larger table */
	static uint8_t first[4096], second[4096];
	struct rd_fab_mr *mr, *next;
	uint8_t out[5000], ones[4096];
	T_PAIR(p);
	struct t_raw r T_ENDS(t_raw_close);
	uint32_t old;
	size_t n;

	memset(first, 0, sizeof(first));
	memset(second, 0, sizeof(second));
	memset(ones, 1, sizeof(ones));
	t_pair_open(&p, NULL);
	mr = t_reg(&p.sv, first, sizeof(first), T_ACCESS_ALL);
	for (int i = 0; i < OTHERS; i++)
		t_reg(&p.sv, first, 1, 0);
	old = mr->rkey;
	t_raw_open(&r, &p, 0);
	n = t_fpdu_tagged(out, RD_RDMAP_WRITE, old, mr->iova, true, ones, sizeof(ones));
	t_raw_send(&r, out, 16 + 2000);
	T_UNTIL(&p, first[1999] == 1);
	t_dereg(&p.sv, mr);
	next = t_reg(&p.sv, second, sizeof(second), T_ACCESS_ALL);
	CU_ASSERT_EQUAL(next->rkey & 63, old & 63); /* the same slot ... */
	CU_ASSERT_NOT_EQUAL(next->rkey, old);       /* ... and another key */
	t_raw_send(&r, out + 16 + 2000, n - 16 - 2000);
	t_raw_expect_term(&r, RD_TERM_DT_STAG);
	CU_ASSERT_EQUAL(first[2000], 0);
	for (size_t i = 0; i < sizeof(second); i++)
		CU_ASSERT_FATAL(second[i] == 0);
}

/* Both sides send much data through tiny buffers: neither may wait for the other. */
static void backpressure(bool crc)
{
	struct t_opts o = {.client = {.sndbuf = 4096, .rcvbuf = 4096, .crc = crc},
			   .server = {.sndbuf = 4096, .rcvbuf = 4096},
			   .cparam.ird = 16};
	const uint32_t each = 32768, count = 8;
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	t_fill(a, sizeof(a) / 2, 21);
	t_fill(b, sizeof(b) / 2, 22);
	memset(a + sizeof(a) / 2, 0, sizeof(a) / 2);
	memset(b + sizeof(b) / 2, 0, sizeof(b) / 2);
	t_recv(&p.sv, 0, mb, sizeof(b) - 8, 8);
	t_send(&p.cl, 0, ma, 0, 8);
	T_UNTIL(&p, p.sv.nwc == 1);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t to = sizeof(a) / 2 + i * 2 * each;

		/* WRITEs to the peer and READs from the peer, on both sides */
		if (i % 2) {
			t_rdma(&p.cl, IBV_WR_RDMA_WRITE, i, ma, to - sizeof(a) / 2, 2 * each,
			       rd_fab_remote_addr(mb, b + to), mb->rkey);
			t_rdma(&p.sv, IBV_WR_RDMA_WRITE, i, mb, to - sizeof(a) / 2, 2 * each,
			       rd_fab_remote_addr(ma, a + to), ma->rkey);
		} else {
			t_rdma(&p.sv, IBV_WR_RDMA_READ, i, mb, to, 2 * each,
			       rd_fab_remote_addr(ma, a + to - sizeof(a) / 2), ma->rkey);
			t_rdma(&p.cl, IBV_WR_RDMA_READ, i, ma, to, 2 * each,
			       rd_fab_remote_addr(mb, b + to - sizeof(a) / 2), mb->rkey);
		}
	}
	T_UNTIL(&p, p.cl.nwc == 1 + (int)count && p.sv.nwc == 1 + (int)count);
	/* The completion of a WRITE does not show that it was delivered; a READ behind it does. */
	t_rdma(&p.cl, IBV_WR_RDMA_READ, 1, ma, 0, 0, 0, 0);
	t_rdma(&p.sv, IBV_WR_RDMA_READ, 1, mb, 0, 0, 0, 0);
	T_UNTIL(&p, p.cl.nwc == 2 + (int)count && p.sv.nwc == 2 + (int)count);
	CU_ASSERT(all_ok(&p.cl, 0, 2 + (int)count));
	CU_ASSERT(all_ok(&p.sv, 0, 2 + (int)count));
	CU_ASSERT(t_filled(a + sizeof(a) / 2, sizeof(a) / 2, 22));
	CU_ASSERT(t_filled(b + sizeof(b) / 2, sizeof(b) / 2 - 8, 21));
}

static void backpressure_plain(void)
{
	backpressure(false);
}

static void backpressure_crc(void)
{
	backpressure(true);
}

static uint32_t flow_next(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

/* Random WRITEs and READs compared with a model, many in flight. */
static void random_mix(void)
{
	for (int run = 0; run < 4; run++) {
		struct t_opts o = {.client = {.crc = run == 1, .sndbuf = run == 2 ? 4096 : 0},
				   .server.rcvbuf = run == 2 ? 4096 : 0,
				   .cparam.ord = run == 3 ? 1 : 16};
		uint8_t *model = calloc(1, sizeof(b));
		uint32_t x = 77 + (uint32_t)run, pos = 0;
		struct rd_fab_mr *ma, *mb;
		struct t_pair p;
		int posted = 0;

		pair_with_keys(&p, &o, &ma, &mb);
		memset(b, 0, sizeof(b));
		for (int round = 0; round < 60; round++) {
			int want;

			pos = 0;
			for (int i = 0; i < 12; i++) {
				uint32_t len = flow_next(&x) % (flow_next(&x) % 4 ? 5000 : 80000);
				uint32_t off = flow_next(&x) % (uint32_t)(sizeof(b) - len);

				if (pos + len > sizeof(a))
					break;
				if (flow_next(&x) % 2) {
					t_fill(a + pos, len, x);
					memcpy(model + off, a + pos, len);
					t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, ma, pos, len,
					       rd_fab_remote_addr(mb, b + off), mb->rkey);
				} else {
					t_rdma(&p.cl, IBV_WR_RDMA_READ, 2, ma, pos, len,
					       rd_fab_remote_addr(mb, b + off), mb->rkey);
				}
				pos += len;
				posted++;
			}
			t_rdma(&p.cl, IBV_WR_RDMA_READ, 3, ma, 0, 0, 0, 0);
			want = ++posted;
			T_UNTIL(&p, p.cl.nwc == want);
			CU_ASSERT_FATAL(p.cl.nwc == want);
		}
		CU_ASSERT(all_ok(&p.cl, 0, posted));
		CU_ASSERT_EQUAL(memcmp(b, model, sizeof(b)), 0);
		t_pair_close(&p);
		free(model);
	}
}

/* A SEND of @n adjacent SGEs, the first ones shorter. */
static void send_pieces(struct t_end *e, const struct rd_fab_mr *mr, uint32_t pos, uint32_t len,
			uint32_t n, unsigned int flags)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr *bad, wr = {
					 .wr_id = 2,
					 .sg_list = sge,
					 .num_sge = (int)n,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED | flags,
				 };

	for (uint32_t i = 0; i < n; i++) {
		uint32_t part = i + 1 < n ? len / (n - i) / 2 * (1 + i % 2) : len;

		sge[i] = (struct ibv_sge){(uintptr_t)mr->addr + pos, part, mr->lkey};
		pos += part;
		len -= part;
	}
	CU_ASSERT_EQUAL(rd_fab_post_send(e->conn, &wr, &bad), 0);
}

/*
 * Only WRITEs and SENDs, which are framed in runs, through a small socket that takes partial
 * writes: each partial write continues correctly.
 */
static void runs_in_parts(void)
{
	struct t_opts o = {.client.sndbuf = 4096, .server.rcvbuf = 4096};
	static const uint32_t lens[] = {0,   1,   16,   64,   127,  128, 129,
					131, 512, 4096, 4160, 4161, 5001};
	const int rounds = 60, each = 30;
	uint32_t x = 4711, pos = 0, sends = 0;
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	for (int round = 1; round <= rounds; round++) {
		t_fill(a, sizeof(a) / 2, (uint32_t)round);
		memset(b, 0, sizeof(b) / 2);
		for (int i = pos = 0; i < each; i++) {
			uint32_t len = lens[flow_next(&x) % 13];

			if (flow_next(&x) % 3) {
				t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, ma, pos, len,
				       rd_fab_remote_addr(mb, b + pos), mb->rkey);
			} else {
				t_recv(&p.sv, 2, mb, pos, len);
				send_pieces(&p.cl, ma, pos, len, 1 + flow_next(&x) % 16,
					    len <= 256 && flow_next(&x) % 2 ? IBV_SEND_INLINE : 0);
				sends++;
			}
			pos += len;
		}
		T_UNTIL(&p, p.cl.nwc == each && p.sv.nwc == (int)sends);
		/* The last WRITEs have arrived when something behind them has. */
		t_recv(&p.sv, 3, mb, 0, 0);
		t_send(&p.cl, 3, ma, 0, 0);
		sends++;
		T_UNTIL(&p, p.sv.nwc == (int)sends && p.cl.nwc == each + 1);
		CU_ASSERT_FATAL(all_ok(&p.cl, 0, p.cl.nwc) && all_ok(&p.sv, 0, p.sv.nwc));
		CU_ASSERT_FATAL(t_filled(b, pos, (uint32_t)round));
		p.cl.nwc = p.sv.nwc = 0;
		sends = 0;
	}
	/* More system calls than rounds: writes were partial. */
	CU_ASSERT(t_stats(&p.cl)->sendmsg_calls > 4 * (uint64_t)rounds);
}

/* A run of which only a part fits into the copy area: its rest is sent from where it is. */
static void long_run(void)
{
	struct t_opts o = {.depth = 128};
	const int writes = 120;
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);
	uint64_t calls;

	CU_ASSERT_FATAL(writes * RD_IW_RUN_COPY > RD_IW_RUN_ROOM + 8 * RD_IW_RUN_COPY);
	CU_ASSERT_FATAL((size_t)writes * RD_IW_RUN_COPY <= sizeof(a));
	pair_with_keys(&p, &o, &ma, &mb);
	for (uint32_t round = 1; round <= 8; round++) {
		t_fill(a, (size_t)writes * RD_IW_RUN_COPY, round);
		memset(b, 0, sizeof(b));
		t_recv(&p.sv, 3, mb, 0, 0);
		calls = t_stats(&p.cl)->sendmsg_calls;
		for (uint32_t i = 0; i < (uint32_t)writes; i++)
			t_rdma(&p.cl, IBV_WR_RDMA_WRITE, i, ma, i * RD_IW_RUN_COPY, RD_IW_RUN_COPY,
			       rd_fab_remote_addr(mb, b + i * RD_IW_RUN_COPY), mb->rkey);
		t_send(&p.cl, 3, ma, 0, 0);
		T_UNTIL(&p, p.sv.nwc == 1 && p.cl.nwc == writes + 1);
		CU_ASSERT_FATAL(all_ok(&p.cl, 0, p.cl.nwc) && all_ok(&p.sv, 0, p.sv.nwc));
		CU_ASSERT_FATAL(t_filled(b, (size_t)writes * RD_IW_RUN_COPY, round));
		CU_ASSERT(t_stats(&p.cl)->sendmsg_calls - calls <= 8); /* not one each */
		p.cl.nwc = p.sv.nwc = 0;
	}
}

/* A clock that advances by @step whenever it is read. */
struct step_clock {
	uint64_t now;
	uint64_t step;
};

static uint64_t step_clock_now(void *arg)
{
	struct step_clock *c = arg;

	return c->now += c->step;
}

/* @n WRITEs of @len and a SEND, all received. Returns how many immediate acknowledgements were
 * requested. */
static uint64_t acks_of(struct t_pair *p, uint64_t n, uint64_t len, struct rd_fab_mr *ma,
			struct rd_fab_mr *mb)
{
	uint64_t before = t_stats(&p->sv)->quick_acks;
	int sends = p->sv.nwc;

	t_recv(&p->sv, 0, mb, 0, 0);
	for (uint64_t i = 0; i < n; i++)
		t_rdma(&p->cl, IBV_WR_RDMA_WRITE, i, ma, 0, len, rd_fab_remote_addr(mb, b),
		       mb->rkey);
	t_send(&p->cl, n, ma, 0, 0);
	T_UNTIL(p, p->sv.nwc == sends + 1);
	return t_stats(&p->sv)->quick_acks - before;
}

/*
 * Frequent small messages in large segments are acknowledged at once. Large messages, and messages
 * that come rarely, are acknowledged when TCP decides.
 */
static void quick_acks(void)
{
	struct step_clock steps = {.now = 1000 * RD_NSEC_PER_SEC};
	struct rd_clock clock = {step_clock_now, &steps};
	const struct t_opts o = {.clock = &clock};
	const uint64_t large = sizeof(b) / 2;
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	pair_with_keys(&p, &o, &ma, &mb);
	CU_ASSERT_EQUAL(t_stats(&p.sv)->quick_acks, 0);
	steps.step = 10 * RD_NSEC_PER_MSEC;
	CU_ASSERT_EQUAL(acks_of(&p, 60, 4096, ma, mb), 0);
	CU_ASSERT_EQUAL(acks_of(&p, 60, 4096, ma, mb), 0);
	steps.step = 0;
	acks_of(&p, 60, 4096, ma, mb);
	CU_ASSERT(acks_of(&p, 60, 4096, ma, mb) > 0);
	CU_ASSERT(t_stats(&p.sv)->quick_acks <= t_stats(&p.sv)->readv_calls);
	/* The first large one arrives on a connection that had small ones. */
	CU_ASSERT(acks_of(&p, 10, large, ma, mb) <= 1);
	CU_ASSERT_EQUAL(acks_of(&p, 10, large, ma, mb), 0);
	steps.step = RD_NSEC_PER_MSEC; /* closed sockets are drained by a timer */
}

const struct t_case t_flow_cases[] = {
	{"many operations leave in one sendmsg", many_per_sendmsg},
	{"runs of them that the socket takes in parts", runs_in_parts},
	{"a run longer than what is copied of it", long_run},
	{"what is acknowledged at once", quick_acks},
	{"gather and scatter lists", gather_scatter},
	{"inline data is copied when posted", inline_sends},
	{"full queues and malformed requests", post_limits},
	{"posting before the connection", not_connected},
	{"READs beyond the ORD wait in order", ord_stalls},
	{"completions that stand for those before them", coalesced},
	{"READs when the peer takes none", no_ord},
	{"a fence waits for READs", fence},
	{"shared receive queue", shared_receive},
	{"CQ notification and descriptor", notification},
	{"SEND with Invalidate", flow_invalidation},
	{"memory keys", keys},
	{"keys and addresses that peers see are random", keys_and_addresses_are_random},
	{"memory taken back while the peer reads it", revoked_while_read},
	{"memory given to another while the peer writes it", key_reused_midway},
	{"counters wrap around", counters_wrap},
	{"the search for READs keeps up", reads_keep_up},
	{"room for a shared receive queue", shared_room},
	{"room for very many queue pairs", room_for_many},
	{"both sides push through tiny buffers", backpressure_plain},
	{"the same with CRC", backpressure_crc},
	{"random operations against a model", random_mix},
	{NULL},
};
