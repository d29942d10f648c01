/* SPDX-License-Identifier: BSD-3-Clause */
#include "opening.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "control.h"
#include "split.h"
#include "target/bdev/backend.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/stall.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/resv.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/resv/identity.h"

/* Maximum number of namespaces handled in one iteration of the main loop. */
#define CHANGES_TURN 32u

/* Any thread. */
static void backend_changed(void *arg)
{
	struct rdt_ns *ns = arg;
	struct rdt_bdev_changes *c = &ns->subsys->target->bdev_changes;
	bool post;

	pthread_mutex_lock(&c->lock);
	if (!ns->bdev_changed)
		TAILQ_INSERT_TAIL(&c->list, ns, changed_link);
	ns->bdev_changed = true;
	post = !c->posted;
	c->posted = true;
	pthread_mutex_unlock(&c->lock);
	if (post)
		rd_loop_post(ns->subsys->target->loop, &c->msg);
}

/* Returns NULL if there is none; the next change then posts the message again. */
static struct rdt_ns *next_changed(struct rdt_bdev_changes *c)
{
	struct rdt_ns *ns;

	pthread_mutex_lock(&c->lock);
	ns = TAILQ_FIRST(&c->list);
	if (ns) {
		TAILQ_REMOVE(&c->list, ns, changed_link);
		ns->bdev_changed = false;
	}
	c->posted = ns != NULL;
	pthread_mutex_unlock(&c->lock);
	return ns;
}

static void take_size(struct rdt_ns *ns)
{
	char text[512];

	if (rdt_control_ns_resize(ns, 0, text, sizeof(text)))
		rd_err(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s",
		       ns->subsys->nqn, ns->nsid, text);
}

/* Checks whether the backend is open now. */
static void check_opened(struct rdt_ns *ns)
{
	char text[512] = "";
	int err = rdt_bdev_opened(ns->bdev, text, sizeof(text));

	if (!err)
		rdt_control_ns_opened(ns);
	else if (err != -EINPROGRESS)
		rdt_control_ns_failed(ns, err, text[0] ? text : strerror(-err));
}

static void follow_backend(struct rdt_ns *ns)
{
	if (ns->state == RDT_NS_JOINING || !rdt_bdev_take_changed(ns->bdev))
		return;
	if (ns->state == RDT_NS_OPENING || ns->state == RDT_NS_FAILED)
		check_opened(ns);
	else if (ns->state == RDT_NS_LIVE)
		take_size(ns);
	if (ns->state ==
	    RDT_NS_LIVE) /* including one that rdt_opening_watch() has just made LIVE */
		rdt_resv_follow(ns);
}

static void backends_changed(struct rd_msg *msg)
{
	struct rdt_bdev_changes *c = rd_container_of(msg, struct rdt_bdev_changes, msg);
	struct rdt_target *t = rd_container_of(c, struct rdt_target, bdev_changes);
	unsigned int left = CHANGES_TURN;
	bool cut_off = false;
	struct rdt_ns *ns;

	while (left && (ns = next_changed(c))) {
		left--;
		if (!ns->bdev)
			continue;
		follow_backend(ns);
		rdt_opening_standby(ns);
		cut_off |= atomic_load(&rdt_bdev_base(ns->bdev)->cut_off);
	}
	if (!left) /* c->posted is still set */
		rd_loop_post(t->loop, msg);
	if (cut_off)
		rdt_cut_off_look(t);
}

static void count_standby(struct rdt_target *t, uint32_t group, int by)
{
	t->standby_count[group] += (unsigned int)by;
	if (group)
		rdt_ana_standby(t, group, t->standby_count[group] > 0);
}

static bool set_standby(struct rdt_ns *ns, uint32_t group)
{
	uint32_t before = ns->standby_group;

	if (group == before)
		return false;
	ns->standby_group = group;
	count_standby(ns->subsys->target, group, 1);
	count_standby(ns->subsys->target, before, -1);
	return true;
}

void rdt_opening_standby(struct rdt_ns *ns)
{
	bool elsewhere = ns->bdev && ns->state != RDT_NS_OPENING && ns->state != RDT_NS_FAILED &&
			 rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev));

	if (set_standby(ns, elsewhere ? rdt_ns_ana_group(ns) : 0))
		rdt_split_watch(ns->subsys->target);
}

void rdt_opening_gone(struct rdt_ns *ns)
{
	set_standby(ns, 0);
}

void rdt_opening_joined(struct rdt_ns *ns)
{
	rdt_resv_follow(ns);
	rdt_opening_standby(ns);
	if (atomic_load(&rdt_bdev_base(ns->bdev)->changed))
		backend_changed(ns);
}

void rdt_opening_watch(struct rdt_ns *ns)
{
	ns->subsys->target->bdev_changes.msg.fn = backends_changed;
	rdt_bdev_watch(ns->bdev, backend_changed, ns);
}

/* A failure needs no action: its reason is logged and stored in the namespace. */
static void begun(void *arg, int err, const char *text)
{
}

void rdt_opening_begin(struct rdt_target *t)
{
	t->opening = true;
	for (unsigned int i = 0; i < t->cfg->subsystems_count; i++) {
		const struct rdt_subsys_config *ss = &t->cfg->subsystems[i];

		for (unsigned int k = 0; k < ss->namespaces_count; k++)
			rdt_control_ns_add(t->subsys[i], &ss->namespaces[k], t->cfg, begun, NULL);
	}
	rdt_identities_settle(t->identities, true, NULL);
}

/* Logs namespaces that hosts do not see yet. Returns 0 to start, or -errno of a FAILED one. */
static int judge_start(struct rdt_target *t)
{
	unsigned int failed = 0;
	int err = 0;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];

		if (ns && ns->state == RDT_NS_OPENING)
			rd_warn(t->log, RD_LOG_TARGET,
				"%s namespace %u: its storage does not answer yet; hosts will see "
				"the namespace when it does",
				ns->subsys->nqn, ns->nsid);
		if (!ns || ns->state != RDT_NS_FAILED)
			continue;
		failed++;
		err = ns->why_err;
	}
	if (!failed)
		return 0;
	if (t->cfg->target.start == RDT_START_ALL_OR_NOTHING)
		return err;
	rd_err(t->log, RD_LOG_TARGET,
	       "%u namespace%s cannot be served now, for the reasons above; hosts will see them "
	       "when "
	       "their storage can be opened, which is tried again after 1, 2, 4 ... 64 s",
	       failed, failed == 1 ? "" : "s");
	return 0;
}

int rdt_opening_wait(struct rdt_target *t, uint64_t timeout_ns)
{
	uint64_t end = rd_loop_now_raw(t->loop) + timeout_ns;
	int err = 0;

	if (t->ns_opening)
		rd_info(t->log, RD_LOG_TARGET, "waiting at most %llu s for storage to answer",
			(unsigned long long)(timeout_ns / RD_NSEC_PER_SEC));
	/* A signal may have stopped the target meanwhile. */
	while (err >= 0 && !t->drained && t->ns_opening) {
		uint64_t now = rd_loop_now_raw(t->loop);

		if (now >= end)
			break;
		err = rd_loop_turn(t->loop, end - now);
	}
	t->opening = false;
	return err < 0 ? err : t->drained ? 0 : judge_start(t);
}
