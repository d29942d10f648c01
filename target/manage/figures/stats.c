/* SPDX-License-Identifier: BSD-3-Clause */
#include "stats.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/log.h"
#include "util/loop.h"
#include "util/sockaddr.h"
#include "target/bdev/backend.h"
#include "target/nvmf/ana.h"
#include "target/nvmf/listener.h"
#include "target/nvmf/reactor.h"
#include "target/nvmf/subsys.h"
#include "target/nvmf/target.h"
#include "target/reactor/lifecycle.h"
#include "target/manage/change/mgmt_if.h"
#include "target/manage/change/reloader.h"

/* Maximum time to wait for a reactor's answer. */
#define ANSWER_NS (500 * RD_NSEC_PER_MSEC)
/* Maximum number of namespaces copied in one iteration of the main loop. */
#define NS_SLICE 64u
/* Maximum number of host counters copied in one iteration. */
#define COUNTERS_SLICE 64u

struct rdt_sampler {
	struct rdt_target *target;
	struct rd_timer timer; /* timeout of reactors */
	struct rd_defer copy;  /* the next slice */
	struct rd_msg worked;  /* the thread has finished */
	pthread_t thread;
	bool working; /* @thread runs */
	bool closed;
	TAILQ_HEAD(, rdt_stats_ask) asks;
	struct rdt_stats_ask *ask; /* in progress */
	struct rdt_stats *stats;   /* what is being copied */
	unsigned int left;         /* reactors that have not answered */
	unsigned int slot;         /* next namespace to copy */
	unsigned int ns_room;
	unsigned int reactor; /* next reactor to copy */
	const struct rdt_host_counters
		*counters; /* the next ones of that reactor to copy; NULL: begin with the first */
	unsigned int counters_room;
	bool *out; /* [reactors]: a walk is in progress */
	const struct rdt_reloader *reloader;
	uint64_t started; /* Unix time */
};

static void sampler_next(struct rdt_sampler *s);

/* ---- sums ---- */

void rdt_stats_add(struct rdt_stats_io *sum, const struct rdt_stats_io *io)
{
	for (unsigned int i = 0; i < RDT_IO_OPS; i++) {
		sum->op[i].count += io->op[i].count;
		sum->op[i].bytes += io->op[i].bytes;
		sum->op[i].ns += io->op[i].ns;
		for (unsigned int j = 0; j < RDT_LAT_BUCKETS; j++)
			sum->op[i].bucket[j] += io->op[i].bucket[j];
	}
	for (unsigned int i = 0; i < RDT_COUNTS; i++)
		sum->events[i] += io->events[i];
	sum->other_errors += io->other_errors;
	for (unsigned int i = 0; i < RDT_ERROR_KINDS && io->status[i]; i++) {
		unsigned int j = 0;

		while (j < RDT_ERROR_KINDS && sum->status[j] && sum->status[j] != io->status[i])
			j++;
		if (j == RDT_ERROR_KINDS) {
			sum->other_errors += io->errors[i];
		} else {
			sum->status[j] = io->status[i];
			sum->errors[j] += io->errors[i];
		}
	}
	sum->in_flight += io->in_flight;
	sum->qpairs += io->qpairs;
	if (io->oldest_ns > sum->oldest_ns)
		sum->oldest_ns = io->oldest_ns;
}

uint64_t rdt_stats_failed(const struct rdt_stats_io *io)
{
	uint64_t failed = io->other_errors;

	for (unsigned int i = 0; i < RDT_ERROR_KINDS && io->status[i]; i++)
		failed += io->errors[i];
	return failed;
}

const char *rdt_stats_op_name(unsigned int op)
{
	static const char *const names[RDT_IO_OPS] = {
		[RDT_IO_FLUSH] = "flush",
		[RDT_IO_WRITE] = "write",
		[RDT_IO_READ] = "read",
		[RDT_IO_OTHER] = "other",
	};

	return op < RDT_IO_OPS ? names[op] : "?";
}

const char *rdt_stats_end_name(unsigned int end)
{
	static const char *const names[RDT_ENDS] = {
		[RDT_END_HOST] = "host",
		[RDT_END_LOST] = "lost",
		[RDT_END_FAULT] = "fault",
		[RDT_END_STALLED] = "slow_host",
		[RDT_END_KEEP_ALIVE] = "keep_alive",
		[RDT_END_CONTROLLER] = "controller",
		[RDT_END_NO_CONNECT] = "no_connect",
		[RDT_END_AUTH] = "authentication",
		[RDT_END_TARGET] = "target",
	};

	return end < RDT_ENDS ? names[end] : "?";
}

const struct rdt_percentile rdt_percentiles[RDT_PERCENTILES] = {
	{"p50", 50}, {"p99", 99}, {"p999", 99.9}};

uint64_t rdt_stats_percentile(const struct rdt_stats_op *op, double percent)
{
	unsigned int i = rd_hist_find(op->bucket, RDT_LAT_BUCKETS, op->count, percent);

	return i < RDT_LAT_BUCKETS ? rdt_lat_end(i) : 0;
}

/* ---- copies ---- */

static void stats_free(struct rdt_stats *stats)
{
	if (!stats)
		return;
	for (unsigned int i = 0; i < stats->ns_count; i++) {
		rdt_config_put(&stats->ns[i]->shown.cfg_of);
		rdt_nqn_put(stats->ns[i]->nqn);
		free(stats->ns[i]->why);
		free(stats->ns[i]);
	}
	for (unsigned int i = 0; i < stats->counters_count; i++)
		free(stats->counters[i].hostnqn);
	for (unsigned int i = 0; i < stats->listeners_count; i++)
		free(stats->listeners[i].address);
	for (unsigned int i = 0; i < stats->subsystems; i++)
		free(stats->subsys[i].nqn);
	free(stats->by_host);
	free(stats->subsys);
	free(stats->reactors);
	free(stats->ns);
	free(stats->counters);
	free(stats->listeners);
	free(stats);
}

static char *copy_text(struct rdt_stats *stats, const char *text)
{
	char *copy = strdup(text);

	stats->no_memory |= !copy;
	return copy;
}

static void add_ops(struct rdt_stats_io *io, const struct rdt_op_stats *ops)
{
	for (unsigned int i = 0; i < RDT_IO_OPS; i++) {
		io->op[i].bytes += rdt_counted(&ops[i].bytes);
		io->op[i].ns += rdt_counted(&ops[i].ns);
		for (unsigned int j = 0; j < RDT_LAT_BUCKETS; j++) {
			uint64_t n = rdt_counted(&ops[i].bucket[j]);

			io->op[i].bucket[j] += n;
			io->op[i].count += n;
		}
	}
}

static void add_errors(struct rdt_stats_io *io, const struct rdt_io_errors *errors)
{
	struct rdt_stats_io one = {.other_errors = rdt_counted(&errors->others)};

	for (unsigned int i = 0; i < RDT_ERROR_KINDS; i++) {
		one.status[i] = atomic_load_explicit(&errors->status[i], memory_order_relaxed);
		one.errors[i] = rdt_counted(&errors->count[i]);
		if (!one.status[i])
			break;
	}
	rdt_stats_add(io, &one);
}

static void add_in_flight(struct rdt_stats_io *io, const struct rdt_in_flight *f,
			  const struct rdt_reactor *r, uint64_t now)
{
	uint64_t oldest = atomic_load_explicit(&f->oldest, memory_order_relaxed);
	uint64_t age = now > oldest ? now - oldest : 0;

	if (atomic_load_explicit(&f->walk, memory_order_relaxed) !=
	    atomic_load_explicit(&r->walk.number, memory_order_relaxed))
		return;
	if (!atomic_load_explicit(&f->count, memory_order_relaxed))
		return; /* valid also for a reactor that has never walked */
	io->in_flight += atomic_load_explicit(&f->count, memory_order_relaxed);
	if (age > io->oldest_ns)
		io->oldest_ns = age;
}

static void copy_ns(struct rdt_sampler *s, struct rdt_ns *ns, uint64_t now)
{
	struct rdt_stats *stats = s->stats;
	struct rdt_stats_ns *copy = calloc(1, sizeof(*copy));

	if (!copy) {
		stats->no_memory = true;
		return;
	}
	copy->shown = rdt_ns_shown(ns);
	copy->nqn = rdt_nqn_get(ns->subsys->name);
	rdt_config_get(copy->shown.cfg_of);
	copy->size = copy->shown.blocks << copy->shown.lbads;
	copy->live = copy->shown.state == RDT_NS_LIVE;
	copy->storage_failed = copy->shown.state == RDT_NS_FAILED;
	copy->ana_group = copy->shown.ana_group;
	if (copy->shown.stalled_seconds > 0)
		copy->stalled_ns = (uint64_t)(copy->shown.stalled_seconds * RD_NSEC_PER_SEC);
	stats->ns_states[copy->shown.state]++;
	if (copy->shown.listed)
		stats->ana_used[copy->shown.ana_group] = true;
	if (copy->shown.why)
		copy->shown.why = copy->why = copy_text(stats, copy->shown.why);
	for (unsigned int i = 0; i < s->target->reactors_count; i++) {
		const struct rdt_ns_post *post = &ns->posts[i];
		const struct rdt_ns_stats *from =
			atomic_load_explicit(&post->stats, memory_order_acquire);

		add_in_flight(&copy->io, &post->in_flight, &s->target->reactors[i], now);
		if (!from)
			continue;
		add_ops(&copy->io, from->op);
		add_errors(&copy->io, &from->errors);
		for (unsigned int j = 0; j < RDT_NS_COUNTS; j++)
			copy->io.events[j] += rdt_counted(&from->events[j]);
	}
	stats->ns[stats->ns_count++] = copy;
}

static bool ns_has_room(struct rdt_sampler *s)
{
	struct rdt_stats_ns **more;

	if (s->stats->ns_count < s->ns_room)
		return true;
	more = realloc(s->stats->ns, 2 * (s->ns_room + NS_SLICE) * sizeof(struct rdt_stats_ns *));
	s->stats->no_memory |= !more;
	if (!more)
		return false;
	s->stats->ns = more;
	s->ns_room = 2 * (s->ns_room + NS_SLICE);
	return true;
}

static void copy_some_ns(struct rdt_sampler *s)
{
	uint64_t now = rd_loop_now_raw(s->target->loop);
	unsigned int copied = 0;

	for (; s->slot < RDT_NS_SLOTS && copied < NS_SLICE; s->slot++) {
		struct rdt_ns *ns = s->target->ns[s->slot];

		if (!ns || !ns_has_room(s))
			continue;
		copy_ns(s, ns, now);
		copied++;
	}
}

static int listener_index(const struct rdt_target *t, const struct rdt_listener *of)
{
	const struct rdt_listener *l;
	int i = 0;

	TAILQ_FOREACH (l, &t->listeners, link) {
		if (l == of)
			return i;
		i++;
	}
	return -1;
}

/* Counters of a disconnected host count for its listener. */
static void copy_counters(struct rdt_sampler *s, const struct rdt_host_counters *from,
			  unsigned int reactor, uint64_t now)
{
	struct rdt_stats *stats = s->stats;
	struct rdt_stats_counters *counters = &stats->counters[stats->counters_count++];
	unsigned int qpairs = atomic_load_explicit(&from->qpairs, memory_order_relaxed);

	memset(counters, 0, sizeof(*counters));
	counters->hostnqn = from->hostnqn && qpairs ? copy_text(stats, from->hostnqn) : NULL;
	counters->listener = listener_index(s->target, from->listener);
	counters->reactor = reactor;
	counters->io.qpairs = qpairs;
	add_ops(&counters->io, from->op);
	add_errors(&counters->io, &from->errors);
	for (unsigned int j = 0; j < RDT_COUNTS; j++)
		counters->io.events[j] = rdt_counted(&from->events[j]);
	add_in_flight(&counters->io, &from->in_flight, &s->target->reactors[reactor], now);
}

static bool counters_have_room(struct rdt_sampler *s)
{
	unsigned int room = 2 * (s->counters_room + COUNTERS_SLICE);
	struct rdt_stats_counters *more;

	if (s->stats->counters_count < s->counters_room)
		return true;
	more = realloc(s->stats->counters, room * sizeof(*more));
	s->stats->no_memory |= !more;
	if (!more)
		return false;
	s->stats->counters = more;
	s->counters_room = room;
	return true;
}

/* Returns whether all counters of @r are copied. */
static bool copy_some_counters(struct rdt_sampler *s, struct rdt_reactor *r)
{
	uint64_t now = rd_loop_now_raw(s->target->loop);

	if (!s->counters) {
		rdt_counters_list_hold(&r->counters_list);
		s->counters = &r->counters_list.nobody;
	}
	for (unsigned int i = 0; i < COUNTERS_SLICE && s->counters;
	     i++, s->counters = rdt_host_counters_next(s->counters))
		if (counters_have_room(s))
			copy_counters(s, s->counters, r->index, now);
	if (!s->counters)
		rdt_counters_list_release(&r->counters_list);
	return !s->counters;
}

static void copy_reactor(struct rdt_sampler *s, struct rdt_reactor *r)
{
	uint64_t now = rd_loop_now_raw(s->target->loop);
	struct rdt_stats_reactor *copy = &s->stats->reactors[r->index];

	copy->answered = !s->out[r->index];
	copy->busy_ns = rd_loop_busy(r->loop);
	copy->spun_ns = rd_loop_spun(r->loop);
	copy->longest_ns = rd_loop_longest(r->loop, now);
	if (copy->answered)
		copy->found = r->walk.found;
	else
		memset(&copy->found, 0xff, sizeof(copy->found)); /* RDT_FIGURE_NONE */
}

static void copy_some_of_reactor(struct rdt_sampler *s, struct rdt_reactor *r)
{
	if (!s->counters)
		copy_reactor(s, r);
	if (copy_some_counters(s, r))
		s->reactor++;
}

/* A listener that cannot listen has no bound address. It gets the configured address with the port,
 * because several listeners may fail on one address. */
static const char *listener_name(const struct rdt_listener *l, char text[RD_ADDR_TEXT])
{
	struct sockaddr_storage addr = l->addr;

	if (l->phase == RDT_LISTENER_FAILED && rd_addr_parse(l->cfg->address, l->cfg->port, &addr))
		return l->cfg->address;
	return rd_addr_format((const struct sockaddr *)&addr, text);
}

static void copy_listeners(struct rdt_stats *stats, const struct rdt_target *t)
{
	const struct rdt_listener *l;
	unsigned int count = 0;
	char text[RD_ADDR_TEXT];

	TAILQ_FOREACH (l, &t->listeners, link)
		count++;
	stats->listeners = calloc(count + 1, sizeof(*stats->listeners));
	stats->no_memory |= !stats->listeners;
	if (!stats->listeners)
		return;
	TAILQ_FOREACH (l, &t->listeners, link) {
		struct rdt_stats_listener *copy = &stats->listeners[stats->listeners_count++];

		copy->portid = l->portid;
		copy->listening = l->phase == RDT_LISTENER_LISTENING;
		for (unsigned int g = 1; g <= RDT_ANA_GROUPS; g++)
			copy->ana[g] = (uint8_t)rdt_ana_told_by(t, l, g);
		copy->address = copy_text(stats, listener_name(l, text));
	}
}

static void copy_subsys(struct rdt_stats *stats, const struct rdt_subsys *ss)
{
	struct rdt_stats_subsys *copy = &stats->subsys[stats->subsystems++];

	copy->nqn = copy_text(stats, ss->nqn);
	copy->auth.successes = atomic_load(&ss->auth_successes);
	copy->auth.failures = atomic_load(&ss->auth_failures);
	stats->auth.successes += copy->auth.successes;
	stats->auth.failures += copy->auth.failures;
	for (unsigned int i = 0; i < stats->reactors_count; i++) {
		const struct rdt_counters *c = &ss->counters[i];

		copy->reads += rdt_counted(&c->reads);
		copy->writes += rdt_counted(&c->writes);
		copy->read_bytes += 512 * rdt_counted(&c->blocks_read);
		copy->written_bytes += 512 * rdt_counted(&c->blocks_written);
		copy->media_errors += rdt_counted(&c->media_errors);
	}
}

static void copy_target(struct rdt_stats *stats, struct rdt_target *t)
{
	struct rdt_subsys *ss;
	unsigned int at = 0;

	stats->uptime_ns = rd_loop_now_raw(t->loop) - t->started_ns;
	stats->disc_auth.successes = atomic_load(&t->disc.auth_successes);
	stats->disc_auth.failures = atomic_load(&t->disc.auth_failures);
	stats->auth = stats->disc_auth;
	stats->tls_handshakes = atomic_load(&t->tls_handshakes);
	stats->tls_refusals = atomic_load(&t->tls_refusals);
	stats->upgrade_pause_ns = t->taken_over ? t->upgrade_pause_ns : RDT_FIGURE_NONE;
	stats->subsys = calloc(t->subsys_count + 1u, sizeof(*stats->subsys));
	stats->no_memory |= !stats->subsys;
	for (unsigned int i = 0; i < stats->reactors_count; i++)
		rdt_reactor_totals(&t->reactors[i], &stats->reactors[i].reads,
				   &stats->reactors[i].writes);
	while (stats->subsys && (ss = rdt_subsys_next(t, &at))) {
		if (!rdt_subsys_live(ss))
			continue;
		copy_subsys(stats, ss);
		pthread_mutex_lock(&ss->lock);
		stats->controllers += ss->ctrls_count;
		pthread_mutex_unlock(&ss->lock);
	}
	copy_listeners(stats, t);
}

/* ---- requests ---- */

static void sampler_answer(struct rdt_sampler *s)
{
	struct rdt_stats_ask *ask = s->ask;
	struct rdt_stats *stats = s->stats;

	s->ask = NULL;
	s->stats = NULL;
	ask->done(ask, stats && !stats->no_memory ? stats : NULL);
	stats_free(stats);
	if (!s->closed)
		sampler_next(s);
}

static void work_ended(struct rd_msg *msg)
{
	struct rdt_sampler *s = rd_container_of(msg, struct rdt_sampler, worked);

	if (s->closed)
		return;
	pthread_join(s->thread, NULL);
	s->working = false;
	sampler_answer(s);
}

static void *run_work(void *arg)
{
	struct rdt_sampler *s = arg;

	pthread_setname_np(pthread_self(), "stats");
	s->stats->no_memory = rdt_stats_sum(s->stats);
	if (!s->stats->no_memory)
		s->ask->work(s->ask, s->stats);
	rd_loop_post(s->target->loop, &s->worked);
	return NULL;
}

static void sampler_copied(struct rdt_sampler *s)
{
	if (s->stats->no_memory) {
		sampler_answer(s);
		return;
	}
	s->working = pthread_create(&s->thread, NULL, run_work, s) == 0;
	if (s->working)
		return;
	s->stats->no_memory = true;
	sampler_answer(s);
}

static void copy_slice(struct rd_defer *defer)
{
	struct rdt_sampler *s = rd_container_of(defer, struct rdt_sampler, copy);

	if (s->slot < RDT_NS_SLOTS)
		copy_some_ns(s);
	else if (s->reactor < s->target->reactors_count)
		copy_some_of_reactor(s, &s->target->reactors[s->reactor]);
	if (s->slot < RDT_NS_SLOTS || s->reactor < s->target->reactors_count)
		rd_defer(s->target->loop, &s->copy, RD_DEFER_NEXT);
	else
		sampler_copied(s);
}

static void begin_copy(struct rdt_sampler *s)
{
	const struct rdt_mgmt_if *rpc = s->target->rpc;

	rd_timer_stop(s->target->loop, &s->timer);
	s->left = 0;
	s->stats->version = RDT_VERSION;
	s->stats->started = s->started;
	s->stats->state = rdt_show_state(s->target);
	s->stats->reload_good = (uint64_t)s->reloader->good_at;
	s->stats->reload_ok = rdt_reloader_good(s->reloader);
	s->stats->control_up = rpc ? !rpc->failed(rpc) : RDT_FIGURE_NONE;
	copy_target(s->stats, s->target);
	rd_defer(s->target->loop, &s->copy, RD_DEFER_NEXT);
}

static void no_answer(struct rd_timer *timer)
{
	begin_copy(rd_container_of(timer, struct rdt_sampler, timer));
}

static void walk_done(struct rdt_reactor *r)
{
	struct rdt_sampler *s = r->walk.arg;

	s->out[r->index] = false;
	if (!s->closed && s->left && --s->left == 0)
		begin_copy(s);
}

/* A reactor that has not finished an earlier walk gets no second one. */
static void ask_reactors(struct rdt_sampler *s)
{
	struct rdt_target *t = s->target;

	for (unsigned int i = 0; i < t->reactors_count; i++) {
		struct rdt_walk *walk = &t->reactors[i].walk;

		if (s->out[i])
			continue;
		s->out[i] = true;
		s->left++;
		walk->done = walk_done;
		walk->arg = s;
		walk->msg.fn = rdt_walk_begin;
		rd_loop_post(t->reactors[i].loop, &walk->msg);
	}
	if (!s->left || rd_timer_start(t->loop, &s->timer, ANSWER_NS))
		begin_copy(s);
}

static void sampler_next(struct rdt_sampler *s)
{
	struct rdt_stats_ask *ask = TAILQ_FIRST(&s->asks);

	if (s->ask || !ask)
		return;
	TAILQ_REMOVE(&s->asks, ask, link);
	s->ask = ask;
	s->slot = s->reactor = s->ns_room = s->counters_room = 0;
	s->counters = NULL;
	s->stats = calloc(1, sizeof(*s->stats));
	if (s->stats) {
		s->stats->reactors_count = s->target->reactors_count;
		s->stats->reactors = calloc(s->target->reactors_count, sizeof(*s->stats->reactors));
	}
	if (!s->stats || !s->stats->reactors) {
		stats_free(s->stats);
		s->stats = NULL;
		sampler_answer(s);
		return;
	}
	ask_reactors(s);
}

void rdt_stats_ask(struct rdt_sampler *s, struct rdt_stats_ask *ask)
{
	TAILQ_INSERT_TAIL(&s->asks, ask, link);
	sampler_next(s);
}

int rdt_sampler_new(struct rdt_target *target, const struct rdt_reloader *reloader,
		    struct rdt_sampler **out)
{
	struct rdt_sampler *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->out = calloc(target->reactors_count, sizeof(*s->out));
	if (!s->out) {
		free(s);
		return -ENOMEM;
	}
	s->target = target;
	s->reloader = reloader;
	s->started = (uint64_t)time(NULL);
	s->timer.fn = no_answer;
	s->copy.fn = copy_slice;
	s->worked.fn = work_ended;
	TAILQ_INIT(&s->asks);
	*out = s;
	return 0;
}

void rdt_sampler_close(struct rdt_sampler *s)
{
	if (!s)
		return;
	s->closed = true;
	rd_timer_stop(s->target->loop, &s->timer);
	rd_defer_cancel(s->target->loop, &s->copy);
	if (s->working)
		pthread_join(s->thread, NULL);
	s->working = false;
	stats_free(s->stats);
	s->stats = NULL;
	s->ask = NULL;
	TAILQ_INIT(&s->asks);
}

void rdt_sampler_free(struct rdt_sampler **s)
{
	if (!*s)
		return;
	free((*s)->out);
	free(*s);
	*s = NULL;
}
