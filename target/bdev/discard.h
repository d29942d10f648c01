/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discarding blocks of a block device. The kernel offers only a call that waits for the device, so
 * a thread of its own makes it.
 */
#ifndef RDT_DISCARD_H
#define RDT_DISCARD_H

#include "backend.h"

struct rdt_discard;

/* @fd is the caller's, open as long as this lives. Main thread. Returns 0 or -errno. */
int rdt_discard_start(int fd, struct rd_log *log, struct rdt_discard **out);
void rdt_discard_stop(struct rdt_discard **discard); /* no bio is under way; NULL is fine */
/* On the reactor with @loop, where @bio ends. */
void rdt_discard_submit(struct rdt_discard *discard, struct rd_loop *loop, struct rdt_bio *bio);
void rdt_discard_cancel(struct rdt_bio *bio); /* what has not begun never will */

#endif /* RDT_DISCARD_H */
