/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optional, read-only HTTP listener: status page, status document, health and metrics. For
 * users: docs/operate.md; design: docs/design/http.md.
 *
 * Main thread only. libmicrohttpd runs on the main loop without its own thread. It never waits for
 * a client; the number, memory and lifetime of connections are bounded. Reactors are asked by
 * messages, once for all clients and at most twice a second.
 */
#ifndef RDT_HTTP_H
#define RDT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "target/config/config.h"

struct rdt_http;
struct rdt_reloader;
struct rdt_sampler;
struct rdt_target;

/* Creates target->http, which does not listen yet. Arguments are valid until rdt_http_free().
 * Returns 0 or -ENOMEM. */
int rdt_http_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		 struct rdt_sampler *sampler, struct rdt_http **out);
/*
 * Apply @cfg, of which the settings are copied: listen at its address, if it has one. @text has
 * room for RDT_MGMT_TEXT. Returns the number of changed settings, or -errno with a message in
 * @text, which was also logged; it then tries again every second.
 */
int rdt_http_set(struct rdt_http *http, const struct rdt_http_config *cfg, char *text,
		 size_t text_size);
/* The listening socket, to hand it to another process; -1: it does not listen. Accepts NULL. */
int rdt_http_share(const struct rdt_http *http);
/* Close the listener and all connections. Accepts NULL. */
void rdt_http_close(struct rdt_http *http);
/* After rdt_http_close() and after all loops have ended: until then messages to reactors may be in
 * flight. */
void rdt_http_free(struct rdt_http **http);

/* ---- http_host.c: pure functions ---- */

/*
 * Whether the value of a Host header is a valid name of this listener: a numeric address,
 * "localhost" or one of @names, each with or without a port. This refuses pages of other origins
 * whose name resolves to this machine (DNS rebinding).
 */
bool rdt_http_host_allowed(const char *host, const char *const *names, unsigned int count);
/* Whether the value of an Accept header asks for OpenMetrics. @accept may be NULL. */
bool rdt_http_wants_openmetrics(const char *accept);

#endif /* RDT_HTTP_H */
