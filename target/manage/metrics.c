/* SPDX-License-Identifier: BSD-3-Clause */
/* Metrics: a table of families, each with a function that writes its samples. */
#include "metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/loop.h"
#include "target/config/config.h"
#include "target/nvmf/ns.h"
#include "process_metrics.h"
#include "show.h"

/* Buckets of a histogram end at powers of two, from 16 us to 8.6 s. */
#define LE_FIRST 14u
#define LE_LAST  33u
/* Each of 223 bytes of an NQN may take five, and a namespace has a number, too. */
#define LABELS 1280

struct metrics_rows {
	struct rdt_stats_row *rows;
	unsigned int count;
	char (*labels)[LABELS];
};

struct metrics_out {
	FILE *f;
	const struct rdt_stats *stats;
	enum rdt_metrics_format format;
	const char *name; /* of the family */
	char (*ns_labels)[LABELS];
	struct metrics_rows hosts;
	struct metrics_rows listeners;
	struct metrics_rows reactors;
};

enum metrics_kind { KIND_GAUGE, KIND_COUNTER, KIND_HISTOGRAM };

struct metrics_family {
	const char *name; /* without rdtarget_ and _total */
	enum metrics_kind kind;
	const char *help;
	void (*write)(const struct metrics_out *o);
};

const char *rdt_metrics_type(enum rdt_metrics_format format)
{
	return format == RDT_METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- values ---- */

/*
 * @value of a host may contain anything. What a log would mask, and a backslash, become "\x" and
 * two digits: different names have different labels.
 */
static void put_label(char *labels, const char *name, const char *value)
{
	char *to = labels + strlen(labels);
	size_t left = strlen(value), n;

	to += sprintf(to, "%s%s=\"", to > labels ? "," : "", name);
	for (; left && to < labels + LABELS - 16; value += n, left -= n) {
		n = rdt_show_plain(value, left);
		if (!n) {
			n = 1;
			to += sprintf(to, "\\\\x%02x", (unsigned char)*value);
			continue;
		}
		if (*value == '"')
			*to++ = '\\';
		memcpy(to, value, n);
		to += n;
	}
	strcpy(to, "\"");
}

static const char *suffix(const struct metrics_out *o, enum metrics_kind kind)
{
	return kind == KIND_COUNTER ? "_total" : "";
}

static void put_sample(const struct metrics_out *o, enum metrics_kind kind, const char *labels,
		       uint64_t value)
{
	fprintf(o->f,
		labels[0] ? "rdtarget_%s%s{%s} %" PRIu64 "\n" : "rdtarget_%s%s%s %" PRIu64 "\n",
		o->name, suffix(o, kind), labels, value);
}

static void put_time(const struct metrics_out *o, enum metrics_kind kind, const char *labels,
		     uint64_t ns)
{
	fprintf(o->f, "rdtarget_%s%s{%s} %" PRIu64 ".%09" PRIu64 "\n", o->name, suffix(o, kind),
		labels, ns / RD_NSEC_PER_SEC, ns % RD_NSEC_PER_SEC);
}

static const char *with_op(char *buf, const char *labels, unsigned int op)
{
	snprintf(buf, LABELS + 32, "%s,op=\"%s\"", labels, rdt_stats_op_name(op));
	return buf;
}

static void put_commands(const struct metrics_out *o, const char *labels,
			 const struct rdt_stats_io *io)
{
	char buf[LABELS + 32];

	for (unsigned int op = 0; op < RDT_IO_OPS; op++)
		put_sample(o, KIND_COUNTER, with_op(buf, labels, op), io->op[op].count);
}

static void put_bytes(const struct metrics_out *o, const char *labels,
		      const struct rdt_stats_io *io)
{
	char buf[LABELS + 32];

	put_sample(o, KIND_COUNTER, with_op(buf, labels, RDT_IO_READ), io->op[RDT_IO_READ].bytes);
	put_sample(o, KIND_COUNTER, with_op(buf, labels, RDT_IO_WRITE), io->op[RDT_IO_WRITE].bytes);
}

static void put_errors(const struct metrics_out *o, const char *labels,
		       const struct rdt_stats_io *io)
{
	char buf[LABELS + 64];

	for (unsigned int i = 0; i < RDT_ERROR_KINDS && io->status[i]; i++) {
		snprintf(buf, sizeof(buf), "%s,sct=\"%u\",sc=\"0x%02x\"", labels,
			 (unsigned int)io->status[i] >> 8, (unsigned int)io->status[i] & 0xff);
		put_sample(o, KIND_COUNTER, buf, io->errors[i]);
	}
	snprintf(buf, sizeof(buf), "%s,sct=\"other\",sc=\"other\"", labels);
	put_sample(o, KIND_COUNTER, buf, io->other_errors);
}

/* Nothing for a kind of command that was not used: most namespaces have two at most. */
static void put_histogram(const struct metrics_out *o, const char *labels, unsigned int op,
			  const struct rdt_stats_op *stats)
{
	const char *name = rdt_stats_op_name(op);
	uint64_t sum = 0;
	unsigned int bucket = 0;

	if (!stats->count)
		return;
	for (unsigned int power = LE_FIRST; power <= LE_LAST; power++) {
		uint64_t end = UINT64_C(1) << power;

		for (; bucket < RDT_LAT_BUCKETS && rdt_lat_end(bucket) <= end; bucket++)
			sum += stats->bucket[bucket];
		fprintf(o->f,
			"rdtarget_%s_bucket{%s,op=\"%s\",le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64
			"\n",
			o->name, labels, name, end / RD_NSEC_PER_SEC, end % RD_NSEC_PER_SEC, sum);
	}
	fprintf(o->f,
		"rdtarget_%s_bucket{%s,op=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
		"rdtarget_%s_sum{%s,op=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n"
		"rdtarget_%s_count{%s,op=\"%s\"} %" PRIu64 "\n",
		o->name, labels, name, stats->count, o->name, labels, name,
		stats->ns / RD_NSEC_PER_SEC, stats->ns % RD_NSEC_PER_SEC, o->name, labels, name,
		stats->count);
}

/* ---- the target ---- */

static void write_build(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "version=\"" RDT_VERSION "\"", 1);
}

static void write_started(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", (uint64_t)o->stats->started);
}

static void write_state(const struct metrics_out *o)
{
	static const char *const states[] = {"serving", "draining", "drained"};
	char labels[64];

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		snprintf(labels, sizeof(labels), "state=\"%s\"", states[i]);
		put_sample(o, KIND_GAUGE, labels, strcmp(o->stats->state, states[i]) == 0);
	}
}

static void write_reload_ok(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", o->stats->reload_ok);
}

static void write_control_up(const struct metrics_out *o)
{
	if (o->stats->control)
		put_sample(o, KIND_GAUGE, "", o->stats->control_up);
}

static void write_reload_good(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", (uint64_t)o->stats->reload_good);
}

static void write_subsystems(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", o->stats->subsystems);
}

static void write_authentications(const struct metrics_out *o)
{
	uint64_t good = o->stats->disc_auth_successes, bad = o->stats->disc_auth_failures;

	for (unsigned int i = 0; i < o->stats->subsystems; i++) {
		good += o->stats->subsys[i].auth_successes;
		bad += o->stats->subsys[i].auth_failures;
	}
	put_sample(o, KIND_COUNTER, "result=\"ok\"", good);
	put_sample(o, KIND_COUNTER, "result=\"refused\"", bad);
}

static void write_namespaces(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", o->stats->ns_count);
}

static void write_controllers(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", o->stats->controllers);
}

static void write_hosts(const struct metrics_out *o)
{
	put_sample(o, KIND_GAUGE, "", o->hosts.count);
}

/* ---- reactors ---- */

#define EACH_REACTOR(o, i) for (unsigned int i = 0; i < (o)->reactors.count; i++)

static void write_reactor_up(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	put_sample(o, KIND_GAUGE, o->reactors.labels[i], o->stats->reactors[i].answered);
}

static void write_reactor_busy(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	put_time(o, KIND_COUNTER, o->reactors.labels[i], o->stats->reactors[i].busy_ns);
}

static void write_reactor_spin(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	put_time(o, KIND_COUNTER, o->reactors.labels[i], o->stats->reactors[i].spun_ns);
}

static void write_reactor_longest(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	put_time(o, KIND_GAUGE, o->reactors.labels[i], o->stats->reactors[i].longest_ns);
}

static void put_part(const struct metrics_out *o, unsigned int reactor, const char *label,
		     const char *value, uint64_t number)
{
	char labels[LABELS + 64];

	snprintf(labels, sizeof(labels), "%s,%s=\"%s\"", o->reactors.labels[reactor], label, value);
	put_sample(o, KIND_GAUGE, labels, number);
}

static void write_reactor_queues(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	{
		put_part(o, i, "type", "admin", o->stats->reactors[i].admin_queues);
		put_part(o, i, "type", "io", o->stats->reactors[i].io_queues);
	}
}

static void write_reactor_buffers(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	{
		put_part(o, i, "pool", "io", o->stats->reactors[i].buffer_bytes);
		put_part(o, i, "pool", "admin", o->stats->reactors[i].reserve_bytes);
		put_part(o, i, "pool", "scratch", o->stats->reactors[i].scratch_bytes);
	}
}

static void write_reactor_waiting(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	{
		put_part(o, i, "reason", "buffer", o->stats->reactors[i].waiting);
		put_part(o, i, "reason", "limit", o->stats->reactors[i].limited);
	}
}

static void write_reactor_commands(const struct metrics_out *o)
{
	EACH_REACTOR(o, i)
	put_commands(o, o->reactors.labels[i], &o->reactors.rows[i].io);
}

/* ---- listeners ---- */

#define EACH_LISTENER(o, i) for (unsigned int i = 0; i < (o)->listeners.count; i++)

static void write_listener_up(const struct metrics_out *o)
{
	EACH_LISTENER(o, i)
	put_sample(o, KIND_GAUGE, o->listeners.labels[i], o->stats->listeners[i].listening);
}

static void write_connections(const struct metrics_out *o)
{
	EACH_LISTENER(o, i)
	put_sample(o, KIND_GAUGE, o->listeners.labels[i], o->listeners.rows[i].qpairs);
}

static void put_listener_events(const struct metrics_out *o, enum rdt_count_of event)
{
	EACH_LISTENER(o, i)
	put_sample(o, KIND_COUNTER, o->listeners.labels[i], o->listeners.rows[i].io.events[event]);
}

static void write_connects(const struct metrics_out *o)
{
	char labels[LABELS + 32];

	EACH_LISTENER(o, i)
	{
		const uint64_t *events = o->listeners.rows[i].io.events;

		snprintf(labels, sizeof(labels), "%s,result=\"ok\"", o->listeners.labels[i]);
		put_sample(o, KIND_COUNTER, labels, events[RDT_COUNT_CONNECTS]);
		snprintf(labels, sizeof(labels), "%s,result=\"refused\"", o->listeners.labels[i]);
		put_sample(o, KIND_COUNTER, labels, events[RDT_COUNT_REFUSALS]);
	}
}

static void write_disconnects(const struct metrics_out *o)
{
	char labels[LABELS + 32];

	EACH_LISTENER(o, i)
	for (unsigned int end = 0; end < RDT_ENDS; end++) {
		snprintf(labels, sizeof(labels), "%s,reason=\"%s\"", o->listeners.labels[i],
			 rdt_stats_end_name(end));
		put_sample(o, KIND_COUNTER, labels,
			   o->listeners.rows[i].io.events[RDT_COUNT_ENDS + end]);
	}
}

static void write_keep_alives(const struct metrics_out *o)
{
	put_listener_events(o, RDT_COUNT_KEEP_ALIVES);
}

static void write_aborts(const struct metrics_out *o)
{
	put_listener_events(o, RDT_COUNT_ABORTS);
}

static void write_resets(const struct metrics_out *o)
{
	put_listener_events(o, RDT_COUNT_RESETS);
}

static void write_listener_commands(const struct metrics_out *o)
{
	EACH_LISTENER(o, i)
	put_commands(o, o->listeners.labels[i], &o->listeners.rows[i].io);
}

static void write_listener_bytes(const struct metrics_out *o)
{
	EACH_LISTENER(o, i)
	put_bytes(o, o->listeners.labels[i], &o->listeners.rows[i].io);
}

/* ---- namespaces ---- */

/* One that leaves may have the same NSID as another one. */
#define EACH_NS(o, i)                                           \
	for (unsigned int i = 0; i < (o)->stats->ns_count; i++) \
		if ((o)->stats->ns[i]->shown.listed)

static void write_ns_size(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_sample(o, KIND_GAUGE, o->ns_labels[i],
		   o->stats->ns[i]->shown.blocks << o->stats->ns[i]->shown.lbads);
}

static void write_ns_failed(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_sample(o, KIND_GAUGE, o->ns_labels[i], o->stats->ns[i]->shown.state == RDT_NS_FAILED);
}

/* Only of those that have one. */
static void write_ns_fault(const struct metrics_out *o)
{
	char buf[LABELS + 32];

	EACH_NS(o, i)
	{
		const struct rdt_noticed *fault = &o->stats->ns[i]->shown.fault;

		if (!fault->kind)
			continue;
		snprintf(buf, sizeof(buf), "%s,kind=\"%s\"", o->ns_labels[i], fault->kind);
		put_sample(o, KIND_GAUGE, buf, 1);
	}
}

static void write_ns_stalled(const struct metrics_out *o)
{
	EACH_NS(o, i)
	{
		double seconds = o->stats->ns[i]->shown.stalled_seconds;

		put_time(o, KIND_GAUGE, o->ns_labels[i],
			 seconds > 0 ? (uint64_t)(seconds * (double)RD_NSEC_PER_SEC) : 0);
	}
}

static void write_ns_states(const struct metrics_out *o)
{
	static const enum rdt_ns_state states[] = {RDT_NS_OPENING, RDT_NS_FAILED, RDT_NS_JOINING,
						   RDT_NS_LIVE, RDT_NS_LEAVING};
	char labels[32];

	for (size_t k = 0; k < sizeof(states) / sizeof(states[0]); k++) {
		unsigned int count = 0;

		for (unsigned int i = 0; i < o->stats->ns_count; i++)
			count += o->stats->ns[i]->shown.state == states[k];
		snprintf(labels, sizeof(labels), "state=\"%s\"", rdt_ns_state_name(states[k]));
		put_sample(o, KIND_GAUGE, labels, count);
	}
}

static void write_io_completed(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_commands(o, o->ns_labels[i], &o->stats->ns[i]->io);
}

static void write_io_bytes(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_bytes(o, o->ns_labels[i], &o->stats->ns[i]->io);
}

static void write_io_errors(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_errors(o, o->ns_labels[i], &o->stats->ns[i]->io);
}

static void write_io_duration(const struct metrics_out *o)
{
	EACH_NS(o, i)
	for (unsigned int op = 0; op < RDT_IO_OPS; op++)
		put_histogram(o, o->ns_labels[i], op, &o->stats->ns[i]->io.op[op]);
}

static void write_io_in_flight(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_sample(o, KIND_GAUGE, o->ns_labels[i], o->stats->ns[i]->io.in_flight);
}

static void write_io_oldest(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_time(o, KIND_GAUGE, o->ns_labels[i], o->stats->ns[i]->io.oldest_ns);
}

static void write_io_buffer_waits(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_sample(o, KIND_COUNTER, o->ns_labels[i],
		   o->stats->ns[i]->io.events[RDT_COUNT_BUFFER_WAITS]);
}

static void write_io_qos_waits(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_sample(o, KIND_COUNTER, o->ns_labels[i],
		   o->stats->ns[i]->io.events[RDT_COUNT_QOS_WAITS]);
}

static void write_io_qos_time(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_time(o, KIND_COUNTER, o->ns_labels[i], o->stats->ns[i]->io.events[RDT_COUNT_QOS_NS]);
}

/* ---- ANA ---- */

static void write_ns_group(const struct metrics_out *o)
{
	EACH_NS(o, i)
	put_sample(o, KIND_GAUGE, o->ns_labels[i], o->stats->ns[i]->shown.ana_group);
}

static void put_ana_states(const struct metrics_out *o, unsigned int listener, unsigned int group)
{
	static const uint8_t states[] = {RDT_ANA_OPTIMIZED, RDT_ANA_NON_OPTIMIZED,
					 RDT_ANA_INACCESSIBLE, RDT_ANA_PERSISTENT_LOSS,
					 RDT_ANA_CHANGE};
	char labels[LABELS + 64];

	for (unsigned int i = 0; i < sizeof(states); i++) {
		snprintf(labels, sizeof(labels), "%s,group=\"%u\",state=\"%s\"",
			 o->listeners.labels[listener], group, rdt_config_ana_name(states[i]));
		put_sample(o, KIND_GAUGE, labels,
			   o->stats->listeners[listener].ana[group] == states[i]);
	}
}

/* Of the groups that have a namespace. */
static void write_ana_states(const struct metrics_out *o)
{
	bool used[RDT_ANA_GROUPS + 1] = {false};

	EACH_NS(o, i)
	used[o->stats->ns[i]->shown.ana_group] = true;
	EACH_LISTENER(o, i)
	for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++)
		if (used[g])
			put_ana_states(o, i, g);
}

/* ---- hosts ---- */

#define EACH_HOST(o, i) for (unsigned int i = 0; i < (o)->hosts.count; i++)

static void write_host_connections(const struct metrics_out *o)
{
	EACH_HOST(o, i)
	put_sample(o, KIND_GAUGE, o->hosts.labels[i], o->hosts.rows[i].qpairs);
}

static void write_host_completed(const struct metrics_out *o)
{
	EACH_HOST(o, i)
	put_commands(o, o->hosts.labels[i], &o->hosts.rows[i].io);
}

static void write_host_bytes(const struct metrics_out *o)
{
	EACH_HOST(o, i)
	put_bytes(o, o->hosts.labels[i], &o->hosts.rows[i].io);
}

static void write_host_errors(const struct metrics_out *o)
{
	EACH_HOST(o, i)
	put_errors(o, o->hosts.labels[i], &o->hosts.rows[i].io);
}

static void write_host_in_flight(const struct metrics_out *o)
{
	EACH_HOST(o, i)
	put_sample(o, KIND_GAUGE, o->hosts.labels[i], o->hosts.rows[i].io.in_flight);
}

static void write_host_oldest(const struct metrics_out *o)
{
	EACH_HOST(o, i)
	put_time(o, KIND_GAUGE, o->hosts.labels[i], o->hosts.rows[i].io.oldest_ns);
}

/* ---- all ---- */

static const struct metrics_family families[] = {
	{"build_info", KIND_GAUGE, "The version of rdtarget.", write_build},
	{"start_time_seconds", KIND_GAUGE, "When rdtarget started, in Unix time.", write_started},
	{"state", KIND_GAUGE, "1 for the state that rdtarget is in, 0 for others.", write_state},
	{"config_last_reload_successful", KIND_GAUGE,
	 "0 after a reload of the configuration file that failed, also in part; rdctl status says "
	 "why.",
	 write_reload_ok},
	{"config_last_reload_success_timestamp_seconds", KIND_GAUGE,
	 "When the configuration file was last applied without a problem, in Unix time.",
	 write_reload_good},
	{"control_up", KIND_GAUGE, "1 if the control socket accepts clients.", write_control_up},
	{"subsystems", KIND_GAUGE, "Subsystems that are served.", write_subsystems},
	{"namespaces", KIND_GAUGE, "Namespaces that are served.", write_namespaces},
	{"controllers", KIND_GAUGE, "Controllers of connected hosts, without discovery.",
	 write_controllers},
	{"hosts", KIND_GAUGE, "Hosts that are connected.", write_hosts},
	{"reactor_up", KIND_GAUGE, "1 if the reactor answered within half a second.",
	 write_reactor_up},
	{"reactor_busy_seconds", KIND_COUNTER, "Time in which the reactor worked.",
	 write_reactor_busy},
	{"reactor_spin_seconds", KIND_COUNTER,
	 "Time in which the reactor polled and found nothing.", write_reactor_spin},
	{"reactor_longest_turn_seconds", KIND_GAUGE,
	 "Longest turn of the reactor's event loop in the last one to two minutes.",
	 write_reactor_longest},
	{"reactor_queues", KIND_GAUGE, "Queues on the reactor.", write_reactor_queues},
	{"reactor_buffer_bytes", KIND_GAUGE, "Data buffers in use.", write_reactor_buffers},
	{"reactor_waiting", KIND_GAUGE, "Commands that wait for a buffer or a limit.",
	 write_reactor_waiting},
	{"reactor_io_completed", KIND_COUNTER, "I/O commands answered by the reactor.",
	 write_reactor_commands},
	{"listener_up", KIND_GAUGE, "1 if the listener accepts connections.", write_listener_up},
	{"connections", KIND_GAUGE, "Connections: one for each queue.", write_connections},
	{"connects", KIND_COUNTER, "Connect commands: queues connected or refused.",
	 write_connects},
	{"authentications", KIND_COUNTER, "Queues authenticated by DH-HMAC-CHAP, or not.",
	 write_authentications},
	{"disconnects", KIND_COUNTER, "Connections that have ended, by reason.", write_disconnects},
	{"keep_alive_timeouts", KIND_COUNTER, "Associations that ended by keep alive.",
	 write_keep_alives},
	{"aborts", KIND_COUNTER, "Abort commands.", write_aborts},
	{"resets", KIND_COUNTER, "Controller resets by hosts.", write_resets},
	{"listener_io_completed", KIND_COUNTER, "I/O commands answered over the listener.",
	 write_listener_commands},
	{"listener_io_bytes", KIND_COUNTER, "Data moved over the listener.", write_listener_bytes},
	{"namespace_size_bytes", KIND_GAUGE, "Size of the namespace.", write_ns_size},
	{"namespace_failed", KIND_GAUGE,
	 "1 while its storage cannot be opened: hosts do not see it; rdctl ns says why.",
	 write_ns_failed},
	{"namespace_fault", KIND_GAUGE,
	 "1 while data of its storage is lost or may be, its path names another file than is open, "
	 "or its cluster is not in reach; rdctl ns says more.",
	 write_ns_fault},
	{"namespace_stalled_seconds", KIND_GAUGE,
	 "For how long the storage of the namespace has not answered; 0: it answers.",
	 write_ns_stalled},
	{"namespace_states", KIND_GAUGE, "Namespaces by state.", write_ns_states},
	{"io_completed", KIND_COUNTER, "I/O commands answered, failed ones included.",
	 write_io_completed},
	{"io_bytes", KIND_COUNTER, "Data read and written.", write_io_bytes},
	{"io_errors", KIND_COUNTER, "Failed I/O commands by status code type and status code.",
	 write_io_errors},
	{"io_duration_seconds", KIND_HISTOGRAM,
	 "Time from the arrival of a command until its answer was sent.", write_io_duration},
	{"io_inflight", KIND_GAUGE, "I/O commands in flight.", write_io_in_flight},
	{"io_oldest_seconds", KIND_GAUGE, "Age of the oldest I/O command in flight.",
	 write_io_oldest},
	{"io_buffer_waits", KIND_COUNTER, "Commands that waited for a data buffer.",
	 write_io_buffer_waits},
	{"io_qos_waits", KIND_COUNTER, "Commands that waited for a limit.", write_io_qos_waits},
	{"io_qos_wait_seconds", KIND_COUNTER, "Time that commands waited for a limit.",
	 write_io_qos_time},
	{"namespace_ana_group", KIND_GAUGE, "The ANA group of the namespace.", write_ns_group},
	{"listener_ana_state", KIND_GAUGE,
	 "1 for the ANA state of the group that hosts of the listener are told, 0 for others.",
	 write_ana_states},
	{"host_connections", KIND_GAUGE, "Connections of the host.", write_host_connections},
	{"host_io_completed", KIND_COUNTER, "I/O commands of the host that were answered.",
	 write_host_completed},
	{"host_io_bytes", KIND_COUNTER, "Data read and written by the host.", write_host_bytes},
	{"host_io_errors", KIND_COUNTER, "Failed I/O commands of the host.", write_host_errors},
	{"host_io_inflight", KIND_GAUGE, "I/O commands of the host in flight.",
	 write_host_in_flight},
	{"host_io_oldest_seconds", KIND_GAUGE,
	 "Age of the oldest I/O command of the host in flight.", write_host_oldest},
};

static void write_family(struct metrics_out *o, const struct metrics_family *family)
{
	static const char *const kinds[] = {
		[KIND_GAUGE] = "gauge",
		[KIND_COUNTER] = "counter",
		[KIND_HISTOGRAM] = "histogram",
	};
	bool total = family->kind == KIND_COUNTER && o->format == RDT_METRICS_PROMETHEUS;

	o->name = family->name;
	fprintf(o->f, "# HELP rdtarget_%s%s %s\n# TYPE rdtarget_%s%s %s\n", family->name,
		total ? "_total" : "", family->help, family->name, total ? "_total" : "",
		kinds[family->kind]);
	family->write(o);
}

static bool make_rows(const struct rdt_stats *stats, enum rdt_stats_by by, const char *label,
		      struct metrics_rows *rows)
{
	char number[16];

	if (rdt_stats_rows(stats, by, &rows->rows, &rows->count))
		return false;
	rows->labels = calloc(rows->count + 1, sizeof(*rows->labels));
	for (unsigned int i = 0; i < rows->count && rows->labels; i++) {
		snprintf(number, sizeof(number), "%u", rows->rows[i].index);
		put_label(rows->labels[i], label, rows->rows[i].name ? rows->rows[i].name : number);
	}
	return rows->labels != NULL;
}

static bool make_ns_labels(struct metrics_out *o)
{
	char number[16];

	o->ns_labels = calloc(o->stats->ns_count + 1, sizeof(*o->ns_labels));
	EACH_NS(o, i)
	{
		if (!o->ns_labels)
			break;
		snprintf(number, sizeof(number), "%u", (unsigned int)o->stats->ns[i]->shown.nsid);
		put_label(o->ns_labels[i], "subsystem", o->stats->ns[i]->shown.nqn);
		put_label(o->ns_labels[i], "nsid", number);
	}
	return o->ns_labels != NULL;
}

static void free_rows(struct metrics_rows *rows)
{
	free(rows->rows);
	free(rows->labels);
}

int rdt_metrics_render(const struct rdt_stats *stats, enum rdt_metrics_format format, char **text,
		       size_t *len)
{
	struct metrics_out o = {.stats = stats, .format = format};
	bool good = make_rows(stats, RDT_STATS_BY_HOST, "host", &o.hosts) &&
		    make_rows(stats, RDT_STATS_BY_LISTENER, "listener", &o.listeners) &&
		    make_rows(stats, RDT_STATS_BY_REACTOR, "reactor", &o.reactors) &&
		    make_ns_labels(&o);

	*text = NULL;
	*len = 0;
	o.f = good ? open_memstream(text, len) : NULL;
	if (o.f) {
		for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
			write_family(&o, &families[i]);
		rdt_process_metrics_write(o.f, format);
		if (format == RDT_METRICS_OPENMETRICS)
			fputs("# EOF\n", o.f);
		good = !ferror(o.f);
		good = fclose(o.f) == 0 && good;
	}
	if (!o.f || !good) {
		free(*text);
		*text = NULL;
	}
	free_rows(&o.hosts);
	free_rows(&o.listeners);
	free_rows(&o.reactors);
	free(o.ns_labels);
	return *text ? 0 : -ENOMEM;
}

/* ---- a request ---- */

static void metrics_work(struct rdt_stats_ask *ask, const struct rdt_stats *stats)
{
	struct rdt_metrics_ask *m = rd_container_of(ask, struct rdt_metrics_ask, ask);

	rdt_metrics_render(stats, m->format, &m->text, &m->len);
}

static void metrics_done(struct rdt_stats_ask *ask, const struct rdt_stats *stats)
{
	struct rdt_metrics_ask *m = rd_container_of(ask, struct rdt_metrics_ask, ask);

	m->done(m, m->text, m->len);
}

void rdt_metrics_ask(struct rdt_sampler *s, struct rdt_metrics_ask *ask)
{
	ask->text = NULL;
	ask->len = 0;
	ask->ask.work = metrics_work;
	ask->ask.done = metrics_done;
	rdt_stats_ask(s, &ask->ask);
}
