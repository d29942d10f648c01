/* SPDX-License-Identifier: BSD-3-Clause */
/* Rate limits in a reload. */
#include "reload.h"

#include <string.h>

#include "target/config/config.h"
#include "target/nvmf/qos_queue.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/subsys.h"

bool rdt_reload_same_limits(const struct rdt_qos_config *a, const struct rdt_qos_config *b)
{
	static const struct rdt_qos_config none;

	return memcmp(a ? a->limits : none.limits, b ? b->limits : none.limits,
		      sizeof(none.limits)) == 0;
}

int rdt_reload_ns_qos(struct rdt_reload *rl, struct rdt_ns *ns, const struct rdt_ns_config *now,
		      const struct rdt_ns_config *next)
{
	if (rdt_reload_same_limits(now->qos, next->qos))
		return 0;
	rdt_qos_set_ns(ns, next->qos);
	return 1;
}

static const struct rdt_qos_config *host_limits(const struct rdt_subsys_config *ss, const char *nqn)
{
	for (uint32_t i = 0; i < ss->host_qos_count; i++)
		if (strcmp(ss->host_qos[i].host, nqn) == 0)
			return &ss->host_qos[i].limits;
	return NULL;
}

static int change_host(struct rdt_reload *rl, struct rdt_subsys *ss, const char *nqn,
		       const struct rdt_qos_config *limits)
{
	int err = rdt_qos_set_host(ss, nqn, limits);

	if (err)
		rdt_reload_problem(rl, "%s: host_qos of %s: %s", ss->nqn, nqn, strerror(-err));
	return err ? err : 1;
}

int rdt_reload_host_qos(struct rdt_reload *rl, struct rdt_subsys *ss,
			const struct rdt_subsys_config *now, const struct rdt_subsys_config *next)
{
	int changed = 0, err = 0;

	for (uint32_t i = 0; i < now->host_qos_count && err >= 0; i++) {
		if (host_limits(next, now->host_qos[i].host))
			continue;
		err = change_host(rl, ss, now->host_qos[i].host, NULL);
		changed++;
	}
	for (uint32_t i = 0; i < next->host_qos_count && err >= 0; i++) {
		const char *nqn = next->host_qos[i].host;

		if (rdt_reload_same_limits(host_limits(now, nqn), &next->host_qos[i].limits))
			continue;
		err = change_host(rl, ss, nqn, &next->host_qos[i].limits);
		changed++;
	}
	return err < 0 ? err : changed;
}
