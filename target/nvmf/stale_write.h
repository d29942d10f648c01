/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that come back. A host that lost its connections does not know which of its commands were
 * executed: it sends them again, and others after them. A write of before that the storage has not
 * finished would then come last and overwrite newer data. So a new controller of the host is not
 * ready while commands of a dead one are in flight (ctrl.c), and where that takes longer than
 * RDT_FENCE_READY_WAIT, only the namespaces that have such commands are kept from it, for as long
 * as it takes: its commands there wait, as those of before do.
 *
 * What a dead controller has in flight is told by its queues as they close; the bits of namespaces
 * stay until all of that is over. A queue that has not told yet (its reactor stands still: storage
 * can hang within a system call) may have some in every namespace, and so they all are kept.
 *
 * The reactor of the admin queue may stand still as well, and then nobody has seen that the old
 * controller is dead. So a new controller asks the reactors of its host's other ones, and does not
 * wait for them to be ready: until one answers, each of its controllers counts as dead. Before it
 * answers it ends those whose connections are closed; all others are second paths.
 */
#ifndef RDT_STALE_WRITE_H
#define RDT_STALE_WRITE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctrl.h"
#include "qpair.h"
#include "request.h"

struct rdt_reactor;
struct rdt_subsys;

/* An I/O queue joins the controller, on its owner. It ends with rdt_fence_queue_closed(). */
void rdt_fence_queue_attached(struct rdt_ctrl *ctrl);
/* It closes, on its reactor: which of its commands are in others' hands and may write? */
void rdt_fence_queue_closed(struct rdt_qpair *qp);

/* A question to a reactor, for all new controllers of a subsystem; under subsys->lock. */
struct rdt_ask {
	struct rd_msg msg;
	struct rdt_subsys *subsys;
	bool posted;
};

int rdt_fence_open(struct rdt_subsys *ss);
/* @ctrl is enabled: ask the reactors of those of its host that may have commands in flight. */
void rdt_fence_ask(struct rdt_ctrl *ctrl);
/* @ctrl is in no list any more. Under subsys->lock. */
void rdt_fence_leave(struct rdt_ctrl *ctrl);

/* A reset: it has no I/O queues any more. */
void rdt_fence_settled(struct rdt_ctrl *ctrl);

/*
 * Find the dead controllers of @ctrl's host. Returns the CNTLID of one, or 0. @keep: commands for
 * namespaces where these have some in flight wait from now on. Those for namespaces where one has
 * some of which is not known whether it is dead wait in any case. Under subsys->lock.
 */
uint16_t rdt_fence_find_dead(struct rdt_ctrl *ctrl, bool keep);

/* The namespace in this slot is gone, and so is what was in flight there. Under subsys->lock. */
void rdt_fence_forget_ns(struct rdt_subsys *ss, unsigned int slot);

bool rdt_fence_holds(const struct rdt_req *req);
/* Has @req, a command for a namespace, to wait for commands of before? */
static inline bool rdt_fence_blocks(const struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;

	return atomic_load_explicit(&ctrl->behind, memory_order_relaxed) && rdt_fence_holds(req);
}

void rdt_fence_init(struct rdt_reactor *r);
/* LIMITED: until it has not any more; rdt_req_process() is called then. False: out of memory. */
bool rdt_fence_wait(struct rdt_req *req);
void rdt_fence_unwait(struct rdt_req *req);

#endif /* RDT_STALE_WRITE_H */
