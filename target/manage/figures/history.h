/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Totals of the target for each second of the last ten minutes, to analyse an incident afterwards.
 * The amount of memory is fixed.
 *
 * Main thread, unless noted. A sample reads the totals of each reactor (struct rdt_totals) without
 * a message, so no sleeping reactor wakes up, and the cost does not depend on the number of
 * namespaces or hosts.
 */
#ifndef RDT_HISTORY_H
#define RDT_HISTORY_H

#include <jansson.h>

struct rdt_history;
struct rdt_history_copy;
struct rdt_target;

#define RDT_HISTORY_SECONDS 600u
#define RDT_HISTORY_WINDOW  10u /* seconds that the percentiles of a sample cover */

/* Returns a stopped history, or NULL without memory. */
struct rdt_history *rdt_history_new(struct rdt_target *target);
/* Take a sample each second from now on. Does nothing if it runs. */
void rdt_history_start(struct rdt_history *h);
/* Stop, and discard the samples. Accepts NULL. */
void rdt_history_stop(struct rdt_history *h);
void rdt_history_free(struct rdt_history **h);

/* Returns a copy that the caller frees with free(3), or NULL without memory. */
struct rdt_history_copy *rdt_history_copy(const struct rdt_history *h);
/* One list per quantity, oldest second first: docs/schema/http/status.json. Any thread. */
json_t *rdt_history_json(const struct rdt_history_copy *copy);

#endif /* RDT_HISTORY_H */
