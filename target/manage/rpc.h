/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: JSON-RPC 2.0 on a Unix stream socket, one object a line in both directions. A
 * client has one request at a time in work; what it sends meanwhile waits in the socket. Clients,
 * requests and answers are bounded, nothing waits for a client, and slow work is done elsewhere.
 * docs/man/rdtarget-control.7 describes it for users, docs/design/control.md the reasons.
 *
 * Main thread only.
 */
#ifndef RDT_RPC_H
#define RDT_RPC_H

#include "target/config/config.h"

struct rdt_reloader;
struct rdt_rpc;
struct rdt_target;

/* What the methods work on; the owner's, and valid until rdt_rpc_free(). */
struct rdt_rpc_env {
	struct rdt_target *target;
	struct rdt_reloader *reloader;
	const char *config_path;
	const struct rdt_control_config *cfg;      /* of the start */
	void (*shutdown)(struct rdt_rpc_env *env); /* as SIGTERM does */
};

/* Listen. *@out: NULL when no socket is configured. Returns 0, or -errno after the log has said
 * why. */
int rdt_rpc_open(struct rdt_rpc_env *env, struct rdt_rpc **out);
/* No calls any more: clients and the socket are closed, work for them is dropped. NULL is fine. */
void rdt_rpc_close(struct rdt_rpc *rpc);
/* After rdt_rpc_close(), when no loop runs any more: reactors may have had questions until then. */
void rdt_rpc_free(struct rdt_rpc **rpc);

#endif /* RDT_RPC_H */
