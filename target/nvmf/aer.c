/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events. Each kind has a log page. After an event was reported, further events of
 * that kind are held back until the host reads the page without RAE. The event is then reported
 * again only if something changed after the host began its last read, so that no change is lost or
 * reported twice.
 *
 * AER commands are kept until an event occurs, the controller is reset or the connection ends; the
 * latter two end them without an answer.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/loop.h"
#include "nvmf/wire.h"
#include "ctrl.h"
#include "events.h"
#include "host_access.h"
#include "ns.h"
#include "qpair.h"
#include "reactor.h"
#include "request.h"
#include "resv.h"
#include "subsys.h"
#include "target.h"
#include "target/bdev/backend.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/base/slots.h"

/* How an event is reported, and its bit in feature 0Bh and in OAES. */
static const struct event_kind {
	uint8_t type;
	uint8_t info;
	uint8_t lid;
	uint32_t config; /* 0: cannot be disabled */
	/* Bits of @config that apply now; NULL: all */
	uint8_t (*now)(const struct rdt_ctrl *ctrl);
} kinds[RDT_EVENTS] = {
	[RDT_EV_NS_ATTR] = {NVME_AER_NOTICE, NVME_AER_NOTICE_NS_CHANGED, NVME_LOG_LID_CHANGED_NS,
			    (uint32_t)NVME_CTRL_OAES_NA},
	[RDT_EV_ANA] = {NVME_AER_NOTICE, NVME_AER_NOTICE_ANA, NVME_LOG_LID_ANA,
			(uint32_t)NVME_CTRL_OAES_ANA},
	[RDT_EV_DISC_LOG] = {NVME_AER_NOTICE, NVME_AER_NOTICE_DISC_CHANGED, NVME_LOG_LID_DISCOVER,
			     (uint32_t)NVME_CTRL_OAES_DL},
	[RDT_EV_RESV_LOG] = {NVME_AER_CSS, NVME_AER_CSS_NVM_RESERVATION, NVME_LOG_LID_RESERVATION,
			     0},
	/* Not Persistent Internal Error, which makes a host reset the controller (Base 2.0, 5.2),
	 * without any effect on the reported error. */
	[RDT_EV_ERROR] = {NVME_AER_ERROR, NVME_AER_ERROR_TRANSIENT_INTERNAL_ERROR,
			  NVME_LOG_LID_ERROR, 0},
	[RDT_EV_HEALTH] = {NVME_AER_SMART, NVME_AER_SMART_SUBSYSTEM_RELIABILITY, NVME_LOG_LID_SMART,
			   NVME_SMART_CRIT_DEGRADED | NVME_SMART_CRIT_MEDIA, rdt_health_warning},
};

uint32_t rdt_event_oaes(const struct rdt_subsys *ss)
{
	if (rdt_subsys_is_disc(ss))
		return (uint32_t)NVME_CTRL_OAES_DL;
	return (uint32_t)NVME_CTRL_OAES_NA | (uint32_t)NVME_CTRL_OAES_ANA;
}

struct nvme_status rdt_aer_check(struct rdt_req *req)
{
	if (req->qp->ctrl->aers_count == RDT_AER_MAX)
		return rdt_req_fail(req, NVME_SCT_CMD_SPECIFIC, NVME_SC_ASYNC_LIMIT, RDT_LOC_NONE);
	return NVME_OK;
}

static void remove_aer_at(struct rdt_ctrl *ctrl, unsigned int i)
{
	ctrl->aers[i]->qp->used_aer--;
	ctrl->aers_count--;
	memmove(&ctrl->aers[i], &ctrl->aers[i + 1], (ctrl->aers_count - i) * sizeof(ctrl->aers[0]));
}

static bool event_enabled(const struct rdt_ctrl *ctrl, const struct event_kind *k)
{
	return !k->config ||
	       ctrl->features[RDT_FEAT_ASYNC_EVENT] & (k->now ? k->now(ctrl) : k->config);
}

/* The next event to report, or RDT_EVENTS. Errors first. */
static unsigned int next_event(struct rdt_ctrl *ctrl)
{
	struct rdt_events *ev = &ctrl->events;

	for (unsigned int i = RDT_EVENTS; i-- > 0;) {
		if (!(ev->due & ~ev->reported & 1u << i))
			continue;
		if (event_enabled(ctrl, &kinds[i]))
			return i;
		ev->due &= ~(1u << i);
	}
	return RDT_EVENTS;
}

static uint32_t take_event(struct rdt_ctrl *ctrl, unsigned int i)
{
	ctrl->events.due &= ~(1u << i);
	ctrl->events.reported |= 1u << i;
	return kinds[i].type | (uint32_t)kinds[i].info << 8 | (uint32_t)kinds[i].lid << 16;
}

/* While the admin queue is held, AERs stay unanswered, because they may move to another process. */
static void report_events(struct rdt_ctrl *ctrl)
{
	unsigned int i;

	if (ctrl->aers_count && ctrl->aers[0]->qp->state == RDT_QP_HELD)
		return;
	while (ctrl->aers_count && (i = next_event(ctrl)) < RDT_EVENTS) {
		struct rdt_req *req = ctrl->aers[0];

		remove_aer_at(ctrl, 0);
		req->cqe.result = htole32(take_event(ctrl, i));
		rdt_req_complete(req);
	}
}

enum rdt_exec rdt_aer_exec(struct rdt_req *req)
{
	struct rdt_ctrl *ctrl = req->qp->ctrl;
	unsigned int i = next_event(ctrl);

	if (i < RDT_EVENTS) {
		req->cqe.result = htole32(take_event(ctrl, i));
		return RDT_EXEC_DONE;
	}
	ctrl->aers[ctrl->aers_count++] = req;
	req->qp->used_aer++;
	rdt_qpair_check(req->qp);
	return RDT_EXEC_PENDING;
}

void rdt_aer_drop_all(struct rdt_ctrl *ctrl)
{
	while (ctrl->aers_count) {
		struct rdt_req *req = ctrl->aers[ctrl->aers_count - 1];

		remove_aer_at(ctrl, ctrl->aers_count - 1);
		rdt_req_drop(req);
	}
}

void rdt_events_resume(struct rdt_ctrl *ctrl)
{
	report_events(ctrl);
}

/* Remove @req if it is a waiting AER: Abort answers it. */
bool rdt_aer_remove(struct rdt_ctrl *ctrl, struct rdt_req *req)
{
	for (unsigned int i = 0; i < ctrl->aers_count; i++) {
		if (ctrl->aers[i] != req)
			continue;
		remove_aer_at(ctrl, i);
		return true;
	}
	return false;
}

/* ---- what happened (on the owner) ---- */

static void raise_events(struct rdt_ctrl *ctrl, uint32_t bits)
{
	struct rdt_events *ev = &ctrl->events;

	if (ctrl->state != RDT_CTRL_READY)
		return;
	/* The event was posted before the log was cleared, or the host has already read the
	 * entry. */
	if (bits & 1u << RDT_EV_RESV_LOG && !rdt_resv_log_used(ctrl))
		bits &= ~(1u << RDT_EV_RESV_LOG);
	ev->fresh |= bits;
	for (unsigned int i = 0; i < RDT_EVENTS; i++)
		if (bits & 1u << i && event_enabled(ctrl, &kinds[i]))
			ev->due |= 1u << i;
	report_events(ctrl);
}

/* Add to the Changed Namespace List, which is sorted. */
static void note_changed(struct rdt_ctrl *ctrl, uint32_t nsid)
{
	struct rdt_changed_ns *c = &ctrl->events.changed;
	unsigned int i = 0;

	pthread_mutex_lock(&c->lock);
	while (i < c->count && c->nsid[i] < nsid)
		i++;
	if (i < c->count && c->nsid[i] == nsid)
		goto out;
	if (c->count == NVME_ID_NS_LIST_MAX) {
		c->overflow = true;
		goto out;
	}
	memmove(&c->nsid[i + 1], &c->nsid[i], (c->count - i) * sizeof(c->nsid[0]));
	c->nsid[i] = nsid;
	c->count++;
out:
	pthread_mutex_unlock(&c->lock);
}

void rdt_changed_ns_read(struct rdt_ctrl *ctrl, struct nvme_ns_list *list, bool clear)
{
	struct rdt_changed_ns *c = &ctrl->events.changed;

	memset(list, 0, sizeof(*list));
	pthread_mutex_lock(&c->lock);
	if (c->overflow)
		list->ns[0] = htole32(NVME_NSID_ALL);
	else
		for (unsigned int i = 0; i < c->count; i++)
			list->ns[i] = htole32(c->nsid[i]);
	if (clear) {
		c->count = 0;
		c->overflow = false;
	}
	pthread_mutex_unlock(&c->lock);
}

void rdt_event_log_read(struct rdt_ctrl *ctrl, unsigned int lid, uint64_t offset, bool rae)
{
	struct rdt_events *ev = &ctrl->events;

	for (unsigned int i = 0; i < RDT_EVENTS; i++) {
		if (kinds[i].lid != lid)
			continue;
		if (offset == 0)
			ev->fresh &= ~(1u << i);
		if (rae)
			continue;
		ev->reported &= ~(1u << i);
		if (!(ev->fresh & 1u << i))
			ev->due &= ~(1u << i);
	}
	report_events(ctrl);
}

/* ---- from any thread ---- */

static void events_msg(struct rd_msg *msg)
{
	struct rdt_ctrl *ctrl = rd_container_of(msg, struct rdt_ctrl, events.msg);

	/* Clear the flag first: an event that is posted later comes with a message of its own. */
	raise_events(ctrl, atomic_exchange(&ctrl->events.posted, 0));
	rdt_ctrl_put(ctrl);
}

static void post_event(struct rdt_ctrl *ctrl, enum rdt_event event)
{
	if (atomic_fetch_or(&ctrl->events.posted, 1u << event))
		return; /* the message was posted already */
	atomic_fetch_add(&ctrl->refs, 1);
	rd_loop_post(ctrl->owner->loop, &ctrl->events.msg);
}

/* Post RDT_EV_ERROR with the status @st in the error log; rdt_event_post() uses Internal Error. */
static void event_error(struct rdt_ctrl *ctrl, uint32_t nsid, struct nvme_status st)
{
	rdt_ctrl_log_ns_error(ctrl, nsid, st);
	post_event(ctrl, RDT_EV_ERROR);
}

void rdt_event_post(struct rdt_ctrl *ctrl, enum rdt_event event, uint32_t nsid)
{
	if (event == RDT_EV_ERROR) {
		event_error(ctrl, nsid, nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL));
		return;
	}
	if (event == RDT_EV_NS_ATTR)
		note_changed(ctrl, nsid);
	post_event(ctrl, event);
}

void rdt_event_subsys(struct rdt_subsys *ss, enum rdt_event event, uint32_t nsid)
{
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		rdt_event_post(ctrl, event, nsid);
	pthread_mutex_unlock(&ss->lock);
}

void rdt_discovery_changed(struct rdt_target *t)
{
	atomic_fetch_add(&t->genctr, 1);
	rdt_event_subsys(&t->disc, RDT_EV_DISC_LOG, 0);
}

/* ---- life ---- */

void rdt_events_init(struct rdt_ctrl *ctrl)
{
	ctrl->events.msg.fn = events_msg;
	atomic_init(&ctrl->events.posted, 0);
	pthread_mutex_init(&ctrl->events.changed.lock, NULL);
}

void rdt_events_reset(struct rdt_ctrl *ctrl)
{
	struct rdt_events *ev = &ctrl->events;

	ev->fresh = ev->due = ev->reported = 0;
	pthread_mutex_lock(&ev->changed.lock);
	ev->changed.count = 0;
	ev->changed.overflow = false;
	pthread_mutex_unlock(&ev->changed.lock);
	rdt_resv_log_clear(ctrl);
}

void rdt_events_fini(struct rdt_ctrl *ctrl)
{
	pthread_mutex_destroy(&ctrl->events.changed.lock);
}

/* Called on the thread that noticed the failure, once for each kind of failure of a namespace. */
static void tell_fault(void *arg)
{
	const struct rdt_ns *ns = arg;
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	/* Before the events are posted, because their handler reads it */
	atomic_store(&ns->marks->faulty, true);
	atomic_store(&ss->faulty, true);
	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link) {
		if (!rdt_ns_visible(ctrl, ns))
			continue;
		event_error(ctrl, ns->nsid, nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_WRITE_FAULT));
		rdt_event_post(ctrl, RDT_EV_HEALTH, ns->nsid);
	}
	pthread_mutex_unlock(&ss->lock);
}

void rdt_health_watch(struct rdt_ns *ns)
{
	struct rdt_bdev *base = rdt_bdev_base(ns->bdev);

	snprintf(base->owner, sizeof(base->owner), "%s namespace %u: ", ns->subsys->nqn, ns->nsid);
	base->on_fault_arg = ns;
	base->on_fault = tell_fault;
}

uint8_t rdt_health_warning(const struct rdt_ctrl *ctrl)
{
	const struct rdt_subsys *ss = ctrl->subsys;
	const struct rdt_ns_marks *marks = ss->target->ns_marks;
	const struct rdt_ns_place *end, *place;
	bool failed = false, all = true;

	if (!atomic_load(&ss->faulty))
		return 0;
	place = rdt_ns_places(ctrl->owner, ss, 0, &end);
	if (ctrl->admin)
		rdt_admin_charge(ctrl->admin, (size_t)(end - place) * RDT_ADMIN_LOOK);
	for (; place < end; place++) {
		bool bad = atomic_load_explicit(&marks[place->slot].faulty, memory_order_relaxed);

		if (rdt_slots_has(&ctrl->hidden, place->slot))
			continue;
		failed |= bad;
		all &= bad;
	}
	if (!failed)
		return 0;
	return NVME_SMART_CRIT_DEGRADED | (all ? NVME_SMART_CRIT_MEDIA : 0);
}
