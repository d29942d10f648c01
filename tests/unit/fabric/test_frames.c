/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer can do with FPDUs in sequence: messages without an end, and many of them; what is
 * sent to peers in one turn. */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "suites.h"
#include "t_raw.h"

#define MEM   16384u
#define RECV  6000u
#define PEERS 10

/* A server with a shared receive queue, and raw peers. */
struct stage {
	struct t_pair p;
	struct t_raw r[PEERS];
	struct rd_fab_conn *conn[PEERS];
	struct rd_fab_mr *mr;
	uint8_t in[MEM], data[MEM], out[4 * MEM];
	int peers;
};

static struct stage st;

static void more(struct stage *s)
{
	s->p.sv.established = 0;
	t_raw_open(&s->r[s->peers], &s->p, 0);
	s->conn[s->peers++] = s->p.sv.conn;
	s->p.sv.conn = NULL;
}

static struct stage *frames_stage_open(int peers)
{
	struct t_opts o = {.srq = true};

	memset(&st, 0, sizeof(st));
	t_pair_open(&st.p, &o);
	st.mr = t_reg(&st.p.sv, st.in, sizeof(st.in), IBV_ACCESS_LOCAL_WRITE);
	t_fill(st.data, sizeof(st.data), 5);
	while (st.peers < peers)
		more(&st);
	return &st;
}

static void frames_stage_close(struct stage *s)
{
	for (int i = 0; i < s->peers; i++) {
		t_raw_close(&s->r[i]);
		rd_fab_conn_destroy(&s->conn[i]);
	}
	t_pair_close(&s->p);
}

/* A RECV of three SGEs, RECV bytes in all. */
static void hear(struct stage *s, uint64_t id)
{
	struct ibv_sge sge[3] = {{(uintptr_t)s->in, 64, s->mr->lkey},
				 {(uintptr_t)s->in + 64, 1, s->mr->lkey},
				 {(uintptr_t)s->in + 65, RECV - 65, s->mr->lkey}};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = 3}, *bad;

	CU_ASSERT_EQUAL(rd_fab_post_srq_recv(s->p.sv.srq, &wr, &bad), 0);
}

static void settle(struct stage *s)
{
	for (int quiet = 0; quiet < 10;)
		quiet = rd_loop_turn(s->p.loop, RD_NSEC_PER_MSEC) ? 0 : quiet + 1;
	t_turn(&s->p, 0);
}

/* Completion @n is a message of @len bytes from peer @i. */
static void heard(struct stage *s, int n, int i, uint32_t len)
{
	const struct ibv_wc *wc = &s->p.sv.wc[n];

	T_UNTIL(&s->p, s->p.sv.nwc > n);
	CU_ASSERT_EQUAL(s->p.sv.nwc, n + 1);
	CU_ASSERT_EQUAL(wc->status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(wc->qp_num, s->conn[i]->qp_num);
	CU_ASSERT_EQUAL(wc->byte_len, len);
	CU_ASSERT_EQUAL(memcmp(s->in, s->data, len), 0);
	memset(s->in, 0, sizeof(s->in));
}

/* A message of @len bytes in FPDUs of at most @part bytes. */
static size_t in_parts(struct stage *s, uint32_t msn, uint32_t len, uint32_t part)
{
	size_t n = 0;

	for (uint32_t at = 0; at < len; at += part) {
		uint32_t plen = len - at < part ? len - at : part;

		n += t_fpdu_send(s->out + n, msn, at, at + plen == len, s->data + at, plen);
	}
	return n;
}

static void halves_hold_no_recv(void)
{
	struct stage *s = frames_stage_open(PEERS);
	size_t n;

	hear(s, 0);
	for (int i = 1; i < PEERS; i++) {
		uint32_t len = i % 3 ? 64 : 5000;

		n = in_parts(s, 1, len, i % 3 == 1 ? 40 : 4000);
		t_raw_send(&s->r[i], s->out, n - 5);
	}
	settle(s);
	CU_ASSERT_EQUAL(s->p.sv.nwc, 0);
	for (uint32_t msn = 1; msn <= 20; msn++) {
		n = in_parts(s, msn, 64, 64);
		t_raw_send(&s->r[0], s->out, n);
		heard(s, (int)msn - 1, 0, 64);
		hear(s, msn);
	}
	/* Slow messages are received correctly, whenever their rest arrives. */
	for (int i = 1; i < PEERS; i++) {
		uint32_t len = i % 3 ? 64 : 5000;

		n = in_parts(s, 1, len, i % 3 == 1 ? 40 : 4000);
		t_raw_send(&s->r[i], s->out + n - 5, 5);
		heard(s, 19 + i, i, len);
		hear(s, 0);
	}
	frames_stage_close(s);
}

static void cut_anywhere(void)
{
	static const uint32_t lens[] = {0, 1, 63, 64, 65, 66, 100, 3000, RECV}, parts[] = {1000, 7};
	struct stage *s = frames_stage_open(1);
	uint32_t msn = 1;

	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		for (unsigned int k = 0; k < 2; k++) {
			size_t n = lens[i] ? in_parts(s, msn, lens[i], parts[k])
					   : t_fpdu_send(s->out, msn, 0, true, NULL, 0);
			size_t step = n > 2000 ? 997 : 1;

			hear(s, 0);
			for (size_t at = 0; at < n; at += step) {
				t_raw_send(&s->r[0], s->out + at, n - at < step ? n - at : step);
				t_turn(&s->p, 0);
			}
			heard(s, (int)msn - 1, 0, lens[i]);
			msn++;
		}
	}
	frames_stage_close(s);
}

/* The message was complete when there was no RECV: the bytes behind it wait with it. */
static void complete_and_waiting(void)
{
	struct stage *s = frames_stage_open(2);
	size_t n = in_parts(s, 1, 3000, 700);
	uint8_t other[64];

	n += t_fpdu_send(s->out + n, 2, 0, true, s->data, 70);
	hear(s, 0); /* messages may be as long as this one */
	t_raw_send(&s->r[1], other, t_fpdu_send(other, 1, 0, true, s->data, 10));
	heard(s, 0, 1, 10);
	t_raw_send(&s->r[0], s->out, 2000);
	settle(s);
	t_raw_send(&s->r[0], s->out + 2000, n - 2000);
	settle(s);
	CU_ASSERT_EQUAL(s->p.sv.nwc, 1);
	CU_ASSERT_TRUE(s->conn[0]->waits);
	hear(s, 1);
	heard(s, 1, 0, 3000);
	hear(s, 2);
	heard(s, 2, 0, 70);
	CU_ASSERT_FALSE(s->conn[0]->waits);
	/* The connection may also end there. */
	n = in_parts(s, 3, 3000, 700);
	t_raw_send(&s->r[0], s->out, n - 1);
	settle(s);
	t_raw_send(&s->r[0], s->out + n - 1, 1);
	settle(s);
	CU_ASSERT_TRUE(s->conn[0]->waits);
	rd_fab_conn_destroy(&s->conn[0]);
	hear(s, 3);
	settle(s);
	CU_ASSERT_EQUAL(s->p.sv.nwc, 3);
	frames_stage_close(s);
}

/* No RECV is used up if none could hold the message. */
static void longer_than_any_recv(void)
{
	struct stage *s = frames_stage_open(2);
	size_t n = in_parts(s, 1, RECV + 1, 700);

	hear(s, 0);
	t_raw_send(&s->r[0], s->out, n);
	T_UNTIL(&s->p, s->p.sv.disconnected == 1);
	t_raw_expect_term(&s->r[0], RD_TERM_DU_TOO_LONG);
	CU_ASSERT_EQUAL(s->p.sv.nwc, 0);
	t_raw_send(&s->r[1], s->out, in_parts(s, 1, 100, 100));
	heard(s, 0, 1, 100);
	frames_stage_close(s);
}

/* ---- many ---- */

enum blank { WRITES, READS, SENDS, BLANKS };

static void send_blanks(struct stage *s, enum blank kind, uint32_t msn, int count)
{
	static uint32_t read_msn;
	uint8_t answer[20];

	for (int i = 0; i < count; i++) {
		size_t n = kind == WRITES
				   ? t_fpdu_tagged(s->out, RD_RDMAP_WRITE, 0xdead, 7, true, NULL, 0)
				   : t_fpdu_send(s->out, msn, 0, false, NULL, 0);

		if (msn == 1 && i == 0)
			read_msn = 0;
		if (kind == READS)
			n = t_fpdu_read(s->out, ++read_msn, 0xdead, 7, 0);
		t_raw_send(&s->r[0], s->out, n);
		if (kind == READS)
			CU_ASSERT(t_raw_recv(&s->r[0], answer, sizeof(answer)));
	}
}

static void blanks_end_it(void)
{
	for (enum blank kind = WRITES; kind < BLANKS; kind++) {
		struct stage *s = frames_stage_open(1);

		hear(s, 0);
		for (uint32_t msn = 1; msn <= 3; msn++) {
			send_blanks(s, kind, msn, 256);
			settle(s);
			CU_ASSERT_EQUAL(s->p.sv.disconnected, 0);
			t_raw_send(&s->r[0], s->out, in_parts(s, msn, 8, 8));
			heard(s, (int)msn - 1, 0, 8);
			hear(s, 0);
		}
		send_blanks(s, kind, 4, 256);
		send_blanks(s, kind == READS ? WRITES : kind, 4, 1);
		T_UNTIL(&s->p, s->p.sv.disconnected == 1);
		CU_ASSERT_EQUAL(s->p.sv.status, -EPROTO);
		frames_stage_close(s);
	}
}

/* A peer that sends as fast as it can gets 256 FPDUs for each turn, apart from those that were read
 * before their length was known. */
static void frames_are_shared_out(void)
{
	enum { TURNS = 400, FIRST = 8192, USUAL = 256, LEN = 5888 };
	struct stage *s = frames_stage_open(1);
	struct rd_iw_stats *stats = t_stats(&s->p.sv);
	uint32_t msn = 0;
	size_t n = 0, at = 0;

	for (int turn = 0; turn < TURNS; turn++) {
		ssize_t sent = 1;

		while (sent > 0) {
			if (at == n) {
				/* As many messages as there are RECVs. */
				if (stats->fpdus_rx / (LEN / 256) + 50 < msn)
					break;
				n = in_parts(s, ++msn, LEN, 256);
				at = 0;
				hear(s, 0);
			}
			sent = send(s->r[0].fd, s->out + at, n - at, MSG_NOSIGNAL);
			at += sent > 0 ? (size_t)sent : 0;
		}
		s->p.sv.nwc = 0;
		t_turn(&s->p, 0);
		CU_ASSERT_TRUE(stats->fpdus_rx <= FIRST + (uint64_t)turn * USUAL);
	}
	CU_ASSERT_TRUE(stats->fpdus_rx >= TURNS * USUAL / 2);
	CU_ASSERT_EQUAL(s->p.sv.disconnected, 0);
	frames_stage_close(s);
}

/* Sends messages of 64 bytes in FPDUs of one until the socket is full; @msn, @at: where it is. */
static void fill_in_pieces(struct stage *s, int i, uint32_t *msn, size_t *at)
{
	size_t n = in_parts(s, *msn, 64, 1);
	ssize_t sent;

	while ((sent = send(s->r[i].fd, s->out + *at, n - *at, MSG_NOSIGNAL)) > 0) {
		*at += (size_t)sent;
		if (*at < n)
			continue;
		*at = 0;
		n = in_parts(s, ++*msn, 64, 1);
	}
}

/* Adds the messages of each peer to @count, and posts their RECVs again. */
static void count_messages(struct stage *s, unsigned int count[PEERS])
{
	for (int k = 0; k < s->p.sv.nwc; k++) {
		CU_ASSERT_EQUAL(s->p.sv.wc[k].status, IBV_WC_SUCCESS);
		for (int i = 0; i < s->peers; i++)
			if (s->conn[i]->qp_num == s->p.sv.wc[k].qp_num)
				count[i]++;
		hear(s, 0);
	}
	s->p.sv.nwc = 0;
}

/* Connections whose messages come in small pieces get 64 FPDUs in a turn, all together, and each
 * of them its part of that; one whose messages are whole is read in each turn. */
static void small_pieces_share_a_turn(void)
{
	enum { SLOW = PEERS - 1, TURNS = 2000, FIRST = 4096 / 24 };
	unsigned int count[PEERS] = {0}, pieces = 0, least = UINT32_MAX, most = 0;
	struct stage *s = frames_stage_open(PEERS);
	uint32_t msn[PEERS], whole = 0;
	size_t at[PEERS] = {0};

	for (int i = 0; i < PEERS; i++)
		msn[i] = 1;
	for (int i = 0; i < 50; i++)
		hear(s, 0);
	for (int turn = 0; turn < TURNS; turn++) {
		for (int i = 0; i < SLOW; i++)
			fill_in_pieces(s, i, &msn[i], &at[i]);
		t_raw_send(&s->r[SLOW], s->out, in_parts(s, ++whole, 64, 64));
		t_turn(&s->p, 0);
		count_messages(s, count);
		CU_ASSERT_EQUAL(count[SLOW], whole);
	}
	for (int i = 0; i < SLOW; i++) {
		pieces += 64 * count[i];
		least = count[i] < least ? count[i] : least;
		most = count[i] > most ? count[i] : most;
	}
	CU_ASSERT_TRUE(pieces <= SLOW * FIRST + TURNS * 64);
	CU_ASSERT_TRUE(pieces >= TURNS * 64 / 4);
	CU_ASSERT_TRUE(most < 2 * least);
	frames_stage_close(s);
}

/* All bytes that the socket of @conn has taken so far. */
static uint64_t taken(struct rd_fab_conn *conn)
{
	int fd = rd_iw_test_conn(conn).fd, queued = 0;
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	CU_ASSERT_EQUAL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	CU_ASSERT_EQUAL(ioctl(fd, SIOCOUTQ, &queued), 0);
	return info.tcpi_bytes_acked + (uint64_t)queued;
}

static void frames_read_all(const struct stage *s)
{
	static uint8_t bytes[1 << 20];

	for (int i = 0; i < s->peers; i++)
		while (recv(s->r[i].fd, bytes, sizeof(bytes), 0) > 0)
			;
}

/* Two peers that read fast: in each turn each of them is sent 1 MiB and the end of an FPDU, at
 * most. */
static void sends_are_shared_out(void)
{
	enum { EACH = 6, LEN = 1 << 20, TURN = (1 << 20) + (1 << 16) };
	static uint8_t big[LEN];
	struct stage *s = frames_stage_open(2);
	struct rd_fab_mr *mr = t_reg(&s->p.sv, big, sizeof(big), IBV_ACCESS_LOCAL_WRITE);
	uint64_t before[2], most = 0, end = t_now() + T_WAIT;

	for (int i = 0; i < 2; i++) {
		/* A target says nothing before the first FPDU of its peer. */
		t_raw_send(&s->r[i], s->out,
			   t_fpdu_tagged(s->out, RD_RDMAP_WRITE, 0, 0, true, NULL, 0));
		s->p.sv.conn = s->conn[i];
		for (uint64_t n = 0; n < EACH; n++)
			CU_ASSERT_EQUAL(t_rdma(&s->p.sv, IBV_WR_RDMA_WRITE, n, mr, 0, LEN, 0, 1),
					0);
		s->p.sv.conn = NULL;
	}
	while (s->p.sv.nwc < 2 * EACH && t_now() < end) {
		for (int i = 0; i < 2; i++)
			before[i] = taken(s->conn[i]);
		t_turn(&s->p, RD_NSEC_PER_MSEC);
		for (int i = 0; i < 2; i++) {
			uint64_t now = taken(s->conn[i]) - before[i];

			most = now > most ? now : most;
		}
		frames_read_all(s);
	}
	CU_ASSERT_EQUAL(s->p.sv.nwc, 2 * EACH);
	CU_ASSERT_TRUE(most > TURN / 8);
	CU_ASSERT_TRUE(most <= TURN);
	frames_stage_close(s);
}

const struct t_case t_frames_cases[] = {
	{"messages that are not complete hold no shared RECV", halves_hold_no_recv},
	{"a message may be cut anywhere", cut_anywhere},
	{"a message that is complete waits for a RECV", complete_and_waiting},
	{"a message longer than any RECV takes none", longer_than_any_recv},
	{"FPDUs without payload are limited between messages", blanks_end_it},
	{"a connection has its part of a turn", frames_are_shared_out},
	{"what is sent is shared out over the turns", sends_are_shared_out},
	{"messages in small pieces share one part of a turn", small_pieces_share_a_turn},
	{NULL},
};
