/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp: connections and PDUs of NVMe/TCP with one field wrong, in a wrong order, or of another
 * protocol. A fatal error ends the connection, with a C2HTermReq that names it or without one; no
 * wrong PDU is executed as a command.
 */
#include <string.h>

#include "raw.h"
#include "suites.h"
#include "tcp.h"

#define PDUS "TCP 3.6"
/* Sets of FES. */
#define RDC_FES(n) (1u << (n))

/* ---- what the tests share ---- */

/* An I/O queue whose connection is made by @d, of a controller of its own. Not supported if the
 * target does not agree to the digests of @d. */
static struct rdc_raw *open_io(struct rdc *t, const struct rdc_dial *d)
{
	struct rdc_dial dial = *d;
	struct rdc_raw *io;

	dial.qid = 1;
	dial.depth = 16;
	io = rdc_raw_io_by(rdc_raw_admin(t, 0), &dial, 0);
	if (io->tcp->icresp.dgst != d->dgst)
		rdc_not_supported(t, "ICResp agrees to digests 0x%02x, but 0x%02x were asked for",
				  io->tcp->icresp.dgst, d->dgst);
	return io;
}

static void round_trip(struct rdc *t, struct rdc_raw *io)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_mem *mem = rdc_raw_mem(io, h->bs, 0);
	unsigned char *want = rdc_buf(t, h->bs);
	struct nvme_sqe sqe;

	rdc_fill(want, h->bs, 600);
	memcpy(mem->p, want, h->bs);
	rdc_raw_rw(&sqe, h, nvme_cmd_write, 0, 1, mem);
	RDC_OK(t, rdc_raw_cmd(io, &sqe).r, "Write");
	memset(mem->p, 0, h->bs);
	rdc_raw_rw(&sqe, h, nvme_cmd_read, 0, 1, mem);
	RDC_OK(t, rdc_raw_cmd(io, &sqe).r, "Read");
	RDC_CHECK(t, memcmp(mem->p, want, h->bs) == 0, "Read returned other data than Write sent");
}

static void check_term(struct rdc_raw *raw, const struct rdc_pdu *sent, unsigned int fes,
		       int64_t fei)
{
	const struct rdc_tcp *c = raw->tcp;
	unsigned int got = le16toh(c->term.fes);
	char text[NVME_TCP_TERM_TEXT];

	nvme_tcp_term_text(got, nvme_tcp_term_fei(&c->term), text);
	RDC_CHECK(raw->t, got < 32 && fes & RDC_FES(got), "C2HTermReq says %s", text);
	RDC_CHECK(raw->t, fei < 0 || nvme_tcp_term_fei(&c->term) == fei,
		  "C2HTermReq says %s, but FEI has to be %lld", text, (long long)fei);
	RDC_CHECK(raw->t,
		  c->term_head_len <= sent->len &&
			  memcmp(c->term_head, sent->b, c->term_head_len) == 0,
		  "C2HTermReq has %u bytes of a header that was not sent", c->term_head_len);
}

/* The target has to end the connection, by a C2HTermReq or without: not with an answer. @fes: the
 * set of FES that fit; @fei: its value, or -1; @sent: the PDU that a C2HTermReq may show. */
static void refused(struct rdc_raw *raw, const struct rdc_pdu *sent, unsigned int fes, int64_t fei)
{
	uint64_t end = rdc_now_ms() + raw->t->cfg->timeout_ms;

	while (!raw->over && !raw->n_got && rdc_now_ms() < end)
		raw->wire->turn(raw, 50);
	RDC_CHECK(raw->t, !raw->n_got, "the PDU was executed: status 0x%04x",
		  le16toh(raw->got[0].cqe.status));
	RDC_CHECK(raw->t, raw->over, "neither a C2HTermReq nor the end of the connection");
	if (raw->tcp->termed)
		check_term(raw, sent, fes, fei);
}

/* ---- one field wrong ---- */

enum base {
	ICREQ,
	FLUSH,      /* CapsuleCmd without data */
	IN_CAPSULE, /* CapsuleCmd: Write of a block, its data in the capsule */
	H2C,        /* H2CData with all of the data that an R2T asks for */
	H2C_FIRST,  /* with the first half of it */
	TERM,       /* H2CTermReq */
};

/* A PDU that is right but for one field. */
struct wrong {
	enum base base;
	uint8_t dgst; /* that was agreed on */
	uint8_t at, width;
	uint32_t value;
	unsigned int fes;
	int64_t fei;
};

static void make_in_capsule(struct rdc *t, struct rdc_raw *io, struct rdc_pdu *pdu, uint32_t len)
{
	struct rdc_host *h = rdc_main(t);
	struct nvme_sqe sqe = {
		.opcode = nvme_cmd_write,
		.flags = NVME_CMD_PSDT_SGL,
		.cid = htole16(5),
		.nsid = htole32(h->nsid),
		.sgl.data = {.length = htole32(h->bs), .type = NVME_SGL_IN_CAPSULE},
	};

	if (h->info.in_capsule < h->bs)
		rdc_not_supported(t, "IOCCSZ leaves %u bytes for data in a capsule",
				  h->info.in_capsule);
	rdc_tcp_expect(io, &sqe, NULL, 0, true);
	rdc_tcp_make(io, pdu, NVME_TCP_CMD, 0, &sqe, rdc_buf(t, len), len);
}

/* Sends a Write of @blocks blocks, and returns its R2T. *@mem: its data. */
static struct nvme_tcp_r2t ask(struct rdc *t, struct rdc_raw *io, uint32_t blocks, uint16_t cid,
			       struct rdc_mem **mem)
{
	struct rdc_host *h = rdc_main(t);
	struct nvme_sqe sqe;

	rdc_need_blocks(h, blocks);
	io->tcp->manual = true;
	*mem = rdc_raw_mem(io, (size_t)blocks * h->bs, 0);
	rdc_fill((*mem)->p, (*mem)->len, 610u + cid);
	rdc_raw_rw(&sqe, h, nvme_cmd_write, 0, blocks, *mem);
	sqe.cid = htole16(cid);
	rdc_raw_send(io, &sqe, sizeof(sqe));
	return rdc_tcp_r2t(io);
}

static void make_h2c(struct rdc *t, struct rdc_raw *io, struct rdc_pdu *pdu, bool half)
{
	struct rdc_mem *mem;
	struct nvme_tcp_r2t r2t = ask(t, io, 1, 7, &mem);
	uint32_t len = le32toh(r2t.r2tl);

	rdc_tcp_make_h2c(io, pdu, &r2t, 0, half ? len / 2 : len, !half, mem->p);
}

static struct rdc_raw *make_base(struct rdc *t, const struct wrong *w, struct rdc_pdu *pdu)
{
	const struct nvme_tcp_term term = {.fes = htole16(NVME_TCP_FES_SEQUENCE)};
	struct nvme_tcp_icreq req;
	struct nvme_sqe sqe = {.opcode = nvme_cmd_flush, .flags = NVME_CMD_PSDT_SGL};
	struct rdc_raw *raw;

	if (w->base == ICREQ) {
		raw = rdc_raw_dial(t, &(struct rdc_dial){.no_icreq = true});
		nvme_tcp_build_icreq(&req, 0);
		memcpy(pdu->b, &req, sizeof(req));
		pdu->len = pdu->head = sizeof(req);
		return raw;
	}
	raw = open_io(t, &(struct rdc_dial){.dgst = w->dgst});
	switch (w->base) {
	case FLUSH:
		sqe.nsid = htole32(rdc_main(t)->nsid);
		rdc_sgl_none(raw, &sqe);
		rdc_tcp_expect(raw, &sqe, NULL, 0, false);
		rdc_tcp_make(raw, pdu, NVME_TCP_CMD, 0, &sqe, NULL, 0);
		break;
	case IN_CAPSULE:
		make_in_capsule(t, raw, pdu, rdc_main(t)->bs);
		break;
	case TERM:
		rdc_tcp_make(raw, pdu, NVME_TCP_H2C_TERM, 0, &term.fes, NULL, 0);
		break;
	default:
		make_h2c(t, raw, pdu, w->base == H2C_FIRST);
		break;
	}
	return raw;
}

#define HEADER      RDC_FES(NVME_TCP_FES_HEADER)
#define SEQUENCE    RDC_FES(NVME_TCP_FES_SEQUENCE)
#define DIGEST      RDC_FES(NVME_TCP_FES_HDGST)
#define RANGE       RDC_FES(NVME_TCP_FES_RANGE)
#define LIMIT       RDC_FES(NVME_TCP_FES_LIMIT)
#define UNSUPPORTED RDC_FES(NVME_TCP_FES_UNSUPPORTED)

/* Offsets of fields, which are FEI as well. */
#define TYPE  offsetof(struct nvme_tcp_hdr, type)
#define FLAGS offsetof(struct nvme_tcp_hdr, flags)
#define HLEN  offsetof(struct nvme_tcp_hdr, hlen)
#define PDO   offsetof(struct nvme_tcp_hdr, pdo)
#define PLEN  offsetof(struct nvme_tcp_hdr, plen)
#define IC(f) offsetof(struct nvme_tcp_icreq, f)
#define DA(f) offsetof(struct nvme_tcp_data, f)
#define HD    NVME_TCP_HDGST
#define DD    NVME_TCP_DDGST
#define ALIVE RDC_ALIVE
#define LOSS  (RDC_ALIVE | RDC_LOSS)

/* Name, expectation, flags; PDU, digests, offset, width and value of the field, FES, FEI. */
#define IC_FIELDS(X)                                                                               \
	X(pfv, "PFV 1", ALIVE, ICREQ, 0, IC(pfv), 2, 1, UNSUPPORTED | HEADER, IC(pfv))             \
	X(hpda, "HPDA 32", ALIVE, ICREQ, 0, IC(hpda), 1, 32, UNSUPPORTED | HEADER, IC(hpda))       \
	X(ic_hlen_short, "ICReq with HLEN 127", ALIVE, ICREQ, 0, HLEN, 1, 127, HEADER, HLEN)       \
	X(ic_hlen_zero, "ICReq with HLEN 0", ALIVE, ICREQ, 0, HLEN, 1, 0, HEADER, HLEN)            \
	X(ic_plen_short, "ICReq with PLEN 127", ALIVE, ICREQ, 0, PLEN, 4, 127, HEADER, PLEN)       \
	X(ic_plen_long, "ICReq with PLEN 132", ALIVE, ICREQ, 0, PLEN, 4, 132, HEADER, PLEN)        \
	X(ic_plen_zero, "ICReq with PLEN 0", ALIVE, ICREQ, 0, PLEN, 4, 0, HEADER, PLEN)            \
	X(ic_plen_huge, "ICReq with PLEN FFFFFFFFh", ALIVE, ICREQ, 0, PLEN, 4, UINT32_MAX, HEADER, \
	  PLEN)                                                                                    \
	X(ic_hdgst, "ICReq with HDGSTF", ALIVE, ICREQ, 0, FLAGS, 1, NVME_TCP_F_HDGST, HEADER,      \
	  FLAGS)                                                                                   \
	X(ic_ddgst, "ICReq with DDGSTF", ALIVE, ICREQ, 0, FLAGS, 1, NVME_TCP_F_DDGST, HEADER, FLAGS)

#define HEADER_FIELDS(X)                                                                          \
	X(type_0a, "PDU type 0Ah", ALIVE, FLUSH, 0, TYPE, 1, 0x0a, HEADER, TYPE)                  \
	X(type_08, "PDU type 08h", ALIVE, FLUSH, 0, TYPE, 1, 0x08, HEADER, TYPE)                  \
	X(type_ff, "PDU type FFh", ALIVE, FLUSH, 0, TYPE, 1, 0xff, HEADER, TYPE)                  \
	X(type_icresp, "an ICResp of the host", ALIVE, FLUSH, 0, TYPE, 1, NVME_TCP_ICRESP,        \
	  HEADER | SEQUENCE, -1)                                                                  \
	X(type_c2h_term, "a C2HTermReq of the host", ALIVE, FLUSH, 0, TYPE, 1, NVME_TCP_C2H_TERM, \
	  HEADER | SEQUENCE, -1)                                                                  \
	X(type_rsp, "a CapsuleResp of the host", ALIVE, FLUSH, 0, TYPE, 1, NVME_TCP_RSP,          \
	  HEADER | SEQUENCE, -1)                                                                  \
	X(type_c2h_data, "C2HData of the host", ALIVE, FLUSH, 0, TYPE, 1, NVME_TCP_C2H_DATA,      \
	  HEADER | SEQUENCE, -1)                                                                  \
	X(type_r2t, "an R2T of the host", ALIVE, FLUSH, 0, TYPE, 1, NVME_TCP_R2T,                 \
	  HEADER | SEQUENCE, -1)                                                                  \
	X(hlen_short, "HLEN 71", ALIVE, FLUSH, 0, HLEN, 1, 71, HEADER, HLEN)                      \
	X(hlen_long, "HLEN 73", ALIVE, FLUSH, 0, HLEN, 1, 73, HEADER, HLEN)                       \
	X(hlen_zero, "HLEN 0", ALIVE, FLUSH, 0, HLEN, 1, 0, HEADER, HLEN)                         \
	X(hlen_ff, "HLEN 255", ALIVE, FLUSH, 0, HLEN, 1, 255, HEADER, HLEN)                       \
	X(plen_zero, "PLEN 0", ALIVE, FLUSH, 0, PLEN, 4, 0, HEADER, PLEN)                         \
	X(plen_hdr, "PLEN 8", ALIVE, FLUSH, 0, PLEN, 4, 8, HEADER, PLEN)                          \
	X(plen_short, "PLEN 71", ALIVE, FLUSH, 0, PLEN, 4, 71, HEADER, PLEN)                      \
	X(plen_huge, "PLEN FFFFFFFFh", ALIVE, IN_CAPSULE, 0, PLEN, 4, UINT32_MAX,                 \
	  HEADER | LIMIT | RANGE, -1)                                                             \
	X(hdgst_not_agreed, "HDGSTF that was not agreed on", ALIVE, FLUSH, 0, FLAGS, 1,           \
	  NVME_TCP_F_HDGST, HEADER, FLAGS)                                                        \
	X(ddgst_not_agreed, "DDGSTF that was not agreed on", LOSS, IN_CAPSULE, 0, FLAGS, 1,       \
	  NVME_TCP_F_DDGST, HEADER, FLAGS)                                                        \
	X(pdo_zero, "PDO 0 of a capsule with data", LOSS, IN_CAPSULE, 0, PDO, 1, 0, HEADER, PDO)  \
	X(pdo_inside, "PDO inside the header", LOSS, IN_CAPSULE, 0, PDO, 1, 8, HEADER, PDO)       \
	X(pdo_odd, "a PDO that is not aligned", LOSS, IN_CAPSULE, 0, PDO, 1, 73, HEADER, PDO)

#define TERM_FIELDS(X)                                                                            \
	X(request, "H2CTermReq", ALIVE, TERM, 0, DA(rsvd20), 4, 0, 0, -1)                         \
	X(term_plen_long, "H2CTermReq with PLEN 153", ALIVE, TERM, 0, PLEN, 4, 153, HEADER, PLEN) \
	X(term_plen_short, "H2CTermReq with PLEN 23", ALIVE, TERM, 0, PLEN, 4, 23, HEADER, PLEN)  \
	X(term_hlen, "H2CTermReq with HLEN 72", ALIVE, TERM, 0, HLEN, 1, 72, HEADER, HLEN)

#define DATA_FIELDS(X)                                                                           \
	X(ttag, "a TTAG of no R2T", LOSS, H2C, 0, DA(ttag), 2, 0x5a5a, HEADER | SEQUENCE, -1)    \
	X(ttag_max, "TTAG FFFFh", LOSS, H2C, 0, DA(ttag), 2, 0xffff, HEADER | SEQUENCE, -1)      \
	X(cccid, "a CCCID of another command", LOSS, H2C, 0, DA(cccid), 2, 8, HEADER | SEQUENCE, \
	  -1)                                                                                    \
	X(cccid_max, "CCCID FFFFh", LOSS, H2C, 0, DA(cccid), 2, 0xffff, HEADER | SEQUENCE, -1)   \
	X(datao, "DATAO 4 instead of 0", LOSS, H2C, 0, DA(datao), 4, 4, RANGE | HEADER, -1)      \
	X(datao_beyond, "DATAO beyond the data", LOSS, H2C, 0, DA(datao), 4, 0x100000,           \
	  RANGE | HEADER, -1)                                                                    \
	X(datao_wraps, "DATAO FFFFFFFCh, which wraps", LOSS, H2C, 0, DA(datao), 4, 0xfffffffc,   \
	  RANGE | HEADER, -1)                                                                    \
	X(datal_short, "a DATAL shorter than PLEN says", LOSS, H2C, 0, DA(datal), 4, 4,          \
	  HEADER | RANGE | LIMIT, -1)                                                            \
	X(datal_zero, "DATAL 0", LOSS, H2C, 0, DA(datal), 4, 0, HEADER | RANGE | LIMIT, -1)      \
	X(datal_long, "a DATAL longer than PLEN says", LOSS, H2C_FIRST, 0, DA(datal), 4, 8192,   \
	  HEADER | RANGE | LIMIT, -1)                                                            \
	X(datal_huge, "DATAL FFFFFFFFh", LOSS, H2C, 0, DA(datal), 4, UINT32_MAX,                 \
	  HEADER | RANGE | LIMIT, -1)                                                            \
	X(last_missing, "no LAST_PDU at the end of the data", LOSS, H2C, 0, FLAGS, 1, 0, HEADER, \
	  FLAGS)                                                                                 \
	X(last_early, "LAST_PDU before the end of the data", LOSS, H2C_FIRST, 0, FLAGS, 1,       \
	  NVME_TCP_F_LAST, HEADER | RANGE, -1)                                                   \
	X(h2c_hlen, "H2CData with HLEN 72", LOSS, H2C, 0, HLEN, 1, 72, HEADER, HLEN)             \
	X(h2c_pdo_zero, "H2CData with PDO 0", LOSS, H2C, 0, PDO, 1, 0, HEADER, PDO)              \
	X(h2c_pdo_odd, "H2CData with PDO 25", LOSS, H2C, 0, PDO, 1, 25, HEADER, PDO)             \
	X(h2c_plen_zero, "H2CData with PLEN 0", LOSS, H2C, 0, PLEN, 4, 0, HEADER, PLEN)          \
	X(h2c_plen_head, "H2CData with PLEN 24, without data", LOSS, H2C, 0, PLEN, 4, 24,        \
	  HEADER | RANGE, -1)                                                                    \
	X(h2c_hdgst, "H2CData with HDGSTF that was not agreed on", LOSS, H2C, 0, FLAGS, 1,       \
	  NVME_TCP_F_HDGST | NVME_TCP_F_LAST, HEADER, FLAGS)

#define DIGEST_FIELDS(X)                                                                           \
	X(cmd_wrong, "a wrong header digest of a CapsuleCmd", ALIVE, FLUSH, HD, 72, 4, 0x12345678, \
	  DIGEST, 0x12345678)                                                                      \
	X(h2c_wrong, "a wrong header digest of H2CData", LOSS, H2C, HD, 24, 4, 0x12345678, DIGEST, \
	  0x12345678)                                                                              \
	X(cmd_missing, "a CapsuleCmd without the header digest agreed on", ALIVE, FLUSH, HD,       \
	  FLAGS, 1, 0, HEADER, FLAGS)                                                              \
	X(h2c_missing, "H2CData without the header digest agreed on", LOSS, H2C, HD, FLAGS, 1,     \
	  NVME_TCP_F_LAST, HEADER, FLAGS)                                                          \
	X(data_missing, "H2CData without the data digest agreed on", LOSS, H2C, DD, FLAGS, 1,      \
	  NVME_TCP_F_LAST, HEADER, FLAGS)                                                          \
	X(capsule_missing, "a capsule without the data digest agreed on", LOSS, IN_CAPSULE, DD,    \
	  FLAGS, 1, 0, HEADER, FLAGS)

#define WRONG(name, text, flags, ...) {__VA_ARGS__},
#define NAME(name, ...)               AT_##name,
#define TEST(name, text, flags, ...) \
	{#name, PDUS, text " ends the connection", wrong_field, flags, AT_##name},

static const struct wrong wrong_fields[] = {IC_FIELDS(WRONG) HEADER_FIELDS(WRONG) TERM_FIELDS(WRONG)
						    DATA_FIELDS(WRONG) DIGEST_FIELDS(WRONG)};
enum {
	IC_FIELDS(NAME) HEADER_FIELDS(NAME) TERM_FIELDS(NAME) DATA_FIELDS(NAME) DIGEST_FIELDS(NAME)
};

/* PLEN that announces more than is sent is followed by zeroes: the target shall not wait. */
static void wrong_field(struct rdc *t)
{
	const struct wrong *w = &wrong_fields[t->arg];
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_raw *raw = make_base(t, w, pdu);
	struct nvme_tcp_hdr *hdr = (void *)pdu->b;
	uint32_t value = htole32(w->value);

	memcpy(pdu->b + w->at, &value, w->width);
	/* A header digest that is right for the wrong header, unless it is itself what is wrong. */
	if (hdr->flags & NVME_TCP_F_HDGST && w->dgst & NVME_TCP_HDGST && w->at < hdr->hlen)
		rd_crc32c_put(rd_crc32c(RD_CRC32C_SEED, pdu->b, hdr->hlen), pdu->b + hdr->hlen);
	rdc_tcp_put(raw, pdu->b, pdu->len);
	refused(raw, pdu, w->fes, w->fei);
}

/* ---- ICReq and ICResp ---- */

static void icresp(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.dgst = (uint8_t)t->arg});
	const struct nvme_tcp_icresp *r = &raw->tcp->icresp;

	RDC_CHECK(t, !r->pfv, "PFV %u", le16toh(r->pfv));
	RDC_CHECK(t, r->cpda <= 31, "CPDA %u", r->cpda);
	RDC_CHECK(t, !(r->dgst & ~t->arg), "DGST 0x%02x, but 0x%02x was asked for", r->dgst,
		  t->arg);
	RDC_CHECK(t, le32toh(r->maxh2cdata) >= 4096 && le32toh(r->maxh2cdata) % 4 == 0,
		  "MAXH2CDATA %u", le32toh(r->maxh2cdata));
}

static void digests(struct rdc *t)
{
	round_trip(t, open_io(t, &(struct rdc_dial){.dgst = (uint8_t)t->arg}));
}

/* The data of C2HData has to begin where HPDA says. */
static void hpda(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.hpda = (uint8_t)t->arg});
	unsigned int unit = (t->arg + 1) * 4;

	round_trip(t, io);
	RDC_CHECK(t, io->tcp->c2h_pdo % unit == 0, "PDO %u is no multiple of %u", io->tcp->c2h_pdo,
		  unit);
}

static void maxr2t(struct rdc *t)
{
	round_trip(t, open_io(t, &(struct rdc_dial){.maxr2t = t->arg}));
}

static void ic_twice(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_must_dial(t, &(struct rdc_dial){.qid = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct nvme_tcp_icreq req;

	nvme_tcp_build_icreq(&req, 0);
	memcpy(pdu->b, &req, sizeof(req));
	pdu->len = sizeof(req);
	rdc_tcp_put(raw, pdu->b, pdu->len);
	refused(raw, pdu, SEQUENCE, -1);
}

static void before_icreq(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_dial(t, &(struct rdc_dial){.no_icreq = true});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	const struct nvme_sqe sqe = {.opcode = nvme_admin_keep_alive, .flags = NVME_CMD_PSDT_SGL};
	const struct nvme_tcp_data head = {.datal = htole32(512)};

	if (t->arg == NVME_TCP_CMD)
		rdc_tcp_make(raw, pdu, NVME_TCP_CMD, 0, &sqe, NULL, 0);
	else
		rdc_tcp_make(raw, pdu, (enum nvme_tcp_type)t->arg, 0, &head.cccid, rdc_buf(t, 512),
			     t->arg == NVME_TCP_H2C_DATA ? 512 : 0);
	rdc_tcp_put(raw, pdu->b, pdu->len);
	/* An H2CTermReq is understood at any time. */
	refused(raw, pdu, SEQUENCE, -1);
}

static void foreign(struct rdc *t)
{
	static const char *const starts[] = {
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"MPA ID Req Frame\x40\x01\x00\x20",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	};
	struct rdc_raw *raw = rdc_raw_dial(t, &(struct rdc_dial){.no_icreq = true});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));

	pdu->len = 512;
	memcpy(pdu->b, starts[t->arg], strlen(starts[t->arg]));
	rdc_tcp_put(raw, pdu->b, pdu->len);
	refused(raw, pdu, HEADER | SEQUENCE | UNSUPPORTED, -1);
}

static void ic_half(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_dial(t, &(struct rdc_dial){.no_icreq = true});
	struct nvme_tcp_icreq req;
	char why[200];

	nvme_tcp_build_icreq(&req, 0);
	rdc_tcp_put(raw, &req, t->arg);
	RDC_CHECK(t, !rdc_probe(t, why, sizeof(why)), "with half an ICReq on a connection: %s",
		  why);
}

static void single_bytes(struct rdc_raw *raw, const void *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		rdc_tcp_put(raw, (const uint8_t *)bytes + i, 1);
}

static void ic_bytes(struct rdc *t)
{
	struct rdc_raw *raw = rdc_raw_dial(t, &(struct rdc_dial){.no_icreq = true});
	struct nvme_tcp_icreq req;

	nvme_tcp_build_icreq(&req, 0);
	single_bytes(raw, &req, sizeof(req));
	rdc_raw_until(raw, &raw->up, "ICReq");
	RDC_CHECK(t, raw->up, "the target ended the connection");
}

const struct rdc_test rdc_t_tcp_ic[] = {
	{"icresp", PDUS, "ICResp is correct, without digests that were not asked for", icresp, 0,
	 0},
	{"icresp_hdgst", PDUS, "ICResp agrees to no more than a header digest", icresp, 0, HD},
	{"icresp_ddgst", PDUS, "ICResp agrees to no more than a data digest", icresp, 0, DD},
	{"hdgst", PDUS, "data is exchanged with header digests", digests, RDC_LOSS, HD},
	{"ddgst", PDUS, "data is exchanged with data digests", digests, RDC_LOSS, DD},
	{"both_digests", PDUS, "data is exchanged with both digests", digests, RDC_LOSS, HD | DD},
	{"hpda_1", PDUS, "HPDA 1: C2HData is aligned to 8 bytes", hpda, RDC_LOSS, 1},
	{"hpda_31", PDUS, "HPDA 31: C2HData is aligned to 128 bytes", hpda, RDC_LOSS, 31},
	{"maxr2t_16", PDUS, "a host that takes 16 R2Ts is served", maxr2t, RDC_LOSS, 15},
	{"bytes", PDUS, "an ICReq in single bytes is understood", ic_bytes},
	{"twice", PDUS, "a second ICReq ends the connection", ic_twice, ALIVE},
	{"cmd_first", PDUS, "a CapsuleCmd before ICReq ends the connection", before_icreq, ALIVE,
	 NVME_TCP_CMD},
	{"data_first", PDUS, "H2CData before ICReq ends the connection", before_icreq, ALIVE,
	 NVME_TCP_H2C_DATA},
	{"term_first", PDUS, "an H2CTermReq before ICReq ends the connection", before_icreq, ALIVE,
	 NVME_TCP_H2C_TERM},
	{"tls", PDUS, "TLS on a plain listener ends the connection", foreign, ALIVE, 0},
	{"mpa", PDUS, "an MPA request of iWARP ends the connection", foreign, ALIVE, 1},
	{"http", PDUS, "a request of HTTP ends the connection", foreign, ALIVE, 2},
	{"half", PDUS, "others are served while half an ICReq is here", ic_half, ALIVE, 64},
	{"one_byte", PDUS, "others are served while one byte of an ICReq is here", ic_half, ALIVE,
	 1},
	IC_FIELDS(TEST){NULL},
};

const struct rdc_test rdc_t_tcp_header[] = {HEADER_FIELDS(TEST){NULL}};

const struct rdc_test rdc_t_tcp_term[] = {TERM_FIELDS(TEST){NULL}};

/* ---- H2CData ---- */

/* H2CData that nothing has asked for. */
static void data_unasked(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	const struct nvme_tcp_r2t r2t = {.ttag = 0};

	rdc_tcp_make_h2c(io, pdu, &r2t, 0, 512, true, rdc_buf(t, 512));
	rdc_tcp_put(io, pdu->b, pdu->len);
	refused(io, pdu, SEQUENCE | HEADER, -1);
}

/* The data of a command, twice. */
static void data_again(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_answer a;

	make_h2c(t, io, pdu, false);
	rdc_tcp_put(io, pdu->b, pdu->len);
	RDC_CHECK(t, rdc_raw_answer(io, &a, t->cfg->timeout_ms) == 1, "the Write had no answer");
	rdc_tcp_put(io, pdu->b, pdu->len);
	refused(io, pdu, SEQUENCE | HEADER | RANGE, -1);
}

/* The first half of the data of a command, twice. */
static void data_back(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));

	make_h2c(t, io, pdu, true);
	rdc_tcp_put(io, pdu->b, pdu->len);
	rdc_tcp_put(io, pdu->b, pdu->len);
	refused(io, pdu, RANGE | HEADER, -1);
}

static void data_beyond(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_mem *mem;
	struct nvme_tcp_r2t r2t = ask(t, io, 1, 7, &mem);

	rdc_tcp_make_h2c(io, pdu, &r2t, 0, le32toh(r2t.r2tl) + 512, true,
			 rdc_buf(t, mem->len + 512));
	rdc_tcp_put(io, pdu->b, pdu->len);
	refused(io, pdu, RANGE | HEADER | LIMIT, -1);
}

/* One PDU with more than MAXH2CDATA. Only its begin is sent: the target shall not wait for all. */
static void data_over_max(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct nvme_tcp_data *head = (void *)pdu->b;
	uint32_t over = le32toh(io->tcp->icresp.maxh2cdata) + 4;
	struct rdc_mem *mem;
	struct nvme_tcp_r2t r2t = ask(t, io, 1, 7, &mem);

	rdc_tcp_make_h2c(io, pdu, &r2t, 0, le32toh(r2t.r2tl), true, mem->p);
	head->hdr.plen = htole32((uint32_t)pdu->head + over);
	head->datal = htole32(over);
	rdc_tcp_put(io, pdu->b, pdu->len);
	refused(io, pdu, LIMIT | RANGE | HEADER, -1);
}

/* Answers two R2Ts in the opposite order, each in parts of @arg bytes. */
static void data_parts(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_mem *mem[2];
	struct nvme_tcp_r2t r2t[2];
	struct rdc_answer a;
	unsigned int i;

	for (i = 0; i < 2; i++)
		r2t[i] = ask(t, io, 1, (uint16_t)(20 + i), &mem[i]);
	for (i = 2; i-- > 0;) {
		uint32_t at = 0, len = le32toh(r2t[i].r2tl);

		while (at < len) {
			uint32_t part = len - at < t->arg ? len - at : t->arg;

			rdc_tcp_make_h2c(io, pdu, &r2t[i], at, part, at + part == len, mem[i]->p);
			rdc_tcp_put(io, pdu->b, pdu->len);
			at += part;
		}
		RDC_CHECK(t, rdc_raw_answer(io, &a, t->cfg->timeout_ms) == 1, "no answer");
		RDC_CHECK(t, le16toh(a.cqe.cid) == 20 + i && !(le16toh(a.cqe.status) >> 1),
			  "command id %u, status 0x%04x", le16toh(a.cqe.cid),
			  le16toh(a.cqe.status));
		rdc_must_hold(h, 0, 1, mem[i]->p);
	}
}

static void data_half(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	char why[200];

	make_h2c(t, io, pdu, false);
	rdc_tcp_put(io, pdu->b, t->arg);
	RDC_CHECK(t, !rdc_probe(t, why, sizeof(why)), "with half H2CData on a connection: %s", why);
}

const struct rdc_test rdc_t_tcp_data[] = {
	{"parts", PDUS, "H2CData in parts of 4 bytes, and of commands in any order, is taken",
	 data_parts, RDC_LOSS, 4},
	{"whole", PDUS, "H2CData of commands in any order is taken", data_parts, RDC_LOSS,
	 1u << 20},
	{"unasked", PDUS, "H2CData without an R2T ends the connection", data_unasked, ALIVE},
	{"again", PDUS, "H2CData after all of the data ends the connection", data_again, LOSS},
	{"back", PDUS, "H2CData of a part that was sent ends the connection", data_back, LOSS},
	{"beyond", PDUS, "H2CData longer than its R2T ends the connection", data_beyond, LOSS},
	{"over_max", PDUS, "H2CData longer than MAXH2CDATA ends the connection", data_over_max,
	 LOSS},
	{"half_header", PDUS, "others are served while half a header is here", data_half, LOSS, 12},
	{"half_data", PDUS, "others are served while half of H2CData is here", data_half, LOSS,
	 100},
	DATA_FIELDS(TEST){NULL},
};

/* ---- digests ---- */

/* A wrong data digest fails the command, and need not end the connection. */
static void data_digest(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = DD});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_answer a;

	if (t->arg == H2C)
		make_h2c(t, io, pdu, false);
	else
		make_in_capsule(t, io, pdu, rdc_main(t)->bs);
	pdu->b[pdu->len - 1] ^= 1;
	rdc_tcp_put(io, pdu->b, pdu->len);
	if (rdc_raw_answer(io, &a, t->cfg->timeout_ms) == 1)
		RDC_CHECK(t, (le16toh(a.cqe.status) >> 1 & 0x7ff) == 0x22,
			  "status 0x%04x, expected Transient Transport Error (22h)",
			  le16toh(a.cqe.status) >> 1);
	else
		RDC_CHECK(t, io->over, "neither an answer nor the end of the connection");
}

const struct rdc_test rdc_t_tcp_digest[] = {
	DIGEST_FIELDS(TEST){"data_wrong", PDUS, "a wrong data digest of H2CData fails the Write",
			    data_digest, LOSS, H2C},
	{"capsule_wrong", PDUS, "a wrong data digest of a capsule fails the Write", data_digest,
	 LOSS, IN_CAPSULE},
	{NULL},
};

/* ---- in-capsule data, and the stream ---- */

/* Less data in the capsule than the descriptor says. */
static void capsule_lies(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_answer a;

	make_in_capsule(t, io, pdu, h->bs - 4);
	rdc_tcp_put(io, pdu->b, pdu->len);
	if (rdc_raw_answer(io, &a, t->cfg->timeout_ms) == 1)
		RDC_CHECK(t, le16toh(a.cqe.status) >> 1, "the Write succeeded");
	else
		RDC_CHECK(t, io->over, "neither an answer nor the end of the connection");
}

/* The specification limits the capsule (IOCCSZ) but does not say how to refuse a longer one:
 * targets end the connection, or skip the data and fail the command for its SGL. */
static void capsule_over(struct rdc *t)
{
	struct rdc_host *h = rdc_main(t);
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_answer a;
	unsigned int status;

	if (h->info.in_capsule + 4 > RDC_CAPSULE)
		rdc_not_supported(t, "IOCCSZ: more than this program can exceed");
	make_in_capsule(t, io, pdu, h->info.in_capsule + 4);
	rdc_tcp_put(io, pdu->b, pdu->len);
	if (rdc_raw_answer(io, &a, t->cfg->timeout_ms) != 1) {
		refused(io, pdu, LIMIT | RANGE | HEADER, -1);
		return;
	}
	status = le16toh(a.cqe.status) >> 1 & 0x7ff;
	RDC_CHECK(t, status == NVME_SC_SGL_INVALID_DATA || status == NVME_SC_SGL_INVALID_OFFSET,
		  "status 0x%04x, expected Data SGL Length Invalid (0Fh) or SGL Offset Invalid "
		  "(16h)",
		  le16toh(a.cqe.status) >> 1);
	round_trip(t, io); /* the data was not taken for PDUs */
}

static void capsule_bytes(struct rdc *t)
{
	struct rdc_raw *io = open_io(t, &(struct rdc_dial){.dgst = 0});
	struct rdc_pdu *pdu = rdc_buf(t, sizeof(*pdu));
	struct rdc_answer a;

	make_in_capsule(t, io, pdu, rdc_main(t)->bs);
	single_bytes(io, pdu->b, pdu->len);
	RDC_CHECK(t, rdc_raw_answer(io, &a, t->cfg->timeout_ms) == 1, "no answer");
	RDC_CHECK(t, !(le16toh(a.cqe.status) >> 1), "status 0x%04x", le16toh(a.cqe.status));
}

const struct rdc_test rdc_t_tcp_capsule[] = {
	{"bytes", PDUS, "a capsule in single bytes is understood", capsule_bytes, RDC_LOSS},
	{"short", PDUS, "a Write with less data in the capsule than its SGL says fails",
	 capsule_lies, LOSS},
	{"over", "TCP 3.4",
	 "more data in a capsule than IOCCSZ allows fails the command or ends the connection",
	 capsule_over, LOSS},
	{NULL},
};
