/* SPDX-License-Identifier: BSD-3-Clause */
/* The active side up to the first FPDU, and what both sides share of it. connect.c. */
#ifndef RD_IW_CONNECT_H
#define RD_IW_CONNECT_H

#include "fabric/fabric.h"
#include "util/tcp.h"

struct rd_iw_conn;

int rd_iw_resolve(struct rd_fab *ffab, const struct rd_fab_resolve_attr *attr,
		  struct rd_fab_conn **out);
int rd_iw_connect(struct rd_fab_conn *conn, const struct rd_fab_conn_param *param);
void rd_iw_handshake_io(struct rd_iw_conn *c, uint32_t events);
/* Sends the rest of hs->out. Returns 0 (all sent), -EAGAIN or -errno. */
int rd_iw_handshake_send(struct rd_iw_conn *c);
/* The options of the sockets of a fabric. */
void rd_iw_socket_opts(const struct rd_fab_iwarp_opts *opts, struct rd_tcp_opts *out);

/* ---- hold_siw.c: the first messages to a peer that is siw ---- */

/*
 * FPDUs may flow: holds work requests (tx.hold) for a moment, then sends empty WRITEs until the
 * peer sends its first FPDU. Returns 0 or -ENOMEM.
 */
int rd_iw_hold_start(struct rd_iw_conn *c);
/* The peer's first FPDU has arrived, or the connection has ended. Does not end the hold.
 * Idempotent. */
void rd_iw_hold_stop(struct rd_iw_conn *c);

#endif /* RD_IW_CONNECT_H */
