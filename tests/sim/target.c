/* SPDX-License-Identifier: BSD-3-Clause */
/* The target of a world: its configuration, its start, and its two kinds of end. */
#include <string.h>

#include "target/config/config.h"
#include "target/manage/change/change.h"
#include "target/manage/objects/opening.h"
#include "target/nvmf/reactor.h"
#include "resv.h"
#include "sick.h"
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
static unsigned int reactors_with_work(const struct world *w)
{
	unsigned int set = 0;

	for (unsigned int i = 0; i < WORLD_REACTORS; i++) {
		const struct actor *actor = &w->actors[ACTOR_REACTOR + i];

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

	if (w->target_state != TARGET_UP || w->reloading)
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

int target_start(struct world *w)
{
	struct rdt_target *t;
	int rc;

	w->target_env.seed = rd_sim_random(w->sim) | 1;
	rc = rdt_target_create(w->cfg, w->log, w->loop, &w->target_env, NULL, &w->target);
	if (rc)
		return rc;
	t = w->target;
	rdt_opening_begin(t);
	/* As at the start of rdtarget: what state_dir keeps is read first, and written. */
	while (rd_loop_turn(rdt_state_loop(t->state), 0) + rd_loop_turn(w->loop, 0) > 0)
		;
	rdt_opening_wait(t, 0);
	w->actors[ACTOR_STATE] = (struct actor){
		.name = "state", .loop = rdt_state_loop(t->state), .turn = world_turn_loop};
	rc = rdt_listeners_start(t);
	for (unsigned int i = 0; i < t->reactors_count && !rc; i++) {
		rc = rdt_reactor_setup(&t->reactors[i]);
		w->actors[ACTOR_REACTOR + i] = (struct actor){.name = "reactor",
							      .number = i,
							      .loop = t->reactors[i].loop,
							      .turn = world_turn_loop};
	}
	if (!rc)
		rc = rdt_listeners_open(t);
	setup_started(&w->setup, rd_sim_now(w->sim));
	w->target_state = TARGET_UP;
	rd_sim_tell(w->sim, "the target is up");
	return rc;
}

static struct world *world_of(struct rdt_target *t)
{
	return rd_container_of(t->env, struct world, target_env);
}

/* As drain_timeout does in rdtarget. */
static void drain_is_over(struct rd_sim_event *event)
{
	struct world *w = rd_container_of(event, struct world, drain_timeout);

	if (w->target_state == TARGET_DRAINING)
		rdt_target_abandon(w->target);
}

static void target_drained(struct rdt_target *t)
{
	world_of(t)->target_state = TARGET_DRAINED;
}

void target_stop(struct world *w, bool power_fails)
{
	rd_sim_tell(w->sim, power_fails ? "the power fails" : "the target drains");
	w->target_state = TARGET_DRAINING;
	w->power_failed = power_fails;
	if (power_fails) {
		store_stop(w->store);
		w->files.stopped = true;
		rd_sim_kill(w->sim, 0);
	}
	sick_heal(w->sick); /* which the target waits for */
	rdt_target_drain(w->target, target_drained);
	w->drain_timeout.fn = drain_is_over;
	rd_sim_at(w->sim, &w->drain_timeout, power_fails ? 0 : DRAIN_TIMEOUT);
}

void target_end(struct world *w)
{
	struct rdt_target *t = w->target;

	rd_sim_cancel(w->sim, &w->drain_timeout);
	rdt_target_stop(t);
	world_check_pools(w, "the target", t);
	for (unsigned int i = 0; i < t->reactors_count; i++) {
		w->actors[ACTOR_REACTOR + i].loop = NULL;
		rdt_reactor_teardown(&t->reactors[i]);
	}
	rdt_converge_fini(t); /* which may run */
	w->reloading = false;
	w->actors[ACTOR_STATE].loop = NULL;
	rdt_target_destroy(&w->target);
	w->files.stopped = false;
	resv_restarted(w->resv, rd_sim_now(w->sim));
	marks_go(w->marks, rd_sim_now(w->sim));
	w->target_state = TARGET_DOWN;
	if (store_ios(w->store))
		world_fail(w, "the storage has I/O of a target that has ended");
	if (w->power_failed) {
		store_restart(w->store);
		world_judge_survival(w);
	}
	w->power_failed = false;
	rd_sim_tell(w->sim, "the target is down");
}
