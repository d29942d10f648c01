/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much a connection is read in one iteration of a loop. What a peer's frames (FPDUs, PDUs) cost
 * is processor time for each frame; their bytes cost hardly any.
 *
 * A connection may have RD_RX_FRAMES in an iteration. One that had more is not read until later
 * iterations have made up for it; its socket stays readable, so that only a number is kept. How
 * much is read at once follows the size of its last frames, so that the limit is not exceeded by
 * far.
 *
 * Senders fill their segments, except the last one of a message. A peer that cuts messages into
 * small pieces costs much time for few bytes, and a limit for each connection does not help against
 * many. So all such connections of a device share one budget in each iteration, whichever host they
 * belong to. What was read is always processed, and its cost is taken from the budgets of the
 * iterations that follow. Until that is paid no connection in question is read. They are read in
 * passes: none is read twice while another one with data was not read in the same pass.
 */
#ifndef RD_RX_TURN_H
#define RD_RX_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RD_RX_FRAMES 256u /* of a connection in an iteration */
#define RD_RX_PIECE_MAX                                                             \
	256u /* a frame with less, which is not the last of its message, is a small \
		piece */
#define RD_RX_ROOM_MIN 2048u

/* Of a device: its connections whose messages come in small pieces. */
struct rd_rx_pieces {
	uint64_t turn;    /* of the loop: the last one that has paid for @debt */
	uint64_t debt;    /* work that is not paid yet, in pieces */
	uint64_t pass;    /* the current one */
	uint64_t skipped; /* the last iteration in which a connection had to wait for this pass */
};

/* Of a connection. */
struct rd_rx_turn {
	uint32_t room;   /* bytes to read at once */
	uint32_t debt;   /* frames beyond the limit of the iterations up to now */
	uint32_t pieces; /* small ones, received and not charged yet */
	uint32_t reads;  /* for so many reads the connection uses the common budget */
	uint64_t pass;   /* the last one in which it was read */
};

/* Must the connection wait for a later iteration? Otherwise it is read now. Call it once in an
 * iteration. */
bool rd_rx_turn_waits(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint64_t turn);
/* May it be read again in this iteration, of which it has had @frames? */
bool rd_rx_turn_more(const struct rd_rx_turn *c, uint32_t frames);
/* One read had @frames in @bytes: choose how much to read next, at most @max. */
void rd_rx_turn_size(struct rd_rx_turn *c, size_t bytes, uint64_t frames, uint32_t max);
/* The connection has had @frames in this iteration. */
void rd_rx_turn_charge(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint32_t frames);
/* The same for what had been read in another iteration, which must not make up for anything. */
void rd_rx_turn_late(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint32_t frames);

#endif /* RD_RX_TURN_H */
