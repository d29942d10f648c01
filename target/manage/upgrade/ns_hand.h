/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage of namespaces that each process reaches by a connection of its own: what becomes of the
 * connections in a hand-over (rdt_bdev_hand()). docs/design/moves.md.
 *
 * Main thread only; nothing waits.
 */
#ifndef RDT_NS_HAND_H
#define RDT_NS_HAND_H

#include <stddef.h>

#include "target/bdev/backend.h"

struct rdt_target;

/* Begins @step for each namespace that has storage. */
void rdt_ns_hand(const struct rdt_target *t, enum rdt_hand step);
/* Returns 0: it has ended for all; -EINPROGRESS, or another -errno when it failed for one: then
 * @why receives a sentence that names the namespace. */
int rdt_ns_handed(const struct rdt_target *t, char *why, size_t size);

#endif /* RDT_NS_HAND_H */
