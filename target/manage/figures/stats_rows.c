/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds up the counters of a copy for each host, listener and reactor, and in total. Sorts
 * namespaces. */
#include "stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "process_metrics.h"

static int compare_counters(const void *a, const void *b)
{
	const struct rdt_stats_counters *x = *(const struct rdt_stats_counters *const *)a;
	const struct rdt_stats_counters *y = *(const struct rdt_stats_counters *const *)b;

	return strcmp(x->hostnqn, y->hostnqn);
}

static int compare_ns(const void *a, const void *b)
{
	const struct rdt_ns_shown *x = &(*(const struct rdt_stats_ns *const *)a)->shown;
	const struct rdt_ns_shown *y = &(*(const struct rdt_stats_ns *const *)b)->shown;
	int by_name = strcmp(x->nqn, y->nqn);

	return by_name ? by_name : (x->nsid > y->nsid) - (x->nsid < y->nsid);
}

void rdt_stats_sort_ns(struct rdt_stats *stats)
{
	if (stats->ns_count)
		qsort(stats->ns, stats->ns_count, sizeof(stats->ns[0]), compare_ns);
}

/* Adds up the counters of each host, and sorts hosts by name. */
static int sum_hosts(struct rdt_stats *stats)
{
	const struct rdt_stats_counters **sorted =
		calloc(stats->counters_count + 1, sizeof(struct rdt_stats_counters *));
	unsigned int n = 0;

	for (unsigned int i = 0; i < stats->counters_count && sorted; i++)
		if (stats->counters[i].hostnqn)
			sorted[n++] = &stats->counters[i];
	stats->by_host = sorted ? calloc(n + 1, sizeof(*stats->by_host)) : NULL;
	if (!stats->by_host) {
		free(sorted);
		return -ENOMEM;
	}
	qsort(sorted, n, sizeof(*sorted), compare_counters);
	for (unsigned int i = 0; i < n; i++) {
		const char *name = sorted[i]->hostnqn;

		if (!stats->hosts || strcmp(stats->by_host[stats->hosts - 1].name, name) != 0)
			stats->by_host[stats->hosts++].name = name;
		rdt_stats_add(&stats->by_host[stats->hosts - 1].io, &sorted[i]->io);
	}
	free(sorted);
	return 0;
}

int rdt_stats_sum(struct rdt_stats *stats)
{
	for (unsigned int i = 0; i < stats->counters_count; i++) {
		const struct rdt_stats_counters *counters = &stats->counters[i];

		if (counters->listener >= 0)
			rdt_stats_add(&stats->listeners[counters->listener].io, &counters->io);
		rdt_stats_add(&stats->reactors[counters->reactor].io, &counters->io);
		rdt_stats_add(&stats->total, &counters->io);
	}
	rdt_process_read(&stats->process);
	return sum_hosts(stats);
}
