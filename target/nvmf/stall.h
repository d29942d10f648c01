/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage that does not answer. While I/O is in flight, each reactor looks every RDT_STALL_NS at
 * its requests, in slices. I/O that a look has seen, and the next one still sees, makes its
 * namespace stalled, whatever its backend is. This is logged, and that it is over. The I/O path
 * only finds out whether the timer runs.
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

/* I/O of between one and two of these is old. */
#define RDT_STALL_NS (5 * RD_NSEC_PER_SEC)
/* How often to look whether it is over. */
#define RDT_STALL_QUICK_NS RD_NSEC_PER_SEC
/* I/O of this age is old while its reactor drains, if a quick look later no other old I/O of its
 * namespace has ended either. */
#define RDT_STALL_DRAIN_NS (2 * RDT_STALL_QUICK_NS)

/* Of a reactor. */
struct rdt_stall {
	struct rd_timer timer;
	struct rdt_qpair_walk walk;
	bool watching;                         /* the timer is armed, or the walk runs */
	bool in_flight;                        /* of this walk: some I/O is */
	bool full;                             /* of this walk: it finds what has become old */
	uint64_t full_ns;                      /* when the last full walk began */
	TAILQ_HEAD(, rdt_ns_channel) channels; /* with old I/O */
};

/* Of a namespace on a reactor. */
struct rdt_stall_of {
	unsigned int old;    /* I/Os found by this walk */
	unsigned int before; /* and by the one before */
	uint64_t since;      /* arrival of the oldest one */
	bool listed;         /* in stall->channels */
	bool stalled;
	TAILQ_ENTRY(rdt_ns_channel) link;
};

void rdt_stall_init(struct rdt_reactor *r);
void rdt_stall_stop(struct rdt_reactor *r);
void rdt_stall_begin(struct rdt_reactor *r);
/* The reactor drains from now on: it looks at once, and once a second. */
void rdt_stall_drain(struct rdt_reactor *r);
/* The channel closes: it has no I/O. */
void rdt_stall_forget(struct rdt_reactor *r, struct rdt_ns_channel *channel);

/*
 * Storage that this gateway cannot reach, while another one may serve it (rdt_bdev.cut_off). Its
 * ANA group is inaccessible, and I/O queues with commands for it are ended: their hosts go on by
 * another path at once, and nothing that the storage executes later is acknowledged.
 */

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

#endif /* RDT_STALL_H */
