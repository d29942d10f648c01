/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target hands over to a second one (docs/design/moves.md), again and again: what is open, and
 * the connections, go there as the text of records and as descriptors of simulated sockets. Each
 * side may be killed at each step. What takes the place of target/manage/upgrade is here; its
 * records of namespaces are used.
 *
 * A hand-over explains nothing: while it is all that happens, no host loses a connection that could
 * move, and none is refused. Some are forced: then commands for a namespace in which the former
 * target has I/O wait until that has ended.
 */
#ifndef SIM_UPGRADE_H
#define SIM_UPGRADE_H

#include <stdbool.h>

struct host;
struct instance;
struct upgrade;
struct world;

int upgrade_new(struct world *w, struct upgrade **out);
/* No more hand-overs; the other instance has ended. NULL is allowed. */
void upgrade_free(struct upgrade *u);
/* The target that serves is about to end, so it does not hand over any more. @killed: its process
 * ends at once. NULL is allowed. */
void upgrade_ends(struct upgrade *u, bool killed);
/* Both instances have ended. NULL is allowed. */
void upgrade_over(struct upgrade *u);
/* Nothing of @in is in flight any more, and it is still there. NULL is allowed. */
void upgrade_drained(struct upgrade *u, struct instance *in);
bool upgrade_runs(const struct upgrade *u); /* NULL is allowed */

#endif /* SIM_UPGRADE_H */
