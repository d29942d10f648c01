/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controllers of one host (host NQN and Host Identifier) in a subsystem, and what the
 * stale-write fence knows about the host as a whole, so that the cost of a controller's end does
 * not depend on the number of the host's other controllers. Everything is guarded by subsys->lock,
 * except where noted.
 */
#ifndef RDT_CTRL_HOST_H
#define RDT_CTRL_HOST_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "nvmf/text.h"
#include "util/map.h"
#include "target/nvmf/base/slots.h"

struct rdt_ctrl;
struct rdt_listener;
struct rdt_qpair;
struct rdt_subsys;

LIST_HEAD(rdt_host_ctrls, rdt_ctrl);

struct rdt_ctrl_host {
	LIST_ENTRY(rdt_ctrl_host) link; /* subsys->ctrl_hosts */
	struct rdt_host_ctrls ctrls;    /* the object is freed with the last one */
	struct rdt_host_ctrls dead;     /* controllers that are over and not freed yet */
	struct rdt_host_ctrls waits;    /* controllers whose ctrl->fence_waits is set */
	unsigned int fenced;            /* number of controllers whose ctrl->fenced is set */
	uint64_t looks; /* counts how often the fence examined a controller or queue, for tests */
	/* Closed queues of all controllers that have writes in flight, and the namespaces of these
	 * writes. The namespaces are read without the lock. */
	LIST_HEAD(, rdt_qpair) lost;
	struct rdt_slots lost_ns;
	struct rd_map
		/* by slot: how many queues of @lost write to it, stored as a pointer; under the
		 * lock */
		lost_in;
	bool lost_uncounted; /* @lost_in is incomplete, because memory was short */
	/* Ended controllers with queues that have not reported yet: these count as having writes in
	 * every namespace. Any thread, without the lock. */
	atomic_uint unknown;
	/* @unknown plus the queues of @lost. 0: no command of the host waits for these.
	 * Likewise. */
	atomic_uint fences;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	/* Its paths (struct rdt_ctrl_path) by listener, so that a new controller examines only the
	 * latest one of its path. */
	struct rd_map paths;
	uint64_t twin_looks;
};

/* The controllers of a host through one listener that are authenticated; freed with the last
 * one. */
struct rdt_ctrl_path {
	const struct rdt_listener *listener;
	struct rdt_host_ctrls ctrls; /* latest first; some may be over */
};

int rdt_ctrl_host_join(struct rdt_subsys *ss, struct rdt_ctrl *ctrl); /* 0 or -ENOMEM */
void rdt_ctrl_host_leave(struct rdt_ctrl *ctrl); /* also if it has not joined */

/* Add @ctrl, which has joined its host and is authenticated, to its path. Returns 0 or -ENOMEM. */
int rdt_ctrl_path_join(struct rdt_ctrl *ctrl);
/* Returns another controller of the same host and listener that is authenticated and not over, or
 * NULL. @ctrl must not be authenticated yet. */
struct rdt_ctrl *rdt_ctrl_duplicate(struct rdt_ctrl *ctrl);

#endif /* RDT_CTRL_HOST_H */
