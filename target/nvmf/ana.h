/* SPDX-License-Identifier: BSD-3-Clause */
/* ANA: the states of groups on each listener, and their effect on commands. */
#ifndef RDT_ANA_H
#define RDT_ANA_H

#include <stdatomic.h>
#include <stdint.h>

#include "nvmf/wire.h"
#include "ctrl.h"
#include "listener.h"
#include "ns.h"
#include "request.h"
#include "subsys.h"
#include "target.h"

struct rdt_target;

#define RDT_ANA_TEXT 512 /* size of the buffer for rdt_ana_text() */

/* The states of a listener's groups; the index is the group, 0 is unused. */
struct rdt_ana_states {
	uint8_t of[RDT_ANA_GROUPS + 1]; /* enum nvme_ana_state */
};

void rdt_ana_init(struct rdt_listener *l);
/* Returns the states that the configuration of a listener sets. */
struct rdt_ana_states rdt_ana_configured(const struct rdt_listener_config *cfg);
/* Returns states in which all groups have @state. */
struct rdt_ana_states rdt_ana_all(enum nvme_ana_state state);
/* Set the states of @l and notify hosts and event watchers, once for each state. Returns the number
 * of groups whose state changed. Main thread. */
int rdt_ana_set(struct rdt_target *target, struct rdt_listener *l, struct rdt_ana_states states);
/* Describes the states for log lines and status pages: "all inaccessible", or the groups that are
 * not optimized, such as "1-8, 12 inaccessible; 9 change". Returns @text. */
const char *rdt_ana_text(const struct rdt_listener *l, char text[RDT_ANA_TEXT]);
struct nvme_status rdt_ana_status(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns);

/* Without a listener (tests), all groups are optimized. */
static inline enum nvme_ana_state rdt_ana_state_by(const struct rdt_listener *l, uint32_t group)
{
	uint8_t state = NVME_ANA_STATE_OPTIMIZED;

	if (l)
		state = atomic_load_explicit(&l->ana[group], memory_order_relaxed);
	return (enum nvme_ana_state)state;
}

static inline enum nvme_ana_state rdt_ana_state(const struct rdt_ctrl *ctrl, uint32_t group)
{
	return rdt_ana_state_by(ctrl->listener, group);
}

/* Move @ns to @group, which must be valid, and notify hosts. Commands in progress are not affected.
 * Main thread. */
void rdt_ana_move(struct rdt_ns *ns, uint32_t group);
/* Record that another gateway holds the storage of @group (@standby), or no longer holds it, and
 * notify hosts. Main thread. */
void rdt_ana_standby(struct rdt_target *target, uint32_t group, bool standby);

/* Returns the state that is reported to hosts: the listener's state, or inaccessible while another
 * gateway holds the storage. The backend refuses I/O during that time, so the I/O path does not
 * read this state. */
static inline enum nvme_ana_state rdt_ana_told_by(const struct rdt_target *t,
						  const struct rdt_listener *l, uint32_t group)
{
	enum nvme_ana_state state = rdt_ana_state_by(l, group);

	if ((state == NVME_ANA_STATE_OPTIMIZED || state == NVME_ANA_STATE_NONOPTIMIZED) &&
	    atomic_load(&t->ana_standby[group]))
		return NVME_ANA_STATE_INACCESSIBLE;
	return state;
}

static inline enum nvme_ana_state rdt_ana_told(const struct rdt_ctrl *ctrl, uint32_t group)
{
	return rdt_ana_told_by(ctrl->subsys->target, ctrl->listener, group);
}

static inline struct nvme_status rdt_ana_check(struct rdt_req *req) /* for a command for req->ns */
{
	struct nvme_status st = NVME_OK;

	if (rdt_ana_state(req->qp->ctrl, rdt_ns_ana_group(req->ns)) != NVME_ANA_STATE_OPTIMIZED)
		st = rdt_ana_status(req->qp->ctrl, req->ns);
	if (!nvme_status_ok(st))
		req->err_loc = RDT_LOC(nsid);
	return st;
}

#endif /* RDT_ANA_H */
