/* SPDX-License-Identifier: BSD-3-Clause */
/* The target of a world: its configuration, its start, and its kinds of end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/bdev/inherit.h"
#include "target/bdev/jobs.h"
#include "target/config/config.h"
#include "target/manage/change/change.h"
#include "target/manage/objects/opening.h"
#include "target/nvmf/reactor.h"
#include "target/transport/rdma/rdma_transport.h"
#include "resv.h"
#include "sick.h"
#include "simfabric/streams.h"
#include "upgrade.h"
#include "world.h"

#define DRAIN_TIMEOUT (10 * RD_NSEC_PER_SEC)

const unsigned int target_namespaces = 1;

int target_config(struct world *w, const struct setup *setup)
{
	struct rdt_config *cfg = NULL;
	char text[SETUP_TEXT];
	int rc;

	setup_text(setup, w->secrets, w->in_capsule, w->sick != NULL, w->tcp, text);
	rc = setup_load(text, w->log, &cfg);
	if (rc)
		return rc;
	rdt_config_put(&w->cfg);
	w->cfg = cfg;
	setup_begins(&w->setup, setup, rd_sim_now(w->sim));
	return 0;
}

/* A reactor in a turn, or with something to do, may not have seen what was posted to it. */
static unsigned int reactors_with_work(struct world *w)
{
	unsigned int set = 0;

	for (unsigned int i = 0; i < WORLD_REACTORS; i++) {
		const struct actor *actor = world_actor(w, ACTOR_REACTOR + i);

		if (actor->blocked || rd_loop_next(actor->loop) <= rd_sim_now(w->sim))
			set |= 1u << i;
	}
	return set;
}

static void target_reloaded(struct rdt_change *ch)
{
	struct world *w = ch->arg;
	bool failed = !ch->applied || ch->problems || ch->restarts;

	w->reloading = false;
	/* It cannot write its state any more, and ends when no reactor is blocked. */
	if (failed && w->power_failed)
		return;
	if (failed)
		world_fail(w, "a reload failed: %s", ch->summary);
	setup_applied(&w->setup, reactors_with_work(w), rd_sim_now(w->sim));
	if (w->setup.now.effect[SETUP_REMOVED])
		marks_go(w->marks, rd_sim_now(w->sim));
}

void target_reload(struct world *w, const struct setup *setup)
{
	struct rdt_change *ch;

	if (w->target_state != TARGET_UP || w->reloading || upgrade_runs(w->upgrade))
		return;
	if (target_config(w, setup)) {
		world_fail(w, "the configuration cannot be read");
		return;
	}
	ch = rdt_change_new(RDT_CHANGE_FILE, NULL, 0);
	if (!ch) {
		world_fail(w, "out of memory");
		return;
	}
	w->reloading = true;
	w->reload_begun = rd_sim_now(w->sim);
	if (setup->effect[SETUP_REMOVED])
		marks_may_go(w->marks);
	ch->next = rdt_config_get(w->cfg);
	ch->settled = target_reloaded;
	ch->arg = w;
	rdt_converge(w->target, ch);
}

/* ---- an instance ---- */

static struct instance *instance_of(const struct rdt_target *t)
{
	return rd_container_of(t->env, struct instance, env);
}

/* The target of the world is down when both are. */
static void set_instance_state(struct instance *in, enum target_state state)
{
	struct world *w = in->w;
	const struct instance *serving = w->serving;
	const struct instance *other = &w->instances[serving == w->instances];

	in->state = state;
	if (in != serving && state == TARGET_DRAINED)
		rd_sim_at(w->sim, &in->gone, 0);
	if (serving->state != TARGET_DRAINED || other->state == TARGET_DOWN)
		w->target_state = serving->state;
}

static void instance_is_gone(struct rd_sim_event *event)
{
	struct instance *in = rd_container_of(event, struct instance, gone);

	upgrade_drained(in->w->upgrade, in);
	instance_end(in);
}

/* Those that cannot listen now, because the other instance does, are tried again. */
static int start_parts(struct instance *in, bool takes_over)
{
	struct rdt_target *t = in->target;
	struct actor *actors = in->w->actors + in->first;
	int rc;

	rdt_opening_begin(t);
	/* As at the start of rdtarget: what state_dir keeps is read first, and written. */
	while (rd_loop_turn(rdt_state_loop(t->state), 0) + rd_loop_turn(in->loop, 0) > 0)
		;
	rdt_opening_wait(t, 0);
	actors[ACTOR_STATE] = (struct actor){
		.name = "state", .loop = rdt_state_loop(t->state), .turn = world_turn_loop};
	rc = rdt_listeners_start(t);
	for (unsigned int i = 0; i < t->reactors_count && !rc; i++) {
		rc = rdt_reactor_setup(&t->reactors[i]);
		actors[ACTOR_REACTOR + i] = (struct actor){.name = "reactor",
							   .number = i,
							   .loop = t->reactors[i].loop,
							   .turn = world_turn_loop};
	}
	if (rc)
		return rc;
	rc = rdt_listeners_open(t);
	return takes_over ? 0 : rc;
}

static const struct rdt_rdma_env rdma_env = {.fab_open = rd_sim_open};
static const struct rdt_rdma_env iwarp_env = {.fab_open = rd_fab_iwarp_open};

int instance_start(struct instance *in, const struct rdt_inherit *inherit)
{
	struct world *w = in->w;
	unsigned int before = rd_sim_enter(in->process);
	int rc;

	in->env.seed = rd_sim_random(w->sim) | 1;
	in->env.inherit = inherit;
	in->env.transport_env[RDT_TRANSPORT_RDMA] = w->iwarp ? &iwarp_env : &rdma_env;
	rc = rdt_target_create(w->cfg, w->log, in->loop, &in->env, NULL, &in->target);
	if (!rc)
		rc = start_parts(in, inherit != NULL);
	set_instance_state(in, TARGET_UP);
	rd_sim_enter(before);
	return rc;
}

void instance_serves(struct instance *in)
{
	struct world *w = in->w;

	w->serving = in;
	w->target = in->target;
	w->target_state = in->state;
}

/* As drain_timeout does in rdtarget. */
static void drain_is_over(struct rd_sim_event *event)
{
	struct instance *in = rd_container_of(event, struct instance, drain_timeout);

	if (in->state == TARGET_DRAINING)
		rdt_target_abandon(in->target);
}

static void target_drained(struct rdt_target *t)
{
	set_instance_state(instance_of(t), TARGET_DRAINED);
}

void instance_drain(struct instance *in, bool now)
{
	unsigned int before = rd_sim_enter(in->process);

	if (in->state == TARGET_UP) {
		set_instance_state(in, TARGET_DRAINING);
		rdt_target_drain(in->target, target_drained);
	}
	in->drain_timeout.fn = drain_is_over;
	if (now || !in->drain_timeout.slot)
		rd_sim_at(in->w->sim, &in->drain_timeout, now ? 0 : DRAIN_TIMEOUT);
	rd_sim_enter(before);
}

void instance_end(struct instance *in)
{
	struct world *w = in->w;
	struct rdt_target *t = in->target;
	struct actor *actors = w->actors + in->first;
	unsigned int before = rd_sim_enter(in->process);

	rd_sim_cancel(w->sim, &in->drain_timeout);
	rdt_target_stop(t);
	world_check_pools(w, "the target", t);
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		actors[ACTOR_REACTOR + i].loop = NULL;
		rdt_reactor_teardown(&t->reactors[i]);
	}
	rdt_converge_fini(t); /* which may run */
	actors[ACTOR_STATE].loop = NULL;
	rdt_target_destroy(&in->target);
	set_instance_state(in, TARGET_DOWN);
	rd_sim_enter(before);
}

/* ---- the one that serves ---- */

int target_start(struct world *w)
{
	int rc = instance_start(w->serving, NULL);

	w->target = w->serving->target;
	if (!w->target)
		return rc;
	setup_started(&w->setup, rd_sim_now(w->sim));
	rd_sim_tell(w->sim, "the target is up");
	return rc;
}

void target_stop(struct world *w, enum target_stop how)
{
	static const char *const names[] = {[TARGET_STOPS] = "the target drains",
					    [TARGET_LOSES_POWER] = "the power fails",
					    [TARGET_IS_KILLED] = "the target is killed"};

	rd_sim_tell(w->sim, "%s", names[how]);
	upgrade_ends(w->upgrade, how != TARGET_STOPS);
	w->power_failed = how == TARGET_LOSES_POWER;
	if (w->power_failed) {
		store_stop(w->store);
		w->files.stopped = true;
	}
	if (how == TARGET_IS_KILLED)
		rd_sim_end_process(w->sim, w->serving->process);
	if (how != TARGET_STOPS)
		rd_sim_kill(w->sim, 0);
	sick_heal(w->sick); /* which the target waits for */
	instance_drain(w->serving, how != TARGET_STOPS);
}

void target_end(struct world *w)
{
	instance_end(w->serving);
	w->target = NULL;
	w->reloading = false;
	upgrade_over(w->upgrade);
	w->files.stopped = false;
	resv_restarted(w->resv, rd_sim_now(w->sim));
	marks_go(w->marks, rd_sim_now(w->sim));
	if (store_ios(w->store))
		world_fail(w, "the storage has I/O of a target that has ended");
	if (w->power_failed) {
		store_restart(w->store);
		world_judge_survival(w);
	}
	w->power_failed = false;
	rd_sim_tell(w->sim, "the target is down");
}

/* ---- life ---- */

static int open_store(struct rdt_target *target, const struct rdt_ns_config *cfg,
		      struct rdt_bdev **out)
{
	struct world *w = instance_of(target)->w;
	struct rdt_bdev_from from = {0};
	char why[256], *name = NULL;

	if (cfg->nsid == 2 && w->sick)
		return sick_open(w->sick, cfg->size_bytes, out);
	if (cfg->nsid == 1)
		return disk_open(w->store, cfg->size_bytes, w->log, out);
	if (rdt_inherit_storage(SETUP_NQN, cfg, &name))
		return -ENOMEM;
	from.fd = rdt_inherit_open(target->env->inherit, name);
	free(name);
	return rdt_bdev_open_on(NULL, cfg, from.fd < 0 ? NULL : &from, w->log, out, why,
				sizeof(why));
}

static int make_instance(struct instance *in)
{
	struct world *w = in->w;
	struct rd_loop_opts opts = {.log = w->log, .clock = rd_sim_clock(w->sim)};
	int rc;

	in->env = (struct rdt_env){
		.clock = rd_sim_clock(w->sim),
		.bdev_open = open_store,
		.run_job = rdt_job_run_now,
		.state_files = &w->files.ops,
	};
	opts.seed = in->first ? w->opts.seed * 2 + 1 : rd_sim_random(w->sim) | 1;
	rc = rd_loop_create(&opts, &in->loop);
	w->actors[in->first + ACTOR_MAIN] =
		(struct actor){.name = "main", .loop = in->loop, .turn = world_turn_loop};
	return rc;
}

int instances_new(struct world *w)
{
	int rc = 0;

	for (unsigned int i = 0; i < WORLD_INSTANCES && !rc; i++) {
		w->instances[i].w = w;
		w->instances[i].process = 1 + i;
		w->instances[i].first = i * ACTOR_NEXT;
		w->instances[i].gone.fn = instance_is_gone;
		rc = make_instance(&w->instances[i]);
	}
	w->serving = &w->instances[0];
	return rc;
}

void instances_free(struct world *w)
{
	for (unsigned int i = 0; i < WORLD_INSTANCES; i++)
		rd_loop_destroy(&w->instances[i].loop);
}
