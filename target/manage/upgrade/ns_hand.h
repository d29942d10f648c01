/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage of namespaces in a hand-over: that which each process reaches by a connection of its own
 * (rdt_bdev_hand()), and that in which I/O of the process that hands over goes on, because the
 * hand-over was forced: such a namespace is left behind. docs/design/moves.md.
 *
 * Main thread only; nothing waits.
 */
#ifndef RDT_NS_HAND_H
#define RDT_NS_HAND_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "target/bdev/backend.h"

struct rdt_inherit;
struct rdt_target;

/* Begins @step for each namespace that has storage and is not left behind. */
void rdt_ns_hand(const struct rdt_target *t, enum rdt_hand step);
/* Returns 0: it has ended for all; -EINPROGRESS, or another -errno when it failed for one: then
 * @why receives a sentence that names the namespace. */
int rdt_ns_handed(const struct rdt_target *t, char *why, size_t size);

/* ---- the process that hands over ---- */

/* May all storage be used by a process that starts when this one has ended? Returns 0, or
 * -EOPNOTSUPP with a sentence in @why that names the namespace. */
int rdt_ns_may_store(const struct rdt_target *t, char *why, size_t size);
/* While connections rest: those are left behind whose I/O does not end. Returns how many. */
unsigned int rdt_ns_leave_behind(struct rdt_target *t);
/* None is, because the hand-over has failed. */
void rdt_ns_leave_none(struct rdt_target *t);
/* Their I/O has ended. */
void rdt_ns_left_end(const struct rdt_target *t);

/* ---- both ---- */

/* Those that are left behind as a list of objects, or those whose storage does not answer now
 * (@stalled). NULL: no memory. */
json_t *rdt_ns_left_list(const struct rdt_target *t, bool stalled);
/* The names of those that are left behind. */
void rdt_ns_left_text(const struct rdt_target *t, char *text, size_t size);

/* ---- the process that takes over ---- */

/* They are not opened again on what the other process had open. */
void rdt_ns_left_forget(const struct rdt_target *t, struct rdt_inherit *inherit);
/* The other process has ended, and so has its I/O (@sure), or the kernel finishes it: they are
 * served, or will be. */
void rdt_ns_left_serve(const struct rdt_target *t, bool sure);

#endif /* RDT_NS_HAND_H */
