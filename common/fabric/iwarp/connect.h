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

#endif /* RD_IW_CONNECT_H */
