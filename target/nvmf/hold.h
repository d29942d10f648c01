/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hold: every connection of a target is brought to a rest, at which it can be moved to another
 * process or go on. A queue pair that is held reads nothing, has no commands besides AERs that wait
 * for an event, and everything that it has answered is in its socket. docs/design/moves.md.
 *
 * Functions are called on the main thread, and so are the callbacks.
 */
#ifndef RDT_HOLD_H
#define RDT_HOLD_H

#include <stdbool.h>
#include <stdint.h>

struct rdt_target;

/*
 * Holds every queue pair of @tgt, whose listeners accept nothing. @held follows, not from within
 * this call: 0 when all are at rest; or -ETIMEDOUT after @timeout_ns or another -errno, with a
 * sentence in @why that names what does not end, and then everything goes on as before. Returns 0
 * or -errno; -EBUSY: it is held already.
 * @force: what waits for storage refuses nothing. Its queue does not move, and rdt_hold_left()
 * tells of the namespace.
 */
int rdt_hold(struct rdt_target *tgt, uint64_t timeout_ns, bool force,
	     void (*held)(void *arg, int err, const char *why), void *arg);
/* @held was told 0: does I/O in the storage of the namespace in @slot go on? */
bool rdt_hold_left(const struct rdt_target *tgt, unsigned int slot);
/* Goes on as if nothing had happened; without a hold, nothing. A hold that has not called @held
 * does not do so any more. */
void rdt_hold_release(struct rdt_target *tgt);

#endif /* RDT_HOLD_H */
