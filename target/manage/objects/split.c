/* SPDX-License-Identifier: BSD-3-Clause */
#include "split.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/bdev/backend.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

/* Without a change for so long. A gateway that takes many images over gets some each second. */
#define SPLIT_NS (3 * RD_NSEC_PER_SEC)

/* Is @ns in @group, and its storage served by one gateway at a time? */
static bool is_claimed(const struct rdt_ns *ns, uint32_t group)
{
	return ns && ns->state == RDT_NS_LIVE && ns->bdev && rdt_ns_ana_group(ns) == group &&
	       rdt_bdev_base(ns->bdev)->one_gateway;
}

static bool is_elsewhere(const struct rdt_ns *ns)
{
	return rdt_bdev_elsewhere(rdt_bdev_base(ns->bdev));
}

/* The first namespace of @group in an order that is the same on all gateways; NULL: none. */
static const struct rdt_ns *first_of(const struct rdt_target *t, uint32_t group)
{
	const struct rdt_ns *first = NULL;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++) {
		const struct rdt_ns *ns = t->ns[i];
		int order;

		if (!is_claimed(ns, group))
			continue;
		order = first ? strcmp(ns->subsys->nqn, first->subsys->nqn) : -1;
		if (order < 0 || (order == 0 && ns->nsid < first->nsid))
			first = ns;
	}
	return first;
}

/* No host can use the group here, so nothing is lost. */
static void pass_group(struct rdt_target *t, uint32_t group)
{
	const struct rdt_ns *first = first_of(t, group);
	unsigned int passed = 0;

	if (!first || !is_elsewhere(first))
		return;
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (is_claimed(t->ns[i], group) && !is_elsewhere(t->ns[i]))
			passed += rdt_bdev_claim(t->ns[i]->bdev, RDT_CLAIM_PASS);
	if (passed)
		rd_notice(t->log, RD_LOG_TARGET,
			  "ANA group %u is split between gateways: %s namespace %u, its first one, "
			  "is not held here, and %u other namespaces are; these are given up, so "
			  "that one gateway serves the whole group",
			  group, first->subsys->nqn, first->nsid, passed);
}

static void split_look(struct rd_timer *timer)
{
	struct rdt_target *t = rd_container_of(timer, struct rdt_target, split_timer);

	for (uint32_t group = 1; group <= RDT_ANA_GROUPS; group++)
		if (atomic_load(&t->ana_standby[group]))
			pass_group(t, group);
}

void rdt_split_watch(struct rdt_target *t)
{
	t->split_timer.fn = split_look;
	if (rd_timer_start(t->loop, &t->split_timer, SPLIT_NS))
		rd_warn(t->log, RD_LOG_TARGET,
			"out of memory for a timer: an ANA group that is split between gateways "
			"stays so until \"rdctl ana GROUP take\"");
}
