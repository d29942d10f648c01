/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heartbeat of reactors: it tells whether a reactor runs, and for how long it has been blocked.
 *
 * A host that loses a path repeats lost writes on another path after twice the keep-alive timeout
 * and one second, because the old controller has ended by then. A reactor that is blocked (in a
 * system call on storage that hangs, or because the whole process is stopped) cannot end it. When
 * the reactor runs again, it would execute old commands and overwrite what the host has written
 * meanwhile. Therefore:
 *
 * - A reactor that was blocked for longer than the keep-alive timeout ends the queues of the
 *   controllers concerned before it takes commands from them.
 * - The other reactors notice that it is blocked, and fence the controllers of hosts that may have
 *   commands in flight there: stale_write.h.
 */
#ifndef RDT_HEARTBEAT_H
#define RDT_HEARTBEAT_H

#include <stdatomic.h>
#include <stdint.h>

#include "util/loop.h"

#include "reactor.h"

struct rdt_ctrl;

/* The period. A reactor without queue pairs of hosts with keep alive has no heartbeat, so that it
 * can sleep. */
#define RDT_HEARTBEAT_NS (500 * RD_NSEC_PER_MSEC)

void rdt_heartbeat_init(struct rdt_reactor *r);
/* A queue pair of @ctrl begins on @r: start the heartbeat if the host has keep alive. It ends when
 * @r has no queue pairs. Without memory there is no heartbeat, which is logged. */
void rdt_heartbeat_start(struct rdt_reactor *r, const struct rdt_ctrl *ctrl);
void rdt_heartbeat_stop(struct rdt_reactor *r);
/* Size of a text with the numbers of 64 reactors. */
#define RDT_HEARTBEAT_NAMES 288
/* Writes the reactors of a bit mask to @text, as "reactor 3" or "reactors 1, 3". Returns @text. */
const char *rdt_heartbeat_names(uint64_t reactors, char text[RDT_HEARTBEAT_NAMES]);

/* The reactor runs. @reactor: struct rdt_reactor. The loop calls it first in each iteration,
 * because commands that wait, or whose I/O has ended, must not continue before. */
void rdt_heartbeat_check(void *reactor);
/* The same with the current time, which the loop does not know within an iteration. */
void rdt_heartbeat_check_now(struct rdt_reactor *r);

/* Called before each further command of a loop iteration, because the previous one may have blocked
 * the reactor. */
static inline void rdt_heartbeat_check_again(struct rdt_reactor *r)
{
	if (__builtin_expect(atomic_load_explicit(&r->heartbeat_asked, memory_order_relaxed), 0))
		rdt_heartbeat_check_now(r);
}

#endif /* RDT_HEARTBEAT_H */
