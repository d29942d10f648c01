/* SPDX-License-Identifier: BSD-3-Clause */
#include "status_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/hist.h"
#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "target/bdev/backend.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/req_state.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "rpc_priv.h"
#include "show.h"

#define ANSWER_WITHIN RD_NSEC_PER_SEC
#define LIST_MAX      1000u /* namespaces and controllers in a document, each */
#define STALLED_MAX   100u
/* Buckets of struct rd_hist that are one bucket of the document: 8 for each power of two. */
#define BUCKET_JOIN 8u

/* Of a reactor. While @out, its thread writes the answer. */
struct part {
	struct rd_msg msg;
	struct rdt_status *status;
	struct rdt_reactor *reactor;
	bool out;
	uint64_t asked_at; /* ns */
	struct rdt_rpc_answer connections;
	struct rdt_status_line line;
	struct rd_hist latency;
};

struct rdt_status {
	struct rdt_target *target;
	const struct rdt_reloader *reloader;
	const struct rdt_rpc *rpc;
	rdt_status_done done;
	void *arg;
	struct rd_timer timer; /* the end of waiting for answers */
	bool running;
	bool stopped;
	char why[128];            /* not healthy because of this; empty: healthy */
	unsigned int parts_count; /* reactors */
	struct part parts[];
};

/* ---- small parts ---- */

static double seconds_since(const struct rdt_status *s, uint64_t then)
{
	uint64_t now = rd_loop_now_raw(s->target->loop);

	return now > then ? (double)(now - then) / 1e9 : 0;
}

/* The largest value that is counted in this bucket of a struct rd_hist. */
static uint64_t bucket_end(unsigned int bucket)
{
	unsigned int shift = bucket < 2 * RD_HIST_SUB ? 0 : (bucket >> RD_HIST_SUB_BITS) - 1;

	return ((uint64_t)(bucket - (shift << RD_HIST_SUB_BITS) + 1) << shift) - 1;
}

/* Pairs of the largest value and the number of values; empty buckets are left out. */
static json_t *buckets_json(const struct rd_hist *h)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < RD_HIST_BUCKETS; i += BUCKET_JOIN) {
		uint64_t count = 0;

		for (unsigned int j = i; j < i + BUCKET_JOIN; j++)
			count += h->bucket[j];
		if (count)
			json_array_append_new(list,
					      json_pack("[I, I]",
							(json_int_t)bucket_end(i + BUCKET_JOIN - 1),
							(json_int_t)count));
	}
	return list;
}

static json_t *latency_json(const struct rdt_status *s)
{
	struct rd_hist *sum = calloc(1, sizeof(*sum));
	json_t *o = NULL;

	for (unsigned int i = 0; i < s->parts_count && sum; i++)
		if (!s->parts[i].out)
			rd_hist_merge(sum, &s->parts[i].latency);
	if (sum)
		o = json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "one_of",
			      (int)s->target->cfg->target.state_times, "count",
			      (json_int_t)sum->count, "sum_ns", (json_int_t)sum->sum, "p50_ns",
			      (json_int_t)rd_hist_percentile(sum, 50), "p99_ns",
			      (json_int_t)rd_hist_percentile(sum, 99), "p999_ns",
			      (json_int_t)rd_hist_percentile(sum, 99.9), "max_ns",
			      (json_int_t)sum->max, "buckets", buckets_json(sum));
	free(sum);
	return o;
}

static json_t *totals_json(const struct rdt_target *t)
{
	uint64_t reads = 0, writes = 0, read = 0, written = 0, errors = 0;

	for (unsigned int i = 0; i < t->subsys_count; i++) {
		for (unsigned int j = 0; j < t->reactors_count; j++) {
			const struct rdt_counters *c = &t->subsys[i]->counters[j];

			reads += atomic_load(&c->reads);
			writes += atomic_load(&c->writes);
			read += atomic_load(&c->blocks_read);
			written += atomic_load(&c->blocks_written);
			errors += atomic_load(&c->media_errors);
		}
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "reads", (json_int_t)reads, "writes",
			 (json_int_t)writes, "read_bytes", (json_int_t)(read * 512),
			 "written_bytes", (json_int_t)(written * 512), "media_errors",
			 (json_int_t)errors);
}

static json_t *status_reactor(const struct rdt_status *s, const struct part *p)
{
	const struct rdt_status_line *line = &p->line;
	json_t *o =
		json_pack("{s:i, s:b, s:f}", "reactor", (int)p->reactor->index, "answers", !p->out,
			  "busy_seconds", (double)rd_loop_busy(p->reactor->loop) / 1e9);

	if (!p->out)
		json_object_update_new(
			o, json_pack("{s:i, s:i, s:i, s:i, s:i, s:I}", "admin_queues",
				     (int)line->admin_qpairs, "io_queues", (int)line->io_qpairs,
				     "in_flight", (int)line->io_requests, "waiting_for_buffers",
				     (int)line->waiting, "waiting_for_limits", (int)line->limited,
				     "buffer_bytes",
				     (json_int_t)(line->slab_used + line->reserve_used)));
	return o;
}

static json_t *status_reactors(const struct rdt_status *s)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < s->parts_count; i++)
		json_array_append_new(list, status_reactor(s, &s->parts[i]));
	return list;
}

static json_t *namespaces_json(const struct rdt_target *t, size_t *total)
{
	json_t *list = json_array();
	const struct rdt_ns *ns;

	*total = 0;
	for (unsigned int i = 0; i < t->subsys_count; i++)
		TAILQ_FOREACH (ns, &t->subsys[i]->namespaces, link)
			if ((*total)++ < LIST_MAX)
				json_array_append_new(list, rdt_show_namespace(ns));
	return list;
}

static json_t *status_controllers(const struct rdt_status *s, size_t *total)
{
	unsigned int n = s->parts_count, answered = 0;
	struct rdt_rpc_answer *answers = calloc(n, sizeof(*answers));
	json_t *list;

	*total = 0;
	if (!answers)
		return NULL;
	for (unsigned int i = 0; i < n; i++)
		if (!s->parts[i].out)
			answers[answered++] = s->parts[i].connections;
	list = rdt_show_controllers(answers, answered, LIST_MAX, total);
	free(answers);
	return list;
}

static json_t *status_listeners(const struct rdt_target *t)
{
	const struct rdt_listener *l;
	json_t *list = json_array();

	TAILQ_FOREACH (l, &t->listeners, link)
		json_array_append_new(list, rdt_show_listener(l));
	return list;
}

/* ---- what is stalled ---- */

/* @seconds: since when; negative: unknown. */
static void add_stalled(json_t *list, const char *kind, double seconds, const char *text)
{
	if (json_array_size(list) < STALLED_MAX)
		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:s}", "kind", kind, "since_seconds",
						seconds < 0 ? json_null() : json_real(seconds),
						"text", text));
}

static void add_stalled_namespace(const struct rdt_status *s, json_t *list, const struct rdt_ns *ns)
{
	const struct rdt_bdev *base = ns->bdev ? rdt_bdev_base(ns->bdev) : NULL;
	char text[512];

	if (ns->state == RDT_NS_LEAVING) {
		snprintf(text, sizeof(text),
			 "%s namespace %u: its removal waits for I/O that the storage has not "
			 "completed",
			 ns->subsys->nqn, ns->nsid);
		add_stalled(list, "namespace", seconds_since(s, ns->leaving_since), text);
	}
	if (base && atomic_load(&base->sync_err)) {
		snprintf(text, sizeof(text),
			 "%s namespace %u: a sync of its storage has failed; what hosts wrote "
			 "before may be lost",
			 ns->subsys->nqn, ns->nsid);
		add_stalled(list, "namespace", -1, text);
	}
}

static json_t *stalled_json(const struct rdt_status *s)
{
	const struct rdt_target *t = s->target;
	const struct rdt_listener *l;
	json_t *list = json_array();
	const struct rdt_ns *ns;
	char text[512];

	for (unsigned int i = 0; i < s->parts_count; i++) {
		if (!s->parts[i].out)
			continue;
		snprintf(text, sizeof(text),
			 "reactor %u does not answer: its connections are not shown", i);
		add_stalled(list, "reactor", seconds_since(s, s->parts[i].asked_at), text);
	}
	TAILQ_FOREACH (l, &t->listeners, link) {
		if (!l->wait_err)
			continue;
		snprintf(text, sizeof(text), "listener %.100s port %u waits for its address: %s",
			 l->cfg->address, l->cfg->port, strerror(-l->wait_err));
		add_stalled(list, "listener", seconds_since(s, l->wait_since), text);
	}
	for (unsigned int i = 0; i < t->subsys_count; i++)
		TAILQ_FOREACH (ns, &t->subsys[i]->namespaces, link)
			add_stalled_namespace(s, list, ns);
	return list;
}

/* ---- the document ---- */

static json_t *whole_json(const struct rdt_status *s)
{
	const struct rdt_target *t = s->target;
	size_t namespaces_total, controllers_total;
	char now[32], node[256] = "";
	time_t at = time(NULL);
	json_t *o;
	struct tm tm;

	gmtime_r(&at, &tm);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (gethostname(node, sizeof(node) - 1))
		node[0] = '\0';
	o = json_pack("{s:i, s:s, s:s, s:i, s:s, s:f, s:s, s:o}", "schema", RDT_STATUS_SCHEMA,
		      "version", RDT_VERSION, "machine", node, "pid", (int)getpid(), "time", now,
		      "uptime_seconds", seconds_since(s, t->started_ns), "state",
		      rdt_show_state(t, s->rpc), "last_reload", rdt_show_last_reload(s->reloader));
	json_object_update_new(o, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "totals",
					    totals_json(t), "latency", latency_json(s), "reactors",
					    status_reactors(s), "listeners", status_listeners(t),
					    "stalled", stalled_json(s), "namespaces",
					    namespaces_json(t, &namespaces_total), "controllers",
					    status_controllers(s, &controllers_total)));
	json_object_set_new(o, "namespaces_total", json_integer((json_int_t)namespaces_total));
	json_object_set_new(o, "controllers_total", json_integer((json_int_t)controllers_total));
	return o;
}

static void judge_health(struct rdt_status *s)
{
	const char *state = rdt_show_state(s->target, s->rpc);

	s->why[0] = '\0';
	if (strcmp(state, "serving") != 0)
		snprintf(s->why, sizeof(s->why), "%s", state);
	for (unsigned int i = 0; i < s->parts_count; i++)
		if (s->parts[i].out)
			snprintf(s->why, sizeof(s->why),
				 "reactor %u has not answered for %.1f seconds", i,
				 seconds_since(s, s->parts[i].asked_at));
}

static void round_ends(struct rdt_status *s)
{
	json_t *o = whole_json(s);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	s->running = false;
	rd_timer_stop(s->target->loop, &s->timer);
	judge_health(s);
	s->done(s->arg, text, !s->why[0], s->why);
}

static void round_timed_out(struct rd_timer *timer)
{
	round_ends(rd_container_of(timer, struct rdt_status, timer));
}

/* ---- questions to reactors ---- */

static void part_answered(struct rd_msg *msg)
{
	struct part *p = rd_container_of(msg, struct part, msg);
	struct rdt_status *s = p->status;

	p->out = false;
	if (s->stopped || !s->running)
		return;
	for (unsigned int i = 0; i < s->parts_count; i++)
		if (s->parts[i].out)
			return;
	round_ends(s);
}

static void part_arrived(struct rd_msg *msg)
{
	struct part *p = rd_container_of(msg, struct part, msg);
	const struct rdt_timing *timing = &p->reactor->timing;

	rdt_show_collect_connections(p->reactor, &p->connections);
	rdt_reactor_collect(p->reactor, &p->line);
	if (timing->times)
		p->latency = *rdt_timing_hist(timing->times, RDT_REQ_STATES);
	msg->fn = part_answered;
	rd_loop_post(p->status->target->loop, msg);
}

/* A part that is still out has not answered an earlier question, and is not asked again. */
static void ask_part(struct part *p)
{
	if (p->out)
		return;
	free(p->connections.data);
	p->connections = (struct rdt_rpc_answer){.reactor = p->reactor};
	p->out = true;
	p->asked_at = rd_loop_now_raw(p->status->target->loop);
	p->msg.fn = part_arrived;
	rd_loop_post(p->reactor->loop, &p->msg);
}

void rdt_status_ask(struct rdt_status *s)
{
	if (s->running || s->stopped)
		return;
	s->running = true;
	s->timer.fn = round_timed_out;
	if (rd_timer_start(s->target->loop, &s->timer, ANSWER_WITHIN))
		rd_warn(s->target->log, RD_LOG_MAIN, "http: out of memory for a timer");
	for (unsigned int i = 0; i < s->parts_count; i++)
		ask_part(&s->parts[i]);
}

int rdt_status_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		   const struct rdt_rpc *rpc, rdt_status_done done, void *arg,
		   struct rdt_status **out)
{
	struct rdt_status *s = calloc(1, sizeof(*s) + target->reactors_count * sizeof(s->parts[0]));

	*out = s;
	if (!s)
		return -ENOMEM;
	s->target = target;
	s->parts_count = target->reactors_count;
	s->reloader = reloader;
	s->rpc = rpc;
	s->done = done;
	s->arg = arg;
	for (unsigned int i = 0; i < target->reactors_count; i++) {
		s->parts[i].status = s;
		s->parts[i].reactor = &target->reactors[i];
	}
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

	for (unsigned int i = 0; s && i < s->parts_count; i++)
		free(s->parts[i].connections.data);
	free(s);
	*out = NULL;
}
