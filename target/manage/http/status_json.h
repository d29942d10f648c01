/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The status document: served namespaces, connected hosts, performance and problems of the target
 * as JSON (docs/schema/http/status.json). Counters only increase, so a reader computes rates from
 * two documents.
 *
 * Main thread only. Reactors are asked by messages; one that does not answer within half a second
 * is reported as a problem, and its connections are missing.
 */
#ifndef RDT_STATUS_JSON_H
#define RDT_STATUS_JSON_H

#include <stdbool.h>
#include <stddef.h>

struct rdt_history;
struct rdt_reloader;
struct rdt_sampler;
struct rdt_status;
struct rdt_target;

#define RDT_STATUS_SCHEMA 2 /* incremented by incompatible changes, not by additions */

/*
 * @text: the document, which the callee frees with free(3), or NULL without memory. @healthy: all
 * reactors answer, and the target is neither draining nor drained; otherwise @why, which is valid
 * during the call, has the reason.
 */
typedef void (*rdt_status_done)(void *arg, char *text, bool healthy, const char *why);

/* The arguments stay valid until rdt_status_free(). */
int rdt_status_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		   struct rdt_sampler *sampler, const struct rdt_history *history,
		   rdt_status_done done, void *arg, struct rdt_status **out);
/* Build a document. @done is called once, from the main loop; a call before that does nothing. */
void rdt_status_ask(struct rdt_status *status);
/* @done is not called afterwards. */
void rdt_status_stop(struct rdt_status *status);
/* After rdt_status_stop() and after all loops have ended. Accepts a pointer to NULL. */
void rdt_status_free(struct rdt_status **status);

#endif /* RDT_STATUS_JSON_H */
