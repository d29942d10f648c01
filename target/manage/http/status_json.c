/* SPDX-License-Identifier: BSD-3-Clause */
#include "status_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/log.h"
#include "util/loop.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/stall.h"
#include "target/nvmf/target.h"
#include "target/manage/show/answer.h"
#include "target/manage/show/connections.h"
#include "target/manage/figures/history.h"
#include "target/manage/show/show.h"
#include "target/manage/figures/stats_json.h"

#define ANSWER_WITHIN (RD_NSEC_PER_SEC / 2)
#define LIST_MAX      1000u /* maximum of each: namespaces, hosts and controllers in a document */
#define PROBLEMS_MAX  100u
/* A command in flight for so long is a problem, even if it waits for its host and not for
 * storage. */
#define OLD_IO (2 * RDT_STALL_NS)

/* One reactor. While @out, its thread owns @answer. */
struct part {
	bool out;
	bool missing;      /* it did not answer for the current document */
	uint64_t asked_at; /* ns */
	struct rdt_answer answer;
};

struct rdt_status {
	struct rdt_target *target;
	const struct rdt_reloader *reloader;
	struct rdt_sampler *sampler;
	const struct rdt_history *history;
	struct rdt_stats_ask ask;
	rdt_status_done done;
	void *arg;
	struct rd_timer timer; /* timeout of the answers */
	bool running;          /* a document is being built */
	bool waiting;          /* for the answers of reactors */
	bool stopped;
	/* Owned by the thread while it writes the document. */
	json_t *head; /* the part that the main thread has written */
	struct rdt_connections *connections;
	struct rdt_history_copy *seconds; /* from @history */
	uint64_t now;                     /* ns: time of the head, then of the health check */
	char *text;                       /* the document */
	char why[128];                    /* why the target is not healthy; empty: it is healthy */
	unsigned int parts_count;         /* number of reactors */
	struct part parts[];
};

/* ---- small parts ---- */

/* The time from @then to s->now. */
static double seconds_since(const struct rdt_status *s, uint64_t then)
{
	return s->now > then ? (double)(s->now - then) / 1e9 : 0;
}

/* Adds version 2 names of statistics of commands, in ns where the name says so. */
static void add_old_names(json_t *o, const struct rdt_stats_io *io)
{
	const struct rdt_stats_op *read = &io->op[RDT_IO_READ], *write = &io->op[RDT_IO_WRITE];
	const struct rdt_stats_op *flush = &io->op[RDT_IO_FLUSH], *other = &io->op[RDT_IO_OTHER];

	json_object_update_new(
		o, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "reads",
			     (json_int_t)read->count, "writes", (json_int_t)write->count, "others",
			     (json_int_t)(flush->count + other->count), "read_bytes",
			     (json_int_t)read->bytes, "written_bytes", (json_int_t)write->bytes,
			     "read_ns", (json_int_t)read->ns, "write_ns", (json_int_t)write->ns,
			     "others_ns", (json_int_t)(flush->ns + other->ns)));
}

/* The names of version 2 for latencies. */
static json_t *old_latency(const struct rdt_stats_op *op)
{
	json_t *list = json_array();
	json_t *o = json_pack("{s:I, s:I, s:o}", "count", (json_int_t)op->count, "sum_ns",
			      (json_int_t)op->ns, "buckets", list);
	char name[24];

	for (unsigned int i = 0; i < RDT_LAT_BUCKETS; i++)
		if (op->bucket[i])
			json_array_append_new(list, json_pack("[I, I]", (json_int_t)rdt_lat_end(i),
							      (json_int_t)op->bucket[i]));
	for (unsigned int i = 0; i < RDT_PERCENTILES; i++) {
		snprintf(name, sizeof(name), "%s_ns", rdt_percentiles[i].name);
		json_object_set_new(o, name,
				    json_integer((json_int_t)rdt_stats_percentile(
					    op, rdt_percentiles[i].percent)));
	}
	return o;
}

/* Adds the totals over all hosts, including disconnected ones. */
static void add_totals(json_t *o, const struct rdt_stats *stats)
{
	const struct rdt_stats_op *op = stats->total.op;
	json_t *totals = rdt_stats_total_json(stats, true);

	add_old_names(totals, &stats->total);
	json_object_set_new(o, "target", rdt_stats_target_json(stats));
	json_object_set_new(o, "process", rdt_stats_process_json(stats));
	json_object_set_new(o, "totals", totals);
	json_object_set_new(o, "latency",
			    json_pack("{s:o, s:o}", "read", old_latency(&op[RDT_IO_READ]), "write",
				      old_latency(&op[RDT_IO_WRITE])));
}

static void add_status_reactors(const struct rdt_status *s, json_t *o,
				const struct rdt_stats *stats)
{
	json_t *list = rdt_stats_reactors_json(stats, false), *reactor;
	size_t i;

	json_array_foreach(list, i, reactor) json_object_set_new(
		reactor, "answers",
		json_boolean(stats->reactors[i].answered && !s->parts[i].missing));
	json_object_set_new(o, "reactors", list);
}

/* ---- lists ---- */

/* Adds the statistics of a listener to the main thread's entry, unless it was removed since. */
static void add_listener_figures(json_t *o, const struct rdt_stats *stats)
{
	json_t *listener;
	size_t i;

	json_array_foreach(json_object_get(o, "listeners"), i, listener)
	{
		json_int_t portid = json_integer_value(json_object_get(listener, "portid"));

		for (unsigned int j = 0; j < stats->listeners_count; j++)
			if (stats->listeners[j].portid == portid)
				json_object_set_new(
					listener, "io",
					rdt_stats_listener_json(&stats->listeners[j], false));
	}
}

static void add_status_namespaces(json_t *o, struct rdt_stats *stats)
{
	json_t *list = json_array();

	rdt_stats_sort_ns(stats);
	for (unsigned int i = 0; i < stats->ns_count && i < LIST_MAX; i++) {
		const struct rdt_stats_ns *of = stats->ns[i];
		json_t *ns = rdt_show_namespace(&of->shown);
		json_t *io = rdt_stats_ns_json(of, json_object(), false);

		add_old_names(io, &of->io);
		json_object_set_new(ns, "io", io);
		json_array_append_new(list, ns);
	}
	json_object_set_new(o, "namespaces", list);
	json_object_set_new(o, "namespaces_total", json_integer((json_int_t)stats->ns_count));
}

static void add_status_hosts(json_t *o, const struct rdt_stats *stats)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < stats->hosts && i < LIST_MAX; i++) {
		const struct rdt_stats_host *host = &stats->by_host[i];
		json_t *io = rdt_stats_host_json(host, json_object(), false);

		add_old_names(io, &host->io);
		json_array_append_new(list, json_pack("{s:o, s:o, s:I, s:o}", "hostnqn",
						      rdt_show_text(host->name), "host",
						      rdt_show_name(host->name), "connections",
						      (json_int_t)host->io.qpairs, "io", io));
	}
	json_object_set_new(o, "hosts", list);
	json_object_set_new(o, "hosts_total", json_integer((json_int_t)stats->hosts));
}

static void add_status_controllers(json_t *o, struct rdt_connections *connections)
{
	size_t total;

	json_object_set_new(o, "controllers",
			    rdt_connections_controllers(connections, LIST_MAX, &total));
	json_object_set_new(o, "controllers_total", json_integer((json_int_t)total));
}

/* ---- problems ---- */

static void add_problem(json_t *list, const char *kind, double seconds, const char *text)
{
	if (json_array_size(list) < PROBLEMS_MAX)
		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:s}", "kind", kind, "since_seconds",
						json_real(seconds), "text", text));
}

/* @what is appended to the namespace's number without a space. */
static void add_ns_problem(json_t *list, const struct rdt_ns_shown *ns, const char *kind,
			   double seconds, const char *what)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s namespace %u%s", ns->nqn, ns->nsid, what);
	add_problem(list, kind, seconds, text);
}

static void add_ns_problems(const struct rdt_status *s, json_t *list, const struct rdt_stats_ns *of)
{
	const struct rdt_ns_shown *ns = &of->shown;
	double oldest = (double)of->io.oldest_ns / 1e9;
	char what[768];

	if (ns->state == RDT_NS_LEAVING)
		add_ns_problem(list, ns, "leaving", seconds_since(s, ns->since),
			       ": its removal waits for I/O that the storage has not completed");
	if (ns->state == RDT_NS_FAILED) {
		snprintf(what, sizeof(what), " is not served: %s",
			 ns->why ? ns->why : "out of memory");
		add_ns_problem(list, ns, "not-served", seconds_since(s, ns->since), what);
	}
	if (ns->fault.kind) {
		snprintf(what, sizeof(what), ": %s", ns->fault.text);
		add_ns_problem(list, ns, ns->fault.kind, (double)rdt_fault_seconds(&ns->fault),
			       what);
	}
	if (ns->stalled_seconds >= 0) {
		add_ns_problem(list, ns, "stalled", ns->stalled_seconds,
			       " is stalled: its storage does not answer");
	} else if (of->io.oldest_ns >= OLD_IO) {
		snprintf(what, sizeof(what),
			 ": the oldest of %llu commands in flight has not completed",
			 (unsigned long long)of->io.in_flight);
		add_ns_problem(list, ns, "old-io", oldest, what);
	}
}

/* Problems of reactors and listeners. */
static json_t *problems_json(const struct rdt_status *s)
{
	const struct rdt_listener *l;
	json_t *list = json_array();
	char text[512];

	for (unsigned int i = 0; i < s->parts_count; i++) {
		if (!s->parts[i].missing)
			continue;
		snprintf(text, sizeof(text),
			 "reactor %u does not answer: its connections are not shown", i);
		add_problem(list, "reactor", seconds_since(s, s->parts[i].asked_at), text);
	}
	TAILQ_FOREACH (l, &s->target->listeners, link) {
		if (l->phase == RDT_LISTENER_FAILED)
			add_problem(list, "listener", seconds_since(s, l->since), l->why);
	}
	return list;
}

/* ---- the document ---- */

/* The part that only the main thread may read. */
static json_t *head_json(const struct rdt_status *s)
{
	const struct rdt_target *t = s->target;
	char now[32], node[256] = "";
	time_t at = time(NULL);
	struct tm tm;

	gmtime_r(&at, &tm);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (gethostname(node, sizeof(node) - 1))
		node[0] = '\0';
	return json_pack("{s:i, s:s, s:s, s:i, s:s, s:f, s:s, s:o, s:o, s:o}", "schema",
			 RDT_STATUS_SCHEMA, "version", RDT_VERSION, "machine", node, "pid",
			 (int)getpid(), "time", now, "uptime_seconds",
			 seconds_since(s, t->started_ns), "state", rdt_show_state(t), "last_reload",
			 rdt_show_last_reload(s->reloader), "listeners", rdt_show_listeners(t),
			 "problems", problems_json(s));
}

/* Runs on the sampler's thread: thousands of entries take too long for the main loop. */
static void write_status(struct rdt_stats_ask *ask, struct rdt_stats *stats)
{
	struct rdt_status *s = rd_container_of(ask, struct rdt_status, ask);
	json_t *o = s->head, *problems = json_object_get(o, "problems");

	if (!o || !s->connections || !s->seconds)
		return;
	add_totals(o, stats);
	json_object_set_new(o, "history", rdt_history_json(s->seconds));
	add_status_reactors(s, o, stats);
	json_object_set_new(o, "subsystems", rdt_stats_subsystems_json(stats));
	json_object_set_new(o, "discovery", rdt_stats_discovery_json(stats));
	add_listener_figures(o, stats);
	for (unsigned int i = 0; i < stats->ns_count; i++)
		add_ns_problems(s, problems, stats->ns[i]);
	add_status_controllers(o, s->connections);
	add_status_hosts(o, stats);
	add_status_namespaces(o, stats);
	s->text = json_dumps(o, JSON_COMPACT);
}

static void judge_health(struct rdt_status *s)
{
	const char *state = rdt_show_state(s->target);

	s->why[0] = '\0';
	if (strcmp(state, "serving") != 0)
		snprintf(s->why, sizeof(s->why), "%s", state);
	for (unsigned int i = 0; i < s->parts_count; i++)
		if (s->parts[i].out)
			snprintf(s->why, sizeof(s->why),
				 "reactor %u has not answered for %.1f seconds", i,
				 seconds_since(s, s->parts[i].asked_at));
}

static void drop_document(struct rdt_status *s)
{
	json_decref(s->head);
	s->head = NULL;
	rdt_connections_free(s->connections);
	s->connections = NULL;
	free(s->seconds);
	s->seconds = NULL;
	free(s->text);
	s->text = NULL;
}

static void status_written(struct rdt_stats_ask *ask, const struct rdt_stats *stats)
{
	struct rdt_status *s = rd_container_of(ask, struct rdt_status, ask);
	char *text = s->text;

	s->text = NULL;
	drop_document(s);
	if (s->stopped) {
		free(text);
		return;
	}
	s->running = false;
	s->now = rd_loop_now_raw(s->target->loop);
	judge_health(s);
	s->done(s->arg, text, !s->why[0], s->why);
}

/* Collects the connections of the reactors that have answered. */
static void take_connections(struct rdt_status *s)
{
	struct rdt_answer *answers = calloc(s->parts_count, sizeof(*answers));
	unsigned int n = 0;

	if (!answers)
		return;
	for (unsigned int i = 0; i < s->parts_count; i++) {
		struct part *p = &s->parts[i];

		p->missing = p->out;
		if (p->out)
			continue;
		answers[n++] = p->answer;
		p->answer.data = NULL;
	}
	s->connections = rdt_connections_take(s->target, answers, n);
	for (unsigned int i = 0; i < n; i++)
		rdt_connections_drop(&answers[i]); /* frees it if memory ran out */
	free(answers);
}

/* All reactors have answered, or the timeout has passed. */
static void parts_end(struct rdt_status *s)
{
	rd_timer_stop(s->target->loop, &s->timer);
	s->waiting = false;
	s->now = rd_loop_now_raw(s->target->loop);
	take_connections(s);
	s->head = head_json(s);
	s->seconds = rdt_history_copy(s->history);
	s->ask.work = write_status;
	s->ask.done = status_written;
	rdt_stats_ask(s->sampler, &s->ask);
}

static void parts_timed_out(struct rd_timer *timer)
{
	parts_end(rd_container_of(timer, struct rdt_status, timer));
}

/* ---- questions to reactors ---- */

static void part_answered(struct rdt_answer *answer)
{
	struct rdt_status *s = answer->owner;

	rd_container_of(answer, struct part, answer)->out = false;
	if (s->stopped || !s->waiting)
		return;
	for (unsigned int i = 0; i < s->parts_count; i++)
		if (s->parts[i].out)
			return;
	parts_end(s);
}

/* A part that is still out belongs to an earlier question, so it is not asked again. */
static void ask_part(struct part *p)
{
	if (p->out)
		return;
	rdt_connections_drop(&p->answer);
	p->out = true;
	p->asked_at = rd_loop_now_raw(p->answer.reactor->target->loop);
	rdt_answer_ask(&p->answer);
}

void rdt_status_ask(struct rdt_status *s)
{
	if (s->running || s->stopped)
		return;
	s->running = true;
	s->waiting = true;
	s->timer.fn = parts_timed_out;
	if (rd_timer_start(s->target->loop, &s->timer, ANSWER_WITHIN))
		rd_warn(s->target->log, RD_LOG_MAIN, "http: out of memory for a timer");
	for (unsigned int i = 0; i < s->parts_count; i++)
		ask_part(&s->parts[i]);
}

int rdt_status_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		   struct rdt_sampler *sampler, const struct rdt_history *history,
		   rdt_status_done done, void *arg, struct rdt_status **out)
{
	struct rdt_status *s = calloc(1, sizeof(*s) + target->reactors_count * sizeof(s->parts[0]));

	*out = s;
	if (!s)
		return -ENOMEM;
	s->target = target;
	s->parts_count = target->reactors_count;
	s->reloader = reloader;
	s->sampler = sampler;
	s->history = history;
	s->done = done;
	s->arg = arg;
	for (unsigned int i = 0; i < target->reactors_count; i++)
		s->parts[i].answer = (struct rdt_answer){.reactor = &target->reactors[i],
							 .fn = rdt_connections_collect,
							 .answered = part_answered,
							 .owner = s};
	return 0;
}

void rdt_status_stop(struct rdt_status *s)
{
	if (!s || s->stopped)
		return;
	s->stopped = true;
	rd_timer_stop(s->target->loop, &s->timer);
}

void rdt_status_free(struct rdt_status **out)
{
	struct rdt_status *s = *out;

	if (!s)
		return;
	for (unsigned int i = 0; i < s->parts_count; i++)
		rdt_connections_drop(&s->parts[i].answer);
	drop_document(s);
	free(s);
	*out = NULL;
}
