/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics as text for Prometheus and OpenMetrics. Asynchronous, on the main thread:
 * rdt_metrics_ask(sampler, ask) with ask->format and ask->done set; done() gets the text, which a
 * separate thread has written.
 */
#ifndef RDT_METRICS_H
#define RDT_METRICS_H

#include <stddef.h>

#include "stats.h"

enum rdt_metrics_format {
	RDT_METRICS_PROMETHEUS,  /* the text format, version 0.0.4 */
	RDT_METRICS_OPENMETRICS, /* version 1.0.0 */
};

/* The value of the HTTP header Content-Type. */
const char *rdt_metrics_type(enum rdt_metrics_format format);

/* Writes all metrics of @stats into *@text, NUL-terminated; the caller frees it with free(3).
 * Returns 0 or -ENOMEM. Any thread. */
int rdt_metrics_render(struct rdt_stats *stats, enum rdt_metrics_format format, char **text,
		       size_t *len);

/* Owned by the caller, who keeps it until @done is called, as struct rdt_stats_ask. */
struct rdt_metrics_ask {
	enum rdt_metrics_format format;
	/* Called once on the main loop, unless the sampler is closed first. Takes ownership of
	 * @text, to be freed with free(3); NULL: out of memory. May free @ask. */
	void (*done)(struct rdt_metrics_ask *ask, char *text, size_t len);
	/* private */
	struct rdt_stats_ask ask;
	char *text;
	size_t len;
};

void rdt_metrics_ask(struct rdt_sampler *s, struct rdt_metrics_ask *ask); /* main thread */

#endif /* RDT_METRICS_H */
