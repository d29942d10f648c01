/* SPDX-License-Identifier: BSD-3-Clause */
#include "stats_json.h"

#include <string.h>

#include "figures.h"
#include "target/manage/show/show.h"

/* Adds the statistics of an object to @head. Takes ownership of @head. */
static json_t *with_figures(json_t *head, enum rdt_figure_of of, const void *own,
			    const struct rdt_stats_io *io, bool histograms)
{
	const struct rdt_figures figures = {of, own, io};

	if (head)
		rdt_figures_json(head, &figures, histograms);
	return head;
}

json_t *rdt_stats_target_json(const struct rdt_stats *stats)
{
	return with_figures(json_object(), RDT_OF_TARGET, stats, NULL, false);
}

json_t *rdt_stats_process_json(const struct rdt_stats *stats)
{
	return with_figures(json_object(), RDT_OF_PROCESS, &stats->process, NULL, false);
}

json_t *rdt_stats_total_json(const struct rdt_stats *stats, bool histograms)
{
	return with_figures(json_object(), RDT_OF_TOTAL, NULL, &stats->total, histograms);
}

json_t *rdt_stats_reactors_json(const struct rdt_stats *stats, bool histograms)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < stats->reactors_count; i++)
		json_array_append_new(list, with_figures(json_pack("{s:i}", "reactor", (int)i),
							 RDT_OF_REACTOR, &stats->reactors[i],
							 &stats->reactors[i].io, histograms));
	return list;
}

json_t *rdt_stats_subsystems_json(const struct rdt_stats *stats)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < stats->subsystems; i++)
		json_array_append_new(
			list, with_figures(json_pack("{s:s}", "nqn", stats->subsys[i].nqn),
					   RDT_OF_SUBSYSTEM, &stats->subsys[i], NULL, false));
	return list;
}

json_t *rdt_stats_discovery_json(const struct rdt_stats *stats)
{
	return json_pack("{s:I, s:I}", "authentications", (json_int_t)stats->disc_auth.successes,
			 "failed_authentications", (json_int_t)stats->disc_auth.failures);
}

json_t *rdt_stats_listener_json(const struct rdt_stats_listener *l, bool histograms)
{
	return with_figures(json_pack("{s:s}", "address", l->address), RDT_OF_LISTENER, l, &l->io,
			    histograms);
}

json_t *rdt_stats_ns_json(const struct rdt_stats_ns *ns, json_t *head, bool histograms)
{
	return with_figures(head, RDT_OF_NAMESPACE, ns, &ns->io, histograms);
}

json_t *rdt_stats_host_json(const struct rdt_stats_host *host, json_t *head, bool histograms)
{
	return with_figures(head, RDT_OF_HOST, NULL, &host->io, histograms);
}

/* ---- lists in parts ---- */

static bool in_part(const struct rdt_stats_filter *f, unsigned int number)
{
	return number >= f->offset && number - f->offset < f->limit;
}

static void add_namespaces(json_t *o, struct rdt_stats *stats, const struct rdt_stats_filter *f)
{
	json_t *list = json_array();
	unsigned int matching = 0;

	rdt_stats_sort_ns(stats);
	for (unsigned int i = 0; i < stats->ns_count; i++) {
		const struct rdt_stats_ns *ns = stats->ns[i];

		if ((f->nqn && strcmp(f->nqn, ns->shown.nqn) != 0) ||
		    (f->nsid && f->nsid != ns->shown.nsid) || !in_part(f, matching++))
			continue;
		json_array_append_new(
			list, rdt_stats_ns_json(ns,
						json_pack("{s:s, s:I}", "nqn", ns->shown.nqn,
							  "nsid", (json_int_t)ns->shown.nsid),
						f->histograms));
	}
	json_object_set_new(o, "namespaces", list);
	json_object_set_new(o, "namespaces_matching", json_integer((json_int_t)matching));
}

static void add_hosts(json_t *o, const struct rdt_stats *stats, const struct rdt_stats_filter *f)
{
	json_t *list = json_array();
	unsigned int matching = 0;

	for (unsigned int i = 0; i < stats->hosts; i++) {
		const struct rdt_stats_host *host = &stats->by_host[i];

		if ((f->hostnqn && strcmp(f->hostnqn, host->name) != 0) || !in_part(f, matching++))
			continue;
		json_array_append_new(
			list, rdt_stats_host_json(host,
						  json_pack("{s:o, s:o}", "hostnqn",
							    rdt_show_text(host->name), "host",
							    rdt_show_name(host->name)),
						  f->histograms));
	}
	json_object_set_new(o, "hosts", list);
	json_object_set_new(o, "hosts_matching", json_integer((json_int_t)matching));
}

json_t *rdt_stats_json(struct rdt_stats *stats, const struct rdt_stats_filter *f)
{
	json_t *listeners = json_array(), *o;

	for (unsigned int i = 0; i < stats->listeners_count; i++)
		json_array_append_new(listeners,
				      rdt_stats_listener_json(&stats->listeners[i], f->histograms));
	o = json_pack(
		"{s:f, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "uptime_seconds",
		(double)stats->uptime_ns / 1e9, "started", (json_int_t)stats->started, "target",
		rdt_stats_target_json(stats), "process", rdt_stats_process_json(stats), "reactors",
		rdt_stats_reactors_json(stats, f->histograms), "subsystems",
		rdt_stats_subsystems_json(stats), "discovery", rdt_stats_discovery_json(stats),
		"listeners", listeners, "total", rdt_stats_total_json(stats, f->histograms));
	if (o && f->namespaces)
		add_namespaces(o, stats, f);
	if (o && f->hosts)
		add_hosts(o, stats, f);
	return o;
}
