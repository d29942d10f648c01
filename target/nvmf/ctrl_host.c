/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctrl.h"
#include "peers.h"
#include "subsys.h"

static unsigned int host_bucket(const struct rdt_ctrl *ctrl)
{
	uint8_t key[sizeof(ctrl->hostid) + sizeof(ctrl->hostnqn)];
	size_t nqn = strlen(ctrl->hostnqn);

	memcpy(key, ctrl->hostid, sizeof(ctrl->hostid));
	memcpy(key + sizeof(ctrl->hostid), ctrl->hostnqn, nqn);
	return rdt_peer_hash(ctrl->subsys->target, key, sizeof(ctrl->hostid) + nqn) %
	       RDT_HOST_BUCKETS;
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

static uint64_t path_key(const struct rdt_ctrl *ctrl)
{
	return (uintptr_t)ctrl->listener;
}

int rdt_ctrl_path_join(struct rdt_ctrl *ctrl)
{
	struct rd_map *paths = &ctrl->host->paths;
	struct rdt_ctrl_path *path;
	int err = paths->slots ? 0 : rd_map_init(paths);

	if (err)
		return err;
	path = rd_map_get(paths, path_key(ctrl));
	if (!path) {
		path = calloc(1, sizeof(*path));
		if (!path || rd_map_put(paths, path_key(ctrl), path)) {
			free(path);
			return -ENOMEM;
		}
		path->listener = ctrl->listener;
	}
	LIST_INSERT_HEAD(&path->ctrls, ctrl, path_link);
	ctrl->path = path;
	return 0;
}

static void leave_path(struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl_path *path = ctrl->path;

	if (!path)
		return;
	ctrl->path = NULL;
	LIST_REMOVE(ctrl, path_link);
	if (!LIST_EMPTY(&path->ctrls))
		return;
	rd_map_remove(&ctrl->host->paths, path_key(ctrl));
	free(path);
}

struct rdt_ctrl *rdt_ctrl_duplicate(struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl_host *host = ctrl->host;
	const struct rdt_ctrl_path *path;
	struct rdt_ctrl *other;

	while (host->paths.count && (path = rd_map_get(&host->paths, path_key(ctrl)))) {
		other = LIST_FIRST(&path->ctrls);
		host->twin_looks++;
		if (!atomic_load(&other->lost) && !atomic_load(&other->ending))
			return other;
		leave_path(other);
	}
	return NULL;
}

void rdt_ctrl_host_leave(struct rdt_ctrl *ctrl)
{
	struct rdt_ctrl_host *host = ctrl->host;

	if (!host)
		return;
	leave_path(ctrl);
	ctrl->host = NULL;
	LIST_REMOVE(ctrl, host_link);
	if (!LIST_EMPTY(&host->ctrls))
		return;
	LIST_REMOVE(host, link);
	rdt_slots_fini(&host->lost_ns);
	rd_map_fini(&host->lost_in);
	rd_map_fini(&host->paths);
	free(host);
}
