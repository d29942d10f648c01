/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS handshakes of one listener, on a separate thread, so that no reactor computes for a host that
 * has not shown that it knows a key. The thread starts with the first connection. Functions are
 * called by the main thread. */
#ifndef RDT_TCP_TLS_H
#define RDT_TCP_TLS_H

#include "tcp.h"

#define RDT_TLS_SHAKES         1024u /* handshakes of a listener at the same time */
#define RDT_TLS_SHAKES_ADDRESS 256u  /* of these, from one address */

struct rdt_tcp_tls;

/* Returns NULL if memory is short, or libssl lacks a function that is needed. */
struct rdt_tcp_tls *rdt_tcp_tls_new(struct rdt_listener *l);
/* Takes over @h. After its handshake, or at once if it begins without TLS and that is allowed, it
 * is handed over to its reactor. Returns 0, or -errno without an effect: the thread cannot
 * start. */
int rdt_tcp_tls_take(struct rdt_tcp_tls *s, struct rdt_tcp_handoff *h);
/* End the handshakes and the thread. Accepts NULL. */
void rdt_tcp_tls_free(struct rdt_tcp_tls *s);

#endif /* RDT_TCP_TLS_H */
