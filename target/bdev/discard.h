/* SPDX-License-Identifier: BSD-3-Clause */
/* BLKDISCARD for block devices. It is a blocking ioctl, so a helper thread for each device calls
 * it. */
#ifndef RDT_DISCARD_H
#define RDT_DISCARD_H

#include "backend.h"

struct rdt_discard;

/* @fd stays open, and belongs to the caller, until rdt_discard_stop(). Main thread. Returns 0 or
 * -errno. */
int rdt_discard_start(int fd, struct rd_log *log, struct rdt_discard **out);
/* the caller has no bio in flight; accepts NULL */
void rdt_discard_stop(struct rdt_discard **discard);
/* On the reactor with @loop, on which bio->done is called. */
void rdt_discard_submit(struct rdt_discard *discard, struct rd_loop *loop, struct rdt_bio *bio);
/* if @bio has not been started, it ends with -ECANCELED */
void rdt_discard_cancel(struct rdt_bio *bio);

#endif /* RDT_DISCARD_H */
