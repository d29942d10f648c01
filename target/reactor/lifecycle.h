/* SPDX-License-Identifier: BSD-3-Clause */
/* How a target, its reactors and its listeners are made, started, stopped and freed. */
#ifndef RDT_LIFECYCLE_H
#define RDT_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "target/nvmf/listener.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/target.h"

/* target.c: main thread */
int rdt_target_create(struct rdt_config *cfg, struct rd_log *log, struct rd_loop *loop,
		      const struct rd_clock *clock, struct rdt_target **out);
int rdt_target_start(struct rdt_target *target); /* reactor threads, then listeners */
void rdt_target_drain(struct rdt_target *target, void (*drained)(struct rdt_target *target));
void rdt_target_abandon(struct rdt_target *target); /* after drain: do not wait for I/O */
void rdt_target_status(struct rdt_target *target);
void rdt_target_status_part(struct rdt_target *target); /* one of its answers was logged */
void rdt_target_totals(const struct rdt_target *target, uint64_t *reads, uint64_t *writes);
/* Close the listeners and end the reactors' threads. Reactors must be without queue pairs: never
 * started, or drained. NULL, and a target that is stopped already, are accepted. */
void rdt_target_stop(struct rdt_target *target);
void rdt_target_destroy(struct rdt_target **target); /* stops it first */

/* reactor.c */
int rdt_reactor_init(struct rdt_reactor *r, struct rdt_target *target, unsigned int index);
int rdt_reactor_setup(struct rdt_reactor *r); /* on its own thread: engines, channels, fabrics */
void rdt_reactor_teardown(struct rdt_reactor *r); /* likewise */
int rdt_reactor_start(struct rdt_reactor *r);
void rdt_reactor_stop(struct rdt_reactor *r);
void rdt_reactor_fini(struct rdt_reactor *r);
void rdt_reactor_ask_status(struct rdt_reactor *r);

/* listener.c: main thread */
/* As configured, with its provider chosen; it does not listen, and is not shown. */
struct rdt_listener *rdt_listener_new(struct rdt_target *t, const struct rdt_listener_config *cfg,
				      struct rdt_config *cfg_of);
void rdt_listener_keep(struct rdt_listener *l); /* it never was shown, and will not be */
void rdt_listener_show(struct rdt_listener *l); /* in the discovery log */
/* Not shown any more, and its connections end; after rdt_listener_prepare_leave(), which may fail
 * and can be undone. */
int rdt_listener_prepare_leave(struct rdt_listener *l);
void rdt_listener_stay(struct rdt_listener *l);
void rdt_listener_leave(struct rdt_listener *l);
bool rdt_listener_same_place(const struct rdt_listener_config *a,
			     const struct rdt_listener_config *b);
int rdt_listeners_start(struct rdt_target *t); /* all configured: made and shown */
int rdt_listeners_open(struct rdt_target *t);  /* they listen */
void rdt_listeners_close(struct rdt_target *t);
void rdt_listeners_free(struct rdt_target *t);

#endif /* RDT_LIFECYCLE_H */
