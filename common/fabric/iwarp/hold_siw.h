/* SPDX-License-Identifier: BSD-3-Clause */
/* For a peer that is siw, on the active side: the first messages. hold_siw.c. */
#ifndef RD_IW_HOLD_SIW_H
#define RD_IW_HOLD_SIW_H

struct rd_iw_conn;

/*
 * FPDUs may flow: holds work requests (tx.hold) for a moment, then sends empty WRITEs until the
 * peer sends its first FPDU. Returns 0 or -ENOMEM.
 */
int rd_iw_hold_start(struct rd_iw_conn *c);
/* The peer's first FPDU has arrived, or the connection has ended. Does not end the hold.
 * Idempotent. */
void rd_iw_hold_stop(struct rd_iw_conn *c);

#endif /* RD_IW_HOLD_SIW_H */
