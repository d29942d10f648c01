/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RD_VB_STATS_H
#define RD_VB_STATS_H

#include <stdint.h>

/* What a fabric counts: gauges, unless said otherwise. */
struct rd_vb_stats {
	uint32_t conns;
	uint32_t listeners;
	uint32_t mrs;
	uint32_t cqs;
	uint32_t srqs;
	uint32_t devs;
	uint64_t arms;    /* a counter: notifications asked for */
	uint64_t hidden;  /* a counter: work requests of rd_vb_post_hidden() */
	uint64_t batches; /* a counter: times that a batch was given to a device */
};

#endif /* RD_VB_STATS_H */
