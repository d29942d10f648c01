/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a target some of whose storage hangs. The process may stay for as long as the kernel
 * has I/O of that storage, with every file that was not closed. So all other namespaces are removed
 * first, and the locks are given up: another rdtarget can serve them meanwhile.
 *
 * Main thread.
 */
#ifndef RDT_LEAVE_H
#define RDT_LEAVE_H

#include <stdbool.h>
#include <stddef.h>

struct rdt_target;

/* Is there storage that does not answer? Waiting for its I/O makes no sense. */
bool rdt_leave_stalled(const struct rdt_target *t);
/* Remove all namespaces, each of which leaves when its storage lets it. */
void rdt_leave_begin(struct rdt_target *t);
/* Give up the lock of state_dir, unless something is being written there. Then *@text receives the
 * names of the namespaces that are left; it is shortened to @size. */
void rdt_leave_hung(struct rdt_target *t, char *text, size_t size);

#endif /* RDT_LEAVE_H */
