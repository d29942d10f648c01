/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <errno.h>
#include <stdlib.h>

#include "fault_parts.h"
#include "upgrade.h"

#define NEXT_FAULT  (600 * RD_NSEC_PER_MSEC) /* at most, from one to the next */
#define HOLD_MAX    (12 * RD_NSEC_PER_SEC)
#define STALL_MAX   (25 * RD_NSEC_PER_SEC)
#define PORT_MAX    (8 * RD_NSEC_PER_SEC)
#define SLOW_MAX    (35 * RD_NSEC_PER_SEC)
#define RESTART_MAX (15 * RD_NSEC_PER_SEC) /* the target waits for I/O for 10 s */
#define STORAGE_MAX (5 * RD_NSEC_PER_SEC)
#define KEYS_ACTIVE (3 * RD_NSEC_PER_SEC) /* at most, until keys change, or it is quiet, again */

struct faults {
	struct world *w;
	struct rd_sim_event next;
	struct fault_port ports[WORLD_PATHS];
	struct rd_sim_event storage_well;
	struct rd_sim_event breaks; /* profile `fence`: a connection is lost, or */
	bool breaks_path;           /* a path */
	struct store_faults normal;
};

const unsigned int fault_upgrade = 1u << FAULT_UPGRADE;
const unsigned int faults_on_request = 1u << FAULT_UPGRADE;

const char *const fault_names[] = {
	[FAULT_CUT] = "cut",        [FAULT_HALF_OPEN] = "half-open", [FAULT_HOLD] = "hold",
	[FAULT_PORT] = "port",      [FAULT_STALL] = "stall",         [FAULT_SLOW] = "slow",
	[FAULT_ERROR] = "error",    [FAULT_RESTART] = "restart",     [FAULT_POWER] = "power",
	[FAULT_CANCEL] = "cancel",  [FAULT_RELOAD] = "reload",       [FAULT_BLOCK] = "block",
	[FAULT_SPACE] = "no-space", [FAULT_SYNC] = "sync",           [FAULT_RESERVE] = "reserve",
	[FAULT_HUNG] = "hung",      [FAULT_UPGRADE] = "upgrade",     [FAULTS] = NULL,
};

/* Most faults are short, few are long. */
static uint64_t duration(struct world *w, uint64_t max)
{
	return rd_sim_below(w->sim, rd_sim_chance(w->sim, 1, 4) ? max : max / 50);
}

/* One path of one host: all its connections, or only one. */
static void hold(struct world *w)
{
	static const enum rd_sim_fault holds[] = {RD_SIM_HOLD, RD_SIM_HOLD_TO_ACTIVE,
						  RD_SIM_HOLD_TO_PASSIVE};
	unsigned int host = (unsigned int)rd_sim_below(w->sim, WORLD_HOSTS);
	unsigned int path = (unsigned int)rd_sim_below(w->sim, WORLD_PATHS);
	bool both;
	bool one = rd_sim_chance(w->sim, 1, 2);
	uint64_t ns = duration(w, HOLD_MAX);

	world_disturb(w, ns);
	/* Each random number in a statement of its own: compilers order arguments differently. */
	if (one) {
		fault_break_link(w, holds[rd_sim_below(w->sim, 3)], ns);
		return;
	}
	both = rd_sim_chance(w->sim, 1, 2);
	rd_sim_tell(w->sim, "the path of host %u to port %u holds its messages", host,
		    WORLD_PORT + path);
	fault_hold_path(w, host, path, both, ns);
}

static void port_goes(struct faults *f)
{
	struct world *w = f->w;
	unsigned int path = (unsigned int)rd_sim_below(w->sim, WORLD_PATHS);
	uint64_t ns = duration(w, PORT_MAX);

	world_disturb(w, ns);
	fault_port_down(&f->ports[path], ns);
}

static void stall_actor(struct world *w, unsigned int number, uint64_t ns)
{
	struct actor *actor = &w->actors[number];

	world_disturb(w, ns);
	actor->stalled_until = rd_sim_now(w->sim) + ns;
	rd_sim_tell(w->sim, "%s %u stands still", actor->name, actor->number);
}

static void stall(struct world *w)
{
	unsigned int number = (unsigned int)rd_sim_below(w->sim, ACTOR_GATEWAY);

	if (number < ACTOR_DEV)
		number += w->serving->first;
	stall_actor(w, number, duration(w, STALL_MAX));
}

static void storage_is_well(struct rd_sim_event *event)
{
	struct faults *f = rd_container_of(event, struct faults, storage_well);

	store_set_faults(f->w->store, &f->normal);
}

static void storage_suffers(struct faults *f, enum fault_kind kind)
{
	struct store_faults faults = f->normal;

	if (kind == FAULT_SLOW) {
		faults.slow_in = 4;
		faults.slow_ns = duration(f->w, SLOW_MAX);
		world_disturb(f->w, STORAGE_MAX + faults.slow_ns);
	} else if (kind == FAULT_SYNC) {
		faults.sync_fails_in = 4;
	} else if (kind == FAULT_SPACE) {
		faults.no_space_in = 4;
	} else {
		faults.fails_in = 4;
	}
	store_set_faults(f->w->store, &faults);
	rd_sim_at(f->w->sim, &f->storage_well, duration(f->w, STORAGE_MAX));
}

static void reconfigure(struct world *w)
{
	struct setup next = setup_change(
		w->sim, &w->setup.next,
		(struct setup_scope){.removes = !w->reserves,
				     .keys = w->secrets != NULL,
				     .only_keys = (w->opts.faults & FAULTS_KEYS) != 0});

	if (w->reconfigures)
		target_reload(w, &next);
}

static void target_restarts(struct world *w, enum target_stop how)
{
	if (w->target_state != TARGET_UP)
		return;
	world_disturb(w, RESTART_MAX);
	target_stop(w, how);
}

static void break_link(struct world *w, enum rd_sim_fault fault)
{
	world_disturb(w, 0);
	fault_break_link(w, fault, 0);
}

/* Half of the cuts, where digests find it. A log page that does not arrive may have been read: so
 * nobody judges what it is told. */
static bool corrupts(struct world *w)
{
	return w->digests && !w->observer && !w->discovery && rd_sim_chance(w->sim, 1, 2);
}

static void happens(struct faults *f, enum fault_kind kind)
{
	struct world *w = f->w;

	rd_sim_tell(w->sim, "fault: %s", fault_names[kind]);
	switch (kind) {
	case FAULT_CUT:
		break_link(w, corrupts(w) ? RD_SIM_CORRUPT : RD_SIM_CUT);
		break;
	case FAULT_HALF_OPEN:
		break_link(w, RD_SIM_HALF_OPEN);
		break;
	case FAULT_HOLD:
		hold(w);
		break;
	case FAULT_PORT:
		port_goes(f);
		break;
	case FAULT_STALL:
		stall(w);
		break;
	case FAULT_ERROR:
	case FAULT_SPACE:
	case FAULT_SYNC:
	case FAULT_SLOW:
		storage_suffers(f, kind);
		break;
	case FAULT_RESTART:
	case FAULT_POWER:
		/* It is rare, because a start takes more time than thousands of steps. */
		if (rd_sim_chance(w->sim, 1, 8))
			target_restarts(w, kind == FAULT_POWER ? TARGET_LOSES_POWER : TARGET_STOPS);
		break;
	case FAULT_BLOCK:
		store_block_next(w->store, duration(w, STALL_MAX));
		break;
	case FAULT_RELOAD:
		reconfigure(w);
		break;
	default:
		host_cancels(w->hosts[rd_sim_below(w->sim, WORLD_HOSTS)]);
		break;
	}
}

static void next_fault(struct rd_sim_event *event)
{
	struct faults *f = rd_container_of(event, struct faults, next);
	struct world *w = f->w;
	enum fault_kind kind = (enum fault_kind)rd_sim_below(w->sim, FAULT_RESERVE);

	if (w->ending)
		return;
	if (w->opts.faults & 1u << kind)
		happens(f, kind);
	/* As an administrator. */
	if (store_has_refused(w->store, rd_sim_now(w->sim)) && rd_sim_chance(w->sim, 1, 8))
		target_restarts(w, TARGET_STOPS);
	rd_sim_at(w->sim, &f->next, rd_sim_below(w->sim, NEXT_FAULT));
}

/* ---- the profile that aims at the stale-write fence ---- */

/* Hosts send lost writes again after 4 s. */
#define FENCE_FROM  (3 * RD_NSEC_PER_SEC)
#define FENCE_UP_TO (10 * RD_NSEC_PER_SEC)
/* Shorter than hosts wait, and than their keep-alive timeout: they may reconnect meanwhile. */
#define FENCE_SHORT (1500 * RD_NSEC_PER_MSEC)

static void link_breaks(struct rd_sim_event *event)
{
	struct faults *f = rd_container_of(event, struct faults, breaks);
	struct rd_sim *sim = f->w->sim;
	unsigned int host, path;

	if (!f->breaks_path) {
		fault_break_link(f->w, rd_sim_chance(sim, 1, 2) ? RD_SIM_CUT : RD_SIM_HALF_OPEN, 0);
		return;
	}
	host = (unsigned int)rd_sim_below(sim, WORLD_HOSTS);
	path = (unsigned int)rd_sim_below(sim, WORLD_PATHS);
	fault_lose_path(f->w, host, path);
}

/* A connection, or a path, is lost within @ns. */
static void break_within(struct faults *f, uint64_t ns, bool path)
{
	f->breaks_path = path;
	rd_sim_at(f->w->sim, &f->breaks, rd_sim_below(f->w->sim, ns));
}

/* One reactor stands still, within a turn or between two, and meanwhile a host loses a path, which
 * the target does not learn. Or the storage of all is slow, or a reactor stands still for a short
 * time, and a connection is lost, of which maybe only one end learns. Messages are not held:
 * commands that are delivered late are not covered by the fence. */
static void next_fence_fault(struct rd_sim_event *event)
{
	struct faults *f = rd_container_of(event, struct faults, next);
	struct world *w = f->w;
	uint64_t ns = FENCE_FROM + rd_sim_below(w->sim, FENCE_UP_TO - FENCE_FROM);
	struct store_faults slow = f->normal;

	if (w->ending)
		return;
	switch (rd_sim_below(w->sim, 6)) {
	case 0:
		store_block_next(w->store, ns);
		break_within(f, FENCE_SHORT, true);
		break;
	case 1:
		store_block_next(w->store, FENCE_SHORT);
		break_within(f, FENCE_SHORT, false);
		break;
	case 2:
	case 3:
		slow.slow_in = 2;
		slow.slow_ns = ns;
		store_set_faults(w->store, &slow);
		rd_sim_at(w->sim, &f->storage_well, RD_NSEC_PER_SEC);
		rd_sim_tell(w->sim, "fault: slow");
		break_within(f, RD_NSEC_PER_SEC, false);
		break;
	default:
		stall_actor(w,
			    w->serving->first + ACTOR_REACTOR +
				    (unsigned int)rd_sim_below(w->sim, WORLD_REACTORS),
			    ns);
		break_within(f, FENCE_SHORT, true);
		break;
	}
	rd_sim_at(w->sim, &f->next, ns + rd_sim_below(w->sim, RD_NSEC_PER_SEC));
}

/* ---- the profile that aims at keys that change ---- */

/* Old keys end after 300 s. Most times are short, or near that. */
static uint64_t quiet_time(struct world *w)
{
	uint64_t kind = rd_sim_below(w->sim, 4), ns = rd_sim_below(w->sim, 20 * RD_NSEC_PER_SEC);

	return kind == 0   ? ns
	       : kind == 1 ? 100 * RD_NSEC_PER_SEC + 5 * ns
			   : 285 * RD_NSEC_PER_SEC + ns;
}

static void next_keys_fault(struct rd_sim_event *event)
{
	static const enum fault_kind others[] = {FAULT_CUT, FAULT_STALL, FAULT_RESTART};
	struct faults *f = rd_container_of(event, struct faults, next);
	struct world *w = f->w;
	uint64_t ns = rd_sim_below(w->sim, KEYS_ACTIVE);

	if (w->ending)
		return;
	if (rd_sim_chance(w->sim, 2, 3))
		reconfigure(w);
	if (rd_sim_chance(w->sim, 1, 4))
		happens(f, others[rd_sim_below(w->sim, sizeof(others) / sizeof(others[0]))]);
	if (rd_sim_chance(w->sim, 1, 4)) {
		w->quiet_until = rd_sim_now(w->sim) + quiet_time(w);
		rd_sim_tell(w->sim, "it is quiet");
		ns += w->quiet_until - rd_sim_now(w->sim);
	}
	rd_sim_at(w->sim, &f->next, ns);
}

int faults_new(struct world *w, struct faults **out)
{
	struct faults *f = calloc(1, sizeof(*f));

	*out = f;
	if (!f)
		return -ENOMEM;
	f->w = w;
	f->next.fn = w->opts.faults & FAULTS_FENCE  ? next_fence_fault
		     : w->opts.faults & FAULTS_KEYS ? next_keys_fault
						    : next_fault;
	for (unsigned int i = 0; i < WORLD_PATHS; i++)
		fault_port_init(&f->ports[i], w, i);
	f->storage_well.fn = storage_is_well;
	f->breaks.fn = link_breaks;
	f->normal = (struct store_faults){.latency_ns = 8 * RD_NSEC_PER_MSEC};
	store_set_faults(w->store, &f->normal);
	if (!(w->opts.faults & FAULTS_FENCE))
		w->disturbed_until = 0;
	if (w->opts.faults & fault_upgrade && upgrade_new(w, &w->upgrade))
		return -ENOMEM;
	return rd_sim_at(w->sim, &f->next, rd_sim_below(w->sim, NEXT_FAULT));
}

void faults_heal(struct faults *f)
{
	struct world *w = f->w;

	fault_heal_parts(w);
	store_set_faults(w->store, &f->normal);
	store_block_next(w->store, 0);
}

void faults_free(struct faults *f)
{
	if (!f)
		return;
	upgrade_free(f->w->upgrade);
	rd_sim_cancel(f->w->sim, &f->next);
	rd_sim_cancel(f->w->sim, &f->storage_well);
	rd_sim_cancel(f->w->sim, &f->breaks);
	for (unsigned int i = 0; i < WORLD_PATHS; i++)
		rd_sim_cancel(f->w->sim, &f->ports[i].up);
	free(f);
}
