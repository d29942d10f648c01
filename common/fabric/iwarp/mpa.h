/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA startup frames: build, parse, negotiate. Pure functions over bytes, no sockets, no state. */
#ifndef RD_IW_MPA_H
#define RD_IW_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Which message a peer-to-peer initiator sends first (RFC 6581 section 4.2). */
enum rd_iw_rtr {
	RD_IW_RTR_NONE,
	RD_IW_RTR_SEND,
	RD_IW_RTR_WRITE,
	RD_IW_RTR_READ,
};

/* A request or a reply. */
struct rd_iw_mpa {
	bool reply;
	bool markers;
	bool crc;
	bool reject; /* replies only */
	bool enhanced;
	uint8_t revision;
	/* With @enhanced only: */
	bool p2p; /* A; without it the RTR bits are sent as zero and read as zero */
	bool rtr_send;
	bool rtr_write;
	bool rtr_read;
	uint16_t ird;
	uint16_t ord;
	/* The ULP's private data, without the enhanced block; points into the frame parsed. */
	const void *pd;
	size_t pd_len;
};

/* Write @m to @buf of RD_MPA_MAX_LEN bytes. Returns the length, or -EMSGSIZE. */
int rd_iw_mpa_build(const struct rd_iw_mpa *m, uint8_t *buf);

/*
 * Returns how many bytes the frame that starts with these @len bytes has (at least a header), or
 * -EPROTO, with *@why, if they cannot start a frame of the requested kind.
 */
int rd_iw_mpa_length(const uint8_t *buf, size_t len, bool reply, const char **why);

/*
 * Parses a complete frame that rd_iw_mpa_length() has accepted. Returns 0, or -EPROTO with *@why.
 */
int rd_iw_mpa_parse(const uint8_t *buf, size_t len, bool reply, struct rd_iw_mpa *m,
		    const char **why);

/* READ depths that a side offers or uses. */
struct rd_iw_depths {
	uint16_t ird;
	uint16_t ord;
};

/*
 * Builds the responder's answer to @req: sets flags, revision and depths of @reply (not its private
 * data), and *@eff to the depths that this side then uses. @want: what the ULP allows.
 */
void rd_iw_mpa_answer(const struct rd_iw_mpa *req, const struct rd_iw_depths *want, bool crc,
		      struct rd_iw_mpa *reply, struct rd_iw_depths *eff);

/*
 * Checks the reply to @req for the initiator: sets *@eff and *@rtr to what it must use. Returns 0,
 * or -EPROTO with *@why and the Terminate code (RD_TERM_*) in *@term.
 */
int rd_iw_mpa_check(const struct rd_iw_mpa *req, const struct rd_iw_mpa *reply,
		    struct rd_iw_depths *eff, enum rd_iw_rtr *rtr, uint32_t *term,
		    const char **why);

#endif /* RD_IW_MPA_H */
