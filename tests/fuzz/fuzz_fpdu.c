/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer sends after the handshake, through a real connection of the iwarp provider over a
 * socketpair. Keys and addresses are the same in every run, so that inputs can name them.
 * The loop, the provider and what is registered with it are made once; an input gets a connection
 * of its own, and what it has changed is put back after it.
 *
 * Input: one byte of FUZZ_* flags, then the stream.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/testing.h"
#include "fuzz.h"

#define FUZZ_CRC    0x01 /* CRC is on; the CRCs of complete FPDUs in the stream are corrected */
#define FUZZ_P2P    0x02
#define FUZZ_BYTES  0x04 /* the stream arrives in pieces */
#define FUZZ_POSTS  0x08 /* we SEND, WRITE and READ meanwhile */
#define FUZZ_REVOKE 0x10 /* the key of the open region is invalidated midway */
#define FUZZ_SRQ    0x20

#define BASE        ((uint8_t *)0x200000000000)
#define PAGE        4096u
#define PAGES       9 /* every other one must stay unchanged */
#define RECVS       8
#define RECV_LEN    256u
#define MAX_STREAM  65536u

enum region { OPEN, READ_ONLY, LOCAL, RECV_BUFS, REGIONS };

struct stage {
	/* for all inputs */
	uint64_t now; /* of the loop's clock: closed sockets are drained by a timer */
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_mr *mr[REGIONS]; /* OPEN: NULL when invalidated */
	struct rd_fab_mr *open;        /* as mr[OPEN], also when invalidated */
	uint32_t keys[REGIONS];

	/* for one input */
	struct rd_fab_srq *srq;
	struct rd_fab_conn *conn;
	int peer;
	uint64_t sent; /* system calls with which we had sent, when the peer received last */
	unsigned int posted, completed, srq_left;
	int established, disconnected;
};

static uint8_t *region(enum region r)
{
	return BASE + PAGE * (2 * (size_t)r + 1);
}

static void map_memory(void)
{
	void *p = mmap(BASE, PAGES * PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p != BASE) {
		perror("mmap");
		exit(99);
	}
	for (int r = 0; r < REGIONS; r++)
		FUZZ_CHECK(!mprotect(region(r), PAGE, PROT_READ | PROT_WRITE));
}

/* The state that stage_reset() restores. (A loop of comparisons is a thousand events for
 * libFuzzer.) */
static bool is_untouched(enum region r, size_t from, size_t to)
{
	const uint8_t *p = region(r);

	return p[from] == 0xa0 + r && memcmp(p + from, p + from + 1, to - from - 1) == 0;
}

static void fuzz_fpdu_on_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
{
	struct stage *s = arg;

	FUZZ_CHECK(ev->reason && !s->disconnected);
	if (ev->type == RD_FAB_EV_ESTABLISHED) {
		FUZZ_CHECK(!s->established++);
	} else {
		FUZZ_CHECK(ev->type == RD_FAB_EV_DISCONNECTED);
		s->disconnected++;
	}
}

static void fuzz_fpdu_turn(struct stage *s)
{
	static uint8_t sink[MAX_STREAM];
	const struct rd_iw_stats *stats = rd_iw_test_stats(s->fab);
	struct ibv_wc wc[16];
	uint64_t sent;
	int n;

	FUZZ_CHECK(rd_loop_turn(s->loop, 0) >= 0);
	sent = stats->sendmsg_calls + stats->terms_tx;
	if (s->peer >= 0 && sent != s->sent)
		(void)recv(s->peer, sink, sizeof(sink), MSG_DONTWAIT);
	s->sent = sent;
	while ((n = rd_fab_cq_poll(s->cq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			FUZZ_CHECK(wc[i].opcode != IBV_WC_RECV || wc[i].byte_len <= RECV_LEN);
		s->completed += (unsigned int)n;
	}
	FUZZ_CHECK(n == 0);
}

/* A request as the listener makes it, on our end of a socketpair. */
static void adopt(struct stage *s, uint8_t flags)
{
	struct rd_iw_mpa mpa = {.enhanced = true,
				.revision = 2,
				.crc = flags & FUZZ_CRC,
				.p2p = flags & FUZZ_P2P,
				.rtr_write = flags & FUZZ_P2P,
				.ird = 4,
				.ord = 4};
	int fds[2];

	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
	s->peer = fds[1];
	FUZZ_CHECK(!rd_iw_test_adopt(s->fab, fds[0], &mpa, fuzz_fpdu_on_event, s, &s->conn));
}

static void post_recvs(struct stage *s)
{
	for (unsigned int i = 0; i < RECVS; i++) {
		uint64_t at = (uintptr_t)region(RECV_BUFS) + i * RECV_LEN;
		struct ibv_sge sge[2] = {{at, 100, s->mr[RECV_BUFS]->lkey},
					 {at + 100, RECV_LEN - 100, s->mr[RECV_BUFS]->lkey}};
		struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = sge, .num_sge = 2};

		if (s->srq)
			FUZZ_CHECK(!rd_fab_post_srq_recv(s->srq, &wr, &bad));
		else
			FUZZ_CHECK(!rd_fab_post_recv(s->conn, &wr, &bad));
	}
	s->posted += RECVS;
}

static void fuzz_fpdu_post_one(struct stage *s, enum ibv_wr_opcode op, uint32_t off, uint32_t len)
{
	uint64_t at = (uintptr_t)region(LOCAL) + off;
	struct ibv_sge sge[2] = {{at, len / 2, s->mr[LOCAL]->lkey},
				 {at + len / 2, len - len / 2, s->mr[LOCAL]->lkey}};
	struct ibv_send_wr *bad, wr = {.sg_list = sge,
				       .num_sge = 2,
				       .opcode = op,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.rdma = {.remote_addr = 0x1000, .rkey = 0x77}};

	FUZZ_CHECK(!rd_fab_post_send(s->conn, &wr, &bad));
	s->posted++;
}

/* The peer's first message, an empty WRITE: nothing of ours may be sent before it. */
static void fuzz_fpdu_release(struct stage *s, uint8_t flags)
{
	uint8_t buf[sizeof(struct rd_ddp_tagged) + RD_MPA_CRC_LEN] = {0};
	size_t n = rd_iw_put_tagged(buf, RD_RDMAP_WRITE, true, 0, 0, 0);

	if (flags & FUZZ_CRC)
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, buf, n), buf + n);
	FUZZ_CHECK(send(s->peer, buf, sizeof(buf), MSG_NOSIGNAL) == (ssize_t)sizeof(buf));
	for (int i = 0; i < 2; i++)
		fuzz_fpdu_turn(s);
	FUZZ_CHECK(s->established);
}

static const int region_access[REGIONS] = {
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	IBV_ACCESS_REMOTE_READ,
	IBV_ACCESS_LOCAL_WRITE,
	IBV_ACCESS_LOCAL_WRITE,
};

static uint64_t stage_now(void *arg)
{
	return ((struct stage *)arg)->now;
}

static void stage_create(struct stage *s)
{
	static struct rd_clock clock = {.now = stage_now};
	struct rd_loop_opts lo = {.seed = 1, .clock = &clock};

	clock.arg = s;
	s->now = RD_NSEC_PER_SEC;
	map_memory();
	FUZZ_CHECK(!rd_loop_create(&lo, &s->loop));
	FUZZ_CHECK(!rd_fab_iwarp_open(s->loop, NULL, &s->fab));
	s->dev = rd_iw_test_dev(s->fab);
	for (int r = 0; r < REGIONS; r++) {
		FUZZ_CHECK(!rd_fab_reg_mr(s->dev, region(r), PAGE, region_access[r], &s->mr[r]));
		s->keys[r] = s->mr[r]->lkey;
	}
	s->open = s->mr[OPEN];
	FUZZ_CHECK(!rd_fab_cq_create(s->dev, 0, NULL, NULL, &s->cq));
}

/* Restores the state of stage_create(): the keys, for which an invalidated region must get its slot
 * of the table again; and peers see the real addresses. */
static void stage_reset(struct stage *s)
{
	if (!s->mr[OPEN]) {
		rd_iw_test_reuse_mr(s->dev, s->open);
		FUZZ_CHECK(!rd_fab_reg_mr(s->dev, region(OPEN), PAGE, region_access[OPEN],
					  &s->mr[OPEN]));
		FUZZ_CHECK(s->mr[OPEN] == s->open);
	}
	for (int r = 0; r < REGIONS; r++) {
		rd_iw_test_name_mr(s->mr[r], s->keys[r], (uintptr_t)region(r));
		memset(region(r), 0xa0 + r, PAGE);
	}
	s->posted = s->completed = s->srq_left = 0;
	s->established = s->disconnected = 0;
}

static void fuzz_fpdu_stage_open(struct stage *s, uint8_t flags)
{
	struct rd_fab_qp_attr attr = {
		.max_send_wr = 8, .max_recv_wr = RECVS, .max_send_sge = 2, .max_recv_sge = 2};
	struct rd_fab_conn_param param = {.ird = 4, .ord = 4};

	stage_reset(s);
	if (flags & FUZZ_SRQ)
		FUZZ_CHECK(!rd_fab_srq_create(s->dev, RECVS, 2, &s->srq));
	adopt(s, flags);
	attr.send_cq = attr.recv_cq = s->cq;
	attr.srq = s->srq;
	FUZZ_CHECK(!rd_fab_qp_create(s->conn, &attr));
	post_recvs(s);
	FUZZ_CHECK(!rd_fab_accept(s->conn, &param));
	if (flags & FUZZ_POSTS) {
		fuzz_fpdu_post_one(s, IBV_WR_RDMA_READ, 0, 100);
		fuzz_fpdu_post_one(s, IBV_WR_SEND, 100, 20);
		fuzz_fpdu_post_one(s, IBV_WR_RDMA_READ, 200, 1000);
		fuzz_fpdu_post_one(s, IBV_WR_RDMA_WRITE, 1200, 30);
		fuzz_fpdu_post_one(s, IBV_WR_RDMA_READ, 1300, 0);
	}
	fuzz_fpdu_turn(s);
	if (flags & FUZZ_POSTS)
		fuzz_fpdu_release(s, flags);
}

/* Each posted work request completes exactly once, and only memory that was open to the peer has
 * changed. */
static void fuzz_fpdu_stage_close(struct stage *s, uint8_t flags)
{
	close(s->peer);
	s->peer = -1;
	for (int i = 0; i < 100 && !s->disconnected; i++)
		fuzz_fpdu_turn(s);
	FUZZ_CHECK(s->disconnected == 1);
	fuzz_fpdu_turn(s);
	if (s->srq)
		FUZZ_CHECK(s->completed <= s->posted);
	else
		FUZZ_CHECK(s->completed == s->posted);
	FUZZ_CHECK(is_untouched(READ_ONLY, 0, PAGE));
	FUZZ_CHECK(is_untouched(RECV_BUFS, RECVS * RECV_LEN, PAGE));
	if (flags & FUZZ_POSTS) {
		FUZZ_CHECK(is_untouched(LOCAL, 100, 200) && is_untouched(LOCAL, 1200, PAGE));
	} else {
		FUZZ_CHECK(is_untouched(LOCAL, 0, PAGE));
	}
	rd_fab_conn_destroy(&s->conn);
	rd_fab_srq_destroy(&s->srq);
	/* The socket is kept until what the peer sent has been read. */
	for (int i = 0; i < 100 && rd_iw_test_stats(s->fab)->drains; i++) {
		s->now += RD_NSEC_PER_MSEC;
		fuzz_fpdu_turn(s);
	}
	FUZZ_CHECK(!rd_iw_test_stats(s->fab)->conns && !rd_iw_test_stats(s->fab)->drains);
}

static void put_crcs(uint8_t *p, size_t n)
{
	while (n >= 2) {
		size_t len = 2 + ((size_t)p[0] << 8 | p[1]);

		len += rd_iw_pad((uint32_t)len);
		if (n < len + RD_MPA_CRC_LEN)
			return;
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, p, len), p + len);
		p += len + RD_MPA_CRC_LEN;
		n -= len + RD_MPA_CRC_LEN;
	}
}

static void feed(struct stage *s, const uint8_t *p, size_t n, size_t piece)
{
	while (n) {
		ssize_t sent = send(s->peer, p, n < piece ? n : piece, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return; /* the connection has ended */
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
		}
		fuzz_fpdu_turn(s);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[MAX_STREAM];
	static struct stage s = {.peer = -1};
	uint8_t flags;
	size_t n, half, piece;

	if (size < 1 || size > MAX_STREAM)
		return 0;
	flags = data[0];
	n = size - 1;
	memcpy(stream, data + 1, n);
	if (flags & FUZZ_CRC)
		put_crcs(stream, n);
	if (!s.loop)
		stage_create(&s);
	fuzz_fpdu_stage_open(&s, flags);
	/* Pieces of seven bytes, which divide every header; sixteen pieces for a long stream,
	 * because of the time. */
	piece = !(flags & FUZZ_BYTES) ? MAX_STREAM : n / 16 < 7 ? 7 : n / 16 + 1;
	half = flags & FUZZ_REVOKE ? n / 2 : n;
	feed(&s, stream, half, piece);
	if (flags & FUZZ_REVOKE)
		rd_fab_dereg_mr(&s.mr[OPEN]);
	feed(&s, stream + half, n - half, piece);
	for (int i = 0; i < 3; i++)
		fuzz_fpdu_turn(&s);
	fuzz_fpdu_stage_close(&s, flags);
	return 0;
}
