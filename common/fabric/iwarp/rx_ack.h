/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When TCP is made to acknowledge at once. rx.c calls these; nothing else depends on them.
 *
 * Over the loopback a TCP segment is as large as TCP makes it, and its memory returns to the cache
 * of the processor that drops the last reference: the one that handles the receiver's ACK (mostly
 * the receiver's own), or the sender's, which frees acknowledged segments whenever it sends more.
 * An ACK that TCP delays until the next answer often comes last, and the sender loses memory that
 * is in its cache. So after a read(2) of many small FPDUs an ACK is requested at once.
 *
 * It does not pay within large transfers, nor where so many connections take turns that nothing of
 * one is still in a cache at its next turn. On networks with smaller segments TCP delays ACKs less.
 */
#ifndef RD_IW_RX_ACK_H
#define RD_IW_RX_ACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_iw_conn;

/* All three must hold for an ACK to be requested. */
struct rd_iw_rx_ack {
	bool large_mss; /* TCP's segments are so large that it pays */
	bool dense;     /* the last large read held many FPDUs */
	bool often;     /* that turn's data came soon after the data before */
	uint64_t last;  /* ns: the last turn with data */
};

/* FPDUs begin to flow. */
void rd_iw_ack_open(struct rd_iw_conn *c);
/* A turn's reads begin at @now (ns on the loop's clock). */
void rd_iw_ack_begin(struct rd_iw_rx_ack *ack, uint64_t now);
/* The turn that began at @now has read something. */
void rd_iw_ack_had_data(struct rd_iw_rx_ack *ack, uint64_t now);
/* @bytes have been read at once: acknowledge them if it pays. */
void rd_iw_ack_read(struct rd_iw_conn *c, size_t bytes);
/* The @bytes that were read at once held @fpdus FPDUs. */
void rd_iw_ack_note(struct rd_iw_rx_ack *ack, size_t bytes, uint64_t fpdus);

#endif /* RD_IW_RX_ACK_H */
