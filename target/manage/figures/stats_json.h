/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy of the counters as JSON, as the method "stats.get" answers it. Any thread. */
#ifndef RDT_STATS_JSON_H
#define RDT_STATS_JSON_H

#include <jansson.h>

#include "stats.h"

#define RDT_STATS_LIMIT         1000u /* namespaces, or hosts, in one answer */
#define RDT_STATS_LIMIT_DEFAULT 100u

struct rdt_stats_filter {
	bool namespaces; /* add a list of namespaces */
	bool hosts;      /* add a list of hosts */
	bool histograms; /* with the buckets of all latencies */
	char *nqn;       /* namespaces of this subsystem only; NULL: of all */
	uint32_t nsid;   /* with this NSID only; 0: all */
	char *hostnqn;   /* this host only; NULL: all */
	/* The part of each list: it begins with number @offset and has @limit entries at most. */
	unsigned int offset;
	unsigned int limit;
};

/* Each returns a new reference; NULL without memory. @head, which they take over, has the names of
 * the object. */
json_t *rdt_stats_target_json(const struct rdt_stats *stats);
json_t *rdt_stats_process_json(const struct rdt_stats *stats);
json_t *rdt_stats_total_json(const struct rdt_stats *stats, bool histograms);
json_t *rdt_stats_reactors_json(const struct rdt_stats *stats, bool histograms);
json_t *rdt_stats_subsystems_json(const struct rdt_stats *stats);
json_t *rdt_stats_discovery_json(const struct rdt_stats *stats);
json_t *rdt_stats_listener_json(const struct rdt_stats_listener *l, bool histograms);
json_t *rdt_stats_ns_json(const struct rdt_stats_ns *ns, json_t *head, bool histograms);
json_t *rdt_stats_host_json(const struct rdt_stats_host *host, json_t *head, bool histograms);
json_t *rdt_stats_json(struct rdt_stats *stats, const struct rdt_stats_filter *filter);

#endif /* RDT_STATS_JSON_H */
