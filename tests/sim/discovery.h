/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A discovery controller of one host that stays connected, in some of the worlds whose
 * configuration changes. It judges the discovery log, and whether it is told when that changes.
 */
#ifndef SIM_DISCOVERY_H
#define SIM_DISCOVERY_H

#include <stdbool.h>

struct world;
struct discovery;

/* Returns 0 or -ENOMEM; *@out must be given to discovery_free() in both cases. */
int discovery_new(struct world *w, struct discovery **out);
/* Connects, or submits a command now and then; called between turns. NULL is allowed, as below. */
void discovery_acts(struct discovery *d);
/* While the world ends: whether it has not yet seen that it was told everything. */
bool discovery_busy(const struct discovery *d);
void discovery_free(struct discovery *d);

#endif /* SIM_DISCOVERY_H */
