/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric: what all its connections share. provider.c. */
#ifndef RD_VB_FAB_H
#define RD_VB_FAB_H

#include <sys/queue.h>

#include "fabric/fabric.h"
#include "util/loop.h"

#include "batch.h"
#include "stats.h"

/*
 * The private data that fits every message of the InfiniBand CM: the 92 bytes of a REQ without the
 * 36 of rdma_cm.
 */
#define RD_VB_IB_PRIVATE    56
#define RD_VB_IWARP_PRIVATE 251 /* as RD_IW_MAX_PRIVATE */
#define RD_VB_MAX_DEPTH     255 /* READs: rdma_cm has eight bits */
#define RD_VB_MAX_WR        65536

struct rd_vb_anchor;
struct rd_vb_chan;
struct rd_vb_conn;
struct rd_vb_dev;

struct rd_vb_fab {
	struct rd_fab base;
	struct rd_fab_verbs_opts opts;
	struct rd_vb_chan *chan;
	struct rd_io io;
	struct rd_io uevents;
	LIST_HEAD(, rd_vb_anchor) anchors;
	LIST_HEAD(, rd_vb_dev) devs;
	LIST_HEAD(, rd_vb_conn) conns;
	struct rd_vb_stats stats;
	struct rd_vb_batch batch;
};

struct rd_vb_fab *rd_vb_fab(struct rd_fab *fab);
extern const struct rd_fab_ops rd_vb_ops;

static inline struct rd_log *rd_vb_log(const struct rd_vb_fab *fab)
{
	return fab->base.log;
}

#endif /* RD_VB_FAB_H */
