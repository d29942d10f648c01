/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds, removes and resizes namespaces while hosts use them. Each step is a message to every
 * reactor; the next step starts when all reactors have answered:
 *
 *   add:    open the channels; show the namespace to commands; notify hosts
 *   remove: hide the namespace from commands; notify hosts; close the channels, after the I/O in
 *           flight; close the backend
 */
#include "control.h"
#include "opening.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/cmd/admin.h"
#include "target/bdev/backend.h"
#include "target/config/config.h"
#include "target/nvmf/ctrl.h"
#include "target/nvmf/events.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/config/tgt_limits.h"

#define LEAVE_WARN   (10 * RD_NSEC_PER_SEC)
#define RELEASE_LOOK RD_NSEC_PER_MSEC
/* After that, the file is assumed to be in use by another process */
#define RELEASE_MAX RD_NSEC_PER_SEC

int rdt_control_open(struct rdt_target *t, const struct rdt_ns_config *cfg, struct rdt_bdev **out,
		     char *text, size_t text_size)
{
	int err;

	text[0] = '\0';
	err = rdt_open_backend(t, cfg, out, text, text_size);
	if (err && !text[0])
		snprintf(text, text_size, "%s", strerror(-err));
	return err;
}

/* ---- add ---- */

static void control_finished(struct rdt_ns *ns, int err, const char *text)
{
	rdt_control_done done = ns->done;

	ns->done = NULL;
	if (done)
		done(ns->done_arg, err, text);
}

static void show_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_channel_show(post->reactor, post->ns);
	rdt_ns_answer(post, 0);
}

static void announce_ns(const struct rdt_ns *ns, const char *name)
{
	rdt_announce(ns->subsys->target, name, "{s:s, s:i, s:I}", "nqn", ns->subsys->nqn, "nsid",
		     (int)ns->nsid, "size", (json_int_t)(ns->blocks << ns->lbads));
}

static void ns_shown(struct rdt_ns *ns)
{
	ns->state = RDT_NS_LIVE;
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

/* Free @ns before @done is called: the caller may reuse the NSID and the backend at once. */
static void free_and_finish(struct rdt_ns *ns, int err, const char *text)
{
	rdt_control_done done = ns->done;
	struct rdt_target *t = ns->subsys->target;
	bool standby = t->ana_standby[rdt_ns_ana_group(ns)];
	void *arg = ns->done_arg;

	rdt_ns_free(ns);
	if (standby) /* it may have been the last one; this looks at all namespaces */
		rdt_opening_standby(t);
	if (done)
		done(arg, err, text);
}

static void channels_closed(struct rdt_ns *ns)
{
	char text[160];

	snprintf(text, sizeof(text), "a reactor cannot use its backend: %s",
		 strerror(-ns->join_err));
	free_and_finish(ns, ns->join_err, text);
}

static void open_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_answer(post, rdt_ns_channel_open(post->reactor, post->ns));
}

static void channels_opened(struct rdt_ns *ns)
{
	if (!ns->err) {
		rdt_ns_post(ns, show_msg, ns_shown);
		return;
	}
	ns->state = RDT_NS_LEAVING;
	ns->leaving_since = rd_loop_now(ns->subsys->target->loop);
	rdt_subsys_count(ns, false);
	ns->join_err = ns->err;
	rdt_ns_post(ns, close_for_ns_msg, channels_closed);
}

/* The part of an addition that needs no reactor. */
static int begin_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
		     struct rdt_config *cfg_of, struct rdt_bdev **bdev, struct rdt_ns **out,
		     char *text, size_t text_size)
{
	const struct rdt_ns *old = rdt_ns_with(ss, cfg->nsid);
	int err;

	if (old && old->state == RDT_NS_LEAVING) {
		snprintf(text, text_size,
			 "the old namespace with this NSID still waits for I/O in flight; try "
			 "again when it is removed");
		return -EBUSY;
	}
	if (old) {
		snprintf(text, text_size, "the NSID is in use");
		return -EEXIST;
	}
	err = *bdev ? 0 : rdt_control_open(ss->target, cfg, bdev, text, text_size);
	if (!err)
		err = rdt_ns_create(ss, cfg, cfg_of, *bdev, out);
	else
		return err;
	if (err == -ENOSPC)
		snprintf(text, text_size, "the target has %u namespaces, which is the maximum",
			 RDT_NS_SLOTS);
	else if (err)
		snprintf(text, text_size, "%s", strerror(-err));
	return err;
}

void rdt_control_ns_add(struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
			struct rdt_config *cfg_of, struct rdt_bdev *bdev, rdt_control_done done,
			void *arg)
{
	struct rdt_ns *ns = NULL;
	char text[512] = "";
	int err = begin_add(ss, cfg, cfg_of, &bdev, &ns, text, sizeof(text));

	if (err) {
		rdt_bdev_close(&bdev);
		done(arg, err, text);
		return;
	}
	err = rdt_bdev_opened(ns->bdev, text, sizeof(text));
	if (err) {
		ns->state = RDT_NS_OPENING;
		rd_notice(ss->target->log, RD_LOG_TARGET,
			  "%s namespace %u: is being opened; hosts will see it when its storage "
			  "answers",
			  ss->nqn, ns->nsid);
		rdt_opening_watch(ns);
		done(arg, 0, "");
		return;
	}
	ns->done = done;
	ns->done_arg = arg;
	rdt_control_ns_opened(ns);
	rdt_opening_watch(ns);
}

void rdt_control_ns_opened(struct rdt_ns *ns)
{
	rdt_ns_take_backend(ns);
	ns->state = RDT_NS_JOINING;
	rdt_subsys_count(ns, true);
	rdt_ns_post(ns, open_msg, channels_opened);
}

/* ---- remove ---- */

static void subsys_leave_msg(struct rd_msg *msg)
{
	struct rdt_ns_post *post = rd_container_of(msg, struct rdt_ns_post, msg);

	rdt_ns_channel_leave(post->reactor, post->ns); /* the reactor answers */
}

static void file_released(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;

	rd_notice(t->log, RD_LOG_TARGET, "%s namespace %u: removed", ns->subsys->nqn, ns->nsid);
	announce_ns(ns, "namespace-removed");
	free_and_finish(ns, 0, "");
}

static void check_released(struct rd_timer *timer)
{
	struct rdt_ns *ns = rd_container_of(timer, struct rdt_ns, leave_timer);
	struct rd_loop *loop = ns->subsys->target->loop;

	if (rdt_bdev_released(ns->subsys->target->modules, ns->cfg) ||
	    rd_loop_now(loop) >= ns->release_by || rd_timer_start(loop, timer, RELEASE_LOOK))
		file_released(ns);
}

/* The file is closed. The namespace is removed only when the kernel has released the file, because
 * the same file may be added again. */
static void ns_left(struct rdt_ns *ns)
{
	struct rd_loop *loop = ns->subsys->target->loop;

	rd_timer_stop(loop, &ns->leave_timer);
	rdt_bdev_close(&ns->bdev);
	ns->leave_timer.fn = check_released;
	ns->release_by = rd_loop_now(loop) + RELEASE_MAX;
	check_released(&ns->leave_timer);
}

static void log_slow_leave(struct rd_timer *timer)
{
	struct rdt_ns *ns = rd_container_of(timer, struct rdt_ns, leave_timer);

	rd_warn(ns->subsys->target->log, RD_LOG_TARGET,
		"%s namespace %u: its removal still waits for I/O that the backend has not "
		"completed, on %u of %u reactors",
		ns->subsys->nqn, ns->nsid, ns->posts_left, ns->subsys->target->reactors_count);
	announce_ns(ns, "stalled");
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

	/* From now on no reactor shows the namespace to a host that reads the list because of the
	 * event. */
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	ns->leave_timer.fn = log_slow_leave;
	if (rd_timer_start(t->loop, &ns->leave_timer, LEAVE_WARN))
		rd_warn(t->log, RD_LOG_TARGET, "out of memory for a timer");
	rdt_ns_post(ns, subsys_leave_msg, ns_left);
}

void rdt_control_ns_remove(struct rdt_ns *ns, rdt_control_done done, void *arg)
{
	if (ns->state == RDT_NS_OPENING) {
		rd_notice(ns->subsys->target->log, RD_LOG_TARGET,
			  "%s namespace %u: removed before its storage answered", ns->subsys->nqn,
			  ns->nsid);
		rdt_ns_free(ns);
		done(arg, 0, "");
		return;
	}
	if (ns->state != RDT_NS_LIVE) {
		done(arg, -EBUSY,
		     ns->state == RDT_NS_LEAVING ? "it is already being removed"
						 : "it is still being added");
		return;
	}
	ns->state = RDT_NS_LEAVING;
	ns->leaving_since = rd_loop_now(ns->subsys->target->loop);
	ns->done = done;
	ns->done_arg = arg;
	rdt_subsys_count(ns, false);
	rdt_ns_post(ns, hide_msg, ns_hidden);
}

/* ---- resize ---- */

int rdt_control_ns_resize(struct rdt_ns *ns, uint64_t size, char *text, size_t text_size)
{
	struct rdt_target *t = ns->subsys->target;
	uint64_t before = ns->blocks;
	uint64_t blocks;
	int err;

	text[0] = '\0';
	if (ns->state != RDT_NS_LIVE) {
		snprintf(text, text_size, "it is being added or removed");
		return -EBUSY;
	}
	/* When shrinking, reduce the size for commands before the backend shrinks. */
	if (size && size >> ns->lbads < before)
		atomic_store(&ns->blocks, size >> ns->lbads);
	err = rdt_bdev_resize(ns->bdev, size, text, text_size);
	blocks = ns->bdev->size >> ns->lbads;
	atomic_store(&ns->blocks, blocks);
	if (err || blocks == before)
		return err;
	rdt_event_ns(ns, RDT_EV_NS_ATTR);
	rd_notice(t->log, RD_LOG_TARGET, "%s namespace %u: resized, %llu blocks, was %llu",
		  ns->subsys->nqn, ns->nsid, (unsigned long long)blocks,
		  (unsigned long long)before);
	announce_ns(ns, "namespace-resized");
	return 0;
}

/* ---- subsystems ---- */

/* Hosts know these properties of the NQN, so they cannot change when it is added again. */
static bool same_identity(const struct rdt_subsys_config *a, const struct rdt_subsys_config *b)
{
	return rdt_config_same_text(a->serial, b->serial) &&
	       rdt_config_same_text(a->model, b->model) && a->cntlid_min == b->cntlid_min &&
	       a->cntlid_max == b->cntlid_max;
}

int rdt_control_subsys_add(struct rdt_target *t, const struct rdt_subsys_config *cfg,
			   struct rdt_config *cfg_of, struct rdt_subsys **out, char *text,
			   size_t text_size)
{
	struct rdt_subsys *ss = rdt_subsys_slot(t, cfg->nqn);
	int err;

	if (ss && !ss->shown) { /* of a reload that was refused */
		rdt_subsys_renew(ss, cfg, cfg_of);
		*out = ss;
		return 0;
	}
	if (ss) {
		*out = ss;
		if (same_identity(ss->cfg, cfg))
			return 0;
		snprintf(text, text_size,
			 "was there before with another serial, model or range of controller IDs; "
			 "that needs a restart");
		return -EEXIST;
	}
	if (t->subsys_count == RDT_SUBSYSTEMS) {
		snprintf(text, text_size,
			 "the target has %u subsystems, including those removed since its start, "
			 "which is the maximum; a restart is needed",
			 RDT_SUBSYSTEMS);
		return -ENOSPC;
	}
	err = rdt_subsys_new(t, cfg, cfg_of, true, out);
	if (err)
		snprintf(text, text_size, "%s", strerror(-err));
	return err;
}

void rdt_control_subsys_show(struct rdt_subsys *ss)
{
	pthread_mutex_lock(&ss->lock);
	atomic_store(&ss->gone, false);
	ss->shown = true;
	pthread_mutex_unlock(&ss->lock);
	rdt_discovery_changed(ss->target);
	rd_notice(ss->target->log, RD_LOG_TARGET, "%s: added", ss->nqn);
	rdt_announce(ss->target, "subsystem-added", "{s:s}", "nqn", ss->nqn);
}

void rdt_control_subsys_remove(struct rdt_subsys *ss)
{
	struct rdt_ctrl *ctrl;

	pthread_mutex_lock(&ss->lock);
	atomic_store(&ss->gone, true);
	TAILQ_FOREACH (ctrl, &ss->ctrls, link)
		rdt_ctrl_end(ctrl, "its subsystem was removed");
	pthread_mutex_unlock(&ss->lock);
	rdt_discovery_changed(ss->target);
	rd_notice(ss->target->log, RD_LOG_TARGET, "%s: removed", ss->nqn);
	rdt_announce(ss->target, "subsystem-removed", "{s:s}", "nqn", ss->nqn);
}
