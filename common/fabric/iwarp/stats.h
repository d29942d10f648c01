/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fabric counts. */
#ifndef RD_IW_STATS_H
#define RD_IW_STATS_H

#include <stdint.h>

/* Counters and gauges; tests look at them. */
struct rd_iw_stats {
	uint64_t sendmsg_calls;
	uint64_t readv_calls;
	uint64_t fpdus_tx;
	uint64_t fpdus_rx;
	uint64_t terms_tx;
	uint64_t terms_rx;
	uint64_t quick_acks;
	uint64_t evicted; /* half-open connections, to make room */
	/* gauges */
	uint32_t conns;
	uint32_t listeners;
	uint32_t half_open;
	uint32_t drains;
	uint32_t mrs;
	uint32_t cqs;
	uint32_t srqs;
};

#endif /* RD_IW_STATS_H */
