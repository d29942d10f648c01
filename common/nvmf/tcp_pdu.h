/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe/TCP on the wire (NVMe/TCP Transport 1.0, 3.6): the PDUs, how a receiver checks them, how a
 * sender builds them, and their digests. All fields are little-endian. Pure functions.
 *
 * A PDU is: header of HLEN bytes, header digest, padding up to PDO, data, data digest. A receiver
 * reads the 8 bytes of struct nvme_tcp_hdr, calls nvme_tcp_check(), reads the rest of the header
 * with its digest, calls nvme_tcp_check_hdgst() and, for PDUs with data, nvme_tcp_check_data();
 * then padding, data and data digest, whose lengths nvme_tcp_check() has told.
 */
#ifndef RD_NVMF_TCP_PDU_H
#define RD_NVMF_TCP_PDU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/crc32c.h"
#include "wire.h"

#define NVME_TCP_DISC_PORT 8009 /* default of discovery */

/* Of SGL descriptors: data that the transport moves, in PDUs of its own. Address: 0. */
#define NVME_SGL_TCP_DATA NVME_SGL_TYPE(0x5, 0xa)
/* Fabrics commands, and commands of admin queues: most data in the capsule, whatever IOCCSZ is. */
#define NVME_TCP_ADMIN_IN_CAPSULE 8192u

enum nvme_tcp_type {
	NVME_TCP_ICREQ = 0x00,
	NVME_TCP_ICRESP = 0x01,
	NVME_TCP_H2C_TERM = 0x02,
	NVME_TCP_C2H_TERM = 0x03,
	NVME_TCP_CMD = 0x04,
	NVME_TCP_RSP = 0x05,
	NVME_TCP_H2C_DATA = 0x06,
	NVME_TCP_C2H_DATA = 0x07,
	NVME_TCP_R2T = 0x09,
};

/* FLAGS */
#define NVME_TCP_F_HDGST   0x01 /* a header digest follows the header */
#define NVME_TCP_F_DDGST   0x02 /* a data digest follows the data */
#define NVME_TCP_F_LAST    0x04 /* H2CData, C2HData: the last PDU of the transfer */
#define NVME_TCP_F_SUCCESS 0x08 /* C2HData: the command is completed, without a CapsuleResp */

/* DGST of ICReq and ICResp */
#define NVME_TCP_HDGST 0x01
#define NVME_TCP_DDGST 0x02

struct nvme_tcp_hdr { /* the common header */
	__u8 type;
	__u8 flags;
	__u8 hlen;
	__u8 pdo;
	__le32 plen;
};
_Static_assert(sizeof(struct nvme_tcp_hdr) == 8, "common header");

struct nvme_tcp_icreq {
	struct nvme_tcp_hdr hdr;
	__le16 pfv;
	__u8 hpda; /* 0's based dwords */
	__u8 dgst;
	__le32 maxr2t; /* 0's based */
	__u8 rsvd16[112];
};
_Static_assert(sizeof(struct nvme_tcp_icreq) == 128, "ICReq");

struct nvme_tcp_icresp {
	struct nvme_tcp_hdr hdr;
	__le16 pfv;
	__u8 cpda; /* 0's based dwords */
	__u8 dgst;
	__le32 maxh2cdata; /* bytes, a multiple of 4, at least 4096 */
	__u8 rsvd16[112];
};
_Static_assert(sizeof(struct nvme_tcp_icresp) == 128, "ICResp");

struct nvme_tcp_term { /* H2CTermReq and C2HTermReq; the offending header follows */
	struct nvme_tcp_hdr hdr;
	__le16 fes;
	__u8 fei[4];
	__u8 rsvd14[10];
};
_Static_assert(sizeof(struct nvme_tcp_term) == 24, "TermReq");

struct nvme_tcp_cmd {
	struct nvme_tcp_hdr hdr;
	struct nvme_sqe sqe;
};
_Static_assert(sizeof(struct nvme_tcp_cmd) == 72, "CapsuleCmd");

struct nvme_tcp_rsp {
	struct nvme_tcp_hdr hdr;
	struct nvme_cqe cqe;
};
_Static_assert(sizeof(struct nvme_tcp_rsp) == 24, "CapsuleResp");

struct nvme_tcp_data { /* H2CData and C2HData */
	struct nvme_tcp_hdr hdr;
	__le16 cccid;
	__le16 ttag; /* C2HData: reserved */
	__le32 datao;
	__le32 datal;
	__le32 rsvd20;
};
_Static_assert(sizeof(struct nvme_tcp_data) == 24, "H2CData and C2HData");

struct nvme_tcp_r2t {
	struct nvme_tcp_hdr hdr;
	__le16 cccid;
	__le16 ttag;
	__le32 r2to;
	__le32 r2tl;
	__le32 rsvd20;
};
_Static_assert(sizeof(struct nvme_tcp_r2t) == 24, "R2T");

#define NVME_TCP_TERM_MAX 152u /* with the offending header */
#define NVME_TCP_HLEN_MAX 128u
#define NVME_TCP_HEAD_MAX (NVME_TCP_HLEN_MAX + RD_CRC32C_LEN)
/* longest padding: PDO is one byte, and no PDU with data has a shorter header */
#define NVME_TCP_PAD_MAX (255u - 24u)

/* Of TermReq PDUs: FES */
enum nvme_tcp_fes {
	NVME_TCP_FES_HEADER = 1,      /* invalid PDU header field; FEI: its offset */
	NVME_TCP_FES_SEQUENCE = 2,    /* PDU sequence error */
	NVME_TCP_FES_HDGST = 3,       /* header digest error; FEI: the digest received */
	NVME_TCP_FES_RANGE = 4,       /* data transfer out of range */
	NVME_TCP_FES_LIMIT = 5,       /* data transfer limit, or R2T limit, exceeded */
	NVME_TCP_FES_UNSUPPORTED = 6, /* unsupported parameter; FEI: its offset */
};

/* Why a PDU is refused. */
struct nvme_tcp_error {
	enum nvme_tcp_fes fes;
	uint32_t fei;
	const char *what; /* a static sentence for the log */
};

/* What was agreed on by ICReq and ICResp. */
struct nvme_tcp_rules {
	bool from_host; /* the peer is a host */
	bool hdgst;
	bool ddgst;
	uint8_t pda; /* of data that is received: CPDA at a controller, HPDA at a host */
};

/* Lengths of the parts of a PDU, in this order. */
struct nvme_tcp_parts {
	uint32_t head; /* header with its digest */
	uint32_t pad;
	uint32_t data;
	uint32_t ddgst; /* 0 or 4 */
};

/*
 * Checks the common header of a PDU that has just begun to arrive. Returns true and its lengths, or
 * false and the reason. Whether the PDU may come now, and whether so much data may come, the caller
 * decides. The data of a TermReq is the header of which it complains.
 */
bool nvme_tcp_check(const struct nvme_tcp_hdr *hdr, const struct nvme_tcp_rules *rules,
		    struct nvme_tcp_parts *parts, struct nvme_tcp_error *error);
/* @head: the header with its digest, complete. */
bool nvme_tcp_check_hdgst(const void *head, struct nvme_tcp_error *error);
/* H2CData and C2HData: does DATAL agree with PLEN? */
bool nvme_tcp_check_data(const struct nvme_tcp_data *pdu, const struct nvme_tcp_parts *parts,
			 struct nvme_tcp_error *error);

/* ---- building ---- */

/*
 * Completes a PDU whose fields behind the common header are set: type, HLEN, PDO and PLEN for @data
 * bytes, digest flags as agreed, and the header digest in the 4 bytes behind the header. @flags:
 * NVME_TCP_F_LAST and NVME_TCP_F_SUCCESS. @pda: the alignment that the receiver asked for. Returns
 * how many bytes to send before the data: header, digest, and padding, whose bytes are zeroed in
 * @pdu. The data digest, if agreed and @data is not 0, is the caller's.
 */
size_t nvme_tcp_seal(void *pdu, enum nvme_tcp_type type, uint8_t flags, uint32_t data, uint8_t pda,
		     bool hdgst, bool ddgst);
/* All of them zero what they do not set. */
void nvme_tcp_build_icreq(struct nvme_tcp_icreq *pdu, uint8_t dgst);
void nvme_tcp_build_icresp(struct nvme_tcp_icresp *pdu, uint8_t dgst, uint32_t maxh2cdata);
/* A TermReq of NVME_TCP_TERM_MAX bytes at most; @bad: the offending header, as much as came.
 * Returns its length. */
size_t nvme_tcp_build_term(uint8_t *buf, enum nvme_tcp_type type, const struct nvme_tcp_error *why,
			   const void *bad, size_t bad_len);

static inline uint32_t nvme_tcp_term_fei(const struct nvme_tcp_term *pdu)
{
	uint32_t fei;

	memcpy(&fei, pdu->fei, sizeof(fei));
	return le32toh(fei);
}

/* ---- names ---- */

const char *nvme_tcp_type_text(unsigned int type); /* "CapsuleCmd"; never NULL */
/* "Invalid PDU Header Field (FES 1), PLEN (FEI 4)". Returns @buf. */
#define NVME_TCP_TERM_TEXT 96
const char *nvme_tcp_term_text(unsigned int fes, uint32_t fei, char buf[NVME_TCP_TERM_TEXT]);

#endif /* RD_NVMF_TCP_PDU_H */
