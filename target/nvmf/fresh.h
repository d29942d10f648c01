/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections without a Connect so far. They cost little to make, so that there are never many of
 * them on a reactor: one more ends the oldest, of its own address where that has many.
 */
#ifndef RDT_FRESH_H
#define RDT_FRESH_H

struct rdt_qpair;
struct rdt_reactor;

unsigned int rdt_fresh_max(const struct rdt_reactor *r);
void rdt_fresh_add(struct rdt_qpair *qp);    /* may end others, and not @qp */
void rdt_fresh_remove(struct rdt_qpair *qp); /* connected, or closing. Idempotent */

#endif /* RDT_FRESH_H */
