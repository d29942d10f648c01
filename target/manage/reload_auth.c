/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts and their keys in a reload. */
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

/* @host: has no key in @next. "discovery" has no list of hosts; the hosts with a key are its list
 * where authentication is required. */
static bool may_still_connect(const struct rdt_subsys *ss, const struct rdt_subsys_config *next,
			      const char *host)
{
	if (ss == &ss->target->disc)
		return next->authentication == RDT_AUTH_OPTIONAL;
	return next->allow_any_host || rdt_config_listed(next->hosts, next->hosts_count, host);
}

/* Returns the number of hosts whose keys change. */
static unsigned int tell_keys(struct rdt_subsys *ss, const struct rdt_subsys_config *now,
			      const struct rdt_subsys_config *next)
{
	unsigned int changed = 0;

	for (uint32_t i = 0; i < now->host_auth_count; i++) {
		const char *host = now->host_auth[i].host;

		if (rdt_config_host_auth(next, host))
			continue;
		tell(ss, host,
		     may_still_connect(ss, next, host)
			     ? "has no key any more; new queues need not authenticate"
			     : "has no key any more, and may not connect any more");
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
	return changed;
}

/* A host that comes or goes, and its key, do so in the same moment. */
int rdt_reload_hosts(struct rdt_reload *rl, struct rdt_subsys *ss,
		     const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	const struct rdt_auth_set keys = {next, rdt_reload_next(rl)};
	bool same =
		now->allow_any_host == next->allow_any_host &&
		rdt_config_same_list(now->hosts, now->hosts_count, next->hosts, next->hosts_count);
	unsigned int changed = tell_keys(ss, now, next);
	int err;

	if (same && !changed)
		return 0;
	err = rdt_subsys_set_hosts(ss, next->allow_any_host, next->hosts, next->hosts_count,
				   changed ? &keys : NULL);
	if (err)
		rdt_reload_problem(rl, "%s: hosts and host_auth: %s", ss->nqn, strerror(-err));
	return err ? err : (int)changed + !same;
}

int rdt_reload_discovery(struct rdt_reload *rl, struct rdt_target *t, const struct rdt_config *now,
			 const struct rdt_config *next)
{
	const struct rdt_subsys_config *before = &now->discovery, *after = &next->discovery;
	const struct rdt_auth_set keys = {after, rdt_reload_next(rl)};
	bool same = before->authentication == after->authentication;
	unsigned int changed = tell_keys(&t->disc, before, after);
	int err;

	if (same && !changed)
		return 0;
	err = rdt_disc_set_hosts(&t->disc, after, changed ? &keys : NULL);
	if (err)
		rdt_reload_problem(rl, "discovery: host_auth: %s", strerror(-err));
	return err ? err : (int)changed + !same;
}
