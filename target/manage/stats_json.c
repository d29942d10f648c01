/* SPDX-License-Identifier: BSD-3-Clause */
#include "stats_json.h"

#include <stdlib.h>
#include <string.h>

#include "target/nvmf/ns.h"
#include "show.h"

static double in_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* ---- counters of commands ---- */

/* Pairs of the end of a bucket, in seconds, and its count. Empty buckets are left out. */
static json_t *histogram_json(const struct rdt_stats_op *op)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		if (op->bucket[i])
			json_array_append_new(list, json_pack("[f, I]", in_seconds(rdt_lat_end(i)),
							      (json_int_t)op->bucket[i]));
	return list;
}

static json_t *op_json(const struct rdt_stats_op *op, bool histogram)
{
	json_t *o = json_pack("{s:I, s:I, s:f, s:f, s:f, s:f}", "count", (json_int_t)op->count,
			      "bytes", (json_int_t)op->bytes, "mean_seconds",
			      op->count ? in_seconds(op->ns) / (double)op->count : 0.0,
			      "p50_seconds", in_seconds(rdt_stats_percentile(op, 50)),
			      "p99_seconds", in_seconds(rdt_stats_percentile(op, 99)),
			      "p999_seconds", in_seconds(rdt_stats_percentile(op, 99.9)));

	if (o && histogram)
		json_object_set_new(o, "histogram", histogram_json(op));
	return o;
}

static json_t *errors_json(const struct rdt_stats_io *io)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < RDT_ERROR_KINDS && io->status[i]; i++)
		json_array_append_new(list,
				      json_pack("{s:i, s:i, s:I}", "sct", (int)(io->status[i] >> 8),
						"sc", (int)(io->status[i] & 0xff), "count",
						(json_int_t)io->errors[i]));
	return list;
}

/* Adds the members of @io to @o. */
static void add_io(json_t *o, const struct rdt_stats_io *io, bool histograms)
{
	for (unsigned int op = 0; op < RDT_IO_OPS; op++)
		json_object_set_new(o, rdt_stats_op_name(op), op_json(&io->op[op], histograms));
	json_object_set_new(o, "failed", json_integer((json_int_t)rdt_stats_failed(io)));
	json_object_set_new(o, "errors", errors_json(io));
	json_object_set_new(o, "in_flight", json_integer((json_int_t)io->in_flight));
	json_object_set_new(o, "oldest_seconds", json_real(in_seconds(io->oldest_ns)));
	json_object_set_new(o, "buffer_waits",
			    json_integer((json_int_t)io->events[RDT_COUNT_BUFFER_WAITS]));
	json_object_set_new(o, "limit_waits",
			    json_integer((json_int_t)io->events[RDT_COUNT_QOS_WAITS]));
	json_object_set_new(o, "limit_wait_seconds",
			    json_real(in_seconds(io->events[RDT_COUNT_QOS_NS])));
}

/* The same, with what is counted for hosts, listeners and reactors only. */
static void add_row(json_t *o, const struct rdt_stats_row *row, bool histograms)
{
	static const struct {
		const char *name;
		enum rdt_count_of event;
	} events[] = {
		{"connects", RDT_COUNT_CONNECTS},
		{"refused", RDT_COUNT_REFUSALS},
		{"keep_alive_timeouts", RDT_COUNT_KEEP_ALIVES},
		{"aborts", RDT_COUNT_ABORTS},
		{"resets", RDT_COUNT_RESETS},
	};

	json_t *ends = json_object();
	uint64_t ended = 0;

	for (unsigned int end = 0; end < RDT_ENDS; end++) {
		uint64_t n = row->io.events[RDT_COUNT_ENDS + end];

		ended += n;
		json_object_set_new(ends, rdt_stats_end_name(end), json_integer((json_int_t)n));
	}
	add_io(o, &row->io, histograms);
	json_object_set_new(o, "disconnects", json_integer((json_int_t)ended));
	json_object_set_new(o, "disconnects_by_reason", ends);
	json_object_set_new(o, "connections", json_integer((json_int_t)row->qpairs));
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		json_object_set_new(o, events[i].name,
				    json_integer((json_int_t)row->io.events[events[i].event]));
}

/* ---- the target ---- */

static json_t *reactor_json(const struct rdt_stats_reactor *r, const struct rdt_stats_row *row,
			    bool histograms)
{
	json_t *o = json_pack(
		"{s:i, s:b, s:f, s:f, s:f, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "reactor",
		(int)row->index, "answered", r->answered, "busy_seconds", in_seconds(r->busy_ns),
		"spin_seconds", in_seconds(r->spun_ns), "longest_turn_seconds",
		in_seconds(r->longest_ns), "admin_queues", (int)r->admin_queues, "io_queues",
		(int)r->io_queues, "waiting_for_buffers", (int)r->waiting, "waiting_for_limits",
		(int)r->limited, "buffer_bytes", (json_int_t)r->buffer_bytes, "reserve_bytes",
		(json_int_t)r->reserve_bytes, "scratch_bytes", (json_int_t)r->scratch_bytes,
		"reads", (json_int_t)r->reads, "writes", (json_int_t)r->writes);

	if (o)
		add_row(o, row, histograms);
	return o;
}

static json_t *subsystem_json(const struct rdt_stats_subsys *ss)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "nqn", ss->nqn, "reads",
			 (json_int_t)ss->reads, "writes", (json_int_t)ss->writes, "read_bytes",
			 (json_int_t)ss->read_bytes, "written_bytes", (json_int_t)ss->written_bytes,
			 "media_errors", (json_int_t)ss->media_errors, "authentications",
			 (json_int_t)ss->auth_successes, "failed_authentications",
			 (json_int_t)ss->auth_failures);
}

static json_t *listener_row_json(const struct rdt_stats_listener *l,
				 const struct rdt_stats_row *row, bool histograms)
{
	json_t *o = json_pack("{s:s, s:b}", "address", l->address, "listening", l->listening);

	if (o)
		add_row(o, row, histograms);
	return o;
}

/* *@total: the sum over all reactors, and so over all hosts; NULL without memory. */
static json_t *reactors_json(const struct rdt_stats *stats, bool histograms, json_t **total)
{
	json_t *list = json_array();
	struct rdt_stats_row *rows, sum = {0};
	unsigned int count;

	*total = NULL;
	if (rdt_stats_rows(stats, RDT_STATS_BY_REACTOR, &rows, &count))
		return list;
	for (unsigned int i = 0; i < count; i++) {
		json_array_append_new(list,
				      reactor_json(&stats->reactors[i], &rows[i], histograms));
		sum.qpairs += rows[i].qpairs;
		rdt_stats_add(&sum.io, &rows[i].io);
	}
	free(rows);
	*total = json_object();
	add_row(*total, &sum, histograms);
	return list;
}

static json_t *listeners_json(const struct rdt_stats *stats, bool histograms)
{
	json_t *list = json_array();
	struct rdt_stats_row *rows;
	unsigned int count;

	if (rdt_stats_rows(stats, RDT_STATS_BY_LISTENER, &rows, &count))
		return list;
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(
			list, listener_row_json(&stats->listeners[i], &rows[i], histograms));
	free(rows);
	return list;
}

/* ---- lists in parts ---- */

static bool in_part(const struct rdt_stats_filter *f, unsigned int number)
{
	return number >= f->offset && number - f->offset < f->limit;
}

static json_t *ns_row_json(const struct rdt_stats_ns *ns, bool histograms)
{
	const struct rdt_ns_shown *shown = &ns->shown;
	json_t *o = json_pack("{s:s, s:I, s:I, s:b, s:s?}", "nqn", shown->nqn, "nsid",
			      (json_int_t)shown->nsid, "size",
			      (json_int_t)(shown->blocks << shown->lbads), "live",
			      shown->state == RDT_NS_LIVE, "fault", shown->fault.kind);

	if (o)
		add_io(o, &ns->io, histograms);
	return o;
}

static void add_namespaces(json_t *o, const struct rdt_stats *stats,
			   const struct rdt_stats_filter *f)
{
	struct rdt_stats_ns **sorted = calloc(stats->ns_count + 1, sizeof(struct rdt_stats_ns *));
	json_t *list = json_array();
	unsigned int matching = 0;

	for (unsigned int i = 0; i < stats->ns_count && sorted; i++) {
		struct rdt_stats_ns *ns = stats->ns[i];

		if ((!f->nqn || strcmp(f->nqn, ns->shown.nqn) == 0) &&
		    (!f->nsid || f->nsid == ns->shown.nsid))
			sorted[matching++] = ns;
	}
	if (sorted)
		qsort(sorted, matching, sizeof(struct rdt_stats_ns *), rdt_stats_compare_ns);
	for (unsigned int i = 0; i < matching; i++)
		if (in_part(f, i))
			json_array_append_new(list, ns_row_json(sorted[i], f->histograms));
	free(sorted);
	json_object_set_new(o, "namespaces", list);
	json_object_set_new(o, "namespaces_matching", json_integer((json_int_t)matching));
}

static void add_hosts(json_t *o, const struct rdt_stats *stats, const struct rdt_stats_filter *f)
{
	json_t *list = json_array();
	struct rdt_stats_row *rows;
	unsigned int count, matching = 0;

	if (rdt_stats_rows(stats, RDT_STATS_BY_HOST, &rows, &count))
		count = 0;
	for (unsigned int i = 0; i < count; i++) {
		json_t *host;

		if (f->hostnqn && strcmp(f->hostnqn, rows[i].name) != 0)
			continue;
		if (!in_part(f, matching++))
			continue;
		host = json_pack("{s:o, s:o}", "hostnqn", rdt_show_text(rows[i].name), "host",
				 rdt_show_name(rows[i].name));
		if (host)
			add_row(host, &rows[i], f->histograms);
		json_array_append_new(list, host);
	}
	free(rows);
	json_object_set_new(o, "hosts", list);
	json_object_set_new(o, "hosts_matching", json_integer((json_int_t)matching));
}

json_t *rdt_stats_json(const struct rdt_stats *stats, const struct rdt_stats_filter *f)
{
	json_t *total, *reactors = reactors_json(stats, f->histograms, &total);
	json_t *subsystems = json_array(), *o;

	for (unsigned int i = 0; i < stats->subsystems; i++)
		json_array_append_new(subsystems, subsystem_json(&stats->subsys[i]));
	o = json_pack("{s:f, s:I, s:o, s:o, s:{s:I, s:I}, s:o, s:o}", "uptime_seconds",
		      in_seconds(stats->uptime_ns), "started", (json_int_t)stats->started,
		      "reactors", reactors, "subsystems", subsystems, "discovery",
		      "authentications", (json_int_t)stats->disc_auth_successes,
		      "failed_authentications", (json_int_t)stats->disc_auth_failures, "listeners",
		      listeners_json(stats, f->histograms), "total", total ? total : json_object());
	if (o && f->namespaces)
		add_namespaces(o, stats, f);
	if (o && f->hosts)
		add_hosts(o, stats, f);
	return o;
}
