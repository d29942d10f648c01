/* SPDX-License-Identifier: BSD-3-Clause */
/* What tx.c frames for one sendmsg(2). */
#ifndef RD_IW_TX_BATCH_H
#define RD_IW_TX_BATCH_H

#include <sys/uio.h>

#include "caps.h"
#include "tx.h"

#define RD_IW_BATCH      512  /* FPDUs per sendmsg */
#define RD_IW_BATCH_IOV  1024 /* IOV_MAX */
#define RD_IW_BATCH_COPY 128  /* payload up to here is copied: cheaper than an entry of its own */
/*
 * When several leave together, so is that of a 4 KiB command with its capsule: the kernel copies
 * one long piece faster than many short ones, by more than the first copy costs. Not more of it
 * than stays in a processor's cache until then.
 */
#define RD_IW_RUN_MANY 8
#define RD_IW_RUN_COPY (4096 + 64)
#define RD_IW_RUN_ROOM (256 * 1024)

/* One transmission in the making; no connection keeps anything in it. */
struct rd_iw_batch {
	struct rd_iw_fpdu fpdu[RD_IW_BATCH]; /* in order; a run of plain ones is one entry */
	struct iovec iov[RD_IW_BATCH_IOV];
	uint8_t arena[RD_IW_BATCH * (RD_IW_MAX_HDR + RD_IW_BATCH_COPY + RD_MPA_MAX_TRAIL) +
		      RD_IW_RUN_ROOM + RD_IW_RUN_COPY + sizeof(uint64_t)];
	uint32_t entries; /* of @fpdu */
	uint32_t nfpdu;   /* FPDUs */
	uint32_t niov;
	uint32_t arena_used;
	size_t bytes;
};

#endif /* RD_IW_TX_BATCH_H */
