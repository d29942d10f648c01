/* SPDX-License-Identifier: BSD-3-Clause */
/* Transmission: the state of a connection's outgoing stream. tx.c. */
#ifndef RD_IW_TX_H
#define RD_IW_TX_H

#include "ddp.h"

struct rd_iw_conn;

enum rd_iw_src {
	RD_IW_SRC_NONE, /* between messages */
	RD_IW_SRC_RTR,
	RD_IW_SRC_POKE,
	RD_IW_SRC_SQ,
	RD_IW_SRC_RESP,
};

/* A position in a connection's outgoing messages: where the next FPDU is framed from. */
struct rd_iw_cursor {
	uint32_t sq;   /* index of the work request */
	uint32_t resp; /* index of the inbound READ that is to be answered */
	uint32_t off;  /* bytes of the current message already framed */
	uint32_t send_msn;
	uint32_t read_msn;
	uint16_t reads_out; /* READs framed or sent whose responses have not arrived */
	uint8_t burst;      /* responses begun since the last work request */
	uint8_t src;        /* enum rd_iw_src: of the message that is partly framed */
	bool poke;          /* an empty WRITE is to be sent */
};

/*
 * A framed FPDU, or a run of them. Header and trailer are in the arena of the batch; the payload is
 * in the user's memory or, if it is copied, between header and trailer.
 */
struct rd_iw_fpdu {
	struct rd_iw_cursor from; /* the cursor before it was framed */
	uint8_t src;
	uint8_t hdr_len;
	uint8_t trail_len;
	uint8_t copied; /* bytes of payload in the arena: all or none */
	bool last;      /* the last FPDU of its message */
	uint16_t run; /* not 0: a run of so many one-FPDU work requests; only @from is valid too */
	uint32_t plen;
	uint32_t arena_off; /* of the header; its other bytes in the arena follow */
};

struct rd_iw_tx {
	struct rd_iw_cursor cur; /* of the next FPDU; not the one that is partly sent */
	struct rd_iw_fpdu part;  /* the partly sent FPDU, if part_sent > 0 */
	uint32_t part_sent;      /* bytes of it that have left */
	uint8_t part_bytes[RD_IW_MAX_HDR + RD_MPA_MAX_TRAIL + 1];
	bool blocked;      /* the socket is full: wait for EPOLLOUT */
	bool hold;         /* no work request may be sent yet: see rd_iw_tx_release() */
	uint8_t rtr;       /* enum rd_iw_rtr: the ready-to-receive message, sent first */
	uint16_t max_fpdu; /* with CRC: bytes that fit a TCP segment */
	uint16_t mss_age;  /* transmissions since TCP's MSS was read */
	uint64_t poke_ns;  /* until the next empty WRITE */
	uint64_t turn;     /* of the loop, in which it has sent @turn_bytes */
	size_t turn_bytes;
};

/* Schedules rd_iw_tx_run() for the SEND phase of this iteration. */
void rd_iw_tx_kick(struct rd_iw_conn *c);
/* Sends as much as the socket takes. Can end the connection. */
void rd_iw_tx_run(struct rd_iw_conn *c);
/* Sends a Terminate, unless an FPDU is partly sent or the socket is full. @bad: see
 * rd_iw_term_build(). */
void rd_iw_tx_term(struct rd_iw_conn *c, uint32_t code, const uint8_t *bad, size_t bad_len);
/* Ends the hold: the peer's first FPDU has arrived, or the time of the hold is over. */
void rd_iw_tx_release(struct rd_iw_conn *c);
/* Sends an empty WRITE, which every peer accepts and ignores. */
void rd_iw_tx_poke(struct rd_iw_conn *c);

#endif /* RD_IW_TX_H */
