/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes of TLS of one listener, on a thread of its own: no reactor computes for a host that
 * has not proven that it knows a key. The thread starts with the first connection. Functions are
 * called by the main thread.
 */
#ifndef RDT_TCP_TLS_H
#define RDT_TCP_TLS_H

#include "tcp.h"

#define RDT_TLS_SHAKES         1024u /* handshakes of a listener at a time */
#define RDT_TLS_SHAKES_ADDRESS 256u  /* of these, from one address */

struct rdt_tcp_tls;

/* Returns NULL: out of memory, or libssl cannot do what is needed. */
struct rdt_tcp_tls *rdt_tcp_tls_new(struct rdt_listener *l);
/*
 * Takes @h. After its handshake, or at once if it begins without TLS and may, it goes to its
 * reactor. Returns 0, or -errno without an effect: the thread cannot start.
 */
int rdt_tcp_tls_take(struct rdt_tcp_tls *s, struct rdt_tcp_handoff *h);
/* Ends the handshakes and the thread. Accepts NULL. */
void rdt_tcp_tls_free(struct rdt_tcp_tls *s);

#endif /* RDT_TCP_TLS_H */
