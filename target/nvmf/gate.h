/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate of a namespace, in the process that has taken over: it is closed while I/O of the
 * process before may still end in the namespace's storage (docs/design/moves.md). Commands that use
 * the storage wait there, and those that change its reservations, its write protection or its
 * marked blocks end with Namespace Not Ready, because what they promise could not be kept.
 */
#ifndef RDT_GATE_H
#define RDT_GATE_H

#include <stdbool.h>

#include "target/bdev/backend.h"

struct rdt_ns;
struct rdt_req;

/* Main thread; @ns is LIVE. What reactors are told later finds it closed. Returns 0 or -ENOMEM. */
int rdt_gate_close(struct rdt_ns *ns);
/* Main thread. Commands that wait continue. */
void rdt_gate_open(struct rdt_ns *ns);

/* On the reactor, of rdt_io_submit(): @req arrived before its channel had the storage. */
enum rdt_bio_submit rdt_gate_submit(struct rdt_req *req);
/* @req is to end early; it completes inside this call. Its wait is RDT_WAIT_GATE. */
void rdt_gate_unwait(struct rdt_req *req);

#endif /* RDT_GATE_H */
