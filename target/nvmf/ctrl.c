/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Controllers. All state belongs to ctrl->owner, the reactor of the admin queue, except the
 * reference count, the traffic flag and the error log. I/O queues on other reactors are closed by
 * message, and report by message that they have ended. A reset, a shutdown and the end of the
 * association wait for all of them.
 */
#include "ctrl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "util/sockaddr.h"
#include "qos_queue.h"
#include "stale_write.h"
#include "qpair.h"
#include "request.h"
#include "resv.h"
#include "subsys.h"
#include "target.h"

#define RDT_CTRL_MAGIC       0x6c746372u

#define NO_COMMAND           0xffffu /* error log: not caused by a command */
#define CC_EN                0x1u
#define CC_SHN(cc)           (((cc) >> 14) & 3)
#define CSTS_RDY             0x1u
#define CSTS_CFS             0x2u
#define CSTS_SHST_PROCESSING (1u << 2)
#define CSTS_SHST_COMPLETE   (2u << 2)

const char *rdt_ctrl_state_name(unsigned int state)
{
	static const char *const names[] = {
		[RDT_CTRL_DISABLED] = "disabled",
		[RDT_CTRL_ENABLING] = "enabling",
		[RDT_CTRL_READY] = "ready",
		[RDT_CTRL_RESETTING] = "resetting",
		[RDT_CTRL_SHUTTING] = "shutting-down",
		[RDT_CTRL_SHUT] = "shut-down",
		[RDT_CTRL_DEAD] = "dead",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static void set_ctrl_state(struct rdt_ctrl *ctrl, enum rdt_ctrl_state state)
{
	rd_debug(ctrl->log, RD_LOG_CTRL, "%s cntlid %u: %s -> %s", ctrl->subsys->nqn, ctrl->cntlid,
		 rdt_ctrl_state_name(ctrl->state), rdt_ctrl_state_name(state));
	if (ctrl->state == RDT_CTRL_ENABLING)
		rd_timer_stop(ctrl->owner->loop, &ctrl->fence_timer);
	ctrl->state = (uint8_t)state;
	if (state == RDT_CTRL_DEAD)
		atomic_store(&ctrl->over, true);
}

/* ---- becoming ready: the stale-write fence ---- */

/* Wrapper of rdt_fence_find_dead(). A dead controller exists while its commands are in flight;
 * @fence_msg reports its end. */
static uint16_t find_dead_ctrl(struct rdt_ctrl *ctrl)
{
	uint16_t cntlid;

	pthread_mutex_lock(&ctrl->subsys->lock);
	cntlid = rdt_fence_find_dead(ctrl);
	pthread_mutex_unlock(&ctrl->subsys->lock);
	return cntlid;
}

/* Events from before the controller became ready are not reported to its host. */
static void become_ready(struct rdt_ctrl *ctrl)
{
	rdt_events_reset(ctrl);
	set_ctrl_state(ctrl, RDT_CTRL_READY);
}

static void fence_wait_expired(struct rd_timer *timer)
{
	struct rdt_ctrl *ctrl = rd_container_of(timer, struct rdt_ctrl, fence_timer);

	find_dead_ctrl(ctrl);
	rd_warn(ctrl->log, RD_LOG_CTRL,
		"%s: controller %u of %s: commands of a former controller of this host are still "
		"in flight; commands for the same namespaces wait until they end",
		ctrl->subsys->nqn, ctrl->cntlid, ctrl->hostnqn);
	become_ready(ctrl);
}

/* Become ready, unless the stale-write fence has to wait for a dead controller. */
static void ctrl_enable(struct rdt_ctrl *ctrl)
{
	uint16_t cntlid;

	if (ctrl->state != RDT_CTRL_ENABLING)
		rdt_fence_ask(ctrl, 0);
	cntlid = find_dead_ctrl(ctrl);
	if (!cntlid) {
		become_ready(ctrl);
		return;
	}
	if (ctrl->state == RDT_CTRL_ENABLING)
		return;
	ctrl->fence_timer.fn = fence_wait_expired;
	if (rd_timer_start(ctrl->owner->loop, &ctrl->fence_timer, RDT_FENCE_READY_WAIT)) {
		fence_wait_expired(&ctrl->fence_timer);
		return;
	}
	set_ctrl_state(ctrl, RDT_CTRL_ENABLING);
	rd_info(ctrl->log, RD_LOG_CTRL,
		"%s: controller %u of %s waits until the commands of the host's dead controller %u "
		"have ended",
		ctrl->subsys->nqn, ctrl->cntlid, ctrl->hostnqn, cntlid);
}

bool rdt_ctrl_distrust(struct rdt_ctrl *ctrl, uint64_t reactors)
{
	if (atomic_load(&ctrl->over))
		return false;
	rdt_fence_ask(ctrl, reactors);
	find_dead_ctrl(ctrl);
	return rdt_fence_any(ctrl);
}

static void fence_msg(struct rd_msg *msg)
{
	struct rdt_ctrl *ctrl = rd_container_of(msg, struct rdt_ctrl, fence_msg);

	pthread_mutex_lock(&ctrl->subsys->lock);
	ctrl->fence_msg_sent = false;
	pthread_mutex_unlock(&ctrl->subsys->lock);
	if (ctrl->state == RDT_CTRL_ENABLING)
		ctrl_enable(ctrl);
	else
		find_dead_ctrl(ctrl);
	rdt_ctrl_put(ctrl);
}

void rdt_ctrl_wake_fenced(struct rdt_ctrl *ctrl)
{
	if (!ctrl->fence_waits || ctrl->fence_msg_sent || atomic_load(&ctrl->over))
		return;
	ctrl->fence_msg_sent = true;
	atomic_fetch_add(&ctrl->refs, 1);
	rd_loop_post(ctrl->owner->loop, &ctrl->fence_msg);
}

/* Fence the other controllers of this host from the commands that @ctrl has in flight. */
static void ctrl_is_dead(struct rdt_ctrl *ctrl)
{
	set_ctrl_state(ctrl, RDT_CTRL_DEAD);
	pthread_mutex_lock(&ctrl->subsys->lock);
	rdt_fence_ctrl_ended(ctrl);
	pthread_mutex_unlock(&ctrl->subsys->lock);
}

/* ---- end requested by another thread ---- */

static void end_msg(struct rd_msg *msg)
{
	struct rdt_ctrl *ctrl = rd_container_of(msg, struct rdt_ctrl, end_msg);

	if (ctrl->state != RDT_CTRL_DEAD)
		rdt_ctrl_fatal(ctrl, RDT_END_TARGET, ctrl->end_why);
	rdt_fence_ctrl_ending(ctrl, false);
	rdt_ctrl_put(ctrl);
}

void rdt_ctrl_end(struct rdt_ctrl *ctrl, const char *why)
{
	if (atomic_exchange(&ctrl->ending, true))
		return;
	ctrl->end_why = why;
	atomic_fetch_add(&ctrl->refs, 1);
	rdt_fence_ctrl_ending(ctrl, true);
	rd_loop_post(ctrl->owner->loop, &ctrl->end_msg);
}

static void reset_features(struct rdt_ctrl *ctrl)
{
	memset(ctrl->features, 0, sizeof(ctrl->features));
	ctrl->features[RDT_FEAT_TEMP_OVER] = RDT_TEMP_OVER_DEFAULT;
	ctrl->timestamp_ms = 0;
	ctrl->timestamp_at = rd_loop_now(ctrl->owner->loop);
	ctrl->timestamp_set = false;
	atomic_store(&ctrl->retry_delay, false);
	rdt_resv_mask_set(ctrl, NULL, 0);
}

struct nvme_status rdt_ctrl_retry_delay(const struct rdt_ctrl *ctrl, struct nvme_status st)
{
	if ((st.v & 0x7ff) != NVME_SC_CMD_INTERRUPTED || st.v & NVME_STATUS_DNR ||
	    !atomic_load_explicit(&ctrl->retry_delay, memory_order_relaxed))
		return st;
	return (struct nvme_status){(uint16_t)(st.v | NVME_STATUS_CRD1)};
}

/* Log when a host connects or disconnects. Discovery controllers are logged at a lower level,
 * because hosts connect to them repeatedly. */
static void log_presence(const struct rdt_ctrl *ctrl, struct rd_ratelimit *limit, const char *what,
			 const char *reason)
{
	const struct rdt_subsys *ss = ctrl->subsys;
	char addr[RD_ADDR_TEXT];

	rd_log_limited(limit, rd_loop_now(ctrl->owner->loop), ctrl->log, RD_LOG_CTRL,
		       rdt_subsys_is_disc(ss) ? RD_LOG_INFO : RD_LOG_NOTICE,
		       "%s: controller %u for %s from %s: %s%s", ss->nqn, ctrl->cntlid,
		       ctrl->hostnqn[0] ? ctrl->hostnqn : "a host without a name",
		       rd_addr_format((const struct sockaddr *)&ctrl->admin->remote, addr), what,
		       reason);
}

void rdt_ctrl_announce(struct rdt_ctrl *ctrl)
{
	const struct rdt_subsys *ss = ctrl->subsys;
	char addr[RD_ADDR_TEXT];

	if (ctrl->announced)
		return;
	ctrl->announced = true;
	log_presence(ctrl, &ss->target->connect_limit, "connected", "");
	rdt_announce(ss->target, "connected", "{s:s, s:i, s:s, s:s}", "nqn", ss->nqn, "cntlid",
		     (int)ctrl->cntlid, "hostnqn", ctrl->hostnqn, "address",
		     rd_addr_format((const struct sockaddr *)&ctrl->admin->remote, addr));
}

void rdt_ctrl_ends(struct rdt_ctrl *ctrl, const char *reason)
{
	atomic_store(&ctrl->lost, true);
	snprintf(ctrl->gone_why, sizeof(ctrl->gone_why), "%s", reason);
	if (ctrl->announced)
		log_presence(ctrl, &ctrl->subsys->target->disconnect_limit,
			     "disconnected: ", reason);
}

static void announce_end(const struct rdt_ctrl *ctrl)
{
	const struct rdt_subsys *ss = ctrl->subsys;

	if (!ctrl->announced)
		return;
	rd_info(ctrl->log, RD_LOG_CTRL, "%s: controller %u of %s is gone", ss->nqn, ctrl->cntlid,
		ctrl->hostnqn);
	rdt_announce(ss->target, "disconnected", "{s:s, s:i, s:s, s:s}", "nqn", ss->nqn, "cntlid",
		     (int)ctrl->cntlid, "hostnqn", ctrl->hostnqn, "reason", ctrl->gone_why);
}

/* Free a controller without references, which may be partly constructed. */
static void free_ctrl(struct rdt_ctrl *ctrl)
{
	EVP_PKEY_free(ctrl->auth_pair.pair);
	rdt_resv_log_fini(&ctrl->resv_log);
	rdt_events_fini(ctrl);
	rdt_slots_fini(&ctrl->hidden);
	pthread_mutex_destroy(&ctrl->errors.lock);
	free(ctrl->disc_hosts);
	free(ctrl->ioqs);
	free(ctrl->on);
	ctrl->magic = 0;
	free(ctrl);
}

/* @cntlid: 0 for a new controller. Otherwise the controller moves in from another process, which
 * assigned this ID and granted @queues. */
static int make_ctrl(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		     const uint8_t hostid[16], uint32_t kato_ms, uint16_t cntlid, uint16_t queues,
		     struct rdt_ctrl **out)
{
	struct rdt_ctrl *ctrl = calloc(1, sizeof(*ctrl));
	int err = -ENOMEM;

	if (!ctrl)
		return err;
	ctrl->magic = RDT_CTRL_MAGIC;
	ctrl->subsys = ss;
	ctrl->owner = admin->reactor;
	ctrl->log = admin->log;
	ctrl->admin = admin;
	ctrl->listener = admin->listener;
	ctrl->trtype = admin->ops->trtype;
	ctrl->end_msg.fn = end_msg;
	ctrl->fence_msg.fn = fence_msg;
	ctrl->state = RDT_CTRL_DISABLED;
	atomic_init(&ctrl->refs, 1);
	ctrl->cntlid = cntlid;
	ctrl->announced = cntlid; /* the previous process announced it */
	memcpy(ctrl->hostid, hostid, sizeof(ctrl->hostid));
	memccpy(ctrl->hostnqn, hostnqn, 0, sizeof(ctrl->hostnqn));
	pthread_mutex_init(&ctrl->errors.lock, NULL);
	rdt_events_init(ctrl);
	rdt_resv_log_init(&ctrl->resv_log);
	if (!rdt_subsys_is_disc(ss))
		ctrl->queues_max = (uint16_t)ss->target->cfg->target.io_queues;
	if (ctrl->queues_max < queues)
		ctrl->queues_max = queues;
	ctrl->queues_granted = cntlid ? queues : ctrl->queues_max;
	ctrl->ioqs = calloc(ctrl->queues_max + 1u, sizeof(*ctrl->ioqs));
	ctrl->on = calloc(ss->target->cfg->target.reactors, sizeof(*ctrl->on));
	if (!ctrl->ioqs || !ctrl->on)
		goto err_free;
	reset_features(ctrl);
	err = rdt_qos_join(ctrl);
	if (err)
		goto err_free;
	err = rdt_subsys_add_ctrl(ss, ctrl);
	if (err)
		goto err_free;
	rdt_keep_alive_start(ctrl, kato_ms);
	if (ctrl->authenticated)
		rdt_ctrl_announce(ctrl);
	*out = ctrl;
	return 0;

err_free:
	rdt_qos_leave(ctrl);
	free_ctrl(ctrl);
	return err;
}

int rdt_ctrl_create(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		    const uint8_t hostid[16], uint32_t kato_ms, struct rdt_ctrl **out)
{
	return make_ctrl(ss, admin, hostnqn, hostid, kato_ms, 0, 0, out);
}

int rdt_ctrl_move_in(struct rdt_subsys *ss, struct rdt_qpair *admin, const char *hostnqn,
		     const uint8_t hostid[16], uint32_t kato_ms, uint16_t cntlid, uint16_t queues,
		     struct rdt_ctrl **out)
{
	return make_ctrl(ss, admin, hostnqn, hostid, kato_ms, cntlid, queues, out);
}

void rdt_ctrl_put(struct rdt_ctrl *ctrl)
{
	struct rdt_subsys *ss = ctrl->subsys;
	bool last;

	assert(ctrl->magic == RDT_CTRL_MAGIC);
	/* Lookups take a reference under the same lock, so that a controller without references is
	 * not found. */
	pthread_mutex_lock(&ss->lock);
	last = atomic_fetch_sub(&ctrl->refs, 1) == 1;
	if (last) {
		rdt_subsys_remove_ctrl(ss, ctrl);
	}
	pthread_mutex_unlock(&ss->lock);
	if (!last)
		return;
	rdt_qos_leave(ctrl);
	announce_end(ctrl);
	free_ctrl(ctrl);
}

/* ---- attaching and detaching I/O queues ---- */

static void attach_reply_msg(struct rd_msg *msg)
{
	struct rdt_attach *at = rd_container_of(msg, struct rdt_attach, msg);

	at->attached(at);
}

static void attach_reply(struct rdt_attach *at, struct nvme_status st, uint32_t result)
{
	rd_timer_stop(at->ctrl->owner->loop, &at->timer);
	at->status = st;
	at->result = result;
	at->msg.fn = attach_reply_msg;
	rd_loop_post(at->qp->reactor->loop, &at->msg);
}

static void attach_refuse(struct rdt_attach *at, uint32_t ipo)
{
	attach_reply(at, nvme_status_dnr(NVME_SCT_CMD_SPECIFIC, NVME_SC_CONNECT_INVALID_PARAM),
		     ipo);
}

static void qid_still_taken(struct rd_timer *timer)
{
	struct rdt_attach *at = rd_container_of(timer, struct rdt_attach, timer);

	at->ctrl->ioqs[at->qid].waiting = NULL;
	attach_refuse(at, offsetof(struct nvmf_connect_sqe, qid));
}

static void join_ctrl(struct rdt_ctrl *ctrl, const struct rdt_qpair *qp)
{
	ctrl->ioqs_live++;
	rdt_fence_queue_attached(ctrl, qp->reactor);
}

static void join_as_guest(struct rdt_attach *at)
{
	struct rdt_ctrl *ctrl = at->ctrl;

	at->qp->guest = true;
	LIST_INSERT_HEAD(&ctrl->guests, at->qp, guest_link);
	ctrl->guests_count++;
	join_ctrl(ctrl, at->qp);
	attach_reply(at, NVME_OK, ctrl->cntlid);
}

static void remove_guest(struct rdt_ctrl *ctrl, struct rdt_qpair *qp)
{
	LIST_REMOVE(qp, guest_link);
	qp->guest = false;
	ctrl->guests_count--;
}

/* Assign the queue ID to the queue, or let it wait for the ID. */
static void take_qid(struct rdt_attach *at)
{
	struct rdt_ctrl *ctrl = at->ctrl;
	struct rdt_ioq *ioq = &ctrl->ioqs[at->qid];

	if (ioq->qp) {
		/* A host may reconnect before another reactor has noticed the end of the old
		 * connection: wait a moment for that. */
		at->timer.fn = qid_still_taken;
		if (ioq->waiting || rd_timer_start(ctrl->owner->loop, &at->timer, RDT_QID_WAIT))
			attach_refuse(at, offsetof(struct nvmf_connect_sqe, qid));
		else
			ioq->waiting = at;
		return;
	}
	ioq->qp = at->qp;
	if (at->qp->guest)
		remove_guest(ctrl, at->qp);
	else
		join_ctrl(ctrl, at->qp);
	attach_reply(at, NVME_OK, ctrl->cntlid);
}

void rdt_ctrl_attach(struct rdt_attach *at)
{
	struct rdt_ctrl *ctrl = at->ctrl;

	if (ctrl->state == RDT_CTRL_DEAD) {
		attach_refuse(at,
			      NVMF_CONNECT_IATTR_DATA | offsetof(struct nvmf_connect_data, cntlid));
		return;
	}
	if (strcmp(at->hostnqn, ctrl->hostnqn) != 0) {
		attach_refuse(at, NVMF_CONNECT_IATTR_DATA |
					  offsetof(struct nvmf_connect_data, hostnqn));
		return;
	}
	if (memcmp(at->hostid, ctrl->hostid, sizeof(at->hostid)) != 0) {
		attach_refuse(at,
			      NVMF_CONNECT_IATTR_DATA | offsetof(struct nvmf_connect_data, hostid));
		return;
	}
	if (at->qid > ctrl->queues_granted) {
		attach_refuse(at, offsetof(struct nvmf_connect_sqe, qid));
		return;
	}
	if (ctrl->state != RDT_CTRL_READY) {
		attach_reply(at, nvme_status_dnr(NVME_SCT_GENERIC, NVME_SC_CMD_SEQ_ERROR), 0);
		return;
	}
	if (at->guest)
		join_as_guest(at);
	else
		take_qid(at);
}

static void tell_to_close(struct rdt_qpair *qp)
{
	if (qp->told_to_close)
		return;
	qp->told_to_close = true;
	/* The queue pair exists until it receives the reply to its detach message, which is posted
	 * after this one. */
	rd_loop_post(qp->reactor->loop, &qp->close_msg);
}

static void close_ioqs(struct rdt_ctrl *ctrl)
{
	struct rdt_qpair *guest;

	for (unsigned int qid = 1; qid <= ctrl->queues_max; qid++)
		if (ctrl->ioqs[qid].qp)
			tell_to_close(ctrl->ioqs[qid].qp);
	LIST_FOREACH (guest, &ctrl->guests, guest_link)
		tell_to_close(guest);
}

/* The last I/O queue has ended: complete the reset, the shutdown or the end of the association that
 * waited for it. */
static void ctrl_io_queues_gone(struct rdt_ctrl *ctrl)
{
	struct rdt_qpair *admin = ctrl->admin;

	if (!ctrl->admin_gone)
		rdt_qpair_check(admin); /* its drain may be complete */
	if (ctrl->ioqs_live)
		return;
	if (ctrl->state == RDT_CTRL_RESETTING) {
		set_ctrl_state(ctrl, RDT_CTRL_DISABLED);
		ctrl->queues_granted = ctrl->queues_max;
		if (ctrl->cc & CC_EN)
			ctrl_enable(ctrl);
	} else if (ctrl->state == RDT_CTRL_SHUTTING) {
		set_ctrl_state(ctrl, RDT_CTRL_SHUT);
	}
	if (!ctrl->admin_gone)
		return;
	ctrl->admin = NULL;
	rdt_qpair_detached(admin); /* last: may free @ctrl */
}

static void detached_msg(struct rd_msg *msg)
{
	rdt_qpair_detached(rd_container_of(msg, struct rdt_qpair, detach_msg));
}

/* An I/O queue has answered its last command. Called on the owner. */
void rdt_ctrl_drained(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;

	assert(ctrl->magic == RDT_CTRL_MAGIC);
	qp->drained = true;
	ctrl->ioqs_drained++;
	ctrl_io_queues_gone(ctrl);
}

/* Returns the Connect that waits for the queue ID, or NULL. */
static struct rdt_attach *release_qid(struct rdt_ioq *ioq, const struct rdt_qpair *qp)
{
	struct rdt_attach *waiting = ioq->waiting;

	assert(ioq->qp == qp);
	*ioq = (struct rdt_ioq){NULL, NULL};
	return waiting;
}

/* Detach a drained queue pair. Called on the owner. */
void rdt_ctrl_detach(struct rdt_qpair *qp)
{
	struct rdt_ctrl *ctrl = qp->ctrl;
	struct rdt_attach *waiting = NULL;

	assert(ctrl->magic == RDT_CTRL_MAGIC);
	if (qp->admin) {
		rdt_keep_alive_stop(ctrl);
		if (ctrl->state != RDT_CTRL_DEAD)
			ctrl_is_dead(ctrl);
		ctrl->admin_gone = true;
		/* While draining, hosts disconnect their I/O queues themselves: see
		 * RDT_QP_DRAINED. */
		if (!ctrl->owner->draining)
			close_ioqs(ctrl);
		ctrl_io_queues_gone(ctrl);
		return;
	}
	if (qp->guest)
		remove_guest(ctrl, qp);
	else
		waiting = release_qid(&ctrl->ioqs[qp->qid], qp);
	rdt_fence_queue_detached(ctrl, qp->reactor);
	ctrl->ioqs_live--;
	ctrl->ioqs_drained -= qp->drained;
	if (waiting) {
		rd_timer_stop(ctrl->owner->loop, &waiting->timer);
		rdt_ctrl_attach(waiting);
	}
	ctrl_io_queues_gone(ctrl);
	qp->detach_msg.fn = detached_msg;
	rd_loop_post(qp->reactor->loop, &qp->detach_msg); /* last: may free @ctrl */
}

/* ---- properties ---- */

uint64_t rdt_ctrl_cap(const struct rdt_ctrl *ctrl)
{
	uint32_t depth = rdt_subsys_is_disc(ctrl->subsys)
				 ? RDT_ADMIN_DEPTH_MAX
				 : ctrl->subsys->target->cfg->target.queue_depth;

	return (uint64_t)(depth - 1) | /* MQES */
	       1ull << 16 |            /* CQR */
	       (uint64_t)RDT_READY_TIMEOUT << 24 |
	       (uint64_t)(NVME_CAP_CSS_NVM | NVME_CAP_CSS_CSI) << NVME_CAP_CSS_SHIFT |
	       1ull << NVME_CAP_CRMS_SHIFT; /* CRWMS; MPSMIN = MPSMAX = 4 KiB */
}

uint32_t rdt_ctrl_csts(const struct rdt_ctrl *ctrl)
{
	switch (ctrl->state) {
	case RDT_CTRL_READY:
	case RDT_CTRL_RESETTING:
		return ctrl->csts_extra | CSTS_RDY;
	case RDT_CTRL_SHUTTING:
		return ctrl->csts_extra | CSTS_SHST_PROCESSING | (ctrl->cc & CC_EN ? CSTS_RDY : 0);
	case RDT_CTRL_SHUT:
		return ctrl->csts_extra | CSTS_SHST_COMPLETE | (ctrl->cc & CC_EN ? CSTS_RDY : 0);
	default:
		return ctrl->csts_extra;
	}
}

/* Apply a new value of CC, which was validated. */
void rdt_ctrl_set_cc(struct rdt_ctrl *ctrl, uint32_t cc)
{
	uint32_t old = ctrl->cc;

	if (ctrl->state == RDT_CTRL_DEAD)
		return;
	ctrl->cc = cc;
	if ((old & CC_EN) && !(cc & CC_EN)) {
		set_ctrl_state(ctrl, RDT_CTRL_RESETTING);
		rdt_count_event(ctrl->admin, RDT_COUNT_RESETS);
		rdt_aer_drop_all(ctrl);
		reset_features(ctrl);
		close_ioqs(ctrl);
		ctrl_io_queues_gone(ctrl);
	} else if (CC_SHN(cc) && !CC_SHN(old)) {
		set_ctrl_state(ctrl, RDT_CTRL_SHUTTING);
		rdt_aer_drop_all(ctrl);
		close_ioqs(ctrl);
		ctrl_io_queues_gone(ctrl);
	} else if (!(old & CC_EN) && (cc & CC_EN) &&
		   (ctrl->state == RDT_CTRL_DISABLED || ctrl->state == RDT_CTRL_SHUT)) {
		ctrl_enable(ctrl);
	}
}

void rdt_ctrl_fatal(struct rdt_ctrl *ctrl, enum rdt_end end, const char *why)
{
	/* Rate limited, because thousands may end at once, for example when a switch fails. */
	rd_log_limited(&ctrl->subsys->target->fatal_limit, rd_loop_now(ctrl->owner->loop),
		       ctrl->log, RD_LOG_CTRL, RD_LOG_WARN,
		       "%s: controller %u of %s: %s; ending the association", ctrl->subsys->nqn,
		       ctrl->cntlid, ctrl->hostnqn, why);
	ctrl->csts_extra |= CSTS_CFS;
	ctrl_is_dead(ctrl);
	close_ioqs(ctrl);
	rdt_qpair_end(ctrl->admin, end, why);
}

/* ---- error log (any reactor) ---- */

/* Returns the next entry to fill in; the log's lock is held. */
static struct nvme_error_log_page *next_entry(struct rdt_ctrl *ctrl)
{
	struct rdt_error_log *log = &ctrl->errors;
	struct nvme_error_log_page *e = &log->ring[log->count % RDT_ERROR_LOG];

	log->count++;
	memset(e, 0, sizeof(*e));
	e->error_count = htole64(log->count);
	e->trtype = ctrl->trtype;
	return e;
}

void rdt_ctrl_log_ns_error(struct rdt_ctrl *ctrl, uint32_t nsid, struct nvme_status st)
{
	struct rdt_error_log *log = &ctrl->errors;
	struct nvme_error_log_page *e;

	pthread_mutex_lock(&log->lock);
	e = next_entry(ctrl);
	e->sqid = htole16(NO_COMMAND);
	e->cmdid = htole16(NO_COMMAND);
	e->status_field = nvme_status_to_wire(st);
	e->parm_error_location = htole16(RDT_LOC_NONE);
	e->nsid = htole32(nsid);
	pthread_mutex_unlock(&log->lock);
}

void rdt_ctrl_log_error(struct rdt_ctrl *ctrl, const struct rdt_req *req)
{
	struct rdt_error_log *log = &ctrl->errors;
	struct nvme_error_log_page *e;

	pthread_mutex_lock(&log->lock);
	e = next_entry(ctrl);
	e->sqid = htole16(req->qp->qid);
	e->cmdid = req->sqe.cid;
	e->status_field = nvme_status_to_wire(req->status);
	e->parm_error_location = htole16(req->err_loc);
	e->lba = htole64(req->err_lba);
	if (req->sqe.opcode != NVMF_OPCODE)
		e->nsid = req->sqe.nsid;
	pthread_mutex_unlock(&log->lock);
}
