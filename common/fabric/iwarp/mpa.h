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
 * How long the frame that starts with these @len bytes is. Returns the number of bytes needed
 * (never less than a header), or -EPROTO when what is there cannot be an MPA frame of the kind
 * asked for, with *@why.
 */
int rd_iw_mpa_length(const uint8_t *buf, size_t len, bool reply, const char **why);

/* Parse a whole frame that rd_iw_mpa_length() has accepted. Returns 0 or -EPROTO with *@why. */
int rd_iw_mpa_parse(const uint8_t *buf, size_t len, bool reply, struct rd_iw_mpa *m,
		    const char **why);

/* What a responder or an initiator is prepared to do. */
struct rd_iw_depths {
	uint16_t ird;
	uint16_t ord;
};

/*
 * The responder's answer to @req: flags, revision and depths of @reply (private data is left
 * alone), and in
 * *@eff what this side then uses. @want is what the ULP allows.
 */
void rd_iw_mpa_answer(const struct rd_iw_mpa *req, const struct rd_iw_depths *want, bool crc,
		      struct rd_iw_mpa *reply, struct rd_iw_depths *eff);

/*
 * The initiator's look at the reply to @req: *@eff and *@rtr are what it has to use. Returns 0, or
 * -EPROTO with *@why and the Terminate code (RD_TERM_*) in *@term.
 */
int rd_iw_mpa_check(const struct rd_iw_mpa *req, const struct rd_iw_mpa *reply,
		    struct rd_iw_depths *eff, enum rd_iw_rtr *rtr, uint32_t *term,
		    const char **why);

#endif /* RD_IW_MPA_H */
