/* SPDX-License-Identifier: BSD-3-Clause */
/* Host access control: which hosts may connect to a subsystem, and which see a namespace. */
#ifndef RDT_HOST_ACCESS_H
#define RDT_HOST_ACCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ctrl.h"
#include "events.h"
#include "ns.h"

struct rdt_auth_set;
struct rdt_subsys;
struct rdt_subsys_config;

int rdt_host_access_init(struct rdt_subsys *ss);
void rdt_host_access_fini(struct rdt_subsys *ss);
/* Returns whether @hostnqn may connect to @ss. Any thread. */
bool rdt_subsys_allows(struct rdt_subsys *ss, const char *hostnqn);
/*
 * Replace the host list of a subsystem or a namespace; @nqns is copied. Ends the controllers of
 * hosts that are no longer allowed, and sends an asynchronous event to controllers that see other
 * namespaces than before. Main thread.
 *
 * @keys: replaces the keys of the hosts at the same time, so that no host is ever allowed without
 * its key; the previous keys are accepted for some minutes. Takes a reference to @keys->of. NULL:
 * keep the keys.
 */
int rdt_subsys_set_hosts(struct rdt_subsys *ss, bool any, const char *const *nqns,
			 unsigned int count, const struct rdt_auth_set *keys);
int rdt_ns_set_hosts(struct rdt_ns *ns, bool any, const char *const *nqns, unsigned int count);
/* Change the hosts and their keys from configuration @now to @next, a part of @next_of. Returns the
 * number of settings that changed, or -errno without any change. Main thread. */
int rdt_subsys_follow_hosts(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			    const struct rdt_subsys_config *next, struct rdt_config *next_of);
int rdt_ns_follow_hosts(struct rdt_ns *ns, const struct rdt_ns_config *now,
			const struct rdt_ns_config *next);
int rdt_host_access_add_ns(struct rdt_ns *ns); /* for a new namespace, before a reactor shows it */
void rdt_host_access_remove_ns(struct rdt_ns *ns); /* before the namespace is freed */
/* for a new controller, under subsys->lock */
void rdt_host_access_add_ctrl(struct rdt_ctrl *ctrl);
bool rdt_host_access_allows(const struct rdt_subsys *ss,
			    const char *hostnqn); /* under subsys->lock */
/* posts @event to the controllers that see @ns; main thread */
void rdt_event_ns(struct rdt_ns *ns, enum rdt_event event);

static inline bool rdt_ns_visible(const struct rdt_ctrl *ctrl, const struct rdt_ns *ns)
{
	return !rdt_slots_has(&ctrl->hidden, ns->slot);
}

#endif /* RDT_HOST_ACCESS_H */
