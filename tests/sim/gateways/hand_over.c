/* SPDX-License-Identifier: BSD-3-Clause */
#include "hand_over.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/bdev/inherit.h"
#include "target/manage/upgrade/ns_hand.h"
#include "target/manage/upgrade/ns_record.h"
#include "target/nvmf/hold.h"
#include "target/nvmf/move.h"
#include "target/nvmf/ns.h"

#include "../faults.h"
#include "../hand.h"
#include "gateways.h"

#define STEP_MAX     (5 * RD_NSEC_PER_MSEC)
#define LOOK_AGAIN   (20 * RD_NSEC_PER_MSEC)
#define HOLD_LIMIT   RD_NSEC_PER_SEC /* these four as in rdtarget */
#define HOLD_TRIES   500u
#define SETTLE_LIMIT RD_NSEC_PER_SEC
#define TOOK_LIMIT   (3 * RD_NSEC_PER_SEC)
#define SAYS_SOON    (100 * RD_NSEC_PER_MSEC)
#define SAYS_LATE    (5 * RD_NSEC_PER_SEC) /* it waits so long for counters */
#define STAND_MAX    (30 * RD_NSEC_PER_SEC)
/* One of so many steps has a process end, or stand still. */
#define DIES_IN   12u
#define STANDS_IN 12u

enum hand_state {
	HAND_IDLE,      /* hand_begin() -> OPENING */
	HAND_OPENING,   /* what is open is on its way -> OPENS, FAILING */
	HAND_OPENS,     /* the next process opens its images -> READY, FAILING */
	HAND_READY,     /* it has said that it is ready -> HOLDING, FAILING */
	HAND_HOLDING,   /* connections come to a rest -> SETTLING, FAILING */
	HAND_SETTLING,  /* caches are written -> MOVING, FAILING */
	HAND_MOVING,    /* the records of connections are on their way -> TAKING, FAILING */
	HAND_TAKING,    /* the next process builds them -> TOOK, FAILING */
	HAND_TOOK,      /* that it has is on its way back -> COMMITTED, FAILING */
	HAND_COMMITTED, /* the next process is told -> LEAVING */
	HAND_LEAVING,   /* the process that has handed over ends -> IDLE */
	HAND_FAILING,   /* the next process has ended, and the old one is told -> FAILED */
	HAND_FAILED,    /* what is left of the next one goes -> IDLE */
};

struct hand_over {
	struct gateways *all;
	enum hand_state state;
	struct gateway *last, *next;  /* who hands over, and who takes over */
	const struct process *served; /* of @next, since the commit */
	struct rd_sim_event step;
	struct rd_sim_event late; /* the next process does not answer */
	struct hand hand;
	bool kills, stands;
	bool builds;         /* the next process builds connections, and will say so */
	bool stored;         /* it knows that the old process has left its storage */
	unsigned int behind; /* namespaces that are left behind */
	unsigned int tries;
	uint64_t settle_by;
	uint64_t says_at; /* when the next process says that it serves */
	unsigned int machine;
	unsigned int number; /* of hand-overs that were begun */
};

static struct rd_sim *sim_of(const struct hand_over *h)
{
	return h->all->w->sim;
}

static bool happens_in(const struct hand_over *h, bool may, unsigned int one_of)
{
	return may && rd_sim_chance(sim_of(h), 1, one_of);
}

static struct gateway *other_slot(const struct gateway *gw)
{
	return &gw->all->slots[(gw->slot + GATEWAYS) % SLOTS];
}

bool hand_has_other(const struct gateway *gw)
{
	const struct gateway *other = other_slot(gw);

	return other->all && other->state != GATEWAY_DOWN;
}

struct gateway *hand_some(struct gateway *gw)
{
	bool other = hand_has_other(gw) && rd_sim_chance(gw->all->w->sim, 1, 2);

	return other ? other_slot(gw) : gw;
}

static void next_step(struct hand_over *h, enum hand_state state)
{
	h->state = state;
	rd_sim_at(sim_of(h), &h->step, rd_sim_below(sim_of(h), STEP_MAX));
}

static void drop_records(struct hand_over *h)
{
	struct gateway_before before = gateway_enter(h->next);

	if (h->next->env.inherit == h->hand.inherit)
		h->next->env.inherit = NULL;
	hand_drop(&h->hand);
	gateway_leave(before);
}

/* ---- the end without a commit ---- */

/* At once, as that of rdtarget before a commit. */
static void next_ends(struct hand_over *h)
{
	rd_sim_tell(sim_of(h), "hand-over %u of gateway %u: the next process ends", h->number,
		    h->machine);
	if (h->next->state != GATEWAY_DOWN)
		gateway_dies(h->next);
	rd_sim_cancel(sim_of(h), &h->late);
	next_step(h, HAND_FAILING);
}

static void go_on(struct hand_over *h)
{
	struct gateway_before before = gateway_enter(h->last);

	if (h->last->state == GATEWAY_UP)
		hand_go_on(h->last->target);
	gateway_leave(before);
}

static void refuse_hand(struct hand_over *h, const char *who, int rc)
{
	rd_sim_tell(sim_of(h), "hand-over %u of gateway %u: %s process refuses: %s", h->number,
		    h->machine, who, h->hand.why[0] ? h->hand.why : strerror(-rc));
	next_ends(h);
}

static void hand_is_late(struct rd_sim_event *event)
{
	struct hand_over *h = rd_container_of(event, struct hand_over, late);

	snprintf(h->hand.why, sizeof(h->hand.why), "it was not taken in time");
	refuse_hand(h, "the old", -ETIMEDOUT);
}

/* The old process learns that the next one has ended. */
static void old_goes_on(struct hand_over *h)
{
	go_on(h);
	h->state = HAND_FAILED;
	rd_sim_at(sim_of(h), &h->step, LOOK_AGAIN);
}

/* What is left of the next process. */
static void clean_up(struct hand_over *h)
{
	struct gateway_before before = gateway_enter(h->next);

	if (h->next->state == GATEWAY_READY && !h->builds) {
		rdt_move_done(h->next->target);
		gateway_begin_drain(h->next);
	}
	gateway_leave(before);
	if (h->next->state != GATEWAY_DOWN) {
		rd_sim_at(sim_of(h), &h->step, LOOK_AGAIN);
		return;
	}
	drop_records(h);
	h->state = HAND_IDLE;
}

/* ---- before the commit ---- */

static bool may_begin(const struct hand_over *h)
{
	const struct gateway *gw = h->all->gateway[h->machine];

	return h->state == HAND_IDLE && !h->all->ending && gw->state == GATEWAY_UP &&
	       !hand_has_other(gw) && !gw->target->hold && !gw->target->move_in;
}

bool hand_refuses(const struct hand_over *h)
{
	return h &&
	       ((h->state > HAND_IDLE && h->state < HAND_COMMITTED) || h->state == HAND_FAILING);
}

void hand_begin(struct hand_over *h)
{
	struct gateway_before before;
	int rc;

	if (!may_begin(h))
		return;
	h->last = h->all->gateway[h->machine];
	h->next = other_slot(h->last);
	h->number++;
	h->behind = h->tries = 0;
	h->stored = false;
	h->served = NULL;
	rd_sim_tell(sim_of(h), "hand-over %u of gateway %u", h->number, h->machine);
	before = gateway_enter(h->next);
	rc = hand_pass_open(&h->hand, h->last->target, h->next->cfg);
	gateway_leave(before);
	if (rc)
		refuse_hand(h, "the old", rc);
	else
		next_step(h, HAND_OPENING);
}

static void open_images(struct hand_over *h)
{
	int rc = gateway_start(h->next, h->hand.inherit);

	if (rc)
		world_fail(h->all->w, "hand-over %u of gateway %u: no next process: %s", h->number,
			   h->machine, strerror(-rc));
	h->state = HAND_OPENS;
}

void hand_ready(struct hand_over *h)
{
	int rc;

	if (h->state != HAND_OPENS)
		return;
	rc = rdt_ns_records_check(h->next->target, h->hand.open, h->hand.why, sizeof(h->hand.why));
	if (rc)
		refuse_hand(h, "the next", rc);
	else
		next_step(h, HAND_READY);
}

static void is_held(void *arg, int err, const char *why)
{
	struct hand_over *h = arg;

	if (h->state != HAND_HOLDING)
		return;
	if (err) {
		snprintf(h->hand.why, sizeof(h->hand.why), "%s", why);
		refuse_hand(h, "the old", err);
		return;
	}
	h->behind = rdt_ns_leave_behind(h->last->target);
	if (h->behind)
		rd_sim_tell(sim_of(h), "hand-over %u of gateway %u: %u namespaces are left behind",
			    h->number, h->machine, h->behind);
	h->settle_by = rd_sim_now(sim_of(h)) + SETTLE_LIMIT;
	rdt_ns_hand(h->last->target, RDT_HAND_SETTLE);
	next_step(h, HAND_SETTLING);
}

static void hold_all(struct hand_over *h)
{
	struct rdt_target *t = h->last->target;
	int rc;

	rdt_listeners_hold(t, true);
	h->state = HAND_HOLDING;
	rc = rdt_hold(t, HOLD_LIMIT, rd_sim_chance(sim_of(h), 1, 2), is_held, h);
	if (rc == -EBUSY && h->tries++ < HOLD_TRIES)
		next_step(h, HAND_READY); /* it still releases the one before */
	else if (rc)
		refuse_hand(h, "the old", rc);
}

static void look_settled(struct hand_over *h)
{
	int rc = rdt_ns_handed(h->last->target, h->hand.why, sizeof(h->hand.why));

	if (rc == -EINPROGRESS && rd_sim_now(sim_of(h)) < h->settle_by) {
		next_step(h, HAND_SETTLING);
		return;
	}
	if (!rc)
		rc = hand_pass_state(&h->hand, h->last->target, h->next->sockets);
	if (rc) {
		refuse_hand(h, "the old", rc);
		return;
	}
	next_step(h, HAND_MOVING);
	rd_sim_at(sim_of(h), &h->late, TOOK_LIMIT);
}

static void is_in(void *arg, int err, const char *why)
{
	struct hand_over *h = arg;

	h->builds = false;
	if (h->state != HAND_TAKING)
		return;
	if (err)
		world_fail(h->all->w, "hand-over %u of gateway %u: connections are refused: %s",
			   h->number, h->machine, why ? why : strerror(-err));
	else
		next_step(h, HAND_TOOK);
}

static void take_all(struct hand_over *h)
{
	int rc;

	h->state = HAND_TAKING;
	h->builds = true;
	rc = hand_take(&h->hand, h->next->target, is_in, h);
	if (rc)
		world_fail(h->all->w, "hand-over %u of gateway %u: records are refused: %s",
			   h->number, h->machine, h->hand.why[0] ? h->hand.why : strerror(-rc));
}

/* ---- the commit, and after it ---- */

static void old_leaves(struct hand_over *h)
{
	bool killed = happens_in(h, h->kills, DIES_IN);

	if (killed) {
		rd_sim_tell(sim_of(h), "hand-over %u of gateway %u: the old process is killed",
			    h->number, h->machine);
		gateway_dies(h->last);
		gateways_not_handed(h->all);
	}
	rdt_move_done(h->last->target);
	if (!killed)
		rdt_ns_hand(h->last->target, RDT_HAND_LEAVE);
	gateway_begin_drain(h->last);
	if (!killed && happens_in(h, h->stands, STANDS_IN)) {
		gateways_not_handed(h->all);
		gateway_stall(h->last, rd_sim_below(sim_of(h), STAND_MAX));
	}
}

static void commit(struct hand_over *h)
{
	struct rdt_move_count out = rdt_move_counted(h->last->target),
			      in = rdt_move_in_counted(h->next->target);

	rd_sim_cancel(sim_of(h), &h->late);
	rd_sim_tell(sim_of(h), "hand-over %u of gateway %u: commit: %u connections, %u left",
		    h->number, h->machine, in.queues, out.left + in.left);
	if (in.queues + in.left != out.queues)
		world_fail(h->all->w, "hand-over %u of gateway %u: %u of %u connections were taken",
			   h->number, h->machine, in.queues + in.left, out.queues);
	gateways_disturb(h->all);
	gateways_judge_hand(h->last);
	gateway_hands(h->last, h->next);
	h->served = h->next->process;
	h->says_at =
		rd_sim_now(sim_of(h)) +
		rd_sim_below(sim_of(h), rd_sim_chance(sim_of(h), 1, 4) ? SAYS_LATE : SAYS_SOON);
	old_leaves(h);
	next_step(h, HAND_COMMITTED);
}

static void next_serves(struct hand_over *h)
{
	struct rdt_target *t = h->next->target;

	rdt_ns_hand(t, RDT_HAND_BEGIN);
	rdt_move_start(t);
	rdt_listeners_hold(t, false);
	rdt_inherit_told_all(h->hand.inherit);
	rdt_ns_left_forget(t, h->hand.inherit);
	rdt_ns_records_tell(t, h->hand.open);
	/* A listener that it still has would keep the address in use. */
	h->next->env.inherit = NULL;
	rdt_inherit_free(&h->hand.inherit);
}

static void begin_to_serve(struct hand_over *h)
{
	if (happens_in(h, h->kills, DIES_IN)) {
		gateways_not_handed(h->all);
		gateways_disturb(h->all);
		gateway_kill(h->next); /* hand_ends() */
		return;
	}
	next_serves(h);
	next_step(h, HAND_LEAVING);
}

/* Does the process that took over serve still? */
static bool next_is_up(const struct hand_over *h)
{
	return h->next->state == GATEWAY_UP && h->next->process == h->served;
}

/* Is it the process that has handed over, and can still do something? */
static bool is_leaving(const struct hand_over *h, const struct gateway *gw)
{
	return h && gw == h->last && !gw->process->dead &&
	       (h->state == HAND_COMMITTED || h->state == HAND_LEAVING);
}

bool hand_waits(const struct hand_over *h, const struct gateway *gw)
{
	return is_leaving(h, gw) && h->behind;
}

bool hand_lingers(const struct hand_over *h, const struct gateway *gw)
{
	return is_leaving(h, gw) && rd_sim_now(sim_of(h)) < h->says_at;
}

void hand_drained(struct hand_over *h, const struct gateway *gw)
{
	struct gateway_before before;

	if (!hand_waits(h, gw))
		return;
	rdt_ns_left_end(gw->target);
	h->behind = 0;
	if (!next_is_up(h))
		return;
	before = gateway_enter(h->next);
	if (hand_end(&h->hand, gw->target, h->next->target, h->next->sockets))
		world_fail(h->all->w, "hand-over %u of gateway %u: no records at the end: %s",
			   h->number, h->machine, h->hand.why);
	gateway_leave(before);
}

static void look_left(struct hand_over *h)
{
	bool gone = h->last->state == GATEWAY_DOWN;
	struct gateway_before before = gateway_enter(h->next);

	if (next_is_up(h) && !h->stored)
		rdt_ns_hand(h->next->target, RDT_HAND_TAKE);
	h->stored = true;
	if (gone) {
		drop_records(h);
		if (next_is_up(h) && h->behind)
			rdt_ns_left_serve(h->next->target, false);
		h->state = HAND_IDLE;
	} else {
		rd_sim_at(sim_of(h), &h->step, LOOK_AGAIN);
	}
	gateway_leave(before);
}

/* ---- the end of the process that hosts use ---- */

void hand_ends(struct hand_over *h, bool killed)
{
	struct gateway_before before;

	if (h && h->state == HAND_FAILING)
		old_goes_on(h); /* it has not been told yet */
	if (!h || h->state == HAND_IDLE || h->state >= HAND_LEAVING)
		return;
	if (h->state != HAND_COMMITTED) {
		if (h->state >= HAND_HOLDING)
			go_on(h);
		next_ends(h);
		return;
	}
	before = gateway_enter(h->next);
	if (killed)
		rdt_move_done(h->next->target);
	else
		next_serves(h);
	gateway_leave(before);
	next_step(h, HAND_LEAVING);
}

/* ---- what goes wrong ---- */

/* Whose turn is it? */
static struct gateway *who_acts(const struct hand_over *h)
{
	return h->state == HAND_MOVING || h->state == HAND_COMMITTED ? h->next : h->last;
}

/* Returns whether somebody ends instead of the next step. */
static bool somebody_dies(struct hand_over *h)
{
	if (h->state >= HAND_COMMITTED || !happens_in(h, h->kills, DIES_IN))
		return false;
	gateways_not_handed(h->all);
	gateways_disturb(h->all);
	if (rd_sim_chance(sim_of(h), 1, 4))
		gateway_kill(h->last); /* hand_ends() */
	else
		next_ends(h);
	return true;
}

static void hand_step(struct rd_sim_event *event)
{
	static void (*const steps[])(struct hand_over * h) = {
		[HAND_OPENING] = open_images,   [HAND_READY] = hold_all,
		[HAND_SETTLING] = look_settled, [HAND_MOVING] = take_all,
		[HAND_TOOK] = commit,           [HAND_COMMITTED] = begin_to_serve,
		[HAND_LEAVING] = look_left,     [HAND_FAILING] = old_goes_on,
		[HAND_FAILED] = clean_up,
	};
	struct hand_over *h = rd_container_of(event, struct hand_over, step);
	const struct gateway *gw = who_acts(h);
	uint64_t until = later_of(gateway_actors(gw)->stalled_until, gw->process->stalled_until);
	struct gateway_before before;

	if (until > rd_sim_now(sim_of(h))) {
		rd_sim_at(sim_of(h), event, fault_wait(sim_of(h), until));
		return;
	}
	if (somebody_dies(h))
		return;
	if (h->state == HAND_READY && happens_in(h, h->stands, STANDS_IN))
		gateway_stall(h->next, rd_sim_below(sim_of(h), STAND_MAX / 4));
	before = gateway_enter(gw);
	steps[h->state](h);
	gateway_leave(before);
}

/* ---- life ---- */

int hand_new(struct gateways *all, unsigned int number, bool kills, bool stands,
	     struct hand_over **out)
{
	struct hand_over *h = calloc(1, sizeof(*h));

	*out = h;
	if (!h)
		return -ENOMEM;
	h->all = all;
	h->machine = number;
	h->kills = kills;
	h->stands = stands;
	h->step.fn = hand_step;
	h->late.fn = hand_is_late;
	hand_init(&h->hand);
	return 0;
}

void hand_free(struct hand_over **out)
{
	struct hand_over *h = *out;

	if (!h)
		return;
	rd_sim_cancel(sim_of(h), &h->step);
	rd_sim_cancel(sim_of(h), &h->late);
	if (h->next)
		drop_records(h);
	free(h);
	*out = NULL;
}
