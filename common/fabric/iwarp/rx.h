/* SPDX-License-Identifier: BSD-3-Clause */
/* Reception: the state of a connection's incoming stream. rx.c, fpdu.c, rx_fast.c. */
#ifndef RD_IW_RX_H
#define RD_IW_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "util/rx_rest.h"
#include "util/rx_turn.h"
#include "ddp.h"

/*
 * When TCP is made to acknowledge at once: all three must hold.
 *
 * Over the loopback a TCP segment is as large as TCP makes it, and its memory returns to the cache
 * of the processor that drops the last reference: the one that handles the receiver's ACK (mostly
 * the receiver's own), or the sender's, which frees acknowledged segments whenever it sends more.
 * An ACK that TCP delays until the next answer often comes last, and the sender loses memory that
 * is in its cache. So after a read(2) of many small FPDUs an ACK is requested at once.
 *
 * It does not pay within large transfers, nor where so many connections take turns that nothing of
 * one is still in a cache when it is read again. On networks with smaller segments TCP delays ACKs
 * less.
 */
struct rd_iw_rx_ack {
	bool large_mss; /* TCP's segments are so large that it pays */
	bool dense;     /* the last large read held many FPDUs */
	bool often;     /* that turn's data came soon after the data before */
	uint64_t last;  /* ns: the last iteration with data */
};

struct rd_iw_conn;
struct rd_iw_rwr;

/* A message that is complete, and has no RECV: it came in a hold. */
struct rd_iw_aside {
	STAILQ_ENTRY(rd_iw_aside) link;
	uint32_t len;
	uint32_t inv;
	uint8_t op;
	uint8_t data[];
};

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
	uint8_t need;     /* bytes to be collected there */
	uint8_t hdr_len;  /* of the current FPDU */
	uint8_t term_len; /* bytes of a Terminate kept in term */
	bool sized;       /* need is the header's length, not only the control bytes */
	bool got_first;   /* the peer's first FPDU has arrived */
	struct rd_iw_rx_ack ack;
	struct rd_rx_turn turn;
	uint32_t left;
	uint32_t crc;
	struct rd_iw_hdr h;
	uint32_t send_msn; /* expected */
	uint32_t read_msn;
	struct rd_iw_rwr *recv; /* a copy of the RECV of the message in progress */
	uint8_t *reasm; /* memory that collects the message in progress; NULL: its RECV does */
	uint32_t reasm_size;
	uint32_t blanks; /* FPDUs without payload since message @blank_msn became the next one */
	uint32_t blank_msn;
	uint32_t grant; /* RECVs of the shared queue that it may take although others wait */
	/* While the connection waits for a RECV, with a complete header in hdr or a complete
	 * message in @reasm: the bytes that had been read behind it. */
	struct rd_rx_rest rest;
	TAILQ_ENTRY(rd_iw_conn) wait_link;
	STAILQ_HEAD(, rd_iw_aside) aside; /* in order; delivered after the hold */
	uint32_t aside_count;
	bool recv_active;  /* a message is in progress */
	uint32_t recv_off; /* bytes of the message in complete FPDUs */
	bool read_active;  /* a Read Response has begun */
	uint32_t read_off;
	uint8_t term[RD_TERM_MAX_PAYLOAD];
	uint8_t small[RD_IW_SMALL];
};

/* ---- rx.c ---- */

void rd_iw_rx_open(struct rd_iw_conn *c);
/* Reads from the socket. Can end the connection. Returns false if the socket had nothing. */
bool rd_iw_rx_run(struct rd_iw_conn *c);
/* The connection waited for a RECV and can take one: receives on. Can end the connection, or wait
 * again. */
void rd_iw_rx_resume(struct rd_iw_conn *c);
/* A hold is over, and no message waited for a RECV. Likewise. */
void rd_iw_rx_go_on(struct rd_iw_conn *c);
/* The connection has ended: stops waiting for a RECV and drops the kept bytes. */
void rd_iw_rx_drop(struct rd_iw_conn *c);

/* ---- fpdu.c: what to do with an FPDU ---- */

/*
 * Checks the FPDU whose header is in rx.h, and finds its destination. @whole: all of the FPDU has
 * been received. Returns 0, 1 (it waits for a RECV, and is then called again) or -1 (the connection
 * ended).
 */
int rd_iw_fpdu_begin(struct rd_iw_conn *c, bool whole);
/* Sets @iov to the destination of the next rx.left payload bytes. Returns the number of entries, or
 * -1. */
int rd_iw_fpdu_dest(struct rd_iw_conn *c, struct iovec *iov);
/*
 * The FPDU is complete and its CRC correct. Returns 0, 1 (the message that it completes waits for a
 * RECV, then rd_iw_fpdu_resume() is called) or -1 (the connection ended).
 */
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
