/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heartbeat of reactors: does a reactor run, and for how long has it not?
 *
 * A host that loses a path sends lost writes again by another path when twice the keep-alive
 * timeout and one second have passed, because by then the old controller has ended. A reactor that
 * stands still (in a system call on storage that hangs; or the whole process is stopped) cannot end
 * it. When it runs again, it would execute commands that came before, over what the host has
 * written meanwhile. Therefore:
 *
 * - A reactor that has stood still for longer than the keep-alive timeout ends the queues of the
 *   controllers that this concerns before it takes commands from them.
 * - The other reactors notice that it stands still, and fence the controllers of hosts that may
 *   have commands in flight there: stale_write.h.
 */
#ifndef RDT_HEARTBEAT_H
#define RDT_HEARTBEAT_H

#include <stdatomic.h>
#include <stdint.h>

#include "util/loop.h"

#include "reactor.h"

struct rdt_ctrl;

/* The period. Without queue pairs of hosts with keep alive a reactor sleeps. */
#define RDT_HEARTBEAT_NS (500 * RD_NSEC_PER_MSEC)

void rdt_beat_init(struct rdt_reactor *r);
/* @r has a queue pair of @ctrl: it beats, if the host has keep alive, until @r has no queue pairs.
 * No memory: it does not beat, which the log says. */
void rdt_beat_start(struct rdt_reactor *r, const struct rdt_ctrl *ctrl);
void rdt_beat_stop(struct rdt_reactor *r);
/* Room for the numbers of 64 reactors. */
#define RDT_BEAT_NAMES 288
/* Writes "reactor 3" or "reactors 1, 3" for the bits of @reactors to @text. Returns @text. */
const char *rdt_beat_names(uint64_t reactors, char text[RDT_BEAT_NAMES]);

/* The reactor runs. @reactor: struct rdt_reactor. The loop calls it in each turn before anything
 * else: commands that wait, or whose I/O has ended, must not go on before. */
void rdt_beat_look(void *reactor);
/* The same with the present time, which the loop does not know within a turn. */
void rdt_beat_look_now(struct rdt_reactor *r);

/* Call it before each command that is taken in the same turn: the one before may have blocked the
 * reactor. */
static inline void rdt_beat_look_again(struct rdt_reactor *r)
{
	if (__builtin_expect(atomic_load_explicit(&r->heartbeat_asked, memory_order_relaxed), 0))
		rdt_beat_look_now(r);
}

#endif /* RDT_HEARTBEAT_H */
