/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stale-write fence. A host that lost its connections does not know which of its commands were
 * executed: it repeats them on a new controller, followed by newer commands. A write of the old
 * controller that the storage has not finished could then be executed last and overwrite newer
 * data. Therefore a new controller does not become ready while commands of a dead controller of the
 * same host are in flight (ctrl.c). If that takes longer than RDT_FENCE_READY_WAIT, the new
 * controller becomes ready, and its commands wait in the namespaces where old commands are in
 * flight.
 *
 * As it closes, each I/O queue reports in which namespaces it has commands in flight. These
 * namespaces stay fenced until all of the commands have ended, even if the controller still exists
 * as far as the target knows. A queue of a dead controller that has not reported counts as having
 * commands in every namespace: its reactor is blocked, because storage can hang within a system
 * call.
 *
 * If the reactor of the old admin queue is blocked too, or only the host knows that the admin
 * connection is lost, no reactor has noticed the end of the old controller. Therefore a new
 * controller asks the reactors that have queues of other controllers of its host, and becomes ready
 * without waiting for the answers. Until they answer, these controllers count as dead. Before a
 * reactor answers, it ends the controllers and I/O queues whose connections are closed; the
 * remaining ones are second paths of the host.
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

/* Maximum number of other controllers of its host that a new controller examines. If there are
 * more, all reactors are asked, and each of them may have commands in flight. */
#define RDT_FENCE_LOOKS 64u

/* An I/O queue on reactor @r joins the controller, or has left it; it closes in between. On the
 * owner. */
void rdt_fence_queue_attached(struct rdt_ctrl *ctrl, const struct rdt_reactor *r);
void rdt_fence_queue_detached(struct rdt_ctrl *ctrl, const struct rdt_reactor *r);
/* The queue pair closes: record which of its commands are held by a backend or another thread and
 * may still write. Until these have ended, commands of its host wait in their namespaces. On its
 * reactor. */
void rdt_fence_queue_closed(struct rdt_qpair *qp);
/* Commands of the closed queue pair may have ended. On its reactor. */
void rdt_fence_queue_check(struct rdt_qpair *qp);
/* @ctrl is over: commands of its host wait for what it has in flight from now on. Under
 * subsys->lock. */
void rdt_fence_ctrl_ended(struct rdt_ctrl *ctrl);
/* @ctrl was told to end (@begins), or its owner has processed that; the caller holds a
 * reference. */
void rdt_fence_ctrl_ending(struct rdt_ctrl *ctrl, bool begins);

/* A question to a reactor, for all new controllers of a subsystem; under subsys->lock. */
struct rdt_ask {
	struct rd_msg msg;
	struct rdt_subsys *subsys;
	unsigned int answers; /* number of answers; see rdt_ctrl_on.looked */
	bool posted;
};

int rdt_fence_open(struct rdt_subsys *ss);
/* Let the other controllers of @ctrl's host that may have commands in flight count as dead until
 * their reactors answer. @owners: bit mask of the reactors to ask, if they have the admin queue of
 * such a controller; 0: ask the reactors of all their queues. Any thread. */
void rdt_fence_ask(struct rdt_ctrl *ctrl, uint64_t owners);
/* Remove @ctrl from the fence. Under subsys->lock. */
void rdt_fence_leave(struct rdt_ctrl *ctrl);

/*
 * Find a dead controller of @ctrl's host, and fence @ctrl from those whose state is unknown. The
 * commands in flight of dead controllers and lost queues need no action here: they fence all
 * controllers of the host when they become known. Returns the CNTLID of a dead controller, or 0.
 * Under subsys->lock.
 */
uint16_t rdt_fence_find_dead(struct rdt_ctrl *ctrl);

/* The namespace in @slot was removed, and no command for it is in flight. Under subsys->lock. */
void rdt_fence_forget_ns(struct rdt_subsys *ss, unsigned int slot);

/* Returns whether a command of @ctrl may have to wait. */
static inline bool rdt_fence_any(const struct rdt_ctrl *ctrl)
{
	return atomic_load_explicit(&ctrl->host->fences, memory_order_relaxed) ||
	       atomic_load_explicit(&ctrl->fenced, memory_order_relaxed);
}

bool rdt_fence_blocks_slow(const struct rdt_req *req);
/* Returns whether @req, a command for a namespace, has to wait for older commands. */
static inline bool rdt_fence_blocks(const struct rdt_req *req)
{
	const struct rdt_ctrl *ctrl = req->qp->ctrl;

	return rdt_fence_any(ctrl) && rdt_fence_blocks_slow(req);
}

void rdt_fence_init(struct rdt_reactor *r);
/* Move @req to FENCED until nothing blocks it; then rdt_req_resume() is called. Returns false
 * without memory. */
bool rdt_fence_wait(struct rdt_req *req);
void rdt_fence_unwait(struct rdt_req *req); /* @req must be FENCED */

#endif /* RDT_STALE_WRITE_H */
