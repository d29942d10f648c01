/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iWARP on the wire: MPA (RFC 5044, 6581), DDP (RFC 5041), RDMAP (RFC 5040). Layout only, no logic.
 * Every field is big-endian; all structures consist of bytes, so they may lie at any address.
 */
#ifndef RD_IW_WIRE_H
#define RD_IW_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

struct rd_be16 {
	uint8_t b[2];
};
struct rd_be32 {
	uint8_t b[4];
};
struct rd_be64 {
	uint8_t b[8];
};

static inline uint16_t rd_get_be16(struct rd_be16 v)
{
	uint16_t x;

	memcpy(&x, v.b, sizeof(x));
	return be16toh(x);
}

static inline uint32_t rd_get_be32(struct rd_be32 v)
{
	uint32_t x;

	memcpy(&x, v.b, sizeof(x));
	return be32toh(x);
}

static inline uint64_t rd_get_be64(struct rd_be64 v)
{
	uint64_t x;

	memcpy(&x, v.b, sizeof(x));
	return be64toh(x);
}

static inline struct rd_be16 rd_put_be16(uint16_t x)
{
	struct rd_be16 v;

	x = htobe16(x);
	memcpy(v.b, &x, sizeof(x));
	return v;
}

static inline struct rd_be32 rd_put_be32(uint32_t x)
{
	struct rd_be32 v;

	x = htobe32(x);
	memcpy(v.b, &x, sizeof(x));
	return v;
}

static inline struct rd_be64 rd_put_be64(uint64_t x)
{
	struct rd_be64 v;

	x = htobe64(x);
	memcpy(v.b, &x, sizeof(x));
	return v;
}

/* ---- MPA request and reply (RFC 5044 section 7.1.1) ---- */

#define RD_MPA_KEY_LEN 16
#define RD_MPA_KEY_REQ "MPA ID Req Frame"
#define RD_MPA_KEY_REP "MPA ID Rep Frame"

struct rd_mpa_hdr {
	uint8_t key[RD_MPA_KEY_LEN];
	uint8_t flags;
	uint8_t revision;
	struct rd_be16 pd_len;
};
static_assert(sizeof(struct rd_mpa_hdr) == 20, "RFC 5044 figure 6");

#define RD_MPA_F_MARKERS  0x80 /* the sender requires markers in what it receives */
#define RD_MPA_F_CRC      0x40
#define RD_MPA_F_REJECT   0x20
#define RD_MPA_F_ENHANCED 0x10 /* RFC 6581: private data starts with struct rd_mpa_enh */

#define RD_MPA_REVISION   2
#define RD_MPA_MAX_PD     512 /* with the enhanced block */
#define RD_MPA_MAX_LEN    (sizeof(struct rd_mpa_hdr) + RD_MPA_MAX_PD)

/* RFC 6581 section 4.1 */
struct rd_mpa_enh {
	struct rd_be16 ird;
	struct rd_be16 ord;
};
static_assert(sizeof(struct rd_mpa_enh) == 4, "RFC 6581 figure 1");

#define RD_MPA_ENH_A       0x8000 /* in ird: peer-to-peer model */
#define RD_MPA_ENH_B       0x4000 /* in ird: zero-length Send as RTR */
#define RD_MPA_ENH_C       0x8000 /* in ord: zero-length Write as RTR */
#define RD_MPA_ENH_D       0x4000 /* in ord: zero-length Read as RTR */
#define RD_MPA_ENH_DEPTH   0x3fff
#define RD_MPA_ENH_NO_NEGO 0x3fff /* "do not negotiate this depth" */

/* ---- DDP and RDMAP control bytes ---- */

#define RD_DDP_TAGGED    0x80
#define RD_DDP_LAST      0x40
#define RD_DDP_VERSION   0x01
#define RD_DDP_VMASK     0x03

#define RD_RDMAP_VERSION 0x40
#define RD_RDMAP_VMASK   0xc0
#define RD_RDMAP_OPMASK  0x0f

enum rd_rdmap_op {
	RD_RDMAP_WRITE = 0,
	RD_RDMAP_READ_REQ = 1,
	RD_RDMAP_READ_RESP = 2,
	RD_RDMAP_SEND = 3,
	RD_RDMAP_SEND_INV = 4,
	RD_RDMAP_SEND_SE = 5,
	RD_RDMAP_SEND_SE_INV = 6,
	RD_RDMAP_TERMINATE = 7,
};

enum rd_ddp_qn {
	RD_DDP_QN_SEND = 0,
	RD_DDP_QN_READ = 1,
	RD_DDP_QN_TERM = 2,
};

/* The start of every FPDU. @len: bytes that follow it, without pad and CRC. */
struct rd_ddp_ctrl {
	struct rd_be16 len;
	uint8_t ddp;
	uint8_t rdmap;
};
static_assert(sizeof(struct rd_ddp_ctrl) == 4, "RFC 5044 and 5041");

struct rd_ddp_tagged {
	struct rd_ddp_ctrl ctrl;
	struct rd_be32 stag;
	struct rd_be64 to;
};
static_assert(sizeof(struct rd_ddp_tagged) == 16, "RFC 5041 figure 4");

struct rd_ddp_untagged {
	struct rd_ddp_ctrl ctrl;
	struct rd_be32 inv_stag; /* zero except in Sends with Invalidate */
	struct rd_be32 qn;
	struct rd_be32 msn;
	struct rd_be32 mo;
};
static_assert(sizeof(struct rd_ddp_untagged) == 20, "RFC 5041 figure 5");

struct rd_rdmap_read_req {
	struct rd_ddp_untagged ddp;
	struct rd_be32 sink_stag;
	struct rd_be64 sink_to;
	struct rd_be32 size;
	struct rd_be32 src_stag;
	struct rd_be64 src_to;
};
static_assert(sizeof(struct rd_rdmap_read_req) == 48, "RFC 5040 figure 6");

#define RD_MPA_LEN_FIELD 2 /* sizeof(rd_ddp_ctrl.len): not counted in itself */
#define RD_MPA_CRC_LEN   4
#define RD_MPA_MAX_ULPDU 65535
#define RD_MPA_MAX_TRAIL (3 + RD_MPA_CRC_LEN)
#define RD_IW_MAX_HDR    sizeof(struct rd_rdmap_read_req)

/* ---- Terminate (RFC 5040 section 4.8) ---- */

struct rd_rdmap_term {
	struct rd_ddp_untagged ddp;
	uint8_t layer_etype; /* layer in the high nibble; siw swaps the nibbles */
	uint8_t code;
	uint8_t hdrct; /* RD_TERM_*; siw uses the three low bits in reverse order */
	uint8_t reserved;
	/* then, as hdrct says: segment length (2), DDP header (14 or 18), Read Request header (28)
	 */
};
static_assert(sizeof(struct rd_rdmap_term) == 24, "RFC 5040 figure 9");

#define RD_TERM_M           0x80 /* the segment length is valid */
#define RD_TERM_D           0x40 /* the DDP header is included */
#define RD_TERM_R           0x20 /* the Read Request header is included */

#define RD_TERM_MAX_PAYLOAD (4 + 2 + 18 + 28)
#define RD_TERM_MAX_LEN     (sizeof(struct rd_ddp_untagged) + RD_TERM_MAX_PAYLOAD)

/* layer << 16 | error type << 8 | code */
#define RD_TERM(layer, etype, code) ((uint32_t)(layer) << 16 | (uint32_t)(etype) << 8 | (code))

#define RD_TERM_LOCAL_CATASTROPHIC  RD_TERM(0, 0, 0)
#define RD_TERM_RP_STAG             RD_TERM(0, 1, 0)
#define RD_TERM_RP_BOUNDS           RD_TERM(0, 1, 1)
#define RD_TERM_RP_ACCESS           RD_TERM(0, 1, 2)
#define RD_TERM_RP_NOT_ASSOC        RD_TERM(0, 1, 3)
#define RD_TERM_RP_WRAP             RD_TERM(0, 1, 4)
#define RD_TERM_RP_CANNOT_INV       RD_TERM(0, 1, 9)
#define RD_TERM_RO_VERSION          RD_TERM(0, 2, 5)
#define RD_TERM_RO_OPCODE           RD_TERM(0, 2, 6)
#define RD_TERM_RO_STREAM           RD_TERM(0, 2, 7) /* also: more READs than our IRD */
#define RD_TERM_RO_GLOBAL           RD_TERM(0, 2, 8)
#define RD_TERM_RO_CANNOT_INV       RD_TERM(0, 2, 9)
#define RD_TERM_DDP_LOCAL           RD_TERM(1, 0, 0)
#define RD_TERM_DT_STAG             RD_TERM(1, 1, 0)
#define RD_TERM_DT_BOUNDS           RD_TERM(1, 1, 1)
#define RD_TERM_DT_NOT_ASSOC        RD_TERM(1, 1, 2)
#define RD_TERM_DT_WRAP             RD_TERM(1, 1, 3)
#define RD_TERM_DT_VERSION          RD_TERM(1, 1, 4)
#define RD_TERM_DU_QN               RD_TERM(1, 2, 1)
#define RD_TERM_DU_NO_BUFFER        RD_TERM(1, 2, 2)
#define RD_TERM_DU_MSN              RD_TERM(1, 2, 3)
#define RD_TERM_DU_MO               RD_TERM(1, 2, 4)
#define RD_TERM_DU_TOO_LONG         RD_TERM(1, 2, 5)
#define RD_TERM_DU_VERSION          RD_TERM(1, 2, 6)
#define RD_TERM_MPA_CLOSED          RD_TERM(2, 0, 1)
#define RD_TERM_MPA_CRC             RD_TERM(2, 0, 2)
#define RD_TERM_MPA_LENGTH          RD_TERM(2, 0, 3)
#define RD_TERM_MPA_STARTUP         RD_TERM(2, 0, 4)
#define RD_TERM_MPA_LOCAL           RD_TERM(2, 0, 5)
#define RD_TERM_MPA_IRD             RD_TERM(2, 0, 6)
#define RD_TERM_MPA_RTR             RD_TERM(2, 0, 7)

#endif /* RD_IW_WIRE_H */
