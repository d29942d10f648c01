/* SPDX-License-Identifier: BSD-3-Clause */
/* What tx.c frames for one sendmsg(2). */
#ifndef RD_IW_TX_BATCH_H
#define RD_IW_TX_BATCH_H

#include <sys/uio.h>

#include "caps.h"
#include "tx.h"

/* The FPDUs that are framed for one sendmsg(2). Empty between two callbacks. */
struct rd_iw_batch {
	struct rd_iw_fpdu fpdu[RD_IW_BATCH]; /* in order; a run is one entry */
	struct iovec iov[RD_IW_BATCH_IOV];
	uint8_t arena[RD_IW_BATCH * (RD_IW_MAX_HDR + RD_IW_BATCH_COPY + RD_MPA_MAX_TRAIL) +
		      RD_IW_RUN_ROOM + RD_IW_RUN_COPY + sizeof(uint64_t)];
	uint32_t entries; /* used entries of @fpdu */
	uint32_t nfpdu;   /* FPDUs, counting each of a run */
	uint32_t niov;
	uint32_t arena_used;
	size_t bytes;
};

#endif /* RD_IW_TX_BATCH_H */
