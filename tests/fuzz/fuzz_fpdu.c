/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer sends after the handshake, through a real connection of the iwarp provider over a
 * socketpair. Keys and addresses are the same in every run, so that inputs can name them.
 *
 * Input: one byte of FUZZ_* flags, then the stream.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/iwarp/internal.h"
#include "fuzz.h"

#define FUZZ_CRC    0x01 /* CRC is on, and put right wherever the stream has whole FPDUs */
#define FUZZ_P2P    0x02
#define FUZZ_BYTES  0x04 /* the stream arrives in pieces of seven bytes */
#define FUZZ_POSTS  0x08 /* we SEND, WRITE and READ meanwhile */
#define FUZZ_REVOKE 0x10 /* the key of the open region is taken back midway */
#define FUZZ_SRQ    0x20

#define BASE        ((uint8_t *)0x200000000000)
#define PAGE        4096u
#define PAGES       9 /* every other one is a wall */
#define RECVS       8
#define RECV_LEN    256u
#define MAX_STREAM  65536u

enum region { OPEN, READ_ONLY, LOCAL, RECV_BUFS, REGIONS };

struct stage {
	struct rd_loop *loop;
	struct rd_fab *fab;
	struct rd_fab_dev *dev;
	struct rd_fab_cq *cq;
	struct rd_fab_srq *srq;
	struct rd_fab_conn *conn;
	struct rd_fab_mr *mr[REGIONS];
	int peer;
	unsigned int posted, completed, srq_left;
	int established, disconnected;
};

static uint8_t *region(enum region r)
{
	return BASE + PAGE * (2 * (size_t)r + 1);
}

static void map_memory(void)
{
	static int mapped;
	void *p;

	if (!mapped) {
		p = mmap(BASE, PAGES * PAGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p != BASE) {
			perror("mmap");
			exit(99);
		}
		for (int r = 0; r < REGIONS; r++)
			FUZZ_CHECK(!mprotect(region(r), PAGE, PROT_READ | PROT_WRITE));
		mapped = 1;
	}
	for (int r = 0; r < REGIONS; r++)
		memset(region(r), 0xa0 + r, PAGE);
}

static void on_event(struct rd_fab_conn *conn, const struct rd_fab_event *ev, void *arg)
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

static void turn(struct stage *s)
{
	uint8_t sink[4096];
	struct ibv_wc wc[16];
	int n;

	FUZZ_CHECK(rd_loop_turn(s->loop, 0) >= 0);
	while (s->peer >= 0 && recv(s->peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
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
	struct rd_iw_fab *fab = rd_iw_fab(s->fab);
	struct rd_iw_req *req = calloc(1, sizeof(*req));
	int fds[2];

	FUZZ_CHECK(req && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
	FUZZ_CHECK(!rd_iw_mailbox_create(fab, &fab->box));
	rd_iw_mailbox_get(fab->box);
	req->base.ops = &rd_iw_ops;
	req->home = fab->box;
	req->fd = fds[0];
	s->peer = fds[1];
	req->mpa = (struct rd_iw_mpa){.enhanced = true,
				      .revision = 2,
				      .crc = flags & FUZZ_CRC,
				      .p2p = flags & FUZZ_P2P,
				      .rtr_write = flags & FUZZ_P2P,
				      .ird = 4,
				      .ord = 4};
	FUZZ_CHECK(!rd_fab_req_adopt(s->fab, &req->base, on_event, s, &s->conn));
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

static void post_one(struct stage *s, enum ibv_wr_opcode op, uint32_t off, uint32_t len)
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

/* The peer's first message, an empty Write: until then nothing of ours may leave. */
static void release(struct stage *s, uint8_t flags)
{
	uint8_t buf[sizeof(struct rd_ddp_tagged) + RD_MPA_CRC_LEN] = {0};
	size_t n = rd_iw_put_tagged(buf, RD_RDMAP_WRITE, true, 0, 0, 0);

	if (flags & FUZZ_CRC)
		rd_iw_crc_put(rd_iw_crc(RD_IW_CRC_SEED, buf, n), buf + n);
	FUZZ_CHECK(send(s->peer, buf, sizeof(buf), MSG_NOSIGNAL) == (ssize_t)sizeof(buf));
	for (int i = 0; i < 2; i++)
		turn(s);
	FUZZ_CHECK(s->established);
}

static void stage_open(struct stage *s, uint8_t flags)
{
	static const int access[REGIONS] = {
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE,
		IBV_ACCESS_LOCAL_WRITE,
	};
	struct rd_loop_opts lo = {.seed = 1};
	struct rd_fab_qp_attr attr = {
		.max_send_wr = 8, .max_recv_wr = RECVS, .max_send_sge = 2, .max_recv_sge = 2};
	struct rd_fab_conn_param param = {.ird = 4, .ord = 4};

	FUZZ_CHECK(!rd_loop_create(&lo, &s->loop));
	FUZZ_CHECK(!rd_fab_iwarp_open(s->loop, NULL, &s->fab));
	s->dev = &rd_iw_fab(s->fab)->dev.base;
	for (int r = 0; r < REGIONS; r++) {
		FUZZ_CHECK(!rd_fab_reg_mr(s->dev, region(r), PAGE, access[r], &s->mr[r]));
		s->mr[r]->iova = (uintptr_t)region(r);
	}
	FUZZ_CHECK(!rd_fab_cq_create(s->dev, 0, NULL, NULL, &s->cq));
	if (flags & FUZZ_SRQ)
		FUZZ_CHECK(!rd_fab_srq_create(s->dev, RECVS, 2, &s->srq));
	adopt(s, flags);
	attr.send_cq = attr.recv_cq = s->cq;
	attr.srq = s->srq;
	FUZZ_CHECK(!rd_fab_qp_create(s->conn, &attr));
	post_recvs(s);
	FUZZ_CHECK(!rd_fab_accept(s->conn, &param));
	if (flags & FUZZ_POSTS) {
		post_one(s, IBV_WR_RDMA_READ, 0, 100);
		post_one(s, IBV_WR_SEND, 100, 20);
		post_one(s, IBV_WR_RDMA_READ, 200, 1000);
		post_one(s, IBV_WR_RDMA_WRITE, 1200, 30);
		post_one(s, IBV_WR_RDMA_READ, 1300, 0);
	}
	turn(s);
	if (flags & FUZZ_POSTS)
		release(s, flags);
}

/* Everything posted ends exactly once; only what was open to the peer has changed. */
static void stage_close(struct stage *s, uint8_t flags)
{
	const uint8_t *local = region(LOCAL);

	close(s->peer);
	s->peer = -1;
	for (int i = 0; i < 100 && !s->disconnected; i++)
		turn(s);
	FUZZ_CHECK(s->disconnected == 1);
	turn(s);
	if (s->srq)
		FUZZ_CHECK(s->completed <= s->posted);
	else
		FUZZ_CHECK(s->completed == s->posted);
	for (size_t i = 0; i < PAGE; i++) {
		FUZZ_CHECK(region(READ_ONLY)[i] == 0xa0 + READ_ONLY);
		if (!(flags & FUZZ_POSTS) || (i >= 100 && i < 200) || i >= 1200)
			FUZZ_CHECK(local[i] == 0xa0 + LOCAL);
		if (i >= RECVS * RECV_LEN)
			FUZZ_CHECK(region(RECV_BUFS)[i] == 0xa0 + RECV_BUFS);
	}
	rd_fab_conn_destroy(&s->conn);
	rd_fab_cq_destroy(&s->cq);
	rd_fab_srq_destroy(&s->srq);
	for (int r = 0; r < REGIONS; r++)
		rd_fab_dereg_mr(&s->mr[r]);
	FUZZ_CHECK(rd_iw_fab(s->fab)->stats.conns == 0);
	rd_fab_close(&s->fab);
	rd_loop_destroy(&s->loop);
}

static void put_crcs(uint8_t *p, size_t n)
{
	while (n >= 2) {
		size_t len = 2 + ((size_t)p[0] << 8 | p[1]);

		len += rd_iw_pad((uint32_t)len);
		if (n < len + RD_MPA_CRC_LEN)
			return;
		rd_iw_crc_put(rd_iw_crc(RD_IW_CRC_SEED, p, len), p + len);
		p += len + RD_MPA_CRC_LEN;
		n -= len + RD_MPA_CRC_LEN;
	}
}

static void feed(struct stage *s, const uint8_t *p, size_t n, size_t piece)
{
	while (n) {
		ssize_t sent = send(s->peer, p, n < piece ? n : piece, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return; /* it has hung up on us */
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
		}
		turn(s);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[MAX_STREAM];
	struct stage s = {.peer = -1};
	uint8_t flags;
	size_t n, half, piece;

	if (size < 1 || size > MAX_STREAM)
		return 0;
	flags = data[0];
	n = size - 1;
	memcpy(stream, data + 1, n);
	if (flags & FUZZ_CRC)
		put_crcs(stream, n);
	map_memory();
	stage_open(&s, flags);
	piece = flags & FUZZ_BYTES ? 7 : MAX_STREAM;
	half = flags & FUZZ_REVOKE ? n / 2 : n;
	feed(&s, stream, half, piece);
	if (flags & FUZZ_REVOKE)
		rd_fab_dereg_mr(&s.mr[OPEN]);
	feed(&s, stream + half, n - half, piece);
	for (int i = 0; i < 3; i++)
		turn(&s);
	stage_close(&s, flags);
	return 0;
}
