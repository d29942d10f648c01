/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: JSON-RPC 2.0 on a Unix stream socket, one object per line in both directions.
 * One request of a client is in progress at a time; the next ones stay in the socket buffer.
 * Clients, requests and responses are bounded, the main loop never waits for a client, and slow
 * work runs as jobs. For users: docs/man/rdtarget-control.7; design: docs/design/control.md.
 *
 * Main thread only.
 */
#ifndef RDT_RPC_H
#define RDT_RPC_H

#include "target/config/config.h"

struct rdt_give;
struct rdt_inherit;
struct rdt_reloader;
struct rdt_rpc;
struct rdt_sampler;
struct rdt_target;

/* The objects that methods use, owned by the caller and valid until rdt_rpc_free(). */
struct rdt_rpc_env {
	struct rdt_target *target;
	struct rdt_reloader *reloader;
	struct rdt_sampler *sampler;
	const char *config_path;
	const struct rdt_control_config *cfg; /* the configuration at the start */
	const struct rdt_inherit *inherit;    /* has the socket of the previous process; or NULL */
	struct rdt_give *give;                /* NULL: a hand-over is not possible */
	void (*shutdown)(struct rdt_rpc_env *env); /* the same as SIGTERM */
};

/* Listen on the configured socket, and set target->rpc. *@out: NULL if none is configured. Returns
 * 0, or -errno: if *@out is NULL, out of memory; otherwise the reason was logged, and it tries
 * again every second. */
int rdt_rpc_open(struct rdt_rpc_env *env, struct rdt_rpc **out);
/* The socket and its lock file, for another process; -1: it does not listen. Accepts NULL. */
void rdt_rpc_share(const struct rdt_rpc *rpc, int *fd, int *lock);
/* Close the socket, which another process now listens on; its path stays. Accepts NULL. */
void rdt_rpc_handed_over(struct rdt_rpc *rpc);
/* Close clients and socket; calls in progress get no answer. Accepts NULL. */
void rdt_rpc_close(struct rdt_rpc *rpc);
/* After rdt_rpc_close(), and after all loops and jobs have ended: until then messages to reactors
 * may be in flight. */
void rdt_rpc_free(struct rdt_rpc **rpc);

#endif /* RDT_RPC_H */
