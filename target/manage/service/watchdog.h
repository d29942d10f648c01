/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds the service manager's watchdog as long as every reactor runs. A round is a message to each
 * reactor's loop. When all have answered, WATCHDOG=1 is sent, and the next round starts a third of
 * the watchdog's timeout later. A reactor that hangs does not answer, so nothing is fed. Storage
 * that does not complete I/O has no effect, because reactors do not wait for it.
 *
 * Main thread only.
 */
#ifndef RDT_WATCHDOG_H
#define RDT_WATCHDOG_H

struct rdt_notify;
struct rdt_target;
struct rdt_watchdog;

/* Call when the target runs. *@out: NULL if there is no watchdog. Returns 0 or -ENOMEM. */
int rdt_watchdog_start(struct rdt_target *target, struct rdt_notify *notify,
		       struct rdt_watchdog **out);
/* Call while the main loop exists. The watchdog is not fed afterwards. Accepts NULL. */
void rdt_watchdog_stop(struct rdt_watchdog *watchdog);
/* Call after all loops have ended: until then a message or its answer may be in flight. */
void rdt_watchdog_free(struct rdt_watchdog **watchdog);

#endif /* RDT_WATCHDOG_H */
