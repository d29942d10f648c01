/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose peers cut messages into small pieces. Senders fill their segments, except the
 * last one of a message. A peer that does not costs much processor time for few bytes, and a limit
 * for each connection does not help against many. So all such connections of a device share one
 * budget of work in each turn of the loop, whichever host they belong to. rx.c calls these
 * functions; nothing else depends on them.
 *
 * What was read is always processed, and its cost is taken from the budgets of the turns that
 * follow. Until that is paid no connection in question is read. They take turns in passes: none is
 * read twice while another one that has data was not read in the same pass.
 */
#ifndef RD_IW_RX_SLOW_H
#define RD_IW_RX_SLOW_H

#include <stdbool.h>
#include <stdint.h>

struct rd_iw_dev;

/* Of a device. */
struct rd_iw_slow {
	uint64_t turn;    /* of the loop: the last one that has paid for @debt */
	uint64_t debt;    /* work that is not paid yet, in pieces */
	uint64_t pass;    /* the current one */
	uint64_t skipped; /* the last turn in which a connection had to wait for this pass */
};

/* Of a connection. */
struct rd_iw_rx_slow {
	uint32_t pieces; /* received and not charged yet */
	uint32_t reads;  /* for so many reads the connection uses the common budget */
	uint64_t pass;   /* the last one in which it was read */
};

/* Must the connection wait for the budget of a later turn? Otherwise it is read now. */
bool rd_iw_slow_waits(struct rd_iw_dev *dev, struct rd_iw_rx_slow *rx);
/* The connection has been read: takes the cost of its pieces from the common budget. */
void rd_iw_slow_charge(struct rd_iw_dev *dev, struct rd_iw_rx_slow *rx);

#endif /* RD_IW_RX_SLOW_H */
