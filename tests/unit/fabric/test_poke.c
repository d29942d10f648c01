/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs provider on siw: empty WRITEs and READs while the peer's first message is missing. */
#include <string.h>

#include "fabric/iwarp/wire.h"
#include "fabric/verbs/testing.h"
#include "suites.h"
#include "t_raw.h"

/* An empty FPDU: its length field and its CRC field. */
#define READ_LEN  52
#define WRITE_LEN 20

static uint8_t mem[65536];

static uint64_t count_pokes(const struct t_end *e)
{
	return rd_vb_test_stats(e->fab)->hidden;
}

static bool poke_armed(const struct t_end *e)
{
	return rd_vb_test_conn(e->conn).poke_armed;
}

/* Until @e has poked @n times and all pokes have completed. */
static void wait_pokes(struct t_pair *p, const struct t_end *e, uint64_t n)
{
	T_UNTIL(p, count_pokes(e) >= n && !rd_vb_test_conn(e->conn).hidden_out);
}

static void nothing_seen(const struct t_end *e)
{
	CU_ASSERT_EQUAL(e->nwc, 0);
	CU_ASSERT_EQUAL(e->established, 1);
	CU_ASSERT_EQUAL(e->disconnected + e->failed + e->rejected, 0);
}

/* While no message has arrived, siw is poked by both sides and no user sees it. The first message
 * ends the pokes. */
static void pokes_unseen(bool srq)
{
	struct t_opts o = {.srq = srq};
	struct rd_fab_mr *ma, *mb;
	uint64_t cl, sv, end;
	T_PAIR(p);

	t_pair_connect(&p, &o);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	CU_ASSERT_EQUAL(poke_armed(&p.cl), rd_vb_test_is_siw(p.cl.dev));
	CU_ASSERT_EQUAL(poke_armed(&p.sv), rd_vb_test_is_siw(p.sv.dev));
	if (rd_vb_test_is_siw(p.cl.dev)) {
		wait_pokes(&p, &p.cl, 3);
		wait_pokes(&p, &p.sv, 1);
	}
	nothing_seen(&p.cl);
	nothing_seen(&p.sv);
	t_recv(&p.cl, 1, ma, 0, 64);
	t_recv(&p.sv, 2, mb, 0, 64);
	t_send(&p.cl, 3, ma, 0, 8);
	T_UNTIL(&p, p.sv.nwc == 1 && p.cl.nwc == 1);
	CU_ASSERT(!poke_armed(&p.sv));
	t_send(&p.sv, 4, mb, 0, 8);
	T_UNTIL(&p, p.sv.nwc == 2 && p.cl.nwc == 2);
	CU_ASSERT(!poke_armed(&p.cl));
	cl = count_pokes(&p.cl);
	sv = count_pokes(&p.sv);
	for (end = t_now() + 500 * RD_NSEC_PER_MSEC; t_now() < end;)
		t_turn(&p, T_NAP);
	CU_ASSERT(count_pokes(&p.cl) == cl && count_pokes(&p.sv) == sv);
	CU_ASSERT(p.cl.nwc == 2 && p.sv.nwc == 2);
}

static void pokes_are_not_seen(void)
{
	pokes_unseen(false);
	pokes_unseen(true);
}

/* A poke takes no place of the user's in the send queue, and no completion among the user's. */
static void poke_has_a_place(void)
{
	struct rd_fab_mr *ma, *mb;
	struct t_pair p;

	t_pair_connect(&p, NULL);
	if (!rd_vb_test_is_siw(p.sv.dev)) {
		t_pair_close(&p);
		return;
	}
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	for (int round = 0; round < 3; round++) {
		p.sv.nwc = 0;
		rd_vb_test_post_hidden(p.sv.conn, IBV_WR_RDMA_READ);
		CU_ASSERT(rd_vb_test_conn(p.sv.conn).hidden_out);
		for (uint64_t i = 0; i < 64; i++)
			CU_ASSERT_EQUAL(t_rdma(&p.sv, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
					       i, mb, 0, 16, rd_fab_remote_addr(ma, mem), ma->rkey),
					0);
		CU_ASSERT_EQUAL(t_send(&p.sv, 64, mb, 0, 4), -ENOMEM);
		T_UNTIL(&p, p.sv.nwc == 64 && !rd_vb_test_conn(p.sv.conn).hidden_out);
		for (int i = 0; i < p.sv.nwc; i++) {
			CU_ASSERT_EQUAL(p.sv.wc[i].wr_id, (uint64_t)i);
			CU_ASSERT_EQUAL(p.sv.wc[i].status, IBV_WC_SUCCESS);
		}
		CU_ASSERT_EQUAL(rd_vb_test_conn(p.sv.conn).sends, 0);
	}
	t_pair_close(&p);
}

/* The connection ends while a poke is in flight: the end does not wait for it, and no user sees it.
 */
static void end_with_poke(int who)
{
	struct t_end *ends[2];
	struct t_pair p;

	t_pair_connect(&p, NULL);
	ends[0] = &p.cl;
	ends[1] = &p.sv;
	for (int i = 0; i < 2; i++)
		rd_vb_test_post_hidden(ends[i]->conn, i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
	if (who == 2) { /* both at once */
		t_pair_close(&p);
		return;
	}
	rd_fab_disconnect(ends[who]->conn);
	CU_ASSERT(rd_vb_test_conn(ends[who]->conn).closed);
	CU_ASSERT(!poke_armed(ends[who]));
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	CU_ASSERT(!poke_armed(ends[!who]));
	CU_ASSERT_EQUAL(p.cl.nwc, 0);
	CU_ASSERT_EQUAL(p.sv.nwc, 0);
	CU_ASSERT_EQUAL(ends[who]->status, 0);
	t_pair_close(&p);
}

static void ends_with_poke(void)
{
	for (int who = 0; who < 3; who++)
		end_with_poke(who);
}

/* Without a READ depth the passive side cannot poke. */
static void no_depth_no_poke(void)
{
	struct t_opts o = {.cparam = {.ird = 4, .ord = 1}, .sparam = {.ird = 1, .ord = 0xffff}};
	T_PAIR(p);

	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(p.sv.conn->ord, 0);
	CU_ASSERT(!poke_armed(&p.sv));
}

/* ---- what goes over the wire ---- */

/* A SEND that arrives after siw has read the request and before it accepts: siw does not process
 * it. */
static void lost_message(void)
{
	struct t_opts o = {.manual = true};
	uint8_t buf[128], rep[24];
	struct rd_fab_mr *mb;
	struct t_pair p;
	struct t_raw r;

	t_pair_open(&p, &o);
	if (!rd_vb_test_is_siw(p.sv.dev)) {
		t_pair_close(&p);
		return;
	}
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	t_raw_connect(&r, &p);
	t_raw_hex(&r, "4d504120494420526571204672616d65 10 02 0004 0080 0080");
	T_UNTIL(&p, p.req);
	CU_ASSERT_FATAL(p.req != NULL);
	t_raw_send(&r, buf, t_fpdu_send(buf, 1, 0, true, "request", 8));
	t_adopt(&p, p.req);
	t_recv(&p.sv, 7, mb, 0, 64);
	CU_ASSERT(t_raw_recv(&r, rep, sizeof(rep)));
	CU_ASSERT_EQUAL(memcmp(rep, RD_MPA_KEY_REP, 16), 0);
	/* An empty READ while the message is still missing; its answer makes siw process the
	 * message. */
	CU_ASSERT(t_raw_recv(&r, buf, READ_LEN));
	CU_ASSERT(buf[1] == READ_LEN - 6 && (buf[3] & 0xf) == RD_RDMAP_READ_REQ);
	CU_ASSERT_EQUAL(memcmp(buf + 32, "\0\0\0\0", 4), 0);
	CU_ASSERT_EQUAL(p.sv.nwc, 0);
	t_raw_send(&r, buf, t_fpdu_tagged(buf, RD_RDMAP_READ_RESP, 0, 0, true, NULL, 0));
	T_UNTIL(&p, p.sv.nwc == 1);
	CU_ASSERT(p.sv.wc[0].wr_id == 7 && p.sv.wc[0].status == IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(p.sv.wc[0].byte_len, 8);
	CU_ASSERT(!poke_armed(&p.sv));
	CU_ASSERT(t_raw_quiet(&r, 600 * RD_NSEC_PER_MSEC));
	CU_ASSERT_EQUAL(p.sv.nwc, 1);
	t_raw_close(&r);
	T_UNTIL(&p, p.sv.disconnected);
	t_pair_close(&p);
}

/* A host may get our reply late, together with bytes behind it that are not for siw. */
static void reply_stays_alone(void)
{
	uint8_t buf[64], rep[24];
	struct t_pair p;
	struct t_raw r;
	uint64_t start;

	t_pair_open(&p, NULL);
	if (!rd_vb_test_is_siw(p.sv.dev)) {
		t_pair_close(&p);
		return;
	}
	t_raw_connect(&r, &p);
	start = t_now();
	t_raw_hex(&r, "4d504120494420526571204672616d65 10 02 0004 0080 0080");
	CU_ASSERT(t_raw_recv(&r, rep, sizeof(rep)));
	CU_ASSERT(t_raw_recv(&r, buf, READ_LEN));
	CU_ASSERT(t_now() - start >= 900 * RD_NSEC_PER_MSEC);
	t_raw_close(&r);
	t_pair_close(&p);
}

/* Empty WRITEs are sent to a silent peer until it sends. */
static void silent_target(void)
{
	struct rd_fab_mr *ma;
	struct t_pair p;
	uint8_t buf[128], req[24];
	struct t_raw r;

	t_pair_open(&p, NULL);
	if (!rd_vb_test_is_siw(p.cl.dev)) {
		t_pair_close(&p);
		return;
	}
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	t_raw_serve(&r, &p);
	CU_ASSERT_FATAL(t_raw_recv(&r, req, sizeof(req)));
	t_raw_hex(&r, "4d504120494420526570204672616d65 10 02 0004 0080 0080");
	T_UNTIL(&p, p.cl.established);
	t_recv(&p.cl, 9, ma, 0, 64);
	for (int i = 0; i < 3; i++) {
		CU_ASSERT(t_raw_recv(&r, buf, WRITE_LEN));
		CU_ASSERT(buf[1] == WRITE_LEN - 6 && (buf[3] & 0xf) == RD_RDMAP_WRITE);
	}
	nothing_seen(&p.cl);
	t_raw_send(&r, buf, t_fpdu_send(buf, 1, 0, true, "answer", 7));
	T_UNTIL(&p, p.cl.nwc == 1);
	CU_ASSERT_EQUAL(p.cl.wc[0].wr_id, 9);
	CU_ASSERT(!poke_armed(&p.cl));
	CU_ASSERT(t_raw_quiet(&r, 600 * RD_NSEC_PER_MSEC));
	t_raw_close(&r);
	T_UNTIL(&p, p.cl.disconnected);
	t_pair_close(&p);
}

const struct t_case t_poke_cases[] = {
	{"nobody speaks, and nobody sees the pokes", pokes_are_not_seen},
	{"a poke takes no place of the user's", poke_has_a_place},
	{"an end with a poke on its way", ends_with_poke},
	{"no READ depth, no poke", no_depth_no_poke},
	{"a first message that siw overlooked", lost_message},
	{"nothing follows a reply for a while", reply_stays_alone},
	{"a target that says nothing", silent_target},
	{NULL},
};
