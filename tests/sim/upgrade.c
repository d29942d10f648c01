/* SPDX-License-Identifier: BSD-3-Clause */
#include "upgrade.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/manage/upgrade/ns_hand.h"
#include "target/manage/upgrade/ns_record.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/move.h"
#include "target/nvmf/transport.h"

#include "faults.h"
#include "hand.h"
#include "host.h"
#include "sick.h"
#include "simfabric/streams.h"

#define PAUSE_MAX  (2 * RD_NSEC_PER_SEC) /* at most, from one hand-over to the next */
#define STEP_MAX   (5 * RD_NSEC_PER_MSEC)
#define HOLD_LIMIT RD_NSEC_PER_SEC
#define TOOK_LIMIT (3 * RD_NSEC_PER_SEC)
#define STAND_MAX  (5 * RD_NSEC_PER_SEC)
/* One of so many steps has the next process end, or the one that hands over. */
#define NEXT_DIES_IN 12u
#define LAST_DIES_IN 60u

enum upgrade_state {
	UPGRADE_IDLE,      /* the time has come -> OPENING */
	UPGRADE_OPENING,   /* what is open is on its way to the next process -> READY, FAILING */
	UPGRADE_READY,     /* it has opened all that -> HOLDING */
	UPGRADE_HOLDING,   /* connections come to a rest -> MOVING, FAILING */
	UPGRADE_MOVING,    /* their records are on their way -> TAKING, FAILING */
	UPGRADE_TAKING,    /* the next process builds them -> TOOK, FAILING */
	UPGRADE_TOOK,      /* that it has is on its way back -> COMMITTED */
	UPGRADE_COMMITTED, /* the next process is told -> LEAVING */
	UPGRADE_LEAVING,   /* the process that has handed over ends -> IDLE */
	/* The next process ends before the commit. -> IDLE */
	UPGRADE_FAILING, /* the old one is told */
	UPGRADE_FAILED,
};

struct upgrade {
	struct world *w;
	enum upgrade_state state;
	struct instance *last, *next; /* who hands over, and who takes over */
	struct rd_sim_event step;
	struct rd_sim_event late; /* the next process does not answer */
	struct hand hand;
	bool builds;         /* the next process builds connections, and will say so */
	bool force;          /* storage that does not answer does not refuse */
	unsigned int behind; /* namespaces that are left behind */
	bool steady;         /* when connections were held, all could move */
	unsigned int number; /* of hand-overs that were begun */
	unsigned int done;   /* and that succeeded */
};

static void next_step(struct upgrade *u, enum upgrade_state state)
{
	u->state = state;
	rd_sim_at(u->w->sim, &u->step, rd_sim_below(u->w->sim, STEP_MAX));
}

/* ---- who can move ---- */

/* Every connection of the hosts is established, and nothing disturbs it. */
static bool all_can_move(const struct world *w)
{
	bool can = world_all_moves(w) && w->disturbed_until < rd_sim_now(w->sim) && !w->observer &&
		   !w->discovery && !w->secrets && !w->reconfigures && !sick_hangs(w->sick);

	for (unsigned int i = 0; i < w->devs; i++)
		can &= host_is_steady(w->hosts[i]);
	return can;
}

/* ---- records ---- */

static void drop_records(struct upgrade *u)
{
	unsigned int before = rd_sim_enter(u->next->process);

	if (u->next->target)
		u->next->env.inherit = NULL;
	hand_drop(&u->hand);
	rd_sim_enter(before);
}

/* ---- the end without a commit ---- */

/* Whatever the next process has begun, it begins nothing else. */
static void next_ends(struct upgrade *u, bool killed)
{
	struct rd_sim *sim = u->w->sim;

	if (u->state == UPGRADE_IDLE || u->state >= UPGRADE_COMMITTED)
		return;
	rd_sim_tell(sim, "hand-over %u: the next process %s", u->number,
		    killed ? "is killed" : "ends");
	if (killed)
		rd_sim_end_process(sim, u->next->process);
	next_step(u, UPGRADE_FAILING);
	rd_sim_cancel(sim, &u->late);
}

/* The old process learns it. */
static void go_on(struct upgrade *u)
{
	unsigned int before = rd_sim_enter(u->last->process);

	if (u->last->target && u->last->state == TARGET_UP)
		hand_go_on(u->last->target);
	rd_sim_enter(before);
}

static void wait_for_next(struct upgrade *u)
{
	drop_records(u);
	u->state = UPGRADE_IDLE;
	rd_sim_at(u->w->sim, &u->step, rd_sim_below(u->w->sim, PAUSE_MAX));
}

void upgrade_over(struct upgrade *u)
{
	if (upgrade_runs(u))
		wait_for_next(u);
}

/* What remains of the next process. */
static void clean_up(struct upgrade *u)
{
	unsigned int before = rd_sim_enter(u->next->process);

	if (u->next->state == TARGET_UP && !u->builds) {
		rdt_move_done(u->next->target);
		instance_drain(u->next, true);
	}
	rd_sim_enter(before);
	if (u->next->state != TARGET_DOWN) {
		rd_sim_at(u->w->sim, &u->step, STEP_MAX);
		return;
	}
	wait_for_next(u);
}

static void refuse_upgrade(struct upgrade *u, const char *who, int rc)
{
	rd_sim_tell(u->w->sim, "hand-over %u: %s refuses: %s", u->number, who,
		    u->hand.why[0] ? u->hand.why : strerror(-rc));
	next_ends(u, rd_sim_chance(u->w->sim, 1, 2));
}

static void took_late(struct rd_sim_event *event)
{
	struct upgrade *u = rd_container_of(event, struct upgrade, late);

	snprintf(u->hand.why, sizeof(u->hand.why),
		 "the next process has not taken the connections in time");
	if (u->w->disturbed_until < rd_sim_now(u->w->sim))
		world_fail(u->w, "hand-over %u: %s", u->number, u->hand.why);
	refuse_upgrade(u, "the old process", -ETIMEDOUT);
}

void upgrade_ends(struct upgrade *u, bool killed)
{
	if (!u)
		return;
	if (u->state == UPGRADE_COMMITTED) { /* the target that ends is the next one */
		u->state = UPGRADE_LEAVING;
		if (!killed) {
			rdt_move_start(u->next->target);
			rdt_listeners_hold(u->next->target, false);
		} else {
			rdt_move_done(u->next->target);
		}
		return;
	}
	/* What remains of a process that is killed has no connections, but a hold. */
	if ((u->state >= UPGRADE_HOLDING && u->state < UPGRADE_COMMITTED) ||
	    u->state == UPGRADE_FAILING)
		go_on(u);
	next_ends(u, killed);
}

/* ---- the steps ---- */

static bool may_begin(const struct upgrade *u)
{
	const struct world *w = u->w;

	return w->target_state == TARGET_UP && !w->reloading && !w->ending && !w->target->hold &&
	       !w->target->move_in;
}

static void begin_upgrade(struct upgrade *u)
{
	struct world *w = u->w;
	int rc;

	if (!may_begin(u)) {
		if (!w->ending)
			rd_sim_at(w->sim, &u->step, rd_sim_below(w->sim, PAUSE_MAX));
		return;
	}
	u->last = w->serving;
	u->next = &w->instances[w->serving == w->instances];
	u->number++;
	rd_sim_tell(w->sim, "fault: upgrade: hand-over %u", u->number);
	rd_sim_enter(u->next->process);
	rc = hand_pass_open(&u->hand, u->last->target, w->cfg);
	rd_sim_enter(0);
	if (rc) {
		u->state = UPGRADE_OPENING;
		refuse_upgrade(u, "the old process", rc);
		return;
	}
	next_step(u, UPGRADE_OPENING);
}

static void open_all(struct upgrade *u)
{
	int rc = instance_start(u->next, u->hand.inherit);

	if (rc) {
		world_fail(u->w, "hand-over %u: the next process does not start: %s", u->number,
			   strerror(-rc));
		return;
	}
	rc = rdt_ns_records_check(u->next->target, u->hand.open, u->hand.why, sizeof(u->hand.why));
	if (rc)
		refuse_upgrade(u, "the next process", rc);
	else
		next_step(u, UPGRADE_READY);
}

static void is_held(void *arg, int err, const char *why)
{
	struct upgrade *u = arg;
	struct world *w = u->w;
	struct rdt_target *t = u->last->target;
	int rc;

	if (u->state != UPGRADE_HOLDING)
		return;
	if (err) {
		snprintf(u->hand.why, sizeof(u->hand.why), "%s", why);
		if (w->disturbed_until < rd_sim_now(w->sim) && !w->sick)
			world_fail(w, "hand-over %u: connections are not held: %s", u->number, why);
		refuse_upgrade(u, "the old process", err);
		return;
	}
	u->steady = u->steady && all_can_move(w);
	u->behind = rdt_ns_leave_behind(t);
	if (u->behind)
		rd_sim_tell(w->sim, "hand-over %u: %u namespaces are left behind", u->number,
			    u->behind);
	rc = hand_pass_state(&u->hand, t, u->next->process);
	if (rc)
		world_fail(w, "hand-over %u: no records of connections: %s", u->number,
			   strerror(-rc));
	if (u->steady && rdt_move_counted(t).left)
		world_fail(w, "hand-over %u: %u connections cannot move", u->number,
			   rdt_move_counted(t).left);
	next_step(u, UPGRADE_MOVING);
	rd_sim_at(w->sim, &u->late, TOOK_LIMIT);
}

static void hold_all(struct upgrade *u)
{
	struct rdt_target *t = u->last->target;
	int rc;

	/* A configuration does not change during a hand-over. */
	if (u->w->reloading) {
		refuse_upgrade(u, "the old process", -EBUSY);
		return;
	}
	u->state = UPGRADE_HOLDING;
	u->steady = all_can_move(u->w);
	u->behind = 0;
	u->force = rd_sim_chance(u->w->sim, 1, 2);
	rdt_listeners_hold(t, true);
	rc = rdt_hold(t, HOLD_LIMIT, u->force, is_held, u);
	if (rc)
		world_fail(u->w, "hand-over %u: rdt_hold: %s", u->number, strerror(-rc));
}

static void is_in(void *arg, int err, const char *why)
{
	struct upgrade *u = arg;

	u->builds = false;
	if (u->state != UPGRADE_TAKING)
		return;
	if (err) {
		world_fail(u->w, "hand-over %u: the connections are refused: %s", u->number,
			   why ? why : strerror(-err));
		return;
	}
	next_step(u, UPGRADE_TOOK);
}

static void take_all(struct upgrade *u)
{
	int rc;

	u->state = UPGRADE_TAKING;
	u->builds = true;
	rc = hand_take(&u->hand, u->next->target, is_in, u);
	if (rc)
		world_fail(u->w, "hand-over %u: the records are refused: %s", u->number,
			   u->hand.why[0] ? u->hand.why : strerror(-rc));
}

/* The old process writes the commit. */
static void commit(struct upgrade *u)
{
	struct world *w = u->w;
	struct rdt_move_count out = rdt_move_counted(u->last->target),
			      in = rdt_move_in_counted(u->next->target);

	rd_sim_cancel(w->sim, &u->late);
	rd_sim_tell(w->sim, "hand-over %u: commit: %u connections, %u left, %u taken", u->number,
		    out.queues, out.left, in.queues);
	if (out.left || in.left)
		world_disturb(w, 0);
	if (u->steady && in.left)
		world_fail(w, "hand-over %u: %u connections are not taken", u->number, in.left);
	if (in.queues + in.left != out.queues)
		world_fail(w, "hand-over %u: of %u connections %u were taken and %u left",
			   u->number, out.queues, in.queues, in.left);
	instance_serves(u->next);
	rd_sim_enter(u->last->process);
	if (rd_sim_chance(w->sim, 1, NEXT_DIES_IN)) {
		rd_sim_tell(w->sim, "hand-over %u: the old process is killed", u->number);
		rd_sim_end_process(w->sim, u->last->process);
	}
	rdt_move_done(u->last->target);
	instance_drain(u->last, false);
	rd_sim_enter(0);
	next_step(u, UPGRADE_COMMITTED);
}

static void begin_to_serve(struct upgrade *u)
{
	struct world *w = u->w;
	struct rdt_target *t = u->next->target;

	rdt_move_start(t);
	rdt_listeners_hold(t, false);
	rdt_ns_records_tell(t, u->hand.open);
	setup_started(&w->setup, rd_sim_now(w->sim));
	for (unsigned int i = 0; i < WORLD_REACTORS; i++)
		setup_turned(&w->setup, i, w->setup.applied, rd_sim_now(w->sim));
	u->done++;
	next_step(u, UPGRADE_LEAVING);
}

void upgrade_drained(struct upgrade *u, struct instance *in)
{
	if (!u || in != u->last || !u->behind || u->state < UPGRADE_COMMITTED ||
	    u->state > UPGRADE_LEAVING || !u->next->target)
		return;
	if (hand_end(&u->hand, in->target, u->next->target, u->next->process))
		world_fail(u->w, "hand-over %u: no records at the end: %s", u->number, u->hand.why);
	u->behind = 0;
}

static void look_left(struct upgrade *u)
{
	if (u->behind)
		world_disturb(u->w, 0);
	if (u->last->state != TARGET_DOWN) {
		rd_sim_at(u->w->sim, &u->step, STEP_MAX);
		return;
	}
	wait_for_next(u);
}

/* ---- what goes wrong ---- */

/* Whose turn is it? */
static struct instance *actor_of(const struct upgrade *u)
{
	switch (u->state) {
	case UPGRADE_OPENING:
	case UPGRADE_MOVING:
	case UPGRADE_COMMITTED:
		return u->next;
	default:
		return u->last;
	}
}

/* Returns whether somebody ends instead of the next step. */
static bool somebody_dies(struct upgrade *u)
{
	struct world *w = u->w;

	if (u->state == UPGRADE_IDLE || u->state >= UPGRADE_LEAVING)
		return false;
	if (u->state < UPGRADE_COMMITTED && rd_sim_chance(w->sim, 1, NEXT_DIES_IN)) {
		next_ends(u, true);
		return true;
	}
	if (!rd_sim_chance(w->sim, 1, LAST_DIES_IN) || w->target_state != TARGET_UP)
		return false;
	world_disturb(w, 0);
	target_stop(w, TARGET_IS_KILLED);
	return true;
}

/* A thread of the next process stands still, and connections rest meanwhile. */
static void somebody_stands(struct upgrade *u)
{
	struct world *w = u->w;
	unsigned int number = (unsigned int)rd_sim_below(w->sim, ACTOR_DEV);
	uint64_t ns = rd_sim_below(w->sim, STAND_MAX);

	if (u->state != UPGRADE_READY || !(w->opts.faults & 1u << FAULT_STALL) ||
	    !rd_sim_chance(w->sim, 1, 8))
		return;
	world_disturb(w, ns);
	w->actors[u->next->first + number].stalled_until = rd_sim_now(w->sim) + ns;
}

static void upgrade_step(struct rd_sim_event *event)
{
	static void (*const steps[])(struct upgrade * u) = {
		[UPGRADE_IDLE] = begin_upgrade, [UPGRADE_OPENING] = open_all,
		[UPGRADE_READY] = hold_all,     [UPGRADE_MOVING] = take_all,
		[UPGRADE_TOOK] = commit,        [UPGRADE_COMMITTED] = begin_to_serve,
		[UPGRADE_LEAVING] = look_left,  [UPGRADE_FAILED] = clean_up,
	};
	struct upgrade *u = rd_container_of(event, struct upgrade, step);
	struct world *w = u->w;
	const struct instance *in = actor_of(u);
	const struct actor *main = in ? &w->actors[in->first + ACTOR_MAIN] : NULL;
	unsigned int before;

	if (u->state != UPGRADE_IDLE && main->stalled_until > rd_sim_now(w->sim)) {
		rd_sim_at(w->sim, event, main->stalled_until - rd_sim_now(w->sim));
		return;
	}
	if (u->state == UPGRADE_FAILING) {
		go_on(u);
		next_step(u, UPGRADE_FAILED);
		return;
	}
	if (somebody_dies(u))
		return;
	somebody_stands(u);
	before = rd_sim_enter(in ? in->process : 0);
	steps[u->state](u);
	rd_sim_enter(before);
}

bool upgrade_runs(const struct upgrade *u)
{
	return u && u->state != UPGRADE_IDLE;
}

int upgrade_new(struct world *w, struct upgrade **out)
{
	struct upgrade *u = calloc(1, sizeof(*u));

	*out = u;
	if (!u)
		return -ENOMEM;
	u->w = w;
	u->step.fn = upgrade_step;
	u->late.fn = took_late;
	hand_init(&u->hand);
	return rd_sim_at(w->sim, &u->step, rd_sim_below(w->sim, PAUSE_MAX));
}

void upgrade_free(struct upgrade *u)
{
	if (!u)
		return;
	rd_sim_cancel(u->w->sim, &u->step);
	rd_sim_cancel(u->w->sim, &u->late);
	if (u->next)
		drop_records(u);
	free(u);
}
