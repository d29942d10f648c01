/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics as text for Prometheus and OpenMetrics. For a server, on the main thread:
 *
 *	ask->format = RDT_METRICS_PROMETHEUS;
 *	ask->done = my_done;
 *	rdt_metrics_ask(sampler, ask);
 *
 * and my_done() gets the text. It was made on a thread of its own.
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

/* Writes all metrics of @stats into *@text, which the caller frees with free(3); it is also
 * terminated. Returns 0 or -ENOMEM. Any thread. */
int rdt_metrics_render(struct rdt_stats *stats, enum rdt_metrics_format format, char **text,
		       size_t *len);

/* Belongs to the caller until @done is called, as struct rdt_stats_ask. */
struct rdt_metrics_ask {
	enum rdt_metrics_format format;
	/* On the main loop, once, unless the sampler is closed first. Takes @text over, to be freed
	 * with free(3). NULL: there was no memory. May free @ask. */
	void (*done)(struct rdt_metrics_ask *ask, char *text, size_t len);
	/* private */
	struct rdt_stats_ask ask;
	char *text;
	size_t len;
};

void rdt_metrics_ask(struct rdt_sampler *s, struct rdt_metrics_ask *ask); /* main thread */

#endif /* RDT_METRICS_H */
