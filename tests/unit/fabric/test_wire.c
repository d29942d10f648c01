/* SPDX-License-Identifier: BSD-3-Clause */
/* Building and parsing: bytes captured from Linux's siw, and figures of the RFCs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/crc32c.h"
#include "fabric/iwarp/ddp.h"
#include "fabric/iwarp/mpa.h"
#include "suites.h"

static size_t wire_unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;

	for (; *hex; hex++) {
		char two[3] = {hex[0], hex[1], 0};

		if (*hex == ' ')
			continue;
		out[n++] = (uint8_t)strtoul(two, NULL, 16);
		hex++;
	}
	return n;
}

static void check_bytes(const uint8_t *got, size_t len, const char *hex)
{
	uint8_t want[256];
	size_t n = wire_unhex(hex, want);

	CU_ASSERT_EQUAL(len, n);
	CU_ASSERT(len == n && memcmp(got, want, n) == 0);
}

/* ---- MPA ---- */

#define SIW_REQ                                                 \
	"4d504120494420526571204672616d65 10 02 0024 0080 0000" \
	"0000000020001f00000000000000000000000000000000000000000000000000"
#define SIW_REP                                                 \
	"4d504120494420526570204672616d65 10 02 0024 0000 0080" \
	"0000200000000000000000000000000000000000000000000000000000000000"

static void mpa_request(void)
{
	uint8_t buf[RD_MPA_MAX_LEN], out[RD_MPA_MAX_LEN];
	size_t n = wire_unhex(SIW_REQ, buf);
	struct rd_iw_mpa m;
	const char *why;

	CU_ASSERT_EQUAL(rd_iw_mpa_length(buf, 0, false, &why), 20);
	CU_ASSERT_EQUAL(rd_iw_mpa_length(buf, 19, false, &why), 20);
	CU_ASSERT_EQUAL(rd_iw_mpa_length(buf, 20, false, &why), (int)n);
	CU_ASSERT_EQUAL(rd_iw_mpa_parse(buf, n, false, &m, &why), 0);
	CU_ASSERT(m.enhanced && !m.p2p && !m.crc && !m.markers && !m.reject);
	CU_ASSERT_EQUAL(m.revision, 2);
	CU_ASSERT_EQUAL(m.ird, 128);
	CU_ASSERT_EQUAL(m.ord, 0);
	CU_ASSERT_EQUAL(m.pd_len, 32);
	CU_ASSERT_EQUAL(((const uint8_t *)m.pd)[4], 0x20);
	CU_ASSERT_EQUAL(rd_iw_mpa_build(&m, out), (int)n);
	CU_ASSERT_EQUAL(memcmp(buf, out, n), 0);
}

static void mpa_reply(void)
{
	uint8_t buf[RD_MPA_MAX_LEN], out[RD_MPA_MAX_LEN], req[RD_MPA_MAX_LEN];
	struct rd_iw_depths want = {.ird = 16, .ord = 200}, eff;
	struct rd_iw_mpa q, r = {0};
	uint8_t pd[32] = {0, 0, 0x20};
	const char *why;
	size_t n = wire_unhex(SIW_REP, buf);

	CU_ASSERT_EQUAL(rd_iw_mpa_parse(buf, n, true, &r, &why), 0);
	CU_ASSERT_EQUAL(r.ird, 0);
	CU_ASSERT_EQUAL(r.ord, 128);
	rd_iw_mpa_build(&r, out);
	CU_ASSERT_EQUAL(memcmp(buf, out, n), 0);
	/* nvmet's answer to nvme-rdma is our answer too. */
	rd_iw_mpa_parse(req, wire_unhex(SIW_REQ, req), false, &q, &why);
	r = (struct rd_iw_mpa){.pd = pd, .pd_len = sizeof(pd)};
	rd_iw_mpa_answer(&q, &want, false, &r, &eff);
	CU_ASSERT_EQUAL(rd_iw_mpa_build(&r, out), (int)n);
	CU_ASSERT_EQUAL(memcmp(buf, out, n), 0);
	CU_ASSERT_EQUAL(eff.ird, 0);
	CU_ASSERT_EQUAL(eff.ord, 128);
}

static void mpa_bad(void)
{
	uint8_t buf[RD_MPA_MAX_LEN], good[RD_MPA_MAX_LEN];
	struct rd_iw_mpa m;
	const char *why;
	size_t n = wire_unhex(SIW_REQ, good);

	CU_ASSERT_EQUAL(rd_iw_mpa_length(good, n, true, &why), -EPROTO); /* a request as reply */
	CU_ASSERT_EQUAL(rd_iw_mpa_length((const uint8_t *)"G", 1, false, &why), -EPROTO);
	memcpy(buf, good, n);
	buf[17] = 3;
	CU_ASSERT_EQUAL(rd_iw_mpa_length(buf, n, false, &why), -EPROTO);
	memcpy(buf, good, n);
	buf[18] = 2; /* 0x0200 + 0x24 > 512 */
	CU_ASSERT_EQUAL(rd_iw_mpa_length(buf, n, false, &why), -EPROTO);
	buf[19] = 0;
	CU_ASSERT_EQUAL(rd_iw_mpa_length(buf, n, false, &why), 532);
	memcpy(buf, good, n);
	buf[18] = 0;
	buf[19] = 3;
	CU_ASSERT_EQUAL(rd_iw_mpa_parse(buf, 23, false, &m, &why), -EPROTO);
	buf[17] = 1; /* the S bit has no meaning before revision 2 */
	CU_ASSERT_EQUAL(rd_iw_mpa_parse(buf, 23, false, &m, &why), 0);
	CU_ASSERT_FALSE(m.enhanced);
	CU_ASSERT_EQUAL(m.pd_len, 3);
	m = (struct rd_iw_mpa){.enhanced = true, .pd_len = 509};
	CU_ASSERT_EQUAL(rd_iw_mpa_build(&m, buf), -EMSGSIZE);
}

struct nego {
	struct rd_iw_mpa req;
	struct rd_iw_depths want;
	bool crc;
	/* the answer */
	uint16_t ird, ord;
	bool p2p, write, read, crc_out;
	struct rd_iw_depths eff;
};

#define E .enhanced = true, .revision = 2
static const struct nego negos[] = {
	/* depths: ours cover the peer's and not more */
	{{E, .ird = 8, .ord = 4}, {16, 16}, false, 4, 8, false, false, false, false, {4, 8}},
	{{E, .ird = 128, .ord = 128}, {2, 3}, false, 2, 3, false, false, false, false, {2, 3}},
	/* CRC if either side wants it */
	{{E, .crc = true}, {1, 1}, false, 0, 0, false, false, false, true, {0, 0}},
	{{E}, {1, 1}, true, 0, 0, false, false, false, true, {0, 0}},
	/* peer-to-peer: a WRITE is preferred, a READ if there is room for it */
	{{E, .p2p = true, .rtr_write = true, .rtr_read = true, .ird = 8, .ord = 1},
	 {16, 16},
	 false,
	 1,
	 8,
	 true,
	 true,
	 false,
	 false,
	 {1, 8}},
	{{E, .p2p = true, .rtr_read = true, .ird = 8},
	 {0, 16},
	 false,
	 1,
	 8,
	 true,
	 false,
	 true,
	 false,
	 {1, 8}},
	{{E, .p2p = true, .rtr_send = true, .ird = 8},
	 {4, 4},
	 false,
	 0,
	 4,
	 true,
	 true,
	 false,
	 false,
	 {0, 4}},
	/* "do not negotiate" is answered in the same way; our own values stay */
	{{E, .ird = 0x3fff, .ord = 0x3fff},
	 {16, 17},
	 false,
	 0x3fff,
	 0x3fff,
	 false,
	 false,
	 false,
	 false,
	 {16, 17}},
	{{E, .ird = 0x3fff, .ord = 2},
	 {16, 17},
	 false,
	 2,
	 0x3fff,
	 false,
	 false,
	 false,
	 false,
	 {2, 17}},
	/* revision 1 has no depths */
	{{.revision = 1}, {16, 17}, false, 0, 0, false, false, false, false, {16, 17}},
};
#undef E

static void mpa_answers(void)
{
	for (size_t i = 0; i < sizeof(negos) / sizeof(negos[0]); i++) {
		const struct nego *t = &negos[i];
		struct rd_iw_depths eff;
		struct rd_iw_mpa r = {0};

		rd_iw_mpa_answer(&t->req, &t->want, t->crc, &r, &eff);
		CU_ASSERT(r.reply);
		CU_ASSERT_EQUAL(r.enhanced, t->req.enhanced);
		CU_ASSERT_EQUAL(r.revision, t->req.revision);
		CU_ASSERT_EQUAL(r.ird, t->ird);
		CU_ASSERT_EQUAL(r.ord, t->ord);
		CU_ASSERT_EQUAL(r.p2p, t->p2p);
		CU_ASSERT_EQUAL(r.rtr_write, t->write);
		CU_ASSERT_EQUAL(r.rtr_read, t->read);
		CU_ASSERT_EQUAL(r.crc, t->crc_out);
		CU_ASSERT_EQUAL(eff.ird, t->eff.ird);
		CU_ASSERT_EQUAL(eff.ord, t->eff.ord);
	}
}

static void mpa_replies(void)
{
	struct rd_iw_mpa req = {.enhanced = true,
				.revision = 2,
				.p2p = true,
				.rtr_write = true,
				.rtr_read = true,
				.ird = 16,
				.ord = 8};
	struct rd_iw_mpa rep = {.reply = true, .enhanced = true, .revision = 2, .ird = 4, .ord = 9};
	struct rd_iw_depths eff;
	enum rd_iw_rtr rtr;
	const char *why;
	uint32_t term;

	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), 0);
	CU_ASSERT_EQUAL(eff.ird, 9);
	CU_ASSERT_EQUAL(eff.ord, 4);
	CU_ASSERT_EQUAL(rtr, RD_IW_RTR_NONE);
	rep.p2p = true;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), -EPROTO);
	CU_ASSERT_EQUAL(term, RD_TERM_MPA_RTR);
	rep.rtr_read = true;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), 0);
	CU_ASSERT_EQUAL(rtr, RD_IW_RTR_READ);
	rep.rtr_write = true;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), 0);
	CU_ASSERT_EQUAL(rtr, RD_IW_RTR_WRITE);
	rep.ord = 17;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), -EPROTO);
	CU_ASSERT_EQUAL(term, RD_TERM_MPA_IRD);
	rep.ord = rep.ird = 0x3fff;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), 0);
	CU_ASSERT_EQUAL(eff.ird, 16);
	CU_ASSERT_EQUAL(eff.ord, 8);
	rep.markers = true;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), -EPROTO);
	rep.markers = rep.enhanced = false;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), -EPROTO);
	req.enhanced = false;
	CU_ASSERT_EQUAL(rd_iw_mpa_check(&req, &rep, &eff, &rtr, &term, &why), 0);
}

/* ---- DDP and RDMAP ---- */

/* Parse @hex as a header, build a header from the result, and compare. */
static void wire_round_trip(const char *hex, struct rd_iw_hdr *h)
{
	uint8_t in[64], out[64];
	size_t n = wire_unhex(hex, in), len;
	struct rd_ddp_ctrl ctrl;
	uint32_t term;

	memcpy(&ctrl, in, sizeof(ctrl));
	len = rd_iw_hdr_length(&ctrl, &term);
	CU_ASSERT_EQUAL_FATAL(len, n);
	rd_iw_hdr_parse(in, h);
	if (h->op == RD_RDMAP_READ_REQ)
		len = rd_iw_put_read_req(out, h->msn, &h->read);
	else if (h->tagged)
		len = rd_iw_put_tagged(out, h->op, h->last, h->stag, h->to, h->plen);
	else
		len = rd_iw_put_untagged(out, h->op, h->last, h->inv_stag, h->qn, h->msn, h->mo,
					 h->plen);
	check_bytes(out, len, hex);
}

static void headers(void)
{
	struct rd_iw_hdr h;

	wire_round_trip("00524143 00000000 00000000 00000001 00000000", &h); /* Connect capsule */
	CU_ASSERT(h.op == RD_RDMAP_SEND && !h.tagged && h.last);
	CU_ASSERT_EQUAL(h.plen, 64);
	CU_ASSERT_EQUAL(h.msn, 1);
	wire_round_trip(
		"002e4141000000000000000100000001 00000000 51d0cd01 ffff8880073d4000 00000400"
		"41236c01 ffff888006081800",
		&h);
	CU_ASSERT_EQUAL(h.op, RD_RDMAP_READ_REQ);
	CU_ASSERT_EQUAL(h.qn, 1);
	CU_ASSERT_EQUAL(h.plen, 0);
	CU_ASSERT_EQUAL(h.read.sink_stag, 0x51d0cd01);
	CU_ASSERT_EQUAL(h.read.sink_to, 0xffff8880073d4000);
	CU_ASSERT_EQUAL(h.read.size, 1024);
	CU_ASSERT_EQUAL(h.read.src_stag, 0x41236c01);
	CU_ASSERT_EQUAL(h.read.src_to, 0xffff888006081800);
	wire_round_trip("040ec142 51d0cd01 ffff8880073d4000", &h);
	CU_ASSERT(h.op == RD_RDMAP_READ_RESP && h.tagged && h.last);
	CU_ASSERT_EQUAL(h.plen, 1024);
	CU_ASSERT_EQUAL(h.to, 0xffff8880073d4000);
	wire_round_trip("00224144 41236c01 00000000 00000001 00000000",
			&h); /* response with inv. */
	CU_ASSERT_EQUAL(h.op, RD_RDMAP_SEND_INV);
	CU_ASSERT_EQUAL(h.inv_stag, 0x41236c01);
	CU_ASSERT_EQUAL(h.plen, 16);
	wire_round_trip("100ec140 41236c02 ffff8880064aa000", &h); /* data of Identify */
	CU_ASSERT_EQUAL(h.op, RD_RDMAP_WRITE);
	CU_ASSERT_EQUAL(h.plen, 4096);
	wire_round_trip("05a281 40 12345601 00000000deadbeef", &h); /* not the last segment */
	CU_ASSERT_FALSE(h.last);
}

static uint32_t length_error(const char *hex)
{
	uint32_t term = 0xffffffff;
	struct rd_ddp_ctrl ctrl;
	uint8_t in[8];

	wire_unhex(hex, in);
	memcpy(&ctrl, in, sizeof(ctrl));
	CU_ASSERT_EQUAL(rd_iw_hdr_length(&ctrl, &term), 0);
	return term;
}

static void bad_headers(void)
{
	CU_ASSERT_EQUAL(length_error("00524243"), RD_TERM_DU_VERSION);
	CU_ASSERT_EQUAL(length_error("0052c040"), RD_TERM_DT_VERSION);
	CU_ASSERT_EQUAL(length_error("00524103"), RD_TERM_RO_VERSION);
	CU_ASSERT_EQUAL(length_error("00524183"), RD_TERM_RO_VERSION);
	CU_ASSERT_EQUAL(length_error("0052414a"), RD_TERM_RO_OPCODE);
	CU_ASSERT_EQUAL(length_error("0052c143"), RD_TERM_RO_OPCODE); /* a tagged Send */
	CU_ASSERT_EQUAL(length_error("00524140"), RD_TERM_RO_OPCODE); /* an untagged Write */
	CU_ASSERT_EQUAL(length_error("00000000"), RD_TERM_MPA_LENGTH);
	CU_ASSERT_EQUAL(length_error("00114143"), RD_TERM_MPA_LENGTH);
	CU_ASSERT_EQUAL(length_error("000dc140"), RD_TERM_MPA_LENGTH);
	CU_ASSERT_EQUAL(length_error("002d4141"), RD_TERM_MPA_LENGTH);
	CU_ASSERT_EQUAL(length_error("002f4141"), RD_TERM_DU_TOO_LONG);
}

static void check_crc(const char *hex, const char *want)
{
	uint8_t in[128], out[4];
	size_t n = wire_unhex(hex, in);

	rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, in, n), out);
	check_bytes(out, 4, want);
	/* in two parts */
	rd_crc32c_put(rd_crc32c(rd_crc32c(RD_CRC32C_SEED, in, 7), in + 7, n - 7), out);
	check_bytes(out, 4, want);
}

static void crc(void)
{
	check_crc("313233343536373839", "839206e3"); /* the check value 0xe3069283 */
	/* RFC 5044 figure 5, with its leading marker, and without */
	check_crc("00000000 002a4143 00000000 00000000 00000001 00000000"
		  "000000000000000000000000000000000000000000000000",
		  "52239983");
	check_crc("002a4143 00000000 00000000 00000001 00000000"
		  "000000000000000000000000000000000000000000000000",
		  "b7243ec3");
}

/* ---- Terminate ---- */

static void term_build(void)
{
	uint8_t buf[RD_TERM_MAX_LEN], bad[64];
	size_t n;

	check_bytes(buf, rd_iw_term_build(buf, RD_TERM_MPA_CRC, NULL, 0),
		    "00164147 00000000 00000002 00000001 00000000 20020000");
	/* A READ with a wrong key: all of its headers are returned. */
	n = wire_unhex(
		"002e4141 00000000 00000001 00000001 00000000 12345601 0000007000000000 00000040"
		"deadbe01 0000000000000000",
		bad);
	check_bytes(buf, rd_iw_term_build(buf, RD_TERM_RP_STAG, bad, n),
		    "00464147 00000000 00000002 00000001 00000000 0100e000"
		    "002e4141 00000000 00000001 00000001 00000000"
		    "12345601 0000007000000000 00000040 deadbe01 0000000000000000");
	n = wire_unhex("100ec140 41236c02 ffff8880064aa000", bad);
	check_bytes(buf, rd_iw_term_build(buf, RD_TERM_DT_BOUNDS, bad, n),
		    "00264147 00000000 00000002 00000001 00000000 1101c000"
		    "100ec140 41236c02 ffff8880064aa000");
	/* Only the control bytes had arrived. */
	n = wire_unhex("0052414a", bad);
	check_bytes(buf, rd_iw_term_build(buf, RD_TERM_RO_OPCODE, bad, n),
		    "00184147 00000000 00000002 00000001 00000000 02068000 0052");
}

static uint32_t decode(const char *hex)
{
	char text[RD_IW_TERM_TEXT];
	uint8_t buf[64];
	uint32_t code = rd_iw_term_decode(buf, wire_unhex(hex, buf), text);

	CU_ASSERT(strlen(text) > 0);
	return code;
}

static void term_decode(void)
{
	/* as siw sends them */
	CU_ASSERT_EQUAL(decode("02020000"), RD_TERM_MPA_CRC);
	CU_ASSERT_EQUAL(decode("11000300"), RD_TERM_DT_STAG);
	CU_ASSERT_EQUAL(decode("11010300"), RD_TERM_DT_BOUNDS);
	CU_ASSERT_EQUAL(decode("10000700"), RD_TERM_RP_STAG);
	CU_ASSERT_EQUAL(decode("20070300"), RD_TERM_RO_STREAM);
	CU_ASSERT_EQUAL(decode("21030300"), RD_TERM_DU_MSN);
	CU_ASSERT_EQUAL(decode("21020300"), RD_TERM_DU_NO_BUFFER);
	/* as the RFC specifies them */
	CU_ASSERT_EQUAL(decode("20020000"), RD_TERM_MPA_CRC);
	CU_ASSERT_EQUAL(decode("1100c000"), RD_TERM_DT_STAG);
	CU_ASSERT_EQUAL(decode("0100e000"), RD_TERM_RP_STAG);
	CU_ASSERT_EQUAL(decode("1203c000"), RD_TERM_DU_MSN);
	CU_ASSERT_EQUAL(decode("02060000"), RD_TERM_RO_OPCODE);
	/* Both byte orders have a meaning and nothing distinguishes them: the text has both. */
	{
		const uint8_t both[4] = {0x20, 0x06, 0, 0};
		char text[RD_IW_TERM_TEXT];

		rd_iw_term_decode(both, sizeof(both), text);
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "insufficient IRD"));
		CU_ASSERT_PTR_NOT_NULL(strstr(text, "unexpected RDMAP opcode"));
	}
	/* no valid code */
	decode("");
	decode("ffffffff");
}

const struct t_case t_wire_cases[] = {
	{"MPA request as siw sends it", mpa_request},
	{"MPA reply as siw sends it", mpa_reply},
	{"bad MPA frames", mpa_bad},
	{"the responder's negotiation", mpa_answers},
	{"the initiator's check of a reply", mpa_replies},
	{"DDP headers, both ways", headers},
	{"unacceptable headers", bad_headers},
	{"CRC32C of RFC 5044 figure 5", crc},
	{"Terminate messages are built as the RFC says", term_build},
	{"Terminate messages are read in either nibble order", term_decode},
	{NULL},
};
