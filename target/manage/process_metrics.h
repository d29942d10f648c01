/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics of the process, by the names that clients of Prometheus use in all languages: dashboards
 * and alerts for processes work for rdtarget as well. */
#ifndef RDT_PROCESS_METRICS_H
#define RDT_PROCESS_METRICS_H

#include <stdio.h>

#include "metrics.h"

/* Reads /proc; what it does not tell is left out. Any thread. */
void rdt_process_metrics_write(FILE *f, enum rdt_metrics_format format);

#endif /* RDT_PROCESS_METRICS_H */
