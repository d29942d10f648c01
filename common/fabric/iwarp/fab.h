/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric: what all its connections share. provider.c. */
#ifndef RD_IW_FAB_H
#define RD_IW_FAB_H

#include "drain.h"
#include "mr.h"
#include "stats.h"

struct rd_iw_conn;
struct rd_iw_mailbox;

struct rd_iw_fab {
	struct rd_fab base;
	struct rd_fab_iwarp_opts opts;
	char *congestion;
	struct rd_iw_dev dev;
	TAILQ_HEAD(, rd_iw_drain) drains; /* the next to be read is first */
	struct rd_timer drain_timer;
	struct rd_ratelimit ends;  /* limits messages about connections that failed */
	struct rd_iw_mailbox *box; /* made with the first listener */
	struct rd_iw_stats stats;
};

struct rd_iw_fab *rd_iw_fab(struct rd_fab *fab);
extern const struct rd_fab_ops rd_iw_ops;

static inline struct rd_iw_stats *rd_iw_dev_stats(struct rd_iw_dev *dev)
{
	return &rd_container_of(dev, struct rd_iw_fab, dev)->stats;
}

static inline struct rd_log *rd_iw_log(const struct rd_iw_fab *fab)
{
	return fab->base.log;
}

#endif /* RD_IW_FAB_H */
