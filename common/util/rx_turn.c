/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx_turn.h"

#define PIECES_TURN  64u  /* small pieces per iteration, of all connections: about 5 us */
#define PIECES_READ  128u /* the cost of a read and of the answers to what it brought, in pieces */
#define PIECES_READS 256u /* reads without a small piece until a connection is as others again */
#define PIECE_COST   8u /* of a small piece, in frames, where the size of the next read is chosen */

/* Pays with the budgets of the iterations since the last call. */
static void pay_debt(struct rd_rx_pieces *all, uint64_t turn)
{
	uint64_t turns = turn - all->turn;

	all->turn = turn;
	all->debt = turns > all->debt / PIECES_TURN ? 0 : all->debt - turns * PIECES_TURN;
}

static bool pieces_wait(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint64_t turn)
{
	if (!c->reads)
		return false;
	if (all->turn != turn)
		pay_debt(all, turn);
	if (all->debt) {
		if (c->pass != all->pass)
			all->skipped = turn;
		return true;
	}
	if (c->pass == all->pass) {
		/* A skipped connection is served in the next iteration. */
		if (turn - all->skipped <= 1)
			return true;
		all->pass++;
	}
	c->pass = all->pass;
	return false;
}

static void pieces_charge(struct rd_rx_pieces *all, struct rd_rx_turn *c)
{
	if (c->pieces) {
		all->debt += c->pieces + PIECES_READ;
		c->reads = PIECES_READS;
		c->pieces = 0;
	} else if (c->reads) {
		c->reads--;
	}
}

bool rd_rx_turn_waits(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint64_t turn)
{
	if (!c->debt)
		return pieces_wait(all, c, turn);
	c->debt -= c->debt < RD_RX_FRAMES ? c->debt : RD_RX_FRAMES;
	return true;
}

bool rd_rx_turn_more(const struct rd_rx_turn *c, uint32_t frames)
{
	return frames < RD_RX_FRAMES && !c->pieces;
}

void rd_rx_turn_size(struct rd_rx_turn *c, size_t bytes, uint64_t frames, uint32_t max)
{
	size_t room = max;

	frames += (uint64_t)c->pieces * PIECE_COST;
	/* After a read of many frames, as much as holds twice the limit of an iteration. */
	if (frames > RD_RX_FRAMES / 4)
		room = bytes / (size_t)frames * (2 * RD_RX_FRAMES);
	if (room > max)
		room = max;
	c->room = (uint32_t)(room < RD_RX_ROOM_MIN ? RD_RX_ROOM_MIN : room);
}

void rd_rx_turn_charge(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint32_t frames)
{
	c->debt += frames > RD_RX_FRAMES ? frames - RD_RX_FRAMES : 0;
	if (frames)
		pieces_charge(all, c);
}

void rd_rx_turn_late(struct rd_rx_pieces *all, struct rd_rx_turn *c, uint32_t frames)
{
	c->debt += frames;
	pieces_charge(all, c);
}
