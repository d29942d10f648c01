/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections without a Connect, or without the authentication that it asked for. They are cheap to
 * make, so their number on a reactor is bounded: a new one ends the oldest one, preferably of its
 * own address. */
#ifndef RDT_FRESH_H
#define RDT_FRESH_H

#include <stdbool.h>

struct rdt_qpair;
struct rdt_reactor;
struct rdt_site;

unsigned int rdt_fresh_max(const struct rdt_reactor *r);
/* Has the address so many of them that the next one ends one of them? */
bool rdt_fresh_crowded(const struct rdt_reactor *r, const struct rdt_site *site);
void rdt_fresh_add(struct rdt_qpair *qp); /* may end other connections, but not @qp */
/* the connection is in use, or closes; may be repeated */
void rdt_fresh_remove(struct rdt_qpair *qp);

#endif /* RDT_FRESH_H */
