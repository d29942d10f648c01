/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reload does not change, because it needs a restart: the rows of the keys say which. */
#include <stdio.h>

#include "reload.h"
#include "target/nvmf/subsys.h"

void rdt_restart_keys(const struct rdt_config *now, const struct rdt_config *next,
		      rdt_restart_fn fn, void *arg)
{
	rdt_config_restarts(now, next, fn, arg);
}

void rdt_restart_subsys_keys(const struct rdt_subsys *ss, const struct rdt_subsys_config *next,
			     rdt_restart_fn fn, void *arg)
{
	/* Compared with the value at the start, so the warning is repeated until the restart. */
	rdt_config_subsys_restarts(ss->cfg, next, fn, arg);
}

void rdt_restart_text(const char *where, const char *key, char text[RDT_RESTART_TEXT])
{
	snprintf(text, RDT_RESTART_TEXT, "%s %s: a change needs a restart; the old value stays",
		 where, key);
}
