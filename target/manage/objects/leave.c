/* SPDX-License-Identifier: BSD-3-Clause */
#include "leave.h"

#include <stdio.h>

#include "control.h"
#include "target/bdev/backend.h"
#include "target/config/tgt_limits.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/target.h"
#include "target/resv/state.h"

bool rdt_leave_stalled(const struct rdt_target *t)
{
	bool stalled = false;

	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		stalled |= t->ns[i] && t->ns[i]->bdev &&
			   rdt_bdev_stalled(rdt_bdev_base(t->ns[i]->bdev));
	return stalled;
}

void rdt_leave_begin(struct rdt_target *t)
{
	for (unsigned int i = 0; i < RDT_NS_SLOTS; i++)
		if (t->ns[i])
			rdt_control_ns_remove(t->ns[i], NULL, NULL);
}

void rdt_leave_hung(struct rdt_target *t, char *text, size_t size)
{
	size_t len = 0;

	if (t->state)
		rdt_state_unlock(t->state);
	text[0] = '\0';
	for (unsigned int i = 0; i < RDT_NS_SLOTS && len < size; i++) {
		const struct rdt_ns *ns = t->ns[i];
		const char *path = ns && ns->cfg->path ? ns->cfg->path : "";

		if (ns)
			len += (size_t)snprintf(text + len, size - len, "%s%s namespace %u%s%s%s",
						len ? ", " : "", ns->subsys->nqn, ns->nsid,
						path[0] ? " (" : "", path, path[0] ? ")" : "");
	}
}
