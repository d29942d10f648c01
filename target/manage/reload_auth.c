/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of hosts in a reload. */
#include "reload.h"

#include <string.h>

#include "util/log.h"
#include "target/config/config.h"
#include "target/nvmf/auth.h"
#include "target/nvmf/host_access.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"

static void tell(struct rdt_subsys *ss, const char *host, const char *what)
{
	struct rdt_target *t = ss->target;

	rd_log_limited(&t->key_limit, rd_loop_now(t->loop), t->log, RD_LOG_CTRL, RD_LOG_NOTICE,
		       "%s: host %s: %s", ss->nqn, host, what);
}

int rdt_reload_auth(struct rdt_reload *rl, struct rdt_subsys *ss,
		    const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	unsigned int changed = 0;

	for (uint32_t i = 0; i < now->host_auth_count; i++) {
		const char *host = now->host_auth[i].host;

		if (rdt_config_host_auth(next, host))
			continue;
		tell(ss, host, "has no key any more; new queues need not authenticate");
		changed++;
	}
	for (uint32_t i = 0; i < next->host_auth_count; i++) {
		const struct rdt_host_auth_config *h = &next->host_auth[i];
		const struct rdt_host_auth_config *old = rdt_config_host_auth(now, h->host);

		if (rdt_config_same_host_auth(old, h))
			continue;
		tell(ss, h->host,
		     !old ? "has a key from now on; its new queues must authenticate"
			  : "new keys or methods of authentication; the old keys are accepted for "
			    "5 more minutes, or until host_auth of this subsystem changes again");
		changed++;
	}
	if (changed)
		rdt_auth_set_keys(ss, next, rdt_reload_next(rl));
	return (int)changed;
}

int rdt_reload_discovery(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
			 const struct rdt_config *next)
{
	const struct rdt_subsys_config *before = &now->discovery, *after = &next->discovery;
	int changed = rdt_reload_auth(rl, &t->disc, before, after);
	int err;

	if (!changed && before->authentication == after->authentication)
		return 0;
	err = rdt_disc_set_hosts(&t->disc, after);
	if (err)
		rdt_reload_problem(rl, "discovery: host_auth: %s", strerror(-err));
	return err ? err : changed + (before->authentication != after->authentication);
}
