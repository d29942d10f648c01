/* SPDX-License-Identifier: BSD-3-Clause */
/* Reception: the state of a connection's incoming stream. rx.c, fpdu.c, rx_fast.c. */
#ifndef RD_IW_RX_H
#define RD_IW_RX_H

#include <sys/queue.h>
#include <sys/uio.h>

#include "ddp.h"
#include "rx_ack.h"

struct rd_iw_conn;
struct rd_iw_rwr;

enum rd_iw_rx_state {
	RD_IW_RX_HEADER,  /* collecting a header; complete: PAYLOAD or TRAILER */
	RD_IW_RX_PAYLOAD, /* @left bytes to place; none left: TRAILER */
	RD_IW_RX_TRAILER, /* pad and CRC; complete: act on the FPDU, then HEADER */
};

#define RD_IW_SMALL 64u /* a command capsule without data */

struct rd_iw_rx {
	enum rd_iw_rx_state state;
	uint8_t hdr[RD_IW_MAX_HDR];
	uint8_t trail[RD_MPA_MAX_TRAIL + 1];
	uint8_t have;     /* bytes in hdr or trail */
	uint8_t need;     /* bytes wanted there */
	uint8_t hdr_len;  /* of the current FPDU */
	uint8_t term_len; /* bytes of a Terminate kept in term */
	bool sized;       /* need is the whole header, not the control bytes */
	bool got_first;   /* the peer's first FPDU arrived */
	struct rd_iw_rx_ack ack;
	uint32_t left;
	uint32_t crc;
	struct rd_iw_hdr h;
	uint32_t send_msn; /* expected */
	uint32_t read_msn;
	struct rd_iw_rwr *recv; /* the RECV in progress; storage for one */
	uint8_t *aside;         /* where the message in progress is, not in its RECV; or NULL */
	uint32_t aside_size;
	uint32_t debt;   /* FPDUs that it had beyond its part of earlier turns */
	uint32_t room;   /* bytes to read at once */
	uint32_t blanks; /* FPDUs that carried nothing, since message @blank_msn became due */
	uint32_t blank_msn;
	uint32_t grant; /* RECVs of the shared queue that it may take while others wait */
	/* While it waits for one, with a whole header or a whole message in @aside: what had been
	 * read behind that, or NULL */
	uint8_t *held;
	uint32_t held_off;
	uint32_t held_len;
	TAILQ_ENTRY(rd_iw_conn) wait_link;
	bool recv_active;  /* a message is in progress */
	uint32_t recv_off; /* bytes of the message in whole FPDUs */
	bool read_active;  /* a Read Response has begun */
	uint32_t read_off;
	uint8_t term[RD_TERM_MAX_PAYLOAD];
	uint8_t small[RD_IW_SMALL];
};

/* ---- rx.c ---- */

void rd_iw_rx_open(struct rd_iw_conn *c);
/* Read what the socket has. May end the connection. Returns whether anything happened. */
bool rd_iw_rx_run(struct rd_iw_conn *c);
/* It waited for a RECV, and there is one: go on. May end the connection, or wait again. */
void rd_iw_rx_resume(struct rd_iw_conn *c);
/* The connection ends: it waits no more, and what it holds back is dropped. */
void rd_iw_rx_drop(struct rd_iw_conn *c);

/* ---- fpdu.c: what to do with an FPDU ---- */

/*
 * A header is complete in rx: check it, find its destination; @whole: all of the FPDU is at hand.
 * Returns 0, 1 when it has to wait for a RECV (then it is called again), or -1: connection ended.
 */
int rd_iw_fpdu_begin(struct rd_iw_conn *c, bool whole);
/* Where the next bytes of its payload go, at most rx.left. Returns the count, or -1. */
int rd_iw_fpdu_dest(struct rd_iw_conn *c, struct iovec *iov);
/* The whole FPDU is here and its CRC is right. Returns 0, 1 when the message that it completes has
 * to wait for a RECV (then rd_iw_fpdu_resume() follows), or -1. */
int rd_iw_fpdu_end(struct rd_iw_conn *c);
int rd_iw_fpdu_resume(struct rd_iw_conn *c);

/* ---- the fast path: rx_fast.c ---- */

/*
 * To be called between two FPDUs: handles the FPDUs at the beginning of the @n bytes at @p, as long
 * as they are complete and usual. Returns the number of bytes used. The rest is for the state
 * machine.
 */
size_t rd_iw_rx_fast(struct rd_iw_conn *c, const uint8_t *p, size_t n);

#endif /* RD_IW_RX_H */
