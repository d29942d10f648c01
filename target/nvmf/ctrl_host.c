/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl.h"
#include "subsys.h"

static unsigned int host_bucket(const struct rdt_ctrl *ctrl)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (unsigned int i = 0; i < sizeof(ctrl->hostid); i++)
		hash = (hash ^ ctrl->hostid[i]) * 16777619u;
	for (const char *c = ctrl->hostnqn; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619u;
	return hash % RDT_HOST_BUCKETS;
}

static struct rdt_ctrl_host *make_ctrl_host(const struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl_host *host = calloc(1, sizeof(*host));

	if (!host || rd_map_init(&host->lost_in)) {
		free(host);
		return NULL;
	}
	memcpy(host->hostid, ctrl->hostid, sizeof(host->hostid));
	memcpy(host->hostnqn, ctrl->hostnqn, sizeof(host->hostnqn));
	return host;
}

int rdt_ctrl_host_join(struct rdt_subsys *ss, struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl_host_bucket *bucket = &ss->ctrl_hosts[host_bucket(ctrl)];
	struct rdt_ctrl_host *host;

	LIST_FOREACH (host, bucket, link)
		if (memcmp(host->hostid, ctrl->hostid, sizeof(host->hostid)) == 0 &&
		    strcmp(host->hostnqn, ctrl->hostnqn) == 0)
			break;
	if (!host) {
		host = make_ctrl_host(ctrl);
		if (!host)
			return -ENOMEM;
		LIST_INSERT_HEAD(bucket, host, link);
	}
	LIST_INSERT_HEAD(&host->ctrls, ctrl, host_link);
	ctrl->host = host;
	return 0;
}

void rdt_ctrl_host_leave(struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl_host *host = ctrl->host;

	if (!host)
		return;
	ctrl->host = NULL;
	LIST_REMOVE(ctrl, host_link);
	if (!LIST_EMPTY(&host->ctrls))
		return;
	LIST_REMOVE(host, link);
	rdt_slots_fini(&host->lost_ns);
	rd_map_fini(&host->lost_in);
	free(host);
}
