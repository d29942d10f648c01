/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stops a target while some of its storage hangs. The kernel may keep the process, with every open
 * file, as long as I/O of that storage is in flight. So all other namespaces are removed first and
 * the locks are released, which allows another rdtarget to serve them.
 *
 * Main thread.
 */
#ifndef RDT_LEAVE_H
#define RDT_LEAVE_H

#include <stdbool.h>
#include <stddef.h>

struct rdt_target;

/* Whether any storage does not answer, so that waiting for its I/O is useless. */
bool rdt_leave_stalled(const struct rdt_target *t);
/* Start the removal of all namespaces; each ends when its storage has completed its I/O. */
void rdt_leave_begin(struct rdt_target *t);
/* Release the lock of state_dir, unless a write to it is in progress. In that case *@text receives
 * the names of the remaining namespaces, truncated to @size. */
void rdt_leave_hung(struct rdt_target *t, char *text, size_t size);

#endif /* RDT_LEAVE_H */
