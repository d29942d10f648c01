/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that violate the protocol: each gets the right Terminate, and all resources are freed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/iwarp/caps.h"
#include "suites.h"
#include "t_raw.h"

#define MEM 4096

/* The victim: a server with several keys, and a raw peer. */
struct stage {
	struct t_pair p;
	struct t_raw r;
	uint8_t mem[MEM];
	uint8_t out[3 * MEM];
	uint8_t zero[2 * MEM];
	struct rd_fab_mr *all;   /* every access */
	struct rd_fab_mr *local; /* no remote access */
	struct rd_fab_mr *ro;    /* remote READ only */
	struct rd_fab_mr *gone;  /* invalidated by the peer */
	struct rd_fab_mr *reg;   /* the RECV buffers */
	uint8_t rbuf[MEM];
	size_t n; /* bytes in @out */
};

static void stage_open(struct stage *s, const struct t_opts *opts, uint8_t flags)
{
	memset(s, 0, sizeof(*s));
	t_pair_open(&s->p, opts);
	s->all = t_reg(&s->p.sv, s->mem, MEM, T_ACCESS_ALL);
	s->local = t_reg(&s->p.sv, s->mem, MEM, IBV_ACCESS_LOCAL_WRITE);
	s->ro = t_reg(&s->p.sv, s->mem, MEM, IBV_ACCESS_REMOTE_READ);
	s->gone = t_reg(&s->p.sv, s->mem, MEM, T_ACCESS_ALL);
	s->reg = t_reg(&s->p.sv, s->rbuf, MEM, IBV_ACCESS_LOCAL_WRITE);
	rd_iw_test_invalidate(s->p.sv.dev, s->gone->rkey);
	t_raw_open(&s->r, &s->p, flags);
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(t_recv(&s->p.sv, 50 + i, s->reg, 0, 64), 0);
}

static void stage_close(struct stage *s)
{
	t_raw_close(&s->r);
	T_UNTIL(&s->p, s->p.sv.disconnected);
	CU_ASSERT_EQUAL(s->p.sv.disconnected, 1);
	T_UNTIL(&s->p, s->p.sv.nwc == 2);
	t_pair_close(&s->p);
}

#define TO(s, off) ((s)->all->iova + (off))

static void w_tagged(struct stage *s, uint32_t stag, uint64_t to, uint32_t len)
{
	s->n = t_fpdu_tagged(s->out, RD_RDMAP_WRITE, stag, to, true, s->zero, len);
}

static void w_read(struct stage *s, uint32_t stag, uint64_t to, uint32_t len)
{
	s->n = t_fpdu_read(s->out, 1, stag, to, len);
}

static void x_read_msn(struct stage *s)
{
	s->n = t_fpdu_read(s->out, 2, s->all->rkey, TO(s, 0), 8);
}
static void x_read_qn(struct stage *s)
{
	w_read(s, s->all->rkey, TO(s, 0), 8);
	s->out[11] = 0;
}
static void x_read_mo(struct stage *s)
{
	w_read(s, s->all->rkey, TO(s, 0), 8);
	s->out[19] = 4;
}

static void x_send_msn(struct stage *s)
{
	s->n = t_fpdu_send(s->out, 7, 0, true, s->zero, 8);
}
static void x_send_mo(struct stage *s)
{
	s->n = t_fpdu_send(s->out, 1, 4, true, s->zero, 8);
}
static void x_send_qn(struct stage *s)
{
	s->n = t_fpdu_send(s->out, 1, 0, true, s->zero, 8);
	s->out[11] = 1;
}
static void x_send_long(struct stage *s)
{
	s->n = t_fpdu_send(s->out, 1, 0, true, s->zero, 65);
}
static void x_send_long2(struct stage *s)
{
	s->n = t_fpdu_send(s->out, 1, 0, false, s->zero, 60);
	s->n += t_fpdu_send(s->out + s->n, 1, 60, true, s->zero, 5);
}
static void x_send_mo2(struct stage *s)
{
	s->n = t_fpdu_send(s->out, 1, 0, false, s->zero, 32);
	s->n += t_fpdu_send(s->out + s->n, 1, 28, true, s->zero, 4);
}
static void x_no_recv(struct stage *s)
{
	for (uint32_t i = 1; i <= 3; i++)
		s->n += t_fpdu_send(s->out + s->n, i, 0, true, s->zero, 8);
}
static void w_inv(struct stage *s, uint32_t key)
{
	size_t n = rd_iw_put_untagged(s->out, RD_RDMAP_SEND_INV, true, key, 0, 1, 0, 8);

	s->n = t_fpdu(s->out, s->out, n, s->zero, 8, false);
}
static void x_inv_unknown(struct stage *s)
{
	w_inv(s, s->all->rkey ^ 3);
}
static void x_inv_local(struct stage *s)
{
	w_inv(s, s->local->rkey);
}

static void w_ctrl(struct stage *s, uint8_t ddp, uint8_t rdmap, uint16_t len)
{
	s->n = t_fpdu_send(s->out, 1, 0, true, s->zero, 8);
	s->out[0] = (uint8_t)(len >> 8);
	s->out[1] = (uint8_t)len;
	s->out[2] = ddp;
	s->out[3] = rdmap;
}
static void x_response(struct stage *s)
{
	s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, s->all->rkey, TO(s, 0), true, s->zero, 8);
}

#define KEY(member) offsetof(struct stage, member)

static const struct abuse {
	const char *name;
	void (*make)(struct stage *s);
	uint32_t term;
	int status0; /* status of the first RECV; 0: flushed */
	/* Without @make: a frame of @len bytes with these control bytes, or an access of @len
	 * bytes. */
	uint8_t ddp, rdmap;
	enum { FRAME, RDMA_WRITE, RDMA_READ } op;
	size_t mr; /* 0: @flip is the key */
	uint32_t flip, len;
	int at; /* from the beginning of the region */
	bool wrap;
} abuses[] = {
	{"write, wrong key", NULL, RD_TERM_DT_STAG, .op = RDMA_WRITE, .mr = KEY(all), .flip = 1,
	 .len = 8},
	{"write, key 0", NULL, RD_TERM_DT_STAG, .op = RDMA_WRITE, .len = 8},
	{"write, key beyond the table", NULL, RD_TERM_DT_STAG, .op = RDMA_WRITE, .flip = UINT32_MAX,
	 .len = 8},
	{"write, invalidated key", NULL, RD_TERM_DT_STAG, .op = RDMA_WRITE, .mr = KEY(gone),
	 .len = 8},
	{"write, read-only key", NULL, RD_TERM_RP_ACCESS, .op = RDMA_WRITE, .mr = KEY(ro),
	 .len = 8},
	{"write, local key", NULL, RD_TERM_RP_ACCESS, .op = RDMA_WRITE, .mr = KEY(local), .len = 8},
	{"write, one byte before", NULL, RD_TERM_DT_BOUNDS, .op = RDMA_WRITE, .mr = KEY(all),
	 .at = -1, .len = 8},
	{"write, one byte behind", NULL, RD_TERM_DT_BOUNDS, .op = RDMA_WRITE, .mr = KEY(all),
	 .at = MEM - 7, .len = 8},
	{"write, longer than the region", NULL, RD_TERM_DT_BOUNDS, .op = RDMA_WRITE, .mr = KEY(all),
	 .len = MEM + 1},
	{"write, wraps", NULL, RD_TERM_DT_WRAP, .op = RDMA_WRITE, .mr = KEY(all), .wrap = true,
	 .len = 8},
	{"read, wrong key", NULL, RD_TERM_RP_STAG, .op = RDMA_READ, .mr = KEY(all), .flip = 1,
	 .len = 8},
	{"read, invalidated key", NULL, RD_TERM_RP_STAG, .op = RDMA_READ, .mr = KEY(gone),
	 .len = 8},
	{"read, local key", NULL, RD_TERM_RP_ACCESS, .op = RDMA_READ, .mr = KEY(local), .len = 8},
	{"read, one byte behind", NULL, RD_TERM_RP_BOUNDS, .op = RDMA_READ, .mr = KEY(all), .at = 1,
	 .len = MEM},
	{"read, 4 GiB", NULL, RD_TERM_RP_BOUNDS, .op = RDMA_READ, .mr = KEY(all),
	 .len = UINT32_MAX},
	{"read, wraps", NULL, RD_TERM_RP_WRAP, .op = RDMA_READ, .mr = KEY(all), .wrap = true,
	 .len = 8},
	{"read, MSN", x_read_msn, RD_TERM_DU_MSN},
	{"read, QN", x_read_qn, RD_TERM_DU_QN},
	{"read, MO", x_read_mo, RD_TERM_DU_MO},
	{"send, MSN", x_send_msn, RD_TERM_DU_MSN},
	{"send, MO", x_send_mo, RD_TERM_DU_MO},
	{"send, MO of the second segment", x_send_mo2, RD_TERM_DU_MO},
	{"send, QN", x_send_qn, RD_TERM_DU_QN},
	{"send, too long", x_send_long, RD_TERM_DU_TOO_LONG, IBV_WC_LOC_LEN_ERR},
	{"send, too long in two", x_send_long2, RD_TERM_DU_TOO_LONG, IBV_WC_LOC_LEN_ERR},
	{"send, no RECV left", x_no_recv, RD_TERM_DU_NO_BUFFER, -1},
	{"invalidate an unknown key", x_inv_unknown, RD_TERM_RP_CANNOT_INV, IBV_WC_REM_INV_REQ_ERR},
	{"invalidate a local key", x_inv_local, RD_TERM_RP_CANNOT_INV, IBV_WC_REM_INV_REQ_ERR},
	{"opcode 8", NULL, RD_TERM_RO_OPCODE, .ddp = 0x41, .rdmap = 0x48, .len = 26},
	{"opcode 15", NULL, RD_TERM_RO_OPCODE, .ddp = 0xc1, .rdmap = 0x4f, .len = 26},
	{"tagged Send", NULL, RD_TERM_RO_OPCODE, .ddp = 0xc1, .rdmap = 0x43, .len = 26},
	{"DDP version", NULL, RD_TERM_DU_VERSION, .ddp = 0x42, .rdmap = 0x43, .len = 26},
	{"DDP version, tagged", NULL, RD_TERM_DT_VERSION, .ddp = 0xc0, .rdmap = 0x40, .len = 26},
	{"RDMAP version", NULL, RD_TERM_RO_VERSION, .ddp = 0x41, .rdmap = 0x03, .len = 26},
	{"shorter than its header", NULL, RD_TERM_MPA_LENGTH, .ddp = 0x41, .rdmap = 0x43,
	 .len = 17},
	{"length 0", NULL, RD_TERM_MPA_LENGTH, .ddp = 0x41, .rdmap = 0x43, .len = 0},
	{"Read Request with payload", NULL, RD_TERM_DU_TOO_LONG, .ddp = 0x41, .rdmap = 0x41,
	 .len = 60},
	{"response nobody asked for", x_response, RD_TERM_RO_OPCODE},
};

static void make_abuse(struct stage *s, const struct abuse *a)
{
	struct rd_fab_mr *const *mr = (const void *)((const char *)s + a->mr);
	uint32_t key = (a->mr ? (*mr)->rkey : 0) ^ a->flip;
	uint64_t to = a->wrap ? UINT64_MAX - 3 : TO(s, 0) + (uint64_t)(int64_t)a->at;

	if (a->make)
		a->make(s);
	else if (a->op == RDMA_WRITE)
		w_tagged(s, key, to, a->len);
	else if (a->op == RDMA_READ)
		w_read(s, key, to, a->len);
	else
		w_ctrl(s, a->ddp, a->rdmap, (uint16_t)a->len);
}

static void run_abuse(const struct abuse *a, bool bytewise)
{
	struct stage *s = malloc(sizeof(*s));
	unsigned int failed = CU_get_number_of_failures();

	stage_open(s, NULL, 0);
	make_abuse(s, a);
	for (size_t i = 0; bytewise && i < s->n; i++)
		t_raw_send(&s->r, s->out + i, 1);
	if (!bytewise)
		t_raw_send(&s->r, s->out, s->n);
	t_raw_expect_term(&s->r, a->term);
	T_UNTIL(&s->p, s->p.sv.nwc == 2 && s->p.sv.disconnected);
	CU_ASSERT_EQUAL(s->p.sv.status, -EPROTO);
	if (a->status0 >= 0)
		CU_ASSERT_EQUAL(s->p.sv.wc[0].status,
				a->status0 ? (enum ibv_wc_status)a->status0 : IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(s->p.sv.wc[0].wr_id, 50);
	CU_ASSERT_EQUAL(s->p.sv.wc[1].wr_id, 51);
	for (size_t i = 0; i < MEM; i++)
		CU_ASSERT_FATAL(s->mem[i] == 0);
	CU_ASSERT_EQUAL(t_stats(&s->p.sv)->terms_tx, 1);
	stage_close(s);
	free(s);
	if (CU_get_number_of_failures() != failed)
		printf("# ^ %s\n", a->name);
}

static void all_abuse(void)
{
	for (size_t i = 0; i < sizeof(abuses) / sizeof(abuses[0]); i++)
		run_abuse(&abuses[i], false);
}

/* The socket may be closed before the peer has sent the bytes behind the offending header: they are
 * few. */
static void abuse_bytewise(void)
{
	for (size_t i = 0; i < sizeof(abuses) / sizeof(abuses[0]); i++) {
		if (abuses[i].len != MEM + 1)
			run_abuse(&abuses[i], true);
	}
}

static void bad_crc(void)
{
	struct stage *s T_FREE = malloc(sizeof(*s));
	size_t n;

	for (int which = 0; which < 3; which++) {
		stage_open(s, NULL, RD_MPA_F_CRC);
		n = rd_iw_put_untagged(s->out, RD_RDMAP_SEND, true, 0, 0, 1, 0, 10);
		s->n = t_fpdu(s->out, s->out, n, s->zero, 10, true);
		if (which == 0)
			s->out[25] ^= 1; /* payload */
		else if (which == 1)
			s->out[30] ^= 1; /* pad */
		else
			s->out[s->n - 1] ^= 0x80;
		t_raw_send(&s->r, s->out, s->n);
		t_raw_expect_term(&s->r, RD_TERM_MPA_CRC);
		T_UNTIL(&s->p, s->p.sv.nwc == 2);
		CU_ASSERT_EQUAL(s->p.sv.wc[0].status, IBV_WC_WR_FLUSH_ERR);
		stage_close(s);
	}
	/* A correct CRC is accepted; without CRC any value is accepted. */
	stage_open(s, NULL, RD_MPA_F_CRC);
	n = rd_iw_put_untagged(s->out, RD_RDMAP_SEND, true, 0, 0, 1, 0, 10);
	t_raw_send(&s->r, s->out, t_fpdu(s->out, s->out, n, s->zero, 10, true));
	T_UNTIL(&s->p, s->p.sv.nwc == 1);
	CU_ASSERT_EQUAL(s->p.sv.wc[0].status, IBV_WC_SUCCESS);
	stage_close(s);
	stage_open(s, NULL, 0);
	s->n = t_fpdu_send(s->out, 1, 0, true, s->zero, 10);
	s->out[s->n - 2] = 0xee;
	t_raw_send(&s->r, s->out, s->n);
	T_UNTIL(&s->p, s->p.sv.nwc == 1);
	CU_ASSERT_EQUAL(s->p.sv.wc[0].status, IBV_WC_SUCCESS);
	stage_close(s);
}

static void read_overflow(void)
{
	struct t_opts o = {.sparam.ird = 2, .server.sndbuf = 4096};
	struct stage *s T_FREE = malloc(sizeof(*s));

	stage_open(s, &o, 0);
	for (uint32_t i = 1; i <= 3; i++)
		s->n += t_fpdu_read(s->out + s->n, i, s->all->rkey, TO(s, 0), 8);
	t_raw_send(&s->r, s->out, s->n);
	t_raw_expect_term(&s->r, RD_TERM_RO_STREAM);
	stage_close(s);
}

static void good_things(void)
{
	struct stage *s T_FREE = malloc(sizeof(*s));
	uint8_t back[64];

	stage_open(s, NULL, 0);
	/* A zero-length WRITE and READ may have any key; a reserved bit; a SEND with SE. */
	w_tagged(s, 0xdeadbeef, 0, 0);
	t_raw_send(&s->r, s->out, s->n);
	w_read(s, 0xdeadbeef, 0xffffffffffffffff, 0);
	t_raw_send(&s->r, s->out, s->n);
	CU_ASSERT(t_raw_recv(&s->r, back, 20));
	CU_ASSERT_EQUAL(back[2], 0xc1);
	CU_ASSERT_EQUAL(back[3], 0x42);
	CU_ASSERT_EQUAL(back[6], 0x12); /* the sink's fields are echoed */
	CU_ASSERT_EQUAL(back[7], 0x34);
	CU_ASSERT_EQUAL(back[14], 0x10);
	s->n = t_fpdu_send(s->out, 1, 0, true, s->zero, 8);
	s->out[2] |= 0x3c;
	s->out[3] = 0x75; /* opcode 5, reserved bits set */
	t_raw_send(&s->r, s->out, s->n);
	T_UNTIL(&s->p, s->p.sv.nwc == 1);
	CU_ASSERT_EQUAL(s->p.sv.wc[0].status, IBV_WC_SUCCESS);
	CU_ASSERT_EQUAL(s->p.sv.wc[0].byte_len, 8);
	/* Invalidation is reported; afterwards the key is refused. */
	w_inv(s, s->all->rkey);
	s->out[15] = 2;
	t_raw_send(&s->r, s->out, s->n);
	T_UNTIL(&s->p, s->p.sv.nwc == 2);
	CU_ASSERT_EQUAL(s->p.sv.wc[1].wc_flags, IBV_WC_WITH_INV);
	CU_ASSERT_EQUAL(s->p.sv.wc[1].invalidated_rkey, s->all->rkey);
	w_tagged(s, s->all->rkey, TO(s, 0), 8);
	t_raw_send(&s->r, s->out, s->n);
	t_raw_expect_term(&s->r, RD_TERM_DT_STAG);
	stage_close(s);
}

static void interleaved(void)
{
	struct stage *s T_FREE = malloc(sizeof(*s));
	uint8_t data[64];

	stage_open(s, NULL, 0);
	t_fill(data, sizeof(data), 5);
	/* A SEND in three segments, with a WRITE in two segments between them. */
	s->n = t_fpdu_send(s->out, 1, 0, false, data, 20);
	s->n += t_fpdu_tagged(s->out + s->n, RD_RDMAP_WRITE, s->all->rkey, TO(s, 8), false, data,
			      4);
	s->n += t_fpdu_send(s->out + s->n, 1, 20, false, data + 20, 20);
	s->n += t_fpdu_tagged(s->out + s->n, RD_RDMAP_WRITE, s->all->rkey, TO(s, 12), true,
			      data + 4, 5);
	s->n += t_fpdu_send(s->out + s->n, 1, 40, true, data + 40, 24);
	t_raw_send(&s->r, s->out, s->n);
	T_UNTIL(&s->p, s->p.sv.nwc == 1);
	CU_ASSERT_EQUAL(s->p.sv.wc[0].byte_len, 64);
	CU_ASSERT(t_filled(s->rbuf, 64, 5));
	CU_ASSERT(t_filled(s->mem + 8, 9, 5));
	CU_ASSERT_EQUAL(s->mem[17], 0);
	stage_close(s);
}

static void term_received(const char *control, const char *text)
{
	struct stage *s T_FREE = malloc(sizeof(*s));
	uint8_t payload[4];
	size_t n;

	stage_open(s, NULL, 0);
	t_unhex(control, payload);
	n = rd_iw_put_untagged(s->out, RD_RDMAP_TERMINATE, true, 0, 2, 1, 0, 4);
	t_raw_send(&s->r, s->out, t_fpdu(s->out, s->out, n, payload, 4, false));
	CU_ASSERT(t_raw_eof(&s->r)); /* no answer */
	T_UNTIL(&s->p, s->p.sv.disconnected);
	CU_ASSERT_EQUAL(s->p.sv.status, -ECONNABORTED);
	CU_ASSERT_PTR_NOT_NULL(strstr(s->p.sv.reason, text));
	CU_ASSERT_EQUAL(t_stats(&s->p.sv)->terms_rx, 1);
	stage_close(s);
}

static void terms_received(void)
{
	term_received("11000300", "invalid key"); /* in siw's byte order */
	term_received("1203c000", "message sequence number");
	term_received("02020000", "CRC");
	term_received("ffffffff", "unknown");
}

static void fragments(void)
{
	struct stage *s T_FREE = malloc(sizeof(*s));
	uint32_t seed = 12345;
	uint8_t *stream T_FREE = malloc(1 << 16), *at = stream, data[60];

	for (int run = 0; run < 3; run++) {
		struct t_opts o = {.depth = 256};
		size_t len, pos = 0;
		bool crc = run == 1;
		size_t n;

		stage_open(s, &o, crc ? RD_MPA_F_CRC : 0);
		at = stream;
		for (uint32_t i = 1; i <= 200; i++) {
			uint32_t plen = i % 61;

			t_fill(data, sizeof(data), i);
			n = rd_iw_put_untagged(at, RD_RDMAP_SEND, true, 0, 0, i, 0, plen);
			at += t_fpdu(at, at, n, data, plen, crc);
			n = rd_iw_put_tagged(at, RD_RDMAP_WRITE, true, s->all->rkey, TO(s, i * 8),
					     i % 8);
			at += t_fpdu(at, at, n, data, i % 8, crc);
			if (i > 2)
				t_recv(&s->p.sv, i, s->reg, 0, 64);
		}
		len = (size_t)(at - stream);
		while (pos < len) {
			size_t part;

			seed = seed * 1664525 + 1013904223;
			part = run == 2 ? 1 : 1 + (seed >> 16) % ((seed & 7) ? 23 : 900);
			if (part > len - pos)
				part = len - pos;
			t_raw_send(&s->r, stream + pos, part);
			pos += part;
		}
		T_UNTIL(&s->p, s->p.sv.nwc == 200);
		for (uint32_t i = 0; i < 200; i++) {
			CU_ASSERT_EQUAL(s->p.sv.wc[i].status, IBV_WC_SUCCESS);
			CU_ASSERT_EQUAL(s->p.sv.wc[i].byte_len, (i + 1) % 61);
			CU_ASSERT(t_filled(s->mem + 8 * (i + 1), (i + 1) % 8, i + 1));
		}
		CU_ASSERT(t_filled(s->rbuf, 200 % 61, 200));
		s->p.sv.nwc = 2;
		stage_close(s);
	}
}

/* ---- as the active side ---- */

#define REP_OK "4d504120494420526570204672616d65 10 02 0004 0010 0010"

static void client_read(struct stage *s, const char *reply)
{
	uint8_t req[24];

	memset(s, 0, sizeof(*s));
	t_pair_open(&s->p, NULL);
	s->p.opts.client.no_peer_to_peer = true;
	s->all = t_reg(&s->p.cl, s->mem, MEM, IBV_ACCESS_LOCAL_WRITE);
	t_raw_serve(&s->r, &s->p);
	CU_ASSERT_FATAL(t_raw_recv(&s->r, req, 24));
	t_raw_hex(&s->r, reply);
}

/* Build a wrong Read Response in s->out. Returns the code of the Terminate that answers it. */
static uint32_t make_bad_response(struct stage *s, int which)
{
	uint32_t term = RD_TERM_DT_BOUNDS;
	uint32_t stag = s->all->lkey;
	uint64_t to = TO(s, 16);

	switch (which) {
	case 0: /* short */
		s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, stag, to, true, s->zero, 99);
		break;
	case 1: /* long */
		s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, stag, to, true, s->zero, 101);
		break;
	case 2: /* wrong place */
		s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, stag, to + 4, true, s->zero, 96);
		break;
	case 3: /* wrong key */
		s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, stag + 1, to, true, s->zero, 100);
		term = RD_TERM_DT_STAG;
		break;
	case 4: /* a gap before the second segment */
		s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, stag, to, false, s->zero, 40);
		s->n += t_fpdu_tagged(s->out + s->n, RD_RDMAP_READ_RESP, stag, to + 44, true,
				      s->zero, 56);
		break;
	default: /* whole, but not marked as the last */
		s->n = t_fpdu_tagged(s->out, RD_RDMAP_READ_RESP, stag, to, false, s->zero, 100);
		break;
	}
	return term;
}

static void bad_response(int which)
{
	struct stage *s T_FREE = malloc(sizeof(*s));
	uint8_t rtr_and_req[20 + 52], wr[24];
	uint32_t term;

	client_read(s, REP_OK);
	T_UNTIL(&s->p, s->p.cl.established);
	t_rdma(&s->p.cl, IBV_WR_RDMA_READ, 1, s->all, 16, 100, 0x1000, 0x77);
	t_rdma(&s->p.cl, IBV_WR_RDMA_WRITE, 2, s->all, 16, 1, 0x1000, 0x77);
	CU_ASSERT_FATAL(t_raw_recv(&s->r, rtr_and_req, 52));
	CU_ASSERT_FATAL(t_raw_recv(&s->r, wr, sizeof(wr)));
	/* The WRITE has left, but its completion waits for the READ before it. */
	CU_ASSERT_EQUAL(s->p.cl.nwc, 0);
	memset(s->zero, 0x5a, sizeof(s->zero));
	term = make_bad_response(s, which);
	t_raw_send(&s->r, s->out, s->n);
	t_raw_expect_term(&s->r, term);
	T_UNTIL(&s->p, s->p.cl.nwc == 2 && s->p.cl.disconnected == 1);
	CU_ASSERT_EQUAL(s->p.cl.wc[0].wr_id, 1);
	CU_ASSERT_EQUAL(s->p.cl.wc[0].status, IBV_WC_BAD_RESP_ERR);
	CU_ASSERT_EQUAL(s->p.cl.wc[1].status, IBV_WC_WR_FLUSH_ERR);
	/* No byte outside the sink was changed. */
	CU_ASSERT_EQUAL(s->mem[15], 0);
	CU_ASSERT_EQUAL(s->mem[116], 0);
	t_raw_close(&s->r);
	t_pair_close(&s->p);
}

static void bad_responses(void)
{
	for (int i = 0; i < 6; i++)
		bad_response(i);
}

/* ---- connections that are over ---- */

/* Connections that are refused: the number of sockets that are drained is bounded. */
static void drain_limit(void)
{
	enum { COUNT = RD_IW_MAX_DRAINS + 40 };
	struct t_opts o = {.reject = true};
	struct t_raw *r T_FREE = calloc(COUNT, sizeof(*r));
	uint8_t rep[24];
	struct t_pair p T_ENDS(t_pair_close);

	t_pair_open(&p, &o);
	for (int i = 0; i < COUNT; i++) {
		t_raw_connect(&r[i], &p);
		t_raw_hex(&r[i], "4d504120494420526571204672616d65 10 02 0004 00080008");
		CU_ASSERT(t_raw_recv(&r[i], rep, sizeof(rep)));
		CU_ASSERT_EQUAL(rep[16], 0x30);
		CU_ASSERT(t_stats(&p.sv)->drains <= RD_IW_MAX_DRAINS);
	}
	CU_ASSERT_EQUAL(p.requests, COUNT);
	for (int i = 0; i < COUNT; i++)
		t_raw_close(&r[i]);
}

static uint64_t set_clock_now(void *arg)
{
	return *(uint64_t *)arg;
}

/* Sends until the socket has been full for 50 turns, or @most bytes. Returns how many bytes. */
static size_t send_until_full(struct t_raw *r, struct t_pair *p, size_t most)
{
	static const uint8_t zeroes[1 << 16];
	size_t total = 0;

	for (int quiet = 0; quiet < 50 && total < most; quiet++) {
		ssize_t n = send(r->fd, zeroes, sizeof(zeroes), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			total += (size_t)n;
			quiet = 0;
		}
		t_turn(p, 0);
	}
	return total;
}

/* What a peer still sends when its connection is over costs a limited amount of work, whatever the
 * number of the loop's turns. */
static void drain_takes_its_time(void)
{
	enum { MOST = 256 << 20, TICKS = 100, READ = 64 << 10 };
	uint64_t now = 1000 * RD_NSEC_PER_SEC;
	struct rd_clock clock = {set_clock_now, &now};
	struct t_opts o = {.reject = true, .clock = &clock};
	struct t_raw r = {0};
	uint8_t rep[24];
	T_PAIR(p);
	size_t sent;

	t_pair_open(&p, &o);
	t_raw_connect(&r, &p);
	t_raw_hex(&r, "4d504120494420526571204672616d65 10 02 0004 00080008");
	CU_ASSERT(t_raw_recv(&r, rep, sizeof(rep)));
	T_UNTIL(&p, t_stats(&p.sv)->drains == 1);
	CU_ASSERT_TRUE(send_until_full(&r, &p, MOST) < MOST);
	for (int i = 0; i < TICKS; i++) {
		now += RD_NSEC_PER_MSEC;
		t_turn(&p, 0);
	}
	/* What was read makes room; TCP may find some more in the meantime. */
	sent = send_until_full(&r, &p, MOST);
	CU_ASSERT_TRUE(sent > 0);
	CU_ASSERT_TRUE(sent <= TICKS * READ + (4 << 20));
	now += 2 * RD_NSEC_PER_SEC;
	T_UNTIL(&p, t_stats(&p.sv)->drains == 0);
	t_raw_close(&r);
}

const struct t_case t_abuse_cases[] = {
	{"every violation gets its Terminate", all_abuse},
	{"the same, byte by byte", abuse_bytewise},
	{"CRC errors", bad_crc},
	{"more READs than agreed", read_overflow},
	{"what looks odd and is allowed", good_things},
	{"one tagged and one untagged message interleave", interleaved},
	{"Terminates received", terms_received},
	{"a valid stream in arbitrary pieces", fragments},
	{"Read Responses that do not match", bad_responses},
	{"sockets that are drained are bounded", drain_limit},
	{"a socket that is drained costs a limited amount of work", drain_takes_its_time},
	{NULL},
};
