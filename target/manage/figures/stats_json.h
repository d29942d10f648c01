/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy of the counters as JSON, as the method "stats.get" returns it. Any thread. */
#ifndef RDT_STATS_JSON_H
#define RDT_STATS_JSON_H

#include <jansson.h>

#include "stats.h"

#define RDT_STATS_LIMIT         1000u /* maximum number of namespaces, or hosts, in one answer */
#define RDT_STATS_LIMIT_DEFAULT 100u

struct rdt_stats_filter {
	bool namespaces; /* add a list of namespaces */
	bool hosts;      /* add a list of hosts */
	bool histograms; /* add the buckets of all latencies */
	char *nqn;       /* only namespaces of this subsystem; NULL: all */
	uint32_t nsid;   /* only those with this NSID; 0: all */
	char *hostnqn;   /* only this host; NULL: all */
	/* The part of each list: at most @limit entries from index @offset. */
	unsigned int offset;
	unsigned int limit;
};

/* Each returns a new reference, or NULL without memory, and takes ownership of @head (names). */
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
