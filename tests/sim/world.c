/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buddy.h"

#include "target/bdev/jobs.h"
#include "target/nvmf/ns.h"
#include "target/nvmf/pool.h"
#include "target/nvmf/request.h"
#include "target/transport/rdma/rdma_transport.h"

#include "discovery.h"
#include "faults.h"
#include "io_judge.h"
#include "orders.h"
#include "resv.h"
#include "sick.h"
#include "simfabric/streams.h"

/* The target says after 15 s what has not settled. */
#define RELOAD_MAX (16 * RD_NSEC_PER_SEC)
#define START_TIME (1000 * RD_NSEC_PER_SEC)
#define TURN_COST  (20 * RD_NSEC_PER_USEC) /* at most */
/* How long after a fault commands may be lost or late because of it: a host learns of a lost
 * connection when keep alive fails, and a command has three time limits. */
#define AFTERMATH (20 * RD_NSEC_PER_SEC)
/*
 * The time after the last fault within which all commands must end. Storage that is slow may take
 * 35 s more; a host must not wait until TCP gives up, which takes 60 s. Only its commands without a
 * time limit may, when nothing else has it learn that their connection is lost.
 */
#define END_NS    (50 * RD_NSEC_PER_SEC)
#define LEARNED   RD_NSEC_PER_SEC /* from then on until these have ended */
#define END_STEPS 2000000u
#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* ---- the trace ---- */

static void trace_line(void *arg, const char *line)
{
	struct world *w = arg;

	for (const char *p = line; *p; p++)
		w->hash = (w->hash ^ (uint8_t)*p) * FNV_PRIME;
	w->hash = (w->hash ^ rd_sim_now(w->sim)) * FNV_PRIME;
	if (w->opts.trace)
		printf("%" PRIu64 " %" PRIu64 ".%09" PRIu64 " %s\n", w->step,
		       rd_sim_now(w->sim) / RD_NSEC_PER_SEC, rd_sim_now(w->sim) % RD_NSEC_PER_SEC,
		       line);
}

void world_fail(struct world *w, const char *fmt, ...)
{
	char line[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (w->sim)
		rd_sim_tell(w->sim, "violation: %s", line);
	if (!w->failed[0])
		snprintf(w->failed, sizeof(w->failed), "step %" PRIu64 ": %s", w->step, line);
}

static void log_line(void *arg, enum rd_log_level level, const char *line)
{
	struct world *w = arg;

	(void)level;
	if (w->secrets && secrets_shown(line))
		world_fail(w, "the log has a part of a secret");
	trace_line(arg, line);
}

/* ---- turns ---- */

struct actor *world_actor(struct world *w, unsigned int kind)
{
	return &w->actors[w->serving->first + kind];
}

/* The process whose thread @actor is. */
static unsigned int process_of(const struct world *w, const struct actor *actor)
{
	for (unsigned int i = 0; i < WORLD_INSTANCES; i++) {
		const struct actor *first = &w->actors[w->instances[i].first];

		if (actor >= first && actor < first + ACTOR_DEV)
			return w->instances[i].process;
	}
	return 0;
}

static bool can_turn(const struct world *w, const struct actor *actor)
{
	uint64_t now = rd_sim_now(w->sim);

	return actor->loop && !actor->blocked && actor->stalled_until <= now &&
	       (actor->signaled || rd_loop_next(actor->loop) <= now);
}

/* The time at which the next actor can take a turn, or a message arrives. */
static uint64_t next_time(const struct world *w)
{
	uint64_t at = rd_sim_next(w->sim);

	for (unsigned int i = 0; i < ACTORS; i++) {
		const struct actor *actor = &w->actors[i];
		uint64_t next =
			actor->loop && !actor->blocked ? rd_loop_next(actor->loop) : UINT64_MAX;

		if (next != UINT64_MAX && actor->signaled)
			next = 0;
		if (next != UINT64_MAX && next < actor->stalled_until)
			next = actor->stalled_until;
		if (next < at)
			at = next;
	}
	return at;
}

static void take_turn(struct world *w, struct actor *actor)
{
	unsigned int applied = w->setup.applied, before;
	uint64_t begin;
	int rc;

	rd_sim_advance(w->sim, rd_sim_now(w->sim) + 1 + rd_sim_below(w->sim, TURN_COST));
	begin = rd_sim_now(w->sim);
	actor->signaled = false;
	before = rd_sim_enter(process_of(w, actor));
	rc = actor->turn(actor);
	rd_sim_enter(before);
	actor->turned_at = rd_sim_now(w->sim);
	if (rc < 0)
		world_fail(w, "%s %u: a turn has failed: %s", actor->name, actor->number,
			   strerror(-rc));
	if (actor >= world_actor(w, ACTOR_REACTOR) && actor < world_actor(w, ACTOR_DEV))
		setup_turned(&w->setup, actor->number, applied, rd_sim_now(w->sim));
	if (actor == world_actor(w, ACTOR_MAIN))
		setup_main_turned(&w->setup, begin, rd_sim_now(w->sim));
}

/* A thread has written to a descriptor of a loop of the hosts. */
static void deliver_signals(struct world *w)
{
	if (!w->threads.signals)
		return;
	w->threads.signals = 0;
	for (unsigned int i = ACTOR_DEV; i <= ACTOR_OBSERVER; i++)
		w->actors[i].signaled = true;
}

bool world_step(struct world *w)
{
	struct actor *ready[ACTORS];
	unsigned int count = 0;
	uint64_t at;

	w->step++;
	rd_sim_run(w->sim);
	deliver_signals(w);
	for (unsigned int i = 0; i < ACTORS; i++)
		if (can_turn(w, &w->actors[i]))
			ready[count++] = &w->actors[i];
	if (count) {
		take_turn(w, ready[rd_sim_below(w->sim, count)]);
		return true;
	}
	at = next_time(w);
	if (at == UINT64_MAX)
		return false;
	rd_sim_advance(w->sim, at);
	return true;
}

static void look_after_target(struct world *w)
{
	int rc = 0;

	if (w->target_state == TARGET_DRAINED)
		target_end(w);
	else if (w->ending && w->target_state == TARGET_UP && !setup_is_normal(&w->setup.next))
		target_reload(w, &(struct setup){0});
	else if (w->target_state == TARGET_DOWN && rd_sim_chance(w->sim, 1, 50))
		rc = target_start(w);
	if (rc)
		world_fail(w, "the target does not start: %s", strerror(-rc));
}

static unsigned int all_unlimited(const struct world *w)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < w->devs; i++)
		count += host_unlimited(w->hosts[i]);
	return count;
}

/* What has time limits. */
static unsigned int all_limited(const struct world *w)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < w->devs; i++)
		count += host_inflight(w->hosts[i]);
	count += w->settled && !w->settled(w);
	/* Of the namespace that hangs, too, they are told. */
	if (!sick_hangs(w->sick))
		count += observer_busy(w->observer) + discovery_busy(w->discovery);
	return count;
}

/* Whether the answer to a change takes too long. */
static void judge_reload(struct world *w)
{
	uint64_t now = rd_sim_now(w->sim);

	if (w->reloading && now > w->reload_begun + RELOAD_MAX && now > w->disturbed_until)
		world_fail(w, "a reload has taken more than %u s",
			   (unsigned int)(RELOAD_MAX / RD_NSEC_PER_SEC));
}

static void run_step(struct world *w)
{
	look_after_target(w);
	for (unsigned int i = 0; i < w->devs; i++)
		host_acts(w->hosts[i]);
	observer_acts(w->observer);
	discovery_acts(w->discovery);
	if (w->secrets)
		auth_judge(w);
	if (w->target_state == TARGET_UP)
		judge_reload(w);
	if (!world_step(w))
		world_fail(w, "nothing will ever happen again");
}

/* A reactor is blocked within its turn: all others go on. */
static void reactor_blocks(void *arg, const struct rd_loop *loop, uint64_t ns)
{
	struct world *w = arg;
	uint64_t until = rd_sim_now(w->sim) + ns;
	struct actor *actor = world_actor(w, ACTOR_REACTOR);

	world_disturb(w, ns);
	while (actor->loop != loop)
		actor++;
	rd_sim_tell(w->sim, "%s %u is blocked by the storage", actor->name, actor->number);
	actor->blocked = true;
	rd_sim_at(w->sim, &w->unblock[actor->number], ns);
	while (rd_sim_now(w->sim) < until && !w->failed[0])
		run_step(w);
	actor->blocked = false;
	actor->stalled_until = rd_sim_now(w->sim);
	rd_sim_tell(w->sim, "%s %u goes on", actor->name, actor->number);
}

bool world_sends_all(void)
{
	return target_namespaces == 1;
}

void world_disturb(struct world *w, uint64_t ns)
{
	uint64_t until = rd_sim_now(w->sim) + ns + AFTERMATH;

	if (w->disturbed_until < until)
		w->disturbed_until = until;
}

/* Without faults, all that began must end. */
static void run_to_end(struct world *w, const char *what)
{
	uint64_t end = rd_sim_now(w->sim) + END_NS, steps = w->step + END_STEPS;
	uint64_t unlimited_end = end;

	while (all_limited(w) + all_unlimited(w) && !w->failed[0]) {
		uint64_t learned = rd_sim_learns(w->sim) + LEARNED;

		if (unlimited_end < learned)
			unlimited_end = learned;
		run_step(w);
		if (rd_sim_now(w->sim) > (all_limited(w) ? end : unlimited_end) || w->step > steps)
			world_fail(w, "%u %s have not ended", all_limited(w) + all_unlimited(w),
				   what);
	}
}

static void check_network(struct world *w)
{
	const struct rd_sim_errors *errors = rd_sim_errors(w->sim);

	if (errors->access || errors->no_recv || errors->length)
		world_fail(w,
			   "on the network: %" PRIu64 " accesses that were not allowed, %" PRIu64
			   " messages without a RECV, %" PRIu64 " too long",
			   errors->access, errors->no_recv, errors->length);
}

/* The hosts disconnect, then the target ends; no resource may be left. */
static void take_down(struct world *w)
{
	uint64_t end = rd_sim_now(w->sim) + END_NS;

	for (unsigned int i = 0; i < w->devs; i++) {
		host_free(w->hosts[i]);
		w->hosts[i] = NULL;
	}
	observer_free(w->observer);
	w->observer = NULL;
	w->actors[ACTOR_OBSERVER].loop = NULL;
	discovery_free(w->discovery);
	w->discovery = NULL;
	if (w->target_state == TARGET_UP)
		target_stop(w, TARGET_STOPS);
	while (w->target_state == TARGET_DRAINING && rd_sim_now(w->sim) < end)
		if (!world_step(w))
			break;
	if (w->target_state == TARGET_DRAINED)
		target_end(w);
	if (w->target)
		world_fail(w, "the target does not end");
	else if (rd_sim_leaked(w->sim))
		world_fail(w, "%u objects of fabrics were left", rd_sim_leaked(w->sim));
}

bool world_run(struct world *w)
{
	char why[256];

	while (w->step < w->opts.steps && !w->failed[0])
		run_step(w);
	if (!w->failed[0]) {
		rd_sim_tell(w->sim, "no more faults");
		w->ending = true;
		faults_heal(w->faults);
		run_to_end(w, "commands");
	}
	if (!w->failed[0] && w->sick) { /* all else has ended beside it */
		sick_heal(w->sick);
		run_to_end(w, "commands of the disk that has hung");
	}
	if (!w->failed[0]) {
		for (unsigned int i = 0; i < w->devs; i += w->secrets ? 1 : WORLD_HOSTS)
			host_reads_all(w->hosts[i]);
		run_to_end(w, "reads");
	}
	if (!w->failed[0] && !check_history(w->check, why, sizeof(why)))
		world_fail(w, "%s", why);
	if (!w->failed[0])
		check_network(w);
	if (resv_overflowed(w->resv))
		world_fail(w, "too many states of the reservation are possible");
	if (!w->failed[0])
		take_down(w);
	return !w->failed[0];
}

/* ---- life ---- */

int world_turn_loop(struct actor *actor)
{
	return rd_loop_turn(actor->loop, 0) < 0 ? -EIO : 0;
}

/* Hosts repeat writes because of a lost connection, or an error. */
static bool may_be_repeated(const struct world *w, uint64_t begin)
{
	bool alone = w->opts.faults == fault_upgrade;

	return !w->no_resend && (!alone || w->disturbed_until >= begin);
}

void world_judge_write(void *arg, uint64_t value)
{
	struct world *w = arg;
	uint64_t begin;
	unsigned int host = check_host_of(w->check, value, &begin);

	if (check_block_of(value) >= WORLD_BLOCKS)
		return; /* of another namespace */
	if (check_stored(w->check, value) > 1 && !may_be_repeated(w, begin))
		world_fail(w, "host %u: block %u is written twice by one command", host,
			   check_block_of(value));
	if (resv_fenced(w->resv, host))
		world_fail(w, "host %u: block %u is written after Preempt and Abort", host,
			   check_block_of(value));
	else if (!resv_permitted(w->resv, host, true, begin))
		world_fail(w, "host %u: block %u is written although a reservation forbids it",
			   host, check_block_of(value));
	for (unsigned int i = SETUP_READ_ONLY; i <= SETUP_REMOVED; i++)
		if (setup_certain(&w->setup, i, begin))
			world_fail(w, "host %u: block %u of a namespace is written that is %s",
				   host, check_block_of(value),
				   i == SETUP_READ_ONLY ? "read-only" : "removed");
}

static void judge_use(void *arg, const char *what)
{
	world_fail(arg, "the storage: %s", what);
}

void world_judge_survival(void *arg)
{
	struct world *w = arg;
	char why[256];

	for (unsigned int i = 0; i < WORLD_BLOCKS; i++)
		if (!check_survived(w->check, i, store_value(w->store, i), rd_sim_now(w->sim), why,
				    sizeof(why)))
			world_fail(w, "%s", why);
}

void world_check_pools(struct world *w, const char *name, const struct rdt_target *t)
{
	for (unsigned int i = 0; i < t->reactors_count; i++)
		for (int id = 0; id < RDT_POOLS; id++) {
			const struct rdt_pool *pool = &t->reactors[i].pools[id];

			if (rd_buddy_free_bytes(pool->buddy) != rd_buddy_total_bytes(pool->buddy) ||
			    pool->waiting)
				world_fail(
					w,
					"%s: buffers of reactor %u, pool %d, were not given back",
					name, i, id);
		}
}

static bool setup_was_shorter(struct world *w, unsigned int ns, unsigned int end, uint64_t begin)
{
	(void)ns;
	return end > SETUP_SHORT_BLOCKS && setup_possible(&w->setup, SETUP_SHORT, begin);
}

static bool hosts_know_size(const struct world *w)
{
	bool know = true;

	for (unsigned int i = 0; i < WORLD_HOSTS; i++)
		know &= host_blocks(w->hosts[i]) == SETUP_BLOCKS;
	return know;
}

static void time_passes(struct rd_sim_event *event)
{
	(void)event;
}

/* And what judges it. */
static int make_store(struct world *w)
{
	static const struct store_watcher judges = {.written = world_judge_write,
						    .begins = io_judge_begin,
						    .stores = orders_store,
						    .reads = orders_read,
						    .misused = judge_use,
						    .dropped = world_judge_survival};

	w->store = store_new(w->sim, WORLD_BLOCKS);
	w->check = check_new(WORLD_BLOCKS * target_namespaces);
	w->marks = marks_new(WORLD_BLOCKS);
	w->resv = resv_new();
	if (!w->store || !w->check || !w->marks || !w->resv)
		return -ENOMEM;
	store_watch(w->store, &judges, w);
	store_on_block(w->store, reactor_blocks);
	for (unsigned int i = 0; i < WORLD_REACTORS; i++)
		w->unblock[i].fn = time_passes;
	setup_init(&w->setup);
	return 0;
}

static int make_sick(struct world *w)
{
	const unsigned int kinds = 1u << FAULT_HUNG | FAULTS_KEYS | FAULTS_FENCE;
	bool sick = world_sends_all() && w->opts.seed % SICK_IN == 1 && w->opts.faults & kinds;

	return sick ? sick_new(w, &w->sick) : 0;
}

/* In some seeds hosts authenticate; in few with Diffie-Hellman, which takes milliseconds. */
static int make_secrets(struct world *w)
{
	bool keys = w->opts.faults & FAULTS_KEYS;

	if (target_namespaces != 1 || !w->reconfigures || !(keys || rd_sim_chance(w->sim, 1, 2)))
		return 0;
	if (secrets_new(&w->secrets))
		return -EIO;
	w->threads.sim = w->sim;
	process_enter(&w->threads);
	if (keys && rd_sim_chance(w->sim, 1, 4))
		w->secrets->group = "ffdhe2048";
	return 0;
}

/* Without a random number, so that the other seeds stay as they are. */
static void choose_transports(struct world *w)
{
	static const enum world_transport shares[] = {WORLD_RDMA, WORLD_RDMA, WORLD_TCP,
						      WORLD_BOTH};
	uint64_t mixed = w->opts.seed * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	if (w->opts.transport == WORLD_ANY) {
		w->opts.transport = world_sends_all() ? shares[mixed % 4] : WORLD_RDMA;
		/* Of an RDMA device no connection moves. */
		w->iwarp = w->opts.faults & fault_upgrade && mixed & 48;
	}
	w->iwarp |= w->opts.transport == WORLD_IWARP;
	w->iwarp &= w->opts.transport != WORLD_TCP;
	w->tcp = w->opts.transport == WORLD_TCP ? (2u << WORLD_PATHS) - 1 : 0;
	if (w->opts.transport == WORLD_BOTH)
		w->tcp = mixed & 4 ? 1u << 1 : 1u << 1 | 1u << WORLD_PATHS;
	w->digests = w->tcp && mixed & 8 && !w->iwarp; /* which has none */
	rd_sim_streams(w->sim);
}

bool world_all_moves(const struct world *w)
{
	const unsigned int all = (2u << WORLD_PATHS) - 1;

	return w->iwarp || (w->tcp & all) == all;
}

/* What differs from seed to seed. */
static void choose_kind(struct world *w)
{
	w->no_resend = rd_sim_chance(w->sim, 1, 2);
	w->reserves = rd_sim_chance(w->sim, 1, 3) && w->opts.faults & 1u << FAULT_RESERVE;
	w->in_capsule = rd_sim_chance(w->sim, 1, 2) ? 1024 : 256;
	w->reconfigures = rd_sim_chance(w->sim, 1, 3) && w->opts.faults & 1u << FAULT_RELOAD;
	w->reconfigures |= (w->opts.faults & FAULTS_KEYS) != 0;
	choose_transports(w);
}

static int make_world(struct world *w)
{
	struct rd_sim_opts opts = {
		.seed = w->opts.seed,
		.start_ns = START_TIME,
		/* Slow, so that timeouts and faults are near in steps. */
		.latency_ns = 20 * RD_NSEC_PER_USEC,
		.jitter_ns = 5 * RD_NSEC_PER_MSEC,
		.trace = trace_line,
		.trace_arg = w,
	};
	bool discovers;
	int rc = rd_sim_create(&opts, &w->sim);

	if (!rc)
		rc = rd_log_create("sim", -1, RD_LOG_DEBUG, log_line, w, &w->log);
	if (!rc)
		rc = instances_new(w);
	if (rc)
		return rc;
	choose_kind(w);
	w->host_env = (struct rdi_env){.fab_open = w->iwarp ? rd_fab_iwarp_open : rd_sim_open,
				       .clock = rd_sim_clock(w->sim),
				       .host_files = &rdi_host_files};
	rc = make_secrets(w);
	if (rc)
		return rc;
	files_init(&w->files);
	if (world_sends_all()) {
		w->was_shorter = setup_was_shorter;
		w->settled = hosts_know_size;
	}
	w->submits_in = 4;
	w->devs = WORLD_HOSTS * target_namespaces;
	w->disturbed_until = UINT64_MAX;
	rc = make_store(w);
	if (!rc)
		rc = make_sick(w);
	if (!rc)
		rc = target_config(w, &(struct setup){0});
	if (!rc)
		rc = faults_new(w, &w->faults);
	if (!rc)
		rc = target_start(w);
	for (unsigned int i = 0; i < w->devs && !rc; i++)
		rc = host_new(w, i, &w->hosts[i]);
	if (!rc && !w->gateways && (w->reconfigures || w->reserves))
		rc = observer_new(w, &w->observer);
	discovers = !w->gateways && w->reconfigures && rd_sim_chance(w->sim, 1, 2);
	if (!rc && discovers && !(w->upgrade && !world_all_moves(w)))
		rc = discovery_new(w, &w->discovery);
	return rc;
}

int world_new(const struct world_opts *opts, struct world **out)
{
	struct world *w = calloc(1, sizeof(*w));
	int rc;

	*out = w;
	if (!w)
		return -ENOMEM;
	w->opts = *opts;
	w->hash = FNV_START;
	if (world_sends_all() && (opts->faults | faults_all()) == opts->faults &&
	    !(opts->faults & (FAULTS_KEYS | FAULTS_FENCE)) && opts->seed % FAULTS_FENCE_IN == 2)
		w->opts.faults = FAULTS_FENCE | (opts->faults & fault_upgrade);
	rc = make_world(w);
	if (rc)
		world_fail(w, "the world was not made: %s", strerror(-rc));
	return rc;
}

/* After a violation, the rest of the world is not taken down: it may be in any state. */
void world_free(struct world *w)
{
	if (!w)
		return;
	if (w->secrets)
		process_enter(NULL);
	if (w->failed[0])
		return;
	faults_free(w->faults);
	rdt_config_put(&w->cfg);
	instances_free(w);
	sick_free(w->sick);
	store_free(w->store);
	files_free(&w->files);
	marks_free(w->marks);
	resv_free(w->resv);
	secrets_free(w->secrets);
	check_free(w->check);
	rd_sim_destroy(&w->sim);
	rd_log_destroy(&w->log);
	free(w);
}
