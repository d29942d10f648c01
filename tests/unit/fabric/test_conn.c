/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections are established, and every way in which they end. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "suites.h"
#include "t_raw.h"
#include "util/sockaddr.h"

static uint8_t mem[65536];

/* ---- making ---- */

static void private_data(void)
{
	uint8_t pd[251];

	t_fill(pd, sizeof(pd), 1);
	for (size_t n = 0; n <= sizeof(pd); n = n < 4 ? n + 1 : n + 247) {
		struct t_opts o = {.cparam = {.private_data = pd, .private_len = n},
				   .sparam = {.private_data = pd, .private_len = n}};
		struct t_pair p;

		t_pair_connect(&p, &o);
		CU_ASSERT_EQUAL(p.req_pd_len, n);
		CU_ASSERT(t_filled(p.req_pd, n, 1));
		CU_ASSERT_EQUAL(p.cl.pd_len, n);
		CU_ASSERT(t_filled(p.cl.pd, n, 1));
		t_pair_close(&p);
	}
}

static void too_much_private_data(void)
{
	struct rd_fab_conn_param big = {.private_data = mem, .private_len = 252};
	struct t_opts o = {.no_accept = true};
	T_PAIR(p);

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.sv.conn);
	CU_ASSERT_EQUAL(rd_fab_accept(p.sv.conn, &big), -EINVAL); /* no queue pair yet */
	CU_ASSERT_EQUAL(rd_fab_reject(p.sv.conn, mem, 252), -EMSGSIZE);
	CU_ASSERT_EQUAL(rd_fab_connect(p.sv.conn, &big), -EINVAL);
	CU_ASSERT_EQUAL(rd_fab_reject(p.sv.conn, "no", 2), 0);
	T_UNTIL(&p, p.cl.rejected);
	CU_ASSERT_EQUAL(p.cl.pd_len, 2);
	CU_ASSERT_EQUAL(p.sv.disconnected, 0);
}

static void depths(void)
{
	static const struct {
		uint16_t cird, cord, sird, sord;         /* asked for */
		uint16_t e_cird, e_cord, e_sird, e_sord; /* got */
	} t[] = {
		{16, 16, 16, 16, 16, 16, 16, 16}, {128, 0xffff, 0xffff, 200, 128, 0, 1, 128},
		{4, 8, 2, 100, 4, 2, 2, 4},       {300, 300, 300, 300, 128, 128, 128, 128},
		{0xffff, 1, 5, 5, 0, 1, 1, 0},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct t_opts o = {.cparam = {.ird = t[i].cird, .ord = t[i].cord},
				   .sparam = {.ird = t[i].sird, .ord = t[i].sord}};
		struct t_pair p;

		t_pair_connect(&p, &o);
		CU_ASSERT_EQUAL(p.cl.conn->ird, t[i].e_cird);
		CU_ASSERT_EQUAL(p.cl.conn->ord, t[i].e_cord);
		CU_ASSERT_EQUAL(p.sv.conn->ird, t[i].e_sird);
		CU_ASSERT_EQUAL(p.sv.conn->ord, t[i].e_sord);
		t_pair_close(&p);
	}
}

static void revisions(void)
{
	struct t_opts o = {.client.mpa_revision = 1};
	struct t_pair p;

	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(p.seen_ird, 128);
	CU_ASSERT_EQUAL(p.sv.conn->ord, 16); /* as requested: revision 1 negotiates no depths */
	t_pair_close(&p);
	o = (struct t_opts){.client.no_peer_to_peer = true, .client.poke_ns = T_NO_POKES};
	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(t_stats(&p.cl)->fpdus_tx, 0);
	t_pair_close(&p);
	o.client.no_peer_to_peer = false;
	t_pair_connect(&p, &o);
	CU_ASSERT_EQUAL(t_stats(&p.cl)->fpdus_tx, 1); /* the ready-to-receive message */
	CU_ASSERT_EQUAL(t_stats(&p.sv)->fpdus_rx, 1);
	t_pair_close(&p);
}

static void rejected(void)
{
	struct t_opts o = {.reject = true, .reject_pd = "\0\0\6\0", .reject_len = 4};
	T_PAIR(p);

	t_pair_open(&p, &o);
	t_pair_start(&p);
	T_UNTIL(&p, p.cl.rejected);
	CU_ASSERT_EQUAL(p.cl.status, -ECONNREFUSED);
	CU_ASSERT_EQUAL(p.cl.pd_len, 4);
	CU_ASSERT_EQUAL(p.cl.pd[2], 6);
	CU_ASSERT_EQUAL(p.cl.failed + p.cl.established + p.cl.disconnected, 0);
}

static void address_in_use(void)
{
	struct rd_fab_listener *second = NULL;
	T_PAIR(p);

	t_pair_open(&p, NULL);
	CU_ASSERT_EQUAL(
		rd_fab_listen(p.sv.fab, (struct sockaddr *)&p.lis->addr, 1, p.lis->fn, &p, &second),
		-EADDRINUSE);
	CU_ASSERT_PTR_NULL(second);
}

static void bad_congestion(void)
{
	struct rd_fab_iwarp_opts o = {.congestion = "no-such-thing"};
	struct rd_fab *fab = NULL;
	struct rd_loop_opts lo = {0};
	struct rd_loop *loop T_ENDS(rd_loop_destroy) = NULL;

	rd_loop_create(&lo, &loop);
	CU_ASSERT_EQUAL(rd_fab_iwarp_open(loop, &o, &fab), -ENOENT);
	/* qemu's user mode takes the name for an integer, which has another byte order. */
	if (!getenv("RD_TEST_QEMU")) {
		o.congestion = "reno";
		CU_ASSERT_EQUAL(rd_fab_iwarp_open(loop, &o, &fab), 0);
		rd_fab_close(&fab);
	}
}

/* ---- handshakes gone wrong ---- */

static void drops(const char *hex)
{
	struct t_opts o = {.server.request_timeout_ns = 50 * RD_NSEC_PER_MSEC};
	T_PAIR(p);
	struct t_raw r T_ENDS(t_raw_close);

	t_pair_open(&p, &o);
	t_raw_connect(&r, &p);
	t_raw_hex(&r, hex);
	CU_ASSERT(t_raw_eof(&r) || errno == ECONNRESET);
	CU_ASSERT_EQUAL(p.requests, 0);
}

static void bad_requests(void)
{
	drops("");                                                     /* no bytes at all */
	drops("4d504120494420526571204672");                           /* half a frame */
	drops("474554202f20485454502f312e310d0a");                     /* another protocol */
	drops("4d504120494420526570204672616d65 10 02 0004 00000000"); /* a reply instead of a
									  request */
	drops("4d504120494420526571204672616d65 10 03 0004 00000000"); /* revision 3 */
	drops("4d504120494420526571204672616d65 10 02 ffff 00000000"); /* 64 KiB of data */
	drops("4d504120494420526571204672616d65 10 02 0201 00000000"); /* 513 bytes */
	drops("4d504120494420526571204672616d65 10 02 0024 00000000"); /* data missing */
	drops("4d504120494420526571204672616d65 10 02 0003 000000");   /* depths cut off */
}

static void markers(void)
{
	T_PAIR(p);
	uint8_t rep[24];
	struct t_raw r T_ENDS(t_raw_close);

	t_pair_open(&p, NULL);
	t_raw_connect(&r, &p);
	t_raw_hex(&r, "4d504120494420526571204672616d65 90 02 0004 00080008");
	CU_ASSERT(t_raw_recv(&r, rep, 24));
	CU_ASSERT_EQUAL(rep[16], RD_MPA_F_REJECT | RD_MPA_F_ENHANCED);
	CU_ASSERT_EQUAL(rep[17], 2);
	CU_ASSERT_EQUAL(rep[19], 4);
	CU_ASSERT_EQUAL(p.requests, 0);
}

static void trailing(void)
{
	T_PAIR(p);
	struct t_raw r T_ENDS(t_raw_close);

	t_pair_open(&p, NULL);
	t_raw_connect(&r, &p);
	t_raw_hex(&r, "4d504120494420526571204672616d65 10 02 0004 00080008 00");
	CU_ASSERT(t_raw_eof(&r) || errno == ECONNRESET);
	T_UNTIL(&p, p.sv.disconnected);
	CU_ASSERT_EQUAL(p.sv.status, -EPROTO);
	CU_ASSERT_EQUAL(p.sv.established, 0);
}

static void large_request(void)
{
	uint8_t frame[RD_MPA_MAX_LEN] = {0}, rep[24];
	T_PAIR(p);
	struct t_raw r;

	t_pair_open(&p, NULL);
	t_raw_connect(&r, &p);
	t_unhex("4d504120494420526571204672616d65 10 02 0200 00080008", frame);
	t_fill(frame + 24, 508, 3);
	t_raw_send(&r, frame, sizeof(frame));
	CU_ASSERT(t_raw_recv(&r, rep, 24));
	CU_ASSERT_EQUAL(p.req_pd_len, 508);
	CU_ASSERT(t_filled(p.req_pd, 508, 3));
	t_raw_close(&r);
	T_UNTIL(&p, p.sv.disconnected);
}

/* How the initiator handles a reply. */
static void reply(const char *hex, int status, const char *reason, uint32_t term)
{
	struct t_opts o = {.client.reply_timeout_ns = 60 * RD_NSEC_PER_MSEC};
	uint8_t req[24];
	T_PAIR(p);
	struct t_raw r;

	t_pair_open(&p, &o);
	t_raw_serve(&r, &p);
	CU_ASSERT(t_raw_recv(&r, req, 24));
	CU_ASSERT_EQUAL(memcmp(req, RD_MPA_KEY_REQ, 16), 0);
	CU_ASSERT_EQUAL(req[16], 0x10);
	CU_ASSERT_EQUAL(req[20] & 0xc0, 0x80); /* A */
	CU_ASSERT_EQUAL(req[22] & 0xc0, 0xc0); /* C and D */
	if (hex)
		t_raw_hex(&r, hex);
	else
		t_raw_close(&r);
	T_UNTIL(&p, p.cl.failed + p.cl.rejected);
	CU_ASSERT_EQUAL(p.cl.status, status);
	CU_ASSERT_PTR_NOT_NULL(strstr(p.cl.reason, reason));
	if (hex && term)
		t_raw_expect_term(&r, term);
	CU_ASSERT_EQUAL(p.cl.established + p.cl.disconnected, 0);
	t_raw_close(&r);
}

#define REP "4d504120494420526570204672616d65"

static void bad_replies(void)
{
	reply(NULL, -ECONNRESET, "revision 2", 0);
	reply("", -ETIMEDOUT, "reply", 0);
	reply(REP "1002", -ETIMEDOUT, "reply", 0);
	reply("48545450", -EPROTO, "key", RD_TERM_MPA_STARTUP);
	reply(REP "10 03 0004 00000000", -EPROTO, "revision", RD_TERM_MPA_STARTUP);
	reply(REP "90 02 0004 00000000", -EPROTO, "markers", RD_TERM_MPA_STARTUP);
	reply(REP "00 01 0000", -EPROTO, "depths", RD_TERM_MPA_STARTUP);
	reply(REP "10 02 0002 0000", -EPROTO, "depths", RD_TERM_MPA_STARTUP);
	reply(REP "10 02 0004 80048011", -EPROTO, "READs", RD_TERM_MPA_IRD);
	reply(REP "10 02 0004 80040004", -EPROTO, "ready-to-receive", RD_TERM_MPA_RTR);
	reply(REP "10 02 0004 80004004", -EPROTO, "ready-to-receive", RD_TERM_MPA_RTR);
	reply(REP "30 02 0008 00000008 00000200", -ECONNREFUSED, "rejected", 0); /* as siw */
	reply(REP "20 02 0000", -ECONNREFUSED, "rejected", 0);
}

/* The RTR message as negotiated, and no work request together with it. */
static void rtr(void)
{
	uint8_t buf[64];
	struct t_pair p;
	struct t_raw r;
	struct rd_fab_mr *mr;

	t_pair_open(&p, NULL);
	t_raw_serve(&r, &p);
	mr = t_reg(&p.cl, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT(t_raw_recv(&r, buf, 24));
	t_raw_hex(&r, REP "10 02 0004 80048000"); /* C: Write */
	CU_ASSERT(t_raw_recv(&r, buf, 20));
	CU_ASSERT_EQUAL(buf[1], 14);
	CU_ASSERT_EQUAL(buf[3], 0x40);
	T_UNTIL(&p, p.cl.established);
	CU_ASSERT_EQUAL(t_send(&p.cl, 1, mr, 0, 4), 0);
	CU_ASSERT(t_raw_recv(&r, buf, 28));
	CU_ASSERT_EQUAL(buf[3], 0x43);
	CU_ASSERT(t_stats(&p.cl)->sendmsg_calls >= 2);
	t_raw_close(&r);
	T_UNTIL(&p, p.cl.disconnected);
	t_pair_close(&p);

	t_pair_open(&p, NULL);
	t_raw_serve(&r, &p);
	mr = t_reg(&p.cl, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT(t_raw_recv(&r, buf, 24));
	t_raw_hex(&r, REP "10 02 0004 80014000"); /* D: READ, depth 1 */
	CU_ASSERT(t_raw_recv(&r, buf, 52));
	CU_ASSERT_EQUAL(buf[3], 0x41);
	CU_ASSERT_EQUAL(buf[15], 1); /* MSN */
	CU_ASSERT_EQUAL(buf[35], 0); /* size */
	T_UNTIL(&p, p.cl.established);
	/* Its READ uses the only slot, so our READ waits for its response. */
	CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_READ, 1, mr, 0, 4, 8, 9), 0);
	CU_ASSERT(t_raw_quiet(&r, 5 * RD_NSEC_PER_MSEC));
	t_raw_hex(&r, "000ec142 00000000 0000000000000000 00000000");
	CU_ASSERT(t_raw_recv(&r, buf, 52));
	CU_ASSERT_EQUAL(buf[15], 2);
	CU_ASSERT_EQUAL(buf[35], 4);
	CU_ASSERT_EQUAL(p.cl.nwc, 0);
	t_raw_close(&r);
	T_UNTIL(&p, p.cl.disconnected && p.cl.nwc == 1);
	t_pair_close(&p);
}

/* The responder sends nothing before the initiator's first message, even if work is posted. */
static void startup_rule(void)
{
	for (int p2p = 0; p2p < 2; p2p++) {
		struct t_pair p;
		struct rd_fab_mr *mr;
		uint8_t buf[64];
		struct t_raw r;

		t_pair_open(&p, NULL);
		mr = t_reg(&p.sv, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
		t_raw_connect(&r, &p);
		t_raw_hex(&r, p2p ? "4d504120494420526571204672616d65 10 02 0004 8008c008"
				  : "4d504120494420526571204672616d65 10 02 0004 00080008");
		CU_ASSERT(t_raw_recv(&r, buf, 24));
		CU_ASSERT_EQUAL(buf[20] >> 7, p2p);
		CU_ASSERT_EQUAL(buf[22] >> 6, p2p ? 2 : 0);
		CU_ASSERT_EQUAL(t_send(&p.sv, 1, mr, 0, 4), 0);
		CU_ASSERT(t_raw_quiet(&r, 5 * RD_NSEC_PER_MSEC));
		CU_ASSERT_EQUAL(p.sv.established, !p2p);
		t_raw_hex(&r, "000ec140 00000001 0000000000000000 00000000");
		CU_ASSERT(t_raw_recv(&r, buf, 28));
		CU_ASSERT_EQUAL(buf[3], 0x43);
		T_UNTIL(&p, p.sv.established && p.sv.nwc == 1);
		t_raw_close(&r);
		T_UNTIL(&p, p.sv.disconnected);
		t_pair_close(&p);
	}
}

/* A peer-to-peer initiator that never sends a message. */
static void silent_initiator(void)
{
	struct t_opts o = {.server.request_timeout_ns = 30 * RD_NSEC_PER_MSEC};
	uint8_t buf[24];
	T_PAIR(p);
	struct t_raw r T_ENDS(t_raw_close);

	t_pair_open(&p, &o);
	t_raw_connect(&r, &p);
	t_raw_hex(&r, "4d504120494420526571204672616d65 10 02 0004 8008c008");
	CU_ASSERT(t_raw_recv(&r, buf, 24));
	CU_ASSERT(t_raw_eof(&r));
	T_UNTIL(&p, p.sv.disconnected);
	CU_ASSERT_EQUAL(p.sv.status, -ETIMEDOUT);
	CU_ASSERT_EQUAL(p.sv.established, 0);
}

/* A silent peer is poked until it sends. */
static void pokes(void)
{
	struct t_opts o = {.client = {.no_peer_to_peer = true, .poke_ns = RD_NSEC_PER_MSEC}};
	uint8_t buf[64];
	T_PAIR(p);
	struct t_raw r;

	t_pair_open(&p, &o);
	t_raw_serve(&r, &p);
	rd_iw_test_set_poke_ns(p.cl.fab, o.client.poke_ns);
	CU_ASSERT(t_raw_recv(&r, buf, 24));
	t_raw_hex(&r, REP "10 02 0004 00040000");
	for (int i = 0; i < 4; i++) {
		static const uint8_t empty_write[20] = {0, 14, 0xc1, 0x40};

		CU_ASSERT(t_raw_recv(&r, buf, 20));
		CU_ASSERT_EQUAL(memcmp(buf, empty_write, 20), 0);
	}
	CU_ASSERT_EQUAL(p.cl.established, 1);
	/* The peer sends. Pokes that were already sent arrive, and then no further ones. */
	t_raw_hex(&r, "000ec140 00000000 0000000000000000 00000000");
	T_UNTIL(&p, rd_iw_test_conn(p.cl.conn).got_first);
	while (recv(r.fd, buf, sizeof(buf), 0) > 0)
		;
	CU_ASSERT(!rd_iw_test_conn(p.cl.conn).timer_armed);
	CU_ASSERT(t_raw_quiet(&r, 5 * RD_NSEC_PER_MSEC));
	CU_ASSERT_EQUAL(p.cl.disconnected, 0);
	t_raw_close(&r);
	T_UNTIL(&p, p.cl.disconnected);
}

/* A poke that becomes due while an FPDU is partly sent is sent after it, not within it. */
static void poke_waits_its_turn(void)
{
	struct t_opts o = {.client = {.no_peer_to_peer = true, .sndbuf = 16384}};
	uint8_t hdr[16], *sink = malloc(1 << 16);
	size_t payload = 0, empty = 0;
	struct rd_fab_mr *mr;
	struct rd_iw_test_conn c;
	struct t_pair p;
	struct t_raw r;

	t_pair_open(&p, &o);
	t_raw_serve(&r, &p);
	rd_iw_test_set_poke_ns(p.cl.fab, RD_NSEC_PER_MSEC);
	mr = t_reg(&p.cl, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT(t_raw_recv(&r, sink, 24));
	t_raw_hex(&r, REP "10 02 0004 00040000");
	T_UNTIL(&p, p.cl.established);
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, mr, 0, 65000, 8, 9), 0);
	T_UNTIL(&p, (c = rd_iw_test_conn(p.cl.conn), c.tx_blocked && c.tx_part && c.poke_due));
	CU_ASSERT(c.tx_blocked);
	while (payload < 20 * 65000) {
		uint32_t plen;

		CU_ASSERT_FATAL(t_raw_recv(&r, hdr, sizeof(hdr)));
		plen = ((uint32_t)hdr[0] << 8 | hdr[1]) - 14;
		CU_ASSERT_EQUAL_FATAL(hdr[3], 0x40);
		CU_ASSERT_FATAL(plen == 0 || plen == 65000);
		CU_ASSERT_FATAL(t_raw_recv(&r, sink, plen + rd_iw_pad(16 + plen) + 4));
		payload += plen;
		empty += plen == 0;
	}
	CU_ASSERT(empty >= 1);
	t_raw_close(&r);
	T_UNTIL(&p, p.cl.disconnected);
	t_pair_close(&p);
	free(sink);
}

/* A device that ends a connection sends nothing more: what the peer's kernel has not acknowledged
 * is not delivered, and the peer sees a reset. */
static void abandons_what_has_not_arrived(void)
{
	struct t_opts o = {.client = {.no_peer_to_peer = true, .sndbuf = 16384}};
	size_t sent = (size_t)20 * 65000, got = 0;
	uint8_t *sink = malloc(1 << 16);
	struct rd_fab_mr *mr;
	struct t_pair p;
	struct t_raw r;
	ssize_t n;

	t_pair_open(&p, &o);
	t_raw_serve(&r, &p);
	mr = t_reg(&p.cl, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	CU_ASSERT(t_raw_recv(&r, sink, 24));
	t_raw_hex(&r, REP "10 02 0004 00040000");
	T_UNTIL(&p, p.cl.established);
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, mr, 0, 65000, 8, 9), 0);
	T_UNTIL(&p, rd_iw_test_conn(p.cl.conn).tx_blocked);
	rd_fab_disconnect(p.cl.conn);
	T_UNTIL(&p, p.cl.disconnected);
	while ((n = recv(r.fd, sink, 1 << 16, 0)) > 0)
		got += (size_t)n;
	CU_ASSERT(n < 0 && errno == ECONNRESET);
	CU_ASSERT(got < sent);
	t_raw_close(&r);
	t_pair_close(&p);
	free(sink);
}

/* A listener on every IPv6 address; the request has the address that was reached. */
static void wildcard_v6(void)
{
	struct t_opts o = {.ipv6 = true, .manual = true};
	struct sockaddr_storage any, v4;
	struct rd_fab_listener *lis;
	char text[RD_ADDR_TEXT];
	T_PAIR(p);
	uint16_t port;
	int fd;

	t_pair_open(&p, &o);
	rd_addr_parse("::", 0, &any);
	CU_ASSERT_EQUAL_FATAL(
		rd_fab_listen(p.sv.fab, (struct sockaddr *)&any, 16, p.lis->fn, &p, &lis), 0);
	port = rd_addr_port((struct sockaddr *)&lis->addr);
	CU_ASSERT(rd_addr_is_any((struct sockaddr *)&lis->addr));
	rd_addr_set_port((struct sockaddr *)&p.lis->addr, port); /* where the client connects to */
	t_pair_start(&p);
	T_UNTIL(&p, p.req);
	CU_ASSERT_STRING_EQUAL(rd_addr_format_host((struct sockaddr *)&p.req->local, text), "::1");
	CU_ASSERT_EQUAL(rd_addr_port((struct sockaddr *)&p.req->local), port);
	t_adopt(&p, p.req);
	T_UNTIL(&p, p.cl.established && p.sv.established);
	/* IPv4 connections do not reach it. */
	rd_addr_parse("127.0.0.1", port, &v4);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CU_ASSERT(fd >= 0);
	CU_ASSERT(connect(fd, (struct sockaddr *)&v4, sizeof(struct sockaddr_in)) < 0);
	CU_ASSERT_EQUAL(errno, ECONNREFUSED);
	close(fd);
	rd_fab_unlisten(&lis);
}

/* ---- ends ---- */

static void flush_order(void)
{
	struct ibv_recv_wr rwr = {.wr_id = 90}, *rbad;
	struct ibv_send_wr *bad, wr = {.wr_id = 91, .opcode = IBV_WR_SEND};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	t_pair_connect(&p, NULL);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	for (uint64_t i = 0; i < 5; i++)
		t_recv(&p.cl, 100 + i, ma, 0, 16);
	/* A wrong local key fails its work request; the work requests behind it are flushed. */
	CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 1, ma, 0, 8, rd_fab_remote_addr(mb, mem),
			       mb->rkey),
			0);
	CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_WRITE, 2, ma, sizeof(mem) - 4, 8,
			       rd_fab_remote_addr(mb, mem), mb->rkey),
			0);
	CU_ASSERT_EQUAL(
		t_rdma(&p.cl, IBV_WR_RDMA_READ, 3, ma, 0, 8, rd_fab_remote_addr(mb, mem), mb->rkey),
		0);
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0); /* not signaled */
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	CU_ASSERT_EQUAL(p.cl.nwc, 9);
	for (int i = 0; i < 9; i++) {
		static const uint64_t id[] = {1, 2, 3, 91, 100, 101, 102, 103, 104};

		CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, id[i]);
		CU_ASSERT_EQUAL(p.cl.wc[i].status, i == 0   ? IBV_WC_SUCCESS
						   : i == 1 ? IBV_WC_LOC_PROT_ERR
							    : IBV_WC_WR_FLUSH_ERR);
	}
	/* Work requests that are posted now are flushed too. */
	CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	CU_ASSERT_EQUAL(rd_fab_post_recv(p.cl.conn, &rwr, &rbad), 0);
	T_UNTIL(&p, p.cl.nwc == 11);
	CU_ASSERT_EQUAL(p.cl.wc[9].wr_id, 91);
	CU_ASSERT_EQUAL(p.cl.wc[9].status, IBV_WC_WR_FLUSH_ERR);
	CU_ASSERT_EQUAL(p.cl.wc[10].wr_id, 90);
	rd_fab_disconnect(p.cl.conn);
	t_turn(&p, 0);
	CU_ASSERT_EQUAL(p.cl.disconnected, 1);
}

/* More work requests than one transmission takes, and a wrong one behind them. */
static void wrong_behind_a_batch(void)
{
	enum { COUNT = 400, WRONG = 300, LEN = 4096 }; /* 256 of them leave at once */
	struct t_opts o = {.depth = 512};
	struct rd_fab_mr *ma, *mb;
	T_PAIR(p);

	t_pair_connect(&p, &o);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	mb = t_reg(&p.sv, mem, sizeof(mem), T_ACCESS_ALL);
	for (uint64_t i = 0; i < COUNT; i++)
		CU_ASSERT_EQUAL(t_rdma(&p.cl, IBV_WR_RDMA_WRITE, i, ma,
				       i == WRONG ? sizeof(mem) - 4 : 0, LEN,
				       rd_fab_remote_addr(mb, mem), mb->rkey),
				0);
	T_UNTIL(&p, p.cl.disconnected && p.sv.disconnected);
	CU_ASSERT_EQUAL(p.cl.nwc, COUNT);
	for (int i = 0; i < p.cl.nwc; i++) {
		CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, (uint64_t)i);
		CU_ASSERT_EQUAL(p.cl.wc[i].status, i < WRONG    ? IBV_WC_SUCCESS
						   : i == WRONG ? IBV_WC_LOC_PROT_ERR
								: IBV_WC_WR_FLUSH_ERR);
	}
}

/* The work requests posted to a dead connection may exceed the depth of its queues. */
static void flushed_beyond_depth(void)
{
	enum { COUNT = 1000 };
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	T_PAIR(p);

	t_pair_connect(&p, NULL);
	rd_fab_disconnect(p.cl.conn);
	T_UNTIL(&p, p.cl.disconnected);
	p.cl.no_poll = true;
	for (wr.wr_id = 0; wr.wr_id < COUNT; wr.wr_id++)
		CU_ASSERT_EQUAL(rd_fab_post_send(p.cl.conn, &wr, &bad), 0);
	p.cl.no_poll = false;
	T_UNTIL(&p, p.cl.nwc == COUNT);
	for (int i = 0; i < p.cl.nwc; i++) {
		CU_ASSERT_EQUAL(p.cl.wc[i].wr_id, (uint64_t)i);
		CU_ASSERT_EQUAL(p.cl.wc[i].status, IBV_WC_WR_FLUSH_ERR);
	}
}

static void purged(void)
{
	struct t_opts o = {.client.poke_ns = T_NO_POKES};
	struct rd_fab_mr *ma;
	struct ibv_wc wc[4];
	T_PAIR(p);

	t_pair_connect(&p, &o);
	ma = t_reg(&p.cl, mem, sizeof(mem), T_ACCESS_ALL);
	p.cl.no_poll = true;
	for (uint64_t i = 0; i < 10; i++)
		t_rdma(&p.cl, IBV_WR_RDMA_WRITE, i, ma, 0, 0, 0, 0);
	T_UNTIL(&p, t_stats(&p.sv)->fpdus_rx == 11);
	CU_ASSERT_EQUAL(rd_fab_cq_poll(p.cl.cq, 4, wc), 4);
	rd_fab_conn_destroy(&p.cl.conn);
	CU_ASSERT_EQUAL(rd_fab_cq_poll(p.cl.cq, 4, wc), 0);
}

static void abrupt(void)
{
	struct t_pair p;
	struct t_raw r;
	struct linger now = {.l_onoff = 1};
	uint8_t out[64];

	for (int mid = 0; mid < 2; mid++) {
		t_pair_open(&p, NULL);
		t_raw_open(&r, &p, 0);
		if (mid)
			t_raw_send(&r, out, t_fpdu_send(out, 1, 0, true, mem, 8) - 30);
		else
			setsockopt(r.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		t_raw_close(&r);
		T_UNTIL(&p, p.sv.disconnected);
		CU_ASSERT_EQUAL(p.sv.status, -ECONNRESET);
		t_pair_close(&p);
	}
}

static void out_of_descriptors(void)
{
	struct rlimit old, low;
	T_PAIR(p);
	struct t_raw r, second;
	uint64_t turns = 0, end;

	t_pair_open(&p, NULL);
	t_raw_connect(&r, &p);
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)r.fd + 1;
	setrlimit(RLIMIT_NOFILE, &low);
	end = t_now() + 30 * RD_NSEC_PER_MSEC;
	while (t_now() < end) {
		t_turn(&p, 5 * RD_NSEC_PER_MSEC);
		turns++;
	}
	setrlimit(RLIMIT_NOFILE, &old);
	CU_ASSERT(turns < 20); /* no spinning */
	CU_ASSERT_EQUAL(t_stats(&p.sv)->half_open, 0);
	/* The kernel decides whether the first one stays longer; valgrind accepts it and drops it.
	 */
	t_raw_connect(&second, &p);
	T_UNTIL(&p, t_stats(&p.sv)->half_open >= 1);
	t_raw_close(&second);
	t_raw_close(&r);
}

/* A listener whose backlog has many connections that are not accepted yet. */
static void listen_for_many(struct t_pair *p)
{
	struct rd_fab_listener *lis = NULL;

	rd_addr_set_port((struct sockaddr *)&p->lis->addr, 0);
	CU_ASSERT_EQUAL_FATAL(rd_fab_listen(p->sv.fab, (struct sockaddr *)&p->lis->addr, 2048,
					    p->lis->fn, p, &lis),
			      0);
	rd_fab_unlisten(&p->lis);
	p->lis = lis;
}

static int option(struct t_end *e, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	CU_ASSERT_EQUAL(getsockopt(rd_iw_test_conn(e->conn).fd, level, name, &value, &len), 0);
	return value;
}

/* Both ends give up a peer that does not answer; the accepted side inherits the timeout from its
 * listener. */
static void peer_timeout(void)
{
	static const struct {
		uint64_t ns;
		int on, idle, every, user;
	} cases[] = {
		{0, 1, 30, 15, 60000},
		{RD_NSEC_PER_SEC, 1, 1, 1, 1000},
		{3600 * RD_NSEC_PER_SEC, 1, 1800, 900, 3600000},
		{RD_FAB_IWARP_NEVER, 0, -1, -1, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct t_opts o = {.client.peer_timeout_ns = cases[i].ns,
				   .server.peer_timeout_ns = cases[i].ns};
		struct t_pair p;

		t_pair_connect(&p, &o);
		for (int side = 0; side < 2; side++) {
			struct t_end *e = side ? &p.sv : &p.cl;

			CU_ASSERT_EQUAL(option(e, IPPROTO_TCP, TCP_NODELAY), 1);
			CU_ASSERT_EQUAL(option(e, SOL_SOCKET, SO_KEEPALIVE), cases[i].on);
			CU_ASSERT_EQUAL(option(e, IPPROTO_TCP, TCP_USER_TIMEOUT), cases[i].user);
			if (!cases[i].on)
				continue;
			CU_ASSERT_EQUAL(option(e, IPPROTO_TCP, TCP_KEEPIDLE), cases[i].idle);
			CU_ASSERT_EQUAL(option(e, IPPROTO_TCP, TCP_KEEPINTVL), cases[i].every);
		}
		t_pair_close(&p);
	}
}

/*
 * More unassociated sockets than may be half-open, without a time limit. Those of the address that
 * has the most are closed, oldest first. New ones and older ones of other addresses stay.
 */
static void half_open_limit(void)
{
	enum { COUNT = 300, LIMIT = 100 };
	struct t_opts o = {.server = {.half_open = LIMIT, .request_timeout_ns = UINT64_MAX / 2}};
	struct t_raw r[COUNT], other;
	T_PAIR(p);

	t_pair_open(&p, &o);
	listen_for_many(&p);
	t_raw_connect_from(&other, &p, "127.0.0.9");
	for (int i = 0; i < COUNT; i++)
		t_raw_connect_from(&r[i], &p, "127.0.0.8");
	T_UNTIL(&p, t_stats(&p.sv)->evicted == COUNT + 1 - LIMIT);
	CU_ASSERT_EQUAL(t_stats(&p.sv)->half_open, LIMIT);
	t_pair_start(&p);
	T_UNTIL(&p, p.cl.established && p.sv.established);
	CU_ASSERT(t_raw_quiet(&other, 0));
	for (int i = 0; i < COUNT; i++) {
		/* That one was closed for the new one. */
		if (i != COUNT + 1 - LIMIT)
			CU_ASSERT(i < COUNT + 1 - LIMIT ? t_raw_reset(&r[i])
							: t_raw_quiet(&r[i], 0));
		t_raw_close(&r[i]);
	}
	t_raw_close(&other);
}

/* As many addresses as sockets: the oldest socket of all is closed. */
static void half_open_addresses(void)
{
	enum { COUNT = 120, LIMIT = 100 };
	struct t_opts o = {.server = {.half_open = LIMIT, .request_timeout_ns = UINT64_MAX / 2}};
	struct t_raw r[COUNT];
	T_PAIR(p);
	char addr[32];

	t_pair_open(&p, &o);
	listen_for_many(&p);
	for (int i = 0; i < COUNT; i++) {
		snprintf(addr, sizeof(addr), "127.0.1.%d", i + 1);
		t_raw_connect_from(&r[i], &p, addr);
	}
	T_UNTIL(&p, t_stats(&p.sv)->evicted == COUNT - LIMIT);
	for (int i = 0; i < COUNT; i++) {
		CU_ASSERT(i < COUNT - LIMIT ? t_raw_reset(&r[i]) : t_raw_quiet(&r[i], 0));
		t_raw_close(&r[i]);
	}
}

/* All of them are closed after their time limit, with one timer. */
static void half_open_time(void)
{
	enum { COUNT = 50 };
	struct t_opts o = {.server.request_timeout_ns = 100 * RD_NSEC_PER_MSEC};
	struct t_raw r[COUNT];
	T_PAIR(p);

	t_pair_open(&p, &o);
	listen_for_many(&p);
	for (int i = 0; i < COUNT; i++)
		t_raw_connect(&r[i], &p);
	for (int i = 0; i < COUNT; i++) {
		CU_ASSERT(t_raw_eof(&r[i]));
		t_raw_close(&r[i]);
	}
	CU_ASSERT_EQUAL(t_stats(&p.sv)->half_open, 0);
	CU_ASSERT_EQUAL(t_stats(&p.sv)->evicted, 0);
}

static void unlisten_midway(void)
{
	struct t_opts o = {.manual = true};
	T_PAIR(p);
	struct t_raw r;

	t_pair_open(&p, &o);
	t_raw_connect(&r, &p);
	t_pair_start(&p);
	T_UNTIL(&p, p.req && t_stats(&p.sv)->half_open == 1);
	rd_fab_unlisten(&p.lis);
	CU_ASSERT_EQUAL(t_stats(&p.sv)->half_open, 0);
	CU_ASSERT(t_raw_eof(&r));
	t_raw_close(&r);
	rd_fab_req_reject(p.req, NULL, 0);
	T_UNTIL(&p, p.cl.rejected);
}

const struct t_case t_conn_cases[] = {
	{"private data of all lengths", private_data},
	{"too much private data, and calls in the wrong state", too_much_private_data},
	{"IRD and ORD are negotiated", depths},
	{"MPA revision 1, and without the peer-to-peer model", revisions},
	{"reject with private data", rejected},
	{"nobody listens", t_nobody_listens},
	{"address in use", address_in_use},
	{"unknown congestion control", bad_congestion},
	{"bad MPA requests are dropped", bad_requests},
	{"markers are refused", markers},
	{"bytes behind the request", trailing},
	{"512 bytes of private data are read", large_request},
	{"bad MPA replies", bad_replies},
	{"the ready-to-receive message", rtr},
	{"the responder does not speak first", startup_rule},
	{"an initiator that stays silent", silent_initiator},
	{"a listener on all IPv6 addresses", wildcard_v6},
	{"a silent responder is poked", pokes},
	{"a poke waits for the frame before it", poke_waits_its_turn},
	{"what has not arrived when a device ends a connection is not delivered",
	 abandons_what_has_not_arrived},
	{"flushing keeps the order", flush_order},
	{"a wrong work request behind more than one transmission", wrong_behind_a_batch},
	{"more is flushed than the queues held", flushed_beyond_depth},
	{"completions of a destroyed connection vanish", purged},
	{"the peer is gone without a word", abrupt},
	{"out of descriptors: accept pauses", out_of_descriptors},
	{"both ends give up a machine that is gone", peer_timeout},
	{"a crowd of half-open connections keeps nobody out", half_open_limit},
	{"half-open connections of many addresses", half_open_addresses},
	{"half-open connections end in time", half_open_time},
	{"unlisten with handshakes under way", unlisten_midway},
	{NULL},
};
