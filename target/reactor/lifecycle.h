/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation, start, stop and destruction of a target, its reactors and its listeners. */
#ifndef RDT_LIFECYCLE_H
#define RDT_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "target/nvmf/listener.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"

/* target.c: main thread */
/* @modules: for backends that are not built in; must outlive the target; NULL: none. @env: must
 * outlive the target; NULL: the system. */
int rdt_target_create(struct rdt_config *cfg, struct rd_log *log, struct rd_loop *loop,
		      const struct rdt_env *env, struct rdt_modules *modules,
		      struct rdt_target **out);
/* Start the thread of state_dir, which is needed to open namespaces. */
int rdt_target_prepare(struct rdt_target *target);
/* starts the reactor threads, then the listeners */
int rdt_target_start(struct rdt_target *target);
void rdt_target_drain(struct rdt_target *target, void (*drained)(struct rdt_target *target));
/* during a drain: close without waiting for I/O in flight */
void rdt_target_abandon(struct rdt_target *target);
void rdt_target_status(struct rdt_target *target);
void rdt_target_status_part(struct rdt_target *target); /* a reactor's status line was logged */

struct rdt_served {             /* number of objects that hosts can use */
	unsigned int listeners; /* those that listen */
	unsigned int listeners_failed;
	unsigned int subsystems;
	unsigned int subsystems_unset; /* further ones, without allow_any_host or hosts */
	unsigned int namespaces;
};
struct rdt_served rdt_target_served(const struct rdt_target *target);
void rdt_target_totals(const struct rdt_target *target, uint64_t *reads, uint64_t *writes);
/* Close the listeners and join the reactor threads. The reactors must have no queue pairs: they
 * were never started, or are drained. Accepts NULL and a stopped target. */
void rdt_target_stop(struct rdt_target *target);
void rdt_target_destroy(struct rdt_target **target); /* stops the target first */

/* reactor.c */
int rdt_reactor_init(struct rdt_reactor *r, struct rdt_target *target, unsigned int index);
/* on the reactor's own thread: engines, channels, fabrics */
int rdt_reactor_setup(struct rdt_reactor *r);
void rdt_reactor_teardown(struct rdt_reactor *r); /* on the reactor's own thread */
int rdt_reactor_start(struct rdt_reactor *r);
void rdt_reactor_stop(struct rdt_reactor *r);
void rdt_reactor_fini(struct rdt_reactor *r);
void rdt_reactor_ask_status(struct rdt_reactor *r);
/* on its own thread */
void rdt_reactor_collect(struct rdt_reactor *r, struct rdt_status_line *s);
/* Add the I/O of @r since its start to @reads and @writes. On its own thread or the main thread. */
void rdt_reactor_totals(const struct rdt_reactor *r, uint64_t *reads, uint64_t *writes);

extern const struct rdt_transport *const rdt_transports[RDT_TRANSPORTS]; /* target.c: by kind */

/* listener.c: main thread */
bool rdt_listener_same_place(const struct rdt_listener_config *a,
			     const struct rdt_listener_config *b);
int rdt_listeners_start(struct rdt_target *t); /* creates and shows all that are configured */
/* Listen on all of them. Those that fail are FAILED, which is logged, and are retried every second.
 * Returns 0, or the error of one of them. */
int rdt_listeners_open(struct rdt_target *t);
/* Let listening sockets, also new ones, accept nothing, so that new connections wait in the kernel
 * (@held); or accept connections again. A target that takes over begins held. */
void rdt_listeners_hold(struct rdt_target *t, bool held);
struct rdt_listeners_change { /* numbers of changes */
	unsigned int added;
	unsigned int removed;
	unsigned int settings; /* ANA states */
};
/*
 * Apply another configuration: end listeners that it does not have, and their connections; listen
 * on new ones, or set them FAILED; replace those with other options, on the same port; and set ANA
 * states. @again: retry at once those that were FAILED before. @failed is called for each one that
 * cannot listen, with a sentence.
 */
void rdt_listeners_set(struct rdt_target *t, struct rdt_config *next, bool again,
		       void (*failed)(void *arg, const char *text), void *arg,
		       struct rdt_listeners_change *done);
void rdt_listeners_close(struct rdt_target *t);
void rdt_listeners_free(struct rdt_target *t);

#endif /* RDT_LIFECYCLE_H */
