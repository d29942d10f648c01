/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls for files and block devices that may block: BLKDISCARD, and lseek for data and holes, which
 * may read metadata from the disk. A helper thread for each file makes them. */
#ifndef RDT_BLOCKING_H
#define RDT_BLOCKING_H

#include "backend.h"

struct rdt_blocking;

/* @fd stays open, and belongs to the caller, until rdt_blocking_stop(). Any thread. Returns 0 or
 * -errno. */
int rdt_blocking_start(int fd, struct rd_log *log, struct rdt_blocking **out);
/* the caller has no bio in flight; accepts NULL */
void rdt_blocking_stop(struct rdt_blocking **blocking);
/* @bio: DEALLOCATE of a block device, or EXTENTS. On the reactor with @loop, on which bio->done is
 * called. */
void rdt_blocking_submit(struct rdt_blocking *blocking, struct rd_loop *loop, struct rdt_bio *bio);
/* if @bio has not been started, it ends with -ECANCELED */
void rdt_blocking_cancel(struct rdt_bio *bio);

#endif /* RDT_BLOCKING_H */
