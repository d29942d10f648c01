/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns_hand.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/cleanup.h"
#include "util/log.h"
#include "target/bdev/inherit.h"
#include "target/config/tgt_limits.h"
#include "target/manage/objects/control.h"
#include "target/nvmf/gate.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

void rdt_ns_hand(const struct rdt_target *t, enum rdt_hand step)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->bdev && !t->ns[i]->left_behind)
			rdt_bdev_hand(t->ns[i]->bdev, step);
}

static void say_unhanded(const struct rdt_ns *ns, int err, char *why, size_t size)
{
	if (err == -EINPROGRESS)
		snprintf(why, size,
			 "%s namespace %u: its storage has not ended a Flush; look at its server, "
			 "and try again",
			 ns->subsys->nqn, ns->nsid);
	else
		snprintf(why, size, "%s namespace %u: a Flush of its storage has failed: %s",
			 ns->subsys->nqn, ns->nsid, strerror(-err));
}

int rdt_ns_handed(const struct rdt_target *t, char *why, size_t size)
{
	int err = 0;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];
		int one = ns && ns->bdev && !ns->left_behind ? rdt_bdev_handed(ns->bdev) : 0;

		if (!one || (err && one == -EINPROGRESS))
			continue;
		err = one;
		say_unhanded(ns, err, why, size);
		if (err != -EINPROGRESS)
			break;
	}
	return err;
}

/* Whether another gateway had the lock of an image is known only to a process that sees it with
 * the one before. */
int rdt_ns_may_store(const struct rdt_target *t, char *why, size_t size)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];

		if (!ns || ns->cfg->backend != RDT_BACKEND_RBD)
			continue;
		snprintf(why, size,
			 "%s namespace %u: the lock of a Ceph RBD image is passed on only to a "
			 "process that runs already; use rdctl upgrade",
			 ns->subsys->nqn, ns->nsid);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* ---- namespaces that are left behind ---- */

unsigned int rdt_ns_leave_behind(struct rdt_target *t)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		if (!t->ns[i])
			continue;
		t->ns[i]->left_behind = rdt_hold_left(t, i);
		count += t->ns[i]->left_behind;
	}
	return count;
}

void rdt_ns_leave_none(struct rdt_target *t)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i])
			t->ns[i]->left_behind = false;
}

void rdt_ns_left_end(const struct rdt_target *t)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->left_behind)
			rdt_bdev_hand(t->ns[i]->bdev, RDT_HAND_LEAVE);
}

json_t *rdt_ns_left_list(const struct rdt_target *t, bool stalled)
{
	json_t *list = json_array();

	for (unsigned int i = 0; list && i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];

		if (!ns || !ns->bdev)
			continue;
		if (!(stalled ? rdt_bdev_stalled(rdt_bdev_base(ns->bdev)) : ns->left_behind))
			continue;
		if (json_array_append_new(list, json_pack("{s:s, s:I}", "nqn", ns->subsys->nqn,
							  "nsid", (json_int_t)ns->nsid))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

void rdt_ns_left_text(const struct rdt_target *t, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < RDT_NS_SLOTS && len < size; i++)
		if (t->ns[i] && t->ns[i]->left_behind)
			len += (size_t)snprintf(text + len, size - len, "%s%s namespace %u",
						len ? ", " : "", t->ns[i]->subsys->nqn,
						t->ns[i]->nsid);
}

void rdt_ns_left_forget(const struct rdt_target *t, struct rdt_inherit *inherit)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		rd_autofree char *name = NULL;
		const struct rdt_ns *ns = t->ns[i];

		if (ns && ns->left_behind && !rdt_inherit_storage(ns->subsys->nqn, ns->cfg, &name))
			rdt_inherit_drop(inherit, name);
	}
}

static void serve_left(struct rdt_ns *ns, bool sure)
{
	rdt_bdev_hand(ns->bdev, RDT_HAND_TAKE);
	if (!sure) {
		rdt_control_ns_own(ns);
		return;
	}
	rd_notice(ns->subsys->target->log, RD_LOG_TARGET,
		  "%s namespace %u: the I/O of the process before has ended; it is served",
		  ns->subsys->nqn, ns->nsid);
	rdt_gate_open(ns);
}

void rdt_ns_left_serve(const struct rdt_target *t, bool sure)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->left_behind && t->ns[i]->state == RDT_NS_LIVE)
			serve_left(t->ns[i], sure);
}
