/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx_slow.h"

#include "mr.h"

#define SLOW_BUDGET 64u  /* pieces in a turn, for all connections together: about 5 us */
#define SLOW_READ   128u /* the cost of a read and of the answers to what it brought, in pieces */
#define SLOW_READS  256u /* reads without a small piece until a connection is as others again */

/* Pays with the budgets of the turns since the last call. */
static void pay_debt(struct rd_iw_slow *slow, uint64_t turn)
{
	uint64_t turns = turn - slow->turn;

	slow->turn = turn;
	slow->debt = turns > slow->debt / SLOW_BUDGET ? 0 : slow->debt - turns * SLOW_BUDGET;
}

bool rd_iw_slow_waits(struct rd_iw_dev *dev, struct rd_iw_rx_slow *rx)
{
	struct rd_iw_slow *slow = &dev->slow;
	uint64_t turn = rd_loop_turns(dev->base.fab->loop);

	if (!rx->reads)
		return false;
	if (slow->turn != turn)
		pay_debt(slow, turn);
	if (slow->debt) {
		if (rx->pass != slow->pass)
			slow->skipped = turn;
		return true;
	}
	if (rx->pass == slow->pass) {
		/* One that was skipped has its chance in the turn after. */
		if (turn - slow->skipped <= 1)
			return true;
		slow->pass++;
	}
	rx->pass = slow->pass;
	return false;
}

void rd_iw_slow_charge(struct rd_iw_dev *dev, struct rd_iw_rx_slow *rx)
{
	if (rx->pieces) {
		dev->slow.debt += rx->pieces + SLOW_READ;
		rx->reads = SLOW_READS;
		rx->pieces = 0;
	} else if (rx->reads) {
		rx->reads--;
	}
}
