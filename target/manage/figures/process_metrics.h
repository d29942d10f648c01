/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDT_PROCESS_METRICS_H
#define RDT_PROCESS_METRICS_H

#include "stats.h"

/* Reads /proc; unknown values are RDT_FIGURE_NONE. Any thread. */
void rdt_process_read(struct rdt_stats_process *process);

#endif /* RDT_PROCESS_METRICS_H */
