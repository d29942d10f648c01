/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage that this gateway cannot reach, while another one may serve it (rdt_bdev.cut_off). Its
 * ANA group is inaccessible, and I/O queues with commands for it are ended: their hosts go on by
 * another path at once, and nothing that the storage executes later is acknowledged.
 */
#ifndef RDT_CUT_OFF_H
#define RDT_CUT_OFF_H

#include <stdatomic.h>
#include <stdbool.h>

#include "util/loop.h"
#include "qpair_walk.h"

struct rdt_reactor;
struct rdt_target;

/* Of a reactor. */
struct rdt_cut_off {
	struct rd_msg msg;
	atomic_bool posted; /* @msg is under way, or the walk runs */
	struct rdt_qpair_walk walk;
};

void rdt_cut_off_init(struct rdt_reactor *r);
/* When bdev->cut_off has been set, and now and then while it is. Main thread. */
void rdt_cut_off_look(struct rdt_target *target);

#endif /* RDT_CUT_OFF_H */
