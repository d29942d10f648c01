/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of a controller, and the AER commands that wait for them. */
#ifndef RDT_EVENTS_H
#define RDT_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "request.h"

struct rdt_ctrl;
struct rdt_subsys;
struct rdt_target;

enum rdt_event {
	RDT_EV_NS_ATTR,
	RDT_EV_ANA,
	RDT_EV_DISC_LOG,
	RDT_EV_RESV_LOG,
	RDT_EV_ERROR, /* a namespace error that no command caused; has an error log entry */
	/* the Critical Warning of the SMART log may have changed: rdt_health_warning() */
	RDT_EV_HEALTH,
	RDT_EVENTS,
};

struct rdt_changed_ns { /* the Changed Namespace List, sorted */
	pthread_mutex_t lock;
	unsigned int count;
	bool overflow; /* more namespaces changed than fit */
	uint32_t nsid[NVME_ID_NS_LIST_MAX];
};

struct rdt_events {
	/* bit mask, set by other threads; a change from 0 posts @msg, which holds a reference */
	_Atomic uint32_t posted;
	struct rd_msg msg;
	struct rdt_changed_ns changed;
	/* bit masks by enum rdt_event, used by the owner */
	uint32_t fresh;    /* happened after the host began to read the log page */
	uint32_t due;      /* to be reported */
	uint32_t reported; /* reported, and not cleared by reading the log page */
};

struct nvme_status rdt_aer_check(struct rdt_req *req);
enum rdt_exec rdt_aer_exec(struct rdt_req *req);
void rdt_aer_drop_all(struct rdt_ctrl *ctrl);
bool rdt_aer_remove(struct rdt_ctrl *ctrl, struct rdt_req *req);
/* Report the events that occurred while the admin queue was held. */
void rdt_events_resume(struct rdt_ctrl *ctrl);
void rdt_events_init(struct rdt_ctrl *ctrl);
/* The controller becomes ready: discard all events and their log entries. */
void rdt_events_reset(struct rdt_ctrl *ctrl);
void rdt_events_fini(struct rdt_ctrl *ctrl);
uint32_t rdt_event_oaes(const struct rdt_subsys *ss); /* events that feature 0Bh can enable */
/* Post @event. Any thread, under subsys->lock or with a reference. */
void rdt_event_post(struct rdt_ctrl *ctrl, enum rdt_event event, uint32_t nsid);
void rdt_event_subsys(struct rdt_subsys *ss, enum rdt_event event, uint32_t nsid); /* any thread */
/* The discovery log has changed for some hosts: increment its generation and notify discovery
 * controllers. Any thread, not under disc.lock. */
void rdt_discovery_changed(struct rdt_target *target);
/* The host reads the log page of an event. On the owner's reactor. */
void rdt_event_log_read(struct rdt_ctrl *ctrl, unsigned int lid, uint64_t offset, bool rae);
void rdt_changed_ns_read(struct rdt_ctrl *ctrl, struct nvme_ns_list *list, bool clear);

/* SMART log and events for namespaces whose storage has lost data, or may have (enum rdt_fault). */

struct rdt_ns;

/* Report failures of @ns to each controller that sees it. Called before a channel is opened. */
void rdt_health_watch(struct rdt_ns *ns);

/*
 * Returns the Critical Warning field of the SMART log of @ctrl (enum nvme_smart_crit). "Reliability
 * degraded": the storage of a namespace that @ctrl sees has failed. "Media read only": all of them
 * have failed. A reopened namespace is a new object, without the warning. On the controller's
 * owner.
 */
uint8_t rdt_health_warning(const struct rdt_ctrl *ctrl);

#endif /* RDT_EVENTS_H */
