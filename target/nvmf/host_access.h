/* SPDX-License-Identifier: BSD-3-Clause */
/* Which hosts may connect to a subsystem, and which see a namespace. */
#ifndef RDT_HOST_ACCESS_H
#define RDT_HOST_ACCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ctrl.h"
#include "events.h"
#include "ns.h"

struct rdt_subsys;

int rdt_host_access_init(struct rdt_subsys *ss);
void rdt_host_access_fini(struct rdt_subsys *ss);
/* Whether @hostnqn may connect to @ss. Any thread. */
bool rdt_subsys_allows(struct rdt_subsys *ss, const char *hostnqn);
/* Replace the list of hosts of a subsystem or a namespace. Main thread. The list is copied. The
 * controllers of hosts that are no longer allowed are ended; a controller that sees more or fewer
 * namespaces gets an asynchronous event. */
int rdt_subsys_set_hosts(struct rdt_subsys *ss, bool any, const char *const *nqns,
			 unsigned int count);
int rdt_ns_set_hosts(struct rdt_ns *ns, const char *const *nqns, unsigned int count);
int rdt_host_access_add_ns(struct rdt_ns *ns); /* a new namespace, before any reactor shows it */
void rdt_host_access_remove_ns(struct rdt_ns *ns);    /* it is going to be freed */
void rdt_host_access_add_ctrl(struct rdt_ctrl *ctrl); /* a new controller, under subsys->lock */
bool rdt_host_access_allows(const struct rdt_subsys *ss,
			    const char *hostnqn);           /* under subsys->lock */
void rdt_event_ns(struct rdt_ns *ns, enum rdt_event event); /* to those that see it. Main thread */

static inline bool rdt_ns_visible(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns)
{
	return !rdt_slots_has(&ctrl->hidden, ns->slot);
}

#endif /* RDT_HOST_ACCESS_H */
