/* SPDX-License-Identifier: BSD-3-Clause */
#include "figures.h"

#include <stdio.h>
#include <string.h>

#include "target/config/config.h"

#define TARGET   RDT_OF_TARGET
#define PROCESS  RDT_OF_PROCESS
#define REACTOR  RDT_OF_REACTOR
#define LISTENER RDT_OF_LISTENER
#define SUBSYS   RDT_OF_SUBSYSTEM
#define NS       RDT_OF_NAMESPACE
#define HOST     RDT_OF_HOST
#define TOTAL    RDT_OF_TOTAL

/* ---- the rows ---- */

/* The last members of a row. A field of the object's own structure: */
#define OWN(object, type, field, kind, unit) \
	kind, unit, object, object, 0, RDT_FIGURE_OWN, offsetof(struct type, field), NULL
#define TEXT(object, type, field, texts)                                                         \
	RDT_GAUGE, RDT_NUMBER, object, object, 0, RDT_FIGURE_TEXT, offsetof(struct type, field), \
		texts
/* Events of connections. JSON has them for hosts as well; metrics do not, to limit the series. */
#define EVENTS(form, event)                                                                   \
	RDT_COUNTER, RDT_NUMBER, REACTOR | LISTENER | HOST | TOTAL, LISTENER, LISTENER, form, \
		offsetof(struct rdt_stats_io, events[event]), NULL
/* Counters of I/O commands. */
#define COMMANDS(series, form, type, field, kind, unit)                       \
	kind, unit, REACTOR | LISTENER | NS | HOST | TOTAL, series, NS, form, \
		offsetof(struct type, field), NULL
#define EACH                  (REACTOR | LISTENER | NS | HOST)
#define IO(field, kind, unit) COMMANDS(EACH, RDT_FIGURE_IO, rdt_stats_io, field, kind, unit)
#define NS_STATE(state, value)                                                          \
	{                                                                               \
		"namespace_states." state, "namespace_states", "state=\"" state "\"",   \
			"Namespaces by state.",                                         \
			OWN(TARGET, rdt_stats, ns_states[value], RDT_GAUGE, RDT_NUMBER) \
	}

#define AUTHENTICATIONS(object, type)                                              \
	{"authentications", NULL, "result=\"ok\"",                                 \
	 "Queues that DH-HMAC-CHAP authenticated or refused.",                     \
	 OWN(object, type, auth.successes, RDT_COUNTER, RDT_NUMBER)},              \
	{                                                                          \
		"failed_authentications", "authentications", "result=\"refused\"", \
			"Queues that DH-HMAC-CHAP refused.",                       \
			OWN(object, type, auth.failures, RDT_COUNTER, RDT_NUMBER)  \
	}

static const char *const target_states[] = {"serving", "draining", "drained", NULL};

const struct rdt_figure rdt_figures[] = {
	{"version", "build_info", "version", "The version of rdtarget.",
	 TEXT(TARGET, rdt_stats, version, NULL)},
	{"start_time_seconds", NULL, NULL, "When rdtarget started, in Unix time.",
	 OWN(TARGET, rdt_stats, started, RDT_GAUGE, RDT_NUMBER)},
	{"state", NULL, "state", "1 for the current state of rdtarget, 0 for the others.",
	 TEXT(TARGET, rdt_stats, state, target_states)},
	{"config_last_reload_successful", NULL, NULL,
	 "0 if the last reload of the configuration file failed, in whole or in part; see rdctl "
	 "status.",
	 OWN(TARGET, rdt_stats, reload_ok, RDT_GAUGE, RDT_BOOL)},
	{"config_last_reload_success_timestamp_seconds", NULL, NULL,
	 "When the configuration file was last applied without a problem, in Unix time.",
	 OWN(TARGET, rdt_stats, reload_good, RDT_GAUGE, RDT_NUMBER)},
	{"control_up", NULL, NULL, "1 if the control socket accepts clients.",
	 OWN(TARGET, rdt_stats, control_up, RDT_GAUGE, RDT_BOOL)},
	{"upgrade_pause_seconds", NULL, NULL,
	 "Time for which connections were paused when this process took them over.",
	 OWN(TARGET, rdt_stats, upgrade_pause_ns, RDT_GAUGE, RDT_SECONDS)},
	{"subsystems", NULL, NULL, "Subsystems served.",
	 OWN(TARGET, rdt_stats, subsystems, RDT_GAUGE, RDT_NUMBER)},
	{"namespaces", NULL, NULL, "Namespaces served.",
	 OWN(TARGET, rdt_stats, ns_count, RDT_GAUGE, RDT_NUMBER)},
	NS_STATE("opening", RDT_NS_OPENING),
	NS_STATE("failed", RDT_NS_FAILED),
	NS_STATE("joining", RDT_NS_JOINING),
	NS_STATE("live", RDT_NS_LIVE),
	NS_STATE("leaving", RDT_NS_LEAVING),
	{"controllers", NULL, NULL, "Controllers of connected hosts, without discovery.",
	 OWN(TARGET, rdt_stats, controllers, RDT_GAUGE, RDT_NUMBER)},
	{"hosts", NULL, NULL, "Connected hosts.",
	 OWN(TARGET, rdt_stats, hosts, RDT_GAUGE, RDT_NUMBER)},
	AUTHENTICATIONS(TARGET, rdt_stats),

	{"tls_handshakes", NULL, "result=\"ok\"", "TLS handshakes that succeeded or were refused.",
	 OWN(TARGET, rdt_stats, tls_handshakes, RDT_COUNTER, RDT_NUMBER)},
	{"failed_tls_handshakes", "tls_handshakes", "result=\"refused\"",
	 "TLS handshakes that were refused.",
	 OWN(TARGET, rdt_stats, tls_refusals, RDT_COUNTER, RDT_NUMBER)},
	{"cpu_seconds", NULL, NULL, "Total user and system CPU time spent in seconds.",
	 OWN(PROCESS, rdt_stats_process, cpu_ns, RDT_COUNTER, RDT_SECONDS)},
	{"virtual_memory_bytes", NULL, NULL, "Virtual memory size in bytes.",
	 OWN(PROCESS, rdt_stats_process, virtual_bytes, RDT_GAUGE, RDT_BYTES)},
	{"resident_memory_bytes", NULL, NULL, "Resident memory size in bytes.",
	 OWN(PROCESS, rdt_stats_process, resident_bytes, RDT_GAUGE, RDT_BYTES)},
	{"threads", NULL, NULL, "Number of OS threads in the process.",
	 OWN(PROCESS, rdt_stats_process, threads, RDT_GAUGE, RDT_NUMBER)},
	{"start_time_seconds", NULL, NULL, "Start time of the process since unix epoch in seconds.",
	 OWN(PROCESS, rdt_stats_process, started_ns, RDT_GAUGE, RDT_SECONDS)},
	{"open_fds", NULL, NULL, "Number of open file descriptors.",
	 OWN(PROCESS, rdt_stats_process, open_fds, RDT_GAUGE, RDT_NUMBER)},
	{"max_fds", NULL, NULL, "Maximum number of open file descriptors.",
	 OWN(PROCESS, rdt_stats_process, max_fds, RDT_GAUGE, RDT_NUMBER)},

	{"answered", "up", NULL, "1 if the reactor answered within half a second.",
	 OWN(REACTOR, rdt_stats_reactor, answered, RDT_GAUGE, RDT_BOOL)},
	{"busy_seconds", NULL, NULL, "Time in which the reactor worked.",
	 OWN(REACTOR, rdt_stats_reactor, busy_ns, RDT_COUNTER, RDT_SECONDS)},
	{"spin_seconds", NULL, NULL, "Time in which the reactor polled and found nothing.",
	 OWN(REACTOR, rdt_stats_reactor, spun_ns, RDT_COUNTER, RDT_SECONDS)},
	{"longest_turn_seconds", NULL, NULL,
	 "Longest iteration of the reactor's event loop in the last one to two minutes.",
	 OWN(REACTOR, rdt_stats_reactor, longest_ns, RDT_GAUGE, RDT_SECONDS)},
	{"admin_queues", "queues", "type=\"admin\"", "Queues on the reactor.",
	 OWN(REACTOR, rdt_stats_reactor, found.admin_queues, RDT_GAUGE, RDT_NUMBER)},
	{"io_queues", "queues", "type=\"io\"", "I/O queues on the reactor.",
	 OWN(REACTOR, rdt_stats_reactor, found.io_queues, RDT_GAUGE, RDT_NUMBER)},
	{"waiting_for_buffers", "waiting", "reason=\"buffer\"",
	 "Commands that wait for a data buffer or a QoS limit.",
	 OWN(REACTOR, rdt_stats_reactor, found.waiting, RDT_GAUGE, RDT_NUMBER)},
	{"waiting_for_limits", "waiting", "reason=\"limit\"", "Commands that wait for a QoS limit.",
	 OWN(REACTOR, rdt_stats_reactor, found.limited, RDT_GAUGE, RDT_NUMBER)},
	{"buffer_bytes", NULL, "pool=\"io\"", "Data buffers in use.",
	 OWN(REACTOR, rdt_stats_reactor, found.buffer_bytes, RDT_GAUGE, RDT_BYTES)},
	{"reserve_bytes", "buffer_bytes", "pool=\"admin\"", "Data buffers of admin queues in use.",
	 OWN(REACTOR, rdt_stats_reactor, found.reserve_bytes, RDT_GAUGE, RDT_BYTES)},
	{"scratch_bytes", "buffer_bytes", "pool=\"scratch\"", "Scratch buffers in use.",
	 OWN(REACTOR, rdt_stats_reactor, found.scratch_bytes, RDT_GAUGE, RDT_BYTES)},
	{"reads", NULL, NULL, "Reads that the reactor submitted to storage.",
	 OWN(REACTOR, rdt_stats_reactor, reads, RDT_COUNTER, RDT_NUMBER)},
	{"writes", NULL, NULL, "Writes that the reactor submitted to storage.",
	 OWN(REACTOR, rdt_stats_reactor, writes, RDT_COUNTER, RDT_NUMBER)},

	{"listening", "up", NULL, "1 if the listener accepts connections.",
	 OWN(LISTENER, rdt_stats_listener, listening, RDT_GAUGE, RDT_BOOL)},
	{"ana", "ana_state", NULL,
	 "1 for the ANA state of the group as the listener reports it, 0 for the others.",
	 RDT_GAUGE, RDT_NUMBER, LISTENER, LISTENER, 0, RDT_FIGURE_ANA, 0, NULL},

	{"reads", NULL, NULL, "Read commands of the subsystem, as its SMART log counts them.",
	 OWN(SUBSYS, rdt_stats_subsys, reads, RDT_COUNTER, RDT_NUMBER)},
	{"writes", NULL, NULL, "Write commands of the subsystem, as its SMART log counts them.",
	 OWN(SUBSYS, rdt_stats_subsys, writes, RDT_COUNTER, RDT_NUMBER)},
	{"read_bytes", NULL, NULL, "Data read from the subsystem.",
	 OWN(SUBSYS, rdt_stats_subsys, read_bytes, RDT_COUNTER, RDT_BYTES)},
	{"written_bytes", NULL, NULL, "Data written to the subsystem.",
	 OWN(SUBSYS, rdt_stats_subsys, written_bytes, RDT_COUNTER, RDT_BYTES)},
	{"media_errors", NULL, NULL, "Media and data integrity errors of the subsystem.",
	 OWN(SUBSYS, rdt_stats_subsys, media_errors, RDT_COUNTER, RDT_NUMBER)},
	AUTHENTICATIONS(SUBSYS, rdt_stats_subsys),

	{"size", "size_bytes", NULL, "Size of the namespace.",
	 OWN(NS, rdt_stats_ns, size, RDT_GAUGE, RDT_BYTES)},
	{"live", NULL, NULL, "1 if hosts can use the namespace.",
	 OWN(NS, rdt_stats_ns, live, RDT_GAUGE, RDT_BOOL)},
	{"storage_failed", "failed", NULL,
	 "1 while its storage cannot be opened, so hosts do not see it; see rdctl ns.",
	 OWN(NS, rdt_stats_ns, storage_failed, RDT_GAUGE, RDT_BOOL)},
	{"fault", NULL, "kind",
	 "1 while its storage may have lost data, its path names another file than the open one, "
	 "or its cluster is unreachable; see rdctl ns.",
	 TEXT(NS, rdt_stats_ns, shown.fault.kind, NULL)},
	{"stalled_seconds", NULL, NULL,
	 "Time for which the storage of the namespace has not answered; 0 if it answers.",
	 OWN(NS, rdt_stats_ns, stalled_ns, RDT_GAUGE, RDT_SECONDS)},
	{"ana_group", NULL, NULL, "The ANA group of the namespace.",
	 OWN(NS, rdt_stats_ns, ana_group, RDT_GAUGE, RDT_NUMBER)},

	{"count", "io_completed", NULL, "I/O commands completed, including failed ones.",
	 COMMANDS(EACH, RDT_FIGURE_OP, rdt_stats_op, count, RDT_COUNTER, RDT_NUMBER)},
	{"bytes", "io_bytes", NULL, "Data read and written.",
	 COMMANDS(EACH, RDT_FIGURE_OP, rdt_stats_op, bytes, RDT_COUNTER, RDT_BYTES)},
	{"seconds", "io_duration_seconds", NULL,
	 "Time from the arrival of a command until its completion was sent.",
	 COMMANDS(NS, RDT_FIGURE_OP, rdt_stats_op, ns, RDT_HISTOGRAM, RDT_SECONDS)},
	{"failed", "io_errors", NULL, "Failed I/O commands by status code type and status code.",
	 COMMANDS(EACH, RDT_FIGURE_ERRORS, rdt_stats_io, errors, RDT_COUNTER, RDT_NUMBER)},
	{"in_flight", "io_inflight", NULL, "I/O commands in flight.",
	 IO(in_flight, RDT_GAUGE, RDT_NUMBER)},
	{"oldest_seconds", "io_oldest_seconds", NULL, "Age of the oldest I/O command in flight.",
	 IO(oldest_ns, RDT_GAUGE, RDT_SECONDS)},
	{"buffer_waits", "io_buffer_waits", NULL, "Commands that waited for a data buffer.",
	 IO(events[RDT_COUNT_BUFFER_WAITS], RDT_COUNTER, RDT_NUMBER)},
	{"limit_waits", "io_qos_waits", NULL, "Commands that waited for a QoS limit.",
	 IO(events[RDT_COUNT_QOS_WAITS], RDT_COUNTER, RDT_NUMBER)},
	{"limit_wait_seconds", "io_qos_wait_seconds", NULL,
	 "Time that commands waited for a QoS limit.",
	 IO(events[RDT_COUNT_QOS_NS], RDT_COUNTER, RDT_SECONDS)},

	{"connections", NULL, NULL, "Connections: one for each queue.", RDT_GAUGE, RDT_NUMBER,
	 REACTOR | LISTENER | HOST | TOTAL, LISTENER | HOST, LISTENER, RDT_FIGURE_IO,
	 offsetof(struct rdt_stats_io, qpairs), NULL},
	{"connects", NULL, "result=\"ok\"", "Connect commands: queues connected or refused.",
	 EVENTS(RDT_FIGURE_IO, RDT_COUNT_CONNECTS)},
	{"refused", "connects", "result=\"refused\"", "Connect commands that were refused.",
	 EVENTS(RDT_FIGURE_IO, RDT_COUNT_REFUSALS)},
	{"disconnects", NULL, NULL, "Connections that ended, by reason.",
	 EVENTS(RDT_FIGURE_ENDS, RDT_COUNT_ENDS)},
	{"keep_alive_timeouts", NULL, NULL,
	 "Associations that ended because the Keep Alive Timer expired.",
	 EVENTS(RDT_FIGURE_IO, RDT_COUNT_KEEP_ALIVES)},
	{"aborts", NULL, NULL, "Abort commands.", EVENTS(RDT_FIGURE_IO, RDT_COUNT_ABORTS)},
	{"resets", NULL, NULL, "Controller resets by hosts.",
	 EVENTS(RDT_FIGURE_IO, RDT_COUNT_RESETS)},
};

const unsigned int rdt_figures_count = sizeof(rdt_figures) / sizeof(rdt_figures[0]);

/* Indexed by the bit number in enum rdt_figure_of. */
static const char *const objects[RDT_OBJECTS] = {"target",    "process",   "reactor", "listener",
						 "subsystem", "namespace", "host",    "total"};

void rdt_figure_metric(const struct rdt_figure *f, enum rdt_figure_of of, char *text, size_t size)
{
	bool bare = of == PROCESS, plain = of == TARGET || (f->plain & of);

	snprintf(text, size, "%s%s%s%s", bare ? "" : "rdtarget_",
		 plain ? "" : objects[__builtin_ctz(of)], plain ? "" : "_",
		 f->metric ? f->metric : f->name);
}

/* ---- values ---- */

uint64_t rdt_figure_value(const struct rdt_figure *f, const struct rdt_figures *of, unsigned int op)
{
	const char *from = f->form == RDT_FIGURE_OP   ? (const char *)&of->io->op[op]
			   : f->form == RDT_FIGURE_IO ? (const char *)of->io
						      : of->own;

	return *(const uint64_t *)(const void *)(from + f->at);
}

const char *rdt_figure_text(const struct rdt_figure *f, const struct rdt_figures *of)
{
	return *(const char *const *)(const void *)((const char *)of->own + f->at);
}

/* ---- JSON ---- */

static double figure_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Returns the object @name in @o, which is created if it is missing. */
static json_t *member(json_t *o, const char *name)
{
	json_t *found = json_object_get(o, name);

	if (found)
		return found;
	json_object_set_new(o, name, json_object());
	return json_object_get(o, name);
}

static void json_put_number(json_t *o, const struct rdt_figure *f, uint64_t value)
{
	const char *dot = strchr(f->name, '.');
	char part[32];

	if (value == RDT_FIGURE_NONE)
		return;
	if (dot) {
		snprintf(part, sizeof(part), "%.*s", (int)(dot - f->name), f->name);
		o = member(o, part);
	}
	json_object_set_new(o, dot ? dot + 1 : f->name,
			    f->unit == RDT_SECONDS ? json_real(figure_seconds(value))
			    : f->unit == RDT_BOOL  ? json_boolean(value)
						   : json_integer((json_int_t)value));
}

/* @histograms: add pairs of upper bound in seconds and count for each bucket that is not empty. */
static void json_put_latency(json_t *o, const struct rdt_stats_op *op, bool histograms)
{
	json_t *list;

	json_object_set_new(o, "mean_seconds",
			    json_real(op->count ? figure_seconds(op->ns) / (double)op->count : 0));
	for (unsigned int i = 0; i < RDT_PERCENTILES; i++) {
		char name[24];

		snprintf(name, sizeof(name), "%s_seconds", rdt_percentiles[i].name);
		json_object_set_new(o, name,
				    json_real(figure_seconds(
					    rdt_stats_percentile(op, rdt_percentiles[i].percent))));
	}
	if (!histograms)
		return;
	list = json_array();
	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		if (op->bucket[i])
			json_array_append_new(list,
					      json_pack("[f, I]", figure_seconds(rdt_lat_end(i)),
							(json_int_t)op->bucket[i]));
	json_object_set_new(o, "histogram", list);
}

static void json_put_ops(json_t *o, const struct rdt_figure *f, const struct rdt_figures *of,
			 bool histograms)
{
	for (unsigned int op = 0; op < RDT_IO_OPS; op++) {
		json_t *part = member(o, rdt_stats_op_name(op));

		json_put_number(part, f, rdt_figure_value(f, of, op));
		if (f->kind == RDT_HISTOGRAM)
			json_put_latency(part, &of->io->op[op], histograms);
	}
}

static void json_put_errors(json_t *o, const struct rdt_figure *f, const struct rdt_stats_io *io)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < RDT_ERROR_KINDS && io->status[i]; i++)
		json_array_append_new(list,
				      json_pack("{s:i, s:i, s:I}", "sct", (int)(io->status[i] >> 8),
						"sc", (int)(io->status[i] & 0xff), "count",
						(json_int_t)io->errors[i]));
	json_put_number(o, f, rdt_stats_failed(io));
	json_object_set_new(o, "errors", list);
}

static void json_put_ends(json_t *o, const struct rdt_figure *f, const struct rdt_stats_io *io)
{
	json_t *ends = json_object();
	uint64_t sum = 0;

	for (unsigned int end = 0; end < RDT_ENDS; end++) {
		uint64_t n = io->events[RDT_COUNT_ENDS + end];

		sum += n;
		json_object_set_new(ends, rdt_stats_end_name(end), json_integer((json_int_t)n));
	}
	json_put_number(o, f, sum);
	json_object_set_new(o, "disconnects_by_reason", ends);
}

/* A group that is not listed is optimized. */
static void json_put_ana(json_t *o, const struct rdt_figure *f, const struct rdt_stats_listener *l)
{
	json_t *ana = json_object();
	char group[16];

	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++) {
		if (l->ana[g] == RDT_ANA_OPTIMIZED)
			continue;
		snprintf(group, sizeof(group), "%u", g);
		json_object_set_new(ana, group, json_string(rdt_config_ana_name(l->ana[g])));
	}
	json_object_set_new(o, f->name, ana);
}

void rdt_figures_json(json_t *o, const struct rdt_figures *of, bool histograms)
{
	for (const struct rdt_figure *f = rdt_figures; f < rdt_figures + rdt_figures_count; f++) {
		const char *text;

		if (!(f->in & of->of))
			continue;
		switch (f->form) {
		case RDT_FIGURE_TEXT:
			text = rdt_figure_text(f, of);
			json_object_set_new(o, f->name, text ? json_string(text) : json_null());
			break;
		case RDT_FIGURE_OP:
			json_put_ops(o, f, of, histograms);
			break;
		case RDT_FIGURE_ERRORS:
			json_put_errors(o, f, of->io);
			break;
		case RDT_FIGURE_ENDS:
			json_put_ends(o, f, of->io);
			break;
		case RDT_FIGURE_ANA:
			json_put_ana(o, f, of->own);
			break;
		default:
			json_put_number(o, f, rdt_figure_value(f, of, 0));
		}
	}
}
