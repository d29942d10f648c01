/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of the target as JSON, for the control socket and the status document. Each function
 * returns a new reference, or NULL without memory. Main thread, unless noted.
 */
#ifndef RDT_SHOW_H
#define RDT_SHOW_H

#include <stddef.h>

#include <jansson.h>

struct rdt_ns;
struct rdt_reactor;
struct rdt_reloader;
struct rdt_rpc;
struct rdt_rpc_answer;
struct rdt_target;

/* "serving", "draining" or "drained". @rpc: NULL without a control socket. */
const char *rdt_show_state(const struct rdt_target *t, const struct rdt_rpc *rpc);
/* A string of @text, in which bytes that are not UTF-8 became "?": JSON has none, and a host must
 * be listed whatever its name is. Any thread. */
json_t *rdt_show_text(const char *text);
json_t *rdt_show_last_reload(const struct rdt_reloader *reloader); /* null: there was none */
json_t *rdt_show_namespace(const struct rdt_ns *ns);
json_t *rdt_show_listeners(const struct rdt_target *t);

/* On the thread of @r: fills in @answer, whose data the caller frees by free(3). */
void rdt_show_collect_connections(struct rdt_reactor *r, struct rdt_rpc_answer *answer);
/* The controllers of these @n answers with their queues, at most @most of them. *@total: how many
 * there are. */
json_t *rdt_show_controllers(const struct rdt_rpc_answer *answers, unsigned int n, size_t most,
			     size_t *total);

#endif /* RDT_SHOW_H */
