/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds, removes and resizes namespaces while hosts use them. What may block is a job (bdev/jobs.h).
 * What reactors do is a message to every one of them; the next step starts when all have answered:
 *
 *   add:    open the backend (a job); open the channels; show the namespace to commands; notify
 *           hosts. What fails is tried again
 *   remove: hide the namespace from commands; notify hosts; close the channels, after the I/O in
 *           flight; close the backend (a job). From the beginning another one may have its NSID
 */
#include "control.h"
#include "compare.h"
#include "opening.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "util/loop.h"
#include "target/bdev/inherit.h"
#include "target/bdev/jobs.h"
#include "target/config/backends.h"
#include "target/nvmf/events.h"
#include "target/nvmf/gate.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/subsys.h"
#include "target/resv/identity.h"
#include "target/resv/state.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

#define LEAVE_WARN    (10 * RD_NSEC_PER_SEC)
#define RELEASE_CHECK (10 * RD_NSEC_PER_MSEC)
/* After that, another process is assumed to have locked the file. */
#define RELEASE_MAX (3 * RD_NSEC_PER_SEC)
/* How often to look whether the I/O of a process that was killed has ended */
#define OWN_AGAIN (20 * RD_NSEC_PER_MSEC)
/* Storage that cannot be opened is retried after 1, 2, 4 ... 64 s. */
#define RETRY_FIRST RD_NSEC_PER_SEC
#define RETRY_TIMES 6u

/* A job of a namespace. It may outlive the namespace. */
struct rdt_ns_job {
	struct rdt_job job;
	struct rdt_target *t;
	struct rdt_ns *ns; /* NULL: it was removed */
	const struct rdt_ns_config *cfg;
	struct rdt_config *cfg_of; /* contains @cfg; a reference */
	struct rdt_bdev *bdev;     /* the result of opening; what to measure or close */
	struct rdt_bdev_from from; /* for opening */
	struct rdt_bdev_told told; /* of @from */
	struct rdt_bdev_found found;
	char uuid[RDT_UUID_TEXT]; /* for opening: identifies the stored state */
	struct rdt_state_ns stored;
	uint64_t size;
	int err;
	bool released;
	struct rdt_compare compare;
	char what[384];
	char text[512];
};

static const char target_stopping[] = "the target is stopping";

/* ---- the end of a change ---- */

static void tell_waiters(struct rdt_ns_waiters *waiters, int err, const char *text)
{
	struct rdt_ns_waiter *w;

	while ((w = SLIST_FIRST(waiters))) {
		SLIST_REMOVE_HEAD(waiters, link);
		w->done(w->arg, err, text);
		free(w);
	}
}

static void control_finished(struct rdt_ns *ns, int err, const char *text)
{
	struct rdt_ns_waiters waiters = ns->waiters;

	SLIST_INIT(&ns->waiters);
	tell_waiters(&waiters, err, text);
}

void rdt_control_ns_wait(struct rdt_ns *ns, rdt_control_done done, void *arg)
{
	struct rdt_ns_waiter *w = done ? malloc(sizeof(*w)) : NULL;

	if (!done)
		return;
	if (!w) {
		done(arg, -ENOMEM, "out of memory; the operation continues");
		return;
	}
	*w = (struct rdt_ns_waiter){.done = done, .arg = arg};
	SLIST_INSERT_HEAD(&ns->waiters, w, link);
}

/* Begins a new operation, whose end @done receives. */
static void control_begins(struct rdt_ns *ns, rdt_control_done done, void *arg)
{
	control_finished(ns, -ECANCELED, "a later change replaced this one");
	rdt_control_ns_wait(ns, done, arg);
}

static void announce_ns(const struct rdt_ns *ns, const char *name)
{
	rdt_announce(ns->subsys->target, name, "{s:s, s:i, s:I}", "nqn", ns->subsys->nqn, "nsid",
		     (int)ns->nsid, "size", (json_int_t)(ns->blocks << ns->lbads));
}

/* Free @ns before @done is called: the caller may reuse the backend at once. */
static void free_and_finish(struct rdt_ns *ns, int err, const char *text)
{
	struct rdt_ns_waiters waiters = ns->waiters;

	SLIST_INIT(&ns->waiters);
	rdt_opening_gone(ns);
	rdt_ns_free(ns);
	tell_waiters(&waiters, err, text);
}

/* ---- calls that may block ---- */

/* @doing: for the log. Returns NULL without memory. */
static struct rdt_ns_job *new_job(struct rdt_ns *ns, const char *doing)
{
	struct rdt_ns_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->t = ns->subsys->target;
	j->ns = ns;
	j->from.fd = -1;
	j->cfg = ns->now;
	j->cfg_of = rdt_config_get(ns->now_of);
	j->job.what = j->what;
	snprintf(j->what, sizeof(j->what), "%s namespace %u: %s%s%s", ns->subsys->nqn, ns->nsid,
		 doing, j->cfg->path ? " " : "", j->cfg->path ? j->cfg->path : "");
	ns->job = j;
	return j;
}

static void end_ns_job(struct rdt_ns_job *j)
{
	if (j->from.fd >= 0) /* the job was dropped */
		close(j->from.fd);
	if (j->ns && j->ns->job == j)
		j->ns->job = NULL;
	rdt_config_put(&j->cfg_of);
	rdt_state_ns_fini(&j->stored);
	free(j);
}

/* Jobs of backends without storage block only if they read stored state. */
static bool may_block(const struct rdt_ns_job *j)
{
	return rdt_backend_kind(j->cfg)->storage || (j->uuid[0] && j->t->state);
}

static void begin_ns_job(struct rdt_ns_job *j)
{
	if (!may_block(j)) {
		j->job.work(&j->job);
		j->job.done(&j->job);
		return;
	}
	j->job.device = rdt_jobs_device(j->t->jobs, j->cfg);
	rdt_jobs_add(j->t->jobs, &j->job);
}

static struct rdt_ns_job *job_of(struct rdt_job *job)
{
	return rd_container_of(job, struct rdt_ns_job, job);
}

static void close_work(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);

	rdt_bdev_close(&j->bdev);
	j->released = rdt_bdev_released(j->t->modules, j->cfg);
}

static void closed_unseen(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);

	rdt_bdev_close(&j->bdev); /* when the job was dropped */
	end_ns_job(j);
}

/* Closes the backend that @j has opened after its namespace was removed. */
static void close_opened(struct rdt_ns_job *j)
{
	j->job.work = close_work;
	j->job.done = closed_unseen;
	j->job.late = NULL;
	begin_ns_job(j);
}

/* ---- add ---- */

static void show_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_channel_show(post->reactor, post->ns);
	rdt_ns_answer(post, 0);
}

static void begin_leaving(struct rdt_ns *ns);

static void ns_shown(struct rdt_ns *ns)
{
	rdt_ns_set_state(ns, RDT_NS_LIVE);
	if (ns->leave_due) {
		begin_leaving(ns);
		return;
	}
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	rd_notice(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: added, %llu blocks",
		  ns->subsys->nqn, ns->nsid, (unsigned long long)ns->blocks);
	announce_ns(ns, "namespace-added");
	rdt_opening_joined(ns);
	control_finished(ns, 0, "");
}

static void close_for_ns_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_channel_close(post->reactor, post->ns);
	rdt_ns_answer(post, 0);
}

static void ns_left(struct rdt_ns *ns);
static void opening_failed(struct rdt_ns *ns, int err, const char *text);

/* A reactor could not open its channel: closes the storage and tries again. */
static void channels_closed(struct rdt_ns *ns)
{
	char text[160];

	if (ns->leave_due) {
		ns_left(ns);
		return;
	}
	snprintf(text, sizeof(text), "a reactor cannot use its backend: %s",
		 strerror(-ns->join_err));
	opening_failed(ns, ns->join_err, text);
}

static void open_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_answer(post, rdt_ns_channel_open(post->reactor, post->ns));
}

static void channels_opened(struct rdt_ns *ns)
{
	if (!ns->err && !ns->leave_due) {
		rdt_ns_post(ns, show_msg, ns_shown, false);
		return;
	}
	rdt_ns_set_state(ns, RDT_NS_LEAVING);
	rdt_subsys_count(ns, false);
	ns->join_err = ns->err;
	rdt_ns_post(ns, close_for_ns_msg, channels_closed, false);
}

void rdt_control_ns_opened(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;

	rd_timer_stop(t->loop, &ns->timer);
	if (t->opening) { /* the reactors do not run yet */
		rdt_ns_begin(ns);
		control_finished(ns, 0, "");
		return;
	}
	rdt_ns_take_backend(ns);
	rdt_ns_set_state(ns, RDT_NS_JOINING);
	rdt_subsys_count(ns, true);
	rdt_ns_post(ns, open_msg, channels_opened, false);
}

/* ---- opening ---- */

static void start_opening(struct rdt_ns *ns);

/* The state directory hangs, or another namespace that is being removed has the UUID. */
static void identity_late(struct rd_timer *timer)
{
	struct rdt_ns *ns = rd_container_of(timer, struct rdt_ns, timer);
	char text[256];

	snprintf(text, sizeof(text),
		 "its identity is unknown: %s does not answer, or a namespace that is being "
		 "removed still has its UUID",
		 rdt_state_dir(ns->subsys->target->state));
	rdt_control_ns_failed(ns, -ETIMEDOUT, text);
}

static void identity_known(struct rdt_identity_user *user, int err, const char *why)
{
	struct rdt_ns *ns = rd_container_of(user, struct rdt_ns, identity);

	if (ns->subsys->target->drained)
		return;
	if (err)
		opening_failed(ns, err, why);
	else
		start_opening(ns);
}

/* Returns false if start_opening() will be called again, or @ns is FAILED. */
static bool have_identity(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;
	char why[512];
	int err;

	ns->identity.done = identity_known;
	err = rdt_identity_ask(t->identities, &ns->identity, why, sizeof(why));
	if (err == -EINPROGRESS) {
		ns->timer.fn = identity_late;
		rd_timer_start(t->loop, &ns->timer, RDT_JOBS_LIMIT);
	} else if (err) {
		opening_failed(ns, err, why[0] ? why : strerror(-err));
	}
	return !err;
}

static void open_again(struct rd_timer *timer)
{
	start_opening(rd_container_of(timer, struct rdt_ns, timer));
}

static void open_after(struct rdt_ns *ns, uint64_t delay)
{
	struct rdt_target *t = ns->subsys->target;

	ns->timer.fn = open_again;
	if (rd_timer_start(t->loop, &ns->timer, delay))
		rd_err(t->log, RD_LOG_TARGET,
		       "%s namespace %u: out of memory for a timer; the next reload tries again",
		       ns->subsys->nqn, ns->nsid);
}

/* Stores the reason, and logs it if it has changed. */
static void remember_why(struct rdt_ns *ns, const char *text)
{
	if (!ns->why || strcmp(ns->why, text) != 0)
		rd_err(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s",
		       ns->subsys->nqn, ns->nsid, text);
	free(ns->why);
	ns->why = strdup(text);
}

void rdt_control_ns_failed(struct rdt_ns *ns, int err, const char *text)
{
	remember_why(ns, text);
	ns->why_err = err;
	if (ns->state != RDT_NS_FAILED) {
		rdt_ns_set_state(ns, RDT_NS_FAILED);
		announce_ns(ns, "namespace-failed");
	}
	control_finished(ns, err, text);
}

/* Closes @bdev in the background, independent of @ns. */
static void close_unseen(struct rdt_ns *ns, struct rdt_bdev *bdev)
{
	struct rdt_ns_job *j = bdev ? new_job(ns, "closing") : NULL;

	if (!j) {
		rdt_bdev_close(&bdev);
		return;
	}
	ns->job = NULL;
	j->ns = NULL;
	j->bdev = bdev;
	close_opened(j);
}

/* Opening is retried from the beginning. */
static void opening_failed(struct rdt_ns *ns, int err, const char *text)
{
	uint64_t delay = RETRY_FIRST << (ns->tries < RETRY_TIMES ? ns->tries : RETRY_TIMES);

	close_unseen(ns, rdt_ns_detach(ns));
	ns->tries++;
	ns->retry_at = rd_loop_now(ns->subsys->target->loop) + delay;
	open_after(ns, delay);
	rdt_control_ns_failed(ns, err, text);
}

static void open_work(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);

	j->err = rdt_open_backend(j->t, j->cfg, &j->from, &j->bdev, j->text, sizeof(j->text));
	j->from.fd = -1;
	rdt_state_read_ns(j->t->state, j->uuid, &j->stored);
}

/* The storage of @ns could not be opened because of @err. */
static void not_opened(struct rdt_ns *ns, int err, const char *text)
{
	struct rdt_target *t = ns->subsys->target;

	/* The kernel may still execute I/O of a process that was killed, possibly writes. */
	if (err == -EAGAIN && ns->state == RDT_NS_OPENING && rd_loop_now(t->loop) < ns->give_up_at)
		open_after(ns, RELEASE_CHECK);
	else
		opening_failed(ns, err, text[0] ? text : strerror(-err));
}

static void take_backend(struct rdt_ns *ns, struct rdt_bdev *bdev,
			 const struct rdt_state_ns *stored)
{
	char text[512] = "";
	int err = rdt_ns_attach(ns, bdev, stored, text, sizeof(text));

	if (err) {
		close_unseen(ns, bdev);
		opening_failed(ns, err, text[0] ? text : strerror(-err));
		return;
	}
	rdt_opening_watch(ns);
	err = rdt_bdev_opened(ns->bdev, text, sizeof(text));
	if (!err) {
		rdt_control_ns_opened(ns);
		return;
	}
	if (err != -EINPROGRESS)
		rdt_control_ns_failed(ns, err, text);
	else
		rd_notice(ns->subsys->target->log, RD_LOG_TARGET,
			  "%s namespace %u: is being opened; hosts will see it when its storage "
			  "answers",
			  ns->subsys->nqn, ns->nsid);
}

static void open_done(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);
	struct rdt_ns *ns = j->ns;
	struct rdt_bdev *bdev = j->bdev;
	int err = job->dropped ? -EAGAIN : j->err;
	struct rdt_state_ns stored = j->stored;
	char text[sizeof(j->text)];

	if (!ns && bdev) {
		close_opened(j);
		return;
	}
	memcpy(text, job->dropped ? "" : j->text, job->dropped ? 1 : sizeof(text));
	j->stored = (struct rdt_state_ns){0};
	end_ns_job(j);
	if (!ns || ns->subsys->target->drained)
		rdt_bdev_close(&bdev);
	else if (err)
		not_opened(ns, err, text);
	else
		take_backend(ns, bdev, &stored);
	rdt_state_ns_fini(&stored);
}

/* The job continues, and the namespace appears if it succeeds. */
static void open_late(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);
	char text[512];

	if (!j->ns)
		return;
	snprintf(text, sizeof(text),
		 "%s%sits storage has not answered for %u s; it is still being opened",
		 j->cfg->path ? j->cfg->path : "", j->cfg->path ? ": " : "",
		 (unsigned int)(RDT_JOBS_LIMIT / RD_NSEC_PER_SEC));
	rdt_control_ns_failed(j->ns, -ETIMEDOUT, text);
}

/* @ns is opened once the namespaces in @leaving have released the storage. */
static void wait_for_storage(struct rdt_ns *ns, struct rdt_leaving *leaving)
{
	uint64_t now = rd_loop_now(ns->subsys->target->loop);

	rdt_ns_wait(ns, leaving);
	if (ns->state == RDT_NS_OPENING && now < ns->give_up_at)
		open_after(ns, ns->give_up_at - now);
	else
		opening_failed(ns, -EAGAIN,
			       "another namespace, which is being removed, still uses its storage");
}

/* What the previous process has of the storage of @ns. */
static void inherit_storage(const struct rdt_ns *ns, struct rdt_ns_job *j)
{
	const struct rdt_inherit *inherit = ns->subsys->target->env->inherit;
	rd_autofree char *name = NULL;
	int fd;

	if (!inherit || rdt_inherit_storage(ns->subsys->nqn, ns->now, &name))
		return;
	fd = rdt_inherit_open(inherit, name);
	j->from.fd = fd < 0 ? -1 : fd;
	if (rdt_inherit_found(inherit, name, &j->found))
		j->from.found = &j->found;
	if (rdt_inherit_told(inherit, name, &j->told))
		j->from.told = &j->told;
}

static void start_opening(struct rdt_ns *ns)
{
	struct rdt_leaving *leaving = rdt_ns_leaving(ns);
	struct rdt_ns_job *j;

	if (ns->job) /* a job that hangs */
		return;
	rd_timer_stop(ns->subsys->target->loop, &ns->timer);
	rdt_ns_wait(ns, NULL);
	if (!have_identity(ns))
		return;
	if (leaving) {
		wait_for_storage(ns, leaving);
		return;
	}
	j = new_job(ns, "opening");
	if (!j) {
		opening_failed(ns, -ENOMEM, "out of memory");
		return;
	}
	snprintf(j->uuid, sizeof(j->uuid), "%s", ns->identity.id->text);
	inherit_storage(ns, j);
	j->job.work = open_work;
	j->job.done = open_done;
	j->job.late = open_late;
	begin_ns_job(j);
}

void rdt_control_ns_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
			struct rdt_config *cfg_of, rdt_control_done done, void *arg)
{
	struct rdt_ns *ns = NULL;
	char text[128];
	int err = rdt_ns_with(ss, cfg->nsid) ? -EEXIST : rdt_ns_create(ss, cfg, cfg_of, &ns);

	if (!err) {
		rdt_control_ns_wait(ns, done, arg);
		ns->give_up_at = rd_loop_now(ss->target->loop) + RELEASE_MAX;
		start_opening(ns);
		return;
	}
	rdt_identity_spare(ss->target->identities, ss->nqn, cfg);
	if (err == -EEXIST)
		snprintf(text, sizeof(text), "the NSID is in use");
	else if (err == -ENOSPC)
		snprintf(text, sizeof(text),
			 "the target has %u namespaces, including those that are being removed, "
			 "which is the maximum",
			 RDT_NS_SLOTS);
	else
		snprintf(text, sizeof(text), "%s", strerror(-err));
	rd_err(ss->target->log, RD_LOG_TARGET, "%s namespace %u: %s", ss->nqn, cfg->nsid, text);
	done(arg, err, text);
}

void rdt_control_ns_reopen(struct rdt_ns *ns, rdt_control_done done, void *arg)
{
	const struct rdt_ns_config *cfg = ns->now;
	struct rdt_config *cfg_of = rdt_config_get(ns->now_of);
	struct rdt_subsys *ss = ns->subsys;

	rdt_control_ns_remove(ns, NULL, NULL);
	rdt_control_ns_add(ss, cfg, cfg_of, done, arg);
	rdt_config_put(&cfg_of);
}

void rdt_control_ns_retry(struct rdt_ns *ns, rdt_control_done done, void *arg)
{
	if (ns->job || ns->bdev || ns->state != RDT_NS_FAILED) {
		char text[512];

		snprintf(text, sizeof(text), "%s", ns->why ? ns->why : "it is being opened");
		done(arg, ns->state == RDT_NS_FAILED ? -EAGAIN : 0, text);
		return;
	}
	control_begins(ns, done, arg);
	ns->tries = 0;
	start_opening(ns);
}

bool rdt_control_ns_settling(const struct rdt_ns *ns)
{
	return ns->state != RDT_NS_LIVE && ns->state != RDT_NS_FAILED;
}

/* ---- remove ---- */

static void subsys_leave_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_channel_leave(post->reactor, post->ns); /* answers the message when no I/O is left */
}

static void storage_released(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;
	struct rdt_leaving *leaving = ns->leaves;
	struct rdt_ns *next;

	rd_notice(t->log, RD_LOG_TARGET, "%s namespace %u: removed", ns->subsys->nqn, ns->nsid);
	announce_ns(ns, "namespace-removed");
	ns->leaves = NULL;
	free_and_finish(ns, 0, "");
	if (!rdt_leaving_ends(t, leaving))
		return;
	while ((next = LIST_FIRST(&leaving->waiting)))
		start_opening(next);
	free(leaving);
}

static void close_backend(struct rdt_ns *ns, struct rdt_bdev *bdev);

static void check_released(struct rd_timer *timer)
{
	close_backend(rd_container_of(timer, struct rdt_ns, timer), NULL);
}

/* Waits until the kernel has released the file, so that it can be added again, by any process. */
static void close_done(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);
	struct rd_loop *loop = j->t->loop;
	struct rdt_ns *ns = j->ns;
	bool released = j->released || job->dropped;

	rdt_bdev_close(&j->bdev); /* when the job was dropped */
	end_ns_job(j);
	ns->timer.fn = check_released;
	if (released || rd_loop_now(loop) >= ns->give_up_at ||
	    rd_timer_start(loop, &ns->timer, RELEASE_CHECK))
		storage_released(ns);
}

static void close_backend(struct rdt_ns *ns, struct rdt_bdev *bdev)
{
	struct rdt_ns_job *j = new_job(ns, "closing");

	if (!j) {
		rdt_bdev_close(&bdev);
		storage_released(ns);
		return;
	}
	j->cfg = ns->cfg; /* the configuration it was opened with */
	rdt_config_put(&j->cfg_of);
	j->cfg_of = rdt_config_get(ns->cfg_of);
	j->bdev = bdev;
	j->job.work = close_work;
	j->job.done = close_done;
	begin_ns_job(j);
}

/* All channels are closed. A job that measures the storage may still use the backend. */
static void ns_left(struct rdt_ns *ns)
{
	struct rd_loop *loop = ns->subsys->target->loop;

	ns->left = true;
	if (ns->job)
		return;
	rd_timer_stop(loop, &ns->timer);
	ns->give_up_at = rd_loop_now(loop) + RELEASE_MAX;
	close_backend(ns, rdt_ns_detach(ns));
}

/* Answers the change while the removal continues; hosts no longer see the namespace. */
static void log_slow_leave(struct rd_timer *timer)
{
	struct rdt_ns *ns = rd_container_of(timer, struct rdt_ns, timer);
	char text[160];

	snprintf(text, sizeof(text),
		 "its removal still waits for I/O that the backend has not completed, on %u of %u "
		 "reactors",
		 ns->posts_left, ns->subsys->target->reactors_count);
	rd_warn(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s", ns->subsys->nqn,
		ns->nsid, text);
	announce_ns(ns, "removal-waits");
	control_finished(ns, -EINPROGRESS, text);
}

static void hide_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_channel_hide(post->reactor, post->ns);
	rdt_ns_answer(post, 0);
}

static void ns_hidden(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;

	/* Only now, because hosts read the namespace list when they get the event, and no reactor
	 * may list the namespace then. */
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	ns->timer.fn = log_slow_leave;
	if (rd_timer_start(t->loop, &ns->timer, LEAVE_WARN))
		rd_warn(t->log, RD_LOG_TARGET, "out of memory for a timer");
	rdt_ns_post(ns, subsys_leave_msg, ns_left, true);
}

static void begin_leaving(struct rdt_ns *ns)
{
	rdt_ns_set_state(ns, RDT_NS_LEAVING);
	rdt_subsys_count(ns, false);
	rdt_ns_post(ns, hide_msg, ns_hidden, false);
}

/* No reactor knows @ns. A job that hangs continues without it. */
static void drop_unopened(struct rdt_ns *ns)
{
	struct rdt_bdev *bdev = rdt_ns_detach(ns);

	rd_notice(ns->subsys->target->log, RD_LOG_TARGET,
		  "%s namespace %u: removed before its storage was open", ns->subsys->nqn,
		  ns->nsid);
	if (ns->job)
		ns->job->ns = NULL;
	ns->job = NULL;
	close_unseen(ns, bdev);
	free_and_finish(ns, 0, "");
}

void rdt_control_ns_remove(struct rdt_ns *ns, rdt_control_done done, void *arg)
{
	struct rdt_target *t = ns->subsys->target;

	if (ns->leave_due) {
		if (done)
			done(arg, -EBUSY, "it is already being removed");
		return;
	}
	if (ns->state != RDT_NS_OPENING && ns->state != RDT_NS_FAILED && rdt_ns_unlist(ns)) {
		if (done)
			done(arg, -ENOMEM, "out of memory");
		return;
	}
	control_begins(ns, done, arg);
	rdt_identity_leave(t->identities, &ns->identity);
	if (ns->state == RDT_NS_OPENING || ns->state == RDT_NS_FAILED) {
		drop_unopened(ns);
		return;
	}
	ns->leave_due = true;
	if (ns->state == RDT_NS_LIVE)
		begin_leaving(ns);
}

/* ---- size ---- */

/* Reports a change of the size from @before. */
static void tell_size(struct rdt_ns *ns, uint64_t before)
{
	struct rdt_target *t = ns->subsys->target;
	uint64_t blocks = ns->bdev->size >> ns->lbads;

	atomic_store(&ns->blocks, blocks);
	if (blocks == before)
		return;
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	rd_notice(t->log, RD_LOG_TARGET, "%s namespace %u: resized, %llu blocks, was %llu",
		  ns->subsys->nqn, ns->nsid, (unsigned long long)blocks,
		  (unsigned long long)before);
	announce_ns(ns, "namespace-resized");
}

int rdt_control_ns_resize(struct rdt_ns *ns, uint64_t size, char *text, size_t text_size)
{
	uint64_t before = ns->blocks;
	int err;

	text[0] = '\0';
	if (ns->state != RDT_NS_LIVE) {
		snprintf(text, text_size, "it is being added or removed");
		return -EBUSY;
	}
	/* Before the backend shrinks, reduce the size for commands. */
	if (size && size >> ns->lbads < before)
		atomic_store(&ns->blocks, size >> ns->lbads);
	err = rdt_bdev_take_size(ns->bdev, size, text, text_size);
	tell_size(ns, before);
	return err;
}

static void measure_work(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);

	j->err = rdt_bdev_measure(j->bdev, j->size, &j->size, j->text, sizeof(j->text));
	rdt_compare_run(&j->compare);
}

static void measured(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);
	struct rdt_ns *ns = j->ns;
	uint64_t before = ns->blocks, size = j->size;
	bool job_dropped = job->dropped;
	int err = job->dropped ? -EAGAIN : j->err;
	struct rdt_compare compare = j->compare;
	char text[sizeof(j->text)];

	memcpy(text, j->text, sizeof(text));
	if (job->dropped)
		memcpy(text, target_stopping, sizeof(target_stopping));
	end_ns_job(j);
	if (ns->state != RDT_NS_LIVE) { /* it is being removed, and the requester waits for that */
		if (ns->left)
			ns_left(ns);
		return;
	}
	if (!err)
		err = rdt_control_ns_resize(ns, size, text, sizeof(text));
	if (!err && (compare.state == RDT_PATH_SMALLER || compare.state == RDT_PATH_LARGER))
		compare.state = RDT_PATH_SAME; /* the new size is applied */
	if (!job_dropped && rdt_compare_end(&compare, ns) && !err) {
		err = -ESTALE;
		memcpy(text, compare.why, sizeof(text));
	}
	control_finished(ns, err ? err : ns->blocks != before, err ? text : "");
}

static void measure_late(struct rdt_job *job)
{
	struct rdt_ns *ns = job_of(job)->ns;

	if (ns->state == RDT_NS_LIVE)
		control_finished(ns, -ETIMEDOUT,
				 "the size of its storage is unknown; its size stays unchanged");
}

void rdt_control_ns_measure(struct rdt_ns *ns, uint64_t size, rdt_control_done done, void *arg)
{
	struct rdt_ns_job *j;

	if (ns->job || ns->state != RDT_NS_LIVE) { /* measured already, or not open */
		done(arg, 0, "");
		return;
	}
	control_begins(ns, done, arg);
	j = new_job(ns, "asking for the size of");
	if (!j) {
		control_finished(ns, -ENOMEM, "out of memory");
		return;
	}
	j->bdev = ns->bdev;
	j->size = size;
	rdt_compare_begin(&j->compare, ns);
	j->job.work = measure_work;
	j->job.done = measured;
	j->job.late = measure_late;
	begin_ns_job(j);
}

/* ---- after the process before was killed ---- */

static void own_again(struct rd_timer *timer)
{
	struct rdt_ns *ns = rd_container_of(timer, struct rdt_ns, timer);

	if (ns->state == RDT_NS_LIVE)
		rdt_control_ns_own(ns);
}

static void own_after(struct rdt_ns *ns)
{
	ns->timer.fn = own_again;
	if (rd_timer_start(ns->subsys->target->loop, &ns->timer, OWN_AGAIN))
		rd_err(ns->subsys->target->log, RD_LOG_TARGET,
		       "%s namespace %u: out of memory for a timer; remove it, and add it again",
		       ns->subsys->nqn, ns->nsid);
}

static void own_work(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);

	j->err = rdt_bdev_own(j->bdev, j->cfg, j->text, sizeof(j->text));
}

static void own_done(struct rdt_job *job)
{
	struct rdt_ns_job *j = job_of(job);
	struct rdt_ns *ns = j->ns;
	struct rd_log *log = ns->subsys->target->log;
	int err = job->dropped ? -EAGAIN : j->err;
	char text[sizeof(j->text)];

	memcpy(text, j->text, sizeof(text));
	end_ns_job(j);
	if (ns->state != RDT_NS_LIVE) { /* it is being removed */
		if (ns->left)
			ns_left(ns);
		return;
	}
	if (err && !ns->tries++)
		rd_warn(log, RD_LOG_TARGET,
			"%s namespace %u: not served: the process before was killed, and its I/O "
			"may still be in progress: %s; it is tried again",
			ns->subsys->nqn, ns->nsid, text);
	if (err) {
		own_after(ns);
		return;
	}
	ns->tries = 0;
	rdt_bdev_name_user(ns->bdev, true);
	rd_notice(log, RD_LOG_TARGET,
		  "%s namespace %u: the I/O of the process before has ended; it is served",
		  ns->subsys->nqn, ns->nsid);
	rdt_gate_open(ns);
}

void rdt_control_ns_own(struct rdt_ns *ns)
{
	struct rdt_ns_job *j = ns->job ? NULL : new_job(ns, "waiting for I/O of before in");

	if (!j) { /* it is measured, or there is no memory */
		own_after(ns);
		return;
	}
	j->bdev = ns->bdev;
	j->job.work = own_work;
	j->job.done = own_done;
	begin_ns_job(j);
}

/* ---- subsystems ---- */

int rdt_control_subsys_add(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			   struct rdt_config *cfg_of, struct rdt_subsys **out, char *text,
			   size_t text_size)
{
	int err = rdt_subsys_new(t, cfg, cfg_of, out);

	if (err == -ENOSPC)
		snprintf(text, text_size,
			 "the target has %u subsystems, including those that are being removed, "
			 "which is the maximum; wait until the storage of those answers",
			 RDT_SUBSYS_PLACES);
	else if (err)
		snprintf(text, text_size, "%s", strerror(-err));
	return err;
}

void rdt_control_subsys_show(struct rdt_subsys *ss)
{
	rdt_subsys_show(ss);
	rdt_discovery_changed(ss->target);
	rd_notice(ss->target->log, RD_LOG_TARGET, "%s: added", ss->nqn);
	rdt_announce(ss->target, "subsystem-added", "{s:s}", "nqn", ss->nqn);
}

void rdt_control_subsys_remove(struct rdt_subsys *ss)
{
	rdt_subsys_hold(ss);
	rdt_subsys_leave(ss, "its subsystem was removed");
	rdt_discovery_changed(ss->target);
	rd_notice(ss->target->log, RD_LOG_TARGET, "%s: removed", ss->nqn);
	rdt_announce(ss->target, "subsystem-removed", "{s:s}", "nqn", ss->nqn);
	rdt_subsys_put(ss);
}
