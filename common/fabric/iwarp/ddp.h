/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segments, the MPA CRC and Terminate messages: pure functions over bytes. */
#ifndef RD_IW_DDP_H
#define RD_IW_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* ---- headers: each returns its length; @plen is the payload of this segment ---- */

static inline struct rd_ddp_ctrl rd_iw_put_ctrl(enum rd_rdmap_op op, bool tagged, bool last,
						size_t hdr_len, uint32_t plen)
{
	return (struct rd_ddp_ctrl){
		.len = rd_put_be16((uint16_t)(hdr_len - RD_MPA_LEN_FIELD + plen)),
		.ddp = (uint8_t)((tagged ? RD_DDP_TAGGED : 0) | (last ? RD_DDP_LAST : 0) |
				 RD_DDP_VERSION),
		.rdmap = (uint8_t)(RD_RDMAP_VERSION | op),
	};
}

static inline size_t rd_iw_put_tagged(uint8_t *buf, enum rd_rdmap_op op, bool last, uint32_t stag,
				      uint64_t to, uint32_t plen)
{
	struct rd_ddp_tagged h = {
		.ctrl = rd_iw_put_ctrl(op, true, last, sizeof(h), plen),
		.stag = rd_put_be32(stag),
		.to = rd_put_be64(to),
	};

	memcpy(buf, &h, sizeof(h));
	return sizeof(h);
}

static inline size_t rd_iw_put_untagged(uint8_t *buf, enum rd_rdmap_op op, bool last,
					uint32_t inv_stag, enum rd_ddp_qn qn, uint32_t msn,
					uint32_t mo, uint32_t plen)
{
	struct rd_ddp_untagged h = {
		.ctrl = rd_iw_put_ctrl(op, false, last, sizeof(h), plen),
		.inv_stag = rd_put_be32(inv_stag),
		.qn = rd_put_be32(qn),
		.msn = rd_put_be32(msn),
		.mo = rd_put_be32(mo),
	};

	memcpy(buf, &h, sizeof(h));
	return sizeof(h);
}

struct rd_iw_read {
	uint32_t sink_stag;
	uint32_t size;
	uint64_t sink_to;
	uint64_t src_to;
	uint32_t src_stag;
};

size_t rd_iw_put_read_req(uint8_t *buf, uint32_t msn, const struct rd_iw_read *rd);

/* A parsed header. */
struct rd_iw_hdr {
	enum rd_rdmap_op op;
	bool tagged;
	bool last;
	uint32_t plen; /* payload that follows the header in this FPDU */
	/* tagged */
	uint32_t stag;
	uint64_t to;
	/* untagged */
	uint32_t inv_stag;
	uint32_t qn;
	uint32_t msn;
	uint32_t mo;
	struct rd_iw_read read; /* RD_RDMAP_READ_REQ */
};

/*
 * Returns the length of the header that starts with the control bytes @c, counted from the length
 * field; the payload of a Read Request counts as header. Returns 0, with the Terminate code in
 * *@term, for an invalid frame.
 */
size_t rd_iw_hdr_length(const struct rd_ddp_ctrl *c, uint32_t *term);
/* Parse a header that rd_iw_hdr_length() has accepted. */
void rd_iw_hdr_parse(const uint8_t *buf, struct rd_iw_hdr *hdr);

static inline uint32_t rd_iw_pad(uint32_t ulpdu_and_len)
{
	return -ulpdu_and_len & 3;
}

/*
 * Returns the length of the FPDU that starts with @c, with pad and CRC. *@ulpdu: its length without
 * them.
 */
static inline uint32_t rd_iw_fpdu_length(const struct rd_ddp_ctrl *c, uint32_t *ulpdu)
{
	*ulpdu = RD_MPA_LEN_FIELD + rd_get_be16(c->len);
	return *ulpdu + rd_iw_pad(*ulpdu) + RD_MPA_CRC_LEN;
}

/* ---- Terminate ---- */

/*
 * Builds a Terminate FPDU without pad and CRC in @buf, of RD_TERM_MAX_LEN bytes. @bad: the header
 * of the offending FPDU as received, @bad_len bytes from the length field on, or NULL. Returns the
 * length.
 */
size_t rd_iw_term_build(uint8_t *buf, uint32_t code, const uint8_t *bad, size_t bad_len);

/*
 * Describes a received Terminate (from its control word on) in @text. Returns its code as
 * RD_TERM().
 */
#define RD_IW_TERM_TEXT 128
uint32_t rd_iw_term_decode(const uint8_t *payload, size_t len, char text[RD_IW_TERM_TEXT]);

/* The name of a Terminate code. Never NULL. */
const char *rd_iw_term_name(uint32_t code);

#endif /* RD_IW_DDP_H */
