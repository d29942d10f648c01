/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns_hand.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target/config/tgt_limits.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

void rdt_ns_hand(const struct rdt_target *t, enum rdt_hand step)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i] && t->ns[i]->bdev)
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
		int one = ns && ns->bdev ? rdt_bdev_handed(ns->bdev) : 0;

		if (!one || (err && one == -EINPROGRESS))
			continue;
		err = one;
		say_unhanded(ns, err, why, size);
		if (err != -EINPROGRESS)
			break;
	}
	return err;
}
