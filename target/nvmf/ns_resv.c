/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reservations of a namespace at run time. The main thread owns the state of every namespace. A
 * command is sent there, applied to a copy of the state, stored if the state persists, published to
 * every reactor, and then answered. So the state has one writer, and when a command is answered all
 * reactors enforce its effect. The commands for a namespace are processed one at a time.
 *
 * If gateways share the storage (bdev->shares_state), the state is kept there. A gateway that
 * acquires the storage reads the state before it serves hosts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/loop.h"
#include "nvmf/wire.h"
#include "ctrl.h"
#include "events.h"
#include "io.h"
#include "peers.h"
#include "request.h"
#include "target/resv/reservation.h"
#include "resv.h"
#include "target/resv/state.h"
#include "target/nvmf/base/status.h"
#include "subsys.h"
#include "target.h"

struct rdt_resv_work;

/* The part of a change that concerns one reactor. */
struct rdt_resv_part {
	struct rd_msg msg;
	struct rdt_resv_work *work;
	struct rdt_reactor *reactor;
	unsigned int left; /* requests that have to end; one more during the search */
	uint64_t since;    /* when the reactor began to enforce the change */
	struct rdt_qpair_walk walk;
};

/* A change in progress. Owned by the main thread; reactors read it until they reply. */
struct rdt_resv_work {
	struct rdt_resv *resv;
	struct rdt_resv_state next;
	struct rdt_resv_effects fx;
	struct rdt_resv_snap *snap; /* of @next */
	struct rdt_state_job job;
	struct rdt_bdev_state_job shared_job; /* the same, for shared storage */
	char *shared_text;
	bool keeps; /* the command changes nothing, and @status is its answer */
	struct nvme_status status;
	bool inherited; /* not made by a command: the state of the previous process */
	bool follows;   /* not made by a command: the state comes from another gateway */
	uint32_t seq;   /* with @follows: bdev->state_seq of the state */
	unsigned int parts_left;
	struct rdt_resv_part parts[];
};

/* The reservations of one namespace. Main thread only, unless noted. */
struct rdt_resv {
	struct rdt_ns *ns;
	struct rdt_resv_state now;
	STAILQ_HEAD(, rdt_resv_cmd) cmds; /* the head is being processed */
	struct rdt_resv_work *work;       /* the change that the head makes */
	/* The first snapshot of new channels; read by any thread, constant */
	struct rdt_resv_snap *first;
	struct rdt_resv_snap *snap; /* the snapshot that reactors use; may be @first */
	bool stale;                 /* a write has failed, so the file may differ from @now */
	uint32_t seen_seq;          /* last bdev->state_seq that was examined */
	atomic_bool ptpl;           /* written by the main thread, read by any */
	char file[RDT_UUID_TEXT + sizeof(RDT_STATE_RESV)];
};

static struct rdt_req *resv_req_of(struct rdt_resv_cmd *cmd)
{
	return rd_container_of(cmd, struct rdt_req, resv);
}

static struct rdt_target *resv_target(const struct rdt_resv *resv)
{
	return resv->ns->subsys->target;
}

static bool resv_is_shared(const struct rdt_ns *ns)
{
	return ns->bdev && rdt_bdev_base(ns->bdev)->shares_state;
}

/* Returns whether another gateway holds the storage, and may have changed the state since. */
static bool resv_is_elsewhere(const struct rdt_ns *ns)
{
	return resv_is_shared(ns) && rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev));
}

/* ---- the answer ---- */

static void resv_answer_msg(struct rd_msg *msg)
{
	struct rdt_resv_cmd *cmd = rd_container_of(msg, struct rdt_resv_cmd, msg);
	struct rdt_req *req = resv_req_of(cmd);

	req->status = cmd->status;
	rdt_req_complete(req);
}

static void resv_answer(struct rdt_resv *resv, struct nvme_status status)
{
	struct rdt_resv_cmd *cmd = STAILQ_FIRST(&resv->cmds);

	STAILQ_REMOVE_HEAD(&resv->cmds, link);
	cmd->status = status;
	cmd->msg.fn = resv_answer_msg;
	rd_loop_post(resv_req_of(cmd)->qp->reactor->loop, &cmd->msg);
}

static void drop_work(struct rdt_resv *resv)
{
	if (resv->work) {
		free(resv->work->snap);
		free(resv->work->shared_text);
	}
	free(resv->work);
	resv->work = NULL;
}

/* ---- notifications ---- */

static void notify_ctrl(struct rdt_ctrl *ctrl, const struct rdt_ns *ns,
			const struct rdt_resv_effects *fx)
{
	for (unsigned int i = 0; i < fx->notes_count; i++) {
		if (memcmp(fx->notes[i].host, ctrl->hostid, RDT_RESV_HOST) != 0)
			continue;
		if (rdt_resv_log_add(ctrl, ns, fx->notes[i].type))
			rdt_event_post(ctrl, RDT_EV_RESV_LOG, ns->nsid);
	}
}

static void notify_ctrls(const struct rdt_ns *ns, const struct rdt_resv_effects *fx)
{
	struct rdt_subsys *ss = ns->subsys;
	struct rdt_ctrl *ctrl;

	if (!fx->notes_count)
		return;
	pthread_mutex_lock(&ss->lock);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		notify_ctrl(ctrl, ns, fx);
	pthread_mutex_unlock(&ss->lock);
}

/* ---- publishing ---- */

/* All reactors enforce the state of the previous gateway now. */
static void finish_follow(struct rdt_resv *resv)
{
	struct rdt_bdev *base = rdt_bdev_base(resv->ns->bdev);

	atomic_store(&base->state_taken, resv->work->seq);
	rdt_bdev_changed(base); /* the ANA state depends on it */
	drop_work(resv);
}

/* The head is finished; the caller starts the next one. */
static void finish_resv_cmd(struct rdt_resv *resv)
{
	struct rdt_resv_work *work = resv->work;

	if (work->follows) {
		finish_follow(resv);
		return;
	}
	if (work->inherited) {
		drop_work(resv);
		return;
	}
	notify_ctrls(resv->ns, &work->fx);
	resv_answer(resv, NVME_OK);
	drop_work(resv);
}

static void run_resv_cmds(struct rdt_resv *resv);
static int prepare_resv(struct rdt_resv *resv);

static void part_back_msg(struct rd_msg *msg)
{
	struct rdt_resv_part *part = rd_container_of(msg, struct rdt_resv_part, msg);
	struct rdt_resv_work *work = part->work;
	struct rdt_resv *resv = work->resv;

	if (--work->parts_left)
		return;
	/* No reactor uses the old snapshot any more. */
	if (resv->snap != resv->first)
		free(resv->snap);
	resv->snap = rd_steal(work->snap);
	finish_resv_cmd(resv);
	run_resv_cmds(resv);
}

static void part_put(struct rdt_resv_part *part)
{
	if (--part->left)
		return;
	part->msg.fn = part_back_msg;
	rd_loop_post(part->reactor->target->loop, &part->msg);
}

void rdt_resv_req_left(struct rdt_req *req)
{
	struct rdt_resv_part *part = req->fence;

	req->fence = NULL;
	part_put(part);
}

/* Preempt and Abort: commands that have not started end, commands in the backend are cancelled, and
 * the Preempt waits for both. Data that is already on its way to the host is not affected. */
static void fence_req(struct rdt_resv_part *part, struct rdt_req *req)
{
	if (rdt_resv_group(req->sqe.opcode) == RDT_RESV_FREE || req->fence)
		return;
	if (rdt_req_executing(req)) {
		req->fence = part;
		part->left++;
	}
	rdt_req_preempt(req);
}

static bool is_victim(const struct rdt_resv_effects *fx, const uint8_t *host)
{
	for (unsigned int i = 0; i < fx->victims_count; i++)
		if (memcmp(fx->victims[i], host, RDT_RESV_HOST) == 0)
			return true;
	return false;
}

/* Later commands are checked against the new reservation. */
static void fence_qpair(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	struct rdt_resv_part *part = rd_container_of(walk, struct rdt_resv_part, walk);
	const struct rdt_resv_work *work = part->work;
	struct rdt_req *req;

	if (qp->admin || !qp->ctrl || !is_victim(&work->fx, qp->ctrl->hostid))
		return;
	RDT_FOREACH_REQ (req, qp)
		if (req->ns == work->resv->ns && req->arrived <= part->since)
			fence_req(part, req);
}

static void fenced_all(struct rdt_qpair_walk *walk)
{
	part_put(rd_container_of(walk, struct rdt_resv_part, walk));
}

/* A host may have lost this queue, and have repeated the unread commands through another
 * gateway. */
static void mark_qpair(struct rdt_qpair_walk *walk, struct rdt_qpair *qp)
{
	const struct rdt_resv_part *part = rd_container_of(walk, struct rdt_resv_part, walk);

	if (!qp->admin && qp->ctrl && qp->ctrl->subsys == part->work->resv->ns->subsys)
		rdt_qpair_mark_unread(qp);
}

/* Until all reactors have reached this point, I/O that has arrived ends with -ESHUTDOWN. */
static void marked_all(struct rdt_qpair_walk *walk)
{
	struct rdt_resv_part *part = rd_container_of(walk, struct rdt_resv_part, walk);
	struct rdt_ns_channel *channel = rdt_ns_channel_of(part->reactor, part->work->resv->ns);

	if (!channel->gated)
		channel->taken = rd_loop_now(part->reactor->loop);
	part_put(part);
}

/* Runs on the reactor. */
static void part_msg(struct rd_msg *msg)
{
	struct rdt_resv_part *part = rd_container_of(msg, struct rdt_resv_part, msg);
	const struct rdt_resv_work *work = part->work;
	struct rdt_ns_channel *channel = rdt_ns_channel_of(part->reactor, work->resv->ns);

	part->left = 1;
	part->since = rd_loop_now(part->reactor->loop);
	if (channel->ns != work->resv->ns) {
		part_put(part);
		return;
	}
	channel->resv = work->snap;
	if (work->follows)
		part->walk = (struct rdt_qpair_walk){.visit = mark_qpair, .end = marked_all};
	else if (work->fx.victims_count && channel->inflight)
		part->walk = (struct rdt_qpair_walk){.visit = fence_qpair, .end = fenced_all};
	if (part->walk.end)
		rdt_qpair_walk_begin(part->reactor, &part->walk);
	else
		part_put(part);
}

/* Publish the change to all reactors. If it does not concern them, the head is finished. */
static void publish_resv(struct rdt_resv *resv)
{
	struct rdt_target *t = resv_target(resv);
	struct rdt_resv_work *work = resv->work;
	bool seen = work->follows || work->inherited || resv->now.rtype || work->next.rtype ||
		    work->fx.victims_count;

	resv->now = work->next;
	atomic_store(&resv->ptpl, resv->now.ptpl);
	if (!seen) {
		finish_resv_cmd(resv);
		return;
	}
	work->parts_left = t->reactors_count;
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct rdt_resv_part *part = &work->parts[i];

		part->work = work;
		part->reactor = &t->reactors[i];
		part->msg.fn = part_msg;
		rd_loop_post(part->reactor->loop, &part->msg);
	}
}

/* ---- durability ---- */

static void resv_written(struct rdt_state_job *job)
{
	struct rdt_resv_work *work = rd_container_of(job, struct rdt_resv_work, job);
	struct rdt_resv *resv = work->resv;

	resv->stale = job->err != 0;
	if (job->err) {
		rdt_event_subsys(resv->ns->subsys, RDT_EV_ERROR, resv->ns->nsid);
		resv_answer(resv, nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL));
		drop_work(resv);
	} else {
		publish_resv(resv);
	}
	run_resv_cmds(resv);
}

static void answer_unchanged(struct rdt_resv *resv, struct nvme_status status)
{
	struct rdt_resv_cmd *cmd = STAILQ_FIRST(&resv->cmds);
	const struct rdt_req *req = resv_req_of(cmd);

	if (cmd->report)
		rdt_resv_report(&resv->now, req->buf, req->data_len);
	resv_answer(resv, status);
	drop_work(resv);
}

/* An ANA status would mean that the command was not executed. If it was, the host must not repeat
 * it: the repeated command would find other keys and end with a conflict. */
static struct nvme_status shared_write_status(const struct rdt_resv_work *work, int err)
{
	if (err == -ENOTCONN && !work->keeps)
		return nvme_status(NVME_SCT_PATH, NVME_SC_ANA_INTERNAL_PATH_ERROR);
	if (err == -ENOTCONN)
		err = -ESHUTDOWN;
	return rdt_status_from_errno(err, RDT_BIO_WRITE);
}

static void shared_written(struct rdt_bdev_state_job *job)
{
	struct rdt_resv_work *work = rd_container_of(job, struct rdt_resv_work, shared_job);
	struct rdt_resv *resv = work->resv;

	if (job->err) {
		resv_answer(resv, shared_write_status(work, job->err));
		drop_work(resv);
	} else if (work->keeps) {
		answer_unchanged(resv, work->status);
	} else {
		publish_resv(resv);
	}
	run_resv_cmds(resv);
}

static void start_shared_job(struct rdt_resv *resv)
{
	struct rdt_resv_work *work = resv->work;
	struct rdt_bdev_state_job *job = &work->shared_job;
	struct rdt_bdev *base = rdt_bdev_base(resv->ns->bdev);

	job->text = work->shared_text;
	job->len = job->text ? strlen(job->text) : 0;
	job->seq = resv->seen_seq;
	job->home = resv_target(resv)->loop;
	job->done = shared_written;
	base->ops->state_write(base, job);
}

static int start_shared_write(struct rdt_resv *resv)
{
	struct rdt_resv_work *work = resv->work;

	if (rdt_resv_to_json(&work->next, rdt_ns_uuid(resv->ns), &work->shared_text))
		return -ENOMEM;
	start_shared_job(resv);
	return 0;
}

/* The command changes nothing. But if this gateway cannot reach the storage, another one may hold
 * it without this one knowing, so the known state may be outdated. */
static void keep_state(struct rdt_resv *resv, struct nvme_status status)
{
	if (!resv_is_shared(resv->ns)) {
		answer_unchanged(resv, status);
		return;
	}
	resv->work->keeps = true;
	resv->work->status = status;
	start_shared_job(resv);
}

/* Start writing the new state. Returns 0 or -ENOMEM. */
static int start_write(struct rdt_resv *resv)
{
	struct rdt_resv_work *work = resv->work;
	struct rdt_state_job *job = &work->job;

	if (resv_is_shared(resv->ns))
		return start_shared_write(resv);
	if (work->next.ptpl && rdt_resv_to_json(&work->next, rdt_ns_uuid(resv->ns), &job->text))
		return -ENOMEM;
	job->len = job->text ? strlen(job->text) : 0;
	memccpy(job->name, resv->file, 0, sizeof(job->name));
	job->done = resv_written;
	rdt_state_write(resv_target(resv)->state, job);
	return 0;
}

/* ---- the state of another gateway ---- */

/* Read the state that the previous gateway of the storage has stored. Returns 0, or -errno with the
 * reason logged. */
static int read_shared(struct rdt_resv *resv, struct rdt_resv_state *state, uint32_t *seq)
{
	struct rdt_bdev *base = rdt_bdev_base(resv->ns->bdev);
	const struct rdt_ns *ns = resv->ns;
	char *text, why[160] = "out of memory";
	size_t len;
	int err = base->ops->state_read(base, &text, &len, seq);

	memset(state, 0, sizeof(*state));
	if (err)
		*seq = atomic_load(&base->state_seq);
	else if (len && rdt_resv_offered(ns->subsys))
		err = rdt_resv_from_json(text, len, rdt_ns_uuid(ns), state, why, sizeof(why));
	else if (len)
		rd_warn(resv_target(resv)->log, RD_LOG_TARGET,
			"%s namespace %u: the reservations that gateways share are not enforced: "
			"reservations is off",
			ns->subsys->nqn, ns->nsid);
	free(text);
	if (err)
		rd_err(resv_target(resv)->log, RD_LOG_TARGET,
		       "%s namespace %u: the reservations that gateways share cannot be used: %s; "
		       "the namespace is not served here. Remove the object "
		       "rdtarget.state.%s of its pool to forget all its reservations, then say "
		       "\"rdctl ana %u yield\" and \"take\"",
		       ns->subsys->nqn, ns->nsid, why, ns->identity.id->text, rdt_ns_ana_group(ns));
	return err;
}

/* Apply a stored state that this gateway has not read yet; resv->work may be in progress
 * afterwards. Not for a namespace that leaves: reactors forget it after the messages that they
 * already have. */
static void follow_state(struct rdt_resv *resv)
{
	struct rdt_resv_work *work;

	if (resv->work || !resv_is_shared(resv->ns) || resv->ns->state != RDT_NS_LIVE ||
	    atomic_load(&rdt_bdev_base(resv->ns->bdev)->state_seq) == resv->seen_seq)
		return;
	if (prepare_resv(resv))
		return; /* retried with the next change or command */
	work = resv->work;
	work->follows = true;
	if (read_shared(resv, &work->next, &work->seq) || rdt_resv_snap(&work->next, &work->snap)) {
		resv->seen_seq = work->seq;
		drop_work(resv);
		return;
	}
	resv->seen_seq = work->seq;
	publish_resv(resv);
}

/* Like follow_state(), before there are channels. */
static void follow_at_start(struct rdt_resv *resv)
{
	struct rdt_bdev *base = rdt_bdev_base(resv->ns->bdev);
	struct rdt_resv_snap *snap = NULL;

	if (read_shared(resv, &resv->now, &resv->seen_seq) || rdt_resv_snap(&resv->now, &snap))
		return;
	free(resv->first);
	resv->first = resv->snap = snap;
	atomic_store(&resv->ptpl, resv->now.ptpl);
	atomic_store(&base->state_taken, resv->seen_seq);
}

void rdt_resv_follow(struct rdt_ns *ns)
{
	struct rdt_resv *resv = ns->resv;

	if (!resv_is_shared(ns))
		return;
	if (!resv_target(resv)->opening)
		follow_state(resv);
	else if (atomic_load(&rdt_bdev_base(ns->bdev)->state_seq) != resv->seen_seq)
		follow_at_start(resv);
}

/* ---- commands on the main thread ---- */

static bool same_state(const struct rdt_resv_state *a, const struct rdt_resv_state *b)
{
	return a->gen == b->gen && a->rtype == b->rtype && a->ptpl == b->ptpl &&
	       a->count == b->count && memcmp(a->reg, b->reg, a->count * sizeof(a->reg[0])) == 0;
}

static int prepare_resv(struct rdt_resv *resv)
{
	unsigned int reactors = resv_target(resv)->reactors_count;

	resv->work = calloc(1, sizeof(*resv->work) + reactors * sizeof(resv->work->parts[0]));
	if (!resv->work)
		return -ENOMEM;
	resv->work->resv = resv;
	resv->work->next = resv->now;
	return 0;
}

/* Process the head: afterwards it is answered, or resv->work is in progress. */
static void resv_step(struct rdt_resv *resv)
{
	struct rdt_resv_cmd *cmd = STAILQ_FIRST(&resv->cmds);
	struct nvme_status no_memory = nvme_status(NVME_SCT_GENERIC, NVME_SC_INTERNAL);
	struct rdt_resv_work *work;
	struct nvme_status st;
	bool durable;

	if (resv_is_elsewhere(resv->ns)) {
		resv_answer(resv, rdt_status_from_errno(-ESHUTDOWN, RDT_BIO_WRITE));
		return;
	}
	if (resv->ns->left_behind && !cmd->report) { /* hosts are not excluded by it yet */
		resv_answer(resv, nvme_status(NVME_SCT_GENERIC, NVME_SC_NS_NOT_READY));
		return;
	}
	if (prepare_resv(resv)) {
		resv_answer(resv, no_memory);
		return;
	}
	work = resv->work;
	st = cmd->report ? NVME_OK : rdt_resv_apply(&work->next, &cmd->op, &work->fx);
	if (!nvme_status_ok(st) || same_state(&work->next, &resv->now)) {
		keep_state(resv, st);
		return;
	}
	durable = work->next.ptpl || resv->now.ptpl || resv->stale || resv_is_shared(resv->ns);
	if (rdt_resv_snap(&work->next, &work->snap) || (durable && start_write(resv))) {
		resv_answer(resv, no_memory);
		drop_work(resv);
		return;
	}
	if (!durable)
		publish_resv(resv);
}

/* A loop instead of recursion: thousands of commands may be queued. */
static void run_resv_cmds(struct rdt_resv *resv)
{
	follow_state(resv);
	while (!resv->work && !STAILQ_EMPTY(&resv->cmds)) {
		resv_step(resv);
		follow_state(resv);
	}
}

static void resv_begin_msg(struct rd_msg *msg)
{
	struct rdt_resv_cmd *cmd = rd_container_of(msg, struct rdt_resv_cmd, msg);
	struct rdt_resv *resv = resv_req_of(cmd)->ns->resv;

	STAILQ_INSERT_TAIL(&resv->cmds, cmd, link);
	run_resv_cmds(resv);
}

enum rdt_exec rdt_resv_send(struct rdt_req *req, enum rdt_resv_action action)
{
	struct rdt_resv_cmd *cmd = &req->resv;

	cmd->op.action = (uint8_t)action;
	memcpy(cmd->op.host, req->qp->ctrl->hostid, RDT_RESV_HOST);
	cmd->op.name = rdt_peer_name_hash(rdt_req_target(req), req->qp->ctrl->hostnqn);
	cmd->msg.fn = resv_begin_msg;
	rd_loop_post(rdt_req_target(req)->loop, &cmd->msg);
	return RDT_EXEC_PENDING;
}

/* ---- a hand-over ---- */

int rdt_resv_give(const struct rdt_ns *ns, struct rdt_resv_state *state)
{
	if (ns->resv->work)
		return -EBUSY;
	*state = ns->resv->now;
	/* what another gateway has changed is not known, and the next process reads it */
	if (resv_is_shared(ns) && atomic_load(&rdt_bdev_base(ns->bdev)->standby))
		memset(state, 0, sizeof(*state));
	return 0;
}

int rdt_resv_inherit(struct rdt_ns *ns, const struct rdt_resv_state *state)
{
	struct rdt_resv *resv = ns->resv;

	if (resv->work || (resv_is_shared(ns) && !atomic_load(&rdt_bdev_base(ns->bdev)->comes)))
		return -EBUSY;
	if (prepare_resv(resv))
		return -ENOMEM;
	resv->work->inherited = true;
	resv->work->next = *state;
	if (rdt_resv_snap(state, &resv->work->snap)) {
		drop_work(resv);
		return -ENOMEM;
	}
	publish_resv(resv);
	return 0;
}

/* ---- admission ---- */

struct nvme_status rdt_resv_check_held(struct rdt_req *req)
{
	const struct rdt_resv_snap *snap = req->channel->resv;
	/* The only admin command that is checked is Get LBA Status, because it reveals information
	 * about data. */
	enum rdt_resv_group group =
		req->qp->admin ? RDT_RESV_READS : rdt_resv_group(req->sqe.opcode);

	if (rdt_resv_allows(snap->rtype, rdt_resv_snap_role(snap, req->qp->ctrl->hostid), group))
		return NVME_OK;
	if (resv_is_elsewhere(req->ns)) /* like the backend's answer to I/O */
		return rdt_status_from_errno(-ESHUTDOWN, RDT_BIO_WRITE);
	return rdt_req_fail(req, NVME_SCT_GENERIC, NVME_SC_RESERVATION_CONFLICT, RDT_LOC_NONE);
}

const struct rdt_resv_snap *rdt_resv_first(const struct rdt_ns *ns)
{
	return ns->resv->first;
}

bool rdt_resv_offered(const struct rdt_subsys *ss)
{
	return ss->cfg && ss->cfg->reservations == RDT_RESERVATIONS_ON;
}

bool rdt_resv_durable(const struct rdt_ns *ns)
{
	return ns->subsys->target->state || resv_is_shared(ns);
}

bool rdt_resv_ptpl(const struct rdt_ns *ns)
{
	return atomic_load(&ns->resv->ptpl);
}

/* ---- namespaces come and go ---- */

/* Load the stored state. On failure, @said has a sentence. */
static int load_resv(struct rdt_resv *resv, const struct rdt_state_text *stored, char *said,
		     size_t size)
{
	struct rdt_target *t = resv_target(resv);
	int err = stored->err;
	char why[160];

	if (!err)
		err = rdt_resv_from_json(stored->text, stored->len, rdt_ns_uuid(resv->ns),
					 &resv->now, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "%s", strerror(-err));
	if (err)
		snprintf(said, size,
			 "reservations in %s/%s: %s; restore the file, or remove it to forget all "
			 "reservations of this namespace",
			 rdt_state_dir(t->state), resv->file, why);
	else
		rd_info(t->log, RD_LOG_TARGET,
			"%s namespace %u: %u registrants and reservation type %u restored",
			resv->ns->subsys->nqn, resv->ns->nsid, resv->now.count, resv->now.rtype);
	return err;
}

/* The stored state is not enforced, because "reservations: off" is configured or gateways share the
 * state elsewhere. It is kept, and that is logged. */
static void ignore_stored_resv(const struct rdt_resv *resv)
{
	struct rdt_target *t = resv_target(resv);

	rd_warn(t->log, RD_LOG_TARGET,
		"%s namespace %u: the reservations in %s/%s are not enforced: %s",
		resv->ns->subsys->nqn, resv->ns->nsid, rdt_state_dir(t->state), resv->file,
		rdt_resv_offered(resv->ns->subsys) ? "those that gateways share are"
						   : "reservations is off");
}

int rdt_resv_open(struct rdt_ns *ns, const struct rdt_state_text *stored, char *said, size_t size)
{
	struct rdt_resv *resv = calloc(1, sizeof(*resv));
	int err = 0;

	if (!resv)
		return -ENOMEM;
	ns->resv = resv;
	resv->ns = ns;
	STAILQ_INIT(&resv->cmds);
	snprintf(resv->file, sizeof(resv->file), "%s" RDT_STATE_RESV, ns->identity.id->text);
	if (stored->err == -ENOENT)
		err = 0;
	else if (rdt_resv_offered(ns->subsys) && !resv_is_shared(ns))
		err = load_resv(resv, stored, said, size);
	else
		ignore_stored_resv(resv);
	if (!err)
		err = rdt_resv_snap(&resv->now, &resv->first);
	resv->snap = resv->first;
	atomic_init(&resv->ptpl, resv->now.ptpl);
	rdt_resv_masks_reset(ns);
	if (err)
		rdt_resv_close(ns);
	return err;
}

void rdt_resv_close(struct rdt_ns *ns)
{
	struct rdt_resv *resv = ns->resv;

	if (!resv)
		return;
	drop_work(resv);
	if (resv->snap != resv->first)
		free(resv->snap);
	free(resv->first);
	free(resv);
	ns->resv = NULL;
}
