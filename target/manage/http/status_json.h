/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The status document: what the target serves, to whom, how fast, and what its problems are, as
 * JSON (docs/schema/http/status.json). Counters only grow, so that a reader makes rates of two
 * documents.
 *
 * Main thread only. Reactors are asked by messages; one that does not answer within half a second
 * is reported as a problem, without what it would have told.
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
 * @text: the document, which the callee frees by free(3), or NULL without memory. @healthy: all
 * reactors answer, and the target is neither draining nor drained; otherwise @why is the reason.
 * Valid during the call: @why.
 */
typedef void (*rdt_status_done)(void *arg, char *text, bool healthy, const char *why);

/* The arguments are valid until rdt_status_free(). */
int rdt_status_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		   struct rdt_sampler *sampler, const struct rdt_history *history,
		   rdt_status_done done, void *arg, struct rdt_status **out);
/* Make a document. @done is called once, from the main loop; a call before that changes nothing. */
void rdt_status_ask(struct rdt_status *status);
/* Afterwards @done is not called any more. */
void rdt_status_stop(struct rdt_status *status);
/* After rdt_status_stop() and after all loops have ended. Accepts a pointer to NULL. */
void rdt_status_free(struct rdt_status **status);

#endif /* RDT_STATUS_JSON_H */
