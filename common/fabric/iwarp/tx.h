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

/* The point in a connection's outgoing messages from which the next FPDU is framed. */
struct rd_iw_cursor {
	uint32_t sq;   /* work request, counting from 0 over the connection's life */
	uint32_t resp; /* inbound READ, likewise */
	uint32_t off;  /* bytes of the current message already framed */
	uint32_t send_msn;
	uint32_t read_msn;
	uint16_t reads_out; /* READs on the wire or framed for it */
	uint8_t burst;      /* responses begun since the last work request */
	uint8_t src;        /* enum rd_iw_src: the message begun and not finished */
	bool poke;          /* an empty Write is due */
};

/* An FPDU in the making: its bytes are in the arena, its payload where the user has it; or, when it
 * is copied, between header and trailer. */
struct rd_iw_fpdu {
	struct rd_iw_cursor from; /* the state before it */
	uint8_t src;
	uint8_t hdr_len;
	uint8_t trail_len;
	uint8_t copied; /* bytes of payload in the arena: all or none */
	bool last;      /* ends its message */
	uint16_t run;   /* not 0: so many plain ones; only @from is set, the first one's */
	uint32_t plen;
	uint32_t arena_off; /* header; what else of it is in the arena follows */
};

struct rd_iw_tx {
	struct rd_iw_cursor cur; /* of the FPDU after the partly sent one */
	struct rd_iw_fpdu part;  /* partly sent, when part_sent > 0 */
	uint32_t part_sent;
	uint8_t part_bytes[RD_IW_MAX_HDR + RD_MPA_MAX_TRAIL + 1];
	bool blocked;      /* the socket is full: wait for EPOLLOUT */
	bool hold;         /* nothing may be sent yet */
	uint8_t rtr;       /* enum rd_iw_rtr: to be sent first */
	uint16_t max_fpdu; /* with CRC: must fit a TCP segment */
	uint16_t mss_age;  /* transmissions since it was read */
	uint64_t poke_ns;  /* until the next poke */
};

/* Ask for transmission at the end of the loop's turn. */
void rd_iw_tx_kick(struct rd_iw_conn *c);
/* Transmit what can be transmitted now. May end the connection. */
void rd_iw_tx_run(struct rd_iw_conn *c);
/* Best effort: a Terminate, unless an FPDU is partly sent. @bad as in rd_iw_term_build(). */
void rd_iw_tx_term(struct rd_iw_conn *c, uint32_t code, const uint8_t *bad, size_t bad_len);
/* The peer spoke, or the time is over: work requests may leave. */
void rd_iw_tx_release(struct rd_iw_conn *c);
/* Send an empty Write, which any peer takes and ignores. */
void rd_iw_tx_poke(struct rd_iw_conn *c);

#endif /* RD_IW_TX_H */
