/* SPDX-License-Identifier: BSD-3-Clause */
#include "opening.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "control.h"
#include "target/bdev/backend.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/cut_off.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/resv.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/resv/identity.h"

/* Any thread. */
static void backend_changed(void *arg)
{
	struct rdt_target *t = arg;

	if (!atomic_exchange(&t->bdev_posted, true))
		rd_loop_post(t->loop, &t->bdev_msg);
}

static void take_size(struct rdt_ns *ns)
{
	char text[512];

	if (rdt_control_ns_resize(ns, 0, text, sizeof(text)))
		rd_err(ns->subsys->target->log, RD_LOG_TARGET, "%s namespace %u: %s",
		       ns->subsys->nqn, ns->nsid, text);
}

/* The backend may be open now. */
static void look_again(struct rdt_ns *ns)
{
	char text[512] = "";
	int err = rdt_bdev_opened(ns->bdev, text, sizeof(text));

	if (!err)
		rdt_control_ns_opened(ns);
	else if (err != -EINPROGRESS)
		rdt_control_ns_failed(ns, err, text[0] ? text : strerror(-err));
}

static void backends_changed(struct rd_msg *msg)
{
	struct rdt_target *t = rd_container_of(msg, struct rdt_target, bdev_msg);

	atomic_store(&t->bdev_posted, false);
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		struct rdt_ns *ns = t->ns[i];

		if (!ns || !ns->bdev || ns->state == RDT_NS_JOINING ||
		    !rdt_bdev_take_changed(ns->bdev))
			continue;
		if (ns->state == RDT_NS_OPENING || ns->state == RDT_NS_FAILED)
			look_again(ns);
		else if (ns->state == RDT_NS_LIVE)
			take_size(ns);
		if (ns->state == RDT_NS_LIVE) /* also when it has just become that */
			rdt_resv_follow(ns);
	}
	rdt_opening_standby(t);
	rdt_cut_off_look(t);
}

void rdt_opening_standby(struct rdt_target *t)
{
	bool standby[RDT_ANA_GROUPS + 1] = {false};

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];

		if (ns && ns->bdev && ns->state != RDT_NS_OPENING && ns->state != RDT_NS_FAILED)
			standby[rdt_ns_ana_group(ns)] |=
				rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev));
	}
	for (uint32_t g = 1; g <= RDT_ANA_GROUPS; g++)
		rdt_ana_standby(t, g, standby[g]);
}

void rdt_opening_joined(struct rdt_ns *ns)
{
	rdt_resv_follow(ns);
	if (atomic_load(&rdt_bdev_base(ns->bdev)->changed))
		backend_changed(ns->subsys->target);
}

void rdt_opening_watch(struct rdt_ns *ns)
{
	struct rdt_target *t = ns->subsys->target;

	t->bdev_msg.fn = backends_changed;
	rdt_bdev_watch(ns->bdev, backend_changed, t);
}

/* The reason of a failure was logged, and the namespace tells it. */
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

/* Tells what hosts do not see yet. Returns 0 to start, or -errno of what is FAILED. */
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
	/* A signal may have ended the target meanwhile. */
	while (err >= 0 && !t->drained && t->ns_opening) {
		uint64_t now = rd_loop_now_raw(t->loop);

		if (now >= end)
			break;
		err = rd_loop_turn(t->loop, end - now);
	}
	t->opening = false;
	return err < 0 ? err : t->drained ? 0 : judge_start(t);
}
