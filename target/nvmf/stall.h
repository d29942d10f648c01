/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage that does not answer. While I/O is in flight, each reactor checks its requests every
 * RDT_STALL_NS, in slices. I/O that two consecutive checks have found makes its namespace stalled,
 * whatever its backend is. The beginning and the end of this are logged. The I/O path only tests
 * whether the timer runs.
 */
#ifndef RDT_STALL_H
#define RDT_STALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "util/loop.h"
#include "qpair_walk.h"

struct rdt_ns_channel;
struct rdt_reactor;

/* I/O is old after one to two of these periods. */
#define RDT_STALL_NS (5 * RD_NSEC_PER_SEC)
/* The period of quick checks whether a stall has ended. */
#define RDT_STALL_QUICK_NS RD_NSEC_PER_SEC
/* While the reactor drains, I/O of this age is old, unless other old I/O of its namespace ends
 * until the next quick check. */
#define RDT_STALL_DRAIN_NS (2 * RDT_STALL_QUICK_NS)

/* The state of a reactor. */
struct rdt_stall {
	struct rd_timer timer;
	struct rdt_qpair_walk walk;
	bool watching;                         /* the timer is armed or the walk runs */
	bool in_flight;                        /* this walk has found I/O */
	bool full;                             /* this walk determines which I/O is old */
	uint64_t full_ns;                      /* when the last full walk began */
	TAILQ_HEAD(, rdt_ns_channel) channels; /* channels with old I/O */
};

/* One for each namespace on each reactor. */
struct rdt_stall_of {
	unsigned int old;    /* old I/Os found by this walk */
	unsigned int before; /* old I/Os found by the previous walk */
	uint64_t since;      /* arrival of the oldest one, in ns */
	bool listed;         /* in stall->channels */
	bool stalled;
	TAILQ_ENTRY(rdt_ns_channel) link;
};

void rdt_stall_init(struct rdt_reactor *r);
void rdt_stall_stop(struct rdt_reactor *r);
void rdt_stall_begin(struct rdt_reactor *r);
/* The reactor drains: check at once, then every second. */
void rdt_stall_drain(struct rdt_reactor *r);
/* The channel closes, and has no I/O. */
void rdt_stall_forget(struct rdt_reactor *r, struct rdt_ns_channel *channel);

/* Storage that this gateway cannot reach, while another one may serve it (rdt_bdev.cut_off). Its
 * ANA group is inaccessible, and I/O queues with commands for it are closed: their hosts switch to
 * another path at once, and what the storage executes later is not acknowledged. */

struct rdt_target;

/* The state of a reactor. */
struct rdt_cut_off {
	struct rd_msg msg;
	atomic_bool posted; /* @msg was posted, or the walk runs */
	struct rdt_qpair_walk walk;
};

void rdt_cut_off_init(struct rdt_reactor *r);
/* Called when bdev->cut_off was set, and repeatedly while it is set. Main thread. */
void rdt_cut_off_look(struct rdt_target *target);

#endif /* RDT_STALL_H */
