/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controllers of one host (host NQN and Host Identifier) in a subsystem, and what the
 * stale-write fence knows of the host as a whole: the end of a controller costs the same however
 * many others its host has. Everything under subsys->lock, except where noted.
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
	struct rdt_host_ctrls ctrls;    /* freed with the last one */
	struct rdt_host_ctrls dead;     /* those that are over, until they are freed */
	struct rdt_host_ctrls waits;    /* those whose ctrl->fence_waits is set */
	unsigned int fenced;            /* those whose ctrl->fenced is set */
	uint64_t looks; /* controllers and queues that the fence has looked at, each time */
	/* Closed queues of any of them that have writes in flight, and all namespaces of these. The
	 * namespaces are read without the lock. */
	LIST_HEAD(, rdt_qpair) lost;
	struct rdt_slots lost_ns;
	struct rd_map
		lost_in; /* by slot: how many of @lost are in it, as a pointer; under the lock */
	bool lost_uncounted; /* some are missing there, for want of memory */
	/* Controllers that end and have queues which have not reported: they count as in flight
	 * everywhere. Any thread, without the lock. */
	atomic_uint unknown;
	/* @unknown, and the queues of @lost. 0: no command of the host waits for these. Likewise.
	 */
	atomic_uint fences;
	uint8_t hostid[16];
	char hostnqn[NVMF_NQN_MAX + 1];
	/* Its paths (struct rdt_ctrl_path) by listener: a controller is looked at by the next one
	 * of its path, and not again when it is over. */
	struct rd_map paths;
	uint64_t twin_looks;
};

/* The proven controllers of a host through one listener; freed with the last one. */
struct rdt_ctrl_path {
	const struct rdt_listener *listener;
	struct rdt_host_ctrls ctrls; /* the last one first; some of them may be over */
};

int rdt_ctrl_host_join(struct rdt_subsys *ss, struct rdt_ctrl *ctrl); /* 0 or -ENOMEM */
void rdt_ctrl_host_leave(struct rdt_ctrl *ctrl); /* also one that has not joined */

/* @ctrl, which has joined its host, is proven. Returns 0 or -ENOMEM. */
int rdt_ctrl_path_join(struct rdt_ctrl *ctrl);
/* A controller of the host and listener of @ctrl that is proven and not over, or NULL. @ctrl is not
 * proven yet. */
struct rdt_ctrl *rdt_ctrl_twin(struct rdt_ctrl *ctrl);

#endif /* RDT_CTRL_HOST_H */
