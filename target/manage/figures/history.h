/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the target did in each of the last ten minutes' seconds, kept for whoever looks after an
 * incident: totals only, in a fixed amount of memory.
 *
 * Main thread, unless noted. A sample reads the totals of each reactor (struct rdt_totals) without
 * asking it: a reactor that sleeps is not woken, and the cost does not grow with namespaces or
 * hosts.
 */
#ifndef RDT_HISTORY_H
#define RDT_HISTORY_H

#include <jansson.h>

struct rdt_history;
struct rdt_history_copy;
struct rdt_target;

#define RDT_HISTORY_SECONDS 600u
#define RDT_HISTORY_WINDOW  10u /* seconds that the percentiles of a sample cover */

/* It does not run yet. Returns NULL without memory. */
struct rdt_history *rdt_history_new(struct rdt_target *target);
/* Begin to take a sample each second, from now on; nothing when it runs. */
void rdt_history_start(struct rdt_history *h);
/* What was taken is forgotten. Accepts NULL. */
void rdt_history_stop(struct rdt_history *h);
void rdt_history_free(struct rdt_history **h);

/* The caller frees it with free(3). NULL without memory. */
struct rdt_history_copy *rdt_history_copy(const struct rdt_history *h);
/* A list for each quantity, the oldest second first: docs/schema/http/status.json. Any thread. */
json_t *rdt_history_json(const struct rdt_history_copy *copy);

#endif /* RDT_HISTORY_H */
