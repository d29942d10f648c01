/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces: a backend with an NSID and a block size. */
#include <errno.h>

#include "internal.h"

int rdt_ns_open(struct rdt_ns *ns, struct rdt_subsys *ss, const struct rdt_ns_config *cfg,
		unsigned int index)
{
	char text[512] = "";
	int err;

	ns->cfg = cfg;
	ns->subsys = ss;
	ns->index = index;
	err = rdt_bdev_open(cfg, ss->target->log, &ns->bdev, text, sizeof(text));
	if (err) {
		rd_err(ss->target->log, RD_LOG_TARGET, "%s namespace %u: %s", ss->nqn, cfg->nsid,
		       text[0] ? text : strerror(-err));
		return err;
	}
	ns->lbads = (uint8_t)__builtin_ctz(ns->bdev->block_size);
	ns->blocks = ns->bdev->size >> ns->lbads;
	return 0;
}

void rdt_ns_close(struct rdt_ns *ns)
{
	rdt_bdev_close(&ns->bdev);
}

struct rdt_ns *rdt_ns_find(const struct rdt_subsys *ss, uint32_t nsid)
{
	unsigned int lo = 0;
	unsigned int hi = ss->ns_count;

	while (lo < hi) {
		unsigned int mid = lo + (hi - lo) / 2;

		if (ss->ns[mid].cfg->nsid == nsid)
			return &ss->ns[mid];
		if (ss->ns[mid].cfg->nsid < nsid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}
