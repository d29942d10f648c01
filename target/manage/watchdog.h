/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds the service manager's watchdog, only as long as every reactor runs. A round is a message to
 * each reactor's loop; when all have answered, WATCHDOG=1 is sent, and the next round begins a
 * third of the watchdog's time later. A reactor that stands still answers nothing, and nothing is
 * fed. I/O that storage does not complete is no reason: a reactor does not wait for it.
 *
 * Main thread only.
 */
#ifndef RDT_WATCHDOG_H
#define RDT_WATCHDOG_H

struct rdt_notify;
struct rdt_target;
struct rdt_watchdog;

/* The target runs. *@out: NULL when there is no watchdog to feed. Returns 0 or -ENOMEM. */
int rdt_watchdog_start(struct rdt_target *target, struct rdt_notify *notify,
		       struct rdt_watchdog **out);
/* On the main loop while it exists. Nothing is fed after that. NULL is fine. */
void rdt_watchdog_stop(struct rdt_watchdog *watchdog);
/* No loop runs any more: a message to a reactor, or its answer, may be on its way until then. */
void rdt_watchdog_free(struct rdt_watchdog **watchdog);

#endif /* RDT_WATCHDOG_H */
